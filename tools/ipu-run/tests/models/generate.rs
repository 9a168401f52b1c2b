//! Random models from a seed: layers of matrix products with and without bias and relu,
//! elementwise operators with every form of operand that has a lowering, several inputs and
//! results. Values stay near 1, so that a relative error means something.

use ipu_passes::registry::Options;
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::{HostArray, Parameters};
use std::fmt::Write as _;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6a09_e667_f3bc_c909)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u32, high: u32) -> u32 {
        low + (self.next() % u64::from(high - low + 1)) as u32
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.range(1, 100) <= percent
    }

    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.range(0, list.len() as u32 - 1) as usize].clone()
    }

    /// Evenly from -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// A model with everything that a run of it needs.
pub struct Model {
    pub text: String,
    pub options: Options,
    /// Whether all of it is f32, so that results are as exact.
    pub single: bool,
    pub weights: Parameters,
    /// Two sets of inputs.
    pub inputs: [Vec<HostArray>; 2],
}

#[derive(Clone, Debug)]
struct Value {
    name: String,
    shape: Vec<u32>,
}

struct Builder {
    random: Random,
    body: String,
    inputs: Vec<Value>,
    /// Everything that a tile computes or receives.
    activations: Vec<Value>,
    parameters: Vec<Value>,
    weights: Parameters,
    next: u32,
}

fn ty(shape: &[u32]) -> String {
    TensorType::new(shape, ElementType::F16).to_string()
}

pub fn array(random: &mut Random, shape: &[u32], value: impl Fn(f32) -> f32) -> HostArray {
    // Weights of a file are f32; the model rounds them.
    let ty = TensorType::new(shape, ElementType::F32);
    let values = (0..ty.elements()).map(|_| value(random.unit())).collect();
    HostArray::new(ty, values).unwrap_or_else(|e| unreachable!("{e}"))
}

impl Builder {
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next)
    }

    fn input(&mut self, shape: &[u32]) -> Value {
        let value = Value {
            name: format!("%x{}", self.inputs.len()),
            shape: shape.to_vec(),
        };
        self.inputs.push(value.clone());
        self.activations.push(value.clone());
        value
    }

    fn parameter(&mut self, kind: &str, shape: &[u32], value: impl Fn(f32) -> f32) -> Value {
        let key = format!("l{}.{kind}", self.parameters.len());
        let name = self.fresh();
        let _ = writeln!(
            self.body,
            "  {name} = nn.parameter \"{key}\" : {}",
            ty(shape)
        );
        let data = array(&mut self.random, shape, value);
        self.weights.insert(key, data);
        let value = Value {
            name,
            shape: shape.to_vec(),
        };
        self.parameters.push(value.clone());
        value
    }

    /// A constant: one value for all elements, or each its own.
    fn constant(&mut self, shape: &[u32], splat: bool) -> Value {
        let name = self.fresh();
        let total: u32 = shape.iter().product();
        let count = if splat { 1 } else { total };
        // Quarters are exact in f16.
        let values: Vec<f32> = (0..count)
            .map(|_| self.random.range(1, 8) as f32 / 4.0)
            .collect();
        let text = match (splat, shape) {
            (true, _) | (_, []) => format!("{:?}", values[0]),
            _ => nested(&values, shape),
        };
        let _ = writeln!(
            self.body,
            "  {name} = nn.constant dense<{text}> : {}",
            ty(shape)
        );
        Value {
            name,
            shape: shape.to_vec(),
        }
    }

    fn op(&mut self, name: &str, operands: &[&Value], tail: &str, shape: &[u32]) -> Value {
        let result = self.fresh();
        let names: Vec<&str> = operands.iter().map(|v| v.name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(|v| ty(&v.shape)).collect();
        let signature = if name == "relu" {
            ty(shape)
        } else {
            format!("({}) -> {}", types.join(", "), ty(shape))
        };
        let names = match (name, &names[..]) {
            ("linear", [x, w, b]) => format!("{x}, {w} bias {b}"),
            _ => names.join(", "),
        };
        let _ = writeln!(
            self.body,
            "  {result} = nn.{name} {names}{tail} : {signature}"
        );
        let value = Value {
            name: result,
            shape: shape.to_vec(),
        };
        self.activations.push(value.clone());
        value
    }

    fn width(&mut self) -> u32 {
        match self.random.range(0, 3) {
            0 => self.random.range(1, 20),
            1 => self.random.pick(&[16, 32, 64, 128]),
            _ => self.random.range(1, 200),
        }
    }

    /// A layer of `x`: matrix product, perhaps bias, perhaps relu, as one operation or several.
    fn layer(&mut self, x: &Value) -> Value {
        let (&k, rows) = x.shape.split_last().unwrap_or((&1, &[]));
        let n = if self.random.chance(15) {
            k
        } else {
            self.width()
        };
        let reused = self.parameters.iter().find(|p| p.shape == [k, n]).cloned();
        let w = match reused {
            Some(w) if self.random.chance(50) => w,
            _ => {
                let scale = 1.7 / (k as f32).sqrt();
                self.parameter("weight", &[k, n], |v| v * scale)
            }
        };
        let mut shape = rows.to_vec();
        shape.push(n);
        let bias = self.random.chance(65).then(|| {
            let form = match self.random.range(0, 3) {
                0 => vec![1, n],
                _ => vec![n],
            };
            self.parameter("bias", &form, |v| v)
        });
        let relu = self.random.chance(50);
        if self.random.chance(25) {
            let tail = if relu { " activation relu" } else { "" };
            let mut operands = vec![x, &w];
            operands.extend(&bias);
            return self.op("linear", &operands, tail, &shape);
        }
        let mut y = self.op("matmul", &[x, &w], "", &shape);
        if let Some(b) = bias {
            let operands = if self.random.chance(30) {
                [&b, &y]
            } else {
                [&y, &b]
            };
            y = self.op("add", &operands, "", &shape);
        }
        if relu {
            y = self.op("relu", &[&y], "", &shape);
        }
        y
    }

    /// An elementwise operator of `x` and something that broadcasts to it.
    fn elementwise(&mut self, x: &Value) -> Value {
        let kind = self.random.pick(&["add", "sub", "mul", "max", "min"]);
        let shape = x.shape.clone();
        let n = shape.last().copied().unwrap_or(1);
        // Factors stay away from zero.
        let value = |v: f32| {
            if kind == "mul" {
                0.75 + v.abs() / 2.0
            } else {
                v
            }
        };
        let other = match self.random.range(0, 11) {
            0 | 1 => {
                let same: Vec<Value> = self
                    .activations
                    .iter()
                    .filter(|v| v.shape == shape)
                    .cloned()
                    .collect();
                self.random.pick(&same)
            }
            2 => self.input(&shape),
            3 => self.parameter("full", &shape, value),
            4 if !shape.is_empty() => self.parameter("row", &[n], value),
            5 if shape.len() > 1 => self.parameter("row2", &[1, n], value),
            6 if shape.len() > 1 => {
                let m = shape[shape.len() - 2];
                self.parameter("column", &[m, 1], value)
            }
            7 if !shape.is_empty() => self.parameter("one", &[1], value),
            8 => self.parameter("scalar", &[], value),
            9 => self.constant(&shape, true),
            10 if shape.iter().product::<u32>() < 64 => self.constant(&shape, false),
            _ if !shape.is_empty() => self.constant(&[n], n > 40),
            _ => self.constant(&[], true),
        };
        let operands = if self.random.chance(40) {
            [&other, x]
        } else {
            [x, &other]
        };
        self.op(kind, &operands, "", &shape)
    }
}

/// The text of a dense constant, brackets around every axis.
pub fn nested(values: &[f32], shape: &[u32]) -> String {
    let Some((&first, rest)) = shape.split_first() else {
        return format!("{:?}", values[0]);
    };
    let parts: Vec<String> = values
        .chunks(values.len() / first as usize)
        .map(|part| nested(part, rest))
        .collect();
    format!("[{}]", parts.join(", "))
}

/// The model of a seed for a machine of so many tiles.
pub fn model(seed: u64, tiles: u32) -> Model {
    let mut random = Random::new(seed);
    let options = Options {
        tiles,
        partials: random.pick(&["f32", "f32", "f16", "any"]).to_owned(),
        finalists: random.range(1, 4),
        function: "main".to_owned(),
        ..Options::default()
    };
    let mut b = Builder {
        random,
        body: String::new(),
        inputs: Vec::new(),
        activations: Vec::new(),
        parameters: Vec::new(),
        weights: Parameters::new(),
        next: 0,
    };
    let rows = match b.random.range(0, 3) {
        0 => b.random.range(1, 8),
        _ => b.random.range(1, 130),
    };
    let mut shape = if b.random.chance(20) {
        let batch = b.random.range(1, 6);
        vec![batch, rows.div_ceil(batch)]
    } else {
        vec![rows]
    };
    let width = b.width();
    shape.push(width);
    let layers = b.random.chance(88);
    if !layers {
        // Elementwise operators take any rank.
        shape.drain(..b.random.range(0, shape.len() as u32) as usize);
    }
    let mut x = if layers && b.random.chance(5) {
        // A parameter on the left of a product.
        b.parameter("left", &shape, |v| v)
    } else {
        b.input(&shape)
    };
    for _ in 0..b.random.range(1, 4) {
        if layers {
            x = b.layer(&x);
        }
        if !layers || b.random.chance(35) {
            x = b.elementwise(&x);
        }
        if b.random.chance(10) {
            let shape = x.shape.clone();
            x = b.op("relu", &[&x], "", &shape);
        }
    }
    let mut results = vec![x.clone()];
    if b.random.chance(20) {
        results.push(b.random.pick(&b.activations.clone()));
    }
    if b.random.chance(10) {
        results.insert(0, x);
    }
    if b.random.chance(10) && !b.inputs.is_empty() {
        results.push(b.random.pick(&b.inputs.clone()));
    }
    if b.random.chance(10) && !b.parameters.is_empty() {
        results.push(b.random.pick(&b.parameters.clone()));
    }
    let list = |values: &[Value], named: bool| {
        let one = |v: &Value| match named {
            true => format!("{}: {}", v.name, ty(&v.shape)),
            false => ty(&v.shape),
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let names: Vec<&str> = results.iter().map(|v| v.name.as_str()).collect();
    let types = list(&results, false);
    let text = format!(
        "func.func @main({}) -> ({types}) {{\n{}  return {} : {types}\n}}\n",
        list(&b.inputs, true),
        b.body,
        names.join(", "),
    );
    let shapes: Vec<Vec<u32>> = b.inputs.iter().map(|v| v.shape.clone()).collect();
    let inputs = [(); 2].map(|()| {
        shapes
            .iter()
            .map(|shape| array(&mut b.random, shape, |v| v))
            .collect()
    });
    Model {
        text,
        options,
        single: false,
        weights: b.weights,
        inputs,
    }
}
