//! Random phases: scheduled, encoded, and read back by the independent checker.

#![allow(clippy::unwrap_used)] // a test may fail

use ipu_exchange::check::{AbsoluteTransfer, CheckError, EncodedRow, check};
use ipu_exchange::row::{Instruction, instructions};
use ipu_exchange::schedule::{Options, Resource, ScheduleError, schedule, schedule_with};
use ipu_program::tile::{BufferId, Copy, Event, Transfer, WIDE};
use ipu_target::Target;
use proptest::prelude::*;

const SOURCE: u32 = 0x5c000;
const DESTINATION: u32 = 0x80000;
const ROW: u32 = 0x54000;

fn encode(i: Instruction) -> u32 {
    let address = |b: BufferId, o: u32| (if b.0 == 0 { SOURCE } else { DESTINATION } + o) / 4;
    match i {
        Instruction::Delay(n) => 0x40a0_0000 | (n - 1),
        Instruction::DelayPointer(n, b, o) => 0x6000_0000 | (n - 1) << 19 | address(b, o),
        Instruction::DelayMux(n, v) => 0x6400_0000 | (n - 1) << 14 | v,
        Instruction::Send(n, b, o, d) => {
            let item = address(b, o) / if d & WIDE == 0 { 1 } else { 2 };
            0x7800_0000 | (n - 1) << 21 | item << 3 | u32::from(d)
        }
        Instruction::SendOffset(n, d) => {
            0x7000_0000 | (((n - 1) & 63) << 21) | (((n - 1) >> 6) << 14) | u32::from(d)
        }
        Instruction::DelayPairMux(n, v) => 0x6400_0000 | (n - 1) << 14 | 1 << 13 | v,
        Instruction::DelayFormat(n, v) => 0x6000_0000 | (n - 1) << 19 | 1 << 18 | v,
        Instruction::SendPairMux(n, v) => 0x7010_0000 | (n - 1) << 21 | 1 << 18 | v,
        Instruction::SendFormat(n, v) => 0x7010_0000 | (n - 1) << 21 | 3 << 18 | v,
        Instruction::SendMux(n, v) => 0x7010_0000 | (n - 1) << 21 | v,
        Instruction::SendPointer(n, b, o) => 0x7010_0000 | (n - 1) << 21 | 2 << 18 | address(b, o),
    }
}

/// Schedules, encodes and returns what the checker reads.
fn phase(transfers: &[Transfer]) -> (u32, u32, Vec<EncodedRow>, Vec<AbsoluteTransfer>) {
    phase_of(transfers, false)
}

/// The same, perhaps with 64-bit items.
fn phase_of(
    transfers: &[Transfer],
    wide: bool,
) -> (u32, u32, Vec<EncodedRow>, Vec<AbsoluteTransfer>) {
    let target = Target::ipu21();
    let copy = Copy {
        source: BufferId(0),
        destination: BufferId(1),
        transfers: transfers.to_vec(),
    };
    let options = Options {
        wide,
        ..Options::default()
    };
    let s = schedule_with(target, &[copy], options).unwrap().schedule;
    let rows = s
        .rows
        .iter()
        .map(|row| {
            let list = instructions(target, row).unwrap();
            assert_eq!(
                list.iter().map(Instruction::events).sum::<u32>(),
                row.horizon
            );
            let mut words: Vec<u32> = list.into_iter().map(encode).collect();
            words.push(0x43a0_0000);
            EncodedRow {
                tile: row.tile,
                address: Some(ROW),
                words,
            }
        })
        .collect();
    let absolute = transfers
        .iter()
        .map(|t| AbsoluteTransfer {
            source: t.source,
            source_address: SOURCE + t.source_offset,
            words: t.words,
            destinations: t
                .destinations
                .iter()
                .map(|&(t, o)| (t, DESTINATION + o))
                .collect(),
        })
        .collect();
    (s.horizon, s.bound, rows, absolute)
}

/// Random transfers; every word of a destination is written once.
fn transfers() -> impl Strategy<Value = Vec<Transfer>> {
    let one = (
        0u32..24,
        0u32..64,
        1u32..200,
        proptest::collection::btree_set(0u32..24, 1..6),
    );
    (proptest::collection::vec(one, 1..40), 0u32..61).prop_map(|(list, stretch)| {
        let tile = |t: u32| t * stretch + t;
        let mut next = [0u32; 24];
        let mut out = Vec::new();
        for (source, offset, words, mut to) in list {
            to.remove(&source);
            if to.is_empty() {
                continue;
            }
            let destinations = to
                .into_iter()
                .map(|d| {
                    let o = next[d as usize];
                    next[d as usize] += 4 * words;
                    (tile(d), o)
                })
                .collect();
            out.push(Transfer {
                source: tile(source),
                source_offset: 4 * offset,
                words,
                destinations,
            });
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_word_arrives(transfers in transfers()) {
        let (horizon, bound, rows, absolute) = phase(&transfers);
        let checked = check(Target::ipu21(), &rows, &absolute).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(checked.horizon, horizon);
        prop_assert!(horizon >= bound, "{} below the bound {}", horizon, bound);
    }
}

/// Random transfers to pairs of tiles and some others, in pairs of words.
fn to_pairs() -> impl Strategy<Value = Vec<Transfer>> {
    let one = (
        0u32..24,
        0u32..64,
        60u32..700,
        proptest::collection::btree_set(0u32..12, 1..6),
        proptest::collection::btree_set(0u32..24, 0..2),
    );
    (proptest::collection::vec(one, 1..30), 0u32..61).prop_map(|(list, stretch)| {
        let tile = |t: u32| t / 2 * 2 * (stretch + 1) + t % 2;
        let mut next = 0;
        let mut out = Vec::new();
        for (source, offset, items, pairs, single) in list {
            let pairs = pairs.into_iter().flat_map(|p| [2 * p, 2 * p + 1]);
            let to: std::collections::BTreeSet<u32> = pairs.chain(single).collect();
            let to: Vec<(u32, u32)> = to
                .into_iter()
                .filter(|&d| d != source)
                .map(|d| (tile(d), next))
                .collect();
            next += 8 * items;
            out.push(Transfer {
                source: tile(source),
                source_offset: 8 * offset,
                words: 2 * items,
                destinations: to,
            });
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_64_bit_item_arrives(transfers in to_pairs()) {
        let (horizon, bound, rows, absolute) = phase_of(&transfers, true);
        let checked = check(Target::ipu21(), &rows, &absolute).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(checked.horizon, horizon);
        prop_assert!(horizon >= bound, "{} below the bound {}", horizon, bound);
        // Of schedules within two thousandths the one with shorter rows is taken.
        let narrow = phase(&transfers).0;
        prop_assert!(horizon <= narrow + narrow / 500, "{} is longer than {}", horizon, narrow);
    }
}

#[test]
fn pairs_take_the_same_words_in_half_the_time() {
    // Every fourth tile sends to all pairs but its own.
    let scatter: Vec<Transfer> = (0..8)
        .map(|s| Transfer {
            source: 4 * s,
            source_offset: 0,
            words: 512,
            destinations: (0..64)
                .filter(|d| d / 2 != 2 * s)
                .map(|d| (d, 2048 * s))
                .collect(),
        })
        .collect();
    let (narrow, ..) = phase(&scatter);
    let (wide, bound, rows, absolute) = phase_of(&scatter, true);
    check(Target::ipu21(), &rows, &absolute).unwrap();
    assert!(narrow > 8 * 512, "{narrow}");
    // The partners of the senders receive nothing while their bus is borrowed.
    assert!(wide * 5 < narrow * 3, "{wide}, {narrow}, bound {bound}");
    // Groups of 16: the partner of a sender takes words, everybody else 64-bit items.
    let (narrow, ..) = phase(&all_gather(16, 512));
    let (wide, _, rows, absolute) = phase_of(&all_gather(16, 512), true);
    check(Target::ipu21(), &rows, &absolute).unwrap();
    assert!(wide * 3 < narrow * 2, "{wide}, {narrow}");
}

fn all_gather(tiles: u32, words: u32) -> Vec<Transfer> {
    (0..tiles)
        .map(|t| Transfer {
            source: t,
            source_offset: 0,
            words,
            destinations: (0..tiles)
                .filter(|&d| d != t)
                .map(|d| (d, t * words * 4))
                .collect(),
        })
        .collect()
}

#[test]
fn known_phases_are_near_the_bound() {
    // (transfers, horizon at most): the published tight schedules of the same shapes.
    let gather: Vec<Transfer> = (1..4)
        .map(|t| Transfer {
            source: t,
            source_offset: 0,
            words: 100,
            destinations: vec![(0, t * 400)],
        })
        .collect();
    for (transfers, limit) in [(gather, 366), (all_gather(8, 256), 2113)] {
        let (horizon, bound, rows, absolute) = phase(&transfers);
        check(Target::ipu21(), &rows, &absolute).unwrap();
        assert!(
            bound <= horizon && horizon <= limit,
            "{bound} <= {horizon} <= {limit}"
        );
    }
}

#[test]
fn equally_loaded_tiles_exchange_side_by_side() {
    // Every tile sends 16 words to each of the next 24, in equal numbers: no tile is more loaded
    // than another, so that only the order of ties decides.
    let tiles = 64;
    let transfers: Vec<Transfer> = (0..tiles)
        .flat_map(|source| {
            (0..24).map(move |k| Transfer {
                source,
                source_offset: 64 * k,
                words: 16,
                destinations: vec![((source + 1 + k) % tiles, 64 * k)],
            })
        })
        .collect();
    let (horizon, bound, rows, absolute) = phase(&transfers);
    check(Target::ipu21(), &rows, &absolute).unwrap();
    assert!(horizon * 2 <= bound * 3, "{horizon} against {bound}");
}

#[test]
fn long_messages_are_split() {
    let t = Transfer {
        source: 5,
        source_offset: 0,
        words: 9000,
        destinations: vec![(700, 0)],
    };
    let (horizon, bound, rows, absolute) = phase(&[t]);
    check(Target::ipu21(), &rows, &absolute).unwrap();
    assert!(horizon <= bound + 8, "{horizon} against {bound}");
}

#[test]
fn the_checker_sees_mutations() {
    let transfers = [
        Transfer {
            source: 0,
            source_offset: 0,
            words: 64,
            destinations: vec![(46, 0), (1471, 0)],
        },
        Transfer {
            source: 1471,
            source_offset: 0,
            words: 10,
            destinations: vec![(0, 0)],
        },
    ];
    let target = Target::ipu21();
    let (.., rows, absolute) = phase(&transfers);
    assert_eq!(check(target, &rows, &absolute).map(|c| c.words), Ok(138));
    // Any other word at any place is refused: every single-bit change of every row.
    let mut refused = 0;
    for r in 0..rows.len() {
        for w in 0..rows[r].words.len() {
            for bit in 0..32 {
                let mut changed = rows.clone();
                changed[r].words[w] ^= 1 << bit;
                refused += usize::from(check(target, &changed, &absolute).is_err());
            }
        }
    }
    let total: usize = rows.iter().map(|r| r.words.len() * 32).sum();
    // Longer delays at the end of a row and a redundant direction are harmless.
    assert!(refused * 100 >= total * 80, "{refused} of {total}");
    let clash = |at: u32| {
        let mut moved = absolute.clone();
        moved[0].destinations[1].1 = at;
        check(target, &rows, &moved)
    };
    assert!(matches!(clash(SOURCE), Err(CheckError { tile: 1471, .. })));
}

#[test]
fn bad_transfers_are_refused() {
    let copy = |t: Transfer| {
        [Copy {
            source: BufferId(0),
            destination: BufferId(1),
            transfers: vec![t],
        }]
    };
    let t = Transfer {
        source: 3,
        source_offset: 0,
        words: 4,
        destinations: vec![(3, 0)],
    };
    let target = Target::ipu21();
    assert_eq!(
        schedule(target, &copy(t.clone())),
        Err(ScheduleError::Destinations {
            transfer: 0,
            tile: 3
        })
    );
    let far = Transfer {
        destinations: vec![(1472, 0)],
        ..t.clone()
    };
    assert_eq!(
        schedule(target, &copy(far)),
        Err(ScheduleError::Tile {
            transfer: 0,
            tile: 1472,
            tiles: 1472
        })
    );
    let odd = Transfer {
        destinations: vec![(4, 2)],
        ..t
    };
    assert_eq!(
        schedule(target, &copy(odd)),
        Err(ScheduleError::Words {
            transfer: 0,
            tile: 4,
            words: 4,
            offset: 2
        })
    );
}

/// Groups of consecutive tiles that gather from each other.
fn groups(size: u32, words: u32) -> Vec<Transfer> {
    let one = |source: u32| {
        let first = source / size * size;
        Transfer {
            source,
            source_offset: 0,
            words,
            destinations: (first..first + size)
                .filter(|&d| d != source)
                .map(|d| (d, (source - first) * words * 4))
                .collect(),
        }
    };
    (0..1472).map(one).collect()
}

#[test]
fn published_tight_phases_are_not_shorter() {
    let permutation = (0..1472)
        .filter(|s| (5 * s + 7) % 1472 != *s)
        .map(|s| Transfer {
            source: s,
            source_offset: 0,
            words: 256,
            destinations: vec![((5 * s + 7) % 1472, 0)],
        })
        .collect();
    let all_to_all = (0..8u32)
        .flat_map(|s| (1..8).map(move |k| (s, (s + k) % 8, k)))
        .map(|(source, d, k)| Transfer {
            source,
            source_offset: 256 * k,
            words: 64,
            destinations: vec![(d, source * 256)],
        })
        .collect();
    for (transfers, limit) in [
        (permutation, 403),
        (all_to_all, 513),
        (groups(16, 128), 2158),
        (groups(46, 64), 3047),
    ] {
        let (horizon, _, rows, absolute) = phase(&transfers);
        check(Target::ipu21(), &rows, &absolute).unwrap();
        assert!(horizon <= limit, "{horizon} <= {limit}");
    }
}

#[test]
fn multicasts_that_overlap_are_cut() {
    // Any two of these meet at some receiver, so that whole they would go one after the other.
    let mut next = vec![0; 1472];
    let transfers: Vec<Transfer> = (0..60u32)
        .map(|s| {
            let to = (0..90u32).map(|k| (s * 7 + k * k * (s + 3) + 31 * k) % 1472);
            let mut to: Vec<u32> = to.filter(|&d| d != s * 20).collect();
            to.sort_unstable();
            to.dedup();
            let destinations = to.into_iter().map(|d| {
                next[d as usize] += 256;
                (d, next[d as usize])
            });
            Transfer {
                source: s * 20,
                source_offset: 0,
                words: 64,
                destinations: destinations.collect(),
            }
        })
        .collect();
    let (horizon, bound, rows, absolute) = phase(&transfers);
    check(Target::ipu21(), &rows, &absolute).unwrap();
    assert!(horizon <= bound * 2, "{horizon} against {bound}");
}

#[test]
fn two_writers_need_a_reader_between() {
    let t = |source, source_offset, to, at| Transfer {
        source,
        source_offset,
        words: 16,
        destinations: vec![(to, at)],
    };
    let run = |transfers: Vec<Transfer>| {
        let copy = Copy {
            source: BufferId(0),
            destination: BufferId(0),
            transfers,
        };
        schedule(Target::ipu21(), &[copy]).map(|s| s.horizon)
    };
    let twice = run(vec![t(0, 0, 5, 64), t(1, 0, 5, 96)]);
    assert_eq!(
        twice,
        Err(ScheduleError::TwoWriters {
            first: 0,
            second: 1,
            tile: 5,
            offset: 96
        })
    );
    let between = run(vec![t(0, 0, 5, 64), t(5, 64, 9, 512), t(1, 0, 5, 64)]);
    assert!(between.is_ok_and(|h| h > 3 * 16));
}

#[test]
fn certificates_say_what_binds() {
    let copy = Copy {
        source: BufferId(0),
        destination: BufferId(1),
        transfers: all_gather(8, 256),
    };
    let found = schedule_with(Target::ipu21(), &[copy], Options::default()).unwrap();
    let (c, s) = (found.certificate, found.schedule);
    assert_eq!((c.transfers, c.words), (8, 8 * 7 * 256));
    assert_eq!((c.horizon, c.binding.events), (s.horizon, s.bound));
    assert_eq!(c.gap, c.horizon - c.binding.events);
    let of = |r: Resource| c.bounds.iter().find(|b| b.resource == r).map(|b| b.events);
    // Tile 7 is in row 3: seven shards, 58 events and two for each row.
    assert_eq!(of(Resource::Port), Some(7 * 256));
    assert_eq!(of(Resource::Receiver), Some(7 * 256 + 58 + 6));
    assert!(c.bounds.iter().all(|b| b.events <= c.binding.events));
    let events = s.rows.iter().flat_map(|r| &r.events);
    let controls = events.filter(|e| !matches!(e, Event::Send { .. })).count();
    assert_eq!(c.controls as usize, controls);
}

#[test]
fn threads_do_not_matter() {
    let transfers = groups(16, 20);
    let first = phase(&transfers);
    let others: Vec<_> = std::thread::scope(|s| {
        let started: Vec<_> = (0..4).map(|_| s.spawn(|| phase(&transfers))).collect();
        started.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(others.iter().all(|o| *o == first));
}
