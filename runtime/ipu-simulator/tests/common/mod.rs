//! Small programs for the tests.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // each test binary uses a part

use ipu_isa::asm::Assembler;
use ipu_isa::link::{Image, LinkOptions, Linker};
use ipu_simulator::{Chip, Fault, SimError, Stop};
use ipu_target::Target;

/// Where programs start.
pub const BASE: u32 = 0x4c010;
/// Data in an element without code.
pub const DATA: u32 = 0x5c000;
/// Data in interleaved memory.
pub const WIDE: u32 = 0x80000;
/// Clocks enough for every small program.
pub const LIMIT: u64 = 100_000;

/// Assembles one section of code whose first symbol is `main`, placed at `BASE`.
pub fn assemble(source: &str) -> Image {
    let text = format!(".section .text.main,\"ax\"\n.globl main\nmain:\n{source}\n");
    let object = Assembler::new()
        .assemble("test.S", &text)
        .unwrap_or_else(|e| panic!("{e}"));
    let options = LinkOptions {
        base: BASE,
        limit: 0x5_0000,
        relative_base: 0x4_c000,
    };
    Linker::new()
        .add(object)
        .link(&["main"], options)
        .unwrap_or_else(|e| panic!("{e:?}"))
}

/// A chip with the program on tile 0, started.
pub fn chip(source: &str) -> Chip {
    let image = assemble(source);
    let mut chip = Chip::new(Target::ipu21());
    chip.load(0, image.base, &image.bytes).unwrap();
    chip.start(0, BASE).unwrap();
    chip
}

/// Runs a program on tile 0 to its `trap 0`.
pub fn run(source: &str) -> Chip {
    let mut chip = chip(source);
    let stop = chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(stop, Stop::Halted { .. }));
    chip
}

/// Runs `body` on all six workers (`$m13` points to six words from `DATA`) to their exit.
pub fn run_workers(body: &str) -> Chip {
    run(&launch(body))
}

/// A supervisor program that runs `body` on all workers and stops.
pub fn launch(body: &str) -> String {
    format!(
        "setzi $m0, work\n setzi $m1, {DATA}\n runall $m0, $m1, 1\n sync 2\n trap 0\n\
         .worker\n.align 8\nwork:\n{body}\n exitz $mzero\n"
    )
}

/// The fault of a program on tile 0.
pub fn fault(source: &str) -> Fault {
    fault_of(&mut chip(source))
}

/// The fault that ends the run.
pub fn fault_of(chip: &mut Chip) -> Fault {
    match chip.run(LIMIT) {
        Err(SimError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// A word of tile 0.
pub fn word(chip: &Chip, address: u32) -> u32 {
    words(chip, 0, address, 1)[0]
}

/// Words of a tile.
pub fn words(chip: &Chip, tile: u32, address: u32, count: usize) -> Vec<u32> {
    let bytes = chip.read(tile, address, 4 * count).unwrap();
    bytes
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// Bytes of words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
