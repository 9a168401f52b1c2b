//! Graphs of all operations survive IR and text.

use super::*;
use ipu_program::graph::{ReduceKind, Scalar, UnaryKind, ValueId};
use ipu_program::infer;
use pretty_assertions::assert_eq;
use std::collections::BTreeSet;

/// Makes graphs out of numbers, of which there are always more: zeros.
struct Maker<'a> {
    numbers: std::slice::Iter<'a, u32>,
    graph: Graph,
    /// Repeats around.
    depth: usize,
}

/// Kinds of operations that [`Maker::op`] makes.
const KINDS: u32 = 21;

impl Maker<'_> {
    fn number(&mut self, range: std::ops::Range<u32>) -> u32 {
        let number = self.numbers.next().copied().unwrap_or_default();
        range.start + number % (range.end - range.start)
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.number(0..all.len() as u32) as usize].clone()
    }

    fn flag(&mut self) -> bool {
        self.number(0..2) == 1
    }

    fn float(&mut self) -> f32 {
        let number = self.number(0..2001) as f32;
        (number - 1000.0) / 37.0
    }

    fn shape(&mut self, least_rank: u32) -> Vec<u32> {
        let rank = self.number(least_rank..4);
        (0..rank).map(|_| self.number(1..5)).collect()
    }

    fn element(&mut self) -> ElementType {
        self.pick(&[ElementType::F16, ElementType::F32])
    }

    fn location(&mut self) -> String {
        match self.number(0..4) {
            0 => String::new(),
            line => format!("dir/m.mlir:{line}:7"),
        }
    }

    fn add(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        let location = self.location();
        self.graph.add_op(kind, operands, ty, location)
    }

    /// A value of the type: one that is there, or a parameter or constant.
    fn value(&mut self, shape: &[u32], element: ElementType) -> ValueId {
        let ty = TensorType::new(shape, element);
        let fitting: Vec<u32> = (0..self.graph.values.len() as u32)
            .filter(|&i| self.graph.values[i as usize].ty == ty)
            .collect();
        match self.number(0..4) {
            0 => {
                let places = "{}".repeat(self.depth * self.number(0..2) as usize);
                let name = format!("a \"quoted\" {places} key");
                self.add(OpKind::Parameter { name }, vec![], ty)
            }
            1 => {
                let count = if self.flag() { ty.elements() } else { 1 };
                let value = |v: f32| match element {
                    ElementType::F16 => half::f16::from_f32(v).to_f32(),
                    ElementType::F32 => v,
                    ElementType::I32 => v.round(),
                };
                let mut values: Vec<f32> = (0..count).map(|_| value(self.float())).collect();
                // All equal is a splat, which has one value.
                if values.iter().all(|v| *v == values[0]) {
                    values.truncate(1);
                }
                self.add(OpKind::Constant { values }, vec![], ty)
            }
            _ if fitting.is_empty() => {
                let name = "w".to_owned();
                self.add(OpKind::Parameter { name }, vec![], ty)
            }
            _ => ValueId(fitting[self.number(0..fitting.len() as u32) as usize]),
        }
    }

    /// An operation whose result its operands determine.
    fn inferred(&mut self, kind: OpKind, shapes: &[&[u32]], element: ElementType) {
        let operands: Vec<_> = shapes.iter().map(|s| self.value(s, element)).collect();
        self.of_values(kind, operands);
    }

    fn of_values(&mut self, kind: OpKind, operands: Vec<ValueId>) {
        let types: Vec<_> = operands
            .iter()
            .map(|&id| self.graph.ty(id).clone())
            .collect();
        let ty = infer::infer(&kind, &types).unwrap();
        self.add(kind, operands, ty);
    }

    /// An operation whose result is chosen.
    fn stated(&mut self, kind: OpKind, from: &[u32], to: &[u32], elements: [ElementType; 2]) {
        let x = self.value(from, elements[0]);
        let ty = TensorType::new(to, elements[1]);
        infer::check(
            &kind,
            &[self.graph.ty(x).clone()],
            std::slice::from_ref(&ty),
        )
        .unwrap();
        self.add(kind, vec![x], ty);
    }

    fn op(&mut self, which: u32) {
        let e = self.element();
        let any = [e, ElementType::I32][self.number(0..2) as usize];
        let scalar = Scalar::new(self.float().abs());
        match which {
            0 => {
                let (batch, [m, n, k]) = (self.shape(0), [1, 2, 3]);
                let (transpose_a, transpose_b) = (self.flag(), self.flag());
                let of = |batch: &[u32], swap, a, b| match swap {
                    true => [batch, &[b, a]].concat(),
                    false => [batch, &[a, b]].concat(),
                };
                let right = if self.flag() { &batch[..] } else { &[] };
                let shapes = [of(&batch, transpose_a, m, k), of(right, transpose_b, k, n)];
                let kind = OpKind::Matmul {
                    transpose_a,
                    transpose_b,
                };
                self.inferred(kind, &[&shapes[0], &shapes[1]], e);
            }
            1 => {
                let kind = self.pick(&BinaryKind::ALL);
                let shape = self.shape(0);
                let cut = self.number(0..shape.len() as u32 + 1) as usize;
                self.inferred(OpKind::Binary(kind), &[&shape, &shape[cut..]], e);
            }
            2 => {
                let kind = self.pick(&UnaryKind::ALL);
                let shape = self.shape(0);
                self.inferred(OpKind::Unary(kind), &[&shape], e);
            }
            3 => {
                let activation = self.pick(&[Activation::None, Activation::Relu]);
                let shapes: [&[u32]; 3] = [&[2, 3], &[3, 4], &[4]];
                let count = self.number(2..4) as usize;
                self.inferred(OpKind::Linear { activation }, &shapes[..count], e);
            }
            4 => {
                let shape = self.shape(1);
                let axis = self.number(0..shape.len() as u32);
                self.inferred(OpKind::Softmax { axis }, &[&shape], e);
            }
            5 => {
                let shape = self.shape(1);
                let last = &shape[shape.len() - 1..];
                let kind = OpKind::LayerNorm { epsilon: scalar };
                self.inferred(kind, &[&shape, last, last], e);
            }
            6 => {
                let shape = self.shape(1);
                let kind = OpKind::RmsNorm { epsilon: scalar };
                self.inferred(kind, &[&shape, &shape[shape.len() - 1..]], e);
            }
            7 => {
                let shape = self.shape(1);
                let mut axes: Vec<u32> = (0..shape.len() as u32).collect();
                axes.remove(self.number(0..axes.len() as u32) as usize);
                if axes.is_empty() || self.flag() {
                    axes = vec![0];
                }
                let kind = self.pick(&ReduceKind::ALL);
                let keep_dims = self.flag();
                let kind = OpKind::Reduce {
                    kind,
                    axes,
                    keep_dims,
                };
                self.inferred(kind, &[&shape], e);
            }
            8 => {
                let (batch, heads) = (self.shape(0), self.number(1..4));
                let of = |t, d| [&batch[..], &[t, heads * d]].concat();
                let kind = OpKind::Attention {
                    heads,
                    scale: scalar,
                    causal: self.flag(),
                };
                self.inferred(kind, &[&of(2, 3), &of(4, 3), &of(4, 2)], e);
            }
            9 => {
                let (heads, shape) = (self.number(1..4), self.shape(1));
                let shape = [&shape[..], &[heads * 2]].concat();
                self.inferred(OpKind::SplitHeads { heads }, &[&shape], e);
            }
            10 => {
                let heads = self.number(1..4);
                self.inferred(OpKind::MergeHeads { heads }, &[&[heads * 2, 3, 2]], e);
            }
            11 => {
                let shape = self.shape(0);
                let reversed: Vec<u32> = shape.iter().rev().copied().collect();
                self.stated(OpKind::Reshape, &shape, &reversed, [any; 2]);
            }
            12 => {
                let shape = self.shape(0);
                let mut permutation: Vec<u32> = (0..shape.len() as u32).collect();
                permutation.rotate_left(self.number(0..3) as usize % shape.len().max(1));
                let operand = self.value(&shape, any);
                self.of_values(OpKind::Transpose { permutation }, vec![operand]);
            }
            13 => {
                let (to, mut from) = (self.shape(0), vec![]);
                let (mut offsets, mut strides) = (vec![], vec![]);
                for &extent in &to {
                    let (offset, stride) = (self.number(0..3), self.number(1..3));
                    from.push(offset + extent * stride);
                    offsets.push(offset);
                    strides.push(stride);
                }
                self.stated(OpKind::Slice { offsets, strides }, &from, &to, [any; 2]);
            }
            14 => {
                let shape = self.shape(1);
                let axis = self.number(0..shape.len() as u32);
                let count = self.number(1..4);
                let operands = (0..count).map(|_| self.value(&shape, any)).collect();
                self.of_values(OpKind::Concat { axis }, operands);
            }
            15 => {
                let to = self.shape(0);
                let from: Vec<u32> = to.iter().map(|_| 1).collect();
                self.stated(OpKind::Broadcast, &from, &to, [any; 2]);
            }
            16 => {
                let (shape, to) = (self.shape(0), self.element());
                self.stated(OpKind::Cast, &shape, &shape, [any, to]);
            }
            17 => {
                let (shape, picked) = (self.shape(1), self.shape(0));
                let axis = self.number(0..shape.len() as u32);
                let operands = vec![
                    self.value(&shape, any),
                    self.value(&picked, ElementType::I32),
                ];
                self.of_values(OpKind::Gather { axis }, operands);
            }
            18 => {
                let groups = self.number(1..3);
                let kind = OpKind::Conv2d {
                    strides: [self.number(1..3), self.number(1..3)],
                    padding: [0; 4].map(|_| self.number(0..3)),
                    dilations: [self.number(1..3), self.number(1..3)],
                    groups,
                };
                let shapes: [&[u32]; 3] = [
                    &[1, 5, 6, 2 * groups],
                    &[3, 2, 2, 3 * groups],
                    &[3 * groups],
                ];
                let count = self.number(2..4) as usize;
                self.inferred(kind, &shapes[..count], e);
            }
            19 if self.depth < 2 => self.repeat(any),
            _ => {
                let (x, w) = (
                    self.value(&[2, 3], ElementType::F16),
                    self.value(&[3, 4], ElementType::F16),
                );
                let wide = TensorType::new([2, 4], ElementType::F32);
                self.add(OpKind::MATMUL, vec![x, w], wide);
            }
        }
    }

    fn repeat(&mut self, element: ElementType) {
        let carried = self.number(1..4);
        let shapes: Vec<_> = (0..carried).map(|_| self.shape(0)).collect();
        let operands: Vec<_> = shapes.iter().map(|s| self.value(s, element)).collect();
        let mut body = Maker {
            numbers: self.numbers.clone(),
            graph: Graph::default(),
            depth: self.depth + 1,
        };
        for shape in &shapes {
            let id = body.graph.add_value(TensorType::new(&shape[..], element));
            body.graph.inputs.push(id);
        }
        for _ in 0..body.number(0..3) {
            let which = body.number(0..KINDS);
            body.op(which);
        }
        for shape in &shapes {
            let id = body.value(shape, element);
            body.graph.outputs.push(id);
        }
        self.numbers = body.numbers;
        let kind = OpKind::Repeat {
            count: self.number(1..1000),
            body: Box::new(body.graph),
        };
        let mut types = shapes.iter().map(|s| TensorType::new(&s[..], element));
        let first = types.next().unwrap();
        self.add(kind, operands, first);
        for ty in types {
            let id = self.graph.add_value(ty);
            self.graph.ops.last_mut().unwrap().more_results.push(id);
        }
    }
}

fn graph_of(numbers: &[u32], kinds: &[u32]) -> Graph {
    let graph = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let mut maker = Maker {
        numbers: numbers.iter(),
        graph,
        depth: 0,
    };
    for _ in 0..maker.number(0..3) {
        let ty = TensorType::new(maker.shape(0), maker.element());
        let id = maker.graph.add_value(ty);
        maker.graph.inputs.push(id);
    }
    for &kind in kinds {
        maker.op(kind);
    }
    if let Some(count) = (maker.graph.values.len() as u32).checked_sub(1) {
        let id = ValueId(maker.number(0..count + 1));
        maker.graph.outputs.push(id);
    }
    maker.graph
}

/// The graph after building, and after printing (in both forms) and parsing what was built.
fn survives(context: &Context, graph: &Graph) {
    let unknown = Location::unknown(context);
    let module = Module::new(unknown);
    let func = graph::build(context, graph, unknown).unwrap();
    let func = module.body().append_operation(func);
    let text = print(&module);
    assert!(module.as_operation().verify(), "{text}");
    assert_eq!(graph::read(func), Ok(graph.clone()));
    let flags = melior::ir::operation::OperationPrintingFlags::new()
        .enable_debug_info(true, false)
        .print_generic_operation_form();
    let generic = module.as_operation().to_string_with_flags(flags).unwrap();
    for text in [&text, &generic] {
        let again = parse_guarded(context, text, "m.mlir").unwrap();
        let func = ir::body_ops(again.as_operation()).next().unwrap();
        assert_eq!(graph::read(func), Ok(graph.clone()), "{text}");
        assert_eq!(&print(&again), &print(&module));
    }
}

/// Names of all operations, those in bodies too.
fn names(graph: &Graph, into: &mut BTreeSet<&'static str>) {
    for op in &graph.ops {
        into.insert(op.kind.name());
        if let OpKind::Repeat { body, .. } = &op.kind {
            names(body, into);
        }
    }
}

#[test]
fn every_operation_is_made() {
    let mut seen = BTreeSet::new();
    for seed in 0..40u32 {
        let number = |i: u32| {
            let mixed = (seed * 1000 + i).wrapping_mul(2_654_435_761);
            (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519) >> 9
        };
        let numbers: Vec<u32> = (0..1000).map(number).collect();
        let kinds: Vec<u32> = (0..KINDS).collect();
        let graph = graph_of(&numbers, &kinds);
        names(&graph, &mut seen);
        CONTEXT.with(|c| survives(c, &graph));
    }
    let all = [
        "add",
        "attention",
        "broadcast",
        "cast",
        "concat",
        "constant",
        "conv2d",
        "div",
        "exp",
        "gather",
        "gelu",
        "layer_norm",
        "linear",
        "matmul",
        "max",
        "merge_heads",
        "min",
        "mul",
        "parameter",
        "reduce",
        "relu",
        "repeat",
        "reshape",
        "rms_norm",
        "rsqrt",
        "sigmoid",
        "slice",
        "softmax",
        "split_heads",
        "sub",
        "tanh",
        "transpose",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn graphs_of_all_operations_survive(
        numbers in prop::collection::vec(any::<u32>(), 0..200),
        kinds in prop::collection::vec(0..KINDS, 0..8),
    ) {
        let graph = graph_of(&numbers, &kinds);
        CONTEXT.with(|c| survives(c, &graph));
    }
}

#[test]
fn errors_in_bodies_are_reported_once() {
    let context = context();
    let text = "func.func @f(%x: tensor<4xf16>) -> tensor<4xf16> {\n  \
        %0 = nn.repeat 2 (%h = %x) : tensor<4xf16> {\n    \
        %1 = builtin.unrealized_conversion_cast %h : tensor<4xf16> to tensor<4xf16>\n    \
        nn.yield %1 : tensor<4xf16>\n  }\n  \
        %2 = nn.relu %0 : tensor<4xf16>\n  return %2 : tensor<4xf16>\n}";
    let module = parse_guarded(&context, text, "m.mlir").unwrap();
    let func = ir::body_ops(module.as_operation()).next().unwrap();
    let (result, list) = crate::diag::capture(&context, || graph::read(func));
    assert_eq!(result, Err(Failed));
    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
    assert_eq!(
        list,
        [
            "m.mlir:3:10: error: 'builtin.unrealized_conversion_cast' op is not supported in a model: \
          use operations of dialect nn"
        ]
    );
}

#[test]
fn broken_graphs_are_refused() {
    let context = context();
    let mut graph = sample_graph();
    graph.ops[7 - 1].operands = vec![ValueId(99)];
    let at = Location::unknown(&context);
    let (built, list) =
        crate::diag::capture(&context, || graph::build(&context, &graph, at).is_some());
    assert!(!built);
    assert_eq!(
        list[0].message,
        "internal error: the graph lacks a value that it uses"
    );
}
