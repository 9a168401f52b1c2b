//! Matrix products and convolutions.

use super::{array, count, moves};
use crate::host::{HostArray, shape};

/// The product over the last two axes. The right operand has the batch axes of the left one or none.
pub(super) fn matmul(
    a: &HostArray,
    b: &HostArray,
    transposed: [bool; 2],
) -> Result<HostArray, String> {
    let a = if transposed[0] {
        swapped(a)?
    } else {
        a.clone()
    };
    let b = if transposed[1] {
        swapped(b)?
    } else {
        b.clone()
    };
    let ([a_batch @ .., m, k], [b_batch @ .., k2, n]) = (a.shape(), b.shape()) else {
        return Err("needs matrices".into());
    };
    if k != k2 || !(b_batch.is_empty() || a_batch == b_batch) {
        return Err(format!(
            "shapes {} and {} do not multiply",
            shape(a.shape()),
            shape(b.shape())
        ));
    }
    let mut extents = a_batch.to_vec();
    extents.extend([*m, *n]);
    let (m, k, n) = (*m as usize, *k as usize, *n as usize);
    let mut out = Vec::with_capacity(count(&extents));
    let mut sums = vec![0f64; n];
    for batch in 0..count(a_batch) {
        let right = if b_batch.is_empty() { 0 } else { batch };
        let a = &a.values()[batch * m * k..][..m * k];
        let b = &b.values()[right * k * n..][..k * n];
        for row in a.chunks(k) {
            sums.fill(0.0);
            for (&x, b) in row.iter().zip(b.chunks(n)) {
                for (sum, &y) in sums.iter_mut().zip(b) {
                    *sum += f64::from(x) * f64::from(y);
                }
            }
            out.extend(sums.iter().map(|&s| s as f32));
        }
    }
    array(&extents, out)
}

/// With the last two axes exchanged.
fn swapped(x: &HostArray) -> Result<HostArray, String> {
    let rank = x.shape().len();
    let mut permutation: Vec<u32> = (0..rank as u32).collect();
    if rank >= 2 {
        permutation.swap(rank - 2, rank - 1);
    }
    moves::transpose(x, &permutation)
}

/// How the window of a convolution moves; see `OpKind::Conv2d`.
pub(super) struct Window {
    pub strides: [u32; 2],
    pub padding: [u32; 4],
    pub dilations: [u32; 2],
    pub groups: u32,
}

/// The convolution of `x` with `w` to the shape `extents`.
pub(super) fn conv2d(
    x: &HostArray,
    w: &HostArray,
    window: &Window,
    extents: &[u32],
) -> Result<HostArray, String> {
    let (&[_, h, wide, c], &[kh, kw, depth, f], &[n, oh, ow, _]) = (x.shape(), w.shape(), extents)
    else {
        return Err("needs tensors of 4 axes".into());
    };
    let [h, wide, c, depth, f] = [h, wide, c, depth, f].map(|d| d as usize);
    let filters = f / window.groups as usize;
    // The row or column of the input under element k of the window at position o.
    let under = |axis: usize, o: u32, k: u32, extent: usize| {
        let at = u64::from(o) * u64::from(window.strides[axis])
            + u64::from(k) * u64::from(window.dilations[axis]);
        let at = at.checked_sub(window.padding[2 * axis].into())? as usize;
        (at < extent).then_some(at)
    };
    let mut out = Vec::with_capacity(count(extents));
    let mut sums = vec![0f64; f];
    for image in 0..n as usize {
        for (oy, ox) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
            sums.fill(0.0);
            for (ky, kx) in (0..kh).flat_map(|y| (0..kw).map(move |x| (y, x))) {
                let (Some(y), Some(column)) = (under(0, oy, ky, h), under(1, ox, kx, wide)) else {
                    continue;
                };
                let pixel = &x.values()[((image * h + y) * wide + column) * c..][..c];
                let tap = (ky as usize * kw as usize + kx as usize) * depth * f;
                for (filter, sum) in sums.iter_mut().enumerate() {
                    let first = filter / filters * depth;
                    for channel in 0..depth {
                        *sum += f64::from(pixel[first + channel])
                            * f64::from(w.values()[tap + channel * f + filter]);
                    }
                }
            }
            out.extend(sums.iter().map(|&s| s as f32));
        }
    }
    array(extents, out)
}
