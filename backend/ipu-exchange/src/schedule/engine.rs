//! What is taken on every tile while messages are placed, in engine time.
//!
//! Engine time runs forward from event 0 or, mirrored, backward from the horizon: a window
//! `[a, b)` becomes `[H - b, H - a)` and a point `e` becomes `H - e`. Both ways a message occupies
//! its sender for `[k, k + n)` and each receiver for `[k + o, k + o + n)`; only the lag `o`, the
//! first events allowed and the places of the controls differ. So one search builds schedules from
//! either end.

use super::problem::{Message, Problem, Receiver};
use ipu_program::tile::BufferId;

/// Most events that a pointer is set before the first write.
const MAX_EARLY: u32 = 2;

/// Disjoint half-open intervals, ascending. Most are added at the end or near it.
#[derive(Clone, Default)]
pub(super) struct Intervals(Vec<(u32, u32)>);

/// Intervals from the end that are searched one by one before the search turns binary.
const LINEAR: usize = 8;

impl Intervals {
    /// Number of intervals that start before `at`.
    fn before(&self, at: u32) -> usize {
        let tail = self.0.len().saturating_sub(LINEAR);
        match self.0[tail..].iter().rposition(|i| i.0 < at) {
            Some(i) => tail + i + 1,
            None => self.0[..tail].partition_point(|i| i.0 < at),
        }
    }

    /// The end of the last interval that `[at, end)` hits.
    fn conflict(&self, at: u32, end: u32) -> Option<u32> {
        let &(_, behind) = self.0[..self.before(end)].last()?;
        (behind > at).then_some(behind)
    }

    /// Takes `[at, end)`, which is free.
    fn insert(&mut self, at: u32, end: u32) {
        let place = self.before(at);
        self.0.insert(place, (at, end));
    }

    /// End of the last interval.
    pub fn frontier(&self) -> u32 {
        self.0.last().map_or(0, |i| i.1)
    }

    /// Where a search for a gap starts: behind all but the last few intervals.
    fn search_from(&self, look_back: usize) -> u32 {
        let n = self.0.len();
        if n > look_back {
            self.0[n - 1 - look_back].1
        } else {
            0
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

const CLOSED: u8 = 1;
const START: u8 = 2;
const END: u8 = 4;
const POINTER: u8 = 8;
const CONTROL: u8 = START | END | POINTER;

/// Events of a page of [`Points`].
const PAGE: u32 = 128;

/// What controls stand at each event of each tile. Pages exist where there are any: long messages
/// leave most events untouched.
struct Points {
    pages: Vec<Vec<u32>>,
    pool: Vec<[u8; PAGE as usize]>,
}

impl Points {
    fn new(tiles: usize) -> Self {
        Points {
            pages: vec![Vec::new(); tiles],
            pool: vec![[0; PAGE as usize]],
        }
    }

    fn get(&self, tile: u32, event: u32) -> u8 {
        let page = self.pages[tile as usize].get((event / PAGE) as usize);
        self.pool[page.copied().unwrap_or(0) as usize][(event % PAGE) as usize]
    }

    fn set(&mut self, tile: u32, event: u32, what: u8) {
        let pages = &mut self.pages[tile as usize];
        let at = (event / PAGE) as usize;
        if pages.len() <= at {
            pages.resize(at + 1, 0);
        }
        if pages[at] == 0 {
            pages[at] = self.pool.len() as u32;
            self.pool.push([0; PAGE as usize]);
        }
        self.pool[pages[at] as usize][(event % PAGE) as usize] |= what;
    }

    fn unset(&mut self, tile: u32, event: u32, what: u8) {
        if let Some(&page) = self.pages[tile as usize].get((event / PAGE) as usize)
            && page != 0
        {
            self.pool[page as usize][(event % PAGE) as usize] &= !what;
        }
    }

    fn clear(&mut self) {
        self.pages.iter_mut().for_each(Vec::clear);
        self.pool.truncate(1);
    }
}

/// Where a message was put and how many events early the pointer of each receiver is set.
#[derive(Clone, Default)]
pub(super) struct Placement {
    /// First event of each message's send.
    pub start: Vec<u32>,
    /// For each receiver: events that its pointer is set before the first write.
    pub early: Vec<u8>,
}

/// Events by which a format is set before the first write.
pub(super) const FORMAT_LEAD: u32 = 2;

/// The mux window `[at, end)` with the event before it, at which the mux of a pair is set.
fn wide_window(mirror: bool, r: &Receiver, at: u32, end: u32) -> (u32, u32) {
    match (r.format != 0, mirror) {
        (false, _) => (at, end),
        (true, false) => (at - 1, end),
        (true, true) => (at, end + 1),
    }
}

/// How a pointer is provided.
const CONTINUES: u8 = u8::MAX;

/// The state of all tiles.
pub(super) struct Engine<'a> {
    pub problem: &'a Problem,
    pub mirror: bool,
    pub sends: Vec<Intervals>,
    pub muxes: Vec<Intervals>,
    /// Mux windows that a tile must not have because its bus is borrowed: they may overlap.
    borrowed: Vec<Intervals>,
    points: Points,
    /// Intervals of reads and of writes of each shared element.
    reads: Vec<Intervals>,
    writes: Vec<Intervals>,
    /// What the last receive of a tile leaves in its pointer, forward only.
    carried: Vec<(BufferId, u32)>,
    /// Where the receive that was put last before all others of a tile starts to write, and the
    /// engine event at which it sets its pointer; mirrored only.
    wanted: Vec<(BufferId, u32, u32)>,
    /// Engine time of each message, [`UNPLACED`] before it has one.
    at: Vec<u32>,
    early: Vec<u8>,
    /// Engine time at which everything placed is over: the horizon, when mirrored.
    span: u32,
    /// First engine event of the mux windows of each tile.
    release: Vec<u32>,
    /// Receives checked so far: the measure of work.
    pub work: u64,
}

const NOWHERE: (BufferId, u32) = (BufferId(u32::MAX), 1);

/// The engine time of a message without one.
const UNPLACED: u32 = u32::MAX;

impl<'a> Engine<'a> {
    pub fn new(problem: &'a Problem) -> Self {
        let n = problem.ports.len();
        Engine {
            problem,
            mirror: false,
            sends: vec![Intervals::default(); n],
            muxes: vec![Intervals::default(); n],
            borrowed: vec![Intervals::default(); if problem.wide { n } else { 0 }],
            points: Points::new(n),
            reads: vec![Intervals::default(); problem.slot_count as usize],
            writes: vec![Intervals::default(); problem.slot_count as usize],
            carried: vec![NOWHERE; n],
            wanted: vec![(NOWHERE.0, NOWHERE.1, 0); n],
            at: vec![UNPLACED; problem.messages.len()],
            early: vec![0; problem.receivers.len()],
            span: 0,
            release: vec![0; n],
            work: 0,
        }
    }

    /// Empties all tiles.
    pub fn reset(&mut self, mirror: bool) {
        self.mirror = mirror;
        for list in [
            &mut self.sends,
            &mut self.muxes,
            &mut self.borrowed,
            &mut self.reads,
            &mut self.writes,
        ] {
            list.iter_mut().for_each(Intervals::clear);
        }
        self.points.clear();
        self.carried.fill(NOWHERE);
        self.wanted.fill((NOWHERE.0, NOWHERE.1, 0));
        self.at.fill(UNPLACED);
        self.span = 0;
        for (release, port) in self.release.iter_mut().zip(&self.problem.ports) {
            *release = if mirror {
                port.write_delay + self.problem.guard
            } else {
                1
            };
        }
    }

    /// Engine time from the start of the send window to that of the receive window.
    pub fn lag(&self, r: &Receiver) -> i32 {
        if self.mirror { -r.lag } else { r.lag }
    }

    /// First engine event of a message on an empty chip.
    pub fn earliest(&self, m: &Message) -> u32 {
        if !self.mirror {
            return m.earliest;
        }
        let receivers = self.problem.receivers(m).iter();
        let first = receivers.map(|r| self.release[r.tile as usize] as i32 - self.lag(r));
        let row = self.problem.min_sender_row.saturating_sub(m.events) as i32;
        first.fold(row, i32::max) as u32
    }

    /// Where the search for a place of a message starts when only the last few gaps are looked at.
    pub fn search_from(&self, m: &Message, look_back: usize) -> u32 {
        let mut k = self.earliest(m);
        k = k.max(self.sends[m.source as usize].search_from(look_back));
        for r in self.problem.receivers(m) {
            let from = self.muxes[r.tile as usize].search_from(look_back) as i32 - self.lag(r);
            k = k.max(from.max(0) as u32);
        }
        k
    }

    /// The first time from `k` on, but not beyond `limit`, at which the sender alone would do.
    pub fn sender_from(&self, m: &Message, mut k: u32, limit: u32) -> u32 {
        let n = m.events;
        let (a, b) = if self.mirror { (n, n - 1) } else { (0, 1) };
        let tile = m.source;
        while k <= limit {
            if let Some(partner) = m.partner {
                if let Some(end) = self.sends[partner as usize].conflict(k, k + n) {
                    k = end;
                    continue;
                }
                let (from, to) = self.idle_window(partner, k, n);
                if let Some(end) = self.muxes[partner as usize].conflict(from, to) {
                    k += end - from;
                    continue;
                }
            }
            if let Some(end) = self.sends[tile as usize].conflict(k, k + n) {
                k = end;
                continue;
            }
            let taken = self.points.get(tile, k + a) | self.points.get(tile, k + b);
            if taken & CONTROL != 0 && !self.joins_before(m, k) {
                k += 1;
                continue;
            }
            if m.slots.0 < m.slots.1 {
                let (from, to) = self.read_window(k, n);
                let slots = self.problem.slots(m.slots).iter();
                if let Some(end) = slots
                    .filter_map(|&s| self.writes[s as usize].conflict(from, to))
                    .max()
                {
                    k += end - from;
                    continue;
                }
            }
            break;
        }
        k
    }

    /// Whether the send of a message at `k` would go on where that of the message before it in
    /// memory ends.
    fn joins_before(&self, m: &Message, k: u32) -> bool {
        let Some(before) = m.before else {
            return false;
        };
        let at = self.at[before as usize];
        let events = self.problem.messages[before as usize].events;
        let (end, start) = if self.mirror {
            (k + m.events, at)
        } else {
            (k, at.saturating_add(events))
        };
        at != UNPLACED && end == start
    }

    /// The mux windows during which a tile whose bus is borrowed from `k` on would receive:
    /// from the setting of the mux to the end of the row that the receive needs.
    fn idle_window(&self, partner: u32, k: u32, n: u32) -> (u32, u32) {
        let receive = self.problem.ports[partner as usize].write_delay + self.problem.guard;
        if self.mirror {
            (k, k + n + receive)
        } else {
            (k.saturating_sub(receive), k + n)
        }
    }

    /// When a send at `k` reads memory. A short row is kept open to the shortest length.
    fn read_window(&self, k: u32, n: u32) -> (u32, u32) {
        let long = n.max(self.problem.min_sender_row);
        if self.mirror {
            ((k + n).saturating_sub(long), k + n)
        } else {
            (k, k + long)
        }
    }

    /// When a receive with a mux window at `x` writes memory, guard included.
    fn write_window(&self, tile: u32, x: u32, n: u32) -> (u32, u32) {
        let delay = self.problem.ports[tile as usize].write_delay;
        if self.mirror {
            (x - delay - self.problem.guard, x + n - delay + MAX_EARLY)
        } else {
            (x + delay - MAX_EARLY, x + delay + n + self.problem.guard)
        }
    }

    /// The first time from `k` on, but not beyond `limit`, at which receiver `r` alone would do,
    /// and how its pointer is set.
    pub fn receiver_from(&self, r: &Receiver, n: u32, mut k: u32, limit: u32) -> (u32, u8) {
        let lag = self.lag(r);
        let tile = r.tile;
        let muxes = &self.muxes[tile as usize];
        while k <= limit {
            let x = (k as i32 + lag) as u32;
            // The mux of a pair is set one event before the window.
            let (at, behind) = wide_window(self.mirror, r, x, x + n);
            if let Some(end) = muxes.conflict(at, behind) {
                k = (end as i32 - lag) as u32 + (x - at);
                continue;
            }
            if let Some(end) = self
                .borrowed
                .get(tile as usize)
                .and_then(|b| b.conflict(at, behind))
            {
                k = (end as i32 - lag) as u32 + (x - at);
                continue;
            }
            if r.slots.0 < r.slots.1 {
                let (from, to) = self.write_window(tile, x, n);
                let slots = self.problem.slots(r.slots).iter();
                if let Some(end) = slots
                    .filter_map(|&s| self.reads[s as usize].conflict(from, to))
                    .max()
                {
                    k += end - from;
                    continue;
                }
            }
            match self.controls(r, x, n, muxes) {
                Some(early) => return (k, early),
                None => k += 1,
            }
        }
        (k, 0)
    }

    /// How many events early the pointer of a receive with window `[x, x + n)` is set, `None` when
    /// its controls do not fit. The start may replace the neutral setting of a window that ends
    /// there, and the end is taken over by a window that starts there. An early pointer needs as
    /// many events before the window without another's.
    fn controls(&self, r: &Receiver, x: u32, n: u32, muxes: &Intervals) -> Option<u8> {
        let tile = r.tile;
        if r.format != 0 {
            let settings = self.wide_settings(r, x, n);
            let free = settings.iter().all(|&e| self.points.get(tile, e) == 0);
            return free.then_some(0);
        }
        let (first, last) = if self.mirror { (x + n, x) } else { (x, x + n) };
        let start = self.points.get(tile, first) & (CLOSED | START | POINTER) == 0;
        if !start || self.points.get(tile, last) & (CLOSED | END | POINTER) != 0 {
            return None;
        }
        if !self.mirror
            && self.carried[tile as usize] == (r.buffer, r.offset)
            && muxes.frontier() <= x
        {
            return Some(CONTINUES);
        }
        let delay = self.problem.ports[tile as usize].write_delay;
        for early in 0..=MAX_EARLY {
            let (p, from, to) = if self.mirror {
                (x + n + early - delay, x, x + n + early)
            } else {
                if early >= x {
                    return None;
                }
                (x + delay - early, x - early, x + n)
            };
            if early > 0 && muxes.conflict(from, to).is_some() {
                return None;
            }
            if p != first && p != last && self.points.get(tile, p) == 0 {
                return Some(early as u8);
            }
        }
        None
    }

    /// The events at which a tile of a pair sets the format, the pointer and the format back, and
    /// the one that steers the mux of the pair and the neutral one.
    fn wide_settings(&self, r: &Receiver, x: u32, n: u32) -> [u32; 5] {
        let delay = self.problem.ports[r.tile as usize].write_delay;
        let (format, pointer, back, mux, neutral) = if self.mirror {
            let behind = x + n - delay;
            (
                behind + FORMAT_LEAD,
                behind,
                x + FORMAT_LEAD - delay,
                x + n + 1,
                x + 1,
            )
        } else {
            let write = x + delay;
            (
                write - FORMAT_LEAD,
                write,
                write + n - FORMAT_LEAD,
                x - 1,
                x + n - 1,
            )
        };
        if r.steers {
            [format, pointer, back, mux, neutral]
        } else {
            [format, pointer, back, format, back]
        }
    }

    /// The first time from `k` on at which a message fits everywhere; beyond `limit` a lower bound
    /// of it. How pointers are set is left in `early`.
    pub fn fit(&mut self, i: u32, mut k: u32, limit: u32) -> u32 {
        let problem = self.problem;
        let m = &problem.messages[i as usize];
        let first = m.receivers.0 as usize;
        let receivers = problem.receivers(m);
        // No time before the one that suits a port suits the message, so whoever moved it last
        // need not be asked again: among many receivers few are busy.
        let ports = receivers.len() + 1;
        let (mut agreed, mut ask) = (0, 0);
        while agreed < ports {
            self.work += 1;
            let next = if ask == 0 {
                self.sender_from(m, k, limit)
            } else {
                let (next, early) = self.receiver_from(&receivers[ask - 1], m.events, k, limit);
                self.early[first + ask - 1] = early;
                next
            };
            if next > limit {
                return next;
            }
            agreed = if next == k { agreed + 1 } else { 1 };
            k = next;
            ask = if ask + 1 == ports { 0 } else { ask + 1 };
        }
        k
    }

    /// Puts a message where [`Self::fit`] just found it to fit.
    pub fn place(&mut self, i: u32, k: u32) {
        let problem = self.problem;
        let m = &problem.messages[i as usize];
        let n = m.events;
        self.at[i as usize] = k;
        self.sends[m.source as usize].insert(k, k + n);
        let joins = self.joins_before(m, k);
        let (a, b) = if self.mirror { (n, n - 1) } else { (0, 1) };
        if let Some(behind) = m.behind {
            let next = &problem.messages[behind as usize];
            let at = self.at[behind as usize];
            if at != UNPLACED && next.events > 1 && self.joins_before(next, at) {
                // That one has no first event of a message any more.
                let first = if self.mirror {
                    at + next.events - 1
                } else {
                    at
                };
                self.points.unset(m.source, first, CLOSED);
                self.points.unset(m.source, first + 1, CLOSED);
            }
        }
        if !joins {
            self.points.set(m.source, k + a, CLOSED);
            self.points.set(m.source, k + b, CLOSED);
        }
        if let Some(partner) = m.partner {
            self.sends[partner as usize].insert(k, k + n);
            let (from, to) = self.idle_window(partner, k, n);
            join(&mut self.borrowed[partner as usize], from, to);
        }
        let (from, to) = self.read_window(k, n);
        for &s in problem.slots(m.slots) {
            join(&mut self.reads[s as usize], from, to);
        }
        let row = if self.mirror {
            n
        } else {
            n.max(problem.min_sender_row)
        };
        self.span = self.span.max(k + row);
        for (j, r) in (m.receivers.0 as usize..).zip(problem.receivers(m)) {
            let tile = r.tile;
            let x = (k as i32 + self.lag(r)) as u32;
            let delay = problem.ports[tile as usize].write_delay;
            let muxes = &mut self.muxes[tile as usize];
            let early = self.early[j];
            let (first, last) = if self.mirror { (x + n, x) } else { (x, x + n) };
            if r.format != 0 {
                let (at, behind) = wide_window(self.mirror, r, x, x + n);
                muxes.insert(at, behind);
                for e in self.wide_settings(r, x, n) {
                    self.points.set(tile, e, POINTER);
                }
                self.wanted[tile as usize] = (NOWHERE.0, NOWHERE.1, 0);
            } else if early == CONTINUES {
                // Nothing may come between this and the receive that it continues.
                let from = muxes.frontier();
                muxes.insert(from, x + n);
            } else {
                let early = u32::from(early);
                let (p, from, to) = if self.mirror {
                    (x + n + early - delay, x, x + n + early)
                } else {
                    (x + delay - early, x - early, x + n)
                };
                let frontier = muxes.frontier();
                if self.mirror && x >= frontier {
                    let (buffer, offset, pointer) = self.wanted[tile as usize];
                    if (buffer, offset) == (r.buffer, r.offset.wrapping_add(4 * m.words)) {
                        // The one behind needs no pointer as long as nothing comes between.
                        self.points.unset(tile, pointer, POINTER);
                        muxes.insert(frontier, to);
                    } else {
                        muxes.insert(from, to);
                    }
                    self.wanted[tile as usize] = (r.buffer, r.offset, p);
                } else {
                    muxes.insert(from, to);
                }
                self.points.set(tile, p, POINTER);
            }
            if r.format == 0 {
                self.points.set(tile, first, START);
                self.points.set(tile, last, END);
            }
            if x + n >= self.muxes[tile as usize].frontier() {
                self.carried[tile as usize] = (r.buffer, r.offset.wrapping_add(4 * m.words));
            }
            if r.slots.0 < r.slots.1 {
                let (from, to) = self.write_window(tile, x, n);
                for &s in problem.slots(r.slots) {
                    join(&mut self.writes[s as usize], from, to);
                }
            }
            let end = if self.mirror {
                x + n + 1 + u32::from(r.format != 0)
            } else {
                x + n + delay + problem.guard
            };
            self.span = self.span.max(end);
        }
    }

    /// Engine time at which everything placed is over.
    pub fn span(&self) -> u32 {
        self.span
    }

    /// The placement in events.
    pub fn placement(&self) -> Placement {
        let start = self.at.iter().zip(&self.problem.messages);
        let start = start.map(|(&k, m)| {
            if self.mirror {
                self.span - k - m.events
            } else {
                k
            }
        });
        let early = self
            .early
            .iter()
            .map(|&e| if e == CONTINUES { 0 } else { e });
        Placement {
            start: start.collect(),
            early: early.collect(),
        }
    }
}

/// Takes `[at, end)`, parts of which may be taken already.
fn join(list: &mut Intervals, mut at: u32, mut end: u32) {
    let last = list.before(end.saturating_add(1));
    let mut first = last;
    while first > 0 && list.0[first - 1].1 >= at {
        first -= 1;
        at = at.min(list.0[first].0);
        end = end.max(list.0[first].1);
    }
    list.0.splice(first..last, [(at, end)]);
}
