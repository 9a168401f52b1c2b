//! Decoded instructions: compact records, one per word of code, shared by all tiles.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::{Registers, Weights, Worker};
use crate::exec::numeric::Fp;
use crate::exec::{AuxResult, accumulator, amp, float, integer, memory, not_implemented};
use crate::fault::Reason;
use crate::memory::Ram;
use crate::units::Units;

use ipu_isa::{
    Access, Arch, Broadcast, Decoded, Flag, Format, Instruction, Mode, Opcode, OperandKind,
    Pipeline, RegFile,
};

/// Words of a decoded block.
pub(crate) const BLOCK_WORDS: usize = 64;
/// Bytes of a decoded block.
pub(crate) const BLOCK_BYTES: usize = 4 * BLOCK_WORDS;
/// Blocks kept for tiles that load the same code later.
const CACHE_LIMIT: usize = 1 << 16;

/// Which part of the simulator executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Unit {
    /// Integer and logic on the main pipeline.
    #[default]
    Integer,
    /// Loads, stores, weights.
    Memory,
    /// Branches, calls, launches, syncs, control registers.
    Control,
    /// Rows of an exchange phase.
    Exchange,
    /// Logic and permutation on the aux pipeline.
    AuxInteger,
    /// Floating point without accumulators.
    Float,
    /// Everything that touches the accumulators.
    Accumulator,
}

/// One instruction, flattened. Registers stand at the place of their operand, in text order;
/// so `imm` bit `i` is set when operand `i` is an immediate, whose value is in `imm`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Op {
    /// Mnemonic.
    pub(crate) opcode: Opcode,
    /// Executor.
    pub(crate) unit: Unit,
    /// Issue slots of a worker.
    pub(crate) slots: u8,
    /// Bit `i`: operand `i` is an immediate.
    pub(crate) imm_mask: u8,
    /// Registers; for exchange: 0 the stream control, 1 the selector.
    pub(crate) r: [u8; 4],
    /// Broadcast of source 0.
    pub(crate) broadcast: Broadcast,
    /// Bit 0: workers may execute it; bit 1: the supervisor may; bit 2: no repeat body has it;
    /// bit 3: operand 0 is in the A file.
    bits: u8,
    /// The first immediate; for exchange the count field.
    pub(crate) imm: u32,
    /// The second immediate; for exchange the address or value.
    pub(crate) imm2: u32,
}

/// Executes an instruction of the aux pipeline; results are registers for the end of the bundle.
pub(crate) type AuxRun = fn(&Op, &mut Worker, &Weights, &mut Fp) -> Result<AuxResult, Reason>;
/// Executes an instruction of the main pipeline that changes registers and memory only.
pub(crate) type MainRun = fn(&Op, &mut Registers, &mut Ram, &Units) -> Result<(), Reason>;

/// Executes a whole plain bundle.
pub(crate) type BundleRun =
    fn(&Issue, &mut Worker, &Weights, &mut Ram, &Units) -> Result<(), Reason>;

const WORKER: u8 = 1;
const SUPERVISOR: u8 = 2;
const NO_REPEAT: u8 = 4;
const A_FILE: u8 = 8;

impl Op {
    fn new(d: &Decoded) -> Op {
        let format = d.format();
        let mut op = Op {
            opcode: d.opcode,
            unit: unit_of(format),
            slots: format.sim_slots,
            bits: match format.mode {
                Mode::Worker => WORKER,
                Mode::Supervisor => SUPERVISOR,
                Mode::Both => WORKER | SUPERVISOR,
            },
            ..Op::default()
        };
        if format.pipeline == Pipeline::Main
            && (format.has(Flag::Control) || format.has(Flag::System))
        {
            op.bits |= NO_REPEAT;
        }
        let mut immediates = 0;
        for (i, operand) in format.operands.iter().enumerate() {
            let value = d.value(i) as u32;
            match operand.kind {
                OperandKind::Reg {
                    file, broadcast, ..
                } => {
                    if let Some(r) = op.r.get_mut(i) {
                        *r = value as u8;
                    }
                    if i == 0 && file == RegFile::A {
                        op.bits |= A_FILE;
                    }
                    if broadcast != Broadcast::None {
                        op.broadcast = broadcast;
                    }
                }
                _ => {
                    op.imm_mask |= 1 << i;
                    match immediates {
                        0 => op.imm = value,
                        1 => op.imm2 = value,
                        _ => {}
                    }
                    immediates += 1;
                }
            }
        }
        if op.unit == Unit::Exchange {
            op.set_exchange_fields(d);
        }
        op
    }

    fn set_exchange_fields(&mut self, d: &Decoded) {
        let named = |name| d.named(name).unwrap_or(0) as u32;
        self.imm = named("count");
        self.imm2 = match d.opcode {
            Opcode::Send | Opcode::Sendpicp => named("addr"),
            Opcode::Sendoff => named("delta"),
            _ => named("value"),
        };
        self.r[0] = named("sctl") as u8;
        self.r[1] = match d.opcode {
            Opcode::Sendpicp => named("picsel"),
            _ => named("sel"),
        } as u8;
    }

    /// Whether operand `i` is an immediate.
    #[inline]
    pub(crate) fn is_imm(&self, i: usize) -> bool {
        self.imm_mask >> i & 1 != 0
    }

    #[inline]
    pub(crate) fn for_worker(&self) -> bool {
        self.bits & WORKER != 0
    }

    #[inline]
    pub(crate) fn for_supervisor(&self) -> bool {
        self.bits & SUPERVISOR != 0
    }

    #[inline]
    pub(crate) fn allowed_in_repeat(&self) -> bool {
        self.bits & NO_REPEAT == 0
    }

    /// Whether operand 0 is an A register.
    #[inline]
    pub(crate) fn first_in_a(&self) -> bool {
        self.bits & A_FILE != 0
    }
}

fn unit_of(format: &Format) -> Unit {
    use Opcode as O;
    if format.pipeline == Pipeline::Main {
        return match format.opcode {
            O::Sync | O::Sans => Unit::Control,
            _ if format.has(Flag::Exchange) => Unit::Exchange,
            _ if format.has(Flag::Load) || format.has(Flag::Store) => Unit::Memory,
            _ if format.has(Flag::Control) || format.has(Flag::System) => Unit::Control,
            _ => Unit::Integer,
        };
    }
    match format.opcode {
        O::And
        | O::Andc
        | O::And64
        | O::Andc64
        | O::Or
        | O::Or64
        | O::Not
        | O::Not64
        | O::Xor
        | O::Xnor
        | O::Roll16
        | O::Roll8l
        | O::Roll8r
        | O::Roll32
        | O::Sort4x16hi
        | O::Sort4x16lo
        | O::Sort4x32hi
        | O::Sort4x32lo
        | O::Shuf8x8hi
        | O::Shuf8x8lo
        | O::Sort8x8hi
        | O::Sort8x8lo
        | O::Sort8
        | O::Swap8
        | O::Setzi => Unit::AuxInteger,
        opcode => {
            const NAMES: [&str; 8] = ["slic", "acc", "mac", "gina", "aop", "axpy", "mix", "stacc"];
            let name = opcode.mnemonic();
            let amp = name.ends_with("amp") && !name.ends_with("clamp");
            if amp || NAMES.iter().any(|n| name.contains(n)) {
                Unit::Accumulator
            } else {
                Unit::Float
            }
        }
    }
}

/// Whether an instruction is an AMP step.
fn is_amp(opcode: Opcode) -> bool {
    let name = opcode.mnemonic();
    name.ends_with("amp") && !name.ends_with("clamp")
}

/// What stands at a word of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No instruction.
    #[default]
    Undefined,
    /// One word in `main`.
    Main,
    /// One word in `aux`.
    Aux,
    /// Two words in `main` and `aux`.
    Bundle,
    /// Two words that write one register.
    DoubleDestination,
    /// `sendpicp`; `aux.imm` is the data word.
    SendPicPair,
}

/// One issue of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issue {
    pub(crate) kind: Kind,
    /// A bundle of a worker that changes registers and memory only, legal in a repeat body.
    pub(crate) plain: bool,
    /// Slots of a plain bundle, unless its operands decide.
    pub(crate) slots: u8,
    /// The aux half is an AMP instruction.
    pub(crate) amp: bool,
    pub(crate) main_run: MainRun,
    pub(crate) aux_run: AuxRun,
    /// Executes both halves at once.
    pub(crate) bundle_run: Option<BundleRun>,
    pub(crate) main: Op,
    pub(crate) aux: Op,
    /// M registers that the main instruction reads.
    pub(crate) reads: u16,
    /// M registers that the main instruction writes.
    pub(crate) writes: u16,
}

impl Default for Issue {
    fn default() -> Issue {
        Issue {
            kind: Kind::Undefined,
            plain: false,
            slots: 1,
            amp: false,
            main_run: |op, _, _, _| Err(not_implemented(op.opcode)),
            aux_run: |op, _, _, _| Err(not_implemented(op.opcode)),
            bundle_run: None,
            main: Op::default(),
            aux: Op::default(),
            reads: 0,
            writes: 0,
        }
    }
}

impl Issue {
    /// The issue at some words, with its executors.
    fn decode(words: &[u32]) -> Issue {
        let mut issue = Issue::decode_words(words);
        let (main, aux) = (&issue.main, &issue.aux);
        if matches!(issue.kind, Kind::Main | Kind::Bundle) {
            match main.unit {
                Unit::Integer => issue.main_run = integer::executor(main.opcode),
                Unit::Memory => issue.main_run = memory::executor(main.opcode),
                _ => {}
            }
        }
        if matches!(issue.kind, Kind::Aux | Kind::Bundle) {
            issue.aux_run = match aux.unit {
                Unit::AuxInteger => |op, w, _, _| integer::aux(op, &w.registers),
                Unit::Accumulator => accumulator::executor(aux.opcode, aux.imm),
                _ => float::executor(aux.opcode),
            };
            issue.amp = is_amp(aux.opcode);
        }
        issue.slots = main.slots.max(aux.slots).max(1);
        issue.plain = issue.kind == Kind::Bundle
            && main.for_worker()
            && main.allowed_in_repeat()
            && matches!(main.unit, Unit::Integer | Unit::Memory)
            && issue.writes & 0x3000 == 0;
        if issue.plain {
            issue.bundle_run = amp::bundle_executor(main, aux);
        }
        issue
    }

    fn decode_words(words: &[u32]) -> Issue {
        let Some(instruction) = ipu_isa::decode_instruction(words) else {
            return Issue::default();
        };
        let known = |d: &Decoded| d.format().on(Arch::Ipu21);
        match instruction {
            Instruction::Single(d) if known(&d) => {
                if d.format().pipeline == Pipeline::Aux {
                    Issue {
                        kind: Kind::Aux,
                        aux: Op::new(&d),
                        ..Issue::default()
                    }
                } else {
                    Issue {
                        kind: Kind::Main,
                        ..Issue::with_main(&d)
                    }
                }
            }
            Instruction::Bundle(main, aux) if known(&main) && known(&aux) => Issue {
                kind: match ipu_isa::check_bundle(&main, &aux) {
                    Ok(()) => Kind::Bundle,
                    Err(_) => Kind::DoubleDestination,
                },
                aux: Op::new(&aux),
                ..Issue::with_main(&main)
            },
            Instruction::SendPicPair { head, xpic, pic } if known(&head) => Issue {
                kind: Kind::SendPicPair,
                aux: Op {
                    imm: xpic << 18 | pic,
                    ..Op::default()
                },
                ..Issue::with_main(&head)
            },
            _ => Issue::default(),
        }
    }

    fn with_main(d: &Decoded) -> Issue {
        let mut issue = Issue {
            main: Op::new(d),
            ..Issue::default()
        };
        for (operand, &field) in d.format().operands.iter().zip(&d.fields) {
            if let OperandKind::Reg {
                file: RegFile::M,
                width,
                ..
            } = operand.kind
            {
                let mask = ((1u32 << width) - 1) << field;
                if operand.access != Access::Write {
                    issue.reads |= mask as u16;
                }
                if operand.access != Access::Read {
                    issue.writes |= mask as u16;
                }
            }
        }
        issue
    }
}

/// The decoded words of an aligned piece of code.
pub(crate) struct CodeBlock(pub(crate) [Issue; BLOCK_WORDS]);

type Words = [u32; BLOCK_WORDS + 1];

/// All decoded blocks by their words, so that tiles with equal code share them.
#[derive(Default)]
pub(crate) struct CodeCache(Mutex<HashMap<Box<Words>, Arc<CodeBlock>>>);

impl CodeCache {
    /// The block of these words (and the first word of the next block).
    pub(crate) fn block(&self, words: &Words) -> Arc<CodeBlock> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = lock().get(words) {
            return Arc::clone(block);
        }
        let mut issues = [Issue::default(); BLOCK_WORDS];
        for (i, issue) in issues.iter_mut().enumerate() {
            *issue = Issue::decode(&words[i..(i + 2).min(words.len())]);
        }
        let block = Arc::new(CodeBlock(issues));
        let mut blocks = lock();
        if blocks.len() >= CACHE_LIMIT {
            blocks.clear();
        }
        blocks.insert(Box::new(*words), Arc::clone(&block));
        block
    }
}
