//! `ipu-opt`: runs passes on IR text, with every flag of `mlir-opt`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ipu_passes::register_all();
    match ipu_dialects::driver::opt_main(std::env::args_os()) {
        0 => ExitCode::SUCCESS,
        status => ExitCode::from(u8::try_from(status).unwrap_or(1)),
    }
}
