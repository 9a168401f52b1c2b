//! The exchange fabric: what tiles sent, and how a tile listens.
//!
//! An item issued on `s` at event `e` reaches the mux of `d` at event `e + T(s, d) + 1`. If the mux
//! selects `s` then, the item is written `52 + 2 row(d)` events later through the pointer of that
//! event. Nothing else happens in the fabric, so a receiver only needs the history of its own mux
//! and the sender's items of the last [`HISTORY`] events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};

use crate::fault::Reason;

/// Clocks that tiles may advance without seeing each other's items. The smallest send to write
/// latency on the chip is 19.
pub(crate) const WINDOW: u64 = 16;

/// Events that sent items are kept; the largest latency is 165.
const HISTORY: usize = 256;

/// An item on its way.
#[derive(Default)]
struct Sent {
    /// Event of issue plus one; 0 for none.
    event: u64,
    value: u32,
    control: u8,
    taken: AtomicBool,
}

/// The recent items of one tile.
#[derive(Default)]
pub(crate) struct Outbox {
    ring: Vec<Sent>,
    taken: AtomicU64,
}

/// One word sent in the current window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) event: u64,
    pub(crate) value: u32,
    pub(crate) control: u8,
}

impl Outbox {
    /// Publishes the items of a finished window.
    pub(crate) fn publish(&mut self, items: &mut Vec<Outgoing>) {
        if self.ring.is_empty() && !items.is_empty() {
            self.ring.resize_with(HISTORY, Sent::default);
        }
        for item in items.drain(..) {
            self.ring[item.event as usize % HISTORY] = Sent {
                event: item.event + 1,
                value: item.value,
                control: item.control,
                taken: AtomicBool::new(false),
            };
        }
    }

    /// The word issued at `event` towards `direction`, counted as received.
    fn take(&self, event: u64, direction: u8) -> Option<u32> {
        let sent = self.ring.get(event as usize % HISTORY)?;
        if sent.event != event + 1 || sent.control & direction == 0 {
            return None;
        }
        // Counts distinct items, so the order of receivers does not matter.
        if !sent.taken.swap(true, Ordering::Relaxed) {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Some(sent.value)
    }

    /// Items that at least one tile received.
    pub(crate) fn received_items(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// The tile that a mux listens to.
#[derive(Clone, Copy, Debug)]
struct Source {
    logical: usize,
    direction: u8,
    /// Events from issue to write.
    latency: i64,
}

/// The stream that continued sends go on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Byte address of the next item.
    pub(crate) address: u32,
    /// Direction bits; 0 advances without sending.
    pub(crate) control: u8,
}

/// The exchange state of one tile.
#[derive(Debug)]
pub(crate) struct Link {
    physical: Physical,
    /// Events from the mux to the write.
    to_write: u64,
    neutral: u32,
    /// Mux changes that the write side has not reached: `(event, value)`.
    changes: VecDeque<(u64, u32)>,
    /// Newest mux value.
    mux: u32,
    source: Option<Source>,
    /// A pointer that takes effect at an event, before the write of that event.
    next_pointer: Option<(u64, u32)>,
    /// Byte address of the next incoming word.
    pub(crate) pointer: Option<u32>,
    pub(crate) stream: Option<Stream>,
    /// The stream emits until this clock.
    pub(crate) sending_until: u64,
    /// Items of this window.
    pub(crate) outgoing: Vec<Outgoing>,
}

impl Link {
    pub(crate) fn new(physical: Physical, target: &Target) -> Link {
        Link {
            physical,
            to_write: u64::from(target.first_write_after_mux) + 2 * physical.row() as u64,
            neutral: target.mux_neutral,
            changes: VecDeque::new(),
            mux: target.mux_neutral,
            source: None,
            next_pointer: None,
            pointer: None,
            stream: None,
            sending_until: 0,
            outgoing: Vec::new(),
        }
    }

    /// Newest mux value.
    pub(crate) fn mux(&self) -> u32 {
        self.mux
    }

    /// Whether words may arrive, now or by a mux setting on its way to the write side.
    pub(crate) fn listening(&self) -> bool {
        self.source.is_some() || !self.changes.is_empty()
    }

    /// Whether other tiles matter to this one at `clock`.
    pub(crate) fn active(&self, clock: u64) -> bool {
        self.listening() || self.sending_until > clock || self.next_pointer.is_some()
    }

    /// Selects a source from `event` on.
    pub(crate) fn set_mux(&mut self, event: u64, value: u32) {
        if value != self.mux {
            self.mux = value;
            self.changes.push_back((event, value));
        }
    }

    /// Sets the incoming pointer from `event` on.
    pub(crate) fn set_pointer(&mut self, event: u64, address: u32) {
        self.next_pointer = Some((event, address));
    }

    /// Applies a pointer that is due.
    #[inline]
    pub(crate) fn settle_pointer(&mut self, clock: u64) {
        if let Some((event, address)) = self.next_pointer
            && event <= clock
        {
            self.pointer = Some(address);
            self.next_pointer = None;
        }
    }

    /// The word that arrives at `clock`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        clock: u64,
        outboxes: &[Outbox],
    ) -> Result<Option<u32>, Reason> {
        while let Some(&(event, value)) = self.changes.front()
            && event + self.to_write <= clock
        {
            self.changes.pop_front();
            self.source = self.source_of(value, outboxes.len())?;
        }
        let Some(source) = self.source else {
            return Ok(None);
        };
        let Ok(event) = u64::try_from(clock as i64 - source.latency) else {
            return Ok(None);
        };
        Ok(outboxes[source.logical].take(event, source.direction))
    }

    /// The tile of a mux value; neutral, host ports and unknown numbers deliver nothing.
    fn source_of(&self, value: u32, tiles: usize) -> Result<Option<Source>, Reason> {
        let from = Physical(value as u16);
        let logical = from.to_logical() as usize;
        let is_tile =
            value < self.neutral && logical < tiles && Physical::of_logical(logical as u32) == from;
        if !is_tile {
            return Ok(None);
        }
        if from == self.physical {
            return Err(Reason::NotImplemented(
                "a tile that listens to itself".to_string(),
            ));
        }
        Ok(Some(Source {
            logical,
            direction: direction(from, self.physical),
            latency: i64::from(time_to_mux(from, self.physical)) + 1 + self.to_write as i64,
        }))
    }
}
