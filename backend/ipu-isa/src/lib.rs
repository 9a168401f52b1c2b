//! ipu-isa
