//! Canonical text of decoded instructions.
//!
//! The text parses back to the same words. Registers print by number
//! (`$m15`, `$a14:15`), branch targets as byte addresses. A 16-bit unsigned
//! immediate that the assembler would take as signed gets the `z` spelling.

use std::fmt;

use crate::codec::{Decoded, Instruction};
use crate::opcode::Opcode;
use crate::table::{Format, OperandKind, table};

/// The filler of the main pipeline.
pub const NOP: u32 = 0x19e0_0000;
/// The filler of the aux pipeline.
pub const FNOP: u32 = 0x1ad0_0000;

struct Text<'a> {
    kind: OperandKind,
    decoded: &'a Decoded,
    at: usize,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.decoded.value(self.at);
        match self.kind {
            OperandKind::Reg {
                file,
                width,
                broadcast,
            } => {
                write!(f, "${}{value}", file.letter())?;
                if width > 1 {
                    write!(f, ":{}", value + i64::from(width) - 1)?;
                }
                f.write_str(broadcast.suffix())
            }
            OperandKind::Branch | OperandKind::Call => write!(f, "{value:#x}"),
            _ => write!(f, "{value}"),
        }
    }
}

/// True when the plain mnemonic with these values would select the signed sibling of `format`.
fn needs_z(format: &Format, decoded: &Decoded) -> bool {
    let Some(at) = format
        .operands
        .iter()
        .position(|o| o.kind == OperandKind::Unsigned(16))
    else {
        return false;
    };
    let sibling = |f: &Format| f.operands.iter().any(|o| o.kind == OperandKind::Signed(16));
    decoded.value(at) <= i64::from(i16::MAX)
        && table()
            .by_mnemonic(&format.mnemonic)
            .iter()
            .any(|id| sibling(id.format()))
}

impl Decoded {
    /// The canonical text, with the operands that `other` gives in its words.
    pub fn text_with(&self, other: &dyn Fn(usize) -> Option<String>) -> String {
        match (self.opcode, self.word()) {
            (Opcode::Setzi, NOP) => return "nop".to_string(),
            (Opcode::Setzi, FNOP) => return "fnop".to_string(),
            _ => {}
        }
        let format = self.format();
        let mut rest = format.syntax.as_str();
        let mut out = String::with_capacity(rest.len() + 16);
        if needs_z(format, self)
            && let Some(tail) = rest.strip_prefix(format.mnemonic.as_str())
        {
            out.push_str(&format.mnemonic);
            out.push('z');
            rest = tail;
        }
        for (at, operand) in format.operands.iter().enumerate() {
            // Operands stand in text order, so the next brace is this operand's.
            let Some((before, after)) = rest.split_once('{') else {
                break;
            };
            out.push_str(before);
            match other(at) {
                Some(text) => out.push_str(&text),
                None => {
                    let text = Text {
                        kind: operand.kind,
                        decoded: self,
                        at,
                    };
                    out.push_str(&text.to_string());
                }
            }
            rest = after.split_once('}').map_or("", |(_, tail)| tail);
        }
        out.push_str(rest);
        out
    }

    /// The same with bare branch targets as word indices, as the assembler reads them.
    pub fn source_text(&self) -> String {
        self.text_with(&|at| self.word_target(at))
    }

    /// A branch target as a word index.
    pub(crate) fn word_target(&self, at: usize) -> Option<String> {
        let kind = self.format().operands.get(at)?.kind;
        let target = matches!(kind, OperandKind::Branch | OperandKind::Call);
        target.then(|| (self.value(at) >> 2).to_string())
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_with(&|_| None))
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Single(d) => write!(f, "{d}"),
            Instruction::Bundle(main, aux) => write!(f, "{{ {main} ; {aux} }}"),
            Instruction::SendPicPair { head, xpic, pic } => write!(f, "{head}, {xpic}, {pic}"),
        }
    }
}
