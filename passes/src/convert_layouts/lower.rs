//! The general case: any view between any two orders that kernels move, as runs.
//!
//! A rearrangement becomes up to five parts, in this order: packing at the sources, clearing of
//! padding and copies on the same tile, one exchange, and kernels that build shards from staging
//! buffers. Which of them exist is decided by cost: with packing or without for the whole
//! rearrangement, and for each destination shard how its runs arrive ([`super::arrival`]).

use super::arrival::{Arrival, Build, GATHER_WORDS, LAUNCH, Planned, message, plan};
use super::pack::{Segment, pack};
use super::runs::{Grid, KEEP, Run, ZERO, runs};
use super::{Convert, ConvertError, join};
use crate::select_operators::plans::local::clear_kernel;
use ipu_program::kernels::share;
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::runs as copies;
use ipu_program::tile::{BufferId, Compute, Copy, Step, Transfer};
use ipu_program::types::{ElementType, TensorType};
use ipu_program::view::Walk;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Words a message on average from which on packing is not even considered.
const LONG_MESSAGE: u64 = 32;
/// Runs of one call of `copy_runs`: its kernel divides by 6 with 17 bits.
const MAX_COPY_RUNS: usize = 98_000;

/// What kernels are called for, in the order of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Pack,
    Clear,
    Local,
    Spread,
    Pad,
    Build,
    Place,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Pack => "pack",
            Stage::Clear => "clear",
            Stage::Local => "local",
            Stage::Spread => "spread",
            Stage::Pad => "pad",
            Stage::Build => "build",
            Stage::Place => "place",
        }
    }
}

/// Kernel calls of one kernel on the same buffers: the records of each tile, which tiles share.
type Calls = BTreeMap<(Stage, &'static str, BufferId, BufferId), BTreeMap<u32, Vec<Rc<[u32]>>>>;
/// Runs to copy between two buffers: tile; source byte, destination byte, words.
type Local = BTreeMap<(BufferId, BufferId), Vec<(u32, [u32; 3])>>;
/// Words that cross between two buffers: source tile, byte and words; destination tile and byte.
type Sends = BTreeMap<(BufferId, BufferId), Vec<([u32; 3], (u32, u32))>>;

struct Lower<'c, 'p> {
    c: &'c mut Convert<'p>,
    source: BufferId,
    destination: BufferId,
    from: Grid,
    to: Grid,
    /// The source shard on each tile.
    held: Vec<Option<u32>>,
    calls: Calls,
    /// Runs to copy on a tile, by buffers.
    local: Local,
    sends: Sends,
    packed: Send,
    /// A buffer of zeros.
    zeros: Option<BufferId>,
}

/// What was packed: numbers of segments follow those of the source shards.
#[derive(Default)]
struct Send {
    segments: Vec<Segment>,
    /// First half of each segment in the send buffer of a tile that packs it.
    bases: BTreeMap<(u32, u32), u32>,
    buffer: Option<BufferId>,
}

/// Runs of all destination shards with their arrivals.
struct Choice {
    runs: Vec<Vec<Run>>,
    plans: Vec<Planned>,
    segments: Vec<Segment>,
    cycles: u64,
}

/// Staging buffers of the chunks of a shard, and buffers for words that a kernel builds together.
#[derive(Default)]
struct Staging {
    stages: Vec<BufferId>,
    words: Vec<BufferId>,
}

pub(super) fn lower(
    c: &mut Convert<'_>,
    source: BufferId,
    destination: BufferId,
    walk: &Walk,
) -> Result<(), ConvertError> {
    let grid = |id| Grid::new(c.program.buffer(id));
    let grids = grid(source).and_then(|s| Ok((s, grid(destination)?)));
    let error = |c: &Convert<'_>, why| c.error(source, destination, why);
    let (from, to) = grids.map_err(|why| error(c, why))?;
    let raw = runs(walk, &from, &to).map_err(|why| error(c, why))?;
    let last = from.tiles.iter().flatten().max().map_or(0, |&t| t as usize);
    let mut held = vec![None; last + 1];
    for (shard, tiles) in (0u32..).zip(&from.tiles) {
        for &tile in tiles {
            held[tile as usize] = Some(shard);
        }
    }
    let lower = Lower {
        c,
        source,
        destination,
        from,
        to,
        held,
        calls: BTreeMap::new(),
        local: BTreeMap::new(),
        sends: BTreeMap::new(),
        packed: Send::default(),
        zeros: None,
    };
    let choice = lower.choose(raw).ok_or_else(|| {
        let why = "needs halves of words from shards that are too large for 16-bit indices";
        error(lower.c, why.to_owned())
    })?;
    lower.carry_out(choice)
}

impl Lower<'_, '_> {
    /// The number of the first segment.
    fn first(&self) -> u32 {
        self.from.tiles.len() as u32
    }

    /// The segment of a number, `None` if it is that of a source shard.
    fn segment<'s>(&self, segments: &'s [Segment], number: u32) -> Option<&'s Segment> {
        segments.get(number.checked_sub(self.first())? as usize)
    }

    /// The source shard that gives halves, and its sender.
    fn origin(&self, segments: &[Segment], number: u32, from: u32) -> (u32, u32) {
        match self.segment(segments, number) {
            Some(s) => (s.shard, self.sender(s.shard, s.first())),
            None => (number, self.sender(number, from)),
        }
    }

    /// The tile that sends a piece of a shard: equal pieces come from the same copy, different
    /// ones from different copies.
    fn sender(&self, shard: u32, from: u32) -> u32 {
        let Some(copies) = self.from.tiles.get(shard as usize) else {
            return 0; // KEEP, which nobody sends
        };
        let at = u64::from(from) * copies.len() as u64 / u64::from(self.from.shard_halves().max(1));
        copies[(at as usize).min(copies.len() - 1)]
    }

    /// Whether a shard has a copy on a tile.
    fn is_on(&self, shard: u32, tile: u32) -> bool {
        shard == KEEP || self.held.get(tile as usize) == Some(&Some(shard))
    }

    /// Whether a source shard is on all tiles of a destination shard.
    fn is_local(&self, j: usize, shard: u32) -> bool {
        shard == ZERO || self.to.tiles[j].iter().all(|&t| self.is_on(shard, t))
    }

    fn choose(&self, raw: Vec<Vec<Run>>) -> Option<Choice> {
        let messages: u64 = raw.iter().map(|r| r.len() as u64).sum();
        let halves: u64 = raw.iter().flatten().map(|r| u64::from(r.len)).sum();
        let all_local = raw
            .iter()
            .enumerate()
            .all(|(j, r)| r.iter().all(|r| self.is_local(j, r.shard)));
        let packed = (!all_local && halves / 2 < messages * LONG_MESSAGE)
            .then(|| pack(&raw, self.first(), |j, shard| self.is_local(j, shard)));
        let plain = self.cost(raw, Vec::new());
        let packed = packed.and_then(|p| self.cost(p.runs, p.segments));
        [plain, packed]
            .into_iter()
            .flatten()
            .min_by_key(|c| c.cycles)
    }

    /// The cheapest arrivals, with the cycles of the latest sender and receiver.
    fn cost(&self, runs: Vec<Vec<Run>>, segments: Vec<Segment>) -> Option<Choice> {
        let mut plans = Vec::with_capacity(runs.len());
        let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut receive, mut compute) = (0, 0);
        for (j, list) in runs.iter().enumerate() {
            let local = list.iter().all(|r| self.is_local(j, r.shard));
            let apart = self.zero_columns(list).is_some() || zeros(list).all(Run::aligned);
            let plan = plan(list, local, apart)?;
            receive = receive.max(plan.receive);
            compute = compute.max(plan.compute);
            let mut send = |number: u32, from: u32, words: u32| {
                let (shard, sender) = self.origin(&segments, number, from);
                if !self.is_local(j, shard) {
                    *sent.entry(sender).or_default() += message(words);
                }
            };
            match &plan.arrival {
                Arrival::Staged(chunks) => chunks
                    .iter()
                    .flat_map(|c| &c.intervals)
                    .for_each(|i| send(i.shard, i.from, i.words())),
                _ => list.iter().for_each(|r| send(r.shard, r.from, r.len / 2)),
            }
            plans.push(plan);
        }
        let mut packing: BTreeMap<u32, u64> = BTreeMap::new();
        for s in &segments {
            let build = Build::new(&s.runs, |r| r.from)?;
            let sender = self.sender(s.shard, s.first());
            *packing.entry(sender).or_insert(LAUNCH) += build.work();
        }
        let most = |m: BTreeMap<u32, u64>| m.into_values().max().unwrap_or(0);
        Some(Choice {
            cycles: receive.max(most(sent)) + compute + most(packing),
            runs,
            plans,
            segments,
        })
    }

    fn carry_out(mut self, choice: Choice) -> Result<(), ConvertError> {
        let Choice {
            runs,
            plans,
            segments,
            ..
        } = choice;
        if !segments.is_empty() {
            self.pack(segments, &runs)?;
        }
        let staging = self.staging(&plans)?;
        let to = self.destination;
        for (j, (list, plan)) in runs.iter().zip(&plans).enumerate() {
            let tiles = self.to.tiles[j].clone();
            if plan.zeros_apart {
                self.clear(j, list, &tiles)?;
            }
            match &plan.arrival {
                Arrival::Direct => {
                    for r in list.iter().filter(|r| r.shard != ZERO) {
                        self.deliver((r.shard, r.from, r.len / 2), (to, r.at), &tiles);
                    }
                }
                Arrival::Gathered(build) => {
                    let words = staging.words.first().copied();
                    self.build((Stage::Local, self.source, to), build, words, &tiles);
                }
                Arrival::Staged(chunks) => {
                    for (n, (chunk, &stage)) in chunks.iter().zip(&staging.stages).enumerate() {
                        if chunk.zero {
                            let key = (Stage::Clear, "fill_zero", stage, stage);
                            self.call(key, &tiles, share(1).to_vec());
                        }
                        for i in &chunk.intervals {
                            self.deliver((i.shard, i.from, i.words()), (stage, i.stage), &tiles);
                        }
                        let words = staging.words.get(n).copied();
                        self.build((Stage::Build, stage, to), &chunk.build, words, &tiles);
                    }
                }
            }
        }
        for ((source, destination), mut list) in std::mem::take(&mut self.local) {
            list.sort_by_key(|l| l.0);
            for runs in list.chunk_by(|a, b| a.0 == b.0) {
                let own = runs.iter().map(|r| r.1).collect();
                self.copy((Stage::Local, source, destination), own, &[runs[0].0]);
            }
        }
        self.finish()
    }

    /// Packs segments on the tiles that send them, or that use them themselves.
    fn pack(&mut self, segments: Vec<Segment>, runs: &[Vec<Run>]) -> Result<(), ConvertError> {
        let mut wanted: BTreeSet<(u32, u32)> = BTreeSet::new();
        for (tiles, list) in self.to.tiles.iter().zip(runs) {
            let numbers: BTreeSet<u32> = list.iter().map(|r| r.shard).collect();
            for number in numbers {
                let Some(s) = self.segment(&segments, number) else {
                    continue;
                };
                let sender = self.sender(s.shard, s.first());
                let packer = |&tile: &u32| {
                    if self.is_on(s.shard, tile) {
                        tile
                    } else {
                        sender
                    }
                };
                wanted.extend(tiles.iter().map(|t| (packer(t), number)));
            }
        }
        let mut packs: BTreeMap<u32, (u32, Vec<Run>)> = BTreeMap::new();
        for (tile, number) in wanted {
            let Some(s) = self.segment(&segments, number) else {
                continue;
            };
            let (end, list) = packs.entry(tile).or_default();
            self.packed.bases.insert((tile, number), *end);
            list.extend(s.runs.iter().map(|r| Run {
                at: r.at + *end,
                ..*r
            }));
            *end += s.len;
        }
        let bytes = packs.values().map(|p| 2 * p.0).max().unwrap_or(0);
        let tiles: BTreeSet<u32> = packs.keys().copied().collect();
        let buffer = self.scratch("send", self.source, &tiles, bytes)?;
        for (tile, (_, list)) in packs {
            let Some(build) = Build::new(&list, |r| r.from) else {
                let why = "packs a shard that is too large for 16-bit indices".to_owned();
                return Err(self.c.error(self.source, self.destination, why));
            };
            self.build((Stage::Pack, self.source, buffer), &build, None, &[tile]);
        }
        self.packed.segments = segments;
        self.packed.buffer = Some(buffer);
        Ok(())
    }

    /// A staging buffer for each number of a chunk, and one for words built together.
    fn staging(&mut self, plans: &[Planned]) -> Result<Staging, ConvertError> {
        /// Bytes and tiles of the buffers for chunk 0, 1, ...
        type Sizes = Vec<(u32, BTreeSet<u32>)>;
        fn grow(sizes: &mut Sizes, n: usize, bytes: u32, tiles: &[u32]) {
            if sizes.len() <= n {
                sizes.resize(n + 1, (0, BTreeSet::new()));
            }
            sizes[n].0 = sizes[n].0.max(bytes);
            sizes[n].1.extend(tiles);
        }
        let (mut stages, mut words) = (Sizes::new(), Sizes::new());
        for (plan, tiles) in plans.iter().zip(&self.to.tiles) {
            let builds: Vec<&Build> = match &plan.arrival {
                Arrival::Direct => vec![],
                Arrival::Gathered(build) => vec![build],
                Arrival::Staged(chunks) => {
                    for (n, chunk) in chunks.iter().enumerate() {
                        grow(&mut stages, n, chunk.bytes, tiles);
                    }
                    chunks.iter().map(|c| &c.build).collect()
                }
            };
            for (n, build) in builds.into_iter().enumerate() {
                if let Some(bytes) = build.apart_bytes() {
                    grow(&mut words, n, bytes, tiles);
                }
            }
        }
        let mut buffers = |what: &str, sizes: Sizes| -> Result<Vec<BufferId>, ConvertError> {
            let one = |(bytes, tiles): (u32, BTreeSet<u32>)| {
                self.scratch(what, self.destination, &tiles, bytes)
            };
            sizes.into_iter().map(one).collect()
        };
        Ok(Staging {
            stages: buffers("stage", stages)?,
            words: buffers("words", words)?,
        })
    }

    /// Brings words of a source shard, a segment or the destination itself to a place of a buffer
    /// on some tiles: by a copy where the tile has them, else by a transfer.
    fn deliver(
        &mut self,
        (number, from, words): (u32, u32, u32),
        (buffer, at): (BufferId, u32),
        tiles: &[u32],
    ) {
        let packed = self.packed.buffer.filter(|_| number >= self.first());
        let source = match number {
            KEEP => self.destination,
            _ => packed.unwrap_or(self.source),
        };
        let (shard, sender) = self.origin(&self.packed.segments, number, from);
        let bases = &self.packed.bases;
        let byte = |tile: u32| 2 * (bases.get(&(tile, number)).copied().unwrap_or(0) + from);
        let is_here =
            |tile: u32| shard == KEEP || self.held.get(tile as usize) == Some(&Some(shard));
        if tiles.iter().any(|&t| is_here(t)) {
            let local = self.local.entry((source, buffer)).or_default();
            let here = tiles.iter().filter(|&&t| is_here(t));
            local.extend(here.map(|&t| (t, [byte(t), 2 * at, words])));
        }
        if tiles.iter().any(|&t| !is_here(t)) {
            let key = [sender, byte(sender), words];
            let sends = self.sends.entry((source, buffer)).or_default();
            let away = tiles.iter().filter(|&&t| !is_here(t));
            sends.extend(away.map(|&t| (key, (t, 2 * at))));
        }
    }

    /// Makes the padding zero that no run brings.
    fn clear(&mut self, j: usize, runs: &[Run], tiles: &[u32]) -> Result<(), ConvertError> {
        if zeros(runs).next().is_none() {
            return Ok(());
        }
        let d = self.destination;
        if let Some(record) = self.zero_columns(runs) {
            let kernel = clear_kernel(self.to.storage.element);
            self.call((Stage::Pad, kernel, d, d), tiles, record);
            return Ok(());
        }
        let covered: u64 = runs.iter().map(|r| u64::from(r.len)).sum();
        if covered == self.to.row_halves(j) {
            let bytes = self.to.storage.bytes();
            self.call(
                (Stage::Clear, "fill_zero", d, d),
                tiles,
                share(bytes / 8).to_vec(),
            );
            return Ok(());
        }
        let zero = match self.zeros {
            Some(zero) => zero,
            None => {
                let on: BTreeSet<u32> = self.to.tiles.iter().flatten().copied().collect();
                // At most 15 elements of 4 bytes each.
                let zero = self.scratch("zeros", d, &on, 4 * PANEL)?;
                *self.zeros.insert(zero)
            }
        };
        self.call(
            (Stage::Clear, "fill_zero", zero, zero),
            tiles,
            share(4 * PANEL / 8).to_vec(),
        );
        let list = zeros(runs)
            .flat_map(|r| {
                let starts = (0..r.len).step_by(2 * PANEL as usize);
                starts.map(move |i| r.part(i..r.len.min(i + 2 * PANEL)))
            })
            .map(|r| [0, 2 * r.at, r.len / 2])
            .collect();
        self.copy((Stage::Pad, zero, d), list, tiles);
        Ok(())
    }

    /// The words of `zero_columns_*` for the zeros of a shard, `None` when they are not the same
    /// columns of rows that follow each other.
    fn zero_columns(&self, runs: &[Run]) -> Option<Vec<u32>> {
        if !self.to.storage.element.is_float() {
            return None;
        }
        // Runs count halves.
        let halves = self.to.storage.element.bytes() / 2;
        let list: Vec<Run> = zeros(runs).copied().collect();
        let (first, row) = (list.first()?, self.to.storage.row_stride() / 2);
        let regular = (0u32..)
            .zip(&list)
            .all(|(i, r)| r.len == first.len && r.at == first.at + i * row);
        let column = (PANEL * halves).checked_sub(first.len)?;
        if !regular || column == 0 || !column.is_multiple_of(halves) {
            return None;
        }
        let [each, extra] = share(list.len() as u32);
        let offset = 2 * (first.at - column);
        Some(vec![each, extra, column / halves, offset, 2 * row])
    }

    /// Calls the kernel of a build on tiles. Words that do not stand together are built in the
    /// buffer `words` and then put in their places.
    fn build(
        &mut self,
        (stage, source, destination): (Stage, BufferId, BufferId),
        build: &Build,
        words: Option<BufferId>,
        tiles: &[u32],
    ) {
        let (indices, ranges) = match build {
            Build::Copy(runs) => {
                return self.copy((stage, source, destination), runs.clone(), tiles);
            }
            Build::Gather { indices, ranges } => (indices, ranges),
        };
        let (to, first) = match (words, &ranges[..]) {
            (_, []) => return,
            (Some(words), [_, _, ..]) => (words, 0),
            (_, [range, ..]) => (destination, range[0]),
        };
        for (i, part) in (0u32..).zip(indices.chunks(GATHER_WORDS as usize)) {
            let offset = 4 * (first + i * GATHER_WORDS);
            let record = [&[part.len() as u32, offset], part].concat();
            self.call((stage, "gather_f16", source, to), tiles, record);
        }
        if to != destination {
            let mut next = 0;
            let place = |&[at, n]: &[u32; 2]| {
                next += n;
                [4 * (next - n), 4 * at, n]
            };
            let runs = ranges.iter().map(place).collect();
            let stage = if stage == Stage::Local {
                Stage::Spread
            } else {
                Stage::Place
            };
            self.copy((stage, to, destination), runs, tiles);
        }
    }

    /// Copies runs on tiles, shared among the workers.
    fn copy(
        &mut self,
        (stage, source, destination): (Stage, BufferId, BufferId),
        runs: Vec<[u32; 3]>,
        tiles: &[u32],
    ) {
        let runs: Vec<copies::Run> = runs
            .into_iter()
            .map(|[source, destination, words]| copies::Run {
                source,
                destination,
                words,
            })
            .collect();
        for list in copies::balanced(&runs).chunks(MAX_COPY_RUNS) {
            let mut record = vec![list.len() as u32, copies::work(list)];
            record.extend(list.iter().flat_map(|r| [r.source, r.destination, r.words]));
            self.call((stage, "copy_runs", source, destination), tiles, record);
        }
    }

    fn call(
        &mut self,
        key: (Stage, &'static str, BufferId, BufferId),
        tiles: &[u32],
        record: Vec<u32>,
    ) {
        let record: Rc<[u32]> = record.into();
        let calls = self.calls.entry(key).or_default();
        for &tile in tiles {
            calls.entry(tile).or_default().push(Rc::clone(&record));
        }
    }

    /// A buffer for halves on the tiles of a layout.
    fn scratch(
        &mut self,
        what: &str,
        like: BufferId,
        tiles: &BTreeSet<u32>,
        bytes: u32,
    ) -> Result<BufferId, ConvertError> {
        const LINE: u32 = PANEL * 2;
        let lines = bytes.div_ceil(LINE).max(1);
        let (layout, rows, columns) =
            scratch_layout(&self.c.program.buffer(like).layout, tiles, lines).ok_or_else(|| {
                let why = format!("needs {bytes} bytes of '{what}' on each of too many tiles");
                self.c.error(self.source, self.destination, why)
            })?;
        let ty = TensorType::new([rows, columns], ElementType::F16);
        Ok(self.c.scratch(ty, layout, what))
    }

    /// Writes the steps.
    fn finish(mut self) -> Result<(), ConvertError> {
        let calls = std::mem::take(&mut self.calls);
        let (before, after): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|(key, _)| key.0 <= Stage::Pad);
        for (key, tiles) in before {
            self.compute(key, tiles)?;
        }
        let copies: Vec<Copy> = std::mem::take(&mut self.sends)
            .into_iter()
            .map(|((source, destination), sends)| Copy {
                source,
                destination,
                transfers: join(transfers(sends)),
            })
            .collect();
        if !copies.is_empty() {
            let name = self.c.symbol("");
            self.c.program.steps.push(Step::Exchange {
                name,
                copies,
                schedule: None,
                location: self.c.location.clone(),
            });
        }
        for (key, tiles) in after {
            self.compute(key, tiles)?;
        }
        Ok(())
    }

    /// The steps of a kernel on two buffers: as many as a tile has records for it.
    fn compute(
        &mut self,
        (stage, name, source, destination): (Stage, &'static str, BufferId, BufferId),
        tiles: BTreeMap<u32, Vec<Rc<[u32]>>>,
    ) -> Result<(), ConvertError> {
        let kernel = self.c.kernels.get(name).filter(|k| match k.buffers.len() {
            1 => source == destination,
            n => n == 2,
        });
        let Some(kernel) = kernel else {
            let why = format!("needs kernel '{name}', which is missing or takes other buffers");
            return Err(self.c.error(self.source, self.destination, why));
        };
        let buffers = match kernel.buffers.len() {
            1 => vec![destination],
            _ => vec![source, destination],
        };
        let rounds = tiles.values().map(Vec::len).max().unwrap_or(0);
        for round in 0..rounds {
            let records = || {
                tiles
                    .iter()
                    .filter_map(|(&t, list)| Some((t, list.get(round)?)))
            };
            let width = records().map(|r| r.1.len()).max().unwrap_or(0);
            let mut words = Vec::with_capacity(width * tiles.len());
            for (_, record) in records() {
                words.extend_from_slice(record);
                words.resize(words.len() + width - record.len(), 0);
            }
            let step = self.c.symbol(stage.name());
            self.c.program.steps.push(Step::Compute(Compute {
                name: step,
                kernel: name.to_owned(),
                buffers: buffers.clone(),
                tiles: records().map(|r| r.0).collect(),
                words,
                location: self.c.location.clone(),
            }));
        }
        Ok(())
    }
}

/// The transfers of words that cross: what leaves a tile from the same place is one transfer to all
/// that receive it, but several where a tile receives it at several places.
fn transfers(mut sends: Vec<([u32; 3], (u32, u32))>) -> Vec<Transfer> {
    sends.sort_by_key(|s| s.0);
    let mut out = Vec::new();
    let mut lists: Vec<Vec<(u32, u32)>> = Vec::new();
    for piece in sends.chunk_by(|a, b| a.0 == b.0) {
        let [source, source_offset, words] = piece[0].0;
        let mut tiles: Vec<u32> = piece.iter().map(|p| p.1.0).collect();
        tiles.sort_unstable();
        if tiles.array_windows().all(|[a, b]| a != b) {
            lists.push(piece.iter().map(|p| p.1).collect());
        } else {
            for &(_, place) in piece {
                match lists.iter_mut().find(|l| l.iter().all(|d| d.0 != place.0)) {
                    Some(list) => list.push(place),
                    None => lists.push(vec![place]),
                }
            }
        }
        out.extend(lists.drain(..).map(|mut destinations| {
            destinations.sort_unstable();
            Transfer {
                source,
                source_offset,
                words,
                destinations,
            }
        }));
    }
    out
}

fn zeros(runs: &[Run]) -> impl Iterator<Item = &Run> {
    runs.iter().filter(|r| r.shard == ZERO)
}

/// A layout of `lines` lines of 32 bytes on each tile: the tiles of another layout when each of
/// its parts has a tile of its own, else all tiles from the first to the last. With the extents of
/// its matrix.
fn scratch_layout(like: &Layout, tiles: &BTreeSet<u32>, lines: u32) -> Option<(Layout, u32, u32)> {
    let split = |parts: u32, block: u32, stride: u32| Split {
        parts,
        block,
        stride,
        unit: 1,
        period: 0,
        group: 0,
        group_stride: 0,
    };
    let alike = |split: &Split, block: u32| Split {
        block,
        unit: 1,
        period: 0,
        ..*split
    };
    let mut layout = Layout {
        rows: alike(&like.rows, lines),
        columns: alike(&like.columns, PANEL),
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
        ..like.clone()
    };
    let all = like.rows.parts as u64 * u64::from(like.columns.parts) * u64::from(like.copies);
    let mut seen = BTreeSet::new();
    let own = all <= u64::from(like.tile_end())
        && (0..like.copies).all(|k| {
            (0..like.rows.parts).all(|r| {
                (0..like.columns.parts).all(|c| {
                    let part = like.rows.tile(r) + like.columns.tile(c);
                    seen.insert(like.first_tile + k * like.copy_stride + part)
                })
            })
        });
    if !own {
        let (&first, &last) = (tiles.first()?, tiles.last()?);
        layout = Layout {
            rows: split(last - first + 1, lines, u32::from(last > first)),
            columns: split(1, PANEL, 0),
            copies: 1,
            copy_stride: 0,
            first_tile: first,
            ..layout
        };
    }
    let rows = layout.rows.parts.checked_mul(lines)?;
    let columns = layout.columns.parts.checked_mul(PANEL)?;
    Some((layout, rows, columns))
}
