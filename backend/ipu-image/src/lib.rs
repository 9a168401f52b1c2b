//! ipu-image
