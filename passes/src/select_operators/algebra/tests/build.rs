//! Random graphs for tests.

use ipu_program::graph::{
    Activation, BinaryKind, Graph, OpKind, ReduceKind, Scalar, UnaryKind, ValueId,
};
use ipu_program::infer::infer;
use ipu_program::types::{ElementType, TensorType};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A graph under construction, and whether it is still one that a rule should match.
pub struct Build {
    pub graph: Graph,
    pub random: Random,
    /// Whether every choice so far was one that the rule wants.
    pub expect: bool,
    pub element: ElementType,
    /// Whether an operator did not take its operands: the graph is none.
    pub broken: bool,
    /// Whether products of f16 stay f32.
    pub wide: bool,
    /// Whether biases may have another element type.
    pub odd: bool,
}

impl Build {
    pub fn new(seed: u64) -> Self {
        Build {
            graph: Graph {
                name: "main".into(),
                ..Graph::default()
            },
            random: Random(seed),
            expect: true,
            element: ElementType::F32,
            broken: false,
            wide: false,
            odd: false,
        }
    }

    /// An extent from 2 to 5.
    pub fn dim(&mut self) -> u32 {
        2 + self.random.below(4)
    }

    /// True mostly; if not, the rule should not match.
    pub fn ok(&mut self) -> bool {
        let ok = self.random.below(8) != 0;
        self.expect &= ok;
        ok
    }

    /// A coin.
    pub fn coin(&mut self) -> bool {
        self.random.below(2) == 0
    }

    pub fn ty(&self, shape: &[u32]) -> TensorType {
        TensorType::new(shape, self.element)
    }

    pub fn input(&mut self, shape: &[u32]) -> ValueId {
        let v = self.graph.add_value(self.ty(shape));
        self.graph.inputs.push(v);
        v
    }

    pub fn param(&mut self, shape: &[u32]) -> ValueId {
        let name = format!("p{}", self.graph.values.len());
        self.stated(OpKind::Parameter { name }, &[], self.ty(shape))
    }

    /// What the host should know, mostly.
    pub fn host(&mut self, shape: &[u32]) -> ValueId {
        if self.ok() {
            self.param(shape)
        } else {
            self.input(shape)
        }
    }

    /// What the program should compute, mostly.
    pub fn computed(&mut self, shape: &[u32]) -> ValueId {
        if self.ok() {
            self.input(shape)
        } else {
            self.param(shape)
        }
    }

    pub fn splat(&mut self, shape: &[u32], value: f32) -> ValueId {
        let values = vec![value];
        self.stated(OpKind::Constant { values }, &[], self.ty(shape))
    }

    /// A constant of one value, mostly.
    pub fn uniform(&mut self, shape: &[u32], value: f32) -> ValueId {
        if self.ok() {
            self.splat(shape, value)
        } else {
            self.param(shape)
        }
    }

    /// Of one element, or all of a larger shape, mostly of one value.
    pub fn factor(&mut self, large: &[u32], value: f32) -> ValueId {
        let shape = match self.random.below(3) {
            0 => vec![1],
            1 => Vec::new(),
            _ => large.to_vec(),
        };
        self.uniform(&shape, value)
    }

    pub fn stated(&mut self, kind: OpKind, operands: &[ValueId], ty: TensorType) -> ValueId {
        let at = format!("t.mlir:{}:1", self.graph.ops.len() + 1);
        self.graph.add_op(kind, operands.to_vec(), ty, at)
    }

    pub fn op(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        let types: Vec<TensorType> = operands.iter().map(|&v| self.graph.ty(v).clone()).collect();
        let ty = infer(&kind, &types).unwrap_or_else(|_| {
            self.broken = true;
            types[0].clone()
        });
        self.stated(kind, operands, ty)
    }

    pub fn shape(&self, v: ValueId) -> Vec<u32> {
        self.graph.ty(v).shape.clone()
    }

    pub fn binary(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> ValueId {
        self.op(OpKind::Binary(kind), &[a, b])
    }

    /// In either order.
    pub fn either(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> ValueId {
        if self.coin() {
            self.binary(kind, a, b)
        } else {
            self.binary(kind, b, a)
        }
    }

    pub fn unary(&mut self, kind: UnaryKind, x: ValueId) -> ValueId {
        self.op(OpKind::Unary(kind), &[x])
    }

    pub fn matmul(&mut self, a: ValueId, b: ValueId, transpose_b: bool) -> ValueId {
        let kind = OpKind::Matmul {
            transpose_a: false,
            transpose_b,
        };
        self.product(kind, &[a, b])
    }

    /// What is multiplied in f16 and wide is f32, and what follows.
    fn product(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        let v = self.op(kind, operands);
        if self.wide {
            self.element = ElementType::F32;
            self.graph.values[v.0 as usize].ty.element = ElementType::F32;
        }
        v
    }

    pub fn linear(&mut self, relu: bool, operands: &[ValueId]) -> ValueId {
        let activation = if relu {
            Activation::Relu
        } else {
            Activation::None
        };
        self.product(OpKind::Linear { activation }, operands)
    }

    pub fn reshape(&mut self, x: ValueId, shape: &[u32]) -> ValueId {
        self.stated(OpKind::Reshape, &[x], self.ty(shape))
    }

    pub fn transpose(&mut self, x: ValueId, permutation: &[u32]) -> ValueId {
        let permutation = permutation.to_vec();
        self.op(OpKind::Transpose { permutation }, &[x])
    }

    pub fn broadcast(&mut self, x: ValueId, shape: &[u32]) -> ValueId {
        self.stated(OpKind::Broadcast, &[x], self.ty(shape))
    }

    pub fn slice(
        &mut self,
        x: ValueId,
        offsets: &[u32],
        strides: &[u32],
        shape: &[u32],
    ) -> ValueId {
        let kind = OpKind::Slice {
            offsets: offsets.to_vec(),
            strides: strides.to_vec(),
        };
        self.stated(kind, &[x], self.ty(shape))
    }

    /// A slice within a shape.
    pub fn any_slice(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let (mut offsets, mut strides, mut to) = (vec![], vec![], vec![]);
        for &d in &shape {
            let offset = self.random.below(d);
            let stride = 1 + self.random.below(2);
            offsets.push(offset);
            strides.push(stride);
            to.push(1 + self.random.below((d - 1 - offset) / stride + 1));
        }
        self.slice(x, &offsets, &strides, &to)
    }

    pub fn softmax(&mut self, x: ValueId, axis: u32) -> ValueId {
        self.op(OpKind::Softmax { axis }, &[x])
    }

    pub fn reduce(&mut self, kind: ReduceKind, axes: &[u32], keep: bool, x: ValueId) -> ValueId {
        let kind = OpKind::Reduce {
            kind,
            axes: axes.to_vec(),
            keep_dims: keep,
        };
        self.op(kind, &[x])
    }

    pub fn attention(&mut self, scale: f32, causal: bool, qkv: [ValueId; 3]) -> ValueId {
        let kind = OpKind::Attention {
            heads: 1,
            scale: Scalar::new(scale),
            causal,
        };
        self.op(kind, &qkv)
    }

    /// A binary operator.
    pub fn any_binary(&mut self) -> BinaryKind {
        BinaryKind::ALL[self.random.below(6) as usize]
    }

    /// A permutation of `rank` axes.
    pub fn permutation(&mut self, rank: u32) -> Vec<u32> {
        let mut p: Vec<u32> = (0..rank).collect();
        for i in (1..rank).rev() {
            p.swap(i as usize, self.random.below(i + 1) as usize);
        }
        p
    }

    pub fn done(mut self, v: ValueId) -> (Graph, bool) {
        self.graph.outputs.push(v);
        (self.graph, self.expect)
    }
}

/// Extents of an encoder.
#[derive(Clone, Copy)]
pub struct Encoder {
    pub blocks: usize,
    pub rows: u32,
    pub width: u32,
    pub heads: u32,
    pub mlp: u32,
}

impl Encoder {
    /// SigLIP So400m at 378 pixels.
    pub fn siglip(blocks: usize) -> Self {
        Encoder {
            blocks,
            rows: 729,
            width: 1152,
            heads: 16,
            mlp: 4304,
        }
    }

    /// In plain operators: products, sums, transposes, softmax.
    pub fn graph(self) -> Graph {
        let Encoder {
            blocks,
            rows,
            width,
            heads,
            mlp,
        } = self;
        let depth = width / heads;
        let mut b = Build::new(0);
        b.element = ElementType::F16;
        let mut x = b.input(&[1, rows, width]);
        let add = BinaryKind::Add;
        let norm = |b: &mut Build, x| {
            let (scale, bias) = (b.param(&[width]), b.param(&[width]));
            let epsilon = Scalar::new(1e-6);
            b.op(OpKind::LayerNorm { epsilon }, &[x, scale, bias])
        };
        let project = |b: &mut Build, x, k: u32, n: u32| {
            let (w, bias) = (b.param(&[k, n]), b.param(&[n]));
            let y = b.matmul(x, w, false);
            b.binary(add, y, bias)
        };
        for _ in 0..blocks {
            let n = norm(&mut b, x);
            let [q, k, v] = [(); 3].map(|()| {
                let y = project(&mut b, n, width, width);
                let y = b.reshape(y, &[1, rows, heads, depth]);
                b.transpose(y, &[0, 2, 1, 3])
            });
            let k = b.transpose(k, &[0, 1, 3, 2]);
            let scores = b.matmul(q, k, false);
            let scale = b.splat(&[1], 0.125);
            let scores = b.binary(BinaryKind::Mul, scores, scale);
            let probabilities = b.softmax(scores, 3);
            let o = b.matmul(probabilities, v, false);
            let o = b.transpose(o, &[0, 2, 1, 3]);
            let o = b.reshape(o, &[1, rows, width]);
            let o = project(&mut b, o, width, width);
            x = b.binary(add, x, o);
            let n = norm(&mut b, x);
            let h = project(&mut b, n, width, mlp);
            let h = b.unary(UnaryKind::GeluTanh, h);
            let h = project(&mut b, h, mlp, width);
            x = b.binary(add, x, h);
        }
        let x = norm(&mut b, x);
        b.done(x).0
    }
}
