//! What `--check_reference` finds: an error is planted at one level of a small transformer, and the
//! comparison of levels names the operation and the step.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

use ipu_image::emit::emit;
use ipu_image::package::{ImagesBuilder, Package};
use ipu_passes::registry::{Options, stages};
use ipu_passes::session::{Candidate, Lowered, Session};
use ipu_program::graph::{Graph, OpKind, UnaryKind};
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Compute, Step, TileProgram};
use ipu_program::types::TensorType;
use ipu_runtime::compare::Limits;
use ipu_runtime::levels::{Comparer, Levels, Report};
use ipu_runtime::{Device, HostArray, Parameters, Program, RunReport, SimulatorDevice, TileDevice};
use ipu_target::Target;
use std::sync::OnceLock;

/// One block: the operators of a transformer, each in a line of its own.
const MODEL: &str = include_str!("../../../lit-tests/ipu-run/Inputs/transformer.mlir");

struct Built {
    model: Graph,
    lowered: Lowered,
    package: Package,
    weights: Parameters,
    inputs: Vec<HostArray>,
}

fn tiles_of(candidates: Vec<(String, Candidate)>) -> (String, TileProgram) {
    let tiles = candidates.into_iter().find_map(|(name, c)| match c {
        Candidate::Tiles(tiles) => Some((name, tiles)),
        Candidate::Graph(_) => None,
    });
    tiles.unwrap()
}

/// Values between -1 and 1 that follow from a seed.
fn values(ty: &TensorType, seed: u32) -> HostArray {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let values = std::iter::repeat_with(next).take(ty.elements() as usize);
    HostArray::new(ty.clone(), values.collect()).unwrap()
}

fn build() -> Built {
    let session = Session::new();
    let mut module = session.parse(MODEL.as_bytes(), "transformer.mlir").unwrap();
    let model = module.graph("main").unwrap();
    let options = Options {
        tiles: 8,
        finalists: 2,
        ..Options::default()
    };
    let mut selected = Vec::new();
    for (name, pipeline) in stages(&options) {
        module.run(&pipeline).unwrap();
        if name == "select" {
            selected = module.candidates().unwrap();
        }
    }
    let (picked, tiles) = tiles_of(module.candidates().unwrap());
    let graph = selected.into_iter().find_map(|(name, c)| match c {
        Candidate::Graph(graph) if name == picked => Some(graph),
        _ => None,
    });
    let lowered = Lowered::new(graph.unwrap(), tiles).unwrap();
    let weights = model.ops.iter().zip(1..).filter_map(|(op, seed)| {
        let OpKind::Parameter { name } = &op.kind else {
            return None;
        };
        let array = values(model.ty(op.result), seed);
        // Products of 32 and 64 terms of this size are about 1.
        let small = array.map(|x| x / 4.0);
        Some((name.clone(), small))
    });
    Built {
        weights: weights.collect(),
        inputs: vec![values(model.ty(model.inputs[0]), 77)],
        package: Package::from_bytes(&module.package().unwrap()).unwrap(),
        model,
        lowered,
    }
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| ipu_dialects::context::with_big_stack(build))
}

/// What is compared; each test changes a part.
struct Case<'a> {
    selected: &'a Graph,
    tiles: &'a TileProgram,
    kernels: &'a Kernels,
    package: &'a Package,
    /// Weights on the chip.
    weights: &'a Parameters,
}

impl Case<'_> {
    fn right() -> Case<'static> {
        let b = built();
        Case {
            selected: &b.lowered.selected,
            tiles: &b.lowered.tiles,
            kernels: Kernels::builtin(),
            package: &b.package,
            weights: &b.weights,
        }
    }

    fn run(&self) -> (Report, Vec<HostArray>, RunReport) {
        let b = built();
        let levels = Levels {
            model: &b.model,
            selected: self.selected,
            tiles: self.tiles,
            values: &b.lowered.values,
            kernels: self.kernels,
        };
        let mut comparer =
            Comparer::new(levels, &b.weights, &b.inputs, Limits::for_element).unwrap();
        let mut device = simulator(self.package, self.weights);
        let (outputs, run) = device.run_observed(&b.inputs, &mut comparer).unwrap();
        let closer = comparer.closer(&b.weights, &b.inputs).unwrap();
        let mut report = comparer.finish().unwrap();
        if let Some(mut closer) = closer {
            device.run_observed(&b.inputs, &mut closer).unwrap();
            report = report.with_closer(closer.finish().unwrap());
        }
        (report, outputs, run)
    }

    fn report(&self) -> Report {
        self.run().0
    }
}

fn simulator(package: &Package, weights: &Parameters) -> SimulatorDevice {
    let mut device = SimulatorDevice::new(Target::ipu21(), 10_000_000);
    let program = Program {
        package: Some(package),
        ..Program::default()
    };
    device.load(program).unwrap();
    device.initialize(weights).unwrap();
    device
}

/// The compute step of a kernel.
fn step_of<'p>(tiles: &'p TileProgram, kernel: &str) -> (usize, &'p Compute) {
    let steps = tiles.steps.iter().enumerate();
    let found = steps.into_iter().find_map(|(i, step)| match step {
        Step::Compute(c) if c.kernel == kernel => Some((i, c)),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no step runs {kernel}"))
}

/// `transformer.mlir:LINE:` of the operation whose line in the model has this text.
fn at(text: &str) -> String {
    let line = MODEL.lines().position(|l| l.contains(text)).unwrap();
    format!("transformer.mlir:{}:", line + 1)
}

/// Changes words of the images on one tile.
fn patch(package: &Package, tile: u32, change: impl Fn(u32, u32) -> Option<u32>) -> Package {
    let mut images = ImagesBuilder::new();
    let mut changed = 0;
    for image in package.images.tiles() {
        for (start, bytes) in package.images.segments(image) {
            let mut bytes = bytes.to_vec();
            if image.tile == tile {
                for (word, address) in bytes
                    .as_chunks_mut::<4>()
                    .0
                    .iter_mut()
                    .zip((start..).step_by(4))
                {
                    if let Some(value) = change(address, u32::from_le_bytes(*word)) {
                        *word = value.to_le_bytes();
                        changed += 1;
                    }
                }
            }
            images.segment(image.tile, start, &bytes);
        }
    }
    assert!(changed > 0, "nothing was changed");
    let package = Package {
        images: images.finish(),
        ..package.clone()
    };
    Package::from_bytes(&package.to_bytes().unwrap()).unwrap()
}

#[test]
fn all_levels_of_a_transformer_agree() {
    let b = built();
    let (report, outputs, run) = Case::right().run();
    assert_eq!(report.difference, None);
    assert!(report.selection_failure().is_none());
    if let Some(failure) = report.operator_failure() {
        panic!("{failure}");
    }
    // At the inputs, at each internal sync, at the outputs.
    let exchanges = |s: &&Step| matches!(s, Step::Exchange { .. });
    let exchanges = b.lowered.tiles.steps.iter().filter(exchanges).count();
    assert_eq!(report.looks, exchanges + 2);
    for operation in ["linear", "layer_norm", "attention", "gelu", "add"] {
        let name = format!("nn.{operation}");
        let known = report.operators.iter().any(|o| o.operation == name);
        assert!(known, "{name} is not compared");
    }
    // Steps ascend, and nothing is exact in f16.
    let places = report.operators.iter().filter_map(|o| o.place.as_ref());
    let steps: Vec<_> = places.collect();
    assert!(steps.is_sorted_by_key(|p| p.step));
    assert!(report.operators.iter().any(|o| o.comparison.max_ulp > 0.5));

    // An observed run is a run, and the tile level is a device of its own.
    let mut device = simulator(&b.package, &b.weights);
    let (again, plain) = device.run(&b.inputs).unwrap();
    assert_eq!((&outputs, &run), (&again, &plain));
    let mut device = TileDevice::new();
    let program = Program {
        tiles: Some(&b.lowered.tiles),
        ..Program::default()
    };
    device.load(program).unwrap();
    device.initialize(&b.weights).unwrap();
    assert_eq!(device.run(&b.inputs).unwrap().0, outputs);
}

/// `a + b` becomes `a * b` in the instructions of one tile.
#[test]
fn a_changed_instruction_names_the_first_step_that_runs_it() {
    let b = built();
    let (number, step) = step_of(&b.lowered.tiles, "add_f16");
    let code = b
        .package
        .symbols
        .iter()
        .find(|s| s.name == "add_f16")
        .unwrap();
    let code = code.address..code.address + code.bytes;
    let tile = *step.tiles.last().unwrap();
    // f16v4add to f16v4mul, with whatever registers and in whatever bundle.
    let package = patch(&b.package, tile, |address, word| {
        (code.contains(&address) && word & 0x7f0f_0f0f == 0x5800_0002).then_some(word | 0x300)
    });
    let report = Case {
        package: &package,
        ..Case::right()
    }
    .report();
    let found = report.difference.as_ref().unwrap();
    assert_eq!((found.step, &found.name), (number + 1, &step.name));
    assert_eq!((found.tile, found.tiles), (tile, 1));
    assert_eq!(found.kind, "kernel add_f16");
    assert_eq!(
        (found.operation.as_str(), &found.location),
        ("nn.add", &step.location)
    );
    assert!(found.location.starts_with(&at("%residual = ")), "{found}");
    assert!(found.index.is_some() && found.expected != found.found);
    // What the tile program says is right all the same.
    assert!(report.operator_failure().is_none());
}

/// The argument record of one tile has another scale: the words of the step, changed on the chip.
#[test]
fn a_changed_argument_names_its_step() {
    let b = built();
    let (number, step) = step_of(&b.lowered.tiles, "softmax_f16");
    let kernel = Kernels::builtin().get("softmax_f16").unwrap();
    let scale = kernel.words.iter().position(|w| w == "scale").unwrap();
    let scale = step.words[scale];
    let records = Target::ipu21().runtime_state_base..b.lowered.tiles.buffers[0].address.unwrap();
    let package = patch(&b.package, step.tiles[0], |address, word| {
        (records.contains(&address) && word == scale).then_some((3f32).to_bits())
    });
    let report = Case {
        package: &package,
        ..Case::right()
    }
    .report();
    let found = report.difference.as_ref().unwrap();
    assert_eq!((found.step, &found.name), (number + 1, &step.name));
    assert_eq!(found.operation, "nn.attention");
    assert!(found.location.starts_with(&at("nn.attention")), "{found}");
    assert_eq!((found.tile, found.tiles), (step.tiles[0], 1));
}

#[test]
fn a_changed_weight_is_found_before_the_run() {
    let b = built();
    let mut weights = b.weights.clone();
    let weight = &weights["up.weight"];
    let mut values = weight.values().to_vec();
    // Row 3, column 5 of 32 x 64.
    values[3 * 64 + 5] += 0.5;
    let changed = HostArray::new(weight.ty().clone(), values).unwrap();
    weights.insert("up.weight".into(), changed);
    let report = Case {
        weights: &weights,
        ..Case::right()
    }
    .report();
    let found = report.difference.as_ref().unwrap();
    assert_eq!((found.step, found.buffer.as_str()), (0, "up.weight"));
    assert_eq!(found.index.as_deref(), Some(&[3, 5][..]));
    assert!(
        found
            .to_string()
            .starts_with("what the host wrote before the run"),
        "{found}"
    );
}

/// The interpreter has another meaning for a kernel than its code.
#[test]
fn a_changed_meaning_names_operation_and_step() {
    let b = built();
    let (number, step) = step_of(&b.lowered.tiles, "gelu_tanh_f16");
    let mut kernels = Kernels::builtin().clone();
    let other = kernels.get("sigmoid_f16").unwrap().meaning;
    kernels.kernels.get_mut("gelu_tanh_f16").unwrap().meaning = other;
    let report = Case {
        kernels: &kernels,
        ..Case::right()
    }
    .report();
    let found = report.difference.as_ref().unwrap();
    assert_eq!((found.step, &found.name), (number + 1, &step.name));
    let failure = report.operator_failure().unwrap();
    assert_eq!(failure.operation, "nn.gelu");
    assert!(failure.location.starts_with(&at("nn.gelu")), "{failure}");
    assert_eq!(failure.place.as_ref().unwrap().step, number + 1);
}

/// The lowering takes another kernel: the chip does what the tile program says, and that is wrong.
#[test]
fn a_wrong_lowering_names_the_operation() {
    let b = built();
    let mut tiles = b.lowered.tiles.clone();
    let (number, _) = step_of(&tiles, "gelu_tanh_f16");
    let Step::Compute(step) = &mut tiles.steps[number] else {
        panic!("no compute step");
    };
    step.kernel = "sigmoid_f16".into();
    let package = emit(&tiles, Target::ipu21(), Kernels::builtin(), 0).unwrap();
    let report = Case {
        tiles: &tiles,
        package: &package,
        ..Case::right()
    }
    .report();
    assert_eq!(report.difference, None);
    let failure = report.operator_failure().unwrap();
    assert_eq!(failure.operation, "nn.gelu");
    assert!(failure.location.starts_with(&at("nn.gelu")), "{failure}");
    let place = failure.place.as_ref().unwrap();
    assert_eq!((place.step, place.undefined), (number + 1, 0));
    let text = failure.to_string();
    for figure in ["max abs ", "max rel ", "max ulp ", "(atol 2e-2, rtol 1e-2)"] {
        assert!(text.contains(figure), "{text}");
    }
}

/// The selection takes another operator: tile program and chip are as they were.
#[test]
fn a_wrong_selection_names_the_operation() {
    let mut selected = built().lowered.selected.clone();
    let gelu = OpKind::Unary(UnaryKind::GeluTanh);
    let op = selected.ops.iter_mut().find(|op| op.kind == gelu).unwrap();
    op.kind = OpKind::Unary(UnaryKind::Sigmoid);
    let report = Case {
        selected: &selected,
        ..Case::right()
    }
    .report();
    assert_eq!(report.difference, None);
    let failure = report.selection_failure().unwrap();
    assert_eq!(
        (failure.operation.as_str(), &failure.place),
        ("nn.gelu", &None)
    );
    assert!(failure.location.starts_with(&at("nn.gelu")), "{failure}");
}
