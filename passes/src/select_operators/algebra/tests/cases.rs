//! For every rule, random graphs that it should match and that it should not: what is expected
//! follows from how a graph was made, not from the side conditions.

use super::build::Build;
use ipu_program::graph::{BinaryKind, Graph, OpKind, ReduceKind, UnaryKind, ValueId};
use ipu_program::types::ElementType;

/// A graph for a rule by seed, and whether it should match.
pub fn case(rule: &str, seed: u64) -> Option<(Graph, bool)> {
    let mut b = Build::new(seed);
    let out = make(rule, &mut b)?;
    (!b.broken).then(|| b.done(out))
}

/// As [`case`], with products of f16 that stay f32: what to expect is not known.
pub fn wide_case(rule: &str, seed: u64) -> Option<Graph> {
    let mut b = Build::new(seed);
    b.element = ElementType::F16;
    b.wide = seed.is_multiple_of(2);
    b.odd = true;
    let out = make(rule, &mut b)?;
    (!b.broken).then(|| b.done(out).0)
}

use BinaryKind::{Add, Div, Mul, Sub};

/// A row for a sum with `[.., n]` of rank `rank`: a vector, or with axes of one element; or not.
fn row(b: &mut Build, n: u32, rank: usize) -> ValueId {
    if !b.ok() {
        // One element, all rows, or too many axes.
        let shape = match b.random.below(3) {
            0 => vec![1],
            1 => vec![2; rank - 1].into_iter().chain([n]).collect(),
            _ => vec![1; rank].into_iter().chain([n]).collect(),
        };
        return b.param(&shape);
    }
    let shape = if b.coin() { vec![n] } else { vec![1, n] };
    b.host(&shape)
}

/// `x`, `w` of a product with weights: rows first.
fn weighted(b: &mut Build) -> (ValueId, ValueId, [u32; 3]) {
    let [k, n] = [b.dim(), b.dim()];
    let x = if b.coin() {
        b.input(&[2, k])
    } else {
        b.input(&[3, 2, k])
    };
    let w = b.host(&[k, n]);
    (x, w, [2, k, n])
}

/// A bias of rank 1 that the host knows, mostly.
fn bias(b: &mut Build, n: u32) -> ValueId {
    let element = b.element;
    if b.odd && b.coin() {
        b.element = match element {
            ElementType::F16 => ElementType::F32,
            _ => ElementType::F16,
        };
    }
    let v = if b.ok() {
        b.host(&[n])
    } else {
        b.param(&[1, n])
    };
    b.element = element;
    v
}

/// Extents of a batch of rank 3 or 4, as `[batch.., rows, columns]`.
fn batch(b: &mut Build) -> Vec<u32> {
    if b.coin() { vec![2] } else { vec![2, 3] }
}

fn shape(batch: &[u32], rest: [u32; 2]) -> Vec<u32> {
    [batch, &rest].concat()
}

/// q, k, v of the same batch, mostly.
fn heads(b: &mut Build) -> ([ValueId; 3], [u32; 4], Vec<u32>) {
    let lead = batch(b);
    let [mut tq, tk, d, e] = [b.dim(), b.dim(), b.dim(), b.dim()];
    if b.coin() {
        tq = 1;
    }
    let shared = |b: &mut Build, rest| {
        // A matrix for the whole batch is another operator.
        if b.ok() {
            b.computed(&shape(&lead, rest))
        } else {
            b.input(&rest)
        }
    };
    let q = b.computed(&shape(&lead, [tq, d]));
    let k = shared(b, [tk, d]);
    if b.wide {
        b.element = ElementType::F32;
    }
    let v = shared(b, [tk, e]);
    ([q, k, v], [tq, tk, d, e], lead)
}

fn softmax_last(b: &mut Build, x: ValueId) -> ValueId {
    let rank = b.shape(x).len() as u32;
    let axis = if b.ok() { rank - 1 } else { rank - 2 };
    b.softmax(x, axis)
}

/// A mask of `[tq, tk]`, causal mostly.
fn mask(b: &mut Build, tq: u32, tk: u32) -> ValueId {
    let before = b.expect;
    let wrong = !b.ok();
    let shift = if wrong { tk - tq + 1 } else { tk - tq };
    let hidden = if b.ok() { -1e30 } else { -1.0 };
    let mut values = Vec::new();
    for i in 0..tq {
        for j in 0..tk {
            values.push(if j <= i + shift { 0.0 } else { hidden });
        }
    }
    if tq == 1 {
        // One query sees everything, whatever would be hidden.
        b.expect = before;
    }
    let one = b.coin();
    let to = if one { vec![1, tq, tk] } else { vec![tq, tk] };
    let ty = b.ty(&to);
    b.stated(OpKind::Constant { values }, &[], ty)
}

/// The scores with a factor that does not change their shape, mostly.
fn scaled(b: &mut Build, kind: BinaryKind, scores: ValueId, value: f32) -> ValueId {
    let own = b.shape(scores);
    let s = if !b.ok() {
        // More rows, or one more batch.
        let mut larger = own.clone();
        let rows = larger.len() - 2;
        if larger[rows] == 1 {
            larger[rows] = 3;
        } else {
            larger.insert(0, 1);
        }
        b.splat(&larger, value)
    } else if !b.ok() {
        b.splat(&[1], 0.0)
    } else {
        b.factor(&own, value)
    };
    match kind {
        Mul => b.either(Mul, scores, s),
        kind => b.binary(kind, scores, s),
    }
}

/// A value of another element type than the rest, behind a cast to it, is one more rounding.
fn make(rule: &str, b: &mut Build) -> Option<ValueId> {
    Some(match rule {
        "linear-of-matmul" => {
            let (x, w, [_, k, n]) = weighted(b);
            if b.ok() {
                b.matmul(x, w, false)
            } else {
                let (x, w) = (b.input(&[2, 3, k]), b.param(&[2, k, n]));
                b.matmul(x, w, false)
            }
        }
        "linear-of-transposed" => {
            let [k, n] = [b.dim(), b.dim()];
            if b.ok() {
                let (x, w) = (b.input(&[2, k]), b.host(&[n, k]));
                b.matmul(x, w, true)
            } else {
                let (x, w) = (b.input(&[2, 3, k]), b.param(&[2, n, k]));
                b.matmul(x, w, true)
            }
        }
        "bias-right" | "bias-left" => {
            let (x, w, [_, _, n]) = weighted(b);
            // The weight may be anything.
            b.expect = true;
            let y = if b.ok() {
                b.linear(false, &[x, w])
            } else {
                b.linear(true, &[x, w])
            };
            let rank = b.shape(x).len();
            let c = row(b, n, rank);
            match rule {
                "bias-right" => b.binary(Add, y, c),
                _ => b.binary(Add, c, y),
            }
        }
        "bias-of-biased" => {
            let (x, w, [_, _, n]) = weighted(b);
            b.expect = true;
            let c = bias(b, n);
            let y = b.linear(false, &[x, w, c]);
            let rank = b.shape(x).len();
            let d = row(b, n, rank);
            b.either(Add, y, d)
        }
        "relu-of-linear" | "relu-of-linear-relu" => {
            let (x, w, _) = weighted(b);
            b.expect = true;
            let relu = (rule == "relu-of-linear-relu") == b.ok();
            let y = b.linear(relu, &[x, w]);
            b.unary(UnaryKind::Relu, y)
        }
        "relu-idempotent" => {
            let x = b.input(&[3, 4]);
            let first = if b.ok() {
                UnaryKind::Relu
            } else {
                UnaryKind::Tanh
            };
            let y = b.unary(first, x);
            b.unary(UnaryKind::Relu, y)
        }
        "power-of-two-of-linear" | "power-of-two-of-biased" => {
            let (x, w, [_, _, n]) = weighted(b);
            let mut operands = vec![x, w];
            if rule == "power-of-two-of-biased" {
                operands.push(bias(b, n));
            }
            let y = b.linear(false, &operands);
            let value = if b.ok() { 0.25 } else { 0.3 };
            let own = b.shape(y);
            let s = if !b.ok() {
                let mut larger = own.clone();
                larger.insert(0, 2);
                b.splat(&larger, value)
            } else if b.ok() {
                b.factor(&own, value)
            } else {
                b.input(&[1])
            };
            b.either(Mul, y, s)
        }
        "scale-of-linear" | "scale-of-biased" => {
            let (x, w, [_, _, n]) = weighted(b);
            let mut operands = vec![x, w];
            if rule == "scale-of-biased" {
                operands.push(bias(b, n));
            }
            let y = b.linear(false, &operands);
            let rank = b.shape(x).len();
            let s = if b.coin() {
                b.host(&[1])
            } else if !b.ok() {
                let rows = vec![2; rank - 1].into_iter().chain([n]);
                b.param(&rows.collect::<Vec<_>>())
            } else if !b.ok() {
                let axes = vec![1; rank].into_iter().chain([n]);
                b.param(&axes.collect::<Vec<_>>())
            } else {
                b.host(&[n])
            };
            b.either(Mul, y, s)
        }
        "linear-of-scaled" => {
            let (x, w, [_, k, _]) = weighted(b);
            let rank = b.shape(x).len();
            let g = if b.coin() {
                b.host(&[1, k])
            } else if !b.ok() {
                let rows = vec![2; rank - 1].into_iter().chain([k]);
                b.param(&rows.collect::<Vec<_>>())
            } else if !b.ok() {
                let axes = vec![1; rank].into_iter().chain([k]);
                b.param(&axes.collect::<Vec<_>>())
            } else {
                b.host(&[k])
            };
            let y = b.either(Mul, x, g);
            b.linear(true, &[y, w])
        }
        "linear-of-linear" | "linear-of-biased" | "biased-of-biased" => {
            let [k, n] = [b.dim(), b.dim()];
            let p = if b.ok() { k * n } else { 1 };
            let x = b.input(&[2, k]);
            let mut inner = vec![x, b.host(&[k, p])];
            if rule != "linear-of-linear" {
                inner.push(bias(b, p));
            }
            let y = b.linear(false, &inner);
            let mut outer = vec![y, b.host(&[p, n])];
            if rule == "biased-of-biased" {
                outer.push(bias(b, n));
            }
            b.linear(true, &outer)
        }
        "linear-of-concat" => {
            let [k, l, n] = [b.dim(), b.dim(), b.dim()];
            if b.ok() {
                let (x, y) = (b.input(&[2, k]), b.input(&[2, l]));
                let z = b.op(OpKind::Concat { axis: 1 }, &[x, y]);
                let w = b.host(&[k + l, n]);
                b.linear(false, &[z, w])
            } else {
                let (x, y) = (b.input(&[2, k]), b.input(&[3, k]));
                let z = b.op(OpKind::Concat { axis: 0 }, &[x, y]);
                let w = b.param(&[k, n]);
                b.linear(false, &[z, w])
            }
        }
        "scale-of-matmul-left" | "scale-of-matmul-right" => {
            let lead = batch(b);
            // The scaled operand is smaller than the result, mostly.
            let small = if b.ok() { 2 } else { 9 };
            let [m, k, n] = [3, small, 4];
            let (x, y) = (
                b.computed(&shape(&lead, [m, k])),
                b.computed(&shape(&lead, [n, k])),
            );
            // Both are smaller than the result or neither is.
            let p = b.matmul(x, y, true);
            let own = b.shape(p);
            let s = if !b.ok() {
                let mut larger = own.clone();
                larger.insert(0, 2);
                b.splat(&larger, 0.25)
            } else if b.ok() {
                b.factor(&own, 0.25)
            } else {
                b.input(&[1])
            };
            b.either(Mul, p, s)
        }
        "matmul-of-transposed" => {
            let lead = batch(b);
            let rank = lead.len() as u32 + 2;
            let good = b.ok();
            // The last axis of what is transposed becomes the last but one, or stays.
            let mut p: Vec<u32> = (0..rank).collect();
            if good {
                p.swap(rank as usize - 1, rank as usize - 2);
                if b.coin() && rank == 4 {
                    // Heads and rows exchanged as well: [b, t, h, d] to [b, h, d, t].
                    p = vec![0, 2, 3, 1];
                }
            } else {
                p.swap(0, rank as usize - 2);
            }
            let extents = [2, 3, 4, 5];
            let y = b.computed(&extents[..rank as usize]);
            let y = b.transpose(y, &p);
            let to = b.shape(y);
            let mut from = to.clone();
            from[rank as usize - 2] = 3;
            from[rank as usize - 1] = to[rank as usize - 2];
            let x = b.input(&from);
            b.matmul(x, y, false)
        }
        "transpose-of-product" | "transpose-of-matmul" => {
            let transposed = rule == "transpose-of-product";
            let lead = batch(b);
            let [m, k, n] = [b.dim(), b.dim(), b.dim()];
            let rest = if transposed { [n, k] } else { [k, n] };
            let x = b.computed(&shape(&lead, [m, k]));
            let y = if b.ok() {
                b.computed(&shape(&lead, rest))
            } else {
                b.input(&rest)
            };
            let p = b.matmul(x, y, transposed);
            let rank = lead.len() + 2;
            let mut axes: Vec<u32> = (0..rank as u32).collect();
            if b.ok() {
                axes.swap(rank - 1, rank - 2);
            } else {
                axes.swap(0, rank - 1);
            }
            b.transpose(p, &axes)
        }
        "matmul-of-matmul-right" | "matmul-of-matmul-left" => {
            let right = rule == "matmul-of-matmul-right";
            let lead = batch(b);
            let good = b.ok();
            // (ab)c costs mp(k + n), a(bc) kn(p + m).
            let [m, k, p, n] = match (right, good) {
                (true, true) => [6, 2, 6, 2],
                (false, true) => [2, 6, 2, 6],
                _ => [3, 3, 3, 3],
            };
            let one = |b: &mut Build, rest| {
                if b.ok() {
                    b.computed(&shape(&lead, rest))
                } else {
                    b.input(&rest)
                }
            };
            if right {
                let x = b.computed(&shape(&lead, [m, k]));
                let y = one(b, [k, p]);
                let xy = b.matmul(x, y, false);
                let z = one(b, [p, n]);
                b.matmul(xy, z, false)
            } else {
                let y = one(b, [k, p]);
                let z = one(b, [p, n]);
                let yz = b.matmul(y, z, false);
                let x = b.computed(&shape(&lead, [m, k]));
                b.matmul(x, yz, false)
            }
        }
        "matmul-of-divided" => {
            let lead = batch(b);
            let [m, k] = [b.dim(), 6];
            let n = if b.ok() { 3 } else { 7 };
            // What is divided may be one matrix for the whole batch.
            let mut own = shape(&lead, [m, k]);
            let narrow = !b.ok();
            if narrow {
                own[0] = 1;
            }
            let x = b.input(&own);
            let d = if narrow {
                own[lead.len() + 1] = 1;
                b.input(&own)
            } else if b.ok() {
                b.input(&shape(&lead, [m, 1]))
            } else {
                b.input(&shape(&lead, [1, k]))
            };
            let d = b.broadcast(d, &shape(&lead, [m, k]));
            let y = b.binary(Div, x, d);
            let v = b.computed(&shape(&lead, [k, n]));
            b.matmul(y, v, false)
        }
        "attention-of-scaled-scores" | "attention-of-divided-scores" => {
            let ([q, k, v], ..) = heads(b);
            let s = b.matmul(q, k, true);
            let s = match rule {
                "attention-of-scaled-scores" => scaled(b, Mul, s, 0.5),
                _ => scaled(b, Div, s, 2.0),
            };
            attend(b, s, v)?
        }
        "attention-of-scores" => {
            let ([q, k, v], ..) = heads(b);
            let s = b.matmul(q, k, true);
            let p = softmax_last(b, s);
            product(b, p, v)?
        }
        "attention-of-causal-scores" | "attention-of-masked-scores" => {
            let ([q, k, v], [tq, tk, ..], _) = heads(b);
            let s = b.matmul(q, k, true);
            let s = match rule {
                "attention-of-causal-scores" => scaled(b, Mul, s, 0.5),
                _ => s,
            };
            if tq > tk {
                b.expect = false;
                let m = b.splat(&[tq, tk], 0.0);
                let s = b.either(Add, s, m);
                attend(b, s, v)?
            } else {
                let m = mask(b, tq, tk);
                let s = b.either(Add, s, m);
                attend(b, s, v)?
            }
        }
        "attention-of-scaled-query" | "attention-of-scaled-key" => {
            let [tq, d, e] = [b.dim(), b.dim(), b.dim()];
            let tk = tq + b.random.below(3);
            let causal = b.coin();
            let query = rule == "attention-of-scaled-query";
            let rows = if query { tq } else { tk };
            // What is scaled, and with a factor that makes it larger, not.
            let good = b.ok();
            let x = b.input(&[if good { 2 } else { 1 }, rows, d]);
            let s = if good {
                let own = b.shape(x);
                b.factor(&own, 0.5)
            } else {
                b.splat(&[2, 1, 1], 0.5)
            };
            let x = b.either(Mul, x, s);
            let other = b.input(&[2, if query { tk } else { tq }, d]);
            let v = b.input(&[2, tk, e]);
            let qkv = if query { [x, other, v] } else { [other, x, v] };
            b.attention(0.75, causal, qkv)
        }
        "reshape-of-reshape" => {
            let x = b.input(&[4, 6]);
            let y = if b.ok() {
                b.reshape(x, &[2, 12])
            } else {
                b.transpose(x, &[1, 0])
            };
            b.reshape(y, &[3, 8])
        }
        "transpose-of-transpose" => {
            let x = b.input(&[2, 3, 4]);
            let y = if b.ok() {
                let p = b.permutation(3);
                b.transpose(x, &p)
            } else {
                b.unary(UnaryKind::Tanh, x)
            };
            let p = b.permutation(3);
            b.transpose(y, &p)
        }
        "slice-of-slice" => {
            let x = b.input(&[7, 8]);
            let y = if b.ok() {
                b.any_slice(x)
            } else {
                b.unary(UnaryKind::Tanh, x)
            };
            b.any_slice(y)
        }
        "whole-slice" => {
            let x = b.input(&[4, 5]);
            let to = if b.ok() { [4, 5] } else { [4, 4] };
            b.slice(x, &[0, 0], &[1, 1], &to)
        }
        "slice-of-first" => {
            let n = 2 + b.random.below(3);
            super::slices::of_concat(b, false, n)
        }
        "slice-of-second" => super::slices::of_concat(b, true, 2),
        "slice-of-others" => {
            let n = 3 + b.random.below(2);
            super::slices::of_concat(b, true, n)
        }
        "concat-of-slices" => super::slices::concat(b, 2),
        "concat-of-more-slices" => {
            let n = 3 + b.random.below(2);
            super::slices::concat(b, n)
        }
        "merge-of-split" => {
            let x = if b.coin() {
                b.input(&[2, 3, 8])
            } else {
                b.input(&[2, 2, 3, 8])
            };
            let y = b.op(OpKind::SplitHeads { heads: 4 }, &[x]);
            let heads = if b.ok() { 4 } else { 2 };
            b.op(OpKind::MergeHeads { heads }, &[y])
        }
        "split-of-merge" => {
            let x = b.input(&[8, 3, 4]);
            let y = b.op(OpKind::MergeHeads { heads: 4 }, &[x]);
            let heads = if b.ok() { 4 } else { 2 };
            b.op(OpKind::SplitHeads { heads }, &[y])
        }
        "split-heads" => {
            let [h, d, t] = [b.dim(), b.dim(), b.dim()];
            let lead = if b.coin() { vec![] } else { vec![2] };
            let x = b.input(&[&lead[..], &[t, h * d]].concat());
            let to = if b.ok() {
                [&lead[..], &[t, h, d]].concat()
            } else {
                // Rows and heads are cut from the other end.
                [&lead[..], &[h, t, d]].concat()
            };
            if to == [&lead[..], &[t, h, d]].concat() {
                b.expect = b.expect || h == t;
            }
            let y = b.reshape(x, &to);
            let n = to.len();
            let mut p: Vec<u32> = (0..n as u32).collect();
            if b.ok() {
                p.swap(n - 3, n - 2);
            } else {
                p.swap(n - 3, n - 1);
            }
            b.transpose(y, &p)
        }
        "merge-heads" => {
            let [h, d, t] = [b.dim(), b.dim(), b.dim()];
            let lead = if b.coin() { vec![] } else { vec![2] };
            let x = b.input(&[&lead[..], &[h, t, d]].concat());
            let n = lead.len() + 3;
            let mut p: Vec<u32> = (0..n as u32).collect();
            let good = b.ok();
            if good {
                p.swap(n - 3, n - 2);
            } else {
                p.swap(n - 3, n - 1);
            }
            let y = b.transpose(x, &p);
            let own = b.shape(y);
            let to = if b.ok() {
                [&lead[..], &[t, h * d]].concat()
            } else {
                vec![own.iter().product::<u32>(), 1]
            };
            b.reshape(y, &to)
        }
        "view-of-scaled" if !b.ok() => {
            // A factor with an axis does not fit where there is none.
            let (x, c) = (b.input(&[1]), b.splat(&[], 0.3));
            let y = b.either(Mul, x, c);
            b.reshape(y, &[])
        }
        "view-of-scaled" => {
            let x = b.input(&[2, 6]);
            let own = b.shape(x);
            let c = if !b.ok() {
                b.splat(&[3, 1, 1], 0.3)
            } else if b.ok() {
                b.factor(&own, 0.3)
            } else {
                b.input(&[1])
            };
            let y = b.either(Mul, x, c);
            let n = b.shape(y).len() as u32;
            match b.random.below(3) {
                0 => {
                    let all = b.shape(y).iter().product();
                    b.reshape(y, &[all, 1])
                }
                1 => {
                    let p = b.permutation(n);
                    b.transpose(y, &p)
                }
                _ => b.op(OpKind::SplitHeads { heads: 2 }, &[y]),
            }
        }
        "binary-of-reshaped" | "binary-of-transposed" => {
            let reshaped = rule == "binary-of-reshaped";
            let x = b.input(&[2, 3]);
            let good = b.ok();
            let y = match (good, reshaped) {
                (true, _) => b.input(&[2, 3]),
                (false, true) => b.input(&[6]),
                // Broadcast after the transposition, not before.
                (false, false) => b.input(&[2, 1]),
            };
            let [x, y] = [x, y].map(|v| {
                if reshaped {
                    b.reshape(v, &[3, 2])
                } else {
                    b.transpose(v, &[1, 0])
                }
            });
            let kind = b.any_binary();
            b.binary(kind, x, y)
        }
        "reshape-of-linear" => {
            let [k, n] = [b.dim(), b.dim()];
            let (x, w) = (b.input(&[6, k]), b.host(&[k, n]));
            b.expect = true;
            let mut operands = vec![x, w];
            match b.random.below(3) {
                0 => {}
                1 => operands.push(b.param(&[n])),
                _ => {
                    let c = if b.ok() {
                        b.param(&[n])
                    } else {
                        b.param(&[6, n])
                    };
                    operands.push(c);
                }
            }
            let y = b.linear(true, &operands);
            let to = if b.ok() { vec![2, 3, n] } else { vec![n, 6] };
            if to == [n, n] {
                return None;
            }
            b.expect &= to != [n, 6] || n == 6;
            b.reshape(y, &to)
        }
        "slice-of-unary" => {
            let x = b.input(&[5, 6]);
            let y = if b.ok() {
                b.unary(UnaryKind::Tanh, x)
            } else {
                b.softmax(x, 1)
            };
            let before = b.graph.ops.len();
            let z = b.any_slice(y);
            // A slice of everything is the value itself.
            b.expect &= b.graph.ops.len() > before;
            z
        }
        "slice-of-binary" => {
            let x = b.input(&[5, 6]);
            let y = if b.ok() {
                b.input(&[5, 6])
            } else {
                b.input(&[6])
            };
            let kind = b.any_binary();
            let z = b.binary(kind, x, y);
            b.any_slice(z)
        }
        "cast-of-cast" => {
            b.element = if b.coin() {
                ElementType::F16
            } else {
                ElementType::F32
            };
            let x = b.input(&[3]);
            let own = b.element;
            b.element = ElementType::F32;
            let wide = b.ty(&[3]);
            let y = b.stated(OpKind::Cast, &[x], wide);
            let back = if b.ok() {
                own
            } else {
                match own {
                    ElementType::F16 => ElementType::F32,
                    _ => ElementType::F16,
                }
            };
            b.element = back;
            let to = b.ty(&[3]);
            b.stated(OpKind::Cast, &[y], to)
        }
        "softmax-of-shifted" => {
            let [m, n] = [b.dim(), b.dim()];
            let c = match b.random.below(3) {
                0 => b.input(&[m, 1]),
                1 => {
                    if b.ok() {
                        b.splat(&[m, n], 0.5)
                    } else {
                        b.param(&[m, n])
                    }
                }
                _ => b.input(&[]),
            };
            let x = if b.ok() {
                b.input(&[m, n])
            } else {
                b.expect &= b.shape(c).len() < 2;
                b.input(&[1, n])
            };
            let y = match b.coin() {
                true => b.either(Add, x, c),
                false => b.binary(Sub, x, c),
            };
            if b.shape(y) == b.shape(x) && b.shape(x)[0] == 1 {
                // Nothing became larger after all.
                return None;
            }
            softmax_last(b, y)
        }
        "reduce-of-broadcast" => {
            let [m, n] = [b.dim(), b.dim()];
            let good = b.ok();
            let x = if good {
                b.input(&[m, 1])
            } else {
                b.input(&[1, n])
            };
            let y = b.broadcast(x, &[m, n]);
            let kind = match (b.ok(), b.coin()) {
                (false, _) => ReduceKind::Sum,
                (true, true) => ReduceKind::Mean,
                (true, false) => ReduceKind::Max,
            };
            let keep = b.coin();
            b.reduce(kind, &[1], keep, y)
        }
        "mean-of-linear" => {
            let [k, n] = [b.dim(), b.dim()];
            let (x, w) = (b.input(&[2, 3, k]), b.param(&[k, n]));
            let mut operands = vec![x, w];
            match b.random.below(3) {
                0 => {}
                1 => operands.push(b.param(&[n])),
                _ => {
                    let c = if b.ok() {
                        b.param(&[n])
                    } else {
                        b.param(&[3, n])
                    };
                    operands.push(c);
                }
            }
            let y = b.linear(false, &operands);
            let axes: &[u32] = match (b.ok(), b.coin()) {
                (true, true) => &[1],
                (true, false) => &[0],
                _ => &[2],
            };
            // Both leading axes leave a vector unless they stay.
            let (axes, keep): (&[u32], bool) = match axes {
                [2] => (axes, b.coin()),
                _ if b.ok() => (axes, b.coin()),
                _ => (&[0, 1], false),
            };
            b.reduce(ReduceKind::Mean, axes, keep, y)
        }
        "gelu-tanh" => {
            let [m, n] = [b.dim(), b.dim()];
            let good = b.ok();
            let x = b.input(&[if good { m } else { 1 }, n]);
            // A constant with more rows than x makes the result larger.
            let at = if good { 4 } else { b.random.below(4) };
            let value = |b: &mut Build, i: u32, value: f32| {
                let value = if b.ok() { value } else { value * 1.01 };
                let to: &[u32] = if at == i { &[m, n] } else { &[] };
                b.splat(to, value)
            };
            let h = value(b, 0, 0.5);
            let o = value(b, 1, 1.0);
            let c = value(b, 2, 0.044_715);
            let r = value(b, 3, 0.797_884_6);
            let x2 = b.binary(Mul, x, x);
            let x3 = b.either(Mul, x2, x);
            let x3 = b.either(Mul, x3, c);
            let sum = b.either(Add, x, x3);
            let inner = b.either(Mul, sum, r);
            let t = b.unary(UnaryKind::Tanh, inner);
            let t = b.either(Add, t, o);
            let half = b.either(Mul, x, h);
            b.either(Mul, half, t)
        }
        _ => return None,
    })
}

fn attend(b: &mut Build, scores: ValueId, v: ValueId) -> Option<ValueId> {
    let p = softmax_last(b, scores);
    product(b, p, v)
}

/// A product, if the batches still agree.
fn product(b: &mut Build, p: ValueId, v: ValueId) -> Option<ValueId> {
    let (pv, vv) = (b.shape(p), b.shape(v));
    let (lead, own) = (&pv[..pv.len() - 2], &vv[..vv.len() - 2]);
    (own.is_empty() || own == lead).then(|| b.matmul(p, v, false))
}
