//! Rounding rules of the chip that the interpreters and the packing of host data share.

use half::f16;

/// Rounds to f16, nearest even. A finite value beyond the range clips to the largest finite f16
/// (the chip's default, NANOO = 0); infinities and NaN stay what they are.
pub fn narrow(x: f32) -> f16 {
    let rounded = f16::from_f32(x);
    if rounded.is_infinite() && x.is_finite() {
        if x > 0.0 { f16::MAX } else { f16::MIN }
    } else {
        rounded
    }
}

/// The larger of two values: the other operand when one is NaN, and -0 < +0.
pub fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || b > a || (a == b && a.is_sign_negative()) {
        b
    } else {
        a
    }
}

/// The smaller of two values: the other operand when one is NaN, and -0 < +0.
pub fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || b < a || (a == b && b.is_sign_negative()) {
        b
    } else {
        a
    }
}

/// Sum and rounding error of two f64, exactly.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `sum + error`, where `error` is the rounding error of `sum`, rounded to odd in f64: rounding
/// that once more to a format of at most 51 bits equals rounding the exact value once.
fn round_to_odd(sum: f64, error: f64) -> f64 {
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if (error > 0.0) == (sum > 0.0) {
        f64::from_bits(sum.to_bits() + 1)
    } else {
        f64::from_bits(sum.to_bits() - 1)
    }
}

/// One AMP step: `acc + a[0] * b[0] + ... + a[3] * b[3]` computed exactly and rounded once to
/// f32. `a` and `b` must hold f16 values.
pub fn amp_step(acc: f32, a: &[f32; 4], b: &[f32; 4]) -> f32 {
    // A product of two f16 is exact in f64 (22 bits, a multiple of 2^-48).
    let p: [f64; 4] = std::array::from_fn(|i| f64::from(a[i]) * f64::from(b[i]));
    let (low, e0) = two_sum(p[0], p[1]);
    let (high, e1) = two_sum(p[2], p[3]);
    let (products, e2) = two_sum(low, high);
    let (sum, e3) = two_sum(products, f64::from(acc));
    if !sum.is_finite() {
        sum as f32
    } else if e0 == 0.0 && e1 == 0.0 && e2 == 0.0 {
        round_to_odd(sum, e3) as f32
    } else {
        wide_step(acc, &p)
    }
}

/// The rare case of [`amp_step`]: a partial sum of the products needs more than 53 bits.
#[cold]
fn wide_step(acc: f32, products: &[f64; 4]) -> f32 {
    const UNIT: i32 = 48;
    // Below this exponent the accumulator can only break ties.
    const STICKY: i32 = 44;
    let scale = |exponent: i32| f64::from(exponent).exp2();
    let sum: i128 = products.iter().map(|p| (p * scale(UNIT)) as i128).sum();
    if sum.unsigned_abs() < 1 << 53 {
        let (sum, error) = two_sum(sum as f64 * scale(-UNIT), f64::from(acc));
        return round_to_odd(sum, error) as f32;
    }
    // From here the products sum to 2^5 or more, and rounding boundaries are multiples of 2^-20.
    let bits = acc.to_bits();
    let field = (bits >> 23 & 0xff) as i32;
    let mantissa = i128::from(bits & 0x7f_ffff | u32::from(field > 0) << 23);
    let mantissa = if acc.is_sign_negative() {
        -mantissa
    } else {
        mantissa
    };
    // acc = mantissa * 2^exponent
    let exponent = field.max(1) - 150;
    let (total, unit) = if exponent > 40 {
        return acc; // half a unit in the last place of acc exceeds any sum of products
    } else if exponent >= -UNIT {
        (sum + (mantissa << (exponent + UNIT)), UNIT)
    } else if exponent >= -UNIT - STICKY {
        (
            (sum << STICKY) + (mantissa << (exponent + UNIT + STICKY)),
            UNIT + STICKY,
        )
    } else {
        ((sum << STICKY) + mantissa.signum(), UNIT + STICKY)
    };
    // The integer conversion rounds once, the scaling is exact.
    (f64::from(total as f32) * scale(-unit)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exact fixed-point number: limbs of 32 bits in units of 2^-160, each limb signed.
    #[derive(Clone)]
    struct Exact([i64; 12]);

    impl Exact {
        fn zero() -> Self {
            Exact([0; 12])
        }

        fn add(mut self, x: f64, sign: i64) -> Self {
            if x == 0.0 {
                return self;
            }
            let bits = x.to_bits();
            let field = (bits >> 52 & 0x7ff) as i32;
            let mantissa = bits & ((1 << 52) - 1) | u64::from(field > 0) << 52;
            let shift = field.max(1) - 1075 + 160;
            let (mantissa, shift) = if shift < 0 {
                assert_eq!(mantissa & ((1u64 << -shift) - 1), 0, "not representable");
                (mantissa >> -shift, 0)
            } else {
                (mantissa, shift)
            };
            let wide = u128::from(mantissa) << (shift % 32);
            let sign = if x.is_sign_negative() { -sign } else { sign };
            for i in 0..3 {
                self.0[shift as usize / 32 + i] += sign * ((wide >> (32 * i)) as u32 as i64);
            }
            self
        }

        /// Carries, then the sign and the magnitude, most significant limb first.
        fn normal(mut self) -> (i64, Vec<i64>) {
            let carry = |limbs: &mut [i64; 12]| {
                for i in 0..11 {
                    limbs[i + 1] += limbs[i] >> 32;
                    limbs[i] &= 0xffff_ffff;
                }
            };
            carry(&mut self.0);
            let sign = if self.0[11] < 0 { -1 } else { 1 };
            self.0.iter_mut().for_each(|l| *l *= sign);
            carry(&mut self.0);
            (sign, self.0.iter().rev().copied().collect())
        }
    }

    fn is_nearest_even(result: f32, a: &[f32; 4], b: &[f32; 4], acc: f32) -> bool {
        let distance = |x: f32| {
            let mut e = Exact::zero().add(f64::from(acc), 1);
            for i in 0..4 {
                e = e.add(f64::from(a[i]) * f64::from(b[i]), 1);
            }
            e.add(f64::from(x), -1).normal().1
        };
        let own = distance(result);
        [result.next_up(), result.next_down()].iter().all(|&n| {
            !n.is_finite() || {
                let other = distance(n);
                own < other || (own == other && result.to_bits() & 1 == 0)
            }
        })
    }

    fn half_value() -> impl Strategy<Value = f32> {
        any::<u16>()
            .prop_map(|b| f16::from_bits(b).to_f32())
            .prop_filter("finite", |v| v.is_finite())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn amp_step_rounds_once(
            a in prop::array::uniform4(half_value()),
            b in prop::array::uniform4(half_value()),
            bits: u32,
            scale in -40i32..40,
            near: bool,
        ) {
            // Half of the accumulators are of the size of the products or cancel them.
            let wide = f32::from_bits(bits);
            let acc = if near {
                -(a[0] * b[0]) * (scale as f32).exp2()
            } else {
                wide
            };
            prop_assume!(acc.is_finite() && acc.abs() < 1e38);
            let result = amp_step(acc, &a, &b);
            prop_assert!(is_nearest_even(result, &a, &b, acc), "{acc} {a:?} {b:?} -> {result}");
        }
    }

    #[test]
    fn amp_step_wide_cases() {
        let tiny = f16::from_bits(1).to_f32();
        let big = 65504.0f32;
        for acc in [
            0.0,
            1.0e-45,
            -1.0e-45,
            1.0e-12,
            -3.0e-15,
            7.0e20,
            2.0f32.powi(-48),
            -big * big,
        ] {
            let (a, b) = ([big, tiny, -tiny, 1.0], [big, tiny, tiny * 3.0, 0.5]);
            let result = amp_step(acc, &a, &b);
            assert!(is_nearest_even(result, &a, &b, acc), "{acc}: {result}");
            // The wide part cancels.
            let (a, b) = ([big, tiny, -big, 1.0], [big, tiny, big, 0.5]);
            let result = amp_step(acc, &a, &b);
            assert!(is_nearest_even(result, &a, &b, acc), "{acc}: {result}");
        }
        assert!(amp_step(f32::INFINITY, &[1.0; 4], &[1.0; 4]).is_infinite());
        assert!(amp_step(f32::INFINITY, &[f32::NEG_INFINITY; 4], &[1.0; 4]).is_nan());
        assert!(amp_step(-0.0, &[-0.0; 4], &[1.0; 4]).is_sign_negative());
    }

    #[test]
    fn narrowing_clips_and_rounds_to_even() {
        assert_eq!(narrow(1e6), f16::MAX);
        assert_eq!(narrow(-65520.0), f16::MIN);
        assert_eq!(narrow(f32::INFINITY), f16::INFINITY);
        assert!(narrow(f32::NAN).is_nan());
        assert_eq!(narrow(2049.0).to_f32(), 2048.0);
        assert_eq!(narrow(2051.0).to_f32(), 2052.0);
    }

    #[test]
    fn max_and_min_rules() {
        assert_eq!(max(f32::NAN, 1.0), 1.0);
        assert_eq!(max(1.0, f32::NAN), 1.0);
        assert_eq!(min(f32::NAN, 1.0), 1.0);
        assert!(max(-0.0, 0.0).is_sign_positive() && max(0.0, -0.0).is_sign_positive());
        assert!(min(-0.0, 0.0).is_sign_negative() && min(0.0, -0.0).is_sign_negative());
        assert!(max(f32::NAN, f32::NAN).is_nan());
    }
}
