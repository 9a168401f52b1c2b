//! Operators on what a tile holds as supersteps.

use super::{Builder, TileError, error};
use crate::select_operators::plans::gemm::{Reduction, reduce_kernel};
use crate::select_operators::plans::local::{
    clear_kernel, clear_words, elementwise_kernel, flat_words, reduce_column_kernel,
    reduce_column_partial, reduce_column_words, reduce_row_kernel, reduce_row_words, row_kernel,
    row_scalars, row_words, spoils_padding,
};
use ipu_program::graph::{Activation, Op, ReduceKind};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::Plan;
use ipu_program::tile::BufferId;
use ipu_program::types::{ElementType, TensorType};

impl Builder<'_> {
    /// An operator on equal layouts, element by element.
    pub fn elementwise(&mut self, op: &Op, plan: &Plan) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let layouts = self.operand_layouts(op, plan)?;
        let read = self.graph.ty(op.operands[0]).element;
        let Some(kernel) = elementwise_kernel(&op.kind, read) else {
            return Err(error(op, "no kernel for it"));
        };
        let ty = self.graph.ty(op.result).clone();
        let operand = TensorType {
            element: read,
            ..ty.clone()
        };
        let mut named = Vec::new();
        for ((&v, l), name) in op.operands.iter().zip(layouts).zip(["a", "b"]) {
            named.push((name, Some(self.operand(op, v, l, operand.clone())?)));
        }
        let out = self.result(op, op.kind.name(), layout.clone());
        let step = format!("{}.step", self.program.buffer(out).name);
        // Operators of one operand call it x.
        if let [(_, only)] = named[..] {
            named.push(("x", only));
        }
        named.push(("out", Some(out)));
        let narrowest = if read == ty.element {
            read
        } else {
            ElementType::F16
        };
        let words = flat_words(&layout.storage(narrowest), narrowest);
        let shards = layout.shards(ty.matrix());
        let tiles: Vec<_> = shards.iter().map(|s| (s.tile, words.clone())).collect();
        self.compute(op, &step, &kernel, &named, tiles)?;
        if spoils_padding(&op.kind) {
            self.clear_padding(op, out)?;
        }
        Ok(())
    }

    /// Clears the columns of a buffer that pad its last panel.
    pub fn clear_padding(&mut self, op: &Op, out: BufferId) -> Result<(), TileError> {
        let buffer = self.program.buffer(out);
        let storage = buffer.layout.storage(buffer.ty.element);
        let ends: Vec<_> = buffer
            .layout
            .shards(buffer.ty.matrix())
            .iter()
            .map(|s| (s.tile, s.rows.len() as u32, s.columns.len() as u32))
            .filter(|(_, _, columns)| !columns.is_multiple_of(PANEL))
            .map(|(tile, rows, columns)| (tile, clear_words(rows, columns, &storage)))
            .collect();
        if ends.is_empty() {
            return Ok(());
        }
        let step = format!("{}.padding", buffer.name);
        let kernel = clear_kernel(buffer.ty.element);
        self.compute(op, &step, kernel, &[("out", Some(out))], ends)
    }

    /// An operator on whole rows, with vectors as further operands.
    pub fn rowwise(&mut self, op: &Op, plan: &Plan) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let layouts = self.operand_layouts(op, plan)?;
        let matrix = self.graph.ty(op.result).matrix();
        let scalars = row_scalars(&op.kind, matrix.columns);
        let element = self.graph.ty(op.result).element;
        let (from, to) = (layouts[0].storage(element), layout.storage(element));
        let words =
            |rows| row_words(rows, matrix.columns, &from, &to).with(scalars.iter().copied());
        let fullest = words(layout.rows.block);
        let Some((kernel, _)) = row_kernel(self.kernels, &op.kind, element, &fullest) else {
            return Err(error(op, "no kernel for it"));
        };
        let mut named = Vec::new();
        for ((&v, l), name) in op.operands.iter().zip(layouts).zip(["x", "scale", "bias"]) {
            let ty = self.graph.ty(v).clone();
            named.push((name, Some(self.operand(op, v, l, ty)?)));
        }
        let out = self.result(op, op.kind.name(), layout.clone());
        let step = format!("{}.step", self.program.buffer(out).name);
        named.push(("out", Some(out)));
        named.push(("scratch", self.row_scratch(op, kernel, &layout)));
        let shards = layout.shards(matrix).into_iter();
        let tiles: Vec<_> = shards
            .map(|s| (s.tile, words(s.rows.len() as u32)))
            .collect();
        self.compute(op, &step, kernel, &named, tiles)
    }

    /// What workers that share rows tell each other on the tiles of a layout, 64 bytes; `None`
    /// when the kernel needs nothing.
    fn row_scratch(&mut self, op: &Op, kernel: &str, layout: &Layout) -> Option<BufferId> {
        self.kernels.get(kernel)?.buffer("scratch")?;
        let parts = layout.rows.parts;
        let scratch = Layout {
            rows: Split::even(parts, parts, 1, layout.rows.stride),
            columns: Split::whole(16),
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
            ..layout.clone()
        };
        let ty = TensorType::new([parts, 16], ElementType::F32);
        let name = format!("{}.scratch", op.kind.name());
        Some(self.buffer(&name, ty, scratch, &op.location))
    }

    /// A reduction in normal form.
    pub fn reduce(&mut self, op: &Op, plan: &Plan, kind: ReduceKind) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let [lx] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let ty = self.graph.ty(op.operands[0]).clone();
        let x = self.operand(op, op.operands[0], lx, ty.clone())?;
        let element = ty.element;
        let from = lx.storage(element);
        let matrix = self.graph.ty(op.result).matrix();
        match *ty.shape.as_slice() {
            [_, n] => {
                let to = layout.storage(element);
                let tiles: Vec<_> = layout
                    .shards(matrix)
                    .into_iter()
                    .map(|s| {
                        let rows = s.rows.len() as u32;
                        (s.tile, reduce_row_words(kind, rows, n, &from, &to))
                    })
                    .collect();
                let out = self.result(op, op.kind.name(), layout.clone());
                let step = format!("{}.step", self.program.buffer(out).name);
                let named = [("x", Some(x)), ("out", Some(out))];
                self.compute(op, &step, &reduce_row_kernel(kind, element), &named, tiles)
            }
            [_, n, columns] if plan.grid_k > 1 => {
                let reduction =
                    Reduction::new(plan.grid_k, 1, columns, Split::whole(columns), &layout);
                let to = reduction.partial.storage(ElementType::F32);
                let tiles: Vec<_> = lx
                    .shards(ty.matrix())
                    .into_iter()
                    .map(|s| {
                        let rows = s.rows.len() as u32;
                        let words = reduce_column_words(kind, [1, rows, n], columns, &from, &to);
                        (s.tile, words)
                    })
                    .collect();
                let name = self.symbol(op.kind.name());
                let partial = self.buffer(
                    &format!("{name}.partial"),
                    reduction.partial_type.clone(),
                    reduction.partial.clone(),
                    &op.location,
                );
                let named = [("x", Some(x)), ("out", Some(partial))];
                let step = format!("{name}.step");
                let kernel = reduce_column_partial(element);
                self.compute(op, &step, kernel, &named, tiles)?;
                let kernel = reduce_kernel(element, false, Activation::None);
                self.add_partials(op, &name, &reduction, plan.grid_k, partial, None, &kernel)
            }
            [_, n, _] => {
                let to = layout.storage(element);
                let tiles: Vec<_> = layout
                    .shards(matrix)
                    .into_iter()
                    .map(|s| {
                        let (groups, columns) = (s.rows.len() as u32, s.columns.len() as u32);
                        let words = reduce_column_words(kind, [groups, n, n], columns, &from, &to);
                        (s.tile, words)
                    })
                    .collect();
                let out = self.result(op, op.kind.name(), layout.clone());
                let step = format!("{}.step", self.program.buffer(out).name);
                let named = [("x", Some(x)), ("out", Some(out))];
                let kernel = reduce_column_kernel(kind, element);
                self.compute(op, &step, &kernel, &named, tiles)
            }
            _ => Err(error(op, "its operand is not in normal form")),
        }
    }
}
