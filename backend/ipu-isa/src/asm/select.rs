//! From a written instruction to its format: other spellings, the choice
//! between formats of one mnemonic, operand values.

use indexmap::IndexSet;

use crate::codec::{Decoded, EncodeError, field_value, value_limits};
use crate::object::RelocKind;
use crate::table::{
    Broadcast, Format, FormatId, MAX_OPERANDS, Operand, OperandKind, RegFile, table,
};

use super::error::AsmErrorKind;
use super::expr::{Expr, Value};
use super::operand::{Arg, Csr, RegArg};
use crate::csr::CsrSpace;

type Result<T> = std::result::Result<T, AsmErrorKind>;

/// An instruction whose shape is known; values may still be open.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// Formats with this shape, best first. Never empty; all agree in
    /// pipeline, mode, co-issue and register operands.
    pub(crate) formats: Vec<FormatId>,
    pub(crate) args: Vec<Arg>,
    /// The operands of the data word of `sendpicp`.
    pub(crate) word2: Vec<Expr>,
}

/// A mnemonic with operands, after replacing other spellings.
struct Spelled<'a> {
    mnemonic: &'a str,
    args: Vec<Arg>,
}

const ZEROS: RegArg = RegArg {
    file: RegFile::A,
    first: 14,
    width: 2,
    broadcast: Broadcast::None,
    suffix: "",
    any_zero: false,
};

fn reg(args: &[Arg], at: usize) -> Option<RegArg> {
    match args.get(at) {
        Some(Arg::Reg(r)) => Some(*r),
        _ => None,
    }
}

/// Replaces a spelling that stands for another instruction.
fn respell<'a>(mnemonic: &'a str, args: &[Arg]) -> Result<Option<Spelled<'a>>> {
    let spelled = |mnemonic, args| Ok(Some(Spelled { mnemonic, args }));
    let filler = |file, first| Arg::Reg(RegArg::new(file, first, 1));
    let int = |v| Arg::Value(Expr::Int(v));
    match (mnemonic, args) {
        ("nop", []) => spelled("setzi", vec![filler(RegFile::M, 14), int(0)]),
        ("fnop", []) => spelled("setzi", vec![filler(RegFile::A, 13), int(0)]),
        ("strap", []) => spelled("put", vec![int(255), Arg::Reg(RegArg::MZERO)]),
        ("mov", [Arg::Reg(d), Arg::Reg(s)]) => match (d.file, d.width, s.file) {
            (RegFile::A, 2, _) => spelled(
                "or64",
                vec![args[0].clone(), args[1].clone(), Arg::Reg(ZEROS)],
            ),
            (RegFile::M, 1, RegFile::A) if !s.any_zero => spelled("atom", args.to_vec()),
            _ => spelled("or", vec![args[0].clone(), args[1].clone(), int(0)]),
        },
        ("zero", [Arg::Reg(d)]) => {
            let (mnemonic, zero) = match (d.file, d.width) {
                (RegFile::A, 2) => ("or64", ZEROS),
                (file, _) => ("or", RegArg::new(file, 15, 1)),
            };
            spelled(
                mnemonic,
                vec![args[0].clone(), Arg::Reg(zero), Arg::Reg(zero)],
            )
        }
        ("swap16", [d, s]) => spelled("roll16", vec![d.clone(), s.clone(), s.clone()]),
        ("get", [Arg::Reg(d), _]) if d.file == RegFile::A => spelled("uget", args.to_vec()),
        ("put", [_, Arg::Reg(s)]) if s.file == RegFile::A && !s.any_zero => {
            spelled("uput", args.to_vec())
        }
        ("sub", [Arg::Reg(_), Arg::Reg(_), Arg::Value(v)]) => {
            let negated = Arg::Value(v.clone().negated()?);
            spelled("add", vec![args[0].clone(), args[1].clone(), negated])
        }
        ("f16v4sisov2amp", _) => spelled("f16v4sisoamp", args.to_vec()),
        ("f16v4sisov2slic", _) => spelled("f16v4sisoslic", args.to_vec()),
        ("movz", _) => spelled("movnz", args.to_vec()),
        (_, [_, _, _]) if has_offset(mnemonic) => {
            let zero = Arg::Reg(RegArg::MZERO);
            spelled(
                mnemonic,
                vec![args[0].clone(), args[1].clone(), zero, args[2].clone()],
            )
        }
        _ => Ok(None),
    }
}

/// Loads and stores with base, delta and offset, where delta may be left out.
fn has_offset(mnemonic: &str) -> bool {
    table().by_mnemonic(mnemonic).iter().any(|id| {
        let f = id.format();
        f.operands.len() == 4
            && f.operand_index("delta").is_some()
            && f.operand_index("off").is_some()
    })
}

/// Spellings that [`respell`] and [`written`] add to the table, for suggestions.
const SPELLINGS: &[&str] = &[
    "nop",
    "fnop",
    "strap",
    "mov",
    "zero",
    "swap16",
    "ldconst",
    "f16v4sisov2amp",
    "f16v4sisov2slic",
];

fn unknown(name: &str) -> AsmErrorKind {
    let names = table().mnemonics().chain(SPELLINGS.iter().copied());
    AsmErrorKind::UnknownInstruction {
        name: name.to_string(),
        hint: similar(name, names),
    }
}

/// The most similar name, if one is close.
pub(crate) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let scored = names.map(|n| (strsim::damerau_levenshtein(name, n), n));
    let best = scored.min()?;
    (best.0 <= name.len().div_ceil(4)).then(|| best.1.to_string())
}

/// A trailing `z` or `s` that forces the kind of a 16-bit immediate.
fn forced(name: &str) -> Option<(&'static [FormatId], OperandKind)> {
    let (base, kind) = if let Some(base) = name.strip_suffix('z') {
        (base, OperandKind::Unsigned(16))
    } else {
        (name.strip_suffix('s')?, OperandKind::Signed(16))
    };
    let ids = table().by_mnemonic(base);
    let has = |id: &FormatId| id.format().operands.iter().any(|o| o.kind == kind);
    ids.iter().any(has).then_some((ids, kind))
}

/// Finds the formats for a written instruction.
pub(crate) fn written(name: &str, args: Vec<Arg>) -> Result<Written> {
    let (name, mut args) = match respell(name, &args)? {
        Some(s) => (s.mnemonic, s.args),
        None => (name, args),
    };
    let mut ids = table().by_mnemonic(name);
    let mut only = None;
    if ids.is_empty() {
        let (base, kind) = forced(name).ok_or_else(|| unknown(name))?;
        (ids, only) = (base, Some(kind));
    }
    let mut word2 = Vec::new();
    let second = ids
        .iter()
        .map(|id| id.format().word2.len())
        .max()
        .unwrap_or(0);
    if second > 0 && args.len() == second + ids.first().map_or(0, |id| id.format().operands.len()) {
        for arg in args.drain(args.len() - second..) {
            match arg {
                Arg::Value(v) => word2.push(v),
                _ => return Err(forms(ids)),
            }
        }
    }
    let fits = |f: &Format| {
        f.operands.len() == args.len()
            && only.is_none_or(|kind| f.operands.iter().any(|o| o.kind == kind))
            && f.operands
                .iter()
                .zip(&args)
                .all(|(o, a)| shape_fits(f, o, a))
    };
    let mut formats: Vec<FormatId> = ids.iter().copied().filter(|id| fits(id.format())).collect();
    if formats.is_empty() {
        return Err(forms(ids));
    }
    // `$azero` is `$m15` only where no format takes the a register.
    let exact = |f: &Format| {
        f.operands
            .iter()
            .zip(&args)
            .all(|(o, a)| match (o.kind, a) {
                (OperandKind::Reg { file, .. }, Arg::Reg(r)) => file == r.file,
                _ => true,
            })
    };
    if formats.iter().any(|id| exact(id.format())) {
        formats.retain(|id| exact(id.format()));
    }
    formats.sort_by_key(|id| preference(id.format()));
    Ok(Written {
        formats,
        args,
        word2,
    })
}

/// Signed before unsigned before high immediates.
fn preference(f: &Format) -> u8 {
    let rank = |o: &Operand| match o.kind {
        OperandKind::Unsigned(_) => 1,
        OperandKind::High(_) => 2,
        _ => 0,
    };
    f.operands.iter().map(rank).max().unwrap_or(0)
}

fn forms(ids: &[FormatId]) -> AsmErrorKind {
    let forms: IndexSet<&str> = ids.iter().map(|id| id.format().syntax.as_str()).collect();
    AsmErrorKind::Operands {
        forms: forms.into_iter().collect::<Vec<_>>().join(" | "),
    }
}

/// What stands behind an operand in the syntax, up to the comma.
fn suffix_of<'a>(f: &'a Format, name: &str) -> &'a str {
    let tail = f
        .syntax
        .split_once(&format!("{{{name}}}"))
        .map_or("", |(_, tail)| tail);
    tail.split(',').next().unwrap_or("")
}

fn shape_fits(f: &Format, o: &Operand, arg: &Arg) -> bool {
    match (o.kind, arg) {
        (
            OperandKind::Reg {
                file,
                width,
                broadcast,
            },
            Arg::Reg(r),
        ) => {
            let zero = r.any_zero && file == RegFile::M;
            // Both scalar spellings have one code, and no mnemonic has both.
            let same = |b| if b == Broadcast::B { Broadcast::BL } else { b };
            (file == r.file || zero)
                && width == r.width
                && same(broadcast) == same(r.broadcast)
                && r.suffix == suffix_of(f, &o.name)
        }
        (OperandKind::Reg { .. }, _) | (_, Arg::Reg(_)) => false,
        (OperandKind::Csr, Arg::Csr(csr)) => {
            let upper = matches!(f.mnemonic.as_str(), "uget" | "uput");
            upper == (csr.space == CsrSpace::WorkerUpper)
        }
        (_, Arg::Csr(_)) => false,
        (_, Arg::Value(_)) => true,
        (_, Arg::Modified(kind, _)) => holds(f, o, *kind),
    }
}

/// A field that needs an address at link time.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) kind: RelocKind,
    pub(crate) value: Value,
}

impl Written {
    pub(crate) fn format(&self) -> &'static Format {
        // `formats` is never empty; id 0 exists whenever any id does.
        self.formats.first().copied().unwrap_or_default().format()
    }

    /// The instruction with zero immediates: enough for bundle checks.
    pub(crate) fn skeleton(&self) -> Decoded {
        let format = self.format();
        let mut fields = [0; MAX_OPERANDS];
        for (field, arg) in fields.iter_mut().zip(&self.args) {
            if let Arg::Reg(r) = arg {
                *field = u32::from(r.first);
            }
        }
        Decoded {
            format: format.id,
            opcode: format.opcode,
            fields,
        }
    }

    pub(crate) fn csr(&self) -> Option<Csr> {
        self.args.iter().find_map(|a| match a {
            Arg::Csr(c) => Some(*c),
            _ => None,
        })
    }

    /// Fills in the operand values. `eval` evaluates expressions;
    /// `byte_targets` makes bare branch targets byte addresses.
    pub(crate) fn resolve(
        &self,
        eval: &dyn Fn(&Expr) -> Result<Value>,
        byte_targets: bool,
    ) -> Result<(Decoded, Option<Address>)> {
        let mut values = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            values.push(match arg {
                Arg::Reg(r) => Value::int(i64::from(r.first)),
                Arg::Csr(c) => Value::int(i64::from(c.index)),
                Arg::Value(e) => eval(e)?,
                Arg::Modified(kind, e) => modified(*kind, eval(e)?)?,
            });
        }
        let mut failure: Option<AsmErrorKind> = None;
        for id in &self.formats {
            match (self.fill(id.format(), &values, byte_targets), &mut failure) {
                (Ok(done), _) => return Ok(done),
                (Err(e), None) => failure = Some(e),
                (Err(e), Some(first)) => widen(first, &e),
            }
        }
        Err(failure.unwrap_or_else(|| forms(&self.formats)))
    }

    fn fill(
        &self,
        format: &Format,
        values: &[Value],
        byte_targets: bool,
    ) -> Result<(Decoded, Option<Address>)> {
        let mut plain = Vec::with_capacity(values.len());
        let mut address = None;
        for (at, (operand, value)) in format.operands.iter().zip(values).enumerate() {
            let chosen = match self.args.get(at) {
                Some(Arg::Modified(kind, _)) => Some(*kind),
                _ => None,
            };
            let is_target = matches!(operand.kind, OperandKind::Branch | OperandKind::Call);
            plain.push(match value.as_int() {
                Some(v) if is_target && !byte_targets => word_target(&operand.name, v)?,
                Some(v) if matches!(operand.kind, OperandKind::High(_)) && v < 0 => {
                    // Negative numbers stand for their 32-bit pattern.
                    if v >= i64::from(i32::MIN) {
                        v & 0xffff_ffff
                    } else {
                        v
                    }
                }
                Some(v) => v,
                None => {
                    let kind = chosen
                        .or_else(|| reloc_of(format, operand))
                        .ok_or_else(|| AsmErrorKind::AddressOperand(operand.name.clone()))?;
                    if address.is_some() {
                        return Err(AsmErrorKind::NotRelocatable);
                    }
                    address = Some(Address {
                        kind,
                        value: value.clone(),
                    });
                    0
                }
            });
        }
        Ok((Decoded::new(format.id, &plain)?, address))
    }
}

/// The range of a second format joins the one that was reported when they touch.
fn widen(first: &mut AsmErrorKind, other: &AsmErrorKind) {
    if let (
        AsmErrorKind::Encode(EncodeError::OutOfRange {
            operand, min, max, ..
        }),
        AsmErrorKind::Encode(EncodeError::OutOfRange {
            operand: same,
            min: low,
            max: high,
            ..
        }),
    ) = (first, other)
        && operand == same
        && *min < *low
        && *low <= *max
    {
        *max = *high.max(max);
    }
}

/// A bare branch target counts words.
fn word_target(name: &str, index: i64) -> Result<i64> {
    let max = value_limits(OperandKind::Branch).1 / 4;
    if (0..=max).contains(&index) {
        return Ok(field_value(OperandKind::Branch, index as u32));
    }
    Err(EncodeError::OutOfRange {
        operand: name.to_string(),
        value: index,
        min: 0,
        max,
    }
    .into())
}

/// True when the bits of an operand can take the field of a relocation.
fn holds(format: &Format, operand: &Operand, kind: RelocKind) -> bool {
    if kind == RelocKind::Run {
        return reloc_of(format, operand) == Some(kind);
    }
    let [slice] = operand.slices.as_slice() else {
        return false;
    };
    slice.lo == 0 && u32::from(operand.kind.bits()) >= kind.bits()
}

/// A number as the field of a relocation; branch targets stay byte addresses.
fn modified(kind: RelocKind, value: Value) -> Result<Value> {
    let Some(v) = value.as_int() else {
        return Ok(value);
    };
    if kind.is_relative() {
        return Err(AsmErrorKind::NotRelocatable);
    }
    let align = 1i64 << kind.shift();
    if v % align != 0 {
        return Err(EncodeError::Misaligned {
            operand: kind.to_string(),
            value: v,
            align,
        }
        .into());
    }
    Ok(Value::int(v >> kind.shift()))
}

pub(crate) fn reloc_of(format: &Format, operand: &Operand) -> Option<RelocKind> {
    match (format.mnemonic.as_str(), operand.kind) {
        (_, OperandKind::Branch | OperandKind::Call) => Some(RelocKind::Abs19S2),
        ("setzi", OperandKind::Unsigned(20)) => Some(RelocKind::Abs20),
        ("cmpult", OperandKind::Unsigned(16)) => Some(RelocKind::Abs16),
        ("rpt", OperandKind::Unsigned(8)) => Some(RelocKind::Abs8),
        ("run" | "runall", OperandKind::Unsigned(16)) => Some(RelocKind::Run),
        _ => None,
    }
}

/// The instructions of `ldconst`: `setzi` with the low 20 bits and, for a
/// number that needs them, `or` with the high 12.
pub(crate) fn load_constant(args: &[Arg], value: Option<i64>) -> Result<Vec<Written>> {
    let (Some(target), Some(Arg::Value(e)), 2) = (reg(args, 0), args.get(1), args.len()) else {
        return Err(AsmErrorKind::Operands {
            forms: "ldconst {dst}, {imm32}".to_string(),
        });
    };
    let dst = || Arg::Reg(target);
    let Some(v) = value else {
        return Ok(vec![written("setzi", vec![dst(), Arg::Value(e.clone())])?]);
    };
    let (min, max) = (i64::from(i32::MIN), i64::from(u32::MAX));
    if !(min..=max).contains(&v) {
        let operand = "imm32".to_string();
        return Err(EncodeError::OutOfRange {
            operand,
            value: v,
            min,
            max,
        }
        .into());
    }
    let bits = v & max;
    let low = Arg::Value(Expr::Int(bits & 0xf_ffff));
    let mut out = vec![written("setzi", vec![dst(), low])?];
    if bits >> 20 != 0 {
        let high = Arg::Value(Expr::Int(bits >> 20 << 20));
        out.push(written("or", vec![dst(), dst(), high])?);
    }
    Ok(out)
}
