//! A compilation for tools: parse, run stages, look at the result. No MLIR type shows.

use crate::registry::Options;
use ipu_dialects::context::{context, parse_guarded, run_pipeline};
use ipu_dialects::diag::{Diagnostic, capture};
use ipu_dialects::{graph, ipu, ir, tile};
use ipu_image::package::{Operation, Package, PackageError, Provenance};
use ipu_program::graph::{Graph, ValueId};
use ipu_program::kernels::Kernels;
use ipu_program::tile::{BufferId, TileProgram};
use ipu_target::Target;
use melior::Context;
use melior::ir::Module;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Elements of a table that a dump shows before it is elided.
const ELIDE_LARGER: usize = 16;

/// Characters of a line of the model that a package keeps.
const LINE_MAX: usize = 200;

/// The name of the operation that a line of IR holds, in pretty or generic form; empty if there is
/// none.
fn operation_name(line: &str) -> &str {
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '('));
    let is_name = |w: &&str| {
        let dialect = w
            .split_once('.')
            .filter(|(d, op)| !d.is_empty() && !op.is_empty());
        dialect.is_some_and(|(d, _)| d.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    words.into_iter().find(is_name).unwrap_or_default()
}

/// What holds the IR; one for each compilation, on a thread with a big stack
/// ([`ipu_dialects::context::with_big_stack`]).
pub struct Session(Context);

/// Located diagnostics, one a line, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct CompileError(pub Vec<Diagnostic>);

impl CompileError {
    fn plain(message: String) -> Self {
        CompileError(vec![Diagnostic::error(None, message)])
    }
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// A context with our dialects and passes.
    pub fn new() -> Self {
        crate::register_all();
        Session(context())
    }

    /// Whether passes work on several candidates at once; the result is the same.
    pub fn set_threads(&self, on: bool) {
        self.0.enable_multi_threading(on);
    }

    /// Parses and verifies a model.
    ///
    /// # Errors
    /// Located diagnostics.
    pub fn parse(&self, text: &[u8], file: &str) -> Result<Compilation<'_>, CompileError> {
        let module = parse_guarded(&self.0, text, file).map_err(CompileError)?;
        Ok(Compilation {
            context: &self.0,
            module,
            file: file.to_owned(),
            source: text.to_owned(),
            explanation: None,
        })
    }
}

/// What a candidate holds at the present stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// Operators with their plans.
    Graph(Graph),
    /// Steps of tiles.
    Tiles(TileProgram),
}

/// The two forms of a candidate, and which value is where.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// Operators with their plans.
    pub selected: Graph,
    /// What became of them.
    pub tiles: TileProgram,
    /// Buffers of `tiles` that hold a value of `selected`, as a whole or a part.
    pub values: Vec<(BufferId, ValueId)>,
}

impl Lowered {
    /// Finds the values of a graph in the tile program that came of it, at whatever stage.
    ///
    /// # Errors
    /// The graph has no plans.
    pub fn new(selected: Graph, tiles: TileProgram) -> Result<Self, CompileError> {
        let held = crate::tile::values(&selected, Kernels::builtin())
            .map_err(|e| CompileError::plain(format!("{}: error: {e}", e.location)))?;
        let ids: BTreeMap<&str, BufferId> = tiles
            .buffers
            .iter()
            .zip(0..)
            .map(|(b, i)| (b.name.as_str(), BufferId(i)))
            .collect();
        let known = held.iter();
        let values = known.filter_map(|(name, v)| Some((*ids.get(name.as_str())?, *v)));
        let values = values.collect();
        Ok(Lowered {
            values,
            selected,
            tiles,
        })
    }
}

/// A model on its way to a package.
pub struct Compilation<'c> {
    context: &'c Context,
    module: Module<'c>,
    file: String,
    /// The text of the model.
    source: Vec<u8>,
    /// Why each operator has its plan, taken from the IR, where it would be in the way of readers.
    explanation: Option<String>,
}

impl Compilation<'_> {
    /// The graph of a function, before any stage has run.
    ///
    /// # Errors
    /// No such function, or operations that are not of the model dialect, all of them.
    pub fn graph(&self, function: &str) -> Result<Graph, CompileError> {
        let functions: Vec<_> = ir::block_ops(self.module.body())
            .filter(|op| ir::name(*op) == "func.func")
            .map(|op| {
                (
                    ir::string(op, "sym_name").unwrap_or_default().to_owned(),
                    op,
                )
            })
            .collect();
        let Some((_, op)) = functions.iter().find(|f| f.0 == function) else {
            let known: Vec<_> = functions.into_iter().map(|f| f.0).collect();
            return Err(CompileError::plain(format!(
                "{}: no function '{function}', the module has: {}",
                self.file,
                known.join(", ")
            )));
        };
        let (found, errors) = capture(self.context, || graph::read(*op));
        found.map_err(|_| CompileError(errors))
    }

    /// Runs a pipeline.
    ///
    /// # Errors
    /// Located diagnostics of a pass or the verifier.
    pub fn run(&mut self, pipeline: &str) -> Result<(), CompileError> {
        run_pipeline(&mut self.module, pipeline)
            .map(drop)
            .map_err(CompileError)?;
        if let Some(text) = ipu::take_explanation(self.module.as_operation()) {
            self.explanation = Some(text);
        }
        Ok(())
    }

    /// The candidates at the present stage by name, for interpreters; none before operators are
    /// selected.
    ///
    /// # Errors
    /// Located diagnostics of what cannot be read.
    pub fn candidates(&self) -> Result<Vec<(String, Candidate)>, CompileError> {
        let (found, errors) = capture(self.context, || {
            ir::block_ops(self.module.body())
                .filter(|op| ir::name(*op) == "ipu.candidate")
                .flat_map(|candidate| {
                    let name = ir::string(candidate, "sym_name")
                        .unwrap_or_default()
                        .to_owned();
                    ir::body_ops(candidate).map(move |op| (name.clone(), op))
                })
                .filter_map(|(name, op)| match ir::name(op).as_str() {
                    "func.func" => Some(graph::read(op).map(|g| (name, Candidate::Graph(g)))),
                    "tile.program" => Some(tile::read(op).map(|t| (name, Candidate::Tiles(t)))),
                    _ => None,
                })
                .collect::<Result<Vec<_>, _>>()
        });
        found.map_err(|_| CompileError(errors))
    }

    /// The IR as text, long tables and resources elided.
    pub fn text(&self) -> String {
        ir::text(&self.module, ELIDE_LARGER)
    }

    /// The bytes of the `ipu.package` that emission left.
    ///
    /// # Errors
    /// There is none.
    pub fn package(&self) -> Result<Vec<u8>, CompileError> {
        let found = ir::block_ops(self.module.body()).find(|op| ir::name(*op) == "ipu.package");
        let Some(op) = found else {
            return Err(CompileError::plain(format!(
                "{}: the pipeline left no package",
                self.file
            )));
        };
        let (package, errors) = capture(self.context, || ipu::read_package(op));
        package.map(|p| p.bytes).map_err(|_| CompileError(errors))
    }

    /// The package that emission left, with where it comes from: the model, its lines and `options`,
    /// those of the pipeline that ran.
    ///
    /// # Errors
    /// There is none, or it is not legal.
    pub fn finish(&self, options: &Options) -> Result<Package, CompileError> {
        let refused = |e: PackageError| CompileError::plain(format!("{}: {e}", self.file));
        let mut package = Package::from_bytes(&self.package()?).map_err(refused)?;
        let name = self.file.rsplit('/').next().unwrap_or_default();
        package.provenance = Provenance {
            input: name.to_owned(),
            input_sha256: Sha256::digest(&self.source).into(),
            flags: options.flags(),
            seed: None,
        };
        package.description.operations = self.operations(&package);
        if let Some(text) = &self.explanation {
            package.description.selection.explanation.clone_from(text);
        }
        package.check(Target::ipu21()).map_err(refused)?;
        Ok(package)
    }

    /// The lines of the model that steps and buffers of a package come from.
    fn operations(&self, package: &Package) -> Vec<Operation> {
        let Ok(text) = std::str::from_utf8(&self.source) else {
            return Vec::new();
        };
        let lines: Vec<&str> = text.lines().collect();
        let steps = package.metadata.steps.iter().map(|s| &s.location);
        let buffers = package.description.buffers.iter().map(|b| &b.location);
        let locations: BTreeSet<&String> = steps.chain(buffers).collect();
        let known = locations.into_iter().filter_map(|location| {
            let mut parts = location.rsplit(':');
            let (_column, line) = (parts.next()?, parts.next()?.parse::<usize>().ok()?);
            let text = lines.get(line.checked_sub(1)?)?.trim();
            Some(Operation {
                location: location.clone(),
                name: operation_name(text).to_owned(),
                text: text.chars().take(LINE_MAX).collect(),
            })
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::operation_name;

    #[test]
    fn names_of_operations() {
        for (line, name) in [
            (
                "%0 = nn.matmul %x, %w : (tensor<2x3xf16>) -> tensor<2xf16>",
                "nn.matmul",
            ),
            ("%1:2 = \"nn.repeat\"(%0) : () -> ()", "nn.repeat"),
            (
                "func.func @main(%x: tensor<2xf16>) -> tensor<2xf16> {",
                "func.func",
            ),
            ("return %0 : tensor<2xf16>", ""),
            ("// 1.5 is a number, x.y is not", "x.y"),
            ("", ""),
        ] {
            assert_eq!(operation_name(line), name, "{line}");
        }
    }
}
