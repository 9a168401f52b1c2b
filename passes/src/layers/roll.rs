//! `nn-roll-layers`: equal consecutive layers as one repeat.
//!
//! Operators without parameters and constants are a sequence; a stack of layers is a part of it that
//! repeats with a period. Where a layer begins is open: of all rotations the one with the fewest
//! carried values is taken. An operand is then, the same in every iteration,
//!
//! * a result of its own iteration,
//! * a result of the iteration before, in the first one a value from outside: a carried value,
//! * the same value from outside in all of them, which is carried along unchanged,
//! * a constant, or a parameter whose name has the number of the iteration in it, or the same name.

use ipu_program::graph::{Graph, Op, OpKind, ValueId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Longest layer, in operators without parameters and constants.
const MAX_PERIOD: usize = 1_024;

/// Rolls every stack of equal layers, the one that saves most operators first; how many were rolled.
/// Stacks in the body of a repeat stay.
pub fn roll(graph: &Graph) -> (Graph, usize) {
    let mut graph = graph.clone();
    let mut count = 0;
    while let Some(rolled) = Sequence::of(&graph).best().map(|stack| stack.apply(&graph)) {
        graph = rolled;
        count += 1;
    }
    (graph, count)
}

/// The operators that compute, in program order.
struct Sequence<'a> {
    graph: &'a Graph,
    /// Indices of the operators.
    ops: Vec<usize>,
    /// Equal for operators that may be the same operator of two layers.
    signatures: Vec<u32>,
    /// Position of the operator of a value.
    position: HashMap<ValueId, usize>,
    /// The parameter or constant that a value is.
    leaves: HashMap<ValueId, &'a Op>,
    /// Last position that reads a value; results of the graph are read at the end.
    last: HashMap<ValueId, usize>,
}

/// An operand of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    /// The result of an operator of the same iteration.
    Own(usize),
    /// A carried value.
    Carried(usize),
    /// A parameter or constant, by the value of the first iteration.
    Leaf(ValueId),
}

/// What goes from one iteration to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Carried {
    /// The value of the first iteration.
    first: ValueId,
    /// The operator of the layer that computes the next; `None` for what never changes.
    next: Option<usize>,
}

/// Layers that are equal.
struct Stack {
    start: usize,
    period: usize,
    count: usize,
    /// Indices of the operators of all iterations.
    ops: Vec<usize>,
    operands: Vec<Vec<Operand>>,
    carried: Vec<Carried>,
    /// New names of parameters, by the value of the first iteration.
    names: BTreeMap<ValueId, String>,
}

fn is_leaf(op: &Op) -> bool {
    matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. })
}

/// Whether layers are worth a repeat because of an operator.
fn is_heavy(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::Matmul { .. }
            | OpKind::Linear { .. }
            | OpKind::Attention { .. }
            | OpKind::Conv2d { .. }
    )
}

impl<'a> Sequence<'a> {
    fn of(graph: &'a Graph) -> Self {
        let mut s = Sequence {
            graph,
            ops: Vec::new(),
            signatures: Vec::new(),
            position: HashMap::new(),
            leaves: HashMap::new(),
            last: HashMap::new(),
        };
        let mut known: HashMap<String, u32> = HashMap::new();
        for (i, op) in graph.ops.iter().enumerate() {
            if is_leaf(op) {
                s.leaves.insert(op.result, op);
                continue;
            }
            let types: Vec<_> = op.operands.iter().map(|&v| graph.ty(v)).collect();
            let leaves: Vec<_> = op
                .operands
                .iter()
                .map(|v| s.leaves.contains_key(v))
                .collect();
            let mut key = format!(
                "{:?} {types:?} {leaves:?} {:?}",
                op.kind,
                graph.ty(op.result)
            );
            if matches!(op.kind, OpKind::Repeat { .. }) {
                key += &format!("{i}");
            }
            let next = known.len() as u32;
            let position = s.ops.len();
            s.signatures.push(*known.entry(key).or_insert(next));
            s.ops.push(i);
            for v in [op.result].iter().chain(&op.more_results) {
                s.position.insert(*v, position);
            }
            for &v in &op.operands {
                s.last.insert(v, position);
            }
        }
        for &v in &graph.outputs {
            s.last.insert(v, s.ops.len());
        }
        s
    }

    fn op(&self, position: usize) -> &'a Op {
        &self.graph.ops[self.ops[position]]
    }

    /// The stack that saves most operators.
    fn best(&self) -> Option<Stack> {
        let n = self.ops.len();
        let mut runs = Vec::new();
        for period in 1..=(n / 2).min(MAX_PERIOD) {
            let mut start = 0;
            while start + period < n {
                let equal = |i: &usize| self.signatures[*i] == self.signatures[*i + period];
                let length = (start..n - period).take_while(equal).count();
                if length >= period {
                    runs.push((length / period * period, period, start, length));
                }
                start += length + 1;
            }
        }
        // Most operators saved, then the shortest layer, then the first.
        runs.sort_by_key(|&(saved, period, start, _)| (std::cmp::Reverse(saved), period, start));
        for (_, period, start, length) in runs {
            let heavy = (start..start + period).any(|i| is_heavy(self.op(i)));
            if !heavy {
                continue;
            }
            let rotations = 0..period.min(length - period + 1);
            let stacks = rotations.filter_map(|r| {
                let most = (length - r) / period + 1;
                // The last layers may be read otherwise, or their parameters have other names.
                (2..=most)
                    .rev()
                    .find_map(|count| self.stack(start + r, period, count))
            });
            let best =
                stacks.min_by_key(|s| (std::cmp::Reverse(s.count), s.carried.len(), s.start));
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// The layers from a position on as a stack, if they are one.
    fn stack(&self, start: usize, period: usize, count: usize) -> Option<Stack> {
        let end = start + period * count;
        let mut stack = Stack {
            start,
            period,
            count,
            ops: self.ops[start..end].to_vec(),
            operands: Vec::with_capacity(period),
            carried: Vec::new(),
            names: BTreeMap::new(),
        };
        for j in 0..period {
            let mut operands = Vec::new();
            for k in 0..self.op(start + j).operands.len() {
                let of = |i: usize| self.op(start + i * period + j).operands[k];
                operands.push(self.operand(&mut stack, count, &of)?);
            }
            stack.operands.push(operands);
        }
        // What is read behind the layers must be carried out of them.
        let inside = (start..end).flat_map(|p| {
            let op = self.op(p);
            [op.result]
                .into_iter()
                .chain(op.more_results.clone())
                .map(move |v| (p, v))
        });
        for (p, v) in inside {
            if self.last.get(&v).is_some_and(|&last| last >= end) {
                let of_last = p >= end - period;
                let next = Some((p - start) % period);
                if !of_last || !stack.carried.iter().any(|c| c.next == next) {
                    return None;
                }
            }
        }
        (!stack.carried.is_empty()).then_some(stack)
    }

    /// What an operand is, the same in all iterations; `of` gives its value in one.
    fn operand(
        &self,
        stack: &mut Stack,
        count: usize,
        of: &dyn Fn(usize) -> ValueId,
    ) -> Option<Operand> {
        let (start, period) = (stack.start, stack.period);
        // Position in an iteration, the own one or another.
        let within = |i: usize, v: ValueId| {
            let p = self.position.get(&v)?.checked_sub(start + i * period)?;
            (p < period).then_some(p)
        };
        let first = of(0);
        if let Some(j) = within(0, first) {
            let own = (1..count).all(|i| within(i, of(i)) == Some(j));
            return own.then_some(Operand::Own(j));
        }
        if self.leaves.contains_key(&first) {
            let ops: Option<Vec<&Op>> = (0..count)
                .map(|i| self.leaves.get(&of(i)).copied())
                .collect();
            if let Some(ops) = ops {
                let name = leaf(&ops)?;
                if let Some(name) = name {
                    stack.names.insert(first, name);
                }
                return Some(Operand::Leaf(first));
            }
        }
        let outside = self.position.get(&first).is_none_or(|&p| p < start);
        let carried = if (1..count).all(|i| of(i) == first) {
            outside.then_some(Carried { first, next: None })?
        } else {
            let j = within(0, of(1))?;
            let same = (1..count).all(|i| within(i - 1, of(i)) == Some(j));
            let typed = self.graph.ty(of(1)) == self.graph.ty(first);
            let next = Some(j);
            (outside && same && typed).then_some(Carried { first, next })?
        };
        let known = stack.carried.iter().position(|c| *c == carried);
        let index = known.unwrap_or_else(|| {
            stack.carried.push(carried);
            stack.carried.len() - 1
        });
        Some(Operand::Carried(index))
    }
}

/// The name in a repeat of the parameters of all iterations, `None` inside for equal constants or
/// one parameter; outside for leaves that no repeat can name.
fn leaf(ops: &[&Op]) -> Option<Option<String>> {
    let names: Option<Vec<&str>> = ops
        .iter()
        .map(|op| match &op.kind {
            OpKind::Parameter { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let Some(names) = names else {
        let same = |op: &&Op| ipu_program::host::same_kind(&op.kind, &ops[0].kind);
        return ops.iter().all(same).then_some(None);
    };
    if names.iter().any(|n| n.contains("{}")) {
        return None;
    }
    let split: Vec<Vec<&str>> = names.iter().map(|n| pieces(n)).collect();
    let length = split[0].len();
    if split.iter().any(|s| s.len() != length) {
        return None;
    }
    let mut name = String::new();
    for at in 0..length {
        let piece = split[0][at];
        if split.iter().all(|s| s[at] == piece) {
            name += piece;
        } else if split
            .iter()
            .enumerate()
            .all(|(i, s)| s[at] == i.to_string())
        {
            name += "{}";
        } else {
            return None;
        }
    }
    Some(Some(name))
}

/// A name as digits and what is between them.
fn pieces(name: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits);
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        out.push(piece);
        rest = after;
    }
    out
}

impl Stack {
    /// One layer as the body of a repeat.
    fn body(&self, graph: &Graph) -> Graph {
        let mut body = Graph::default();
        for c in &self.carried {
            let input = body.add_value(graph.ty(c.first).clone());
            body.inputs.push(input);
        }
        let mut leaves: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let mut own = Vec::new();
        for (&i, operands) in self.ops.iter().zip(&self.operands) {
            let op = &graph.ops[i];
            let mut read = Vec::new();
            for operand in operands {
                read.push(match *operand {
                    Operand::Own(j) => own[j],
                    Operand::Carried(c) => body.inputs[c],
                    Operand::Leaf(v) => *leaves.entry(v).or_insert_with(|| {
                        let (mut kind, mut at) = (OpKind::RELU, String::new());
                        if let Some(op) = graph.definition(v) {
                            (kind, at) = (op.kind.clone(), op.location.clone());
                        }
                        if let (OpKind::Parameter { name }, Some(new)) =
                            (&mut kind, self.names.get(&v))
                        {
                            name.clone_from(new);
                        }
                        body.add_op(kind, Vec::new(), graph.ty(v).clone(), at)
                    }),
                });
            }
            let (ty, at) = (graph.ty(op.result).clone(), op.location.clone());
            own.push(body.add_op(op.kind.clone(), read, ty, at));
        }
        let next = |(c, carried): (usize, &Carried)| match carried.next {
            Some(j) => own[j],
            None => body.inputs[c],
        };
        body.outputs = self.carried.iter().enumerate().map(next).collect();
        body
    }

    /// The graph with the repeat in the place of its layers.
    fn apply(&self, graph: &Graph) -> Graph {
        let mut out = graph.clone();
        let body = Box::new(self.body(graph));
        let mut results = Vec::new();
        for c in &self.carried {
            results.push(out.add_value(graph.ty(c.first).clone()));
        }
        // What the layers are read as behind them.
        let mut renamed: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let last = &self.ops[self.ops.len() - self.period..];
        for (c, &result) in self.carried.iter().zip(&results) {
            if let Some(j) = c.next {
                renamed.entry(graph.ops[last[j]].result).or_insert(result);
            }
        }
        let rename = |v: &mut ValueId| {
            if let Some(&new) = renamed.get(v) {
                *v = new;
            }
        };
        let inside: BTreeSet<usize> = self.ops.iter().copied().collect();
        let [first, .., end] = self.ops.as_slice() else {
            return out;
        };
        let location = graph.ops[*first].location.clone();
        let repeat = Op {
            kind: OpKind::Repeat {
                count: self.count as u32,
                body,
            },
            operands: self.carried.iter().map(|c| c.first).collect(),
            result: results[0],
            more_results: results[1..].to_vec(),
            plan: None,
            location,
            fused: Vec::new(),
            rules: Vec::new(),
        };
        let mut ops = Vec::new();
        let mut behind = Vec::new();
        for (i, op) in graph.ops.iter().enumerate() {
            if inside.contains(&i) {
                continue;
            }
            // Between the layers there are only parameters and constants.
            match i <= *end {
                true => ops.push(op.clone()),
                false => behind.push(op.clone()),
            }
        }
        for v in behind.iter_mut().flat_map(|op| &mut op.operands) {
            rename(v);
        }
        out.outputs.iter_mut().for_each(rename);
        ops.push(repeat);
        ops.extend(behind);
        let used: BTreeSet<ValueId> = ops
            .iter()
            .flat_map(|op| &op.operands)
            .chain(&out.outputs)
            .copied()
            .collect();
        ops.retain(|op| !is_leaf(op) || used.contains(&op.result));
        out.ops = ops;
        out
    }
}
