//! Looking at a run: observers, breakpoints and memory watches. A tile without any of them runs
//! at full speed and never looks at this module.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Registers;
use crate::fault::Context;
use crate::memory::Ram;

/// An instruction or bundle about to be issued.
#[derive(Debug)]
pub struct IssueEvent<'a> {
    /// Logical tile.
    pub tile: u32,
    /// Issuing context.
    pub context: Context,
    /// Its program counter.
    pub pc: u32,
    /// Clock of the issue.
    pub cycle: u64,
    /// The word at the program counter and the next one.
    pub words: [u32; 2],
    /// Registers before the instruction.
    pub registers: &'a Registers,
}

impl IssueEvent<'_> {
    /// Text of the instruction.
    pub fn text(&self) -> String {
        disassemble(self.words).0
    }
}

/// Text of the instruction at the first word, and its words.
pub(crate) fn disassemble(words: [u32; 2]) -> (String, u32) {
    use ipu_isa::Instruction;
    match ipu_isa::decode_instruction(&words) {
        Some(instruction) => {
            let count = match &instruction {
                Instruction::Single(_) => 1,
                _ => 2,
            };
            (instruction.to_string(), count)
        }
        None => (format!(".word {:#010x}", words[0]), 1),
    }
}

/// Is told of every issue on the tiles that it was attached to. Events of one tile come in order;
/// events of different tiles come in an order that depends on the program alone.
pub trait Observer: Send {
    /// Before an issue. `Break` stops the run before it.
    fn issue(&mut self, event: &IssueEvent<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&IssueEvent<'_>) + Send> Observer for F {
    fn issue(&mut self, event: &IssueEvent<'_>) -> ControlFlow<()> {
        self(event);
        ControlFlow::Continue(())
    }
}

pub(crate) type SharedObserver = Arc<Mutex<dyn Observer>>;

/// A watched range and what it held.
struct Watch {
    address: u32,
    bytes: Vec<u8>,
}

/// What is looked at on one tile.
#[derive(Default)]
pub(crate) struct TileDebug {
    pub(crate) observers: Vec<SharedObserver>,
    pub(crate) breaks: Vec<u32>,
    watches: Vec<Watch>,
    /// The issue at which the run stopped; it does not stop there again.
    passed: Option<(Context, u32, u64)>,
}

/// Why a tile stopped.
pub(crate) enum Stopped {
    Break,
    Watch(u32),
}

fn read(ram: &Ram, address: u32, len: usize) -> Vec<u8> {
    let bytes = (0..len as u32).map(|i| ram.read8(address.wrapping_add(i)).unwrap_or(0));
    bytes.collect()
}

impl TileDebug {
    pub(crate) fn watch(&mut self, ram: &Ram, address: u32, len: usize) {
        self.watches.push(Watch {
            address,
            bytes: read(ram, address, len),
        });
    }

    /// Takes what the watched memory holds now as unchanged.
    pub(crate) fn accept(&mut self, ram: &Ram) {
        for watch in &mut self.watches {
            watch.bytes = read(ram, watch.address, watch.bytes.len());
        }
    }

    /// Before an issue: whether the run stops here.
    pub(crate) fn before(&mut self, event: &IssueEvent<'_>) -> Option<Stopped> {
        let at = (event.context, event.pc, event.cycle);
        if self.passed.take() == Some(at) {
            return None;
        }
        let mut stop = self.breaks.contains(&event.pc);
        for observer in &self.observers {
            let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
            stop |= observer.issue(event).is_break();
        }
        stop.then(|| {
            self.passed = Some(at);
            Stopped::Break
        })
    }

    /// After an issue or an incoming item: the first watched byte that changed.
    pub(crate) fn after(&mut self, ram: &Ram) -> Option<Stopped> {
        for watch in &mut self.watches {
            let now = read(ram, watch.address, watch.bytes.len());
            let changed = now.iter().zip(&watch.bytes).position(|(a, b)| a != b);
            if let Some(at) = changed {
                watch.bytes = now;
                return Some(Stopped::Watch(watch.address + at as u32));
            }
        }
        None
    }
}
