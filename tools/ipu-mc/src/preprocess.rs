//! The C preprocessor for `.S` files.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use ipu_isa::Arch;

use crate::cli::Cli;

/// Runs the preprocessor on the input; `None` when it refused it, which it has reported.
pub fn run(cli: &Cli, arch: Option<Arch>, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let version = match arch {
        Some(Arch::Ipu1) => "1",
        Some(Arch::Ipu2) => "2",
        Some(Arch::Ipu21) | None => "21",
    };
    let mut command = Command::new(&cli.cpp);
    // `-undef`: names of the host are not names of the tile.
    command
        .args(["-E", "-undef", "-D__ASSEMBLER__=1", "-D__IPU__=1"])
        .arg(format!("-D__IPU_ARCH_VERSION__={version}"));
    for path in &cli.include {
        command.arg("-I").arg(path);
    }
    for define in &cli.define {
        command.arg(format!("-D{define}"));
    }
    for name in &cli.undefine {
        command.arg(format!("-U{name}"));
    }
    // In this language `$` is no part of a name, so that `$REGISTER` can be a macro.
    command.args(["-x", "assembler-with-cpp"]);
    let from_file = name != "<stdin>";
    command.arg(if from_file { name } else { "-" });
    command
        .stdin(if from_file {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run the C preprocessor {}", cli.cpp.display()))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        if let Some(mut stdin) = stdin {
            // A preprocessor that stops reading says why itself.
            scope.spawn(move || stdin.write_all(bytes));
        }
        child.wait_with_output()
    });
    let output = output.context("the C preprocessor did not end")?;
    Ok(output.status.success().then_some(output.stdout))
}
