//! Weights files in safetensors format.

use crate::element::{FileElement, raw};
use crate::error::{self, DataError, format, mismatch};
use ipu_interp::host::Parameters;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// Reads all tensors of a file. Those of f16 and i32 stay so, all others become f32.
///
/// # Errors
/// The file cannot be read, is not safetensors, or a tensor is not of numbers.
pub fn read(path: &Path) -> Result<Parameters, DataError> {
    parse(&path.display().to_string(), &error::read(path)?)
}

/// Reads the bytes of a file; `subject` names it in messages.
///
/// # Errors
/// Not safetensors, or a tensor is not of numbers.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<Parameters, DataError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| format(subject, format!("safetensors: {e}")))?;
    let mut parameters = Parameters::new();
    for (name, view) in file.iter() {
        let subject = format!("{subject}: tensor '{name}'");
        let element = match view.dtype() {
            Dtype::F16 => FileElement::F16,
            Dtype::BF16 => FileElement::Bf16,
            Dtype::F32 => FileElement::F32,
            Dtype::F64 => FileElement::F64,
            Dtype::I8 => FileElement::I8,
            Dtype::I16 => FileElement::I16,
            Dtype::I32 => FileElement::I32,
            Dtype::I64 => FileElement::I64,
            Dtype::U8 => FileElement::U8,
            Dtype::U16 => FileElement::U16,
            Dtype::U32 => FileElement::U32,
            Dtype::U64 => FileElement::U64,
            other => {
                return Err(mismatch(
                    &subject,
                    "dtype",
                    FileElement::names(),
                    format!("{other:?}"),
                ));
            }
        };
        let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
        parameters.insert(
            name.to_owned(),
            raw(&subject, &shape, element, view.data())?,
        );
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::ElementType;
    use pretty_assertions::assert_eq;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn the_digits_weights_are_readable() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp-digits");
        let weights = read(&dir.join("weights.safetensors")).unwrap();
        assert_eq!(weights["fc1.weight"].shape(), [64, 128]);
        assert_eq!(weights["head.bias"].ty().element, ElementType::F32);
    }

    #[test]
    fn element_types_and_errors() {
        let header = r#"{"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[1,1],"data_offsets":[2,4]}}"#;
        let weights = parse("w", &file(header, &[0, 0x3c, 0x80, 0x3f])).unwrap();
        assert_eq!(
            (weights["h"].values(), weights["h"].ty().element),
            (&[1.0][..], ElementType::F16)
        );
        assert_eq!(
            (weights["b"].values(), weights["b"].shape()),
            (&[1.0][..], &[1, 1][..])
        );
        let header = r#"{"h":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#;
        let e = parse("w", &file(header, &[0])).unwrap_err().to_string();
        assert!(
            e.starts_with("w: tensor 'h': dtype: expected f16, ") && e.ends_with("found BOOL"),
            "{e}"
        );
        for bad in [&b""[..], b"garbage!garbage", &file("{}", &[1])] {
            let e = parse("w", bad).unwrap_err().to_string();
            assert!(e.starts_with("w: safetensors: "), "{e}");
        }
    }
}
