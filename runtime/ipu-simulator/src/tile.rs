//! One tile: seven contexts in six slots, clock by clock.

use ipu_isa::Opcode;
use ipu_target::Target;
use ipu_target::geometry::Physical;

use crate::ahead::Ahead;
use crate::chip::Counters;
use crate::code::{CodeCache, Issue, Kind, Unit};
use crate::context::{Supervisor, SupervisorState, WORKERS, Weights, Worker};
use crate::csr;
use crate::debug::{IssueEvent, Stopped, TileDebug, disassemble};
use crate::exec::control::{Flow, Step};
use crate::exec::numeric::Round;
use crate::exec::{AuxResult, control, exchange, settle};
use crate::fabric::{Arrival, Link, Outbox, Outgoing, PAIRED};
use crate::fault::{Context, Fault, Reason};
use crate::memory::{Memory, Ram};
use crate::record::Recorder;
use crate::units::Units;

/// What all tiles share.
pub(crate) struct Env<'a> {
    pub(crate) target: &'a Target,
    pub(crate) units: &'a Units,
    pub(crate) code: &'a CodeCache,
    /// Overwrite the A file and the accumulators at launch.
    pub(crate) poison: bool,
}

/// All workers active.
const ALL: u8 = (1 << WORKERS) - 1;

/// A faulting context with its program counter.
type Trouble = (Context, u32, Reason);

/// One tile and its clock: the first clock it has not executed.
pub(crate) struct Tile {
    pub(crate) logical: u32,
    pub(crate) physical: Physical,
    pub(crate) clock: u64,
    pub(crate) memory: Memory,
    pub(crate) supervisor: Supervisor,
    pub(crate) workers: Box<[Worker; WORKERS]>,
    /// Bit `n`: worker `n` is active.
    pub(crate) active: u8,
    /// Clock of the newest exit.
    pub(crate) last_exit: Option<u64>,
    /// AND of the exit statuses since the last launch from idle.
    pub(crate) all_exits: bool,
    pub(crate) weights: Weights,
    pub(crate) link: Link,
    /// The next instruction concerns the fabric.
    at_row: bool,
    /// Address of the supervisor instruction in progress.
    issue_pc: u32,
    /// All but the plain bundles.
    pub(crate) counters: Counters,
    /// Bundles that changed registers and memory only.
    pub(crate) bundles: u64,
    /// Those of them with an AMP instruction.
    pub(crate) amp_bundles: u64,
    /// Clocks in rows since the last release.
    pub(crate) row_cycles: u64,
    pub(crate) fault: Option<Box<Fault>>,
    /// Who looks at the tile, if anybody.
    pub(crate) debug: Option<Box<TileDebug>>,
    /// Notes when the supervisor passes places, if it is to.
    pub(crate) recorder: Option<Box<Recorder>>,
}

impl Tile {
    pub(crate) fn new(logical: u32, target: &Target) -> Tile {
        let physical = Physical::of_logical(logical);
        Tile {
            logical,
            physical,
            clock: 0,
            memory: Memory::new(target),
            supervisor: Supervisor::new(target),
            workers: Box::default(),
            active: 0,
            last_exit: None,
            all_exits: true,
            weights: Weights::default(),
            link: Link::new(physical, target),
            at_row: false,
            issue_pc: 0,
            counters: Counters::default(),
            bundles: 0,
            amp_bundles: 0,
            row_cycles: 0,
            fault: None,
            debug: None,
            recorder: None,
        }
    }

    /// Whether the tile has to keep pace with the others.
    pub(crate) fn in_step(&self) -> bool {
        let state = self.supervisor.state;
        let waits = matches!(state, SupervisorState::Sync { .. }) && self.active != 0
            || matches!(state, SupervisorState::Receive(_));
        self.fault.is_none() && (self.at_row || self.link.active(self.clock) || waits)
    }

    /// Whether a context can still issue without help from outside.
    pub(crate) fn moving(&self) -> bool {
        self.fault.is_none()
            && (self.active != 0
                || matches!(
                    self.supervisor.state,
                    SupervisorState::Running | SupervisorState::Local(_)
                ))
    }

    /// Runs to `end` in step with the others, and on to `limit` while the tile is by itself.
    pub(crate) fn advance(&mut self, end: u64, limit: u64, env: &Env, outboxes: &[Outbox]) {
        if self.in_step() {
            self.run_in_step(end.min(limit), env, outboxes);
        }
        if !self.in_step() && self.fault.is_none() && self.moving() {
            self.run_alone(limit, env);
        }
    }

    /// Runs until the fabric, another tile or `limit` matters.
    fn run_alone(&mut self, limit: u64, env: &Env) {
        while self.clock < limit {
            if self.active == 0 {
                if self.supervisor.state != SupervisorState::Running {
                    return;
                }
                if self.supervisor.ready > self.clock {
                    self.clock = self.supervisor.ready.min(limit);
                    continue;
                }
            } else if matches!(
                self.supervisor.state,
                SupervisorState::Sync { .. } | SupervisorState::Receive(_)
            ) {
                return;
            }
            let supervisor_waits =
                self.active == ALL || self.supervisor.state != SupervisorState::Running;
            if self.active != 0 && supervisor_waits && self.debug.is_none() {
                match self.run_workers(limit, env) {
                    Ok(()) => continue,
                    Err(trouble) => return self.raise(trouble),
                }
            }
            match self.tick(true, env) {
                Ok(()) if self.at_row => return,
                Ok(()) => self.clock += 1,
                Err(trouble) => return self.raise(trouble),
            }
        }
    }

    /// Runs the workers, slot by slot, until one of them ends; the supervisor must not be able to
    /// issue before that.
    fn run_workers(&mut self, limit: u64, env: &Env) -> Result<(), Trouble> {
        let active = self.active;
        // The repeat body that no worker runs ahead in, and the clock of the next attempt.
        let (mut ordinary, mut attempt) = (0, 0);
        'rounds: loop {
            for slot in (self.clock % WORKERS as u64) as usize..WORKERS {
                if self.clock >= limit {
                    return Ok(());
                }
                if active >> slot & 1 != 0 && self.workers[slot].ready <= self.clock {
                    let Worker { pc, repeat, .. } = self.workers[slot];
                    if repeat.count > 1 && repeat.first != ordinary && self.clock >= attempt {
                        match self.run_ahead(limit, env) {
                            Ahead::Done => continue 'rounds,
                            Ahead::Later => attempt = self.clock + WORKERS as u64,
                            Ahead::Never => ordinary = repeat.first,
                        }
                    }
                    self.issue_worker(slot, env)
                        .map_err(|reason| (Context::Worker(slot as u8), pc, reason))?;
                    self.memory.settle();
                    if self.active != active {
                        self.clock += 1;
                        return Ok(());
                    }
                }
                self.clock += 1;
            }
        }
    }

    /// Runs to `end`, sending and receiving.
    fn run_in_step(&mut self, end: u64, env: &Env, outboxes: &[Outbox]) {
        self.at_row = false;
        while self.clock < end {
            if let Err(trouble) = self.tick_in_step(env, outboxes) {
                return self.raise(trouble);
            }
            self.clock += 1;
            // Nothing on the wires and nothing to issue: skip ahead.
            if self.active == 0 && !self.link.active(self.clock) {
                let next = match self.supervisor.state {
                    SupervisorState::Running => self.supervisor.ready,
                    _ => end,
                };
                self.clock = next.clamp(self.clock, end.max(self.clock));
            }
        }
    }

    fn tick_in_step(&mut self, env: &Env, outboxes: &[Outbox]) -> Result<(), Trouble> {
        let clock = self.clock;
        self.link.settle_pointer(clock);
        self.tick(false, env)?;
        let at_row = |reason| (Context::Supervisor, self.issue_pc, reason);
        let mut reading = None;
        if self.link.sending_until > clock
            && let Some(stream) = &mut self.link.stream
        {
            let (address, control) = (stream.address, stream.control);
            stream.address = address.wrapping_add(1 << exchange::item_shift(control));
            if control & 3 != 0 {
                let ram = &self.memory.ram;
                let value = if control & PAIRED != 0 {
                    ram.read64(address)
                } else {
                    ram.read32(address).map(u64::from)
                };
                self.link.outgoing.push(Outgoing {
                    event: clock,
                    value: value.map_err(at_row)?,
                    control,
                });
                self.counters.sent += 1;
                reading = Some(address);
                self.apart_from_fetch("exchange read", address, env)?;
            }
        }
        if self.link.listening()
            && let Some(item) = self.link.receive(clock, outboxes).map_err(at_row)?
        {
            self.store_incoming(item, reading, env)?;
        }
        Ok(())
    }

    fn store_incoming(
        &mut self,
        item: Arrival,
        reading: Option<u32>,
        env: &Env,
    ) -> Result<(), Trouble> {
        let at_row = |reason| (Context::Supervisor, self.issue_pc, reason);
        let address = self.link.pointer.ok_or(Reason::NoPointer).map_err(at_row)?;
        if self.active != 0 {
            return Err(at_row(Reason::ReceiveWithWorker { address }));
        }
        let ram = &mut self.memory.ram;
        let (written, words) = match item {
            Arrival::Word(value) => (ram.write32(address, value), 1),
            Arrival::Pair(value) => (ram.write64(address, value), 2),
        };
        written.map_err(at_row)?;
        self.memory.settle();
        self.link.pointer = Some(address.wrapping_add(4 * words));
        self.counters.received += 1;
        let due = self.supervisor.csr(csr::INCOMING_DCOUNT);
        if due != 0 {
            let due = due.saturating_sub(words);
            self.supervisor.set_csr(csr::INCOMING_DCOUNT, due);
            if due == 0 && matches!(self.supervisor.state, SupervisorState::Receive(_)) {
                self.supervisor.state = SupervisorState::Running;
                self.supervisor.ready = self.clock + 1;
            }
        }
        if let Some(read) = reading
            && env.units.same_exchange_unit(read, address)
        {
            return Err(at_row(Reason::ExchangeConflict {
                what: "exchange write",
                address,
                other: "exchange read",
                other_address: read,
            }));
        }
        self.apart_from_fetch("exchange write", address, env)
    }

    /// Faults when the row is fetched from the element of an exchange access.
    fn apart_from_fetch(&self, what: &'static str, address: u32, env: &Env) -> Result<(), Trouble> {
        if self.supervisor.state != SupervisorState::Running {
            return Ok(());
        }
        let first = self.issue_pc;
        let last = first + env.target.fetch_lookahead_bytes - 4;
        for fetch in [first, last] {
            if env.units.same_exchange_unit(fetch, address) {
                let reason = Reason::ExchangeConflict {
                    what,
                    address,
                    other: "instruction fetch",
                    other_address: fetch,
                };
                return Err((Context::Supervisor, first, reason));
            }
        }
        Ok(())
    }

    /// [`Tile::tick`] of a tile that somebody looks at.
    #[cold]
    fn tick_observed(&mut self, alone: bool, env: &Env) -> Result<(), Trouble> {
        let Some(mut debug) = self.debug.take() else {
            return Ok(());
        };
        let result = self.tick_debug(alone, env, &mut debug);
        self.debug = Some(debug);
        result
    }

    fn tick_debug(&mut self, alone: bool, env: &Env, debug: &mut TileDebug) -> Result<(), Trouble> {
        let slot = (self.clock % WORKERS as u64) as usize;
        let (context, pc, registers) = if self.active >> slot & 1 != 0 {
            let worker = &self.workers[slot];
            if worker.ready > self.clock {
                return Ok(());
            }
            (Context::Worker(slot as u8), worker.pc, &worker.registers)
        } else {
            let supervisor = &self.supervisor;
            if supervisor.state != SupervisorState::Running || supervisor.ready > self.clock {
                return Ok(());
            }
            // What waits for operands or for the fabric is issued later.
            if let Ok(issue) = self
                .memory
                .code
                .fetch(&self.memory.ram, supervisor.pc, env.code)
            {
                let issue = *issue;
                if self.operands_ready(&issue) > self.clock || alone && self.concerns_fabric(&issue)
                {
                    return self.tick(alone, env);
                }
            }
            let supervisor = &self.supervisor;
            (Context::Supervisor, supervisor.pc, &supervisor.registers)
        };
        let ram = &self.memory.ram;
        let words = [pc, pc.wrapping_add(4)].map(|a| ram.read32(a).unwrap_or(0));
        let event = IssueEvent {
            tile: self.logical,
            context,
            pc,
            cycle: self.clock,
            words,
            registers,
        };
        if debug.before(&event).is_some() {
            return Err((context, pc, Reason::Break));
        }
        self.tick(alone, env)?;
        match debug.after(&self.memory.ram) {
            Some(Stopped::Watch(address)) => Err((context, pc, Reason::Watch { address })),
            _ => Ok(()),
        }
    }

    /// Gives the slot of this clock to its owner. `alone` stops before the fabric.
    #[inline]
    fn tick(&mut self, alone: bool, env: &Env) -> Result<(), Trouble> {
        if self.debug.is_some() {
            return self.tick_observed(alone, env);
        }
        let slot = (self.clock % WORKERS as u64) as usize;
        if self.active >> slot & 1 != 0 {
            if self.workers[slot].ready <= self.clock {
                let pc = self.workers[slot].pc;
                self.issue_worker(slot, env)
                    .map_err(|reason| (Context::Worker(slot as u8), pc, reason))?;
                self.memory.settle();
            }
        } else if self.supervisor.state == SupervisorState::Running
            && self.supervisor.ready <= self.clock
        {
            let pc = self.supervisor.pc;
            self.issue_supervisor(alone, env)
                .map_err(|reason| (Context::Supervisor, pc, reason))?;
            self.memory.settle();
        }
        Ok(())
    }

    /// A fault of the row found after its window.
    pub(crate) fn refuse(&mut self, event: u64, reason: Reason) {
        if self.fault.is_none() {
            self.raise((Context::Supervisor, self.issue_pc, reason));
            if let Some(fault) = &mut self.fault {
                fault.cycle = event;
            }
        }
    }

    #[cold]
    fn raise(&mut self, (context, pc, reason): Trouble) {
        let words = [pc, pc.wrapping_add(4)].map(|a| self.memory.ram.read32(a));
        let text = match words {
            [Ok(first), second] => disassemble([first, second.unwrap_or(0)]).0,
            _ => "no memory".to_string(),
        };
        self.fault = Some(Box::new(Fault {
            tile: self.logical,
            physical: self.physical.0,
            context,
            pc,
            instruction: text,
            reason,
            cycle: self.clock,
        }));
    }

    /// Executes the next issue of a worker.
    #[inline(always)]
    fn issue_worker(&mut self, n: usize, env: &Env) -> Result<(), Reason> {
        let worker = &mut self.workers[n];
        let pc = worker.pc;
        let issue = self.memory.code.fetch(&self.memory.ram, pc, env.code)?;
        if !issue.plain {
            let issue = *issue;
            return self.issue_any(n, &issue, env);
        }
        let slots = if let Some(run) = issue.bundle_run {
            let ram = &mut self.memory.ram;
            run(issue, worker, &self.weights, ram, env.units)?;
            1
        } else {
            let mut fp = worker.fp;
            if fp.round16 == Round::Stochastic {
                fp.prng = worker.prng;
            }
            // Both halves read what stood before the bundle: the aux result waits for the main
            // half.
            let result = (issue.aux_run)(&issue.aux, worker, &self.weights, &mut fp)?;
            settle(worker, &fp)?;
            (issue.main_run)(
                &issue.main,
                &mut worker.registers,
                &mut self.memory.ram,
                env.units,
            )?;
            worker.write(&result);
            match result.slots {
                0 => issue.slots,
                n => n,
            }
        };
        worker.ready = self.clock + WORKERS as u64 * u64::from(slots);
        self.bundles += 1;
        self.amp_bundles += u64::from(issue.amp);
        let next = pc + 8;
        worker.pc = next;
        if worker.repeat.count != 0 && next == worker.repeat.end {
            worker.repeat.count -= 1;
            if worker.repeat.count != 0 {
                worker.pc = worker.repeat.first;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn issue_any(&mut self, n: usize, issue: &Issue, env: &Env) -> Result<(), Reason> {
        let clock = self.clock;
        let worker = &mut self.workers[n];
        let pc = worker.pc;
        let (has_main, has_aux) = match issue.kind {
            Kind::Main => (true, false),
            Kind::Aux => (false, true),
            Kind::Bundle => (true, true),
            kind => return Err(refuse(kind, pc, &self.memory.ram)),
        };
        if has_main && !issue.main.for_worker() {
            return Err(Reason::WrongMode);
        }
        if worker.repeat.count != 0 {
            if issue.kind != Kind::Bundle {
                return Err(Reason::Repeat("the body may hold only bundles"));
            }
            if !issue.main.allowed_in_repeat() {
                return Err(Reason::Repeat(
                    "the body may hold no control or system instruction",
                ));
            }
        }
        let next = pc + if issue.kind == Kind::Bundle { 8 } else { 4 };
        let mut slots = 1;
        let mut result = AuxResult::default();
        if has_aux {
            let mut fp = worker.fp;
            fp.prng = worker.prng;
            result = (issue.aux_run)(&issue.aux, worker, &self.weights, &mut fp)?;
            settle(worker, &fp)?;
            slots = match result.slots {
                0 => issue.aux.slots,
                n => n,
            };
            self.counters.amp += u64::from(issue.amp);
            self.counters.aux += 1;
        }
        let mut flow = Flow::Next;
        if has_main {
            const BASES: usize = 12;
            let bases = [worker.registers.m[BASES], worker.registers.m[BASES + 1]];
            match issue.main.unit {
                Unit::Integer | Unit::Memory => (issue.main_run)(
                    &issue.main,
                    &mut worker.registers,
                    &mut self.memory.ram,
                    env.units,
                )?,
                _ => flow = control::worker(&issue.main, worker, n, next, clock)?,
            }
            if issue.writes >> BASES & 3 != 0 {
                // `$m12` and `$m13` only mirror the base registers.
                worker.registers.m[BASES..BASES + 2].copy_from_slice(&bases);
            }
            slots = slots.max(issue.main.slots);
            self.counters.worker_main += 1;
        }
        self.counters.bundles += u64::from(issue.kind == Kind::Bundle);
        worker.write(&result);
        worker.ready = clock + WORKERS as u64 * u64::from(slots);
        worker.pc = match flow {
            Flow::Next if worker.repeat.count == 0 => next,
            Flow::Next => {
                let repeat = &mut worker.repeat;
                if next == repeat.end {
                    repeat.count -= 1;
                    if repeat.count == 0 {
                        next
                    } else {
                        repeat.first
                    }
                } else {
                    next
                }
            }
            Flow::Jump(target) => target,
            Flow::Repeat { count, bundles } => {
                if !next.is_multiple_of(8) {
                    return Err(Reason::Repeat("the body is not 8-byte aligned"));
                }
                let end = next + 8 * bundles;
                worker.repeat.count = count;
                worker.repeat.first = next;
                worker.repeat.end = end;
                if count == 0 { end } else { next }
            }
            Flow::Exit(status) => {
                worker.ended = clock;
                self.active &= !(1 << n);
                self.all_exits &= status;
                self.last_exit = Some(clock);
                if self.active == 0 {
                    self.join(env);
                }
                return Ok(());
            }
        };
        Ok(())
    }

    fn issue_supervisor(&mut self, alone: bool, env: &Env) -> Result<(), Reason> {
        let clock = self.clock;
        let pc = self.supervisor.pc;
        if let Some(recorder) = &mut self.recorder {
            recorder.at(pc, clock, self.counters.amp + self.amp_bundles);
        }
        let issue = *self.memory.code.fetch(&self.memory.ram, pc, env.code)?;
        match issue.kind {
            Kind::Main if !issue.main.for_supervisor() => return Err(Reason::WrongMode),
            Kind::Main | Kind::SendPicPair => {}
            kind => return Err(refuse(kind, pc, &self.memory.ram)),
        }
        let ready = self.operands_ready(&issue);
        if ready > clock {
            self.counters.stalls += ready - clock;
            self.supervisor.ready = ready;
            return Ok(());
        }
        if alone && self.concerns_fabric(&issue) {
            self.at_row = true;
            return Ok(());
        }
        self.issue_pc = pc;
        self.counters.supervisor += 1;
        let op = &issue.main;
        let step = match op.unit {
            Unit::Memory if matches!(op.opcode, Opcode::Ld64putcs | Opcode::Ld128putcs) => {
                self.load_weights(op)?;
                Step::NEXT
            }
            Unit::Integer | Unit::Memory => {
                (issue.main_run)(
                    op,
                    &mut self.supervisor.registers,
                    &mut self.memory.ram,
                    env.units,
                )?;
                Step::NEXT
            }
            Unit::Exchange => {
                let supervisor = &self.supervisor;
                let tiles = env.target.tiles as usize;
                let events = exchange::row(&issue, &mut self.link, clock, pc, tiles, |i| {
                    supervisor.csr(i)
                })?;

                self.row_cycles += events;
                self.counters.row_cycles += events;
                Step {
                    cost: events as u32,
                    target: None,
                }
            }
            _ => self.supervisor_control(op, clock, env)?,
        };
        let supervisor = &mut self.supervisor;
        if issue.writes != 0 {
            let usable = clock + u64::from(env.target.supervisor_result_cycles);
            for (r, at) in supervisor.usable.iter_mut().enumerate() {
                if issue.writes >> r & 1 != 0 {
                    *at = usable;
                }
            }
        }
        supervisor.ready = supervisor.ready.max(clock + u64::from(step.cost));
        let words = if issue.kind == Kind::SendPicPair {
            8
        } else {
            4
        };
        supervisor.pc = step.target.unwrap_or(pc + words);
        Ok(())
    }

    /// First clock at which all that the instruction reads is there.
    fn operands_ready(&self, issue: &Issue) -> u64 {
        let mut ready = 0;
        // `$m15` is always there.
        let mut reads = issue.reads & 0x7fff;
        while reads != 0 {
            let r = reads.trailing_zeros() as usize;
            ready = ready.max(self.supervisor.usable[r]);
            reads &= reads - 1;
        }
        if matches!(issue.main.opcode, Opcode::Ld64putcs | Opcode::Ld128putcs) {
            ready = ready.max(self.supervisor.weights_ready);
        }
        ready
    }

    /// Whether the instruction sends or steers the mux or the pointer.
    fn concerns_fabric(&self, issue: &Issue) -> bool {
        let op = &issue.main;
        match op.opcode {
            Opcode::Put if op.imm == csr::INCOMING_MUX => {
                self.supervisor.registers.m(op.r[1]) != self.link.mux()
            }
            Opcode::Put => matches!(op.imm, csr::INCOMING_FORMAT | csr::INCOMING_MUXPAIR),
            opcode => op.unit == Unit::Exchange && opcode != Opcode::Delay,
        }
    }
}

/// The fault of an issue that no context can execute.
#[cold]
fn refuse(kind: Kind, pc: u32, ram: &Ram) -> Reason {
    match kind {
        Kind::DoubleDestination => {
            Reason::DoubleDestination("by both halves of a bundle".to_string())
        }
        Kind::Undefined => Reason::Undefined {
            word: ram.read32(pc).unwrap_or(0),
        },
        _ => Reason::WrongMode,
    }
}
