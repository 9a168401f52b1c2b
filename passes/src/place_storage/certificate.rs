//! How full the tiles are and of what: the certificate of a placement.
//!
//! Tiles that hold the same buffers are one class. Reserved memory is what no buffer may use:
//! code, the host's window, the runtime's state, argument records and exchange rows; data is what
//! buffers take with what is kept behind them.

use super::lifetimes;
use crate::tile_set::TileSet;
use ipu_image::emit::records_end;
use ipu_program::tile::{Buffer, TileProgram};
use ipu_target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// Buffers that a class lists at its peak.
const LARGEST: usize = 8;

/// A range of tile memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// First byte address.
    pub address: u32,
    /// Bytes, with what is kept behind the data.
    pub bytes: u32,
    /// What lies there: a reserved area or a buffer.
    pub what: String,
    /// First and last step in which it is needed; none for reserved areas.
    pub live: Option<(u32, u32)>,
    /// Source location of a buffer's operation.
    pub location: String,
}

/// Tiles that hold the same buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its first logical tile.
    pub first_tile: u32,
    /// How many tiles it has.
    pub tiles: u32,
    /// Most bytes of buffers that live at one time.
    pub peak_bytes: u32,
    /// The first step with the peak.
    pub step: String,
    /// Bytes of the peak in region 0.
    pub standard_bytes: u32,
    /// Bytes of the peak in region 1.
    pub interleaved_bytes: u32,
    /// Buffers that live at the peak, largest first; those beyond the first few are left out.
    pub live: Vec<Range>,
    /// How many live at the peak.
    pub live_count: usize,
}

/// The certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// The candidate.
    pub candidate: String,
    /// Bytes that a tile has.
    pub tile_bytes: u32,
    /// Bytes of it that are reserved.
    pub reserved_bytes: u32,
    /// Bytes that buffers may take.
    pub budget_bytes: u32,
    /// Reserved areas, by address.
    pub reserved: Vec<Range>,
    /// Classes, the fullest first.
    pub classes: Vec<Class>,
}

fn range(address: u32, bytes: u32, what: &str) -> Range {
    Range {
        address,
        bytes,
        what: what.to_owned(),
        live: None,
        location: String::new(),
    }
}

/// Areas that no buffer may use, by address.
fn reserved(program: &TileProgram, target: &Target) -> Vec<Range> {
    let state_end = target.runtime_state_base + target.runtime_state_bytes;
    let mut list = vec![
        range(
            target.memory_base,
            target.host_window_base - target.memory_base,
            "code of kernels and supervisor",
        ),
        range(
            target.host_window_base,
            target.host_window_bytes,
            "window of the host",
        ),
        range(
            target.runtime_state_base,
            target.runtime_state_bytes,
            "state of the runtime",
        ),
        range(
            state_end,
            records_end(program, target).saturating_sub(state_end),
            "argument records",
        ),
        range(
            target.loader_end,
            target.memory_end.saturating_sub(target.loader_end),
            "not loadable",
        ),
    ];
    if let Some(rows) = program.rows_area {
        list.push(range(rows.address, rows.bytes, "exchange rows"));
    }
    list.retain(|r| r.bytes > 0);
    list.sort_by_key(|r| r.address);
    list
}

fn of_buffer(b: &Buffer, live: (u32, u32)) -> Range {
    Range {
        address: b.address.unwrap_or_default(),
        bytes: b.reserved(),
        what: format!("@{}", b.name),
        live: Some(live),
        location: b.location.clone(),
    }
}

/// The certificate of a placed program.
pub fn certificate(program: &TileProgram, target: &Target, candidate: &str) -> Certificate {
    let lives = lifetimes(program);
    // For each tile the buffers on it, ascending.
    let mut on_tile: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, b) in program.buffers.iter().enumerate() {
        let tiles: TileSet = (b.layout.shards(b.ty.matrix()).iter())
            .map(|s| s.tile)
            .collect();
        for tile in tiles.iter() {
            on_tile.entry(tile).or_default().push(i);
        }
    }
    let mut classes: BTreeMap<&[usize], (u32, u32)> = BTreeMap::new();
    for (tile, list) in &on_tile {
        classes.entry(list).or_insert((*tile, 0)).1 += 1;
    }
    let reserved = reserved(program, target);
    let reserved_bytes = reserved.iter().map(|r| r.bytes).sum();
    let tile_bytes = target.memory_end - target.memory_base;
    let mut classes: Vec<Class> = classes
        .into_iter()
        .map(|(list, (first_tile, tiles))| class(program, target, &lives, list, first_tile, tiles))
        .collect();
    classes.sort_by_key(|c| (std::cmp::Reverse(c.peak_bytes), c.first_tile));
    Certificate {
        candidate: candidate.to_owned(),
        tile_bytes,
        reserved_bytes,
        budget_bytes: tile_bytes.saturating_sub(reserved_bytes),
        reserved,
        classes,
    }
}

fn class(
    program: &TileProgram,
    target: &Target,
    lives: &[(u32, u32)],
    list: &[usize],
    first_tile: u32,
    tiles: u32,
) -> Class {
    let at = |step: u32| {
        let here = move |&&i: &&usize| lives[i].0 <= step && step <= lives[i].1;
        list.iter().filter(here)
    };
    let bytes = |step: u32| -> u32 { at(step).map(|&i| program.buffers[i].reserved()).sum() };
    let steps = program.steps.len().max(1) as u32;
    let step = (0..steps)
        .max_by_key(|&s| (bytes(s), std::cmp::Reverse(s)))
        .unwrap_or(0);
    let mut live: Vec<Range> = at(step)
        .map(|&i| of_buffer(&program.buffers[i], lives[i]))
        .collect();
    live.sort_by_key(|r| (std::cmp::Reverse(r.bytes), r.address));
    let live_count = live.len();
    let standard_bytes = (live.iter())
        .filter(|r| r.address < target.region1_base)
        .map(|r| r.bytes)
        .sum();
    live.truncate(LARGEST);
    Class {
        first_tile,
        tiles,
        peak_bytes: bytes(step),
        step: (program.steps.get(step as usize)).map_or(String::new(), |s| s.name().to_owned()),
        standard_bytes,
        interleaved_bytes: bytes(step) - standard_bytes,
        live,
        live_count,
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "memory of @{}: {} bytes a tile, {} reserved, {} for data",
            self.candidate, self.tile_bytes, self.reserved_bytes, self.budget_bytes
        )?;
        for r in &self.reserved {
            writeln!(f, "  {:>9} bytes at {:#x}  {}", r.bytes, r.address, r.what)?;
        }
        for c in &self.classes {
            writeln!(
                f,
                "  {} tile(s) from {}: peak {} bytes ({:.1} %) in @{}, {} in region 0, {} in region 1; \
                 {} buffers live",
                c.tiles,
                c.first_tile,
                c.peak_bytes,
                100.0 * f64::from(c.peak_bytes) / f64::from(self.budget_bytes.max(1)),
                c.step,
                c.standard_bytes,
                c.interleaved_bytes,
                c.live_count
            )?;
            for r in &c.live {
                let (first, last) = r.live.unwrap_or_default();
                writeln!(
                    f,
                    "    {:>9} bytes at {:#x}  {} steps {first} to {last} {}",
                    r.bytes, r.address, r.what, r.location
                )?;
            }
        }
        Ok(())
    }
}

/// Every range of one tile, by address and then by time: reserved areas and buffers.
pub fn memory_map(program: &TileProgram, target: &Target, tile: u32) -> Vec<Range> {
    let lives = lifetimes(program);
    let mut list = reserved(program, target);
    for (b, live) in program.buffers.iter().zip(lives) {
        if (b.layout.shards(b.ty.matrix()).iter()).any(|s| s.tile == tile) {
            list.push(of_buffer(b, live));
        }
    }
    list.sort_by_key(|r| (r.address, r.live, r.bytes));
    list
}

/// A memory map as text.
pub fn memory_map_text(candidate: &str, tile: u32, map: &[Range]) -> String {
    let mut out = format!("memory of tile {tile} of @{candidate}\n");
    for r in map {
        let end = r.address + r.bytes;
        let _ = write!(
            out,
            "  {:#07x} to {end:#07x} {:>7} bytes  {}",
            r.address, r.bytes, r.what
        );
        if let Some((first, last)) = r.live {
            let _ = write!(out, ", steps {first} to {last}");
        }
        out.push('\n');
    }
    out
}
