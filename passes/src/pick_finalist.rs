//! `ipu-pick-finalist`: the best candidate by what was really scheduled.

use ipu_image::timeline::timeline;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Step, TileProgram};
use ipu_target::Target;

/// Scheduled cycles of each program.
pub fn scheduled<'a>(
    programs: impl Iterator<Item = &'a TileProgram>,
    target: &Target,
    kernels: &Kernels,
) -> Vec<u64> {
    programs
        .map(|p| timeline(p, target, kernels).total)
        .collect()
}

/// The first step whose cycles are not known yet.
pub fn unscheduled(program: &TileProgram) -> Option<&str> {
    program.steps.iter().find_map(|step| match step {
        Step::Compute(_)
        | Step::Exchange {
            schedule: Some(_), ..
        } => None,
        Step::Exchange { schedule: None, .. } | Step::Rearrange { .. } => Some(step.name()),
    })
}

/// Index of the fewest cycles, the first of equals.
pub fn best(cycles: &[u64]) -> Option<usize> {
    cycles
        .iter()
        .enumerate()
        .min_by_key(|(i, n)| (**n, *i))
        .map(|(i, _)| i)
}
