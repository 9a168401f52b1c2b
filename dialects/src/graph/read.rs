//! From `func.func` to [`Graph`].

use super::{kind, read_type};
use crate::diag::{Failed, Span, emit_error};
use crate::ir;
use crate::layout;
use ipu_program::graph::{Graph, Op, OpKind, Value as GraphValue, ValueId};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockRef, OperationRef, Value, ValueLike};
use std::collections::BTreeMap;

/// Reads a `func.func` of `nn` operations. Everything that cannot be read is reported, each
/// thing at its own location. The graph of a repeat's body has no name.
///
/// # Errors
/// Diagnostics were emitted: no body, operations of other dialects, types that are not ours.
pub fn read(func: OperationRef<'_, '_>) -> Result<Graph, Failed> {
    let name = ir::string(func, "sym_name").unwrap_or_default();
    let Some(block) = ir::body(func) else {
        return Err(emit_error(func, "has no body"));
    };
    graph(func, block, name)
}

/// The graph of a block of `parent`.
fn graph(
    parent: OperationRef<'_, '_>,
    block: BlockRef<'_, '_>,
    name: &str,
) -> Result<Graph, Failed> {
    let mut reader = Reader {
        graph: Graph {
            name: name.to_owned(),
            ..Graph::default()
        },
        ids: BTreeMap::new(),
        failed: None,
    };
    for i in 0..block.argument_count() {
        let Ok(argument) = block.argument(i) else {
            continue;
        };
        let argument = argument.into();
        if let Err(e) = reader
            .value(argument)
            .map(|id| reader.graph.inputs.push(id))
        {
            reader.failed = Some(emit_error(parent, format!("argument {i}: {e}")));
        }
    }
    for op in ir::block_ops(block) {
        if let Err(e) = reader.op(op) {
            reader.failed = Some(emit_error(op, e));
        }
    }
    reader.failed.map_or(Ok(reader.graph), Err)
}

struct Reader {
    graph: Graph,
    /// By address of the value.
    ids: BTreeMap<usize, ValueId>,
    failed: Option<Failed>,
}

impl Reader {
    /// Adds a value.
    fn value(&mut self, value: Value<'_, '_>) -> Result<ValueId, String> {
        let (ty, layout) = read_type(value.r#type())?;
        let id = ValueId(self.graph.values.len() as u32);
        self.graph.values.push(GraphValue { ty, layout });
        self.ids.insert(value.to_raw().ptr as usize, id);
        Ok(id)
    }

    fn op(&mut self, op: OperationRef<'_, '_>) -> Result<(), String> {
        // What an operation with an error defines is unknown; its users need no second error.
        let known: Vec<_> = op
            .operands()
            .filter_map(|v| self.ids.get(&(v.to_raw().ptr as usize)).copied())
            .collect();
        let name = ir::name(op);
        if matches!(name.as_str(), "func.return" | "nn.yield") {
            self.graph.outputs = known;
            return Ok(());
        }
        let plan = match op.attribute("plan") {
            Err(_) => None,
            Ok(a) => Some(
                layout::read_plan(a)
                    .ok_or_else(|| format!("has a plan that is not an #ipu.plan: {a}"))?,
            ),
        };
        let mut kind = kind::read(op, name.strip_prefix("nn.").unwrap_or_default())?;
        if let OpKind::Repeat { body, .. } = &mut kind {
            let block = ir::body(op).ok_or("has no body")?;
            match graph(op, block, "") {
                Ok(read) => **body = read,
                // Reported; its results are known nevertheless.
                Err(failed) => self.failed = Some(failed),
            }
        }
        let mut results = Vec::new();
        for result in op.results() {
            let id = self.value(result.into());
            results.push(id.map_err(|e| format!("result: {e}"))?);
        }
        let [result, more_results @ ..] = &results[..] else {
            return Err("has no result".into());
        };
        if known.len() == op.operand_count() {
            let mut places = Span::all(op.location()).into_iter();
            let location = places.next().map(|p| p.to_string()).unwrap_or_default();
            self.graph.ops.push(Op {
                kind,
                operands: known,
                result: *result,
                more_results: more_results.to_vec(),
                plan,
                location,
                fused: places.map(|p| p.to_string()).collect(),
                rules: Span::notes(op.location()),
            });
        } else if self.failed.is_none() {
            return Err("uses a value that is not defined in this function".into());
        }
        Ok(())
    }
}
