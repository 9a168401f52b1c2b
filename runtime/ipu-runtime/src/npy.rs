//! NumPy files. Read: f16, f32, f64 and integers, converted to f32 (f16 and i32 stay); either order
//! of axes. Written: the element type of the array, so that of the model, in C order.

use crate::element::{FileElement, extents, raw};
use crate::error::{self, DataError, format, mismatch};
use half::f16;
use ipu_image::package::write_whole;
use ipu_interp::host::HostArray;
use ipu_program::types::ElementType;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriterBuilder};
use std::path::Path;

/// Longest header that is read; NumPy's own limit for safe reading is 10,000.
const MAX_HEADER: usize = 10_000;

/// Reads a file.
///
/// # Errors
/// The file cannot be read or is not an array of numbers.
pub fn read(path: &Path) -> Result<HostArray, DataError> {
    parse(&path.display().to_string(), &error::read(path)?)
}

/// Reads the bytes of a file; `subject` names it in messages.
///
/// # Errors
/// Not an array of numbers.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<HostArray, DataError> {
    let (shape, element, order, data) = open(subject, bytes)?;
    let reversed: Vec<u64>;
    let stored = match order {
        Order::C => &shape,
        Order::Fortran => {
            reversed = shape.iter().rev().copied().collect();
            &reversed
        }
    };
    let array = raw(subject, stored, element, data)?;
    if order == Order::C || shape.len() < 2 {
        return Ok(array);
    }
    let (extents, count) = extents(subject, &shape)?;
    let mut values = Vec::with_capacity(count);
    for mut i in 0..count {
        // Row-major index to the index in the file, whose first axis runs fastest.
        let (mut at, mut stride) = (0, count);
        for &extent in extents.iter().rev() {
            stride /= extent as usize;
            at += i % extent as usize * stride;
            i /= extent as usize;
        }
        values.push(array.values()[at]);
    }
    let ty = ipu_program::types::TensorType::new(extents, element.host());
    HostArray::new(ty, values).map_err(|e| format(subject, e))
}

/// Reads labels: a one-dimensional array of integers.
///
/// # Errors
/// The file cannot be read or is something else.
pub fn read_labels(path: &Path) -> Result<Vec<i64>, DataError> {
    let (subject, bytes) = (path.display().to_string(), error::read(path)?);
    let (shape, element, _, data) = open(&subject, &bytes)?;
    if !element.is_integer() {
        return Err(mismatch(
            &subject,
            "element type of labels",
            "an integer",
            element.name(),
        ));
    }
    if shape.len() != 1 {
        return Err(mismatch(&subject, "axes of labels", 1, shape.len()));
    }
    let array = raw(&subject, &shape, element, data)?;
    Ok(array.values().iter().map(|&v| v as i64).collect())
}

type Opened<'a> = (Vec<u64>, FileElement, Order, &'a [u8]);

fn open<'a>(subject: &str, bytes: &'a [u8]) -> Result<Opened<'a>, DataError> {
    let end = check_header(subject, bytes)?;
    let header = NpyHeader::from_reader(&bytes[..end])
        .map_err(|e| format(subject, format!("npy header: {e}")))?;
    let descr = header.dtype().descr();
    let plain = match header.dtype() {
        DType::Plain(ty) if ty.endianness() != Endianness::Big => Some(ty),
        _ => None,
    };
    let element = plain.and_then(|ty| {
        let kind = match ty.type_char() {
            TypeChar::Float => "f",
            TypeChar::Int => "i",
            TypeChar::Uint => "ui",
            TypeChar::Bool => "ui",
            _ => return None,
        };
        FileElement::from_name(&format!("{kind}{}", ty.size_field().checked_mul(8)?))
    });
    let element = element.ok_or_else(|| {
        let expected = format!("little-endian numbers ({})", FileElement::names());
        mismatch(subject, "dtype", expected, descr)
    })?;
    Ok((
        header.shape().to_vec(),
        element,
        header.order(),
        &bytes[end..],
    ))
}

/// Checks what the header parser takes for granted: that the header is in the file, flat, and
/// that the shape has a product. Gives the first byte of the data.
fn check_header(subject: &str, bytes: &[u8]) -> Result<usize, DataError> {
    if !bytes.starts_with(b"\x93NUMPY") {
        let found = bytes[..bytes.len().min(6)].escape_ascii();
        return Err(mismatch(subject, "magic", "\\x93NUMPY", found));
    }
    let size = match bytes.get(6..12) {
        Some(&[1, _, a, b, ..]) => Some((10, usize::from(u16::from_le_bytes([a, b])))),
        Some(&[2 | 3, _, a, b, c, d]) => Some((12, u32::from_le_bytes([a, b, c, d]) as usize)),
        _ => None,
    };
    let (start, size) =
        size.ok_or_else(|| format(subject, "npy header: format version is not 1, 2 or 3"))?;
    let limit = MAX_HEADER.min(bytes.len().saturating_sub(start));
    if size > limit {
        return Err(mismatch(
            subject,
            "bytes of the npy header",
            format!("at most {limit}"),
            size,
        ));
    }
    let text = &bytes[start..start + size];
    let nested = text.iter().filter(|b| b"([{".contains(b)).count();
    if nested > 16 {
        return Err(mismatch(
            subject,
            "brackets in the npy header",
            "at most 16",
            nested,
        ));
    }
    let shape = text.windows(5).position(|w| w == b"shape").unwrap_or(0);
    let product = text[shape..]
        .split(|b| !b.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .try_fold(1u64, |n, digits| {
            let extent: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
            n.checked_mul(extent.max(1))
        });
    match product {
        Some(_) => Ok(start + size),
        None => Err(format(
            subject,
            "npy header: the shape has more than 2^64 elements",
        )),
    }
}

/// Writes a file with the element type of the array, as a whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, array: &HostArray) -> Result<(), DataError> {
    let io = |error| DataError::Io {
        path: path.to_owned(),
        error,
    };
    write_whole(path, &to_bytes(array).map_err(io)?).map_err(io)
}

/// The bytes of a file.
///
/// # Errors
/// None that depend on the array.
pub fn to_bytes(array: &HostArray) -> std::io::Result<Vec<u8>> {
    let shape: Vec<u64> = array.shape().iter().map(|&d| u64::from(d)).collect();
    let mut bytes = Vec::new();
    match array.ty().element {
        ElementType::F16 => {
            let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
            let mut writer = options.writer(&mut bytes).begin_nd()?;
            writer.extend(array.values().iter().map(|&v| f16::from_f32(v)))?;
            writer.finish()?;
        }
        ElementType::F32 => {
            let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
            let mut writer = options.writer(&mut bytes).begin_nd()?;
            writer.extend(array.values().iter().copied())?;
            writer.finish()?;
        }
        ElementType::I32 => {
            let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
            let mut writer = options.writer(&mut bytes).begin_nd()?;
            writer.extend(array.values().iter().map(|&v| v as i32))?;
            writer.finish()?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::TensorType;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// A version 1 file.
    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let dict =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((dict.len() as u16).to_le_bytes());
        bytes.extend(dict.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn refuse(bytes: &[u8]) -> String {
        parse("x.npy", bytes).unwrap_err().to_string()
    }

    proptest! {
        #[test]
        fn round_trip(
            shape in prop::collection::vec(0u32..5, 0..4),
            element in prop::sample::select(vec![ElementType::F16, ElementType::F32, ElementType::I32]),
            seed: u16,
        ) {
            let ty = TensorType::new(shape, element);
            let value = |i| f32::from(seed) * 0.37 + i as f32 / 3.0;
            let whole = |v: f32| if element.is_float() { v } else { v.round() };
            let values = (0..ty.elements()).map(|i| whole(value(i))).collect();
            let array = HostArray::new(ty, values).unwrap();
            prop_assert_eq!(parse("x.npy", &to_bytes(&array).unwrap()).unwrap(), array);
        }

        #[test]
        fn damaged_files_never_panic(at in any::<prop::sample::Index>(), value: u8, cut in any::<prop::sample::Index>()) {
            let mut bytes = file("<f4", "False", "(2, 3)", &[0; 24]);
            let at = at.index(bytes.len());
            bytes[at] = value;
            bytes.truncate(cut.index(bytes.len()) + 1);
            let _ = parse("x.npy", &bytes);
        }
    }

    #[test]
    fn other_types_become_f32() {
        for (descr, data) in [
            (
                "<f8",
                [1.0f64, -2.0]
                    .iter()
                    .flat_map(|v| v.to_le_bytes())
                    .collect::<Vec<u8>>(),
            ),
            (
                "<i8",
                [1i64, -2].iter().flat_map(|v| v.to_le_bytes()).collect(),
            ),
            ("|i1", vec![1, 0xfe]),
        ] {
            let array = parse("x.npy", &file(descr, "False", "(2,)", &data)).unwrap();
            assert_eq!(
                (array.values(), array.ty().element),
                (&[1.0, -2.0][..], ElementType::F32),
                "{descr}"
            );
        }
        let i32s = |values: [i32; 2]| {
            let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            parse("x.npy", &file("<i4", "False", "(2,)", &data))
        };
        let array = i32s([1, -16_777_215]).unwrap();
        assert_eq!(
            (array.values(), array.ty().element),
            (&[1.0, -16_777_215.0][..], ElementType::I32)
        );
        assert_eq!(
            i32s([1, 16_777_217]).unwrap_err().to_string(),
            "x.npy: value 16777216 at index 1 is not an i32 of magnitude below 16777216"
        );
        let array = parse("x.npy", &file("|u1", "False", "()", &[200])).unwrap();
        assert_eq!((array.values(), array.shape()), (&[200.0][..], &[][..]));
    }

    #[test]
    fn fortran_order() {
        let data: Vec<u8> = (0..12u8).collect();
        let array = parse("x.npy", &file("|u1", "True", "(2, 3, 2)", &data)).unwrap();
        // numpy.arange(12).reshape((2, 3, 2), order='F').ravel()
        let expected = [0.0, 6.0, 2.0, 8.0, 4.0, 10.0, 1.0, 7.0, 3.0, 9.0, 5.0, 11.0];
        assert_eq!(
            (array.values(), array.shape()),
            (&expected[..], &[2, 3, 2][..])
        );
    }

    #[test]
    fn errors_name_file_expected_and_found() {
        assert_eq!(
            refuse(&file("<f4", "False", "(2, 3)", &[0; 20])),
            "x.npy: bytes of [2, 3] f32: expected 24, found 20"
        );
        assert!(refuse(&file("<f4", "False", "(2,)", &[0; 9])).ends_with("expected 8, found 9"));
        assert_eq!(
            refuse(&file(">f4", "False", "(2,)", &[0; 8])),
            format!(
                "x.npy: dtype: expected little-endian numbers ({}), found '>f4'",
                FileElement::names()
            )
        );
        assert_eq!(
            refuse(b"PK\x03\x04"),
            "x.npy: magic: expected \\x93NUMPY, found PK\\x03\\x04"
        );
        let huge = "(4294967296, 4294967296, 4294967296)";
        assert!(refuse(&file("<f4", "False", huge, &[])).contains("more than 2^64"));
        assert!(
            refuse(&file("<f4", "False", "(4294967296,)", &[]))
                .contains("fewer than 2^32 elements")
        );
        assert!(
            refuse(&file("<f4", "False", &"(".repeat(5000), &[]))
                .contains("at most 16, found 5001")
        );
        let missing = read(Path::new("no.npy")).unwrap_err().to_string();
        assert!(missing.starts_with("no.npy: "), "{missing}");
    }

    #[test]
    fn the_digits_example_is_readable() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp-digits");
        assert_eq!(read(&dir.join("images.npy")).unwrap().shape(), [200, 64]);
        assert_eq!(read_labels(&dir.join("labels.npy")).unwrap().len(), 200);
        let e = read_labels(&dir.join("images.npy"))
            .unwrap_err()
            .to_string();
        assert!(e.contains("expected an integer, found f"), "{e}");
    }
}
