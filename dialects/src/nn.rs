//! Dialect `nn`: verification and canonicalisation.

use crate::ir::{self, New, Tensor};
use melior::ir::attribute::AttributeLike;
use melior::ir::operation::OperationLike;
use melior::ir::{OperationRef, ValueLike};
use mlir_sys::*;

/// Elements of one tensor: counts and offsets fit 32 bits everywhere below.
pub const MAX_ELEMENTS: u64 = u32::MAX as u64;

type Check = Result<(), String>;

/// Names of the operands of an op.
fn operand_names(name: &str) -> &'static [&'static str] {
    match name {
        "linear" => &["input", "weight", "bias"],
        "relu" => &["input"],
        _ => &["lhs", "rhs"],
    }
}

/// Verifies `nn.<name>`; ODS has checked operand and attribute kinds.
pub(crate) fn verify(op: OperationRef<'_, '_>, name: &str) -> Check {
    let named = operand_names(name).iter().copied();
    let operands: Vec<_> = op
        .operands()
        .filter_map(|v| Tensor::of(v.r#type()))
        .collect();
    let results: Vec<_> = op
        .results()
        .filter_map(|v| Tensor::of(v.r#type()))
        .collect();
    for (what, tensor) in named
        .zip(&operands)
        .chain([("result"); 1].into_iter().zip(&results))
    {
        check_tensor(*tensor).map_err(|e| format!("{what} is {tensor}: {e}"))?;
    }
    let [result] = results[..] else { return Ok(()) };
    match (name, &operands[..]) {
        ("parameter", _) if ir::string(op, "key") == Some("") => Err("has an empty key".into()),
        ("matmul", &[lhs, rhs]) => product(["lhs", "rhs"], lhs, rhs, result),
        ("linear", &[input, weight, ref bias @ ..]) => {
            product(["input", "weight"], input, weight, result)?;
            let Some(&bias) = bias.first() else {
                return Ok(());
            };
            let shape = result.shape();
            if broadcast(&bias.shape(), &shape).as_deref() != Some(&shape[..]) {
                return Err(format!(
                    "bias is {bias}, which does not broadcast to the result {result}"
                ));
            }
            Ok(())
        }
        ("relu", &[input]) => same("input", input, result),
        ("add" | "sub" | "mul" | "div" | "max" | "min", &[lhs, rhs]) => {
            if lhs.element() != rhs.element() || lhs.element() != result.element() {
                return Err(format!(
                    "element types differ: lhs is {lhs}, rhs is {rhs}, result is {result}"
                ));
            }
            match broadcast(&lhs.shape(), &rhs.shape()) {
                None => Err(format!(
                    "shapes do not broadcast: lhs is {lhs}, rhs is {rhs}"
                )),
                Some(shape) => expect_shape(result, &shape),
            }
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_tensor(tensor: Tensor<'_>) -> Check {
    let mut elements = 1u64;
    for (axis, extent) in tensor.extents().into_iter().enumerate() {
        match extent {
            None => return Err(format!("axis {axis} is dynamic, give its extent")),
            Some(0) => return Err(format!("axis {axis} is empty")),
            Some(n) => {
                elements = elements
                    .checked_mul(n)
                    .filter(|&e| e <= MAX_ELEMENTS)
                    .ok_or_else(|| {
                        format!("it has more than {MAX_ELEMENTS} elements, the limit of one tensor")
                    })?;
            }
        }
    }
    Ok(())
}

fn product(
    [left, right]: [&str; 2],
    lhs: Tensor<'_>,
    rhs: Tensor<'_>,
    result: Tensor<'_>,
) -> Check {
    let (l, r) = (lhs.shape(), rhs.shape());
    let ([l_batch @ .., m, k], [r_batch @ .., rows, n]) = (&l[..], &r[..]) else {
        return Err(format!("needs matrices: {left} is {lhs}, {right} is {rhs}"));
    };
    if k != rows {
        return Err(format!(
            "contraction sizes differ: {left} is {lhs} ({k} columns), {right} is {rhs} ({rows} rows)"
        ));
    }
    if !r_batch.is_empty() && r_batch != l_batch {
        return Err(format!(
            "batch axes differ: {left} is {lhs}, {right} is {rhs}"
        ));
    }
    if lhs.element() != rhs.element() {
        return Err(format!(
            "element types differ: {left} is {lhs}, {right} is {rhs}"
        ));
    }
    if result.element() != lhs.element() && result.element().to_string() != "f32" {
        let element = lhs.element().to_string();
        let or = if element == "f32" { "" } else { " or f32" };
        return Err(format!(
            "result is {result}, expected elements of {element}{or}"
        ));
    }
    expect_shape(result, &[l_batch, &[*m, *n]].concat())
}

fn same(what: &str, input: Tensor<'_>, result: Tensor<'_>) -> Check {
    if input.shape() == result.shape() && input.element() == result.element() {
        return Ok(());
    }
    Err(format!(
        "types differ: {what} is {input}, result is {result}"
    ))
}

fn expect_shape(result: Tensor<'_>, shape: &[u64]) -> Check {
    if result.shape() == shape {
        return Ok(());
    }
    let expected: Vec<_> = shape.iter().map(u64::to_string).collect();
    Err(format!(
        "result is {result}, expected the shape {}",
        expected.join("x")
    ))
}

/// NumPy's broadcast of two shapes.
pub fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let rank = a.len().max(b.len());
    let at = |s: &[u64], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// Simplifies an operation in place; whether it did.
pub(crate) fn canonicalize(op: OperationRef<'_, '_>, rewriter: MlirRewriterBase) -> bool {
    let mut operands = op.operands();
    let (Some(result), Some(first)) = (op.results().next(), operands.next()) else {
        return false;
    };
    // Not `op.operand(1)`: melior's error for an operand that is not there prints the operation,
    // which verifies the whole module while other threads change their parts of it.
    let second = operands.next();
    let keeps = |v: melior::ir::Value<'_, '_>| v.r#type() == result.r#type();
    let kept = match ir::name(op).as_str() {
        // relu(relu(x)) = relu(x)
        "nn.relu" if ir::definition(first).is_some_and(|d| ir::name(d) == "nn.relu") => Some(first),
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
            let parts = New {
                operands: &[x],
                results: &[result.r#type()],
                ..New::default()
            };
            let Ok(relu) = parts.build("nn.relu", op.location(), ir::context(op)) else {
                return false;
            };
            // SAFETY: the rewriter owns `relu` once inserted, and replaces `op` by it.
            unsafe {
                mlirRewriterBaseSetInsertionPointBefore(rewriter, op.to_raw());
                let relu = mlirRewriterBaseInsert(rewriter, relu.into_raw());
                mlirRewriterBaseReplaceOpWithOperation(rewriter, op.to_raw(), relu);
            }
            return true;
        }
        _ => None,
    };
    let Some(kept) = kept.filter(|v| keeps(*v)) else {
        return false;
    };
    // SAFETY: the value has the type of the only result.
    unsafe { mlirRewriterBaseReplaceOpWithValues(rewriter, op.to_raw(), 1, &kept.to_raw()) };
    true
}

/// The one value of a splat constant.
fn splat(value: melior::ir::Value<'_, '_>) -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::broadcast;

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        assert_eq!(broadcast(&[200, 128], &[128]), Some(vec![200, 128]));
        assert_eq!(broadcast(&[3, 1], &[2, 1, 4]), Some(vec![2, 3, 4]));
        assert_eq!(broadcast(&[], &[2]), Some(vec![2]));
        assert_eq!(broadcast(&[2], &[3]), None);
    }
}
