//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::data::{Define, Dump, Load, Setting, TileSet, address};

/// Assembles a program (or takes an object of `ipu-mc`, or an image) and runs it on simulated tiles.
///
/// A worker program runs on one context (or on as many as `--workers` says) from its entry to its
/// exit. A supervisor program is called like a kernel: it ends by returning to $m10 or by `trap 0`.
#[derive(Debug, Parser)]
#[command(name = "ipu-sim", version)]
pub struct Cli {
    /// Source or ELF object, or with `--image` the bytes of memory.
    pub file: PathBuf,
    /// Defines an assembler constant, 1 without a value.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub defines: Vec<Define>,
    /// Loads the file as bytes for this address; the entry is an address then.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub image: Option<u32>,
    /// Symbol or address to start at: by default `main`, `_start`, `kernel_entry`, or else the
    /// first symbol of the code, or else its start.
    #[arg(long, value_name = "SYMBOL")]
    pub entry: Option<String>,
    /// Runs the program on workers; the default.
    #[arg(long, conflicts_with = "supervisor")]
    pub worker: bool,
    /// Runs the program on the supervisor.
    #[arg(long)]
    pub supervisor: bool,
    /// How many workers run it: 1 by `run`, 6 by `runall`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub workers: u8,
    /// Tiles that run the program, such as `0-3,7`.
    #[arg(long, default_value = "0", value_name = "LIST")]
    pub tiles: TileSet,
    /// Registers of all contexts at the start: integers, f32 with a point, f16 ending in `h`;
    /// several values for a range, separated by `/`: `m0=0x50000,a2=1.5,a4:5=1.0/2.0`.
    #[arg(long, value_name = "REG=VALUE,...", value_delimiter = ',')]
    pub set: Vec<Setting>,
    /// Memory at the start: a file (`=@FILE`), or values as in `--set`.
    #[arg(long, value_name = "ADDR=@FILE")]
    pub load: Vec<Load>,
    /// $VERTEX_BASE of the first worker.
    #[arg(long, value_name = "ADDR", value_parser = address, default_value = "0x50000")]
    pub vertex_base: u32,
    /// Bytes between the vertex bases of workers.
    #[arg(long, value_name = "BYTES", value_parser = address, default_value = "0")]
    pub vertex_stride: u32,
    /// Loads all 64 weights ($CWEI) from memory before the workers start.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub weights: Option<u32>,
    /// $FP_ICTL: traps 2:0, rounding 18:16, stochastic 19, NaN on overflow 20.
    #[arg(long, value_name = "BITS", value_parser = address)]
    pub fp_control: Option<u32>,
    /// $FP_INFMT: bit 0 the format of f8 weights and conversions, bit 1 that of data; 1 is F143.
    #[arg(long, value_name = "BITS", value_parser = address)]
    pub fp_format: Option<u32>,
    /// $FP_ISCL: exponent of two of f8.
    #[arg(long, value_name = "BITS", value_parser = address)]
    pub fp_scale: Option<u32>,
    /// Memory at the end, to a file (`=@FILE`) or as text; `:f32`, `:f16`, `:u16`, `:u8` instead of
    /// words.
    #[arg(long, value_name = "ADDR:LEN[:TYPE][=@FILE]")]
    pub dump: Vec<Dump>,
    /// Prints the registers of the contexts that ran.
    #[arg(long)]
    pub print_registers: bool,
    /// Prints the accumulators of the workers that ran.
    #[arg(long)]
    pub print_accumulators: bool,
    /// Prints clocks: of workers from the first issue to the last exit and its slot, of the
    /// supervisor from the call to the next instruction.
    #[arg(long)]
    pub cycles: bool,
    /// Prints what each tile did.
    #[arg(long)]
    pub counters: bool,
    /// Prints every issue.
    #[arg(long)]
    pub trace: bool,
    /// Stops before the instruction at a symbol or address, prints the context and goes on.
    #[arg(long = "break", value_name = "[TILE:]PLACE")]
    pub breaks: Vec<String>,
    /// Reports instructions that change a range of memory.
    #[arg(long, value_name = "ADDR:LEN")]
    pub watch: Vec<Dump>,
    /// Overwrites the A file and the accumulators at each launch.
    #[arg(long)]
    pub poison: bool,
    /// Clocks after which the run is given up.
    #[arg(long, default_value_t = 10_000_000)]
    pub max_cycles: u64,
}
