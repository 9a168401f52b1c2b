//! Random models through every level: the model in f32, the selected operators, the tile program
//! as it leaves tiling and as it leaves placement, and the package on the simulator.
//!
//! `IPU_MODELS=FIRST..LAST` checks the models of these seeds as well, on machines of every size;
//! a failure names its seed, and `IPU_MODELS=SEED..SEED+1` repeats it.

mod generate;
mod levels;

use generate::model;
use levels::{Figures, check};

/// Sizes of machines; whole chips are slower, so they are rarer.
const TILES: [u32; 15] = [1, 2, 3, 5, 8, 17, 64, 1, 2, 3, 5, 8, 17, 64, 1472];

/// Checks the models of some seeds and returns the worst figures.
fn sweep(seeds: impl Iterator<Item = u64>) -> Figures {
    let mut worst = Figures::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let tiles = TILES[(seed % TILES.len() as u64) as usize];
        let model = model(seed, tiles);
        match check(&model) {
            Ok(figures) => worst = worst.max(&figures, seed),
            Err(why) => failures.push(format!(
                "seed {seed}: {why}\n{:?}\n{}",
                model.options, model.text
            )),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, {worst:#?}\n{}",
        failures.len(),
        failures.join("\n")
    );
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
fn more_models_agree_when_asked_for() {
    let Ok(range) = std::env::var("IPU_MODELS") else {
        println!("skipped: set IPU_MODELS=FIRST..LAST for more models");
        return;
    };
    let bounds = range
        .split_once("..")
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((first, last)) = bounds else {
        panic!("IPU_MODELS is '{range}', expected FIRST..LAST");
    };
    println!("{:#?}", sweep(first..last));
}
