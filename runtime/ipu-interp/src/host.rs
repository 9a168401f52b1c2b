//! Arrays of the host, and the one place where they become the bytes of shards and back.

use crate::numerics::narrow;
use half::f16;
use ipu_program::layout::{Layout, ShardStorage};
use ipu_program::types::{ElementType, TensorType};
use std::collections::BTreeMap;

/// Parameters of a model by their key in the weights file.
pub type Parameters = BTreeMap<String, HostArray>;

/// Host data that does not fit its tensor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HostError {
    /// A wrong number of values.
    #[error("{ty} has {expected} elements, found {found} values")]
    Length {
        /// Type of the tensor.
        ty: TensorType,
        /// Elements of the type.
        expected: u64,
        /// Values given.
        found: usize,
    },
    /// Another shape than that of the tensor.
    #[error("expected shape {}, found {}", shape(.expected), shape(.found))]
    Shape {
        /// Shape of the tensor.
        expected: Vec<u32>,
        /// Shape found.
        found: Vec<u32>,
    },
    /// A shape that NumPy's rules do not broadcast.
    #[error("shape {} cannot be broadcast to {}", shape(.from), shape(.to))]
    Broadcast {
        /// Shape found.
        from: Vec<u32>,
        /// Shape expected.
        to: Vec<u32>,
    },
    /// A layout whose parts do not hold the whole tensor.
    #[error("the layout holds {parts} parts of {block} {axis}, the tensor {ty} has {extent}")]
    Uncovered {
        /// Type of the tensor.
        ty: TensorType,
        /// `rows` or `columns`.
        axis: &'static str,
        /// Parts of the layout.
        parts: u32,
        /// Elements of a part.
        block: u32,
        /// Elements of the axis.
        extent: u32,
    },
    /// A value that is no value of the element type.
    #[error(
        "value {value} at index {index} is not an i32 of magnitude below {}",
        ElementType::MAX_INTEGER
    )]
    Value {
        /// Its row-major index.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The bytes of a shard are too few.
    #[error("the shard on tile {tile} has {found} bytes, expected {expected}")]
    ShardBytes {
        /// Logical tile.
        tile: u32,
        /// Bytes of the storage.
        expected: u32,
        /// Bytes found.
        found: usize,
    },
}

/// A shape as text, `2x3`, or `scalar`.
pub fn shape(extents: &[u32]) -> String {
    if extents.is_empty() {
        return "scalar".to_owned();
    }
    let texts: Vec<String> = extents.iter().map(u32::to_string).collect();
    texts.join("x")
}

/// A dense array in row-major order. Values are kept as f32; those of an f16 array are f16 values,
/// those of an i32 array integers of magnitude below [`ElementType::MAX_INTEGER`].
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    ty: TensorType,
    values: Vec<f32>,
}

impl HostArray {
    /// An array of the values, rounded to the element type ([`narrow`]).
    ///
    /// # Errors
    /// The number of values is not that of the type, or it does not hold one of them.
    pub fn new(ty: TensorType, mut values: Vec<f32>) -> Result<Self, HostError> {
        if ty.elements() != values.len() as u64 {
            return Err(HostError::Length {
                expected: ty.elements(),
                found: values.len(),
                ty,
            });
        }
        round(&mut values, ty.element)?;
        Ok(HostArray { ty, values })
    }

    /// One value (splat) or all of them, as a constant of the model is written.
    ///
    /// # Errors
    /// Neither one value nor as many as the type has.
    pub fn constant(ty: TensorType, values: &[f32]) -> Result<Self, HostError> {
        match values {
            [value] => {
                let all = vec![*value; ty.elements() as usize];
                HostArray::new(ty, all)
            }
            _ => HostArray::new(ty, values.to_vec()),
        }
    }

    /// Shape and element type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The extents, outermost first; none for a scalar.
    pub fn shape(&self) -> &[u32] {
        &self.ty.shape
    }

    /// All values in row-major order, each one that the element type holds.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The same values rounded to another element type.
    ///
    /// # Errors
    /// The type does not hold one of them.
    pub fn to_element(&self, element: ElementType) -> Result<HostArray, HostError> {
        let ty = TensorType::new(self.ty.shape.clone(), element);
        HostArray::new(ty, self.values.clone())
    }

    /// The f32 array of `f` of every value.
    pub fn map(&self, f: impl Fn(f32) -> f32) -> HostArray {
        HostArray {
            ty: TensorType::new(self.ty.shape.clone(), ElementType::F32),
            values: self.values.iter().map(|&v| f(v)).collect(),
        }
    }

    /// The bytes in memory order, little endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.values.len() * self.ty.element.bytes() as usize);
        for &value in &self.values {
            match self.ty.element {
                ElementType::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                ElementType::F32 => bytes.extend(value.to_le_bytes()),
                ElementType::I32 => bytes.extend((value as i32).to_le_bytes()),
            }
        }
        bytes
    }
}

fn round(values: &mut [f32], element: ElementType) -> Result<(), HostError> {
    if element == ElementType::F16 {
        for value in values.iter_mut() {
            *value = narrow(*value).to_f32();
        }
    }
    match values.iter().position(|&v| !element.holds(v)) {
        Some(index) => Err(HostError::Value {
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Repeats values by NumPy's broadcasting rules.
///
/// # Errors
/// An axis of `from` is neither 1 nor that of `to`, or `from` has more axes.
pub fn broadcast<T: Copy>(values: &[T], from: &[u32], to: &[u32]) -> Result<Vec<T>, HostError> {
    if from == to {
        return Ok(values.to_vec());
    }
    let lead = to.len().checked_sub(from.len());
    let fits = lead.is_some_and(|lead| {
        from.iter()
            .zip(&to[lead..])
            .all(|(&f, &t)| f == 1 || f == t)
    });
    let (Some(lead), true) = (lead, fits) else {
        return Err(HostError::Broadcast {
            from: from.to_vec(),
            to: to.to_vec(),
        });
    };
    // Axis by axis from the innermost: `out` holds the block of one outer index.
    let mut out = values.to_vec();
    let mut block = 1usize; // elements of one index of the axis in `out`
    for axis in (0..to.len()).rev() {
        let extent = to[axis] as usize;
        let own = if axis < lead {
            1
        } else {
            from[axis - lead] as usize
        };
        if own != extent {
            out = out
                .chunks(block.max(1))
                .flat_map(|chunk| chunk.iter().copied().cycle().take(block * extent))
                .collect();
        }
        block *= extent;
    }
    Ok(out)
}

/// The bytes of one tile's part of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardBytes {
    /// Logical tile.
    pub tile: u32,
    /// Its bytes; padding is zero.
    pub bytes: Vec<u8>,
}

/// Packs an array for a buffer: broadcast to the buffer's shape, rounded to its element type, cut
/// into the shards of the layout (every copy).
///
/// # Errors
/// The shape cannot be broadcast or the layout does not hold the whole tensor.
pub fn pack(
    array: &HostArray,
    buffer: &TensorType,
    layout: &Layout,
) -> Result<Vec<ShardBytes>, HostError> {
    let values = broadcast(&array.values, &array.ty.shape, &buffer.shape)?;
    let element = buffer.element;
    pack_elements(&values, buffer, layout, |value, bytes| match element {
        ElementType::F16 => bytes.copy_from_slice(&narrow(value).to_le_bytes()),
        ElementType::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
        ElementType::I32 => bytes.copy_from_slice(&(value as i32).to_le_bytes()),
    })
}

/// [`pack`] of elements of any kind, one for each element of the buffer; `store` writes one to as
/// many bytes as it has there.
pub(crate) fn pack_elements<T: Copy>(
    values: &[T],
    buffer: &TensorType,
    layout: &Layout,
    store: impl Fn(T, &mut [u8]),
) -> Result<Vec<ShardBytes>, HostError> {
    check_cover(buffer, layout)?;
    let matrix = buffer.matrix();
    let size = buffer.element.bytes() as usize;
    let storage = layout.storage(buffer.element);
    let mut shards = Vec::new();
    for shard in layout.shards(matrix) {
        let mut bytes = vec![0u8; storage.bytes() as usize];
        let storage = layout.shard_storage(&shard, buffer.element);
        for row in shard.rows.clone() {
            for column in shard.columns.clone() {
                let value = values[row as usize * matrix.columns as usize + column as usize];
                let at =
                    storage.offset(row - shard.rows.start, column - shard.columns.start) as usize;
                store(value, &mut bytes[at..at + size]);
            }
        }
        shards.push(ShardBytes {
            tile: shard.tile,
            bytes,
        });
    }
    Ok(shards)
}

/// Collects the tensor of a buffer from the shards of its first copy. `read` gives the bytes of
/// the buffer on a tile.
///
/// # Errors
/// `read` fails, gives too few bytes, or the layout does not hold the whole tensor.
pub fn unpack<B: AsRef<[u8]>, E: From<HostError>>(
    buffer: &TensorType,
    layout: &Layout,
    read: impl FnMut(u32, ShardStorage) -> Result<B, E>,
) -> Result<HostArray, E> {
    let values = unpack_elements(buffer, layout, read, |bytes| load(bytes, buffer.element))?;
    Ok(HostArray {
        ty: buffer.clone(),
        values,
    })
}

/// [`unpack`] to elements of any kind; `load` reads one from the start of some bytes.
pub(crate) fn unpack_elements<T: Copy + Default, B: AsRef<[u8]>, E: From<HostError>>(
    buffer: &TensorType,
    layout: &Layout,
    mut read: impl FnMut(u32, ShardStorage) -> Result<B, E>,
    load: impl Fn(&[u8]) -> T,
) -> Result<Vec<T>, E> {
    check_cover(buffer, layout)?;
    let matrix = buffer.matrix();
    let storage = layout.storage(buffer.element);
    let mut values = vec![T::default(); matrix.rows as usize * matrix.columns as usize];
    let first = Layout {
        copies: 1,
        ..layout.clone()
    };
    for shard in first.shards(matrix) {
        let data = read(shard.tile, storage)?;
        let bytes = data.as_ref();
        if bytes.len() < storage.bytes() as usize {
            return Err(HostError::ShardBytes {
                tile: shard.tile,
                expected: storage.bytes(),
                found: bytes.len(),
            }
            .into());
        }
        let storage = layout.shard_storage(&shard, buffer.element);
        for row in shard.rows.clone() {
            for column in shard.columns.clone() {
                let at =
                    storage.offset(row - shard.rows.start, column - shard.columns.start) as usize;
                values[row as usize * matrix.columns as usize + column as usize] =
                    load(&bytes[at..]);
            }
        }
    }
    Ok(values)
}

/// The element at the start of `bytes`, which must hold one.
pub(crate) fn load(bytes: &[u8], element: ElementType) -> f32 {
    match element {
        ElementType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        ElementType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        ElementType::I32 => i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as f32,
    }
}

fn check_cover(ty: &TensorType, layout: &Layout) -> Result<(), HostError> {
    let matrix = ty.matrix();
    for (axis, split, extent) in [
        ("rows", &layout.rows, matrix.rows),
        ("columns", &layout.columns, matrix.columns),
    ] {
        if u64::from(split.parts) * u64::from(split.block) < u64::from(extent) {
            return Err(HostError::Uncovered {
                ty: ty.clone(),
                axis,
                parts: split.parts,
                block: split.block,
                extent,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::layout::{ElementOrder, MemoryClass, Split};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn any_order() -> impl Strategy<Value = ElementOrder> {
        prop::sample::select(vec![
            ElementOrder::Rows,
            ElementOrder::Panels,
            ElementOrder::Weights8,
            ElementOrder::Weights16,
        ])
    }

    proptest! {
        #[test]
        fn packing_round_trip(
            rows in 1u32..40, columns in 1u32..70, rp in 1u32..5, cp in 1u32..5,
            copies in 1u32..4, first in 0u32..9, order in any_order(), seed: u32,
            element in prop::sample::select(vec![ElementType::F16, ElementType::F32, ElementType::I32]),
        ) {
            let ty = TensorType::new([rows, columns], element);
            let layout = Layout {
                rows: Split { parts: rp, block: rows.div_ceil(rp), stride: cp , unit: 1, period: 0, group: 0, group_stride: 0 },
                columns: Split { parts: cp, block: columns.div_ceil(cp), stride: 1 , unit: 1, period: 0, group: 0, group_stride: 0 },
                copies, copy_stride: rp * cp, first_tile: first, order, memory: MemoryClass::Any,
            };
            let values = (0..rows * columns)
                .map(|i| (i.wrapping_mul(seed | 1) >> 16) as f32 / 977.0 - 30.0)
                .map(|v| if element.is_float() { v } else { v.round() })
                .collect();
            let array = HostArray::new(ty.clone(), values).unwrap();
            let shards = pack(&array, &ty, &layout).unwrap();
            // Elements of all shards and nothing else: padding is zero.
            let nonzero: usize = shards.iter()
                .map(|s| s.bytes.chunks(element.bytes() as usize).filter(|e| load(e, element) != 0.0).count())
                .sum();
            let expected = array.values().iter().filter(|v| **v != 0.0).count();
            prop_assert_eq!(nonzero, expected * copies as usize);
            let back = unpack(&ty, &layout, |tile, _| {
                Ok::<_, HostError>(&shards.iter().find(|s| s.tile == tile).unwrap().bytes)
            }).unwrap();
            prop_assert_eq!(back, array);
        }
    }

    #[test]
    fn broadcasting() {
        let b = |v: &[f32], f: &[u32], t: &[u32]| broadcast(v, f, t).unwrap();
        assert_eq!(b(&[1.0], &[], &[2, 2]), [1.0; 4]);
        assert_eq!(b(&[1.0, 2.0], &[2], &[2, 2]), [1.0, 2.0, 1.0, 2.0]);
        assert_eq!(b(&[1.0, 2.0], &[2, 1], &[2, 2]), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(
            b(&[1.0, 2.0, 3.0, 4.0], &[2, 1, 2], &[2, 2, 2]),
            [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]
        );
        let e = broadcast(&[1.0, 2.0], &[2], &[3]).unwrap_err();
        assert_eq!(e.to_string(), "shape 2 cannot be broadcast to 3");
        assert!(broadcast(&[1.0], &[1, 1], &[1]).is_err());
    }

    #[test]
    fn an_array_knows_its_type() {
        let ty = TensorType::new([2], ElementType::F16);
        let e = HostArray::new(ty.clone(), vec![1.0]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "tensor<2xf16> has 2 elements, found 1 values"
        );
        let array = HostArray::new(ty, vec![0.1, 1e9]).unwrap();
        assert_eq!(array.values(), [0.099_975_586, 65504.0]);
        assert_eq!(array.to_bytes(), [0x66, 0x2e, 0xff, 0x7b]);
        let ty = TensorType::new([2], ElementType::I32);
        let array = HostArray::new(ty.clone(), vec![-2.0, 16_777_215.0]).unwrap();
        assert_eq!(
            array.to_bytes(),
            [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]
        );
        for bad in [0.5, -16_777_216.0, f32::NAN, f32::INFINITY] {
            let e = HostArray::new(ty.clone(), vec![0.0, bad]).unwrap_err();
            assert_eq!(
                e.to_string(),
                format!("value {bad} at index 1 is not an i32 of magnitude below 16777216")
            );
        }
    }

    #[test]
    fn a_layout_must_hold_the_tensor() {
        let ty = TensorType::new([4, 4], ElementType::F16);
        let layout = Layout {
            rows: Split {
                parts: 1,
                block: 3,
                stride: 0,
                unit: 1,
                period: 0,
                group: 0,
                group_stride: 0,
            },
            columns: Split::whole(4),
            copies: 1,
            copy_stride: 0,
            first_tile: 0,
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
        };
        let array = HostArray::constant(ty.clone(), &[1.0]).unwrap();
        let e = pack(&array, &ty, &layout).unwrap_err();
        assert_eq!(
            e.to_string(),
            "the layout holds 1 parts of 3 rows, the tensor tensor<4x4xf16> has 4"
        );
    }
}
