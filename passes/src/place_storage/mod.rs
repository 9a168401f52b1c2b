//! `ipu-place-storage`: lifetimes to addresses.
//!
//! A buffer has one address on all its tiles. It may share memory with another when their tiles
//! or their lifetimes are disjoint. Some pairs must not even share a memory element: operands
//! that one kernel instruction accesses together, and what a tile sends and receives in one
//! phase. Exchange rows get elements of their own.
//!
//! Placement is first fit in the best of several orders: buffers that are bound to a region come
//! first, then the larger, the longer lived or the earlier ones. [`verify`] reads the result again
//! with code of its own, here and before emission; [`certificate`] says how full the tiles are.

pub mod certificate;
mod verify;

pub use verify::{Violation, verify};

use crate::tile_set::TileSet;
use ipu_exchange::row::{RowError, instructions};
use ipu_image::emit::records_end;
use ipu_program::kernels::Kernels;
use ipu_program::layout::MemoryClass;
use ipu_program::tile::{Buffer, BufferId, RowsArea, Source, Step, TileProgram};
use ipu_target::Target;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A program that has no placement.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlaceError {
    /// A buffer found no room.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
    /// The rows of the exchanges need more memory than region 0 has.
    #[error(
        "exchange rows need {needed} bytes on tile {tile}, region 0 has {available} for them; use fewer tiles or smaller grids"
    )]
    Rows {
        /// Tile.
        tile: u32,
        /// Bytes needed.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// An exchange has no schedule, or one that cannot be encoded.
    #[error("exchange '{step}': {why}")]
    Schedule {
        /// Step symbol.
        step: String,
        /// Reason.
        why: String,
    },
    /// A kernel is not in the registry.
    #[error("step '{step}': kernel '{kernel}' is not in the registry")]
    Kernel {
        /// Step symbol.
        step: String,
        /// Kernel.
        kernel: String,
    },
    /// The verifier found a fault in the placement: an error of the compiler.
    #[error("placement of '{0}' is not legal: {1}")]
    Verifier(String, String),
}

impl PlaceError {
    /// Whether memory is short, so that another plan may succeed.
    pub fn is_capacity(&self) -> bool {
        matches!(self, PlaceError::OutOfMemory(_) | PlaceError::Rows { .. })
    }
}

/// What a person needs to know when memory is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Buffer that found no room.
    pub buffer: String,
    /// Its bytes on a tile.
    pub bytes: u32,
    /// Its memory class.
    pub class: MemoryClass,
    /// A tile that holds it.
    pub tile: u32,
    /// Source location.
    pub location: String,
    /// Bytes of data memory that a tile has for this class.
    pub budget: u32,
    /// The largest buffers live together with it on that tile: name, bytes, location.
    pub live: Vec<(String, u32, String)>,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for (name, bytes, location) in &self.live {
            let at = if location.is_empty() {
                String::new()
            } else {
                format!(" ({location})")
            };
            let _ = write!(text, "\n  {bytes} bytes '{name}'{at}");
        }
        write!(
            f,
            "the model does not fit: buffer '{}' needs {} bytes of {} memory on tile {}, which has \
             {} bytes in all; live at the same time:{}\nuse more tiles or a smaller batch, or let more plans be \
             tried (option finalists, up to 4)",
            self.buffer,
            self.bytes,
            match self.class {
                MemoryClass::Any => "tile",
                MemoryClass::Standard => "region 0",
                MemoryClass::Interleaved => "region 1",
            },
            self.tile,
            self.budget,
            text
        )
    }
}

/// What the placer knows of one buffer.
struct Item {
    id: BufferId,
    bytes: u32,
    align: u32,
    class: MemoryClass,
    tiles: TileSet,
    live: (u32, u32),
}

/// Orders in which buffers are placed, one after the other until everything fits.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The largest first.
    Size,
    /// Those with the most bytes times steps first.
    Area,
    /// Those that live longest first.
    Lifetime,
    /// In the order in which they begin to live.
    Start,
}

impl Order {
    const ALL: [Order; 4] = [Order::Size, Order::Area, Order::Lifetime, Order::Start];

    /// What sorts first is placed first.
    fn key(self, item: &Item) -> (u64, u64) {
        let bytes = u64::from(item.bytes);
        let steps = u64::from(item.live.1 - item.live.0) + 1;
        let most = |n: u64| u64::MAX - n;
        match self {
            Order::Size => (most(bytes), 0),
            Order::Area => (most(bytes.saturating_mul(steps)), most(bytes)),
            Order::Lifetime => (most(steps), most(bytes)),
            Order::Start => (item.live.0.into(), most(bytes)),
        }
    }
}

/// Places all buffers of a program.
///
/// # Errors
/// Something does not fit, or the program is not ready for placement.
pub fn place_storage(
    program: &mut TileProgram,
    target: &Target,
    kernels: &Kernels,
) -> Result<(), PlaceError> {
    let area = rows_area(program, target)?;
    let live = lifetimes(program);
    let apart = apart(program, kernels)?;
    let items: Vec<Item> = program
        .buffers
        .iter()
        .enumerate()
        .map(|(i, b)| Item {
            id: BufferId(i as u32),
            bytes: b.reserved(),
            align: b.align.max(8),
            class: b.class(),
            tiles: b
                .layout
                .shards(b.ty.matrix())
                .iter()
                .map(|s| s.tile)
                .collect(),
            live: live[i],
        })
        .collect();
    let spaces = spaces(program, target, area);
    let mut failure = None;
    let mut placed = None;
    for order in Order::ALL {
        match place_all(target, &items, &spaces, &apart, order) {
            Ok(found) => {
                placed = Some(found);
                break;
            }
            Err(i) => failure = failure.or(Some(i)),
        }
    }
    let Some(placed) = placed else {
        let i = failure.unwrap_or(0);
        return Err(out_of_memory(program, target, &items, &spaces, i));
    };
    for (i, address) in placed {
        program.buffers[i].address = Some(address);
        program.buffers[i].live = Some(items[i].live);
    }
    program.rows_area = Some(area);
    verify(program, target, kernels).map_err(|v| PlaceError::Verifier(v.subject, v.what))
}

/// Address of every item, placed in an order.
///
/// # Errors
/// The first item that finds no room.
fn place_all(
    target: &Target,
    items: &[Item],
    spaces: &[(u32, u32)],
    apart: &BTreeSet<(BufferId, BufferId)>,
    order: Order,
) -> Result<BTreeMap<usize, u32>, usize> {
    let mut sorted: Vec<usize> = (0..items.len()).collect();
    sorted.sort_by_key(|&i| {
        let class = match items[i].class {
            MemoryClass::Interleaved => 0,
            MemoryClass::Standard => 1,
            MemoryClass::Any => 2,
        };
        (class, order.key(&items[i]), i)
    });
    let mut placed: BTreeMap<usize, u32> = BTreeMap::new();
    for i in sorted {
        let address = spaces
            .iter()
            .filter(|s| match items[i].class {
                MemoryClass::Any => true,
                MemoryClass::Standard => s.1 <= target.region1_base,
                MemoryClass::Interleaved => s.0 >= target.region1_base,
            })
            .find_map(|&space| fit(target, items, &placed, apart, i, space));
        placed.insert(i, address.ok_or(i)?);
    }
    Ok(placed)
}

/// First byte of the element behind runtime state and argument records.
fn behind_records(program: &TileProgram, target: &Target) -> u32 {
    records_end(program, target)
        .checked_next_multiple_of(target.element_bytes)
        .unwrap_or(u32::MAX)
        .min(target.region1_base)
}

/// Address ranges for data, in order of preference.
fn spaces(program: &TileProgram, target: &Target, rows: RowsArea) -> Vec<(u32, u32)> {
    let after_state = behind_records(program, target).max(rows.address + rows.bytes);
    vec![
        (after_state, target.region1_base),
        (target.region1_base, target.loader_end),
    ]
}

/// The lowest address of a space at which an item fits.
fn fit(
    target: &Target,
    items: &[Item],
    placed: &BTreeMap<usize, u32>,
    apart: &BTreeSet<(BufferId, BufferId)>,
    i: usize,
    (low, high): (u32, u32),
) -> Option<u32> {
    let item = &items[i];
    let mut at = low.next_multiple_of(item.align);
    'search: loop {
        let end = at.checked_add(item.bytes)?;
        if end > high {
            return None;
        }
        for (&j, &address) in placed {
            let other = &items[j];
            let together = item.live.0 <= other.live.1 && other.live.0 <= item.live.1;
            if !together || !item.tiles.meets(&other.tiles) {
                continue;
            }
            let other_end = address + other.bytes;
            if at < other_end && address < end {
                at = other_end.next_multiple_of(item.align);
                continue 'search;
            }
            let pair = (item.id.min(other.id), item.id.max(other.id));
            if apart.contains(&pair)
                && target
                    .exchange_units(at, item.bytes)
                    .intersects(&target.exchange_units(address, other.bytes))
            {
                at = next_unit(target, other_end - 1).next_multiple_of(item.align);
                continue 'search;
            }
        }
        return Some(at);
    }
}

/// First byte of the exchange unit after the one that holds `address`.
fn next_unit(target: &Target, address: u32) -> u32 {
    let (base, size) = if address >= target.region1_base {
        (target.region1_base, target.interleaved_element_bytes)
    } else {
        (0, target.element_bytes)
    };
    base + ((address - base) / size + 1) * size
}

/// First and last step in which each buffer is live.
pub fn lifetimes(program: &TileProgram) -> Vec<(u32, u32)> {
    let last = program.steps.len().saturating_sub(1) as u32;
    let mut live: Vec<Option<(u32, u32)>> = vec![None; program.buffers.len()];
    let mut touch = |id: BufferId, step: u32| {
        let slot = &mut live[id.0 as usize];
        *slot = Some(slot.map_or((step, step), |(a, b)| (a.min(step), b.max(step))));
    };
    for (i, step) in program.steps.iter().enumerate() {
        let i = i as u32;
        match step {
            Step::Compute(c) => c.buffers.iter().for_each(|&b| touch(b, i)),
            Step::Rearrange {
                source,
                destination,
                ..
            } => {
                touch(*source, i);
                touch(*destination, i);
            }
            Step::Exchange { copies, .. } => copies.iter().for_each(|c| {
                touch(c.source, i);
                touch(c.destination, i);
            }),
        }
    }
    for b in &program.bindings {
        match b.source {
            Source::Input(_) | Source::HostStep { .. } => touch(b.buffer, 0),
            Source::Output(_) => touch(b.buffer, last),
            Source::Parameter { .. } | Source::Constant { .. } | Source::Host { .. } => {
                touch(b.buffer, 0);
                touch(b.buffer, last);
            }
        }
    }
    live.into_iter().map(|l| l.unwrap_or((0, last))).collect()
}

/// Pairs of buffers that must not share a memory element, smaller id first.
fn apart(
    program: &TileProgram,
    kernels: &Kernels,
) -> Result<BTreeSet<(BufferId, BufferId)>, PlaceError> {
    let mut pairs = BTreeSet::new();
    let mut add = |a: BufferId, b: BufferId| {
        if a != b {
            pairs.insert((a.min(b), a.max(b)));
        }
    };
    for step in &program.steps {
        match step {
            Step::Compute(c) => {
                let kernel = kernels.get(&c.kernel).ok_or_else(|| PlaceError::Kernel {
                    step: c.name.clone(),
                    kernel: c.kernel.clone(),
                })?;
                let id = |name: &str| kernel.buffer(name).and_then(|i| c.buffers.get(i).copied());
                for (a, b) in &kernel.apart {
                    if let (Some(a), Some(b)) = (id(a), id(b)) {
                        add(a, b);
                    }
                }
            }
            Step::Exchange { copies, .. } => {
                for sent in copies {
                    let senders: BTreeSet<u32> = sent.transfers.iter().map(|t| t.source).collect();
                    for received in copies {
                        let mut receivers = received
                            .transfers
                            .iter()
                            .flat_map(|t| t.destinations.iter().map(|d| d.0));
                        if receivers.any(|t| senders.contains(&t)) {
                            add(sent.source, received.destination);
                        }
                    }
                }
            }
            Step::Rearrange { .. } => {}
        }
    }
    Ok(pairs)
}

/// Bytes of the rows of each tile, one after the other, each 8-byte aligned.
///
/// # Errors
/// An exchange without a schedule, or one that cannot be encoded; a rearrangement.
pub fn row_bytes(program: &TileProgram, target: &Target) -> Result<BTreeMap<u32, u32>, PlaceError> {
    let mut bytes: BTreeMap<u32, u32> = BTreeMap::new();
    for step in &program.steps {
        let error = |why: String| PlaceError::Schedule {
            step: step.name().to_owned(),
            why,
        };
        let schedule = match step {
            Step::Exchange { schedule, .. } => schedule,
            Step::Compute(_) => continue,
            Step::Rearrange { .. } => {
                let why = "it is a rearrangement; run ipu-convert-layouts first";
                return Err(error(why.to_owned()));
            }
        };
        let schedule = schedule
            .as_ref()
            .ok_or_else(|| error("it has no schedule; run ipu-phase-exchanges first".to_owned()))?;
        for row in &schedule.rows {
            let list = instructions(target, row).map_err(|e: RowError| error(e.to_string()))?;
            let words = list.len() as u32 + 1;
            *bytes.entry(row.tile).or_default() += (4 * words).next_multiple_of(8);
        }
    }
    Ok(bytes)
}

fn rows_area(program: &TileProgram, target: &Target) -> Result<RowsArea, PlaceError> {
    let (tile, needed) = row_bytes(program, target)?
        .into_iter()
        .max_by_key(|&(tile, bytes)| (bytes, std::cmp::Reverse(tile)))
        .unwrap_or((0, 0));
    let bytes = (needed + target.fetch_lookahead_bytes).next_multiple_of(target.element_bytes);
    // One element fits between the host window and the runtime state; more start behind it.
    let rows_base = target.host_window_base + target.host_window_bytes;
    let address = if bytes <= target.runtime_state_base - rows_base {
        rows_base
    } else {
        behind_records(program, target)
    };
    let available = target.region1_base.saturating_sub(address);
    if bytes > available {
        return Err(PlaceError::Rows {
            tile,
            needed,
            available,
        });
    }
    Ok(RowsArea { address, bytes })
}

fn out_of_memory(
    program: &TileProgram,
    target: &Target,
    items: &[Item],
    spaces: &[(u32, u32)],
    i: usize,
) -> PlaceError {
    let item = &items[i];
    let holds = |j: &Item, tile: u32| {
        j.tiles.contains(tile) && item.live.0 <= j.live.1 && j.live.0 <= item.live.1
    };
    // The tile on which most is live with this buffer.
    let load = |tile: u32| -> u64 {
        items
            .iter()
            .filter(|j| holds(j, tile))
            .map(|j| u64::from(j.bytes))
            .sum()
    };
    let tile = item
        .tiles
        .iter()
        .max_by_key(|&t| (load(t), std::cmp::Reverse(t)))
        .unwrap_or(0);
    let buffer: &Buffer = program.buffer(item.id);
    let mut live: Vec<(String, u32, String)> = items
        .iter()
        .filter(|j| j.id != item.id && holds(j, tile))
        .map(|j| {
            let b = program.buffer(j.id);
            (b.name.clone(), j.bytes, b.location.clone())
        })
        .collect();
    live.sort_by_key(|l| (std::cmp::Reverse(l.1), l.0.clone()));
    live.truncate(5);
    let budget = spaces
        .iter()
        .filter(|s| match item.class {
            MemoryClass::Any => true,
            MemoryClass::Standard => s.0 < target.region1_base,
            MemoryClass::Interleaved => s.0 >= target.region1_base,
        })
        .map(|s| s.1 - s.0)
        .sum();
    PlaceError::OutOfMemory(Box::new(OutOfMemory {
        buffer: buffer.name.clone(),
        bytes: item.bytes,
        class: item.class,
        tile,
        location: buffer.location.clone(),
        budget,
        live,
    }))
}
