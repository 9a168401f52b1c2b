//! One program at three levels, compared while it runs: the model in f32, the tile program by the
//! meaning of its steps, the chip by its instructions.
//!
//! [`Comparer`] walks through the steps of the tile program. Two comparisons go along:
//!
//! * *model against tile level* ([`operators`]): after the last step that writes a buffer which
//!   holds a value of the model, that value within limits, for rounding adds up from step to step;
//! * *tile level against chip* ([`memory`]): the bytes that steps wrote, bit for bit. The comparer
//!   is the observer of a simulated run: buffers share memory over time, so it looks wherever all
//!   tiles wait, at each internal sync and at the end, at what was written since the last look and
//!   is not overwritten yet. Inside a superstep the first step whose bytes differ is named. What
//!   the same superstep overwrites goes unseen until something reads it: [`Comparer::closer`] looks
//!   again, before each step on the tile that differs.
//!
//! Memory that no step wrote holds anything on a chip. The tile program is executed twice, over two
//! different contents of it: elements that differ depend on it. They are no difference of the chip;
//! in a value of the model they are an error of the tile program.
//!
//! The tile program comes from the selected operators, so values are those of the selected graph;
//! it is compared with the model as written first.

mod memory;
mod operators;
#[cfg(test)]
mod tests;

pub use memory::{Difference, Origin};
pub use operators::{Operator, Place};

use crate::compare::Limits;
use crate::machine::{Machine, MachineError};
use crate::simulator::{Pause, RunObserver};
use ipu_interp::graph::{GraphError, evaluate};
use ipu_interp::host::{HostArray, Parameters};
use ipu_interp::tile::{Fill, Interpreter, TileError};
use ipu_program::graph::{Graph, ValueId};
use ipu_program::kernels::Kernels;
use ipu_program::tile::{BufferId, Step, TileProgram};
use ipu_program::types::ElementType;
use memory::Memory;
use operators::{LimitsOf, Operators};
use std::rc::Rc;

/// What memory holds in the second execution before it is written: 1.06 as f16.
const OTHER_FILL: u8 = 0x3c;

/// A program at the levels above the chip.
#[derive(Clone, Copy)]
pub struct Levels<'a> {
    /// The model as written.
    pub model: &'a Graph,
    /// Its operators as they were selected.
    pub selected: &'a Graph,
    /// The final tile program.
    pub tiles: &'a TileProgram,
    /// Buffers that hold values of `selected`.
    pub values: &'a [(BufferId, ValueId)],
    /// What kernels mean.
    pub kernels: &'a Kernels,
}

/// Levels that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum LevelsError {
    /// The model cannot be executed.
    #[error("reference: {0}")]
    Graph(#[from] GraphError),
    /// The tile program cannot be executed.
    #[error("tile level: {0}")]
    Tile(#[from] TileError),
    /// The memory of a tile cannot be read.
    #[error("reading buffer '{buffer}' of tile {tile}: {error}")]
    Machine {
        /// Buffer.
        buffer: String,
        /// Logical tile.
        tile: u32,
        /// Why.
        error: MachineError,
    },
    /// A buffer without an address, so that the chip cannot be looked at.
    #[error("buffer '{0}' has no address: the tile program is not the one of the package")]
    Unplaced(String),
    /// The chip synchronised more or less often than the tile program says.
    #[error(
        "the chip made {found} internal syncs in a run, the tile program has {expected} exchanges: \
         it is not the one of the package"
    )]
    Syncs {
        /// Exchanges of the program.
        expected: usize,
        /// Internal syncs.
        found: usize,
    },
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Values of selected operators against those of the model as written, where they differ.
    pub selection: Vec<Operator>,
    /// Values of the tile program, in the order in which they are complete.
    pub operators: Vec<Operator>,
    /// Buffers with values of the model that cannot be compared: they hold a part of it.
    pub partial: usize,
    /// Steps of the tile program.
    pub steps: usize,
    /// Looks at the memory of the chip; 0 if there was none.
    pub looks: usize,
    /// Bytes that were equal or different there.
    pub compared: u64,
    /// Bytes that depend on memory that no step wrote.
    pub undefined: u64,
    /// The first step whose bytes differ on the chip.
    pub difference: Option<Difference>,
}

impl Report {
    /// The same with what a closer look at the chip found, if that is an earlier step.
    pub fn with_closer(self, closer: Report) -> Report {
        let earlier = closer.difference.filter(|d| {
            let first = self.difference.as_ref();
            first.is_none_or(|first| d.step < first.step)
        });
        Report {
            difference: earlier.or(self.difference),
            ..self
        }
    }

    /// The first value beyond the limits, against the model as written.
    pub fn selection_failure(&self) -> Option<&Operator> {
        self.selection.iter().find(|o| !o.passed())
    }

    /// The first value of the tile program beyond the limits.
    pub fn operator_failure(&self) -> Option<&Operator> {
        self.operators.iter().find(|o| !o.passed())
    }
}

/// Executes the tile program along with a run of the chip, or without one, and compares.
pub struct Comparer<'a> {
    levels: Levels<'a>,
    limits: LimitsOf<'a>,
    tiles: &'a TileProgram,
    /// The tile program over zeros, and over [`OTHER_FILL`].
    runs: [Interpreter<'a>; 2],
    operators: Operators<'a>,
    memory: Memory<'a>,
    /// The first step that was not executed yet.
    next: usize,
    /// Tiles and steps before which the run is to pause.
    stops: Vec<(u32, usize)>,
    failed: Option<LevelsError>,
}

impl<'a> Comparer<'a> {
    /// Ready to run with these parameters and inputs; `limits` are those of values of the model.
    ///
    /// # Errors
    /// The model or the tile program does not take the data.
    pub fn new(
        levels: Levels<'a>,
        parameters: &Parameters,
        inputs: &[HostArray],
        limits: impl Fn(ElementType) -> Limits + 'a,
    ) -> Result<Self, LevelsError> {
        Comparer::stopping(levels, parameters, inputs, Rc::new(limits), Vec::new())
    }

    fn stopping(
        levels: Levels<'a>,
        parameters: &Parameters,
        inputs: &[HostArray],
        limits: LimitsOf<'a>,
        stops: Vec<(u32, usize)>,
    ) -> Result<Self, LevelsError> {
        let model = evaluate(levels.model, inputs, parameters)?;
        let selected = evaluate(levels.selected, inputs, parameters)?;
        let fills = [Fill::Byte(0), Fill::Byte(OTHER_FILL)];
        let mut runs = fills.map(|fill| Interpreter::new(levels.tiles, levels.kernels, fill));
        let mut memory = Memory::new(levels);
        for run in &mut runs {
            run.note_writes();
            run.initialize(parameters)?;
            run.write_inputs(inputs)?;
        }
        memory.wrote(Origin::Host, runs[0].take_written());
        drop(runs[1].take_written());
        Ok(Comparer {
            tiles: levels.tiles,
            runs,
            operators: Operators::new(levels, &model, selected, Rc::clone(&limits)),
            levels,
            limits,
            stops,
            memory,
            next: 0,
            failed: None,
        })
    }

    /// A comparer for another run with the same data, when this one saw a difference after earlier
    /// steps of the superstep whose bytes may have been overwritten by then: it looks before each
    /// step of that superstep on the tile that differs.
    ///
    /// # Errors
    /// As [`Comparer::new`].
    pub fn closer(
        &self,
        parameters: &Parameters,
        inputs: &[HostArray],
    ) -> Result<Option<Self>, LevelsError> {
        let Some(Difference { step, tile, .. }) = self.memory.difference else {
            return Ok(None);
        };
        // From behind the exchange before the step to the step itself, which counts from 1.
        let before = self.tiles.steps.get(..step).unwrap_or_default();
        let first = before.iter().rposition(is_exchange).map_or(0, |e| e + 1);
        let stops: Vec<_> = (first..step).map(|s| (tile, s)).collect();
        if stops.len() < 2 {
            return Ok(None);
        }
        let limits = Rc::clone(&self.limits);
        Comparer::stopping(self.levels, parameters, inputs, limits, stops).map(Some)
    }

    /// Executes the steps before exchange number `exchanges`.
    fn walk_to_exchange(&mut self, exchanges: usize) -> Result<(), LevelsError> {
        let mut steps = self.tiles.steps.iter().enumerate();
        let exchange = steps.by_ref().filter(|s| is_exchange(s.1)).nth(exchanges);
        self.walk(exchange.map_or(self.tiles.steps.len(), |(i, _)| i))
    }

    /// Executes the steps before one.
    fn walk(&mut self, end: usize) -> Result<(), LevelsError> {
        while let Some(step) = self.tiles.steps.get(self.next).filter(|_| self.next < end) {
            for run in &mut self.runs {
                run.step(step)?;
            }
            let written = self.runs[0].take_written();
            drop(self.runs[1].take_written());
            self.memory.wrote(Origin::Step(self.next), written);
            self.operators.after(self.next, &self.runs)?;
            self.next += 1;
        }
        Ok(())
    }

    fn look(&mut self, machine: &dyn Machine, at: Pause) -> Result<(), LevelsError> {
        match at {
            Pause::Inputs => {}
            Pause::Sync(passed) => {
                let expected = self.tiles.steps.iter().filter(|s| is_exchange(s)).count();
                if passed >= expected {
                    let found = passed + 1;
                    return Err(LevelsError::Syncs { expected, found });
                }
                self.walk_to_exchange(passed)?;
            }
            Pause::Step { tile, step } => {
                self.walk(step)?;
                return self.memory.look(machine, &self.runs, Some(tile));
            }
            Pause::Outputs => self.walk(self.tiles.steps.len())?,
        }
        self.memory.look(machine, &self.runs, None)
    }

    /// What was found, after the steps that no run of the chip has reached.
    ///
    /// # Errors
    /// What kept it from comparing to the end.
    pub fn finish(mut self) -> Result<Report, LevelsError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.walk(self.tiles.steps.len())?;
        Ok(Report {
            selection: self.operators.selection,
            operators: self.operators.found,
            partial: self.operators.partial,
            steps: self.tiles.steps.len(),
            looks: self.memory.looks,
            compared: self.memory.compared,
            undefined: self.memory.undefined,
            difference: self.memory.difference,
        })
    }
}

fn is_exchange(step: &Step) -> bool {
    matches!(step, Step::Exchange { .. })
}

impl RunObserver for Comparer<'_> {
    fn paused(&mut self, machine: &dyn Machine, at: Pause) {
        if self.failed.is_none() {
            self.failed = self.look(machine, at).err();
        }
    }

    fn stops(&self) -> Vec<(u32, usize)> {
        self.stops.clone()
    }
}

/// The operation at a location, `nn.add` for example, as far as the graph knows.
fn operation_at(graph: &Graph, location: &str) -> Option<String> {
    let found = graph.ops.iter().rfind(|op| op.location == location)?;
    Some(format!("nn.{}", found.kind.name()))
}
