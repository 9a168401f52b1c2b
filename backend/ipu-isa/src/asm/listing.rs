//! The statements of a run after expansion, as text with their encodings.

use std::collections::HashMap;

use crate::codec::{Decoded, decode};
use crate::object::{Object, RelocKind, RelocTarget, Relocation};
use crate::table::{OperandKind, Slice};

use super::cursor::{is_ident, is_ident_start};
use super::expr::INSTANCE;
use super::select::reloc_of;
use super::state::State;

/// A statement as it happened.
#[derive(Debug)]
pub(super) enum Event {
    Label(String),
    Directive(String, String),
    Code {
        section: usize,
        offset: u32,
        bytes: u32,
    },
}

/// A place of an instruction that the linker fills in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixup {
    /// Byte in the instruction.
    pub offset: u32,
    /// Formula and field.
    pub kind: RelocKind,
    /// Symbol plus addend.
    pub value: String,
    /// Bits of the word that it fills, lowest first.
    pub bits: Vec<u8>,
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A label.
    Label(String),
    /// A directive with its arguments.
    Directive {
        /// Name with its dot.
        name: String,
        /// Everything behind it.
        arguments: String,
    },
    /// An instruction or a bundle.
    Code {
        /// The text of each word's instruction; one for `sendpicp`.
        parts: Vec<String>,
        /// The words, 0 where the linker fills in.
        words: Vec<u32>,
        /// What the linker fills in.
        fixups: Vec<Fixup>,
        /// The instructions, for those who want more than text.
        decoded: Vec<Decoded>,
    },
}

/// The word bits of a relocated field.
fn field_bits(kind: RelocKind) -> Vec<u8> {
    match kind {
        RelocKind::Run => (0..12).chain(16..20).collect(),
        _ => (0..kind.bits().min(32) as u8).collect(),
    }
}

/// A name as the language reads it.
fn quoted(name: &str) -> String {
    if name.starts_with(is_ident_start) && name.chars().all(is_ident) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

impl State<'_> {
    /// Numeric labels get names of their own in a listing.
    fn listed_name(name: &str) -> String {
        match name.split_once(INSTANCE) {
            Some((number, instance)) => format!(".Ltmp{number}_{instance}"),
            None => quoted(name),
        }
    }

    pub(super) fn listing(&mut self, object: &Object) -> Vec<Entry> {
        let mut names: HashMap<(usize, u32), String> = HashMap::new();
        if !self.events.is_empty() {
            for (name, &place) in &self.labels {
                let name = State::listed_name(name);
                names.entry(place).or_insert(name);
            }
        }
        std::mem::take(&mut self.events)
            .into_iter()
            .filter_map(|event| match event {
                Event::Label(name) => Some(Entry::Label(State::listed_name(&name))),
                Event::Directive(name, arguments) => Some(Entry::Directive { name, arguments }),
                Event::Code {
                    section,
                    offset,
                    bytes,
                } => code(object, &names, section, offset, bytes),
            })
            .collect()
    }
}

fn target_text(
    object: &Object,
    names: &HashMap<(usize, u32), String>,
    relocation: &Relocation,
) -> String {
    let with = |name: &str, addend: i64| match addend {
        0 => quoted(name),
        _ => format!("{}{addend:+}", quoted(name)),
    };
    match relocation.target {
        RelocTarget::Symbol(s) => {
            let name = object.symbols.get(s).map_or("", |s| s.name.as_str());
            with(name, relocation.addend)
        }
        RelocTarget::Section(s) => {
            let place = u32::try_from(relocation.addend).map(|offset| (s, offset));
            match place.ok().and_then(|p| names.get(&p)) {
                Some(name) => name.clone(),
                None => {
                    let name = object.sections.get(s).map_or("", |s| s.name.as_str());
                    with(name, relocation.addend)
                }
            }
        }
    }
}

fn code(
    object: &Object,
    names: &HashMap<(usize, u32), String>,
    section: usize,
    offset: u32,
    bytes: u32,
) -> Option<Entry> {
    let section = object.sections.get(section)?;
    let data = section.data.get(offset as usize..)?.get(..bytes as usize)?;
    let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
    let words: Vec<u32> = data.chunks_exact(4).map(word).collect();
    let relocations = &section.relocations;
    let first = relocations.partition_point(|r| r.offset < offset);
    let own = relocations[first..]
        .iter()
        .take_while(|r| r.offset < offset + bytes);
    let fixups: Vec<Fixup> = own
        .map(|r| Fixup {
            offset: r.offset - offset,
            kind: r.kind,
            value: target_text(object, names, r),
            bits: field_bits(r.kind),
        })
        .collect();
    let head = decode(*words.first()?)?;
    let two_words = !head.format().word2.is_empty();
    let mut decoded = vec![head];
    let mut parts = Vec::new();
    if two_words && let [_, second] = words.as_slice() {
        let fields = head.format().word2.iter().map(|o| o.extract(*second));
        let fields: Vec<String> = fields.map(|f| f.to_string()).collect();
        parts.push(format!("{head}, {}", fields.join(", ")));
    } else {
        decoded.extend(words.get(1).and_then(|w| decode(*w)));
        for (at, d) in decoded.iter().enumerate() {
            let fixup = fixups.iter().find(|f| f.offset / 4 == at as u32);
            parts.push(d.text_with(&|operand| {
                fixup
                    .and_then(|f| fixup_text(d, operand, f))
                    .or_else(|| d.word_target(operand))
            }));
        }
    }
    Some(Entry::Code {
        parts,
        words,
        fixups,
        decoded,
    })
}

/// The text of the operand that a relocation fills, with the modifier where it is needed.
fn fixup_text(d: &Decoded, at: usize, fixup: &Fixup) -> Option<String> {
    let format = d.format();
    let operand = format.operands.get(at)?;
    let is_register = matches!(operand.kind, OperandKind::Reg { .. });
    let at_zero = |s: &Slice| s.lo == 0;
    if is_register || !operand.slices.iter().any(at_zero) {
        return None;
    }
    if reloc_of(format, operand) == Some(fixup.kind) {
        return Some(fixup.value.clone());
    }
    let name = fixup.kind.modifier();
    Some(format!("%{name}({})", fixup.value))
}
