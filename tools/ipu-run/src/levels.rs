//! `--check_reference`: the levels of a model against each other, as text.

use crate::cli::Cli;
use crate::execute::{Loaded, thresholds};
use anyhow::{Result, bail};
use ipu_passes::session::Lowered;
use ipu_program::graph::Graph;
use ipu_program::kernels::Kernels;
use ipu_runtime::levels::{Comparer, Levels, Operator, Report};
use ipu_runtime::{Device, HostArray, Parameters};
use std::fmt::Write as _;

/// Whether there is a model to compare with. A package holds neither it nor the tile program: then
/// only outputs can be compared, with what is expected of them.
///
/// # Errors
/// Nothing is expected of them.
pub fn model_is_known(cli: &Cli, loaded: &Loaded, expected: &[Option<HostArray>]) -> Result<bool> {
    if loaded.graph.is_some() {
        return Ok(true);
    }
    const WHY: &str = "--check_reference: a package holds neither the model nor the tile program";
    if expected.iter().all(Option::is_none) {
        bail!(
            "{WHY}: give it the .mlir file, or --expected_output to compare the outputs and nothing else"
        );
    }
    if !cli.quiet {
        sayln!("{WHY}: only the outputs are compared, with what is expected");
    }
    Ok(false)
}

/// Compares while a device runs.
///
/// # Errors
/// The model or the tile program does not take the data.
pub fn comparer<'a>(
    cli: &'a Cli,
    model: &'a Graph,
    lowered: &'a Lowered,
    parameters: &Parameters,
    inputs: &[HostArray],
) -> Result<Comparer<'a>> {
    let levels = Levels {
        model,
        selected: &lowered.selected,
        tiles: &lowered.tiles,
        values: &lowered.values,
        kernels: Kernels::builtin(),
    };
    let limits = |element| thresholds(cli, element);
    Ok(Comparer::new(levels, parameters, inputs, limits)?)
}

/// What was found, after another run with a closer look where the first one leaves open which step
/// of a superstep it is.
///
/// # Errors
/// Something kept it from comparing, or the device fails.
pub fn finish(
    comparer: Comparer<'_>,
    device: &mut dyn Device,
    parameters: &Parameters,
    inputs: &[HostArray],
) -> Result<Report> {
    let closer = comparer.closer(parameters, inputs)?;
    let report = comparer.finish()?;
    let Some(mut closer) = closer else {
        return Ok(report);
    };
    device.run_observed(inputs, &mut closer)?;
    Ok(report.with_closer(closer.finish()?))
}

/// Prints a line for each pair of levels unless it is to be quiet; gives what failed.
pub fn verdicts(cli: &Cli, report: &Report) -> Vec<String> {
    let mut failures = Vec::new();
    let mut verdict = |what: &str, summary: String, failure: Option<String>| {
        if !cli.quiet {
            let tag = if failure.is_none() {
                "[SUCCESS]"
            } else {
                "[FAILED]"
            };
            sayln!("{tag} {what}: {summary}");
        }
        failures.extend(failure.map(|f| format!("{what}: {f}")));
    };
    if let Some(first) = report.selection_failure() {
        verdict(
            "selected operators against the model",
            beyond(&report.selection),
            Some(format!("the first operation beyond the limits is {first}")),
        );
    }
    let all = &report.operators;
    let most = |figure: fn(&Operator) -> f64| all.iter().map(figure).fold(0.0, f64::max);
    let mut summary = match report.operator_failure() {
        Some(_) => beyond(all),
        None => format!("{} values", all.len()),
    };
    let _ = write!(
        summary,
        ", max abs {:.3e}, max rel {:.3e}, max ulp {:.1}",
        most(|o| o.comparison.max_abs),
        most(|o| o.comparison.max_rel),
        most(|o| o.comparison.max_ulp),
    );
    if report.partial > 0 {
        let _ = write!(summary, "; {} held in part, not compared", report.partial);
    }
    let failure = report.operator_failure();
    verdict(
        "tile level against the reference",
        summary,
        failure.map(|first| format!("the first operation beyond the limits is {first}")),
    );
    if report.looks > 0 {
        let mut summary = match &report.difference {
            Some(d) => format!("differs from step {} of {} on", d.step, d.steps),
            None => format!(
                "{} steps, {} bytes are equal",
                report.steps,
                report.compared - report.undefined
            ),
        };
        if report.undefined > 0 {
            let _ = write!(
                summary,
                "; {} depend on memory that no step wrote, not compared",
                report.undefined
            );
        }
        let failure = report.difference.as_ref();
        verdict(
            "sim against the tile level",
            summary,
            failure.map(|d| format!("the first difference is in {d}")),
        );
    }
    failures
}

fn beyond(operators: &[Operator]) -> String {
    let failed = operators.iter().filter(|o| !o.passed()).count();
    format!("{failed} of {} values beyond the limits", operators.len())
}

/// A line for each value of the tile program.
pub fn table(report: &Report) -> String {
    let mut text = String::from(
        "tile level against the reference:\n  step    max abs    max rel   max ulp  operation\n",
    );
    for o in &report.operators {
        let (step, buffer) = o
            .place
            .as_ref()
            .map_or((0, ""), |p| (p.step, p.buffer.as_str()));
        let c = &o.comparison;
        let at = match o.location.as_str() {
            "" => String::new(),
            location => format!(" at {location}"),
        };
        let mark = if o.passed() {
            ""
        } else {
            "  beyond the limits"
        };
        let _ = writeln!(
            text,
            "{step:>6}  {:>9.3e}  {:>9.3e}  {:>8.1}  {}{at}, '{buffer}'{mark}",
            c.max_abs, c.max_rel, c.max_ulp, o.operation
        );
    }
    text
}
