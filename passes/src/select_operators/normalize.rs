//! Normal forms: what operators mean in terms of fewer ones, before the algebra sees them.
//!
//! After this, softmax works on the last axis; a reduction is `[rows, n]` to `[rows, 1]` or
//! `[groups, n, columns]` to `[groups, columns]`; attention has one head and operands of rank 3;
//! a matrix product transposes its right operand only, and operands that the program computes have
//! equal batch axes; elementwise operands that the program computes have the shape of the result;
//! a linear operator has a weight and a bias that the host knows; a convolution whose patches do not
//! overlap is a linear operator. The new operators carry the location of the one that they serve.
//! What the host computes stays as it is written, for the host knows every operator; equal host
//! values are one.

use ipu_program::graph::{Activation, BinaryKind, Graph, Op, OpKind, ReduceKind, ValueId};
use ipu_program::host::{HostValues, same_kind};
use ipu_program::types::TensorType;
use std::collections::BTreeMap;

/// The graph in normal form; operators without one are kept for the refusal. Inputs, outputs and
/// their types stay; the graph must be one that [`ipu_program::infer`] accepts.
pub fn normalize(graph: &Graph) -> Graph {
    let mut n = Normalizer {
        source: graph,
        out: Graph {
            name: graph.name.clone(),
            ..Graph::default()
        },
        map: vec![None; graph.values.len()],
        host: HostValues::default(),
        computed: BTreeMap::new(),
        location: String::new(),
    };
    for &input in &graph.inputs {
        let v = n.out.add_value(graph.ty(input).clone());
        n.out.values[v.0 as usize].layout = graph.value(input).layout.clone();
        n.out.inputs.push(v);
        n.set(input, v);
    }
    for op in &graph.ops {
        n.location = op.location.clone();
        n.op(op);
    }
    n.out.outputs = graph.outputs.iter().filter_map(|&v| n.get(v)).collect();
    n.out
}

struct Normalizer<'a> {
    source: &'a Graph,
    out: Graph,
    /// The new value of each old one.
    map: Vec<Option<ValueId>>,
    /// Host values of `out`.
    host: HostValues,
    /// Those that the host computes, by name and operands of their operator.
    computed: BTreeMap<(&'static str, Vec<ValueId>), Vec<ValueId>>,
    location: String,
}

impl Normalizer<'_> {
    fn get(&self, v: ValueId) -> Option<ValueId> {
        self.map.get(v.0 as usize).copied().flatten()
    }

    fn set(&mut self, old: ValueId, new: ValueId) {
        self.map[old.0 as usize] = Some(new);
    }

    fn shape(&self, v: ValueId) -> Vec<u32> {
        self.out.ty(v).shape.clone()
    }

    /// An operator with the element type of its first operand.
    fn add(&mut self, kind: OpKind, operands: Vec<ValueId>, shape: Vec<u32>) -> ValueId {
        let element = self.out.ty(operands[0]).element;
        self.push(kind, operands, TensorType::new(shape, element))
    }

    /// An operator; an equal one if the host computes its result.
    fn push(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        let location = self.location.clone();
        if !self.host.computes(&kind, &operands) || operands.is_empty() {
            let v = self.out.add_op(kind, operands, ty, location);
            self.note();
            return v;
        }
        let key = (kind.name(), operands);
        let known = self.computed.get(&key).map_or(&[][..], Vec::as_slice);
        let equal = |&&v: &&ValueId| {
            let op = self.out.definition(v);
            op.is_some_and(|op| same_kind(&op.kind, &kind)) && *self.out.ty(v) == ty
        };
        if let Some(&v) = known.iter().find(equal) {
            return v;
        }
        let v = self.out.add_op(kind, key.1.clone(), ty, location);
        self.note();
        self.computed.entry(key).or_default().push(v);
        v
    }

    /// Notes the last operator if its result is a host value.
    fn note(&mut self) {
        if let Some(op) = self.out.ops.last() {
            self.host.note(op);
        }
    }

    fn reshape(&mut self, v: ValueId, shape: Vec<u32>) -> ValueId {
        if self.shape(v) == shape {
            return v;
        }
        self.add(OpKind::Reshape, vec![v], shape)
    }

    fn transpose(&mut self, v: ValueId, permutation: Vec<u32>) -> ValueId {
        if permutation.iter().enumerate().all(|(i, &p)| i as u32 == p) {
            return v;
        }
        let shape = self.shape(v);
        let shape = permutation.iter().map(|&p| shape[p as usize]).collect();
        self.add(OpKind::Transpose { permutation }, vec![v], shape)
    }

    fn host(&self, v: ValueId) -> bool {
        self.host.contains(v)
    }

    fn op(&mut self, op: &Op) {
        let operands: Vec<ValueId> = op.operands.iter().filter_map(|&v| self.get(v)).collect();
        if operands.len() != op.operands.len() {
            return;
        }
        let ty = self.source.ty(op.result).clone();
        let result = match (&op.kind, operands.as_slice()) {
            (kind, _) if self.host.computes(kind, &operands) => {
                self.push(kind.clone(), operands, ty)
            }
            (OpKind::Softmax { axis }, &[x]) => self.softmax(x, *axis),
            (OpKind::Reduce { kind, axes, .. }, &[x]) => self.reduce(x, *kind, axes, &ty.shape),
            (
                &OpKind::Attention {
                    heads,
                    scale,
                    causal,
                },
                &[q, k, v],
            ) => {
                let [q, k, v] = [q, k, v].map(|x| self.split(x, heads));
                let (mut shape, columns) = (self.shape(q), self.shape(v)[2]);
                shape[2] = columns;
                let kind = OpKind::Attention {
                    heads: 1,
                    scale,
                    causal,
                };
                let o = self.add(kind, vec![q, k, v], shape.clone());
                let merged = if heads > 1 {
                    let merged = vec![shape[0] / heads, shape[1], heads * shape[2]];
                    self.add(OpKind::MergeHeads { heads }, vec![o], merged)
                } else {
                    o
                };
                self.reshape(merged, ty.shape.clone())
            }
            (
                &OpKind::Matmul {
                    transpose_a,
                    transpose_b,
                },
                &[a, b],
            ) if transpose_a || transpose_b || !self.host(b) || self.shape(b).len() > 2 => {
                let a = if transpose_a { self.swap(a) } else { a };
                // The host turns its operand to where no tile has to: a product with weights is a
                // linear operator, one of two batches reads its right operand transposed.
                let wanted = self.shape(b).len() > 2;
                let (b, transpose_b) = if self.host(b) && transpose_b != wanted {
                    (self.swap(b), wanted)
                } else {
                    (b, transpose_b)
                };
                let (sa, sb) = (self.shape(a), self.shape(b));
                let b = if self.host(b) || sa.len() == sb.len() {
                    b
                } else {
                    // One right operand for the whole batch: its rows are one matrix.
                    let kind = OpKind::Matmul {
                        transpose_a: false,
                        transpose_b,
                    };
                    let (k, rows) = (sa[sa.len() - 1], sa[..sa.len() - 1].iter().product());
                    let columns = ty.shape.last().copied().unwrap_or(1);
                    let a = self.reshape(a, vec![rows, k]);
                    let product = TensorType::new([rows, columns], ty.element);
                    let product = self.push(kind, vec![a, b], product);
                    let product = self.reshape(product, ty.shape.clone());
                    self.set(op.result, product);
                    return;
                };
                let kind = OpKind::Matmul {
                    transpose_a: false,
                    transpose_b,
                };
                self.push(kind, vec![a, b], ty)
            }
            (OpKind::Linear { activation }, &[x, w, ref bias @ ..])
                if !self.host(w) || bias.iter().any(|&b| !self.host(b)) =>
            {
                let mut shape = self.shape(x);
                if let (Some(last), Some(&n)) = (shape.last_mut(), ty.shape.last()) {
                    *last = n;
                }
                let rows = shape[..shape.len() - 1].iter().product();
                let (k, n) = (self.shape(w)[0], ty.shape[ty.shape.len() - 1]);
                let product = if self.host(w) {
                    self.add(OpKind::MATMUL, vec![x, w], shape)
                } else {
                    let x = self.reshape(x, vec![rows, k]);
                    let product = self.add(OpKind::MATMUL, vec![x, w], vec![rows, n]);
                    self.reshape(product, shape)
                };
                let mut result = product;
                if let Some(&b) = bias.first() {
                    let b = if self.host(b) {
                        b
                    } else {
                        self.add(OpKind::Broadcast, vec![b], ty.shape.clone())
                    };
                    let add = OpKind::Binary(BinaryKind::Add);
                    result = self.add(add, vec![result, b], ty.shape.clone());
                }
                match activation {
                    Activation::None => result,
                    Activation::Relu => self.add(OpKind::RELU, vec![result], ty.shape.clone()),
                }
            }
            (OpKind::Binary(_), &[a, b]) => {
                let [a, b] = [a, b].map(|x| {
                    if self.host(x) || self.shape(x) == ty.shape {
                        x
                    } else {
                        self.add(OpKind::Broadcast, vec![x], ty.shape.clone())
                    }
                });
                self.push(op.kind.clone(), vec![a, b], ty)
            }
            (
                OpKind::Conv2d {
                    strides,
                    padding: [0, 0, 0, 0],
                    dilations: [1, 1],
                    groups: 1,
                },
                &[x, w, ref bias @ ..],
            ) if self.patches(x, w, *strides) => {
                let o = self.patch_convolution(x, w, bias, ty.shape[3]);
                self.reshape(o, ty.shape.clone())
            }
            (kind, _) => {
                let v = self.push(kind.clone(), operands, ty);
                for &more in &op.more_results {
                    let m = self.out.add_value(self.source.ty(more).clone());
                    self.set(more, m);
                    if let Some(last) = self.out.ops.last_mut() {
                        last.more_results.push(m);
                    }
                }
                v
            }
        };
        self.set(op.result, result);
    }

    /// The last two axes exchanged.
    fn swap(&mut self, v: ValueId) -> ValueId {
        let rank = self.shape(v).len() as u32;
        let mut order: Vec<u32> = (0..rank).collect();
        if rank >= 2 {
            order.swap(rank as usize - 1, rank as usize - 2);
        }
        self.transpose(v, order)
    }

    fn softmax(&mut self, x: ValueId, axis: u32) -> ValueId {
        let rank = self.shape(x).len() as u32;
        if axis + 1 >= rank {
            let shape = self.shape(x);
            return self.add(OpKind::Softmax { axis }, vec![x], shape);
        }
        // The exchange of two axes is its own inverse.
        let mut order: Vec<u32> = (0..rank).collect();
        order.swap(axis as usize, rank as usize - 1);
        let moved = self.transpose(x, order.clone());
        let shape = self.shape(moved);
        let result = self.add(OpKind::Softmax { axis: rank - 1 }, vec![moved], shape);
        self.transpose(result, order)
    }

    fn reduce(&mut self, x: ValueId, kind: ReduceKind, axes: &[u32], shape: &[u32]) -> ValueId {
        let extents = self.shape(x);
        let of = |axes: &mut dyn Iterator<Item = u32>| -> u32 {
            axes.map(|a| extents[a as usize]).product()
        };
        let n = of(&mut axes.iter().copied());
        if n == 1 || axes.is_empty() {
            return self.reshape(x, shape.to_vec());
        }
        let rank = extents.len() as u32;
        let (first, last) = (axes[0], axes[axes.len() - 1]);
        // Between the first and the last axis that is reduced all others have one element: the
        // elements of a sum are one axis as they lie.
        let together = (first..=last).all(|a| axes.contains(&a) || extents[a as usize] == 1);
        let inner = of(&mut (last + 1..rank));
        let (x, outer, inner) = if together {
            (x, of(&mut (0..first)), inner)
        } else {
            let kept = (0..rank).filter(|a| !axes.contains(a));
            let order: Vec<u32> = kept.clone().chain(axes.iter().copied()).collect();
            let outer = of(&mut kept.into_iter());
            (self.transpose(x, order), outer, 1)
        };
        let reduced = if inner == 1 {
            let x = self.reshape(x, vec![outer, n]);
            let op = OpKind::Reduce {
                kind,
                axes: vec![1],
                keep_dims: true,
            };
            self.add(op, vec![x], vec![outer, 1])
        } else {
            let x = self.reshape(x, vec![outer, n, inner]);
            let op = OpKind::Reduce {
                kind,
                axes: vec![1],
                keep_dims: false,
            };
            self.add(op, vec![x], vec![outer, inner])
        };
        self.reshape(reduced, shape.to_vec())
    }

    /// `[..., T, heads * d]` to `[N * heads, T, d]`.
    fn split(&mut self, v: ValueId, heads: u32) -> ValueId {
        let shape = self.shape(v);
        let [lead @ .., t, w] = shape.as_slice() else {
            return v;
        };
        let n: u32 = lead.iter().product();
        if heads == 1 {
            return self.reshape(v, vec![n, *t, *w]);
        }
        let split = vec![n * heads, *t, w / heads];
        self.add(OpKind::SplitHeads { heads }, vec![v], split)
    }

    /// Whether a convolution reads every pixel once, with a weight that the host knows.
    fn patches(&self, x: ValueId, w: ValueId, strides: [u32; 2]) -> bool {
        let (x, w, host) = (self.shape(x), self.shape(w), self.host(w));
        let (&[_, height, width, _], &[kh, kw, _, _]) = (x.as_slice(), w.as_slice()) else {
            return false;
        };
        host && strides == [kh, kw] && height % kh == 0 && width % kw == 0
    }

    fn patch_convolution(
        &mut self,
        x: ValueId,
        w: ValueId,
        bias: &[ValueId],
        filters: u32,
    ) -> ValueId {
        let (s, k) = (self.shape(x), self.shape(w));
        let (&[n, height, width, c], &[kh, kw, _, _]) = (s.as_slice(), k.as_slice()) else {
            return x;
        };
        let (oh, ow) = (height / kh, width / kw);
        let x = self.reshape(x, vec![n, oh, kh, ow, kw, c]);
        let x = self.transpose(x, vec![0, 1, 3, 2, 4, 5]);
        let x = self.reshape(x, vec![n * oh * ow, kh * kw * c]);
        let w = self.reshape(w, vec![kh * kw * c, filters]);
        let kind = OpKind::Linear {
            activation: Activation::None,
        };
        let shape = vec![n * oh * ow, filters];
        match *bias {
            // Only what the host knows can enter the accumulators.
            [b] if !self.host(b) => {
                let product = self.add(kind, vec![x, w], shape.clone());
                let b = self.add(OpKind::Broadcast, vec![b], shape.clone());
                self.add(OpKind::Binary(BinaryKind::Add), vec![product, b], shape)
            }
            _ => self.add(kind, [&[x, w], bias].concat(), shape),
        }
    }
}
