//! Objects and linked images.

use std::fmt::Write;

use ipu_isa::link::Image;
use ipu_isa::object::{
    Binding, Object, RelocTarget, Relocation, SectionFlags, SymbolKind, SymbolPlace,
};

use crate::Cli;
use crate::code::{self, Code, Names, relocation_name};

fn letters(flags: SectionFlags) -> String {
    let letter = |on, c| if on { c } else { '-' };
    [
        letter(flags.alloc, 'a'),
        letter(flags.write, 'w'),
        letter(flags.exec, 'x'),
        letter(flags.nobits, 'z'),
    ]
    .iter()
    .collect()
}

fn target_text(object: &Object, r: &Relocation) -> String {
    let name = match r.target {
        RelocTarget::Section(s) => object.sections.get(s).map(|s| s.name.as_str()),
        RelocTarget::Symbol(s) => object.symbols.get(s).map(|s| s.name.as_str()),
    };
    let name = name.unwrap_or("?");
    match r.addend {
        0 => name.to_string(),
        a if a < 0 => format!("{name}-{:#x}", a.unsigned_abs()),
        a => format!("{name}+{a:#x}"),
    }
}

/// Shows an object.
pub fn object(cli: &Cli, object: &Object, out: &mut String) {
    let _ = writeln!(out, "\n{}:\tfile format elf32-ipu", object.name);
    if cli.section_headers {
        let _ = writeln!(
            out,
            "\nSections:\nIdx Name                 Size     Align Flags"
        );
        for (at, s) in object.sections.iter().enumerate() {
            let _ = writeln!(
                out,
                "{at:3} {:<20} {:08x} {:5} {}",
                s.name,
                s.data.len(),
                s.align,
                letters(s.flags)
            );
        }
    }
    if cli.syms {
        let _ = writeln!(out, "\nSYMBOL TABLE:");
        for s in &object.symbols {
            let (value, place) = match s.place {
                SymbolPlace::Undefined => (0, "*UND*"),
                SymbolPlace::Absolute(v) => (v, "*ABS*"),
                SymbolPlace::Section { index, offset } => {
                    let name = object.sections.get(index).map_or("?", |s| s.name.as_str());
                    (i64::from(offset), name)
                }
            };
            let binding = match s.binding {
                Binding::Local => 'l',
                Binding::Global => 'g',
                Binding::Weak => 'w',
            };
            let kind = match s.kind {
                SymbolKind::NoType => ' ',
                SymbolKind::Object => 'O',
                SymbolKind::Function => 'F',
            };
            let _ = writeln!(
                out,
                "{:08x} {binding} {kind} {place}\t{:08x} {}",
                value as u32, s.size, s.name
            );
        }
    }
    for (at, section) in object.sections.iter().enumerate() {
        if !cli.wants(&section.name) {
            continue;
        }
        if cli.reloc && !cli.disassembles() && !section.relocations.is_empty() {
            let _ = writeln!(
                out,
                "\nRELOCATION RECORDS FOR [{}]:\nOFFSET   TYPE                 VALUE",
                section.name
            );
            for r in &section.relocations {
                let text = target_text(object, r);
                let _ = writeln!(
                    out,
                    "{:08x} {:<20} {text}",
                    r.offset,
                    relocation_name(r.kind)
                );
            }
        }
        if cli.disassembles() && section.flags.exec && !section.data.is_empty() {
            let mut names = Names::default();
            for s in &object.symbols {
                if let SymbolPlace::Section { index, offset } = s.place
                    && index == at
                {
                    names.add(offset, &s.name);
                }
            }
            let relocations = section.relocations.iter();
            let code = Code {
                address: 0,
                bytes: &section.data,
                relocations: relocations.map(|r| (r, target_text(object, r))).collect(),
                rows: Vec::new(),
            };
            let _ = writeln!(out, "\nDisassembly of section {}:", section.name);
            code::show(cli, &code, &names, out);
        }
        let has_data = !section.flags.nobits && !section.data.is_empty();
        if cli.full_contents && has_data {
            let _ = writeln!(out, "\nContents of section {}:", section.name);
            code::data(cli, 0, &section.data, out);
        }
    }
}

/// Shows a linked image.
pub fn image(cli: &Cli, name: &str, image: &Image, entry: u32, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{name}:\tfile format elf32-ipu\nstart address {entry:#010x}"
    );
    if cli.section_headers {
        let _ = writeln!(
            out,
            "\nSections:\nIdx Name                 Size     Address  Flags"
        );
        for (at, s) in image.sections.iter().enumerate() {
            let _ = writeln!(
                out,
                "{at:3} {:<20} {:08x} {:08x} {}",
                s.name,
                s.size,
                s.address,
                letters(s.flags)
            );
        }
    }
    let mut names = Names::default();
    for (name, &address) in &image.symbols {
        names.add(address, name);
    }
    if cli.syms {
        let _ = writeln!(out, "\nSYMBOL TABLE:");
        for (name, address) in &image.symbols {
            let _ = writeln!(out, "{address:08x} {name}");
        }
    }
    for s in &image.sections {
        let start = s.address.saturating_sub(image.base) as usize;
        let bytes = image
            .bytes
            .get(start..start + s.size as usize)
            .unwrap_or(&[]);
        if !cli.wants(&s.name) || bytes.is_empty() {
            continue;
        }
        if cli.disassembles() && s.flags.exec {
            let _ = writeln!(out, "\nDisassembly of section {}:", s.name);
            let code = Code {
                address: s.address,
                bytes,
                relocations: Vec::new(),
                rows: Vec::new(),
            };
            code::show(cli, &code, &names, out);
        }
        if cli.full_contents {
            let _ = writeln!(out, "\nContents of section {}:", s.name);
            code::data(cli, s.address, bytes, out);
        }
    }
}
