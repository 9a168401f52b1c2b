//! Functions of dialect `nn` as [`ipu_program::graph::Graph`], and back.

mod build;
pub(crate) mod kind;
mod read;

pub(crate) use build::build_private;
pub use build::{build, replace};
pub use read::read;

use crate::ir::{self, Tensor};
use crate::layout;
use half::f16;
use ipu_program::types::{ElementType, TensorType};
use melior::Context;
use melior::ir::attribute::DenseElementsAttribute;
use melior::ir::{Attribute, Type};

/// The type of a tensor of IR, and its encoding as a layout.
///
/// # Errors
/// As text that goes on after the name of the value: not a ranked tensor, elements that are not
/// f16, f32 or i32, a dynamic or empty axis, too many elements, another encoding.
pub fn read_type(
    ty: Type<'_>,
) -> Result<(TensorType, Option<ipu_program::layout::Layout>), String> {
    let tensor = Tensor::of(ty).ok_or_else(|| format!("{ty} is not a tensor with a rank"))?;
    let ty = plain_type(tensor).map_err(|e| format!("{tensor}{e}"))?;
    let layout = match tensor.encoding() {
        None => None,
        Some(e) => Some(layout::read(e).ok_or_else(|| format!("{e} is not an #ipu.layout"))?),
    };
    Ok((ty, layout))
}

/// The type of a tensor of IR without its encoding; the error goes on after the tensor.
pub(crate) fn plain_type(tensor: Tensor<'_>) -> Result<TensorType, String> {
    let element = layout::read_element_type(tensor.element())
        .ok_or(" has elements that are not f16, f32 or i32")?;
    crate::nn::check_tensor(tensor).map_err(|e| format!(": {e}"))?;
    let shape: Vec<u32> = tensor.shape().into_iter().map(|n| n as u32).collect();
    Ok(TensorType::new(shape, element))
}

/// A tensor type of IR, with `layout` as its encoding. The layout must cover the tensor: MLIR does
/// not verify types that are built.
pub fn tensor_type<'c>(
    context: &'c Context,
    ty: &TensorType,
    layout: Option<&ipu_program::layout::Layout>,
) -> Type<'c> {
    let shape: Vec<u64> = ty.shape.iter().map(|&n| n.into()).collect();
    let encoding = layout.map(|l| layout::attribute(context, l));
    Tensor::new(&shape, layout::element_type(context, ty.element), encoding).ty()
}

/// The values of an elements attribute as f32: one for a splat, all in row-major order otherwise.
///
/// # Errors
/// The value was elided, or an integer is none that f32 holds exactly.
pub fn read_values(value: Attribute<'_>, element: ElementType) -> Result<Vec<f32>, String> {
    let bytes = ir::elements_bytes(value)
        .ok_or("has a value that was elided when this text was printed")?;
    let values: Vec<f32> = match element {
        ElementType::F16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f16::from_le_bytes(b).to_f32())
            .collect(),
        ElementType::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect(),
        ElementType::I32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| i32::from_le_bytes(b) as f32)
            .collect(),
    };
    match values.iter().find(|&&v| !element.holds(v)) {
        Some(v) => Err(format!(
            "has the value {v}: integers need a magnitude below {}",
            ElementType::MAX_INTEGER
        )),
        None => Ok(values),
    }
}

/// A dense attribute of these values (one for a splat), rounded to the element type.
pub fn values_attribute<'c>(
    context: &'c Context,
    ty: &TensorType,
    values: &[f32],
) -> Attribute<'c> {
    let bytes: Vec<u8> = match ty.element {
        ElementType::F16 => values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect(),
        ElementType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ElementType::I32 => values
            .iter()
            .flat_map(|&v| (v as i32).to_le_bytes())
            .collect(),
    };
    DenseElementsAttribute::raw_buffer(tensor_type(context, ty, None), &bytes).into()
}
