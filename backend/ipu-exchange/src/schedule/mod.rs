//! The scheduler: list scheduling in event time, from both ends.
//!
//! A receiver only steers its mux and its pointer, so a message occupies its sender for
//! `[S, S + n)` and each receiver's mux for `[X, X + n)` with `X = S + T + 1`; the words are
//! written `52 + 2 * row` events later. Because that delay is constant on a tile, the mux windows
//! alone order the receives of a tile, and the mux of the next message is set while words of the
//! previous one are still on their way. Serialised receives therefore pay the route latency once.
//!
//! Several cheap constructions are tried ([`construct`]) and the best is improved by pushing its
//! messages to the end of the phase and back ([`improve`]); numbers of constructions bound both.
//! All controls of a tile stand at different events; a coincident pair would need `sendpicp` at an
//! even word, and shifting by one event is cheaper than the search for the parity.

mod certificate;
mod colour;
mod construct;
mod engine;
mod finish;
mod improve;
mod problem;

use crate::row::{RowError, instructions};
pub use certificate::{Bound, Certificate, Limit, Resource};
use ipu_program::tile::{Copy, Event, Row, Schedule};
use ipu_target::Target;
use problem::{Problem, Split, Width};

/// A transfer that cannot be scheduled. Transfers are numbered in the order given, from 0.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// A tile number beyond the chip.
    #[error("transfer {transfer} names tile {tile}, the chip has {tiles}")]
    Tile {
        /// Number of the transfer.
        transfer: u32,
        /// Tile.
        tile: u32,
        /// Tiles of the chip.
        tiles: u32,
    },
    /// No destination, the source among the destinations, or a destination named twice.
    #[error("transfer {transfer} from tile {tile} has no, repeated or its own tile as destination")]
    Destinations {
        /// Number of the transfer.
        transfer: u32,
        /// Sending tile.
        tile: u32,
    },
    /// No words, an offset that is not a multiple of 4, or a range outside memory.
    #[error(
        "transfer {transfer}: {words} words at {offset:#x} on tile {tile} are none, not aligned to \
         words, or outside memory"
    )]
    Words {
        /// Number of the transfer.
        transfer: u32,
        /// Tile on whose side it is.
        tile: u32,
        /// Words.
        words: u32,
        /// Offending byte offset or address.
        offset: u32,
    },
    /// More words than events can be counted for.
    #[error("the transfers send {words} words, a phase holds at most {most}: split it")]
    TooLong {
        /// Words sent.
        words: u64,
        /// Most words.
        most: u64,
    },
    /// There is nothing to schedule: not reached, for a search has at least one result.
    #[error("no schedule was found")]
    Empty,
    /// Rows that cannot be encoded: a defect of the scheduler.
    #[error(transparent)]
    Row(#[from] RowError),
    /// Two transfers write one address and nothing orders them.
    #[error(
        "transfers {first} and {second} both write {offset:#x} on tile {tile}, and no transfer \
         that reads it lies between"
    )]
    TwoWriters {
        /// Number of the first transfer.
        first: u32,
        /// Number of the second one.
        second: u32,
        /// Receiving tile.
        tile: u32,
        /// First byte offset or address that both write.
        offset: u32,
    },
}

impl ScheduleError {
    /// Numbers of the transfers that it is about.
    pub fn transfers(&self) -> Vec<u32> {
        match *self {
            ScheduleError::Tile { transfer, .. }
            | ScheduleError::Destinations { transfer, .. }
            | ScheduleError::Words { transfer, .. } => vec![transfer],
            ScheduleError::TwoWriters { first, second, .. } => vec![first, second],
            ScheduleError::TooLong { .. } | ScheduleError::Empty | ScheduleError::Row(_) => {
                Vec::new()
            }
        }
    }
}

/// What byte offsets of transfers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Memory {
    /// Offsets in buffers without an address: placement keeps apart what is sent and received.
    #[default]
    Symbolic,
    /// Byte addresses: what is sent and received at one time is kept in different elements.
    Absolute,
}

/// The side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The tile that sends.
    Send,
    /// A tile that receives.
    Receive,
}

/// What is known beside the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// What offsets mean.
    pub memory: Memory,
    /// Most words of a row. Of the schedules found close to the best horizon the one with the
    /// shortest longest row is taken; a longer schedule only when that one exceeds this.
    pub row_words: Option<u32>,
    /// Whether what goes to both tiles of a pair at one address may be sent as 64-bit items, where
    /// that shortens the phase. With symbolic addresses all buffers must be 8-byte aligned.
    pub wide: bool,
}

/// A schedule with its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The rows.
    pub schedule: Schedule,
    /// How good it is.
    pub certificate: Certificate,
}

/// Most receives of a phase whose multicasts are tried in parts.
const MAX_SPLIT: usize = 400_000;

/// Multicasts are tried in parts when the horizon exceeds the bound by more percent.
const POOR: u64 = 10;

/// Thousandths of the best horizon that a schedule with shorter rows may be longer.
const ROW_SLACK: u32 = 2;

/// Percent by which its longest row must be shorter then.
const SHORTER: u32 = 10;

/// Schedules whose rows are compared with those of the best: encoding takes as long as a list.
const MAX_COMPARED: u32 = 2;

/// The longest horizon that is close to a horizon.
fn slack(horizon: u32) -> u32 {
    horizon + (u64::from(horizon) * u64::from(ROW_SLACK) / 1000) as u32
}

fn horizon(found: &[improve::Found]) -> u32 {
    found.first().map_or(u32::MAX, |f| f.horizon)
}

fn poor(found: &[improve::Found], bound: u32) -> bool {
    u64::from(horizon(found)) * 100 > u64::from(bound) * (100 + POOR)
}

/// Schedules the transfers of one phase, with symbolic addresses.
///
/// # Errors
/// A transfer names a tile beyond the chip, has bad destinations or odd byte offsets, or writes
/// what another one writes.
pub fn schedule(target: &Target, copies: &[Copy]) -> Result<Schedule, ScheduleError> {
    schedule_with(target, copies, Options::default()).map(|s| s.schedule)
}

/// Schedules the transfers of one phase and says how good the schedule is.
///
/// # Errors
/// As [`schedule`], and with absolute addresses ranges outside memory.
pub fn schedule_with(
    target: &Target,
    copies: &[Copy],
    options: Options,
) -> Result<Scheduled, ScheduleError> {
    let whole = Split { parts: 1, words: 0 };
    let prepare = |split, width| problem::prepare(target, copies, options.memory, split, width);
    let narrow = prepare(whole, Width::Narrow)?;
    let mut widths = Vec::new();
    if options.wide {
        let all = prepare(whole, Width::Wide)?;
        if all.wide {
            let free = prepare(whole, Width::Free)?;
            // Nothing is sent twice: both are the same.
            let repeats = all.messages.iter().any(|m| m.repeated);
            if free.wide && repeats {
                widths.push((free, Width::Free));
            }
            widths.push((all, Width::Wide));
        }
    }
    let bounds = certificate::bounds(widths.last().map_or(&narrow, |w| &w.0));
    let binding = certificate::strongest(&bounds);
    // Without 64-bit items the search is the same whether they are allowed or not.
    let alone = certificate::strongest(&certificate::bounds(&narrow));
    let mut explored = explore(narrow, Width::Narrow, alone.events, &prepare)?;
    for (problem, width) in widths {
        if horizon(&explored.found) <= binding.events {
            break;
        }
        let other = explore(problem, width, binding.events, &prepare)?;
        if horizon(&other.found) < horizon(&explored.found) {
            explored = other;
        }
    }
    let Explored {
        problem,
        found,
        limit,
    } = explored;
    // The certificate counts the words of rows, so that they are encoded in any case.
    let budget = options.row_words.unwrap_or(u32::MAX);
    let mut best: Option<Encoded> = None;
    let mut compared = 0;
    for candidate in found {
        let Some(kept) = &best else {
            best = Some(Encoded::new(target, &problem, candidate)?);
            continue;
        };
        let over = kept.longest.0 > budget;
        if !over && (compared == MAX_COMPARED || candidate.horizon > slack(kept.horizon)) {
            break;
        }
        compared += 1;
        let other = Encoded::new(target, &problem, candidate)?;
        if other.better(kept, budget) {
            best = Some(other);
        }
    }
    let best = best.ok_or(ScheduleError::Empty)?;
    let control = |e: &&Event| !matches!(e, Event::Send { .. });
    let controls = best.rows.iter();
    let controls = controls.map(|r| r.events.iter().filter(control).count());
    let certificate = Certificate {
        transfers: problem.transfers,
        messages: problem.messages.len() as u32,
        words: problem.delivered,
        horizon: best.horizon,
        bounds,
        binding,
        gap: best.horizon.saturating_sub(binding.events),
        controls: controls.sum::<usize>() as u32,
        row_words_max: best.longest.0,
        row_words_tile: best.longest.1,
        row_words: best.row_words,
        construction: best.construction,
        limit,
    };
    let schedule = Schedule {
        rows: best.rows,
        horizon: best.horizon,
        bound: binding.events,
        binding_tile: binding.tile,
        certificate: None,
    };
    Ok(Scheduled {
        schedule,
        certificate,
    })
}

/// What a search found for messages of one form, best first.
struct Explored {
    problem: Problem,
    found: Vec<improve::Found>,
    limit: Limit,
}

/// Searches schedules, with multicasts whole and, where that is poor, in parts.
fn explore(
    problem: Problem,
    width: Width,
    bound: u32,
    prepare: &dyn Fn(Split, Width) -> Result<Problem, ScheduleError>,
) -> Result<Explored, ScheduleError> {
    // Receivers that must all be free at once keep each other waiting; in parts they do not.
    let several = problem
        .messages
        .iter()
        .map(|m| m.receivers.1 - m.receivers.0)
        .max();
    let several = several.unwrap_or(0);
    let (found, limit) = improve::search(&problem, bound);
    let mut best = Explored {
        problem,
        found,
        limit,
    };
    let mut split = Split {
        parts: 2,
        words: bound,
    };
    let mut fruitless = 0;
    while split.parts / 2 < several
        && fruitless < 2
        && best.problem.receivers.len() <= MAX_SPLIT
        && poor(&best.found, bound)
    {
        let problem = prepare(split, width)?;
        let (mut found, limit) = improve::search(&problem, bound);
        if horizon(&found) < horizon(&best.found) {
            for f in &mut found {
                f.construction += &format!(", multicasts in up to {} parts", split.parts);
            }
            best = Explored {
                problem,
                found,
                limit,
            };
            fruitless = 0;
        } else {
            fruitless += 1;
        }
        split.parts *= 2;
    }
    if width != Width::Narrow {
        for f in &mut best.found {
            f.construction += ", 64-bit items";
        }
    }
    Ok(best)
}

/// A schedule as rows.
struct Encoded {
    rows: Vec<Row>,
    horizon: u32,
    /// Words of the longest row, its return included, and its tile.
    longest: (u32, u32),
    /// Words of all rows.
    row_words: u64,
    construction: String,
}

impl Encoded {
    fn new(target: &Target, problem: &Problem, found: improve::Found) -> Result<Self, RowError> {
        let rows = finish::rows(problem, &found.placement);
        let (mut longest, mut row_words) = ((0, 0), 0u64);
        for row in &rows {
            let words = instructions(target, row)?.len() as u32 + 1;
            row_words += u64::from(words);
            if words > longest.0 {
                longest = (words, row.tile);
            }
        }
        Ok(Encoded {
            horizon: rows.iter().map(|r| r.horizon).max().unwrap_or(0),
            rows,
            longest,
            row_words,
            construction: found.construction,
        })
    }

    /// Whether it is to be taken instead of a schedule that is not longer.
    fn better(&self, kept: &Encoded, budget: u32) -> bool {
        let (mine, other) = (self.longest.0, kept.longest.0);
        if other > budget {
            return mine < other;
        }
        let shorter = if self.horizon == kept.horizon {
            mine < other
        } else {
            self.horizon <= slack(kept.horizon) && mine * 100 <= other * (100 - SHORTER)
        };
        mine <= budget && shorter
    }
}
