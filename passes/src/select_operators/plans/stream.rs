//! Products with weights whose operands are distributed: each element lives on one tile, and the
//! operator brings blocks to the tiles of its grid before it multiplies.
//!
//! The *home* of the weights divides the rows of every column part among the `gm * gk` tiles that
//! multiply by that part, in whole panels, so that a tile holds 1 / `gm` of what it multiplies by. A
//! piece of a home goes to `gm` tiles in one multicast. With several *steps* the contraction is worked
//! through in as many parts, one after the other; the left operand then has a home as well, and of
//! both only the blocks of one step are on a tile at a time.
//!
//! Steps are consecutive parts of the contraction. Which tile sends a panel does not matter to the
//! exchange, as every tile has as many to send; but what a tile has of its own blocks it must copy,
//! which takes a launch. So a home begins some tiles behind the grid, where there are tiles to spare:
//! the left operand's with the tiles of the next rows, the weights' with those of the next part of the
//! contraction. The latter helps where blocks are whole pieces of the home, that is, where the
//! contraction is whole blocks of equal depth.

use super::{Machine, copied, gemm, grid, moves};
use ipu_program::graph::Activation;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, ShardStorage, Split};
use ipu_program::plan::{Plan, Residency};
use ipu_program::tile::View;
use ipu_program::types::ElementType;
use std::ops::Range;

/// Numbers of steps that are tried, where fewer do not fit.
pub const STEPS: [u32; 6] = [1, 2, 3, 4, 6, 8];

/// Which plans with distributed operands are enumerated beside the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// None.
    #[default]
    None,
    /// Distributed weights, in as few steps as fit a tile.
    Fitting,
    /// Distributed weights in this many steps.
    Steps(u32),
}

impl Streams {
    /// The numbers of steps to try, fewest first; after the first that fits none is needed.
    pub fn steps(self) -> impl Iterator<Item = u32> {
        let (list, exactly): (&[u32], _) = match self {
            Streams::None => (&[], None),
            Streams::Fitting => (&STEPS, None),
            Streams::Steps(n) => (&[], Some(n)),
        };
        list.iter().copied().chain(exactly)
    }
}

/// A grid of `rows` x `k` x `columns` tiles. Tile numbers run over the parts of the contraction
/// first, then rows, then columns; without parts of the contraction over columns, then rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Parts of the rows.
    pub rows: u32,
    /// Parts of the contraction.
    pub k: u32,
    /// Parts of the columns.
    pub columns: u32,
}

impl Grid {
    /// The grid of a plan.
    pub fn of(plan: &Plan) -> Grid {
        Grid {
            rows: plan.grid_rows,
            k: plan.grid_k,
            columns: plan.grid_columns,
        }
    }

    /// Tiles of the grid.
    pub fn tiles(&self) -> u32 {
        self.rows * self.k * self.columns
    }

    /// Tiles from a row part, a part of the contraction and a column part to the next.
    fn strides(&self) -> [u32; 3] {
        match self.k {
            1 => [self.columns, 0, 1],
            k => [k, 1, self.rows * k],
        }
    }

    /// The home of weights of `k` rows that are worked through in `steps`. Where the contraction is
    /// whole blocks of equal depth, each block of a step is divided among tiles of its own.
    pub fn weights_home(
        &self,
        (k, steps): (u32, u32),
        columns: Split,
        order: ElementOrder,
        first: u32,
    ) -> Layout {
        let [row, depth, _] = self.strides();
        let blocks = steps * self.k;
        let even = k.is_multiple_of(PANEL * blocks) && self.rows >= steps;
        let rows = match even {
            false => Split::even(k, self.k * self.rows, PANEL, row).grouped(self.rows, depth),
            true => {
                let pieces = self.rows / steps;
                let period = k / blocks;
                Split {
                    parts: blocks * pieces,
                    period: if blocks > 1 { period } else { 0 },
                    ..Split::even(period, pieces, PANEL, steps * row)
                }
                .grouped(pieces, if self.k > 1 { depth } else { row })
            }
        };
        Layout {
            first_tile: first,
            ..grid(rows, columns, order, MemoryClass::Any)
        }
    }

    /// The home of a left operand of `k` columns.
    pub fn left_home(&self, k: u32, rows: Split, first: u32) -> Layout {
        let [_, depth, column] = self.strides();
        let columns = self.columns;
        let split = Split::even(k, self.k * columns, PANEL, column).grouped(columns, depth);
        Layout {
            first_tile: first,
            ..grid(rows, split, ElementOrder::Panels, MemoryClass::Any)
        }
    }

    /// The blocks of weights of `k` rows.
    pub fn weights(&self, k: u32, columns: Split, order: ElementOrder) -> Layout {
        let [rows, depth, _] = self.strides();
        let split = Split::even(k, self.k, PANEL, depth);
        copied(
            grid(split, columns, order, MemoryClass::Interleaved),
            self.rows,
            rows,
        )
    }

    /// The blocks of a left operand of `k` columns.
    pub fn left(&self, k: u32, rows: Split) -> Layout {
        let [_, depth, columns] = self.strides();
        let split = Split::even(k, self.k, PANEL, depth);
        copied(
            grid(rows, split, ElementOrder::Panels, MemoryClass::Any),
            self.columns,
            columns,
        )
    }

    /// The first tiles of the homes of the left operand and of the weights on a machine: those of the
    /// next row part, and of the next part of the contraction or of the columns, if there are so many.
    pub fn first(&self, machine: &Machine<'_>) -> [u32; 2] {
        let [row, ..] = self.strides();
        let spare = machine.tiles.saturating_sub(self.tiles());
        let left = if self.rows > 1 && spare >= row {
            row
        } else {
            0
        };
        let weights = u32::from(self.k * self.columns > 1 && spare >= 1);
        [left, weights]
    }
}

/// Elements of a contraction of `k` in each step but the last, which may have fewer.
pub fn depth(k: u32, steps: u32) -> u32 {
    k.div_ceil(PANEL)
        .div_ceil(steps.max(1))
        .saturating_mul(PANEL)
        .min(k)
}

/// The parts of a contraction of `k`, one a step.
pub fn steps(k: u32, steps: u32) -> Vec<Range<u32>> {
    let depth = depth(k, steps).max(1);
    (0..steps)
        .map(|s| s.saturating_mul(depth).min(k)..(s + 1).saturating_mul(depth).min(k))
        .filter(|range| !range.is_empty())
        .collect()
}

/// The view that is these columns of a matrix.
pub fn columns_view(rows: u32, columns: u32, range: &Range<u32>) -> View {
    let length = range.len() as u32;
    View {
        shape: vec![rows, length],
        source_offset: range.start.into(),
        source_strides: vec![columns.into(), 1],
        destination_offset: 0,
        destination_strides: vec![length.into(), 1],
    }
}

/// The view that is these rows of a matrix.
pub fn rows_view(columns: u32, range: &Range<u32>) -> View {
    View {
        shape: vec![range.len() as u32, columns],
        source_offset: u64::from(range.start) * u64::from(columns),
        source_strides: vec![columns.into(), 1],
        destination_offset: 0,
        destination_strides: vec![columns.into(), 1],
    }
}

/// The order of weights for partial sums of an element type.
pub fn order(partials: ElementType) -> ElementOrder {
    match partials {
        ElementType::F16 => ElementOrder::Weights16,
        _ => ElementOrder::Weights8,
    }
}

/// The kernel of a step of a product whose sums stay where they are: `name` multiplies in the first
/// step, what follows adds to it, the last with the activation.
pub fn kernel(name: String, activation: Activation, [step, steps]: [usize; 2]) -> String {
    if step == 0 {
        return name;
    }
    let relu = step + 1 == steps && activation == Activation::Relu;
    let base = name.replace("_bias", "").replace("_relu", "");
    format!("{base}_accumulate{}", if relu { "_relu" } else { "" })
}

/// Whether the operands of a distributed plan of a product of `k` are the homes that its grid has.
pub fn has_homes(plan: &Plan, k: u32) -> bool {
    let grid = Grid::of(plan);
    let [x, w, ..] = plan.operands.as_slice() else {
        return false;
    };
    let same = |a: &Layout, b: &Layout| super::same_places(a, b);
    let weights = grid.weights_home(
        (k, plan.steps),
        w.columns,
        order(plan.partials),
        w.first_tile,
    );
    let left = match plan.steps {
        1 => grid.left(k, x.rows),
        _ => grid.left_home(k, x.rows, x.first_tile),
    };
    let [row, _, column] = grid.strides();
    let stride = |split: &Split, parts: u32, stride: u32| {
        split.parts == parts && (parts == 1 || split.stride == stride) && split.group == 0
    };
    same(&weights, w)
        && same(&left, x)
        && stride(&w.columns, grid.columns, column)
        && stride(&x.rows, grid.rows, row)
}

/// The blocks of a step, their bytes and what it costs to bring them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes on a tile of the weights of a step and, with several, of the left operand.
    pub bytes: u64,
    /// Those of the weights.
    pub weights: u64,
    /// Events and kernels of all steps, with the opening of all phases but the first.
    pub moved: moves::Move,
}

/// Bytes of region 0 that are not for data of a program with plans of this kind: its code, records
/// and exchange rows; those of a product of 4096^3 are 65 KB.
const RESERVE: u64 = 68 << 10;

impl Blocks {
    /// Bytes that a tile lacks, however the buffers of a plan are placed: `homes` that live all the
    /// time, sums of `partial` bytes, and sums on their way to where they are added. Weights and sums
    /// need region 1, and what crosses elements of its own; the left operand lies in either region, but
    /// not in both.
    pub fn missing(
        &self,
        machine: &Machine<'_>,
        homes: u64,
        partial: u64,
        crossing: [u64; 2],
    ) -> u64 {
        let t = machine.target;
        let first = u64::from(t.region1_base - t.memory_base).saturating_sub(RESERVE);
        let second = u64::from(t.loader_end - t.region1_base);
        let unit = u64::from(t.interleaved_element_bytes);
        let left = self.bytes - self.weights;
        let fixed = partial + self.weights;
        let apart = crossing[0].next_multiple_of(unit) + crossing[1];
        [
            fixed.saturating_sub(second),
            apart.saturating_sub(second),
            left.saturating_sub(first)
                .min((fixed + left).saturating_sub(second)),
            (homes + fixed + left + unit).saturating_sub(first + second),
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}

/// The blocks of a distributed plan of a product of `m` rows and `k` columns of the left operand.
pub fn blocks(machine: &Machine<'_>, plan: &Plan, k: u32) -> Option<Blocks> {
    let [x, w, ..] = plan.operands.as_slice() else {
        return None;
    };
    if plan.weights == Residency::Resident {
        return Some(Blocks {
            bytes: 0,
            weights: 0,
            moved: moves::Move::default(),
        });
    }
    let grid = Grid::of(plan);
    let f16 = ElementType::F16;
    let parts = steps(k, plan.steps);
    let mut moved = moves::Move::default();
    let (mut most, mut most_weights) = (0, 0);
    for range in &parts {
        let deep = range.len() as u32;
        let weights = grid.weights(deep, w.columns, w.order);
        let storage = weights.storage(f16);
        let mut bytes = u64::from(storage.bytes());
        most_weights = most_weights.max(bytes);
        let group = match w.order {
            ElementOrder::Weights8 => PANEL / 2,
            _ => PANEL,
        };
        let groups = storage.padded_columns() / group;
        // A block comes from so many homes, the first and the last in parts.
        let pieces = |block: u32, home: u32| {
            let (block, home) = (block.div_ceil(PANEL), home.div_ceil(PANEL).max(1));
            block.min((block + home - 2) / home + 1)
        };
        let messages = groups * pieces(weights.rows.block, w.rows.block);
        let mut events = bytes / 4 + moves::MESSAGE * u64::from(messages);
        // A tile that sends may have less to send in a step than it has; how much less is left open.
        let share =
            |words: u64, home: u32, block: u32| words * u64::from(home) / u64::from(block.max(1));
        let (home, block) = (w.rows.block.min(deep), weights.rows.block);
        let mut sent = share(events, home, block);
        if w.first_tile == 0 {
            let own = w.rows.block.min(weights.rows.block).div_ceil(PANEL) * group;
            moved.before += moves::local_copy(machine, own, groups * PANEL);
        }
        if plan.steps > 1 {
            let left = grid.left(deep, x.rows);
            let storage = left.storage(f16);
            bytes += u64::from(storage.bytes());
            let panels = u64::from(storage.padded_columns() / PANEL);
            let received = u64::from(storage.bytes()) / 4 + moves::MESSAGE * panels;
            let (home, block) = (x.columns.block.min(deep), left.columns.block);
            sent += share(received, home, block);
            events += received;
            if x.first_tile == 0 {
                let wide = x.columns.block.min(left.columns.block);
                moved.before += moves::local_copy(machine, left.rows.block, wide);
            }
        }
        moved.events += events.max(sent);
        most = most.max(bytes);
    }
    moved.events += machine.phase(0) * (parts.len() as u64 - 1);
    Some(Blocks {
        bytes: most,
        weights: most_weights,
        moved,
    })
}

/// Compute cycles of the products of a block of a distributed plan of `rows` rows, a contraction of
/// `k` and `columns` columns; `name` is the kernel of the first step.
pub fn products(
    machine: &Machine<'_>,
    plan: &Plan,
    [rows, k, columns]: [u32; 3],
    (name, activation): (&str, Activation),
    out: &ShardStorage,
) -> Option<u64> {
    let x = plan.operands.first()?;
    let parts = steps(k, plan.steps);
    let mut cycles = 0;
    for (s, range) in parts.iter().enumerate() {
        let left = Grid::of(plan).left(range.len() as u32, x.rows);
        let from = left.storage(ElementType::F16);
        let words = gemm::words(rows, left.columns.block, columns, &from, out);
        let name = kernel(name.to_owned(), activation, [s, parts.len()]);
        cycles += machine.cycles(&name, &words)?;
    }
    Some(cycles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select_operators::plans::{Partials, moves};
    use ipu_program::kernels::Kernels;
    use ipu_program::plan::Family;
    use ipu_program::types::{Matrix, TensorType};
    use ipu_target::Target;
    use proptest::prelude::*;

    fn machine() -> Machine<'static> {
        Machine {
            target: Target::ipu21(),
            kernels: Kernels::builtin(),
            tiles: 64,
            partials: Partials::Any,
            streams: Streams::Fitting,
        }
    }

    /// A plan on a grid with its operands at home.
    fn plan(grid: Grid, [m, k, n]: [u32; 3], steps: u32, partials: ElementType) -> Plan {
        let [first_left, first] = grid.first(&machine());
        let [row, _, column] = grid.strides();
        let rows = Split::even(m, grid.rows, 1, row);
        let columns = Split::even(n, grid.columns, PANEL, column);
        let left = match steps {
            1 => grid.left(k, rows),
            _ => grid.left_home(k, rows, first_left),
        };
        Plan {
            family: Family::Gemm,
            grid_rows: grid.rows,
            grid_columns: grid.columns,
            grid_k: grid.k,
            steps,
            weights: Residency::Distributed,
            partials,
            operands: vec![
                left,
                grid.weights_home((k, steps), columns, order(partials), first),
            ],
            compute_cycles: 0,
            exchange_cycles: 0,
            candidates: 0,
        }
    }

    /// On how many tiles each element is, and whether a tile has more than one part.
    fn held(layout: &Layout, matrix: Matrix) -> Vec<u32> {
        let mut count = vec![0; (matrix.rows * matrix.columns) as usize];
        let mut tiles = std::collections::BTreeSet::new();
        for s in layout.shards(matrix) {
            assert!(tiles.insert(s.tile), "{layout:?}");
            for r in s.rows {
                for c in s.columns.clone() {
                    count[(r * matrix.columns + c) as usize] += 1;
                }
            }
        }
        count
    }

    proptest! {
        #[test]
        fn homes_and_steps_have_each_element_once(
            grid in [2u32..5, 1u32..5, 1u32..4], m in 4u32..20, panels in 5u32..20, rest in 0u32..16,
            n in 40u32..70, steps_wanted in 1u32..5,
        ) {
            let [rows, k, columns] = grid;
            let grid = Grid { rows, k, columns };
            let depth = panels * PANEL - rest;
            let plan = plan(grid, [m, depth, n], steps_wanted, ElementType::F16);
            prop_assert!(has_homes(&plan, depth));
            let (x, w) = (&plan.operands[0], &plan.operands[1]);
            let once = |l: &Layout, rows, columns| {
                held(l, Matrix { rows, columns }).into_iter().all(|n| n == 1)
            };
            prop_assert!(once(w, depth, n));
            prop_assert!(steps_wanted == 1 || once(x, m, depth));
            prop_assert!(w.tile_end() <= grid.tiles() + 1);
            prop_assert!(x.tile_end() <= grid.tiles() + grid.strides()[0]);
            // Steps follow each other and cover the contraction, each on all tiles of the grid.
            let mut next = 0;
            for range in steps(depth, steps_wanted) {
                prop_assert_eq!(range.start, next);
                next = range.end;
                let deep = range.len() as u32;
                let (left, right) = (grid.left(deep, x.rows), grid.weights(deep, w.columns, w.order));
                let on = |l: &Layout, rows, columns, tiles| {
                    held(l, Matrix { rows, columns }).into_iter().all(|n| n == tiles)
                };
                prop_assert!(on(&left, m, deep, columns));
                prop_assert!(on(&right, deep, n, rows));
            }
            prop_assert_eq!(next, depth);
            // Another home is none of this grid.
            let mut other = plan.clone();
            other.operands[1].rows.stride += 1;
            prop_assert!(!has_homes(&other, depth));
        }

        /// What sizes say is what lowering does, within what joined and divided messages take.
        #[test]
        fn blocks_are_priced_as_they_are_lowered(
            grid in [2u32..4, 1u32..4, 1u32..4], m in 4u32..40, panels in 6u32..30, n in 33u32..70,
            steps_wanted in 1u32..4, wide: bool,
        ) {
            let [rows, k, columns] = grid;
            // On one column of tiles some hold a part of their own block.
            prop_assume!(k * columns > 1);
            let grid = Grid { rows, k, columns };
            let depth = panels * PANEL;
            let partials = if wide { ElementType::F32 } else { ElementType::F16 };
            let plan = plan(grid, [m, depth, n], steps_wanted, partials);
            let machine = machine();
            let price = blocks(&machine, &plan, depth).unwrap();
            let f16 = ElementType::F16;
            let (x, w) = (&plan.operands[0], &plan.operands[1]);
            let list = steps(depth, steps_wanted);
            let mut real = 0;
            for range in &list {
                let deep = range.len() as u32;
                let to = (grid.weights(deep, w.columns, w.order), TensorType::new([deep, n], f16));
                let from = TensorType::new([depth, n], f16);
                let view = rows_view(n, range);
                let moved = moves::exact(&machine, (w, &from), Some(&view), (&to.0, &to.1)).unwrap();
                // Whole blocks of equal depth need no copies.
                let even = panels % (steps_wanted * k) == 0 && rows >= steps_wanted;
                prop_assert!(!even || moved.before == 0);
                prop_assert_eq!(moved.after, 0);
                real += moved.events;
                if steps_wanted > 1 {
                    let to = (grid.left(deep, x.rows), TensorType::new([m, deep], f16));
                    let from = TensorType::new([m, depth], f16);
                    let view = columns_view(m, depth, range);
                    let moved = moves::exact(&machine, (x, &from), Some(&view), (&to.0, &to.1)).unwrap();
                    prop_assert_eq!((moved.before, moved.after), (0, 0));
                    real += moved.events;
                }
            }
            let price = price.moved.events - machine.phase(0) * (list.len() as u64 - 1);
            prop_assert!(real <= price + price / 4 + 64, "{real} of {price}");
            // Few tiles that send are taken to send all in every step.
            let many = steps_wanted == 1 || (rows >= steps_wanted && columns >= steps_wanted);
            prop_assert!(!many || price <= real + real / 4 + 64, "{real} of {price}");
        }
    }
}
