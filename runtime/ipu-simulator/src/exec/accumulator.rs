//! Everything that touches the accumulators, apart from the AMP itself.

use ipu_isa::Opcode;

use super::amp::{self, UNITS, push};
use super::numeric::{Fp, from_f16, from_f32, sum};
use super::{AuxResult, not_implemented, slic};
use crate::code::{AuxRun, Op};
use crate::context::{Weights, Worker};
use crate::fault::Reason;

/// Engines and phase of an AMP flag: `(units of a set, phase)`.
pub(crate) fn phase_of(flags: u32, phases: [u32; 3]) -> Result<(usize, usize), Reason> {
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
    amp::halves(u64::from(low) | u64::from(high) << 32)
}

/// The executor of an instruction of this family. Flags of `fp` are left to the caller.
pub(crate) fn executor(opcode: Opcode, flags: u32) -> AuxRun {
    use Opcode as O;
    // Engine code 0 and a phase below 4.
    let all_engines = flags < 4;
    match opcode {
        O::F16v4hihov4amp if all_engines => amp::executor(true),
        O::F16v4sisoamp if all_engines => amp::executor(false),
        O::F16v4hihov4amp => |op, w, c, fp| amp::general(op, w, c, fp, (2, true)),
        O::F16v4hihoamp => |op, w, c, fp| amp::general(op, w, c, fp, (1, true)),
        O::F16v4sisoamp => |op, w, c, fp| amp::general(op, w, c, fp, (1, false)),
        O::F32sisoamp | O::F32sisov2amp => slic::amp_f32,
        O::F8v8hihov4amp => slic::amp_f8,
        O::F16v4hihoslic | O::F16v4hihov4slic | O::F16v4sisoslic => slic::f16,
        O::F8v8hihov4slic => slic::f8,
        O::F32sisoslic | O::F32sisov2slic => slic::f32,
        _ => execute,
    }
}

fn execute(op: &Op, worker: &mut Worker, _: &Weights, fp: &mut Fp) -> Result<AuxResult, Reason> {
    use Opcode as O;
    let (dst, r) = (op.r[0], &worker.registers);
    match op.opcode {
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
pub(crate) fn pack(values: [f32; 2], fp: &mut Fp) -> u32 {
    let [low, high] = values;
    let low = u32::from(fp.narrow16(f64::from(low)));
    low | u32::from(fp.narrow16(f64::from(high))) << 16
}

/// An exact sum of f64 terms, rounded once to f32.
pub(crate) fn narrow(terms: &[f64], fp: &mut Fp) -> f32 {
    let value = sum(terms);
    fp.check_invalid(value, terms.iter().any(|t| t.is_nan()));
    f32::from_bits(fp.narrow32(value))
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
    let out = if op.imm & 1 == 0 {
        push(&mut acc.even[set], UNITS, incoming)
    } else {
        acc.push(set, incoming)
    };
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
        out = acc.push(0, [0.0; 2]);
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
