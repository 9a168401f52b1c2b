//! The model graph in f32: the reference that every compiled program is compared with.
//!
//! Inputs, parameters and constants are rounded to their type in the model (f16: nearest even);
//! everything computed from them stays f32, whatever its type in the model, except that `cast`
//! rounds: that is its meaning. A product or a convolution sums in f64 in the order of K and rounds
//! once, before a bias is added; every other operation computes each element in f64 and rounds it
//! once. The iterations of a repeat hand on what they computed, unrounded. Exponentials and the like
//! are those of the crate `libm`, so that results are the same on every host.

mod attention;
mod axes;
mod elementwise;
mod functions;
mod moves;
mod products;
#[cfg(test)]
mod tests;

pub use functions::{HostResults, step_parameters};

use crate::host::{HostArray, HostError, Parameters, shape};
use ipu_program::graph::{Activation, BinaryKind, Graph, Op, OpKind, ValueId, parameter_key};
use ipu_program::infer;
use ipu_program::types::{ElementType, TensorType};

/// A graph that cannot be executed with the given data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// A wrong number of inputs.
    #[error("function '{function}' takes {expected} inputs, found {found}")]
    InputCount {
        /// Function.
        function: String,
        /// Arguments of the function.
        expected: usize,
        /// Arrays given.
        found: usize,
    },
    /// A parameter that the weights lack.
    #[error("{location}: parameter '{name}' is missing; expected {ty} in the weights")]
    MissingParameter {
        /// Key.
        name: String,
        /// Type in the model.
        ty: TensorType,
        /// Location of the operation.
        location: String,
    },
    /// Data or a result of another shape than the model says.
    #[error("{subject}: expected shape {}, found {}", shape(.expected), shape(.found))]
    Shape {
        /// What has the shape.
        subject: String,
        /// Shape in the model.
        expected: Vec<u32>,
        /// Shape found.
        found: Vec<u32>,
    },
    /// Operands that the operation does not take.
    #[error("{location}: nn.{op}: {problem}")]
    Operands {
        /// Operation.
        op: &'static str,
        /// Its location.
        location: String,
        /// What is wrong.
        problem: String,
    },
    /// Values that do not fit their type.
    #[error("{subject}: {error}")]
    Data {
        /// What has the values.
        subject: String,
        /// Why.
        error: HostError,
    },
}

/// Executes a graph; the results are f32, indices i32.
///
/// # Errors
/// See [`GraphError`].
pub fn run(
    graph: &Graph,
    inputs: &[HostArray],
    parameters: &Parameters,
) -> Result<Vec<HostArray>, GraphError> {
    let values = evaluate(graph, inputs, parameters)?;
    let results = outputs(graph, &values, &graph.name)?;
    let wide = |(i, array): (usize, HostArray)| {
        convert(&array, computed(array.ty().element), || {
            format!("output {i}")
        })
    };
    results.into_iter().enumerate().map(wide).collect()
}

/// Executes a graph and gives every value that it defines, by [`ValueId`].
///
/// # Errors
/// See [`GraphError`].
pub fn evaluate(
    graph: &Graph,
    inputs: &[HostArray],
    parameters: &Parameters,
) -> Result<Vec<Option<HostArray>>, GraphError> {
    if inputs.len() != graph.inputs.len() {
        return Err(GraphError::InputCount {
            function: graph.name.clone(),
            expected: graph.inputs.len(),
            found: inputs.len(),
        });
    }
    let mut rounded = Vec::with_capacity(inputs.len());
    for (i, (&id, input)) in graph.inputs.iter().zip(inputs).enumerate() {
        let ty = graph.ty(id);
        check_shape(|| format!("input {i}"), &ty.shape, input.shape())?;
        rounded.push(convert(input, ty.element, || format!("input {i}"))?);
    }
    block(graph, rounded, parameters, &[])
}

/// The operations of a graph, inside repeats at the given iterations.
fn block(
    graph: &Graph,
    inputs: Vec<HostArray>,
    parameters: &Parameters,
    iterations: &[u32],
) -> Result<Vec<Option<HostArray>>, GraphError> {
    let mut values: Vec<Option<HostArray>> = vec![None; graph.values.len()];
    for (&id, input) in graph.inputs.iter().zip(inputs) {
        values[id.0 as usize] = Some(input);
    }
    for op in &graph.ops {
        let subject = || format!("{}: nn.{}", op.location, op.kind.name());
        let ids = || {
            [op.result]
                .into_iter()
                .chain(op.more_results.iter().copied())
        };
        let types = |ids: &mut dyn Iterator<Item = ValueId>| -> Vec<TensorType> {
            ids.map(|id| graph.ty(id).clone()).collect()
        };
        let operands = types(&mut op.operands.iter().copied());
        infer::check(&op.kind, &operands, &types(&mut ids()))
            .map_err(|e| refuse(op, e.to_string()))?;
        let results = execute(op, graph.ty(op.result), &values, parameters, iterations)?;
        for (id, result) in ids().zip(results) {
            check_shape(subject, &graph.ty(id).shape, result.shape())?;
            values[id.0 as usize] = Some(result);
        }
    }
    Ok(values)
}

fn outputs(
    graph: &Graph,
    values: &[Option<HostArray>],
    location: &str,
) -> Result<Vec<HostArray>, GraphError> {
    let output = |(i, &id): (usize, &ValueId)| {
        value(values, id)
            .cloned()
            .ok_or_else(|| GraphError::Operands {
                op: "return",
                location: location.to_owned(),
                problem: format!("output {i} is not defined"),
            })
    };
    graph.outputs.iter().enumerate().map(output).collect()
}

/// The element type in which what has this one is computed and kept.
fn computed(element: ElementType) -> ElementType {
    match element.is_float() {
        true => ElementType::F32,
        false => element,
    }
}

fn convert(
    array: &HostArray,
    element: ElementType,
    subject: impl FnOnce() -> String,
) -> Result<HostArray, GraphError> {
    array.to_element(element).map_err(|error| GraphError::Data {
        subject: subject(),
        error,
    })
}

fn check_shape(
    subject: impl FnOnce() -> String,
    expected: &[u32],
    found: &[u32],
) -> Result<(), GraphError> {
    if expected == found {
        return Ok(());
    }
    Err(GraphError::Shape {
        subject: subject(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    })
}

fn value(values: &[Option<HostArray>], id: ValueId) -> Option<&HostArray> {
    values.get(id.0 as usize)?.as_ref()
}

fn refuse(op: &Op, problem: String) -> GraphError {
    GraphError::Operands {
        op: op.kind.name(),
        location: op.location.clone(),
        problem,
    }
}

/// The results of one operation whose types were checked; `ty` is that of the first.
fn execute(
    op: &Op,
    ty: &TensorType,
    values: &[Option<HostArray>],
    parameters: &Parameters,
    iterations: &[u32],
) -> Result<Vec<HostArray>, GraphError> {
    let operand = |i: usize| {
        op.operands
            .get(i)
            .and_then(|&id| value(values, id))
            .ok_or_else(|| {
                refuse(
                    op,
                    format!("operand {i} is missing or used before it is defined"),
                )
            })
    };
    let all =
        || -> Result<Vec<&HostArray>, GraphError> { (0..op.operands.len()).map(operand).collect() };
    let result = match &op.kind {
        OpKind::Parameter { name } => Ok(parameter(op, ty, name, parameters, iterations)?),
        OpKind::Constant { values } => {
            HostArray::constant(ty.clone(), values).map_err(|e| e.to_string())
        }
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => products::matmul(operand(0)?, operand(1)?, [*transpose_a, *transpose_b]),
        OpKind::Binary(kind) => elementwise::binary(*kind, operand(0)?, operand(1)?),
        OpKind::Unary(kind) => Ok(elementwise::unary(*kind, operand(0)?)),
        OpKind::Linear { activation } => {
            let mut result = products::matmul(operand(0)?, operand(1)?, [false; 2]);
            if op.operands.len() > 2 {
                let bias = operand(2)?;
                result = result.and_then(|r| elementwise::binary(BinaryKind::Add, &r, bias));
            }
            result.map(|r| match activation {
                Activation::None => r,
                Activation::Relu => elementwise::relu(&r),
            })
        }
        OpKind::Softmax { axis } => axes::softmax(operand(0)?, *axis),
        OpKind::LayerNorm { epsilon } => {
            axes::layer_norm(operand(0)?, operand(1)?, operand(2)?, epsilon.get())
        }
        OpKind::RmsNorm { epsilon } => axes::rms_norm(operand(0)?, operand(1)?, epsilon.get()),
        OpKind::Reduce { kind, axes, .. } => axes::reduce(*kind, operand(0)?, axes, &ty.shape),
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => attention::attention(
            [operand(0)?, operand(1)?, operand(2)?],
            *heads,
            scale.get(),
            *causal,
        ),
        OpKind::SplitHeads { heads } => moves::split_heads(operand(0)?, *heads, &ty.shape),
        OpKind::MergeHeads { heads } => moves::merge_heads(operand(0)?, *heads, &ty.shape),
        OpKind::Reshape => moves::moved(operand(0)?, &ty.shape, operand(0)?.values().to_vec()),
        OpKind::Transpose { permutation } => moves::transpose(operand(0)?, permutation),
        OpKind::Slice { offsets, strides } => {
            moves::slice(operand(0)?, offsets, strides, &ty.shape)
        }
        OpKind::Concat { axis } => moves::concat(&all()?, *axis, &ty.shape),
        OpKind::Broadcast => moves::broadcast(operand(0)?, &ty.shape),
        OpKind::Cast => moves::cast(operand(0)?, ty.element),
        OpKind::Gather { axis } => moves::gather(operand(0)?, operand(1)?, *axis, &ty.shape),
        OpKind::Conv2d {
            strides,
            padding,
            dilations,
            groups,
        } => {
            let window = products::Window {
                strides: *strides,
                padding: *padding,
                dilations: *dilations,
                groups: *groups,
            };
            let mut result = products::conv2d(operand(0)?, operand(1)?, &window, &ty.shape);
            if op.operands.len() > 2 {
                let bias = operand(2)?;
                result = result.and_then(|r| elementwise::binary(BinaryKind::Add, &r, bias));
            }
            result
        }
        OpKind::Repeat { count, body } => {
            let mut carried: Vec<HostArray> = all()?.into_iter().cloned().collect();
            let mut now = iterations.to_vec();
            for i in 0..*count {
                now.push(i);
                let inner = block(body, carried, parameters, &now)?;
                carried = outputs(body, &inner, &op.location)?;
                now.pop();
            }
            return Ok(carried);
        }
    };
    result
        .map(|result| vec![result])
        .map_err(|problem| refuse(op, problem))
}

fn parameter(
    op: &Op,
    ty: &TensorType,
    name: &str,
    parameters: &Parameters,
    iterations: &[u32],
) -> Result<HostArray, GraphError> {
    let key = parameter_key(name, iterations).ok_or_else(|| {
        let depth = iterations.len();
        refuse(op, format!("'{name}' has no key inside {depth} repeats"))
    })?;
    let array = parameters
        .get(&key)
        .ok_or_else(|| GraphError::MissingParameter {
            name: key.clone(),
            ty: ty.clone(),
            location: op.location.clone(),
        })?;
    check_shape(|| format!("parameter '{key}'"), &ty.shape, array.shape())?;
    convert(array, ty.element, || format!("parameter '{key}'"))
}

fn array(extents: &[u32], values: Vec<f32>) -> Result<HostArray, String> {
    HostArray::new(TensorType::new(extents, ElementType::F32), values).map_err(|e| e.to_string())
}

/// Number of elements of a shape that a tensor has.
fn count(extents: &[u32]) -> usize {
    extents.iter().map(|&d| d as usize).product()
}
