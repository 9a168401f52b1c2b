//! Random rearrangements: the lowered program does in the tile interpreter what the view says,
//! from memory that holds nothing but NaN.

use super::*;
use crate::phase_exchanges::phase_exchanges;
use crate::place_storage::place_storage;
use ipu_interp::host::{HostArray, Parameters};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_program::layout::{ElementOrder, MemoryClass, PANEL, Split};
use ipu_program::tile::{Binding, Source, View};
use ipu_program::types::ElementType;
use ipu_runtime::{Device, Program, SimulatorDevice};
use ipu_target::Target;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Choices for one axis of a layout.
#[derive(Clone, Debug)]
struct Cut {
    parts: u32,
    unit: u32,
    /// Periods, if they divide the axis.
    periods: u32,
}

#[derive(Clone, Debug)]
struct Place {
    rows: Cut,
    columns: Cut,
    copies: u32,
    panels: bool,
    first: u32,
    /// Row parts are neighbours, not column parts.
    turned: bool,
}

fn cut(most: u32) -> impl Strategy<Value = Cut> {
    let unit = prop_oneof![3 => Just(1u32), 2 => 1u32..20, 2 => Just(16u32)];
    (1..=most, unit, prop_oneof![3 => Just(1u32), 1 => 2u32..4]).prop_map(
        |(parts, unit, periods)| Cut {
            parts,
            unit,
            periods,
        },
    )
}

fn place() -> impl Strategy<Value = Place> {
    let copies = prop_oneof![3 => Just(1u32), 1 => 2u32..4];
    (
        cut(4),
        cut(3),
        copies,
        any::<bool>(),
        0u32..4,
        any::<bool>(),
    )
        .prop_map(|(rows, columns, copies, panels, first, turned)| Place {
            rows,
            columns,
            copies,
            panels,
            first,
            turned,
        })
}

impl Place {
    fn layout(&self, ty: &TensorType) -> Layout {
        let matrix = ty.matrix();
        let split = |cut: &Cut, extent: u32| {
            let periods = if extent.is_multiple_of(cut.periods) {
                cut.periods
            } else {
                1
            };
            let period = extent / periods;
            let each = cut.parts.div_ceil(periods);
            Split {
                parts: each * periods,
                period: if periods > 1 { period } else { 0 },
                group: 0,
                group_stride: 0,
                ..Split::even(period, each, cut.unit, 1)
            }
        };
        let (mut rows, mut columns) = (
            split(&self.rows, matrix.rows),
            split(&self.columns, matrix.columns),
        );
        (rows.stride, columns.stride) = match self.turned {
            true => (1, rows.parts),
            false => (columns.parts, 1),
        };
        Layout {
            copies: self.copies,
            copy_stride: rows.parts * columns.parts,
            first_tile: self.first,
            order: if self.panels {
                ElementOrder::Panels
            } else {
                ElementOrder::Rows
            },
            memory: MemoryClass::Any,
            rows,
            columns,
        }
    }
}

/// A rearrangement: shapes, view, and whether the destination holds something before.
#[derive(Clone, Debug)]
struct Case {
    shapes: [Vec<u32>; 2],
    view: Option<View>,
    places: [Place; 2],
    element: ElementType,
    filled: bool,
}

fn shape(elements: u64, columns: u32) -> Vec<u32> {
    vec![elements.div_ceil(columns.into()).max(1) as u32, columns]
}

/// Axes of a small tensor in any order of the source: permutations, cuts, repetitions.
fn views() -> impl Strategy<Value = ([Vec<u32>; 2], Option<View>)> {
    let axis = (1u32..9, 0u64..3, 0u64..3, any::<u32>());
    let axes = prop::collection::vec(axis, 1..4);
    let widths = (1u32..70, 1u32..70, any::<bool>(), any::<bool>());
    (axes, 0u64..40, 0u64..40, widths).prop_map(|(axes, s0, d0, (ws, wd, even, dense))| {
        let n = axes.len();
        // Extents that fill words, or any.
        let extent = |i: usize| if even { 2 * axes[i].0 } else { axes[i].0 };
        let strides = |order: &[usize], gap: &dyn Fn(usize) -> u64| {
            let mut strides = vec![0; n];
            let mut span = 1;
            for &i in order {
                strides[i] = span + if dense { 0 } else { gap(i) };
                span = strides[i] * u64::from(extent(i));
            }
            strides
        };
        let mut order: Vec<usize> = (0..n).rev().collect();
        let mut destination = strides(&order, &|i| axes[i].2);
        if destination[n - 1] > 2 {
            destination[n - 1] = 1;
        }
        order.sort_by_key(|&i| axes[i].3);
        let mut source = strides(&order, &|i| axes[i].1);
        // One axis in some cases repeats.
        if axes[0].3 % 5 == 0 {
            source[axes[0].3 as usize / 5 % n] = 0;
        }
        let last = |offset: u64, strides: &[u64]| {
            (0..n).fold(offset, |l, i| l + u64::from(extent(i) - 1) * strides[i])
        };
        let (s0, d0) = if even { (s0 & !1, d0 & !1) } else { (s0, d0) };
        let shapes = [
            shape(last(s0, &source) + 1, ws),
            shape(last(d0, &destination) + 1, wd),
        ];
        let view = View {
            shape: (0..n).map(extent).collect(),
            source_offset: s0,
            source_strides: source,
            destination_offset: d0,
            destination_strides: destination,
        };
        (shapes, Some(view))
    })
}

/// The same elements in other rows, or in the same.
fn reshapes() -> impl Strategy<Value = ([Vec<u32>; 2], Option<View>)> {
    (1u32..12, 1u32..9, 1u32..40, any::<bool>()).prop_map(|(a, b, c, turn)| {
        let to = if turn { vec![a, b * c] } else { vec![b, a, c] };
        ([vec![a * b, c], to], None)
    })
}

/// A tensor to the same tensor.
fn moves() -> impl Strategy<Value = ([Vec<u32>; 2], Option<View>)> {
    (1u32..40, 1u32..70).prop_map(|(a, b)| ([vec![a, b], vec![a, b]], None))
}

fn case() -> impl Strategy<Value = Case> {
    let what = prop_oneof![3 => views(), 1 => reshapes(), 1 => moves()];
    (what, place(), place(), any::<bool>(), any::<bool>()).prop_map(
        |((shapes, view), from, to, wide, filled)| Case {
            shapes,
            view,
            places: [from, to],
            element: if wide {
                ElementType::F32
            } else {
                ElementType::F16
            },
            filled,
        },
    )
}

impl Case {
    fn program(&self) -> TileProgram {
        let mut p = TileProgram {
            name: "main".into(),
            ..TileProgram::default()
        };
        for ((name, shape), place) in ["x", "y"].iter().zip(&self.shapes).zip(&self.places) {
            let ty = TensorType::new(shape.clone(), self.element);
            let layout = place.layout(&ty);
            p.tiles = p.tiles.max(layout.tile_end());
            p.add_buffer(Buffer::new((*name).into(), ty, layout, "m.mlir:1:1"));
        }
        for (i, buffer) in [BufferId(0), BufferId(1)].into_iter().enumerate() {
            if i == 0 || self.filled {
                p.bindings.push(Binding {
                    source: Source::Input(i as u32),
                    buffer,
                });
            }
        }
        p.steps.push(Step::Rearrange {
            name: "move".into(),
            source: BufferId(0),
            destination: BufferId(1),
            view: self.view.clone(),
            location: "m.mlir:2:1".into(),
        });
        p
    }

    fn inputs(&self) -> Vec<HostArray> {
        let array = |shape: &Vec<u32>, first: u32| {
            let ty = TensorType::new(shape.clone(), self.element);
            let values = (0..ty.elements() as u32).map(|i| ((first + i) % 2039 + 1) as f32);
            HostArray::new(ty, values.collect()).unwrap()
        };
        vec![array(&self.shapes[0], 0), array(&self.shapes[1], 1020)]
    }
}

fn run<'p>(program: &'p TileProgram, inputs: &[HostArray]) -> Interpreter<'p> {
    let mut interpreter = Interpreter::new(program, Kernels::builtin(), Fill::Poison);
    interpreter.initialize(&Parameters::new()).unwrap();
    interpreter.run(inputs).unwrap();
    interpreter
}

/// Checks that every copy of the destination holds what the interpreter of the rearrangement says,
/// with zeros behind every row whose last element was written.
fn check(case: &Case) -> Result<TileProgram, TestCaseError> {
    let program = case.program();
    let mut lowered = program.clone();
    convert_layouts(&mut lowered, Kernels::builtin())
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    let left = |s: &&Step| matches!(s, Step::Rearrange { .. });
    prop_assert_eq!(lowered.steps.iter().filter(left).count(), 0);
    let inputs = case.inputs();
    let expected = run(&program, &inputs).tensor(BufferId(1)).unwrap();
    let actual = run(&lowered, &inputs);
    let y = program.buffer(BufferId(1));
    let (matrix, storage) = (y.ty.matrix(), y.layout.storage(y.ty.element));
    for shard in y.layout.shards(matrix) {
        let bytes = actual.bytes(BufferId(1), shard.tile).unwrap();
        let columns = shard.columns.len() as u32;
        let load = |r: u32, c: u32| {
            let at = storage.offset(r, c) as usize;
            match storage.element {
                ElementType::F16 => half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32(),
                _ => f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()),
            }
        };
        for r in shard.rows.clone() {
            let local = r - shard.rows.start;
            for c in shard.columns.clone() {
                let want = expected.values()[(r * matrix.columns + c) as usize];
                let got = load(local, c - shard.columns.start);
                prop_assert!(
                    got == want || (got.is_nan() && want.is_nan()),
                    "tile {}, row {}, column {}: {} instead of {}",
                    shard.tile,
                    r,
                    c,
                    got,
                    want
                );
            }
            let last = expected.values()[(r * matrix.columns + shard.columns.end - 1) as usize];
            for c in columns..columns.next_multiple_of(PANEL) {
                let pad = load(local, c);
                prop_assert!(
                    last.is_nan() || pad.to_bits() == 0,
                    "tile {}, row {}, padding {}: {}",
                    shard.tile,
                    r,
                    c,
                    pad
                );
            }
        }
    }
    Ok(lowered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn lowering_keeps_the_meaning(case in case()) {
        check(&case)?;
    }
}

/// The random cases are of every kind: a way that none of them takes would not be tested.
#[test]
fn every_way_occurs() {
    let mut runner = TestRunner::deterministic();
    let mut ways: BTreeSet<(String, String)> = BTreeSet::new();
    for _ in 0..2000 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let mut program = case.program();
        convert_layouts(&mut program, Kernels::builtin()).unwrap();
        for step in &program.steps {
            let (name, kernel) = match step {
                Step::Compute(c) => (&c.name, c.kernel.clone()),
                Step::Exchange { name, copies, .. } => (name, format!("{} copies", copies.len())),
                Step::Rearrange { .. } => unreachable!(),
            };
            let stage = name.trim_start_matches("move").trim_start_matches('.');
            let stage = stage.split('_').next().unwrap_or_default();
            ways.insert((stage.to_owned(), kernel));
        }
    }
    for (stage, kernel) in [
        ("pack", "copy_blocks"),
        ("unpack", "copy_blocks"),
        ("pack", "gather_f16"),
        ("local", "copy_blocks"),
        ("clear", "fill_zero"),
        ("local", "copy_runs"),
        ("local", "gather_f16"),
        ("spread", "copy_runs"),
        ("pad", "zero_columns_f16"),
        ("pad", "copy_runs"),
        ("", "1 copies"),
        ("", "2 copies"),
        ("build", "gather_f16"),
        ("place", "copy_runs"),
    ] {
        let way = (stage.to_owned(), kernel.to_owned());
        assert!(ways.contains(&way), "{way:?} is not among {ways:?}");
    }
}

/// Emitted code on the simulated chip: kernels, rows that pass the checker, and tiles that wait for
/// each other give the bits of the interpreter.
#[test]
fn the_chip_moves_the_same() {
    let mut runner = TestRunner::deterministic();
    let (target, kernels) = (Target::ipu21(), Kernels::builtin());
    for _ in 0..40 {
        let mut case = case().new_tree(&mut runner).unwrap().current();
        case.filled = true;
        let mut program = case.program();
        program.bindings.push(Binding {
            source: Source::Output(0),
            buffer: BufferId(1),
        });
        let expected = run(&program, &case.inputs()).outputs().unwrap();
        convert_layouts(&mut program, kernels).unwrap();
        phase_exchanges(&mut program, target, kernels, true).unwrap();
        place_storage(&mut program, target, kernels).unwrap();
        let package = ipu_image::emit::emit(&program, target, kernels, 0).unwrap();
        let mut device = SimulatorDevice::new(target, 10_000_000);
        let code = Program {
            package: Some(&package),
            graph: None,
            tiles: None,
        };
        device.load(code).unwrap();
        device.initialize(&Parameters::new()).unwrap();
        let (outputs, report) = device.run(&case.inputs()).unwrap();
        assert_eq!(outputs, expected, "{case:?}");
        // Laws and rows say how long it takes.
        let simulated = report.simulated.unwrap().total_cycles as f64;
        let scheduled = report.scheduled_cycles.unwrap() as f64;
        let off = (simulated - scheduled).abs();
        assert!(
            off <= 40.0 + 0.03 * simulated,
            "{scheduled} scheduled, {simulated} simulated: {case:?}"
        );
    }
}
