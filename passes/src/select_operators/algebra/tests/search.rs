//! The order of variants, against the enumeration of all choices; sizes; determinism.

use super::super::components::searched;
use super::super::export::{Choice, export};
use super::super::frozen::{Content, Frozen};
use super::super::rules::Rules;
use super::super::{Algebra, Numerics, Operand, Options, signature};
use super::build::Encoder;
use super::cases::case;
use ipu_program::graph::{Graph, OpKind};
use ipu_program::types::TensorType;
use std::collections::{BTreeMap, BTreeSet};

/// A cost that knows nothing of machines: any number, the same for the same operator.
fn any_cost(kind: &OpKind, operands: &[Operand], ty: &TensorType) -> Option<u64> {
    let text = format!("{kind:?}{operands:?}{ty:?}");
    let hash = text
        .bytes()
        .fold(5u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    Some(hash % 17)
}

/// Multiplications and elements, about.
pub fn work(kind: &OpKind, operands: &[Operand], ty: &TensorType) -> Option<u64> {
    let out = ty.elements();
    let depth = |i: usize| u64::from(operands[i].ty.shape.last().copied().unwrap_or(1));
    Some(match kind {
        // A launch costs as well, so that one operator is better than three.
        OpKind::Linear { .. } => 10_000 + out * depth(0) / 64,
        OpKind::Matmul { .. } if operands[1].host => return None,
        OpKind::Matmul { .. } => 10_000 + out * depth(0) / 64,
        OpKind::Attention { .. } => 10_000 + operands[1].ty.elements() * depth(0) / 64,
        OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Softmax { .. } => 1_000 + out / 8,
        OpKind::LayerNorm { .. } => 1_000 + out / 4,
        _ => 0,
    })
}

/// All choices with their costs, by signature the least; `None` if there are too many.
fn all(frozen: &Frozen) -> Option<BTreeMap<u64, u64>> {
    let recipes = frozen.recipes();
    let mut out = BTreeMap::new();
    let mut count = 0;
    let mut stack = vec![Choice::new()];
    while let Some(choice) = stack.pop() {
        count += 1;
        if count > 20_000 {
            return None;
        }
        // The first class that is needed and has no choice.
        let mut open = None;
        let mut seen = BTreeSet::new();
        let mut cost = 0;
        let mut todo: Vec<u32> = frozen.outputs.clone();
        while let Some(c) = todo.pop() {
            if !searched(frozen, c) || !seen.insert(c) {
                continue;
            }
            let class = frozen.class(c);
            let Some(&n) = choice.get(&c) else {
                open = Some(c);
                break;
            };
            let node = &class.nodes[n];
            if let Content::Op(kind) = &node.content {
                let operands: Vec<Operand> = frozen
                    .operands(node)
                    .map(|d| Operand {
                        ty: frozen.class(d).types[0].clone(),
                        host: frozen.class(d).host,
                    })
                    .collect();
                cost += any_cost(kind, &operands, &class.types[0])?;
            }
            todo.extend(frozen.operands(node));
        }
        match open {
            Some(c) => {
                for n in 0..frozen.class(c).nodes.len() {
                    let mut next = choice.clone();
                    next.insert(c, n);
                    stack.push(next);
                }
            }
            None => {
                if let Some(graph) = export(frozen, &choice, &recipes) {
                    let least = out.entry(signature(&graph)).or_insert(cost);
                    *least = cost.min(*least);
                }
            }
        }
    }
    Some(out)
}

#[test]
fn variants_are_all_choices_in_order() {
    let options = Options {
        numerics: Numerics::Fast,
        max_variants: usize::MAX,
        max_sums: usize::MAX,
        ..Options::default()
    };
    let (mut compared, mut most) = (0, 0);
    for rule in &Rules::builtin().unwrap().rules {
        for seed in 0..12 {
            let Some((graph, _)) = case(&rule.name, seed) else {
                continue;
            };
            let algebra = Algebra::saturate(&graph, &options).unwrap();
            let Some(wanted) = all(&algebra.frozen) else {
                continue;
            };
            let mut variants = algebra.variants(&any_cost);
            let found: Vec<_> = variants.by_ref().collect();
            assert_eq!(variants.limit_hit(), None);
            assert!(found.is_sorted_by_key(|v| v.lower_bound), "{}", rule.name);
            let costs: BTreeMap<u64, u64> =
                found.iter().map(|v| (v.signature, v.lower_bound)).collect();
            assert_eq!(costs.len(), found.len());
            assert_eq!(
                costs,
                wanted,
                "{} seed {seed}: {}",
                rule.name,
                algebra.to_text()
            );
            compared += 1;
            most = most.max(found.len());
        }
    }
    assert!(
        compared > 200 && most > 4,
        "{compared} graphs, {most} variants at most"
    );
}

/// An operator's name and its operands, of those that are computed.
fn count(graph: &Graph, name: &str) -> usize {
    graph.ops.iter().filter(|o| o.kind.name() == name).count()
}

#[test]
fn encoders_saturate_and_get_merged_projections_and_attention() {
    for blocks in [12, 27] {
        let graph = Encoder::siglip(blocks).graph();
        let start = std::time::Instant::now();
        let algebra = Algebra::saturate(&graph, &Options::default()).unwrap();
        let saturated = start.elapsed();
        let mut variants = algebra.variants(&work);
        let first = variants.next().unwrap();
        let found = start.elapsed();
        let report = algebra.report();
        // For people: cargo nextest run --release --no-capture encoders_saturate.
        println!(
            "{blocks} blocks: {} nodes, {} classes, {} iterations, {saturated:?}, first variant \
             after {:?}, {:?}",
            report.nodes,
            report.classes,
            report.iterations,
            found - saturated,
            variants.limit_hit()
        );
        assert_eq!(report.stop, "saturated");
        assert!(report.caps.is_empty());
        assert!(report.nodes <= 20_000, "{}", report.nodes);
        let g = &first.graph;
        // Three projections are one, so four products a block, and nothing else multiplies.
        assert_eq!(count(g, "linear"), 4 * blocks);
        assert_eq!(count(g, "attention"), blocks);
        assert_eq!(
            count(g, "softmax") + count(g, "matmul") + count(g, "mul"),
            0
        );
        assert_eq!(count(g, "split_heads"), 3 * blocks);
        assert_eq!(variants.limit_hit(), None);
        let merged = g.ops.iter().find(|o| o.kind.name() == "linear").unwrap();
        assert_eq!(g.ty(merged.result).shape, [1, 729, 3 * 1152]);
        // Three products and three sums.
        assert_eq!(merged.fused.len(), 5, "{merged:#?}");
        assert_eq!(merged.rules.first().unwrap(), "merge-linears");
    }
}

#[test]
fn limits_are_reported_and_leave_a_variant() {
    let graph = Encoder::siglip(3).graph();
    let options = Options {
        max_pops: 1,
        ..Options::default()
    };
    let algebra = Algebra::saturate(&graph, &options).unwrap();
    let mut variants = algebra.variants(&work);
    assert!(variants.next().is_some());
    assert_eq!(variants.limit_hit(), Some("max_pops"));
    let options = Options {
        max_variants: 2,
        ..Options::default()
    };
    let algebra = Algebra::saturate(&graph, &options).unwrap();
    let mut variants = algebra.variants(&work);
    assert_eq!(variants.by_ref().count(), 2);
    assert_eq!(variants.limit_hit(), Some("max_variants"));
    // Nodes and matches.
    let options = Options {
        max_nodes: 150,
        ..Options::default()
    };
    let algebra = Algebra::saturate(&graph, &options).unwrap();
    assert_eq!(algebra.report().stop, "node limit 150");
    assert!(algebra.variants(&work).next().is_some());
    let options = Options {
        max_matches: 2,
        ..Options::default()
    };
    let algebra = Algebra::saturate(&graph, &options).unwrap();
    assert!(
        algebra
            .report()
            .caps
            .contains(&"linear-of-matmul".to_owned())
    );
}

#[test]
fn the_same_every_time() {
    let graph = Encoder {
        blocks: 2,
        rows: 8,
        width: 16,
        heads: 2,
        mlp: 24,
    }
    .graph();
    let dump = || {
        let algebra = Algebra::saturate(&graph, &Options::default()).unwrap();
        let variants: Vec<_> = algebra.variants(&any_cost).take(30).collect();
        format!("{}{variants:?}", algebra.to_text())
    };
    let first = dump();
    assert!((0..4).all(|_| dump() == first));
}
