//! Rounds: an edge colouring of the bipartite multigraph of senders and receivers.
//!
//! By König's theorem as many colours suffice as the busiest port has messages; each colour is a
//! partial matching, so that messages of one colour and length go side by side.

use super::problem::Problem;

/// No message.
const NONE: u32 = u32::MAX;

/// Table entries that a colouring may take: ports times colours, both sides.
const MAX_TABLE: usize = 1 << 24;

/// Steps along alternating paths that a colouring may take for each message, on average.
const MAX_STEPS: u64 = 256;

/// A round for each message, `None` when the table would be too large or the paths too long.
/// `order` is the order in which messages are coloured; each message has one receiver.
pub(super) fn rounds(problem: &Problem, order: &[u32]) -> Option<Vec<u32>> {
    let ports = problem.ports.len();
    // Sender and receiver of each message, receivers numbered behind the senders.
    let ends: Vec<(u32, u32)> = problem
        .messages
        .iter()
        .map(|m| (m.source, ports as u32 + problem.receivers(m)[0].tile))
        .collect();
    let mut degree = vec![0u32; 2 * ports];
    for &(u, v) in &ends {
        degree[u as usize] += 1;
        degree[v as usize] += 1;
    }
    let colours = degree.iter().copied().max().unwrap_or(0) as usize;
    if 2 * ports * colours > MAX_TABLE {
        return None;
    }
    let mut table = vec![NONE; 2 * ports * colours];
    let at = |port: u32, colour: u32| port as usize * colours + colour as usize;
    // Colours below are taken at the port.
    let mut low = vec![0u32; 2 * ports];
    let mut round = vec![NONE; ends.len()];
    let mut path: Vec<u32> = Vec::new();
    let mut steps = MAX_STEPS * ends.len() as u64;
    for &i in order {
        let (u, v) = ends[i as usize];
        for port in [u, v] {
            let first = &mut low[port as usize];
            while (*first as usize) < colours && table[at(port, *first)] != NONE {
                *first += 1;
            }
        }
        let (a, b) = (low[u as usize], low[v as usize]);
        // The first colour free at both ends, else the path of a and b from v is turned over: it
        // does not end at u, for u lacks a and the graph is bipartite.
        let common = (a.max(b)..colours as u32)
            .find(|&c| table[at(u, c)] == NONE && table[at(v, c)] == NONE);
        let colour = common.unwrap_or(a);
        if common.is_none() {
            path.clear();
            let (mut port, mut along) = (v, a);
            while table[at(port, along)] != NONE {
                steps = steps.checked_sub(1)?;
                let edge = table[at(port, along)];
                path.push(edge);
                let (s, r) = ends[edge as usize];
                port = if port == s { r } else { s };
                along = a + b - along;
            }
            // The last port has lost one of the two.
            low[port as usize] = low[port as usize].min(a).min(b);
            for &edge in &path {
                let (s, r) = ends[edge as usize];
                table[at(s, round[edge as usize])] = NONE;
                table[at(r, round[edge as usize])] = NONE;
            }
            for &edge in &path {
                let (s, r) = ends[edge as usize];
                let turned = a + b - round[edge as usize];
                round[edge as usize] = turned;
                table[at(s, turned)] = edge;
                table[at(r, turned)] = edge;
            }
        }
        round[i as usize] = colour;
        table[at(u, colour)] = i;
        table[at(v, colour)] = i;
    }
    Some(round)
}
