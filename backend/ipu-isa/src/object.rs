//! What the assembler gives and the linker takes: sections, symbols, relocations.

use std::fmt;

/// What memory a section needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SectionFlags {
    /// Part of the loaded image (`a`).
    pub alloc: bool,
    /// Written at run time (`w`).
    pub write: bool,
    /// Holds instructions (`x`).
    pub exec: bool,
    /// All zero, without file contents (`@nobits`).
    pub nobits: bool,
    /// ELF flags without a meaning here, within [`SectionFlags::EXTRA`].
    pub extra: u32,
    /// Bytes of an entry, for tables.
    pub entry_bytes: u32,
}

impl SectionFlags {
    /// The ELF flags that are passed on: merge, strings, retain, exclude.
    pub const EXTRA: u32 = 0x10 | 0x20 | 0x20_0000 | 0x8000_0000;
    /// The extra flag of sections that stay though nothing refers to them.
    pub const RETAIN: u32 = 0x20_0000;
}

/// A named run of bytes that is placed as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name, such as `.text.kernel`.
    pub name: String,
    /// Memory needs.
    pub flags: SectionFlags,
    /// Required address divisor, a power of two.
    pub align: u32,
    /// Contents; zero where relocations write.
    pub data: Vec<u8>,
    /// Places that need addresses.
    pub relocations: Vec<Relocation>,
}

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Only its own object.
    Local,
    /// All objects.
    Global,
    /// All objects; a global definition replaces it, and without one it is 0.
    Weak,
}

/// Who sees a symbol of a linked image; passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// As the binding says.
    #[default]
    Default,
    /// Of special use to a processor.
    Internal,
    /// Not outside.
    Hidden,
    /// Outside, without replacement.
    Protected,
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// Not said.
    #[default]
    NoType,
    /// Data.
    Object,
    /// Code.
    Function,
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolPlace {
    /// In another object.
    Undefined,
    /// Nowhere: a plain number.
    Absolute(i64),
    /// In a section of this object.
    Section {
        /// Position in [`Object::sections`].
        index: usize,
        /// Byte offset in it.
        offset: u32,
    },
}

/// A named place or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name.
    pub name: String,
    /// Place.
    pub place: SymbolPlace,
    /// Visibility among objects.
    pub binding: Binding,
    /// What it is.
    pub kind: SymbolKind,
    /// Bytes, 0 for unknown.
    pub size: u32,
    /// Visibility outside an image.
    pub visibility: Visibility,
}

impl Symbol {
    /// A symbol of unknown kind and size.
    pub fn new(name: &str, place: SymbolPlace, binding: Binding) -> Symbol {
        Symbol {
            name: name.to_string(),
            place,
            binding,
            kind: SymbolKind::NoType,
            size: 0,
            visibility: Visibility::Default,
        }
    }
}

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelocTarget {
    /// The start of a section of the same object.
    Section(usize),
    /// A symbol of the same object's list.
    Symbol(usize),
}

/// A place that gets an address at link time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Byte offset in the section.
    pub offset: u32,
    /// Formula and field.
    pub kind: RelocKind,
    /// Base of the value.
    pub target: RelocTarget,
    /// Added to the base.
    pub addend: i64,
}

/// Relocation formulas; the discriminant is the ELF number. `V` is symbol plus addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RelocKind {
    /// Byte `V`.
    Abs8 = 1,
    /// Halfword `V`, or the 16-bit immediate of an instruction.
    Abs16 = 2,
    /// `V` in bits 19:0 of a word.
    Abs20 = 3,
    /// Word `V`.
    Abs32 = 4,
    /// Doubleword `V`.
    Abs64 = 5,
    /// Halfword `(V - base) >> 2`.
    Relative16S2 = 6,
    /// `V >> 2` in bits 17:0.
    Abs18S2 = 7,
    /// `V >> 2` in bits 18:0: branches and calls.
    Abs19S2 = 8,
    /// `(V - base) >> 2`, split as the immediate of `run`.
    Run = 9,
    /// Halfword `V >> 3`.
    Abs16S3 = 14,
    /// Halfword `V >> 4`.
    Abs16S4 = 15,
    /// Halfword `V >> 5`.
    Abs16S5 = 16,
    /// `V` in bits 20:0 of a word.
    Abs21 = 17,
}

/// Shape of a relocated field.
struct Field {
    bytes: usize,
    bits: u32,
    shift: u32,
    relative: bool,
}

/// Why a relocation cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelocError {
    /// The value is too large or negative.
    #[error("value {value:#x} does not fit the {bits} bits of {kind}")]
    Range {
        /// The value before shifting.
        value: i64,
        /// Field width.
        bits: u32,
        /// Formula.
        kind: RelocKind,
    },
    /// Low bits that the formula drops are not zero.
    #[error("value {value:#x} of {kind} is not a multiple of {align}")]
    Misaligned {
        /// The value before shifting.
        value: i64,
        /// Required divisor.
        align: i64,
        /// Formula.
        kind: RelocKind,
    },
    /// The relocated bytes are not all inside the section.
    #[error("{kind} at offset {offset:#x} reaches past the end of its section")]
    Outside {
        /// Offset in the section.
        offset: u32,
        /// Formula.
        kind: RelocKind,
    },
}

impl fmt::Display for RelocKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relocation {self:?} ({})", *self as u8)
    }
}

impl RelocKind {
    fn field(self) -> Field {
        let (bytes, bits, shift, relative) = match self {
            RelocKind::Abs8 => (1, 8, 0, false),
            RelocKind::Abs16 => (2, 16, 0, false),
            RelocKind::Abs20 => (4, 20, 0, false),
            RelocKind::Abs32 => (4, 32, 0, false),
            RelocKind::Abs64 => (8, 64, 0, false),
            RelocKind::Relative16S2 => (2, 16, 2, true),
            RelocKind::Abs18S2 => (4, 18, 2, false),
            RelocKind::Abs19S2 => (4, 19, 2, false),
            RelocKind::Run => (4, 16, 2, true),
            RelocKind::Abs16S3 => (2, 16, 3, false),
            RelocKind::Abs16S4 => (2, 16, 4, false),
            RelocKind::Abs16S5 => (2, 16, 5, false),
            RelocKind::Abs21 => (4, 21, 0, false),
        };
        Field {
            bytes,
            bits,
            shift,
            relative,
        }
    }

    /// The formula with this ELF number.
    pub fn from_number(number: u32) -> Option<RelocKind> {
        RelocKind::ALL
            .into_iter()
            .find(|k| u32::from(*k as u8) == number)
    }

    /// All formulas.
    pub const ALL: [RelocKind; 13] = [
        RelocKind::Abs8,
        RelocKind::Abs16,
        RelocKind::Abs20,
        RelocKind::Abs32,
        RelocKind::Abs64,
        RelocKind::Relative16S2,
        RelocKind::Abs18S2,
        RelocKind::Abs19S2,
        RelocKind::Run,
        RelocKind::Abs16S3,
        RelocKind::Abs16S4,
        RelocKind::Abs16S5,
        RelocKind::Abs21,
    ];

    /// The formula of an address modifier, `abs18@s2` and so on; `_` and `@` may be left out.
    pub fn from_modifier(text: &str) -> Option<RelocKind> {
        let plain: String = text.chars().filter(|c| !matches!(c, '@' | '_')).collect();
        let plain = plain.strip_prefix("abs").unwrap_or(&plain);
        Some(match plain {
            "8" => RelocKind::Abs8,
            "16" => RelocKind::Abs16,
            "20" => RelocKind::Abs20,
            "32" => RelocKind::Abs32,
            "64" => RelocKind::Abs64,
            "18s2" => RelocKind::Abs18S2,
            "19s2" => RelocKind::Abs19S2,
            "relative16s2" => RelocKind::Relative16S2,
            "run" => RelocKind::Run,
            "16s3" => RelocKind::Abs16S3,
            "16s4" => RelocKind::Abs16S4,
            "16s5" => RelocKind::Abs16S5,
            "21" => RelocKind::Abs21,
            _ => return None,
        })
    }

    /// The name of the address modifier.
    pub fn modifier(self) -> &'static str {
        match self {
            RelocKind::Abs8 => "abs@8",
            RelocKind::Abs16 => "abs@16",
            RelocKind::Abs20 => "abs@20",
            RelocKind::Abs32 => "abs@32",
            RelocKind::Abs64 => "abs@64",
            RelocKind::Relative16S2 => "relative@16@s2",
            RelocKind::Abs18S2 => "abs18@s2",
            RelocKind::Abs19S2 => "abs19@s2",
            RelocKind::Run => "run",
            RelocKind::Abs16S3 => "16@s3",
            RelocKind::Abs16S4 => "16@s4",
            RelocKind::Abs16S5 => "16@s5",
            RelocKind::Abs21 => "abs@21",
        }
    }

    /// Width of the field in bits.
    pub fn bits(self) -> u32 {
        self.field().bits
    }

    /// Low bits of the value that the field drops.
    pub fn shift(self) -> u32 {
        self.field().shift
    }

    /// True when the start of memory is subtracted.
    pub fn is_relative(self) -> bool {
        self.field().relative
    }

    /// Number of bytes that hold the field.
    pub fn bytes(self) -> usize {
        self.field().bytes
    }

    /// Writes `value` (symbol plus addend) at `offset` of `data`, keeping the
    /// bits around the field. `base` is the start of the image, which relative
    /// formulas subtract.
    pub fn apply(
        self,
        data: &mut [u8],
        offset: u32,
        value: i64,
        base: u32,
    ) -> Result<(), RelocError> {
        let Field {
            bytes,
            bits,
            shift,
            relative,
        } = self.field();
        let outside = RelocError::Outside { offset, kind: self };
        let start = offset as usize;
        let place = data
            .get_mut(start..)
            .and_then(|d| d.get_mut(..bytes))
            .ok_or(outside)?;
        let value = if relative {
            value.wrapping_sub(i64::from(base))
        } else {
            value
        };
        let align = 1i64 << shift;
        if value % align != 0 {
            return Err(RelocError::Misaligned {
                value,
                align,
                kind: self,
            });
        }
        let field = value >> shift;
        if bits < 64 && !(0..1i64 << bits).contains(&field) {
            return Err(RelocError::Range {
                value,
                bits,
                kind: self,
            });
        }
        let (field, mask) = match self {
            RelocKind::Run => ((field & 0xfff) | ((field >> 12) << 16), 0xf_0fff),
            _ if bits == 64 => (field, u64::MAX),
            _ => (field, (1u64 << bits) - 1),
        };
        let mut old = [0; 8];
        old[..bytes].copy_from_slice(place);
        let new = (u64::from_le_bytes(old) & !mask) | (field as u64 & mask);
        place.copy_from_slice(&new.to_le_bytes()[..bytes]);
        Ok(())
    }
}

/// One assembled file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// File name, for messages.
    pub name: String,
    /// Sections in order of appearance.
    pub sections: Vec<Section>,
    /// Symbols in order of appearance.
    pub symbols: Vec<Symbol>,
}

impl Object {
    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The symbol of that name.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|s| s.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(kind: RelocKind, old: u32, value: i64) -> Result<u32, RelocError> {
        let mut data = old.to_le_bytes();
        kind.apply(&mut data, 0, value, 0x4c000)?;
        Ok(u32::from_le_bytes(data))
    }

    #[test]
    fn formulas_write_their_fields_only() {
        assert_eq!(
            word(RelocKind::Abs20, 0x1900_0000, 0x4c010),
            Ok(0x1904_c010)
        );
        assert_eq!(
            word(RelocKind::Abs19S2, 0x4080_0000, 0x4c010),
            Ok(0x4081_3004)
        );
        assert_eq!(word(RelocKind::Abs18S2, 0, 0x4c010), Ok(0x1_3004));
        assert_eq!(
            word(RelocKind::Run, 0x1400_0000, 0x4c000 + 4 * 0x1234),
            Ok(0x1401_0234)
        );
        assert_eq!(word(RelocKind::Abs16, 0x2a12_0000, 0xffff), Ok(0x2a12_ffff));
        assert_eq!(
            word(RelocKind::Relative16S2, 0xaaaa_0000, 0x4c008),
            Ok(0xaaaa_0002)
        );
        assert_eq!(word(RelocKind::Abs16S3, 0, 0x4c010), Ok(0x9802));
        assert_eq!(word(RelocKind::Abs16S4, 0, 0x4c010), Ok(0x4c01));
        assert_eq!(word(RelocKind::Abs16S5, 0, 0x4c020), Ok(0x2601));
        assert_eq!(word(RelocKind::Abs21, 0, 0x1f_ffff), Ok(0x1f_ffff));
        assert_eq!(word(RelocKind::Abs8, 0x100, 7), Ok(0x107));
        assert_eq!(word(RelocKind::Abs32, 0, 0xffff_ffff), Ok(0xffff_ffff));
    }

    #[test]
    fn range_alignment_and_place_are_checked() {
        assert!(matches!(
            word(RelocKind::Abs20, 0, 1 << 20),
            Err(RelocError::Range { .. })
        ));
        assert!(matches!(
            word(RelocKind::Abs8, 0, -1),
            Err(RelocError::Range { .. })
        ));
        assert!(matches!(
            word(RelocKind::Abs19S2, 0, 6),
            Err(RelocError::Misaligned { .. })
        ));
        assert!(matches!(
            word(RelocKind::Run, 0, 0x4bffc),
            Err(RelocError::Range { .. })
        ));
        assert!(matches!(
            word(RelocKind::Abs64, 0, 0),
            Err(RelocError::Outside { .. })
        ));
        let mut data = [0; 8];
        assert_eq!(RelocKind::Abs64.apply(&mut data, 0, -1, 0), Ok(()));
        assert_eq!(data, [0xff; 8]);
        assert!(RelocKind::Abs8.apply(&mut data, u32::MAX, 0, 0).is_err());
    }
}
