//! Products with weights, products of batches and attention as supersteps.

use super::{Builder, TileError, error};
use crate::select_operators::plans;
use crate::select_operators::plans::batched::{
    self, Pack, Product, TRANSPOSE_KERNEL, pack_kernel, packed, result_memory, transpose_words,
};
use crate::select_operators::plans::gemm::{self, PARTIAL_KERNEL, Reduction};
use crate::select_operators::plans::local::{flat_words, row_words};
use crate::select_operators::plans::moves::partial_view;
use crate::select_operators::softmax_kernel;
use ipu_program::graph::{Activation, Op};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Shard, Split};
use ipu_program::plan::Plan;
use ipu_program::tile::BufferId;
use ipu_program::types::{ElementType, Matrix, TensorType};

impl Builder<'_> {
    /// A linear operator whose tiles work through the whole contraction.
    pub fn linear(
        &mut self,
        op: &Op,
        plan: &Plan,
        activation: Activation,
    ) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let &[ref lx, ref lw, ref lb @ ..] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let (read, written) = (
            self.graph.ty(op.operands[0]).element,
            self.graph.ty(op.result).element,
        );
        if read != written {
            return self.widening_linear(op, plan, activation);
        }
        let (tx, tw) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
        let mut blocks = self.blocks(op, plan, [lx, lw], [tx, tw])?;
        let steps = blocks.steps.len();
        // Relu comes with the last step.
        let early = match steps {
            1 => activation,
            _ => Activation::None,
        };
        let kernel = match read {
            ElementType::F32 => gemm::single_kernel(!lb.is_empty(), early),
            _ => gemm::kernel(plan.partials, !lb.is_empty(), early),
        };
        let matrix = self.graph.ty(op.result).matrix();
        // The bias enters the accumulators, in their precision.
        let b = match lb.first() {
            None => None,
            Some(lb) => {
                // One row, in the rank of the bias: that is what its data broadcasts to.
                let rank = self.graph.ty(op.operands[2]).shape.len().max(1);
                let mut shape = vec![1; rank];
                if let Some(last) = shape.last_mut() {
                    *last = matrix.columns;
                }
                let shape = TensorType::new(shape, plan.partials);
                Some(self.operand(op, op.operands[2], lb, shape)?)
            }
        };
        let name = self.weight_name(op);
        let out = self.result(op, &name, layout.clone());
        let acc = self.accumulators(op, &kernel, &name, &layout, layout.rows.block);
        let to = layout.storage(written);
        for step in 0..steps {
            let block = self.bring(op, &name, &mut blocks, step)?;
            let from = block.left.1.storage(read);
            let tiles = layout.shards(matrix).into_iter().map(|s| {
                let (rows, columns) = (s.rows.len() as u32, s.columns.len() as u32);
                (s.tile, gemm::words(rows, block.depth, columns, &from, &to))
            });
            let named = [
                ("a", Some(block.left.0)),
                ("weights", Some(block.weights.0)),
                ("bias", b),
                ("acc", acc),
                ("out", Some(out)),
            ];
            let tiles: Vec<_> = tiles.collect();
            let kernel = plans::stream::kernel(kernel.clone(), activation, [step, steps]);
            self.compute(op, &format!("{name}.gemm"), &kernel, &named, tiles)?;
        }
        Ok(())
    }

    /// A linear operator of f16 operands to an f32 result: the product leaves its sums, bias and
    /// activation follow.
    fn widening_linear(
        &mut self,
        op: &Op,
        plan: &Plan,
        activation: Activation,
    ) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let &[ref lx, ref lw, ref lb @ ..] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let (f16, f32) = (ElementType::F16, ElementType::F32);
        let (tx, tw) = (
            self.graph.ty(op.operands[0]).clone(),
            self.graph.ty(op.operands[1]).clone(),
        );
        let ty = self.graph.ty(op.result).clone();
        let k = tx.matrix().columns;
        let x = self.operand(op, op.operands[0], lx, tx)?;
        let w = self.operand(op, op.operands[1], lw, tw)?;
        let bias = match lb.first() {
            None => None,
            Some(lb) => Some(self.operand(op, op.operands[2], lb, ty.clone())?),
        };
        let name = self.weight_name(op);
        let (from, to) = (lx.storage(f16), layout.storage(f32));
        let shards = layout.shards(ty.matrix());
        let calls: Vec<_> = shards
            .iter()
            .map(|s| {
                let (rows, columns) = (s.rows.len() as u32, s.columns.len() as u32);
                (s.tile, gemm::words(rows, k, columns, &from, &to))
            })
            .collect();
        let steps = gemm::wide_steps(bias.is_some(), activation);
        let place = |b: &mut Self, left: usize| match left {
            0 => b.result(op, &name, layout.clone()),
            _ => b.buffer(
                &format!("{name}.product"),
                ty.clone(),
                layout.clone(),
                &op.location,
            ),
        };
        let mut out = place(self, steps.len());
        let named = [("a", Some(x)), ("weights", Some(w)), ("out", Some(out))];
        self.compute(op, &format!("{name}.gemm"), PARTIAL_KERNEL, &named, calls)?;
        for (i, (kernel, adds)) in steps.iter().enumerate() {
            let sums = out;
            out = place(self, steps.len() - 1 - i);
            let words = flat_words(&to, f32);
            let calls: Vec<_> = shards.iter().map(|s| (s.tile, words.clone())).collect();
            let named = [
                ("a", Some(sums)),
                ("b", bias.filter(|_| *adds)),
                ("out", Some(out)),
            ];
            let step = format!("{name}.{}", if *adds { "bias" } else { "relu" });
            self.compute(op, &step, kernel, &named, calls)?;
        }
        Ok(())
    }

    /// A linear operator whose contraction several tiles share.
    pub fn split_linear(
        &mut self,
        op: &Op,
        plan: &Plan,
        activation: Activation,
    ) -> Result<(), TileError> {
        let result = self.result_layout(op)?;
        let &[ref lx, ref lw, ref lb @ ..] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let (tx, tw) = (
            self.graph.ty(op.operands[0]).clone(),
            self.graph.ty(op.operands[1]).clone(),
        );
        let x = self.operand(op, op.operands[0], lx, tx.clone())?;
        let w = self.operand(op, op.operands[1], lw, tw)?;
        let ty = self.graph.ty(op.result).clone();
        let matrix = ty.matrix();
        let b = match lb.first() {
            None => None,
            Some(lb) => Some(self.operand(op, op.operands[2], lb, ty)?),
        };
        let reduction = Reduction::new(
            plan.grid_k,
            matrix.rows,
            matrix.columns,
            lw.columns,
            &result,
        );
        let name = self.weight_name(op);
        let partial = self.buffer(
            &format!("{name}.partial"),
            reduction.partial_type.clone(),
            reduction.partial.clone(),
            &op.location,
        );
        let depth = lx.columns;
        let k = tx.matrix().columns;
        let (read, written) = (tx.element, self.graph.ty(op.result).element);
        let (from, to) = (
            lx.storage(read),
            reduction.partial.storage(ElementType::F32),
        );
        let mut tiles = Vec::new();
        for part in 0..plan.grid_k {
            let k = depth.range(part, k).len() as u32;
            for column in 0..lw.columns.parts {
                let columns = lw.columns.range(column, matrix.columns).len() as u32;
                let tile = part * lw.rows.stride + column * lw.columns.stride;
                tiles.push((tile, gemm::words(matrix.rows, k, columns, &from, &to)));
            }
        }
        let named = [("a", Some(x)), ("weights", Some(w)), ("out", Some(partial))];
        let kernel = gemm::partial_kernel(read);
        self.compute(op, &format!("{name}.gemm"), kernel, &named, tiles)?;
        let kernel = gemm::reduce_kernel(written, b.is_some(), activation);
        self.add_partials(op, &name, &reduction, plan.grid_k, partial, b, &kernel)
    }

    /// Brings partial sums to where the result is and adds them.
    #[allow(clippy::too_many_arguments)] // one decision each
    pub fn add_partials(
        &mut self,
        op: &Op,
        name: &str,
        reduction: &Reduction,
        parts: u32,
        partial: BufferId,
        addend: Option<BufferId>,
        kernel: &str,
    ) -> Result<(), TileError> {
        let result = self.result_layout(op)?;
        let matrix = self.graph.ty(op.result).matrix();
        let staging = self.buffer(
            &format!("{name}.parts"),
            reduction.staging_type.clone(),
            reduction.staging.clone(),
            &op.location,
        );
        for column in 0..result.columns.parts {
            let view = partial_view(reduction, parts, matrix.rows, column, &result);
            let Some(view) = view else { continue };
            let step = format!("move.{name}.partial");
            self.rearrange(&step, partial, staging, Some(view), &op.location);
        }
        let out = self.result(op, name, result.clone());
        let tiles: Vec<_> = result
            .shards(matrix)
            .into_iter()
            .map(|s| {
                (
                    s.tile,
                    reduction.words(parts, s.columns.len() as u32, &result),
                )
            })
            .collect();
        let named = [
            ("partials", Some(staging)),
            ("b", addend),
            ("out", Some(out)),
        ];
        self.compute(op, &format!("{name}.reduce"), kernel, &named, tiles)
    }

    /// The scratch of a product of `rows` rows on the tiles of a layout: one pass of 8 f32
    /// columns, two rows to a line of 16; `None` when the kernel needs none.
    pub(super) fn accumulators(
        &mut self,
        op: &Op,
        kernel: &str,
        name: &str,
        layout: &Layout,
        rows: u32,
    ) -> Option<BufferId> {
        self.kernels.get(kernel)?.buffer("acc")?;
        let parts = layout.rows.parts * layout.columns.parts * layout.copies;
        let lines = rows.div_ceil(2);
        let scratch = Layout {
            rows: Split::even(parts * lines, parts, lines, 1),
            columns: Split::whole(16),
            copies: 1,
            copy_stride: 0,
            first_tile: layout.first_tile,
            order: ElementOrder::Rows,
            memory: MemoryClass::Interleaved,
        };
        let ty = TensorType::new([parts * lines, 16], ElementType::F32);
        Some(self.buffer(&format!("{name}.acc"), ty, scratch, &op.location))
    }

    /// A readable name for a linear step: its weight's key without the last component.
    pub(super) fn weight_name(&mut self, op: &Op) -> String {
        let key = self.value_name(op.operands[1]);
        key.strip_suffix(".weight")
            .filter(|s| !s.is_empty())
            .unwrap_or("linear")
            .to_owned()
    }

    /// A product of two batches of matrices.
    pub fn product(&mut self, op: &Op, plan: &Plan, transposed: bool) -> Result<(), TileError> {
        let result = self.result_layout(op)?;
        let [la, lb] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let (ta, tb) = (
            self.graph.ty(op.operands[0]).clone(),
            self.graph.ty(op.operands[1]).clone(),
        );
        let ([.., m, k], [.., rows, columns]) = (ta.shape.as_slice(), tb.shape.as_slice()) else {
            return Err(error(op, "its operands are not matrices"));
        };
        let (m, k) = (*m, *k);
        let n = if transposed { *rows } else { *columns };
        let matrices = ta.matrix().rows / m;
        let a = self.operand(op, op.operands[0], la, ta.clone())?;
        let b = self.operand(op, op.operands[1], lb, tb.clone())?;
        let name = "matmul";
        let element = ta.element;
        let (weights, lw) = if element == ElementType::F32 {
            self.packed(
                op,
                name,
                (b, &tb, lb),
                if transposed { n } else { k },
                !transposed,
            )?
        } else if transposed {
            (b, lb.clone())
        } else {
            self.turned(op, name, b, [matrices, k, n], lb)?
        };
        let stored = if transposed {
            n
        } else {
            n.next_multiple_of(PANEL)
        };
        let [from, right, to] = [la, &lw, &result].map(|l| l.storage(element));
        let tiles: Vec<_> = result
            .shards(self.graph.ty(op.result).matrix())
            .into_iter()
            .map(|s| {
                let (batches, rows) = matrices_on_tile(&s, m);
                let call = Product {
                    batches,
                    rows,
                    k,
                    columns: s.columns.len() as u32,
                    stored,
                };
                (s.tile, call.words(&from, &right, &to))
            })
            .collect();
        let out = self.result(op, name, result.clone());
        let name = self.program.buffer(out).name.clone();
        let kernel = batched::kernel(element, plan.partials, k);
        let acc = self.accumulators(op, &kernel, &name, &result, result.rows.block.min(m));
        let named = [
            ("a", Some(a)),
            ("weights", Some(weights)),
            ("acc", acc),
            ("out", Some(out)),
        ];
        self.compute(op, &format!("{name}.gemm"), &kernel, &named, tiles)?;
        // Behind the last of the rows of a right operand that is not padded is whatever.
        if transposed && element == ElementType::F16 {
            self.clear_padding(op, out)?;
        }
        Ok(())
    }

    /// The transposes of the `[matrices, rows, columns]` matrices that each tile has in `source`,
    /// padded to whole blocks.
    fn turned(
        &mut self,
        op: &Op,
        name: &str,
        source: BufferId,
        [matrices, rows, columns]: [u32; 3],
        from: &Layout,
    ) -> Result<(BufferId, Layout), TileError> {
        let padded = columns.next_multiple_of(PANEL);
        // The same division: whole matrices, or the columns of one.
        let turned_rows = if from.columns.parts > 1 {
            Split::even(padded, from.columns.parts, PANEL, from.columns.stride)
        } else {
            let scale = |n: u32| n / rows * padded;
            Split {
                block: scale(from.rows.block),
                unit: if from.rows.parts == 1 {
                    1
                } else {
                    scale(from.rows.unit.max(rows))
                },
                period: scale(from.rows.period),
                ..from.rows
            }
        };
        let layout = Layout {
            rows: turned_rows,
            columns: Split::whole(rows),
            memory: MemoryClass::Interleaved,
            ..from.clone()
        };
        let ty = TensorType::new([matrices * padded, rows], ElementType::F16);
        let id = self.buffer(
            &format!("{name}.transposed"),
            ty,
            layout.clone(),
            &op.location,
        );
        let (s, d) = (
            from.storage(ElementType::F16),
            layout.storage(ElementType::F16),
        );
        let matrix = Matrix {
            rows: matrices * rows,
            columns,
        };
        let tiles: Vec<_> = from
            .shards(matrix)
            .into_iter()
            .map(|shard| {
                let batches = shard.rows.len() as u32 / rows;
                let columns = shard.columns.len() as u32;
                (shard.tile, transpose_words(batches, rows, columns, &s, &d))
            })
            .collect();
        let named = [("src", Some(source)), ("dst", Some(id))];
        let step = format!("{name}.transpose");
        self.compute(op, &step, TRANSPOSE_KERNEL, &named, tiles)?;
        Ok((id, layout))
    }

    /// The right operands of f32 that each tile has, in the order of AMP weights. A matrix has
    /// `rows` rows, its depth where it is `turned`.
    fn packed(
        &mut self,
        op: &Op,
        name: &str,
        (source, ty, from): (BufferId, &TensorType, &Layout),
        rows: u32,
        turned: bool,
    ) -> Result<(BufferId, Layout), TileError> {
        let fullest = Pack::of(from.rows.block, from.columns.block, rows, turned);
        let (layout, extents) = packed(from, fullest.lines());
        let id = self.buffer(
            &format!("{name}.packed"),
            TensorType::new(extents, ElementType::F32),
            layout.clone(),
            &op.location,
        );
        let storage = from.storage(ElementType::F32);
        let tiles: Vec<_> = from
            .shards(ty.matrix())
            .into_iter()
            .map(|s| {
                let pack = Pack::of(s.rows.len() as u32, s.columns.len() as u32, rows, turned);
                (s.tile, pack.words(&storage))
            })
            .collect();
        let named = [("src", Some(source)), ("dst", Some(id))];
        let step = format!("{name}.pack");
        self.compute(op, &step, pack_kernel(turned), &named, tiles)?;
        Ok((id, layout))
    }

    /// Attention with one head a matrix: scores, softmax, transposed values, their product.
    pub fn attention(
        &mut self,
        op: &Op,
        plan: &Plan,
        scale: f32,
        causal: bool,
    ) -> Result<(), TileError> {
        let result = self.result_layout(op)?;
        let [lq, lk, lv] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let types: Vec<TensorType> = op
            .operands
            .iter()
            .map(|&v| self.graph.ty(v).clone())
            .collect();
        let (n, extents) = batched::Attention::of(&types)
            .ok_or_else(|| error(op, "its operands are no batches of matrices"))?;
        let batched::Attention {
            queries,
            keys,
            depth,
            width,
        } = extents;
        let element = types[0].element;
        let single = element == ElementType::F32;
        let q = self.operand(op, op.operands[0], lq, types[0].clone())?;
        let k = self.operand(op, op.operands[1], lk, types[1].clone())?;
        let v = self.operand(op, op.operands[2], lv, types[2].clone())?;
        let memory = result_memory(element, plan.partials, depth);
        let name = self.symbol("attention");
        let square = |columns| TensorType::new([n * queries, columns], element);
        let wide = Layout {
            columns: Split::whole(keys),
            memory,
            ..lq.clone()
        };
        let scores = self.buffer(
            &format!("{name}.scores"),
            square(keys),
            wide.clone(),
            &op.location,
        );
        let shares = self.buffer(
            &format!("{name}.shares"),
            square(keys),
            Layout {
                memory: MemoryClass::Any,
                ..wide.clone()
            },
            &op.location,
        );
        let shards = lq.shards(Matrix {
            rows: n * queries,
            columns: depth,
        });
        let storage = |l: &Layout| l.storage(element);
        let score_kernel = batched::kernel(element, plan.partials, depth);
        let value_kernel = batched::kernel(element, plan.partials, keys);
        let rows = lq.rows.block.min(queries);
        let acc = self.accumulators(op, &score_kernel, &name, lq, rows);
        let products = |product: Product, left: &Layout, right: &Layout, out: &Layout| {
            let (left, right, out) = (storage(left), storage(right), storage(out));
            let calls: Vec<_> = shards
                .iter()
                .map(|s| {
                    let (batches, rows) = matrices_on_tile(s, queries);
                    let call = Product {
                        batches,
                        rows,
                        ..product
                    };
                    (s.tile, call.words(&left, &right, &out))
                })
                .collect();
            calls
        };
        let score = Product {
            batches: 1,
            rows: queries,
            k: depth,
            columns: keys,
            stored: keys,
        };
        let (score_weights, lw) = if single {
            self.packed(op, &format!("{name}.keys"), (k, &types[1], lk), keys, false)?
        } else {
            (k, lk.clone())
        };
        let named = [
            ("a", Some(q)),
            ("weights", Some(score_weights)),
            ("acc", acc),
            ("out", Some(scores)),
        ];
        let calls = products(score, lq, &lw, &wide);
        self.compute(op, &format!("{name}.scores"), &score_kernel, &named, calls)?;
        let s = storage(&wide);
        let calls: Vec<_> = shards
            .iter()
            .map(|shard| {
                let words = row_words(shard.rows.len() as u32, keys, &s, &s).with([
                    ("scale", scale.to_bits()),
                    ("first_row", shard.rows.start % queries),
                    ("period", queries),
                    ("visible", (keys + 1).saturating_sub(queries)),
                ]);
                (shard.tile, words)
            })
            .collect();
        let named = [("x", Some(scores)), ("out", Some(shares))];
        let step = format!("{name}.softmax");
        self.compute(op, &step, softmax_kernel(causal, element), &named, calls)?;
        let (turned, lt) = if single {
            self.packed(
                op,
                &format!("{name}.values"),
                (v, &types[2], lv),
                keys,
                true,
            )?
        } else {
            self.turned(op, &name, v, [n, keys, width], lv)?
        };
        let out = self.result(op, &name, result.clone());
        let value = Product {
            batches: 1,
            rows: queries,
            k: keys,
            columns: width,
            stored: width.next_multiple_of(PANEL),
        };
        let acc = acc.or_else(|| self.accumulators(op, &value_kernel, &name, lq, rows));
        let named = [
            ("a", Some(shares)),
            ("weights", Some(turned)),
            ("acc", acc),
            ("out", Some(out)),
        ];
        let calls = products(value, &wide, &lt, &result);
        self.compute(op, &format!("{name}.values"), &value_kernel, &named, calls)
    }
}

/// Matrices of `rows` rows in a shard, and the rows of each: whole matrices or a part of one.
fn matrices_on_tile(shard: &Shard, rows: u32) -> (u32, u32) {
    let own = shard.rows.len() as u32;
    if own > rows {
        (own / rows, rows)
    } else {
        (1, own)
    }
}
