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

/// What was estimated of a candidate and what was scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Cycles that the search estimated.
    pub estimated: u64,
    /// Cycles of its schedule.
    pub scheduled: u64,
}

/// Kendall's rank correlation of pairs of numbers, from -1 to 1: pairs in the same order less those
/// in the opposite order, of all that differ in both; `None` when none do.
pub fn kendall(list: &[(u64, u64)]) -> Option<f64> {
    let (mut same, mut opposite) = (0u64, 0u64);
    for (i, a) in list.iter().enumerate() {
        for b in &list[i + 1..] {
            match (a.0.cmp(&b.0), a.1.cmp(&b.1)) {
                (x, y) if x.is_eq() || y.is_eq() => {}
                (x, y) if x == y => same += 1,
                _ => opposite += 1,
            }
        }
    }
    let all = same + opposite;
    (all > 0).then(|| (same as f64 - opposite as f64) / all as f64)
}

/// The order of the candidates by estimate and by schedule, and how far both agree.
pub fn ranking(list: &[Ranked]) -> String {
    let order = |key: &dyn Fn(&Ranked) -> u64| {
        let mut order: Vec<&Ranked> = list.iter().collect();
        order.sort_by_key(|r| key(r));
        let names = order.iter().map(|r| format!("{} {}", r.name, key(r)));
        names.collect::<Vec<_>>().join(" < ")
    };
    let pairs: Vec<(u64, u64)> = list.iter().map(|r| (r.estimated, r.scheduled)).collect();
    let tau = match kendall(&pairs) {
        Some(tau) => format!("{tau:.2}"),
        None => "undefined, none differ in both".to_owned(),
    };
    format!(
        "estimated {}; scheduled {}; Kendall's tau {tau}",
        order(&|r| r.estimated),
        order(&|r| r.scheduled)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_counts_pairs() {
        assert_eq!(kendall(&[(1, 10), (2, 20), (3, 30)]), Some(1.0));
        assert_eq!(kendall(&[(1, 30), (2, 20), (3, 10)]), Some(-1.0));
        // Two pairs in order, one not.
        assert_eq!(kendall(&[(1, 10), (2, 30), (3, 20)]), Some(1.0 / 3.0));
        assert_eq!(kendall(&[(1, 10), (1, 20)]), None);
        assert_eq!(kendall(&[]), None);
    }
}
