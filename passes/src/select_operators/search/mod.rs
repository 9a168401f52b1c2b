//! The search for plans: a dynamic program over the frontier of the graph.
//!
//! [`problem`] reads a graph into steps, one for each operator that takes time. [`space`] enumerates
//! the plans of each. [`price`] says what moves between layouts cost. [`frontier`] goes through the
//! steps and keeps, for all that the operators to come can tell apart, the best ways so far. All
//! bounds are counts, so that the same graph has the same result on every machine; a result says
//! whether a bound was met, and is optimal over the enumerated plans where none was.

mod choice;
mod expand;
pub mod explain;
mod front;
mod frontier;
mod memory;
pub mod pin;
mod price;
mod problem;
mod segments;
mod space;

pub use space::{Around, linear, softmax_kernel, standing};

use super::plans::stream::Streams;
use super::plans::{self, Machine};
use super::{NoLowering, SelectError};
use front::{Front, Label, State};
use frontier::{Frontier, START};
use ipu_program::graph::{Graph, OpKind};
use ipu_program::host::HostValues;
use ipu_program::layout::ElementOrder;
use pin::Pin;
pub use price::Prices;
use problem::Problem;
use std::collections::BTreeSet;

/// Bounds of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a tile that plans may use.
    pub memory: u64,
    /// Plans of an operator that are kept.
    pub plans: usize,
    /// Plans of a step in all contexts whose exact prices are found out.
    pub contenders: usize,
    /// The same where an operand is a view.
    pub views: usize,
    /// Elements of views whose moves are lowered for one step, if at least four plans are left.
    pub elements: usize,
    /// States that are kept after a step.
    pub beam: usize,
    /// The same within a segment that is solved apart.
    pub inner: usize,
    /// States in which such a segment is entered.
    pub interfaces: usize,
    /// Labels of a state that are kept.
    pub labels: usize,
    /// Different choices wanted.
    pub finalists: usize,
}

impl Limits {
    /// The defaults on a machine.
    pub fn new(machine: &Machine<'_>, finalists: usize) -> Self {
        Limits {
            memory: tile_memory(machine),
            plans: 96,
            contenders: 320,
            views: 48,
            elements: 12_000_000,
            beam: 96,
            inner: 32,
            interfaces: 12,
            labels: 12,
            finalists: finalists.max(1),
        }
    }

    /// Twice as wide.
    fn wider(self) -> Self {
        Limits {
            plans: self.plans * 2,
            contenders: self.contenders * 2,
            views: self.views * 2,
            elements: self.elements.saturating_mul(2),
            beam: self.beam * 2,
            inner: self.inner * 2,
            interfaces: self.interfaces * 2,
            labels: self.labels * 2,
            ..self
        }
    }
}

/// One complete choice of plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The graph with a plan for each operator and a layout for each activation.
    pub graph: Graph,
    /// Estimated cycles.
    pub cycles: u64,
    /// Bytes on a tile of what the host writes.
    pub persistent: u64,
    /// Bytes on a tile of records of kernels and rows of exchanges, about.
    pub code: u64,
    /// Most bytes on a tile of everything else.
    pub peak: u64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Different choices, the fastest first.
    pub finalists: Vec<Selected>,
    /// Bounds that were met; without any the first finalist is optimal.
    pub met: Vec<&'static str>,
    /// Why the operators of the first finalist have their plans, if asked for.
    pub explanation: Option<explain::Explanation>,
}

/// How often the search is widened when nothing fits but most of the steps did.
const WIDENINGS: usize = 2;

/// Finds the best plans of all operators of a graph in normal form. `prices` may be those of other
/// searches on the same machine.
///
/// # Errors
/// Operators without a plan, or a graph that does not fit.
pub fn search(
    graph: &Graph,
    machine: &Machine<'_>,
    finalists: usize,
    pins: &[Option<Pin>],
    explain: bool,
    prices: &mut Prices,
) -> Result<Found, SelectError> {
    let name = |i: usize| pins.get(i).copied().flatten().map(|p: Pin| p.to_string());
    let problem = Problem::new(graph, |i| name(i).unwrap_or_default());
    let mut limits = Limits::new(machine, finalists);
    let mut streams = machine.streams;
    if streams == Streams::None && crowded(&problem, machine) {
        streams = Streams::Fitting;
        limits.memory = limits.memory / 3 * 2;
    }
    let (mut widenings, mut hopeless) = (0, false);
    while widenings <= WIDENINGS {
        let machine = Machine {
            streams,
            ..*machine
        };
        let mut frontier = Frontier::new(&problem, &machine, limits, prices);
        set_pins(&mut frontier, pins);
        let prepared = frontier.prepare();
        if streams == Streams::None && prepared.is_err() {
            streams = Streams::Fitting;
            continue;
        }
        prepared.map_err(|s| no_plan(&frontier, s))?;
        // With more persistent bytes than a tile has, whatever is chosen, there is nothing to search.
        hopeless = frontier.rest(0) > limits.memory;
        if !hopeless {
            let fronts = run(&mut frontier);
            if !fronts.is_empty() {
                return finish(&mut frontier, &fronts, explain);
            }
        }
        match streams {
            _ if limits.memory < tile_memory(&machine) => limits.memory = tile_memory(&machine),
            Streams::None => streams = Streams::Fitting,
            _ if hopeless => break,
            // What ends long before the last step is not rescued by a wider search.
            _ if frontier.reached * 10 < problem.steps.len() * 9 => break,
            _ => {
                widenings += 1;
                limits = limits.wider();
            }
        }
    }
    let machine = &Machine {
        streams,
        ..*machine
    };
    // What would be needed: the same without a limit, the smallest first.
    limits = Limits {
        memory: u64::MAX / 4,
        ..Limits::new(machine, finalists)
    };
    let mut frontier = Frontier::new(&problem, machine, limits, prices);
    set_pins(&mut frontier, pins);
    frontier.prepare().map_err(|s| no_plan(&frontier, s))?;
    // Without a limit the search would look for the fastest; where weights alone are too many, only
    // the smallest matters.
    let mut fronts = match hopeless {
        true => Vec::new(),
        false => run(&mut frontier),
    };
    let smallest = frontier.smallest();
    fronts.extend(smallest.and_then(|trace| frontier.label(&trace)));
    // The search counts largest shards as if all were on one tile; what counts is the fullest tile.
    for front in &mut fronts {
        front.labels.sort_by_key(|l| (l.persistent + l.peak, *l));
        front.labels.truncate(1);
    }
    fronts.sort_by_key(|f| f.labels.first().map(|l| l.persistent + l.peak));
    fronts.truncate(limits.finalists);
    let traces: Vec<Vec<u32>> = fronts
        .iter()
        .flat_map(|f| &f.labels)
        .map(|l| frontier.trace(l.node))
        .collect();
    let least = traces
        .iter()
        .filter_map(|t| memory::footprint(&mut frontier, t))
        .min_by_key(|f| f.bytes);
    if let Some(least) = least.filter(|f| f.bytes > tile_memory(machine)) {
        return Err(too_large(&frontier, &least));
    }
    frontier.met.insert("memory");
    finish(&mut frontier, &fronts, explain)
}

/// Part of all memory, 1 / so much, beyond which the weights of products are a reason to try plans
/// with distributed ones from the start: resident weights are on several tiles. Such a model has many
/// operators, whose code and exchange rows the search does not count: it is first searched in two thirds
/// of the memory.
const CROWDED: u64 = 8;

/// Whether weights take a good part of all memory.
fn crowded(problem: &Problem<'_>, machine: &Machine<'_>) -> bool {
    let weights = problem.steps.iter().flat_map(|step| {
        let linear = matches!(problem.graph.ops[step.op].kind, OpKind::Linear { .. });
        step.operands.iter().skip(1).take(usize::from(linear))
    });
    let bytes: u64 = weights
        .map(|w| {
            let ty = &problem.accesses[w.access as usize].to;
            ty.elements() * u64::from(ty.element.bytes())
        })
        .sum();
    bytes > u64::from(machine.tiles) * tile_memory(machine) / CROWDED
}

/// Bytes of a tile for weights, values, records and rows: what lies behind the code of kernels and
/// supervisor, the window of the host and the state of the runtime, as far as the loader reaches.
/// Rows of no more than one memory element have a place of their own in front of that state, which is
/// not counted.
fn tile_memory(machine: &Machine<'_>) -> u64 {
    let t = machine.target;
    u64::from(t.loader_end - t.runtime_state_base - t.runtime_state_bytes)
}

/// The error of a graph that fits in no plan that was found.
fn too_large(frontier: &Frontier<'_>, least: &memory::Footprint) -> SelectError {
    let problem = frontier.problem;
    let machine = frontier.machine;
    let op = &problem.graph.ops[problem.steps[least.step].op];
    let more = if machine.tiles < machine.target.tiles {
        "use more tiles, "
    } else {
        ""
    };
    let narrow = if machine.partials == plans::Partials::F32 {
        "f16 partial sums (option partials=f16), "
    } else {
        ""
    };
    SelectError::NoLowering(vec![NoLowering {
        location: op.location.clone(),
        message: format!(
            "the model does not fit: the smallest plans that were found need {} bytes on tile {} \
             at 'nn.{}', a tile has {} for them; {more}{narrow}a smaller batch or fewer layers at a time \
             help",
            least.bytes,
            least.tile,
            op.kind.name(),
            tile_memory(machine)
        ),
    }])
}

fn set_pins(frontier: &mut Frontier<'_>, pins: &[Option<Pin>]) {
    for (pin, step) in frontier.pins.iter_mut().zip(&frontier.problem.steps) {
        *pin = pins.get(step.op).copied().flatten();
    }
}

/// All steps from the empty state on.
fn run(frontier: &mut Frontier<'_>) -> Vec<Front> {
    let segments = segments::segments(frontier.problem);
    frontier.run(&segments, vec![start()])
}

/// The front before the first step.
fn start() -> Front {
    Front {
        state: State::default(),
        labels: vec![Label {
            cycles: 0,
            persistent: 0,
            peak: 0,
            form: 0,
            code: 0,
            node: START,
        }],
    }
}

/// The error of a step without plans.
fn no_plan(frontier: &Frontier<'_>, s: usize) -> SelectError {
    let problem = frontier.problem;
    let op = &problem.graph.ops[problem.steps[s].op];
    let machine = frontier.machine;
    let list = space::plans(problem.graph, &frontier.machine_for(s), op);
    let target = machine.target;
    let memory = u64::from(target.memory_end - target.memory_base);
    let smallest = list.iter().map(|c| c.bytes).min();
    let name = op.kind.name();
    let message = match (smallest, frontier.pins[s]) {
        (None, _) => format!("'nn.{name}' has no lowering to tiles"),
        (Some(needed), _) if needed > memory => format!(
            "the model does not fit: every plan of 'nn.{name}' on {} tiles needs {needed} bytes or \
             more on a tile, which has {memory}; {}",
            machine.tiles,
            if machine.tiles < target.tiles {
                "use more tiles"
            } else {
                "use narrower layers: a tile holds all rows of its 16 or more columns of a weight"
            }
        ),
        (Some(_), Some(pin)) => {
            let grids: BTreeSet<[u32; 3]> = list
                .iter()
                .filter(|c| c.bytes <= memory)
                .map(|c| [c.plan.grid_rows, c.plan.grid_columns, c.plan.grid_k])
                .collect();
            let some: Vec<String> = grids
                .iter()
                .take(12)
                .map(|[r, c, k]| format!("{r}x{c}x{k}"))
                .collect();
            format!(
                "'nn.{name}' has no plan with {pin} on {} tiles; {} grids are possible, such as {}",
                machine.tiles,
                grids.len(),
                some.join(", ")
            )
        }
        (Some(_), None) => format!("'nn.{name}' has no plan that fits a tile"),
    };
    SelectError::NoLowering(vec![NoLowering {
        location: op.location.clone(),
        message,
    }])
}

/// The best labels of the last fronts that differ in the plan of a heavy operator, with the cycles
/// of what comes at the end.
fn ranked(frontier: &mut Frontier<'_>, fronts: &[Front]) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    for front in fronts {
        let end = frontier.end(&front.state);
        labels.extend(front.labels.iter().map(|l| Label {
            cycles: l.cycles + end,
            ..*l
        }));
    }
    labels.sort_unstable();
    let mut forms = BTreeSet::new();
    labels.retain(|l| forms.insert(l.form));
    labels.truncate(frontier.limits.finalists);
    labels
}

/// The finalists of the last fronts.
fn finish(
    frontier: &mut Frontier<'_>,
    fronts: &[Front],
    explain: bool,
) -> Result<Found, SelectError> {
    let labels = ranked(frontier, fronts);
    let finalists = labels
        .iter()
        .filter_map(|l| selected(frontier, l))
        .collect();
    let best = labels.first().filter(|_| explain);
    let explanation = best.map(|best| explain::explain(frontier, best));
    Ok(Found {
        finalists,
        explanation,
        met: frontier.met.iter().copied().collect(),
    })
}

/// The graph of a label.
fn selected(frontier: &mut Frontier<'_>, label: &Label) -> Option<Selected> {
    let problem = frontier.problem;
    let mut graph = problem.graph.clone();
    let mut state = State::default();
    for (s, &choice) in frontier.trace(label.node).iter().enumerate() {
        let followed = frontier.follow_choice(s, &state, choice)?;
        let c = &frontier.choices[choice as usize];
        let mut plan = c.plan.clone();
        plan.exchange_cycles = followed.around;
        plan.candidates = frontier.count(s);
        let op = problem.steps[s].op;
        let result = graph.ops[op].result;
        graph.values[result.0 as usize].layout = Some(c.result.clone());
        graph.ops[op].plan = Some(plan);
        for (v, layout, _) in followed.placed {
            let layout = frontier.prices.layouts.get(layout).clone();
            graph.values[v as usize].layout = Some(layout);
        }
        state = followed.state;
    }
    let host = HostValues::of(&graph);
    let arrive = [graph.inputs.clone(), host.steps_read_by_program(&graph)].concat();
    for input in arrive {
        let matrix = graph.ty(input).matrix();
        let layout = &mut graph.values[input.0 as usize].layout;
        let spread = || plans::spread(frontier.machine.tiles, matrix, ElementOrder::Rows);
        layout.get_or_insert_with(spread);
    }
    Some(Selected {
        graph,
        cycles: label.cycles,
        persistent: label.persistent - label.code,
        code: label.code,
        peak: label.peak,
    })
}

#[cfg(test)]
mod tests;
