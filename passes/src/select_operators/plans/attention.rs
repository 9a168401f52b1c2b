//! Attention on a grid of heads x parts of the queries x parts of the keys.
//!
//! Tile `h * qp * kp + i * kp + j` has part `i` of the queries and part `j` of the keys of head `h`:
//! it computes their scores, the softmax as far as these keys go (exponentials relative to the
//! largest of them, with their sum and that score), and the product with its part of the values.
//! The `kp` tiles of a query part then share the rest: each gets all parts of its share of the rows
//! and puts them together, weighted by what the largest scores say.

use super::batched::{
    Attention, Product, TRANSPOSE_KERNEL, kernel, result_memory, transpose_words,
};
use super::local::row_words;
use super::parts::{Parts, accurate};
use super::{Candidate, Machine, Words, best, blocks, bytes, copied, grid, partials};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::types::{ElementType, TensorType};

/// The kernel of the softmax of a part of the keys.
pub const SOFTMAX_KERNEL: &str = "softmax_partial_f16";

/// The kernel that puts the products of the parts together.
pub const COMBINE_KERNEL: &str = "combine_softmax_f16";

/// The element type of the sums of scores, whatever type those of the products with values have: an
/// error of a score is a factor of its exponential. With scores of the attention block four times as
/// large f16 sums here make up half of the error.
const SCORE_SUMS: ElementType = ElementType::F32;

/// The kernel of scores of a depth.
pub fn score_kernel(depth: u32) -> String {
    kernel(ElementType::F16, SCORE_SUMS, depth)
}

/// Plans that are handed on, those with the fewest cycles.
const MOST: usize = 32;

/// The buffers of attention on a grid. Rows of the scores are those of all heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Scores and exponentials.
    pub scores: TensorType,
    /// Their layout.
    pub score_layout: Layout,
    /// Transposed values: a matrix of whole blocks for each head.
    pub turned: TensorType,
    /// Their layout.
    pub turned_layout: Layout,
    /// Products of exponentials and values, behind those of each part its sums and scales.
    pub parts: Parts,
}

impl Spread {
    /// The buffers for `matrices` heads, queries in `q` and keys in `k`, with `partials` in products
    /// with values.
    pub fn new(
        matrices: u32,
        a: &Attention,
        [q, k, result]: [&Layout; 3],
        partials: ElementType,
    ) -> Self {
        let f16 = ElementType::F16;
        let rows = matrices * a.queries;
        let key_parts = k.rows.parts / matrices;
        let keys = Split::even(a.keys, key_parts, 1, 1);
        let panels = |rows, columns, memory| grid(rows, columns, ElementOrder::Panels, memory);
        let high = a.padded_width();
        let head_stride = match matrices {
            1 => 0,
            _ => k.rows.group_stride,
        };
        let turned = panels(
            Split::even(matrices * high, matrices, high, head_stride),
            keys,
            MemoryClass::Interleaved,
        );
        let mut parts = Parts::new(key_parts, rows, high + PANEL, q.rows, result, f16);
        parts.partial.memory = result_memory(ElementType::F16, partials, k.rows.block);
        Spread {
            scores: TensorType::new([rows, a.keys], f16),
            score_layout: panels(
                q.rows,
                keys,
                result_memory(ElementType::F16, SCORE_SUMS, a.depth),
            ),
            turned: TensorType::new([matrices * high, a.keys], f16),
            turned_layout: copied(turned, k.copies, k.copy_stride),
            parts,
        }
    }

    /// Bytes from the products of a part to its sums and scales, where they are computed.
    fn stats_offset(&self) -> u32 {
        let width = self.parts.width / PANEL - 1;
        width * self.parts.partial.storage(ElementType::F16).panel_stride()
    }

    /// The word arguments of the scores of `rows` queries and `keys` keys.
    pub fn score_words(&self, [rows, keys]: [u32; 2], depth: u32, q: &Layout, k: &Layout) -> Words {
        let f16 = ElementType::F16;
        let product = Product {
            batches: 1,
            rows,
            k: depth,
            columns: keys,
            stored: k.rows.block,
        };
        product.words(
            &q.storage(f16),
            &k.storage(f16),
            &self.score_layout.storage(f16),
        )
    }

    /// The word arguments of their softmax.
    pub fn softmax_words(&self, [rows, keys]: [u32; 2], scale: f32) -> Words {
        let storage = self.score_layout.storage(ElementType::F16);
        row_words(rows, keys, &storage, &storage).with([
            ("scale", scale.to_bits()),
            ("stats_offset", self.stats_offset()),
        ])
    }

    /// The word arguments of the transposition of `keys` values of `width` columns.
    pub fn turn_words(&self, keys: u32, width: u32, v: &Layout) -> Words {
        let f16 = ElementType::F16;
        let (from, to) = (v.storage(f16), self.turned_layout.storage(f16));
        transpose_words(1, keys, width, &from, &to)
    }

    /// The word arguments of the product of exponentials and values.
    pub fn value_words(&self, [rows, keys]: [u32; 2], width: u32) -> Words {
        let f16 = ElementType::F16;
        let product = Product {
            batches: 1,
            rows,
            k: keys,
            columns: width,
            stored: self.turned_layout.rows.block,
        };
        product.words(
            &self.score_layout.storage(f16),
            &self.turned_layout.storage(f16),
            &self.parts.partial.storage(f16),
        )
    }

    /// The word arguments of putting the parts of `rows` rows together.
    pub fn combine_words(&self, rows: u32, result: &Layout) -> Words {
        let f16 = ElementType::F16;
        Words::rows(rows).with([
            ("panels", self.parts.width / PANEL - 1),
            ("parts", self.parts.parts),
            ("part_stride", self.parts.stride()),
            (
                "partial_panel",
                self.parts.staging.storage(f16).panel_stride(),
            ),
            ("out_panel", result.storage(f16).panel_stride()),
        ])
    }

    /// Lines of 64 bytes of scratch that the combination needs on a tile: 24 bytes a part.
    pub fn scratch_lines(&self) -> u32 {
        (24 * self.parts.parts).div_ceil(64)
    }
}

/// The rows of `matrices` matrices of `extent` rows, `each` parts of every one.
fn rows(matrices: u32, extent: u32, each: u32, stride: u32) -> Split {
    Split {
        parts: matrices * each,
        block: extent.div_ceil(each),
        stride,
        period: if matrices > 1 { extent } else { 0 },
        ..Split::whole(extent)
    }
}

/// The better plans of attention over `matrices` matrices in which several tiles share the keys.
pub fn plans(machine: &Machine<'_>, matrices: u32, a: &Attention) -> Vec<Candidate> {
    let mut out = Vec::new();
    let tiles = machine.tiles.checked_div(matrices).unwrap_or(0);
    for block in blocks(a.queries, tiles / 2) {
        let qp = a.queries.div_ceil(block);
        // Each tile has a share of the result's rows.
        let most = (tiles / qp).min(a.keys).min(a.queries / qp);
        let mut tried = 0;
        for halvings in 0..=most.max(1).ilog2() {
            let kp = a.keys.div_ceil(a.keys.div_ceil((most >> halvings).max(1)));
            if kp == tried || kp == 1 {
                continue;
            }
            tried = kp;
            let deep = a.keys.div_ceil(kp);
            for partials in partials(machine, deep).filter(|&e| accurate(e, deep)) {
                out.extend(plan(machine, matrices, a, [qp, kp], partials));
            }
        }
    }
    best(machine, out, MOST)
}

fn plan(
    machine: &Machine<'_>,
    matrices: u32,
    a: &Attention,
    [qp, kp]: [u32; 2],
    partials: ElementType,
) -> Option<Candidate> {
    let f16 = ElementType::F16;
    let panels = |rows, columns, memory| {
        let columns = Split::whole(columns);
        grid(rows, columns, ElementOrder::Panels, memory)
    };
    let query_rows = rows(matrices, a.queries, qp, kp);
    let key_rows = rows(matrices, a.keys, kp, 1).grouped(kp, qp * kp);
    let own = panels(query_rows, a.depth, MemoryClass::Any);
    let q = copied(own, kp, 1);
    let shared = |width, memory| copied(panels(key_rows, width, memory), qp, kp);
    let k = shared(a.depth, MemoryClass::Interleaved);
    let v = shared(a.width, MemoryClass::Any);
    let result = panels(
        rows(matrices, a.queries, qp * kp, 1),
        a.width,
        MemoryClass::Any,
    );
    let s = Spread::new(matrices, a, [&q, &k, &result], partials);
    let shape = [query_rows.block, key_rows.block];
    let compute = [
        (score_kernel(a.depth), s.score_words(shape, a.depth, &q, &k)),
        (SOFTMAX_KERNEL.to_owned(), s.softmax_words(shape, 1.0)),
        (
            TRANSPOSE_KERNEL.to_owned(),
            s.turn_words(shape[1], a.width, &v),
        ),
        (
            kernel(ElementType::F16, partials, shape[1]),
            s.value_words(shape, a.width),
        ),
        (
            COMBINE_KERNEL.to_owned(),
            s.combine_words(result.rows.block, &result),
        ),
    ];
    let cycles: Option<u64> = compute
        .iter()
        .map(|(kernel, words)| machine.cycles(kernel, words))
        .sum();
    let compute_cycles = cycles?;
    let held = [
        &q,
        &k,
        &v,
        &s.score_layout,
        &s.score_layout,
        &s.turned_layout,
        &result,
    ];
    let mut memory = bytes(&held.map(|l| (l, f16))) + s.parts.bytes();
    memory += u64::from(s.scratch_lines()) * 64;
    memory += u64::from(query_rows.block) * 32;
    Some(Candidate {
        plan: Plan {
            family: Family::Attention,
            grid_rows: matrices * qp,
            grid_columns: 1,
            grid_k: kp,
            steps: 1,
            weights: Residency::Resident,
            partials,
            operands: vec![q, k, v],
            compute_cycles,
            exchange_cycles: s.parts.scatter_cycles(machine),
            candidates: 0,
        },
        result,
        bytes: memory,
    })
}
