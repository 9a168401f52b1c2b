//! Equal programs in the order of a lower bound of their cycles.
//!
//! Every component (see [`super::components`]) is searched by A*: a state is a choice for some of
//! its classes and those that are still open; its bound is the cost of what is chosen and the least
//! cost of everything that is open or that the open ones need in any case. A shared class is paid
//! once. The cheapest combinations of the components' solutions are the variants.

use super::components::{Structure, searched, structure};
use super::export::{Choice, export};
use super::frozen::{ClassId, Content, Frozen};
use super::signature::signature;
use super::{LowerBound, Operand, Options, Variant};
use crate::select_operators::views::is_view;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Cost of an operator without a plan: more than any real program.
pub const NO_PLAN: u64 = 1 << 50;

/// Cycles, and the number of operators, which decides between equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Cost(u64, u32);

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost(
            self.0.saturating_add(other.0),
            self.1.saturating_add(other.1),
        )
    }
}

/// A solution of a component.
struct Solution {
    cost: Cost,
    choice: Vec<(ClassId, usize)>,
}

/// A state of a search in [`Component::states`]: what its predecessors chose and this choice.
struct State {
    parent: u32,
    class: ClassId,
    node: usize,
    spent: Cost,
    open: Vec<ClassId>,
}

/// The first state, which chooses nothing.
const START: u32 = u32::MAX;

/// The search of a component.
struct Component {
    roots: Vec<ClassId>,
    states: Vec<State>,
    /// By bound, then the one that is farthest, then the oldest.
    heap: BinaryHeap<Reverse<(Cost, u32, u32)>>,
    solutions: Vec<Solution>,
    /// The choices of operators in the solutions: others that only write views differently are
    /// the same design.
    designs: BTreeSet<Vec<(ClassId, usize)>>,
    started: bool,
    done: bool,
}

/// What all components share.
struct Space<'a> {
    frozen: &'a Frozen,
    structure: Structure,
    /// By class and node.
    costs: Vec<Vec<Cost>>,
    /// By class, the least of its usable nodes.
    least: Vec<Cost>,
    /// Component of each class.
    component: Vec<u32>,
    pops: usize,
    limit: Option<&'static str>,
}

impl Space<'_> {
    fn children(&self, c: ClassId, node: usize) -> impl Iterator<Item = ClassId> {
        let node = &self.frozen.class(c).nodes[node];
        let leaf = matches!(node.content, Content::Input(_));
        self.frozen
            .operands(node)
            .filter(move |&d| !leaf && searched(self.frozen, d))
    }

    /// Whether a class is reached only by a choice of its own component.
    fn optional(&self, c: ClassId) -> bool {
        !self.structure.required.contains(c)
    }
}

impl Component {
    fn new(space: &Space<'_>, classes: &[ClassId]) -> Self {
        let required = |c: &ClassId| space.structure.required.contains(*c);
        Component {
            roots: classes.iter().copied().filter(required).collect(),
            states: Vec::new(),
            heap: BinaryHeap::new(),
            solutions: Vec::new(),
            designs: BTreeSet::new(),
            started: false,
            done: false,
        }
    }

    /// What a state has chosen.
    fn chosen(&self, mut state: u32) -> BTreeMap<ClassId, usize> {
        let mut out = BTreeMap::new();
        while let Some(s) = self.states.get(state as usize) {
            out.insert(s.class, s.node);
            state = s.parent;
        }
        out
    }

    /// The least that the open classes cost, with what they need in any case in this component.
    fn rest(
        &self,
        space: &Space<'_>,
        open: &[ClassId],
        chosen: &BTreeMap<ClassId, usize>,
        classes: &[ClassId],
    ) -> Cost {
        let mut sum = Cost::default();
        for &c in classes {
            let needed = || {
                open.iter()
                    .any(|&o| space.structure.needs[o as usize].contains(c))
            };
            if !chosen.contains_key(&c) && needed() {
                sum = sum.plus(space.least[c as usize]);
            }
        }
        sum
    }

    /// Solution number `i`, in the order of cost.
    fn solution(&mut self, i: usize, space: &mut Space<'_>, most: usize, id: u32) -> bool {
        while self.solutions.len() <= i && !self.done {
            self.search(space, most, id);
        }
        i < self.solutions.len()
    }

    /// Finds the next solution, or that there is none.
    fn search(&mut self, space: &mut Space<'_>, most: usize, id: u32) {
        let classes = space.structure.components[id as usize].clone();
        if let ([c], false) = (classes.as_slice(), self.started) {
            // One class alone: its nodes in the order of cost.
            let mut all: Vec<(Cost, usize)> = space.structure.usable[*c as usize]
                .iter()
                .map(|&n| (space.costs[*c as usize][n], n))
                .collect();
            all.sort();
            for (cost, n) in all {
                self.add(space, cost, vec![(*c, n)]);
            }
            (self.started, self.done) = (true, true);
            return;
        }
        if !self.started {
            self.started = true;
            let open = self.roots.clone();
            let bound = self.rest(space, &open, &BTreeMap::new(), &classes);
            self.push(START, START, 0, Cost::default(), open, bound);
        }
        while let Some(Reverse((bound, _, index))) = self.heap.pop() {
            if space.pops >= most {
                space.limit = Some("max_pops");
                self.done = true;
                // Without any solution, the most promising state is completed greedily.
                if self.solutions.is_empty() {
                    self.complete(space, index, &classes);
                }
                return;
            }
            space.pops += 1;
            let chosen = self.chosen(index);
            let (spent, mut open) = {
                let s = &self.states[index as usize];
                (s.spent, s.open.clone())
            };
            let Some(at) = next_open(space, &open) else {
                let choice = chosen.into_iter().filter(|(c, _)| *c != START).collect();
                debug_assert_eq!(bound, spent);
                if self.add(space, spent, choice) {
                    return;
                }
                continue;
            };
            let class = open.swap_remove(at);
            for node in space.structure.usable[class as usize].clone() {
                let mut chosen = chosen.clone();
                let Some(open) = extend(space, class, node, &open, &mut chosen) else {
                    continue;
                };
                let spent = spent.plus(space.costs[class as usize][node]);
                let bound = spent.plus(self.rest(space, &open, &chosen, &classes));
                self.push(index, class, node, spent, open, bound);
            }
        }
        self.done = true;
    }

    fn push(
        &mut self,
        parent: u32,
        class: ClassId,
        node: usize,
        spent: Cost,
        open: Vec<ClassId>,
        bound: Cost,
    ) {
        let index = self.states.len() as u32;
        self.states.push(State {
            parent,
            class,
            node,
            spent,
            open,
        });
        // States are numbered from the first: of equals the newest is the deepest.
        self.heap.push(Reverse((bound, u32::MAX - index, index)));
    }

    /// Adds a solution, unless it is one there is with other views.
    fn add(&mut self, space: &Space<'_>, cost: Cost, choice: Vec<(ClassId, usize)>) -> bool {
        let operator = |&(c, n): &(ClassId, usize)| match &space.frozen.class(c).nodes[n].content {
            Content::Op(kind) => !is_view(kind),
            _ => true,
        };
        let design = choice.iter().copied().filter(operator).collect();
        let new = self.designs.insert(design);
        if new {
            self.solutions.push(Solution { cost, choice });
        }
        new
    }

    /// Completes a state: for each open class the node that costs least with what it adds.
    fn complete(&mut self, space: &Space<'_>, index: u32, classes: &[ClassId]) {
        let mut chosen = self.chosen(index);
        let state = &self.states[index as usize];
        let (mut spent, mut open) = (state.spent, state.open.clone());
        while let Some(at) = next_open(space, &open) {
            let class = open.swap_remove(at);
            let best = space.structure.usable[class as usize]
                .iter()
                .filter_map(|&node| {
                    let mut with = chosen.clone();
                    let next = extend(space, class, node, &open, &mut with)?;
                    let cost = space.costs[class as usize][node]
                        .plus(self.rest(space, &next, &with, classes));
                    Some((cost, node, next))
                })
                .min_by_key(|(cost, node, _)| (*cost, *node));
            let Some((_, node, next)) = best else {
                // A cycle whatever is chosen: no solution from here.
                return;
            };
            chosen.insert(class, node);
            spent = spent.plus(space.costs[class as usize][node]);
            open = next;
        }
        let choice = chosen.into_iter().filter(|(c, _)| *c != START).collect();
        self.solutions.push(Solution {
            cost: spent,
            choice,
        });
    }
}

/// The open class to choose for: the one farthest from the leaves.
fn next_open(space: &Space<'_>, open: &[ClassId]) -> Option<usize> {
    let height = |c: ClassId| (space.structure.height[c as usize], Reverse(c));
    (0..open.len()).max_by_key(|&i| height(open[i]))
}

/// The open classes after a choice, which is added to `chosen`; `None` if it closes a cycle.
fn extend(
    space: &Space<'_>,
    class: ClassId,
    node: usize,
    open: &[ClassId],
    chosen: &mut BTreeMap<ClassId, usize>,
) -> Option<Vec<ClassId>> {
    chosen.insert(class, node);
    let mut next = open.to_vec();
    let own = space.component[class as usize];
    let mut stack: Vec<ClassId> = Vec::new();
    for d in space.children(class, node) {
        if chosen.contains_key(&d) {
            stack.push(d);
        } else if space.optional(d) && !next.contains(&d) {
            next.push(d);
        }
    }
    // Through what is chosen in this component.
    let mut seen = BTreeSet::new();
    while let Some(c) = stack.pop() {
        if c == class {
            return None;
        }
        if space.component[c as usize] != own || !seen.insert(c) {
            continue;
        }
        if let Some(&n) = chosen.get(&c) {
            stack.extend(space.children(c, n));
        }
    }
    Some(next)
}

/// The variants of an e-graph, cheapest first.
pub struct Variants<'a> {
    space: Space<'a>,
    recipes: Vec<Option<usize>>,
    components: Vec<Component>,
    /// Sums to come: cost, solution of each component, first component that may advance.
    heap: BinaryHeap<Reverse<(Cost, Vec<u32>, u32)>>,
    /// The last sum, whose successors are not in the heap yet.
    last: Option<(Cost, Vec<u32>, u32)>,
    started: bool,
    seen: BTreeSet<u64>,
    /// Sums that were looked at, the equal ones and those with cycles too.
    sums: usize,
    options: Options,
}

impl<'a> Variants<'a> {
    /// The variants under a bound.
    pub fn new(frozen: &'a Frozen, bound: &LowerBound<'_>, options: &Options) -> Self {
        let structure = structure(frozen);
        let n = frozen.classes.len();
        let mut component = vec![u32::MAX; n];
        for (i, classes) in structure.components.iter().enumerate() {
            for &c in classes {
                component[c as usize] = i as u32;
            }
        }
        let costs = costs(frozen, bound, &component);
        let least = (0..n)
            .map(|c| {
                let usable = structure.usable[c].iter();
                let all = usable.filter_map(|&k| costs[c].get(k).copied());
                all.min().unwrap_or_default()
            })
            .collect();
        let space = Space {
            frozen,
            structure,
            costs,
            least,
            component,
            pops: 0,
            limit: None,
        };
        let components = space
            .structure
            .components
            .iter()
            .map(|classes| Component::new(&space, classes))
            .collect();
        Variants {
            space,
            recipes: frozen.recipes(),
            components,
            heap: BinaryHeap::new(),
            last: None,
            started: false,
            seen: BTreeSet::new(),
            sums: 0,
            options: *options,
        }
    }

    /// Which limit kept variants from being found, or from being found in order.
    pub fn limit_hit(&self) -> Option<&'static str> {
        self.space.limit
    }

    /// The lower bound of an alternative, 0 where no program has its class.
    pub(super) fn cycles(&self, c: ClassId, node: usize) -> u64 {
        self.space.costs[c as usize].get(node).map_or(0, |c| c.0)
    }

    /// The nodes of the first variant, if the search has not begun.
    pub(super) fn first_choice(&mut self) -> Option<Choice> {
        let (_, at) = self.sum()?;
        self.choice(&at)
    }

    fn choice(&self, at: &[u32]) -> Option<Choice> {
        let mut choice = Choice::new();
        for (component, &i) in self.components.iter().zip(at) {
            choice.extend(component.solutions.get(i as usize)?.choice.iter().copied());
        }
        Some(choice)
    }

    fn solve(&mut self, component: usize, i: u32) -> Option<Cost> {
        let most = self.options.max_pops;
        let c = &mut self.components[component];
        c.solution(i as usize, &mut self.space, most, component as u32)
            .then(|| self.components[component].solutions[i as usize].cost)
    }

    /// The next cheapest sum.
    fn sum(&mut self) -> Option<(Cost, Vec<u32>)> {
        if !self.started {
            self.started = true;
            let mut cost = Cost::default();
            for i in 0..self.components.len() {
                cost = cost.plus(self.solve(i, 0)?);
            }
            let first = vec![0; self.components.len()];
            self.heap.push(Reverse((cost, first, 0)));
        }
        if let Some((cost, at, from)) = self.last.take() {
            for i in from as usize..at.len() {
                let (Some(old), Some(new)) = (self.solve(i, at[i]), self.solve(i, at[i] + 1))
                else {
                    continue;
                };
                let mut next = at.clone();
                next[i] += 1;
                let cost = Cost(
                    cost.0.saturating_sub(old.0).saturating_add(new.0),
                    cost.1.saturating_sub(old.1).saturating_add(new.1),
                );
                self.heap.push(Reverse((cost, next, i as u32)));
            }
        }
        let Reverse((cost, at, from)) = self.heap.pop()?;
        self.last = Some((cost, at.clone(), from));
        Some((cost, at))
    }
}

impl Iterator for Variants<'_> {
    type Item = Variant;

    fn next(&mut self) -> Option<Variant> {
        loop {
            if self.seen.len() >= self.options.max_variants {
                self.space.limit = self.space.limit.or(Some("max_variants"));
                return None;
            }
            if self.sums >= self.options.max_sums {
                self.space.limit = self.space.limit.or(Some("max_sums"));
                return None;
            }
            self.sums += 1;
            let (cost, at) = self.sum()?;
            let choice = self.choice(&at)?;
            // Choices of different components can form a cycle together.
            let Some(graph) = export(self.space.frozen, &choice, &self.recipes) else {
                continue;
            };
            let signature = signature(&graph);
            if self.seen.insert(signature) {
                return Some(Variant {
                    graph,
                    lower_bound: cost.0,
                    signature,
                });
            }
        }
    }
}

/// The cost of each node of the classes that can be in a program.
fn costs(frozen: &Frozen, bound: &LowerBound<'_>, component: &[u32]) -> Vec<Vec<Cost>> {
    // The blocks of a model have the same operators.
    let mut known: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut out = Vec::with_capacity(frozen.classes.len());
    for (c, class) in frozen.classes.iter().enumerate() {
        if component[c] == u32::MAX {
            out.push(Vec::new());
            continue;
        }
        let nodes = class.nodes.iter().map(|node| match &node.content {
            Content::Op(kind) => {
                let operands: Vec<Operand> = frozen
                    .operands(node)
                    .filter_map(|d| {
                        let class = frozen.class(d);
                        Some(Operand {
                            ty: class.types.first()?.clone(),
                            host: class.host,
                        })
                    })
                    .collect();
                let Some(ty) = class.types.first() else {
                    return Cost::default();
                };
                let key = format!("{kind:?} {operands:?} {ty:?}");
                let cycles = *known
                    .entry(key)
                    .or_insert_with(|| bound(kind, &operands, ty));
                Cost(cycles.unwrap_or(NO_PLAN), 1)
            }
            Content::Input(_) | Content::Absent | Content::Project(_) => Cost::default(),
        });
        out.push(nodes.collect());
    }
    out
}
