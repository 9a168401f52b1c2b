//! What a kernel call does to the buffers of one tile, at storage precision.

mod gemm;
mod movement;

use self::gemm::Product;
use crate::host::load;
use crate::numerics::{max, narrow};
use crate::tile::{Memory, TileError};
use ipu_program::kernels::{Kernel, Meaning};
use ipu_program::tile::BufferId;
use ipu_program::types::ElementType;
use ipu_target::Target;

mod arith;
mod parts;
mod rowwise;
mod single;

const BLOCK: u64 = 32;
const ATOM: u64 = 8;
const HALF: u64 = 2;
const FLOAT: u64 = 4;

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
                accumulate,
            } => self.gemm(
                memory,
                &Product {
                    partials,
                    out: ElementType::F16,
                    bias,
                    relu,
                    accumulate,
                },
            ),
            Meaning::GemmPartial { accumulate } => self.gemm(
                memory,
                &Product {
                    partials: ElementType::F32,
                    out: ElementType::F32,
                    bias: false,
                    relu: false,
                    accumulate,
                },
            ),
            Meaning::BatchedGemm { partials } => self.batched_gemm(memory, partials),
            Meaning::Gemm32 { bias, relu } => self.gemm32(memory, bias, relu),
            Meaning::BatchedGemm32 => self.batched_gemm32(memory),
            Meaning::ReducePartials { addends, relu } => {
                self.reduce_partials(memory, addends, relu, ElementType::F16)
            }
            Meaning::ReducePartialsF32 { addends, relu } => {
                self.reduce_partials(memory, addends, relu, ElementType::F32)
            }
            Meaning::ReduceHalves { addend, relu } => self.reduce_halves(memory, addend, relu),
            Meaning::CopyBlocks => self.copy_blocks(memory),
            Meaning::Move(kind) => self.movement(memory, kind),
            Meaning::Binary(kind) => self.flat_half2(memory, arith::binary(kind)),
            Meaning::BinaryF32(kind) => self.flat_single2(memory, arith::binary(kind)),
            Meaning::Relu => self.flat_half(memory, "a", |x| arith::half_max(x, 0.0)),
            Meaning::ReluF32 => self.flat_single(memory, "a", |x| max(x, 0.0)),
            Meaning::Unary(kind) => self.flat_half(memory, "x", arith::unary_half(kind)),
            Meaning::UnaryF32(kind) => self.flat_single(memory, "x", arith::unary_single(kind)),
            Meaning::Cast { to } => self.cast(memory, to),
            Meaning::RowBinary(kind) => self.row_binary(memory, arith::binary(kind)),
            Meaning::Softmax { causal } => self.softmax(memory, causal),
            Meaning::SoftmaxPartial => self.softmax_partial(memory),
            Meaning::CombineSoftmax => self.combine_softmax(memory),
            Meaning::LayerNorm { split } => self.layer_norm(memory, split),
            Meaning::RmsNorm { split } => self.rms_norm(memory, split),
            Meaning::ReduceRow(reduction) => self.reduce_row(memory, reduction),
            Meaning::SoftmaxF32 { causal } => self.softmax_single(memory, causal),
            Meaning::LayerNormF32 => self.layer_norm_single(memory),
            Meaning::RmsNormF32 => self.rms_norm_single(memory),
            Meaning::ReduceRowF32(reduction) => self.reduce_row_single(memory, reduction),
            Meaning::ReduceColumnF32(reduction) => self.reduce_column_single(memory, reduction),
            Meaning::ReduceColumn { reduction, out } => self.reduce_column(memory, reduction, out),
        }
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
        self.values(memory, name, offset, bytes, ElementType::F16)
    }

    fn floats(
        &self,
        memory: &Memory<'_>,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<f32>, TileError> {
        self.values(memory, name, offset, bytes, ElementType::F32)
    }

    fn values(
        &self,
        memory: &Memory<'_>,
        name: &str,
        offset: u64,
        bytes: u64,
        element: ElementType,
    ) -> Result<Vec<f32>, TileError> {
        let data = self.read(memory, name, offset, bytes)?;
        let each = data.chunks_exact(element.bytes() as usize);
        Ok(each.map(|e| load(e, element)).collect())
    }

    fn write_halves(
        &self,
        memory: &mut Memory<'_>,
        name: &str,
        offset: u64,
        values: impl Iterator<Item = f32>,
    ) -> Result<(), TileError> {
        self.write_values(memory, name, offset, values, ElementType::F16)
    }

    fn write_values(
        &self,
        memory: &mut Memory<'_>,
        name: &str,
        offset: u64,
        values: impl Iterator<Item = f32>,
        element: ElementType,
    ) -> Result<(), TileError> {
        let bytes: Vec<u8> = match element {
            ElementType::F16 => values.flat_map(|v| narrow(v).to_le_bytes()).collect(),
            ElementType::F32 => values.flat_map(f32::to_le_bytes).collect(),
            ElementType::I32 => values.flat_map(|v| (v as i32).to_le_bytes()).collect(),
        };
        memory.write(self.step, self.buffer(name)?, self.tile, offset, &bytes)
    }
}
