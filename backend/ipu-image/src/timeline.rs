//! Scheduled cycles: kernel laws and row horizons along the critical tile.
//!
//! Each tile has a clock. A compute step advances the clocks of its tiles by the kernel's law; an
//! exchange waits for the last tile, costs the internal sync, and then each tile its own row. The
//! supervisor's own instructions between kernels are counted as `emit` writes them.

use ipu_program::kernels::Kernels;
use ipu_program::tile::{Step, TileProgram};
use ipu_target::Target;
use std::collections::BTreeMap;

/// Cycles of a run, by closed formulas after scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Timeline {
    /// All cycles, from the release of the inputs to the arrival of the last tile at the outputs.
    pub total: u64,
    /// Cycles by which each step advances the latest clock.
    pub steps: Vec<u64>,
    /// Internal syncs.
    pub phases: u32,
}

/// Supervisor cycles from the end of a step to the `sync` of a phase on a tile with a row: the
/// five instructions that `emit` writes before it, with the wait for the written register.
fn exchange_entry(target: &Target) -> u64 {
    u64::from(target.supervisor_result_cycles) + 1
}

/// The scheduled cycles of a program; unscheduled exchanges and unknown kernels count as nothing.
pub fn timeline(program: &TileProgram, target: &Target, kernels: &Kernels) -> Timeline {
    let mut clock: BTreeMap<u32, u64> = BTreeMap::new();
    // Tiles that are not in the map have waited since the last release.
    let mut released = 0u64;
    let mut latest = 0u64;
    let mut out = Timeline::default();
    for step in &program.steps {
        let before = latest;
        match step {
            Step::Compute(c) => {
                let kernel = kernels.get(&c.kernel);
                let width = kernel.and_then(|k| k.record_words(c.words.len(), c.tiles.len()));
                for (i, &tile) in c.tiles.iter().enumerate() {
                    let cycles = kernel.map_or(0, |kernel| {
                        let words = width.and_then(|w| c.words.get(i * w..(i + 1) * w));
                        kernels.cycles(kernel, words.unwrap_or_default())
                    });
                    let t = clock.entry(tile).or_insert(released);
                    *t = t.saturating_add(1).saturating_add(cycles);
                    latest = latest.max(*t);
                }
            }
            Step::Exchange {
                schedule: Some(schedule),
                ..
            } => {
                out.phases += 1;
                for row in &schedule.rows {
                    let t = clock.entry(row.tile).or_insert(released);
                    *t = t.saturating_add(exchange_entry(target));
                }
                let arrived = clock.values().copied().max().unwrap_or(0).max(released);
                released = arrived.saturating_add(u64::from(target.internal_sync_cycles));
                clock.clear();
                latest = released;
                for row in &schedule.rows {
                    let call = target.supervisor_call_cycles + target.supervisor_branch_cycles;
                    let t = released.saturating_add(u64::from(call) + u64::from(row.horizon));
                    clock.insert(row.tile, t);
                    latest = latest.max(t);
                }
            }
            Step::Exchange { schedule: None, .. } | Step::Rearrange { .. } => {}
        }
        out.steps.push(latest - before);
    }
    out.total = latest;
    out
}
