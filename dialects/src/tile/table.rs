//! The tables of `tile.exchange` and the view of `tile.rearrange` as words; their text is in
//! `cpp/tile.cpp`.

use super::Read;
use ipu_program::tile::{BufferId, Copy, Event, Row, Schedule, Transfer, View};
use std::collections::BTreeMap;

// Kinds of events in a table, and nobody as a source; see cpp/tile.cpp.
const SEND: u32 = 0;
const MUX: u32 = 1;
const POINT: u32 = 2;
const PAIR: u32 = 3;
const FORMAT: u32 = 4;
const NOBODY: u32 = u32::MAX;

/// A reader of the words of a table.
pub(super) struct Table<'t> {
    pub(super) words: &'t [u32],
    pub(super) buffers: &'t [BufferId],
}

impl Table<'_> {
    pub(super) fn whole<T>(mut self, what: &str, read: fn(&mut Self) -> Option<T>) -> Read<T> {
        match read(&mut self) {
            Some(value) if self.words.is_empty() => Ok(value),
            _ => Err(format!("has a malformed table of {what}")),
        }
    }

    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*first)
    }

    fn list<T>(&mut self, read: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.next()?).map(|_| read(self)).collect()
    }

    fn buffer(&mut self) -> Option<BufferId> {
        let index = self.next()? as usize;
        self.buffers.get(index).copied()
    }

    pub(super) fn copies(&mut self) -> Option<Vec<Copy>> {
        self.list(|t| {
            Some(Copy {
                source: t.buffer()?,
                destination: t.buffer()?,
                transfers: t.list(|t| {
                    Some(Transfer {
                        source: t.next()?,
                        source_offset: t.next()?,
                        words: t.next()?,
                        destinations: t.list(|t| Some((t.next()?, t.next()?)))?,
                    })
                })?,
            })
        })
    }

    pub(super) fn schedule(&mut self) -> Option<Schedule> {
        Some(Schedule {
            horizon: self.next()?,
            bound: self.next()?,
            binding_tile: self.next()?,
            certificate: None,
            rows: self.list(|t| {
                Some(Row {
                    tile: t.next()?,
                    horizon: t.next()?,
                    events: t.list(Table::event)?,
                })
            })?,
        })
    }

    fn event(&mut self) -> Option<Event> {
        Some(match (self.next()?, self.next()?) {
            (SEND, at) => Event::Send {
                at,
                buffer: self.buffer()?,
                offset: self.next()?,
                words: self.next()?,
                direction: u8::try_from(self.next()?).ok()?,
            },
            (MUX, at) => Event::Mux {
                at,
                source: self.next().map(|s| (s != NOBODY).then_some(s))?,
            },
            (POINT, at) => Event::Pointer {
                at,
                buffer: self.buffer()?,
                offset: self.next()?,
            },
            (PAIR, at) => Event::PairMux {
                at,
                source: self.next().map(|s| (s != NOBODY).then_some(s))?,
            },
            (FORMAT, at) => Event::Format {
                at,
                value: u8::try_from(self.next()?).ok()?,
            },
            _ => return None,
        })
    }
}

/// The words of a view: number of axes and extents, then for source and destination the first
/// element and the strides.
pub(super) fn view_words(view: &View) -> Vec<u64> {
    let mut words = vec![view.shape.len() as u64];
    words.extend(view.shape.iter().map(|&e| u64::from(e)));
    words.push(view.source_offset);
    words.extend(&view.source_strides);
    words.push(view.destination_offset);
    words.extend(&view.destination_strides);
    words
}

/// The view that such words say.
pub(super) fn read_view(words: &[u64]) -> Read<View> {
    let malformed = || "has a malformed view".to_owned();
    let (&axes, rest) = words.split_first().ok_or_else(malformed)?;
    let axes = usize::try_from(axes).map_err(|_| malformed())?;
    if axes.checked_mul(3).and_then(|n| n.checked_add(2)) != Some(rest.len()) {
        return Err(malformed());
    }
    let (shape, rest) = rest.split_at(axes);
    let (source, destination) = rest.split_at(axes + 1);
    let shape = shape.iter().map(|&e| u32::try_from(e));
    Ok(View {
        shape: shape
            .collect::<Result<_, _>>()
            .map_err(|_| "has a view with an extent beyond 32 bits")?,
        source_offset: source[0],
        source_strides: source[1..].to_vec(),
        destination_offset: destination[0],
        destination_strides: destination[1..].to_vec(),
    })
}

/// Writes tables; buffers are numbered by first appearance, as when text is parsed.
#[derive(Default)]
pub(super) struct TableBuilder {
    pub(super) buffers: Vec<BufferId>,
    numbers: BTreeMap<BufferId, u32>,
}

impl TableBuilder {
    fn buffer(&mut self, id: BufferId) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.buffers.push(id);
            self.buffers.len() as u32 - 1
        })
    }

    pub(super) fn copies(&mut self, copies: &[Copy]) -> Vec<u32> {
        let mut out = vec![copies.len() as u32];
        for copy in copies {
            out.extend([self.buffer(copy.source), self.buffer(copy.destination)]);
            out.push(copy.transfers.len() as u32);
            for t in &copy.transfers {
                out.extend([
                    t.source,
                    t.source_offset,
                    t.words,
                    t.destinations.len() as u32,
                ]);
                out.extend(
                    t.destinations
                        .iter()
                        .flat_map(|&(tile, offset)| [tile, offset]),
                );
            }
        }
        out
    }

    pub(super) fn schedule(&mut self, s: &Schedule) -> Vec<u32> {
        let mut out = vec![s.horizon, s.bound, s.binding_tile, s.rows.len() as u32];
        for row in &s.rows {
            out.extend([row.tile, row.horizon, row.events.len() as u32]);
            for event in &row.events {
                match *event {
                    Event::Send {
                        at,
                        buffer,
                        offset,
                        words,
                        direction,
                    } => {
                        out.extend([
                            SEND,
                            at,
                            self.buffer(buffer),
                            offset,
                            words,
                            direction.into(),
                        ]);
                    }
                    Event::Mux { at, source } => out.extend([MUX, at, source.unwrap_or(NOBODY)]),
                    Event::Pointer { at, buffer, offset } => {
                        out.extend([POINT, at, self.buffer(buffer), offset]);
                    }
                    Event::PairMux { at, source } => {
                        out.extend([PAIR, at, source.unwrap_or(NOBODY)]);
                    }
                    Event::Format { at, value } => out.extend([FORMAT, at, value.into()]),
                }
            }
        }
        out
    }
}
