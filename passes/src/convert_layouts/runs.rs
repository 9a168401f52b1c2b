//! From a view to runs: which bytes of a source shard become which of a destination shard.
//!
//! Offsets and lengths count halves (2 bytes) of the storage of a shard, so that f16 and f32 are
//! one case: an f32 element is two halves.

use ipu_program::layout::{ElementOrder, Layout, PANEL, ShardStorage, Split};
use ipu_program::tile::Buffer;
use ipu_program::view::{Axis, Walk};
use std::ops::Range;

/// Source of a run of zeros.
pub(super) const ZERO: u32 = u32::MAX;
/// Source of what the destination holds already.
pub(super) const KEEP: u32 = u32::MAX - 1;

/// Most runs that a rearrangement may fall into: a bound on memory.
const MAX_RUNS: usize = 1 << 26;

/// Halves that are contiguous in a source and in a destination shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    /// First half of the destination shard.
    pub at: u32,
    /// Source shard, [`ZERO`] or [`KEEP`].
    pub shard: u32,
    /// First half of the source; nothing for zeros.
    pub from: u32,
    /// Halves.
    pub len: u32,
}

impl Run {
    /// The part of a run between two halves counted from its start.
    pub fn part(&self, range: Range<u32>) -> Run {
        let from = match self.shard {
            ZERO => 0,
            _ => self.from + range.start,
        };
        Run {
            at: self.at + range.start,
            from,
            len: range.len() as u32,
            ..*self
        }
    }

    /// Whether it consists of whole words on both sides.
    pub fn aligned(&self) -> bool {
        (self.at | self.from | self.len).is_multiple_of(2)
    }

    /// The end in the destination.
    pub fn end(&self) -> u32 {
        self.at + self.len
    }

    fn continued_by(&self, next: &Run) -> bool {
        self.shard == next.shard
            && self.end() == next.at
            && (self.shard == ZERO || self.from + self.len == next.from)
    }
}

/// Appends a run, to the last one where it continues that.
pub(super) fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.continued_by(&run) => last.len += run.len,
        _ => runs.push(run),
    }
}

/// The parts of one copy of a tensor, and where the copies of each live. Shards are numbered as
/// by [`Layout::shards`].
pub(super) struct Grid {
    rows: Vec<Range<u32>>,
    columns: Vec<Range<u32>>,
    /// Columns of the matrix.
    width: u64,
    /// How each shard is stored.
    pub storage: ShardStorage,
    /// Tiles of the copies of each shard.
    pub tiles: Vec<Vec<u32>>,
}

/// Where an element lives.
struct Spot {
    shard: usize,
    /// First half.
    at: u32,
    /// Elements from here on that are contiguous.
    room: u32,
    /// Elements to the end of the row of the shard.
    rest: u32,
    /// Elements of padding behind that row.
    padding: u32,
}

impl Grid {
    /// The parts of a buffer.
    ///
    /// # Errors
    /// An order that kernels do not move, or parts that do not hold the tensor.
    pub fn new(buffer: &Buffer) -> Result<Grid, String> {
        let Layout {
            order,
            first_tile,
            copies,
            copy_stride,
            ..
        } = buffer.layout;
        if !matches!(order, ElementOrder::Rows | ElementOrder::Panels) {
            return Err(format!(
                "has element order '{}', which only the host writes",
                order.name()
            ));
        }
        let matrix = buffer.ty.matrix();
        let (rows, row_tiles) = parts(&buffer.layout.rows, matrix.rows, "rows")?;
        let (columns, column_tiles) = parts(&buffer.layout.columns, matrix.columns, "columns")?;
        let tile =
            |row: u32, column: u32, copy: u32| first_tile + copy * copy_stride + row + column;
        let tiles = row_tiles.iter().flat_map(|&r| {
            column_tiles
                .iter()
                .map(move |&c| (0..copies).map(|k| tile(r, c, k)).collect())
        });
        Ok(Grid {
            tiles: tiles.collect(),
            rows,
            columns,
            width: matrix.columns.into(),
            storage: buffer.layout.storage(buffer.ty.element),
        })
    }

    /// Halves of an element.
    fn halves(&self) -> u32 {
        self.storage.element.bytes() / 2
    }

    /// Halves of a shard's storage.
    pub fn shard_halves(&self) -> u32 {
        self.storage.bytes() / 2
    }

    /// Halves of the rows of a shard, padding of the last panel included.
    pub fn row_halves(&self, shard: usize) -> u64 {
        let n = self.columns.len();
        let columns = self.columns[shard % n]
            .len()
            .next_multiple_of(PANEL as usize);
        (self.rows[shard / n].len() * columns) as u64 * u64::from(self.halves())
    }

    /// Where an element lives; `near` are the row and column part of the last one.
    fn find(&self, element: u64, near: &mut (usize, usize)) -> Spot {
        let (row, column) = ((element / self.width) as u32, (element % self.width) as u32);
        let locate = |parts: &[Range<u32>], x: u32, near: usize| match parts[near].contains(&x) {
            true => near,
            false => parts.partition_point(|p| p.start <= x) - 1,
        };
        *near = (
            locate(&self.rows, row, near.0),
            locate(&self.columns, column, near.1),
        );
        let (rows, columns) = (&self.rows[near.0], &self.columns[near.1]);
        let (r, c) = (row - rows.start, column - columns.start);
        let rest = columns.end - column;
        Spot {
            shard: near.0 * self.columns.len() + near.1,
            at: self.storage.offset(r, c) / 2,
            room: match self.storage.order {
                ElementOrder::Panels => rest.min(PANEL - c % PANEL),
                _ => rest,
            },
            rest,
            padding: (columns.len() as u32).next_multiple_of(PANEL) - columns.len() as u32,
        }
    }
}

/// The parts of an axis that are not empty, each with its tiles from the first.
fn parts(split: &Split, extent: u32, what: &str) -> Result<(Vec<Range<u32>>, Vec<u32>), String> {
    let (mut ranges, mut tiles) = (Vec::new(), Vec::new());
    let mut next = 0;
    for p in 0..split.parts {
        let range = split.range(p, extent);
        if range.is_empty() {
            continue;
        }
        if range.start != next || range.len() > split.block as usize {
            return Err(format!(
                "has {what} {} to {} in part {p}, which do not follow {next} or are more than the block of {}",
                range.start, range.end, split.block
            ));
        }
        next = range.end;
        ranges.push(range);
        tiles.push(split.tile(p));
    }
    match next == extent {
        true => Ok((ranges, tiles)),
        false => Err(format!("holds {next} of {extent} {what}")),
    }
}

/// The runs of every destination shard, ascending and as long as they can be. Where the last
/// column of a row arrives, its padding does as well: from the padding of the source row that ends
/// there too, else as a run of zeros.
///
/// # Errors
/// More runs than memory should hold.
pub(super) fn runs(
    walk: &Walk,
    source: &Grid,
    destination: &Grid,
) -> Result<Vec<Vec<Run>>, String> {
    let mut out: Vec<Vec<Run>> = vec![Vec::new(); destination.tiles.len()];
    let halves = destination.halves();
    let (mut near_s, mut near_d) = ((0, 0), (0, 0));
    let mut count = 0usize;
    walk.lines(|s, d, axis| {
        let Axis {
            extent,
            source: ss,
            destination: ds,
        } = axis;
        let contiguous = ss == 1 && ds == 1;
        let mut i = 0;
        while i < extent && count <= MAX_RUNS {
            let from = source.find(s + i * ss, &mut near_s);
            let to = destination.find(d + i * ds, &mut near_d);
            let len = match contiguous {
                true => u64::from(from.room.min(to.room)).min(extent - i) as u32,
                false => 1,
            };
            let mut run = Run {
                at: to.at,
                shard: from.shard as u32,
                from: from.at,
                len: len * halves,
            };
            i += u64::from(len);
            let list = &mut out[to.shard];
            let before = list.len();
            if len < to.rest || to.padding == 0 {
                push(list, run);
            } else if len == from.rest && from.padding >= to.padding {
                run.len += to.padding * halves;
                push(list, run);
            } else {
                push(list, run);
                let zeros = Run {
                    at: run.end(),
                    shard: ZERO,
                    from: 0,
                    len: to.padding * halves,
                };
                push(list, zeros);
            }
            count += list.len() - before;
        }
    });
    if count > MAX_RUNS {
        return Err(format!("falls into more than {MAX_RUNS} pieces"));
    }
    for list in &mut out {
        // Ascending within a row already; panels and rows of several lines interleave.
        if !list.is_sorted() {
            list.sort_unstable();
        }
        let mut merged = Vec::new();
        list.drain(..).for_each(|run| push(&mut merged, run));
        *list = merged;
    }
    Ok(out)
}
