//! Kernels of contractions that several tiles share: the simulator's bits against the meaning, both
//! against f64, and the law, over random shapes.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

mod call;

use call::{Call, Outcome, random, run};
use half::f16;
use ipu_program::kernels::share;
use ipu_program::types::ElementType::{F16, F32};
use proptest::prelude::*;

/// Half the spacing of f16 at a magnitude.
fn half_ulp(x: f64) -> f64 {
    (x.abs().max(2f64.powi(-14)).log2().floor() - 11.0).exp2()
}

fn reduce(addend: bool, relu: bool, pairs: u32, parts: u32, gap: u32, seed: u32) -> Outcome {
    let part_stride = (pairs + gap) * 16;
    let (count, elements) = (parts * part_stride / 2, pairs * 8);
    let partials = random(F16, count, seed);
    let b = random(F16, elements, seed ^ 5);
    let mut buffers = vec![(F16, count, Some(partials.clone()))];
    if addend {
        buffers.push((F16, elements, Some(b.clone())));
    }
    buffers.push((F16, elements, None));
    let (add, act) = (
        ["", "_add"][usize::from(addend)],
        ["", "_relu"][usize::from(relu)],
    );
    let mut words = share(pairs).to_vec();
    words.extend([parts, part_stride]);
    let outcome = run(&Call {
        kernel: &format!("reduce_halves_f16{add}{act}"),
        buffers,
        words,
    });
    for (i, &got) in outcome.meaning.iter().enumerate() {
        let terms = (0..parts).map(|p| partials[(p * part_stride / 2) as usize + i]);
        let terms: Vec<f64> = terms.chain(addend.then(|| b[i])).map(f64::from).collect();
        let sum: f64 = terms.iter().sum();
        let size: f64 = terms.iter().map(|t| t.abs()).sum();
        let exact = if relu { sum.max(0.0) } else { sum };
        let bound = half_ulp(exact) + size * f64::from(parts) * 2f64.powi(-24);
        let error = (f64::from(got) - exact).abs();
        assert!(error <= bound, "element {i}: {got} {exact}");
    }
    outcome
}

/// The exponentials of a part of each row, with what the combination needs of them.
fn softmax(rows: u32, columns: u32, scale: f32, seed: u32) -> Outcome {
    let panels = columns.div_ceil(16);
    let at = |r: u32, c: u32| ((c / 16 * rows + r) * 16 + c % 16) as usize;
    let mut x = vec![f32::NAN; (panels * rows * 16) as usize];
    for (i, value) in random(F16, rows * columns, seed).into_iter().enumerate() {
        x[at(i as u32 / columns, i as u32 % columns)] = value;
    }
    // A row of statistics in front.
    let offset = 32;
    let elements = x.len() as u32;
    let stats = rows * 8 + offset / 4;
    let [each, extra] = share(rows);
    let outcome = run(&Call {
        kernel: "softmax_partial_f16",
        buffers: vec![
            (F16, elements, Some(x.clone())),
            (F16, elements, None),
            (F32, stats, None),
        ],
        words: vec![
            each,
            extra,
            columns,
            32,
            32 * rows,
            32,
            32 * rows,
            scale.to_bits(),
            offset,
        ],
    });
    let (out, stats) = outcome.meaning.split_at(elements as usize);
    for row in 0..rows {
        let score = |c: u32| f64::from(scale) * f64::from(x[at(row, c)]);
        let largest = (0..columns).map(score).fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for c in 0..panels * 16 {
            let got = f64::from(out[at(row, c)]);
            if c >= columns {
                assert_eq!(got, 0.0, "row {row} column {c}");
                continue;
            }
            sum += got;
            let distance = largest - score(c);
            let exact = (-distance).exp();
            let bound = exact * (distance.max(2.0) + 2.0) * 2f64.powi(-11) + 2f64.powi(-24);
            assert!(
                (got - exact).abs() <= bound,
                "row {row} column {c}: {got} {exact}"
            );
        }
        let kept = &stats[(offset / 4 + row * 8) as usize..][..8];
        assert!(
            (f64::from(kept[0]) - sum).abs() <= sum * 1e-5,
            "row {row}: {kept:?} {sum}"
        );
        let shift = -largest * std::f64::consts::LOG2_E;
        let error = (f64::from(kept[1]) - shift).abs();
        // The second part of the factor is a multiple of 2^-24.
        let rounded = largest.abs() / f64::from(scale) * 2f64.powi(-23);
        assert!(
            error <= shift.abs() * 1e-6 + rounded + 1e-6,
            "row {row}: {kept:?} {shift}"
        );
        assert_eq!(kept[2..], [0.0; 6]);
    }
    outcome
}

/// The parts of softmax times values of random sizes, put together.
fn combine(rows: u32, panels: u32, parts: u32, gap: u32, seed: u32) -> Outcome {
    let panel = (rows + gap) * 32;
    let stride = panel * (panels + 1);
    let mut partials = random(F16, parts * stride / 2, seed);
    let mut stats = Vec::new();
    let draws = random(F32, parts * rows * 2, seed ^ 9);
    for part in 0..parts {
        for row in 0..rows {
            let i = ((part * rows + row) * 2) as usize;
            // Sums are 1 at least, shifts of parts a few powers of 2 apart.
            let kept = [1.0 + draws[i].abs(), draws[i + 1].clamp(-20.0, 20.0)];
            let at = ((part * stride + panels * panel + row * 32) / 2) as usize;
            for (j, value) in kept.into_iter().enumerate() {
                let bits = value.to_bits();
                for (k, half) in [bits as u16, (bits >> 16) as u16].into_iter().enumerate() {
                    partials[at + 2 * j + k] = f16::from_bits(half).to_f32();
                }
            }
            stats.push(kept.map(f64::from));
        }
    }
    let out_panel = rows * 32;
    let [each, extra] = share(rows);
    let outcome = run(&Call {
        kernel: "combine_softmax_f16",
        buffers: vec![
            (F16, parts * stride / 2, Some(partials.clone())),
            (F32, 6 * parts, None),
            (F16, panels * out_panel / 2, None),
        ],
        words: vec![each, extra, panels, parts, stride, panel, out_panel],
    });
    for row in 0..rows {
        let kept = |part: u32| stats[(part * rows + row) as usize];
        let smallest = (0..parts).map(|p| kept(p)[1]).fold(f64::INFINITY, f64::min);
        let weight = |p: u32| (smallest - kept(p)[1]).exp2();
        let sum: f64 = (0..parts).map(|p| kept(p)[0] * weight(p)).sum();
        for column in 0..panels * 16 {
            let term = |p: u32| {
                let at = p * stride / 2 + column / 16 * panel / 2 + row * 16 + column % 16;
                f64::from(partials[at as usize]) * weight(p) / sum
            };
            let exact: f64 = (0..parts).map(term).sum();
            let size: f64 = (0..parts).map(|p| term(p).abs()).sum();
            let at = column / 16 * out_panel / 2 + row * 16 + column % 16;
            let got = f64::from(outcome.meaning[at as usize]);
            // Weights and products are rounded to f16, weights perhaps as subnormals.
            let subnormal = 2f64.powi(-25) * (f64::from(parts) * 260.0 + 1.0);
            let bound = size * 3.0 * 2f64.powi(-11) + subnormal;
            assert!(
                (got - exact).abs() <= bound,
                "row {row} column {column}: {got} {exact}"
            );
        }
    }
    outcome
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sums_of_f16_partial_products(
        addend: bool, relu: bool, pairs in 1u32..80, parts in 1u32..9, gap in 0u32..3, seed: u32,
    ) {
        reduce(addend, relu, pairs, parts, gap, seed).check("reduce", |_| true);
    }

    #[test]
    fn softmax_of_parts(rows in 1u32..30, columns in 1u32..100, large: bool, seed: u32) {
        let scale = if large { 0.7 } else { 0.02 };
        let panels = columns.div_ceil(16) * rows * 16;
        // In front of the statistics nothing is written.
        let written = move |i: usize| !(panels as usize..panels as usize + 8).contains(&i);
        softmax(rows, columns, scale, seed).check("softmax", written);
    }

    #[test]
    fn combinations(
        rows in 1u32..20, panels in 1u32..6, parts in 1u32..14, gap in 0u32..3, seed: u32,
    ) {
        combine(rows, panels, parts, gap, seed).check("combine", |_| true);
    }
}

#[test]
fn shapes_of_the_attention_block_follow_the_laws() {
    let all = |_| true;
    reduce(false, false, 146 * 6 / 4, 4, 0, 1).check("reduce", all);
    reduce(true, true, 700, 11, 0, 2).check("reduce", all);
    softmax(81, 73, 0.1, 3).check("softmax", |i| !(6480..6488).contains(&i));
    combine(9, 5, 10, 0, 4).check("combine", all);
    combine(6, 1, 33, 0, 5).check("combine", all);
}
