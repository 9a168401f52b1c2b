//! Values that the host computes before the first run.

use super::{Builder, Value, swapped, volume};
use ipu_program::types::{ElementType, TensorType};

impl Builder {
    /// What the host computes before the first run: of parameters and constants, by every kind of
    /// operator, in this shape.
    pub fn host_value(&mut self, shape: &[u32], element: ElementType, scale: f32) -> Value {
        let ty = TensorType::new(shape, element);
        let other = match element {
            ElementType::F16 => ElementType::F32,
            _ => ElementType::F16,
        };
        let rank = shape.len();
        let map = move |v: f32| v * scale;
        match self.random.range(0, 7) {
            0 if rank >= 2 => {
                let p = self.parameter(&swapped(shape), element, scale, map);
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(rank - 1, rank - 2);
                let text = format!("transpose {} permutation {order:?}", p.name);
                self.emit(&text, &[&p], false, ty)
            }
            1 if rank >= 1 => {
                let more: Vec<u32> = shape.iter().map(|n| n + 3).collect();
                let p = self.parameter(&more, element, scale, map);
                let offsets: Vec<u32> = shape.iter().map(|_| self.random.range(0, 3)).collect();
                let text = format!("slice {} offsets {offsets:?}", p.name);
                self.emit(&text, &[&p], false, ty)
            }
            2 if shape.iter().any(|&n| n > 1) => {
                let axis = shape.iter().position(|&n| n > 1).unwrap_or_default();
                let (mut first, mut second) = (shape.to_vec(), shape.to_vec());
                first[axis] = self.random.range(1, shape[axis] - 1);
                second[axis] -= first[axis];
                let a = self.parameter(&first, element, scale, map);
                let b = self.parameter(&second, element, scale, map);
                let text = format!("concat {}, {} axis {axis}", a.name, b.name);
                self.emit(&text, &[&a, &b], false, ty)
            }
            3 => {
                let p = self.parameter(shape, other, scale, map);
                self.emit(&format!("cast {}", p.name), &[&p], false, ty)
            }
            4 => {
                let p = self.parameter(shape, element, scale, map);
                let c = self.constant(&[], element);
                let text = format!("mul {}, {}", p.name, c.name);
                let v = self.emit(&text, &[&p, &c], false, ty);
                Value {
                    bound: p.bound * c.bound,
                    ..v
                }
            }
            5 => {
                let flat = [volume(shape) as u32];
                let p = self.parameter(&flat, element, scale, map);
                self.emit(&format!("reshape {}", p.name), &[&p], false, ty)
            }
            6 if rank == 2 => {
                let a = self.parameter(&[shape[0], 5], element, scale, map);
                let b = self.parameter(&[5, shape[1]], element, 0.4, |v| v * 0.4);
                let text = format!("matmul {}, {}", a.name, b.name);
                let v = self.emit(&text, &[&a, &b], false, ty);
                Value {
                    bound: 2.0 * a.bound,
                    ..v
                }
            }
            _ => {
                let a = self.parameter(shape, element, scale, map);
                let b = self.parameter(shape, element, scale, map);
                let text = format!("add {}, {}", a.name, b.name);
                let v = self.emit(&text, &[&a, &b], false, ty);
                Value {
                    bound: a.bound + b.bound,
                    ..v
                }
            }
        }
    }
}
