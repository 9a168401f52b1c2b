//! Command line: IREE's spellings, with underscores or dashes.

use clap::{Parser, ValueEnum};
use ipu_runtime::{Break, Place, Watch};
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs a model on the simulated IPU: compiles `.mlir` first, takes `.ipuexe` as it is.
#[derive(Debug, Parser)]
#[command(name = "ipu-run", version, about, max_term_width = 100)]
pub struct Cli {
    /// Model text (.mlir) or package (.ipuexe)
    #[arg(required_unless_present = "list_devices", value_name = "MODEL")]
    pub model: Option<PathBuf>,

    /// Function to compile and run [default: main]; of a package, the one that it holds
    #[arg(long)]
    pub function: Option<String>,

    /// Tiles that the compiler may use, 1 to 1472 [default: 1472]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1472))]
    pub tiles: Option<u32>,

    /// Weights of the model, a safetensors file
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,

    /// An input: @file.npy, 2x3xf32=1 2 3 4 5 6, 2x2xf16=@file.bin; once for each argument
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub input: Vec<String>,

    /// Where an output goes: @file.npy, @file.bin, - for text, empty for nowhere; once for each
    /// result
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
    pub output: Vec<String>,

    /// What an output must be, like --input, or (ignored); once for each result
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub expected_output: Vec<String>,

    /// Absolute difference allowed in f16 results [default: 2e-2]
    #[arg(long, value_name = "X", value_parser = limit)]
    pub expected_f16_threshold: Option<f32>,

    /// Absolute difference allowed in f32 results [default: 1e-4]
    #[arg(long, value_name = "X", value_parser = limit)]
    pub expected_f32_threshold: Option<f32>,

    /// Difference allowed for each unit of the expected magnitude [default: 1e-2 for f16 results,
    /// 1e-5 for f32 results]
    #[arg(long, value_name = "X", value_parser = limit)]
    pub expected_rtol: Option<f32>,

    /// How results are compared
    #[arg(long, value_enum, default_value_t = Equality::Approximate)]
    pub equality_mode: Equality,

    /// Labels (npy, integers): prints the top-1 accuracy of the first result
    #[arg(long, value_name = "@FILE")]
    pub labels: Option<String>,

    /// Compare the model in f32, the tile program and the simulated chip, step by step, and name the
    /// first operation that differs
    #[arg(long)]
    pub check_reference: bool,

    /// Device
    #[arg(long, value_enum, default_value_t = DeviceName::Sim)]
    pub device: DeviceName,

    /// List devices and exit
    #[arg(long)]
    pub list_devices: bool,

    /// Element type of partial sums: f32 as the model says, f16 or any for speed [default: f32]
    #[arg(long, value_enum)]
    pub partials: Option<PartialsName>,

    /// Candidate programs that are scheduled to the end [default: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub finalists: Option<u32>,

    /// Compile, write the package, do not run
    #[arg(long, requires = "package")]
    pub compile_only: bool,

    /// Package to write
    #[arg(short = 'o', value_name = "FILE")]
    pub package: Option<PathBuf>,

    /// Stop after a stage and print its IR
    #[arg(long, value_name = "STAGE", value_parser = crate::compile::STAGES, conflicts_with_all = ["compile_only", "package"])]
    pub compile_to: Option<String>,

    /// Write the IR after each stage to this folder
    #[arg(long, value_name = "DIR")]
    pub dump_compilation_phases_to: Option<PathBuf>,

    /// Print every instruction that tiles of the simulator issue, to standard error
    #[arg(long, value_name = "tile:LIST", num_args = 0..=1, require_equals = true,
          default_missing_value = "tile:0", value_parser = tile_list)]
    pub trace_execution: Option<Tiles>,

    /// Report the instruction at a symbol or address of a tile, by default tile 0, each time before
    /// it is issued, to standard error, and go on
    #[arg(long = "break", value_name = "[TILE:]PLACE", value_parser = break_at)]
    pub breaks: Vec<Break>,

    /// Report instructions that change memory of a tile, by default tile 0, to standard error
    #[arg(long, value_name = "[TILE:]ADDR:LEN", value_parser = watch)]
    pub watch: Vec<Watch>,

    /// Runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: u32,

    /// Cycles after which the simulator gives up
    #[arg(long, default_value_t = 1_000_000_000)]
    pub max_cycles: u64,

    /// Print cycles
    #[arg(long)]
    pub print_statistics: bool,

    /// Write figures as JSON
    #[arg(long, value_name = "FILE")]
    pub result_file: Option<PathBuf>,

    /// Most elements that are printed of a result
    #[arg(long, default_value_t = 1024, value_name = "N")]
    pub output_max_element_count: usize,

    /// Print errors only
    #[arg(long)]
    pub quiet: bool,
}

/// Devices by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceName {
    /// The cycle-level simulator
    Sim,
    /// The tile program by the meaning of its steps, without instructions
    Tile,
    /// The model in f32 on the host, without tile code
    Reference,
}

/// How results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Equality {
    /// Within the thresholds
    Approximate,
    /// The same values
    Exact,
}

/// Element types of partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartialsName {
    /// f32 accumulation
    F32,
    /// f16 accumulation
    F16,
    /// Whichever is faster
    Any,
}

impl PartialsName {
    /// The pass option's value.
    pub fn option(self) -> &'static str {
        match self {
            PartialsName::F32 => "f32",
            PartialsName::F16 => "f16",
            PartialsName::Any => "any",
        }
    }
}

/// Writes the names of long flags with dashes, clap's spelling: both forms are accepted.
pub fn underscores(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    args.into_iter()
        .map(|arg| match arg.to_str() {
            Some(text) if text.starts_with("--") => {
                let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
                format!("{}{value}", name.replace('_', "-")).into()
            }
            _ => arg,
        })
        .collect()
}

/// A limit of a comparison: finite and not negative, or everything would pass.
fn limit(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
        _ => Err("expected a finite number, 0 or more".to_owned()),
    }
}

/// Logical tiles, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles(pub Vec<u32>);

/// `tile:0-3,7`.
fn tile_list(text: &str) -> Result<Tiles, String> {
    let list = text.strip_prefix("tile:").unwrap_or(text);
    let mut tiles = std::collections::BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            return Err(format!(
                "'{part}' is no tile and no range; expected tile:0-3,7"
            ));
        };
        let end = ipu_target::Target::ipu21().tiles;
        if first > last || last >= end {
            return Err(format!(
                "tiles {first} to {last} are not within 0 to {}",
                end - 1
            ));
        }
        tiles.extend(first..=last);
    }
    Ok(Tiles(tiles.into_iter().collect()))
}

/// A number in decimal or, after `0x`, hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A logical tile, 0 where the command line names none.
fn tile(text: Option<&str>) -> Result<u32, String> {
    let last = ipu_target::Target::ipu21().tiles - 1;
    match text.map_or(Some(0), number) {
        Some(tile) if tile <= last => Ok(tile),
        _ => Err(format!(
            "'{}' is no tile, expected 0 to {last}",
            text.unwrap_or_default()
        )),
    }
}

/// `[TILE:]PLACE`.
fn break_at(text: &str) -> Result<Break, String> {
    let (on, place) = match text.split_once(':') {
        Some((on, place)) => (Some(on), place),
        None => (None, text),
    };
    Ok(Break {
        tile: tile(on)?,
        place: match number(place) {
            Some(address) => Place::Address(address),
            None => Place::Symbol(place.to_owned()),
        },
    })
}

/// `[TILE:]ADDR:LEN`.
fn watch(text: &str) -> Result<Watch, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (on, address, bytes) = match parts[..] {
        [address, bytes] => (None, address, bytes),
        [on, address, bytes] => (Some(on), address, bytes),
        _ => return Err(format!("'{text}' is not [TILE:]ADDR:LEN")),
    };
    let (Some(address), Some(bytes)) = (number(address), number(bytes)) else {
        return Err(format!("'{text}': address and length must be numbers"));
    };
    Ok(Watch {
        tile: tile(on)?,
        address,
        bytes,
    })
}
