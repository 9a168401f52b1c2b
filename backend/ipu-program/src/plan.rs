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

/// Where the weights of a product are between its executions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Residency {
    /// On every tile that multiplies by them.
    #[default]
    Resident,
    /// Each element on one tile; the operator brings blocks to the others before it multiplies.
    Distributed,
}

impl Residency {
    /// All of them, in the order of the dialect's enumeration.
    pub const ALL: [Residency; 2] = [Residency::Resident, Residency::Distributed];

    /// Name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            Residency::Resident => "resident",
            Residency::Distributed => "distributed",
        }
    }

    /// The inverse of [`Residency::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
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
    /// Parts of the contraction that are worked through one after the other, at least 1. With several
    /// the left operand is distributed as well, and parts of both are brought before each step.
    pub steps: u32,
    /// Where the weights are.
    pub weights: Residency,
    /// Element type of partial sums (the result's element type where there are none).
    pub partials: ElementType,
    /// The layout that each operand must have when the operator starts; of what is distributed, the
    /// one in which each element is on one tile.
    pub operands: Vec<Layout>,
    /// Estimated compute cycles of the slowest tile (kernel law).
    pub compute_cycles: u64,
    /// Estimated exchange cycles to bring the operands, syncs included.
    pub exchange_cycles: u64,
    /// Number of candidate plans that were compared.
    pub candidates: u32,
}
