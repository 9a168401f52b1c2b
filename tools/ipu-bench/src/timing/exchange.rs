//! Multicast exchange intervals, sampled by worker 0 of each tile as on the card.
//!
//! Each tile samples its clock by a launch of workers (which is the worker barrier of the phase as
//! well), meets the others at the internal sync, runs its row and samples again; an interval is the
//! difference of the two. The measured runtime had more instructions around its rows than this
//! program, and its receivers sampled earlier than its sender, which then was the last to arrive.
//! These are two free constants: clocks between sampling and sync on every tile, and clocks that the
//! sender is late. They are fitted to sizes 1, 64 and 4148; all other sizes are checked.

use anyhow::{Context as _, Result};
use ipu_simulator::Chip;
use ipu_target::Target;
use ipu_target::geometry::{Physical, time_to_mux};

use super::{Row, Status};
use crate::programs::{link, main_section, start};

/// Physical numbers of the sender and its receivers; all in row 0.
const SENDER: u16 = 0;
const RECEIVERS: [u16; 2] = [32, 53];
/// Words, and the intervals measured on the sender and on each receiver.
const MEASURED: [(i64, [i64; 3]); 6] = [
    (1, [204, 552, 534]),
    (52, [258, 606, 582]),
    (64, [270, 618, 594]),
    (65, [270, 618, 594]),
    (1024, [1230, 1578, 1554]),
    (4148, [4350, 4698, 4680]),
];
/// Sizes that the free constants are fitted to.
const FITTED: [i64; 3] = [1, 64, 4148];

/// Events from the mux to the write, and from the last write to the end of a row.
const TO_WRITE: i64 = 52;
const GUARD: i64 = 5;
/// Least row of a sender.
const SHORTEST: i64 = 6;
const DATA: u32 = 0x60000;

/// The free constants.
#[derive(Clone, Copy, Debug, Default)]
struct Free {
    /// Clocks from the sample to the sync.
    before_sync: i64,
    /// Clocks by which the sender samples later.
    late: i64,
}

fn delay(clocks: i64) -> String {
    match clocks {
        0 => String::new(),
        n => format!(" delay {}\n", n - 1),
    }
}

/// First event of the sender: no receiver sets its mux before event 1.
fn first_event() -> i64 {
    let least = RECEIVERS
        .iter()
        .map(|&r| i64::from(time_to_mux(Physical(SENDER), Physical(r))))
        .min();
    (-least.unwrap_or(0)).max(0)
}

fn sender_row(words: i64) -> String {
    let first = first_event();
    let mut row = delay(first);
    row += &format!(" send {}, {}, 3\n", words.min(64) - 1, DATA / 4);
    if words > 64 {
        row += &format!(" sendoff {}, 0, 3\n", words - 65);
    }
    row + &delay((SHORTEST - first - words).max(0))
}

fn receiver_row(receiver: u16, words: i64) -> String {
    let mux = first_event() + i64::from(time_to_mux(Physical(SENDER), Physical(receiver))) + 1;
    let (close, mut pointer) = (mux + words, mux + TO_WRITE);
    let end = pointer + words + GUARD;
    if pointer == close {
        // Two controls cannot take effect at one event; the pointer may come first.
        pointer -= 1;
    }
    let set_pointer = |from: i64| format!(" delaypic {}, 0, {}\n", pointer - from - 1, DATA / 4);
    let neutral = |from: i64| format!(" delayxpic {}, 0, 0x640\n", close - from - 1);
    let mut row = format!(" delayxpic {}, 0, {SENDER}\n", mux - 1);
    let last = if pointer < close {
        row += &(set_pointer(mux) + &neutral(pointer));
        close
    } else {
        row += &(neutral(mux) + &set_pointer(close));
        pointer
    };
    row + &delay(end - last)
}

/// The program of a tile; `late` delays its first sample.
fn program(row: &str, before_sync: i64, late: i64) -> String {
    main_section(&format!(
        " setzi $m0, sample\n setzi $m1, again\n{} runall $m0, $m0, 0\n sync 2\n{} sync 3\n\
         {row} runall $m1, $m0, 0\n sync 2\n trap 0\n\
         .worker\n\
         // The registers of a worker survive from launch to launch.\n\
         sample: get $m0, 96\n exitz $mzero\n\
         again: get $m1, 96\n exitz $mzero\n",
        delay(late),
        delay(before_sync),
    ))
}

/// The intervals of the sender and of both receivers.
fn simulate(words: i64, free: Free) -> Result<[i64; 3]> {
    let mut chip = Chip::new(Target::ipu21());
    let tiles = [SENDER, RECEIVERS[0], RECEIVERS[1]];
    for (i, &physical) in tiles.iter().enumerate() {
        let (row, late) = match i {
            0 => (sender_row(words), free.late),
            _ => (receiver_row(physical, words), 0),
        };
        let text = program(&row, free.before_sync, late);
        let image = link(&[("main.S", &text, &[])])?;
        let logical = logical(physical)?;
        start(&mut chip, &image, std::iter::once(logical))?;
    }
    chip.run(100_000)
        .with_context(|| format!("exchange of {words} words"))?;
    let mut out = [0; 3];
    for (i, &physical) in tiles.iter().enumerate() {
        let m = chip.worker_registers(logical(physical)?, 0)?.m;
        out[i] = i64::from(m[1].wrapping_sub(m[0]));
    }
    Ok(out)
}

/// Greatest and total misfit on the fitted sizes.
fn misfit(free: Free) -> Result<(i64, i64)> {
    let (mut greatest, mut total) = (0, 0);
    for (words, measured) in MEASURED {
        if FITTED.contains(&words) {
            for (m, s) in measured.into_iter().zip(simulate(words, free)?) {
                greatest = greatest.max((s - m).abs());
                total += (s - m).abs();
            }
        }
    }
    Ok((greatest, total))
}

/// The constants with the least misfit.
fn fit() -> Result<Free> {
    let mut best = (Free::default(), (i64::MAX, i64::MAX));
    for before_sync in 0..8 {
        for late in (285..309).step_by(3) {
            let free = Free { before_sync, late };
            let found = misfit(free)?;
            if found < best.1 {
                best = (free, found);
            }
        }
    }
    Ok(best.0)
}

/// The rows of the table, and the fitted constants as a remark.
pub fn rows() -> Result<(Vec<Row>, String)> {
    let free = fit()?;
    let remark = format!(
        "fitted: {} clocks from the sample to the sync, the sender {} clocks late",
        free.before_sync, free.late
    );
    let mut rows = Vec::new();
    for (words, measured) in MEASURED {
        let status = if FITTED.contains(&words) {
            Status::Fitted
        } else {
            Status::Checked
        };
        let simulated = simulate(words, free)?;
        let names = ["sender", "receiver 32", "receiver 53"];
        for ((name, m), s) in names.into_iter().zip(measured).zip(simulated) {
            let name = format!("exchange {words} words, {name}");
            rows.push(Row::new(name, m, s, status));
        }
    }
    Ok((rows, remark))
}

/// The logical tile of a physical one.
fn logical(physical: u16) -> Result<u32> {
    Physical(physical)
        .to_logical()
        .with_context(|| format!("no tile has the physical id {physical}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfitted_sizes_are_within_six_clocks() -> Result<()> {
        for row in rows()?.0 {
            assert!(row.difference.abs() <= 6, "{row:?}");
        }
        Ok(())
    }
}
