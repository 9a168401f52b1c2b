//! What small graphs become.

use super::super::{Algebra, Operand, Options};
use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind, ValueId};
use ipu_program::types::{ElementType, TensorType};
use pretty_assertions::assert_eq;

fn t(shape: &[u32]) -> TensorType {
    TensorType::new(shape, ElementType::F16)
}

fn parameter(g: &mut Graph, name: &str, shape: &[u32]) -> ValueId {
    g.add_op(
        OpKind::Parameter { name: name.into() },
        vec![],
        t(shape),
        name.into(),
    )
}

fn names(g: &Graph) -> Vec<String> {
    g.ops
        .iter()
        .map(|o| format!("{}/{}", o.kind.name(), o.operands.len()))
        .collect()
}

fn cheap(kind: &OpKind, _: &[Operand], _: &TensorType) -> Option<u64> {
    (*kind != OpKind::MATMUL).then_some(100)
}

/// The cheapest program, and why saturation stopped.
fn first(g: &Graph) -> (Graph, String) {
    let algebra = Algebra::saturate(g, &Options::default()).unwrap();
    let variant = algebra.variants(&cheap).next().unwrap();
    (variant.graph, algebra.report().stop.clone())
}

/// relu(x * w + b) with the bias on either side.
fn layer(bias_left: bool, bias_shape: &[u32]) -> Graph {
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let x = g.add_value(t(&[5, 8]));
    g.inputs.push(x);
    let w = parameter(&mut g, "w", &[8, 3]);
    let b = parameter(&mut g, "b", bias_shape);
    let y = g.add_op(
        OpKind::Matmul {
            transpose_a: false,
            transpose_b: false,
        },
        vec![x, w],
        t(&[5, 3]),
        "mm".into(),
    );
    let args = if bias_left { vec![b, y] } else { vec![y, b] };
    let z = g.add_op(
        OpKind::Binary(BinaryKind::Add),
        args,
        t(&[5, 3]),
        "add".into(),
    );
    let r = g.add_op(OpKind::RELU, vec![z], t(&[5, 3]), "relu".into());
    g.outputs.push(r);
    g
}

#[test]
fn layer_becomes_one_linear() {
    for left in [false, true] {
        let (g, report) = first(&layer(left, &[3]));
        assert_eq!(names(&g), ["parameter/0", "parameter/0", "linear/3"]);
        assert_eq!(g.ops[2].location, "relu");
        assert_eq!(
            g.ops[2].kind,
            OpKind::Linear {
                activation: Activation::Relu
            }
        );
        assert_eq!(report, "saturated");
    }
}

#[test]
fn a_full_matrix_is_no_bias() {
    let (g, _) = first(&layer(false, &[5, 3]));
    assert_eq!(
        names(&g),
        ["parameter/0", "parameter/0", "linear/2", "add/2", "relu/1"]
    );
}

#[test]
fn shared_values_stay_shared() {
    let mut g = layer(false, &[3]);
    let y = g.outputs[0];
    let twice = g.add_op(
        OpKind::Binary(BinaryKind::Mul),
        vec![y, y],
        t(&[5, 3]),
        "m".into(),
    );
    g.outputs.push(twice);
    let (g, _) = first(&g);
    assert_eq!(
        names(&g),
        ["parameter/0", "parameter/0", "linear/3", "mul/2"]
    );
    assert_eq!(g.ops[3].operands, vec![g.outputs[0], g.outputs[0]]);
}

#[test]
fn deep_models_do_not_overflow_the_stack() {
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let mut x = g.add_value(t(&[1, 4]));
    g.inputs.push(x);
    let b = parameter(&mut g, "b", &[1, 4]);
    for _ in 0..2000 {
        let args = vec![x, b];
        x = g.add_op(
            OpKind::Binary(BinaryKind::Add),
            args,
            t(&[1, 4]),
            "add".into(),
        );
    }
    g.outputs.push(x);
    let (g, _) = first(&g);
    assert_eq!(g.ops.len(), 2001);
}
