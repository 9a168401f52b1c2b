//! `ipu-select-operators`: model operators to implementations.
//!
//! [`normalize`] writes operators in terms of fewer ones. [`algebra`] finds the cheapest equal ones
//! in an e-graph; each operator there costs what its best plan costs. [`views`] says which values
//! need no storage. [`plans`] enumerates the plans of each operator; [`select`] fixes one for every
//! operator, in program order, charging the exchange that brings its operands from where they are.
//! Different objectives give different finalists; which one is best is decided after their
//! exchanges have been scheduled, for estimates of exchange are unreliable.

pub mod algebra;
pub mod forms;
pub mod normalize;
pub mod plans;
mod refuse;
pub mod search;
pub mod views;

use crate::layers;
use algebra::{Algebra, AlgebraError, Operand};
use ipu_program::graph::{Graph, Op, OpKind};
use ipu_program::host::HostValues;
use ipu_program::types::TensorType;
use plans::Machine;
use search::pin::Pin;
pub use search::softmax_kernel;
use std::collections::{BTreeMap, BTreeSet};

/// Why a graph has no program.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Operators without an implementation, all of them.
    #[error("{} operator(s) without lowering", .0.len())]
    NoLowering(Vec<NoLowering>),
    /// Demands on plans that cannot be met, all of them.
    #[error("{} demand(s) on plans that cannot be met", .0.len())]
    Hints(Vec<NoLowering>),
    /// The rewrite rules contradict each other.
    #[error(transparent)]
    Algebra(#[from] AlgebraError),
}

impl SelectError {
    /// What is wrong, of several things the first.
    fn reason(&self) -> String {
        match self {
            SelectError::NoLowering(list) | SelectError::Hints(list) => list
                .first()
                .map_or_else(|| self.to_string(), |first| first.message.clone()),
            SelectError::Algebra(error) => error.to_string(),
        }
    }
}

/// One operator without an implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLowering {
    /// Source location.
    pub location: String,
    /// What and why.
    pub message: String,
}

/// A demand on the plan of the operator at a location of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Source location of the operator.
    pub location: String,
    /// What its plan must be.
    pub pin: Pin,
    /// Where the demand stands, for messages.
    pub source: String,
}

/// One complete choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Finalist {
    /// The graph with a plan for each operator and a layout for each activation.
    pub graph: Graph,
    /// Why it is offered, a line each.
    pub reasons: Vec<String>,
    /// Estimated cycles.
    pub estimated_cycles: u64,
    /// Bytes on a tile of records of kernels and rows of exchanges, about.
    pub code_bytes: u64,
}

/// What selection found.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Different choices, the fastest first.
    pub finalists: Vec<Finalist>,
    /// Why the operators of the first have their plans, if asked for.
    pub explanation: Option<search::explain::Explanation>,
}

/// What is wanted of a selection.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Most finalists.
    pub finalists: usize,
    /// Demands on plans.
    pub hints: &'a [Hint],
    /// Whether to explain the choice.
    pub explain: bool,
    /// Bounds of the algebra, and what it may do.
    pub algebra: &'a algebra::Options,
    /// The equalities.
    pub rules: &'a algebra::Rules,
}

/// Estimated cycles of the best plan of one operator alone, for the algebra.
pub fn operator_cost(
    machine: &Machine<'_>,
    kind: &OpKind,
    operands: &[Operand],
    result: &TensorType,
) -> Option<u64> {
    // A product with weights is a linear operator, nothing else.
    if matches!(kind, OpKind::Matmul { .. }) && operands.iter().any(|o| o.host) {
        return None;
    }
    let types: Vec<TensorType> = operands.iter().map(|o| o.ty.clone()).collect();
    let list = search::standing(machine, kind, &types, result, &search::Around::NOTHING);
    list.iter().map(|c| c.plan.compute_cycles).min()
}

/// Chooses operators and plans; `finalists` different choices at most, the first by cycles.
///
/// # Errors
/// Operators that no kernel implements or that fit no tile, all of them with their locations; or a
/// rule of the algebra that is wrong.
pub fn select(
    graph: &Graph,
    machine: &Machine<'_>,
    wanted: &Wanted<'_>,
) -> Result<(Selection, Algebra), SelectError> {
    let unrolled = layers::unroll(graph).map_err(|e| {
        SelectError::NoLowering(vec![NoLowering {
            location: e.location().to_owned(),
            message: e.to_string(),
        }])
    })?;
    let graph = unrolled.as_ref();
    let differing = refuse::parameters_of_two_types(graph);
    if !differing.is_empty() {
        return Err(SelectError::NoLowering(differing));
    }
    let too_large = refuse::oversized(graph, machine);
    if !too_large.is_empty() {
        return Err(SelectError::NoLowering(too_large));
    }
    let normal = normalize::normalize(graph);
    let mut refused = refuse::operators(&normal, machine);
    refused.extend(refuse::host_functions(&normal));
    if !refused.is_empty() {
        return Err(SelectError::NoLowering(refused));
    }
    let algebra = Algebra::with_rules(&normal, wanted.algebra, wanted.rules)?;
    let found = best_variants(graph, normal, machine, &algebra, wanted)?;
    let fastest = found.finalists.first().map_or(0, |f| f.cycles);
    let out = found
        .finalists
        .into_iter()
        .map(|f| {
            let place = match f.cycles - fastest.min(f.cycles) {
                0 => "fewest estimated cycles".to_owned(),
                more => format!("{more} estimated cycles more than the fewest"),
            };
            let proof = match found.met.as_slice() {
                [] => "optimal: true".to_owned(),
                met => format!("optimal: false, bounded by {}", met.join(", ")),
            };
            let memory = format!(
                "{} bytes of weights, {} of values, {} of records and rows",
                f.persistent, f.peak, f.code
            );
            Finalist {
                graph: f.graph,
                reasons: vec![place, memory, proof],
                estimated_cycles: f.cycles,
                code_bytes: f.code,
            }
        })
        .collect();
    let selection = Selection {
        finalists: out,
        explanation: found.explanation,
    };
    Ok((selection, algebra))
}

/// Variants of the algebra whose plans are searched.
const MAX_VARIANTS: usize = 8;

/// Operators with plans times tiles that are searched, all variants together: a bound on the time
/// of large models and machines.
const MAX_VARIANT_WORK: usize = 12_000;

/// Searches the variants of a graph in the order of their lower bounds, until none of the others can
/// be among the finalists or a bound is met.
fn best_variants(
    model: &Graph,
    normal: Graph,
    machine: &Machine<'_>,
    algebra: &Algebra,
    wanted: &Wanted<'_>,
) -> Result<search::Found, SelectError> {
    let cost = |kind: &OpKind, operands: &[Operand], result: &TensorType| {
        operator_cost(machine, kind, operands, result)
    };
    let mut variants = algebra.variants(&cost);
    let mut all: Option<search::Found> = None;
    let mut refused = None;
    let (mut work, mut tried) = (0, 0);
    let mut met = BTreeSet::new();
    let mut prices = search::Prices::default();
    let mut forms = Vec::new();
    loop {
        let Some(variant) = variants.next() else {
            met.extend(variants.limit_hit());
            break;
        };
        let bound = variant.lower_bound;
        let mut note = |outcome| {
            if wanted.explain {
                forms.push(forms::Form::new(&variant.graph, bound, outcome));
            }
        };
        if let Some(found) = &all
            && found.finalists.len() >= wanted.finalists.max(1)
            && found
                .finalists
                .last()
                .is_some_and(|f| f.cycles <= variant.lower_bound)
        {
            note(forms::Outcome::Beaten);
            break;
        }
        let host = HostValues::of(&variant.graph);
        let planned = |op: &&Op| !host.is_done(op.result) && !views::is_view(&op.kind);
        let more = variant.graph.ops.iter().filter(planned).count() * machine.tiles as usize;
        if tried == MAX_VARIANTS || (tried > 0 && work + more > MAX_VARIANT_WORK) {
            met.insert("variants of the algebra");
            note(forms::Outcome::NotSearched);
            break;
        }
        (work, tried) = (work + more, tried + 1);
        // Another variant may keep the operators that demands name, have plans, or fit.
        let found = pins(model, &variant.graph, wanted.hints).and_then(|pins| {
            let (finalists, explain) = (wanted.finalists, wanted.explain);
            search::search(
                &variant.graph,
                machine,
                finalists,
                &pins,
                explain,
                &mut prices,
            )
        });
        match found {
            Ok(found) => {
                let cycles = found.finalists.first().map_or(u64::MAX, |f| f.cycles);
                note(forms::Outcome::Searched(cycles));
                all = Some(better(all, found, wanted.finalists));
            }
            Err(error) => {
                note(forms::Outcome::Refused(error.reason()));
                refused.get_or_insert(error);
            }
        }
    }
    let mut found = match (all, refused) {
        (Some(found), _) => found,
        (None, Some(error)) => return Err(error),
        // A graph has itself as a variant: without one, the search says what is wrong with it.
        (None, None) => {
            let pins = pins(model, &normal, wanted.hints)?;
            let (finalists, explain) = (wanted.finalists, wanted.explain);
            search::search(&normal, machine, finalists, &pins, explain, &mut prices)?
        }
    };
    met.extend(found.met.iter().copied());
    found.met = met.into_iter().collect();
    if let Some(explanation) = &mut found.explanation {
        explanation.forms = forms::lost(forms);
        explanation.bounded_by = found.met.iter().map(|m| (*m).to_owned()).collect();
    }
    Ok(found)
}

/// What two variants give together: the better finalists of both, and why the best is as it is.
fn better(all: Option<search::Found>, more: search::Found, finalists: usize) -> search::Found {
    let Some(mut all) = all else { return more };
    let first = |f: &search::Found| f.finalists.first().map_or(u64::MAX, |s| s.cycles);
    if first(&more) < first(&all) {
        all.explanation = more.explanation;
    }
    all.finalists.extend(more.finalists);
    // Of equals the variant with the lower bound stays first.
    all.finalists.sort_by_key(|f| f.cycles);
    all.finalists.truncate(finalists.max(1));
    all.met.extend(more.met);
    all
}

/// The demands on each operator of the selected algebra. An operator that was absorbed by another one
/// hands its demand on: to the operator at the location of the first of its users that is left.
fn pins(model: &Graph, selected: &Graph, hints: &[Hint]) -> Result<Vec<Option<Pin>>, SelectError> {
    let host = HostValues::of(selected);
    let planned = |i: &usize| {
        let op = &selected.ops[*i];
        !host.is_done(op.result) && !views::is_view(&op.kind)
    };
    let at = |location: &str| {
        let ops = (0..selected.ops.len()).filter(planned);
        // Where one operator became several, the product is meant.
        let heavy = |i: &usize| {
            matches!(
                selected.ops[*i].kind,
                OpKind::Linear { .. } | OpKind::Matmul { .. } | OpKind::Attention { .. }
            )
        };
        // Of equal operations one is left, at the place of the first.
        let here = |op: &Op| {
            op.location == location
                || (op.rules.is_empty() && op.fused.iter().any(|f| f == location))
        };
        let found: Vec<usize> = ops.filter(|&i| here(&selected.ops[i])).collect();
        found.iter().copied().find(heavy).or(found.first().copied())
    };
    let mut pins = vec![None; selected.ops.len()];
    let mut sources: BTreeMap<usize, &Hint> = BTreeMap::new();
    let mut wrong = Vec::new();
    for hint in hints {
        let mut location = hint.location.as_str();
        let mut found = at(location);
        while found.is_none() {
            let op = model.ops.iter().find(|op| op.location == location);
            let user = op.and_then(|op| {
                model
                    .ops
                    .iter()
                    .find(|user| user.operands.contains(&op.result))
            });
            let Some(user) = user.filter(|u| u.location != location) else {
                break;
            };
            location = &user.location;
            found = at(location);
        }
        let Some(op) = found else {
            wrong.push(NoLowering {
                location: hint.location.clone(),
                message: format!(
                    "{} demands {}, but no operator that needs a plan is left of this one",
                    hint.source, hint.pin
                ),
            });
            continue;
        };
        let known: &mut Option<Pin> = &mut pins[op];
        match known.map_or(Some(hint.pin), |k| k.and(hint.pin)) {
            Some(both) => *known = Some(both),
            None => {
                let first = sources.get(&op);
                wrong.push(NoLowering {
                    location: hint.location.clone(),
                    message: format!(
                        "{} demands {}, which contradicts {} of {}",
                        hint.source,
                        hint.pin,
                        known.map_or_else(String::new, |k| k.to_string()),
                        first.map_or("another demand", |h| &h.source)
                    ),
                });
            }
        }
        sources.entry(op).or_insert(hint);
    }
    if wrong.is_empty() {
        Ok(pins)
    } else {
        Err(SelectError::Hints(wrong))
    }
}
