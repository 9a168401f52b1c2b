//! From a placement to the events of every row.

use super::engine::{FORMAT_LEAD, Placement};
use super::problem::Problem;
use ipu_program::tile::{BufferId, Event, Row};

/// A message that a tile receives.
#[derive(Clone, Copy)]
struct Receive {
    tile: u32,
    /// First event of its mux window.
    start: u32,
    events: u32,
    words: u32,
    source: u32,
    /// Event of its pointer.
    pointer: u32,
    buffer: BufferId,
    offset: u32,
    /// Format of 64-bit items, 0 for words, and whether the tile steers the mux of its pair.
    format: u8,
    steers: bool,
}

impl Receive {
    /// Its mux and format settings when it takes 64-bit items.
    fn wide(&self, write_delay: u32, source: u32, events: &mut Vec<Event>) {
        let format = self.start + write_delay - FORMAT_LEAD;
        for (at, value) in [(format, self.format), (format + self.events, 0)] {
            events.push(Event::Format { at, value });
        }
        if self.steers {
            let at = self.start - 1;
            let source = Some(source);
            events.push(Event::PairMux { at, source });
            events.push(Event::PairMux {
                at: at + self.events,
                source: None,
            });
        }
    }
}

/// The rows: sends as placed; the source at the start of each mux window, neutral at its end. A
/// window that continues the one before needs no setting for the same source and no pointer for
/// the address at which that one ends.
pub(super) fn rows(problem: &Problem, placement: &Placement) -> Vec<Row> {
    let mut rows: Vec<Row> = problem
        .ports
        .iter()
        .map(|p| Row {
            tile: p.logical,
            events: Vec::new(),
            horizon: 0,
        })
        .collect();
    let mut receives = Vec::with_capacity(problem.receivers.len());
    let start = |i: u32| placement.start[i as usize];
    let end = |i: u32| start(i) + problem.messages[i as usize].events;
    for (m, &at) in problem.messages.iter().zip(&placement.start) {
        let row = &mut rows[m.source as usize];
        row.horizon = row.horizon.max(at + m.events.max(problem.min_sender_row));
        // The first of several that continue each other in memory and time sends all of them.
        if m.before.is_none_or(|b| end(b) != at) {
            let (mut words, mut direction) = (m.words, m.direction);
            let mut last = m;
            while let Some(next) = last.behind.filter(|&b| start(b) == at + words) {
                last = &problem.messages[next as usize];
                words += last.words;
                direction |= last.direction;
            }
            row.events.push(Event::Send {
                at,
                buffer: m.buffer,
                offset: m.offset,
                words,
                direction,
            });
        }
        for (j, r) in (m.receivers.0 as usize..).zip(problem.receivers(m)) {
            let start = (at as i32 + r.lag) as u32;
            let write = start + problem.ports[r.tile as usize].write_delay;
            receives.push(Receive {
                tile: r.tile,
                start,
                events: m.events,
                words: m.words,
                source: m.source,
                pointer: write - u32::from(placement.early[j]),
                buffer: r.buffer,
                offset: r.offset,
                format: r.format,
                steers: r.steers,
            });
            let row = &mut rows[r.tile as usize];
            row.horizon = row.horizon.max(write + m.events + problem.guard);
        }
    }
    receives.sort_unstable_by_key(|r| (r.tile, r.start));
    for list in receives.chunk_by(|a, b| a.tile == b.tile) {
        let events = &mut rows[list[0].tile as usize].events;
        for (i, r) in list.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &list[i]);
            let next = list.get(i + 1);
            let source = problem.ports[r.source as usize].logical;
            if r.format != 0 {
                r.wide(problem.ports[r.tile as usize].write_delay, source, events);
            } else {
                let narrow = |other: &&Receive| other.format == 0;
                let continues = before
                    .filter(narrow)
                    .filter(|b| b.start + b.events == r.start);
                if continues.is_none_or(|b| b.source != r.source) {
                    events.push(Event::Mux {
                        at: r.start,
                        source: Some(source),
                    });
                }
                if next
                    .filter(narrow)
                    .is_none_or(|next| next.start != r.start + r.events)
                {
                    events.push(Event::Mux {
                        at: r.start + r.events,
                        source: None,
                    });
                }
            }
            // The pointer advances with the words, whatever time passes between windows.
            if before.is_none_or(|b| (b.buffer, b.offset + 4 * b.words) != (r.buffer, r.offset)) {
                events.push(Event::Pointer {
                    at: r.pointer,
                    buffer: r.buffer,
                    offset: r.offset,
                });
            }
        }
    }
    // A tile may take part only by its bus.
    rows.retain(|row| !row.events.is_empty());
    for row in &mut rows {
        row.events.sort_unstable_by_key(|e| (e.at(), *e));
    }
    rows
}
