//! Rounding, by the `half` crate, the host's f32 and integers.

use half::f16;

/// The value of an f16.
pub fn widen(bits: u16) -> f64 {
    f16::from_bits(bits).to_f64()
}

/// Nearest f16 of an exact value; overflow and infinities give the largest, NaN the canonical one.
pub fn round16(value: f64) -> u16 {
    let h = f16::from_f64(value);
    if h.is_nan() {
        return 0x7e00;
    }
    if h.is_infinite() {
        return if value < 0.0 { 0xfbff } else { 0x7bff };
    }
    h.to_bits()
}

pub fn canonical32(value: f32) -> u32 {
    if value.is_nan() {
        0x7fc0_0000
    } else {
        value.to_bits()
    }
}

/// An f32 plus products of f16, rounded once. Products are multiples of 2^-48.
pub fn sum_to_f32(start: u32, products: &[f64]) -> u32 {
    let s = f32::from_bits(start);
    let plain = products.iter().fold(f64::from(s), |a, p| a + p);
    if !plain.is_finite() {
        return canonical32(plain as f32);
    }
    let exact: i128 = products.iter().map(|p| (p * 2f64.powi(48)) as i128).sum();
    if exact == 0 {
        // Signs of zeros as IEEE 754 has them.
        return if s == 0.0 {
            canonical32(plain as f32)
        } else {
            start
        };
    }
    let exponent = ((start >> 23) & 255).max(1) as i32 - 150;
    let fraction = i128::from(start & 0x7f_ffff | u32::from(start >> 23 & 255 != 0) << 23);
    let fraction = if start >> 31 != 0 {
        -fraction
    } else {
        fraction
    };
    // Both in units of 2^unit; what is out of reach only decides ties.
    let (total, unit) = if fraction == 0 {
        (exact, -48)
    } else if exponent > 20 {
        // Far above: the products are below a quarter of its last place.
        if exponent > 40 {
            (fraction * 8 + exact.signum(), exponent - 3)
        } else {
            (exact + (fraction << (exponent + 48)), -48)
        }
    } else if exponent >= -48 {
        (exact + (fraction << (exponent + 48)), -48)
    } else if exponent >= -90 {
        ((exact << (-48 - exponent)) + fraction, exponent)
    } else {
        (exact * 8 + fraction.signum(), -51)
    };
    let rounded = total as f32;
    if rounded == 0.0 {
        return 0;
    }
    (rounded * 2f32.powi(unit / 2) * 2f32.powi(unit - unit / 2)).to_bits()
}
