//! Side conditions of rules, and the attributes that their right sides compute.
//!
//! Each is a function of the classes that the variables of a match stand for: of types, attributes,
//! and what the host knows. A function of an attribute or a class that is missing is not true.

use super::term::{Attr, Data, Graphs, Payload, Sym, rounded};
use egg::{Id, Subst, Var};
use ipu_program::graph::Scalar;
use ipu_program::infer::{MAX_ELEMENTS, broadcast};
use ipu_program::types::TensorType;

/// A place where the left side of a rule stands.
pub struct Match<'a> {
    /// The e-graph.
    pub egraph: &'a Graphs,
    /// What the variables stand for.
    pub subst: &'a Subst,
    /// The class of the whole left side.
    pub class: Id,
}

/// A side condition; the number is the one at its end, where it takes one.
pub type Condition = fn(&Match<'_>, &[Var], f64) -> bool;
/// A computed attribute, `None` where the rule does not apply.
pub type Function = fn(&Match<'_>, &[Var]) -> Option<Attr>;

impl Match<'_> {
    fn id(&self, v: Var) -> Option<Id> {
        self.subst.get(v).copied()
    }

    fn data(&self, v: Var) -> Option<&Data> {
        self.id(v).map(|id| &self.egraph[id].data)
    }

    fn ty(&self, v: Var) -> Option<&TensorType> {
        self.data(v)?.ty()
    }

    fn shape(&self, v: Var) -> Option<&[u32]> {
        self.ty(v).map(|t| t.shape.as_slice())
    }

    fn last(&self, v: Var) -> Option<u32> {
        self.shape(v)?.last().copied()
    }

    fn result(&self) -> Option<&TensorType> {
        self.egraph[self.class].data.ty()
    }

    fn list(&self, v: Var) -> Option<&[u32]> {
        match self.data(v)?.attr()? {
            Attr::List(list) => Some(list),
            _ => None,
        }
    }

    fn int(&self, v: Var) -> Option<u32> {
        match self.data(v)?.attr()? {
            Attr::Int(n) => Some(*n),
            _ => None,
        }
    }

    fn scalar(&self, v: Var) -> Option<f32> {
        match self.data(v)?.attr()? {
            Attr::Scalar(s) => Some(s.get()),
            _ => None,
        }
    }

    fn uniform(&self, v: Var) -> Option<f32> {
        self.data(v)?.uniform.map(Scalar::get)
    }

    /// The shape of `a * b`, where `b` is given as it is multiplied or transposed.
    fn product(&self, a: Var, b: Var, transposed: bool) -> Option<Vec<u32>> {
        let ([.., rows, columns], [lead @ .., _]) = (self.shape(b)?, self.shape(a)?) else {
            return None;
        };
        let n = if transposed { rows } else { columns };
        Some([lead, &[*n]].concat())
    }

    /// Values of a constant, directly or behind one reshape, with its type.
    fn constant(&self, v: Var) -> Option<(&[f32], &TensorType)> {
        let of = |id: Id| {
            self.egraph[id].nodes.iter().find_map(|n| match n.payload {
                Payload::Index(i) if n.sym == Sym::Source => self.egraph.analysis.constant(i),
                _ => None,
            })
        };
        let id = self.id(v)?;
        of(id).or_else(|| {
            let nodes = self.egraph[id].nodes.iter();
            nodes
                .filter(|n| n.sym == Sym::Reshape)
                .find_map(|n| of(*n.operands().first()?))
        })
    }
}

/// Whether a shape broadcasts into another without changing it.
fn fits(small: &[u32], large: &[u32]) -> bool {
    broadcast(small, large).is_some_and(|b| b == large)
}

fn count(shape: &[u32]) -> u64 {
    shape.iter().map(|&d| u64::from(d)).product()
}

/// The axes of `rank` in order, the last two exchanged.
fn swapped(rank: usize) -> Option<Vec<u32>> {
    let mut order: Vec<u32> = (0..rank as u32).collect();
    let last = rank.checked_sub(2)?;
    order.swap(last, last + 1);
    Some(order)
}

/// The axes of `rank` in order, heads and rows exchanged: the second and third from the end.
fn heads_swapped(rank: usize) -> Option<Vec<u32>> {
    let mut order: Vec<u32> = (0..rank as u32).collect();
    let first = rank.checked_sub(3)?;
    order.swap(first, first + 1);
    Some(order)
}

/// Multiplications of `x * y` of a batch.
fn work(m: u32, k: u32, n: u32) -> u64 {
    u64::from(m) * u64::from(k) * u64::from(n)
}

/// The extents m, k, p, n of `a[m, k] * b[k, p] * c[p, n]`, and the work of (ab)c and of a(bc).
fn triple(m: &Match<'_>, v: &[Var]) -> Option<(u64, u64)> {
    let ([.., rows, k], [.., p], [.., n]) = (m.shape(v[0])?, m.shape(v[1])?, m.shape(v[2])?) else {
        return None;
    };
    // Either product has to be a tensor still.
    let batch = count(&m.shape(v[0])?[..m.shape(v[0])?.len() - 2]);
    if batch * work(*k, *n, 1).max(work(*rows, *p, 1)) > MAX_ELEMENTS {
        return None;
    }
    let left = work(*rows, *k, *p) + work(*rows, *p, *n);
    let right = work(*k, *p, *n) + work(*rows, *k, *n);
    Some((left, right))
}

/// Whether the constant adds nothing to the scores that a causal query sees, and to the others so
/// much that their exponential is 0.
fn causal_mask(m: &Match<'_>, v: &[Var]) -> Option<bool> {
    /// exp(x - max) is 0 in f16 and f32 for scores of any realistic size.
    const HIDDEN: f32 = -30_000.0;
    let (&[.., tq, _], &[.., tk, _]) = (m.shape(v[1])?, m.shape(v[2])?) else {
        return None;
    };
    let shape = m.shape(v[0])?;
    let (values, ty) = m.constant(v[0])?;
    let [lead @ .., rows, columns] = shape else {
        return None;
    };
    let rank = m.shape(v[1])?.len();
    let form = lead.iter().all(|&d| d == 1) && [*rows, *columns] == [tq, tk] && shape.len() <= rank;
    if !form || tq > tk || values.len() as u64 != count(shape) {
        return Some(false);
    }
    let seen = |i: usize| (i % tk as usize) as u32 <= (i / tk as usize) as u32 + tk - tq;
    Some(values.iter().enumerate().all(|(i, &x)| {
        let x = rounded(x, ty.element);
        if seen(i) { x == 0.0 } else { x <= HIDDEN }
    }))
}

/// Name, number of variables, whether a number follows, and the test.
pub const CONDITIONS: &[(&str, usize, bool, Condition)] = &[
    // What the host knows.
    ("host", 1, false, |m, v, _| {
        m.data(v[0]).is_some_and(|d| d.host)
    }),
    ("computed", 1, false, |m, v, _| {
        m.data(v[0]).is_some_and(|d| d.ty().is_some() && !d.host)
    }),
    ("uniform", 1, false, |m, v, _| m.uniform(v[0]).is_some()),
    ("finite", 1, false, |m, v, _| {
        m.uniform(v[0])
            .is_some_and(|x| x.is_normal() && x.recip().is_normal())
    }),
    ("power-of-two", 1, false, |m, v, _| {
        m.uniform(v[0])
            .is_some_and(|x| x.is_normal() && x.to_bits() << 9 == 0)
    }),
    ("about", 1, true, |m, v, n| {
        let near = |x: f32, ty: &TensorType| {
            (f64::from(x) - n).abs() <= 1e-6 || x == rounded(n as f32, ty.element)
        };
        m.uniform(v[0])
            .zip(m.ty(v[0]))
            .is_some_and(|(x, ty)| near(x, ty))
    }),
    ("causal-mask", 3, false, |m, v, _| {
        causal_mask(m, v).unwrap_or(false)
    }),
    // Types.
    ("rank", 1, true, |m, v, n| {
        m.shape(v[0]).is_some_and(|s| s.len() as f64 == n)
    }),
    ("rank-within", 2, false, |m, v, _| {
        m.shape(v[0])
            .zip(m.shape(v[1]))
            .is_some_and(|(a, b)| a.len() <= b.len())
    }),
    ("same-element", 2, false, |m, v, _| {
        m.ty(v[0])
            .zip(m.ty(v[1]))
            .is_some_and(|(a, b)| a.element == b.element)
    }),
    ("same-type", 2, false, |m, v, _| {
        m.ty(v[0]).is_some() && m.ty(v[0]) == m.ty(v[1])
    }),
    ("same-batch", 2, false, |m, v, _| {
        match (m.shape(v[0]), m.shape(v[1])) {
            (Some([a @ .., _, _]), Some([b @ .., _, _])) => a == b,
            _ => false,
        }
    }),
    ("is-element", 2, false, |m, v, _| {
        match (m.data(v[0]).and_then(Data::attr), m.ty(v[1])) {
            (Some(Attr::Element(e)), Some(ty)) => *e == ty.element,
            _ => false,
        }
    }),
    ("vector-or-absent", 1, false, |m, v, _| {
        m.data(v[0])
            .is_some_and(|d| d.ty().is_none_or(|t| t.shape.len() == 1))
    }),
    // As many elements as the rows of a weight have, along the last axis.
    ("row", 2, false, |m, v, _| {
        m.shape(v[0])
            .zip(m.last(v[1]))
            .is_some_and(|(b, n)| b.last() == Some(&n) && count(b) == u64::from(n))
    }),
    ("factor", 2, false, |m, v, _| {
        m.shape(v[0]).zip(m.last(v[1])).is_some_and(|(s, n)| {
            count(s) == 1 || (s.last() == Some(&n) && count(s) == u64::from(n))
        })
    }),
    ("factor-of-rows", 2, false, |m, v, _| {
        match (m.shape(v[0]), m.shape(v[1])) {
            (Some([d @ .., 1]), Some([a @ .., _])) => d == a,
            _ => false,
        }
    }),
    ("constant-along-last", 1, false, |m, v, _| {
        m.shape(v[0])
            .is_some_and(|s| s.last().is_none_or(|&d| d == 1))
            || m.uniform(v[0]).is_some()
    }),
    ("within", 2, false, |m, v, _| {
        m.shape(v[0])
            .zip(m.shape(v[1]))
            .is_some_and(|(a, b)| fits(a, b))
    }),
    ("within-product", 3, false, |m, v, _| {
        m.shape(v[0])
            .zip(m.product(v[1], v[2], false))
            .is_some_and(|(s, p)| fits(s, &p))
    }),
    ("within-scores", 3, false, |m, v, _| {
        m.shape(v[0])
            .zip(m.product(v[1], v[2], true))
            .is_some_and(|(s, p)| fits(s, &p))
    }),
    ("within-matmul", 4, false, |m, v, _| {
        let transposed = m.data(v[1]).and_then(Data::attr) == Some(&Attr::Flag(true));
        m.shape(v[0])
            .zip(m.product(v[2], v[3], transposed))
            .is_some_and(|(s, p)| fits(s, &p))
    }),
    ("result-axes", 0, false, |m, _, _| {
        m.result().is_some_and(|t| !t.shape.is_empty())
    }),
    ("result-matrix", 0, false, |m, _, _| {
        m.result().is_some_and(|t| t.shape.len() >= 2)
    }),
    // Extents.
    ("smaller", 1, false, |m, v, _| {
        m.ty(v[0])
            .zip(m.result())
            .is_some_and(|(a, r)| a.elements() < r.elements())
    }),
    ("fewer-columns", 1, false, |m, v, _| {
        m.last(v[0])
            .zip(m.result().and_then(|t| t.shape.last()))
            .is_some_and(|(a, &r)| r < a)
    }),
    ("smaller-product", 2, false, |m, v, _| {
        match (m.shape(v[0]), m.shape(v[1])) {
            (Some(&[k, p]), Some(&[_, n])) => work(k, 1, n) < work(k, 1, p) + work(p, 1, n),
            _ => false,
        }
    }),
    ("cheaper-right", 3, false, |m, v, _| {
        triple(m, v).is_some_and(|(left, right)| 2 * left >= 3 * right)
    }),
    ("cheaper-left", 3, false, |m, v, _| {
        triple(m, v).is_some_and(|(left, right)| 2 * right >= 3 * left)
    }),
    // Attributes.
    ("last-axis", 2, false, |m, v, _| {
        match (m.data(v[0]).and_then(Data::attr), m.shape(v[1])) {
            (Some(Attr::Int(axis)), Some(s)) => *axis as usize + 1 == s.len(),
            _ => false,
        }
    }),
    ("shape-is", 2, false, |m, v, _| {
        m.list(v[0]).is_some() && m.list(v[0]) == m.shape(v[1])
    }),
    // Slices by offsets, strides and shape, along an axis.
    ("ends-within", 5, false, |m, v, _| {
        let end = || {
            let axis = m.int(v[3])? as usize;
            let [offset, stride, count] = [v[0], v[1], v[2]].map(|v| m.list(v)?.get(axis));
            let last = u64::from(count?.checked_sub(1)?) * u64::from(*stride?);
            Some(u64::from(*offset?) + last < u64::from(*m.shape(v[4])?.get(axis)?))
        };
        end().unwrap_or(false)
    }),
    ("continues", 5, false, |m, v, _| {
        let next = || {
            let axis = m.int(v[4])? as usize;
            let (first, second) = (m.list(v[0])?, m.list(v[1])?);
            let (stride, count) = (m.list(v[2])?.get(axis)?, m.list(v[3])?.get(axis)?);
            let mut expected = first.to_vec();
            let at = expected.get_mut(axis)?;
            *at = at.checked_add(stride.checked_mul(*count)?)?;
            Some(expected == second)
        };
        next().unwrap_or(false)
    }),
    ("moves-last", 1, false, |m, v, _| match m.list(v[0]) {
        Some(p @ [.., last, _]) => *last as usize + 1 == p.len(),
        _ => false,
    }),
    ("swaps-last", 1, false, |m, v, _| {
        m.list(v[0])
            .is_some_and(|p| swapped(p.len()).is_some_and(|s| s == p))
    }),
    ("swaps-heads", 1, false, |m, v, _| {
        m.list(v[0])
            .is_some_and(|p| heads_swapped(p.len()).is_some_and(|s| s == p))
    }),
    ("splits-last", 2, false, |m, v, _| {
        match (m.list(v[0]), m.shape(v[1])) {
            (Some([t @ .., heads, depth]), Some([x @ .., columns])) => {
                t == x && heads.checked_mul(*depth) == Some(*columns)
            }
            _ => false,
        }
    }),
    ("merges-last", 2, false, |m, v, _| {
        match (m.list(v[0]), m.shape(v[1])) {
            (Some([.., columns]), Some([.., heads, _, depth])) => {
                heads.checked_mul(*depth) == Some(*columns)
            }
            _ => false,
        }
    }),
    ("keeps-columns", 2, false, |m, v, _| {
        m.list(v[0])
            .is_some_and(|s| s.len() >= 2 && s.last().copied() == m.last(v[1]))
    }),
    ("repeated-axes", 3, false, |m, v, _| {
        match (m.list(v[0]), m.list(v[1]), m.shape(v[2])) {
            (Some(axes), Some(to), Some(x)) => {
                to.len() == x.len()
                    && (0u32..)
                        .zip(x.iter().zip(to))
                        .all(|(i, (&a, &b))| if axes.contains(&i) { a == 1 } else { a == b })
            }
            _ => false,
        }
    }),
    ("axes-before-last", 2, false, |m, v, _| {
        m.list(v[0])
            .zip(m.shape(v[1]))
            .is_some_and(|(axes, x)| axes.iter().all(|&a| (a as usize) + 1 < x.len()))
    }),
];

/// Name, number of variables, and the attribute.
pub const FUNCTIONS: &[(&str, usize, Function)] = &[
    // Shapes.
    ("result", 0, |m, _| {
        m.result().map(|t| Attr::list(t.shape.clone()))
    }),
    ("one", 0, |_, _| Some(Attr::list([1]))),
    ("vector", 1, |m, v| {
        m.shape(v[0]).and_then(elements).map(|n| Attr::list([n]))
    }),
    ("column", 1, |m, v| {
        m.shape(v[0]).and_then(elements).map(|n| Attr::list([n, 1]))
    }),
    ("single-row", 1, |m, v| {
        m.shape(v[0]).and_then(elements).map(|n| Attr::list([1, n]))
    }),
    ("columns", 1, |m, v| m.last(v[0]).map(|n| Attr::list([n]))),
    ("zeros", 1, |m, v| {
        m.shape(v[0]).map(|s| Attr::list(vec![0; s.len()]))
    }),
    ("ones", 1, |m, v| {
        m.shape(v[0]).map(|s| Attr::list(vec![1; s.len()]))
    }),
    ("rows-for", 2, |m, v| {
        Some(Attr::list([m.last(v[0])?, m.last(v[1])?]))
    }),
    ("below", 1, |m, v| Some(Attr::list([m.last(v[0])?, 0]))),
    ("matrices", 1, |m, v| match m.shape(v[0])? {
        [lead @ .., rows, columns] => Some(Attr::list([elements(lead)?, *rows, *columns])),
        _ => None,
    }),
    ("with-columns", 2, |m, v| {
        let mut shape = m.list(v[0])?.to_vec();
        *shape.last_mut()? = m.last(v[1])?;
        Some(Attr::list(shape))
    }),
    // Permutations.
    ("swapped", 1, |m, v| {
        swapped(m.shape(v[0])?.len()).map(Attr::list)
    }),
    ("swap", 1, |m, v| {
        let mut p = m.list(v[0])?.to_vec();
        let last = p.len().checked_sub(2)?;
        p.swap(last, last + 1);
        Some(Attr::list(p))
    }),
    ("composed", 2, |m, v| {
        let (outer, inner) = (m.list(v[0])?, m.list(v[1])?);
        let both: Option<Vec<u32>> = outer
            .iter()
            .map(|&axis| inner.get(axis as usize).copied())
            .collect();
        both.map(Attr::list)
    }),
    // Slices.
    ("shifted", 3, |m, v| {
        let (outer, inner, step) = (m.list(v[0])?, m.list(v[1])?, m.list(v[2])?);
        let all: Option<Vec<u32>> = outer
            .iter()
            .zip(inner.iter().zip(step))
            .map(|(&o, (&i, &s))| o.checked_mul(s)?.checked_add(i))
            .collect();
        all.map(Attr::list)
    }),
    ("multiplied", 2, |m, v| {
        let all: Option<Vec<u32>> = m
            .list(v[0])?
            .iter()
            .zip(m.list(v[1])?)
            .map(|(&a, &b)| a.checked_mul(b))
            .collect();
        all.map(Attr::list)
    }),
    ("behind", 3, |m, v| {
        let mut offsets = m.list(v[0])?.to_vec();
        let axis = m.int(v[1])? as usize;
        let at = offsets.get_mut(axis)?;
        *at = at.checked_sub(*m.shape(v[2])?.get(axis)?)?;
        Some(Attr::list(offsets))
    }),
    ("joined", 3, |m, v| {
        let mut shape = m.list(v[0])?.to_vec();
        let axis = m.int(v[2])? as usize;
        let at = shape.get_mut(axis)?;
        *at = at.checked_add(*m.list(v[1])?.get(axis)?)?;
        Some(Attr::list(shape))
    }),
    // Heads.
    ("split-count", 1, |m, v| match m.list(v[0])? {
        [.., heads, _] => Some(Attr::Int(*heads)),
        _ => None,
    }),
    ("merge-count", 1, |m, v| match m.shape(v[0])? {
        [.., heads, _, _] => Some(Attr::Int(*heads)),
        _ => None,
    }),
    // Factors.
    ("value", 1, |m, v| {
        m.uniform(v[0]).map(|x| Attr::Scalar(Scalar::new(x)))
    }),
    ("reciprocal", 1, |m, v| {
        m.uniform(v[0])
            .map(|x| Attr::Scalar(Scalar::new(x.recip())))
    }),
    ("times", 2, |m, v| {
        let product = m.scalar(v[0])? * m.uniform(v[1])?;
        product
            .is_normal()
            .then(|| Attr::Scalar(Scalar::new(product)))
    }),
];

fn elements(shape: &[u32]) -> Option<u32> {
    u32::try_from(count(shape)).ok()
}
