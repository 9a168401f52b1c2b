//! How full the fullest tile is at the fullest step.

use crate::package::Images;
use ipu_program::tile::TileProgram;
use ipu_target::Target;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most bytes that one tile holds at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PeakMemory {
    /// Bytes of code, argument records and exchange rows as loaded, of the runtime state, and of
    /// the buffers that are live at that step, with what placement keeps behind them.
    pub bytes: u32,
    /// Logical tile, the first of equals.
    pub tile: u32,
}

/// The peak of a placed program with these images. A buffer without a lifetime is live always;
/// gaps between buffers, and what is kept for rows and records beyond their bytes, count as free.
pub fn peak(program: &TileProgram, images: &Images, target: &Target) -> PeakMemory {
    // For each tile, by step: bytes that begin to live, less those that no longer do.
    let mut changes: BTreeMap<u32, BTreeMap<u32, i64>> = BTreeMap::new();
    for buffer in &program.buffers {
        let (first, last) = buffer.live.unwrap_or((0, u32::MAX));
        let bytes = i64::from(buffer.reserved());
        for shard in buffer.layout.shards(buffer.ty.matrix()) {
            let steps = changes.entry(shard.tile).or_default();
            *steps.entry(first).or_default() += bytes;
            if let Some(after) = last.checked_add(1) {
                *steps.entry(after).or_default() -= bytes;
            }
        }
    }
    let mut peak = PeakMemory::default();
    for image in images.tiles() {
        let (mut live, mut most) = (0, 0);
        for change in changes
            .get(&image.tile)
            .into_iter()
            .flat_map(|s| s.values())
        {
            live += change;
            most = most.max(live);
        }
        let loaded: usize = images.segments(image).map(|(_, bytes)| bytes.len()).sum();
        let bytes = most + loaded as i64 + i64::from(target.runtime_state_bytes);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes > peak.bytes {
            let tile = image.tile;
            peak = PeakMemory { bytes, tile };
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::ImagesBuilder;
    use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
    use ipu_program::tile::Buffer;
    use ipu_program::types::{ElementType, TensorType};

    /// A row of `columns` f16 on the tile, 32 bytes for every 16 or fewer.
    fn buffer(tile: u32, columns: u32, tail: u32, live: Option<(u32, u32)>) -> Buffer {
        Buffer {
            name: String::new(),
            ty: TensorType::new([1, columns], ElementType::F16),
            layout: Layout {
                rows: Split::whole(1),
                columns: Split::whole(columns),
                copies: 1,
                copy_stride: 0,
                first_tile: tile,
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
            },
            align: 8,
            tail,
            live,
            address: None,
            location: String::new(),
        }
    }

    fn peak_of(buffers: Vec<Buffer>) -> PeakMemory {
        let target = Target::ipu21();
        let mut images = ImagesBuilder::new();
        for tile in 0..3 {
            images.segment(tile, target.load_base, &[0; 40]);
        }
        images.segment(2, target.load_base + 40, &[1; 8]);
        let program = TileProgram {
            tiles: 3,
            buffers,
            ..TileProgram::default()
        };
        let mut found = peak(&program, &images.finish(), target);
        found.bytes -= 40 + target.runtime_state_bytes;
        found
    }

    #[test]
    fn without_buffers_the_largest_image_counts() {
        assert_eq!(peak_of(vec![]), PeakMemory { bytes: 8, tile: 2 });
    }

    #[test]
    fn only_what_is_live_together_adds_up() {
        let parameter = || buffer(1, 4, 0, None);
        let found = peak_of(vec![
            parameter(),
            buffer(1, 400, 0, Some((0, 2))),
            buffer(1, 400, 0, Some((3, 5))),
            buffer(0, 404, 0, Some((0, 5))),
        ]);
        let (bytes, tile) = (32 + 800, 0);
        assert_eq!(found, PeakMemory { bytes, tile });
        let found = peak_of(vec![
            parameter(),
            buffer(1, 400, 0, Some((0, 3))),
            buffer(1, 400, 0, Some((3, 5))),
            buffer(0, 404, 0, Some((0, 5))),
        ]);
        let (bytes, tile) = (32 + 1600, 1);
        assert_eq!(found, PeakMemory { bytes, tile });
    }

    #[test]
    fn what_is_kept_behind_a_buffer_counts() {
        let found = peak_of(vec![buffer(0, 4, 17, Some((0, 0)))]);
        let (bytes, tile) = (56, 0);
        assert_eq!(found, PeakMemory { bytes, tile });
    }
}
