//! Random models through every level: the model in f32, the selected operators, the tile program
//! as it leaves tiling and as it leaves placement, and the package on the simulator.
//!
//! `IPU_MODELS=FIRST..LAST` checks the models of these seeds as well, on machines of every size;
//! a failure names its seed, and `IPU_MODELS=SEED..SEED+1` repeats it. `IPU_OPERATORS` does the same
//! for models of all operators.
#![allow(clippy::panic)] // helpers outside of test functions

mod generate;
mod grids;
mod levels;
mod noise;
mod operators;
mod rows;
mod shrink;

use generate::{Model, model};
use ipu_image::package::Package;
use levels::{Figures, check, compile};

/// Sizes of machines; whole chips are slower, so they are rarer.
const TILES: [u32; 15] = [1, 2, 3, 5, 8, 17, 64, 1, 2, 3, 5, 8, 17, 64, 1472];

/// Checks the models of some seeds and returns the worst figures.
fn sweep(seeds: impl Iterator<Item = u64>) -> Figures {
    sweep_of(model, &TILES, seeds)
}

/// The same for a generator of models.
fn sweep_of(
    model: fn(u64, u32) -> Model,
    sizes: &[u32],
    seeds: impl Iterator<Item = u64>,
) -> Figures {
    let mut worst = Figures::default();
    let mut failures = Vec::new();
    let (mut refused, mut seen) = (0, 0);
    for seed in seeds {
        seen += 1;
        let tiles = sizes[(seed % sizes.len() as u64) as usize];
        let model = model(seed, tiles);
        let few = if model.single { 4 } else { 2 };
        let checked = std::panic::catch_unwind(|| check(&model));
        let checked = checked.unwrap_or_else(|_| Err("panicked".into()));
        match checked {
            Ok(figures) => worst = worst.max(&figures, seed),
            // Few tiles hold little, of f32 half as much; such a refusal says where.
            Err(why)
                if tiles <= few && why.contains("error: ") && why.contains("does not fit: ") =>
            {
                refused += 1;
            }
            Err(why) => {
                let (text, reason) = shrink::shrink(&model, &why);
                failures.push(format!(
                    "seed {seed}: {why}\n{:?}\nsmaller: {reason}\n{text}",
                    model.options
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, {worst:#?}\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(20 * refused <= seen, "{refused} of {seen} models refused");
    worst
}

#[test]
fn models_agree_at_every_level_part_1() {
    println!("{:#?}", sweep(0..30));
}

#[test]
fn models_agree_at_every_level_part_2() {
    println!("{:#?}", sweep(30..60));
}

#[test]
fn schedules_pass_an_independent_checker() {
    let Some(checker) = rows::checker() else {
        println!("skipped: no check_rows.py beside the repository, set IPU_CHECK_ROWS to its path");
        return;
    };
    let mut phases = Vec::new();
    for seed in 0..60 {
        let tiles = [2, 3, 5, 8, 17, 64, 300, 1472][seed as usize % 8];
        let compiled = compile(&model(seed, tiles), true).unwrap();
        let package = Package::from_bytes(&compiled.package).unwrap();
        let name = format!("seed{seed}.tiles{tiles}");
        phases.extend(rows::phases(&name, &compiled.picked[0], &package).unwrap());
        if phases.len() >= 40 {
            break;
        }
    }
    let found = rows::check(&checker, &phases).unwrap();
    assert_eq!(
        found.matches(" ok: words delivered").count(),
        phases.len(),
        "{found}"
    );
    assert!(phases.len() >= 20, "only {} phases", phases.len());
    // The checker does look: a word that goes elsewhere is refused.
    let transfer = &mut phases[0]["transfers"][0];
    transfer["source_address"] = "0x4c000".into();
    assert!(rows::check(&checker, &phases[..1]).is_err());
    println!("{found}");
}

/// Whole chips are rarer for these still.
const OPERATOR_TILES: [u32; 23] = [
    1, 2, 5, 8, 64, 3, 17, 4, 1, 2, 5, 8, 64, 3, 17, 6, 1, 2, 5, 8, 64, 300, 1472,
];

#[test]
fn models_of_all_operators_agree_at_every_level() {
    println!("{:#?}", sweep_of(operators::model, &OPERATOR_TILES, 0..46));
}

#[test]
fn models_of_all_operators_in_f32_agree_at_every_level() {
    println!("{:#?}", sweep_of(operators::single, &OPERATOR_TILES, 0..46));
}

#[test]
fn models_with_f32_results_of_f16_operands_agree_at_every_level() {
    println!(
        "{:#?}",
        sweep_of(operators::widening, &OPERATOR_TILES, 0..23)
    );
}

#[test]
fn more_models_of_all_operators_agree_when_asked_for() {
    let Some(range) = range("IPU_OPERATORS") else {
        return;
    };
    for generator in [operators::model, operators::single, operators::widening] {
        println!("{:#?}", sweep_of(generator, &OPERATOR_TILES, range.clone()));
    }
}

#[test]
fn more_models_agree_when_asked_for() {
    let Some(range) = range("IPU_MODELS") else {
        return;
    };
    println!("{:#?}", sweep(range));
}

/// Seeds that a variable of the environment asks for.
fn range(name: &str) -> Option<std::ops::Range<u64>> {
    let Ok(range) = std::env::var(name) else {
        println!("skipped: set {name}=FIRST..LAST for more models");
        return None;
    };
    let bounds = range
        .split_once("..")
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((first, last)) = bounds else {
        panic!("{name} is '{range}', expected FIRST..LAST");
    };
    Some(first..last)
}
