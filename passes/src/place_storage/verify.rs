//! The verifier of a placement: reads the program as placed, tile by tile.

use ipu_image::emit::records_end;
use ipu_program::kernels::Kernels;
use ipu_program::layout::MemoryClass;
use ipu_program::tile::{Buffer, BufferId, Copy, Source, Step, TileProgram};
use ipu_target::{Region, Target};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Buffer or step symbol.
    pub subject: String,
    /// Broken rule, with the values.
    pub what: String,
}

/// Checks addresses, regions, overlaps in time and space, and element rules.
///
/// # Errors
/// The first violation.
pub fn verify(program: &TileProgram, target: &Target, kernels: &Kernels) -> Result<(), Violation> {
    let fail = |subject: &str, what: String| {
        Err(Violation {
            subject: subject.to_owned(),
            what,
        })
    };
    if let Some(rows) = program.rows_area {
        let end = u64::from(rows.address) + u64::from(rows.bytes);
        let window = target.host_window_base + target.host_window_bytes;
        let state = target.runtime_state_base..records_end(program, target);
        let aligned = rows.address.is_multiple_of(target.element_bytes)
            && rows.bytes.is_multiple_of(target.element_bytes);
        let in_state = u64::from(state.start) < end && rows.address < state.end;
        if !aligned || rows.address < window || end > u64::from(target.region1_base) || in_state {
            return fail(
                &program.name,
                format!(
                    "the rows at {:#x} to {end:#x} are not whole elements of region 0 clear of the \
                     host window, the runtime state and the argument records",
                    rows.address
                ),
            );
        }
    }
    // For every tile: the buffers on it.
    let mut on_tile: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, b) in program.buffers.iter().enumerate() {
        let Some(address) = b.address else {
            return fail(&b.name, "it has no address".to_owned());
        };
        let end = address.saturating_add(b.bytes()).saturating_add(b.tail);
        if address % b.align.max(1) != 0 {
            return fail(
                &b.name,
                format!("{address:#x} is not a multiple of {}", b.align),
            );
        }
        let region = target.region(address);
        let last = target.region(end.saturating_sub(1).max(address));
        let wanted = match b.class() {
            MemoryClass::Any => region,
            MemoryClass::Standard => Some(Region::Standard),
            MemoryClass::Interleaved => Some(Region::Interleaved),
        };
        if region.is_none() || region != last || region != wanted {
            return fail(
                &b.name,
                format!(
                    "{address:#x} to {end:#x} is not in one region of class '{}'",
                    b.class().name()
                ),
            );
        }
        if end > target.loader_end || address < records_end(program, target) {
            return fail(
                &b.name,
                format!("{address:#x} to {end:#x} is outside data memory"),
            );
        }
        if let Some(rows) = program.rows_area
            && address < rows.address + rows.bytes
            && rows.address < end
        {
            return fail(
                &b.name,
                format!(
                    "{address:#x} to {end:#x} lies in the rows at {:#x}",
                    rows.address
                ),
            );
        }
        for shard in b.layout.shards(b.ty.matrix()) {
            on_tile.entry(shard.tile).or_default().push(i);
        }
    }
    // Uses of every buffer, recomputed from the steps.
    let mut first: Vec<usize> = vec![usize::MAX; program.buffers.len()];
    let mut last: Vec<usize> = vec![0; program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        let used: Vec<_> = match step {
            Step::Compute(c) => c.buffers.clone(),
            Step::Exchange { copies, .. } => copies
                .iter()
                .flat_map(|c| [c.source, c.destination])
                .collect(),
            Step::Rearrange { name, .. } => {
                return fail(name, "a rearrangement was not lowered".to_owned());
            }
        };
        for b in used {
            first[b.0 as usize] = first[b.0 as usize].min(i);
            last[b.0 as usize] = last[b.0 as usize].max(i);
        }
    }
    for b in &program.bindings {
        let i = b.buffer.0 as usize;
        match b.source {
            Source::Input(_) | Source::HostStep { .. } => first[i] = 0,
            Source::Output(_) => last[i] = usize::MAX,
            _ => (first[i], last[i]) = (0, usize::MAX),
        }
    }
    for (tile, list) in &on_tile {
        for (n, &i) in list.iter().enumerate() {
            for &j in &list[n + 1..] {
                let (a, b) = (&program.buffers[i], &program.buffers[j]);
                let in_time = first[i] <= last[j] && first[j] <= last[i];
                if in_time && overlap(a, b) {
                    return fail(
                        &a.name,
                        format!(
                            "it overlaps '{}' on tile {tile} while both are live",
                            b.name
                        ),
                    );
                }
            }
        }
    }
    for step in &program.steps {
        match step {
            Step::Compute(c) => {
                let Some(kernel) = kernels.get(&c.kernel) else {
                    return fail(&c.name, format!("unknown kernel '{}'", c.kernel));
                };
                for (x, y) in &kernel.apart {
                    let at = |n: &str| {
                        kernel
                            .buffer(n)
                            .and_then(|i| c.buffers.get(i))
                            .map(|&b| program.buffer(b))
                    };
                    if let (Some(a), Some(b)) = (at(x), at(y))
                        && share_element(target, a, b)
                    {
                        return fail(
                            &c.name,
                            format!("'{}' and '{}' share a memory element", a.name, b.name),
                        );
                    }
                }
            }
            Step::Exchange { name, copies, .. } => {
                for (tile, (sent, got)) in ends(copies) {
                    for (&from, &to) in sent.iter().flat_map(|x| got.iter().map(move |y| (x, y))) {
                        let (a, b) = (program.buffer(from), program.buffer(to));
                        if share_element(target, a, b) {
                            return fail(
                                name,
                                format!(
                                    "tile {tile} sends '{}' and receives '{}' in one memory element",
                                    a.name, b.name
                                ),
                            );
                        }
                    }
                }
            }
            Step::Rearrange { .. } => {}
        }
    }
    Ok(())
}

/// For every tile of an exchange the buffers that it sends from and receives into.
fn ends(copies: &[Copy]) -> BTreeMap<u32, (BTreeSet<BufferId>, BTreeSet<BufferId>)> {
    let mut ends: BTreeMap<u32, (BTreeSet<BufferId>, BTreeSet<BufferId>)> = BTreeMap::new();
    for copy in copies {
        let (mut from, mut to) = (BTreeSet::new(), BTreeSet::new());
        for t in &copy.transfers {
            from.insert(t.source);
            to.extend(t.destinations.iter().map(|d| d.0));
        }
        for tile in from {
            ends.entry(tile).or_default().0.insert(copy.source);
        }
        for tile in to {
            ends.entry(tile).or_default().1.insert(copy.destination);
        }
    }
    ends
}

fn range(b: &Buffer) -> (u32, u32) {
    let at = b.address.unwrap_or(0);
    (at, at.saturating_add(b.bytes()).saturating_add(b.tail))
}

fn overlap(a: &Buffer, b: &Buffer) -> bool {
    let ((a0, a1), (b0, b1)) = (range(a), range(b));
    a0 < b1 && b0 < a1
}

fn share_element(target: &Target, a: &Buffer, b: &Buffer) -> bool {
    let unit = |address: u32| {
        if address >= target.region1_base {
            (
                1,
                (address - target.region1_base) / target.interleaved_element_bytes,
            )
        } else {
            (0, address / target.element_bytes)
        }
    };
    let ((a0, a1), (b0, b1)) = (range(a), range(b));
    let last = |end: u32, start: u32| unit(end.max(start + 1) - 1);
    unit(a0) <= last(b1, b0) && unit(b0) <= last(a1, a0)
}
