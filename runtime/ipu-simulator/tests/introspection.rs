//! Observers, breakpoints, watches, reports, and waiting for words.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use std::sync::{Arc, Mutex};

use common::*;
use ipu_simulator::{Chip, Context, IssueEvent, Reason, SimError, Stop, Symbols};
use ipu_target::Target;
use pretty_assertions::assert_eq;

const PROGRAM: &str = "setzi $m0, work\n setzi $m1, 0x5c000\n runall $m0, $m1, 1\n sync 2\n trap 0\n\
    .worker\n work: get $m0, 1\n st32 $m0, $m13, $mzero, 0\n exitz $mzero\n";

#[test]
fn observers_see_every_issue_and_change_nothing() {
    let plain = run(PROGRAM);
    let seen: Arc<Mutex<Vec<(u64, Context, String)>>> = Arc::default();
    let mut observed = chip(PROGRAM);
    let log = Arc::clone(&seen);
    let note = move |e: &IssueEvent<'_>| {
        let mut log = log.lock().unwrap();
        log.push((e.cycle, e.context, e.text()));
    };
    observed.observe([0], note).unwrap();
    observed.run(LIMIT).unwrap();
    assert_eq!(observed.cycle(), plain.cycle());
    assert_eq!(observed.counters(0), plain.counters(0));
    let seen = seen.lock().unwrap();
    let counters = plain.counters(0).unwrap();
    assert_eq!(
        seen.len() as u64,
        counters.supervisor + counters.worker_main
    );
    assert_eq!(
        seen[0],
        (0, Context::Supervisor, "setzi $m0, 311332".to_string())
    );
    assert!(
        seen.iter()
            .any(|(c, w, t)| { *c == 18 && *w == Context::Worker(0) && t.starts_with("get $m0") })
    );
}

#[test]
fn breakpoints_and_watches_stop_and_go_on() {
    let image = assemble(PROGRAM);
    let work = image.symbols["work"];
    let mut chip = chip(PROGRAM);
    chip.break_at(0, work + 4).unwrap();
    chip.watch(0, DATA + 4, 4).unwrap();
    let mut stops = Vec::new();
    loop {
        match chip.run(LIMIT) {
            Ok(stop) => {
                assert!(matches!(stop, Stop::Halted { .. }));
                break;
            }
            Err(SimError::Fault(f)) => stops.push((f.context, f.reason.clone())),
            Err(e) => panic!("{e}"),
        }
    }
    let breaks = stops.iter().filter(|(_, r)| *r == Reason::Break).count();
    assert_eq!(breaks, 6);
    let watch = Reason::Watch { address: DATA + 4 };
    assert!(stops.contains(&(Context::Worker(1), watch)), "{stops:?}");
    assert_eq!(stops.len(), 7);
    assert_eq!(chip.cycle(), run(PROGRAM).cycle());
    assert_eq!(words(&chip, 0, DATA, 6), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn host_writes_are_no_change() {
    let mut chip = chip("setzi $m0, 1\n trap 0");
    chip.watch(0, DATA, 4).unwrap();
    chip.write(0, DATA, &[1]).unwrap();
    assert!(matches!(chip.run(LIMIT), Ok(Stop::Halted { .. })));
}

#[test]
fn reports_tell_where_and_what() {
    let source = "setzi $m0, work\n setzi $m1, 0\n run $m0, $m1, 0\n sync 2\n trap 0\n\
        .worker\n work: setzi $m0, 3\n ld32 $m1, $m0, $mzero, 0\n exitz $mzero\n";
    let image = assemble(source);
    let symbols = Symbols::new(image.symbols.iter().map(|(n, &a)| (n.clone(), a)));
    let mut chip = chip(source);
    let error = chip.run(LIMIT).unwrap_err();
    let text = chip.report(&error, &symbols, |_, _| Some("loc(\"x.mlir\":3:1)".into()));
    for part in [
        "address 0x3 is outside tile memory",
        "exception  8 INVALID_ADDR",
        "tile       0 (physical 0x0), worker 0",
        " work+0x4",
        "from       loc(\"x.mlir\":3:1)",
        "-> 0x4c028  ld32 $m1, $m0, $m15, 0",
        "m0 0x00000003",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn receive_syncs_wait_for_their_words() {
    // As in the tests of faults: an item of event 28 passes the mux at 1 and is written at 53.
    let sender = "sync 3\n delay 27\n send 7, 0x15000, 1\n delay 60\n trap 0";
    let receiver = |count: u32| {
        format!(
            "setzi $m0, {count}\n put 166, $m0\n sync 3\n delayxpic 0, 0, 0\n\
             delayxpic 7, 0, 0x640\n delaypic 43, 0, 0x17000\n sync 0\n get $m9, 96\n trap 0"
        )
    };
    let pair = |count| {
        let mut chip = Chip::new(Target::ipu21());
        for (tile, source) in [(0, sender.to_string()), (1, receiver(count))] {
            chip.load(tile, BASE, &assemble(&source).bytes).unwrap();
            chip.start(tile, BASE).unwrap();
        }
        chip
    };
    let mut chip = pair(8);
    assert!(matches!(chip.run(LIMIT), Ok(Stop::Halted { .. })));
    let release = chip.syncs()[0].release_cycle as u32;
    // The last word lands at event 60.
    assert_eq!(chip.supervisor_registers(1).unwrap().m[9], release + 61);
    let text = pair(9).run(LIMIT).unwrap_err().to_string();
    assert!(
        text.contains("tiles 0 halted; tiles 1 wait for up to 1 words (sync 0)"),
        "{text}"
    );
}
