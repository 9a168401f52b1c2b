//! `ipu-tile`: plans to shards and supersteps.
//!
//! Results of host steps arrive like arguments; arguments that only the host reads have no buffer.
//! Every activation gets a buffer in the layout that its operator chose; an operand that must
//! arrive in another layout gets a second buffer and an explicit rearrangement, one for all users
//! of that layout. Host values are bound once for each layout that somebody reads: a parameter or
//! constant as such, anything else as the result of a host function.

mod local;
mod parts;
mod products;
mod stream;

use crate::select_operators::plans::{Words, linear_grid, same_places, spread};
use crate::select_operators::views::{Viewed, Views, is_view};
use ipu_program::graph::{Graph, Op, OpKind, ValueId};
use ipu_program::host::{self, HostValues};
use ipu_program::infer::broadcast;
use ipu_program::kernels::{Access, Kernels};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass};
use ipu_program::plan::{Family, Plan};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram, View};
use ipu_program::types::TensorType;
use std::collections::BTreeMap;

/// A graph that cannot be tiled: a pass before this one did not run, or the IR was edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{op}' cannot be tiled: {why}")]
pub struct TileError {
    /// Source location.
    pub location: String,
    /// Operation.
    pub op: String,
    /// Reason.
    pub why: String,
}

struct Builder<'a> {
    graph: &'a Graph,
    kernels: &'a Kernels,
    views: Views,
    host: HostValues,
    program: TileProgram,
    /// Buffers of a value, by layout and storage type.
    buffers: BTreeMap<ValueId, Vec<BufferId>>,
    names: BTreeMap<String, u32>,
}

/// Builds the tile program of a graph with plans.
///
/// # Errors
/// An operation has no plan, or one that does not suit it.
pub fn tile(graph: &Graph, kernels: &Kernels) -> Result<TileProgram, TileError> {
    Ok(build(graph, kernels)?.program)
}

/// The names of the buffers that hold a value of the graph in the program that [`tile`] makes of
/// it, as a whole or a part, with the value. Later passes keep names and what they stand for.
///
/// # Errors
/// As [`tile`].
pub fn values(graph: &Graph, kernels: &Kernels) -> Result<Vec<(String, ValueId)>, TileError> {
    let b = build(graph, kernels)?;
    let outputs = b.program.bindings.iter().filter_map(|binding| {
        let Source::Output(i) = binding.source else {
            return None;
        };
        let v = *graph.outputs.get(i as usize)?;
        // A result may be where it was computed.
        let known = b
            .buffers
            .get(&v)
            .is_some_and(|ids| ids.contains(&binding.buffer));
        (!known).then_some((binding.buffer, v))
    });
    let held = b.buffers.iter();
    let held = held.flat_map(|(&v, ids)| ids.iter().map(move |&id| (id, v)));
    let name = |(id, v)| (b.program.buffer(id).name.clone(), v);
    Ok(held.chain(outputs).map(name).collect())
}

fn build<'a>(graph: &'a Graph, kernels: &'a Kernels) -> Result<Builder<'a>, TileError> {
    let planned = graph
        .ops
        .iter()
        .filter_map(|op| op.plan.as_ref())
        .flat_map(|p| &p.operands);
    let held = graph.values.iter().filter_map(|v| v.layout.as_ref());
    let tiles = planned.chain(held).map(Layout::tile_end).max().unwrap_or(1);
    let mut b = Builder {
        graph,
        kernels,
        views: Views::of(graph),
        host: HostValues::of(graph),
        program: TileProgram {
            name: graph.name.clone(),
            tiles,
            ..TileProgram::default()
        },
        buffers: BTreeMap::new(),
        names: BTreeMap::new(),
    };
    for (i, &input) in graph.inputs.iter().enumerate() {
        if !b.host.is_argument_of_host(graph, input) {
            b.arrive(input, &format!("arg{i}"), "", Source::Input(i as u32));
        }
    }
    for v in b.host.steps_read_by_program(graph) {
        let (Some(op), Some(function)) = (graph.definition(v), host::step_recipe(graph, v)) else {
            continue;
        };
        let source = Source::HostStep {
            function: host::intern(&mut b.program.host, function),
            result: 0,
        };
        b.arrive(v, op.kind.name(), &op.location, source);
    }
    for op in &graph.ops {
        match (&op.kind, &op.plan) {
            (_, _) if b.host.is_done(op.result) => {}
            (_, _) if b.views.is_virtual(op.result) => {}
            (kind, Some(p)) if p.family == Family::View => match kind {
                OpKind::Concat { axis } => b.concat(op, *axis)?,
                kind if is_view(kind) => b.store_view(op)?,
                _ => return Err(unsuitable(op, p)),
            },
            (OpKind::Linear { activation }, Some(p)) if p.family == Family::Gemm => {
                if linear_grid::is_grid(p) {
                    b.grid_linear(op, p, *activation)?;
                } else if p.grid_k > 1 {
                    b.split_linear(op, p, *activation)?;
                } else {
                    b.linear(op, p, *activation)?;
                }
            }
            (OpKind::Matmul { transpose_b, .. }, Some(p)) if p.family == Family::Gemm => {
                b.product(op, p, *transpose_b)?;
            }
            (OpKind::Attention { scale, causal, .. }, Some(p)) if p.family == Family::Attention => {
                if p.grid_k > 1 {
                    b.grid_attention(op, p, scale.get(), *causal)?;
                } else {
                    b.attention(op, p, scale.get(), *causal)?;
                }
            }
            (
                OpKind::Softmax { .. } | OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. },
                Some(p),
            ) if p.family == Family::Rowwise => b.rowwise(op, p)?,
            (OpKind::Reduce { kind, .. }, Some(p)) if p.family == Family::Reduce => {
                b.reduce(op, p, *kind)?;
            }
            (OpKind::Binary(_) | OpKind::Unary(_) | OpKind::Cast, Some(p))
                if p.family == Family::Elementwise =>
            {
                b.elementwise(op, p)?;
            }
            (_, Some(p)) => return Err(unsuitable(op, p)),
            (_, None) => return Err(error(op, "it has no plan; run ipu-select-operators first")),
        }
    }
    for (i, &output) in graph.outputs.iter().enumerate() {
        b.output(i as u32, output)?;
    }
    Ok(b)
}

fn error(op: &Op, why: impl Into<String>) -> TileError {
    TileError {
        location: op.location.clone(),
        op: format!("nn.{}", op.kind.name()),
        why: why.into(),
    }
}

fn unsuitable(op: &Op, plan: &Plan) -> TileError {
    error(
        op,
        format!("the plan family '{}' is not for it", plan.family.name()),
    )
}

impl Builder<'_> {
    /// A symbol that is not in use: the name itself or with a number.
    fn symbol(&mut self, name: &str) -> String {
        let clean: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let mut symbol = clean.clone();
        loop {
            let n = self.names.entry(symbol.clone()).or_insert(0);
            *n += 1;
            if *n == 1 {
                return symbol;
            }
            symbol = format!("{clean}_{}", *n - 1);
        }
    }

    /// A bound buffer for a value that the host writes before each run.
    fn arrive(&mut self, v: ValueId, name: &str, location: &str, source: Source) {
        let value = self.graph.value(v);
        let ty = value.ty.clone();
        let layout = value.layout.clone();
        let layout =
            layout.unwrap_or_else(|| spread(self.program.tiles, ty.matrix(), ElementOrder::Rows));
        let buffer = self.buffer(name, ty, layout, location);
        self.buffers.entry(v).or_default().push(buffer);
        self.program.bindings.push(Binding { source, buffer });
    }

    fn buffer(&mut self, name: &str, ty: TensorType, layout: Layout, location: &str) -> BufferId {
        let name = self.symbol(name);
        self.program
            .add_buffer(Buffer::new(name, ty, layout, location))
    }

    /// The name of a value: its parameter, its argument, or the step that computes it; what the
    /// host computes has that of its first operand.
    fn value_name(&self, mut v: ValueId) -> String {
        while self.host.contains(v)
            && let Some(op) = self.graph.definition(v)
            && let Some(&x) = op.operands.first()
        {
            v = x;
        }
        if let Some(i) = self.graph.inputs.iter().position(|&x| x == v) {
            return format!("arg{i}");
        }
        match self.graph.definition(v).map(|op| &op.kind) {
            Some(OpKind::Parameter { name }) => name.clone(),
            Some(OpKind::Constant { .. }) => "constant".to_owned(),
            _ => self
                .buffers
                .get(&v)
                .and_then(|ids| ids.first())
                .map_or_else(
                    || "value".to_owned(),
                    |id| self.program.buffer(*id).name.clone(),
                ),
        }
    }

    /// The buffer of operand `v` in the layout that `op` asks for, with `element` storage and the
    /// shape `ty`; made, bound or rearranged when it does not exist yet.
    fn operand(
        &mut self,
        op: &Op,
        v: ValueId,
        layout: &Layout,
        ty: TensorType,
    ) -> Result<BufferId, TileError> {
        if let Some(id) = self.held(v, layout, &ty) {
            return Ok(id);
        }
        if let Some(id) = self.bound(v, layout, &ty) {
            self.buffers.entry(v).or_default().push(id);
            return Ok(id);
        }
        let viewed = self.views.viewed(self.graph, v);
        let source = self.stored(op, viewed.base)?;
        let base = self.value_name(v);
        let id = self.buffer(
            &format!("{base}.{}", layout.order.name()),
            ty,
            layout.clone(),
            &op.location,
        );
        let view = self.view_to(&viewed, id);
        self.rearrange(&format!("move.{base}"), source, id, view, &op.location);
        self.buffers.entry(v).or_default().push(id);
        Ok(id)
    }

    /// A buffer that has the value as wanted.
    fn held(&mut self, v: ValueId, layout: &Layout, ty: &TensorType) -> Option<BufferId> {
        let id = self.buffers.get(&v)?.iter().copied().find(|&id| {
            let b = self.program.buffer(id);
            same_places(&b.layout, layout) && b.ty == *ty && compatible(b.class(), layout.memory)
        })?;
        let held = &mut self.program.buffers[id.0 as usize].layout.memory;
        if *held == MemoryClass::Any {
            *held = layout.memory;
        }
        Some(id)
    }

    /// A new buffer of type `ty` that the host fills with a host value, or of one with the same
    /// matrix; `None` when the value is none, or has no such form.
    fn bound(&mut self, v: ValueId, layout: &Layout, ty: &TensorType) -> Option<BufferId> {
        if !self.host.contains(v) {
            return None;
        }
        let (leaf, known) = self.reshaped(v, ty);
        // The host broadcasts what is in its own shape, and rounds. Another shape with the same
        // matrix view is the same data; one that differs more is made by the host.
        let fits = |shape: &[u32]| broadcast(shape, &ty.shape).is_some_and(|s| s == ty.shape);
        let same = known.elements() == ty.elements();
        let (ty, reshape) = if fits(&known.shape) {
            (ty.clone(), false)
        } else if same && known.matrix() == ty.matrix() {
            (TensorType::new(known.shape.clone(), ty.element), false)
        } else if same {
            (ty.clone(), true)
        } else {
            return None;
        };
        let op = self.graph.definition(leaf)?;
        let mut name = self.value_name(leaf);
        let source = match &op.kind {
            OpKind::Parameter { name } if !reshape => Source::Parameter {
                name: name.clone(),
                ty: known,
            },
            OpKind::Constant { values } if !reshape => Source::Constant {
                ty: known,
                values: values.clone(),
            },
            kind => {
                let mut function = host::recipe(self.graph, leaf)?;
                let mut made = kind.name();
                if reshape {
                    let ty = TensorType::new(ty.shape.clone(), known.element);
                    let whole = std::mem::take(&mut function.outputs);
                    let result = function.add_op(OpKind::Reshape, whole, ty, op.location.clone());
                    function.outputs.push(result);
                    made = OpKind::Reshape.name();
                }
                name = format!("{name}.{made}");
                Source::Host {
                    function: host::intern(&mut self.program.host, function),
                    result: 0,
                }
            }
        };
        let id = self.buffer(&name, ty, layout.clone(), &op.location);
        self.program.bindings.push(Binding { source, buffer: id });
        Some(id)
    }

    /// What a host value is a mere reshape of, as far as a buffer of type `ty` does not show it, and
    /// the type: without reshapes when the matrix stays, or only leading axes of one element differ.
    fn reshaped(&self, v: ValueId, ty: &TensorType) -> (ValueId, TensorType) {
        let own = self.graph.ty(v);
        let mut found = v;
        let mut x = v;
        while let Some(op) = self.graph.definition(x)
            && op.kind == OpKind::Reshape
            && let Some(&operand) = op.operands.first()
        {
            x = operand;
            let known = self.graph.ty(x);
            let extents = |ty: &TensorType| -> Vec<u32> {
                ty.shape.iter().copied().skip_while(|&n| n == 1).collect()
            };
            let broadcasts = known.shape.len() <= ty.shape.len() && extents(known) == extents(own);
            let whole = known.elements() == ty.elements() && known.matrix() == ty.matrix();
            if broadcasts || whole {
                found = x;
            }
        }
        (found, self.graph.ty(found).clone())
    }

    /// A buffer with a stored value in whatever layout.
    fn stored(&mut self, op: &Op, base: ValueId) -> Result<BufferId, TileError> {
        if let Some(&id) = self.buffers.get(&base).and_then(|ids| ids.first()) {
            return Ok(id);
        }
        let ty = self.graph.ty(base).clone();
        let layout = spread(self.program.tiles, ty.matrix(), ElementOrder::Rows);
        let id = self
            .bound(base, &layout, &ty)
            .ok_or_else(|| error(op, "an operand has no buffer"))?;
        self.buffers.entry(base).or_default().push(id);
        Ok(id)
    }

    /// How the elements of a value come to a buffer of its own; `None` for the same order and
    /// shape.
    fn view_to(&self, viewed: &Viewed, to: BufferId) -> Option<View> {
        let base = self.graph.ty(viewed.base);
        let same = viewed.strided.is_whole(base.elements());
        (!same || base.matrix() != self.program.buffer(to).ty.matrix())
            .then(|| viewed.strided.to_whole())
    }

    fn rearrange(
        &mut self,
        name: &str,
        source: BufferId,
        destination: BufferId,
        view: Option<View>,
        location: &str,
    ) {
        let name = self.symbol(name);
        self.program.steps.push(Step::Rearrange {
            name,
            source,
            destination,
            view,
            location: location.to_owned(),
        });
    }

    /// Stores the result of a view operator.
    fn store_view(&mut self, op: &Op) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let Some(viewed) = self.views.of_operator(self.graph, op) else {
            return Err(error(op, "its operand has another shape than it expects"));
        };
        let source = self.stored(op, viewed.base)?;
        let ty = self.graph.ty(op.result).clone();
        let id = self.buffer(op.kind.name(), ty, layout, &op.location);
        let view = self.view_to(&viewed, id);
        let name = format!("{}.step", self.program.buffer(id).name);
        self.rearrange(&name, source, id, view, &op.location);
        self.buffers.entry(op.result).or_default().push(id);
        Ok(())
    }

    /// Writes operands one after the other along an axis.
    fn concat(&mut self, op: &Op, axis: u32) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        let ty = self.graph.ty(op.result).clone();
        let mut strides = vec![1u64; ty.shape.len()];
        for i in (1..strides.len()).rev() {
            strides[i - 1] = strides[i] * u64::from(ty.shape[i]);
        }
        let id = self.buffer(op.kind.name(), ty, layout, &op.location);
        let name = format!("{}.step", self.program.buffer(id).name);
        let mut offset = 0;
        for &v in &op.operands {
            let viewed = self.views.viewed(self.graph, v);
            let source = self.stored(op, viewed.base)?;
            let shape = self.graph.ty(v).shape.clone();
            let (Some(&extent), Some(&stride)) =
                (shape.get(axis as usize), strides.get(axis as usize))
            else {
                return Err(error(op, "its axis does not exist"));
            };
            let view = viewed.strided.to_part(&shape, offset, &strides);
            let view = view.ok_or_else(|| error(op, "an operand has no strides"))?;
            self.rearrange(&name, source, id, Some(view), &op.location);
            offset += u64::from(extent) * stride;
        }
        self.buffers.entry(op.result).or_default().push(id);
        Ok(())
    }

    /// A buffer for a result, known under the result's value.
    fn result(&mut self, op: &Op, name: &str, layout: Layout) -> BufferId {
        let ty = self.graph.ty(op.result).clone();
        let id = self.buffer(name, ty, layout, &op.location);
        self.buffers.entry(op.result).or_default().push(id);
        id
    }

    /// The layouts that a plan gives to the operands of its operator.
    fn operand_layouts<'p>(&self, op: &Op, plan: &'p Plan) -> Result<&'p [Layout], TileError> {
        if plan.operands.len() != op.operands.len() || plan.operands.is_empty() {
            return Err(error(op, "the plan has another number of operands"));
        }
        Ok(&plan.operands)
    }

    fn result_layout(&self, op: &Op) -> Result<Layout, TileError> {
        self.graph.value(op.result).layout.clone().ok_or_else(|| {
            error(
                op,
                "its result has no layout; run ipu-select-operators first",
            )
        })
    }

    fn compute(
        &mut self,
        op: &Op,
        name: &str,
        kernel_name: &str,
        named: &[(&str, Option<BufferId>)],
        tiles: impl IntoIterator<Item = (u32, Words)>,
    ) -> Result<(), TileError> {
        let Some(kernel) = self.kernels.get(kernel_name) else {
            return Err(error(
                op,
                format!("kernel '{kernel_name}' is not in the registry"),
            ));
        };
        let mut buffers = Vec::new();
        for argument in &kernel.buffers {
            let id = named
                .iter()
                .find(|n| n.0 == argument.name)
                .and_then(|n| n.1);
            let Some(id) = id else {
                return Err(error(
                    op,
                    format!("kernel '{kernel_name}' needs buffer '{}'", argument.name),
                ));
            };
            let buffer = &mut self.program.buffers[id.0 as usize];
            buffer.tail = buffer.tail.max(argument.tail);
            if argument.memory != MemoryClass::Any && argument.access != Access::Scratch {
                buffer.layout.memory = argument.memory;
            }
            buffers.push(id);
        }
        let mut tiles = tiles
            .into_iter()
            .map(|(tile, words)| Ok((tile, words.of(&kernel.words)?)))
            .collect::<Result<Vec<_>, String>>()
            .map_err(|word| {
                error(
                    op,
                    format!("kernel '{kernel_name}' takes a word '{word}' that it is not given"),
                )
            })?;
        tiles.sort();
        let name = self.symbol(name);
        self.program.steps.push(Step::Compute(Compute {
            name,
            kernel: kernel_name.to_owned(),
            buffers,
            tiles: tiles.iter().map(|t| t.0).collect(),
            words: tiles.into_iter().flat_map(|t| t.1).collect(),
            location: op.location.clone(),
        }));
        Ok(())
    }

    /// Binds a result where it was computed, in whatever order it has there. Views, what the host
    /// knows, arguments and results on several tiles get a buffer of their own, in rows.
    fn output(&mut self, index: u32, v: ValueId) -> Result<(), TileError> {
        let op = self.graph.definition(v);
        let elsewhere = self.views.is_virtual(v) || op.is_none() || self.host.is_done(v);
        let held = self.buffers.get(&v).and_then(|ids| ids.first()).copied();
        let held = held.filter(|&id| !elsewhere && self.program.buffer(id).layout.copies == 1);
        let id = match held {
            Some(id) => id,
            None => self.output_buffer(index, v)?,
        };
        self.program.bindings.push(Binding {
            source: Source::Output(index),
            buffer: id,
        });
        Ok(())
    }

    /// A buffer of its own for a result.
    fn output_buffer(&mut self, index: u32, v: ValueId) -> Result<BufferId, TileError> {
        let ty = self.graph.ty(v).clone();
        let op = self.graph.definition(v);
        let location = op.map_or("", |op| &op.location).to_owned();
        let viewed = self.views.viewed(self.graph, v);
        let layout = spread(self.program.tiles, ty.matrix(), ElementOrder::Rows);
        // What the host knows reaches the result as it is.
        if let Some(id) = self.bound(v, &layout, &ty) {
            return Ok(id);
        }
        let source = match (op, self.buffers.get(&viewed.base)) {
            (_, Some(ids)) if !ids.is_empty() => ids[0],
            (Some(op), _) => self.stored(op, viewed.base)?,
            (None, _) => {
                return Err(TileError {
                    location,
                    op: "func.return".into(),
                    why: "an operand has no buffer".into(),
                });
            }
        };
        let id = self.buffer(&format!("result{index}"), ty, layout, &location);
        let view = self.view_to(&viewed, id);
        self.rearrange(&format!("move.result{index}"), source, id, view, &location);
        Ok(id)
    }
}

/// Whether a buffer of class `held` can serve where `wanted` is asked for.
fn compatible(held: MemoryClass, wanted: MemoryClass) -> bool {
    held == wanted || held == MemoryClass::Any || wanted == MemoryClass::Any
}
