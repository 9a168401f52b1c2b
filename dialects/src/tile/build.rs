//! Building `tile.program` from a [`TileProgram`].

use super::certificate;
use super::table::{TableBuilder, view_words};
use crate::diag::{Failed, Span, error_at};
use crate::graph::{build_private, tensor_type, values_attribute};
use crate::ir::{self, New};
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Binding, Buffer, BufferId, Source, Step, TileProgram};
use ipu_program::types::TensorType;
use melior::Context;
use melior::ir::attribute::{
    ArrayAttribute, FlatSymbolRefAttribute, IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Location, Operation, OperationRef};

/// Builds the `tile.program` of a program. `None` when MLIR refuses; a diagnostic says so.
pub fn build<'c>(
    context: &'c Context,
    program: &TileProgram,
    at: Location<'c>,
) -> Option<Operation<'c>> {
    try_build(context, program, at).ok()
}

fn try_build<'c>(
    context: &'c Context,
    program: &TileProgram,
    at: Location<'c>,
) -> Result<Operation<'c>, Failed> {
    let cx = Builder { context, program };
    let top = New {
        attributes: &[
            ("sym_name", cx.text(&program.name)),
            ("tiles", cx.int(program.tiles)),
            (
                "rows_address",
                program.rows_area.and_then(|r| cx.int(r.address)),
            ),
            (
                "rows_bytes",
                program.rows_area.and_then(|r| cx.int(r.bytes)),
            ),
        ],
        body: true,
        ..New::default()
    }
    .build("tile.program", at, context)?;
    let block = ir::new_body(&top)?;
    if !program.host.is_empty() {
        let host = New {
            body: true,
            ..New::default()
        };
        let host = host.build("tile.host", at, context)?;
        let functions = ir::new_body(&host)?;
        for function in &program.host {
            functions.append_operation(build_private(context, function, at)?);
        }
        block.append_operation(host);
    }
    for buffer in &program.buffers {
        block.append_operation(cx.buffer(buffer)?);
    }
    for binding in &program.bindings {
        block.append_operation(cx.binding(binding, at)?);
    }
    for step in &program.steps {
        block.append_operation(cx.step(step)?);
    }
    Ok(top)
}

/// Puts a program in the place of a `tile.program` (or of the `func.func` it comes from).
///
/// # Errors
/// Where [`build`] gives nothing.
pub fn replace<'c, 'a>(
    old: OperationRef<'c, 'a>,
    program: &TileProgram,
) -> Result<OperationRef<'c, 'a>, Failed> {
    Ok(ir::replace(
        old,
        try_build(ir::context(old), program, old.location())?,
    ))
}

struct Builder<'c, 'p> {
    context: &'c Context,
    program: &'p TileProgram,
}

impl<'c> Builder<'c, '_> {
    fn text(&self, s: &str) -> Option<Attribute<'c>> {
        Some(StringAttribute::new(self.context, s).into())
    }

    fn int(&self, n: u32) -> Option<Attribute<'c>> {
        Some(IntegerAttribute::new(IntegerType::new(self.context, 64).into(), n.into()).into())
    }

    fn ty(&self, ty: &TensorType) -> Option<Attribute<'c>> {
        Some(TypeAttribute::new(tensor_type(self.context, ty, None)).into())
    }

    fn reference(&self, id: BufferId) -> Attribute<'c> {
        FlatSymbolRefAttribute::new(self.context, &self.program.buffer(id).name).into()
    }

    fn references(&self, ids: &[BufferId]) -> Option<Attribute<'c>> {
        let list: Vec<_> = ids.iter().map(|id| self.reference(*id)).collect();
        Some(ArrayAttribute::new(self.context, &list).into())
    }

    fn words(&self, words: &[u32]) -> Option<Attribute<'c>> {
        Some(ir::words_attribute(self.context, words))
    }

    fn op(
        &self,
        name: &str,
        at: Location<'c>,
        attributes: &[(&str, Option<Attribute<'c>>)],
    ) -> Result<Operation<'c>, Failed> {
        New {
            attributes,
            ..New::default()
        }
        .build(name, at, self.context)
    }

    fn buffer(&self, b: &Buffer) -> Result<Operation<'c>, Failed> {
        let ty = TypeAttribute::new(tensor_type(self.context, &b.ty, Some(&b.layout))).into();
        let attributes = [
            ("sym_name", self.text(&b.name)),
            ("type", Some(ty)),
            ("align", self.int(b.align)),
            ("tail", self.int(b.tail)),
            ("first_step", b.live.and_then(|l| self.int(l.0))),
            ("last_step", b.live.and_then(|l| self.int(l.1))),
            ("address", b.address.and_then(|a| self.int(a))),
        ];
        self.op(
            "tile.buffer",
            Span::location(self.context, &b.location),
            &attributes,
        )
    }

    fn binding(&self, b: &Binding, at: Location<'c>) -> Result<Operation<'c>, Failed> {
        let buffer = ("buffer", Some(self.reference(b.buffer)));
        let source: &[_] = match &b.source {
            Source::Input(i) => &[("input", self.int(*i))],
            Source::Output(i) => &[("output", self.int(*i))],
            Source::Parameter { name, ty } => {
                &[("parameter", self.text(name)), ("type", self.ty(ty))]
            }
            Source::Constant { ty, values } => {
                &[("value", Some(values_attribute(self.context, ty, values)))]
            }
            Source::Host { function, result } | Source::HostStep { function, result } => {
                let function = self.program.host.get(*function as usize);
                let function = function.ok_or_else(|| {
                    error_at(at, "internal error: a binding names no host function")
                })?;
                let symbol = FlatSymbolRefAttribute::new(self.context, &function.name).into();
                &[("host", Some(symbol)), ("result", self.int(*result))]
            }
        };
        self.op("tile.bind", at, &[&[buffer], source].concat())
    }

    fn step(&self, step: &Step) -> Result<Operation<'c>, Failed> {
        let name = ("sym_name", self.text(step.name()));
        let at = |location: &str| Span::location(self.context, location);
        match step {
            Step::Compute(c) => {
                let table = Kernels::builtin().get(&c.kernel).and_then(|kernel| {
                    let width = kernel.record_words(c.words.len(), c.tiles.len())?;
                    u32::try_from(width - kernel.words.len()).ok()
                });
                let table = table.filter(|&length| length > 0);
                let attributes = [
                    name,
                    ("kernel", self.text(&c.kernel)),
                    ("buffers", self.references(&c.buffers)),
                    ("tiles", self.words(&c.tiles)),
                    ("words", self.words(&c.words)),
                    ("table", table.and_then(|length| self.int(length))),
                ];
                self.op("tile.compute", at(&c.location), &attributes)
            }
            Step::Rearrange {
                source,
                destination,
                view,
                location,
                ..
            } => {
                let view = view.as_ref().map(view_words);
                let attributes = [
                    name,
                    ("source", Some(self.reference(*source))),
                    ("destination", Some(self.reference(*destination))),
                    ("view", view.map(|v| ir::longs_attribute(self.context, &v))),
                ];
                self.op("tile.rearrange", at(location), &attributes)
            }
            Step::Exchange {
                copies,
                schedule,
                location,
                ..
            } => {
                let mut table = TableBuilder::default();
                let copies = table.copies(copies);
                let certificate = schedule.as_ref().and_then(|s| s.certificate.as_ref());
                let schedule = schedule.as_ref().map(|s| table.schedule(s));
                let attributes = [
                    name,
                    ("buffers", self.references(&table.buffers)),
                    ("copies", self.words(&copies)),
                    ("schedule", schedule.and_then(|s| self.words(&s))),
                    (
                        "certificate",
                        certificate.and_then(|c| certificate::build(self.context, c)),
                    ),
                ];
                self.op("tile.exchange", at(location), &attributes)
            }
        }
    }
}
