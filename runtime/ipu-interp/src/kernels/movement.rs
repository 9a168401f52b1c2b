//! Kernels that move values without changing them.

use super::{ATOM, BLOCK, Call, FLOAT, HALF};
use crate::tile::{Memory, TileError};
use ipu_program::kernels::Move;
use ipu_program::layout::{PANEL, WEIGHT_BYTES};
use ipu_program::runs::RUN_WORDS;

/// Bytes of a word of a table.
const WORD: u64 = 4;

impl Call<'_> {
    pub(super) fn movement(&self, memory: &mut Memory<'_>, kind: Move) -> Result<(), TileError> {
        match kind {
            Move::FillZero => {
                let bytes = self.total("atoms")? * ATOM;
                self.clear(memory, 0, bytes)
            }
            Move::ZeroColumns => self.zero_columns(memory, HALF),
            Move::ZeroColumnsF32 => self.zero_columns(memory, FLOAT),
            Move::PackWeights { turned } => self.pack_weights(memory, turned),
            Move::CopyRuns => self.copy_runs(memory),
            Move::Gather => self.gather(memory),
            Move::Transpose => self.transpose(memory),
        }
    }

    fn clear(&self, memory: &mut Memory<'_>, at: u64, bytes: u64) -> Result<(), TileError> {
        // The place exists before so many zeros are made.
        self.read(memory, "out", at, bytes)?;
        let zeros = vec![0; bytes as usize];
        memory.write(self.step, self.buffer("out")?, self.tile, at, &zeros)
    }

    fn zero_columns(&self, memory: &mut Memory<'_>, element: u64) -> Result<(), TileError> {
        let first = self.word("first")?.min(PANEL.into());
        let bytes = (u64::from(PANEL) - first) * element;
        let (offset, out_row) = (self.word("offset")?, self.word("out_row")?);
        let rows = self.total("rows")?;
        // Every row has its own place: this bounds the work before it starts.
        self.read(memory, "out", 0, rows * element)?;
        for row in 0..rows {
            self.clear(memory, offset + row * out_row + first * element, bytes)?;
        }
        Ok(())
    }

    fn pack_weights(&self, memory: &mut Memory<'_>, turned: bool) -> Result<(), TileError> {
        let word = |name: &str| self.word(name);
        let (batches, groups, blocks) = (word("batches")?, word("groups")?, word("blocks")?);
        let (rows, panel) = (word("rows")?, u64::from(PANEL));
        // Elements of a column that stand together.
        let run = u64::from(WEIGHT_BYTES) / FLOAT;
        let block = panel * panel * FLOAT;
        let units = batches.saturating_mul(groups).saturating_mul(blocks);
        // Every unit has its own place: this bounds the work before it starts.
        self.read(memory, "dst", 0, units.saturating_mul(block))?;
        let mut moved = Vec::new();
        for unit in 0..units {
            let (batch, line) = (unit / blocks / groups, unit / blocks % groups);
            // The group of 16 rows and the panel of the source.
            let (first, panels) = match turned {
                true => (unit % blocks * panel, line),
                false => (line * panel, unit % blocks),
            };
            let from = batch * word("src_batch")? + panels * word("src_panel")?;
            for r in 0..panel {
                for c in 0..panel {
                    let data = match first + r < rows {
                        true => {
                            let at = from + ((first + r) * panel + c) * FLOAT;
                            self.read(memory, "src", at, FLOAT)?
                        }
                        false => &[0; 4],
                    };
                    let (column, k) = if turned { (c, r) } else { (r, c) };
                    let place = (k / run * panel + column) * run + k % run;
                    moved.push((unit * block + place * FLOAT, data.to_vec()));
                }
            }
        }
        for (at, data) in moved {
            memory.write(self.step, self.buffer("dst")?, self.tile, at, &data)?;
        }
        Ok(())
    }

    /// The first `entries` of the table behind the words, of `width` words each.
    fn table(&self, entries: u64, width: usize) -> Result<&[u32], TileError> {
        let table = self.words.get(self.kernel.words.len()..).unwrap_or(&[]);
        usize::try_from(entries)
            .ok()
            .and_then(|n| table.get(..n.checked_mul(width)?))
            .ok_or_else(|| TileError::ShortTable {
                step: self.step.to_owned(),
                kernel: self.name.to_owned(),
                needed: entries.saturating_mul(width as u64),
                found: table.len(),
            })
    }

    fn copy_runs(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let (runs, _) = self
            .table(self.word("runs")?, RUN_WORDS)?
            .as_chunks::<RUN_WORDS>();
        let mut copied = Vec::new();
        for &[source, destination, words] in runs {
            let data = self.read(memory, "src", source.into(), u64::from(words) * WORD)?;
            copied.push((u64::from(destination), data.to_vec()));
        }
        for (at, data) in copied {
            memory.write(self.step, self.buffer("dst")?, self.tile, at, &data)?;
        }
        Ok(())
    }

    fn gather(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let mut data = Vec::new();
        for &pair in self.table(self.word("count")?, 1)? {
            for index in [pair & 0xffff, pair >> 16] {
                data.extend(self.read(memory, "src", u64::from(index) * HALF, HALF)?);
            }
        }
        let at = self.word("dst_offset")?;
        memory.write(self.step, self.buffer("dst")?, self.tile, at, &data)
    }

    fn transpose(&self, memory: &mut Memory<'_>) -> Result<(), TileError> {
        let batches = self.word("batches")?;
        let (rows, panels) = (self.word("rows")?, self.word("panels")?);
        let panel = u64::from(PANEL);
        let strides = |side: &str| -> Result<[u64; 4], TileError> {
            let word = |name: &str| self.word(&format!("{side}_{name}"));
            Ok([
                word("offset")?,
                word("batch")?,
                word("row")?,
                word("panel")?,
            ])
        };
        let (src, dst) = (strides("src")?, strides("dst")?);
        let place = |[offset, batch, row, panels]: [u64; 4], b: u64, r: u64, c: u64| {
            offset + b * batch + r * row + (c / panel) * panels + (c % panel) * HALF
        };
        if batches == 0 || rows == 0 || panels == 0 {
            return Ok(());
        }
        let depth = rows.next_multiple_of(panel);
        let bytes = (panels * BLOCK).saturating_mul(depth.saturating_mul(batches));
        // Every result has its own place: this bounds the work before it starts.
        self.read(memory, "dst", 0, bytes)?;
        let mut moved = Vec::new();
        for b in 0..batches {
            for c in 0..panels * panel {
                for r in 0..depth {
                    let data = match r < rows {
                        true => self.read(memory, "src", place(src, b, r, c), HALF)?,
                        false => &[0, 0],
                    };
                    moved.push((place(dst, b, c, r), data.to_vec()));
                }
            }
        }
        for (at, data) in moved {
            memory.write(self.step, self.buffer("dst")?, self.tile, at, &data)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
