//! What it costs to bring an operand from where it is to where a plan wants it.

use super::{COPY_BYTES, COPY_KERNEL, Machine, Words, same_places};
use ipu_program::layout::{ElementOrder, Layout, PANEL, Shard};
use ipu_program::tile::View;
use ipu_program::types::{Matrix, TensorType};
use std::collections::BTreeMap;

/// Estimated cycles of copying blocks of 16 columns on a tile.
pub(super) fn local_copy(machine: &Machine<'_>, rows: u32, columns: u32) -> u64 {
    let words = Words::rows(rows).with([
        ("panels", columns.div_ceil(PANEL)),
        ("src_offset", 0),
        ("dst_offset", 0),
        ("src_row", 0),
        ("src_panel", 0),
        ("dst_row", 0),
        ("dst_panel", 0),
    ]);
    machine.cycles(COPY_KERNEL, &words).unwrap_or(0)
}

/// Estimated cycles to bring a tensor from one layout to another: packing into panels where it
/// is in rows, one phase in which the fullest tile receives its shard, the copy of what a tile
/// has itself, unpacking where rows are wanted.
pub fn exchange(machine: &Machine<'_>, from: &Layout, to: &Layout, ty: &TensorType) -> u64 {
    if same_places(from, to) {
        return 0;
    }
    // Once for each 32 bytes of a row of a panel.
    let calls = u64::from(PANEL * ty.element.bytes() / COPY_BYTES);
    let copy = |rows: u32, columns: u32| calls * local_copy(machine, rows, columns);
    let panels = |l: &Layout| Layout {
        order: ElementOrder::Panels,
        ..l.clone()
    };
    if same_places(&panels(from), &panels(to)) {
        return copy(from.rows.block, from.columns.block);
    }
    let mut cycles = 0;
    if from.order == ElementOrder::Rows {
        cycles += copy(from.rows.block, from.columns.block);
    }
    if to.order == ElementOrder::Rows {
        cycles += copy(to.rows.block, to.columns.block);
    }
    if from.first_tile < to.tile_end() && to.first_tile < from.tile_end() {
        let rows = from.rows.block.min(to.rows.block);
        cycles += copy(rows, from.columns.block.min(to.columns.block));
    }
    cycles + machine.phase(u64::from(to.storage(ty.element).bytes() / 4))
}

/// Most pieces that one estimate looks at; beyond, the sizes alone decide.
const MAX_PIECES: u64 = 50_000;

/// Estimated cycles to bring a view of a tensor of type `from_ty` in `from` to a tensor of type
/// `to_ty` in `to`. Looks at the first, the middle and the last tile of the destination: what they
/// hold already, they copy; what they lack, they receive in one phase.
pub fn viewed(
    machine: &Machine<'_>,
    (from, from_ty): (&Layout, &TensorType),
    view: &View,
    (to, to_ty): (&Layout, &TensorType),
) -> u64 {
    let (source, destination) = (from_ty.matrix(), to_ty.matrix());
    let shards = to.shards(destination);
    let finder = Tiles::new(from, source);
    let lookup = Inverse::new(view);
    let mut worst = 0;
    let count = shards.len();
    for i in [0, count / 2, count.saturating_sub(1)] {
        let Some(shard) = shards.get(i) else { continue };
        let (mut here, mut away, mut runs) = (0u64, 0u64, 0u64);
        let pieces =
            shard.rows.len() as u64 * (shard.columns.len() as u64).div_ceil(u64::from(PANEL));
        if pieces > MAX_PIECES {
            return machine.phase(u64::from(to.storage(to_ty.element).bytes() / 4));
        }
        for row in shard.rows.clone() {
            let mut column = shard.columns.start;
            while column < shard.columns.end {
                let number = u64::from(row) * u64::from(destination.columns) + u64::from(column);
                let left = (shard.columns.end - column).min(PANEL);
                let (length, element) = lookup.run(number, left);
                if let Some(element) = element {
                    let at = (element / u64::from(source.columns)) as u32;
                    let place = (element % u64::from(source.columns)) as u32;
                    if finder.holds(shard.tile, at, place) {
                        here += u64::from(length);
                    } else {
                        away += u64::from(length);
                    }
                    runs += 1;
                }
                column += length;
            }
        }
        let size = u64::from(to_ty.element.bytes());
        // Short runs are copied word by word, long ones in blocks of 32 bytes.
        let mut cycles = if here > 0 { 150 + here * size / 4 } else { 0 };
        if away > 0 {
            cycles += machine.phase((away * size).div_ceil(4) + runs);
        }
        worst = worst.max(cycles);
    }
    worst
}

/// Which tiles hold which part of a tensor.
struct Tiles {
    shards: BTreeMap<u32, Vec<Shard>>,
}

impl Tiles {
    fn new(layout: &Layout, matrix: Matrix) -> Self {
        let mut shards: BTreeMap<u32, Vec<Shard>> = BTreeMap::new();
        for shard in layout.shards(matrix) {
            shards.entry(shard.tile).or_default().push(shard);
        }
        Tiles { shards }
    }

    fn holds(&self, tile: u32, row: u32, column: u32) -> bool {
        self.shards.get(&tile).is_some_and(|list| {
            list.iter()
                .any(|s| s.rows.contains(&row) && s.columns.contains(&column))
        })
    }
}

/// From elements of the destination of a view to those of its source.
struct Inverse<'a> {
    view: &'a View,
    /// Axes by descending destination stride.
    order: Vec<usize>,
}

impl<'a> Inverse<'a> {
    fn new(view: &'a View) -> Self {
        let mut order: Vec<usize> = (0..view.shape.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(view.destination_strides[i]));
        Inverse { view, order }
    }

    /// The source element of destination element `number`, and how many of the next `limit` follow
    /// it in the source. Elements that the view does not write have none.
    fn run(&self, number: u64, limit: u32) -> (u32, Option<u64>) {
        let Some(mut rest) = number.checked_sub(self.view.destination_offset) else {
            return (1, None);
        };
        let mut element = self.view.source_offset;
        let mut length = 1;
        for &i in &self.order {
            let stride = self.view.destination_strides[i].max(1);
            let index = rest / stride;
            if index >= u64::from(self.view.shape[i]) {
                return (1, None);
            }
            rest %= stride;
            element += index * self.view.source_strides[i];
            if stride == 1 && self.view.source_strides[i] == 1 {
                length = (u64::from(self.view.shape[i]) - index).min(u64::from(limit)) as u32;
            }
        }
        if rest == 0 {
            (length.max(1), Some(element))
        } else {
            (1, None)
        }
    }
}
