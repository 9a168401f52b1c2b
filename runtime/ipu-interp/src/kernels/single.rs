//! Row-wise and column-wise kernels of f32, in the order of operations of `device/rowwise32.S` and
//! `device/reduce_column.S`: two lanes, of the even columns and of the odd ones.

use super::arith::single_rsqrt;
use super::{Call, FLOAT};
use crate::numerics::max;
use crate::tile::{Memory, TileError};
use ipu_program::kernels::Reduction;
use ipu_program::layout::PANEL;
use ipu_program::types::ElementType;

/// Bytes of a row of a panel.
const ROW: u64 = PANEL as u64 * FLOAT;

/// Combines the elements of even and of odd columns from `start` on, then both.
fn lanes(row: &[f32], start: f32, f: fn(f32, f32) -> f32) -> f32 {
    let lane = |first: usize| {
        row.iter()
            .skip(first)
            .step_by(2)
            .fold(start, |l, &x| f(l, x))
    };
    f(lane(0), lane(1))
}

fn sum(row: &[f32]) -> f32 {
    lanes(row, 0.0, |a, b| a + b)
}

fn largest(row: &[f32]) -> f32 {
    lanes(row, f32::NAN, max)
}

impl Call<'_> {
    pub(super) fn softmax_single(
        &self,
        memory: &mut Memory<'_>,
        causal: bool,
    ) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let scale = self.float("scale")?;
        let mut results = Vec::new();
        for row in 0..self.single_rows(memory, panels)? {
            let seen = match causal {
                false => columns,
                true => {
                    let i = (self.word("first_row")? + row) % self.word("period")?.max(1);
                    columns.min((self.word("visible")? + i) as usize)
                }
            };
            let mut x = self.single_row(memory, row, panels)?;
            let shift = 0.0 - largest(&x[..seen]);
            for (i, x) in x.iter_mut().enumerate() {
                *x = match i < seen {
                    true => f64::from((*x + shift) * scale).exp() as f32,
                    false => 0.0,
                };
            }
            // Hidden columns are zero whatever the factor is.
            let held = seen.next_multiple_of(PANEL as usize);
            let factor = 1.0 / sum(&x[..held]);
            x[..held].iter_mut().for_each(|x| *x *= factor);
            results.push(x);
        }
        self.write_single_rows(memory, results)
    }

    pub(super) fn layer_norm_single(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let (epsilon, inverse) = (self.float("epsilon")?, self.float("inverse")?);
        let scale = self.floats(memory, "scale", 0, panels * ROW)?;
        let bias = self.floats(memory, "bias", 0, panels * ROW)?;
        let mut results = Vec::new();
        for row in 0..self.single_rows(memory, panels)? {
            let x = self.single_row(memory, row, panels)?;
            let shift = 0.0 - sum(&x[..columns]) * inverse;
            let squares: Vec<f32> = x[..columns]
                .iter()
                .map(|x| (x + shift) * (x + shift))
                .collect();
            let factor = single_rsqrt(sum(&squares) * inverse + epsilon);
            let affine = scale.iter().zip(&bias);
            let normal = x.iter().zip(affine);
            results.push(
                normal
                    .map(|(x, (scale, bias))| (x + shift) * factor * scale + bias)
                    .collect(),
            );
        }
        self.write_single_rows(memory, results)
    }

    pub(super) fn rms_norm_single(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let (epsilon, inverse) = (self.float("epsilon")?, self.float("inverse")?);
        let scale = self.floats(memory, "scale", 0, panels * ROW)?;
        let mut results = Vec::new();
        for row in 0..self.single_rows(memory, panels)? {
            let x = self.single_row(memory, row, panels)?;
            let squares: Vec<f32> = x[..columns].iter().map(|x| x * x).collect();
            let factor = single_rsqrt(sum(&squares) * inverse + epsilon);
            results.push(x.iter().zip(&scale).map(|(x, s)| x * factor * s).collect());
        }
        self.write_single_rows(memory, results)
    }

    pub(super) fn reduce_row_single(
        &self,
        memory: &mut Memory<'_>,
        reduction: Reduction,
    ) -> Result<(), TileError> {
        let (columns, panels) = self.columns()?;
        let factor = self.float("factor")?;
        let mut results = Vec::new();
        for row in 0..self.single_rows(memory, panels)? {
            let x = self.single_row(memory, row, panels)?;
            results.push(match reduction {
                Reduction::Sum => sum(&x[..columns]) * factor,
                Reduction::Max => largest(&x[..columns]),
            });
        }
        let out_row = self.word("out_row")?;
        for (row, value) in (0..).zip(results) {
            let mut block = [0.0; PANEL as usize];
            block[0] = value;
            self.write_singles(memory, "out", row * out_row, block.into_iter())?;
        }
        Ok(())
    }

    pub(super) fn reduce_column_single(
        &self,
        memory: &mut Memory<'_>,
        reduction: Reduction,
    ) -> Result<(), TileError> {
        let factor = self.float("factor")?;
        let (rows, panels) = (self.word("rows")?, self.word("panels")?);
        let groups = self.word("groups")?;
        // Every row and every result has its own place: this bounds the work before it starts.
        self.read(memory, "x", 0, rows * ROW)?;
        self.read(memory, "out", 0, (groups * ROW).saturating_mul(panels))?;
        if panels == 0 {
            return Ok(());
        }
        let mut results = Vec::new();
        for group in 0..groups {
            for panel in 0..panels {
                let mut columns = vec![Vec::new(); PANEL as usize];
                for row in 0..rows {
                    let at = group * self.word("x_group")?
                        + panel * self.word("x_panel")?
                        + row * self.word("x_row")?;
                    let x = self.floats(memory, "x", at, ROW)?;
                    columns.iter_mut().zip(x).for_each(|(c, x)| c.push(x));
                }
                let all: Vec<f32> = columns
                    .iter()
                    .map(|column| match reduction {
                        Reduction::Sum => column.iter().fold(0.0, |sum, x| sum + x) * factor,
                        Reduction::Max => column.iter().fold(f32::NAN, |m, &x| max(m, x)),
                    })
                    .collect();
                results.push((group, panel, all));
            }
        }
        for (group, panel, all) in results {
            let at = group * self.word("out_row")? + panel * self.word("out_panel")?;
            self.write_singles(memory, "out", at, all.into_iter())?;
        }
        Ok(())
    }

    /// Rows of the call. Each has a place in `out`: this bounds the work before it starts.
    fn single_rows(&self, memory: &Memory<'_>, panels: u64) -> Result<u64, TileError> {
        let rows = self.total("rows")?;
        let panels = if self.kernel.word("out_panel").is_some() {
            panels
        } else {
            1
        };
        self.read(memory, "out", 0, (rows * ROW).saturating_mul(panels))?;
        Ok(if panels == 0 { 0 } else { rows })
    }

    /// A row of panels of `x`.
    fn single_row(
        &self,
        memory: &Memory<'_>,
        row: u64,
        panels: u64,
    ) -> Result<Vec<f32>, TileError> {
        let at = row * self.word("x_row")?;
        let stride = self.word("x_panel")?;
        let mut all = Vec::new();
        for panel in 0..panels {
            let values = self.values(memory, "x", at + panel * stride, ROW, ElementType::F32)?;
            all.extend(values);
        }
        Ok(all)
    }

    /// Writes rows of panels to `out`.
    fn write_single_rows(
        &self,
        memory: &mut Memory<'_>,
        rows: Vec<Vec<f32>>,
    ) -> Result<(), TileError> {
        let (stride, panel_stride) = (self.word("out_row")?, self.word("out_panel")?);
        for (row, values) in (0..).zip(rows) {
            for (panel, values) in (0..).zip(values.chunks(PANEL as usize)) {
                let at = row * stride + panel * panel_stride;
                self.write_singles(memory, "out", at, values.iter().copied())?;
            }
        }
        Ok(())
    }
}
