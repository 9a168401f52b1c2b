//! What a kernel call does to the buffers of one tile, at storage precision.

use crate::host::load;
use crate::numerics::{amp_step, max, narrow};
use crate::tile::{Memory, TileError};
use ipu_program::kernels::{Kernel, Meaning};
use ipu_program::layout::PANEL;
use ipu_program::tile::BufferId;
use ipu_program::types::ElementType;
use ipu_target::Target;

mod arith;
mod rowwise;

const BLOCK: u64 = 32;
const ATOM: u64 = 8;
const HALF: u64 = 2;

/// One call of a kernel on one tile.
pub(crate) struct Call<'a> {
    pub step: &'a str,
    pub tile: u32,
    pub name: &'a str,
    pub kernel: &'a Kernel,
    pub buffers: &'a [BufferId],
    pub words: &'a [u32],
}

impl Call<'_> {
    /// Executes the call. Everything is read before anything is written.
    pub fn execute(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        match self.kernel.meaning {
            Meaning::Gemm {
                partials,
                bias,
                relu,
            } => self.gemm(memory, partials, bias, relu),
            Meaning::CopyBlocks => self.copy_blocks(memory),
            Meaning::Binary(kind) => self.flat_half2(memory, arith::binary(kind)),
            Meaning::BinaryF32(kind) => self.flat_single2(memory, arith::binary(kind)),
            Meaning::Relu => self.flat_half(memory, "a", |x| arith::half_max(x, 0.0)),
            Meaning::ReluF32 => self.flat_single(memory, "a", |x| max(x, 0.0)),
            Meaning::Unary(kind) => self.flat_half(memory, "x", arith::unary_half(kind)),
            Meaning::UnaryF32(kind) => self.flat_single(memory, "x", arith::unary_single(kind)),
            Meaning::Cast { to } => self.cast(memory, to),
            Meaning::RowBinary(kind) => self.row_binary(memory, arith::binary(kind)),
            Meaning::Softmax { causal } => self.softmax(memory, causal),
            Meaning::LayerNorm => self.layer_norm(memory),
            Meaning::RmsNorm => self.rms_norm(memory),
            Meaning::ReduceRow(reduction) => self.reduce_row(memory, reduction),
            Meaning::ReduceColumn { reduction, out } => self.reduce_column(memory, reduction, out),
        }
    }

    fn gemm(
        &self,
        memory: &mut Memory<'_>,
        partials: ElementType,
        bias: bool,
        relu: bool,
    ) -> Result<(), TileError> {
        let rows = self.total("rows")?;
        let k_blocks = self.word("k_blocks")?;
        let panels = self.word("groups")?;
        let (a_stride, out_stride) = (self.word("a_stride")?, self.word("out_stride")?);
        if rows == 0 || panels == 0 {
            return Ok(());
        }
        // Columns of a group of the weights: one set of the AMP for f32 partial sums, both for f16.
        let group = match partials {
            ElementType::F32 => u64::from(PANEL) / 2,
            ElementType::F16 => u64::from(PANEL),
        };
        let panel = u64::from(PANEL);
        let depth = k_blocks * panel;
        // Every result has its own place: this bounds the work before it starts.
        self.read(memory, "out", 0, (rows * BLOCK).saturating_mul(panels))?;
        let bytes = depth.saturating_mul(panels).saturating_mul(panel * HALF);
        let weights = self.halves(memory, "weights", 0, bytes)?;
        let start = match bias {
            true => {
                let bytes = u64::from(partials.bytes());
                let data = self.read(memory, "bias", 0, panels * panel * bytes)?;
                data.chunks(bytes as usize)
                    .map(|e| load(e, partials))
                    .collect()
            }
            false => vec![0f32; (panels * panel) as usize],
        };
        let mut results = Vec::new();
        for row in 0..rows {
            let mut a = Vec::with_capacity(depth as usize);
            for block in 0..k_blocks {
                a.extend(self.halves(memory, "a", block * a_stride + row * BLOCK, BLOCK)?);
            }
            let (a_steps, _) = a.as_chunks::<4>();
            for (column, &first) in start.iter().enumerate() {
                let column = column as u64;
                let mut acc = first;
                for block in 0..k_blocks {
                    // K runs fastest within a column of a block.
                    let at = ((column / group * k_blocks + block) * group + column % group) * panel;
                    let (w_steps, _) = weights[at as usize..][..PANEL as usize].as_chunks::<4>();
                    for (x, w) in a_steps[block as usize * 4..][..4].iter().zip(w_steps) {
                        acc = amp_step(acc, x, w);
                    }
                    if partials == ElementType::F16 {
                        acc = narrow(acc).to_f32();
                    }
                }
                results.push(if relu { max(acc, 0.0) } else { acc });
            }
        }
        for (i, values) in results.chunks(PANEL as usize).enumerate() {
            let (row, panel) = (i as u64 / panels, i as u64 % panels);
            let at = panel * out_stride + row * BLOCK;
            self.write_halves(memory, "out", at, values.iter().copied())?;
        }
        Ok(())
    }

    fn copy_blocks(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let rows = self.total("rows")?;
        let panels = self.word("panels")?;
        if rows == 0 || panels == 0 {
            return Ok(());
        }
        self.read(memory, "dst", 0, (rows * BLOCK).saturating_mul(panels))?;
        let mut blocks = Vec::new();
        for panel in 0..panels {
            for row in 0..rows {
                let place = |side: &str| -> Result<u64, TileError> {
                    let word = |name: &str| self.word(&format!("{side}_{name}"));
                    Ok(word("offset")? + panel * word("panel")? + row * word("row")?)
                };
                let data = self.read(memory, "src", place("src")?, BLOCK)?;
                blocks.push((place("dst")?, data.to_vec()));
            }
        }
        for (at, data) in blocks {
            memory.write(self.step, self.buffer("dst")?, self.tile, at, &data)?;
        }
        Ok(())
    }

    fn word(&self, name: &str) -> Result<u64, TileError> {
        self.kernel
            .word(name)
            .and_then(|i| self.words.get(i))
            .map(|&w| u64::from(w))
            .ok_or_else(|| self.argument("word", name))
    }

    /// The work of all workers: each of them has `<unit>_each`, the first `<unit>_extra` one more.
    fn total(&self, unit: &str) -> Result<u64, TileError> {
        let each = self.word(&format!("{unit}_each"))?;
        Ok(each * u64::from(Target::ipu21().workers) + self.word(&format!("{unit}_extra"))?)
    }

    fn buffer(&self, name: &str) -> Result<BufferId, TileError> {
        self.kernel
            .buffer(name)
            .and_then(|i| self.buffers.get(i))
            .copied()
            .ok_or_else(|| self.argument("buffer", name))
    }

    fn argument(&self, what: &'static str, name: &str) -> TileError {
        TileError::Argument {
            step: self.step.to_owned(),
            kernel: self.name.to_owned(),
            what,
            name: name.to_owned(),
        }
    }

    fn read<'m>(
        &self,
        memory: &'m Memory<'_>,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<&'m [u8], TileError> {
        memory.read(self.step, self.buffer(name)?, self.tile, offset, bytes)
    }

    fn halves(
        &self,
        memory: &Memory<'_>,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<f32>, TileError> {
        let data = self.read(memory, name, offset, bytes)?;
        Ok(data
            .chunks_exact(HALF as usize)
            .map(|e| load(e, ElementType::F16))
            .collect())
    }

    fn write_halves(
        &self,
        memory: &mut Memory<'_>,
        name: &str,
        offset: u64,
        values: impl Iterator<Item = f32>,
    ) -> Result<(), TileError> {
        let bytes: Vec<u8> = values.flat_map(|v| narrow(v).to_le_bytes()).collect();
        memory.write(self.step, self.buffer(name)?, self.tile, offset, &bytes)
    }
}
