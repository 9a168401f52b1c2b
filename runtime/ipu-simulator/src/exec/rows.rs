//! The inner loop of a product as one function: a repeat body of four `ld2xst64pace`, each with the
//! next phase of an f16 AMP on all engines. One pass through the body is one row of the matrix.
//!
//! The caller has proved that no access faults, leaves memory or meets one of another worker, so
//! that what is left is arithmetic: accumulators stay in registers from row to row, and exactness
//! is a comparison with limits that only depend on the weights. Where they do not hold, a step
//! falls back on [`dots`]. Results are those of the single bundles, bit for bit.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::amp::{BOTH, Base, Halves, UNITS, dots, products, shrink, vector};
use super::numeric::Fp;
use crate::context::{HalfSlot, Weights, Worker};
use crate::memory::Ram;

/// Bundles of a body, one for each phase.
pub(crate) const STEPS: usize = 4;
/// Loads of x, of partial sums, and stores.
pub(crate) const STREAMS: usize = 3;
/// Bits below the sign of four halves.
const MAGNITUDES: u64 = 0x7fff_7fff_7fff_7fff;
/// The signs of four halves.
const SIGNS: u64 = 0x8000_8000_8000_8000;
/// Where writes to pairs that cannot be written go.
const NOWHERE: u8 = 8;

/// The A registers of one bundle, by number of pair; those that are written may be [`NOWHERE`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    loaded: [u8; 2],
    stored: u8,
    x: u8,
    partials: u8,
    result: u8,
}

impl Step {
    /// The step of a bundle with these operands of `ld2xst64pace` and of the AMP.
    pub(crate) fn new(load: [u8; 4], amp: [u8; 4]) -> Step {
        let written = |r: u8| if r < 8 { r >> 1 } else { NOWHERE };
        Step {
            loaded: [written(load[0]), written(load[0] + 2)],
            stored: load[1] >> 1 & 7,
            x: amp[1] >> 1 & 7,
            partials: amp[2] >> 1 & 7,
            result: written(amp[0]),
        }
    }

    #[inline(always)]
    fn x(&self) -> usize {
        usize::from(self.x & 15)
    }

    #[inline(always)]
    fn partials(&self) -> usize {
        usize::from(self.partials & 15)
    }

    #[inline(always)]
    fn stored(&self) -> usize {
        usize::from(self.stored & 15)
    }

    #[inline(always)]
    fn loaded(&self, stream: usize) -> usize {
        usize::from(self.loaded[stream] & 15)
    }

    #[inline(always)]
    fn result(&self) -> usize {
        usize::from(self.result & 15)
    }
}

/// What one worker does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    pub(crate) steps: [Step; STEPS],
    /// Offset in memory of the first access of each stream.
    pub(crate) start: [u32; STREAMS],
    /// From there to the access of each step in the first row.
    pub(crate) offsets: [[u32; STREAMS]; STEPS],
    /// From row to row.
    pub(crate) advance: [u32; STREAMS],
    /// Phase of the first step.
    pub(crate) phase: usize,
    pub(crate) rows: u32,
    /// Whether all accesses of a row stand one behind the other in each stream, and its loads may
    /// precede its stores.
    pub(crate) whole: bool,
}

impl Course {
    /// Offsets of a row.
    #[inline(always)]
    fn at(&self, row: u32) -> [u32; STREAMS] {
        std::array::from_fn(|s| self.start[s].wrapping_add(self.advance[s].wrapping_mul(row)))
    }

    /// Moves offsets to the next row.
    #[inline(always)]
    fn next_row(&self, at: &mut [u32; STREAMS]) {
        for (at, advance) in at.iter_mut().zip(self.advance) {
            *at = at.wrapping_add(advance);
        }
    }

    /// The main half of a bundle.
    #[inline(always)]
    fn transfer(&self, j: usize, at: &[u32; STREAMS], pairs: &mut [u64; 16], ram: &mut Ram) {
        let registers = &self.steps[j];
        let place = |s: usize| at[s].wrapping_add(self.offsets[j][s]);
        let loaded = [ram.peek64(place(0)), ram.peek64(place(1))];
        ram.poke64(place(2), pairs[registers.stored()]);
        pairs[registers.loaded(0)] = loaded[0];
        pairs[registers.loaded(1)] = loaded[1];
    }
}

/// Runs a worker over its rows. Flags are left in the environment.
pub(crate) type RowsRun = fn(&Job, &Course, &mut Worker, &mut Ram, &mut Fp);

/// What all workers have in common.
#[repr(align(64))]
pub(crate) struct Job {
    /// `weights[phase][k][lane]`; see [`unit_of`].
    weights: [[[f64; BOTH]; 4]; STEPS],
    /// [`spread`](super::numeric::spread) of the weights of each phase.
    spreads: [u32; STEPS],
    limits: Limits,
    pub(crate) run: RowsRun,
}

/// When an AMP step is exact in f64 and rounds once, told from its weights.
///
/// With `e` the least exponent of the weights as f16 has it, every product is a multiple of
/// `2^(e - 49)`, whatever x is. If x is below a limit, sums of products have no more digits than
/// f64. If the accumulator is such a multiple too, and the result below 2^53 of them, then so is
/// the addition.
#[derive(Clone, Copy, Default)]
struct Limits {
    /// Carries into the sign of each half of x that is too large.
    addend: u64,
    /// Bits of the least accumulator that is not zero.
    low: u32,
    /// Bits of the first result that is too large.
    high: u32,
}

impl Limits {
    fn new(slots: &[HalfSlot; STEPS]) -> Limits {
        let ranges = slots.each_ref().map(|slot| {
            let [greatest, least] = slot.range.map(|m| u32::from(m >> 10).max(1));
            let least = if slot.range[1] == 0 { greatest } else { least };
            (greatest, least)
        });
        let greatest = ranges.iter().map(|r| r.0).fold(1, u32::max);
        let least = ranges.iter().map(|r| r.1).fold(greatest, u32::min);
        // Exponents of x up to 30 less the spread of the weights: `EXACT_SPREAD` from 1 on.
        let first_too_large = if greatest > 30 {
            0
        } else {
            31 - (greatest - least)
        };
        Limits {
            addend: u64::from(0x8000 - (first_too_large << 10)) * 0x1_0001_0001_0001,
            low: (least + 1 + 127 + 23 - 50) << 23,
            high: (least + 1 + 127 + 53 - 50) << 23,
        }
    }
}

/// Set and unit of a lane. Lanes stand by pairs of units, so that what enters and leaves the
/// accumulators in a step is in adjacent lanes.
#[inline(always)]
fn unit_of(lane: usize, width: usize) -> (usize, usize) {
    (lane % width / 2, lane / width * 2 + lane % 2)
}

/// The values of all units of both sets by lanes; those of one set are in order as they are.
#[inline(always)]
fn by_pairs(values: &[f64; BOTH]) -> [f64; BOTH] {
    std::array::from_fn(|lane| {
        let (set, unit) = unit_of(lane, 4);
        values[UNITS * set + unit]
    })
}

impl Job {
    /// The products of both sets with f16 partial sums, or those of one set with f32.
    pub(crate) fn new(weights: &Weights, both_sets: bool) -> Job {
        let mut lanes = [[[0.0; BOTH]; 4]; STEPS];
        for (phase, slot) in lanes.iter_mut().zip(weights.f16.iter()) {
            for (row, values) in phase.iter_mut().zip(&slot.values) {
                *row = if both_sets { by_pairs(values) } else { *values };
            }
        }
        Job {
            weights: lanes,
            spreads: weights.f16.each_ref().map(|slot| slot.spread),
            limits: Limits::new(&weights.f16),
            run: match (select(), both_sets) {
                (Some((wide, _)), true) => wide,
                (Some((_, narrow)), false) => narrow,
                (None, true) => run::<BOTH, 4, HalfSums, Base, Base>,
                (None, false) => run::<UNITS, 2, SingleSums, Base, Base>,
            },
        }
    }
}

/// How partial sums stand in a pair of registers.
trait Sums<const W: usize> {
    fn unpack<H: Halves>(word: u64) -> [f32; W];
    fn pack<H: Halves>(values: [f32; W], fp: &mut Fp) -> u64;
}

struct HalfSums;

impl Sums<4> for HalfSums {
    #[inline(always)]
    fn unpack<H: Halves>(word: u64) -> [f32; 4] {
        H::expand(word)
    }

    #[inline(always)]
    fn pack<H: Halves>(values: [f32; 4], fp: &mut Fp) -> u64 {
        shrink::<H>(values, fp)
    }
}

struct SingleSums;

impl Sums<2> for SingleSums {
    #[inline(always)]
    fn unpack<H: Halves>(word: u64) -> [f32; 2] {
        [word as u32, (word >> 32) as u32].map(f32::from_bits)
    }

    #[inline(always)]
    fn pack<H: Halves>([low, high]: [f32; 2], _: &mut Fp) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }
}

/// The accumulators of a worker by lanes.
#[derive(Clone, Copy)]
struct State<const N: usize, const W: usize> {
    even: [f32; N],
    /// The odd registers, by the phase in which a pair leaves.
    odd: [[f32; W]; STEPS],
}

impl<const N: usize, const W: usize> State<N, W> {
    #[inline(always)]
    fn take(worker: &Worker, phase: usize) -> Self {
        let acc = &worker.accumulators;
        let even = std::array::from_fn(|lane| {
            let (set, unit) = unit_of(lane, W);
            acc.even[set][unit]
        });
        let mut odd = [[0.0; W]; STEPS];
        for i in 0..STEPS {
            for (lane, value) in odd[(phase + i) % STEPS].iter_mut().enumerate() {
                let set = lane / 2;
                *value = acc.ring[set][(usize::from(acc.head[set]) + i) % STEPS][lane % 2];
            }
        }
        State { even, odd }
    }

    #[inline(always)]
    fn put(&self, worker: &mut Worker, phase: usize) {
        let acc = &mut worker.accumulators;
        for (lane, &value) in self.even.iter().enumerate() {
            let (set, unit) = unit_of(lane, W);
            acc.even[set][unit] = value;
        }
        for set in 0..W / 2 {
            acc.head[set] = phase as u8;
            for (pair, values) in acc.ring[set].iter_mut().zip(&self.odd) {
                *pair = [values[2 * set], values[2 * set + 1]];
            }
        }
    }

    /// Exchanges the registers: start values, and what leaves.
    #[inline(always)]
    fn exchange(&mut self, phase: usize, partials: [f32; W]) -> ([f32; N], [f32; W]) {
        if phase != 0 {
            let out = std::mem::replace(&mut self.odd[phase], partials);
            return (self.even, out);
        }
        let mut start = [0.0; N];
        for (lane, value) in start.iter_mut().enumerate() {
            *value = self.odd[lane / W][lane % W];
        }
        let mut pairs = [[0.0; W]; STEPS];
        for (lane, &value) in self.even.iter().enumerate() {
            pairs[lane / W][lane % W] = value;
        }
        self.odd = [partials, pairs[1], pairs[2], pairs[3]];
        (start, pairs[0])
    }
}

/// The results of an AMP step where the limits hold.
#[inline(always)]
fn step<const N: usize, H: Halves>(
    start: &[f32; N],
    x: u64,
    w: &[[f64; BOTH]; 4],
    limits: &Limits,
) -> Option<[f32; N]> {
    const MAGNITUDE: u32 = 0x7fff_ffff;
    if ((x & MAGNITUDES) + limits.addend) & SIGNS != 0 {
        return None;
    }
    let x = H::expand(x).map(f64::from);
    let mut next = [0.0; N];
    for u in 0..N {
        let sum = if H::FUSED {
            products::<BOTH, true>(&x, w, u)
        } else {
            products::<BOTH, false>(&x, w, u)
        };
        next[u] = (f64::from(start[u]) + sum) as f32;
    }
    let mut exact = true;
    for u in 0..N {
        let (before, after) = (
            start[u].to_bits() & MAGNITUDE,
            next[u].to_bits() & MAGNITUDE,
        );
        // Zero is the greatest number here.
        exact &= (before.wrapping_sub(1) >= limits.low - 1) & (after < limits.high);
    }
    exact.then_some(next)
}

/// Whole rows while limits hold, by processor.
trait Fast<const N: usize, const W: usize> {
    /// Does rows from one on; returns the row and the step to go on with.
    fn rows<const FIRST: usize>(
        job: &Job,
        course: &Course,
        state: &mut State<N, W>,
        pairs: &mut [u64; 16],
        ram: &mut Ram,
        row: u32,
    ) -> (u32, usize);
}

/// All rows step by step.
impl<const N: usize, const W: usize> Fast<N, W> for Base {
    #[inline(always)]
    fn rows<const FIRST: usize>(
        _: &Job,
        _: &Course,
        _: &mut State<N, W>,
        _: &mut [u64; 16],
        _: &mut Ram,
        row: u32,
    ) -> (u32, usize) {
        (row, 0)
    }
}

#[inline(always)]
fn run_from<const FIRST: usize, const N: usize, const W: usize, S, F, H>(
    (job, course): (&Job, &Course),
    worker: &mut Worker,
    ram: &mut Ram,
    fp: &mut Fp,
) where
    S: Sums<W>,
    F: Fast<N, W>,
    H: Halves,
{
    let mut state = State::<N, W>::take(worker, FIRST);
    let mut pairs = [0; 16];
    for (i, pair) in pairs[..8].iter_mut().enumerate() {
        *pair = worker.registers.a_pair(2 * i as u8);
    }
    let mut row = 0;
    while row < course.rows {
        let (reached, from) = F::rows::<FIRST>(job, course, &mut state, &mut pairs, ram, row);
        row = reached;
        if row == course.rows {
            break;
        }
        // The rest of a row, step by step.
        let at = course.at(row);
        for j in from..STEPS {
            let registers = &course.steps[j];
            let phase = (FIRST + j) % STEPS;
            let w = &job.weights[phase];
            let (x, partials) = (pairs[registers.x()], pairs[registers.partials()]);
            let (start, out) = state.exchange(phase, S::unpack::<H>(partials));
            state.even = match step::<N, H>(&start, x, w, &job.limits) {
                Some(next) => next,
                None => dots::<N, BOTH, H>(start, x, (w, job.spreads[phase]), fp),
            };
            let result = S::pack::<H>(out, fp);
            course.transfer(j, &at, &mut pairs, ram);
            pairs[registers.result()] = result;
        }
        row += 1;
    }
    state.put(worker, FIRST);
    for (i, &pair) in pairs[..4].iter().enumerate() {
        worker.registers.set_a_pair(2 * i as u8, pair);
    }
}

/// A [`RowsRun`]: the phases are constants of four loops.
#[inline(always)]
fn run<const N: usize, const W: usize, S: Sums<W>, F: Fast<N, W>, H: Halves>(
    job: &Job,
    course: &Course,
    worker: &mut Worker,
    ram: &mut Ram,
    fp: &mut Fp,
) {
    let both = (job, course);
    match course.phase {
        0 => run_from::<0, N, W, S, F, H>(both, worker, ram, fp),
        1 => run_from::<1, N, W, S, F, H>(both, worker, ram, fp),
        2 => run_from::<2, N, W, S, F, H>(both, worker, ram, fp),
        _ => run_from::<3, N, W, S, F, H>(both, worker, ram, fp),
    }
}

#[cfg(target_arch = "x86_64")]
mod compiled {
    use super::*;

    /// A processor with AVX-512.
    struct Avx512;

    macro_rules! fast {
        ($units:expr, $width:literal, $function:ident) => {
            impl Fast<{ $units }, $width> for Avx512 {
                #[inline(always)]
                fn rows<const FIRST: usize>(
                    job: &Job,
                    course: &Course,
                    state: &mut State<{ $units }, $width>,
                    pairs: &mut [u64; 16],
                    ram: &mut Ram,
                    row: u32,
                ) -> (u32, usize) {
                    // SAFETY: used only by functions that `select` hands out where the features
                    // exist.
                    unsafe { avx512::$function::<FIRST>(job, course, state, pairs, ram, row) }
                }
            }
        };
    }

    fast!(BOTH, 4, wide);
    fast!(UNITS, 2, narrow);

    macro_rules! variant {
        ($name:ident, $inner:ident, $units:expr, $width:literal, $sums:ident, $fast:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            fn $inner(job: &Job, course: &Course, worker: &mut Worker, ram: &mut Ram, fp: &mut Fp) {
                run::<{ $units }, $width, $sums, $fast, vector::Vector>(
                    job, course, worker, ram, fp,
                );
            }

            pub(super) fn $name(
                job: &Job,
                course: &Course,
                worker: &mut Worker,
                ram: &mut Ram,
                fp: &mut Fp,
            ) {
                // SAFETY: `select` hands this function out only where the features exist.
                unsafe { $inner(job, course, worker, ram, fp) }
            }
        };
    }

    variant!(
        wide_avx2,
        wide_avx2_inner,
        BOTH,
        4,
        HalfSums,
        Base,
        "avx2,fma,f16c"
    );
    variant!(
        narrow_avx2,
        narrow_avx2_inner,
        UNITS,
        2,
        SingleSums,
        Base,
        "avx2,fma,f16c"
    );
    variant!(
        wide_avx512,
        wide_avx512_inner,
        BOTH,
        4,
        HalfSums,
        Avx512,
        "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
    );
    variant!(
        narrow_avx512,
        narrow_avx512_inner,
        UNITS,
        2,
        SingleSums,
        Avx512,
        "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
    );
}

/// The functions of this processor for both sets and for one.
#[cfg(target_arch = "x86_64")]
fn select() -> Option<(RowsRun, RowsRun)> {
    match vector::width()? {
        vector::Width::Avx2 => Some((compiled::wide_avx2, compiled::narrow_avx2)),
        vector::Width::Avx512 => Some((compiled::wide_avx512, compiled::narrow_avx512)),
    }
}

/// The functions of this processor for both sets and for one.
#[cfg(not(target_arch = "x86_64"))]
fn select() -> Option<(RowsRun, RowsRun)> {
    None
}
