use super::*;
use crate::graph;
use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Transfer};
use ipu_program::types::{ElementType, TensorType};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

/// Rows cut into `parts` for tiles from 0 on, columns whole.
fn by_rows(rows: u32, columns: u32, parts: u32, order: ElementOrder) -> Layout {
    Layout {
        rows: Split {
            parts,
            block: rows.div_ceil(parts),
            stride: 1,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        },
        columns: Split::whole(columns),
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order,
        memory: MemoryClass::Any,
    }
}

/// A whole tensor on each of `tiles` tiles.
fn replicated(rows: u32, columns: u32, tiles: u32, order: ElementOrder) -> Layout {
    Layout {
        copies: tiles,
        copy_stride: 1,
        ..by_rows(rows, columns, 1, order)
    }
}

fn buffer(program: &mut TileProgram, name: &str, ty: &TensorType, layout: Layout) -> BufferId {
    program.add_buffer(Buffer {
        name: name.into(),
        ty: ty.clone(),
        layout,
        align: 32,
        tail: 0,
        live: None,
        address: None,
        location: "t.mlir:1:1".into(),
    })
}

fn bind(program: &mut TileProgram, source: Source, buffer: BufferId) {
    program.bindings.push(Binding { source, buffer });
}

fn spread(total: u32) -> [u32; 2] {
    [total / 6, total % 6]
}

struct Linear {
    m: u32,
    k: u32,
    n: u32,
    tiles: u32,
    partials: ElementType,
    activation: Activation,
}

impl Linear {
    fn f16(extents: [u32; 2]) -> TensorType {
        TensorType::new(extents, ElementType::F16)
    }

    fn graph(&self) -> Graph {
        let mut g = Graph {
            name: "main".into(),
            ..Graph::default()
        };
        let x = g.add_value(Self::f16([self.m, self.k]));
        g.inputs.push(x);
        let parameter = |name: &str| OpKind::Parameter { name: name.into() };
        let w = g.add_op(
            parameter("w"),
            vec![],
            Self::f16([self.k, self.n]),
            String::new(),
        );
        let b = g.add_op(
            parameter("b"),
            vec![],
            TensorType::new([self.n], ElementType::F16),
            String::new(),
        );
        let kind = OpKind::Linear {
            activation: self.activation,
        };
        let y = g.add_op(
            kind,
            vec![x, w, b],
            Self::f16([self.m, self.n]),
            String::new(),
        );
        g.outputs.push(y);
        g
    }

    /// Inputs in rows, rearranged to panels, multiplied on every tile.
    fn program(&self) -> TileProgram {
        let (m, k, n, tiles) = (self.m, self.k, self.n, self.tiles);
        let f32_partials = self.partials == ElementType::F32;
        let mut p = TileProgram {
            name: "main".into(),
            tiles,
            ..TileProgram::default()
        };
        let (x, w, y) = (Self::f16([m, k]), Self::f16([k, n]), Self::f16([m, n]));
        let input = buffer(&mut p, "x.rows", &x, by_rows(m, k, 1, ElementOrder::Rows));
        let a_layout = by_rows(m, k, tiles, ElementOrder::Panels);
        let a = buffer(&mut p, "x", &x, a_layout);
        let order = if f32_partials {
            ElementOrder::Weights8
        } else {
            ElementOrder::Weights16
        };
        let weights = buffer(&mut p, "w", &w, replicated(k, n, tiles, order));
        let bias_ty = TensorType::new([n], self.partials);
        let bias = buffer(
            &mut p,
            "b",
            &bias_ty,
            replicated(1, n, tiles, ElementOrder::Rows),
        );
        let out_layout = by_rows(m, n, tiles, ElementOrder::Panels);
        let out = buffer(&mut p, "y", &y, out_layout.clone());
        bind(&mut p, Source::Input(0), input);
        let named = |name: &str, ty: TensorType| Source::Parameter {
            name: name.into(),
            ty,
        };
        bind(&mut p, named("w", w.clone()), weights);
        bind(
            &mut p,
            named("b", TensorType::new([n], ElementType::F16)),
            bias,
        );
        bind(&mut p, Source::Output(0), out);
        let mut buffers = vec![a, weights, bias];
        if f32_partials {
            let acc_ty = TensorType::new([m, 16], ElementType::F16);
            buffers.push(buffer(
                &mut p,
                "acc",
                &acc_ty,
                by_rows(m, 16, tiles, ElementOrder::Rows),
            ));
        }
        buffers.push(out);
        let suffix = if self.activation == Activation::Relu {
            "_relu"
        } else {
            ""
        };
        let shards = out_layout.shards(y.matrix());
        let block = m.div_ceil(tiles);
        p.steps.push(Step::Rearrange {
            view: None,
            name: "to_panels".into(),
            source: input,
            destination: a,
            location: String::new(),
        });
        p.steps.push(Step::Compute(Compute {
            name: "linear".into(),
            kernel: format!("gemm_{}_bias{suffix}", self.partials),
            buffers,
            tiles: shards.iter().map(|s| s.tile).collect(),
            words: shards
                .iter()
                .flat_map(|s| {
                    let [each, extra] = spread(s.rows.len() as u32);
                    [
                        each,
                        extra,
                        k.div_ceil(16),
                        n.div_ceil(16),
                        block * 32,
                        block * 32,
                    ]
                })
                .collect(),
            location: String::new(),
        }));
        p
    }

    fn data(&self, seed: u32) -> (HostArray, Parameters) {
        let random = |count: u32, salt: u32| -> Vec<f32> {
            (0..count)
                .map(|i| {
                    let h = (i ^ seed.rotate_left(salt)).wrapping_mul(0x9e37_79b1);
                    let h = (h ^ h >> 15).wrapping_mul(0x85eb_ca77);
                    (h >> 8) as f32 / (1u32 << 23) as f32 - 1.0
                })
                .collect()
        };
        let host = |extents: &[u32], salt| {
            let ty = TensorType::new(extents, ElementType::F32);
            let count = ty.elements() as u32;
            HostArray::new(ty, random(count, salt)).unwrap()
        };
        let parameters = Parameters::from([
            ("w".to_owned(), host(&[self.k, self.n], 7)),
            ("b".to_owned(), host(&[self.n], 13)),
        ]);
        (host(&[self.m, self.k], 0), parameters)
    }
}

fn run(program: &TileProgram, x: &HostArray, parameters: &Parameters, fill: Fill) -> HostArray {
    let mut interpreter = Interpreter::new(program, Kernels::builtin(), fill);
    interpreter.initialize(parameters).unwrap();
    interpreter.run(std::slice::from_ref(x)).unwrap().remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn linear_agrees_with_the_graph(
        m in 1u32..20, k in 1u32..70, n in 1u32..40, tiles in 1u32..4, wide: bool, relu: bool, seed: u32,
    ) {
        let case = Linear {
            m, k, n, tiles,
            partials: if wide { ElementType::F32 } else { ElementType::F16 },
            activation: if relu { Activation::Relu } else { Activation::None },
        };
        let (x, parameters) = case.data(seed);
        let expected = graph::run(&case.graph(), std::slice::from_ref(&x), &parameters).unwrap().remove(0);
        let actual = run(&case.program(), &x, &parameters, Fill::Poison);
        let limit = if wide { 1e-3 } else { 4e-3 } * (1.0 + k as f32 / 4.0);
        for (e, a) in expected.values().iter().zip(actual.values()) {
            prop_assert!((e - a).abs() <= limit, "{} {}", e, a);
            if wide {
                // One rounding to f16 at the end; f32 partial sums are much finer.
                prop_assert!((e - a).abs() <= e.abs() / 1900.0 + 1e-5, "{} {}", e, a);
            }
        }
    }
}

#[test]
fn f16_partial_sums_round_after_every_block() {
    let case = Linear {
        m: 1,
        k: 32,
        n: 1,
        tiles: 1,
        partials: ElementType::F16,
        activation: Activation::None,
    };
    let host = |extents: &[u32], values: Vec<f32>| {
        HostArray::new(TensorType::new(extents, ElementType::F32), values).unwrap()
    };
    // 2048 + 1 is a tie that f16 rounds to 2048, twice.
    let mut x = vec![0.0; 32];
    (x[3], x[20]) = (1.0, 1.0);
    let parameters = Parameters::from([
        ("w".to_owned(), host(&[32, 1], vec![1.0; 32])),
        ("b".to_owned(), host(&[1], vec![2048.0])),
    ]);
    let x = host(&[1, 32], x);
    assert_eq!(
        run(&case.program(), &x, &parameters, Fill::Zeros).values(),
        [2048.0]
    );
    let case = Linear {
        partials: ElementType::F32,
        ..case
    };
    assert_eq!(
        run(&case.program(), &x, &parameters, Fill::Zeros).values(),
        [2050.0]
    );
}

/// Two tiles swap their halves of x, then y = x op swapped.
fn swap_and(kernel: &str) -> TileProgram {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 2,
        ..TileProgram::default()
    };
    let ty = TensorType::new([2, 16], ElementType::F16);
    let layout = by_rows(2, 16, 2, ElementOrder::Rows);
    let [x, other, y] = ["x", "other", "y"].map(|name| buffer(&mut p, name, &ty, layout.clone()));
    bind(&mut p, Source::Input(0), x);
    bind(&mut p, Source::Output(0), y);
    let transfer = |source, destination| Transfer {
        source,
        source_offset: 0,
        words: 8,
        destinations: vec![(destination, 0)],
    };
    p.steps.push(Step::Exchange {
        name: "swap".into(),
        copies: vec![Copy {
            source: x,
            destination: other,
            transfers: vec![transfer(0, 1), transfer(1, 0)],
        }],
        schedule: None,
        location: String::new(),
    });
    p.steps.push(Step::Compute(Compute {
        name: "op".into(),
        kernel: kernel.into(),
        buffers: vec![x, other, y],
        tiles: vec![0, 1],
        words: [0, 4, 0, 4].to_vec(),
        location: String::new(),
    }));
    p
}

fn ramp() -> HostArray {
    let values = (0..32).map(|i| i as f32 * 0.5).collect();
    HostArray::new(TensorType::new([2, 16], ElementType::F16), values).unwrap()
}

#[test]
fn exchange_then_elementwise() {
    for kind in BinaryKind::ALL
        .into_iter()
        .filter(|k| *k != BinaryKind::Div)
    {
        let program = swap_and(&format!("{}_f16", kind.name()));
        let out = run(&program, &ramp(), &Parameters::new(), Fill::Poison);
        let (a, b) = (ramp().values()[17], ramp().values()[1]);
        let expected = match kind {
            BinaryKind::Add => a + b,
            BinaryKind::Sub => a - b,
            BinaryKind::Mul => a * b,
            BinaryKind::Div => a / b,
            BinaryKind::Max => a.max(b),
            BinaryKind::Min => a.min(b),
        };
        assert_eq!(out.values()[17], expected);
    }
}

#[test]
fn copy_blocks_packs_rows_into_panels() {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    let ty = TensorType::new([7, 40], ElementType::F16);
    let rows = buffer(&mut p, "rows", &ty, by_rows(7, 40, 1, ElementOrder::Rows));
    let panels = buffer(
        &mut p,
        "panels",
        &ty,
        by_rows(7, 40, 1, ElementOrder::Panels),
    );
    bind(&mut p, Source::Input(0), rows);
    bind(&mut p, Source::Output(0), panels);
    p.steps.push(Step::Compute(Compute {
        name: "pack".into(),
        kernel: "copy_blocks".into(),
        buffers: vec![rows, panels],
        tiles: vec![0],
        words: vec![1, 1, 3, 0, 0, 96, 32, 32, 7 * 32],
        location: String::new(),
    }));
    let x = HostArray::new(ty, (0..280).map(|i| i as f32).collect()).unwrap();
    assert_eq!(run(&p, &x, &Parameters::new(), Fill::Poison), x);
}

#[test]
fn views_move_elements_and_keep_the_rest() {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 2,
        ..TileProgram::default()
    };
    let [small, big] = [[2, 3], [5, 3]].map(|s| TensorType::new(s, ElementType::F16));
    let x = buffer(&mut p, "x", &small, by_rows(2, 3, 2, ElementOrder::Rows));
    let y = buffer(&mut p, "y", &big, by_rows(5, 3, 2, ElementOrder::Panels));
    let z = buffer(&mut p, "z", &big, by_rows(5, 3, 2, ElementOrder::Rows));
    for (source, b) in [
        (Source::Input(0), x),
        (Source::Input(1), y),
        (Source::Output(0), z),
    ] {
        bind(&mut p, source, b);
    }
    let rearrange = |name: &str, source, destination, view| Step::Rearrange {
        name: name.into(),
        source,
        destination,
        view,
        location: String::new(),
    };
    // Transposed and repeated into columns 1 and 2 of rows 1 to 3 of y; then all of y to z.
    let view = View {
        shape: vec![2, 3],
        source_offset: 0,
        source_strides: vec![3, 1],
        destination_offset: 4,
        destination_strides: vec![1, 3],
    };
    p.steps.push(rearrange("into", x, y, Some(view.clone())));
    p.steps.push(rearrange("copy", y, z, None));
    let array = |ty: &TensorType, first: u32| {
        let values = (0..ty.elements() as u32).map(|i| (first + i) as f32);
        HostArray::new(ty.clone(), values.collect()).unwrap()
    };
    let inputs = [array(&small, 100), array(&big, 0)];
    let mut interpreter = Interpreter::new(&p, Kernels::builtin(), Fill::Poison);
    interpreter.initialize(&Parameters::new()).unwrap();
    let out = interpreter.run(&inputs).unwrap().remove(0);
    assert_eq!(
        out.values(),
        [
            0., 1., 2., 3., 100., 103., 6., 101., 104., 9., 102., 105., 12., 13., 14.
        ]
    );
    let row = interpreter.bytes(z, 1).unwrap();
    assert_eq!(
        (row.len(), &row[6..32]),
        (3 * 32, &[0; 26][..]),
        "padding is zero"
    );
    let mut bad = p.clone();
    bad.steps[0] = rearrange(
        "into",
        x,
        y,
        Some(View {
            destination_offset: 8,
            ..view
        }),
    );
    let mut interpreter = Interpreter::new(&bad, Kernels::builtin(), Fill::Poison);
    interpreter.initialize(&Parameters::new()).unwrap();
    assert_eq!(
        interpreter.run(&inputs).unwrap_err().to_string(),
        "step 'into': view reaches element 15 of the destination, which has 15"
    );
}

#[test]
fn errors_name_step_tile_and_buffer() {
    let attempt = |change: &dyn Fn(&mut TileProgram)| {
        let mut program = swap_and("add_f16");
        change(&mut program);
        let mut interpreter = Interpreter::new(&program, Kernels::builtin(), Fill::Zeros);
        interpreter.initialize(&Parameters::new()).unwrap();
        interpreter.run(&[ramp()]).unwrap_err().to_string()
    };
    let compute = |p: &mut TileProgram, f: &dyn Fn(&mut Compute)| match &mut p.steps[1] {
        Step::Compute(c) => f(c),
        _ => unreachable!(),
    };
    assert_eq!(
        attempt(&|p| compute(p, &|c| c.words[3] = 5)),
        "step 'op', tile 1: access to buffer 'x' at offset 0, 40 bytes, but it has 32 bytes"
    );
    assert_eq!(
        attempt(&|p| compute(p, &|c| c.tiles[1] = 7)),
        "step 'op', tile 7: buffer 'x' has no part on this tile"
    );
    assert_eq!(
        attempt(&|p| compute(p, &|c| c.kernel = "conv".into())),
        "step 'op': kernel 'conv' is not in the registry"
    );
    assert_eq!(
        attempt(&|p| compute(p, &|c| c.words.truncate(3))),
        "step 'op', kernel 'add_f16': expected 4 words, found 3"
    );
    assert_eq!(
        attempt(&|p| compute(p, &|c| c.buffers[0] = BufferId(9))),
        "step 'op' names buffer number 9, but the program has 3"
    );
    assert_eq!(
        attempt(&|p| match &mut p.steps[0] {
            Step::Exchange { copies, .. } => copies[0].transfers[1].destinations[0].1 = 4,
            _ => unreachable!(),
        }),
        "step 'swap', tile 0: access to buffer 'other' at offset 4, 32 bytes, but it has 32 bytes"
    );
    assert_eq!(
        attempt(&|p| p.bindings[1].source = Source::Output(1)),
        "output 0 has no binding"
    );
    assert_eq!(
        attempt(&|p| p.bindings[0].source = Source::Input(2)),
        "input 2 of buffer 'x' is missing, found 1 inputs"
    );
}

proptest! {
    #[test]
    fn any_words_give_an_error_or_a_result(words in prop::collection::vec(prop_oneof![0u32..40, any::<u32>()], 6)) {
        let case = Linear {
            m: 3, k: 20, n: 5, tiles: 1,
            partials: ElementType::F32,
            activation: Activation::None,
        };
        let (x, parameters) = case.data(1);
        let mut program = case.program();
        if let Step::Compute(c) = &mut program.steps[1] {
            c.words = words;
        }
        let mut interpreter = Interpreter::new(&program, Kernels::builtin(), Fill::Zeros);
        interpreter.initialize(&parameters).unwrap();
        let _ = interpreter.run(&[x]);
    }
}

/// What steps write is noted once somebody asks, in whole pieces.
#[test]
fn writes_are_noted() {
    let ty = TensorType::new([2, 16], ElementType::F16);
    let mut p = TileProgram {
        tiles: 2,
        ..TileProgram::default()
    };
    let x = buffer(&mut p, "x", &ty, by_rows(2, 16, 1, ElementOrder::Rows));
    let y = buffer(&mut p, "y", &ty, replicated(2, 16, 2, ElementOrder::Rows));
    bind(&mut p, Source::Input(0), x);
    let transfer = |source_offset, words, offset| Transfer {
        source: 0,
        source_offset,
        words,
        destinations: vec![(1, offset)],
    };
    // Two pieces that touch, one that overlaps them, one apart.
    let transfers = vec![
        transfer(0, 2, 8),
        transfer(8, 2, 0),
        transfer(0, 2, 12),
        transfer(0, 1, 60),
    ];
    let copies = vec![Copy {
        source: x,
        destination: y,
        transfers,
    }];
    p.steps.push(Step::Exchange {
        name: "move".into(),
        copies,
        schedule: None,
        location: String::new(),
    });
    let mut run = Interpreter::new(&p, Kernels::builtin(), Fill::Byte(0x3c));
    assert_eq!(run.bytes(y, 0).unwrap(), [0x3c; 64]);
    run.initialize(&Parameters::new()).unwrap();
    assert_eq!(run.take_written(), []);
    run.note_writes();
    let input = HostArray::constant(ty, &[1.0]).unwrap();
    run.write_inputs(&[input]).unwrap();
    let piece = |tile, buffer, offset, end| Written {
        tile,
        buffer,
        offset,
        end,
    };
    assert_eq!(run.take_written(), [piece(0, x, 0, 64)]);
    run.step(&p.steps[0]).unwrap();
    let expected = [piece(1, y, 0, 20), piece(1, y, 60, 64)];
    assert_eq!(run.take_written(), expected);
    assert_eq!(run.take_written(), []);
}
