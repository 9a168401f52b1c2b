//! ipu-opt
fn main() {}
