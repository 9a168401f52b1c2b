//! One run: texts, statements, labels, messages.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::object::{Binding, Object, SymbolKind, Visibility};
use crate::table::Mode;

use super::cursor::{Cursor, is_ident, is_ident_start};
use super::emit::OpenBundle;
use super::error::{AsmErrorKind, AsmErrors, Diagnostic, Expansion, Loc, Severity};
use super::expr::{Expr, INSTANCE, Scope};
use super::listing::Event;
use super::macros::Macro;
use super::sections::{Build, default_flags};
use super::source::{Frame, Sources, Statement};
use super::{Assembled, Assembler, Limits};

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

/// What happens to a broken rule of the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Policy {
    #[default]
    Error,
    Warn,
    Allow,
}

/// The rules that directives switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checks {
    pub(super) mode: Policy,
    pub(super) repeat: Policy,
    pub(super) operands: Policy,
    pub(super) bundles: Policy,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks {
            mode: Policy::Error,
            repeat: Policy::Error,
            // Published vectors write one register twice: doubtful, yet assembled.
            operands: Policy::Warn,
            bundles: Policy::Error,
        }
    }
}

/// What directives say about a symbol.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) binding: Option<Binding>,
    pub(super) visibility: Visibility,
    pub(super) kind: SymbolKind,
    pub(super) size: Option<(Expr, Loc)>,
    pub(super) loc: Loc,
}

/// Most bytes of all files and expansions together.
const MAX_TEXT: usize = 48 << 20;

/// The operands of `sync` by name; a source may define the names otherwise.
fn sync_zone(name: &str) -> Option<i64> {
    Some(match name.strip_prefix("SYNCZONE_")? {
        "RECV" => 0,
        "ANS" => 1,
        "LOCAL" => 2,
        "INTERNAL" => 3,
        "GS1" => 4,
        "GS1H" => 5,
        "GS2" => 6,
        "GS2H" => 7,
        _ => return None,
    })
}

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 100;

#[derive(Debug)]
pub(super) struct State<'a> {
    pub(super) config: &'a Assembler,
    pub(super) name: &'a str,
    pub(super) sources: Sources,
    pub(super) limits: Limits,
    pub(super) frames: Vec<Frame>,
    /// Macro calls: where and which; entry 0 stands for none.
    pub(super) calls: Vec<(Loc, Rc<str>)>,
    pub(super) macros: HashMap<String, Rc<Macro>>,
    pub(super) alternate: bool,
    pub(super) conditions: Vec<Condition>,
    pub(super) constants: HashMap<String, Expr>,
    pub(super) labels: IndexMap<String, (usize, u32)>,
    numeric: HashMap<u32, u32>,
    pub(super) attributes: IndexMap<String, Attributes>,
    pub(super) sections: Vec<Build>,
    pub(super) section_names: HashMap<String, usize>,
    pub(super) current: usize,
    pub(super) section_stack: Vec<(usize, usize)>,
    pub(super) previous: usize,
    pub(super) mode: Option<Mode>,
    pub(super) optimize: bool,
    pub(super) checks: Checks,
    pub(super) bundle: Option<OpenBundle>,
    pub(super) loc: Loc,
    /// The statement at work, for messages about expanded text.
    text: Option<Rc<str>>,
    pub(super) lines: u64,
    text_bytes: usize,
    pub(super) used: u64,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    doubt: Cell<Option<(&'static str, &'static str)>>,
    pub(super) events: Vec<Event>,
    pub(super) files: Vec<PathBuf>,
    pub(super) stop: bool,
    pub(super) ended: bool,
}

impl Scope for State<'_> {
    fn name(&self, name: &str) -> Expr {
        if let Some(e) = self.constants.get(name) {
            return e.clone();
        }
        let weak = |a: &Attributes| a.binding == Some(Binding::Weak);
        match self.labels.get(name) {
            // Another object may replace it.
            Some(_) if self.attributes.get(name).is_some_and(weak) => Expr::Symbol(name.into()),
            Some(&(section, offset)) => Expr::Place(section, offset),
            None => match sync_zone(name) {
                Some(zone) => Expr::Int(zone),
                None => Expr::Symbol(name.into()),
            },
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

    fn gnu(&self) -> bool {
        self.config.gnu_expressions
    }

    fn doubtful(&self, outer: &'static str, inner: &'static str) {
        self.doubt.set(Some((outer, inner)));
    }
}

impl<'a> State<'a> {
    pub(super) fn new(config: &'a Assembler, name: &'a str) -> State<'a> {
        let defines = config.defines.iter();
        State {
            config,
            name,
            sources: Sources::default(),
            limits: config.limits,
            frames: Vec::new(),
            calls: vec![(Loc::default(), "".into())],
            macros: HashMap::new(),
            alternate: false,
            conditions: Vec::new(),
            constants: defines.map(|(n, v)| (n.clone(), Expr::Int(*v))).collect(),
            labels: IndexMap::new(),
            numeric: HashMap::new(),
            attributes: IndexMap::new(),
            sections: vec![Build::new(".text", default_flags(".text"))],
            section_names: HashMap::from([(".text".to_string(), 0)]),
            current: 0,
            section_stack: Vec::new(),
            previous: 0,
            mode: config.mode,
            optimize: false,
            checks: Checks::default(),
            bundle: None,
            loc: Loc::default(),
            text: None,
            lines: 0,
            text_bytes: 0,
            used: 0,
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            doubt: Cell::new(None),
            events: Vec::new(),
            files: Vec::new(),
            stop: false,
            ended: false,
        }
    }

    pub(super) fn section(&self) -> &Build {
        &self.sections[self.current]
    }

    pub(super) fn section_mut(&mut self) -> &mut Build {
        &mut self.sections[self.current]
    }

    fn diagnostic(&self, severity: Severity, loc: Loc, kind: AsmErrorKind) -> Diagnostic {
        let file = |loc: Loc| {
            let name = self.sources.files.get(loc.file as usize);
            name.cloned().unwrap_or_default()
        };
        let mut expansion = Vec::new();
        let mut call = loc.call;
        while call != 0 && expansion.len() < 8 {
            let Some((at, name)) = self.calls.get(call as usize) else {
                break;
            };
            expansion.push(Expansion {
                name: name.to_string(),
                file: file(*at),
                line: at.line,
                column: at.col + 1,
            });
            call = at.call;
        }
        let raw = self.sources.raw.get(loc.raw as usize);
        let expanded = self
            .text
            .as_ref()
            .filter(|_| loc.call != 0 && (loc.raw, loc.call) == (self.loc.raw, self.loc.call));
        let source_line = match (expanded, raw) {
            (Some(text), _) => text.to_string(),
            (None, Some(raw)) => raw.to_string(),
            _ => String::new(),
        };
        Diagnostic {
            severity,
            file: file(loc),
            line: loc.line,
            column: loc.col + 1,
            kind,
            source_line,
            expansion,
        }
    }

    pub(super) fn error_at(&mut self, loc: Loc, kind: AsmErrorKind) {
        if self.diagnostics.len() >= self.limits.errors.max(1) {
            self.stop = true;
            return;
        }
        self.stop |= matches!(kind, AsmErrorKind::Limit("lines" | "output bytes"));
        let diagnostic = self.diagnostic(Severity::Error, loc, kind);
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn error(&mut self, kind: AsmErrorKind) {
        self.error_at(self.loc, kind);
    }

    pub(super) fn warn(&mut self, severity: Severity, loc: Loc, kind: AsmErrorKind) {
        if self.warnings.len() < MAX_WARNINGS {
            let diagnostic = self.diagnostic(severity, loc, kind);
            // One warning a place, however often it is repeated.
            if !self.warnings.contains(&diagnostic) {
                self.warnings.push(diagnostic);
            }
        }
    }

    /// Reports a broken rule of the chip.
    pub(super) fn broken(&mut self, policy: Policy, loc: Loc, kind: AsmErrorKind) {
        match policy {
            Policy::Error => self.error_at(loc, kind),
            Policy::Warn => self.warn(Severity::Warning, loc, kind),
            Policy::Allow => {}
        }
    }

    /// Claims bytes of source text; reports and gives false when there are too many.
    pub(super) fn text_room(&mut self, bytes: usize) -> bool {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        let good = self.text_bytes <= MAX_TEXT;
        if !good && !self.stop {
            self.error(AsmErrorKind::Limit("bytes of source text"));
            self.stop = true;
        }
        good
    }

    /// Begins to read a file.
    pub(super) fn open(&mut self, name: &str, source: &str) {
        if !self.text_room(source.len()) {
            return;
        }
        let room = self
            .limits
            .lines
            .saturating_sub(self.sources.raw.len() as u64);
        let count = source.bytes().filter(|&b| b == b'\n').count() as u64;
        if count > room {
            let loc = Loc {
                file: self.sources.file(name),
                line: u32::try_from(room + 1).unwrap_or(u32::MAX),
                raw: u32::MAX,
                ..self.loc
            };
            self.error_at(loc, AsmErrorKind::Limit("lines"));
            return;
        }
        let (lines, errors) = self.sources.read(name, source);
        for (loc, kind) in errors {
            self.error_at(loc, kind);
        }
        let frame = Frame::new(lines.into(), self.loc.call, self.conditions.len());
        self.push_frame(frame);
    }

    pub(super) fn run(mut self, source: &str) -> std::result::Result<Assembled, AsmErrors> {
        self.open(self.name, source);
        while !self.stop && !self.ended {
            let budget = self.limits.lines.saturating_sub(self.lines);
            let Some(frame) = self.frames.last_mut() else {
                break;
            };
            let call = frame.call;
            let next = frame.next(budget);
            self.lines += std::mem::take(&mut frame.begun);
            match next {
                _ if self.lines > self.limits.lines => {
                    self.error(AsmErrorKind::Limit("lines"));
                    self.stop = true;
                }
                Some(statement) => self.read(&statement, call),
                None => self.pop_frame(),
            }
        }
        self.text = None;
        if let Some(open) = self.bundle.take() {
            self.error_at(open.loc, AsmErrorKind::Unclosed("{"));
        }
        let truncated = self.stop;
        let object = if truncated {
            Object::default()
        } else {
            self.finish()
        };
        if !self.diagnostics.is_empty() {
            let mut diagnostics = self.diagnostics;
            diagnostics.extend(self.warnings);
            // Of several messages at one place the errors stand first.
            let place = |d: &Diagnostic| (d.line, d.column, d.severity != Severity::Error);
            let main = |d: &Diagnostic| d.file == self.name;
            diagnostics.sort_by_key(|d| (main(d), place(d)));
            return Err(AsmErrors {
                diagnostics,
                truncated: truncated || self.stop,
            });
        }
        let listing = self.listing(&object);
        Ok(Assembled {
            object,
            warnings: self.warnings,
            listing,
            files: self.files,
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

    /// A statement or brace of the text on top.
    fn read(&mut self, s: &Statement, call: u32) {
        self.loc = Loc {
            file: s.line.file,
            line: s.line.number,
            raw: s.line.raw,
            col: s.start as u32,
            call,
        };
        if call != 0 {
            self.text = Some(s.line.text.clone());
        }
        let result = match s.text() {
            // Braces of skipped code are not read.
            "{" | "}" if !self.active() => Ok(()),
            "{" => self.open_bundle(),
            "}" => self.close_bundle(),
            text => {
                let mut c = Cursor::new(text);
                let base = self.loc.col;
                let done = self.statement(&mut c);
                if let Err(kind) = &done
                    && let Some(back) = kind.points_back()
                {
                    c.skip_blanks();
                    self.loc.col = base + c.pos().saturating_sub(back) as u32;
                }
                done
            }
        };
        if let Err(kind) = result {
            if let Some(open) = &mut self.bundle {
                open.failed = true;
            }
            self.error(kind);
        }
        if let Some((outer, inner)) = self.doubt.take() {
            let kind = AsmErrorKind::Precedence(outer, inner);
            self.warn(Severity::Warning, self.loc, kind);
        }
    }

    /// One statement: labels, then a directive, an assignment, a call or an instruction.
    fn statement(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let base = self.loc.col;
        loop {
            c.skip_blanks();
            self.loc.col = base + c.pos() as u32;
            let Some(name) = label(c) else { break };
            if self.active() {
                self.define_label(&name)?;
            }
        }
        if c.at_end() {
            return Ok(());
        }
        let start = c.clone();
        let Some(name) = c.ident() else {
            let mut quoted = c.clone();
            if self.active()
                && quoted.name_or_string().is_ok()
                && quoted.eat("=")
                && !quoted.rest().starts_with('=')
            {
                return self.assign(c, "=");
            }
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
            return self.directive(name, c);
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
        if self.config.listing {
            self.events.push(Event::Label(name.clone()));
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
}

/// Takes `name:`, `1:` or `"any name":`.
fn label(c: &mut Cursor<'_>) -> Option<String> {
    let mut probe = c.clone();
    probe.skip_blanks();
    let start = probe.peek()?;
    if start == '"' {
        let name = probe.name_or_string().ok()?;
        if !probe.eat(":") {
            return None;
        }
        *c = probe;
        return Some(name);
    }
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
    Some(name.to_string())
}
