//! The passes of the compiler, from the model graph to the package.
//!
//! Owns: one module a pass, in pipeline order, each a pure algorithm over the structs of
//! `ipu-program`; [`registry`] and [`session`] alone touch MLIR: they read IR, call the
//! algorithm, write IR, and put the passes into MLIR's registry.
//!
//! Invariants: a pass does nothing to what it does not understand but refuses it with its
//! location; the same input and options give the same IR.
//!
//! Must not know: instruction encodings (beyond calling `ipu_image::emit`), devices.

pub mod convert_layouts;
pub mod layers;
pub mod phase_exchanges;
pub mod pick_finalist;
pub mod place_storage;
pub mod registry;
pub mod select_operators;
pub mod session;
pub mod tile;
mod tile_set;

pub use registry::{dump_egraphs, register_all};
