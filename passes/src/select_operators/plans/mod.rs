//! Plans: the implementations of each operator, enumerated and costed by the kernel laws.
//!
//! [`gemm`] multiplies by weights, [`batched`] multiplies what the program computes (attention is
//! two such products around a softmax), [`linear_grid`] and [`attention`] do the same where several
//! tiles share the contraction ([`parts`]), [`stream`] distributes operands of products with weights,
//! [`local`] works on the elements or rows that a tile holds,
//! [`moves`] prices what brings an operand from where it is to where a plan wants it. The word
//! arguments of a kernel call are made here, for the largest shard when costing and for each shard
//! when tiling.

pub mod attention;
pub mod batched;
pub mod gemm;
pub mod linear_grid;
pub mod local;
pub mod moves;
pub mod parts;
pub mod stream;

use ipu_program::kernels::{Kernels, share};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, ShardStorage, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::types::{ElementType, Matrix};
use ipu_target::Target;

/// The kernel that copies blocks of 32 bytes, 16 columns of f16.
pub const COPY_KERNEL: &str = "copy_blocks";
/// Bytes of such a block.
pub const COPY_BYTES: u32 = 32;

/// Which element types of partial sums a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partials {
    /// f32 accumulation only: what the model's arithmetic says.
    F32,
    /// f16 accumulation only.
    F16,
    /// Either.
    Any,
}

impl Partials {
    /// The names of the pass option, with their values.
    pub const NAMES: [(&'static str, Partials); 3] = [
        ("f32", Partials::F32),
        ("f16", Partials::F16),
        ("any", Partials::Any),
    ];
}

/// What plans are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The chip.
    pub target: &'a Target,
    /// The kernels.
    pub kernels: &'a Kernels,
    /// Tiles that may be used.
    pub tiles: u32,
    /// Allowed partial sums.
    pub partials: Partials,
    /// Plans with distributed operands that are enumerated.
    pub streams: stream::Streams,
}

/// Word arguments of a kernel call, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<(&'static str, u32)>);

impl Words {
    /// A list of names and values; a name stands in it once.
    pub fn new(list: impl Into<Vec<(&'static str, u32)>>) -> Self {
        Words(list.into())
    }

    /// With further names and values.
    #[must_use]
    pub fn with(mut self, list: impl IntoIterator<Item = (&'static str, u32)>) -> Self {
        self.0.extend(list);
        self
    }

    /// Rows divided among the workers.
    pub fn rows(rows: u32) -> Self {
        let [each, extra] = share(rows);
        Words::new([("rows_each", each), ("rows_extra", extra)])
    }

    /// Atoms of 8 bytes divided among the workers.
    pub fn atoms(atoms: u32) -> Self {
        let [each, extra] = share(atoms);
        Words::new([("atoms_each", each), ("atoms_extra", extra)])
    }

    /// Pairs of such atoms divided among the workers.
    pub fn pairs(pairs: u32) -> Self {
        let [each, extra] = share(pairs);
        Words::new([("pairs_each", each), ("pairs_extra", extra)])
    }

    /// The strides of a shard: `<prefix>_row` and `<prefix>_panel`.
    #[must_use]
    pub fn strides(self, [row, panel]: [&'static str; 2], storage: &ShardStorage) -> Self {
        self.with([(row, storage.row_stride()), (panel, storage.panel_stride())])
    }

    /// The words of a kernel in its order; the name of the first that is missing.
    ///
    /// # Errors
    /// The kernel takes a word that is not in the list.
    pub fn of(&self, words: &[String]) -> Result<Vec<u32>, String> {
        words
            .iter()
            .map(|name| {
                let found = self.0.iter().find(|w| w.0 == name).map(|w| w.1);
                found.ok_or_else(|| name.clone())
            })
            .collect()
    }
}

impl Machine<'_> {
    /// Cycles of a kernel call by its law; `None` when the registry lacks the kernel or it takes
    /// other words.
    fn cycles(&self, kernel: &str, words: &Words) -> Option<u64> {
        let kernel = self.kernels.get(kernel)?;
        Some(self.kernels.cycles(kernel, &words.of(&kernel.words).ok()?))
    }

    /// Estimated cycles of an exchange in which the fullest tile receives `words` words of 4
    /// bytes: the supervisor on its way to the row, the sync, the route to a middle row, the words.
    pub fn phase(&self, words: u64) -> u64 {
        let t = self.target;
        let route = t.first_write_after_mux + t.physical_rows + t.receive_guard;
        let entry = t.supervisor_result_cycles + t.supervisor_call_cycles;
        let entry = entry + t.supervisor_branch_cycles + 1;
        u64::from(entry + t.internal_sync_cycles + route) + words
    }
}

/// The element types that partial sums of a contraction `k` deep may have. With one block of the
/// AMP, f16 sums are rounded once, as the result of f32 sums is: both give the same.
fn partials(machine: &Machine<'_>, k: u32) -> impl Iterator<Item = ElementType> + use<> {
    let allowed = machine.partials;
    [ElementType::F32, ElementType::F16]
        .into_iter()
        .filter(move |e| match allowed {
            Partials::F32 => *e == ElementType::F32 || k <= PANEL,
            Partials::F16 => *e == ElementType::F16,
            Partials::Any => true,
        })
}

/// A layout on one copy from tile 0.
fn grid(rows: Split, columns: Split, order: ElementOrder, memory: MemoryClass) -> Layout {
    Layout {
        rows,
        columns,
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order,
        memory,
    }
}

/// A layout of few tiles at the far end of the machine, so that what they send to the tiles of a
/// product, which start at the near end, needs no copy to themselves.
fn far(layout: Layout, machine: &Machine<'_>) -> Layout {
    let tiles = layout.tile_end() - layout.first_tile;
    if tiles > machine.tiles / 2 {
        return layout;
    }
    Layout {
        first_tile: machine.tiles - tiles,
        ..layout
    }
}

/// The same layout in several copies.
fn copied(layout: Layout, copies: u32, stride: u32) -> Layout {
    Layout {
        copies,
        copy_stride: if copies > 1 { stride } else { 0 },
        ..layout
    }
}

/// Bytes of the shards of layouts with their element types.
fn bytes(list: &[(&Layout, ElementType)]) -> u64 {
    list.iter()
        .map(|(l, e)| u64::from(l.storage(*e).bytes()))
        .sum()
}

/// One implementation of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The plan, without its exchange cycles.
    pub plan: Plan,
    /// The layout of its result.
    pub result: Layout,
    /// Bytes that it needs on the fullest tile, all operands included.
    pub bytes: u64,
}

impl Candidate {
    /// A candidate on the grid of its result, with no part of the contraction elsewhere and no
    /// exchange of its own. `partials` is the element type of partial sums, `compute_cycles` those
    /// of the fullest tile, `bytes` its memory with all operands.
    pub(super) fn new(
        family: Family,
        operands: Vec<Layout>,
        result: Layout,
        partials: ElementType,
        compute_cycles: u64,
        bytes: u64,
    ) -> Self {
        Candidate {
            plan: Plan {
                family,
                grid_rows: result.rows.parts,
                grid_columns: result.columns.parts,
                grid_k: 1,
                steps: 1,
                weights: Residency::Resident,
                partials,
                operands,
                compute_cycles,
                exchange_cycles: 0,
                candidates: 0,
            },
            result,
            bytes,
        }
    }
}

/// The `most` candidates with the fewest cycles among those that a tile can hold, and those with the
/// fewest bytes of all. What operands cost is not known here: each is taken to arrive once.
fn best(machine: &Machine<'_>, candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    let mut keyed: Vec<(u64, Candidate)> = candidates
        .into_iter()
        .map(|c| {
            let moved =
                c.plan.operands.iter().filter(|l| {
                    !matches!(l.order, ElementOrder::Weights8 | ElementOrder::Weights16)
                });
            let words = bytes(&moved.map(|l| (l, ElementType::F16)).collect::<Vec<_>>()) / 4;
            (c.plan.compute_cycles + c.plan.exchange_cycles + words, c)
        })
        .collect();
    let smallest = keyed.iter().min_by_key(|(key, c)| (c.bytes, *key)).cloned();
    keyed.retain(|(_, c)| fits(machine, c));
    keyed.sort_by_key(|(key, _)| *key);
    keyed.truncate(most.saturating_sub(1));
    let mut out: Vec<Candidate> = keyed.into_iter().map(|(_, c)| c).collect();
    out.extend(smallest.map(|(_, c)| c).filter(|c| !out.contains(c)));
    out
}

/// Whether a tile has the memory that a candidate needs.
fn fits(machine: &Machine<'_>, candidate: &Candidate) -> bool {
    candidate.bytes <= u64::from(machine.target.memory_end - machine.target.memory_base)
}

/// Every distinct block size that dividing `extent` into 1 to `parts` parts gives, descending
/// blocks; at most about twice the square root of `extent` of them.
fn blocks(extent: u32, parts: u32) -> Vec<u32> {
    let mut out = Vec::new();
    let mut p = 1;
    while p <= parts.min(extent) {
        let block = extent.div_ceil(p);
        out.push(block);
        // The smallest number of parts with a smaller block.
        p = if block == 1 {
            break;
        } else {
            extent.div_ceil(block - 1).max(p + 1)
        };
    }
    out
}

/// The layout that a matrix gets where nobody asks for another: rows spread over all tiles.
pub fn spread(tiles: u32, matrix: Matrix, order: ElementOrder) -> Layout {
    Layout {
        rows: Split::even(matrix.rows, tiles.min(matrix.rows), 1, 1),
        columns: Split::whole(matrix.columns),
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order,
        memory: MemoryClass::Any,
    }
}

/// The layout in which an argument arrives for an operator that wants it in `to`: in its order, on
/// the tiles that will hold it, each element once. Where `to` has several copies their tiles share the
/// columns, so that what a tile sends to the others is contiguous.
pub fn arrival(to: &Layout, matrix: Matrix) -> Layout {
    let panels = matrix.columns.div_ceil(PANEL);
    let columns = if to.copies > 1 {
        let parts = panels.div_ceil(panels.div_ceil(to.copies));
        Split::even(matrix.columns, parts, PANEL, to.copy_stride)
    } else {
        to.columns
    };
    Layout {
        columns: if columns.parts == 1 {
            Split::whole(matrix.columns)
        } else {
            columns
        },
        copies: 1,
        copy_stride: 0,
        memory: MemoryClass::Any,
        ..to.clone()
    }
}

/// Whether two layouts differ only in the memory they ask for.
pub fn same_places(a: &Layout, b: &Layout) -> bool {
    Layout {
        memory: MemoryClass::Any,
        ..a.clone()
    } == Layout {
        memory: MemoryClass::Any,
        ..b.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn kernels_use_all_workers_of_the_chip() {
        assert_eq!(ipu_program::kernels::WORKERS, Target::ipu21().workers);
    }

    #[test]
    fn blocks_are_all_distinct_divisions() {
        for extent in 1..200u32 {
            let all: std::collections::BTreeSet<u32> =
                (1..=extent).map(|p: u32| extent.div_ceil(p)).collect();
            let mut got = blocks(extent, u32::MAX);
            got.reverse();
            assert_eq!(got, all.into_iter().collect::<Vec<_>>(), "{extent}");
        }
        assert_eq!(blocks(100, 3), [100, 50, 34]);
    }
}
