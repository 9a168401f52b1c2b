//! From a choice of one node for each class back to a graph.

use super::frozen::{ClassId, Content, Frozen, Node};
use ipu_program::graph::{Graph, Op, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A node of each class that is computed: an index in its nodes.
pub type Choice = BTreeMap<ClassId, usize>;

/// The chosen nodes, and of everything that the host knows the given recipes.
struct Export<'a> {
    frozen: &'a Frozen,
    choice: &'a Choice,
    recipes: &'a [Option<usize>],
}

impl<'a> Export<'a> {
    fn node(&self, c: ClassId) -> Option<&'a Node> {
        let class = self.frozen.class(c);
        let index = if class.host {
            self.recipes[c as usize]
        } else {
            self.choice.get(&c).copied()
        };
        class.nodes.get(index?)
    }

    /// The classes of the program, operands first; `None` if a class depends on itself or has no
    /// choice.
    fn reachable(&self) -> Option<Vec<ClassId>> {
        let mut order = Vec::new();
        // 1: on the way, 2: done.
        let mut state = vec![0u8; self.frozen.classes.len()];
        for &root in &self.frozen.outputs {
            let mut stack = vec![(root, false)];
            while let Some((c, visited)) = stack.pop() {
                if visited {
                    state[c as usize] = 2;
                    order.push(c);
                    continue;
                }
                match state[c as usize] {
                    1 => return None,
                    2 => continue,
                    _ => {}
                }
                state[c as usize] = 1;
                stack.push((c, true));
                let node = self.node(c)?;
                let operands: Vec<ClassId> = self.frozen.operands(node).collect();
                for &d in operands.iter().rev() {
                    match state[d as usize] {
                        1 => return None,
                        2 => {}
                        _ => stack.push((d, false)),
                    }
                }
            }
        }
        Some(order)
    }
}

/// The graph of a choice; `None` if it is not complete or has a cycle.
///
/// Operators stand in the order of the operations that they replace. Each keeps the locations of
/// all operations that it absorbed: the own one first, then those before it whose values the graph
/// no longer has.
pub fn export(frozen: &Frozen, choice: &Choice, recipes: &[Option<usize>]) -> Option<Graph> {
    let e = Export {
        frozen,
        choice,
        recipes,
    };
    let order = e.reachable()?;
    let kept: BTreeSet<ClassId> = order.iter().copied().collect();
    let count = frozen.classes.len();
    // Where each class stands: where the first of its operations stood, and new ones before the
    // first that uses them.
    let mut position: Vec<usize> = (0..count as ClassId)
        .map(|c| frozen.class(c).ops().min().unwrap_or(usize::MAX))
        .collect();
    let mut sources: BTreeMap<ClassId, Vec<usize>> = BTreeMap::new();
    let mut users: BTreeMap<ClassId, Vec<ClassId>> = BTreeMap::new();
    for &c in order.iter().rev() {
        let node = e.node(c)?;
        let own = sources
            .entry(c)
            .or_default()
            .iter()
            .copied()
            .chain(absorbed(frozen, &kept, c, node));
        let mut seen = BTreeSet::new();
        let own: Vec<usize> = own.filter(|&op| seen.insert(op)).collect();
        for d in frozen.operands(node) {
            users.entry(d).or_default().push(c);
            if frozen.class(d).ops().next().is_none() {
                // Nothing of the model: it serves those that use it.
                let list = sources.entry(d).or_default();
                list.extend(&own);
                position[d as usize] = position[d as usize].min(position[c as usize]);
            }
        }
        sources.insert(c, own);
    }
    let mut out = Graph {
        name: frozen.graph.name.clone(),
        ..Graph::default()
    };
    let mut values: BTreeMap<ClassId, Vec<ValueId>> = BTreeMap::new();
    for (i, &input) in frozen.graph.inputs.iter().enumerate() {
        let v = out.add_value(frozen.graph.ty(input).clone());
        out.values[v.0 as usize].layout = frozen.graph.value(input).layout.clone();
        out.inputs.push(v);
        values.insert(frozen.inputs[i], vec![v]);
    }
    let mut missing: BTreeMap<ClassId, usize> = BTreeMap::new();
    let mut ready: BTreeSet<(usize, ClassId)> = BTreeSet::new();
    for &c in &order {
        let n = frozen.operands(e.node(c)?).count();
        if n == 0 {
            ready.insert((position[c as usize], c));
        }
        missing.insert(c, n);
    }
    while let Some((_, c)) = ready.pop_first() {
        emit(&e, &mut out, &mut values, c, &sources[&c])?;
        for &user in users.get(&c).into_iter().flatten() {
            let n = missing.get_mut(&user)?;
            *n -= 1;
            if *n == 0 {
                ready.insert((position[user as usize], user));
            }
        }
    }
    for &c in &frozen.outputs {
        out.outputs.push(*values.get(&c)?.first()?);
    }
    Some(out)
}

fn emit(
    e: &Export<'_>,
    out: &mut Graph,
    values: &mut BTreeMap<ClassId, Vec<ValueId>>,
    c: ClassId,
    sources: &[usize],
) -> Option<()> {
    let frozen = e.frozen;
    let (class, node) = (frozen.class(c), e.node(c)?);
    let kind = match &node.content {
        Content::Input(_) => return Some(()),
        Content::Absent => return None,
        Content::Project(i) => {
            let tuple = values.get(node.children.first()?)?;
            let v = *tuple.get(*i as usize)?;
            values.insert(c, vec![v]);
            return Some(());
        }
        Content::Op(kind) => kind,
    };
    let operands: Option<Vec<ValueId>> = frozen
        .operands(node)
        .map(|d| values.get(&d)?.first().copied())
        .collect();
    let results: Vec<ValueId> = class
        .types
        .iter()
        .map(|ty| out.add_value(ty.clone()))
        .collect();
    let mut places: Vec<String> = Vec::new();
    for &op in sources {
        let op = &frozen.graph.ops[op];
        for place in std::iter::once(&op.location).chain(&op.fused) {
            if !place.is_empty() && !places.contains(place) {
                places.push(place.clone());
            }
        }
    }
    let mut places = places.into_iter();
    let location = places.next().unwrap_or_default();
    out.ops.push(Op {
        kind: kind.clone(),
        operands: operands?,
        result: *results.first()?,
        more_results: results[1..].to_vec(),
        plan: None,
        location,
        fused: places.collect(),
        rules: rules(frozen, node, sources),
    });
    values.insert(c, results);
    Some(())
}

/// The operations of the model that a node does: equal ones that it is, or one of its own class, and
/// if a rule made it, all before that one whose values are gone.
fn absorbed(frozen: &Frozen, kept: &BTreeSet<ClassId>, c: ClassId, node: &Node) -> Vec<usize> {
    let mut out = node.ops.clone();
    if out.is_empty() {
        out.extend(frozen.class(c).ops().next());
    }
    if node.rule.is_none() || frozen.class(c).host {
        return out;
    }
    let mut next = 0;
    while let Some(&op) = out.get(next) {
        next += 1;
        for v in &frozen.graph.ops[op].operands {
            let Some(before) = definition(frozen, *v) else {
                continue;
            };
            let class = frozen.of_op[before];
            if class != c && !kept.contains(&class) && !out.contains(&before) {
                out.push(before);
            }
        }
    }
    out
}

fn definition(frozen: &Frozen, v: ValueId) -> Option<usize> {
    // Values are numbered in the order of operations, which are at most as many.
    let ops = &frozen.graph.ops;
    let at = ops.partition_point(|op| op.result < v);
    [at, at.wrapping_sub(1)]
        .into_iter()
        .find(|&i| {
            ops.get(i)
                .is_some_and(|op| op.result == v || op.more_results.contains(&v))
        })
        .or_else(|| {
            ops.iter()
                .position(|op| op.result == v || op.more_results.contains(&v))
        })
}

/// The rule that made a node, and those that made the terms which it replaces.
fn rules(frozen: &Frozen, node: &Node, sources: &[usize]) -> Vec<String> {
    let Some(rule) = node.rule else {
        return Vec::new();
    };
    let mut out = vec![frozen.rules[rule as usize].to_string()];
    for &op in sources.iter().skip(1) {
        let nodes = &frozen.class(frozen.of_op[op]).nodes;
        if let Some(rule) = nodes.iter().find_map(|n| n.rule) {
            let name = frozen.rules[rule as usize].to_string();
            if !out.contains(&name) {
                out.push(name);
            }
        }
    }
    out
}
