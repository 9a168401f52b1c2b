//! What a complete choice needs on each tile, where the search only counts the largest shards.

use super::front::State;
use super::frontier::Frontier;
use ipu_program::layout::Layout;
use std::collections::BTreeMap;

/// The fullest tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes on it at the worst step, of weights and values, and of the longest records and rows.
    pub bytes: u64,
    /// The tile.
    pub tile: u32,
    /// The step at which they live.
    pub step: usize,
}

/// The footprint of the choices of all steps.
pub fn footprint(frontier: &mut Frontier<'_>, choices: &[u32]) -> Option<Footprint> {
    let problem = frontier.problem;
    let n = choices.len();
    // For each tile: bytes that begin and end to live at a step.
    let mut changes: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    let mut add = |layout: &Layout, matrix, bytes: u64, first: usize, last: usize| {
        for shard in layout.shards(matrix) {
            let tile = changes.entry(shard.tile).or_insert_with(|| vec![0; n + 2]);
            tile[first] += bytes as i64;
            tile[last.min(n) + 1] -= bytes as i64;
        }
    };
    let mut state = State::default();
    let mut code = 0;
    for (s, &choice) in choices.iter().enumerate() {
        let step = &problem.steps[s];
        let next = frontier.follow_choice(s, &state, choice)?;
        let c = &frontier.choices[choice as usize];
        for ((operand, &layout), &bytes) in
            step.operands.iter().zip(&c.operands).zip(&c.operand_bytes)
        {
            let layout = frontier.prices.layouts.get(layout);
            let access = &problem.accesses[operand.access as usize];
            if operand.origin == super::problem::Origin::Host {
                add(layout, access.to.matrix(), bytes, 0, n);
            }
        }
        for v in next.copied.iter() {
            let ty = &problem.graph.values[v.0 as usize].ty;
            let layout = frontier.prices.layouts.get(v.1);
            add(layout, ty.matrix(), v.2, s, problem.last_named(v.0).max(s));
        }
        for &(v, layout, bytes) in &next.placed {
            let ty = &problem.graph.values[v as usize].ty;
            let layout = frontier.prices.layouts.get(layout);
            add(layout, ty.matrix(), bytes, s, problem.last(v).max(s));
        }
        let result = problem.graph.ops[step.op].result;
        let matrix = problem.graph.ty(result).matrix();
        let last = problem.last(result.0).max(s);
        add(&c.result, matrix, c.result_bytes, s, last);
        add(&c.result, matrix, c.temporary, s, s);
        code += next.code;
        state = next.state;
    }
    let mut worst = None;
    for (&tile, list) in &changes {
        let mut live = 0i64;
        for (step, change) in list.iter().enumerate() {
            live += change;
            let bytes = live.max(0) as u64 + code;
            if worst.is_none_or(|w: Footprint| w.bytes < bytes) {
                worst = Some(Footprint {
                    bytes,
                    tile,
                    step: step.min(n.saturating_sub(1)),
                });
            }
        }
    }
    worst
}
