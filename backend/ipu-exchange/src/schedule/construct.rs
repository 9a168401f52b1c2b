//! Constructions: ways to fill the tiles. Each can run from either end of the phase.

use super::engine::Engine;
use super::problem::Problem;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gaps at the end of a tile that a message may still fill: a bound on the search, which would be
/// quadratic in the messages of a tile without it.
const LOOK_BACK: usize = 16;

/// Messages of a port that are considered when it becomes free: a bound on the search.
const CANDIDATES: usize = 64;

/// Places messages one after the other, each at the first time at which it fits.
pub(super) fn list(engine: &mut Engine, mirror: bool, order: &[u32]) {
    engine.reset(mirror);
    let problem = engine.problem;
    let mut complete = vec![
        0u32;
        if problem.after.is_empty() {
            0
        } else {
            order.len()
        }
    ];
    for &i in order {
        let m = &problem.messages[i as usize];
        let mut from = engine.search_from(m, LOOK_BACK);
        if let Some(after) = problem.after.get(i as usize) {
            for &b in after {
                from = from.max(complete[b as usize]);
            }
        }
        let k = engine.fit(i, from, u32::MAX);
        engine.place(i, k);
        if !complete.is_empty() {
            let ends = problem.receivers(m).iter().map(|r| {
                let x = (k as i32 + engine.lag(r)) as u32;
                x + m.events + problem.ports[r.tile as usize].write_delay
            });
            complete[i as usize] = ends.max().unwrap_or(0);
        }
    }
}

/// Which port is kept busy and looks for the next message when it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Sender,
    /// Only where every message has one receiver.
    Receiver,
}

/// Weights of a dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub driver: Driver,
    pub mirror: bool,
    /// Cost of an event of idle time left on the other port.
    pub gap: i64,
    /// Most events that the driver waits for a better message.
    pub patience: u32,
}

/// Keeps ports busy: whichever is free first takes, of its messages that fit now, the one whose
/// other port has most left to do. Gives up, with `false`, when the engine's work exceeds `until`.
pub(super) fn dispatch(engine: &mut Engine, rule: Rule, until: u64) -> bool {
    engine.reset(rule.mirror);
    let problem = engine.problem;
    let ports = problem.ports.len();
    // What is left of each port: words, and what must follow (mirrored: precede) its last one.
    let tail = |i: usize| -> i64 {
        if rule.mirror {
            0
        } else {
            i64::from(problem.ports[i].write_delay)
        }
    };
    let mut to_receive: Vec<i64> = (0..ports)
        .map(|i| i64::from(problem.ports[i].received) + tail(i))
        .collect();
    let mut to_send: Vec<i64> = (0..ports)
        .map(|i| i64::from(problem.ports[i].sent))
        .collect();
    let mut pending: Vec<Vec<u32>> = vec![Vec::new(); ports];
    for (i, m) in problem.messages.iter().enumerate() {
        let port = match rule.driver {
            Driver::Sender => m.source,
            Driver::Receiver => problem.receivers(m)[0].tile,
        };
        pending[port as usize].push(i as u32);
    }
    // Rotation: the k-th choice of neighbours leads to neighbours, which seldom meet.
    for (port, list) in pending.iter_mut().enumerate() {
        list.sort_by_key(|&i| {
            (other(problem, i, rule.driver) + ports as u32 - port as u32) % ports as u32
        });
    }
    let own = |port: usize, to_send: &[i64], to_receive: &[i64]| match rule.driver {
        Driver::Sender => to_send[port],
        Driver::Receiver => to_receive[port],
    };
    let mut queue: BinaryHeap<Reverse<(u32, i64, u32)>> = (0..ports)
        .filter(|&p| !pending[p].is_empty())
        .map(|p| Reverse((0, -own(p, &to_send, &to_receive), p as u32)))
        .collect();
    while let Some(Reverse((now, _, port))) = queue.pop() {
        if engine.work > until {
            return false;
        }
        let mut best: Option<(i64, usize, u32)> = None;
        let mut next = u32::MAX;
        for (place, &i) in pending[port as usize].iter().take(CANDIDATES).enumerate() {
            let m = &problem.messages[i as usize];
            let own_lag = match rule.driver {
                Driver::Sender => 0,
                Driver::Receiver => engine.lag(&problem.receivers(m)[0]),
            };
            let earliest = engine.earliest(m);
            let from = (now as i32 - own_lag).max(earliest as i32) as u32;
            let limit = (now + rule.patience) as i32 - own_lag;
            let k = if limit < from as i32 {
                from
            } else {
                engine.fit(i, from, limit as u32)
            };
            let at = (k as i32 + own_lag) as u32;
            if at > now + rule.patience {
                next = next.min(at - rule.patience);
                continue;
            }
            let wait = i64::from(at - now);
            let mut score = i64::MIN;
            match rule.driver {
                Driver::Sender => {
                    for r in problem.receivers(m) {
                        let frontier = engine.muxes[r.tile as usize].frontier();
                        let gap = i64::from(k) + i64::from(engine.lag(r)) - i64::from(frontier);
                        let urgent = to_receive[r.tile as usize] + i64::from(frontier);
                        score = score.max(urgent - rule.gap * gap.max(0));
                    }
                }
                Driver::Receiver => {
                    let frontier = engine.sends[m.source as usize].frontier();
                    let gap = i64::from(k) - i64::from(frontier);
                    let urgent = to_send[m.source as usize] + i64::from(frontier);
                    score = urgent - rule.gap * gap.max(0);
                }
            }
            score -= wait;
            if best.is_none_or(|b| score > b.0) {
                best = Some((score, place, k));
            }
        }
        if let Some((_, place, k)) = best {
            let i = pending[port as usize].remove(place);
            let m = &problem.messages[i as usize];
            // Asked again, for how its pointers are set.
            let k = engine.fit(i, k, u32::MAX);
            engine.place(i, k);
            to_send[m.source as usize] -= i64::from(m.events);
            for r in problem.receivers(m) {
                to_receive[r.tile as usize] -= i64::from(m.events);
            }
            let at = match rule.driver {
                Driver::Sender => i64::from(k),
                Driver::Receiver => i64::from(k) + i64::from(engine.lag(&problem.receivers(m)[0])),
            };
            next = (at + i64::from(m.events)) as u32;
        }
        if !pending[port as usize].is_empty() {
            let key = -own(port as usize, &to_send, &to_receive);
            queue.push(Reverse((next.max(now + 1), key, port)));
        }
    }
    true
}

/// The port at the other end of a message.
fn other(problem: &Problem, i: u32, driver: Driver) -> u32 {
    let m = &problem.messages[i as usize];
    match driver {
        Driver::Sender => problem.receivers(m)[0].tile,
        Driver::Receiver => m.source,
    }
}
