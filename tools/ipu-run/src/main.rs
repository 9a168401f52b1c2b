//! `ipu-run`: compiles a model if needed, runs it on a device, compares.

/// Writes to standard output with the format of `print!`. A reader that has gone, such as `head`, is
/// no error of the run.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($text)*);
    }};
}

/// As `say`, with the end of a line.
macro_rules! sayln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod cli;
mod compile;
mod execute;
mod levels;
mod report;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse_from(cli::underscores(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; wrong usage is status 2.
            let status = if error.use_stderr() { 2 } else { 0 };
            drop(error.print());
            return ExitCode::from(status);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("IPU_LOG"))
        .with_writer(std::io::stderr)
        .init();
    // MLIR recurses on nesting, and its objects stay on their thread.
    match ipu_dialects::context::with_big_stack(|| execute::run(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            // Located diagnostics already say that they are errors.
            if text.contains(": error: ") || text.starts_with("error: ") {
                eprintln!("{text}");
            } else {
                eprintln!("error: {text}");
            }
            ExitCode::FAILURE
        }
    }
}
