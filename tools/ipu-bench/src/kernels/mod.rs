//! Every kernel of the registry on the simulator: its law against the cycles of a call.

mod shapes;

use anyhow::{Context, Result, bail};
use ipu_image::emit::kernel_source;
use ipu_isa::link::Image;
use ipu_program::kernels::{Kernel, Kernels};
use ipu_program::layout::MemoryClass;
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use rayon::prelude::*;
use serde::Serialize;

use crate::Format;
use crate::programs::{RECORD, bytes, link, main_section, random_halves, start};
use shapes::Case;

/// How far a law may be from the simulator: this share of the cycles, or so many of them.
const LARGEST_SHARE: f64 = 0.03;
const LARGEST_CYCLES: u64 = 30;

/// One call.
#[derive(Clone, Debug, Serialize)]
struct Row {
    kernel: String,
    shape: String,
    law: u64,
    simulated: u64,
    error_percent: f64,
}

impl Row {
    fn too_far(&self) -> bool {
        let difference = self.law.abs_diff(self.simulated);
        difference > LARGEST_CYCLES && difference as f64 > LARGEST_SHARE * self.simulated as f64
    }
}

/// Measures all kernels, or those whose name contains `only`, and prints them.
pub fn run(format: Format, only: Option<&str>) -> Result<()> {
    let rows = measure(Kernels::builtin(), only, &|_| true)?;
    if let Some(only) = only.filter(|_| rows.is_empty()) {
        bail!("no kernel has '{only}' in its name");
    }
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => {
            println!(
                "{:<28} {:<40} {:>9} {:>9} {:>7}",
                "kernel", "shape", "law", "simulated", "error"
            );
            for r in &rows {
                println!(
                    "{:<28} {:<40} {:>9} {:>9} {:>6.1}%",
                    r.kernel, r.shape, r.law, r.simulated, r.error_percent
                );
            }
        }
    }
    let far: Vec<&Row> = rows.iter().filter(|r| r.too_far()).collect();
    if let Some(worst) = far.first() {
        bail!(
            "{} of {} laws are off by more than {} % and {LARGEST_CYCLES} cycles, first that of {} ({})",
            far.len(),
            rows.len(),
            100.0 * LARGEST_SHARE,
            worst.kernel,
            worst.shape
        );
    }
    Ok(())
}

/// The rows of a registry; `keep` chooses shapes by their number.
fn measure(
    kernels: &Kernels,
    only: Option<&str>,
    keep: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Vec<Row>> {
    let mut calls = Vec::new();
    for (name, kernel) in &kernels.kernels {
        // Also for kernels that are not measured: none may lack shapes.
        let cases = shapes::cases(name, kernel)?;
        if only.is_none_or(|part| name.contains(part)) {
            let image = link_kernel(name, kernel)?;
            let kept = cases.into_iter().enumerate().filter(|(i, _)| keep(*i));
            calls.extend(kept.map(|(_, case)| (name, kernel, image.clone(), case)));
        }
    }
    calls
        .par_iter()
        .map(|(name, kernel, image, case)| {
            let call = || format!("kernel '{name}', {}", case.shape);
            let simulated = simulate(kernel, image, case).with_context(call)?;
            let law = kernels.cycles(kernel, &case.words);
            Ok(Row {
                kernel: (*name).clone(),
                shape: case.shape.clone(),
                law,
                simulated,
                error_percent: 100.0 * (law as f64 - simulated as f64) / simulated as f64,
            })
        })
        .collect()
}

fn link_kernel(name: &str, kernel: &Kernel) -> Result<Image> {
    let source = kernel_source(&kernel.source)
        .with_context(|| format!("the source of kernel '{name}' is not part of the tools"))?;
    let defines: Vec<(&str, i64)> = kernel
        .defines
        .iter()
        .map(|(k, v)| (k.as_str(), *v))
        .collect();
    let call = format!("setzi $m0, {RECORD}\n call $m10, kernel_entry\n trap 0");
    link(&[
        ("main.S", &main_section(&call), &[]),
        (&kernel.source, source, &defines),
    ])
}

/// Places of buffers, each in elements of its own: one in standard memory, then interleaved ones.
const STANDARD: u32 = 0x60000;
const INTERLEAVED: u32 = 0x80000;
const PLACE: u32 = 0x10000;
const PLACES: usize = 6;

/// Cycles from the call to the instruction after it.
fn simulate(kernel: &Kernel, image: &Image, case: &Case) -> Result<u64> {
    let mut standard = Some(STANDARD);
    let mut interleaved = (0..PLACES as u32).map(|i| INTERLEAVED + i * PLACE);
    let mut record = Vec::new();
    let mut chip = Chip::new(Target::ipu21());
    for (number, buffer) in (1..).zip(&kernel.buffers) {
        let place = match buffer.memory {
            MemoryClass::Interleaved => None,
            MemoryClass::Any | MemoryClass::Standard => standard.take(),
        };
        let place = place
            .or_else(|| interleaved.next())
            .context("too many buffers")?;
        record.push(place);
        chip.load(0, place, &random_halves(PLACE as usize / 2, number))?;
    }
    record.extend(&case.words);
    let record = bytes(&record);
    if record.len() > (STANDARD - RECORD) as usize {
        bail!("the argument record has {} bytes", record.len());
    }
    chip.load(0, RECORD, &record)?;
    start(&mut chip, image, std::iter::once(0))?;
    match chip.run(100_000_000)? {
        // The call follows one instruction.
        Stop::Halted { cycle } => Ok(cycle - 1),
        other => bail!("the kernel did not return: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel on the first shapes of its family, the odd ones among them.
    #[test]
    fn laws_agree_with_the_simulator() {
        let rows = measure(Kernels::builtin(), None, &|i| i < 4).unwrap();
        let far: Vec<&Row> = rows.iter().filter(|r| r.too_far()).collect();
        assert!(far.is_empty(), "{far:#?}");
        for name in Kernels::builtin().kernels.keys() {
            assert!(rows.iter().any(|r| r.kernel == *name), "{name}");
        }
    }

    #[test]
    fn a_law_that_is_off_shows() {
        let mut kernels = Kernels::builtin().clone();
        let law = kernels.laws.get_mut("fill_zero").unwrap();
        *law = ipu_program::kernels::Law::Cycles(1);
        let rows = measure(&kernels, Some("fill_zero"), &|i| i == 0).unwrap();
        assert!(rows.len() == 1 && rows[0].too_far(), "{rows:?}");
    }

    #[test]
    fn kernels_without_shapes_are_refused() {
        for (words, table, message) in [
            (
                "[\"colour\"]",
                "None",
                "kernel 'k' belongs to no family of shapes (words: colour); \
                 tools/ipu-bench/src/kernels/shapes.rs needs one",
            ),
            (
                "[\"atoms_each\", \"atoms_extra\", \"colour\"]",
                "None",
                "kernel 'k': word 'colour' has no value for a shape; \
                 tools/ipu-bench/src/kernels/shapes.rs needs one",
            ),
            (
                "[\"atoms_each\", \"atoms_extra\"]",
                "Some(\"t\")",
                "kernel 'k': its table has no words for a shape; \
                 tools/ipu-bench/src/kernels/shapes.rs needs them",
            ),
        ] {
            let text = format!(
                "(laws: {{\"l\": Cycles(1)}}, kernels: {{\"k\": (summary: \"\", source: \"k.S\",
                buffers: [], words: {words}, table: {table}, meaning: Relu, law: \"l\")}})"
            );
            let kernels = Kernels::from_ron(&text).unwrap();
            // Also when it is not the one to measure.
            let error = measure(&kernels, Some("other"), &|_| true).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
