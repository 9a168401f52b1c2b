//! Sections under construction.

use crate::codec::{COISSUE_BIT, Instruction, decode, decode_instruction};
use crate::object::{RelocKind, SectionFlags};
use crate::opcode::Opcode;
use crate::print::NOP;
use crate::table::Flag;

use super::error::{AsmErrorKind, Loc};
use super::expr::Expr;
use super::select::Written;
use super::state::Policy;

/// An instruction in a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: u32,
    pub(crate) loc: Loc,
    /// What broken repeat rules are, if this is `rpt`.
    pub(crate) check_repeat: Policy,
}

/// A place whose value was open when it was written.
#[derive(Debug)]
pub(crate) enum Pending {
    Instruction {
        written: Box<Written>,
        coissue: bool,
    },
    Data {
        expr: Expr,
        kind: RelocKind,
    },
}

#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) name: String,
    pub(crate) flags: SectionFlags,
    pub(crate) align: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) pending: Vec<(u32, Loc, Pending)>,
}

/// The flags that a section has when none are written.
pub(crate) fn default_flags(name: &str) -> SectionFlags {
    let is = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let (exec, nobits) = (is(".text"), is(".bss"));
    let write = is(".data") || nobits;
    let alloc = exec || write || is(".rodata");
    SectionFlags {
        alloc,
        write,
        exec,
        nobits,
        ..SectionFlags::default()
    }
}

impl Build {
    pub(crate) fn new(name: &str, flags: SectionFlags) -> Build {
        let align = if flags.exec { 4 } else { 1 };
        let (slots, pending) = (Vec::new(), Vec::new());
        Build {
            name: name.to_string(),
            flags,
            align,
            data: Vec::new(),
            slots,
            pending,
        }
    }

    pub(crate) fn offset(&self) -> u32 {
        // The output limit keeps this far below 2^32.
        self.data.len() as u32
    }

    /// Pads to a multiple of `to`; text gets `nop` unless a pattern is given.
    pub(crate) fn pad(&mut self, to: u32, fill: Option<&[u8]>) {
        self.align = self.align.max(to);
        let end = self.data.len().next_multiple_of(to.max(1) as usize);
        match fill {
            Some(pattern) => {
                let missing = end - self.data.len();
                let odd = missing % pattern.len().max(1);
                self.data.resize(end - missing + odd, 0);
                self.data
                    .extend(pattern.iter().cycle().take(missing - odd).copied());
            }
            None if self.flags.exec => {
                let words = self.data.len().next_multiple_of(4).min(end);
                self.data.resize(words, 0);
                while self.data.len() < end {
                    self.data.extend(NOP.to_le_bytes());
                }
            }
            None => self.data.resize(end, 0),
        }
    }

    pub(crate) fn push_word(&mut self, word: u32) {
        self.data.extend(word.to_le_bytes());
    }

    pub(crate) fn set_word(&mut self, offset: u32, word: u32) {
        let at = offset as usize;
        if let Some(place) = self.data.get_mut(at..at + 4) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn words_at(&self, offset: u32) -> Vec<u32> {
        let bytes = self.data.get(offset as usize..).unwrap_or(&[]);
        let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        bytes.chunks_exact(4).take(2).map(word).collect()
    }

    fn rpt_body(&self, slot: &Slot) -> Option<(u32, u32)> {
        let words = self.words_at(slot.offset);
        let head = decode(*words.first()?)?;
        if head.opcode != Opcode::Rpt {
            return None;
        }
        let length = if words[0] & COISSUE_BIT != 0 { 8 } else { 4 };
        Some((slot.offset + length, head.fields[1] + 1))
    }

    /// Checks the rules of repeated bodies; the values must be filled in.
    pub(crate) fn check_repeats(&self, report: &mut dyn FnMut(Policy, Loc, AsmErrorKind)) {
        for (at, slot) in self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.check_repeat != Policy::Allow)
        {
            let Some((start, bundles)) = self.rpt_body(slot) else {
                continue;
            };
            let policy = slot.check_repeat;
            let mut error = |loc, text| report(policy, loc, AsmErrorKind::Repeat(text));
            if start % 8 != 0 {
                error(
                    slot.loc,
                    "the body of `rpt` must start at a multiple of 8: put a solo `rpt` at 4 \
                     modulo 8 and a bundled one at 0 modulo 8",
                );
                continue;
            }
            for k in 0..bundles {
                let inside = self.slots.get(at + 1 + k as usize);
                let inside = inside.filter(|s| s.offset == start + 8 * k);
                let Some(inside) = inside else {
                    error(
                        slot.loc,
                        "the body of `rpt` must consist of that many bundles",
                    );
                    break;
                };
                match decode_instruction(&self.words_at(inside.offset)) {
                    Some(Instruction::Bundle(main, aux)) => {
                        let barred = |f| main.format().has(f) || aux.format().has(f);
                        if barred(Flag::Control) || barred(Flag::System) {
                            error(
                                inside.loc,
                                "control and system instructions cannot stand in the body of `rpt`",
                            );
                            break;
                        }
                    }
                    _ => {
                        error(inside.loc, "only bundles can stand in the body of `rpt`");
                        break;
                    }
                }
            }
        }
    }
}
