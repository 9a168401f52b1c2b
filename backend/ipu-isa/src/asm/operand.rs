//! Instruction operands as written: registers, control registers, expressions.

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

/// Which control register space an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsrSpace {
    /// Both modes, `get` and `put`.
    Common,
    /// Worker, `get` and `put`.
    Worker,
    /// Worker, `uget` and `uput`.
    WorkerUpper,
    /// Supervisor, `get` and `put`.
    Supervisor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csr {
    pub(crate) space: CsrSpace,
    pub(crate) index: u8,
}

/// Control registers by name.
const CSRS: &[(&str, CsrSpace, u8)] = &[
    ("PC", CsrSpace::Common, 0),
    ("WSR", CsrSpace::Worker, 1),
    ("VERTEX_BASE", CsrSpace::Worker, 2),
    ("WORKER_BASE", CsrSpace::Worker, 3),
    ("REPEAT_COUNT", CsrSpace::Worker, 4),
    ("REPEAT_FIRST", CsrSpace::Worker, 5),
    ("REPEAT_END", CsrSpace::Worker, 6),
    ("COUNT_L", CsrSpace::Common, 96),
    ("COUNT_U", CsrSpace::Common, 97),
    ("DBG_DATA", CsrSpace::Common, 112),
    ("DBG_BRK_ID", CsrSpace::Common, 113),
    ("FP_STS", CsrSpace::WorkerUpper, 0),
    ("FP_CLR", CsrSpace::WorkerUpper, 1),
    ("FP_CTL", CsrSpace::WorkerUpper, 2),
    ("PRNG_0_0", CsrSpace::WorkerUpper, 3),
    ("PRNG_0_1", CsrSpace::WorkerUpper, 4),
    ("PRNG_1_0", CsrSpace::WorkerUpper, 5),
    ("PRNG_1_1", CsrSpace::WorkerUpper, 6),
    ("PRNG_SEED", CsrSpace::WorkerUpper, 7),
    ("TAS", CsrSpace::WorkerUpper, 8),
    ("FP_NFMT", CsrSpace::WorkerUpper, 9),
    ("FP_SCL", CsrSpace::WorkerUpper, 10),
    ("SSR", CsrSpace::Supervisor, 1),
    ("CR", CsrSpace::Supervisor, 2),
    ("TILE_ID", CsrSpace::Supervisor, 3),
    ("FP_ICTL", CsrSpace::Supervisor, 32),
    ("WORKER0_BASE", CsrSpace::Supervisor, 33),
    ("WORKER1_BASE", CsrSpace::Supervisor, 34),
    ("WORKER2_BASE", CsrSpace::Supervisor, 35),
    ("WORKER3_BASE", CsrSpace::Supervisor, 36),
    ("WORKER4_BASE", CsrSpace::Supervisor, 37),
    ("WORKER5_BASE", CsrSpace::Supervisor, 38),
    ("FP_INFMT", CsrSpace::Supervisor, 49),
    ("FP_ISCL", CsrSpace::Supervisor, 51),
    ("CCCSLOAD", CsrSpace::Supervisor, 80),
    ("SCOUNT_L", CsrSpace::Supervisor, 96),
    ("SCOUNT_U", CsrSpace::Supervisor, 97),
    ("CTXT_STS", CsrSpace::Supervisor, 114),
    ("DBG_CTL", CsrSpace::Supervisor, 115),
    ("ECSR", CsrSpace::Supervisor, 115),
    ("INCOMING_MUX", CsrSpace::Supervisor, 160),
    ("INCOMING_MUXPAIR", CsrSpace::Supervisor, 161),
    ("INCOMING_DELTA", CsrSpace::Supervisor, 162),
    ("INCOMING_FORMAT", CsrSpace::Supervisor, 163),
    ("INCOMING_BASE", CsrSpace::Supervisor, 164),
    ("SINIT", CsrSpace::Supervisor, 165),
    ("INCOMING_DCOUNT", CsrSpace::Supervisor, 166),
    ("OUTGOING_BASE", CsrSpace::Supervisor, 167),
    ("OUTGOING_DELTA", CsrSpace::Supervisor, 168),
    ("EXCHANGE_CTL", CsrSpace::Supervisor, 169),
    ("ANS_DCOUNT", CsrSpace::Supervisor, 170),
    ("EXCHANGE_ADJ", CsrSpace::Supervisor, 171),
];

/// Registers with a name instead of a number.
const NAMED: &[(&str, RegFile, u8, u8)] = &[
    ("mzero", RegFile::M, 15, 1),
    ("mworker_base", RegFile::M, 12, 1),
    ("mvertex_base", RegFile::M, 13, 1),
    ("bp", RegFile::M, 8, 1),
    ("fp", RegFile::M, 9, 1),
    ("lr", RegFile::M, 10, 1),
    ("sp", RegFile::M, 11, 1),
    ("azero", RegFile::A, 15, 1),
    ("azeros", RegFile::A, 14, 2),
];

const SUFFIXES: [&str; 4] = ["+=", "++", ">>", "@"];

/// `m4`, `a7`, `ap1`, `mp2`, `aq1`, or a name.
fn register(name: &str) -> Option<RegArg> {
    if let Some(&(_, file, first, width)) = NAMED.iter().find(|e| e.0 == name) {
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
        return expr::parse(c, scope).map(Arg::Value);
    }
    let name = c.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(reg) = register(name) {
        return register_tail(c, reg).map(Arg::Reg);
    }
    match CSRS.iter().find(|e| e.0 == name) {
        Some(&(_, space, index)) => Ok(Arg::Csr(Csr { space, index })),
        None => Err(AsmErrorKind::UnknownRegister(name.to_string())),
    }
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
