//! Operations along axes: softmax, norms, reductions.

use super::{array, count, moves};
use crate::host::HostArray;
use crate::numerics::max;
use ipu_program::graph::ReduceKind;

pub(super) fn softmax(x: &HostArray, axis: u32) -> Result<HostArray, String> {
    let (before, rest) = x.shape().split_at(axis as usize);
    let (&extent, after) = rest.split_first().ok_or("has no such axis")?;
    let (extent, inner) = (extent as usize, count(after));
    let mut out = vec![0f32; x.values().len()];
    for outer in 0..count(before) {
        for i in 0..inner {
            let at = |j: usize| (outer * extent + j) * inner + i;
            let mut row: Vec<f64> = (0..extent).map(|j| x.values()[at(j)].into()).collect();
            softmax_in_place(&mut row);
            for (j, value) in row.into_iter().enumerate() {
                out[at(j)] = value as f32;
            }
        }
    }
    array(x.shape(), out)
}

/// exp(x - max) / sum(exp(x - max))
pub(super) fn softmax_in_place(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for value in row.iter_mut() {
        *value = libm::exp(*value - largest);
        sum += *value;
    }
    for value in row {
        *value /= sum;
    }
}

pub(super) fn layer_norm(
    x: &HostArray,
    scale: &HostArray,
    bias: &HostArray,
    epsilon: f32,
) -> Result<HostArray, String> {
    let columns = scale.values().len();
    let mut out = Vec::with_capacity(x.values().len());
    for row in x.values().chunks(columns) {
        let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / columns as f64;
        let square = |&v: &f32| (f64::from(v) - mean) * (f64::from(v) - mean);
        let variance = row.iter().map(square).sum::<f64>() / columns as f64;
        let root = (variance + f64::from(epsilon)).sqrt();
        out.extend(
            row.iter()
                .zip(scale.values().iter().zip(bias.values()))
                .map(|(&v, (&s, &b))| {
                    ((f64::from(v) - mean) / root * f64::from(s) + f64::from(b)) as f32
                }),
        );
    }
    array(x.shape(), out)
}

pub(super) fn rms_norm(
    x: &HostArray,
    scale: &HostArray,
    epsilon: f32,
) -> Result<HostArray, String> {
    let columns = scale.values().len();
    let mut out = Vec::with_capacity(x.values().len());
    for row in x.values().chunks(columns) {
        let squares = row
            .iter()
            .map(|&v| f64::from(v) * f64::from(v))
            .sum::<f64>();
        let root = (squares / columns as f64 + f64::from(epsilon)).sqrt();
        let scaled = row.iter().zip(scale.values());
        out.extend(scaled.map(|(&v, &s)| (f64::from(v) / root * f64::from(s)) as f32));
    }
    array(x.shape(), out)
}

/// Reduces over ascending axes to the shape `extents`.
pub(super) fn reduce(
    kind: ReduceKind,
    x: &HostArray,
    axes: &[u32],
    extents: &[u32],
) -> Result<HostArray, String> {
    // The axes that go last: then each result is made of one run of elements.
    let stay = (0..x.shape().len() as u32).filter(|axis| !axes.contains(axis));
    let order: Vec<u32> = stay.chain(axes.iter().copied()).collect();
    let sorted = moves::transpose(x, &order)?;
    let run: usize = axes
        .iter()
        .map(|&a| x.shape()[a as usize] as usize)
        .product();
    let sum = |run: &[f32]| run.iter().map(|&v| f64::from(v)).sum::<f64>();
    let one = |values: &[f32]| match kind {
        ReduceKind::Sum => sum(values) as f32,
        ReduceKind::Mean => (sum(values) / run as f64) as f32,
        ReduceKind::Max => values.iter().copied().fold(f32::NEG_INFINITY, max),
    };
    array(extents, sorted.values().chunks(run).map(one).collect())
}
