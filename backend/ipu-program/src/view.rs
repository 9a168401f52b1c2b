//! What a [`View`] may say, and its normal form.

use crate::tile::View;

/// A view that no rearrangement carries out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Lists of different lengths.
    #[error(
        "view has {axes} axes, but {source_axes} strides of the source and {destination_axes} of the destination"
    )]
    Rank {
        /// Extents.
        axes: usize,
        /// Source strides.
        source_axes: usize,
        /// Destination strides.
        destination_axes: usize,
    },
    /// An axis without indices.
    #[error("view has extent 0 at axis {0}")]
    Empty(usize),
    /// An element beyond the end of a tensor.
    #[error("view reaches element {last} of the {side}, which has {elements}")]
    Outside {
        /// `source` or `destination`.
        side: &'static str,
        /// Largest element number; `u64::MAX` when it is even larger.
        last: u64,
        /// Elements of the tensor.
        elements: u64,
    },
    /// Two indices may name one destination element.
    #[error(
        "view steps by {stride} through the destination at axis {axis}, axes of smaller strides span {span} elements"
    )]
    Repeated {
        /// Axis of [`View::shape`].
        axis: usize,
        /// Its destination stride.
        stride: u64,
        /// Elements that the axes of smaller strides span together.
        span: u64,
    },
    /// No view, and tensors of different numbers of elements.
    #[error(
        "numbers of elements differ: {source_elements} in the source, {destination_elements} in the destination"
    )]
    Elements {
        /// Elements of the source.
        source_elements: u64,
        /// Elements of the destination.
        destination_elements: u64,
    },
}

/// An axis of a [`Walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of indices; not 1, and 0 only in tensors without elements.
    pub extent: u64,
    /// Elements of the source from one index to the next.
    pub source: u64,
    /// Elements of the destination from one index to the next.
    pub destination: u64,
}

/// A checked view with the fewest axes that say the same. The axes stand by descending stride of
/// the destination, and the stride of each is at least what the axes after it span: in this order
/// the destination elements ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// First element of the source.
    pub source: u64,
    /// First element of the destination.
    pub destination: u64,
    /// The axes.
    pub axes: Vec<Axis>,
}

impl Walk {
    /// All of so many elements keep their numbers.
    pub fn identity(elements: u64) -> Walk {
        let all = Axis {
            extent: elements,
            source: 1,
            destination: 1,
        };
        Walk {
            source: 0,
            destination: 0,
            axes: if elements == 1 { vec![] } else { vec![all] },
        }
    }

    /// Checks the view of a rearrangement between tensors of so many elements and brings it into
    /// the normal form. No view: elements keep their numbers.
    ///
    /// That no destination element is named twice is decided by a sufficient rule, without
    /// counting: with axes ordered by destination stride, each stride must be at least the number
    /// of elements that the axes of smaller strides span. Axes of a tensor nest like this, also
    /// when they are split, permuted or cut.
    ///
    /// # Errors
    /// Lists of different lengths, an empty axis, elements outside a tensor, or a destination
    /// that may be named twice.
    pub fn new(
        view: Option<&View>,
        source_elements: u64,
        destination_elements: u64,
    ) -> Result<Walk, ViewError> {
        let Some(view) = view else {
            if source_elements != destination_elements {
                return Err(ViewError::Elements {
                    source_elements,
                    destination_elements,
                });
            }
            return Ok(Walk::identity(source_elements));
        };
        let rank = view.shape.len();
        if view.source_strides.len() != rank || view.destination_strides.len() != rank {
            return Err(ViewError::Rank {
                axes: rank,
                source_axes: view.source_strides.len(),
                destination_axes: view.destination_strides.len(),
            });
        }
        if let Some(axis) = view.shape.iter().position(|&e| e == 0) {
            return Err(ViewError::Empty(axis));
        }
        let last = |offset: u64, strides: &[u64]| {
            view.shape
                .iter()
                .zip(strides)
                .fold(offset, |last, (&e, &s)| {
                    last.saturating_add(u64::from(e - 1).saturating_mul(s))
                })
        };
        for (side, last, elements) in [
            (
                "source",
                last(view.source_offset, &view.source_strides),
                source_elements,
            ),
            (
                "destination",
                last(view.destination_offset, &view.destination_strides),
                destination_elements,
            ),
        ] {
            if last >= elements {
                return Err(ViewError::Outside {
                    side,
                    last,
                    elements,
                });
            }
        }
        // From here on no sum overflows: all of them are below the numbers of elements.
        let mut axes: Vec<(usize, Axis)> = (0..rank)
            .filter(|&i| view.shape[i] > 1)
            .map(|i| {
                let axis = Axis {
                    extent: view.shape[i].into(),
                    source: view.source_strides[i],
                    destination: view.destination_strides[i],
                };
                (i, axis)
            })
            .collect();
        axes.sort_by_key(|(_, a)| std::cmp::Reverse(a.destination));
        let mut span = 1;
        for &(
            axis,
            Axis {
                extent,
                destination,
                ..
            },
        ) in axes.iter().rev()
        {
            if destination < span {
                return Err(ViewError::Repeated {
                    axis,
                    stride: destination,
                    span,
                });
            }
            span += (extent - 1) * destination;
        }
        let mut merged: Vec<Axis> = Vec::new();
        for (_, axis) in axes {
            match merged.last_mut() {
                Some(outer)
                    if axis.extent.checked_mul(axis.source) == Some(outer.source)
                        && axis.extent * axis.destination == outer.destination =>
                {
                    *outer = Axis {
                        extent: outer.extent * axis.extent,
                        ..axis
                    };
                }
                _ => merged.push(axis),
            }
        }
        Ok(Walk {
            source: view.source_offset,
            destination: view.destination_offset,
            axes: merged,
        })
    }

    /// Number of destination elements that are written.
    pub fn elements(&self) -> u64 {
        self.axes.iter().map(|a| a.extent).product()
    }

    /// Calls `line` with the first source and destination element and the innermost axis of
    /// each line, in ascending order of the destination.
    pub fn lines(&self, mut line: impl FnMut(u64, u64, Axis)) {
        let (inner, outer) = match self.axes.split_last() {
            Some((inner, outer)) => (*inner, outer),
            None => {
                let one = Axis {
                    extent: 1,
                    source: 1,
                    destination: 1,
                };
                (one, &[][..])
            }
        };
        let mut index = vec![0u64; outer.len()];
        let (mut s, mut d) = (self.source, self.destination);
        'next: loop {
            line(s, d, inner);
            for (i, axis) in index.iter_mut().zip(outer).rev() {
                *i += 1;
                s += axis.source;
                d += axis.destination;
                if *i < axis.extent {
                    continue 'next;
                }
                s -= axis.source * axis.extent;
                d -= axis.destination * axis.extent;
                *i = 0;
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn view(shape: &[u32], from: (u64, &[u64]), to: (u64, &[u64])) -> View {
        View {
            shape: shape.to_vec(),
            source_offset: from.0,
            source_strides: from.1.to_vec(),
            destination_offset: to.0,
            destination_strides: to.1.to_vec(),
        }
    }

    fn message(v: &View, source: u64, destination: u64) -> String {
        Walk::new(Some(v), source, destination)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn refused_views_are_named() {
        let v = view(&[2, 3], (0, &[3]), (0, &[3, 1]));
        assert_eq!(
            message(&v, 6, 6),
            "view has 2 axes, but 1 strides of the source and 2 of the destination"
        );
        let v = view(&[2, 0], (0, &[3, 1]), (0, &[3, 1]));
        assert_eq!(message(&v, 6, 6), "view has extent 0 at axis 1");
        let v = view(&[2, 3], (1, &[3, 1]), (0, &[3, 1]));
        assert_eq!(
            message(&v, 6, 6),
            "view reaches element 6 of the source, which has 6"
        );
        let v = view(&[2, 3], (0, &[3, 1]), (0, &[u64::MAX, u64::MAX]));
        assert_eq!(
            message(&v, 6, 6),
            "view reaches element 18446744073709551615 of the destination, which has 6"
        );
        let v = view(&[2, 3], (0, &[3, 1]), (0, &[2, 1]));
        assert_eq!(
            message(&v, 6, 6),
            "view steps by 2 through the destination at axis 0, axes of smaller strides span 3 elements"
        );
        let v = view(&[2], (0, &[1]), (0, &[0]));
        assert!(message(&v, 6, 6).contains("steps by 0"));
        assert_eq!(
            Walk::new(None, 4, 5).unwrap_err().to_string(),
            "numbers of elements differ: 4 in the source, 5 in the destination"
        );
    }

    #[test]
    fn contiguous_axes_are_one() {
        let v = view(&[4, 1, 2, 8], (5, &[16, 9, 8, 1]), (0, &[16, 7, 8, 1]));
        let w = Walk::new(Some(&v), 200, 64).unwrap();
        let axis = Axis {
            extent: 64,
            source: 1,
            destination: 1,
        };
        assert_eq!((w.source, w.axes), (5, vec![axis]));
        assert_eq!(Walk::new(None, 1, 1).unwrap().axes, []);
    }

    proptest! {
        #[test]
        fn a_walk_moves_what_its_view_says(
            axes in prop::collection::vec((1u32..4, 0u64..9, 1u64..3), 0..4), s0 in 0u64..5, d0 in 0u64..5, turn in 0usize..4,
        ) {
            // Destination strides nest with gaps, then the axes change places.
            let mut span = 1;
            let mut list: Vec<(u32, u64, u64)> = Vec::new();
            for (e, s, gap) in axes {
                let stride = span * gap;
                span += u64::from(e - 1) * stride;
                list.push((e, s, stride));
            }
            let n = list.len();
            list.rotate_left(if n == 0 { 0 } else { turn % n });
            let v = View {
                shape: list.iter().map(|a| a.0).collect(),
                source_offset: s0,
                source_strides: list.iter().map(|a| a.1).collect(),
                destination_offset: d0,
                destination_strides: list.iter().map(|a| a.2).collect(),
            };
            let mut expected = BTreeMap::new();
            let count: u32 = v.shape.iter().product();
            for i in 0..count {
                let (mut rest, mut s, mut d) = (i, s0, d0);
                for &(e, ss, ds) in &list {
                    s += u64::from(rest % e) * ss;
                    d += u64::from(rest % e) * ds;
                    rest /= e;
                }
                prop_assert!(expected.insert(d, s).is_none());
            }
            let last = |f: fn((&u64, &u64)) -> u64| expected.iter().map(f).max().unwrap() + 1;
            let (ends, endd) = (last(|e| *e.1), last(|e| *e.0));
            let w = Walk::new(Some(&v), ends, endd).unwrap();
            let mut pairs = Vec::new();
            w.lines(|s, d, a| pairs.extend((0..a.extent).map(|i| (d + i * a.destination, s + i * a.source))));
            prop_assert_eq!(w.elements(), pairs.len() as u64);
            prop_assert_eq!(pairs, expected.into_iter().collect::<Vec<_>>());
            prop_assert!(Walk::new(Some(&v), ends - 1, endd).is_err());
            prop_assert!(Walk::new(Some(&v), ends, endd - 1).is_err());
        }
    }
}
