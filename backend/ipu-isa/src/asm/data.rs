//! Directives that write data and move the place.

use half::f16;

use crate::object::RelocKind;

use super::cursor::{Cursor, Number};
use super::error::AsmErrorKind;
use super::expr::{Base, Expr, parse};
use super::finish::data_value;
use super::operand::modifier;
use super::sections::Pending;
use super::state::{Result, State};

/// Largest alignment.
const MAX_ALIGN: i64 = 1 << 16;

impl State<'_> {
    pub(super) fn expression(&self, c: &mut Cursor<'_>) -> Result<Expr> {
        parse(c, self)
    }

    /// A constant in a range.
    pub(super) fn number(
        &self,
        c: &mut Cursor<'_>,
        what: &'static str,
        min: i64,
        max: i64,
    ) -> Result<i64> {
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

    /// Data directives; false when `name` is none of them.
    pub(super) fn data_directive(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<bool> {
        match name {
            ".byte" | ".1byte" => self.data(c, RelocKind::Abs8)?,
            ".half" | ".short" | ".hword" | ".2byte" | ".value" => {
                self.data(c, RelocKind::Abs16)?
            }
            ".long" | ".word" | ".int" | ".4byte" | ".word2" => self.data(c, RelocKind::Abs32)?,
            ".quad" | ".8byte" | ".xword" => self.data(c, RelocKind::Abs64)?,
            ".octa" => self.octa(c)?,
            ".float" | ".single" => self.floats(c, 4)?,
            ".double" => self.floats(c, 8)?,
            ".ascii" => self.strings(c, false)?,
            ".asciz" | ".string" => self.strings(c, true)?,
            ".zero" | ".space" | ".skip" => self.space(c)?,
            ".fill" => self.fill_values(c)?,
            ".uleb128" | ".sleb128" => self.leb128(c, name == ".sleb128")?,
            ".incbin" => self.incbin(c)?,
            ".org" => self.org(c)?,
            ".align" | ".balign" => self.align(c, false, 1)?,
            ".balignw" => self.align(c, false, 2)?,
            ".balignl" => self.align(c, false, 4)?,
            ".p2align" => self.align(c, true, 1)?,
            ".p2alignw" => self.align(c, true, 2)?,
            ".p2alignl" => self.align(c, true, 4)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn align(&mut self, c: &mut Cursor<'_>, power: bool, unit: usize) -> Result<()> {
        let to = if power {
            1 << self.number(c, "alignment", 0, i64::from(MAX_ALIGN.ilog2()))?
        } else {
            self.number(c, "alignment", 0, MAX_ALIGN)?.max(1)
        };
        if to & (to - 1) != 0 {
            return Err(AsmErrorKind::Alignment("an alignment is a power of two"));
        }
        let mut fill = None;
        if c.eat(",") && !c.at_end() && !c.rest().starts_with(',') {
            let bits = 8 * unit as u32;
            let value = self.number(c, "fill", -1 << (bits - 1), (1 << bits) - 1)?;
            fill = Some(data_value(value, bits)?.to_le_bytes());
        }
        let mut most = i64::MAX;
        if c.eat(",") {
            most = self.number(c, "padding", 0, MAX_ALIGN)?;
        }
        c.expect_end()?;
        let padding = (to - i64::from(self.section().offset()) % to) % to;
        if padding <= most {
            self.room(padding as u64)?;
            let fill = fill.as_ref().map(|f| &f[..unit]);
            self.section_mut().pad(to as u32, fill);
        }
        Ok(())
    }

    pub(super) fn org(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let e = self.expression(c)?;
        let value = e.eval(&|_| None)?;
        let mut fill = 0;
        if c.eat(",") {
            fill = self.number(c, "fill", -128, 255)?;
        }
        c.expect_end()?;
        let here = i64::from(self.section().offset());
        let same = match value.base {
            None => true,
            Some(Base::Section(s)) => s == self.current,
            Some(Base::Symbol(_)) => return Err(AsmErrorKind::NotConstant(e.first_name())),
        };
        if !same {
            return Err(AsmErrorKind::NotRelocatable);
        }
        let (min, max) = (here, i64::from(u32::MAX));
        if !(min..=max).contains(&value.offset) {
            return Err(AsmErrorKind::Range {
                what: "place",
                value: value.offset,
                min,
                max,
            });
        }
        self.room((value.offset - here) as u64)?;
        let section = self.section_mut();
        section.data.resize(value.offset as usize, fill as u8);
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
        c.skip_blanks();
        if plain == RelocKind::Abs16
            && let Some(value) = bare_float(c)
        {
            self.room(2)?;
            self.section_mut()
                .data
                .extend(f16::from_f64(value).to_le_bytes());
            return Ok(());
        }
        let (expr, kind) = modifier(c, self)?;
        let kind = kind.unwrap_or(plain);
        if kind.bytes() != plain.bytes() {
            return Err(AsmErrorKind::Expected {
                expected: "a modifier of the size of the datum".to_string(),
                found: kind.to_string(),
            });
        }
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

    fn octa(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        loop {
            c.skip_blanks();
            let mut wide = c.clone();
            let digits = if wide.eat("0x") {
                wide.take_while(|c| c.is_ascii_hexdigit())
            } else {
                ""
            };
            let value = match u128::from_str_radix(digits, 16) {
                Ok(v) if digits.len() <= 32 => {
                    *c = wide;
                    v
                }
                _ => {
                    let e = self.expression(c)?;
                    i128::from(self.constant(&e)?) as u128
                }
            };
            self.room(16)?;
            self.section_mut().data.extend(value.to_le_bytes());
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn floats(&mut self, c: &mut Cursor<'_>, size: usize) -> Result<()> {
        loop {
            c.skip_blanks();
            let value = match bare_float(c) {
                Some(v) => v,
                None => {
                    let e = self.expression(c)?;
                    self.constant(&e)? as f64
                }
            };
            self.room(size as u64)?;
            let data = &mut self.section_mut().data;
            match size {
                4 => data.extend((value as f32).to_le_bytes()),
                _ => data.extend(value.to_le_bytes()),
            }
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn strings(&mut self, c: &mut Cursor<'_>, zero: bool) -> Result<()> {
        if c.at_end() {
            return Ok(());
        }
        loop {
            let mut text = c.string()?;
            // Neighbouring strings are one.
            while c.rest().trim_start().starts_with('"') {
                text.extend(c.string()?);
            }
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
        let data = &mut self.section_mut().data;
        data.resize(data.len() + size as usize, fill as u8);
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

    fn leb128(&mut self, c: &mut Cursor<'_>, signed: bool) -> Result<()> {
        loop {
            let e = self.expression(c)?;
            let mut value = self.constant(&e)?;
            if value < 0 && !signed {
                let (min, max) = (0, i64::MAX);
                return Err(AsmErrorKind::Range {
                    what: "value",
                    value,
                    min,
                    max,
                });
            }
            self.room(10)?;
            loop {
                let low = (value & 0x7f) as u8;
                value >>= 7;
                let last = match (value, signed) {
                    (0, false) => true,
                    (0, true) => low & 0x40 == 0,
                    (-1, true) => low & 0x40 != 0,
                    _ => false,
                };
                let more = if last { 0 } else { 0x80 };
                self.section_mut().data.push(low | more);
                if last {
                    break;
                }
            }
            if !c.eat(",") {
                return c.expect_end();
            }
        }
    }

    fn incbin(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let name = c.string()?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let (mut skip, mut count) = (0, i64::MAX);
        if c.eat(",") {
            if !c.rest().trim_start().starts_with(',') {
                skip = self.number(c, "skip", 0, i64::MAX)?;
            }
            if c.eat(",") {
                count = self.number(c, "count", 0, i64::MAX)?;
            }
        }
        c.expect_end()?;
        let path = self.find(&name)?;
        let bytes = std::fs::read(&path).map_err(|e| AsmErrorKind::File {
            file: name,
            problem: e.to_string(),
        })?;
        let start = bytes.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        let rest = &bytes[start..];
        let length = rest.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        self.room(length as u64)?;
        self.section_mut().data.extend(&rest[..length]);
        Ok(())
    }
}

/// A number with a point or exponent, possibly signed, possibly with `h` or `f`.
fn bare_float(c: &mut Cursor<'_>) -> Option<f64> {
    let mut probe = c.clone();
    let negative = probe.eat("-");
    if !negative {
        probe.eat("+");
    }
    probe.skip_blanks();
    for (name, value) in [
        ("nan", f64::NAN),
        ("infinity", f64::INFINITY),
        ("inf", f64::INFINITY),
    ] {
        let mut word = probe.clone();
        if word.ident().is_some_and(|w| w.eq_ignore_ascii_case(name)) {
            *c = word;
            return Some(if negative { -value } else { value });
        }
    }
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
