//! Tests that need a context; one executable, because each links MLIR.

use crate::diag::{Failed, Severity};
use crate::ir;
use crate::pass::{Opt, PassCx, PassDef};
use crate::{context, graph, ipu, layout, parse_guarded, pass, run_pipeline, tile, with_big_stack};
use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind};
use ipu_program::kernels::Kernels;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::tile::{
    Binding, Bound, Buffer, BufferId, Certificate, Compute, Copy, Event, Row, RowsArea, Schedule,
    Source, Step, TileProgram, Transfer, View, WIDE,
};
use ipu_program::types::{ElementType, TensorType};
use melior::Context;
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::{Location, Module, OperationRef};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::sync::Mutex;

mod nn;

/// Text of a module with locations.
fn print(module: &Module<'_>) -> String {
    let flags = melior::ir::operation::OperationPrintingFlags::new().enable_debug_info(true, false);
    module.as_operation().to_string_with_flags(flags).unwrap()
}

fn messages<T>(result: Result<T, Vec<crate::Diagnostic>>) -> Vec<String> {
    result
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn errors_of_parsing_are_located() {
    let context = context();
    let text = "func.func @f(%x: tensor<4xf16>) {\n  %0 = nn.relu %x : (tensor<4xf16>) -> tensor<5xf16>\n  return\n}";
    let expected = "m.mlir:2:8: error: 'nn.relu' op result is tensor<5xf16>, expected the shape 4";
    assert_eq!(
        messages(parse_guarded(&context, text, "m.mlir")),
        [expected]
    );
    let expected = "m.mlir:1:257: error: the text nests deeper than 256 levels";
    assert_eq!(
        messages(parse_guarded(&context, "[".repeat(1 << 20), "m.mlir")),
        [expected]
    );
    assert_eq!(
        messages(parse_guarded(&context, "\"x.y\"() : () -> ()", "m.mlir")).len(),
        1
    );
}

#[test]
fn work_on_the_big_stack_nests_and_passes_panics_on() {
    fn deep(n: u32) -> u32 {
        let page = std::hint::black_box([0u8; 4096]);
        if n == 0 {
            page[0].into()
        } else {
            deep(n - 1) + 1
        }
    }
    assert_eq!(with_big_stack(|| with_big_stack(|| deep(20_000))), 20_000);
    let panic = std::panic::catch_unwind(|| with_big_stack(|| panic!("told")));
    assert_eq!(pass::panic_text(&*panic.unwrap_err()), "told");
}

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

static PROBE: PassDef = PassDef {
    name: "test-probe",
    help: "notes its options",
    anchor: Some("func.func"),
    options: &[
        Opt::Int("tiles", "number of tiles", 1472),
        Opt::Bool("fast", "be quick", true),
        Opt::Str("mode", "a word", "panic"),
        Opt::Ints("sizes", "sizes"),
    ],
    run: |op, cx| {
        let (tiles, fast, sizes) = (cx.int("tiles"), cx.bool("fast"), cx.ints("sizes"));
        let name = ir::string(op, "sym_name").unwrap_or_default();
        SEEN.lock()
            .unwrap()
            .push(format!("{name} {tiles} {fast} {sizes:?}"));
        probe(op, cx)
    },
};

fn probe(op: OperationRef<'_, '_>, cx: &PassCx<'_>) -> Result<(), Failed> {
    match cx.str("mode").as_str() {
        "fail" => Err(cx.error(op, "does not please")),
        "panic" => panic!("oh"),
        _ => {
            cx.remark(op, "seen");
            Ok(())
        }
    }
}

#[test]
fn passes_have_options_failures_and_caught_panics() {
    pass::register(&PROBE);
    pass::register(&PROBE);
    let context = context();
    let parse = || parse_guarded(&context, "func.func @f() {\n return\n}", "m.mlir").unwrap();
    let run = |p: &str| run_pipeline(&mut parse(), p);
    let remarks =
        run("builtin.module(func.func(test-probe{tiles=8 sizes=1,2 mode=ok}),cse)").unwrap();
    assert_eq!((remarks.len(), remarks[0].severity), (1, Severity::Remark));
    assert_eq!(SEEN.lock().unwrap().pop().unwrap(), "f 8 true [1, 2]");
    let failed = messages(run(
        "builtin.module(func.func(test-probe{mode=fail fast=0}))",
    ));
    assert_eq!(
        failed,
        ["m.mlir:1:1: error: 'func.func' op does not please"]
    );
    assert_eq!(SEEN.lock().unwrap().pop().unwrap(), "f 1472 false []");
    let panicked = messages(run("builtin.module(func.func(test-probe))"));
    assert_eq!(
        panicked,
        ["m.mlir:1:1: error: internal error in pass 'test-probe' on 'func.func': oh"]
    );
    let wrong = messages(run("builtin.module(func.func(test-probe{tils=8}))"));
    let expected = "error: pass 'test-probe' has no option 'tils' in --pass-pipeline, did you mean 'tiles'? \
                    (options: tiles, fast, mode, sizes)";
    assert_eq!(wrong, [expected]);
    let wrong = messages(run("builtin.module(test-probe)"));
    assert!(wrong[0].contains("restricted to 'func.func'"), "{wrong:?}");
    let wrong = messages(run("builtin.module(func.func(test-prope{sizes={1,2}}))"));
    assert_eq!(
        wrong,
        ["error: unknown pass 'test-prope' in --pass-pipeline, did you mean 'test-probe'?"]
    );
}

fn sample_layout() -> Layout {
    Layout {
        rows: Split {
            parts: 4,
            block: 2,
            stride: 2,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        },
        columns: Split {
            parts: 2,
            block: 8,
            stride: 1,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        },
        copies: 1,
        copy_stride: 5,
        first_tile: 3,
        order: ElementOrder::Weights16,
        memory: MemoryClass::Interleaved,
    }
}

fn sample_graph() -> Graph {
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let at = |line| format!("m.mlir:{line}:3");
    let ty = |shape: &[u32]| TensorType::new(shape, ElementType::F16);
    let x = g.add_value(ty(&[8, 16]));
    g.inputs.push(x);
    let w = g.add_op(
        OpKind::Parameter { name: "w".into() },
        vec![],
        ty(&[16, 16]),
        at(1),
    );
    let c = g.add_op(
        OpKind::Constant { values: vec![0.5] },
        vec![],
        ty(&[16]),
        at(2),
    );
    let d = g.add_op(
        OpKind::Constant {
            values: vec![1.0, 2.5],
        },
        vec![],
        ty(&[2, 1, 1]),
        at(3),
    );
    let l = OpKind::Linear {
        activation: Activation::Relu,
    };
    let y = g.add_op(l, vec![x, w, c], ty(&[8, 16]), at(4));
    let p = g.add_op(
        OpKind::MATMUL,
        vec![x, w],
        TensorType::new([8, 16], ElementType::F32),
        String::new(),
    );
    let z = g.add_op(
        OpKind::Binary(BinaryKind::Min),
        vec![y, d],
        ty(&[2, 8, 16]),
        at(5),
    );
    let r = g.add_op(OpKind::RELU, vec![z], ty(&[2, 8, 16]), at(6));
    g.values[y.0 as usize].layout = Some(sample_layout());
    g.ops[3].plan = Some(Plan {
        family: Family::Gemm,
        grid_rows: 4,
        grid_columns: 2,
        grid_k: 3,
        steps: 2,
        weights: Residency::Distributed,
        partials: ElementType::F32,
        operands: vec![sample_layout(), sample_layout()],
        compute_cycles: 1 << 40,
        exchange_cycles: 7,
        candidates: 12,
    });
    g.outputs = vec![r, p];
    g
}

#[test]
fn graphs_survive_ir_and_text() {
    let context = context();
    let graph = sample_graph();
    let unknown = Location::unknown(&context);
    let module = Module::new(unknown);
    let func = graph::build(&context, &graph, unknown).unwrap();
    let func = module.body().append_operation(func);
    assert!(module.as_operation().verify());
    assert_eq!(graph::read(func), Ok(graph.clone()));
    let again = parse_guarded(&context, print(&module), "m.mlir").unwrap();
    let func = ir::body_ops(again.as_operation()).next().unwrap();
    assert_eq!(graph::read(func), Ok(graph));
}

#[test]
fn all_unsupported_operations_are_reported() {
    let context = context();
    let text = "func.func @f(%x: tensor<4xf16>, %y: i32) {\n  \
        %0 = builtin.unrealized_conversion_cast %x : tensor<4xf16> to tensor<4xf16>\n  \
        %1 = nn.relu %0 : tensor<4xf16>\n  \
        call @f(%1, %y) : (tensor<4xf16>, i32) -> ()\n  return\n}";
    let module = parse_guarded(&context, text, "m.mlir").unwrap();
    let func = ir::body_ops(module.as_operation()).next().unwrap();
    let (result, list) = crate::diag::capture(&context, || graph::read(func));
    assert_eq!(result, Err(Failed));
    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
    assert_eq!(
        list,
        [
            "m.mlir:1:1: error: 'func.func' op argument 1: i32 is not a tensor with a rank",
            "m.mlir:2:8: error: 'builtin.unrealized_conversion_cast' op is not supported in a model: \
             use operations of dialect nn",
            "m.mlir:4:3: error: 'func.call' op is not supported in a model: use operations of dialect nn",
        ]
    );
}

#[test]
fn candidates_and_packages_survive() {
    let context = context();
    let unknown = Location::unknown(&context);
    let module = Module::new(unknown);
    let func = graph::build(&context, &sample_graph(), unknown).unwrap();
    let candidate = ipu::Candidate {
        name: "c0".into(),
        estimated_cycles: Some(7),
        scheduled_cycles: None,
        reasons: vec!["a \"quoted\" reason".into()],
    };
    let op = ipu::build_candidate(&context, &candidate, [func], unknown).unwrap();
    let op = module.body().append_operation(op);
    ipu::set_scheduled_cycles(op, 9);
    assert_eq!(
        ipu::read_candidate(op),
        ipu::Candidate {
            scheduled_cycles: Some(9),
            ..candidate
        }
    );
    assert_eq!(ir::body_ops(op).count(), 1);
    for bytes in [vec![], vec![7; 1], vec![7; 1000], (0..=255).collect()] {
        let package = ipu::Package {
            name: "main".into(),
            format: "ipuexe".into(),
            bytes,
        };
        let op = ipu::build_package(&context, &package, unknown).unwrap();
        let op = module.body().append_operation(op);
        assert_eq!(ipu::read_package(op), Ok(package));
        ir::erase(op);
    }
    assert!(module.as_operation().verify());
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..8, any::<u32>()]
}

fn layout_strategy(tiles: u32) -> impl Strategy<Value = Layout> {
    let order = prop::sample::select(vec![
        ElementOrder::Rows,
        ElementOrder::Panels,
        ElementOrder::Weights8,
        ElementOrder::Weights16,
    ]);
    let memory = prop::sample::select(vec![
        MemoryClass::Any,
        MemoryClass::Standard,
        MemoryClass::Interleaved,
    ]);
    (1..=tiles / 2, 0..tiles / 2, word(), order, memory).prop_map(
        |(parts, first_tile, copy_stride, order, memory)| Layout {
            rows: Split {
                parts,
                block: 64u32.div_ceil(parts),
                stride: 1,
                unit: 1,
                period: 0,
                group: 0,
                group_stride: 0,
            },
            columns: Split {
                parts: 1,
                block: 32,
                stride: 9,
                unit: 1,
                period: 0,
                group: 0,
                group_stride: 0,
            },
            copies: 1,
            copy_stride,
            first_tile,
            order,
            memory,
        },
    )
}

fn source() -> impl Strategy<Value = Source> {
    let ty = || TensorType::new([2, 1], ElementType::F16);
    prop_oneof![
        word().prop_map(Source::Input),
        word().prop_map(Source::Output),
        ".{0,6}".prop_map(move |name| Source::Parameter { name, ty: ty() }),
        (-9i16..9).prop_map(move |v| Source::Constant {
            ty: ty(),
            values: vec![v.into()]
        }),
        (1i16..9).prop_map(move |v| Source::Constant {
            ty: ty(),
            values: vec![v.into(), (-v).into()]
        }),
        (0u32..2, 0u32..2).prop_map(|(function, result)| Source::Host { function, result }),
    ]
}

/// Two functions of two results each.
fn host_functions() -> Vec<Graph> {
    let ty = |shape: [u32; 2]| TensorType::new(shape, ElementType::F16);
    let function = |name: &str, key: &str| {
        let mut graph = Graph {
            name: name.into(),
            ..Graph::default()
        };
        let kind = OpKind::Parameter { name: key.into() };
        let w = graph.add_op(kind, vec![], ty([2, 3]), "m.mlir:1:4".into());
        let turn = OpKind::Transpose {
            permutation: vec![1, 0],
        };
        let turned = graph.add_op(turn, vec![w], ty([3, 2]), String::new());
        graph.outputs = vec![turned, w];
        graph
    };
    vec![function("host0", "w"), function("a host", "a \"key\"")]
}

fn event(buffers: u32, tiles: u32) -> impl Strategy<Value = Event> {
    let id = move || (0..buffers).prop_map(BufferId);
    prop_oneof![
        (word(), id(), 0u32..64, 0u32..64, 1u8..4, any::<bool>()).prop_map(
            |(at, buffer, offset, words, direction, wide)| Event::Send {
                at,
                buffer,
                // 64-bit items are pairs of words.
                offset: if wide { offset & !7 } else { offset },
                words: if wide { words & !1 } else { words },
                direction: if wide { direction | WIDE } else { direction },
            }
        ),
        (word(), prop::option::of(0..tiles)).prop_map(|(at, source)| Event::PairMux { at, source }),
        (word(), 0u8..3).prop_map(|(at, value)| Event::Format { at, value }),
        (word(), prop::option::of(0..tiles)).prop_map(|(at, source)| Event::Mux { at, source }),
        (word(), id(), 0u32..64).prop_map(|(at, buffer, offset)| Event::Pointer {
            at,
            buffer,
            offset
        }),
    ]
}

fn schedule(buffers: u32, tiles: u32) -> impl Strategy<Value = Schedule> {
    let events = prop::collection::vec(event(buffers, tiles), 0..4);
    let rows = prop::collection::btree_map(0..tiles, (events, 0u32..100), 0..4);
    let whole = (
        rows,
        100u32..,
        word(),
        word(),
        prop::option::of(certificate()),
    );
    whole.prop_map(
        |(rows, horizon, bound, binding_tile, certificate)| Schedule {
            rows: rows
                .into_iter()
                .map(|(tile, (events, horizon))| Row {
                    tile,
                    events,
                    horizon,
                })
                .collect(),
            horizon,
            bound,
            binding_tile,
            certificate,
        },
    )
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let bound = ("[a-z_]{1,9}", word(), word(), prop::option::of(word())).prop_map(
        |(resource, events, tile, element)| Bound {
            resource,
            events,
            tile,
            element,
        },
    );
    let counts = (word(), word(), any::<u64>(), word(), any::<u64>(), word());
    let texts = (".{0,6}", "[a-z ,]{0,9}", "[a-z_]{1,9}");
    let other = (word(), prop::option::of("[a-z.]{1,9}"));
    (prop::collection::vec(bound, 0..4), counts, texts, other).prop_map(
        |(bounds, counts, (binding, construction, limit), (tile, same_as))| Certificate {
            transfers: counts.0,
            messages: counts.1,
            words: counts.2,
            bounds,
            binding,
            controls: counts.3,
            row_words: counts.4,
            row_words_max: counts.5,
            row_words_tile: tile,
            construction,
            limit,
            same_as,
        },
    )
}

fn copy(buffers: u32, tiles: u32) -> impl Strategy<Value = Copy> {
    let transfer = (
        0..tiles,
        0u32..9,
        1u32..3,
        prop::collection::btree_set(0..tiles, 1..4),
    );
    let transfers = prop::collection::vec(transfer, 0..4);
    (0..buffers, 0..buffers, transfers).prop_map(|(source, destination, list)| Copy {
        source: BufferId(source),
        destination: BufferId(destination),
        transfers: (0u32..)
            .zip(list)
            .map(|(i, (source, offset, words, to))| Transfer {
                source,
                source_offset: offset,
                words,
                // Own bytes for each transfer.
                destinations: to
                    .into_iter()
                    .filter(|t| *t != source)
                    .map(|t| (t, 16 * i))
                    .collect(),
            })
            .filter(|t| !t.destinations.is_empty())
            .collect(),
    })
}

/// Views of tensors of 2048 elements: a choice of axes that divide it, in any order; strides of
/// single indices mean nothing and may be anything.
fn view() -> impl Strategy<Value = Option<View>> {
    let axis = (1u32..=4, 0u64..100, any::<u64>());
    let axes = prop::collection::vec(axis, 0..5);
    prop::option::of((axes, 0u64..900, 0u64..900, any::<bool>())).prop_map(|view| {
        let (mut axes, source_offset, destination_offset, turned) = view?;
        let mut stride = 1;
        for (extent, _, s) in &mut axes {
            if *extent > 1 {
                *s = stride;
                stride *= u64::from(*extent);
            }
        }
        if turned {
            axes.reverse();
        }
        Some(View {
            shape: axes.iter().map(|a| a.0).collect(),
            source_offset,
            source_strides: axes.iter().map(|a| a.1).collect(),
            destination_offset,
            destination_strides: axes.iter().map(|a| a.2).collect(),
        })
    })
}

fn step(buffers: u32, tiles: u32) -> impl Strategy<Value = Step> {
    let names: Vec<_> = Kernels::builtin().kernels.keys().cloned().collect();
    let calls = prop::collection::btree_set(0..tiles, 0..6);
    let words = prop::collection::vec(prop_oneof![3 => Just(1u32), 1 => word()], 200);
    let compute = (
        prop::sample::select(names),
        calls,
        words,
        0..buffers,
        0usize..9,
    )
        .prop_map(|(kernel, tiles, mut words, b, table)| {
            let known = Kernels::builtin().get(&kernel).unwrap();
            let table = known.table.as_ref().map_or(0, |_| table);
            words.truncate(tiles.len() * (known.words.len() + table));
            Step::Compute(Compute {
                name: String::new(),
                buffers: vec![BufferId(b); known.buffers.len()],
                kernel,
                tiles: tiles.into_iter().collect(),
                words,
                location: "m.mlir:7:1".into(),
            })
        });
    // Own destinations for each copy.
    let copies = prop::collection::vec(copy(buffers, tiles), 0..3).prop_map(|mut list| {
        let mut used = std::collections::BTreeSet::new();
        list.retain(|c| used.insert(c.destination));
        list
    });
    let exchange =
        (copies, prop::option::of(schedule(buffers, tiles))).prop_map(|(copies, schedule)| {
            Step::Exchange {
                name: String::new(),
                copies,
                schedule,
                location: String::new(),
            }
        });
    let rearrange = (0..buffers, 0..buffers, view()).prop_map(|(s, d, view)| Step::Rearrange {
        view,
        name: String::new(),
        source: BufferId(s),
        destination: BufferId(d),
        location: "dir/m.mlir:1:2".into(),
    });
    prop_oneof![compute, exchange, rearrange]
}

fn program() -> impl Strategy<Value = TileProgram> {
    (4u32..12, 1u32..5).prop_flat_map(|(tiles, count)| {
        let live = prop::option::of((0u32..4, 4u32..9));
        let buffer = (
            layout_strategy(tiles),
            live,
            prop::option::of(0u32..99),
            word(),
        );
        let buffers = prop::collection::vec(buffer, count as usize);
        let bindings = prop::collection::vec((source(), 0..count), 0..4);
        let steps = prop::collection::vec(step(count, tiles), 0..4);
        (buffers, bindings, steps).prop_map(move |(buffers, bindings, mut steps)| {
            for (i, step) in steps.iter_mut().enumerate() {
                let (Step::Compute(Compute { name, .. })
                | Step::Rearrange { name, .. }
                | Step::Exchange { name, .. }) = step;
                *name = format!("b{i}");
            }
            TileProgram {
                name: "main \"quoted\"".into(),
                tiles,
                rows_area: (tiles > 6).then_some(RowsArea {
                    address: 0x4c000,
                    bytes: 64 * tiles,
                }),
                host: match bindings
                    .iter()
                    .any(|(s, _)| matches!(s, Source::Host { .. }))
                {
                    true => host_functions(),
                    false => Vec::new(),
                },
                buffers: (0..)
                    .zip(buffers)
                    .map(|(i, (layout, live, address, tail))| Buffer {
                        name: format!("b{i}"),
                        ty: TensorType::new([8, 8, 32], ElementType::F16),
                        layout,
                        align: 8,
                        tail,
                        live,
                        address: address.map(|a| a * 8),
                        location: if i == 0 {
                            String::new()
                        } else {
                            format!("m.mlir:{i}:4")
                        },
                    })
                    .collect(),
                bindings: bindings
                    .into_iter()
                    .map(|(source, b)| Binding {
                        source,
                        buffer: BufferId(b),
                    })
                    .collect(),
                steps,
            }
        })
    })
}

/// The program after building, and after printing and parsing what was built.
fn round_trip(context: &Context, program: &TileProgram) -> [Result<TileProgram, Failed>; 2] {
    let unknown = Location::unknown(context);
    let module = Module::new(unknown);
    let op = module
        .body()
        .append_operation(tile::build(context, program, unknown).unwrap());
    assert!(module.as_operation().verify());
    let again = parse_guarded(context, print(&module), "again.mlir").unwrap();
    let parsed = ir::body_ops(again.as_operation()).next().unwrap();
    assert_eq!(print(&again), print(&module));
    [tile::read(op), tile::read(parsed)]
}

thread_local!(static CONTEXT: Context = context());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn programs_survive_ir_and_text(program in program()) {
        let [built, parsed] = CONTEXT.with(|c| round_trip(c, &program));
        prop_assert_eq!(&built, &Ok(program));
        prop_assert_eq!(parsed, built);
    }

    #[test]
    fn layouts_survive(layout in layout_strategy(1472)) {
        let read = CONTEXT.with(|c| layout::read(layout::attribute(c, &layout)));
        prop_assert_eq!(read, Some(layout));
    }
}

/// The shape of every pass on a candidate: read, compute, write.
static LOWER: PassDef = PassDef {
    name: "test-lower",
    help: "puts an empty program of two tiles in the place of the function",
    anchor: Some("ipu.candidate"),
    options: &[],
    run: |candidate, cx| {
        let missing = || cx.error(candidate, "has no function");
        let func = ir::child(candidate, "func.func").ok_or_else(missing)?;
        let graph = graph::read(func)?;
        let program = TileProgram {
            name: graph.name,
            tiles: 2,
            ..TileProgram::default()
        };
        tile::replace(func, &program)?;
        ipu::set_scheduled_cycles(candidate, 1);
        Ok(())
    },
};

#[test]
fn candidates_are_lowered_side_by_side() {
    pass::register(&LOWER);
    let context = context();
    let unknown = Location::unknown(&context);
    let mut module = Module::new(unknown);
    for i in 0..16 {
        let candidate = ipu::Candidate {
            name: format!("c{i}"),
            ..Default::default()
        };
        let func = graph::build(&context, &sample_graph(), unknown).unwrap();
        let op = ipu::build_candidate(&context, &candidate, [func], unknown).unwrap();
        module.body().append_operation(op);
    }
    run_pipeline(
        &mut module,
        "builtin.module(ipu.candidate(canonicalize,test-lower))",
    )
    .unwrap();
    for candidate in ipu::candidates(module.as_operation()) {
        assert_eq!(ipu::read_candidate(candidate).scheduled_cycles, Some(1));
        let program = tile::read(ir::child(candidate, "tile.program").unwrap()).unwrap();
        assert_eq!((program.name.as_str(), program.tiles), ("main", 2));
    }
    let again = messages(run_pipeline(
        &mut module,
        "builtin.module(ipu.candidate(test-lower))",
    ));
    assert_eq!(again[0], "error: 'ipu.candidate' op has no function");
}

#[test]
fn operations_are_replaced_in_place() {
    let context = context();
    let unknown = Location::unknown(&context);
    let module = Module::new(unknown);
    let candidate = |name: &str| ipu::Candidate {
        name: name.into(),
        ..Default::default()
    };
    let build = |name: &str| ipu::build_candidate(&context, &candidate(name), [], unknown).unwrap();
    let old = module.body().append_operation(build("a"));
    module.body().append_operation(build("b"));
    ir::replace(old, build("c"));
    let names: Vec<_> = ir::body_ops(module.as_operation())
        .map(|op| ipu::read_candidate(op).name)
        .collect();
    assert_eq!(names, ["c", "b"]);
}
