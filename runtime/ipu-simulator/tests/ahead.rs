//! Workers that run ahead of each other end as those that take slot after slot: repeat bodies at
//! random, once as they are, once in pieces, and once with an observer, which keeps to the slots.
//! `IPU_SIM_PROGRAMS` sets their number.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;

use common::*;
use ipu_simulator::{Chip, IssueEvent, SimError};
use ipu_target::Target;
use pretty_assertions::assert_eq;

/// Words of a worker's record.
const RECORD: u32 = 6;
/// Read streams, weights, and what is stored: different elements.
const X: u32 = 0x60000;
const WEIGHTS: u32 = 0x70000;
const SUMS: u32 = 0x90000;
/// Bytes of data at each of them.
const BYTES: u32 = 0x2000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Bits of an f16: mostly around one, more seldom anything, the wilder the more.
    fn half(&mut self, wild: u64) -> u16 {
        let bits = self.next() as u16;
        if self.below(1000) < wild {
            return self.pick(&[bits, 0, 0x8000, 1, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00]);
        }
        bits & 0x83f8 | (8 + (bits >> 10 & 7)) << 10
    }

    fn data(&mut self, bytes: u32, wild: u64) -> Vec<u8> {
        (0..bytes / 2)
            .flat_map(|_| self.half(wild).to_le_bytes())
            .collect()
    }
}

/// A random program and what it needs in memory.
struct Case {
    source: String,
    memory: Vec<(u32, Vec<u8>)>,
}

/// A body of `ld2xst64pace` and AMP steps; sometimes one that is not quite that.
fn body(random: &mut Random) -> String {
    let wide = random.below(2) == 0;
    let amp = if wide {
        "f16v4hihov4amp"
    } else {
        "f16v4sisoamp"
    };
    let first = random.below(4);
    let partials = random.pick(&["$a2:3", "$a2:3", "$azeros"]);
    let length = random.pick(&[4, 4, 4, 4, 4, 3, 8]);
    let codes = random.pick(&[0, 0, 0, 0, 4, 1, 32]);
    let mut text = String::new();
    for j in 0..length {
        let stored = random.pick(&["$a4:5", "$a6:7"]);
        let result = random.pick(&["$a4:5", "$a6:7"]);
        let x = random.pick(&["$a0:1", "$a0:1", "$a0:1", "$a6:7"]);
        let codes = if j == 1 { codes } else { 0 };
        let phase = match random.below(40) {
            0 => random.below(4),
            _ => (first + j) % 4,
        };
        text += &format!(
            " {{ ld2xst64pace $a0:3, {stored}, $m10:11+=, $m6, {codes} ; {amp} {result}, {x}, \
             {partials}, {phase} }}\n"
        );
    }
    format!(" {{ rpt $m8, {} ; fnop }}\n{text}", length - 1)
}

fn case(random: &mut Random) -> Case {
    let rows = random.pick(&[1, 2, 3, 7, 20, 40]);
    let wild = random.pick(&[0, 0, 1, 50]);
    let mut records = Vec::new();
    for worker in 0..6 {
        let x = X + worker * rows * 32;
        let sums = SUMS + worker * rows * 32;
        // Stores trail loads by an odd number of atoms, or are somewhere.
        let stored = match random.below(40) {
            0 => random.pick(&[SUMS, X, 0x4c200, 0x4c000, 0xe7f00, 0x1fff00]),
            _ => sums.wrapping_sub(8 * random.pick(&[11, 11, 11, 1, 3])),
        };
        let stride = random.next() as u32 & 0xfffff;
        let stride = random.pick(&[1021 + 3 * 1024, 1021 + 3 * 1024, stride]);
        let extra = u32::from(random.below(4) == 0);
        records.extend([
            x,
            sums,
            stored,
            stride,
            rows + extra,
            random.below(3) as u32,
        ]);
    }
    let control: u32 = random.pick(&[0, 0, 0, 0, 0x10_0000, 7, 0x1_0000, 0x8_0000]);
    let loads: String = (0..64).map(|i| format!(" ld64putcs {i}\n")).collect();
    let prime: String = (0..8)
        .map(|i| {
            format!(
                " ld64step $a0:1, $mzero, $m3+=, 1\n {{ nop ; f16v4hihov4amp $a4:5, $a0:1, \
                 $a0:1, {} }}\n",
                i % 4
            )
        })
        .collect();
    let source = format!(
        " setzi $m0, {WEIGHTS}\n setzi $m1, {}\n setzi $m3, {}\n shl $m3, $m3, 16\n \
         or $m1, $m1, $m3\n put 80, $m0\n put 32, $m1\n{loads}\
         setzi $m0, work\n setzi $m1, {DATA}\n runall $m0, $m1, {RECORD}\n sync 2\n trap 0\n\
         .allow_optimizations\n.worker\n.align 8\nwork:\n \
         ld32 $m0, $m13, $mzero, 0\n ld32 $m1, $m13, $mzero, 1\n ld32 $m2, $m13, $mzero, 2\n \
         ld32 $m6, $m13, $mzero, 3\n ld32 $m8, $m13, $mzero, 4\n ld32 $m9, $m13, $mzero, 5\n \
         add $m3, $m0, 0\n{prime} tapack $m10:11, $m0, $m1, $m2\n\
         late: brnzdec $m9, late\n .align 8\n{} exitz $mzero\n",
        control & 0xffff,
        control >> 16,
        body(random)
    );
    let places = [(X, wild), (WEIGHTS, wild / 2), (SUMS - 0x100, wild)];
    let mut memory: Vec<_> = places
        .into_iter()
        .map(|(at, wild)| (at, random.data(BYTES, wild)))
        .collect();
    memory.push((DATA, bytes(&records)));
    Case { source, memory }
}

/// Everything that can be seen of a tile at the end.
fn state(chip: &Chip, result: Result<(), String>) -> String {
    let mut text = format!("{result:?} at {}\n", chip.cycle());
    text += &format!("{:?}\n", chip.counters(0).unwrap());
    for worker in 0..6 {
        let accumulators = chip.worker_accumulators(0, worker).unwrap();
        text += &format!(
            "{worker}: {:x?} {:x?} {:?}\n",
            chip.worker_registers(0, worker).unwrap(),
            accumulators.map(f32::to_bits),
            chip.worker_clocks(0, worker).unwrap(),
        );
    }
    let target = Target::ipu21();
    let all = (target.memory_end - target.memory_base) as usize;
    for (i, line) in chip
        .read(0, target.memory_base, all)
        .unwrap()
        .chunks(32)
        .enumerate()
    {
        if line.iter().any(|&b| b != 0) {
            text += &format!("{:#x}: {line:x?}\n", target.memory_base as usize + 32 * i);
        }
    }
    text
}

fn prepared(case: &Case) -> Chip {
    let mut chip = chip(&case.source);
    for (address, bytes) in &case.memory {
        chip.load(0, *address, bytes).unwrap();
    }
    chip
}

fn finish(chip: &mut Chip) -> Result<(), String> {
    chip.run(LIMIT).map(drop).map_err(|e| e.to_string())
}

#[test]
fn running_ahead_is_invisible() {
    let count = std::env::var("IPU_SIM_PROGRAMS").map_or(150, |n| n.parse().unwrap());
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut faults = 0;
    for number in 0..count {
        let case = case(&mut random);
        let mut slots = prepared(&case);
        slots.observe([0], |_: &IssueEvent<'_>| {}).unwrap();
        let want = finish(&mut slots);
        faults += usize::from(want.is_err());
        let want = state(&slots, want);
        let mut ahead = prepared(&case);
        let got = finish(&mut ahead);
        assert_eq!(
            state(&ahead, got),
            want,
            "program {number}:\n{}",
            case.source
        );
        let mut pieces = prepared(&case);
        let got = loop {
            match pieces.run(1 + random.below(600)) {
                Err(SimError::MaxCycles { .. }) => {}
                other => break other.map(drop).map_err(|e| e.to_string()),
            }
        };
        assert_eq!(
            state(&pieces, got),
            want,
            "program {number} in pieces:\n{}",
            case.source
        );
    }
    // Most programs come to their end.
    assert!(faults < count / 2, "{faults} of {count} programs fault");
}
