//! Segments: parts of the steps between places where few values are live. Equal segments of a large
//! graph, such as the layers of an encoder, are solved once for each state in which they are entered.

use super::front::{Front, Label, State};
use super::frontier::{Frontier, START};
use super::problem::Problem;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// Steps up to which a graph is one segment.
const WHOLE: usize = 60;
/// Steps after which a segment may end where more than one value is live.
const LONG: usize = 60;
/// Most values that may be live there.
const MOST_LIVE: usize = 3;

/// A part of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The steps.
    pub steps: Range<usize>,
    /// Equal for segments that are equal but for the names of values and parameters.
    pub template: u32,
    /// The values that it names, in order of appearance.
    pub values: Vec<u32>,
}

/// The segments of a problem, in order.
pub fn segments(problem: &Problem<'_>) -> Vec<Segment> {
    let n = problem.steps.len();
    let mut cuts = vec![0];
    if n > WHOLE {
        // How many stored values are live after each step.
        let mut changes = vec![0i64; n + 2];
        let mut known: BTreeMap<u32, usize> = BTreeMap::new();
        for (s, step) in problem.steps.iter().enumerate() {
            let read = step
                .operands
                .iter()
                .filter(|o| o.origin == super::problem::Origin::Stored);
            let named = read.map(|o| o.base.0);
            let result = problem.graph.ops[step.op].result.0;
            for v in named.chain([result]) {
                known.entry(v).or_insert(s);
            }
        }
        for (&v, &s) in &known {
            changes[s] += 1;
            changes[problem.last(v).max(s).min(n)] -= 1;
        }
        let mut live = 0;
        for (s, change) in changes.iter().enumerate().take(n.saturating_sub(1)) {
            live += change;
            let since = s + 1 - cuts.last().copied().unwrap_or(0);
            if live == 1 || (since >= LONG && live <= MOST_LIVE as i64) {
                cuts.push(s + 1);
            }
        }
    }
    cuts.push(n);
    let mut templates: HashMap<Vec<u64>, u32> = HashMap::new();
    cuts.array_windows()
        .filter(|[a, b]| a < b)
        .map(|&[a, b]| {
            let (values, key) = template(problem, a..b);
            let next = templates.len() as u32;
            Segment {
                steps: a..b,
                template: *templates.entry(key).or_insert(next),
                values,
            }
        })
        .collect()
}

/// The values of a segment in order of appearance, and what tells segments apart.
fn template(problem: &Problem<'_>, steps: Range<usize>) -> (Vec<u32>, Vec<u64>) {
    let mut values: Vec<u32> = Vec::new();
    let mut numbers: HashMap<u32, u64> = HashMap::new();
    let mut key = Vec::new();
    let end = steps.end - 1;
    for s in steps {
        let step = &problem.steps[s];
        key.push(u64::from(step.signature));
        let mut number = |v: u32| {
            *numbers.entry(v).or_insert_with(|| {
                values.push(v);
                values.len() as u64 - 1
            })
        };
        for o in &step.operands {
            if o.origin == super::problem::Origin::Host {
                continue;
            }
            let (base, value) = (number(o.base.0), number(o.value.0));
            key.push(base << 32 | value);
        }
        key.push(number(problem.graph.ops[step.op].result.0));
    }
    // Which of them live on, under which names.
    let lives =
        |&v: &u32| u64::from(problem.lives(v, end)) | u64::from(problem.is_named(v, end)) << 1;
    key.extend(values.iter().map(lives));
    (values, key)
}

/// The ways through a segment from one state: states at its end, by number of value, with what
/// they took and the choices.
type Ways = Rc<Vec<(State, Vec<(Label, u32)>)>>;

/// Segments that were solved.
#[derive(Default)]
pub struct Solved {
    ways: HashMap<(u32, State), Ways>,
}

/// A state with its values renamed; `None` when it holds another value.
fn renamed(state: &State, name: impl Fn(u32) -> Option<u32>) -> Option<State> {
    let mut out = state.clone();
    for v in out.stored.iter_mut().chain(&mut out.copies) {
        v.0 = name(v.0)?;
    }
    out.stored.sort_unstable();
    out.copies.sort_unstable();
    Some(out)
}

impl Frontier<'_> {
    /// The fronts after all segments.
    pub fn run(&mut self, segments: &[Segment], start: Vec<Front>) -> Vec<Front> {
        let mut times: BTreeMap<u32, usize> = BTreeMap::new();
        for segment in segments {
            *times.entry(segment.template).or_default() += 1;
        }
        let mut solved = Solved::default();
        let mut fronts = start;
        for segment in segments {
            let again = times.get(&segment.template).is_some_and(|&n| n > 1);
            let through = again.then(|| self.through(segment, &fronts, &mut solved));
            fronts = match through.flatten() {
                Some(fronts) => fronts,
                None => self.steps(segment.steps.clone(), fronts),
            };
            if fronts.is_empty() {
                break;
            }
        }
        fronts
    }

    /// The fronts after some steps.
    pub fn steps(&mut self, steps: Range<usize>, mut fronts: Vec<Front>) -> Vec<Front> {
        for s in steps {
            fronts = self.step(s, &fronts);
            if fronts.is_empty() {
                break;
            }
        }
        fronts
    }

    /// The fronts after a segment that occurs several times; `None` when a state holds a value that
    /// the segment does not name.
    fn through(
        &mut self,
        segment: &Segment,
        fronts: &[Front],
        solved: &mut Solved,
    ) -> Option<Vec<Front>> {
        let local = |v: u32| {
            let found = segment.values.iter().position(|&x| x == v);
            found.map(|i| i as u32)
        };
        let entries: Option<Vec<State>> = fronts.iter().map(|f| renamed(&f.state, local)).collect();
        let entries = entries?;
        let most = self.limits.interfaces;
        if fronts.len() > most {
            self.met.insert("states between segments");
        }
        let last = segment.steps.end - 1;
        let mut next: BTreeMap<State, Vec<Label>> = BTreeMap::new();
        for (front, entry) in fronts.iter().zip(entries) {
            let key = (segment.template, entry);
            let ways = match solved.ways.get(&key) {
                Some(ways) => Rc::clone(ways),
                None => {
                    let ways = Rc::new(self.solve(segment, &front.state));
                    solved.ways.insert(key, Rc::clone(&ways));
                    ways
                }
            };
            let rest = self.rest(segment.steps.end);
            for (exit, labels) in ways.iter() {
                let state = renamed(exit, |v| segment.values.get(v as usize).copied())?;
                let slot = next.entry(state).or_default();
                for label in &front.labels {
                    for &(way, list) in labels {
                        let persistent = label.persistent + way.persistent;
                        let peak = label.peak.max(way.peak);
                        if persistent + peak + rest > self.limits.memory {
                            continue;
                        }
                        slot.push(Label {
                            cycles: label.cycles + way.cycles,
                            persistent,
                            peak,
                            form: label.form.wrapping_add(way.form),
                            code: label.code + way.code,
                            node: self.join(label.node, list),
                        });
                    }
                }
            }
        }
        Some(self.settle(last, next))
    }

    /// The ways through a segment from one state.
    fn solve(&mut self, segment: &Segment, from: &State) -> Vec<(State, Vec<(Label, u32)>)> {
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
        // What comes after differs from one occurrence to the next.
        let rest = self.forget_rest();
        let beam = self.limits.beam;
        self.limits.beam = self.limits.inner;
        let ends = self.steps(segment.steps.clone(), vec![start]);
        self.limits.beam = beam;
        self.restore_rest(rest);
        let local = |v: u32| {
            let found = segment.values.iter().position(|&x| x == v);
            found.map(|i| i as u32)
        };
        ends.into_iter()
            .filter_map(|front| {
                let state = renamed(&front.state, local)?;
                let labels = front.labels.iter();
                let labels = labels.map(|&l| (l, self.list(l.node))).collect();
                Some((state, labels))
            })
            .collect()
    }
}
