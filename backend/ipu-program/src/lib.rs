//! ipu-program
