//! `ipu-phase-exchanges`: as few phases as the dependences allow, and a schedule for each.
//!
//! Exchanges that do not depend on each other are merged first (`merge`): only here is every
//! exchange of a program known, those that rearrangements became and those that were there. A
//! merge that made compute steps wait is undone when the scheduled cycles of the whole program are
//! fewer without. Then the transfers of each phase are brought into their best form (`coalesce`)
//! and scheduled; phases that are equal but for buffers and addresses are scheduled once
//! (`reuse`). Last, other numberings of the tiles are tried ([`screen()`]).
//!
//! Schedules are events with symbolic operands; addresses come later, and placement keeps apart
//! what a schedule sends and receives at the same time. So no phase is scheduled again after
//! placement: emission puts addresses into the rows, and the checker reads what came out. The same
//! is there on request ([`verify`]).

mod coalesce;
mod merge;
pub mod report;
mod reuse;
mod screen;
pub mod verify;

pub use screen::screen;

use ipu_exchange::schedule::ScheduleError;
use ipu_image::timeline::timeline;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Copy, Schedule, Step, TileProgram, Transfer};
use ipu_target::Target;
use reuse::{Cache, Canonical};
use std::collections::{BTreeSet, HashMap};

/// Most merges of a program that are tried without.
const MAX_TRIALS: usize = 8;

/// Most transfers that all trials of a program schedule.
const TRIAL_TRANSFERS: usize = 400_000;

/// A step without a schedule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("exchange '{step}': {why}")]
pub struct PhaseError {
    /// Source location.
    pub location: String,
    /// Step symbol.
    pub step: String,
    /// What is wrong with it.
    pub why: String,
}

/// Merges the exchanges of a program, if wanted, and schedules them.
///
/// # Errors
/// A transfer that the chip cannot carry out, or a rearrangement that was not lowered.
pub fn phase_exchanges(
    program: &mut TileProgram,
    target: &Target,
    kernels: &Kernels,
    merge: bool,
) -> Result<(), PhaseError> {
    for step in &program.steps {
        if let Step::Rearrange { name, location, .. } = step {
            return Err(PhaseError {
                location: location.clone(),
                step: name.clone(),
                why: "it is a rearrangement; run ipu-convert-layouts first".to_owned(),
            });
        }
    }
    let cache = Cache::shared();
    if !merge {
        return schedule_all(program, target, cache);
    }
    let apart = program.clone();
    let (joined, merging) = merge::merge(program, target, kernels);
    schedule_all(program, target, cache)?;
    let trials = MAX_TRIALS.min(TRIAL_TRANSFERS / transfers(&apart).max(1));
    let mut kept: BTreeSet<merge::Pair> = BTreeSet::new();
    let mut best = timeline(program, target, kernels).total;
    for joined in joined.into_iter().filter(|j| j.moved).take(trials) {
        kept.insert(joined.pair.clone());
        let mut better = false;
        if let Some((mut other, _)) = merging.without(&apart, kernels, &kept) {
            schedule_all(&mut other, target, cache)?;
            let total = timeline(&other, target, kernels).total;
            better = total < best;
            if better {
                let (first, second) = &joined.pair;
                tracing::debug!(%first, %second, cycles = total, before = best, "kept apart");
                (*program, best) = (other, total);
            }
        }
        if !better {
            kept.remove(&joined.pair);
        }
    }
    Ok(())
}

fn transfers(program: &TileProgram) -> usize {
    let of = |step: &Step| match step {
        Step::Exchange { copies, .. } => copies.iter().map(|c| c.transfers.len()).sum(),
        _ => 0,
    };
    program.steps.iter().map(of).sum()
}

/// Brings the transfers of every exchange into their best form and schedules them.
fn schedule_all(
    program: &mut TileProgram,
    target: &Target,
    cache: &Cache,
) -> Result<(), PhaseError> {
    // The first exchange of each form.
    let mut first: HashMap<reuse::Key, String> = HashMap::new();
    for step in &mut program.steps {
        let Step::Exchange {
            name,
            copies,
            schedule: slot,
            location,
        } = step
        else {
            continue;
        };
        let mut found = schedule_phase(target, copies, cache).map_err(|e| PhaseError {
            location: location.clone(),
            step: name.clone(),
            why: explain(&e, copies),
        })?;
        let same = first
            .entry(Canonical::of(copies).key())
            .or_insert_with(|| name.clone());
        if let Some(certificate) = &mut found.certificate
            && same != name
        {
            certificate.same_as = Some(same.clone());
        }
        tracing::debug!(
            exchange = %name,
            horizon = found.horizon,
            bound = found.bound,
            same_as = %same,
            "scheduled"
        );
        *slot = Some(found);
    }
    Ok(())
}

/// Schedules one phase in the better of two forms: as it is, and with each byte sent once.
fn schedule_phase(
    target: &Target,
    copies: &mut Vec<Copy>,
    cache: &Cache,
) -> Result<Schedule, ScheduleError> {
    let mut whole = copies.clone();
    let saved = coalesce::coalesce(&mut whole).saved_words;
    let found = cache.schedule(target, &whole);
    // A multicast keeps several receivers waiting at once: not always a gain.
    if found.is_err() || saved > 0 {
        let plain = cache.schedule(target, copies)?;
        if found
            .as_ref()
            .is_ok_and(|f| f.schedule.horizon <= plain.schedule.horizon)
        {
            *copies = whole;
            return found.map(report::certified);
        }
        return Ok(report::certified(plain));
    }
    *copies = whole;
    found.map(report::certified)
}

/// The error with its transfers as they are written.
fn explain(error: &ScheduleError, copies: &[Copy]) -> String {
    let list: Vec<&Transfer> = copies.iter().flat_map(|c| &c.transfers).collect();
    let mut text = error.to_string();
    for number in error.transfers() {
        let Some(t) = list.get(number as usize) else {
            continue;
        };
        let shown: Vec<String> = t
            .destinations
            .iter()
            .take(4)
            .map(|(tile, offset)| format!("{tile}+{offset}"))
            .collect();
        let rest = match t.destinations.len() - shown.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        text += &format!(
            "; transfer {number} is [{}+{} x {} -> {}{rest}]",
            t.source,
            t.source_offset,
            t.words,
            shown.join(" and ")
        );
    }
    text
}
