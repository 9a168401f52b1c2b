//! Refusals, and how they read.

use super::MAX_ELEMENTS;
use crate::types::TensorType;
use std::borrow::Cow;
use std::fmt;

/// An operand or a result as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name in the operation.
    pub name: Cow<'static, str>,
    /// Its type.
    pub ty: TensorType,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.name, self.ty)
    }
}

/// Why an operator does not take its operands or does not have the result that is stated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InferError {
    /// A wrong number of operands.
    #[error("takes {expected} operands, found {found}")]
    OperandCount {
        /// How many there may be.
        expected: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A wrong number of results.
    #[error("has {expected} results, found {found}")]
    ResultCount {
        /// How many there are by the operands.
        expected: usize,
        /// How many are stated.
        found: usize,
    },
    /// One tensor that the operator does not take or give.
    #[error("{subject}, expected {expected}")]
    Tensor {
        /// The tensor.
        subject: Subject,
        /// What it should be.
        expected: String,
    },
    /// An attribute out of its range.
    #[error("{name} is {found}, expected {expected}")]
    Attribute {
        /// Its name.
        name: Cow<'static, str>,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Two tensors that should agree in something.
    #[error("{what} differ: {}, {}", .subjects[0], .subjects[1])]
    Differ {
        /// In what.
        what: &'static str,
        /// The two.
        subjects: Box<[Subject; 2]>,
    },
    /// A product of tensors that are no matrices.
    #[error("needs matrices: {}, {}", .0[0], .0[1])]
    Matrices(Box<[Subject; 2]>),
    /// A product over axes of different lengths.
    #[error(
        "contraction sizes differ: {} ({} {}), {} ({} {})",
        .subjects[0], .extents[0].0, .extents[0].1, .subjects[1], .extents[1].0, .extents[1].1
    )]
    Contraction {
        /// The two.
        subjects: Box<[Subject; 2]>,
        /// Length of the axis, and whether it is rows or columns.
        extents: [(u32, &'static str); 2],
    },
    /// Shapes that NumPy's rules do not combine.
    #[error("shapes do not broadcast: {}, {}", .0[0], .0[1])]
    Broadcast(Box<[Subject; 2]>),
    /// Another shape than the operands give.
    #[error("result is {found}, expected the shape {}", shape(.expected))]
    Shape {
        /// The result that is stated.
        found: TensorType,
        /// The shape by the operands.
        expected: Vec<u32>,
    },
    /// The result has too many elements.
    #[error("the result of shape {} has more than {MAX_ELEMENTS} elements, the limit of one tensor", shape(.0))]
    TooLarge(Vec<u64>),
    /// Operands and attributes alone do not determine the result.
    #[error("has a result whose type its operands do not determine")]
    Undetermined,
}

/// `2x3`, or `of a scalar`.
pub(super) fn shape<T: fmt::Display>(extents: &[T]) -> String {
    if extents.is_empty() {
        return "of a scalar".to_owned();
    }
    let texts: Vec<String> = extents.iter().map(ToString::to_string).collect();
    texts.join("x")
}
