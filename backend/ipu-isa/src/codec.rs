//! Words to operands and back.

use crate::opcode::Opcode;
use crate::table::{
    Coissue, Format, FormatId, MAX_OPERANDS, OperandKind, Pipeline, RegFile, table,
};

/// The co-issue flag.
pub const COISSUE_BIT: u32 = 1 << 31;

/// Two-level decode index: bits 30:24 choose a bucket, a bucket groups its
/// formats by mask, a group is sorted by match value.
#[derive(Debug, Default)]
pub(crate) struct DecodeIndex {
    buckets: Vec<Vec<Group>>,
}

#[derive(Debug)]
struct Group {
    mask: u32,
    entries: Vec<(u32, FormatId)>,
}

const MAJOR_SHIFT: u32 = 24;
const MAJORS: u32 = 128;

impl DecodeIndex {
    pub(crate) fn new(formats: &[Format]) -> DecodeIndex {
        let buckets = (0..MAJORS)
            .map(|major| {
                let mut groups: Vec<Group> = Vec::new();
                let fits =
                    |f: &&Format| ((major << MAJOR_SHIFT) ^ f.matches) & f.mask & 0x7f00_0000 == 0;
                for f in formats.iter().filter(fits) {
                    match groups.iter_mut().find(|g| g.mask == f.mask) {
                        Some(group) => group.entries.push((f.matches, f.id)),
                        None => groups.push(Group {
                            mask: f.mask,
                            entries: vec![(f.matches, f.id)],
                        }),
                    }
                }
                for group in &mut groups {
                    group.entries.sort_unstable();
                }
                groups
            })
            .collect();
        DecodeIndex { buckets }
    }

    fn lookup(&self, word: u32) -> Option<FormatId> {
        let bucket = self
            .buckets
            .get(((word >> MAJOR_SHIFT) & (MAJORS - 1)) as usize)?;
        bucket.iter().find_map(|g| {
            let at = g
                .entries
                .binary_search_by_key(&(word & g.mask), |e| e.0)
                .ok()?;
            g.entries.get(at).map(|e| e.1)
        })
    }
}

/// One decoded instruction word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    /// The format of the word.
    pub format: FormatId,
    /// The mnemonic of the word.
    pub opcode: Opcode,
    /// Raw operand fields in text order; unused places are 0.
    pub fields: [u32; MAX_OPERANDS],
}

impl Decoded {
    /// Builds an instruction from operand values (as [`Decoded::value`] gives them) in text order.
    pub fn new(format: FormatId, values: &[i64]) -> Result<Decoded, EncodeError> {
        let record = format.format();
        if values.len() != record.operands.len() {
            return Err(EncodeError::OperandCount {
                format: record.name.clone(),
                expected: record.operands.len(),
                got: values.len(),
            });
        }
        let mut fields = [0; MAX_OPERANDS];
        for ((operand, &value), field) in record.operands.iter().zip(values).zip(&mut fields) {
            *field = field_of(&operand.name, operand.kind, value)?;
        }
        Ok(Decoded {
            format,
            opcode: record.opcode,
            fields,
        })
    }

    /// The format record.
    pub fn format(&self) -> &'static Format {
        self.format.format()
    }

    /// Operand `i` with its meaning applied: sign extension, the shift of
    /// high immediates, byte addresses of branch targets; 0 when the format
    /// has no such operand.
    pub fn value(&self, i: usize) -> i64 {
        match (self.format().operands.get(i), self.fields.get(i)) {
            (Some(operand), Some(&field)) => field_value(operand.kind, field),
            _ => 0,
        }
    }

    /// The values of all operands in text order.
    pub fn values(&self) -> Vec<i64> {
        (0..self.format().operands.len())
            .map(|i| self.value(i))
            .collect()
    }

    /// The value of the operand of that name.
    pub fn named(&self, name: &str) -> Option<i64> {
        self.format().operand_index(name).map(|i| self.value(i))
    }

    /// The word with a clear co-issue flag (except for formats whose bit 31 is fixed to 1).
    pub fn word(&self) -> u32 {
        let format = self.format();
        let fields = format.operands.iter().zip(self.fields);
        fields.fold(format.matches, |w, (o, f)| w | o.insert(f))
    }

    /// The registers that the instruction writes: file, first number, count.
    pub fn written_registers(&self) -> impl Iterator<Item = (RegFile, u8, u8)> {
        let operands = self.format().operands.iter().zip(self.fields);
        operands
            .filter(|(o, _)| o.is_written())
            .filter_map(|(o, field)| match o.kind {
                OperandKind::Reg { file, width, .. } => Some((file, (field & 15) as u8, width)),
                _ => None,
            })
    }
}

/// The meaning of a raw field.
pub fn field_value(kind: OperandKind, field: u32) -> i64 {
    match kind {
        OperandKind::Reg { .. } | OperandKind::Unsigned(_) | OperandKind::Csr => i64::from(field),
        OperandKind::Signed(bits) => {
            let shift = 32 - u32::from(bits);
            i64::from(((field << shift) as i32) >> shift)
        }
        OperandKind::High(bits) => i64::from(field) << (32 - u32::from(bits)),
        OperandKind::Branch | OperandKind::Call => i64::from(field & 0x7_ffff) << 2,
    }
}

/// Decodes one word. The co-issue flag of formats that have one is ignored;
/// odd pairs and misaligned quads do not decode. A two-word format decodes
/// from its first word.
pub fn decode(word: u32) -> Option<Decoded> {
    let id = table().index.lookup(word)?;
    let format = id.format();
    let mut fields = [0; MAX_OPERANDS];
    for (operand, field) in format.operands.iter().zip(&mut fields) {
        *field = operand.extract(word);
        if let OperandKind::Reg { width, .. } = operand.kind
            && *field % u32::from(width) != 0
        {
            return None;
        }
    }
    Some(Decoded {
        format: id,
        opcode: format.opcode,
        fields,
    })
}

/// One issue: what a context executes in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// One word.
    Single(Decoded),
    /// Two words issued together: main, then aux.
    Bundle(Decoded, Decoded),
    /// `sendpicp` and its data word.
    SendPicPair {
        /// The first word.
        head: Decoded,
        /// Bits 31:18 of the data word.
        xpic: u32,
        /// Bits 17:0 of the data word.
        pic: u32,
    },
}

impl Instruction {
    /// Length in words.
    pub fn word_count(&self) -> u32 {
        match self {
            Instruction::Single(_) => 1,
            Instruction::Bundle(..) | Instruction::SendPicPair { .. } => 2,
        }
    }

    /// Appends the encoded words.
    pub fn encode_into(&self, out: &mut Vec<u32>) {
        match self {
            Instruction::Single(d) => out.push(d.word()),
            Instruction::Bundle(main, aux) => {
                out.extend([main.word() | COISSUE_BIT, aux.word() | COISSUE_BIT]);
            }
            Instruction::SendPicPair { head, xpic, pic } => {
                let second = head.format().word2.iter().zip([xpic, pic]);
                out.extend([head.word(), second.fold(0, |w, (o, &f)| w | o.insert(f))]);
            }
        }
    }

    /// The encoded words.
    pub fn words(&self) -> Vec<u32> {
        let mut out = Vec::with_capacity(2);
        self.encode_into(&mut out);
        out
    }
}

/// Decodes the instruction at the start of `words`.
///
/// A bundle needs a main and then an aux instruction, both co-issuable with
/// the flag set; whether they write the same register is left to
/// [`check_bundle`], because hardware reports that when it executes them.
pub fn decode_instruction(words: &[u32]) -> Option<Instruction> {
    let (&first, rest) = words.split_first()?;
    let head = decode(first)?;
    let format = head.format();
    match format.coissue {
        Coissue::Fixed1 => {
            let &second = rest.first()?;
            let [xpic, pic] = format.word2.as_slice() else {
                return None;
            };
            Some(Instruction::SendPicPair {
                head,
                xpic: xpic.extract(second),
                pic: pic.extract(second),
            })
        }
        Coissue::Coissue if first & COISSUE_BIT != 0 => {
            let &second = rest.first()?;
            let aux = decode(second)?;
            let legal = second & COISSUE_BIT != 0 && check_pipelines(&head, &aux).is_ok();
            legal.then_some(Instruction::Bundle(head, aux))
        }
        Coissue::Coissue | Coissue::Fixed0 => Some(Instruction::Single(head)),
    }
}

/// Why two instructions do not form a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A format that is always issued alone.
    #[error("`{0}` cannot stand in a bundle")]
    Solo(String),
    /// Two instructions of one pipeline, or the wrong order.
    #[error("a bundle is one main and one aux instruction, but `{mnemonic}` is not {wanted}")]
    Pipeline {
        /// The offending mnemonic.
        mnemonic: String,
        /// What its place needs: `main` or `aux`.
        wanted: &'static str,
    },
    /// Both write one register.
    #[error("both instructions of the bundle write `${file}{number}`")]
    SameDestination {
        /// `m` or `a`.
        file: char,
        /// Register number.
        number: u8,
    },
}

fn check_pipelines(main: &Decoded, aux: &Decoded) -> Result<(), BundleError> {
    for (d, pipeline, wanted) in [(main, Pipeline::Main, "main"), (aux, Pipeline::Aux, "aux")] {
        let format = d.format();
        if !format.can_bundle() {
            return Err(BundleError::Solo(format.mnemonic.clone()));
        }
        if format.pipeline != pipeline {
            return Err(BundleError::Pipeline {
                mnemonic: format.mnemonic.clone(),
                wanted,
            });
        }
    }
    Ok(())
}

/// Checks that `main` and `aux` form a legal bundle: one of each pipeline,
/// both co-issuable, no register written by both.
pub fn check_bundle(main: &Decoded, aux: &Decoded) -> Result<(), BundleError> {
    check_pipelines(main, aux)?;
    for (file, first, count) in main.written_registers() {
        for (other, start, len) in aux.written_registers() {
            let low = first.max(start);
            if file == other && low < (first + count).min(start + len) {
                return Err(BundleError::SameDestination {
                    file: file.letter(),
                    number: low,
                });
            }
        }
    }
    Ok(())
}

/// Why operand values do not fit a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Wrong number of values.
    #[error("`{format}` takes {expected} operands, not {got}")]
    OperandCount {
        /// Format name.
        format: String,
        /// Operands of the format.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// A value outside its field.
    #[error("operand `{operand}` is {value}, allowed are {min} to {max}")]
    OutOfRange {
        /// Operand name.
        operand: String,
        /// The value given.
        value: i64,
        /// Least legal value.
        min: i64,
        /// Greatest legal value.
        max: i64,
    },
    /// A value that is not a multiple of what the field can hold.
    #[error("operand `{operand}` is {value}, which is not a multiple of {align}")]
    Misaligned {
        /// Operand name.
        operand: String,
        /// The value given.
        value: i64,
        /// Required divisor.
        align: i64,
    },
}

/// The least and greatest value of a kind and the divisor of its values.
pub fn value_limits(kind: OperandKind) -> (i64, i64, i64) {
    let top = |bits: u8| (1i64 << bits) - 1;
    match kind {
        OperandKind::Reg { width, .. } => (0, 16 - i64::from(width), i64::from(width)),
        OperandKind::Unsigned(bits) => (0, top(bits), 1),
        OperandKind::Signed(bits) => (-(1 << (bits - 1)), top(bits - 1), 1),
        OperandKind::High(bits) => (0, top(bits) << (32 - bits), 1 << (32 - bits)),
        OperandKind::Csr => (0, 255, 1),
        OperandKind::Branch | OperandKind::Call => (0, top(19) << 2, 4),
    }
}

fn field_of(name: &str, kind: OperandKind, value: i64) -> Result<u32, EncodeError> {
    let (min, max, align) = value_limits(kind);
    if !(min..=max).contains(&value) {
        return Err(EncodeError::OutOfRange {
            operand: name.to_string(),
            value,
            min,
            max,
        });
    }
    if value % align != 0 {
        return Err(EncodeError::Misaligned {
            operand: name.to_string(),
            value,
            align,
        });
    }
    Ok(match kind {
        OperandKind::Reg { .. } => value as u32,
        OperandKind::Signed(bits) => value as u32 & (u32::MAX >> (32 - u32::from(bits))),
        _ => (value / align) as u32,
    })
}

/// Encodes operand values in text order into a word with a clear co-issue flag.
pub fn encode(format: FormatId, values: &[i64]) -> Result<u32, EncodeError> {
    Decoded::new(format, values).map(|d| d.word())
}

/// Builds `sendpicp` with its data word from a decoded first word.
pub fn send_pic_pair(head: Decoded, xpic: i64, pic: i64) -> Result<Instruction, EncodeError> {
    let second = &head.format().word2;
    let [x, p] = second.as_slice() else {
        return Err(EncodeError::OperandCount {
            format: head.format().name.clone(),
            expected: head.format().operands.len(),
            got: head.format().operands.len() + 2,
        });
    };
    let xpic = field_of(&x.name, x.kind, xpic)?;
    let pic = field_of(&p.name, p.kind, pic)?;
    Ok(Instruction::SendPicPair { head, xpic, pic })
}
