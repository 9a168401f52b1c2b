//! Values of the model against those of the tile program.

use super::{Levels, LevelsError, operation_at};
use crate::compare::{Comparison, Limits, compare};
use ipu_interp::host::HostArray;
use ipu_interp::tile::{Interpreter, TileError};
use ipu_program::graph::{Graph, ValueId};
use ipu_program::kernels::{Access, Kernels};
use ipu_program::tile::{BufferId, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Where the tile program has a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Number of the step after which it is complete, from 1.
    pub step: usize,
    /// Name of that step.
    pub name: String,
    /// Buffer.
    pub buffer: String,
    /// Elements that depend on memory that no step wrote.
    pub undefined: usize,
}

/// One value of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Operator {
    /// What computes it, `nn.add` for example, or which argument it is.
    pub operation: String,
    /// Location of the operation in the model.
    pub location: String,
    /// Where the tile program has it; `None` for an operator that was selected.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// The figures.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl Operator {
    /// Whether all elements are within the limits and none depends on memory that nobody wrote.
    pub fn passed(&self) -> bool {
        self.comparison.passed() && self.place.as_ref().is_none_or(|p| p.undefined == 0)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if !self.location.is_empty() {
            write!(f, " at {}", self.location)?;
        }
        if let Some(p) = &self.place {
            let Place {
                step, name, buffer, ..
            } = p;
            write!(f, ", buffer '{buffer}' after step {step} '{name}'")?;
        }
        write!(f, ": {}", self.comparison)?;
        match &self.place {
            Some(p) if p.undefined > 0 => write!(
                f,
                "; {} elements depend on memory that no step wrote",
                p.undefined
            ),
            _ => Ok(()),
        }
    }
}

pub(super) type LimitsOf<'a> = Rc<dyn Fn(ElementType) -> Limits + 'a>;

/// The comparisons so far and those to come.
pub(super) struct Operators<'a> {
    levels: Levels<'a>,
    limits: LimitsOf<'a>,
    /// Values of the selected graph.
    values: Vec<Option<HostArray>>,
    /// What is complete after which step.
    due: BTreeMap<usize, Vec<(BufferId, ValueId)>>,
    pub selection: Vec<Operator>,
    pub found: Vec<Operator>,
    pub partial: usize,
}

impl<'a> Operators<'a> {
    pub fn new(
        levels: Levels<'a>,
        model: &[Option<HostArray>],
        values: Vec<Option<HostArray>>,
        limits: LimitsOf<'a>,
    ) -> Self {
        let last = last_writes(levels.tiles, levels.kernels);
        let mut due: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for &(buffer, value) in levels.values {
            // What no step writes comes from the host.
            if let Some(&step) = last.get(&buffer) {
                due.entry(step).or_default().push((buffer, value));
            }
        }
        let selection = selection(levels, model, &values, &limits);
        Operators {
            levels,
            limits,
            values,
            due,
            selection,
            found: Vec::new(),
            partial: 0,
        }
    }

    /// Compares what is complete after a step.
    pub fn after(&mut self, step: usize, runs: &[Interpreter<'_>; 2]) -> Result<(), LevelsError> {
        for (id, value) in self.due.remove(&step).unwrap_or_default() {
            let expected = self.values.get(value.0 as usize).and_then(Option::as_ref);
            let (tensor, other) = match (runs[0].tensor(id), runs[1].tensor(id)) {
                (Ok(tensor), Ok(other)) => (tensor, other),
                // The layout holds a part of it.
                (Err(TileError::Host { .. }), _) => {
                    self.partial += 1;
                    continue;
                }
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            let Some((expected, found)) = expected.and_then(|e| Some((e, shaped(&tensor, e)?)))
            else {
                self.partial += 1;
                continue;
            };
            let Ok(comparison) = compare(expected, &found, &(self.limits)(found.ty().element))
            else {
                self.partial += 1;
                continue;
            };
            let pairs = tensor.values().iter().zip(other.values());
            let undefined = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            let (operation, location) = named(self.levels.selected, value);
            self.found.push(Operator {
                operation,
                location,
                place: Some(Place {
                    step: step + 1,
                    name: self.levels.tiles.steps[step].name().to_owned(),
                    buffer: self.levels.tiles.buffer(id).name.clone(),
                    undefined,
                }),
                comparison,
            });
        }
        Ok(())
    }
}

/// The last step that writes each buffer.
fn last_writes(program: &TileProgram, kernels: &Kernels) -> BTreeMap<BufferId, usize> {
    let mut last = BTreeMap::new();
    for (i, step) in program.steps.iter().enumerate() {
        match step {
            Step::Compute(c) => {
                let arguments = kernels.get(&c.kernel).map_or(&[][..], |k| &k.buffers);
                for (&id, argument) in c.buffers.iter().zip(arguments) {
                    if matches!(argument.access, Access::Write | Access::Update) {
                        last.insert(id, i);
                    }
                }
            }
            Step::Rearrange { destination, .. } => {
                last.insert(*destination, i);
            }
            Step::Exchange { copies, .. } => {
                last.extend(copies.iter().map(|c| (c.destination, i)));
            }
        }
    }
    last
}

/// The operation that computes a value and its location, or which argument it is.
fn named(graph: &Graph, value: ValueId) -> (String, String) {
    match graph.definition(value) {
        Some(op) => (format!("nn.{}", op.kind.name()), op.location.clone()),
        None => match graph.inputs.iter().position(|&v| v == value) {
            Some(i) => (format!("argument {i}"), String::new()),
            None => ("a value without operation".to_owned(), String::new()),
        },
    }
}

/// The tensor of a buffer in the shape of the value: the same elements in the same order.
fn shaped(tensor: &HostArray, value: &HostArray) -> Option<HostArray> {
    let ty = TensorType::new(value.shape(), tensor.ty().element);
    HostArray::new(ty, tensor.values().to_vec()).ok()
}

/// The results of selected operators against those of the operations at their locations, where one
/// of them has the shape, and the outputs. Operations at one place with one shape are not told
/// apart: the last one counts, for the others only serve it.
fn selection(
    levels: Levels<'_>,
    model: &[Option<HostArray>],
    selected: &[Option<HostArray>],
    limits: &LimitsOf<'_>,
) -> Vec<Operator> {
    let key = |graph: &Graph, id: ValueId, location: &str| {
        (location.to_owned(), graph.ty(id).shape.clone())
    };
    let table = |graph: &Graph| -> BTreeMap<_, ValueId> {
        let results = graph.ops.iter().filter(|op| !op.location.is_empty());
        results
            .map(|op| (key(graph, op.result, &op.location), op.result))
            .collect()
    };
    let written = table(levels.model);
    let chosen = table(levels.selected);
    let order = levels.selected.ops.iter().filter_map(|op| {
        let key = key(levels.selected, op.result, &op.location);
        let last = chosen.get(&key) == Some(&op.result);
        let &original = written.get(&key).filter(|_| last)?;
        Some((original, op.result))
    });
    let outputs = levels.model.outputs.iter().zip(&levels.selected.outputs);
    let pairs = order.chain(outputs.map(|(&a, &b)| (a, b)));
    let value = |values: &[Option<HostArray>], id: ValueId| {
        values.get(id.0 as usize).and_then(Option::as_ref).cloned()
    };
    pairs
        .filter_map(|(a, b)| {
            let (expected, found) = (value(model, a)?, value(selected, b)?);
            let limits = limits(levels.model.ty(a).element);
            let comparison = compare(&expected, &found, &limits).ok()?;
            let (_, location) = named(levels.model, a);
            let operation = operation_at(levels.model, &location);
            Some(Operator {
                operation: operation.unwrap_or_else(|| named(levels.model, a).0),
                location,
                place: None,
                comparison,
            })
        })
        .filter(|o| o.comparison.max_abs > 0.0 || !o.comparison.passed())
        .collect()
}
