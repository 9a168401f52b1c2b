//! Reference execution of the two program levels on the host.
//!
//! Owns: [`host`] (arrays of the host and their packing into the bytes of shards, shared with the
//! runtime), [`numerics`] (the rounding rules of the chip), [`graph`] (the model in f32: the
//! reference) and [`tile`] (a tile program at storage precision, before or after scheduling and
//! placement).
//!
//! Invariants: both interpreters give the same bits for the same arguments; whatever the program
//! says, an access outside a buffer is a typed error and never a panic. Layouts are trusted to be
//! consistent (extents fit 32 bits): the verifiers and the package loader see to that.
//!
//! Must not know: MLIR, passes, addresses, schedules, instruction encodings, files.

pub mod graph;
pub mod host;
mod kernels;
pub mod numerics;
pub mod tile;
