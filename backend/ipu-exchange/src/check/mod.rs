//! The checker: reads encoded rows and the list of transfers, nothing else.
//!
//! It decodes the exchange words itself and follows the model of the fabric: for every event x at
//! which the mux of tile d selects s, an item that s issued at `x - T(s, d) - 1` towards d is
//! written at event `x + 52 + 2 * row(d)` to the incoming pointer as of that event. It reports
//! - words that cannot be decoded, or a row that does not return,
//! - two controls of a kind at one event, a double control at an odd word, a control in the first
//!   two events of a message of the tile's own,
//! - a mux that does not end neutral or selects a tile of which nothing arrives, a write before
//!   any pointer was set,
//! - words of a transfer that do not arrive or arrive from elsewhere, and stray writes,
//! - 64-bit items: fewer than a message has, a pair's mux that its later tile sets or that selects
//!   when nothing arrives, a format that does not say what arrives, tiles of a pair that write at
//!   different addresses, a partner that sends or receives while its bus is borrowed,
//! - rows shorter than their last write plus the guard,
//! - sends and receives that overlap in time on one memory element, or either with the row's own
//!   elements,
//! - a transfer that starts before one is complete that stands before it in the list and shares
//!   data with it, and two that write one address without such an order between them.
//!
//! All of it works on runs of words, so that its time follows the number of messages.

mod arrive;
mod decode;
mod order;
mod pair;

use decode::{Decoded, decode};
use ipu_target::Target;
use ipu_target::geometry::Physical;
use std::collections::BTreeMap;

/// The encoded row of one tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRow {
    /// Logical tile.
    pub tile: u32,
    /// Byte address of its first word; `None` before rows are placed, so that what the row's own
    /// fetch touches is not known.
    pub address: Option<u32>,
    /// Its words, the return included.
    pub words: Vec<u32>,
}

/// A transfer with absolute byte addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsoluteTransfer {
    /// Sending tile (logical).
    pub source: u32,
    /// Byte address on it.
    pub source_address: u32,
    /// Words of 4 bytes.
    pub words: u32,
    /// Receiving tiles and byte addresses.
    pub destinations: Vec<(u32, u32)>,
}

/// What is wrong with a phase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exchange row of tile {tile}: {what}")]
pub struct CheckError {
    /// Logical tile.
    pub tile: u32,
    /// Violation, with the values.
    pub what: String,
}

/// What a checked phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checked {
    /// Events of the longest row.
    pub horizon: u32,
    /// Words delivered.
    pub words: u64,
}

/// A run of consecutive items written.
#[derive(Clone, Copy)]
struct Write {
    /// Event of the first item.
    start: u32,
    words: u32,
    /// Words written at each event.
    width: u32,
    address: u32,
    /// Logical tile that sent it, the address it was read from and the event of the send.
    source: u32,
    source_address: u32,
    sent: u32,
}

impl Write {
    /// First event after it.
    fn end(&self) -> u32 {
        self.start + self.words / self.width
    }
}

/// What one transfer puts on one tile.
#[derive(Clone, Copy)]
struct Expected {
    source: u32,
    source_address: u32,
    address: u32,
    words: u32,
    transfer: u32,
}

/// When a transfer was seen to happen.
#[derive(Clone, Copy)]
struct Seen {
    /// First event of its first send.
    start: u32,
    /// First event after its last write anywhere.
    end: u32,
}

/// Compares what is written on a tile with what must be, and notes when. Both are grouped by
/// where words come from and the distance between the two addresses: within a group a run is
/// named by its address alone.
fn delivered(
    tile: u32,
    written: &mut [Write],
    want: &mut [Expected],
    seen: &mut [Seen],
) -> Result<(), CheckError> {
    let fail = |what: String| Err(CheckError { tile, what });
    let missing = |e: &Expected, done: u32| {
        fail(format!(
            "the word for address {:#x} from tile {} address {:#x} does not arrive",
            e.address + done,
            e.source,
            e.source_address + done
        ))
    };
    let stray = |w: &Write, done: u32| {
        fail(format!(
            "stray word from tile {} address {:#x} at address {:#x}, event {}",
            w.source,
            w.source_address + done,
            w.address + done,
            w.start + done / (4 * w.width)
        ))
    };
    written.sort_unstable_by_key(|w| {
        (
            w.source,
            w.address.wrapping_sub(w.source_address),
            w.address,
            w.start,
        )
    });
    want.sort_unstable_by_key(|e| {
        (
            e.source,
            e.address.wrapping_sub(e.source_address),
            e.address,
            e.transfer,
        )
    });
    let mut runs = written.iter();
    // What is left of the current run: bytes done.
    let mut current = runs.next();
    let mut done = 0;
    for e in want.iter() {
        let mut got = 0;
        while got < 4 * e.words {
            let Some(w) = current else {
                return missing(e, got);
            };
            let same = (w.source, w.source_address + done, w.address + done)
                == (e.source, e.source_address + got, e.address + got);
            if !same {
                let group_w = (w.source, w.address.wrapping_sub(w.source_address));
                let group_e = (e.source, e.address.wrapping_sub(e.source_address));
                let earlier = (group_w, w.address + done) < (group_e, e.address + got);
                return if earlier {
                    stray(w, done)
                } else {
                    missing(e, got)
                };
            }
            let bytes = (4 * w.words - done).min(4 * e.words - got);
            let s = &mut seen[e.transfer as usize];
            s.start = s.start.min(w.sent + done / (4 * w.width));
            s.end = s.end.max(w.start + (done + bytes).div_ceil(4 * w.width));
            got += bytes;
            done += bytes;
            if done == 4 * w.words {
                current = runs.next();
                done = 0;
            }
        }
    }
    match current {
        Some(w) => stray(w, done),
        None => Ok(()),
    }
}

/// Checks one phase.
///
/// # Errors
/// The first violation found, with its tile.
pub fn check(
    target: &Target,
    rows: &[EncodedRow],
    transfers: &[AbsoluteTransfer],
) -> Result<Checked, CheckError> {
    let mut decoded = rows
        .iter()
        .map(|row| decode(target, row))
        .collect::<Result<Vec<_>, _>>()?;
    decoded.sort_by_key(|d| d.tile);
    if let Some(pair) = decoded.windows(2).find(|p| p[0].tile == p[1].tile) {
        return Err(CheckError {
            tile: pair[0].tile,
            what: "has two rows".to_owned(),
        });
    }
    let mut of_physical = vec![u32::MAX; 1 << 11];
    for (i, d) in decoded.iter().enumerate() {
        if let Some(slot) = of_physical.get_mut(usize::from(d.physical.0)) {
            *slot = i as u32;
        }
    }
    for (i, t) in transfers.iter().enumerate() {
        let to = t.destinations.iter().copied();
        for (tile, address) in to.chain([(t.source, t.source_address)]) {
            let end = u64::from(address) + 4 * u64::from(t.words);
            if end > u64::from(target.memory_end) {
                return Err(CheckError {
                    tile,
                    what: format!(
                        "transfer {i}: {} words at {address:#x} are not in memory",
                        t.words
                    ),
                });
            }
        }
    }
    let mut expected: BTreeMap<u32, Vec<Expected>> = BTreeMap::new();
    for (i, t) in transfers.iter().enumerate() {
        for &(tile, address) in &t.destinations {
            expected.entry(tile).or_default().push(Expected {
                source: t.source,
                source_address: t.source_address,
                address,
                words: t.words,
                transfer: i as u32,
            });
        }
    }
    let never = Seen {
        start: u32::MAX,
        end: 0,
    };
    let mut seen = vec![never; transfers.len()];
    let mut result = Checked::default();
    let mut pairs = pair::Pairs::new(&decoded);
    for d in &decoded {
        let tile = d.tile;
        let fail = |what: String| CheckError { tile, what };
        let mut written = arrive::writes(target, d, &decoded, &of_physical)?;
        if let Some(w) = written.last()
            && w.end() + target.receive_guard > d.length
        {
            return Err(fail(format!(
                "returns at event {}, its last write at {} needs {} more",
                d.length,
                w.end() - 1,
                target.receive_guard
            )));
        }
        memory(target, d, &written).map_err(fail)?;
        pairs.note(target, d, &written)?;
        let mut want = expected.remove(&tile).unwrap_or_default();
        delivered(tile, &mut written, &mut want, &mut seen)?;
        result.words += want.iter().map(|e| u64::from(e.words)).sum::<u64>();
        result.horizon = result.horizon.max(d.length);
    }
    if let Some(&tile) = expected.keys().next() {
        return Err(CheckError {
            tile,
            what: "receives words but has no row".to_owned(),
        });
    }
    pairs.finish()?;
    order::check(transfers, &seen)?;
    Ok(result)
}

/// When an element is read or written: `(element, first event, event behind, write, address)`.
type Use = (u32, u32, u32, bool, u32);

/// Element rules of one tile.
fn memory(target: &Target, row: &Decoded, written: &[Write]) -> Result<(), String> {
    let inside = |address: u32, words: u32| {
        address.is_multiple_of(4)
            && address >= target.memory_base
            && u64::from(address) + 4 * u64::from(words) <= u64::from(target.memory_end)
    };
    let own = row
        .own
        .map(|o| element(target, o.0)..=element(target, o.1 - 1));
    let mut uses: Vec<Use> = Vec::with_capacity(row.sends.len() + written.len());
    let sends = row
        .sends
        .iter()
        .map(|s| (s.start, s.items, s.words(), s.address, false));
    let receives = written
        .iter()
        .map(|w| (w.start, w.end() - w.start, w.words, w.address, true));
    for (start, events, words, address, write) in sends.chain(receives) {
        let verb = if write { "writes" } else { "sends" };
        if !inside(address, words) {
            return Err(format!(
                "{verb} {words} words at {address:#x}, outside memory"
            ));
        }
        let guard = if write { target.receive_guard } else { 0 };
        let last = element(target, address + 4 * words - 1);
        for e in element(target, address)..=last {
            if own.as_ref().is_some_and(|o| o.contains(&e)) {
                return Err(format!(
                    "{verb} at {address:#x}, an element of the row itself"
                ));
            }
            uses.push((e, start, start + events + guard, write, address));
        }
    }
    uses.sort_unstable();
    // The latest end of reads and of writes in the current element, with its address.
    let mut latest = [(0u32, 0u32); 2];
    let mut of = u32::MAX;
    for &(e, start, end, write, address) in &uses {
        if e != of {
            of = e;
            latest = [(0, 0); 2];
        }
        let (until, other) = latest[usize::from(!write)];
        if until > start {
            let (sent, received) = if write {
                (other, address)
            } else {
                (address, other)
            };
            return Err(format!(
                "sends from {sent:#x} and writes at {received:#x} in one element at event {start}"
            ));
        }
        let mine = &mut latest[usize::from(write)];
        *mine = (*mine).max((end, address));
    }
    Ok(())
}

/// Number of the element of an address, ascending with the address; a pair counts as one.
fn element(target: &Target, address: u32) -> u32 {
    if address < target.region1_base {
        address / target.element_bytes
    } else {
        target.region1_base / target.element_bytes
            + (address - target.region1_base) / target.interleaved_element_bytes
    }
}

/// The physical tile of a logical one, as the decoder notes it.
fn physical(tile: u32) -> Physical {
    Physical::of_logical(tile)
}
