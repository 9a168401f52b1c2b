//! What the schedules of the examples say of exchange cycles is what the simulator takes.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

use ipu_image::package::Package;
use ipu_passes::registry::{Options, stages};
use ipu_passes::session::{Candidate, Session};
use ipu_program::graph::OpKind;
use ipu_program::tile::{Row, Step, TileProgram};
use ipu_program::types::TensorType;
use ipu_runtime::{Device, HostArray, Parameters, Program, SimulatorDevice};
use ipu_target::Target;
use pretty_assertions::assert_eq;
use std::path::Path;

const MAX_CYCLES: u64 = 100_000_000;

/// The zone of syncs among tiles.
const INTERNAL: u8 = 3;

fn zeros(ty: &TensorType) -> HostArray {
    HostArray::new(ty.clone(), vec![0.0; ty.elements() as usize]).unwrap()
}

/// The rows of every phase.
fn phases(program: &TileProgram) -> Vec<&[Row]> {
    let rows = |step| match step {
        &Step::Exchange {
            schedule: Some(ref schedule),
            ..
        } => Some(&schedule.rows[..]),
        _ => None,
    };
    program.steps.iter().filter_map(rows).collect()
}

fn horizon(rows: &[Row], tile: u32) -> u64 {
    let row = rows.iter().find(|r| r.tile == tile);
    row.map_or(0, |r| r.horizon.into())
}

/// Compares all phases of an example; the data do not matter to its exchanges.
fn compare(example: &str, tiles: u32) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(example)
        .join("model.mlir");
    let text = std::fs::read(path).unwrap();
    let session = Session::new();
    let mut model = session.parse(&text, example).unwrap();
    let graph = model.graph("main").unwrap();
    let options = Options {
        tiles,
        finalists: 1,
        ..Options::default()
    };
    let mut program = None;
    for (stage, pipeline) in stages(&options) {
        model.run(&pipeline).unwrap();
        if stage == "pick" {
            let found = model.candidates().unwrap().into_iter().next();
            program = found.map(|c| c.1);
        }
    }
    let Some(Candidate::Tiles(program)) = program else {
        panic!("no program was picked");
    };
    let package = Package::from_bytes(&model.package().unwrap()).unwrap();
    let inputs: Vec<HostArray> = graph.inputs.iter().map(|&v| zeros(graph.ty(v))).collect();
    let parameters: Parameters = graph
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Parameter { name } => Some((name.clone(), zeros(graph.ty(op.result)))),
            _ => None,
        })
        .collect();

    let target = Target::ipu21();
    let mut device = SimulatorDevice::new(target, MAX_CYCLES);
    let loaded = Program {
        package: Some(&package),
        ..Program::default()
    };
    device.load(loaded).unwrap();
    device.initialize(&parameters).unwrap();
    let state = |device: &SimulatorDevice| {
        let chip = device.machine().unwrap();
        let rows = |tile| chip.counters(tile).unwrap().row_cycles;
        let rows: Vec<u64> = (0..target.tiles).map(rows).collect();
        (chip.syncs().to_vec(), rows)
    };
    let (syncs_before, rows_before) = state(&device);
    device.run(&inputs).unwrap();
    let (syncs, rows) = state(&device);

    // Every tile, all phases.
    let phases = phases(&program);
    assert!(!phases.is_empty());
    for (tile, (after, before)) in (0..).zip(rows.iter().zip(&rows_before)) {
        let scheduled: u64 = phases.iter().map(|rows| horizon(rows, tile)).sum();
        assert_eq!(after - before, scheduled, "{example}: tile {tile}");
    }
    // Every phase, the tile that the chip waits for behind it.
    let mut seen = 0;
    for pair in syncs[syncs_before.len() - 1..].windows(2) {
        if pair[0].zone == INTERNAL {
            let tile = pair[1].last_tile;
            let scheduled = horizon(phases[seen], tile);
            assert_eq!(
                pair[1].row_cycles, scheduled,
                "{example}: phase {seen} on tile {tile}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, phases.len());
}

#[test]
fn of_mlp_digits() {
    compare("mlp-digits", 64);
}

#[test]
fn of_vit_small() {
    compare("vit-small", 64);
}

#[test]
fn of_vit_digits() {
    compare("vit-digits", 64);
}
