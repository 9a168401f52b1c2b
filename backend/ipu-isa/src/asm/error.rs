//! Located errors.

use std::fmt;

use crate::codec::{BundleError, EncodeError};
use crate::object::RelocError;

/// A place in the source, kept small because every instruction carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loc {
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// Position of the line among all lines read.
    pub(crate) raw: u32,
    pub(crate) col: u32,
    /// Index of the macro call that the line comes from, 0 for none.
    pub(crate) call: u32,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AsmErrorKind {
    /// Unexpected text.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What was wanted.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A malformed number.
    #[error("`{0}` is not a number of at most 64 bits")]
    BadNumber(String),
    /// A float without `h` or `f` in an integer expression.
    #[error("a floating-point number in an expression needs the suffix `h` or `f`")]
    BareFloat,
    /// Unknown mnemonic.
    #[error("unknown instruction `{name}`{}", did_you_mean(.hint))]
    UnknownInstruction {
        /// The name.
        name: String,
        /// A similar name.
        hint: Option<String>,
    },
    /// Unknown directive.
    #[error("unknown directive `{name}`{}", did_you_mean(.hint))]
    UnknownDirective {
        /// The name.
        name: String,
        /// A similar name.
        hint: Option<String>,
    },
    /// Unknown `$name`.
    #[error("unknown register `${0}`")]
    UnknownRegister(String),
    /// No format of the mnemonic takes these operands.
    #[error("invalid operands; the forms are: {forms}")]
    Operands {
        /// Syntax of every form.
        forms: String,
    },
    /// An operand value that does not fit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A number that does not fit the way in which it is to be held.
    #[error(transparent)]
    Reloc(#[from] RelocError),
    /// An illegal bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Wrong number of instructions in braces.
    #[error("a bundle holds exactly two instructions, this one has {0}")]
    BundleSize(usize),
    /// `}` without `{`.
    #[error("`}}` without `{{`")]
    BundleClose,
    /// Something other than an instruction in braces.
    #[error("{0} cannot stand in a bundle")]
    InBundle(&'static str),
    /// An instruction of the other mode.
    #[error("instruction requires: {0} mode")]
    Mode(&'static str),
    /// A rule of `rpt` bodies is broken.
    #[error("{0}")]
    Repeat(&'static str),
    /// An address rule is broken.
    #[error("{0}")]
    Alignment(&'static str),
    /// An expression that must be known here is not.
    #[error("the expression is not a constant here (`{0}`)")]
    NotConstant(String),
    /// An address where only numbers go.
    #[error("operand `{0}` cannot hold an address")]
    AddressOperand(String),
    /// An address expression that no relocation can describe.
    #[error("the expression is neither a number nor an address plus a number")]
    NotRelocatable,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A label or name defined twice.
    #[error("`{0}` is already defined")]
    Redefined(String),
    /// `1b` or `1f` without its label.
    #[error("there is no label `{0}` in that direction")]
    NoNumericLabel(String),
    /// A directive argument out of range.
    #[error("{what} is {value}, allowed are {min} to {max}")]
    Range {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: i64,
        /// Least legal value.
        min: i64,
        /// Greatest legal value.
        max: i64,
    },
    /// A block without its beginning.
    #[error("`{0}` without its opening directive")]
    Unopened(&'static str),
    /// A block without its end.
    #[error("`{0}` is not closed")]
    Unclosed(&'static str),
    /// A wrong macro call or definition.
    #[error("macro `{name}`: {problem}")]
    Macro {
        /// Macro name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A C preprocessor line.
    #[error("`{0}` is for the C preprocessor, which was not run on this text")]
    Preprocessor(String),
    /// `.err`, `.error`, `.warning` and `.print`.
    #[error("{0}")]
    User(String),
    /// An instruction of another generation.
    #[error("instruction requires: {0} architecture")]
    Arch(String),
    /// Two results of one instruction in the same register.
    #[error("both results of `{mnemonic}` go to `${file}{number}`")]
    SameResult {
        /// The mnemonic.
        mnemonic: String,
        /// `m` or `a`.
        file: char,
        /// Register number.
        number: u8,
    },
    /// Contents in a section that has none.
    #[error("section `{0}` is `@nobits` but holds something other than zeros")]
    NoBits(String),
    /// `.include` and `.incbin` without their file.
    #[error("cannot read `{file}`: {problem}")]
    File {
        /// The name as written.
        file: String,
        /// What the system says.
        problem: String,
    },
    /// Operators whose order differs between C and GNU assemblers.
    #[error("`{0}` and `{1}` without parentheses: C and GNU assemblers disagree on their order")]
    Precedence(&'static str, &'static str),
    /// A limit that keeps a run finite.
    #[error("limit exceeded: {0}")]
    Limit(&'static str),
}

fn did_you_mean(hint: &Option<String>) -> String {
    hint.as_ref()
        .map_or(String::new(), |h| format!(", did you mean `{h}`?"))
}

impl AsmErrorKind {
    /// For errors of reading text: how far before the reading position they stand.
    pub(crate) fn points_back(&self) -> Option<usize> {
        match self {
            AsmErrorKind::Expected { .. } => Some(0),
            AsmErrorKind::UnknownRegister(name) => Some(name.len() + 1),
            AsmErrorKind::BadNumber(text) => Some(text.len()),
            _ => None,
        }
    }

    pub(crate) fn expected(expected: &str, rest: &str) -> AsmErrorKind {
        let rest = rest.trim_start();
        let found = if rest.is_empty() {
            "the end of the statement".to_string()
        } else {
            format!("`{}`", rest.chars().take(24).collect::<String>())
        };
        AsmErrorKind::Expected {
            expected: expected.to_string(),
            found,
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The source cannot be assembled.
    Error,
    /// Doubtful, but assembled.
    Warning,
    /// Text that the source asked to print.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// One message with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error, warning or note.
    pub severity: Severity,
    /// File name as given.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong.
    pub kind: AsmErrorKind,
    /// The source line.
    pub source_line: String,
    /// Macro calls that led there, innermost first.
    pub expansion: Vec<Expansion>,
}

/// A macro call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Name of the macro.
    pub name: String,
    /// File of the call.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
}

/// Longest source line that a message quotes.
const MAX_QUOTE: usize = 240;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = (&self.file, self.line, self.column);
        write!(
            f,
            "{file}:{line}:{column}: {}: {}",
            self.severity, self.kind
        )?;
        let text = self.source_line.trim_end();
        if !text.is_empty() && text.len() <= MAX_QUOTE {
            // Tabs stay, so that the caret stands below its column.
            let before = text
                .get(..column.saturating_sub(1) as usize)
                .unwrap_or(text);
            let blank: String = before
                .chars()
                .map(|c| if c == '\t' { c } else { ' ' })
                .collect();
            write!(f, "\n{text}\n{blank}^")?;
        }
        for e in &self.expansion {
            let Expansion {
                name,
                file,
                line,
                column,
            } = e;
            write!(
                f,
                "\n{file}:{line}:{column}: note: in the expansion of `{name}`"
            )?;
        }
        Ok(())
    }
}

/// All errors of a run, in source order, with its warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsmErrors {
    /// The errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// True when the run stopped before the end of the source.
    pub truncated: bool,
}

impl fmt::Display for AsmErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{d}")?;
        }
        if self.truncated {
            write!(f, "\nassembly stopped here")?;
        }
        Ok(())
    }
}

impl std::error::Error for AsmErrors {}
