//! Elementwise operations.

use super::array;
use crate::host::{HostArray, broadcast, shape};
use crate::numerics::{max, min};
use ipu_program::graph::{BinaryKind, UnaryKind};
use ipu_program::infer;
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

pub(super) fn relu(a: &HostArray) -> HostArray {
    a.map(|x| max(x, 0.0))
}

pub(super) fn unary(kind: UnaryKind, a: &HostArray) -> HostArray {
    let f = match kind {
        UnaryKind::Relu => return relu(a),
        UnaryKind::GeluErf => gelu,
        UnaryKind::GeluTanh => gelu_tanh,
        UnaryKind::Sigmoid => sigmoid,
        UnaryKind::Tanh => libm::tanh,
        UnaryKind::Exp => libm::exp,
        UnaryKind::Rsqrt => |x: f64| 1.0 / x.sqrt(),
    };
    a.map(|x| f(f64::from(x)) as f32)
}

/// 1 + erf(y) as erfc(-y), which is precise where both cancel.
fn gelu(x: f64) -> f64 {
    x * libm::erfc(-x / SQRT_2) / 2.0
}

/// (1 + tanh(u)) / 2 as sigmoid(2 u), for the same reason.
fn gelu_tanh(x: f64) -> f64 {
    let root = FRAC_2_SQRT_PI / SQRT_2; // sqrt(2 / pi)
    x * sigmoid(2.0 * root * (x + 0.044715 * x * x * x))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

pub(super) fn binary(kind: BinaryKind, a: &HostArray, b: &HostArray) -> Result<HostArray, String> {
    let extents = infer::broadcast(a.shape(), b.shape()).ok_or_else(|| {
        format!(
            "shapes {} and {} do not broadcast",
            shape(a.shape()),
            shape(b.shape())
        )
    })?;
    let expand =
        |x: &HostArray| broadcast(x.values(), x.shape(), &extents).map_err(|e| e.to_string());
    // Of one operation in f64, rounded, these are the results.
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
    array(&extents, values)
}
