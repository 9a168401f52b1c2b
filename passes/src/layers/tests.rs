use super::{UnrollError, roll, unroll};
use ipu_program::graph::{BinaryKind, Graph, OpKind, UnaryKind, ValueId};
use ipu_program::infer;
use ipu_program::types::{ElementType, TensorType};

fn ty(shape: &[u32]) -> TensorType {
    TensorType::new(shape, ElementType::F16)
}

struct Build(Graph);

impl Build {
    fn new() -> (Self, ValueId) {
        let mut g = Graph::default();
        let x = g.add_value(ty(&[4, 8]));
        g.inputs.push(x);
        (Build(g), x)
    }

    fn op(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        let location = format!("m:{}", self.0.ops.len());
        self.0
            .add_op(kind, operands.to_vec(), ty(&[4, 8]), location)
    }

    fn weight(&mut self, name: &str) -> ValueId {
        let name = name.to_owned();
        self.0
            .add_op(OpKind::Parameter { name }, vec![], ty(&[8, 8]), "w".into())
    }

    fn half(&mut self) -> ValueId {
        let kind = OpKind::Constant { values: vec![0.5] };
        self.0.add_op(kind, vec![], ty(&[]), "c".into())
    }

    /// `x + relu(x * w) * 0.5 + mask`, a layer.
    fn layer(&mut self, x: ValueId, name: &str, mask: Option<ValueId>) -> ValueId {
        let w = self.weight(name);
        let y = self.op(OpKind::MATMUL, &[x, w]);
        let y = self.op(OpKind::RELU, &[y]);
        let half = self.half();
        let y = self.op(OpKind::Binary(BinaryKind::Mul), &[y, half]);
        let y = self.op(OpKind::Binary(BinaryKind::Add), &[x, y]);
        match mask {
            Some(mask) => self.op(OpKind::Binary(BinaryKind::Add), &[y, mask]),
            None => y,
        }
    }
}

/// Every operator that a result needs, as text that names no values.
fn text(graph: &Graph) -> String {
    fn value(graph: &Graph, v: ValueId, known: &mut Vec<ValueId>, out: &mut String) -> usize {
        if let Some(i) = known.iter().position(|&k| k == v) {
            return i;
        }
        let line = match graph.definition(v) {
            None => format!("input {:?}", graph.inputs.iter().position(|&x| x == v)),
            Some(op) => {
                let operands: Vec<_> = op
                    .operands
                    .iter()
                    .map(|&x| value(graph, x, known, out))
                    .collect();
                format!("{:?} {operands:?} {:?}", op.kind, graph.ty(v))
            }
        };
        known.push(v);
        *out += &format!("{} = {line}\n", known.len() - 1);
        known.len() - 1
    }
    let (mut known, mut out) = (Vec::new(), String::new());
    for &v in &graph.outputs {
        let i = value(graph, v, &mut known, &mut out);
        out += &format!("return {i}\n");
    }
    out
}

/// Without equal parameters and constants twice, as common subexpressions leave it.
fn leaves_once(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    let mut known: Vec<(OpKind, ValueId)> = Vec::new();
    let mut names: Vec<(ValueId, ValueId)> = Vec::new();
    for op in &graph.ops {
        if matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. }) {
            match known.iter().find(|k| k.0 == op.kind) {
                Some(k) => names.push((op.result, k.1)),
                None => known.push((op.kind.clone(), op.result)),
            }
        }
    }
    for v in out.ops.iter_mut().flat_map(|op| &mut op.operands) {
        if let Some(n) = names.iter().find(|n| n.0 == *v) {
            *v = n.1;
        }
    }
    out
}

fn repeats(graph: &Graph) -> Vec<(u32, usize, usize)> {
    let each = graph.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Repeat { count, body } => Some((*count, body.ops.len(), body.inputs.len())),
        _ => None,
    });
    each.collect()
}

/// Rolls, checks the repeats (iterations, operators of the body, carried values) by their types,
/// and that written out they are the graph again.
fn check(graph: &Graph, expected: &[(u32, usize, usize)]) -> Graph {
    let (rolled, count) = roll(graph);
    assert_eq!(repeats(&rolled), expected);
    assert_eq!(count, expected.len());
    for op in &rolled.ops {
        if let OpKind::Repeat { count, body } = &op.kind {
            let types = |g: &Graph, list: &[ValueId]| -> Vec<TensorType> {
                list.iter().map(|&v| g.ty(v).clone()).collect()
            };
            let results = [vec![op.result], op.more_results.clone()].concat();
            infer::check_repeat(
                *count,
                &types(&rolled, &op.operands),
                [&types(body, &body.inputs), &types(body, &body.outputs)],
                &types(&rolled, &results),
            )
            .unwrap();
        }
    }
    let again = unroll(&rolled).unwrap().into_owned();
    assert_eq!(text(&leaves_once(&again)), text(&leaves_once(graph)));
    rolled
}

#[test]
fn layers_with_numbered_parameters_are_one_body() {
    for layers in [2, 3, 12] {
        let (mut b, x) = Build::new();
        let mut y = b.op(OpKind::Unary(UnaryKind::Tanh), &[x]);
        for i in 0..layers {
            y = b.layer(y, &format!("blocks.{i}.fc2.weight"), None);
        }
        y = b.op(OpKind::Unary(UnaryKind::Tanh), &[y]);
        b.0.outputs.push(y);
        let rolled = check(&b.0, &[(layers, 6, 1)]);
        let names = rolled.ops.iter().flat_map(|op| match &op.kind {
            OpKind::Repeat { body, .. } => body.ops.clone(),
            _ => Vec::new(),
        });
        let names: Vec<_> = names
            .filter_map(|op| match op.kind {
                OpKind::Parameter { name } => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["blocks.{}.fc2.weight"]);
    }
}

#[test]
fn what_all_layers_read_is_carried_along() {
    let (mut b, x) = Build::new();
    let mask = b.op(OpKind::Unary(UnaryKind::Exp), &[x]);
    let mut y = x;
    for i in 0..4 {
        y = b.layer(y, &format!("{i}"), Some(mask));
    }
    let end = b.op(OpKind::Binary(BinaryKind::Add), &[y, mask]);
    b.0.outputs.extend([end, y]);
    check(&b.0, &[(4, 7, 2)]);
}

#[test]
fn shared_parameters_keep_their_name() {
    let (mut b, x) = Build::new();
    let mut y = x;
    for _ in 0..3 {
        y = b.layer(y, "shared.1.weight", None);
    }
    b.0.outputs.push(y);
    check(&b.0, &[(3, 6, 1)]);
}

#[test]
fn two_stacks_are_two_repeats() {
    let (mut b, x) = Build::new();
    let mut y = x;
    for i in 0..5 {
        y = b.layer(y, &format!("first.{i}"), None);
    }
    y = b.op(OpKind::Unary(UnaryKind::Exp), &[y]);
    for i in 0..3 {
        let w = b.weight(&format!("second.{i}"));
        y = b.op(OpKind::MATMUL, &[y, w]);
        y = b.op(OpKind::Unary(UnaryKind::Tanh), &[y]);
    }
    b.0.outputs.push(y);
    check(&b.0, &[(5, 6, 1), (3, 3, 1)]);
}

#[test]
fn what_differs_stays() {
    // Names that are no numbers of iterations, from 0 on; nothing but elementwise operators; a value
    // of a layer in the middle that is read behind; one layer.
    for names in [["a", "b"], ["1", "2"], ["0", "00"], ["x{}0", "x{}1"]] {
        let (mut b, x) = Build::new();
        let mut y = x;
        for name in names {
            y = b.layer(y, name, None);
        }
        b.0.outputs.push(y);
        check(&b.0, &[]);
    }
    let (mut b, x) = Build::new();
    let y = b.op(OpKind::RELU, &[x]);
    let y = b.op(OpKind::RELU, &[y]);
    b.0.outputs.push(y);
    check(&b.0, &[]);
    let (mut b, x) = Build::new();
    let first = b.layer(x, "0", None);
    let y = b.layer(first, "1", None);
    b.0.outputs.extend([y, first]);
    check(&b.0, &[]);
    let (mut b, x) = Build::new();
    let y = b.layer(x, "0", None);
    b.0.outputs.push(y);
    check(&b.0, &[]);
}

#[test]
fn the_first_layers_are_rolled_where_the_last_is_read() {
    let (mut b, x) = Build::new();
    let mut all = vec![x];
    for i in 0..5 {
        let y = b.layer(all[i], &format!("{i}"), None);
        all.push(y);
    }
    // The result of the fourth layer is read behind as well.
    b.0.outputs.extend([all[5], all[4]]);
    check(&b.0, &[(4, 6, 1)]);
}

#[test]
fn repeats_in_repeats_are_written_out() {
    let (mut inner, x) = Build::new();
    let w = inner.weight("s.{}.b.{}");
    let y = inner.op(OpKind::MATMUL, &[x, w]);
    inner.0.outputs.push(y);
    let nest = |count, body: &Graph| OpKind::Repeat {
        count,
        body: Box::new(body.clone()),
    };
    let (mut outer, x) = Build::new();
    let y = outer.op(nest(3, &inner.0), &[x]);
    let y = outer.op(OpKind::RELU, &[y]);
    outer.0.outputs.push(y);
    let (mut b, x) = Build::new();
    let y = b.op(nest(2, &outer.0), &[x]);
    b.0.outputs.push(y);
    let written = unroll(&b.0).unwrap().into_owned();
    let names: Vec<_> = written
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Parameter { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let expected = [
        "s.0.b.0", "s.0.b.1", "s.0.b.2", "s.1.b.0", "s.1.b.1", "s.1.b.2",
    ];
    assert_eq!(names, expected);
    assert_eq!(written.ops.len(), 2 * (3 * 2 + 1));
    // A name with one place inside two repeats.
    let OpKind::Repeat { body, .. } = &mut b.0.ops[0].kind else {
        unreachable!()
    };
    let OpKind::Repeat { body, .. } = &mut body.ops[0].kind else {
        unreachable!()
    };
    body.ops[0].kind = OpKind::Parameter { name: "{}".into() };
    let error = unroll(&b.0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "parameter '{}' has no key inside 2 repeats"
    );
    assert_eq!(error.location(), "w");
    // Too many.
    let (mut b, x) = Build::new();
    let y = b.op(nest(100_000, &outer.0), &[x]);
    b.0.outputs.push(y);
    assert!(matches!(unroll(&b.0), Err(UnrollError::TooMany { .. })));
}
