//! Attributes of an operation of dialect `nn` as [`OpKind`], and back.

use super::{read_values, values_attribute};
use crate::ir;
use ipu_program::graph::{Activation, BinaryKind, Graph, OpKind, ReduceKind, Scalar, UnaryKind};
use ipu_program::types::TensorType;
use melior::Context;
use melior::ir::attribute::{
    DenseI64ArrayAttribute, FloatAttribute, IntegerAttribute, StringAttribute,
};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, OperationRef, Type, ValueLike};

/// What `nn.<name>` computes. The body of a repeat is left empty.
pub(crate) fn read(op: OperationRef<'_, '_>, name: &str) -> Result<OpKind, String> {
    let flag = |name| op.attribute(name).is_ok();
    Ok(match name {
        "parameter" => OpKind::Parameter {
            name: ir::string(op, "key").unwrap_or_default().into(),
        },
        "constant" => {
            let value = op.attribute("value").map_err(|e| e.to_string())?;
            let result = op.results().next().ok_or("has no result")?;
            let (ty, _) = super::read_type(result.r#type()).map_err(|e| format!("result: {e}"))?;
            OpKind::Constant {
                values: read_values(value, ty.element)?,
            }
        }
        "matmul" => OpKind::Matmul {
            transpose_a: flag("transpose_a"),
            transpose_b: flag("transpose_b"),
        },
        "linear" => OpKind::Linear {
            activation: match keyword(op, "activation")? {
                0 => Activation::None,
                _ => Activation::Relu,
            },
        },
        "gelu" => OpKind::Unary(match keyword(op, "approximate")? {
            0 => UnaryKind::GeluErf,
            _ => UnaryKind::GeluTanh,
        }),
        "softmax" => OpKind::Softmax {
            axis: word(op, "axis", None)?,
        },
        "layer_norm" => OpKind::LayerNorm {
            epsilon: scalar(op, "epsilon", Some(EPSILON))?,
        },
        "rms_norm" => OpKind::RmsNorm {
            epsilon: scalar(op, "epsilon", Some(EPSILON))?,
        },
        "reduce" => OpKind::Reduce {
            kind: *ReduceKind::ALL
                .get(keyword(op, "kind")?)
                .ok_or("has an unknown kind of reduction")?,
            axes: words(op, "axes")?.ok_or("needs axes")?,
            keep_dims: flag("keep_dims"),
        },
        "attention" => OpKind::Attention {
            heads: word(op, "heads", Some(1))?,
            scale: scalar(op, "scale", None)?,
            causal: flag("causal"),
        },
        "split_heads" => OpKind::SplitHeads {
            heads: word(op, "heads", None)?,
        },
        "merge_heads" => OpKind::MergeHeads {
            heads: word(op, "heads", None)?,
        },
        "reshape" => OpKind::Reshape,
        "transpose" => OpKind::Transpose {
            permutation: words(op, "permutation")?.ok_or("needs a permutation")?,
        },
        "slice" => {
            let offsets = words(op, "offsets")?.ok_or("needs offsets")?;
            let strides = words(op, "strides")?.unwrap_or_else(|| vec![1; offsets.len()]);
            OpKind::Slice { offsets, strides }
        }
        "concat" => OpKind::Concat {
            axis: word(op, "axis", None)?,
        },
        "broadcast" => OpKind::Broadcast,
        "cast" => OpKind::Cast,
        "gather" => OpKind::Gather {
            axis: word(op, "axis", Some(0))?,
        },
        "conv2d" => OpKind::Conv2d {
            strides: fixed(op, "strides", [1; 2])?,
            padding: fixed(op, "padding", [0; 4])?,
            dilations: fixed(op, "dilations", [1; 2])?,
            groups: word(op, "groups", Some(1))?,
        },
        "repeat" => OpKind::Repeat {
            count: word(op, "count", None)?,
            body: Box::new(Graph::default()),
        },
        other => {
            let binary = BinaryKind::ALL.into_iter().find(|k| k.name() == other);
            let unary = UnaryKind::ALL.into_iter().find(|k| k.name() == other);
            match (binary, unary) {
                (Some(kind), _) => OpKind::Binary(kind),
                (_, Some(kind)) => OpKind::Unary(kind),
                _ => return Err("is not supported in a model: use operations of dialect nn".into()),
            }
        }
    })
}

/// The default of `epsilon`, as in `Nn.td`.
const EPSILON: f32 = 1.0e-5;

/// The number of a word of the syntax, 0 when it is absent.
fn keyword(op: OperationRef<'_, '_>, name: &str) -> Result<usize, String> {
    let Ok(attribute) = op.attribute(name) else {
        return Ok(0);
    };
    let text = attribute.to_string();
    let word = text
        .rsplit_once('<')
        .map_or(text.as_str(), |(_, word)| word.trim_end_matches('>'));
    match (name, word.trim()) {
        (_, "none") | ("kind", "sum") => Ok(0),
        ("activation", "relu") | ("approximate", "tanh") | ("kind", "mean") => Ok(1),
        ("kind", "max") => Ok(2),
        _ => Err(format!("has an unknown {name}: {text}")),
    }
}

fn unsigned(name: &str, value: i64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("{name} is {value}, expected 0 to {}", u32::MAX))
}

fn word(op: OperationRef<'_, '_>, name: &str, default: Option<u32>) -> Result<u32, String> {
    match (ir::int(op, name), default) {
        (Some(value), _) => unsigned(name, value),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(format!("needs {name}")),
    }
}

fn words(op: OperationRef<'_, '_>, name: &str) -> Result<Option<Vec<u32>>, String> {
    let Some(values) = ir::ints(op, name) else {
        return Ok(None);
    };
    let each = values.iter().enumerate();
    let words: Result<_, _> = each
        .map(|(i, &value)| unsigned(&format!("{name}[{i}]"), value))
        .collect();
    words.map(Some)
}

fn fixed<const N: usize>(
    op: OperationRef<'_, '_>,
    name: &str,
    default: [u32; N],
) -> Result<[u32; N], String> {
    match words(op, name)? {
        None => Ok(default),
        Some(words) => words
            .try_into()
            .map_err(|words| format!("{name} is {words:?}, expected {N} numbers")),
    }
}

fn scalar(op: OperationRef<'_, '_>, name: &str, default: Option<f32>) -> Result<Scalar, String> {
    ir::float(op, name)
        .map(|value| value as f32)
        .or(default)
        .map(Scalar::new)
        .ok_or_else(|| format!("needs {name}"))
}

/// The attributes of an operation; `ty` is the type of its result.
pub(super) fn attributes<'c>(
    context: &'c Context,
    kind: &OpKind,
    ty: &TensorType,
) -> Vec<(&'static str, Option<Attribute<'c>>)> {
    let int = |value: u32| {
        let ty: Type<'_> = IntegerType::new(context, 64).into();
        Some(IntegerAttribute::new(ty, value.into()).into())
    };
    let ints = |values: &[u32]| {
        let values: Vec<i64> = values.iter().map(|&v| v.into()).collect();
        Some(DenseI64ArrayAttribute::new(context, &values).into())
    };
    let float = |value: Scalar| {
        let ty = Type::float32(context);
        Some(FloatAttribute::new(context, ty, value.get().into()).into())
    };
    let flag = |set: bool| set.then(|| Attribute::unit(context));
    let keyword = |attribute: &str, word: &str| {
        Attribute::parse(context, &format!("#nn.{attribute}<{word}>"))
    };
    match kind {
        OpKind::Parameter { name } => {
            vec![("key", Some(StringAttribute::new(context, name).into()))]
        }
        OpKind::Constant { values } => {
            vec![("value", Some(values_attribute(context, ty, values)))]
        }
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => vec![
            ("transpose_a", flag(*transpose_a)),
            ("transpose_b", flag(*transpose_b)),
        ],
        OpKind::Linear {
            activation: Activation::Relu,
        } => vec![("activation", keyword("activation", "relu"))],
        OpKind::Unary(UnaryKind::GeluTanh) => {
            vec![("approximate", keyword("approximation", "tanh"))]
        }
        OpKind::Softmax { axis } | OpKind::Concat { axis } | OpKind::Gather { axis } => {
            vec![("axis", int(*axis))]
        }
        OpKind::LayerNorm { epsilon } | OpKind::RmsNorm { epsilon } => {
            vec![("epsilon", float(*epsilon))]
        }
        OpKind::Reduce {
            kind,
            axes,
            keep_dims,
        } => vec![
            ("kind", keyword("reduction", kind.name())),
            ("axes", ints(axes)),
            ("keep_dims", flag(*keep_dims)),
        ],
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => vec![
            ("heads", int(*heads)),
            ("scale", float(*scale)),
            ("causal", flag(*causal)),
        ],
        OpKind::SplitHeads { heads } | OpKind::MergeHeads { heads } => {
            vec![("heads", int(*heads))]
        }
        OpKind::Transpose { permutation } => vec![("permutation", ints(permutation))],
        OpKind::Slice { offsets, strides } => {
            let steps = strides.iter().any(|&s| s != 1).then(|| ints(strides));
            vec![("offsets", ints(offsets)), ("strides", steps.flatten())]
        }
        OpKind::Conv2d {
            strides,
            padding,
            dilations,
            groups,
        } => vec![
            ("strides", ints(strides)),
            ("padding", ints(padding)),
            ("dilations", ints(dilations)),
            ("groups", int(*groups)),
        ],
        OpKind::Repeat { count, .. } => vec![("count", int(*count))],
        OpKind::Linear {
            activation: Activation::None,
        }
        | OpKind::Binary(_)
        | OpKind::Unary(_)
        | OpKind::Reshape
        | OpKind::Broadcast
        | OpKind::Cast => vec![],
    }
}
