//! Barriers, host stops, the split of a run, and independence of the number of threads.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use ipu_simulator::{Chip, Stop, SyncRecord};
use ipu_target::Target;
use pretty_assertions::assert_eq;

fn start(programs: &[(u32, &str)]) -> Chip {
    let mut chip = Chip::new(Target::ipu21());
    for &(tile, source) in programs {
        let image = assemble(source);
        chip.load(tile, BASE, &image.bytes).unwrap();
        chip.start(tile, BASE).unwrap();
    }
    chip
}

#[test]
fn internal_sync_releases_all_at_once() {
    let mut chip = start(&[
        (4, "delay 99\n sync 3\n get $m0, 96\n trap 0"),
        (8, "delay 39\n setzi $m1, 1\n sync 3\n get $m0, 96\n trap 0"),
        (9, "sans 0\n sync 1\n get $m0, 96\n trap 0"),
    ]);
    chip.run(LIMIT).unwrap();
    for tile in [4, 8, 9] {
        assert_eq!(chip.supervisor_registers(tile).unwrap().m[0], 250);
    }
    let record = SyncRecord {
        zone: 3,
        arrival_cycle: 100,
        release_cycle: 250,
        last_tile: 4,
        row_cycles: 100,
    };
    assert_eq!(chip.syncs(), [record]);
}

/// Two tiles that meet three times and write in between.
#[test]
fn a_run_pauses_at_internal_syncs() {
    let writes = |value: u32| {
        format!(
            "setzi $m2, 0x5c000\n setzi $m3, {value}\n setzi $m4, 2\n 1: st32 $m3, $m2, $mzero, 0\n\
             sync 3\n add $m3, $m3, 1\n brnzdec $m4, 1b\n sync 7\n trap 0"
        )
    };
    let programs = [(4, writes(10)), (8, format!("delay 77\n {}", writes(20)))];
    let programs: Vec<_> = programs.iter().map(|(t, s)| (*t, s.as_str())).collect();
    let mut plain = start(&programs);
    plain.run(LIMIT).unwrap();
    let mut chip = start(&programs);
    chip.pause_at_syncs(true);
    for round in 0..3 {
        let stop = chip.run(LIMIT).unwrap();
        let record = *chip.syncs().last().unwrap();
        let cycle = record.arrival_cycle;
        assert_eq!((stop, chip.cycle()), (Stop::InternalSync { cycle }, cycle));
        for (tile, value) in [(4, 10), (8, 20)] {
            let found = chip.read(tile, DATA, 4).unwrap();
            assert_eq!(found, u32::to_le_bytes(value + round));
        }
    }
    chip.pause_at_syncs(false);
    assert!(matches!(chip.run(LIMIT), Ok(Stop::HostSync { .. })));
    assert_eq!(chip.syncs(), plain.syncs());
    assert_eq!(chip.cycle(), plain.cycle());
}

#[test]
fn workers_run_on_while_the_supervisor_waits_for_tiles() {
    // Worker 0 counts until well after the release.
    let busy = "setzi $m0, work\n run $m0, $mzero, 0\n sync 3\n get $m5, 96\n sync 2\n get $m6, 96\n trap 0\n\
        .worker\n work: setzi $m0, 99\n 1: brnzdec $m0, 1b\n get $m1, 96\n exitz $mzero";
    let mut chip = start(&[(0, busy), (1, "delay 50\n sync 3\n trap 0")]);
    chip.run(LIMIT).unwrap();
    let m = chip.supervisor_registers(0).unwrap().m;
    let release = chip.syncs()[0].release_cycle;
    assert_eq!(release, 51 + 150);
    // The release falls in one of the supervisor's own slots or the next.
    assert!(u64::from(m[5]) - release <= 1);
    let end = chip.worker_registers(0, 0).unwrap().m[1];
    assert_eq!(m[6], end + 6 + 7);
}

#[test]
fn the_host_reads_and_writes_between_runs() {
    let loop_ = "setzi $m2, 0x5c000\n 1: sync 7\n ld32 $m0, $m2, $mzero, 0\n add $m0, $m0, 1\n\
        st32 $m0, $m2, $mzero, 0\n bri 1b";
    let mut chip = start(&[(0, loop_), (700, "1: sync 15\n bri 1b")]);
    let Ok(Stop::HostSync { zone: 7, cycle }) = chip.run(LIMIT) else {
        panic!("no stop");
    };
    assert_eq!((cycle, chip.cycle()), (1, 1));
    for round in 0..3 {
        chip.write(0, DATA, &bytes(&[round * 10])).unwrap();
        assert!(matches!(chip.run(LIMIT), Ok(Stop::HostSync { .. })));
        assert_eq!(word(&chip, DATA), round * 10 + 1);
    }
    assert_eq!(chip.syncs().len(), 4);
}

#[test]
fn local_sync_without_workers_returns_at_once() {
    let chip = run("sync 2\n get $m0, 96\n trap 0");
    assert_eq!(chip.supervisor_registers(0).unwrap().m[0], 1);
}

#[test]
fn consensus_is_the_conjunction() {
    let status = |exit: &str| {
        let chip = run(&format!(
            "setzi $m0, work\n setzi $m1, 0x5c000\n runall $m0, $m1, 1\n sync 2\n get $m2, 1\n trap 0\n\
             .worker\n work: get $m0, 1\n {exit}\n"
        ));
        chip.supervisor_registers(0).unwrap().m[2] & 1
    };
    assert_eq!(status("exitpos $m0"), 1);
    assert_eq!(status("exitz $m0"), 0);
    assert_eq!(status("exitz $mzero"), 1);
}

#[test]
fn stores_to_code_take_effect() {
    // The supervisor turns `setzi $m3, 0` behind it into `setzi $m3, 9`, twice through.
    let chip = run(
        "setzi $m0, patch\n setzi $m1, 0\n ld32 $m2, $m0, $mzero, 0\n add $m2, $m2, 9\n setzi $m4, 1\n\
         patch: setzi $m3, 0\n st32 $m2, $m0, $mzero, 0\n brnzdec $m4, patch\n trap 0",
    );
    assert_eq!(chip.supervisor_registers(0).unwrap().m[3], 9);
}

/// A ring of tiles: each round every tile computes on six workers and sends to its neighbour.
fn ring(tiles: u32) -> (Vec<Vec<u32>>, u64, Vec<SyncRecord>) {
    let mut chip = Chip::new(Target::ipu21());
    for tile in 0..tiles {
        // Everyone sends 16 words at event 112 - T; the mux opens at 113 on all of them.
        let to = (tile + 1) % tiles;
        let from = (tile + tiles - 1) % tiles;
        let physical = ipu_target::geometry::Physical::of_logical;
        let t = ipu_target::geometry::time_to_mux(physical(tile), physical(to));
        let direction = ipu_target::geometry::direction(physical(tile), physical(to));
        let send = (112 - t) as u32;
        let mux = 113;
        let pointer = mux + 52 + 2 * physical(tile).row() as u32;
        // (event, text, events consumed before it takes effect)
        let mut row = String::new();
        let mut at = 0;
        let mut events = vec![(mux, 0u32), (mux + 16, 1), (pointer, 2), (send, 3)];
        events.sort_unstable();
        let free = events
            .windows(2)
            .all(|w| w[0].1 != 3 || w[1].0 > w[0].0 + 16);
        if !free {
            continue;
        }
        for (event, kind) in events {
            let n = event - at;
            match kind {
                0 => row += &format!(" delayxpic {}, 0, {}\n", n - 1, physical(from).0),
                1 => row += &format!(" delayxpic {}, 0, 0x640\n", n - 1),
                2 => row += &format!(" delaypic {}, 0, 0x15000\n", n - 1),
                _ => {
                    row += &format!(" delay {}\n send 15, 0x14000, {direction}\n", n - 1);
                    at = event + 16;
                    continue;
                }
            }
            at = event;
        }
        let source = format!(
            "setzi $m5, 2\n 1: setzi $m0, work\n setzi $m1, 0x58000\n runall $m0, $m1, 1\n sync 2\n\
             sync 3\n{row} delay 60\n sync 3\n brnzdec $m5, 1b\n trap 0\n\
             .worker\n work: setzi $m2, 0x50000\n get $m3, 1\n shl $m3, $m3, 2\n add $m2, $m2, $m3\n\
             ld32 $m4, $m2, $mzero, 0\n mul $m4, $m4, 3\n st32 $m4, $m2, $mzero, 0\n exitz $mzero"
        );
        let image = assemble(&source);
        chip.load(tile, BASE, &image.bytes).unwrap();
        let data: Vec<u32> = (0..16).map(|i| tile * 100 + i).collect();
        chip.write(tile, 0x50000, &bytes(&data)).unwrap();
        chip.start(tile, BASE).unwrap();
    }
    let Stop::Halted { cycle } = chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}")) else {
        panic!("no end");
    };
    let memory = (0..tiles).map(|t| words(&chip, t, 0x54000, 16)).collect();
    (memory, cycle, chip.syncs().to_vec())
}

#[test]
fn results_do_not_depend_on_threads() {
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| ring(120))
    };
    let one = with(1);
    assert_eq!(one.2.len(), 6);
    assert!(one.0.iter().filter(|m| m[15] != 0).count() > 60);
    for threads in [2, 5] {
        assert_eq!(with(threads), one);
    }
}

#[test]
fn clocks_split_without_remainder() {
    let (_, _, syncs) = ring(40);
    let mut from = 0;
    for s in syncs {
        assert!(s.row_cycles <= s.arrival_cycle - from);
        assert_eq!(s.release_cycle - s.arrival_cycle, 150);
        from = s.release_cycle;
    }
}
