//! ipu-passes

pub mod convert_layouts;
pub mod phase_exchanges;
pub mod place_storage;
pub mod select_operators;
pub mod tile;

/// Puts all passes into MLIR's registry.
pub fn register_all() {}
