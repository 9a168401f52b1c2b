//! `ipu-objdump`: shows objects, linked images and the tiles of packages.

mod code;
mod package;
mod row;
mod tables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use ipu_isa::elf::{self, ElfKind};

/// Shows what objects, linked images and packages hold.
#[derive(Debug, Parser)]
#[command(name = "ipu-objdump", version, disable_help_flag = true)]
pub struct Cli {
    /// Objects, linked images or packages (`.ipuexe`)
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Disassemble code (default when nothing else is asked for)
    #[arg(short = 'd', long)]
    pub disassemble: bool,
    /// Show the contents of data as words
    #[arg(short = 's', long)]
    pub full_contents: bool,
    /// Show the symbols
    #[arg(short = 't', long)]
    pub syms: bool,
    /// Show the relocations
    #[arg(short = 'r', long)]
    pub reloc: bool,
    /// Show the sections, or the segments of a tile
    #[arg(short = 'h', long)]
    pub section_headers: bool,
    /// Only this section
    #[arg(short = 'j', long = "section", value_name = "NAME")]
    pub section: Option<String>,
    /// The tile of a package to show
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tile: u32,
    /// First address to show
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    pub start_address: Option<u32>,
    /// Address to stop at
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    pub stop_address: Option<u32>,
    /// Leave out the bytes of instructions
    #[arg(long)]
    pub no_show_raw_insn: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

impl Cli {
    /// True when an address is wanted.
    pub fn shows(&self, address: u32) -> bool {
        self.start_address.is_none_or(|a| address >= a)
            && self.stop_address.is_none_or(|a| address < a)
    }

    /// True when a section is wanted.
    pub fn wants(&self, section: &str) -> bool {
        self.section.as_ref().is_none_or(|s| s == section)
    }

    /// True when code is disassembled.
    pub fn disassembles(&self) -> bool {
        let other = self.syms || self.reloc || self.section_headers || self.full_contents;
        self.disassemble || !other
    }
}

fn number(text: &str) -> Result<u32, String> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("`{text}` is not a 32-bit number"))
}

/// Options that are also written with one dash.
const LONG: &[&str] = &[
    "disassemble",
    "full-contents",
    "syms",
    "reloc",
    "section-headers",
    "section",
    "tile",
    "start-address",
    "stop-address",
    "no-show-raw-insn",
    "version",
    "help",
];

/// Gives long options with one dash their second one.
fn two_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
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

fn main() -> ExitCode {
    let cli = Cli::parse_from(two_dashes(std::env::args_os()));
    let mut out = String::new();
    let mut good = true;
    for path in &cli.files {
        if let Err(e) = show(&cli, path, &mut out) {
            eprintln!("ipu-objdump: error: {e:#}");
            good = false;
        }
    }
    match io::stdout().lock().write_all(out.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("ipu-objdump: error: cannot write to the standard output: {e}");
            good = false;
        }
        _ => {}
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn show(cli: &Cli, path: &PathBuf, out: &mut String) -> Result<()> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    if !bytes.starts_with(b"\x7fELF") {
        return package::show(cli, &name, &bytes, out).with_context(|| name.clone());
    }
    match elf::elf_kind(&bytes).with_context(|| name.clone())? {
        ElfKind::Object => {
            let object = elf::read_object(&name, &bytes).with_context(|| name.clone())?;
            tables::object(cli, &object, out);
        }
        ElfKind::Image => {
            let (image, entry) = elf::read_image(&bytes).with_context(|| name.clone())?;
            tables::image(cli, &name, &image, entry, out);
        }
    }
    Ok(())
}
