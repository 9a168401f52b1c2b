//! Another numbering of the tiles of a whole program.
//!
//! How long a message takes depends on where its tiles are on the chip, and what a plan calls tile
//! 5 may be any tile. Renumberings that are tried are transposes within blocks: in each block of
//! `rows * columns` tiles, tile `r * columns + c` of the block becomes `c * rows + r`. They are
//! screened by a score that needs no schedule (the sum of the phases' lower bounds by route,
//! [`Traffic::score`]); the best few are scheduled, and one is used only when the scheduled cycles
//! of the program are then fewer, by as much as is asked for: plain numbers are easier to read. A
//! renumbering that some layout cannot express is left out. Counts bound all of it.

use super::{PhaseError, reuse::Cache};
use super::{TRIAL_TRANSFERS, schedule_all, transfers};
use ipu_image::timeline::timeline;
use ipu_program::kernels::Kernels;
use ipu_program::layout::{Layout, Split};
use ipu_program::tile::{Copy, Step, TileProgram};
use ipu_program::types::Matrix;
use ipu_target::Target;
use ipu_target::geometry::{Physical, time_to_mux};
use std::collections::{BTreeMap, BTreeSet};

/// Most renumberings that get a score.
const MAX_SCORED: usize = 32;

/// Most renumberings that are scheduled.
const MAX_SCHEDULED: usize = 2;

/// A transpose within blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transpose {
    rows: u32,
    columns: u32,
    /// Tiles of the program. Those behind the last whole block stay.
    tiles: u32,
}

impl Transpose {
    fn map(self, tile: u32) -> u32 {
        let block = self.rows * self.columns;
        let (first, within) = (tile / block * block, tile % block);
        if first + block > self.tiles {
            return tile;
        }
        first + within % self.columns * self.rows + within / self.columns
    }

    /// Those of a program: the largest blocks first.
    fn all(tiles: u32) -> Vec<Transpose> {
        let mut list = Vec::new();
        for block in (4..=tiles).rev().filter(|b| tiles.is_multiple_of(*b)) {
            for columns in (2..block).filter(|c| block.is_multiple_of(*c)) {
                list.push(Transpose {
                    rows: block / columns,
                    columns,
                    tiles,
                });
                if list.len() == MAX_SCORED {
                    return list;
                }
            }
        }
        list
    }
}

/// Renumbers the tiles of a scheduled program where that saves cycles, at least `least` thousandths
/// of them; see the module.
///
/// # Errors
/// As [`super::phase_exchanges`]; what could be scheduled can be under other numbers.
pub fn screen(
    program: &mut TileProgram,
    target: &Target,
    kernels: &Kernels,
    least: u32,
) -> Result<(), PhaseError> {
    let count = transfers(program);
    if least >= 1000 || count == 0 || count * MAX_SCHEDULED > TRIAL_TRANSFERS {
        return Ok(());
    }
    let phases: Vec<Traffic> = program.steps.iter().filter_map(Traffic::of).collect();
    let score = |map: &dyn Fn(u32) -> u32| -> u64 {
        let of = |t: &Traffic| u64::from(t.score(target, map));
        phases.iter().map(of).sum()
    };
    let now = score(&|tile| tile);
    let mut list: Vec<(u64, Transpose)> = Transpose::all(program.tiles)
        .into_iter()
        .filter(|t| layouts(program, *t).is_some())
        .map(|t| (score(&|tile| t.map(tile)), t))
        .filter(|scored| scored.0 < now)
        .collect();
    list.sort_by_key(|scored| scored.0);
    tracing::debug!(score = now, better = list.len(), first = ?list.first(), "tiles screened");
    let given = timeline(program, target, kernels).total;
    let wanted = given.saturating_mul(u64::from(least)).div_ceil(1000);
    let mut best = given;
    let original = program.clone();
    for (_, transpose) in list.into_iter().take(MAX_SCHEDULED) {
        let Some(mut other) = renumbered(&original, transpose) else {
            continue;
        };
        schedule_all(&mut other, target, Cache::shared())?;
        let total = timeline(&other, target, kernels).total;
        if total < best && given - total >= wanted {
            tracing::debug!(
                ?transpose,
                cycles = total,
                before = best,
                "tiles renumbered"
            );
            (*program, best) = (other, total);
        }
    }
    Ok(())
}

/// What the bound of a phase by route needs to know: it does not change with the numbering.
struct Traffic {
    /// Pairs of sender and receiver.
    links: Vec<(u32, u32)>,
    /// Words by tile that sends, and that receives.
    sent: BTreeMap<u32, u32>,
    received: BTreeMap<u32, u32>,
}

impl Traffic {
    fn of(step: &Step) -> Option<Traffic> {
        let Step::Exchange { copies, .. } = step else {
            return None;
        };
        let mut links = BTreeSet::new();
        let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
        let add = |words: &mut BTreeMap<u32, u32>, tile: u32, count: u32| {
            let all = words.entry(tile).or_insert(0);
            *all = all.saturating_add(count);
        };
        for t in copies.iter().flat_map(|c| &c.transfers) {
            add(&mut sent, t.source, t.words);
            for &(tile, _) in &t.destinations {
                links.insert((t.source, tile));
                add(&mut received, tile, t.words);
            }
        }
        Some(Traffic {
            links: links.into_iter().collect(),
            sent,
            received,
        })
    }

    /// Fewest events of the phase when `map` numbers the tiles: of every tile what it sends, or
    /// receives, with the shortest way before its first word and behind its last one.
    fn score(&self, target: &Target, map: impl Fn(u32) -> u32) -> u32 {
        // Of each receiver the first window of its mux; of each sender its first word and the way
        // from the end of its sends to the end of a row.
        let mut windows: BTreeMap<u32, u32> = BTreeMap::new();
        let mut sends: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for &(source, destination) in &self.links {
            let (start, window, tail) = route(target, map(source), map(destination));
            let first = windows.entry(destination).or_insert(window);
            *first = (*first).min(window);
            let ends = sends.entry(source).or_insert((start, tail));
            *ends = (ends.0.min(start), ends.1.min(tail));
        }
        let received = windows.iter().map(|(tile, window)| {
            let words = self.received.get(tile).copied().unwrap_or(0);
            window
                .saturating_add(words)
                .saturating_add(behind(target, map(*tile)))
        });
        let sent = sends.iter().map(|(tile, &(start, tail))| {
            let words = self.sent.get(tile).copied().unwrap_or(0);
            let row = words.saturating_add(tail).max(target.min_sender_row);
            start.saturating_add(row)
        });
        received.chain(sent).max().unwrap_or(0)
    }
}

/// Events from the mux setting for a word to the end of the receiver's row.
fn behind(target: &Target, tile: u32) -> u32 {
    let rows = Physical::of_logical(tile).row() as u32;
    target.first_write_after_mux + 2 * rows + target.receive_guard
}

/// The earliest send from a tile to another, the mux window of its first word, and the events from
/// the end of a send to the end of the receiver's row.
fn route(target: &Target, source: u32, destination: u32) -> (u32, u32, u32) {
    let (from, to) = (
        Physical::of_logical(source),
        Physical::of_logical(destination),
    );
    let lag = time_to_mux(from, to) + 1;
    let start = (1 - lag).max(0);
    let tail = lag + behind(target, destination) as i32;
    (start as u32, (start + lag) as u32, tail.max(0) as u32)
}

/// The layouts of all buffers under other numbers; `None` where one has no form.
fn layouts(program: &TileProgram, transpose: Transpose) -> Option<Vec<Layout>> {
    let buffers = program.buffers.iter();
    buffers
        .map(|b| layout(&b.layout, b.ty.matrix(), transpose))
        .collect()
}

/// A layout with the same parts on the tiles that a transpose says.
fn layout(old: &Layout, matrix: Matrix, transpose: Transpose) -> Option<Layout> {
    let first = transpose.map(old.first_tile);
    let from_first = |by: u32| transpose.map(old.first_tile + by).checked_sub(first);
    let split = |s: &Split| -> Option<Split> {
        let places: Option<Vec<u32>> = (0..s.parts).map(|p| from_first(s.tile(p))).collect();
        strides(s, &places?)
    };
    let new = Layout {
        rows: split(&old.rows)?,
        columns: split(&old.columns)?,
        copy_stride: match old.copies {
            0 | 1 => old.copy_stride,
            _ => from_first(old.copy_stride)?,
        },
        first_tile: first,
        ..old.clone()
    };
    // What was found from some tiles holds for all, or it is no form of this layout.
    let (before, after) = (old.shards(matrix), new.shards(matrix));
    let same = before.len() == after.len()
        && before
            .iter()
            .zip(&after)
            .all(|(a, b)| transpose.map(a.tile) == b.tile);
    same.then_some(new)
}

/// The split with its parts at these places, if strides can say them.
fn strides(split: &Split, places: &[u32]) -> Option<Split> {
    let stride = places.get(1).copied().unwrap_or(split.stride);
    let breaks = (2u32..).zip(places.iter().skip(2));
    let group = breaks
        .into_iter()
        .find(|&(p, &place)| u64::from(p) * u64::from(stride) != u64::from(place));
    let new = match group {
        None => Split {
            stride,
            group: 0,
            group_stride: 0,
            ..*split
        },
        Some((group, &group_stride)) => Split { stride, ..*split }.grouped(group, group_stride),
    };
    let holds = (0..).zip(places).all(|(p, &place)| new.tile(p) == place);
    holds.then_some(new)
}

/// A program under other numbers, without schedules; `None` where a layout has no form.
fn renumbered(program: &TileProgram, transpose: Transpose) -> Option<TileProgram> {
    let mut new = program.clone();
    for (buffer, layout) in new.buffers.iter_mut().zip(layouts(program, transpose)?) {
        buffer.layout = layout;
    }
    for step in &mut new.steps {
        match step {
            Step::Compute(c) => {
                let width = c.words.len() / c.tiles.len().max(1);
                let mut calls: Vec<(u32, Vec<u32>)> = c
                    .tiles
                    .iter()
                    .enumerate()
                    .map(|(i, &tile)| {
                        let words = c.words.get(i * width..(i + 1) * width);
                        (transpose.map(tile), words.unwrap_or_default().to_vec())
                    })
                    .collect();
                calls.sort_by_key(|call| call.0);
                c.tiles = calls.iter().map(|call| call.0).collect();
                c.words = calls.into_iter().flat_map(|call| call.1).collect();
            }
            Step::Exchange {
                copies, schedule, ..
            } => {
                *schedule = None;
                renumber(copies, transpose);
            }
            Step::Rearrange { .. } => return None,
        }
    }
    Some(new)
}

fn renumber(copies: &mut [Copy], transpose: Transpose) {
    for t in copies.iter_mut().flat_map(|c| &mut c.transfers) {
        t.source = transpose.map(t.source);
        for d in &mut t.destinations {
            d.0 = transpose.map(d.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_exchange::schedule::{Options, Resource, schedule_with};
    use ipu_program::layout::{ElementOrder, MemoryClass};
    use ipu_program::tile::{BufferId, Transfer};
    use ipu_program::types::{ElementType, TensorType};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn whole(rows: Split, columns: Split, first_tile: u32) -> Layout {
        Layout {
            rows,
            columns,
            copies: 1,
            copy_stride: 0,
            first_tile,
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
        }
    }

    fn transpose(rows: u32, columns: u32, tiles: u32) -> Transpose {
        Transpose {
            rows,
            columns,
            tiles,
        }
    }

    #[test]
    fn a_transpose_is_a_permutation() {
        for t in [24, 64, 60].into_iter().flat_map(Transpose::all) {
            let to: BTreeSet<u32> = (0..t.tiles).map(|tile| t.map(tile)).collect();
            assert_eq!(to, (0..t.tiles).collect());
        }
        assert_eq!(Transpose::all(1472).len(), MAX_SCORED);
    }

    #[test]
    fn grids_are_transposed_and_lists_get_groups() {
        let matrix = TensorType::new([24, 64], ElementType::F16).matrix();
        // A grid of 4 x 6 tiles, row after row, becomes one column after column.
        let grid = whole(Split::even(24, 4, 1, 6), Split::even(64, 6, 1, 1), 0);
        let turned = whole(Split::even(24, 4, 1, 1), Split::even(64, 6, 1, 4), 0);
        let by = transpose(4, 6, 24);
        assert_eq!(layout(&grid, matrix, by), Some(turned));
        // Rows on consecutive tiles.
        let list = whole(Split::even(24, 24, 1, 1), Split::whole(64), 0);
        let grouped = Split::even(24, 24, 1, 1);
        let grouped = Split {
            stride: 4,
            ..grouped
        }
        .grouped(6, 1);
        let expected = Layout {
            rows: grouped,
            ..list.clone()
        };
        assert_eq!(layout(&list, matrix, by), Some(expected));
        // A part in the middle of a block has its neighbours on both sides.
        let shifted = whole(Split::even(24, 8, 1, 1), Split::whole(64), 5);
        assert_eq!(layout(&shifted, matrix, by), None);
    }

    fn copies() -> impl Strategy<Value = Vec<Copy>> {
        let one = (0u32..24, 1u32..24, 1u32..40);
        prop::collection::vec(one, 1..30).prop_map(|list| {
            let mut next: BTreeMap<u32, u32> = BTreeMap::new();
            let transfers = list
                .into_iter()
                .enumerate()
                .map(|(i, (source, by, words))| {
                    let tile = (source + by) % 24;
                    let at = next.entry(tile).or_insert(0);
                    *at += 4 * words;
                    Transfer {
                        source,
                        source_offset: 256 * i as u32,
                        words,
                        destinations: vec![(tile, *at - 4 * words)],
                    }
                });
            vec![Copy {
                source: BufferId(0),
                destination: BufferId(1),
                transfers: transfers.collect(),
            }]
        })
    }

    /// The score from the transfers of the renumbered phase, tile by tile.
    fn recount(target: &Target, copies: &[Copy]) -> u32 {
        let list: Vec<&Transfer> = copies.iter().flat_map(|c| &c.transfers).collect();
        let mut most = 0;
        for tile in 0..target.tiles {
            let mine = list
                .iter()
                .filter(|t| t.destinations.iter().any(|d| d.0 == tile));
            let words: u32 = mine.clone().map(|t| t.words).sum();
            let windows = mine.map(|t| route(target, t.source, tile).1);
            if let Some(window) = windows.min() {
                most = most.max(window + words + behind(target, tile));
            }
            let mine = list.iter().filter(|t| t.source == tile);
            let words: u32 = mine.clone().map(|t| t.words).sum();
            let routes: Vec<_> = mine
                .flat_map(|t| t.destinations.iter().map(|d| route(target, tile, d.0)))
                .collect();
            let start = routes.iter().map(|r| r.0).min();
            let tail = routes.iter().map(|r| r.2).min();
            if let (Some(start), Some(tail)) = (start, tail) {
                most = most.max(start + (words + tail).max(target.min_sender_row));
            }
        }
        most
    }

    proptest! {
        #[test]
        fn the_score_is_that_of_a_recount(mut copies in copies(), which in 0usize..8) {
            let target = Target::ipu21();
            let step = Step::Exchange {
                name: "e".into(),
                copies: copies.clone(),
                schedule: None,
                location: String::new(),
            };
            let all = Transpose::all(24);
            let by = all[which % all.len()];
            let score = Traffic::of(&step).unwrap().score(target, |t| by.map(t));
            renumber(&mut copies, by);
            prop_assert_eq!(score, recount(target, &copies));
            // And no more than what the scheduler derives for itself.
            let found = schedule_with(target, &copies, Options::default()).unwrap();
            let bounds = found.certificate.bounds.into_iter();
            let routes = bounds.filter(|b| b.resource == Resource::Route);
            let bound = routes.map(|b| b.events).max().unwrap_or(0);
            prop_assert!(score <= bound, "{} above {}", score, bound);
        }
    }
}
