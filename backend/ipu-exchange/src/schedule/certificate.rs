//! Lower bounds on the horizon of a phase, and the certificate of a schedule.

use super::problem::Problem;

/// What makes a phase last at least so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The words that a tile sends, or receives.
    Port,
    /// The words that a tile receives, behind the way from its mux to its memory, with the guard.
    Receiver,
    /// As [`Resource::Port`] and [`Resource::Receiver`], with the shortest route among those that
    /// a tile's messages really take before the first and after the last of them.
    Route,
    /// The words that one memory element of a tile reads and writes.
    Element,
    /// The words that the two tiles of a pair receive or send, on two buses.
    PairLanes,
}

impl Resource {
    /// Name for people and files.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Port => "port",
            Resource::Receiver => "receiver",
            Resource::Route => "route",
            Resource::Element => "element",
            Resource::PairLanes => "pair_lanes",
        }
    }
}

/// A lower bound on the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it comes from.
    pub resource: Resource,
    /// Events.
    pub events: u32,
    /// Logical tile (of a pair, the even one).
    pub tile: u32,
    /// First byte of the element.
    pub element: Option<u32>,
}

impl Bound {
    fn none(resource: Resource) -> Self {
        Bound {
            resource,
            events: 0,
            tile: 0,
            element: None,
        }
    }

    fn raise(&mut self, events: u32, tile: u32) {
        if events > self.events {
            (self.events, self.tile) = (events, tile);
        }
    }
}

/// What ended the search for a shorter schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The horizon is the bound: no schedule is shorter.
    Optimal,
    /// The horizon is within the tolerance of the bound.
    CloseEnough,
    /// The last improvement found nothing more.
    Exhausted,
    /// The work allowed for the number of transfers was used up.
    Work,
    /// Transfers depend on each other, and only the order given is tried.
    Dependences,
}

impl Limit {
    /// Name for people and files.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Optimal => "optimal",
            Limit::CloseEnough => "close_enough",
            Limit::Exhausted => "exhausted",
            Limit::Work => "work",
            Limit::Dependences => "dependences",
        }
    }
}

/// How good the schedule of a phase is, and why it is not better. Times are in events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Transfers given.
    pub transfers: u32,
    /// Messages that they became: joined where they continue each other, cut where too long.
    pub messages: u32,
    /// Words delivered, at all receivers together.
    pub words: u64,
    /// Largest horizon of a row.
    pub horizon: u32,
    /// Every lower bound that was derived; elements only with known addresses.
    pub bounds: Vec<Bound>,
    /// The largest of them.
    pub binding: Bound,
    /// Horizon less the bound.
    pub gap: u32,
    /// Mux and pointer settings of all rows.
    pub controls: u32,
    /// Words of the longest row, its return included, and its tile.
    pub row_words_max: u32,
    /// Logical tile of the longest row.
    pub row_words_tile: u32,
    /// Words of all rows.
    pub row_words: u64,
    /// The construction that won, with the improvements that it went through.
    pub construction: String,
    /// What ended the search.
    pub limit: Limit,
}

/// All bounds of a phase.
pub(super) fn bounds(problem: &Problem) -> Vec<Bound> {
    let n = problem.ports.len();
    let mut ports = Bound::none(Resource::Port);
    let mut receivers = Bound::none(Resource::Receiver);
    let mut routes = Bound::none(Resource::Route);
    let mut lanes = Bound::none(Resource::PairLanes);
    // Of every sender the earliest start and the shortest way from the end of a send to the end of
    // a row; of every receiver the first mux window.
    let mut sends = vec![(u32::MAX, u32::MAX); n];
    let mut windows = vec![u32::MAX; n];
    for m in &problem.messages {
        // Each receiver by itself: a multicast may be cut into parts.
        for r in problem.receivers(m) {
            let port = &problem.ports[r.tile as usize];
            let earliest = (1 - r.lag).max(0);
            let x = (earliest + r.lag) as u32;
            let window = &mut windows[r.tile as usize];
            *window = (*window).min(x);
            let end = port.write_delay + problem.guard;
            let tail = (r.lag + end as i32) as u32;
            let s = &mut sends[m.source as usize];
            *s = (s.0.min(earliest as u32), s.1.min(tail));
            // A message alone takes as long.
            routes.raise(x + m.events + end, port.logical);
        }
    }
    for (i, port) in problem.ports.iter().enumerate() {
        if port.sent > 0 {
            let (start, tail) = sends[i];
            ports.raise(port.least_sent, port.logical);
            let row = problem.min_sender_row.max(port.least_sent + tail);
            routes.raise(start + row, port.logical);
        }
        if port.received > 0 {
            ports.raise(port.least_received, port.logical);
            let end = port.write_delay + port.least_received + problem.guard;
            receivers.raise(1 + end, port.logical);
            routes.raise(windows[i] + end, port.logical);
        }
    }
    for pair in problem
        .ports
        .chunk_by(|a, b| a.logical / 2 == b.logical / 2)
    {
        let sent: u32 = pair.iter().map(|p| p.least_words).sum();
        let received: u32 = pair.iter().map(|p| p.least_received).sum();
        lanes.raise(sent.max(received).div_ceil(2), pair[0].logical & !1);
    }
    let mut all = vec![ports, receivers, routes, lanes];
    if let Some((words, port, first)) = problem.element {
        all.push(Bound {
            resource: Resource::Element,
            events: words,
            tile: problem.ports[port as usize].logical,
            element: Some(first),
        });
    }
    all
}

/// The largest of some bounds; of equal ones the first in the order of strength of the argument.
pub(super) fn strongest(bounds: &[Bound]) -> Bound {
    let mut best = Bound::none(Resource::Port);
    for &b in bounds {
        if b.events > best.events {
            best = b;
        }
    }
    best
}
