//! ipu-interp
