//! ipu-image

pub mod package;
