//! The AMP on f8 data, the slim convolutions, and the f32 AMP: exact and plain.

use ipu_isa::Opcode;

use super::AuxResult;
use super::accumulator::{narrow, pack, phase_of};
use super::amp::{UNITS, halves, push};
use super::numeric::{F8, Fp, from_f32, scale, scale_of};
use crate::code::Op;
use crate::context::{Accumulators, Weights, Worker};
use crate::fault::Reason;

/// One step with an f32 scalar; set 0 exchanges partials in even phases, set 1 in odd ones.
pub(crate) fn amp_f32(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    let (units, phase) = phase_of(op.imm, [8, 4, 3])?;
    let r = &worker.registers;
    let x = from_f32(r.a(op.r[1]));
    let partials = [r.a(op.r[2]), r.a(op.r[2] + 1)].map(f32::from_bits);
    let sets = if op.opcode == Opcode::F32sisov2amp {
        2
    } else {
        1
    };
    let acc = &mut worker.accumulators;
    let mut out = [0.0; 2];
    for set in 0..sets {
        let mut odd = acc.odd(set);
        let even = &mut acc.even[set];
        let start = if phase == 0 { odd } else { *even };
        if phase == 0 {
            odd[..units].copy_from_slice(&even[..units]);
        }
        for u in 0..units {
            let raw = weights.raw[4 * (UNITS * set + u) + phase / 2];
            let weight = from_f32((raw >> (32 * (phase & 1))) as u32);
            even[u] = narrow(&[f64::from(start[u]), x * weight], fp);
        }
        if phase % 2 == set {
            out = push(&mut odd, units, partials);
        }
        acc.set_odd(set, odd);
    }
    Ok(AuxResult::pair(op.r[0], out.map(f32::to_bits)))
}

/// Eight f8 values of a word.
fn eighths(word: u64, format: F8) -> [f64; 8] {
    word.to_le_bytes().map(|b| format.value(b))
}

/// The accumulator and eight scaled products, rounded once.
fn dot8(start: f32, x: &[f64; 8], w: &[f64; 8], exponent: i32, fp: &mut Fp) -> f32 {
    // Products are multiples of 2^-34 below 2^33, too wide a range for a sum in f64: their integral
    // parts and the rest add up exactly, each by itself. Signs of zeros are those of the products.
    let (mut high, mut low) = (-0.0, -0.0);
    for (x, w) in x.iter().zip(w) {
        let product = x * w;
        let whole = product.round_ties_even();
        high += whole;
        low += -(whole - product);
    }
    narrow(
        &[
            f64::from(start),
            scale(low, exponent),
            scale(high, exponent),
        ],
        fp,
    )
}

/// f8 data and weights, f16 partials: bit 0 of `$FP_NFMT` is the format of the weights, bit 1 that
/// of the data.
pub(crate) fn amp_f8(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    let (units, phase) = phase_of(op.imm, [4, 2, 1])?;
    let r = &worker.registers;
    let (weight, data) = formats(worker.fp_format);
    let x = eighths(r.a_pair(op.r[1]), data);
    let pin = halves(r.a_pair(op.r[2])).map(|p| p as f32);
    let exponent = scale_of(worker.fp_scale);
    let acc = &mut worker.accumulators;
    let mut out = [0.0; 4];
    for set in 0..2 {
        let mut odd = acc.odd(set);
        let even = &mut acc.even[set];
        let pin = [pin[2 * set], pin[2 * set + 1]];
        let start = if phase == 0 { odd } else { *even };
        if phase == 0 {
            odd[..units].copy_from_slice(&even[..units]);
        }
        out[2 * set..2 * set + 2].copy_from_slice(&push(&mut odd, units, pin));
        for u in 0..units {
            let w = eighths(weights.raw[4 * (UNITS * set + u) + phase], weight);
            even[u] = dot8(start[u], &x, &w, exponent, fp);
        }
        acc.set_odd(set, odd);
    }
    let words = [pack([out[0], out[1]], fp), pack([out[2], out[3]], fp)];
    Ok(AuxResult::pair(op.r[0], words))
}

/// The f8 formats of weights and of data.
pub(crate) fn formats(register: u32) -> (F8, F8) {
    (F8::of_bit(register), F8::of_bit(register >> 1))
}

/// First stage and weight slot of a flag.
fn chain_of(flags: u32, slots: u32) -> Result<(usize, usize), Reason> {
    let (code, slot) = (flags >> 4, flags & 15);
    if code > 1 || slot >= slots {
        return Err(Reason::InvalidOperand {
            operand: "SLIC flags",
            value: flags,
        });
    }
    Ok((code as usize, slot as usize))
}

/// The units of the two chains in the order of their stages.
const CHAINS: [[usize; 4]; 2] = [[6, 4, 2, 0], [7, 5, 3, 1]];

/// Moves both chains of a set one stage on, adding `term(unit, old)`; returns what leaves.
fn advance(
    acc: &mut Accumulators,
    set: usize,
    first: usize,
    partials: [f32; 2],
    mut term: impl FnMut(usize, f32) -> f32,
) -> [f32; 2] {
    let even = &mut acc.even[set];
    let out = [even[0], even[1]];
    for (chain, partial) in CHAINS.into_iter().zip(partials) {
        let stages = &chain[first..];
        for i in (0..stages.len()).rev() {
            let old = if i == 0 { partial } else { even[stages[i - 1]] };
            even[stages[i]] = term(stages[i], old);
        }
    }
    out
}

/// Slim convolutions on f16 data.
pub(crate) fn f16(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    let (first, slot) = chain_of(op.imm, 2)?;
    let r = &worker.registers;
    let x = halves(r.a_pair(op.r[1]));
    let raw = r.a_words(op.r[2]);
    let full_pin = [raw as u32, (raw >> 32) as u32].map(f32::from_bits);
    let half_pin = halves(raw).map(|p| p as f32);
    let w = &weights.f16[slot].values;
    let acc = &mut worker.accumulators;
    let half = op.opcode != Opcode::F16v4sisoslic;
    let sets = if op.opcode == Opcode::F16v4hihov4slic {
        2
    } else {
        1
    };
    let mut out = [0.0; 4];
    for set in 0..sets {
        let pin = match (half, set) {
            (false, _) => full_pin,
            (true, 0) => [half_pin[0], half_pin[1]],
            (true, _) => [half_pin[2], half_pin[3]],
        };
        let left = advance(acc, set, first, pin, |unit, old| {
            let [p0, p1, p2, p3] = [0, 1, 2, 3].map(|k: usize| x[k] * w[k][UNITS * set + unit]);
            narrow(&[f64::from(old), p0, p1, p2, p3], fp)
        });
        out[2 * set..2 * set + 2].copy_from_slice(&left);
    }
    let dst = op.r[0];
    Ok(match (half, sets) {
        (false, _) => AuxResult::pair(dst, [out[0], out[1]].map(f32::to_bits)),
        (true, 1) => AuxResult::one(dst, pack([out[0], out[1]], fp)),
        (true, _) => AuxResult::pair(
            dst,
            [pack([out[0], out[1]], fp), pack([out[2], out[3]], fp)],
        ),
    })
}

/// Slim convolutions on f8 data, both sets.
pub(crate) fn f8(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    let (first, slot) = chain_of(op.imm, 2)?;
    let r = &worker.registers;
    let (weight, data) = formats(worker.fp_format);
    let x = eighths(r.a_pair(op.r[1]), data);
    let pin = halves(r.a_pair(op.r[2])).map(|p| p as f32);
    let exponent = scale_of(worker.fp_scale);
    let acc = &mut worker.accumulators;
    let mut words = [0; 2];
    for set in 0..2 {
        let pin = [pin[2 * set], pin[2 * set + 1]];
        let left = advance(acc, set, first, pin, |unit, old| {
            let w = eighths(weights.raw[4 * (UNITS * set + unit) + slot], weight);
            dot8(old, &x, &w, exponent, fp)
        });
        words[set] = pack(left, fp);
    }
    Ok(AuxResult::pair(op.r[0], words))
}

/// Slim convolutions on f32 data. An input takes two instructions: the lower element moves the
/// chains on, the upper one adds to them. Flags: slot 0 lower, slot 0 upper, slot 1 lower, upper.
/// Set 1 of the `v2` form gives and takes its partials with the upper element: what leaves waits
/// in the odd registers, what enters is added to the first stage.
pub(crate) fn f32(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    let (first, step) = chain_of(op.imm, 4)?;
    let (slot, upper) = (step >> 1, step & 1);
    let r = &worker.registers;
    let x = from_f32(r.a(op.r[1]));
    let pin = [r.a(op.r[2]), r.a(op.r[2] + 1)].map(f32::from_bits);
    let weight = |set: usize, unit: usize| {
        let raw = weights.raw[4 * (UNITS * set + unit) + slot];
        from_f32((raw >> (32 * upper)) as u32)
    };
    let sets = if op.opcode == Opcode::F32sisov2slic {
        2
    } else {
        1
    };
    let acc = &mut worker.accumulators;
    let mut out = [0.0; 2];
    for set in 0..sets {
        if upper == 0 {
            let enter = if set == 0 { pin } else { [0.0; 2] };
            let left = advance(acc, set, first, enter, |unit, old| {
                narrow(&[f64::from(old), x * weight(set, unit)], fp)
            });
            if set == 0 {
                out = left;
            } else {
                acc.set(17, left[0]);
                acc.set(19, left[1]);
            }
            continue;
        }
        for (chain, partial) in CHAINS.into_iter().zip(pin) {
            for (i, unit) in chain[first..].iter().copied().enumerate() {
                let enter = if i == 0 && set == 1 { partial } else { 0.0 };
                let even = &mut acc.even[set][unit];
                let product = x * weight(set, unit);
                *even = if i == 0 && set == 1 {
                    narrow(&[f64::from(*even), product, f64::from(enter)], fp)
                } else {
                    narrow(&[f64::from(*even), product], fp)
                };
            }
        }
        if set == 1 {
            out = [acc.get(17), acc.get(19)];
        }
    }
    Ok(AuxResult::pair(op.r[0], out.map(f32::to_bits)))
}
