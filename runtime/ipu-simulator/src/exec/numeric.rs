//! Rounding. Every operation yields an f64 that is exact, or rounded to odd where exact does not
//! fit: the last bit is set when bits were lost. Two more bits than the result format make such a
//! value round as the exact one would, so each result is rounded exactly once, in any mode.

use crate::csr;

/// Direction of rounding, `$FP_CTL.RND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Round {
    #[default]
    Nearest,
    Up,
    Down,
    Zero,
    Away,
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
    pub(crate) round: Round,
    /// f16 overflow gives NaN instead of the largest finite value.
    pub(crate) nan_on_overflow: bool,
    /// `csr::FLAG_*`.
    pub(crate) flags: u32,
}

/// The canonical NaN of each format.
pub(crate) const NAN32: u32 = 0x7fc0_0000;
/// See [`NAN32`].
pub(crate) const NAN16: u16 = 0x7e00;
/// Largest finite f16.
pub(crate) const MAX16: u16 = 0x7bff;

impl Fp {
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
        if self.round == Round::Nearest && (1023 - 14..1023 + 15).contains(&exponent) {
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
        let mode = match (self.round, sign != 0) {
            (Round::Up, true) | (Round::Down, false) => Round::Zero,
            (Round::Up, false) | (Round::Down, true) => Round::Up,
            (other, _) => other,
        };
        let steps = round_integral(magnitude / ulp, mode);
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
        Round::Nearest => x.round_ties_even(),
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

/// The powers of two between which the bits of some f16 values lie: all are multiples of
/// `2^low` and below `2^high`. Decides for many sums at once whether f64 holds them exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    low: i16,
    high: i16,
}

impl Default for Span {
    /// The span of zero.
    fn default() -> Span {
        Span {
            low: 1000,
            high: -1000,
        }
    }
}

impl Span {
    /// The span of four values; infinities and NaN fit nowhere.
    #[inline]
    pub(crate) fn of_halves(halves: [u16; 4]) -> Span {
        let [a, b, c, d] = halves;
        let (low, high) = (Span::of_half(a).union(Span::of_half(b)), Span::of_half(c));
        low.union(high.union(Span::of_half(d)))
    }

    #[inline]
    fn of_half(bits: u16) -> Span {
        let (exponent, fraction) = ((bits >> 10 & 31) as i16, bits & 0x3ff);
        let (significand, scale) = match exponent {
            0 => (fraction, -24),
            31 => {
                return Span {
                    low: -4000,
                    high: 4000,
                };
            }
            _ => (fraction | 0x400, exponent - 25),
        };
        if significand == 0 {
            return Span::default();
        }
        Span {
            low: scale + significand.trailing_zeros() as i16,
            high: scale + 16 - significand.leading_zeros() as i16,
        }
    }

    #[inline]
    pub(crate) fn union(self, other: Span) -> Span {
        Span {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Whether f64 holds every sum of four products of a value here and a value there.
    #[inline]
    pub(crate) fn four_products_fit(self, other: Span) -> bool {
        self.high + other.high + 2 - (self.low + other.low) <= 53
    }
}

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
    // The exponent bias differs by 112; the product also normalises subnormals.
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = u32::from(bits & 0x7fff);
    let x = if magnitude < 0x7c00 {
        f32::from_bits(magnitude << 13) * SCALE
    } else {
        f32::from_bits(0x7f80_0000 | magnitude << 13)
    };
    f64::from(if bits & 0x8000 == 0 { x } else { -x })
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
    fn spans_hold_their_values() {
        for bits in 0..=u16::MAX {
            let (x, span) = (from_f16(bits), Span::of_half(bits));
            if x.is_finite() && x != 0.0 {
                let unit = x.abs() / 2f64.powi(span.low.into());
                assert!(unit.fract() == 0.0 && unit % 2.0 == 1.0);
                assert!(x.abs() < 2f64.powi(span.high.into()));
            }
            assert_eq!(span.four_products_fit(Span::default()), x.is_finite());
        }
        let wide = Span::of_halves([1, 0x7bff, 0, 0]);
        assert!(!wide.four_products_fit(wide));
        let one = Span::of_halves([0x3c00; 4]);
        assert!(one.four_products_fit(wide));
    }

    #[test]
    fn modes_differ_where_they_should() {
        let of = |round| Fp {
            round,
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
