//! The merge of linear operators with one operand, such as the three projections of attention.
//!
//! It is no rewriting of terms: pairs of members of a group, and pairs of those, would make an
//! e-graph explode. Every group is merged once, as a whole.

use super::saturate::add;
use super::term::{Attr, Graphs, Kind, Payload, Source, Sym, Term};
use egg::Id;
use ipu_program::graph::BinaryKind;
use ipu_program::infer::MAX_ELEMENTS;
use ipu_program::types::TensorType;
use std::collections::BTreeMap;

/// Members of a group that is merged.
const MEMBERS: std::ops::RangeInclusive<usize> = 2..=4;

/// One linear operator.
struct Member {
    class: Id,
    weight: Id,
    /// `None` where it has none.
    bias: Option<Id>,
    columns: u32,
}

/// Merges all groups: operators of one operand with the same activation and element types, whose
/// weights the host knows and that are no results of a merge. Gives their number.
pub fn groups(egraph: &mut Graphs) -> u64 {
    // By operand and the attributes; of each class the first member counts.
    let mut found: BTreeMap<(Id, Id, Id), Vec<Member>> = BTreeMap::new();
    let mut classes: Vec<Id> = egraph.classes().map(|c| c.id).collect();
    classes.sort();
    for class in classes {
        let Some((key, member)) = member(egraph, class) else {
            continue;
        };
        let members = found.entry(key).or_default();
        // A product and its sum with a bias are linear operators of one weight: the sum counts.
        match members.iter_mut().find(|m| m.weight == member.weight) {
            None => members.push(member),
            Some(known) if known.bias.is_none() => *known = member,
            Some(_) => {}
        }
    }
    let mut merged = 0;
    for ((x, activation, element), members) in found {
        let one_rank = |members: &[Member]| {
            let ty = |m: &Member| egraph[m.weight].data.ty().cloned();
            let first = ty(&members[0]);
            members.iter().all(|m| {
                ty(m)
                    .zip(first.clone())
                    .is_some_and(|(a, b)| a.shape[0] == b.shape[0] && a.element == b.element)
            })
        };
        let elements: Vec<_> = members
            .iter()
            .filter_map(|m| egraph[m.bias?].data.ty().map(|t| t.element))
            .collect();
        let one_element = elements.windows(2).all(|pair| pair[0] == pair[1]);
        if !MEMBERS.contains(&members.len()) || !one_rank(&members) || !one_element {
            continue;
        }
        // The results and the weights side by side have to be tensors still.
        let columns: u64 = members.iter().map(|m| u64::from(m.columns)).sum();
        let rows = |id: Id| {
            egraph[id]
                .data
                .ty()
                .map_or(0, |t| u64::from(t.matrix().rows))
        };
        if columns * rows(members[0].class).max(rows(members[0].weight)) > MAX_ELEMENTS {
            continue;
        }
        merged += u64::from(merge(egraph, x, [activation, element], &members));
    }
    merged
}

/// The linear operator of a class, if it can be in a group, with what the group shares.
fn member(egraph: &Graphs, class: Id) -> Option<((Id, Id, Id), Member)> {
    let mut candidates: Vec<&Term> = egraph[class]
        .nodes
        .iter()
        .filter(|n| n.sym == Sym::Linear)
        .collect();
    candidates.sort();
    candidates.into_iter().find_map(|node| {
        let &[activation, element, x, w, b] = node.children.as_slice() else {
            return None;
        };
        let (weight, bias) = (&egraph[w].data, &egraph[b].data);
        let &[_, columns] = weight.ty()?.shape.as_slice() else {
            return None;
        };
        let absent = bias.kind == Kind::Absent;
        let vector = bias.ty().is_some_and(|t| t.shape.len() == 1) && bias.host;
        let computed = !egraph[x].data.host;
        if !weight.host || !computed || !original(egraph, w) || !(absent || vector) {
            return None;
        }
        let member = Member {
            class,
            weight: w,
            bias: (!absent).then_some(b),
            columns,
        };
        Some(((x, activation, element), member))
    })
}

/// Whether a weight is of the model, perhaps scaled: those that rules made of others would make
/// groups of the same operators again.
fn original(egraph: &Graphs, w: Id) -> bool {
    let leaf = |id: Id| {
        let nodes = &egraph[id].nodes;
        nodes
            .iter()
            .any(|n| n.sym == Sym::Source && n.children.is_empty())
    };
    let view = |id: Id| {
        egraph[id].nodes.iter().any(|n| {
            matches!(n.sym, Sym::Reshape | Sym::Transpose) && n.operands().iter().any(|&c| leaf(c))
        })
    };
    leaf(w)
        || view(w)
        || egraph[w]
            .nodes
            .iter()
            .any(|n| n.sym == Sym::Binary(BinaryKind::Mul) && n.operands().iter().any(|&c| leaf(c)))
}

fn merge(egraph: &mut Graphs, x: Id, attrs: [Id; 2], members: &[Member]) -> bool {
    let Some(result) = egraph[members[0].class].data.ty().cloned() else {
        return false;
    };
    let attr = |egraph: &mut Graphs, a: Attr| egraph.add(Term::attr(a));
    // Weights side by side.
    let axis = attr(egraph, Attr::Int(1));
    let weights = std::iter::once(axis).chain(members.iter().map(|m| m.weight));
    let weight = add(egraph, Sym::Concat, weights.collect());
    let bias = if members.iter().all(|m| m.bias.is_none()) {
        egraph.add(Term::new(Sym::Absent, Vec::new()))
    } else {
        let mut parts = vec![attr(egraph, Attr::Int(0))];
        // Zeros have the element type of the biases there are.
        let element = members
            .iter()
            .find_map(|m| egraph[m.bias?].data.ty().map(|t| t.element))
            .unwrap_or(result.element);
        for m in members {
            let part = m.bias.unwrap_or_else(|| {
                let ty = TensorType::new([m.columns], element);
                zeros(egraph, ty)
            });
            parts.push(part);
        }
        add(egraph, Sym::Concat, parts)
    };
    let all = add(
        egraph,
        Sym::Linear,
        vec![attrs[0], attrs[1], x, weight, bias],
    );
    let rank = result.shape.len();
    let mut first = 0;
    for m in members {
        let mut offsets = vec![0; rank];
        offsets[rank - 1] = first;
        let mut shape = result.shape.clone();
        shape[rank - 1] = m.columns;
        let children = vec![
            attr(egraph, Attr::list(offsets)),
            attr(egraph, Attr::list(vec![1; rank])),
            attr(egraph, Attr::list(shape)),
            all,
        ];
        let part = add(egraph, Sym::Slice, children);
        egraph.union(m.class, part);
        first += m.columns;
    }
    true
}

/// A constant of zeros.
fn zeros(egraph: &mut Graphs, ty: TensorType) -> Id {
    let sources = &mut egraph.analysis.sources;
    let known = sources
        .iter()
        .position(|s| matches!(s, Source::Zeros(t) if *t == ty));
    let index = known.unwrap_or_else(|| {
        sources.push(Source::Zeros(ty));
        sources.len() - 1
    });
    egraph.add(Term {
        sym: Sym::Source,
        payload: Payload::Index(index as u32),
        children: Vec::new(),
    })
}
