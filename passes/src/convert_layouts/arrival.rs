//! How the runs of a destination shard arrive there, and what each way costs.
//!
//! *Direct*: every run is received, or copied on its tile, at its place. *Staged*: the words that
//! hold the runs go to a staging buffer, from which a kernel builds the shard; needed where runs
//! start or end within a word, and better where they are short. *Gathered*: as staged, straight
//! from the source, where all of it is on the tile.

use super::runs::{KEEP, Run, ZERO, push};

/// Halves that an index of `gather_f16` reaches.
pub(super) const GATHER_HALVES: u32 = 1 << 16;
/// Words that one call of `gather_f16` builds at most: its kernel divides by 6 with 17 bits.
pub(super) const GATHER_WORDS: u32 = 98_000;
/// First half of a staging buffer that data may use: two words before it are zero.
const STAGE_START: u32 = 4;
/// Halves between two pieces that are received with them: cheaper than another message.
const GAP: u32 = 8;

/// Cycles of starting and joining the workers.
pub(super) const LAUNCH: u64 = 250;
/// Cycles of `gather_f16` a word, and of `copy_runs` a run (and one a word).
const GATHER_WORD: u64 = 5;
const COPY_RUN: u64 = 14;

/// Cycles that a message of so many words takes of its sender and receiver: its words, its
/// controls, and gaps that they force on its neighbours (of a phase that moves single words, the
/// scheduler needs 7 to 9 events for each).
pub(super) fn message(words: u32) -> u64 {
    u64::from(words) + 8
}

/// Words of a source that go to a place of a staging buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval {
    /// Source shard or [`KEEP`].
    pub shard: u32,
    /// First half, even.
    pub from: u32,
    /// One past the last half, even.
    pub end: u32,
    /// First half in the staging buffer, even.
    pub stage: u32,
}

impl Interval {
    pub fn words(&self) -> u32 {
        (self.end - self.from) / 2
    }
}

/// What a kernel does with halves of one buffer to build words of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// `copy_runs`: source byte, destination byte, words.
    Copy(Vec<[u32; 3]>),
    /// `gather_f16`: the indices of each word, and ranges of words of the destination in which
    /// they come to stand: first word and number.
    Gather {
        indices: Vec<u32>,
        ranges: Vec<[u32; 2]>,
    },
}

impl Build {
    /// The cheaper kernel for runs, `None` when an index does not fit. `index` gives the place of
    /// a run in the buffer read; zeros and missing halves are taken from half 0.
    pub fn new(runs: &[Run], index: impl Fn(&Run) -> u32) -> Option<Build> {
        let copy_cycles: u64 = runs.iter().map(|r| COPY_RUN + u64::from(r.len / 2)).sum();
        let words: u64 = runs.iter().map(|r| u64::from(r.len.div_ceil(2))).sum();
        let copies = runs
            .iter()
            .all(|r| r.shard != ZERO && r.aligned() && index(r).is_multiple_of(2));
        let fits = runs
            .iter()
            .all(|r| r.shard == ZERO || index(r) + r.len <= GATHER_HALVES);
        if copies && (copy_cycles <= GATHER_WORD * words || !fits) {
            let copy = |r: &Run| [2 * index(r), 2 * r.at, r.len / 2];
            return Some(Build::Copy(runs.iter().map(copy).collect()));
        }
        if !fits {
            return None;
        }
        let (mut indices, mut ranges): (Vec<u32>, Vec<[u32; 2]>) = (Vec::new(), Vec::new());
        for run in runs {
            for h in 0..run.len {
                let at = run.at + h;
                let half = match run.shard {
                    ZERO => 0,
                    _ => index(run) + h,
                };
                match ranges.last_mut() {
                    // The second half of a word of which the first was there.
                    Some([first, n]) if *first + *n - 1 == at / 2 => {}
                    last => {
                        indices.push(0);
                        match last {
                            Some([first, n]) if *first + *n == at / 2 => *n += 1,
                            _ => ranges.push([at / 2, 1]),
                        }
                    }
                }
                if let Some(word) = indices.last_mut() {
                    *word |= half << (16 * (at % 2));
                }
            }
        }
        Some(Build::Gather { indices, ranges })
    }

    /// Bytes of a buffer for words that are built together and do not stand together.
    pub fn apart_bytes(&self) -> Option<u32> {
        match self {
            Build::Gather { indices, ranges } if ranges.len() > 1 => Some(4 * indices.len() as u32),
            _ => None,
        }
    }

    /// Cycles by which a tile that does it is later.
    pub fn cycles(&self) -> u64 {
        LAUNCH + self.work()
    }

    /// The same without the launch of the first kernel.
    pub fn work(&self) -> u64 {
        let copy = |words: u32| COPY_RUN + u64::from(words);
        match self {
            Build::Copy(runs) => runs.iter().map(|r| copy(r[2])).sum(),
            Build::Gather { indices, ranges } => {
                let apart = match ranges.len() {
                    0 | 1 => 0,
                    _ => LAUNCH + ranges.iter().map(|r| copy(r[1])).sum::<u64>(),
                };
                GATHER_WORD * indices.len() as u64 + apart
            }
        }
    }
}

/// A part of a shard with a staging buffer of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// What is staged.
    pub intervals: Vec<Interval>,
    /// Bytes of the staging buffer.
    pub bytes: u32,
    /// Whether its first word must be zero.
    pub zero: bool,
    /// How the shard is built from it.
    pub build: Build,
}

/// How the runs of a shard arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Each at its place.
    Direct,
    /// From the source on the same tile.
    Gathered(Build),
    /// Through staging buffers.
    Staged(Vec<Chunk>),
}

/// An arrival with its cost to the receiving tile.
pub(super) struct Planned {
    pub arrival: Arrival,
    /// Cycles of receiving.
    pub receive: u64,
    /// Cycles of kernels.
    pub compute: u64,
    /// Whether the padding remains to be cleared.
    pub zeros_apart: bool,
}

impl Planned {
    fn cycles(&self) -> u64 {
        self.receive + self.compute
    }
}

/// The cheapest arrival of runs. `local` says that all of them come from source shards on the tiles
/// of the shard, `zeros_apart` that a kernel of its own can clear the padding.
pub(super) fn plan(runs: &[Run], local: bool, zeros_apart: bool) -> Option<Planned> {
    let data: Vec<Run> = runs.iter().filter(|r| r.shard != ZERO).copied().collect();
    let mut options = Vec::new();
    if data.iter().all(Run::aligned) {
        let sum = |f: &dyn Fn(u32) -> u64| data.iter().map(|r| f(r.len / 2)).sum::<u64>();
        options.push(Planned {
            arrival: Arrival::Direct,
            zeros_apart: true,
            receive: if local { 0 } else { sum(&message) },
            compute: if local {
                LAUNCH + sum(&|words| COPY_RUN + u64::from(words))
            } else {
                0
            },
        });
    }
    if local && (zeros_apart || data.len() == runs.len()) {
        let whole = with_kept(&data, runs);
        // A half that is kept cannot come from the source.
        if whole.iter().all(|r| r.shard != KEEP)
            && let Some(build) = Build::new(&whole, |r| r.from)
        {
            options.push(Planned {
                zeros_apart: true,
                receive: 0,
                compute: build.cycles(),
                arrival: Arrival::Gathered(build),
            });
        }
    }
    options.extend(staged(runs, &data, local));
    options.into_iter().min_by_key(Planned::cycles)
}

fn staged(runs: &[Run], data: &[Run], local: bool) -> Option<Planned> {
    // Whole words need no zeros: a kernel of its own clears the padding.
    let (list, zeros) = match data.iter().all(Run::aligned) {
        true => (data.to_vec(), false),
        false => (with_kept(runs, &[]), true),
    };
    let mut chunks = Vec::new();
    split(&list, &mut chunks)?;
    let messages = chunks.iter().flat_map(|c: &Chunk| &c.intervals);
    let words: u64 = messages.map(|i| message(i.words())).sum();
    let compute: u64 = chunks.iter().map(|c| c.build.cycles()).sum();
    Some(Planned {
        zeros_apart: !zeros,
        receive: if local { 0 } else { words },
        compute: compute + if local { LAUNCH + words } else { 0 },
        arrival: Arrival::Staged(chunks),
    })
}

/// Runs completed to whole words: halves of a word that no run gives, and that `others` do not
/// give either, are kept; those that `others` give are zeros for now.
fn with_kept(runs: &[Run], others: &[Run]) -> Vec<Run> {
    let given = |at: u32| {
        let i = others.partition_point(|r| r.end() <= at);
        others.get(i).is_some_and(|r| r.at <= at)
    };
    let mut out = Vec::with_capacity(runs.len());
    let one = |at: u32, out: &mut Vec<Run>| {
        let shard = if given(at) { ZERO } else { KEEP };
        push(
            out,
            Run {
                at,
                shard,
                from: at,
                len: 1,
            },
        );
    };
    for (i, &run) in runs.iter().enumerate() {
        if run.at % 2 == 1 && (i == 0 || runs[i - 1].end() != run.at) {
            one(run.at - 1, &mut out);
        }
        push(&mut out, run);
        if run.end() % 2 == 1 && runs.get(i + 1).is_none_or(|next| next.at != run.end()) {
            one(run.end(), &mut out);
        }
    }
    out
}

/// Chunks of runs, as few as the indices allow: halves the runs where one staging buffer or one
/// call does not do.
fn split(runs: &[Run], chunks: &mut Vec<Chunk>) -> Option<()> {
    let words: u64 = runs.iter().map(|r| u64::from(r.len)).sum::<u64>() / 2;
    let (intervals, end) = cover(runs);
    let place = |run: &Run| {
        let i = intervals.partition_point(|i| (i.shard, i.end) <= (run.shard, run.from));
        intervals
            .get(i)
            .map_or(0, |i| i.stage + (run.from - i.from))
    };
    let copied = Build::new(runs, place);
    if let Some(build) = copied
        && (words <= u64::from(GATHER_WORDS) || matches!(build, Build::Copy(_)))
    {
        chunks.push(Chunk {
            intervals,
            bytes: 2 * end,
            zero: runs.iter().any(|r| r.shard == ZERO),
            build,
        });
        return Some(());
    }
    // Cut in front of the word of the destination that holds the middle half.
    let mut before = 0u64;
    let middle = runs.iter().find(|run| {
        before += u64::from(run.len);
        before > words
    })?;
    let cut = (middle.end() - (before - words) as u32) & !1;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for run in runs {
        let room = cut.saturating_sub(run.at).min(run.len);
        if room > 0 {
            first.push(run.part(0..room));
        }
        if room < run.len {
            second.push(run.part(room..run.len));
        }
    }
    if first.is_empty() || second.is_empty() {
        return None;
    }
    split(&first, chunks)?;
    split(&second, chunks)
}

/// The words that hold runs, each source in ascending order, and the end of the staging buffer.
fn cover(runs: &[Run]) -> (Vec<Interval>, u32) {
    let mut spans: Vec<(u32, u32, u32)> = runs
        .iter()
        .filter(|r| r.shard != ZERO)
        .map(|r| (r.shard, r.from & !1, (r.from + r.len).next_multiple_of(2)))
        .collect();
    spans.sort_unstable();
    let mut intervals: Vec<Interval> = Vec::new();
    for (shard, from, end) in spans {
        match intervals.last_mut() {
            Some(last) if last.shard == shard && from <= last.end + GAP => {
                last.end = last.end.max(end)
            }
            _ => intervals.push(Interval {
                shard,
                from,
                end,
                stage: 0,
            }),
        }
    }
    let mut next = STAGE_START;
    for i in &mut intervals {
        i.stage = next;
        next += i.end - i.from;
    }
    (intervals, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::kernels::Kernels;
    use ipu_program::runs as copies;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Runs with gaps from a few shards of up to `reach` halves.
    fn runs(reach: u32) -> impl Strategy<Value = Vec<Run>> {
        let run = (0u32..4, 0u32..3, 0..reach, 1u32..reach / 4);
        (prop::collection::vec(run, 1..30), 1u32..3).prop_map(move |(list, unit)| {
            let mut at = 0;
            let mut out = Vec::new();
            for (gap, shard, from, len) in list {
                at += gap / 2 * 2 / unit * unit;
                let (from, len) = (from / unit * unit, len.next_multiple_of(unit));
                let zero = shard == 2 && len < 30;
                push(
                    &mut out,
                    Run {
                        at,
                        shard: if zero { ZERO } else { shard },
                        from: if zero { 0 } else { from },
                        len,
                    },
                );
                at += len;
            }
            out
        })
    }

    /// What a half is: its shard and place, or zero.
    type Half = Option<(u32, u32)>;

    /// The halves that a build makes from those of the buffer that it reads.
    fn built(build: &Build, read: &dyn Fn(u32) -> Half) -> BTreeMap<u32, Half> {
        let mut out = BTreeMap::new();
        match build {
            Build::Copy(runs) => {
                for &[from, to, words] in runs {
                    out.extend((0..2 * words).map(|h| (to / 2 + h, read(from / 2 + h))));
                }
            }
            Build::Gather { indices, ranges } => {
                let mut next = indices.iter();
                for &[first, n] in ranges {
                    for word in first..first + n {
                        let index = next.next().unwrap();
                        out.insert(2 * word, read(index & 0xffff));
                        out.insert(2 * word + 1, read(index >> 16));
                    }
                }
                assert_eq!(next.next(), None);
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn shards_are_built_from_any_number_of_chunks(runs in prop_oneof![runs(60), runs(40_000)]) {
            let data: Vec<Run> = runs.iter().filter(|r| r.shard != ZERO).copied().collect();
            let planned = staged(&runs, &data, false).unwrap();
            let Arrival::Staged(chunks) = &planned.arrival else { unreachable!() };
            let mut actual = BTreeMap::new();
            for chunk in chunks {
                let staged = |half: u32| {
                    assert!(2 * half < chunk.bytes);
                    let i = chunk.intervals.iter().find(|i| (i.stage..i.stage + 2 * i.words()).contains(&half));
                    i.map(|i| (i.shard, i.from + half - i.stage))
                };
                if let Build::Gather { indices, .. } = &chunk.build {
                    prop_assert!(chunk.bytes <= 2 * GATHER_HALVES && indices.len() <= GATHER_WORDS as usize);
                }
                for (half, what) in built(&chunk.build, &staged) {
                    prop_assert!(actual.insert(half, what).is_none(), "half {} twice", half);
                }
            }
            // Each half of a run is what it should be, and every other is kept.
            for r in runs.iter().filter(|r| r.shard != ZERO || !planned.zeros_apart) {
                for h in 0..r.len {
                    let what = (r.shard != ZERO).then_some((r.shard, r.from + h));
                    prop_assert_eq!(actual.remove(&(r.at + h)), Some(what));
                }
            }
            for (half, what) in actual {
                prop_assert_eq!(what, Some((KEEP, half)));
            }
        }

        /// The costs by which ways are chosen are those of the kernels' laws.
        #[test]
        fn costs_follow_the_laws(runs in runs(400)) {
            let data: Vec<Run> = runs.into_iter().filter(|r| r.shard != ZERO).collect();
            let kernels = Kernels::builtin();
            let Some(build) = Build::new(&data, |r| r.from) else { return Ok(()) };
            let law = match &build {
                Build::Copy(list) => {
                    let list: Vec<_> = list
                        .iter()
                        .map(|&[source, destination, words]| copies::Run { source, destination, words })
                        .collect();
                    let list = copies::balanced(&list);
                    let words = copies::step_words(&[list]);
                    kernels.cycles(kernels.get("copy_runs").unwrap(), &words)
                }
                Build::Gather { indices, .. } => {
                    let words = [indices.len() as u32, 0];
                    kernels.cycles(kernels.get("gather_f16").unwrap(), &words)
                }
            };
            let cost = build.work() + LAUNCH;
            if build.apart_bytes().is_none() {
                prop_assert!(cost.abs_diff(law) * 4 <= law.max(cost) + 1_000, "{} estimated, {} by law", cost, law);
            }
        }
    }
}
