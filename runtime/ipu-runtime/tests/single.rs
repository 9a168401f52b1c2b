//! Row-wise and column-wise kernels of f32: the simulator and the interpreter give the same bits, in the
//! cycles of the law, and the results are those of f64 arithmetic within the errors stated here.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

mod call;

use call::{Call, Outcome, random, run};
use ipu_program::kernels::share;
use ipu_program::types::ElementType::F32;
use proptest::prelude::*;

/// A matrix in panels or rows of 16 columns, in raw memory: padding holds NaN.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    rows: u32,
    columns: u32,
    /// Whether row follows row, not panel panel.
    in_rows: bool,
}

impl Matrix {
    fn panels(self) -> u32 {
        self.columns.div_ceil(16)
    }

    /// Bytes from a row to the next and from a panel to the next.
    fn strides(self) -> [u32; 2] {
        match self.in_rows {
            true => [64 * self.panels(), 64],
            false => [64, 64 * self.rows],
        }
    }

    fn elements(self) -> u32 {
        16 * self.rows * self.panels()
    }

    fn at(self, row: u32, column: u32) -> usize {
        let [r, p] = self.strides();
        ((row * r + column / 16 * p) / 4 + column % 16) as usize
    }

    /// Values from -`bound` to `bound`.
    fn values(self, bound: f32, seed: u32) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.elements() as usize];
        let numbers = random(F32, self.rows * self.columns, seed);
        for row in 0..self.rows {
            for column in 0..self.columns {
                let x = numbers[(row * self.columns + column) as usize];
                out[self.at(row, column)] = x % bound;
            }
        }
        out
    }

    fn row(self, values: &[f32], row: u32) -> Vec<f64> {
        let columns = 0..self.columns;
        columns
            .map(|c| f64::from(values[self.at(row, c)]))
            .collect()
    }
}

fn words(m: Matrix, more: &[u32]) -> Vec<u32> {
    let [row, panel] = m.strides();
    let [each, extra] = share(m.rows);
    let mut words = vec![each, extra, m.columns, row, panel, row, panel];
    words.extend(more);
    words
}

/// A vector padded to panels with zeros.
fn vector(columns: u32, seed: u32) -> Vec<f32> {
    let mut v = random(F32, columns, seed);
    v.iter_mut().for_each(|x| *x %= 2.0);
    v.resize(columns.next_multiple_of(16) as usize, 0.0);
    v
}

/// Checks bits and law, and rows against `expected` within `error` times the largest of them.
fn check(m: Matrix, outcome: &Outcome, what: &str, error: f64, expected: impl Fn(u32) -> Vec<f64>) {
    outcome.check(what, |_| true);
    for row in 0..m.rows {
        let expected = expected(row);
        let found = m.row(&outcome.simulated, row);
        let largest = expected.iter().fold(1e-30, |l: f64, x| l.max(x.abs()));
        for (column, (e, f)) in expected.iter().zip(&found).enumerate() {
            let off = (e - f).abs() / largest;
            assert!(
                off <= error,
                "{what}: {row}, {column}: {e} {f}, off by {off:e}"
            );
        }
    }
}

fn softmax(x: &[f64], scale: f64) -> Vec<f64> {
    let largest = x.iter().fold(f64::NEG_INFINITY, |l, &x| l.max(x));
    let e: Vec<f64> = x.iter().map(|x| ((x - largest) * scale).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (1u32..20, 1u32..90, any::<bool>()).prop_map(|(rows, columns, in_rows)| Matrix {
        rows,
        columns,
        in_rows,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn shares(m in matrix(), scale in 0.0f32..2.0, seed: u32) {
        let x = m.values(8.0, seed);
        let outcome = run(&Call {
            kernel: "softmax_f32",
            buffers: vec![(F32, m.elements(), Some(x.clone())), (F32, m.elements(), None)],
            words: words(m, &[scale.to_bits()]),
        });
        check(m, &outcome, &format!("{m:?}"), 3e-6, |row| softmax(&m.row(&x, row), scale.into()));
        let padded = (0..m.elements() as usize).filter(|&i| x[i].is_nan());
        for i in padded {
            prop_assert_eq!(outcome.simulated[i].to_bits(), 0);
        }
    }

    #[test]
    fn shares_of_what_is_seen(
        m in matrix(), first in 0u32..9, more in 0u32..9, visible in 1u32..70, seed: u32,
    ) {
        let x = m.values(8.0, seed);
        let period = first + 1 + more;
        let outcome = run(&Call {
            kernel: "softmax_causal_f32",
            buffers: vec![(F32, m.elements(), Some(x.clone())), (F32, m.elements(), None)],
            words: words(m, &[0.5f32.to_bits(), first, period, visible]),
        });
        check(m, &outcome, &format!("{m:?} {first} {period} {visible}"), 3e-6, |row| {
            let mut x = m.row(&x, row);
            let seen = m.columns.min(visible + (first + row) % period) as usize;
            let mut y = softmax(&x[..seen], 0.5);
            y.resize(x.len(), 0.0);
            x.clear();
            y
        });
    }

    #[test]
    fn norms(m in matrix(), layer: bool, offset in -4.0f32..4.0, seed: u32) {
        let mut x = m.values(4.0, seed);
        x.iter_mut().for_each(|x| *x += offset);
        let (scale, bias) = (vector(m.columns, seed ^ 5), vector(m.columns, seed ^ 9));
        let n = f64::from(m.columns);
        let epsilon = 1e-5f32;
        let padded = m.panels() * 16;
        let mut buffers = vec![
            (F32, m.elements(), Some(x.clone())),
            (F32, padded, Some(scale.clone())),
        ];
        if layer {
            buffers.push((F32, padded, Some(bias.clone())));
        }
        buffers.push((F32, m.elements(), None));
        let outcome = run(&Call {
            kernel: if layer { "layer_norm_f32" } else { "rms_norm_f32" },
            buffers,
            words: words(m, &[epsilon.to_bits(), (1.0 / m.columns as f32).to_bits()]),
        });
        // Padding of x is NaN here, so that of the result says nothing.
        let data = |i: usize| !x[i].is_nan();
        outcome.check(&format!("{m:?} {layer}"), data);
        for row in 0..m.rows {
            let values = m.row(&x, row);
            let mean = if layer { values.iter().sum::<f64>() / n } else { 0.0 };
            let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
            let deviation = (squares / n + f64::from(epsilon)).sqrt();
            let found = m.row(&outcome.simulated, row);
            for (c, (x, found)) in values.iter().zip(found).enumerate() {
                let bias = if layer { f64::from(bias[c]) } else { 0.0 };
                let expected = (x - mean) / deviation * f64::from(scale[c]) + bias;
                // The rounding of the mean weighs as much more as deviations are smaller than it.
                let weight = 1.0 + mean.abs() / deviation;
                prop_assert!((expected - found).abs() <= 4e-6 * weight * (1.0 + expected.abs()),
                    "{:?} {} {}: {} {}", m, row, c, expected, found);
            }
        }
    }

    #[test]
    fn reductions_of_rows(m in matrix(), largest: bool, seed: u32) {
        let x = m.values(8.0, seed);
        let [row, panel] = m.strides();
        let [each, extra] = share(m.rows);
        let factor = 0.25f32;
        let outcome = run(&Call {
            kernel: if largest { "reduce_row_max_f32" } else { "reduce_row_sum_f32" },
            buffers: vec![(F32, m.elements(), Some(x.clone())), (F32, 16 * m.rows, None)],
            words: vec![each, extra, m.columns, row, panel, 64, factor.to_bits()],
        });
        outcome.check(&format!("{m:?} {largest}"), |_| true);
        for row in 0..m.rows {
            let x = m.row(&x, row);
            let found = f64::from(outcome.simulated[16 * row as usize]);
            match largest {
                true => prop_assert_eq!(found, x.iter().fold(f64::NEG_INFINITY, |l, &x| l.max(x))),
                false => {
                    let size: f64 = x.iter().map(|x| x.abs()).sum();
                    let off = (found - x.iter().sum::<f64>() / 4.0).abs();
                    prop_assert!(off <= 1e-6 * (size + 1e-6), "{} off by {}", found, off);
                }
            }
        }
    }

    #[test]
    fn reductions_of_columns(
        groups in 1u32..5, rows in 1u32..20, panels in 1u32..4, largest: bool, seed: u32,
    ) {
        let elements = 16 * groups * rows * panels;
        let x = random(F32, elements, seed);
        let (panel, group) = (64 * groups * rows, 64 * rows);
        let outcome = run(&Call {
            kernel: if largest { "reduce_column_max_f32" } else { "reduce_column_sum_f32" },
            buffers: vec![
                (F32, elements, Some(x.clone())),
                (F32, 16 * groups * panels, None),
            ],
            words: vec![
                groups, rows, panels, 64, panel, group, 64, 64 * groups, 0.5f32.to_bits(),
            ],
        });
        outcome.check(&format!("{groups} {rows} {panels} {largest}"), |_| true);
        for g in 0..groups {
            for column in 0..16 * panels {
                let at = |r: u32| (column / 16 * panel + g * group) / 4 + r * 16 + column % 16;
                let column_of = |r| f64::from(x[at(r) as usize]);
                let values: Vec<f64> = (0..rows).map(column_of).collect();
                let place = (column / 16 * groups + g) * 16 + column % 16;
                let found = f64::from(outcome.simulated[place as usize]);
                match largest {
                    true => prop_assert_eq!(
                        found,
                        values.iter().fold(f64::NEG_INFINITY, |l, &x| l.max(x))
                    ),
                    false => {
                        let size: f64 = values.iter().map(|x| x.abs()).sum();
                        let off = (found - values.iter().sum::<f64>() / 2.0).abs();
                        prop_assert!(off <= 1e-6 * size, "{} off by {}", found, off);
                    }
                }
            }
        }
    }
}
