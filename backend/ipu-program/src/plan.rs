//! Plans: how one operator is executed on the chip.

use crate::layout::Layout;
use crate::types::ElementType;
use serde::{Deserialize, Serialize};

/// The family of kernels that executes an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// AMP matrix product with f16 operands, bias and activation in the kernel.
    Gemm,
    /// Elementwise over equal layouts.
    Elementwise,
    /// Row by row: normalisations, softmax.
    Rowwise,
    /// Sum, mean or maximum over axes.
    Reduce,
    /// Scores, softmax and their product with the values, head by head.
    Attention,
    /// Only moves elements.
    View,
}

impl Family {
    /// All families, in the order of the dialect's enumeration.
    pub const ALL: [Family; 6] = [
        Family::Gemm,
        Family::Elementwise,
        Family::Rowwise,
        Family::Reduce,
        Family::Attention,
        Family::View,
    ];

    /// Name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            Family::Gemm => "gemm",
            Family::Elementwise => "elementwise",
            Family::Rowwise => "rowwise",
            Family::Reduce => "reduce",
            Family::Attention => "attention",
            Family::View => "view",
        }
    }

    /// The inverse of [`Family::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// How one operator is executed. The layout of the result stands on the result value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Kernel family.
    pub family: Family,
    /// Parts of the result's rows.
    pub grid_rows: u32,
    /// Parts of the result's columns.
    pub grid_columns: u32,
    /// Parts of the contraction axis, whose partial sums are added afterwards.
    pub grid_k: u32,
    /// Element type of partial sums (the result's element type where there are none).
    pub partials: ElementType,
    /// The layout that each operand must have when the operator starts.
    pub operands: Vec<Layout>,
    /// Estimated compute cycles of the slowest tile (kernel law).
    pub compute_cycles: u64,
    /// Estimated exchange cycles to bring the operands, syncs included.
    pub exchange_cycles: u64,
    /// Number of candidate plans that were compared.
    pub candidates: u32,
}
