//! Operators on the elements or rows that a tile holds.

use super::{Candidate, Machine, Words, blocks, bytes, copied, far, grid};
use ipu_program::graph::{Activation, BinaryKind, OpKind, ReduceKind, UnaryKind};
use ipu_program::kernels::Kernels;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, ShardStorage, Split};
use ipu_program::plan::Family;
use ipu_program::types::{ElementType, Matrix};

/// The kernel that clears columns within the last panel of floats.
pub fn clear_kernel(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "zero_columns_f32",
        _ => "zero_columns_f16",
    }
}

/// The kernel of an elementwise operator on `element`, `None` when there is none.
pub fn elementwise_kernel(kind: &OpKind, element: ElementType) -> Option<String> {
    Some(match kind {
        OpKind::Binary(kind) => format!("{}_{element}", kind.name()),
        OpKind::Unary(UnaryKind::GeluErf) => format!("gelu_erf_{element}"),
        OpKind::Unary(UnaryKind::GeluTanh) => format!("gelu_tanh_{element}"),
        OpKind::Unary(kind) => format!("{}_{element}", kind.name()),
        // By the type that is read.
        OpKind::Cast => match element {
            ElementType::F16 => "cast_f16_f32".to_owned(),
            ElementType::F32 => "cast_f32_f16".to_owned(),
            ElementType::I32 => return None,
        },
        _ => return None,
    })
}

/// Whether an elementwise operator leaves something else than 0 in the padding of its result, so
/// that it has to be cleared: it gives something else where its operands are 0.
pub fn spoils_padding(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Binary(BinaryKind::Div)
            | OpKind::Unary(UnaryKind::Sigmoid | UnaryKind::Exp | UnaryKind::Rsqrt)
    )
}

/// The word arguments that clear the padding of a shard with `columns` columns.
pub fn clear_words(rows: u32, columns: u32, storage: &ShardStorage) -> Words {
    Words::rows(rows).with([
        ("first", columns % PANEL),
        ("offset", columns / PANEL * storage.panel_stride()),
        ("out_row", storage.row_stride()),
    ])
}

/// The word arguments of a flat kernel on a shard: atoms of 8 bytes of its narrowest operand.
pub fn flat_words(storage: &ShardStorage, narrowest: ElementType) -> Words {
    let elements = storage.bytes() / storage.element.bytes();
    Words::atoms(elements * narrowest.bytes() / 8)
}

/// The word arguments of a row-wise kernel on `rows` rows.
pub fn row_words(rows: u32, columns: u32, x: &ShardStorage, out: &ShardStorage) -> Words {
    Words::rows(rows)
        .with([("rows", rows), ("columns", columns)])
        .strides(["x_row", "x_panel"], x)
        .strides(["out_row", "out_panel"], out)
}

/// The fastest kernel of a row-wise operator for `words`, those of the tile with the most rows,
/// and its cycles: a worker takes rows of its own, or with few rows all workers share each.
pub fn row_kernel(
    kernels: &Kernels,
    kind: &OpKind,
    element: ElementType,
    words: &Words,
) -> Option<(&'static str, u64)> {
    let names: &[&'static str] = match (kind, element) {
        (OpKind::Softmax { .. }, ElementType::F16) => &["softmax_f16"],
        (OpKind::LayerNorm { .. }, ElementType::F16) => &["layer_norm_f16", "layer_norm_split_f16"],
        (OpKind::RmsNorm { .. }, ElementType::F16) => &["rms_norm_f16", "rms_norm_split_f16"],
        (OpKind::Softmax { .. }, ElementType::F32) => &["softmax_f32"],
        (OpKind::LayerNorm { .. }, ElementType::F32) => &["layer_norm_f32"],
        (OpKind::RmsNorm { .. }, ElementType::F32) => &["rms_norm_f32"],
        _ => return None,
    };
    names
        .iter()
        .filter_map(|&name| {
            let kernel = kernels.get(name)?;
            let words = words.of(&kernel.words).ok()?;
            Some((name, kernels.cycles(kernel, &words)))
        })
        .min_by_key(|found| found.1)
}

/// The scalars of a row-wise operator on rows of `columns` columns.
pub fn row_scalars(kind: &OpKind, columns: u32) -> Vec<(&'static str, u32)> {
    let inverse = ("inverse", (1.0 / columns as f32).to_bits());
    match kind {
        OpKind::Softmax { .. } => vec![("scale", 1f32.to_bits())],
        OpKind::LayerNorm { epsilon } | OpKind::RmsNorm { epsilon } => {
            vec![("epsilon", epsilon.get().to_bits()), inverse]
        }
        _ => Vec::new(),
    }
}

/// The plan of an elementwise operator whose operands and result have `layout`.
pub fn elementwise(
    machine: &Machine<'_>,
    kind: &OpKind,
    [read, written]: [ElementType; 2],
    operands: usize,
    columns: u32,
    layout: &Layout,
) -> Option<Candidate> {
    let layout = Layout {
        memory: MemoryClass::Any,
        ..layout.clone()
    };
    let narrowest = if read == written {
        read
    } else {
        ElementType::F16
    };
    let words = flat_words(&layout.storage(narrowest), narrowest);
    let mut cycles = machine.cycles(&elementwise_kernel(kind, read)?, &words)?;
    if spoils_padding(kind) && !columns.is_multiple_of(PANEL) {
        let words = clear_words(layout.rows.block, columns, &layout.storage(written));
        cycles += machine.cycles(clear_kernel(written), &words)?;
    }
    let bytes = bytes(&[(&layout, read), (&layout, written)]);
    Some(Candidate::new(
        Family::Elementwise,
        vec![layout.clone(); operands],
        layout,
        written,
        cycles,
        bytes * (operands as u64 + 1),
    ))
}

/// The layouts that elementwise operators are tried in when no operand suggests one: rows over
/// all tiles, and for few rows columns as well.
pub fn spreads(machine: &Machine<'_>, matrix: Matrix, units: &[u32]) -> Vec<Layout> {
    let mut out = Vec::new();
    for &unit in units {
        let rows = matrix.rows.div_ceil(unit).min(machine.tiles);
        let panels = matrix.columns.div_ceil(PANEL);
        for columns in [1, panels.min(machine.tiles / rows)] {
            let columns = Split::even(matrix.columns, columns.max(1), PANEL, 1);
            let columns = if columns.parts == 1 {
                Split::whole(matrix.columns)
            } else {
                columns
            };
            let rows = Split::even(matrix.rows, rows, unit, columns.parts);
            let layout = grid(rows, columns, ElementOrder::Panels, MemoryClass::Any);
            let layout = far(layout, machine);
            if !out.contains(&layout) {
                out.push(layout);
            }
        }
    }
    out
}

/// All divisions of rows into whole `units`.
fn row_layouts(
    machine: &Machine<'_>,
    matrix: Matrix,
    units: &[u32],
    order: ElementOrder,
) -> Vec<Layout> {
    let mut out = Vec::new();
    for &unit in units {
        let pieces = matrix.rows.div_ceil(unit);
        for block in blocks(pieces, machine.tiles) {
            let rows = Split::even(matrix.rows, pieces.div_ceil(block), unit, 1);
            let columns = Split::whole(matrix.columns);
            let layout = grid(rows, columns, order, MemoryClass::Any);
            out.push(far(layout, machine));
        }
    }
    out
}

/// All plans of a row-wise operator on a matrix, with vectors as further operands.
pub fn rowwise(
    machine: &Machine<'_>,
    kind: &OpKind,
    (element, matrix): (ElementType, Matrix),
    vectors: usize,
    units: &[u32],
    at: Option<&Layout>,
) -> Vec<Candidate> {
    let mut layouts = row_layouts(machine, matrix, units, ElementOrder::Panels);
    layouts.extend(
        at.filter(|l| l.columns.parts == 1 && l.copies == 1)
            .map(|l| Layout {
                memory: MemoryClass::Any,
                ..l.clone()
            }),
    );
    layouts
        .into_iter()
        .filter_map(|layout| {
            let storage = layout.storage(element);
            let words = row_words(layout.rows.block, matrix.columns, &storage, &storage)
                .with(row_scalars(kind, matrix.columns));
            let (_, cycles) = row_kernel(machine.kernels, kind, element, &words)?;
            let vector = vector(&layout, matrix.columns);
            let mut operands = vec![layout.clone()];
            operands.extend(vec![vector.clone(); vectors]);
            let bytes = bytes(&[
                (&layout, element),
                (&layout, element),
                (&vector, element),
                (&vector, element),
            ]);
            Some(Candidate::new(
                Family::Rowwise,
                operands,
                layout,
                element,
                cycles,
                bytes,
            ))
        })
        .collect()
}

/// The layout of a vector that every tile of `layout` needs.
fn vector(layout: &Layout, columns: u32) -> Layout {
    let vector = grid(
        Split::whole(1),
        Split::whole(columns),
        ElementOrder::Rows,
        MemoryClass::Any,
    );
    Layout {
        first_tile: layout.first_tile,
        ..copied(vector, layout.rows.parts, layout.rows.stride)
    }
}

/// The kernel of a reduction of rows (`[rows, n]` to `[rows, 1]`).
pub fn reduce_row_kernel(kind: ReduceKind, element: ElementType) -> String {
    format!("reduce_row_{}_{element}", kind.name())
}

/// The kernel of a reduction of the rows of groups (`[groups, n, columns]` to
/// `[groups, columns]`); a mean is a sum with a factor.
pub fn reduce_column_kernel(kind: ReduceKind, element: ElementType) -> String {
    match kind {
        ReduceKind::Sum | ReduceKind::Mean => format!("reduce_column_sum_{element}"),
        ReduceKind::Max => format!("reduce_column_max_{element}"),
    }
}

/// The kernel of a sum of rows that leaves f32.
pub fn reduce_column_partial(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "reduce_column_sum_f32",
        _ => "reduce_column_sum_f16_f32",
    }
}

/// The factor of a reduction of `n` elements.
pub fn factor(kind: ReduceKind, n: u32) -> (&'static str, u32) {
    let factor = match kind {
        ReduceKind::Mean => 1.0 / n as f32,
        ReduceKind::Sum | ReduceKind::Max => 1.0,
    };
    ("factor", factor.to_bits())
}

/// The word arguments of a reduction of `rows` rows.
pub fn reduce_row_words(
    kind: ReduceKind,
    rows: u32,
    n: u32,
    x: &ShardStorage,
    out: &ShardStorage,
) -> Words {
    row_words(rows, n, x, out).with([factor(kind, n)])
}

/// The word arguments of a reduction of `groups` groups of `rows` rows; the factor is that of `n`
/// rows.
pub fn reduce_column_words(
    kind: ReduceKind,
    [groups, rows, n]: [u32; 3],
    columns: u32,
    x: &ShardStorage,
    out: &ShardStorage,
) -> Words {
    Words::new([
        ("groups", groups),
        ("rows", rows),
        ("panels", columns.div_ceil(PANEL)),
        ("x_group", rows * x.row_stride()),
        factor(kind, n),
    ])
    .strides(["x_row", "x_panel"], x)
    .strides(["out_row", "out_panel"], out)
}

/// All plans of `[rows, n]` to `[rows, 1]`.
pub fn reduce_rows(
    machine: &Machine<'_>,
    kind: ReduceKind,
    element: ElementType,
    [rows, n]: [u32; 2],
    units: &[u32],
) -> Vec<Candidate> {
    let matrix = Matrix { rows, columns: n };
    row_layouts(machine, matrix, units, ElementOrder::Panels)
        .into_iter()
        .filter_map(|x| {
            let result = Layout {
                columns: Split::whole(1),
                order: ElementOrder::Rows,
                ..x.clone()
            };
            let (from, to) = (x.storage(element), result.storage(element));
            let words = reduce_row_words(kind, x.rows.block, n, &from, &to);
            let cycles = machine.cycles(&reduce_row_kernel(kind, element), &words)?;
            let bytes = bytes(&[(&x, element), (&result, element)]);
            Some(Candidate::new(
                Family::Reduce,
                vec![x],
                result,
                element,
                cycles,
                bytes,
            ))
        })
        .collect()
}

/// All plans of `[groups, n, columns]` to `[groups, columns]`: whole groups on a tile, or for
/// sums of one group its rows on several tiles, whose f32 sums are added where the result is.
pub fn reduce_columns(
    machine: &Machine<'_>,
    kind: ReduceKind,
    element: ElementType,
    [groups, n, columns]: [u32; 3],
) -> Vec<Candidate> {
    let panels = columns.div_ceil(PANEL);
    let mut out = Vec::new();
    for block in blocks(groups, machine.tiles) {
        let parts = groups.div_ceil(block);
        for column_block in blocks(panels, machine.tiles / parts) {
            let gn = panels.div_ceil(column_block);
            let split = |stride| Split::even(columns, gn, PANEL, stride);
            let x = grid(
                Split::even(groups * n, parts, n, gn),
                split(1),
                ElementOrder::Panels,
                MemoryClass::Any,
            );
            let result = Layout {
                rows: Split::even(groups, parts, 1, gn),
                ..x.clone()
            };
            let words = reduce_column_words(
                kind,
                [result.rows.block, n, n],
                x.columns.block,
                &x.storage(element),
                &result.storage(element),
            );
            let Some(cycles) = machine.cycles(&reduce_column_kernel(kind, element), &words) else {
                continue;
            };
            let bytes = bytes(&[(&x, element), (&result, element)]);
            let plan = Candidate::new(Family::Reduce, vec![x], result, element, cycles, bytes);
            out.push(plan);
        }
    }
    if groups == 1 && kind != ReduceKind::Max {
        for block in blocks(n, machine.tiles) {
            let parts = n.div_ceil(block);
            if parts > 1 {
                out.extend(reduce_across(machine, kind, element, [n, columns], parts));
            }
        }
    }
    out
}

/// The plan in which `parts` tiles add up rows of one group.
fn reduce_across(
    machine: &Machine<'_>,
    kind: ReduceKind,
    element: ElementType,
    [n, columns]: [u32; 2],
    parts: u32,
) -> Option<Candidate> {
    let f32 = ElementType::F32;
    let x = grid(
        Split::even(n, parts, 1, 1),
        Split::whole(columns),
        ElementOrder::Panels,
        MemoryClass::Any,
    );
    let gn = columns.div_ceil(PANEL).min(machine.tiles);
    let result = grid(
        Split::whole(1),
        Split::even(columns, gn, PANEL, 1),
        ElementOrder::Panels,
        MemoryClass::Any,
    );
    let reduction = super::gemm::Reduction::new(parts, 1, columns, Split::whole(columns), &result);
    let words = reduce_column_words(
        kind,
        [1, x.rows.block, n],
        columns,
        &x.storage(element),
        &reduction.partial.storage(f32),
    );
    let sum = reduction.words(parts, result.columns.block, &result);
    let kernel = super::gemm::reduce_kernel(element, false, Activation::None);
    let cycles =
        machine.cycles(reduce_column_partial(element), &words)? + machine.cycles(&kernel, &sum)?;
    let received = reduction.staging.storage(f32).bytes();
    let bytes = bytes(&[
        (&x, element),
        (&reduction.partial, f32),
        (&reduction.staging, f32),
        (&result, element),
    ]);
    let mut plan = Candidate::new(Family::Reduce, vec![x], result, f32, cycles, bytes);
    plan.plan.grid_k = parts;
    plan.plan.exchange_cycles = machine.phase(u64::from(received / 4));
    Some(plan)
}
