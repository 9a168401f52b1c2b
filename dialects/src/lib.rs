//! The dialects `nn`, `ipu` and `tile`, and everything that touches MLIR.
//!
//! Owns: ODS files (`td/`) with a thin C++ registration (`cpp/`), verifiers and
//! canonicalisations ([`nn`], `hooks`), passes in MLIR's registry ([`mod@pass`]), contexts and
//! guarded parsing ([`mod@context`], [`guard`]), diagnostics ([`diag`]), reports of passes
//! ([`explain`]), the driver of `ipu-opt` ([`driver`]).
//!
//! Invariants: text reaches MLIR's parser only after [`guard::check_text`] and on a thread of
//! [`context::STACK_BYTES`]; no panic crosses into C++; MLIR is built without assertions, so
//! melior and mlir-sys are used here and in the outer part of passes only.
//!
//! Must not know: algorithms, hardware.

pub mod context;
pub mod diag;
pub mod driver;
pub mod explain;
mod ffi;
pub mod graph;
pub mod guard;
mod hooks;
pub mod ipu;
pub mod ir;
pub mod layout;
pub mod nn;
pub mod pass;
pub mod pipeline;
#[cfg(test)]
mod tests;
pub mod tile;

pub use context::{context, parse_guarded, run_pipeline, with_big_stack};
pub use diag::{Diagnostic, Failed, Severity, Span, emit_error, error_at};
pub use melior;
