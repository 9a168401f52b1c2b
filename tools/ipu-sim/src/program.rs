//! From the file to an image with a small supervisor program that starts it.

use std::fs;

use anyhow::{Context as _, Result, anyhow, bail};
use ipu_isa::asm::Assembler;
use ipu_isa::elf;
use ipu_isa::link::{LinkOptions, Linker};
use ipu_isa::object::{Binding, Object, Symbol, SymbolPlace};
use ipu_simulator::Symbols;
use ipu_target::Target;

use crate::cli::Cli;

/// What is loaded on each tile.
pub struct Program {
    /// Bytes and their addresses.
    pub segments: Vec<(u32, Vec<u8>)>,
    /// Where the supervisor starts.
    pub start: u32,
    /// Addresses of `call` or `runall`, and of the instruction that ends the run.
    pub call: u32,
    pub end: u32,
    pub symbols: Symbols,
}

/// First bytes of an ELF file.
const ELF_MAGIC: &[u8] = b"\x7fELF";
/// Name of a symbol added where code without symbols starts.
const CODE: &str = "code";

/// The entry: the one asked for, or one of the usual names, or the first symbol of the code.
fn entry_of(object: &mut Object, asked: Option<&str>) -> Result<String> {
    let is_code = |object: &Object, place: SymbolPlace| match place {
        SymbolPlace::Section { index, offset } => object
            .sections
            .get(index)
            .filter(|s| s.flags.exec && !s.data.is_empty())
            .map(|_| (index, offset)),
        _ => None,
    };
    let defined = |object: &Object, name: &str| {
        let place = object.symbol(name)?.place;
        is_code(object, place).map(|_| name.to_string())
    };
    let name = match asked {
        Some(name) => {
            defined(object, name).ok_or_else(|| anyhow!("no symbol '{name}' in the code"))?
        }
        None => {
            let usual = ["main", "_start", "kernel_entry"];
            let usual = usual.iter().find_map(|name| defined(object, name));
            let mut all: Vec<((usize, u32), &str)> = object
                .symbols
                .iter()
                .filter_map(|s| Some((is_code(object, s.place)?, s.name.as_str())))
                .collect();
            all.sort_unstable();
            let first = all.first().map(|(_, name)| name.to_string());
            match usual.or(first) {
                Some(name) => name,
                None => add_code_symbol(object)?,
            }
        }
    };
    if let Some(symbol) = object.symbols.iter_mut().find(|s| s.name == name) {
        symbol.binding = Binding::Global;
    }
    Ok(name)
}

fn add_code_symbol(object: &mut Object) -> Result<String> {
    let index = object
        .sections
        .iter()
        .position(|s| s.flags.exec && !s.data.is_empty())
        .context("the program has no code")?;
    let place = SymbolPlace::Section { index, offset: 0 };
    let mut symbol = Symbol::new(CODE, place, Binding::Global);
    if object.symbol(CODE).is_some() {
        symbol.name.push_str("_start");
    }
    object.symbols.push(symbol);
    Ok(CODE.to_string())
}

/// The supervisor program that starts `entry`, a symbol or a number.
fn starter(cli: &Cli, entry: &str, stride: u32) -> String {
    let mut text = String::from(".section .text.start,\"ax\"\n.globl __start, __call, __end\n");
    text.push_str(".supervisor\n.p2align 3\n__start:\n");
    let mut line = |l: String| {
        text.push_str(&l);
        text.push('\n');
    };
    let csrs = [
        (32, cli.fp_control),
        (49, cli.fp_format),
        (51, cli.fp_scale),
    ];
    for (csr, value) in csrs {
        if let Some(value) = value {
            line(format!("ldconst $m0, {value}\n put {csr}, $m0"));
        }
    }
    if let Some(address) = cli.weights {
        line(format!("ldconst $m0, {address}\n put 80, $m0"));
        (0..64).for_each(|i| line(format!("ld64putcs {i}")));
    }
    if cli.supervisor {
        // The registers of the command line stay: `call` needs none of them but the link.
        line(format!("__call: call $m10, {entry}\n__end: trap 0"));
        return text;
    }
    let vertex = cli.vertex_base;
    line(format!("setzi $m0, {entry}\n ldconst $m1, {vertex}"));
    if cli.workers == 6 {
        line(format!("__call: runall $m0, $m1, {stride}"));
    } else {
        // `run` takes the base relative to memory.
        line("setzi $m2, 0x4c000\n sub $m1, $m1, $m2\n nop\n nop".to_string());
        line("__call:".to_string());
        for n in 0..u32::from(cli.workers) {
            line(format!("run $m0, $m1, {}", n * stride));
        }
    }
    line("sync 2\n__end: trap 0".to_string());
    text
}

/// The object of the file: ELF as `ipu-mc` writes it, or else assembled.
fn object(cli: &Cli, name: &str) -> Result<Object> {
    let bytes = fs::read(&cli.file).with_context(|| format!("cannot read {name}"))?;
    if bytes.starts_with(ELF_MAGIC) {
        if let Some(define) = cli.defines.first() {
            bail!(
                "{name} is an object; -D{} only matters to a source",
                define.name
            );
        }
        return elf::read_object(name, &bytes).with_context(|| name.to_string());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| anyhow!("{name} is neither ELF nor text; --image loads bytes"))?;
    let mut assembler = Assembler::new();
    for define in &cli.defines {
        assembler.define(&define.name, define.value);
    }
    assembler.assemble(name, &text).map_err(|e| anyhow!("{e}"))
}

/// Assembles and links, links an object, or loads an image.
pub fn build(cli: &Cli) -> Result<Program> {
    let target = Target::ipu21();
    if !cli.vertex_stride.is_multiple_of(4) {
        bail!("the vertex stride must be a multiple of 4");
    }
    let stride = cli.vertex_stride / 4;
    let name = cli.file.display().to_string();
    let mut linker = Linker::new();
    let mut segments = Vec::new();
    let (mut base, mut limit) = (target.load_base, target.region1_base);
    let entry;
    if let Some(address) = cli.image {
        let bytes = fs::read(&cli.file).with_context(|| format!("cannot read {name}"))?;
        let at = match &cli.entry {
            Some(text) => crate::data::address(text)?,
            None => address,
        };
        entry = "image_entry".to_string();
        linker.define_absolute(&entry, at);
        // The starter goes where the image is not.
        let end = address + bytes.len() as u32;
        if address <= base + 0x1000 {
            base = end.next_multiple_of(0x40);
        } else {
            limit = address;
        }
        segments.push((address, bytes));
    } else {
        let mut object = object(cli, &name)?;
        entry = entry_of(&mut object, cli.entry.as_deref())?;
        linker.add(object);
    }
    let start = Assembler::new()
        .assemble("start", &starter(cli, &entry, stride))
        .map_err(|e| anyhow!("{e}"))?;
    linker.add(start);
    let options = LinkOptions {
        base,
        limit,
        relative_base: target.memory_base,
    };
    let image = linker
        .link(&["__start", &entry], options)
        .map_err(|errors| {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow!("{}", texts.join("\n"))
        })?;
    let symbol = |name: &str| {
        let found = image.symbols.get(name);
        found.copied().ok_or_else(|| anyhow!("no symbol '{name}'"))
    };
    let program = Program {
        start: symbol("__start")?,
        call: symbol("__call")?,
        end: symbol("__end")?,
        symbols: Symbols::new(image.symbols.iter().map(|(n, &a)| (n.clone(), a))),
        segments: Vec::new(),
    };
    segments.push((image.base, image.bytes));
    Ok(Program {
        segments,
        ..program
    })
}
