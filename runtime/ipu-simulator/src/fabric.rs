//! The exchange fabric: what tiles sent, and how a tile listens.
//!
//! An item issued on `s` at event `e` reaches the mux of `d` at event `e + T(s, d) + 1`. If the mux
//! selects `s` then, the item is written `52 + 2 row(d)` events later through the pointer of that
//! event. Nothing else happens in the fabric, so a receiver only needs the history of its own mux
//! and the sender's items of the last [`HISTORY`] events.
//!
//! A 64-bit item takes the buses of a sending pair; both tiles of a receiving pair get it. One
//! setting of the pair's mux, on either of them, steers both: it counts at the mux of the tile
//! that the item reaches first, and the write follows when the other half is there, one event
//! later. A tile takes such items while its incoming format is not 0, two events behind.

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

/// The bit in which the physical numbers of a pair differ.
const PAIR_BIT: u16 = 2;

/// An item on its way.
#[derive(Default)]
struct Sent {
    /// Event of issue plus one; 0 for none.
    event: u64,
    value: u64,
    control: u8,
    taken: AtomicBool,
}

/// The recent items of one tile.
#[derive(Default)]
pub(crate) struct Outbox {
    ring: Vec<Sent>,
    taken: AtomicU64,
}

/// Stream control: 64-bit items.
pub(crate) const PAIRED: u8 = 4;
/// Events by which format changes run ahead of the writes.
const FORMAT_LEAD: u64 = 2;

/// One item sent in the current window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) event: u64,
    pub(crate) value: u64,
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

    /// Whether anything was issued at `event`, among the items that are kept.
    pub(crate) fn sent_at(&self, event: u64) -> bool {
        let sent = self.ring.get(event as usize % HISTORY);
        sent.is_some_and(|s| s.event == event + 1)
    }

    /// The item issued at `event` towards `direction`, counted as received.
    fn take(&self, event: u64, direction: u8, paired: bool) -> Result<Option<u64>, Reason> {
        let Some(sent) = self.ring.get(event as usize % HISTORY) else {
            return Ok(None);
        };
        if sent.event != event + 1 || sent.control & direction == 0 {
            return Ok(None);
        }
        if paired != (sent.control & PAIRED != 0) {
            return Err(Reason::ItemWidth { event });
        }
        // Counts distinct items, so the order of receivers does not matter.
        if !sent.taken.swap(true, Ordering::Relaxed) {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(sent.value))
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

impl Source {
    /// The item whose write is due at `clock`.
    #[inline]
    fn item(self, clock: u64, outboxes: &[Outbox], paired: bool) -> Result<Option<u64>, Reason> {
        match u64::try_from(clock as i64 - self.latency) {
            Ok(event) => outboxes[self.logical].take(event, self.direction, paired),
            Err(_) => Ok(None),
        }
    }
}

/// The stream that continued sends go on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Byte address of the next item.
    pub(crate) address: u32,
    /// Direction bits; 0 advances without sending.
    pub(crate) control: u8,
}

/// An item that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// 32 bits.
    Word(u32),
    /// 64 bits.
    Pair(u64),
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
    /// Changes of the pair's mux that the write side has not reached, in order: event and source.
    pair_changes: VecDeque<(u64, Option<Source>)>,
    pair_source: Option<Source>,
    /// Settings of the pair's mux in this window, for the partner: event and mux value.
    pub(crate) pair_settings: Vec<(u64, u32)>,
    /// Changes of the incoming format: `(first write event, value)`.
    formats: VecDeque<(u64, u32)>,
    format: u32,
    /// Events at which the mux selected a tile that sent nothing.
    pub(crate) empty: u64,
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
            pair_changes: VecDeque::new(),
            pair_source: None,
            pair_settings: Vec::new(),
            formats: VecDeque::new(),
            format: 0,
            empty: 0,
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
        self.source.is_some()
            || !self.changes.is_empty()
            || self.format != 0
            || !self.formats.is_empty()
    }

    /// Selects the format of incoming items from `event` on.
    pub(crate) fn set_format(&mut self, event: u64, value: u32) {
        if self.format != value || !self.formats.is_empty() {
            self.formats.push_back((event + FORMAT_LEAD, value));
        }
    }

    /// Selects a source of 64-bit items for the pair from `event` on.
    pub(crate) fn set_pair_mux(
        &mut self,
        event: u64,
        value: u32,
        tiles: usize,
    ) -> Result<(), Reason> {
        self.pair_setting(event, value, self.physical, tiles)?;
        self.pair_settings.push((event, value));
        Ok(())
    }

    /// A setting of the pair's mux by `setter`, this tile or its partner.
    pub(crate) fn pair_setting(
        &mut self,
        event: u64,
        value: u32,
        setter: Physical,
        tiles: usize,
    ) -> Result<(), Reason> {
        let mut source = None;
        if let Some(found) = self.source_of(value ^ u32::from(setter.0 & PAIR_BIT), tiles)? {
            let from = Physical::of_logical(found.logical as u32);
            let partner = Physical(self.physical.0 ^ PAIR_BIT);
            if from == partner {
                return Err(Reason::NotImplemented(
                    "a tile that listens to itself".to_string(),
                ));
            }
            let slower = time_to_mux(from, self.physical).max(time_to_mux(from, partner));
            source = Some(Source {
                latency: i64::from(slower) + 1 + self.to_write as i64,
                ..found
            });
        }
        let at = self.pair_changes.partition_point(|&(e, _)| e <= event);
        self.pair_changes.insert(at, (event, source));
        Ok(())
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

    /// The item that arrives at `clock`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        clock: u64,
        outboxes: &[Outbox],
    ) -> Result<Option<Arrival>, Reason> {
        while let Some(&(event, value)) = self.changes.front()
            && event + self.to_write <= clock
        {
            self.changes.pop_front();
            self.source = self.source_of(value, outboxes.len())?;
        }
        while let Some(&(event, value)) = self.formats.front()
            && event <= clock
        {
            self.formats.pop_front();
            self.format = value;
        }
        if self.format != 0 {
            while let Some(&(event, source)) = self.pair_changes.front()
                && event + self.to_write < clock
            {
                self.pair_changes.pop_front();
                self.pair_source = source;
            }
            if let Some(source) = self.pair_source {
                let item = source.item(clock, outboxes, true)?;
                self.empty += u64::from(item.is_none());
                return Ok(item.map(Arrival::Pair));
            }
        }
        let Some(source) = self.source else {
            return Ok(None);
        };
        let item = source.item(clock, outboxes, false)?;
        self.empty += u64::from(item.is_none());
        Ok(item.map(|value| Arrival::Word(value as u32)))
    }

    /// The tile of a mux value; neutral, host ports and unknown numbers deliver nothing.
    fn source_of(&self, value: u32, tiles: usize) -> Result<Option<Source>, Reason> {
        // Host ports follow the last row of tiles.
        if value >= self.neutral {
            return Ok(None);
        }
        let from = Physical(value as u16);
        let Some(logical) = from.to_logical().map(|l| l as usize).filter(|&l| l < tiles) else {
            return Ok(None);
        };
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
