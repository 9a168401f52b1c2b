//! Exchange words to what they do and when.

use super::{CheckError, EncodedRow, physical};
use ipu_target::Target;
use ipu_target::geometry::Physical;

/// `br $m10`, which ends a row.
const RETURN: u32 = 0x43a0_0000;

/// Items sent without a break in address or time.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub start: u32,
    pub items: u32,
    pub address: u32,
    pub direction: u8,
    /// Bytes of an item: 4, or 8 on two buses.
    pub bytes: u32,
}

impl Stream {
    pub fn end(&self) -> u32 {
        self.start + self.items
    }

    pub fn words(&self) -> u32 {
        self.items * (self.bytes / 4)
    }
}

/// A decoded row.
pub(super) struct Decoded {
    /// Logical tile.
    pub tile: u32,
    pub physical: Physical,
    /// By time.
    pub sends: Vec<Stream>,
    /// Event and value of each setting, by time.
    pub mux: Vec<(u32, u32)>,
    /// Event and byte address of each setting, by time.
    pub pointer: Vec<(u32, u32)>,
    /// Event and value of each setting of the pair's mux, by time.
    pub pair_mux: Vec<(u32, u32)>,
    /// Event and value of each setting of the incoming format, by time.
    pub format: Vec<(u32, u32)>,
    /// Events until it returns.
    pub length: u32,
    /// Bytes that its fetch touches, the end exclusive, when it has an address.
    pub own: Option<(u32, u32)>,
}

#[derive(Default)]
struct Reader {
    now: u32,
    /// Next address, direction and bytes of an item of the stream.
    stream: Option<(u32, u8, u32)>,
    sends: Vec<Stream>,
    mux: Vec<(u32, u32)>,
    pointer: Vec<(u32, u32)>,
    pair_mux: Vec<(u32, u32)>,
    format: Vec<(u32, u32)>,
    /// First events of messages: where an address is given.
    starts: Vec<u32>,
}

impl Reader {
    fn advance(&mut self, events: u32) -> Result<(), String> {
        let next = self.now.checked_add(events).filter(|&n| n < 1 << 30);
        self.now = next.ok_or("lasts longer than 2^30 events")?;
        Ok(())
    }

    /// Starts a stream at an item, with its control.
    fn begin(&mut self, item: u32, control: u32) {
        let bytes = if control & 4 == 0 { 4 } else { 8 };
        self.stream = Some((item * bytes, (control & 3) as u8, bytes));
        self.starts.push(self.now);
    }

    /// Emits items at the current event, without advancing.
    fn emit(&mut self, items: u32) -> Result<(), String> {
        let Some((address, direction, bytes)) = &mut self.stream else {
            return Err("continues a stream that was never started".to_owned());
        };
        if *direction != 0 {
            let joins = self.sends.last_mut().filter(|s| {
                s.end() == self.now
                    && s.address + s.bytes * s.items == *address
                    && (s.direction, s.bytes) == (*direction, *bytes)
            });
            match joins {
                Some(s) => s.items += items,
                None => self.sends.push(Stream {
                    start: self.now,
                    items,
                    address: *address,
                    direction: *direction,
                    bytes: *bytes,
                }),
            }
        }
        *address = address
            .checked_add(*bytes * items)
            .ok_or("sends beyond the address space")?;
        Ok(())
    }

    /// A setting of a mux: of the tile's own, or of the pair's.
    fn steer(&mut self, at: u32, pair: bool, value: u32) {
        let list = if pair {
            &mut self.pair_mux
        } else {
            &mut self.mux
        };
        list.push((at, value));
    }

    /// A setting of the incoming side: the pointer, or the format.
    fn receive(&mut self, at: u32, format: bool, value: u32) -> Result<(), String> {
        if !format {
            self.pointer.push((at, value * 4));
        } else if value > 2 {
            return Err(format!("sets format {value}, not 0, 1 or 2"));
        } else {
            self.format.push((at, value));
        }
        Ok(())
    }

    /// One word, or two for `sendpicp`; gives how many were read.
    fn word(&mut self, words: &[u32], i: usize) -> Result<usize, String> {
        let w = words[i];
        if w >> 19 == 0x0814 {
            self.advance((w & 0x7_ffff) + 1)?;
        } else if w >> 26 == 0x18 {
            self.advance((w >> 19 & 0x7f) + 1)?;
            self.receive(self.now, w >> 18 & 1 == 1, w & 0x3_ffff)?;
        } else if w >> 26 == 0x19 {
            self.advance((w >> 14 & 0xfff) + 1)?;
            self.steer(self.now, w >> 13 & 1 == 1, w & 0x1fff);
        } else if w >> 27 == 0x0f && w >> 28 == 0x7 {
            let items = (w >> 21 & 0x3f) + 1;
            self.begin(w >> 3 & 0x3_ffff, w & 7);
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 0 && w >> 3 & 0x7ff == 0 {
            let items = ((w >> 21 & 0x3f) | (w >> 14 & 0x3f) << 6) + 1;
            if let Some(s) = &mut self.stream {
                if w >> 2 & 1 != u32::from(s.2 == 8) {
                    return Err("changes the width of items within a stream".to_owned());
                }
                s.1 = (w & 3) as u8;
            }
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 1 {
            let items = (w >> 21 & 0x3f) + 1;
            let other = w >> 18 & 1 == 1;
            if w >> 19 & 1 == 0 {
                self.steer(self.now + 1, other, w & 0x1fff);
            } else {
                self.receive(self.now + 1, other, w & 0x3_ffff)?;
            }
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 28 == 0xf {
            let second = words.get(i + 1).copied().ok_or("ends within a sendpicp")?;
            if !i.is_multiple_of(2) {
                return Err("sets two controls at an odd word".to_owned());
            }
            let items = (w >> 21 & 0x3f) + 1;
            self.steer(self.now + 1, second >> 31 != 0, second >> 18 & 0x1fff);
            self.receive(self.now + 1, w >> 27 & 1 == 1, second & 0x3_ffff)?;
            if w & 3 != 0 {
                self.begin(w >> 3 & 0x3_ffff, w & 7);
                self.emit(items)?;
            }
            self.advance(items)?;
            return Ok(2);
        } else {
            return Err(format!("({w:#010x}) is not an exchange instruction"));
        }
        Ok(1)
    }
}

pub(super) fn decode(target: &Target, row: &EncodedRow) -> Result<Decoded, CheckError> {
    let fail = |what: String| CheckError {
        tile: row.tile,
        what,
    };
    if row.tile >= target.tiles {
        return Err(fail(format!("the chip has {} tiles", target.tiles)));
    }
    let bytes = 4 * row.words.len() as u64 + u64::from(target.fetch_lookahead_bytes);
    let mut own = None;
    if let Some(address) = row.address {
        if !address.is_multiple_of(8) {
            return Err(fail(format!("starts at {address:#x}, not 8-byte aligned")));
        }
        let end = u64::from(address) + bytes;
        if address < target.memory_base || end > u64::from(target.region1_base) {
            return Err(fail(format!(
                "{} words at {address:#x} and what is fetched ahead are not in executable memory",
                row.words.len(),
            )));
        }
        own = Some((address, end as u32));
    }
    let mut reader = Reader::default();
    let mut i = 0;
    while i < row.words.len() && row.words[i] != RETURN {
        let read = reader
            .word(&row.words, i)
            .map_err(|what| fail(format!("word {i} {what}")))?;
        i += read;
    }
    if i + 1 != row.words.len() {
        return Err(fail("does not end with its only return".to_owned()));
    }
    // Rule of the public builder: the first word of a message carries its address.
    let closed = |e: u32| {
        let next = reader.starts.partition_point(|&s| s <= e);
        next > 0 && e < reader.starts[next - 1] + 2
    };
    let kinds = [
        ("mux", &reader.mux),
        ("pointer", &reader.pointer),
        ("pair's mux", &reader.pair_mux),
        ("format", &reader.format),
    ];
    for (what, events) in kinds {
        if let Some(pair) = events.windows(2).find(|p| p[0].0 >= p[1].0) {
            return Err(fail(format!(
                "sets the {what} twice at event {}",
                pair[0].0
            )));
        }
        if let Some(e) = events.iter().find(|e| closed(e.0)) {
            return Err(fail(format!(
                "sets the {what} at event {}, in the first two of a message",
                e.0
            )));
        }
    }
    for (what, events, neutral) in [
        ("mux", &reader.mux, target.mux_neutral),
        ("pair's mux", &reader.pair_mux, target.mux_neutral),
        ("format", &reader.format, 0),
    ] {
        if let Some(&(at, last)) = events.last()
            && last != neutral
        {
            return Err(fail(format!(
                "leaves the {what} at {last:#x} (set at event {at}), not neutral"
            )));
        }
    }
    // What a 64-bit message sets stands alone at its event.
    let alone = reader.pair_mux.iter().chain(&reader.format);
    for &(at, _) in alone {
        let there = |(_, list): &&(&str, &Vec<(u32, u32)>)| {
            list.binary_search_by_key(&at, |s: &(u32, u32)| s.0).is_ok()
        };
        if kinds.iter().filter(there).count() > 1 {
            return Err(fail(format!(
                "sets something else at event {at}, where a 64-bit message sets the pair's mux or \
                 the format"
            )));
        }
    }
    short(target, &reader).map_err(fail)?;
    Ok(Decoded {
        tile: row.tile,
        physical: physical(row.tile),
        sends: reader.sends,
        mux: reader.mux,
        pointer: reader.pointer,
        pair_mux: reader.pair_mux,
        format: reader.format,
        length: reader.now,
        own,
    })
}

/// Messages of 64-bit items have a least length.
fn short(target: &Target, reader: &Reader) -> Result<(), String> {
    for s in reader.sends.iter().filter(|s| s.bytes == 8) {
        let first = reader.starts.partition_point(|&at| at <= s.start);
        let behind = reader.starts[first..].iter().copied();
        let behind = behind.take_while(|&at| at < s.end());
        let mut start = s.start;
        for next in behind.chain([s.end()]) {
            if next - start < target.min_wide_items {
                return Err(format!(
                    "sends {} 64-bit items at event {start}, a message has at least {}",
                    next - start,
                    target.min_wide_items
                ));
            }
            start = next;
        }
    }
    Ok(())
}
