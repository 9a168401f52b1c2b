//! Every rule that the checker enforces, broken once: legal rows whose events are dropped, shifted
//! or altered.

#![allow(clippy::unwrap_used)] // a test may fail

use ipu_exchange::check::{AbsoluteTransfer, EncodedRow, check};
use ipu_exchange::row::{Instruction, instructions};
use ipu_exchange::schedule::{Memory, Options, schedule_with};
use ipu_program::tile::{BufferId, Copy, Event, Row, Transfer, WIDE};
use ipu_target::Target;

const SOURCE: u32 = 0x5c000;
const DESTINATION: u32 = 0x80000;
const ROW: u32 = 0x54000;

fn encode(i: Instruction) -> u32 {
    match i {
        Instruction::Delay(n) => 0x40a0_0000 | (n - 1),
        Instruction::DelayPointer(n, _, o) => 0x6000_0000 | (n - 1) << 19 | (o / 4),
        Instruction::DelayMux(n, v) => 0x6400_0000 | (n - 1) << 14 | v,
        Instruction::Send(n, _, o, d) => {
            let bytes = if d & WIDE == 0 { 4 } else { 8 };
            0x7800_0000 | (n - 1) << 21 | ((o / bytes) << 3) | u32::from(d)
        }
        Instruction::SendOffset(n, d) => {
            0x7000_0000 | (((n - 1) & 63) << 21) | (((n - 1) >> 6) << 14) | u32::from(d)
        }
        Instruction::DelayPairMux(n, v) => 0x6400_0000 | (n - 1) << 14 | 1 << 13 | v,
        Instruction::DelayFormat(n, v) => 0x6000_0000 | (n - 1) << 19 | 1 << 18 | v,
        Instruction::SendPairMux(n, v) => 0x7010_0000 | (n - 1) << 21 | 1 << 18 | v,
        Instruction::SendFormat(n, v) => 0x7010_0000 | (n - 1) << 21 | 3 << 18 | v,
        Instruction::SendMux(n, v) => 0x7010_0000 | (n - 1) << 21 | v,
        Instruction::SendPointer(n, _, o) => 0x7010_0000 | (n - 1) << 21 | 2 << 18 | (o / 4),
    }
}

fn transfer(source: u32, at: u32, words: u32, to: &[(u32, u32)]) -> Transfer {
    Transfer {
        source,
        source_offset: at,
        words,
        destinations: to.to_vec(),
    }
}

fn rows(transfers: &[Transfer]) -> Vec<Row> {
    rows_of(transfers, false)
}

fn rows_of(transfers: &[Transfer], wide: bool) -> Vec<Row> {
    let copy = Copy {
        source: BufferId(0),
        destination: BufferId(0),
        transfers: transfers.to_vec(),
    };
    let options = Options {
        memory: Memory::Absolute,
        row_words: None,
        wide,
    };
    schedule_with(Target::ipu21(), &[copy], options)
        .unwrap()
        .schedule
        .rows
}

/// The words of rows, `None` when the encoder refuses them already.
fn encoded(rows: &[Row]) -> Option<Vec<EncodedRow>> {
    let row = |row: &Row| {
        let list = instructions(Target::ipu21(), row).ok()?;
        let mut words: Vec<u32> = list.into_iter().map(encode).collect();
        words.push(0x43a0_0000);
        Some(EncodedRow {
            tile: row.tile,
            address: Some(ROW),
            words,
        })
    };
    rows.iter().map(row).collect()
}

fn absolute(transfers: &[Transfer]) -> Vec<AbsoluteTransfer> {
    let one = |t: &Transfer| AbsoluteTransfer {
        source: t.source,
        source_address: t.source_offset,
        words: t.words,
        destinations: t.destinations.clone(),
    };
    transfers.iter().map(one).collect()
}

fn verdict(rows: &[Row], transfers: &[Transfer]) -> Result<(), String> {
    let words = encoded(rows).ok_or("cannot be encoded")?;
    check(Target::ipu21(), &words, &absolute(transfers))
        .map(|_| ())
        .map_err(|e| e.to_string())
}

/// Four tiles send to each other, two pieces to each, at addresses that do not continue each other.
fn phase() -> Vec<Transfer> {
    let mut out = Vec::new();
    for source in 0..4u32 {
        for k in 1..4u32 {
            let to = (source + k) % 4;
            for half in 0..2 {
                let at = SOURCE + 0x400 * k + 0x200 * half;
                let put = DESTINATION + 0x1000 * source + 0x400 * (2 - half);
                out.push(transfer(source * 31, at, 20 + k, &[(to * 31, put)]));
            }
        }
    }
    out.push(transfer(1000, SOURCE, 70, &[(0, 0x90000), (62, 0x90000)]));
    out
}

fn shifted(event: Event, by: i64) -> Event {
    let moved = |at: u32| u32::try_from(i64::from(at) + by).unwrap();
    let mut out = event;
    match &mut out {
        Event::Send { at, .. }
        | Event::Mux { at, .. }
        | Event::Pointer { at, .. }
        | Event::PairMux { at, .. }
        | Event::Format { at, .. } => *at = moved(*at),
    }
    out
}

/// What an event may become: nothing, or the same shifted or altered.
fn mutants(event: Event) -> Vec<Option<Event>> {
    let mut others: Vec<Option<Event>> = vec![None, Some(shifted(event, 1))];
    // A pointer may be set earlier while nothing is written.
    if !matches!(event, Event::Pointer { .. }) && event.at() > 1 {
        others.push(Some(shifted(event, -1)));
    }
    match event {
        Event::Send {
            at,
            buffer,
            offset,
            words,
            direction,
        } => {
            let send = |offset, words, direction| {
                Some(Event::Send {
                    at,
                    buffer,
                    offset,
                    words,
                    direction,
                })
            };
            let item = if direction & WIDE == 0 { 1 } else { 2 };
            others.push(send(offset + 4 * item, words, direction));
            others.push(send(offset, words - item, direction));
            others.push(send(offset, words, direction ^ 3));
            others.push(send(offset, words, direction ^ WIDE));
        }
        Event::Mux { at, source } => {
            let other = source.map_or(Some(31), |s| Some((s + 31) % 124));
            others.push(Some(Event::Mux { at, source: other }));
            others.push(Some(Event::PairMux { at, source }));
            if source.is_some() {
                others.push(Some(Event::Mux { at, source: None }));
            }
        }
        Event::PairMux { at, source } => {
            let other = source.map_or(Some(40), |s| Some(s ^ 1));
            others.push(Some(Event::PairMux { at, source: other }));
            others.push(Some(Event::Mux { at, source }));
            if source.is_some() {
                others.push(Some(Event::PairMux { at, source: None }));
            }
        }
        Event::Pointer { at, buffer, offset } => {
            let offset = offset + 8;
            others.push(Some(Event::Pointer { at, buffer, offset }));
        }
        Event::Format { at, value } => {
            for other in (0..3).filter(|&v| v != value) {
                others.push(Some(Event::Format { at, value: other }));
            }
        }
    }
    others
}

/// Breaks each event of legal rows in every way; counts what the checker sees.
fn all_are_seen(transfers: &[Transfer], legal: &[Row]) -> usize {
    assert_eq!(verdict(legal, transfers), Ok(()));
    let mut seen = 0;
    for r in 0..legal.len() {
        for e in 0..legal[r].events.len() {
            let event = legal[r].events[e];
            for other in mutants(event) {
                let mut mutant = legal.to_vec();
                match other {
                    Some(o) => mutant[r].events[e] = o,
                    None => {
                        mutant[r].events.remove(e);
                    }
                }
                let both = matches!(event, Event::Send { direction, .. } if direction & 3 == 3);
                let harmless = both && other.is_some_and(|o| o.at() == event.at());
                let what = verdict(&mutant, transfers);
                assert!(
                    what.is_err() || harmless,
                    "tile {}: {event:?} became {other:?}",
                    legal[r].tile
                );
                seen += usize::from(what.is_err());
            }
        }
    }
    seen
}

#[test]
fn dropped_shifted_and_altered_events_are_seen() {
    let transfers = phase();
    let seen = all_are_seen(&transfers, &rows(&transfers));
    assert!(seen > 300, "{seen} mutants");
}

/// Three tiles send to two pairs each, one of them also to its partner.
fn wide_phase() -> Vec<Transfer> {
    let pair = |tile: u32, at: u32| [(tile, at), (tile + 1, at)];
    let both = |a: u32, b: u32, at: u32| [pair(a, at), pair(b, at)].concat();
    let mut with_partner = both(50, 400, DESTINATION + 0x2000);
    with_partner.push((1001, DESTINATION + 0x4000));
    vec![
        transfer(0, SOURCE, 140, &both(50, 900, DESTINATION)),
        transfer(51, SOURCE + 8, 200, &both(0, 900, DESTINATION + 0x1000)),
        transfer(1000, SOURCE, 160, &with_partner),
        transfer(900, SOURCE, 30, &[(1, DESTINATION)]),
    ]
}

#[test]
fn broken_64_bit_messages_are_seen() {
    let transfers = wide_phase();
    let legal = rows_of(&transfers, true);
    let wide = |e: &Event| matches!(e, Event::Send { direction, .. } if direction & WIDE != 0);
    let count = legal
        .iter()
        .flat_map(|r| &r.events)
        .filter(|e| wide(e))
        .count();
    assert_eq!(count, 3);
    let seen = all_are_seen(&transfers, &legal);
    assert!(seen > 150, "{seen} mutants");
}

/// What the checker says when events are added to the row of a tile, kept in order.
fn with_events(legal: &[Row], tile: u32, events: &[Event], transfers: &[Transfer]) -> String {
    let mut mutant = legal.to_vec();
    let index = match mutant.iter().position(|r| r.tile == tile) {
        Some(index) => index,
        None => {
            mutant.push(Row {
                tile,
                events: Vec::new(),
                horizon: 0,
            });
            mutant.len() - 1
        }
    };
    let row = &mut mutant[index];
    row.events.extend_from_slice(events);
    row.events.sort_unstable_by_key(|e| (e.at(), *e));
    row.horizon = row.horizon.max(1000);
    verdict(&mutant, transfers).unwrap_err()
}

#[test]
fn a_borrowed_bus_is_seen() {
    let transfers = [transfer(
        0,
        SOURCE,
        140,
        &[(50, DESTINATION), (51, DESTINATION)],
    )];
    let legal = rows_of(&transfers, true);
    assert_eq!(verdict(&legal, &transfers), Ok(()));
    let Some(&Event::Send { at, .. }) = legal[0].events.first() else {
        unreachable!("tile 0 sends");
    };
    // Its partner sends to nobody, or to somebody else.
    let send = Event::Send {
        at: at + 69,
        buffer: BufferId(0),
        offset: SOURCE,
        words: 4,
        direction: 3,
    };
    let what = with_events(&legal, 1, &[send], &transfers);
    assert!(what.contains("has its bus"), "{what}");
    // One event later it may.
    let mut later = legal.clone();
    later.push(Row {
        tile: 1,
        events: vec![shifted(send, 1)],
        horizon: 1000,
    });
    assert_eq!(verdict(&later, &transfers), Ok(()));
}

#[test]
fn short_64_bit_messages_are_seen() {
    let transfers = [transfer(
        0,
        SOURCE,
        128,
        &[(50, DESTINATION), (51, DESTINATION)],
    )];
    let legal = rows_of(&transfers, true);
    assert_eq!(verdict(&legal, &transfers), Ok(()));
    let mut mutant = legal.clone();
    let Some(&Event::Send {
        at,
        buffer,
        offset,
        words,
        direction,
    }) = legal[0].events.first()
    else {
        unreachable!("tile 0 sends");
    };
    let half = |k: u32| Event::Send {
        at: at + k * words / 4,
        buffer,
        offset: offset + k * 2 * words,
        words: words / 2,
        direction,
    };
    mutant[0].events = vec![half(0), half(1)];
    let what = verdict(&mutant, &transfers).unwrap_err();
    assert!(what.contains("a message has at least 64"), "{what}");
}

#[test]
fn rows_that_return_too_early_are_seen() {
    let transfers = phase();
    let legal = rows(&transfers);
    for r in 0..legal.len() {
        let mut mutant = legal.clone();
        mutant[r].horizon -= 1;
        // Rows of tiles that only send may be kept open for a moment.
        let receives = transfers
            .iter()
            .any(|t| t.destinations.iter().any(|d| d.0 == legal[r].tile));
        assert!(verdict(&mutant, &transfers).is_err() || !receives);
    }
}

#[test]
fn transfers_that_are_not_those_of_the_rows_are_seen() {
    let transfers = phase();
    let legal = rows(&transfers);
    for i in 0..transfers.len() {
        let mut fewer = transfers.clone();
        fewer.remove(i);
        assert!(verdict(&legal, &fewer).is_err(), "{i} removed");
        for field in 0..3 {
            let mut other = transfers.clone();
            match field {
                0 => other[i].source_offset += 4,
                1 => other[i].words += 1,
                _ => other[i].destinations[0].1 += 4,
            }
            assert!(verdict(&legal, &other).is_err(), "{i}, field {field}");
        }
    }
}

#[test]
fn elements_are_kept_apart_in_time() {
    // Both tiles send from and receive into one element: 0x60000 to 0x63fff.
    let swap = [
        transfer(0, 0x60000, 128, &[(1286, 0x61000)]),
        transfer(1286, 0x60000, 128, &[(0, 0x61000)]),
    ];
    let apart = rows(&swap);
    assert_eq!(verdict(&apart, &swap), Ok(()));
    // The rows for other elements do both at once.
    let mut far = swap.clone();
    far[0].destinations[0].1 = DESTINATION;
    far[1].destinations[0].1 = DESTINATION;
    let mut together = rows(&far);
    assert_eq!(verdict(&together, &far), Ok(()));
    for row in &mut together {
        for event in &mut row.events {
            if let Event::Pointer { offset, .. } = event {
                *offset = 0x61000;
            }
        }
    }
    let what = verdict(&together, &swap).unwrap_err();
    assert!(what.contains("in one element"), "{what}");
    // The public scheduler takes 480 events, and 306 for elements apart.
    let horizon = |rows: &[Row]| rows.iter().map(|r| r.horizon).max().unwrap();
    assert!(horizon(&apart) <= 480 && horizon(&together) <= 306);
}

#[test]
fn data_moves_on_in_the_order_of_the_list() {
    let relay = [
        transfer(0, SOURCE, 64, &[(50, DESTINATION)]),
        transfer(50, DESTINATION, 64, &[(900, DESTINATION)]),
    ];
    let legal = rows(&relay);
    assert_eq!(verdict(&legal, &relay), Ok(()));
    let backwards = [relay[1].clone(), relay[0].clone()];
    let what = verdict(&legal, &backwards).unwrap_err();
    assert!(what.contains("before the first is complete"), "{what}");
    assert_eq!(verdict(&rows(&backwards), &backwards), Ok(()));
}
