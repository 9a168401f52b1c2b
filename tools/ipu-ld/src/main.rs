//! `ipu-ld`: links objects into an image of tile memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use ipu_isa::elf;
use ipu_isa::link::{Image, LinkOptions, Linker};
use ipu_target::Target;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An ELF executable.
    Elf,
    /// The bytes from the base on.
    Binary,
}

/// Links objects into an image for region 0 of a tile's memory.
#[derive(Debug, Parser)]
#[command(name = "ipu-ld", version)]
struct Cli {
    /// Objects, placed in this order
    #[arg(required = true)]
    objects: Vec<PathBuf>,
    /// Where to write
    #[arg(short = 'o', value_name = "FILE", default_value = "a.out")]
    output: PathBuf,
    /// Entry of the image; what it does not need is left out
    #[arg(short = 'e', long, value_name = "SYMBOL", default_value = "start")]
    entry: String,
    /// More symbols to keep
    #[arg(short = 'u', long = "undefined", value_name = "SYMBOL")]
    keep: Vec<String>,
    /// Keep sections that nothing refers to
    #[arg(long)]
    no_gc_sections: bool,
    /// Leave out sections that nothing refers to (default)
    #[arg(long, overrides_with = "no_gc_sections")]
    gc_sections: bool,
    /// Address of the first byte; the loader's start by default
    #[arg(long = "Ttext", alias = "base", value_name = "ADDRESS", value_parser = number)]
    base: Option<u32>,
    /// Address that the image must not reach; the end of region 0 by default
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    limit: Option<u32>,
    /// What relative relocations subtract; the start of memory by default
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    relative_base: Option<u32>,
    /// Define an absolute symbol
    #[arg(long, value_name = "NAME=VALUE", value_parser = definition)]
    defsym: Vec<(String, u32)>,
    /// Write a map of sections and symbols
    #[arg(long = "Map", value_name = "FILE")]
    map: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "elf")]
    oformat: Format,
}

fn number(text: &str) -> Result<u32, String> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("`{text}` is not a 32-bit number"))
}

fn definition(text: &str) -> Result<(String, u32), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    Ok((name.to_string(), number(value)?))
}

/// Options that linkers write with one dash.
const LONG: &[&str] = &[
    "entry",
    "undefined",
    "no-gc-sections",
    "gc-sections",
    "Ttext",
    "base",
    "limit",
    "relative-base",
    "defsym",
    "Map",
    "oformat",
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
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ipu-ld: error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a file as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn link(cli: &Cli) -> Result<Image> {
    let target = Target::ipu21();
    let mut linker = Linker::new();
    for path in &cli.objects {
        let name = path.display().to_string();
        let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let object = elf::read_object(&name, &bytes).with_context(|| name.clone())?;
        linker.add(object);
    }
    for (name, value) in &cli.defsym {
        linker.define_absolute(name, *value);
    }
    linker.keep_all(cli.no_gc_sections);
    let options = LinkOptions {
        base: cli.base.unwrap_or(target.load_base),
        limit: cli.limit.unwrap_or(target.region1_base),
        relative_base: cli.relative_base.unwrap_or(target.memory_base),
    };
    let mut entries = vec![cli.entry.as_str()];
    entries.extend(cli.keep.iter().map(String::as_str));
    linker.link(&entries, options).map_err(|errors| {
        let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(list.join("\nipu-ld: error: "))
    })
}

fn run(cli: &Cli) -> Result<()> {
    let image = link(cli)?;
    let Some(&entry) = image.symbols.get(&cli.entry) else {
        bail!("the entry `{}` is not in the image", cli.entry);
    };
    if let Some(path) = &cli.map {
        write(path, image.map().as_bytes())?;
    }
    match cli.oformat {
        Format::Binary => write(&cli.output, &image.bytes),
        Format::Elf => write(&cli.output, &elf::write_image(&image, entry)?),
    }
}
