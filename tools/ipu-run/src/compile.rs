//! Model text to a package, stage by stage.

use crate::cli::Cli;
use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use ipu_image::package::{Package, write_whole};
use ipu_passes::registry::{Options, stages};
use ipu_passes::session::{Candidate, Lowered, Session};
use ipu_program::graph::Graph;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// Stages by name, for `--compile_to`.
pub const STAGES: [&str; 7] = [
    "select", "tile", "layouts", "phases", "storage", "pick", "package",
];

/// How far a model is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Not at all.
    Model,
    /// To a package.
    Code,
    /// To a package, with the forms that it comes from.
    Levels,
}

/// A compiled model.
pub struct Compiled {
    /// The model, for the reference.
    pub graph: Graph,
    /// Tile code; absent when compilation was to stop earlier.
    pub package: Option<Package>,
    /// What the code comes from, for interpreters; read only when it is asked for.
    pub lowered: Option<Lowered>,
}

/// Prints stages with their times, and shows the running one on a terminal.
pub struct Progress {
    quiet: bool,
    bar: ProgressBar,
}

impl Progress {
    /// Progress on standard error.
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar.set_style(ProgressStyle::default_spinner());
            bar
        };
        Progress { quiet, bar }
    }

    /// Runs a stage.
    pub fn stage<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.bar.set_message(name.to_owned());
        let start = Instant::now();
        let result = work();
        if result.is_ok() && !self.quiet {
            self.bar
                .suspend(|| sayln!("{name:<12} {:>9.3} s", start.elapsed().as_secs_f64()));
        }
        result
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Compiles a model file as far as the command line asks.
///
/// # Errors
/// Located diagnostics of the parser, the verifier or a pass.
pub fn compile(cli: &Cli, path: &Path, progress: &Progress, needs: Needs) -> Result<Compiled> {
    let file = path.display().to_string();
    let text = std::fs::read(path).with_context(|| file.clone())?;
    let session = Session::new();
    let mut model = progress.stage("parse", || Ok(session.parse(&text, &file)?))?;
    let defaults = Options::default();
    let function = cli.function.clone().unwrap_or(defaults.function);
    let graph = model.graph(&function)?;
    if needs == Needs::Model {
        return Ok(Compiled {
            graph,
            package: None,
            lowered: None,
        });
    }
    let options = Options {
        tiles: cli.tiles.unwrap_or(defaults.tiles),
        partials: cli
            .partials
            .map_or(defaults.partials, |p| p.option().to_owned()),
        finalists: cli.finalists.unwrap_or(defaults.finalists),
        function,
        hints: defaults.hints,
        explain: true,
    };
    if let Some(dir) = &cli.dump_compilation_phases_to {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut selected = Vec::new();
    for (i, (name, pipeline)) in stages(&options).into_iter().enumerate() {
        progress.stage(name, || Ok(model.run(&pipeline)?))?;
        if needs == Needs::Levels && name == "select" {
            selected = model.candidates()?;
        }
        if let Some(dir) = &cli.dump_compilation_phases_to {
            let to = dir.join(format!("{}.{name}.mlir", i + 1));
            write_whole(&to, model.text().as_bytes()).with_context(|| to.display().to_string())?;
        }
        if cli.compile_to.as_deref() == Some(name) {
            say!("{}", model.text());
            return Ok(Compiled {
                graph,
                package: None,
                lowered: None,
            });
        }
    }
    let package = model.finish(&options)?;
    let lowered = match needs {
        Needs::Levels => Some(lowered(selected, model.candidates()?)?),
        Needs::Model | Needs::Code => None,
    };
    Ok(Compiled {
        graph,
        package: Some(package),
        lowered,
    })
}

/// The picked candidate in both of its forms.
fn lowered(
    selected: Vec<(String, Candidate)>,
    picked: Vec<(String, Candidate)>,
) -> Result<Lowered> {
    let tiles = picked.into_iter().find_map(|(name, c)| match c {
        Candidate::Tiles(tiles) => Some((name, tiles)),
        Candidate::Graph(_) => None,
    });
    let (name, tiles) = tiles.context("the pipeline left no tile program")?;
    let graph = selected.into_iter().find_map(|(n, c)| match c {
        Candidate::Graph(graph) if n == name => Some(graph),
        _ => None,
    });
    let graph = graph.with_context(|| format!("no operators were selected for @{name}"))?;
    Ok(Lowered::new(graph, tiles)?)
}
