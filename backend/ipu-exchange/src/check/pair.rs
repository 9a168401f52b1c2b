//! What 64-bit items demand of the other tile of a pair.

use super::decode::Decoded;
use super::{CheckError, Write};
use ipu_target::Target;
use std::collections::HashMap;

/// An interval of events.
type Span = (u32, u32);

/// What is known of the tiles whose pairs take part in 64-bit messages.
pub(super) struct Pairs {
    /// When the bus of a tile is borrowed by its partner, by time.
    borrowed: HashMap<u32, Vec<Span>>,
    /// 64-bit writes of the even tiles: event, words, address.
    even: HashMap<u32, Vec<(u32, u32, u32)>>,
}

impl Pairs {
    pub fn new(rows: &[Decoded]) -> Self {
        let mut borrowed: HashMap<u32, Vec<Span>> = HashMap::new();
        for d in rows {
            let wide = d.sends.iter().filter(|s| s.bytes == 8);
            let spans: Vec<Span> = wide.map(|s| (s.start, s.end())).collect();
            if !spans.is_empty() {
                // The tiles of a pair have adjacent logical numbers.
                borrowed.insert(d.tile ^ 1, spans);
            }
        }
        Pairs {
            borrowed,
            even: HashMap::new(),
        }
    }

    /// Checks a tile, in the order of tiles, by what it sends and writes.
    pub fn note(
        &mut self,
        target: &Target,
        d: &Decoded,
        written: &[Write],
    ) -> Result<(), CheckError> {
        let fail = |what: String| CheckError { tile: d.tile, what };
        if let Some(spans) = self.borrowed.get(&d.tile) {
            let delay = target.first_write_after_mux + 2 * d.physical.row() as u32;
            let sends = d.sends.iter().map(|s| ("sends", s.start, s.end()));
            // A receive lasts from the mux to the end of the row that it needs.
            let receives = written.iter().map(|w| {
                let mux = w.start - delay - u32::from(w.width == 2);
                ("receives", mux, w.end() + target.receive_guard)
            });
            for (verb, from, to) in sends.chain(receives) {
                let next = spans.partition_point(|s| s.1 <= from);
                if let Some(span) = spans.get(next).filter(|s| s.0 < to) {
                    return Err(fail(format!(
                        "{verb} from event {from} to {to}, while its partner has its bus from {} \
                         to {}",
                        span.0, span.1
                    )));
                }
            }
        }
        let wide = written.iter().filter(|w| w.width == 2);
        let wide: Vec<(u32, u32, u32)> = wide.map(|w| (w.start, w.words, w.address)).collect();
        if d.tile.is_multiple_of(2) {
            self.even.insert(d.tile, wide);
            return Ok(());
        }
        let even = self.even.remove(&(d.tile ^ 1)).unwrap_or_default();
        if even != wide {
            return Err(fail(
                "writes 64-bit items at other events or addresses than its partner".to_owned(),
            ));
        }
        Ok(())
    }

    /// Checks, when all tiles are noted, that no pair lacks its odd tile.
    pub fn finish(&self) -> Result<(), CheckError> {
        let lacking = self.even.iter().filter(|(_, list)| !list.is_empty());
        match lacking.map(|(&tile, _)| tile).min() {
            Some(tile) => Err(CheckError {
                tile,
                what: "writes 64-bit items, and its partner has no row".to_owned(),
            }),
            None => Ok(()),
        }
    }
}
