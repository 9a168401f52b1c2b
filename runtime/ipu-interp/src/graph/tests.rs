//! The reference against values computed by hand and against other formulations.

use super::*;
use ipu_program::graph::{ReduceKind, Scalar, UnaryKind};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

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
fn errors_name_the_subject() {
    let x = host(&[2, 3], &[0.0]);
    let message =
        |inputs: &[HostArray], p: &Parameters| run(&linear(), inputs, p).unwrap_err().to_string();
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

/// One operation on f32 (and i32) operands.
fn apply(kind: OpKind, operands: &[&HostArray], extents: &[u32]) -> Result<HostArray, GraphError> {
    let mut g = Graph::default();
    for operand in operands {
        let id = g.add_value(operand.ty().clone());
        g.inputs.push(id);
    }
    let ty = TensorType::new(extents, computed(operands[0].ty().element));
    let result = g.add_op(kind, g.inputs.clone(), ty, "m.mlir:1:1".into());
    g.outputs.push(result);
    let inputs: Vec<HostArray> = operands.iter().map(|&a| a.clone()).collect();
    Ok(run(&g, &inputs, &Parameters::new())?.remove(0))
}

fn values(kind: OpKind, operands: &[&HostArray], extents: &[u32]) -> Vec<f32> {
    apply(kind, operands, extents).unwrap().values().to_vec()
}

fn refused(kind: OpKind, operands: &[&HostArray], extents: &[u32]) -> String {
    apply(kind, operands, extents).unwrap_err().to_string()
}

fn indices(extents: &[u32], values: &[f32]) -> HostArray {
    HostArray::new(TensorType::new(extents, ElementType::I32), values.to_vec()).unwrap()
}

/// 0, 1, 2, ..
fn counting(extents: &[u32]) -> HostArray {
    let values: Vec<f32> = (0..count(extents)).map(|i| i as f32).collect();
    host(extents, &values)
}

/// Values that look random, in -1 .. 1.
fn noise(extents: &[u32], seed: u32) -> HostArray {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..count(extents)).map(|_| next()).collect();
    host(extents, &values)
}

fn close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let allowed = tolerance * e.abs().max(1e-30);
        assert!(
            (f64::from(f) - e).abs() <= allowed,
            "element {i}: {f}, expected {e}"
        );
    }
}

/// Rounding of one f32.
const ULP: f64 = 6.0e-8;

#[test]
fn products_with_batches_and_transposes() {
    let a = host(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    let b = host(&[2, 1], &[10.0, 1.0]);
    assert_eq!(values(OpKind::MATMUL, &[&a, &b], &[2, 1, 1]), [12.0, 34.0]);
    let b = host(&[2, 2, 1], &[1.0, 0.0, 0.0, 1.0]);
    assert_eq!(values(OpKind::MATMUL, &[&a, &b], &[2, 1, 1]), [1.0, 4.0]);
    // The sum is taken in f64: 1 is not lost beside 2^26.
    let big = host(&[1, 3], &[67_108_864.0, 1.0, -67_108_864.0]);
    assert_eq!(
        values(OpKind::MATMUL, &[&big, &host(&[3, 1], &[1.0])], &[1, 1]),
        [1.0]
    );
    let (a, b) = (noise(&[2, 3, 4], 1), noise(&[2, 4, 5], 2));
    let plain = values(OpKind::MATMUL, &[&a, &b], &[2, 3, 5]);
    let swap = |x: &HostArray| {
        let permutation = vec![0, 2, 1];
        let s = x.shape();
        apply(OpKind::Transpose { permutation }, &[x], &[s[0], s[2], s[1]]).unwrap()
    };
    for (transpose_a, transpose_b) in [(true, false), (false, true), (true, true)] {
        let l = if transpose_a { swap(&a) } else { a.clone() };
        let r = if transpose_b { swap(&b) } else { b.clone() };
        let kind = OpKind::Matmul {
            transpose_a,
            transpose_b,
        };
        assert_eq!(values(kind, &[&l, &r], &[2, 3, 5]), plain);
    }
}

#[test]
fn elementwise_operations() {
    let a = host(&[2], &[6.0, f32::NAN]);
    let b = host(&[2], &[4.0, 2.0]);
    let f = |kind| values(OpKind::Binary(kind), &[&a, &b], &[2]);
    assert_eq!(f(BinaryKind::Max), [6.0, 2.0]);
    assert_eq!(f(BinaryKind::Min), [4.0, 2.0]);
    assert_eq!(f(BinaryKind::Sub)[0], 2.0);
    assert_eq!(f(BinaryKind::Mul)[0], 24.0);
    assert_eq!(f(BinaryKind::Div)[0], 1.5);
    let column = host(&[2, 1], &[10.0, 20.0]);
    let row = host(&[3], &[1.0, 2.0, 3.0]);
    assert_eq!(
        values(OpKind::Binary(BinaryKind::Add), &[&column, &row], &[2, 3]),
        [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]
    );
}

/// erf(x) by its Taylor series, in f64: enough for |x| <= 3.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn unary_functions() {
    let f = |kind, x: f32| values(OpKind::Unary(kind), &[&host(&[1], &[x])], &[1])[0];
    // Values of gelu by Python's math.erfc, correctly rounded to f32.
    for (x, expected) in [
        (0.0, 0.0),
        (1.0, 0.841_344_8_f32),
        (-1.0, -0.158_655_25),
        (3.0, 2.995_950_2),
        // Where 1 + erf(x / sqrt 2) cancels.
        (-8.0, -4.976_768_5e-15),
        (-13.0, -7.952_314e-38),
    ] {
        assert_eq!(f(UnaryKind::GeluErf, x), expected, "gelu({x})");
    }
    for i in -40..=40 {
        let x = f64::from(i) / 10.0;
        let x = f64::from(x as f32);
        let gelu = x * (1.0 + erf_series(x / 2f64.sqrt())) / 2.0;
        close(&[f(UnaryKind::GeluErf, x as f32)], &[gelu], 1e-6);
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        close(
            &[f(UnaryKind::GeluTanh, x as f32)],
            &[x * (1.0 + u.tanh()) / 2.0],
            1e-6,
        );
        close(
            &[f(UnaryKind::Sigmoid, x as f32)],
            &[1.0 / (1.0 + (-x).exp())],
            ULP,
        );
        close(&[f(UnaryKind::Tanh, x as f32)], &[x.tanh()], ULP);
        close(&[f(UnaryKind::Exp, x as f32)], &[x.exp()], ULP);
        if x > 0.0 {
            close(&[f(UnaryKind::Rsqrt, x as f32)], &[x.powf(-0.5)], ULP);
        }
    }
    assert_eq!(f(UnaryKind::Exp, 1000.0), f32::INFINITY);
    assert_eq!(f(UnaryKind::Sigmoid, -1000.0), 0.0);
    assert_eq!(f(UnaryKind::GeluTanh, -1e30), 0.0);
    assert_eq!(f(UnaryKind::Rsqrt, 0.0), f32::INFINITY);
    assert!(f(UnaryKind::Rsqrt, -1.0).is_nan());
}

#[test]
fn softmax_of_any_axis() {
    let x = host(&[2, 2], &[0.0, 1000.0, 2f32.ln(), 1000.0]);
    assert_eq!(
        values(OpKind::Softmax { axis: 0 }, &[&x], &[2, 2]),
        [1.0 / 3.0, 0.5, 2.0 / 3.0, 0.5]
    );
    let x = noise(&[3, 4, 5], 3);
    let found = values(OpKind::Softmax { axis: 1 }, &[&x], &[3, 4, 5]);
    let expected: Vec<f64> = (0..60)
        .map(|i| {
            let exp = |j: usize| f64::from(x.values()[i / 20 * 20 + j * 5 + i % 5]).exp();
            exp(i / 5 % 4) / (0..4).map(exp).sum::<f64>()
        })
        .collect();
    close(&found, &expected, 1e-6);
}

#[test]
fn norms() {
    let x = host(&[2, 4], &[1.0, 2.0, 3.0, 4.0, -1.0, -1.0, 1.0, 1.0]);
    let scale = host(&[4], &[1.0, 1.0, 1.0, 2.0]);
    let bias = host(&[4], &[0.0, 0.0, 0.5, 0.0]);
    // Row 0 has mean 2.5 and variance 1.25, row 1 mean 0 and variance 1; with 0.3125 and 3.0.
    let epsilon = Scalar::new(0.3125);
    let found = values(OpKind::LayerNorm { epsilon }, &[&x, &scale, &bias], &[2, 4]);
    assert_eq!(found[..4], [-1.2, -0.4, 0.9, 2.4]);
    let epsilon = Scalar::new(3.0);
    let found = values(OpKind::LayerNorm { epsilon }, &[&x, &scale, &bias], &[2, 4]);
    assert_eq!(found[4..], [-0.5, -0.5, 1.0, 1.0]);
    // Row 0 has the mean square 7.5, row 1 has 1.
    let epsilon = Scalar::new(8.5);
    let found = values(OpKind::RmsNorm { epsilon }, &[&x, &scale], &[2, 4]);
    assert_eq!(found[..4], [0.25, 0.5, 0.75, 2.0]);
    let epsilon = Scalar::new(0.0);
    let found = values(OpKind::RmsNorm { epsilon }, &[&x, &scale], &[2, 4]);
    assert_eq!(found[4..], [-1.0, -1.0, 1.0, 2.0]);
    // Far from 0.
    let x = host(&[1, 2], &[4096.0, 4097.0]);
    let (one, zero) = (host(&[2], &[1.0]), host(&[2], &[0.0]));
    let found = values(OpKind::LayerNorm { epsilon }, &[&x, &one, &zero], &[1, 2]);
    assert_eq!(found, [-1.0, 1.0]);
}

#[test]
fn reductions() {
    let x = counting(&[2, 3, 4]);
    let reduce = |kind, axes: &[u32], keep_dims, extents: &[u32]| {
        let axes = axes.to_vec();
        values(
            OpKind::Reduce {
                kind,
                axes,
                keep_dims,
            },
            &[&x],
            extents,
        )
    };
    assert_eq!(
        reduce(ReduceKind::Sum, &[2], false, &[2, 3]),
        [6.0, 22.0, 38.0, 54.0, 70.0, 86.0]
    );
    assert_eq!(
        reduce(ReduceKind::Max, &[0, 2], true, &[1, 3, 1]),
        [15.0, 19.0, 23.0]
    );
    assert_eq!(
        reduce(ReduceKind::Mean, &[1], false, &[2, 4]),
        [4.0, 5.0, 6.0, 7.0, 16.0, 17.0, 18.0, 19.0]
    );
    assert_eq!(reduce(ReduceKind::Sum, &[0, 1, 2], false, &[]), [276.0]);
}

/// Attention of one head by the operations it is made of.
fn by_parts(q: &HostArray, k: &HostArray, v: &HostArray, scale: f32) -> Vec<f32> {
    let (tq, tk, e) = (q.shape()[1], k.shape()[1], v.shape()[2]);
    let n = q.shape()[0];
    let product = OpKind::Matmul {
        transpose_a: false,
        transpose_b: true,
    };
    let scores = apply(product, &[q, k], &[n, tq, tk]).unwrap();
    let scaled = apply(
        OpKind::Binary(BinaryKind::Mul),
        &[&scores, &host(&[], &[scale])],
        &[n, tq, tk],
    );
    let weights = apply(
        OpKind::Softmax { axis: 2 },
        &[&scaled.unwrap()],
        &[n, tq, tk],
    )
    .unwrap();
    values(OpKind::MATMUL, &[&weights, v], &[n, tq, e])
}

#[test]
fn attention_by_heads() {
    // Two heads of one column. Head 0 sees equal scores; head 1 has ln 3 against 0.
    let q = host(&[1, 2], &[0.0, 1.0]);
    let k = host(&[2, 2], &[5.0, 3f32.ln(), 7.0, 0.0]);
    let v = host(&[2, 4], &[1.0, 2.0, 4.0, 8.0, 3.0, 6.0, 0.0, 0.0]);
    let kind = OpKind::Attention {
        heads: 2,
        scale: Scalar::new(1.0),
        causal: false,
    };
    assert_eq!(values(kind, &[&q, &k, &v], &[1, 4]), [2.0, 4.0, 3.0, 6.0]);

    let (heads, scale) = (3, 0.37);
    let (q, k, v) = (
        noise(&[2, 5, 12], 4),
        noise(&[2, 7, 12], 5),
        noise(&[2, 7, 6], 6),
    );
    let split = |x: &HostArray, d| {
        apply(OpKind::SplitHeads { heads }, &[x], &[6, x.shape()[1], d]).unwrap()
    };
    let parts = by_parts(&split(&q, 4), &split(&k, 4), &split(&v, 2), scale);
    let merged = values(
        OpKind::MergeHeads { heads },
        &[&host(&[6, 5, 2], &parts)],
        &[2, 5, 6],
    );
    let kind = |causal| OpKind::Attention {
        heads,
        scale: Scalar::new(scale),
        causal,
    };
    let found = values(kind(false), &[&q, &k, &v], &[2, 5, 6]);
    let expected: Vec<f64> = merged.iter().map(|&v| v.into()).collect();
    close(&found, &expected, 1e-4);

    // Plain loops in f64, with a mask.
    let found = values(kind(true), &[&q, &k, &v], &[2, 5, 6]);
    let at = |x: &HostArray, b: usize, t: usize, c: usize| {
        let s = x.shape();
        f64::from(x.values()[(b * s[1] as usize + t) * s[2] as usize + c])
    };
    let mut expected = Vec::new();
    for (b, i, c) in (0..2).flat_map(|b| (0..5).flat_map(move |i| (0..6).map(move |c| (b, i, c)))) {
        let head = c / 2;
        let weight = |j: usize| {
            let score: f64 = (0..4)
                .map(|d| at(&q, b, i, head * 4 + d) * at(&k, b, j, head * 4 + d))
                .sum();
            // Query i of 5 sees keys up to i + 2 of 7.
            if j <= i + 2 {
                (f64::from(scale) * score).exp()
            } else {
                0.0
            }
        };
        let total: f64 = (0..7).map(weight).sum();
        expected.push((0..7).map(|j| weight(j) * at(&v, b, j, c)).sum::<f64>() / total);
    }
    close(&found, &expected, 1e-5);
    // The first of as many queries as keys sees the first key only.
    let (q, k) = (noise(&[3, 4], 7), noise(&[3, 4], 8));
    let v = counting(&[3, 4]);
    let kind = OpKind::Attention {
        heads: 1,
        scale: Scalar::new(1.0),
        causal: true,
    };
    assert_eq!(
        values(kind, &[&q, &k, &v], &[3, 4])[..4],
        [0.0, 1.0, 2.0, 3.0]
    );
}

#[test]
fn heads_and_their_inverse() {
    let x = counting(&[1, 2, 4]);
    let split = apply(OpKind::SplitHeads { heads: 2 }, &[&x], &[2, 2, 2]).unwrap();
    assert_eq!(split.values(), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
    let x = noise(&[5, 4, 12], 9);
    let split = apply(OpKind::SplitHeads { heads: 3 }, &[&x], &[15, 4, 4]).unwrap();
    assert_eq!(
        values(OpKind::MergeHeads { heads: 3 }, &[&split], &[5, 4, 12]),
        x.values()
    );
}

#[test]
fn moving_elements() {
    let x = counting(&[2, 3, 4]);
    assert_eq!(values(OpKind::Reshape, &[&x], &[4, 6]), x.values());
    let permutation = vec![2, 0, 1];
    let t = values(OpKind::Transpose { permutation }, &[&x], &[4, 2, 3]);
    for (i, &value) in t.iter().enumerate() {
        let (a, b, c) = (i / 6, i / 3 % 2, i % 3);
        assert_eq!(value, x.values()[b * 12 + c * 4 + a]);
    }
    let slice = |offsets: &[u32], strides: &[u32], extents: &[u32]| {
        let (offsets, strides) = (offsets.to_vec(), strides.to_vec());
        values(OpKind::Slice { offsets, strides }, &[&x], extents)
    };
    assert_eq!(
        slice(&[1, 0, 1], &[1, 2, 2], &[1, 2, 2]),
        [13.0, 15.0, 21.0, 23.0]
    );
    // A step beyond the end is not taken.
    let far = u32::MAX;
    assert_eq!(slice(&[1, 2, 3], &[far, far, far], &[1, 1, 1]), [23.0]);
    let a = host(&[2, 1], &[1.0, 2.0]);
    let b = host(&[2, 2], &[3.0, 4.0, 5.0, 6.0]);
    assert_eq!(
        values(OpKind::Concat { axis: 1 }, &[&a, &b, &a], &[2, 4]),
        [1.0, 3.0, 4.0, 1.0, 2.0, 5.0, 6.0, 2.0]
    );
    assert_eq!(
        values(OpKind::Broadcast, &[&a], &[1, 2, 2]),
        [1.0, 1.0, 2.0, 2.0]
    );
    let scalar = host(&[], &[7.0]);
    assert_eq!(
        values(
            OpKind::Transpose {
                permutation: vec![]
            },
            &[&scalar],
            &[]
        ),
        [7.0]
    );
}

#[test]
fn casts_round_and_nothing_else_does() {
    let mut g = Graph::default();
    let x = g.add_value(TensorType::new([2], ElementType::F32));
    g.inputs.push(x);
    let half = g.add_op(OpKind::Cast, vec![x], f16(&[2]), String::new());
    let sum = OpKind::Binary(BinaryKind::Add);
    let sum = g.add_op(sum, vec![half, half], f16(&[2]), String::new());
    g.outputs = vec![half, sum];
    let out = run(&g, &[host(&[2], &[0.1, 1e9])], &Parameters::new()).unwrap();
    assert_eq!(out[0].values(), [0.099_975_586, 65504.0]);
    assert_eq!(out[1].values(), [2.0 * 0.099_975_586, 131_008.0]);
}

#[test]
fn gathered_rows() {
    let x = counting(&[2, 3]);
    let i = indices(&[2, 2], &[2.0, 0.0, 0.0, 1.0]);
    assert_eq!(
        values(OpKind::Gather { axis: 1 }, &[&x, &i], &[2, 2, 2]),
        [2.0, 0.0, 0.0, 1.0, 5.0, 3.0, 3.0, 4.0]
    );
    let one = indices(&[], &[1.0]);
    assert_eq!(
        values(OpKind::Gather { axis: 0 }, &[&x, &one], &[3]),
        [3.0, 4.0, 5.0]
    );
    for bad in [-1.0, 2.0, 16_777_215.0] {
        assert_eq!(
            refused(
                OpKind::Gather { axis: 0 },
                &[&x, &indices(&[2], &[0.0, bad])],
                &[2, 3]
            ),
            format!(
                "m.mlir:1:1: nn.gather: index {bad} at position 1 is out of range, axis 0 has 2 rows"
            )
        );
    }
    let table = indices(&[3], &[7.0, 8.0, 9.0]);
    let picked = apply(OpKind::Gather { axis: 0 }, &[&table, &one], &[]).unwrap();
    assert_eq!(
        (picked.ty().element, picked.values()),
        (ElementType::I32, &[8.0][..])
    );
}

#[test]
fn indices_are_integers() {
    let mut g = Graph::default();
    let ty = TensorType::new([2], ElementType::I32);
    let x = g.add_value(ty.clone());
    g.inputs = vec![x];
    g.outputs = vec![x];
    let out = run(&g, &[host(&[2], &[-3.0, 16_777_215.0])], &Parameters::new()).unwrap();
    assert_eq!(
        (out[0].ty(), out[0].values()),
        (&ty, &[-3.0, 16_777_215.0][..])
    );
    for bad in [0.5, 16_777_216.0, f32::NAN] {
        let e = run(&g, &[host(&[2], &[0.0, bad])], &Parameters::new()).unwrap_err();
        assert_eq!(
            e.to_string(),
            format!("input 0: value {bad} at index 1 is not an i32 of magnitude below 16777216")
        );
    }
}

fn convolution(strides: [u32; 2], padding: [u32; 4], dilations: [u32; 2], groups: u32) -> OpKind {
    OpKind::Conv2d {
        strides,
        padding,
        dilations,
        groups,
    }
}

#[test]
fn convolutions_by_hand() {
    let x = counting(&[1, 3, 3, 1]);
    let w = host(&[2, 2, 1, 1], &[1.0, 10.0, 100.0, 1000.0]);
    let plain = convolution([1, 1], [0; 4], [1, 1], 1);
    // 0 + 10 * 1 + 100 * 3 + 1000 * 4
    assert_eq!(
        values(plain, &[&x, &w], &[1, 2, 2, 1]),
        [4310.0, 5421.0, 7643.0, 8754.0]
    );
    let b = host(&[1], &[0.5]);
    let corners = convolution([2, 2], [1, 0, 1, 0], [1, 1], 1);
    assert_eq!(
        values(corners, &[&x, &w, &b], &[1, 2, 2, 1]),
        [0.5, 2100.5, 6030.5, 8754.5]
    );
    let wide = convolution([1, 1], [0; 4], [2, 2], 1);
    assert_eq!(values(wide, &[&x, &w], &[1, 1, 1, 1]), [8620.0]);
}

proptest! {
    /// The convolution as a sum over the kernel's elements of shifted, padded products.
    #[test]
    fn convolutions(
        n in 1u32..3, h in 1u32..6, wide in 1u32..6, kh in 1u32..4, kw in 1u32..4,
        groups in 1u32..4, depth in 1u32..3, per in 1u32..3, strides: [bool; 2], dilations: [bool; 2],
        padding in prop::array::uniform4(0u32..4), seed: u32,
    ) {
        let [strides, dilations] = [strides, dilations].map(|pair| pair.map(|b| 1 + u32::from(b)));
        let (c, f) = (groups * depth, groups * per);
        let kind = convolution(strides, padding, dilations, groups);
        let (x, w) = (noise(&[n, h, wide, c], seed), noise(&[kh, kw, depth, f], seed ^ 77));
        let types = [x.ty().clone(), w.ty().clone()];
        let Ok(ty) = infer::infer(&kind, &types) else {
            // The window is larger than the padded input.
            let fits = |e: u32, p: usize, k: u32, d: u32| e + padding[p] + padding[p + 1] > d * (k - 1);
            prop_assert!(!fits(h, 0, kh, dilations[0]) || !fits(wide, 2, kw, dilations[1]));
            return Ok(());
        };
        let found = values(kind, &[&x, &w], &ty.shape);
        let pixel = |b: u32, y: i64, z: i64, channel: u32| {
            if (0..i64::from(h)).contains(&y) && (0..i64::from(wide)).contains(&z) {
                let at = ((b * h + y as u32) * wide + z as u32) * c + channel;
                f64::from(x.values()[at as usize])
            } else {
                0.0
            }
        };
        let [_, oh, ow, _] = ty.shape[..] else { unreachable!() };
        let mut found = found.into_iter();
        for b in 0..n { for oy in 0..oh { for ox in 0..ow { for filter in 0..f {
            let group = filter / per;
            let mut sum = 0f64;
            for ky in 0..kh { for kx in 0..kw { for channel in 0..depth {
                let y = i64::from(oy * strides[0] + ky * dilations[0]) - i64::from(padding[0]);
                let z = i64::from(ox * strides[1] + kx * dilations[1]) - i64::from(padding[2]);
                let tap = ((ky * kw + kx) * depth + channel) * f + filter;
                sum += pixel(b, y, z, group * depth + channel) * f64::from(w.values()[tap as usize]);
            }}}
            prop_assert!((f64::from(found.next().unwrap()) - sum).abs() < 1e-6);
        }}}}
        prop_assert_eq!(found.next(), None);
    }
}

/// x times the weight of each iteration, and a value that is carried along.
fn repeated(count: u32) -> Graph {
    let ty = || f16(&[1, 1]);
    let mut body = Graph::default();
    let (x, kept) = (body.add_value(ty()), body.add_value(ty()));
    body.inputs = vec![x, kept];
    let name = "layer.{}.w".to_owned();
    let w = body.add_op(
        OpKind::Parameter { name },
        vec![],
        ty(),
        "m.mlir:3:5".into(),
    );
    let y = body.add_op(OpKind::MATMUL, vec![x, w], ty(), "m.mlir:4:5".into());
    body.outputs = vec![y, kept];
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let (a, b) = (g.add_value(ty()), g.add_value(ty()));
    g.inputs = vec![a, b];
    let kind = OpKind::Repeat {
        count,
        body: Box::new(body),
    };
    let first = g.add_op(kind, vec![a, b], ty(), "m.mlir:2:3".into());
    let second = g.add_value(ty());
    g.ops[0].more_results = vec![second];
    g.outputs = vec![second, first];
    g
}

#[test]
fn repeats_count_iterations_in_keys() {
    let weight = |i: usize| (format!("layer.{i}.w"), host(&[1, 1], &[i as f32 + 2.0]));
    let parameters: Parameters = (0..3).map(weight).collect();
    let inputs = [host(&[1, 1], &[1.0]), host(&[1, 1], &[0.5])];
    let out = run(&repeated(3), &inputs, &parameters).unwrap();
    assert_eq!(
        (out[0].values(), out[1].values()),
        (&[0.5][..], &[24.0][..])
    );
    // What is carried is not rounded to f16 in between: 3075 is no f16.
    let weight = |i: usize| (format!("layer.{i}.w"), host(&[1, 1], &[[2050.0, 1.5][i]]));
    let parameters: Parameters = (0..2).map(weight).collect();
    let inputs = [host(&[1, 1], &[1.5]), host(&[1, 1], &[0.0])];
    let out = run(&repeated(2), &inputs, &parameters).unwrap();
    assert_eq!(out[1].values(), [1.5 * 2050.0 * 1.5]);
    assert_eq!(
        run(&repeated(3), &inputs, &parameters)
            .unwrap_err()
            .to_string(),
        "m.mlir:3:5: parameter 'layer.2.w' is missing; expected tensor<1x1xf16> in the weights"
    );
    let mut g = repeated(1);
    g.ops[0].more_results.clear();
    g.outputs.pop();
    assert_eq!(
        run(&g, &inputs, &parameters).unwrap_err().to_string(),
        "m.mlir:2:3: nn.repeat: has 2 results, found 1"
    );
}
