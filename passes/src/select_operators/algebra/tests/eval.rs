//! Operators in f64, element by element: shares nothing with the algebra nor the interpreters.

use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind, ReduceKind, UnaryKind};
use ipu_program::types::TensorType;

/// A tensor in f64.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

fn index(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (i, &d) in shape.iter().enumerate().rev() {
        at[i] = flat % d;
        flat /= d;
    }
    at
}

impl Tensor {
    pub fn shape_of(ty: &TensorType) -> Vec<usize> {
        ty.shape.iter().map(|&d| d as usize).collect()
    }

    fn build(shape: &[usize], f: impl FnMut(usize) -> f64) -> Tensor {
        let n = shape.iter().product();
        Tensor {
            shape: shape.to_vec(),
            data: (0..n).map(f).collect(),
        }
    }

    /// By the index of a result that this broadcasts to.
    fn get(&self, at: &[usize]) -> f64 {
        let skip = at.len() - self.shape.len();
        let mut flat = 0;
        for (i, &d) in self.shape.iter().enumerate() {
            flat = flat * d + if d == 1 { 0 } else { at[skip + i] };
        }
        self.data[flat]
    }
}

fn softmax(row: &mut [f64]) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

fn activate(kind: UnaryKind, x: f64) -> f64 {
    match kind {
        UnaryKind::Relu => x.max(0.0),
        UnaryKind::GeluErf => x * (1.0 + libm::erf(x / 2f64.sqrt())) / 2.0,
        UnaryKind::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        UnaryKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryKind::Tanh => x.tanh(),
        UnaryKind::Exp => x.exp(),
        UnaryKind::Rsqrt => 1.0 / x.sqrt(),
    }
}

fn product(a: &Tensor, b: &Tensor, [ta, tb]: [bool; 2]) -> Tensor {
    let (ra, rb) = (a.shape.len(), b.shape.len());
    let (m, k) = match ta {
        false => (a.shape[ra - 2], a.shape[ra - 1]),
        true => (a.shape[ra - 1], a.shape[ra - 2]),
    };
    let n = b.shape[if tb { rb - 2 } else { rb - 1 }];
    let batches: usize = a.shape[..ra - 2].iter().product();
    let shape = [&a.shape[..ra - 2], &[m, n]].concat();
    let size = b.shape[rb - 2] * b.shape[rb - 1];
    let mut out = vec![0.0; batches * m * n];
    for t in 0..batches {
        let (pa, pb) = (t * m * k, if rb > 2 { t * size } else { 0 });
        for i in 0..m {
            for j in 0..n {
                out[(t * m + i) * n + j] = (0..k)
                    .map(|l| {
                        let x = a.data[pa + if ta { l * m + i } else { i * k + l }];
                        x * b.data[pb + if tb { j * k + l } else { l * n + j }]
                    })
                    .sum();
            }
        }
    }
    Tensor { shape, data: out }
}

/// The result of an operator of type `ty`.
pub fn operator(kind: &OpKind, x: &[&Tensor], ty: &TensorType) -> Tensor {
    let shape = Tensor::shape_of(ty);
    let build =
        |f: &mut dyn FnMut(&[usize]) -> f64| Tensor::build(&shape, |flat| f(&index(&shape, flat)));
    match kind {
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => product(x[0], x[1], [*transpose_a, *transpose_b]),
        OpKind::Linear { activation } => {
            let p = product(x[0], x[1], [false, false]);
            build(&mut |at| {
                let y = p.get(at) + x.get(2).map_or(0.0, |b| b.get(at));
                match activation {
                    Activation::None => y,
                    Activation::Relu => y.max(0.0),
                }
            })
        }
        OpKind::Binary(kind) => build(&mut |at| {
            let (a, b) = (x[0].get(at), x[1].get(at));
            match kind {
                BinaryKind::Add => a + b,
                BinaryKind::Sub => a - b,
                BinaryKind::Mul => a * b,
                BinaryKind::Div => a / b,
                BinaryKind::Max => a.max(b),
                BinaryKind::Min => a.min(b),
            }
        }),
        OpKind::Unary(kind) => build(&mut |at| activate(*kind, x[0].get(at))),
        OpKind::Softmax { axis } => {
            let axis = *axis as usize;
            let n = shape[axis];
            build(&mut |at| {
                let mut at = at.to_vec();
                let own = at[axis];
                let mut row: Vec<f64> = (0..n)
                    .map(|i| {
                        at[axis] = i;
                        x[0].get(&at)
                    })
                    .collect();
                softmax(&mut row);
                row[own]
            })
        }
        OpKind::LayerNorm { epsilon } | OpKind::RmsNorm { epsilon } => build(&mut |at| {
            let last = at.len() - 1;
            let n = shape[last];
            let mut from = at.to_vec();
            let row: Vec<f64> = (0..n)
                .map(|i| {
                    from[last] = i;
                    x[0].get(&from)
                })
                .collect();
            let layer = matches!(kind, OpKind::LayerNorm { .. });
            let mean = if layer {
                row.iter().sum::<f64>() / n as f64
            } else {
                0.0
            };
            let var = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
            let y = (row[at[last]] - mean) / (var + f64::from(epsilon.get())).sqrt();
            y * x[1].get(&at[last..]) + x.get(2).map_or(0.0, |b| b.get(&at[last..]))
        }),
        OpKind::Reduce {
            kind,
            axes,
            keep_dims,
        } => {
            let mut groups: std::collections::BTreeMap<Vec<usize>, Vec<f64>> = Default::default();
            for (flat, &v) in x[0].data.iter().enumerate() {
                let mut key = Vec::new();
                for (i, at) in index(&x[0].shape, flat).into_iter().enumerate() {
                    match (axes.contains(&(i as u32)), keep_dims) {
                        (false, _) => key.push(at),
                        (true, true) => key.push(0),
                        (true, false) => {}
                    }
                }
                groups.entry(key).or_default().push(v);
            }
            build(&mut |at| {
                let g = &groups[at];
                match kind {
                    ReduceKind::Sum => g.iter().sum(),
                    ReduceKind::Mean => g.iter().sum::<f64>() / g.len() as f64,
                    ReduceKind::Max => g.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                }
            })
        }
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => {
            let heads = *heads as usize;
            let [q, k, v] = [x[0], x[1], x[2]];
            let rank = q.shape.len();
            let (tk, d) = (k.shape[rank - 2], q.shape[rank - 1] / heads);
            let (tq, e) = (q.shape[rank - 2], v.shape[rank - 1] / heads);
            build(&mut |at| {
                let (i, column) = (at[rank - 2], at[rank - 1]);
                let head = column / e;
                let with = |row: usize, c: usize| {
                    let mut to = at.to_vec();
                    to[rank - 2] = row;
                    to[rank - 1] = c;
                    to
                };
                let mut row: Vec<f64> = (0..tk)
                    .map(|j| {
                        let dot: f64 = (head * d..(head + 1) * d)
                            .map(|c| q.get(&with(i, c)) * k.get(&with(j, c)))
                            .sum();
                        if *causal && j + tq > i + tk {
                            f64::NEG_INFINITY
                        } else {
                            dot * f64::from(scale.get())
                        }
                    })
                    .collect();
                softmax(&mut row);
                (0..tk).map(|j| row[j] * v.get(&with(j, column))).sum()
            })
        }
        OpKind::SplitHeads { heads } => {
            let h = *heads as usize;
            let (t, d) = (shape[1], shape[2]);
            build(&mut |at| x[0].data[((at[0] / h) * t + at[1]) * h * d + (at[0] % h) * d + at[2]])
        }
        OpKind::MergeHeads { heads } => {
            let h = *heads as usize;
            let (t, d) = (shape[1], shape[2] / h);
            build(&mut |at| x[0].data[((at[0] * h + at[2] / d) * t + at[1]) * d + at[2] % d])
        }
        OpKind::Reshape => Tensor {
            shape,
            data: x[0].data.clone(),
        },
        OpKind::Transpose { permutation } => build(&mut |at| {
            let mut from = vec![0; at.len()];
            for (i, &p) in permutation.iter().enumerate() {
                from[p as usize] = at[i];
            }
            x[0].get(&from)
        }),
        OpKind::Slice { offsets, strides } => build(&mut |at| {
            let from: Vec<usize> = at
                .iter()
                .zip(offsets.iter().zip(strides))
                .map(|(&i, (&o, &s))| o as usize + i * s as usize)
                .collect();
            let flat = from
                .iter()
                .zip(&x[0].shape)
                .fold(0, |flat, (&i, &d)| flat * d + i);
            x[0].data[flat]
        }),
        OpKind::Concat { axis } => {
            let axis = *axis as usize;
            build(&mut |at| {
                let mut at = at.to_vec();
                let mut part = 0;
                while at[axis] >= x[part].shape[axis] {
                    at[axis] -= x[part].shape[axis];
                    part += 1;
                }
                let flat = at
                    .iter()
                    .zip(&x[part].shape)
                    .fold(0, |flat, (&i, &d)| flat * d + i);
                x[part].data[flat]
            })
        }
        OpKind::Broadcast => build(&mut |at| x[0].get(at)),
        // No rounding: rules have to hold for reals.
        OpKind::Cast => x[0].clone(),
        OpKind::Constant { values } => Tensor::build(&shape, |i| {
            f64::from(values[if values.len() == 1 { 0 } else { i }])
        }),
        other => panic!("no meaning of {other:?}"),
    }
}

/// The results of a graph; parameters by name.
pub fn run(
    graph: &Graph,
    inputs: &[Tensor],
    parameter: &mut dyn FnMut(&str, &TensorType) -> Tensor,
) -> Vec<Tensor> {
    let mut values: Vec<Option<Tensor>> = vec![None; graph.values.len()];
    for (v, x) in graph.inputs.iter().zip(inputs) {
        values[v.0 as usize] = Some(x.clone());
    }
    for op in &graph.ops {
        let ty = graph.ty(op.result);
        let y = match &op.kind {
            OpKind::Parameter { name } => parameter(name, ty),
            kind => {
                let x: Vec<&Tensor> = op
                    .operands
                    .iter()
                    .map(|v| values[v.0 as usize].as_ref().unwrap())
                    .collect();
                operator(kind, &x, ty)
            }
        };
        values[op.result.0 as usize] = Some(y);
    }
    let result = |v: &ipu_program::graph::ValueId| values[v.0 as usize].clone().unwrap();
    graph.outputs.iter().map(result).collect()
}

/// The largest difference, relative to the largest element.
pub fn difference(a: &Tensor, b: &Tensor) -> f64 {
    if a.shape != b.shape {
        return f64::INFINITY;
    }
    let largest = a.data.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
    a.data
        .iter()
        .zip(&b.data)
        .map(|(x, y)| if x == y { 0.0 } else { (x - y).abs() / largest })
        .fold(
            0.0,
            |m: f64, d| if d.is_nan() { f64::INFINITY } else { m.max(d) },
        )
}
