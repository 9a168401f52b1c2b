//! The memory of the chip against the buffers of the tile program, bit for bit.

use super::{Levels, LevelsError, operation_at};
use crate::machine::Machine;
use half::f16;
use ipu_interp::tile::{Interpreter, Written};
use ipu_program::tile::{Buffer, Step};
use ipu_program::types::ElementType;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Who wrote bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The host, before the run.
    Host,
    /// A step of the tile program, by its index.
    Step(usize),
}

/// The first step whose bytes differ, with the first of them: the lowest tile, the first buffer,
/// the lowest address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Number of the step, from 1; 0 for what the host writes before the run.
    pub step: usize,
    /// Steps of the program.
    pub steps: usize,
    /// Name of the step.
    pub name: String,
    /// Its kernel, or what it is.
    pub kind: String,
    /// Operation of the model that it works for.
    pub operation: String,
    /// Location of that operation.
    pub location: String,
    /// Logical tile.
    pub tile: u32,
    /// Buffer.
    pub buffer: String,
    /// Address of the element.
    pub address: u32,
    /// Index of the element in the tensor of the buffer; `None` in padding.
    pub index: Option<Vec<u32>>,
    /// Value of the tile level, with its bits.
    pub expected: String,
    /// Value on the chip, with its bits.
    pub found: String,
    /// Elements of the step that differ.
    pub elements: u64,
    /// Tiles on which some differ.
    pub tiles: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            step,
            steps,
            name,
            kind,
            tile,
            buffer,
            address,
            ..
        } = self;
        match step {
            0 => write!(f, "what the host wrote before the run")?,
            _ => write!(f, "step {step} of {steps} '{name}', {kind}")?,
        }
        if !self.operation.is_empty() {
            write!(f, " for {}", self.operation)?;
        }
        if !self.location.is_empty() {
            write!(f, " at {}", self.location)?;
        }
        write!(f, ": tile {tile}, buffer '{buffer}', ")?;
        match &self.index {
            Some(index) => write!(f, "element {index:?}")?,
            None => write!(f, "padding")?,
        }
        write!(
            f,
            " at {address:#x} is {} on the chip, {} at tile level; {} elements on {} tiles differ",
            self.found, self.expected, self.elements, self.tiles
        )
    }
}

/// Addresses that are accounted for, as ranges that neither touch nor overlap.
#[derive(Default)]
pub(super) struct Covered(BTreeMap<u32, u32>);

impl Covered {
    /// Adds a range and gives the parts of it that were not there.
    pub fn add(&mut self, start: u32, end: u32) -> Vec<(u32, u32)> {
        let mut fresh = Vec::new();
        let (mut at, mut from, mut to) = (start, start, end);
        let before = self.0.range(..start).next_back().map(|(&s, &e)| (s, e));
        let inside = self.0.range(start..=end).map(|(&s, &e)| (s, e));
        let touched: Vec<_> = before
            .filter(|b| b.1 >= start)
            .into_iter()
            .chain(inside)
            .collect();
        for (s, e) in touched {
            if at < s {
                fresh.push((at, s));
            }
            at = at.max(e);
            (from, to) = (from.min(s), to.max(e));
            self.0.remove(&s);
        }
        if at < end {
            fresh.push((at, end));
        }
        if from < to {
            self.0.insert(from, to);
        }
        fresh
    }
}

/// What was written since the last look, and what all looks found.
pub(super) struct Memory<'a> {
    levels: Levels<'a>,
    pending: Vec<(Origin, Vec<Written>)>,
    pub looks: usize,
    pub compared: u64,
    pub undefined: u64,
    pub difference: Option<Difference>,
}

/// Elements of one step that differ.
#[derive(Default)]
struct Found {
    first: Option<Difference>,
    elements: u64,
    tiles: BTreeSet<u32>,
}

impl<'a> Memory<'a> {
    pub fn new(levels: Levels<'a>) -> Self {
        Memory {
            levels,
            pending: Vec::new(),
            looks: 0,
            compared: 0,
            undefined: 0,
            difference: None,
        }
    }

    pub fn wrote(&mut self, origin: Origin, written: Vec<Written>) {
        // After the first difference everything may differ.
        if self.difference.is_none() {
            self.pending.push((origin, written));
        }
    }

    /// Compares what was written since the last look, on one tile or on all, the newest first: what
    /// is overwritten is not there any more.
    pub fn look(
        &mut self,
        machine: &dyn Machine,
        runs: &[Interpreter<'_>; 2],
        only: Option<u32>,
    ) -> Result<(), LevelsError> {
        if self.difference.is_some() {
            return Ok(());
        }
        self.looks += 1;
        let mut covered: BTreeMap<u32, Covered> = BTreeMap::new();
        let mut pending = std::mem::take(&mut self.pending);
        for (origin, written) in pending.iter_mut().rev() {
            let origin = *origin;
            let mut found = Found::default();
            let here = |w: &mut Written| only.is_none_or(|tile| tile == w.tile);
            for piece in written.extract_if(.., here) {
                let tile = covered.entry(piece.tile).or_default();
                self.piece(machine, runs, origin, piece, tile, &mut found)?;
            }
            if let Some(first) = found.first {
                // Overwritten by that of an earlier step.
                self.difference = Some(Difference {
                    elements: found.elements,
                    tiles: found.tiles.len(),
                    ..first
                });
            }
        }
        pending.retain(|(_, written)| !written.is_empty());
        self.pending = pending;
        Ok(())
    }

    fn piece(
        &mut self,
        machine: &dyn Machine,
        runs: &[Interpreter<'_>; 2],
        origin: Origin,
        Written {
            tile,
            buffer: id,
            offset,
            end,
        }: Written,
        covered: &mut Covered,
        found: &mut Found,
    ) -> Result<(), LevelsError> {
        let buffer = self.levels.tiles.buffer(id);
        let base = buffer
            .address
            .ok_or_else(|| LevelsError::Unplaced(buffer.name.clone()))?;
        let width = buffer.ty.element.bytes() as usize;
        let (expected, other) = (runs[0].bytes(id, tile)?, runs[1].bytes(id, tile)?);
        let fresh = covered.add(base.saturating_add(offset), base.saturating_add(end));
        for (start, end) in fresh {
            let (from, to) = ((start - base) as usize, (end - base) as usize);
            let chip =
                machine
                    .read(tile, start, to - from)
                    .map_err(|error| LevelsError::Machine {
                        buffer: buffer.name.clone(),
                        tile,
                        error,
                    })?;
            self.compared += chip.len() as u64;
            if expected.get(from..to) == Some(&chip[..]) {
                continue;
            }
            // Elements, the first and the last perhaps in part.
            for element in from / width..to.div_ceil(width) {
                let range = (element * width).max(from)..((element + 1) * width).min(to);
                let [e, o] = [expected, other].map(|b| b.get(range.clone()).unwrap_or_default());
                let c = &chip[range.start - from..range.end - from];
                if e == c {
                    continue;
                }
                if e != o {
                    self.undefined += range.len() as u64;
                    continue;
                }
                found.elements += 1;
                found.tiles.insert(tile);
                if found.first.is_none() {
                    let at = range.start as u32;
                    found.first = Some(self.describe(origin, buffer, tile, base, at, e, c));
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // what is known about one element
    fn describe(
        &self,
        origin: Origin,
        buffer: &Buffer,
        tile: u32,
        base: u32,
        at: u32,
        expected: &[u8],
        found: &[u8],
    ) -> Difference {
        let steps = &self.levels.tiles.steps;
        let (step, name, kind, location) = match origin {
            Origin::Host => (0, String::new(), "host".to_owned(), &buffer.location),
            Origin::Step(i) => {
                let (kind, location) = match &steps[i] {
                    Step::Compute(c) => (format!("kernel {}", c.kernel), &c.location),
                    Step::Exchange { location, .. } => ("exchange".to_owned(), location),
                    Step::Rearrange { location, .. } => ("rearrangement".to_owned(), location),
                };
                (i + 1, steps[i].name().to_owned(), kind, location)
            }
        };
        let element = buffer.ty.element;
        Difference {
            step,
            steps: steps.len(),
            name,
            kind,
            operation: operation_at(self.levels.model, location)
                .or_else(|| operation_at(self.levels.selected, location))
                .unwrap_or_default(),
            location: location.clone(),
            tile,
            buffer: buffer.name.clone(),
            address: base + at,
            index: index(buffer, tile, at),
            expected: text(element, expected),
            found: text(element, found),
            elements: 0,
            tiles: 0,
        }
    }
}

/// Index in the tensor of the element at a byte of a buffer on a tile; `None` for padding.
fn index(buffer: &Buffer, tile: u32, at: u32) -> Option<Vec<u32>> {
    let matrix = buffer.ty.matrix();
    let shards = buffer.layout.shards(matrix);
    let shard = shards.into_iter().find(|s| s.tile == tile)?;
    let storage = buffer.layout.shard_storage(&shard, buffer.ty.element);
    let (rows, columns) = (shard.rows.clone(), shard.columns.clone());
    let mut places = rows.flat_map(|r| columns.clone().map(move |c| (r, c)));
    let (row, column) = places
        .find(|&(r, c)| storage.offset(r - shard.rows.start, c - shard.columns.start) == at)?;
    let mut flat = u64::from(row) * u64::from(matrix.columns) + u64::from(column);
    let mut index: Vec<u32> = buffer.ty.shape.clone();
    for i in index.iter_mut().rev() {
        let extent = u64::from((*i).max(1));
        *i = (flat % extent) as u32;
        flat /= extent;
    }
    Some(index)
}

/// A value with its bits; only the bits of a part of an element.
fn text(element: ElementType, bytes: &[u8]) -> String {
    let bits: String = bytes.iter().rev().map(|b| format!("{b:02x}")).collect();
    match (element, bytes) {
        (ElementType::F16, &[a, b]) => format!("{} (0x{bits})", f16::from_le_bytes([a, b])),
        (ElementType::F32, &[a, b, c, d]) => {
            format!("{} (0x{bits})", f32::from_le_bytes([a, b, c, d]))
        }
        (ElementType::I32, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]).to_string(),
        _ => format!("0x{bits}"),
    }
}
