//! Instructions of the tile's floating-point unit, as far as row-wise and elementwise kernels use
//! them. An f16 value is held as the f32 of the same value.
//!
//! f32 additions, subtractions, multiplications and divisions are those of the host: both round the
//! exact result once to nearest even.

use crate::numerics::{max, min};
use half::f16;
use ipu_program::kernels::{Binary, Unary};

/// Rounds an f16 result: once, to nearest even. What is too large, infinities included, becomes
/// the largest finite value.
pub(super) fn half(x: f64) -> f32 {
    if x.is_nan() {
        return f32::NAN;
    }
    let magnitude = x.abs();
    // Subnormals keep the spacing of the smallest normal binade.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(-14, 15);
    let spacing = f64::from(exponent - 10).exp2();
    let rounded = (magnitude / spacing).round_ties_even() * spacing;
    let clipped = rounded.min(f16::MAX.to_f64());
    (if x.is_sign_negative() {
        -clipped
    } else {
        clipped
    }) as f32
}

/// [`half`] of an f32 value.
pub(super) fn half_of(x: f32) -> f32 {
    half(f64::from(x))
}

/// `f16v4max`.
pub(super) fn half_max(x: f32, y: f32) -> f32 {
    half_of(max(x, y))
}

/// An operation on f32 operands. On f16 operands, [`half_of`] of the result is the f16 result: f32
/// has more than twice the digits.
pub(super) fn binary(kind: Binary) -> fn(f32, f32) -> f32 {
    match kind {
        Binary::Add => |a, b| a + b,
        Binary::Sub => |a, b| a - b,
        Binary::Mul => |a, b| a * b,
        Binary::Div => |a, b| a / b,
        Binary::Max => max,
        Binary::Min => min,
    }
}

/// What transcendental instructions compute before they round.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `f16v2exp2`.
pub(super) fn half_exp2(x: f32) -> f32 {
    half(f64::from(x).exp2())
}

/// `f32oorx`.
pub(super) fn single_rsqrt(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// A factor as two f16 in `$TAS` with `f16v4mix dst, x, x`: `first + second` is the f32 factor
/// but for the rounding of `second`.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    first: f32,
    second: f32,
}

impl Factor {
    /// The nearest f16 and the rest.
    pub(super) fn nearest(factor: f32) -> Self {
        let first = half_of(factor);
        Factor {
            first,
            second: half_of(factor - first),
        }
    }

    /// As [`Factor::nearest`], but no part is zero and for a positive factor none is negative, so
    /// that an infinite operand gives no NaN.
    pub(super) fn truncated(factor: f32) -> Self {
        let first = half_of(f32::from_bits(factor.to_bits() & 0xffff_e000));
        let second = f16::from_f32(half_of(factor - first)).to_bits() | 1;
        Factor {
            first,
            second: f16::from_bits(second).to_f32(),
        }
    }

    /// The f32 product in an accumulator. Both products of f16 and their sum are exact in f64: the
    /// parts are multiples of 2^-24 below 2^16.
    pub(super) fn times(self, x: f32) -> f32 {
        let x = f64::from(x);
        (f64::from(self.first) * x + f64::from(self.second) * x) as f32
    }
}

/// What `f16v4acc` adds: an infinity enters as NaN.
pub(super) fn accumulated(x: f32) -> f32 {
    if x.is_infinite() { f32::NAN } else { x }
}

/// Coefficients of `gelu_tanh_f16`: the arguments of the logistic function are
/// `sqrt(8 / pi) * (x + 0.044715 * x^3)`, here rounded to f16 as `unary.S` has them.
const TANH_HALF: [f64; 2] = [1634.0 / 1024.0, 1169.0 / 16384.0];
/// The same in f32.
const TANH_SINGLE: [f32; 2] = [f32::from_bits(0x3fcc_422a), f32::from_bits(0x3d92_2279)];

/// Coefficients from the highest degree down of the polynomial near `log2(Phi(-x))`, `x >= 0`,
/// as `unary.S` has them.
const ERF_HALF: [f32; 6] = [
    f32::from_bits(0xb9ae_b9e6),
    f32::from_bits(0x3bc3_0041),
    f32::from_bits(0xbd47_46ac),
    f32::from_bits(0xbeed_5850),
    f32::from_bits(0xbf93_2096),
    f32::from_bits(0xbf80_035c),
];
/// The same for f32 results.
const ERF_SINGLE: [f32; 9] = [
    f32::from_bits(0xb5b6_1f58),
    f32::from_bits(0x37ad_85f5),
    f32::from_bits(0xb8bf_e69d),
    f32::from_bits(0xb9c9_322e),
    f32::from_bits(0x3bf3_0de9),
    f32::from_bits(0xbd58_280f),
    f32::from_bits(0xbeeb_0f1b),
    f32::from_bits(0xbf93_5800),
    f32::from_bits(0xbf7f_fff3),
];

fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    let mut terms = coefficients.iter();
    let first = terms.next().copied().unwrap_or(0.0);
    terms.fold(first, |sum, c| sum * x + c)
}

/// The part of `gelu` that is even: `|x| * Phi(-|x|)`.
fn gelu_tail(coefficients: &[f32], x: f32) -> f32 {
    let x = x.abs();
    f64::from(polynomial(coefficients, x)).exp2() as f32 * x
}

/// A function of one f16 element.
pub(super) fn unary_half(kind: Unary) -> fn(f32) -> f32 {
    match kind {
        Unary::GeluErf => |x| {
            let tail = half_of(gelu_tail(&ERF_HALF, half_of(x.abs())));
            half_of(half_max(x, 0.0) - tail)
        },
        Unary::GeluTanh => |x| {
            let cube = half_of(half_of(x * x) * x);
            let [a, b] = TANH_HALF;
            let argument = half_of((a * f64::from(x) + b * f64::from(cube)) as f32);
            half_of(half(sigmoid(f64::from(argument))) * x)
        },
        Unary::Sigmoid => |x| half(sigmoid(f64::from(x))),
        Unary::Tanh => |x| half(f64::from(x).tanh()),
        Unary::Exp => |x| half(f64::from(x).exp()),
        Unary::Rsqrt => |x| half_of(single_rsqrt(x)),
    }
}

/// A function of one f32 element.
pub(super) fn unary_single(kind: Unary) -> fn(f32) -> f32 {
    match kind {
        Unary::GeluErf => |x| max(x, 0.0) - gelu_tail(&ERF_SINGLE, x),
        Unary::GeluTanh => |x| {
            let [a, b] = TANH_SINGLE;
            let argument = (x * x * b + a) * x;
            sigmoid(f64::from(argument)) as f32 * x
        },
        Unary::Sigmoid => |x| sigmoid(f64::from(x)) as f32,
        Unary::Tanh => |x| f64::from(x).tanh() as f32,
        Unary::Exp => |x| f64::from(x).exp() as f32,
        Unary::Rsqrt => single_rsqrt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_rounds_once_to_nearest_even() {
        for bits in 0..0x7bffu16 {
            let (x, next) = (
                f16::from_bits(bits).to_f64(),
                f16::from_bits(bits + 1).to_f64(),
            );
            let tie = (x + next) / 2.0;
            let even = if bits & 1 == 0 { x } else { next };
            assert_eq!(f64::from(half(x)), x);
            assert_eq!(f64::from(half(tie)), even, "{bits:#x}");
            assert_eq!(f64::from(half(-tie.next_up())), -next);
            assert_eq!(f64::from(half(tie.next_down())), x);
        }
        assert_eq!(half(f64::NEG_INFINITY), -65504.0);
        assert_eq!(half(1e9), 65504.0);
        assert!(half(f64::NAN).is_nan());
        assert!(half(-0.0).is_sign_negative());
    }

    #[test]
    fn factors_keep_f32_precision() {
        for factor in [0.125f32, 0.176_776_7, 1.0, 3.7e-3, 45.3, 1.41] {
            for f in [Factor::nearest(factor), Factor::truncated(factor)] {
                let error = (f.times(1.0) - factor).abs();
                // The second part: rounded to a multiple of 2^-24, its last bit set.
                assert!(error <= factor * 3e-7 + 9e-8, "{factor}: {error}");
            }
            let infinite = Factor::truncated(factor).times(f32::NEG_INFINITY);
            assert_eq!(infinite, f32::NEG_INFINITY);
        }
    }
}
