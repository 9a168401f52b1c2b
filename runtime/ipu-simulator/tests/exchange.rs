//! Rows of published phases: every word lands, nothing else does.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use pretty_assertions::assert_eq;

struct Transfer {
    source: u32,
    address: u32,
    words: u32,
    /// Words of an item.
    width: u32,
    destinations: Vec<(u32, u32)>,
}

struct Row {
    tile: u32,
    incoming_base: u32,
    horizon: u64,
    words: Vec<u32>,
}

struct Phase {
    name: String,
    transfers: Vec<Transfer>,
    rows: Vec<Row>,
}

fn number(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn phases() -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for line in include_str!("data/phases.txt").lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[0] {
            "phase" => phases.push(Phase {
                name: fields[1].to_string(),
                transfers: Vec::new(),
                rows: Vec::new(),
            }),
            "transfer" | "transfer64" => phases.last_mut().unwrap().transfers.push(Transfer {
                source: number(fields[1]),
                address: number(fields[2]),
                words: number(fields[3]),
                width: if fields[0] == "transfer" { 1 } else { 2 },
                destinations: fields[4..]
                    .iter()
                    .map(|d| d.split_once(':').unwrap())
                    .map(|(tile, address)| (number(tile), number(address)))
                    .collect(),
            }),
            "row" => phases.last_mut().unwrap().rows.push(Row {
                tile: number(fields[1]),
                incoming_base: number(fields[2]),
                horizon: number(fields[3]).into(),
                words: fields[4..].iter().map(|w| number(w)).collect(),
            }),
            _ => {}
        }
    }
    phases
}

/// A value that names its tile and address.
fn pattern(tile: u32, address: u32) -> u32 {
    tile << 20 ^ address << 1 ^ 0x9e37_79b9
}

fn run_phase(phase: &Phase) -> Chip {
    let mut chip = Chip::new(Target::ipu21());
    for row in &phase.rows {
        let image = assemble(&format!(
            "setzi $m0, {}\n put 164, $m0\n put 167, $mzero\n sync 3\n\
             call $m10, row\n sync 3\n trap 0\n .align 8\n row: {}\n",
            row.incoming_base,
            row.words
                .iter()
                .map(|w| format!(".word {w:#x}\n"))
                .collect::<String>(),
        ));
        chip.load(row.tile, BASE, &image.bytes).unwrap();
        chip.start(row.tile, BASE).unwrap();
    }
    for t in &phase.transfers {
        let data: Vec<u32> = (0..t.words)
            .map(|i| pattern(t.source, t.address + 4 * i))
            .collect();
        chip.write(t.source, t.address, &bytes(&data)).unwrap();
    }
    let stop = chip
        .run(LIMIT)
        .unwrap_or_else(|e| panic!("{}: {e}", phase.name));
    assert!(matches!(stop, Stop::Halted { .. }));
    chip
}

#[test]
fn every_word_of_published_phases_lands() {
    let phases = phases();
    assert_eq!(phases.len(), 6);
    for phase in phases {
        let chip = run_phase(&phase);
        let mut delivered = 0;
        let mut sent = 0;
        for t in &phase.transfers {
            for &(tile, address) in &t.destinations {
                let want: Vec<u32> = (0..t.words)
                    .map(|i| pattern(t.source, t.address + 4 * i))
                    .collect();
                let got = words(&chip, tile, address, t.words as usize);
                assert_eq!(got, want, "{} {} -> {tile}", phase.name, t.source);
                delivered += u64::from(t.words / t.width);
            }
            sent += u64::from(t.words / t.width);
        }
        let total = |f: fn(ipu_simulator::Counters) -> u64| -> u64 {
            let counters = phase.rows.iter().map(|r| chip.counters(r.tile).unwrap());
            counters.map(f).sum()
        };
        assert_eq!(total(|c| c.received), delivered, "{}", phase.name);
        assert_eq!(total(|c| c.sent), sent, "{}", phase.name);
        assert_eq!(chip.lost_words(), 0, "{}", phase.name);
        assert_eq!(chip.disagreements(), [], "{}", phase.name);
        // The second sync closes the phase: the slowest tile spends its horizon in the row.
        let sync = chip.syncs()[1];
        let horizon = phase.rows.iter().map(|r| r.horizon).max().unwrap();
        assert_eq!(sync.row_cycles, horizon, "{}", phase.name);
        let between = sync.arrival_cycle - chip.syncs()[0].release_cycle;
        assert_eq!(between, 10 + horizon + 6, "{}", phase.name);
    }
}

#[test]
fn paired_items_need_both_buses_and_a_format() {
    let paired = || phases().pop().unwrap();
    let fault = |phase: &Phase| match std::panic::catch_unwind(|| run_phase(phase)) {
        Ok(_) => String::new(),
        Err(text) => text.downcast_ref::<String>().unwrap().clone(),
    };
    // The partner of the sender sends a word while its bus is borrowed.
    let mut phase = paired();
    let row = phase.rows.iter_mut().find(|r| r.tile == 1).unwrap();
    row.words = vec![0x40a0_0050, 0x7800_0001 | 0x14000 << 3, 0x43a0_0000];
    let text = fault(&phase);
    assert!(text.contains("needs the bus"), "{text}");
    // Without a format the items pass by: the other tile still gets them.
    let mut phase = paired();
    let row = phase.rows.iter_mut().find(|r| r.tile == 46).unwrap();
    row.words = vec![0x43a0_0000];
    let chip = run_phase(&phase);
    assert_eq!(chip.counters(46).unwrap().received, 0);
    assert_eq!(chip.counters(47).unwrap().received, 64);
    assert_eq!(chip.lost_words(), 0);
    // A word for a pair that listens for 64-bit items.
    let mut phase = paired();
    let row = phase.rows.iter_mut().find(|r| r.tile == 0).unwrap();
    row.words[1] = 0x7fe0_0001 | 0x14000 << 3;
    let text = fault(&phase);
    assert!(text.contains("width"), "{text}");
}

#[test]
fn unheard_words_are_counted() {
    let mut phase = phases().swap_remove(0);
    // The receiver returns at once.
    let row = phase.rows.iter_mut().find(|r| r.tile == 1286).unwrap();
    row.words = vec![0x43a0_0000];
    let chip = run_phase(&phase);
    assert_eq!(chip.lost_words(), 64);
    assert_eq!(chip.counters(0).unwrap().lost, 64);
    assert_eq!(chip.counters(1286).unwrap().received, 0);
}
