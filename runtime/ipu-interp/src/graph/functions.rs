//! Host functions: graphs without arguments, which the host executes before the first run.

use super::{GraphError, block, convert, outputs};
use crate::host::{HostArray, Parameters};
use ipu_program::graph::Graph;

/// The results of the host functions of a program. Each function is executed when the first of its
/// results is asked for; its results are let go with the last.
pub struct HostResults<'a> {
    functions: &'a [Graph],
    parameters: &'a Parameters,
    /// How often results of each function will still be asked for.
    uses: Vec<usize>,
    known: Vec<Option<Vec<HostArray>>>,
}

impl<'a> HostResults<'a> {
    /// Of functions, whose results will be asked for as often as `uses` names their numbers.
    pub fn new(
        functions: &'a [Graph],
        parameters: &'a Parameters,
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
                let values = block(graph, Vec::new(), self.parameters, &[])?;
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
