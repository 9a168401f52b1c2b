//! Random models of all operators that have a lowering: products with computed operands, norms,
//! softmax, attention, reductions, chains of views, joins, casts, in odd shapes. Values are kept
//! small and denominators positive, so that an error says something.

mod host;

use crate::generate::{Model, Random, array, nested};
use ipu_passes::registry::Options;
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::Parameters;
use std::fmt::Write as _;

/// Most elements of a tensor.
const MAX_ELEMENTS: u64 = 24_000;
/// Values beyond this are scaled down.
const LARGE: f32 = 6.0;

#[derive(Clone, Debug)]
struct Value {
    name: String,
    ty: TensorType,
    /// No element is larger.
    bound: f32,
}

impl Value {
    fn shape(&self) -> &[u32] {
        &self.ty.shape
    }

    fn half(&self) -> bool {
        self.ty.element == ElementType::F16
    }
}

struct Builder {
    random: Random,
    body: String,
    inputs: Vec<Value>,
    values: Vec<Value>,
    parameters: Vec<Value>,
    weights: Parameters,
    next: u32,
    /// What operators work on.
    element: ElementType,
    /// Whether products may have f32 results of f16 operands.
    widen: bool,
}

fn volume(shape: &[u32]) -> u64 {
    shape.iter().map(|&d| u64::from(d)).product()
}

fn swapped(shape: &[u32]) -> Vec<u32> {
    let mut shape = shape.to_vec();
    let n = shape.len();
    shape.swap(n - 1, n - 2);
    shape
}

impl Builder {
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next)
    }

    /// An extent, often an awkward one.
    fn extent(&mut self) -> u32 {
        match self.random.range(0, 9) {
            0 => 1,
            1..=3 => self.random.pick(&[2, 3, 5, 7, 8, 9, 16, 17]),
            4 => self.random.pick(&[24, 32, 48, 64, 72, 80, 92, 96]),
            5 => self.random.pick(&[31, 33, 65, 91, 127]),
            _ => self.random.range(1, 40),
        }
    }

    fn shape(&mut self, rank: u32) -> Vec<u32> {
        loop {
            let shape: Vec<u32> = (0..rank).map(|_| self.extent()).collect();
            if volume(&shape) <= MAX_ELEMENTS / 4 {
                return shape;
            }
        }
    }

    fn input(&mut self, shape: &[u32], element: ElementType) -> Value {
        let value = Value {
            name: format!("%x{}", self.inputs.len()),
            ty: TensorType::new(shape, element),
            bound: 1.0,
        };
        self.inputs.push(value.clone());
        self.values.push(value.clone());
        value
    }

    /// A parameter whose elements are `map` of numbers from -1 to 1; `bound` of them.
    fn parameter(
        &mut self,
        shape: &[u32],
        element: ElementType,
        bound: f32,
        map: impl Fn(f32) -> f32,
    ) -> Value {
        let key = format!("p{}", self.parameters.len());
        let name = self.fresh();
        let ty = TensorType::new(shape, element);
        let _ = writeln!(self.body, "  {name} = nn.parameter \"{key}\" : {ty}");
        let data = array(&mut self.random, shape, map);
        self.weights.insert(key, data);
        let value = Value { name, ty, bound };
        self.parameters.push(value.clone());
        value
    }

    /// A constant of one or of all values, quarters from 1/4 to 2.
    fn constant(&mut self, shape: &[u32], element: ElementType) -> Value {
        let name = self.fresh();
        let ty = TensorType::new(shape, element);
        let count = volume(shape);
        let splat = count > 60 || self.random.chance(40);
        let values: Vec<f32> = (0..if splat { 1 } else { count })
            .map(|_| self.random.range(1, 8) as f32 / 4.0)
            .collect();
        let text = match splat {
            true => format!("{:?}", values[0]),
            false => nested(&values, shape),
        };
        let _ = writeln!(self.body, "  {name} = nn.constant dense<{text}> : {ty}");
        Value {
            name,
            ty,
            bound: 2.0,
        }
    }

    /// An operation; `one` says whether its syntax has one type for operand and result.
    fn emit(&mut self, text: &str, operands: &[&Value], one: bool, ty: TensorType) -> Value {
        let name = self.fresh();
        let types: Vec<String> = operands.iter().map(|v| v.ty.to_string()).collect();
        let signature = match one {
            true => ty.to_string(),
            false => format!("({}) -> {ty}", types.join(", ")),
        };
        let _ = writeln!(self.body, "  {name} = nn.{text} : {signature}");
        Value {
            name,
            bound: operands.iter().fold(0.0, |b, v| v.bound.max(b)),
            ty,
        }
    }

    /// Keeps a value for later, scaled down where it may be large.
    fn keep(&mut self, mut value: Value) -> Value {
        if value.bound > LARGE {
            let factor = (2.0 / value.bound).log2().floor().exp2();
            let name = self.fresh();
            let ty = TensorType::new(Vec::<u32>::new(), value.ty.element);
            let _ = writeln!(
                self.body,
                "  {name} = nn.constant dense<{factor:.24}> : {ty}"
            );
            let factor = Value {
                name,
                ty,
                bound: factor,
            };
            let text = format!("mul {}, {}", value.name, factor.name);
            let bound = value.bound * factor.bound;
            value = self.emit(&text, &[&value, &factor], false, value.ty.clone());
            value.bound = bound;
        }
        self.values.push(value.clone());
        value
    }

    /// A value of earlier, often the last one.
    fn some(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let list: Vec<Value> = self.values.iter().filter(|v| fits(v)).cloned().collect();
        match list.last() {
            Some(last) if self.random.chance(60) => Some(last.clone()),
            Some(_) => Some(self.random.pick(&list)),
            None => None,
        }
    }

    /// A value of the model's element type and of a rank from `low` on.
    fn typed(&mut self, low: usize) -> Value {
        let element = self.element;
        match self.some(|v| v.ty.element == element && v.shape().len() >= low) {
            Some(v) => v,
            None => {
                let rank = self.random.range(low as u32, 3.max(low as u32));
                let shape = self.shape(rank);
                self.input(&shape, self.element)
            }
        }
    }

    /// A value of a shape: an earlier one, an argument, a parameter or a constant, perhaps as a
    /// view of another shape.
    fn of_shape(&mut self, shape: &[u32], element: ElementType) -> Value {
        let same = self.some(|v| v.shape() == shape && v.ty.element == element);
        match (self.random.range(0, 9), same) {
            (0..=4, Some(v)) => v,
            (0..=3, None) => self.input(shape, element),
            (5, _) => self.constant(shape, element),
            (6, _) => {
                let flat = [volume(shape) as u32];
                let p = match self.random.chance(60) {
                    true => self.parameter(&flat, element, 1.0, |v| v),
                    false => self.input(&flat, element),
                };
                let ty = TensorType::new(shape, element);
                let text = format!("reshape {}", p.name);
                self.emit(&text, &[&p], false, ty)
            }
            (7, _) if shape.len() >= 2 => {
                let p = match self.random.chance(60) {
                    true => self.parameter(&swapped(shape), element, 1.0, |v| v),
                    false => self.input(&swapped(shape), element),
                };
                let mut order: Vec<usize> = (0..shape.len()).collect();
                order.swap(shape.len() - 1, shape.len() - 2);
                let ty = TensorType::new(shape, element);
                let text = format!("transpose {} permutation {order:?}", p.name);
                self.emit(&text, &[&p], false, ty)
            }
            (8, _) => self.input(shape, element),
            _ if self.random.chance(50) => self.host_value(shape, element, 1.0),
            _ => self.parameter(shape, element, 1.0, |v| v),
        }
    }

    /// The element type of the result of a product: that of its operands, or f32 in some.
    fn product(&mut self) -> ElementType {
        if self.widen && self.random.chance(50) {
            ElementType::F32
        } else {
            self.element
        }
    }

    fn matmul(&mut self) -> Value {
        let a = self.typed(2);
        let rank = a.shape().len();
        let (ta, tb) = (self.random.chance(20), self.random.chance(35));
        let (m, k) = match ta {
            false => (a.shape()[rank - 2], a.shape()[rank - 1]),
            true => (a.shape()[rank - 1], a.shape()[rank - 2]),
        };
        let batch = a.shape()[..rank - 2].to_vec();
        let n = match volume(&batch) * u64::from(m) {
            rows if rows > 2000 => self.random.range(1, 9),
            _ => self.extent(),
        };
        let mut right = match self.random.chance(50) {
            true => batch.clone(),
            false => Vec::new(),
        };
        right.extend(if tb { [n, k] } else { [k, n] });
        let scale = 1.5 / (k as f32).sqrt();
        let b = match self.random.chance(40) {
            true if self.random.chance(40) => self.host_value(&right, self.element, scale),
            true => self.parameter(&right, self.element, scale, |v| v * scale),
            false => self.of_shape(&right, self.element),
        };
        let mut shape = batch;
        shape.extend([m, n]);
        let flags = [
            if ta { " transpose_a" } else { "" },
            if tb { " transpose_b" } else { "" },
        ];
        let text = format!("matmul {}, {}{}{}", a.name, b.name, flags[0], flags[1]);
        let ty = TensorType::new(shape, self.product());
        let v = self.emit(&text, &[&a, &b], false, ty);
        let bound = a.bound * b.bound * (k as f32).sqrt() * 2.0;
        self.keep(Value { bound, ..v })
    }

    fn linear(&mut self) -> Value {
        let x = self.typed(2);
        let k = x.shape()[x.shape().len() - 1];
        let n = match volume(x.shape()) / u64::from(k) {
            rows if rows > 2000 => self.random.range(1, 9),
            _ => self.extent(),
        };
        let scale = 1.5 / (k as f32).sqrt();
        let w = match self.random.chance(70) {
            true => self.parameter(&[k, n], self.element, scale, |v| v * scale),
            false => self.of_shape(&[k, n], self.element),
        };
        let mut text = format!("linear {}, {}", x.name, w.name);
        let mut operands = vec![x.clone(), w.clone()];
        if self.random.chance(60) {
            let b = self.of_shape(&[n], self.element);
            let _ = write!(text, " bias {}", b.name);
            operands.push(b);
        }
        if self.random.chance(40) {
            text += " activation relu";
        }
        let mut shape = x.shape().to_vec();
        let last = shape.len() - 1;
        shape[last] = n;
        let operands: Vec<&Value> = operands.iter().collect();
        let ty = TensorType::new(shape, self.product());
        let v = self.emit(&text, &operands, false, ty);
        let bound = x.bound * w.bound * (k as f32).sqrt() * 2.0 + 1.0;
        self.keep(Value { bound, ..v })
    }

    /// A shape that broadcasts to another.
    fn narrower(&mut self, shape: &[u32]) -> Vec<u32> {
        let from = self.random.range(0, shape.len() as u32) as usize;
        let kept = shape[from..].to_vec();
        kept.into_iter()
            .map(|d| if self.random.chance(30) { 1 } else { d })
            .collect()
    }

    fn binary(&mut self) -> Value {
        let Some(x) = self.some(|_| true) else {
            return self.typed(0);
        };
        let (shape, element) = (x.shape().to_vec(), x.ty.element);
        let kind = self
            .random
            .pick(&["add", "sub", "mul", "div", "max", "min"]);
        let other = match self.random.chance(50) {
            true => shape.clone(),
            false => self.narrower(&shape),
        };
        let mut y = match self.random.chance(70) {
            true => self.of_shape(&other, element),
            false => {
                // Whatever is there that broadcasts.
                let fits = |v: &Value| {
                    let s = v.shape();
                    let tail = shape.len().checked_sub(s.len());
                    let inside =
                        |t: usize| s.iter().zip(&shape[t..]).all(|(a, b)| *a == 1 || a == b);
                    v.ty.element == element && tail.is_some_and(inside)
                };
                match self.some(fits) {
                    Some(v) => v,
                    None => self.of_shape(&other, element),
                }
            }
        };
        if kind == "div" {
            y = self.positive(y);
        }
        let (a, b) = match kind != "div" && self.random.chance(40) {
            true => (y, x),
            false => (x, y),
        };
        let text = format!("{kind} {}, {}", a.name, b.name);
        let v = self.emit(&text, &[&a, &b], false, TensorType::new(shape, element));
        let bound = match kind {
            "add" | "sub" => a.bound + b.bound,
            "mul" => a.bound * b.bound,
            "div" => a.bound / 0.25,
            _ => a.bound.max(b.bound),
        };
        self.keep(Value { bound, ..v })
    }

    /// A value of the same type that is at least 1/4.
    fn positive(&mut self, x: Value) -> Value {
        let element = x.ty.element;
        if self.random.chance(40) {
            let shape = x.shape().to_vec();
            return self.parameter(&shape, element, 1.25, |v| 0.75 + v / 2.0);
        }
        let square = self.emit(
            &format!("mul {0}, {0}", x.name),
            &[&x, &x],
            false,
            x.ty.clone(),
        );
        let half = self.name_constant(0.5, element);
        let text = format!("add {}, {}", square.name, half.name);
        let v = self.emit(&text, &[&square, &half], false, x.ty.clone());
        let bound = x.bound * x.bound + 0.5;
        Value { bound, ..v }
    }

    fn name_constant(&mut self, value: f32, element: ElementType) -> Value {
        let name = self.fresh();
        let ty = TensorType::new(Vec::<u32>::new(), element);
        let _ = writeln!(
            self.body,
            "  {name} = nn.constant dense<{value:.24}> : {ty}"
        );
        Value {
            name,
            ty,
            bound: value,
        }
    }

    fn unary(&mut self) -> Value {
        let Some(x) = self.some(|_| true) else {
            return self.typed(0);
        };
        let (name, tail) = self.random.pick(&[
            ("relu", ""),
            ("gelu", " approximate none"),
            ("gelu", " approximate tanh"),
            ("sigmoid", ""),
            ("tanh", ""),
            ("exp", ""),
            ("rsqrt", ""),
        ]);
        let x = match name {
            "rsqrt" => self.positive(x),
            "exp" if x.bound > 3.0 => {
                self.emit(&format!("tanh {}", x.name), &[&x], true, x.ty.clone())
            }
            _ => x,
        };
        let text = format!("{name} {}{tail}", x.name);
        let v = self.emit(&text, &[&x], true, x.ty.clone());
        let bound = match name {
            "sigmoid" | "tanh" => 1.0,
            "exp" => x.bound.min(3.0).exp(),
            "rsqrt" => 2.0,
            _ => x.bound,
        };
        self.keep(Value { bound, ..v })
    }

    fn cast(&mut self) -> Value {
        if self.element == ElementType::F32 {
            // Results stay as exact as f32.
            return self.unary();
        }
        let Some(x) = self.some(|_| true) else {
            return self.typed(0);
        };
        let to = match x.half() {
            true => ElementType::F32,
            false => ElementType::F16,
        };
        let ty = TensorType::new(x.shape(), to);
        let v = self.emit(&format!("cast {}", x.name), &[&x], false, ty);
        self.keep(v)
    }

    fn softmax(&mut self) -> Value {
        let x = self.typed(1);
        let axis = match self.random.chance(60) {
            true => x.shape().len() as u32 - 1,
            false => self.random.range(0, x.shape().len() as u32 - 1),
        };
        let text = format!("softmax {} axis {axis}", x.name);
        let v = self.emit(&text, &[&x], true, x.ty.clone());
        self.keep(Value { bound: 1.0, ..v })
    }

    fn norm(&mut self) -> Value {
        let x = self.typed(1);
        let n = x.shape()[x.shape().len() - 1];
        let epsilon = self.random.pick(&["1.0e-1", "1.0e-2", "1.0e-3"]);
        let scale = self.of_shape(&[n], self.element);
        let (text, mut operands) = match self.random.chance(50) {
            true => {
                let bias = self.of_shape(&[n], self.element);
                let text = format!("layer_norm {}, {}, {}", x.name, scale.name, bias.name);
                (text, vec![scale.clone(), bias])
            }
            false => (
                format!("rms_norm {}, {}", x.name, scale.name),
                vec![scale.clone()],
            ),
        };
        operands.insert(0, x.clone());
        let operands: Vec<&Value> = operands.iter().collect();
        let text = format!("{text} epsilon {epsilon}");
        let v = self.emit(&text, &operands, false, x.ty.clone());
        let bound = 3.0 * scale.bound + 1.0;
        self.keep(Value { bound, ..v })
    }

    fn reduce(&mut self) -> Value {
        let x = self.typed(1);
        let rank = x.shape().len() as u32;
        let mut axes: Vec<u32> = (0..rank).filter(|_| self.random.chance(45)).collect();
        if axes.is_empty() {
            axes.push(self.random.range(0, rank - 1));
        }
        let keep = self.random.chance(50);
        let shape: Vec<u32> = (0..rank)
            .filter(|a| keep || !axes.contains(a))
            .map(|a| {
                if axes.contains(&a) {
                    1
                } else {
                    x.shape()[a as usize]
                }
            })
            .collect();
        let n: u32 = axes.iter().map(|&a| x.shape()[a as usize]).product();
        // Sums stay within f16.
        let kinds = ["mean", "max", "sum"];
        let few = x.bound * (n as f32) < 20_000.0;
        let kind = self.random.pick(&kinds[..if few { 3 } else { 2 }]);
        let text = format!(
            "reduce {kind} {} over {axes:?}{}",
            x.name,
            if keep { " keep_dims" } else { "" }
        );
        let v = self.emit(&text, &[&x], false, TensorType::new(shape, self.element));
        let bound = if kind == "sum" {
            x.bound * n as f32
        } else {
            x.bound
        };
        self.keep(Value { bound, ..v })
    }

    fn attention(&mut self) -> Value {
        let heads = self.random.pick(&[1, 1, 2, 3, 4]);
        let causal = self.random.chance(40);
        let lead = match self.random.range(0, 2) {
            0 => Vec::new(),
            1 => vec![self.random.pick(&[1, 2, 3])],
            _ => vec![self.random.pick(&[1, 2]), self.random.pick(&[1, 2])],
        };
        let depth = self.random.pick(&[1, 3, 4, 8, 16, 17, 24, 72]);
        let width = match self.random.chance(60) {
            true => depth,
            false => self.random.pick(&[1, 5, 8, 16, 20]),
        };
        let keys = self.random.pick(&[1, 2, 7, 9, 16, 17, 31, 50]);
        let queries = match self.random.range(0, 3) {
            0 | 1 => keys,
            2 if !causal => self.random.pick(&[1, 2, 7, 16, 33]),
            _ => self.random.range(1, keys),
        };
        let shape = |rows: u32, columns: u32| [lead.as_slice(), &[rows, heads * columns]].concat();
        let (q, k, v) = (
            shape(queries, depth),
            shape(keys, depth),
            shape(keys, width),
        );
        let q = self.of_shape(&q, self.element);
        let k = match self.random.chance(15) && q.shape() == k {
            true => q.clone(),
            false => self.of_shape(&k, self.element),
        };
        let v = self.of_shape(&v, self.element);
        let scale = 1.0 / (depth as f32).sqrt() / (q.bound * k.bound).max(1.0).sqrt();
        let text = format!(
            "attention {}, {}, {} heads {heads} scale {scale:?}{}",
            q.name,
            k.name,
            v.name,
            if causal { " causal" } else { "" }
        );
        let ty = TensorType::new(shape(queries, width), self.element);
        let bound = v.bound;
        let v = self.emit(&text, &[&q, &k, &v], false, ty);
        self.keep(Value { bound, ..v })
    }

    /// A view of a value, or of a view.
    fn view(&mut self) -> Value {
        let Some(x) = self.some(|_| true) else {
            return self.typed(0);
        };
        let (shape, element) = (x.shape().to_vec(), x.ty.element);
        let rank = shape.len();
        let (text, result) = match self.random.range(0, 5) {
            0 => (format!("reshape {}", x.name), self.refactored(&shape)),
            1 if rank >= 2 => {
                let mut order: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    order.swap(i, self.random.range(0, i as u32) as usize);
                }
                let result = order.iter().map(|&p| shape[p]).collect();
                (
                    format!("transpose {} permutation {order:?}", x.name),
                    result,
                )
            }
            2 if rank >= 1 => {
                let (mut offsets, mut strides, mut result) = (vec![], vec![], vec![]);
                for &d in &shape {
                    let (first, step, count) = match self.random.chance(40) {
                        true => (0, 1, d),
                        false => {
                            let first = self.random.range(0, d - 1);
                            let step = self.random.pick(&[1, 1, 2, 3]);
                            let most = (d - first).div_ceil(step);
                            (first, step, self.random.range(1.max(most / 2), most))
                        }
                    };
                    offsets.push(first);
                    strides.push(step);
                    result.push(count);
                }
                let strides = match strides.iter().all(|&s| s == 1) && self.random.chance(50) {
                    true => String::new(),
                    false => format!(" strides {strides:?}"),
                };
                (
                    format!("slice {} offsets {offsets:?}{strides}", x.name),
                    result,
                )
            }
            3 if volume(&shape) <= MAX_ELEMENTS / 8 => {
                let grown = self.random.range(2, 5);
                let mut result: Vec<u32> = shape
                    .iter()
                    .map(|&d| {
                        if d == 1 && self.random.chance(60) {
                            grown
                        } else {
                            d
                        }
                    })
                    .collect();
                if rank < 4 && self.random.chance(50) {
                    result.insert(0, self.random.range(1, 3));
                }
                match volume(&result) <= MAX_ELEMENTS {
                    true => (format!("broadcast {}", x.name), result),
                    false => (format!("broadcast {}", x.name), shape),
                }
            }
            4 if rank >= 2 && element == self.element => {
                let columns = shape[rank - 1];
                let divisors: Vec<u32> = (1..=4).filter(|h| columns.is_multiple_of(*h)).collect();
                let heads = self.random.pick(&divisors);
                let batch = shape[..rank - 2].iter().product::<u32>() * heads;
                let result = vec![batch, shape[rank - 2], columns / heads];
                (format!("split_heads {} heads {heads}", x.name), result)
            }
            5 if rank == 3 && element == self.element => {
                let divisors: Vec<u32> = (1..=4).filter(|h| shape[0].is_multiple_of(*h)).collect();
                let heads = self.random.pick(&divisors);
                let result = vec![shape[0] / heads, shape[1], shape[2] * heads];
                (format!("merge_heads {} heads {heads}", x.name), result)
            }
            _ => (format!("reshape {}", x.name), self.refactored(&shape)),
        };
        let v = self.emit(&text, &[&x], false, TensorType::new(result, element));
        self.values.push(v.clone());
        v
    }

    /// Another shape of as many elements.
    fn refactored(&mut self, shape: &[u32]) -> Vec<u32> {
        let mut rest = volume(shape) as u32;
        let mut out = Vec::new();
        for _ in 0..self.random.range(0, 3) {
            let divisors: Vec<u32> = (1..=rest.min(40))
                .filter(|d| rest.is_multiple_of(*d))
                .collect();
            let d = self.random.pick(&divisors);
            out.push(d);
            rest /= d;
        }
        if rest > 1 || self.random.chance(20) || out.is_empty() && !self.random.chance(20) {
            let at = self.random.range(0, out.len() as u32) as usize;
            out.insert(at, rest);
        }
        out
    }

    fn concat(&mut self) -> Value {
        let Some(x) = self.some(|v| !v.shape().is_empty()) else {
            return self.typed(1);
        };
        let (shape, element) = (x.shape().to_vec(), x.ty.element);
        let axis = self.random.range(0, shape.len() as u32 - 1) as usize;
        let mut parts = vec![x];
        let mut result = shape.clone();
        for _ in 0..self.random.range(1, 3) {
            let mut own = shape.clone();
            own[axis] = self.extent();
            if volume(&own) + volume(&result) > MAX_ELEMENTS {
                continue;
            }
            result[axis] += own[axis];
            let part = self.of_shape(&own, element);
            let at = self.random.range(0, parts.len() as u32) as usize;
            parts.insert(at, part);
        }
        let names: Vec<&str> = parts.iter().map(|v| v.name.as_str()).collect();
        let text = format!("concat {} axis {axis}", names.join(", "));
        let operands: Vec<&Value> = parts.iter().collect();
        let v = self.emit(&text, &operands, false, TensorType::new(result, element));
        self.keep(v)
    }

    /// A convolution of patches that do not overlap.
    fn patches(&mut self) -> Value {
        let [n, oh, ow] = [3, 5, 5].map(|most| self.random.range(1, most));
        let [kh, kw] = [4, 4].map(|most| self.random.range(1, most));
        let (c, f) = (self.random.pick(&[1, 3, 4, 8]), self.extent());
        let x = self.of_shape(&[n, oh * kh, ow * kw, c], self.element);
        let scale = 1.5 / ((kh * kw * c) as f32).sqrt();
        let w = self.parameter(&[kh, kw, c, f], self.element, scale, |v| v * scale);
        let mut text = format!("conv2d {}, {}", x.name, w.name);
        let mut operands = vec![x.clone(), w];
        if self.random.chance(50) {
            let b = self.of_shape(&[f], self.element);
            let _ = write!(text, " bias {}", b.name);
            operands.push(b);
        }
        let text =
            format!("{text} strides [{kh}, {kw}] padding [0, 0, 0, 0] dilations [1, 1] groups 1");
        let operands: Vec<&Value> = operands.iter().collect();
        let ty = TensorType::new([n, oh, ow, f], self.product());
        let v = self.emit(&text, &operands, false, ty);
        let bound = 3.0 * x.bound + 1.0;
        self.keep(Value { bound, ..v })
    }

    /// `down(act(x gate) * (x up)) + x`, the norm before it.
    fn gated(&mut self) -> Value {
        let x = self.typed(2);
        let n = x.shape()[x.shape().len() - 1];
        let scale = self.parameter(&[n], self.element, 1.0, |v| v);
        let text = format!("rms_norm {}, {} epsilon 1.0e-2", x.name, scale.name);
        let h = self.emit(&text, &[&x, &scale], false, x.ty.clone());
        let wide = self.random.pick(&[7, 16, 24, 40]);
        let mut shape = x.shape().to_vec();
        let last = shape.len() - 1;
        shape[last] = wide;
        let ty = TensorType::new(shape, self.element);
        let factor = 1.0 / (n as f32).sqrt();
        let [gate, up] = [(); 2].map(|()| {
            let w = self.parameter(&[n, wide], self.element, factor, |v| v * factor);
            self.emit(
                &format!("matmul {}, {}", h.name, w.name),
                &[&h, &w],
                false,
                ty.clone(),
            )
        });
        let sigmoid = self.emit(
            &format!("sigmoid {}", gate.name),
            &[&gate],
            true,
            ty.clone(),
        );
        let text = format!("mul {}, {}", gate.name, sigmoid.name);
        let silu = self.emit(&text, &[&gate, &sigmoid], false, ty.clone());
        let text = format!("mul {}, {}", silu.name, up.name);
        let both = self.emit(&text, &[&silu, &up], false, ty);
        let factor = 1.0 / (wide as f32).sqrt();
        let w = self.parameter(&[wide, n], self.element, factor, |v| v * factor);
        let text = format!("matmul {}, {}", both.name, w.name);
        let down = self.emit(&text, &[&both, &w], false, x.ty.clone());
        let text = format!("add {}, {}", x.name, down.name);
        let v = self.emit(&text, &[&x, &down], false, x.ty.clone());
        let bound = x.bound + 4.0;
        self.keep(Value { bound, ..v })
    }

    /// Attention written out: scores, mask, softmax, product; heads of the last axis.
    fn masked(&mut self) -> Value {
        let (heads, depth) = (
            self.random.pick(&[1, 2, 3]),
            self.random.pick(&[4, 8, 9, 18]),
        );
        let (images, tokens) = (self.random.pick(&[1, 2]), self.random.pick(&[1, 5, 9, 17]));
        let shape = [images, tokens, 3 * heads * depth];
        let qkv = self.of_shape(&shape, self.element);
        let own = TensorType::new([images, tokens, heads * depth], self.element);
        let split = TensorType::new([images * heads, tokens, depth], self.element);
        let [q, k, v] = [0, 1, 2].map(|i| {
            let offset = i * heads * depth;
            let text = format!("slice {} offsets [0, 0, {offset}]", qkv.name);
            let part = self.emit(&text, &[&qkv], false, own.clone());
            let text = format!("split_heads {} heads {heads}", part.name);
            self.emit(&text, &[&part], false, split.clone())
        });
        let scores = TensorType::new([images * heads, tokens, tokens], self.element);
        let text = format!("matmul {}, {} transpose_b", q.name, k.name);
        let raw = self.emit(&text, &[&q, &k], false, scores.clone());
        let factor = self.name_constant(1.0 / depth as f32, self.element);
        let text = format!("mul {}, {}", raw.name, factor.name);
        let scaled = self.emit(&text, &[&raw, &factor], false, scores.clone());
        let shut = |v: f32| if v < -0.4 { -1.0e4 } else { 0.0 };
        let mask = match self.random.range(0, 2) {
            0 => self.parameter(&[tokens, tokens], self.element, 1.0, shut),
            1 => self.of_shape(&[tokens, tokens], self.element),
            _ => self.of_shape(&[images * heads, 1, tokens], self.element),
        };
        let text = format!("add {}, {}", scaled.name, mask.name);
        let seen = self.emit(&text, &[&scaled, &mask], false, scores.clone());
        let text = format!("softmax {} axis 2", seen.name);
        let p = self.emit(&text, &[&seen], true, scores);
        let text = format!("matmul {}, {}", p.name, v.name);
        let o = self.emit(&text, &[&p, &v], false, split);
        let text = format!("merge_heads {} heads {heads}", o.name);
        let merged = self.emit(&text, &[&o], false, own);
        let bound = qkv.bound;
        self.keep(Value { bound, ..merged })
    }

    fn step(&mut self) -> Value {
        match self.random.range(0, 99) {
            0..=11 => self.matmul(),
            12..=19 => self.linear(),
            20..=31 => self.binary(),
            32..=38 => self.unary(),
            39..=42 => self.cast(),
            43..=48 => self.softmax(),
            49..=55 => self.norm(),
            56..=63 => self.reduce(),
            64..=70 => self.attention(),
            71..=84 => self.view(),
            85..=89 => self.concat(),
            90..=92 => self.patches(),
            93..=95 => self.gated(),
            _ => self.masked(),
        }
    }
}

/// The model of a seed for a machine of so many tiles.
pub fn model(seed: u64, tiles: u32) -> Model {
    model_of(seed, tiles, ElementType::F16, false)
}

/// The same in f32 throughout.
pub fn single(seed: u64, tiles: u32) -> Model {
    model_of(seed, tiles, ElementType::F32, false)
}

/// The same with products of f16 operands to f32 results.
pub fn widening(seed: u64, tiles: u32) -> Model {
    model_of(seed, tiles, ElementType::F16, true)
}

fn model_of(seed: u64, tiles: u32, element: ElementType, widen: bool) -> Model {
    let mut random = Random::new(seed ^ 0x5eed_0000_0000);
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
        values: Vec::new(),
        parameters: Vec::new(),
        weights: Parameters::new(),
        next: 0,
        element,
        widen,
    };
    if b.random.chance(60) {
        let rank = b.random.range(1, 4);
        let shape = b.shape(rank);
        let element = b.random.pick(&[element, element, ElementType::F32]);
        b.input(&shape, element);
    }
    let mut last = b.step();
    for _ in 0..b.random.range(0, 6) {
        last = b.step();
    }
    let mut results = vec![last];
    for _ in 0..b.random.range(0, 2) {
        let pool = [b.values.as_slice(), &b.parameters].concat();
        results.push(b.random.pick(&pool));
    }
    let list = |values: &[Value], named: bool| {
        let one = |v: &Value| match named {
            true => format!("{}: {}", v.name, v.ty),
            false => v.ty.to_string(),
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
    let shapes: Vec<Vec<u32>> = b.inputs.iter().map(|v| v.shape().to_vec()).collect();
    let inputs = [(); 2].map(|()| {
        let random = &mut b.random;
        let one = |shape: &Vec<u32>| array(random, shape, |v| v);
        shapes.iter().map(one).collect()
    });
    Model {
        text,
        options,
        single: element == ElementType::F32,
        weights: b.weights,
        inputs,
    }
}
