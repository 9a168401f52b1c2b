//! Plans as the search sees them, and which of many are kept.

use super::price::LayoutId;
use ipu_program::layout::Layout;
use ipu_program::plan::{Plan, Residency};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

/// A plan of an operator with its layouts by number.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The plan, without moves of operands.
    pub plan: Plan,
    /// The layout of the result.
    pub result: Layout,
    /// Its number.
    pub result_id: LayoutId,
    /// Numbers of the layouts of the operands.
    pub operands: Vec<LayoutId>,
    /// Bytes on a tile of what the host writes for it.
    pub persistent: u64,
    /// Bytes on a tile that it needs besides its operands and its result.
    pub temporary: u64,
    /// Bytes of the result on a tile.
    pub result_bytes: u64,
    /// Bytes of each operand on a tile.
    pub operand_bytes: Vec<u64>,
    /// Whether the same division takes as long with other partial sums.
    pub twin: bool,
}

impl Choice {
    /// Whether another plan divides the work in the same way and leaves the result in the same places.
    pub fn reads_as(&self, other: &Choice) -> bool {
        let key = |c: &Choice| {
            let p = &c.plan;
            let grid = [p.grid_rows, p.grid_columns, p.grid_k];
            (p.family, grid, p.partials, c.result_id)
        };
        key(self) == key(other)
    }

    /// What tells plans apart that a person would call different: the division, and the partial sums
    /// where they make a difference.
    pub fn form(&self) -> impl Hash + Ord + Copy + use<> {
        let p = &self.plan;
        let grid = [p.grid_rows, p.grid_columns, p.grid_k];
        (
            p.family,
            grid,
            p.steps,
            p.weights,
            (!self.twin).then_some(p.partials),
        )
    }
}

/// Notes which plans differ from others in their partial sums and in no cycle.
pub fn note_twins(list: &mut [Choice]) {
    let key = |c: &Choice| {
        let p = &c.plan;
        let grid = [p.grid_rows, p.grid_columns, p.grid_k];
        (
            (p.family, grid, p.steps, p.weights),
            (p.compute_cycles, p.exchange_cycles),
        )
    };
    let mut partials: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for c in list.iter() {
        partials.entry(key(c)).or_default().insert(c.plan.partials);
    }
    for c in list {
        c.twin = partials.get(&key(c)).is_some_and(|p| p.len() > 1);
    }
}

/// The plans to keep of many: the fastest, the fastest with their first operand moved, the fastest of
/// every division of the result, and the fastest in every class of memory.
pub fn retain(list: Vec<Choice>, most: usize) -> Vec<Choice> {
    let arrives = |c: &Choice| {
        let first = c.operand_bytes.first().copied().unwrap_or(0);
        c.plan.compute_cycles + c.plan.exchange_cycles + first / 4
    };
    let leaves = |c: &Choice| arrives(c) + c.result_bytes / 4;
    let size = |c: &Choice| (c.persistent.max(1).ilog2(), c.temporary.max(1).ilog2());
    let mut keep: BTreeSet<usize> = BTreeSet::new();
    let order = |key: &dyn Fn(&Choice) -> u64| {
        let mut order: Vec<usize> = (0..list.len()).collect();
        order.sort_by_key(|&i| (key(&list[i]), i));
        order
    };
    let distributed = |c: &Choice| c.plan.weights == Residency::Distributed;
    let mut orders = vec![
        order(&|c| c.plan.compute_cycles + c.plan.exchange_cycles),
        order(&arrives),
        order(&leaves),
        order(&|c| c.persistent + c.temporary + c.result_bytes),
    ];
    if list.iter().any(distributed) {
        // Weights of all operators share a tile.
        orders.push(order(&|c| c.persistent));
    }
    // The fastest of every division of rows and of columns, and of every class of memory.
    let (mut columns, mut rows, mut sizes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for &i in &orders[1] {
        let c = &list[i];
        let p = &c.plan;
        let new = columns.insert((p.grid_columns, p.partials))
            | rows.insert((p.grid_rows.ilog2(), p.partials))
            | sizes.insert(size(c));
        if new && keep.len() < most / 2 {
            keep.insert(i);
        }
    }
    let mut at = 0;
    while keep.len() < most && at < list.len() {
        for order in &orders {
            if keep.len() < most {
                keep.insert(order[at]);
            }
        }
        at += 1;
    }
    let mut i = 0;
    let mut list = list;
    list.retain(|_| {
        i += 1;
        keep.contains(&(i - 1))
    });
    list
}
