//! Products of what the program computes, matrix by matrix of a batch, and attention.

use super::local::{clear_kernel, clear_words};
use super::{Candidate, Machine, Words, blocks, bytes, copied, grid, partials};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, ShardStorage, Split};
use ipu_program::plan::Family;
use ipu_program::types::{ElementType, TensorType};

/// The kernel that transposes blocks within a tile.
pub const TRANSPOSE_KERNEL: &str = "transpose_f16";

/// The partial sums that a product `k` deep is carried out with: with one block of the AMP f16
/// sums are rounded once, as the result of f32 sums is, and take less time.
fn sums(partials: ElementType, k: u32) -> ElementType {
    if k <= PANEL {
        ElementType::F16
    } else {
        partials
    }
}

/// The name of the batched matrix product kernel for operands of `element` and a depth of `k`.
pub fn kernel(element: ElementType, partials: ElementType, k: u32) -> String {
    match element {
        ElementType::F32 => "bgemm32".to_owned(),
        _ => format!("bgemm_{}", sums(partials, k)),
    }
}

/// The kernel that brings right operands of f32 to the order of AMP weights: with the rows along
/// K, or `turned` across it.
pub fn pack_kernel(turned: bool) -> &'static str {
    if turned {
        "pack_weights_turned_f32"
    } else {
        "pack_weights_f32"
    }
}

/// Right operands of f32 on a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Matrices.
    pub batches: u32,
    /// Depth.
    pub k: u32,
    /// Columns of the product.
    pub n: u32,
    /// Whether the rows of a matrix are its depth.
    pub turned: bool,
}

impl Pack {
    /// Those of a shard of `rows` rows and `columns` columns, its matrices having `matrix` rows: whole
    /// matrices, or a part of the rows of one.
    pub fn of(rows: u32, columns: u32, matrix: u32, turned: bool) -> Self {
        let (batches, rows) = if rows > matrix {
            (rows / matrix, matrix)
        } else {
            (1, rows)
        };
        let (k, n) = if turned {
            (rows, columns)
        } else {
            (columns, rows)
        };
        Pack {
            batches,
            k,
            n,
            turned,
        }
    }

    /// The word arguments.
    pub fn words(&self, from: &ShardStorage) -> Words {
        let rows = if self.turned { self.k } else { self.n };
        Words::new([
            ("batches", self.batches),
            ("groups", self.n.div_ceil(PANEL)),
            ("blocks", self.k.div_ceil(PANEL)),
            ("rows", rows),
            ("src_panel", from.panel_stride()),
            ("src_batch", rows * from.row_stride()),
        ])
    }

    /// Rows of 16 f32 that hold them packed.
    pub fn lines(&self) -> u32 {
        self.batches * self.n.div_ceil(PANEL) * self.k.next_multiple_of(PANEL)
    }
}

/// Where packed right operands lie: `lines` rows of 16 f32 on every tile of a part of `from`; with the
/// extents of that matrix.
pub fn packed(from: &Layout, lines: u32) -> (Layout, [u32; 2]) {
    let split = |split: Split, block| Split {
        block,
        unit: 1,
        period: 0,
        ..split
    };
    let layout = Layout {
        rows: split(from.rows, lines),
        columns: split(from.columns, PANEL),
        order: ElementOrder::Rows,
        memory: MemoryClass::Interleaved,
        ..from.clone()
    };
    (
        layout,
        [from.rows.parts * lines, from.columns.parts * PANEL],
    )
}

/// Memory of right operands that a product takes as they are stored.
fn right_memory(element: ElementType) -> MemoryClass {
    match element {
        // They are packed elsewhere.
        ElementType::F32 => MemoryClass::Any,
        _ => MemoryClass::Interleaved,
    }
}

/// A product `[n, t, k] * [n, s, k]^T` or `[n, t, k] * [n, k, s]` on one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Matrices on the tile.
    pub batches: u32,
    /// Rows of one left matrix on the tile.
    pub rows: u32,
    /// Depth.
    pub k: u32,
    /// Columns of the result on the tile.
    pub columns: u32,
    /// Rows of one right matrix as it is stored, its columns being the depth.
    pub stored: u32,
}

impl Product {
    /// The word arguments; `weights` holds the right matrices with the depth along its rows.
    pub fn words(&self, a: &ShardStorage, weights: &ShardStorage, out: &ShardStorage) -> Words {
        Words::rows(self.rows).with([
            ("k_blocks", self.k.div_ceil(PANEL)),
            ("groups", self.columns.div_ceil(PANEL)),
            ("a_stride", a.panel_stride()),
            ("out_stride", out.panel_stride()),
            ("w_block", weights.panel_stride()),
            ("w_group", PANEL * weights.row_stride()),
            ("batches", self.batches),
            ("a_batch", self.rows * a.row_stride()),
            ("w_batch", self.stored * weights.row_stride()),
            ("out_batch", self.rows * out.row_stride()),
        ])
    }
}

/// The word arguments that transpose `batches` matrices of `rows` rows and `columns` columns,
/// each to `padded(columns)` rows of `padded(rows)` columns.
pub fn transpose_words(
    batches: u32,
    rows: u32,
    columns: u32,
    from: &ShardStorage,
    to: &ShardStorage,
) -> Words {
    let panels = columns.div_ceil(PANEL);
    Words::new([
        ("batches", batches),
        ("rows", rows),
        ("panels", panels),
        ("src_offset", 0),
        ("dst_offset", 0),
        ("src_batch", rows * from.row_stride()),
        ("dst_batch", panels * PANEL * to.row_stride()),
    ])
    .strides(["src_row", "src_panel"], from)
    .strides(["dst_row", "dst_panel"], to)
}

/// How the matrices of a batch lie on tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Matrices.
    pub matrices: u32,
    /// Parts of the matrices, each whole.
    pub parts: u32,
    /// Matrices that stay together.
    pub unit: u32,
    /// Parts of the rows of each matrix; more than 1 only where every part is one matrix.
    pub row_parts: u32,
}

impl Spread {
    /// All ways to spread `matrices` of `rows` rows over `tiles`, keeping one or `unit` of them
    /// together.
    pub fn all(matrices: u32, rows: u32, unit: u32, tiles: u32) -> Vec<Spread> {
        let mut out = Vec::new();
        for unit in if unit > 1 { vec![unit, 1] } else { vec![1] } {
            let pieces = matrices.div_ceil(unit);
            for block in blocks(pieces, tiles) {
                out.push(Spread {
                    matrices,
                    parts: pieces.div_ceil(block),
                    unit,
                    row_parts: 1,
                });
            }
        }
        for block in blocks(rows, tiles / matrices) {
            let row_parts = rows.div_ceil(block);
            if row_parts > 1 {
                out.push(Spread {
                    matrices,
                    parts: matrices,
                    unit: 1,
                    row_parts,
                });
            }
        }
        out
    }

    /// The rows of operands that are divided with the result's.
    pub fn divided(&self, rows: u32) -> Split {
        if self.row_parts == 1 {
            return self.whole(rows);
        }
        Split {
            parts: self.matrices * self.row_parts,
            block: rows.div_ceil(self.row_parts),
            stride: 1,
            unit: 1,
            period: if self.matrices > 1 { rows } else { 0 },
            group: 0,
            group_stride: 0,
        }
    }

    /// The rows of operands that every part of a matrix needs whole.
    pub fn whole(&self, rows: u32) -> Split {
        let all = self.matrices * rows;
        if self.row_parts == 1 || self.parts == 1 {
            return Split::even(all, self.parts, self.unit * rows, 1);
        }
        Split {
            parts: self.matrices,
            block: rows,
            stride: self.row_parts,
            unit: 1,
            period: rows,
            group: 0,
            group_stride: 0,
        }
    }

    /// A layout of operands that every part of a matrix needs whole.
    pub fn shared(&self, rows: u32, columns: u32, memory: MemoryClass) -> Layout {
        let layout = grid(
            self.whole(rows),
            Split::whole(columns),
            ElementOrder::Panels,
            memory,
        );
        copied(layout, self.row_parts, 1)
    }

    /// A layout of what is divided with the result.
    pub fn own(&self, rows: u32, columns: u32, memory: MemoryClass) -> Layout {
        grid(
            self.divided(rows),
            Split::whole(columns),
            ElementOrder::Panels,
            memory,
        )
    }
}

/// The extents of a matrix of attention, and the buffers between its operands and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Queries of a matrix.
    pub queries: u32,
    /// Keys of a matrix.
    pub keys: u32,
    /// Depth of queries and keys.
    pub depth: u32,
    /// Width of a value.
    pub width: u32,
}

impl Attention {
    /// The matrices of attention with one head a matrix, and the extents of each, from the types of
    /// queries, keys and values; `None` where those are no three batches of matrices.
    pub fn of(types: &[TensorType]) -> Option<(u32, Self)> {
        let [q, k, v] = types else { return None };
        let (&[n, queries, depth], &[_, keys, _], &[_, _, width]) =
            (q.shape.as_slice(), k.shape.as_slice(), v.shape.as_slice())
        else {
            return None;
        };
        let extents = Attention {
            queries,
            keys,
            depth,
            width,
        };
        Some((n, extents))
    }

    /// Rows of a transposed matrix of values.
    pub fn padded_width(&self) -> u32 {
        self.width.next_multiple_of(PANEL)
    }

    /// Matrices and queries of each on the fullest tile with queries in `q`.
    pub fn on_tile(&self, rows: u32) -> (u32, u32) {
        if rows > self.queries {
            (rows / self.queries, self.queries)
        } else {
            (1, rows)
        }
    }
}

/// The memory that a product of `element` `k` deep with `partials` needs for its result: where the
/// result holds the partial sums, interleaved.
pub fn result_memory(element: ElementType, partials: ElementType, k: u32) -> MemoryClass {
    if element == sums(partials, k) || element == ElementType::F32 {
        MemoryClass::Interleaved
    } else {
        MemoryClass::Any
    }
}

/// The element types of the partial sums of a product of `element`.
fn element_partials(machine: &Machine<'_>, element: ElementType, k: u32) -> Vec<ElementType> {
    match element {
        ElementType::F32 => vec![ElementType::F32],
        _ => partials(machine, k).collect(),
    }
}

/// All plans of attention over `matrices` matrices, `unit` of which may want to stay together.
pub fn attention(
    machine: &Machine<'_>,
    element: ElementType,
    matrices: u32,
    a: &Attention,
    unit: u32,
    softmax_kernel: &str,
) -> Vec<Candidate> {
    let single = element == ElementType::F32;
    let mut out = Vec::new();
    for spread in Spread::all(matrices, a.queries, unit, machine.tiles) {
        for partials in element_partials(machine, element, a.depth.max(a.keys)) {
            let memory = result_memory(element, partials, a.depth);
            let q = spread.own(a.queries, a.depth, MemoryClass::Any);
            let k = spread.shared(a.keys, a.depth, right_memory(element));
            let v = spread.shared(a.keys, a.width, MemoryClass::Any);
            let scores = spread.own(a.queries, a.keys, memory);
            let turned = spread.shared(a.padded_width(), a.keys, MemoryClass::Interleaved);
            let memory = result_memory(element, partials, a.keys);
            let result = spread.own(a.queries, a.width, memory);
            let (batches, rows) = a.on_tile(q.rows.block);
            let storage = |l: &Layout| l.storage(element);
            let qk = Product {
                batches,
                rows,
                k: a.depth,
                columns: a.keys,
                stored: a.keys,
            };
            let pv = Product {
                batches,
                rows,
                k: a.keys,
                columns: a.width,
                stored: a.padded_width(),
            };
            let s = storage(&scores);
            let softmax = super::local::row_words(batches * rows, a.keys, &s, &s).with([
                ("scale", 0),
                ("first_row", 0),
                ("period", a.queries),
                ("visible", a.keys),
            ]);
            let packs = [
                Pack::of(k.rows.block, a.depth, a.keys, false),
                Pack::of(v.rows.block, a.width, a.keys, true),
            ];
            let mut compute = vec![
                (
                    kernel(element, partials, a.depth),
                    qk.words(&storage(&q), &storage(&k), &s),
                ),
                (softmax_kernel.to_owned(), softmax),
                (
                    kernel(element, partials, a.keys),
                    pv.words(&s, &storage(&turned), &storage(&result)),
                ),
            ];
            if single {
                let pack = |p: &Pack, from| (pack_kernel(p.turned).to_owned(), p.words(from));
                compute.extend([pack(&packs[0], &storage(&k)), pack(&packs[1], &storage(&v))]);
            } else {
                compute.push((
                    TRANSPOSE_KERNEL.to_owned(),
                    transpose_words(batches, a.keys, a.width, &storage(&v), &storage(&turned)),
                ));
            }
            let cycles: Option<u64> = compute
                .iter()
                .map(|(kernel, words)| machine.cycles(kernel, words))
                .sum();
            let Some(compute_cycles) = cycles else {
                continue;
            };
            let list = [&q, &k, &v, &scores, &scores, &result].map(|l| (l, element));
            let mut bytes = bytes(&list);
            if single {
                bytes += packs.iter().map(|p| u64::from(p.lines()) * 64).sum::<u64>();
            } else {
                bytes += u64::from(storage(&turned).bytes()) + accumulators(partials, rows);
            }
            out.push(Candidate::new(
                Family::Attention,
                vec![q, k, v],
                result,
                partials,
                compute_cycles,
                bytes,
            ));
        }
    }
    out
}

/// Bytes of the scratch of a product of `rows` rows.
fn accumulators(partials: ElementType, rows: u32) -> u64 {
    match partials {
        ElementType::F16 => 0,
        _ => u64::from(rows) * 32,
    }
}

/// All plans of `[matrices, m, k] * [matrices, k, n]`, the right operand stored as `[n, k]` when
/// `transposed`.
pub fn product(
    machine: &Machine<'_>,
    element: ElementType,
    matrices: u32,
    [m, k, n]: [u32; 3],
    transposed: bool,
    unit: u32,
) -> Vec<Candidate> {
    let single = element == ElementType::F32;
    let mut out = Vec::new();
    let mut places: Vec<(Layout, Layout, Layout, Layout)> = Vec::new();
    let memory = right_memory(element);
    for partials in element_partials(machine, element, k) {
        places.clear();
        let result_memory = result_memory(element, partials, k);
        for spread in Spread::all(matrices, m, unit, machine.tiles) {
            let a = spread.own(m, k, MemoryClass::Any);
            let turned = spread.shared(n.next_multiple_of(PANEL), k, memory);
            let b = if transposed {
                spread.shared(n, k, memory)
            } else {
                spread.shared(k, n, MemoryClass::Any)
            };
            places.push((a, b, turned, spread.own(m, n, result_memory)));
        }
        if matrices == 1 {
            // One large product: columns are divided as well.
            for group in blocks(n.div_ceil(PANEL), machine.tiles) {
                let gn = n.div_ceil(PANEL).div_ceil(group);
                if gn == 1 {
                    continue;
                }
                for block in blocks(m, machine.tiles / gn) {
                    let gm = m.div_ceil(block);
                    let panels =
                        |rows, columns, memory| grid(rows, columns, ElementOrder::Panels, memory);
                    let rows = Split::even(m, gm, 1, gn);
                    let a = panels(rows, Split::whole(k), MemoryClass::Any);
                    let turned = |extent| {
                        let rows = Split::even(extent, gn, PANEL, 1);
                        copied(panels(rows, Split::whole(k), memory), gm, gn)
                    };
                    let b = if transposed {
                        turned(n)
                    } else {
                        let columns = Split::even(n, gn, PANEL, 1);
                        copied(panels(Split::whole(k), columns, MemoryClass::Any), gm, gn)
                    };
                    let result = panels(rows, Split::even(n, gn, PANEL, 1), result_memory);
                    places.push((
                        copied(a, gn, 1),
                        b,
                        turned(n.next_multiple_of(PANEL)),
                        result,
                    ));
                }
            }
        }
        for (a, b, turned, result) in places.drain(..) {
            let (batches, rows) = if result.rows.block > m {
                (result.rows.block / m, m)
            } else {
                (1, result.rows.block)
            };
            let columns = result.columns.block;
            let right = if transposed { &b } else { &turned };
            let call = Product {
                batches,
                rows,
                k,
                columns,
                stored: right.rows.block / batches,
            };
            let storage = |l: &Layout| l.storage(element);
            let words = call.words(&storage(&a), &storage(right), &storage(&result));
            let mut cycles = machine.cycles(&kernel(element, partials, k), &words);
            let mut list = vec![(&a, element), (&b, element), (&result, element)];
            let mut scratch = accumulators(partials, rows);
            if single {
                let matrix = if transposed { n } else { k };
                let pack = Pack::of(b.rows.block, b.columns.block, matrix, !transposed);
                let words = pack.words(&storage(&b));
                let kernel = pack_kernel(pack.turned);
                cycles = cycles.and_then(|c| Some(c + machine.cycles(kernel, &words)?));
                scratch = u64::from(pack.lines()) * 64;
            } else if !transposed {
                let words = transpose_words(batches, k, columns, &storage(&b), &storage(&turned));
                cycles = cycles.and_then(|c| Some(c + machine.cycles(TRANSPOSE_KERNEL, &words)?));
                list.push((&turned, element));
            } else if !n.is_multiple_of(PANEL) {
                let words = clear_words(result.rows.block, n, &storage(&result));
                cycles =
                    cycles.and_then(|c| Some(c + machine.cycles(clear_kernel(element), &words)?));
            }
            let Some(compute_cycles) = cycles else {
                continue;
            };
            let bytes = bytes(&list) + scratch;
            out.push(Candidate::new(
                Family::Gemm,
                vec![a, b],
                result,
                partials,
                compute_cycles,
                bytes,
            ));
        }
    }
    out
}
