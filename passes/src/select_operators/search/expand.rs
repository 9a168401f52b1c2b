//! What a plan takes in a context: the moves of its operands, the exchange of its partial sums, and
//! the state that it leaves.

use super::choice::Choice;
use super::front::State;
use super::frontier::{Context, Frontier};
use super::price::{LayoutId, Sums, Wanted};
use super::problem::{Operand, Origin, Problem};
use super::space;
use crate::select_operators::plans::gemm::Reduction;
use crate::select_operators::plans::moves::{self, Move};
use crate::select_operators::plans::{Machine, stream};
use ipu_program::layout::Split;
use ipu_program::plan::{Family, Residency};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A plan in a context, with its price.
pub(super) struct Expansion {
    pub choice: u32,
    pub moved: Move,
    /// Its partial sums on their way to where they are added.
    pub own: Move,
    /// Stored values that get their layouts by it.
    pub placed: Vec<(u32, LayoutId, u64)>,
    /// Copies that it makes: value, layout, bytes.
    pub copies: Vec<(u32, LayoutId, u64)>,
    /// For each operand how it gets there.
    pub arrivals: Vec<Arrival>,
}

/// Bytes of the records of the kernels of a plan, without those that move its operands.
const OWN_RECORDS: u64 = 64;

impl Expansion {
    /// Bytes on a tile of records and rows.
    pub fn code(&self) -> u64 {
        OWN_RECORDS + self.moved.bytes + self.own.bytes
    }
}

/// How an operand gets to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The host has written it.
    Host,
    /// It is there: the stored value, or the copy in a layout.
    There(Option<LayoutId>),
    /// It moves on its tiles.
    Here,
    /// It crosses tiles.
    Crosses,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The host writes it.
    Host,
    /// The value has been brought to the layout.
    Copy(LayoutId),
    /// An operand before it of the same operator is the same.
    Made,
    /// The stored value.
    Stored(Wanted),
    /// An argument, whose layout follows from it.
    Argument(Wanted),
}

impl Source {
    /// The move of the operand.
    fn wanted(self) -> Option<Wanted> {
        match self {
            Source::Stored(wanted) | Source::Argument(wanted) => Some(wanted),
            Source::Host | Source::Copy(_) | Source::Made => None,
        }
    }
}

/// The exchange of the partial sums of a plan; `None` when it has no lowering.
fn sums_of(problem: &Problem<'_>, machine: &Machine<'_>, s: usize, c: &Choice) -> Option<Move> {
    let parts = c.plan.grid_k;
    if parts == 1 {
        return Some(Move::default());
    }
    let graph = problem.graph;
    let op = &graph.ops[problem.steps[s].op];
    let matrix = graph.ty(op.result).matrix();
    if let Some(parts) = space::parts(graph, op, &c.plan, &c.result) {
        let (from, to) = ((&parts.partial, &parts.ty), (&parts.staging, &parts.ty));
        return moves::exact(machine, from, None, to);
    }
    // A product divides its columns as its weights do; a sum of rows does not.
    let columns = match c.plan.operands.get(1) {
        Some(weights) => weights.columns,
        None => Split::whole(matrix.columns),
    };
    let reduction = Reduction::new(parts, matrix.rows, matrix.columns, columns, &c.result);
    moves::partial_sums(machine, &reduction, parts, matrix.rows, &c.result)
}

impl Frontier<'_> {
    /// Where each operand of a plan comes from in a context.
    fn sources(&mut self, s: usize, context: &Context, choice: u32) -> Vec<Source> {
        let step = &self.problem.steps[s];
        let mut out = Vec::with_capacity(step.operands.len());
        let mut placed: Vec<(u32, LayoutId)> = Vec::new();
        let mut made: Vec<(u32, LayoutId)> = Vec::new();
        for (i, (operand, (stored, copies))) in step.operands.iter().zip(context).enumerate() {
            let Some(&to) = self.choices[choice as usize].operands.get(i) else {
                break;
            };
            out.push(if operand.origin == Origin::Host {
                Source::Host
            } else if copies.contains(&to) {
                Source::Copy(to)
            } else if made.contains(&(operand.value.0, to)) {
                Source::Made
            } else {
                made.push((operand.value.0, to));
                let number = self.numbers[operand.access as usize];
                let known = placed.iter().find(|p| p.0 == operand.base.0);
                match stored.or(known.map(|p| p.1)) {
                    Some(from) => Source::Stored((number, from, to)),
                    None => {
                        let from = self.prices.arrival(self.machine.tiles, number, to);
                        placed.push((operand.base.0, from));
                        Source::Argument((number, from, to))
                    }
                }
            });
        }
        out
    }

    /// The moves of a plan in a context.
    pub(super) fn moves_of(&mut self, s: usize, context: &Context, choice: u32) -> Vec<Wanted> {
        let sources = self.sources(s, context, choice);
        sources.into_iter().filter_map(Source::wanted).collect()
    }

    /// Estimated cycles of a plan in a context.
    pub(super) fn quick(&mut self, s: usize, context: &Context, choice: u32) -> u64 {
        let plan = &self.choices[choice as usize].plan;
        let mut total = plan.compute_cycles + plan.exchange_cycles;
        for wanted in self.moves_of(s, context, choice) {
            total += self.prices.quick(self.machine, wanted);
        }
        total
    }

    /// Finds out all prices that some plans in contexts need, on all cores.
    pub(super) fn prepare_exact(
        &mut self,
        s: usize,
        contexts: &[(Context, u64)],
        list: &[(usize, u32)],
    ) {
        let mut wanted = Vec::new();
        for &(g, choice) in list {
            wanted.extend(self.moves_of(s, &contexts[g].0, choice));
        }
        self.prices.prepare_exact(self.machine, wanted);
        let mut sums: BTreeMap<Sums, u32> = BTreeMap::new();
        for &(_, choice) in list {
            let key = self.sums(s, choice);
            if !self.prices.sums.contains_key(&key) {
                sums.insert(key, choice);
            }
        }
        let (problem, machine, choices) = (self.problem, self.machine, &self.choices);
        let sums: Vec<(Sums, u32)> = sums.into_iter().collect();
        let found = sums
            .into_par_iter()
            .with_max_len(1)
            .map(|(key, c)| (key, sums_of(problem, machine, s, &choices[c as usize])));
        let found: Vec<_> = found.collect();
        self.prices.sums.extend(found);
    }

    /// What the exchange of the partial sums of a plan depends on.
    fn sums(&self, s: usize, choice: u32) -> Sums {
        let c = &self.choices[choice as usize];
        Sums {
            operator: self.operators[s],
            operands: c.operands.clone(),
            result: c.result_id,
            grid: [c.plan.grid_rows, c.plan.grid_columns, c.plan.grid_k],
            partials: c.plan.partials,
        }
    }

    /// What it takes to bring distributed operands from their homes, which are there from the start.
    fn stream(&mut self, s: usize, choice: u32) -> Move {
        if let Some(known) = self.streams.get(&choice) {
            return *known;
        }
        let plan = &self.choices[choice as usize].plan;
        let first = self.problem.steps[s].operands.first();
        let moved = match (plan.weights, first) {
            (Residency::Distributed, Some(x)) => {
                let k = self.problem.accesses[x.access as usize].to.matrix().columns;
                stream::blocks(self.machine, plan, k).map_or_else(Move::default, |b| b.moved)
            }
            _ => Move::default(),
        };
        self.streams.insert(choice, moved);
        moved
    }

    /// A plan in a context with its exact price; `None` when a move has no lowering.
    pub(super) fn expand(&mut self, s: usize, context: &Context, choice: u32) -> Option<Expansion> {
        let problem = self.problem;
        let sources = self.sources(s, context, choice);
        let mut moved = self.stream(s, choice);
        let c = &self.choices[choice as usize];
        let into = c.plan.family == Family::View;
        let mut placed: Vec<(u32, LayoutId, u64)> = Vec::new();
        let mut made: Vec<(u32, LayoutId, u64)> = Vec::new();
        let mut arrivals = Vec::with_capacity(c.operands.len());
        for (i, (operand, source)) in problem.steps[s].operands.iter().zip(sources).enumerate() {
            let wanted = match source {
                Source::Host | Source::Made => {
                    arrivals.push(Arrival::Host);
                    continue;
                }
                Source::Copy(to) => {
                    arrivals.push(Arrival::There(Some(to)));
                    continue;
                }
                Source::Stored(wanted) => wanted,
                Source::Argument(wanted) => {
                    let layout = self.prices.layouts.get(wanted.1);
                    let element = problem.accesses[operand.access as usize].from.element;
                    let bytes = layout.storage(element).bytes();
                    placed.push((operand.base.0, wanted.1, bytes.into()));
                    wanted
                }
            };
            let price = self.prices.exact(self.machine, wanted)?;
            let there = self.prices.is_there(wanted);
            arrivals.push(match price.events {
                _ if there => Arrival::There(None),
                0 => Arrival::Here,
                _ => Arrival::Crosses,
            });
            moved = moved.with(price);
            if !into && !there {
                made.push((operand.value.0, wanted.2, c.operand_bytes[i]));
            }
        }
        Some(Expansion {
            choice,
            moved,
            own: self.own(s, choice)?,
            placed,
            copies: made,
            arrivals,
        })
    }

    /// The exchange of the partial sums of a plan; `None` when it has no lowering.
    pub fn own(&mut self, s: usize, choice: u32) -> Option<Move> {
        let (problem, machine) = (self.problem, self.machine);
        let c = &self.choices[choice as usize];
        if c.plan.grid_k == 1 {
            return Some(Move::default());
        }
        let key = self.sums(s, choice);
        let found = self.prices.sums.entry(key);
        *found.or_insert_with(|| sums_of(problem, machine, s, c))
    }

    /// The state after a plan, what of its cycles are not compute of its own, and the most bytes that
    /// live while it is carried out.
    pub(super) fn after(&self, s: usize, state: &State, e: &Expansion) -> (State, u64, u64) {
        let problem = self.problem;
        let step = &problem.steps[s];
        let c = &self.choices[e.choice as usize];
        let op = &problem.graph.ops[step.op];
        let opening = self.machine.phase(0);
        let all = e.moved.with(e.own);
        let mut cycles = all.before + all.events + all.after;
        let mut next = state.clone();
        for &(v, layout, bytes) in &e.placed {
            next.stored.push((v, layout, state.phases));
            next.bytes += bytes;
        }
        let age_of = |state: &State, operand: &Operand, copy: Option<LayoutId>| {
            let stored = state.stored.iter().find(|v| v.0 == operand.base.0);
            let stored = stored.map_or(state.phases, |v| v.2);
            let held = |to| {
                let mut copies = state.copies.iter();
                copies
                    .find(|v| (v.0, v.1) == (operand.value.0, to))
                    .map(|v| v.2)
            };
            copy.and_then(held).unwrap_or(stored)
        };
        let crosses = |i: usize| e.arrivals[i] == Arrival::Crosses;
        let opens = step
            .operands
            .iter()
            .enumerate()
            .any(|(i, o)| crosses(i) && age_of(&next, o, None) == 0);
        if opens {
            next.open();
            cycles += opening;
        }
        // The latest operand says when the operator is ready.
        let mut ready = next.phases;
        let mut copies = e.copies.iter();
        for (i, operand) in step.operands.iter().enumerate() {
            let age = match e.arrivals[i] {
                Arrival::Host => continue,
                Arrival::There(copy) => age_of(&next, operand, copy),
                Arrival::Here => age_of(&next, operand, None),
                Arrival::Crosses => age_of(&next, operand, None).saturating_sub(1),
            };
            ready = ready.min(age);
            if matches!(e.arrivals[i], Arrival::Here | Arrival::Crosses)
                && let Some(&(v, layout, bytes)) = copies.next()
            {
                next.copies.push((v, layout, age));
                next.bytes += bytes;
            }
        }
        if e.own.events > 0 {
            // Its partial sums cross after the product.
            if ready == 0 {
                next.open();
                cycles += opening;
            } else {
                ready -= 1;
            }
        }
        next.stored.push((op.result.0, c.result_id, ready));
        next.bytes += c.result_bytes;
        let most = next.bytes + c.temporary;
        let mut freed = 0;
        let bytes = |v: u32, l: LayoutId| {
            let ty = &problem.graph.values[v as usize].ty;
            u64::from(self.prices.layouts.get(l).storage(ty.element).bytes())
        };
        next.stored.retain(|&(v, l, _)| {
            let lives = problem.lives(v, s);
            freed += if lives { 0 } else { bytes(v, l) };
            lives
        });
        next.copies.retain(|&(v, l, _)| {
            let lives = problem.is_named(v, s);
            freed += if lives { 0 } else { bytes(v, l) };
            lives
        });
        next.bytes -= freed.min(next.bytes);
        next.stored.sort_unstable();
        next.copies.sort_unstable();
        (next, cycles, most)
    }
}
