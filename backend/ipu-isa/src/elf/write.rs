//! Writing.

use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{
    FileHeader, ProgramHeader, Rel, SectionHeader, SectionIndex, Sym, Writer,
};

use crate::link::Image;
use crate::object::{
    Binding, Object, RelocTarget, Section, SectionFlags, Symbol, SymbolKind, SymbolPlace,
    Visibility,
};

use super::{ElfError, MACHINE};

fn section_bits(flags: SectionFlags) -> u32 {
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    bit(flags.write, elf::SHF_WRITE)
        | bit(flags.alloc, elf::SHF_ALLOC)
        | bit(flags.exec, elf::SHF_EXECINSTR)
        | (flags.extra & SectionFlags::EXTRA)
}

fn section_type(flags: SectionFlags) -> u32 {
    if flags.nobits {
        elf::SHT_NOBITS
    } else {
        elf::SHT_PROGBITS
    }
}

fn file_header(kind: u16, entry: u32) -> FileHeader {
    FileHeader {
        os_abi: 0,
        abi_version: 0,
        e_type: kind,
        e_machine: MACHINE,
        e_entry: u64::from(entry),
        e_flags: 0,
    }
}

fn failed(e: object::write::Error) -> ElfError {
    ElfError::Malformed(e.to_string())
}

/// The low 32 bits of a number that fits them as a signed or unsigned one.
fn word(what: &'static str, value: i64) -> Result<u64, ElfError> {
    if (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&value) {
        Ok(u64::from(value as u32))
    } else {
        Err(ElfError::Range { what, value })
    }
}

fn symbol_info(symbol: &Symbol) -> (u8, u8) {
    let binding = match symbol.binding {
        Binding::Local => elf::STB_LOCAL,
        Binding::Global => elf::STB_GLOBAL,
        Binding::Weak => elf::STB_WEAK,
    };
    let kind = match symbol.kind {
        SymbolKind::NoType => elf::STT_NOTYPE,
        SymbolKind::Object => elf::STT_OBJECT,
        SymbolKind::Function => elf::STT_FUNC,
    };
    let other = match symbol.visibility {
        Visibility::Default => elf::STV_DEFAULT,
        Visibility::Internal => elf::STV_INTERNAL,
        Visibility::Hidden => elf::STV_HIDDEN,
        Visibility::Protected => elf::STV_PROTECTED,
    };
    ((binding << 4) | kind, other)
}

fn section_symbol(section: SectionIndex) -> Sym {
    Sym {
        name: None,
        section: Some(section),
        st_info: elf::STT_SECTION,
        st_other: 0,
        st_shndx: 0,
        st_value: 0,
        st_size: 0,
    }
}

fn file_symbol(name: StringId) -> Sym {
    Sym {
        name: Some(name),
        section: None,
        st_info: elf::STT_FILE,
        st_other: 0,
        st_shndx: elf::SHN_ABS,
        st_value: 0,
        st_size: 0,
    }
}

/// The bytes of a relocatable file.
///
/// # Errors
/// The object refers to sections or symbols that it lacks, or a number does not fit.
pub fn write_object(object: &Object) -> Result<Vec<u8>, ElfError> {
    let mut out = Vec::new();
    let mut w = Writer::new(Endianness::Little, false, &mut out);
    let is_local = |s: &Symbol| s.binding == Binding::Local;
    let rela_names: Vec<String> = object
        .sections
        .iter()
        .map(|s| format!(".rela{}", s.name))
        .collect();

    // Indices and names.
    w.reserve_null_section_index();
    let mut sections = Vec::new();
    for (section, rela_name) in object.sections.iter().zip(&rela_names) {
        let name = w.add_section_name(section.name.as_bytes());
        let index = w.reserve_section_index();
        let rela = (!section.relocations.is_empty()).then(|| {
            let name = w.add_section_name(rela_name.as_bytes());
            w.reserve_section_index();
            name
        });
        sections.push((section, name, index, rela));
    }
    let symtab = w.reserve_symtab_section_index();
    w.reserve_strtab_section_index();
    w.reserve_shstrtab_section_index();
    w.reserve_null_symbol_index();
    let file = w.add_string(object.name.as_bytes());
    w.reserve_symbol_index(None);
    // One symbol for every section, in order, behind the file's.
    for (_, _, index, _) in &sections {
        w.reserve_symbol_index(Some(*index));
    }
    let mut numbers = vec![0; object.symbols.len()];
    let mut ordered = Vec::new();
    for local in [true, false] {
        for (at, symbol) in object.symbols.iter().enumerate() {
            if is_local(symbol) != local {
                continue;
            }
            let section = match symbol.place {
                SymbolPlace::Section { index, .. } => {
                    let section = sections.get(index).ok_or_else(|| missing("section"))?;
                    Some(section.2)
                }
                _ => None,
            };
            let name = w.add_string(symbol.name.as_bytes());
            numbers[at] = w.reserve_symbol_index(section).0;
            ordered.push((symbol, name, section));
        }
    }
    let locals = 2 + sections.len() + object.symbols.iter().filter(|s| is_local(s)).count();

    // Places.
    w.reserve_file_header();
    let mut offsets = Vec::new();
    for (section, _, _, rela) in &sections {
        let align = (section.align as usize).clamp(1, 0x1_0000);
        let length = if section.flags.nobits {
            0
        } else {
            section.data.len()
        };
        let data = w.reserve(length, align);
        let relocations = match rela {
            Some(_) => w.reserve_relocations(section.relocations.len(), true),
            None => 0,
        };
        offsets.push((data, relocations));
    }
    w.reserve_symtab();
    w.reserve_symtab_shndx();
    w.reserve_strtab();
    w.reserve_shstrtab();
    w.reserve_section_headers();

    // Contents.
    w.write_file_header(&file_header(elf::ET_REL, 0))
        .map_err(failed)?;
    for ((section, _, _, rela), (data, _)) in sections.iter().zip(&offsets) {
        w.pad_until(*data);
        if !section.flags.nobits {
            w.write(&section.data);
        }
        if rela.is_some() {
            w.write_align_relocation();
            for r in &section.relocations {
                let symbol = match r.target {
                    RelocTarget::Section(s) if s < sections.len() => 2 + s as u32,
                    RelocTarget::Symbol(s) => *numbers.get(s).ok_or_else(|| missing("symbol"))?,
                    RelocTarget::Section(_) => return Err(missing("section")),
                };
                word("addend", r.addend)?;
                w.write_relocation(
                    true,
                    &Rel {
                        r_offset: u64::from(r.offset),
                        r_sym: symbol,
                        r_type: u32::from(r.kind as u8),
                        r_addend: r.addend,
                    },
                );
            }
        }
    }
    w.write_null_symbol();
    w.write_symbol(&file_symbol(file));
    for (_, _, index, _) in &sections {
        w.write_symbol(&section_symbol(*index));
    }
    for (symbol, name, section) in ordered {
        let (st_info, st_other) = symbol_info(symbol);
        let (shndx, value) = match symbol.place {
            SymbolPlace::Undefined => (elf::SHN_UNDEF, 0),
            SymbolPlace::Absolute(v) => (elf::SHN_ABS, word("symbol value", v)?),
            SymbolPlace::Section { offset, .. } => (0, u64::from(offset)),
        };
        w.write_symbol(&Sym {
            name: Some(name),
            section,
            st_info,
            st_other,
            st_shndx: shndx,
            st_value: value,
            st_size: u64::from(symbol.size),
        });
    }
    w.write_symtab_shndx();
    w.write_strtab();
    w.write_shstrtab();
    w.write_null_section_header();
    for ((section, name, index, rela), (data, relocations)) in sections.iter().zip(&offsets) {
        w.write_section_header(&section_header(section, *name, *data));
        if let Some(name) = rela {
            let count = section.relocations.len();
            w.write_relocation_section_header(*name, *index, symtab, *relocations, count, true);
        }
    }
    w.write_symtab_section_header(locals as u32);
    w.write_strtab_section_header();
    w.write_shstrtab_section_header();
    Ok(out)
}

fn missing(what: &str) -> ElfError {
    ElfError::Malformed(format!("the object refers to a missing {what}"))
}

fn section_header(section: &Section, name: StringId, offset: usize) -> SectionHeader {
    SectionHeader {
        name: Some(name),
        sh_type: section_type(section.flags),
        sh_flags: u64::from(section_bits(section.flags)),
        sh_addr: 0,
        sh_offset: offset as u64,
        sh_size: section.data.len() as u64,
        sh_link: 0,
        sh_info: 0,
        sh_addralign: u64::from(section.align),
        sh_entsize: u64::from(section.flags.entry_bytes),
    }
}

/// Alignment of the segment in the file.
const SEGMENT_ALIGN: usize = 16;

/// The bytes of an executable: the image as one segment, its sections and symbols.
///
/// # Errors
/// The image cannot be described in ELF.
pub fn write_image(image: &Image, entry: u32) -> Result<Vec<u8>, ElfError> {
    let mut out = Vec::new();
    let mut w = Writer::new(Endianness::Little, false, &mut out);
    w.reserve_null_section_index();
    let mut sections = Vec::new();
    for section in &image.sections {
        let name = w.add_section_name(section.name.as_bytes());
        sections.push((section, name, w.reserve_section_index()));
    }
    w.reserve_symtab_section_index();
    w.reserve_strtab_section_index();
    w.reserve_shstrtab_section_index();
    w.reserve_null_symbol_index();
    let mut symbols = Vec::new();
    for (name, &address) in &image.symbols {
        let inside = |s: &crate::link::PlacedSection| {
            address >= s.address && u64::from(address) < u64::from(s.address) + u64::from(s.size)
        };
        let section = sections.iter().find(|s| inside(s.0)).map(|s| s.2);
        let name = w.add_string(name.as_bytes());
        w.reserve_symbol_index(section);
        symbols.push((name, address, section));
    }
    w.reserve_file_header();
    w.reserve_program_headers(1);
    // Offset and address agree modulo the alignment.
    let skew = image.base as usize % SEGMENT_ALIGN;
    let start = w.reserve(0, SEGMENT_ALIGN) + skew;
    w.reserve_until(start);
    w.reserve(image.bytes.len(), 1);
    w.reserve_symtab();
    w.reserve_symtab_shndx();
    w.reserve_strtab();
    w.reserve_shstrtab();
    w.reserve_section_headers();

    w.write_file_header(&file_header(elf::ET_EXEC, entry))
        .map_err(failed)?;
    w.write_align_program_headers();
    let size = image.bytes.len() as u64;
    w.write_program_header(&ProgramHeader {
        p_type: elf::PT_LOAD,
        p_flags: elf::PF_R | elf::PF_W | elf::PF_X,
        p_offset: start as u64,
        p_vaddr: u64::from(image.base),
        p_paddr: u64::from(image.base),
        p_filesz: size,
        p_memsz: size,
        p_align: SEGMENT_ALIGN as u64,
    });
    w.pad_until(start);
    w.write(&image.bytes);
    w.write_null_symbol();
    for (name, address, section) in symbols {
        w.write_symbol(&Sym {
            name: Some(name),
            section,
            st_info: elf::STB_GLOBAL << 4,
            st_other: 0,
            st_shndx: elf::SHN_ABS,
            st_value: u64::from(address),
            st_size: 0,
        });
    }
    w.write_symtab_shndx();
    w.write_strtab();
    w.write_shstrtab();
    w.write_null_section_header();
    for (section, name, _) in &sections {
        let inside = section.address.saturating_sub(image.base) as usize;
        w.write_section_header(&SectionHeader {
            name: Some(*name),
            // Zeros are part of the image, so no section lacks contents.
            sh_type: elf::SHT_PROGBITS,
            sh_flags: u64::from(section_bits(section.flags)),
            sh_addr: u64::from(section.address),
            sh_offset: (start + inside) as u64,
            sh_size: u64::from(section.size),
            sh_link: 0,
            sh_info: 0,
            sh_addralign: u64::from(section.align),
            sh_entsize: u64::from(section.flags.entry_bytes),
        });
    }
    w.write_symtab_section_header(1);
    w.write_strtab_section_header();
    w.write_shstrtab_section_header();
    Ok(out)
}
