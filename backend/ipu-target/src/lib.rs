//! ipu-target
