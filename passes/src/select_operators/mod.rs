//! `ipu-select-operators`: model operators to implementations.
//!
//! [`normalize`] writes operators in terms of fewer ones. [`algebra`] finds the cheapest equal ones
//! in an e-graph; each operator there costs what its best plan costs. [`views`] says which values
//! need no storage. [`plans`] enumerates the plans of each operator; [`select`] fixes one for every
//! operator, in program order, charging the exchange that brings its operands from where they are.
//! Different objectives give different finalists; which one is best is decided after their
//! exchanges have been scheduled, for estimates of exchange are unreliable.

pub mod algebra;
mod choose;
pub mod normalize;
pub mod plans;
mod refuse;
pub mod views;

pub use choose::softmax_kernel;
use ipu_program::graph::{Graph, OpKind};
use ipu_program::layout::ElementOrder;
use ipu_program::types::TensorType;
use plans::{Machine, Objective};

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

/// Estimated cycles of the best plan of one operator alone, for the algebra.
fn operator_cost(machine: &Machine<'_>, kind: &OpKind, types: &[TensorType]) -> Option<u64> {
    match kind {
        OpKind::Linear { activation } => {
            choose::linear(machine, types, types.first()?.element, *activation)
                .iter()
                .map(|c| c.plan.compute_cycles)
                .min()
        }
        OpKind::Binary(_) | OpKind::Unary(_) => {
            let largest = types.iter().max_by_key(|t| t.elements())?;
            let matrix = largest.matrix();
            let layout = plans::spread(machine.tiles, matrix, ElementOrder::Panels);
            let element = [largest.element; 2];
            let columns = matrix.columns;
            plans::local::elementwise(machine, kind, element, types.len(), columns, &layout)
                .map(|c| c.plan.compute_cycles)
        }
        _ => None,
    }
}

/// Chooses operators and plans; `finalists` different choices at most, the first by cycles.
///
/// # Errors
/// Operators that no kernel implements or that fit no tile, all of them with their locations; or a
/// rule of the algebra that is wrong.
pub fn select(
    graph: &Graph,
    machine: &Machine<'_>,
    finalists: usize,
) -> Result<(Vec<Finalist>, algebra::Report), SelectError> {
    let differing = refuse::parameters_of_two_types(graph);
    if !differing.is_empty() {
        return Err(SelectError::NoLowering(differing));
    }
    let too_large = refuse::oversized(graph, machine);
    if !too_large.is_empty() {
        return Err(SelectError::NoLowering(too_large));
    }
    let normal = normalize::normalize(graph);
    let mut refused = refuse::operators(&normal, machine);
    refused.extend(refuse::host_functions(&normal));
    if !refused.is_empty() {
        return Err(SelectError::NoLowering(refused));
    }
    let cost = |kind: &OpKind, types: &[TensorType]| operator_cost(machine, kind, types);
    let (algebraic, report) = algebra::rewrite_graph(&normal, &cost)?;
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
        let finalist = choose::choose(&algebraic, machine, objective)?;
        if out.iter().all(|f| f.graph != finalist.graph) {
            out.push(finalist);
        }
    }
    Ok((out, report))
}
