//! Host functions of a package: what the host computes at `initialize`, and from the inputs of a run.
//!
//! The package has its own form of them: a list of operators each of which reads only results
//! before it, so that there are no cycles, and without bodies inside bodies, so that decoding needs
//! no stack.

use super::{Metadata, PackageError};
use ipu_program::graph::{Graph, OpKind, ValueId};
use ipu_program::tile::TileProgram;
use ipu_program::types::TensorType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A function of parameters and constants and, if it has any, the inputs of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFunction {
    /// Symbol, for reports.
    pub name: String,
    /// Types of its arguments: none, or all inputs of the model.
    pub inputs: Vec<TensorType>,
    /// Operators, of one result each.
    pub ops: Vec<HostOp>,
    /// The values that are the results of the function: arguments are numbered first, then the
    /// results of the operators.
    pub results: Vec<u32>,
}

/// An operator of a host function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostOp {
    /// What it computes; a `Repeat` cannot be stored.
    pub kind: OpKind,
    /// Numbers of the values before it that it reads, see [`HostFunction::results`].
    pub operands: Vec<u32>,
    /// Type of its result in the model.
    pub ty: TensorType,
    /// Source location.
    pub location: String,
}

impl HostFunction {
    /// The host functions of a program.
    ///
    /// # Errors
    /// A function reads something that no operator before it computes.
    pub fn of_program(program: &TileProgram) -> Result<Vec<HostFunction>, PackageError> {
        program.host.iter().map(HostFunction::new).collect()
    }

    fn new(graph: &Graph) -> Result<HostFunction, PackageError> {
        let mut numbers: BTreeMap<ValueId, u32> = BTreeMap::new();
        let numbered = |numbers: &BTreeMap<ValueId, u32>, ids: &[ValueId]| {
            let found = ids.iter().map(|id| numbers.get(id).copied());
            found
                .collect::<Option<Vec<u32>>>()
                .ok_or_else(|| PackageError::HostFunction {
                    function: graph.name.clone(),
                })
        };
        let mut ops = Vec::new();
        numbers.extend(graph.inputs.iter().copied().zip(0..));
        let inputs: Vec<_> = graph.inputs.iter().map(|&v| graph.ty(v).clone()).collect();
        for (op, number) in graph.ops.iter().zip(inputs.len() as u32..) {
            ops.push(HostOp {
                kind: op.kind.clone(),
                operands: numbered(&numbers, &op.operands)?,
                ty: graph.ty(op.result).clone(),
                location: op.location.clone(),
            });
            numbers.insert(op.result, number);
        }
        Ok(HostFunction {
            name: graph.name.clone(),
            results: numbered(&numbers, &graph.outputs)?,
            inputs,
            ops,
        })
    }

    /// The type of a result, `None` if there is no such result.
    pub fn ty(&self, result: u32) -> Option<&TensorType> {
        self.value(*self.results.get(result as usize)?)
    }

    /// The type of a value, `None` if there is none of this number.
    pub fn value(&self, number: u32) -> Option<&TensorType> {
        let number = number as usize;
        match number.checked_sub(self.inputs.len()) {
            None => self.inputs.get(number),
            Some(op) => Some(&self.ops.get(op)?.ty),
        }
    }

    /// The function as a graph, with the same numbers of values.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph {
            name: self.name.clone(),
            ..Graph::default()
        };
        for ty in &self.inputs {
            let input = graph.add_value(ty.clone());
            graph.inputs.push(input);
        }
        for op in &self.ops {
            let operands = op.operands.iter().copied().map(ValueId).collect();
            graph.add_op(
                op.kind.clone(),
                operands,
                op.ty.clone(),
                op.location.clone(),
            );
        }
        graph.outputs = self.results.iter().copied().map(ValueId).collect();
        graph
    }
}

impl Metadata {
    /// The host functions as graphs, for whoever executes them.
    pub fn host_graphs(&self) -> Vec<Graph> {
        self.host.iter().map(HostFunction::graph).collect()
    }
}
