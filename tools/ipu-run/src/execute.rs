//! Running: inputs and weights to a device, outputs to files, comparisons, figures.

use crate::cli::{Cli, DeviceName, Equality};
use crate::compile::{Compiled, Needs, Progress, compile};
use crate::levels;
use crate::report::ResultFile;
use anyhow::{Context as _, Result, anyhow, bail};
use ipu_image::package::{Package, PackageError, write_whole};
use ipu_passes::session::Lowered;
use ipu_program::graph::{Graph, OpKind, parameter_key};
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::compare::{EqualityMode, Limits, compare};
use ipu_runtime::{
    Device, HostArray, Parameters, Program, ReferenceDevice, RunObserver, RunReport,
    SimulatorDevice, TileDevice, accuracy, input, npy, weights,
};
use ipu_target::Target;
use std::path::Path;

/// Does what the command line says.
///
/// # Errors
/// Anything that keeps it from doing so, and results that differ from what is expected.
pub fn run(cli: &Cli) -> Result<()> {
    if cli.list_devices {
        sayln!(
            "sim        cycle-level simulator of the {} chip",
            Target::ipu21().name
        );
        sayln!("tile       the tile program by the meaning of its steps, on the host");
        sayln!("reference  the model in f32 on the host");
        return Ok(());
    }
    let path = cli.model.as_deref().context("no model given")?;
    let progress = Progress::new(cli.quiet);
    let loaded = load(cli, path, &progress)?;
    if let (Some(to), Some(package)) = (&cli.package, &loaded.package) {
        package.write_atomic(to)?;
        if !cli.quiet {
            sayln!("package      {}", to.display());
        }
    }
    if cli.compile_only || cli.compile_to.is_some() {
        return Ok(());
    }
    execute(cli, &loaded, &progress)
}

/// A program in the forms that devices take.
pub struct Loaded {
    /// The model.
    pub graph: Option<Graph>,
    /// Tile code.
    pub package: Option<Package>,
    /// What the code comes from.
    pub lowered: Option<Lowered>,
}

/// Whether the file starts like a package.
fn is_package(path: &Path) -> Result<bool> {
    use std::io::Read as _;
    if path.extension().is_some_and(|e| e == "ipuexe") {
        return Ok(true);
    }
    let mut start = [0u8; 8];
    let mut file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let n = file
        .read(&mut start)
        .with_context(|| path.display().to_string())?;
    Ok(start[..n] == *ipu_image::package::container::MAGIC)
}

fn load(cli: &Cli, path: &Path, progress: &Progress) -> Result<Loaded> {
    if is_package(path)? {
        let given = [
            ("tiles", cli.tiles.is_some()),
            ("partials", cli.partials.is_some()),
            ("finalists", cli.finalists.is_some()),
            ("compile_to", cli.compile_to.is_some()),
            (
                "dump_compilation_phases_to",
                cli.dump_compilation_phases_to.is_some(),
            ),
        ];
        let given: Vec<_> = given
            .iter()
            .filter(|g| g.1)
            .map(|g| format!("--{}", g.0))
            .collect();
        if !given.is_empty() {
            bail!(
                "{}: a package is compiled already, without effect on it: {}",
                path.display(),
                given.join(", ")
            );
        }
        let package = progress.stage("load", || {
            Package::read(path).map_err(|e| match e {
                // These name the file already.
                PackageError::Io { .. } => anyhow::Error::new(e),
                _ => anyhow::Error::new(e).context(path.display().to_string()),
            })
        })?;
        let held = &package.metadata.function;
        if let Some(function) = cli.function.as_ref().filter(|f| *f != held) {
            bail!(
                "{}: no function '{function}', the package holds: {held}",
                path.display()
            );
        }
        return Ok(Loaded {
            graph: None,
            package: Some(package),
            lowered: None,
        });
    }
    let code = cli.device == DeviceName::Sim
        || cli.compile_only
        || cli.compile_to.is_some()
        || cli.package.is_some();
    let needs = match cli.device {
        DeviceName::Tile => Needs::Levels,
        DeviceName::Sim if cli.check_reference => Needs::Levels,
        _ if code => Needs::Code,
        _ => Needs::Model,
    };
    let compiled = compile(cli, path, progress, needs)?;
    let Compiled {
        graph,
        package,
        lowered,
    } = compiled;
    Ok(Loaded {
        graph: Some(graph),
        package,
        lowered,
    })
}

fn execute(cli: &Cli, loaded: &Loaded, progress: &Progress) -> Result<()> {
    // Every file is read before anything runs.
    let parameters = match &cli.weights {
        Some(file) => weights::read(file)?,
        None => Parameters::new(),
    };
    if let Some(graph) = &loaded.graph {
        check_parameters(graph, &parameters, cli.weights.as_deref())?;
    }
    let inputs = cli
        .input
        .iter()
        .map(|text| input::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    let labels = match &cli.labels {
        Some(text) => Some(npy::read_labels(Path::new(
            text.strip_prefix('@').unwrap_or(text),
        ))?),
        None => None,
    };
    let expected = cli
        .expected_output
        .iter()
        .map(|text| match text.as_str() {
            "" | "(ignored)" => Ok(None),
            text => input::parse(text).map(Some),
        })
        .collect::<Result<Vec<_>, _>>()?;

    for text in &cli.output {
        if !text.is_empty() && text != "-" && !text.starts_with('@') {
            bail!("--output={text}: expected @FILE.npy, @FILE.bin, - or nothing");
        }
    }

    let program = Program {
        package: loaded.package.as_ref(),
        graph: loaded.graph.as_ref(),
        tiles: loaded.lowered.as_ref().map(|l| &l.tiles),
    };
    check_count(loaded, inputs.len())?;
    let mut device: Box<dyn Device> = match cli.device {
        DeviceName::Sim => {
            let mut device = SimulatorDevice::new(Target::ipu21(), cli.max_cycles);
            if let Some(tiles) = &cli.trace_execution {
                device.trace(tiles.0.clone());
            }
            device.interrupt(cli.breaks.clone(), cli.watch.clone());
            Box::new(device)
        }
        DeviceName::Tile => Box::new(TileDevice::new()),
        DeviceName::Reference => Box::new(ReferenceDevice::new()),
    };
    let reference = cli.check_reference && levels::model_is_known(cli, loaded, &expected)?;
    let mut comparer = match (&loaded.graph, &loaded.lowered) {
        (Some(model), Some(lowered)) if reference => {
            let new = || levels::comparer(cli, model, lowered, &parameters, &inputs);
            Some(progress.stage("levels", new)?)
        }
        _ => None,
    };
    let (outputs, report) = progress.stage("run", || {
        let observer = comparer.as_mut().map(|c| c as &mut dyn RunObserver);
        let run = cli.loops;
        drive(
            device.as_mut(),
            program,
            &parameters,
            &inputs,
            run,
            observer,
        )
    })?;
    if expected.len() > outputs.len() || cli.output.len() > outputs.len() {
        bail!(
            "the function has {} result(s), {} expected and {} places for them were given",
            outputs.len(),
            expected.len(),
            cli.output.len()
        );
    }

    let function = loaded
        .graph
        .as_ref()
        .map(|g| g.name.clone())
        .or_else(|| loaded.package.as_ref().map(|p| p.metadata.function.clone()))
        .unwrap_or_default();
    let mut result = ResultFile::new(device.as_ref(), &function, &report);
    let mut failures = Vec::new();
    for (i, want) in expected.iter().enumerate() {
        if let Some(want) = want {
            check(
                cli,
                i,
                "expected output",
                want,
                &outputs[i],
                &mut result,
                &mut failures,
            )?;
        }
    }
    if reference {
        let mut reference = ReferenceDevice::new();
        let (wanted, _) = progress.stage("reference", || {
            drive(&mut reference, program, &parameters, &inputs, 1, None)
        })?;
        for (i, want) in wanted.iter().enumerate() {
            check(
                cli,
                i,
                "reference",
                want,
                &outputs[i],
                &mut result,
                &mut failures,
            )?;
        }
    }
    let compared = match comparer {
        Some(comparer) => Some(progress.stage("compare", || {
            levels::finish(comparer, device.as_mut(), &parameters, &inputs)
        })?),
        None => None,
    };
    if let Some(compared) = &compared {
        failures.extend(levels::verdicts(cli, compared));
    }
    if let (Some(labels), Some(output)) = (&labels, outputs.first()) {
        let found = accuracy::top1(labels, output)?;
        result.accuracy = Some(found.fraction());
        if !cli.quiet {
            sayln!(
                "{} {}, accuracy {:.3}",
                found.total,
                samples(cli),
                found.fraction()
            );
        }
    }
    for (i, output) in outputs.iter().enumerate() {
        write(cli, i, &function, output)?;
    }
    if cli.print_statistics {
        say!("{report}");
        if let Some(compared) = &compared {
            say!("{}", levels::table(compared));
        }
    }
    if let Some(compared) = compared {
        result.levels(compared);
    }
    if let Some(file) = &cli.result_file {
        let text = serde_json::to_string_pretty(&result)? + "\n";
        write_whole(file, text.as_bytes()).with_context(|| file.display().to_string())?;
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(failures.join("\n")))
    }
}

/// Refuses weights that lack a parameter of the model or hold it in another shape; names all of
/// them, each where the model asks for it (inside repeats the first iteration that lacks it).
fn check_parameters(graph: &Graph, parameters: &Parameters, file: Option<&Path>) -> Result<()> {
    let mut problems = Vec::new();
    check_graph(graph, &mut Vec::new(), parameters, file, &mut problems);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(problems.join("\n")))
    }
}

/// `counts` are the iterations of the repeats around, outermost first.
fn check_graph(
    graph: &Graph,
    counts: &mut Vec<u32>,
    parameters: &Parameters,
    file: Option<&Path>,
    problems: &mut Vec<String>,
) {
    for op in &graph.ops {
        let results = || {
            [op.result]
                .into_iter()
                .chain(op.more_results.iter().copied())
        };
        let used = results().any(|id| {
            graph.outputs.contains(&id) || graph.ops.iter().any(|o| o.operands.contains(&id))
        });
        match &op.kind {
            _ if !used => {}
            OpKind::Repeat { count, body } => {
                counts.push(*count);
                check_graph(body, counts, parameters, file, problems);
                counts.pop();
            }
            OpKind::Parameter { name } => {
                let problem = keys(name, counts)
                    .find_map(|key| problem(&key, graph.ty(op.result), parameters.get(&key), file));
                problems.extend(problem.map(|p| format!("{}: error: {p}", op.location)));
            }
            _ => {}
        }
    }
}

/// The keys of a parameter in all iterations.
fn keys(name: &str, counts: &[u32]) -> impl Iterator<Item = String> {
    let first = Some(vec![0; counts.len()]);
    let fixed = !name.contains("{}");
    let iterations = std::iter::successors(first, move |now| {
        // The innermost counts fastest.
        let axis = (0..counts.len()).rfind(|&i| !fixed && now[i] + 1 < counts[i])?;
        let mut next = now.clone();
        next[axis] += 1;
        next[axis + 1..].fill(0);
        Some(next)
    });
    iterations.filter_map(|now| parameter_key(name, &now))
}

fn problem(
    key: &str,
    ty: &TensorType,
    found: Option<&HostArray>,
    file: Option<&Path>,
) -> Option<String> {
    let problem = match (found, file) {
        (Some(array), _) if array.shape() == ty.shape => return None,
        (Some(array), file) => format!(
            "is {} in {}",
            array.ty(),
            file.unwrap_or(Path::new("the weights")).display()
        ),
        (None, Some(file)) => format!("is missing in {}", file.display()),
        (None, None) => "has no value, give --weights=FILE".to_owned(),
    };
    Some(format!("parameter '{key}' of {ty} {problem}"))
}

/// One device from load to the last run, which is the one that is observed.
fn drive(
    device: &mut dyn Device,
    program: Program<'_>,
    parameters: &Parameters,
    inputs: &[HostArray],
    loops: u32,
    observer: Option<&mut dyn RunObserver>,
) -> Result<(Vec<HostArray>, RunReport)> {
    device.load(program)?;
    device.initialize(parameters)?;
    for _ in 1..loops {
        device.run(inputs)?;
    }
    Ok(match observer {
        Some(observer) => device.run_observed(inputs, observer)?,
        None => device.run(inputs)?,
    })
}

fn limits(cli: &Cli, element: ElementType) -> Limits {
    match cli.equality_mode {
        Equality::Exact => Limits::exact(),
        Equality::Approximate => thresholds(cli, element),
    }
}

/// The limits that the thresholds say.
pub fn thresholds(cli: &Cli, element: ElementType) -> Limits {
    if !element.is_float() {
        return Limits::exact();
    }
    let default = Limits::for_element(element);
    let atol = match element {
        ElementType::F16 => cli.expected_f16_threshold,
        ElementType::F32 | ElementType::I32 => cli.expected_f32_threshold,
    };
    Limits {
        atol: atol.unwrap_or(default.atol),
        rtol: cli.expected_rtol.unwrap_or(default.rtol),
        mode: EqualityMode::Approximate,
    }
}

fn check(
    cli: &Cli,
    i: usize,
    against: &'static str,
    want: &HostArray,
    got: &HostArray,
    result: &mut ResultFile,
    failures: &mut Vec<String>,
) -> Result<()> {
    let comparison = compare(want, got, &limits(cli, got.ty().element))
        .with_context(|| format!("{against} of result[{i}]"))?;
    if !cli.quiet {
        let verdict = if comparison.passed() {
            "[SUCCESS]"
        } else {
            "[FAILED]"
        };
        sayln!(
            "{verdict} result[{i}] against the {against}: relative L2 error {:.3e}, max abs {:.3e}",
            comparison.relative_l2,
            comparison.max_abs
        );
    }
    if !comparison.passed() {
        failures.push(format!("result[{i}] against the {against}: {comparison}"));
    }
    result.compared(i, against, comparison);
    Ok(())
}

/// Whether as many inputs were given as the function takes.
fn check_count(loaded: &Loaded, given: usize) -> Result<()> {
    let (function, types): (&str, Vec<String>) = match (&loaded.package, &loaded.graph) {
        (Some(p), _) => {
            let types = p.metadata.inputs.iter().map(ToString::to_string);
            (&p.metadata.function, types.collect())
        }
        (None, Some(g)) => {
            let types = g.inputs.iter().map(|&v| g.ty(v).to_string());
            (&g.name, types.collect())
        }
        (None, None) => return Ok(()),
    };
    if types.len() != given {
        bail!(
            "function '{function}' takes {} input(s) ({}), {given} given: --input once for each",
            types.len(),
            types.join(", ")
        );
    }
    Ok(())
}

/// What the first input consists of: the name of its file, `images` for `@images.npy`.
fn samples(cli: &Cli) -> &str {
    cli.input
        .first()
        .and_then(|text| text.rsplit_once('@'))
        .and_then(|(_, file)| Path::new(file).file_stem()?.to_str())
        .unwrap_or("samples")
}

/// Puts a result where the command line says, by default on standard output.
fn write(cli: &Cli, i: usize, function: &str, output: &HostArray) -> Result<()> {
    let place = cli.output.get(i).map(String::as_str);
    match place {
        Some("") => {}
        None | Some("-") => {
            if place.is_none() && cli.quiet {
                return Ok(());
            }
            if i == 0 {
                sayln!("EXEC @{function}");
            }
            sayln!(
                "result[{i}]: {}",
                input::to_text(output, cli.output_max_element_count)
            );
        }
        Some(text) => {
            let file = Path::new(text.strip_prefix('@').unwrap_or(text));
            if file.extension().is_some_and(|e| e == "npy") {
                npy::write(file, output)?;
            } else {
                write_whole(file, &output.to_bytes())
                    .with_context(|| file.display().to_string())?;
            }
        }
    }
    Ok(())
}
