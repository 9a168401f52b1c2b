//! Kernels of contractions that several tiles share in f16: sums of partial sums, the softmax of a
//! part of the keys, and what makes one result of its products.

use super::arith::{Factor, accumulated, half_exp2, half_max, half_of};
use super::rowwise::{LANES, LOG2_E, add, lanes, lateral};
use super::{BLOCK, Call, HALF};
use crate::numerics::{max, min};
use crate::tile::{Memory, TileError};
use ipu_program::layout::PANEL;

/// Elements of a pair of atoms.
const PAIR: u64 = 8;

impl Call<'_> {
    /// Sums f16 partial results and an addend in f32.
    pub(super) fn reduce_halves(
        &self,
        memory: &mut Memory<'_>,
        addend: bool,
        relu: bool,
    ) -> Result<(), TileError> {
        let bytes = self.total("pairs")? * PAIR * HALF;
        let stride = self.word("part_stride")?;
        let mut sums = vec![0f32; self.read(memory, "out", 0, bytes)?.len() / HALF as usize];
        let mut accumulate = |data: Vec<f32>| {
            for (sum, e) in sums.iter_mut().zip(data) {
                *sum += accumulated(e);
            }
        };
        for part in 0..self.word("parts")? {
            accumulate(self.halves(memory, "partials", part * stride, bytes)?);
        }
        if addend {
            accumulate(self.halves(memory, "b", 0, bytes)?);
        }
        let out = sums.into_iter().map(|sum| {
            let sum = half_of(sum);
            if relu { max(sum, 0.0) } else { sum }
        });
        self.write_halves(memory, "out", 0, out)
    }

    /// Exponentials of a part of each row, with their sum and the shift of the row.
    pub(super) fn softmax_partial(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let columns = self.word("columns")?;
        let panels = columns.div_ceil(PANEL.into());
        let factor = Factor::truncated(self.float("scale")? * LOG2_E);
        let (mut results, mut stats) = (Vec::new(), Vec::new());
        for row in 0..self.rows(memory, panels)? {
            let mut x = self.row(memory, "x", row, panels)?;
            let seen = columns as usize;
            let largest = x[..seen].iter().fold(f32::NAN, |m, &x| half_max(m, x));
            let shift = factor.times(half_of(-largest));
            for x in &mut x[..seen] {
                *x = half_exp2(half_of(factor.times(*x) + shift));
            }
            x[seen..].fill(0.0);
            stats.push([lateral(&lanes::<LANES>(x.iter().copied(), add)), shift]);
            results.push(x);
        }
        let offset = self.word("stats_offset")?;
        for (row, stats) in (0..).zip(stats) {
            let row_stats = stats.into_iter().chain([0.0; 6]);
            self.write_singles(memory, "stats", offset + row * BLOCK, row_stats)?;
        }
        self.write_rows(memory, results)
    }

    /// The products of the parts of the keys to one.
    pub(super) fn combine_softmax(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let (panels, parts) = (self.word("panels")?, self.word("parts")?);
        let (part_stride, panel_stride) = (self.word("part_stride")?, self.word("partial_panel")?);
        let mut results = Vec::new();
        for row in 0..self.total("rows")? {
            let mut stats = Vec::new();
            for part in 0..parts {
                let at = part * part_stride + panels * panel_stride + row * BLOCK;
                stats.push(self.floats(memory, "partials", at, 8)?);
            }
            let smallest = stats.iter().fold(f32::NAN, |s, part| min(s, part[1]));
            let weights: Vec<f32> = stats
                .iter()
                .map(|part| f64::from(smallest - part[1]).exp2() as f32)
                .collect();
            let terms = stats.iter().zip(&weights).map(|(part, w)| part[0] * w);
            let inverse = 1.0 / terms.fold(0.0, |sum, term| sum + term);
            let weights: Vec<f32> = weights.iter().map(|w| half_of(w * inverse)).collect();
            for panel in 0..panels {
                let mut sums = [0f32; PANEL as usize];
                for (part, weight) in (0..).zip(&weights) {
                    let at = part * part_stride + panel * panel_stride + row * BLOCK;
                    let o = self.halves(memory, "partials", at, BLOCK)?;
                    for (sum, o) in sums.iter_mut().zip(o) {
                        *sum += accumulated(half_of(weight * o));
                    }
                }
                let at = panel * self.word("out_panel")? + row * BLOCK;
                results.push((at, sums));
            }
        }
        for (at, sums) in results {
            self.write_halves(memory, "out", at, sums.into_iter().map(half_of))?;
        }
        Ok(())
    }
}
