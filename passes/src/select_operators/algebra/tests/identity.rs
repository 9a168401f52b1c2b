//! Without rules, what is exported is what was imported, but for equal operations, which are one, and
//! those that nobody reads.

use super::super::rules::Rules;
use super::super::{Algebra, Operand, Options};
use super::build::Encoder;
use super::cases::case;
use crate::select_operators::normalize::normalize;
use crate::session::Session;
use ipu_program::graph::{Graph, OpKind, ValueId};
use ipu_program::types::TensorType;
use pretty_assertions::assert_eq;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A graph without equal operations and without those that nobody reads.
fn reduced(graph: &Graph) -> Graph {
    // Of equal operations the first, by what they are and what they read.
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut same: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut doubles: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let of = |same: &BTreeMap<ValueId, ValueId>, v: ValueId| same.get(&v).copied().unwrap_or(v);
    for (i, op) in graph.ops.iter().enumerate() {
        let operands: Vec<ValueId> = op.operands.iter().map(|&v| of(&same, v)).collect();
        let key = format!("{:?} {operands:?} {:?}", op.kind, graph.ty(op.result));
        let known = *first.entry(key).or_insert(i);
        if known != i {
            let twin = &graph.ops[known];
            same.insert(op.result, twin.result);
            for (&a, &b) in op.more_results.iter().zip(&twin.more_results) {
                same.insert(a, b);
            }
        }
        doubles.entry(known).or_default().push(i);
    }
    let mut read: BTreeSet<ValueId> = graph.outputs.iter().map(|&v| of(&same, v)).collect();
    let mut kept = Vec::new();
    for (&i, _) in doubles.iter().rev() {
        let op = &graph.ops[i];
        if std::iter::once(&op.result)
            .chain(&op.more_results)
            .any(|v| read.contains(v))
        {
            kept.push(i);
            read.extend(op.operands.iter().map(|&v| of(&same, v)));
        }
    }
    let mut out = Graph {
        name: graph.name.clone(),
        ..Graph::default()
    };
    let mut to: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for &v in &graph.inputs {
        let new = out.add_value(graph.ty(v).clone());
        out.inputs.push(new);
        to.insert(v, new);
    }
    for &i in kept.iter().rev() {
        let op = &graph.ops[i];
        let operands = op.operands.iter().map(|&v| to[&of(&same, v)]).collect();
        let ty = graph.ty(op.result).clone();
        let result = out.add_op(op.kind.clone(), operands, ty, op.location.clone());
        to.insert(op.result, result);
        for &v in &op.more_results {
            let new = out.add_value(graph.ty(v).clone());
            to.insert(v, new);
            out.ops.last_mut().unwrap().more_results.push(new);
        }
        // Nothing of the model is without a place.
        let mut places: Vec<String> = Vec::new();
        for &double in &doubles[&i] {
            let double = &graph.ops[double];
            for place in std::iter::once(&double.location).chain(&double.fused) {
                if !place.is_empty() && !places.contains(place) {
                    places.push(place.clone());
                }
            }
        }
        out.ops.last_mut().unwrap().fused = places.into_iter().skip(1).collect();
    }
    out.outputs = graph.outputs.iter().map(|&v| to[&of(&same, v)]).collect();
    out
}

fn round_trip(graph: &Graph, name: &str) {
    let rules = Rules {
        rules: Vec::new(),
        ..Rules::builtin().unwrap().clone()
    };
    let options = Options {
        groups: false,
        ..Options::default()
    };
    let algebra = Algebra::with_rules(graph, &options, &rules).unwrap();
    let cost = |_: &OpKind, _: &[Operand], _: &TensorType| Some(1);
    let variants: Vec<_> = algebra.variants(&cost).collect();
    assert_eq!(variants.len(), 1, "{name}");
    let mut expected = reduced(graph);
    for (input, own) in graph.inputs.iter().zip(expected.inputs.clone()) {
        expected.values[own.0 as usize].layout = graph.value(*input).layout.clone();
    }
    assert_eq!(variants[0].graph, expected, "{name}");
}

#[test]
fn examples_come_back_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().join("model.mlir");
        let Ok(text) = std::fs::read(&path) else {
            continue;
        };
        let name = path.display().to_string();
        let session = Session::new();
        let graph = session.parse(&text, &name).unwrap().graph("main").unwrap();
        round_trip(&graph, &name);
        round_trip(&normalize(&graph), &name);
        count += 1;
    }
    assert!(count >= 5, "{count} examples");
}

#[test]
fn random_graphs_come_back_as_they_are() {
    let mut count = 0;
    for rule in &Rules::builtin().unwrap().rules {
        for seed in 0..20 {
            let Some((graph, _)) = case(&rule.name, seed) else {
                continue;
            };
            round_trip(&graph, &format!("{} {seed}", rule.name));
            count += 1;
        }
    }
    assert!(count > 500, "{count} graphs");
    round_trip(&Encoder::siglip(2).graph(), "encoder");
}

#[test]
fn places_of_equal_operations_are_kept() {
    let mut b = super::build::Build::new(0);
    let x = b.input(&[2, 3]);
    let first = b.unary(ipu_program::graph::UnaryKind::Tanh, x);
    let second = b.unary(ipu_program::graph::UnaryKind::Tanh, x);
    let sum = b.binary(ipu_program::graph::BinaryKind::Add, first, second);
    let (graph, _) = b.done(sum);
    let out = reduced(&graph);
    assert_eq!(out.ops.len(), 2);
    assert_eq!(out.ops[0].fused, [graph.ops[1].location.clone()]);
    round_trip(&graph, "twins");
}
