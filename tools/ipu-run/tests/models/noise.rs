//! How much rounding to f16 changes the results of a model: the model in f32 with noise on every
//! value. A result is as good as its arithmetic allows where it errs by a few times as much.

use crate::generate::Random;
use ipu_interp::graph;
use ipu_program::graph::{BinaryKind, Graph, OpKind, ValueId};
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::{HostArray, Parameters};

/// Relative noise: the rounding of f16 and the kernels' approximations of functions.
const RELATIVE: f32 = 1.0 / 1024.0;

/// The graph in f32 with noise on its arguments, parameters and results of operators.
fn noisy(source: &Graph, random: &mut Random) -> Graph {
    let mut out = Graph {
        name: source.name.clone(),
        ..Graph::default()
    };
    let mut map = vec![None; source.values.len()];
    let wide = |v: ValueId| TensorType::new(source.ty(v).shape.clone(), ElementType::F32);
    let mut shake = |out: &mut Graph, v: ValueId| {
        let ty = TensorType::new(out.ty(v).shape.clone(), ElementType::F32);
        let x = out.add_op(OpKind::Cast, vec![v], ty.clone(), String::new());
        let values = (0..ty.elements())
            .map(|_| 1.0 + random.unit() * RELATIVE)
            .collect();
        let kind = OpKind::Constant { values };
        let factors = out.add_op(kind, vec![], ty.clone(), String::new());
        let kind = OpKind::Binary(BinaryKind::Mul);
        out.add_op(kind, vec![x, factors], ty, String::new())
    };
    for &input in &source.inputs {
        let v = out.add_value(source.ty(input).clone());
        out.inputs.push(v);
    }
    for (i, &input) in source.inputs.iter().enumerate() {
        let v = out.inputs[i];
        map[input.0 as usize] = Some(shake(&mut out, v));
    }
    for op in &source.ops {
        let operands = op.operands.iter().filter_map(|v| map[v.0 as usize]);
        let operands: Vec<ValueId> = operands.collect();
        let ty = match op.kind {
            OpKind::Parameter { .. } | OpKind::Constant { .. } => source.ty(op.result).clone(),
            _ => wide(op.result),
        };
        let v = out.add_op(op.kind.clone(), operands, ty, op.location.clone());
        map[op.result.0 as usize] = Some(shake(&mut out, v));
    }
    out.outputs = source
        .outputs
        .iter()
        .filter_map(|v| map[v.0 as usize])
        .collect();
    out
}

/// The L2 norms of what noise changes in each result, the larger of two.
pub fn norms(
    model: &Graph,
    inputs: &[HostArray],
    weights: &Parameters,
    exact: &[HostArray],
) -> Result<Vec<f64>, String> {
    let mut worst = vec![0f64; exact.len()];
    for seed in 0..2 {
        let graph = noisy(model, &mut Random::new(seed));
        let found = graph::run(&graph, inputs, weights).map_err(|e| format!("noise: {e}"))?;
        for (i, (e, f)) in exact.iter().zip(&found).enumerate() {
            let pairs = e.values().iter().zip(f.values());
            let sum: f64 = pairs.map(|(&e, &f)| f64::from(e - f).powi(2)).sum();
            worst[i] = worst[i].max(sum.sqrt());
        }
    }
    Ok(worst)
}
