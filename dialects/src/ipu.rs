//! Dialect `ipu`: verification of the containers.

use crate::ir::{self, Tensor};
use melior::ir::OperationRef;
use melior::ir::attribute::AttributeLike;
use melior::ir::operation::OperationLike;
use mlir_sys::mlirAttributeGetType;

/// Verifies `ipu.<name>`.
pub(crate) fn verify(op: OperationRef<'_, '_>, name: &str) -> Result<(), String> {
    match name {
        "candidate" => {
            for what in ["estimated_cycles", "scheduled_cycles"] {
                if let Some(n) = ir::int(op, what).filter(|n| *n < 0) {
                    return Err(format!("has {n} as {what}, cycles are not negative"));
                }
            }
            Ok(())
        }
        "package" => {
            let Ok(blob) = op.attribute("blob") else {
                return Ok(());
            };
            // SAFETY: an elements attribute has a type.
            let ty = unsafe { melior::ir::Type::from_raw(mlirAttributeGetType(blob.to_raw())) };
            match Tensor::of(ty) {
                Some(t) if t.extents().len() == 1 && t.element().to_string() == "i8" => Ok(()),
                _ => Err(format!("has a blob of type {ty}, expected tensor<Nxi8>")),
            }
        }
        _ => Ok(()),
    }
}

/// Verifies what stands in an `ipu.candidate`.
pub(crate) fn verify_candidate(op: OperationRef<'_, '_>) -> Result<(), String> {
    match ir::body_ops(op)
        .map(ir::name)
        .find(|n| n == "ipu.candidate" || n == "builtin.module")
    {
        Some(inner) => Err(format!(
            "holds '{inner}': a candidate is one program, not a container"
        )),
        None => Ok(()),
    }
}
