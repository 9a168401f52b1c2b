//! Strided views: the elements of a tensor in another order or shape, without moving them.

use crate::tile::View;

/// One axis of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of elements.
    pub extent: u32,
    /// Elements of the base tensor from one index to the next; 0 repeats.
    pub stride: u64,
}

/// The elements of a tensor in terms of a base tensor: index `i` of the axes is element
/// `offset + sum(i * stride)` of the base in the base's row-major order, and the row-major order of
/// the axes is that of the tensor. The axes may be finer than the tensor's own: one axis of 8 heads
/// of 2 images can be two axes here. Operations therefore take the shape of the tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Element of the base at index 0.
    pub offset: u64,
    /// The axes, outermost first.
    pub axes: Vec<Axis>,
}

/// Strides of a tensor in row-major order.
fn row_major(shape: &[u32]) -> Vec<u64> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1u64;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next = next.saturating_mul(extent.into());
    }
    strides
}

impl Strided {
    /// A tensor of `shape` as it is: its own base, an axis for each of its axes.
    pub fn whole(shape: &[u32]) -> Self {
        Strided {
            offset: 0,
            axes: shape
                .iter()
                .zip(row_major(shape))
                .map(|(&extent, stride)| Axis { extent, stride })
                .collect(),
        }
    }

    /// Whether the view is its base of `elements` elements, in the same order.
    pub fn is_whole(&self, elements: u64) -> bool {
        self.offset == 0
            && self
                .axes
                .iter()
                .map(|a| u64::from(a.extent))
                .product::<u64>()
                == elements
            && matches!(self.merged().as_slice(), [] | [Axis { stride: 1, .. }])
    }

    /// The axes without those of extent 1, neighbours joined where they continue each other: the
    /// same for equal views, whatever their shapes.
    pub fn merged(&self) -> Vec<Axis> {
        let mut out: Vec<Axis> = Vec::new();
        for axis in self.axes.iter().filter(|a| a.extent != 1) {
            match out.last_mut() {
                Some(last)
                    if last.stride == axis.stride.saturating_mul(axis.extent.into())
                        && last.extent.checked_mul(axis.extent).is_some() =>
                {
                    last.extent *= axis.extent;
                    last.stride = axis.stride;
                }
                _ => out.push(*axis),
            }
        }
        out
    }

    /// The axes of each axis of `shape`, `None` where they do not divide each other.
    fn grouped(&self, shape: &[u32]) -> Option<Vec<Vec<Axis>>> {
        // Joined axes can be cut where single ones cannot: 3 x 16 as 2 x 24.
        let mut axes = self.merged().into_iter().rev();
        let mut rest: Option<Axis> = None;
        let mut groups = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            let (mut missing, mut group) = (extent, Vec::new());
            while missing > 1 {
                let axis = rest.take().or_else(|| axes.next())?;
                if missing % axis.extent == 0 {
                    group.push(axis);
                    missing /= axis.extent;
                } else if axis.extent % missing == 0 {
                    group.push(Axis {
                        extent: missing,
                        ..axis
                    });
                    rest = Some(Axis {
                        extent: axis.extent / missing,
                        stride: axis.stride * u64::from(missing),
                    });
                    missing = 1;
                } else {
                    return None;
                }
            }
            group.reverse();
            groups.push(group);
        }
        groups.reverse();
        Some(groups)
    }

    /// Whether each axis of this tensor of `shape` has strides of its own.
    pub fn divides(&self, shape: &[u32]) -> bool {
        self.grouped(shape).is_some()
    }

    fn of(offset: u64, groups: impl IntoIterator<Item = Vec<Axis>>) -> Self {
        Strided {
            offset,
            axes: groups.into_iter().flatten().collect(),
        }
    }

    /// Axis `i` of the result is axis `permutation[i]` of this tensor of `shape`; `None` where no
    /// strides express that.
    pub fn transpose(&self, shape: &[u32], permutation: &[u32]) -> Option<Self> {
        let groups = self.grouped(shape)?;
        let moved = permutation
            .iter()
            .map(|&p| groups.get(p as usize).cloned())
            .collect::<Option<Vec<_>>>()?;
        Some(Self::of(self.offset, moved))
    }

    /// Elements `offsets[i] + j * strides[i]`, `extents[i]` of them, of each axis of this tensor of
    /// `shape`; `None` where no strides express that.
    pub fn slice(
        &self,
        shape: &[u32],
        offsets: &[u32],
        strides: &[u32],
        extents: &[u32],
    ) -> Option<Self> {
        let mut groups = self.grouped(shape)?;
        let mut offset = self.offset;
        for (i, group) in groups.iter_mut().enumerate() {
            let (first, step, extent) = (*offsets.get(i)?, *strides.get(i)?, *extents.get(i)?);
            if first == 0 && step == 1 && extent == shape[i] {
                continue;
            }
            match group.as_mut_slice() {
                // An axis of one element.
                [] => {}
                [axis] => {
                    offset += u64::from(first) * axis.stride;
                    axis.extent = extent;
                    axis.stride *= u64::from(step);
                }
                _ => return None,
            }
        }
        Some(Self::of(offset, groups))
    }

    /// This tensor of `from` in NumPy broadcast to `shape`; `None` where shapes do not broadcast
    /// or no strides express that.
    pub fn broadcast(&self, from: &[u32], shape: &[u32]) -> Option<Self> {
        let missing = shape.len().checked_sub(from.len())?;
        let groups = self.grouped(from)?;
        let axes = shape
            .iter()
            .enumerate()
            .map(|(i, &extent)| match i.checked_sub(missing) {
                Some(i) if from[i] == extent => Some(groups[i].clone()),
                Some(i) if from[i] != 1 => None,
                _ => Some(vec![Axis { extent, stride: 0 }]),
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self::of(self.offset, axes))
    }

    /// The rearrangement that writes index `i` of the axes to element `offset + sum(i * strides)`
    /// of a destination. Axes that continue each other on both sides are joined.
    fn to_view(&self, offset: u64, strides: &[u64]) -> View {
        let mut out: Vec<(u32, u64, u64)> = Vec::new();
        for (axis, &stride) in self.axes.iter().zip(strides) {
            if axis.extent == 1 {
                continue;
            }
            match out.last_mut() {
                Some((extent, s, d))
                    if *s == axis.stride.saturating_mul(axis.extent.into())
                        && *d == stride.saturating_mul(axis.extent.into())
                        && extent.checked_mul(axis.extent).is_some() =>
                {
                    (*extent, *s, *d) = (*extent * axis.extent, axis.stride, stride);
                }
                _ => out.push((axis.extent, axis.stride, stride)),
            }
        }
        if out.is_empty() {
            out.push((1, 1, 1));
        }
        View {
            shape: out.iter().map(|a| a.0).collect(),
            source_offset: self.offset,
            source_strides: out.iter().map(|a| a.1).collect(),
            destination_offset: offset,
            destination_strides: out.iter().map(|a| a.2).collect(),
        }
    }

    /// The rearrangement that writes the tensor to a destination of its own.
    pub fn to_whole(&self) -> View {
        let shape: Vec<u32> = self.axes.iter().map(|a| a.extent).collect();
        self.to_view(0, &row_major(&shape))
    }

    /// The rearrangement that writes this tensor of `shape` to a part of a destination whose axes
    /// have `strides`, from element `offset` on; `None` where no strides express that.
    pub fn to_part(&self, shape: &[u32], offset: u64, strides: &[u64]) -> Option<View> {
        let groups = self.grouped(shape)?;
        let mut inner = Vec::new();
        for (group, &stride) in groups.iter().zip(strides) {
            let extents: Vec<u32> = group.iter().map(|a| a.extent).collect();
            inner.extend(row_major(&extents).iter().map(|s| s * stride));
        }
        Some(Self::of(self.offset, groups).to_view(offset, &inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The base elements of a view, in its order.
    fn elements(s: &Strided) -> Vec<u64> {
        let mut out = vec![s.offset];
        for a in &s.axes {
            out = out
                .into_iter()
                .flat_map(|e| (0..u64::from(a.extent)).map(move |i| e + i * a.stride))
                .collect();
        }
        out
    }

    fn shapes() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(1u32..5, 1..4)
    }

    proptest! {
        #[test]
        fn views_name_the_elements_that_the_operations_say(
            shape in shapes(), shuffle in any::<u64>(), cut in any::<bool>(), split in 1u32..5,
        ) {
            let mut view = Strided::whole(&shape);
            let n: u64 = shape.iter().map(|&e| u64::from(e)).product();
            prop_assert_eq!(elements(&view), (0..n).collect::<Vec<_>>());
            prop_assert!(view.is_whole(n));
            // Transpositions and slices by the definition, index by index.
            let rank = shape.len();
            let mut order: Vec<u32> = (0..rank as u32).collect();
            order.rotate_left((shuffle % rank as u64) as usize);
            view = view.transpose(&shape, &order).unwrap();
            let strides = row_major(&shape);
            let by_index = |first: &dyn Fn(u32) -> u32, count: &dyn Fn(u32) -> u32| {
                order.iter().fold(vec![0u64], |all, &p| {
                    let extent = shape[p as usize];
                    let range = first(extent)..first(extent) + count(extent);
                    all.into_iter()
                        .flat_map(|e| range.clone().map(move |i| (e, u64::from(i))))
                        .map(|(e, i)| e + i * strides[p as usize])
                        .collect()
                })
            };
            prop_assert_eq!(elements(&view), by_index(&|_| 0, &|e| e));
            let mut now: Vec<u32> = order.iter().map(|&p| shape[p as usize]).collect();
            if cut {
                let half: Vec<u32> = now.iter().map(|e| e.div_ceil(2)).collect();
                let offsets: Vec<u32> = now.iter().zip(&half).map(|(e, h)| e - h).collect();
                view = view.slice(&now, &offsets, &vec![1; rank], &half).unwrap();
                prop_assert_eq!(elements(&view), by_index(&|e| e - e.div_ceil(2), &|e| e.div_ceil(2)));
                now = half;
            }
            // In another shape the same elements follow each other; a transposition there swaps.
            let count: u32 = now.iter().product();
            if count.is_multiple_of(split)
                && let Some(t) = view.transpose(&[split, count / split], &[1, 0])
            {
                let all = elements(&view);
                let columns = (count / split) as usize;
                let expected: Vec<u64> = (0..columns)
                    .flat_map(|c| all.iter().skip(c).step_by(columns).copied().collect::<Vec<_>>())
                    .collect();
                prop_assert_eq!(elements(&t), expected);
            }
            // The rearrangement sends element after element to the destination in order.
            let side = |offset, strides: &[u64], shape: &[u32]| Strided {
                offset,
                axes: shape.iter().zip(strides)
                    .map(|(&extent, &stride)| Axis { extent, stride }).collect(),
            };
            let pairs = |moved: &View| {
                let from = side(moved.source_offset, &moved.source_strides, &moved.shape);
                let to = side(moved.destination_offset, &moved.destination_strides, &moved.shape);
                let mut pairs: Vec<_> = elements(&to).into_iter().zip(elements(&from)).collect();
                pairs.sort_unstable();
                pairs
            };
            let expected: Vec<_> =
                elements(&view).into_iter().enumerate().map(|(i, e)| (i as u64, e)).collect();
            prop_assert_eq!(pairs(&view.to_whole()), expected.clone());
            let part = view.to_part(&now, 3, &row_major(&now)).unwrap();
            let shifted: Vec<_> = expected.into_iter().map(|(i, e)| (i + 3, e)).collect();
            prop_assert_eq!(pairs(&part), shifted);
        }
    }

    #[test]
    fn a_whole_tensor_divides_into_every_shape() {
        let whole = Strided::whole(&[3, 16]);
        assert!(whole.divides(&[2, 24]) && whole.divides(&[2, 3, 8, 1]));
        // Of every second row of a tensor the rows do not join.
        let rows = whole.slice(&[3, 16], &[0, 0], &[2, 1], &[2, 16]).unwrap();
        assert!(rows.divides(&[2, 4, 4]) && rows.divides(&[32]) && !rows.divides(&[3, 11]));
    }

    #[test]
    fn heads_split_without_moving() {
        // [2, 3, 8] to [2 * 4 heads, 3, 2], and one token of each head
        let heads = Strided::whole(&[2, 3, 8])
            .transpose(&[2, 3, 4, 2], &[0, 2, 1, 3])
            .unwrap();
        let strides = |s: &Strided| s.axes.iter().map(|a| a.stride).collect::<Vec<_>>();
        assert_eq!(strides(&heads), [24, 2, 8, 1]);
        let token = heads
            .slice(&[8, 3, 2], &[0, 1, 0], &[1; 3], &[8, 1, 2])
            .unwrap();
        assert_eq!((token.offset, strides(&token)), (8, vec![24, 2, 8, 1]));
        // Batch and head are two axes: every second of their product has no strides.
        assert_eq!(
            heads.slice(&[8, 3, 2], &[0; 3], &[2, 1, 1], &[4, 3, 2]),
            None
        );
        let row = Strided::whole(&[3, 1])
            .broadcast(&[3, 1], &[2, 3, 4])
            .unwrap();
        assert_eq!(strides(&row), [0, 1, 0]);
        assert_eq!(Strided::whole(&[3]).broadcast(&[3], &[2]), None);
    }
}
