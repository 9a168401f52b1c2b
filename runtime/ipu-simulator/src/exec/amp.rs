//! The f16 AMP, the instruction that decides how fast whole models are simulated.
//!
//! Each of 16 units adds four products to an accumulator, rounded once to f32. Products of f16 are
//! exact in f64, and so is their sum unless exponents lie far apart, which masks of exponents tell
//! beforehand. The one addition left may lose bits; then, and only then, the sum is rounded to odd
//! before it is narrowed. The same source is compiled for several vector widths.

use ipu_isa::Opcode;

use super::accumulator::{self, phase_of};
use super::memory::ld2xst64pace;
use super::numeric::{
    EXACT_SPREAD, Fp, Round, f32_of_half, from_f16, spread_of, sum, to_odd, two_sum,
};
use super::{AuxResult, settle};
use crate::code::{AuxRun, BundleRun, Issue, Op};
use crate::context::{Accumulators, Weights, Worker};
use crate::fault::Reason;
use crate::memory::Ram;
use crate::units::Units;

/// Units of one AMP set.
pub(crate) const UNITS: usize = 8;
/// Units of both sets.
pub(super) const BOTH: usize = 2 * UNITS;

/// Moves two partials in at the end of a chain; returns the two that leave.
#[inline(always)]
pub(crate) fn push(chain: &mut [f32; UNITS], units: usize, partials: [f32; 2]) -> [f32; 2] {
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

/// The start values of a step on all units: exchanges the registers of a set and returns what
/// leaves.
#[inline(always)]
fn exchange(
    acc: &mut Accumulators,
    set: usize,
    phase: usize,
    partials: [f32; 2],
) -> ([f32; UNITS], [f32; 2]) {
    if phase != 0 {
        let out = acc.push(set, partials);
        return (acc.even[set], out);
    }
    let start = match acc.head[set] {
        0 => join(&acc.ring[set]),
        _ => acc.odd(set),
    };
    // The even registers, moved down by one pair, with the partials behind them: as a ring from
    // place 1 on that is the even registers with the first pair replaced.
    let [e0, e1, e2, e3, e4, e5, e6, e7] = acc.even[set];
    acc.ring[set] = [partials, [e2, e3], [e4, e5], [e6, e7]];
    acc.head[set] = 1;
    (start, [e0, e1])
}

#[inline(always)]
fn join(pairs: &[[f32; 2]; 4]) -> [f32; UNITS] {
    let [[a, b], [c, d], [e, f], [g, h]] = *pairs;
    [a, b, c, d, e, f, g, h]
}

/// As [`exchange`] for any number of units.
fn exchange_any(
    acc: &mut Accumulators,
    set: usize,
    (units, phase): (usize, usize),
    partials: [f32; 2],
) -> ([f32; UNITS], [f32; 2]) {
    let mut odd = acc.odd(set);
    let (start, out);
    if phase == 0 {
        start = odd;
        let mut chain = acc.even[set];
        out = push(&mut chain, units, partials);
        odd[..units].copy_from_slice(&chain[..units]);
    } else {
        start = acc.even[set];
        out = push(&mut odd, units, partials);
    }
    acc.set_odd(set, odd);
    (start, out)
}

/// The values of four f16 in a word.
#[inline(always)]
pub(crate) fn halves(word: u64) -> [f64; 4] {
    [0, 16, 32, 48].map(|shift| from_f16((word >> shift) as u16))
}

/// The sum of the four products of unit `u`.
#[inline(always)]
pub(super) fn products<const M: usize, const FUSED: bool>(
    x: &[f64; 4],
    w: &[[f64; M]; 4],
    u: usize,
) -> f64 {
    if FUSED {
        x[3].mul_add(
            w[3][u],
            x[2].mul_add(w[2][u], x[1].mul_add(w[1][u], x[0] * w[0][u])),
        )
    } else {
        (x[0] * w[0][u] + x[1] * w[1][u]) + (x[2] * w[2][u] + x[3] * w[3][u])
    }
}

/// Adds the four products of every unit to `start`, in place. False when a result may be wrong:
/// then nothing is defined.
#[inline(always)]
fn dot<const N: usize, const M: usize, const FUSED: bool>(
    values: &mut [f32; N],
    x: &[f64; 4],
    w: &[[f64; M]; 4],
) -> bool {
    let (mut total, mut lost) = ([0.0; N], [0.0; N]);
    for u in 0..N {
        let (s, l) = two_sum(f64::from(values[u]), products::<M, FUSED>(x, w, u));
        total[u] = s;
        lost[u] = l;
    }
    let mut exact = true;
    for &l in &lost {
        exact &= l == 0.0;
    }
    if !exact {
        for u in 0..N {
            total[u] = to_odd(total[u], lost[u]);
        }
    }
    let mut finite = true;
    for u in 0..N {
        values[u] = total[u] as f32;
        finite &= values[u].is_finite();
    }
    finite
}

/// The dot products where [`dot`] does not apply.
#[cold]
#[inline(never)]
fn dot_slow<const N: usize, const M: usize>(
    start: &[f32; N],
    x: &[f64; 4],
    w: &[[f64; M]; 4],
    fp: &mut Fp,
) -> [f32; N] {
    std::array::from_fn(|u| {
        let terms = [
            f64::from(start[u]),
            x[0] * w[0][u],
            x[1] * w[1][u],
            x[2] * w[2][u],
            x[3] * w[3][u],
        ];
        let value = sum(&terms);
        fp.check_invalid(value, terms.iter().any(|t| t.is_nan()));
        f32::from_bits(fp.narrow32(value))
    })
}

/// What differs between processors: the conversions of four halves.
pub(super) trait Halves {
    /// Whether multiplying and adding in one instruction is fast.
    const FUSED: bool;
    /// Values of four halves.
    fn expand(word: u64) -> [f32; 4];
    /// Four f32 to nearest f16, if none overflows.
    fn shrink(values: [f32; 4]) -> Option<u64>;
    /// [`spread_of`] four halves.
    fn spread(word: u64) -> u32;
}

/// Any processor.
pub(super) struct Base;

impl Halves for Base {
    const FUSED: bool = false;

    #[inline(always)]
    fn expand(word: u64) -> [f32; 4] {
        [0, 16, 32, 48].map(|shift| f32_of_half((word >> shift) as u16))
    }

    #[inline(always)]
    fn shrink(values: [f32; 4]) -> Option<u64> {
        pack_plain(values, &Fp::default())
    }

    #[inline(always)]
    fn spread(word: u64) -> u32 {
        spread_of(word)
    }
}

/// The dot products of all units; `spread` is that of the weights.
#[inline(always)]
pub(super) fn dots<const N: usize, const M: usize, H: Halves>(
    start: [f32; N],
    x: u64,
    (w, spread): (&[[f64; M]; 4], u32),
    fp: &mut Fp,
) -> [f32; N] {
    let values = H::expand(x).map(f64::from);
    if fp.round == Round::Nearest && H::spread(x) + spread <= EXACT_SPREAD {
        let mut next = start;
        let done = if H::FUSED {
            dot::<N, M, true>(&mut next, &values, w)
        } else {
            dot::<N, M, false>(&mut next, &values, w)
        };
        if done {
            return next;
        }
    }
    dot_slow(&start, &values, w, fp)
}

/// Rounds f32 to f16 halves.
#[inline(always)]
fn pack<const N: usize>(values: [f32; N], fp: &mut Fp) -> u64 {
    pack_plain(values, fp).unwrap_or_else(|| pack_slow(&values, fp))
}

/// Rounds f32 to f16 halves if all are normal results or zero, to nearest.
#[inline(always)]
pub(crate) fn pack_plain<const N: usize>(values: [f32; N], fp: &Fp) -> Option<u64> {
    // Normal results to nearest even, away from overflow; zeros.
    let (mut word, mut plain) = (0u64, fp.round16 == Round::Nearest);
    for (i, v) in values.into_iter().enumerate() {
        let bits = v.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        plain &= magnitude.wrapping_sub(0x3880_0000) < 0x477f_f000 - 0x3880_0000 || magnitude == 0;
        let rounded = magnitude + 0xfff + (bits >> 13 & 1);
        let half = (rounded >> 13).saturating_sub(112 << 10) | bits >> 31 << 15;
        word |= u64::from(half & 0xffff) << (16 * i);
    }
    plain.then_some(word)
}

#[cold]
#[inline(never)]
fn pack_slow(values: &[f32], fp: &mut Fp) -> u64 {
    let mut word = 0;
    for (i, &v) in values.iter().enumerate() {
        word |= u64::from(fp.narrow16(f64::from(v))) << (16 * i);
    }
    word
}

/// Rounds four f32 to f16 halves.
#[inline(always)]
pub(super) fn shrink<H: Halves>(values: [f32; 4], fp: &mut Fp) -> u64 {
    let plain = if fp.round16 == Round::Nearest {
        H::shrink(values)
    } else {
        None
    };
    plain.unwrap_or_else(|| pack_slow(&values, fp))
}

/// f16 partials and results, both sets, all engines.
#[inline(always)]
fn wide<H: Halves>(op: &Op, worker: &mut Worker, weights: &Weights, fp: &mut Fp) -> AuxResult {
    let phase = (op.imm & 3) as usize;
    let r = &worker.registers;
    let (x, raw) = (r.a_pair(op.r[1]), r.a_pair(op.r[2]));
    let pin = H::expand(raw);
    let acc = &mut worker.accumulators;
    let (low, out0) = exchange(acc, 0, phase, [pin[0], pin[1]]);
    let (high, out1) = exchange(acc, 1, phase, [pin[2], pin[3]]);
    let mut start = [0.0; BOTH];
    start[..UNITS].copy_from_slice(&low);
    start[UNITS..].copy_from_slice(&high);
    let slot = &weights.f16[phase];
    let next = dots::<BOTH, BOTH, H>(start, x, (&slot.values, slot.spread), fp);
    acc.even[0].copy_from_slice(&next[..UNITS]);
    acc.even[1].copy_from_slice(&next[UNITS..]);
    let word = shrink::<H>([out0[0], out0[1], out1[0], out1[1]], fp);
    AuxResult::pair(op.r[0], [word as u32, (word >> 32) as u32])
}

/// f32 partials and results, one set, all engines.
#[inline(always)]
fn narrow<H: Halves>(op: &Op, worker: &mut Worker, weights: &Weights, fp: &mut Fp) -> AuxResult {
    let phase = (op.imm & 3) as usize;
    let r = &worker.registers;
    let x = r.a_pair(op.r[1]);
    let pin = [r.a(op.r[2]), r.a(op.r[2] + 1)].map(f32::from_bits);
    let acc = &mut worker.accumulators;
    let (start, out) = exchange(acc, 0, phase, pin);
    let slot = &weights.f16[phase];
    acc.even[0] = dots::<UNITS, BOTH, H>(start, x, (&slot.values, slot.spread), fp);
    AuxResult::pair(op.r[0], out.map(f32::to_bits))
}

/// Any form with f16 data and any flags; `sets` and the kind of partials by the caller.
pub(crate) fn general(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
    (sets, half_partials): (usize, bool),
) -> Result<AuxResult, Reason> {
    let phase = phase_of(op.imm, [4, 2, 1])?;
    let r = &worker.registers;
    let (x, raw) = (r.a_pair(op.r[1]), r.a_words(op.r[2]));
    let slot = &weights.f16[phase.1];
    let half_pin = halves(raw).map(|p| p as f32);
    let full_pin = [raw as u32, (raw >> 32) as u32].map(f32::from_bits);
    let values = halves(x);
    let acc = &mut worker.accumulators;
    let mut out = [0.0; 4];
    for set in 0..sets {
        let pin = match (half_partials, set) {
            (false, _) => full_pin,
            (true, 0) => [half_pin[0], half_pin[1]],
            (true, _) => [half_pin[2], half_pin[3]],
        };
        let (start, left) = exchange_any(acc, set, phase, pin);
        out[2 * set..2 * set + 2].copy_from_slice(&left);
        for (u, &old) in start.iter().enumerate().take(phase.0) {
            let [p0, p1, p2, p3] =
                [0, 1, 2, 3].map(|k: usize| values[k] * slot.values[k][UNITS * set + u]);
            acc.even[set][u] = accumulator::narrow(&[f64::from(old), p0, p1, p2, p3], fp);
        }
    }
    Ok(match (half_partials, sets) {
        (false, _) => AuxResult::pair(op.r[0], [out[0], out[1]].map(f32::to_bits)),
        (true, 1) => AuxResult::one(op.r[0], pack([out[0], out[1]], fp) as u32),
        (true, _) => {
            let word = pack(out, fp);
            AuxResult::pair(op.r[0], [word as u32, (word >> 32) as u32])
        }
    })
}

fn wide_base(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    Ok(wide::<Base>(op, worker, weights, fp))
}

fn narrow_base(
    op: &Op,
    worker: &mut Worker,
    weights: &Weights,
    fp: &mut Fp,
) -> Result<AuxResult, Reason> {
    Ok(narrow::<Base>(op, worker, weights, fp))
}

/// The same functions for x86 processors with fused multiply-add.
#[cfg(target_arch = "x86_64")]
pub(super) mod vector {
    use super::super::numeric::spread;
    use super::*;
    use std::arch::x86_64::*;

    /// A processor with the features that [`select`] asks for.
    pub(in super::super) struct Vector;

    impl Halves for Vector {
        const FUSED: bool = true;

        #[inline(always)]
        fn expand(word: u64) -> [f32; 4] {
            // SAFETY: used only by functions that `select` hands out where F16C exists; both types
            // are 16 bytes of plain data.
            unsafe {
                let halves = _mm_cvtsi64_si128(word as i64);
                std::mem::transmute::<__m128, [f32; 4]>(_mm_cvtph_ps(halves))
            }
        }

        #[inline(always)]
        fn shrink(values: [f32; 4]) -> Option<u64> {
            // SAFETY: as in `expand`.
            unsafe {
                let values = std::mem::transmute::<[f32; 4], __m128>(values);
                let magnitudes = _mm_andnot_ps(_mm_set1_ps(-0.0), values);
                // Not less: overflow, or no number.
                let wrong = _mm_cmpnlt_ps(magnitudes, _mm_set1_ps(65520.0));
                let halves = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                (_mm_movemask_ps(wrong) == 0).then_some(_mm_cvtsi128_si64(halves) as u64)
            }
        }

        #[inline(always)]
        fn spread(word: u64) -> u32 {
            // SAFETY: as in `expand`, for SSE4.1.
            unsafe {
                let word = _mm_cvtsi64_si128((word & 0x7fff_7fff_7fff_7fff) as i64);
                let ones = _mm_set1_epi16(-1);
                // Zeros, and the upper lanes, become the greatest value in both.
                let least = _mm_minpos_epu16(_mm_add_epi16(word, ones));
                let greatest = _mm_minpos_epu16(_mm_xor_si128(word, ones));
                let least = (_mm_cvtsi128_si32(least) as u32 & 0xffff) + 1;
                spread(!_mm_cvtsi128_si32(greatest) as u32 & 0xffff, least)
            }
        }
    }

    macro_rules! variant {
        ($name:ident, $inner:ident, $generic:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            fn $inner(op: &Op, worker: &mut Worker, weights: &Weights, fp: &mut Fp) -> AuxResult {
                $generic::<Vector>(op, worker, weights, fp)
            }

            pub(super) fn $name(
                op: &Op,
                worker: &mut Worker,
                weights: &Weights,
                fp: &mut Fp,
            ) -> Result<AuxResult, Reason> {
                // SAFETY: `select` hands this function out only where the features exist.
                Ok(unsafe { $inner(op, worker, weights, fp) })
            }
        };
    }

    macro_rules! fused {
        ($name:ident, $inner:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            fn $inner(
                issue: &Issue,
                worker: &mut Worker,
                weights: &Weights,
                ram: &mut Ram,
                units: &Units,
            ) -> Result<(), Reason> {
                bundle::<Vector>(issue, worker, weights, ram, units)
            }

            pub(super) fn $name(
                issue: &Issue,
                worker: &mut Worker,
                weights: &Weights,
                ram: &mut Ram,
                units: &Units,
            ) -> Result<(), Reason> {
                // SAFETY: `select` hands this function out only where the features exist.
                unsafe { $inner(issue, worker, weights, ram, units) }
            }
        };
    }

    fused!(bundle_avx2, bundle_avx2_inner, "avx2,fma,f16c");
    fused!(
        bundle_avx512,
        bundle_avx512_inner,
        "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
    );

    variant!(wide_avx2, wide_avx2_inner, wide, "avx2,fma,f16c");
    variant!(narrow_avx2, narrow_avx2_inner, narrow, "avx2,fma,f16c");
    variant!(
        wide_avx512,
        wide_avx512_inner,
        wide,
        "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
    );
    variant!(
        narrow_avx512,
        narrow_avx512_inner,
        narrow,
        "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
    );

    /// The kinds of processor that have functions of their own.
    pub(in super::super) enum Width {
        Avx2,
        Avx512,
    }

    /// The kind of this processor.
    pub(in super::super) fn width() -> Option<Width> {
        let base = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        match (base, wide) {
            (true, true) => Some(Width::Avx512),
            (true, false) => Some(Width::Avx2),
            _ => None,
        }
    }

    /// The fastest `(both sets, one set, bundle)` of this processor.
    pub(super) fn select() -> Option<(AuxRun, AuxRun, BundleRun)> {
        Some(match width()? {
            Width::Avx512 => (wide_avx512, narrow_avx512, bundle_avx512),
            Width::Avx2 => (wide_avx2, narrow_avx2, bundle_avx2),
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) mod vector {
    use super::{AuxRun, BundleRun};

    pub(super) fn select() -> Option<(AuxRun, AuxRun, BundleRun)> {
        None
    }
}

/// A bundle of `ld2xst64pace` and the wide AMP on all engines, the inside of most products.
#[inline(always)]
fn bundle<H: Halves>(
    issue: &Issue,
    worker: &mut Worker,
    weights: &Weights,
    ram: &mut Ram,
    units: &Units,
) -> Result<(), Reason> {
    let mut fp = worker.fp;
    if fp.round16 == Round::Stochastic {
        fp.prng = worker.prng;
    }
    let result = wide::<H>(&issue.aux, worker, weights, &mut fp);
    settle(worker, &fp)?;
    ld2xst64pace(&issue.main, &mut worker.registers, ram, units)?;
    worker.write(&result);
    Ok(())
}

fn bundle_base(
    issue: &Issue,
    worker: &mut Worker,
    weights: &Weights,
    ram: &mut Ram,
    units: &Units,
) -> Result<(), Reason> {
    bundle::<Base>(issue, worker, weights, ram, units)
}

/// The executor of a whole bundle, if it has one.
pub(crate) fn bundle_executor(main: &Op, aux: &Op) -> Option<BundleRun> {
    let fits =
        main.opcode == Opcode::Ld2xst64pace && aux.opcode == Opcode::F16v4hihov4amp && aux.imm < 4;
    fits.then(|| vector::select().map_or(bundle_base as BundleRun, |(_, _, bundle)| bundle))
}

/// The executor of a form with f16 data on all engines: both sets, or one.
pub(crate) fn executor(both_sets: bool) -> AuxRun {
    let (wide, narrow) = match vector::select() {
        Some((wide, narrow, _)) => (wide, narrow),
        None => (wide_base as AuxRun, narrow_base as AuxRun),
    };
    if both_sets { wide } else { narrow }
}
