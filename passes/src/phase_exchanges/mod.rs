//! `ipu-phase-exchanges`: as few phases as the dependences allow, and a schedule for each.
//!
//! Exchanges that do not depend on each other are merged first (`merge`): only here is every
//! exchange of a program known, those that rearrangements became and those that were there.
//!
//! Schedules are events with symbolic operands; addresses come later, and placement keeps apart
//! what a schedule sends and receives at the same time.

mod merge;

use ipu_exchange::schedule::schedule;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Step, TileProgram};
use ipu_target::Target;

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
    if merge {
        merge::merge(program, target, kernels);
    }
    for step in &mut program.steps {
        if let Step::Rearrange { name, location, .. } = step {
            return Err(PhaseError {
                location: location.clone(),
                step: name.clone(),
                why: "it is a rearrangement; run ipu-convert-layouts first".to_owned(),
            });
        }
        if let Step::Exchange {
            name,
            copies,
            schedule: slot,
            location,
        } = step
        {
            let found = schedule(target, copies).map_err(|e| PhaseError {
                location: location.clone(),
                step: name.clone(),
                why: e.to_string(),
            })?;
            tracing::debug!(
                exchange = %name,
                horizon = found.horizon,
                bound = found.bound,
                "scheduled"
            );
            *slot = Some(found);
        }
    }
    Ok(())
}
