//! Element types of files and arguments, and their conversion to f32.

use crate::error::{DataError, format, mismatch};
use half::{bf16, f16};
use ipu_interp::host::HostArray;
use ipu_program::types::{ElementType, TensorType};

macro_rules! elements {
    ($($variant:ident $name:literal $bytes:literal $doc:literal $convert:expr;)*) => {
        /// Element type of host data. Values become f32 (f64 and integers beyond 2^24 are rounded
        /// to nearest even; an i32 beyond 2^24 is refused).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FileElement { $(#[doc = $doc] $variant,)* }

        impl FileElement {
            /// All.
            pub const ALL: &[FileElement] = &[$(FileElement::$variant,)*];

            /// Name as in `2x2xf32`.
            pub fn name(self) -> &'static str {
                match self { $(FileElement::$variant => $name,)* }
            }

            /// Bytes of one element.
            pub fn bytes(self) -> usize {
                match self { $(FileElement::$variant => $bytes,)* }
            }

            /// The values of little-endian data; an incomplete last element is ignored.
            pub fn decode(self, data: &[u8]) -> Vec<f32> {
                match self {
                    $(FileElement::$variant => {
                        let convert: fn([u8; $bytes]) -> f32 = $convert;
                        data.as_chunks::<$bytes>().0.iter().map(|b| convert(*b)).collect()
                    })*
                }
            }
        }
    };
}

elements! {
    F16 "f16" 2 "Half precision." |b| f16::from_le_bytes(b).to_f32();
    Bf16 "bf16" 2 "Brain float." |b| bf16::from_le_bytes(b).to_f32();
    F32 "f32" 4 "Single precision." f32::from_le_bytes;
    F64 "f64" 8 "Double precision." |b| f64::from_le_bytes(b) as f32;
    I8 "i8" 1 "Signed." |b| f32::from(i8::from_le_bytes(b));
    I16 "i16" 2 "Signed." |b| f32::from(i16::from_le_bytes(b));
    I32 "i32" 4 "Signed." |b| i32::from_le_bytes(b) as f32;
    I64 "i64" 8 "Signed." |b| i64::from_le_bytes(b) as f32;
    U8 "ui8" 1 "Unsigned." |b| f32::from(u8::from_le_bytes(b));
    U16 "ui16" 2 "Unsigned." |b| f32::from(u16::from_le_bytes(b));
    U32 "ui32" 4 "Unsigned." |b| u32::from_le_bytes(b) as f32;
    U64 "ui64" 8 "Unsigned." |b| u64::from_le_bytes(b) as f32;
}

impl FileElement {
    /// The inverse of [`FileElement::name`]; `u8` and `si8` are accepted for `ui8` and `i8`.
    pub fn from_name(name: &str) -> Option<Self> {
        let find = |n: &str| Self::ALL.iter().copied().find(|e| e.name() == n);
        let short = |n: &str| {
            n.strip_prefix('u')
                .and_then(|bits| find(&format!("ui{bits}")))
        };
        let signed = |n: &str| {
            n.strip_prefix('s')
                .filter(|n| n.starts_with('i'))
                .and_then(find)
        };
        find(name).or_else(|| short(name)).or_else(|| signed(name))
    }

    /// Whether values have no fraction.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Element type of the array on the host: f16 and i32 stay, the rest is f32.
    pub fn host(self) -> ElementType {
        match self {
            FileElement::F16 => ElementType::F16,
            FileElement::I32 => ElementType::I32,
            _ => ElementType::F32,
        }
    }

    /// Names for messages.
    pub(crate) fn names() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|e| e.name()).collect();
        names.join(", ")
    }
}

/// The extents as 32-bit numbers and their product, which fits 32 bits as well.
pub(crate) fn extents(subject: &str, shape: &[u64]) -> Result<(Vec<u32>, usize), DataError> {
    let count = shape
        .iter()
        .try_fold(1u64, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= u64::from(u32::MAX));
    let extents: Result<Vec<u32>, _> = shape.iter().map(|&d| u32::try_from(d)).collect();
    match (count, extents) {
        (Some(count), Ok(extents)) => Ok((extents, count as usize)),
        _ => Err(mismatch(
            subject,
            "shape",
            "fewer than 2^32 elements",
            format!("{shape:?}"),
        )),
    }
}

/// An array of raw little-endian data, whose length must be that of the type.
pub(crate) fn raw(
    subject: &str,
    shape: &[u64],
    element: FileElement,
    data: &[u8],
) -> Result<HostArray, DataError> {
    let (extents, count) = extents(subject, shape)?;
    let expected = count as u64 * element.bytes() as u64;
    if expected != data.len() as u64 {
        let what = format!("bytes of {shape:?} {}", element.name());
        return Err(mismatch(subject, &what, expected, data.len()));
    }
    HostArray::new(
        TensorType::new(extents, element.host()),
        element.decode(data),
    )
    .map_err(|e| format(subject, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for &e in FileElement::ALL {
            assert_eq!(FileElement::from_name(e.name()), Some(e));
        }
        assert_eq!(FileElement::from_name("u8"), Some(FileElement::U8));
        assert_eq!(FileElement::from_name("si32"), Some(FileElement::I32));
        for bad in ["", "u", "s", "f8", "uf32", "sui8", "ssi8"] {
            assert_eq!(FileElement::from_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn decoding() {
        assert_eq!(FileElement::I16.decode(&[0xff, 0xff, 2, 0]), [-1.0, 2.0]);
        assert_eq!(FileElement::F64.decode(&1.5f64.to_le_bytes()), [1.5]);
        assert_eq!(FileElement::Bf16.decode(&[0x80, 0x3f]), [1.0]);
    }
}
