//! Choice and repetition: conditionals, macros, repeated blocks, included files.

use std::path::PathBuf;
use std::rc::Rc;

use super::cursor::Cursor;
use super::error::{AsmErrorKind, Severity};
use super::expr::parse;
use super::macros::{Call, Evaluate, MAX_EXPANSION, Macro, split_args, split_values, substitute};
use super::source::{Frame, Line};
use super::state::{Condition, Result, State};

/// Directives that open a block that `.endr` closes.
const REPEATS: &[&str] = &[".rept", ".rep", ".irp", ".irpc"];
/// Most bytes of an included file.
const MAX_FILE: u64 = 32 << 20;
/// Most conditionals inside one another.
const MAX_CONDITIONS: usize = 1024;

/// True for the directives that open a conditional.
pub(super) fn is_condition(name: &str) -> bool {
    matches!(
        name,
        ".if"
            | ".ifeq"
            | ".ifne"
            | ".ifgt"
            | ".ifge"
            | ".iflt"
            | ".ifle"
            | ".ifdef"
            | ".ifndef"
            | ".ifnotdef"
            | ".ifb"
            | ".ifnb"
            | ".ifc"
            | ".ifnc"
            | ".ifeqs"
            | ".ifnes"
    )
}

impl State<'_> {
    /// Directives that decide which text is read; false when `name` is none of them.
    pub(super) fn control(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<bool> {
        match name {
            _ if is_condition(name) => self.condition(name, c)?,
            ".elseif" | ".else" | ".endif" => self.condition(name, c)?,
            ".macro" => self.define_macro(c)?,
            ".rept" | ".rep" => self.repeat(c)?,
            ".irp" | ".irpc" => self.repeat_over(c, name == ".irpc")?,
            ".endm" | ".endmacro" => return Err(AsmErrorKind::Unopened(".endm")),
            ".endr" => return Err(AsmErrorKind::Unopened(".endr")),
            ".exitm" => self.exit_macro()?,
            ".purgem" => self.purge(c)?,
            ".altmacro" | ".noaltmacro" => {
                self.alternate = name == ".altmacro";
                c.expect_end()?;
            }
            ".include" => self.include(c)?,
            ".end" => self.ended = true,
            ".err" => return Err(AsmErrorKind::User(".err".to_string())),
            ".error" => return Err(self.message(name, c)?),
            ".warning" | ".print" => {
                let kind = self.message(name, c)?;
                let severity = match name {
                    ".print" => Severity::Note,
                    _ => Severity::Warning,
                };
                self.warn(severity, self.loc, kind);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn message(&self, name: &str, c: &mut Cursor<'_>) -> Result<AsmErrorKind> {
        if c.at_end() {
            return Ok(AsmErrorKind::User(name.to_string()));
        }
        let text = c.string()?;
        c.expect_end()?;
        Ok(AsmErrorKind::User(
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// Directives matter in skipped text only where they nest.
    pub(super) fn skipped_directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        if !name.starts_with('.') {
            return Ok(());
        }
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            n if is_condition(n) => self.push_condition(false, true),
            ".elseif" | ".else" | ".endif" => self.condition(&name, c),
            _ => Ok(()),
        }
    }

    fn push_condition(&mut self, active: bool, done: bool) -> Result<()> {
        if self.conditions.len() >= MAX_CONDITIONS {
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
        let base = self.frames.last().map_or(0, |f| f.conditions);
        if !is_condition(name) && self.conditions.len() <= base {
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
            ".ifdef" | ".ifndef" | ".ifnotdef" => {
                let symbol = c.name_or_string()?;
                let known = self.constants.contains_key(symbol.as_str())
                    || self.labels.contains_key(symbol.as_str());
                known == (name == ".ifdef")
            }
            ".ifb" | ".ifnb" => {
                let blank = c.at_end();
                c.take_while(|_| true);
                blank == (name == ".ifb")
            }
            ".ifeqs" | ".ifnes" => {
                let a = c.string()?;
                c.expect(",")?;
                let b = c.string()?;
                (a == b) == (name == ".ifeqs")
            }
            ".ifc" | ".ifnc" => {
                let text = c.take_while(|_| true);
                let sides = split_args(text);
                let plain = |s: &str| s.trim_matches(['"', '\'']).to_string();
                let equal = match sides.as_slice() {
                    [] => true,
                    [a] => plain(a).is_empty(),
                    [a, b] => plain(a) == plain(b),
                    _ => return Err(AsmErrorKind::expected("two strings", "")),
                };
                equal == (name == ".ifc")
            }
            _ => {
                let e = parse(c, self)?;
                let v = self.constant(&e)?;
                match name {
                    ".ifeq" => v == 0,
                    ".ifgt" => v > 0,
                    ".ifge" => v >= 0,
                    ".iflt" => v < 0,
                    ".ifle" => v <= 0,
                    _ => v != 0,
                }
            }
        };
        c.expect_end()?;
        Ok(value)
    }

    /// The text of a block, without its last line.
    fn body(&mut self, open: &[&str], close: &[&str]) -> Result<Vec<Line>> {
        let frame = self.frames.last_mut();
        let body = frame.and_then(|f| {
            let body = f.take_block(open, close);
            f.begun = 0;
            body
        });
        let body = body.ok_or(match open {
            [".macro", ..] => AsmErrorKind::Unclosed(".macro"),
            _ => AsmErrorKind::Unclosed(".rept"),
        })?;
        self.lines += body.len() as u64;
        Ok(body)
    }

    fn define_macro(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let body = self.body(&[".macro"], &[".endm", ".endmacro"])?;
        let m = Macro::parse(c.take_while(|_| true), body)?;
        if self.macros.contains_key(&*m.name) {
            return Err(AsmErrorKind::Redefined(m.name.to_string()));
        }
        self.macros.insert(m.name.to_string(), Rc::new(m));
        Ok(())
    }

    fn purge(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        loop {
            let name = c.expect_ident()?;
            if self.macros.remove(name).is_none() {
                return Err(AsmErrorKind::Macro {
                    name: name.to_string(),
                    problem: "is not defined".to_string(),
                });
            }
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    pub(super) fn call_macro(&mut self, m: &Rc<Macro>, args: &str) -> Result<()> {
        if !self.text_room(m.bytes) {
            return Ok(());
        }
        let evaluate = |text: &str| {
            let mut c = Cursor::new(text);
            let e = parse(&mut c, self)?;
            c.expect_end()?;
            self.constant(&e)
        };
        let lines = m.expand(
            args,
            &Call {
                count: self.calls.len() as u64 - 1,
                alternate: self.alternate.then_some(&evaluate as Evaluate<'_>),
            },
        )?;
        if !self.text_room(lines.iter().map(|l| l.text.len()).sum()) {
            return Ok(());
        }
        let call = self.calls.len() as u32;
        self.calls.push((self.loc, m.name.clone()));
        let mut frame = Frame::new(lines, call, self.conditions.len());
        frame.is_macro = true;
        self.push_frame(frame);
        Ok(())
    }

    fn exit_macro(&mut self) -> Result<()> {
        if !self.frames.iter().any(|f| f.is_macro) {
            return Err(AsmErrorKind::Unopened(".exitm"));
        }
        while let Some(frame) = self.frames.pop() {
            self.conditions.truncate(frame.conditions);
            if frame.is_macro {
                break;
            }
        }
        Ok(())
    }

    /// Reads a block's text again and again in the call that it stands in.
    fn push_block(&mut self, lines: Rc<[Line]>, again: u64) {
        let call = self.frames.last().map_or(0, |f| f.call);
        let mut frame = Frame::new(lines, call, self.conditions.len());
        frame.again = again;
        self.push_frame(frame);
    }

    fn repeat(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let count = self.number(c, "count", 0, i64::from(u32::MAX));
        let end = c.expect_end();
        let body = self.body(REPEATS, &[".endr"])?;
        let count = count?;
        end?;
        if count > 0 && !body.is_empty() {
            self.push_block(body.into(), count as u64 - 1);
        }
        Ok(())
    }

    fn repeat_over(&mut self, c: &mut Cursor<'_>, characters: bool) -> Result<()> {
        let name = c.expect_ident().map(str::to_string);
        c.eat(",");
        let text = c.take_while(|_| true).trim();
        let body = self.body(REPEATS, &[".endr"])?;
        let name = name?;
        let values: Vec<String> = if characters {
            text.trim_matches('"').chars().map(String::from).collect()
        } else {
            let list = split_values(text).into_iter();
            list.map(|v| v.trim_matches('"').to_string()).collect()
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        let once: usize = body.iter().map(|l| l.text.len()).sum();
        // Without values the block is read once with an empty one.
        let values = if values.is_empty() {
            vec![String::new()]
        } else {
            values
        };
        for value in values {
            if !self.text_room(once) {
                return Ok(());
            }
            let bindings = [(name.as_str(), value)];
            let expansion = substitute(&body, &bindings, None, self.alternate)?;
            bytes += expansion.iter().map(|l| l.text.len() + 32).sum::<usize>();
            if bytes > MAX_EXPANSION {
                return Err(AsmErrorKind::Limit("length of an expansion"));
            }
            lines.extend_from_slice(&expansion);
        }
        if self.text_room(bytes) {
            self.push_block(lines.into(), 0);
        }
        Ok(())
    }

    /// Finds a file beside the one that is read or on the include paths.
    pub(super) fn find(&mut self, name: &str) -> Result<PathBuf> {
        let here = self.sources.files.get(self.loc.file as usize);
        let beside = here
            .map(PathBuf::from)
            .and_then(|f| f.parent().map(|p| p.join(name)));
        let paths = self.config.include_paths.iter().map(|p| p.join(name));
        let mut candidates = beside.into_iter().chain(paths);
        let found = candidates.find(|p| p.is_file());
        let path = found.ok_or_else(|| AsmErrorKind::File {
            file: name.to_string(),
            problem: "there is no such file here or on the include paths".to_string(),
        })?;
        let size = std::fs::metadata(&path).map_or(0, |m| m.len());
        if size > MAX_FILE {
            return Err(AsmErrorKind::Limit("length of a file"));
        }
        if !self.files.contains(&path) {
            self.files.push(path.clone());
        }
        Ok(path)
    }

    fn include(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let name = c.string()?;
        c.expect_end()?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let path = self.find(&name)?;
        let text = std::fs::read_to_string(&path).map_err(|e| AsmErrorKind::File {
            file: name,
            problem: e.to_string(),
        })?;
        self.open(&path.display().to_string(), &text);
        Ok(())
    }
}
