//! `ipu-sim`: runs one program on simulated tiles, for tests of instructions and kernels.

mod cli;
mod data;
mod program;
mod run;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match run::run(&cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ipu-sim: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
