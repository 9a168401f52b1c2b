//! The search: which constructions are tried, and how the best is improved.
//!
//! Cheap ones come first and each later step is left out when the bound is reached or the work
//! allowed is used up. Work is counted in ports asked whether a message fits, never in time, so
//! that a phase has one schedule on any machine.

use super::certificate::Limit;
use super::colour;
use super::construct::{Driver, Rule, dispatch, list};
use super::engine::{Engine, Placement};
use super::problem::Problem;
use std::cmp::Reverse;

/// Work allowed for every phase: small ones are searched well.
const WORK: u64 = 400_000;

/// Further work allowed for each receive: of the first [`MANY`], and of all others.
const WORK_EACH: [u64; 2] = [24, 3];

/// Receives from which on a phase is large.
const MANY: u64 = 100_000;

/// A schedule within so many thousandths of the bound is not improved any more.
const CLOSE: u64 = 4;

/// Placements that are improved.
const IMPROVED: usize = 2;

/// Passes of an improvement whose work is kept back while constructions are tried: in phases of
/// many messages a pass closes more gaps than another construction.
const KEPT_PASSES: u64 = 4;

/// Placements that are kept: rows are compared among those close to the best.
const KEPT: usize = 4;

/// Constructions after which a schedule that is close enough ends the search, where messages have
/// one receiver each: the first of them may have needlessly long rows.
const COMPARED: u32 = 3;

/// A placement and what made it.
#[derive(Clone)]
pub(super) struct Found {
    pub placement: Placement,
    pub horizon: u32,
    pub construction: String,
}

/// The candidates, best first, and what ended the search. There is at least one.
pub(super) struct Search<'a> {
    engine: Engine<'a>,
    bound: u32,
    allowed: u64,
    found: Vec<Found>,
    /// Constructions tried.
    tried: u32,
    /// Whether every message has one receiver.
    unicast: bool,
}

impl<'a> Search<'a> {
    /// Whether the search may go on, given what the next step will take.
    fn goes_on(&self, next: u64) -> bool {
        self.limit(next).is_none()
    }

    fn limit(&self, next: u64) -> Option<Limit> {
        let best = self.found.first()?.horizon;
        if self.unicast && self.tried < COMPARED && self.engine.work + next <= self.allowed {
            return None;
        }
        if best <= self.bound {
            Some(Limit::Optimal)
        } else if u64::from(best - self.bound) * 1000 <= CLOSE * u64::from(self.bound) {
            Some(Limit::CloseEnough)
        } else if self.engine.work + next > self.allowed {
            Some(Limit::Work)
        } else {
            None
        }
    }

    /// Notes what the engine holds. Of equal horizons the one found first stays in front.
    fn keep(&mut self, construction: impl FnOnce() -> String) {
        self.tried += 1;
        let horizon = self.engine.span();
        let place = self.found.partition_point(|f| f.horizon <= horizon);
        if place < KEPT {
            let found = Found {
                placement: self.engine.placement(),
                horizon,
                construction: construction(),
            };
            self.found.insert(place, found);
            self.found.truncate(KEPT);
        }
    }

    fn list(&mut self, order: &[u32], mirror: bool, name: &str) {
        list(&mut self.engine, mirror, order);
        let from = if mirror { "end" } else { "start" };
        self.keep(|| format!("{name} from the {from}"));
    }
}

/// Searches a schedule. `bound` is a lower bound on its horizon.
pub(super) fn search(problem: &Problem, bound: u32) -> (Vec<Found>, Limit) {
    let receives = problem.receivers.len() as u64;
    let mut search = Search {
        engine: Engine::new(problem),
        bound,
        allowed: WORK
            + WORK_EACH[0] * receives.min(MANY)
            + WORK_EACH[1] * receives.saturating_sub(MANY),
        found: Vec::new(),
        tried: 0,
        unicast: problem
            .messages
            .iter()
            .all(|m| m.receivers.1 - m.receivers.0 == 1),
    };
    let given: Vec<u32> = (0..problem.messages.len() as u32).collect();
    search.list(&given, false, "list in the order given");
    if !problem.after.is_empty() {
        return (search.found, Limit::Dependences);
    }
    // What a list took: about as much as any other will.
    let once = search.engine.work;
    let unicast = search.unicast;
    lists(&mut search, &given, unicast, once);
    dispatches(&mut search, unicast, once);
    let limit = improve(&mut search, once);
    (search.found, limit)
}

/// Orders of a list.
fn lists(search: &mut Search, given: &[u32], unicast: bool, once: u64) {
    let problem = search.engine.problem;
    let ports = problem.ports.len() as u32;
    let first = |i: u32| problem.receivers(&problem.messages[i as usize])[0].tile;
    let mut rotated = given.to_vec();
    rotated.sort_by_key(|&i| (first(i) + ports - problem.messages[i as usize].source) % ports);
    let mut orders: Vec<(&str, Vec<u32>)> = vec![("list by distance", rotated)];
    if !search.goes_on(once) {
        return;
    }
    let load = |i: u32| {
        let m = &problem.messages[i as usize];
        let receivers = problem.receivers(m).iter();
        let most = receivers.map(|r| problem.ports[r.tile as usize].received);
        let sent = problem.ports[m.source as usize].sent;
        (sent.max(most.max().unwrap_or(0)), m.events)
    };
    let mut loaded = given.to_vec();
    loaded.sort_by_cached_key(|&i| Reverse(load(i)));
    if unicast {
        for (name, base) in [("rounds", given), ("rounds of the loaded", &loaded)] {
            if let Some(rounds) = colour::rounds(problem, base) {
                let mut order = base.to_vec();
                order.sort_by_key(|&i| rounds[i as usize]);
                orders.push((name, order));
            }
        }
    } else {
        orders.push(("list by load", loaded));
    }
    for mirror in [false, true] {
        for (name, order) in &orders {
            if search.goes_on(once + KEPT_PASSES * once) {
                search.list(order, mirror, name);
            }
        }
    }
    if search.goes_on(once + KEPT_PASSES * once) {
        search.list(given, true, "list in the order given");
    }
}

/// Rules of a dispatch, the most promising first.
const RULES: [(Driver, bool, i64, u32); 8] = [
    (Driver::Sender, false, 1, 3),
    (Driver::Sender, true, 1, 3),
    (Driver::Receiver, false, 1, 3),
    (Driver::Receiver, true, 1, 3),
    (Driver::Sender, true, 0, 0),
    (Driver::Sender, false, 1, 0),
    (Driver::Sender, true, 4, 0),
    (Driver::Receiver, false, 0, 0),
];

fn dispatches(search: &mut Search, unicast: bool, once: u64) {
    for (driver, mirror, gap, patience) in RULES {
        if driver == Driver::Receiver && !unicast {
            continue;
        }
        let kept = KEPT_PASSES * once;
        if !search.goes_on(kept + once) {
            return;
        }
        let rule = Rule {
            driver,
            mirror,
            gap,
            patience,
        };
        let until = search.allowed.saturating_sub(kept);
        if dispatch(&mut search.engine, rule, until) {
            let who = match driver {
                Driver::Sender => "senders",
                Driver::Receiver => "receivers",
            };
            let from = if mirror { "end" } else { "start" };
            search.keep(|| format!("dispatch of {who} from the {from}"));
        }
    }
}

/// Pushes the messages of the best placements to the end of the phase in the order of their ends,
/// then back to its start in the order of their starts, and so on: gaps on the way close.
fn improve(search: &mut Search, once: u64) -> Limit {
    let problem = search.engine.problem;
    let events = |i: u32| problem.messages[i as usize].events;
    let starts: Vec<Found> = search.found.iter().take(IMPROVED).cloned().collect();
    for mut current in starts {
        let mut mirror = true;
        let mut fruitless = 0;
        let mut passes = 0;
        while fruitless < 2 {
            if let Some(limit) = search.limit(once) {
                return limit;
            }
            let start = &current.placement.start;
            let mut order: Vec<u32> = (0..start.len() as u32).collect();
            if mirror {
                order.sort_by_key(|&i| Reverse(start[i as usize] + events(i)));
            } else {
                order.sort_by_key(|&i| start[i as usize]);
            }
            list(&mut search.engine, mirror, &order);
            passes += 1;
            let horizon = search.engine.span();
            if horizon < current.horizon {
                fruitless = 0;
                let base = current.construction.split(" + ").next().unwrap_or_default();
                let construction = format!("{base} + {passes} passes");
                search.keep(|| construction.clone());
                current = Found {
                    placement: search.engine.placement(),
                    horizon,
                    construction,
                };
            } else {
                fruitless += 1;
                if horizon == current.horizon {
                    current.placement = search.engine.placement();
                }
            }
            mirror = !mirror;
        }
    }
    Limit::Exhausted
}
