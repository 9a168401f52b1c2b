//! The model graph in f32: the reference that every compiled program is compared with.
//!
//! Inputs, parameters and constants are rounded to their type in the model (f16: nearest even);
//! everything computed from them stays f32, whatever its type in the model. A matrix product sums
//! in f64 in the order of K and rounds once; every other operation rounds each element once.

use crate::host::{HostArray, HostError, Parameters, broadcast, broadcast_shape, shape};
use crate::numerics::{max, min};
use ipu_program::graph::{Activation, BinaryKind, Graph, Op, OpKind, UnaryKind, ValueId};
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
    /// The values of a constant do not fit its type.
    #[error("{location}: {error}")]
    Constant {
        /// Location of the operation.
        location: String,
        /// Why.
        error: HostError,
    },
}

/// Executes a graph; the results are f32.
///
/// # Errors
/// See [`GraphError`].
pub fn run(
    graph: &Graph,
    inputs: &[HostArray],
    parameters: &Parameters,
) -> Result<Vec<HostArray>, GraphError> {
    let values = evaluate(graph, inputs, parameters)?;
    graph
        .outputs
        .iter()
        .enumerate()
        .map(|(i, id)| {
            value(&values, *id)
                .map(|v| v.to_element(ElementType::F32))
                .ok_or_else(|| GraphError::Operands {
                    op: "return",
                    location: graph.name.clone(),
                    problem: format!("output {i} is not defined"),
                })
        })
        .collect()
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
    let mut values: Vec<Option<HostArray>> = vec![None; graph.values.len()];
    for (i, (&id, input)) in graph.inputs.iter().zip(inputs).enumerate() {
        let ty = graph.ty(id);
        check_shape(|| format!("input {i}"), &ty.shape, input.shape())?;
        values[id.0 as usize] = Some(input.to_element(ty.element));
    }
    for op in &graph.ops {
        let ty = graph.ty(op.result);
        let result = execute(op, ty, &values, parameters)?;
        check_shape(
            || format!("{}: nn.{}", op.location, op.kind.name()),
            &ty.shape,
            result.shape(),
        )?;
        values[op.result.0 as usize] = Some(result);
    }
    Ok(values)
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

fn execute(
    op: &Op,
    ty: &TensorType,
    values: &[Option<HostArray>],
    parameters: &Parameters,
) -> Result<HostArray, GraphError> {
    let refuse = |problem: String| GraphError::Operands {
        op: op.kind.name(),
        location: op.location.clone(),
        problem,
    };
    let operand = |i: usize| {
        op.operands
            .get(i)
            .and_then(|&id| value(values, id))
            .ok_or_else(|| {
                refuse(format!(
                    "operand {i} is missing or used before it is defined"
                ))
            })
    };
    match &op.kind {
        OpKind::Parameter { name } => {
            let array = parameters
                .get(name)
                .ok_or_else(|| GraphError::MissingParameter {
                    name: name.clone(),
                    ty: ty.clone(),
                    location: op.location.clone(),
                })?;
            check_shape(|| format!("parameter '{name}'"), &ty.shape, array.shape())?;
            Ok(array.to_element(ty.element))
        }
        OpKind::Constant { values } => {
            HostArray::constant(ty.clone(), values).map_err(|error| GraphError::Constant {
                location: op.location.clone(),
                error,
            })
        }
        OpKind::Matmul {
            transpose_a: false,
            transpose_b: false,
        } => matmul(operand(0)?, operand(1)?).map_err(refuse),
        OpKind::Binary(kind) => binary(*kind, operand(0)?, operand(1)?).map_err(refuse),
        OpKind::Unary(UnaryKind::Relu) => Ok(relu(operand(0)?)),
        OpKind::Linear { activation } => {
            let mut result = matmul(operand(0)?, operand(1)?).map_err(refuse)?;
            if op.operands.len() > 2 {
                result = binary(BinaryKind::Add, &result, operand(2)?).map_err(refuse)?;
            }
            Ok(match activation {
                Activation::None => result,
                Activation::Relu => relu(&result),
            })
        }
        other => Err(refuse(format!("the reference lacks nn.{}", other.name()))),
    }
}

fn array(extents: Vec<u32>, values: Vec<f32>) -> Result<HostArray, String> {
    HostArray::new(TensorType::new(extents, ElementType::F32), values).map_err(|e| e.to_string())
}

fn relu(a: &HostArray) -> HostArray {
    a.map(|x| max(x, 0.0))
}

fn binary(kind: BinaryKind, a: &HostArray, b: &HostArray) -> Result<HostArray, String> {
    let extents = broadcast_shape(a.shape(), b.shape()).ok_or_else(|| {
        format!(
            "shapes {} and {} do not broadcast",
            shape(a.shape()),
            shape(b.shape())
        )
    })?;
    let expand =
        |x: &HostArray| broadcast(x.values(), x.shape(), &extents).map_err(|e| e.to_string());
    let f: fn(f32, f32) -> f32 = match kind {
        BinaryKind::Add => |a, b| a + b,
        BinaryKind::Sub => |a, b| a - b,
        BinaryKind::Mul => |a, b| a * b,
        BinaryKind::Div => |a, b| a / b,
        BinaryKind::Max => max,
        BinaryKind::Min => min,
    };
    let values = expand(a)?
        .into_iter()
        .zip(expand(b)?)
        .map(|(a, b)| f(a, b))
        .collect();
    array(extents, values)
}

fn matmul(a: &HostArray, b: &HostArray) -> Result<HostArray, String> {
    let describe = || {
        format!(
            "shapes {} and {} do not multiply",
            shape(a.shape()),
            shape(b.shape())
        )
    };
    let ([a_batch @ .., m, k], [b_batch @ .., k2, n]) = (a.shape(), b.shape()) else {
        return Err(describe());
    };
    let batch = broadcast_shape(a_batch, b_batch)
        .filter(|_| k == k2)
        .ok_or_else(describe)?;
    let (m, k, n) = (*m as usize, *k as usize, *n as usize);
    // Number of the matrix of each operand for each batch index, by broadcasting the numbers.
    let numbers = |own: &[u32]| {
        let ids: Vec<usize> = (0..own.iter().map(|&d| d as usize).product()).collect();
        broadcast(&ids, own, &batch).map_err(|e| e.to_string())
    };
    let mut out = Vec::new();
    let mut sums = vec![0f64; n];
    for (ai, bi) in numbers(a_batch)?.into_iter().zip(numbers(b_batch)?) {
        let a = &a.values()[ai * m * k..][..m * k];
        let b = &b.values()[bi * k * n..][..k * n];
        for i in 0..m {
            sums.fill(0.0);
            for l in 0..k {
                let x = f64::from(a[i * k + l]);
                for (sum, &y) in sums.iter_mut().zip(&b[l * n..][..n]) {
                    *sum += x * f64::from(y);
                }
            }
            out.extend(sums.iter().map(|&s| s as f32));
        }
    }
    let mut extents = batch;
    extents.extend([m as u32, n as u32]);
    array(extents, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn f16(extents: &[u32]) -> TensorType {
        TensorType::new(extents, ElementType::F16)
    }

    fn host(extents: &[u32], values: &[f32]) -> HostArray {
        HostArray::constant(TensorType::new(extents, ElementType::F32), values).unwrap()
    }

    /// relu(x * w + b) as three operations and as one.
    fn linear() -> Graph {
        let mut g = Graph {
            name: "main".into(),
            ..Graph::default()
        };
        let x = g.add_value(f16(&[2, 3]));
        g.inputs.push(x);
        let at = |line: u32| format!("m.mlir:{line}:3");
        let parameter = |name: &str| OpKind::Parameter { name: name.into() };
        let w = g.add_op(parameter("w"), vec![], f16(&[3, 2]), at(1));
        let b = g.add_op(parameter("b"), vec![], f16(&[2]), at(2));
        let p = g.add_op(OpKind::MATMUL, vec![x, w], f16(&[2, 2]), at(3));
        let s = g.add_op(
            OpKind::Binary(BinaryKind::Add),
            vec![p, b],
            f16(&[2, 2]),
            at(4),
        );
        let r = g.add_op(OpKind::RELU, vec![s], f16(&[2, 2]), at(5));
        let activation = Activation::Relu;
        let l = g.add_op(
            OpKind::Linear { activation },
            vec![x, w, b],
            f16(&[2, 2]),
            at(6),
        );
        g.outputs = vec![r, l];
        g
    }

    fn parameters() -> Parameters {
        Parameters::from([
            (
                "w".to_owned(),
                host(&[3, 2], &[1.0, -1.0, 2.0, 0.5, 3.0, 0.25]),
            ),
            ("b".to_owned(), host(&[2], &[0.1, -1.0])),
        ])
    }

    #[test]
    fn fused_and_separate_operations_agree() {
        let x = host(&[2, 3], &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0]);
        let out = run(&linear(), &[x], &parameters()).unwrap();
        // 0.1 is rounded to f16, the sum is not.
        assert_eq!(out[0].values(), [14.0 + 0.099_975_586, 0.0, 0.0, 0.0]);
        assert_eq!(out[0], out[1]);
    }

    #[test]
    fn batches_broadcast() {
        let a = host(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let b = host(&[2, 1], &[10.0, 1.0]);
        let out = matmul(&a, &b).unwrap();
        assert_eq!(
            (out.shape(), out.values()),
            (&[2, 1, 1][..], &[12.0, 34.0][..])
        );
        let b = host(&[3, 1, 2, 1], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let out = matmul(&a, &b).unwrap();
        assert_eq!(out.shape(), [3, 2, 1, 1]);
        assert_eq!(out.values(), [1.0, 3.0, 2.0, 4.0, 3.0, 7.0]);
        assert_eq!(
            matmul(&a, &host(&[3, 1], &[0.0])).unwrap_err(),
            "shapes 2x1x2 and 3x1 do not multiply"
        );
    }

    #[test]
    fn elementwise_operations() {
        let a = host(&[2], &[6.0, f32::NAN]);
        let b = host(&[2], &[4.0, 2.0]);
        let f = |kind| binary(kind, &a, &b).unwrap().values().to_vec();
        assert_eq!(f(BinaryKind::Max), [6.0, 2.0]);
        assert_eq!(f(BinaryKind::Min), [4.0, 2.0]);
        assert_eq!(f(BinaryKind::Sub)[0], 2.0);
        assert_eq!(f(BinaryKind::Mul)[0], 24.0);
        assert_eq!(f(BinaryKind::Div)[0], 1.5);
    }

    #[test]
    fn errors_name_the_subject() {
        let x = host(&[2, 3], &[0.0]);
        let message = |inputs: &[HostArray], p: &Parameters| {
            run(&linear(), inputs, p).unwrap_err().to_string()
        };
        assert_eq!(
            message(&[], &parameters()),
            "function 'main' takes 1 inputs, found 0"
        );
        assert_eq!(
            message(&[host(&[3], &[0.0])], &parameters()),
            "input 0: expected shape 2x3, found 3"
        );
        let mut p = parameters();
        p.insert("b".into(), host(&[3], &[0.0]));
        assert_eq!(
            message(std::slice::from_ref(&x), &p),
            "parameter 'b': expected shape 2, found 3"
        );
        p.remove("b");
        assert_eq!(
            message(&[x], &p),
            "m.mlir:2:3: parameter 'b' is missing; expected tensor<2xf16> in the weights"
        );
    }
}
