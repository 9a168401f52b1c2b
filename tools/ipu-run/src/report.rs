//! The result file.

use ipu_runtime::compare::Comparison;
use ipu_runtime::levels::{Difference, Operator, Report};
use ipu_runtime::{Device, RunReport};
use serde::Serialize;

/// What `--result_file` holds. Cycles are simulated ones unless their name says otherwise.
#[derive(Debug, Serialize)]
pub struct ResultFile {
    /// Version of the tool.
    pub tool_version: &'static str,
    /// Device that ran the model.
    pub device: String,
    /// Function.
    pub function: String,
    /// Cycles of the last run and its parts, without the wait for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cycles: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_cycles: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange_cycles: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_cycles: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cycles_at_600: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initialize_cycles: Option<u64>,
    /// By exchange rows and kernel laws.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_cycles: Option<u64>,
    /// By the closed formulas of the plan search.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_cycles: Option<u64>,
    /// Most bytes that a tile holds at one time, and which tile.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_tile: Option<u32>,
    /// Top-1 accuracy against the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Relative L2 error of the first compared result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_l2: Option<f64>,
    /// Largest absolute error of the first compared result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// All comparisons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Compared>,
    /// Values of the tile program against the model in f32, in the order of steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operators: Vec<Operator>,
    /// The first step whose bytes differ between the chip and the tile program.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
}

/// One comparison.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// Number of the result.
    pub result: usize,
    /// What it was compared with.
    pub against: &'static str,
    /// Whether it is within the limits.
    pub passed: bool,
    /// The figures.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl ResultFile {
    /// The figures of a run.
    pub fn new(device: &dyn Device, function: &str, report: &RunReport) -> Self {
        let cycles = report.simulated;
        ResultFile {
            tool_version: env!("CARGO_PKG_VERSION"),
            device: device.name().to_owned(),
            function: function.to_owned(),
            total_cycles: cycles.map(|c| c.total_cycles),
            compute_cycles: cycles.map(|c| c.compute_cycles),
            exchange_cycles: cycles.map(|c| c.exchange_cycles),
            sync_cycles: cycles.map(|c| c.sync_cycles),
            phases: cycles.map(|c| c.phases),
            total_cycles_at_600: cycles.map(|c| c.total_cycles_at_600),
            initialize_cycles: report.simulated_initialize_cycles,
            scheduled_cycles: report.scheduled_cycles,
            estimated_cycles: report.estimated_cycles,
            peak_memory_bytes: report.peak_memory.map(|p| p.bytes),
            peak_memory_tile: report.peak_memory.map(|p| p.tile),
            accuracy: None,
            relative_l2: None,
            max_abs: None,
            comparisons: Vec::new(),
            operators: Vec::new(),
            difference: None,
        }
    }

    /// Adds what was found between levels.
    pub fn levels(&mut self, report: Report) {
        self.operators = report.operators;
        self.difference = report.difference;
    }

    /// Adds a comparison; the first one gives the figures at the top level.
    pub fn compared(&mut self, result: usize, against: &'static str, comparison: Comparison) {
        if self.comparisons.is_empty() {
            self.relative_l2 = Some(comparison.relative_l2);
            self.max_abs = Some(comparison.max_abs);
        }
        let passed = comparison.passed();
        self.comparisons.push(Compared {
            result,
            against,
            passed,
            comparison,
        });
    }
}
