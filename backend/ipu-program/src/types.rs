//! Element and tensor types.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ElementType {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// Signed integers that pick rows, of magnitude below [`ElementType::MAX_INTEGER`].
    I32,
}

impl ElementType {
    /// Values of `I32` have a smaller magnitude, so that the f32 which holds them on the host and
    /// in constants is exact.
    pub const MAX_INTEGER: u32 = 1 << 24;

    /// Whether values may have a fraction.
    pub fn is_float(self) -> bool {
        self != ElementType::I32
    }

    /// Whether a value is one of this type already, or becomes one by rounding: whatever is not
    /// an integer below [`ElementType::MAX_INTEGER`] is no `I32`.
    pub fn holds(self, value: f32) -> bool {
        self.is_float() || (value.fract() == 0.0 && value.abs() < Self::MAX_INTEGER as f32)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            ElementType::F16 => 2,
            ElementType::F32 | ElementType::I32 => 4,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElementType::F16 => "f16",
            ElementType::F32 => "f32",
            ElementType::I32 => "i32",
        })
    }
}

/// A ranked tensor type with a static shape. Element counts are bounded by the `nn` verifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Extent of each axis, outermost first; empty for a scalar.
    pub shape: Vec<u32>,
    /// Element type.
    pub element: ElementType,
}

impl TensorType {
    /// The type of a tensor of `shape`, outermost axis first.
    pub fn new(shape: impl Into<Vec<u32>>, element: ElementType) -> Self {
        TensorType {
            shape: shape.into(),
            element,
        }
    }

    /// Number of elements, 1 for a scalar.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&d| u64::from(d)).product()
    }

    /// Bytes of the elements alone, without the padding of a layout.
    pub fn bytes(&self) -> u64 {
        self.elements() * u64::from(self.element.bytes())
    }

    /// The matrix view that layouts speak of: rows = product of all axes but the last (1 for
    /// rank 0 and 1), columns = the last axis (1 for rank 0).
    pub fn matrix(&self) -> Matrix {
        match self.shape.split_last() {
            None => Matrix {
                rows: 1,
                columns: 1,
            },
            Some((&columns, rest)) => Matrix {
                rows: rest.iter().product(),
                columns,
            },
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for d in &self.shape {
            write!(f, "{d}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// Extents of the matrix view of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Matrix {
    /// Product of all axes but the last.
    pub rows: u32,
    /// The last axis.
    pub columns: u32,
}
