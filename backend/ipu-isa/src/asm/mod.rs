//! The assembler: text to [`Object`].
//!
//! Statements stand on lines or between `;`. Comments are `//`, `#` and
//! `/* */`. A bundle is `{ main ; aux }`, on one line or several. A bare
//! integer as a branch target counts words, a label is a byte address.
//! Constants of `.set`, `.equ` and `name = value` have the value they have
//! where they are used. A constant passed to `ldconst` may be any 32-bit
//! number; an address takes one `setzi`.
//!
//! Directives: sections (`.section .pushsection .popsection .previous .text
//! .data .bss .rodata`), places (`.align .balign .p2align` and their `w`, `l`
//! forms, `.org`), symbols (`.globl .global .local .weak .hidden .type .size
//! .set .equ .equiv .eqv .comm .lcomm`), data (`.byte .half .short .hword .2byte
//! .long .word .int .4byte .quad .8byte .octa .float .single .double .ascii
//! .asciz .string .zero .space .skip .fill .uleb128 .sleb128 .incbin`), choice
//! (`.if` and its kin, `.elseif .else .endif`), repetition (`.macro .endm .exitm
//! .purgem .altmacro .noaltmacro .rept .irp .irpc .endr`), `.include .end .err
//! .error .warning .print`, and the chip's `.supervisor .worker
//! .allow_optimizations`, `.allow_ .warn_on_ .error_on_` with `invalid_repeat`,
//! `invalid_bundles`, `invalid_operands`, `invalid_execution_mode`. Debugging
//! directives are accepted without effect.
//! `.half` takes 16-bit integers and, written with a point, f16 numbers.
//!
//! An address may be written with the way to hold it, in data and where the
//! operand has the bits: `x@abs18@s2` or `%abs18@s2(x)`; the ways are
//! `abs18@s2`, `abs19@s2`, `relative@16@s2`, `16@s3`, `16@s4`, `16@s5`,
//! `abs@21`, `abs@20`, `run`.
//!
//! Every run ends: nesting, expansion, output and errors are bounded by
//! [`Limits`].

mod control;
mod cursor;
mod data;
mod directives;
mod emit;
mod error;
mod expr;
mod finish;
mod listing;
mod macros;
mod operand;
mod sections;
mod select;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::object::Object;
use crate::table::{Arch, Mode};

pub use error::{AsmErrorKind, AsmErrors, Diagnostic, Expansion, Severity};
pub use listing::{Entry, Fixup};

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
    gnu_expressions: bool,
    listing: bool,
    include_paths: Vec<PathBuf>,
    arch: Option<Arch>,
    mode: Option<Mode>,
}

/// What a run gives.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// The object.
    pub object: Object,
    /// Warnings and notes.
    pub warnings: Vec<Diagnostic>,
    /// The statements after all expansion, when asked for.
    pub listing: Vec<Entry>,
    /// Files read by `.include` and `.incbin`.
    pub files: Vec<PathBuf>,
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

    /// Operators bind as in GNU assemblers instead of C, and truth is -1.
    pub fn gnu_expressions(&mut self, on: bool) -> &mut Assembler {
        self.gnu_expressions = on;
        self
    }

    /// Collects [`Assembled::listing`].
    pub fn listing(&mut self, on: bool) -> &mut Assembler {
        self.listing = on;
        self
    }

    /// Adds a folder that `.include` and `.incbin` search.
    pub fn include_path(&mut self, path: impl Into<PathBuf>) -> &mut Assembler {
        self.include_paths.push(path.into());
        self
    }

    /// Refuses instructions that the generation lacks; without it every one is accepted.
    pub fn arch(&mut self, arch: Arch) -> &mut Assembler {
        self.arch = Some(arch);
        self
    }

    /// The mode at the start, which `.supervisor` and `.worker` change;
    /// without it nothing is checked before them.
    pub fn mode(&mut self, mode: Mode) -> &mut Assembler {
        self.mode = Some(mode).filter(|m| *m != Mode::Both);
        self
    }

    /// Assembles one source; `file` is its name in messages.
    pub fn assemble(&self, file: &str, source: &str) -> Result<Object, AsmErrors> {
        self.run(file, source).map(|a| a.object)
    }

    /// The same with warnings and, when asked for, the listing.
    pub fn run(&self, file: &str, source: &str) -> Result<Assembled, AsmErrors> {
        state::State::new(self, file).run(source)
    }
}
