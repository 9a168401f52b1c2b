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

use algebra::{Algebra, AlgebraError, Operand};
pub use choose::softmax_kernel;
use ipu_program::graph::{Graph, OpKind, ValueId};
use ipu_program::layout::ElementOrder;
use ipu_program::types::TensorType;
use plans::{Machine, Objective, batched, local};

/// Why a graph has no program.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Operators without an implementation, all of them.
    #[error("{} operator(s) without lowering", .0.len())]
    NoLowering(Vec<NoLowering>),
    /// The rewrite rules contradict each other.
    #[error(transparent)]
    Algebra(#[from] AlgebraError),
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

/// Whether the host knows a value before the program runs: a parameter or constant, in whatever
/// shape.
fn host(graph: &Graph, v: ValueId) -> bool {
    graph.definition(v).is_some_and(|op| match op.kind {
        OpKind::Reshape => op.operands.first().is_some_and(|&x| host(graph, x)),
        _ => op.kind.is_host(),
    })
}

/// Estimated cycles of the best plan of one operator alone, for the algebra.
pub fn operator_cost(
    machine: &Machine<'_>,
    kind: &OpKind,
    operands: &[Operand],
    result: &TensorType,
) -> Option<u64> {
    let types: Vec<TensorType> = operands.iter().map(|o| o.ty.clone()).collect();
    let least = |plans: Vec<plans::Candidate>| plans.iter().map(|c| c.plan.compute_cycles).min();
    match (kind, types.as_slice()) {
        (OpKind::Linear { activation }, types) => {
            least(choose::linear(machine, types, *activation))
        }
        // A product with weights is a linear operator, nothing else.
        (OpKind::Matmul { .. }, _) if operands.iter().any(|o| o.host) => None,
        (OpKind::Matmul { transpose_b, .. }, [a, b]) => {
            let (&[.., m, k], &[.., rows, columns]) = (a.shape.as_slice(), b.shape.as_slice())
            else {
                return None;
            };
            let n = if *transpose_b { rows } else { columns };
            let matrices = a.matrix().rows / m;
            least(batched::product(
                machine,
                matrices,
                [m, k, n],
                *transpose_b,
                1,
            ))
        }
        (
            OpKind::Attention {
                heads: 1, causal, ..
            },
            [q, k, v],
        ) => {
            let (&[n, queries, depth], &[_, keys, _], &[_, _, width]) =
                (q.shape.as_slice(), k.shape.as_slice(), v.shape.as_slice())
            else {
                return None;
            };
            let shape = batched::Attention {
                queries,
                keys,
                depth,
                width,
            };
            let kernel = choose::softmax_kernel(*causal);
            least(batched::attention(machine, n, &shape, 1, kernel))
        }
        (
            OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. },
            [x, vectors @ ..],
        ) => {
            let vectors = vectors.len();
            least(local::rowwise(
                machine,
                kind,
                x.matrix(),
                vectors,
                &[1],
                None,
            ))
        }
        (OpKind::Binary(_) | OpKind::Unary(_), [x, ..]) => {
            let matrix = result.matrix();
            let layout = plans::spread(machine.tiles, matrix, ElementOrder::Panels);
            let element = [x.element, result.element];
            local::elementwise(machine, kind, element, types.len(), matrix.columns, &layout)
                .map(|c| c.plan.compute_cycles)
        }
        // Views and the operators of which there is one form only.
        _ => Some(0),
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
    options: &algebra::Options,
) -> Result<(Vec<Finalist>, Algebra), SelectError> {
    let differing = refuse::parameters_of_two_types(graph);
    if !differing.is_empty() {
        return Err(SelectError::NoLowering(differing));
    }
    let too_large = refuse::oversized(graph, machine);
    if !too_large.is_empty() {
        return Err(SelectError::NoLowering(too_large));
    }
    let normal = normalize::normalize(graph);
    let refused = refuse::operators(&normal, machine);
    if !refused.is_empty() {
        return Err(SelectError::NoLowering(refused));
    }
    let algebra = Algebra::saturate(&normal, options)?;
    let cost = |kind: &OpKind, operands: &[Operand], result: &TensorType| {
        operator_cost(machine, kind, operands, result)
    };
    let first = algebra.variants(&cost).next();
    // A graph has itself as a variant: without one, choose says what is wrong with it.
    let algebraic = first.map_or(normal, |v| v.graph);
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
    Ok((out, algebra))
}
