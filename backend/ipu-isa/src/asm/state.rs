//! One run: statements, labels, bundles, and the final pass over open values.

use std::collections::HashMap;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::codec::{COISSUE_BIT, check_bundle, send_pic_pair};
use crate::object::Object;
use crate::opcode::Opcode;
use crate::print::FNOP;
use crate::table::{Mode, Pipeline};

use super::cursor::{Cursor, is_ident, is_ident_start};
use super::error::{AsmErrorKind, AsmErrors, Diagnostic, Loc};
use super::expr::{Expr, INSTANCE, Scope};
use super::macros::Macro;
use super::operand::{Arg, CsrSpace, parse_args};
use super::sections::{Build, Pending, Slot, default_flags};
use super::select::{Written, load_constant, written};
use super::source::{Frame, Line, read};
use super::{Assembler, Limits};

pub(super) type Result<T> = std::result::Result<T, AsmErrorKind>;

/// A conditional block.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) active: bool,
    /// A branch was taken, or the whole block is inside an inactive one.
    pub(super) done: bool,
    pub(super) has_else: bool,
    pub(super) loc: Loc,
}

#[derive(Debug)]
struct OpenBundle {
    loc: Loc,
    instructions: Vec<(Written, Loc)>,
    /// An instruction of it was wrong, which has been reported.
    failed: bool,
}

#[derive(Debug)]
pub(super) struct State<'a> {
    pub(super) file: &'a str,

    raw: Vec<String>,
    pub(super) limits: Limits,
    pub(super) byte_targets: bool,
    pub(super) frames: Vec<Frame>,
    /// Macro calls: where and which; entry 0 stands for none.
    pub(super) calls: Vec<(Loc, Rc<str>)>,
    pub(super) macros: HashMap<String, Rc<Macro>>,
    pub(super) conditions: Vec<Condition>,
    pub(super) constants: HashMap<String, Expr>,
    pub(super) labels: IndexMap<String, (usize, u32)>,
    numeric: HashMap<u32, u32>,
    pub(super) globals: IndexMap<String, Loc>,
    pub(super) sections: Vec<Build>,
    pub(super) current: usize,
    pub(super) section_stack: Vec<usize>,
    pub(super) previous: usize,
    pub(super) mode: Option<Mode>,
    pub(super) optimize: bool,
    pub(super) check_mode: bool,
    pub(super) check_repeat: bool,
    bundle: Option<OpenBundle>,
    pub(super) loc: Loc,
    pub(super) lines: u64,
    used: u64,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) stop: bool,
}

impl Scope for State<'_> {
    fn name(&self, name: &str) -> Expr {
        if let Some(e) = self.constants.get(name) {
            return e.clone();
        }
        match self.labels.get(name) {
            Some(&(section, offset)) => Expr::Place(section, offset),
            None => Expr::Symbol(name.into()),
        }
    }

    fn numeric(&self, number: u32, forward: bool) -> Result<Expr> {
        let seen = self.numeric.get(&number).copied().unwrap_or(0);
        if !forward && seen == 0 {
            return Err(AsmErrorKind::NoNumericLabel(format!("{number}b")));
        }
        let instance = if forward { seen + 1 } else { seen };
        Ok(self.name(&format!("{number}{INSTANCE}{instance}")))
    }

    fn here(&self) -> Expr {
        Expr::Place(self.current, self.section().offset())
    }
}

impl<'a> State<'a> {
    pub(super) fn new(assembler: &Assembler, file: &'a str) -> State<'a> {
        let constants = assembler
            .defines
            .iter()
            .map(|(n, v)| (n.clone(), Expr::Int(*v)))
            .collect();
        State {
            file,

            raw: Vec::new(),
            limits: assembler.limits,
            byte_targets: assembler.byte_targets,
            frames: Vec::new(),
            calls: vec![(Loc::default(), "".into())],
            macros: HashMap::new(),
            conditions: Vec::new(),
            constants,
            labels: IndexMap::new(),
            numeric: HashMap::new(),
            globals: IndexMap::new(),
            sections: vec![Build::new(".text", default_flags(".text"))],
            current: 0,
            section_stack: Vec::new(),
            previous: 0,
            mode: None,
            optimize: false,
            check_mode: true,
            check_repeat: true,
            bundle: None,
            loc: Loc::default(),
            lines: 0,
            used: 0,
            diagnostics: Vec::new(),
            stop: false,
        }
    }

    pub(super) fn section(&self) -> &Build {
        &self.sections[self.current]
    }

    pub(super) fn section_mut(&mut self) -> &mut Build {
        &mut self.sections[self.current]
    }

    pub(super) fn error_at(&mut self, loc: Loc, kind: AsmErrorKind) {
        if self.diagnostics.len() >= self.limits.errors.max(1) {
            self.stop = true;
            return;
        }
        self.stop |= matches!(kind, AsmErrorKind::Limit("lines" | "output bytes"));
        let mut expansion = Vec::new();
        let mut call = loc.call;
        while call != 0 && expansion.len() < 8 {
            let Some((at, name)) = self.calls.get(call as usize) else {
                break;
            };
            expansion.push((name.to_string(), at.line));
            call = at.call;
        }
        let raw = self.raw.get((loc.line as usize).wrapping_sub(1));
        self.diagnostics.push(Diagnostic {
            file: self.file.to_string(),
            line: loc.line,
            column: loc.col + 1,
            kind,
            source_line: raw.cloned().unwrap_or_default(),
            expansion,
        });
    }

    fn error(&mut self, kind: AsmErrorKind) {
        self.error_at(self.loc, kind);
    }

    pub(super) fn run(mut self, source: &str) -> std::result::Result<Object, AsmErrors> {
        let (lines, errors) = read(source);
        self.raw = source.lines().map(str::to_string).collect();

        for (loc, kind) in errors {
            self.error_at(loc, kind);
        }
        let lines: Rc<[Line]> = lines.into();
        self.push_frame(Frame {
            lines,
            at: 0,
            call: 0,
            again: 0,
            conditions: 0,
            is_macro: false,
        });
        while !self.stop {
            let Some(frame) = self.frames.last_mut() else {
                break;
            };
            let call = frame.call;
            match frame.next() {
                Some(line) => self.line(&line, call),
                None => self.pop_frame(),
            }
        }
        if let Some(open) = self.bundle.take() {
            self.error_at(open.loc, AsmErrorKind::Unclosed("{"));
        }
        let truncated = self.stop;
        let object = if truncated {
            Object::default()
        } else {
            self.finish()
        };
        if self.diagnostics.is_empty() {
            return Ok(object);
        }
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|d| (d.line, d.column));
        Err(AsmErrors {
            diagnostics,
            truncated: truncated || self.stop,
        })
    }

    pub(super) fn push_frame(&mut self, frame: Frame) {
        if self.frames.len() >= self.limits.depth {
            self.error(AsmErrorKind::Limit("depth of macros"));
            // Deep recursion gives no more useful messages.
            self.stop = true;
            return;
        }
        self.frames.push(frame);
    }

    fn pop_frame(&mut self) {
        let base = self.frames.pop().map_or(0, |f| f.conditions);
        while self.conditions.len() > base {
            if let Some(c) = self.conditions.pop() {
                self.error_at(c.loc, AsmErrorKind::Unclosed(".if"));
            }
        }
    }

    pub(super) fn active(&self) -> bool {
        self.conditions.last().is_none_or(|c| c.active)
    }

    fn line(&mut self, line: &Line, call: u32) {
        self.lines += 1;
        if self.lines > self.limits.lines {
            self.error(AsmErrorKind::Limit("lines"));
            self.stop = true;
            return;
        }
        let depth = self.frames.len();
        let mut c = Cursor::new(&line.text);
        while !self.stop && !c.at_end() {
            self.loc = Loc {
                line: line.number,
                col: c.pos() as u32,
                call,
            };
            if c.eat(";") {
                continue;
            }
            let statement = statement_text(c.rest());
            let result = if self.active() && c.eat("{") {
                self.open_bundle()
            } else if self.active() && c.eat("}") {
                self.close_bundle()
            } else {
                let mut inner = Cursor::new(statement);
                let done = self.statement(&mut inner, statement);
                let mut left = statement.len();
                c.take_while(|ch| {
                    let take = left > 0;
                    left = left.saturating_sub(ch.len_utf8());
                    take
                });
                if !self.active() {
                    // Braces of skipped code are not read.
                    c.take_while(|ch| ch != ';');
                }
                done
            };
            if let Err(kind) = result {
                if let Some(open) = &mut self.bundle {
                    open.failed = true;
                }
                self.error(kind);
            }
            if self.frames.len() > depth && !c.at_end() {
                // A call in the middle of a line: its body comes before the rest.
                let rest = format!("{}{}", " ".repeat(c.pos()), c.rest());
                let lines = Rc::from([Line {
                    text: rest.into(),
                    number: line.number,
                }]);
                let conditions = usize::MAX;
                let frame = Frame {
                    lines,
                    at: 0,
                    call,
                    again: 0,
                    conditions,
                    is_macro: false,
                };
                let body = self.frames.pop();
                self.push_frame(frame);
                self.frames.extend(body);
                return;
            }
        }
    }

    /// One statement: labels, then a directive, an assignment, a call or an instruction.
    fn statement(&mut self, c: &mut Cursor<'_>, whole: &str) -> Result<()> {
        let base = self.loc.col;
        loop {
            c.skip_blanks();
            self.loc.col = base + c.pos() as u32;
            let Some(name) = label(c) else { break };
            if self.active() {
                self.define_label(name)?;
            }
        }
        if c.at_end() {
            return Ok(());
        }
        let start = c.clone();
        let Some(name) = c.ident() else {
            if !self.active() {
                return Ok(());
            }
            return Err(AsmErrorKind::expected("a statement", c.rest()));
        };
        if !self.active() {
            return self.skipped_directive(name, c);
        }
        let mut probe = c.clone();
        if probe.eat("=") && !probe.rest().starts_with('=') {
            *c = start;
            return self.assign(c, "=");
        }
        if let Some(m) = self.macros.get(name).cloned() {
            return self.call_macro(&m, c.rest());
        }
        if name.starts_with('.') {
            return self.directive(name, c, whole);
        }
        self.instruction(name, c)
    }

    fn define_label(&mut self, name: &str) -> Result<()> {
        if self.bundle.is_some() {
            return Err(AsmErrorKind::InBundle("a label"));
        }
        let place = (self.current, self.section().offset());
        let name = match name.parse::<u32>() {
            Ok(n) => {
                let count = self.numeric.entry(n).or_insert(0);
                *count += 1;
                format!("{n}{INSTANCE}{count}")
            }
            Err(_) => name.to_string(),
        };
        if self.labels.contains_key(&name) || self.constants.contains_key(&name) {
            return Err(AsmErrorKind::Redefined(name));
        }
        self.labels.insert(name, place);
        Ok(())
    }

    /// The value that must be known here.
    pub(super) fn constant(&self, e: &Expr) -> Result<i64> {
        let not_constant = || AsmErrorKind::NotConstant(e.first_name());
        match e.eval(&|_| None) {
            Ok(value) => value.as_int().ok_or_else(not_constant),
            Err(AsmErrorKind::NotRelocatable) => Err(not_constant()),
            Err(other) => Err(other),
        }
    }

    /// Claims bytes of the output limit.
    pub(super) fn room(&mut self, bytes: u64) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limits.output_bytes as u64 {
            self.stop = true;
            return Err(AsmErrorKind::Limit("output bytes"));
        }
        Ok(())
    }

    fn instruction(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
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
        self.check_mode(&w)?;
        match &mut self.bundle {
            Some(open) => {
                if open.instructions.len() < 3 {
                    open.instructions.push((w, self.loc));
                }
                Ok(())
            }
            None => self.solo(w, self.loc),
        }
    }

    fn check_mode(&self, w: &Written) -> Result<()> {
        if !self.check_mode {
            return Ok(());
        }
        let of_csr = w.csr().and_then(|c| match c.space {
            CsrSpace::Common => None,
            CsrSpace::Worker | CsrSpace::WorkerUpper => Some(Mode::Worker),
            CsrSpace::Supervisor => Some(Mode::Supervisor),
        });
        for wanted in [Some(w.format().mode), of_csr] {
            match (wanted, self.mode) {
                (Some(Mode::Worker), Some(Mode::Supervisor)) => {
                    return Err(AsmErrorKind::Mode("Worker"));
                }
                (Some(Mode::Supervisor), Some(Mode::Worker)) => {
                    return Err(AsmErrorKind::Mode("Supervisor"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn start_slot(&mut self, bytes: u64, loc: Loc) -> Result<()> {
        self.room(bytes)?;
        let check_repeat = self.check_repeat;
        let section = self.section_mut();
        if !section.offset().is_multiple_of(4) {
            return Err(AsmErrorKind::Alignment(
                "instructions must start at a multiple of 4",
            ));
        }
        let offset = section.offset();
        section.align = section.align.max(4);
        section.slots.push(Slot {
            offset,
            loc,
            check_repeat,
        });
        Ok(())
    }

    /// Writes an instruction word, now or when its values are known.
    fn emit(&mut self, w: Written, coissue: bool, loc: Loc) -> Result<()> {
        let offset = self.section().offset();
        let flag = if coissue { COISSUE_BIT } else { 0 };
        let open = |e: &Expr| e.eval(&|_| None);
        let known = |a: &Arg| match a {
            Arg::Value(e) => open(e).is_ok_and(|v| v.base.is_none()),
            _ => true,
        };
        if w.format().opcode == Opcode::Rpt {
            let section = self.section_mut();
            section.align = section.align.max(8);
        }
        if w.args.iter().all(known) {
            let (decoded, _) = w.resolve(&open, self.byte_targets)?;
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

    fn open_bundle(&mut self) -> Result<()> {
        if self.bundle.is_some() {
            return Err(AsmErrorKind::InBundle("another bundle"));
        }
        self.bundle = Some(OpenBundle {
            loc: self.loc,
            instructions: Vec::new(),
            failed: false,
        });
        Ok(())
    }

    fn close_bundle(&mut self) -> Result<()> {
        let open = self.bundle.take().ok_or(AsmErrorKind::BundleClose)?;
        let loc = open.loc;
        if open.failed {
            let end = self.section().data.len() + 8;
            self.section_mut().data.resize(end, 0);
            return Ok(());
        }
        let [mut main, mut aux] = match <[_; 2]>::try_from(open.instructions) {
            Ok(pair) => pair,
            Err(list) => {
                self.error_at(loc, AsmErrorKind::BundleSize(list.len()));
                return Ok(());
            }
        };
        let pipelines = (main.0.format().pipeline, aux.0.format().pipeline);
        if self.optimize && pipelines == (Pipeline::Aux, Pipeline::Main) {
            std::mem::swap(&mut main, &mut aux);
        }
        let (m, a) = (main.0.skeleton(), aux.0.skeleton());
        if let Err(e) = check_bundle(&m, &a) {
            self.error_at(loc, e.into());
            return Ok(());
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

    pub(super) fn in_bundle(&self) -> bool {
        self.bundle.is_some()
    }
}

/// Takes `name:` or `1:`.
fn label<'t>(c: &mut Cursor<'t>) -> Option<&'t str> {
    let mut probe = c.clone();
    probe.skip_blanks();
    let start = probe.peek()?;
    if !is_ident_start(start) && !start.is_ascii_digit() {
        return None;
    }
    let name = probe.take_while(is_ident);
    let number = start.is_ascii_digit();
    if number && !name.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    if !probe.eat(":") {
        return None;
    }
    *c = probe;
    Some(name)
}

/// The text up to a `;` or brace outside quotes. Braces of macro arguments in
/// parentheses stay.
fn statement_text(text: &str) -> &str {
    let (mut quote, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote => escaped = true,
            '"' => quote = !quote,
            ';' | '{' | '}' if !quote => return &text[..at],
            _ => {}
        }
    }
    text
}
