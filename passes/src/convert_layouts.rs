//! `ipu-convert-layouts`: rearrangements to explicit copies.
//!
//! Data crosses tiles in panels, where a run of rows of one panel is contiguous on both sides.
//! A rearrangement therefore becomes up to three parts: rows to panels on the source tiles, an
//! exchange of panel runs (with a local copy where source and destination share a tile), panels
//! to rows on the destination tiles. Parts that do nothing are left out. Equal pieces for several
//! tiles become one multicast transfer.

use crate::select_operators::plans::{COPY_KERNEL as COPY, same_places};
use ipu_program::kernels::{Kernels, share};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Shard};
use ipu_program::tile::{Buffer, BufferId, Compute, Copy, Step, TileProgram, Transfer};
use ipu_program::types::ElementType;
use std::collections::BTreeMap;

/// A rearrangement that no sequence of copies implements.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("rearrangement '{step}' from '{source_buffer}' to '{destination}' {why}")]
pub struct ConvertError {
    /// Source location.
    pub location: String,
    /// Step symbol.
    pub step: String,
    /// Source buffer symbol.
    pub source_buffer: String,
    /// Destination buffer symbol.
    pub destination: String,
    /// Reason.
    pub why: String,
}

/// Lowers all rearrangements of a program.
///
/// # Errors
/// Buffers of different shapes, element types other than f16, weight orders, or columns that are
/// divided within a panel.
pub fn convert_layouts(program: &mut TileProgram, kernels: &Kernels) -> Result<(), ConvertError> {
    let steps = std::mem::take(&mut program.steps);
    for step in steps {
        match step {
            Step::Rearrange {
                name,
                source,
                destination,
                view: _,
                location,
            } => {
                let mut c = Convert {
                    program,
                    kernels,
                    name,
                    location,
                };
                c.rearrange(source, destination)?;
            }
            other => program.steps.push(other),
        }
    }
    Ok(())
}

struct Convert<'a> {
    program: &'a mut TileProgram,
    kernels: &'a Kernels,
    name: String,
    location: String,
}

impl Convert<'_> {
    fn rearrange(&mut self, source: BufferId, destination: BufferId) -> Result<(), ConvertError> {
        let (s, d) = (
            self.program.buffer(source),
            self.program.buffer(destination),
        );
        let why = if s.ty != d.ty {
            Some(format!("changes the type from {} to {}", s.ty, d.ty))
        } else if s.ty.element != ElementType::F16 {
            Some(format!(
                "moves {}, only f16 moves in blocks of 32 bytes",
                s.ty.element
            ))
        } else {
            [&s.layout, &d.layout].into_iter().find_map(|l| {
                if !matches!(l.order, ElementOrder::Rows | ElementOrder::Panels) {
                    Some(format!(
                        "has element order '{}', which only the host writes",
                        l.order.name()
                    ))
                } else if l.columns.parts > 1 && l.columns.block % PANEL != 0 {
                    Some(format!(
                        "divides columns into blocks of {}, not of 16",
                        l.columns.block
                    ))
                } else {
                    None
                }
            })
        };
        if let Some(why) = why {
            return Err(self.error(source, destination, why));
        }
        let (from, to) = (s.layout.clone(), d.layout.clone());
        let panels = |l: &Layout| Layout {
            order: ElementOrder::Panels,
            memory: MemoryClass::Any,
            ..l.clone()
        };
        if same_places(&panels(&from), &panels(&to)) {
            return self.local(source, destination, "");
        }
        let packed = if from.order == ElementOrder::Panels {
            source
        } else {
            let b = self.temporary(source, panels(&from), "pack");
            self.local(source, b, "pack")?;
            b
        };
        let arrived = if to.order == ElementOrder::Panels {
            destination
        } else {
            self.temporary(destination, panels(&to), "unpack")
        };
        self.exchange(packed, arrived)?;
        if arrived != destination {
            self.local(arrived, destination, "unpack")?;
        }
        Ok(())
    }

    fn error(&self, source: BufferId, destination: BufferId, why: String) -> ConvertError {
        ConvertError {
            location: self.location.clone(),
            step: self.name.clone(),
            source_buffer: self.program.buffer(source).name.clone(),
            destination: self.program.buffer(destination).name.clone(),
            why,
        }
    }

    fn temporary(&mut self, like: BufferId, layout: Layout, what: &str) -> BufferId {
        let ty = self.program.buffer(like).ty.clone();
        let name = self.symbol(what);
        self.program.add_buffer(Buffer {
            name,
            ty,
            layout,
            align: 32,
            tail: 0,
            live: None,
            address: None,
            location: self.location.clone(),
        })
    }

    fn symbol(&self, what: &str) -> String {
        if what.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{what}", self.name)
        }
    }

    /// Copies each shard to the same shard of the other buffer on the same tile.
    fn local(
        &mut self,
        source: BufferId,
        destination: BufferId,
        what: &str,
    ) -> Result<(), ConvertError> {
        let s = self.program.buffer(source);
        let pieces = s
            .layout
            .shards(s.ty.matrix())
            .into_iter()
            .map(|shard| Piece {
                tile: shard.tile,
                rows: shard.rows.len() as u32,
                panels: (shard.columns.len() as u32).div_ceil(PANEL),
                source: 0,
                destination: 0,
            });
        let pieces = pieces.collect();
        self.copy_step(source, destination, pieces, what)
    }

    /// A compute step that copies blocks of 16 columns on each tile.
    fn copy_step(
        &mut self,
        source: BufferId,
        destination: BufferId,
        mut pieces: Vec<Piece>,
        what: &str,
    ) -> Result<(), ConvertError> {
        pieces.sort_by_key(|p| p.tile);
        let (s, d) = (
            self.program.buffer(source),
            self.program.buffer(destination),
        );
        let (from, to) = (
            s.layout.storage(s.ty.element),
            d.layout.storage(d.ty.element),
        );
        let word = |p: &Piece, name: &str| {
            Some(match name {
                "rows_each" => share(p.rows)[0],
                "rows_extra" => share(p.rows)[1],
                "panels" => p.panels,
                "src_offset" => p.source,
                "dst_offset" => p.destination,
                "src_row" => from.row_stride(),
                "src_panel" => from.panel_stride(),
                "dst_row" => to.row_stride(),
                "dst_panel" => to.panel_stride(),
                _ => return None,
            })
        };
        let words: Option<Vec<u32>> = self.kernels.get(COPY).and_then(|kernel| {
            pieces
                .iter()
                .flat_map(|p| kernel.words.iter().map(move |w| word(p, w)))
                .collect()
        });
        let Some(words) = words else {
            let why = format!("needs kernel '{COPY}', which is missing or takes unknown words");
            return Err(self.error(source, destination, why));
        };
        let name = self.symbol(what);
        self.program.steps.push(Step::Compute(Compute {
            name,
            kernel: COPY.to_owned(),
            buffers: vec![source, destination],
            tiles: pieces.iter().map(|p| p.tile).collect(),
            words,
            location: self.location.clone(),
        }));
        Ok(())
    }

    /// Moves every part of `destination` from the first source shard that holds it, preferring
    /// one on the same tile.
    fn exchange(&mut self, source: BufferId, destination: BufferId) -> Result<(), ConvertError> {
        let (s, d) = (
            self.program.buffer(source),
            self.program.buffer(destination),
        );
        let matrix = s.ty.matrix();
        let (from, to) = (
            s.layout.storage(s.ty.element),
            d.layout.storage(d.ty.element),
        );
        let copies = d.layout.copies;
        let source_shards = s.layout.shards(matrix);
        let per_copy = source_shards.len() / s.layout.copies.max(1) as usize;
        let destination_shards = d.layout.shards(matrix);
        debug_assert!(copies >= 1);
        let finder = Finder::new(&source_shards[..per_copy]);
        let mut local = Vec::new();
        // (source tile, source offset, words) -> destinations
        let mut moves: BTreeMap<(u32, u32, u32), Vec<(u32, u32)>> = BTreeMap::new();
        for shard in &destination_shards {
            for i in finder.overlapping(shard) {
                let held = &source_shards[i];
                let rows = held.rows.start.max(shard.rows.start)..held.rows.end.min(shard.rows.end);
                let columns = held.columns.start.max(shard.columns.start)
                    ..held.columns.end.min(shard.columns.end);
                // Another copy of the same part may be on this very tile.
                let here = (0..s.layout.copies as usize)
                    .map(|c| &source_shards[c * per_copy + i])
                    .any(|other| other.tile == shard.tile);
                let (hr, hc) = (
                    rows.start - held.rows.start,
                    columns.start - held.columns.start,
                );
                let (dr, dc) = (
                    rows.start - shard.rows.start,
                    columns.start - shard.columns.start,
                );
                let panels = (columns.len() as u32).div_ceil(PANEL);
                if here {
                    local.push(Piece {
                        tile: shard.tile,
                        rows: rows.len() as u32,
                        panels,
                        source: from.offset(hr, hc),
                        destination: to.offset(dr, dc),
                    });
                    continue;
                }
                for p in 0..panels {
                    let words = rows.len() as u32 * PANEL * 2 / 4;
                    moves
                        .entry((held.tile, from.offset(hr, hc + p * PANEL), words))
                        .or_default()
                        .push((shard.tile, to.offset(dr, dc + p * PANEL)));
                }
            }
        }
        if !local.is_empty() {
            self.copy_step(source, destination, local, "local")?;
        }
        let transfers: Vec<Transfer> = moves
            .into_iter()
            .map(|((tile, offset, words), mut destinations)| {
                destinations.sort_unstable();
                Transfer {
                    source: tile,
                    source_offset: offset,
                    words,
                    destinations,
                }
            })
            .collect();
        if !transfers.is_empty() {
            self.program.steps.push(Step::Exchange {
                name: self.name.clone(),
                copies: vec![Copy {
                    source,
                    destination,
                    transfers: join(transfers),
                }],
                schedule: None,
                location: self.location.clone(),
            });
        }
        Ok(())
    }
}

/// Joins transfers that continue each other on both sides.
fn join(transfers: Vec<Transfer>) -> Vec<Transfer> {
    let mut out: Vec<Transfer> = Vec::with_capacity(transfers.len());
    for t in transfers {
        if let Some(last) = out.last_mut()
            && last.source == t.source
            && last.source_offset + 4 * last.words == t.source_offset
            && last.destinations.len() == t.destinations.len()
            && last
                .destinations
                .iter()
                .zip(&t.destinations)
                .all(|(a, b)| a.0 == b.0 && a.1 + 4 * last.words == b.1)
        {
            last.words += t.words;
        } else {
            out.push(t);
        }
    }
    out
}

/// A rectangle of 16-column blocks copied on one tile; offsets in bytes.
struct Piece {
    tile: u32,
    rows: u32,
    panels: u32,
    source: u32,
    destination: u32,
}

/// Finds the shards of one copy that overlap a rectangle.
struct Finder {
    /// Shard indices by start of rows.
    by_row: BTreeMap<u32, Vec<usize>>,
    shards: Vec<Shard>,
}

impl Finder {
    fn new(shards: &[Shard]) -> Self {
        let mut by_row: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, s) in shards.iter().enumerate() {
            by_row.entry(s.rows.start).or_default().push(i);
        }
        Finder {
            by_row,
            shards: shards.to_vec(),
        }
    }

    fn overlapping<'a>(&'a self, shard: &'a Shard) -> impl Iterator<Item = usize> + 'a {
        // Row blocks do not overlap each other: the first one starts at or before the rectangle.
        let first = self
            .by_row
            .range(..=shard.rows.start)
            .next_back()
            .map_or(0, |(&r, _)| r);
        self.by_row
            .range(first..shard.rows.end)
            .flat_map(|(_, list)| list.iter().copied())
            .filter(|&i| {
                let s = &self.shards[i];
                s.rows.start < shard.rows.end
                    && shard.rows.start < s.rows.end
                    && s.columns.start < shard.columns.end
                    && shard.columns.start < s.columns.end
            })
    }
}
