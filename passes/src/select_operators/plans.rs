//! Plans: the implementations of each operator, enumerated and costed by the kernel laws.

use ipu_program::graph::{Activation, OpKind, UnaryKind};
use ipu_program::kernels::{Kernels, share};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::{Family, Plan};
use ipu_program::types::{ElementType, Matrix, TensorType};
use ipu_target::Target;

/// The kernel that copies blocks of 16 columns.
pub const COPY_KERNEL: &str = "copy_blocks";

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
}

/// What a search minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Compute and exchange cycles.
    Cycles,
    /// As `Cycles` with exchange counted twice: estimates of exchange are the less certain part.
    LessExchange,
    /// As `Cycles` with compute counted twice.
    LessCompute,
    /// Bytes on a tile, then cycles: for models that hardly fit.
    Bytes,
}

impl Objective {
    /// What is fewest, for reports.
    pub fn describe(self) -> &'static str {
        match self {
            Objective::Cycles => "cycles of compute and exchange",
            Objective::LessExchange => "cycles with exchange counted twice",
            Objective::LessCompute => "cycles with compute counted twice",
            Objective::Bytes => "bytes on a tile",
        }
    }
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

/// The name of the matrix product kernel of a variant.
pub fn gemm_kernel(partials: ElementType, bias: bool, activation: Activation) -> String {
    let mut name = format!("gemm_{partials}");
    if bias {
        name.push_str("_bias");
    }
    if activation == Activation::Relu {
        name.push_str("_relu");
    }
    name
}

/// The word arguments of a matrix product on `rows` rows and `columns` columns.
pub fn gemm_words(rows: u32, k: u32, columns: u32, a_stride: u32, out_stride: u32) -> Vec<u32> {
    let [each, extra] = share(rows);
    vec![
        each,
        extra,
        k.div_ceil(PANEL),
        columns.div_ceil(PANEL),
        a_stride,
        out_stride,
    ]
}

/// The kernel of an elementwise operator, `None` when there is none.
pub fn elementwise_kernel(kind: &OpKind) -> Option<String> {
    match kind {
        OpKind::Binary(ipu_program::graph::BinaryKind::Div) => None,
        OpKind::Binary(kind) => Some(format!("{}_f16", kind.name())),
        OpKind::Unary(UnaryKind::Relu) => Some("relu_f16".to_owned()),
        _ => None,
    }
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

/// All plans of `act(x * w + b)` with x of `m` rows and `k` columns and w of `n` columns.
pub fn linear(
    machine: &Machine<'_>,
    m: u32,
    k: u32,
    n: u32,
    bias: bool,
    act: Activation,
) -> Vec<Candidate> {
    let groups = n.div_ceil(PANEL);
    let mut out = Vec::new();
    for column_groups in blocks(groups, machine.tiles) {
        let gn = groups.div_ceil(column_groups);
        for rows in blocks(m, machine.tiles / gn) {
            let gm = m.div_ceil(rows);
            for partials in [ElementType::F32, ElementType::F16] {
                match (machine.partials, partials) {
                    (Partials::F32, ElementType::F16) | (Partials::F16, ElementType::F32) => {
                        continue;
                    }
                    _ => {}
                }
                out.extend(gemm(machine, Grid { gm, gn, m, n }, k, partials, bias, act));
            }
        }
    }
    out
}

struct Grid {
    gm: u32,
    gn: u32,
    m: u32,
    n: u32,
}

fn gemm(
    machine: &Machine<'_>,
    grid: Grid,
    k: u32,
    partials: ElementType,
    bias: bool,
    act: Activation,
) -> Option<Candidate> {
    let Grid { gm, gn, m, n } = grid;
    let kernel = machine.kernels.get(&gemm_kernel(partials, bias, act))?;
    let row_split = Split::even(m, gm, 1, gn);
    let column_split = Split::even(n, gn, PANEL, 1);
    let (rows, columns) = (row_split.block, column_split.block);
    let narrow = partials == ElementType::F16;
    let x = Layout {
        rows: row_split,
        columns: Split::whole(k),
        copies: gn,
        copy_stride: u32::from(gn > 1),
        first_tile: 0,
        order: ElementOrder::Panels,
        memory: MemoryClass::Any,
    };
    let w = Layout {
        rows: Split::whole(k),
        columns: column_split,
        copies: gm,
        copy_stride: if gm > 1 { gn } else { 0 },
        first_tile: 0,
        order: if narrow {
            ElementOrder::Weights16
        } else {
            ElementOrder::Weights8
        },
        memory: MemoryClass::Interleaved,
    };
    let b = Layout {
        rows: Split::whole(1),
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
        ..w.clone()
    };
    let result = Layout {
        rows: row_split,
        columns: column_split,
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order: ElementOrder::Panels,
        memory: if narrow {
            MemoryClass::Interleaved
        } else {
            MemoryClass::Any
        },
    };
    let f16 = ElementType::F16;
    let mut bytes: u64 = [(&x, f16), (&w, f16), (&result, f16)]
        .into_iter()
        .map(|(l, e)| u64::from(l.storage(e).bytes()))
        .sum();
    if !narrow {
        bytes += u64::from(rows) * 32;
    }
    let words = gemm_words(rows, k, columns, rows * 32, rows * 32);
    let mut operands = vec![x, w];
    if bias {
        operands.push(b);
    }
    let plan = Plan {
        family: Family::Gemm,
        grid_rows: gm,
        grid_columns: gn,
        grid_k: 1,
        partials,
        operands,
        compute_cycles: machine.kernels.cycles(kernel, &words),
        exchange_cycles: 0,
        candidates: 0,
    };
    Some(Candidate {
        plan,
        result,
        bytes,
    })
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

/// The layout in which an argument arrives for an operator that wants it in `to`: in rows, on the
/// tiles that will hold it, each element once. Where `to` has several copies their tiles share the
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
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
        ..to.clone()
    }
}

/// The plan of an elementwise operator whose operands all have `layout`.
pub fn elementwise(
    machine: &Machine<'_>,
    kind: &OpKind,
    operands: usize,
    layout: &Layout,
) -> Option<Candidate> {
    let kernel = machine.kernels.get(&elementwise_kernel(kind)?)?;
    let layout = Layout {
        memory: MemoryClass::Any,
        ..layout.clone()
    };
    let bytes = layout.storage(ElementType::F16).bytes();
    let plan = Plan {
        family: Family::Elementwise,
        grid_rows: layout.rows.parts,
        grid_columns: layout.columns.parts,
        grid_k: 1,
        partials: ElementType::F16,
        operands: vec![layout.clone(); operands],
        compute_cycles: machine.kernels.cycles(kernel, &atom_words(bytes)),
        exchange_cycles: 0,
        candidates: 1,
    };
    Some(Candidate {
        plan,
        bytes: u64::from(bytes) * (operands as u64 + 1),
        result: layout,
    })
}

/// The word arguments of an elementwise kernel on a shard of `bytes`.
pub fn atom_words(bytes: u32) -> Vec<u32> {
    let atoms = bytes / 8;
    share(atoms).to_vec()
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

/// Estimated cycles of copying a shard's blocks of 16 columns on its tile.
fn local_copy(machine: &Machine<'_>, rows: u32, columns: u32) -> u64 {
    let Some(kernel) = machine.kernels.get(COPY_KERNEL) else {
        return 0;
    };
    let word = |name: &str| match name {
        "rows_each" => share(rows)[0],
        "rows_extra" => share(rows)[1],
        "panels" => columns.div_ceil(PANEL),
        _ => 0,
    };
    let words: Vec<u32> = kernel.words.iter().map(|w| word(w)).collect();
    machine.kernels.cycles(kernel, &words)
}

/// Estimated cycles to bring a tensor from one layout to another: packing into panels where it
/// is in rows, one phase in which the fullest tile receives its shard after the route latency of
/// a middle row, the copy of what a tile has itself, unpacking where rows are wanted.
pub fn exchange(machine: &Machine<'_>, from: &Layout, to: &Layout, ty: &TensorType) -> u64 {
    if same_places(from, to) {
        return 0;
    }
    let target = machine.target;
    let copy = |rows: u32, columns: u32| local_copy(machine, rows, columns);
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
    let words = to.storage(ty.element).bytes() / 4;
    let route = target.first_write_after_mux + target.physical_rows + target.receive_guard;
    cycles + u64::from(target.internal_sync_cycles + route + words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::types::Matrix;

    fn machine(tiles: u32) -> Machine<'static> {
        Machine {
            target: Target::ipu21(),
            kernels: Kernels::builtin(),
            tiles,
            partials: Partials::Any,
        }
    }

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

    #[test]
    fn candidates_stay_on_the_machine_and_cover_the_result() {
        for tiles in [1u32, 8, 64, 1472] {
            let list = linear(&machine(tiles), 37, 50, 100, true, Activation::Relu);
            assert!(
                list.len() >= 3 || tiles == 1,
                "{tiles} tiles: {} candidates",
                list.len()
            );
            for c in list {
                assert!(
                    c.plan
                        .operands
                        .iter()
                        .chain([&c.result])
                        .all(|l| l.tile_end() <= tiles)
                );
                let covered: u32 = c
                    .result
                    .shards(Matrix {
                        rows: 37,
                        columns: 100,
                    })
                    .iter()
                    .map(|s| s.rows.len() as u32 * s.columns.len() as u32)
                    .sum();
                assert_eq!(covered, 3700);
            }
        }
    }
}
