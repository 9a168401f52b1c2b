//! The saturated e-graph as plain tables: classes in the order of their first terms, operators
//! instead of symbols and attributes. Everything after saturation works on these.

use super::saturate::Saturated;
use super::term::{Attr, Kind, Payload, Sym, Term, operator};
use egg::Id;
use ipu_program::graph::{Graph, OpKind};
use ipu_program::types::TensorType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Index of a class.
pub type ClassId = u32;

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Argument of the function.
    Input(u32),
    /// The bias that is not there.
    Absent,
    /// An operator; its operands are the children.
    Op(OpKind),
    /// Result number of an operator with several.
    Project(u32),
}

/// An alternative of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub content: Content,
    /// Classes of its operands.
    pub children: Vec<ClassId>,
    /// The rule that made it, in [`Frozen::rules`].
    pub rule: Option<u32>,
    /// Operations of the imported graph that it is.
    pub ops: Vec<usize>,
}

/// Equal values.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Alternatives, in the order in which they were found.
    pub nodes: Vec<Node>,
    /// Types of the results; none for the absent bias.
    pub types: Vec<TensorType>,
    /// Whether the host knows it.
    pub host: bool,
}

impl Class {
    /// Operations of the imported graph that have this value.
    pub fn ops(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().flat_map(|n| n.ops.iter().copied())
    }
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// All classes that are no attributes.
    pub classes: Vec<Class>,
    /// Of the arguments.
    pub inputs: Vec<ClassId>,
    /// Of the results.
    pub outputs: Vec<ClassId>,
    /// Class of each operation of the imported graph.
    pub of_op: Vec<ClassId>,
    /// Names of rules.
    pub rules: Vec<Arc<str>>,
    /// What was imported.
    pub graph: Arc<Graph>,
}

/// Reads an e-graph; `None` if it has a term without meaning.
pub fn freeze(s: &Saturated) -> Option<Frozen> {
    let egraph = &s.egraph;
    let mut index: BTreeMap<Id, ClassId> = BTreeMap::new();
    let mut classes: Vec<Class> = Vec::new();
    let mut terms: Vec<Vec<Term>> = Vec::new();
    let mut ops: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    for (op, &id) in s.imported.iter().enumerate() {
        ops.entry(id).or_default().push(op);
    }
    let nodes = egraph.nodes();
    for i in 0..nodes.len() {
        let class = egraph.find(Id::from(i));
        let data = &egraph[class].data;
        let types = match &data.kind {
            Kind::Attr(_) => continue,
            Kind::Tensor(ty) => vec![ty.clone()],
            Kind::Tuple(types) => types.clone(),
            Kind::Absent => Vec::new(),
            Kind::Broken => return None,
        };
        index.entry(class).or_insert_with(|| {
            classes.push(Class {
                nodes: Vec::new(),
                types,
                host: data.host,
            });
            terms.push(Vec::new());
            classes.len() as ClassId - 1
        });
    }
    for (i, term) in nodes.iter().enumerate() {
        let class = egraph.find(Id::from(i));
        let Some(&c) = index.get(&class) else {
            continue;
        };
        let term = Term {
            children: term.children.iter().map(|&id| egraph.find(id)).collect(),
            ..term.clone()
        };
        let imports = ops.remove(&Id::from(i)).unwrap_or_default();
        let known = terms[c as usize].iter().position(|t| *t == term);
        if let Some(at) = known {
            classes[c as usize].nodes[at].ops.extend(imports);
            continue;
        }
        let attr = |i: usize| egraph[*term.children.get(i)?].data.attr();
        let content = match (term.sym, &term.payload) {
            (Sym::Input, Payload::Index(i)) => Content::Input(*i),
            (Sym::Source, Payload::Index(i)) => Content::Op(egraph.analysis.source_kind(*i)?.0),
            (Sym::Absent, _) => Content::Absent,
            (Sym::Project, _) => match attr(0)? {
                Attr::Int(i) => Content::Project(*i),
                _ => return None,
            },
            (sym, _) => Content::Op(operator(sym, attr)?),
        };
        let operands = match term.sym {
            Sym::Source => &term.children[..],
            _ => term.operands(),
        };
        let children: Option<Vec<ClassId>> =
            operands.iter().map(|id| index.get(id).copied()).collect();
        let children = children?;
        terms[c as usize].push(term);
        classes[c as usize].nodes.push(Node {
            content,
            children,
            rule: s.made_by[i],
            ops: imports,
        });
    }
    let of = |id: &Id| index.get(&egraph.find(*id)).copied();
    let all = |ids: &[Id]| -> Option<Vec<ClassId>> { ids.iter().map(of).collect() };
    Some(Frozen {
        inputs: all(&s.inputs)?,
        outputs: all(&s.outputs)?,
        of_op: all(&s.imported)?,
        classes,
        rules: s.names.clone(),
        graph: Arc::clone(&egraph.analysis.graph),
    })
}

impl Frozen {
    /// A class.
    pub fn class(&self, id: ClassId) -> &Class {
        &self.classes[id as usize]
    }

    /// The children of a node that are values: without the absent bias.
    pub fn operands<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = ClassId> + 'a {
        node.children
            .iter()
            .copied()
            .filter(|&c| !self.class(c).types.is_empty())
    }

    /// Of each class that the host knows, the smallest term as an index of its node.
    pub fn recipes(&self) -> Vec<Option<usize>> {
        let mut size: Vec<Option<u64>> = vec![None; self.classes.len()];
        let mut best: Vec<Option<usize>> = vec![None; self.classes.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (c, class) in self.classes.iter().enumerate() {
                if !class.host {
                    continue;
                }
                for (n, node) in class.nodes.iter().enumerate() {
                    let own: Option<u64> = self
                        .operands(node)
                        .try_fold(1u64, |sum, d| Some(sum.saturating_add(size[d as usize]?)));
                    if let Some(own) = own
                        && size[c].is_none_or(|s| own < s)
                    {
                        size[c] = Some(own);
                        best[c] = Some(n);
                        changed = true;
                    }
                }
            }
        }
        best
    }
}
