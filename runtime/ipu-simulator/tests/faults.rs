//! Every kind of fault, limit and deadlock.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use ipu_simulator::{Chip, Context, Reason, SimError, Stop};
use ipu_target::Target;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

/// The reason of the fault of a worker body.
fn worker_fault(body: &str) -> Reason {
    let fault = fault(&launch(body));
    assert!(matches!(fault.context, Context::Worker(_)), "{fault}");
    fault.reason
}

#[test]
fn a_fault_names_everything() {
    let f = fault("setzi $m0, 0x1000\n ld32 $m1, $m0, $mzero, 2\n trap 0");
    assert_eq!(f.tile, 0);
    assert_eq!(f.physical, 0);
    assert_eq!(f.context, Context::Supervisor);
    assert_eq!(f.pc, BASE + 4);
    assert_eq!(f.cycle, 6);
    assert_eq!(f.reason, Reason::BadAddress { address: 0x1008 });
    assert_eq!(
        f.to_string(),
        "tile 0 (physical 0) supervisor at 0x4c014, cycle 6: \
         address 0x1008 is outside tile memory [ld32 $m1, $m0, $m15, 2]"
    );
}

#[test]
fn addresses() {
    let at = |address: u32, op: &str| worker_fault(&format!(" setzi $m0, {address}\n {op}"));
    let load = "ld64 $a0:1, $m0, $mzero, 0";
    assert_eq!(at(0x4bff8, load), Reason::BadAddress { address: 0x4bff8 });
    assert_eq!(at(0xe8000, load), Reason::BadAddress { address: 0xe8000 });
    let misaligned = Reason::Misaligned {
        address: 0x5c004,
        bytes: 8,
    };
    assert_eq!(at(0x5c004, load), misaligned);
    assert_eq!(at(0x5c004, "st64 $a0:1, $m0, $mzero, 0"), misaligned);
    assert_eq!(
        at(0x5c000, "ld128 $a0:3, $m0, $mzero, 0"),
        Reason::NotInterleaved { address: 0x5c000 }
    );
}

#[test]
fn paced_accesses_need_different_macros() {
    let pace = |a: u32, b: u32| {
        format!(
            " setzi $m0, {a}\n setzi $m1, {b}\n tapack $m2:3, $m0, $m1, $mzero\n\
             ld2x64pace $a0:1, $a2:3, $m2:3+=, $mzero, 0"
        )
    };
    let conflict = Reason::ElementConflict {
        first: 0x80000,
        second: 0x80010,
    };
    assert_eq!(worker_fault(&pace(0x80000, 0x80010)), conflict);
    run_workers(&pace(0x80000, 0x80008));
    run_workers(&pace(0x58000, 0x5c000));
    assert!(matches!(
        worker_fault(&pace(0x5c000, 0x5c100)),
        Reason::ElementConflict { .. }
    ));
}

#[test]
fn words_and_modes() {
    assert_eq!(fault(".word 0x7f").reason, Reason::Undefined { word: 0x7f });
    // The co-issue flag without a partner.
    let word = 0x4200_7000 | 1 << 31;
    assert_eq!(
        fault(&format!(".word {word:#x}\n .word 0")).reason,
        Reason::Undefined { word }
    );
    assert_eq!(fault(".word 0x1ad00000").reason, Reason::WrongMode);
    assert_eq!(worker_fault(".word 0x41800002"), Reason::WrongMode);
}

#[test]
fn fetches() {
    assert_eq!(
        fault("setzi $m0, 0x80000\n br $m0").reason,
        Reason::BadFetch { pc: 0x80000 }
    );
    assert_eq!(
        fault("setzi $m0, 0x4c012\n br $m0").reason,
        Reason::BadFetch { pc: 0x4c012 }
    );
    assert_eq!(
        fault("setzi $m0, 0x1000\n runall $m0, $mzero, 0").reason,
        Reason::BadFetch { pc: 0x1000 }
    );
}

#[test]
fn double_destinations() {
    let word = |name: &str, values: &[i64]| {
        let id = ipu_isa::table().by_name(name).unwrap().id;
        ipu_isa::encode(id, values).unwrap()
    };
    let loads = word("ld2x64pace_mmbn_ef", &[0, 0, 2, 15, 0]);
    assert!(matches!(
        worker_fault(&format!(" .word {loads:#x}")),
        Reason::DoubleDestination(_)
    ));
    // { ld32 $a0, $m0, $m15, 0 ; setzi $a0, 1 }
    let words = [
        word("ld32_mman_zi", &[0, 0, 15, 0]),
        word("setzi_aaan_zi", &[0, 1]),
    ]
    .map(|w| w | 1 << 31);
    let body = format!(" .word {:#x}\n .word {:#x}", words[0], words[1]);
    assert!(matches!(worker_fault(&body), Reason::DoubleDestination(_)));
}

#[test]
fn repeat_rules() {
    let repeat = |body: &str| {
        worker_fault(&format!(
            " .allow_invalid_repeat\n setzi $m3, 2\n .align 8\n {{ rpt $m3, 0 ; fnop }}\n {body}"
        ))
    };
    assert_eq!(
        repeat("nop\n nop"),
        Reason::Repeat("the body may hold only bundles")
    );
    assert_eq!(
        repeat("{ bri work ; fnop }"),
        Reason::Repeat("the body may hold no control or system instruction")
    );
    let word = |name: &str, values: &[i64]| {
        let id = ipu_isa::table().by_name(name).unwrap().id;
        ipu_isa::encode(id, values).unwrap()
    };
    // A solo rpt on a multiple of eight.
    assert_eq!(
        worker_fault(&format!(" .word {:#x}", word("rpt_mmmn_zi_zi", &[2, 0]))),
        Reason::Repeat("the body is not 8-byte aligned")
    );
}

#[test]
fn launches() {
    let twice = "setzi $m0, work\n setzi $m1, 0\n run $m0, $m1, 0\n runall $m0, $m1, 0\n\
         .worker\n work: bri work";
    assert_eq!(fault(twice).reason, Reason::WorkerActive);
    let base = "setzi $m0, work\n run $m0, $mzero, 0\n put 33, $m0\n .worker\n work: bri work";
    assert_eq!(fault(base).reason, Reason::WorkerActive);
}

#[test]
fn traps() {
    assert_eq!(fault("trap 15").reason, Reason::Trap(15));
    assert_eq!(worker_fault(" trap 0"), Reason::Trap(0));
    // Enabled invalid: infinity minus infinity.
    let body = " setzi $a0, 1\n uput 2, $a0\n setzi $a1, 0x7c00\n setzi $a2, 0x7c00\n\
         f16v2sub $a3, $a1, $a2";
    assert_eq!(worker_fault(body), Reason::FloatTrap(1));
}

#[test]
fn unknown_values_are_refused() {
    assert!(matches!(
        worker_fault(" f16v4sisoamp $a0:1, $a2:3, $a4:5, 7"),
        Reason::InvalidOperand { .. }
    ));
    assert_eq!(fault("get $m0, 200").reason, Reason::BadRegister(200));
    assert_eq!(worker_fault(" put 3, $m0"), Reason::BadRegister(3));
    for body in ["sync 1", "sans 3", "put 162, $m11"] {
        let f = fault(&format!("setzi $m11, 1\n {body}"));
        assert!(matches!(f.reason, Reason::NotImplemented(_)), "{f}");
    }
    let f = fault("setzi $m11, 3\n put 163, $m11");
    assert!(matches!(f.reason, Reason::InvalidOperand { .. }), "{f}");
    assert_eq!(fault("put 255, $mzero").reason, Reason::SupervisorTrap);
}

/// Two tiles: logical 0 sends eight words from `source`, logical 1 stores them by `receiver`.
fn pair(source: u32, receiver: &str, code: u32) -> Chip {
    // 0 to 1: T = -28, so an item of event 28 passes the mux at 1 and is written at 53.
    let sender = format!(
        "sync 3\n delay 27\n send 7, {}, 1\n delay 60\n trap 0",
        source >> 2
    );
    let mut chip = Chip::new(Target::ipu21());
    for (tile, source, at) in [(0, sender.as_str(), BASE), (1, receiver, code)] {
        let image = assemble(source);
        chip.load(tile, at, &image.bytes).unwrap();
        chip.start(tile, at).unwrap();
    }
    chip
}

/// A receiver that stores the eight words at `address`.
fn receiver(address: u32, before: &str) -> String {
    format!(
        "{before} sync 3\n delayxpic 0, 0, 0\n delayxpic 7, 0, 0x640\n delaypic 43, 0, {}\n\
         delay 20\n trap 0",
        address >> 2
    )
}

#[test]
fn a_small_message_lands() {
    let mut chip = pair(0x50000, &receiver(0x54000, ""), BASE);
    chip.write(0, 0x50000, &bytes(&[1, 2, 3, 4, 5, 6, 7, 8]))
        .unwrap();
    assert!(matches!(chip.run(LIMIT), Ok(Stop::Halted { .. })));
    assert_eq!(words(&chip, 1, 0x54000, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn exchange_conflicts() {
    // The sender reads from the element of its own row.
    let f = fault_of(&mut pair(0x4d000, &receiver(0x54000, ""), BASE));
    assert_eq!((f.tile, f.context), (0, Context::Supervisor));
    assert!(matches!(
        f.reason,
        Reason::ExchangeConflict {
            what: "exchange read",
            other: "instruction fetch",
            ..
        }
    ));
    // The receiver writes to the element of its row, then only to its fetch window.
    for (code, address) in [(BASE, 0x4e000), (0x4ffd0, 0x50000)] {
        let f = fault_of(&mut pair(0x50000, &receiver(address, ""), code));
        assert_eq!(f.tile, 1);
        assert!(matches!(
            f.reason,
            Reason::ExchangeConflict {
                what: "exchange write",
                other: "instruction fetch",
                ..
            }
        ));
    }
    // The receiver sends from the element that it receives into.
    let both = "sync 3\n delayxpic 0, 0, 0\n delaypic 51, 0, 0x15000\n send 7, 0x15800, 1\n trap 0";
    let f = fault_of(&mut pair(0x50000, both, BASE));
    assert!(matches!(
        f.reason,
        Reason::ExchangeConflict {
            what: "exchange write",
            other: "exchange read",
            ..
        }
    ));
}

#[test]
fn receiving_needs_a_pointer_and_idle_workers() {
    let row = "sync 3\n delayxpic 0, 0, 0\n delay 99\n trap 0";
    let f = fault_of(&mut pair(0x50000, row, BASE));
    assert_eq!(f.reason, Reason::NoPointer);
    let busy = "setzi $m0, work\n run $m0, $mzero, 0\n";
    let source = receiver(0x54000, busy) + "\n .worker\n work: bri work";
    let f = fault_of(&mut pair(0x50000, &source, BASE));
    assert_eq!(f.reason, Reason::ReceiveWithWorker { address: 0x54000 });
    let f = fault_of(&mut pair(0x50000, &receiver(0xf0000, ""), BASE));
    assert_eq!(f.reason, Reason::BadAddress { address: 0xf0000 });
    assert_eq!(fault("sendpic 0, 0, 0").reason, Reason::NoStream);
    assert_eq!(fault("sendoff 0, 0, 1").reason, Reason::NoStream);
}

#[test]
fn limits_and_deadlocks() {
    assert_eq!(
        chip("1: bri 1b").run(1000),
        Err(SimError::MaxCycles { cycle: 1000 })
    );
    let mut two = Chip::new(Target::ipu21());
    assert_eq!(two.run(10), Err(SimError::NothingStarted));
    for (tile, source) in [(3, "sync 3\n trap 0"), (5, "trap 0")] {
        two.load(tile, BASE, &assemble(source).bytes).unwrap();
        two.start(tile, BASE).unwrap();
    }
    let e = two.run(LIMIT).unwrap_err().to_string();
    assert_eq!(
        e,
        "deadlock at cycle 1: tiles 5 halted; tiles 3 wait for sync 3"
    );
    // A mux left open does not hide it.
    let mut open = Chip::new(Target::ipu21());
    for (tile, source) in [(3, "delayxpic 0, 0, 0\n sync 3\n trap 0"), (5, "trap 0")] {
        open.load(tile, BASE, &assemble(source).bytes).unwrap();
        open.start(tile, BASE).unwrap();
    }
    assert!(matches!(open.run(LIMIT), Err(SimError::Deadlock { .. })));
}

#[test]
fn the_first_fault_wins() {
    let mut chip = Chip::new(Target::ipu21());
    for (tile, wait) in [(7, 500), (9, 20)] {
        let source = format!("sync 3\n delay {wait}\n trap {tile}");
        chip.load(tile, BASE, &assemble(&source).bytes).unwrap();
        chip.start(tile, BASE).unwrap();
    }
    let f = fault_of(&mut chip);
    assert_eq!((f.tile, f.reason), (9, Reason::Trap(9)));
}

#[test]
fn misuse_of_the_interface() {
    let mut chip = Chip::new(Target::ipu21());
    assert_eq!(chip.start(1472, BASE), Err(SimError::NoSuchTile(1472)));
    let outside = SimError::HostAddress {
        tile: 0,
        address: 0xe7fff,
        bytes: 2,
    };
    assert_eq!(chip.write(0, 0xe7fff, &[0, 0]), Err(outside));
    assert!(chip.read(0, 0, 1).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs_never_panic(
        words in prop::collection::vec(any::<u32>(), 64),
        formats in prop::collection::vec((0usize..368, any::<u32>(), any::<bool>()), 64),
        worker in any::<bool>(),
    ) {
        // Half of the words are forced into known formats.
        let table = ipu_isa::table().formats();
        let program: Vec<u32> = words
            .iter()
            .zip(&formats)
            .map(|(&word, &(f, bits, keep))| {
                if keep {
                    return word;
                }
                let format = &table[f];
                bits & !format.mask & 0x7fff_ffff | format.matches
            })
            .collect();
        let mut source = String::new();
        if worker {
            source += "setzi $m0, work\n setzi $m1, 0x5c000\n runall $m0, $m1, 4\n sync 2\n trap 0\n";
        }
        source += " .align 8\n work:\n";
        for word in &program {
            source += &format!(" .word {word:#x}\n");
        }
        let mut chip = chip(&source);
        let _ = chip.run(3000);
    }
}

/// The aux half of a bundle is checked first, and the main half writes nothing then.
#[test]
fn one_fault_of_a_bundle_is_reported() {
    let body = " or $a0, $azero, 0x7f800000\n setzi $a1, 1\n uput 2, $a1\n\
        { ld32 $a2, $mzero, $mzero, 0 ; f32sub $a3, $a0, $a0 }";
    assert_eq!(fault(&launch(body)).reason, Reason::FloatTrap(1));
    let body = body.replace("$mzero, $mzero, 0", "$m13, $mzero, 0");
    let mut chip = chip(&launch(&body));
    chip.write(0, DATA, &bytes(&[5; 6])).unwrap();
    assert_eq!(fault_of(&mut chip).reason, Reason::FloatTrap(1));
    assert_eq!(chip.worker_registers(0, 0).unwrap().a[2], 0);
}

#[test]
fn control_register_115_does_not_exist() {
    assert!(matches!(
        fault("get $m0, 115").reason,
        Reason::BadRegister(_)
    ));
}
