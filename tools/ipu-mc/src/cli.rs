//! The command line: ours, and llvm-mc's spellings of it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use ipu_isa::{Arch, Mode};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileType {
    /// Text with all expansions done.
    Asm,
    /// An ELF object.
    Obj,
    /// Nothing: only messages.
    Null,
}

/// Assembles and disassembles IPU tile code.
#[derive(Debug, Parser)]
#[command(name = "ipu-mc", version)]
pub struct Cli {
    /// Source to read; `-` or none for standard input. `.S` goes through the C preprocessor
    pub input: Option<PathBuf>,
    /// Where to write; standard output by default
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Assemble the input (default)
    #[arg(long, conflicts_with = "disassemble")]
    pub assemble: bool,
    /// Disassemble hexadecimal bytes such as `0x00 0xe7` or `[0x00,0xe7]`
    #[arg(long)]
    pub disassemble: bool,
    /// Target triple; all of the chip's are the same
    #[arg(long, default_value = "colossus-graphcore-elf", value_parser = triple)]
    pub triple: String,
    /// Chip generation: ipu1, ipu2 or ipu21
    #[arg(long, value_parser = cpu, value_name = "CPU")]
    pub mcpu: Option<Arch>,
    /// Features: `+ipu1`, `+ipu2`, `+ipu21`, `+supervisor`, `+worker`
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_parser = feature,
          value_name = "FEATURES")]
    pub mattr: Vec<Feature>,
    /// Print the encoding of each instruction
    #[arg(long)]
    pub show_encoding: bool,
    /// Print mnemonic, format and operands of each instruction
    #[arg(long)]
    pub show_inst: bool,
    /// Kind of output
    #[arg(long, value_enum, default_value = "asm")]
    pub filetype: FileType,
    /// How bundles print: 0 on one line, 1 on several
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub output_asm_variant: u32,
    /// Define a constant of the assembler
    #[arg(long, value_name = "NAME=VALUE", value_parser = definition)]
    pub defsym: Vec<(String, i64)>,
    /// Folder for `.include`, `.incbin` and the C preprocessor
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro of the C preprocessor
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Undefine a macro of the C preprocessor
    #[arg(short = 'U', value_name = "NAME")]
    pub undefine: Vec<String>,
    /// Run the C preprocessor whatever the name of the input
    #[arg(long)]
    pub preprocess: bool,
    /// The C preprocessor
    #[arg(long, value_name = "PROGRAM", default_value = "cc")]
    pub cpp: PathBuf,
    /// Bare branch targets in the source are byte addresses, not word indices
    #[arg(long)]
    pub byte_targets: bool,
    /// Operators bind as in GNU assemblers instead of C, and truth is -1
    #[arg(long)]
    pub gnu_expressions: bool,
    /// Errors after which to stop
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_errors: usize,
    /// Warnings are errors
    #[arg(long)]
    pub fatal_warnings: bool,
    /// Print no warnings
    #[arg(long)]
    pub no_warn: bool,
    /// Write the C header with the chip's names and numbers and stop
    #[arg(long)]
    pub emit_header: bool,
}

/// A feature of `-mattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A generation.
    Arch(Arch),
    /// A mode.
    Mode(Mode),
    /// A feature that is switched off, which changes nothing.
    Off,
}

fn triple(text: &str) -> Result<String, String> {
    let arch = text.split('-').next().unwrap_or("");
    if matches!(arch, "colossus" | "ipu" | "") {
        Ok(text.to_string())
    } else {
        Err(format!(
            "unable to get a target for `{text}`; the chip's is colossus-graphcore-elf"
        ))
    }
}

fn cpu(text: &str) -> Result<Arch, String> {
    match text {
        "ipu1" => Ok(Arch::Ipu1),
        "ipu2" => Ok(Arch::Ipu2),
        "ipu21" => Ok(Arch::Ipu21),
        _ => Err("expected ipu1, ipu2 or ipu21".to_string()),
    }
}

fn feature(text: &str) -> Result<Feature, String> {
    let on = match text.split_at_checked(1) {
        Some(("+", name)) => name,
        Some(("-", _)) => return Ok(Feature::Off),
        _ => text,
    };
    match on {
        "supervisor" => Ok(Feature::Mode(Mode::Supervisor)),
        "worker" => Ok(Feature::Mode(Mode::Worker)),
        _ => cpu(on)
            .map(Feature::Arch)
            .map_err(|_| "expected +ipu1, +ipu2, +ipu21, +supervisor or +worker".to_string()),
    }
}

fn definition(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let (negative, digits) = match value.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let number = match digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let number = number.map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.to_string(), if negative { -number } else { number }))
}

/// Options that llvm-mc writes with one dash.
const LONG: &[&str] = &[
    "assemble",
    "disassemble",
    "triple",
    "mcpu",
    "mattr",
    "show-encoding",
    "show-inst",
    "filetype",
    "output-asm-variant",
    "defsym",
    "version",
    "help",
    "preprocess",
    "cpp",
    "byte-targets",
    "gnu-expressions",
    "max-errors",
    "fatal-warnings",
    "no-warn",
    "emit-header",
];

/// Gives long options with one dash their second one.
pub fn two_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    args.enumerate()
        .map(|(at, arg)| {
            let long = arg.to_str().filter(|_| at > 0).is_some_and(|text| {
                let name = text.strip_prefix('-').unwrap_or("");
                LONG.contains(&name.split('=').next().unwrap_or(""))
            });
            if long {
                let mut out = OsString::from("-");
                out.push(arg);
                out
            } else {
                arg
            }
        })
        .collect()
}
