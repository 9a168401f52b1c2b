//! Listings as text.

use std::fmt::Write;

use ipu_isa::asm::{Entry, Fixup};
use ipu_isa::{Decoded, OperandKind};

use crate::cli::Cli;

/// Where comments begin.
const COMMENT_COLUMN: usize = 40;

/// The column behind a text with tabs.
fn width(text: &str) -> usize {
    let step = |at: usize, c: char| if c == '\t' { at / 8 * 8 + 8 } else { at + 1 };
    text.chars().fold(0, step)
}

/// Appends a comment to the text of a line.
fn comment(line: &mut String, text: &str) {
    let used = width(line.rsplit('\n').next().unwrap_or(""));
    let pad = COMMENT_COLUMN.saturating_sub(used).max(1);
    let _ = write!(line, "{}# {text}", " ".repeat(pad));
}

/// `[0x01,0x02]`; bits that the linker fills in are letters.
pub fn encoding(words: &[u32], fixups: &[Fixup]) -> String {
    let mut out = String::from("[");
    for (at, byte) in words.iter().flat_map(|w| w.to_le_bytes()).enumerate() {
        if at > 0 {
            out.push(',');
        }
        let letter = |bit: u8| {
            fixups.iter().enumerate().find_map(|(i, f)| {
                let word = at as u32 / 4 * 4;
                let place = bit + 8 * (at % 4) as u8;
                (f.offset / 4 * 4 == word && f.bits.contains(&place))
                    .then(|| char::from(b'A' + (i as u8).min(25)))
            })
        };
        let letters: Vec<Option<char>> = (0..8).rev().map(letter).collect();
        match letters.as_slice() {
            l if l.iter().all(Option::is_none) => {
                let _ = write!(out, "{byte:#04x}");
            }
            [Some(c), rest @ ..] if rest.iter().all(|l| *l == Some(*c)) => {
                if byte == 0 {
                    out.push(*c);
                } else {
                    let _ = write!(out, "{byte:#04x}'{c}'");
                }
            }
            l => {
                out.push_str("0b");
                for (i, letter) in l.iter().enumerate() {
                    out.push(letter.unwrap_or(if byte >> (7 - i) & 1 == 1 { '1' } else { '0' }));
                }
            }
        }
    }
    out.push(']');
    out
}

/// The format and the operands of an instruction, as comment lines.
fn instruction(out: &mut String, d: &Decoded) {
    let format = d.format();
    let _ = write!(
        out,
        "\n# <MCInst #{} {} {}",
        format.id.index(),
        format.mnemonic,
        format.name
    );
    for (at, operand) in format.operands.iter().enumerate() {
        let value = d.value(at);
        let _ = write!(out, "\n#  <MCOperand {} ", operand.name);
        let _ = match operand.kind {
            OperandKind::Reg { file, width: 1, .. } => write!(out, "Reg:{}{value}", file.letter()),
            OperandKind::Reg { file, width, .. } => {
                let last = value + i64::from(width) - 1;
                write!(out, "Reg:{}{value}:{last}", file.letter())
            }
            OperandKind::Csr => write!(out, "Csr:{value}"),
            OperandKind::Branch | OperandKind::Call => write!(out, "Target:{value:#x}"),
            _ => write!(out, "Imm:{value}"),
        };
        out.push('>');
    }
    out.push('>');
}

/// One instruction or bundle.
pub fn code(
    cli: &Cli,
    parts: &[String],
    words: &[u32],
    fixups: &[Fixup],
    decoded: &[Decoded],
    out: &mut String,
) {
    let mut line = match parts {
        [one] => format!("\t{one}"),
        many if cli.output_asm_variant == 1 => format!("\t{{\n\t\t{}\n\t}}", many.join("\n\t\t")),
        many => format!("\t{{ {} }}", many.join(" ; ")),
    };
    if cli.show_encoding {
        comment(&mut line, &format!("encoding: {}", encoding(words, fixups)));
        for (i, f) in fixups.iter().enumerate() {
            line.push('\n');
            let text = format!(
                "  fixup {} - offset: {}, value: {}, kind: fixup_colossus_{}",
                char::from(b'A' + (i as u8).min(25)),
                f.offset,
                f.value,
                kind_name(f)
            );
            comment(&mut line, &text);
        }
    }
    if cli.show_inst {
        for d in decoded {
            instruction(&mut line, d);
        }
    }
    out.push_str(&line);
    out.push('\n');
}

fn kind_name(fixup: &Fixup) -> String {
    fixup
        .kind
        .modifier()
        .trim_start_matches("abs")
        .replace('@', "_")
        .trim_matches('_')
        .to_string()
}

/// All statements of a run.
pub fn listing(cli: &Cli, entries: &[Entry], out: &mut String) {
    out.push_str("\t.text\n");
    for entry in entries {
        match entry {
            Entry::Label(name) => {
                let _ = writeln!(out, "{name}:");
            }
            Entry::Directive { name, arguments } if arguments.is_empty() => {
                let _ = writeln!(out, "\t{name}");
            }
            Entry::Directive { name, arguments } => {
                let _ = writeln!(out, "\t{name}\t{arguments}");
            }
            Entry::Code {
                parts,
                words,
                fixups,
                decoded,
            } => code(cli, parts, words, fixups, decoded, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_isa::object::RelocKind;

    #[test]
    fn open_bits_are_letters() {
        assert_eq!(encoding(&[0x4420_3011], &[]), "[0x11,0x30,0x20,0x44]");
        let fixup = |offset, kind, bits: std::ops::Range<u8>| Fixup {
            offset,
            kind,
            value: "x".to_string(),
            bits: bits.collect(),
        };
        assert_eq!(
            encoding(&[0x4080_0000], &[fixup(0, RelocKind::Abs19S2, 0..19)]),
            "[A,A,0b10000AAA,0x40]"
        );
        assert_eq!(
            encoding(
                &[0x9900_0000, 0x9ad0_0000],
                &[fixup(0, RelocKind::Abs20, 0..20)]
            ),
            "[A,A,0b0000AAAA,0x99,0x00,0x00,0xd0,0x9a]"
        );
    }
}
