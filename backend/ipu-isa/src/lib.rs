//! The instruction set of the IPU21 tile: the format table, the codec, text,
//! an assembler and a linker.
//!
//! This crate owns every fact about instruction words. `isa.ron` is the only
//! list of encodings; everything else here reads it. The crate knows nothing
//! of MLIR, of devices, of memory maps or of what programs are for.
//!
//! Invariants:
//! * a word belongs to at most one format;
//! * encoding a decoded instruction gives the same words;
//! * the printed text of an instruction assembles to an equal instruction.
//!
//! ```
//! let d = ipu_isa::decode(0x44203011).expect("add");
//! assert_eq!(d.opcode, ipu_isa::Opcode::Add);
//! assert_eq!(d.to_string(), "add $m1, $m2, $m3");
//! assert_eq!(ipu_isa::encode(d.format, &[1, 2, 3]), Ok(0x44203011));
//! ```

pub mod asm;
mod codec;
pub mod csr;
pub mod disasm;
pub mod elf;
pub mod link;
pub mod object;
mod opcode;
#[cfg(test)]
mod opcode_tests;
mod print;
mod table;

pub use codec::{
    BundleError, COISSUE_BIT, Decoded, EncodeError, Instruction, check_bundle, decode,
    decode_instruction, encode, field_value, send_pic_pair, value_limits,
};
pub use opcode::Opcode;
pub use print::{FNOP, NOP};
pub use table::{
    Access, Arch, Broadcast, Coissue, Flag, Format, FormatId, MAX_OPERANDS, Mode, Operand,
    OperandKind, Pipeline, RegFile, Slice, Table, table,
};

/// Changes with every change of this crate: part of the key of whatever keeps its output.
pub const FINGERPRINT: &str = env!("IPU_ISA_FINGERPRINT");
