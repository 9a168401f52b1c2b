//! Directives: dispatch, sections, symbols, the chip's own switches.

use crate::object::{Binding, SectionFlags, SymbolKind, Visibility};
use crate::table::Mode;

use super::cursor::Cursor;
use super::error::AsmErrorKind;
use super::listing::Event;
use super::sections::{Build, default_flags};
use super::select::similar;
use super::state::{Attributes, Policy, Result, State};

/// All names, for suggestions.
const NAMES: &[&str] = &[
    ".section",
    ".pushsection",
    ".popsection",
    ".previous",
    ".text",
    ".data",
    ".bss",
    ".rodata",
    ".align",
    ".balign",
    ".p2align",
    ".org",
    ".globl",
    ".global",
    ".local",
    ".weak",
    ".hidden",
    ".set",
    ".equ",
    ".equiv",
    ".comm",
    ".lcomm",
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
    ".octa",
    ".float",
    ".single",
    ".double",
    ".ascii",
    ".asciz",
    ".string",
    ".zero",
    ".space",
    ".skip",
    ".fill",
    ".uleb128",
    ".sleb128",
    ".incbin",
    ".include",
    ".if",
    ".ifdef",
    ".ifndef",
    ".ifb",
    ".ifnb",
    ".ifc",
    ".ifnc",
    ".ifeq",
    ".ifne",
    ".elseif",
    ".else",
    ".endif",
    ".macro",
    ".endm",
    ".exitm",
    ".purgem",
    ".altmacro",
    ".noaltmacro",
    ".rept",
    ".irp",
    ".irpc",
    ".endr",
    ".supervisor",
    ".worker",
    ".allow_optimizations",
    ".allow_invalid_repeat",
    ".allow_invalid_execution_mode",
    ".allow_invalid_operands",
    ".warn_on_invalid_bundles",
    ".err",
    ".error",
    ".warning",
    ".print",
    ".end",
    ".type",
    ".size",
];

/// Accepted without effect: they describe, and change no byte.
const IGNORED: &[&str] = &[
    ".file",
    ".ident",
    ".loc",
    ".line",
    ".addrsig",
    ".addrsig_sym",
    ".title",
    ".sbttl",
    ".list",
    ".nolist",
    ".eject",
    ".psize",
    ".func",
    ".endfunc",
    ".version",
    ".symver",
    ".gnu_attribute",
    ".attribute",
    ".cv_file",
    ".desc",
    ".stabs",
    ".subsection",
    ".app",
    ".no_app",
];

/// The switch that `.allow_…`, `.warn_on_…` and `.error_on_…` set, and its new state.
fn switch(name: &str) -> Option<(Policy, &str)> {
    let (policy, rest) = if let Some(rest) = name.strip_prefix(".allow_") {
        (Policy::Allow, rest)
    } else if let Some(rest) = name.strip_prefix(".warn_") {
        (Policy::Warn, rest)
    } else {
        (Policy::Error, name.strip_prefix(".error_")?)
    };
    let what = rest
        .strip_prefix("on_")
        .unwrap_or(rest)
        .strip_prefix("invalid_")?;
    Some((policy, what))
}

impl State<'_> {
    pub(super) fn directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        let lower;
        let name = if name.bytes().any(|b| b.is_ascii_uppercase()) {
            lower = name.to_ascii_lowercase();
            &lower
        } else {
            name
        };
        if IGNORED.contains(&name) || name.starts_with(".cfi_") {
            return Ok(());
        }
        if self.control(name, c)? {
            return Ok(());
        }
        let args = c.rest().trim();
        let assigns = matches!(name, ".set" | ".equ" | ".equiv" | ".eqv");
        if assigns {
            if name.starts_with(".eqv") || name == ".equiv" {
                let symbol = c.clone().name_or_string()?;
                if self.constants.contains_key(symbol.as_str()) {
                    return Err(AsmErrorKind::Redefined(symbol));
                }
            }
            return self.assign(c, ",");
        }
        if self.bundle.is_some() {
            return Err(AsmErrorKind::InBundle("this directive"));
        }
        if !self.data_directive(name, c)? && !self.symbol_directive(name, c)? {
            self.other_directive(name, c)?;
        }
        if self.config.listing {
            let args = args.to_string();
            self.events.push(Event::Directive(name.to_string(), args));
        }
        Ok(())
    }

    fn other_directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<()> {
        match name {
            ".section" => self.switch_section(c),
            ".pushsection" => {
                if self.section_stack.len() >= self.limits.depth {
                    return Err(AsmErrorKind::Limit("depth of sections"));
                }
                self.section_stack.push((self.current, self.previous));
                self.switch_section(c)
            }
            ".popsection" => {
                let saved = self.section_stack.pop();
                let (current, previous) = saved.ok_or(AsmErrorKind::Unopened(".popsection"))?;
                (self.current, self.previous) = (current, previous);
                c.expect_end()
            }
            ".previous" => {
                self.select(self.previous);
                c.expect_end()
            }
            ".text" | ".data" | ".bss" | ".rodata" => {
                self.section_named(name, default_flags(name))?;
                // A subsection number does not matter.
                c.take_while(|ch| ch.is_ascii_digit() || ch.is_whitespace());
                c.expect_end()
            }
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
            _ => {
                if let Some((policy, what)) = switch(name) {
                    let place = match what {
                        "repeat" => Some(&mut self.checks.repeat),
                        "bundles" | "bundle" => Some(&mut self.checks.bundles),
                        "operands" | "operand" => Some(&mut self.checks.operands),
                        "execution_mode" => Some(&mut self.checks.mode),
                        _ => None,
                    };
                    if let Some(place) = place {
                        *place = policy;
                        return c.expect_end();
                    }
                }
                Err(AsmErrorKind::UnknownDirective {
                    name: name.to_string(),
                    hint: similar(name, NAMES.iter().copied()),
                })
            }
        }
    }

    fn select(&mut self, section: usize) {
        self.previous = std::mem::replace(&mut self.current, section);
    }

    /// The section of that name, made when there is none.
    fn section_index(&mut self, name: &str, flags: SectionFlags) -> Result<usize> {
        if let Some(&at) = self.section_names.get(name) {
            return Ok(at);
        }
        if self.sections.len() >= 4096 {
            return Err(AsmErrorKind::Limit("sections"));
        }
        let at = self.sections.len();
        self.section_names.insert(name.to_string(), at);
        self.sections.push(Build::new(name, flags));
        Ok(at)
    }

    fn section_named(&mut self, name: &str, flags: SectionFlags) -> Result<()> {
        let at = self.section_index(name, flags)?;
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
            c.skip_blanks();
            // A type may follow without flags.
            if c.peek() == Some('"') {
                let letters = c.string()?;
                flags = section_flags(&letters)?;
                if c.eat(",") {
                    section_type(c, &mut flags);
                }
            } else {
                section_type(c, &mut flags);
            }
        }
        c.expect_end()?;
        self.section_named(&name, flags)
    }

    /// Attributes of symbols; false when `name` is none of these directives.
    fn symbol_directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<bool> {
        match name {
            ".globl" | ".global" => self.names(c, |a| a.binding = Some(Binding::Global))?,
            ".weak" => self.names(c, |a| a.binding = Some(Binding::Weak))?,
            ".local" => self.names(c, |a| a.binding = Some(Binding::Local))?,
            ".extern" => {
                c.take_while(|_| true);
            }
            ".hidden" => self.names(c, |a| a.visibility = Visibility::Hidden)?,
            ".internal" => self.names(c, |a| a.visibility = Visibility::Internal)?,
            ".protected" => self.names(c, |a| a.visibility = Visibility::Protected)?,
            ".type" => self.symbol_type(c)?,
            ".size" => {
                let name = c.name_or_string()?;
                c.expect(",")?;
                let size = self.expression(c)?;
                c.expect_end()?;
                let loc = self.loc;
                self.attribute(&name).size = Some((size, loc));
            }
            ".comm" => self.common(c, Binding::Weak)?,
            ".lcomm" => self.common(c, Binding::Local)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn attribute(&mut self, name: &str) -> &mut Attributes {
        let loc = self.loc;
        self.attributes
            .entry(name.to_string())
            .or_insert_with(|| Attributes {
                loc,
                ..Attributes::default()
            })
    }

    fn names(&mut self, c: &mut Cursor<'_>, each: impl Fn(&mut Attributes)) -> Result<()> {
        loop {
            let name = c.name_or_string()?;
            each(self.attribute(&name));
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn symbol_type(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let name = c.name_or_string()?;
        c.eat(",");
        let _ = c.eat("@") || c.eat("%");
        let kind = c.name_or_string()?;
        c.expect_end()?;
        let kind = match kind.as_str() {
            "function" | "STT_FUNC" | "gnu_indirect_function" => SymbolKind::Function,
            "object" | "STT_OBJECT" | "common" | "STT_COMMON" | "gnu_unique_object" => {
                SymbolKind::Object
            }
            "notype" | "STT_NOTYPE" => SymbolKind::NoType,
            _ => {
                return Err(AsmErrorKind::expected(
                    "`function`, `object` or `notype`",
                    &kind,
                ));
            }
        };
        self.attribute(&name).kind = kind;
        Ok(())
    }

    /// `.comm` and `.lcomm`: zeroed storage of the object's own; among several
    /// objects the first one's counts.
    fn common(&mut self, c: &mut Cursor<'_>, binding: Binding) -> Result<()> {
        let name = c.name_or_string()?;
        c.expect(",")?;
        let size = self.number(c, "size", 0, i64::from(u32::MAX))?;
        let mut align = 4;
        if c.eat(",") {
            align = self.number(c, "alignment", 1, 1 << 16)?;
        }
        c.expect_end()?;
        if align & (align - 1) != 0 {
            return Err(AsmErrorKind::Alignment("an alignment is a power of two"));
        }
        if self.labels.contains_key(&name) || self.constants.contains_key(&name) {
            return Err(AsmErrorKind::Redefined(name));
        }
        self.room(size as u64 + align as u64)?;
        let section = format!(".bss.{name}");
        let at = self.section_index(&section, default_flags(".bss"))?;
        let build = &mut self.sections[at];
        build.pad(align as u32, None);
        let offset = build.offset();
        build.data.resize(build.data.len() + size as usize, 0);
        self.labels.insert(name.clone(), (at, offset));
        let loc = self.loc;
        let attributes = self.attribute(&name);
        attributes.binding.get_or_insert(binding);
        attributes.kind = SymbolKind::Object;
        attributes.size = Some((super::expr::Expr::Int(size), loc));
        Ok(())
    }

    fn set_mode(&mut self, c: &mut Cursor<'_>, mode: Mode) -> Result<()> {
        self.mode = Some(mode);
        c.expect_end()
    }

    /// `name = value` and `.set name, value`.
    pub(super) fn assign(&mut self, c: &mut Cursor<'_>, separator: &str) -> Result<()> {
        let text = c.clone();
        let name = c.name_or_string()?;
        c.expect(separator)?;
        if separator == "=" {
            c.eat("=");
        }
        if name == "." {
            return self.org(c);
        }
        let value = self.expression(c)?;
        c.expect_end()?;
        if self.labels.contains_key(&name) {
            return Err(AsmErrorKind::Redefined(name));
        }
        if self.config.listing {
            let text = text.rest().trim();
            let (left, right) = text.split_once(separator).unwrap_or((text, ""));
            let args = format!("{}, {}", left.trim(), right.trim());
            self.events.push(Event::Directive(".set".to_string(), args));
        }
        self.constants.insert(name, value);
        Ok(())
    }
}

/// The flags that stand in the string behind a section name.
fn section_flags(letters: &[u8]) -> Result<SectionFlags> {
    let mut flags = SectionFlags::default();
    let text = String::from_utf8_lossy(letters);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let mut c = Cursor::new(&text);
        let bits = match c.number()? {
            super::cursor::Number::Int(v) => v,
            _ => 0,
        };
        flags.write = bits & 1 != 0;
        flags.alloc = bits & 2 != 0;
        flags.exec = bits & 4 != 0;
        flags.extra = bits as u32 & SectionFlags::EXTRA;
        return Ok(flags);
    }
    for letter in text.chars() {
        match letter {
            'a' => flags.alloc = true,
            'w' => flags.write = true,
            'x' => flags.exec = true,
            'M' => flags.extra |= 0x10,
            'S' => flags.extra |= 0x20,
            'R' => flags.extra |= 0x20_0000,
            'e' => flags.extra |= 0x8000_0000,
            // Groups, linked sections and thread-local data have no meaning here.
            'o' | 'G' | 'T' | '?' | 'l' | 'd' => {}
            _ => {
                return Err(AsmErrorKind::expected(
                    "section flags of `awxMSoGTRe?`",
                    &letter.to_string(),
                ));
            }
        }
    }
    Ok(flags)
}

/// The type and what follows it.
fn section_type(c: &mut Cursor<'_>, flags: &mut SectionFlags) {
    let _ = c.eat("@") || c.eat("%") || c.eat("\"");
    c.skip_blanks();
    flags.nobits = c.take_while(|ch| ch.is_ascii_alphanumeric() || ch == '_') == "nobits";
    let rest = c.take_while(|_| true);
    if flags.extra & 0x10 != 0 {
        let size = rest.split(',').nth(1).and_then(|t| t.trim().parse().ok());
        flags.entry_bytes = size.unwrap_or(0);
    }
}
