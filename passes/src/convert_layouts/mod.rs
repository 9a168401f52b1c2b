//! `ipu-convert-layouts`: rearrangements to explicit copies.
//!
//! Between panels of equal tensors, data crosses tiles in panel runs (`panels`): a run of rows
//! of one panel is contiguous on both sides, and kernels pack rows into panels and back. Every
//! other rearrangement is lowered by the runs of its view (`lower`).

mod arrival;
mod lower;
mod pack;
mod panels;
mod runs;
#[cfg(test)]
mod tests;

use ipu_program::kernels::Kernels;
use ipu_program::layout::Layout;
use ipu_program::tile::{Buffer, BufferId, Step, TileProgram, Transfer};
use ipu_program::types::TensorType;
use ipu_program::view::Walk;
use std::collections::BTreeSet;

/// A rearrangement that no sequence of copies implements.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("rearrangement '{step}' from '{source_buffer}' to '{destination}' {why}")]
pub struct ConvertError {
    /// Source location.
    pub location: String,
    /// Step symbol.
    pub step: String,
    /// Source buffer symbol.
    pub source_buffer: String,
    /// Destination buffer symbol.
    pub destination: String,
    /// Reason.
    pub why: String,
}

/// Lowers all rearrangements of a program.
///
/// # Errors
/// Different element types, element orders that only the host writes, a view that does not fit,
/// or layouts that do not hold their tensors.
pub fn convert_layouts(program: &mut TileProgram, kernels: &Kernels) -> Result<(), ConvertError> {
    let steps = std::mem::take(&mut program.steps);
    let mut names = Names {
        steps: steps.iter().map(|s| s.name().to_owned()).collect(),
        buffers: program.buffers.iter().map(|b| b.name.clone()).collect(),
    };
    for step in steps {
        match step {
            Step::Rearrange {
                name,
                source,
                destination,
                view,
                location,
            } => {
                // Its own name is free for what it becomes.
                names.steps.remove(&name);
                let mut c = Convert {
                    program,
                    kernels,
                    name,
                    location,
                    names: &mut names,
                };
                let (s, d) = (c.program.buffer(source), c.program.buffer(destination));
                let walk = Walk::new(view.as_ref(), s.ty.elements(), d.ty.elements());
                let walk = walk.map_err(|e| format!("has no meaning: {e}"));
                let walk = walk.and_then(|walk| match () {
                    () if s.ty.element != d.ty.element => Err(format!(
                        "changes the element type from {} to {}",
                        s.ty.element, d.ty.element
                    )),
                    () if source == destination => {
                        Err("reads what it writes; use two buffers".to_owned())
                    }
                    () => Ok(walk),
                });
                let walk = walk.map_err(|why| c.error(source, destination, why))?;
                if !panels::rearrange(&mut c, source, destination, &walk)? {
                    lower::lower(&mut c, source, destination, &walk)?;
                }
            }
            other => program.steps.push(other),
        }
    }
    Ok(())
}

/// The rearrangement that is being lowered.
struct Convert<'a> {
    program: &'a mut TileProgram,
    kernels: &'a Kernels,
    name: String,
    location: String,
    names: &'a mut Names,
}

/// Names in use. A step may have the name of a buffer.
struct Names {
    steps: BTreeSet<String>,
    buffers: BTreeSet<String>,
}

impl Convert<'_> {
    fn error(&self, source: BufferId, destination: BufferId, why: String) -> ConvertError {
        ConvertError {
            location: self.location.clone(),
            step: self.name.clone(),
            source_buffer: self.program.buffer(source).name.clone(),
            destination: self.program.buffer(destination).name.clone(),
            why,
        }
    }

    /// A buffer for the time of this rearrangement.
    fn scratch(&mut self, ty: TensorType, layout: Layout, what: &str) -> BufferId {
        let name = unused(&mut self.names.buffers, &self.name, what);
        let buffer = Buffer::new(name, ty, layout, &self.location);
        self.program.add_buffer(buffer)
    }

    /// A name for a step.
    fn symbol(&mut self, what: &str) -> String {
        unused(&mut self.names.steps, &self.name, what)
    }
}

/// A name that is not in use: `base`, with `what` behind it, and a number if need be.
fn unused(names: &mut BTreeSet<String>, base: &str, what: &str) -> String {
    let base = match what {
        "" => base.to_owned(),
        _ => format!("{base}.{what}"),
    };
    let mut name = base.clone();
    let mut n = 0;
    while !names.insert(name.clone()) {
        n += 1;
        name = format!("{base}_{n}");
    }
    name
}

/// Joins transfers that continue each other on both sides.
fn join(transfers: Vec<Transfer>) -> Vec<Transfer> {
    let mut out: Vec<Transfer> = Vec::with_capacity(transfers.len());
    for t in transfers {
        if let Some(last) = out.last_mut()
            && last.source == t.source
            && last.source_offset + 4 * last.words == t.source_offset
            && last.destinations.len() == t.destinations.len()
            && last
                .destinations
                .iter()
                .zip(&t.destinations)
                .all(|(a, b)| a.0 == b.0 && a.1 + 4 * last.words == b.1)
        {
            last.words += t.words;
        } else {
            out.push(t);
        }
    }
    out
}
