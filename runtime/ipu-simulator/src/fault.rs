//! Why a simulation stopped: faults of a context, limits, misuse of the API.

use std::fmt;

/// A context of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// The supervisor.
    Supervisor,
    /// Worker 0 to 5.
    Worker(u8),
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Context::Supervisor => f.write_str("supervisor"),
            Context::Worker(n) => write!(f, "worker {n}"),
        }
    }
}

/// What was wrong with an instruction or an incoming word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// An access outside tile memory.
    #[error("address {address:#x} is outside tile memory")]
    BadAddress {
        /// The effective address.
        address: u32,
    },
    /// An access that is not a multiple of its size.
    #[error("address {address:#x} is not a multiple of {bytes}")]
    Misaligned {
        /// The effective address.
        address: u32,
        /// Size of the access.
        bytes: u32,
    },
    /// A 128-bit access outside interleaved memory.
    #[error("a 128-bit access at {address:#x} needs interleaved memory")]
    NotInterleaved {
        /// The effective address.
        address: u32,
    },
    /// Two accesses of one worker instruction in one memory element.
    #[error("accesses at {first:#x} and {second:#x} of one instruction share a memory element")]
    ElementConflict {
        /// Address of the earlier access.
        first: u32,
        /// Address of the later access.
        second: u32,
    },
    /// Two of exchange read, exchange write and row fetch in one memory element.
    #[error("{what} at {address:#x} shares a memory element with {other} at {other_address:#x}")]
    ExchangeConflict {
        /// `exchange read` or `exchange write`.
        what: &'static str,
        /// Its address.
        address: u32,
        /// `exchange read` or `instruction fetch`.
        other: &'static str,
        /// Its address.
        other_address: u32,
    },
    /// The word at the program counter is no instruction of the chip.
    #[error("undefined word {word:#010x}")]
    Undefined {
        /// The word.
        word: u32,
    },
    /// A worker instruction on the supervisor or the reverse.
    #[error("not an instruction of this context")]
    WrongMode,
    /// A program counter that is misaligned, in interleaved memory or outside memory.
    #[error("instructions cannot be fetched from {pc:#x}")]
    BadFetch {
        /// The program counter.
        pc: u32,
    },
    /// A word arrives while a worker of the tile runs.
    #[error("an exchange word for {address:#x} arrives while a worker is active")]
    ReceiveWithWorker {
        /// The incoming pointer.
        address: u32,
    },
    /// A word arrives and no pointer was ever set.
    #[error("an exchange word arrives but no incoming pointer is set")]
    NoPointer,
    /// A 64-bit item for a tile that listens for words, or the reverse.
    #[error("the item sent at clock {event} has not the width that its receiver listens for")]
    ItemWidth {
        /// Clock at which it was sent.
        event: u64,
    },
    /// A 64-bit item while the bus of the sender's partner is in use.
    #[error("a 64-bit item at clock {event} needs the bus on which the partner sends")]
    PartnerSends {
        /// Clock at which both sent.
        event: u64,
    },
    /// A continued stream without a first item.
    #[error("no outgoing stream to continue")]
    NoStream,
    /// Both halves of a bundle, or both loads of an instruction, write one register.
    #[error("one register is written twice: {0}")]
    DoubleDestination(String),
    /// A broken rule of `rpt`.
    #[error("rpt: {0}")]
    Repeat(&'static str),
    /// `runall` while a worker is active.
    #[error("runall while a worker is active")]
    WorkerActive,
    /// A flag immediate or operand value with no meaning.
    #[error("operand {operand} has no meaning: {value:#x}")]
    InvalidOperand {
        /// What the operand is.
        operand: &'static str,
        /// Its value.
        value: u32,
    },
    /// A control register that this context does not have or cannot write.
    #[error("control register {0} does not exist here")]
    BadRegister(u32),
    /// An enabled floating-point trap (bits of `$FP_STS`).
    #[error("floating-point exception, status {0:#x}")]
    FloatTrap(u32),
    /// A `trap` instruction.
    #[error("trap {0}")]
    Trap(u32),
    /// `strap`.
    #[error("supervisor trap")]
    SupervisorTrap,
    /// A breakpoint; the next run goes on.
    #[error("breakpoint")]
    Break,
    /// A watched byte changed; the next run goes on.
    #[error("watched memory at {address:#x} changed")]
    Watch {
        /// The first byte that changed.
        address: u32,
    },
    /// Decoded, legal, but outside the model.
    #[error("not implemented by the simulator: {0}")]
    NotImplemented(String),
}

impl Reason {
    /// Number and name of the architecture's exception type (`ETYPE`); none for stops that are the
    /// simulator's own.
    pub fn code(&self) -> Option<(u8, &'static str)> {
        Some(match self {
            Reason::Trap(0) | Reason::SupervisorTrap => (2, "PBRK0"),
            Reason::Trap(_) => (3, "PBRK1"),
            Reason::FloatTrap(_) => (5, "FP"),
            Reason::ElementConflict { .. } => (6, "CONFLICT"),
            Reason::ExchangeConflict { what, .. } if *what == "exchange read" => (6, "CONFLICT"),
            Reason::ExchangeConflict { .. } => (7, "EXCONF"),
            Reason::BadAddress { .. }
            | Reason::Misaligned { .. }
            | Reason::NotInterleaved { .. } => (8, "INVALID_ADDR"),
            Reason::DoubleDestination(_)
            | Reason::Repeat(_)
            | Reason::WorkerActive
            | Reason::InvalidOperand { .. }
            | Reason::BadRegister(_)
            | Reason::NoStream => (9, "INVALID_OP"),
            Reason::BadFetch { .. } => (10, "INVALID_PC"),
            Reason::Undefined { .. } | Reason::WrongMode => (12, "INVALID_INSTR"),
            Reason::ReceiveWithWorker { .. }
            | Reason::NoPointer
            | Reason::ItemWidth { .. }
            | Reason::PartnerSends { .. } => (13, "EXERR"),
            Reason::Break | Reason::Watch { .. } | Reason::NotImplemented(_) => return None,
        })
    }

    /// Whether the run can go on.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Reason::Break | Reason::Watch { .. })
    }
}

/// An exception of one context, with everything needed to find it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tile {tile} (physical {physical}) {context} at {pc:#x}, cycle {cycle}: {reason} [{instruction}]"
)]
pub struct Fault {
    /// Logical tile.
    pub tile: u32,
    /// Physical tile.
    pub physical: u16,
    /// Faulting context.
    pub context: Context,
    /// Its program counter.
    pub pc: u32,
    /// Text of the instruction there.
    pub instruction: String,
    /// What happened.
    pub reason: Reason,
    /// Clock of the fault.
    pub cycle: u64,
}

/// A tile that waits, as listed by [`SimError::Deadlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Logical tile.
    pub tile: u32,
    /// Sync zone, `None` for a halted tile.
    pub zone: Option<u8>,
    /// Incoming words that a tile in zone 0 still waits for.
    pub words: u32,
}

/// Why a call on the chip failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A context raised an exception.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// The cycle limit of the call was reached.
    #[error(
        "the program did not end within the limit of simulated cycles, which stopped it at cycle {cycle}; \
         raise the limit (--max-cycles) if it needs more"
    )]
    MaxCycles {
        /// Clock at which the simulation stopped.
        cycle: u64,
    },
    /// No tile can move.
    #[error("deadlock at cycle {cycle}: {}", describe(.waiting))]
    Deadlock {
        /// Clock of the last event.
        cycle: u64,
        /// All started tiles.
        waiting: Vec<Waiting>,
    },
    /// A tile number beyond the chip.
    #[error("tile {0} does not exist")]
    NoSuchTile(u32),
    /// A host access outside tile memory.
    #[error("tile {tile}: [{address:#x}, +{bytes:#x}) is outside tile memory")]
    HostAddress {
        /// Logical tile.
        tile: u32,
        /// First byte.
        address: u32,
        /// Length.
        bytes: usize,
    },
    /// `run` without a started tile.
    #[error("no tile was started")]
    NothingStarted,
}

/// Groups the waiting tiles by zone; long lists are cut.
fn describe(waiting: &[Waiting]) -> String {
    const SHOWN: usize = 8;
    let mut zones: Vec<Option<u8>> = waiting.iter().map(|w| w.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    let groups = zones.into_iter().map(|zone| {
        let tiles: Vec<u32> = waiting
            .iter()
            .filter(|w| w.zone == zone)
            .map(|w| w.tile)
            .collect();
        let names: Vec<String> = tiles.iter().take(SHOWN).map(u32::to_string).collect();
        let more = match tiles.len().saturating_sub(SHOWN) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let words = waiting.iter().filter(|w| w.zone == zone).map(|w| w.words);
        let state = match zone {
            None => "halted".to_string(),
            Some(0) => format!("wait for up to {} words (sync 0)", words.max().unwrap_or(0)),
            Some(z) => format!("wait for sync {z}"),
        };
        format!("tiles {}{more} {state}", names.join(" "))
    });
    groups.collect::<Vec<_>>().join("; ")
}
