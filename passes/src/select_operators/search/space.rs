//! The plans of an operator: those that stand for themselves, and those that follow a layout in
//! which an operand already is.

use crate::select_operators::plans::{Candidate, Machine, batched, gemm, local};
use crate::select_operators::views::is_view;
use ipu_program::graph::{Activation, Graph, Op, OpKind, ValueId};
use ipu_program::layout::{Layout, MemoryClass};
use ipu_program::plan::Family;
use ipu_program::types::{ElementType, TensorType};

/// The plans of a linear operator by the types of its operands.
pub fn linear(
    machine: &Machine<'_>,
    types: &[TensorType],
    activation: Activation,
) -> Vec<Candidate> {
    let [x, w, ..] = types else { return Vec::new() };
    let (left, right) = (x.matrix(), w.matrix());
    if left.columns != right.rows || types.iter().any(|t| t.element != ElementType::F16) {
        return Vec::new();
    }
    let extents = [left.rows, left.columns, right.columns];
    gemm::linear(machine, extents, &units(x), types.len() > 2, activation)
}

/// The rows that may want to stay together: one, or those of a matrix of the batch.
fn units(ty: &TensorType) -> Vec<u32> {
    match ty.shape.as_slice() {
        [lead @ .., rows, _] if lead.iter().any(|&n| n > 1) && *rows > 1 => vec![1, *rows],
        _ => vec![1],
    }
}

/// The softmax kernel of attention.
pub fn softmax_kernel(causal: bool) -> &'static str {
    if causal {
        "softmax_causal_f16"
    } else {
        "softmax_f16"
    }
}

fn operand_types(graph: &Graph, op: &Op) -> Vec<TensorType> {
    op.operands.iter().map(|&v| graph.ty(v).clone()).collect()
}

/// The plans that do not depend on where operands are.
pub fn plans(graph: &Graph, machine: &Machine<'_>, op: &Op) -> Vec<Candidate> {
    let types = operand_types(graph, op);
    let result = graph.ty(op.result);
    match (&op.kind, types.as_slice()) {
        (OpKind::Linear { activation }, types) => linear(machine, types, *activation),
        (OpKind::Matmul { transpose_b, .. }, [a, b]) => {
            let ([.., m, k], [.., rows, columns]) = (a.shape.as_slice(), b.shape.as_slice()) else {
                return Vec::new();
            };
            let n = if *transpose_b { rows } else { columns };
            let matrices = a.matrix().rows / (*m).max(1);
            let unit = together(graph, op, matrices);
            batched::product(machine, matrices, [*m, *k, *n], *transpose_b, unit)
        }
        (OpKind::Attention { causal, .. }, [q, k, v]) => {
            let (&[n, queries, depth], &[_, keys, _], &[_, _, width]) =
                (q.shape.as_slice(), k.shape.as_slice(), v.shape.as_slice())
            else {
                return Vec::new();
            };
            let shape = batched::Attention {
                queries,
                keys,
                depth,
                width,
            };
            let unit = together(graph, op, n);
            batched::attention(machine, n, &shape, unit, softmax_kernel(*causal))
        }
        (OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. }, [x, ..]) => {
            let vectors = types.len() - 1;
            local::rowwise(machine, &op.kind, x.matrix(), vectors, &units(x), None)
        }
        (OpKind::Reduce { kind, .. }, [x]) => match *x.shape.as_slice() {
            [rows, n] => local::reduce_rows(machine, *kind, [rows, n], &[1]),
            [groups, n, columns] => local::reduce_columns(machine, *kind, [groups, n, columns]),
            _ => Vec::new(),
        },
        (OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast, _) => {
            let layouts = local::spreads(machine, result.matrix(), &units(result));
            layouts
                .iter()
                .filter_map(|l| elementwise(graph, machine, op, l))
                .collect()
        }
        (kind, _) if is_view(kind) || matches!(kind, OpKind::Concat { .. }) => {
            local::spreads(machine, result.matrix(), &[1])
                .into_iter()
                .map(|layout| {
                    let bytes = u64::from(layout.storage(result.element).bytes()) * 2;
                    let element = result.element;
                    Candidate::new(Family::View, Vec::new(), layout, element, 0, bytes)
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Whether plans that follow the layout of an operand exist for an operator.
pub fn follows(kind: &OpKind, operand: usize) -> bool {
    match kind {
        OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast => true,
        OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => operand == 0,
        _ => false,
    }
}

/// The plan in which the result is where an operand of the same matrix is, `None` when the
/// operator cannot work there.
pub fn following(
    graph: &Graph,
    machine: &Machine<'_>,
    op: &Op,
    operand: ValueId,
    at: &Layout,
) -> Option<Candidate> {
    let matrix = graph.ty(op.result).matrix();
    if at.copies != 1 || graph.ty(operand).matrix() != matrix {
        return None;
    }
    let at = Layout {
        memory: MemoryClass::Any,
        ..at.clone()
    };
    match &op.kind {
        OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast => elementwise(graph, machine, op, &at),
        OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => {
            if at.columns.parts != 1 {
                return None;
            }
            let vectors = op.operands.len() - 1;
            local::rowwise(machine, &op.kind, matrix, vectors, &[], Some(&at)).pop()
        }
        _ => None,
    }
}

fn elementwise(
    graph: &Graph,
    machine: &Machine<'_>,
    op: &Op,
    layout: &Layout,
) -> Option<Candidate> {
    let result = graph.ty(op.result);
    let read = graph.ty(*op.operands.first()?).element;
    let columns = result.matrix().columns;
    let element = [read, result.element];
    local::elementwise(
        machine,
        &op.kind,
        element,
        op.operands.len(),
        columns,
        layout,
    )
}

/// How many matrices of a batch came from one: the heads of an image stay with it.
pub fn together(graph: &Graph, op: &Op, matrices: u32) -> u32 {
    let first = op.operands.first().and_then(|&v| graph.definition(v));
    match first.map(|op| &op.kind) {
        Some(OpKind::SplitHeads { heads }) if matrices.is_multiple_of(*heads) => *heads,
        _ => 1,
    }
}
