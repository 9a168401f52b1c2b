//! Loads, stores, float and control registers by small programs on worker 0.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use ipu_simulator::{Chip, Reason, Registers, SimError};
use pretty_assertions::assert_eq;

/// Runs `body` on worker 0 with words at 0x60000 (`$m0`) and 0x80000 (`$m1`).
fn worker(body: &str, data: &[u32]) -> Chip {
    let mut chip = chip(&format!(
        "setzi $m0, work\n setzi $m1, 0x10000\n run $m0, $m1, 0\n sync 2\n trap 0\n\
         .worker\n work: setzi $m0, 0x60000\n setzi $m1, 0x80000\n{body}\n exitz $mzero"
    ));
    chip.write(0, 0x60000, &bytes(data)).unwrap();
    chip.write(0, 0x80000, &bytes(data)).unwrap();
    chip.run(LIMIT).unwrap_or_else(|e| panic!("{e}"));
    chip
}

fn registers(body: &str, data: &[u32]) -> Registers {
    worker(body, data).worker_registers(0, 0).unwrap().clone()
}

#[test]
fn narrow_loads_extend() {
    let data = [0x8001_7fff, 0x0000_80ff];
    let r = registers(
        "ld32 $m2, $m0, $mzero, 1\n lds16 $m3, $m0, $mzero, 1\n ldz16 $m4, $m0, $mzero, 1\n\
         lds8 $m5, $m0, $mzero, 5\n ldz8 $m6, $m0, $mzero, 5\n\
         ldb16 $a0, $m0, $mzero, 1\n ldb8 $a1, $m0, $mzero, 4\n setzi $m7, 1\n ldz16 $m8, $m0, $mzero, $m7",
        &data,
    );
    assert_eq!(
        r.m[2..9],
        [0x80ff, 0xffff_8001, 0x8001, 0xffff_ff80, 0x80, 1, 0x8001]
    );
    assert_eq!(r.a[..2], [0x8001_8001, 0xffff_ffff]);
}

#[test]
fn steps_advance_by_their_size() {
    let data: Vec<u32> = (10..30).collect();
    let r = registers(
        "mov $m2, $mzero\n ld32step $m3, $m0, $m2+=, 2\n ld32step $m4, $m0, $m2+=, -2\n\
         ld64step $a0:1, $m0, $m2+=, 1\n ld64step $a2:3, $mzero, $m0+=, 1\n\
         ld128step $a4:7, $mzero, $m1+=, 1\n setzi $m5, 2\n ldz16step $m6, $m1, $m7+=, $m5",
        &data,
    );
    assert_eq!((r.m[3], r.m[4], r.m[2]), (10, 12, 8));
    assert_eq!((r.m[0], r.m[1], r.m[7]), (0x60008, 0x80010, 4));
    assert_eq!(r.m[6], 14);
}

#[test]
fn stores_write_their_size() {
    let chip = worker(
        "setzi $m2, 7\n st32 $m2, $m0, $mzero, 1\n setzi $m3, 8\n stm32 $m2, $m0, $m3\n\
         setzi $a0, 1\n setzi $a1, 2\n st64 $a0:1, $m0, $mzero, 1\n mov $m4, $m0\n\
         st64step $a0:1, $mzero, $m4+=, 2\n st32step $a1, $mzero, $m4+=, -1\n stm32step $m2, $m4, $m3",
        &[0; 16],
    );
    assert_eq!(words(&chip, 0, 0x60000, 9), [1, 2, 1, 7, 2, 0, 0, 0, 7]);
    assert_eq!(chip.worker_registers(0, 0).unwrap().m[4], 0x6000c + 32);
}

#[test]
fn paces_follow_their_selectors() {
    let data: Vec<u32> = (0..64).collect();
    // Strides: first 3, second -1, third 2 atoms.
    let chip = worker(
        "setzi $m2, 0x80040\n setzi $m3, 0x58000\n tapack $m4:5, $m0, $m2, $m3\n\
         setzi $m6, 3\n setzi $m7, 1023\n shl $m7, $m7, 10\n or $m6, $m6, $m7\n\
         setzi $m7, 2\n shl $m7, $m7, 20\n or $m6, $m6, $m7\n\
         setzi $a4, 77\n setzi $a5, 78\n\
         ld2xst64pace $a0:3, $a4:5, $m4:5+=, $m6, 0b111001\n\
         ld2xst64pace $a0:3, $a4:5, $m4:5+=, $m6, 0\n\
         st64pace $a0:1, $m4:5+=, $mzero, 3\n ldst64pace $a6:7, $a2:3, $m4:5+=, $mzero, 0",
        &data,
    );
    let r = chip.worker_registers(0, 0).unwrap();
    // The second pair of loads: 3 atoms on, 1 atom back.
    assert_eq!(r.a[..8], [6, 7, 14, 15, 77, 78, 8, 9]);
    assert_eq!(words(&chip, 0, 0x58000, 8), [77, 78, 0, 0, 77, 78, 14, 15]);
    // The third address went two atoms, then one, then none.
    assert_eq!(r.m[5] & 0x1f_ffff, 0x80040);
}

#[test]
fn indirect_loads_replace_their_offset() {
    let mut data = vec![0; 16];
    data[0] = 0x0008_0004;
    data[1..4].copy_from_slice(&[11, 22, 33]);
    let chip = worker(
        "setzi $m2, 0\n ldd16a32 $a0, $m1++, $m0, $m2@\n ldd16a64 $a2:3, $m1++, $m0, $m3@\n\
         ldd16b16 $a4, $m1++, $m0, $m2@",
        &data,
    );
    let r = chip.worker_registers(0, 0).unwrap();
    assert_eq!(r.a[0], 0x0008_0004);
    assert_eq!(r.a[2..5], [0x0008_0004, 11, 0x000b_000b]);
    assert_eq!((r.m[1], r.m[3], r.m[2]), (0x80006, 8, 11));
}

fn half(x: f32) -> u32 {
    half::f16::from_f32(x).to_bits().into()
}

fn halves(low: f32, high: f32) -> u32 {
    half(low) | half(high) << 16
}

#[test]
fn elementwise_float() {
    let data = [
        halves(1.5, -2.0),
        halves(0.25, 60000.0),
        halves(3.0, 4.0),
        halves(-1.0, 30000.0),
        1.5f32.to_bits(),
        (-3.25f32).to_bits(),
    ];
    let load =
        "ld64 $a0:1, $m0, $mzero, 0\n ld64 $a2:3, $m0, $mzero, 1\n ld64 $a6:7, $m0, $mzero, 2\n";
    let of = |op: &str| registers(&format!("{load}{op}"), &data).a;
    assert_eq!(
        of("f16v4add $a4:5, $a0:1, $a2:3")[4..6],
        [halves(4.5, 2.0), halves(-0.75, 65504.0)]
    );
    assert_eq!(of("f16v2sub $a4, $a0, $a2")[4], halves(-1.5, -6.0));
    assert_eq!(of("f16v2mul $a4, $a0:BU, $a2")[4], halves(-6.0, -8.0));
    assert_eq!(
        of("f16v4mul $a4:5, $a2:BL, $a0:1")[4..6],
        [halves(4.5, -6.0), halves(0.75, 65504.0)]
    );
    assert_eq!(of("f16v2cmpgt $a4, $a2, $a0")[4], 0xffff_ffff);
    assert_eq!(of("f16v2cmpeq $a4, $a0, $a0")[4], 0xffff_ffff);
    assert_eq!(of("f16v2max $a4, $a0, $a2")[4], halves(3.0, 4.0));
    assert_eq!(of("f16v2absmax $a4, $a0, $a0")[4], halves(1.5, 2.0));
    assert_eq!(
        of("f16v4clamp $a4:5, $a0:1, $a2")[4..6],
        [halves(3.0, 3.0), halves(3.0, 4.0)]
    );
    assert_eq!(of("f32add $a4, $a6, $a7")[4], (-1.75f32).to_bits());
    assert_eq!(
        of("f32v2mul $a4:5, $a6:B, $a6:7")[4..6],
        [2.25f32.to_bits(), (-4.875f32).to_bits()]
    );
    assert_eq!(of("f32div $a4, $a6, $a7")[4], (1.5f32 / -3.25).to_bits());
    assert_eq!(of("f32v2tof16 $a4, $a6:7")[4], halves(1.5, -3.25));
    assert_eq!(
        of("f16v2tof32 $a4:5, $a0")[4..6],
        [1.5f32.to_bits(), (-2f32).to_bits()]
    );
    assert_eq!(of("f16v2sum $a4, $a0")[4], (-0.5f32).to_bits());
    assert_eq!(of("f32toi32 $a4, $a7")[4] as i32, -3);
    assert_eq!(of("f32int $a4, $a7, 1")[4], (-3f32).to_bits());
    assert_eq!(
        of("f32fromui32 $a4, $a6")[4],
        (1.5f32.to_bits() as f32).to_bits()
    );
    assert_eq!(of("f32sqrt $a4, $a6")[4], 1.5f32.sqrt().to_bits());
    assert_eq!(of("f16v2exp $a4, $azero")[4], halves(1.0, 1.0));
}

#[test]
fn overflow_and_flags() {
    let data = [halves(60000.0, 1.0), 0];
    let r = registers(
        "ld32 $a0, $m0, $mzero, 0\n f16v2add $a1, $a0, $a0\n uget $a2, 0\n\
         setzi $a3, 0\n or $a3, $a3, 0x100000\n uput 2, $a3\n f16v2add $a4, $a0, $a0\n\
         setzi $a5, 4\n uput 1, $a5\n uget $a6, 0",
        &data,
    );
    assert_eq!(r.a[1], halves(65504.0, 2.0));
    assert_eq!(r.a[2], 4);
    assert_eq!(r.a[4] & 0xffff, 0x7e00);
    assert_eq!(r.a[6], 0);
}

#[test]
fn accumulating_instructions() {
    let data = [
        halves(1.0, 2.0),
        halves(3.0, 4.0),
        2f32.to_bits(),
        8f32.to_bits(),
    ];
    let chip = worker(
        "ld64 $a0:1, $m0, $mzero, 0\n ld64 $a2:3, $m0, $mzero, 1\n setzi $a4, 8\n uput 1, $a4\n\
         f16v4cmac $a0:1, $a0:1\n f16v4acc $a0:1\n f32v2mac $a2:3, $a2:3\n f16v8sqacc $a0:3",
        &data,
    );
    let acc = chip.worker_accumulators(0, 0).unwrap();
    let sq = |bits: u32| half::f16::from_bits(bits as u16).to_f32().powi(2);
    assert_eq!(acc[0], 5.0 + 1.0 + 4.0 + 1.0);
    assert_eq!(acc[2], 25.0 + 2.0 + 64.0 + 4.0);
    assert_eq!(acc[4], 3.0 + 9.0);
    assert_eq!(acc[6], 4.0 + 16.0);
    assert_eq!(acc[10], sq(2f32.to_bits() >> 16));
    assert_eq!(acc[1], 0.0);
}

#[test]
fn bundles_read_before_they_write() {
    let r = registers(
        "setzi $a0, 1\n setzi $a1, 2\n setzi $m2, 5\n .align 8\n\
         { atom $m3, $a0 ; or $a0, $a1, $a1 }\n { ld32 $a1, $m0, $mzero, 0 ; or $a2, $a1, $a1 }",
        &[99],
    );
    assert_eq!((r.m[3], r.a[0], r.a[1], r.a[2]), (1, 2, 99, 2));
}

#[test]
fn workers_see_their_own_bases() {
    let chip = run_workers(
        "get $m0, $WSR\n st32 $m12, $m13, $mzero, 0\n setzi $m12, 1\n st32 $m12, $m13, $mzero, 6\n\
         get $m1, 2\n st32 $m1, $m13, $mzero, 12",
    );
    let scratch: Vec<u32> = (0..6).map(|w| 0x580e0 + 0x100 * w).collect();
    assert_eq!(words(&chip, 0, DATA, 6), scratch);
    assert_eq!(words(&chip, 0, DATA + 24, 6), scratch);
    let bases: Vec<u32> = (0..6).map(|w| DATA + 4 * w).collect();
    assert_eq!(words(&chip, 0, DATA + 48, 6), bases);
}

/// Every format, once, with all operands 0.
#[test]
fn no_instruction_is_missing() {
    let mut missing: Vec<&str> = Vec::new();
    for format in ipu_isa::table().formats() {
        if !format.on(ipu_isa::Arch::Ipu21) {
            continue;
        }
        let words = [format.matches, 0].map(|w| format!(" .word {w:#x}\n"));
        let body = words[..usize::from(format.words)].concat();
        let source = match format.mode {
            ipu_isa::Mode::Supervisor => format!("{body} trap 0"),
            _ => launch(&body),
        };
        if let Err(SimError::Fault(fault)) = chip(&source).run(1000)
            && let Reason::NotImplemented(what) = &fault.reason
            && what.starts_with(&format.mnemonic)
        {
            missing.push(&format.mnemonic);
        }
    }
    missing.sort_unstable();
    missing.dedup();
    assert_eq!(missing, Vec::<&str>::new());
}
