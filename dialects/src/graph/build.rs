//! From [`Graph`] to `func.func`.

use super::{kind, tensor_type};
use crate::diag::{Failed, Span, error_at};
use crate::ir::{self, New};
use crate::layout;
use ipu_program::graph::{Graph, Op, OpKind, ValueId};
use melior::Context;
use melior::ir::attribute::{StringAttribute, TypeAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::FunctionType;
use melior::ir::{BlockRef, Location, Operation, OperationRef, Type, Value, ValueLike};

/// Builds the `func.func` of a graph. `None` when the graph is not well formed (an operand does not
/// precede its use); a diagnostic says so. Types are the verifier's to check.
pub fn build<'c>(context: &'c Context, graph: &Graph, at: Location<'c>) -> Option<Operation<'c>> {
    try_build(context, graph, at, None).ok()
}

/// Builds the function of a graph for use inside what it stands in.
pub(crate) fn build_private<'c>(
    context: &'c Context,
    graph: &Graph,
    at: Location<'c>,
) -> Result<Operation<'c>, Failed> {
    try_build(context, graph, at, Some("private"))
}

/// Puts the function of a graph in the place of a `func.func`.
///
/// # Errors
/// Where [`build`] gives nothing.
pub fn replace<'c, 'a>(
    func: OperationRef<'c, 'a>,
    graph: &Graph,
) -> Result<OperationRef<'c, 'a>, Failed> {
    Ok(ir::replace(
        func,
        try_build(ir::context(func), graph, func.location(), None)?,
    ))
}

fn try_build<'c>(
    context: &'c Context,
    graph: &Graph,
    at: Location<'c>,
    visibility: Option<&str>,
) -> Result<Operation<'c>, Failed> {
    let types = types(context, graph);
    let function = FunctionType::new(
        context,
        &pick(&types, &graph.inputs, at)?,
        &pick(&types, &graph.outputs, at)?,
    );
    let func = New {
        attributes: &[
            (
                "sym_name",
                Some(StringAttribute::new(context, &graph.name).into()),
            ),
            (
                "function_type",
                Some(TypeAttribute::new(function.into()).into()),
            ),
            (
                "sym_visibility",
                visibility.map(|v| StringAttribute::new(context, v).into()),
            ),
        ],
        body: true,
        ..New::default()
    }
    .build("func.func", at, context)?;
    fill(context, graph, ir::new_body(&func)?, "func.return", at)?;
    Ok(func)
}

fn types<'c>(context: &'c Context, graph: &Graph) -> Vec<Type<'c>> {
    let values = graph.values.iter();
    values
        .map(|v| tensor_type(context, &v.ty, v.layout.as_ref()))
        .collect()
}

/// What belongs to some values.
fn pick<T: Copy>(of: &[T], ids: &[ValueId], at: Location<'_>) -> Result<Vec<T>, Failed> {
    let one = |id: &ValueId| of.get(id.0 as usize).copied();
    let all: Option<_> = ids.iter().map(one).collect();
    all.ok_or_else(|| error_at(at, "internal error: the graph lacks a value that it uses"))
}

/// Fills a block with arguments, operations and terminator.
fn fill<'c>(
    context: &'c Context,
    graph: &Graph,
    block: BlockRef<'c, '_>,
    terminator: &str,
    at: Location<'c>,
) -> Result<(), Failed> {
    let types = types(context, graph);
    let mut values: Vec<Option<Value<'c, '_>>> = vec![None; graph.values.len()];
    for (id, ty) in graph.inputs.iter().zip(pick(&types, &graph.inputs, at)?) {
        values[id.0 as usize] = Some(block.add_argument(ty, at));
    }
    for op in &graph.ops {
        let at = location(context, op);
        let operands = defined(&values, &op.operands, at)?;
        let ids: Vec<_> = [op.result]
            .into_iter()
            .chain(op.more_results.iter().copied())
            .collect();
        let built = operation(context, graph, op, &operands, &pick(&types, &ids, at)?)?;
        let built = block.append_operation(built);
        for (i, id) in ids.iter().enumerate() {
            let result = built
                .result(i)
                .map_err(|_| error_at(at, "internal error: cannot build the function"))?;
            // SAFETY: the result lives as long as the block that owns the operation.
            values[id.0 as usize] = Some(unsafe { Value::from_raw(result.to_raw()) });
        }
    }
    let results = defined(&values, &graph.outputs, at)?;
    block.append_operation(
        New {
            operands: &results,
            ..New::default()
        }
        .build(terminator, at, context)?,
    );
    Ok(())
}

/// Where an operation comes from: one position, or all of them with the rules by which they became
/// one.
fn location<'c>(context: &'c Context, op: &Op) -> Location<'c> {
    let places = std::iter::once(&op.location).chain(&op.fused);
    let places: Vec<&str> = places.map(String::as_str).collect();
    Span::fused(context, &places, &op.rules)
}

fn operation<'c>(
    context: &'c Context,
    graph: &Graph,
    op: &Op,
    operands: &[Value<'c, '_>],
    results: &[Type<'c>],
) -> Result<Operation<'c>, Failed> {
    let at = location(context, op);
    let mut attributes = kind::attributes(context, &op.kind, graph.ty(op.result));
    let plan = op.plan.as_ref().map(|p| layout::plan_attribute(context, p));
    attributes.push(("plan", plan));
    let body = match &op.kind {
        OpKind::Repeat { body, .. } => Some(body),
        _ => None,
    };
    let built = New {
        operands,
        results,
        attributes: &attributes,
        body: body.is_some(),
    }
    .build(&format!("nn.{}", op.kind.name()), at, context)?;
    if let Some(body) = body {
        fill(context, body, ir::new_body(&built)?, "nn.yield", at)?;
    }
    Ok(built)
}

fn defined<'c, 'a>(
    values: &[Option<Value<'c, 'a>>],
    ids: &[ValueId],
    at: Location<'c>,
) -> Result<Vec<Value<'c, 'a>>, Failed> {
    let values = pick(values, ids, at)?;
    values
        .into_iter()
        .zip(ids)
        .map(|(value, id)| {
            let message = || {
                format!(
                    "internal error: value {} is used before its definition",
                    id.0
                )
            };
            value.ok_or_else(|| error_at(at, message()))
        })
        .collect()
}
