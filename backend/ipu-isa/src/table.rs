//! The format table: one record per instruction format, read once from `isa.ron`.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::codec::DecodeIndex;
use crate::opcode::Opcode;

/// The embedded data file behind [`table`].
pub(crate) const SOURCE: &str = include_str!("../isa.ron");

/// Most operands that one instruction word carries.
pub const MAX_OPERANDS: usize = 5;

/// One of the two register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum RegFile {
    /// `$m0`-`$m15`: integers and addresses.
    M,
    /// `$a0`-`$a15`: floating point and raw data.
    A,
}

impl RegFile {
    /// The letter of the file in register names.
    pub fn letter(self) -> char {
        match self {
            RegFile::M => 'm',
            RegFile::A => 'a',
        }
    }
}

/// How a source register is spread over the lanes of a vector operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Broadcast {
    /// No broadcast; no suffix.
    #[default]
    None,
    /// The lower half; suffix `:BL`.
    BL,
    /// The upper half; suffix `:BU`.
    BU,
    /// The whole 32-bit scalar; suffix `:B`.
    B,
}

impl Broadcast {
    /// The suffix as printed, empty for [`Broadcast::None`].
    pub fn suffix(self) -> &'static str {
        match self {
            Broadcast::None => "",
            Broadcast::BL => ":BL",
            Broadcast::BU => ":BU",
            Broadcast::B => ":B",
        }
    }
}

/// What an operand field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum OperandKind {
    /// A register, an even pair or an aligned quad; the field holds the first number.
    Reg {
        /// Register file.
        file: RegFile,
        /// Number of consecutive registers: 1, 2 or 4.
        width: u8,
        /// Lane broadcast of a source.
        #[serde(default)]
        broadcast: Broadcast,
    },
    /// A zero-extended immediate of so many bits.
    Unsigned(u8),
    /// A sign-extended immediate of so many bits.
    Signed(u8),
    /// An immediate that fills the high bits of a word; its value is `field << (32 - bits)`.
    High(u8),
    /// An 8-bit control/status register index.
    Csr,
    /// A 19-bit word index; its value is the byte address.
    Branch,
    /// A 20-bit word index whose top bit is ignored; its value is the byte address.
    Call,
}

impl OperandKind {
    /// Width of the field value in bits.
    pub fn bits(self) -> u8 {
        match self {
            OperandKind::Reg { .. } => 4,
            OperandKind::Unsigned(n) | OperandKind::Signed(n) | OperandKind::High(n) => n,
            OperandKind::Csr => 8,
            OperandKind::Branch => 19,
            OperandKind::Call => 20,
        }
    }

    /// True for register operands of any width.
    pub fn is_register(self) -> bool {
        matches!(self, OperandKind::Reg { .. })
    }
}

/// What an instruction does to a register operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Access {
    /// Only read (and every immediate).
    #[default]
    Read,
    /// Only written.
    Write,
    /// Read and written.
    ReadWrite,
}

/// A run of operand bits inside the instruction word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Slice {
    /// Highest word bit.
    pub hi: u8,
    /// Lowest word bit.
    pub lo: u8,
    /// Operand bit stored at word bit `lo`.
    pub shift: u8,
}

impl Slice {
    fn field_mask(self) -> u32 {
        u32::MAX >> (31 - u32::from(self.hi - self.lo))
    }
}

/// One operand of a format.
#[derive(Clone, Debug, Deserialize)]
pub struct Operand {
    /// Name used in the syntax and in errors.
    pub name: String,
    /// Meaning of the field.
    pub kind: OperandKind,
    /// Whether the instruction reads or writes it.
    #[serde(default)]
    pub access: Access,
    /// Where its bits stand.
    pub slices: Vec<Slice>,
}

impl Operand {
    /// Reads the raw field from a word.
    pub fn extract(&self, word: u32) -> u32 {
        self.slices
            .iter()
            .fold(0, |v, s| v | (((word >> s.lo) & s.field_mask()) << s.shift))
    }

    /// Places the raw field into an otherwise zero word.
    pub fn insert(&self, field: u32) -> u32 {
        self.slices.iter().fold(0, |w, s| {
            w | (((field >> s.shift) & s.field_mask()) << s.lo)
        })
    }

    /// True when the instruction changes this operand's registers.
    pub fn is_written(&self) -> bool {
        self.access != Access::Read
    }
}

/// Use of bit 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Coissue {
    /// Bit 31 is the co-issue flag: the format may stand in a bundle.
    Coissue,
    /// Bit 31 is 0: the format never stands in a bundle.
    Fixed0,
    /// Bit 31 is 1 although the format never stands in a bundle.
    Fixed1,
}

/// The pipeline that executes a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Pipeline {
    /// Integer, memory, control; the lower word of a bundle.
    Main,
    /// Floating point; the higher word of a bundle.
    Aux,
}

/// Which contexts may execute a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Mode {
    /// Workers only.
    Worker,
    /// The supervisor only.
    Supervisor,
    /// Both.
    Both,
}

/// Chip generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Arch {
    /// Mk1.
    Ipu1,
    /// Mk2.
    Ipu2,
    /// Mk2 with f8 (Bow).
    Ipu21,
}

/// Classes of formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Flag {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Changes the program counter or the state of the context.
    Control,
    /// Touches control registers, other contexts or the fabric.
    System,
    /// Belongs to the exchange.
    Exchange,
    /// Followed by a data word.
    TwoWord,
}

/// One instruction format.
#[derive(Clone, Debug, Deserialize)]
pub struct Format {
    /// Unique name, such as `add_mmmn_zi`.
    pub name: String,
    /// Mnemonic as printed.
    pub mnemonic: String,
    /// Encoding family.
    pub family: String,
    /// Text form; `{name}` stands for an operand.
    pub syntax: String,
    /// Operands in text order.
    pub operands: Vec<Operand>,
    /// Operands of the second word, for two-word formats.
    #[serde(default)]
    pub word2: Vec<Operand>,
    /// Fixed bits.
    pub mask: u32,
    /// Values of the fixed bits.
    pub matches: u32,
    /// Use of bit 31.
    pub coissue: Coissue,
    /// Executing pipeline.
    pub pipeline: Pipeline,
    /// Length in 32-bit words.
    #[serde(default = "one")]
    pub words: u8,
    /// Contexts that may execute it.
    pub mode: Mode,
    /// Generations that have it.
    pub archs: Vec<Arch>,
    /// Classes.
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// Issue slots that a worker spends on it.
    #[serde(default = "one")]
    pub sim_slots: u8,
    /// Other spellings, for documentation; [`crate::asm`] implements them.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Short description of the effect.
    pub semantics: String,
    /// The mnemonic as an enum.
    #[serde(skip)]
    pub opcode: Opcode,
    /// Position in the table.
    #[serde(skip)]
    pub id: FormatId,
}

fn one() -> u8 {
    1
}

impl Format {
    /// True when the format may stand in a bundle.
    pub fn can_bundle(&self) -> bool {
        self.coissue == Coissue::Coissue
    }

    /// True when the format has the flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// True when the generation has the format.
    pub fn on(&self, arch: Arch) -> bool {
        self.archs.contains(&arch)
    }

    /// Position of the operand of that name.
    pub fn operand_index(&self, name: &str) -> Option<usize> {
        self.operands.iter().position(|o| o.name == name)
    }
}

/// Position of a format in the table; obtained only from the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FormatId(pub(crate) u16);

impl FormatId {
    /// Dense index, from 0 to the number of formats.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The format in the global table.
    pub fn format(self) -> &'static Format {
        table().format(self)
    }
}

/// All formats with their lookup structures.
#[derive(Debug, Default)]
pub struct Table {
    formats: Vec<Format>,
    by_name: HashMap<String, FormatId>,
    by_mnemonic: HashMap<String, Vec<FormatId>>,
    pub(crate) index: DecodeIndex,
}

impl Table {
    fn parse(source: &str) -> Result<Table, TableError> {
        let mut formats: Vec<Format> = ron::from_str(source)?;
        let mut by_name = HashMap::new();
        let mut by_mnemonic: HashMap<String, Vec<FormatId>> = HashMap::new();
        for (at, format) in formats.iter_mut().enumerate() {
            format.id = FormatId(u16::try_from(at).map_err(|_| TableError::TooMany)?);
            format.opcode = Opcode::from_mnemonic(&format.mnemonic)
                .ok_or_else(|| TableError::Opcode(format.mnemonic.clone()))?;
            if format.operands.len() > MAX_OPERANDS {
                return Err(TableError::Operands(format.name.clone()));
            }
            if by_name.insert(format.name.clone(), format.id).is_some() {
                return Err(TableError::Duplicate(format.name.clone()));
            }
            by_mnemonic
                .entry(format.mnemonic.clone())
                .or_default()
                .push(format.id);
        }
        let index = DecodeIndex::new(&formats);
        Ok(Table {
            formats,
            by_name,
            by_mnemonic,
            index,
        })
    }

    /// All formats in table order.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// The format behind an id.
    pub fn format(&self, id: FormatId) -> &Format {
        &self.formats[id.index()]
    }

    /// Looks a format up by its unique name.
    pub fn by_name(&self, name: &str) -> Option<&Format> {
        self.by_name.get(name).map(|&id| self.format(id))
    }

    /// All formats of a mnemonic in table order; empty when there is none.
    pub fn by_mnemonic(&self, mnemonic: &str) -> &[FormatId] {
        self.by_mnemonic.get(mnemonic).map_or(&[], Vec::as_slice)
    }

    /// All mnemonics, in no particular order.
    pub fn mnemonics(&self) -> impl Iterator<Item = &str> {
        self.by_mnemonic.keys().map(String::as_str)
    }
}

#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error("isa.ron: {0}")]
    Ron(#[from] ron::error::SpannedError),
    #[error("isa.ron: too many formats")]
    TooMany,
    #[error("isa.ron: mnemonic {0} has no Opcode")]
    Opcode(String),
    #[error("isa.ron: format {0} has too many operands")]
    Operands(String),
    #[error("isa.ron: format {0} is listed twice")]
    Duplicate(String),
}

/// The table of the IPU21. Parsed at first use.
///
/// The data is part of the program and a unit test parses it; were it ever
/// broken, the table would be empty and nothing would decode.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::parse(SOURCE).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_table_parses() {
        let table = Table::parse(SOURCE).unwrap();
        assert_eq!(table.formats().len(), 368);
        assert_eq!(table.by_mnemonic.len(), 251);
        assert_eq!(super::table().by_mnemonic("add").len(), 3);
        assert_eq!(
            super::table().by_name("movz_mmmn").map(|f| f.opcode),
            Some(Opcode::Movnz)
        );
    }

    #[test]
    fn broken_tables_are_refused() {
        assert!(Table::parse("[(").is_err());
        let line = SOURCE
            .lines()
            .find(|l| l.starts_with("(name:\"abs_mmmn\""))
            .unwrap();
        assert!(matches!(
            Table::parse(&format!("[{line}{line}]")),
            Err(TableError::Duplicate(name)) if name == "abs_mmmn"
        ));
        let unknown = line.replace("mnemonic:\"abs\"", "mnemonic:\"absent\"");
        assert!(matches!(
            Table::parse(&format!("[{unknown}]")),
            Err(TableError::Opcode(_))
        ));
    }

    #[test]
    fn operand_bits_and_fixed_bits_tile_the_word() {
        for f in table().formats() {
            let mut used = f.mask;
            for o in &f.operands {
                let bits = o.insert(u32::MAX);
                assert_eq!(used & bits, 0, "{} {}", f.name, o.name);
                used |= bits;
                assert_eq!(o.extract(bits), o.extract(u32::MAX));
            }
            if f.can_bundle() {
                assert_eq!(used >> 31, 0, "{}", f.name);
                used |= 1 << 31;
            }
            assert_eq!(used, u32::MAX, "{}", f.name);
            assert_eq!(f.matches & !f.mask, 0, "{}", f.name);
        }
    }

    #[test]
    fn no_word_matches_two_formats() {
        let formats = table().formats();
        for (i, a) in formats.iter().enumerate() {
            for b in &formats[i + 1..] {
                let common = a.mask & b.mask;
                assert_ne!((a.matches ^ b.matches) & common, 0, "{} {}", a.name, b.name);
            }
        }
    }
}
