//! Host functions: graphs without arguments, which the host executes before the first run, and
//! graphs of the arguments of the model, which it executes at each run.

use super::{GraphError, block, convert, evaluate, outputs};
use crate::host::{HostArray, Parameters};
use ipu_program::graph::{Graph, OpKind};

/// The results of the host functions of a program. Each function is executed when the first of its
/// results is asked for; its results are let go with the last.
pub struct HostResults<'a> {
    functions: &'a [Graph],
    parameters: &'a Parameters,
    inputs: &'a [HostArray],
    /// How often results of each function will still be asked for.
    uses: Vec<usize>,
    known: Vec<Option<Vec<HostArray>>>,
}

impl<'a> HostResults<'a> {
    /// Of functions, whose results will be asked for as often as `uses` names their numbers. Those
    /// with arguments take `inputs`.
    pub fn new(
        functions: &'a [Graph],
        parameters: &'a Parameters,
        inputs: &'a [HostArray],
        uses: impl IntoIterator<Item = u32>,
    ) -> Self {
        let mut count = vec![0; functions.len()];
        for function in uses {
            if let Some(count) = count.get_mut(function as usize) {
                *count += 1;
            }
        }
        HostResults {
            functions,
            parameters,
            inputs,
            uses: count,
            known: vec![None; functions.len()],
        }
    }

    /// A result in the element type that the model gives it; `None` if there is no such function or
    /// result. Inside a function everything is as in [`super::run`]: what is computed is f32.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn get(&mut self, function: u32, result: u32) -> Result<Option<HostArray>, GraphError> {
        let (f, r) = (function as usize, result as usize);
        let Some(graph) = self.functions.get(f) else {
            return Ok(None);
        };
        let Some(&id) = graph.outputs.get(r) else {
            return Ok(None);
        };
        self.uses[f] = self.uses[f].saturating_sub(1);
        let results = match self.known[f].take() {
            Some(results) => results,
            None => {
                let values = match graph.inputs.is_empty() {
                    true => block(graph, Vec::new(), self.parameters, &[])?,
                    false => evaluate(graph, self.inputs, self.parameters)?,
                };
                outputs(graph, &values, &graph.name)?
            }
        };
        let subject = || format!("result {r} of host function '{}'", graph.name);
        let array = results
            .get(r)
            .map(|array| convert(array, graph.ty(id).element, subject))
            .transpose()?;
        if self.uses[f] > 0 {
            self.known[f] = Some(results);
        }
        Ok(array)
    }
}

/// The parameters that the functions with arguments read, in the element types of the model: what
/// must be kept for the runs.
///
/// # Errors
/// A parameter is missing, or has values that its type does not hold.
pub fn step_parameters(
    functions: &[Graph],
    parameters: &Parameters,
) -> Result<Parameters, GraphError> {
    let mut out = Parameters::new();
    let steps = functions.iter().filter(|f| !f.inputs.is_empty());
    for (f, op) in steps.flat_map(|f| f.ops.iter().map(move |op| (f, op))) {
        let OpKind::Parameter { name } = &op.kind else {
            continue;
        };
        let ty = f.ty(op.result);
        let Some(array) = parameters.get(name) else {
            return Err(GraphError::MissingParameter {
                name: name.clone(),
                ty: ty.clone(),
                location: op.location.clone(),
            });
        };
        let array = convert(array, ty.element, || format!("parameter '{name}'"))?;
        out.insert(name.clone(), array);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_program::graph::BinaryKind;
    use ipu_program::types::{ElementType, TensorType};

    /// Results: a + b and a, of f16.
    fn function() -> Graph {
        let ty = TensorType::new([2], ElementType::F16);
        let mut graph = Graph {
            name: "host0".into(),
            ..Graph::default()
        };
        let mut add = |kind, operands| graph.add_op(kind, operands, ty.clone(), "m:1:2".into());
        let a = add(OpKind::Parameter { name: "a".into() }, vec![]);
        let b = add(OpKind::Parameter { name: "b".into() }, vec![]);
        let sum = add(OpKind::Binary(BinaryKind::Add), vec![a, b]);
        graph.outputs = vec![sum, a];
        graph
    }

    #[test]
    fn results_have_the_type_of_the_model() {
        let functions = [function()];
        let array = |v: &[f32]| HostArray::new(TensorType::new([2], ElementType::F32), v.to_vec());
        let mut parameters = Parameters::new();
        parameters.insert("a".into(), array(&[2048.0, 1.0]).unwrap());
        let missing = HostResults::new(&functions, &parameters, &[], [0]).get(0, 0);
        assert_eq!(
            missing.unwrap_err().to_string(),
            "m:1:2: parameter 'b' is missing; expected tensor<2xf16> in the weights"
        );
        parameters.insert("b".into(), array(&[1.0, 0.5]).unwrap());
        let mut results = HostResults::new(&functions, &parameters, &[], [0, 0]);
        // 2049 is no f16.
        let sum = results.get(0, 0).unwrap().unwrap();
        assert_eq!(sum.values(), [2048.0, 1.5]);
        assert_eq!(sum.ty().element, ElementType::F16);
        assert!(results.known[0].is_some());
        let a = results.get(0, 1).unwrap().unwrap();
        assert_eq!(a.values(), [2048.0, 1.0]);
        assert!(results.known[0].is_none(), "let go with the last use");
        assert_eq!(results.get(0, 2), Ok(None));
        assert_eq!(results.get(1, 0), Ok(None));
    }
}
