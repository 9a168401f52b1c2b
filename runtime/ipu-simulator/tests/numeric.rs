//! What instructions compute, told as formulas: convolutions, matrix products, scaled sums, random
//! masks, loads through fetched offsets. The data is exact in every format, so that no order of
//! additions matters, apart from the tests of the one rounding at the end.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use half::f16;
use ipu_simulator::{Chip, Context};
use pretty_assertions::assert_eq;

const X: u32 = 0x60000;
const OUT: u32 = 0x64000;
const WEIGHTS: u32 = 0x68000;

/// Runs `body` on worker 0 after loading all weights; `$m2` and `$m3` point to `data` and results.
fn worker(body: &str, weights: &[u64], data: &[u32], formats: u32, scale: u32) -> Chip {
    let loads: String = (0..64).map(|i| format!(" ld64putcs {i}\n")).collect();
    let mut chip = chip(&format!(
        " setzi $m0, work\n setzi $m1, {}\n setzi $m2, {WEIGHTS}\n put 80, $m2\n{loads}\
         setzi $m3, {formats}\n setzi $m4, {scale}\n nop\n nop\n nop\n nop\n\
         put 49, $m3\n put 51, $m4\n run $m0, $m1, 0\n sync 2\n trap 0\n .worker\n work:\n\
         setzi $m2, {X}\n setzi $m3, {OUT}\n setzi $a6, 8\n uput 1, $a6\n{body} exitz $mzero\n",
        DATA - 0x4c000
    ));
    let raw: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    chip.write(0, WEIGHTS, &raw).unwrap();
    chip.write(0, X, &bytes(data)).unwrap();
    chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    chip
}

/// Small integers.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 24) as i32 % 7 - 3
    }

    fn many<const N: usize>(&mut self) -> [f64; N] {
        std::array::from_fn(|_| self.next().into())
    }
}

fn half(x: f64) -> u32 {
    f16::from_f64(x).to_bits().into()
}

fn halves(x: &[f64]) -> Vec<u32> {
    x.chunks(2).map(|p| half(p[0]) | half(p[1]) << 16).collect()
}

/// The f8 of a small integer, by the layout of the format: sign, exponent, fraction.
fn eighth(x: f64, f143: bool) -> u8 {
    let (fraction, bias) = if f143 { (3, 8) } else { (2, 16) };
    if x == 0.0 {
        return 0;
    }
    let exponent = x.abs().log2().floor();
    let steps = (x.abs() / exponent.exp2() - 1.0) * f64::from(1 << fraction);
    assert_eq!(steps, steps.trunc(), "{x} is no f8");
    let sign = if x < 0.0 { 0x80 } else { 0 };
    sign | ((exponent as u8 + bias) << fraction) | steps as u8
}

fn eighths(x: &[f64; 8], f143: bool) -> u64 {
    u64::from_le_bytes(x.map(|x| eighth(x, f143)))
}

fn words_of(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

fn dot(x: &[f64], w: &[f64]) -> f64 {
    x.iter().zip(w).map(|(x, w)| x * w).sum()
}

/// One instruction for each input: `$a0:1` data, `$a2:3` partials, the result is stored.
fn each(op: &str, count: usize, flags: impl Fn(usize) -> u32) -> String {
    (0..count)
        .map(|i| {
            format!(
                " ld64step $a0:1, $mzero, $m2+=, 1\n ld64step $a2:3, $mzero, $m2+=, 1\n\
                 {op}, $a2:3, {}\n st64step $a4:5, $mzero, $m3+=, 1\n",
                flags(i)
            )
        })
        .collect()
}

/// Blocks of four phases: 16 channels, K = 32, partials of f16 in and out; all formats, one scale.
#[test]
fn f8_matrix_products() {
    const BLOCKS: usize = 6;
    for formats in 0..4 {
        let (w143, x143) = (formats & 1 != 0, formats & 2 != 0);
        let mut numbers = Numbers(formats + 1);
        let w: Vec<[f64; 8]> = (0..64).map(|_| numbers.many()).collect();
        let weights: Vec<u64> = w.iter().map(|w| eighths(w, w143)).collect();
        let x: Vec<[f64; 8]> = (0..4 * BLOCKS).map(|_| numbers.many()).collect();
        let pin: Vec<[f64; 4]> = (0..4 * BLOCKS).map(|_| numbers.many()).collect();
        let data: Vec<u32> = x
            .iter()
            .zip(&pin)
            .flat_map(|(x, p)| [&words_of(eighths(x, x143))[..], &halves(p)].concat())
            .collect();
        let op = "f8v8hihov4amp $a4:5, $a0:1";
        let body = each(op, 4 * BLOCKS, |i| i as u32 % 4);
        // The scale multiplies products alone.
        let chip = worker(&body, &weights, &data, formats, 1);
        let got = words(&chip, 0, OUT, 8 * BLOCKS);
        // Partials enter with a block, are used by the next one and leave with the one after.
        for block in 0..BLOCKS - 2 {
            for phase in 0..4 {
                let units = [2 * phase, 2 * phase + 1, 8 + 2 * phase, 9 + 2 * phase];
                let want: [f64; 4] = std::array::from_fn(|i| {
                    let at = 4 * (block + 1);
                    let sum: f64 = (0..4).map(|p| dot(&x[at + p], &w[4 * units[i] + p])).sum();
                    pin[4 * block + phase][i] + 2.0 * sum
                });
                let at = 2 * (4 * (block + 2) + phase);
                assert_eq!(
                    got[at..at + 2],
                    halves(&want),
                    "formats {formats} block {block}"
                );
            }
        }
    }
}

/// 2^24 + 1 lies between two f32; a product of 2^-34, 58 bits below, decides.
#[test]
fn f8_sums_are_rounded_once() {
    let (large, one, least) = (0x70u64, 0x40, 0x01);
    for (last, want) in [
        (least, 16_777_218.0),
        (0, 16_777_216.0),
        (0x80 | least, 16_777_216.0),
    ] {
        for order in [
            [large, one, last, 0],
            [last, 0, one, large],
            [one, large, 0, last],
        ] {
            let at = |i: usize| order[i] << (8 * i);
            // The same codes as weights, without a sign.
            let w = |i: usize| (order[i] & 0x7f) << (8 * i);
            let mut weights = [0; 64];
            weights[0] = (0..4).map(w).sum();
            let x: u64 = (0..4).map(at).sum();
            let [low, high] = words_of(x);
            let body = each("f8v8hihov4amp $a4:5, $a0:1", 1, |_| 0);
            let chip = worker(&body, &weights, &[low, high, 0, 0], 0, 0);
            let acc = chip.worker_accumulators(0, 0).unwrap();
            assert_eq!(acc[0], want, "{order:x?}");
        }
    }
}

/// Stages of the two chains of a set, first to last.
fn stages(chain: usize, count: usize) -> Vec<usize> {
    let all = [6, 4, 2, 0].map(|unit| unit + chain);
    all[4 - count..].to_vec()
}

/// A convolution of some taps with two outputs for each set: what leaves at instruction `t` is the
/// partial of `t - taps` plus the products of the inputs since then, one stage each.
#[test]
fn convolutions_of_f16_and_f8() {
    const COUNT: usize = 12;
    for (op, lanes, sets) in [("f16v4hihov4slic", 4, 2), ("f8v8hihov4slic", 8, 2)] {
        for (taps, slot) in [(4, 0), (4, 1), (3, 0), (3, 1)] {
            let mut numbers = Numbers(9);
            let w: Vec<[f64; 8]> = (0..64).map(|_| numbers.many()).collect();
            let x: Vec<[f64; 8]> = (0..COUNT).map(|_| numbers.many()).collect();
            let pin: Vec<[f64; 4]> = (0..COUNT).map(|_| numbers.many()).collect();
            let encode = |v: &[f64; 8]| match lanes {
                8 => eighths(v, true),
                _ => {
                    let h = halves(&v[..4]);
                    u64::from(h[0]) | u64::from(h[1]) << 32
                }
            };
            let weights: Vec<u64> = w.iter().map(encode).collect();
            let data: Vec<u32> = x
                .iter()
                .zip(&pin)
                .flat_map(|(x, p)| [&words_of(encode(x))[..], &halves(p)].concat())
                .collect();
            let flags = slot as u32 + if taps == 3 { 16 } else { 0 };
            let body = each(&format!("{op} $a4:5, $a0:1"), COUNT, |_| flags);
            let chip = worker(&body, &weights, &data, 3, 0);
            let got = words(&chip, 0, OUT, 2 * COUNT);
            for t in taps..COUNT {
                let want: Vec<f64> = (0..sets * 2)
                    .map(|i| {
                        let (set, chain) = (i / 2, i % 2);
                        let entered = t - taps;
                        let products = stages(chain, taps).into_iter().enumerate().map(|(s, u)| {
                            let w = &w[4 * (8 * set + u) + slot];
                            dot(&x[entered + s][..lanes], &w[..lanes])
                        });
                        pin[entered][i] + products.sum::<f64>()
                    })
                    .collect();
                assert_eq!(
                    got[2 * t..2 * t + 2],
                    halves(&want),
                    "{op} {taps} {slot} {t}"
                );
            }
        }
    }
}

/// Inputs of two f32, an instruction for each element. Set 0 takes and gives partials with the
/// lower element; set 1 (of the `v2` form) with the upper one, as part of the same convolution.
#[test]
fn convolutions_of_f32() {
    const COUNT: usize = 10;
    for (op, sets) in [("f32sisoslic", 1), ("f32sisov2slic", 2)] {
        for (taps, slot) in [(4usize, 0u32), (4, 1), (3, 0), (3, 1)] {
            let mut numbers = Numbers(5);
            let w: Vec<[f64; 2]> = (0..64).map(|_| numbers.many()).collect();
            let x: Vec<[f64; 2]> = (0..COUNT).map(|_| numbers.many()).collect();
            // Partials of both sets for each input.
            let pin: Vec<[[f64; 2]; 2]> = (0..COUNT)
                .map(|_| [numbers.many(), numbers.many()])
                .collect();
            let single = |v: f64| (v as f32).to_bits();
            let weights: Vec<u64> = w
                .iter()
                .map(|w| u64::from(single(w[0])) | u64::from(single(w[1])) << 32)
                .collect();
            let data: Vec<u32> = (0..2 * COUNT)
                .flat_map(|i| {
                    let [p, q] = pin[i / 2][i % 2].map(single);
                    [single(x[i / 2][i % 2]), 0, p, q]
                })
                .collect();
            let base = 2 * slot + if taps == 3 { 16 } else { 0 };
            let body = each(&format!("{op} $a4:5, $a0"), 2 * COUNT, |i| {
                base + i as u32 % 2
            });
            let chip = worker(&body, &weights, &data, 0, 0);
            let got = words(&chip, 0, OUT, 4 * COUNT);
            for t in taps..COUNT {
                for set in 0..sets {
                    let want = [0, 1].map(|chain| {
                        let entered = t - taps;
                        let units = stages(chain, taps).into_iter().enumerate();
                        let products = units.map(|(s, u)| {
                            dot(&x[entered + s], &w[4 * (8 * set + u) + slot as usize])
                        });
                        single(pin[entered][set][chain] + products.sum::<f64>())
                    });
                    let at = 2 * (2 * t + set);
                    assert_eq!(got[at..at + 2], want, "{op} {taps} {slot} {t} set {set}");
                }
            }
        }
    }
}

#[test]
fn scaled_sums_replace_the_accumulators() {
    let x = [1.0, -2.0, 3.0, 0.5];
    let y = [4.0, 5.0, -6.0, 7.0];
    let data = [halves(&x), halves(&y), vec![half(0.5) | half(-3.0) << 16]].concat();
    let load = " ld64 $a0:1, $m2, $mzero, 0\n ld64 $a2:3, $m2, $mzero, 1\n\
         ld32 $a4, $m2, $mzero, 4\n uput 8, $a4\n";
    // The results are those of the instruction before.
    let mix = " f16v4mix $a4:5, $a0:1, $a2:3\n f16v4mix $a6:7, $azeros, $azeros\n\
         st64 $a4:5, $m3, $mzero, 0\n st64 $a6:7, $m3, $mzero, 1\n";
    let chip = worker(&format!("{load}{mix}"), &[], &data, 0, 0);
    let want: Vec<f64> = (0..4).map(|i| 0.5 * x[i] - 3.0 * y[i]).collect();
    assert_eq!(
        words(&chip, 0, OUT, 4),
        [vec![0, 0], halves(&want)].concat()
    );

    let single = |v: f32| v.to_bits();
    // a x + y is rounded once: the square of 1 + 2^-23 less 1 + 2^-22 is 2^-46.
    let step = 1.0 + f32::EPSILON;
    let data = [step, 2.0, -1.0 - 2.0 * f32::EPSILON, 10.0, step].map(single);
    let axpy = " f32v2axpy $a4:5, $a0:1, $a2:3\n f32v2axpy $a6:7, $azeros, $azeros\n\
         st64 $a4:5, $m3, $mzero, 0\n st64 $a6:7, $m3, $mzero, 1\n";
    let chip = worker(&format!("{load}{axpy}"), &[], &data, 0, 0);
    let want = [0.0, 0.0, 2f32.powi(-46), 2.0 * step + 10.0].map(single);
    assert_eq!(words(&chip, 0, OUT, 4), want);
}

/// Each element is kept with probability `p / 65536`; elements are independent of each other.
#[test]
fn random_masks_keep_the_given_part() {
    const COUNT: u32 = 4000;
    for (op, lanes) in [("f16v4rmask", 4), ("f32v2rmask", 2)] {
        for keep in [0u32, 0x4000, 0xc000, 0x1_0000, 0x1_ffff] {
            let body = format!(
                " setzi $a0, 77\n uput 7, $a0\n ld64 $a0:1, $m2, $mzero, 0\n ld32 $a2, $m2, $mzero, 2\n\
                 setzi $m4, {}\n\
                 loop: {op} $a4:5, $a0:1, $a2\n st64step $a4:5, $mzero, $m3+=, 1\n\
                 brnzdec $m4, loop\n",
                COUNT - 1
            );
            let chip = worker(&body, &[], &[0x1111_2222, 0x3333_4444, keep], 0, 0);
            let got = words(&chip, 0, OUT, 2 * COUNT as usize);
            let mut kept = vec![0u32; lanes];
            for pair in got.chunks(2) {
                for (lane, count) in kept.iter_mut().enumerate() {
                    let (value, whole) = match lanes {
                        2 => (pair[lane], [0x1111_2222, 0x3333_4444][lane]),
                        _ => {
                            let word = pair[lane / 2] >> (16 * (lane % 2)) & 0xffff;
                            (word, [0x2222, 0x1111, 0x4444, 0x3333][lane])
                        }
                    };
                    assert!(value == 0 || value == whole, "{op} {value:#x}");
                    *count += u32::from(value != 0);
                }
            }
            let want = COUNT * keep.min(0x1_0000) / 0x1_0000;
            let most = if keep == 0 || keep > 0xffff { 0 } else { 110 };
            assert!(
                kept.iter().all(|k| k.abs_diff(want) <= most),
                "{op} {keep:#x}: {kept:?} of {want}"
            );
        }
    }
}

/// The offset of each load was fetched by the load before it.
#[test]
fn loads_follow_fetched_offsets() {
    let table: Vec<u32> = (0..32).map(|i| 0x0100_0000 * i + 0x1000 + i).collect();
    let halves_at = |offset: u32| {
        let bytes = bytes(&table);
        let at = offset as usize;
        u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])) * 0x1_0001
    };
    let run = |op: &str, list: &[u32], offset: u32| {
        let mut source = chip(&launch(&format!(
            " setzi $m0, {X}\n setzi $m1, {WIDE}\n {op}\n {op}\n {op}\n"
        )));
        source.write(0, X, &bytes(list)).unwrap();
        source.write(0, WIDE, &bytes(&table)).unwrap();
        source.registers_mut(0, Context::Worker(0)).unwrap().m[2] = offset;
        for w in 1..6 {
            source.registers_mut(0, Context::Worker(w)).unwrap().m[2] = offset;
        }
        source.run(LIMIT).unwrap_or_else(|e| panic!("{op}: {e}"));
        source.worker_registers(0, 0).unwrap().clone()
    };
    // Offsets 16, 40 and 8; the last one fetched is 24.
    let list = [40 | 8 << 16, 24];
    let r = run("ldd16a32 $a0, $m0++, $m1, $m2@", &list, 16);
    assert_eq!((r.a[0], r.m[0], r.m[2]), (table[2], X + 6, 24));
    let r = run("ldd16a64 $a0:1, $m0++, $m1, $m2@", &list, 16);
    assert_eq!((r.a[0], r.a[1], r.m[2]), (table[2], table[3], 24));
    let list = [42 | 10 << 16, 24];
    let r = run("ldd16b16 $a0, $m0++, $m1, $m2@", &list, 16);
    assert_eq!((r.a[0], r.m[2]), (halves_at(10), 24));
    // Two offsets in a word: the upper one is used, the word replaces both.
    let list = [40 << 16 | 1, 8 << 16 | 2, 24 << 16 | 3];
    let r = run("ldd16v2a32 $a0, $m0++, $m1, $m2@", &list, 16 << 16);
    assert_eq!((r.a[0], r.m[0], r.m[2]), (table[2], X + 12, list[2]));
    // A pair from a stepping address, a word from an offset.
    let r = run("ld64a32 $a0:3, $m0++, $m1, $m2", &[1, 2, 3, 4, 5, 6], 20);
    assert_eq!((r.a[1], r.a[2], r.a[3], r.m[0]), (table[5], 5, 6, X + 24));
}

/// Two offsets, packed: the lower one moves on by one half, the upper one by packed steps.
#[test]
fn two_loads_follow_packed_offsets() {
    let table: Vec<u32> = (0..64).map(|i| (2 * i) | (2 * i + 1) << 16).collect();
    let body = " setzi $m0, 0x80000\n ldb16b16 $a0:1, $m0, $m2++, $m3>>\n\
         ldb16b16 $a2:3, $m0, $m2++, $m3>>\n";
    let mut chip = chip(&launch(body));
    chip.write(0, WIDE, &bytes(&table)).unwrap();
    for w in 0..6 {
        let m = &mut chip.registers_mut(0, Context::Worker(w)).unwrap().m;
        (m[2], m[3]) = (40 << 16 | 16, 0x758);
    }
    chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    let r = chip.worker_registers(0, 0).unwrap();
    let at = |offset: u32| offset / 2 * 0x1_0001;
    assert_eq!(r.a[..4], [at(16), at(40), at(18), at(56)]);
    assert_eq!((r.m[2], r.m[3]), (66 << 16 | 20, 7));
}
