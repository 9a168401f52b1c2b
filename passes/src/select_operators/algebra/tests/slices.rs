//! Random graphs for the rules of slices and concats.

use super::build::Build;
use ipu_program::graph::{OpKind, ValueId};

/// A slice of a concat of `count` operands: of its first operand, or of those behind it; or, mostly
/// not, of more than that.
pub fn of_concat(b: &mut Build, behind: bool, count: u32) -> ValueId {
    let (axis, other) = (b.random.below(2), b.dim());
    let shape = |along: u32| match axis {
        0 => [along, other],
        _ => [other, along],
    };
    let extents: Vec<u32> = (0..count).map(|_| 1 + b.dim()).collect();
    let operands: Vec<ValueId> = extents.iter().map(|&n| b.input(&shape(n))).collect();
    let x = b.op(OpKind::Concat { axis }, &operands);
    let (first, all): (u32, u32) = (extents[0], extents.iter().sum());
    let (from, end) = match (b.ok(), behind) {
        (true, false) => (0, first),
        (true, true) => (first, all),
        // Across the join.
        (false, _) => (first - 1, first + 1),
    };
    let within = end - from;
    let stride = match b.expect {
        true => 1 + b.random.below(2),
        false => 1,
    };
    let offset = match b.expect {
        true => b.random.below(within),
        false => 0,
    };
    // Of an axis in steps, the elements behind the last one do not count.
    let most = (within - offset).div_ceil(stride);
    let taken = match b.expect {
        true => 1 + b.random.below(most),
        false => most,
    };
    let (mut offsets, mut strides) = ([0, 0], [1, 1]);
    offsets[axis as usize] = from + offset;
    strides[axis as usize] = stride;
    b.slice(x, &offsets, &strides, &shape(taken))
}

/// A concat of `count` slices of one value, of which the first two follow each other, mostly.
pub fn concat(b: &mut Build, count: u32) -> ValueId {
    let (axis, other) = (b.random.below(2), b.dim());
    let stride = 1 + b.random.below(2);
    let shape = |along: u32| match axis {
        0 => [along, other],
        _ => [other, along],
    };
    let x = b.input(&shape(40).map(|n| n + 1));
    let fault = (!b.ok()).then(|| b.random.below(3));
    let mut at = b.random.below(3);
    let mut list = Vec::new();
    for i in 0..count {
        let n = 1 + b.random.below(3);
        let (mut offsets, mut strides) = ([0, 0], [stride, stride]);
        // Not along the other axis: it has one step of `other` elements.
        strides[1 - axis as usize] = 1;
        offsets[axis as usize] = at;
        if i == 1 {
            match fault {
                // A gap, the same again, or other rows.
                Some(0) => offsets[axis as usize] += 1,
                Some(1) => offsets[axis as usize] -= 1,
                Some(_) => offsets[1 - axis as usize] = 1,
                None => {}
            }
        }
        list.push(b.slice(x, &offsets, &strides, &shape(n)));
        // What comes third does not follow: it is another pair.
        at += stride * n + if i > 0 { 2 } else { 0 };
    }
    b.op(OpKind::Concat { axis }, &list)
}
