//! Arrays on the command line, in IREE's syntax.
//!
//! `3.14`, `2x2xf32=1 2 3 4`, `2x3xf16=[1 2 3][4 5 6]`, `2x2xf32=0.5` (splat), `2x2xf32` (zeros),
//! `2x2xf16=@file.bin`, `@file.npy`. Commas separate as blanks do; brackets must balance.

use crate::element::{FileElement, extents, raw};
use crate::error::{self, DataError, format, mismatch};
use crate::npy;
use ipu_interp::host::{HostArray, shape};
use ipu_program::types::TensorType;
use std::path::Path;

/// Reads an argument.
///
/// # Errors
/// Not of the syntax, or the file that it names cannot be used.
pub fn parse(text: &str) -> Result<HostArray, DataError> {
    let subject = if text.chars().count() > 60 {
        let start: String = text.chars().take(60).collect();
        format!("'{start}...'")
    } else {
        format!("'{text}'")
    };
    let text = text.trim();
    if let Some(file) = text.strip_prefix('@') {
        if !has_extension(file, "npy") {
            return Err(mismatch(
                &subject,
                "file without a type",
                "@FILE.npy, or TYPE=@FILE.bin",
                file,
            ));
        }
        return npy::read(Path::new(file));
    }
    let (ty, content) = match text.split_once('=') {
        Some((ty, content)) => (ty, Some(content.trim())),
        None if text.parse::<f32>().is_ok() => ("f32", Some(text)),
        None => (text, None),
    };
    let (extents_found, element) = parse_type(&subject, ty.trim())?;
    match content {
        None => values(&subject, &extents_found, element, "0"),
        Some(content) => match content.strip_prefix('@') {
            None => values(&subject, &extents_found, element, content),
            Some(file) if has_extension(file, "npy") => {
                let array = npy::read(Path::new(file))?;
                let (expected, _) = extents(&subject, &extents_found)?;
                if array.shape() != expected {
                    return Err(mismatch(
                        file,
                        "shape",
                        shape(&expected),
                        shape(array.shape()),
                    ));
                }
                array
                    .to_element(element.host())
                    .map_err(|e| format(file, e))
            }
            Some(file) => raw(
                file,
                &extents_found,
                element,
                &error::read(Path::new(file))?,
            ),
        },
    }
}

fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

fn parse_type(subject: &str, ty: &str) -> Result<(Vec<u64>, FileElement), DataError> {
    let (dims, name) = ty.rsplit_once('x').map_or(("", ty), |(d, n)| (d, n));
    let element = FileElement::from_name(name).ok_or_else(|| {
        mismatch(
            subject,
            "element type",
            FileElement::names(),
            format!("'{name}'"),
        )
    })?;
    let dims = dims.split('x').filter(|_| !dims.is_empty());
    let shape = dims
        .map(|d| {
            d.parse()
                .map_err(|_| mismatch(subject, "extent", "a number", format!("'{d}'")))
        })
        .collect::<Result<_, _>>()?;
    Ok((shape, element))
}

fn values(
    subject: &str,
    shape: &[u64],
    element: FileElement,
    content: &str,
) -> Result<HostArray, DataError> {
    let (extents, count) = extents(subject, shape)?;
    let mut depth = 0usize;
    for c in content.chars() {
        match c {
            '[' => depth += 1,
            ']' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| format(subject, "']' without '['"))?
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(format(subject, "'[' without ']'"));
    }
    let separator = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']');
    let values = content
        .split(separator)
        .filter(|word| !word.is_empty())
        .map(|word| {
            let value: f32 = word
                .parse()
                .map_err(|_| mismatch(subject, "value", "a number", format!("'{word}'")))?;
            match element.is_integer() && (value.fract() != 0.0 || !value.is_finite()) {
                true => Err(mismatch(
                    subject,
                    "value",
                    format!("an {}", element.name()),
                    format!("'{word}'"),
                )),
                false => Ok(value),
            }
        })
        .collect::<Result<Vec<f32>, _>>()?;
    if values.len() != count && values.len() != 1 {
        let expected = format!("{count}, or 1 for all of them");
        return Err(mismatch(
            subject,
            "number of values",
            expected,
            values.len(),
        ));
    }
    let ty = TensorType::new(extents, element.host());
    HostArray::constant(ty, &values).map_err(|e| format(subject, e))
}

/// An array in the same syntax, `2x2xf32=[1 2][3 4]`; after `limit` elements follows `...`.
pub fn to_text(array: &HostArray, limit: usize) -> String {
    let ty = array.ty();
    let mut text: String = ty.shape.iter().map(|d| format!("{d}x")).collect();
    text += &format!("{}=", ty.element);
    // Brackets open and close around every axis but the first.
    let inner: Vec<usize> = (1..ty.shape.len())
        .map(|axis| ty.shape[axis..].iter().map(|&d| d as usize).product())
        .collect();
    for (i, value) in array.values().iter().enumerate() {
        let opened = inner.iter().filter(|&&n| i.is_multiple_of(n)).count();
        if i > 0 && opened == 0 {
            text.push(' ');
        }
        text += &"[".repeat(opened);
        if i >= limit {
            return text + "...";
        }
        text += &value.to_string();
        text += &"]".repeat(inner.iter().filter(|&&n| (i + 1).is_multiple_of(n)).count());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::ElementType;
    use pretty_assertions::assert_eq;

    fn check(text: &str, extents: &[u32], element: ElementType, values: &[f32]) {
        let array = parse(text).unwrap();
        assert_eq!(
            (array.shape(), array.ty().element, array.values()),
            (extents, element, values),
            "{text}"
        );
    }

    fn refuse(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn iree_forms() {
        use ElementType::{F16, F32, I32};
        check("3.5", &[], F32, &[3.5]);
        check("-2e3", &[], F32, &[-2000.0]);
        check("f16=1.5", &[], F16, &[1.5]);
        check("2x2xf32=1 2 3 4", &[2, 2], F32, &[1.0, 2.0, 3.0, 4.0]);
        check(
            "2x3xf16=[1 2 3][4 5 6]",
            &[2, 3],
            F16,
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        );
        check(
            "2x2xf32=[[1,2], [3,4]]",
            &[2, 2],
            F32,
            &[1.0, 2.0, 3.0, 4.0],
        );
        check("2x2xf32=0.5", &[2, 2], F32, &[0.5; 4]);
        check("3xi32=1 -2 3", &[3], I32, &[1.0, -2.0, 3.0]);
        check("3xi64=1 -2 3", &[3], F32, &[1.0, -2.0, 3.0]);
        check("2xf16=0.1 1e9", &[2], F16, &[0.099_975_586, 65504.0]);
        check("2xf32", &[2], F32, &[0.0; 2]);
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("a.bin"), [0, 0x3c, 0, 0xc0]).unwrap();
        check(
            &format!("2xf16=@{}", path("a.bin")),
            &[2],
            ElementType::F16,
            &[1.0, -2.0],
        );
        let array = parse("2xf32=1 2").unwrap();
        npy::write(Path::new(&path("a.npy")), &array).unwrap();
        assert_eq!(parse(&format!("@{}", path("a.npy"))).unwrap(), array);
        check(
            &format!("2xf16=@{}", path("a.npy")),
            &[2],
            ElementType::F16,
            &[1.0, 2.0],
        );
        let e = refuse(&format!("3xf16=@{}", path("a.npy")));
        assert_eq!(e, format!("{}: shape: expected 3, found 2", path("a.npy")));
        let e = refuse(&format!("3xf16=@{}", path("a.bin")));
        assert_eq!(
            e,
            format!("{}: bytes of [3] f16: expected 6, found 4", path("a.bin"))
        );
        assert!(refuse("@a.bin").ends_with("expected @FILE.npy, or TYPE=@FILE.bin, found a.bin"));
    }

    #[test]
    fn errors() {
        assert_eq!(
            refuse("2x2xf32=1 2 3"),
            "'2x2xf32=1 2 3': number of values: expected 4, or 1 for all of them, found 3"
        );
        assert_eq!(
            refuse("2xf32=1 b"),
            "'2xf32=1 b': value: expected a number, found 'b'"
        );
        assert_eq!(
            refuse("2xi8=1 0.5"),
            "'2xi8=1 0.5': value: expected an i8, found '0.5'"
        );
        assert_eq!(
            refuse("?xf32=1"),
            "'?xf32=1': extent: expected a number, found '?'"
        );
        assert!(refuse("2xf8=1").contains("element type: expected f16, "));
        assert_eq!(refuse("2xf32=[1 2"), "'2xf32=[1 2': '[' without ']'");
        assert_eq!(refuse("2xf32=1] [2"), "'2xf32=1] [2': ']' without '['");
        assert!(refuse("4294967296x4294967296x4294967296xf32").contains("fewer than 2^32"));
        assert!(refuse("").contains("element type"));
    }

    #[test]
    fn text_of_arrays() {
        for text in [
            "f32=3.5",
            "2xf32=1 2",
            "2x2xf32=[1 2][3 4]",
            "2x1x2xf16=[[1 2]][[3 4]]",
        ] {
            assert_eq!(to_text(&parse(text).unwrap(), 100), text);
        }
        assert_eq!(
            to_text(&parse("2x2xf32=7").unwrap(), 3),
            "2x2xf32=[7 7][7 ..."
        );
        assert_eq!(to_text(&parse("2x2xf32=7").unwrap(), 0), "2x2xf32=[...");
    }
}
