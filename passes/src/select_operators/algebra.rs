//! The algebra: equalities between operators, in an e-graph.
//!
//! Terms carry no layouts and no plans. Rules are directed and guarded by facts about shapes and
//! about which values the host knows; commutativity and associativity
//! are never rules of their own. The cheapest term of every class is chosen by a cost that the
//! caller supplies for each operator, its best plan.

use egg::{
    Analysis, CostFunction, DidMerge, EGraph, Extractor, Id, Language, Rewrite, Runner, StopReason,
    Subst, Var, define_language, rewrite,
};
use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind, UnaryKind, ValueId};
use ipu_program::host::{self, HostValues};
use ipu_program::infer::infer;
use ipu_program::types::TensorType;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Most iterations of saturation.
const MAX_ITERATIONS: usize = 30;
/// Most nodes of the e-graph.
const MAX_NODES: usize = 100_000;

/// A value of the graph that rules do not look into: argument or host value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf(u32);

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl FromStr for Leaf {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        s.strip_prefix('%')
            .and_then(|n| n.parse().ok())
            .map(Leaf)
            .ok_or(())
    }
}

/// An operation of the graph that rules see as a black box, named by its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opaque(u32);

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op%{}", self.0)
    }
}

impl FromStr for Opaque {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        s.strip_prefix("op%")
            .and_then(|n| n.parse().ok())
            .map(Opaque)
            .ok_or(())
    }
}

define_language! {
    enum Term {
        "matmul" = Matmul([Id; 2]),
        "add" = Add([Id; 2]),
        "sub" = Sub([Id; 2]),
        "mul" = Mul([Id; 2]),
        "div" = Div([Id; 2]),
        "max" = Max([Id; 2]),
        "min" = Min([Id; 2]),
        "relu" = Relu([Id; 1]),
        // x * w + b; b may be `none`
        "linear" = Linear([Id; 3]),
        // relu(x * w + b)
        "linear_relu" = LinearRelu([Id; 3]),
        "none" = None,
        Leaf(Leaf),
        // an operation that no rule knows, named by its result
        Opaque(Opaque, Vec<Id>),
    }
}

/// What is known of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    /// Its type; `None` only for the absent bias.
    ty: Option<TensorType>,
    /// Whether the host has its data before the program runs.
    host: bool,
}

/// Shapes and constness; the leaves' facts are given.
#[derive(Default)]
struct Shapes {
    leaves: BTreeMap<Leaf, Facts>,
    opaque: BTreeMap<Opaque, TensorType>,
    conflict: Option<String>,
}

impl Analysis<Term> for Shapes {
    type Data = Facts;

    fn make(egraph: &mut EGraph<Term, Self>, term: &Term, _: Id) -> Facts {
        match term {
            Term::Leaf(leaf) => egraph.analysis.leaves.get(leaf).cloned().unwrap_or(Facts {
                ty: None,
                host: false,
            }),
            Term::Opaque(op, _) => Facts {
                ty: egraph.analysis.opaque.get(op).cloned(),
                host: false,
            },
            Term::None => Facts {
                ty: None,
                host: true,
            },
            term => Facts {
                ty: operator(term)
                    .and_then(|kind| infer(&kind, &operand_types(egraph, term)?).ok()),
                host: false,
            },
        }
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        if a.ty != b.ty {
            // A wrong rule: reported by `rewrite_graph`, which then gives up.
            self.conflict
                .get_or_insert(format!("{:?} merged with {:?}", a.ty, b.ty));
        }
        let (old, other) = (a.host, b.host);
        a.host |= other;
        DidMerge(a.host != old, a.host != other)
    }
}

type Graphs = EGraph<Term, Shapes>;

/// Whether the class is a matrix (rank 2) that the host knows.
fn weight(var: &str) -> impl Fn(&mut Graphs, Id, &Subst) -> bool + use<> {
    let var = variable(var);
    move |egraph, _, subst| {
        var.is_some_and(|v| {
            let facts = &egraph[subst[v]].data;
            facts.host && facts.ty.as_ref().is_some_and(|t| t.shape.len() == 2)
        })
    }
}

/// Whether the class is a vector that the host knows, as long as the rows of `of`.
fn bias(var: &str, of: &str) -> impl Fn(&mut Graphs, Id, &Subst) -> bool + use<> {
    let (var, of) = (variable(var), variable(of));
    move |egraph, _, subst| {
        let (Some(var), Some(of)) = (var, of) else {
            return false;
        };
        let columns = egraph[subst[of]]
            .data
            .ty
            .as_ref()
            .and_then(|t| t.shape.last().copied());
        let facts = &egraph[subst[var]].data;
        facts.host
            && facts.ty.as_ref().is_some_and(|t| {
                // [N] or [1, ..., 1, N]
                t.shape.last().copied() == columns
                    && t.elements() == u64::from(columns.unwrap_or(0))
            })
    }
}

fn variable(name: &str) -> Option<Var> {
    name.parse().ok()
}

/// The rules, each exact or a removal of a rounding step; the names are those of the table in
/// `docs/operator-selection.md`.
fn rules() -> Vec<Rewrite<Term, Shapes>> {
    vec![
        rewrite!("linear-of-matmul"; "(matmul ?x ?w)" => "(linear ?x ?w none)" if weight("?w")),
        rewrite!("bias-right"; "(add (linear ?x ?w none) ?b)" => "(linear ?x ?w ?b)"
            if bias("?b", "?w")),
        rewrite!("bias-left"; "(add ?b (linear ?x ?w none))" => "(linear ?x ?w ?b)"
            if bias("?b", "?w")),
        rewrite!("relu-of-linear"; "(relu (linear ?x ?w ?b))" => "(linear_relu ?x ?w ?b)"),
        rewrite!("relu-idempotent"; "(relu (relu ?x))" => "(relu ?x)"),
        rewrite!("relu-of-linear-relu"; "(relu (linear_relu ?x ?w ?b))" => "(linear_relu ?x ?w ?b)"),
    ]
}

/// Names of the rules with their two sides, for documentation.
pub fn rule_names() -> Vec<String> {
    rules().iter().map(|r| r.name.to_string()).collect()
}

/// The cost of one operator, given the types of its operands: estimated cycles of its best plan,
/// `None` when it has none.
pub type OperatorCost<'a> = dyn Fn(&OpKind, &[TensorType]) -> Option<u64> + 'a;

struct Cost<'a> {
    egraph: &'a Graphs,
    operator: &'a OperatorCost<'a>,
}

/// Cost of an operator without a plan: more than any real program.
const NO_PLAN: u64 = 1 << 50;

impl CostFunction<Term> for Cost<'_> {
    type Cost = u64;
    fn cost<C: FnMut(Id) -> u64>(&mut self, term: &Term, mut costs: C) -> u64 {
        let own = match operator(term) {
            None => 0,
            Some(kind) => {
                let types = operand_types(self.egraph, term);
                types
                    .and_then(|t| (self.operator)(&kind, &t))
                    .unwrap_or(NO_PLAN)
            }
        };
        // One unit a node keeps terms finite and prefers the smaller of equals.
        term.fold(own.saturating_add(1), |sum, child| {
            sum.saturating_add(costs(child))
        })
    }
}

/// The types of a term's children, without the absent bias.
fn operand_types(egraph: &Graphs, term: &Term) -> Option<Vec<TensorType>> {
    let children = term.children().iter().filter(|c| !is_none(egraph, **c));
    children.map(|c| egraph[*c].data.ty.clone()).collect()
}

fn is_none(egraph: &Graphs, id: Id) -> bool {
    egraph[id].nodes.iter().any(|n| matches!(n, Term::None))
}

/// The operator of a term, `None` for leaves.
fn operator(term: &Term) -> Option<OpKind> {
    Some(match term {
        Term::Matmul(_) => OpKind::MATMUL,
        Term::Add(_) => OpKind::Binary(BinaryKind::Add),
        Term::Sub(_) => OpKind::Binary(BinaryKind::Sub),
        Term::Mul(_) => OpKind::Binary(BinaryKind::Mul),
        Term::Div(_) => OpKind::Binary(BinaryKind::Div),
        Term::Max(_) => OpKind::Binary(BinaryKind::Max),
        Term::Min(_) => OpKind::Binary(BinaryKind::Min),
        Term::Relu(_) => OpKind::RELU,
        Term::Linear(_) => OpKind::Linear {
            activation: Activation::None,
        },
        Term::LinearRelu(_) => OpKind::Linear {
            activation: Activation::Relu,
        },
        Term::None | Term::Leaf(_) | Term::Opaque(..) => return None,
    })
}

/// What saturation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Nodes of the e-graph at the end.
    pub nodes: usize,
    /// Classes of the e-graph at the end.
    pub classes: usize,
    /// Iterations.
    pub iterations: usize,
    /// Why it stopped.
    pub stop: String,
}

/// A rule merged classes of different types: an error of the compiler.
#[derive(Debug, thiserror::Error)]
#[error("operator algebra: a rewrite rule is unsound ({0})")]
pub struct Unsound(String);

/// Rewrites a graph to the cheapest equal one.
///
/// # Errors
/// A rule merged values of different types.
pub fn rewrite_graph(graph: &Graph, cost: &OperatorCost<'_>) -> Result<(Graph, Report), Unsound> {
    let mut egraph = Graphs::new(Shapes::default());
    let mut class: BTreeMap<ValueId, Id> = BTreeMap::new();
    let leaf = |egraph: &mut Graphs, v: ValueId, host: bool| {
        let leaf = Leaf(v.0);
        let facts = Facts {
            ty: Some(graph.ty(v).clone()),
            host,
        };
        egraph.analysis.leaves.insert(leaf, facts);
        egraph.add(Term::Leaf(leaf))
    };
    for &input in &graph.inputs {
        class.insert(input, leaf(&mut egraph, input, false));
    }
    let mut located: Vec<(Id, &str)> = Vec::new();
    let known = HostValues::of(graph);
    for op in &graph.ops {
        let args: Vec<Id> = op
            .operands
            .iter()
            .filter_map(|v| class.get(v).copied())
            .collect();
        let term = match (&op.kind, args.as_slice()) {
            _ if known.contains(op.result) => None,
            (
                OpKind::Matmul {
                    transpose_a: false,
                    transpose_b: false,
                },
                &[x, w],
            ) => Some(Term::Matmul([x, w])),
            (OpKind::Unary(UnaryKind::Relu), &[x]) => Some(Term::Relu([x])),
            (OpKind::Binary(kind), &[a, b]) => Some(match kind {
                BinaryKind::Add => Term::Add([a, b]),
                BinaryKind::Sub => Term::Sub([a, b]),
                BinaryKind::Mul => Term::Mul([a, b]),
                BinaryKind::Div => Term::Div([a, b]),
                BinaryKind::Max => Term::Max([a, b]),
                BinaryKind::Min => Term::Min([a, b]),
            }),
            (OpKind::Linear { activation }, &[x, w, ref rest @ ..]) => {
                let b = rest
                    .first()
                    .copied()
                    .unwrap_or_else(|| egraph.add(Term::None));
                Some(match activation {
                    Activation::None => Term::Linear([x, w, b]),
                    Activation::Relu => Term::LinearRelu([x, w, b]),
                })
            }
            (_, args) => {
                let name = Opaque(op.result.0);
                let ty = graph.ty(op.result).clone();
                egraph.analysis.opaque.insert(name, ty);
                Some(Term::Opaque(name, args.to_vec()))
            }
        };
        let id = match term {
            Some(term) => egraph.add(term),
            None => leaf(&mut egraph, op.result, true),
        };
        class.insert(op.result, id);
        located.push((id, &op.location));
    }
    let runner = Runner::<Term, Shapes>::new(Shapes::default())
        .with_egraph(egraph)
        .with_iter_limit(MAX_ITERATIONS)
        .with_node_limit(MAX_NODES)
        // Counts bound the search, never the clock.
        .with_time_limit(std::time::Duration::MAX)
        .with_scheduler(egg::SimpleScheduler)
        .run(&rules());
    let egraph = &runner.egraph;
    if let Some(conflict) = &egraph.analysis.conflict {
        return Err(Unsound(conflict.clone()));
    }
    let report = Report {
        nodes: egraph.total_size(),
        classes: egraph.number_of_classes(),
        iterations: runner.iterations.len(),
        stop: match &runner.stop_reason {
            Some(StopReason::Saturated) | None => "saturated".to_owned(),
            Some(StopReason::IterationLimit(n)) => format!("iteration limit {n}"),
            Some(StopReason::NodeLimit(n)) => format!("node limit {n}"),
            Some(other) => format!("{other:?}"),
        },
    };
    let mut locations: BTreeMap<Id, &str> = BTreeMap::new();
    for (id, location) in located {
        locations.entry(egraph.find(id)).or_insert(location);
    }
    let extractor = Extractor::new(
        egraph,
        Cost {
            egraph,
            operator: cost,
        },
    );
    let mut export = Export {
        source: graph,
        egraph,
        extractor,
        locations,
        out: Graph {
            name: graph.name.clone(),
            ..Graph::default()
        },
        done: BTreeMap::new(),
        copied: Vec::new(),
    };
    for &input in &graph.inputs {
        let v = export.out.add_value(graph.ty(input).clone());
        export.out.inputs.push(v);
        export.done.insert(egraph.find(class[&input]), v);
    }
    for &output in &graph.outputs {
        let v = class.get(&output).and_then(|&id| export.value(id));
        export
            .out
            .outputs
            .push(v.ok_or_else(|| Unsound(format!("no term for {output:?}")))?);
    }
    Ok((export.out, report))
}

struct Export<'a> {
    source: &'a Graph,
    egraph: &'a Graphs,
    extractor: Extractor<'a, Cost<'a>, Term, Shapes>,
    locations: BTreeMap<Id, &'a str>,
    out: Graph,
    done: BTreeMap<Id, ValueId>,
    /// The new value of each host value that was copied.
    copied: Vec<Option<ValueId>>,
}

impl Export<'_> {
    /// Builds the chosen term of a class, children first (with an explicit stack: models are
    /// deep); `None` for the absent bias.
    fn value(&mut self, root: Id) -> Option<ValueId> {
        let root = self.egraph.find(root);
        let mut stack = vec![(root, false)];
        while let Some((id, visited)) = stack.pop() {
            let id = self.egraph.find(id);
            if self.done.contains_key(&id) {
                continue;
            }
            let term = self.extractor.find_best_node(id).clone();
            if !visited {
                stack.push((id, true));
                stack.extend(term.children().iter().rev().map(|&c| (c, false)));
                continue;
            }
            let location = self.locations.get(&id).copied().unwrap_or("").to_owned();
            let value = match &term {
                Term::None => continue,
                // An argument is there already; the host computes what else is a leaf.
                Term::Leaf(Leaf(v)) => {
                    let v = ValueId(*v);
                    match host::copy(self.source, v, &mut self.out, &mut self.copied) {
                        Some(v) => v,
                        None => continue,
                    }
                }
                Term::Opaque(Opaque(v), _) => {
                    let v = ValueId(*v);
                    let Some(op) = self.source.definition(v) else {
                        continue;
                    };
                    let ty = self.source.ty(v).clone();
                    let operands = self.operands(&term);
                    self.out
                        .add_op(op.kind.clone(), operands, ty, op.location.clone())
                }
                term => {
                    let kind = operator(term)?;
                    let ty = self.egraph[id].data.ty.clone()?;
                    let operands = self.operands(term);
                    self.out.add_op(kind, operands, ty, location)
                }
            };
            self.done.insert(id, value);
        }
        self.done.get(&root).copied()
    }

    /// The values of a term's children, without the absent bias.
    fn operands(&self, term: &Term) -> Vec<ValueId> {
        term.children()
            .iter()
            .filter_map(|c| self.done.get(&self.egraph.find(*c)).copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::ElementType;
    use pretty_assertions::assert_eq;

    fn t(shape: &[u32]) -> TensorType {
        TensorType::new(shape, ElementType::F16)
    }

    fn parameter(g: &mut Graph, name: &str, shape: &[u32]) -> ValueId {
        g.add_op(
            OpKind::Parameter { name: name.into() },
            vec![],
            t(shape),
            name.into(),
        )
    }

    fn names(g: &Graph) -> Vec<String> {
        g.ops
            .iter()
            .map(|o| format!("{}/{}", o.kind.name(), o.operands.len()))
            .collect()
    }

    fn cheap(kind: &OpKind, _: &[TensorType]) -> Option<u64> {
        (*kind != OpKind::MATMUL).then_some(100)
    }

    /// relu(x * w + b) with the bias on either side.
    fn layer(bias_left: bool, bias_shape: &[u32]) -> Graph {
        let mut g = Graph {
            name: "main".into(),
            ..Graph::default()
        };
        let x = g.add_value(t(&[5, 8]));
        g.inputs.push(x);
        let w = parameter(&mut g, "w", &[8, 3]);
        let b = parameter(&mut g, "b", bias_shape);
        let y = g.add_op(
            OpKind::Matmul {
                transpose_a: false,
                transpose_b: false,
            },
            vec![x, w],
            t(&[5, 3]),
            "mm".into(),
        );
        let args = if bias_left { vec![b, y] } else { vec![y, b] };
        let z = g.add_op(
            OpKind::Binary(BinaryKind::Add),
            args,
            t(&[5, 3]),
            "add".into(),
        );
        let r = g.add_op(OpKind::RELU, vec![z], t(&[5, 3]), "relu".into());
        g.outputs.push(r);
        g
    }

    #[test]
    fn layer_becomes_one_linear() {
        for left in [false, true] {
            let (g, report) = rewrite_graph(&layer(left, &[3]), &cheap).unwrap();
            assert_eq!(names(&g), ["parameter/0", "parameter/0", "linear/3"]);
            assert_eq!(g.ops[2].location, "relu");
            assert_eq!(
                g.ops[2].kind,
                OpKind::Linear {
                    activation: Activation::Relu
                }
            );
            assert_eq!(report.stop, "saturated");
        }
    }

    #[test]
    fn a_full_matrix_is_no_bias() {
        let (g, _) = rewrite_graph(&layer(false, &[5, 3]), &cheap).unwrap();
        assert_eq!(
            names(&g),
            ["parameter/0", "linear/2", "parameter/0", "add/2", "relu/1"]
        );
    }

    #[test]
    fn shared_values_stay_shared() {
        let mut g = layer(false, &[3]);
        let y = g.outputs[0];
        let twice = g.add_op(
            OpKind::Binary(BinaryKind::Mul),
            vec![y, y],
            t(&[5, 3]),
            "m".into(),
        );
        g.outputs.push(twice);
        let (g, _) = rewrite_graph(&g, &cheap).unwrap();
        assert_eq!(
            names(&g),
            ["parameter/0", "parameter/0", "linear/3", "mul/2"]
        );
        assert_eq!(g.ops[3].operands, vec![g.outputs[0], g.outputs[0]]);
    }

    #[test]
    fn deep_models_do_not_overflow_the_stack() {
        let mut g = Graph {
            name: "main".into(),
            ..Graph::default()
        };
        let mut x = g.add_value(t(&[1, 4]));
        g.inputs.push(x);
        let b = parameter(&mut g, "b", &[1, 4]);
        for _ in 0..2000 {
            let args = vec![x, b];
            x = g.add_op(
                OpKind::Binary(BinaryKind::Add),
                args,
                t(&[1, 4]),
                "add".into(),
            );
        }
        g.outputs.push(x);
        let (g, _) = rewrite_graph(&g, &cheap).unwrap();
        assert_eq!(g.ops.len(), 2001);
    }
}
