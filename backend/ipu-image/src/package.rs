//! The package: one file, `model.ipuexe`, with everything that a device needs to run a function.
//!
//! It holds the image of every tile as segments of deduplicated blobs, the host bindings with
//! their layouts and addresses, the functions that the host computes before the first run, where it
//! comes from ([`Provenance`]), and what reports need: the steps with their locations and cycles,
//! symbols, and the program behind the images ([`Description`]). Weights are named, not contained.
//!
//! Invariants: the same package gives the same bytes. [`Package::from_bytes`] refuses any changed
//! byte, any truncation and any addition, and accepts only packages for which
//! [`Package::check`] holds; [`Package::to_bytes`] writes only such packages. So a loader may use
//! addresses, tiles and layouts of a package without checking them again.
//!
//! The file is described in [`container`].

mod check;
pub mod codec;
pub mod container;
mod description;
mod error;
mod host;
pub mod occupancy;
mod places;
#[cfg(test)]
mod tests;

pub use container::{FORMAT_VERSION, Header, Section};
pub use description::{
    BufferPlace, Description, Operation, Phase, PhaseBound, Provenance, Selection, StepDetail,
    runs_of,
};
pub use error::PackageError;
pub use host::{HostFunction, HostOp};
pub use places::StepPlaces;

use crate::memory::PeakMemory;
use ipu_program::layout::Layout;
use ipu_program::tile::{self, TileProgram};
use ipu_program::types::TensorType;
use ipu_target::Target;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// A function ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Version of the tools that wrote it.
    pub tool_version: String,
    /// Name of the target, as in the target description.
    pub target: String,
    /// What it was made of and how.
    pub provenance: Provenance,
    /// The function, its bindings and figures.
    pub metadata: Metadata,
    /// The program behind the images, for reports and checks.
    pub description: Description,
    /// Images of the tiles.
    pub images: Images,
    /// Symbols, by address, then name.
    pub symbols: Vec<Symbol>,
}

/// The function, its bindings and figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Name of the function.
    pub function: String,
    /// Types of its arguments.
    pub inputs: Vec<TensorType>,
    /// Types of its results.
    pub outputs: Vec<TensorType>,
    /// Address of the first instruction, the same on every tile.
    pub entry: u32,
    /// What the host does at each external sync, from the start of the program. After the last
    /// the program waits for inputs again.
    pub calls: Vec<HostCall>,
    /// What the host computes: from parameters and constants, and at each run from the inputs.
    pub host: Vec<HostFunction>,
    /// What the host writes and reads.
    pub bindings: Vec<Binding>,
    /// Supersteps in order.
    pub steps: Vec<StepSummary>,
    /// Where the supervisor programs hold the steps.
    pub places: Vec<StepPlaces>,
    /// Cycles of a run by the closed formulas of the plan search.
    pub estimated_cycles: u64,
    /// Cycles of a run by exchange rows and kernel laws.
    pub scheduled_cycles: u64,
    /// How full the fullest tile is.
    pub peak_memory: PeakMemory,
}

/// What the host does while the program waits at an external sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// Writes parameters, constants and what the host computes from them.
    Initialize,
    /// Writes the inputs of a run.
    Inputs,
    /// Reads the outputs of a run.
    Outputs,
}

impl HostCall {
    /// The calls of every program of this format version.
    pub const PROTOCOL: [HostCall; 3] = [HostCall::Initialize, HostCall::Inputs, HostCall::Outputs];
}

/// Where the data of a binding comes from or goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Argument of the function.
    Input(u32),
    /// Result of the function.
    Output(u32),
    /// A named tensor of the weights file.
    Parameter(String),
    /// One value (splat) or all, row-major.
    Constant(Vec<f32>),
    /// A result of a host function.
    Host {
        /// Number of the function in [`Metadata::host`].
        function: u32,
        /// Number of the result.
        result: u32,
    },
    /// A result of a host step: a host function that has the inputs of a run.
    HostStep {
        /// Number of the function in [`Metadata::host`].
        function: u32,
        /// Number of the result.
        result: u32,
    },
}

impl Source {
    /// The call at which the data moves.
    pub fn call(&self) -> HostCall {
        match self {
            Source::Input(_) | Source::HostStep { .. } => HostCall::Inputs,
            Source::Output(_) => HostCall::Outputs,
            Source::Parameter(_) | Source::Constant(_) | Source::Host { .. } => {
                HostCall::Initialize
            }
        }
    }
}

/// A buffer that the host writes or reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Where the data comes from or goes.
    pub source: Source,
    /// Type in the model.
    pub model: TensorType,
    /// Symbol of the buffer.
    pub name: String,
    /// Type in the buffer: the model's, broadcast and rounded.
    pub buffer: TensorType,
    /// Where the parts of the buffer live.
    pub layout: Layout,
    /// Byte address, the same on every tile of the layout.
    pub address: u32,
}

impl Binding {
    /// The bindings of a placed program, in its order.
    ///
    /// # Errors
    /// A bound buffer has no address, or is bound to a result of no host function.
    pub fn of_program(program: &TileProgram) -> Result<Vec<Binding>, PackageError> {
        program
            .bindings
            .iter()
            .map(|binding| {
                let buffer = program.buffer(binding.buffer);
                let (source, model) = match &binding.source {
                    tile::Source::Input(i) => (Source::Input(*i), &buffer.ty),
                    tile::Source::Output(i) => (Source::Output(*i), &buffer.ty),
                    tile::Source::Parameter { name, ty } => (Source::Parameter(name.clone()), ty),
                    tile::Source::Constant { ty, values } => (Source::Constant(values.clone()), ty),
                    &tile::Source::Host { function, result } => (
                        Source::Host { function, result },
                        host_type(program, buffer, function, result)?,
                    ),
                    &tile::Source::HostStep { function, result } => (
                        Source::HostStep { function, result },
                        host_type(program, buffer, function, result)?,
                    ),
                };
                Ok(Binding {
                    source,
                    model: model.clone(),
                    name: buffer.name.clone(),
                    buffer: buffer.ty.clone(),
                    layout: buffer.layout.clone(),
                    address: buffer.address.ok_or_else(|| PackageError::Unplaced {
                        buffer: buffer.name.clone(),
                    })?,
                })
            })
            .collect()
    }
}

/// The type in the model of a result of a host function.
fn host_type<'a>(
    program: &'a TileProgram,
    buffer: &tile::Buffer,
    function: u32,
    result: u32,
) -> Result<&'a TensorType, PackageError> {
    let ty = program.host_type(function, result);
    ty.ok_or_else(|| PackageError::HostResult {
        buffer: buffer.name.clone(),
        function,
        result,
    })
}

/// Kind of a superstep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    /// Tiles compute.
    Compute,
    /// Tiles exchange.
    Exchange,
}

/// One superstep, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSummary {
    /// Symbol.
    pub name: String,
    /// Kind.
    pub kind: StepKind,
    /// Source location.
    pub location: String,
    /// Cycles by exchange rows or kernel laws, syncs included.
    pub scheduled_cycles: u64,
}

/// Kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SymbolKind {
    /// Instructions.
    Code,
    /// Tables and records of the program.
    Data,
    /// A buffer of the program.
    Buffer,
}

/// A named place in tile memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Symbol {
    /// Byte address.
    pub address: u32,
    /// Name.
    pub name: String,
    /// Bytes.
    pub bytes: u32,
    /// Kind.
    pub kind: SymbolKind,
    /// The one tile that has it; `None` if all have it at this address.
    pub tile: Option<u32>,
}

/// A piece of a tile's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Byte address.
    pub address: u32,
    /// Index in [`Images::blobs`].
    pub blob: u32,
}

/// What the loader writes to one tile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileImage {
    /// Logical tile.
    pub tile: u32,
    /// Segments, by address.
    pub segments: Vec<Segment>,
}

/// The images of all tiles over shared blobs. Equal only if blobs and tiles are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    blobs: Vec<Vec<u8>>,
    tiles: Vec<TileImage>,
}

impl Images {
    /// Distinct contents of segments.
    pub fn blobs(&self) -> &[Vec<u8>] {
        &self.blobs
    }

    /// Tiles, ascending.
    pub fn tiles(&self) -> &[TileImage] {
        &self.tiles
    }

    /// Address and bytes of each segment of a tile.
    pub fn segments<'a>(
        &'a self,
        image: &'a TileImage,
    ) -> impl Iterator<Item = (u32, &'a [u8])> + 'a {
        image.segments.iter().filter_map(|s| {
            let blob = self.blobs.get(s.blob as usize)?;
            Some((s.address, blob.as_slice()))
        })
    }
}

/// Collects segments into [`Images`], storing equal contents once.
#[derive(Debug, Default)]
pub struct ImagesBuilder {
    blobs: Vec<Vec<u8>>,
    known: BTreeMap<[u8; 32], u32>,
    tiles: BTreeMap<u32, BTreeMap<u32, u32>>,
}

impl ImagesBuilder {
    /// An empty set of images.
    pub fn new() -> Self {
        ImagesBuilder::default()
    }

    /// Adds a blob and gives its number, that of the first equal one.
    pub fn blob(&mut self, bytes: &[u8]) -> u32 {
        *self
            .known
            .entry(Sha256::digest(bytes).into())
            .or_insert_with(|| {
                self.blobs.push(bytes.to_vec());
                self.blobs.len() as u32 - 1
            })
    }

    /// Adds a segment to a tile. Empty contents add nothing; a segment at the same address
    /// replaces the earlier one.
    pub fn segment(&mut self, tile: u32, address: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            let blob = self.blob(bytes);
            self.tiles.entry(tile).or_default().insert(address, blob);
        }
    }

    /// The images: tiles and segments sorted, blobs in order of first use.
    pub fn finish(self) -> Images {
        let mut number = vec![None; self.blobs.len()];
        let mut order = Vec::new();
        let tiles = self
            .tiles
            .into_iter()
            .map(|(tile, segments)| TileImage {
                tile,
                segments: segments
                    .into_iter()
                    .map(|(address, blob)| Segment {
                        address,
                        blob: *number[blob as usize].get_or_insert_with(|| {
                            order.push(blob as usize);
                            order.len() as u32 - 1
                        }),
                    })
                    .collect(),
            })
            .collect();
        let mut blobs = self.blobs;
        Images {
            blobs: order
                .into_iter()
                .map(|i| std::mem::take(&mut blobs[i]))
                .collect(),
            tiles,
        }
    }
}

impl Package {
    /// A package by these tools for a target.
    pub fn new(
        target: &Target,
        metadata: Metadata,
        images: Images,
        mut symbols: Vec<Symbol>,
    ) -> Self {
        symbols.sort();
        Package {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            target: target.name.clone(),
            provenance: Provenance::default(),
            metadata,
            description: Description::default(),
            images,
            symbols,
        }
    }

    /// Checks every address, tile, layout and number against the target and each other.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check(&self, target: &Target) -> Result<(), PackageError> {
        check::check(self, target)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`Package::check`] does not hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PackageError> {
        self.check(Target::ipu21())?;
        container::encode(self)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Anything in it is not as it was written, or [`Package::check`] does not hold.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PackageError> {
        let target = Target::ipu21();
        let package = container::decode(bytes, target)?;
        package.check(target)?;
        Ok(package)
    }

    /// Writes the file as a whole or not at all, as [`write_whole`].
    ///
    /// # Errors
    /// [`Package::check`] does not hold or the file cannot be written.
    pub fn write_atomic(&self, path: &Path) -> Result<(), PackageError> {
        write_whole(path, &self.to_bytes()?).map_err(|error| PackageError::Io {
            path: path.to_owned(),
            error,
        })
    }

    /// Reads a file from disk.
    ///
    /// # Errors
    /// The file cannot be read or [`Package::from_bytes`] refuses it.
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let bytes = std::fs::read(path).map_err(|error| PackageError::Io {
            path: path.to_owned(),
            error,
        })?;
        Package::from_bytes(&bytes)
    }
}

/// Writes a file as a whole or not at all: into a temporary file beside it, then renamed. What is
/// there and no ordinary file (a device, a pipe) is written in place.
///
/// # Errors
/// The file cannot be written; then nothing of it is left behind.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return std::fs::write(path, bytes);
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".ipu-")
        .tempfile_in(parent.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    make_readable(file.as_file())?;
    file.persist(path)?;
    Ok(())
}

/// Temporary files are private; results are ordinary files.
fn make_readable(file: &std::fs::File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
