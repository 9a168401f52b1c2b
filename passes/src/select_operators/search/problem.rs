//! What the search works on: the operators that take time, what each reads, and how long values
//! live.

use super::space;
use crate::select_operators::views::Views;
use ipu_program::graph::{Graph, OpKind, ValueId};
use ipu_program::host::HostValues;
use ipu_program::tile::View;
use ipu_program::types::TensorType;
use std::collections::HashMap;

/// How a value comes from the value that is stored, and in what type it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Type of the stored value.
    pub from: TensorType,
    /// The renaming of elements, `None` for the value itself.
    pub view: Option<View>,
    /// Type that the operator reads.
    pub to: TensorType,
    /// Whether the value has another name than the stored one, so that even in its layout it is a
    /// copy.
    pub renamed: bool,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host writes it in whatever layout is wanted.
    Host,
    /// A stored value.
    Stored,
}

/// One operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The value.
    pub value: ValueId,
    /// The stored value behind it.
    pub base: ValueId,
    /// Where it comes from.
    pub origin: Origin,
    /// Index in [`Problem::accesses`].
    pub access: u32,
}

/// One operator that needs a plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index in the operators of the graph.
    pub op: usize,
    /// Its operands.
    pub operands: Vec<Operand>,
    /// Equal for operators with the same plans and prices.
    pub signature: u32,
}

/// A graph, ready to be searched.
pub struct Problem<'a> {
    /// The graph, in normal form.
    pub graph: &'a Graph,
    /// Its views.
    pub views: Views,
    /// What the host computes.
    host: HostValues,
    /// Operators that need plans, in program order.
    pub steps: Vec<Step>,
    /// Every way in which an operand is read.
    pub accesses: Vec<Access>,
    /// The last step that reads a value or, for a stored value, a view of it; results of the
    /// function are read by the end, step `steps.len()`.
    last: Vec<u32>,
    /// The same for the value under its own name only.
    last_named: Vec<u32>,
    /// Moves at the end: results that have no storage of their own.
    pub results: Vec<Operand>,
}

impl<'a> Problem<'a> {
    /// Prepares a graph; `pinned` names the demands on the plan of an operator, which keep operators
    /// apart that are equal otherwise.
    pub fn new(graph: &'a Graph, pinned: impl Fn(usize) -> String) -> Self {
        let views = Views::of(graph);
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut p = Problem {
            graph,
            host: HostValues::of(graph),
            steps: Vec::new(),
            accesses: Vec::new(),
            last: vec![0; graph.values.len()],
            last_named: vec![0; graph.values.len()],
            results: Vec::new(),
            views,
        };
        let mut accesses: HashMap<String, u32> = HashMap::new();
        for (i, op) in graph.ops.iter().enumerate() {
            if p.host.is_done(op.result) || p.views.is_virtual(op.result) {
                continue;
            }
            let step = p.steps.len() as u32;
            let operands: Vec<Operand> = op
                .operands
                .iter()
                .map(|&v| {
                    // Elementwise operands of the host are broadcast as they are bound.
                    let to = match op.kind {
                        OpKind::Binary(_) => TensorType {
                            element: graph.ty(v).element,
                            ..graph.ty(op.result).clone()
                        },
                        _ => graph.ty(v).clone(),
                    };
                    p.operand(v, to, step, &mut accesses)
                })
                .collect();
            let first = |v: ValueId| operands.iter().position(|o| o.value == v);
            let pattern: Vec<_> = operands
                .iter()
                .map(|o| (o.origin as u8, o.access, first(o.value)))
                .collect();
            let key = format!(
                "{:?} {:?} {:?} {:?} {:?} {}",
                op.kind,
                graph.ty(op.result),
                pattern,
                space::heads(graph, op),
                space::column_units(graph, op.result),
                pinned(i)
            );
            let next = known.len() as u32;
            let signature = *known.entry(key).or_insert(next);
            p.steps.push(Step {
                op: i,
                operands,
                signature,
            });
        }
        let end = p.steps.len() as u32;
        for &v in &graph.outputs {
            let operand = p.operand(v, graph.ty(v).clone(), end, &mut accesses);
            let elsewhere =
                p.views.is_virtual(v) || p.host.is_step(v) || graph.definition(v).is_none();
            if elsewhere && operand.origin != Origin::Host {
                p.results.push(operand);
            }
        }
        p
    }

    fn operand(
        &mut self,
        value: ValueId,
        to: TensorType,
        step: u32,
        accesses: &mut HashMap<String, u32>,
    ) -> Operand {
        let graph = self.graph;
        let viewed = self.views.viewed(graph, value);
        let base = viewed.base;
        let origin = if self.host.contains(value) {
            Origin::Host
        } else {
            Origin::Stored
        };
        let from = graph.ty(base).clone();
        let same = base == value
            || (viewed.strided.is_whole(from.elements()) && from.matrix() == to.matrix());
        let access = Access {
            view: (!same).then(|| viewed.strided.to_whole()),
            from,
            to,
            renamed: base != value,
        };
        let next = self.accesses.len() as u32;
        let index = *accesses.entry(format!("{access:?}")).or_insert(next);
        if index == next {
            self.accesses.push(access);
        }
        self.last[base.0 as usize] = step;
        self.last_named[value.0 as usize] = step;
        Operand {
            value,
            base,
            origin,
            access: index,
        }
    }

    /// The last step that reads a stored value.
    pub fn last(&self, base: u32) -> usize {
        self.last[base as usize] as usize
    }

    /// The last step that reads a value under its own name.
    pub fn last_named(&self, value: u32) -> usize {
        self.last_named[value as usize] as usize
    }

    /// Whether anything after a step reads a stored value.
    pub fn lives(&self, base: u32, step: usize) -> bool {
        self.last[base as usize] as usize > step
    }

    /// Whether anything after a step reads a value under its own name.
    pub fn is_named(&self, value: u32, step: usize) -> bool {
        self.last_named[value as usize] as usize > step
    }
}
