//! The AMP and everything else that touches the accumulators.

use ipu_isa::Opcode;

use super::numeric::{Fp, Round, Span, from_f16, from_f32, sum, to_odd, two_sum};
use super::{AuxResult, not_implemented};
use crate::code::Op;
use crate::context::{Accumulators, HalfSlot, Weights, Worker};
use crate::fault::Reason;

/// Units of one AMP set.
const UNITS: usize = 8;

/// Engines and phase of an AMP flag: `(units of a set, phase)`.
fn phase_of(flags: u32, phases: [u32; 3]) -> Result<(usize, usize), Reason> {
    let (code, phase) = (flags >> 4, flags & 15);
    let limit = phases.get(code as usize).copied().unwrap_or(0);
    if phase >= limit {
        return Err(Reason::InvalidOperand {
            operand: "AMP flags",
            value: flags,
        });
    }
    Ok((UNITS >> code, phase as usize))
}

/// The four halves of a pair.
#[inline]
fn halves(low: u32, high: u32) -> [f64; 4] {
    let h = |word: u32| from_f16(word as u16);
    [h(low), h(low >> 16), h(high), h(high >> 16)]
}

/// Moves two partials in at the end of a chain; returns the two that leave.
#[inline]
fn push(chain: &mut [f32; UNITS], units: usize, partials: [f32; 2]) -> [f32; 2] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *chain;
    let [p0, p1] = partials;
    if units == UNITS {
        *chain = [c2, c3, c4, c5, c6, c7, p0, p1];
    } else {
        chain.copy_within(2..units, 0);
        chain[units - 2] = p0;
        chain[units - 1] = p1;
    }
    [c0, c1]
}

/// Replaces the units that take part.
#[inline]
fn assign(chain: &mut [f32; UNITS], values: &[f32; UNITS], units: usize) {
    if units == UNITS {
        *chain = *values;
    } else {
        chain[..units].copy_from_slice(&values[..units]);
    }
}

/// Executes an instruction of this family. The flags of `fp` are left to the caller.
#[inline]
pub(crate) fn execute(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    use Opcode as O;
    let (dst, r) = (op.r[0], &worker.registers);
    match op.opcode {
        O::F16v4hihov4amp | O::F16v4hihoamp | O::F16v4sisoamp => {
            let phase = phase_of(op.imm, [4, 2, 1])?;
            let slot = &weights.f16[phase.1];
            let x = Input::new(r.a(op.r[1]), r.a(op.r[1] + 1), slot, fp);
            let raw = [r.a(op.r[2]), r.a(op.r[2] + 1)];
            let acc = &mut worker.accumulators;
            if op.opcode == O::F16v4sisoamp {
                let pin = raw.map(f32::from_bits);
                let out = amp_f16(acc, 0, phase, &x, pin, slot, fp);
                return Ok(AuxResult::pair(dst, out.map(f32::to_bits)));
            }
            let pin = halves(raw[0], raw[1]);
            let pin = [pin[0] as f32, pin[1] as f32, pin[2] as f32, pin[3] as f32];
            let out = amp_f16(acc, 0, phase, &x, [pin[0], pin[1]], slot, fp);
            let lower = pack(out, fp);
            if op.opcode == O::F16v4hihoamp {
                return Ok(AuxResult::one(dst, lower));
            }
            let out = amp_f16(acc, 1, phase, &x, [pin[2], pin[3]], slot, fp);
            Ok(AuxResult::pair(dst, [lower, pack(out, fp)]))
        }
        O::F32sisoamp | O::F32sisov2amp => {
            let (units, phase) = phase_of(op.imm, [8, 4, 3])?;
            let x = from_f32(r.a(op.r[1]));
            let pin = [r.a(op.r[2]), r.a(op.r[2] + 1)].map(f32::from_bits);
            let sets = if op.opcode == O::F32sisov2amp { 2 } else { 1 };
            let acc = &mut worker.accumulators;
            let out = amp_f32(acc, sets, units, phase, x, pin, weights, fp);
            Ok(AuxResult::pair(dst, out.map(f32::to_bits)))
        }
        O::F16v2gina | O::F32v2gina => gina(op, worker, fp),
        O::F16v4istacc | O::F16v4stacc => transpose(op, worker),
        O::F16v4gacc => {
            let acc = &worker.accumulators;
            let low = pack([acc.get(0), acc.get(2)], fp);
            Ok(AuxResult::pair(
                dst,
                [low, pack([acc.get(4), acc.get(6)], fp)],
            ))
        }
        O::F32v2axpy => {
            let acc = &mut worker.accumulators;
            let old = [acc.get(0), acc.get(2)];
            let scale = from_f32(worker.tas);
            for (i, at) in [0, 2].into_iter().enumerate() {
                let x = from_f32(r.a(op.r[1] + i as u8));
                let y = from_f32(r.a(op.r[2] + i as u8));
                acc.set(at, narrow(&[scale * x, y], fp));
            }
            Ok(AuxResult::pair(dst, old.map(f32::to_bits)))
        }
        O::F16v4mix => {
            let x = halves(r.a(op.r[1]), r.a(op.r[1] + 1));
            let y = halves(r.a(op.r[2]), r.a(op.r[2] + 1));
            let [a, b, ..] = halves(worker.tas, 0);
            let acc = &mut worker.accumulators;
            let low = pack([acc.get(0), acc.get(2)], fp);
            let high = pack([acc.get(4), acc.get(6)], fp);
            for i in 0..4 {
                acc.set(2 * i, narrow(&[a * x[i], b * y[i]], fp));
            }
            Ok(AuxResult::pair(dst, [low, high]))
        }
        _ => accumulate(op, worker, fp),
    }
}

/// Rounds two f32 to f16 halves of a word.
#[inline]
fn pack(values: [f32; 2], fp: &mut Fp) -> u32 {
    let [low, high] = values;
    let low = u32::from(fp.narrow16(f64::from(low)));
    low | u32::from(fp.narrow16(f64::from(high))) << 16
}

/// An exact sum of f64 terms, rounded once to f32.
fn narrow(terms: &[f64], fp: &mut Fp) -> f32 {
    let value = sum(terms);
    fp.check_invalid(value, terms.iter().any(|t| t.is_nan()));
    f32::from_bits(fp.narrow32(value))
}

/// The four f16 inputs of a step.
struct Input {
    values: [f64; 4],
    /// Whether all sums of their products with the weights are exact.
    exact: bool,
}

impl Input {
    #[inline]
    fn new(low: u32, high: u32, slot: &HalfSlot, fp: &Fp) -> Input {
        let bits = [
            low as u16,
            (low >> 16) as u16,
            high as u16,
            (high >> 16) as u16,
        ];
        Input {
            values: halves(low, high),
            exact: fp.round == Round::Nearest && Span::of_halves(bits).four_products_fit(slot.span),
        }
    }
}

/// One step of one set with f16 data; returns the two results that leave.
fn amp_f16(
    acc: &mut Accumulators,
    set: usize,
    (units, phase): (usize, usize),
    x: &Input,
    partials: [f32; 2],
    slot: &HalfSlot,
    fp: &mut Fp,
) -> [f32; 2] {
    let (even, odd) = (&mut acc.even[set], &mut acc.odd[set]);
    let (start, out);
    if phase == 0 {
        start = *odd;
        let mut chain = *even;
        out = push(&mut chain, units, partials);
        assign(odd, &chain, units);
    } else {
        start = *even;
        out = push(odd, units, partials);
    }
    let w = slot.values.each_ref().map(|row| {
        let (low, high) = row.as_chunks::<UNITS>().0.split_at(1);
        if set == 0 { &low[0] } else { &high[0] }
    });
    let x = (&x.values, x.exact);
    let next = step(&start, x.0, &w, x.1).unwrap_or_else(|| {
        std::array::from_fn(|u| {
            let [p0, p1, p2, p3] = [0, 1, 2, 3].map(|k: usize| x.0[k] * w[k][u]);
            if u < units {
                narrow(&[f64::from(start[u]), p0, p1, p2, p3], fp)
            } else {
                0.0
            }
        })
    });
    assign(even, &next, units);
    out
}

/// The dot products of all units added to `start`, or nothing when a product sum may be inexact
/// or a result is not finite.
#[inline]
fn step(
    start: &[f32; UNITS],
    x: &[f64; 4],
    w: &[&[f64; UNITS]; 4],
    exact: bool,
) -> Option<[f32; UNITS]> {
    if !exact {
        return None;
    }
    let (mut total, mut lost) = ([0.0; UNITS], [0.0; UNITS]);
    for u in 0..UNITS {
        let products = (x[0] * w[0][u] + x[1] * w[1][u]) + (x[2] * w[2][u] + x[3] * w[3][u]);
        (total[u], lost[u]) = two_sum(f64::from(start[u]), products);
    }
    let mut next = [0.0; UNITS];
    for u in 0..UNITS {
        next[u] = total[u] as f32;
    }
    if lost.iter().fold(false, |any, &l| any | (l != 0.0)) {
        for u in 0..UNITS {
            next[u] = to_odd(total[u], lost[u]) as f32;
        }
    }
    let finite = next.iter().fold(true, |all, r| all & r.is_finite());
    finite.then_some(next)
}

/// One step with an f32 scalar; set 0 exchanges partials in even phases, set 1 in odd ones.
#[allow(clippy::too_many_arguments)]
fn amp_f32(
    acc: &mut Accumulators,
    sets: usize,
    units: usize,
    phase: usize,
    x: f64,
    partials: [f32; 2],
    weights: &Weights,
    fp: &mut Fp,
) -> [f32; 2] {
    let mut out = [0.0; 2];
    for set in 0..sets {
        let (even, odd) = (&mut acc.even[set], &mut acc.odd[set]);
        let start = if phase == 0 { *odd } else { *even };
        if phase == 0 {
            odd[..units].copy_from_slice(&even[..units]);
        }
        for u in 0..units {
            let raw = weights.raw[4 * (8 * set + u) + phase / 2];
            let weight = from_f32((raw >> (32 * (phase & 1))) as u32);
            let product = x * weight;
            even[u] = narrow(&[f64::from(start[u]), product], fp);
        }
        if phase % 2 == set {
            out = push(odd, units, partials);
        }
    }
    out
}

/// Reads two accumulators of a group, shifts the group and fills its end.
fn gina(op: &Op, worker: &mut Worker, fp: &mut Fp) -> Result<AuxResult, Reason> {
    let set = (op.imm >> 1) as usize;
    if set > 1 {
        return Err(Reason::InvalidOperand {
            operand: "gina group",
            value: op.imm,
        });
    }
    let wide = op.opcode == Opcode::F32v2gina;
    let low = worker.registers.a(op.r[1]);
    let incoming = if wide {
        [low, worker.registers.a(op.r[1] + 1)].map(f32::from_bits)
    } else {
        [low, low >> 16].map(|h| from_f16(h as u16) as f32)
    };
    let acc = &mut worker.accumulators;
    let chain = if op.imm & 1 == 0 {
        &mut acc.even[set]
    } else {
        &mut acc.odd[set]
    };
    let out = push(chain, UNITS, incoming);
    Ok(if wide {
        AuxResult::pair(op.r[0], out.map(f32::to_bits))
    } else {
        AuxResult::one(op.r[0], pack(out, fp))
    })
}

/// The 4x4 transpose through the accumulators, on raw words.
fn transpose(op: &Op, worker: &mut Worker) -> Result<AuxResult, Reason> {
    let flags = op.imm;
    if flags > 1 {
        return Err(Reason::InvalidOperand {
            operand: "transpose flags",
            value: flags,
        });
    }
    let acc = &mut worker.accumulators;
    let store = op.opcode == Opcode::F16v4stacc;
    let out;
    if store && flags == 0 {
        out = [acc.get(0), acc.get(2)];
        for j in 0..6 {
            acc.set(2 * j + 1, acc.get(2 * j + 4));
        }
    } else {
        out = push(&mut acc.odd[0], UNITS, [0.0; 2]);
    }
    if !store {
        let r = &worker.registers;
        let words = |i: usize| u64::from(r.a(op.r[i])) | u64::from(r.a(op.r[i] + 1)) << 32;
        let (x, y) = (words(1), words(2));
        for c in 0..4 {
            let half = |v: u64| (v >> (16 * c)) as u32 & 0xffff;
            let word = half(x) | half(y) << 16;
            acc.set(4 * c + 2 * flags as usize, f32::from_bits(word));
        }
    }
    Ok(AuxResult::pair(op.r[0], out.map(f32::to_bits)))
}

/// Instructions without a result that add to `AACC[0, 2, 4, ..]`.
fn accumulate(op: &Op, worker: &mut Worker, fp: &mut Fp) -> Result<AuxResult, Reason> {
    use Opcode as O;
    // These have no destination: operand 0 is the first source.
    let r = &worker.registers;
    let word = |i: usize, k: u8| r.a(op.r[i] + k);
    let x: [f64; 8] = match op.opcode {
        O::F32v4acc | O::F32v4absacc | O::F32v4sqacc | O::F32mac | O::F32v2mac | O::F32v2aop => {
            let mut x = [0.0; 8];
            for k in 0..4 {
                x[usize::from(k)] = from_f32(word(0, k));
            }
            x
        }
        _ => {
            let (low, high) = (
                halves(word(0, 0), word(0, 1)),
                halves(word(0, 2), word(0, 3)),
            );
            [
                low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3],
            ]
        }
    };
    let acc = &mut worker.accumulators;
    let mut add = |at: usize, terms: &[f64]| {
        let mut all = [f64::from(acc.get(at)), 0.0, 0.0];
        all[1..=terms.len()].copy_from_slice(terms);
        acc.set(at, narrow(&all[..=terms.len()], fp));
    };
    // An f16 infinity enters `acc` and `absacc` as a NaN.
    let finite = |x: f64| if x.is_infinite() { f64::NAN } else { x };
    match op.opcode {
        O::F16v4acc => (0..4).for_each(|i| add(2 * i, &[finite(x[i])])),
        O::F16v8acc => (0..8).for_each(|i| add(2 * i, &[finite(x[i])])),
        O::F32v4acc => (0..4).for_each(|i| add(2 * i, &[x[i]])),
        O::F16v4absacc => (0..4).for_each(|i| add(2 * i, &[finite(x[i]).abs()])),
        O::F16v8absacc => (0..8).for_each(|i| add(2 * i, &[finite(x[i]).abs()])),
        O::F32v4absacc => (0..4).for_each(|i| add(2 * i, &[x[i].abs()])),
        O::F16v8sqacc => (0..8).for_each(|i| add(2 * i, &[x[i] * x[i]])),
        O::F32v4sqacc => (0..4).for_each(|i| add(2 * i, &[x[i] * x[i]])),
        O::F16v2cmac | O::F16v4cmac => {
            let y = halves(word(1, 0), word(1, 1));
            add(0, &[x[0] * y[0], x[1] * y[1]]);
            if op.opcode == O::F16v4cmac {
                add(2, &[x[2] * y[2], x[3] * y[3]]);
            }
        }
        O::F32mac => add(0, &[x[0] * from_f32(word(1, 0))]),
        O::F32v2mac => {
            add(0, &[x[0] * from_f32(word(1, 0))]);
            add(2, &[x[1] * from_f32(word(1, 1))]);
        }
        O::F32v2aop => {
            let group = op.imm as usize;
            if group > 3 {
                return Err(Reason::InvalidOperand {
                    operand: "outer product group",
                    value: op.imm,
                });
            }
            let y = [from_f32(word(1, 0)), from_f32(word(1, 1))];
            for (j, i) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                add(8 * group + 4 * j + 2 * i, &[x[i] * y[j]]);
            }
        }
        _ => return Err(not_implemented(op.opcode)),
    }
    Ok(AuxResult::default())
}
