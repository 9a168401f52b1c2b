//! The checker: reads encoded rows and the list of transfers, nothing else.
//!
//! It decodes the exchange words itself and follows the model of the fabric: for every event x at
//! which the mux of tile d selects s, an item that s issued at `x - T(s, d) - 1` towards d is
//! written at event `x + 52 + 2 * row(d)` to the incoming pointer as of that event. It reports
//! - words that cannot be decoded, or a row that does not return,
//! - a mux that does not end neutral, a write before any pointer was set,
//! - words of a transfer that do not arrive or arrive from elsewhere, and stray writes,
//! - rows shorter than their last write plus the guard,
//! - sends and receives that overlap in time on one memory element, or either with the row's own
//!   elements, and data that is both read and written in the phase.

use ipu_target::geometry::{Physical, direction, time_to_mux};
use ipu_target::{ElementSet, Target};
use std::collections::BTreeMap;

/// The encoded row of one tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRow {
    /// Logical tile.
    pub tile: u32,
    /// Byte address of its first word.
    pub address: u32,
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

/// `ret`: `br $m10`, which ends a row.
const RETURN: u32 = 0x43a0_0000;

#[derive(Clone, Copy)]
struct Stream {
    start: u32,
    items: u32,
    address: u32,
    direction: u8,
}

struct Decoded {
    physical: Physical,
    sends: Vec<Stream>,
    mux: Vec<(u32, u32)>,
    pointer: Vec<(u32, u32)>,
    length: u32,
    own: ElementSet,
}

fn decode(target: &Target, row: &EncodedRow) -> Result<Decoded, CheckError> {
    let fail = |what: String| CheckError {
        tile: row.tile,
        what,
    };
    let (mut sends, mut mux, mut pointer) = (Vec::new(), Vec::new(), Vec::new());
    let mut now = 0u32;
    let mut stream: Option<(u32, u8)> = None;
    let mut emit = |now: u32, items: u32, stream: &mut Option<(u32, u8)>, at: usize| {
        let Some((address, direction)) = stream else {
            return Err(fail(format!(
                "word {at} continues a stream that was never started"
            )));
        };
        if *direction & 3 != 0 {
            sends.push(Stream {
                start: now,
                items,
                address: *address,
                direction: *direction,
            });
        }
        *address += 4 * items;
        Ok(())
    };
    let mut i = 0;
    let returned = loop {
        let Some(&w) = row.words.get(i) else {
            break false;
        };
        if w == RETURN {
            break i + 1 == row.words.len();
        }
        if w >> 19 == 0x0814 {
            now += (w & 0x7_ffff) + 1;
        } else if w >> 26 == 0x18 && w >> 18 & 1 == 0 {
            now += (w >> 19 & 0x7f) + 1;
            pointer.push((now, (w & 0x3_ffff) * 4));
        } else if w >> 26 == 0x19 && w >> 13 & 1 == 0 {
            now += (w >> 14 & 0xfff) + 1;
            mux.push((now, w & 0x1fff));
        } else if w >> 27 == 0x0f && w & 4 == 0 {
            let items = (w >> 21 & 0x3f) + 1;
            stream = Some(((w >> 3 & 0x3_ffff) * 4, (w & 3) as u8));
            emit(now, items, &mut stream, i)?;
            now += items;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 0 && w & 4 == 0 && w >> 3 & 0x7ff == 0 {
            let items = ((w >> 21 & 0x3f) | (w >> 14 & 0x3f) << 6) + 1;
            if let Some(s) = &mut stream {
                s.1 = (w & 3) as u8;
            }
            emit(now, items, &mut stream, i)?;
            now += items;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 1 && w >> 18 & 1 == 0 {
            let items = (w >> 21 & 0x3f) + 1;
            if w >> 19 & 1 == 0 {
                mux.push((now + 1, w & 0x1fff));
            } else {
                pointer.push((now + 1, (w & 0x3_ffff) * 4));
            }
            emit(now, items, &mut stream, i)?;
            now += items;
        } else {
            return Err(fail(format!(
                "word {i} ({w:#010x}) is not a 32-bit exchange instruction"
            )));
        }
        i += 1;
    };
    if !returned {
        return Err(fail("does not end with its only return".to_owned()));
    }
    for (what, events) in [("mux", &mux), ("pointer", &pointer)] {
        if let Some(pair) = events.windows(2).find(|p| p[0].0 == p[1].0) {
            return Err(fail(format!(
                "sets the {what} twice at event {}",
                pair[0].0
            )));
        }
    }
    if let Some(&(at, last)) = mux.last()
        && last != target.mux_neutral
    {
        return Err(fail(format!(
            "leaves the mux at {last:#x} (set at event {at}), not neutral"
        )));
    }
    let bytes = 4 * row.words.len() as u32 + target.fetch_lookahead_bytes;
    Ok(Decoded {
        physical: Physical::of_logical(row.tile),
        sends,
        mux,
        pointer,
        length: now,
        own: target.exchange_units(row.address, bytes),
    })
}

/// A run of consecutive words written.
struct Write {
    start: u32,
    words: u32,
    address: u32,
    source: u32,
    source_address: u32,
}

/// Follows the mux of one tile and lists what is written.
fn writes(
    target: &Target,
    tile: u32,
    rows: &BTreeMap<u32, Decoded>,
) -> Result<Vec<Write>, CheckError> {
    let fail = |what: String| CheckError { tile, what };
    let d = &rows[&tile];
    let delay = target.first_write_after_mux + 2 * d.physical.row() as u32;
    // Arrivals: (write event, words, source tile, source address).
    let mut arrivals = Vec::new();
    for (i, &(from, selected)) in d.mux.iter().enumerate() {
        if selected == target.mux_neutral {
            continue;
        }
        let to = d.mux.get(i + 1).map_or(u32::MAX, |m| m.0);
        let source = Physical(selected as u16);
        let Some((&logical, s)) = rows.iter().find(|(_, r)| r.physical == source) else {
            return Err(fail(format!(
                "selects physical tile {selected} at event {from}, which has no row"
            )));
        };
        let lag = i64::from(time_to_mux(source, d.physical)) + 1;
        for stream in &s.sends {
            if stream.direction & direction(source, d.physical) == 0 {
                continue;
            }
            let first = (i64::from(stream.start) + lag).max(i64::from(from));
            let last = (i64::from(stream.start + stream.items) + lag).min(i64::from(to));
            if first < last {
                let skipped = (first - lag - i64::from(stream.start)) as u32;
                arrivals.push((
                    first as u32 + delay,
                    (last - first) as u32,
                    logical,
                    stream.address + 4 * skipped,
                ));
            }
        }
    }
    arrivals.sort_unstable();
    let mut out = Vec::new();
    let mut next = d.pointer.iter().peekable();
    let mut pointer: Option<u32> = None;
    for (mut event, mut words, source, mut source_address) in arrivals {
        while words > 0 {
            while let Some(&(_, address)) = next.next_if(|p| p.0 <= event) {
                pointer = Some(address);
            }
            let run = next.peek().map_or(words, |p| words.min(p.0 - event));
            let Some(address) = pointer else {
                return Err(fail(format!(
                    "a word is written at event {event} before any pointer is set"
                )));
            };
            out.push(Write {
                start: event,
                words: run,
                address,
                source,
                source_address,
            });
            pointer = Some(address + 4 * run);
            event += run;
            words -= run;
            source_address += 4 * run;
        }
    }
    Ok(out)
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
    let mut decoded = BTreeMap::new();
    for row in rows {
        if decoded.insert(row.tile, decode(target, row)?).is_some() {
            return Err(CheckError {
                tile: row.tile,
                what: "has two rows".to_owned(),
            });
        }
    }
    // What must arrive: (destination address, source, source address) of every word, by tile.
    let mut expected: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
    for t in transfers {
        for &(tile, address) in &t.destinations {
            let words = expected.entry(tile).or_default();
            words.extend(
                (0..t.words).map(|k| (address + 4 * k, t.source, t.source_address + 4 * k)),
            );
        }
    }
    let mut result = Checked::default();
    for (&tile, row) in &decoded {
        let fail = |what: String| CheckError { tile, what };
        let written = writes(target, tile, &decoded)?;
        for w in &written {
            if w.start + w.words + target.receive_guard > row.length {
                return Err(fail(format!(
                    "returns at event {}, its last write at {} needs {} more",
                    row.length,
                    w.start + w.words - 1,
                    target.receive_guard
                )));
            }
        }
        memory(target, row, &written).map_err(fail)?;
        let mut got: Vec<_> = written
            .iter()
            .flat_map(|w| {
                (0..w.words).map(|k| (w.address + 4 * k, w.source, w.source_address + 4 * k))
            })
            .collect();
        got.sort_unstable();
        let mut want = expected.remove(&tile).unwrap_or_default();
        want.sort_unstable();
        if got != want {
            let missing = want.iter().find(|w| got.binary_search(w).is_err());
            let stray = got.iter().find(|g| want.binary_search(g).is_err());
            return Err(fail(match (missing, stray) {
                (Some(m), _) => format!(
                    "the word for address {:#x} from tile {} address {:#x} does not arrive",
                    m.0, m.1, m.2
                ),
                (_, Some(s)) => format!(
                    "stray word from tile {} address {:#x} at address {:#x}",
                    s.1, s.2, s.0
                ),
                _ => "a word arrives twice".to_owned(),
            }));
        }
        result.words += want.len() as u64;
        result.horizon = result.horizon.max(row.length);
    }
    if let Some(&tile) = expected.keys().next() {
        return Err(CheckError {
            tile,
            what: "receives words but has no row".to_owned(),
        });
    }
    Ok(result)
}

/// Element rules of one tile.
fn memory(target: &Target, row: &Decoded, written: &[Write]) -> Result<(), String> {
    let inside = |address: u32, words: u32| {
        address.is_multiple_of(4)
            && address >= target.memory_base
            && u64::from(address) + 4 * u64::from(words) <= u64::from(target.memory_end)
    };
    for s in &row.sends {
        if !inside(s.address, s.items) {
            return Err(format!(
                "sends {} words from {:#x}, outside memory",
                s.items, s.address
            ));
        }
        if target
            .exchange_units(s.address, 4 * s.items)
            .intersects(&row.own)
        {
            return Err(format!(
                "sends from {:#x}, an element of the row itself",
                s.address
            ));
        }
    }
    for w in written {
        if !inside(w.address, w.words) {
            return Err(format!(
                "writes {} words at {:#x}, outside memory",
                w.words, w.address
            ));
        }
        let units = target.exchange_units(w.address, 4 * w.words);
        if units.intersects(&row.own) {
            return Err(format!(
                "writes at {:#x}, an element of the row itself",
                w.address
            ));
        }
        for s in &row.sends {
            let together = s.start < w.start + w.words && w.start < s.start + s.items;
            if together && units.intersects(&target.exchange_units(s.address, 4 * s.items)) {
                return Err(format!(
                    "sends from {:#x} and writes at {:#x} in one element at event {}",
                    s.address,
                    w.address,
                    s.start.max(w.start)
                ));
            }
            if s.address < w.address + 4 * w.words && w.address < s.address + 4 * s.items {
                return Err(format!(
                    "address {:#x} is sent and written in one phase",
                    s.address.max(w.address)
                ));
            }
        }
    }
    Ok(())
}
