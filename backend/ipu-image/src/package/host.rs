//! Host functions of a package: what the host computes at `initialize`.
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

/// A function of parameters and constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFunction {
    /// Symbol, for reports.
    pub name: String,
    /// Operators, of one result each.
    pub ops: Vec<HostOp>,
    /// The operators whose results are those of the function.
    pub results: Vec<u32>,
}

/// An operator of a host function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostOp {
    /// What it computes; a `Repeat` cannot be stored.
    pub kind: OpKind,
    /// Numbers of the operators before it whose results it reads.
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
        for (op, number) in graph.ops.iter().zip(0..) {
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
            ops,
        })
    }

    /// The type of a result, `None` if there is no such result.
    pub fn ty(&self, result: u32) -> Option<&TensorType> {
        let op = *self.results.get(result as usize)?;
        Some(&self.ops.get(op as usize)?.ty)
    }

    /// The function as a graph. Its operators are numbered like its values.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph {
            name: self.name.clone(),
            ..Graph::default()
        };
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
