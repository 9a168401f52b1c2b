//! Packing at the source: what a tile sends to a destination shard is brought together first, in
//! the order in which it is needed there.
//!
//! Short runs make long rows: each message costs several controls on both sides, and words of
//! which a half is not needed travel with it. A packed *segment* is one message where the
//! destination is contiguous as well, and equal segments for several shards are one.

use super::runs::{Run, ZERO, push};
use std::collections::BTreeMap;

/// What is packed for one or more destination shards.
pub(super) struct Segment {
    /// Source shard.
    pub shard: u32,
    /// Halves, even.
    pub len: u32,
    /// What the source gives, at places from the start of the segment.
    pub runs: Vec<Run>,
}

impl Segment {
    /// The first half that it takes from the source.
    pub fn first(&self) -> u32 {
        let data = self.runs.iter().find(|r| r.shard != ZERO);
        data.map_or(0, |r| r.from)
    }
}

/// Segments, and the runs of the destination shards in terms of them: what is packed has the
/// number of its segment plus `first` as `shard`, and `from` counts from the start of the segment.
pub(super) struct Packed {
    pub segments: Vec<Segment>,
    pub runs: Vec<Vec<Run>>,
}

/// Packs the runs of destination shards, but for the pairs of a destination and a source shard
/// that `stays` names. The parity of a half within its word is kept, so that words of a single
/// source arrive as words. Numbers from `first` on must not be those of source shards.
pub(super) fn pack(runs: &[Vec<Run>], first: u32, stays: impl Fn(usize, u32) -> bool) -> Packed {
    let mut segments: Vec<Segment> = Vec::new();
    let mut known: BTreeMap<(u32, Vec<Run>), u32> = BTreeMap::new();
    let mut packed = Vec::with_capacity(runs.len());
    for (j, list) in runs.iter().enumerate() {
        let mut by_source: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
        for &run in list {
            by_source.entry(run.shard).or_default().push(run);
        }
        let mut out: Vec<Run> = Vec::with_capacity(list.len());
        for (shard, list) in by_source {
            if shard == ZERO || stays(j, shard) {
                out.extend(list);
                continue;
            }
            let (mut moves, mut places): (Vec<Run>, Vec<Run>) = (Vec::new(), Vec::new());
            let mut next = 0;
            let mut behind = None;
            for run in list {
                if behind != Some(run.at) && (run.at ^ next) & 1 == 1 {
                    let missing = Run {
                        at: next,
                        shard: ZERO,
                        from: 0,
                        len: 1,
                    };
                    push(&mut moves, missing);
                    next += 1;
                }
                push(&mut moves, Run { at: next, ..run });
                push(&mut places, Run { from: next, ..run });
                next += run.len;
                behind = Some(run.end());
            }
            let number = *known
                .entry((shard, moves))
                .or_insert_with_key(|(_, moves)| {
                    segments.push(Segment {
                        shard,
                        len: next.next_multiple_of(2),
                        runs: moves.clone(),
                    });
                    segments.len() as u32 - 1
                });
            out.extend(places.into_iter().map(|r| Run {
                shard: first + number,
                ..r
            }));
        }
        out.sort_unstable();
        let mut merged = Vec::with_capacity(out.len());
        out.into_iter().for_each(|run| push(&mut merged, run));
        packed.push(merged);
    }
    Packed {
        segments,
        runs: packed,
    }
}
