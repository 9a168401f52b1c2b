//! Functions of dialect `nn` as [`Graph`], and back.

use crate::diag::{Failed, Span, emit_error, error_at};
use crate::ir::{self, New, Tensor};
use crate::layout;
use half::f16;
use ipu_program::graph::{Activation, BinaryKind, Graph, Op, OpKind, Value as GraphValue, ValueId};
use ipu_program::types::{ElementType, TensorType};
use melior::Context;
use melior::ir::attribute::{DenseElementsAttribute, StringAttribute, TypeAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::FunctionType;
use melior::ir::{Attribute, Location, Operation, OperationRef, Type, Value, ValueLike};
use std::collections::BTreeMap;

/// The type and layout of a tensor of IR.
pub fn read_type(
    ty: Type<'_>,
) -> Result<(TensorType, Option<ipu_program::layout::Layout>), String> {
    let tensor = Tensor::of(ty).ok_or_else(|| format!("{ty} is not a tensor with a rank"))?;
    let element = layout::read_element_type(tensor.element())
        .ok_or_else(|| format!("{tensor} has elements that are not f16 or f32"))?;
    crate::nn::check_tensor(tensor).map_err(|e| format!("{tensor}: {e}"))?;
    let shape: Vec<u32> = tensor.shape().into_iter().map(|n| n as u32).collect();
    let layout = match tensor.encoding() {
        None => None,
        Some(e) => Some(layout::read(e).ok_or_else(|| format!("{e} is not an #ipu.layout"))?),
    };
    Ok((TensorType::new(shape, element), layout))
}

/// A tensor type of IR.
pub fn tensor_type<'c>(
    context: &'c Context,
    ty: &TensorType,
    layout: Option<&ipu_program::layout::Layout>,
) -> Type<'c> {
    let shape: Vec<u64> = ty.shape.iter().map(|&n| n.into()).collect();
    let encoding = layout.map(|l| layout::attribute(context, l));
    Tensor::new(&shape, layout::element_type(context, ty.element), encoding).ty()
}

/// The values of an elements attribute: one for a splat, all otherwise.
pub fn read_values(value: Attribute<'_>, element: ElementType) -> Result<Vec<f32>, String> {
    let bytes = ir::elements_bytes(value)
        .ok_or("has a value that was elided when this text was printed")?;
    Ok(match element {
        ElementType::F16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f16::from_le_bytes(b).to_f32())
            .collect(),
        ElementType::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect(),
    })
}

/// A dense attribute of these values (one for a splat), rounded to the element type.
pub fn values_attribute<'c>(
    context: &'c Context,
    ty: &TensorType,
    values: &[f32],
) -> Attribute<'c> {
    let bytes: Vec<u8> = match ty.element {
        ElementType::F16 => values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect(),
        ElementType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    DenseElementsAttribute::raw_buffer(tensor_type(context, ty, None), &bytes).into()
}

/// Reads a `func.func` of `nn` operations. Everything that cannot be read is reported, each
/// thing at its own location.
pub fn read(func: OperationRef<'_, '_>) -> Result<Graph, Failed> {
    let mut reader = Reader {
        graph: Graph::default(),
        ids: BTreeMap::new(),
        failed: None,
    };
    reader.graph.name = ir::string(func, "sym_name").unwrap_or_default().to_owned();
    let Some(block) = ir::body(func) else {
        return Err(emit_error(func, "has no body"));
    };
    for i in 0..block.argument_count() {
        let Ok(argument) = block.argument(i) else {
            continue;
        };
        let argument = argument.into();
        if let Err(e) = reader
            .value(argument)
            .map(|id| reader.graph.inputs.push(id))
        {
            reader.failed = Some(emit_error(func, format!("argument {i}: {e}")));
        }
    }
    for op in ir::block_ops(block) {
        if let Err(e) = reader.op(op) {
            reader.failed = Some(emit_error(op, e));
        }
    }
    reader.failed.map_or(Ok(reader.graph), Err)
}

struct Reader {
    graph: Graph,
    /// By address of the value.
    ids: BTreeMap<usize, ValueId>,
    failed: Option<Failed>,
}

impl Reader {
    /// Adds a value.
    fn value(&mut self, value: Value<'_, '_>) -> Result<ValueId, String> {
        let (ty, layout) = read_type(value.r#type())?;
        let id = ValueId(self.graph.values.len() as u32);
        self.graph.values.push(GraphValue { ty, layout });
        self.ids.insert(value.to_raw().ptr as usize, id);
        Ok(id)
    }

    fn op(&mut self, op: OperationRef<'_, '_>) -> Result<(), String> {
        // What an operation with an error defines is unknown; its users need no second error.
        let known: Vec<_> = op
            .operands()
            .filter_map(|v| self.ids.get(&(v.to_raw().ptr as usize)).copied())
            .collect();
        let name = ir::name(op);
        if name == "func.return" {
            self.graph.outputs = known;
            return Ok(());
        }
        let plan = match op.attribute("plan") {
            Err(_) => None,
            Ok(a) => Some(
                layout::read_plan(a)
                    .ok_or_else(|| format!("has a plan that is not an #ipu.plan: {a}"))?,
            ),
        };
        let element = || {
            let result = op.results().next().and_then(|r| Tensor::of(r.r#type()))?;
            layout::read_element_type(result.element())
        };
        let kind = match name.strip_prefix("nn.").unwrap_or_default() {
            "parameter" => OpKind::Parameter {
                name: ir::string(op, "key").unwrap_or_default().into(),
            },
            "constant" => {
                let value = op.attribute("value").map_err(|e| e.to_string())?;
                let element = element().ok_or("has elements that are not f16 or f32")?;
                OpKind::Constant {
                    values: read_values(value, element)?,
                }
            }
            "matmul" => OpKind::MATMUL,
            "relu" => OpKind::RELU,
            "linear" => {
                let relu = op
                    .attribute("activation")
                    .is_ok_and(|a| a.to_string().contains("relu"));
                OpKind::Linear {
                    activation: if relu {
                        Activation::Relu
                    } else {
                        Activation::None
                    },
                }
            }
            other => {
                let binary = BinaryKind::ALL.into_iter().find(|k| k.name() == other);
                OpKind::Binary(
                    binary.ok_or("is not supported in a model: use operations of dialect nn")?,
                )
            }
        };
        let result = op.results().next().ok_or("has no result")?;
        let result = self
            .value(result.into())
            .map_err(|e| format!("result: {e}"))?;
        if known.len() == op.operand_count() {
            let location = ir::location(op);
            self.graph.ops.push(Op {
                kind,
                operands: known,
                result,
                more_results: Vec::new(),
                plan,
                location,
            });
        } else if self.failed.is_none() {
            return Err("uses a value that is not defined in this function".into());
        }
        Ok(())
    }
}

/// Builds the `func.func` of a graph. `None` when the graph is not well formed (an operand does not
/// precede its use); a diagnostic says so. Types are the verifier's to check.
pub fn build<'c>(context: &'c Context, graph: &Graph, at: Location<'c>) -> Option<Operation<'c>> {
    try_build(context, graph, at).ok()
}

fn try_build<'c>(
    context: &'c Context,
    graph: &Graph,
    at: Location<'c>,
) -> Result<Operation<'c>, Failed> {
    let internal = || error_at(at, "internal error: cannot build the function");
    let types: Vec<_> = graph
        .values
        .iter()
        .map(|v| tensor_type(context, &v.ty, v.layout.as_ref()))
        .collect();
    let of = |ids: &[ValueId]| {
        ids.iter()
            .map(|id| types[id.0 as usize])
            .collect::<Vec<_>>()
    };
    let (inputs, outputs) = (of(&graph.inputs), of(&graph.outputs));
    let function = FunctionType::new(context, &inputs, &outputs);
    let text = |s: &str| StringAttribute::new(context, s).into();
    let func = New {
        attributes: &[
            ("sym_name", Some(text(&graph.name))),
            (
                "function_type",
                Some(TypeAttribute::new(function.into()).into()),
            ),
        ],
        body: true,
        ..New::default()
    }
    .build("func.func", at, context)?;
    let block = ir::new_body(&func)?;
    let mut values: Vec<Option<Value<'c, '_>>> = vec![None; graph.values.len()];
    for (id, ty) in graph.inputs.iter().zip(&inputs) {
        values[id.0 as usize] = Some(block.add_argument(*ty, at));
    }
    for op in &graph.ops {
        let at = Span::location(context, &op.location);
        let operands = defined(&values, &op.operands, at)?;
        let result = &graph.values[op.result.0 as usize];
        let own = match &op.kind {
            OpKind::Parameter { name } => Some(("key", text(name))),
            OpKind::Constant { values } => {
                Some(("value", values_attribute(context, &result.ty, values)))
            }
            OpKind::Linear {
                activation: Activation::Relu,
            } => Some((
                "activation",
                Attribute::parse(context, "#nn.activation<relu>").ok_or_else(internal)?,
            )),
            _ => None,
        };
        let own = own.map_or(("", None), |(name, value)| (name, Some(value)));
        let plan = op.plan.as_ref().map(|p| layout::plan_attribute(context, p));
        let built = New {
            operands: &operands,
            results: &[types[op.result.0 as usize]],
            attributes: &[own, ("plan", plan)],
            body: false,
        }
        .build(&format!("nn.{}", op.kind.name()), at, context)?;
        let built = block.append_operation(built);
        let result = built.result(0).map_err(|_| internal())?;
        // SAFETY: the result lives as long as the block that owns the operation.
        values[op.result.0 as usize] = Some(unsafe { Value::from_raw(result.to_raw()) });
    }
    let results = defined(&values, &graph.outputs, at)?;
    block.append_operation(
        New {
            operands: &results,
            ..New::default()
        }
        .build("func.return", at, context)?,
    );
    Ok(func)
}

fn defined<'c, 'a>(
    values: &[Option<Value<'c, 'a>>],
    ids: &[ValueId],
    at: Location<'c>,
) -> Result<Vec<Value<'c, 'a>>, Failed> {
    let value = |id: &ValueId| {
        let undefined = || {
            error_at(
                at,
                format!(
                    "internal error: value {} is used before its definition",
                    id.0
                ),
            )
        };
        values[id.0 as usize].ok_or_else(undefined)
    };
    ids.iter().map(value).collect()
}

/// Puts the function of a graph in the place of a `func.func`.
///
/// # Errors
/// Where [`build`] gives nothing.
pub fn replace<'c, 'a>(
    func: OperationRef<'c, 'a>,
    graph: &Graph,
) -> Result<OperationRef<'c, 'a>, Failed> {
    Ok(ir::replace(
        func,
        try_build(ir::context(func), graph, func.location())?,
    ))
}
