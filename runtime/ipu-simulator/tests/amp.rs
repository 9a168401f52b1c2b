//! The AMP against independent models: symbols for the data flow, f64 for the values.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use half::f16;
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use pretty_assertions::assert_eq;

/// A small deterministic generator of f16 values that are sums of few powers of two.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f16 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let k = (self.0 >> 40) % 65;
        f16::from_f64((k as f64 - 32.0) / 16.0)
    }

    fn many(&mut self, n: usize) -> Vec<f16> {
        (0..n).map(|_| self.next()).collect()
    }
}

fn halves(values: &[f16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn read_halves(chip: &Chip, address: u32, n: usize) -> Vec<f16> {
    let bytes = chip.read(0, address, 2 * n).unwrap();
    bytes
        .chunks(2)
        .map(|b| f16::from_le_bytes([b[0], b[1]]))
        .collect()
}

/// Order in which weights stand for natural output order.
const UNITS: [usize; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// Weight loads that put column `n` of a K-fastest 16x16 block at its unit.
fn weight_loads() -> String {
    (0..16)
        .flat_map(|n| [0, 2].map(|k| format!(" ld128putcs {}\n", 4 * UNITS[n] + k)))
        .collect()
}

#[test]
fn blocks_of_f16_match_a_model() {
    const ROWS: usize = 92;
    const K: usize = 32;
    const A: u32 = 0x90000;
    const C: u32 = 0x98000;
    let mut numbers = Numbers(7);
    // Panels of 16 K each: rows of A, then K-fastest columns of B.
    let a = numbers.many(ROWS * K);
    let b = numbers.many(16 * K);
    let c = numbers.many(ROWS * 16);
    let kernel = include_str!("data/gemm_f16_safe_r92.S");
    let loads = weight_loads();
    let source = format!(
        " setzi $m0, k_first\n setzi $m3, k_mid\n setzi $m1, 0x5c000\n setzi $m2, 0x80000\n\
         put 80, $m2\n{loads} runall $m0, $m1, 0\n sync 2\n get $m8, 96\n\
         {loads} runall $m3, $m1, 0\n sync 2\n bri 1f\n1: get $m9, 96\n trap 0\n\
         .allow_optimizations\n{kernel}"
    );
    let mut chip = chip(&source);
    // The state of the kernel: the C pointer, the A pointer.
    chip.write(0, DATA, &bytes(&[C, A])).unwrap();
    chip.write(0, WIDE, &halves(&b)).unwrap();
    chip.write(0, A, &halves(&a)).unwrap();
    chip.write(0, C, &halves(&c)).unwrap();
    let stop = chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(stop, Stop::Halted { .. }));
    let got = read_halves(&chip, C, ROWS * 16);
    for row in 0..ROWS {
        for n in 0..16 {
            let mut want = c[row * 16 + n].to_f64();
            for panel in 0..K / 16 {
                let x = &a[(panel * ROWS + row) * 16..][..16];
                let w = &b[(panel * 16 + n) * 16..][..16];
                // Products and sums of this data are exact in f32; C is rounded once a panel.
                let dot: f64 = x.iter().zip(w).map(|(x, w)| x.to_f64() * w.to_f64()).sum();
                want = f16::from_f64(want + dot).to_f64();
            }
            assert_eq!(got[row * 16 + n].to_f64(), want, "row {row} column {n}");
        }
    }
    // Per worker and block 4 r + 8 AMP instructions: four to prime, four to drain.
    let counters = chip.counters(0).unwrap();
    assert_eq!(counters.amp, 2 * (6 * 8 + 4 * ROWS as u64));
    // The law of this kernel in a loop: 24 ceil(R / 6) + 132 to 135 clocks a block.
    let m = chip.supervisor_registers(0).unwrap().m;
    let overhead = m[9] - m[8] - 24 * ROWS.div_ceil(6) as u32;
    assert!((132..=135).contains(&overhead), "{overhead}");
}

/// Runs AMP instructions of worker 0 on `(x, partials)` pairs in memory and stores each result.
fn amp(op: &str, x: &str, flags: &[u32], weights: &[u64], data: &[u32], x_words: u32) -> Vec<u32> {
    let words = x_words + 2;
    let mut body = String::from(" ld32 $m2, $m13, $mzero, 0\n ld32 $m3, $m13, $mzero, 1\n");
    for f in flags {
        if x_words == 2 {
            body += " ld64step $a0:1, $mzero, $m2+=, 1\n";
        } else {
            body += " ld32step $a0, $mzero, $m2+=, 1\n ld32step $a1, $mzero, $m2+=, 1\n";
        }
        body += " ld64step $a2:3, $mzero, $m2+=, 1\n";
        body += &format!(" {op} $a4:5, {x}, $a2:3, {f}\n st64step $a4:5, $mzero, $m3+=, 1\n");
    }
    let loads: String = (0..64).map(|i| format!(" ld64putcs {i}\n")).collect();
    let source = format!(
        " setzi $m0, work\n setzi $m1, 0x10000\n setzi $m2, 0x80000\n put 80, $m2\n{loads}\
         run $m0, $m1, 0\n sync 2\n trap 0\n .worker\n work:\n uput 1, $a0\n{body} exitz $mzero\n"
    );
    let mut chip = chip(&source);
    let raw: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    chip.write(0, WIDE, &raw).unwrap();
    chip.write(0, DATA, &bytes(&[0x90000, 0xa0000])).unwrap();
    assert_eq!(data.len() as u32, words.max(4) * flags.len() as u32);
    chip.write(0, 0x90000, &bytes(data)).unwrap();
    chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    common::words(&chip, 0, 0xa0000, 2 * flags.len())
}

/// The documented sequence of `f16v4sisoamp`, on E, O and numbers.
#[test]
fn sisoamp_follows_the_accumulator_pipeline() {
    let mut numbers = Numbers(3);
    let weight_values = numbers.many(256);
    let weights: Vec<u64> = weight_values
        .chunks(4)
        .map(|c| (0..4).fold(0, |w, k| w | u64::from(c[k].to_bits()) << (16 * k)))
        .collect();
    for (code, engines) in [(0u32, 4usize), (1, 2), (2, 1)] {
        let units = 2 * engines;
        let mut flags: Vec<u32> = vec![(code << 4) | u32::from(engines > 1); 4];
        flags.extend((0..24).map(|i| (code << 4) | (i % engines as u32)));
        let mut data = Vec::new();
        let mut want = Vec::new();
        let (mut even, mut odd) = (vec![0f64; units], vec![0f64; units]);
        for (i, &flag) in flags.iter().enumerate() {
            let x = if i < 4 {
                vec![f16::ZERO; 4]
            } else {
                numbers.many(4)
            };
            let pin = [numbers.next().to_f64(), numbers.next().to_f64()];
            data.extend(
                x.chunks(2)
                    .map(|p| u32::from(p[0].to_bits()) | u32::from(p[1].to_bits()) << 16),
            );
            data.extend(pin.map(|p| (p as f32).to_bits()));
            let phase = (flag & 15) as usize;
            let dot = |u: usize| -> f64 {
                let w = &weight_values[16 * u + 4 * phase..][..4];
                (0..4).map(|k| x[k].to_f64() * w[k].to_f64()).sum()
            };
            let source = if phase == 0 {
                odd.clone()
            } else {
                even.clone()
            };
            let leaving = if phase == 0 { &even } else { &odd };
            let out = [leaving[0], leaving[1]];
            let mut chain = leaving[2..].to_vec();
            chain.extend(pin);
            odd = chain;
            even = (0..units).map(|u| source[u] + dot(u)).collect();
            want.extend(out.map(|v| (v as f32).to_bits()));
        }
        let got = amp("f16v4sisoamp", "$a0:1", &flags, &weights, &data, 2);
        // The first results are what the accumulators held at the start: all zero.
        assert_eq!(got, want, "{engines} engines");
    }
}

/// The eight phases of the two-set f32 form.
#[test]
fn sisov2amp_alternates_the_sets() {
    let mut numbers = Numbers(11);
    let values: Vec<f32> = (0..128).map(|_| numbers.next().to_f32()).collect();
    let weights: Vec<u64> = values
        .chunks(2)
        .map(|c| u64::from(c[0].to_bits()) | u64::from(c[1].to_bits()) << 32)
        .collect();
    let flags: Vec<u32> = (0..32).map(|i| i % 8).collect();
    let (mut even, mut odd) = ([[0f64; 8]; 2], [[0f64; 8]; 2]);
    let (mut data, mut want) = (Vec::new(), Vec::new());
    for &phase in &flags {
        let x = numbers.next().to_f64();
        let pin = [numbers.next().to_f64(), numbers.next().to_f64()];
        data.extend([(x as f32).to_bits(), 0]);
        data.extend(pin.map(|p| (p as f32).to_bits()));
        for set in 0..2 {
            let old = even[set];
            if phase == 0 {
                even[set] = odd[set];
                odd[set] = old;
            }
            for u in 0..8 {
                let w = values[2 * (4 * (8 * set + u) + phase as usize / 2) + phase as usize % 2];
                even[set][u] += x * f64::from(w);
            }
            if phase as usize % 2 == set {
                want.extend(odd[set][..2].iter().map(|&v| (v as f32).to_bits()));
                odd[set].rotate_left(2);
                odd[set][6..].copy_from_slice(&pin);
            }
        }
    }
    let got = amp("f32sisov2amp", "$a0", &flags, &weights, &data, 1);
    assert_eq!(got, want);
}

#[test]
fn gina_shifts_a_group() {
    let body = " setzi $a0, 8\n uput 1, $a0\n setzi $a0, 1\n setzi $a1, 2\n\
        .rept 4\n f32v2gina $a2:3, $a0:1, 0\n .endr\n f32v2gina $a4:5, $azeros, 0\n\
        st32 $a2, $m13, $mzero, 0\n st32 $a4, $m13, $mzero, 6\n st32 $a5, $m13, $mzero, 12";
    let chip = run_workers(body);
    assert_eq!(word(&chip, DATA), 0);
    assert_eq!(words(&chip, 0, DATA + 24, 6), [1; 6]);
    assert_eq!(words(&chip, 0, DATA + 48, 6), [2; 6]);
}

#[test]
fn transposes_four_by_four() {
    let value = |r: u32, c: u32| 16 * r + c + 1;
    let rows: Vec<u32> = (0..4)
        .flat_map(|r| [0, 2].map(|c| value(r, c) | value(r, c + 1) << 16))
        .collect();
    let body = " ld64step $a0:1, $mzero, $m2+=, 1\n ld64step $a2:3, $mzero, $m2+=, 1\n\
        f16v4istacc $a4:5, $a0:1, $a2:3, 0\n\
        ld64step $a0:1, $mzero, $m2+=, 1\n ld64step $a2:3, $mzero, $m2+=, 1\n\
        f16v4istacc $a4:5, $a0:1, $a2:3, 1\n\
        f16v4stacc $a4:5, 0\n st64step $a4:5, $mzero, $m3+=, 1\n\
        f16v4stacc $a4:5, 1\n st64step $a4:5, $mzero, $m3+=, 1\n\
        f16v4istacc $a4:5, $a0:1, $a2:3, 0\n st64step $a4:5, $mzero, $m3+=, 1\n\
        f16v4istacc $a4:5, $a0:1, $a2:3, 1\n st64step $a4:5, $mzero, $m3+=, 1\n";
    let mut chip = chip(&launch(&format!(
        " setzi $m2, 0x60000\n setzi $m3, 0x64000\n{body}"
    )));
    chip.write(0, 0x60000, &bytes(&rows)).unwrap();
    chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    let want: Vec<u32> = (0..4)
        .flat_map(|c| [0, 2].map(|r| value(r, c) | value(r + 1, c) << 16))
        .collect();
    assert_eq!(words(&chip, 0, 0x64000, 8), want);
}

#[test]
fn poison_reaches_kernels_that_rely_on_old_state() {
    let source = launch(" st32 $a0, $m13, $mzero, 0");
    let image = assemble(&source);
    let run = |poison| {
        let mut chip = Chip::new(Target::ipu21());
        chip.poison_launch(poison);
        chip.load(0, image.base, &image.bytes).unwrap();
        chip.start(0, BASE).unwrap();
        chip.run(LIMIT).unwrap();
        word(&chip, DATA)
    };
    assert_eq!(run(false), 0);
    assert!(f32::from_bits(run(true)).is_nan());
}
