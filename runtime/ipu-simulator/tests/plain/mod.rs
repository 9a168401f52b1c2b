//! A second interpreter of straight-line worker code, written plainly from the table: no decoding
//! ahead, no fast paths, its own arithmetic. It shares no code with the simulator.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

mod arithmetic;
mod floats;
mod sums;

use arithmetic::widen;
use floats::pack;
use ipu_isa::{Broadcast, Decoded, Instruction, OperandKind, RegFile};
use std::collections::BTreeMap;

/// The state of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    pub m: [u32; 16],
    pub a: [u32; 16],
    pub acc: [u32; 32],
    pub prng: [u64; 2],
    /// Operand of `axpy` and `mix`.
    pub tas: u32,
    /// f8 formats: bit 0 of conversions and weights, bit 1 of data.
    pub formats: u32,
    /// Exponent of f8.
    pub scale: u32,
    /// Bytes that were loaded or written.
    pub memory: BTreeMap<u32, u8>,
    pub weights: [u64; 64],
}

/// Results of one half of a bundle, written when both halves have read.
#[derive(Default)]
struct Writes {
    m: Vec<(usize, u32)>,
    a: Vec<(usize, u32)>,
    memory: Vec<(u32, Vec<u8>)>,
}

/// A named operand: a register with its file, or a number.
#[derive(Clone, Copy)]
enum Operand {
    M(usize),
    A(usize, Broadcast),
    Number(u32),
}

fn operand(d: &Decoded, name: &str) -> Operand {
    let at = d
        .format()
        .operands
        .iter()
        .position(|o| o.name == name)
        .unwrap_or_else(|| panic!("{} has no operand {name}", d.format().mnemonic));
    let value = d.value(at);
    match d.format().operands[at].kind {
        OperandKind::Reg {
            file: RegFile::M, ..
        } => Operand::M(value as usize),
        OperandKind::Reg { broadcast, .. } => Operand::A(value as usize, broadcast),
        _ => Operand::Number(value as u32),
    }
}

impl Plain {
    pub fn new() -> Plain {
        Plain {
            m: [0; 16],
            a: [0; 16],
            acc: [0; 32],
            prng: [0; 2],
            tas: 0,
            formats: 0,
            scale: 0,
            memory: BTreeMap::new(),
            weights: [0; 64],
        }
    }

    fn m(&self, o: Operand) -> u32 {
        match o {
            Operand::M(r) => self.m[r],
            Operand::A(r, _) => self.a[r],
            Operand::Number(n) => n,
        }
    }

    /// The words of an A operand, `count` registers, or one that is broadcast.
    fn words(&self, o: Operand, count: usize) -> Vec<u32> {
        match o {
            Operand::A(r, Broadcast::None) => (0..count).map(|i| self.a[(r + i) & 15]).collect(),
            Operand::A(r, Broadcast::BL) => vec![(self.a[r] & 0xffff) * 0x1_0001; count],
            Operand::A(r, Broadcast::BU) => vec![(self.a[r] >> 16) * 0x1_0001; count],
            Operand::A(r, Broadcast::B) => vec![self.a[r]; count],
            Operand::Number(n) => vec![n],
            Operand::M(r) => vec![self.m[r]],
        }
    }

    fn load(&self, address: u32, bytes: u32) -> u64 {
        (0..bytes).fold(0, |v, i| {
            v | u64::from(*self.memory.get(&(address + i)).unwrap_or(&0)) << (8 * i)
        })
    }

    fn draw(&mut self) -> u64 {
        let [s0, s1] = self.prng;
        let sx = s0 ^ s1;
        let out = sx ^ ((s0 & s1).rotate_left(1) | (s0 & s1).rotate_left(2));
        self.prng = [s0.rotate_left(55) ^ sx ^ (sx << 14), sx.rotate_left(36)];
        out
    }

    /// A control register of the upper space.
    fn get(&self, csr: u32) -> u32 {
        match csr {
            3..=6 => (self.prng[csr as usize / 5] >> (32 * ((csr + 1) % 2))) as u32,
            8 => self.tas,
            9 => self.formats,
            10 => self.scale,
            other => panic!("control register {other}"),
        }
    }

    fn put(&mut self, csr: u32, value: u32) {
        let wide = u64::from(value);
        let word = &mut self.prng[csr as usize / 5 % 2];
        match csr {
            // Bit 3 clears the accumulators.
            1 => {
                if value & 8 != 0 {
                    self.acc = [0; 32];
                }
            }
            3 | 5 => *word = *word >> 32 << 32 | wide,
            4 | 6 => *word = *word & 0xffff_ffff | wide << 32,
            7 => {
                let s0 = wide | u64::from(!value) << 32;
                self.prng = [s0, s0.rotate_left(13)];
            }
            8 => self.tas = value,
            9 => self.formats = value & 3,
            10 => self.scale = value,
            other => panic!("control register {other}"),
        }
    }

    pub fn step(&mut self, instruction: &Instruction) {
        let mut writes = Writes::default();
        match instruction {
            Instruction::Single(d) => self.half(d, &mut writes),
            Instruction::Bundle(main, aux) => {
                // Accumulators and the generator belong to the aux half alone.
                self.half(main, &mut writes);
                self.half(aux, &mut writes);
            }
            other => panic!("not straight-line: {other}"),
        }
        for (r, v) in writes.m {
            if r < 12 {
                self.m[r] = v;
            }
        }
        for (r, v) in writes.a {
            if r < 8 {
                self.a[r] = v;
            }
        }
        for (address, bytes) in writes.memory {
            for (i, b) in bytes.into_iter().enumerate() {
                self.memory.insert(address + i as u32, b);
            }
        }
    }

    fn half(&mut self, d: &Decoded, w: &mut Writes) {
        let name = d.format().mnemonic.as_str();
        if d.format().pipeline == ipu_isa::Pipeline::Main {
            self.main(d, name, w);
        } else {
            self.aux(d, name, w);
        }
    }

    fn main(&mut self, d: &Decoded, name: &str, w: &mut Writes) {
        let op = |n: &str| operand(d, n);
        let has = |n: &str| d.format().operands.iter().any(|o| o.name == n);
        let put = |w: &mut Writes, o: Operand, v: u32| match o {
            Operand::M(r) => w.m.push((r, v)),
            Operand::A(r, _) => w.a.push((r, v)),
            Operand::Number(_) => panic!("no destination"),
        };
        match name {
            "setzi" => return put(w, op("dst"), self.m(op("imm"))),
            "atom" => return put(w, op("dst"), self.m(op("src0"))),
            "movnz" => {
                if self.m(op("a")) != 0 {
                    put(w, op("c"), self.m(op("b")));
                }
                return;
            }
            "tapack" => {
                let [a0, a1, a2] =
                    ["addr0", "addr1", "addr2"].map(|n| self.m(op(n)) & ((1 << 21) - 1));
                let Operand::M(r) = op("dst") else { panic!() };
                w.m.push((r, a0 | (a2 & 0x7ff) << 21));
                w.m.push((r + 1, a1 | (a2 >> 11) << 21));
                return;
            }
            _ => {}
        }
        if name.contains("pace") {
            return self.pace(d, name, w);
        }
        if name.starts_with("ldd16") || name == "ldb16b16" || name == "ld64a32" {
            return self.indirect(d, name, w);
        }
        if name == "stm32step" {
            let address = self.m(op("c"));
            let data = self.m(op("b")).to_le_bytes().to_vec();
            w.memory.push((address, data));
            let moved = address.wrapping_add(self.m(op("a")).wrapping_mul(4));
            return put(w, op("c"), moved);
        }
        if has("base") {
            return self.access(d, name, w);
        }
        // In text order.
        let operands = &d.format().operands;
        let x = self.m(op(&operands[1].name));
        let register = operands
            .get(2)
            .is_some_and(|o| o.kind.is_register() && name.starts_with("sh") && name.len() < 5);
        let y = operands.get(2).map_or(0, |o| self.m(op(&o.name)));
        let y = if register { y & 31 } else { y };
        put(w, op("dst"), word(name, x, y));
    }

    fn access(&mut self, d: &Decoded, name: &str, w: &mut Writes) {
        let op = |n: &str| operand(d, n);
        let step = name.ends_with("step");
        let kind = name.trim_end_matches("step");
        let bytes = match kind {
            "ld128" => 16,
            "ld64" | "st64" => 8,
            "ld32" | "st32" | "stm32" => 4,
            "lds16" | "ldz16" | "ldb16" => 2,
            _ => 1,
        };
        let base = self.m(op("base"));
        let address = if name == "stm32" {
            base + 4 * self.m(op("off"))
        } else if step {
            let delta = self.m(op("delta"));
            let moved = delta.wrapping_add(self.m(op("stride")).wrapping_mul(bytes));
            let Operand::M(r) = op("delta") else { panic!() };
            w.m.push((r, moved));
            base.wrapping_add(delta)
        } else {
            base.wrapping_add(self.m(op("delta")))
                .wrapping_add(self.m(op("off")).wrapping_mul(bytes))
        };
        if kind.starts_with("st") {
            let words = match op("src") {
                Operand::M(r) => vec![self.m[r]],
                o => self.words(o, bytes as usize / 4),
            };
            let data = words.iter().flat_map(|v| v.to_le_bytes()).collect();
            w.memory.push((address, data));
            return;
        }
        let low = self.load(address, bytes.min(8));
        let values: Vec<u32> = match kind {
            "ld128" => {
                let high = self.load(address + 8, 8);
                vec![
                    low as u32,
                    (low >> 32) as u32,
                    high as u32,
                    (high >> 32) as u32,
                ]
            }
            "ld64" => vec![low as u32, (low >> 32) as u32],
            "lds16" => vec![i32::from(low as i16) as u32],
            "lds8" => vec![i32::from(low as i8) as u32],
            "ldb16" => vec![low as u32 * 0x1_0001],
            "ldb8" => vec![low as u32 * 0x0101_0101],
            _ => vec![low as u32],
        };
        for (i, v) in values.into_iter().enumerate() {
            match op("dst") {
                Operand::M(r) => w.m.push((r + i, v)),
                Operand::A(r, _) => w.a.push((r + i, v)),
                Operand::Number(_) => panic!(),
            }
        }
    }

    /// Loads through offsets that are fetched, or packed.
    fn indirect(&mut self, d: &Decoded, name: &str, w: &mut Writes) {
        let register = |n: &str| match operand(d, n) {
            Operand::M(r) | Operand::A(r, _) => r,
            Operand::Number(_) => panic!("{name}: {n} is no register"),
        };
        let m = |s: &Plain, n: &str| s.m[register(n)];
        let dst = register("dst");
        if name == "ldb16b16" {
            let (base, packed, steps) = (m(self, "op0"), m(self, "op2"), m(self, "op1"));
            for i in 0..2 {
                let half = self.load(base + (packed >> (16 * i) & 0xffff), 2) as u32;
                w.a.push((dst + i as usize, half << 16 | half));
            }
            let low = (packed & 0xffff) + 2;
            let high = (packed >> 16) + 2 * (steps & 15);
            w.m.push((register("op2"), (low & 0xffff) | high << 16));
            w.m.push((register("op1"), steps >> 4));
            return;
        }
        if name == "ld64a32" {
            let address = m(self, "delta");
            let wide = self.load(address, 8);
            let narrow = self.load(m(self, "base") + (m(self, "stride") & 0xffff), 4);
            w.a.push((dst + 1, narrow as u32));
            w.a.push((dst + 2, wide as u32));
            w.a.push((dst + 3, (wide >> 32) as u32));
            w.m.push((register("delta"), address + 8));
            return;
        }
        let (address, base, delta) = (m(self, "op1"), m(self, "op0"), m(self, "op2"));
        let (offset, bytes) = match name {
            "ldd16v2a32" => (delta >> 16, 4),
            _ => (delta & 0xffff, 2),
        };
        let size = match name {
            "ldd16a64" => 8,
            "ldd16b16" => 2,
            _ => 4,
        };
        let value = self.load(base + offset, size);
        w.a.push((dst, value as u32 * if size == 2 { 0x1_0001 } else { 1 }));
        if size == 8 {
            w.a.push((dst + 1, (value >> 32) as u32));
        }
        w.m.push((register("op1"), address + bytes));
        w.m.push((register("op2"), self.load(address, bytes) as u32));
    }

    fn pace(&mut self, d: &Decoded, name: &str, w: &mut Writes) {
        let op = |n: &str| operand(d, n);
        let Operand::M(r) = op("addr") else { panic!() };
        let (even, odd) = (self.m[r], self.m[r + 1]);
        let mask = (1 << 21) - 1;
        let mut at = [even & mask, odd & mask, even >> 21 | (odd >> 21) << 11];
        let stride = self.m(op("stride"));
        let mut codes = self.m(op("strimm"));
        let narrow = match name {
            "ld64a32pace" => 4,
            "ld64b16pace" => 2,
            _ => 8,
        };
        let mut used = |i: usize, unit: u32| {
            let address = at[i];
            let field = match codes & 3 {
                0 => 1,
                n => {
                    let raw = (stride >> (10 * (n - 1))) & 0x3ff;
                    if raw >= 512 {
                        raw as i32 - 1024
                    } else {
                        raw as i32
                    }
                }
            };
            codes >>= 2;
            at[i] = address.wrapping_add((field * unit as i32) as u32) & mask;
            address
        };
        let pair = |o: Operand, v: u64, w: &mut Writes| {
            let Operand::A(r, _) = o else { panic!() };
            w.a.push((r, v as u32));
            w.a.push((r + 1, (v >> 32) as u32));
        };
        match name {
            "ld2xst64pace" => {
                let (x, y, z) = (used(0, 8), used(1, 8), used(2, 8));
                pair(op("dst"), self.load(x, 8), w);
                let Operand::A(q, b) = op("dst") else {
                    panic!()
                };
                pair(Operand::A(q + 2, b), self.load(y, 8), w);
                let data = self.words(op("src"), 2);
                w.memory
                    .push((z, data.iter().flat_map(|v| v.to_le_bytes()).collect()));
            }
            "ldst64pace" => {
                let (x, z) = (used(0, 8), used(2, 8));
                pair(op("dst"), self.load(x, 8), w);
                let data = self.words(op("src"), 2);
                w.memory
                    .push((z, data.iter().flat_map(|v| v.to_le_bytes()).collect()));
            }
            "st64pace" => {
                let z = used(2, 8);
                let data = self.words(op("src"), 2);
                w.memory
                    .push((z, data.iter().flat_map(|v| v.to_le_bytes()).collect()));
            }
            _ => {
                let (x, y) = (used(0, 8), used(1, narrow));
                pair(op("dst0"), self.load(x, 8), w);
                let Operand::A(r, b) = op("dst1") else {
                    panic!()
                };
                match narrow {
                    8 => pair(Operand::A(r, b), self.load(y, 8), w),
                    4 => w.a.push((r, self.load(y, 4) as u32)),
                    _ => w.a.push((r, self.load(y, 2) as u32 * 0x1_0001)),
                }
            }
        }
        w.m.push((r, at[0] | (at[2] & 0x7ff) << 21));
        w.m.push((r + 1, at[1] | (at[2] >> 11) << 21));
    }

    fn aux(&mut self, d: &Decoded, name: &str, w: &mut Writes) {
        let op = |n: &str| operand(d, n);
        let width = |n: &str| {
            let o = d.format().operands.iter().find(|o| o.name == n).unwrap();
            match o.kind {
                OperandKind::Reg { width, .. } => usize::from(width),
                _ => 1,
            }
        };
        let has = |n: &str| d.format().operands.iter().any(|o| o.name == n);
        let dst_words = if has("dst") { width("dst") } else { 0 };
        let words = |s: &Plain, n: &str, least: usize| s.words(op(n), width(n).max(least));
        let mut out = |values: Vec<u32>| {
            let Operand::A(r, _) = op("dst") else {
                panic!()
            };
            assert_eq!(values.len(), dst_words, "{name}");
            for (i, v) in values.into_iter().enumerate() {
                w.a.push((r + i, v));
            }
        };
        match name {
            "setzi" => return out(vec![self.m(op("imm"))]),
            "uget" => return out(vec![self.get(self.m(op("imm")))]),
            "uput" => {
                let value = self.words(op("src0"), 1)[0];
                return self.put(self.m(op("csr")), value);
            }
            "f16v4mix" | "f32v2axpy" => {
                let values = self.scaled(d, name);
                return out(values);
            }
            "urand32" => {
                let bits = self.draw();
                return out(vec![bits as u32]);
            }
            "urand64" => {
                let bits = self.draw();
                return out(vec![bits as u32, (bits >> 32) as u32]);
            }
            "f16v2gina" | "f32v2gina" => {
                let group = self.m(op("imm")) as usize;
                let first = 16 * (group >> 1) + (group & 1);
                let read = [self.acc[first], self.acc[first + 2]];
                for i in 0..6 {
                    self.acc[first + 2 * i] = self.acc[first + 2 * i + 4];
                }
                let x = self.words(op("src0"), 2);
                let half = |i: u32| (widen((x[0] >> (16 * i)) as u16) as f32).to_bits();
                let wide = name == "f32v2gina";
                self.acc[first + 12] = if wide { x[0] } else { half(0) };
                self.acc[first + 14] = if wide { x[1] } else { half(1) };
                return out(if wide {
                    read.to_vec()
                } else {
                    vec![pack(read)]
                });
            }
            "f16v4gacc" => {
                let [a, b, c, e] = [0, 2, 4, 6].map(|i| self.acc[i]);
                return out(vec![pack([a, b]), pack([c, e])]);
            }
            "f16v4stacc" | "f16v4istacc" => {
                let store = name == "f16v4stacc";
                let flags = self.m(op(if store { "imm" } else { "flags" }));
                if store && flags == 0 {
                    let read = vec![self.acc[0], self.acc[2]];
                    for j in 0..6 {
                        self.acc[2 * j + 1] = self.acc[2 * j + 4];
                    }
                    return out(read);
                }
                let read = vec![self.acc[1], self.acc[3]];
                for j in (1..13).step_by(2) {
                    self.acc[j] = self.acc[j + 4];
                }
                self.acc[13] = 0;
                self.acc[15] = 0;
                if !store {
                    let (x, y) = (self.words(op("src0"), 2), self.words(op("src1"), 2));
                    for c in 0..4 {
                        let half = |v: &[u32]| v[c / 2] >> (16 * (c % 2)) & 0xffff;
                        self.acc[4 * c + 2 * flags as usize] = half(&x) | half(&y) << 16;
                    }
                }
                return out(read);
            }
            _ => {}
        }
        if name.ends_with("amp") && !name.contains("clamp") {
            return out(self.amp(d, name));
        }
        if name.ends_with("slic") {
            return out(self.slic(d, name));
        }
        let accumulates = ["absacc", "sqacc", "acc", "cmac", "mac", "aop"];
        if !has("dst") && accumulates.iter().any(|e| name.ends_with(e)) {
            return self.accumulate(d, name);
        }
        if !name.starts_with('f') {
            // Bitwise, on one word or two.
            let x = words(self, "src0", 1);
            let second = match (has("src1"), has("imm")) {
                (true, _) => words(self, "src1", 1),
                (_, true) => vec![self.m(op("imm"))],
                _ => vec![0; 2],
            };
            let pair = |n: &str| (0..2).map(|i| word(n, x[i], second[i])).collect();
            return out(match name {
                "and64" => pair("and"),
                "andc64" => pair("andc"),
                "or64" => pair("or"),
                "not64" => pair("not"),
                "roll32" => vec![x[1], second[0]],
                "sort4x32hi" => vec![x[1], second[1]],
                "sort4x32lo" => vec![x[0], second[0]],
                _ => vec![word(name, x[0], second[0])],
            });
        }
        let values = self.float(d, name, dst_words);
        out(values);
    }
}

fn word(name: &str, x: u32, y: u32) -> u32 {
    let b = |v: u32, i: u32| v >> (8 * i) & 255;
    let join = |v: [u32; 4]| v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24;
    match name {
        "abs" => (x as i32).unsigned_abs(),
        "bitrev8" => join([0, 1, 2, 3].map(|i| b(x, i).reverse_bits() >> 24)),
        "clz" => (0..32).rev().take_while(|i| x >> i & 1 == 0).count() as u32,
        "cms" => (0..31).rev().take_while(|i| x >> i & 1 == x >> 31).count() as u32,
        "popc" => (0..32).filter(|i| x >> i & 1 != 0).count() as u32,
        "not" => !x,
        "add" => (u64::from(x) + u64::from(y)) as u32,
        "sub" => (i64::from(x) - i64::from(y)) as u32,
        "mul" => (u64::from(x) * u64::from(y)) as u32,
        "and" => x & y,
        "andc" => x & !y,
        "or" => x | y,
        "xor" => x ^ y,
        "xnor" => !(x ^ y),
        "cmpeq" => u32::from(x == y),
        "cmpne" => u32::from(x != y),
        "cmpslt" => u32::from((x as i32) < y as i32),
        "cmpult" => u32::from(x < y),
        "max" => (x as i32).max(y as i32) as u32,
        "min" => (x as i32).min(y as i32) as u32,
        "shl" => (u64::from(x) << y.min(32)) as u32,
        "shr" => (u64::from(x) >> y.min(32)) as u32,
        "shrs" => (i64::from(x as i32) >> y.min(32)) as u32,
        "roll16" => (((u64::from(y) << 32) | u64::from(x)) >> 16) as u32,
        "roll8l" => (((u64::from(y) << 32) | u64::from(x)) >> 24) as u32,
        "roll8r" => (((u64::from(y) << 32) | u64::from(x)) >> 8) as u32,
        "sort4x16hi" => x >> 16 | (y >> 16) << 16,
        "sort4x16lo" => (x & 0xffff) | y << 16,
        "shuf8x8hi" => join([b(x, 2), b(y, 2), b(x, 3), b(y, 3)]),
        "shuf8x8lo" => join([b(x, 0), b(y, 0), b(x, 1), b(y, 1)]),
        "sort8x8hi" => join([b(x, 1), b(x, 3), b(y, 1), b(y, 3)]),
        "sort8x8lo" => join([b(x, 0), b(x, 2), b(y, 0), b(y, 2)]),
        "sort8" => join([b(x, 0), b(x, 2), b(x, 1), b(x, 3)]),
        "swap8" => join([b(x, 1), b(x, 0), b(x, 3), b(x, 2)]),
        other => panic!("no such operation: {other}"),
    }
}
