//! Products with weights: `act(x * w + b)`.

use super::local::flat_words;
use super::stream::{self, Grid, Streams};
use super::{Candidate, Machine, Words, blocks, bytes, copied, fits, grid, partials};
use ipu_program::graph::Activation;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, ShardStorage, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::types::{ElementType, TensorType};

/// Most rows for which the contraction is divided: with more, AMP work outweighs the loading of
/// weights and every tile has rows enough.
const MAX_SPLIT_ROWS: u32 = 128;

/// What copying a part of the sums on a tile takes a worker, in bundles; about one panel of a row.
const COPY_WORK: u32 = 30;

/// The kernel that leaves f32 sums of a part of the contraction.
pub const PARTIAL_KERNEL: &str = "gemm_f32_partial";

/// The name of the matrix product kernel of a variant.
pub fn kernel(partials: ElementType, bias: bool, activation: Activation) -> String {
    let mut name = format!("gemm_{partials}");
    if bias {
        name.push_str("_bias");
    }
    if activation == Activation::Relu {
        name.push_str("_relu");
    }
    name
}

/// The name of the kernel that leaves f32 sums of a part of the contraction of operands of an element
/// type.
pub fn partial_kernel(read: ElementType) -> &'static str {
    match read {
        ElementType::F32 => "gemm32",
        _ => PARTIAL_KERNEL,
    }
}

/// The name of the kernel that adds partial sums and, with a bias, one more operand, to results of
/// an element type.
pub fn reduce_kernel(written: ElementType, addend: bool, activation: Activation) -> String {
    let mut name = format!("reduce_partials_{written}");
    if addend {
        name.push_str("_add");
    }
    if activation == Activation::Relu {
        name.push_str("_relu");
    }
    name
}

/// The word arguments of a matrix product of `rows` rows, `k` deep, to `columns` columns.
pub fn words(rows: u32, k: u32, columns: u32, a: &ShardStorage, out: &ShardStorage) -> Words {
    Words::rows(rows).with([
        ("k_blocks", k.div_ceil(PANEL)),
        ("groups", columns.div_ceil(PANEL)),
        ("a_stride", a.panel_stride()),
        ("out_stride", out.panel_stride()),
    ])
}

/// The storage of partial sums that cross tiles, and the word arguments of their addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Type of the sums where they are computed: the rows of part 0, of part 1, and so on.
    pub partial_type: TensorType,
    /// Their layout, one part a tile.
    pub partial: Layout,
    /// Type of the sums where they are added: for each part of the result's columns, those
    /// columns of part 0, of part 1, and so on.
    pub staging_type: TensorType,
    /// Their layout.
    pub staging: Layout,
}

impl Reduction {
    /// `parts` partial sums of a result of `m` rows and `n` columns, computed in column parts
    /// `columns`, for a result in `result`.
    pub fn new(parts: u32, m: u32, n: u32, columns: Split, result: &Layout) -> Self {
        let padded = n.next_multiple_of(PANEL);
        let block = result.columns.block.next_multiple_of(PANEL);
        let width = parts * block;
        let f32 = ElementType::F32;
        let rows = Split {
            parts,
            block: m,
            stride: u32::from(parts > 1),
            unit: 1,
            period: if parts > 1 { m } else { 0 },
            group: 0,
            group_stride: 0,
        };
        let columns = if columns.parts == 1 {
            Split::whole(padded)
        } else {
            columns
        };
        Reduction {
            partial_type: TensorType::new([parts * m, padded], f32),
            partial: grid(rows, columns, ElementOrder::Panels, MemoryClass::Any),
            staging_type: TensorType::new([m, result.columns.parts * width], f32),
            staging: Layout {
                columns: Split {
                    block: width,
                    unit: if result.columns.parts == 1 { 1 } else { width },
                    ..result.columns
                },
                memory: MemoryClass::Any,
                ..result.clone()
            },
        }
    }

    /// Columns that a part has in the staging buffer of a tile.
    pub fn block(&self, parts: u32) -> u32 {
        self.staging.columns.block / parts
    }

    /// The word arguments of the addition on a tile with `columns` columns of the result.
    pub fn words(&self, parts: u32, columns: u32, result: &Layout) -> Words {
        let storage = self.staging.storage(ElementType::F32);
        let rows = result.rows.block;
        Words::atoms(rows * columns.div_ceil(PANEL) * PANEL / 4).with([
            ("parts", parts),
            (
                "part_stride",
                self.block(parts) / PANEL * storage.panel_stride(),
            ),
        ])
    }
}

/// All plans of `act(x * w + b)` with x of `m` rows and `k` columns and w of `n` columns, the
/// operands of element type `read` and the result of `written`. Row parts are whole `units`, for
/// each of the units given.
pub fn linear(
    machine: &Machine<'_>,
    [read, written]: [ElementType; 2],
    [m, k, n]: [u32; 3],
    units: &[u32],
    bias: bool,
    act: Activation,
) -> Vec<Candidate> {
    let half = written == ElementType::F16;
    let groups = n.div_ceil(PANEL);
    let mut out = Vec::new();
    for column_groups in blocks(groups, machine.tiles) {
        let gn = groups.div_ceil(column_groups);
        for &unit in units {
            let pieces = m.div_ceil(unit);
            for rows in blocks(pieces, machine.tiles / gn) {
                let gm = pieces.div_ceil(rows);
                let rows = Split::even(m, gm, unit, gn);
                if !half {
                    out.extend(single(machine, read, [m, k, n], rows, gn, bias, act));
                    continue;
                }
                for partials in partials(machine, k) {
                    let plan = |streamed| {
                        whole(
                            machine,
                            [m, k, n],
                            (rows, gn),
                            partials,
                            streamed,
                            (bias, act),
                        )
                    };
                    if !matches!(machine.streams, Streams::Steps(_)) {
                        out.extend(plan(None));
                    }
                    for steps in machine.streams.steps() {
                        // The sums of f32 of a step are rounded at its end.
                        let one = partials != ElementType::F16 && steps > 1;
                        if gm == 1 || one || k.div_ceil(PANEL) < steps {
                            break;
                        }
                        let Some(c) = plan(Some(steps)) else { break };
                        let fits = fits(machine, &c);
                        out.push(c);
                        if fits {
                            break;
                        }
                    }
                }
            }
        }
        if m <= MAX_SPLIT_ROWS {
            let k_blocks = k.div_ceil(PANEL);
            for depth in blocks(k_blocks, machine.tiles / gn) {
                let gk = k_blocks.div_ceil(depth);
                if gk > 1 {
                    let elements = [read, written];
                    out.extend(split(machine, elements, [m, k, n], [gn, gk], bias, act));
                }
            }
        }
    }
    out
}

/// The plan in which every tile works through the whole contraction, with resident weights or
/// distributed ones in so many steps.
fn whole(
    machine: &Machine<'_>,
    [m, k, n]: [u32; 3],
    (rows, gn): (Split, u32),
    partials: ElementType,
    streamed: Option<u32>,
    (bias, act): (bool, Activation),
) -> Option<Candidate> {
    let grid_of = Grid {
        rows: rows.parts,
        k: 1,
        columns: gn,
    };
    let columns = Split::even(n, gn, PANEL, 1);
    let narrow = partials == ElementType::F16;
    let order = stream::order(partials);
    let [first_left, first] = grid_of.first(machine);
    let resident = grid_of.weights(k, columns, order);
    let x = match streamed {
        Some(steps) if steps > 1 => grid_of.left_home(k, rows, first_left),
        _ => grid_of.left(k, rows),
    };
    let b = Layout {
        rows: Split::whole(1),
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
        ..resident.clone()
    };
    let w = match streamed {
        Some(steps) => grid_of.weights_home((k, steps), columns, order, first),
        None => resident,
    };
    let memory = if narrow {
        MemoryClass::Interleaved
    } else {
        MemoryClass::Any
    };
    let result = grid(rows, columns, ElementOrder::Panels, memory);
    let f16 = ElementType::F16;
    let mut bytes = bytes(&[(&x, f16), (&w, f16), (&result, f16)]);
    if !narrow {
        bytes += u64::from(rows.block) * 32;
    }
    let mut operands = vec![x, w];
    if bias {
        operands.push(b);
    }
    let out = result.storage(f16);
    let mut c = Candidate::new(Family::Gemm, operands, result, partials, 0, 0);
    if let Some(steps) = streamed {
        (c.plan.steps, c.plan.weights) = (steps, Residency::Distributed);
    }
    let blocks = stream::blocks(machine, &c.plan, k)?;
    let call = [rows.block.min(m), k, columns.block];
    // Relu comes with the last step.
    let early = match c.plan.steps {
        1 => act,
        _ => Activation::None,
    };
    let name = kernel(partials, bias, early);
    c.plan.compute_cycles = stream::products(machine, &c.plan, call, (&name, act), &out)?;
    c.plan.exchange_cycles = blocks.moved.before + blocks.moved.events;
    c.bytes = bytes + blocks.bytes;
    Some(c)
}

/// The name of the f32 matrix product kernel of a variant.
pub fn single_kernel(bias: bool, activation: Activation) -> String {
    let mut name = "gemm32".to_owned();
    if bias {
        name.push_str("_bias");
    }
    if activation == Activation::Relu {
        name.push_str("_relu");
    }
    name
}

/// The plan in which every tile works through the whole contraction to a result of f32. Where the
/// operands are f16, bias and activation are steps of their own behind the product, which leaves
/// its sums in f32.
fn single(
    machine: &Machine<'_>,
    read: ElementType,
    [m, k, n]: [u32; 3],
    rows: Split,
    gn: u32,
    bias: bool,
    act: Activation,
) -> Option<Candidate> {
    let gm = rows.parts;
    let f32 = ElementType::F32;
    let columns = Split::even(n, gn, PANEL, 1);
    let panels = |columns, memory| grid(rows, columns, ElementOrder::Panels, memory);
    let x = copied(panels(Split::whole(k), MemoryClass::Any), gn, 1);
    let wide = read == ElementType::F16;
    let order = if wide {
        ElementOrder::Weights8
    } else {
        ElementOrder::Weights16
    };
    let w = grid(Split::whole(k), columns, order, MemoryClass::Interleaved);
    let w = copied(w, gm, gn);
    let result = panels(columns, MemoryClass::Interleaved);
    let call = words(
        rows.block.min(m),
        k,
        columns.block,
        &x.storage(read),
        &result.storage(f32),
    );
    let mut compute_cycles = machine.cycles(
        &if wide {
            PARTIAL_KERNEL.to_owned()
        } else {
            single_kernel(bias, act)
        },
        &call,
    )?;
    let mut list = vec![(&x, read), (&w, read), (&result, f32)];
    if wide {
        for (kernel, _) in wide_steps(bias, act) {
            let words = flat_words(&result.storage(f32), f32);
            compute_cycles += machine.cycles(kernel, &words)?;
            list.extend([(&result, f32); 2]);
        }
    }
    let bytes = bytes(&list);
    let mut operands = vec![x, w.clone()];
    if bias {
        operands.push(if wide {
            Layout {
                memory: MemoryClass::Any,
                ..result.clone()
            }
        } else {
            Layout {
                rows: Split::whole(1),
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
                ..w
            }
        });
    }
    Some(Candidate::new(
        Family::Gemm,
        operands,
        result,
        f32,
        compute_cycles,
        bytes,
    ))
}

/// The kernels behind a product of f16 operands to f32, and whether each reads the bias.
pub fn wide_steps(bias: bool, activation: Activation) -> Vec<(&'static str, bool)> {
    let mut steps = Vec::new();
    if bias {
        steps.push(("add_f32", true));
    }
    if activation == Activation::Relu {
        steps.push(("relu_f32", false));
    }
    steps
}

/// The plans in which `gk` tiles share the contraction of `gn` parts of the columns; their sums
/// meet where the result is wanted: rows whole, or as many parts as there are.
fn split(
    machine: &Machine<'_>,
    [read, written]: [ElementType; 2],
    [m, k, n]: [u32; 3],
    [gn, gk]: [u32; 2],
    bias: bool,
    act: Activation,
) -> Vec<Candidate> {
    let columns = Split::even(n, gn, PANEL, gk);
    let depth = |stride| Split::even(k, gk, PANEL, stride);
    let f32 = ElementType::F32;
    let panels = |rows, columns| grid(rows, columns, ElementOrder::Panels, MemoryClass::Any);
    let x = copied(panels(Split::whole(m), depth(1)), gn, gk);
    let order = match read {
        ElementType::F32 => ElementOrder::Weights16,
        _ => ElementOrder::Weights8,
    };
    let w = grid(depth(1), columns, order, MemoryClass::Interleaved);
    let groups = n.div_ceil(PANEL);
    let mut out = Vec::new();
    let mut tried = Vec::new();
    for rows in [1, m.min(machine.tiles)] {
        for parts in [1, gn, groups] {
            let parts = parts.min(machine.tiles / rows);
            if parts == 0 || tried.contains(&(rows, parts)) {
                continue;
            }
            tried.push((rows, parts));
            // At the far end of the tiles: what is computed on tiles of their own needs no copy
            // to itself.
            let result = Layout {
                first_tile: machine.tiles - rows * parts,
                ..panels(
                    Split::even(m, rows, 1, parts),
                    Split::even(n, parts, PANEL, 1),
                )
            };
            let reduction = Reduction::new(gk, m, n, columns, &result);
            let partial = &reduction.partial;
            let product = words(
                m,
                depth(1).block,
                columns.block,
                &x.storage(read),
                &partial.storage(f32),
            );
            let sum = reduction.words(gk, result.columns.block, &result);
            let cycles = machine
                .cycles(partial_kernel(read), &product)
                .and_then(|product| {
                    let reduce = reduce_kernel(written, bias, act);
                    Some(product + machine.cycles(&reduce, &sum)?)
                });
            let Some(compute_cycles) = cycles else {
                continue;
            };
            let mut operands = vec![x.clone(), w.clone()];
            if bias {
                operands.push(result.clone());
            }
            let received = reduction.staging.storage(f32).bytes();
            let mut exchange_cycles = machine.phase(u64::from(received / 4));
            if result.first_tile < gn * gk {
                // Some tile has a part of its own result.
                let run = Words::new([("runs", 1), ("work", COPY_WORK)]);
                exchange_cycles += machine.cycles("copy_runs", &run).unwrap_or(0);
            }
            let list = [
                (&x, read),
                (&w, read),
                (partial, f32),
                (&reduction.staging, f32),
                (&result, written),
                (&result, written),
            ];
            out.push(Candidate {
                plan: Plan {
                    family: Family::Gemm,
                    grid_rows: 1,
                    grid_columns: gn,
                    grid_k: gk,
                    steps: 1,
                    weights: Residency::Resident,
                    partials: f32,
                    operands,
                    compute_cycles,
                    exchange_cycles,
                    candidates: 0,
                },
                bytes: bytes(&list) + u64::from(m) * 32,
                result,
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select_operators::plans::Partials;
    use ipu_program::kernels::Kernels;
    use ipu_program::types::Matrix;
    use ipu_target::Target;

    #[test]
    fn candidates_stay_on_the_machine_and_cover_the_result() {
        for tiles in [1u32, 8, 64, 1472] {
            let machine = Machine {
                target: Target::ipu21(),
                kernels: Kernels::builtin(),
                tiles,
                partials: Partials::Any,
                streams: Streams::Fitting,
            };
            let (half, single) = (ElementType::F16, ElementType::F32);
            for elements in [[half, half], [single, single], [half, single]] {
                let extents = [37, 50, 100];
                let relu = Activation::Relu;
                let list = linear(&machine, elements, extents, &[1, 5], true, relu);
                assert!(
                    list.len() >= 3 || tiles == 1,
                    "{tiles} tiles: {} candidates",
                    list.len()
                );
                assert!(tiles == 1 || list.iter().any(|c| c.plan.grid_k > 1));
                for c in list {
                    let layouts = c.plan.operands.iter().chain([&c.result]);
                    assert!(layouts.clone().all(|l| l.tile_end() <= tiles));
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
}
