//! [`run_from`](super::run_from) while the limits hold, in registers of AVX-512.
//!
//! Accumulators are checked when they arise: each is zero or within the limits of all phases, so
//! that the next step that starts from it is exact and, for f16 sums, leaves no overflow behind.
//! Where a step does not pass, nothing of it has happened. Memory is read and written row by row.

use std::arch::x86_64::*;

use super::{BOTH, Course, Job, MAGNITUDES, SIGNS, STEPS, State, UNITS};
use crate::memory::Ram;

/// Bits below the sign of an f32.
const MAGNITUDE: i32 = 0x7fff_ffff;

/// Eight values from an index on.
#[target_feature(enable = "avx512f")]
#[inline]
fn doubles(values: &[f64; BOTH], from: usize) -> __m512d {
    // SAFETY: the slice has eight values.
    unsafe { _mm512_loadu_pd(values[from..from + 8].as_ptr()) }
}

/// Eight values from an index on.
#[target_feature(enable = "avx512f")]
#[inline]
fn singles(values: &[f32], from: usize) -> __m256 {
    // SAFETY: the slice has eight values.
    unsafe { _mm256_loadu_ps(values[from..from + 8].as_ptr()) }
}

/// Stores eight values from an index on.
#[target_feature(enable = "avx512f")]
#[inline]
fn put_singles(values: &mut [f32], from: usize, value: __m256) {
    // SAFETY: the slice has eight values.
    unsafe { _mm256_storeu_ps(values[from..from + 8].as_mut_ptr(), value) }
}

/// The values of four halves, each for all lanes.
#[target_feature(enable = "avx512f,f16c")]
#[inline]
fn spread_halves(word: u64) -> [__m512d; 4] {
    let values = _mm256_cvtps_pd(_mm_cvtph_ps(_mm_cvtsi64_si128(word as i64)));
    let values = _mm512_broadcast_f64x4(values);
    [
        _mm512_permutex_pd::<0x00>(values),
        _mm512_permutex_pd::<0x55>(values),
        _mm512_permutex_pd::<0xaa>(values),
        _mm512_permutex_pd::<0xff>(values),
    ]
}

/// Eight dot products with a start value.
#[target_feature(enable = "avx512f")]
#[inline]
fn dot(start: __m256, x: &[__m512d; 4], w: &[[f64; BOTH]; 4], from: usize) -> __m256 {
    let mut sum = _mm512_mul_pd(x[0], doubles(&w[0], from));
    for k in 1..4 {
        sum = _mm512_fmadd_pd(x[k], doubles(&w[k], from), sum);
    }
    _mm512_cvtpd_ps(_mm512_add_pd(_mm512_cvtps_pd(start), sum))
}

/// Sixteen lanes of two times eight.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn join(low: __m256, high: __m256) -> __m512i {
    _mm512_castps_si512(_mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high))
}

/// Eight lanes of two times four.
#[target_feature(enable = "avx512f")]
#[inline]
fn join_pairs(low: __m128, high: __m128) -> __m256 {
    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
}

/// Rows with f16 sums in both sets, from `row` on; returns the row and the step to go on with.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
pub(super) fn wide<const FIRST: usize>(
    job: &Job,
    course: &Course,
    state: &mut State<BOTH, 4>,
    pairs: &mut [u64; 16],
    ram: &mut Ram,
    mut row: u32,
) -> (u32, usize) {
    // Results up to here round to finite f16.
    const FINITE: u32 = 65520f32.to_bits();
    let limits = &job.limits;
    let low = _mm512_set1_epi32(limits.low as i32);
    let span = _mm512_set1_epi32((limits.high.min(FINITE) - limits.low) as i32);
    let magnitude = _mm512_set1_epi32(MAGNITUDE);
    let outside = |a, b| {
        let m = _mm512_and_si512(join(a, b), magnitude);
        let far = _mm512_cmpge_epu32_mask(_mm512_sub_epi32(m, low), span);
        _mm512_mask_test_epi32_mask(far, m, m)
    };
    let mut lo = singles(&state.even, 0);
    let mut hi = singles(&state.even, 8);
    let odd = state.odd.as_flattened();
    let [first, second] = [singles(odd, 0), singles(odd, 8)];
    if !course.whole || outside(lo, hi) | outside(first, second) != 0 {
        return (row, 0);
    }
    let mut odd = [
        _mm256_castps256_ps128(first),
        _mm256_extractf128_ps::<1>(first),
        _mm256_castps256_ps128(second),
        _mm256_extractf128_ps::<1>(second),
    ];
    let mut at = course.at(row);
    let mut stopped = 0;
    let mut stored = [0; STEPS];
    let (mut xs, mut sums);
    macro_rules! step {
        ($rows:lifetime, $j:literal) => {
            let phase = const { (FIRST + $j) % STEPS };
            let registers = &course.steps[$j];
            let x = pairs[registers.x()];
            let partials = pairs[registers.partials()];
            let partials = _mm_cvtph_ps(_mm_cvtsi64_si128(partials as i64));
            let (start_lo, start_hi, out, mut wrong);
            if phase == 0 {
                (start_lo, start_hi) = (join_pairs(odd[0], odd[1]), join_pairs(odd[2], odd[3]));
                out = _mm256_castps256_ps128(lo);
                wrong = outside(start_lo, start_hi);
            } else {
                (start_lo, start_hi) = (lo, hi);
                out = odd[phase];
                wrong = 0;
            }
            let w = &job.weights[phase];
            let values = spread_halves(x);
            let next_lo = dot(start_lo, &values, w, 0);
            let next_hi = dot(start_hi, &values, w, 8);
            wrong |= outside(next_lo, next_hi);
            if (wrong != 0) | (((x & MAGNITUDES) + limits.addend) & SIGNS != 0) {
                stopped = $j;
                break $rows;
            }
            if phase == 0 {
                odd = [
                    partials,
                    _mm256_extractf128_ps::<1>(lo),
                    _mm256_castps256_ps128(hi),
                    _mm256_extractf128_ps::<1>(hi),
                ];
            } else {
                odd[phase] = partials;
            }
            (lo, hi) = (next_lo, next_hi);
            let result = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(out);
            stored[$j] = pairs[registers.stored()];
            pairs[registers.loaded(0)] = xs[$j];
            pairs[registers.loaded(1)] = sums[$j];
            pairs[registers.result()] = _mm_cvtsi128_si64(result) as u64;
        };
    }
    'rows: while row < course.rows {
        (xs, sums) = (ram.peek_row(at[0]), ram.peek_row(at[1]));
        step!('rows, 0);
        step!('rows, 1);
        step!('rows, 2);
        step!('rows, 3);
        ram.poke_row(at[2], stored);
        row += 1;
        course.next_row(&mut at);
    }
    for (&value, offset) in stored[..stopped].iter().zip((at[2]..).step_by(8)) {
        ram.poke64(offset, value);
    }
    put_singles(&mut state.even, 0, lo);
    put_singles(&mut state.even, 8, hi);
    let flat = state.odd.as_flattened_mut();
    put_singles(flat, 0, join_pairs(odd[0], odd[1]));
    put_singles(flat, 8, join_pairs(odd[2], odd[3]));
    (row, stopped)
}

/// Rows with f32 sums in one set, as [`wide`].
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
pub(super) fn narrow<const FIRST: usize>(
    job: &Job,
    course: &Course,
    state: &mut State<UNITS, 2>,
    pairs: &mut [u64; 16],
    ram: &mut Ram,
    mut row: u32,
) -> (u32, usize) {
    let limits = &job.limits;
    let low = _mm256_set1_epi32(limits.low as i32);
    let span = _mm256_set1_epi32((limits.high - limits.low) as i32);
    let magnitude = _mm256_set1_epi32(MAGNITUDE);
    let outside = |a| {
        let m = _mm256_and_si256(_mm256_castps_si256(a), magnitude);
        let far = _mm256_cmpge_epu32_mask(_mm256_sub_epi32(m, low), span);
        _mm256_mask_test_epi32_mask(far, m, m)
    };
    let pair_of = |values: __m128| _mm_cvtsi128_si64(_mm_castps_si128(values)) as u64;
    let upper = |values: __m128| _mm_movehl_ps(values, values);
    let mut even = singles(&state.even, 0);
    if !course.whole || outside(even) != 0 {
        return (row, 0);
    }
    let odd = singles(state.odd.as_flattened(), 0);
    let (low_half, high_half) = (_mm256_castps256_ps128(odd), _mm256_extractf128_ps::<1>(odd));
    let mut odd = [low_half, upper(low_half), high_half, upper(high_half)].map(pair_of);
    let mut at = course.at(row);
    let mut stopped = 0;
    let mut stored = [0; STEPS];
    let (mut xs, mut sums);
    macro_rules! step {
        ($rows:lifetime, $j:literal) => {
            let phase = const { (FIRST + $j) % STEPS };
            let registers = &course.steps[$j];
            let x = pairs[registers.x()];
            let partials = pairs[registers.partials()];
            let (start, out, mut wrong);
            let halves = (
                _mm256_castps256_ps128(even),
                _mm256_extractf128_ps::<1>(even),
            );
            if phase == 0 {
                let [a, b, c, d] = odd.map(|pair| pair as i64);
                start = _mm256_castsi256_ps(_mm256_set_epi64x(d, c, b, a));
                out = pair_of(halves.0);
                wrong = outside(start);
            } else {
                start = even;
                out = odd[phase];
                wrong = 0;
            }
            let next = dot(start, &spread_halves(x), &job.weights[phase], 0);
            wrong |= outside(next);
            if (wrong != 0) | (((x & MAGNITUDES) + limits.addend) & SIGNS != 0) {
                stopped = $j;
                break $rows;
            }
            if phase == 0 {
                odd = [
                    partials,
                    pair_of(upper(halves.0)),
                    pair_of(halves.1),
                    pair_of(upper(halves.1)),
                ];
            } else {
                odd[phase] = partials;
            }
            even = next;
            stored[$j] = pairs[registers.stored()];
            pairs[registers.loaded(0)] = xs[$j];
            pairs[registers.loaded(1)] = sums[$j];
            pairs[registers.result()] = out;
        };
    }
    'rows: while row < course.rows {
        (xs, sums) = (ram.peek_row(at[0]), ram.peek_row(at[1]));
        step!('rows, 0);
        step!('rows, 1);
        step!('rows, 2);
        step!('rows, 3);
        ram.poke_row(at[2], stored);
        row += 1;
        course.next_row(&mut at);
    }
    for (&value, offset) in stored[..stopped].iter().zip((at[2]..).step_by(8)) {
        ram.poke64(offset, value);
    }
    put_singles(&mut state.even, 0, even);
    for (values, pair) in state.odd.iter_mut().zip(odd) {
        *values = [pair as u32, (pair >> 32) as u32].map(f32::from_bits);
    }
    (row, stopped)
}
