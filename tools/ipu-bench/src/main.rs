//! `ipu-bench`: measures kernels on the simulator, and the simulator in its own time and against
//! published measurements.

mod kernels;
mod programs;
mod simulate;
mod timing;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table.
    #[default]
    Text,
    /// A JSON array.
    Json,
}

#[derive(Debug, Parser)]
#[command(name = "ipu-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compares the cycle law of every tile kernel with simulated cycles, over a grid of shapes.
    Kernels {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Only kernels with this in their names.
        #[arg(long)]
        kernel: Option<String>,
    },
    /// Compares simulated cycles with measurements published for the card.
    Timing {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Folder of reference kernels that are not part of this repository; by default
        /// `../shared/oracle/kernels` beside it.
        #[arg(long)]
        kernels: Option<std::path::PathBuf>,
    },
    /// Measures how many instructions are simulated in a second.
    Simulate {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Numbers of threads to measure with.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
        threads: Vec<usize>,
        /// Only this program.
        #[arg(long)]
        program: Option<String>,
        /// About how many seconds a measurement takes.
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Kernels { format, kernel } => kernels::run(format, kernel.as_deref()),
        Command::Timing { format, kernels } => timing::run(format, kernels.as_deref()),
        Command::Simulate {
            format,
            threads,
            program,
            seconds,
        } => simulate::run(format, &threads, program.as_deref(), seconds),
    }
}
