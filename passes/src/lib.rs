//! ipu-passes

/// Puts all passes into MLIR's registry.
pub fn register_all() {}
