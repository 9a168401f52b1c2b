//! What a run cost, each figure with where it comes from.

use ipu_image::memory::PeakMemory;
use serde::Serialize;
use std::fmt;

/// Simulated cycles of one run: from the release of the sync at which its inputs arrived to the
/// arrival of the last tile at the sync at which its outputs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct RunCycles {
    /// All of it: compute + exchange + sync.
    pub total_cycles: u64,
    /// Cycles of the last tile to arrive at each sync, outside of exchange rows.
    pub compute_cycles: u64,
    /// Cycles of that tile in exchange rows.
    pub exchange_cycles: u64,
    /// From the last arrival to the release of each internal sync.
    pub sync_cycles: u64,
    /// Internal syncs.
    pub phases: u64,
    /// The total if each internal sync took what others assume for a phase (600 cycles) instead
    /// of the value chosen for the simulator (150).
    pub total_cycles_at_600: u64,
}

/// What a run cost.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct RunReport {
    /// Device that ran it.
    pub device: String,
    /// By execution of the instructions; `None` for a device without a clock.
    pub simulated: Option<RunCycles>,
    /// Simulated cycles from the release of the sync at which parameters arrived to the arrival
    /// at the first sync for inputs; no part of a run.
    pub simulated_initialize_cycles: Option<u64>,
    /// By exchange rows and kernel laws, from the package.
    pub scheduled_cycles: Option<u64>,
    /// By the closed formulas of the plan search, from the package.
    pub estimated_cycles: Option<u64>,
    /// How full the fullest tile is, from the package.
    pub peak_memory: Option<PeakMemory>,
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device: {}", self.device)?;
        let mut line = |name: &str, cycles: Option<u64>| match cycles {
            Some(cycles) => writeln!(f, "{name}: {cycles} cycles"),
            None => Ok(()),
        };
        line("estimated", self.estimated_cycles)?;
        line("scheduled", self.scheduled_cycles)?;
        line("simulated", self.simulated.map(|s| s.total_cycles))?;
        if let Some(s) = self.simulated {
            line("  compute", Some(s.compute_cycles))?;
            line("  exchange", Some(s.exchange_cycles))?;
            line(
                &format!("  sync ({} phases)", s.phases),
                Some(s.sync_cycles),
            )?;
            line("simulated, 600 cycles a phase", Some(s.total_cycles_at_600))?;
        }
        line(
            "simulated initialize, apart",
            self.simulated_initialize_cycles,
        )?;
        match self.peak_memory {
            Some(PeakMemory { bytes, tile }) => {
                writeln!(f, "peak memory: {bytes} bytes, on tile {tile}")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_labelled() {
        let report = RunReport {
            device: "sim".into(),
            simulated: Some(RunCycles {
                total_cycles: 1000,
                compute_cycles: 500,
                exchange_cycles: 200,
                sync_cycles: 300,
                phases: 2,
                total_cycles_at_600: 1900,
            }),
            simulated_initialize_cycles: Some(7),
            scheduled_cycles: Some(990),
            estimated_cycles: None,
            peak_memory: Some(PeakMemory {
                bytes: 5000,
                tile: 3,
            }),
        };
        let expected = "device: sim\nscheduled: 990 cycles\nsimulated: 1000 cycles\n  compute: 500 cycles\n  exchange: 200 cycles\n  sync (2 phases): 300 cycles\nsimulated, 600 cycles a phase: 1900 cycles\nsimulated initialize, apart: 7 cycles\npeak memory: 5000 bytes, on tile 3\n";
        assert_eq!(report.to_string(), expected);
    }
}
