//! Tiles of a package.
//!
//! A tile's image is segments without sections. Code is what the package's code symbols cover, the
//! rest of the segment where the last of them (the tile's own supervisor program) begins, and the
//! segments that this program calls into: those hold exchange rows. Everything else is data.

use std::fmt::Write;

use anyhow::{Result, bail};
use ipu_image::package::{Package, SymbolKind};
use ipu_isa::disasm::items;

use crate::Cli;
use crate::code::{self, Code, Names, target};

/// Shows one tile.
pub fn show(cli: &Cli, name: &str, bytes: &[u8], out: &mut String) -> Result<()> {
    let package = Package::from_bytes(bytes)?;
    let tiles = package.images.tiles();
    let Some(image) = tiles.iter().find(|t| t.tile == cli.tile) else {
        match (tiles.first(), tiles.last()) {
            (Some(a), Some(b)) => bail!(
                "the package has no image for tile {}; its tiles are {} to {}",
                cli.tile,
                a.tile,
                b.tile
            ),
            _ => bail!("the package has no tiles"),
        }
    };
    let segments: Vec<(u32, &[u8])> = package.images.segments(image).collect();
    let symbols: Vec<_> = package
        .symbols
        .iter()
        .filter(|s| s.tile.is_none_or(|t| t == cli.tile))
        .collect();
    let mut names = Names::default();
    for s in &symbols {
        if s.kind != SymbolKind::Buffer {
            names.add(s.address, &s.name);
        }
    }
    let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
    let is_code = |address: u32| {
        symbols
            .iter()
            .any(|s| s.kind == SymbolKind::Code && s.address == address)
    };
    // What the supervisor program calls outside the kernels is a row.
    let mut rows = Vec::new();
    for (address, bytes) in &segments {
        if !is_code(*address) {
            continue;
        }
        let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        for (_, item) in items(&words) {
            let calls = item
                .decoded()
                .into_iter()
                .filter(|d| d.format().mnemonic == "call");
            for to in calls.filter_map(|d| target(&d)) {
                let known = symbols.iter().any(|s| {
                    s.kind == SymbolKind::Code && (s.address..=s.address + s.bytes).contains(&to)
                });
                if !known && !rows.contains(&to) {
                    rows.push(to);
                }
            }
        }
    }
    rows.sort_unstable();
    for (at, row) in rows.iter().enumerate() {
        names.add(*row, &format!("row{at}"));
    }
    let _ = writeln!(
        out,
        "\n{name}:\tfile format ipuexe, target {}, function {}, tile {}\nstart address {:#010x}",
        package.target, package.metadata.function, cli.tile, package.metadata.entry
    );
    let inside = |(address, bytes): &(u32, &[u8]), place: u32| {
        place >= *address && u64::from(place) < u64::from(*address) + bytes.len() as u64
    };
    let kind = |segment: &(u32, &[u8])| {
        if is_code(segment.0) {
            "code"
        } else if rows.iter().any(|r| inside(segment, *r)) {
            "rows"
        } else {
            "data"
        }
    };
    if cli.section_headers {
        let _ = writeln!(out, "\nSegments:\nIdx Address  Size     Kind");
        for (at, segment) in segments.iter().enumerate() {
            let (address, size) = (segment.0, segment.1.len());
            let _ = writeln!(out, "{at:3} {address:08x} {size:08x} {}", kind(segment));
        }
    }
    if cli.syms {
        let _ = writeln!(out, "\nSYMBOL TABLE:");
        for s in &symbols {
            let letter = match s.kind {
                SymbolKind::Code => 'F',
                SymbolKind::Data => 'O',
                SymbolKind::Buffer => 'B',
            };
            let _ = writeln!(out, "{:08x} {letter} {:08x} {}", s.address, s.bytes, s.name);
        }
        for (at, row) in rows.iter().enumerate() {
            let _ = writeln!(out, "{row:08x} F 00000000 row{at}");
        }
    }
    for segment in &segments {
        let (address, bytes) = *segment;
        let kind = kind(segment);
        if !cli.wants(kind) {
            continue;
        }
        if cli.disassembles() && kind != "data" {
            let _ = writeln!(out, "\nDisassembly of {kind} at {address:#x}:");
            let code = Code {
                address,
                bytes,
                relocations: Vec::new(),
                rows: rows.clone(),
            };
            code::show(cli, &code, &names, out);
        }
        if cli.full_contents {
            let _ = writeln!(out, "\nContents of {kind} at {address:#x}:");
            code::data(cli, address, bytes, out);
        }
    }
    Ok(())
}
