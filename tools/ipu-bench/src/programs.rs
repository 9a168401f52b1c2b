//! Programs in memory: assembling, linking, loading.

use anyhow::{Context, Result, anyhow};
use ipu_isa::asm::Assembler;
use ipu_isa::link::{Image, LinkOptions, Linker};
use ipu_simulator::Chip;
use ipu_target::Target;

/// Where the argument record of a kernel stands.
pub const RECORD: u32 = 0x5c000;

/// The GEMM kernels.
pub const GEMM: &str = include_str!("../../../device/gemm.S");
/// The elementwise kernels.
pub const ELEMENTWISE: &str = include_str!("../../../device/elementwise.S");

/// A source: its name, its text, and assembler constants.
pub type Source<'a> = (&'a str, &'a str, &'a [(&'a str, i64)]);

/// Assembles and links sources; the first one must define `main`.
pub fn link(sources: &[Source<'_>]) -> Result<Image> {
    let target = Target::ipu21();
    let mut linker = Linker::new();
    for (name, text, defines) in sources {
        let mut assembler = Assembler::new();
        for (define, value) in *defines {
            assembler.define(define, *value);
        }
        let object = assembler
            .assemble(name, text)
            .map_err(|e| anyhow!("{e}"))
            .with_context(|| format!("cannot assemble {name}"))?;
        linker.add(object);
    }
    let options = LinkOptions {
        base: target.load_base,
        limit: 0x58000,
        relative_base: target.memory_base,
    };
    linker.link(&["main"], options).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow!("cannot link: {}", texts.join("; "))
    })
}

/// A supervisor program in its own section.
pub fn main_section(body: &str) -> String {
    format!(".section .text.main,\"ax\"\n.globl main\n.supervisor\n.p2align 3\nmain:\n{body}\n")
}

/// Loads an image on tiles and starts them at `main`.
pub fn start(
    chip: &mut Chip,
    image: &Image,
    tiles: impl Iterator<Item = u32> + Clone,
) -> Result<()> {
    let entry = *image.symbols.get("main").context("no symbol 'main'")?;
    chip.load_shared(tiles.clone(), image.base, &image.bytes)?;
    for tile in tiles {
        chip.start(tile, entry)?;
    }
    Ok(())
}

/// Bytes of words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// `count` f16 of magnitudes around 1, with rounding in their sums.
pub fn random_halves(count: usize, mut seed: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * count);
    for _ in 0..count {
        seed = seed.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        let h = (seed ^ seed >> 15).wrapping_mul(0x85eb_ca77);
        let unit = f64::from(h >> 8) / f64::from(1u32 << 24);
        out.extend_from_slice(&half::f16::from_f64(2.0 * unit - 1.0).to_le_bytes());
    }
    out
}
