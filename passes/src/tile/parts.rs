//! Products whose contraction several tiles share in a grid, and attention whose keys they share.

use super::{Builder, TileError, error};
use crate::select_operators::plans::Words;
use crate::select_operators::plans::attention::{
    COMBINE_KERNEL, SOFTMAX_KERNEL, Spread, score_kernel,
};
use crate::select_operators::plans::batched::{Attention, TRANSPOSE_KERNEL, kernel};
use crate::select_operators::plans::parts::Parts;
use crate::select_operators::plans::{gemm, linear_grid, stream};
use ipu_program::graph::{Activation, Op};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::plan::Plan;
use ipu_program::tile::BufferId;
use ipu_program::types::{ElementType, Matrix, TensorType};

impl Builder<'_> {
    /// A linear operator on a grid of rows, parts of the contraction and columns.
    pub fn grid_linear(
        &mut self,
        op: &Op,
        plan: &Plan,
        activation: Activation,
    ) -> Result<(), TileError> {
        let result = self.result_layout(op)?;
        let &[ref lx, ref lw, ref lb @ ..] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let (tx, tw) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
        let ty = self.graph.ty(op.result).clone();
        let matrix = ty.matrix();
        let mut blocks = self.blocks(op, plan, [lx, lw], [tx, tw])?;
        let divided = result.columns.parts == lw.columns.parts;
        let parts = linear_grid::parts(plan, matrix.rows, &result).filter(|_| divided);
        let parts = parts.ok_or_else(|| error(op, "the plan divides its operands differently"))?;
        let b = match lb.first() {
            None => None,
            Some(lb) => Some(self.operand(op, op.operands[2], lb, ty)?),
        };
        let name = self.weight_name(op);
        let partial = self.partial(op, &name, &parts);
        let kernel = linear_grid::partial_kernel(plan.partials);
        let acc = self.accumulators(op, &kernel, &name, &parts.partial, lx.rows.block);
        let to = parts.partial.storage(plan.partials);
        let steps = blocks.steps.len();
        for step in 0..steps {
            let b = self.bring(op, &name, &mut blocks, step)?;
            let from = b.left.1.storage(ElementType::F16);
            let mut tiles = Vec::new();
            for i in 0..b.left.1.rows.parts {
                let rows = b.left.1.rows.range(i, matrix.rows).len() as u32;
                for p in 0..b.weights.1.rows.parts {
                    let depth = b.weights.1.rows.range(p, b.depth).len() as u32;
                    for c in 0..b.weights.1.columns.parts {
                        let columns = b.weights.1.columns.range(c, matrix.columns).len() as u32;
                        let tile = b.left.1.rows.tile(i)
                            + b.weights.1.rows.tile(p)
                            + b.weights.1.columns.tile(c);
                        if rows > 0 && columns > 0 && depth > 0 {
                            tiles.push((tile, gemm::words(rows, depth, columns, &from, &to)));
                        }
                    }
                }
            }
            let named = [
                ("a", Some(b.left.0)),
                ("weights", Some(b.weights.0)),
                ("acc", acc),
                ("out", Some(partial)),
            ];
            let kernel = stream::kernel(kernel.clone(), Activation::None, [step, steps]);
            self.compute(op, &format!("{name}.gemm"), &kernel, &named, tiles)?;
        }
        let staging = self.scatter(op, &name, &parts, partial);
        let out = self.result(op, &name, result.clone());
        let tiles: Vec<_> = result
            .shards(matrix)
            .into_iter()
            .map(|s| (s.tile, parts.words(s.columns.len() as u32)))
            .collect();
        let named = [("partials", Some(staging)), ("b", b), ("out", Some(out))];
        let kernel = linear_grid::reduce_kernel(plan.partials, b.is_some(), activation);
        self.compute(op, &format!("{name}.reduce"), &kernel, &named, tiles)
    }

    /// The buffer in which parts are computed.
    fn partial(&mut self, op: &Op, name: &str, parts: &Parts) -> BufferId {
        let (ty, layout) = (parts.ty.clone(), parts.partial.clone());
        self.buffer(&format!("{name}.partial"), ty, layout, &op.location)
    }

    /// Brings parts to where they are added.
    fn scatter(&mut self, op: &Op, name: &str, parts: &Parts, partial: BufferId) -> BufferId {
        let (ty, layout) = (parts.ty.clone(), parts.staging.clone());
        let staging = self.buffer(&format!("{name}.parts"), ty, layout, &op.location);
        let step = format!("move.{name}.partial");
        self.rearrange(&step, partial, staging, None, &op.location);
        staging
    }

    /// Attention with one head a matrix, whose keys several tiles share: scores, the softmax of a
    /// part, transposed values, their product, and the parts put together.
    pub fn grid_attention(
        &mut self,
        op: &Op,
        plan: &Plan,
        scale: f32,
        causal: bool,
    ) -> Result<(), TileError> {
        if causal {
            return Err(error(op, "causal attention has no plan with parts of keys"));
        }
        let result = self.result_layout(op)?;
        let [lq, lk, lv] = self.operand_layouts(op, plan)? else {
            return Err(error(op, "the plan has another number of operands"));
        };
        let types: Vec<TensorType> = op
            .operands
            .iter()
            .map(|&v| self.graph.ty(v).clone())
            .collect();
        let (n, a) = Attention::of(&types)
            .ok_or_else(|| error(op, "its operands are no batches of matrices"))?;
        if lk.rows.parts != n * plan.grid_k || lv.rows != lk.rows {
            return Err(error(op, "the plan divides keys and values differently"));
        }
        let s = Spread::new(n, &a, [lq, lk, &result], plan.partials);
        let q = self.operand(op, op.operands[0], lq, types[0].clone())?;
        let k = self.operand(op, op.operands[1], lk, types[1].clone())?;
        let v = self.operand(op, op.operands[2], lv, types[2].clone())?;
        let name = self.symbol("attention");
        let mut buffer = |what: &str, ty: &TensorType, layout: &Layout| {
            let (ty, layout) = (ty.clone(), layout.clone());
            self.buffer(&format!("{name}.{what}"), ty, layout, &op.location)
        };
        let scores = buffer("scores", &s.scores, &s.score_layout);
        let shares = Layout {
            memory: MemoryClass::Any,
            ..s.score_layout.clone()
        };
        let shares = buffer("shares", &s.scores, &shares);
        let turned = buffer("transposed", &s.turned, &s.turned_layout);
        let partial = self.partial(op, &name, &s.parts);
        // Queries and keys of each tile.
        let shards = s.score_layout.shards(s.scores.matrix());
        let calls = |words: &dyn Fn([u32; 2]) -> Words| -> Vec<(u32, Words)> {
            let shape = |s: &ipu_program::layout::Shard| [s.rows.len(), s.columns.len()];
            shards
                .iter()
                .map(|s| (s.tile, words(shape(s).map(|n| n as u32))))
                .collect()
        };
        let kernels = [
            score_kernel(a.depth),
            kernel(ElementType::F16, plan.partials, lk.rows.block),
        ];
        let mut acc = None;
        for kernel in &kernels {
            let rows = lq.rows.block;
            acc = acc.or_else(|| self.accumulators(op, kernel, &name, &s.score_layout, rows));
        }
        let [score_kernel, value_kernel] = kernels;
        let named = [
            ("a", Some(q)),
            ("weights", Some(k)),
            ("acc", acc),
            ("out", Some(scores)),
        ];
        let tiles = calls(&|shape| s.score_words(shape, a.depth, lq, lk));
        self.compute(op, &format!("{name}.scores"), &score_kernel, &named, tiles)?;
        let named = [
            ("x", Some(scores)),
            ("out", Some(shares)),
            ("stats", Some(partial)),
        ];
        let tiles = calls(&|shape| s.softmax_words(shape, scale));
        self.compute(
            op,
            &format!("{name}.softmax"),
            SOFTMAX_KERNEL,
            &named,
            tiles,
        )?;
        let named = [("src", Some(v)), ("dst", Some(turned))];
        let tiles = calls(&|[_, keys]| s.turn_words(keys, a.width, lv));
        self.compute(
            op,
            &format!("{name}.transpose"),
            TRANSPOSE_KERNEL,
            &named,
            tiles,
        )?;
        let named = [
            ("a", Some(shares)),
            ("weights", Some(turned)),
            ("acc", acc),
            ("out", Some(partial)),
        ];
        let tiles = calls(&|shape| s.value_words(shape, a.width));
        self.compute(op, &format!("{name}.values"), &value_kernel, &named, tiles)?;
        let staging = self.scatter(op, &name, &s.parts, partial);
        let weights = self.combine_scratch(op, &name, &s, &result);
        let out = self.result(op, &name, result.clone());
        let matrix = Matrix {
            rows: n * a.queries,
            columns: a.width,
        };
        let tiles: Vec<_> = result
            .shards(matrix)
            .into_iter()
            .map(|shard| {
                let rows = shard.rows.len() as u32;
                (shard.tile, s.combine_words(rows, &result))
            })
            .collect();
        let named = [
            ("partials", Some(staging)),
            ("weights", Some(weights)),
            ("out", Some(out)),
        ];
        self.compute(
            op,
            &format!("{name}.combine"),
            COMBINE_KERNEL,
            &named,
            tiles,
        )
    }

    /// The scratch of the combination on the tiles of a result.
    fn combine_scratch(&mut self, op: &Op, name: &str, s: &Spread, result: &Layout) -> BufferId {
        let (parts, lines) = (result.rows.parts, s.scratch_lines());
        let layout = Layout {
            rows: Split {
                unit: 1,
                period: 0,
                block: lines,
                ..result.rows
            },
            columns: Split::whole(16),
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
            ..result.clone()
        };
        let ty = TensorType::new([parts * lines, 16], ElementType::F32);
        self.buffer(&format!("{name}.weights"), ty, layout, &op.location)
    }
}
