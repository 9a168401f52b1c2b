//! Whether equal means equal: every rule alone on random shapes, and whole e-graphs of models, in
//! f64.

use super::super::frozen::{Content, Frozen};
use super::super::rules::{Rule, Rules};
use super::super::{Algebra, AlgebraError, Numerics, Options};
use super::build::{Encoder, Random};
use super::cases::{case, wide_case};
use super::eval::{self, Tensor, difference};
use ipu_program::graph::{Graph, OpKind};
use ipu_program::types::TensorType;

/// A tensor of random elements that depend on a name only.
fn tensor(name: &str, ty: &TensorType) -> Tensor {
    let seed = name.bytes().fold(7, |h: u64, b| {
        h.wrapping_mul(0x0100_0000_01b3) ^ u64::from(b)
    });
    let mut random = Random(seed);
    Tensor {
        shape: Tensor::shape_of(ty),
        data: (0..ty.elements()).map(|_| random.unit()).collect(),
    }
}

/// Evaluates every node of every class on the values of its operands' classes: the largest relative
/// difference within a class, and where.
fn disagreement(frozen: &Frozen) -> (f64, String) {
    let mut values: Vec<Option<Tensor>> = vec![None; frozen.classes.len()];
    let compute = |c: usize, n: usize, values: &[Option<Tensor>]| -> Option<Tensor> {
        let (class, node) = (&frozen.classes[c], &frozen.classes[c].nodes[n]);
        let ty = class.types.first()?;
        Some(match &node.content {
            Content::Input(i) => tensor(&format!("input {i}"), ty),
            Content::Op(OpKind::Parameter { name }) => tensor(name, ty),
            Content::Op(kind) => {
                let operands: Option<Vec<&Tensor>> = frozen
                    .operands(node)
                    .map(|d| values[d as usize].as_ref())
                    .collect();
                eval::operator(kind, &operands?, ty)
            }
            Content::Absent | Content::Project(_) => return None,
        })
    };
    let mut changed = true;
    while changed {
        changed = false;
        for c in 0..frozen.classes.len() {
            if values[c].is_none() {
                let nodes = 0..frozen.classes[c].nodes.len();
                values[c] = nodes.into_iter().find_map(|n| compute(c, n, &values));
                changed |= values[c].is_some();
            }
        }
    }
    let mut worst = (0.0, String::new());
    for (c, class) in frozen.classes.iter().enumerate() {
        for n in 0..class.nodes.len() {
            if let (Some(own), Some(value)) = (compute(c, n, &values), &values[c]) {
                let d = difference(value, &own);
                if d > worst.0 {
                    let rule = class.nodes[n]
                        .rule
                        .map(|r| frozen.rules[r as usize].clone());
                    let node = &class.nodes[n].content;
                    worst = (d, format!("%{c}: {node:?} by {rule:?}"));
                }
            }
        }
    }
    worst
}

fn options() -> Options {
    Options {
        numerics: Numerics::Fast,
        ..Options::default()
    }
}

/// Only one rule.
fn alone(rule: &Rule) -> Rules {
    let all = Rules::builtin().unwrap();
    Rules {
        rules: vec![rule.clone()],
        ..all.clone()
    }
}

fn saturate(graph: &Graph, rules: &Rules) -> Result<Algebra, AlgebraError> {
    let options = Options {
        groups: false,
        ..options()
    };
    Algebra::with_rules(graph, &options, rules)
}

/// Relative difference allowed: literals of f32 are not the reals that they stand for.
fn tolerance(rule: &str) -> f64 {
    if rule == "gelu-tanh" { 1e-6 } else { 1e-9 }
}

const SEEDS: u64 = 400;

/// What is wrong with a rule, over all random graphs for it.
fn faults(rule: &Rule) -> Option<String> {
    let rules = alone(rule);
    let (mut matched, mut passed_by) = (0, 0);
    for seed in 0..SEEDS {
        let Some((graph, expect)) = case(&rule.name, seed) else {
            continue;
        };
        let algebra = match saturate(&graph, &rules) {
            Ok(algebra) => algebra,
            Err(e) => return Some(format!("seed {seed}: {e}")),
        };
        let fired = !algebra.report().rules.is_empty();
        if fired != expect {
            let text = algebra.to_text();
            return Some(format!(
                "seed {seed}: matched: {fired}, expected {expect}: {text}"
            ));
        }
        if fired {
            matched += 1;
            let (worst, place) = disagreement(&algebra.frozen);
            if worst > tolerance(&rule.name) {
                return Some(format!("seed {seed}: {worst} at {place}"));
            }
        } else {
            passed_by += 1;
        }
    }
    (matched < 20 || passed_by < 20)
        .then(|| format!("{matched} graphs that match and {passed_by} that do not"))
}

#[test]
fn every_rule_is_sound_and_matches_what_it_should() {
    let rules = &Rules::builtin().unwrap().rules;
    let wrong: Vec<String> = rules
        .iter()
        .filter_map(|rule| Some(format!("{}: {}", rule.name, faults(rule)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_side_condition_counts() {
    let mut idle = Vec::new();
    for rule in &Rules::builtin().unwrap().rules {
        for i in 0..rule.guards.len() {
            let mut broken = rule.clone();
            broken.guards.remove(i);
            let rules = alone(&broken);
            // What should not match and now does, or what has no type.
            let wrong = |graph: &Graph| match saturate(graph, &rules) {
                Err(_) => true,
                Ok(algebra) => !algebra.report().rules.is_empty(),
            };
            let whole = alone(rule);
            let caught = (0..SEEDS).any(|seed| {
                let refused =
                    |graph: &Graph| saturate(graph, &whole).unwrap().report().rules.is_empty();
                case(&rule.name, seed).is_some_and(|(graph, expect)| !expect && wrong(&graph))
                    || wide_case(&rule.name, seed)
                        .is_some_and(|graph| refused(&graph) && wrong(&graph))
            });
            if !caught {
                idle.push(format!("{} {}", rule.name, rule.guards[i].text));
            }
        }
    }
    assert!(
        idle.is_empty(),
        "nothing fails without:\n{}",
        idle.join("\n")
    );
}

#[test]
fn whole_graphs_agree() {
    let graph = Encoder {
        blocks: 2,
        rows: 5,
        width: 8,
        heads: 2,
        mlp: 6,
    }
    .graph();
    for numerics in [Numerics::Strict, Numerics::Reassoc, Numerics::Fast] {
        let options = Options {
            numerics,
            ..Options::default()
        };
        let algebra = Algebra::saturate(&graph, &options).unwrap();
        assert_eq!(algebra.report().stop, "saturated");
        let (worst, place) = disagreement(&algebra.frozen);
        assert!(worst < 1e-9, "{worst} at {place}");
        // And what is exported is what was imported.
        let inputs: Vec<Tensor> = graph
            .inputs
            .iter()
            .map(|&v| tensor("input 0", graph.ty(v)))
            .collect();
        let run = |g: &Graph| eval::run(g, &inputs, &mut |name, ty| tensor(name, ty));
        let wanted = run(&graph);
        let bound = |_: &_, operands: &[super::super::Operand], _: &_| Some(operands.len() as u64);
        for variant in algebra.variants(&bound).take(20) {
            for (a, b) in wanted.iter().zip(run(&variant.graph)) {
                assert!(difference(a, &b) < 1e-9);
            }
        }
    }
}

#[test]
fn a_wrong_rule_is_caught() {
    // The bias is not scaled.
    let text = r#"(rules: [(name: "wrong", table: [6], phase: A, numerics: X,
        from: "(mul (linear none ?e ?x ?w ?b) ?s)",
        to: "(linear none ?e ?x (mul ?w (reshape (vector ?s) ?s)) ?b)")],
        group: (name: "merge", table: [21], phase: G, numerics: X), disabled: [])"#;
    let rules = Rules::read("wrong.ron", text).unwrap();
    let caught = (0..40).any(|seed| {
        let (graph, expect) = case("scale-of-biased", seed).unwrap();
        expect
            && saturate(&graph, &rules)
                .is_ok_and(|a| !a.report().rules.is_empty() && disagreement(&a.frozen).0 > 1e-3)
    });
    assert!(caught);
    // Types that differ stop the compilation, with the rule and both sides.
    let text = text.replace("?x (mul ?w (reshape (vector ?s) ?s)) ?b)", "?x ?w absent)");
    let text = text.replace(
        "(linear none ?e ?x ?w absent)",
        "(reduce sum (one) false ?w)",
    );
    let rules = Rules::read("wrong.ron", &text).unwrap();
    let (graph, _) = case("scale-of-biased", 1).unwrap();
    match saturate(&graph, &rules) {
        Err(AlgebraError::Unsound { rule, left, right }) => {
            assert_eq!(rule, "wrong");
            assert!(
                left.contains("mul") && right.contains("reduce"),
                "{left} {right}"
            );
        }
        other => panic!("{:?}", other.map(|a| a.report().clone())),
    }
}
