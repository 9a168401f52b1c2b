//! The model graph: what the `nn` dialect means, without MLIR.

use crate::layout::Layout;
use crate::plan::Plan;
use crate::types::TensorType;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Activation fused into a linear operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activation {
    /// Identity.
    None,
    /// max(x, 0)
    Relu,
}

/// What an operation computes.
#[derive(Clone, Debug, PartialEq)]
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
    /// Matrix product of operands 0 and 1, batch axes leading.
    Matmul,
    /// Elementwise operation of operands 0 and 1.
    Binary(BinaryKind),
    /// max(x, 0) of operand 0.
    Relu,
    /// act(operand 0 * operand 1 + operand 2); operand 2, the bias, may be absent.
    Linear {
        /// The activation.
        activation: Activation,
    },
}

impl OpKind {
    /// Name in the `nn` dialect without the prefix.
    pub fn name(&self) -> &'static str {
        match self {
            OpKind::Parameter { .. } => "parameter",
            OpKind::Constant { .. } => "constant",
            OpKind::Matmul => "matmul",
            OpKind::Binary(kind) => kind.name(),
            OpKind::Relu => "relu",
            OpKind::Linear { .. } => "linear",
        }
    }
}

/// One operation with one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// What it computes.
    pub kind: OpKind,
    /// Its operands.
    pub operands: Vec<ValueId>,
    /// Its result.
    pub result: ValueId,
    /// How it is executed, once chosen (attribute `#ipu.plan`).
    pub plan: Option<Plan>,
    /// Source location, `file:line:column`.
    pub location: String,
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
    /// Adds a value.
    pub fn add_value(&mut self, ty: TensorType) -> ValueId {
        self.values.push(Value { ty, layout: None });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.value(id).ty
    }

    /// Adds an operation and its result.
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
            plan: None,
            location,
        });
        result
    }

    /// The operation that defines a value, `None` for an argument.
    pub fn definition(&self, id: ValueId) -> Option<&Op> {
        self.ops.iter().find(|op| op.result == id)
    }
}
