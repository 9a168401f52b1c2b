//! Floats without accumulators.

use super::arithmetic::{canonical32, eighth, round8, round16, widen};
use super::{Plain, operand};
use ipu_isa::Decoded;

/// Functions of the host's library, rounded once.
fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "exp" => f64::exp,
        "exp2" => f64::exp2,
        "ln" => f64::ln,
        "log2" => f64::log2,
        "tanh" => f64::tanh,
        "sigm" => |x| 1.0 / (1.0 + (-x).exp()),
        "sqrt" => f64::sqrt,
        "oox" => |x| 1.0 / x,
        "oorx" => |x| 1.0 / x.sqrt(),
        _ => return None,
    })
}

impl Plain {
    /// The scale of f8: two to the signed number in the low six bits.
    pub(super) fn power(&self) -> f64 {
        let low = (self.scale & 63) as i32;
        2f64.powi(if low < 32 { low } else { low - 64 })
    }

    /// The class code of an element: sign, all bits but the sign, bits of the fraction.
    fn class(&self, name: &str, x: &[u32], i: usize) -> u32 {
        let word = |size: usize| {
            let bits = x[size * i / 32] >> (size * i % 32);
            (bits >> (size - 1) & 1, bits & ((1 << (size - 1)) - 1))
        };
        let f8 = name.starts_with("f8");
        let (sign, rest, fraction) = match name.get(..3) {
            Some("f16") => (word(16).0, word(16).1, 10),
            Some("f32") => (word(32).0, word(32).1, 23),
            _ => (word(8).0, word(8).1, 2 + (self.formats & 1)),
        };
        let one = 1 << fraction;
        let infinity = match fraction {
            10 => 0x7c00,
            23 => 0x7f80_0000,
            _ => u32::MAX,
        };
        match (rest, sign) {
            (0, 1) if f8 => 2,
            (r, _) if r > infinity => 1 + (r >> (fraction - 1) & 1),
            (r, 1) if r == infinity => 3,
            (r, 0) if r == infinity => 7,
            (0, 1) => 5,
            (0, _) => 9,
            (r, 1) if r < one => 6,
            (r, _) if r < one => 10,
            (_, 1) => 4,
            _ => 8,
        }
    }

    /// Instructions that make floats or codes of registers alone.
    pub(super) fn float(&mut self, d: &Decoded, name: &str, dst_words: usize) -> Vec<u32> {
        let op = |n: &str| operand(d, n);
        let reads = d.format().operands.iter().any(|o| o.name == "src0");
        let x = if reads {
            self.words(op("src0"), 4)
        } else {
            Vec::new()
        };
        let half = |v: &[u32], i: usize| widen((v[i / 2] >> (16 * (i % 2))) as u16);
        let single = |v: u32| f64::from(f32::from_bits(v));
        let halves = |values: &[f64]| -> Vec<u32> {
            let bits: Vec<u32> = values.iter().map(|&v| u32::from(round16(v))).collect();
            bits.chunks(2).map(|c| c[0] | c[1] << 16).collect()
        };
        match name {
            "f16v2tof32" => return vec![as32(half(&x, 0)), as32(half(&x, 1))],
            "f16tof32" => return vec![as32(half(&x, 0))],
            "f32tof16" => return vec![u32::from(round16(single(x[0]))) * 0x1_0001],
            "f32v2tof16" => return halves(&[single(x[0]), single(x[1])]),
            "f32v4tof16" => return halves(&[0, 1, 2, 3].map(|i| single(x[i]))),
            "f16v2sum" => return vec![as32(half(&x, 0) + half(&x, 1))],
            "f16v4sum" => {
                return vec![
                    as32(half(&x, 0) + half(&x, 1)),
                    as32(half(&x, 2) + half(&x, 3)),
                ];
            }
            "f32toi32" => return vec![single(x[0]).round_ties_even() as i32 as u32],
            "f32toui32" => return vec![single(x[0]).round_ties_even() as u32],
            "f32int" => {
                let v = single(x[0]);
                return vec![as32(match self.m(op("imm")) {
                    0 => v.round_ties_even(),
                    1 => v.ceil(),
                    2 => v.floor(),
                    3 => v.trunc(),
                    _ => v.round(),
                })];
            }
            "f32div" => {
                let y = self.words(op("src1"), 1)[0];
                return vec![canonical32(f32::from_bits(x[0]) / f32::from_bits(y))];
            }
            "f32sufromui" | "f32v2sufromui" => {
                let centred = |w: &u32| (f64::from(*w) + 0.5) / 2f64.powi(32) - 0.5;
                return x[..dst_words].iter().map(|w| as32(centred(w))).collect();
            }
            "f16v2sufromui" | "f16v4sufromui" => {
                let part = |i: usize| f64::from(x[i / 2] >> (16 * (i % 2)) & 0xffff);
                let values = (0..2 * dst_words).map(|i| (part(i) + 0.5) / 65536.0 - 0.5);
                return halves(&values.collect::<Vec<_>>());
            }
            "f16v2maxc" => {
                let most = larger(half(&x, 0), half(&x, 1));
                return halves(&[most, most]);
            }
            "f16v4maxc" => {
                return halves(&[
                    larger(half(&x, 0), half(&x, 1)),
                    larger(half(&x, 2), half(&x, 3)),
                ]);
            }
            "f16v2grand" | "f32v2grand" => {
                let values = [0, 1].map(|_| {
                    let draws = [0; 3].map(|_| self.draw());
                    let uniform = |i: usize| (draws[i / 4] >> (16 * (i % 4)) & 0xffff) as f64;
                    (0..12).map(|i| (uniform(i) + 0.5) / 65536.0).sum::<f64>() - 6.0
                });
                return if name.starts_with("f16") {
                    halves(&values)
                } else {
                    values.map(as32).to_vec()
                };
            }
            "f16v4rmask" | "f32v2rmask" => {
                // 16 bits of one draw for each element.
                let (bits, keep) = (self.draw(), self.words(op("src1"), 1)[0] & 0x1_ffff);
                let kept = |i: usize| ((bits >> (16 * i)) as u32 & 0xffff) < keep;
                return (0..2)
                    .map(|i| match name {
                        "f32v2rmask" => x[i] * u32::from(kept(i)),
                        _ => {
                            let low = (x[i] & 0xffff) * u32::from(kept(2 * i));
                            let high = (x[i] >> 16) * u32::from(kept(2 * i + 1));
                            low | high << 16
                        }
                    })
                    .collect();
            }
            _ if name.ends_with("class") => {
                let count = name
                    .chars()
                    .nth(name.len() - 6)
                    .and_then(|c| c.to_digit(10));
                let count = if name == "f32class" {
                    1
                } else {
                    count.unwrap_or(1)
                };
                return vec![(0..count).fold(0, |codes, i| {
                    codes | self.class(name, &x, i as usize) << (8 * i)
                })];
            }
            "f16v2tof8" | "f16v8tof8" => {
                let count = if name == "f16v2tof8" { 2 } else { 8 };
                let bytes: Vec<u8> = (0..count)
                    .map(|i| round8(half(&x, i) * self.power(), self.formats & 1))
                    .collect();
                let bytes = if count == 2 { bytes.repeat(2) } else { bytes };
                let words = bytes.chunks(4);
                return words
                    .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
                    .collect();
            }
            "f8v2tof16" | "f8v4tof16" => {
                let bytes = x[0].to_le_bytes();
                let value = |b: &u8| eighth(*b, self.formats & 1) * self.power();
                let values: Vec<f64> = bytes[..2 * dst_words].iter().map(value).collect();
                return halves(&values);
            }
            "f32fromi32" => return vec![(x[0] as i32 as f32).to_bits()],
            "f32fromui32" => return vec![(x[0] as f32).to_bits()],
            _ => {}
        }
        let function = name.trim_start_matches("f16v2").trim_start_matches("f32");
        if let Some(f) = unary(function) {
            return if name.starts_with("f16") {
                halves(&[f(half(&x, 0)), f(half(&x, 1))])
            } else {
                vec![as32(f(single(x[0])))]
            };
        }
        let y = self.words(op("src1"), 4);
        let (kind, operation) = match name.split_at(3) {
            ("f32", rest) => (4, rest.trim_start_matches("v2")),
            (_, rest) => (2, rest.trim_start_matches("v2").trim_start_matches("v4")),
        };
        let count = 4 * dst_words / kind;
        let element = |v: &[u32], i: usize| if kind == 4 { single(v[i]) } else { half(v, i) };
        let mut out = vec![0; dst_words];
        for i in 0..count {
            let a = element(&x, i);
            let (b, low, high) = (element(&y, i), element(&y, 0), element(&y, 1));
            let truth = match operation {
                "cmpeq" => Some(a == b),
                "cmpne" => Some(a != b),
                "cmplt" => Some(a < b),
                "cmple" => Some(a <= b),
                "cmpgt" => Some(a > b),
                "cmpge" => Some(a >= b),
                _ => None,
            };
            let bits = match truth {
                Some(t) if kind == 4 => u32::from(t).wrapping_neg(),
                Some(t) => u32::from(t) * 0xffff,
                None => {
                    // f64 holds sums and products of f16 exactly; f32 has its own instructions.
                    let (s, t) = (a as f32, b as f32);
                    let wide = |v: f64, n: f32| if kind == 4 { f64::from(n) } else { v };
                    let value = match operation {
                        "add" => wide(a + b, s + t),
                        "sub" => wide(a - b, s - t),
                        "mul" => wide(a * b, s * t),
                        "absadd" => wide(a.abs() + b.abs(), s.abs() + t.abs()),
                        "max" => larger(a, b),
                        "min" => -larger(-a, -b),
                        "absmax" => larger(a.abs(), b.abs()),
                        "clamp" => -larger(-larger(a, low), -high),
                        other => panic!("{other}"),
                    };
                    if kind == 4 {
                        as32(value)
                    } else {
                        u32::from(round16(value))
                    }
                }
            };
            if kind == 4 {
                out[i] = bits;
            } else {
                out[i / 2] |= bits << (16 * (i % 2));
            }
        }
        out
    }
}

/// Two f32 as f16 halves of a word.
pub(super) fn pack(values: [u32; 2]) -> u32 {
    let [low, high] = values.map(|v| u32::from(round16(f64::from(f32::from_bits(v)))));
    low | high << 16
}

/// A value rounded to f32.
pub(super) fn as32(value: f64) -> u32 {
    canonical32(value as f32)
}

/// The larger; a NaN loses, −0 is below +0.
fn larger(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_positive() {
                a
            } else {
                b
            }
        }
        _ => a.max(b),
    }
}
