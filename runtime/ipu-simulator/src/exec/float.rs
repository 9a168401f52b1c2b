//! Floating point without accumulators, and the upper control registers of a worker.

use ipu_isa::{Broadcast, Opcode};

use super::amp::pack_plain;
use super::numeric::{
    Fp, Round, add, f32_of_half, from_f16, from_f32, round_integral, scale, scale_of,
};
use super::slic::formats;
use super::{AuxResult, not_implemented};
use crate::code::{AuxRun, Op};
use crate::context::{Accumulators, Prng, Registers, Worker};
use crate::csr;
use crate::fault::Reason;

/// Element type and count of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Half2,
    Half4,
    Single,
    Single2,
}

/// A function of two elements.
#[derive(Clone, Copy)]
enum Binary {
    Add,
    Sub,
    Mul,
    AbsAdd,
    Max,
    Min,
    AbsMax,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A function of one element.
#[derive(Clone, Copy)]
enum Unary {
    Exp,
    Exp2,
    Ln,
    Log2,
    Tanh,
    Sigmoid,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
}

fn binary(opcode: Opcode) -> Option<(Shape, Binary)> {
    use Binary as B;
    use Opcode as O;
    use Shape::{Half2, Half4, Single, Single2};
    Some(match opcode {
        O::F16v2add => (Half2, B::Add),
        O::F16v4add => (Half4, B::Add),
        O::F32add => (Single, B::Add),
        O::F32v2add => (Single2, B::Add),
        O::F16v2sub => (Half2, B::Sub),
        O::F16v4sub => (Half4, B::Sub),
        O::F32sub => (Single, B::Sub),
        O::F32v2sub => (Single2, B::Sub),
        O::F16v2mul => (Half2, B::Mul),
        O::F16v4mul => (Half4, B::Mul),
        O::F32mul => (Single, B::Mul),
        O::F32v2mul => (Single2, B::Mul),
        O::F16v2absadd => (Half2, B::AbsAdd),
        O::F16v4absadd => (Half4, B::AbsAdd),
        O::F32absadd => (Single, B::AbsAdd),
        O::F32v2absadd => (Single2, B::AbsAdd),
        O::F16v2max => (Half2, B::Max),
        O::F16v4max => (Half4, B::Max),
        O::F32max => (Single, B::Max),
        O::F32v2max => (Single2, B::Max),
        O::F16v2min => (Half2, B::Min),
        O::F16v4min => (Half4, B::Min),
        O::F32min => (Single, B::Min),
        O::F32v2min => (Single2, B::Min),
        O::F16v2absmax => (Half2, B::AbsMax),
        O::F16v4absmax => (Half4, B::AbsMax),
        O::F32absmax => (Single, B::AbsMax),
        O::F32v2absmax => (Single2, B::AbsMax),
        O::F16v2cmpeq => (Half2, B::Equal),
        O::F16v4cmpeq => (Half4, B::Equal),
        O::F32cmpeq => (Single, B::Equal),
        O::F32v2cmpeq => (Single2, B::Equal),
        O::F16v2cmpne => (Half2, B::NotEqual),
        O::F16v4cmpne => (Half4, B::NotEqual),
        O::F32cmpne => (Single, B::NotEqual),
        O::F32v2cmpne => (Single2, B::NotEqual),
        O::F16v2cmplt => (Half2, B::Less),
        O::F16v4cmplt => (Half4, B::Less),
        O::F32cmplt => (Single, B::Less),
        O::F32v2cmplt => (Single2, B::Less),
        O::F16v2cmple => (Half2, B::LessEqual),
        O::F16v4cmple => (Half4, B::LessEqual),
        O::F32cmple => (Single, B::LessEqual),
        O::F32v2cmple => (Single2, B::LessEqual),
        O::F16v2cmpgt => (Half2, B::Greater),
        O::F16v4cmpgt => (Half4, B::Greater),
        O::F32cmpgt => (Single, B::Greater),
        O::F32v2cmpgt => (Single2, B::Greater),
        O::F16v2cmpge => (Half2, B::GreaterEqual),
        O::F16v4cmpge => (Half4, B::GreaterEqual),
        O::F32cmpge => (Single, B::GreaterEqual),
        O::F32v2cmpge => (Single2, B::GreaterEqual),
        _ => return None,
    })
}

fn unary(opcode: Opcode) -> Option<(Shape, Unary)> {
    use Opcode as O;
    use Shape::{Half2, Single};
    use Unary as U;
    Some(match opcode {
        O::F16v2exp => (Half2, U::Exp),
        O::F32exp => (Single, U::Exp),
        O::F16v2exp2 => (Half2, U::Exp2),
        O::F32exp2 => (Single, U::Exp2),
        O::F16v2ln => (Half2, U::Ln),
        O::F32ln => (Single, U::Ln),
        O::F16v2log2 => (Half2, U::Log2),
        O::F32log2 => (Single, U::Log2),
        O::F16v2tanh => (Half2, U::Tanh),
        O::F32tanh => (Single, U::Tanh),
        O::F16v2sigm => (Half2, U::Sigmoid),
        O::F32sigm => (Single, U::Sigmoid),
        O::F32sqrt => (Single, U::Sqrt),
        O::F32oox => (Single, U::Reciprocal),
        O::F32oorx => (Single, U::ReciprocalSqrt),
        _ => return None,
    })
}

/// The larger value; a NaN loses against a number, −0 against +0.
pub(crate) fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || x < y || x == y && x.is_sign_negative() {
        y
    } else {
        x
    }
}

/// The smaller value, as [`maximum`].
pub(crate) fn minimum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y < x || x == y && y.is_sign_negative() {
        y
    } else {
        x
    }
}

impl Binary {
    /// The result, or for comparisons the truth value in `Err`.
    #[inline(always)]
    fn apply(self, x: f64, y: f64, fp: &mut Fp) -> Result<f64, bool> {
        let value = match self {
            Binary::Add => add(x, y),
            Binary::Sub => add(x, -y),
            Binary::Mul => x * y,
            Binary::AbsAdd => add(x.abs(), y.abs()),
            Binary::Max => return Ok(maximum(x, y)),
            Binary::Min => return Ok(minimum(x, y)),
            Binary::AbsMax => return Ok(maximum(x.abs(), y.abs())),
            Binary::Equal => return Err(x == y),
            Binary::NotEqual => return Err(x != y),
            Binary::Less => return Err(x < y),
            Binary::LessEqual => return Err(x <= y),
            Binary::Greater => return Err(x > y),
            Binary::GreaterEqual => return Err(x >= y),
        };
        fp.check_invalid(value, x.is_nan() || y.is_nan());
        Ok(value)
    }
}

impl Unary {
    fn apply(self, x: f64, fp: &mut Fp) -> f64 {
        let value = match self {
            Unary::Exp => x.exp(),
            Unary::Exp2 => x.exp2(),
            Unary::Ln => x.ln(),
            Unary::Log2 => x.log2(),
            Unary::Tanh => x.tanh(),
            Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Unary::Sqrt => x.sqrt(),
            Unary::Reciprocal => 1.0 / x,
            Unary::ReciprocalSqrt => 1.0 / x.sqrt(),
        };
        fp.check_invalid(value, x.is_nan());
        let pole = matches!(
            self,
            Unary::Ln | Unary::Log2 | Unary::Reciprocal | Unary::ReciprocalSqrt
        );
        if pole && x == 0.0 {
            fp.flags |= csr::FLAG_DIV0;
        }
        value
    }
}

/// Half `i` of a register pair.
#[inline]
fn half_of(words: [u32; 2], i: usize) -> u16 {
    (words[i >> 1] >> (16 * (i & 1))) as u16
}

/// Operand `i` as two words, the broadcast of the first source applied.
#[inline]
fn source(op: &Op, registers: &Registers, i: usize, pair: bool) -> [u32; 2] {
    let r = op.r[i];
    let first = registers.a(r);
    let broadcast = if i == 1 {
        op.broadcast
    } else {
        Broadcast::None
    };
    match broadcast {
        Broadcast::None => [first, if pair { registers.a(r + 1) } else { 0 }],
        Broadcast::BL => [(first & 0xffff) * 0x1_0001; 2],
        Broadcast::BU => [(first >> 16) * 0x1_0001; 2],
        Broadcast::B => [first; 2],
    }
}

impl Shape {
    #[inline]
    fn pair(self) -> bool {
        matches!(self, Shape::Half4 | Shape::Single2)
    }

    /// Applies a function to every element; its result is a value or all ones / all zeros.
    #[inline(always)]
    fn map(
        self,
        x: [u32; 2],
        y: [u32; 2],
        fp: &mut Fp,
        f: impl Fn(f64, f64, &mut Fp) -> Result<f64, bool>,
    ) -> [u32; 2] {
        let mut out = [0; 2];
        let words = if self.pair() { 2 } else { 1 };
        match self {
            Shape::Half2 | Shape::Half4 => {
                for i in 0..2 * words {
                    let (a, b) = (from_f16(half_of(x, i)), from_f16(half_of(y, i)));
                    let h = match f(a, b, fp) {
                        Ok(value) => fp.narrow16(value),
                        Err(truth) => u16::from(truth).wrapping_neg(),
                    };
                    out[i >> 1] |= u32::from(h) << (16 * (i & 1));
                }
            }
            Shape::Single | Shape::Single2 => {
                for i in 0..words {
                    out[i] = match f(from_f32(x[i]), from_f32(y[i]), fp) {
                        Ok(value) => fp.narrow32(value),
                        Err(truth) => u32::from(truth).wrapping_neg(),
                    };
                }
            }
        }
        out
    }

    #[inline]
    fn result(self, first: u8, values: [u32; 2]) -> AuxResult {
        if self.pair() {
            AuxResult::pair(first, values)
        } else {
            AuxResult::one(first, values[0])
        }
    }
}

/// The executor of an instruction of this family. Flags of `fp` are left to the caller.
pub(crate) fn executor(opcode: Opcode) -> AuxRun {
    use Opcode as O;
    match opcode {
        O::F16v2add => |op, w, _, fp| halfwords::<2>(op, w, fp, |x, y| x + y),
        O::F16v2sub => |op, w, _, fp| halfwords::<2>(op, w, fp, |x, y| x - y),
        O::F16v2mul => |op, w, _, fp| halfwords::<2>(op, w, fp, |x, y| x * y),
        O::F16v4add => |op, w, _, fp| halfwords::<4>(op, w, fp, |x, y| x + y),
        O::F16v4sub => |op, w, _, fp| halfwords::<4>(op, w, fp, |x, y| x - y),
        O::F16v4mul => |op, w, _, fp| halfwords::<4>(op, w, fp, |x, y| x * y),
        O::F32add => |op, w, _, fp| single::<1>(op, w, fp, |x, y| x + y),
        O::F32sub => |op, w, _, fp| single::<1>(op, w, fp, |x, y| x - y),
        O::F32mul => |op, w, _, fp| single::<1>(op, w, fp, |x, y| x * y),
        O::F32v2add => |op, w, _, fp| single::<2>(op, w, fp, |x, y| x + y),
        O::F32v2sub => |op, w, _, fp| single::<2>(op, w, fp, |x, y| x - y),
        O::F32v2mul => |op, w, _, fp| single::<2>(op, w, fp, |x, y| x * y),
        _ if binary(opcode).is_some() || unary(opcode).is_some() => {
            |op, w, _, fp| execute(op, w, fp)
        }
        _ => |op, w, _, fp| others(op, w, fp),
    }
}

/// An f16 operation by way of f32, which has more than twice the digits: rounding twice is
/// rounding once. What is not a normal result goes the general way.
#[inline(always)]
fn halfwords<const N: usize>(
    op: &Op,
    worker: &mut Worker,
    fp: &mut Fp,
    f: impl Fn(f32, f32) -> f32,
) -> Result<AuxResult, Reason> {
    let r = &worker.registers;
    let x = source(op, r, 1, N == 4);
    let y = [r.a(op.r[2]), if N == 4 { r.a(op.r[2] + 1) } else { 0 }];
    let value = |w: [u32; 2], i: usize| f32_of_half(half_of(w, i));
    let out: [f32; N] = std::array::from_fn(|i| f(value(x, i), value(y, i)));
    match pack_plain(out, fp) {
        Some(word) if N == 4 => Ok(AuxResult::pair(op.r[0], [word as u32, (word >> 32) as u32])),
        Some(word) => Ok(AuxResult::one(op.r[0], word as u32)),
        None => execute(op, worker, fp),
    }
}

/// An f32 operation; what is not finite goes the general way.
#[inline(always)]
fn single<const N: usize>(
    op: &Op,
    worker: &mut Worker,
    fp: &mut Fp,
    f: impl Fn(f32, f32) -> f32,
) -> Result<AuxResult, Reason> {
    let r = &worker.registers;
    let x = source(op, r, 1, N == 2);
    let y = [r.a(op.r[2]), if N == 2 { r.a(op.r[2] + 1) } else { 0 }];
    let out: [f32; N] = std::array::from_fn(|i| f(f32::from_bits(x[i]), f32::from_bits(y[i])));
    if fp.round != Round::Nearest || !out.iter().fold(true, |all, v| all & v.is_finite()) {
        return execute(op, worker, fp);
    }
    let last = out[N - 1].to_bits();
    Ok(if N == 2 {
        AuxResult::pair(op.r[0], [out[0].to_bits(), last])
    } else {
        AuxResult::one(op.r[0], last)
    })
}

/// Elementwise and transcendental operations.
fn execute(op: &Op, worker: &mut Worker, fp: &mut Fp) -> Result<AuxResult, Reason> {
    let registers = &worker.registers;
    if let Some((shape, f)) = binary(op.opcode) {
        let x = source(op, registers, 1, shape.pair());
        let y = source(op, registers, 2, shape.pair());
        // The common ones get loops of their own.
        let out = match f {
            Binary::Add => shape.map(x, y, fp, |a, b, fp| Binary::Add.apply(a, b, fp)),
            Binary::Sub => shape.map(x, y, fp, |a, b, fp| Binary::Sub.apply(a, b, fp)),
            Binary::Mul => shape.map(x, y, fp, |a, b, fp| Binary::Mul.apply(a, b, fp)),
            f => shape.map(x, y, fp, |a, b, fp| f.apply(a, b, fp)),
        };
        return Ok(shape.result(op.r[0], out));
    }
    if let Some((shape, f)) = unary(op.opcode) {
        let x = source(op, registers, 1, false);
        let out = shape.map(x, x, fp, |a, _, fp| Ok(f.apply(a, fp)));
        let mut result = shape.result(op.r[0], out);
        if op.opcode == Opcode::F16v2exp && x[0] == 0 {
            result.slots = 1;
        }
        return Ok(result);
    }
    others(op, worker, fp)
}

/// Everything that is neither elementwise binary nor a transcendental.
fn others(op: &Op, worker: &mut Worker, fp: &mut Fp) -> Result<AuxResult, Reason> {
    use Opcode as O;
    let registers = &worker.registers;
    let dst = op.r[0];
    let one = |value| Ok(AuxResult::one(dst, value));
    let pair = |values| Ok(AuxResult::pair(dst, values));
    let word = registers.a(op.r[1]);
    let words = [word, registers.a(op.r[1] + 1)];
    let h = |i| from_f16(half_of(words, i));
    match op.opcode {
        O::F16v2clamp | O::F16v4clamp | O::F32clamp | O::F32v2clamp => {
            let shape = match op.opcode {
                O::F16v2clamp => Shape::Half2,
                O::F16v4clamp => Shape::Half4,
                O::F32clamp => Shape::Single,
                _ => Shape::Single2,
            };
            let bounds = [registers.a(op.r[2]), registers.a(op.r[2] + 1)];
            let (low, high) = match shape {
                Shape::Half2 | Shape::Half4 => {
                    (from_f16(half_of(bounds, 0)), from_f16(half_of(bounds, 1)))
                }
                _ => (from_f32(bounds[0]), from_f32(bounds[1])),
            };
            let out = shape.map(words, words, fp, |x, _, _| {
                Ok(minimum(maximum(x, low), high))
            });
            Ok(shape.result(dst, out))
        }
        O::F32div => {
            let (x, y) = (from_f32(word), from_f32(registers.a(op.r[2])));
            let q = x / y;
            fp.check_invalid(q, x.is_nan() || y.is_nan());
            if y == 0.0 && x.is_finite() && x != 0.0 {
                fp.flags |= csr::FLAG_DIV0;
            }
            one(fp.narrow32(q))
        }
        O::F16tof32 => one(fp.narrow32(h(0))),
        O::F16v2tof32 => pair([fp.narrow32(h(0)), fp.narrow32(h(1))]),
        O::F32tof16 => one(u32::from(fp.narrow16(from_f32(word))) * 0x1_0001),
        O::F32v2tof16 => one(narrow(words, fp)),
        O::F32v4tof16 => {
            let upper = [registers.a(op.r[1] + 2), registers.a(op.r[1] + 3)];
            pair([narrow(words, fp), narrow(upper, fp)])
        }
        O::F32int => {
            let mode = Round::of_code(op.imm).ok_or(Reason::InvalidOperand {
                operand: "rounding mode",
                value: op.imm,
            })?;
            one(fp.narrow32(round_integral(from_f32(word), mode)))
        }
        O::F32toi32 => one(to_integer(word, i32::MIN.into(), i32::MAX.into(), fp) as u32),
        O::F32toui32 => one(to_integer(word, 0.0, u32::MAX.into(), fp) as u32),
        O::F32fromi32 => one(fp.narrow32(f64::from(word as i32))),
        O::F32fromui32 => one(fp.narrow32(f64::from(word))),
        O::F32sufromui => one(fp.narrow32(centred(word))),
        O::F32v2sufromui => pair(words.map(|w| fp.narrow32(centred(w)))),
        O::F16v2sufromui => one(centred16(word, fp)),
        O::F16v4sufromui => pair(words.map(|w| centred16(w, fp))),
        O::F16v2sum => {
            let sum = lateral(h(0), h(1), fp);
            one(fp.narrow32(sum))
        }
        O::F16v4sum => {
            let (low, high) = (lateral(h(0), h(1), fp), lateral(h(2), h(3), fp));
            pair([fp.narrow32(low), fp.narrow32(high)])
        }
        O::F16v2maxc => one(u32::from(fp.narrow16(maximum(h(0), h(1)))) * 0x1_0001),
        O::F16v4maxc => {
            let low = fp.narrow16(maximum(h(0), h(1)));
            let high = fp.narrow16(maximum(h(2), h(3)));
            one(u32::from(low) | u32::from(high) << 16)
        }
        O::Urand32 => one(worker.prng.next() as u32),
        O::Urand64 => {
            let bits = worker.prng.next();
            pair([bits as u32, (bits >> 32) as u32])
        }
        O::F16v4rmask | O::F32v2rmask => {
            let keep = registers.a(op.r[2]) & 0x1_ffff;
            let bits = worker.prng.next();
            let kept = |i: usize| (bits >> (16 * i) & 0xffff) < u64::from(keep);
            let mut out = words;
            for i in 0..4 {
                let lane = if op.opcode == O::F16v4rmask {
                    i
                } else {
                    i >> 1
                };
                if !kept(lane) {
                    out[i >> 1] &= !(0xffff << (16 * (i & 1)));
                }
            }
            pair(out)
        }
        O::F16v2grand | O::F32v2grand => {
            let values = [gaussian(&mut worker.prng), gaussian(&mut worker.prng)];
            if op.opcode == O::F32v2grand {
                return pair(values.map(|v| fp.narrow32(v)));
            }
            let [low, high] = values.map(|v| u32::from(fp.narrow16(v)));
            one(low | high << 16)
        }
        O::F32class => one(class32(word)),
        O::F32v2class => one(class32(word) | class32(words[1]) << 8),
        O::F16v2class => one(class16(word) | class16(word >> 16) << 8),
        O::F16v4class => {
            let [low, high] = words.map(|w| class16(w) | class16(w >> 16) << 8);
            one(low | high << 16)
        }
        O::F8v4class => {
            let format = formats(worker.fp_format).0;
            let codes = word.to_le_bytes().map(|b| class8(b, format) as u8);
            one(u32::from_le_bytes(codes))
        }
        O::F16v2tof8 => {
            let [b0, b1] = [h(0), h(1)].map(|x| to_f8(x, worker, fp));
            one((b0 | b1 << 8) * 0x1_0001)
        }
        O::F16v8tof8 => {
            let upper = [registers.a(op.r[1] + 2), registers.a(op.r[1] + 3)];
            let mut four = |w: [u32; 2]| {
                let bytes = [0, 1, 2, 3].map(|i| to_f8(from_f16(half_of(w, i)), worker, fp) as u8);
                u32::from_le_bytes(bytes)
            };
            pair([four(words), four(upper)])
        }
        O::F8v2tof16 | O::F8v4tof16 => {
            let (format, exponent) = (formats(worker.fp_format).0, scale_of(worker.fp_scale));
            let halves = word
                .to_le_bytes()
                .map(|b| u32::from(fp.narrow16(scale(format.value(b), exponent))));
            let low = halves[0] | halves[1] << 16;
            if op.opcode == O::F8v2tof16 {
                return one(low);
            }
            pair([low, halves[2] | halves[3] << 16])
        }
        O::Uget => one(get_upper(worker, op.imm)?),
        O::Uput => {
            put_upper(worker, op.imm, word)?;
            Ok(AuxResult::default())
        }
        _ => Err(not_implemented(op.opcode)),
    }
}

fn narrow(words: [u32; 2], fp: &mut Fp) -> u32 {
    let [low, high] = words.map(|w| u32::from(fp.narrow16(from_f32(w))));
    low | high << 16
}

fn to_integer(word: u32, min: f64, max: f64, fp: &mut Fp) -> i64 {
    let x = from_f32(word);
    let rounded = round_integral(x, fp.round);
    if x.is_nan() || rounded < min || rounded > max {
        fp.flags |= csr::FLAG_INVALID;
    }
    if x.is_nan() {
        return 0;
    }
    rounded.clamp(min, max) as i64
}

/// The symmetric uniform value of 32 random bits.
fn centred(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 2f64.powi(32) - 0.5
}

fn centred16(word: u32, fp: &mut Fp) -> u32 {
    let mut half = |bits: u32| u32::from(fp.narrow16((f64::from(bits) + 0.5) / 65536.0 - 0.5));
    let low = half(word & 0xffff);
    low | half(word >> 16) << 16
}

fn lateral(x: f64, y: f64, fp: &mut Fp) -> f64 {
    let value = x + y;
    fp.check_invalid(value, x.is_nan() || y.is_nan());
    value
}

/// A sum of twelve uniform values of 16 bits, less its mean: mean 0, variance 1.
fn gaussian(prng: &mut Prng) -> f64 {
    let mut sum = 0;
    for _ in 0..3 {
        let bits = prng.next();
        sum += [0, 16, 32, 48]
            .iter()
            .map(|s| bits >> s & 0xffff)
            .sum::<u64>();
    }
    (sum as f64 + 6.0) / 65536.0 - 6.0
}

fn to_f8(x: f64, worker: &Worker, fp: &mut Fp) -> u32 {
    let scaled = scale(x, scale_of(worker.fp_scale));
    u32::from(fp.narrow8(scaled, formats(worker.fp_format).0))
}

/// Class codes. 2 and 5 are known; the others are chosen around them.
fn class(sign: bool, kind: std::num::FpCategory, quiet: bool) -> u32 {
    use std::num::FpCategory as C;
    match (kind, sign) {
        (C::Nan, _) => 1 + u32::from(quiet),
        (C::Infinite, true) => 3,
        (C::Normal, true) => 4,
        (C::Zero, true) => 5,
        (C::Subnormal, true) => 6,
        (C::Infinite, false) => 7,
        (C::Normal, false) => 8,
        (C::Zero, false) => 9,
        (C::Subnormal, false) => 10,
    }
}

fn class32(word: u32) -> u32 {
    let x = f32::from_bits(word);
    class(x.is_sign_negative(), x.classify(), word >> 22 & 1 != 0)
}

fn class16(word: u32) -> u32 {
    let x = half::f16::from_bits(word as u16);
    class(x.is_sign_negative(), x.classify(), word >> 9 & 1 != 0)
}

fn class8(byte: u8, format: super::numeric::F8) -> u32 {
    use std::num::FpCategory as C;
    let x = format.value(byte);
    let exponent_mask = if format == super::numeric::F8::F143 {
        0x78
    } else {
        0x7c
    };
    let kind = match x.classify() {
        C::Normal if byte & exponent_mask == 0 => C::Subnormal,
        other => other,
    };
    class(byte >> 7 != 0, kind, true)
}

/// Reads an upper control register.
fn get_upper(worker: &Worker, index: u32) -> Result<u32, Reason> {
    Ok(match index {
        csr::FP_STS => worker.fp_status,
        csr::FP_CTL => worker.fp_control,
        csr::PRNG_FIRST..=csr::PRNG_LAST => {
            let at = (index - csr::PRNG_FIRST) as usize;
            (worker.prng.0[at >> 1] >> (32 * (at & 1))) as u32
        }
        csr::TAS => worker.tas,
        csr::FP_NFMT => worker.fp_format,
        csr::FP_SCL => worker.fp_scale,
        _ => return Err(Reason::BadRegister(index + 256)),
    })
}

/// Writes an upper control register.
fn put_upper(worker: &mut Worker, index: u32, value: u32) -> Result<(), Reason> {
    match index {
        csr::FP_STS => worker.fp_status = value & csr::FLAGS,
        csr::FP_CLR => {
            worker.fp_status &= !value;
            if value & csr::CLEAR_ACCUMULATORS != 0 {
                worker.accumulators = Accumulators::default();
            }
        }
        csr::FP_CTL => {
            check_control(value)?;
            worker.set_fp_control(value);
        }
        csr::PRNG_FIRST..=csr::PRNG_LAST => {
            let at = (index - csr::PRNG_FIRST) as usize;
            let (word, shift) = (&mut worker.prng.0[at >> 1], 32 * (at & 1));
            *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
        }
        csr::PRNG_SEED => worker.prng = Prng::seed(value),
        csr::TAS => worker.tas = value,
        csr::FP_NFMT => worker.fp_format = value & 3,
        csr::FP_SCL => worker.fp_scale = value,
        _ => return Err(Reason::BadRegister(index + 256)),
    }
    Ok(())
}

/// Refuses control words that the rounding code cannot follow.
pub(crate) fn check_control(value: u32) -> Result<(), Reason> {
    match Round::of_code(value >> 16 & 7) {
        Some(_) => Ok(()),
        None => Err(Reason::InvalidOperand {
            operand: "rounding mode",
            value: value >> 16 & 7,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::numeric::{NAN16, NAN32};

    #[test]
    fn extrema_ignore_nan_and_order_zeros() {
        assert_eq!(maximum(f64::NAN, 1.0), 1.0);
        assert_eq!(maximum(1.0, f64::NAN), 1.0);
        assert_eq!(minimum(f64::NAN, 1.0), 1.0);
        assert!(maximum(-0.0, 0.0).is_sign_positive());
        assert!(maximum(0.0, -0.0).is_sign_positive());
        assert!(minimum(0.0, -0.0).is_sign_negative());
        assert!(minimum(-0.0, 0.0).is_sign_negative());
    }

    #[test]
    fn conversions_saturate() {
        let mut fp = Fp::default();
        let conv = |x: f32, fp: &mut Fp| {
            (
                to_integer(x.to_bits(), i32::MIN.into(), i32::MAX.into(), fp) as i32,
                to_integer(x.to_bits(), 0.0, u32::MAX.into(), fp) as u32,
            )
        };
        assert_eq!(conv(2.5, &mut fp), (2, 2));
        assert_eq!(fp.flags, 0);
        assert_eq!(conv(1e20, &mut fp), (i32::MAX, u32::MAX));
        assert_eq!(conv(-1e20, &mut fp), (i32::MIN, 0));
        assert_eq!(conv(f32::NAN, &mut fp), (0, 0));
        assert_eq!(fp.flags, csr::FLAG_INVALID);
    }

    #[test]
    fn narrowing_keeps_nan() {
        let mut fp = Fp::default();
        assert_eq!(
            narrow([NAN32, 1f32.to_bits()], &mut fp),
            u32::from(NAN16) | 0x3c00 << 16
        );
    }
}
