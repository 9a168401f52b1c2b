//! Instruction operands as written: registers, control registers, expressions.

use crate::csr::{CsrSpace, NAMED_REGISTERS, control_register};
use crate::object::RelocKind;
use crate::table::{Broadcast, RegFile};

use super::cursor::Cursor;
use super::error::AsmErrorKind;
use super::expr::{self, Expr, Scope};

type Result<T> = std::result::Result<T, AsmErrorKind>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg {
    Reg(RegArg),
    Csr(Csr),
    Value(Expr),
    /// An address with the way to hold it.
    Modified(RelocKind, Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegArg {
    pub(crate) file: RegFile,
    pub(crate) first: u8,
    pub(crate) width: u8,
    pub(crate) broadcast: Broadcast,
    /// `+=`, `++`, `>>`, `@` or nothing behind the register.
    pub(crate) suffix: &'static str,
    /// `$azero` also stands for `$m15` in real sources.
    pub(crate) any_zero: bool,
}

impl RegArg {
    pub(crate) fn new(file: RegFile, first: u8, width: u8) -> RegArg {
        let broadcast = Broadcast::None;
        RegArg {
            file,
            first,
            width,
            broadcast,
            suffix: "",
            any_zero: false,
        }
    }

    pub(crate) const MZERO: RegArg = RegArg {
        file: RegFile::M,
        first: 15,
        width: 1,
        broadcast: Broadcast::None,
        suffix: "",
        any_zero: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csr {
    pub(crate) space: CsrSpace,
    pub(crate) index: u8,
}

impl Csr {
    /// Only the generation with f8 has it.
    pub(crate) fn is_f8(self) -> bool {
        match self.space {
            CsrSpace::WorkerUpper => matches!(self.index, 9 | 10),
            CsrSpace::Supervisor => matches!(self.index, 49 | 51),
            _ => false,
        }
    }
}

const SUFFIXES: [&str; 4] = ["+=", "++", ">>", "@"];

/// `m4`, `a7`, `ap1`, `mp2`, `aq1`, or a name.
fn register(name: &str) -> Option<RegArg> {
    if let Some(&(_, file, first, width)) = NAMED_REGISTERS.iter().find(|e| e.0 == name) {
        let any_zero = name == "azero";
        return Some(RegArg {
            any_zero,
            ..RegArg::new(file, first, width)
        });
    }
    let (file, rest) = match name.split_at_checked(1)? {
        ("m", rest) => (RegFile::M, rest),
        ("a", rest) => (RegFile::A, rest),
        _ => return None,
    };
    let (width, digits) = match rest.split_at_checked(1)? {
        ("p", digits) => (2, digits),
        ("q", digits) => (4, digits),
        _ => (1, rest),
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit()) && digits.len() <= 2;
    let number: u8 = digits.parse().ok().filter(|_| plain)?;
    let first = number.checked_mul(width)?;
    (first <= 16 - width).then(|| RegArg::new(file, first, width))
}

fn register_tail(c: &mut Cursor<'_>, mut reg: RegArg) -> Result<RegArg> {
    if c.eat(":") {
        c.skip_blanks();
        let tail = c.take_while(|c| c.is_ascii_alphanumeric());
        reg.broadcast = match tail {
            "B" => Broadcast::B,
            "BL" => Broadcast::BL,
            "BU" => Broadcast::BU,
            _ => {
                let last: Option<u8> = tail.parse().ok().filter(|&l| l < 16);
                let width = last.and_then(|l| (l + 1).checked_sub(reg.first));
                let fits = |w: &u8| matches!(w, 2 | 4) && reg.first.is_multiple_of(*w);
                match width.filter(|w| reg.width == 1 && fits(w)) {
                    Some(w) => reg.width = w,
                    _ => {
                        let wanted = "the last register of an aligned pair or quad";
                        return Err(AsmErrorKind::expected(wanted, tail));
                    }
                }
                Broadcast::None
            }
        };
    }
    reg.suffix = SUFFIXES.into_iter().find(|s| c.eat(s)).unwrap_or("");
    Ok(reg)
}

fn parse_one(c: &mut Cursor<'_>, scope: &dyn Scope) -> Result<Arg> {
    if !c.eat("$") {
        return modifier(c, scope).map(|(e, kind)| match kind {
            Some(kind) => Arg::Modified(kind, e),
            None => Arg::Value(e),
        });
    }
    // A preprocessor may leave a blank behind the `$`.
    c.skip_blanks();
    let name = c.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(reg) = register(name) {
        return register_tail(c, reg).map(Arg::Reg);
    }
    match control_register(name) {
        Some(csr) => Ok(Arg::Csr(Csr {
            space: csr.space,
            index: csr.index,
        })),
        None => Err(AsmErrorKind::UnknownRegister(name.to_string())),
    }
}

/// An expression with the way to hold its address: `x`, `x@abs18@s2` or `%abs18@s2(x)`.
pub(crate) fn modifier(c: &mut Cursor<'_>, scope: &dyn Scope) -> Result<(Expr, Option<RelocKind>)> {
    let name = |c: &mut Cursor<'_>| {
        let text = c.take_while(|c| matches!(c, '@' | '_') || c.is_ascii_alphanumeric());
        RelocKind::from_modifier(text)
            .map(Some)
            .ok_or_else(|| AsmErrorKind::expected("an address modifier", text))
    };
    if c.eat("%") {
        let kind = name(c)?;
        c.expect("(")?;
        let e = expr::parse(c, scope)?;
        c.expect(")")?;
        return Ok((e, kind));
    }
    let e = expr::parse(c, scope)?;
    c.skip_blanks();
    if c.peek() == Some('@') {
        let kind = name(c)?;
        return Ok((e, kind));
    }
    Ok((e, None))
}

/// Most operands that any spelling takes.
const MAX_ARGS: usize = 8;

/// Reads the operands up to the end of the statement.
pub(crate) fn parse_args(c: &mut Cursor<'_>, scope: &dyn Scope) -> Result<Vec<Arg>> {
    let mut args = Vec::new();
    if c.at_end() {
        return Ok(args);
    }
    loop {
        if args.len() == MAX_ARGS {
            return Err(AsmErrorKind::Limit("operands of an instruction"));
        }
        args.push(parse_one(c, scope)?);
        if c.at_end() {
            return Ok(args);
        }
        if !c.eat(",") {
            return Err(AsmErrorKind::expected(
                "`,` or the end of the statement",
                c.rest(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoNames;

    impl Scope for NoNames {
        fn name(&self, name: &str) -> Expr {
            Expr::Symbol(name.into())
        }
        fn numeric(&self, number: u32, _: bool) -> Result<Expr> {
            Ok(Expr::Int(i64::from(number)))
        }
        fn here(&self) -> Expr {
            Expr::Int(0)
        }
    }

    fn one(text: &str) -> Result<Arg> {
        parse_args(&mut Cursor::new(text), &NoNames).map(|mut a| a.remove(0))
    }

    fn reg(text: &str) -> (char, u8, u8) {
        match one(text) {
            Ok(Arg::Reg(r)) => (r.file.letter(), r.first, r.width),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn register_spellings() {
        assert_eq!(reg("$m0"), ('m', 0, 1));
        assert_eq!(reg("$a14:15"), ('a', 14, 2));
        assert_eq!(reg("$a0: 1"), ('a', 0, 2));
        assert_eq!(reg("$a4 : 7"), ('a', 4, 4));
        assert_eq!(reg("$aq1"), ('a', 4, 4));
        assert_eq!(reg("$ap3"), ('a', 6, 2));
        assert_eq!(reg("$mp5"), ('m', 10, 2));
        assert_eq!(reg("$azeros"), ('a', 14, 2));
        assert_eq!(reg("$lr"), ('m', 10, 1));
        assert_eq!(reg("$mvertex_base"), ('m', 13, 1));
        for text in [
            "$m16", "$a1:2", "$a2:5", "$a0:2", "$a14:17", "$aq4", "$M0", "$", "$m", "$m001",
        ] {
            assert!(one(text).is_err(), "{text}");
        }
    }

    #[test]
    fn suffixes_and_broadcasts() {
        for (text, suffix) in [
            ("$m0+=", "+="),
            ("$m0 ++", "++"),
            ("$m1>>", ">>"),
            ("$m2@", "@"),
            ("$m3", ""),
        ] {
            assert!(
                matches!(one(text), Ok(Arg::Reg(r)) if r.suffix == suffix),
                "{text}"
            );
        }
        let broadcast = |text: &str| match one(text) {
            Ok(Arg::Reg(r)) => r.broadcast,
            other => panic!("{other:?}"),
        };
        assert_eq!(broadcast("$a0:BL"), Broadcast::BL);
        assert_eq!(broadcast("$a0:BU"), Broadcast::BU);
        assert_eq!(broadcast("$a0:B"), Broadcast::B);
    }

    #[test]
    fn control_registers() {
        let csr = |space, index| Ok(Arg::Csr(Csr { space, index }));
        assert_eq!(one("$WSR"), csr(CsrSpace::Worker, 1));
        assert_eq!(one("$FP_CTL"), csr(CsrSpace::WorkerUpper, 2));
        assert_eq!(one("$INCOMING_BASE"), csr(CsrSpace::Supervisor, 164));
        assert_eq!(
            one("$WXR"),
            Err(AsmErrorKind::UnknownRegister("WXR".into()))
        );
    }
}
