//! What selection takes for the bytes of argument records and exchange rows is about what the programs
//! need.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

use ipu_image::emit::records_end;
use ipu_passes::place_storage::row_bytes;
use ipu_passes::registry::{Options, stages};
use ipu_passes::select_operators::algebra::{self, Rules};
use ipu_passes::select_operators::plans::stream::Streams;
use ipu_passes::select_operators::plans::{Machine, Partials};
use ipu_passes::select_operators::{Wanted, select};
use ipu_passes::session::{Candidate, Session};
use ipu_program::kernels::Kernels;
use ipu_target::Target;
use std::path::Path;

/// Bytes of records and rows of the first finalist of an example: as selection estimates them, and
/// as they are.
fn compare(example: &str, tiles: u32) -> (u64, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(example)
        .join("model.mlir");
    let text = std::fs::read(path).unwrap();
    let target = Target::ipu21();
    let session = Session::new();
    let mut model = session.parse(&text, example).unwrap();
    let machine = Machine {
        target,
        kernels: Kernels::builtin(),
        tiles,
        partials: Partials::F32,
        streams: Streams::None,
    };
    let wanted = Wanted {
        finalists: 1,
        hints: &[],
        explain: false,
        algebra: &algebra::Options::default(),
        rules: Rules::builtin().unwrap(),
    };
    let (selection, _) = select(&model.graph("main").unwrap(), &machine, &wanted).unwrap();
    let estimated = selection.finalists[0].code_bytes;
    let options = Options {
        tiles,
        finalists: 1,
        partials: "f32".into(),
        ..Options::default()
    };
    for (stage, pipeline) in stages(&options) {
        model.run(&pipeline).unwrap();
        if stage == "phases" {
            break;
        }
    }
    let found = model.candidates().unwrap().into_iter().next();
    let Some((_, Candidate::Tiles(program))) = found else {
        panic!("no program");
    };
    let rows = row_bytes(&program, target).unwrap();
    let rows = rows.into_values().max().unwrap_or(0);
    let state_end = target.runtime_state_base + target.runtime_state_bytes;
    let records = records_end(&program, target) - state_end;
    (estimated, u64::from(rows + records))
}

#[test]
fn records_and_rows_are_about_as_estimated() {
    for (example, tiles) in [("mlp-digits", 64), ("vit-digits", 16), ("vit-small", 64)] {
        let (estimated, needed) = compare(example, tiles);
        println!("{example} on {tiles} tiles: {estimated} estimated, {needed} needed");
        // Too few by a third at most, and at most twice as many and a little.
        assert!(
            needed * 2 <= estimated * 3 && estimated <= needed * 2 + 1024,
            "{example} on {tiles} tiles: {estimated} estimated, {needed} needed"
        );
    }
}
