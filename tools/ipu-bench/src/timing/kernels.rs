//! Weight loads, and the f16 AMP kernels with published laws.

use std::path::Path;

use anyhow::{Context as _, Result};
use half::f16;
use ipu_simulator::Chip;
use ipu_target::Target;

use super::{Row, Status};
use crate::programs::{bytes, link, main_section, random_halves, start};

/// Order in which weights stand for natural output order.
const UNITS: [u32; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// Runs a program on tile 0; clocks between its two reads of the counter.
fn clocks(text: &str, data: &[(u32, &[u8])]) -> Result<(Chip, i64)> {
    let image = link(&[("main.S", text, &[])])?;
    let mut chip = Chip::new(Target::ipu21());
    for (address, bytes) in data {
        chip.load(0, *address, bytes)?;
    }
    start(&mut chip, &image, std::iter::once(0))?;
    chip.run(1_000_000)?;
    let m = chip.supervisor_registers(0)?.m;
    let between = i64::from(m[9].wrapping_sub(m[8]));
    Ok((chip, between))
}

/// Weights of a block, by wide loads or by narrow ones.
fn loads(wide: bool) -> String {
    let mut text = String::new();
    for unit in UNITS {
        for k in (0..4).step_by(if wide { 2 } else { 1 }) {
            let op = if wide { "ld128putcs" } else { "ld64putcs" };
            text += &format!(" {op} {}\n", 4 * unit + k);
        }
    }
    text
}

/// What wide loads save on the four blocks of a group of 16 columns and 64 of K.
pub fn weight_loads() -> Result<Row> {
    let group = |wide: bool, from: u32| -> Result<i64> {
        let block = format!("{} runall $m0, $m0, 0\n sync 2\n", loads(wide));
        let text = main_section(&format!(
            " setzi $m0, work\n setzi $m2, {from}\n nop\n put 80, $m2\n get $m8, 96\n{}\
             get $m9, 96\n trap 0\n .worker\n .p2align 3\n\
             work: {{ rpt 60, 0 ; fnop }}\n {{ nop ; fnop }}\n exitz $mzero\n",
            block.repeat(4)
        ));
        Ok(clocks(&text, &[])?.1)
    };
    let saved = group(false, 0x60000)? - group(true, 0x80000)?;
    let name = "64-K column group, standard less interleaved weights";
    Ok(Row::new(name, 1063 - 940, saved, Status::Checked))
}

/// A reference kernel: its file, labels of its blocks in order, and its law less `24 ceil(R / 6)`.
struct Kernel {
    name: &'static str,
    file: &'static str,
    blocks: [&'static str; 4],
    /// Whether a drain follows.
    drain: bool,
    law: std::ops::RangeInclusive<i64>,
}

const KERNELS: [Kernel; 2] = [
    Kernel {
        name: "safe f16 GEMM",
        file: "gemm_f16_safe_r92.S",
        blocks: ["k_first", "k_mid", "k_mid", "k_mid"],
        drain: false,
        law: 132..=135,
    },
    Kernel {
        name: "chained f16 GEMM",
        file: "gemm_f16_chain_r92.S",
        blocks: ["k_first", "k_mid", "k_mid", "k_mid"],
        drain: true,
        law: 66..=69,
    },
];

const ROWS: usize = 92;
const K: usize = 64;
/// Where weights, left operand, result and the arguments stand.
const B: u32 = 0x80000;
const A: u32 = 0x90000;
const C: u32 = 0xa0000;
const ARGUMENTS: u32 = 0x5c000;

/// The comparisons of the kernels in a folder; none where they are absent.
pub fn reference(folder: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for kernel in &KERNELS {
        let path = folder.join(kernel.file);
        match std::fs::read_to_string(&path) {
            Ok(text) => rows.extend(compare(kernel, &text)?),
            Err(error) => eprintln!("ipu-bench: {} is absent: {error}", path.display()),
        }
    }
    Ok(rows)
}

/// The law of a block and the results of a product, on one kernel.
fn compare(kernel: &Kernel, text: &str) -> Result<[Row; 2]> {
    let mut body = format!(" setzi $m1, {ARGUMENTS}\n setzi $m2, {B}\n nop\n put 80, $m2\n");
    for (i, label) in kernel.blocks.iter().enumerate() {
        // A launch needs its entry; the register of the next one is set while workers run.
        body += &format!(" setzi $m{}, {label}\n", 3 + i);
    }
    body += " setzi $m7, k_drain\n";
    for i in 0..kernel.blocks.len() {
        if i == 2 {
            body += " get $m8, 96\n";
        }
        body += &format!("{} runall $m{}, $m1, 0\n sync 2\n", loads(true), 3 + i);
        if i == 2 {
            // The branch of a loop over blocks.
            body += " bri 1f\n1: get $m9, 96\n";
        }
    }
    if kernel.drain {
        body += " runall $m7, $m1, 0\n sync 2\n";
    }
    let source = main_section(&format!("{body} trap 0\n .allow_optimizations\n{text}"));
    let a = random_halves(ROWS * K, 1);
    let b = random_halves(16 * K, 2);
    let c = random_halves(ROWS * 16, 3);
    let arguments = bytes(&[C, A]);
    let data: [(u32, &[u8]); 4] = [(A, &a), (B, &b), (C, &c), (ARGUMENTS, &arguments)];
    let (chip, block) = clocks(&source, &data).with_context(|| kernel.file.to_string())?;
    let overhead = block - 24 * ROWS.div_ceil(6) as i64;
    let law = overhead.clamp(*kernel.law.start(), *kernel.law.end());
    let want = product(&a, &b, &c);
    let got = chip.read(0, C, 2 * ROWS * 16)?;
    let wrong = want
        .iter()
        .zip(got.chunks_exact(2))
        .filter(|(w, g)| w.to_le_bytes() != [g[0], g[1]])
        .count();
    Ok([
        Row::new(
            format!("{}, block of 16 x 16, {ROWS} rows", kernel.name),
            block - overhead + law,
            block,
            Status::Checked,
        ),
        Row::new(
            format!("{}, {ROWS} x {K} x 16, wrong results", kernel.name),
            0,
            wrong as i64,
            Status::Checked,
        ),
    ])
}

/// The result as the AMP gives it: four products and the accumulator rounded once to f32, phase by
/// phase, and to f16 after 16 of K. Products are exact in f64; sums of five are taken in a fixed
/// point that holds all f16 products and any f32 of their size.
fn product(a: &[u8], b: &[u8], c: &[u8]) -> Vec<f16> {
    let half = |bytes: &[u8], i: usize| f16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
    let mut out = Vec::with_capacity(ROWS * 16);
    for row in 0..ROWS {
        for n in 0..16 {
            let mut value = half(c, row * 16 + n);
            for panel in 0..K / 16 {
                let mut sum = value.to_f32();
                for phase in 0..4 {
                    let mut exact = fixed(f64::from(sum));
                    for k in 4 * phase..4 * phase + 4 {
                        let x = half(a, (panel * ROWS + row) * 16 + k).to_f64();
                        let w = half(b, (panel * 16 + n) * 16 + k).to_f64();
                        exact += fixed(x * w);
                    }
                    sum = exact as f32 * 2f32.powi(-POINT);
                }
                value = f16::from_f32(sum);
            }
            out.push(value);
        }
    }
    out
}

/// Bits behind the point of the fixed-point sums.
const POINT: i32 = 80;

/// A value as an integer; exact for multiples of `2^-80` below `2^46`.
fn fixed(value: f64) -> i128 {
    (value * 2f64.powi(POINT)) as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_weight_loads_save_about_128_clocks() -> Result<()> {
        let row = weight_loads()?;
        assert!((120..=136).contains(&row.simulated), "{row:?}");
        Ok(())
    }
}
