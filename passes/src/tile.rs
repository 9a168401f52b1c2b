//! `ipu-tile`: plans to shards and supersteps.
//!
//! Every activation gets a buffer in the layout that its operator chose; an operand that must
//! arrive in another layout gets a second buffer and an explicit rearrangement, one for all users
//! of that layout. Parameters are bound once for each layout that somebody reads.

use crate::select_operators::plans::{
    atom_words, elementwise_kernel, gemm_kernel, gemm_words, same_places, spread,
};
use ipu_program::graph::{Activation, Graph, Op, OpKind, UnaryKind, ValueId};
use ipu_program::kernels::{Access, Kernels};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::plan::{Family, Plan};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
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
        program: TileProgram {
            name: graph.name.clone(),
            tiles,
            ..TileProgram::default()
        },
        buffers: BTreeMap::new(),
        names: BTreeMap::new(),
    };
    for (i, &input) in graph.inputs.iter().enumerate() {
        let ty = graph.ty(input).clone();
        let layout = graph
            .value(input)
            .layout
            .clone()
            .unwrap_or_else(|| spread(tiles, ty.matrix(), ElementOrder::Rows));
        let id = b.buffer(&format!("arg{i}"), ty, layout, "");
        b.buffers.entry(input).or_default().push(id);
        b.program.bindings.push(Binding {
            source: Source::Input(i as u32),
            buffer: id,
        });
    }
    for op in &graph.ops {
        match (&op.kind, &op.plan) {
            (OpKind::Parameter { .. } | OpKind::Constant { .. }, _) => {}
            (OpKind::Linear { activation }, Some(p)) if p.family == Family::Gemm => {
                b.linear(op, p, *activation)?;
            }
            (OpKind::Binary(_) | OpKind::Unary(UnaryKind::Relu), Some(p))
                if p.family == Family::Elementwise =>
            {
                b.elementwise(op, p)?;
            }
            (_, Some(p)) => {
                return Err(error(
                    op,
                    format!("the plan family '{}' is not for it", p.family.name()),
                ));
            }
            (_, None) => return Err(error(op, "it has no plan; run ipu-select-operators first")),
        }
    }
    for (i, &output) in graph.outputs.iter().enumerate() {
        b.output(i as u32, output)?;
    }
    Ok(b.program)
}

fn error(op: &Op, why: impl Into<String>) -> TileError {
    TileError {
        location: op.location.clone(),
        op: format!("nn.{}", op.kind.name()),
        why: why.into(),
    }
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

    fn buffer(&mut self, name: &str, ty: TensorType, layout: Layout, location: &str) -> BufferId {
        let name = self.symbol(name);
        self.program.add_buffer(Buffer {
            name,
            ty,
            layout,
            align: 32,
            tail: 0,
            live: None,
            address: None,
            location: location.to_owned(),
        })
    }

    /// The name of a value: its parameter, its argument, or the step that computes it.
    fn value_name(&self, v: ValueId) -> String {
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
        let ids = self.buffers.get(&v).cloned().unwrap_or_default();
        if let Some(&id) = ids.iter().find(|&&id| {
            let b = self.program.buffer(id);
            same_places(&b.layout, layout) && b.ty == ty && compatible(b.class(), layout.memory)
        }) {
            let wanted = layout.memory;
            let held = &mut self.program.buffers[id.0 as usize].layout.memory;
            if *held == MemoryClass::Any {
                *held = wanted;
            }
            return Ok(id);
        }
        let host = match self.graph.definition(v).map(|d| &d.kind) {
            Some(OpKind::Parameter { name }) => Some(Source::Parameter {
                name: name.clone(),
                ty: self.graph.ty(v).clone(),
            }),
            Some(OpKind::Constant { values }) => Some(Source::Constant {
                ty: self.graph.ty(v).clone(),
                values: values.clone(),
            }),
            _ => None,
        };
        let base = self.value_name(v);
        if let Some(source) = host {
            let location = self.graph.definition(v).map_or("", |d| &d.location);
            let id = self.buffer(&base, ty, layout.clone(), location);
            self.program.bindings.push(Binding { source, buffer: id });
            self.buffers.entry(v).or_default().push(id);
            return Ok(id);
        }
        let Some(&source) = ids.first() else {
            return Err(error(op, "an operand has no buffer"));
        };
        let id = self.buffer(
            &format!("{base}.{}", layout.order.name()),
            ty,
            layout.clone(),
            &op.location,
        );
        let name = self.symbol(&format!("move.{base}"));
        self.program.steps.push(Step::Rearrange {
            view: None,
            name,
            source,
            destination: id,
            location: op.location.clone(),
        });
        self.buffers.entry(v).or_default().push(id);
        Ok(id)
    }

    fn linear(&mut self, op: &Op, plan: &Plan, activation: Activation) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        if plan.operands.len() != op.operands.len() || op.operands.len() < 2 {
            return Err(error(op, "the plan has another number of operands"));
        }
        let bias = op.operands.len() > 2;
        let kernel_name = gemm_kernel(plan.partials, bias, activation);
        let ty = |v: ValueId| self.graph.ty(v).clone();
        let (tx, tw) = (ty(op.operands[0]), ty(op.operands[1]));
        let x = self.operand(op, op.operands[0], &plan.operands[0], tx.clone())?;
        let w = self.operand(op, op.operands[1], &plan.operands[1], tw)?;
        let result = self.graph.ty(op.result).clone();
        let matrix = result.matrix();
        // The bias enters the accumulators, in their precision.
        let b = if bias {
            // One row, in the rank of the bias: that is what its data broadcasts to.
            let mut shape = vec![1; ty(op.operands[2]).shape.len().max(1)];
            if let Some(last) = shape.last_mut() {
                *last = matrix.columns;
            }
            let shape = TensorType::new(shape, plan.partials);
            Some(self.operand(op, op.operands[2], &plan.operands[2], shape)?)
        } else {
            None
        };
        let name = self.weight_name(op);
        let out = self.buffer(&name, result, layout.clone(), &op.location);
        self.buffers.entry(op.result).or_default().push(out);
        let acc = (plan.partials == ElementType::F32).then(|| {
            // One pass of 8 f32 columns, two rows to a line of 16.
            let parts = layout.rows.parts * layout.columns.parts;
            let lines = layout.rows.block.div_ceil(2);
            let scratch = Layout {
                rows: Split {
                    parts,
                    block: lines,
                    stride: 1,
                    unit: 1,
                    period: 0,
                },
                columns: Split::whole(16),
                copies: 1,
                copy_stride: 0,
                first_tile: layout.first_tile,
                order: ElementOrder::Rows,
                memory: MemoryClass::Interleaved,
            };
            let ty = TensorType::new([parts * lines, 16], ElementType::F32);
            self.buffer(&format!("{name}.acc"), ty, scratch, &op.location)
        });
        let k = tx.matrix().columns;
        let a_stride = plan.operands[0].storage(ElementType::F16).panel_stride();
        let out_stride = layout.storage(ElementType::F16).panel_stride();
        let mut tiles = Vec::new();
        for s in layout.shards(matrix) {
            let words = gemm_words(
                s.rows.len() as u32,
                k,
                s.columns.len() as u32,
                a_stride,
                out_stride,
            );
            tiles.push((s.tile, words));
        }
        let named = [
            ("a", Some(x)),
            ("weights", Some(w)),
            ("bias", b),
            ("acc", acc),
            ("out", Some(out)),
        ];
        self.compute(op, &format!("{name}.gemm"), &kernel_name, &named, tiles)
    }

    /// A readable name for a linear step: its weight's key without the last component.
    fn weight_name(&mut self, op: &Op) -> String {
        let key = self.value_name(op.operands[1]);
        key.strip_suffix(".weight")
            .filter(|s| !s.is_empty())
            .unwrap_or("linear")
            .to_owned()
    }

    fn elementwise(&mut self, op: &Op, plan: &Plan) -> Result<(), TileError> {
        let layout = self.result_layout(op)?;
        if plan.operands.len() != op.operands.len() {
            return Err(error(op, "the plan has another number of operands"));
        }
        let Some(kernel) = elementwise_kernel(&op.kind) else {
            return Err(error(op, "no kernel for it"));
        };
        let ty = self.graph.ty(op.result).clone();
        let mut named = Vec::new();
        for ((&v, l), name) in op.operands.iter().zip(&plan.operands).zip(["a", "b"]) {
            named.push((name, Some(self.operand(op, v, l, ty.clone())?)));
        }
        let name = op.kind.name();
        let out = self.buffer(name, ty.clone(), layout.clone(), &op.location);
        let step = format!("{}.step", self.program.buffer(out).name);
        self.buffers.entry(op.result).or_default().push(out);
        named.push(("out", Some(out)));
        let words = atom_words(layout.storage(ty.element).bytes());
        let tiles = layout
            .shards(ty.matrix())
            .iter()
            .map(|s| (s.tile, words.clone()))
            .collect();
        self.compute(op, &step, &kernel, &named, tiles)
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
        mut tiles: Vec<(u32, Vec<u32>)>,
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

    /// Brings a result to its output buffer: row order, each element on one tile.
    fn output(&mut self, index: u32, v: ValueId) -> Result<(), TileError> {
        let ty = self.graph.ty(v).clone();
        let op = self.graph.definition(v);
        let location = op.map_or("", |op| &op.location).to_owned();
        // What the host knows is bound once more: operands that hold it may have another order
        // or another precision.
        let host = op.is_some_and(|op| {
            matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. })
        });
        let held = self.buffers.get(&v).filter(|_| !host);
        let held = held.and_then(|ids| ids.first()).copied();
        // Results stay where they are; only their element order changes.
        let layout = match held {
            Some(id) => Layout {
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
                ..self.program.buffer(id).layout.clone()
            },
            None => spread(self.program.tiles, ty.matrix(), ElementOrder::Rows),
        };
        let source = match (held, op) {
            (Some(id), _) => id,
            (None, Some(op)) => self.operand(op, v, &layout, ty.clone())?,
            (None, None) => {
                return Err(TileError {
                    location,
                    op: "func.return".into(),
                    why: "an operand has no buffer".into(),
                });
            }
        };
        let id = self.buffer(&format!("result{index}"), ty, layout, &location);
        let name = self.symbol(&format!("move.result{index}"));
        self.program.steps.push(Step::Rearrange {
            view: None,
            name,
            source,
            destination: id,
            location,
        });
        self.program.bindings.push(Binding {
            source: Source::Output(index),
            buffer: id,
        });
        Ok(())
    }
}

/// Whether a buffer of class `held` can serve where `wanted` is asked for.
fn compatible(held: MemoryClass, wanted: MemoryClass) -> bool {
    held == wanted || held == MemoryClass::Any || wanted == MemoryClass::Any
}
