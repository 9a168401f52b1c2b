//! Layouts: a closed-form description of which tile holds which part of a tensor, in which
//! element order, resolved once into shard rectangles.
//!
//! A layout speaks of the matrix view of a tensor ([`crate::types::TensorType::matrix`]).

use crate::types::{ElementType, Matrix};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Columns of a panel and depth of an AMP block.
pub const PANEL: u32 = 16;

/// Bytes of a column in a block of AMP weights: 16 of K in f16, 8 in f32.
pub const WEIGHT_BYTES: u32 = 32;

/// How one axis is divided. The axis consists of periods (one where `period` is 0), each of
/// `parts / periods` parts. A part is a whole number of units, except that the last of a period may
/// end early; the parts of a period differ by at most one unit, the longer ones first. Part `p`
/// lives [`Split::tile`] tiles after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Split {
    /// Number of parts in all, at least 1.
    pub parts: u32,
    /// Elements of the longest part, at least.
    pub block: u32,
    /// Tiles from one part to the next.
    pub stride: u32,
    /// Elements that stay together, at least 1.
    pub unit: u32,
    /// Elements of a period, such as the rows of one matrix of a batch; 0 for the whole axis.
    pub period: u32,
    /// Parts that follow each other by `stride`, such as those of one matrix; 0 for all.
    pub group: u32,
    /// Tiles from a group of parts to the next; 0 where there is one group.
    pub group_stride: u32,
}

impl Split {
    /// The whole axis as one part.
    pub fn whole(extent: u32) -> Self {
        Split {
            parts: 1,
            block: extent,
            stride: 0,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        }
    }

    /// `parts` parts of whole units of an axis without periods, `stride` tiles apart. One part is
    /// the whole axis, whatever the unit. More parts than units leave the last ones empty.
    pub fn even(extent: u32, parts: u32, unit: u32, stride: u32) -> Self {
        if parts <= 1 {
            return Split::whole(extent);
        }
        let unit = unit.max(1);
        Split {
            parts,
            block: extent
                .div_ceil(unit)
                .div_ceil(parts)
                .saturating_mul(unit)
                .min(extent),
            stride,
            unit,
            period: 0,
            group: 0,
            group_stride: 0,
        }
    }

    /// The same parts with `group` of them following each other and `group_stride` tiles from each
    /// such group to the next.
    #[must_use]
    pub fn grouped(self, group: u32, group_stride: u32) -> Self {
        let one = group >= self.parts;
        Split {
            group: if one { 0 } else { group },
            group_stride: if one { 0 } else { group_stride },
            ..self
        }
    }

    /// Tiles from the first part to part `p`.
    pub fn tile(&self, p: u32) -> u32 {
        match self.group {
            0 => p * self.stride,
            group => p / group * self.group_stride + p % group * self.stride,
        }
    }

    /// Tiles from the first part to the farthest one.
    pub fn reach(&self) -> u32 {
        let last = self.parts - 1;
        match self.group {
            0 => self.tile(last),
            // The last group may be shorter.
            group => self
                .tile(last)
                .max(self.tile((last / group * group).saturating_sub(1))),
        }
    }

    /// The elements of part `p` of an axis of `extent` elements, empty where there are fewer units
    /// than parts.
    pub fn range(&self, p: u32, extent: u32) -> Range<u32> {
        let period = if self.period == 0 {
            extent.max(1)
        } else {
            self.period
        };
        let unit = self.unit.max(1);
        let each = (self.parts / extent.div_ceil(period).max(1)).max(1);
        let (first, i) = (u64::from(p / each) * u64::from(period), p % each);
        let units = period.div_ceil(unit);
        let (base, longer) = (units / each, units % each);
        let at = |i: u32| {
            let within = u64::from(i * base + i.min(longer)) * u64::from(unit);
            (first + within.min(period.into())).min(extent.into()) as u32
        };
        at(i)..at(i + 1)
    }
}

/// Order of the elements of a shard in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ElementOrder {
    /// Row after row; each row padded with zeros to a multiple of 16 elements.
    Rows,
    /// Panels of 16 columns, each row after row: the AMP left operand and result.
    Panels,
    /// AMP weights: groups of 8 columns, in each group blocks of 16 rows (K; 8 for f32), in each
    /// block column after column, K fastest. For f16 with f32 partials, two passes of 8 columns.
    Weights8,
    /// As `Weights8` with groups of 16 columns. For f16 partials, and for f32.
    Weights16,
}

impl ElementOrder {
    /// Name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            ElementOrder::Rows => "rows",
            ElementOrder::Panels => "panels",
            ElementOrder::Weights8 => "weights8",
            ElementOrder::Weights16 => "weights16",
        }
    }

    /// The inverse of [`ElementOrder::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Rows, Self::Panels, Self::Weights8, Self::Weights16]
            .into_iter()
            .find(|o| o.name() == name)
    }
}

/// Which memory a buffer may live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemoryClass {
    /// Either region.
    Any,
    /// Region 0 only.
    Standard,
    /// Region 1 only: in-place AMP accumulators and 128-bit loads.
    Interleaved,
}

impl MemoryClass {
    /// Name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            MemoryClass::Any => "any",
            MemoryClass::Standard => "standard",
            MemoryClass::Interleaved => "interleaved",
        }
    }

    /// The inverse of [`MemoryClass::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Any, Self::Standard, Self::Interleaved]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

/// Where each element of a tensor lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Division of the rows.
    pub rows: Split,
    /// Division of the columns.
    pub columns: Split,
    /// Number of copies of the whole tensor, at least 1.
    pub copies: u32,
    /// Tiles from one copy to the next.
    pub copy_stride: u32,
    /// Tile of the first part of the first copy.
    pub first_tile: u32,
    /// Order of the elements within a shard.
    pub order: ElementOrder,
    /// Memory that the shards need.
    pub memory: MemoryClass,
}

/// The part of a tensor that one tile holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Logical tile.
    pub tile: u32,
    /// Rows of the matrix view.
    pub rows: Range<u32>,
    /// Columns of the matrix view.
    pub columns: Range<u32>,
}

impl Layout {
    /// The shards of a matrix, in order of copy, row part, column part; empty parts have none. The
    /// matrix is the tensor's ([`crate::types::TensorType::matrix`]), not padded.
    pub fn shards(&self, matrix: Matrix) -> Vec<Shard> {
        let mut shards = Vec::new();
        for copy in 0..self.copies {
            for r in 0..self.rows.parts {
                let rows = self.rows.range(r, matrix.rows);
                for c in 0..self.columns.parts {
                    let columns = self.columns.range(c, matrix.columns);
                    if rows.is_empty() || columns.is_empty() {
                        continue;
                    }
                    let tile = self.first_tile
                        + copy * self.copy_stride
                        + self.rows.tile(r)
                        + self.columns.tile(c);
                    shards.push(Shard {
                        tile,
                        rows: rows.clone(),
                        columns,
                    });
                }
            }
        }
        shards
    }

    /// How the largest shard is stored, in elements of `element`: the memory that every tile keeps.
    pub fn storage(&self, element: ElementType) -> ShardStorage {
        ShardStorage {
            order: self.order,
            rows: self.rows.block,
            columns: self.columns.block,
            element,
        }
    }

    /// How one shard is stored within the bytes that [`Layout::storage`] says: weights follow each
    /// other without gaps, so that a shard of fewer rows has its column groups closer together.
    pub fn shard_storage(&self, shard: &Shard, element: ElementType) -> ShardStorage {
        let storage = self.storage(element);
        match self.order {
            ElementOrder::Rows | ElementOrder::Panels => storage,
            ElementOrder::Weights8 | ElementOrder::Weights16 => ShardStorage {
                rows: shard.rows.len() as u32,
                ..storage
            },
        }
    }

    /// One past the highest tile that the layout can use.
    pub fn tile_end(&self) -> u32 {
        self.first_tile
            + (self.copies - 1) * self.copy_stride
            + self.rows.reach()
            + self.columns.reach()
            + 1
    }
}

/// The storage of one shard: extents in elements, before padding. Padding elements are zero:
/// every kernel relies on and keeps this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStorage {
    /// Element order.
    pub order: ElementOrder,
    /// Rows of a full shard.
    pub rows: u32,
    /// Columns of a full shard.
    pub columns: u32,
    /// Element type.
    pub element: ElementType,
}

impl ShardStorage {
    /// Columns after padding to a multiple of 16.
    pub fn padded_columns(&self) -> u32 {
        self.columns
            .checked_next_multiple_of(PANEL)
            .unwrap_or(u32::MAX)
    }

    /// Rows after padding: weights are padded to blocks of 16 of K.
    pub fn padded_rows(&self) -> u32 {
        match self.order {
            ElementOrder::Rows | ElementOrder::Panels => self.rows,
            ElementOrder::Weights8 | ElementOrder::Weights16 => self
                .rows
                .checked_next_multiple_of(PANEL)
                .unwrap_or(u32::MAX),
        }
    }

    /// Bytes of the shard, padding included; `u32::MAX` if they are more than that.
    pub fn bytes(&self) -> u32 {
        let elements = u64::from(self.padded_rows()) * u64::from(self.padded_columns());
        let bytes = elements.saturating_mul(u64::from(self.element.bytes()));
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Bytes from a row to the next (within a panel for `Panels`; not defined for weights).
    pub fn row_stride(&self) -> u32 {
        match self.order {
            ElementOrder::Rows => self.padded_columns() * self.element.bytes(),
            _ => PANEL * self.element.bytes(),
        }
    }

    /// Bytes from a group of 16 columns to the next at the same row.
    pub fn panel_stride(&self) -> u32 {
        match self.order {
            ElementOrder::Rows => PANEL * self.element.bytes(),
            _ => self.padded_rows() * PANEL * self.element.bytes(),
        }
    }

    /// Byte offset of an element, given its row and column within the shard (both below the
    /// padded extents).
    pub fn offset(&self, row: u32, column: u32) -> u32 {
        let e = self.element.bytes();
        match self.order {
            ElementOrder::Rows => (row * self.padded_columns() + column) * e,
            ElementOrder::Panels => {
                ((column / PANEL * self.rows + row) * PANEL + column % PANEL) * e
            }
            ElementOrder::Weights8 | ElementOrder::Weights16 => {
                let group = if self.order == ElementOrder::Weights8 {
                    8
                } else {
                    16
                };
                // A column of a block is what the AMP takes of it at a time: 32 bytes.
                let depth = WEIGHT_BYTES / e;
                let blocks = self.padded_rows() / depth;
                let block = column / group * blocks + row / depth;
                (block * group + column % group) * WEIGHT_BYTES + row % depth * e
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn order() -> impl Strategy<Value = ElementOrder> {
        prop_oneof![
            Just(ElementOrder::Rows),
            Just(ElementOrder::Panels),
            Just(ElementOrder::Weights8),
            Just(ElementOrder::Weights16)
        ]
    }

    #[test]
    fn parts_differ_by_one_unit() {
        let lengths = |split: Split, extent: u32| -> Vec<u32> {
            let ranges = (0..split.parts).map(|p| split.range(p, extent));
            ranges.map(|r| r.len() as u32).collect()
        };
        let rows = Split::even(729, 8, 1, 1);
        assert_eq!(lengths(rows, 729), [92, 91, 91, 91, 91, 91, 91, 91]);
        // The rows of two matrices, each on 8 tiles.
        let both = Split {
            parts: 16,
            period: 729,
            ..rows
        };
        let expected = [lengths(rows, 729), lengths(rows, 729)].concat();
        assert_eq!(lengths(both, 2 * 729), expected);
        assert_eq!(both.range(8, 2 * 729), 729..821);
        // Whole panels of columns, the last one cut.
        assert_eq!(lengths(Split::even(72, 2, 16, 1), 72), [48, 24]);
        let head = ShardStorage {
            order: ElementOrder::Panels,
            rows: 91,
            columns: 72,
            element: ElementType::F16,
        };
        assert_eq!(head.padded_columns(), 80);
    }

    #[test]
    fn groups_of_parts_have_a_stride_of_their_own() {
        let tiles = |s: Split| -> Vec<u32> { (0..s.parts).map(|p| s.tile(p)).collect() };
        let keys = Split::even(12, 6, 1, 1).grouped(2, 10);
        assert_eq!(tiles(keys), [0, 1, 10, 11, 20, 21]);
        // A last group that is shorter than the others.
        let cut = Split::even(10, 5, 1, 4).grouped(3, 2);
        assert_eq!((tiles(cut), cut.reach()), (vec![0, 4, 8, 2, 6], 8));
        let one = Split::even(10, 5, 1, 4);
        assert_eq!((one.grouped(5, 2), one.reach()), (one, 16));
    }

    proptest! {
        #[test]
        fn storage_is_a_bijection(rows in 1u32..40, columns in 1u32..70, order in order(), wide: bool) {
            let element = if wide { ElementType::F32 } else { ElementType::F16 };
            let s = ShardStorage { order, rows, columns, element };
            let mut seen = BTreeSet::new();
            for r in 0..s.padded_rows() {
                for c in 0..s.padded_columns() {
                    let o = s.offset(r, c);
                    prop_assert!(o.is_multiple_of(element.bytes()) && o + element.bytes() <= s.bytes());
                    prop_assert!(seen.insert(o));
                }
            }
            prop_assert_eq!(seen.len() as u32 * element.bytes(), s.bytes());
        }

        #[test]
        fn shards_cover_every_element_once_a_copy(
            rows in 1u32..50, columns in 1u32..50, rp in 1u32..6, cp in 1u32..6, copies in 1u32..4,
            unit in 1u32..20, periods in 1u32..4,
        ) {
            let rows = rows * periods;
            let layout = Layout {
                rows: Split {
                    parts: rp * periods, period: rows / periods,
                    ..Split::even(rows / periods, rp, unit, cp)
                },
                columns: Split::even(columns, cp, 16, 1),
                copies, copy_stride: periods * rp * cp, first_tile: 3,
                order: ElementOrder::Rows, memory: MemoryClass::Any,
            };
            let mut count = vec![0u32; (rows * columns) as usize];
            let mut tiles = BTreeSet::new();
            for s in layout.shards(Matrix { rows, columns }) {
                prop_assert!(s.tile < layout.tile_end());
                prop_assert!(rp == 1 || tiles.insert(s.tile));
                prop_assert!(s.rows.len() as u32 <= layout.rows.block);
                prop_assert!(s.columns.len() as u32 <= layout.columns.block);
                for r in s.rows.clone() {
                    for c in s.columns.clone() {
                        count[(r * columns + c) as usize] += 1;
                    }
                }
            }
            prop_assert!(count.iter().all(|&n| n == copies));
        }
    }
}
