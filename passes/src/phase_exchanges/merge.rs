//! Exchanges that do not depend on each other become one phase.
//!
//! A phase costs a sync of all tiles and the latency of the fabric, however little it moves; so
//! the operands of an operator, or the parts of a sum, should cross together. An exchange moves up
//! to an earlier one when nothing between needs the old order: the compute steps that it needs
//! itself (such as those that pack what it sends) move up before both, everything else keeps its
//! order. Dependences are those of buffers on tiles; only between two exchanges that write one
//! buffer of one tile do bytes count, so that the parts of a concatenation can cross together.
//!
//! What is received early lives longer. A program whose live buffers would then need more memory
//! than before, and more than a tile can count on, is merged less: first only neighbours, then
//! nothing. Where compute steps moved up, tiles wait for them where they did not before: which of
//! these merges are worth it only the clocks of all tiles say, so that a few are tried without
//! ([`Merging::without`]).

use crate::place_storage::lifetimes;
use crate::tile_set::TileSet;
use ipu_program::kernels::{Access, Kernels};
use ipu_program::tile::{BufferId, Copy, Step, TileProgram};
use ipu_target::Target;
use std::collections::{BTreeMap, BTreeSet};

/// Exchanges behind one among which those are sought that join it.
const LOOK_AHEAD: usize = 8;

/// Part of a tile's memory that live buffers may take after merging where they took less before:
/// the rest is for code, records, rows and what placement loses.
const BUDGET_PERCENT: u64 = 70;

/// Two exchanges that stay apart: the symbols of the one that comes first and of the other.
pub type Pair = (String, String);

/// An exchange that joined another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Both.
    pub pair: Pair,
    /// Whether compute steps had to move up before both: tiles then wait for them where they did
    /// not before.
    pub moved: bool,
}

/// How far merging may go on a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merging {
    /// Exchanges behind one among which those are sought that join it.
    ahead: usize,
    /// Most bytes of live buffers on a tile.
    limit: u64,
}

/// Merges all that memory allows; see the module. What joined what, and the way to try others.
pub fn merge(
    program: &mut TileProgram,
    target: &Target,
    kernels: &Kernels,
) -> (Vec<Joined>, Merging) {
    let memory = u64::from(target.memory_end - target.memory_base);
    let limit = peak(program).max(memory * BUDGET_PERCENT / 100);
    for ahead in [LOOK_AHEAD, 1] {
        let merging = Merging { ahead, limit };
        if let Some((merged, joined)) = merging.without(program, kernels, &BTreeSet::new()) {
            *program = merged;
            return (joined, merging);
        }
    }
    (Vec::new(), Merging { ahead: 0, limit })
}

impl Merging {
    /// The program with all exchanges merged but these; `None` when that takes too much memory.
    pub fn without(
        &self,
        program: &TileProgram,
        kernels: &Kernels,
        apart: &BTreeSet<Pair>,
    ) -> Option<(TileProgram, Vec<Joined>)> {
        let mut merged = program.clone();
        let joined = merge_within(&mut merged, kernels, self.ahead, apart);
        (peak(&merged) <= self.limit).then_some((merged, joined))
    }
}

/// Merges each exchange with what it can among the next `ahead` ones.
fn merge_within(
    program: &mut TileProgram,
    kernels: &Kernels,
    ahead: usize,
    apart: &BTreeSet<Pair>,
) -> Vec<Joined> {
    let mut steps: Vec<(Step, Touched)> = std::mem::take(&mut program.steps)
        .into_iter()
        .map(|step| {
            let touched = Touched::of(&step, kernels);
            (step, touched)
        })
        .collect();
    let mut joined = Vec::new();
    let mut first = 0;
    while first < steps.len() {
        if matches!(steps[first].0, Step::Exchange { .. }) {
            while let Some((place, second, needed)) = candidate(&steps, first, ahead, apart) {
                joined.push(Joined {
                    pair: pair(&steps[first].0, &steps[second].0),
                    moved: !needed.is_empty(),
                });
                move_up(&mut steps, first, second, &needed);
                first = place;
            }
        }
        first += 1;
    }
    program.steps = steps.into_iter().map(|s| s.0).collect();
    joined
}

fn pair(first: &Step, second: &Step) -> Pair {
    (first.name().to_owned(), second.name().to_owned())
}

/// The next exchange that can join `first`, the steps between that must then come before both,
/// and where `first` will stand.
fn candidate(
    steps: &[(Step, Touched)],
    first: usize,
    ahead: usize,
    apart: &BTreeSet<Pair>,
) -> Option<(usize, usize, Vec<usize>)> {
    let exchanges =
        (first + 1..steps.len()).filter(|&i| matches!(steps[i].0, Step::Exchange { .. }));
    for second in exchanges.take(ahead) {
        if !apart.is_empty() && apart.contains(&pair(&steps[first].0, &steps[second].0)) {
            continue;
        }
        let mut needed: Vec<usize> = Vec::new();
        for i in (first + 1..second).rev() {
            let before = |&later: &usize| steps[i].1.orders(&steps[later].1);
            if before(&second) || needed.iter().any(before) {
                needed.push(i);
            }
        }
        needed.reverse();
        let free = needed.iter().all(|&i| {
            matches!(steps[i].0, Step::Compute(_)) && !steps[first].1.orders(&steps[i].1)
        });
        if free
            && steps[first].1.joins(&steps[second].1)
            && bytes_differ(&steps[first].0, &steps[second].0)
        {
            return Some((first + needed.len(), second, needed));
        }
    }
    None
}

/// Joins exchange `second` to `first`, behind the steps `needed`.
fn move_up(steps: &mut Vec<(Step, Touched)>, first: usize, second: usize, needed: &[usize]) {
    let (later, touched) = steps.remove(second);
    // Ascending, so that each removal shifts only what stands before it.
    for (i, &from) in needed.iter().enumerate() {
        let step = steps.remove(from);
        steps.insert(first + i, step);
    }
    let (step, all) = &mut steps[first + needed.len()];
    if let (
        Step::Exchange {
            copies, schedule, ..
        },
        Step::Exchange { copies: more, .. },
    ) = (step, later)
    {
        *schedule = None;
        for copy in more {
            let same = |c: &&mut Copy| (c.source, c.destination) == (copy.source, copy.destination);
            match copies.iter_mut().find(same) {
                Some(c) => c.transfers.extend(copy.transfers),
                None => copies.push(copy),
            }
        }
    }
    all.add(touched);
}

type Places = BTreeMap<BufferId, TileSet>;

fn meet(a: &Places, b: &Places) -> bool {
    a.iter()
        .any(|(id, tiles)| b.get(id).is_some_and(|t| t.meets(tiles)))
}

/// The buffers that a step reads and writes, and on which tiles.
#[derive(Clone, Debug, Default)]
struct Touched {
    reads: Places,
    writes: Places,
}

impl Touched {
    fn of(step: &Step, kernels: &Kernels) -> Touched {
        let mut out = Touched::default();
        match step {
            Step::Compute(c) => {
                let tiles: TileSet = c.tiles.iter().copied().collect();
                let kernel = kernels.get(&c.kernel);
                for (i, &id) in c.buffers.iter().enumerate() {
                    let access = kernel.and_then(|k| k.buffers.get(i)).map(|b| b.access);
                    // Of an unknown kernel anything may be expected.
                    let side = match access {
                        Some(Access::Read) => &mut out.reads,
                        _ => &mut out.writes,
                    };
                    side.entry(id).or_default().add(&tiles);
                }
            }
            Step::Exchange { copies, .. } => {
                for copy in copies {
                    let sent = out.reads.entry(copy.source).or_default();
                    copy.transfers.iter().for_each(|t| sent.insert(t.source));
                    let received = out.writes.entry(copy.destination).or_default();
                    let places = copy.transfers.iter().flat_map(|t| &t.destinations);
                    places.for_each(|d| received.insert(d.0));
                }
            }
            Step::Rearrange {
                source,
                destination,
                ..
            } => {
                let all = TileSet::all();
                out.reads.insert(*source, all.clone());
                out.writes.insert(*destination, all);
            }
        }
        out
    }

    /// Whether a later step must stay behind this one.
    fn orders(&self, later: &Touched) -> bool {
        meet(&self.writes, &later.reads)
            || meet(&self.writes, &later.writes)
            || meet(&self.reads, &later.writes)
    }

    /// Whether two exchanges can be one, but for bytes that both write: no tile may send what it
    /// receives in the same phase.
    fn joins(&self, later: &Touched) -> bool {
        !meet(&self.writes, &later.reads) && !meet(&self.reads, &later.writes)
    }

    fn add(&mut self, other: Touched) {
        for (all, more) in [
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
        ] {
            for (id, tiles) in more {
                all.entry(id).or_default().add(&tiles);
            }
        }
    }
}

/// Whether two exchanges write no byte of a buffer both.
fn bytes_differ(a: &Step, b: &Step) -> bool {
    let mut spans: BTreeMap<(BufferId, u32), Vec<(u64, u64)>> = BTreeMap::new();
    for step in [a, b] {
        let Step::Exchange { copies, .. } = step else {
            continue;
        };
        for copy in copies {
            for t in &copy.transfers {
                for &(tile, offset) in &t.destinations {
                    let start = u64::from(offset);
                    let span = (start, start + 4 * u64::from(t.words));
                    spans
                        .entry((copy.destination, tile))
                        .or_default()
                        .push(span);
                }
            }
        }
    }
    spans.into_values().all(|mut list| {
        list.sort_unstable();
        list.array_windows().all(|[a, b]| a.1 <= b.0)
    })
}

/// The most bytes of buffers that live at one time on one tile.
fn peak(program: &TileProgram) -> u64 {
    // For each tile: what begins to live, and ends, at a step.
    let mut changes: BTreeMap<u32, BTreeMap<u32, i64>> = BTreeMap::new();
    for (buffer, (first, last)) in program.buffers.iter().zip(lifetimes(program)) {
        let bytes = i64::from(buffer.bytes()) + i64::from(buffer.tail);
        for shard in buffer.layout.shards(buffer.ty.matrix()) {
            let tile = changes.entry(shard.tile).or_default();
            *tile.entry(first).or_default() += bytes;
            *tile.entry(last + 1).or_default() -= bytes;
        }
    }
    let most = |steps: &BTreeMap<u32, i64>| {
        let mut live = 0;
        steps
            .values()
            .map(|change| {
                live += change;
                live
            })
            .max()
    };
    changes.values().filter_map(most).max().unwrap_or(0).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_interp::host::{HostArray, Parameters};
    use ipu_interp::tile::{Fill, Interpreter};
    use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
    use ipu_program::tile::{Binding, Buffer, Compute, Source, Transfer};
    use ipu_program::types::{ElementType, TensorType};
    use proptest::prelude::*;
    use std::hash::{DefaultHasher, Hash, Hasher};

    const TILES: u32 = 4;
    const BUFFERS: u32 = 5;
    /// Words of a buffer on a tile: a row of 16 f16.
    const WORDS: u32 = 8;

    fn program(steps: Vec<Step>) -> TileProgram {
        let mut p = TileProgram {
            name: "main".into(),
            tiles: TILES,
            ..TileProgram::default()
        };
        for i in 0..BUFFERS {
            let buffer = p.add_buffer(Buffer {
                name: format!("b{i}"),
                ty: TensorType::new([TILES, 16], ElementType::F16),
                layout: Layout {
                    rows: Split::even(TILES, TILES, 1, 1),
                    columns: Split::whole(16),
                    copies: 1,
                    copy_stride: 0,
                    first_tile: 0,
                    order: ElementOrder::Rows,
                    memory: MemoryClass::Any,
                },
                align: 32,
                tail: 0,
                live: None,
                address: None,
                location: String::new(),
            });
            for source in [Source::Input(i), Source::Output(i)] {
                p.bindings.push(Binding { source, buffer });
            }
        }
        p.steps = steps;
        for (i, step) in p.steps.iter_mut().enumerate() {
            if let Step::Compute(Compute { name, .. }) | Step::Exchange { name, .. } = step {
                *name = format!("s{i}");
            }
        }
        p
    }

    fn compute(kernel: &str, buffers: &[u32], tiles: impl IntoIterator<Item = u32>) -> Step {
        let tiles: Vec<u32> = tiles.into_iter().collect();
        Step::Compute(Compute {
            name: String::new(),
            kernel: kernel.into(),
            buffers: buffers.iter().map(|&b| BufferId(b)).collect(),
            words: [0, 4].repeat(tiles.len()),
            tiles,
            location: String::new(),
        })
    }

    /// Source tile, byte, words, and destinations.
    type Moved<'a> = (u32, u32, u32, &'a [(u32, u32)]);

    fn exchange(source: u32, destination: u32, list: &[Moved<'_>]) -> Step {
        Step::Exchange {
            name: String::new(),
            copies: vec![Copy {
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
            }],
            schedule: None,
            location: String::new(),
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        let buffer = || 0..BUFFERS;
        let tiles = || prop::collection::btree_set(0..TILES, 1..=TILES as usize);
        let add = (buffer(), buffer(), buffer(), tiles())
            .prop_map(|(a, b, c, tiles)| compute("add_f16", &[a, b, c], tiles));
        let relu = (buffer(), buffer(), tiles())
            .prop_map(|(a, b, tiles)| compute("relu_f16", &[a, b], tiles));
        let transfer = (0..TILES, 0..TILES - 1, 0..WORDS / 2, 0..WORDS / 2);
        let moves = (buffer(), 1..BUFFERS, prop::collection::vec(transfer, 1..4)).prop_map(
            |(a, other, list)| {
                // Own bytes for each transfer, and no buffer that is sent and received.
                let mut used = std::collections::BTreeSet::new();
                let list: Vec<_> = list
                    .into_iter()
                    .map(|(from, other, s, d)| (from, (from + 1 + other) % TILES, s, d))
                    .filter(|&(_, to, _, d)| used.insert((to, d)))
                    .map(|(from, to, s, d)| (from, 8 * s, 2, [(to, 8 * d)]))
                    .collect();
                let list: Vec<_> = list
                    .iter()
                    .map(|(f, s, n, to)| (*f, *s, *n, &to[..]))
                    .collect();
                exchange(a, (a + other) % BUFFERS, &list)
            },
        );
        prop_oneof![1 => add, 1 => relu, 3 => moves]
    }

    fn results(program: &TileProgram) -> Vec<HostArray> {
        let inputs: Vec<HostArray> = (0..BUFFERS)
            .map(|b| {
                let values = (0..TILES * 16).map(|i| (i * 7 + b * 31) as f32 % 61.0 - 30.0);
                let ty = TensorType::new([TILES, 16], ElementType::F16);
                HostArray::new(ty, values.collect()).unwrap()
            })
            .collect();
        let mut interpreter = Interpreter::new(program, Kernels::builtin(), Fill::Poison);
        interpreter.initialize(&Parameters::new()).unwrap();
        interpreter.run(&inputs).unwrap()
    }

    /// Executes a program on names: a word is the history of how it came about.
    fn replay(program: &TileProgram) -> BTreeMap<(u32, u32, u32), u64> {
        let hash = |x: &dyn Fn(&mut DefaultHasher)| {
            let mut h = DefaultHasher::new();
            x(&mut h);
            h.finish()
        };
        let mut memory: BTreeMap<(u32, u32, u32), u64> = (0..BUFFERS)
            .flat_map(|b| (0..TILES).flat_map(move |t| (0..WORDS).map(move |w| (b, t, w))))
            .map(|place| (place, hash(&|h| place.hash(h))))
            .collect();
        for step in &program.steps {
            let before = memory.clone();
            match step {
                Step::Compute(c) => {
                    let (out, inputs) = c.buffers.split_last().unwrap();
                    for &tile in &c.tiles {
                        for word in 0..WORDS {
                            let read: Vec<u64> =
                                inputs.iter().map(|b| before[&(b.0, tile, word)]).collect();
                            let value = hash(&|h| (&c.kernel, &read).hash(h));
                            memory.insert((out.0, tile, word), value);
                        }
                    }
                }
                Step::Exchange { copies, .. } => {
                    for copy in copies {
                        for t in &copy.transfers {
                            for &(tile, offset) in &t.destinations {
                                for w in 0..t.words {
                                    let from = (copy.source.0, t.source, t.source_offset / 4 + w);
                                    memory.insert(
                                        (copy.destination.0, tile, offset / 4 + w),
                                        before[&from],
                                    );
                                }
                            }
                        }
                    }
                }
                Step::Rearrange { .. } => unreachable!(),
            }
        }
        memory
    }

    fn phases(program: &TileProgram) -> usize {
        let exchange = |s: &&Step| matches!(s, Step::Exchange { .. });
        program.steps.iter().filter(exchange).count()
    }

    fn merged(program: &TileProgram) -> TileProgram {
        let mut merged = program.clone();
        merge(&mut merged, Target::ipu21(), Kernels::builtin());
        merged
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn merging_keeps_the_results(steps in prop::collection::vec(step(), 1..14)) {
            let before = program(steps);
            let after = merged(&before);
            prop_assert_eq!(replay(&after), replay(&before));
            prop_assert_eq!(results(&after), results(&before));
            let names = |p: &TileProgram| {
                let compute = |s: &&Step| matches!(s, Step::Compute(_));
                let mut names: Vec<_> = p.steps.iter().filter(compute).map(|s| s.name().to_owned()).collect();
                names.sort();
                names
            };
            prop_assert_eq!(names(&after), names(&before));
            prop_assert!(phases(&after) <= phases(&before));
            // What a phase moves is legal for the scheduler and arrives.
            for step in &after.steps {
                if let Step::Exchange { copies, .. } = step {
                    prop_assert!(ipu_exchange::schedule::schedule(Target::ipu21(), copies).is_ok());
                    for a in copies {
                        for b in copies.iter().filter(|b| b.source == a.destination) {
                            let sends = |tile: u32| b.transfers.iter().any(|t| t.source == tile);
                            let received = a.transfers.iter().flat_map(|t| &t.destinations);
                            prop_assert!(received.into_iter().all(|d| !sends(d.0)));
                        }
                    }
                }
            }
        }
    }

    fn order(program: &TileProgram) -> Vec<&str> {
        program.steps.iter().map(Step::name).collect()
    }

    #[test]
    fn independent_operands_cross_together() {
        // q = relu b0, crosses to b3; k = relu b1, crosses to b4; both are then used.
        let one = |t: u32| (t, 0, WORDS, [((t + 1) % TILES, 0)]);
        let list = [one(0), one(1)];
        let list: Vec<_> = list
            .iter()
            .map(|(a, b, c, d)| (*a, *b, *c, &d[..]))
            .collect();
        let p = program(vec![
            compute("relu_f16", &[0, 2], 0..TILES),
            exchange(2, 3, &list),
            compute("relu_f16", &[3, 3], 0..TILES),
            compute("relu_f16", &[1, 1], 0..TILES),
            exchange(1, 4, &list),
            compute("add_f16", &[3, 4, 0], 0..TILES),
        ]);
        let m = merged(&p);
        assert_eq!(order(&m), ["s0", "s3", "s1", "s2", "s5"]);
        assert!(matches!(&m.steps[2], Step::Exchange { copies, .. } if copies.len() == 2));
    }

    #[test]
    fn dependent_exchanges_stay_apart() {
        let a: &[(u32, u32)] = &[(1, 0)];
        let b: &[(u32, u32)] = &[(2, 0)];
        // The second sends what the first received; receives what the first sends; writes the
        // same word; needs a step that uses what the first received.
        let apart = |steps: Vec<Step>| {
            let p = program(steps);
            let m = merged(&p);
            assert_eq!(order(&m), order(&p));
        };
        apart(vec![
            exchange(0, 1, &[(0, 0, 2, a)]),
            exchange(1, 2, &[(1, 0, 2, b)]),
        ]);
        apart(vec![
            exchange(0, 1, &[(1, 0, 2, b)]),
            exchange(2, 0, &[(0, 0, 2, a)]),
        ]);
        apart(vec![
            exchange(0, 1, &[(0, 0, 2, a)]),
            exchange(2, 1, &[(2, 0, 2, a)]),
        ]);
        apart(vec![
            exchange(0, 1, &[(0, 0, 2, a)]),
            compute("relu_f16", &[1, 2], 0..TILES),
            exchange(2, 3, &[(1, 0, 2, b)]),
        ]);
    }

    #[test]
    fn parts_of_a_concatenation_cross_together() {
        let (low, high): (&[_], &[_]) = (&[(1, 0)], &[(1, 8)]);
        let p = program(vec![
            exchange(0, 2, &[(0, 0, 2, low)]),
            exchange(1, 2, &[(0, 0, 2, high)]),
        ]);
        assert_eq!(order(&merged(&p)), ["s0"]);
    }

    #[test]
    fn an_exchange_behind_a_dependent_one_is_found() {
        let to: &[(u32, u32)] = &[(1, 0)];
        let p = program(vec![
            exchange(0, 1, &[(0, 0, 2, to)]),
            exchange(1, 2, &[(1, 0, 2, &[(2, 0)])]),
            exchange(3, 4, &[(0, 0, 2, to)]),
        ]);
        assert_eq!(order(&merged(&p)), ["s0", "s1"]);
    }

    #[test]
    fn memory_bounds_what_lives_longer() {
        // 1 and 2 are large: 2 is received only when 1 is no longer needed.
        let to: &[(u32, u32)] = &[(1, 0)];
        let steps = vec![
            exchange(0, 1, &[(0, 0, 2, to)]),
            compute("relu_f16", &[1, 0], 0..TILES),
            exchange(3, 2, &[(0, 0, 2, to)]),
            compute("relu_f16", &[2, 4], 0..TILES),
        ];
        let large = |rows: u32| {
            let mut p = program(steps.clone());
            p.bindings.clear();
            for b in &mut p.buffers[1..3] {
                b.ty = TensorType::new([TILES * rows, 16], ElementType::F16);
                b.layout.rows = Split::even(TILES * rows, TILES, 1, 1);
            }
            let phases = phases(&merged(&p));
            (peak(&p), phases)
        };
        assert_eq!(large(1000), (32_000 + 32, 1));
        assert_eq!(large(10_000), (320_000 + 32, 2));
    }
}
