//! Host data that cannot be used.

use std::path::{Path, PathBuf};

/// Host data that cannot be read, or is not what was expected.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not of the format that it should have.
    #[error("{subject}: {problem}")]
    Format {
        /// File or argument.
        subject: String,
        /// What is wrong.
        problem: String,
    },
    /// Another value than expected.
    #[error("{subject}: {what}: expected {expected}, found {found}")]
    Mismatch {
        /// File or argument.
        subject: String,
        /// What has the value.
        what: String,
        /// Expected.
        expected: String,
        /// Found.
        found: String,
    },
}

pub(crate) fn format(subject: &str, problem: impl ToString) -> DataError {
    DataError::Format {
        subject: subject.to_owned(),
        problem: problem.to_string(),
    }
}

pub(crate) fn mismatch(
    subject: &str,
    what: &str,
    expected: impl ToString,
    found: impl ToString,
) -> DataError {
    DataError::Mismatch {
        subject: subject.to_owned(),
        what: what.to_owned(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    std::fs::read(path).map_err(|error| DataError::Io {
        path: path.to_owned(),
        error,
    })
}
