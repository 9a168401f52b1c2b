//! Results of which several tiles hold a part each: blocks of whole panels, side by side in one
//! tensor, that a scatter brings to where they are added.
//!
//! The tensor has a group of columns for each part of the result's columns, in it one block for
//! each part of the contraction. Where partial sums are computed a tile has one block; where they are
//! added it has the whole group for its rows. Both are layouts of the same tensor, so that the
//! scatter is a rearrangement without a view, and in panels a run of rows is one message.

use super::{Machine, Words, grid, moves};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::types::{ElementType, TensorType};

/// The deepest contraction, in blocks of 16, whose sums are f16 where several tiles share it. Each
/// block rounds the sum once, by up to 2^-12 of it; equal products round in the same direction. Six
/// blocks of the attention block's constant data are off by 2.4e-4 of the result, seven by 1.2e-3;
/// more parts cost little, since those are added in f32.
pub const MOST_F16_BLOCKS: u32 = 6;

/// Whether sums of an element type may be `k` deep in one part.
pub(super) fn accurate(element: ElementType, k: u32) -> bool {
    element != ElementType::F16 || k.div_ceil(PANEL) <= MOST_F16_BLOCKS
}

/// Partial results and the layouts in which they are computed and added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Parts of the contraction.
    pub parts: u32,
    /// Columns of a block, whole panels.
    pub width: u32,
    /// All blocks.
    pub ty: TensorType,
    /// One block a tile.
    pub partial: Layout,
    /// All blocks of some rows on a tile.
    pub staging: Layout,
}

impl Parts {
    /// `parts` parts of a result of `rows` rows in `result`, of which each tile computes the rows
    /// that `computed` says, in blocks of `width` columns. The parts of a block's columns are
    /// computed on neighbouring tiles.
    pub fn new(
        parts: u32,
        rows: u32,
        width: u32,
        computed: Split,
        result: &Layout,
        element: ElementType,
    ) -> Self {
        let groups = result.columns.parts;
        let columns = groups * parts * width;
        let blocks = Split {
            parts: groups * parts,
            block: width,
            stride: 1,
            unit: width,
            ..Split::whole(columns)
        };
        let gathered = Split {
            parts: groups,
            block: parts * width,
            stride: result.columns.stride,
            unit: if groups == 1 { 1 } else { parts * width },
            ..Split::whole(columns)
        };
        // What the AMP leaves in f16 it reads there.
        let memory = match element {
            ElementType::F16 => MemoryClass::Interleaved,
            _ => MemoryClass::Any,
        };
        let partial = grid(
            computed,
            blocks.grouped(parts, result.columns.stride),
            ElementOrder::Panels,
            memory,
        );
        Parts {
            parts,
            width,
            ty: TensorType::new([rows, columns], element),
            partial,
            staging: Layout {
                columns: gathered,
                memory: MemoryClass::Interleaved,
                ..result.clone()
            },
        }
    }

    /// Bytes from a part to the next where they are added.
    pub fn stride(&self) -> u32 {
        self.width / PANEL * self.staging.storage(self.ty.element).panel_stride()
    }

    /// The word arguments of adding the parts of `columns` columns of the result.
    pub fn words(&self, columns: u32) -> Words {
        let elements = self.staging.rows.block * columns.next_multiple_of(PANEL);
        let words = match self.ty.element {
            ElementType::F16 => Words::pairs(elements / 8),
            _ => Words::atoms(elements / 4),
        };
        words.with([("parts", self.parts), ("part_stride", self.stride())])
    }

    /// Estimated cycles of the scatter: the copy of what a tile has itself, then one phase.
    pub(super) fn scatter_cycles(&self, machine: &Machine<'_>) -> u64 {
        let bytes = u64::from(self.staging.storage(self.ty.element).bytes());
        let others = bytes / u64::from(self.parts) * u64::from(self.parts - 1);
        let wide = self.width * self.ty.element.bytes() / ElementType::F16.bytes();
        let own = moves::local_copy(machine, self.staging.rows.block, wide);
        let messages = (self.parts - 1) * (self.width / PANEL);
        own + machine.phase(others / 4 + u64::from(messages) * moves::MESSAGE)
    }

    /// Bytes of both forms on a tile.
    pub(super) fn bytes(&self) -> u64 {
        let element = self.ty.element;
        super::bytes(&[(&self.partial, element), (&self.staging, element)])
    }
}
