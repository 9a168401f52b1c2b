//! `ipu-phase-exchanges`: a schedule for every exchange.
//!
//! Schedules are events with symbolic operands; addresses come later, and placement keeps apart
//! what a schedule sends and receives at the same time.

use ipu_exchange::schedule::{ScheduleError, schedule};
use ipu_program::tile::{Step, TileProgram};
use ipu_target::Target;

/// An exchange without a schedule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("exchange '{step}': {source}")]
pub struct PhaseError {
    /// Source location.
    pub location: String,
    /// Step symbol.
    pub step: String,
    /// What is wrong with its transfers.
    pub source: ScheduleError,
}

/// Schedules all exchanges of a program.
///
/// # Errors
/// A transfer that the chip cannot carry out, or a rearrangement that was not lowered.
pub fn phase_exchanges(program: &mut TileProgram, target: &Target) -> Result<(), PhaseError> {
    for step in &mut program.steps {
        if let Step::Exchange {
            name,
            copies,
            schedule: slot,
            location,
        } = step
        {
            let found = schedule(target, copies).map_err(|source| PhaseError {
                location: location.clone(),
                step: name.clone(),
                source,
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
