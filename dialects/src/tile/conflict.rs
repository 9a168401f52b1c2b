//! Two transfers of one exchange that write the same words.

use super::Read;
use ipu_program::tile::{BufferId, Copy, Transfer};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that no two transfers write a byte of one tile's buffer both: nothing orders the
/// transfers of an exchange, so that either could win. Only what a tile sends on in the same
/// exchange orders those of different copies; that is left to whoever schedules them.
pub(super) fn writers<'n>(copies: &[Copy], name: impl Fn(BufferId) -> &'n str) -> Read<()> {
    /// First byte, byte behind, copy and transfer.
    type Span = (u32, u32, u32, u32);
    let mut written: BTreeMap<(BufferId, u32), Vec<Span>> = BTreeMap::new();
    for (c, copy) in (0..).zip(copies) {
        for (t, transfer) in (0..).zip(&copy.transfers) {
            for &(tile, offset) in &transfer.destinations {
                // The verifier has checked the range; an unknown buffer has none.
                let end = offset.saturating_add(transfer.words.saturating_mul(4));
                let spans = written.entry((copy.destination, tile)).or_default();
                spans.push((offset, end, c, t));
            }
        }
    }
    let read: BTreeSet<(BufferId, u32)> = copies
        .iter()
        .flat_map(|c| c.transfers.iter().map(|t| (c.source, t.source)))
        .collect();
    for ((buffer, tile), mut spans) in written {
        let sent_on = read.contains(&(buffer, tile));
        spans.sort_unstable();
        // The span so far that reaches farthest, for a long one may overlap any later one.
        let mut far: Option<Span> = None;
        for span in spans {
            if let Some(before) = far.filter(|b| b.1 > span.0 && (b.2 == span.2 || !sent_on)) {
                let of = |s: Span| text(copies, s.2, s.3, tile, s.0);
                let (first, second) = if (before.2, before.3) <= (span.2, span.3) {
                    (before, span)
                } else {
                    (span, before)
                };
                return Err(format!(
                    "writes byte {} of @{} on tile {tile} twice, by transfers with no order: {} \
                     and {}",
                    span.0,
                    name(buffer),
                    of(first),
                    of(second)
                ));
            }
            far = far.filter(|b| b.1 >= span.1).or(Some(span));
        }
    }
    Ok(())
}

/// A transfer as it is written, with the destination that matters.
fn text(copies: &[Copy], copy: u32, transfer: u32, tile: u32, offset: u32) -> String {
    let found = copies.get(copy as usize);
    match found.and_then(|c| c.transfers.get(transfer as usize)) {
        Some(Transfer {
            source,
            source_offset,
            words,
            ..
        }) => format!("[{source}+{source_offset} x {words} -> {tile}+{offset}]"),
        None => String::new(),
    }
}
