//! Disassembly with symbols.

use std::collections::BTreeMap;
use std::fmt::Write;

use ipu_isa::disasm::{Item, items};
use ipu_isa::object::{RelocKind, Relocation};
use ipu_isa::{Decoded, Instruction, OperandKind};

use crate::Cli;
use crate::row::Timeline;

/// Names of places.
#[derive(Clone, Debug, Default)]
pub struct Names {
    places: BTreeMap<u32, Vec<String>>,
}

impl Names {
    /// Adds a name.
    pub fn add(&mut self, address: u32, name: &str) {
        self.places
            .entry(address)
            .or_default()
            .push(name.to_string());
    }

    /// The names of a place.
    pub fn at(&self, address: u32) -> &[String] {
        self.places.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The nearest name at or before a place, within `[start, end)`.
    pub fn near(&self, address: u32, start: u32) -> Option<String> {
        if start > address {
            return None;
        }
        let (place, names) = self.places.range(start..=address).next_back()?;
        let name = names.first()?;
        Some(match address - place {
            0 => name.clone(),
            offset => format!("{name}+{offset:#x}"),
        })
    }
}

/// A piece of code.
pub struct Code<'a> {
    /// Address of the first byte.
    pub address: u32,
    /// Contents.
    pub bytes: &'a [u8],
    /// Relocations of an object, by offset, with their texts.
    pub relocations: Vec<(&'a Relocation, String)>,
    /// Places where exchange rows begin.
    pub rows: Vec<u32>,
}

/// The name of a relocation.
pub fn relocation_name(kind: RelocKind) -> &'static str {
    match kind {
        RelocKind::Abs8 => "R_IPU_8",
        RelocKind::Abs16 => "R_IPU_16",
        RelocKind::Abs20 => "R_IPU_20",
        RelocKind::Abs32 => "R_IPU_32",
        RelocKind::Abs64 => "R_IPU_64",
        RelocKind::Relative16S2 => "R_IPU_RELATIVE_16_S2",
        RelocKind::Abs18S2 => "R_IPU_18_S2",
        RelocKind::Abs19S2 => "R_IPU_19_S2",
        RelocKind::Run => "R_IPU_RUN",
        RelocKind::Abs16S3 => "R_IPU_16_S3",
        RelocKind::Abs16S4 => "R_IPU_16_S4",
        RelocKind::Abs16S5 => "R_IPU_16_S5",
        RelocKind::Abs21 => "R_IPU_21",
    }
}

/// The address that an instruction branches to.
pub fn target(d: &Decoded) -> Option<u32> {
    let operands = d.format().operands.iter();
    let at = operands
        .enumerate()
        .find(|(_, o)| matches!(o.kind, OperandKind::Branch | OperandKind::Call))?;
    u32::try_from(d.value(at.0)).ok()
}

/// Disassembles a piece of code.
pub fn show(cli: &Cli, code: &Code<'_>, names: &Names, out: &mut String) {
    let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
    let words: Vec<u32> = code.bytes.chunks_exact(4).map(word).collect();
    let mut relocations = code.relocations.iter().peekable();
    let mut timeline: Option<Timeline> = None;
    for (at, item) in items(&words) {
        let offset = 4 * at as u32;
        let address = code.address.wrapping_add(offset);
        let shown = cli.shows(address);
        if shown {
            for name in names.at(address) {
                let _ = writeln!(out, "\n{address:08x} <{name}>:");
            }
        }
        if code.rows.contains(&address) {
            timeline = Some(Timeline::default());
        }
        let own = &words[at..at + item.word_count()];
        let mut note = String::new();
        let own_relocations: Vec<_> = std::iter::from_fn(|| {
            relocations.next_if(|(r, _)| r.offset < offset + 4 * own.len() as u32)
        })
        .collect();
        if own_relocations.is_empty() {
            for to in item.decoded().iter().filter_map(target) {
                if let Some(name) = names.near(to, 0) {
                    let _ = write!(note, " <{name}>");
                }
            }
        }
        if let Item::BadBundle(_, _, why) = &item {
            let _ = write!(note, "  // not a legal bundle: {why}");
        }
        if let (Some(line), Item::Instruction(i)) = (&mut timeline, &item) {
            let text = line.step(i);
            let _ = write!(note, "  // {text}");
            if matches!(i, Instruction::Single(d) if d.format().mnemonic == "br") {
                timeline = None;
            }
        }
        if !shown {
            continue;
        }
        let raw: Vec<String> = own
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .map(|b| format!("{b:02x}"))
            .collect();
        let _ = write!(out, "{address:8x}:");
        if !cli.no_show_raw_insn {
            let _ = write!(out, " {:<24}", raw.join(" "));
        }
        let _ = writeln!(out, "\t{item}{note}");
        for (r, text) in own_relocations {
            let place = code.address.wrapping_add(r.offset);
            let _ = writeln!(
                out,
                "\t\t\t{place:08x}:  {}\t{text}",
                relocation_name(r.kind)
            );
        }
    }
    let rest = code.bytes.len() % 4;
    if rest > 0 {
        let at = code.bytes.len() - rest;
        let address = code.address.wrapping_add(at as u32);
        if cli.shows(address) {
            let list: Vec<String> = code.bytes[at..]
                .iter()
                .map(|b| format!("{b:#04x}"))
                .collect();
            let _ = writeln!(out, "{address:8x}: {:<24}\t.byte {}", "", list.join(", "));
        }
    }
}

/// Shows bytes as words with their text.
pub fn data(cli: &Cli, address: u32, bytes: &[u8], out: &mut String) {
    for (at, line) in bytes.chunks(16).enumerate() {
        let place = address.wrapping_add(16 * at as u32);
        if !cli.shows(place) {
            continue;
        }
        let words: Vec<String> = line
            .chunks(4)
            .map(|w| w.iter().rev().map(|b| format!("{b:02x}")).collect())
            .collect();
        let text: String = line
            .iter()
            .map(|&b| {
                if (0x20..0x7f).contains(&b) {
                    char::from(b)
                } else {
                    '.'
                }
            })
            .collect();
        let _ = writeln!(out, " {place:05x} {:<35}  {text}", words.join(" "));
    }
}
