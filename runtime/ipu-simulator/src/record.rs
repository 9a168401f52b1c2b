//! When the supervisor of a tile passes given places: what a profile is made of.
//!
//! A recording changes neither results nor clocks. It has at most one entry a place and, of arrivals
//! at syncs, at most [`MAX_ARRIVALS`], so that its size is bounded by what was asked for.

/// Most arrivals at syncs that are kept of a tile.
pub const MAX_ARRIVALS: usize = 1 << 16;

/// The supervisor came to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Number of the place.
    pub place: u32,
    /// Clock at which the instruction there was first tried.
    pub cycle: u64,
    /// AMP instructions of the tile up to there.
    pub amp: u64,
}

/// What was recorded of a tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Places that were passed, in order.
    pub passages: Vec<Passage>,
    /// Clocks of arrivals at syncs of tiles and the host, in order.
    pub arrivals: Vec<u64>,
}

/// Watches the supervisor of a tile.
pub(crate) struct Recorder {
    /// Addresses, ascending, with the numbers of their places.
    places: Vec<(u32, u32)>,
    /// The next one.
    next: usize,
    recording: Recording,
}

impl Recorder {
    /// Watches for places in ascending order. Of several at one address, which take no instruction,
    /// the last counts.
    pub(crate) fn new(addresses: &[u32]) -> Recorder {
        let mut places: Vec<(u32, u32)> = Vec::new();
        for (number, &address) in (0..).zip(addresses) {
            match places.last_mut() {
                Some(last) if last.0 == address => last.1 = number,
                _ => places.push((address, number)),
            }
        }
        Recorder {
            places,
            next: 0,
            recording: Recording::default(),
        }
    }

    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The supervisor is about to try the instruction at an address.
    pub(crate) fn at(&mut self, pc: u32, cycle: u64, amp: u64) {
        let Some(&(address, place)) = self.places.get(self.next) else {
            return;
        };
        if address == pc {
            self.next += 1;
            self.recording.passages.push(Passage { place, cycle, amp });
        }
    }

    /// The supervisor came to a sync of tiles or the host.
    pub(crate) fn arrived(&mut self, cycle: u64) {
        if self.recording.arrivals.len() < MAX_ARRIVALS {
            self.recording.arrivals.push(cycle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_passed_once_and_in_order() {
        let mut recorder = Recorder::new(&[8, 16, 16, 24]);
        for (cycle, pc) in [(1, 16), (2, 8), (3, 8), (4, 12), (5, 16), (9, 24), (10, 8)] {
            recorder.at(pc, cycle, 2 * cycle);
        }
        let passages = recorder.recording().passages.iter();
        let found: Vec<_> = passages.map(|p| (p.place, p.cycle, p.amp)).collect();
        assert_eq!(found, [(0, 2, 4), (2, 5, 10), (3, 9, 18)]);
    }
}
