//! `ipu-mc`: assembles and disassembles tile code in the manner of `llvm-mc`.

mod cli;
mod disassemble;
mod header;
mod output;
mod preprocess;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use ipu_isa::asm::{Assembler, Diagnostic, Limits, Severity};
use ipu_isa::{Mode, elf};

use cli::{Cli, Feature, FileType};

fn main() -> ExitCode {
    let cli = Cli::parse_from(cli::two_dashes(std::env::args_os()));
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("ipu-mc: error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// The name of the input in messages, and its text.
fn input(cli: &Cli) -> Result<(String, Vec<u8>)> {
    match &cli.input {
        Some(path) if path.as_os_str() != "-" => {
            let name = path.display().to_string();
            let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
            Ok((name.clone(), read(file, &name)?))
        }
        _ => {
            let name = "<stdin>".to_string();
            let bytes = read(io::stdin(), &name)?;
            Ok((name, bytes))
        }
    }
}

/// Most bytes of an input; devices have no end.
const MAX_INPUT: u64 = 64 << 20;

fn read(from: impl Read, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_INPUT + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > MAX_INPUT {
        bail!("{name} is longer than {MAX_INPUT} bytes");
    }
    Ok(bytes)
}

fn write(cli: &Cli, bytes: &[u8]) -> Result<()> {
    match cli.output.as_deref() {
        Some(path) if path != Path::new("-") => {
            fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
        }
        _ => match io::stdout().lock().write_all(bytes) {
            // Whoever reads may stop early.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to the standard output"),
        },
    }
}

/// Prints messages; true when none of them is an error.
fn report(cli: &Cli, diagnostics: &[Diagnostic]) -> bool {
    let mut good = true;
    for d in diagnostics {
        let warning = d.severity == Severity::Warning;
        if warning && cli.no_warn {
            continue;
        }
        good &= d.severity != Severity::Error && !(warning && cli.fatal_warnings);
        eprintln!("{d}");
    }
    good
}

fn assembler(cli: &Cli) -> Assembler {
    let mut a = Assembler::new();
    a.listing(cli.filetype == FileType::Asm)
        .byte_targets(cli.byte_targets)
        .gnu_expressions(cli.gnu_expressions)
        .limits(Limits {
            errors: cli.max_errors,
            ..Limits::default()
        });
    for (name, value) in &cli.defsym {
        a.define(name, *value);
    }
    for path in &cli.include {
        a.include_path(path);
    }
    if let Some(arch) = arch(cli) {
        a.arch(arch);
    }
    let has = |mode| cli.mattr.contains(&Feature::Mode(mode));
    match (has(Mode::Supervisor), has(Mode::Worker)) {
        (true, false) => a.mode(Mode::Supervisor),
        (false, true) => a.mode(Mode::Worker),
        _ => &mut a,
    };
    a
}

/// The chosen generation; the last one counts.
fn arch(cli: &Cli) -> Option<ipu_isa::Arch> {
    let mut chosen = cli.mcpu;
    for feature in &cli.mattr {
        if let Feature::Arch(arch) = feature {
            chosen = Some(*arch);
        }
    }
    chosen
}

fn run(cli: &Cli) -> Result<bool> {
    if cli.emit_header {
        write(cli, header::text(ipu_target::Target::ipu21()).as_bytes())?;
        return Ok(true);
    }
    let (name, bytes) = input(cli)?;
    if cli.disassemble {
        let text = String::from_utf8_lossy(&bytes);
        let mut out = String::new();
        let good = disassemble::run(cli, &name, &text, &mut out);
        write(cli, out.as_bytes())?;
        return Ok(good);
    }
    let cpp = cli.preprocess || name.ends_with(".S") || name.ends_with(".sx");
    let bytes = if cpp {
        match preprocess::run(cli, arch(cli), &name, &bytes)? {
            Some(bytes) => bytes,
            None => return Ok(false),
        }
    } else {
        bytes
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|&&b| b == b'\n').count();
            let column = 1 + good.iter().rev().take_while(|&&b| b != b'\n').count();
            eprintln!("{name}:{line}:{column}: error: the source is not UTF-8 text here");
            return Ok(false);
        }
    };
    let assembled = match assembler(cli).run(&name, &text) {
        Ok(assembled) => assembled,
        Err(errors) => {
            report(cli, &errors.diagnostics);
            if errors.truncated {
                eprintln!("{name}: assembly stopped here");
            }
            return Ok(false);
        }
    };
    if !report(cli, &assembled.warnings) {
        return Ok(false);
    }
    match cli.filetype {
        FileType::Null => {}
        FileType::Obj => write(cli, &elf::write_object(&assembled.object)?)?,
        FileType::Asm => {
            let mut out = String::new();
            output::listing(cli, &assembled.listing, &mut out);
            write(cli, out.as_bytes())?;
        }
    }
    Ok(true)
}
