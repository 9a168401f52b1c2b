//! The hardware description of the ipu21 chip.
//!
//! Owns: the constants of `target.ron` (each with unit, confidence and source), the memory map
//! and its conflict units, the tile numbering and the exchange geometry.
//!
//! Invariants: nothing here depends on a program; every figure that a planner, verifier, emitter
//! or simulator uses about the chip comes from this crate, so they cannot disagree.
//!
//! Must not know: MLIR, models, instruction encodings, devices.

mod constants;
pub mod geometry;
mod memory;

pub use constants::{Confidence, Constant, Target, TargetError};
pub use memory::{ElementSet, MemoryUnit, Region};
