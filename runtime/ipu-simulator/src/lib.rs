//! A deterministic cycle-level simulator of one IPU21 chip.
//!
//! The simulator executes the encoded instructions in tile memory: a supervisor and six workers
//! a tile share six issue slots, all tiles share an exchange fabric of pure delays and a barrier.
//! What the public facts leave open is chosen in one place for the whole project;
//! `docs/simulator.md` lists the choices that matter here.
//!
//! Invariants:
//! * results and cycle counts do not depend on the number of threads;
//! * what is not modelled is a fault that says so, never a guess;
//! * no word of program or data makes the simulator panic;
//! * every constant of the chip comes from `ipu-target`, every encoding from `ipu-isa`.
//!
//! Must not know: passes, MLIR, kernels, models, packages, devices.
//!
//! ```
//! use ipu_simulator::{Chip, Stop};
//! use ipu_target::Target;
//!
//! let target = Target::ipu21();
//! let mut chip = Chip::new(target);
//! // setzi $m0, 5; trap 0
//! let code: Vec<u8> = [0x1900_0005u32, 0x4180_1000].iter().flat_map(|w| w.to_le_bytes()).collect();
//! chip.load(0, target.load_base, &code)?;
//! chip.start(0, target.load_base)?;
//! assert!(matches!(chip.run(100)?, Stop::Halted { .. }));
//! assert_eq!(chip.supervisor_registers(0)?.m[0], 5);
//! # Ok::<(), ipu_simulator::SimError>(())
//! ```

mod ahead;
mod chip;
mod code;
mod context;
mod csr;
mod debug;
mod exec;
mod fabric;
mod fault;
mod memory;
mod record;
mod report;
mod single;
mod tile;
mod units;

pub use chip::{Chip, Counters, Disagreement, Stop, SyncRecord};
pub use context::Registers;
pub use debug::{IssueEvent, Observer};
pub use fault::{Context, Fault, Reason, SimError, Waiting};
pub use record::{Passage, Recording};
pub use report::{Symbols, contexts, registers_text};
pub use single::run_single;
