//! ipu-simulator
