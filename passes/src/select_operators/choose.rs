//! Fixes a plan for every operator, in program order.

use super::plans::{
    self, Candidate, Machine, Objective, attention, batched, gemm, linear_grid, local, moves,
};
use super::views::{Views, is_view};
use super::{Finalist, NoLowering, SelectError};
use ipu_program::graph::{Activation, Graph, Op, OpKind, ValueId};
use ipu_program::host::HostValues;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::Family;
use ipu_program::types::{ElementType, TensorType};
use std::collections::BTreeMap;

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
    linear_grid::linear(machine, extents, units, types.len() > 2, activation)
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

/// Fixes a plan for every operator under one objective.
///
/// # Errors
/// Operators without a plan, or whose every plan needs more memory than a tile has.
pub fn choose(
    graph: &Graph,
    machine: &Machine<'_>,
    objective: Objective,
) -> Result<Finalist, SelectError> {
    let mut c = Chooser {
        views: Views::of(graph),
        host: HostValues::of(graph),
        graph: graph.clone(),
        machine,
        objective,
        layouts: BTreeMap::new(),
        arrived: BTreeMap::new(),
        refused: Vec::new(),
        total: 0,
    };
    for i in 0..graph.ops.len() {
        c.operator(i);
    }
    if !c.refused.is_empty() {
        return Err(SelectError::NoLowering(c.refused));
    }
    for &input in &graph.inputs {
        let matrix = graph.ty(input).matrix();
        c.layouts
            .entry(input)
            .or_insert_with(|| plans::spread(machine.tiles, matrix, ElementOrder::Rows));
    }
    for (v, layout) in c.layouts {
        c.graph.values[v.0 as usize].layout = Some(layout);
    }
    Ok(Finalist {
        graph: c.graph,
        objective,
        estimated_cycles: c.total,
    })
}

struct Chooser<'a> {
    graph: Graph,
    views: Views,
    host: HostValues,
    machine: &'a Machine<'a>,
    objective: Objective,
    /// Layouts of the values that are stored.
    layouts: BTreeMap<ValueId, Layout>,
    /// Layouts that values have been brought to for operators so far.
    arrived: BTreeMap<ValueId, Vec<Layout>>,
    refused: Vec<NoLowering>,
    total: u64,
}

impl Chooser<'_> {
    fn operator(&mut self, i: usize) {
        let op = self.graph.ops[i].clone();
        if self.host.contains(op.result) || self.views.is_virtual(op.result) {
            return;
        }
        let mut candidates = self.candidates(&op);
        // What no tile can hold is no plan; addresses stay within 32 bits from here on.
        let target = self.machine.target;
        let memory = u64::from(target.memory_end - target.memory_base);
        let smallest = candidates.iter().map(|c| c.bytes).min();
        candidates.retain(|c| c.bytes <= memory);
        if let (true, Some(needed)) = (candidates.is_empty(), smallest) {
            let message = format!(
                "the model does not fit: every plan of 'nn.{}' on {} tiles needs {needed} bytes \
                 or more on a tile, which has {memory}; {}",
                op.kind.name(),
                self.machine.tiles,
                if self.machine.tiles < target.tiles {
                    "use more tiles"
                } else {
                    "use narrower layers: a tile holds all rows of its 16 or more columns of a \
                     weight"
                }
            );
            self.refuse(&op, message);
            return;
        }
        let count = candidates.len() as u32;
        let rows_wanted = self.rows_wanted(op.result);
        let priced = candidates.into_iter().map(|mut c| {
            c.plan.candidates = count;
            c.plan.exchange_cycles += op
                .operands
                .iter()
                .zip(&c.plan.operands)
                .map(|(&v, to)| self.move_cycles(v, to, self.operand_type(&op, v)))
                .sum::<u64>();
            let mut ahead = 0;
            if rows_wanted && c.result.columns.parts > 1 {
                let ty = self.graph.ty(op.result);
                let whole = Layout {
                    columns: Split::whole(ty.matrix().columns),
                    ..c.result.clone()
                };
                ahead = moves::exchange(self.machine, &c.result, &whole, ty);
            }
            (c, ahead)
        });
        let key = |(c, ahead): &(Candidate, u64)| {
            let (compute, exchange) = (c.plan.compute_cycles, c.plan.exchange_cycles + ahead);
            match self.objective {
                Objective::Cycles => (compute + exchange, 0),
                Objective::LessExchange => (compute + 2 * exchange, 0),
                Objective::LessCompute => (2 * compute + exchange, 0),
                Objective::Bytes => (c.bytes, compute + exchange),
            }
        };
        let Some((best, _)) = priced.min_by_key(key) else {
            self.refuse(
                &op,
                format!("'nn.{}' has no lowering to tiles", op.kind.name()),
            );
            return;
        };
        self.total += best.plan.compute_cycles + best.plan.exchange_cycles;
        for (&v, to) in op.operands.iter().zip(&best.plan.operands) {
            self.arrive(v, to);
        }
        self.layouts.insert(op.result, best.result);
        self.graph.ops[i].plan = Some(best.plan);
    }

    fn refuse(&mut self, op: &Op, message: String) {
        self.refused.push(NoLowering {
            location: op.location.clone(),
            message,
        });
    }

    /// The type in which an operand reaches the kernel: elementwise operands of the host are
    /// broadcast as they are bound.
    fn operand_type<'a>(&'a self, op: &Op, v: ValueId) -> &'a TensorType {
        match op.kind {
            OpKind::Binary(_) => self.graph.ty(op.result),
            _ => self.graph.ty(v),
        }
    }

    fn candidates(&self, op: &Op) -> Vec<Candidate> {
        let machine = self.machine;
        let types: Vec<TensorType> = op
            .operands
            .iter()
            .map(|&v| self.graph.ty(v).clone())
            .collect();
        let result = self.graph.ty(op.result);
        let at = op.operands.first().and_then(|v| self.layouts.get(v));
        match (&op.kind, types.as_slice()) {
            (OpKind::Linear { activation }, types) => {
                let mut plans = linear(machine, types, result.element, *activation);
                if result.element == ElementType::F16 {
                    let units = column_units(&self.graph, op.result);
                    plans.extend(grid_linear(machine, types, &units, *activation));
                }
                plans
            }
            (OpKind::Matmul { transpose_b, .. }, [a, b]) => {
                let ([.., m, k], [.., rows, columns]) = (a.shape.as_slice(), b.shape.as_slice())
                else {
                    return Vec::new();
                };
                let n = if *transpose_b { rows } else { columns };
                let matrices = a.matrix().rows / m;
                batched::product(
                    machine,
                    a.element,
                    matrices,
                    [*m, *k, *n],
                    *transpose_b,
                    self.together(op.operands[0], matrices),
                )
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
                let unit = self.together(op.operands[0], n);
                let softmax = softmax_kernel(*causal, q.element);
                let mut plans = batched::attention(machine, q.element, n, &shape, unit, softmax);
                if !causal && q.element == ElementType::F16 {
                    plans.extend(attention::plans(machine, n, &shape));
                }
                plans
            }
            (
                OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. },
                [x, ..],
            ) => {
                let vectors = types.len() - 1;
                let of = (x.element, x.matrix());
                local::rowwise(machine, &op.kind, of, vectors, &units(x), at)
            }
            (OpKind::Reduce { kind, .. }, [x]) => match *x.shape.as_slice() {
                [rows, n] => local::reduce_rows(machine, *kind, x.element, [rows, n], &[1]),
                [groups, n, columns] => {
                    local::reduce_columns(machine, *kind, x.element, [groups, n, columns])
                }
                _ => Vec::new(),
            },
            (OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast, [x, ..]) => {
                let element = [x.element, result.element];
                let columns = result.matrix().columns;
                self.elementwise_layouts(op)
                    .iter()
                    .filter_map(|layout| {
                        let operands = types.len();
                        local::elementwise(machine, &op.kind, element, operands, columns, layout)
                    })
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

    /// How many matrices of a batch came from one: the heads of an image stay with it.
    fn together(&self, v: ValueId, matrices: u32) -> u32 {
        match self.graph.definition(v).map(|op| &op.kind) {
            Some(OpKind::SplitHeads { heads }) if matrices.is_multiple_of(*heads) => *heads,
            _ => 1,
        }
    }

    /// Layouts for an elementwise operator: those of its operands, and some of their own.
    fn elementwise_layouts(&self, op: &Op) -> Vec<Layout> {
        let ty = self.graph.ty(op.result);
        let mut out: Vec<Layout> = Vec::new();
        for v in &op.operands {
            if self.graph.ty(*v).matrix() == ty.matrix()
                && let Some(l) = self.layouts.get(v).filter(|l| l.copies == 1)
            {
                let l = Layout {
                    memory: MemoryClass::Any,
                    ..l.clone()
                };
                if !out.contains(&l) {
                    out.push(l);
                }
            }
        }
        for l in local::spreads(self.machine, ty.matrix(), &units(ty)) {
            if !out.contains(&l) {
                out.push(l);
            }
        }
        out
    }

    /// Estimated cycles to bring a value to a layout.
    fn move_cycles(&self, v: ValueId, to: &Layout, to_ty: &TensorType) -> u64 {
        if self.host.contains(v) {
            return 0;
        }
        if let Some(list) = self.arrived.get(&v)
            && list.iter().any(|l| plans::same_places(l, to))
        {
            return 0;
        }
        let viewed = self.views.viewed(&self.graph, v);
        let base_ty = self.graph.ty(viewed.base);
        let whole = viewed.base == v;
        match self.layouts.get(&viewed.base) {
            Some(from) if whole => moves::exchange(self.machine, from, to, base_ty),
            Some(from) => {
                let view = viewed.strided.to_whole();
                moves::viewed(self.machine, (from, base_ty), &view, (to, to_ty))
            }
            None if whole => {
                let from = plans::arrival(to, base_ty.matrix());
                moves::exchange(self.machine, &from, to, base_ty)
            }
            None => {
                let from = self.arrival(viewed.base, v, to);
                let view = viewed.strided.to_whole();
                moves::viewed(self.machine, (&from, base_ty), &view, (to, to_ty))
            }
        }
    }

    /// The layout in which an argument arrives of which an operator reads a view in `to`: the
    /// pieces of its first axis on the tiles that read them, where both have that axis.
    fn arrival(&self, input: ValueId, v: ValueId, to: &Layout) -> Layout {
        let (base, ty) = (self.graph.ty(input), self.graph.ty(v));
        let matrix = base.matrix();
        let first = |t: &TensorType| t.shape.first().copied().unwrap_or(1);
        let images = first(base);
        let whole = to.rows.period == 0
            && to.columns.parts == 1
            && images > 1
            && ty.matrix().rows.is_multiple_of(images)
            && to.rows.unit.is_multiple_of(ty.matrix().rows / images);
        if !whole {
            return plans::spread(self.machine.tiles, matrix, ElementOrder::Rows);
        }
        let unit = matrix.rows / images * (to.rows.unit / (ty.matrix().rows / images));
        Layout {
            rows: Split::even(matrix.rows, to.rows.parts, unit, to.rows.stride),
            columns: Split::whole(matrix.columns),
            copies: 1,
            copy_stride: 0,
            first_tile: to.first_tile,
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
        }
    }

    /// Records that an operator reads a value in a layout.
    fn arrive(&mut self, v: ValueId, to: &Layout) {
        if self.host.contains(v) {
            return;
        }
        let base = self.views.viewed(&self.graph, v).base;
        if !self.layouts.contains_key(&base) {
            let layout = if base == v {
                plans::arrival(to, self.graph.ty(v).matrix())
            } else {
                self.arrival(base, v, to)
            };
            self.layouts.insert(base, layout);
        }
        self.arrived.entry(v).or_default().push(to.clone());
    }

    /// Whether some user of a value, through elementwise operators, works on whole rows.
    fn rows_wanted(&self, v: ValueId) -> bool {
        let mut seen = vec![v];
        let mut i = 0;
        while let Some(&v) = seen.get(i) {
            i += 1;
            for op in self.graph.ops.iter().filter(|op| op.operands.contains(&v)) {
                match op.kind {
                    OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => {
                        return true;
                    }
                    OpKind::Binary(_) | OpKind::Unary(_) if !seen.contains(&op.result) => {
                        seen.push(op.result);
                    }
                    _ => {}
                }
            }
        }
        false
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
