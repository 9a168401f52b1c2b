//! The certificates of all phases of a program: kept with each schedule, and told on request.

use ipu_exchange::schedule::{self as scheduler, Scheduled};
use ipu_program::tile::{Bound, BufferId, Certificate, Schedule, Step, TileProgram};
use ipu_target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The schedule with its certificate inside.
pub(super) fn certified(found: Scheduled) -> Schedule {
    let scheduler::Certificate {
        transfers,
        messages,
        words,
        bounds,
        binding,
        controls,
        row_words_max,
        row_words_tile,
        row_words,
        construction,
        limit,
        ..
    } = found.certificate;
    let bound = |b: scheduler::Bound| Bound {
        resource: b.resource.name().to_owned(),
        events: b.events,
        tile: b.tile,
        element: b.element,
    };
    Schedule {
        certificate: Some(Certificate {
            transfers,
            messages,
            words,
            bounds: bounds.into_iter().map(bound).collect(),
            binding: binding.resource.name().to_owned(),
            controls,
            row_words,
            row_words_max,
            row_words_tile,
            construction,
            limit: limit.name().to_owned(),
            same_as: None,
        }),
        ..found.schedule
    }
}

/// Adds the bound of memory elements to every certificate, where buffers have addresses: an
/// element reads or writes one word an event.
pub fn add_elements(program: &mut TileProgram, target: &Target) {
    let addresses: Vec<Option<u32>> = program.buffers.iter().map(|b| b.address).collect();
    let address = |id: BufferId| addresses.get(id.0 as usize).copied().flatten();
    for step in &mut program.steps {
        let Step::Exchange {
            copies,
            schedule: Some(schedule),
            ..
        } = step
        else {
            continue;
        };
        let Some(certificate) = &mut schedule.certificate else {
            continue;
        };
        // Words by tile and first byte of the element.
        let mut words: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut add = |tile: u32, at: u64, count: u32| {
            let end = at + 4 * u64::from(count);
            let mut at = at;
            while at < end {
                let (base, size) = if at >= u64::from(target.region1_base) {
                    (target.region1_base, target.interleaved_element_bytes)
                } else {
                    (0, target.element_bytes)
                };
                let (base, size) = (u64::from(base), u64::from(size));
                let first = at - (at - base) % size;
                let behind = (first + size).min(end);
                *words.entry((tile, first as u32)).or_default() += (behind - at) / 4;
                at = behind;
            }
        };
        for copy in copies.iter() {
            let (Some(from), Some(to)) = (address(copy.source), address(copy.destination)) else {
                continue;
            };
            for t in &copy.transfers {
                let at = |base: u32, offset: u32| u64::from(base) + u64::from(offset);
                add(t.source, at(from, t.source_offset), t.words);
                for &(tile, offset) in &t.destinations {
                    add(tile, at(to, offset), t.words);
                }
            }
        }
        let most = words
            .into_iter()
            .max_by_key(|&(place, n)| (n, std::cmp::Reverse(place)));
        let Some(((tile, first), events)) = most else {
            continue;
        };
        let bound = Bound {
            resource: scheduler::Resource::Element.name().to_owned(),
            events: u32::try_from(events).unwrap_or(u32::MAX),
            tile,
            element: Some(first),
        };
        certificate.bounds.retain(|b| b.resource != bound.resource);
        if bound.events > schedule.bound {
            certificate.binding.clone_from(&bound.resource);
            (schedule.bound, schedule.binding_tile) = (bound.events, bound.tile);
        }
        certificate.bounds.push(bound);
    }
}

/// A bound as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoundReport {
    /// Resource.
    pub resource: String,
    /// Events.
    pub events: u32,
    /// Logical tile; of a pair, the even one.
    pub tile: u32,
    /// First byte of the memory element.
    pub element: Option<u32>,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Symbol of the exchange.
    pub exchange: String,
    /// Source location.
    pub location: String,
    /// Transfers, messages that they became, and words delivered.
    pub transfers: u32,
    /// Messages that the transfers became.
    pub messages: u32,
    /// Words delivered, at all receivers together.
    pub words: u64,
    /// Events of the longest row.
    pub horizon: u32,
    /// Lower bound on them.
    pub bound: u32,
    /// Horizon less bound.
    pub gap: u32,
    /// Tile that the bound comes from.
    pub binding_tile: u32,
    /// Resource that the bound comes from.
    pub binding_resource: String,
    /// All bounds that were derived.
    pub bounds: Vec<BoundReport>,
    /// Mux and pointer settings of all rows.
    pub control_words: u32,
    /// Words of all rows.
    pub row_words: u64,
    /// Words of the longest row.
    pub row_words_max: u32,
    /// Its tile.
    pub row_words_tile: u32,
    /// Construction that won.
    pub construction: String,
    /// What ended the search.
    pub search_ended_by: String,
    /// An earlier exchange with the same schedule but for buffers and addresses.
    pub same_as: Option<String>,
}

/// All phases of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The candidate.
    pub candidate: String,
    /// Events of the longest rows of all phases.
    pub horizon: u64,
    /// Schedules that were searched for: the other phases are the same but for addresses.
    pub scheduled: usize,
    /// Its phases in order. Those without a certificate are left out.
    pub phases: Vec<Phase>,
}

/// The certificates of a program.
pub fn report(program: &TileProgram, candidate: &str) -> Report {
    let phases: Vec<Phase> = program.steps.iter().filter_map(phase).collect();
    Report {
        candidate: candidate.to_owned(),
        horizon: phases.iter().map(|p| u64::from(p.horizon)).sum(),
        scheduled: phases.iter().filter(|p| p.same_as.is_none()).count(),
        phases,
    }
}

fn phase(step: &Step) -> Option<Phase> {
    let Step::Exchange {
        name,
        schedule: Some(schedule),
        location,
        ..
    } = step
    else {
        return None;
    };
    let c = schedule.certificate.clone()?;
    let bound = |b: Bound| BoundReport {
        resource: b.resource,
        events: b.events,
        tile: b.tile,
        element: b.element,
    };
    Some(Phase {
        exchange: name.clone(),
        location: location.clone(),
        transfers: c.transfers,
        messages: c.messages,
        words: c.words,
        horizon: schedule.horizon,
        bound: schedule.bound,
        gap: schedule.horizon.saturating_sub(schedule.bound),
        binding_tile: schedule.binding_tile,
        binding_resource: c.binding,
        bounds: c.bounds.into_iter().map(bound).collect(),
        control_words: c.controls,
        row_words: c.row_words,
        row_words_max: c.row_words_max,
        row_words_tile: c.row_words_tile,
        construction: c.construction,
        search_ended_by: c.limit,
        same_as: c.same_as,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "exchanges of @{}: {} phase(s) of {} events, {} scheduled",
            self.candidate,
            self.phases.len(),
            self.horizon,
            self.scheduled
        )?;
        for p in &self.phases {
            writeln!(
                f,
                "@{}: horizon {}, bound {} by {} of tile {}, gap {}",
                p.exchange, p.horizon, p.bound, p.binding_resource, p.binding_tile, p.gap
            )?;
            let at = if p.location.is_empty() { "" } else { ", at " };
            writeln!(
                f,
                "  {} transfer(s) in {} message(s), {} words delivered{at}{}",
                p.transfers, p.messages, p.words, p.location
            )?;
            write!(f, "  bounds:")?;
            for (i, b) in p.bounds.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                write!(f, "{comma} {} {} of tile {}", b.resource, b.events, b.tile)?;
                if let Some(e) = b.element {
                    write!(f, " at {e:#x}")?;
                }
            }
            writeln!(f)?;
            writeln!(
                f,
                "  {} control words, {} words of rows, {} at most on tile {}",
                p.control_words, p.row_words, p.row_words_max, p.row_words_tile
            )?;
            match &p.same_as {
                Some(other) => writeln!(f, "  schedule of @{other}, other addresses")?,
                None => writeln!(
                    f,
                    "  construction: {}; search ended by: {}",
                    p.construction, p.search_ended_by
                )?,
            }
        }
        Ok(())
    }
}
