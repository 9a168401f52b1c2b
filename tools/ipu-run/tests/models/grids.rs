//! Plans in which several tiles share a contraction, whether selection would choose them or not:
//! the operator in f32, its tile program and the simulator.
#![allow(clippy::unwrap_used)] // of a helper

use crate::generate::{Model, Random, array};
use crate::levels::{interpret, relative_l2, same, simulate};
use ipu_image::emit::emit;
use ipu_interp::graph;
use ipu_interp::tile::Fill;
use ipu_passes::convert_layouts::convert_layouts;
use ipu_passes::phase_exchanges::phase_exchanges;
use ipu_passes::place_storage::place_storage;
use ipu_passes::registry::Options;
use ipu_passes::select_operators::plans::batched::Attention;
use ipu_passes::select_operators::plans::stream::Streams;
use ipu_passes::select_operators::plans::{
    Candidate, Machine, Partials, attention, gemm, linear_grid,
};
use ipu_passes::tile::tile;
use ipu_program::graph::{Activation, Graph, OpKind, Scalar};
use ipu_program::kernels::Kernels;
use ipu_program::plan::Residency;
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::Parameters;
use ipu_target::Target;

/// Relative L2 error of one operator: operands, sums and results are rounded to f16.
const LIMIT: f64 = 3e-3;

fn machine(tiles: u32, partials: Partials) -> Machine<'static> {
    Machine {
        target: Target::ipu21(),
        kernels: Kernels::builtin(),
        tiles,
        partials,
        streams: Streams::None,
    }
}

fn f16(shape: impl Into<Vec<u32>>) -> TensorType {
    TensorType::new(shape, ElementType::F16)
}

/// Carries out the last operator of a graph by a plan, at every level.
fn check(mut graph: Graph, plan: &Candidate, weights: &Parameters, random: &mut Random) {
    let what = format!("{graph:?}\n{:?}", plan.plan);
    let op = graph.ops.last_mut().unwrap();
    op.plan = Some(plan.plan.clone());
    let result = op.result;
    graph.values[result.0 as usize].layout = Some(plan.result.clone());
    graph.outputs.push(result);
    let inputs = [(); 2].map(|()| {
        let shapes = graph.inputs.iter().map(|&v| graph.ty(v).shape.clone());
        // As the model has them: rounded to f16.
        shapes
            .map(|shape| array(random, &shape, |v| (v * 256.0).round() / 256.0))
            .collect::<Vec<_>>()
    });
    let model = Model {
        text: String::new(),
        options: Options::default(),
        weights: weights.clone(),
        inputs,
        single: false,
    };
    let (target, kernels) = (Target::ipu21(), Kernels::builtin());
    let mut program = tile(&graph, kernels).unwrap_or_else(|e| panic!("{e}\n{what}"));
    let tiled = interpret(&model, &program, Fill::Poison).unwrap();
    convert_layouts(&mut program, kernels).unwrap_or_else(|e| panic!("{e}\n{what}"));
    phase_exchanges(&mut program, target, kernels, true).unwrap();
    place_storage(&mut program, target, kernels).unwrap_or_else(|e| panic!("{e}\n{what}"));
    let placed = interpret(&model, &program, Fill::Poison).unwrap();
    same("placed against tiled", &tiled, &placed).unwrap_or_else(|e| panic!("{e}\n{what}"));
    let package = emit(&program, target, kernels, 0).unwrap();
    let (found, report, _) = simulate(&model, &package).unwrap();
    same("simulator against tile interpreter", &tiled, &found)
        .unwrap_or_else(|e| panic!("{e}\n{what}"));
    let expected = graph::run(&graph, &model.inputs[0], weights).unwrap();
    let (error, within) = relative_l2(&expected[0], &found[0], [LIMIT, 2e-3], 0.0);
    assert!(within, "relative L2 error {error:e}\n{what}");
    let simulated = report.simulated.map_or(0, |s| s.total_cycles);
    let scheduled = report.scheduled_cycles.unwrap_or(0);
    assert!(
        simulated.abs_diff(scheduled) <= 60 + simulated * 3 / 100,
        "scheduled {scheduled}, simulated {simulated}\n{what}"
    );
}

/// A few of the plans: the best, the last, and some between.
fn some(plans: &[Candidate], random: &mut Random) -> Vec<Candidate> {
    let mut chosen = vec![plans[0].clone(), plans[plans.len() - 1].clone()];
    chosen.push(random.pick(plans));
    chosen
}

#[test]
fn linear_operators_on_grids_agree_at_every_level() {
    let mut random = Random::new(7);
    let mut shapes = vec![
        [8, 9, 40, 32, 16],
        [8, 13, 64, 72, 24],
        [17, 29, 100, 50, 16],
        [64, 91, 200, 144, 72],
    ];
    for _ in 0..6 {
        let tiles = random.pick(&[4, 8, 17, 64]);
        let [m, k] = [random.range(2, 100), random.range(17, 150)];
        shapes.push([tiles, m, k, random.range(1, 100), 16]);
    }
    for [tiles, m, k, n, unit] in shapes {
        for partials in [Partials::F32, Partials::F16] {
            let (bias, relu) = (random.chance(50), random.chance(50));
            let activation = if relu {
                Activation::Relu
            } else {
                Activation::None
            };
            let machine = machine(tiles, partials);
            let plans = linear_grid::linear(&machine, [m, k, n], &[unit], bias, activation);
            assert!(!plans.is_empty(), "{tiles} tiles, {m} x {k} x {n}");
            for plan in some(&plans, &mut random) {
                check_linear([m, k, n], bias, activation, &plan, &mut random);
            }
        }
    }
}

/// Carries out a linear operator by a plan.
fn check_linear(
    [m, k, n]: [u32; 3],
    bias: bool,
    activation: Activation,
    plan: &Candidate,
    random: &mut Random,
) {
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let mut weights = Parameters::new();
    let x = g.add_value(f16([m, k]));
    g.inputs.push(x);
    let mut operands = vec![x];
    for (name, shape, scale) in [
        ("w", vec![k, n], 1.7 / (k as f32).sqrt()),
        ("b", vec![n], 1.0),
    ] {
        if name == "w" || bias {
            weights.insert(name.into(), array(random, &shape, |v| v * scale));
            let kind = OpKind::Parameter { name: name.into() };
            operands.push(g.add_op(kind, vec![], f16(shape), String::new()));
        }
    }
    let kind = OpKind::Linear { activation };
    g.add_op(kind, operands, f16([m, n]), "here".into());
    check(g, plan, &weights, random);
}

#[test]
fn linear_operators_with_distributed_weights_agree_at_every_level() {
    let mut random = Random::new(23);
    let mut shapes = vec![
        [8, 9, 64, 32, 1],
        [8, 13, 96, 72, 2],
        [17, 29, 200, 50, 3],
        [64, 91, 272, 144, 4],
    ];
    for _ in 0..6 {
        let tiles = random.pick(&[4, 8, 17, 64]);
        let [m, k, n] = [
            random.range(4, 100),
            random.range(33, 250),
            random.range(1, 100),
        ];
        shapes.push([tiles, m, k, n, random.range(1, 3)]);
    }
    let mut seen = [0; 2];
    for [tiles, m, k, n, steps] in shapes {
        for partials in [Partials::F32, Partials::F16] {
            let (bias, relu) = (random.chance(50), random.chance(50));
            let activation = if relu {
                Activation::Relu
            } else {
                Activation::None
            };
            let machine = Machine {
                streams: Streams::Steps(steps),
                ..machine(tiles, partials)
            };
            let f16 = [ElementType::F16; 2];
            let whole = gemm::linear(&machine, f16, [m, k, n], &[1], bias, activation);
            let grids = linear_grid::linear(&machine, [m, k, n], &[16], bias, activation);
            for (family, plans) in [whole, grids].into_iter().enumerate() {
                let plans: Vec<Candidate> = plans
                    .into_iter()
                    .filter(|c| c.plan.weights == Residency::Distributed)
                    .collect();
                if plans.is_empty() {
                    continue;
                }
                for plan in some(&plans, &mut random) {
                    seen[family] += u32::from(plan.plan.steps == steps);
                    check_linear([m, k, n], bias, activation, &plan, &mut random);
                }
            }
        }
    }
    assert!(seen.iter().all(|&n| n >= 20), "{seen:?}");
}

#[test]
fn attention_on_grids_agrees_at_every_level() {
    let mut random = Random::new(11);
    let mut shapes = vec![
        [8, 1, 10, 20, 16, 16],
        [8, 2, 5, 7, 24, 8],
        [17, 2, 29, 37, 72, 72],
        [64, 3, 65, 50, 40, 33],
    ];
    for _ in 0..6 {
        let [tiles, heads] = [random.pick(&[8, 17, 64]), random.range(1, 3)];
        let [queries, keys] = [random.range(2, 70), random.range(2, 90)];
        let [depth, width] = [random.range(1, 80), random.range(1, 80)];
        shapes.push([tiles, heads, queries, keys, depth, width]);
    }
    for [tiles, heads, queries, keys, depth, width] in shapes {
        for partials in [Partials::F32, Partials::F16] {
            let shape = Attention {
                queries,
                keys,
                depth,
                width,
            };
            let plans = attention::plans(&machine(tiles, partials), heads, &shape);
            assert!(!plans.is_empty(), "{tiles} tiles, {heads} heads, {shape:?}");
            for plan in some(&plans, &mut random) {
                let mut g = Graph {
                    name: "main".into(),
                    ..Graph::default()
                };
                for shape in [[queries, depth], [keys, depth], [keys, width]] {
                    let input = g.add_value(f16([heads, shape[0], shape[1]]));
                    g.inputs.push(input);
                }
                let kind = OpKind::Attention {
                    heads: 1,
                    scale: Scalar::new(2.0 / (depth as f32).sqrt()),
                    causal: false,
                };
                let operands = g.inputs.clone();
                g.add_op(kind, operands, f16([heads, queries, width]), "here".into());
                check(g, &plan, &Parameters::new(), &mut random);
            }
        }
    }
}
