//! The assembler: text to [`Object`].
//!
//! Statements stand on lines or between `;`. Comments are `//`, `#` and
//! `/* */`. A bundle is `{ main ; aux }`, on one line or several. A bare
//! integer as a branch target counts words, a label is a byte address.
//! Constants of `.set`, `.equ` and `name = value` have the value they have
//! where they are used. A constant passed to `ldconst` may be any 32-bit
//! number; an address takes one `setzi`.
//!
//! Directives: `.section .pushsection .popsection .previous .text .data .bss`,
//! `.align .balign .p2align`, `.globl .global .local .set .equ`,
//! `.byte .half .short .hword .2byte .long .word .int .4byte .quad .8byte
//! .float .single .ascii .asciz .string .zero .space .skip .fill`,
//! `.if .ifdef .ifndef .ifb .ifnb .ifc .ifnc .elseif .else .endif`,
//! `.macro .endm .exitm .purgem .rept .irp .endr`, `.supervisor .worker
//! .allow_optimizations .allow_invalid_repeat .allow_invalid_execution_mode`,
//! `.err .error`; debugging directives are accepted without effect.
//! `.half` takes 16-bit integers and, written with a point, f16 numbers.
//! Data may name how it holds an address: `@abs18@s2`, `@abs19@s2`,
//! `@relative@16@s2`, `@16@s3`, `@16@s4`, `@16@s5`, `@abs@21`.
//!
//! Every run ends: nesting, expansion, output and errors are bounded by
//! [`Limits`].

mod cursor;
mod directives;
mod error;
mod expr;
mod finish;
mod macros;
mod operand;
mod sections;
mod select;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::object::Object;

pub use error::{AsmErrorKind, AsmErrors, Diagnostic};

/// Bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all sections together.
    pub output_bytes: usize,
    /// Lines read, counting every expansion.
    pub lines: u64,
    /// Macro calls inside one another.
    pub depth: usize,
    /// Errors until the run stops.
    pub errors: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            output_bytes: 2 << 20,
            lines: 4 << 20,
            depth: 64,
            errors: 20,
        }
    }
}

/// Settings for assembling files.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    defines: BTreeMap<String, i64>,
    limits: Limits,
    byte_targets: bool,
}

impl Assembler {
    /// An assembler without definitions.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// Defines a constant that sources can use and test with `.ifdef`.
    pub fn define(&mut self, name: &str, value: i64) -> &mut Assembler {
        self.defines.insert(name.to_string(), value);
        self
    }

    /// Replaces the bounds.
    pub fn limits(&mut self, limits: Limits) -> &mut Assembler {
        self.limits = limits;
        self
    }

    /// Reads bare branch targets as byte addresses, as disassembly prints them.
    pub fn byte_targets(&mut self, on: bool) -> &mut Assembler {
        self.byte_targets = on;
        self
    }

    /// Assembles one source; `file` is its name in messages.
    pub fn assemble(&self, file: &str, source: &str) -> Result<Object, AsmErrors> {
        state::State::new(self, file).run(source)
    }
}
