//! Where a package comes from, and the program behind its images: what reports, profiles and the
//! check of its memory read. Nothing here is needed to run it.

use ipu_program::layout::Layout;
use ipu_program::tile::{Schedule, Step, TileProgram};
use ipu_program::types::TensorType;
use serde::{Deserialize, Serialize};

/// What a package was made of and how. Version of the tools and target are in the header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the model file, without its folder.
    pub input: String,
    /// SHA-256 of the model text; zeros where it is not known.
    pub input_sha256: [u8; 32],
    /// Options of the compiler that the result depends on, by name.
    pub flags: Vec<(String, String)>,
    /// Seed of the compiler's random choices; `None`: it made none.
    pub seed: Option<u64>,
}

impl Provenance {
    /// The hash of the model as text; `None` where it is not known.
    pub fn input_hash(&self) -> Option<String> {
        (self.input_sha256 != [0; 32]).then(|| {
            self.input_sha256
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect()
        })
    }
}

/// The program behind the images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Buffers of the program, those that the host does not touch included.
    pub buffers: Vec<BufferPlace>,
    /// What [`super::Metadata::steps`] does not say of the steps, in the same order.
    pub steps: Vec<StepDetail>,
    /// Memory that is kept for exchange rows on every tile: first byte and bytes.
    pub rows_area: Option<(u32, u32)>,
    /// Runtime state of every tile: first byte and bytes.
    pub runtime_state: (u32, u32),
    /// Operations of the model that steps and buffers come from, by location.
    pub operations: Vec<Operation>,
    /// Why the program is this one.
    pub selection: Selection,
}

/// A buffer and where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferPlace {
    /// Symbol.
    pub name: String,
    /// The tensor stored.
    pub ty: TensorType,
    /// Where its parts live.
    pub layout: Layout,
    /// Byte address, the same on every tile of the layout.
    pub address: u32,
    /// Bytes kept on each of these tiles, what kernels may read behind it included.
    pub reserved: u32,
    /// First and last step in which it is live, inclusive; `None`: always.
    pub live: Option<(u32, u32)>,
    /// Source location of its operation.
    pub location: String,
}

/// What a step runs, where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDetail {
    /// Kernel of a compute step.
    pub kernel: Option<String>,
    /// Runs of tiles that take part: the first one and their number.
    pub tiles: Vec<(u32, u32)>,
    /// The exchange with its certificate, of an exchange step.
    pub phase: Option<Phase>,
}

/// An exchange phase with its certificate. Times are in events, which are tile clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Events of the longest row.
    pub horizon: u32,
    /// Lower bound on them for any schedule of the same transfers.
    pub bound: u32,
    /// Tile that the bound comes from.
    pub binding_tile: u32,
    /// Resource that the bound comes from; empty without a certificate.
    pub binding: String,
    /// Every lower bound that was derived.
    pub bounds: Vec<PhaseBound>,
    /// Transfers.
    pub transfers: u32,
    /// Messages that they became.
    pub messages: u32,
    /// Words delivered, at all receivers together.
    pub words: u64,
    /// How the schedule was made.
    pub construction: String,
    /// What ended the search for a shorter one.
    pub limit: String,
}

/// A lower bound on the horizon of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseBound {
    /// Resource.
    pub resource: String,
    /// Events.
    pub events: u32,
    /// Logical tile; of a pair, the even one.
    pub tile: u32,
}

/// An operation of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// `file:line:column`.
    pub location: String,
    /// Its name, such as `nn.matmul`.
    pub name: String,
    /// The line of the model.
    pub text: String,
}

/// Why the program is this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Name of the candidate.
    pub candidate: String,
    /// Reasons in short.
    pub reasons: Vec<String>,
    /// The report of `--explain-selection=json` about it; empty where it was not asked for.
    pub explanation: String,
}

/// Ascending numbers as runs: the first one and their number.
pub fn runs_of(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(n) => *count += 1,
            _ => runs.push((n, 1)),
        }
    }
    runs
}

fn phase(schedule: &Schedule) -> Phase {
    let c = schedule.certificate.clone().unwrap_or_default();
    Phase {
        horizon: schedule.horizon,
        bound: schedule.bound,
        binding_tile: schedule.binding_tile,
        binding: c.binding,
        bounds: c
            .bounds
            .into_iter()
            .map(|b| PhaseBound {
                resource: b.resource,
                events: b.events,
                tile: b.tile,
            })
            .collect(),
        transfers: c.transfers,
        messages: c.messages,
        words: c.words,
        construction: c.construction,
        limit: c.limit,
    }
}

impl Description {
    /// The description of a placed and scheduled program. `location` says how a location is written
    /// in a package.
    pub(crate) fn of_program(program: &TileProgram, location: impl Fn(&str) -> String) -> Self {
        let buffers = program.buffers.iter().filter_map(|b| {
            Some(BufferPlace {
                name: b.name.clone(),
                ty: b.ty.clone(),
                layout: b.layout.clone(),
                address: b.address?,
                reserved: b.reserved(),
                live: b.live,
                location: location(&b.location),
            })
        });
        let steps = program.steps.iter().map(|step| match step {
            Step::Compute(c) => StepDetail {
                kernel: Some(c.kernel.clone()),
                tiles: runs_of(c.tiles.iter().copied()),
                phase: None,
            },
            Step::Exchange { schedule, .. } => {
                let rows = schedule.iter().flat_map(|s| &s.rows);
                StepDetail {
                    kernel: None,
                    tiles: runs_of(rows.map(|r| r.tile)),
                    phase: schedule.as_ref().map(phase),
                }
            }
            Step::Rearrange { .. } => StepDetail::default(),
        });
        Description {
            buffers: buffers.collect(),
            steps: steps.collect(),
            rows_area: program.rows_area.map(|a| (a.address, a.bytes)),
            ..Description::default()
        }
    }

    /// The operation at a location.
    pub fn operation(&self, location: &str) -> Option<&Operation> {
        self.operations.iter().find(|o| o.location == location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs() {
        assert_eq!(runs_of([1, 2, 3, 7, 9, 10]), [(1, 3), (7, 1), (9, 2)]);
        assert_eq!(runs_of([]), []);
        assert_eq!(runs_of([u32::MAX - 1, u32::MAX]), [(u32::MAX - 1, 2)]);
    }
}
