//! From a graph to its saturated e-graph: import, and the rules phase by phase.

use super::conditions::{FUNCTIONS, Match};
use super::merge;
use super::rules::{Expr, Phase, Rule, Rules};
use super::term::{Attr, Conflict, Facts, Graphs, Kind, Payload, Source, Sym, Term, attributes};
use super::{AlgebraError, Options, Report};
use egg::{Id, Searcher, Subst};
use ipu_program::graph::{Graph, OpKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An e-graph with where its terms come from.
pub struct Saturated {
    /// The e-graph.
    pub egraph: Graphs,
    /// Classes of the arguments.
    pub inputs: Vec<Id>,
    /// Classes of the results.
    pub outputs: Vec<Id>,
    /// The node of each operation of the imported graph.
    pub imported: Vec<Id>,
    /// Names of rules.
    pub names: Vec<Arc<str>>,
    /// By node, the rule that made it (an index in `names`); imported ones have none.
    pub made_by: Vec<Option<u32>>,
    /// What happened.
    pub report: Report,
}

/// Builds and saturates.
///
/// # Errors
/// A rule is wrong.
pub fn saturate(
    graph: &Graph,
    options: &Options,
    rules: &Rules,
) -> Result<Saturated, AlgebraError> {
    let mut s = import(graph)?;
    s.names = rules.rules.iter().map(|r| Arc::clone(&r.name)).collect();
    s.names.push(rules.group.name.as_str().into());
    let allowed = |r: &&Rule| options.numerics >= r.numerics.needs();
    let phase = |p: Phase| -> Vec<(u32, &Rule)> {
        (0u32..)
            .zip(&rules.rules)
            .filter(|(_, r)| r.phase == p && allowed(r))
            .collect()
    };
    let (a, b) = (phase(Phase::A), phase(Phase::B));
    let mut scheduler = Scheduler {
        options,
        fired: BTreeMap::new(),
        capped: BTreeSet::new(),
        iterations: 0,
        stop: None,
    };
    scheduler.run("A", &a, options.iterations_a, &mut s)?;
    let group = &rules.group;
    if scheduler.stop.is_none() && options.numerics >= group.numerics.needs() && options.groups {
        let index = rules.rules.len() as u32;
        s.egraph.analysis.rule = group.name.as_str().into();
        let merged = merge::groups(&mut s.egraph);
        s.made_by.resize(s.egraph.nodes().len(), Some(index));
        rebuild(&mut s.egraph)?;
        if merged > 0 {
            scheduler.fired.insert(index, merged);
        }
    }
    // Without a merge the first run is still saturated.
    if s.made_by.last().copied().flatten() == Some(rules.rules.len() as u32) {
        scheduler.run("A", &a, options.iterations_a, &mut s)?;
    }
    let before = s.egraph.nodes().len();
    scheduler.run("B", &b, options.iterations_b, &mut s)?;
    if s.egraph.nodes().len() != before {
        scheduler.run("A", &a, options.iterations_a, &mut s)?;
    }
    s.report = Report {
        nodes: s.egraph.total_size(),
        classes: s.egraph.number_of_classes(),
        iterations: scheduler.iterations,
        stop: scheduler.stop.unwrap_or_else(|| "saturated".to_owned()),
        rules: scheduler
            .fired
            .iter()
            .map(|(&i, &n)| (s.names[i as usize].to_string(), n))
            .collect(),
        caps: scheduler
            .capped
            .iter()
            .map(|&i| s.names[i as usize].to_string())
            .collect(),
    };
    Ok(s)
}

/// The graph as terms, one for each operation.
///
/// # Errors
/// The graph is not one that inference accepts.
pub fn import(graph: &Graph) -> Result<Saturated, AlgebraError> {
    let mut egraph = Graphs::new(Facts {
        graph: Arc::new(graph.clone()),
        sources: Vec::new(),
        rule: "import".into(),
        conflict: None,
    });
    let mut class = vec![None; graph.values.len()];
    let lost = |what: String| AlgebraError::Graph(what);
    let mut inputs = Vec::new();
    for (i, &input) in graph.inputs.iter().enumerate() {
        let id = egraph.add(Term {
            sym: Sym::Input,
            payload: Payload::Index(i as u32),
            children: Vec::new(),
        });
        class[input.0 as usize] = Some(id);
        inputs.push(id);
    }
    // Sources that are equal are one: parameters by name, all others by comparing them.
    let mut parameters: BTreeMap<(&str, String), u32> = BTreeMap::new();
    let mut others: Vec<u32> = Vec::new();
    let mut imported = Vec::with_capacity(graph.ops.len());
    for (i, op) in graph.ops.iter().enumerate() {
        let operands: Option<Vec<Id>> = op.operands.iter().map(|v| class[v.0 as usize]).collect();
        let Some(mut operands) = operands else {
            return Err(lost(format!(
                "operation {i} (nn.{}) uses a value before its definition",
                op.kind.name()
            )));
        };
        let ty = graph.ty(op.result);
        let known = attributes(&op.kind, ty).filter(|_| op.more_results.is_empty());
        let term = match known {
            Some((sym, attrs)) => {
                let mut children: Vec<Id> = attrs
                    .into_iter()
                    .map(|a| egraph.add(Term::attr(a)))
                    .collect();
                if sym == Sym::Linear && operands.len() == 2 {
                    operands.push(egraph.add(Term::new(Sym::Absent, Vec::new())));
                }
                children.extend(operands);
                Term::new(sym, children)
            }
            None => {
                let index = match &op.kind {
                    OpKind::Parameter { name } => *parameters
                        .entry((name, ty.to_string()))
                        .or_insert_with(|| new_source(&mut egraph, i)),
                    kind => {
                        let same = others.iter().copied().find(|&k| {
                            match egraph.analysis.sources.get(k as usize) {
                                Some(Source::Op(j)) => {
                                    let other = &graph.ops[*j];
                                    other.kind == *kind
                                        && graph.ty(other.result) == ty
                                        && other.more_results.len() == op.more_results.len()
                                }
                                _ => false,
                            }
                        });
                        match same {
                            Some(index) => index,
                            None => {
                                let index = new_source(&mut egraph, i);
                                others.push(index);
                                index
                            }
                        }
                    }
                };
                Term {
                    sym: Sym::Source,
                    payload: Payload::Index(index),
                    children: operands,
                }
            }
        };
        let id = egraph.add(term);
        imported.push(id);
        if op.more_results.is_empty() {
            class[op.result.0 as usize] = Some(id);
        } else {
            let results = std::iter::once(op.result).chain(op.more_results.iter().copied());
            for (n, v) in results.enumerate() {
                let index = egraph.add(Term::attr(Attr::Int(n as u32)));
                class[v.0 as usize] = Some(egraph.add(Term::new(Sym::Project, vec![index, id])));
            }
        }
    }
    let outputs: Option<Vec<Id>> = graph.outputs.iter().map(|v| class[v.0 as usize]).collect();
    let Some(outputs) = outputs else {
        return Err(lost("a result has no definition".to_owned()));
    };
    rebuild(&mut egraph)?;
    let nodes = egraph.nodes().len();
    Ok(Saturated {
        egraph,
        inputs,
        outputs,
        imported,
        names: Vec::new(),
        made_by: vec![None; nodes],
        report: Report::default(),
    })
}

fn new_source(egraph: &mut Graphs, op: usize) -> u32 {
    let sources = &mut egraph.analysis.sources;
    sources.push(Source::Op(op));
    sources.len() as u32 - 1
}

fn check(egraph: &Graphs) -> Result<(), AlgebraError> {
    match &egraph.analysis.conflict {
        None => Ok(()),
        Some(Conflict { rule, what: [a, b] }) => Err(AlgebraError::Unsound {
            rule: rule.to_string(),
            left: a.clone(),
            right: b.clone(),
        }),
    }
}

fn rebuild(egraph: &mut Graphs) -> Result<(), AlgebraError> {
    egraph.rebuild();
    check(egraph)
}

/// Matches of one pattern of a rule: the rule with its index, the right side, and the places.
type Found<'a> = (u32, &'a Rule, &'a Expr, Vec<(Id, Subst)>);

/// Applies every rule in every iteration, in the order of the table. Counts bound it, no clock.
struct Scheduler<'a> {
    options: &'a Options,
    /// By rule, how often it made or joined something.
    fired: BTreeMap<u32, u64>,
    /// Rules that had too many matches.
    capped: BTreeSet<u32>,
    iterations: usize,
    stop: Option<String>,
}

impl Scheduler<'_> {
    /// Iterates until nothing changes or a limit is hit.
    fn run(
        &mut self,
        phase: &str,
        rules: &[(u32, &Rule)],
        most: usize,
        s: &mut Saturated,
    ) -> Result<(), AlgebraError> {
        if self.stop.is_some() || rules.is_empty() {
            return Ok(());
        }
        for _ in 0..most {
            self.iterations += 1;
            if !self.iteration(rules, s)? || self.stop.is_some() {
                return Ok(());
            }
        }
        self.stop = Some(format!("iteration limit {most} of phase {phase}"));
        Ok(())
    }

    /// All rules once; whether anything changed.
    fn iteration(
        &mut self,
        rules: &[(u32, &Rule)],
        s: &mut Saturated,
    ) -> Result<bool, AlgebraError> {
        let mut found: Vec<Found<'_>> = Vec::new();
        for &(index, rule) in rules {
            if self.capped.contains(&index) {
                continue;
            }
            let limit = self.options.max_matches;
            let mut count = 0;
            let mut own = Vec::new();
            for (from, to) in &rule.sides {
                let mut matches: Vec<(Id, Subst)> = Vec::new();
                for m in from.search_with_limit(&s.egraph, limit + 1) {
                    let class = m.eclass;
                    matches.extend(m.substs.into_iter().map(|subst| (class, subst)));
                }
                count += matches.len();
                // Not in the order of tables, which is that of their history.
                matches.sort_by_key(|(class, _)| *class);
                own.push((index, rule, to, matches));
            }
            if count > limit {
                self.capped.insert(index);
                continue;
            }
            found.extend(own);
        }
        let mut changed = false;
        for (index, rule, to, matches) in found {
            for (class, subst) in matches {
                let nodes = s.egraph.nodes().len();
                let did = apply(&mut s.egraph, rule, to, class, &subst)?;
                s.made_by.resize(s.egraph.nodes().len(), Some(index));
                if did || s.egraph.nodes().len() != nodes {
                    changed = true;
                    *self.fired.entry(index).or_default() += 1;
                }
                if s.egraph.nodes().len() > self.options.max_nodes {
                    self.stop = Some(format!("node limit {}", self.options.max_nodes));
                    rebuild(&mut s.egraph)?;
                    return Ok(true);
                }
            }
        }
        rebuild(&mut s.egraph)?;
        Ok(changed)
    }
}

/// Applies a rule at one place; whether classes were joined.
fn apply(
    egraph: &mut Graphs,
    rule: &Rule,
    to: &Expr,
    class: Id,
    subst: &Subst,
) -> Result<bool, AlgebraError> {
    // Classes may have been joined since the match was found.
    let class = egraph.find(class);
    let m = Match {
        egraph,
        subst,
        class,
    };
    let holds = rule
        .guards
        .iter()
        .all(|g| (g.condition)(&m, &g.vars, g.number));
    if !holds {
        return Ok(false);
    }
    egraph.analysis.rule = Arc::clone(&rule.name);
    let Some(made) = instantiate(egraph, to, class, subst) else {
        return Ok(false);
    };
    check(egraph)?;
    let (left, right) = (&egraph[class], &egraph[made]);
    if left.data.kind != right.data.kind {
        let show = |c: &egg::EClass<Term, super::term::Data>| {
            let node = c.nodes.first();
            let term = node.map_or_else(String::new, |n| super::term::display(egraph, n));
            format!("{term} -> {}", c.data.kind)
        };
        return Err(AlgebraError::Unsound {
            rule: rule.name.to_string(),
            left: show(left),
            right: show(right),
        });
    }
    let joined = egraph.union(class, made);
    check(egraph)?;
    Ok(joined)
}

/// The right side of a rule; views that change nothing are left out. `None` where an attribute
/// cannot be computed.
fn instantiate(egraph: &mut Graphs, expr: &Expr, class: Id, subst: &Subst) -> Option<Id> {
    match expr {
        Expr::Var(v) => subst.get(*v).map(|&id| egraph.find(id)),
        Expr::Attr(attr) => Some(egraph.add(Term::attr(attr.clone()))),
        Expr::Absent => Some(egraph.add(Term::new(Sym::Absent, Vec::new()))),
        Expr::Call(function, args) => {
            let attr = {
                let m = Match {
                    egraph,
                    subst,
                    class,
                };
                (FUNCTIONS[*function].2)(&m, args)?
            };
            Some(egraph.add(Term::attr(attr)))
        }
        Expr::Op(sym, children) => {
            let children: Option<Vec<Id>> = children
                .iter()
                .map(|c| instantiate(egraph, c, class, subst))
                .collect();
            Some(add(egraph, *sym, children?))
        }
    }
}

/// Adds a term, or gives the operand of a view that changes nothing.
pub fn add(egraph: &mut Graphs, sym: Sym, children: Vec<Id>) -> Id {
    let data = |i: usize| children.get(i).map(|&c| &egraph[c].data);
    let list = |i: usize| match data(i).and_then(|d| d.attr()) {
        Some(Attr::List(list)) => Some(list.clone()),
        _ => None,
    };
    let operand = children.last().copied();
    let shape = operand.and_then(|id| egraph[id].data.ty().map(|t| t.shape.clone()));
    let keeps = match sym {
        Sym::Reshape | Sym::Broadcast => list(0).as_deref() == shape.as_deref(),
        Sym::Slice => list(2).as_deref() == shape.as_deref(),
        Sym::Transpose => list(0).is_some_and(|p| (0u32..).zip(p.iter()).all(|(i, &a)| i == a)),
        _ => false,
    };
    match operand {
        Some(id) if keeps && egraph[id].data.kind != Kind::Absent => id,
        _ => egraph.add(Term::new(sym, children)),
    }
}
