//! The costs of control, one test a rule.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use pretty_assertions::assert_eq;

/// Clocks between two counter reads around `body`, less the one of the first read.
fn cost(body: &str) -> u32 {
    let chip = run(&format!(
        "get $m8, 96\n {body}\n get $m9, 96\n trap 0\n{}",
        "away: get $m9, 96\n trap 0\n"
    ));
    let m = chip.supervisor_registers(0).unwrap().m;
    m[9] - m[8] - 1
}

#[test]
fn straight_code_is_one_clock_each() {
    assert_eq!(cost(""), 0);
    assert_eq!(cost("setzi $m0, 1\n setzi $m1, 2"), 2);
}

#[test]
fn a_result_is_usable_six_clocks_later() {
    assert_eq!(cost("setzi $m0, 1\n add $m1, $m0, 1"), 7);
    assert_eq!(cost("setzi $m0, 1\n setzi $m2, 1\n add $m1, $m0, 1"), 7);
}

#[test]
fn loads_are_usable_six_clocks_later() {
    let body = "setzi $m2, 0x5c000\n ld32 $m0, $m2, $mzero, 0\n add $m1, $m0, 1";
    assert_eq!(cost(body), 13);
}

#[test]
fn branches() {
    assert_eq!(cost("bri away"), 6);
    assert_eq!(cost("brz $mzero, away"), 6);
    assert_eq!(cost("brnz $mzero, away"), 1);
    assert_eq!(cost("call $m10, away"), 10);
}

#[test]
fn counted_loops_take_a_branch_each_round() {
    assert_eq!(cost("setzi $m0, 3\n1: brnzdec $m0, 1b"), 6 + 3 * 6 + 1);
}

#[test]
fn weights_load_one_a_clock_after_the_pointer() {
    let point = "setzi $m0, 0x80000\n put 80, $m0\n";
    assert_eq!(cost(&format!("{point} ld64putcs 0")), 6 + 6 + 1);
    assert_eq!(
        cost(&format!("{point} ld64putcs 0\n ld64putcs 1\n ld128putcs 2")),
        6 + 6 + 3
    );
}

#[test]
fn launch_and_join() {
    // setzi at 0 and 1, the result at 7: `runall` at 7, so issue from 18 on.
    let chip = run(
        "setzi $m0, work\n setzi $m1, 0x5c000\n runall $m0, $m1, 1\n sync 2\n get $m9, 96\n trap 0\n\
         .worker\n work: get $m0, 96\n st32 $m0, $m13, $mzero, 0\n exitz $mzero\n",
    );
    assert_eq!(words(&chip, 0, DATA, 6), [18, 19, 20, 21, 22, 23]);
    // Exits at 30 to 35; seven clocks after the last.
    assert_eq!(chip.supervisor_registers(0).unwrap().m[9], 42);
}

#[test]
fn slots_are_absolute() {
    // One clock later: worker 0 waits for its next slot.
    let chip = run(
        "setzi $m2, 0\n setzi $m0, work\n setzi $m1, 0x5c000\n runall $m0, $m1, 1\n sync 2\n trap 0\n\
         .worker\n work: get $m0, 96\n st32 $m0, $m13, $mzero, 0\n exitz $mzero\n",
    );
    assert_eq!(words(&chip, 0, DATA, 6), [24, 19, 20, 21, 22, 23]);
}

#[test]
fn supervisor_runs_in_free_slots() {
    // `run` starts worker 0 only; the supervisor keeps five of six slots.
    let chip = run("setzi $m0, work\n setzi $m1, 0x10000\n run $m0, $m1, 0\n\
         .rept 30\n setzi $m2, 1\n .endr\n get $m9, 96\n sync 2\n trap 0\n\
         .worker\n work:\n .rept 20\n setzi $m0, 1\n .endr\n exitz $mzero\n");
    // Run at 7; clocks 8..44 hold 30 supervisor slots, those of residue 0 are the worker's.
    assert_eq!(chip.supervisor_registers(0).unwrap().m[9], 44);
}

#[test]
fn iterative_operations_take_their_slots_once() {
    let time = |aux: &str| {
        let chip = run_workers(&format!(
            "get $m0, 96\n {aux}\n get $m1, 96\n sub $m0, $m1, $m0\n st32 $m0, $m13, $mzero, 0"
        ));
        word(&chip, DATA)
    };
    assert_eq!(time("fnop"), 12);
    assert_eq!(time("f32div $a0, $a1, $a2"), 6 + 18);
    assert_eq!(time("{ nop ; f32div $a0, $a1, $a2 }"), 6 + 18);
    assert_eq!(time("f16v2exp $a0, $a1"), 12);
    assert_eq!(time("setzi $a1, 15360\n f16v2exp $a0, $a1"), 6 + 6 + 12);
}

#[test]
fn repeats_have_no_overhead() {
    let chip = run_workers(
        "get $m0, 96\n setzi $m3, 7\n .align 8\n { rpt $m3, 1 ; fnop }\n\
         { add $m4, $m4, 1 ; fnop }\n { nop ; fnop }\n\
         get $m1, 96\n sub $m0, $m1, $m0\n st32 $m0, $m13, $mzero, 0\n st32 $m4, $m13, $mzero, 8",
    );
    assert_eq!(word(&chip, DATA), 6 * (2 + 1 + 14));
    assert_eq!(word(&chip, DATA + 32), 7);
}
