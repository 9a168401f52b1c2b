//! Running programs: devices, host data, reports and comparison.
//!
//! Owns: the [`Device`] trait with the simulator, the tile level and the reference as devices,
//! [`levels`], which compares the three of them while a program runs, reading and
//! writing of arrays ([`npy`], [`weights`], [`input`]), [`compare`] and [`accuracy`].
//!
//! Invariants: data of files is checked against its header before anything is allocated, and
//! every refusal names the file, the subject, what was expected and what was found. Packing for
//! tiles is that of `ipu_interp::host`. A device may be run any number of times after one
//! `initialize`. Cycles are reported with where they come from: estimated, scheduled, simulated.
//!
//! Must not know: MLIR, passes, how programs are compiled, instruction encodings.

pub mod accuracy;
pub mod compare;
mod device;
mod element;
mod error;
pub mod input;
pub mod levels;
pub mod machine;
pub mod npy;
mod reference;
mod report;
mod simulator;
mod tiles;
pub mod weights;

pub use device::{Device, DeviceError, Program};
pub use element::FileElement;
pub use error::DataError;
pub use ipu_interp::host::{HostArray, HostError, Parameters};
pub use reference::ReferenceDevice;
pub use report::{RunCycles, RunReport};
pub use simulator::{Break, Pause, Place, RunObserver, SimulatorDevice, Watch};
pub use tiles::TileDevice;
