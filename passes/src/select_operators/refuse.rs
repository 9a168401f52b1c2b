//! What has no lowering, found before plans are searched, so that a user sees all of it at once.

use super::NoLowering;
use super::plans::Machine;
use super::plans::local::elementwise_kernel;
use ipu_program::graph::{Graph, Op, OpKind, ValueId};
use ipu_program::host::{self, HostValues};
use ipu_program::layout::PANEL;
use ipu_program::types::{ElementType, TensorType};
use std::collections::BTreeMap;

/// Parameters that are declared again with another type: no weights file can serve both.
pub fn parameters_of_two_types(graph: &Graph) -> Vec<NoLowering> {
    let mut known: BTreeMap<&str, &Op> = BTreeMap::new();
    let mut refused = Vec::new();
    for op in &graph.ops {
        let OpKind::Parameter { name } = &op.kind else {
            continue;
        };
        let first = *known.entry(name).or_insert(op);
        if graph.ty(first.result) != graph.ty(op.result) {
            refused.push(NoLowering {
                location: op.location.clone(),
                message: format!(
                    "parameter '{name}' is {} here and {} at {}",
                    graph.ty(op.result),
                    graph.ty(first.result),
                    first.location
                ),
            });
        }
    }
    refused
}

/// Tensors that all tiles together cannot hold. Whatever passes this has byte sizes and offsets
/// within 32 bits. What only the host reads is not on tiles.
pub fn oversized(graph: &Graph, machine: &Machine<'_>) -> Vec<NoLowering> {
    let tile = u64::from(machine.target.memory_end - machine.target.memory_base);
    let chip = tile * u64::from(machine.tiles);
    let bytes = |ty: &TensorType| {
        let m = ty.matrix();
        let columns = u64::from(m.columns).next_multiple_of(u64::from(PANEL));
        u64::from(m.rows)
            .saturating_mul(columns)
            .saturating_mul(u64::from(ty.element.bytes()))
    };
    let host = HostValues::of(graph);
    let mut read = host.read_by_program(graph);
    read.extend(host.steps_read_by_program(graph));
    read.sort_unstable();
    (0..graph.values.len() as u32)
        .map(ValueId)
        .filter(|v| !host.is_done(*v) || read.binary_search(v).is_ok())
        .filter(|v| !graph.inputs.contains(v) || !host.is_argument_of_host(graph, *v))
        .filter(|&v| bytes(graph.ty(v)) > chip)
        .map(|v| NoLowering {
            location: graph
                .definition(v)
                .map_or_else(String::new, |op| op.location.clone()),
            message: format!(
                "the model does not fit: {} needs {} bytes on tiles, {} tiles have {chip}{}",
                graph.ty(v),
                bytes(graph.ty(v)),
                machine.tiles,
                if machine.tiles < machine.target.tiles {
                    "; use more tiles"
                } else {
                    ""
                }
            ),
        })
        .collect()
}

/// Host values that take more tensors than the host holds.
pub fn host_functions(graph: &Graph) -> Vec<NoLowering> {
    let values = HostValues::of(graph);
    let mut read = values.read_by_program(graph);
    read.extend(values.steps_read_by_program(graph));
    let large = |&v: &ValueId| {
        let op = graph.definition(v)?;
        let recipe = host::recipe(graph, v).or_else(|| host::step_recipe(graph, v))?;
        let sizes = recipe.values.iter().map(|v| v.ty.elements());
        let elements = sizes.fold(0, u64::saturating_add);
        (elements > host::MAX_ELEMENTS).then(|| NoLowering {
            location: op.location.clone(),
            message: format!(
                "'nn.{}' is computed by the host of tensors of {elements} elements, it holds {}: \
                 give parameters as the model reads them",
                op.kind.name(),
                host::MAX_ELEMENTS
            ),
        })
    };
    read.iter().filter_map(large).collect()
}

/// Everything in a graph that has no lowering.
pub fn operators(graph: &Graph, machine: &Machine<'_>) -> Vec<NoLowering> {
    let host = HostValues::of(graph);
    graph
        .ops
        .iter()
        .filter(|op| !host.is_done(op.result))
        .filter_map(|op| {
            refusal(graph, machine, op).map(|message| NoLowering {
                location: op.location.clone(),
                message,
            })
        })
        .collect()
}

/// Why an operator cannot be lowered, `None` when it can.
fn refusal(graph: &Graph, machine: &Machine<'_>, op: &Op) -> Option<String> {
    let name = op.kind.name();
    let of_integers = |&&v: &&ValueId| graph.ty(v).element == ElementType::I32;
    if !matches!(op.kind, OpKind::Gather { .. })
        && let Some(&v) = op.operands.iter().chain([&op.result]).find(of_integers)
    {
        return Some(format!(
            "'nn.{name}' on {} has no lowering: tiles compute with f16 and f32, declare the \
             model's tensors as one of them",
            graph.ty(v)
        ));
    }
    let ty = |i: usize| op.operands.get(i).map(|&v| graph.ty(v));
    match &op.kind {
        OpKind::Gather { .. } => Some(
            "'nn.gather' on computed operands has no lowering to tiles: the host looks up what it \
             has, arguments and parameters by indices of an argument"
                .to_owned(),
        ),
        OpKind::Conv2d { .. } => Some(format!(
            "'nn.conv2d' of {} by {} has no lowering: only convolutions whose patches do not \
             overlap or skip pixels (strides equal to the kernel, no padding, dilation or groups, \
             weight known before the run) are products of patches",
            ty(0)?,
            ty(1)?
        )),
        OpKind::Linear { .. } => op
            .operands
            .get(2)
            .filter(|&&v| graph.ty(v).matrix().rows != 1)
            .map(|&v| {
                format!(
                    "'nn.linear' with a bias of {} has no lowering: a bias is one row, add \
                         other tensors by 'nn.add'",
                    graph.ty(v)
                )
            }),
        OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => op.operands[1..]
            .iter()
            .find(|&&v| graph.ty(v).matrix().rows != 1)
            .map(|&v| {
                format!(
                    "'nn.{name}' with a vector of {} has no lowering: scale and bias are one row",
                    graph.ty(v)
                )
            }),
        OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast => {
            let element = ty(0)?.element;
            let kernel = elementwise_kernel(&op.kind, element);
            let known = kernel.is_some_and(|k| machine.kernels.get(&k).is_some());
            (!known).then(|| {
                format!(
                    "'nn.{name}' on {} has no lowering to tiles: no kernel for it",
                    graph.ty(op.operands[0])
                )
            })
        }
        _ => None,
    }
}
