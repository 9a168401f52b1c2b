//! Host values: what is known before a run, and the functions by which the host computes it.
//!
//! A parameter or a constant is a host value. So is the result of every other operator all of whose
//! operands are host values, for operators have no effects; only a `repeat` stays with the program,
//! whose parameters have other names in every iteration. [`HostValues`] is the one definition of
//! this: passes, refusals and the tile level ask it.
//!
//! Tiles compute with f16 and f32. What an operator looks up by indices, or computes of i32, is
//! therefore a *host step* when the host has all its operands: arguments, host values and results
//! of other host steps. The host computes those of a run before it writes the inputs of that run,
//! and the program takes them like arguments.
//!
//! A host value that is not a parameter or constant itself has a *recipe*, a [`Graph`] of the
//! operators that it takes. The host executes it once, as the model reference does, before the
//! first run. Such a graph is a *host function*: no arguments, one or more results; equal functions
//! of a program are one ([`intern`]). The recipe of a host step ([`step_recipe`]) has the arguments
//! of the model, all of them.

use crate::graph::{Graph, Op, OpKind, ValueId};
use crate::types::ElementType;

/// Most elements of all tensors of a host function together: the host keeps them at the same time,
/// 4 bytes each.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// Which values of a graph the host knows before the program runs, and which it computes for each
/// run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostValues {
    known: Vec<bool>,
    steps: Vec<bool>,
}

impl HostValues {
    /// The host values of a graph, whose operators stand in an order in which operands precede
    /// uses.
    pub fn of(graph: &Graph) -> Self {
        let mut values = HostValues::default();
        for op in &graph.ops {
            values.note(op);
        }
        values.steps = vec![false; graph.values.len()];
        for op in &graph.ops {
            let mut all = op.operands.iter().chain([&op.result]);
            let integers = all.any(|&v| graph.ty(v).element == ElementType::I32);
            let of_host =
                |v: &ValueId| values.contains(*v) || values.is_step(*v) || graph.inputs.contains(v);
            let step = (integers || matches!(op.kind, OpKind::Gather { .. }))
                && !matches!(op.kind, OpKind::Repeat { .. })
                && !values.contains(op.result)
                && op.operands.iter().all(of_host);
            values.steps[op.result.0 as usize] = step;
        }
        values
    }

    /// Whether the host computes a value for each run. Never of a graph whose operators were only
    /// noted.
    pub fn is_step(&self, v: ValueId) -> bool {
        self.steps.get(v.0 as usize).copied().unwrap_or_default()
    }

    /// Whether the program has nothing to do for a value: it is a host value or the result of a host
    /// step.
    pub fn is_done(&self, v: ValueId) -> bool {
        self.contains(v) || self.is_step(v)
    }

    /// The results of host steps that something else than the host reads, ascending.
    pub fn steps_read_by_program(&self, graph: &Graph) -> Vec<ValueId> {
        self.read(graph, Self::is_step)
    }

    /// Whether only the host reads an argument: host steps do, and neither the program nor the
    /// results.
    pub fn is_argument_of_host(&self, graph: &Graph, input: ValueId) -> bool {
        let mut users = graph.ops.iter().filter(|op| op.operands.contains(&input));
        let mut used = false;
        let host = users.all(|op| {
            used = true;
            self.is_step(op.result)
        });
        used && host && !graph.outputs.contains(&input)
    }

    /// Notes one more operator, whose operands were noted before it.
    pub fn note(&mut self, op: &Op) {
        if self.computes(&op.kind, &op.operands) {
            let i = op.result.0 as usize;
            if self.known.len() <= i {
                self.known.resize(i + 1, false);
            }
            self.known[i] = true;
        }
    }

    /// Whether the result of an operator on these operands is a host value.
    pub fn computes(&self, kind: &OpKind, operands: &[ValueId]) -> bool {
        match kind {
            OpKind::Parameter { .. } | OpKind::Constant { .. } => true,
            OpKind::Repeat { .. } => false,
            _ => !operands.is_empty() && operands.iter().all(|&v| self.contains(v)),
        }
    }

    /// Whether a value is a host value.
    pub fn contains(&self, v: ValueId) -> bool {
        self.known.get(v.0 as usize).copied().unwrap_or_default()
    }

    /// The host values that something else than the host reads, ascending: operands of other
    /// operators, and results of the graph.
    pub fn read_by_program(&self, graph: &Graph) -> Vec<ValueId> {
        self.read(graph, Self::contains)
    }

    fn read(&self, graph: &Graph, of: impl Fn(&Self, ValueId) -> bool) -> Vec<ValueId> {
        let operators = graph.ops.iter().filter(|op| !self.is_done(op.result));
        let operands = operators.flat_map(|op| &op.operands);
        let read = operands.chain(&graph.outputs).copied();
        let mut read: Vec<_> = read.filter(|&v| of(self, v)).collect();
        read.sort_unstable();
        read.dedup();
        read
    }
}

/// The host function of one result that computes a host value of a graph: its operators without
/// layouts and plans, each once, operands before uses. `None` for a value that is no host value.
pub fn recipe(graph: &Graph, v: ValueId) -> Option<Graph> {
    let mut out = Graph::default();
    let result = copy(graph, v, &mut out, &mut Vec::new())?;
    out.outputs.push(result);
    Some(out)
}

/// The host function of one result that computes the result of a host step. Its arguments are those
/// of the graph, in their order. `None` for a value that is no such result.
pub fn step_recipe(graph: &Graph, v: ValueId) -> Option<Graph> {
    let mut out = Graph::default();
    let mut known = vec![None; graph.values.len()];
    for &input in &graph.inputs {
        let copied = out.add_value(graph.ty(input).clone());
        out.inputs.push(copied);
        known[input.0 as usize] = Some(copied);
    }
    let result = copy(graph, v, &mut out, &mut known)?;
    out.outputs.push(result);
    Some(out)
}

/// Copies a host value with everything that it is computed from to the end of another graph, which
/// may be empty, and gives its id there. `known` are the values of `graph` that have been copied
/// before, by their id. `None` for a value that is no host value; then `out` is of no use.
pub fn copy(
    graph: &Graph,
    v: ValueId,
    out: &mut Graph,
    known: &mut Vec<Option<ValueId>>,
) -> Option<ValueId> {
    known.resize(graph.values.len().max(known.len()), None);
    // An explicit stack: models are deep.
    let mut stack = vec![v];
    // Every operator is pushed at most once for each of its uses: more is a cycle.
    let mut budget = graph
        .ops
        .iter()
        .map(|op| op.operands.len() + 1)
        .sum::<usize>()
        * 2;
    while let Some(&v) = stack.last() {
        budget = budget.checked_sub(1)?;
        if known.get(v.0 as usize)?.is_some() {
            stack.pop();
            continue;
        }
        let op = graph.definition(v)?;
        if matches!(op.kind, OpKind::Repeat { .. }) {
            return None;
        }
        let copied: Vec<_> = op
            .operands
            .iter()
            .filter_map(|x| known.get(x.0 as usize).copied().flatten())
            .collect();
        if copied.len() == op.operands.len() {
            let ty = graph.ty(v).clone();
            let new = out.add_op(op.kind.clone(), copied, ty, op.location.clone());
            known[v.0 as usize] = Some(new);
            stack.pop();
        } else {
            // The first operand on top, so that it is computed first.
            stack.extend(op.operands.iter().rev());
        }
    }
    known.get(v.0 as usize).copied().flatten()
}

/// The number of a host function in a list, where it is added unless an equal one is there. Names
/// and locations make no difference; the list numbers its functions `host0`, `host1` and so on.
pub fn intern(functions: &mut Vec<Graph>, mut function: Graph) -> u32 {
    let found = functions.iter().position(|f| equal(f, &function));
    found.unwrap_or_else(|| {
        function.name = format!("host{}", functions.len());
        functions.push(function);
        functions.len() - 1
    }) as u32
}

/// Whether two functions compute the same by the same operators in the same order.
fn equal(a: &Graph, b: &Graph) -> bool {
    a.outputs == b.outputs
        && a.inputs == b.inputs
        && a.values == b.values
        && a.ops.len() == b.ops.len()
        && a.ops.iter().zip(&b.ops).all(|(a, b)| {
            same_kind(&a.kind, &b.kind) && a.operands == b.operands && a.result == b.result
        })
}

/// Whether two operators compute the same of the same operands. Constants compare by their bits:
/// 0 and -0 differ, a NaN is equal to itself.
pub fn same_kind(a: &OpKind, b: &OpKind) -> bool {
    match (a, b) {
        (OpKind::Constant { values: a }, OpKind::Constant { values: b }) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::BinaryKind;
    use crate::types::{ElementType, TensorType};

    fn ty(shape: &[u32]) -> TensorType {
        TensorType::new(shape, ElementType::F16)
    }

    fn add(g: &mut Graph, kind: OpKind, operands: &[ValueId], shape: &[u32]) -> ValueId {
        g.add_op(
            kind,
            operands.to_vec(),
            ty(shape),
            format!("m:{}", g.ops.len()),
        )
    }

    fn parameter(g: &mut Graph, name: &str, shape: &[u32]) -> ValueId {
        add(g, OpKind::Parameter { name: name.into() }, &[], shape)
    }

    fn swap() -> OpKind {
        OpKind::Transpose {
            permutation: vec![1, 0],
        }
    }

    #[test]
    fn lookups_by_arguments_are_steps_of_the_host() {
        let mut g = Graph::default();
        let integers = TensorType::new([3], ElementType::I32);
        let indices = g.add_value(integers.clone());
        let x = g.add_value(ty(&[3, 4]));
        let only = g.add_value(integers.clone());
        g.inputs = vec![indices, x, only];
        let w = parameter(&mut g, "w", &[9, 4]);
        let gather = || OpKind::Gather { axis: 0 };
        let found = add(&mut g, gather(), &[w, indices], &[3, 4]);
        let of_argument = add(&mut g, gather(), &[x, indices], &[3, 4]);
        let order = g.add_op(gather(), vec![only, indices], integers, String::new());
        let cast = add(&mut g, OpKind::Cast, &[order], &[3]);
        let sum = add(
            &mut g,
            OpKind::Binary(BinaryKind::Add),
            &[found, x],
            &[3, 4],
        );
        // Of what tiles computed there is nothing to look up.
        let late = add(&mut g, gather(), &[sum, indices], &[3, 4]);
        g.outputs = vec![late, of_argument, cast];
        let host = HostValues::of(&g);
        for (v, step) in [
            (found, true),
            (of_argument, true),
            (order, true),
            (cast, true),
        ]
        .into_iter()
        .chain([(w, false), (sum, false), (late, false), (x, false)])
        {
            assert_eq!(host.is_step(v), step, "{v:?}");
        }
        assert_eq!(host.steps_read_by_program(&g), [found, of_argument, cast]);
        let of_host = |v| host.is_argument_of_host(&g, v);
        // `late` reads the indices on tiles, where nothing does.
        assert_eq!([indices, x, only].map(of_host), [false, false, true]);
        let recipe = step_recipe(&g, cast).unwrap();
        let inputs: Vec<_> = recipe.inputs.iter().map(|&v| recipe.ty(v)).collect();
        let expected: Vec<_> = g.inputs.iter().map(|&v| g.ty(v)).collect();
        assert_eq!(inputs, expected);
        assert_eq!(recipe.ops.len(), 2);
        assert_eq!(
            step_recipe(&g, sum).map(|r| r.ops.len()),
            Some(3),
            "any value of arguments"
        );
        assert_eq!(recipe_kinds(&recipe), ["gather", "cast"]);
        assert!(super::recipe(&g, cast).is_none());
    }

    fn recipe_kinds(graph: &Graph) -> Vec<&'static str> {
        graph.ops.iter().map(|op| op.kind.name()).collect()
    }

    #[test]
    fn what_is_computed_from_host_values_is_one() {
        let mut g = Graph::default();
        let x = g.add_value(ty(&[4, 4]));
        g.inputs.push(x);
        let w = parameter(&mut g, "w", &[4, 4]);
        let t = add(&mut g, swap(), &[w], &[4, 4]);
        let sum = add(&mut g, OpKind::Binary(BinaryKind::Add), &[t, w], &[4, 4]);
        let mixed = add(&mut g, OpKind::Binary(BinaryKind::Add), &[x, sum], &[4, 4]);
        let after = add(&mut g, OpKind::RELU, &[mixed], &[4, 4]);
        g.outputs = vec![after, t];
        let host = HostValues::of(&g);
        let known: Vec<_> = [x, w, t, sum, mixed, after]
            .map(|v| host.contains(v))
            .into();
        assert_eq!(known, [false, true, true, true, false, false]);
        assert_eq!(host.read_by_program(&g), [t, sum]);
        assert_eq!(recipe(&g, mixed), None);
        assert_eq!(recipe(&g, x), None);
    }

    #[test]
    fn a_repeat_is_no_host_value() {
        let mut g = Graph::default();
        let w = parameter(&mut g, "w", &[4]);
        let repeat = OpKind::Repeat {
            count: 2,
            body: Box::default(),
        };
        let r = add(&mut g, repeat, &[w], &[4]);
        assert!(!HostValues::of(&g).contains(r));
        assert_eq!(recipe(&g, r), None);
    }

    #[test]
    fn recipes_hold_what_they_need_once_and_equal_ones_are_shared() {
        let mut g = Graph::default();
        let other = parameter(&mut g, "other", &[4, 4]);
        let w = parameter(&mut g, "w", &[4, 4]);
        let t = add(&mut g, swap(), &[w], &[4, 4]);
        let u = add(&mut g, swap(), &[w], &[4, 4]);
        let o = add(&mut g, swap(), &[other], &[4, 4]);
        let square = add(&mut g, OpKind::MATMUL, &[t, t], &[4, 4]);
        let r = recipe(&g, square).unwrap();
        let kinds: Vec<_> = r.ops.iter().map(|op| op.kind.name()).collect();
        assert_eq!(kinds, ["parameter", "transpose", "matmul"]);
        assert_eq!(r.outputs, [ValueId(2)]);
        assert_eq!(r.ops[2].location, "m:5");
        let mut list = Vec::new();
        let numbers: Vec<_> = [t, o, u, square]
            .map(|v| intern(&mut list, recipe(&g, v).unwrap()))
            .into();
        assert_eq!(numbers, [0, 1, 0, 2]);
        assert_eq!(list[1].name, "host1");
    }

    #[test]
    fn constants_are_equal_by_their_bits() {
        let of = |v: f32| OpKind::Constant { values: vec![v] };
        assert!(!same_kind(&of(0.0), &of(-0.0)));
        assert!(same_kind(&of(f32::NAN), &of(f32::NAN)));
        assert!(!same_kind(&of(1.0), &OpKind::RELU));
    }

    #[test]
    fn a_cycle_has_no_recipe() {
        let mut g = Graph::default();
        let a = add(&mut g, OpKind::RELU, &[ValueId(1)], &[4]);
        add(&mut g, OpKind::RELU, &[a], &[4]);
        assert_eq!(recipe(&g, a), None);
    }
}
