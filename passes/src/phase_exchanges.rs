//! `ipu-phase-exchanges`: a schedule for every exchange.
//!
//! Schedules are events with symbolic operands; addresses come later, and placement keeps apart
//! what a schedule sends and receives at the same time.

use ipu_exchange::schedule::schedule;
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

/// Schedules all exchanges of a program.
///
/// # Errors
/// A transfer that the chip cannot carry out, or a rearrangement that was not lowered.
pub fn phase_exchanges(program: &mut TileProgram, target: &Target) -> Result<(), PhaseError> {
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
