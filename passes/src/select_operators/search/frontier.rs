//! The frontier: every way in which the operators so far can have been planned, reduced to what the
//! operators to come can tell apart.
//!
//! A *state* is the layout of every stored value that is still read and the layouts to which values
//! have been brought; a *label* of a state is what it took to get there. Of a state those labels
//! remain that no other beats in all of cycles, persistent bytes and peak, and some that differ in the
//! plan of a heavy operator, so that the end has alternatives to offer.

use super::choice::{Choice, note_twins, retain};
use super::front::{Front, Label, State, reduce};
use super::price::{LayoutId, Prices};
use super::problem::{Operand, Origin, Problem, Step};
use super::{Limits, space};
use crate::select_operators::plans::moves::Move;
use crate::select_operators::plans::{Candidate, Machine, spread};
use ipu_program::layout::{ElementOrder, Layout};
use ipu_program::plan::Family;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The start of every trace.
pub const START: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    what: What,
}

/// What a node of a trace adds.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The plan of one step.
    Choice(u32),
    /// Those of the steps of a segment, in [`Frontier::lists`].
    List(u32),
}

/// Where the operands of a step are: the layout of the stored value, if it has one, and those to
/// which the value has been brought.
pub(super) type Context = Vec<(Option<LayoutId>, Vec<LayoutId>)>;

/// The search over one graph.
pub struct Frontier<'p> {
    /// The graph.
    pub problem: &'p Problem<'p>,
    /// The machine.
    pub machine: &'p Machine<'p>,
    /// Prices of moves.
    pub prices: &'p mut Prices,
    /// Numbers of the accesses of the problem in the prices.
    pub(super) numbers: Vec<u32>,
    /// All plans that were considered.
    pub choices: Vec<Choice>,
    /// Bounds of the search.
    pub limits: Limits,
    /// Bounds that were met.
    pub met: BTreeSet<&'static str>,
    /// Plans of each signature, reduced.
    options: HashMap<u32, Vec<u32>>,
    /// Number of plans before reduction.
    counts: HashMap<u32, u32>,
    /// Fewest persistent bytes of a plan before reduction.
    least: HashMap<u32, u64>,
    following: HashMap<(u32, usize, LayoutId), Option<u32>>,
    /// Numbers of the operators of the steps in the prices.
    pub(super) operators: Vec<u32>,
    /// What it takes to bring distributed operands, by choice.
    pub(super) streams: HashMap<u32, Move>,
    nodes: Vec<Node>,
    /// The choices of segments that were solved apart.
    lists: Vec<Vec<u32>>,
    /// A step that has one choice only, or those that differ from it in where operands are, for
    /// [`super::explain`].
    pub only: Option<(usize, u32)>,
    /// Demands on the plans of steps.
    pub pins: Vec<Option<super::pin::Pin>>,
    /// Steps after which something was left.
    pub reached: usize,
    /// Fewest persistent bytes of the steps from each on.
    rest: Vec<u64>,
    /// Steps that take a good part of all cycles.
    heavy: Vec<bool>,
}

impl<'p> Frontier<'p> {
    /// A search that has not begun.
    pub fn new(
        problem: &'p Problem<'p>,
        machine: &'p Machine<'p>,
        limits: Limits,
        prices: &'p mut Prices,
    ) -> Self {
        let n = problem.steps.len();
        let numbers = problem.accesses.iter().map(|a| prices.number(a)).collect();
        let ops = problem.steps.iter().map(|step| &problem.graph.ops[step.op]);
        let operators = ops.map(|op| prices.operator(problem.graph, op)).collect();
        Frontier {
            problem,
            machine,
            prices,
            numbers,
            choices: Vec::new(),
            limits,
            met: BTreeSet::new(),
            options: HashMap::new(),
            counts: HashMap::new(),
            least: HashMap::new(),
            following: HashMap::new(),
            operators,
            streams: HashMap::new(),
            nodes: Vec::new(),
            lists: Vec::new(),
            only: None,
            pins: vec![None; n],
            reached: 0,
            rest: vec![0; n + 1],
            heavy: vec![false; n],
        }
    }

    /// Enumerates the plans of every step; the first step without any is the error.
    ///
    /// # Errors
    /// The number of the step.
    pub fn prepare(&mut self) -> Result<(), usize> {
        let n = self.problem.steps.len();
        let mut least = vec![0; n];
        for (s, least) in least.iter_mut().enumerate() {
            let options = self.options(s);
            let choices = options.iter().map(|&c| &self.choices[c as usize]);
            let cycles = choices.clone().map(|c| c.plan.compute_cycles).min();
            *least = cycles.ok_or(s)?;
            let signature = self.problem.steps[s].signature;
            self.rest[s] = self.least.get(&signature).copied().unwrap_or(0);
        }
        for s in (0..n).rev() {
            self.rest[s] += self.rest[s + 1];
        }
        let all: u64 = least.iter().sum();
        for (heavy, cycles) in self.heavy.iter_mut().zip(&least) {
            *heavy = cycles * 20 >= all;
        }
        Ok(())
    }

    /// The plans of a step that stand for themselves, reduced.
    pub fn options(&mut self, s: usize) -> Vec<u32> {
        let step = &self.problem.steps[s];
        if let Some(known) = self.options.get(&step.signature) {
            return known.clone();
        }
        let op = &self.problem.graph.ops[step.op];
        let pin = self.pins[s];
        let list = space::plans(self.problem.graph, &self.machine_for(s), op);
        self.counts.insert(step.signature, list.len() as u32);
        let target = self.machine.target;
        let memory = u64::from(target.memory_end - target.memory_base);
        let mut found: Vec<Choice> = list
            .into_iter()
            .filter(|c| c.bytes <= memory)
            .map(|c| self.choice(step, c))
            .filter(|c| pin.as_ref().is_none_or(|pin| pin.allows(&c.plan)))
            .collect();
        let least = found.iter().map(|c| c.persistent).min().unwrap_or(0);
        self.least.insert(step.signature, least);
        if found.len() > self.limits.plans {
            self.met.insert("plans of an operator");
            found = retain(found, self.limits.plans);
        }
        note_twins(&mut found);
        let first = self.choices.len() as u32;
        self.choices.extend(found);
        let ids: Vec<u32> = (first..self.choices.len() as u32).collect();
        self.options.insert(step.signature, ids.clone());
        ids
    }

    /// The machine for which the plans of a step are enumerated: demands may ask for plans that are
    /// not tried otherwise.
    pub fn machine_for(&self, s: usize) -> Machine<'p> {
        let usual = self.machine.streams;
        Machine {
            streams: self.pins[s].map_or(usual, |pin| pin.streams(usual)),
            ..*self.machine
        }
    }

    /// How many plans of a step there were before reduction.
    pub fn count(&self, s: usize) -> u32 {
        let signature = self.problem.steps[s].signature;
        self.counts.get(&signature).copied().unwrap_or(0)
    }

    fn choice(&mut self, step: &Step, c: Candidate) -> Choice {
        let graph = self.problem.graph;
        let result_element = graph.ty(graph.ops[step.op].result).element;
        let bytes = |l: &Layout, e| u64::from(l.storage(e).bytes());
        let result_id = self.prices.layouts.id(&c.result);
        let result_bytes = bytes(&c.result, result_element);
        // What only moves elements brings its operands to where its result is.
        let into = c.plan.family == Family::View;
        let operands: Vec<LayoutId> = match into {
            true => vec![result_id; step.operands.len()],
            false => {
                let layouts = &mut self.prices.layouts;
                c.plan.operands.iter().map(|l| layouts.id(l)).collect()
            }
        };
        let mut operand_bytes = Vec::with_capacity(operands.len());
        let mut persistent = 0;
        for (i, (&layout, operand)) in operands.iter().zip(&step.operands).enumerate() {
            let element = self.problem.accesses[operand.access as usize].to.element;
            let n = bytes(self.prices.layouts.get(layout), element);
            operand_bytes.push(if into { 0 } else { n });
            let again = operands[..i].iter().zip(&step.operands);
            let again = again
                .into_iter()
                .any(|(&l, o)| l == layout && o.value == operand.value);
            if operand.origin == Origin::Host && !again {
                persistent += n;
            }
        }
        let temporary = match c.plan.family {
            Family::Gemm | Family::Attention | Family::Reduce => {
                let known: u64 = operand_bytes.iter().sum();
                c.bytes.saturating_sub(known + result_bytes)
            }
            _ => 0,
        };
        Choice {
            plan: c.plan,
            result: c.result,
            result_id,
            operands,
            persistent,
            temporary,
            result_bytes,
            operand_bytes,
            twin: false,
        }
    }

    /// The plan of a step that follows operand `i` in a layout.
    fn follow(&mut self, s: usize, i: usize, at: LayoutId) -> Option<u32> {
        let step = &self.problem.steps[s];
        let key = (step.signature, i, at);
        if let Some(&known) = self.following.get(&key) {
            return known;
        }
        let op = &self.problem.graph.ops[step.op];
        let layout = self.prices.layouts.get(at).clone();
        let value = step.operands[i].value;
        let found = space::following(self.problem.graph, self.machine, op, value, &layout)
            .map(|c| self.choice(step, c))
            .filter(|c| self.pins[s].as_ref().is_none_or(|pin| pin.allows(&c.plan)));
        // One that stands for itself is not counted twice.
        let options = self.options(s);
        let found = found.map(|c| {
            let same = |&&o: &&u32| {
                let o = &self.choices[o as usize];
                o.result_id == c.result_id && o.operands == c.operands
            };
            options.iter().find(same).copied().unwrap_or_else(|| {
                self.choices.push(c);
                self.choices.len() as u32 - 1
            })
        });
        self.following.insert(key, found);
        found
    }

    fn context(step: &Step, state: &State) -> Context {
        step.operands
            .iter()
            .map(|o| {
                if o.origin == Origin::Host {
                    return (None, Vec::new());
                }
                let stored = state.stored.iter().find(|s| s.0 == o.base.0);
                let copies = state.copies.iter().filter(|c| c.0 == o.value.0);
                (stored.map(|s| s.1), copies.map(|c| c.1).collect())
            })
            .collect()
    }

    /// All plans of a step in a context.
    fn plans_in(&mut self, s: usize, context: &Context) -> Vec<u32> {
        let mut out = self.options(s);
        let op = &self.problem.graph.ops[self.problem.steps[s].op];
        for (i, (stored, copies)) in context.iter().enumerate() {
            let operand = self.problem.steps[s].operands[i];
            if !space::follows(&op.kind, i) {
                continue;
            }
            // The layout of a stored value is that of the operand only under its own name.
            let own = stored.filter(|_| operand.base == operand.value);
            for at in own.into_iter().chain(copies.iter().copied()) {
                if let Some(choice) = self.follow(s, i, at)
                    && !out.contains(&choice)
                {
                    out.push(choice);
                }
            }
        }
        out
    }

    /// The plans of a step worth their exact price, over all contexts. `best` is the fewest cycles
    /// with which each context is reached.
    fn contenders(&mut self, s: usize, contexts: &[(Context, u64)]) -> Vec<(usize, u32)> {
        let mut ranked: Vec<(u64, usize, u32)> = Vec::new();
        let only = self.only.filter(|o| o.0 == s).map(|o| o.1);
        let mut wanted = Vec::new();
        for (g, (context, best)) in contexts.iter().enumerate() {
            let mut plans = self.plans_in(s, context);
            if let Some(only) = only {
                let like = &self.choices[only as usize];
                plans.retain(|&c| c != only && self.choices[c as usize].reads_as(like));
                plans.push(only);
            }
            for choice in plans {
                wanted.extend(self.moves_of(s, context, choice));
                ranked.push((*best, g, choice));
            }
        }
        self.prices.prepare_quick(self.machine, wanted);
        for (cycles, g, choice) in &mut ranked {
            *cycles += self.quick(s, &contexts[*g].0, *choice);
        }
        ranked.sort_unstable();
        // Elements of the operands that are views: what lowering a move of them takes.
        let elements: u64 = self.problem.steps[s]
            .operands
            .iter()
            .map(|o| (o, &self.problem.accesses[o.access as usize]))
            .filter(|(o, access)| o.origin != Origin::Host && access.view.is_some())
            .map(|(_, access)| access.to.elements())
            .sum();
        let viewed = elements > 0;
        let many = match viewed {
            true => self
                .limits
                .views
                .min(self.limits.elements / elements as usize)
                .max(4),
            false => self.limits.contenders,
        };
        if ranked.len() <= many {
            return ranked.into_iter().map(|r| (r.1, r.2)).collect();
        }
        self.met.insert("contenders");
        let mut out: BTreeSet<(usize, u32)> = BTreeSet::new();
        let mut results: BTreeMap<LayoutId, usize> = BTreeMap::new();
        let mut groups: BTreeMap<usize, usize> = BTreeMap::new();
        let mut others = 0;
        let most_others = if viewed { many / 2 } else { many };
        for (i, &(_, g, choice)) in ranked.iter().enumerate() {
            let result = self.choices[choice as usize].result_id;
            let new = results.entry(result).or_default();
            let group = groups.entry(g).or_default();
            // The best of all; beyond, the best for every result and of every context.
            let other = (*new == 0 || *group == 0) && others < most_others;
            if i < many || other {
                others += usize::from(i >= many);
                *new += 1;
                *group += 1;
                out.insert((g, choice));
            }
        }
        out.into_iter().collect()
    }

    /// The plans of a step in a state with the fewest estimated cycles.
    pub fn near(&mut self, s: usize, state: &State) -> Vec<u32> {
        let context = Self::context(&self.problem.steps[s], state);
        let mut ranked: Vec<(u64, u32)> = Vec::new();
        for choice in self.plans_in(s, &context) {
            ranked.push((self.quick(s, &context, choice), choice));
        }
        ranked.sort_unstable();
        ranked.truncate(12);
        ranked.into_iter().map(|r| r.1).collect()
    }

    /// What a choice adds to [`Label::form`].
    pub fn form(&self, s: usize, choice: u32) -> u64 {
        if !self.heavy[s] {
            return 0;
        }
        let mut h = DefaultHasher::new();
        (s, self.choices[choice as usize].form()).hash(&mut h);
        h.finish()
    }

    /// All plans of a step in a state.
    #[cfg(test)]
    pub fn all(&mut self, s: usize, state: &State) -> Vec<u32> {
        let context = Self::context(&self.problem.steps[s], state);
        self.plans_in(s, &context)
    }

    /// The fronts after a step.
    pub fn step(&mut self, s: usize, fronts: &[Front]) -> Vec<Front> {
        let problem = self.problem;
        let step = &problem.steps[s];
        let mut grouped: BTreeMap<Context, Vec<usize>> = BTreeMap::new();
        for (i, front) in fronts.iter().enumerate() {
            let context = Self::context(step, &front.state);
            grouped.entry(context).or_default().push(i);
        }
        let least = |i: &usize| fronts[*i].labels.first().map_or(0, |l| l.cycles);
        let contexts: Vec<(Context, u64)> = grouped
            .iter()
            .map(|(c, list)| (c.clone(), list.iter().map(least).min().unwrap_or(0)))
            .collect();
        let members: Vec<&Vec<usize>> = grouped.values().collect();
        let mut next: HashMap<State, Vec<Label>> = HashMap::new();
        let contenders = self.contenders(s, &contexts);
        self.prepare_exact(s, &contexts, &contenders);
        for (g, choice) in contenders {
            let Some(e) = self.expand(s, &contexts[g].0, choice) else {
                continue;
            };
            let c = &self.choices[choice as usize];
            let code = e.code();
            let persistent = c.persistent + code;
            let form = self.form(s, choice);
            for &i in members[g] {
                let front = &fronts[i];
                let (state, around, most) = self.after(s, &front.state, &e);
                let rest = self.rest[s + 1];
                let labels = next.entry(state).or_default();
                for label in &front.labels {
                    let persistent = label.persistent + persistent;
                    let peak = label.peak.max(most);
                    if persistent + peak + rest > self.limits.memory {
                        continue;
                    }
                    labels.push(Label {
                        cycles: label.cycles + c.plan.compute_cycles + around,
                        persistent,
                        peak,
                        form: label.form.wrapping_add(form),
                        code: label.code + code,
                        node: self.nodes.len() as u32,
                    });
                    self.nodes.push(Node {
                        parent: label.node,
                        what: What::Choice(choice),
                    });
                }
            }
        }
        self.settle(s, next)
    }

    /// The states with their labels that go on after a step.
    pub fn settle(
        &mut self,
        s: usize,
        next: impl IntoIterator<Item = (State, Vec<Label>)>,
    ) -> Vec<Front> {
        let mut out: Vec<Front> = next
            .into_iter()
            .filter(|(_, labels)| !labels.is_empty())
            .map(|(state, labels)| Front { state, labels })
            .collect();
        for front in &mut out {
            if reduce(&mut front.labels, &self.limits) {
                self.met.insert("labels of a state");
            }
        }
        if !out.is_empty() {
            self.reached = self.reached.max(s + 1);
        }
        self.beam(s, out)
    }

    /// The fronts that go on: the fastest, the fastest for every layout of the last result, and
    /// those that need the least memory.
    fn beam(&mut self, s: usize, mut list: Vec<Front>) -> Vec<Front> {
        let key = |f: &Front| (f.labels[0].cycles, f.labels[0].persistent, f.labels[0].peak);
        list.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.state.cmp(&b.state)));
        if list.len() <= self.limits.beam {
            return list;
        }
        self.met.insert("beam");
        let result = self.problem.graph.ops[self.problem.steps[s].op].result.0;
        let mut small: Vec<usize> = (0..list.len()).collect();
        let bytes = |f: &Front| f.labels.iter().map(|l| l.persistent + l.peak).min();
        small.sort_by_key(|&i| (bytes(&list[i]), i));
        let small: BTreeSet<usize> = small.into_iter().take(self.limits.beam / 8).collect();
        let (mut seen, mut kept) = (BTreeSet::new(), 0);
        let mut i = 0;
        let (beam, diverse) = (self.limits.beam, self.limits.beam / 2);
        list.retain(|f| {
            let layout = f.state.stored.iter().find(|v| v.0 == result).map(|v| v.1);
            let new = seen.len() < diverse && seen.insert(layout);
            let keep = kept < beam / 2 || new || small.contains(&i);
            i += 1;
            kept += usize::from(keep);
            keep
        });
        list
    }

    /// The choices of a trace, first step first.
    pub fn trace(&self, mut node: u32) -> Vec<u32> {
        let mut out = Vec::new();
        while let Some(n) = self.nodes.get(node as usize) {
            match n.what {
                What::Choice(choice) => out.push(choice),
                What::List(list) => out.extend(self.lists[list as usize].iter().rev()),
            }
            node = n.parent;
        }
        out.reverse();
        out
    }

    /// Keeps the choices of a trace for [`Frontier::join`].
    pub fn list(&mut self, node: u32) -> u32 {
        self.lists.push(self.trace(node));
        self.lists.len() as u32 - 1
    }

    /// A trace that goes on with kept choices.
    pub fn join(&mut self, parent: u32, list: u32) -> u32 {
        self.nodes.push(Node {
            parent,
            what: What::List(list),
        });
        self.nodes.len() as u32 - 1
    }

    /// Fewest persistent bytes of the steps from one on.
    pub fn rest(&self, s: usize) -> u64 {
        self.rest[s]
    }

    /// Counts nothing for the steps to come, until [`Frontier::restore_rest`].
    pub fn forget_rest(&mut self) -> Vec<u64> {
        let none = vec![0; self.rest.len()];
        std::mem::replace(&mut self.rest, none)
    }

    /// Undoes [`Frontier::forget_rest`].
    pub fn restore_rest(&mut self, rest: Vec<u64>) {
        self.rest = rest;
    }

    /// Cycles of bringing results that have no storage of their own to theirs.
    pub fn end(&mut self, state: &State) -> u64 {
        let problem = self.problem;
        let mut total = Move::default();
        for operand in &problem.results {
            let Operand { access, base, .. } = *operand;
            let number = self.numbers[access as usize];
            let access = &problem.accesses[access as usize];
            let matrix = access.to.matrix();
            let tiles = self.machine.tiles;
            let mut rows = |matrix| {
                let layout = spread(tiles, matrix, ElementOrder::Rows);
                self.prices.layouts.id(&layout)
            };
            let to = rows(matrix);
            let stored = state.stored.iter().find(|s| s.0 == base.0).map(|s| s.1);
            // An argument that nobody else reads arrives in rows.
            let from = stored.unwrap_or_else(|| rows(access.from.matrix()));
            let moved = self.prices.exact(self.machine, (number, from, to));
            total = total.with(moved.unwrap_or_default());
        }
        total.cycles(self.machine)
    }

    /// The choices of all steps that need the fewest bytes for weights and, of those, the least memory
    /// besides; `None` where an operand cannot be brought to any of them.
    pub fn smallest(&mut self) -> Option<Vec<u32>> {
        let mut state = State::default();
        let mut trace = Vec::new();
        for s in 0..self.problem.steps.len() {
            let context = Self::context(&self.problem.steps[s], &state);
            let mut list = self.plans_in(s, &context);
            let choices = &self.choices;
            let key = |c: u32| {
                let c = &choices[c as usize];
                let memory = c.temporary + c.result_bytes + c.operand_bytes.iter().sum::<u64>();
                (c.persistent, memory, c.plan.compute_cycles)
            };
            list.sort_by_key(|&c| (key(c), c));
            let found = list.into_iter().find_map(|choice| {
                let followed = self.follow_choice(s, &state, choice)?;
                Some((choice, followed.state))
            });
            let (choice, next) = found?;
            trace.push(choice);
            state = next;
        }
        Some(trace)
    }

    /// Adds a trace of choices and says its label; `None` where one cannot follow.
    pub fn label(&mut self, choices: &[u32]) -> Option<Front> {
        let mut label = Label {
            cycles: 0,
            persistent: 0,
            peak: 0,
            form: 0,
            code: 0,
            node: START,
        };
        let mut state = State::default();
        for (s, &choice) in choices.iter().enumerate() {
            let followed = self.follow_choice(s, &state, choice)?;
            let c = &self.choices[choice as usize];
            label.cycles += c.plan.compute_cycles + followed.around;
            label.persistent += c.persistent + followed.code;
            label.code += followed.code;
            label.peak = label.peak.max(followed.most);
            label.form = label.form.wrapping_add(self.form(s, choice));
            self.nodes.push(Node {
                parent: label.node,
                what: What::Choice(choice),
            });
            label.node = self.nodes.len() as u32 - 1;
            state = followed.state;
        }
        Some(Front {
            state,
            labels: vec![label],
        })
    }

    /// Follows a choice from a state: the state after it, cycles of compute, of its own exchange and
    /// of moves, the layouts that arguments get, and the most bytes that live.
    pub fn follow_choice(&mut self, s: usize, state: &State, choice: u32) -> Option<Followed> {
        let context = Self::context(&self.problem.steps[s], state);
        let e = self.expand(s, &context, choice)?;
        let (after, around, most) = self.after(s, state, &e);
        Some(Followed {
            state: after,
            moved: e.moved.with(e.own),
            code: e.code(),
            placed: e.placed,
            copied: e.copies,
            around,
            most,
        })
    }
}

/// What following a choice says.
pub struct Followed {
    /// The state after it.
    pub state: State,
    /// What moved, partial sums included.
    pub moved: Move,
    /// Arguments that got their layouts, with their bytes.
    pub placed: Vec<(u32, LayoutId, u64)>,
    /// Values that were brought to layouts, with their bytes.
    pub copied: Vec<(u32, LayoutId, u64)>,
    /// Cycles of the step besides its compute.
    pub around: u64,
    /// Most bytes that lived.
    pub most: u64,
    /// Bytes of records and rows.
    pub code: u64,
}
