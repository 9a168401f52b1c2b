//! The plans of an operator: those that stand for themselves, and those that follow a layout in
//! which an operand already is.

use crate::select_operators::plans::parts::Parts;
use crate::select_operators::plans::{
    Candidate, Machine, attention, batched, gemm, linear_grid, local,
};
use crate::select_operators::views::is_view;
use ipu_program::graph::{Activation, Graph, Op, OpKind, ValueId};
use ipu_program::layout::{Layout, MemoryClass, PANEL};
use ipu_program::plan::{Family, Plan};
use ipu_program::types::{ElementType, TensorType};

/// The plans of a linear operator by the types of its operands and the element type of its result.
pub fn linear(
    machine: &Machine<'_>,
    types: &[TensorType],
    result: ElementType,
    activation: Activation,
) -> Vec<Candidate> {
    let [x, w, ..] = types else { return Vec::new() };
    let (left, right) = (x.matrix(), w.matrix());
    if left.columns != right.rows || types.iter().any(|t| t.element != x.element) {
        return Vec::new();
    }
    let extents = [left.rows, left.columns, right.columns];
    let bias = types.len() > 2;
    let elements = [x.element, result];
    gemm::linear(machine, elements, extents, &units(x), bias, activation)
}

/// The plans of a linear operator in which several tiles share the contraction and the rows.
/// Column parts are whole units of those given, see [`column_units`].
pub fn grid_linear(
    machine: &Machine<'_>,
    types: &[TensorType],
    units: &[u32],
    activation: Activation,
) -> Vec<Candidate> {
    let [x, w, ..] = types else { return Vec::new() };
    let (left, right) = (x.matrix(), w.matrix());
    if left.columns != right.rows || types.iter().any(|t| t.element != ElementType::F16) {
        return Vec::new();
    }
    let extents = [left.rows, left.columns, right.columns];
    let bias = types.len() > 2;
    linear_grid::linear(machine, extents, units, bias, activation)
}

/// The columns of a value that may want to stay together: a panel, or those of a head where it is
/// divided into heads that are no whole panels.
pub fn column_units(graph: &Graph, v: ValueId) -> Vec<u32> {
    let mut units = vec![PANEL];
    let mut seen = vec![v];
    let mut i = 0;
    while let Some(&v) = seen.get(i) {
        i += 1;
        for op in graph.ops.iter().filter(|op| op.operands.contains(&v)) {
            match op.kind {
                OpKind::SplitHeads { .. } => {
                    let width = graph.ty(op.result).matrix().columns;
                    let columns = graph.ty(seen[0]).matrix().columns;
                    let aligned = width.is_multiple_of(PANEL) || !columns.is_multiple_of(width);
                    if !aligned && !units.contains(&width) {
                        units.push(width);
                    }
                }
                OpKind::Slice { .. } | OpKind::Reshape if !seen.contains(&op.result) => {
                    seen.push(op.result);
                }
                _ => {}
            }
        }
    }
    units
}

/// The rows that may want to stay together: one, or those of a matrix of the batch.
fn units(ty: &TensorType) -> Vec<u32> {
    match ty.shape.as_slice() {
        [lead @ .., rows, _] if lead.iter().any(|&n| n > 1) && *rows > 1 => vec![1, *rows],
        _ => vec![1],
    }
}

/// The softmax kernel of attention.
pub fn softmax_kernel(causal: bool, element: ElementType) -> &'static str {
    match (causal, element) {
        (true, ElementType::F32) => "softmax_causal_f32",
        (false, ElementType::F32) => "softmax_f32",
        (true, _) => "softmax_causal_f16",
        (false, _) => "softmax_f16",
    }
}

fn operand_types(graph: &Graph, op: &Op) -> Vec<TensorType> {
    op.operands.iter().map(|&v| graph.ty(v).clone()).collect()
}

/// What plans take from the operators around one.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The heads that a batch of matrices came from, which stay together.
    pub heads: Option<u32>,
    /// Columns that may want to stay together, see [`column_units`].
    pub columns: &'a [u32],
}

impl Around<'_> {
    /// Nothing: no plan of the operator takes fewer compute cycles in other surroundings.
    pub const NOTHING: Around<'static> = Around {
        heads: None,
        columns: &[PANEL],
    };

    /// How many of `matrices` of a batch came from one.
    fn unit(&self, matrices: u32) -> u32 {
        let whole = |h: &u32| matrices.is_multiple_of(*h);
        self.heads.filter(whole).unwrap_or(1)
    }
}

/// The plans that do not depend on where operands are.
pub fn plans(graph: &Graph, machine: &Machine<'_>, op: &Op) -> Vec<Candidate> {
    let types = operand_types(graph, op);
    let around = Around {
        heads: heads(graph, op),
        columns: &column_units(graph, op.result),
    };
    standing(machine, &op.kind, &types, graph.ty(op.result), &around)
}

/// The plans of an operator by its kind and types.
pub fn standing(
    machine: &Machine<'_>,
    kind: &OpKind,
    types: &[TensorType],
    result: &TensorType,
    around: &Around<'_>,
) -> Vec<Candidate> {
    match (kind, types) {
        (OpKind::Linear { activation }, types) => {
            let mut plans = linear(machine, types, result.element, *activation);
            if result.element == ElementType::F16 {
                plans.extend(grid_linear(machine, types, around.columns, *activation));
            }
            plans
        }
        (OpKind::Matmul { transpose_b, .. }, [a, b]) => {
            let ([.., m, k], [.., rows, columns]) = (a.shape.as_slice(), b.shape.as_slice()) else {
                return Vec::new();
            };
            let n = if *transpose_b { rows } else { columns };
            let matrices = a.matrix().rows / (*m).max(1);
            let unit = around.unit(matrices);
            let extents = [*m, *k, *n];
            batched::product(machine, a.element, matrices, extents, *transpose_b, unit)
        }
        (OpKind::Attention { causal, .. }, [q, ..]) => {
            let Some((n, shape)) = batched::Attention::of(types) else {
                return Vec::new();
            };
            let unit = around.unit(n);
            let softmax = softmax_kernel(*causal, q.element);
            let mut plans = batched::attention(machine, q.element, n, &shape, unit, softmax);
            if !causal && q.element == ElementType::F16 {
                plans.extend(attention::plans(machine, n, &shape));
            }
            plans
        }
        (OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. }, [x, ..]) => {
            let vectors = types.len() - 1;
            let of = (x.element, x.matrix());
            local::rowwise(machine, kind, of, vectors, &units(x), None)
        }
        (OpKind::Reduce { kind, .. }, [x]) => match *x.shape.as_slice() {
            [rows, n] => local::reduce_rows(machine, *kind, x.element, [rows, n], &[1]),
            [groups, n, columns] => {
                local::reduce_columns(machine, *kind, x.element, [groups, n, columns])
            }
            _ => Vec::new(),
        },
        (OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast, _) => {
            let layouts = local::spreads(machine, result.matrix(), &units(result));
            let at = |l: &Layout| elementwise(machine, kind, types, result, l);
            layouts.iter().filter_map(at).collect()
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
        OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast => {
            let types = operand_types(graph, op);
            elementwise(machine, &op.kind, &types, graph.ty(op.result), &at)
        }
        OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => {
            if at.columns.parts != 1 {
                return None;
            }
            let vectors = op.operands.len() - 1;
            let of = (graph.ty(op.result).element, matrix);
            local::rowwise(machine, &op.kind, of, vectors, &[], Some(&at)).pop()
        }
        _ => None,
    }
}

fn elementwise(
    machine: &Machine<'_>,
    kind: &OpKind,
    types: &[TensorType],
    result: &TensorType,
    layout: &Layout,
) -> Option<Candidate> {
    let element = [types.first()?.element, result.element];
    let columns = result.matrix().columns;
    local::elementwise(machine, kind, element, types.len(), columns, layout)
}

/// The heads of which the first operand is made: those of an image stay with it.
pub fn heads(graph: &Graph, op: &Op) -> Option<u32> {
    let first = op.operands.first().and_then(|&v| graph.definition(v));
    match first?.kind {
        OpKind::SplitHeads { heads } => Some(heads),
        _ => None,
    }
}

/// The parts of a plan on a grid that a scatter brings to where they are added, `None` for other
/// plans.
pub fn parts(graph: &Graph, op: &Op, plan: &Plan, result: &Layout) -> Option<Parts> {
    if plan.grid_k == 1 {
        return None;
    }
    match (&op.kind, plan.operands.as_slice()) {
        (OpKind::Linear { .. }, _) if linear_grid::is_grid(plan) => {
            linear_grid::parts(plan, graph.ty(op.result).matrix().rows, result)
        }
        (OpKind::Attention { .. }, [q, k, _]) => {
            let (n, a) = batched::Attention::of(&operand_types(graph, op))?;
            Some(attention::Spread::new(n, &a, [q, k, result], plan.partials).parts)
        }
        _ => None,
    }
}
