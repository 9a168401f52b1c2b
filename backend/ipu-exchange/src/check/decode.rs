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
    /// Events until it returns.
    pub length: u32,
    /// Bytes that its fetch touches, the end exclusive, when it has an address.
    pub own: Option<(u32, u32)>,
}

#[derive(Default)]
struct Reader {
    now: u32,
    /// Next address and direction of the stream.
    stream: Option<(u32, u8)>,
    sends: Vec<Stream>,
    mux: Vec<(u32, u32)>,
    pointer: Vec<(u32, u32)>,
    /// First events of messages: where an address is given.
    starts: Vec<u32>,
}

impl Reader {
    fn advance(&mut self, events: u32) -> Result<(), String> {
        let next = self.now.checked_add(events).filter(|&n| n < 1 << 30);
        self.now = next.ok_or("lasts longer than 2^30 events")?;
        Ok(())
    }

    fn begin(&mut self, address: u32, direction: u8) {
        self.stream = Some((address, direction));
        self.starts.push(self.now);
    }

    /// Emits items at the current event, without advancing.
    fn emit(&mut self, items: u32) -> Result<(), String> {
        let Some((address, direction)) = &mut self.stream else {
            return Err("continues a stream that was never started".to_owned());
        };
        if *direction != 0 {
            let joins = self.sends.last_mut().filter(|s| {
                s.start + s.items == self.now
                    && s.address + 4 * s.items == *address
                    && s.direction == *direction
            });
            match joins {
                Some(s) => s.items += items,
                None => self.sends.push(Stream {
                    start: self.now,
                    items,
                    address: *address,
                    direction: *direction,
                }),
            }
        }
        *address = address
            .checked_add(4 * items)
            .ok_or("sends beyond the address space")?;
        Ok(())
    }

    /// One word, or two for `sendpicp`; gives how many were read.
    fn word(&mut self, words: &[u32], i: usize) -> Result<usize, String> {
        let w = words[i];
        if w >> 19 == 0x0814 {
            self.advance((w & 0x7_ffff) + 1)?;
        } else if w >> 26 == 0x18 && w >> 18 & 1 == 0 {
            self.advance((w >> 19 & 0x7f) + 1)?;
            self.pointer.push((self.now, (w & 0x3_ffff) * 4));
        } else if w >> 26 == 0x19 && w >> 13 & 1 == 0 {
            self.advance((w >> 14 & 0xfff) + 1)?;
            self.mux.push((self.now, w & 0x1fff));
        } else if w >> 27 == 0x0f && w & 4 == 0 && w >> 28 == 0x7 {
            let items = (w >> 21 & 0x3f) + 1;
            self.begin((w >> 3 & 0x3_ffff) * 4, (w & 3) as u8);
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 0 && w & 4 == 0 && w >> 3 & 0x7ff == 0 {
            let items = ((w >> 21 & 0x3f) | (w >> 14 & 0x3f) << 6) + 1;
            if let Some(s) = &mut self.stream {
                s.1 = (w & 3) as u8;
            }
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 27 == 0x0e && w >> 20 & 1 == 1 && w >> 18 & 1 == 0 {
            let items = (w >> 21 & 0x3f) + 1;
            if w >> 19 & 1 == 0 {
                self.mux.push((self.now + 1, w & 0x1fff));
            } else {
                self.pointer.push((self.now + 1, (w & 0x3_ffff) * 4));
            }
            self.emit(items)?;
            self.advance(items)?;
        } else if w >> 28 == 0xf && w >> 27 & 1 == 0 && w & 4 == 0 {
            let second = words.get(i + 1).copied().ok_or("ends within a sendpicp")?;
            if !i.is_multiple_of(2) {
                return Err("sets two controls at an odd word".to_owned());
            }
            if second >> 31 != 0 {
                return Err("addresses the paired mux".to_owned());
            }
            let items = (w >> 21 & 0x3f) + 1;
            self.mux.push((self.now + 1, second >> 18 & 0x1fff));
            self.pointer.push((self.now + 1, (second & 0x3_ffff) * 4));
            if w & 3 != 0 {
                self.begin((w >> 3 & 0x3_ffff) * 4, (w & 3) as u8);
                self.emit(items)?;
            }
            self.advance(items)?;
            return Ok(2);
        } else {
            return Err(format!("({w:#010x}) is not a 32-bit exchange instruction"));
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
    for (what, events) in [("mux", &reader.mux), ("pointer", &reader.pointer)] {
        if let Some(pair) = events.windows(2).find(|p| p[0].0 >= p[1].0) {
            return Err(fail(format!(
                "sets the {what} twice at event {}",
                pair[0].0
            )));
        }
        // Rule of the public builder: the first word of a message carries its address.
        let closed = |e: u32| {
            let next = reader.starts.partition_point(|&s| s <= e);
            next > 0 && e < reader.starts[next - 1] + 2
        };
        if let Some(e) = events.iter().find(|e| closed(e.0)) {
            return Err(fail(format!(
                "sets the {what} at event {}, in the first two of a message",
                e.0
            )));
        }
    }
    if let Some(&(at, last)) = reader.mux.last()
        && last != target.mux_neutral
    {
        return Err(fail(format!(
            "leaves the mux at {last:#x} (set at event {at}), not neutral"
        )));
    }
    Ok(Decoded {
        tile: row.tile,
        physical: physical(row.tile),
        sends: reader.sends,
        mux: reader.mux,
        pointer: reader.pointer,
        length: reader.now,
        own,
    })
}
