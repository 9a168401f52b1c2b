//! Phases that are equal but for buffers and addresses are scheduled once.
//!
//! The schedule of a phase without addresses depends on its tiles, on the words of its transfers
//! and on which of them continue or overlap each other; not on which buffers they are, nor where
//! in them they lie. So a phase is first brought into a canonical form: buffers are numbered by
//! first appearance, and on each tile the offsets in each buffer count from the least one that the
//! phase uses there. Where a transfer goes to both tiles of a pair they count from the same one, a
//! multiple of 8, so that 64-bit items remain what they are. That form is scheduled, and the events are moved back. Layers of a network
//! with equal shapes, and the candidates of one compilation, share most of their forms.
//!
//! What is found depends on the form alone, so that results do not depend on what was asked before
//! or on which thread asked first.

use ipu_exchange::schedule::{Memory, Options, ScheduleError, Scheduled, schedule_with};
use ipu_program::tile::{BufferId, Copy, Event, Row, Schedule, Transfer};
use ipu_target::Target;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most words of forms that are remembered; beyond, everything is forgotten.
const MAX_WORDS: usize = 1 << 24;

/// A phase in canonical form, and the way back.
pub struct Canonical {
    copies: Vec<Copy>,
    buffers: Vec<BufferId>,
    bases: Bases,
}

/// Where the offsets of a form count from: the least that is used in a buffer on a tile; for
/// pairs the last pair of words at or before the least on either tile.
struct Bases {
    pairs: bool,
    least: HashMap<(BufferId, u32), u32>,
}

impl Bases {
    fn of(copies: &[Copy]) -> Bases {
        let to_pair = |t: &Transfer| {
            let mut pairs: Vec<u32> = t.destinations.iter().map(|d| d.0 / 2).collect();
            pairs.sort_unstable();
            pairs.windows(2).any(|p| p[0] == p[1])
        };
        let mut bases = Bases {
            pairs: copies.iter().flat_map(|c| &c.transfers).any(to_pair),
            least: HashMap::new(),
        };
        for c in copies {
            for t in &c.transfers {
                bases.note(c.source, t.source, t.source_offset);
                for &(tile, offset) in &t.destinations {
                    bases.note(c.destination, tile, offset);
                }
            }
        }
        bases
    }

    fn key(&self, buffer: BufferId, tile: u32) -> (BufferId, u32) {
        (buffer, if self.pairs { tile / 2 } else { tile })
    }

    fn note(&mut self, buffer: BufferId, tile: u32, offset: u32) {
        let offset = if self.pairs { offset & !7 } else { offset };
        let base = self.least.entry(self.key(buffer, tile));
        let base = base.or_insert(offset);
        *base = (*base).min(offset);
    }

    fn get(&self, buffer: BufferId, tile: u32) -> u32 {
        self.least
            .get(&self.key(buffer, tile))
            .copied()
            .unwrap_or(0)
    }
}

/// What identifies a form.
pub type Key = Vec<u32>;

/// Buffers are 8-byte aligned, which placement sees to, so that 64-bit items may be used.
const OPTIONS: Options = Options {
    memory: Memory::Symbolic,
    row_words: None,
    wide: true,
};

impl Canonical {
    /// The canonical form of a phase.
    pub fn of(copies: &[Copy]) -> Canonical {
        let mut numbers: BTreeMap<BufferId, BufferId> = BTreeMap::new();
        let mut buffers = Vec::new();
        let mut number = |id: BufferId| {
            *numbers.entry(id).or_insert_with(|| {
                buffers.push(id);
                BufferId(buffers.len() as u32 - 1)
            })
        };
        let mut renamed: Vec<Copy> = copies
            .iter()
            .map(|c| Copy {
                source: number(c.source),
                destination: number(c.destination),
                transfers: c.transfers.clone(),
            })
            .collect();
        let bases = Bases::of(&renamed);
        for c in &mut renamed {
            let (from, to) = (c.source, c.destination);
            for Transfer {
                source,
                source_offset,
                destinations,
                ..
            } in &mut c.transfers
            {
                *source_offset -= bases.get(from, *source);
                for (tile, offset) in destinations {
                    *offset -= bases.get(to, *tile);
                }
            }
        }
        Canonical {
            copies: renamed,
            buffers,
            bases,
        }
    }

    /// What identifies the form: everything that it consists of.
    pub fn key(&self) -> Key {
        let mut key = vec![self.copies.len() as u32];
        for c in &self.copies {
            key.extend([c.source.0, c.destination.0, c.transfers.len() as u32]);
            for t in &c.transfers {
                key.extend([t.source, t.source_offset, t.words]);
                key.push(t.destinations.len() as u32);
                key.extend(t.destinations.iter().flat_map(|&(tile, o)| [tile, o]));
            }
        }
        key
    }

    /// A schedule of the form as one of the phase.
    fn back(&self, schedule: &Schedule) -> Schedule {
        let place = |tile: u32, buffer: BufferId, offset: u32| {
            let base = self.bases.get(buffer, tile);
            let known = self.buffers.get(buffer.0 as usize).copied();
            (known.unwrap_or(buffer), base + offset)
        };
        let event = |tile: u32, event: &Event| {
            let mut event = *event;
            match &mut event {
                Event::Send { buffer, offset, .. } | Event::Pointer { buffer, offset, .. } => {
                    (*buffer, *offset) = place(tile, *buffer, *offset);
                }
                Event::Mux { .. } | Event::PairMux { .. } | Event::Format { .. } => {}
            }
            event
        };
        Schedule {
            rows: schedule
                .rows
                .iter()
                .map(|r| Row {
                    tile: r.tile,
                    horizon: r.horizon,
                    events: r.events.iter().map(|e| event(r.tile, e)).collect(),
                })
                .collect(),
            ..schedule.clone()
        }
    }
}

/// A schedule that is found once, whoever asks first.
type Slot = Arc<OnceLock<Option<Scheduled>>>;

#[derive(Default)]
struct Known {
    slots: HashMap<Key, Slot>,
    words: usize,
}

/// Remembers schedules of canonical forms.
#[derive(Default)]
pub struct Cache {
    known: Mutex<Known>,
}

impl Cache {
    /// The cache of this process, for all candidates.
    pub fn shared() -> &'static Cache {
        static SHARED: OnceLock<Cache> = OnceLock::new();
        SHARED.get_or_init(Cache::default)
    }

    fn slot(&self, key: Key) -> Slot {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known.slots.get(&key) {
            return slot.clone();
        }
        if known.words + key.len() > MAX_WORDS {
            *known = Known::default();
        }
        known.words += key.len();
        known.slots.entry(key).or_default().clone()
    }

    /// Schedules a phase, or takes the schedule of one with the same form.
    ///
    /// # Errors
    /// As [`schedule_with`].
    pub fn schedule(&self, target: &Target, copies: &[Copy]) -> Result<Scheduled, ScheduleError> {
        let alone = || schedule_with(target, copies, OPTIONS);
        // A form loses what would be wrong with the offsets.
        if !plain(copies) {
            return alone();
        }
        let form = Canonical::of(copies);
        let slot = self.slot(form.key());
        let find = || schedule_with(target, &form.copies, OPTIONS).ok();
        match slot.get_or_init(find) {
            Some(found) => Ok(Scheduled {
                schedule: form.back(&found.schedule),
                certificate: found.certificate.clone(),
            }),
            // The message is about the offsets of the phase.
            None => alone(),
        }
    }

    /// Forms that are remembered.
    #[cfg(test)]
    fn forms(&self) -> usize {
        self.known.lock().unwrap().slots.len()
    }
}

/// Whether all offsets are those of words in 32 bits.
fn plain(copies: &[Copy]) -> bool {
    let good = |offset: u32, words: u32| {
        offset.is_multiple_of(4) && u64::from(offset) + 4 * u64::from(words) <= u32::MAX.into()
    };
    copies.iter().flat_map(|c| &c.transfers).all(|t| {
        good(t.source_offset, t.words) && t.destinations.iter().all(|d| good(d.1, t.words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_exchange::schedule::schedule;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// Two buffers to two others: `(from, source, words, to, destinations)`, with offsets of
    /// buffers and tiles that are moved by `shift`.
    fn phase(list: &[(u32, u32, u32, u32, u32)], ids: [u32; 4], shift: u32) -> Vec<Copy> {
        let mut next: HashMap<(u32, u32), u32> = HashMap::new();
        let mut place = |buffer: u32, tile: u32, words: u32| {
            let at = next
                .entry((buffer, tile))
                .or_insert(shift * (1 + buffer + tile));
            *at += 4 * words;
            *at - 4 * words
        };
        let mut copies: Vec<Copy> = (0..4)
            .map(|i| Copy {
                source: BufferId(ids[i / 2]),
                destination: BufferId(ids[2 + i % 2]),
                transfers: Vec::new(),
            })
            .collect();
        for &(from, source, words, to, destination) in list {
            let source_offset = place(from, source, words);
            copies[(2 * from + to) as usize].transfers.push(Transfer {
                source,
                source_offset,
                words,
                destinations: vec![(destination, place(2 + to, destination, words))],
            });
        }
        copies
    }

    fn list() -> impl Strategy<Value = Vec<(u32, u32, u32, u32, u32)>> {
        let one = (0u32..2, 0u32..4, 1u32..9, 0u32..2, 1u32..4)
            .prop_map(|(from, s, words, to, d)| (from, s, words, to, (s + d) % 4));
        prop::collection::vec(one, 1..12)
    }

    proptest! {
        #[test]
        fn a_form_is_scheduled_once_and_as_the_phase_itself(list in list(), shift in 0u32..9) {
            let target = Target::ipu21();
            let cache = Cache::default();
            let first = phase(&list, [0, 1, 2, 3], 0);
            let moved = phase(&list, [7, 5, 6, 4], 4 * shift);
            let a = cache.schedule(target, &first).unwrap();
            let b = cache.schedule(target, &moved).unwrap();
            prop_assert_eq!(cache.forms(), 1);
            prop_assert_eq!(&a.certificate, &b.certificate);
            prop_assert_eq!(a.schedule, schedule(target, &first).unwrap());
            prop_assert_eq!(b.schedule, schedule(target, &moved).unwrap());
        }
    }

    #[test]
    fn pairs_stay_pairs_in_a_form() {
        let target = Target::ipu21();
        let cache = Cache::default();
        let to_pair = |from: u32, at: u32| {
            vec![Copy {
                source: BufferId(4),
                destination: BufferId(9),
                transfers: vec![Transfer {
                    source: 0,
                    source_offset: from,
                    words: 256,
                    destinations: vec![(46, at), (47, at)],
                }],
            }]
        };
        let wide = |copies: &[Copy]| {
            let found = cache.schedule(target, copies).unwrap();
            found.certificate.construction.contains("64-bit")
        };
        assert!(wide(&to_pair(0, 0)));
        assert!(wide(&to_pair(24, 4096)));
        assert_eq!(cache.forms(), 1);
        // No 64-bit item starts at an odd word.
        assert!(!wide(&to_pair(4, 0)));
        assert!(!wide(&to_pair(0, 4)));
        let mut apart = to_pair(0, 0);
        apart[0].transfers[0].destinations[1].1 = 8;
        assert!(!wide(&apart));
    }

    #[test]
    fn errors_speak_of_the_phase() {
        let target = Target::ipu21();
        let cache = Cache::default();
        let mut odd = phase(&[(0, 0, 2, 0, 1)], [0, 1, 2, 3], 0);
        odd[0].transfers[0].source_offset = 6;
        let expected = schedule(target, &odd).unwrap_err();
        assert_eq!(cache.schedule(target, &odd).unwrap_err(), expected);
        let mut far = phase(&[(0, 0, 2, 0, 1)], [0, 1, 2, 3], 64);
        far[0].transfers[0].source = 1472;
        let expected = schedule(target, &far).unwrap_err();
        assert_eq!(cache.schedule(target, &far).unwrap_err(), expected);
    }
}
