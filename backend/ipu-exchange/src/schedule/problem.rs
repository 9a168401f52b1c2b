//! The transfers of a phase as messages between ports, with everything resolved that does not
//! depend on time.

use super::{Memory, ScheduleError, Side};
use ipu_program::tile::{BufferId, Copy, Transfer, WIDE};
use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};
use std::collections::{BTreeSet, HashMap};

/// Longest message that is scheduled as one, in words; the hardware's limit is 4,148.
pub(super) const MAX_MESSAGE: u32 = 4096;

/// Most words that all tiles together send: one after the other they take as many events, and
/// events are counted in 32 bits.
const MAX_WORDS: u64 = 1 << 30;

/// A tile that takes part.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// Logical number.
    pub logical: u32,
    /// Events from a mux setting to the write of the word that it selects.
    pub write_delay: u32,
    /// Events for which it sends.
    pub sent: u32,
    /// Events for which it receives.
    pub received: u32,
    /// Events for which it sends at least, however wide the items are.
    pub least_sent: u32,
    /// Events for which it receives at least.
    pub least_received: u32,
    /// Words that it sends at least: what the buses of its pair carry.
    pub least_words: u32,
}

/// Which messages are sent as 64-bit items: what goes to both tiles of a pair at one address, in
/// pairs of words, takes half as many events, and the bus of the sender's partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// None.
    Narrow,
    /// Those of which nobody else wants a word, so that nothing is sent twice.
    Free,
    /// All that can be.
    Wide,
}

/// One end of a message that receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// Index of the port.
    pub tile: u32,
    /// Events from the start of the send to the start of the mux window. For 64-bit items that of
    /// the later tile of the pair, on both: then both write at one time.
    pub lag: i32,
    /// Incoming format of 64-bit items, 0 for words.
    pub format: u8,
    /// Whether it is the earlier tile of a pair, which sets the mux of both.
    pub steers: bool,
    /// Buffer written.
    pub buffer: BufferId,
    /// Byte offset in it.
    pub offset: u32,
    /// Shared memory elements that it writes: a range of [`Problem::slots`].
    pub slots: (u32, u32),
}

/// A piece of a transfer that is sent at one go.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Index of the sending port.
    pub source: u32,
    /// Words.
    pub words: u32,
    /// Events that they take.
    pub events: u32,
    /// Buffer read.
    pub buffer: BufferId,
    /// Byte offset in it.
    pub offset: u32,
    /// Fabric directions driven, and the width of items.
    pub direction: u8,
    /// Index of the port whose bus is borrowed for 64-bit items.
    pub partner: Option<u32>,
    /// Whether another message sends the same words too: one of them could do.
    pub repeated: bool,
    /// Its receivers: a range of [`Problem::receivers`].
    pub receivers: (u32, u32),
    /// Shared memory elements that it reads: a range of [`Problem::slots`].
    pub slots: (u32, u32),
    /// Earliest start on an empty chip: no mux is set before event 1.
    pub earliest: u32,
    /// The message whose words stand before its own in memory, and the one whose words stand
    /// behind: sent without a gap they need one address.
    pub before: Option<u32>,
    pub behind: Option<u32>,
}

/// A phase ready to be scheduled.
pub(super) struct Problem {
    pub ports: Vec<Port>,
    pub messages: Vec<Message>,
    pub receivers: Vec<Receiver>,
    /// Indices of elements that a tile both reads and writes in this phase.
    pub slots: Vec<u32>,
    /// Number of such elements.
    pub slot_count: u32,
    /// For each message those that must be complete before it starts; empty without dependences.
    pub after: Vec<Vec<u32>>,
    /// Most events for which one element of one tile moves words, with the tile's index and the element's
    /// first byte; known with absolute addresses only.
    pub element: Option<(u32, u32, u32)>,
    /// Transfers given.
    pub transfers: u32,
    /// Words that they deliver.
    pub delivered: u64,
    /// Whether any message has 64-bit items.
    pub wide: bool,
    /// Guard and shortest row of a sender.
    pub guard: u32,
    pub min_sender_row: u32,
}

impl Problem {
    pub fn receivers(&self, m: &Message) -> &[Receiver] {
        &self.receivers[m.receivers.0 as usize..m.receivers.1 as usize]
    }

    pub fn slots(&self, range: (u32, u32)) -> &[u32] {
        &self.slots[range.0 as usize..range.1 as usize]
    }
}

/// A transfer with its buffers; `index` is its place in the list given.
#[derive(Clone)]
struct Piece {
    index: u32,
    source: u32,
    from: BufferId,
    offset: u32,
    words: u32,
    to: BufferId,
    destinations: Vec<(u32, u32)>,
}

/// A byte range of a tile's buffer that a transfer reads or writes.
#[derive(Clone, Copy)]
struct Access {
    start: u32,
    end: u32,
    write: bool,
    index: u32,
}

fn valid(target: &Target, memory: Memory, index: u32, t: &Transfer) -> Result<(), ScheduleError> {
    for tile in t.destinations.iter().map(|d| d.0).chain([t.source]) {
        if tile >= target.tiles {
            return Err(ScheduleError::Tile {
                transfer: index,
                tile,
                tiles: target.tiles,
            });
        }
    }
    let mut named: Vec<u32> = t.destinations.iter().map(|d| d.0).collect();
    named.sort_unstable();
    if named.is_empty()
        || named.binary_search(&t.source).is_ok()
        || named.windows(2).any(|w| w[0] == w[1])
    {
        return Err(ScheduleError::Destinations {
            transfer: index,
            tile: t.source,
        });
    }
    let sides = t.destinations.iter().map(|&(tile, o)| (tile, o));
    for (tile, offset) in sides.chain([(t.source, t.source_offset)]) {
        let end = u64::from(offset) + 4 * u64::from(t.words);
        let outside = match memory {
            Memory::Symbolic => end > u64::from(u32::MAX),
            Memory::Absolute => offset < target.memory_base || end > u64::from(target.memory_end),
        };
        if offset % 4 != 0 || t.words == 0 || outside {
            return Err(ScheduleError::Words {
                transfer: index,
                tile,
                words: t.words,
                offset,
            });
        }
    }
    Ok(())
}

/// Joins pieces of one source to the same destinations that continue each other on all sides.
fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    type Key = (u32, BufferId, u32, BufferId, u32, u32);
    // Keyed by where a piece would have to start to continue one: source side and first receiver.
    let mut ends: HashMap<Key, usize> = HashMap::new();
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| (pieces[i].source, pieces[i].from, pieces[i].offset, i));
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for i in order {
        let p = &pieces[i];
        let Some(&(tile, offset)) = p.destinations.first() else {
            continue;
        };
        let key = (p.source, p.from, p.offset, p.to, tile, offset);
        let end = |q: &Piece| {
            let bytes = 4 * q.words;
            let (tile, offset) = q.destinations[0];
            (
                q.source,
                q.from,
                q.offset + bytes,
                q.to,
                tile,
                offset.wrapping_add(bytes),
            )
        };
        let continued = ends.get(&key).copied().filter(|&j| {
            let q: &Piece = &joined[j];
            q.destinations.len() == p.destinations.len()
                && q.destinations
                    .iter()
                    .zip(&p.destinations)
                    .all(|(a, b)| a.0 == b.0 && a.1 + 4 * q.words == b.1)
        });
        match continued {
            Some(j) => {
                ends.remove(&key);
                joined[j].words += p.words;
                joined[j].index = joined[j].index.min(p.index);
                ends.insert(end(&joined[j]), j);
            }
            None => {
                ends.insert(end(p), joined.len());
                joined.push(p.clone());
            }
        }
    }
    joined.sort_by_key(|p| p.index);
    joined
}

/// Pairs of transfers of which the second must wait for the first: one reads or writes what the
/// other writes on one tile.
fn dependences(pieces: &[Piece]) -> Result<Vec<Vec<u32>>, ScheduleError> {
    let mut accesses: Vec<((u32, BufferId), Access)> = Vec::new();
    for (k, p) in pieces.iter().enumerate() {
        let index = k as u32;
        let access = |offset: u32, write: bool| Access {
            start: offset,
            end: offset + 4 * p.words,
            write,
            index,
        };
        accesses.push(((p.source, p.from), access(p.offset, false)));
        let to = p.destinations.iter();
        accesses.extend(to.map(|&(tile, offset)| ((tile, p.to), access(offset, true))));
    }
    accesses.sort_unstable_by_key(|(space, a)| (*space, a.start, a.index));
    let mut pairs: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut writers: Vec<(u32, u32, u32, u32)> = Vec::new();
    for list in accesses.chunk_by(|a, b| a.0 == b.0) {
        let tile = list[0].0.0;
        if !list.iter().any(|(_, a)| a.write) {
            continue;
        }
        // Accesses that reach beyond the start of the current one, reads and writes apart: reads
        // may lie on each other in any number and do not matter to each other.
        let (mut reads, mut writes): (Vec<Access>, Vec<Access>) = (Vec::new(), Vec::new());
        for &(_, a) in list {
            writes.retain(|b| b.end > a.start);
            if a.write {
                reads.retain(|b| b.end > a.start);
            }
            let hit = writes.iter().chain(reads.iter().filter(|_| a.write));
            for b in hit.filter(|b| b.index != a.index) {
                let (first, second) = (a.index.min(b.index), a.index.max(b.index));
                if a.write && b.write {
                    writers.push((first, second, tile, a.start));
                } else {
                    pairs.insert((first, second));
                }
            }
            if a.write {
                writes.push(a);
            } else {
                reads.push(a);
            }
        }
    }
    if pairs.is_empty() && writers.is_empty() {
        return Ok(Vec::new());
    }
    let mut after = vec![Vec::new(); pieces.len()];
    for (first, second) in pairs {
        after[second as usize].push(first);
    }
    for (first, second, tile, offset) in writers {
        if !reaches(&after, second, first) {
            return Err(ScheduleError::TwoWriters {
                first: pieces[first as usize].index,
                second: pieces[second as usize].index,
                tile,
                offset,
            });
        }
    }
    Ok(after)
}

/// Whether `to` must be complete before `from` starts; edges lead to lower numbers.
fn reaches(after: &[Vec<u32>], from: u32, to: u32) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(i) = open.pop() {
        if i == to {
            return true;
        }
        if i > to && seen.insert(i) {
            open.extend(&after[i as usize]);
        }
    }
    false
}

/// How multicasts are cut into several messages, so that fewer receivers have to be free at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Most parts of a multicast.
    pub parts: u32,
    /// Most events that a tile may send for it.
    pub words: u32,
}

/// Checks the copies and makes messages of them.
pub(super) fn prepare(
    target: &Target,
    copies: &[Copy],
    memory: Memory,
    split: Split,
    width: Width,
) -> Result<Problem, ScheduleError> {
    let mut pieces = Vec::new();
    let mut delivered = 0u64;
    for copy in copies {
        for t in &copy.transfers {
            let index = pieces.len() as u32;
            valid(target, memory, index, t)?;
            delivered += u64::from(t.words) * t.destinations.len() as u64;
            pieces.push(Piece {
                index,
                source: t.source,
                from: copy.source,
                offset: t.source_offset,
                words: t.words,
                to: copy.destination,
                destinations: t.destinations.clone(),
            });
        }
    }
    let transfers = pieces.len() as u32;
    let words: u64 = pieces.iter().map(|p| u64::from(p.words)).sum();
    if words > MAX_WORDS {
        return Err(ScheduleError::TooLong {
            words,
            most: MAX_WORDS,
        });
    }
    let after_pieces = dependences(&pieces)?;
    if after_pieces.is_empty() {
        pieces = join(pieces);
    }

    let mut index = vec![u32::MAX; target.tiles as usize];
    let mut problem = Problem {
        ports: Vec::new(),
        messages: Vec::with_capacity(pieces.len()),
        receivers: Vec::new(),
        slots: Vec::new(),
        slot_count: 0,
        after: Vec::new(),
        element: None,
        transfers,
        delivered,
        wide: false,
        guard: target.receive_guard,
        min_sender_row: target.min_sender_row,
    };
    let mut pairs: Vec<Vec<(u32, u32)>> = vec![Vec::new(); pieces.len()];
    if width != Width::Narrow {
        for (p, pairs) in pieces.iter_mut().zip(&mut pairs) {
            let (both, others) = paired(target, p);
            if others.is_empty() || width == Width::Wide {
                (*pairs, p.destinations) = (both, others);
            }
            problem.wide |= !pairs.is_empty();
        }
    }
    // Ports by tile number, so that nothing depends on the order of the transfers but ties.
    let mut tiles: Vec<u32> = pieces
        .iter()
        .flat_map(|p| p.destinations.iter().map(|d| d.0).chain([p.source]))
        .collect();
    let wide = pieces.iter().zip(&pairs).filter(|(_, to)| !to.is_empty());
    for (p, to) in wide {
        tiles.push(p.source ^ 1);
        tiles.extend(to.iter().map(|d| d.0));
    }
    tiles.sort_unstable();
    tiles.dedup();
    for tile in tiles {
        index[tile as usize] = problem.ports.len() as u32;
        problem.ports.push(Port {
            logical: tile,
            write_delay: target.first_write_after_mux + 2 * Physical::of_logical(tile).row() as u32,
            sent: 0,
            received: 0,
            least_sent: 0,
            least_received: 0,
            least_words: 0,
        });
    }
    // Events of each tile for what goes to several others: those are taken for every part.
    let mut sent = vec![(0u64, 0u64); problem.ports.len()];
    for (p, to) in pieces.iter().zip(&pairs) {
        let (all, several) = &mut sent[index[p.source as usize] as usize];
        let half = u64::from(p.words / 2);
        let narrow = u64::from(p.words);
        *all += half * u64::from(!to.is_empty()) + narrow * u64::from(!p.destinations.is_empty());
        *several += half * u64::from(to.len() > 2) + narrow * u64::from(p.destinations.len() > 1);
    }
    let parts: Vec<usize> = sent
        .iter()
        .map(|&(all, several)| {
            let spare = u64::from(split.words).saturating_sub(all);
            let parts = 1 + spare.checked_div(several).unwrap_or(0);
            parts.min(u64::from(split.parts)).max(1) as usize
        })
        .collect();
    let mut messages_of: Vec<(u32, u32)> = Vec::with_capacity(pieces.len());
    for (p, to) in pieces.iter_mut().zip(&pairs) {
        let source = index[p.source as usize];
        let first_message = problem.messages.len() as u32;
        let port = &mut problem.ports[source as usize];
        port.least_words += p.words;
        port.least_sent += if p.destinations.is_empty() {
            p.words / 2
        } else {
            p.words
        };
        let parts = parts[source as usize];
        if parts > 1 {
            // Neighbours stay together: the way to them is about as long.
            p.destinations.sort_unstable();
        }
        if !p.destinations.is_empty() {
            let part = p.destinations.len().div_ceil(parts);
            for destinations in p.destinations.chunks(part) {
                messages(&mut problem, &index, p, destinations, false);
            }
        }
        if !to.is_empty() {
            let part = (to.len() / 2).div_ceil(parts) * 2;
            for destinations in to.chunks(part) {
                messages(&mut problem, &index, p, destinations, true);
            }
        }
        messages_of.push((first_message, problem.messages.len() as u32));
    }
    if !after_pieces.is_empty() {
        problem.after = vec![Vec::new(); problem.messages.len()];
        for (k, list) in after_pieces.iter().enumerate() {
            let before: Vec<u32> = list
                .iter()
                .flat_map(|&b| messages_of[b as usize].0..messages_of[b as usize].1)
                .collect();
            for m in messages_of[k].0..messages_of[k].1 {
                problem.after[m as usize].clone_from(&before);
            }
        }
    }
    if memory == Memory::Absolute {
        elements(target, &mut problem);
    }
    chain(&mut problem);
    Ok(problem)
}

/// Tiles with byte offsets of what they receive.
type Places = Vec<(u32, u32)>;

/// The destinations of a piece that take it as 64-bit items, tile by tile of a pair, and the
/// others. Both tiles of a pair must take it, at one address: that of a buffer is a multiple of 8
/// and the same everywhere.
fn paired(target: &Target, p: &Piece) -> (Places, Places) {
    let items = p.words / 2;
    let mut all = p.destinations.clone();
    let fits = |n: u32| n == 0 || n >= target.min_wide_items;
    let last = items % (MAX_MESSAGE / 2);
    if !p.words.is_multiple_of(2)
        || !p.offset.is_multiple_of(8)
        || items < target.min_wide_items
        || !fits(last)
    {
        return (Vec::new(), all);
    }
    all.sort_unstable();
    let (mut both, mut others) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < all.len() {
        let (tile, offset) = all[i];
        let delay = target.first_write_after_mux + 2 * Physical::of_logical(tile).row() as u32;
        // Two settings of the earlier tile would fall on one event.
        let clash = |n: u32| n + 1 == delay || n == delay + 1;
        let complete = tile % 2 == 0
            && offset % 8 == 0
            && all.get(i + 1) == Some(&(tile + 1, offset))
            && !clash(items.min(MAX_MESSAGE / 2))
            && !clash(last);
        if complete {
            both.extend_from_slice(&all[i..i + 2]);
            i += 2;
        } else {
            others.push(all[i]);
            i += 1;
        }
    }
    (both, others)
}

/// Adds the messages that carry a piece to some of its destinations, `wide` ones to pairs.
fn messages(problem: &mut Problem, index: &[u32], p: &Piece, to: &[(u32, u32)], wide: bool) {
    let source = index[p.source as usize];
    let from = Physical::of_logical(p.source);
    let mut done = 0;
    while done < p.words {
        let words = (p.words - done).min(MAX_MESSAGE);
        let events = if wide { words / 2 } else { words };
        let first = problem.receivers.len() as u32;
        let (mut earliest, mut mask) = (0, 0);
        for &(logical, offset) in to {
            let at = Physical::of_logical(logical);
            let towards = direction(from, at);
            mask |= towards;
            let mut lag = time_to_mux(from, at) + 1;
            let mut steers = false;
            if wide {
                let other = time_to_mux(from, Physical::of_logical(logical ^ 1)) + 1;
                steers = lag < other;
                lag = lag.max(other);
            }
            // The mux of a pair is set one event before the window of the later tile.
            earliest = earliest.max(1 + i32::from(wide) - lag);
            let tile = index[logical as usize];
            let port = &mut problem.ports[tile as usize];
            port.received += events;
            port.least_received += events;
            problem.receivers.push(Receiver {
                tile,
                lag,
                format: if wide { towards } else { 0 },
                steers,
                buffer: p.to,
                offset: offset + 4 * done,
                slots: (0, 0),
            });
        }
        problem.ports[source as usize].sent += events;
        // A message to several receivers drives both directions, as all public rows do; the two
        // tiles of a pair count as one.
        let one = to.len() == if wide { 2 } else { 1 };
        problem.messages.push(Message {
            source,
            words,
            events,
            buffer: p.from,
            offset: p.offset + 4 * done,
            direction: if one { mask } else { 3 } | if wide { WIDE } else { 0 },
            partner: wide.then(|| index[(p.source ^ 1) as usize]),
            repeated: wide && !p.destinations.is_empty(),
            receivers: (first, problem.receivers.len() as u32),
            slots: (0, 0),
            earliest: earliest as u32,
            before: None,
            behind: None,
        });
        done += words;
    }
}

/// Notes which messages of words continue each other in memory, no more of them in a row than a
/// message may have words.
fn chain(problem: &mut Problem) {
    let mut order: Vec<u32> = (0..problem.messages.len() as u32).collect();
    let place = |m: &Message| (m.source, m.buffer, m.offset);
    order.retain(|&i| problem.messages[i as usize].partner.is_none());
    order.sort_by_key(|&i| (place(&problem.messages[i as usize]), i));
    // Last messages of chains, with the words of each, by where they end.
    let mut ends: HashMap<(u32, BufferId, u32), (u32, u32)> = HashMap::with_capacity(order.len());
    for i in order {
        let m = &problem.messages[i as usize];
        let mut words = m.words;
        let before = ends.remove(&place(m));
        let before = before.filter(|b| b.1 + words <= MAX_MESSAGE);
        if let Some((b, so_far)) = before {
            words += so_far;
            problem.messages[b as usize].behind = Some(i);
            problem.messages[i as usize].before = Some(b);
        }
        let m = &problem.messages[i as usize];
        let end = (m.source, m.buffer, m.offset + 4 * m.words);
        ends.insert(end, (i, words));
    }
}

/// First byte of the element (or pair) of an address and the first byte behind it.
fn element(target: &Target, address: u32) -> (u32, u32) {
    let (base, size) = if address >= target.region1_base {
        (target.region1_base, target.interleaved_element_bytes)
    } else {
        (0, target.element_bytes)
    };
    let first = address - (address - base) % size;
    (first, first + size)
}

/// Finds the elements that a tile both reads and writes, and the one that moves most words.
fn elements(target: &Target, problem: &mut Problem) {
    /// (port, first byte of the element, side, events, message or receiver)
    type Use = (u32, u32, Side, u32, u32);
    let mut uses: Vec<Use> = Vec::new();
    let mut add = |port: u32, mut at: u32, m: &Message, side: Side, who: u32| {
        let end = at + 4 * m.words;
        while at < end {
            let (first, behind) = element(target, at);
            let mut events = (behind.min(end) - at) / if m.partner.is_some() { 8 } else { 4 };
            if m.repeated && side == Side::Send {
                events = 0;
            }
            uses.push((port, first, side, events, who));
            at = behind;
        }
    };
    for (i, m) in problem.messages.iter().enumerate() {
        add(m.source, m.offset, m, Side::Send, i as u32);
        for (r, receiver) in (m.receivers.0..m.receivers.1).zip(problem.receivers(m)) {
            add(receiver.tile, receiver.offset, m, Side::Receive, r);
        }
    }
    uses.sort_unstable();
    let mut shared: Vec<(Side, u32, u32)> = Vec::new();
    for group in uses.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let events = group.iter().map(|u| u.3).sum();
        if problem.element.is_none_or(|best| events > best.0) {
            problem.element = Some((events, group[0].0, group[0].1));
        }
        let both = group.first().map(|u| u.2) != group.last().map(|u| u.2);
        if both {
            shared.extend(group.iter().map(|u| (u.2, u.4, problem.slot_count)));
            problem.slot_count += 1;
        }
    }
    shared.sort_unstable();
    for group in shared.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let first = problem.slots.len() as u32;
        problem.slots.extend(group.iter().map(|s| s.2));
        let range = (first, problem.slots.len() as u32);
        let who = group[0].1 as usize;
        match group[0].0 {
            Side::Send => problem.messages[who].slots = range,
            Side::Receive => problem.receivers[who].slots = range,
        }
    }
}
