//! The blocks that products with weights multiply: resident operands as they are, or those that the
//! operator brings from their homes before each step.

use super::{Builder, TileError, error};
use crate::select_operators::plans::stream::{self, Grid, columns_view, rows_view};
use ipu_program::graph::{Op, ValueId};
use ipu_program::layout::{Layout, PANEL};
use ipu_program::plan::{Plan, Residency};
use ipu_program::tile::BufferId;
use ipu_program::types::TensorType;
use std::ops::Range;

/// The operands of a product with weights, step by step.
pub(super) struct Blocks {
    /// The part of the contraction of each step.
    pub steps: Vec<Range<u32>>,
    grid: Grid,
    residency: Residency,
    /// The left operand and the weights as the plan wants them: buffer, layout, type.
    operands: [(BufferId, Layout, TensorType); 2],
    /// Blocks of the last step, with its depth.
    last: Option<Block>,
}

/// The operands of a step.
#[derive(Clone)]
pub(super) struct Block {
    /// Its part of the contraction.
    pub depth: u32,
    /// The left operand.
    pub left: (BufferId, Layout),
    /// The weights.
    pub weights: (BufferId, Layout),
}

impl Builder<'_> {
    /// The type of a value.
    pub(super) fn ty(&self, v: ValueId) -> TensorType {
        self.graph.ty(v).clone()
    }

    /// The operands of a product with weights in the layouts that a plan gives them.
    pub(super) fn blocks(
        &mut self,
        op: &Op,
        plan: &Plan,
        [lx, lw]: [&Layout; 2],
        [tx, tw]: [TensorType; 2],
    ) -> Result<Blocks, TileError> {
        let k = tx.matrix().columns;
        if plan.weights == Residency::Distributed && !stream::has_homes(plan, k) {
            let why =
                "the plan has distributed weights, and operands that are not at home in its grid";
            return Err(error(op, why));
        }
        // Every part of the contraction has a share of the first step, which starts its sums.
        let panels = stream::depth(k, plan.steps).div_ceil(PANEL);
        if plan.steps > 1 && panels < plan.grid_k {
            let why = format!(
                "the plan has {} parts of the contraction, but its {} steps have {panels} panels of \
                 16 each at most",
                plan.grid_k, plan.steps
            );
            return Err(error(op, why));
        }
        let x = self.operand(op, op.operands[0], lx, tx.clone())?;
        let w = self.operand(op, op.operands[1], lw, tw.clone())?;
        Ok(Blocks {
            steps: stream::steps(k, plan.steps),
            grid: Grid::of(plan),
            residency: plan.weights,
            operands: [(x, lx.clone(), tx), (w, lw.clone(), tw)],
            last: None,
        })
    }

    /// Brings the blocks of a step. Steps of equal depth share their buffers: a step waits for the one
    /// before, and no more than one step's blocks are on a tile.
    pub(super) fn bring(
        &mut self,
        op: &Op,
        name: &str,
        blocks: &mut Blocks,
        step: usize,
    ) -> Result<Block, TileError> {
        let range = blocks.steps.get(step).cloned();
        let range = range.ok_or_else(|| error(op, "its contraction is empty"))?;
        let [(x, lx, tx), (w, lw, tw)] = blocks.operands.clone();
        if blocks.residency == Residency::Resident {
            return Ok(Block {
                depth: range.len() as u32,
                left: (x, lx),
                weights: (w, lw),
            });
        }
        let depth = range.len() as u32;
        let (left, right) = (tx.matrix(), tw.matrix());
        let streamed = blocks.steps.len() > 1;
        let block = match blocks.last.take().filter(|b| b.depth == depth) {
            Some(block) => block,
            None => {
                let weights = blocks.grid.weights(depth, lw.columns, lw.order);
                let ty = TensorType::new([depth, right.columns], tw.element);
                let id = self.buffer(&format!("{name}.block"), ty, weights.clone(), &op.location);
                let left = match streamed {
                    false => (x, lx.clone()),
                    true => {
                        let layout = blocks.grid.left(depth, lx.rows);
                        let ty = TensorType::new([left.rows, depth], tx.element);
                        let name = format!("{name}.left");
                        (self.buffer(&name, ty, layout.clone(), &op.location), layout)
                    }
                };
                Block {
                    depth,
                    left,
                    weights: (id, weights),
                }
            }
        };
        if streamed {
            let view = columns_view(left.rows, left.columns, &range);
            let step = format!("move.{name}.left");
            self.rearrange(&step, x, block.left.0, Some(view), &op.location);
        }
        let view = streamed.then(|| rows_view(right.columns, &range));
        let step = format!("move.{name}.block");
        self.rearrange(&step, w, block.weights.0, view, &op.location);
        blocks.last = Some(block.clone());
        Ok(block)
    }
}
