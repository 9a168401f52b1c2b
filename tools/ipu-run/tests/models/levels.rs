//! One model at every level, and what must hold between them.

use crate::generate::Model;
use crate::noise;
use ipu_dialects::context::with_big_stack;
use ipu_image::package::Package;
use ipu_interp::graph;
use ipu_interp::tile::{Fill, Interpreter};
use ipu_passes::registry::stages;
use ipu_passes::session::{Candidate, Session};
use ipu_program::graph::Graph;
use ipu_program::kernels::Kernels;
use ipu_program::tile::TileProgram;
use ipu_runtime::{Device, HostArray, Program, RunReport, SimulatorDevice};
use ipu_target::Target;

/// Largest relative L2 error against the model in f32.
const LIMIT_F32: f64 = 1e-2;
/// The same with f16 partial sums: each of up to 13 blocks of K rounds once.
const LIMIT_F16: f64 = 3e-2;
/// The same of models in f32.
const LIMIT_SINGLE: f64 = 1e-5;
/// Absolute error of each element that is always allowed: results near zero after cancellation.
const FLOOR: f64 = 2e-3;
/// The same of models in f32.
const FLOOR_SINGLE: f64 = 1e-6;
/// How many times the effect of noise on every value is allowed besides.
const NOISE: f64 = 4.0;
/// Largest deviation of scheduled cycles from simulated ones, in percent or cycles.
const CYCLES_PERCENT: u64 = 3;
const CYCLES_FEW: u64 = 40;
/// More cycles than any of these models takes.
const MAX_CYCLES: u64 = 20_000_000;

type Checked<T> = Result<T, String>;

/// The worst figures of some models, each with its seed.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Relative L2 error with f32 partial sums.
    pub l2_f32: (f64, u64),
    /// The same with f16 partial sums, or either.
    pub l2_f16: (f64, u64),
    /// Scheduled against simulated cycles, in percent, of runs of 1000 cycles and more.
    pub deviation: (f64, u64),
    /// The same of all runs, in cycles.
    pub deviation_cycles: (f64, u64),
    /// Cycles between the fastest and the slowest of three runs.
    pub spread: (f64, u64),
    pub models: u64,
}

impl Figures {
    pub fn max(&self, other: &Figures, seed: u64) -> Figures {
        let worse = |a: (f64, u64), b: (f64, u64)| if b.0 > a.0 { (b.0, seed) } else { a };
        Figures {
            l2_f32: worse(self.l2_f32, other.l2_f32),
            l2_f16: worse(self.l2_f16, other.l2_f16),
            deviation: worse(self.deviation, other.deviation),
            deviation_cycles: worse(self.deviation_cycles, other.deviation_cycles),
            spread: worse(self.spread, other.spread),
            models: self.models + 1,
        }
    }
}

/// The forms of one model.
pub struct Compiled {
    graph: Graph,
    selected: Vec<Graph>,
    tiled: Vec<TileProgram>,
    placed: Vec<TileProgram>,
    /// The one that was picked.
    pub picked: Vec<TileProgram>,
    /// Its package.
    pub package: Vec<u8>,
}

pub fn compile(model: &Model, threads: bool) -> Checked<Compiled> {
    with_big_stack(|| {
        let session = Session::new();
        session.set_threads(threads);
        let mut module = session
            .parse(model.text.as_bytes(), "model.mlir")
            .map_err(|e| e.to_string())?;
        let graph = module.graph("main").map_err(|e| e.to_string())?;
        let (mut selected, mut programs) = (Vec::new(), Vec::new());
        for (name, pipeline) in stages(&model.options) {
            module.run(&pipeline).map_err(|e| format!("{name}: {e}"))?;
            let found = module.candidates().map_err(|e| format!("{name}: {e}"))?;
            let mut tiles = Vec::new();
            for (_, candidate) in found {
                match candidate {
                    Candidate::Graph(g) => selected.push(g),
                    Candidate::Tiles(t) => tiles.push(t),
                }
            }
            programs.push((name, tiles));
        }
        let mut at = |stage: &str| {
            let found = programs.iter_mut().find(|p| p.0 == stage);
            found.map(|p| std::mem::take(&mut p.1)).unwrap_or_default()
        };
        Ok(Compiled {
            graph,
            selected,
            tiled: at("tile"),
            placed: at("storage"),
            picked: at("pick"),
            package: module.package().map_err(|e| e.to_string())?,
        })
    })
}

/// The bits of all results.
fn bits(arrays: &[HostArray]) -> Vec<(Vec<u32>, Vec<u32>)> {
    arrays
        .iter()
        .map(|a| {
            let values = a.values().iter().map(|v| v.to_bits()).collect();
            (a.shape().to_vec(), values)
        })
        .collect()
}

/// The first difference in bits of two lists of results.
pub fn same(what: &str, expected: &[HostArray], found: &[HostArray]) -> Checked<()> {
    let (e, f) = (bits(expected), bits(found));
    if e == f {
        return Ok(());
    }
    for (i, (e, f)) in expected.iter().zip(found).enumerate() {
        let pairs = e.values().iter().zip(f.values());
        if let Some((at, (x, y))) = pairs
            .enumerate()
            .find(|(_, (x, y))| x.to_bits() != y.to_bits())
        {
            return Err(format!(
                "{what}: result {i} of shape {:?} differs at {at}: expected {x}, found {y}",
                e.shape()
            ));
        }
    }
    Err(format!("{what}: shapes or numbers of results differ"))
}

pub fn interpret(model: &Model, program: &TileProgram, fill: Fill) -> Checked<Vec<HostArray>> {
    let mut interpreter = Interpreter::new(program, Kernels::builtin(), fill);
    interpreter
        .initialize(&model.weights)
        .and_then(|()| interpreter.run(&model.inputs[0]))
        .map_err(|e| e.to_string())
}

/// Runs the package: first, second and first inputs again.
pub fn simulate(model: &Model, package: &Package) -> Checked<(Vec<HostArray>, RunReport, u64)> {
    let mut device = SimulatorDevice::new(Target::ipu21(), MAX_CYCLES);
    let program = Program {
        package: Some(package),
        ..Program::default()
    };
    let run = |device: &mut SimulatorDevice, inputs: &[HostArray]| {
        device.run(inputs).map_err(|e| format!("simulator: {e}"))
    };
    device
        .load(program)
        .and_then(|()| device.initialize(&model.weights))
        .map_err(|e| format!("simulator: {e}"))?;
    let first = run(&mut device, &model.inputs[0])?;
    let other = run(&mut device, &model.inputs[1])?;
    let again = run(&mut device, &model.inputs[0])?;
    same("the third run against the first", &first.0, &again.0)?;
    let cycles = |r: &RunReport| r.simulated.map_or(0, |s| s.total_cycles);
    let runs = [&first, &other, &again].map(|r| cycles(&r.1));
    let spread = runs
        .iter()
        .max()
        .zip(runs.iter().min())
        .map_or(0, |(a, b)| a - b);
    if spread > 0 {
        return Err(format!("cycles of runs differ: {runs:?}"));
    }
    Ok((first.0, first.1, spread))
}

/// Relative L2 error, and whether it is within the limit. `noise` is the norm of what rounding
/// changes.
pub fn relative_l2(
    expected: &HostArray,
    found: &HostArray,
    [limit, floor]: [f64; 2],
    noise: f64,
) -> (f64, bool) {
    let mut sums = (0f64, 0f64);
    for (&e, &f) in expected.values().iter().zip(found.values()) {
        let (e, f) = (f64::from(e), f64::from(f));
        sums = (sums.0 + (e - f) * (e - f), sums.1 + e * e);
    }
    let (error, norm) = (sums.0.sqrt(), sums.1.sqrt());
    let floor = floor * (expected.values().len() as f64).sqrt();
    // Where rounding alone changes much, the relative error says nothing.
    let telling = norm > floor && noise < limit * norm;
    let relative = if telling { error / norm } else { 0.0 };
    (relative, error <= limit * norm + floor + NOISE * noise)
}

/// Checks one model.
pub fn check(model: &Model) -> Checked<Figures> {
    let compiled = compile(model, true)?;
    let serial = compile(model, false)?;
    if compiled.package != serial.package {
        return Err("one thread gives another package than several".into());
    }
    if model.options.finalists < 4 && compile(model, true)?.package != compiled.package {
        return Err("compiling again gives another package".into());
    }

    let reference = |g: &Graph| {
        graph::run(g, &model.inputs[0], &model.weights).map_err(|e| format!("reference: {e}"))
    };
    let expected = reference(&compiled.graph)?;
    for (i, g) in compiled.selected.iter().enumerate() {
        // The rules only fuse: not even rounding differs in f32.
        same(
            &format!("selected operators of c{i}"),
            &expected,
            &reference(g)?,
        )?;
    }

    let candidates = compiled.tiled.len();
    if candidates == 0 || compiled.placed.len() != candidates || compiled.picked.len() != 1 {
        return Err(format!(
            "{candidates} candidates after tiling, {} after placement, {} picked",
            compiled.placed.len(),
            compiled.picked.len()
        ));
    }
    for (i, (before, after)) in compiled.tiled.iter().zip(&compiled.placed).enumerate() {
        let before = interpret(model, before, Fill::Zeros)?;
        let after = interpret(model, after, Fill::Poison)?;
        same(&format!("c{i} placed against tiled"), &before, &after)?;
    }
    let tiles = interpret(model, &compiled.picked[0], Fill::Poison)?;

    let package = Package::from_bytes(&compiled.package).map_err(|e| e.to_string())?;
    let (found, report, spread) = simulate(model, &package)?;
    same("simulator against tile interpreter", &tiles, &found)?;

    let mut figures = Figures::default();
    let narrow = model.options.partials != "f32";
    let (limits, relative) = match (model.single, narrow) {
        (true, _) => ([LIMIT_SINGLE, FLOOR_SINGLE], noise::SINGLE),
        (false, true) => ([LIMIT_F16, FLOOR], noise::HALF),
        (false, false) => ([LIMIT_F32, FLOOR], noise::HALF),
    };
    let noise = noise::norms(
        &compiled.graph,
        &model.inputs[0],
        &model.weights,
        &expected,
        relative,
    )?;
    for (i, (e, f)) in expected.iter().zip(&found).enumerate() {
        let (error, within) = relative_l2(e, f, limits, noise[i]);
        if !within {
            return Err(format!(
                "result {i}: relative L2 error {error:e}, noise of norm {}",
                noise[i]
            ));
        }
        let worst = if narrow && !model.single {
            &mut figures.l2_f16
        } else {
            &mut figures.l2_f32
        };
        worst.0 = worst.0.max(error);
    }
    let simulated = report.simulated.map_or(0, |s| s.total_cycles);
    let scheduled = report.scheduled_cycles.unwrap_or(0);
    let off = simulated.abs_diff(scheduled);
    // The exponential of zero takes less time: of padding, the time is an upper bound.
    let early = simulated < scheduled && model.text.contains("nn.exp");
    let percent = if early { 20 } else { CYCLES_PERCENT };
    if off > CYCLES_FEW && 100 * off > percent * simulated {
        return Err(format!(
            "scheduled {scheduled} cycles, simulated {simulated}"
        ));
    }
    figures.spread.0 = spread as f64;
    figures.deviation_cycles.0 = off as f64;
    if simulated >= 1000 {
        figures.deviation.0 = 100.0 * off as f64 / simulated as f64;
    }
    Ok(figures)
}
