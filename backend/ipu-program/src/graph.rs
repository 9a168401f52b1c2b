//! The model graph: what the `nn` dialect means, without MLIR.

use crate::layout::Layout;
use crate::plan::Plan;
use crate::types::TensorType;
use serde::{Deserialize, Serialize};

/// Index of a value in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A tensor value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its type.
    pub ty: TensorType,
    /// Its layout on the chip, once operator selection chose one (encoding `#ipu.layout`).
    pub layout: Option<Layout>,
}

/// Elementwise operations of two operands, with NumPy broadcasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BinaryKind {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a / b
    Div,
    /// the larger
    Max,
    /// the smaller
    Min,
}

impl BinaryKind {
    /// All kinds.
    pub const ALL: [BinaryKind; 6] = [
        BinaryKind::Add,
        BinaryKind::Sub,
        BinaryKind::Mul,
        BinaryKind::Div,
        BinaryKind::Max,
        BinaryKind::Min,
    ];

    /// Mnemonic, as in `nn.add`.
    pub fn name(self) -> &'static str {
        match self {
            BinaryKind::Add => "add",
            BinaryKind::Sub => "sub",
            BinaryKind::Mul => "mul",
            BinaryKind::Div => "div",
            BinaryKind::Max => "max",
            BinaryKind::Min => "min",
        }
    }
}

/// Elementwise operations of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnaryKind {
    /// max(x, 0)
    Relu,
    /// x * (1 + erf(x / sqrt 2)) / 2
    GeluErf,
    /// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
    GeluTanh,
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh(x)
    Tanh,
    /// exp(x)
    Exp,
    /// 1 / sqrt(x)
    Rsqrt,
}

impl UnaryKind {
    /// All kinds.
    pub const ALL: [UnaryKind; 7] = [
        UnaryKind::Relu,
        UnaryKind::GeluErf,
        UnaryKind::GeluTanh,
        UnaryKind::Sigmoid,
        UnaryKind::Tanh,
        UnaryKind::Exp,
        UnaryKind::Rsqrt,
    ];

    /// Name in the `nn` dialect; both forms of gelu are `nn.gelu`.
    pub fn name(self) -> &'static str {
        match self {
            UnaryKind::Relu => "relu",
            UnaryKind::GeluErf | UnaryKind::GeluTanh => "gelu",
            UnaryKind::Sigmoid => "sigmoid",
            UnaryKind::Tanh => "tanh",
            UnaryKind::Exp => "exp",
            UnaryKind::Rsqrt => "rsqrt",
        }
    }
}

/// How a reduction combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReduceKind {
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Mean,
    /// The largest.
    Max,
}

impl ReduceKind {
    /// All kinds.
    pub const ALL: [ReduceKind; 3] = [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max];

    /// Name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "sum",
            ReduceKind::Mean => "mean",
            ReduceKind::Max => "max",
        }
    }
}

/// An `f32` attribute of an operator that compares by its bits, so that operators can be compared,
/// ordered and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scalar(u32);

impl Scalar {
    /// Wraps a value, NaN and the sign of zero included.
    pub fn new(value: f32) -> Self {
        Scalar(value.to_bits())
    }

    /// The value.
    pub fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

/// Activation fused into a linear operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// Identity.
    None,
    /// max(x, 0)
    Relu,
}

/// What an operation computes. In files a kind is known by its position: add new ones before
/// `Repeat`, which is never in a file, and raise the version of the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OpKind {
    /// A named tensor of the weights file.
    Parameter {
        /// Its key in the file.
        name: String,
    },
    /// A constant of the module: one value (splat) or all of them, row-major.
    Constant {
        /// The values.
        values: Vec<f32>,
    },
    /// Matrix product of operands 0 and 1, batch axes leading. The right operand has the batch
    /// axes of the left one or none; a transposed operand is given with its last two axes swapped.
    Matmul {
        /// Operand 0 is `[..., K, M]`.
        transpose_a: bool,
        /// Operand 1 is `[..., N, K]`.
        transpose_b: bool,
    },
    /// Elementwise operation of operands 0 and 1.
    Binary(BinaryKind),
    /// Elementwise operation of operand 0.
    Unary(UnaryKind),
    /// act(operand 0 * operand 1 + operand 2); operand 2, the bias, may be absent.
    Linear {
        /// The activation.
        activation: Activation,
    },
    /// exp(x - max) / sum(exp(x - max)) along an axis of operand 0.
    Softmax {
        /// The axis.
        axis: u32,
    },
    /// (x - mean) / sqrt(var + epsilon) * scale + bias along the last axis; operands x, scale,
    /// bias, the last two vectors as long as that axis.
    LayerNorm {
        /// Added to the variance.
        epsilon: Scalar,
    },
    /// x / sqrt(mean(x^2) + epsilon) * scale along the last axis; operands x, scale.
    RmsNorm {
        /// Added to the mean square.
        epsilon: Scalar,
    },
    /// Reduction of operand 0 over some axes.
    Reduce {
        /// How elements combine.
        kind: ReduceKind,
        /// The axes, ascending.
        axes: Vec<u32>,
        /// Whether the axes stay with extent 1.
        keep_dims: bool,
    },
    /// softmax(scale * q k^T + mask) v; operands q `[..., Tq, heads * d]`, k `[..., Tk, heads * d]`,
    /// v `[..., Tk, heads * e]` with equal leading axes; result `[..., Tq, heads * e]`. Each head
    /// works on its own columns.
    Attention {
        /// Number of heads that share the last axis.
        heads: u32,
        /// Factor of the scores.
        scale: Scalar,
        /// Whether query i sees keys up to i + Tk - Tq only.
        causal: bool,
    },
    /// `[..., T, heads * d]` to `[N * heads, T, d]`, N the product of the leading axes.
    SplitHeads {
        /// Number of heads.
        heads: u32,
    },
    /// The inverse of `SplitHeads`: `[N * heads, T, d]` to `[N, T, heads * d]`.
    MergeHeads {
        /// Number of heads.
        heads: u32,
    },
    /// The same elements in row-major order in the shape of the result.
    Reshape,
    /// Axis i of the result is axis `permutation[i]` of operand 0.
    Transpose {
        /// The permutation.
        permutation: Vec<u32>,
    },
    /// Elements `offsets[i] + j * strides[i]` of each axis i, as many as the result has.
    Slice {
        /// First element of each axis.
        offsets: Vec<u32>,
        /// Step of each axis, at least 1.
        strides: Vec<u32>,
    },
    /// Operands one after the other along an axis.
    Concat {
        /// The axis.
        axis: u32,
    },
    /// NumPy broadcast to the shape of the result.
    Broadcast,
    /// Conversion to the element type of the result, rounding to nearest even.
    Cast,
    /// Rows of operand 0 along an axis, picked by the i32 indices of operand 1: the axis is
    /// replaced by the axes of operand 1.
    Gather {
        /// The axis.
        axis: u32,
    },
    /// Convolution of operand 0 `[N, H, W, C]` with operand 1 `[KH, KW, C / groups, F]`, result
    /// `[N, OH, OW, F]`; operand 2, the bias `[F]`, may be absent.
    Conv2d {
        /// Step in H and W.
        strides: [u32; 2],
        /// Zeros before and after H, before and after W.
        padding: [u32; 4],
        /// Distance of kernel elements in H and W.
        dilations: [u32; 2],
        /// Groups of channels.
        groups: u32,
    },
    /// The body `count` times; its inputs are the carried values, in the order of the operands and
    /// of the results. `{}` in the name of a parameter of the body stands for the number of the
    /// iteration, see [`parameter_key`].
    #[serde(skip)]
    Repeat {
        /// Iterations, at least 1.
        count: u32,
        /// One iteration.
        body: Box<Graph>,
    },
}

impl OpKind {
    /// A matrix product without transposed operands.
    pub const MATMUL: OpKind = OpKind::Matmul {
        transpose_a: false,
        transpose_b: false,
    };
    /// max(x, 0)
    pub const RELU: OpKind = OpKind::Unary(UnaryKind::Relu);

    /// Name in the `nn` dialect without the prefix.
    pub fn name(&self) -> &'static str {
        match self {
            OpKind::Parameter { .. } => "parameter",
            OpKind::Constant { .. } => "constant",
            OpKind::Matmul { .. } => "matmul",
            OpKind::Binary(kind) => kind.name(),
            OpKind::Unary(kind) => kind.name(),
            OpKind::Linear { .. } => "linear",
            OpKind::Softmax { .. } => "softmax",
            OpKind::LayerNorm { .. } => "layer_norm",
            OpKind::RmsNorm { .. } => "rms_norm",
            OpKind::Reduce { .. } => "reduce",
            OpKind::Attention { .. } => "attention",
            OpKind::SplitHeads { .. } => "split_heads",
            OpKind::MergeHeads { .. } => "merge_heads",
            OpKind::Reshape => "reshape",
            OpKind::Transpose { .. } => "transpose",
            OpKind::Slice { .. } => "slice",
            OpKind::Concat { .. } => "concat",
            OpKind::Broadcast => "broadcast",
            OpKind::Cast => "cast",
            OpKind::Gather { .. } => "gather",
            OpKind::Conv2d { .. } => "conv2d",
            OpKind::Repeat { .. } => "repeat",
        }
    }
}

/// The key in the weights of a parameter inside repeats, whose current iterations are given,
/// outermost first. In one repeat every `{}` is its iteration; in several, a name has one `{}` for
/// each of them, in this order, or none. Other names are no names of parameters: `None`.
pub fn parameter_key(name: &str, iterations: &[u32]) -> Option<String> {
    let mut parts = name.split("{}");
    let places = parts.clone().count() - 1;
    if places > 0 && iterations.len() != 1 && places != iterations.len() {
        return None;
    }
    let mut key = parts.next().unwrap_or_default().to_owned();
    for (part, iteration) in parts.zip(iterations.iter().cycle()) {
        key += &format!("{iteration}{part}");
    }
    Some(key)
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// What it computes.
    pub kind: OpKind,
    /// Its operands.
    pub operands: Vec<ValueId>,
    /// Its (first) result.
    pub result: ValueId,
    /// Further results: only `Repeat` has some.
    pub more_results: Vec<ValueId>,
    /// How it is executed, once chosen (attribute `#ipu.plan`).
    pub plan: Option<Plan>,
    /// Source location, `file:line:column`.
    pub location: String,
    /// Further locations, where it does what several operations of the source did.
    pub fused: Vec<String>,
    /// Rules of the algebra by which it came to be.
    pub rules: Vec<String>,
}

/// A function of the model: operations in an order in which operands precede uses.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Graph {
    /// Function name.
    pub name: String,
    /// All values.
    pub values: Vec<Value>,
    /// Arguments, in order.
    pub inputs: Vec<ValueId>,
    /// Results, in order.
    pub outputs: Vec<ValueId>,
    /// Operations.
    pub ops: Vec<Op>,
}

impl Graph {
    /// Adds a value of a type, without a layout; it is nobody's result yet.
    pub fn add_value(&mut self, ty: TensorType) -> ValueId {
        self.values.push(Value { ty, layout: None });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The value behind an id of this graph; another graph's id panics or names another value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The type of a value, as [`Graph::value`].
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.value(id).ty
    }

    /// Adds an operation and its result of type `ty`, which is not checked ([`crate::infer`] does).
    /// The operands must be values of this graph that stand before it.
    pub fn add_op(
        &mut self,
        kind: OpKind,
        operands: Vec<ValueId>,
        ty: TensorType,
        location: String,
    ) -> ValueId {
        let result = self.add_value(ty);
        self.ops.push(Op {
            kind,
            operands,
            result,
            more_results: Vec::new(),
            plan: None,
            location,
            fused: Vec::new(),
            rules: Vec::new(),
        });
        result
    }

    /// The operation that defines a value, `None` for an argument.
    pub fn definition(&self, id: ValueId) -> Option<&Op> {
        self.ops
            .iter()
            .find(|op| op.result == id || op.more_results.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::parameter_key;

    #[test]
    fn keys_of_iterations() {
        let key = |name, iterations: &[u32]| parameter_key(name, iterations);
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(key("fc.weight", &[]), some("fc.weight"));
        assert_eq!(key("fc.weight", &[3, 4]), some("fc.weight"));
        assert_eq!(key("h.{}.w", &[7]), some("h.7.w"));
        assert_eq!(key("{}{}", &[10]), some("1010"));
        assert_eq!(key("s.{}.b.{}.w", &[1, 2]), some("s.1.b.2.w"));
        for (name, iterations) in [("{}", &[][..]), ("{}", &[1, 2]), ("{}{}{}", &[1, 2])] {
            assert_eq!(key(name, iterations), None, "{name}");
        }
    }
}
