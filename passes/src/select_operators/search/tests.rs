//! The search against exhaustive enumeration, and its memory against a replay of lifetimes.

use super::*;
use crate::select_operators::plans::Partials;
use crate::select_operators::plans::stream::Streams;
use ipu_program::graph::{Activation, BinaryKind, OpKind, UnaryKind, ValueId};
use ipu_program::kernels::Kernels;
use ipu_program::layout::{Layout, MemoryClass};
use ipu_program::types::{ElementType, TensorType};
use ipu_target::Target;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn machine(tiles: u32) -> Machine<'static> {
    Machine {
        target: Target::ipu21(),
        kernels: Kernels::builtin(),
        tiles,
        partials: Partials::F32,
        streams: Streams::None,
    }
}

/// What an operator of a random graph is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear { width: u32 },
    Add { other: usize },
    Gelu,
    Norm,
}

fn kinds(most: usize) -> impl Strategy<Value = Vec<Kind>> {
    let kind = prop_oneof![
        3 => prop_oneof![Just(16u32), Just(32), Just(48)].prop_map(|width| Kind::Linear { width }),
        2 => (0usize..4).prop_map(|other| Kind::Add { other }),
        1 => Just(Kind::Gelu),
        1 => Just(Kind::Norm),
    ];
    prop::collection::vec(kind, 1..=most)
}

/// A graph of operators on `rows` rows, each on the last value and perhaps an earlier one.
fn graph(rows: u32, kinds: &[Kind]) -> Graph {
    let mut g = Graph::default();
    let ty = |columns| TensorType::new([rows, columns], ElementType::F16);
    let x = g.add_value(ty(32));
    g.inputs.push(x);
    let mut values: Vec<(ValueId, u32)> = vec![(x, 32)];
    let host = |g: &mut Graph, shape: &[u32]| {
        let name = format!("p{}", g.ops.len());
        let ty = TensorType::new(shape.to_vec(), ElementType::F16);
        g.add_op(OpKind::Parameter { name }, vec![], ty, String::new())
    };
    for &kind in kinds {
        let &(x, width) = values.last().unwrap();
        let (y, width) = match kind {
            Kind::Linear { width: to } => {
                let w = host(&mut g, &[width, to]);
                let kind = OpKind::Linear {
                    activation: Activation::None,
                };
                (g.add_op(kind, vec![x, w], ty(to), String::new()), to)
            }
            Kind::Add { other } => {
                let same: Vec<ValueId> = values
                    .iter()
                    .filter(|v| v.1 == width)
                    .map(|v| v.0)
                    .collect();
                let other = same[other % same.len()];
                let kind = OpKind::Binary(BinaryKind::Add);
                (
                    g.add_op(kind, vec![x, other], ty(width), String::new()),
                    width,
                )
            }
            Kind::Gelu => {
                let kind = OpKind::Unary(UnaryKind::GeluTanh);
                (g.add_op(kind, vec![x], ty(width), String::new()), width)
            }
            Kind::Norm => {
                let (s, b) = (host(&mut g, &[width]), host(&mut g, &[width]));
                let epsilon = ipu_program::graph::Scalar::new(1e-6);
                let kind = OpKind::LayerNorm { epsilon };
                (
                    g.add_op(kind, vec![x, s, b], ty(width), String::new()),
                    width,
                )
            }
        };
        values.push((y, width));
    }
    g.outputs.push(values.last().unwrap().0);
    g
}

/// No bound but memory.
fn unbounded(machine: &Machine<'_>, memory: u64, finalists: usize) -> Limits {
    Limits {
        memory,
        plans: usize::MAX,
        contenders: usize::MAX,
        views: usize::MAX,
        elements: usize::MAX,
        beam: usize::MAX,
        inner: usize::MAX,
        interfaces: usize::MAX,
        labels: usize::MAX,
        ..Limits::new(machine, finalists)
    }
}

/// All complete choices, one after the other: cycles, bytes and the plans' forms.
fn enumerate(frontier: &mut Frontier<'_>, out: &mut Vec<(u64, u64, Vec<u32>)>) {
    fn go(
        f: &mut Frontier<'_>,
        s: usize,
        at: (&State, u64, u64, u64),
        trace: &mut Vec<u32>,
        out: &mut Vec<(u64, u64, Vec<u32>)>,
    ) {
        let (state, cycles, persistent, peak) = at;
        if s == f.problem.steps.len() {
            let end = f.end(state);
            out.push((cycles + end, persistent + peak, trace.clone()));
            return;
        }
        for choice in f.all(s, state) {
            let Some(next) = f.follow_choice(s, state, choice) else {
                continue;
            };
            let c = &f.choices[choice as usize];
            let cycles = cycles + c.plan.compute_cycles + next.around;
            let persistent = persistent + c.persistent + next.code;
            trace.push(choice);
            go(
                f,
                s + 1,
                (&next.state, cycles, persistent, peak.max(next.most)),
                trace,
                out,
            );
            trace.pop();
        }
    }
    go(
        frontier,
        0,
        (&State::default(), 0, 0, 0),
        &mut Vec::new(),
        out,
    );
}

/// The most bytes that live at one time, from the plans alone: every value and every copy from the
/// operator that makes it to the last one that reads its value.
fn replay(g: &Graph) -> u64 {
    let places = |l: &Layout| Layout {
        memory: MemoryClass::Any,
        ..l.clone()
    };
    let bytes = |l: &Layout, v: ValueId| u64::from(l.storage(g.ty(v).element).bytes());
    let host = |v: ValueId| {
        g.definition(v)
            .is_some_and(|op| matches!(op.kind, OpKind::Parameter { .. }))
    };
    let planned: Vec<_> = g.ops.iter().filter(|op| op.plan.is_some()).collect();
    let end = planned.len();
    let mut last: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (i, op) in planned.iter().enumerate() {
        last.extend(op.operands.iter().map(|&v| (v, i)));
    }
    last.extend(g.outputs.iter().map(|&v| (v, end)));
    // Buffers: value, layout, first and last operator.
    let mut buffers: Vec<(ValueId, Layout, usize, usize)> = Vec::new();
    let mut extra = vec![0; end];
    for (i, op) in planned.iter().enumerate() {
        let plan = op.plan.as_ref().unwrap();
        for (&v, l) in op.operands.iter().zip(&plan.operands) {
            if host(v) {
                continue;
            }
            let stored = places(g.value(v).layout.as_ref().unwrap());
            for l in [stored, places(l)] {
                if !buffers.iter().any(|b| (b.0, &b.1) == (v, &l)) {
                    buffers.push((v, l, i, last[&v]));
                }
            }
        }
        let layout = places(g.value(op.result).layout.as_ref().unwrap());
        let end = last.get(&op.result).copied().unwrap_or(i);
        buffers.push((op.result, layout.clone(), i, end));
        // What a split product needs besides: partial sums on both sides, accumulators.
        if plan.grid_k > 1 && plan.grid_rows > 1 {
            // A block of sums where they are computed, all blocks of some rows where they are added,
            // and accumulators.
            let (x, w) = (&plan.operands[0], &plan.operands[1]);
            let width = u64::from(w.columns.block.next_multiple_of(16));
            let (rows, own) = (u64::from(x.rows.block), u64::from(layout.rows.block));
            extra[i] += 4 * width * (rows + own * u64::from(plan.grid_k)) + rows * 32;
        } else if plan.grid_k > 1 {
            let m = g.ty(op.operands[0]).matrix();
            let n = g.ty(op.result).matrix().columns;
            let r = crate::select_operators::plans::gemm::Reduction::new(
                plan.grid_k,
                m.rows,
                n,
                plan.operands[1].columns,
                g.value(op.result).layout.as_ref().unwrap(),
            );
            extra[i] += u64::from(r.partial.storage(ElementType::F32).bytes());
            extra[i] += u64::from(r.staging.storage(ElementType::F32).bytes());
            extra[i] += u64::from(m.rows) * 32
                + bytes(g.value(op.result).layout.as_ref().unwrap(), op.result);
        } else if matches!(op.kind, OpKind::Linear { .. }) && plan.partials == ElementType::F32 {
            let rows = plan.operands[0].rows.block;
            extra[i] += u64::from(rows) * 32;
        }
    }
    (0..end)
        .map(|i| {
            let live = buffers.iter().filter(|b| b.2 <= i && i <= b.3);
            live.map(|b| bytes(&b.1, b.0)).sum::<u64>() + extra[i]
        })
        .max()
        .unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The best, and the best of different forms, are those of all complete choices; also when
    /// memory allows only some of them.
    #[test]
    fn nothing_better_is_missed(kinds in kinds(3), rows in 1u32..5, tight in 0u32..3) {
        let g = graph(rows, &kinds);
        let m = machine(2);
        let problem = Problem::new(&g, |_| String::new());
        let mut all = Vec::new();
        let mut prices = Prices::default();
        let mut f = Frontier::new(&problem, &m, unbounded(&m, u64::MAX / 4, 3), &mut prices);
        f.prepare().unwrap();
        enumerate(&mut f, &mut all);
        prop_assume!(!all.is_empty() && all.len() < 200_000);
        all.sort();
        let (least, most) = (all.iter().map(|a| a.1).min().unwrap(), all.iter().map(|a| a.1).max().unwrap());
        let memory = match tight {
            0 => u64::MAX / 4,
            1 => least,
            _ => (least + most) / 2,
        };
        let mut prices = Prices::default();
        let mut searched = Frontier::new(&problem, &m, unbounded(&m, memory, 3), &mut prices);
        searched.prepare().unwrap();
        let fronts = run(&mut searched);
        let labels = ranked(&mut searched, &fronts);
        // The fewest cycles of each set of heavy plans, from the enumeration.
        let mut forms: BTreeMap<u64, u64> = BTreeMap::new();
        for (cycles, _, trace) in all.iter().filter(|a| a.1 <= memory) {
            let form = (0..trace.len()).map(|s| f.form(s, trace[s])).fold(0u64, u64::wrapping_add);
            let best = forms.entry(form).or_insert(*cycles);
            *best = (*best).min(*cycles);
        }
        let mut expected: Vec<u64> = forms.into_values().collect();
        expected.sort_unstable();
        expected.truncate(3);
        let actual: Vec<u64> = labels.iter().map(|l| l.cycles).collect();
        prop_assert_eq!(actual, expected);
    }

    /// The peak of a label is that of the lifetimes of its plans.
    #[test]
    fn peaks_are_those_of_lifetimes(kinds in kinds(6), rows in 1u32..40, tiles in 1u32..9) {
        let g = graph(rows, &kinds);
        let m = machine(tiles);
        let found = search(&g, &m, 3, &[], false, &mut Prices::default()).unwrap();
        for finalist in &found.finalists {
            prop_assert_eq!(finalist.peak, replay(&finalist.graph));
        }
    }

    /// The same graph has the same result, however often it is searched.
    #[test]
    fn results_are_equal(kinds in kinds(8), rows in 1u32..40) {
        let g = graph(rows, &kinds);
        let m = machine(16);
        let first = search(&g, &m, 4, &[], false, &mut Prices::default()).unwrap();
        for _ in 0..4 {
            prop_assert_eq!(&search(&g, &m, 4, &[], false, &mut Prices::default()).unwrap(), &first);
        }
    }
}

#[test]
fn equal_layers_are_solved_once_as_well_as_apart() {
    // Eleven layers of a residual network, more steps than one segment has.
    let layer = [
        Kind::Norm,
        Kind::Linear { width: 48 },
        Kind::Gelu,
        Kind::Linear { width: 32 },
        Kind::Gelu,
        Kind::Norm,
    ];
    let kinds: Vec<Kind> = layer.iter().copied().cycle().take(66).collect();
    let g = graph(8, &kinds);
    let m = machine(4);
    let problem = Problem::new(&g, |_| String::new());
    let list = segments::segments(&problem);
    assert!(list.len() > 11);
    let templates: BTreeSet<u32> = list.iter().map(|s| s.template).collect();
    assert!(templates.len() < list.len());
    let memory = u64::MAX / 4;
    let mut prices = Prices::default();
    let mut f = Frontier::new(&problem, &m, unbounded(&m, memory, 1), &mut prices);
    f.prepare().unwrap();
    let fronts = run(&mut f);
    let apart = ranked(&mut f, &fronts)[0].cycles;
    let mut prices = Prices::default();
    let mut f = Frontier::new(&problem, &m, unbounded(&m, memory, 1), &mut prices);
    f.prepare().unwrap();
    let whole = segments::Segment {
        steps: 0..problem.steps.len(),
        template: 0,
        values: Vec::new(),
    };
    let fronts = f.run(&[whole], vec![start()]);
    assert_eq!(ranked(&mut f, &fronts)[0].cycles, apart);
}

/// Two values of the beginning are read at the end: nowhere in between is one value alone live.
#[test]
fn segments_end_where_three_values_are_live() {
    let layer = [
        Kind::Norm,
        Kind::Gelu,
        Kind::Linear { width: 32 },
        Kind::Gelu,
        Kind::Norm,
        Kind::Gelu,
    ];
    let mut kinds = vec![Kind::Gelu, Kind::Norm];
    kinds.extend(layer.iter().copied().cycle().take(184));
    // Values 1 and 2 are those of the first two.
    kinds.extend([Kind::Add { other: 1 }, Kind::Add { other: 2 }]);
    let g = graph(2, &kinds);
    let m = machine(2);
    let problem = Problem::new(&g, |_| String::new());
    let list = segments::segments(&problem);
    let ends: Vec<usize> = list.iter().map(|s| s.steps.end).collect();
    assert_eq!(ends, [1, 61, 121, 181, problem.steps.len()]);
    assert_eq!(list[2].template, list[3].template);
    // The value that goes on, and the two that wait.
    for s in [60, 120, 180] {
        let made = problem.steps[..=s]
            .iter()
            .map(|step| g.ops[step.op].result.0);
        assert_eq!(made.filter(|&v| problem.lives(v, s)).count(), 3);
    }
    let memory = u64::MAX / 4;
    let mut prices = Prices::default();
    let mut f = Frontier::new(&problem, &m, unbounded(&m, memory, 1), &mut prices);
    f.prepare().unwrap();
    let fronts = run(&mut f);
    let apart = ranked(&mut f, &fronts)[0];
    assert_eq!(f.trace(apart.node).len(), problem.steps.len());
    let whole = segments::Segment {
        steps: 0..problem.steps.len(),
        template: 0,
        values: Vec::new(),
    };
    let fronts = f.run(&[whole], vec![start()]);
    let together = ranked(&mut f, &fronts)[0];
    assert_eq!(
        (together.cycles, together.persistent),
        (apart.cycles, apart.persistent)
    );
}

/// What the bounds of the search cost where memory is short: at five limits from loose to the least
/// with which anything was found, against bounds that are eight times as wide: a tenth at most.
#[test]
fn bounds_lose_little_where_memory_is_short() {
    let layer = [
        Kind::Norm,
        Kind::Linear { width: 48 },
        Kind::Gelu,
        Kind::Linear { width: 32 },
        Kind::Add { other: 0 },
    ];
    let kinds: Vec<Kind> = layer.iter().copied().cycle().take(20).collect();
    let g = graph(24, &kinds);
    let m = machine(16);
    let problem = Problem::new(&g, |_| String::new());
    let usual = Limits::new(&m, 1);
    let wide = Limits {
        plans: usual.plans * 8,
        contenders: usual.contenders * 8,
        views: usual.views * 8,
        elements: usual.elements * 8,
        beam: usual.beam * 8,
        inner: usual.inner * 8,
        interfaces: usual.interfaces * 8,
        labels: usual.labels * 8,
        ..usual
    };
    let mut prices = Prices::default();
    let mut best = |limits: Limits| {
        let mut f = Frontier::new(&problem, &m, limits, &mut prices);
        f.prepare().unwrap();
        let fronts = run(&mut f);
        let labels = fronts.iter().flat_map(|front| &front.labels);
        let needed = |l: &Label| l.persistent + l.peak;
        let least = labels.clone().map(needed).min();
        let fastest = labels
            .min_by_key(|l| l.cycles)
            .map(|l| (l.cycles, needed(l)));
        fastest.zip(least)
    };
    let unlimited = Limits {
        memory: u64::MAX / 4,
        ..wide
    };
    let ((_, most), mut least) = best(unlimited).unwrap();
    // Less memory leads to what needs still less.
    while let Some((_, less)) = best(Limits {
        memory: least - 8,
        ..wide
    }) {
        least = less;
    }
    assert!(least < most);
    for step in 0..5 {
        let memory = least + (most - least) * step / 4;
        let ((wide, _), _) = best(Limits { memory, ..wide }).unwrap();
        // As a search is widened when nothing fits.
        let usual = Limits { memory, ..usual };
        let widths = [usual, usual.wider(), usual.wider().wider()];
        let ((cycles, _), _) = widths.into_iter().find_map(&mut best).unwrap();
        println!("{memory} bytes: {cycles} cycles, {wide} with wide bounds");
        assert!(cycles * 10 <= wide * 11, "{memory}: {cycles}, {wide}");
    }
}

/// The heavy operators of a graph with what a person would call different plans of them: those that
/// take a twentieth of the least compute of all.
fn heavy_plans(graph: &Graph, m: &Machine<'_>) -> Vec<String> {
    use crate::select_operators::{algebra::Operand, operator_cost};
    let host = ipu_program::host::HostValues::of(graph);
    let planned = graph.ops.iter().filter_map(|op| {
        let operand = |&v: &ValueId| Operand {
            ty: graph.ty(v).clone(),
            host: host.contains(v),
        };
        let operands: Vec<Operand> = op.operands.iter().map(operand).collect();
        let least = operator_cost(m, &op.kind, &operands, graph.ty(op.result))?;
        let plan = op.plan.as_ref()?;
        let grid = [plan.grid_rows, plan.grid_columns, plan.grid_k];
        Some((
            least,
            format!("{:?} {grid:?} {}", plan.family, plan.partials),
        ))
    });
    let planned: Vec<(u64, String)> = planned.collect();
    let all: u64 = planned.iter().map(|p| p.0).sum();
    let heavy = planned.into_iter().filter(|p| p.0 * 20 >= all);
    heavy.map(|p| p.1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No two finalists are the same algebra with the same plans of heavy operators.
    #[test]
    fn finalists_are_different(kinds in kinds(8), rows in 1u32..40, tiles in 2u32..17) {
        use crate::select_operators::{algebra, select, Wanted};
        let g = graph(rows, &kinds);
        let m = machine(tiles);
        let options = algebra::Options::default();
        let wanted = Wanted {
            finalists: 4,
            hints: &[],
            explain: false,
            algebra: &options,
            rules: algebra::Rules::builtin().unwrap(),
        };
        let (selection, _) = select(&g, &m, &wanted).unwrap();
        let mut seen = BTreeSet::new();
        for f in &selection.finalists {
            let what = (algebra::signature(&f.graph), heavy_plans(&f.graph, &m));
            prop_assert!(seen.insert(what.clone()), "{:?} twice", what);
        }
    }

    /// As many threads as there may be, the same result.
    #[test]
    fn threads_do_not_matter(kinds in kinds(8), rows in 1u32..40) {
        let g = graph(rows, &kinds);
        let m = machine(16);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| search(&g, &m, 4, &[], true, &mut Prices::default()).unwrap())
        };
        let first = with(1);
        for threads in [4, 1, 4, 4] {
            prop_assert_eq!(&with(threads), &first);
        }
    }
}

/// The fewest cycles of a graph by an integer program in which every move pays its own phase and
/// nobody shares what another operator was brought: no way through the graph is better there than in
/// the search.
fn integer_program(f: &mut Frontier<'_>) -> f64 {
    use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};
    let problem = f.problem;
    let opening = f.machine.phase(0);
    let mut vars = variables!();
    let mut objective = Expression::from(0.0);
    let mut constraints = Vec::new();
    // Producer of a value, with the choices and variables of its step.
    let mut made: BTreeMap<u32, Vec<(u32, good_lp::Variable)>> = BTreeMap::new();
    for s in 0..problem.steps.len() {
        let step = &problem.steps[s];
        let options = f.options(s);
        let own: Vec<(u32, good_lp::Variable)> = options
            .iter()
            .map(|&c| (c, vars.add(variable().binary())))
            .collect();
        let one: Expression = own.iter().map(|v| Expression::from(v.1)).sum();
        constraints.push(constraint!(one == 1.0));
        for &(c, x) in &own {
            let sums = f.own(s, c).unwrap();
            let sync = if sums.events > 0 { opening } else { 0 };
            let alone = f.choices[c as usize].plan.compute_cycles;
            let cycles = alone + sums.before + sums.events + sums.after + sync;
            objective += cycles as f64 * x;
            for (i, operand) in step.operands.iter().enumerate() {
                let to = f.choices[c as usize].operands[i];
                let again = step.operands[..i].iter().any(|o| o.value == operand.value);
                if operand.origin == problem::Origin::Host || again {
                    continue;
                }
                let number = f.numbers[operand.access as usize];
                match made.get(&operand.base.0) {
                    None => {
                        let from = f.prices.arrival(f.machine.tiles, number, to);
                        let moved = f.prices.exact(f.machine, (number, from, to)).unwrap();
                        objective += moved.cycles(f.machine) as f64 * x;
                    }
                    Some(producer) => {
                        for &(p, y) in producer {
                            let from = f.choices[p as usize].result_id;
                            let moved = f.prices.exact(f.machine, (number, from, to)).unwrap();
                            let cycles = moved.cycles(f.machine);
                            if cycles > 0 {
                                let both = vars.add(variable().min(0.0));
                                constraints.push(constraint!(both >= x + y - 1.0));
                                objective += cycles as f64 * both;
                            }
                        }
                    }
                }
            }
        }
        made.insert(problem.graph.ops[step.op].result.0, own);
    }
    let cost = objective.clone();
    let mut model = vars.minimise(objective).using(microlp);
    for c in constraints {
        model = model.with(c);
    }
    model.solve().unwrap().eval(cost)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn never_worse_than_an_integer_program(kinds in kinds(6), rows in 1u32..9) {
        let g = graph(rows, &kinds);
        // An argument that two operators read arrives for the first of them only.
        let x = g.inputs[0];
        let readers = g.ops.iter().filter(|op| op.operands.contains(&x)).count();
        prop_assume!(readers == 1);
        let m = machine(4);
        let problem = Problem::new(&g, |_| String::new());
        let mut prices = Prices::default();
        let mut f = Frontier::new(&problem, &m, Limits::new(&m, 1), &mut prices);
        f.prepare().unwrap();
        let fronts = run(&mut f);
        let found = ranked(&mut f, &fronts)[0].cycles;
        let bound = integer_program(&mut f);
        prop_assert!(found as f64 <= bound + 1e-3, "{} found, {} by the integer program", found, bound);
    }
}
