//! Branches, launches, syncs, traps and control registers.

use ipu_isa::Opcode;

use super::float::check_control;
use super::not_implemented;
use crate::code::Op;
use crate::context::{SupervisorState, WORKERS, Worker};
use crate::csr;
use crate::fault::Reason;
use crate::tile::{Env, Tile};

/// What an instruction does to the program counter of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Next,
    /// Continue at an address.
    Jump(u32),
    /// End with a status.
    Exit(bool),
    /// Repeat the next bundles.
    Repeat { count: u32, bundles: u32 },
}

/// Branches, common to both kinds of context: the target if taken, `None` if not a branch.
#[inline]
fn branch(op: &Op, m: impl Fn(u8) -> u32) -> Option<Option<u32>> {
    use Opcode as O;
    let x = m(op.r[0]);
    let taken = match op.opcode {
        O::Br => return Some(Some(x)),
        O::Bri => true,
        O::Brz => x == 0,
        O::Brnz | O::Brnzdec => x != 0,
        O::Brneg => x >> 31 != 0,
        O::Brpos => x >> 31 == 0,
        _ => return None,
    };
    Some(taken.then_some(op.imm))
}

/// Executes a control instruction of worker `n`; `next` is the address after it.
pub(crate) fn worker(
    op: &Op,
    worker: &mut Worker,
    n: usize,
    next: u32,
    clock: u64,
) -> Result<Flow, Reason> {
    use Opcode as O;
    let r = &mut worker.registers;
    if let Some(target) = branch(op, |i| r.m(i)) {
        if op.opcode == O::Brnzdec && target.is_some() {
            r.set_m(op.r[0], r.m(op.r[0]) - 1);
        }
        return Ok(target.map_or(Flow::Next, Flow::Jump));
    }
    let value = r.m(op.r[0]);
    Ok(match op.opcode {
        O::Exitz => Flow::Exit(value == 0),
        O::Exitnz => Flow::Exit(value != 0),
        O::Exitneg => Flow::Exit(value >> 31 != 0),
        O::Exitpos => Flow::Exit(value >> 31 == 0),
        O::Call => {
            r.set_m(op.r[0], next);
            Flow::Jump(op.imm)
        }
        O::Rpt => {
            let (count, body) = if op.is_imm(0) {
                (op.imm, op.imm2)
            } else {
                (value & 0xffff, op.imm)
            };
            Flow::Repeat {
                count,
                bundles: body + 1,
            }
        }
        O::Get => {
            let value = match op.imm {
                csr::PC => worker.pc,
                csr::WSR => n as u32,
                csr::VERTEX_BASE => r.m(13),
                csr::WORKER_BASE => r.m(12),
                csr::REPEAT_COUNT => worker.repeat.count,
                csr::REPEAT_FIRST => worker.repeat.first,
                csr::REPEAT_END => worker.repeat.end,
                csr::COUNT_L => clock as u32,
                csr::COUNT_U => (clock >> 32) as u32,
                index => match index.checked_sub(csr::DBG_DATA) {
                    Some(at @ 0..=1) => worker.debug[at as usize],
                    _ => return Err(Reason::BadRegister(index)),
                },
            };
            worker.registers.set_m(op.r[0], value);
            Flow::Next
        }
        O::Put => {
            let value = r.m(op.r[1]);
            match op.imm.checked_sub(csr::DBG_DATA) {
                Some(at @ 0..=1) => worker.debug[at as usize] = value,
                _ => return Err(Reason::BadRegister(op.imm)),
            }
            Flow::Next
        }
        O::Trap => return Err(Reason::Trap(op.imm)),
        _ => return Err(not_implemented(op.opcode)),
    })
}

/// What a supervisor instruction does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Clocks until the next issue.
    pub(crate) cost: u32,
    /// Where it continues; `None` is the next word.
    pub(crate) target: Option<u32>,
}

impl Step {
    pub(crate) const NEXT: Step = Step {
        cost: 1,
        target: None,
    };
}

impl Tile {
    /// Executes a control instruction of the supervisor, issued at `clock`.
    pub(crate) fn supervisor_control(
        &mut self,
        op: &Op,
        clock: u64,
        env: &Env,
    ) -> Result<Step, Reason> {
        use Opcode as O;
        let target = env.target;
        let supervisor = &mut self.supervisor;
        let r = &mut supervisor.registers;
        if let Some(to) = branch(op, |i| r.m(i)) {
            if op.opcode == O::Brnzdec && to.is_some() {
                r.set_m(op.r[0], r.m(op.r[0]) - 1);
            }
            return Ok(match to {
                Some(_) => Step {
                    cost: target.supervisor_branch_cycles,
                    target: to,
                },
                None => Step::NEXT,
            });
        }
        match op.opcode {
            O::Call => {
                r.set_m(op.r[0], supervisor.pc + 4);
                return Ok(Step {
                    cost: target.supervisor_call_cycles,
                    target: Some(op.imm),
                });
            }
            O::Runall => {
                if self.active != 0 {
                    return Err(Reason::WorkerActive);
                }
                let (entry, base) = (r.m(op.r[0]), r.m(op.r[1]));
                self.all_exits = true;
                for n in 0..WORKERS {
                    let vertex = base.wrapping_add(4 * n as u32 * op.imm);
                    self.launch(n, entry, vertex, clock, env)?;
                }
            }
            O::Run => {
                let (entry, base) = (r.m(op.r[0]), r.m(op.r[1]));
                let vertex = target
                    .memory_base
                    .wrapping_add(base)
                    .wrapping_add(4 * op.imm);
                let n = (!self.active).trailing_zeros() as usize;
                if n >= WORKERS {
                    return Err(Reason::WorkerActive);
                }
                if self.active == 0 {
                    self.all_exits = true;
                }
                self.launch(n, entry, vertex, clock, env)?;
            }
            O::Sync => self.sync(op.imm, clock, env)?,
            O::Sans => {
                if op.imm != 0 {
                    return Err(Reason::NotImplemented(format!("sans {}", op.imm)));
                }
                supervisor.answering = true;
            }
            O::Trap if op.imm == 0 => supervisor.state = SupervisorState::Halted,
            O::Trap => return Err(Reason::Trap(op.imm)),
            O::Get => {
                let value = self.supervisor_get(op.imm, clock)?;
                self.supervisor.registers.set_m(op.r[0], value);
            }
            O::Put => {
                let value = r.m(op.r[1]);
                self.supervisor_put(op.imm, value, clock, env)?;
            }
            _ => return Err(not_implemented(op.opcode)),
        }
        Ok(Step::NEXT)
    }

    fn launch(
        &mut self,
        n: usize,
        entry: u32,
        vertex: u32,
        clock: u64,
        env: &Env,
    ) -> Result<(), Reason> {
        let target = env.target;
        if !entry.is_multiple_of(4) || entry < target.memory_base || entry >= target.region1_base {
            return Err(Reason::BadFetch { pc: entry });
        }
        let supervisor = &self.supervisor;
        let worker = &mut self.workers[n];
        worker.pc = entry;
        worker.registers.m[12] = supervisor.csr(csr::WORKER0_BASE + n as u32);
        worker.registers.m[13] = vertex;
        worker.repeat = Default::default();
        worker.fp_status = 0;
        worker.set_fp_control(supervisor.csr(csr::FP_ICTL));
        worker.fp_format = supervisor.csr(csr::FP_INFMT);
        worker.fp_scale = supervisor.csr(csr::FP_ISCL);
        if env.poison {
            worker.poison();
        }
        // The first of its own slots after the launch latency.
        let earliest = clock + u64::from(target.launch_cycles);
        let slots = WORKERS as u64;
        worker.ready = earliest + (n as u64 + slots - earliest % slots) % slots;
        worker.started = worker.ready;
        self.active |= 1 << n;
        Ok(())
    }

    fn sync(&mut self, zone: u32, clock: u64, env: &Env) -> Result<(), Reason> {
        let supervisor = &mut self.supervisor;
        match zone {
            0 => {
                if supervisor.csr(csr::INCOMING_DCOUNT) != 0 {
                    supervisor.state = SupervisorState::Receive(clock);
                }
            }
            1 if !std::mem::take(&mut supervisor.answering) => {
                return Err(Reason::NotImplemented("sync 1 without sans 0".to_string()));
            }
            2 => {
                supervisor.state = SupervisorState::Local(clock);
                if self.active == 0 {
                    self.join(env);
                }
            }
            1 | 3..=7 | 12..=15 => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.arrived(clock);
                }
                supervisor.state = SupervisorState::Sync {
                    zone: zone as u8,
                    arrival: clock,
                };
            }
            _ => {
                return Err(Reason::InvalidOperand {
                    operand: "sync zone",
                    value: zone,
                });
            }
        }
        Ok(())
    }

    /// Ends `sync 2` once no worker is active.
    pub(crate) fn join(&mut self, env: &Env) {
        let supervisor = &mut self.supervisor;
        if let SupervisorState::Local(issued) = supervisor.state {
            let joined = match self.last_exit {
                Some(exit) => exit + u64::from(env.target.join_cycles),
                None => 0,
            };
            supervisor.ready = joined.max(issued + 1);
            self.counters.worker_wait += supervisor.ready - issued - 1;
            supervisor.state = SupervisorState::Running;
            let status = supervisor.csr(csr::SSR) & !1 | u32::from(self.all_exits);
            supervisor.set_csr(csr::SSR, status);
        }
    }

    fn supervisor_get(&self, index: u32, clock: u64) -> Result<u32, Reason> {
        let supervisor = &self.supervisor;
        Ok(match index {
            csr::PC => supervisor.pc,
            csr::TILE_ID => u32::from(self.physical.0),
            csr::COUNT_L => clock as u32,
            csr::COUNT_U => (clock >> 32) as u32,
            csr::CTXT_STS => (0..WORKERS).fold(1, |s, n| {
                s | (u32::from(self.active) >> n & 1) << (2 * n + 2)
            }),
            csr::INCOMING_MUX => self.link.mux(),
            csr::SSR
            | csr::CR
            | csr::FP_ICTL..=csr::WORKER5_BASE
            | csr::FP_INFMT
            | csr::FP_ISCL
            | csr::CCCSLOAD
            | csr::DBG_DATA
            | 113
            | csr::INCOMING_MUXPAIR..=csr::EXCHANGE_LAST => supervisor.csr(index),
            _ => return Err(Reason::BadRegister(index)),
        })
    }

    fn supervisor_put(
        &mut self,
        index: u32,
        value: u32,
        clock: u64,
        env: &Env,
    ) -> Result<(), Reason> {
        let supervisor = &mut self.supervisor;
        match index {
            csr::CR => {
                let status = supervisor.csr(csr::SSR);
                match value & 3 {
                    1 => supervisor.set_csr(csr::SSR, status & !1),
                    2 => supervisor.set_csr(csr::SSR, status | 1),
                    _ => {}
                }
                if value & 4 != 0 {
                    self.weights = Default::default();
                }
            }
            csr::FP_ICTL => check_control(value)?,
            csr::WORKER0_BASE..=csr::WORKER5_BASE => {
                if self.active >> (index - csr::WORKER0_BASE) & 1 != 0 {
                    return Err(Reason::WorkerActive);
                }
            }
            csr::CCCSLOAD => {
                supervisor.weights_ready = clock + u64::from(env.target.cccs_load_cycles);
            }
            csr::INCOMING_MUX => self.link.set_mux(clock, value & 0x1fff),
            csr::INCOMING_MUXPAIR => {
                let tiles = env.target.tiles as usize;
                self.link.set_pair_mux(clock, value & 0x1fff, tiles)?;
            }
            csr::INCOMING_FORMAT if value > 2 => {
                return Err(Reason::InvalidOperand {
                    operand: "incoming format",
                    value,
                });
            }
            csr::INCOMING_FORMAT => self.link.set_format(clock, value),
            csr::INCOMING_DELTA | csr::OUTGOING_DELTA if value != 0 => {
                return Err(Reason::NotImplemented(format!(
                    "control register {index} = {value:#x}"
                )));
            }
            csr::FP_INFMT
            | csr::FP_ISCL
            | csr::DBG_DATA
            | 113
            | csr::INCOMING_DELTA..=csr::EXCHANGE_LAST => {}
            csr::STRAP => return Err(Reason::SupervisorTrap),
            _ => return Err(Reason::BadRegister(index)),
        }
        supervisor.set_csr(index, value);
        Ok(())
    }

    /// Loads one or two entries of the shared weights.
    pub(crate) fn load_weights(&mut self, op: &Op) -> Result<(), Reason> {
        let wide = op.opcode == Opcode::Ld128putcs;
        let (index, count) = (op.imm as usize, if wide { 2 } else { 1 });
        if index + count > self.weights.raw.len() {
            return Err(Reason::InvalidOperand {
                operand: "weight index",
                value: op.imm,
            });
        }
        let address = self.supervisor.csr(csr::CCCSLOAD);
        if wide {
            let values = self.memory.ram.read128(address)?;
            self.weights.set(index, values[0]);
            self.weights.set(index + 1, values[1]);
        } else {
            self.weights.set(index, self.memory.ram.read64(address)?);
        }
        let next = address.wrapping_add(8 * count as u32);
        self.supervisor.set_csr(csr::CCCSLOAD, next);
        Ok(())
    }
}
