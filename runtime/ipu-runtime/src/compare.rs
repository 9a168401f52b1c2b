//! Comparison of results with expected ones.

use ipu_interp::host::{HostArray, shape};
use ipu_program::types::ElementType;
use serde::Serialize;
use std::fmt;

/// When two values count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EqualityMode {
    /// `|actual - expected| <= atol + rtol * |expected|`; NaN equals NaN, infinities themselves.
    Approximate,
    /// The same value; NaN equals NaN and -0 equals +0.
    Exact,
}

/// Limits of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Absolute difference allowed.
    pub atol: f32,
    /// Difference allowed for each unit of the expected magnitude.
    pub rtol: f32,
    /// Whether they apply.
    pub mode: EqualityMode,
}

impl Limits {
    /// Defaults: for f32 results IREE's, atol 1e-4 and rtol 1e-5; for f16 results atol 2e-2 and
    /// rtol 1e-2; integers must be equal. IREE's 1e-3 for f16 is below what rounding operands to
    /// f16 costs a model: half a unit in the last place of a logit of 17 alone is 8e-3.
    pub fn for_element(element: ElementType) -> Self {
        let (atol, rtol) = match element {
            ElementType::F16 => (2e-2, 1e-2),
            ElementType::F32 => (1e-4, 1e-5),
            ElementType::I32 => return Limits::exact(),
        };
        Limits {
            atol,
            rtol,
            mode: EqualityMode::Approximate,
        }
    }

    /// Equal values only.
    pub fn exact() -> Self {
        Limits {
            atol: 0.0,
            rtol: 0.0,
            mode: EqualityMode::Exact,
        }
    }

    /// How far the pair is beyond the limits, `None` within them.
    fn excess(&self, expected: f32, actual: f32) -> Option<f64> {
        if expected == actual || (expected.is_nan() && actual.is_nan()) {
            return None;
        }
        let difference = (f64::from(expected) - f64::from(actual)).abs();
        let allowed = match self.mode {
            EqualityMode::Exact => 0.0,
            EqualityMode::Approximate => {
                f64::from(self.atol) + f64::from(self.rtol) * f64::from(expected.abs())
            }
        };
        if !difference.is_finite() {
            return Some(f64::INFINITY);
        }
        (difference > allowed).then_some(difference - allowed)
    }
}

/// One element.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Element {
    /// Its index on each axis.
    pub index: Vec<u32>,
    /// Its row-major index.
    pub flat: usize,
    /// Value expected.
    pub expected: f32,
    /// Value found.
    pub actual: f32,
}

/// Outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Elements compared.
    pub elements: usize,
    /// Elements beyond the limits.
    pub mismatches: usize,
    /// Largest absolute difference of finite values.
    pub max_abs: f64,
    /// Largest difference relative to the expected value, where that is not 0.
    pub max_rel: f64,
    /// Largest absolute difference in units of the last place that the element type of the results
    /// has at the expected value.
    pub max_ulp: f64,
    /// Norm of the differences relative to the norm of the expected values.
    pub relative_l2: f64,
    /// Pearson correlation; 1 for equal arrays, 0 where it is not defined.
    pub pcc: f64,
    /// The element farthest beyond the limits; if none is, the one with the largest difference.
    pub worst: Option<Element>,
    /// The limits.
    pub limits: Limits,
}

/// Arrays of different shapes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("shapes differ: expected {}, found {}", shape(.expected), shape(.found))]
pub struct ShapeMismatch {
    /// Shape expected.
    pub expected: Vec<u32>,
    /// Shape found.
    pub found: Vec<u32>,
}

impl Comparison {
    /// Whether all elements are within the limits.
    pub fn passed(&self) -> bool {
        self.mismatches == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = match self.limits.mode {
            EqualityMode::Exact => "exact".to_owned(),
            EqualityMode::Approximate => {
                format!("atol {:e}, rtol {:e}", self.limits.atol, self.limits.rtol)
            }
        };
        match &self.worst {
            Some(w) if !self.passed() => write!(
                f,
                "{} of {} elements differ ({limits}); worst: element at index {} {:?} ({}) does not match the expected ({})",
                self.mismatches, self.elements, w.flat, w.index, w.actual, w.expected
            )?,
            _ => write!(f, "all {} elements match ({limits})", self.elements)?,
        }
        write!(
            f,
            "; max abs {:.3e}, max rel {:.3e}, max ulp {:.1}, relative L2 {:.3e}, PCC {:.6}",
            self.max_abs, self.max_rel, self.max_ulp, self.relative_l2, self.pcc
        )
    }
}

/// The unit in the last place of an element type at a value: the distance of its neighbours there,
/// which does not shrink below the normal numbers nor grow beyond the largest.
pub fn ulp(value: f32, element: ElementType) -> f64 {
    // Bits behind the point, exponents of the least and the largest normal numbers.
    let (bits, least, largest) = match element {
        ElementType::F16 => (10, -14, 15),
        ElementType::F32 => (23, -126, 127),
        ElementType::I32 => return 1.0,
    };
    let exponent = if value == 0.0 {
        least
    } else if value.is_finite() {
        (f64::from(value).abs().to_bits() >> 52) as i32 - 1023
    } else {
        largest
    };
    f64::from(2f32).powi(exponent.clamp(least, largest) - bits)
}

/// Compares two arrays of one shape.
///
/// # Errors
/// The shapes differ.
pub fn compare(
    expected: &HostArray,
    actual: &HostArray,
    limits: &Limits,
) -> Result<Comparison, ShapeMismatch> {
    if expected.shape() != actual.shape() {
        return Err(ShapeMismatch {
            expected: expected.shape().to_vec(),
            found: actual.shape().to_vec(),
        });
    }
    let pairs = || {
        expected
            .values()
            .iter()
            .copied()
            .zip(actual.values().iter().copied())
    };
    let element = actual.ty().element;
    let (mut mismatches, mut max_abs, mut max_rel, mut max_ulp) = (0, 0f64, 0f64, 0f64);
    let (mut error, mut norm) = (0f64, 0f64);
    let mut worst: Option<((f64, f64), usize)> = None;
    for (i, (e, a)) in pairs().enumerate() {
        let excess = limits.excess(e, a);
        mismatches += usize::from(excess.is_some());
        let difference = if e == a {
            0.0
        } else {
            (f64::from(e) - f64::from(a)).abs()
        };
        if difference.is_finite() {
            max_abs = max_abs.max(difference);
            max_ulp = max_ulp.max(difference / ulp(e, element));
            if e != 0.0 {
                max_rel = max_rel.max(difference / f64::from(e.abs()));
            }
            error += difference * difference;
        }
        if e.is_finite() {
            norm += f64::from(e) * f64::from(e);
        }
        let rank = (
            excess.unwrap_or(0.0),
            if difference.is_nan() { 0.0 } else { difference },
        );
        if worst.is_none_or(|(best, _)| rank > best) {
            worst = Some((rank, i));
        }
    }
    Ok(Comparison {
        elements: expected.values().len(),
        mismatches,
        max_abs,
        max_rel,
        max_ulp,
        relative_l2: if error == 0.0 {
            0.0
        } else {
            (error / norm).sqrt()
        },
        pcc: correlation(pairs),
        worst: worst.map(|(_, i)| Element {
            index: unravel(i, expected.shape()),
            flat: i,
            expected: expected.values()[i],
            actual: actual.values()[i],
        }),
        limits: *limits,
    })
}

fn unravel(mut flat: usize, extents: &[u32]) -> Vec<u32> {
    let mut index: Vec<u32> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let i = flat % extent as usize;
            flat /= extent as usize;
            i as u32
        })
        .collect();
    index.reverse();
    index
}

fn correlation<I: Iterator<Item = (f32, f32)>>(pairs: impl Fn() -> I) -> f64 {
    if pairs().all(|(a, b)| a == b || (a.is_nan() && b.is_nan())) {
        return 1.0;
    }
    let count = pairs().count() as f64;
    let wide = || pairs().map(|(a, b)| (f64::from(a), f64::from(b)));
    let (sa, sb) = wide().fold((0.0, 0.0), |(sa, sb), (a, b)| (sa + a, sb + b));
    let (ma, mb) = (sa / count, sb / count);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in wide() {
        let (a, b) = (a - ma, b - mb);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    let r = ab / (aa * bb).sqrt();
    if r.is_finite() { r } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::TensorType;
    use pretty_assertions::assert_eq;

    fn array(extents: &[u32], values: &[f32]) -> HostArray {
        HostArray::new(TensorType::new(extents, ElementType::F32), values.to_vec()).unwrap()
    }

    #[test]
    fn the_worst_element_is_named() {
        let e = array(&[2, 2], &[1.0, 2.0, 3.0, 123.0]);
        let a = array(&[2, 2], &[1.0, 2.5, 3.0, 0.0]);
        let c = compare(&e, &a, &Limits::for_element(ElementType::F32)).unwrap();
        assert_eq!(
            (c.mismatches, c.max_abs, c.max_rel, c.passed()),
            (2, 123.0, 1.0, false)
        );
        let text = c.to_string();
        assert!(
            text.starts_with("2 of 4 elements differ (atol 1e-4, rtol 1e-5); worst: element at index 3 [1, 1] (0) does not match the expected (123); max abs 1.230e2"),
            "{text}"
        );
    }

    #[test]
    fn limits_apply() {
        let e = array(&[3], &[0.0, 1000.0, -0.0]);
        let a = array(&[3], &[0.0009, 1000.009, 0.0]);
        let limits = Limits::for_element(ElementType::F16);
        let c = compare(&e, &a, &limits).unwrap();
        assert!(c.passed(), "{c}");
        assert!(
            c.to_string()
                .starts_with("all 3 elements match (atol 2e-2, rtol 1e-2)")
        );
        assert_eq!(compare(&e, &a, &Limits::exact()).unwrap().mismatches, 2);
        assert!(compare(&e, &e, &Limits::exact()).unwrap().passed());
    }

    #[test]
    fn units_in_the_last_place() {
        use half::f16;
        for bits in [0x0001u16, 0x0400, 0x0401, 0x3bff, 0x3c00, 0x4a80, 0x7bfe] {
            let (x, next) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let distance = next.to_f64() - x.to_f64();
            assert_eq!(ulp(x.to_f32(), ElementType::F16), distance, "{x}");
        }
        for x in [1e-40f32, f32::MIN_POSITIVE, 0.7, 1.0, 1.5, 8e37] {
            let distance = f64::from(x.next_up()) - f64::from(x);
            assert_eq!(ulp(-x, ElementType::F32), distance, "{x}");
        }
        // What f16 does not reach counts like its largest numbers, nothing like its smallest.
        assert_eq!(ulp(1e9, ElementType::F16), 32.0);
        assert_eq!(ulp(f32::NAN, ElementType::F16), 32.0);
        assert_eq!(ulp(0.0, ElementType::F16), 2f64.powi(-24));
        let e = array(&[2], &[1.0, 4.0]);
        let a = HostArray::new(TensorType::new([2], ElementType::F16), vec![1.0, 4.015625]);
        let c = compare(&e, &a.unwrap(), &Limits::for_element(ElementType::F16)).unwrap();
        assert_eq!(c.max_ulp, 4.0);
        assert!(c.to_string().contains("max ulp 4.0"), "{c}");
    }

    #[test]
    fn special_values() {
        let e = array(&[4], &[f32::NAN, f32::INFINITY, 1.0, f32::INFINITY]);
        let a = array(
            &[4],
            &[f32::NAN, f32::INFINITY, f32::NAN, f32::NEG_INFINITY],
        );
        let c = compare(&e, &a, &Limits::for_element(ElementType::F32)).unwrap();
        assert_eq!((c.mismatches, c.max_abs), (2, 0.0));
        assert!(c.worst.as_ref().is_some_and(|w| w.flat == 3));
        assert!(compare(&e, &e, &Limits::exact()).unwrap().passed());
    }

    #[test]
    fn measures() {
        let e = array(&[4], &[1.0, 2.0, 3.0, 4.0]);
        let a = array(&[4], &[2.0, 4.0, 6.0, 8.0]);
        let c = compare(&e, &a, &Limits::exact()).unwrap();
        assert!((c.pcc - 1.0).abs() < 1e-12 && (c.relative_l2 - 1.0).abs() < 1e-12);
        let flat = array(&[4], &[5.0; 4]);
        assert_eq!(compare(&e, &flat, &Limits::exact()).unwrap().pcc, 0.0);
        let empty = array(&[0], &[]);
        assert_eq!(
            compare(&empty, &empty, &Limits::exact()).unwrap().worst,
            None
        );
        let error = compare(&e, &array(&[2, 2], &[0.0; 4]), &Limits::exact()).unwrap_err();
        assert_eq!(error.to_string(), "shapes differ: expected 4, found 2x2");
    }
}
