//! Directives.

use std::rc::Rc;

use half::f16;

use crate::object::{RelocKind, SectionFlags};
use crate::table::Mode;

use super::cursor::{Cursor, Number};
use super::error::AsmErrorKind;
use super::expr::{Expr, parse};
use super::finish::data_value;
use super::macros::{MAX_EXPANSION, Macro, split_args, substitute};
use super::sections::{Build, Pending, default_flags};
use super::select::similar;
use super::source::Frame;
use super::state::{Condition, Result, State};

/// Largest alignment.
const MAX_ALIGN: i64 = 1 << 16;

const NAMES: &[&str] = &[
    ".section",
    ".pushsection",
    ".popsection",
    ".previous",
    ".text",
    ".data",
    ".bss",
    ".align",
    ".balign",
    ".p2align",
    ".globl",
    ".global",
    ".local",
    ".set",
    ".equ",
    ".byte",
    ".half",
    ".short",
    ".hword",
    ".2byte",
    ".long",
    ".word",
    ".int",
    ".4byte",
    ".quad",
    ".8byte",
    ".float",
    ".single",
    ".ascii",
    ".asciz",
    ".string",
    ".zero",
    ".space",
    ".skip",
    ".fill",
    ".if",
    ".ifdef",
    ".ifndef",
    ".ifb",
    ".ifnb",
    ".ifc",
    ".ifnc",
    ".elseif",
    ".else",
    ".endif",
    ".macro",
    ".endm",
    ".exitm",
    ".purgem",
    ".rept",
    ".irp",
    ".endr",
    ".supervisor",
    ".worker",
    ".allow_optimizations",
    ".allow_invalid_repeat",
    ".allow_invalid_execution_mode",
    ".err",
    ".error",
    ".type",
    ".size",
];

/// Accepted without effect: they describe, and change no byte.
const IGNORED: &[&str] = &[
    ".type",
    ".size",
    ".file",
    ".ident",
    ".loc",
    ".addrsig",
    ".addrsig_sym",
    ".hidden",
    ".internal",
    ".protected",
    ".warn_on_invalid_bundles",
    ".error_on_invalid_bundles",
    ".error_on_invalid_operands",
    ".error_on_invalid_execution_mode",
];

impl State<'_> {
    pub(super) fn directive(&mut self, name: &str, c: &mut Cursor<'_>, whole: &str) -> Result<()> {
        if IGNORED.contains(&name) || name.starts_with(".cfi_") {
            return Ok(());
        }
        match name {
            ".if" | ".ifdef" | ".ifndef" | ".ifb" | ".ifnb" | ".ifc" | ".ifnc" | ".elseif"
            | ".else" | ".endif" => return self.condition(name, c),
            ".macro" => return self.define_macro(c.rest()),
            ".rept" => return self.repeat(c),
            ".irp" => return self.repeat_over(c),
            ".endm" => return Err(AsmErrorKind::Unopened(".endm")),
            ".endr" => return Err(AsmErrorKind::Unopened(".endr")),
            ".exitm" => return self.exit_macro(),
            ".purgem" => {
                let name = c.expect_ident()?;
                self.macros.remove(name);
                return c.expect_end();
            }
            ".set" | ".equ" => return self.assign(c, ","),
            ".err" => return Err(AsmErrorKind::User(".err".to_string())),
            ".error" => {
                let text = c.string()?;
                return Err(AsmErrorKind::User(
                    String::from_utf8_lossy(&text).into_owned(),
                ));
            }
            _ => {}
        }
        if self.in_bundle() {
            return Err(AsmErrorKind::InBundle("this directive"));
        }
        match name {
            ".section" => self.switch_section(c),
            ".pushsection" => {
                if self.section_stack.len() >= self.limits.depth {
                    return Err(AsmErrorKind::Limit("depth of sections"));
                }
                self.section_stack.push(self.current);
                self.switch_section(c)
            }
            ".popsection" => {
                let section = self.section_stack.pop();
                self.select(section.ok_or(AsmErrorKind::Unopened(".popsection"))?);
                c.expect_end()
            }
            ".previous" => {
                self.select(self.previous);
                c.expect_end()
            }
            ".text" | ".data" | ".bss" => {
                self.section_named(name, default_flags(name))?;
                c.expect_end()
            }
            ".align" | ".balign" | ".p2align" => self.align(c, name == ".p2align"),
            ".globl" | ".global" => self.names(c, |s, name| {
                s.globals.insert(name.to_string(), s.loc);
            }),
            ".local" => self.names(c, |s, name| {
                s.globals.shift_remove(name);
            }),
            ".supervisor" => self.set_mode(c, Mode::Supervisor),
            ".worker" => self.set_mode(c, Mode::Worker),
            ".allow_optimizations" => {
                self.optimize = true;
                let section = self.section_mut();
                if section.flags.exec {
                    section.align = section.align.max(8);
                }
                c.expect_end()
            }
            ".allow_invalid_repeat" => {
                self.check_repeat = false;
                c.expect_end()
            }
            ".allow_invalid_execution_mode" => {
                self.check_mode = false;
                c.expect_end()
            }
            ".byte" => self.data(c, RelocKind::Abs8),
            ".half" | ".short" | ".hword" | ".2byte" => self.data(c, RelocKind::Abs16),
            ".long" | ".word" | ".int" | ".4byte" | ".word2" => self.data(c, RelocKind::Abs32),
            ".float" | ".single" => self.floats(c),
            ".quad" | ".8byte" => self.data(c, RelocKind::Abs64),
            ".ascii" => self.strings(c, false),
            ".asciz" | ".string" => self.strings(c, true),
            ".zero" | ".space" | ".skip" => self.space(c),
            ".fill" => self.fill_values(c),
            _ => {
                let name = whole
                    .split_whitespace()
                    .find(|w| w.ends_with(name))
                    .unwrap_or(name);
                let hint = similar(name, NAMES.iter().copied());
                Err(AsmErrorKind::UnknownDirective {
                    name: name.to_string(),
                    hint,
                })
            }
        }
    }

    fn expression(&self, c: &mut Cursor<'_>) -> Result<Expr> {
        parse(c, self)
    }

    /// A constant in a range.
    fn number(&self, c: &mut Cursor<'_>, what: &'static str, min: i64, max: i64) -> Result<i64> {
        let e = self.expression(c)?;
        let value = self.constant(&e)?;
        if !(min..=max).contains(&value) {
            return Err(AsmErrorKind::Range {
                what,
                value,
                min,
                max,
            });
        }
        Ok(value)
    }

    fn select(&mut self, section: usize) {
        self.previous = std::mem::replace(&mut self.current, section);
    }

    fn section_named(&mut self, name: &str, flags: SectionFlags) -> Result<()> {
        let at = match self.sections.iter().position(|s| s.name == name) {
            Some(at) => at,
            None => {
                if self.sections.len() >= 4096 {
                    return Err(AsmErrorKind::Limit("sections"));
                }
                self.sections.push(Build::new(name, flags));
                self.sections.len() - 1
            }
        };
        self.select(at);
        if self.optimize && self.section().flags.exec {
            let section = self.section_mut();
            section.align = section.align.max(8);
        }
        Ok(())
    }

    fn switch_section(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let name = c.name_or_string()?;
        let mut flags = default_flags(&name);
        if c.eat(",") {
            let letters = c.string()?;
            let has = |l: u8| letters.contains(&l);
            flags = SectionFlags {
                alloc: has(b'a'),
                write: has(b'w'),
                exec: has(b'x'),
                nobits: false,
            };
            if c.eat(",") {
                c.eat("@");
                c.eat("%");
                flags.nobits = c.ident() == Some("nobits");
                // Entry sizes, groups and linked sections do not matter here.
                c.take_while(|_| true);
            }
        }
        c.expect_end()?;
        self.section_named(&name, flags)
    }

    fn align(&mut self, c: &mut Cursor<'_>, power: bool) -> Result<()> {
        let to = if power {
            1 << self.number(c, "alignment", 0, i64::from(MAX_ALIGN.ilog2()))?
        } else {
            self.number(c, "alignment", 0, MAX_ALIGN)?.max(1)
        };
        if to & (to - 1) != 0 {
            return Err(AsmErrorKind::Alignment("an alignment is a power of two"));
        }
        let mut fill = None;
        if c.eat(",") && !c.rest().trim_start().starts_with(',') {
            fill = Some(data_value(self.number(c, "fill", -128, 255)?, 8)? as u8);
        }
        let mut most = i64::MAX;
        if c.eat(",") {
            most = self.number(c, "padding", 0, MAX_ALIGN)?;
        }
        c.expect_end()?;
        let padding = (to - i64::from(self.section().offset()) % to) % to;
        if padding <= most {
            self.room(padding as u64)?;
            self.section_mut().pad(to as u32, fill);
        }
        Ok(())
    }

    fn names(&mut self, c: &mut Cursor<'_>, mut each: impl FnMut(&mut Self, &str)) -> Result<()> {
        loop {
            let name = c.expect_ident()?;
            each(self, name);
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn set_mode(&mut self, c: &mut Cursor<'_>, mode: Mode) -> Result<()> {
        self.mode = Some(mode);
        c.expect_end()
    }

    /// `name = value` and `.set name, value`.
    pub(super) fn assign(&mut self, c: &mut Cursor<'_>, separator: &str) -> Result<()> {
        let name = c.expect_ident()?;
        c.expect(separator)?;
        let value = self.expression(c)?;
        c.expect_end()?;
        if name == "." || self.labels.contains_key(name) {
            return Err(AsmErrorKind::Redefined(name.to_string()));
        }
        self.constants.insert(name.to_string(), value);
        Ok(())
    }

    fn data(&mut self, c: &mut Cursor<'_>, plain: RelocKind) -> Result<()> {
        if c.at_end() {
            return Ok(());
        }
        loop {
            self.datum(c, plain)?;
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn datum(&mut self, c: &mut Cursor<'_>, plain: RelocKind) -> Result<()> {
        if plain == RelocKind::Abs16
            && let Some(value) = bare_float(c)
        {
            self.room(2)?;
            self.section_mut()
                .data
                .extend(f16::from_f64(value).to_le_bytes());
            return Ok(());
        }
        let expr = self.expression(c)?;
        let kind = modifier(c, plain)?;
        let size = plain.bytes();
        self.room(size as u64)?;
        let (loc, offset) = (self.loc, self.section().offset());
        let known = expr.eval(&|_| None).ok().and_then(|v| v.as_int());
        let bytes = match known {
            Some(v) if kind == plain => data_value(v, 8 * size as u32)?.to_le_bytes(),
            _ => {
                self.section_mut()
                    .pending
                    .push((offset, loc, Pending::Data { expr, kind }));
                [0; 8]
            }
        };
        self.section_mut().data.extend(&bytes[..size]);
        Ok(())
    }

    fn floats(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        loop {
            let bits = match bare_float(c) {
                Some(v) => (v as f32).to_bits(),
                None => {
                    let e = self.expression(c)?;
                    (self.constant(&e)? as f32).to_bits()
                }
            };
            self.room(4)?;
            self.section_mut().push_word(bits);
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn strings(&mut self, c: &mut Cursor<'_>, zero: bool) -> Result<()> {
        loop {
            let mut text = c.string()?;
            if zero {
                text.push(0);
            }
            self.room(text.len() as u64)?;
            self.section_mut().data.extend(text);
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn space(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let size = self.number(c, "size", 0, i64::from(u32::MAX))?;
        let fill = if c.eat(",") {
            self.number(c, "fill", -128, 255)?
        } else {
            0
        };
        c.expect_end()?;
        self.room(size as u64)?;
        let section = self.section_mut();
        section
            .data
            .resize(section.data.len() + size as usize, fill as u8);
        Ok(())
    }

    fn fill_values(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let repeat = self.number(c, "repeat", 0, i64::from(u32::MAX))?;
        let (mut size, mut value) = (1, 0);
        if c.eat(",") {
            size = self.number(c, "size", 0, 8)?;
        }
        if c.eat(",") {
            let e = self.expression(c)?;
            value = self.constant(&e)?;
        }
        c.expect_end()?;
        self.room((repeat * size) as u64)?;
        let bytes = &value.to_le_bytes()[..size as usize];
        for _ in 0..if size == 0 { 0 } else { repeat } {
            self.section_mut().data.extend(bytes);
        }
        Ok(())
    }

    /// Directives matter in skipped text only where they nest.
    pub(super) fn skipped_directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        match name {
            ".if" | ".ifdef" | ".ifndef" | ".ifb" | ".ifnb" | ".ifc" | ".ifnc" => {
                self.push_condition(false, true)
            }
            ".elseif" | ".else" | ".endif" => self.condition(name, c),
            _ => Ok(()),
        }
    }

    fn push_condition(&mut self, active: bool, done: bool) -> Result<()> {
        if self.conditions.len() >= 1024 {
            return Err(AsmErrorKind::Limit("depth of conditionals"));
        }
        let loc = self.loc;
        self.conditions.push(Condition {
            active,
            done,
            has_else: false,
            loc,
        });
        Ok(())
    }

    fn condition(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        let mut bases = self.frames.iter().rev().map(|f| f.conditions);
        let base = bases.find(|&b| b != usize::MAX).unwrap_or(0);
        if matches!(name, ".elseif" | ".else" | ".endif") && self.conditions.len() <= base {
            return Err(AsmErrorKind::Unopened(match name {
                ".elseif" => ".elseif",
                ".else" => ".else",
                _ => ".endif",
            }));
        }
        match name {
            ".endif" => {
                self.conditions.pop();
                c.expect_end()
            }
            ".else" | ".elseif" => {
                let skip = self.conditions.last().is_none_or(|b| b.done || b.has_else);
                // A taken block's later conditions are not read.
                let take = !skip && (name == ".else" || self.test(".if", c)?);
                let last = self.conditions.last_mut();
                let Some(block) = last.filter(|b| !b.has_else) else {
                    return Err(AsmErrorKind::Unopened(".else"));
                };
                block.active = take;
                block.done |= take;
                block.has_else = name == ".else";
                Ok(())
            }
            _ => {
                let result = self.test(name, c);
                let take = *result.as_ref().unwrap_or(&false);
                // Also after an error, so that `.endif` finds its block.
                self.push_condition(take, take || result.is_err())?;
                result.map(|_| ())
            }
        }
    }

    fn test(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<bool> {
        let value = match name {
            ".ifdef" | ".ifndef" => {
                let symbol = c.expect_ident()?;
                let known = self.constants.contains_key(symbol) || self.labels.contains_key(symbol);
                known == (name == ".ifdef")
            }
            ".ifb" | ".ifnb" => {
                let blank = c.at_end();
                c.take_while(|_| true);
                blank == (name == ".ifb")
            }
            ".ifc" | ".ifnc" => {
                let sides = split_args(c.take_while(|_| true));
                let equal = match sides.as_slice() {
                    [] => true,
                    [a, b] => a.trim_matches('"') == b.trim_matches('"'),
                    _ => return Err(AsmErrorKind::expected("two strings", "")),
                };
                equal == (name == ".ifc")
            }
            _ => {
                let e = self.expression(c)?;
                self.constant(&e)? != 0
            }
        };
        c.expect_end()?;
        Ok(value)
    }

    fn define_macro(&mut self, text: &str) -> Result<()> {
        let body = self
            .frames
            .last_mut()
            .and_then(|f| f.take_block(&[".macro"], ".endm"));
        let body = body.ok_or(AsmErrorKind::Unclosed(".macro"))?;
        self.lines += body.len() as u64;
        let m = Macro::parse(text, body)?;
        if self.macros.contains_key(&*m.name) {
            return Err(AsmErrorKind::Redefined(m.name.to_string()));
        }
        self.macros.insert(m.name.to_string(), Rc::new(m));
        Ok(())
    }

    pub(super) fn call_macro(&mut self, m: &Rc<Macro>, args: &str) -> Result<()> {
        let count = self.calls.len() as u64 - 1;
        let lines = m.expand(args, count)?;
        let call = self.calls.len() as u32;
        self.calls.push((self.loc, m.name.clone()));
        let conditions = self.conditions.len();
        self.push_frame(Frame {
            lines,
            at: 0,
            call,
            again: 0,
            conditions,
            is_macro: true,
        });
        Ok(())
    }

    fn exit_macro(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last_mut() {
            let (is_macro, base) = (frame.is_macro, frame.conditions);
            if self.frames.len() == 1 {
                return Err(AsmErrorKind::Unopened(".exitm"));
            }
            self.conditions.truncate(base);
            self.frames.pop();
            if is_macro {
                break;
            }
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(Vec<super::source::Line>, u32)> {
        let frame = self.frames.last_mut();
        let call = frame.as_ref().map_or(0, |f| f.call);
        let body = frame.and_then(|f| f.take_block(&[".rept", ".irp"], ".endr"));
        let body = body.ok_or(AsmErrorKind::Unclosed(".rept"))?;
        self.lines += body.len() as u64;
        Ok((body, call))
    }

    fn repeat(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let count = self.number(c, "count", 0, i64::from(u32::MAX));
        let (body, call) = self.block()?;
        let count = count?;
        c.expect_end()?;
        if count == 0 || body.is_empty() {
            return Ok(());
        }
        let conditions = self.conditions.len();
        let again = count as u64 - 1;
        let lines = body.into();
        self.push_frame(Frame {
            lines,
            at: 0,
            call,
            again,
            conditions,
            is_macro: false,
        });
        Ok(())
    }

    fn repeat_over(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let name = c.expect_ident().map(str::to_string);
        c.eat(",");
        let values: Vec<String> = split_args(c.take_while(|_| true))
            .into_iter()
            .map(str::to_string)
            .collect();
        let (body, call) = self.block()?;
        let name = name?;
        let conditions = self.conditions.len();
        let mut lines = Vec::new();
        let mut bytes = 0;
        for value in &values {
            let expansion = substitute(&body, &[(&name, value)], None)?;
            bytes += expansion.iter().map(|l| l.text.len() + 32).sum::<usize>();
            if bytes > MAX_EXPANSION {
                return Err(AsmErrorKind::Limit("length of an expansion"));
            }
            lines.extend_from_slice(&expansion);
        }
        let lines = lines.into();
        self.push_frame(Frame {
            lines,
            at: 0,
            call,
            again: 0,
            conditions,
            is_macro: false,
        });
        Ok(())
    }
}

/// A number with a point or exponent, possibly signed, possibly with `h` or `f`.
fn bare_float(c: &mut Cursor<'_>) -> Option<f64> {
    let mut probe = c.clone();
    let negative = probe.eat("-");
    probe.skip_blanks();
    if !probe.at_number() {
        return None;
    }
    match probe.number() {
        Ok(Number::Float(v, _)) => {
            *c = probe;
            Some(if negative { -v } else { v })
        }
        _ => None,
    }
}

/// How a datum holds an address.
fn modifier(c: &mut Cursor<'_>, plain: RelocKind) -> Result<RelocKind> {
    c.skip_blanks();
    if c.peek() != Some('@') {
        return Ok(plain);
    }
    let text = c.take_while(|c| c == '@' || c.is_ascii_alphanumeric());
    let kind = match text {
        "@abs18@s2" => RelocKind::Abs18S2,
        "@abs19@s2" => RelocKind::Abs19S2,
        "@relative@16@s2" => RelocKind::Relative16S2,
        "@16@s3" => RelocKind::Abs16S3,
        "@16@s4" => RelocKind::Abs16S4,
        "@16@s5" => RelocKind::Abs16S5,
        "@abs@21" => RelocKind::Abs21,
        _ => return Err(AsmErrorKind::expected("an address modifier", text)),
    };
    if kind.bytes() != plain.bytes() {
        return Err(AsmErrorKind::expected(
            "a modifier of the size of the datum",
            text,
        ));
    }
    Ok(kind)
}
