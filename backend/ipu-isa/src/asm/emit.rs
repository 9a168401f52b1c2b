//! Instructions and bundles: checks, words, places for open values.

use crate::codec::{COISSUE_BIT, check_bundle, send_pic_pair};
use crate::opcode::Opcode;
use crate::print::FNOP;
use crate::table::{Access, Arch, Mode, OperandKind, Pipeline};

use super::cursor::Cursor;
use super::error::{AsmErrorKind, Loc};
use super::expr::Expr;
use super::listing::Event;
use super::operand::{Arg, parse_args};
use super::sections::{Pending, Slot};
use super::select::{Written, load_constant, written};
use super::state::{Policy, Result, State};
use crate::csr::CsrSpace;

#[derive(Debug)]
pub(super) struct OpenBundle {
    pub(super) loc: Loc,
    instructions: Vec<(Written, Loc)>,
    /// Instructions seen, also those that are not kept.
    count: usize,
    /// An instruction of it was wrong, which has been reported.
    pub(super) failed: bool,
}

/// The name of a generation in messages and options.
fn arch_name(arch: Arch) -> &'static str {
    match arch {
        Arch::Ipu1 => "IPU1",
        Arch::Ipu2 => "IPU2",
        Arch::Ipu21 => "IPU21",
    }
}

impl State<'_> {
    pub(super) fn instruction(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        let lower;
        let name = if name.bytes().any(|b| b.is_ascii_uppercase()) {
            lower = name.to_ascii_lowercase();
            &lower
        } else {
            name
        };
        let args = parse_args(c, self)?;
        if name == "ldconst" {
            if self.bundle.is_some() {
                return Err(AsmErrorKind::InBundle("`ldconst`"));
            }
            let value = match args.get(1) {
                Some(Arg::Value(e)) => e.eval(&|_| None).ok().and_then(|v| v.as_int()),
                _ => None,
            };
            for w in load_constant(&args, value)? {
                self.solo(w, self.loc)?;
            }
            return Ok(());
        }
        let w = written(name, args)?;
        self.check_arch(&w)?;
        if self.checks.mode != Policy::Allow
            && let Some(kind) = self.wrong_mode(&w)
        {
            self.broken(self.checks.mode, self.loc, kind);
        }
        if self.checks.operands != Policy::Allow
            && let Some(kind) = same_result(&w)
        {
            self.broken(self.checks.operands, self.loc, kind);
        }
        match &mut self.bundle {
            Some(open) => {
                open.count += 1;
                if open.instructions.len() < 2 {
                    open.instructions.push((w, self.loc));
                }
                Ok(())
            }
            None => self.solo(w, self.loc),
        }
    }

    fn check_arch(&self, w: &Written) -> Result<()> {
        let Some(arch) = self.config.arch else {
            return Ok(());
        };
        let archs = &w.format().archs;
        if !w.format().on(arch) {
            let names: Vec<&str> = archs.iter().map(|&a| arch_name(a)).collect();
            return Err(AsmErrorKind::Arch(names.join(" or ")));
        }
        if arch != Arch::Ipu21 && w.csr().is_some_and(|c| c.is_f8()) {
            return Err(AsmErrorKind::Arch(arch_name(Arch::Ipu21).to_string()));
        }
        Ok(())
    }

    fn wrong_mode(&self, w: &Written) -> Option<AsmErrorKind> {
        let of_csr = w.csr().and_then(|c| match c.space {
            CsrSpace::Common => None,
            CsrSpace::Worker | CsrSpace::WorkerUpper => Some(Mode::Worker),
            CsrSpace::Supervisor => Some(Mode::Supervisor),
        });
        [Some(w.format().mode), of_csr]
            .into_iter()
            .find_map(|wanted| match (wanted?, self.mode?) {
                (Mode::Worker, Mode::Supervisor) => Some(AsmErrorKind::Mode("Worker")),
                (Mode::Supervisor, Mode::Worker) => Some(AsmErrorKind::Mode("Supervisor")),
                _ => None,
            })
    }

    fn start_slot(&mut self, bytes: u64, loc: Loc) -> Result<()> {
        self.room(bytes)?;
        let check_repeat = self.checks.repeat;
        let section = self.section_mut();
        if !section.offset().is_multiple_of(4) {
            return Err(AsmErrorKind::Alignment(
                "instructions must start at a multiple of 4",
            ));
        }
        if section.flags.nobits {
            return Err(AsmErrorKind::Alignment(
                "instructions cannot stand in a section without contents",
            ));
        }
        let offset = section.offset();
        section.align = section.align.max(4);
        section.slots.push(Slot {
            offset,
            loc,
            check_repeat,
        });
        if self.config.listing {
            self.events.push(Event::Code {
                section: self.current,
                offset,
                bytes: bytes as u32,
            });
        }
        Ok(())
    }

    /// Writes an instruction word, now or when its values are known.
    fn emit(&mut self, w: Written, coissue: bool, loc: Loc) -> Result<()> {
        let offset = self.section().offset();
        let flag = if coissue { COISSUE_BIT } else { 0 };
        let open = |e: &Expr| e.eval(&|_| None);
        let known = |a: &Arg| match a {
            Arg::Value(e) | Arg::Modified(_, e) => open(e).is_ok_and(|v| v.base.is_none()),
            _ => true,
        };
        if w.format().opcode == Opcode::Rpt && self.checks.repeat != Policy::Allow {
            let section = self.section_mut();
            section.align = section.align.max(8);
        }
        if w.args.iter().all(known) {
            let (decoded, _) = w.resolve(&open, self.config.byte_targets)?;
            if let [xpic, pic] = w.word2.as_slice() {
                let (xpic, pic) = (self.constant(xpic)?, self.constant(pic)?);
                let pair = send_pic_pair(decoded, xpic, pic)?;
                for word in pair.words() {
                    self.section_mut().push_word(word);
                }
                return Ok(());
            }
            self.section_mut().push_word(decoded.word() | flag);
            return Ok(());
        }
        if !w.word2.is_empty() {
            return Err(AsmErrorKind::NotConstant(w.format().mnemonic.clone()));
        }
        let section = self.section_mut();
        section.push_word(w.format().matches | flag);
        let pending = Pending::Instruction {
            written: Box::new(w),
            coissue,
        };
        section.pending.push((offset, loc, pending));
        Ok(())
    }

    fn solo(&mut self, w: Written, loc: Loc) -> Result<()> {
        let two_words = w.format().words == 2;
        if two_words {
            let section = self.section_mut();
            if !section.offset().is_multiple_of(8) {
                return Err(AsmErrorKind::Alignment(
                    "`sendpicp` must start at a multiple of 8",
                ));
            }
            section.align = section.align.max(8);
        }
        let bytes = if w.word2.is_empty() { 4 } else { 8 };
        self.start_slot(bytes, loc)?;
        let end = self.section().data.len() + bytes as usize;
        let done = self.emit(w, false, loc);
        // Places stay right after an error.
        self.section_mut().data.resize(end, 0);
        done
    }

    pub(super) fn open_bundle(&mut self) -> Result<()> {
        if self.bundle.is_some() {
            return Err(AsmErrorKind::InBundle("another bundle"));
        }
        self.bundle = Some(OpenBundle {
            loc: self.loc,
            instructions: Vec::new(),
            count: 0,
            failed: false,
        });
        Ok(())
    }

    pub(super) fn close_bundle(&mut self) -> Result<()> {
        let open = self.bundle.take().ok_or(AsmErrorKind::BundleClose)?;
        let loc = open.loc;
        if open.failed {
            let end = self.section().data.len() + 8;
            self.section_mut().data.resize(end, 0);
            return Ok(());
        }
        let pair = <[_; 2]>::try_from(open.instructions);
        let (Ok([mut main, mut aux]), 2) = (pair, open.count) else {
            self.error_at(loc, AsmErrorKind::BundleSize(open.count));
            return Ok(());
        };
        let pipelines = (main.0.format().pipeline, aux.0.format().pipeline);
        if self.optimize && pipelines == (Pipeline::Aux, Pipeline::Main) {
            std::mem::swap(&mut main, &mut aux);
        }
        let (m, a) = (main.0.skeleton(), aux.0.skeleton());
        if let Err(e) = check_bundle(&m, &a) {
            let can = main.0.format().can_bundle() && aux.0.format().can_bundle();
            let policy = if can {
                self.checks.bundles
            } else {
                Policy::Error
            };
            self.broken(policy, loc, e.into());
            if policy == Policy::Error {
                return Ok(());
            }
        }
        let filler = aux.0.args.get(1) == Some(&Arg::Value(Expr::Int(0))) && a.word() == FNOP;
        let at = self.section().offset() % 8;
        if self.optimize && m.opcode == Opcode::Rpt && filler && at == 4 {
            return self.solo(main.0, main.1);
        }
        self.start_slot(8, loc)?;
        let end = self.section().data.len() + 8;
        let main_done = self.emit(main.0, true, main.1);
        self.section_mut().data.resize(end - 4, 0);
        let aux_done = self.emit(aux.0, true, aux.1);
        self.section_mut().data.resize(end, 0);
        main_done.and(aux_done)
    }
}

/// Two loaded results that share a register.
fn same_result(w: &Written) -> Option<AsmErrorKind> {
    let results = w
        .format()
        .operands
        .iter()
        .zip(&w.args)
        .filter_map(|(o, a)| match (o.kind, o.access, a) {
            (OperandKind::Reg { width, .. }, Access::Write, Arg::Reg(r)) => Some((r, width)),
            _ => None,
        });
    let (a, wide) = results.clone().next()?;
    let (b, other) = results.clone().nth(1)?;
    let number = a.first.max(b.first);
    let shared = a.file == b.file && number < (a.first + wide).min(b.first + other);
    shared.then(|| AsmErrorKind::SameResult {
        mnemonic: w.format().mnemonic.clone(),
        file: a.file.letter(),
        number,
    })
}
