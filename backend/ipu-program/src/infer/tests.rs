use super::*;
use crate::graph::{Activation, BinaryKind, ReduceKind, UnaryKind};

/// `2x3xf16`, `f32`.
fn ty(text: &str) -> TensorType {
    let mut parts: Vec<&str> = text.split('x').collect();
    let element = match parts.pop() {
        Some("f16") => ElementType::F16,
        Some("f32") => ElementType::F32,
        Some("i32") => ElementType::I32,
        other => panic!("{other:?}"),
    };
    let shape: Vec<u32> = parts.iter().map(|d| d.parse().unwrap()).collect();
    TensorType::new(shape, element)
}

fn types(texts: &[&str]) -> Vec<TensorType> {
    texts.iter().map(|t| ty(t)).collect()
}

#[track_caller]
fn gives(kind: &OpKind, operands: &[&str], result: &str) {
    let operands = types(operands);
    assert_eq!(infer(kind, &operands), Ok(ty(result)));
    assert_eq!(check(kind, &operands, &[ty(result)]), Ok(()));
}

#[track_caller]
fn refuses(kind: &OpKind, operands: &[&str], message: &str) {
    let error = infer(kind, &types(operands)).unwrap_err();
    assert_eq!(error.to_string(), message);
    // Whatever result is stated.
    assert_eq!(
        check(kind, &types(operands), &types(&["1xf16"])),
        Err(error)
    );
}

#[track_caller]
fn takes(kind: &OpKind, operand: &str, result: &str) {
    assert_eq!(infer(kind, &[ty(operand)]), Err(InferError::Undetermined));
    assert_eq!(check(kind, &[ty(operand)], &[ty(result)]), Ok(()));
}

#[track_caller]
fn mismatch(kind: &OpKind, operands: &[&str], result: &str, message: &str) {
    let error = check(kind, &types(operands), &[ty(result)]).unwrap_err();
    assert_eq!(error.to_string(), message);
}

fn matmul(transpose_a: bool, transpose_b: bool) -> OpKind {
    OpKind::Matmul {
        transpose_a,
        transpose_b,
    }
}

const ADD: OpKind = OpKind::Binary(BinaryKind::Add);
const LINEAR: OpKind = OpKind::Linear {
    activation: Activation::Relu,
};

#[test]
fn products() {
    gives(&OpKind::MATMUL, &["7x2x4xf16", "4x8xf16"], "7x2x8xf16");
    gives(&OpKind::MATMUL, &["7x2x4xf16", "7x4x8xf16"], "7x2x8xf16");
    gives(&matmul(true, false), &["4x2xf16", "4x8xf16"], "2x8xf16");
    gives(&matmul(false, true), &["2x4xf16", "8x4xf16"], "2x8xf16");
    gives(&matmul(true, true), &["7x4x2xf32", "8x4xf32"], "7x2x8xf32");
    let wide = types(&["2x8xf32"]);
    assert_eq!(
        check(&OpKind::MATMUL, &types(&["2x4xf16", "4x8xf16"]), &wide),
        Ok(())
    );
    refuses(
        &matmul(true, true),
        &["4x2xf16", "8x5xf16"],
        "contraction sizes differ: lhs is tensor<4x2xf16> (4 rows), rhs is tensor<8x5xf16> (5 columns)",
    );
    refuses(
        &OpKind::MATMUL,
        &["2x4xf16", "5x8xf16"],
        "contraction sizes differ: lhs is tensor<2x4xf16> (4 columns), rhs is tensor<5x8xf16> (5 rows)",
    );
    refuses(
        &OpKind::MATMUL,
        &["4xf16", "4x8xf16"],
        "needs matrices: lhs is tensor<4xf16>, rhs is tensor<4x8xf16>",
    );
    refuses(
        &OpKind::MATMUL,
        &["2x4xf16", "7x4x8xf16"],
        "batch axes differ: lhs is tensor<2x4xf16>, rhs is tensor<7x4x8xf16>",
    );
    refuses(
        &OpKind::MATMUL,
        &["2x4xf16", "4x8xf32"],
        "element types differ: lhs is tensor<2x4xf16>, rhs is tensor<4x8xf32>",
    );
    refuses(&OpKind::MATMUL, &["2x4xf16"], "takes 2 operands, found 1");
    refuses(
        &OpKind::MATMUL,
        &["99999x1xf16", "1x99999xf16"],
        "the result of shape 99999x99999 has more than 4294967295 elements, the limit of one tensor",
    );
    mismatch(
        &OpKind::MATMUL,
        &["2x4xf16", "4x8xf16"],
        "2x8xi32",
        "result is tensor<2x8xi32>, expected elements of f16 or f32",
    );
    mismatch(
        &OpKind::MATMUL,
        &["2x4xf32", "4x8xf32"],
        "2x8xf16",
        "result is tensor<2x8xf16>, expected elements of f32",
    );
    gives(&LINEAR, &["2x4xf16", "4x8xf16", "8xf32"], "2x8xf16");
    refuses(
        &LINEAR,
        &["2x4xf16", "4x8xf16", "7xf16"],
        "bias is tensor<7xf16>, expected a shape that broadcasts to 2x8",
    );
    refuses(
        &LINEAR,
        &["2x4xf16", "4x8xf16", "3x1x1xf16"],
        "bias is tensor<3x1x1xf16>, expected a shape that broadcasts to 2x8",
    );
}

#[test]
fn elementwise() {
    gives(&ADD, &["3x1xf32", "2x1x4xf32"], "2x3x4xf32");
    gives(&ADD, &["f16", "2xf16"], "2xf16");
    gives(&OpKind::Unary(UnaryKind::Exp), &["f16"], "f16");
    refuses(
        &ADD,
        &["3x2xf32", "3xf32"],
        "shapes do not broadcast: lhs is tensor<3x2xf32>, rhs is tensor<3xf32>",
    );
    refuses(
        &ADD,
        &["3xf32", "3xf16"],
        "element types differ: lhs is tensor<3xf32>, rhs is tensor<3xf16>",
    );
    refuses(
        &ADD,
        &["3xi32", "3xi32"],
        "lhs is tensor<3xi32>, expected elements of f16 or f32",
    );
    refuses(
        &ADD,
        &["0xf16", "1xf16"],
        "lhs is tensor<0xf16>, expected extents of at least 1",
    );
    refuses(
        &OpKind::RELU,
        &["65536x65536xf16"],
        "input is tensor<65536x65536xf16>, expected at most 4294967295 elements",
    );
    refuses(
        &ADD,
        &["65536x1xf16", "65536xf16"],
        "the result of shape 65536x65536 has more than 4294967295 elements, the limit of one tensor",
    );
    mismatch(
        &ADD,
        &["2xf16", "f16"],
        "1xf16",
        "result is tensor<1xf16>, expected the shape 2",
    );
    mismatch(
        &ADD,
        &["f16", "f16"],
        "1xf16",
        "result is tensor<1xf16>, expected the shape of a scalar",
    );
    mismatch(
        &ADD,
        &["f16", "f16"],
        "f32",
        "result is tensor<f32>, expected elements of f16",
    );
    mismatch(
        &ADD,
        &["f16", "f16"],
        "0xf16",
        "result is tensor<0xf16>, expected extents of at least 1",
    );
    let none = check(&ADD, &types(&["f16", "f16"]), &[]).unwrap_err();
    assert_eq!(none.to_string(), "has 1 results, found 0");
}

#[test]
fn along_axes() {
    let softmax = |axis| OpKind::Softmax { axis };
    gives(&softmax(1), &["2x3xf16"], "2x3xf16");
    refuses(
        &softmax(2),
        &["2x3xf16"],
        "axis is 2, expected 0 to 1: input is tensor<2x3xf16>",
    );
    refuses(
        &softmax(0),
        &["f16"],
        "axis is 0, expected none: input is tensor<f16>",
    );

    let layer = |e| OpKind::LayerNorm {
        epsilon: Scalar::new(e),
    };
    let rms = OpKind::RmsNorm {
        epsilon: Scalar::new(0.0),
    };
    gives(&layer(1e-5), &["2x3xf16", "3xf16", "3xf16"], "2x3xf16");
    gives(&rms, &["3xf16", "3xf16"], "3xf16");
    refuses(
        &rms,
        &["f16", "f16"],
        "input is tensor<f16>, expected at least 1 axis",
    );
    refuses(
        &rms,
        &["2x3xf16", "2xf16"],
        "scale is tensor<2xf16>, expected the shape 3",
    );
    refuses(
        &layer(1e-5),
        &["2x3xf16", "3xf16", "1x3xf16"],
        "bias is tensor<1x3xf16>, expected the shape 3",
    );
    refuses(
        &rms,
        &["2x3xf16", "3xf32"],
        "element types differ: input is tensor<2x3xf16>, scale is tensor<3xf32>",
    );
    for (bad, text) in [(-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        refuses(
            &layer(bad),
            &["2x3xf16", "3xf16", "3xf16"],
            &format!("epsilon is {text}, expected a finite number, not negative"),
        );
    }

    let reduce = |axes: &[u32], keep_dims| OpKind::Reduce {
        kind: ReduceKind::Mean,
        axes: axes.to_vec(),
        keep_dims,
    };
    gives(&reduce(&[0, 2], false), &["2x3x4xf16"], "3xf16");
    gives(&reduce(&[0, 2], true), &["2x3x4xf16"], "1x3x1xf16");
    gives(&reduce(&[0], false), &["2xf16"], "f16");
    for axes in [&[][..], &[1, 0], &[1, 1]] {
        refuses(
            &reduce(axes, false),
            &["2x3xf16"],
            &format!("axes is {axes:?}, expected at least one axis, ascending, each once"),
        );
    }
    refuses(
        &reduce(&[0, 7], true),
        &["2x3xf16"],
        "axes[1] is 7, expected 0 to 1: input is tensor<2x3xf16>",
    );
}

#[test]
fn attention() {
    let attention = |heads, scale, causal| OpKind::Attention {
        heads,
        scale: Scalar::new(scale),
        causal,
    };
    let plain = attention(3, 0.5, false);
    gives(
        &plain,
        &["2x5x12xf16", "2x7x12xf16", "2x7x6xf16"],
        "2x5x6xf16",
    );
    gives(
        &attention(1, 0.5, true),
        &["5x12xf16", "5x12xf16", "5x6xf16"],
        "5x6xf16",
    );
    let cases: [(&OpKind, [&str; 3], &str); 9] = [
        (
            &plain,
            ["12xf16", "7x12xf16", "7x6xf16"],
            "query is tensor<12xf16>, expected at least 2 axes",
        ),
        (
            &plain,
            ["2x5x12xf16", "7x12xf16", "2x7x6xf16"],
            "leading axes differ: query is tensor<2x5x12xf16>, key is tensor<7x12xf16>",
        ),
        (
            &plain,
            ["5x12xf16", "7x9xf16", "7x6xf16"],
            "last axes differ: query is tensor<5x12xf16>, key is tensor<7x9xf16>",
        ),
        (
            &plain,
            ["5x12xf16", "7x12xf16", "8x6xf16"],
            "numbers of keys and values differ: key is tensor<7x12xf16>, value is tensor<8x6xf16>",
        ),
        (
            &plain,
            ["5x12xf16", "7x12xf16", "7x6xf32"],
            "element types differ: query is tensor<5x12xf16>, value is tensor<7x6xf32>",
        ),
        (
            &attention(5, 0.5, false),
            ["5x12xf16", "7x12xf16", "7x6xf16"],
            "heads is 5, expected a divisor of 12: query is tensor<5x12xf16>",
        ),
        (
            &attention(4, 0.5, false),
            ["5x12xf16", "7x12xf16", "7x6xf16"],
            "heads is 4, expected a divisor of 6: value is tensor<7x6xf16>",
        ),
        (
            &attention(1, f32::NAN, false),
            ["5x12xf16", "7x12xf16", "7x6xf16"],
            "scale is NaN, expected a finite number",
        ),
        (
            &attention(1, 0.5, true),
            ["8x12xf16", "7x12xf16", "7x6xf16"],
            "query is tensor<8x12xf16>, expected at most 7 queries when causal",
        ),
    ];
    for (kind, operands, message) in cases {
        refuses(kind, &operands, message);
    }

    let split = |heads| OpKind::SplitHeads { heads };
    let merge = |heads| OpKind::MergeHeads { heads };
    gives(&split(3), &["2x5x12xf16"], "6x5x4xf16");
    gives(&split(3), &["5x12xf16"], "3x5x4xf16");
    gives(&split(1), &["2x2x5x12xf16"], "4x5x12xf16");
    gives(&merge(3), &["6x5x4xf16"], "2x5x12xf16");
    refuses(
        &split(3),
        &["12xf16"],
        "input is tensor<12xf16>, expected at least 2 axes",
    );
    refuses(
        &split(0),
        &["5x12xf16"],
        "heads is 0, expected a divisor of 12: input is tensor<5x12xf16>",
    );
    refuses(
        &split(7),
        &["5x12xf16"],
        "heads is 7, expected a divisor of 12: input is tensor<5x12xf16>",
    );
    refuses(
        &merge(3),
        &["5x12xf16"],
        "input is tensor<5x12xf16>, expected 3 axes",
    );
    refuses(
        &merge(4),
        &["6x5x4xf16"],
        "heads is 4, expected a divisor of 6: input is tensor<6x5x4xf16>",
    );
}

#[test]
fn moving() {
    takes(&OpKind::Reshape, "2x6xi32", "3x4xi32");
    takes(&OpKind::Reshape, "1x1xf16", "f16");
    mismatch(
        &OpKind::Reshape,
        &["2x6xf16"],
        "13xf16",
        "result is tensor<13xf16>, expected the 12 elements of the input tensor<2x6xf16>",
    );
    mismatch(
        &OpKind::Reshape,
        &["2xf16"],
        "2xf32",
        "result is tensor<2xf32>, expected elements of f16",
    );
    takes(&OpKind::Broadcast, "3x1xf16", "2x3x4xf16");
    for bad in ["2x2xf16", "3xf16", "1x1xf16"] {
        let result = ty(bad);
        mismatch(
            &OpKind::Broadcast,
            &["3x1xf16"],
            bad,
            &format!(
                "result is {result}, expected a shape that the input tensor<3x1xf16> broadcasts to"
            ),
        );
    }
    takes(&OpKind::Cast, "2xi32", "2xf16");
    mismatch(
        &OpKind::Cast,
        &["2xf16"],
        "2xi32",
        "result is tensor<2xi32>, expected elements of f16 or f32",
    );
    mismatch(
        &OpKind::Cast,
        &["2xf16"],
        "3xf32",
        "result is tensor<3xf32>, expected the shape 2",
    );

    let transpose = |p: &[u32]| OpKind::Transpose {
        permutation: p.to_vec(),
    };
    gives(&transpose(&[2, 0, 1]), &["2x3x4xi32"], "4x2x3xi32");
    gives(&transpose(&[]), &["f16"], "f16");
    refuses(
        &transpose(&[0]),
        &["2x3xf16"],
        "permutation is [0], expected 2 numbers: input is tensor<2x3xf16>",
    );
    refuses(
        &transpose(&[1, 1]),
        &["2x3xf16"],
        "permutation is [1, 1], expected axis 1 once",
    );
    refuses(
        &transpose(&[0, 2]),
        &["2x3xf16"],
        "permutation[1] is 2, expected 0 to 1: input is tensor<2x3xf16>",
    );

    let slice = |offsets: &[u32], strides: &[u32]| OpKind::Slice {
        offsets: offsets.to_vec(),
        strides: strides.to_vec(),
    };
    takes(&slice(&[1, 0], &[1, 3]), "2x8xf16", "1x3xf16");
    takes(&slice(&[1, 7], &[u32::MAX, u32::MAX]), "2x8xf16", "1x1xf16");
    mismatch(
        &slice(&[1, 0], &[1, 3]),
        &["2x8xf16"],
        "1x4xf16",
        "result is tensor<1x4xf16>, expected less along axis 1: element 9 of the input tensor<2x8xf16> is read",
    );
    mismatch(
        &slice(&[u32::MAX], &[u32::MAX]),
        &["8xf16"],
        "4294967295xf16",
        "result is tensor<4294967295xf16>, expected less along axis 0: element 18446744065119617025 of the input tensor<8xf16> is read",
    );
    mismatch(
        &slice(&[0], &[0]),
        &["8xf16"],
        "8xf16",
        "strides[0] is 0, expected at least 1",
    );
    mismatch(
        &slice(&[0], &[1]),
        &["2x8xf16"],
        "8xf16",
        "offsets is [0], expected 2 numbers: input is tensor<2x8xf16>",
    );
    mismatch(
        &slice(&[0, 0], &[1]),
        &["2x8xf16"],
        "2x8xf16",
        "strides is [1], expected 2 numbers: input is tensor<2x8xf16>",
    );
    mismatch(
        &slice(&[0, 0], &[1, 1]),
        &["2x8xf16"],
        "8xf16",
        "result is tensor<8xf16>, expected 2 axes like the input",
    );

    let concat = |axis| OpKind::Concat { axis };
    gives(&concat(1), &["2x1xf16", "2x3xf16", "2x1xf16"], "2x5xf16");
    gives(&concat(0), &["2xi32"], "2xi32");
    refuses(&concat(0), &[], "takes at least 1 operands, found 0");
    refuses(
        &concat(1),
        &["2xf16", "2xf16"],
        "axis is 1, expected 0 to 0: inputs[0] is tensor<2xf16>",
    );
    for other in ["3x3xf16", "2xf16"] {
        refuses(
            &concat(1),
            &["2x1xf16", other],
            &format!(
                "axes that are not joined differ: inputs[0] is tensor<2x1xf16>, inputs[1] is {}",
                ty(other)
            ),
        );
    }
    refuses(
        &concat(0),
        &["2xf16", "2xf32"],
        "element types differ: inputs[0] is tensor<2xf16>, inputs[1] is tensor<2xf32>",
    );
    refuses(
        &concat(0),
        &["4294967295xf16", "1xf16"],
        "the result of shape 4294967296 has more than 4294967295 elements, the limit of one tensor",
    );

    let gather = |axis| OpKind::Gather { axis };
    gives(&gather(0), &["9x4xf16", "2x3xi32"], "2x3x4xf16");
    gives(&gather(1), &["9x4xf16", "i32"], "9xf16");
    refuses(
        &gather(0),
        &["9xf16", "2xf16"],
        "indices is tensor<2xf16>, expected elements of i32",
    );
    refuses(
        &gather(1),
        &["9xf16", "2xi32"],
        "axis is 1, expected 0 to 0: input is tensor<9xf16>",
    );
    refuses(
        &gather(0),
        &["16777217xf16", "2xi32"],
        "input is tensor<16777217xf16>, expected at most 16777216 rows along axis 0",
    );
}

#[test]
fn convolutions() {
    let conv = |strides, padding, dilations, groups| OpKind::Conv2d {
        strides,
        padding,
        dilations,
        groups,
    };
    let plain = conv([1, 1], [0; 4], [1, 1], 1);
    gives(
        &plain,
        &["1x5x6x4xf16", "3x2x4x8xf16", "8xf16"],
        "1x3x5x8xf16",
    );
    gives(
        &conv([2, 3], [1, 2, 0, 1], [2, 1], 2),
        &["7x5x6x4xf16", "3x2x2x8xf16"],
        "7x2x2x8xf16",
    );
    let x = "1x5x6x4xf16";
    let most = u32::MAX;
    let cases: [(&OpKind, &[&str], &str); 12] = [
        (
            &plain,
            &["5x6x4xf16", "3x2x4x8xf16"],
            "input is tensor<5x6x4xf16>, expected the axes N, H, W, C",
        ),
        (
            &plain,
            &[x, "3x4x8xf16"],
            "weight is tensor<3x4x8xf16>, expected the axes KH, KW, C / groups, F",
        ),
        (
            &plain,
            &[x, "3x2x4x8xf32"],
            "element types differ: input is tensor<1x5x6x4xf16>, weight is tensor<3x2x4x8xf32>",
        ),
        (
            &plain,
            &[x, "3x2x5x8xf16"],
            "weight is tensor<3x2x5x8xf16>, expected 4 as axis 2: 4 channels in 1 groups",
        ),
        (
            &plain,
            &[x, "3x2x4x8xf16", "7xf16"],
            "bias is tensor<7xf16>, expected the shape 8",
        ),
        (
            &plain,
            &[x, "6x2x4x8xf16"],
            "input is tensor<1x5x6x4xf16>, expected a height of at least 6 with padding, that of the window",
        ),
        (
            &conv([1, 0], [0; 4], [1, 1], 1),
            &[x, "3x2x4x8xf16"],
            "strides[1] is 0, expected at least 1",
        ),
        (
            &conv([1, 1], [0; 4], [0, 1], 1),
            &[x, "3x2x4x8xf16"],
            "dilations[0] is 0, expected at least 1",
        ),
        (
            &conv([1, 1], [0; 4], [1, 1], 0),
            &[x, "3x2x4x8xf16"],
            "groups is 0, expected at least 1",
        ),
        (
            &conv([1, 1], [0; 4], [1, 1], 3),
            &[x, "3x2x4x8xf16"],
            "groups is 3, expected a divisor of the 4 channels and of the 8 filters",
        ),
        (
            &conv([1, 1], [0; 4], [1, most], 1),
            &[x, "3x2x4x8xf16"],
            "input is tensor<1x5x6x4xf16>, expected a width of at least 4294967296 with padding, that of the window",
        ),
        (
            &conv([1, 1], [most; 4], [1, 1], 1),
            &[x, "3x2x4x8xf16"],
            "the result of shape 1x8589934593x8589934595x8 has more than 4294967295 elements, the limit of one tensor",
        ),
    ];
    for (kind, operands, message) in cases {
        refuses(kind, operands, message);
    }
}

#[test]
fn data_and_repeats() {
    let parameter = OpKind::Parameter { name: "w".into() };
    assert_eq!(check(&parameter, &[], &types(&["2xi32"])), Ok(()));
    let constant = |n: usize| OpKind::Constant {
        values: vec![1.0; n],
    };
    assert_eq!(check(&constant(1), &[], &types(&["2x2xf16"])), Ok(()));
    assert_eq!(check(&constant(4), &[], &types(&["2x2xf16"])), Ok(()));
    mismatch(
        &constant(3),
        &[],
        "2x2xf16",
        "result is tensor<2x2xf16>, expected 3 elements, one for each value",
    );
    mismatch(
        &parameter,
        &["2xf16"],
        "2xf16",
        "takes no operands, found 1",
    );

    let mut body = Graph::default();
    let a = body.add_value(ty("2xf16"));
    let b = body.add_value(ty("3xf32"));
    (body.inputs, body.outputs) = (vec![a, b], vec![a, b]);
    let repeat = |count, body: &Graph| OpKind::Repeat {
        count,
        body: Box::new(body.clone()),
    };
    let carried = types(&["2xf16", "3xf32"]);
    let message = |kind: &OpKind, operands: &[TensorType], results: &[TensorType]| {
        check(kind, operands, results).unwrap_err().to_string()
    };
    assert_eq!(check(&repeat(2, &body), &carried, &carried), Ok(()));
    assert_eq!(
        message(&repeat(0, &body), &carried, &carried),
        "count is 0, expected at least 1"
    );
    assert_eq!(
        message(&repeat(1, &body), &[], &[]),
        "takes at least 1 operands, found 0"
    );
    assert_eq!(
        message(&repeat(1, &body), &carried, &carried[1..]),
        "has 2 results, found 1"
    );
    assert_eq!(
        message(&repeat(1, &body), &carried[..1], &carried[..1]),
        "number of arguments of the body is 2, expected 1, one for each input"
    );
    let swapped = types(&["3xf32", "2xf16"]);
    assert_eq!(
        message(&repeat(1, &body), &carried, &swapped),
        "result 0 is tensor<3xf32>, expected tensor<2xf16> like inputs[0]"
    );
    assert_eq!(
        message(&repeat(1, &body), &swapped, &swapped),
        "argument 0 is tensor<2xf16>, expected tensor<3xf32> like inputs[0]"
    );
    let mut crossed = body.clone();
    crossed.outputs = vec![a, a];
    assert_eq!(
        message(&repeat(1, &crossed), &carried, &carried),
        "yielded 1 is tensor<2xf16>, expected tensor<3xf32> like inputs[1]"
    );
    crossed.outputs = vec![a];
    assert_eq!(
        message(&repeat(1, &crossed), &carried, &carried),
        "number of values yielded by the body is 1, expected 2, one for each input"
    );
}
