//! Values of the formats and rounding, from their definitions: sums in fixed point of any width,
//! rounded once to nearest even.

/// The f16 NaN of results.
pub const NAN16: u16 = 0x7e00;

/// The value of an f16.
pub fn widen(bits: u16) -> f64 {
    half::f16::from_bits(bits).to_f64()
}

pub fn canonical32(value: f32) -> u32 {
    if value.is_nan() {
        0x7fc0_0000
    } else {
        value.to_bits()
    }
}

/// The nearest number with some bits of fraction and a least exponent, the even one of two.
fn nearest(value: f64, fraction: i32, least: i32) -> f64 {
    let exponent = ((value.to_bits() >> 52) as i32 & 0x7ff) - 1023;
    let unit = 2f64.powi(exponent.max(least) - fraction);
    (value / unit).round_ties_even() * unit
}

/// Nearest f16 of a value; overflow and infinities give the largest, NaN the canonical one.
pub fn round16(value: f64) -> u16 {
    if value.is_nan() {
        return NAN16;
    }
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.abs() >= 65520.0 {
        return sign | 0x7bff;
    }
    // Nothing is lost any more.
    half::f16::from_f64(nearest(value, 10, -14)).to_bits()
}

/// The value of an f8: 1 is F143 (bias 8), 0 is F152 (bias 16); 0x80 is the only NaN.
pub fn eighth(code: u8, format: u32) -> f64 {
    if code == 0x80 {
        return f64::NAN;
    }
    let (fraction, bias) = if format == 1 { (3, 8) } else { (2, 16) };
    let (exponent, low) = (
        i32::from(code & 0x7f) >> fraction,
        code & ((1 << fraction) - 1),
    );
    let one = if exponent == 0 { 0.0 } else { 1.0 };
    let significand = one + f64::from(low) / f64::from(1 << fraction);
    let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
    sign * significand * 2f64.powi(exponent.max(1) - bias)
}

/// Nearest f8; overflow gives the largest, there is no −0.
pub fn round8(value: f64, format: u32) -> u8 {
    if value.is_nan() {
        return 0x80;
    }
    let (fraction, bias) = if format == 1 { (3, 8) } else { (2, 16) };
    let sign = u8::from(value.is_sign_negative()) << 7;
    let rounded = nearest(value.abs().min(1e12), fraction, 1 - bias);
    let code = (0..127)
        .find(|&c| eighth(c, format) >= rounded)
        .unwrap_or(127);
    if code == 0 { 0 } else { sign | code }
}

/// An f32 plus other terms, added exactly and rounded once.
pub fn sum_to_f32(start: u32, terms: &[f64]) -> u32 {
    let mut all = vec![f64::from(f32::from_bits(start))];
    all.extend(terms);
    sum(&all)
}

/// Units of the fixed point are 2^-LOWEST: below every product of two f32 and of scaled f8.
const LOWEST: i32 = 320;
/// Digits of 32 bits, least first: enough for sums of some products of two f32.
const DIGITS: usize = 20;

/// Terms added exactly, rounded once to f32.
pub fn sum(terms: &[f64]) -> u32 {
    let plain = terms.iter().fold(-0.0, |s, t| s + t);
    if !plain.is_finite() {
        return canonical32(plain as f32);
    }
    let mut digits = [0i64; DIGITS];
    for &t in terms.iter().filter(|t| **t != 0.0) {
        let bits = t.to_bits();
        let significand = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let place = ((bits >> 52) as i32 & 0x7ff) - 1023 - 52 + LOWEST;
        let (digit, shift) = (place.div_euclid(32), place.rem_euclid(32));
        for i in 0..3 {
            let part = (significand << shift >> (32 * i)) as i64 & 0xffff_ffff;
            // What is below the lowest digit is zero in every product.
            let at = usize::try_from(digit + i).ok();
            if let Some(d) = at.and_then(|at| digits.get_mut(at)) {
                *d += if t < 0.0 { -part } else { part };
            }
        }
    }
    carry(&mut digits);
    let negative = digits[DIGITS - 1] < 0;
    if negative {
        digits.iter_mut().for_each(|d| *d = -*d);
        carry(&mut digits);
    }
    let bit = |at: i32| digits[at as usize / 32] >> (at % 32) & 1;
    let Some(top) = (0..32 * DIGITS as i32).rev().find(|&at| bit(at) == 1) else {
        let all_negative = terms.iter().all(|t| t.is_sign_negative());
        return u32::from(all_negative) << 31;
    };
    // The last place of the result: 24 bits from the top, or that of subnormals.
    let last = (top - 23).max(LOWEST - 149);
    let kept = (last..=top)
        .rev()
        .fold(0u64, |v, at| v << 1 | bit(at) as u64);
    let below = (0..last - 1).any(|at| bit(at) == 1);
    let up = bit(last - 1) == 1 && (below || kept & 1 == 1);
    let magnitude = (kept + u64::from(up)) as f64 * 2f64.powi(last - LOWEST);
    (magnitude as f32).to_bits() | u32::from(negative) << 31
}

/// Brings all digits but the last into 32 bits.
fn carry(digits: &mut [i64; DIGITS]) {
    for i in 0..DIGITS - 1 {
        digits[i + 1] += digits[i] >> 32;
        digits[i] &= 0xffff_ffff;
    }
}

#[test]
fn sums_are_rounded_once() {
    let one = 1f32.to_bits();
    let tiny = 2f64.powi(-200);
    assert_eq!(sum(&[1.0, 2f64.powi(-24)]), one);
    assert_eq!(sum(&[1.0, 2f64.powi(-24), tiny]), one + 1);
    assert_eq!(sum(&[-1.0, -2f64.powi(-24), -tiny]), (one + 1) | 1 << 31);
    assert_eq!(sum(&[1e30, tiny, -1e30]), 0);
    assert_eq!(sum(&[2f64.powi(-149), 2f64.powi(-150)]), 2);
    assert_eq!(sum(&[-0.0, -0.0]), 1 << 31);
    assert_eq!(sum(&[1.0, -1.0]), 0);
    assert_eq!(sum(&[f64::from(f32::MAX), 1e38]), f32::INFINITY.to_bits());
    assert_eq!(sum(&[f64::INFINITY, f64::NEG_INFINITY]), 0x7fc0_0000);
    for x in [1.5, -3.25, 2f64.powi(-149), 1e38, -1e-40] {
        assert_eq!(sum(&[x]), (x as f32).to_bits(), "{x}");
    }
}
