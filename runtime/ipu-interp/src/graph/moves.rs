//! Operations that move elements.

use super::{array, computed, count};
use crate::host::{self, HostArray};
use ipu_program::types::{ElementType, TensorType};

/// Values moved from `x`.
pub(super) fn moved(x: &HostArray, extents: &[u32], values: Vec<f32>) -> Result<HostArray, String> {
    let ty = TensorType::new(extents, computed(x.ty().element));
    HostArray::new(ty, values).map_err(|e| e.to_string())
}

/// Distances of neighbours along each axis of a dense row-major array.
fn distances(extents: &[u32]) -> Vec<usize> {
    let mut distances = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        distances[axis - 1] = distances[axis] * extents[axis] as usize;
    }
    distances
}

/// The elements at `first` plus any multiples of `steps` within `extents`, row-major.
fn strided(values: &[f32], first: usize, steps: &[usize], extents: &[u32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(count(extents));
    let mut index = vec![0u32; extents.len()];
    let mut at = first;
    loop {
        out.push(values[at]);
        let mut axis = extents.len();
        loop {
            let Some(inner) = axis.checked_sub(1) else {
                return out;
            };
            axis = inner;
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < extents[axis] {
                break;
            }
            at -= steps[axis] * index[axis] as usize;
            index[axis] = 0;
        }
    }
}

pub(super) fn transpose(x: &HostArray, permutation: &[u32]) -> Result<HostArray, String> {
    let own = distances(x.shape());
    let extents: Vec<u32> = permutation.iter().map(|&a| x.shape()[a as usize]).collect();
    let steps: Vec<usize> = permutation.iter().map(|&a| own[a as usize]).collect();
    moved(x, &extents, strided(x.values(), 0, &steps, &extents))
}

pub(super) fn slice(
    x: &HostArray,
    offsets: &[u32],
    strides: &[u32],
    extents: &[u32],
) -> Result<HostArray, String> {
    let own = distances(x.shape());
    let scaled =
        |by: &[u32]| -> Vec<usize> { own.iter().zip(by).map(|(&d, &n)| d * n as usize).collect() };
    let first = scaled(offsets).iter().sum();
    moved(
        x,
        extents,
        strided(x.values(), first, &scaled(strides), extents),
    )
}

pub(super) fn concat(
    inputs: &[&HostArray],
    axis: u32,
    extents: &[u32],
) -> Result<HostArray, String> {
    let first = inputs.first().ok_or("has no operands")?;
    let mut values = Vec::with_capacity(count(extents));
    for outer in 0..count(&extents[..axis as usize]) {
        for input in inputs {
            let block = count(&input.shape()[axis as usize..]);
            values.extend_from_slice(&input.values()[outer * block..][..block]);
        }
    }
    moved(first, extents, values)
}

pub(super) fn broadcast(x: &HostArray, extents: &[u32]) -> Result<HostArray, String> {
    let values = host::broadcast(x.values(), x.shape(), extents).map_err(|e| e.to_string())?;
    moved(x, extents, values)
}

/// Rounds to the element type; what is computed from it is f32 again.
pub(super) fn cast(x: &HostArray, element: ElementType) -> Result<HostArray, String> {
    let rounded = x.to_element(element).map_err(|e| e.to_string())?;
    match element.is_float() {
        true => array(x.shape(), rounded.values().to_vec()),
        false => Ok(rounded),
    }
}

pub(super) fn gather(
    x: &HostArray,
    indices: &HostArray,
    axis: u32,
    extents: &[u32],
) -> Result<HostArray, String> {
    let (before, rest) = x.shape().split_at(axis as usize);
    let (&rows, after) = rest.split_first().ok_or("has no such axis")?;
    let block = count(after);
    let picked: Vec<usize> = indices
        .values()
        .iter()
        .enumerate()
        .map(|(i, &index)| match index >= 0.0 && index < rows as f32 {
            true => Ok(index as usize),
            false => Err(format!(
                "index {index} at position {i} is out of range, axis {axis} has {rows} rows"
            )),
        })
        .collect::<Result<_, _>>()?;
    let mut values = Vec::with_capacity(count(extents));
    for outer in 0..count(before) {
        for row in &picked {
            let at = (outer * rows as usize + row) * block;
            values.extend_from_slice(&x.values()[at..at + block]);
        }
    }
    moved(x, extents, values)
}

/// `[.., T, heads * d]` to `[N * heads, T, d]`.
pub(super) fn split_heads(x: &HostArray, heads: u32, extents: &[u32]) -> Result<HostArray, String> {
    let &[batch, rows, depth] = extents else {
        return Err("has a result without 3 axes".into());
    };
    let apart = moved(x, &[batch / heads, rows, heads, depth], x.values().to_vec())?;
    moved(
        x,
        extents,
        transpose(&apart, &[0, 2, 1, 3])?.values().to_vec(),
    )
}

/// `[N * heads, T, d]` to `[N, T, heads * d]`.
pub(super) fn merge_heads(x: &HostArray, heads: u32, extents: &[u32]) -> Result<HostArray, String> {
    let &[batch, rows, depth] = x.shape() else {
        return Err("has an operand without 3 axes".into());
    };
    let apart = moved(x, &[batch / heads, heads, rows, depth], x.values().to_vec())?;
    moved(
        x,
        extents,
        transpose(&apart, &[0, 2, 1, 3])?.values().to_vec(),
    )
}
