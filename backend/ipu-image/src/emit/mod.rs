//! Emission: a placed and scheduled tile program to the images of all tiles.
//!
//! Memory of a tile, from `load_base` on: the start code, the kernels that the program uses, the
//! tile's own supervisor program (all below the host window); exchange rows in elements of their
//! own; the runtime state with the workers' scratch; behind it the argument records; then data.

pub mod cache;
mod code;
mod rows;

pub use code::kernel_source;
pub use rows::RowEncoder;

use crate::memory::{self, PeakMemory};
use crate::package::{
    Binding, Description, HostCall, HostFunction, ImagesBuilder, Metadata, Package, PackageError,
    StepKind, StepPlaces, StepSummary, Symbol, SymbolKind,
};
use crate::timeline::timeline;
use ipu_exchange::check::{AbsoluteTransfer, CheckError, EncodedRow, check};
use ipu_exchange::row::RowError;
use ipu_isa::EncodeError;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{BufferId, Copy, Source, Step, TileProgram};
use ipu_target::Target;
use std::collections::BTreeMap;

/// A program that cannot be emitted.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// A pass before emission did not run.
    #[error("step '{step}' {why}")]
    NotReady {
        /// Step symbol.
        step: String,
        /// What is missing.
        why: &'static str,
    },
    /// A buffer without an address.
    #[error("buffer '{0}' has no address; run ipu-place-storage first")]
    Unplaced(String),
    /// A kernel is not in the registry, or its source is not part of the tools.
    #[error("step '{step}': kernel '{kernel}' has no code")]
    Kernel {
        /// Step symbol.
        step: String,
        /// Kernel.
        kernel: String,
    },
    /// A kernel does not assemble.
    #[error("kernel '{kernel}' does not assemble:\n{text}")]
    Assemble {
        /// Kernel.
        kernel: String,
        /// The assembler's diagnostics.
        text: String,
    },
    /// The kernels do not link.
    #[error("linking the tile code: {0}")]
    Link(String),
    /// An area of tile memory is too small.
    #[error(
        "{what} of tile {tile} needs {needed} bytes, {available} are reserved for it: the model has \
         too many steps for one program, split it"
    )]
    Area {
        /// What is too large.
        what: &'static str,
        /// Logical tile.
        tile: u32,
        /// Bytes needed.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// A row cannot be encoded.
    #[error("exchange '{step}': {error}")]
    Row {
        /// Step symbol.
        step: String,
        /// Why.
        error: RowError,
    },
    /// An instruction field does not hold its value.
    #[error("supervisor code: {0}")]
    Encode(#[from] EncodeError),
    /// The independent checker refuses a phase: an error of the compiler.
    #[error("exchange '{step}' is not legal: {error}")]
    Check {
        /// Step symbol.
        step: String,
        /// Violation.
        error: CheckError,
    },
    /// The package refuses the images.
    #[error(transparent)]
    Package(#[from] PackageError),
}

/// First byte of the argument records, behind the runtime state.
fn records_base(target: &Target) -> u32 {
    target.runtime_state_base + target.runtime_state_bytes
}

/// One past the last byte that argument records of a program may take on any tile: what follows
/// is free for rows and data. A record is a word for each buffer and each word argument, then its
/// table.
pub fn records_end(program: &TileProgram, target: &Target) -> u32 {
    let mut words: BTreeMap<u32, usize> = BTreeMap::new();
    for step in &program.steps {
        if let Step::Compute(c) = step {
            let width = c.words.len() / c.tiles.len().max(1);
            for &tile in &c.tiles {
                *words.entry(tile).or_default() += c.buffers.len() + width;
            }
        }
    }
    let most = words.into_values().max().unwrap_or(0);
    u32::try_from(4 * most)
        .ok()
        .and_then(|bytes| records_base(target).checked_add(bytes))
        .unwrap_or(u32::MAX)
}

/// Emits a program.
///
/// # Errors
/// A pass before emission is missing, or an area of memory is too small.
pub fn emit(
    program: &TileProgram,
    target: &Target,
    kernels: &Kernels,
    estimated_cycles: u64,
) -> Result<Package, EmitError> {
    let address = |b: BufferId| -> Result<u32, EmitError> {
        let buffer = program.buffer(b);
        buffer
            .address
            .ok_or_else(|| EmitError::Unplaced(buffer.name.clone()))
    };
    let linked = code::link_kernels(program, target, kernels)?;
    let mut tiles: Vec<Tile> = (0..target.tiles).map(|_| Tile::default()).collect();
    let main = code::Formats::load()?;
    for step in &program.steps {
        for t in &mut tiles {
            t.starts.push(t.main.len());
        }
        match step {
            Step::Compute(c) => {
                let missing = || EmitError::Kernel {
                    step: c.name.clone(),
                    kernel: c.kernel.clone(),
                };
                let kernel = kernels.get(&c.kernel).ok_or_else(missing)?;
                let entry = *linked.entries.get(&c.kernel).ok_or_else(missing)?;
                let pointers = c
                    .buffers
                    .iter()
                    .map(|&b| address(b))
                    .collect::<Result<Vec<_>, _>>()?;
                let wrong = |why| EmitError::NotReady {
                    step: c.name.clone(),
                    why,
                };
                let width = kernel
                    .record_words(c.words.len(), c.tiles.len())
                    .ok_or_else(|| wrong("has words that are not those of its kernel"))?;
                for (i, &tile) in c.tiles.iter().enumerate() {
                    let words = &c.words[i * width..][..width];
                    let t = tiles
                        .get_mut(tile as usize)
                        .ok_or_else(|| wrong("runs on a tile that does not exist"))?;
                    let record = records_base(target) + 4 * t.records.len() as u32;
                    t.records.extend(pointers.iter().copied());
                    t.records.extend(words);
                    main.call_kernel(&mut t.main, record, entry)?;
                }
            }
            Step::Exchange {
                name,
                copies,
                schedule,
                ..
            } => {
                let not_ready = |why| EmitError::NotReady {
                    step: name.clone(),
                    why,
                };
                let schedule = schedule
                    .as_ref()
                    .ok_or_else(|| not_ready("has no schedule; run ipu-phase-exchanges first"))?;
                let area = program.rows_area.ok_or_else(|| {
                    not_ready("has no memory for rows; run ipu-place-storage first")
                })?;
                let mut encoded = Vec::new();
                for row in &schedule.rows {
                    let words = rows::encode_row(&main, target, row, &address)
                        .map_err(|e| e.into_emit(name))?;
                    let Some(t) = tiles.get_mut(row.tile as usize) else {
                        return Err(not_ready("has a row on a tile that does not exist"));
                    };
                    let at = area.address + 4 * t.rows.len() as u32;
                    main.exchange(&mut t.main, at)?;
                    t.rows.extend(&words);
                    // Rows are 8-byte aligned.
                    if !t.rows.len().is_multiple_of(2) {
                        t.rows.push(ipu_isa::NOP);
                    }
                    t.in_phase = true;
                    encoded.push(EncodedRow {
                        tile: row.tile,
                        address: Some(at),
                        words,
                    });
                }
                for t in &mut tiles {
                    if !std::mem::take(&mut t.in_phase) {
                        main.sync(&mut t.main, code::ZONE_INTERNAL)?;
                    }
                }
                check(target, &encoded, &absolute(copies, &address)?).map_err(|error| {
                    EmitError::Check {
                        step: name.clone(),
                        error,
                    }
                })?;
            }
            Step::Rearrange { name, .. } => {
                return Err(EmitError::NotReady {
                    step: name.clone(),
                    why: "is a rearrangement; run ipu-convert-layouts first",
                });
            }
        }
    }

    let mut images = ImagesBuilder::new();
    let rows_bytes = program.rows_area.map_or(0, |a| a.bytes);
    let records_bytes = records_end(program, target).saturating_sub(records_base(target));
    let mut places = Vec::new();
    for (tile, t) in (0..).zip(&tiles) {
        let mut words = Vec::new();
        main.sync(&mut words, code::ZONE_HOST)?;
        let again = linked.main + 4 * words.len() as u32;
        main.sync(&mut words, code::ZONE_HOST)?;
        let first = linked.main + 4 * words.len() as u32;
        let address = |&at: &usize| first + 4 * at as u32;
        let starts = t.starts.iter().map(address);
        places.push(starts.chain([address(&t.main.len())]).collect());
        words.extend(&t.main);
        main.sync(&mut words, code::ZONE_HOST)?;
        main.jump(&mut words, again)?;
        let areas = [
            (
                "supervisor code",
                linked.main,
                &words,
                target.host_window_base - linked.main,
            ),
            (
                "argument records",
                records_base(target),
                &t.records,
                records_bytes,
            ),
            (
                "exchange rows",
                program.rows_area.map_or(0, |a| a.address),
                &t.rows,
                rows_bytes,
            ),
        ];
        images.segment(tile, target.load_base, &linked.image.bytes);
        for (what, at, words, available) in areas {
            let needed = 4 * words.len() as u32;
            if needed > available {
                return Err(EmitError::Area {
                    what,
                    tile,
                    needed,
                    available,
                });
            }
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            images.segment(tile, at, &bytes);
        }
    }
    let mut metadata = metadata(program, target, kernels, estimated_cycles)?;
    let images = images.finish();
    metadata.places = StepPlaces::group(places);
    metadata.peak_memory = memory::peak(program, &images, target);
    let mut package = Package::new(target, metadata, images, symbols(program, &linked));
    package.description = Description {
        runtime_state: (target.runtime_state_base, target.runtime_state_bytes),
        ..Description::of_program(program, without_folder)
    };
    package.check(target)?;
    Ok(package)
}

/// What is collected for one tile.
#[derive(Default)]
struct Tile {
    main: Vec<u32>,
    /// Words of `main` before each step.
    starts: Vec<usize>,
    records: Vec<u32>,
    rows: Vec<u32>,
    in_phase: bool,
}

fn absolute(
    copies: &[Copy],
    address: &dyn Fn(BufferId) -> Result<u32, EmitError>,
) -> Result<Vec<AbsoluteTransfer>, EmitError> {
    let mut out = Vec::new();
    for c in copies {
        let (from, to) = (address(c.source)?, address(c.destination)?);
        out.extend(c.transfers.iter().map(|t| {
            AbsoluteTransfer {
                source: t.source,
                source_address: from + t.source_offset,
                words: t.words,
                destinations: t
                    .destinations
                    .iter()
                    .map(|&(tile, o)| (tile, to + o))
                    .collect(),
            }
        }));
    }
    Ok(out)
}

fn metadata(
    program: &TileProgram,
    target: &Target,
    kernels: &Kernels,
    estimated_cycles: u64,
) -> Result<Metadata, EmitError> {
    let mut inputs = BTreeMap::new();
    let mut outputs = BTreeMap::new();
    for b in &program.bindings {
        let ty = &program.buffer(b.buffer).ty;
        match b.source {
            Source::Input(i) => drop(inputs.insert(i, ty.clone())),
            Source::Output(i) => drop(outputs.insert(i, ty.clone())),
            Source::Parameter { .. }
            | Source::Constant { .. }
            | Source::Host { .. }
            | Source::HostStep { .. } => {}
        }
    }
    // Host steps know all inputs, also those that only they read.
    for function in &program.host {
        for (i, &v) in (0..).zip(&function.inputs) {
            inputs.insert(i, function.ty(v).clone());
        }
    }
    let times = timeline(program, target, kernels);
    let steps = program
        .steps
        .iter()
        .zip(&times.steps)
        .map(|(step, &scheduled_cycles)| {
            let (kind, location) = match step {
                Step::Compute(c) => (StepKind::Compute, &c.location),
                Step::Exchange { location, .. } | Step::Rearrange { location, .. } => {
                    (StepKind::Exchange, location)
                }
            };
            StepSummary {
                name: step.name().to_owned(),
                kind,
                location: without_folder(location),
                scheduled_cycles,
            }
        })
        .collect();
    let mut host = HostFunction::of_program(program)?;
    for op in host.iter_mut().flat_map(|f| &mut f.ops) {
        op.location = without_folder(&op.location);
    }
    Ok(Metadata {
        function: program.name.clone(),
        inputs: inputs.into_values().collect(),
        outputs: outputs.into_values().collect(),
        entry: target.load_base,
        calls: HostCall::PROTOCOL.to_vec(),
        host,
        bindings: Binding::of_program(program)?,
        steps,
        places: Vec::new(),
        estimated_cycles,
        scheduled_cycles: times.total,
        peak_memory: PeakMemory::default(),
    })
}

/// A location in a package: the same model gives the same package wherever it lies.
fn without_folder(location: &str) -> String {
    location.rsplit('/').next().unwrap_or_default().to_owned()
}

fn symbols(program: &TileProgram, linked: &code::Linked) -> Vec<Symbol> {
    let mut out = linked.symbols();
    for b in &program.buffers {
        if let Some(address) = b.address {
            out.push(Symbol {
                address,
                name: b.name.clone(),
                bytes: b.bytes(),
                kind: SymbolKind::Buffer,
                tile: None,
            });
        }
    }
    out
}
