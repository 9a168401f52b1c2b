//! Random straight-line worker programs, made from the table: the simulator and a second, plainly
//! written interpreter end in the same state. `IPU_SIM_PROGRAMS` sets the number of programs.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

mod common;
mod plain;

use common::*;
use ipu_isa::{Arch, Decoded, Flag, Format, Instruction, Mode, OperandKind, Pipeline, RegFile};
use ipu_simulator::{Chip, Context, Stop};
use ipu_target::Target;
use plain::Plain;

/// Bytes at each of three places in elements of their own, and of interleaved memory.
const PLACES: [u32; 4] = [0x54000, 0x58000, 0x5c000, 0x80000];
const BYTES: u32 = 0x1000;
/// The middle of the first place: the vertex base.
const VERTEX: u32 = PLACES[0] + BYTES / 2;
const WEIGHTS: u32 = 0x68000;

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

    /// A word whose halves are often ordinary f16, sometimes extremes, sometimes anything.
    fn data(&mut self) -> u32 {
        let mut half = || {
            let bits = self.next() >> 20;
            match self.below(16) {
                0 => [0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 1, 0x83ff, 0x7bff][bits as usize % 8],
                1 | 2 => bits as u32 & 0xffff,
                _ => (bits as u32 & 0x83ff) | ((10 + (bits as u32 >> 10 & 7)) << 10),
            }
        };
        let (low, high) = (half(), half());
        match self.below(8) {
            // An ordinary f32.
            0..3 => (low & 0x807f) << 16 | high | (120 + (low >> 8 & 15)) << 23,
            _ => low | high << 16,
        }
    }
}

/// Registers of the M file that programs do not overwrite: the last two of its general ones.
const KEPT: i64 = 10;

/// Whether programs are made of a format: everything that neither leaves the straight line nor
/// touches another context.
fn known(f: &Format) -> bool {
    let control = f.has(Flag::Control) || f.has(Flag::System);
    f.on(Arch::Ipu21)
        && f.words == 1
        && f.mode != Mode::Supervisor
        && !(f.pipeline == Pipeline::Main && control)
}

fn set(m: i64, value: u32) -> Instruction {
    let id = ipu_isa::table()
        .formats()
        .iter()
        .find(|f| f.mnemonic == "setzi" && f.pipeline == Pipeline::Main)
        .unwrap()
        .id;
    Instruction::Single(Decoded::new(id, &[m, value.into()]).unwrap())
}

/// The register of an operand that must point somewhere, in loads through fetched or packed
/// offsets and in `stm32step`: two accesses of one instruction go to different elements.
fn pointer(
    name: &str,
    operand: &str,
    random: &mut Random,
    before: &mut Vec<Instruction>,
) -> Option<i64> {
    let mut small = |unit: u32| unit * random.below(8) as u32;
    let value = match (name, operand) {
        ("ld64a32", "delta") | ("stm32step", "c") => PLACES[0] + small(8),
        ("ld64a32", "base") => PLACES[1],
        ("ld64a32", "stride") => small(4),
        ("stm32step", "a") => return Some(11),
        // Elements of interleaved memory alternate every 8 bytes.
        ("ldb16b16", "op0") => PLACES[3],
        ("ldb16b16", "op2") => small(16) + small(2) % 8 + ((8 + small(2) % 8) << 16),
        ("ldd16v2a32" | "ldd16a32" | "ldd16a64" | "ldd16b16", "op1") => PLACES[0] + small(4),
        ("ldd16v2a32" | "ldd16a32" | "ldd16a64" | "ldd16b16", "op0") => PLACES[1],
        ("ldd16v2a32", "op2") => (small(4) % 16) << 16 | small(3),
        ("ldd16a32" | "ldd16a64" | "ldd16b16", "op2") => small(8),
        _ => return None,
    };
    let register = match operand {
        "delta" | "c" | "op1" => 6,
        "base" | "op0" => 7,
        _ => 8,
    };
    before.push(set(register, value));
    Some(register)
}

/// A random instruction of a format, with what must precede it.
fn make(f: &Format, random: &mut Random, before: &mut Vec<Instruction>) -> Option<Decoded> {
    let name = f.mnemonic.as_str();
    let memory = f.operands.iter().any(|o| o.name == "base");
    let size = match name.trim_end_matches("step") {
        "ld128" => 16u32,
        "ld64" | "st64" => 8,
        "ld32" | "st32" | "stm32" => 4,
        n if n.contains("16") => 2,
        _ => 1,
    };
    let interleaved = size == 16;
    let mut values = Vec::new();
    for o in &f.operands {
        if let Some(value) = pointer(name, &o.name, random, before) {
            values.push(value);
            continue;
        }
        let value = match (o.name.as_str(), o.kind) {
            // Flags, control and the seed of what is not plain are left out.
            ("imm", _) if name == "uget" => [3, 4, 5, 6, 8, 9, 10][random.below(7) as usize],
            ("csr", _) => [1, 3, 4, 5, 6, 7, 8, 9, 10][random.below(9) as usize],
            ("imm", _) if name == "f32v2aop" => random.below(4) as i64,
            ("imm", _) if name == "f32int" => random.below(5) as i64,
            ("flags", _) if name == "f32sisoslic" || name == "f32sisov2slic" => {
                random.below(4) as i64 + 16 * random.below(2) as i64
            }
            ("flags", _) if name.ends_with("slic") => {
                random.below(2) as i64 + 16 * random.below(2) as i64
            }
            ("base", _) if interleaved => {
                before.push(set(9, PLACES[3] + BYTES / 2));
                9
            }
            // The vertex base.
            ("base", _) => 13,
            ("delta", _) if name.ends_with("step") => {
                before.push(set(8, 16 * random.below(16) as u32));
                8
            }
            ("delta", _) => 15,
            // A small number, at most 15.
            ("off" | "stride", OperandKind::Reg { .. }) if memory => 11,
            ("off", k) if k.bits() > 8 => random.below(64) as i64,
            ("addr", _) => {
                for (register, place) in [(0, PLACES[0]), (1, PLACES[1]), (2, PLACES[2])] {
                    let at = place + 8 * random.below(u64::from(BYTES) / 8) as u32;
                    before.push(set(register, at));
                }
                let tapack = ipu_isa::table()
                    .formats()
                    .iter()
                    .find(|f| f.mnemonic == "tapack")
                    .unwrap()
                    .id;
                before.push(Instruction::Single(
                    Decoded::new(tapack, &[6, 0, 1, 2]).unwrap(),
                ));
                6
            }
            ("flags", _) => {
                let choices: &[i64] = match name {
                    n if n.contains("stacc") => &[0, 1],
                    n if n.starts_with("f32") => &[0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 32, 33],
                    _ => &[0, 1, 2, 3, 0, 1, 2, 3, 16, 17, 32],
                };
                choices[random.below(choices.len() as u64) as usize]
            }
            ("imm", _) if name.contains("gina") => random.below(4) as i64,
            ("imm", _) if name.contains("stacc") => random.below(2) as i64,
            (n, OperandKind::Reg { file, width, .. }) => {
                let width = i64::from(width);
                let top = if file == RegFile::A { 16 } else { KEPT };
                let r = random.below((top / width) as u64) as i64 * width;
                let writes = n.starts_with("dst");
                // $a8 to $a13 do not exist; $a14 and $a15 are zero.
                match file {
                    RegFile::A if r >= 8 && (writes || r + width <= 14) => r % 8,
                    _ => r,
                }
            }
            (_, k) => {
                let (least, most, unit) = ipu_isa::value_limits(k);
                let steps = ((most - least) / unit) as u64;
                least + random.below(steps + 1) as i64 * unit
            }
        };
        values.push(value);
    }
    Decoded::new(f.id, &values).ok()
}

/// Words that one instruction writes must be distinct; the step forms write their delta too.
fn distinct(d: &Decoded) -> bool {
    let mut seen = Vec::new();
    for (file, first, count) in d.written_registers() {
        for r in first..first + count {
            if seen.contains(&(file, r)) {
                return false;
            }
            seen.push((file, r));
        }
    }
    true
}

/// Seeds the generator and sets scalar operand, f8 formats and, half of the time, the f8 scale.
fn state(random: &mut Random) -> Vec<Instruction> {
    let uput = ipu_isa::table().by_name("uput_aaan_zi").unwrap().id;
    let put = |csr: i64, a: i64| Instruction::Single(Decoded::new(uput, &[csr, a]).unwrap());
    let mut out: Vec<Instruction> = (0..7)
        .map(|i| put([3, 4, 5, 6, 8, 9, 10][i], i as i64))
        .collect();
    out.truncate(6 + random.below(2) as usize);
    out
}

fn program(random: &mut Random, length: usize) -> Vec<Instruction> {
    let formats: Vec<&Format> = ipu_isa::table()
        .formats()
        .iter()
        .filter(|f| known(f))
        .collect();
    let mut out = state(random);
    while out.len() < length {
        let mut before = Vec::new();
        let f = formats[random.below(formats.len() as u64) as usize];
        let Some(d) = make(f, random, &mut before).filter(distinct) else {
            continue;
        };
        // The other half of a bundle, half of the time.
        let mut other_before = Vec::new();
        let other = formats[random.below(formats.len() as u64) as usize];
        let partner = make(other, random, &mut other_before).filter(distinct);
        out.append(&mut before);
        let (main, aux) = match partner {
            Some(p) if d.format().pipeline == Pipeline::Main => (d, p),
            Some(p) => (p, d),
            None => {
                out.push(Instruction::Single(d));
                continue;
            }
        };
        if random.below(2) == 0 && ipu_isa::check_bundle(&main, &aux).is_ok() {
            if f.pipeline != Pipeline::Main {
                out.append(&mut other_before);
            }
            out.push(Instruction::Bundle(main, aux));
        } else {
            out.push(Instruction::Single(d));
        }
    }
    out
}

/// Instructions of a program, without those that others need before them.
const LENGTH: usize = 60;

fn generator(seed: u64) -> Random {
    Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
}

/// Runs a program on both; the first difference.
fn compare(seed: u64) {
    let mut random = generator(seed);
    let instructions = program(&mut random, LENGTH);
    let mut chip = Chip::new(Target::ipu21());
    let mut plain = Plain::new();
    for place in PLACES {
        let words: Vec<u32> = (0..BYTES / 4).map(|_| random.data()).collect();
        let data = bytes(&words);
        chip.write(0, place, &data).unwrap();
        let at = |i: usize| place + i as u32;
        plain
            .memory
            .extend(data.iter().enumerate().map(|(i, &b)| (at(i), b)));
    }
    let weights: Vec<u32> = (0..128).map(|_| random.data()).collect();
    chip.write(0, WEIGHTS, &bytes(&weights)).unwrap();
    for (w, pair) in plain.weights.iter_mut().zip(weights.chunks(2)) {
        *w = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    let mut code = Vec::new();
    for i in &instructions {
        i.encode_into(&mut code);
    }
    let loads: String = (0..64).map(|i| format!(" ld64putcs {i}\n")).collect();
    let words: String = code.iter().map(|w| format!(" .word {w:#x}\n")).collect();
    let image = assemble(&format!(
        "setzi $m0, {WEIGHTS}\n put 80, $m0\n{loads} setzi $m0, work\n setzi $m1, {}\n\
         nop\n nop\n nop\n nop\n run $m0, $m1, 0\n sync 2\n trap 0\n work:\n{words} exitz $mzero\n",
        VERTEX - 0x4c000
    ));
    chip.load(0, image.base, &image.bytes).unwrap();
    chip.start(0, BASE).unwrap();
    let registers = chip.registers_mut(0, Context::Worker(0)).unwrap();
    for r in 0..12 {
        registers.m[r] = random.data();
    }
    registers.m[11] = random.below(16) as u32;
    for r in 0..8 {
        registers.a[r] = random.data();
    }
    plain.m = registers.m;
    plain.a = registers.a;
    plain.m[12] = 0x580e0;
    plain.m[13] = VERTEX;
    let listing = || {
        let lines: Vec<String> = instructions.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    match chip.run(LIMIT) {
        Ok(Stop::Halted { .. }) => {}
        other => panic!("seed {seed}: {other:?}\n{}", listing()),
    }
    for i in &instructions {
        plain.step(i);
    }
    let registers = chip.worker_registers(0, 0).unwrap();
    assert_eq!(
        registers.m[..12],
        plain.m[..12],
        "seed {seed}\n{}",
        listing()
    );
    assert_eq!(registers.a[..8], plain.a[..8], "seed {seed}\n{}", listing());
    let acc = chip.worker_accumulators(0, 0).unwrap().map(f32::to_bits);
    assert_eq!(acc, plain.acc, "seed {seed}\n{}", listing());
    for place in PLACES {
        let got = chip.read(0, place, BYTES as usize).unwrap();
        let want: Vec<u8> = (place..place + BYTES).map(|a| plain.memory[&a]).collect();
        assert!(got == want, "seed {seed}: memory\n{}", listing());
    }
}

#[test]
fn straight_line_programs_agree() {
    let count = std::env::var("IPU_SIM_PROGRAMS").map_or(300, |v| v.parse().unwrap());
    (0..count).for_each(compare);
}

/// Mnemonics that random programs do not have, and the file that tests what they do.
const ELSEWHERE: [(&str, &str); 29] = [
    ("br", "sim/control.test"),
    ("bri", "sim/control.test"),
    ("brneg", "sim/exits.test"),
    ("brnz", "sim/control.test"),
    ("brnzdec", "sim/control.test"),
    ("brpos", "sim/control.test"),
    ("brz", "sim/control.test"),
    ("call", "sim/control.test"),
    ("exitneg", "sim/exits.test"),
    ("exitnz", "sim/exits.test"),
    ("exitpos", "sim/exits.test"),
    ("exitz", "sim/exits.test"),
    ("get", "sim/csr.test"),
    ("put", "sim/csr.test"),
    ("rpt", "sim/rpt.test"),
    ("ld64putcs", "sim/weights.test"),
    ("ld128putcs", "sim/weights.test"),
    ("trap", "sim/traps.test"),
    ("run", "sim/exits.test"),
    ("runall", "sim/exits.test"),
    ("sync", "sim/exchange.test"),
    ("sans", "sim/exchange-control.test"),
    ("delay", "sim/exchange.test"),
    ("delaypic", "sim/exchange.test"),
    ("delayxpic", "sim/exchange.test"),
    ("send", "sim/exchange.test"),
    ("sendoff", "sim/exchange.test"),
    ("sendpic", "sim/exchange-control.test"),
    ("sendpicp", "sim/exchange-control.test"),
];

/// Random programs contain every format that they may, all other instructions have a test.
#[test]
fn every_instruction_is_tested() {
    use std::collections::BTreeSet;
    let mut made: BTreeSet<&str> = BTreeSet::new();
    for seed in 0..300 {
        for i in program(&mut generator(seed), LENGTH) {
            match i {
                Instruction::Single(d) => drop(made.insert(&d.format().name)),
                Instruction::Bundle(main, aux) => {
                    made.insert(&main.format().name);
                    made.insert(&aux.format().name);
                }
                other => panic!("{other}"),
            }
        }
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lit-tests");
    let mut untested = Vec::new();
    for f in ipu_isa::table().formats() {
        if !f.on(Arch::Ipu21) || made.contains(f.name.as_str()) {
            continue;
        }
        let place = ELSEWHERE.iter().find(|(name, _)| *name == f.mnemonic);
        let has = |file: &str| {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            code.flat_map(str::split_whitespace)
                .any(|w| w == f.mnemonic)
        };
        if !place.is_some_and(|(_, file)| has(file)) {
            untested.push(&f.name);
        }
    }
    assert!(untested.is_empty(), "no test executes {untested:?}");
}
