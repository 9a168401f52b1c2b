//! Everything that adds to accumulators.

use super::arithmetic::{canonical32, eighth, sum, sum_to_f32, widen};
use super::floats::pack;
use super::{Plain, operand};
use ipu_isa::Decoded;

impl Plain {
    /// Instructions without a result.
    pub(super) fn accumulate(&mut self, d: &Decoded, name: &str) {
        let op = |n: &str| operand(d, n);
        let x = self.words(op("src0"), 4);
        let half = |v: &[u32], i: usize| widen((v[i / 2] >> (16 * (i % 2))) as u16);
        let single = |v: u32| f32::from_bits(v);
        let acc = &mut self.acc;
        let finite = |v: f64| if v.is_infinite() { f64::NAN } else { v };
        match name {
            "f16v4acc" | "f16v8acc" | "f16v4absacc" | "f16v8absacc" => {
                let count = if name.contains("v8") { 8 } else { 4 };
                for i in 0..count {
                    let v = finite(half(&x, i)) as f32;
                    let v = if name.contains("abs") { v.abs() } else { v };
                    acc[2 * i] = canonical32(single(acc[2 * i]) + v);
                }
            }
            "f32v4acc" | "f32v4absacc" => {
                for i in 0..4 {
                    let v = single(x[i]);
                    let v = if name.contains("abs") { v.abs() } else { v };
                    acc[2 * i] = canonical32(single(acc[2 * i]) + v);
                }
            }
            "f32v4sqacc" => {
                for i in 0..4 {
                    let v = single(x[i]);
                    acc[2 * i] = canonical32(v.mul_add(v, single(acc[2 * i])));
                }
            }
            "f16v8sqacc" => {
                for i in 0..8 {
                    let v = half(&x, i) as f32;
                    acc[2 * i] = canonical32(v.mul_add(v, single(acc[2 * i])));
                }
            }
            "f32mac" | "f32v2mac" => {
                let y = self.words(op("src1"), 2);
                for i in 0..if name == "f32mac" { 1 } else { 2 } {
                    let v = single(x[i]).mul_add(single(y[i]), single(self.acc[2 * i]));
                    self.acc[2 * i] = canonical32(v);
                }
            }
            "f16v2cmac" | "f16v4cmac" => {
                let y = self.words(op("src1"), 2);
                for i in 0..if name == "f16v2cmac" { 1 } else { 2 } {
                    let products = [0, 1].map(|k| half(&x, 2 * i + k) * half(&y, 2 * i + k));
                    self.acc[2 * i] = sum_to_f32(self.acc[2 * i], &products);
                }
            }
            "f32v2aop" => {
                let (y, first) = (self.words(op("src1"), 2), 8 * self.m(op("imm")) as usize);
                for i in 0..4 {
                    let (a, b) = (single(x[i % 2]), single(y[i / 2]));
                    let at = &mut self.acc[first + 2 * i];
                    *at = canonical32(a.mul_add(b, single(*at)));
                }
            }
            other => panic!("{other}"),
        }
    }

    pub(super) fn amp(&mut self, d: &Decoded, name: &str) -> Vec<u32> {
        let op = |n: &str| operand(d, n);
        let flags = self.m(op("flags")) as usize;
        let (units, phase) = (8 >> (flags >> 4), flags & 15);
        let pin = self.words(op("src1"), 2);
        let single = name.starts_with("f32");
        let (sets, half_partials) = match name {
            "f16v4hihov4amp" | "f8v8hihov4amp" => (2, true),
            "f16v4hihoamp" => (1, true),
            "f32sisov2amp" => (2, false),
            _ => (1, false),
        };
        let x = self.words(op("src0"), 2);
        let mut out = Vec::new();
        for set in 0..sets {
            let at = |u: usize, odd: usize| 16 * set + 2 * u + odd;
            let even: Vec<u32> = (0..units).map(|u| self.acc[at(u, 0)]).collect();
            let mut odd: Vec<u32> = (0..units).map(|u| self.acc[at(u, 1)]).collect();
            let start = if phase == 0 {
                odd.clone()
            } else {
                even.clone()
            };
            if phase == 0 {
                odd = even;
            }
            if !single || phase % 2 == set {
                let partials: Vec<u32> = if half_partials {
                    [0, 16]
                        .map(|s| (widen((pin[set] >> s) as u16) as f32).to_bits())
                        .to_vec()
                } else {
                    pin.clone()
                };
                out.extend(odd.drain(..2));
                odd.extend(partials);
            }
            for u in 0..units {
                let products = self.products(name, &x, 8 * set + u, phase);
                self.acc[at(u, 0)] = sum_to_f32(start[u], &products);
                self.acc[at(u, 1)] = odd[u];
            }
        }
        if half_partials {
            out.chunks(2).map(|c| pack([c[0], c[1]])).collect()
        } else {
            out.resize(2, 0);
            out
        }
    }

    /// Products of an input with a weight: the four or eight of a slot, or the one of a phase.
    fn products(&self, name: &str, x: &[u32], unit: usize, phase: usize) -> Vec<f64> {
        if name.starts_with("f32") {
            let raw = self.weights[4 * unit + phase / 2] >> (32 * (phase % 2));
            let weight = f32::from_bits(raw as u32);
            return vec![f64::from(f32::from_bits(x[0])) * f64::from(weight)];
        }
        let raw = self.weights[4 * unit + phase];
        let data = u64::from(x[0]) | u64::from(x[1]) << 32;
        if name.starts_with("f8") {
            let (weights, inputs) = (self.formats & 1, self.formats >> 1 & 1);
            let product = |k: usize| {
                let w = eighth(raw.to_le_bytes()[k], weights);
                eighth(data.to_le_bytes()[k], inputs) * w * self.power()
            };
            return (0..8).map(product).collect();
        }
        let half = |v: u64, k: usize| widen((v >> (16 * k)) as u16);
        (0..4).map(|k| half(data, k) * half(raw, k)).collect()
    }

    /// Slim convolutions: partial 0 enters the chain of units 6, 4, 2, 0, partial 1 that of 7, 5,
    /// 3, 1; three stages start one unit later.
    pub(super) fn slic(&mut self, d: &Decoded, name: &str) -> Vec<u32> {
        let op = |n: &str| operand(d, n);
        let flags = self.m(op("flags")) as usize;
        let (first, slot) = (flags >> 4, flags & 15);
        let (x, pin) = (self.words(op("src0"), 2), self.words(op("src1"), 2));
        let sets = if name.contains("v4slic") || name.contains("v2slic") {
            2
        } else {
            1
        };
        let single = name.starts_with("f32");
        let wide = single || name == "f16v4sisoslic";
        let mut out = Vec::new();
        for set in 0..sets {
            // The set gives and takes partials with this element of an f32 input.
            let takes = !single || slot % 2 == set;
            let moves = !single || slot % 2 == 0;
            for chain in 0..2 {
                let partial = match (takes, wide) {
                    (false, _) => 0,
                    (_, true) => pin[chain],
                    _ => (widen((pin[set] >> (16 * chain)) as u16) as f32).to_bits(),
                };
                let stages: Vec<usize> = [6, 4, 2, 0][first..].iter().map(|u| u + chain).collect();
                let at = |u: usize| 16 * set + 2 * u;
                let old: Vec<u32> = stages.iter().map(|&u| self.acc[at(u)]).collect();
                // What leaves set 1 of the f32 form waits until the upper element.
                let waits = 17 + 2 * chain;
                let leaves = self.acc[at(chain)];
                match (takes, moves) {
                    (true, true) => out.push(leaves),
                    (true, false) => out.push(self.acc[waits]),
                    (false, true) => self.acc[waits] = leaves,
                    (false, false) => {}
                }
                for (i, &u) in stages.iter().enumerate() {
                    let mut terms = self.products(name, &x, 8 * set + u, slot);
                    let start = match (moves, i) {
                        (true, 0) => partial,
                        (true, _) => old[i - 1],
                        (false, _) => old[i],
                    };
                    if !moves && takes && i == 0 {
                        terms.push(f64::from(f32::from_bits(partial)));
                    }
                    self.acc[at(u)] = sum_to_f32(start, &terms);
                }
            }
        }
        if wide {
            out.resize(2, 0);
            out
        } else {
            out.chunks(2).map(|c| pack([c[0], c[1]])).collect()
        }
    }

    /// `mix` and `axpy`: the old accumulators leave, scaled sums enter.
    pub(super) fn scaled(&mut self, d: &Decoded, name: &str) -> Vec<u32> {
        let x = self.words(
            operand(d, if name == "f16v4mix" { "src0" } else { "src1" }),
            2,
        );
        let y = self.words(
            operand(d, if name == "f16v4mix" { "src1" } else { "src0" }),
            2,
        );
        let old = [0, 2, 4, 6].map(|i| self.acc[i]);
        let half = |v: &[u32], i: usize| widen((v[i / 2] >> (16 * (i % 2))) as u16);
        if name == "f16v4mix" {
            let [a, b] = [half(&[self.tas], 0), half(&[self.tas], 1)];
            for i in 0..4 {
                self.acc[2 * i] = sum(&[a * half(&x, i), b * half(&y, i)]);
            }
            return vec![pack([old[0], old[1]]), pack([old[2], old[3]])];
        }
        for i in 0..2 {
            let [a, x, y] = [self.tas, x[i], y[i]].map(f32::from_bits);
            self.acc[2 * i] = canonical32(a.mul_add(x, y));
        }
        old[..2].to_vec()
    }
}
