//! Why a package is refused.

use super::FORMAT_VERSION;
use std::path::PathBuf;

/// A package that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The file system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not a package.
    #[error("package: magic is \"{}\", expected \"{}\": this is not an ipuexe file, or it was changed by a text conversion", found.escape_ascii(), super::container::MAGIC.escape_ascii())]
    Magic {
        /// First bytes of the file.
        found: Vec<u8>,
    },
    /// Another format version.
    #[error(
        "package: format version {found}, written by tools {writer}; these tools {} read version {FORMAT_VERSION}: compile the model again with these tools, or run the package with tools {writer}",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// Version found.
        found: u32,
        /// Version of the tools that wrote it.
        writer: String,
    },
    /// The file is too short or too long.
    #[error(
        "package: the file has {found} bytes, expected {expected}: it is truncated or has trailing data"
    )]
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// Bytes that changed after they were written.
    #[error(
        "package: section '{section}': checksum is {found:08x}, expected {expected:08x}: the file is damaged"
    )]
    Checksum {
        /// Section, or `header`.
        section: &'static str,
        /// CRC-32 of the bytes found.
        found: u32,
        /// CRC-32 recorded.
        expected: u32,
    },
    /// Bytes that changed although the checksums agree.
    #[error("package: SHA-256 is {found}, expected {expected}: the file was changed")]
    Digest {
        /// Digest of the bytes found.
        found: String,
        /// Digest recorded.
        expected: String,
    },
    /// A section that is not encoded as it should be.
    #[error("package: section '{section}' cannot be decoded: {reason}")]
    Decode {
        /// Section.
        section: &'static str,
        /// Why.
        reason: String,
    },
    /// A value that the target or the rest of the package does not allow.
    #[error("package: section '{section}': {subject} is {found}, expected {expected}")]
    Value {
        /// Section, or `header`.
        section: &'static str,
        /// What has the value.
        subject: String,
        /// Value found.
        found: String,
        /// Values allowed.
        expected: String,
    },
    /// A host function that is not well formed.
    #[error("host function '{function}' reads a value before it is computed")]
    HostFunction {
        /// Symbol.
        function: String,
    },
    /// A binding of a program to a result that no host function has.
    #[error(
        "buffer '{buffer}' is bound to result {result} of host function {function}, which does not exist"
    )]
    HostResult {
        /// Buffer.
        buffer: String,
        /// Number of the function.
        function: u32,
        /// Number of the result.
        result: u32,
    },
    /// A binding of a program that was not placed.
    #[error("buffer '{buffer}' is bound to the host but has no address: place the program first")]
    Unplaced {
        /// Buffer.
        buffer: String,
    },
}

/// Builds a [`PackageError::Value`].
pub(super) fn value(
    section: &'static str,
    subject: impl Into<String>,
    found: impl ToString,
    expected: impl ToString,
) -> PackageError {
    PackageError::Value {
        section,
        subject: subject.into(),
        found: found.to_string(),
        expected: expected.to_string(),
    }
}
