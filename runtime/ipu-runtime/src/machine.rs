//! What the host protocol needs of a chip; implemented by the simulator, and by fakes in tests.

use ipu_image::package::{Metadata, StepKind, Symbol, SymbolKind};
use ipu_simulator::{Chip, IssueEvent, Reason, SimError, Stop, Symbols};

/// The zone of internal syncs.
const INTERNAL_ZONE: u8 = 3;

/// Why a machine failed.
pub type MachineError = Box<dyn std::error::Error + Send + Sync>;

/// Where a machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// All started tiles wait for the host.
    HostSync,
    /// All started tiles wait for each other ([`Machine::pause_at_syncs`]).
    InternalSync,
    /// All started tiles ended, at this clock.
    Ended(u64),
}

/// One sync of all started tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// Whether the host takes part.
    pub host: bool,
    /// Clock at which the last tile arrived.
    pub arrival: u64,
    /// Clock at which all tiles go on.
    pub release: u64,
    /// Clocks that the last tile spent in exchange rows since the release before.
    pub row_cycles: u64,
}

/// A chip with memories that the host can reach while all tiles wait for it.
pub trait Machine {
    /// Writes one segment of an image to several tiles.
    ///
    /// # Errors
    /// A tile does not exist or the range leaves tile memory.
    fn load(&mut self, tiles: &[u32], address: u32, bytes: &[u8]) -> Result<(), MachineError>;

    /// Starts the supervisor of a tile.
    ///
    /// # Errors
    /// The tile does not exist.
    fn start(&mut self, tile: u32, entry: u32) -> Result<(), MachineError>;

    /// Releases the tiles from the sync at which they wait, if they do, and runs to the next host
    /// sync.
    ///
    /// # Errors
    /// A fault, a deadlock, or more than `max_cycles`.
    fn run(&mut self, max_cycles: u64) -> Result<Halt, MachineError>;

    /// Writes the memory of a tile.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn write(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), MachineError>;

    /// Reads the memory of a tile.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn read(&self, tile: u32, address: u32, bytes: usize) -> Result<Vec<u8>, MachineError>;

    /// All syncs since the start, in order.
    fn syncs(&self) -> Vec<SyncRecord>;

    /// Lets [`Machine::run`] stop at internal syncs as well, or no longer. Whether the machine can.
    fn pause_at_syncs(&mut self, _pause: bool) -> bool {
        false
    }

    /// Prints every instruction that the tiles issue from now on to standard error, where the
    /// machine can.
    ///
    /// # Errors
    /// A tile does not exist.
    fn trace(&mut self, _tiles: &[u32], _symbols: &[Symbol]) -> Result<(), MachineError> {
        Ok(())
    }

    /// Lets [`Machine::run`] stop before the instruction at an address of a tile, where the machine
    /// can.
    ///
    /// # Errors
    /// The tile does not exist.
    fn break_at(&mut self, _tile: u32, _address: u32) -> Result<(), MachineError> {
        Ok(())
    }

    /// Takes back [`Machine::break_at`].
    ///
    /// # Errors
    /// The tile does not exist.
    fn forget_break(&mut self, _tile: u32, _address: u32) -> Result<(), MachineError> {
        Ok(())
    }

    /// The tile and the address of a stop at a breakpoint.
    fn stopped_at(&self, _error: &MachineError) -> Option<(u32, u32)> {
        None
    }

    /// Lets [`Machine::run`] stop after an instruction that changes memory of a tile, where the
    /// machine can.
    ///
    /// # Errors
    /// The tile does not exist or the range leaves tile memory.
    fn watch(&mut self, _tile: u32, _address: u32, _bytes: usize) -> Result<(), MachineError> {
        Ok(())
    }

    /// Whether an error of [`Machine::run`] is such a stop, so that the next run goes on.
    fn is_stop(&self, _error: &MachineError) -> bool {
        false
    }

    /// An error of [`Machine::run`] with all that the machine knows about it.
    fn explain(&self, error: &MachineError, _symbols: &[Symbol], _metadata: &Metadata) -> String {
        error.to_string()
    }
}

/// Names of code, for traces and reports.
pub(crate) fn names(symbols: &[Symbol]) -> Symbols {
    Symbols::new(
        symbols
            .iter()
            .filter(|s| s.kind == SymbolKind::Code)
            .map(|s| (s.name.clone(), s.address)),
    )
}

/// The link register of kernels and rows.
const LINK: usize = 10;

/// The superstep that a tile is in while its supervisor is at an address. Kernels and rows are
/// called from the tile's supervisor program: either the address is in that program, or the one
/// from which it was called is.
fn origin(chip: &Chip, metadata: &Metadata, tile: u32, pc: u32) -> Option<String> {
    let link = chip.supervisor_registers(tile).ok()?.m[LINK];
    let (number, step) = metadata
        .step_at(tile, pc)
        .or_else(|| metadata.step_at(tile, link.wrapping_sub(4)))?;
    let kind = match step.kind {
        StepKind::Compute => "compute",
        StepKind::Exchange => "exchange",
    };
    let (number, all) = (number + 1, metadata.steps.len());
    Some(format!(
        "superstep {number} of {all}, {kind} '{}' at {}",
        step.name, step.location
    ))
}

impl Machine for Chip {
    fn trace(&mut self, tiles: &[u32], symbols: &[Symbol]) -> Result<(), MachineError> {
        let names = names(symbols);
        let print = move |event: &IssueEvent<'_>| {
            eprintln!(
                "{:>8} tile {} {} {:#07x} {}  {}",
                event.cycle,
                event.tile,
                event.context,
                event.pc,
                names.name(event.pc).unwrap_or_default(),
                event.text()
            );
        };
        Ok(self.observe(tiles.iter().copied(), print)?)
    }

    fn break_at(&mut self, tile: u32, address: u32) -> Result<(), MachineError> {
        Ok(Chip::break_at(self, tile, address)?)
    }

    fn forget_break(&mut self, tile: u32, address: u32) -> Result<(), MachineError> {
        Ok(Chip::forget_break(self, tile, address)?)
    }

    fn stopped_at(&self, error: &MachineError) -> Option<(u32, u32)> {
        match error.downcast_ref::<SimError>()? {
            SimError::Fault(fault) if fault.reason == Reason::Break => Some((fault.tile, fault.pc)),
            _ => None,
        }
    }

    fn watch(&mut self, tile: u32, address: u32, bytes: usize) -> Result<(), MachineError> {
        Ok(Chip::watch(self, tile, address, bytes)?)
    }

    fn is_stop(&self, error: &MachineError) -> bool {
        let error = error.downcast_ref::<SimError>();
        error.is_some_and(|error| {
            let SimError::Fault(fault) = error else {
                return false;
            };
            matches!(fault.reason, Reason::Break | Reason::Watch { .. })
        })
    }

    fn explain(&self, error: &MachineError, symbols: &[Symbol], metadata: &Metadata) -> String {
        match error.downcast_ref::<SimError>() {
            Some(error) => self
                .report(error, &names(symbols), |tile, pc| {
                    origin(self, metadata, tile, pc)
                })
                .trim_end()
                .to_owned(),
            None => error.to_string(),
        }
    }

    fn load(&mut self, tiles: &[u32], address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        Ok(self.load_shared(tiles.iter().copied(), address, bytes)?)
    }

    fn start(&mut self, tile: u32, entry: u32) -> Result<(), MachineError> {
        Ok(Chip::start(self, tile, entry)?)
    }

    fn run(&mut self, max_cycles: u64) -> Result<Halt, MachineError> {
        match Chip::run(self, max_cycles)? {
            Stop::HostSync { .. } => Ok(Halt::HostSync),
            Stop::InternalSync { .. } => Ok(Halt::InternalSync),
            Stop::Halted { cycle } => Ok(Halt::Ended(cycle)),
        }
    }

    fn write(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        Ok(Chip::write(self, tile, address, bytes)?)
    }

    fn read(&self, tile: u32, address: u32, bytes: usize) -> Result<Vec<u8>, MachineError> {
        Ok(Chip::read(self, tile, address, bytes)?)
    }

    fn pause_at_syncs(&mut self, pause: bool) -> bool {
        Chip::pause_at_syncs(self, pause);
        true
    }

    fn syncs(&self) -> Vec<SyncRecord> {
        Chip::syncs(self)
            .iter()
            .map(|s| SyncRecord {
                host: s.zone != INTERNAL_ZONE,
                arrival: s.arrival_cycle,
                release: s.release_cycle,
                row_cycles: s.row_cycles,
            })
            .collect()
    }
}
