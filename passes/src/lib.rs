//! ipu-passes
