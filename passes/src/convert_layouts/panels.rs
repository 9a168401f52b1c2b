//! The common case: a rectangle of a matrix of floats in blocks of whole panels on both sides, most
//! often all of it; or of weights in the order of the AMP, in whole blocks of it.
//!
//! A rearrangement becomes up to three parts: rows to panels on the source tiles, an exchange of
//! panel runs (with a local copy where source and destination share a tile), panels to rows on
//! the destination tiles. Parts that do nothing are left out. Equal pieces for several tiles
//! become one multicast transfer. Weights are what the host wrote, and keep their order.

use super::{Convert, ConvertError, join};
use crate::select_operators::plans::{COPY_BYTES, COPY_KERNEL as COPY, same_places};
use ipu_program::kernels::share;
use ipu_program::layout::{
    ElementOrder, Layout, MemoryClass, PANEL, Shard, ShardStorage, WEIGHT_BYTES,
};
use ipu_program::tile::{Buffer, BufferId, Compute, Copy, Step, Transfer};
use ipu_program::types::{ElementType, Matrix};
use ipu_program::view::{Axis, Walk};
use std::collections::BTreeMap;

/// A rectangle of the source's matrix and where it lies in the destination's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rectangle {
    rows: u32,
    columns: u32,
    /// First row and column in the source.
    from: [u32; 2],
    /// The same in the destination.
    to: [u32; 2],
}

impl Rectangle {
    /// The rectangle that a walk moves, `None` when it moves something else.
    fn of(walk: &Walk, source: Matrix, destination: Matrix) -> Option<Rectangle> {
        let place = |element: u64, m: Matrix| {
            let width = u64::from(m.columns.max(1));
            [element / width, element % width].map(|n| n as u32)
        };
        let (from, to) = (
            place(walk.source, source),
            place(walk.destination, destination),
        );
        let strides = (source.columns.into(), destination.columns.into());
        let row = |a: &Axis| a.source == 1 && a.destination == 1;
        let (rows, columns) = match walk.axes.as_slice() {
            [] => (1, 1),
            [a] if row(a) && source.columns == destination.columns && from[1] + to[1] == 0 => {
                // Whole rows, or a part of one.
                let width = u64::from(source.columns.max(1));
                match a.extent % width {
                    0 => (a.extent / width, width),
                    _ if a.extent < width => (1, a.extent),
                    _ => return None,
                }
            }
            [a] if row(a) => (1, a.extent),
            [a] if (a.source, a.destination) == strides => (a.extent, 1),
            [a, b] if (a.source, a.destination) == strides && row(b) => (a.extent, b.extent),
            _ => return None,
        };
        let ends = |at: u32, n: u64, end: u32| u64::from(at) + n <= end.into();
        let inside = ends(from[1], columns, source.columns)
            && ends(to[1], columns, destination.columns)
            && ends(from[0], rows, source.rows)
            && ends(to[0], rows, destination.rows);
        inside.then_some(Rectangle {
            rows: rows as u32,
            columns: columns as u32,
            from,
            to,
        })
    }

    /// Whether it begins at whole units of an axis (0 rows, 1 columns) of both matrices, and ends
    /// there or at the end of both.
    fn in_units(&self, axis: usize, unit: u32, ends: [u32; 2]) -> bool {
        let extent = [self.rows, self.columns][axis];
        let (from, to) = (self.from[axis], self.to[axis]);
        let whole = extent.is_multiple_of(unit) || [from + extent, to + extent] == ends;
        from.is_multiple_of(unit) && to.is_multiple_of(unit) && whole
    }

    /// The part of the source that a shard of the destination receives, in rows and columns of the
    /// source.
    fn source_of(&self, shard: &Shard) -> Option<Shard> {
        let axis = |range: &std::ops::Range<u32>, axis: usize| {
            let (from, to) = (self.from[axis], self.to[axis]);
            let end = to + [self.rows, self.columns][axis];
            let (start, end) = (range.start.max(to), range.end.min(end));
            (start < end).then(|| start - to + from..end - to + from)
        };
        Some(Shard {
            tile: shard.tile,
            rows: axis(&shard.rows, 0)?,
            columns: axis(&shard.columns, 1)?,
        })
    }
}

/// Lowers a rearrangement if it is of this kind, and says whether it is.
pub(super) fn rearrange(
    c: &mut Convert<'_>,
    source: BufferId,
    destination: BufferId,
    walk: &Walk,
) -> Result<bool, ConvertError> {
    let (s, d) = (c.program.buffer(source), c.program.buffer(destination));
    let Some(rectangle) = Rectangle::of(walk, s.ty.matrix(), d.ty.matrix()) else {
        return Ok(false);
    };
    if !s.ty.element.is_float() {
        return Ok(false);
    }
    if is_weights(s.layout.order) && s.layout.order == d.layout.order {
        let whole = weights_in_blocks(s, d, &rectangle);
        if whole {
            c.exchange(source, destination, &rectangle)?;
        }
        return Ok(whole);
    }
    let matrix = s.ty.matrix();
    let whole = *walk == Walk::identity(s.ty.elements()) && matrix == d.ty.matrix();
    let (from, to) = (s.layout.clone(), d.layout.clone());
    let panels = |l: &Layout| Layout {
        order: ElementOrder::Panels,
        memory: MemoryClass::Any,
        ..l.clone()
    };
    let moved = |l: &Layout| match l.order {
        ElementOrder::Panels => true,
        ElementOrder::Rows => whole,
        _ => false,
    };
    if !moved(&from) || !moved(&to) {
        return Ok(false);
    }
    let here = whole && same_places(&panels(&from), &panels(&to));
    // Rows go to rows as they are.
    let rows = from.order == ElementOrder::Rows && to.order == ElementOrder::Rows;
    let split = |b: &Buffer| {
        let columns = b.ty.matrix().columns;
        let parts = 0..b.layout.columns.parts;
        let starts = parts.map(|p| b.layout.columns.range(p, columns).start);
        starts.into_iter().any(|s| s % PANEL != 0 && s != columns)
    };
    let ends = [matrix.columns, d.ty.matrix().columns];
    if !here && (rows || split(s) || split(d) || !rectangle.in_units(1, PANEL, ends)) {
        return Ok(false);
    }
    c.panels(source, destination, &rectangle, here)?;
    Ok(true)
}

fn is_weights(order: ElementOrder) -> bool {
    matches!(order, ElementOrder::Weights8 | ElementOrder::Weights16)
}

/// Rows of a block of weights.
fn depth(element: ElementType) -> u32 {
    WEIGHT_BYTES / element.bytes()
}

/// Whether a rectangle of weights consists of whole blocks on both sides.
fn weights_in_blocks(s: &Buffer, d: &Buffer, rectangle: &Rectangle) -> bool {
    let (from, to) = (s.ty.matrix(), d.ty.matrix());
    let starts = |b: &Buffer| -> Vec<u32> {
        let columns = b.ty.matrix().columns;
        let parts = 0..b.layout.columns.parts;
        parts
            .map(|p| b.layout.columns.range(p, columns).start)
            .collect()
    };
    let (cut_from, cut_to) = (starts(s), starts(d));
    let aligned = |list: &[u32], end: u32| list.iter().all(|s| s % PANEL == 0 || *s == end);
    let whole_columns = [rectangle.columns; 2] == [from.columns, to.columns];
    let columns = (whole_columns && cut_from == cut_to)
        || (aligned(&cut_from, from.columns)
            && aligned(&cut_to, to.columns)
            && rectangle.in_units(1, PANEL, [from.columns, to.columns]));
    let rows = |b: &Buffer| {
        let rows = b.ty.matrix().rows;
        let starts = (0..b.layout.rows.parts).map(|p| b.layout.rows.range(p, rows).start);
        // The shards of weights are padded to 16 rows whatever a block has.
        starts.into_iter().all(|s| s % PANEL == 0 || s == rows)
    };
    columns && rows(s) && rows(d) && rectangle.in_units(0, PANEL, [from.rows, to.rows])
}

/// Pieces of a shard that are contiguous: stacks of lines of 32 bytes.
struct Stacks {
    /// Lines of a stack, in which `rows` rows are.
    lines: u32,
    /// Stacks.
    count: u32,
    /// Columns from a stack to the next.
    columns: u32,
}

impl Stacks {
    fn of(storage: &ShardStorage, rows: u32, columns: u32) -> Stacks {
        match storage.order {
            ElementOrder::Rows | ElementOrder::Panels => Stacks {
                lines: rows * PANEL * storage.element.bytes() / COPY_BYTES,
                count: columns.div_ceil(PANEL),
                columns: PANEL,
            },
            ElementOrder::Weights8 | ElementOrder::Weights16 => {
                let group = group(storage.order);
                let blocks = rows.next_multiple_of(PANEL) / depth(storage.element);
                Stacks {
                    lines: blocks * group,
                    count: columns.next_multiple_of(PANEL) / group,
                    columns: group,
                }
            }
        }
    }
}

/// Columns of a group of weights.
fn group(order: ElementOrder) -> u32 {
    match order {
        ElementOrder::Weights8 => PANEL / 2,
        _ => PANEL,
    }
}

/// Bytes from a row, or a line of weights, to the next, and from a stack to the next.
fn strides(storage: &ShardStorage) -> [u32; 2] {
    match storage.order {
        ElementOrder::Rows | ElementOrder::Panels => [storage.row_stride(), storage.panel_stride()],
        ElementOrder::Weights8 | ElementOrder::Weights16 => {
            let blocks = storage.padded_rows() / depth(storage.element);
            [WEIGHT_BYTES, blocks * group(storage.order) * WEIGHT_BYTES]
        }
    }
}

impl Convert<'_> {
    fn panels(
        &mut self,
        source: BufferId,
        destination: BufferId,
        rectangle: &Rectangle,
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
        self.exchange(packed, arrived, rectangle)?;
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
        let (s, d) = (
            self.program.buffer(source),
            self.program.buffer(destination),
        );
        let (from, to) = (
            strides(&s.layout.storage(s.ty.element)),
            strides(&d.layout.storage(d.ty.element)),
        );
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
                from,
                to,
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
        let s = self.program.buffer(source);
        let word = |p: &Piece, part: u32, name: &str| {
            Some(match name {
                "rows_each" => share(p.rows)[0],
                "rows_extra" => share(p.rows)[1],
                "panels" => p.panels,
                "src_offset" => p.source + part,
                "dst_offset" => p.destination + part,
                "src_row" => p.from[0],
                "src_panel" => p.from[1],
                "dst_row" => p.to[0],
                "dst_panel" => p.to[1],
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
        // Of weights a line is 32 bytes.
        let line = match is_weights(s.layout.order) {
            true => COPY_BYTES,
            false => PANEL * s.ty.element.bytes(),
        };
        let parts = (0..line).step_by(COPY_BYTES as usize);
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

    /// Moves the part of every shard of `destination` that a rectangle has from the first source
    /// shards that hold it, preferring ones on the same tile.
    fn exchange(
        &mut self,
        source: BufferId,
        destination: BufferId,
        rectangle: &Rectangle,
    ) -> Result<(), ConvertError> {
        let (s, d) = (
            self.program.buffer(source),
            self.program.buffer(destination),
        );
        let element = s.ty.element;
        let bytes = s.layout.storage(element).bytes().max(1);
        let source_shards = s.layout.shards(s.ty.matrix());
        let per_copy = source_shards.len() / s.layout.copies.max(1) as usize;
        let destination_shards = d.layout.shards(d.ty.matrix());
        let finder = Finder::new(&source_shards[..per_copy]);
        let mut local = Vec::new();
        // (source tile, source offset, words) -> destinations
        let mut moves: BTreeMap<(u32, u32, u32), Vec<(u32, u32)>> = BTreeMap::new();
        for shard in &destination_shards {
            let Some(wanted) = rectangle.source_of(shard) else {
                continue;
            };
            let to = d.layout.shard_storage(shard, element);
            for i in finder.overlapping(&wanted) {
                let held = &source_shards[i];
                let from = s.layout.shard_storage(held, element);
                let rows =
                    held.rows.start.max(wanted.rows.start)..held.rows.end.min(wanted.rows.end);
                let columns = held.columns.start.max(wanted.columns.start)
                    ..held.columns.end.min(wanted.columns.end);
                // Another copy of the same part may be on this very tile.
                let copies = s.layout.copies as usize;
                let copy = |c: usize| source_shards[c * per_copy + i].tile;
                let here = (0..copies).any(|c| copy(c) == shard.tile);
                let (hr, hc) = (
                    rows.start - held.rows.start,
                    columns.start - held.columns.start,
                );
                let [r0, c0] =
                    [0, 1].map(|axis| rectangle.to[axis] as i64 - rectangle.from[axis] as i64);
                let back = |at: u32, by: i64, start: u32| (i64::from(at) + by) as u32 - start;
                let (dr, dc) = (
                    back(rows.start, r0, shard.rows.start),
                    back(columns.start, c0, shard.columns.start),
                );
                let stacks = Stacks::of(&from, rows.len() as u32, columns.len() as u32);
                if here {
                    local.push(Piece {
                        tile: shard.tile,
                        rows: match is_weights(from.order) {
                            true => stacks.lines,
                            false => rows.len() as u32,
                        },
                        panels: stacks.count,
                        source: from.offset(hr, hc),
                        destination: to.offset(dr, dc),
                        from: strides(&from),
                        to: strides(&to),
                    });
                    continue;
                }
                for p in 0..stacks.count {
                    let offset = from.offset(hr, hc + p * stacks.columns);
                    // Pieces of different places come from different copies.
                    let sender = u64::from(offset) * copies as u64 / u64::from(bytes);
                    moves
                        .entry((copy(sender as usize), offset, stacks.lines * COPY_BYTES / 4))
                        .or_default()
                        .push((shard.tile, to.offset(dr, dc + p * stacks.columns)));
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

/// Blocks of 16 columns, or stacks of lines of weights, copied on one tile; offsets in bytes.
struct Piece {
    tile: u32,
    rows: u32,
    panels: u32,
    source: u32,
    destination: u32,
    /// From a row to the next and from a panel to the next, at the source.
    from: [u32; 2],
    /// The same at the destination.
    to: [u32; 2],
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
