//! The whole chip: loading, running, syncs, reading back.

use rayon::prelude::*;

use ipu_target::Target;

use std::sync::{Arc, Mutex};

use crate::code::CodeCache;
use crate::context::{Registers, SupervisorState, WORKERS};
use crate::csr;
use crate::debug::{Observer, TileDebug};
use crate::fabric::{Outbox, PAIRED, WINDOW};
use crate::fault::{Context, Fault, Reason, SimError, Waiting};
use crate::memory::{Memory, PAGE_BYTES, Page};
use crate::record::{Recorder, Recording};
use crate::tile::{Env, Tile};
use crate::units::Units;

/// The internal sync zone.
const INTERNAL: u8 = 3;
/// The zone of a tile that joins whatever sync the others make.
const SILENT: u8 = 1;
/// Below this many started tiles a window is not worth distributing.
const PARALLEL_TILES: usize = 8;

/// What one tile did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Supervisor instructions.
    pub supervisor: u64,
    /// Main-pipeline instructions of workers.
    pub worker_main: u64,
    /// Aux-pipeline instructions of workers.
    pub aux: u64,
    /// Bundles; each also counts as one main and one aux instruction.
    pub bundles: u64,
    /// AMP instructions, part of `aux`.
    pub amp: u64,
    /// Exchange items sent.
    pub sent: u64,
    /// Exchange items received.
    pub received: u64,
    /// Clocks in exchange rows.
    pub row_cycles: u64,
    /// Items sent that no tile listened to; complete once they left the fabric.
    pub lost: u64,
    /// Clocks at which the mux selected a tile that sent nothing.
    pub empty: u64,
    /// Clocks that the supervisor waited for results of its own instructions.
    pub stalls: u64,
    /// Clocks that the supervisor waited for workers.
    pub worker_wait: u64,
    /// Clocks from arrival to release at syncs of tiles and the host.
    pub sync_wait: u64,
}

/// One sync of all started tiles. The clocks from the release before (or the start) to
/// `release_cycle` on `last_tile` are: `row_cycles` of exchange, `release_cycle - arrival_cycle`
/// of sync, the rest compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// Zone of the sync.
    pub zone: u8,
    /// Clock at which the last tile arrived.
    pub arrival_cycle: u64,
    /// Clock at which all tiles go on.
    pub release_cycle: u64,
    /// Lowest logical tile among the last to arrive.
    pub last_tile: u32,
    /// Clocks that this tile spent in exchange rows since the release before.
    pub row_cycles: u64,
}

/// A tile whose exchange rows do not fit those of other tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Logical tile.
    pub tile: u32,
    /// Items that it sent and nobody received.
    pub lost: u64,
    /// Events at which its mux selected a tile that sent nothing.
    pub empty: u64,
}

/// Why [`Chip::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All started tiles wait for the host; the next `run` releases them.
    HostSync {
        /// Zone of the lowest tile that does not answer silently.
        zone: u8,
        /// Clock of the last arrival.
        cycle: u64,
    },
    /// All started tiles wait for each other ([`Chip::pause_at_syncs`]); the next `run` releases
    /// them.
    InternalSync {
        /// Clock of the last arrival.
        cycle: u64,
    },
    /// All started tiles executed `trap 0`.
    Halted {
        /// Clock of the last one.
        cycle: u64,
    },
}

/// A simulated chip.
pub struct Chip {
    target: Target,
    units: Units,
    tiles: Vec<Tile>,
    outboxes: Vec<Outbox>,
    code: CodeCache,
    cycle: u64,
    syncs: Vec<SyncRecord>,
    /// Release clock of the sync at which the last run stopped.
    release: Option<u64>,
    /// Whether a run stops at internal syncs too.
    pause: bool,
    poison: bool,
    /// Everything on one thread.
    serial: bool,
}

/// Where the tiles stand between two windows.
struct Survey {
    started: usize,
    halted: usize,
    /// Tiles that wait at a sync.
    waiting: usize,
    last_arrival: u64,
    last_tile: u32,
    /// Zone of the lowest tile that does not answer silently.
    zone: Option<u8>,
    mixed: bool,
    /// Least clock of the tiles that run in step.
    in_step: Option<u64>,
    moving: bool,
    at_limit: bool,
    /// `(cycle, tile)` of the first fault.
    fault: Option<(u64, usize)>,
    newest: u64,
}

impl Chip {
    /// A chip in reset with empty memories.
    pub fn new(target: &Target) -> Chip {
        let tiles = || 0..target.tiles;
        Chip {
            target: target.clone(),
            units: Units::new(target),
            tiles: tiles().map(|t| Tile::new(t, target)).collect(),
            outboxes: tiles().map(|_| Outbox::default()).collect(),
            code: CodeCache::default(),
            cycle: 0,
            syncs: Vec::new(),
            release: None,
            pause: false,
            poison: false,
            serial: false,
        }
    }

    /// Whether each launch overwrites the A file and the accumulators of the worker, to find
    /// programs that rely on what the program before left there.
    pub fn poison_launch(&mut self, poison: bool) {
        self.poison = poison;
    }

    fn tile(&self, tile: u32) -> Result<&Tile, SimError> {
        self.tiles
            .get(tile as usize)
            .ok_or(SimError::NoSuchTile(tile))
    }

    fn tile_mut(&mut self, tile: u32) -> Result<&mut Tile, SimError> {
        self.tiles
            .get_mut(tile as usize)
            .ok_or(SimError::NoSuchTile(tile))
    }

    fn checked(tile: &Tile, address: u32, bytes: usize) -> Result<(), SimError> {
        if tile.memory.contains(address, bytes) {
            Ok(())
        } else {
            Err(SimError::HostAddress {
                tile: tile.logical,
                address,
                bytes,
            })
        }
    }

    /// Writes bytes to the memory of a logical tile.
    ///
    /// # Errors
    /// The tile does not exist, or the range leaves tile memory.
    pub fn write(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), SimError> {
        let tile = self.tile_mut(tile)?;
        Chip::checked(tile, address, bytes.len())?;
        tile.memory.write_bytes(address, bytes);
        // Watches are about instructions.
        if let Some(debug) = &mut tile.debug {
            debug.accept(&tile.memory.ram);
        }
        Ok(())
    }

    /// Loads a segment of an image; the same as [`Chip::write`].
    ///
    /// # Errors
    /// As [`Chip::write`].
    pub fn load(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), SimError> {
        self.write(tile, address, bytes)
    }

    /// Loads one segment on several tiles, which share its whole pages until they write to them.
    ///
    /// # Errors
    /// As [`Chip::write`].
    pub fn load_shared(
        &mut self,
        tiles: impl IntoIterator<Item = u32>,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), SimError> {
        let page = PAGE_BYTES as u32;
        let lead = (address.next_multiple_of(page) - address) as usize;
        let (head, rest) = bytes.split_at(lead.min(bytes.len()));
        let (pages, tail) = rest.as_chunks::<PAGE_BYTES>();
        let pages: Vec<Arc<Page>> = pages.iter().map(|p| Arc::new(*p)).collect();
        let body = address + head.len() as u32;
        for number in tiles {
            let tile = self.tile_mut(number)?;
            Chip::checked(tile, address, bytes.len())?;
            tile.memory.write_bytes(address, head);
            for (i, page) in pages.iter().enumerate() {
                tile.memory.share_page(body + (i * PAGE_BYTES) as u32, page);
            }
            let end = body + (pages.len() * PAGE_BYTES) as u32;
            if !tail.is_empty() {
                tile.memory.write_bytes(end, tail);
            }
        }
        Ok(())
    }

    /// Reads the memory of a logical tile.
    ///
    /// # Errors
    /// The tile does not exist, or the range leaves tile memory.
    pub fn read(&self, tile: u32, address: u32, len: usize) -> Result<Vec<u8>, SimError> {
        let tile = self.tile(tile)?;
        Chip::checked(tile, address, len)?;
        Ok(tile.memory.read_bytes(address, len))
    }

    /// Starts the supervisor of a tile at the current clock.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn start(&mut self, tile: u32, entry: u32) -> Result<(), SimError> {
        let cycle = self.cycle;
        let tile = self.tile_mut(tile)?;
        tile.supervisor.pc = entry;
        tile.supervisor.state = SupervisorState::Running;
        tile.supervisor.ready = cycle;
        tile.clock = cycle;
        Ok(())
    }

    /// Clock at which the simulation stands.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// All syncs so far, internal and host.
    pub fn syncs(&self) -> &[SyncRecord] {
        &self.syncs
    }

    /// What a tile did so far.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn counters(&self, tile: u32) -> Result<Counters, SimError> {
        let tile = self.tile(tile)?;
        let (counters, bundles) = (tile.counters, tile.bundles);
        let received = self.outboxes[tile.logical as usize].received_items();
        Ok(Counters {
            lost: counters.sent - received,
            empty: tile.link.empty,
            worker_main: counters.worker_main + bundles,
            aux: counters.aux + bundles,
            bundles: counters.bundles + bundles,
            amp: counters.amp + tile.amp_bundles,
            ..counters
        })
    }

    /// Items of all tiles that nobody received.
    pub fn lost_words(&self) -> u64 {
        let lost = |(tile, outbox): (&Tile, &Outbox)| tile.counters.sent - outbox.received_items();
        self.tiles.iter().zip(&self.outboxes).map(lost).sum()
    }

    /// Tiles whose rows disagree with those of others: items that nobody received, events at which
    /// a mux selected a silent tile. Complete once the fabric is empty.
    pub fn disagreements(&self) -> Vec<Disagreement> {
        let of = |(tile, outbox): (&Tile, &Outbox)| Disagreement {
            tile: tile.logical,
            lost: tile.counters.sent - outbox.received_items(),
            empty: tile.link.empty,
        };
        let all = self.tiles.iter().zip(&self.outboxes).map(of);
        all.filter(|d| d.lost != 0 || d.empty != 0).collect()
    }

    /// The registers of a worker context.
    ///
    /// # Errors
    /// The tile does not exist; a worker number is taken modulo six.
    pub fn worker_registers(&self, tile: u32, worker: usize) -> Result<&Registers, SimError> {
        Ok(&self.tile(tile)?.workers[worker % WORKERS].registers)
    }

    /// The accumulators `AACC[0..32]` of a worker.
    ///
    /// # Errors
    /// As [`Chip::worker_registers`].
    pub fn worker_accumulators(&self, tile: u32, worker: usize) -> Result<[f32; 32], SimError> {
        let accumulators = &self.tile(tile)?.workers[worker % WORKERS].accumulators;
        Ok(std::array::from_fn(|i| accumulators.get(i)))
    }

    /// The registers of the supervisor.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn supervisor_registers(&self, tile: u32) -> Result<&Registers, SimError> {
        Ok(&self.tile(tile)?.supervisor.registers)
    }

    /// The program counter of the supervisor.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn supervisor_pc(&self, tile: u32) -> Result<u32, SimError> {
        Ok(self.tile(tile)?.supervisor.pc)
    }

    /// The started tiles that have not halted: number, address of the instruction that the
    /// supervisor is at, and whether it waits there for other tiles or the host.
    pub(crate) fn standing(&self) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
        self.tiles.iter().filter_map(|tile| {
            let pc = tile.supervisor.pc;
            match tile.supervisor.state {
                SupervisorState::Idle | SupervisorState::Halted => None,
                SupervisorState::Running | SupervisorState::Local(_) => {
                    Some((tile.logical, pc, false))
                }
                // The program counter is already behind the sync.
                SupervisorState::Sync { .. } | SupervisorState::Receive(_) => {
                    Some((tile.logical, pc.wrapping_sub(4), true))
                }
            }
        })
    }

    /// The registers of a context, to be changed before a run.
    ///
    /// # Errors
    /// As [`Chip::worker_registers`].
    pub fn registers_mut(
        &mut self,
        tile: u32,
        context: Context,
    ) -> Result<&mut Registers, SimError> {
        let tile = self.tile_mut(tile)?;
        Ok(match context {
            Context::Supervisor => &mut tile.supervisor.registers,
            Context::Worker(n) => &mut tile.workers[usize::from(n) % WORKERS].registers,
        })
    }

    /// First issue and exit of the newest program of a worker.
    ///
    /// # Errors
    /// As [`Chip::worker_registers`].
    pub fn worker_clocks(&self, tile: u32, worker: usize) -> Result<(u64, u64), SimError> {
        let worker = &self.tile(tile)?.workers[worker % WORKERS];
        Ok((worker.started, worker.ended))
    }

    fn debug(&mut self, tile: u32) -> Result<(&mut TileDebug, &mut Memory), SimError> {
        let tile = self.tile_mut(tile)?;
        Ok((tile.debug.get_or_insert_default(), &mut tile.memory))
    }

    /// Tells an observer of every issue on some tiles. Those tiles run slower, and all tiles on
    /// one thread.
    ///
    /// # Errors
    /// A tile does not exist.
    pub fn observe(
        &mut self,
        tiles: impl IntoIterator<Item = u32>,
        observer: impl Observer + 'static,
    ) -> Result<(), SimError> {
        let observer = Arc::new(Mutex::new(observer));
        for tile in tiles {
            let shared: Arc<Mutex<dyn Observer>> = Arc::clone(&observer) as _;
            self.debug(tile)?.0.observers.push(shared);
        }
        self.serial = true;
        Ok(())
    }

    /// Stops a run before the instruction at an address ([`Reason::Break`]).
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn break_at(&mut self, tile: u32, pc: u32) -> Result<(), SimError> {
        self.debug(tile)?.0.breaks.push(pc);
        Ok(())
    }

    /// Takes back [`Chip::break_at`].
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn forget_break(&mut self, tile: u32, pc: u32) -> Result<(), SimError> {
        let breaks = &mut self.debug(tile)?.0.breaks;
        if let Some(i) = breaks.iter().rposition(|&b| b == pc) {
            breaks.remove(i);
        }
        Ok(())
    }

    /// Stops a run after an instruction that changes memory ([`Reason::Watch`]). What the
    /// exchange writes is noticed with the next instruction.
    ///
    /// # Errors
    /// The tile does not exist, or the range leaves tile memory.
    pub fn watch(&mut self, tile: u32, address: u32, len: usize) -> Result<(), SimError> {
        Chip::checked(self.tile(tile)?, address, len)?;
        let (debug, memory) = self.debug(tile)?;
        debug.watch(&memory.ram, address, len);
        Ok(())
    }

    /// Removes all observers, breakpoints and watches.
    pub fn forget_observers(&mut self) {
        self.serial = false;
        for tile in &mut self.tiles {
            tile.debug = None;
        }
    }

    /// Notes from now on when the supervisor of a tile comes to addresses, ascending, and to syncs;
    /// what was noted before is forgotten.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn record(&mut self, tile: u32, addresses: &[u32]) -> Result<(), SimError> {
        self.tile_mut(tile)?.recorder = Some(Box::new(Recorder::new(addresses)));
        Ok(())
    }

    /// What was noted of a tile since [`Chip::record`]; `None` of one that was not asked for.
    ///
    /// # Errors
    /// The tile does not exist.
    pub fn recording(&self, tile: u32) -> Result<Option<&Recording>, SimError> {
        Ok(self.tile(tile)?.recorder.as_ref().map(|r| r.recording()))
    }

    /// Ends all recordings.
    pub fn forget_recordings(&mut self) {
        for tile in &mut self.tiles {
            tile.recorder = None;
        }
    }

    /// Whether runs stop at internal syncs as well, where all supervisors wait and nothing is on its
    /// way between tiles. Neither results nor clocks depend on it.
    pub fn pause_at_syncs(&mut self, pause: bool) {
        self.pause = pause;
    }

    /// Runs at most `max_cycles` clocks. After a sync that stopped the last run the tiles are
    /// released first.
    ///
    /// # Errors
    /// A fault, a deadlock, or the limit.
    pub fn run(&mut self, max_cycles: u64) -> Result<Stop, SimError> {
        let limit = self.cycle.saturating_add(max_cycles);
        for tile in &mut self.tiles {
            tile.fault.take_if(|fault| fault.reason.is_stop());
        }
        if let Some(release) = self.release.take() {
            self.release_all(release);
        }
        let mut end = 0;
        let mut fault_limit = limit;
        // Clocks that the tiles in step spent without a context that could issue.
        let mut idle = 0;
        loop {
            self.advance(end, fault_limit);
            let now = self.survey(limit);
            if let Some((cycle, tile)) = now.fault {
                // Another tile may still fault earlier.
                if now.in_step.is_none_or(|clock| clock > cycle) {
                    self.cycle = cycle;
                    return Err(self.fault_of(tile));
                }
                fault_limit = cycle + 1;
            }
            let release = self.release_clock(&now);
            let Some(clock) = now.in_step else {
                match self.settle(&now, release, limit)? {
                    Some(stop) => return Ok(stop),
                    None => continue,
                }
            };
            if clock >= limit {
                self.cycle = limit;
                return Err(SimError::MaxCycles { cycle: limit });
            }
            if let Some(release) = release.filter(|&r| r <= clock) {
                match self.complete(&now, release) {
                    Some(stop) => return Ok(stop),
                    None => continue,
                }
            }
            // Whatever is still in the fabric has landed after a few windows.
            idle = if now.moving || release.is_some() {
                0
            } else {
                idle + WINDOW
            };
            if idle > 32 * WINDOW {
                return Err(self.deadlock(&now));
            }
            end = (clock + WINDOW).min(release.unwrap_or(u64::MAX));
        }
    }

    /// One window of every tile that can move, then their items become visible.
    fn advance(&mut self, end: u64, limit: u64) {
        let env = Env {
            target: &self.target,
            units: &self.units,
            code: &self.code,
            poison: self.poison,
        };
        let outboxes = &self.outboxes;
        let started = |t: &&mut Tile| t.in_step() || t.moving();
        let mut live: Vec<&mut Tile> = self.tiles.iter_mut().filter(started).collect();
        let step = |tile: &mut &mut Tile| tile.advance(end, limit, &env, outboxes);
        if self.serial || live.len() < PARALLEL_TILES {
            live.iter_mut().for_each(step);
        } else {
            live.par_iter_mut().for_each(step);
        }
        let (mut paired, mut settings) = (Vec::new(), Vec::new());
        for (i, (tile, outbox)) in self.tiles.iter_mut().zip(&mut self.outboxes).enumerate() {
            let items = &mut tile.link.outgoing;
            if !items.is_empty() {
                let wide = items.iter().filter(|item| item.control & PAIRED != 0);
                paired.extend(wide.map(|item| (i, item.event)));
                outbox.publish(items);
            }
            if !tile.link.pair_settings.is_empty() {
                settings.push((i, std::mem::take(&mut tile.link.pair_settings)));
            }
        }
        for (i, event) in paired {
            // The tiles of a pair have adjacent logical numbers.
            let partner = self.outboxes.get(i ^ 1);
            if partner.is_some_and(|p| p.sent_at(event)) {
                self.tiles[i].refuse(event, Reason::PartnerSends { event });
            }
        }
        for (i, list) in settings {
            let setter = self.tiles[i].physical;
            let tiles = self.tiles.len();
            let Some(partner) = self.tiles.get_mut(i ^ 1) else {
                continue;
            };
            for (event, value) in list {
                let set = partner.link.pair_setting(event, value, setter, tiles);
                if let Err(reason) = set {
                    partner.refuse(partner.clock, reason);
                }
            }
        }
    }

    fn survey(&self, limit: u64) -> Survey {
        let mut s = Survey {
            started: 0,
            halted: 0,
            waiting: 0,
            last_arrival: 0,
            last_tile: 0,
            zone: None,
            mixed: false,
            in_step: None,
            moving: false,
            at_limit: false,
            fault: None,
            newest: 0,
        };
        for (i, tile) in self.tiles.iter().enumerate() {
            let state = tile.supervisor.state;
            if state == SupervisorState::Idle {
                continue;
            }
            s.started += 1;
            if let Some(fault) = &tile.fault {
                if s.fault.is_none_or(|(cycle, _)| fault.cycle < cycle) {
                    s.fault = Some((fault.cycle, i));
                }
                continue;
            }
            s.newest = s.newest.max(tile.clock);
            if tile.in_step() {
                s.in_step = Some(s.in_step.map_or(tile.clock, |c| c.min(tile.clock)));
            }
            s.moving |= tile.moving();
            match state {
                SupervisorState::Halted if tile.active == 0 => s.halted += 1,
                SupervisorState::Sync { zone, arrival } => {
                    s.waiting += 1;
                    if arrival > s.last_arrival || s.waiting == 1 {
                        s.last_arrival = arrival;
                        s.last_tile = tile.logical;
                    }
                    if zone != SILENT {
                        let first = *s.zone.get_or_insert(zone);
                        s.mixed |= (zone == INTERNAL) != (first == INTERNAL);
                    }
                }
                _ => s.at_limit |= !tile.in_step() && tile.clock >= limit,
            }
        }
        s
    }

    /// The release clock once all started tiles wait for the same kind of sync.
    fn release_clock(&self, now: &Survey) -> Option<u64> {
        let complete = now.waiting == now.started && now.zone.is_some() && !now.mixed;
        complete.then(|| now.last_arrival + u64::from(self.target.internal_sync_cycles))
    }

    /// Nothing runs in step: the end, a sync, a limit or a deadlock.
    fn settle(
        &mut self,
        now: &Survey,
        release: Option<u64>,
        limit: u64,
    ) -> Result<Option<Stop>, SimError> {
        if now.started == 0 {
            return Err(SimError::NothingStarted);
        }
        if now.at_limit {
            self.cycle = limit;
            return Err(SimError::MaxCycles { cycle: limit });
        }
        if now.halted == now.started {
            self.cycle = now.newest;
            return Ok(Some(Stop::Halted { cycle: now.newest }));
        }
        match release {
            Some(release) => Ok(self.complete(now, release)),
            None => Err(self.deadlock(now)),
        }
    }

    /// Records a complete sync; an internal one ends at once unless runs pause there, others stop
    /// the run.
    fn complete(&mut self, now: &Survey, release: u64) -> Option<Stop> {
        let zone = now.zone.unwrap_or(INTERNAL);
        // The host answers whenever it likes; at the barrel's first slot, runs of one program
        // take the same cycles.
        let release = if zone == INTERNAL {
            release
        } else {
            release.next_multiple_of(u64::from(self.target.workers))
        };
        self.syncs.push(SyncRecord {
            zone,
            arrival_cycle: now.last_arrival,
            release_cycle: release,
            last_tile: now.last_tile,
            row_cycles: self.tiles[now.last_tile as usize].row_cycles,
        });
        if zone == INTERNAL && !self.pause {
            self.release_all(release);
            return None;
        }
        let cycle = now.last_arrival;
        self.cycle = cycle;
        self.release = Some(release);
        Some(match zone {
            INTERNAL => Stop::InternalSync { cycle },
            zone => Stop::HostSync { zone, cycle },
        })
    }

    fn release_all(&mut self, release: u64) {
        for tile in &mut self.tiles {
            if let SupervisorState::Sync { arrival, .. } = tile.supervisor.state {
                tile.counters.sync_wait += release - arrival;
                tile.supervisor.state = SupervisorState::Running;
                tile.supervisor.ready = release;
                tile.clock = tile.clock.max(release);
                tile.row_cycles = 0;
            }
        }
    }

    fn fault_of(&self, tile: usize) -> SimError {
        match &self.tiles[tile].fault {
            Some(fault) => SimError::Fault(Box::new(Fault::clone(fault))),
            None => SimError::NothingStarted,
        }
    }

    fn deadlock(&mut self, now: &Survey) -> SimError {
        self.cycle = now.newest;
        let state = |tile: &Tile| match tile.supervisor.state {
            SupervisorState::Sync { zone, .. } => Some(Some(zone)),
            SupervisorState::Receive(_) => Some(Some(0)),
            SupervisorState::Halted => Some(None),
            _ => None,
        };
        let waiting = self.tiles.iter().filter_map(|tile| {
            state(tile).map(|zone| Waiting {
                tile: tile.logical,
                zone,
                words: tile.supervisor.csr(csr::INCOMING_DCOUNT),
            })
        });
        SimError::Deadlock {
            cycle: now.newest,
            waiting: waiting.collect(),
        }
    }
}
