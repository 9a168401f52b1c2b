//! Transfers that share data happen in the order of the list.

use super::{AbsoluteTransfer, CheckError, Seen};
use std::collections::BTreeMap;

/// A range of bytes that a transfer reads or writes on a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    start: u32,
    end: u32,
    transfer: u32,
    write: bool,
}

/// Checks every pair of transfers of which one writes what the other reads or writes.
pub(super) fn check(transfers: &[AbsoluteTransfer], seen: &[Seen]) -> Result<(), CheckError> {
    let mut tiles: BTreeMap<u32, Vec<Range>> = BTreeMap::new();
    for (i, t) in transfers.iter().enumerate() {
        let ends = t.destinations.iter().map(|&(tile, at)| (tile, at, true));
        for (tile, start, write) in ends.chain([(t.source, t.source_address, false)]) {
            tiles.entry(tile).or_default().push(Range {
                start,
                end: start + 4 * t.words,
                transfer: i as u32,
                write,
            });
        }
    }
    for (tile, mut ranges) in tiles {
        ranges.sort_unstable();
        let (mut reads, mut writes): (Vec<Range>, Vec<Range>) = (Vec::new(), Vec::new());
        for r in ranges {
            // Reads that end are dropped only when a write looks at them: there may be many that
            // lie on each other, and they are nothing to one another.
            writes.retain(|w| w.end > r.start);
            if r.write {
                reads.retain(|w| w.end > r.start);
            }
            let others = writes.iter().chain(reads.iter().filter(|_| r.write));
            for o in others.filter(|o| o.transfer != r.transfer) {
                let first = o.transfer.min(r.transfer);
                let second = o.transfer.max(r.transfer);
                let end = seen[first as usize].end;
                let start = seen[second as usize].start;
                if start < end {
                    return Err(CheckError {
                        tile,
                        what: format!(
                            "transfers {first} and {second} share address {:#x}, and the second \
                             starts at event {start}, before the first is complete at {end}",
                            r.start
                        ),
                    });
                }
            }
            if r.write {
                writes.push(r)
            } else {
                reads.push(r)
            }
        }
    }
    Ok(())
}
