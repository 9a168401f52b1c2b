//! Row-wise, column-wise and elementwise kernels. The order of operations is that of the sources
//! in `device/`: a lane is an element of a vector instruction, and lanes are added last.

use super::{ATOM, BLOCK, Call, FLOAT, HALF};
use crate::kernels::arith::{Factor, accumulated, half_exp2, half_max, half_of, single_rsqrt};
use crate::numerics::max;
use crate::tile::{Memory, TileError};
use ipu_program::kernels::{Reduction, WORKERS};
use ipu_program::layout::PANEL;
use ipu_program::types::ElementType;

/// Elements of an f16 atom.
pub(super) const LANES: usize = 4;

/// `log2(e)` in f32, which turns `exp` into `exp2`.
pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// Adds the even lanes and the odd lanes, then both: what `f32v2gina` and additions of its
/// results give. Four lanes or eight.
pub(super) fn lateral(lanes: &[f32]) -> f32 {
    let pair = |i: usize| [lanes[i] + lanes[i + 2], lanes[i + 1] + lanes[i + 3]];
    let [even, odd] = match lanes.len() {
        LANES => pair(0),
        _ => {
            let (low, high) = (pair(0), pair(LANES));
            [low[0] + high[0], low[1] + high[1]]
        }
    };
    even + odd
}

/// Sums over lanes, element i in lane i modulo N.
pub(super) fn lanes<const N: usize>(
    values: impl Iterator<Item = f32>,
    f: fn(f32, f32) -> f32,
) -> [f32; N] {
    let mut sums = [0.0; N];
    for (i, v) in values.enumerate() {
        sums[i % N] = f(v, sums[i % N]);
    }
    sums
}

/// What the workers that share a row find for their parts of it by `one`. Worker w has halves w,
/// w + 6, ... of panels; of each half `rowsplit.S` takes the second atom first.
fn shared(row: &[f32], one: impl Fn(&[f32]) -> f32) -> [f32; WORKERS as usize] {
    let (halves, _) = row.as_chunks::<{ 2 * LANES }>();
    std::array::from_fn(|worker| {
        let own = halves.iter().skip(worker).step_by(WORKERS as usize);
        let own: Vec<f32> = own
            .flat_map(|half| half[LANES..].iter().chain(&half[..LANES]))
            .copied()
            .collect();
        one(&own)
    })
}

/// The parts of even workers and of odd workers by turns, from `start` on, then both.
fn joined(parts: [f32; WORKERS as usize], start: f32, f: fn(f32, f32) -> f32) -> f32 {
    let [even, odd] = [0, 1].map(|first| {
        let parts = parts.iter().skip(first).step_by(2);
        parts.fold(start, |sum, &part| f(sum, part))
    });
    even + odd
}

/// `f16v4acc`.
pub(super) fn add(x: f32, sum: f32) -> f32 {
    sum + accumulated(x)
}

/// `f16v8sqacc`: the exact square and the sum are rounded once.
fn add_square(x: f32, sum: f32) -> f32 {
    x.mul_add(x, sum)
}

impl Call<'_> {
    pub(super) fn flat_half(
        &self,
        memory: &mut Memory<'_>,
        input: &str,
        f: impl Fn(f32) -> f32,
    ) -> Result<(), TileError> {
        let x = self.halves(memory, input, 0, self.total("atoms")? * ATOM)?;
        self.write_halves(memory, "out", 0, x.into_iter().map(f))
    }

    pub(super) fn flat_half2(
        &self,
        memory: &mut Memory<'_>,
        f: fn(f32, f32) -> f32,
    ) -> Result<(), TileError> {
        let bytes = self.total("atoms")? * ATOM;
        let a = self.halves(memory, "a", 0, bytes)?;
        let b = self.halves(memory, "b", 0, bytes)?;
        let out = a.into_iter().zip(b).map(|(a, b)| half_of(f(a, b)));
        self.write_halves(memory, "out", 0, out)
    }

    pub(super) fn flat_single(
        &self,
        memory: &mut Memory<'_>,
        input: &str,
        f: impl Fn(f32) -> f32,
    ) -> Result<(), TileError> {
        let x = self.floats(memory, input, 0, self.total("atoms")? * ATOM)?;
        self.write_singles(memory, "out", 0, x.into_iter().map(f))
    }

    pub(super) fn flat_single2(
        &self,
        memory: &mut Memory<'_>,
        f: fn(f32, f32) -> f32,
    ) -> Result<(), TileError> {
        let bytes = self.total("atoms")? * ATOM;
        let a = self.floats(memory, "a", 0, bytes)?;
        let b = self.floats(memory, "b", 0, bytes)?;
        let out = a.into_iter().zip(b).map(|(a, b)| f(a, b));
        self.write_singles(memory, "out", 0, out)
    }

    pub(super) fn cast(&self, memory: &mut Memory<'_>, to: ElementType) -> Result<(), TileError> {
        let elements = self.total("atoms")? * LANES as u64;
        match to {
            ElementType::F16 => {
                let x = self.floats(memory, "x", 0, elements * FLOAT)?;
                self.write_halves(memory, "out", 0, x.into_iter().map(half_of))
            }
            _ => {
                let x = self.halves(memory, "x", 0, elements * HALF)?;
                self.write_singles(memory, "out", 0, x.into_iter())
            }
        }
    }

    pub(super) fn row_binary(
        &self,
        memory: &mut Memory<'_>,
        f: fn(f32, f32) -> f32,
    ) -> Result<(), TileError> {
        let panels = self.word("panels")?;
        let b = self.halves(memory, "b", 0, panels.saturating_mul(BLOCK))?;
        let mut results = Vec::new();
        for row in 0..self.rows(memory, panels)? {
            let a = self.row(memory, "a", row, panels)?;
            results.push(a.iter().zip(&b).map(|(&a, &b)| half_of(f(a, b))).collect());
        }
        self.write_rows(memory, results)
    }

    pub(super) fn softmax(&self, memory: &mut Memory<'_>, causal: bool) -> Result<(), TileError> {
        let columns = self.word("columns")?;
        let panels = columns.div_ceil(PANEL.into());
        let scale = Factor::truncated(self.float("scale")? * LOG2_E);
        let mut results = Vec::new();
        for row in 0..self.rows(memory, panels)? {
            let seen = match causal {
                false => columns,
                true => {
                    let i = (self.word("first_row")? + row) % self.word("period")?.max(1);
                    columns.min(self.word("visible")? + i)
                }
            } as usize;
            let mut x = self.row(memory, "x", row, panels)?;
            let largest = x[..seen].iter().fold(f32::NAN, |m, &x| half_max(m, x));
            let shift = scale.times(half_of(-largest));
            for (i, x) in x.iter_mut().enumerate() {
                *x = match i < seen {
                    true => half_exp2(half_of(scale.times(*x) + shift)),
                    false => 0.0,
                };
            }
            let sum = lateral(&lanes::<LANES>(x[..].iter().copied(), add));
            let factor = half_of(1.0 / sum);
            x.iter_mut().for_each(|x| *x = half_of(factor * *x));
            // Hidden columns are zero whatever the factor is.
            x[seen.next_multiple_of(PANEL as usize)..].fill(0.0);
            results.push(x);
        }
        self.write_rows(memory, results)
    }

    pub(super) fn layer_norm(&self, memory: &mut Memory<'_>, split: bool) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let (epsilon, inverse) = (self.float("epsilon")?, self.float("inverse")?);
        let bytes = panels * BLOCK;
        let scale = self.halves(memory, "scale", 0, bytes)?;
        let bias = self.halves(memory, "bias", 0, bytes)?;
        let mut results = Vec::new();
        for row in 0..self.rows(memory, panels)? {
            let x = self.row(memory, "x", row, panels)?;
            let data = masked(&x, columns);
            let mean = match split {
                false => sum(&data) * inverse,
                // The sums go off 0, so that minus the mean is what comes out.
                true => -(joined(shared(&data, sum), 0.0, |sum, part| sum - part) * inverse),
            };
            let centre = half_of(mean);
            let deviations: Vec<f32> = data.iter().map(|x| half_of(centre - x)).collect();
            let deviations = masked(&deviations, columns);
            // The deviations were taken from the rounded mean.
            let off = centre - mean;
            let variance = max(squares(&deviations, split) * inverse - off * off, 0.0);
            let deviation = single_rsqrt(variance + epsilon);
            let factor = Factor::nearest(deviation);
            let shift = match split {
                false => 0.0 - mean * deviation,
                true => -mean * deviation,
            };
            let affine = scale.iter().zip(&bias);
            results.push(
                x.iter()
                    .zip(affine)
                    .map(|(&x, (&scale, &bias))| {
                        let normal = half_of(factor.times(x) + shift);
                        half_of(half_of(normal * scale) + bias)
                    })
                    .collect(),
            );
        }
        self.write_rows(memory, results)
    }

    pub(super) fn rms_norm(&self, memory: &mut Memory<'_>, split: bool) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let (epsilon, inverse) = (self.float("epsilon")?, self.float("inverse")?);
        let scale = self.halves(memory, "scale", 0, panels * BLOCK)?;
        let mut results = Vec::new();
        for row in 0..self.rows(memory, panels)? {
            let x = self.row(memory, "x", row, panels)?;
            let squares = squares(&masked(&x, columns), split);
            let factor = Factor::nearest(single_rsqrt(squares * inverse + epsilon));
            results.push(
                x.iter()
                    .zip(&scale)
                    .map(|(&x, &scale)| half_of(half_of(factor.times(x)) * scale))
                    .collect(),
            );
        }
        self.write_rows(memory, results)
    }

    pub(super) fn reduce_row(
        &self,
        memory: &mut Memory<'_>,
        reduction: Reduction,
    ) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let factor = self.float("factor")?;
        let mut results = Vec::new();
        for row in 0..self.rows(memory, panels)? {
            let x = self.row(memory, "x", row, panels)?;
            let value = match reduction {
                Reduction::Sum => half_of(sum(&masked(&x, columns)) * factor),
                Reduction::Max => x[..columns].iter().fold(f32::NAN, |m, &x| half_max(m, x)),
            };
            results.push(value);
        }
        let out_row = self.word("out_row")?;
        for (row, value) in (0..).zip(results) {
            let mut block = [0.0; PANEL as usize];
            block[0] = value;
            self.write_halves(memory, "out", row * out_row, block.into_iter())?;
        }
        Ok(())
    }

    pub(super) fn reduce_column(
        &self,
        memory: &mut Memory<'_>,
        reduction: Reduction,
        out: ElementType,
    ) -> Result<(), TileError> {
        let factor = self.float("factor")?;
        let (rows, panels) = (self.word("rows")?, self.word("panels")?);
        let groups = self.word("groups")?;
        // Every row and every result has its own place: this bounds the work before it starts.
        self.read(memory, "x", 0, rows * BLOCK)?;
        let width = u64::from(PANEL) * u64::from(out.bytes());
        self.read(memory, "out", 0, (groups * width).saturating_mul(panels))?;
        if panels == 0 {
            return Ok(());
        }
        let mut results = Vec::new();
        for group in 0..groups {
            for panel in 0..panels {
                let start = match reduction {
                    Reduction::Sum => 0.0,
                    Reduction::Max => f32::NAN,
                };
                let mut all = [start; PANEL as usize];
                for row in 0..rows {
                    let at = group * self.word("x_group")?
                        + panel * self.word("x_panel")?
                        + row * self.word("x_row")?;
                    for (all, x) in all.iter_mut().zip(self.halves(memory, "x", at, BLOCK)?) {
                        *all = match reduction {
                            Reduction::Sum => add(x, *all),
                            Reduction::Max => half_max(*all, x),
                        };
                    }
                }
                if reduction == Reduction::Sum {
                    all.iter_mut().for_each(|sum| *sum *= factor);
                }
                results.push((group, panel, all));
            }
        }
        for (group, panel, all) in results {
            let at = group * self.word("out_row")? + panel * self.word("out_panel")?;
            match out {
                ElementType::F16 => {
                    self.write_halves(memory, "out", at, all.into_iter().map(half_of))?;
                }
                _ => self.write_singles(memory, "out", at, all.into_iter())?,
            }
        }
        Ok(())
    }

    /// Rows of the call. Each has a place in `out`: this bounds the work before it starts.
    pub(super) fn rows(&self, memory: &Memory<'_>, panels: u64) -> Result<u64, TileError> {
        let rows = match self.kernel.word("rows") {
            Some(_) => self.word("rows")?,
            None => self.total("rows")?,
        };
        let panels = if self.kernel.word("out_panel").is_some() {
            panels
        } else {
            1
        };
        self.read(memory, "out", 0, (rows * BLOCK).saturating_mul(panels))?;
        Ok(if panels == 0 { 0 } else { rows })
    }

    /// Columns of the matrix and panels that hold them.
    fn columns(&self) -> Result<(usize, u64), TileError> {
        let columns = self.word("columns")?;
        Ok((columns as usize, columns.div_ceil(PANEL.into())))
    }

    /// A word argument that holds the bits of an f32.
    pub(super) fn float(&self, name: &str) -> Result<f32, TileError> {
        Ok(f32::from_bits(self.word(name)? as u32))
    }

    /// A row of f16 panels.
    pub(super) fn row(
        &self,
        memory: &Memory<'_>,
        name: &str,
        row: u64,
        panels: u64,
    ) -> Result<Vec<f32>, TileError> {
        let at = row * self.word(&format!("{name}_row"))?;
        let stride = self.word(&format!("{name}_panel"))?;
        let mut all = Vec::new();
        for panel in 0..panels {
            all.extend(self.halves(memory, name, at + panel * stride, BLOCK)?);
        }
        Ok(all)
    }

    /// Writes rows of f16 panels to `out`.
    pub(super) fn write_rows(
        &self,
        memory: &mut Memory<'_>,
        rows: Vec<Vec<f32>>,
    ) -> Result<(), TileError> {
        let (stride, panel_stride) = (self.word("out_row")?, self.word("out_panel")?);
        for (row, values) in (0..).zip(rows) {
            for (panel, values) in (0..).zip(values.chunks(PANEL as usize)) {
                let at = row * stride + panel * panel_stride;
                self.write_halves(memory, "out", at, values.iter().copied())?;
            }
        }
        Ok(())
    }

    /// Writes f32 results; a NaN is the one that instructions give.
    pub(super) fn write_singles(
        &self,
        memory: &mut Memory<'_>,
        name: &str,
        offset: u64,
        values: impl Iterator<Item = f32>,
    ) -> Result<(), TileError> {
        let values = values.map(|v| if v.is_nan() { f32::NAN } else { v });
        self.write_values(memory, name, offset, values, ElementType::F32)
    }
}

/// The elements of a row, 0 beyond its columns.
fn masked(row: &[f32], columns: usize) -> Vec<f32> {
    let mut row = row.to_vec();
    row[columns..].fill(0.0);
    row
}

/// The sum of a row or part of one by one worker.
fn sum(row: &[f32]) -> f32 {
    lateral(&lanes::<LANES>(row.iter().copied(), add))
}

/// The sum of the squares of a row.
fn squares(row: &[f32], split: bool) -> f32 {
    let one = |row: &[f32]| lateral(&lanes::<8>(row.iter().copied(), add_square));
    match split {
        false => one(row),
        true => joined(shared(row, one), 0.0, |sum, part| sum + part),
    }
}
