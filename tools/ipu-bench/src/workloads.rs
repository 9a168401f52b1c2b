//! The models of `examples/`, compiled in this process and run on the simulator: cycles by all
//! three accounts, memory, and how far the results are from the expected ones.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use ipu_dialects::context::with_big_stack;
use ipu_image::package::Package;
use ipu_passes::registry::{Options, stages};
use ipu_passes::session::Session;
use ipu_runtime::compare::{Comparison, Limits, compare};
use ipu_runtime::{Device, HostArray, Program, SimulatorDevice, accuracy, npy, weights};
use ipu_target::Target;
use serde::Serialize;

use crate::Format;

/// A model with its data, files of the folder of its name.
struct Workload {
    name: &'static str,
    input: &'static str,
    expected: &'static str,
    labels: Option<&'static str>,
    /// Whether its data are in the repository; others run when their folder is named.
    own_data: bool,
}

/// Names of the workloads, for the command line.
pub const NAMES: [&str; WORKLOADS.len()] = {
    let mut names = [""; WORKLOADS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = WORKLOADS[i].name;
        i += 1;
    }
    names
};

/// A workload whose data `examples/data.py` makes.
const fn large(name: &'static str) -> Workload {
    Workload {
        name,
        input: "input.npy",
        expected: "expected.npy",
        labels: None,
        own_data: false,
    }
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "mlp-digits",
        input: "images.npy",
        expected: "logits.npy",
        labels: Some("labels.npy"),
        own_data: true,
    },
    Workload {
        name: "vit-digits",
        input: "images.npy",
        expected: "logits.npy",
        labels: Some("labels.npy"),
        own_data: true,
    },
    Workload {
        name: VIT_SMALL,
        input: "input.npy",
        expected: "expected.npy",
        labels: None,
        own_data: true,
    },
    large("siglip-attention"),
    large("siglip-mlp"),
    large("gemm-4096"),
];

/// The workload for which `--seeds` has more data.
const VIT_SMALL: &str = "vit-small";
const WEIGHTS: &str = "weights.safetensors";
/// Cycles after which the simulator gives up.
const MAX_CYCLES: u64 = 1_000_000_000;

/// What to measure.
pub struct Request<'a> {
    /// How to print.
    pub format: Format,
    /// Only this workload.
    pub only: Option<&'a str>,
    /// Tiles that the compiler may use.
    pub tiles: u32,
    /// Folder of the models; by default that of this repository.
    pub examples: Option<&'a Path>,
    /// Folder with more data for vit-small, a folder for each seed.
    pub seeds: Option<&'a Path>,
    /// Folder with other data for the one workload.
    pub data: Option<&'a Path>,
    /// Element type of partial sums: f32, f16 or any.
    pub partials: &'a str,
}

/// One model with one set of data.
#[derive(Clone, Debug, Serialize)]
struct Row {
    workload: &'static str,
    /// Folder of the data in that of `--seeds`; none for the example's own.
    seed: Option<String>,
    tiles: u32,
    /// By the closed formulas of the plan search.
    estimated_cycles: u64,
    /// By exchange rows and kernel laws.
    scheduled_cycles: u64,
    /// By execution of the tiles' instructions; its parts follow.
    simulated_cycles: u64,
    compute_cycles: u64,
    exchange_cycles: u64,
    sync_cycles: u64,
    phases: u64,
    /// The simulated cycles if each phase cost 600 cycles besides its exchange.
    simulated_cycles_at_600: u64,
    /// Exchange cycles of the simulated ones, without syncs.
    exchange_share: f64,
    /// Most bytes that a tile holds at one time.
    peak_memory_bytes: u32,
    /// Against the expected results.
    relative_l2: f64,
    max_abs: f64,
    /// Share of the labels that the results have; none without labels.
    accuracy: Option<f64>,
    /// From the text of the model to the checked package, on this machine.
    compile_seconds: f64,
    /// Loading and one run on the simulator, on this machine.
    simulate_seconds: f64,
}

/// Runs the workloads and prints a row for each.
///
/// # Errors
/// A model does not compile or run, its data cannot be read, or results are beyond the limits;
/// the latter after all rows are printed.
pub fn run(request: &Request<'_>) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let own = root.unwrap_or(Path::new(".")).join("examples");
    let examples = request.examples.unwrap_or(&own);
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let chosen = |w: &&Workload| match request.only {
        Some(name) => name == w.name,
        None => w.own_data,
    };
    if request.data.is_some() && request.only.is_none() {
        bail!("--data holds the data of one workload; name it by --workload");
    }
    for workload in WORKLOADS.iter().filter(chosen) {
        let folder = examples.join(workload.name);
        let mut data = match request.data {
            Some(data) => vec![(None, data.to_owned())],
            None if workload.own_data => vec![(None, folder.clone())],
            None => bail!(
                "the data of {0} are too large for the repository: write them by \
                 examples/data.py {0} DIR and pass --data=DIR",
                workload.name
            ),
        };
        if let Some(seeds) = request.seeds.filter(|_| workload.name == VIT_SMALL) {
            data.extend(subfolders(seeds)?.into_iter().map(|(n, p)| (Some(n), p)));
        }
        // MLIR recurses on nesting, and its objects stay on their thread.
        let start = Instant::now();
        let options = Options {
            tiles: request.tiles,
            partials: request.partials.to_owned(),
            ..Options::default()
        };
        let package = with_big_stack(|| compile(&folder.join("model.mlir"), &options))?;
        let compile_seconds = start.elapsed().as_secs_f64();
        for (seed, folder) in data {
            let (row, comparison) = measure(
                workload,
                request.tiles,
                &package,
                compile_seconds,
                seed,
                &folder,
            )
            .with_context(|| folder.display().to_string())?;
            if !comparison.passed() {
                failures.push(format!("{}: {comparison}", title(&row)));
            }
            rows.push(row);
        }
    }
    match request.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => print!("{}", table(&rows)),
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(failures.join("\n")))
    }
}

/// Name and path of the folders in a folder, by name.
fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let context = || folder.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_dir()) {
            found.push((name.to_string_lossy().into_owned(), path.clone()));
        }
    }
    if found.is_empty() {
        bail!("{}: holds no folder with data", folder.display());
    }
    found.sort();
    Ok(found)
}

/// What a package says and does.
pub struct Simulated {
    /// Cycles that the plan search estimated.
    pub estimated: u64,
    /// Cycles on the simulator.
    pub cycles: u64,
}

/// Runs the package of a workload on its own data.
///
/// # Errors
/// No such workload, or it does not run.
pub fn simulate(name: &str, package: &Package, folder: &Path) -> Result<Simulated> {
    let workload = WORKLOADS.iter().find(|w| w.name == name);
    let workload = workload.with_context(|| format!("no workload '{name}'"))?;
    let (row, _) = measure(workload, 0, package, 0.0, None, folder)?;
    Ok(Simulated {
        estimated: row.estimated_cycles,
        cycles: row.simulated_cycles,
    })
}

/// Compiles a model.
///
/// # Errors
/// The model cannot be read or does not compile.
pub fn compile(path: &Path, options: &Options) -> Result<Package> {
    let file = path.display().to_string();
    let text = std::fs::read(path).with_context(|| file.clone())?;
    let session = Session::new();
    let mut model = session.parse(&text, &file)?;
    for (_, pipeline) in stages(options) {
        model.run(&pipeline)?;
    }
    Ok(model.finish(options)?)
}

fn measure(
    workload: &Workload,
    tiles: u32,
    package: &Package,
    compile_seconds: f64,
    seed: Option<String>,
    folder: &Path,
) -> Result<(Row, Comparison)> {
    let parameters = weights::read(&folder.join(WEIGHTS))?;
    let inputs: [HostArray; 1] = [npy::read(&folder.join(workload.input))?];
    let expected = npy::read(&folder.join(workload.expected))?;
    let labels = match workload.labels {
        Some(file) => Some(npy::read_labels(&folder.join(file))?),
        None => None,
    };
    let start = Instant::now();
    let mut device = SimulatorDevice::new(Target::ipu21(), MAX_CYCLES);
    device.load(Program {
        package: Some(package),
        ..Program::default()
    })?;
    device.initialize(&parameters)?;
    let (outputs, report) = device.run(&inputs)?;
    let simulate_seconds = start.elapsed().as_secs_f64();

    let output = outputs.first().context("the model has no result")?;
    let limits = Limits::for_element(output.ty().element);
    let comparison = compare(&expected, output, &limits)?;
    let accuracy = match labels {
        Some(labels) => Some(accuracy::top1(&labels, output)?.fraction()),
        None => None,
    };
    let cycles = report.simulated.context("the run has no cycles")?;
    let row = Row {
        workload: workload.name,
        seed,
        tiles,
        estimated_cycles: package.metadata.estimated_cycles,
        scheduled_cycles: package.metadata.scheduled_cycles,
        simulated_cycles: cycles.total_cycles,
        compute_cycles: cycles.compute_cycles,
        exchange_cycles: cycles.exchange_cycles,
        sync_cycles: cycles.sync_cycles,
        phases: cycles.phases,
        simulated_cycles_at_600: cycles.total_cycles_at_600,
        exchange_share: cycles.exchange_cycles as f64 / cycles.total_cycles.max(1) as f64,
        peak_memory_bytes: package.metadata.peak_memory.bytes,
        relative_l2: comparison.relative_l2,
        max_abs: comparison.max_abs,
        accuracy,
        compile_seconds,
        simulate_seconds,
    };
    Ok((row, comparison))
}

fn title(row: &Row) -> String {
    match &row.seed {
        Some(seed) => format!("{} {seed}", row.workload),
        None => row.workload.to_owned(),
    }
}

/// Digits in groups of three.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn table(rows: &[Row]) -> String {
    const TITLES: [&str; 14] = [
        "workload",
        "tiles",
        "estimated",
        "scheduled",
        "simulated",
        "at 600",
        "exchange",
        "phases",
        "peak bytes",
        "rel. L2",
        "max abs",
        "accuracy",
        "compile",
        "simulate",
    ];
    let cells = rows.iter().map(|r| {
        [
            title(r),
            r.tiles.to_string(),
            grouped(r.estimated_cycles),
            grouped(r.scheduled_cycles),
            grouped(r.simulated_cycles),
            grouped(r.simulated_cycles_at_600),
            format!("{:.1} %", 100.0 * r.exchange_share),
            r.phases.to_string(),
            grouped(r.peak_memory_bytes.into()),
            format!("{:.2e}", r.relative_l2),
            format!("{:.2e}", r.max_abs),
            r.accuracy.map_or("-".to_owned(), |a| format!("{a:.3}")),
            format!("{:.2} s", r.compile_seconds),
            format!("{:.2} s", r.simulate_seconds),
        ]
    });
    let lines: Vec<_> = std::iter::once(TITLES.map(str::to_owned))
        .chain(cells)
        .collect();
    let width = |column: usize| lines.iter().map(|l| l[column].len()).max().unwrap_or(0);
    let widths: [usize; TITLES.len()] = std::array::from_fn(width);
    let mut out = String::new();
    for line in &lines {
        let _ = write!(out, "{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &'static str, seed: Option<&str>, cycles: u64, accuracy: Option<f64>) -> Row {
        Row {
            workload,
            seed: seed.map(str::to_owned),
            tiles: 64,
            estimated_cycles: 999,
            scheduled_cycles: cycles - 1,
            simulated_cycles: cycles,
            compute_cycles: 0,
            exchange_cycles: cycles / 4,
            sync_cycles: 0,
            phases: 3,
            simulated_cycles_at_600: cycles + 1350,
            exchange_share: 0.25,
            peak_memory_bytes: 54_321,
            relative_l2: 2.5e-4,
            max_abs: 0.0125,
            accuracy,
            compile_seconds: 0.5,
            simulate_seconds: 12.25,
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            row("mlp-digits", None, 1_234_567, Some(0.98)),
            row("vit-small", Some("seed-2"), 1000, None),
        ];
        let expected = "\
workload          tiles  estimated  scheduled  simulated     at 600  exchange  phases  peak bytes  rel. L2  max abs  accuracy  compile  simulate
mlp-digits           64        999  1,234,566  1,234,567  1,235,917    25.0 %       3      54,321  2.50e-4  1.25e-2     0.980   0.50 s   12.25 s
vit-small seed-2     64        999        999      1,000      2,350    25.0 %       3      54,321  2.50e-4  1.25e-2         -   0.50 s   12.25 s
";
        assert_eq!(table(&rows), expected);
    }
}
