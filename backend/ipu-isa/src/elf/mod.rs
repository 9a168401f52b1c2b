//! ELF files: 32-bit little-endian, machine 248, relocations with addends.
//!
//! Objects are relocatable files; a linked image is an executable with one
//! loaded segment. What is read may come from anyone: nothing in it is trusted.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{ElfKind, elf_kind, read_image, read_object};
pub use write::{write_image, write_object};

/// The number of the IPU among ELF machines.
pub const MACHINE: u16 = 248;

/// Why an ELF file cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The file is not well formed.
    #[error("not a valid ELF file: {0}")]
    Malformed(String),
    /// A well-formed file for something else.
    #[error("the file is for ELF machine {0}, not {MACHINE} (IPU)")]
    Machine(u16),
    /// Not the kind of file that is wanted.
    #[error("the file is {found}, not {wanted}")]
    Kind {
        /// What it is.
        found: &'static str,
        /// What is wanted.
        wanted: &'static str,
    },
    /// Something that these tools do not handle.
    #[error("{0}")]
    Unsupported(String),
    /// A number too large for its field.
    #[error("{what} {value:#x} does not fit 32 bits")]
    Range {
        /// What it is.
        what: &'static str,
        /// The number.
        value: i64,
    },
}
