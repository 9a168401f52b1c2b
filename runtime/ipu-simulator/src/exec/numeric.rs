//! Rounding. Every operation yields an f64 that is exact, or rounded to odd where exact does not
//! fit: the last bit is set when bits were lost. Two more bits than the result format make such a
//! value round as the exact one would, so each result is rounded exactly once, in any mode.

use crate::context::Prng;
use crate::csr;

/// Direction of rounding, `$FP_CTL.RND`, or at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Round {
    #[default]
    Nearest,
    Up,
    Down,
    Zero,
    Away,
    /// Up with the probability of the lost part, only for f16 results (`$FP_CTL.ESR`).
    Stochastic,
}

impl Round {
    /// The mode of a code; codes without a meaning are `None`.
    pub(crate) fn of_code(code: u32) -> Option<Round> {
        Some(match code {
            0 => Round::Nearest,
            1 => Round::Up,
            2 => Round::Down,
            3 => Round::Zero,
            4 => Round::Away,
            _ => return None,
        })
    }
}

/// Floating-point environment of one instruction: modes in, flags out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fp {
    /// Direction of f32 results and of conversions to integers.
    pub(crate) round: Round,
    /// Direction of f16 and f8 results.
    pub(crate) round16: Round,
    /// f16 overflow gives NaN instead of the largest finite value.
    pub(crate) nan_on_overflow: bool,
    /// `csr::FLAG_*`.
    pub(crate) flags: u32,
    /// The generator, moved on by stochastic rounding only.
    pub(crate) prng: Prng,
    /// Bits of the newest draw that are left, 16 for each rounding.
    random: u64,
    left: u8,
}

/// The canonical NaN of each format.
pub(crate) const NAN32: u32 = 0x7fc0_0000;
/// See [`NAN32`].
pub(crate) const NAN16: u16 = 0x7e00;
/// Largest finite f16.
pub(crate) const MAX16: u16 = 0x7bff;
/// The only NaN of both f8 formats.
pub(crate) const NAN8: u8 = 0x80;

/// The two f8 formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum F8 {
    /// Four bits of exponent, three of fraction, bias 8.
    F143,
    /// Five bits of exponent, two of fraction, bias 16.
    F152,
}

impl F8 {
    /// The format that a bit of `$FP_NFMT` selects.
    pub(crate) fn of_bit(bit: u32) -> F8 {
        if bit & 1 != 0 { F8::F143 } else { F8::F152 }
    }

    /// Fraction bits and bias.
    fn shape(self) -> (i32, i32) {
        match self {
            F8::F143 => (3, 8),
            F8::F152 => (2, 16),
        }
    }

    /// The value of f8 bits.
    pub(crate) fn value(self, bits: u8) -> f64 {
        if bits == NAN8 {
            return f64::NAN;
        }
        let (fraction_bits, bias) = self.shape();
        let magnitude = i32::from(bits & 0x7f);
        let (exponent, fraction) = (
            magnitude >> fraction_bits,
            magnitude & ((1 << fraction_bits) - 1),
        );
        let significand = if exponent == 0 {
            fraction
        } else {
            fraction | 1 << fraction_bits
        };
        let x = scale(
            f64::from(significand),
            exponent.max(1) - bias - fraction_bits,
        );
        if bits & 0x80 == 0 { x } else { -x }
    }
}

/// `x` times a power of two that f64 holds.
#[inline]
pub(crate) fn scale(x: f64, exponent: i32) -> f64 {
    x * f64::from_bits(((exponent.clamp(-1000, 1000) + 1023) as u64) << 52)
}

/// The exponent of two in the low six bits of `$FP_SCL`.
pub(crate) fn scale_of(register: u32) -> i32 {
    (register << 26) as i32 >> 26
}

impl Fp {
    /// The environment that a legal control word selects.
    pub(crate) fn of_control(control: u32) -> Fp {
        let round = Round::of_code(control >> 16 & 7).unwrap_or_default();
        Fp {
            round,
            round16: if control >> 19 & 1 != 0 {
                Round::Stochastic
            } else {
                round
            },
            nan_on_overflow: control >> 20 & 1 != 0,
            ..Fp::default()
        }
    }

    /// Sixteen random bits.
    fn draw16(&mut self) -> u64 {
        if self.left == 0 {
            self.random = self.prng.next();
            self.left = 4;
        }
        self.left -= 1;
        let bits = self.random & 0xffff;
        self.random >>= 16;
        bits
    }

    /// Rounds a magnitude to an integral value in the direction for f16 and f8.
    fn integral16(&mut self, magnitude: f64, negative: bool) -> f64 {
        let mode = match (self.round16, negative) {
            (Round::Up, true) | (Round::Down, false) => Round::Zero,
            (Round::Up, false) | (Round::Down, true) => Round::Up,
            (Round::Stochastic, _) => {
                let whole = magnitude.floor();
                let random = self.draw16() as f64 / 65536.0;
                // Both sides are exact.
                return if magnitude - whole >= 1.0 - random {
                    whole + 1.0
                } else {
                    whole
                };
            }
            (other, _) => other,
        };
        round_integral(magnitude, mode)
    }

    /// Narrows to f32 bits. Overflow gives infinity in every mode.
    #[inline]
    pub(crate) fn narrow32(&mut self, x: f64) -> u32 {
        let near = x as f32;
        if near.is_finite() && self.round == Round::Nearest {
            return near.to_bits();
        }
        self.narrow32_slow(x, near)
    }

    #[cold]
    fn narrow32_slow(&mut self, x: f64, near: f32) -> u32 {
        if x.is_nan() {
            return NAN32;
        }
        if near.is_infinite() {
            if x.is_finite() {
                self.flags |= csr::FLAG_OVERFLOW;
            }
            return near.to_bits();
        }
        let back = f64::from(near);
        let r = match self.round {
            Round::Nearest => near,
            Round::Up if back < x => near.next_up(),
            Round::Down if back > x => near.next_down(),
            Round::Zero if back.abs() > x.abs() => f32::from_bits(near.to_bits() - 1),
            Round::Away => {
                // Differs from nearest even only in a tie that went towards zero.
                let out = f32::from_bits(near.to_bits() + 1);
                if back.abs() < x.abs() && (f64::from(out) - x).abs() == (x - back).abs() {
                    out
                } else {
                    near
                }
            }
            _ => near,
        };
        if r.is_infinite() {
            self.flags |= csr::FLAG_OVERFLOW;
        }
        r.to_bits()
    }

    /// Narrows to f16 bits; overflow per `nan_on_overflow`, infinities included.
    #[inline]
    pub(crate) fn narrow16(&mut self, x: f64) -> u16 {
        let bits = x.to_bits();
        let exponent = (bits >> 52) as i32 & 0x7ff;
        // Normal results, away from overflow, to nearest even.
        if self.round16 == Round::Nearest && (1023 - 14..1023 + 15).contains(&exponent) {
            let lsb = bits >> 42 & 1;
            let rounded = (bits & (u64::MAX >> 1)) + (1 << 41) - 1 + lsb;
            let magnitude = (rounded >> 42) - ((1023 - 15) << 10);
            return (bits >> 63 << 15) as u16 | magnitude as u16;
        }
        self.narrow16_slow(x)
    }

    #[cold]
    fn narrow16_slow(&mut self, x: f64) -> u16 {
        if x.is_nan() {
            return NAN16;
        }
        let sign = u16::from(x.is_sign_negative()) << 15;
        // Units of the last place of the result are powers of two from 2^-24 on, so scaling is
        // exact and the rounded quotient counts encodings from the bottom of the binade.
        let magnitude = x.abs();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
        if exponent > 15 {
            return self.overflow16(sign, x);
        }
        let ulp = f64::from_bits(((exponent - 10 + 1023) as u64) << 52);
        let steps = self.integral16(magnitude / ulp, sign != 0);
        let bits = steps as u32 + (((exponent + 14) as u32) << 10);
        if bits >= 0x7c00 {
            return self.overflow16(sign, x);
        }
        sign | bits as u16
    }

    fn overflow16(&mut self, sign: u16, x: f64) -> u16 {
        if x.is_finite() {
            self.flags |= csr::FLAG_OVERFLOW;
        }
        if self.nan_on_overflow {
            NAN16
        } else {
            sign | MAX16
        }
    }

    /// Narrows to f8 bits: no infinity, no −0, one NaN. Overflow as for f16.
    pub(crate) fn narrow8(&mut self, x: f64, format: F8) -> u8 {
        if x.is_nan() {
            return NAN8;
        }
        let (fraction_bits, bias) = format.shape();
        let sign = u8::from(x.is_sign_negative()) << 7;
        let magnitude = x.abs();
        let least = 1 - bias;
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(least, 60);
        let ulp = f64::from_bits(((exponent - fraction_bits + 1023) as u64) << 52);
        let steps = if magnitude.is_finite() && magnitude < 1e12 {
            self.integral16(magnitude / ulp, sign != 0)
        } else {
            1e12
        };
        let bits = steps + f64::from((exponent - least) << fraction_bits);
        if bits > 127.0 {
            if x.is_finite() {
                self.flags |= csr::FLAG_OVERFLOW;
            }
            return if self.nan_on_overflow {
                NAN8
            } else {
                sign | 0x7f
            };
        }
        match bits as u8 {
            0 => 0,
            bits => sign | bits,
        }
    }

    /// Records that a NaN came out of operands that were none.
    #[inline]
    pub(crate) fn check_invalid(&mut self, result: f64, operands_nan: bool) {
        if result.is_nan() && !operands_nan {
            self.flags |= csr::FLAG_INVALID;
        }
    }
}

/// Rounds to an integral value; `Away` is nearest with ties away from zero.
pub(crate) fn round_integral(x: f64, mode: Round) -> f64 {
    match mode {
        Round::Nearest | Round::Stochastic => x.round_ties_even(),
        Round::Up => x.ceil(),
        Round::Down => x.floor(),
        Round::Zero => x.trunc(),
        Round::Away => x.round(),
    }
}

/// `a + b` and what the sum lost.
#[inline]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let bb = s - a;
    (s, (a - (s - bb)) + (b - bb))
}

/// How far apart the exponents of some f16 values lie, zeros left out; more than [`EXACT_SPREAD`]
/// for infinities and NaN.
#[inline(always)]
pub(crate) fn spread(greatest: u32, least_nonzero: u32) -> u32 {
    let (high, low) = ((greatest >> 10).max(1), (least_nonzero >> 10).max(1));
    if high == 31 {
        2 * EXACT_SPREAD
    } else {
        high - low.min(high)
    }
}

/// [`spread`] of the four halves of a word.
#[inline(always)]
pub(crate) fn spread_of(halves: u64) -> u32 {
    let magnitudes = [0, 16, 32, 48].map(|shift| (halves >> shift) as u32 & 0x7fff);
    let (mut greatest, mut least) = (0, 0xffff);
    for m in magnitudes {
        greatest = greatest.max(m);
        least = least.min(m.wrapping_sub(1) & 0xffff);
    }
    spread(greatest, least + 1)
}

/// f64 holds every sum of four products of f16 whose spreads add up to at most this: such a sum
/// is below `2^(max + max - 26)` and a multiple of `2^(min + min - 50)`.
pub(crate) const EXACT_SPREAD: u32 = 29;

/// Moves a rounded value to its odd neighbour on the side of the lost part.
#[inline]
pub(crate) fn to_odd(s: f64, lost: f64) -> f64 {
    let bits = s.to_bits();
    if lost == 0.0 || !s.is_finite() || bits & 1 != 0 {
        return s;
    }
    if (lost > 0.0) == (s > 0.0) {
        f64::from_bits(bits | 1)
    } else {
        f64::from_bits(bits - 1)
    }
}

/// The sum of two values, rounded to odd.
#[inline]
pub(crate) fn add(a: f64, b: f64) -> f64 {
    let (s, lost) = two_sum(a, b);
    to_odd(s, lost)
}

/// The sum of up to eight values, rounded to odd. Infinities and NaN as in IEEE 754.
pub(crate) fn sum(terms: &[f64]) -> f64 {
    let plain: f64 = terms.iter().fold(-0.0, |s, t| s + t);
    if !plain.is_finite() {
        return plain;
    }
    // Shewchuk: components that do not overlap, in ascending order, whose sum is exact.
    let mut parts = [0.0; 8];
    let mut count = 0;
    for &term in terms {
        let mut x = term;
        let mut kept = 0;
        for i in 0..count {
            let (hi, lo) = two_sum(x, parts[i]);
            if lo != 0.0 {
                parts[kept] = lo;
                kept += 1;
            }
            x = hi;
        }
        if let Some(slot) = parts.get_mut(kept) {
            *slot = x;
        }
        count = (kept + 1).min(parts.len());
    }
    let mut hi = 0.0;
    for &part in parts[..count].iter().rev() {
        let (s, lost) = two_sum(hi, part);
        hi = s;
        if lost != 0.0 {
            return to_odd(hi, lost);
        }
    }
    // An exact zero is +0 unless all terms are -0.
    if hi == 0.0 && plain == 0.0 { plain } else { hi }
}

/// The value of f16 bits.
#[inline]
pub(crate) fn from_f16(bits: u16) -> f64 {
    f64::from(f32_of_half(bits))
}

/// The value of f16 bits.
#[inline(always)]
pub(crate) fn f32_of_half(bits: u16) -> f32 {
    // The exponent bias differs by 112; the product also normalises subnormals.
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = u32::from(bits & 0x7fff);
    let x = if magnitude < 0x7c00 {
        f32::from_bits(magnitude << 13) * SCALE
    } else {
        // A signalling NaN becomes a quiet one, as in hardware conversions.
        let quiet = u32::from(magnitude != 0x7c00) << 22;
        f32::from_bits(0x7f80_0000 | quiet | magnitude << 13)
    };
    if bits & 0x8000 == 0 { x } else { -x }
}

/// The value of f32 bits.
#[inline]
pub(crate) fn from_f32(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f16_rounds_once_to_nearest_even() {
        let mut fp = Fp::default();
        for bits in 0..0x7c00u16 {
            let x = from_f16(bits);
            assert_eq!(fp.narrow16(x), bits);
            assert_eq!(fp.narrow16(-x), bits | 0x8000);
            if bits + 1 < 0x7c00 {
                let tie = (x + from_f16(bits + 1)) / 2.0;
                assert_eq!(fp.narrow16(tie), bits + (bits & 1), "{bits:#x}");
                assert_eq!(fp.narrow16(tie.next_up()), bits + 1);
                assert_eq!(fp.narrow16(tie.next_down()), bits);
            }
        }
        assert_eq!(fp.flags, 0);
        assert_eq!(fp.narrow16(65519.9), MAX16);
        assert_eq!(fp.flags, 0);
        assert_eq!(fp.narrow16(65520.0), MAX16);
        assert_eq!(fp.narrow16(-1e9), MAX16 | 0x8000);
        assert_eq!(fp.flags, csr::FLAG_OVERFLOW);
        fp.nan_on_overflow = true;
        assert_eq!(fp.narrow16(65520.0), NAN16);
    }

    #[test]
    fn f16_values_are_exact() {
        for bits in 0..=u16::MAX {
            let want = half::f16::from_bits(bits).to_f64();
            let got = from_f16(bits);
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
        }
    }

    #[test]
    fn spreads_bound_sums() {
        for bits in 0..=u16::MAX {
            let (x, alone) = (from_f16(bits), spread_of(bits.into()));
            assert_eq!(alone == 0, x.is_finite(), "{bits:#x}");
            if x.is_finite() && x != 0.0 {
                let e = i32::from(bits >> 10 & 31).max(1);
                assert!((x / 2f64.powi(e - 25)).fract() == 0.0 && x.abs() < 2f64.powi(e - 14));
                let both = spread_of(u64::from(bits) << 32 | 0x3c00);
                assert_eq!(both, e.abs_diff(15));
            }
        }
        assert_eq!(spread_of(0x7bff_0001_8000_0000), 29);
    }

    #[test]
    fn f8_keeps_its_values() {
        let mut fp = Fp::default();
        for format in [F8::F143, F8::F152] {
            for bits in 0..=255u8 {
                let x = format.value(bits);
                assert_eq!(fp.narrow8(x, format), bits, "{format:?} {bits:#x}");
            }
        }
        assert_eq!(F8::F143.value(0x56), 7.0);
        assert_eq!(fp.narrow8(7.25, F8::F143), 0x56);
        assert_eq!(fp.narrow8(8.5, F8::F143), 0x58);
        assert_eq!(fp.narrow8(-0.0, F8::F143), 0);
        assert_eq!(fp.narrow8(1e6, F8::F143), 0x7f);
        assert_eq!(fp.narrow8(f64::NEG_INFINITY, F8::F152), 0xff);
        assert_eq!(F8::F143.value(1), 2f64.powi(-10));
        assert_eq!(F8::F152.value(1), 2f64.powi(-17));
    }

    #[test]
    fn stochastic_rounding_follows_the_lost_part() {
        let mut fp = Fp::of_control(1 << 19);
        fp.prng = Prng::seed(1);
        let x = 1.0 + 2f64.powi(-12); // a quarter of an ulp
        let up = (0..4000).filter(|_| fp.narrow16(x) == 0x3c01).count();
        assert!((900..1100).contains(&up), "{up}");
        assert!((0..100).all(|_| fp.narrow16(1.0) == 0x3c00));
    }

    #[test]
    fn modes_differ_where_they_should() {
        let of = |round| Fp {
            round,
            round16: round,
            ..Fp::default()
        };
        let x = 1.0 + 2f64.powi(-11);
        assert_eq!(of(Round::Nearest).narrow16(x), 0x3c00);
        assert_eq!(of(Round::Away).narrow16(x), 0x3c01);
        assert_eq!(of(Round::Up).narrow16(x), 0x3c01);
        assert_eq!(of(Round::Up).narrow16(-x), 0xbc00);
        assert_eq!(of(Round::Down).narrow16(-x), 0xbc01);
        assert_eq!(of(Round::Zero).narrow16(-x), 0xbc00);
        let y = 1.0 + 2f64.powi(-24);
        let one = 1f32.to_bits();
        assert_eq!(of(Round::Nearest).narrow32(y), one);
        assert_eq!(of(Round::Away).narrow32(y), one + 1);
        assert_eq!(of(Round::Up).narrow32(y), one + 1);
        assert_eq!(of(Round::Down).narrow32(y), one);
        assert_eq!(of(Round::Zero).narrow32(1.0 + 2f64.powi(-23) - 1e-9), one);
    }

    #[test]
    fn sums_keep_sticky_bits() {
        // 1 + 2^-24 is a tie in f32; a far smaller term decides it.
        let tiny = 2f64.powi(-120);
        let mut fp = Fp::default();
        let up = sum(&[1.0, 2f64.powi(-24), tiny]);
        let down = sum(&[1.0, 2f64.powi(-24), -tiny]);
        assert_eq!(fp.narrow32(up), 1f32.to_bits() + 1);
        assert_eq!(fp.narrow32(down), 1f32.to_bits());
        assert_eq!(sum(&[1e30, 1.0, -1e30, -1.0]), 0.0);
        assert_eq!(sum(&[1e30, 1.0, -1e30, tiny]), 1.0 + f64::EPSILON);
        assert!(sum(&[-0.0, -0.0]).is_sign_negative());
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    proptest! {
        #[test]
        fn sum_agrees_with_fixed_point(
            terms in prop::collection::vec((-(1i64 << 40)..1 << 40, 0u32..60), 1..6),
        ) {
            let exact: i128 = terms.iter().map(|&(m, e)| i128::from(m) << e).sum();
            let floats: Vec<f64> = terms.iter().map(|&(m, e)| m as f64 * 2f64.powi(e as i32)).collect();
            // i128 to f32 is one rounding to nearest even.
            prop_assert_eq!(sum(&floats) as f32, exact as f32);
        }
    }
}
