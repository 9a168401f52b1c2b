//! Floating point against `half` and f64: one-operand forms on every f16, two-operand forms on
//! random pairs, `IPU_SIM_PAIRS` of them (a million for the whole check).

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use half::f16;
use pretty_assertions::assert_eq;

const IN: u32 = 0x80000;
const SECOND: u32 = 0x90000;
const OUT: u32 = 0xa0000;
/// Words of a batch.
const BATCH: usize = 16384;

/// Runs `op` on `$a0:1` (and `$a2:3`) for every group of words; results from `$a4:5`.
fn each(op: &str, x: &[u32], y: &[u32], words_in: usize, words_out: usize) -> Vec<u32> {
    let load = if words_in == 1 {
        "ld32step $a0"
    } else {
        "ld64step $a0:1"
    };
    let second = if words_in == 1 {
        "ld32step $a2"
    } else {
        "ld64step $a2:3"
    };
    let store = if words_out == 1 {
        "st32step $a4"
    } else {
        "st64step $a4:5"
    };
    let count = x.len() / words_in;
    let mut chip = chip(&format!(
        "setzi $m0, work\n setzi $m1, 0\n nop\n nop\n run $m0, $m1, 0\n sync 2\n trap 0\n\
         .worker\n work: setzi $m0, {IN}\n setzi $m1, {SECOND}\n setzi $m2, {OUT}\n\
         setzi $m3, {}\n\
         loop: {load}, $mzero, $m0+=, 1\n {second}, $mzero, $m1+=, 1\n {op}\n\
         {store}, $mzero, $m2+=, 1\n brnzdec $m3, loop\n exitz $mzero\n",
        count - 1
    ));
    chip.write(0, IN, &bytes(x)).unwrap();
    chip.write(0, SECOND, &bytes(y)).unwrap();
    chip.run(100_000_000)
        .unwrap_or_else(|e| panic!("{op}: {e}"));
    words(&chip, 0, OUT, count * words_out)
}

/// All f16 as words of two, in batches.
fn all_halves() -> Vec<Vec<u32>> {
    let words: Vec<u32> = (0..32768u32)
        .map(|i| (2 * i) | ((2 * i + 1) << 16))
        .collect();
    words.chunks(BATCH).map(<[u32]>::to_vec).collect()
}

/// The result rules for f16: NaN is 0x7e00, overflow the largest value.
fn to16(value: f64) -> u16 {
    // `half` may round by way of f32; the right result is this one or a neighbour.
    let near = f16::from_f64(value);
    let neighbours = [0, 1, -1].map(|step: i16| near.to_bits().wrapping_add_signed(step));
    let distance = |bits: &u16| {
        let x = f16::from_bits(*bits);
        // The even one of two equally near ones.
        ((x.to_f64() - value).abs(), bits & 1)
    };
    let finite = |bits: &u16| f16::from_bits(*bits).is_finite();
    let h = if near.is_finite() && value != 0.0 {
        let best = neighbours
            .into_iter()
            .filter(finite)
            .min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap());
        f16::from_bits(best.unwrap())
    } else {
        near
    };
    match () {
        () if h.is_nan() => 0x7e00,
        () if h.is_infinite() && value < 0.0 => 0xfbff,
        () if h.is_infinite() => 0x7bff,
        () => h.to_bits(),
    }
}

fn to32(value: f64) -> u32 {
    let f = value as f32;
    if f.is_nan() { 0x7fc0_0000 } else { f.to_bits() }
}

fn halves_of(word: u32) -> [f64; 2] {
    [word as u16, (word >> 16) as u16].map(|h| f16::from_bits(h).to_f64())
}

fn pack(h: [u16; 2]) -> u32 {
    u32::from(h[0]) | u32::from(h[1]) << 16
}

/// A named function of one number.
type Unary = (&'static str, fn(f64) -> f64);
/// A named function of two numbers.
type Binary = (&'static str, fn(f64, f64) -> f64);

const TRANSCENDENTAL: [Unary; 6] = [
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("ln", f64::ln),
    ("log2", f64::log2),
    ("tanh", f64::tanh),
    ("sigm", |x| 1.0 / (1.0 + (-x).exp())),
];

#[test]
fn one_operand_f16_forms_on_every_input() {
    for x in all_halves() {
        for (name, f) in TRANSCENDENTAL {
            let got = each(&format!("f16v2{name} $a4, $a0"), &x, &[], 1, 1);
            for (&x, got) in x.iter().zip(got) {
                let want = pack(halves_of(x).map(|v| to16(f(v))));
                assert_eq!(got, want, "{name} {x:#010x}");
            }
        }
        let got = each("f16v2tof32 $a4:5, $a0", &x, &[], 1, 2);
        for (&x, got) in x.iter().zip(got.chunks(2)) {
            assert_eq!(got, halves_of(x).map(to32), "tof32 {x:#010x}");
        }
        let got = each("f16v2sum $a4, $a0", &x, &[], 1, 1);
        for (&x, got) in x.iter().zip(got) {
            let [a, b] = halves_of(x);
            assert_eq!(got, to32(a + b), "sum {x:#010x}");
        }
        let got = each("f16v2maxc $a4, $a0", &x, &[], 1, 1);
        for (&x, got) in x.iter().zip(got) {
            let [a, b] = halves_of(x);
            let want = to16(larger(a, b));
            assert_eq!(got, pack([want; 2]), "maxc {x:#010x}");
        }
    }
}

/// Results that are infinite become the largest f16, so f32 forms tell more.
#[test]
fn one_operand_f32_forms_on_every_f16() {
    let forms: [Unary; 9] = [
        TRANSCENDENTAL[0],
        TRANSCENDENTAL[1],
        TRANSCENDENTAL[2],
        TRANSCENDENTAL[3],
        TRANSCENDENTAL[4],
        TRANSCENDENTAL[5],
        ("sqrt", f64::sqrt),
        ("oox", |x| 1.0 / x),
        ("oorx", |x| 1.0 / x.sqrt()),
    ];
    let all: Vec<u32> = (0..=u16::MAX)
        .map(|h| f16::from_bits(h).to_f32().to_bits())
        .collect();
    for x in all.chunks(BATCH) {
        for (name, f) in forms {
            let got = each(&format!("f32{name} $a4, $a0"), x, &[], 1, 1);
            for (&x, got) in x.iter().zip(got) {
                let want = to32(f(f64::from(f32::from_bits(x))));
                assert_eq!(got, want, "{name} {:?}", f32::from_bits(x));
            }
        }
        for (mode, f) in [
            (0, f64::round_ties_even as fn(f64) -> f64),
            (1, f64::ceil),
            (2, f64::floor),
            (3, f64::trunc),
            (4, f64::round),
        ] {
            let got = each(&format!("f32int $a4, $a0, {mode}"), x, &[], 1, 1);
            for (&x, got) in x.iter().zip(got) {
                let want = to32(f(f64::from(f32::from_bits(x))));
                assert_eq!(got, want, "int {mode} {:?}", f32::from_bits(x));
            }
        }
        let signed = each("f32toi32 $a4, $a0", x, &[], 1, 1);
        let unsigned = each("f32toui32 $a4, $a0", x, &[], 1, 1);
        let half = each("f32tof16 $a4, $a0", x, &[], 1, 1);
        for (i, &bits) in x.iter().enumerate() {
            let v = f32::from_bits(bits);
            let r = v.round_ties_even();
            assert_eq!(signed[i], r as i32 as u32, "toi32 {v:?}");
            assert_eq!(unsigned[i], r as u32, "toui32 {v:?}");
            assert_eq!(half[i], pack([to16(v.into()); 2]), "tof16 {v:?}");
        }
    }
}

/// f8 of every f16, through the value tables of both formats.
#[test]
fn f8_conversions_on_every_input() {
    for (format, fraction, bias) in [(1u32, 3, 8), (0, 2, 16)] {
        // All values in order of their code.
        let values: Vec<f64> = (0..128)
            .map(|code: i32| {
                let (e, m) = (code >> fraction, code & ((1 << fraction) - 1));
                let significand = if e == 0 { m } else { m | 1 << fraction };
                f64::from(significand) * 2f64.powi(e.max(1) - bias - fraction)
            })
            .collect();
        let nearest = |v: f64| -> u32 {
            if v.is_nan() {
                return 0x80;
            }
            let a = v.abs().min(values[127]);
            let above = values.partition_point(|&t| t < a);
            let code = match above {
                0 => 0,
                i => {
                    let (low, high) = (a - values[i - 1], values[i] - a);
                    let down = low < high || low == high && (i - 1) % 2 == 0;
                    if down { i - 1 } else { i }
                }
            };
            code as u32 | if v < 0.0 && code != 0 { 0x80 } else { 0 }
        };
        for x in all_halves() {
            let op = format!("setzi $a6, {format}\n uput 9, $a6\n f16v2tof8 $a4, $a0");
            for (&x, got) in x.iter().zip(each(&op, &x, &[], 1, 1)) {
                let [low, high] = halves_of(x).map(nearest);
                assert_eq!(got, (low | high << 8) * 0x1_0001, "{format} {x:#010x}");
            }
        }
        let codes: Vec<u32> = (0..64).map(|i| 0x0302_0100 + 0x0404_0404 * i).collect();
        let op = format!("setzi $a6, {format}\n uput 9, $a6\n f8v4tof16 $a4:5, $a0");
        for (&x, got) in codes.iter().zip(each(&op, &codes, &[], 1, 2).chunks(2)) {
            let halves = x.to_le_bytes().map(|b| match b {
                0x80 => 0x7e00,
                _ => to16(values[usize::from(b & 127)] * if b > 127 { -1.0 } else { 1.0 }),
            });
            let want = [pack([halves[0], halves[1]]), pack([halves[2], halves[3]])];
            assert_eq!(got, want, "{format} {x:#010x}");
        }
    }
}

/// NaN loses, −0 is below +0.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b || a == b && a.is_sign_negative() {
        b
    } else {
        a
    }
}

const BINARY: [Binary; 7] = [
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("absadd", |x, y| x.abs() + y.abs()),
    ("max", larger),
    ("min", |x, y| -larger(-x, -y)),
    ("absmax", |x, y| larger(x.abs(), y.abs())),
];

/// A named comparison.
type Comparison = (&'static str, fn(&f64, &f64) -> bool);
const COMPARISONS: [Comparison; 6] = [
    ("eq", f64::eq),
    ("ne", f64::ne),
    ("lt", f64::lt),
    ("le", f64::le),
    ("gt", f64::gt),
    ("ge", f64::ge),
];

fn pairs() -> usize {
    std::env::var("IPU_SIM_PAIRS").map_or(BATCH, |v| v.parse().unwrap())
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(0x1234_5679);
        (self.0 >> 32) as u32
    }
}

#[test]
fn two_operand_f16_forms_on_random_pairs() {
    let mut random = Random(1);
    // Two pairs in each word.
    for _ in 0..pairs().div_ceil(2 * BATCH) {
        let x: Vec<u32> = (0..BATCH).map(|_| random.next()).collect();
        let y: Vec<u32> = (0..BATCH).map(|_| random.next()).collect();
        for (name, f) in BINARY {
            let got = each(&format!("f16v2{name} $a4, $a0, $a2"), &x, &y, 1, 1);
            for ((&x, &y), got) in x.iter().zip(&y).zip(got) {
                let ([a, b], [c, d]) = (halves_of(x), halves_of(y));
                let want = pack([to16(f(a, c)), to16(f(b, d))]);
                assert_eq!(got, want, "{name} {x:#010x} {y:#010x}");
            }
        }
        for (name, f) in COMPARISONS {
            let got = each(&format!("f16v2cmp{name} $a4, $a0, $a2"), &x, &y, 1, 1);
            for ((&x, &y), got) in x.iter().zip(&y).zip(got) {
                let ([a, b], [c, d]) = (halves_of(x), halves_of(y));
                let want = pack([f(&a, &c), f(&b, &d)].map(|t| u16::from(t) * 0xffff));
                assert_eq!(got, want, "cmp{name} {x:#010x} {y:#010x}");
            }
        }
    }
}

#[test]
fn two_operand_f32_forms_on_random_pairs() {
    let mut random = Random(2);
    for batch in 0..pairs().div_ceil(BATCH) {
        // Every other batch within a few binades, so that sums round.
        let mut value = || match batch % 2 {
            0 => random.next(),
            _ => random.next() & 0x83ff_ffff | 0x3c00_0000,
        };
        let x: Vec<u32> = (0..BATCH).map(|_| value()).collect();
        let y: Vec<u32> = (0..BATCH).map(|_| value()).collect();
        let of = |b: u32| f64::from(f32::from_bits(b));
        for (name, f) in BINARY
            .into_iter()
            .chain([("div", (|x, y| x / y) as fn(f64, f64) -> f64)])
        {
            let got = each(&format!("f32{name} $a4, $a0, $a2"), &x, &y, 1, 1);
            for ((&x, &y), got) in x.iter().zip(&y).zip(got) {
                // Rounding twice is harmless with f64 between, except for subnormal results:
                // sums have none that are inexact, for the rest f32 does it at once.
                let (s, t) = (f32::from_bits(x), f32::from_bits(y));
                let want = match name {
                    "mul" => to32(f64::from(s * t)),
                    "div" => to32(f64::from(s / t)),
                    _ => to32(f(of(x), of(y))),
                };
                assert_eq!(got, want, "{name} {x:#010x} {y:#010x}");
            }
        }
        for (name, f) in COMPARISONS {
            let got = each(&format!("f32cmp{name} $a4, $a0, $a2"), &x, &y, 1, 1);
            for ((&x, &y), got) in x.iter().zip(&y).zip(got) {
                let want = u32::from(f(&of(x), &of(y))).wrapping_neg();
                assert_eq!(got, want, "cmp{name} {x:#010x} {y:#010x}");
            }
        }
    }
}
