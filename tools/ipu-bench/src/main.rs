//! `ipu-bench`: measures kernels and whole models on the simulator, and the simulator in its own
//! time and against published measurements.

mod exchange;
mod kernels;
mod programs;
mod selection;
mod simulate;
mod timing;
mod workloads;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

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
        kernels: Option<PathBuf>,
    },
    /// Compiles the models of examples/, runs them on the simulator and compares the results with
    /// the expected ones. Without --workload those whose data are in the repository.
    Workloads {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Only this workload.
        #[arg(long, value_name = "NAME", value_parser = workloads::NAMES)]
        workload: Option<String>,
        /// Tiles that the compiler may use, 1 to 1472.
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1472))]
        tiles: u32,
        /// Folder of the models; by default `examples` of this repository.
        #[arg(long, value_name = "DIR")]
        examples: Option<PathBuf>,
        /// Folder of more data for vit-small: a folder for each seed, with the files that
        /// examples/vit-small has.
        #[arg(long, value_name = "DIR")]
        seeds: Option<PathBuf>,
        /// Folder of other data for the workload named, as examples/data.py writes it.
        #[arg(long, value_name = "DIR", requires = "workload")]
        data: Option<PathBuf>,
        /// Element type of partial sums.
        #[arg(long, default_value = "f32", value_parser = ["f32", "f16", "any"])]
        partials: String,
    },
    /// Schedules exchange phases and compares their horizons with lower bounds.
    Exchange {
        /// Phases in neutral JSON, plain or compressed by gzip: `transfers` is a list of
        /// `[source tile, words, source byte address, [[tile, byte address], ...]]`.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Writes the encoded rows of all phases to this JSON file.
        #[arg(long, value_name = "FILE")]
        rows_out: Option<PathBuf>,
        /// Allows 64-bit items for what goes to both tiles of a pair at one address.
        #[arg(long)]
        paired: bool,
    },
    /// Times operator selection on encoders of the size of known models.
    Selection {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Only this model.
        #[arg(long, value_name = "NAME", value_parser = selection::MODELS)]
        model: Option<String>,
        /// Print the models instead.
        #[arg(long)]
        print_models: bool,
        /// Tiles that the compiler may use, 1 to 1472.
        #[arg(long, default_value_t = 1472, value_parser = clap::value_parser!(u32).range(1..=1472))]
        tiles: u32,
    },
    /// Pins plans of the first product of a workload and compares the order of estimated and of
    /// simulated cycles; an error below a Kendall's tau of 0.8.
    Rank {
        /// How to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// The workload.
        #[arg(long, value_name = "NAME", value_parser = workloads::NAMES, default_value = "vit-small")]
        workload: String,
        /// Tiles that the compiler may use, 1 to 1472.
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1472))]
        tiles: u32,
        /// How many plans, fewer when the product has fewer grids or some do not fit.
        #[arg(long, default_value_t = 24)]
        plans: usize,
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

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            // Located diagnostics already say that they are errors.
            if text.contains(": error: ") {
                eprintln!("{text}");
            } else {
                eprintln!("error: {text}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Kernels { format, kernel } => kernels::run(format, kernel.as_deref()),
        Command::Timing { format, kernels } => timing::run(format, kernels.as_deref()),
        Command::Workloads {
            format,
            workload,
            tiles,
            examples,
            seeds,
            data,
            partials,
        } => workloads::run(&workloads::Request {
            format,
            only: workload.as_deref(),
            tiles,
            examples: examples.as_deref(),
            seeds: seeds.as_deref(),
            data: data.as_deref(),
            partials: &partials,
        }),
        Command::Exchange {
            files,
            format,
            rows_out,
            paired,
        } => exchange::run(&files, format, rows_out.as_deref(), paired),
        Command::Selection {
            format,
            model,
            print_models,
            tiles,
        } => selection::run(format, model.as_deref(), print_models, tiles),
        Command::Rank {
            format,
            workload,
            tiles,
            plans,
        } => selection::rank(format, &workload, tiles, plans),
        Command::Simulate {
            format,
            threads,
            program,
            seconds,
        } => simulate::run(format, &threads, program.as_deref(), seconds),
    }
}
