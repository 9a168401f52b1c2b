//! Products with weights on a grid of rows x parts of the contraction x columns.
//!
//! Tile `c * gm * gk + i * gk + p` multiplies part `p` of row part `i` with its weights for column
//! part `c`. The `gk` tiles of a block of the result then share its addition: each gets the partial
//! sums of its share of the rows, so that no tile receives more than it has computed.

use super::gemm::{self, PARTIAL_KERNEL};
use super::parts::{Parts, accurate};
use super::stream::{self, Grid, Streams};
use super::{Candidate, Machine, Partials, best, blocks, bytes, fits, grid, partials};
use ipu_program::graph::Activation;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::types::ElementType;

/// Plans that are handed on, those with the fewest cycles.
const MOST: usize = 48;

/// The same of plans with distributed weights.
const MOST_DISTRIBUTED: usize = 24;

/// The name of the kernel that adds partial sums of a type and, with a bias, one more operand.
pub fn reduce_kernel(element: ElementType, bias: bool, activation: Activation) -> String {
    let name = gemm::reduce_kernel(ElementType::F16, bias, activation);
    match element {
        ElementType::F16 => name.replace("partials", "halves"),
        _ => name,
    }
}

/// The kernel that leaves partial sums of a type.
pub fn partial_kernel(element: ElementType) -> String {
    match element {
        ElementType::F16 => gemm::kernel(element, false, Activation::None),
        _ => PARTIAL_KERNEL.to_owned(),
    }
}

/// Whether a plan of a linear operator that divides the contraction is one of this family: its
/// rows are divided too, or its partial sums are f16.
pub fn is_grid(plan: &Plan) -> bool {
    plan.grid_k > 1 && (plan.grid_rows > 1 || plan.partials == ElementType::F16)
}

/// The partial sums of a plan on a grid for a result of `m` rows in `result`.
pub fn parts(plan: &Plan, m: u32, result: &Layout) -> Option<Parts> {
    let [x, w, ..] = plan.operands.as_slice() else {
        return None;
    };
    let width = w.columns.block.next_multiple_of(PANEL);
    Some(Parts::new(
        plan.grid_k,
        m,
        width,
        x.rows,
        result,
        plan.partials,
    ))
}

/// The better plans of `act(x * w + b)`, x of `m` rows and `k` columns and w of `n` columns, in
/// which several tiles share the contraction and either several share the rows or partial sums are
/// f16. Column parts are whole `units`, for each of the units given; a unit that is no multiple of 16,
/// such as the width of a head, is padded on its tile.
///
/// f16 sums are as deep as [`accurate`] allows. Deeper ones are for who asked for f16 sums by name, and
/// only where none of these plans fits a tile: what is left then sums the whole contraction in f16.
pub fn linear(
    machine: &Machine<'_>,
    extents: [u32; 3],
    units: &[u32],
    bias: bool,
    act: Activation,
) -> Vec<Candidate> {
    let product = Product { extents, bias, act };
    let out = on_grids(machine, &product, units, false);
    let deep = machine.partials == Partials::F16 && !out.iter().any(|c| fits(machine, c));
    match deep {
        true => on_grids(machine, &product, units, true),
        false => out,
    }
}

/// What is computed.
struct Product {
    /// Rows, depth and columns.
    extents: [u32; 3],
    bias: bool,
    act: Activation,
}

/// The better plans on all grids; `deep` allows f16 sums of any depth.
fn on_grids(machine: &Machine<'_>, product: &Product, units: &[u32], deep: bool) -> Vec<Candidate> {
    let [m, k, n] = product.extents;
    let k_blocks = k.div_ceil(PANEL);
    let (mut resident, mut distributed) = (Vec::new(), Vec::new());
    for &unit in units {
        let pieces = n.div_ceil(unit);
        for group in blocks(pieces, machine.tiles) {
            let gn = pieces.div_ceil(group);
            for depth in blocks(k_blocks, machine.tiles / gn) {
                let gk = k_blocks.div_ceil(depth);
                if gk == 1 || gk > m {
                    continue;
                }
                let most = (machine.tiles / (gn * gk)).min(m / gk);
                // All the tiles there are, a half of them, and so on.
                let mut tried = 0;
                for halvings in 0..=most.max(1).ilog2() {
                    let gm = m.div_ceil(m.div_ceil(most >> halvings));
                    if gm == tried {
                        continue;
                    }
                    tried = gm;
                    for partials in partials(machine, k) {
                        let allowed = deep || accurate(partials, depth * PANEL);
                        if !allowed || (gm == 1 && partials != ElementType::F16) {
                            continue;
                        }
                        let columns = Split::even(n, gn, unit, gm * gk);
                        let grid = Grid {
                            rows: gm,
                            k: gk,
                            columns: gn,
                        };
                        let plan =
                            |streamed| plan(machine, product, grid, columns, partials, streamed);
                        if !matches!(machine.streams, Streams::Steps(_)) {
                            resident.extend(plan(None));
                        }
                        for steps in machine.streams.steps() {
                            // One row part has its weights on one tile anyway.
                            if gm == 1 || k_blocks.div_ceil(steps) < gk {
                                break;
                            }
                            let Some(c) = plan(Some(steps)) else { break };
                            let fits = fits(machine, &c);
                            distributed.push(c);
                            // Uneven steps may take longer than more of them.
                            if fits && k_blocks.div_ceil(steps).div_ceil(gk) * steps <= depth {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    let mut out = best(machine, resident, MOST);
    out.extend(ladder(machine, distributed));
    out
}

/// The better plans with distributed weights: the fastest, and the fastest of those whose homes are
/// small and smaller. All weights of a model share the memory, so that the smallest count.
fn ladder(machine: &Machine<'_>, plans: Vec<Candidate>) -> Vec<Candidate> {
    let home = |c: &Candidate| match c.plan.operands.get(1) {
        Some(w) => bytes(&[(w, ElementType::F16)]),
        None => 0,
    };
    // Rungs are a tenth apart.
    let mut order: Vec<&Candidate> = plans.iter().filter(|c| fits(machine, c)).collect();
    order.sort_by_key(|c| c.plan.compute_cycles + c.plan.exchange_cycles);
    let mut rungs: Vec<Candidate> = Vec::new();
    let mut least = u64::MAX;
    for c in order {
        if rungs.len() < MOST_DISTRIBUTED / 2 && home(c) < least - least / 10 {
            least = home(c);
            rungs.push(c.clone());
        }
    }
    let mut out = best(machine, plans, MOST_DISTRIBUTED);
    rungs.retain(|c| !out.contains(c));
    out.truncate(MOST_DISTRIBUTED - rungs.len());
    out.extend(rungs);
    out
}

/// A plan on a grid, with resident weights or distributed ones in so many steps.
fn plan(
    machine: &Machine<'_>,
    product: &Product,
    grid_of: Grid,
    columns: Split,
    partials: ElementType,
    streamed: Option<u32>,
) -> Option<Candidate> {
    let Product {
        extents: [m, k, _],
        bias,
        act,
    } = *product;
    let (gm, gk) = (grid_of.rows, grid_of.k);
    let f16 = ElementType::F16;
    let rows = Split::even(m, gm, 1, gk);
    let order = stream::order(partials);
    let [first_left, first] = grid_of.first(machine);
    let x = match streamed {
        Some(steps) if steps > 1 => grid_of.left_home(k, rows, first_left),
        _ => grid_of.left(k, rows),
    };
    let w = match streamed {
        Some(steps) => grid_of.weights_home((k, steps), columns, order, first),
        None => grid_of.weights(k, columns, order),
    };
    let result = grid(
        Split::even(m, gm * gk, 1, 1),
        columns,
        ElementOrder::Panels,
        MemoryClass::Any,
    );
    let mut operands = vec![x, w];
    if bias {
        operands.push(result.clone());
    }
    let mut plan = Plan {
        family: Family::Gemm,
        grid_rows: gm,
        grid_columns: grid_of.columns,
        grid_k: gk,
        steps: streamed.unwrap_or(1),
        weights: match streamed {
            Some(_) => Residency::Distributed,
            None => Residency::Resident,
        },
        partials,
        operands,
        compute_cycles: 0,
        exchange_cycles: 0,
        candidates: 0,
    };
    let parts = parts(&plan, m, &result)?;
    let blocks = stream::blocks(machine, &plan, k)?;
    let name = partial_kernel(partials);
    let call = [rows.block, k, columns.block];
    let out = parts.partial.storage(partials);
    let products = stream::products(machine, &plan, call, (&name, Activation::None), &out)?;
    let reduce = reduce_kernel(partials, bias, act);
    plan.compute_cycles = products + machine.cycles(&reduce, &parts.words(columns.block))?;
    plan.exchange_cycles =
        parts.scatter_cycles(machine) + blocks.moved.before + blocks.moved.events;
    let [x, w, ..] = plan.operands.as_slice() else {
        return None;
    };
    let operands = bytes(&[(x, f16), (w, f16)]);
    let mut memory = bytes(&[(&result, f16)]) + parts.bytes();
    if partials != f16 {
        memory += u64::from(rows.block) * 32;
    }
    if bias {
        memory += bytes(&[(&result, f16)]);
    }
    if streamed.is_some() {
        // The blocks are gone when the sums are brought together.
        let summed = memory;
        let partial = bytes(&[(&parts.partial, partials)]);
        memory = summed.max(blocks.bytes + partial);
        let crossing = [partial, bytes(&[(&parts.staging, partials)])];
        let missing = blocks.missing(machine, operands, partial, crossing);
        if missing > 0 {
            let all = u64::from(machine.target.memory_end - machine.target.memory_base);
            memory = memory.max(all + missing);
        }
    }
    Some(Candidate {
        plan,
        result,
        bytes: operands + memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select_operators::plans::Partials;
    use ipu_program::kernels::Kernels;
    use ipu_program::types::Matrix;
    use ipu_target::Target;
    use std::collections::BTreeSet;

    fn plans(tiles: u32, extents: [u32; 3], units: &[u32]) -> Vec<Candidate> {
        let machine = Machine {
            target: Target::ipu21(),
            kernels: Kernels::builtin(),
            tiles,
            partials: Partials::Any,
            streams: Streams::Fitting,
        };
        linear(&machine, extents, units, true, Activation::Relu)
    }

    #[test]
    fn every_tile_has_one_block_and_a_share_of_the_rows() {
        for (tiles, [m, k, n], units) in [
            (8, [37, 50, 100], &[16][..]),
            (64, [37, 200, 144], &[16, 72]),
            (1472, [729, 1152, 1152], &[16, 72]),
        ] {
            let list = plans(tiles, [m, k, n], units);
            let most = MOST + MOST_DISTRIBUTED;
            assert!(!list.is_empty() && list.len() <= most, "{tiles} tiles");
            let distributed = |c: &&Candidate| c.plan.weights == Residency::Distributed;
            assert!(list.iter().any(|c| distributed(&c)), "{tiles} tiles");
            for c in list {
                let grid = Grid::of(&c.plan);
                let [x, w, _] = c.plan.operands.as_slice() else {
                    panic!("{c:?}");
                };
                let parts = parts(&c.plan, m, &c.result).unwrap();
                let used = grid.tiles();
                assert!(used <= tiles);
                let matrix = parts.ty.matrix();
                let computed = parts.partial.shards(matrix);
                let own: BTreeSet<u32> = computed.iter().map(|s| s.tile).collect();
                assert_eq!((own.len(), computed.len()), (used as usize, used as usize));
                assert_eq!(parts.partial.tile_end(), used);
                // The operands of each block are where it is computed.
                let (left, weights) = match c.plan.weights {
                    Residency::Resident => (x.clone(), w.clone()),
                    Residency::Distributed => {
                        assert!(stream::has_homes(&c.plan, k));
                        (grid.left(k, x.rows), grid.weights(k, w.columns, w.order))
                    }
                };
                let holds = |l: &Layout, matrix: Matrix, tile: u32| {
                    let found = l.shards(matrix).into_iter().find(|s| s.tile == tile);
                    found.map(|s| (s.rows, s.columns))
                };
                for block in computed.iter().step_by(computed.len() / 7 + 1) {
                    let (rows, columns) = (m, k);
                    let (rows, depth) = holds(&left, Matrix { rows, columns }, block.tile).unwrap();
                    assert_eq!(rows, block.rows);
                    let (rows, columns) = (k, n);
                    let (deep, columns) =
                        holds(&weights, Matrix { rows, columns }, block.tile).unwrap();
                    assert_eq!(deep, depth);
                    let number = block.columns.start / parts.width / grid.k;
                    assert_eq!(columns, w.columns.range(number, n));
                }
                let covered: usize = c
                    .result
                    .shards(Matrix {
                        rows: m,
                        columns: n,
                    })
                    .iter()
                    .map(|s| s.rows.len() * s.columns.len())
                    .sum();
                assert_eq!(covered, (m * n) as usize);
            }
        }
    }
}
