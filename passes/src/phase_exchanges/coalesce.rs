//! The transfers of an exchange in their best form: as few as possible, each byte sent once.
//!
//! Fragments that continue each other at the source and at all their destinations are one
//! transfer. Tiles that take the same bytes take them from one send: always when their ranges are
//! equal; ranges that merely overlap are cut at each other's ends only for a source that would
//! otherwise send for longer than any tile receives, because a cut costs messages and rows.
//!
//! Nothing here depends on the order of transfers, so that exchanges in which a tile sends bytes of
//! a buffer that it also receives there stay as they are.

use ipu_program::tile::{BufferId, Copy, Transfer};
use std::collections::{BTreeMap, BTreeSet};

/// Most pieces that the overlapping ranges of one source are cut into.
const MAX_CUTS: usize = 1 << 14;

/// What was done to an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesced {
    /// Words that sources send less than before.
    pub saved_words: u64,
}

/// A range of a source's buffer with the tiles that take it: tile, and byte offset there less the
/// offset at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    start: u32,
    end: u32,
    to: Vec<(u32, i64)>,
}

impl Range {
    fn words(&self) -> u64 {
        u64::from(self.end - self.start) / 4
    }
}

/// Brings the transfers of an exchange into their best form; the order of sources and copies stays.
pub fn coalesce(copies: &mut Vec<Copy>) -> Coalesced {
    let mut result = Coalesced::default();
    if ordered(copies) {
        return result;
    }
    join_copies(copies);
    let sent_before: u64 = sent(copies).values().sum();
    let mut ranges: Vec<BTreeMap<u32, Vec<Range>>> = copies.iter().map(of_copy).collect();
    for list in ranges.iter_mut().flat_map(BTreeMap::values_mut) {
        *list = join(group(std::mem::take(list)));
    }
    let received = received(copies).into_values().max().unwrap_or(0);
    let mut sending: BTreeMap<u32, u64> = BTreeMap::new();
    for (&source, list) in ranges.iter().flatten() {
        *sending.entry(source).or_default() += list.iter().map(Range::words).sum::<u64>();
    }
    for of_source in &mut ranges {
        for (source, list) in of_source {
            if sending.get(source).is_none_or(|&n| n <= received) {
                continue;
            }
            if let Some(cut) = cut(list) {
                let words = |l: &[Range]| l.iter().map(Range::words).sum::<u64>();
                if words(&cut) < words(list) {
                    *list = cut;
                }
            }
        }
    }
    for (copy, of_source) in copies.iter_mut().zip(ranges) {
        copy.transfers = of_source
            .into_iter()
            .flat_map(|(source, list)| list.into_iter().flat_map(move |r| transfers(source, &r)))
            .collect();
    }
    let sent_after: u64 = sent(copies).values().sum();
    result.saved_words = sent_before.saturating_sub(sent_after);
    result
}

/// Whether the order of transfers may matter, or their ranges are not those of words.
fn ordered(copies: &[Copy]) -> bool {
    let sources: BTreeSet<(BufferId, u32)> = copies
        .iter()
        .flat_map(|c| c.transfers.iter().map(|t| (c.source, t.source)))
        .collect();
    copies.iter().any(|c| {
        c.transfers.iter().any(|t| {
            let far = |o: u32| u64::from(o) + 4 * u64::from(t.words) > u64::from(u32::MAX);
            t.words == 0
                || far(t.source_offset)
                || t.destinations
                    .iter()
                    .any(|d| far(d.1) || sources.contains(&(c.destination, d.0)))
        })
    })
}

/// One copy for each pair of buffers, in the order of first appearance.
fn join_copies(copies: &mut Vec<Copy>) {
    let mut places: BTreeMap<(BufferId, BufferId), usize> = BTreeMap::new();
    let mut joined: Vec<Copy> = Vec::with_capacity(copies.len());
    for copy in std::mem::take(copies) {
        let place = *places
            .entry((copy.source, copy.destination))
            .or_insert(joined.len());
        match joined.get_mut(place) {
            Some(j) => j.transfers.extend(copy.transfers),
            None => joined.push(copy),
        }
    }
    *copies = joined;
}

/// Words that each tile sends.
fn sent(copies: &[Copy]) -> BTreeMap<u32, u64> {
    let mut words = BTreeMap::new();
    for t in copies.iter().flat_map(|c| &c.transfers) {
        *words.entry(t.source).or_default() += u64::from(t.words);
    }
    words
}

/// Words that each tile receives.
fn received(copies: &[Copy]) -> BTreeMap<u32, u64> {
    let mut words = BTreeMap::new();
    for t in copies.iter().flat_map(|c| &c.transfers) {
        for d in &t.destinations {
            *words.entry(d.0).or_default() += u64::from(t.words);
        }
    }
    words
}

fn of_copy(copy: &Copy) -> BTreeMap<u32, Vec<Range>> {
    let mut of_source: BTreeMap<u32, Vec<Range>> = BTreeMap::new();
    for t in &copy.transfers {
        let from = i64::from(t.source_offset);
        of_source.entry(t.source).or_default().push(Range {
            start: t.source_offset,
            end: t.source_offset + 4 * t.words,
            to: t
                .destinations
                .iter()
                .map(|&(tile, offset)| (tile, i64::from(offset) - from))
                .collect(),
        });
    }
    of_source
}

/// Equal ranges become one with all destinations. A tile that takes a range twice keeps two.
fn group(mut list: Vec<Range>) -> Vec<Range> {
    list.sort_by_key(|r| (r.start, r.end));
    let mut out: Vec<Range> = Vec::with_capacity(list.len());
    for same in list.chunk_by(|a, b| (a.start, a.end) == (b.start, b.end)) {
        let mut to: Vec<(u32, i64)> = same.iter().flat_map(|r| r.to.iter().copied()).collect();
        to.sort_unstable();
        to.dedup();
        out.extend(apart(to).into_iter().map(|to| Range {
            start: same[0].start,
            end: same[0].end,
            to,
        }));
    }
    out
}

/// Destinations, by tile, as few lists as possible of which none names a tile twice.
fn apart(to: Vec<(u32, i64)>) -> Vec<Vec<(u32, i64)>> {
    let mut lists: Vec<Vec<(u32, i64)>> = Vec::new();
    for of_tile in to.chunk_by(|a, b| a.0 == b.0) {
        for (i, &d) in of_tile.iter().enumerate() {
            match lists.get_mut(i) {
                Some(list) => list.push(d),
                None => lists.push(vec![d]),
            }
        }
    }
    lists
}

/// Ranges that continue each other to the same destinations become one.
fn join(list: Vec<Range>) -> Vec<Range> {
    let mut open: BTreeMap<(u32, Vec<(u32, i64)>), usize> = BTreeMap::new();
    let mut out: Vec<Range> = Vec::with_capacity(list.len());
    for r in list {
        let place = match open.remove(&(r.start, r.to.clone())) {
            Some(place) => {
                out[place].end = r.end;
                place
            }
            None => {
                out.push(r.clone());
                out.len() - 1
            }
        };
        open.insert((r.end, r.to), place);
    }
    out
}

/// Ranges cut wherever one begins or ends, so that every byte is sent once; `None` when that makes
/// too many pieces.
fn cut(list: &[Range]) -> Option<Vec<Range>> {
    let mut ends: Vec<u32> = list.iter().flat_map(|r| [r.start, r.end]).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut pieces: Vec<Range> = Vec::new();
    for r in list {
        let first = ends.partition_point(|&e| e < r.start);
        for pair in ends[first..]
            .array_windows()
            .take_while(|[_, b]| *b <= r.end)
        {
            let &[start, end] = pair;
            pieces.push(Range {
                start,
                end,
                to: r.to.clone(),
            });
            if pieces.len() > MAX_CUTS {
                return None;
            }
        }
    }
    Some(join(group(pieces)))
}

fn transfers(source: u32, r: &Range) -> Option<Transfer> {
    let place = |&(tile, by): &(u32, i64)| {
        let offset = u32::try_from(i64::from(r.start) + by).ok()?;
        Some((tile, offset))
    };
    Some(Transfer {
        source,
        source_offset: r.start,
        words: (r.end - r.start) / 4,
        destinations: r.to.iter().map(place).collect::<Option<Vec<_>>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// Source tile, byte, words, and destinations.
    type Moved<'a> = (u32, u32, u32, &'a [(u32, u32)]);

    fn copy(source: u32, destination: u32, list: &[Moved<'_>]) -> Copy {
        Copy {
            source: BufferId(source),
            destination: BufferId(destination),
            transfers: list
                .iter()
                .map(|&(source, source_offset, words, to)| Transfer {
                    source,
                    source_offset,
                    words,
                    destinations: to.to_vec(),
                })
                .collect(),
        }
    }

    /// Every word that arrives, with where it comes from.
    fn delivered(copies: &[Copy]) -> BTreeMap<(BufferId, u32, u32), (BufferId, u32, u32)> {
        let mut out = BTreeMap::new();
        for c in copies {
            for t in &c.transfers {
                for &(tile, offset) in &t.destinations {
                    for w in 0..t.words {
                        let to = (c.destination, tile, offset + 4 * w);
                        let from = (c.source, t.source, t.source_offset + 4 * w);
                        assert_eq!(out.insert(to, from), None, "two writers");
                    }
                }
            }
        }
        out
    }

    #[test]
    fn what_continues_on_all_sides_is_one() {
        let mut copies = vec![
            copy(0, 1, &[(0, 8, 2, &[(1, 0), (2, 40)]), (0, 0, 2, &[(3, 0)])]),
            copy(0, 1, &[(0, 16, 3, &[(1, 8), (2, 48)])]),
        ];
        coalesce(&mut copies);
        let expected = [(0, 0, 2, &[(3, 0)][..]), (0, 8, 5, &[(1, 0), (2, 40)])];
        assert_eq!(copies, [copy(0, 1, &expected)]);
    }

    #[test]
    fn equal_ranges_are_sent_once() {
        let each: Vec<[(u32, u32); 1]> = (1..9).map(|t| [(t, 64)]).collect();
        let list: Vec<_> = each.iter().map(|to| (0, 0, 8, &to[..])).collect();
        let mut copies = vec![copy(0, 1, &list)];
        assert_eq!(coalesce(&mut copies).saved_words, 7 * 8);
        let all: Vec<(u32, u32)> = (1..9).map(|t| (t, 64)).collect();
        assert_eq!(copies, [copy(0, 1, &[(0, 0, 8, &all)])]);
    }

    #[test]
    fn overlaps_are_cut_only_where_the_sender_binds() {
        // Tiles 1 and 2 take 8 words each, 4 of them the same: 16 are sent, 8 received.
        let overlap: [Moved<'_>; 2] = [(0, 0, 8, &[(1, 0)]), (0, 16, 8, &[(2, 0)])];
        let mut copies = vec![copy(0, 1, &overlap)];
        assert_eq!(coalesce(&mut copies).saved_words, 4);
        let cut: [Moved<'_>; 3] = [
            (0, 0, 4, &[(1, 0)]),
            (0, 16, 4, &[(1, 16), (2, 0)]),
            (0, 32, 4, &[(2, 16)]),
        ];
        assert_eq!(copies, [copy(0, 1, &cut)]);
        // A third tile receives as long as the source sends.
        let mut copies = vec![copy(0, 1, &overlap), copy(2, 3, &[(4, 0, 16, &[(3, 0)])])];
        let before = copies.clone();
        assert_eq!(coalesce(&mut copies).saved_words, 0);
        assert_eq!(copies, before);
    }

    #[test]
    fn a_relay_stays_as_it_is() {
        let mut copies = vec![copy(0, 0, &[(0, 0, 1, &[(1, 0)]), (1, 0, 1, &[(2, 0)])])];
        let before = copies.clone();
        coalesce(&mut copies);
        assert_eq!(copies, before);
    }

    proptest! {
        #[test]
        fn the_same_words_arrive(
            list in prop::collection::vec(
                (0u32..2, 0u32..3, 0u32..8, 1u32..6, 3u32..7, 0u32..2), 1..24)
        ) {
            // Destinations one behind the other on each tile, some continuing at the source.
            let mut next = BTreeMap::new();
            let mut copies = vec![copy(0, 2, &[]), copy(1, 2, &[])];
            for (buffer, source, offset, words, tile, gap) in list {
                let at = next.entry(tile).or_insert(0);
                *at += 4 * gap;
                copies[buffer as usize].transfers.push(Transfer {
                    source,
                    source_offset: 4 * offset,
                    words,
                    destinations: vec![(tile, *at)],
                });
                *at += 4 * words;
            }
            let (before, most) = (delivered(&copies), sent(&copies));
            let count: usize = copies.iter().map(|c| c.transfers.len()).sum();
            coalesce(&mut copies);
            prop_assert_eq!(delivered(&copies), before);
            let less = sent(&copies);
            prop_assert!(less.iter().all(|(tile, words)| *words <= most[tile]));
            // Done once, nothing is left to do but what other cuts allow.
            let again = copies.iter().map(|c| c.transfers.len()).sum::<usize>();
            prop_assert!(again <= 2 * count * count);
        }
    }
}
