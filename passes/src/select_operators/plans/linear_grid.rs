//! Products with weights on a grid of rows x parts of the contraction x columns.
//!
//! Tile `c * gm * gk + i * gk + p` multiplies part `p` of row part `i` with its weights for column
//! part `c`. The `gk` tiles of a block of the result then share its addition: each gets the partial
//! sums of its share of the rows, so that no tile receives more than it has computed.

use super::gemm::{self, PARTIAL_KERNEL};
use super::parts::{Parts, accurate};
use super::{Candidate, Machine, best, blocks, bytes, copied, grid, partials};
use ipu_program::graph::Activation;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::{Family, Plan};
use ipu_program::types::ElementType;

/// Plans that are handed on, those with the fewest cycles.
const MOST: usize = 48;

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

/// The partial sums of a product with weights in `w`, of `m` rows that `x` divides, for `result`.
pub fn parts(element: ElementType, m: u32, x: &Layout, w: &Layout, result: &Layout) -> Parts {
    let width = w.columns.block.next_multiple_of(PANEL);
    Parts::new(w.rows.parts, m, width, x.rows, result, element)
}

/// The better plans of `act(x * w + b)`, x of `m` rows and `k` columns and w of `n` columns, in
/// which several tiles share the contraction and either several share the rows or partial sums are
/// f16. Column parts are whole `units`, for each of the units given; a unit that is no multiple of 16,
/// such as the width of a head, is padded on its tile.
pub fn linear(
    machine: &Machine<'_>,
    [m, k, n]: [u32; 3],
    units: &[u32],
    bias: bool,
    act: Activation,
) -> Vec<Candidate> {
    let k_blocks = k.div_ceil(PANEL);
    let mut out = Vec::new();
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
                        let deep = depth * PANEL;
                        if (gm > 1 || partials == ElementType::F16) && accurate(partials, deep) {
                            let columns = Split::even(n, gn, unit, gm * gk);
                            let grid = [gm, gk, gn];
                            out.extend(plan(machine, [m, k], grid, columns, partials, bias, act));
                        }
                    }
                }
            }
        }
    }
    best(machine, out, MOST)
}

fn plan(
    machine: &Machine<'_>,
    [m, k]: [u32; 2],
    [gm, gk, gn]: [u32; 3],
    columns: Split,
    partials: ElementType,
    bias: bool,
    act: Activation,
) -> Option<Candidate> {
    let f16 = ElementType::F16;
    let panels = |rows, columns| grid(rows, columns, ElementOrder::Panels, MemoryClass::Any);
    let rows = Split::even(m, gm, 1, gk);
    let depth = Split::even(k, gk, PANEL, 1);
    let x = copied(panels(rows, depth), gn, gm * gk);
    let order = match partials {
        ElementType::F16 => ElementOrder::Weights16,
        _ => ElementOrder::Weights8,
    };
    let w = grid(depth, columns, order, MemoryClass::Interleaved);
    let w = copied(w, gm, gk);
    let result = panels(Split::even(m, gm * gk, 1, 1), columns);
    let parts = parts(partials, m, &x, &w, &result);
    let product = gemm::words(
        rows.block,
        depth.block,
        columns.block,
        &x.storage(f16),
        &parts.partial.storage(partials),
    );
    let reduce = reduce_kernel(partials, bias, act);
    let compute_cycles = machine.cycles(&partial_kernel(partials), &product)?
        + machine.cycles(&reduce, &parts.words(columns.block))?;
    let exchange_cycles = parts.scatter_cycles(machine);
    let mut memory = bytes(&[(&x, f16), (&w, f16), (&result, f16)]) + parts.bytes();
    if partials != f16 {
        memory += u64::from(rows.block) * 32;
    }
    let mut operands = vec![x, w];
    if bias {
        memory += bytes(&[(&result, f16)]);
        operands.push(result.clone());
    }
    Some(Candidate {
        plan: Plan {
            family: Family::Gemm,
            grid_rows: gm,
            grid_columns: gn,
            grid_k: gk,
            partials,
            operands,
            compute_cycles,
            exchange_cycles,
            candidates: 0,
        },
        result,
        bytes: memory,
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
            assert!(!list.is_empty() && list.len() <= MOST, "{tiles} tiles");
            for c in list {
                let Plan {
                    grid_rows: gm,
                    grid_k: gk,
                    grid_columns: gn,
                    ..
                } = c.plan;
                let [x, w, _] = c.plan.operands.as_slice() else {
                    panic!("{c:?}");
                };
                let parts = parts(c.plan.partials, m, x, w, &c.result);
                let used = gm * gk * gn;
                assert!(used <= tiles);
                let matrix = parts.ty.matrix();
                let computed = parts.partial.shards(matrix);
                let own: BTreeSet<u32> = computed.iter().map(|s| s.tile).collect();
                assert_eq!((own.len(), computed.len()), (used as usize, used as usize));
                assert_eq!(parts.partial.tile_end(), used);
                // The operands of each block are where it is computed.
                let holds = |l: &Layout, matrix: Matrix, tile: u32| {
                    let found = l.shards(matrix).into_iter().find(|s| s.tile == tile);
                    found.map(|s| (s.rows, s.columns))
                };
                for block in computed.iter().step_by(computed.len() / 7 + 1) {
                    let (rows, columns) = (m, k);
                    let (rows, depth) = holds(x, Matrix { rows, columns }, block.tile).unwrap();
                    assert_eq!(rows, block.rows);
                    let (rows, columns) = (k, n);
                    let (deep, columns) = holds(w, Matrix { rows, columns }, block.tile).unwrap();
                    assert_eq!(deep, depth);
                    let number = block.columns.start / parts.width / gk;
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
