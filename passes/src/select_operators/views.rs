//! Which values are only views of others: reshapes, transpositions, slices, broadcasts and the
//! forms of heads move nothing by themselves; whoever reads such a value brings the elements of its
//! base to where it wants them, in one exchange however long the chain of views is. Host values are
//! no views: the host computes them in the order that is wanted.

use ipu_program::graph::{Graph, Op, OpKind, ValueId};
use ipu_program::host::HostValues;
use ipu_program::strided::Strided;
use std::collections::BTreeMap;

/// A value in terms of the value that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewed {
    /// The stored value.
    pub base: ValueId,
    /// Its elements in terms of the base's.
    pub strided: Strided,
}

/// The views of a graph in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Views {
    /// Results of view operators; those of which a further view has no strides are stored and
    /// missing here.
    viewed: BTreeMap<ValueId, Viewed>,
}

/// Whether an operator only renames elements of its operand.
pub fn is_view(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Reshape
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Broadcast
            | OpKind::SplitHeads { .. }
            | OpKind::MergeHeads { .. }
    )
}

impl Views {
    /// The views of a graph, whose operators stand in an order in which operands precede uses.
    pub fn of(graph: &Graph) -> Self {
        let mut views = Views::default();
        let host = HostValues::of(graph);
        let moved = |op: &&Op| is_view(&op.kind) && !host.is_done(op.result);
        for op in graph.ops.iter().filter(moved) {
            let Some(&x) = op.operands.first() else {
                continue;
            };
            let from = views.viewed(graph, x);
            let strided = apply(graph, op, x, &from.strided);
            let viewed = match strided {
                Some(strided) => Viewed {
                    base: from.base,
                    strided,
                },
                None => {
                    views.viewed.remove(&x);
                    let whole = Strided::whole(&graph.ty(x).shape);
                    match apply(graph, op, x, &whole) {
                        Some(strided) => Viewed { base: x, strided },
                        // A malformed operator: refused by whoever reads it.
                        None => continue,
                    }
                }
            };
            views.viewed.insert(op.result, viewed);
        }
        views
    }

    /// The stored value behind a value, and how.
    pub fn viewed(&self, graph: &Graph, v: ValueId) -> Viewed {
        self.viewed.get(&v).cloned().unwrap_or_else(|| Viewed {
            base: v,
            strided: Strided::whole(&graph.ty(v).shape),
        })
    }

    /// What the result of a view operator is, whether it is stored or not; `None` for a malformed
    /// operator.
    pub fn of_operator(&self, graph: &Graph, op: &Op) -> Option<Viewed> {
        let &x = op.operands.first()?;
        let from = self.viewed(graph, x);
        let strided = apply(graph, op, x, &from.strided)?;
        Some(Viewed {
            base: from.base,
            strided,
        })
    }

    /// Whether a value has no storage of its own.
    pub fn is_virtual(&self, v: ValueId) -> bool {
        self.viewed.contains_key(&v)
    }
}

/// The view of the result of `op` on operand `x`, of which `from` is the view.
fn apply(graph: &Graph, op: &Op, x: ValueId, from: &Strided) -> Option<Strided> {
    let (shape, result) = (&graph.ty(x).shape, &graph.ty(op.result).shape);
    match &op.kind {
        OpKind::Reshape => Some(from.clone()),
        OpKind::Transpose { permutation } => from.transpose(shape, permutation),
        OpKind::Slice { offsets, strides } => from.slice(shape, offsets, strides, result),
        OpKind::Broadcast => from.broadcast(shape, result),
        OpKind::SplitHeads { heads } => {
            let &[n, t, d] = result.as_slice() else {
                return None;
            };
            from.transpose(&[n.checked_div(*heads)?, t, *heads, d], &[0, 2, 1, 3])
        }
        OpKind::MergeHeads { heads } => {
            let &[n, t, d] = shape.as_slice() else {
                return None;
            };
            from.transpose(&[n.checked_div(*heads)?, *heads, t, d], &[0, 2, 1, 3])
        }
        _ => None,
    }
}
