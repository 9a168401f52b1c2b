//! Reading.

use std::collections::HashMap;

use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{LittleEndian, SymbolIndex};

use crate::link::{Image, PlacedSection};
use crate::object::{
    Binding, Object, RelocKind, RelocTarget, Relocation, Section, SectionFlags, Symbol, SymbolKind,
    SymbolPlace, Visibility,
};

use super::{ElfError, MACHINE};

type Header = elf::FileHeader32<LittleEndian>;
type Table<'d> = object::read::elf::SectionTable<'d, Header>;
type Symbols<'d> = object::read::elf::SymbolTable<'d, Header>;

/// Most bytes that sections without contents may claim together.
const MAX_ZEROS: u64 = 16 << 20;

/// What an ELF file of this machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// An object for the linker.
    Object,
    /// A linked image.
    Image,
}

fn malformed(e: object::read::Error) -> ElfError {
    ElfError::Malformed(e.to_string())
}

fn header(bytes: &[u8]) -> Result<(&Header, ElfKind), ElfError> {
    let header = Header::parse(bytes).map_err(malformed)?;
    header.endian().map_err(malformed)?;
    if header.e_ident.data != elf::ELFDATA2LSB {
        return Err(ElfError::Malformed("not little-endian".to_string()));
    }
    let endian = LittleEndian;
    let machine = header.e_machine(endian);
    if machine != MACHINE {
        return Err(ElfError::Machine(machine));
    }
    match header.e_type(endian) {
        elf::ET_REL => Ok((header, ElfKind::Object)),
        elf::ET_EXEC => Ok((header, ElfKind::Image)),
        _ => Err(ElfError::Kind {
            found: "something else",
            wanted: "an object or an executable",
        }),
    }
}

/// What the file is.
///
/// # Errors
/// It is no ELF file of this machine.
pub fn elf_kind(bytes: &[u8]) -> Result<ElfKind, ElfError> {
    header(bytes).map(|h| h.1)
}

fn flags(section: &elf::SectionHeader32<LittleEndian>) -> SectionFlags {
    let bits = section.sh_flags(LittleEndian);
    SectionFlags {
        alloc: bits & elf::SHF_ALLOC != 0,
        write: bits & elf::SHF_WRITE != 0,
        exec: bits & elf::SHF_EXECINSTR != 0,
        nobits: section.sh_type(LittleEndian) == elf::SHT_NOBITS,
        extra: bits & SectionFlags::EXTRA,
        entry_bytes: section.sh_entsize(LittleEndian),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a relocatable file; `name` is its name in messages.
///
/// # Errors
/// The file is not well formed, for another machine, or uses relocations that are not known.
pub fn read_object(name: &str, bytes: &[u8]) -> Result<Object, ElfError> {
    let (header, kind) = header(bytes)?;
    if kind != ElfKind::Object {
        return Err(ElfError::Kind {
            found: "a linked image",
            wanted: "an object",
        });
    }
    let e = LittleEndian;
    let table = header.sections(e, bytes).map_err(malformed)?;
    let symbols = table
        .symbols(e, bytes, elf::SHT_SYMTAB)
        .map_err(malformed)?;
    let mut object = Object {
        name: name.to_string(),
        ..Object::default()
    };
    let places = sections(&table, bytes, &mut object)?;
    let numbers = read_symbols(&symbols, &places, &mut object)?;
    for header in table.iter() {
        let kind = header.sh_type(e);
        if kind != elf::SHT_RELA && kind != elf::SHT_REL {
            continue;
        }
        let Some(&section) = places.get(&(header.sh_info(e) as usize)) else {
            continue;
        };
        if kind == elf::SHT_REL {
            let problem = "relocations without addends (REL) are not supported";
            return Err(ElfError::Unsupported(problem.to_string()));
        }
        let rela = header.rela(e, bytes).map_err(malformed)?;
        for r in rela.map_or(&[][..], |(list, _)| list) {
            let number = r.r_type(e);
            // NONE relocates nothing.
            if number == 0 {
                continue;
            }
            let kind = RelocKind::from_number(number).ok_or_else(|| {
                ElfError::Unsupported(format!("relocation number {number} is not known"))
            })?;
            let target = numbers.get(r.r_sym(e) as usize).copied().flatten();
            object.sections[section].relocations.push(Relocation {
                offset: r.r_offset.get(e),
                kind,
                target: target.ok_or_else(|| {
                    ElfError::Malformed("relocation to a missing symbol".to_string())
                })?,
                addend: i64::from(r.r_addend.get(e)),
            });
        }
    }
    for section in &mut object.sections {
        section.relocations.sort_by_key(|r| r.offset);
    }
    Ok(object)
}

/// The sections with contents: from their ELF index to that in the object.
fn sections(
    table: &Table<'_>,
    bytes: &[u8],
    object: &mut Object,
) -> Result<HashMap<usize, usize>, ElfError> {
    let e = LittleEndian;
    let mut places = HashMap::new();
    let mut zeros = 0;
    for (index, header) in table.enumerate() {
        match header.sh_type(e) {
            elf::SHT_NULL
            | elf::SHT_SYMTAB
            | elf::SHT_STRTAB
            | elf::SHT_RELA
            | elf::SHT_REL
            | elf::SHT_GROUP
            | elf::SHT_SYMTAB_SHNDX => continue,
            _ => {}
        }
        let flags = flags(header);
        let data = if flags.nobits {
            let size = u64::from(header.sh_size(e));
            zeros += size;
            if zeros > MAX_ZEROS {
                return Err(ElfError::Unsupported("too many bytes of zeros".to_string()));
            }
            vec![0; size as usize]
        } else {
            header.data(e, bytes).map_err(malformed)?.to_vec()
        };
        places.insert(index.0, object.sections.len());
        object.sections.push(Section {
            name: text(table.section_name(e, header).map_err(malformed)?),
            flags,
            align: header.sh_addralign(e).max(1),
            data,
            relocations: Vec::new(),
        });
    }
    Ok(places)
}

fn visibility(other: u8) -> Visibility {
    match other & 3 {
        elf::STV_INTERNAL => Visibility::Internal,
        elf::STV_HIDDEN => Visibility::Hidden,
        elf::STV_PROTECTED => Visibility::Protected,
        _ => Visibility::Default,
    }
}

/// Adds the symbols; gives what each ELF symbol is as the target of a relocation.
fn read_symbols(
    symbols: &Symbols<'_>,
    places: &HashMap<usize, usize>,
    object: &mut Object,
) -> Result<Vec<Option<RelocTarget>>, ElfError> {
    let e = LittleEndian;
    let mut out = Vec::with_capacity(symbols.len());
    for (at, symbol) in symbols.iter().enumerate() {
        let kind = symbol.st_type();
        let section = symbols
            .symbol_section(e, symbol, SymbolIndex(at))
            .map_err(malformed)?
            .and_then(|s| places.get(&s.0).copied());
        if kind == elf::STT_SECTION {
            out.push(section.map(RelocTarget::Section));
            continue;
        }
        if at == 0 || kind == elf::STT_FILE {
            out.push(None);
            continue;
        }
        let name = text(symbol.name(e, symbols.strings()).map_err(malformed)?);
        let size = symbol.st_size(e);
        let mut binding = match symbol.st_bind() {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        };
        let value = symbol.st_value(e);
        let place = match symbol.st_shndx(e) {
            elf::SHN_UNDEF => SymbolPlace::Undefined,
            elf::SHN_ABS => SymbolPlace::Absolute(i64::from(value)),
            elf::SHN_COMMON => {
                if u64::from(size) > MAX_ZEROS {
                    return Err(ElfError::Unsupported("too many bytes of zeros".to_string()));
                }
                binding = Binding::Weak;
                object.sections.push(common(&name, size, value));
                SymbolPlace::Section {
                    index: object.sections.len() - 1,
                    offset: 0,
                }
            }
            _ => match section {
                Some(index) => SymbolPlace::Section {
                    index,
                    offset: value,
                },
                None => {
                    out.push(None);
                    continue;
                }
            },
        };
        out.push(Some(RelocTarget::Symbol(object.symbols.len())));
        object.symbols.push(Symbol {
            name,
            place,
            binding,
            kind: match kind {
                elf::STT_FUNC => SymbolKind::Function,
                elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Object,
                _ => SymbolKind::NoType,
            },
            size,
            visibility: visibility(symbol.st_other()),
        });
    }
    Ok(out)
}

/// Storage of a common symbol; its value is the alignment.
fn common(name: &str, size: u32, align: u32) -> Section {
    Section {
        name: format!(".bss.{name}"),
        flags: SectionFlags {
            alloc: true,
            write: true,
            nobits: true,
            ..SectionFlags::default()
        },
        align: align.max(1),
        data: vec![0; size as usize],
        relocations: Vec::new(),
    }
}

/// Reads an executable; gives the image and its entry.
///
/// # Errors
/// The file is not well formed or for another machine.
pub fn read_image(bytes: &[u8]) -> Result<(Image, u32), ElfError> {
    let (header, kind) = header(bytes)?;
    if kind != ElfKind::Image {
        return Err(ElfError::Kind {
            found: "an object",
            wanted: "a linked image",
        });
    }
    let e = LittleEndian;
    let table = header.sections(e, bytes).map_err(malformed)?;
    let mut image = Image::default();
    let mut loaded: Vec<(u32, &[u8])> = Vec::new();
    for section in table.iter() {
        let flags = flags(section);
        if !flags.alloc || flags.nobits {
            continue;
        }
        let data = section.data(e, bytes).map_err(malformed)?;
        let name = text(table.section_name(e, section).map_err(malformed)?);
        image.sections.push(PlacedSection {
            object: String::new(),
            name,
            address: section.sh_addr(e),
            size: data.len() as u32,
            align: section.sh_addralign(e),
            flags,
        });
        loaded.push((section.sh_addr(e), data));
    }
    image.sections.sort_by_key(|s| s.address);
    image.base = image.sections.first().map_or(0, |s| s.address);
    for (address, data) in loaded {
        let start = (address - image.base) as usize;
        let end = start + data.len();
        if end as u64 > MAX_ZEROS {
            return Err(ElfError::Unsupported("the image is too long".to_string()));
        }
        if image.bytes.len() < end {
            image.bytes.resize(end, 0);
        }
        image.bytes[start..end].copy_from_slice(data);
    }
    let symbols = table
        .symbols(e, bytes, elf::SHT_SYMTAB)
        .map_err(malformed)?;
    for symbol in symbols.iter().skip(1) {
        let named = !matches!(symbol.st_type(), elf::STT_FILE | elf::STT_SECTION);
        if named && symbol.st_shndx(e) != elf::SHN_UNDEF {
            let name = text(symbol.name(e, symbols.strings()).map_err(malformed)?);
            image.symbols.insert(name, symbol.st_value(e));
        }
    }
    Ok((image, header.e_entry(e)))
}
