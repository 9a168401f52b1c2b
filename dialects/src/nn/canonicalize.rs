//! Simplifications that are right whatever the values are.

use crate::graph::kind;
use crate::ir::{self, New};
use ipu_program::graph::OpKind;
use melior::ir::attribute::{AttributeLike, DenseI64ArrayAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, OperationRef, Value, ValueLike};
use mlir_sys::*;

/// Simplifies an operation in place; whether it did.
pub(crate) fn canonicalize(op: OperationRef<'_, '_>, rewriter: MlirRewriterBase) -> bool {
    let mut operands = op.operands();
    let (Some(result), Some(first)) = (op.results().next(), operands.next()) else {
        return false;
    };
    // Not `op.operand(1)`: melior's error for an operand that is not there prints the operation,
    // which verifies the whole module while other threads change their parts of it.
    let second = operands.next();
    let keeps = |v: Value<'_, '_>| v.r#type() == result.r#type();
    let name = ir::name(op);
    let before = |name: &str| source(first, name);
    let kept = match name.as_str() {
        // relu(relu(x)) = relu(x)
        "nn.relu" if before("nn.relu").is_some() => Some(first),
        // x * 1 = 1 * x = x / 1 = x
        "nn.mul" | "nn.div" if second.is_some_and(|s| splat(s) == Some(1.0)) => Some(first),
        "nn.mul" if splat(first) == Some(1.0) => second,
        // max(x, 0) = relu(x)
        "nn.max" => {
            let Some(second) = second else { return false };
            let x = match (splat(first), splat(second)) {
                (_, Some(0.0)) if keeps(first) => first,
                (Some(0.0), _) if keeps(second) => second,
                _ => return false,
            };
            return replace(op, rewriter, "nn.relu", x, None);
        }
        // A shape that stays, and so every element: a slice of all of an axis has offset 0.
        "nn.reshape" | "nn.broadcast" | "nn.cast" | "nn.slice" if keeps(first) => Some(first),
        "nn.concat" if second.is_none() => Some(first),
        // reshape(reshape(x)) = reshape(x)
        "nn.reshape" => {
            let Some((_, x)) = before("nn.reshape") else {
                return false;
            };
            return replace(op, rewriter, "nn.reshape", x, None);
        }
        "nn.transpose" => {
            let Some(outer) = permutation(op) else {
                return false;
            };
            if outer.iter().copied().eq(0..outer.len() as u32) {
                Some(first)
            } else {
                let Some((inner, x)) = before("nn.transpose") else {
                    return false;
                };
                let Some(inner) = permutation(inner) else {
                    return false;
                };
                // Axis i is axis outer[i] of the middle, axis inner[outer[i]] of x.
                let both: Option<Vec<i64>> = outer
                    .iter()
                    .map(|&axis| inner.get(axis as usize).map(|&axis| axis.into()))
                    .collect();
                let Some(both) = both else { return false };
                let both = DenseI64ArrayAttribute::new(ir::context(op), &both);
                return replace(
                    op,
                    rewriter,
                    "nn.transpose",
                    x,
                    Some(("permutation", both.into())),
                );
            }
        }
        // Inverse of each other, if the leading axes are one: the types tell.
        "nn.split_heads" => inverse(op, first, "nn.merge_heads"),
        "nn.merge_heads" => inverse(op, first, "nn.split_heads"),
        _ => None,
    };
    let Some(kept) = kept.filter(|v| keeps(*v)) else {
        return false;
    };
    // SAFETY: the value has the type of the only result.
    unsafe { mlirRewriterBaseReplaceOpWithValues(rewriter, op.to_raw(), 1, &kept.to_raw()) };
    true
}

/// The operation of that name which defines a value, and its first operand.
fn source<'c, 'a>(
    value: Value<'c, 'a>,
    name: &str,
) -> Option<(OperationRef<'c, 'a>, Value<'c, 'a>)> {
    let op = ir::definition(value).filter(|d| ir::name(*d) == name)?;
    let operand = op.operands().next()?;
    // SAFETY: the operand is defined before `op`, which lives for `'a`.
    Some((op, unsafe { Value::from_raw(operand.to_raw()) }))
}

/// The x of `op(other(x))` with the same heads.
fn inverse<'c, 'a>(
    op: OperationRef<'c, 'a>,
    input: Value<'c, 'a>,
    other: &str,
) -> Option<Value<'c, 'a>> {
    let (inner, x) = source(input, other)?;
    let heads = ir::int(op, "heads")?;
    (ir::int(inner, "heads")? == heads).then_some(x)
}

fn permutation(op: OperationRef<'_, '_>) -> Option<Vec<u32>> {
    match kind::read(op, "transpose").ok()? {
        OpKind::Transpose { permutation } => Some(permutation),
        _ => None,
    }
}

/// Puts an operation of one operand and one attribute in the place of another. An operation whose
/// execution was planned stays as it is.
fn replace(
    op: OperationRef<'_, '_>,
    rewriter: MlirRewriterBase,
    name: &str,
    operand: Value<'_, '_>,
    attribute: Option<(&str, Attribute<'_>)>,
) -> bool {
    if op.attribute("plan").is_ok() {
        return false;
    }
    let Some(result) = op.results().next() else {
        return false;
    };
    let (attribute, value) = attribute.unzip();
    let parts = New {
        operands: &[operand],
        results: &[result.r#type()],
        attributes: &[(attribute.unwrap_or_default(), value)],
        body: false,
    };
    let Ok(new) = parts.build(name, op.location(), ir::context(op)) else {
        return false;
    };
    // SAFETY: the rewriter owns `new` once inserted, and replaces `op` by it.
    unsafe {
        mlirRewriterBaseSetInsertionPointBefore(rewriter, op.to_raw());
        let new = mlirRewriterBaseInsert(rewriter, new.into_raw());
        mlirRewriterBaseReplaceOpWithOperation(rewriter, op.to_raw(), new);
    }
    true
}

/// The one value of a splat constant.
fn splat(value: Value<'_, '_>) -> Option<f64> {
    let constant = ir::definition(value)
        .filter(|d| ir::name(*d) == "nn.constant")?
        .attribute("value")
        .ok()?;
    // SAFETY: guarded by the tests: a dense splat of floats.
    unsafe {
        let raw = constant.to_raw();
        (mlirAttributeIsADenseFPElements(raw) && mlirDenseElementsAttrIsSplat(raw))
            .then(|| mlirFloatAttrGetValueDouble(mlirDenseElementsAttrGetSplatValue(raw)))
    }
}
