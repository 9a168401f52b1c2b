//! The scheduler: list scheduling in event time.
//!
//! A receiver only steers its mux and its pointer, so a transfer occupies the sender for
//! `[S, S + n)` and each receiver's mux for `[X, X + n)` with `X = S + T + 1`; the words are
//! written `52 + 2 * row` events later. Because that delay is constant on a tile, the mux windows
//! alone order the receives of a tile, and the mux of the next message is set while words of the
//! previous one are still on their way. Serialised receives therefore pay the route latency once.
//!
//! Each transfer, in order of the load of its most loaded endpoint, starts at the earliest event
//! at which all windows and controls fit. Ties are decided by the order given or, when that gives
//! a poor schedule, round after round over the senders; the shorter schedule is taken. All controls of a tile stand at different events; a
//! coincident pair would need `sendpicp` at an even word, and shifting by one event is cheaper
//! than the search for the parity.

use ipu_program::tile::{BufferId, Copy, Event, Row, Schedule};
use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};
use std::collections::{BTreeMap, BTreeSet};

/// Longest message that is scheduled as one, in words.
const MAX_MESSAGE: u32 = 4096;

/// Intervals of a tile between which a message may still find a gap: a bound on the search, which
/// would be quadratic in the messages of a tile without it.
const LOOK_BACK: usize = 16;

/// A schedule that is longer than so many percent of its bound is tried again in another order.
const POOR_PERCENT: u64 = 125;

/// Most receives of a phase that is tried again: a bound on the time of compilation.
const MAX_SECOND_TRY: usize = 1 << 19;

/// Most events that a pointer is set before the first write.
const MAX_EARLY: u32 = 2;

/// A transfer that cannot be scheduled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// A tile number beyond the chip.
    #[error("transfer names tile {tile}, the chip has {tiles}")]
    Tile {
        /// Tile.
        tile: u32,
        /// Tiles of the chip.
        tiles: u32,
    },
    /// No destination, the source among the destinations, or a destination named twice.
    #[error("transfer from tile {0} has no, repeated or its own tile as destination")]
    Destinations(u32),
    /// No words, or an offset that is not a multiple of 4.
    #[error("transfer from tile {tile}: {words} words at byte offset {offset}")]
    Words {
        /// Sending tile.
        tile: u32,
        /// Words.
        words: u32,
        /// Offending byte offset.
        offset: u32,
    },
}

/// A message: one piece of a transfer, with physical ids resolved.
struct Message {
    source: usize,
    buffer: BufferId,
    offset: u32,
    words: u32,
    direction: u8,
    /// (tile index, T, buffer, offset)
    receivers: Vec<(usize, i32, BufferId, u32)>,
}

impl Message {
    /// The earliest start on an empty chip: every mux is set at event 1 or later.
    fn earliest(&self) -> u32 {
        self.receivers
            .iter()
            .map(|r| -r.1)
            .max()
            .unwrap_or(0)
            .max(0) as u32
    }
}

/// Disjoint half-open intervals.
#[derive(Default)]
struct Intervals(BTreeMap<u32, u32>);

impl Intervals {
    /// The smallest shift of `[at, at + n)` that avoids the interval it hits, `None` if free.
    fn conflict(&self, at: u32, n: u32) -> Option<u32> {
        let (_, &end) = self.0.range(..at + n).next_back()?;
        (end > at).then(|| end - at)
    }

    fn insert(&mut self, at: u32, n: u32) {
        self.0.insert(at, at + n);
    }

    /// Where a search for a gap starts: behind all but the last [`LOOK_BACK`] intervals.
    fn search_from(&self) -> u32 {
        self.0.values().rev().nth(LOOK_BACK).copied().unwrap_or(0)
    }
}

/// What is known of one tile while scheduling.
struct Tile {
    logical: u32,
    physical: Physical,
    sends: Intervals,
    muxes: Intervals,
    /// Events taken by mux settings: start of a window, or its end (neutral).
    starts: BTreeSet<u32>,
    ends: BTreeSet<u32>,
    pointers: BTreeSet<u32>,
    /// Events S and S + 1 of own sends, closed to controls.
    closed: BTreeSet<u32>,
    events: Vec<Event>,
    receives: Vec<Receive>,
    horizon: u32,
}

/// A message that a tile receives.
struct Receive {
    /// First event of its mux window.
    start: u32,
    words: u32,
    source: u32,
    /// Event of its pointer.
    pointer: u32,
    buffer: BufferId,
    offset: u32,
}

impl Tile {
    /// Events from the mux setting to the write.
    fn write_delay(&self, target: &Target) -> u32 {
        target.first_write_after_mux + 2 * self.physical.row() as u32
    }

    /// Whether a control may be set at `event`, given that no other control is there.
    fn control_free(&self, event: u32) -> bool {
        !self.closed.contains(&event)
            && !self.starts.contains(&event)
            && !self.ends.contains(&event)
            && !self.pointers.contains(&event)
    }

    /// How many events early the pointer of a receive with mux window `[x, x + n)` and first
    /// write `p` is set, `None` when its controls do not fit. The start may replace the neutral
    /// setting of a window that ends there, and the end is taken over by a window that starts
    /// there. An early pointer needs the events before it free of writes, so that many events
    /// before the window; at `n = p - x` it is the only way, for end and pointer coincide.
    fn controls_fit(&self, x: u32, n: u32, p: u32) -> Option<u32> {
        let start = self.control_free(x) || self.ends.contains(&x);
        let end = self.control_free(x + n) || self.starts.contains(&(x + n));
        if !start || !end {
            return None;
        }
        (0..=MAX_EARLY.min(x)).find(|&early| {
            let at = p - early;
            at != x
                && at != x + n
                && self.control_free(at)
                && self.muxes.conflict(x - early, early + n).is_none()
        })
    }

    /// Whether a send may start at `s` given the controls already set.
    fn start_fits(&self, s: u32) -> bool {
        [s, s + 1].iter().all(|e| {
            !self.starts.contains(e) && !self.ends.contains(e) && !self.pointers.contains(e)
        })
    }
}

/// Schedules the transfers of one phase.
///
/// # Errors
/// A transfer names a tile beyond the chip, has bad destinations or odd byte offsets.
pub fn schedule(target: &Target, copies: &[Copy]) -> Result<Schedule, ScheduleError> {
    let (tiles, messages) = prepare(target, copies)?;
    let (bound, binding_tile) = bound(target, &tiles, &messages);

    // Most loaded endpoint first; ties in the order given.
    let mut load = vec![0u64; tiles.len()];
    for m in &messages {
        load[m.source] += u64::from(m.words);
        m.receivers
            .iter()
            .for_each(|r| load[r.0] += u64::from(m.words));
    }
    let weight = |m: &Message| {
        m.receivers
            .iter()
            .map(|r| load[r.0])
            .chain([load[m.source]])
            .max()
            .unwrap_or(0)
    };
    let mut order: Vec<usize> = (0..messages.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(weight(&messages[i])), i));
    let mut rows = place_all(target, tiles, &messages, &order);
    let horizon = |rows: &[Row]| rows.iter().map(|r| r.horizon).max().unwrap_or(0);
    let receivers: usize = messages.iter().map(|m| m.receivers.len()).sum();
    let poor = u64::from(horizon(&rows)) * 100 > u64::from(bound) * POOR_PERCENT;
    if poor && receivers <= MAX_SECOND_TRY {
        // Where every tile sends to many, sender after sender makes each wait for the one before.
        // Round after round, one message of every sender in each, they go side by side.
        let (tiles, _) = prepare(target, copies)?;
        let mut sent = vec![0u32; tiles.len()];
        let round = |m: &Message| {
            sent[m.source] += 1;
            sent[m.source]
        };
        let rounds: Vec<u32> = messages.iter().map(round).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(weight(&messages[i])), rounds[i], i));
        let other = place_all(target, tiles, &messages, &order);
        if horizon(&other) < horizon(&rows) {
            rows = other;
        }
    }
    Ok(Schedule {
        horizon: horizon(&rows),
        rows,
        bound,
        binding_tile,
    })
}

/// The rows that result when messages are placed in an order.
fn place_all(
    target: &Target,
    mut tiles: Vec<Tile>,
    messages: &[Message],
    order: &[usize],
) -> Vec<Row> {
    for &i in order {
        place(target, &mut tiles, &messages[i]);
    }
    let mut rows: Vec<Row> = tiles.into_iter().map(finish).collect();
    rows.sort_by_key(|r| r.tile);
    rows
}

fn prepare(target: &Target, copies: &[Copy]) -> Result<(Vec<Tile>, Vec<Message>), ScheduleError> {
    let mut index: BTreeMap<u32, usize> = BTreeMap::new();
    let mut tiles: Vec<Tile> = Vec::new();
    let mut tile = |logical: u32| -> Result<usize, ScheduleError> {
        if logical >= target.tiles {
            return Err(ScheduleError::Tile {
                tile: logical,
                tiles: target.tiles,
            });
        }
        Ok(*index.entry(logical).or_insert_with(|| {
            tiles.push(Tile {
                logical,
                physical: Physical::of_logical(logical),
                sends: Intervals::default(),
                muxes: Intervals::default(),
                starts: BTreeSet::new(),
                ends: BTreeSet::new(),
                pointers: BTreeSet::new(),
                closed: BTreeSet::new(),
                events: Vec::new(),
                receives: Vec::new(),
                horizon: 0,
            });
            tiles.len() - 1
        }))
    };
    let mut messages = Vec::new();
    for copy in copies {
        for t in &copy.transfers {
            let named: BTreeSet<u32> = t.destinations.iter().map(|d| d.0).collect();
            if named.is_empty() || named.contains(&t.source) || named.len() != t.destinations.len()
            {
                return Err(ScheduleError::Destinations(t.source));
            }
            let offsets = t.destinations.iter().map(|d| d.1).chain([t.source_offset]);
            if let Some(offset) = offsets.into_iter().find(|o| o % 4 != 0 || t.words == 0) {
                return Err(ScheduleError::Words {
                    tile: t.source,
                    words: t.words,
                    offset,
                });
            }
            let source = tile(t.source)?;
            let from = Physical::of_logical(t.source);
            let mut receivers = Vec::with_capacity(t.destinations.len());
            let mut mask = 0;
            for &(logical, offset) in &t.destinations {
                let to = Physical::of_logical(logical);
                mask |= direction(from, to);
                receivers.push((
                    tile(logical)?,
                    time_to_mux(from, to),
                    copy.destination,
                    offset,
                ));
            }
            let mut done = 0;
            while done < t.words {
                let words = (t.words - done).min(MAX_MESSAGE);
                messages.push(Message {
                    source,
                    buffer: copy.source,
                    offset: t.source_offset + 4 * done,
                    words,
                    // A message to several receivers drives both directions, as all public rows do.
                    direction: if receivers.len() > 1 { 3 } else { mask },
                    receivers: receivers
                        .iter()
                        .map(|r| (r.0, r.1, r.2, r.3 + 4 * done))
                        .collect(),
                });
                done += words;
            }
        }
    }
    Ok((tiles, messages))
}

/// A lower bound on the phase horizon: every tile must send its words after its earliest start
/// and receive its words after the earliest possible first write, plus the guard.
fn bound(target: &Target, tiles: &[Tile], messages: &[Message]) -> (u32, u32) {
    let mut sends = vec![(0u32, u32::MAX); tiles.len()];
    let mut receives = vec![(0u32, u32::MAX); tiles.len()];
    for m in messages {
        let start = m.earliest();
        let s = &mut sends[m.source];
        *s = (s.0 + m.words, s.1.min(start));
        for &(t, time, ..) in &m.receivers {
            let x = (start as i32 + time + 1).max(1) as u32;
            let r = &mut receives[t];
            *r = (r.0 + m.words, r.1.min(x));
        }
    }
    let mut best = (0, 0);
    for (i, tile) in tiles.iter().enumerate() {
        let (sent, start) = sends[i];
        let (received, x) = receives[i];
        let mut b = 0;
        if sent > 0 {
            b = b.max(start + sent.max(target.min_sender_row));
        }
        if received > 0 {
            b = b.max(x + tile.write_delay(target) + received + target.receive_guard);
        }
        if b > best.0 || (b == best.0 && tile.logical < best.1) {
            best = (b, tile.logical);
        }
    }
    best
}

/// Puts one message at the earliest event where everything fits.
fn place(target: &Target, tiles: &mut [Tile], m: &Message) {
    let n = m.words;
    let mut s = m.earliest().max(tiles[m.source].sends.search_from());
    for &(t, time, ..) in &m.receivers {
        let x = i64::from(tiles[t].muxes.search_from()) - i64::from(time) - 1;
        s = s.max(u32::try_from(x).unwrap_or(0));
    }
    let mut pointers = Vec::with_capacity(m.receivers.len());
    'search: loop {
        pointers.clear();
        let sender = &tiles[m.source];
        if let Some(shift) = sender.sends.conflict(s, n) {
            s += shift;
            continue;
        }
        if !sender.start_fits(s) {
            s += 1;
            continue;
        }
        for &(t, time, ..) in &m.receivers {
            let tile = &tiles[t];
            let x = (s as i32 + time + 1) as u32;
            if let Some(shift) = tile.muxes.conflict(x, n) {
                s += shift;
                continue 'search;
            }
            let Some(early) = tile.controls_fit(x, n, x + tile.write_delay(target)) else {
                s += 1;
                continue 'search;
            };
            pointers.push(early);
        }
        break;
    }
    let sender = &mut tiles[m.source];
    sender.sends.insert(s, n);
    sender.closed.extend([s, s + 1]);
    sender.horizon = sender.horizon.max(s + n.max(target.min_sender_row));
    sender.events.push(Event::Send {
        at: s,
        buffer: m.buffer,
        offset: m.offset,
        words: n,
        direction: m.direction,
    });
    let source = sender.logical;
    for (&(t, time, buffer, offset), early) in m.receivers.iter().zip(pointers) {
        let tile = &mut tiles[t];
        let x = (s as i32 + time + 1) as u32;
        let first_write = x + tile.write_delay(target);
        let p = first_write - early;
        tile.muxes.insert(x - early, n + early);
        tile.starts.insert(x);
        tile.ends.insert(x + n);
        tile.pointers.insert(p);
        tile.receives.push(Receive {
            start: x,
            words: n,
            source,
            pointer: p,
            buffer,
            offset,
        });
        tile.horizon = tile.horizon.max(first_write + n + target.receive_guard);
    }
}

/// Adds the controls: the source at the start of each mux window, neutral at its end. A window
/// that continues the one before needs no setting for the same source and no pointer for the
/// address at which that one ends.
fn finish(mut tile: Tile) -> Row {
    tile.receives.sort_by_key(|r| r.start);
    for (i, r) in tile.receives.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| &tile.receives[i]);
        let next = tile.receives.get(i + 1);
        let continues = before.filter(|b| b.start + b.words == r.start);
        if continues.is_none_or(|b| b.source != r.source) {
            tile.events.push(Event::Mux {
                at: r.start,
                source: Some(r.source),
            });
        }
        if next.is_none_or(|next| next.start != r.start + r.words) {
            tile.events.push(Event::Mux {
                at: r.start + r.words,
                source: None,
            });
        }
        // The pointer advances with the words, whatever time passes between windows.
        if before.is_none_or(|b| (b.buffer, b.offset + 4 * b.words) != (r.buffer, r.offset)) {
            tile.events.push(Event::Pointer {
                at: r.pointer,
                buffer: r.buffer,
                offset: r.offset,
            });
        }
    }
    tile.events.sort_by_key(|e| (e.at(), *e));
    Row {
        tile: tile.logical,
        events: tile.events,
        horizon: tile.horizon,
    }
}
