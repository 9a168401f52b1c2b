//! The matrix products of the AMP, and the sum of their partial results.

use super::{BLOCK, Call, FLOAT, HALF};
use crate::host::load;
use crate::numerics::{amp_step, max, narrow};
use crate::tile::{Memory, TileError};
use ipu_program::layout::{PANEL, WEIGHT_BYTES};
use ipu_program::types::ElementType;

/// Bytes of a block of 16 columns of 16 of K.
const WEIGHTS: u64 = 512;

/// An f32 result on its way to f16, where the chip treats infinities as overflow.
fn clip(x: f32) -> f32 {
    x.clamp(f32::MIN, f32::MAX)
}

/// What a product does besides multiplying.
pub(super) struct Product {
    /// Element type of partial sums.
    pub partials: ElementType,
    /// Element type of the result.
    pub out: ElementType,
    /// Whether partial sums start from a bias.
    pub bias: bool,
    /// Whether relu is applied.
    pub relu: bool,
    /// Whether partial sums start from what the result holds.
    pub accumulate: bool,
}

impl Product {
    /// Adds to a partial sum the products with one column, given a block of 16 of K at a time.
    fn column<'w>(&self, start: f32, a: &[f32], blocks: impl Iterator<Item = &'w [f32]>) -> f32 {
        let mut acc = start;
        for (a, w) in a.chunks(PANEL as usize).zip(blocks) {
            for (a, w) in a.as_chunks::<4>().0.iter().zip(w.as_chunks::<4>().0) {
                acc = amp_step(acc, a, w);
            }
            if self.partials == ElementType::F16 {
                acc = narrow(clip(acc)).to_f32();
            }
        }
        if self.out == ElementType::F16 {
            acc = clip(acc);
        }
        if self.relu { max(acc, 0.0) } else { acc }
    }
}

impl Call<'_> {
    /// A product with weights in order.
    pub(super) fn gemm(&self, memory: &mut Memory<'_>, product: &Product) -> Result<(), TileError> {
        let rows = self.total("rows")?;
        let k_blocks = self.word("k_blocks")?;
        let panels = self.word("groups")?;
        let (a_stride, out_stride) = (self.word("a_stride")?, self.word("out_stride")?);
        if rows == 0 || panels == 0 {
            return Ok(());
        }
        // Columns of a group of the weights: one set of the AMP for f32 partial sums, both for f16.
        let group = match product.partials {
            ElementType::F16 => u64::from(PANEL),
            _ => u64::from(PANEL) / 2,
        };
        let panel = u64::from(PANEL);
        let out_row = panel * u64::from(product.out.bytes());
        let depth = k_blocks * panel;
        // Every result has its own place: this bounds the work before it starts.
        self.read(memory, "out", 0, (rows * out_row).saturating_mul(panels))?;
        let bytes = depth.saturating_mul(panels).saturating_mul(panel * HALF);
        let weights = self.halves(memory, "weights", 0, bytes)?;
        let mut start: Vec<f32> = match product.bias {
            true => {
                let bytes = u64::from(product.partials.bytes());
                let data = self.read(memory, "bias", 0, panels * panel * bytes)?;
                data.chunks(bytes as usize)
                    .map(|e| load(e, product.partials))
                    .collect()
            }
            false => vec![0f32; (panels * panel) as usize],
        };
        let mut results = Vec::new();
        for row in 0..rows {
            let a = self.left_row(memory, row * BLOCK, k_blocks, a_stride)?;
            if product.accumulate {
                for (i, start) in start.chunks_mut(PANEL as usize).enumerate() {
                    let at = i as u64 * out_stride + row * out_row;
                    let held = self.values(memory, "out", at, out_row, product.out)?;
                    start.iter_mut().zip(held).for_each(|(s, held)| *s = held);
                }
            }
            for (column, &first) in start.iter().enumerate() {
                let column = column as u64;
                // K runs fastest within a column of a block.
                let blocks = (0..k_blocks).map(|block| {
                    let at = ((column / group * k_blocks + block) * group + column % group) * panel;
                    &weights[at as usize..][..PANEL as usize]
                });
                results.push(product.column(first, &a, blocks));
            }
        }
        for (i, values) in results.chunks(PANEL as usize).enumerate() {
            let (row, panel) = (i as u64 / panels, i as u64 % panels);
            let at = panel * out_stride + row * out_row;
            self.write_values(memory, "out", at, values.iter().copied(), product.out)?;
        }
        Ok(())
    }

    /// A product for each element of a batch.
    pub(super) fn batched_gemm(
        &self,
        memory: &mut Memory<'_>,
        partials: ElementType,
    ) -> Result<(), TileError> {
        let product = Product {
            partials,
            out: ElementType::F16,
            bias: false,
            relu: false,
            accumulate: false,
        };
        let rows = self.total("rows")?;
        let word = |name: &str| self.word(name);
        let (batches, groups, k_blocks) = (word("batches")?, word("groups")?, word("k_blocks")?);
        if rows == 0 || groups == 0 || batches == 0 {
            return Ok(());
        }
        // Every result has its own place: this bounds the work before it starts.
        let bytes = (rows * BLOCK).saturating_mul(groups);
        self.read(memory, "out", 0, bytes.saturating_mul(batches))?;
        let mut results = Vec::new();
        for batch in 0..batches {
            let mut a = Vec::new();
            for row in 0..rows {
                let at = batch * word("a_batch")? + row * BLOCK;
                a.push(self.left_row(memory, at, k_blocks, word("a_stride")?)?);
            }
            for group in 0..groups {
                let mut weights = Vec::new();
                for block in 0..k_blocks {
                    let at = batch * word("w_batch")?
                        + group * word("w_group")?
                        + block * word("w_block")?;
                    weights.extend(self.weights(memory, at)?);
                }
                let at = batch * word("out_batch")? + group * word("out_stride")?;
                for (row, a) in a.iter().enumerate() {
                    let values: Vec<f32> = (0..PANEL as usize)
                        .map(|column| {
                            let blocks = weights.chunks((PANEL * PANEL) as usize);
                            let columns =
                                blocks.map(|b| &b[column * PANEL as usize..][..PANEL as usize]);
                            product.column(0.0, a, columns)
                        })
                        .collect();
                    results.push((at + row as u64 * BLOCK, values));
                }
            }
        }
        for (at, values) in results {
            self.write_halves(memory, "out", at, values.into_iter())?;
        }
        Ok(())
    }

    /// A product of f32, 8 of K at a time.
    pub(super) fn gemm32(
        &self,
        memory: &mut Memory<'_>,
        bias: bool,
        relu: bool,
    ) -> Result<(), TileError> {
        let rows = self.total("rows")?;
        let panels = self.word("groups")?;
        let row_bytes = u64::from(PANEL) * FLOAT;
        if rows == 0 {
            return Ok(());
        }
        // Every result has its own place: this bounds the work before it starts.
        self.read(memory, "out", 0, (rows * row_bytes).saturating_mul(panels))?;
        let start = match bias {
            true => self.floats(memory, "bias", 0, panels * row_bytes)?,
            false => vec![0f32; (panels * u64::from(PANEL)) as usize],
        };
        let results = self.product32(memory, &start, relu, [0; 3])?;
        self.write_blocks32(memory, results)
    }

    /// A product of f32 for each element of a batch, whose weights follow each other.
    pub(super) fn batched_gemm32(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let word = |name: &str| self.word(name);
        let (rows, panels, batches) = (self.total("rows")?, word("groups")?, word("batches")?);
        let row_bytes = u64::from(PANEL) * FLOAT;
        if rows == 0 || panels == 0 {
            return Ok(());
        }
        // Every result has its own place: this bounds the work before it starts.
        let bytes = (rows * row_bytes).saturating_mul(panels);
        self.read(memory, "out", 0, bytes.saturating_mul(batches))?;
        let start = vec![0f32; (panels * u64::from(PANEL)) as usize];
        let depth = word("k_blocks")? * u64::from(PANEL);
        let weights = depth.saturating_mul(panels * row_bytes);
        let mut results = Vec::new();
        for batch in 0..batches {
            let places = [
                batch * word("a_batch")?,
                batch.saturating_mul(weights),
                batch * word("out_batch")?,
            ];
            results.extend(self.product32(memory, &start, false, places)?);
        }
        self.write_blocks32(memory, results)
    }

    /// The results of a product of f32 with their places, whose operands and result are at these
    /// bytes of a, weights and out; sums begin at `start`.
    fn product32(
        &self,
        memory: &Memory<'_>,
        start: &[f32],
        relu: bool,
        [a_at, weights_at, out_at]: [u64; 3],
    ) -> Result<Vec<(u64, Vec<f32>)>, TileError> {
        let rows = self.total("rows")?;
        let word = |name: &str| self.word(name);
        let (panels, k_blocks) = (word("groups")?, word("k_blocks")?);
        let panel = u64::from(PANEL);
        let row_bytes = panel * FLOAT;
        let depth = k_blocks * panel;
        let bytes = depth.saturating_mul(panels).saturating_mul(row_bytes);
        let weights = self.floats(memory, "weights", weights_at, bytes)?;
        // Columns of 8 of K.
        let run = u64::from(WEIGHT_BYTES) / FLOAT;
        let mut results = Vec::new();
        for row in 0..rows {
            let mut a = Vec::new();
            for block in 0..k_blocks {
                let at = a_at + block * word("a_stride")? + row * row_bytes;
                a.extend(self.floats(memory, "a", at, row_bytes)?);
            }
            for group in 0..panels {
                let values: Vec<f32> = (0..panel)
                    .map(|column| {
                        let first = start[(group * panel + column) as usize];
                        let sum = (0..depth).fold(first, |sum, k| {
                            let block = (group * depth + k / run * run) * panel;
                            let w = weights[(block + column * run + k % run) as usize];
                            a[k as usize].mul_add(w, sum)
                        });
                        if relu { max(sum, 0.0) } else { sum }
                    })
                    .collect();
                let at = out_at + group * word("out_stride")? + row * row_bytes;
                results.push((at, values));
            }
        }
        Ok(results)
    }

    fn write_blocks32(
        &self,
        memory: &mut Memory<'_>,
        results: Vec<(u64, Vec<f32>)>,
    ) -> Result<(), TileError> {
        for (at, values) in results {
            self.write_values(memory, "out", at, values.into_iter(), ElementType::F32)?;
        }
        Ok(())
    }

    /// Sums partial results and addends.
    pub(super) fn reduce_partials(
        &self,
        memory: &mut Memory<'_>,
        addends: u32,
        relu: bool,
        out: ElementType,
    ) -> Result<(), TileError> {
        // An atom is 4 elements, 8 bytes in f16.
        let elements = self.total("atoms")? * 4;
        let bytes = elements * u64::from(out.bytes());
        let stride = self.word("part_stride")?;
        let mut sums = vec![0f32; self.read(memory, "out", 0, bytes)?.len() / out.bytes() as usize];
        for part in 0..self.word("parts")? {
            let data = self.floats(memory, "partials", part * stride, elements * FLOAT)?;
            sums.iter_mut().zip(data).for_each(|(sum, e)| *sum += e);
        }
        for &name in ["b", "c"].iter().take(addends as usize) {
            let data = self.values(memory, name, 0, bytes, out)?;
            sums.iter_mut().zip(data).for_each(|(sum, e)| *sum += e);
        }
        let results = sums.into_iter().map(|sum| {
            let sum = match out {
                ElementType::F16 => clip(sum),
                _ => sum,
            };
            if relu { max(sum, 0.0) } else { sum }
        });
        self.write_values(memory, "out", 0, results, out)
    }

    /// A row of a over all of K, from its first panel on.
    fn left_row(
        &self,
        memory: &Memory<'_>,
        at: u64,
        k_blocks: u64,
        stride: u64,
    ) -> Result<Vec<f32>, TileError> {
        let mut row = Vec::new();
        for block in 0..k_blocks {
            row.extend(self.halves(memory, "a", at + block * stride, BLOCK)?);
        }
        Ok(row)
    }

    /// A block of weights. The last ones may reach beyond the buffer by what the registry calls
    /// its tail: columns that nobody looks at, here [`Memory::beyond`].
    fn weights(&self, memory: &Memory<'_>, at: u64) -> Result<Vec<f32>, TileError> {
        let tail = self
            .kernel
            .buffer("weights")
            .and_then(|i| self.kernel.buffers.get(i))
            .map_or(0, |b| u64::from(b.tail));
        let columns = u64::from(PANEL);
        let within = (0..columns)
            .rev()
            .map(|c| (c + 1) * BLOCK)
            .find(|&bytes| self.read(memory, "weights", at, bytes).is_ok())
            .filter(|bytes| WEIGHTS - bytes <= tail)
            .unwrap_or(WEIGHTS);
        let mut block = self.halves(memory, "weights", at, within)?;
        block.resize((WEIGHTS / HALF) as usize, memory.beyond);
        Ok(block)
    }
}
