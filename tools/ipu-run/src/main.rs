//! ipu-run
fn main() {}
