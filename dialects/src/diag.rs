//! Diagnostics: emitting them at operations, and capturing those of MLIR.

use crate::ffi;
use melior::Context;
use melior::diagnostic::{Diagnostic as MeliorDiagnostic, DiagnosticSeverity};
use melior::ir::attribute::{ArrayAttribute, StringAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, Location, OperationRef};
use mlir_sys::*;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A pass or a check failed; its diagnostics have been emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed; the diagnostics say why")]
pub struct Failed;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The compilation fails.
    Error,
    /// Worth knowing.
    Warning,
    /// A report.
    Remark,
    /// Belongs to the diagnostic before.
    Note,
}

/// A position in a source file; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// File name as given.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Span {
    /// The source position behind a location: a named one's own, a fused one's first, a
    /// call's callee. `None` when there is none.
    pub fn of(location: Location<'_>) -> Option<Self> {
        let mut l = location.to_raw();
        // SAFETY: `l` is a valid location throughout; each accessor is guarded by its test.
        unsafe {
            loop {
                if mlirLocationIsAFileLineColRange(l) {
                    let file = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(l));
                    return Some(Span {
                        file: ffi::to_string(file),
                        line: mlirLocationFileLineColRangeGetStartLine(l).unsigned_abs(),
                        column: mlirLocationFileLineColRangeGetStartColumn(l).unsigned_abs(),
                    });
                } else if mlirLocationIsAName(l) {
                    l = mlirLocationNameGetChildLoc(l);
                } else if mlirLocationIsACallSite(l) {
                    l = mlirLocationCallSiteGetCallee(l);
                } else if mlirLocationIsAFused(l) {
                    let count = mlirLocationFusedGetNumLocations(l) as usize;
                    let mut parts = vec![l; count];
                    mlirLocationFusedGetLocations(l, parts.as_mut_ptr());
                    return parts
                        .into_iter()
                        .find_map(|p| Span::of(Location::from_raw(p)));
                } else {
                    return None;
                }
            }
        }
    }

    /// All source positions behind a location, those of a fused one in order and once each.
    pub fn all(location: Location<'_>) -> Vec<Self> {
        let mut out: Vec<Self> = Vec::new();
        for part in fused_parts(location) {
            if let Some(span) = Span::of(part)
                && !out.contains(&span)
            {
                out.push(span);
            }
        }
        out
    }

    /// Several positions, as a text each, as one location; `notes` are kept with it.
    pub fn fused<'c>(context: &'c Context, texts: &[&str], notes: &[String]) -> Location<'c> {
        let parts: Vec<_> = texts
            .iter()
            .map(|t| Span::location(context, t))
            .filter(|l| *l != Location::unknown(context))
            .collect();
        match (parts.as_slice(), notes) {
            ([], _) => Location::unknown(context),
            ([one], []) => *one,
            (parts, notes) => {
                let notes: Vec<Attribute<'_>> = notes
                    .iter()
                    .map(|n| StringAttribute::new(context, n).into())
                    .collect();
                let metadata = if notes.is_empty() {
                    // SAFETY: null is what a location without metadata has.
                    unsafe { Attribute::from_raw(mlirAttributeGetNull()) }
                } else {
                    ArrayAttribute::new(context, &notes).into()
                };
                Location::fused(context, parts, metadata)
            }
        }
    }

    /// The notes of a fused location.
    pub fn notes(location: Location<'_>) -> Vec<String> {
        let l = location.to_raw();
        // SAFETY: `l` is a valid location; the metadata is read from a fused one only, and may be
        // null.
        let metadata = unsafe {
            if !mlirLocationIsAFused(l) {
                return Vec::new();
            }
            let raw = mlirLocationFusedGetMetadata(l);
            if raw.ptr.is_null() {
                return Vec::new();
            }
            Attribute::from_raw(raw)
        };
        let Ok(list) = ArrayAttribute::try_from(metadata) else {
            return Vec::new();
        };
        (0..list.len())
            .filter_map(|i| StringAttribute::try_from(list.element(i).ok()?).ok())
            .map(|s| s.value().to_owned())
            .collect()
    }

    /// `file:line:column` back as a location; the unknown one when the text is not of that form.
    pub fn location<'c>(context: &'c Context, text: &str) -> Location<'c> {
        let mut parts = text.rsplitn(3, ':');
        let (column, line, file) = (parts.next(), parts.next(), parts.next());
        let number = |s: Option<&str>| s.and_then(|s| s.parse::<usize>().ok());
        match (file, number(line), number(column)) {
            (Some(file), Some(line), Some(column)) => Location::new(context, file, line, column),
            _ => Location::unknown(context),
        }
    }
}

/// The parts of a fused location, or the location alone.
fn fused_parts(location: Location<'_>) -> Vec<Location<'_>> {
    let l = location.to_raw();
    // SAFETY: `l` is a valid location, and the list is as long as it says.
    unsafe {
        if !mlirLocationIsAFused(l) {
            return vec![location];
        }
        let count = mlirLocationFusedGetNumLocations(l) as usize;
        let mut parts = vec![l; count];
        mlirLocationFusedGetLocations(l, parts.as_mut_ptr());
        parts.into_iter().map(|p| Location::from_raw(p)).collect()
    }
}

/// A captured diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where, when known.
    pub span: Option<Span>,
    /// What.
    pub message: String,
    /// More of it.
    pub notes: Vec<Diagnostic>,
}

impl fmt::Display for Diagnostic {
    /// `file:line:column: error: message`, notes on lines of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            write!(f, "{span}: ")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}", self.message)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Option<Span>, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            span,
            message: message.into(),
            notes: vec![],
        }
    }

    fn read(d: &MeliorDiagnostic<'_>) -> Self {
        Diagnostic {
            severity: match d.severity() {
                DiagnosticSeverity::Error => Severity::Error,
                DiagnosticSeverity::Warning => Severity::Warning,
                DiagnosticSeverity::Remark => Severity::Remark,
                DiagnosticSeverity::Note => Severity::Note,
            },
            span: Span::of(d.location()),
            message: d.to_string(),
            notes: (0..d.note_count())
                .filter_map(|i| d.note(i).ok())
                .map(|n| Self::read(&n))
                .collect(),
        }
    }
}

/// Runs `work` and returns what it returned with all diagnostics of the context meanwhile.
pub fn capture<T>(context: &Context, work: impl FnOnce() -> T) -> (T, Vec<Diagnostic>) {
    let list = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&list);
    let id = context.attach_diagnostic_handler(move |d| {
        sink.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Diagnostic::read(&d));
        true
    });
    let value = work();
    context.detach_diagnostic_handler(id);
    let list = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
    (value, list)
}

/// Emits a diagnostic with notes.
pub fn emit(at: Location<'_>, severity: Severity, message: &str, notes: &[(Location<'_>, String)]) {
    let locations: Vec<_> = notes.iter().map(|(l, _)| l.to_raw()).collect();
    let texts: Vec<_> = notes.iter().map(|(_, t)| ffi::text(t)).collect();
    let severity = match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Remark | Severity::Note => 2,
    };
    // SAFETY: all pointers live until the call returns; MLIR copies the texts.
    unsafe {
        ffi::ipuEmit(
            at.to_raw(),
            severity,
            ffi::text(message),
            notes.len() as isize,
            locations.as_ptr(),
            texts.as_ptr(),
        );
    }
}

/// Emits an error at a location.
pub fn error_at(at: Location<'_>, message: impl AsRef<str>) -> Failed {
    emit(at, Severity::Error, message.as_ref(), &[]);
    Failed
}

/// Emits the error `'<op name>' op <message>` at an operation.
pub fn emit_error(op: OperationRef<'_, '_>, message: impl AsRef<str>) -> Failed {
    error_at(
        op.location(),
        format!("'{}' op {}", crate::ir::name(op), message.as_ref()),
    )
}
