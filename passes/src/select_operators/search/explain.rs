//! Why each operator has its plan: what the next best ones cost, in which parts, and why they lost.
//!
//! An alternative is judged by the whole segment: the operator is pinned to it, and its segment is
//! searched again from the state in which the chosen program enters it, and also taken as it is with
//! nothing but this plan changed.

use super::front::{Front, Label, State};
use super::frontier::{Frontier, START};
use super::segments::{Segment, segments};
use crate::select_operators::forms::Lost;
use ipu_program::plan::{Family, Residency};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Alternatives that are told of each operator.
const ALTERNATIVES: usize = 3;

/// The parts of what an operator takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Cycles of its kernels.
    pub compute: i64,
    /// Cycles in which the fullest tile sends or receives.
    pub exchange: i64,
    /// Cycles of packing, copying and unpacking operands.
    pub conversion: i64,
    /// Cycles of the syncs and routes of phases of its own.
    pub sync: i64,
    /// Bytes on a tile: weights, result, temporaries, records and rows.
    pub memory: i64,
}

impl Parts {
    fn less(self, other: Parts) -> Parts {
        Parts {
            compute: self.compute - other.compute,
            exchange: self.exchange - other.exchange,
            conversion: self.conversion - other.conversion,
            sync: self.sync - other.sync,
            memory: self.memory - other.memory,
        }
    }

    /// All cycles.
    pub fn cycles(&self) -> i64 {
        self.compute + self.exchange + self.conversion + self.sync
    }
}

/// Why an alternative was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Another plan for the same layouts takes neither more cycles nor more memory.
    Dominated,
    /// It would be better, but a bound of the search dropped it.
    Beam,
    /// A tile has too little memory.
    Memory {
        /// Bytes of a tile that plans may use.
        limit: u64,
        /// Bytes that are missing.
        missing: u64,
    },
    /// Another operator then has to bring what it reads to another layout.
    Layout {
        /// The operator that reads.
        reader: String,
        /// Where it stands.
        location: String,
        /// Cycles by which its operands cost more.
        cycles: i64,
    },
    /// It takes more cycles by itself.
    Slower,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Dominated => write!(f, "dominated"),
            Reason::Beam => write!(f, "beam"),
            Reason::Memory { limit, missing } => {
                write!(f, "memory: {missing} bytes beyond the limit of {limit}")
            }
            Reason::Layout {
                reader,
                location,
                cycles,
            } => write!(
                f,
                "layout: {cycles} cycles of conversion for '{reader}' at {location}"
            ),
            Reason::Slower => write!(f, "slower"),
        }
    }
}

/// A plan that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alternative {
    /// The plan.
    pub plan: String,
    /// What it takes where the operator stands, less what the chosen plan takes.
    pub difference: Parts,
    /// Cycles by which the segment is longer with it; absent when the segment does not fit.
    pub segment_cycles: Option<i64>,
    /// Why it lost.
    pub reason: Reason,
}

/// The plan of one operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The operator.
    pub op: String,
    /// Where it stands in the model.
    pub location: String,
    /// Its plan.
    pub plan: String,
    /// What it takes.
    pub parts: Parts,
    /// Rules that made the operator of those of the model.
    pub rules: Vec<String>,
    /// Other places of the model that it does the work of.
    pub absorbed: Vec<String>,
    /// Plans that were compared.
    pub candidates: u32,
    /// The next best plans.
    pub alternatives: Vec<Alternative>,
}

/// The plans of all operators of a finalist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Estimated cycles of the program.
    pub cycles: u64,
    /// Bounds that the search met; without any the program is optimal.
    pub bounded_by: Vec<String>,
    /// The operators, in program order.
    pub operators: Vec<Explained>,
    /// Forms of the model that lost.
    pub forms: Vec<Lost>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = match self.bounded_by.as_slice() {
            [] => "optimal".to_owned(),
            list => format!("bounded by {}", list.join(", ")),
        };
        writeln!(f, "{} estimated cycles, {bounds}", self.cycles)?;
        for op in &self.operators {
            let p = &op.parts;
            writeln!(
                f,
                "{}: {} {}, best of {}: compute {}, exchange {}, conversion {}, sync {}, memory {}",
                op.location,
                op.op,
                op.plan,
                op.candidates,
                p.compute,
                p.exchange,
                p.conversion,
                p.sync,
                p.memory
            )?;
            if !op.rules.is_empty() {
                write!(f, "  form by {}", op.rules.join(", "))?;
                if !op.absorbed.is_empty() {
                    write!(f, ", with {}", op.absorbed.join(", "))?;
                }
                writeln!(f)?;
            }
            for a in &op.alternatives {
                let d = &a.difference;
                write!(
                    f,
                    "  {}: compute {:+}, exchange {:+}, conversion {:+}, sync {:+}, memory {:+}",
                    a.plan, d.compute, d.exchange, d.conversion, d.sync, d.memory
                )?;
                if let Some(cycles) = a.segment_cycles {
                    write!(f, "; segment {cycles:+}")?;
                }
                writeln!(f, "; {}", a.reason)?;
            }
        }
        for form in &self.forms {
            writeln!(f, "{form}")?;
        }
        Ok(())
    }
}

/// Explains the choices of a label.
pub fn explain(frontier: &mut Frontier<'_>, label: &Label) -> Explanation {
    let choices = frontier.trace(label.node);
    let list = segments(frontier.problem);
    // The state in front of each step, and the cycles up to there.
    let (mut states, mut cycles) = (vec![State::default()], vec![0]);
    for (s, &choice) in choices.iter().enumerate() {
        let Some(next) = frontier.follow_choice(s, &states[s], choice) else {
            break;
        };
        let plan = &frontier.choices[choice as usize].plan;
        cycles.push(cycles[s] + plan.compute_cycles + next.around);
        states.push(next.state);
    }
    let mut operators = Vec::new();
    for segment in &list {
        for s in segment.steps.clone() {
            if s + 1 < states.len() {
                operators.push(operator(frontier, segment, s, &choices, &states, &cycles));
            }
        }
    }
    Explanation {
        cycles: label.cycles,
        bounded_by: frontier.met.iter().map(|m| (*m).to_owned()).collect(),
        operators,
        forms: Vec::new(),
    }
}

fn operator(
    frontier: &mut Frontier<'_>,
    segment: &Segment,
    s: usize,
    choices: &[u32],
    states: &[State],
    cycles: &[u64],
) -> Explained {
    let chosen = choices[s];
    let own = parts(frontier, s, &states[s], chosen).unwrap_or_default();
    let mut others: Vec<(i64, u32)> = Vec::new();
    for choice in frontier.near(s, &states[s]) {
        if choice != chosen
            && let Some(p) = parts(frontier, s, &states[s], choice)
        {
            others.push((p.cycles(), choice));
        }
    }
    others.sort_unstable();
    let before = segment.steps.start;
    let end = segment.steps.end.min(cycles.len() - 1);
    let taken = cycles[end] - cycles[before];
    let own_name = describe(frontier, chosen);
    let mut told = BTreeSet::from([own_name.clone()]);
    let mut alternatives = Vec::new();
    for (_, choice) in others {
        // Those that differ in how an operand arrives only would read the same.
        let plan = describe(frontier, choice);
        let Some(p) = parts(frontier, s, &states[s], choice) else {
            continue;
        };
        if alternatives.len() == ALTERNATIVES || !told.insert(plan.clone()) {
            continue;
        }
        let difference = p.less(own);
        // The best of what the search finds with it, and of it in place of the chosen one.
        let searched = pinned(frontier, segment, &states[before], (s, choice));
        let mut in_place = choices[before..end].to_vec();
        in_place[s - before] = choice;
        let in_place = replay(frontier, before, &states[before], in_place);
        let with = [in_place, searched];
        let with = with.into_iter().flatten().min_by_key(|w| w.0);
        alternatives.push(Alternative {
            plan,
            difference,
            segment_cycles: with.as_ref().map(|w| w.0 as i64 - taken as i64),
            reason: reason(
                frontier, segment, s, choices, states, choice, difference, with,
            ),
        });
    }
    let op = &frontier.problem.graph.ops[frontier.problem.steps[s].op];
    Explained {
        op: format!("nn.{}", op.kind.name()),
        location: op.location.clone(),
        plan: own_name,
        parts: own,
        rules: op.rules.clone(),
        absorbed: op.fused.clone(),
        candidates: frontier.count(s),
        alternatives,
    }
}

fn describe(frontier: &Frontier<'_>, choice: u32) -> String {
    let c = &frontier.choices[choice as usize];
    let p = &c.plan;
    let order = c.result.order.name();
    let mut text = format!(
        "{} grid {} x {}",
        p.family.name(),
        p.grid_rows,
        p.grid_columns
    );
    if p.grid_k > 1 {
        text += &format!(" k {}", p.grid_k);
    }
    if p.weights == Residency::Distributed {
        if p.steps > 1 {
            text += &format!(", steps {}", p.steps);
        }
        text += ", weights distributed";
    }
    if matches!(p.family, Family::Gemm | Family::Attention) || p.grid_k > 1 {
        text += &format!(", partials {}", p.partials);
    }
    let last = c.result.tile_end() - 1;
    text + &format!(
        ", result {order} on tiles {} to {last}",
        c.result.first_tile
    )
}

/// Cycles of choices from a state on; `None` where one of them is not possible or needs more memory
/// than there is.
fn replay(
    frontier: &mut Frontier<'_>,
    from: usize,
    state: &State,
    choices: Vec<u32>,
) -> Option<(u64, Vec<u32>)> {
    let (mut state, mut cycles) = (state.clone(), 0);
    let (mut persistent, mut peak) = (0, 0);
    for (i, &choice) in choices.iter().enumerate() {
        let next = frontier.follow_choice(from + i, &state, choice)?;
        let c = &frontier.choices[choice as usize];
        cycles += c.plan.compute_cycles + next.around;
        persistent += c.persistent + next.code;
        peak = next.most.max(peak);
        state = next.state;
    }
    (persistent + peak <= frontier.limits.memory).then_some((cycles, choices))
}

/// What a choice takes in a state.
fn parts(frontier: &mut Frontier<'_>, s: usize, state: &State, choice: u32) -> Option<Parts> {
    let next = frontier.follow_choice(s, state, choice)?;
    let c = &frontier.choices[choice as usize];
    let (exchange, conversion) = (next.moved.events, next.moved.before + next.moved.after);
    Some(Parts {
        compute: c.plan.compute_cycles as i64,
        exchange: exchange as i64,
        conversion: conversion as i64,
        sync: next.around.saturating_sub(exchange + conversion) as i64,
        memory: (c.persistent + next.code + c.result_bytes + c.temporary) as i64,
    })
}

/// The fewest cycles of a segment in which a step has a choice, with the choices; `None` when
/// nothing fits.
fn pinned(
    frontier: &mut Frontier<'_>,
    segment: &Segment,
    from: &State,
    only: (usize, u32),
) -> Option<(u64, Vec<u32>)> {
    let start = Front {
        state: from.clone(),
        labels: vec![Label {
            cycles: 0,
            persistent: 0,
            peak: 0,
            form: 0,
            code: 0,
            node: START,
        }],
    };
    let (limits, met) = (frontier.limits, frontier.met.clone());
    frontier.limits.beam = limits.inner;
    frontier.only = Some(only);
    let ends = frontier.steps(segment.steps.clone(), vec![start]);
    frontier.only = None;
    frontier.limits = limits;
    frontier.met = met;
    let best = ends.first()?.labels.first()?;
    Some((best.cycles, frontier.trace(best.node)))
}

#[allow(clippy::too_many_arguments)] // all that is known of the alternative
fn reason(
    frontier: &mut Frontier<'_>,
    segment: &Segment,
    s: usize,
    choices: &[u32],
    states: &[State],
    choice: u32,
    difference: Parts,
    with: Option<(u64, Vec<u32>)>,
) -> Reason {
    let before = segment.steps.start;
    let Some((cycles, trace)) = with else {
        // How much memory would be needed.
        let limits = frontier.limits;
        frontier.limits.memory = u64::MAX / 4;
        let with = pinned(frontier, segment, &states[before], (s, choice));
        frontier.limits = limits;
        let needed = with.map_or(0, |(_, trace)| bytes(frontier, before, states, &trace));
        return Reason::Memory {
            limit: limits.memory,
            missing: needed.saturating_sub(limits.memory),
        };
    };
    let (a, b) = (choices[s] as usize, choice as usize);
    let (a, b) = (&frontier.choices[a], &frontier.choices[b]);
    if a.operands == b.operands && a.result_id == b.result_id && difference.cycles() >= 0 {
        return Reason::Dominated;
    }
    // Cycles around compute of each step, as chosen and with the alternative.
    let around = |frontier: &mut Frontier<'_>, trace: &[u32]| -> Vec<u64> {
        let mut state = states[before].clone();
        let mut out = Vec::new();
        for (i, &c) in trace.iter().enumerate() {
            let Some(next) = frontier.follow_choice(before + i, &state, c) else {
                break;
            };
            out.push(next.around);
            state = next.state;
        }
        out
    };
    let end = segment.steps.end.min(choices.len());
    let chosen = around(frontier, &choices[before..end]);
    let other = around(frontier, &trace);
    let problem = frontier.problem;
    let total = |list: &[u64], trace: &[u32]| -> u64 {
        let compute = trace
            .iter()
            .map(|&c| frontier.choices[c as usize].plan.compute_cycles);
        compute.sum::<u64>() + list.iter().sum::<u64>()
    };
    if cycles < total(&chosen, &choices[before..end]) {
        return Reason::Beam;
    }
    let worst = chosen
        .iter()
        .zip(&other)
        .enumerate()
        // What follows; what comes before does not read its result.
        .filter(|(i, _)| before + i > s)
        .map(|(i, (a, b))| (*b as i64 - *a as i64, i))
        .max();
    match worst {
        Some((more, i)) if more > 0 && more >= difference.cycles() => {
            let op = &problem.graph.ops[problem.steps[before + i].op];
            Reason::Layout {
                reader: format!("nn.{}", op.kind.name()),
                location: op.location.clone(),
                cycles: more,
            }
        }
        _ => Reason::Slower,
    }
}

/// Bytes on a tile of a trace from a step on.
fn bytes(frontier: &mut Frontier<'_>, from: usize, states: &[State], trace: &[u32]) -> u64 {
    let mut state = states[from].clone();
    let (mut persistent, mut peak) = (0, 0);
    for (i, &choice) in trace.iter().enumerate() {
        let Some(next) = frontier.follow_choice(from + i, &state, choice) else {
            break;
        };
        persistent += frontier.choices[choice as usize].persistent + next.code;
        peak = next.most.max(peak);
        state = next.state;
    }
    persistent + peak
}
