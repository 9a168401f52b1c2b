//! Dialect `nn`: verification and canonicalisation.

mod canonicalize;

pub(crate) use canonicalize::canonicalize;

use crate::graph::{kind, plain_type};
use crate::ir::{self, Tensor};
use ipu_program::graph::{OpKind, parameter_key};
use ipu_program::infer;
use ipu_program::types::TensorType;
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::{OperationRef, Type, ValueLike};

pub use ipu_program::infer::MAX_ELEMENTS;

type Check = Result<(), String>;

/// Verifies `nn.<name>`; ODS has checked operand and attribute kinds.
pub(crate) fn verify(op: OperationRef<'_, '_>, name: &str) -> Check {
    let operands = op.operands().map(|v| v.r#type());
    if name == "yield" {
        return types(operands, |i| format!("value {i}")).map(drop);
    }
    let results = || {
        let several = op.result_count() > 1;
        types(op.results().map(|v| v.r#type()), |i| match several {
            true => format!("result {i}"),
            false => "result".to_owned(),
        })
    };
    if name == "constant" {
        let floats = results()?.iter().all(|ty| ty.element.is_float());
        let elided = || {
            op.attribute("value")
                .is_ok_and(|v| ir::elements_bytes(v).is_none())
        };
        if floats || elided() {
            // ODS has checked the type; there is nothing to look at.
            return Ok(());
        }
    }
    let kind = kind::read(op, name)?;
    let operands = types(operands, |i| infer::operand_name(&kind, i).into_owned())?;
    let results = results()?;
    match &kind {
        OpKind::Parameter { name } => check_key(op, name),
        // The body is not known to be valid yet.
        OpKind::Repeat { .. } => Ok(()),
        _ => infer::check(&kind, &operands, &results).map_err(|e| e.to_string()),
    }
}

/// Verifies an `nn.repeat` whose body is valid.
pub(crate) fn verify_repeat(op: OperationRef<'_, '_>) -> Check {
    let OpKind::Repeat { count, .. } = kind::read(op, "repeat")? else {
        return Ok(());
    };
    let body = ir::body(op).ok_or("has no body")?;
    let last = ir::block_ops(body).last();
    let Some(last) = last.filter(|last| ir::name(*last) == "nn.yield") else {
        return Err("has a body that does not end in nn.yield".into());
    };
    let arguments = (0..body.argument_count())
        .filter_map(|i| body.argument(i).ok())
        .map(|argument| argument.r#type());
    let arguments = types(arguments, |i| format!("argument {i}"))?;
    let yields = types(last.operands().map(|v| v.r#type()), |i| {
        format!("yielded {i}")
    })?;
    let operands = types(op.operands().map(|v| v.r#type()), |i| {
        format!("inputs[{i}]")
    })?;
    let results = types(op.results().map(|v| v.r#type()), |i| format!("result {i}"))?;
    infer::check_repeat(count, &operands, [&arguments, &yields], &results)
        .map_err(|e| e.to_string())
}

/// The types of values, which messages name.
fn types<'c>(
    values: impl Iterator<Item = Type<'c>>,
    name: impl Fn(usize) -> String,
) -> Result<Vec<TensorType>, String> {
    let one = |(i, ty): (usize, Type<'c>)| {
        let tensor = Tensor::of(ty)
            .ok_or_else(|| format!("{} is {ty}, which is not a tensor with a rank", name(i)))?;
        plain_type(tensor).map_err(|e| format!("{} is {tensor}{e}", name(i)))
    };
    values.enumerate().map(one).collect()
}

fn check_key(op: OperationRef<'_, '_>, key: &str) -> Check {
    if key.is_empty() {
        return Err("has an empty key".into());
    }
    let around = ir::parents(op).take_while(|op| ir::name(*op) == "nn.repeat");
    let depth = around.count();
    if parameter_key(key, &vec![0; depth]).is_some() {
        return Ok(());
    }
    let found = key.matches("{}").count();
    Err(match depth {
        0 => format!(
            "key is \"{key}\", but {{}} stands for the iteration of an nn.repeat and there is none around it"
        ),
        _ => format!(
            "key is \"{key}\" with {found} {{}} inside {depth} nested nn.repeat, expected {depth}, outermost first, or none"
        ),
    })
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
