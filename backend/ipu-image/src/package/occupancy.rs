//! What lies where in the memory of a tile and when, read from a package alone, and the check that no
//! two things lie at the same place at the same time.
//!
//! It shares nothing with placement: it reads what is loaded and what the package says of its
//! buffers.

use super::Package;
use ipu_target::Target;
use std::collections::BTreeMap;

/// What a range of memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// A segment of the image.
    Image,
    /// Stacks and scratch of the runtime.
    State,
    /// A buffer of the program.
    Buffer,
}

impl Content {
    /// Name in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Content::Image => "image",
            Content::State => "state",
            Content::Buffer => "buffer",
        }
    }
}

/// A range of memory of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
    /// What it holds.
    pub content: Content,
    /// Symbol of a buffer; what else is there.
    pub name: String,
    /// First and last step in which it is in use, inclusive; `None`: always.
    pub live: Option<(u32, u32)>,
}

impl Range {
    fn meets(&self, other: &Range) -> bool {
        let apart = match (self.live, other.live) {
            (Some(a), Some(b)) => a.1 < b.0 || b.1 < a.0,
            _ => false,
        };
        !apart && self.start < other.end && other.start < self.end
    }
}

/// Two ranges of a tile that are in use at the same time and overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Logical tile, the first on which they do.
    pub tile: u32,
    /// Tiles on which they do.
    pub tiles: u32,
    /// The two, by address.
    pub ranges: [Range; 2],
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b] = &self.ranges;
        let more = match self.tiles {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        write!(
            f,
            "tile {}{more}: {} '{}' at {:#x}..{:#x} overlaps {} '{}' at {:#x}..{:#x}",
            self.tile,
            a.content.name(),
            a.name,
            a.start,
            a.end,
            b.content.name(),
            b.name,
            b.start,
            b.end
        )
    }
}

/// The ranges of all tiles, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    tiles: BTreeMap<u32, Vec<Range>>,
    steps: u32,
}

impl Occupancy {
    /// Reads a package.
    pub fn of(package: &Package, target: &Target) -> Occupancy {
        let mut tiles: BTreeMap<u32, Vec<Range>> = BTreeMap::new();
        let (state, bytes) = package.description.runtime_state;
        for image in package.images.tiles() {
            let ranges = tiles.entry(image.tile).or_default();
            for (start, bytes) in package.images.segments(image) {
                let name = segment_name(package, start, target);
                ranges.push(Range {
                    start,
                    end: start + bytes.len() as u32,
                    content: Content::Image,
                    name,
                    live: None,
                });
            }
            if bytes > 0 {
                ranges.push(Range {
                    start: state,
                    end: state.saturating_add(bytes),
                    content: Content::State,
                    name: "runtime state".to_owned(),
                    live: None,
                });
            }
        }
        for buffer in &package.description.buffers {
            for shard in buffer.layout.shards(buffer.ty.matrix()) {
                tiles.entry(shard.tile).or_default().push(Range {
                    start: buffer.address,
                    end: buffer.address.saturating_add(buffer.reserved),
                    content: Content::Buffer,
                    name: buffer.name.clone(),
                    live: buffer.live,
                });
            }
        }
        for ranges in tiles.values_mut() {
            ranges.sort_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
        }
        Occupancy {
            tiles,
            steps: package.metadata.steps.len() as u32,
        }
    }

    /// The ranges of a tile, by address; none of a tile that the package does not have.
    pub fn tile(&self, tile: u32) -> &[Range] {
        self.tiles.get(&tile).map_or(&[], Vec::as_slice)
    }

    /// The tiles.
    pub fn tiles(&self) -> impl Iterator<Item = u32> + '_ {
        self.tiles.keys().copied()
    }

    /// Bytes in use on a tile in each step; one entry for a program without steps.
    pub fn bytes(&self, tile: u32) -> Vec<u64> {
        let steps = self.steps.max(1) as usize;
        let mut change = vec![0i64; steps + 1];
        for range in self.tile(tile) {
            let bytes = i64::from(range.end) - i64::from(range.start);
            let (first, last) = range.live.unwrap_or((0, u32::MAX));
            let first = first as usize;
            if first < steps {
                change[first] += bytes;
                change[(last as usize).saturating_add(1).min(steps)] -= bytes;
            }
        }
        let mut now = 0;
        let sums = change[..steps].iter().map(|c| {
            now += c;
            now.max(0) as u64
        });
        sums.collect()
    }

    /// The pairs of ranges that are at one place at one time, by tile; each pair once, with the
    /// number of its tiles.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut found: Vec<Conflict> = Vec::new();
        for (&tile, ranges) in &self.tiles {
            for (i, a) in ranges.iter().enumerate() {
                // By address: whatever starts behind this one cannot meet it.
                for b in ranges[i + 1..].iter().take_while(|b| b.start < a.end) {
                    if !a.meets(b) {
                        continue;
                    }
                    let ranges = [a.clone(), b.clone()];
                    match found.iter_mut().find(|c| c.ranges == ranges) {
                        Some(known) => known.tiles += 1,
                        None => found.push(Conflict {
                            tile,
                            tiles: 1,
                            ranges,
                        }),
                    }
                }
            }
        }
        found
    }
}

/// What a segment is, as far as its address tells.
fn segment_name(package: &Package, start: u32, target: &Target) -> String {
    let rows = package.description.rows_area;
    let symbol = package.symbols.iter().find(|s| s.address == start);
    match (rows, symbol) {
        (Some((first, bytes)), _) if start >= first && start - first < bytes => "exchange rows",
        _ if start == target.load_base => "kernels",
        (_, Some(symbol)) => return symbol.name.clone(),
        _ => "argument records",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, end: u32, live: Option<(u32, u32)>) -> Range {
        Range {
            start,
            end,
            content: Content::Buffer,
            name: format!("{start:x}"),
            live,
        }
    }

    fn of(ranges: Vec<Range>) -> Occupancy {
        Occupancy {
            tiles: BTreeMap::from([(3, ranges.clone()), (5, ranges)]),
            steps: 4,
        }
    }

    #[test]
    fn only_what_lives_together_conflicts() {
        let apart = of(vec![
            range(0, 8, Some((0, 1))),
            range(0, 8, Some((2, 3))),
            range(8, 16, None),
        ]);
        assert_eq!(apart.conflicts(), []);
        let together = of(vec![range(0, 8, Some((0, 2))), range(4, 12, Some((2, 3)))]);
        let found = together.conflicts();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].tile, found[0].tiles), (3, 2));
        assert_eq!(
            found[0].to_string(),
            "tile 3 and 1 more: buffer '0' at 0x0..0x8 overlaps buffer '4' at 0x4..0xc"
        );
        let always = of(vec![range(0, 100, None), range(4, 12, Some((9, 9)))]);
        assert_eq!(always.conflicts().len(), 1);
    }

    #[test]
    fn bytes_by_step() {
        let found = of(vec![
            range(0, 8, Some((1, 2))),
            range(0, 4, Some((3, 9))),
            range(100, 110, None),
        ]);
        assert_eq!(found.bytes(3), [10, 18, 18, 14]);
        assert_eq!(found.bytes(4), [0; 4]);
    }
}
