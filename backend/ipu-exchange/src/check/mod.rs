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
//! - rows shorter than their last write plus the guard,
//! - sends and receives that overlap in time on one memory element, or either with the row's own
//!   elements,
//! - a transfer that starts before one is complete that stands before it in the list and shares
//!   data with it, and two that write one address without such an order between them.
//!
//! All of it works on runs of words, so that its time follows the number of messages.

mod decode;
mod order;

use decode::{Decoded, decode};
use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};
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

/// A run of consecutive words written.
#[derive(Clone, Copy)]
struct Write {
    /// Event of the first word.
    start: u32,
    words: u32,
    address: u32,
    /// Logical tile that sent it, the address it was read from and the event of the send.
    source: u32,
    source_address: u32,
    sent: u32,
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

/// Follows the mux of one tile and lists what is written, by time.
fn writes(
    target: &Target,
    tile: u32,
    d: &Decoded,
    rows: &[Decoded],
    of_physical: &[u32],
) -> Result<Vec<Write>, CheckError> {
    let fail = |what: String| CheckError { tile, what };
    let delay = target.first_write_after_mux + 2 * d.physical.row() as u32;
    let mut out = Vec::new();
    let mut pointers = d.pointer.iter().peekable();
    let mut pointer: Option<u32> = None;
    for (i, &(from, selected)) in d.mux.iter().enumerate() {
        if selected == target.mux_neutral {
            continue;
        }
        // The last setting is neutral, so another one follows.
        let to = d.mux.get(i + 1).map_or(from, |m| m.0);
        let row = of_physical.get(selected as usize).copied();
        let Some(s) = row.and_then(|r| rows.get(r as usize)) else {
            return Err(fail(format!(
                "selects physical tile {selected} at event {from}, which has no row"
            )));
        };
        let lag = i64::from(time_to_mux(s.physical, d.physical)) + 1;
        let towards = direction(s.physical, d.physical);
        // Arrivals are in the order of the sends.
        let first = s
            .sends
            .partition_point(|x| i64::from(x.start) + i64::from(x.items) + lag <= i64::from(from));
        let mut covered = from;
        for stream in &s.sends[first..] {
            let start = i64::from(stream.start) + lag;
            if start >= i64::from(to) {
                break;
            }
            if stream.direction & towards == 0 {
                continue;
            }
            let begin = start.max(i64::from(from)) as u32;
            let end = (start + i64::from(stream.items)).min(i64::from(to)) as u32;
            if begin != covered {
                break;
            }
            covered = end;
            let skipped = (i64::from(begin) - start) as u32;
            let mut source_address = stream.address + 4 * skipped;
            let mut sent = stream.start + skipped;
            let mut event = begin + delay;
            let mut words = end - begin;
            while words > 0 {
                while let Some(&(_, address)) = pointers.next_if(|p| p.0 <= event) {
                    pointer = Some(address);
                }
                let run = pointers.peek().map_or(words, |p| words.min(p.0 - event));
                let Some(address) = pointer else {
                    return Err(fail(format!(
                        "a word is written at event {event} before any pointer is set"
                    )));
                };
                out.push(Write {
                    start: event,
                    words: run,
                    address,
                    source: s.tile,
                    source_address,
                    sent,
                });
                let next = u64::from(address) + 4 * u64::from(run);
                pointer = Some(u32::try_from(next).unwrap_or(u32::MAX));
                event += run;
                words -= run;
                source_address += 4 * run;
                sent += run;
            }
        }
        if covered != to {
            return Err(fail(format!(
                "selects tile {} at event {covered}, when nothing arrives from it",
                s.tile
            )));
        }
    }
    Ok(out)
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
            w.start + done / 4
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
            s.start = s.start.min(w.sent + done / 4);
            s.end = s.end.max(w.start + (done + bytes) / 4);
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
    for d in &decoded {
        let tile = d.tile;
        let fail = |what: String| CheckError { tile, what };
        let mut written = writes(target, tile, d, &decoded, &of_physical)?;
        if let Some(w) = written.last()
            && w.start + w.words + target.receive_guard > d.length
        {
            return Err(fail(format!(
                "returns at event {}, its last write at {} needs {} more",
                d.length,
                w.start + w.words - 1,
                target.receive_guard
            )));
        }
        memory(target, d, &written).map_err(fail)?;
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
        .map(|s| (s.start, s.items, s.address, false));
    let receives = written.iter().map(|w| (w.start, w.words, w.address, true));
    for (start, words, address, write) in sends.chain(receives) {
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
            uses.push((e, start, start + words + guard, write, address));
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
