//! `nn-unroll-layers`: the iterations of repeats, written out.

use ipu_program::graph::{Graph, Op, OpKind, ValueId, parameter_key};
use std::borrow::Cow;

/// Most operators of a graph without repeats.
pub const MAX_OPS: usize = 100_000;

/// A repeat that cannot be written out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnrollError {
    /// Too many iterations of too large a body.
    #[error("the iterations of 'nn.repeat' have more than {MAX_OPS} operators written out")]
    TooMany {
        /// Source location of the repeat.
        location: String,
    },
    /// A parameter whose name does not suit the repeats around it.
    #[error("parameter '{name}' has no key inside {depth} repeats")]
    Key {
        /// Source location of the parameter.
        location: String,
        /// Its name in the model.
        name: String,
        /// Repeats around it.
        depth: usize,
    },
}

impl UnrollError {
    /// Source location.
    pub fn location(&self) -> &str {
        match self {
            UnrollError::TooMany { location } | UnrollError::Key { location, .. } => location,
        }
    }
}

/// The graph with the iterations of every repeat in its place, those of nested ones included. The
/// operators of an iteration have the locations of the body; parameters have the names of their
/// iteration. A graph without repeats stays as it is.
///
/// # Errors
/// See [`UnrollError`].
pub fn unroll(graph: &Graph) -> Result<Cow<'_, Graph>, UnrollError> {
    let is_repeat = |op: &Op| matches!(op.kind, OpKind::Repeat { .. });
    if !graph.ops.iter().any(is_repeat) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut out = Graph {
        name: graph.name.clone(),
        ..Graph::default()
    };
    for &input in &graph.inputs {
        out.values.push(graph.value(input).clone());
        out.inputs.push(ValueId(out.values.len() as u32 - 1));
    }
    let arguments = out.inputs.clone();
    out.outputs = iteration(graph, arguments, &mut Vec::new(), &mut out)?;
    Ok(Cow::Owned(out))
}

/// Appends the operators of one iteration of a body, and gives its results. Verified bodies nest at
/// most as deep as text does.
fn iteration(
    body: &Graph,
    arguments: Vec<ValueId>,
    iterations: &mut Vec<u32>,
    out: &mut Graph,
) -> Result<Vec<ValueId>, UnrollError> {
    let mut known = vec![ValueId(u32::MAX); body.values.len()];
    for (&input, argument) in body.inputs.iter().zip(arguments) {
        known[input.0 as usize] = argument;
    }
    for op in &body.ops {
        let mut operands: Vec<ValueId> = op.operands.iter().map(|v| known[v.0 as usize]).collect();
        if let OpKind::Repeat { count, body } = &op.kind {
            for i in 0..*count {
                iterations.push(i);
                operands = iteration(body, operands, iterations, out)?;
                iterations.pop();
                if out.ops.len() > MAX_OPS {
                    return Err(UnrollError::TooMany {
                        location: op.location.clone(),
                    });
                }
            }
            let results = [op.result].into_iter().chain(op.more_results.clone());
            for (result, value) in results.zip(operands) {
                known[result.0 as usize] = value;
            }
            continue;
        }
        out.values.push(graph_value(body, op));
        let result = ValueId(out.values.len() as u32 - 1);
        known[op.result.0 as usize] = result;
        let mut copy = Op {
            operands,
            result,
            ..op.clone()
        };
        if let OpKind::Parameter { name } = &mut copy.kind {
            // Outside of repeats a name is a key as it is.
            if !iterations.is_empty() {
                *name = parameter_key(name, iterations).ok_or_else(|| UnrollError::Key {
                    location: op.location.clone(),
                    name: name.clone(),
                    depth: iterations.len(),
                })?;
            }
        }
        out.ops.push(copy);
    }
    Ok(body.outputs.iter().map(|v| known[v.0 as usize]).collect())
}

fn graph_value(graph: &Graph, op: &Op) -> ipu_program::graph::Value {
    graph.value(op.result).clone()
}
