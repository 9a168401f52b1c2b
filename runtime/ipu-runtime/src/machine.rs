//! What the host protocol needs of a chip; implemented by the simulator, and by fakes in tests.

use ipu_image::package::{Symbol, SymbolKind};
use ipu_simulator::{Chip, IssueEvent, SimError, Stop, Symbols};

/// The zone of internal syncs.
const INTERNAL_ZONE: u8 = 3;

/// Why a machine failed.
pub type MachineError = Box<dyn std::error::Error + Send + Sync>;

/// Where a machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// All started tiles wait for the host.
    HostSync,
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

    /// Releases the tiles from the host sync at which they wait, if they do, and runs to the next
    /// one.
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

    /// Prints every instruction that the tiles issue from now on to standard error, where the
    /// machine can.
    ///
    /// # Errors
    /// A tile does not exist.
    fn trace(&mut self, _tiles: &[u32], _symbols: &[Symbol]) -> Result<(), MachineError> {
        Ok(())
    }

    /// An error of [`Machine::run`] with all that the machine knows about it.
    fn explain(&self, error: &MachineError, _symbols: &[Symbol]) -> String {
        error.to_string()
    }
}

/// Names of code, for traces and reports.
fn names(symbols: &[Symbol]) -> Symbols {
    Symbols::new(
        symbols
            .iter()
            .filter(|s| s.kind == SymbolKind::Code)
            .map(|s| (s.name.clone(), s.address)),
    )
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

    fn explain(&self, error: &MachineError, symbols: &[Symbol]) -> String {
        match error.downcast_ref::<SimError>() {
            Some(error) => self
                .report(error, &names(symbols), |_, _| None)
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
            Stop::Halted { cycle } => Ok(Halt::Ended(cycle)),
        }
    }

    fn write(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        Ok(Chip::write(self, tile, address, bytes)?)
    }

    fn read(&self, tile: u32, address: u32, bytes: usize) -> Result<Vec<u8>, MachineError> {
        Ok(Chip::read(self, tile, address, bytes)?)
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
