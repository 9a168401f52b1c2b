//! The common case: the same matrix of floats in blocks of whole panels on both sides.
//!
//! A rearrangement becomes up to three parts: rows to panels on the source tiles, an exchange of
//! panel runs (with a local copy where source and destination share a tile), panels to rows on
//! the destination tiles. Parts that do nothing are left out. Equal pieces for several tiles
//! become one multicast transfer.

use super::{Convert, ConvertError, join};
use crate::select_operators::plans::{COPY_BYTES, COPY_KERNEL as COPY, same_places};
use ipu_program::kernels::share;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Shard};
use ipu_program::tile::{BufferId, Compute, Copy, Step, Transfer};
use ipu_program::view::Walk;
use std::collections::BTreeMap;

/// Lowers a rearrangement if it is of this kind, and says whether it is.
pub(super) fn rearrange(
    c: &mut Convert<'_>,
    source: BufferId,
    destination: BufferId,
    walk: &Walk,
) -> Result<bool, ConvertError> {
    let (s, d) = (c.program.buffer(source), c.program.buffer(destination));
    let matrix = s.ty.matrix();
    let whole = *walk == Walk::identity(s.ty.elements());
    if !whole || matrix != d.ty.matrix() || !s.ty.element.is_float() {
        return Ok(false);
    }
    let (from, to) = (s.layout.clone(), d.layout.clone());
    let panels = |l: &Layout| Layout {
        order: ElementOrder::Panels,
        memory: MemoryClass::Any,
        ..l.clone()
    };
    let moved = |l: &Layout| matches!(l.order, ElementOrder::Rows | ElementOrder::Panels);
    if !moved(&from) || !moved(&to) {
        return Ok(false);
    }
    let here = same_places(&panels(&from), &panels(&to));
    // Rows go to rows as they are.
    let rows = from.order == ElementOrder::Rows && to.order == ElementOrder::Rows;
    let split = |l: &Layout| {
        let starts = (0..l.columns.parts).map(|p| l.columns.range(p, matrix.columns).start);
        starts
            .into_iter()
            .any(|s| s % PANEL != 0 && s != matrix.columns)
    };
    if !here && (rows || split(&from) || split(&to)) {
        return Ok(false);
    }
    c.panels(source, destination, here)?;
    Ok(true)
}

impl Convert<'_> {
    fn panels(
        &mut self,
        source: BufferId,
        destination: BufferId,
        here: bool,
    ) -> Result<(), ConvertError> {
        if here {
            return self.local(source, destination, "");
        }
        let panels = |layout: &Layout| Layout {
            order: ElementOrder::Panels,
            memory: MemoryClass::Any,
            ..layout.clone()
        };
        let mut in_panels = |id: BufferId, what: &str| {
            let b = self.program.buffer(id);
            match b.layout.order {
                ElementOrder::Panels => id,
                // One row is the same in both orders.
                _ if b.layout.rows.block == 1 => id,
                _ => {
                    let (ty, layout) = (b.ty.clone(), panels(&b.layout));
                    self.scratch(ty, layout, what)
                }
            }
        };
        let packed = in_panels(source, "pack");
        let arrived = in_panels(destination, "unpack");
        if packed != source {
            self.local(source, packed, "pack")?;
        }
        self.exchange(packed, arrived)?;
        if arrived != destination {
            self.local(arrived, destination, "unpack")?;
        }
        Ok(())
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

    /// Compute steps that copy blocks of 16 columns on each tile: one for f16, for f32 one for each
    /// half of the columns, as the kernel copies 32 bytes of a row of a panel.
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
        let word = |p: &Piece, part: u32, name: &str| {
            Some(match name {
                "rows_each" => share(p.rows)[0],
                "rows_extra" => share(p.rows)[1],
                "panels" => p.panels,
                "src_offset" => p.source + part,
                "dst_offset" => p.destination + part,
                "src_row" => from.row_stride(),
                "src_panel" => from.panel_stride(),
                "dst_row" => to.row_stride(),
                "dst_panel" => to.panel_stride(),
                _ => return None,
            })
        };
        let words = |part: u32| -> Option<Vec<u32>> {
            let kernel = self.kernels.get(COPY)?;
            pieces
                .iter()
                .flat_map(|p| kernel.words.iter().map(move |w| word(p, part, w)))
                .collect()
        };
        let parts = (0..PANEL * s.ty.element.bytes()).step_by(COPY_BYTES as usize);
        let Some(calls) = parts.map(words).collect::<Option<Vec<_>>>() else {
            let why = format!("needs kernel '{COPY}', which is missing or takes unknown words");
            return Err(self.error(source, destination, why));
        };
        for words in calls {
            let name = self.symbol(what);
            self.program.steps.push(Step::Compute(Compute {
                name,
                kernel: COPY.to_owned(),
                buffers: vec![source, destination],
                tiles: pieces.iter().map(|p| p.tile).collect(),
                words,
                location: self.location.clone(),
            }));
        }
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
        let source_shards = s.layout.shards(matrix);
        let per_copy = source_shards.len() / s.layout.copies.max(1) as usize;
        let destination_shards = d.layout.shards(matrix);
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
                let copies = s.layout.copies as usize;
                let copy = |c: usize| source_shards[c * per_copy + i].tile;
                let here = (0..copies).any(|c| copy(c) == shard.tile);
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
                    let offset = from.offset(hr, hc + p * PANEL);
                    // Pieces of different places come from different copies.
                    let sender = u64::from(offset) * copies as u64 / u64::from(from.bytes().max(1));
                    let words = rows.len() as u32 * PANEL * s.ty.element.bytes() / 4;
                    moves
                        .entry((copy(sender as usize), offset, words))
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
