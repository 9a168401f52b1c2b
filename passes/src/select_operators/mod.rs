//! `ipu-select-operators`: model operators to implementations.
//!
//! Two stages. [`algebra`] finds the algebraic form in an e-graph; each operator there costs what
//! its best plan costs. [`plans`] enumerates the plans of each operator; [`select`] fixes one for
//! every operator, in program order, charging the exchange that brings its operands from where
//! they are. Different objectives give different finalists; which one is best is decided after
//! their exchanges have been scheduled, for estimates of exchange are unreliable.

pub mod algebra;
pub mod plans;

use ipu_program::graph::{Activation, Graph, Op, OpKind, UnaryKind, ValueId};
use ipu_program::layout::{ElementOrder, Layout, PANEL};
use ipu_program::types::{ElementType, TensorType};
use plans::{Candidate, Machine, Objective};
use std::collections::BTreeMap;

/// Why a graph has no program.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Operators without an implementation, all of them.
    #[error("{} operator(s) without lowering", .0.len())]
    NoLowering(Vec<NoLowering>),
    /// The rewrite rules contradict each other.
    #[error(transparent)]
    Unsound(#[from] algebra::Unsound),
}

/// One operator without an implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLowering {
    /// Source location.
    pub location: String,
    /// What and why.
    pub message: String,
}

/// One complete choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Finalist {
    /// The graph with a plan for each operator and a layout for each activation.
    pub graph: Graph,
    /// What it minimises.
    pub objective: Objective,
    /// Estimated cycles.
    pub estimated_cycles: u64,
}

/// Whether the host knows a value before the program runs.
fn host(graph: &Graph, v: ValueId) -> bool {
    graph
        .definition(v)
        .is_some_and(|op| matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. }))
}

/// The plans of a linear operator by the types of its operands.
fn linear(machine: &Machine<'_>, types: &[TensorType], activation: Activation) -> Vec<Candidate> {
    let [x, w, ..] = types else { return Vec::new() };
    if w.shape.len() != 2 || types.iter().any(|t| t.element != ElementType::F16) {
        return Vec::new();
    }
    let (m, k) = (x.matrix().rows, x.matrix().columns);
    plans::linear(
        machine,
        m,
        k,
        w.matrix().columns,
        types.len() > 2,
        activation,
    )
}

/// Estimated cycles of the best plan of one operator alone, for the algebra.
fn operator_cost(machine: &Machine<'_>, kind: &OpKind, types: &[TensorType]) -> Option<u64> {
    match kind {
        OpKind::Linear { activation } => linear(machine, types, *activation)
            .iter()
            .map(|c| c.plan.compute_cycles)
            .min(),
        OpKind::Binary(_) | OpKind::Unary(UnaryKind::Relu) => {
            let largest = types.iter().max_by_key(|t| t.elements())?;
            let layout = plans::spread(machine.tiles, largest.matrix(), ElementOrder::Panels);
            plans::elementwise(machine, kind, types.len(), &layout).map(|c| c.plan.compute_cycles)
        }
        _ => None,
    }
}

/// Chooses operators and plans; `finalists` different choices at most, the first by cycles.
///
/// # Errors
/// Operators that no kernel implements, all of them with their locations.
pub fn select(
    graph: &Graph,
    machine: &Machine<'_>,
    finalists: usize,
) -> Result<(Vec<Finalist>, algebra::Report), SelectError> {
    // The algebra knows f16 alone.
    let refused = foreign_types(graph);
    if !refused.is_empty() {
        return Err(SelectError::NoLowering(refused));
    }
    let differing = parameters_of_two_types(graph);
    if !differing.is_empty() {
        return Err(SelectError::NoLowering(differing));
    }
    let too_large = oversized(graph, machine);
    if !too_large.is_empty() {
        return Err(SelectError::NoLowering(too_large));
    }
    let cost = |kind: &OpKind, types: &[TensorType]| operator_cost(machine, kind, types);
    let (algebraic, report) = algebra::rewrite_graph(graph, &cost)?;
    let objectives = [
        Objective::Cycles,
        Objective::LessExchange,
        Objective::LessCompute,
        Objective::Bytes,
    ];
    let mut out: Vec<Finalist> = Vec::new();
    for objective in objectives {
        if out.len() == finalists.max(1) {
            break;
        }
        let finalist = plan(&algebraic, machine, objective)?;
        if out.iter().all(|f| f.graph != finalist.graph) {
            out.push(finalist);
        }
    }
    Ok((out, report))
}

/// Fixes a plan for every operator under one objective.
fn plan(
    graph: &Graph,
    machine: &Machine<'_>,
    objective: Objective,
) -> Result<Finalist, SelectError> {
    let mut graph = graph.clone();
    let mut layouts: BTreeMap<ValueId, Layout> = BTreeMap::new();
    let mut refused: Vec<NoLowering> = Vec::new();
    let mut total = 0u64;
    for i in 0..graph.ops.len() {
        let op = &graph.ops[i];
        if matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. }) {
            continue;
        }
        let types: Vec<TensorType> = op.operands.iter().map(|&v| graph.ty(v).clone()).collect();
        let mut candidates = match refusal(&graph, i) {
            Some(_) => Vec::new(),
            None => match &op.kind {
                OpKind::Linear { activation } => linear(machine, &types, *activation),
                kind => {
                    let layout = elementwise_layout(&graph, machine, i, &layouts);
                    plans::elementwise(machine, kind, types.len(), &layout)
                        .into_iter()
                        .collect()
                }
            },
        };
        // What no tile can hold is no plan; addresses stay within 32 bits from here on.
        let memory = u64::from(machine.target.memory_end - machine.target.memory_base);
        let smallest = candidates.iter().map(|c| c.bytes).min();
        candidates.retain(|c| c.bytes <= memory);
        if let (true, Some(needed)) = (candidates.is_empty(), smallest) {
            refused.push(NoLowering {
                location: op.location.clone(),
                message: format!(
                    "the model does not fit: every plan of 'nn.{}' on {} tiles needs {needed} bytes \
                     or more on a tile, which has {memory}; {}",
                    op.kind.name(),
                    machine.tiles,
                    if machine.tiles < machine.target.tiles {
                        "use more tiles"
                    } else {
                        "use narrower layers: a tile holds all rows of its 16 or more columns of a \
                         weight"
                    }
                ),
            });
            continue;
        }
        let count = candidates.len() as u32;
        for c in &mut candidates {
            c.plan.candidates = count;
            c.plan.exchange_cycles = op
                .operands
                .iter()
                .zip(&c.plan.operands)
                .filter(|(v, _)| !host(&graph, **v))
                .map(|(v, to)| {
                    let ty = graph.ty(*v);
                    match layouts.get(v) {
                        Some(from) => plans::exchange(machine, from, to, ty),
                        // An argument arrives as its first operator wants it.
                        None => plans::exchange(machine, &plans::arrival(to, ty.matrix()), to, ty),
                    }
                })
                .sum();
        }
        let key = |c: &Candidate| {
            let (compute, exchange) = (c.plan.compute_cycles, c.plan.exchange_cycles);
            match objective {
                Objective::Cycles => (compute + exchange, 0),
                Objective::LessExchange => (compute + 2 * exchange, 0),
                Objective::LessCompute => (2 * compute + exchange, 0),
                Objective::Bytes => (c.bytes, compute + exchange),
            }
        };
        let Some(best) = candidates.into_iter().min_by_key(key) else {
            refused.push(NoLowering {
                location: op.location.clone(),
                message: refusal(&graph, i)
                    .unwrap_or_else(|| format!("'nn.{}' has no lowering to tiles", op.kind.name())),
            });
            continue;
        };
        total += best.plan.compute_cycles + best.plan.exchange_cycles;
        let result = op.result;
        for (&v, to) in op.operands.iter().zip(&best.plan.operands) {
            if !host(&graph, v) {
                let matrix = graph.ty(v).matrix();
                layouts
                    .entry(v)
                    .or_insert_with(|| plans::arrival(to, matrix));
            }
        }
        layouts.insert(result, best.result);
        graph.ops[i].plan = Some(best.plan);
    }
    if !refused.is_empty() {
        return Err(SelectError::NoLowering(refused));
    }
    for &input in &graph.inputs {
        let matrix = graph.ty(input).matrix();
        layouts
            .entry(input)
            .or_insert_with(|| plans::spread(machine.tiles, matrix, ElementOrder::Rows));
    }
    // Results leave in rows, where they are.
    for &v in &graph.outputs {
        if let Some(from) = layouts.get(&v) {
            let to = Layout {
                order: ElementOrder::Rows,
                ..from.clone()
            };
            total += plans::exchange(machine, from, &to, graph.ty(v));
        }
    }
    for (v, layout) in layouts {
        graph.values[v.0 as usize].layout = Some(layout);
    }
    Ok(Finalist {
        graph,
        objective,
        estimated_cycles: total,
    })
}

/// Parameters that are declared again with another type: no weights file can serve both.
fn parameters_of_two_types(graph: &Graph) -> Vec<NoLowering> {
    let mut known: BTreeMap<&str, &Op> = BTreeMap::new();
    let mut refused = Vec::new();
    for op in &graph.ops {
        let OpKind::Parameter { name } = &op.kind else {
            continue;
        };
        let first = *known.entry(name).or_insert(op);
        if graph.ty(first.result) != graph.ty(op.result) {
            refused.push(NoLowering {
                location: op.location.clone(),
                message: format!(
                    "parameter '{name}' is {} here and {} at {}",
                    graph.ty(op.result),
                    graph.ty(first.result),
                    first.location
                ),
            });
        }
    }
    refused
}

/// Tensors that all tiles together cannot hold. Whatever passes this has byte sizes and offsets
/// within 32 bits.
fn oversized(graph: &Graph, machine: &Machine<'_>) -> Vec<NoLowering> {
    let tile = u64::from(machine.target.memory_end - machine.target.memory_base);
    let chip = tile * u64::from(machine.tiles);
    let bytes = |ty: &TensorType| {
        let m = ty.matrix();
        let columns = u64::from(m.columns).next_multiple_of(u64::from(PANEL));
        u64::from(m.rows)
            .saturating_mul(columns)
            .saturating_mul(u64::from(ty.element.bytes()))
    };
    (0..graph.values.len() as u32)
        .map(ValueId)
        .filter(|&v| bytes(graph.ty(v)) > chip)
        .map(|v| NoLowering {
            location: graph
                .definition(v)
                .map_or_else(String::new, |op| op.location.clone()),
            message: format!(
                "the model does not fit: {} needs {} bytes on tiles, {} tiles have {chip}{}",
                graph.ty(v),
                bytes(graph.ty(v)),
                machine.tiles,
                if machine.tiles < machine.target.tiles {
                    "; use more tiles"
                } else {
                    ""
                }
            ),
        })
        .collect()
}

/// Elementwise operators follow the first activation of the result's shape that is in panels.
fn elementwise_layout(
    graph: &Graph,
    machine: &Machine<'_>,
    op: usize,
    layouts: &BTreeMap<ValueId, Layout>,
) -> Layout {
    let op = &graph.ops[op];
    op.operands
        .iter()
        .filter(|&&v| graph.ty(v).shape == graph.ty(op.result).shape)
        .find_map(|v| {
            layouts
                .get(v)
                .filter(|l| l.order == ElementOrder::Panels && l.copies == 1)
                .cloned()
        })
        .unwrap_or_else(|| {
            plans::spread(
                machine.tiles,
                graph.ty(op.result).matrix(),
                ElementOrder::Panels,
            )
        })
}

/// Everything that has no lowering in a graph with tensors of another element type than f16;
/// empty for a graph without.
fn foreign_types(graph: &Graph) -> Vec<NoLowering> {
    let foreign = |v: ValueId| graph.ty(v).element != ElementType::F16;
    let inputs = graph.inputs.iter().filter(|&&v| foreign(v));
    let mut refused: Vec<NoLowering> = inputs
        .map(|&v| NoLowering {
            location: String::new(),
            message: format!(
                "argument of type {}: tiles compute in f16, no lowering for {}",
                graph.ty(v),
                graph.ty(v).element
            ),
        })
        .collect();
    let computed = |op: &&Op| !host(graph, op.result);
    let touches = |op: &&Op| op.operands.iter().chain([&op.result]).any(|&v| foreign(v));
    let returned = |op: &&Op| graph.outputs.contains(&op.result) && foreign(op.result);
    if refused.is_empty()
        && !graph.ops.iter().filter(computed).any(|op| touches(&op))
        && !graph.ops.iter().any(|op| returned(&op))
    {
        return refused;
    }
    for (i, op) in graph.ops.iter().enumerate() {
        if (computed(&op) || returned(&op))
            && let Some(message) = refusal(graph, i)
        {
            let location = op.location.clone();
            refused.push(NoLowering { location, message });
        }
    }
    refused
}

/// Why an operator cannot be lowered, `None` when it can.
fn refusal(graph: &Graph, op: usize) -> Option<String> {
    let op = &graph.ops[op];
    let name = op.kind.name();
    if let Some(&v) = op
        .operands
        .iter()
        .chain([&op.result])
        .find(|&&v| graph.ty(v).element != ElementType::F16)
    {
        return Some(format!(
            "'nn.{name}' on {} has no lowering: tiles compute in f16, declare the model's tensors as f16",
            graph.ty(v)
        ));
    }
    match &op.kind {
        OpKind::Matmul { .. }
            if host(graph, op.operands[1]) && graph.ty(op.operands[1]).shape.len() == 2 =>
        {
            None
        }
        OpKind::Matmul { .. } => Some(format!(
            "'nn.matmul' of {} and {} has no lowering: the right operand must be a parameter or \
             constant of rank 2",
            graph.ty(op.operands[0]),
            graph.ty(op.operands[1])
        )),
        OpKind::Linear { .. } => {
            let computed = op.operands[1..].iter().find(|&&v| !host(graph, v));
            let rows = |v: ValueId| graph.ty(v).matrix().rows;
            if let Some(&v) = computed {
                Some(format!(
                    "'nn.linear' with a computed {} has no lowering: weight and bias must be \
                     parameters or constants",
                    graph.ty(v)
                ))
            } else if graph.ty(op.operands[1]).shape.len() != 2 {
                Some(format!(
                    "'nn.linear' with a weight of {} has no lowering: the weight must have rank 2",
                    graph.ty(op.operands[1])
                ))
            } else {
                op.operands.get(2).filter(|&&v| rows(v) != 1).map(|&v| {
                    format!(
                        "'nn.linear' with a bias of {} has no lowering: a bias is one row, add \
                         other tensors by 'nn.add'",
                        graph.ty(v)
                    )
                })
            }
        }
        OpKind::Binary(_) | OpKind::Unary(UnaryKind::Relu) => {
            if plans::elementwise_kernel(&op.kind).is_none() {
                return Some(format!(
                    "'nn.{name}' has no lowering to tiles: no kernel for it"
                ));
            }
            let shape = &graph.ty(op.result).shape;
            op.operands
                .iter()
                .find(|&&v| graph.ty(v).shape != *shape && !host(graph, v))
                .map(|&v| {
                    format!(
                        "'nn.{name}' that broadcasts a computed {} to {} has no lowering: only \
                         parameters and constants are broadcast",
                        graph.ty(v),
                        graph.ty(op.result)
                    )
                })
        }
        OpKind::Parameter { .. } | OpKind::Constant { .. } => None,
        _ => Some(format!("'nn.{name}' has no lowering to tiles")),
    }
}
