//! The language of terms, and what is known of each class of them.
//!
//! A term is a symbol and children. The attributes of an operator are children too, leaves in front
//! of its operands, so that rules can bind and compare them; only leaves carry a payload.

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use half::f16;
use ipu_program::graph::{
    Activation, BinaryKind, Graph, OpKind, ReduceKind, Scalar, UnaryKind, ValueId,
};
use ipu_program::infer;
use ipu_program::types::{ElementType, TensorType};
use std::fmt;
use std::sync::Arc;

/// What a term is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sym {
    /// An attribute.
    Attr,
    /// An argument of the function.
    Input,
    /// A parameter, a constant or an operator that no rule looks into.
    Source,
    /// Result 0, 1, … of an operator with several.
    Project,
    /// The bias that is not there.
    Absent,
    /// A matrix product.
    Matmul,
    /// act(x * w + b)
    Linear,
    /// An elementwise operator of two operands.
    Binary(BinaryKind),
    /// An elementwise operator of one operand.
    Unary,
    /// Along an axis.
    Softmax,
    /// With scale and bias.
    LayerNorm,
    /// With scale.
    RmsNorm,
    /// Over axes.
    Reduce,
    /// softmax(scale q k^T) v
    Attention,
    /// One matrix a head.
    SplitHeads,
    /// Its inverse.
    MergeHeads,
    /// The same elements in another shape.
    Reshape,
    /// The axes in another order.
    Transpose,
    /// Some elements of each axis.
    Slice,
    /// Operands one after the other.
    Concat,
    /// Repeated to a shape.
    Broadcast,
    /// Another element type.
    Cast,
}

/// What an attribute child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// `true` or `false`.
    Flag,
    /// A number.
    Int,
    /// A list of numbers.
    List,
    /// An `f32`.
    Scalar,
    /// `none` or `relu`.
    Activation,
    /// `f16`, `f32` or `i32`.
    Element,
    /// The kind of an elementwise operator.
    Unary,
    /// The kind of a reduction.
    Reduce,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attr {
    /// See [`AttrKind::Flag`], and so on.
    Flag(bool),
    /// A number.
    Int(u32),
    /// A list of numbers.
    List(Arc<[u32]>),
    /// An `f32`.
    Scalar(Scalar),
    /// An activation.
    Activation(Activation),
    /// An element type.
    Element(ElementType),
    /// An elementwise operator.
    Unary(UnaryKind),
    /// A reduction.
    Reduce(ReduceKind),
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Flag(flag) => write!(f, "{flag}"),
            Attr::Int(n) => write!(f, "{n}"),
            Attr::List(list) => write!(f, "{list:?}"),
            Attr::Scalar(s) => write!(f, "{:?}", s.get()),
            Attr::Activation(Activation::None) => f.write_str("none"),
            Attr::Activation(Activation::Relu) => f.write_str("relu"),
            Attr::Element(e) => write!(f, "{e}"),
            Attr::Unary(UnaryKind::GeluErf) => f.write_str("gelu_erf"),
            Attr::Unary(UnaryKind::GeluTanh) => f.write_str("gelu_tanh"),
            Attr::Unary(kind) => f.write_str(kind.name()),
            Attr::Reduce(kind) => f.write_str(kind.name()),
        }
    }
}

impl Attr {
    /// A list.
    pub fn list(values: impl Into<Vec<u32>>) -> Self {
        Attr::List(values.into().into())
    }

    /// Reads a literal of a rule.
    pub fn parse(kind: AttrKind, text: &str) -> Option<Self> {
        let named = |all: &[Attr]| all.iter().find(|a| a.to_string() == text).cloned();
        match kind {
            AttrKind::Flag => named(&[Attr::Flag(false), Attr::Flag(true)]),
            AttrKind::Int => text.parse().ok().map(Attr::Int),
            AttrKind::Scalar => text.parse().ok().map(|v| Attr::Scalar(Scalar::new(v))),
            AttrKind::List => None,
            AttrKind::Activation => named(&[
                Attr::Activation(Activation::None),
                Attr::Activation(Activation::Relu),
            ]),
            AttrKind::Element => {
                named(&[ElementType::F16, ElementType::F32, ElementType::I32].map(Attr::Element))
            }
            AttrKind::Unary => named(&UnaryKind::ALL.map(Attr::Unary)),
            AttrKind::Reduce => named(&ReduceKind::ALL.map(Attr::Reduce)),
        }
    }
}

impl Sym {
    /// The symbols that rules may name.
    pub const NAMED: [(&'static str, Sym); 22] = [
        ("matmul", Sym::Matmul),
        ("linear", Sym::Linear),
        ("add", Sym::Binary(BinaryKind::Add)),
        ("sub", Sym::Binary(BinaryKind::Sub)),
        ("mul", Sym::Binary(BinaryKind::Mul)),
        ("div", Sym::Binary(BinaryKind::Div)),
        ("max", Sym::Binary(BinaryKind::Max)),
        ("min", Sym::Binary(BinaryKind::Min)),
        ("unary", Sym::Unary),
        ("softmax", Sym::Softmax),
        ("layer_norm", Sym::LayerNorm),
        ("rms_norm", Sym::RmsNorm),
        ("reduce", Sym::Reduce),
        ("attention", Sym::Attention),
        ("split_heads", Sym::SplitHeads),
        ("merge_heads", Sym::MergeHeads),
        ("reshape", Sym::Reshape),
        ("transpose", Sym::Transpose),
        ("slice", Sym::Slice),
        ("concat", Sym::Concat),
        ("broadcast", Sym::Broadcast),
        ("cast", Sym::Cast),
    ];

    /// Its name in rules and dumps.
    pub fn name(self) -> &'static str {
        match self {
            Sym::Attr => "attr",
            Sym::Input => "input",
            Sym::Source => "source",
            Sym::Project => "project",
            Sym::Absent => "absent",
            named => Sym::NAMED
                .iter()
                .find(|(_, s)| *s == named)
                .map_or("?", |(name, _)| name),
        }
    }

    /// Its attributes, the first children.
    pub fn attributes(self) -> &'static [AttrKind] {
        use AttrKind::*;
        match self {
            // The element type of the result: sums of f16 may stay f32.
            Sym::Matmul => &[Flag, Flag, Element],
            Sym::Linear => &[Activation, Element],
            Sym::Unary => &[Unary],
            Sym::Softmax | Sym::Concat | Sym::Project => &[Int],
            Sym::LayerNorm | Sym::RmsNorm => &[Scalar],
            Sym::Reduce => &[Reduce, List, Flag],
            Sym::Attention => &[Int, Scalar, Flag],
            Sym::SplitHeads | Sym::MergeHeads => &[Int],
            Sym::Reshape | Sym::Broadcast | Sym::Transpose => &[List],
            // Offsets, steps, extents of the result.
            Sym::Slice => &[List, List, List],
            Sym::Cast => &[Element],
            _ => &[],
        }
    }

    /// How many operands it takes, `None` for any number.
    pub fn operands(self) -> Option<usize> {
        match self {
            Sym::Attr | Sym::Input | Sym::Absent => Some(0),
            Sym::Source | Sym::Concat => None,
            Sym::Matmul | Sym::Binary(_) | Sym::RmsNorm => Some(2),
            Sym::Linear | Sym::LayerNorm | Sym::Attention => Some(3),
            _ => Some(1),
        }
    }
}

/// What a leaf carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payload {
    /// Not a leaf.
    None,
    /// Of [`Sym::Attr`].
    Attr(Attr),
    /// Argument number or index in [`Facts::sources`].
    Index(u32),
}

/// A node of the e-graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// What it is.
    pub sym: Sym,
    /// What a leaf carries.
    pub payload: Payload,
    /// Attributes, then operands.
    pub children: Vec<Id>,
}

impl Term {
    /// A term that is no leaf.
    pub fn new(sym: Sym, children: Vec<Id>) -> Self {
        let payload = Payload::None;
        Term {
            sym,
            payload,
            children,
        }
    }

    /// An attribute.
    pub fn attr(attr: Attr) -> Self {
        Term {
            sym: Sym::Attr,
            payload: Payload::Attr(attr),
            children: Vec::new(),
        }
    }

    /// The children that are operands.
    pub fn operands(&self) -> &[Id] {
        self.children
            .get(self.sym.attributes().len()..)
            .unwrap_or_default()
    }
}

impl Language for Term {
    type Discriminant = (Sym, Payload, usize);

    fn discriminant(&self) -> Self::Discriminant {
        (self.sym, self.payload.clone(), self.children.len())
    }

    fn matches(&self, other: &Self) -> bool {
        self.sym == other.sym
            && self.children.len() == other.children.len()
            && self.payload == other.payload
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// Where a term of [`Sym::Source`] comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Operation of the imported graph.
    Op(usize),
    /// A constant of zeros, made by a merge.
    Zeros(TensorType),
}

/// What a class stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor(TensorType),
    /// The results of an operator.
    Tuple(Vec<TensorType>),
    /// An attribute.
    Attr(Attr),
    /// The bias that is not there.
    Absent,
    /// An operator that does not take its operands: reported, and then no e-graph results.
    Broken,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Tensor(ty) => write!(f, "{ty}"),
            Kind::Tuple(types) => {
                let all: Vec<_> = types.iter().map(ToString::to_string).collect();
                write!(f, "({})", all.join(", "))
            }
            Kind::Attr(attr) => write!(f, "attribute {attr}"),
            Kind::Absent => f.write_str("absent"),
            Kind::Broken => f.write_str("no type"),
        }
    }
}

/// What is known of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Type or attribute.
    pub kind: Kind,
    /// Whether the host knows the value before the program runs.
    pub host: bool,
    /// The one value of all elements, as rounded to the element type.
    pub uniform: Option<Scalar>,
}

impl Data {
    /// The type of a tensor.
    pub fn ty(&self) -> Option<&TensorType> {
        match &self.kind {
            Kind::Tensor(ty) => Some(ty),
            _ => None,
        }
    }

    /// The attribute.
    pub fn attr(&self) -> Option<&Attr> {
        match &self.kind {
            Kind::Attr(attr) => Some(attr),
            _ => None,
        }
    }
}

/// The analysis: types, what the host knows, and what else a class cannot say by itself.
pub struct Facts {
    /// The imported graph.
    pub graph: Arc<Graph>,
    /// What terms of [`Sym::Source`] are.
    pub sources: Vec<Source>,
    /// The rule that is applied at the moment.
    pub rule: Arc<str>,
    /// The first contradiction.
    pub conflict: Option<Conflict>,
}

/// Two terms that cannot be equal, or one that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The rule that was applied.
    pub rule: Arc<str>,
    /// Both terms with their types, or the term and what is wrong with it.
    pub what: [String; 2],
}

/// The e-graph.
pub type Graphs = EGraph<Term, Facts>;

/// The value of an element after rounding to its type.
pub fn rounded(value: f32, element: ElementType) -> f32 {
    match element {
        ElementType::F16 => f16::from_f32(value).to_f32(),
        ElementType::F32 | ElementType::I32 => value,
    }
}

impl Facts {
    fn refuse(&mut self, what: [String; 2]) {
        let rule = Arc::clone(&self.rule);
        self.conflict.get_or_insert(Conflict { rule, what });
    }

    /// The operation behind a source.
    pub fn source_kind(&self, index: u32) -> Option<(OpKind, TensorType)> {
        match self.sources.get(index as usize)? {
            Source::Op(i) => {
                let op = self.graph.ops.get(*i)?;
                Some((op.kind.clone(), self.graph.ty(op.result).clone()))
            }
            Source::Zeros(ty) => Some((OpKind::Constant { values: vec![0.0] }, ty.clone())),
        }
    }

    /// The values of a constant as they were given: one for all elements, or all.
    pub fn constant(&self, index: u32) -> Option<(&[f32], &TensorType)> {
        match self.sources.get(index as usize)? {
            Source::Op(i) => {
                let op = self.graph.ops.get(*i)?;
                match &op.kind {
                    OpKind::Constant { values } => Some((values, self.graph.ty(op.result))),
                    _ => None,
                }
            }
            Source::Zeros(ty) => Some((&[0.0], ty)),
        }
    }

    fn source(&self, index: u32, operands: &[Id], host: bool) -> Data {
        let uniform = self.constant(index).and_then(|(values, ty)| {
            let first = rounded(*values.first()?, ty.element);
            let same = |v: &f32| rounded(*v, ty.element).to_bits() == first.to_bits();
            values.iter().all(same).then(|| Scalar::new(first))
        });
        let (kind, leaf, repeat) = match self.sources.get(index as usize) {
            Some(Source::Op(i)) => {
                let op = &self.graph.ops[*i];
                let types = |v: &ValueId| self.graph.ty(*v).clone();
                let mut all: Vec<TensorType> = vec![types(&op.result)];
                all.extend(op.more_results.iter().map(types));
                let kind = match all.as_slice() {
                    [one] => Kind::Tensor(one.clone()),
                    _ => Kind::Tuple(all),
                };
                let repeat = matches!(op.kind, OpKind::Repeat { .. });
                (
                    kind,
                    matches!(op.kind, OpKind::Parameter { .. } | OpKind::Constant { .. }),
                    repeat,
                )
            }
            Some(Source::Zeros(ty)) => (Kind::Tensor(ty.clone()), true, false),
            None => (Kind::Broken, false, false),
        };
        let host = leaf || (host && !operands.is_empty() && !repeat);
        Data {
            kind,
            host,
            uniform,
        }
    }
}

/// The kind of operator of a term; `attr` gives the attributes by position. `None` for leaves and
/// sources.
pub fn operator<'a>(sym: Sym, attr: impl Fn(usize) -> Option<&'a Attr>) -> Option<OpKind> {
    let flag = |i| matches!(attr(i), Some(Attr::Flag(true)));
    let int = |i| match attr(i) {
        Some(Attr::Int(n)) => Some(*n),
        _ => None,
    };
    let list = |i| match attr(i) {
        Some(Attr::List(list)) => Some(list.to_vec()),
        _ => None,
    };
    let scalar = |i| match attr(i) {
        Some(Attr::Scalar(s)) => Some(*s),
        _ => None,
    };
    Some(match sym {
        Sym::Attr | Sym::Input | Sym::Source | Sym::Project | Sym::Absent => return None,
        Sym::Matmul => OpKind::Matmul {
            transpose_a: flag(0),
            transpose_b: flag(1),
        },
        Sym::Linear => match attr(0)? {
            Attr::Activation(activation) => OpKind::Linear {
                activation: *activation,
            },
            _ => return None,
        },
        Sym::Binary(kind) => OpKind::Binary(kind),
        Sym::Unary => match attr(0)? {
            Attr::Unary(kind) => OpKind::Unary(*kind),
            _ => return None,
        },
        Sym::Softmax => OpKind::Softmax { axis: int(0)? },
        Sym::LayerNorm => OpKind::LayerNorm {
            epsilon: scalar(0)?,
        },
        Sym::RmsNorm => OpKind::RmsNorm {
            epsilon: scalar(0)?,
        },
        Sym::Reduce => match attr(0)? {
            Attr::Reduce(kind) => OpKind::Reduce {
                kind: *kind,
                axes: list(1)?,
                keep_dims: flag(2),
            },
            _ => return None,
        },
        Sym::Attention => OpKind::Attention {
            heads: int(0)?,
            scale: scalar(1)?,
            causal: flag(2),
        },
        Sym::SplitHeads => OpKind::SplitHeads { heads: int(0)? },
        Sym::MergeHeads => OpKind::MergeHeads { heads: int(0)? },
        Sym::Reshape => OpKind::Reshape,
        Sym::Transpose => OpKind::Transpose {
            permutation: list(0)?,
        },
        Sym::Slice => OpKind::Slice {
            offsets: list(0)?,
            strides: list(1)?,
        },
        Sym::Concat => OpKind::Concat { axis: int(0)? },
        Sym::Broadcast => OpKind::Broadcast,
        Sym::Cast => OpKind::Cast,
    })
}

/// The symbol and the attributes of an operator with a result of type `ty`; `None` for those that
/// no rule looks into.
pub fn attributes(kind: &OpKind, ty: &TensorType) -> Option<(Sym, Vec<Attr>)> {
    let element = Attr::Element(ty.element);
    let shape = || Attr::list(ty.shape.clone());
    Some(match kind {
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => (
            Sym::Matmul,
            vec![Attr::Flag(*transpose_a), Attr::Flag(*transpose_b), element],
        ),
        OpKind::Linear { activation } => {
            (Sym::Linear, vec![Attr::Activation(*activation), element])
        }
        OpKind::Binary(kind) => (Sym::Binary(*kind), vec![]),
        OpKind::Unary(kind) => (Sym::Unary, vec![Attr::Unary(*kind)]),
        OpKind::Softmax { axis } => (Sym::Softmax, vec![Attr::Int(*axis)]),
        OpKind::LayerNorm { epsilon } => (Sym::LayerNorm, vec![Attr::Scalar(*epsilon)]),
        OpKind::RmsNorm { epsilon } => (Sym::RmsNorm, vec![Attr::Scalar(*epsilon)]),
        OpKind::Reduce {
            kind,
            axes,
            keep_dims,
        } => (
            Sym::Reduce,
            vec![
                Attr::Reduce(*kind),
                Attr::list(axes.clone()),
                Attr::Flag(*keep_dims),
            ],
        ),
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => (
            Sym::Attention,
            vec![Attr::Int(*heads), Attr::Scalar(*scale), Attr::Flag(*causal)],
        ),
        OpKind::SplitHeads { heads } => (Sym::SplitHeads, vec![Attr::Int(*heads)]),
        OpKind::MergeHeads { heads } => (Sym::MergeHeads, vec![Attr::Int(*heads)]),
        OpKind::Reshape => (Sym::Reshape, vec![shape()]),
        OpKind::Transpose { permutation } => {
            (Sym::Transpose, vec![Attr::list(permutation.clone())])
        }
        OpKind::Slice { offsets, strides } => (
            Sym::Slice,
            vec![
                Attr::list(offsets.clone()),
                Attr::list(strides.clone()),
                shape(),
            ],
        ),
        OpKind::Concat { axis } => (Sym::Concat, vec![Attr::Int(*axis)]),
        OpKind::Broadcast => (Sym::Broadcast, vec![shape()]),
        OpKind::Cast => (Sym::Cast, vec![element]),
        OpKind::Parameter { .. }
        | OpKind::Constant { .. }
        | OpKind::Gather { .. }
        | OpKind::Conv2d { .. }
        | OpKind::Repeat { .. } => return None,
    })
}

/// The type of the result of an operator with these attributes.
fn result(
    kind: &OpKind,
    term: &Term,
    attr: impl Fn(usize) -> Option<Attr>,
    operands: &[TensorType],
) -> Result<TensorType, String> {
    let stated = |i: usize| match attr(i) {
        Some(Attr::List(shape)) => Ok(shape.to_vec()),
        _ => Err("a shape is missing".to_owned()),
    };
    let element = |i: usize| match attr(i) {
        Some(Attr::Element(element)) => Ok(element),
        _ => Err("an element type is missing".to_owned()),
    };
    let first = operands.first().ok_or("has no operand")?;
    let inferred = || infer::infer(kind, operands).map_err(|e| e.to_string());
    let ty = match term.sym {
        Sym::Matmul => TensorType::new(inferred()?.shape, element(2)?),
        Sym::Linear => TensorType::new(inferred()?.shape, element(1)?),
        Sym::Reshape | Sym::Broadcast => TensorType::new(stated(0)?, first.element),
        Sym::Slice => TensorType::new(stated(2)?, first.element),
        Sym::Cast => TensorType::new(first.shape.clone(), element(0)?),
        _ => inferred()?,
    };
    infer::check(kind, operands, std::slice::from_ref(&ty)).map_err(|e| e.to_string())?;
    Ok(ty)
}

/// A term with the types of its operands.
pub fn display(egraph: &Graphs, term: &Term) -> String {
    let mut text = term.sym.name().to_owned();
    match &term.payload {
        Payload::None => {}
        Payload::Attr(attr) => text += &format!(" {attr}"),
        Payload::Index(i) => text += &format!(" {i}"),
    }
    for &child in &term.children {
        let data = &egraph[child].data;
        text += &match data.attr() {
            Some(attr) => format!(" {attr}"),
            None => format!(" c{}: {}", egraph.find(child), data.kind),
        };
    }
    text
}

impl Analysis<Term> for Facts {
    type Data = Data;

    fn make(egraph: &mut Graphs, term: &Term, _: Id) -> Data {
        let simple = |kind| Data {
            kind,
            host: false,
            uniform: None,
        };
        // An operator whose operands the host knows is one that it computes.
        let mut present = term
            .operands()
            .iter()
            .filter(|&&c| egraph[c].data.kind != Kind::Absent)
            .peekable();
        let any = present.peek().is_some();
        let host = any && present.all(|&c| egraph[c].data.host);
        match (&term.payload, term.sym) {
            (Payload::Attr(attr), _) => return simple(Kind::Attr(attr.clone())),
            (Payload::Index(i), Sym::Input) => {
                let graph = &egraph.analysis.graph;
                let ty = graph.inputs.get(*i as usize).map(|&v| graph.ty(v).clone());
                return simple(ty.map_or(Kind::Broken, Kind::Tensor));
            }
            (Payload::Index(i), _) => return egraph.analysis.source(*i, &term.children, host),
            (_, Sym::Absent) => return simple(Kind::Absent),
            (_, Sym::Project) => {
                let part = match (
                    egraph[term.children[0]].data.attr(),
                    &egraph[term.children[1]].data.kind,
                ) {
                    (Some(Attr::Int(i)), Kind::Tuple(types)) => types.get(*i as usize).cloned(),
                    _ => None,
                };
                return simple(part.map_or(Kind::Broken, Kind::Tensor));
            }
            _ => {}
        }
        let attr = |i: usize| egraph[*term.children.get(i)?].data.attr();
        let types: Option<Vec<TensorType>> = term
            .operands()
            .iter()
            .map(|&c| &egraph[c].data)
            .filter(|d| d.kind != Kind::Absent)
            .map(|d| d.ty().cloned())
            .collect();
        let found = match (operator(term.sym, attr), types) {
            (Some(kind), Some(types)) => result(&kind, term, |i| attr(i).cloned(), &types),
            _ => Err("has an attribute or an operand of another kind".to_owned()),
        };
        let ty = match found {
            Ok(ty) => ty,
            Err(why) => {
                let shown = display(egraph, term);
                egraph.analysis.refuse([shown, why]);
                return simple(Kind::Broken);
            }
        };
        let moves = matches!(
            term.sym,
            Sym::Reshape | Sym::Broadcast | Sym::Transpose | Sym::Slice
        );
        let operand = term.operands().first().map(|&c| &egraph[c].data);
        Data {
            kind: Kind::Tensor(ty),
            host,
            uniform: operand.filter(|_| moves).and_then(|d| d.uniform),
        }
    }

    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        if a.kind != b.kind {
            self.refuse([a.kind.to_string(), b.kind.to_string()]);
        }
        if let (Some(x), Some(y)) = (a.uniform, b.uniform)
            && x != y
        {
            self.refuse([format!("all {}", x.get()), format!("all {}", y.get())]);
        }
        let old = a.clone();
        a.host |= b.host;
        a.uniform = a.uniform.or(b.uniform);
        DidMerge(
            a.host != old.host || a.uniform != old.uniform,
            a.host != b.host || a.uniform != b.uniform,
        )
    }
}
