//! Which operands an operator takes, and the type of its result: the one place that knows.
//!
//! [`infer`] gives the type that operands and attributes determine, [`check`] compares the types
//! that a program states. Nothing here trusts its arguments: extents may be anything, attributes
//! out of range, operands missing.

mod error;
#[cfg(test)]
mod tests;

pub use error::{InferError, Subject};

use crate::graph::{Graph, OpKind, Scalar};
use crate::types::{ElementType, TensorType};
use error::shape;
use std::borrow::Cow;
use std::fmt;

/// Elements of one tensor: counts and offsets fit 32 bits everywhere.
pub const MAX_ELEMENTS: u64 = u32::MAX as u64;

/// The name of an operand as in the syntax of the operation.
pub fn operand_name(kind: &OpKind, index: usize) -> Cow<'static, str> {
    let names: &[&'static str] = match kind {
        OpKind::Matmul { .. } | OpKind::Binary(_) => &["lhs", "rhs"],
        OpKind::Linear { .. } | OpKind::Conv2d { .. } => &["input", "weight", "bias"],
        OpKind::LayerNorm { .. } | OpKind::RmsNorm { .. } => &["input", "scale", "bias"],
        OpKind::Attention { .. } => &["query", "key", "value"],
        OpKind::Gather { .. } => &["input", "indices"],
        OpKind::Concat { .. } | OpKind::Repeat { .. } => &[],
        _ => &["input"],
    };
    match names.get(index) {
        Some(&name) => name.into(),
        None => format!("inputs[{index}]").into(),
    }
}

/// Numbers of operands that an operator takes, and those numbers as text.
fn arity(kind: &OpKind) -> (usize, usize, &'static str) {
    match kind {
        OpKind::Parameter { .. } | OpKind::Constant { .. } => (0, 0, "no"),
        OpKind::Matmul { .. }
        | OpKind::Binary(_)
        | OpKind::RmsNorm { .. }
        | OpKind::Gather { .. } => (2, 2, "2"),
        OpKind::Linear { .. } | OpKind::Conv2d { .. } => (2, 3, "2 or 3"),
        OpKind::LayerNorm { .. } | OpKind::Attention { .. } => (3, 3, "3"),
        OpKind::Concat { .. } | OpKind::Repeat { .. } => (1, usize::MAX, "at least 1"),
        _ => (1, 1, "1"),
    }
}

/// NumPy's broadcast of two shapes.
pub fn broadcast(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    let rank = a.len().max(b.len());
    let at = |s: &[u32], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// Number of elements of a shape, `None` beyond [`MAX_ELEMENTS`].
fn elements<T: Copy + Into<u64>>(shape: &[T]) -> Option<u64> {
    shape
        .iter()
        .try_fold(1u64, |n, &d| n.checked_mul(d.into()))
        .filter(|&n| n <= MAX_ELEMENTS)
}

/// A type of a shape that was computed.
fn sized(shape: Vec<u64>, element: ElementType) -> Result<TensorType, InferError> {
    let extents: Result<Vec<u32>, _> = shape.iter().map(|&d| u32::try_from(d)).collect();
    match extents {
        Ok(extents) if elements(&extents).is_some() => Ok(TensorType::new(extents, element)),
        _ => Err(InferError::TooLarge(shape)),
    }
}

fn attribute(
    name: impl Into<Cow<'static, str>>,
    found: impl fmt::Display,
    expected: impl Into<String>,
) -> InferError {
    InferError::Attribute {
        name: name.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}

fn at_least_one(name: impl Into<Cow<'static, str>>, found: u32) -> Result<(), InferError> {
    match found {
        0 => Err(attribute(name, 0, "at least 1")),
        _ => Ok(()),
    }
}

/// The operands of one operation.
struct Operands<'a> {
    kind: &'a OpKind,
    types: &'a [TensorType],
}

impl<'a> Operands<'a> {
    /// Checks number, extents and element types.
    fn new(kind: &'a OpKind, types: &'a [TensorType]) -> Result<Self, InferError> {
        let (least, most, expected) = arity(kind);
        if types.len() < least || types.len() > most {
            let found = types.len();
            return Err(InferError::OperandCount { expected, found });
        }
        let operands = Operands { kind, types };
        for (i, ty) in types.iter().enumerate() {
            if ty.shape.contains(&0) {
                return Err(operands.refuse(i, "extents of at least 1"));
            }
            if elements(&ty.shape).is_none() {
                return Err(operands.refuse(i, format!("at most {MAX_ELEMENTS} elements")));
            }
            let indices = matches!(kind, OpKind::Gather { .. }) && i == 1;
            if indices && ty.element != ElementType::I32 {
                return Err(operands.refuse(i, "elements of i32"));
            }
            if !indices && !moves(kind) && !ty.element.is_float() {
                return Err(operands.refuse(i, "elements of f16 or f32"));
            }
        }
        Ok(operands)
    }

    fn subject(&self, i: usize) -> Subject {
        Subject {
            name: operand_name(self.kind, i),
            ty: self.types[i].clone(),
        }
    }

    fn pair(&self, i: usize, j: usize) -> Box<[Subject; 2]> {
        Box::new([self.subject(i), self.subject(j)])
    }

    fn refuse(&self, i: usize, expected: impl Into<String>) -> InferError {
        InferError::Tensor {
            subject: self.subject(i),
            expected: expected.into(),
        }
    }

    fn differ(&self, what: &'static str, i: usize, j: usize) -> InferError {
        InferError::Differ {
            what,
            subjects: self.pair(i, j),
        }
    }

    fn shape(&self, i: usize) -> &'a [u32] {
        &self.types[i].shape
    }

    /// Checks that all operands from `from` on have the element type of operand 0.
    fn one_element(&self, from: usize) -> Result<ElementType, InferError> {
        let element = self.types[0].element;
        match (from..self.types.len()).find(|&i| self.types[i].element != element) {
            Some(i) => Err(self.differ("element types", 0, i)),
            None => Ok(element),
        }
    }

    /// Checks an axis of operand 0 and gives its extent.
    fn axis(&self, name: impl Into<Cow<'static, str>>, axis: u32) -> Result<u32, InferError> {
        let extent = self.shape(0).get(axis as usize).copied();
        extent.ok_or_else(|| self.range(name, axis))
    }

    fn range(&self, name: impl Into<Cow<'static, str>>, axis: u32) -> InferError {
        let expected = match self.shape(0).len() {
            0 => format!("none: {}", self.subject(0)),
            rank => format!("0 to {}: {}", rank - 1, self.subject(0)),
        };
        attribute(name, axis, expected)
    }

    /// Checks that a list has one entry for each axis of operand 0.
    fn per_axis(&self, name: &'static str, list: &[u32]) -> Result<(), InferError> {
        let rank = self.shape(0).len();
        if list.len() == rank {
            return Ok(());
        }
        let expected = format!("{rank} numbers: {}", self.subject(0));
        Err(attribute(name, format!("{list:?}"), expected))
    }

    /// Checks that heads divide the last axis of an operand and gives its part of one head.
    fn head(&self, i: usize, heads: u32) -> Result<u32, InferError> {
        let columns = self.shape(i).last().copied().unwrap_or(1);
        if heads > 0 && columns.is_multiple_of(heads) {
            return Ok(columns / heads);
        }
        let expected = format!("a divisor of {columns}: {}", self.subject(i));
        Err(attribute("heads", heads, expected))
    }

    /// Checks that an operand is a vector of a length.
    fn vector(&self, i: usize, length: u32) -> Result<(), InferError> {
        match self.shape(i) {
            &[n] if n == length => Ok(()),
            _ => Err(self.refuse(i, format!("the shape {length}"))),
        }
    }

    fn product(&self, transposed: [bool; 2]) -> Result<TensorType, InferError> {
        let ([l_batch @ .., l0, l1], [r_batch @ .., r0, r1]) = (self.shape(0), self.shape(1))
        else {
            return Err(InferError::Matrices(self.pair(0, 1)));
        };
        let [(m, k), (n, rows)] = [
            if transposed[0] { (l1, l0) } else { (l0, l1) },
            if transposed[1] { (r0, r1) } else { (r1, r0) },
        ];
        if k != rows {
            let word = |columns| if columns { "columns" } else { "rows" };
            return Err(InferError::Contraction {
                subjects: self.pair(0, 1),
                extents: [(*k, word(!transposed[0])), (*rows, word(transposed[1]))],
            });
        }
        if !r_batch.is_empty() && r_batch != l_batch {
            return Err(self.differ("batch axes", 0, 1));
        }
        if self.types[0].element != self.types[1].element {
            return Err(self.differ("element types", 0, 1));
        }
        let shape = l_batch.iter().chain([m, n]).map(|&d| d.into()).collect();
        sized(shape, self.types[0].element)
    }

    fn attention(&self, heads: u32, scale: Scalar, causal: bool) -> Result<TensorType, InferError> {
        for i in 0..3 {
            if self.shape(i).len() < 2 {
                return Err(self.refuse(i, "at least 2 axes"));
            }
        }
        let element = self.one_element(1)?;
        let parts = |i: usize| {
            let (batch, rest) = self.shape(i).split_at(self.shape(i).len() - 2);
            (batch, rest[0], rest[1])
        };
        let ((batch, queries, depth), (k_batch, keys, k_depth), (v_batch, values, width)) =
            (parts(0), parts(1), parts(2));
        for (i, own) in [(1, k_batch), (2, v_batch)] {
            if own != batch {
                return Err(self.differ("leading axes", 0, i));
            }
        }
        if depth != k_depth {
            return Err(self.differ("last axes", 0, 1));
        }
        if keys != values {
            return Err(self.differ("numbers of keys and values", 1, 2));
        }
        self.head(0, heads)?;
        self.head(2, heads)?;
        if !scale.get().is_finite() {
            return Err(attribute("scale", scale.get(), "a finite number"));
        }
        if causal && queries > keys {
            // The first queries would see no key.
            return Err(self.refuse(0, format!("at most {keys} queries when causal")));
        }
        let shape = batch.iter().chain([&queries, &width]);
        sized(shape.map(|&d| d.into()).collect(), element)
    }

    fn convolution(
        &self,
        strides: [u32; 2],
        padding: [u32; 4],
        dilations: [u32; 2],
        groups: u32,
    ) -> Result<TensorType, InferError> {
        let &[n, h, w, c] = self.shape(0) else {
            return Err(self.refuse(0, "the axes N, H, W, C"));
        };
        let &[kh, kw, depth, f] = self.shape(1) else {
            return Err(self.refuse(1, "the axes KH, KW, C / groups, F"));
        };
        let element = self.one_element(1)?;
        for axis in 0..2 {
            at_least_one(format!("strides[{axis}]"), strides[axis])?;
            at_least_one(format!("dilations[{axis}]"), dilations[axis])?;
        }
        at_least_one("groups", groups)?;
        if !c.is_multiple_of(groups) || !f.is_multiple_of(groups) {
            let expected = format!("a divisor of the {c} channels and of the {f} filters");
            return Err(attribute("groups", groups, expected));
        }
        if depth != c / groups {
            let expected = format!(
                "{} as axis 2: {} channels in {groups} groups",
                c / groups,
                c
            );
            return Err(self.refuse(1, expected));
        }
        if self.types.len() > 2 {
            self.vector(2, f)?;
        }
        let mut shape = vec![u64::from(n)];
        for (axis, extent, kernel) in [(0, h, kh), (1, w, kw)] {
            let padded =
                u64::from(extent) + u64::from(padding[2 * axis]) + u64::from(padding[2 * axis + 1]);
            let window = u64::from(dilations[axis]) * u64::from(kernel - 1) + 1;
            let Some(room) = padded.checked_sub(window) else {
                let name = ["height", "width"][axis];
                let expected =
                    format!("a {name} of at least {window} with padding, that of the window");
                return Err(self.refuse(0, expected));
            };
            shape.push(room / u64::from(strides[axis]) + 1);
        }
        shape.push(f.into());
        sized(shape, element)
    }

    fn reduce(&self, axes: &[u32], keep_dims: bool) -> Result<TensorType, InferError> {
        let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
        if axes.is_empty() || !ascending {
            return Err(attribute(
                "axes",
                format!("{axes:?}"),
                "at least one axis, ascending, each once",
            ));
        }
        for (i, &axis) in axes.iter().enumerate() {
            self.axis(format!("axes[{i}]"), axis)?;
        }
        let extents = (0u32..).zip(self.shape(0)).filter_map(|(axis, &extent)| {
            match (axes.contains(&axis), keep_dims) {
                (false, _) => Some(extent),
                (true, true) => Some(1),
                (true, false) => None,
            }
        });
        Ok(TensorType::new(
            extents.collect::<Vec<_>>(),
            self.types[0].element,
        ))
    }

    fn transpose(&self, permutation: &[u32]) -> Result<TensorType, InferError> {
        self.per_axis("permutation", permutation)?;
        let mut seen = vec![false; permutation.len()];
        let mut extents = Vec::with_capacity(permutation.len());
        for (i, &axis) in permutation.iter().enumerate() {
            extents.push(self.axis(format!("permutation[{i}]"), axis)?);
            if std::mem::replace(&mut seen[axis as usize], true) {
                let found = format!("{permutation:?}");
                return Err(attribute("permutation", found, format!("axis {axis} once")));
            }
        }
        Ok(TensorType::new(extents, self.types[0].element))
    }

    fn concat(&self, axis: u32) -> Result<TensorType, InferError> {
        let element = self.one_element(1)?;
        self.axis("axis", axis)?;
        let mut shape: Vec<u64> = self.shape(0).iter().map(|&d| d.into()).collect();
        for i in 1..self.types.len() {
            let (first, own) = (self.shape(0), self.shape(i));
            let fits = first.len() == own.len()
                && (0u32..)
                    .zip(first.iter().zip(own))
                    .all(|(a, (x, y))| a == axis || x == y);
            if !fits {
                return Err(self.differ("axes that are not joined", 0, i));
            }
            shape[axis as usize] += u64::from(own[axis as usize]);
        }
        sized(shape, element)
    }

    fn split_heads(&self, heads: u32) -> Result<TensorType, InferError> {
        let [leading @ .., rows, _] = self.shape(0) else {
            return Err(self.refuse(0, "at least 2 axes"));
        };
        let depth = self.head(0, heads)?;
        // At most the elements of the operand.
        let batch = leading.iter().map(|&d| u64::from(d)).product::<u64>() * u64::from(heads);
        sized(
            vec![batch, (*rows).into(), depth.into()],
            self.types[0].element,
        )
    }

    fn merge_heads(&self, heads: u32) -> Result<TensorType, InferError> {
        let &[batch, rows, depth] = self.shape(0) else {
            return Err(self.refuse(0, "3 axes"));
        };
        if heads == 0 || !batch.is_multiple_of(heads) {
            let expected = format!("a divisor of {batch}: {}", self.subject(0));
            return Err(attribute("heads", heads, expected));
        }
        let columns = u64::from(heads) * u64::from(depth);
        sized(
            vec![(batch / heads).into(), rows.into(), columns],
            self.types[0].element,
        )
    }

    fn gather(&self, axis: u32) -> Result<TensorType, InferError> {
        let extent = self.axis("axis", axis)?;
        if extent > ElementType::MAX_INTEGER {
            let limit = ElementType::MAX_INTEGER;
            return Err(self.refuse(0, format!("at most {limit} rows along axis {axis}")));
        }
        let (before, after) = self.shape(0).split_at(axis as usize);
        let shape = before.iter().chain(self.shape(1)).chain(&after[1..]);
        sized(shape.map(|&d| d.into()).collect(), self.types[0].element)
    }

    /// x, and vectors as long as its last axis.
    fn norm(&self, epsilon: Scalar) -> Result<TensorType, InferError> {
        let Some(&length) = self.shape(0).last() else {
            return Err(self.refuse(0, "at least 1 axis"));
        };
        if !(epsilon.get() >= 0.0 && epsilon.get().is_finite()) {
            return Err(attribute(
                "epsilon",
                epsilon.get(),
                "a finite number, not negative",
            ));
        }
        self.one_element(1)?;
        for i in 1..self.types.len() {
            self.vector(i, length)?;
        }
        Ok(self.types[0].clone())
    }
}

/// Whether an operator only moves elements, whatever they are.
fn moves(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Reshape
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Concat { .. }
            | OpKind::Broadcast
            | OpKind::Cast
            | OpKind::Gather { .. }
            | OpKind::Repeat { .. }
    )
}

/// The type of the (first) result of an operator, by its operands. A product or a convolution of
/// f16 may also be stated as f32, see [`check`].
///
/// # Errors
/// The operator does not take these operands, or ([`InferError::Undetermined`]) they do not
/// determine the result: `Parameter`, `Constant`, `Reshape`, `Slice`, `Broadcast`, `Cast`.
pub fn infer(kind: &OpKind, operands: &[TensorType]) -> Result<TensorType, InferError> {
    let of = Operands::new(kind, operands)?;
    match kind {
        OpKind::Parameter { .. }
        | OpKind::Constant { .. }
        | OpKind::Reshape
        | OpKind::Slice { .. }
        | OpKind::Broadcast
        | OpKind::Cast => Err(InferError::Undetermined),
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => of.product([*transpose_a, *transpose_b]),
        OpKind::Binary(_) => {
            let element = of.one_element(1)?;
            let shape = broadcast(of.shape(0), of.shape(1));
            let shape = shape.ok_or_else(|| InferError::Broadcast(of.pair(0, 1)))?;
            sized(shape.into_iter().map(u64::from).collect(), element)
        }
        OpKind::Unary(_) => Ok(operands[0].clone()),
        OpKind::Linear { .. } => {
            let ty = of.product([false; 2])?;
            let fits =
                |bias: &TensorType| broadcast(&bias.shape, &ty.shape) == Some(ty.shape.clone());
            match operands.get(2) {
                Some(bias) if !fits(bias) => {
                    let expected = format!("a shape that broadcasts to {}", shape(&ty.shape));
                    Err(of.refuse(2, expected))
                }
                _ => Ok(ty),
            }
        }
        OpKind::Softmax { axis } => {
            of.axis("axis", *axis)?;
            Ok(operands[0].clone())
        }
        OpKind::LayerNorm { epsilon } | OpKind::RmsNorm { epsilon } => of.norm(*epsilon),
        OpKind::Reduce {
            axes, keep_dims, ..
        } => of.reduce(axes, *keep_dims),
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => of.attention(*heads, *scale, *causal),
        OpKind::SplitHeads { heads } => of.split_heads(*heads),
        OpKind::MergeHeads { heads } => of.merge_heads(*heads),
        OpKind::Transpose { permutation } => of.transpose(permutation),
        OpKind::Concat { axis } => of.concat(*axis),
        OpKind::Gather { axis } => of.gather(*axis),
        OpKind::Conv2d {
            strides,
            padding,
            dilations,
            groups,
        } => of.convolution(*strides, *padding, *dilations, *groups),
        OpKind::Repeat { .. } => Ok(operands[0].clone()),
    }
}

/// Checks the types that a program states for one operation.
///
/// # Errors
/// The operator does not take the operands or does not give the results.
pub fn check(
    kind: &OpKind,
    operands: &[TensorType],
    results: &[TensorType],
) -> Result<(), InferError> {
    if let OpKind::Repeat { count, body } = kind {
        let types = |ids: &[crate::graph::ValueId]| -> Vec<TensorType> {
            ids.iter().map(|&id| Graph::ty(body, id).clone()).collect()
        };
        let (inputs, outputs) = (types(&body.inputs), types(&body.outputs));
        return check_repeat(*count, operands, [&inputs, &outputs], results);
    }
    let [result] = results else {
        return Err(InferError::ResultCount {
            expected: 1,
            found: results.len(),
        });
    };
    if result.shape.contains(&0) {
        return Err(stated(result, "extents of at least 1"));
    }
    if elements(&result.shape).is_none() {
        return Err(stated(result, format!("at most {MAX_ELEMENTS} elements")));
    }
    let inferred = match infer(kind, operands) {
        Err(InferError::Undetermined) => return check_stated(kind, operands, result),
        other => other?,
    };
    if inferred.shape != result.shape {
        return Err(InferError::Shape {
            found: result.clone(),
            expected: inferred.shape,
        });
    }
    let widens = matches!(
        kind,
        OpKind::Matmul { .. } | OpKind::Linear { .. } | OpKind::Conv2d { .. }
    );
    match result.element {
        e if e == inferred.element => Ok(()),
        ElementType::F32 if widens => Ok(()),
        _ if widens && inferred.element == ElementType::F16 => {
            Err(stated(result, "elements of f16 or f32"))
        }
        _ => Err(stated(result, format!("elements of {}", inferred.element))),
    }
}

fn stated(result: &TensorType, expected: impl Into<String>) -> InferError {
    InferError::Tensor {
        subject: Subject {
            name: "result".into(),
            ty: result.clone(),
        },
        expected: expected.into(),
    }
}

/// Checks a result that operands do not determine.
fn check_stated(
    kind: &OpKind,
    operands: &[TensorType],
    result: &TensorType,
) -> Result<(), InferError> {
    let Some(input) = operands.first() else {
        return match kind {
            OpKind::Constant { values }
                if values.len() != 1 && values.len() as u64 != result.elements() =>
            {
                Err(stated(
                    result,
                    format!("{} elements, one for each value", values.len()),
                ))
            }
            _ => Ok(()),
        };
    };
    let of = Operands {
        kind,
        types: operands,
    };
    if input.element != result.element && *kind != OpKind::Cast {
        return Err(stated(result, format!("elements of {}", input.element)));
    }
    let same_rank = input.shape.len() == result.shape.len();
    match kind {
        OpKind::Reshape if input.elements() != result.elements() => {
            let expected = format!("the {} elements of the input {input}", input.elements());
            Err(stated(result, expected))
        }
        OpKind::Broadcast
            if broadcast(&input.shape, &result.shape).as_ref() != Some(&result.shape) =>
        {
            Err(stated(
                result,
                format!("a shape that the input {input} broadcasts to"),
            ))
        }
        OpKind::Cast if input.shape != result.shape => Err(InferError::Shape {
            found: result.clone(),
            expected: input.shape.clone(),
        }),
        OpKind::Cast if !result.element.is_float() && input.element.is_float() => {
            Err(stated(result, "elements of f16 or f32"))
        }
        OpKind::Slice { offsets, strides } => {
            of.per_axis("offsets", offsets)?;
            of.per_axis("strides", strides)?;
            if !same_rank {
                return Err(stated(
                    result,
                    format!("{} axes like the input", input.shape.len()),
                ));
            }
            for (axis, (&offset, &stride)) in offsets.iter().zip(strides).enumerate() {
                at_least_one(format!("strides[{axis}]"), stride)?;
                let (has, takes) = (input.shape[axis], result.shape[axis]);
                let last = u64::from(offset) + u64::from(takes - 1) * u64::from(stride);
                if last >= u64::from(has) {
                    let expected = format!(
                        "less along axis {axis}: element {last} of the input {input} is read"
                    );
                    return Err(stated(result, expected));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks a repeat with the types of the arguments of its body and of what the body yields.
///
/// # Errors
/// It does not iterate, or what is carried changes its type on the way.
pub fn check_repeat(
    count: u32,
    operands: &[TensorType],
    [arguments, yields]: [&[TensorType]; 2],
    results: &[TensorType],
) -> Result<(), InferError> {
    at_least_one("count", count)?;
    if operands.is_empty() {
        return Err(InferError::OperandCount {
            expected: "at least 1",
            found: 0,
        });
    }
    if results.len() != operands.len() {
        return Err(InferError::ResultCount {
            expected: operands.len(),
            found: results.len(),
        });
    }
    for (what, types) in [
        ("arguments of the body", arguments),
        ("values yielded by the body", yields),
    ] {
        if types.len() != operands.len() {
            let expected = format!("{}, one for each input", operands.len());
            return Err(attribute(
                format!("number of {what}"),
                types.len(),
                expected,
            ));
        }
    }
    for (what, types) in [
        ("argument", arguments),
        ("yielded", yields),
        ("result", results),
    ] {
        for (i, (ty, operand)) in types.iter().zip(operands).enumerate() {
            if ty != operand {
                return Err(InferError::Tensor {
                    subject: Subject {
                        name: format!("{what} {i}").into(),
                        ty: ty.clone(),
                    },
                    expected: format!("{operand} like inputs[{i}]"),
                });
            }
        }
    }
    Ok(())
}
