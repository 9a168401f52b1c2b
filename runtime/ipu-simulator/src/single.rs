//! A program on one tile, for tests of kernels.

use ipu_target::Target;

use crate::chip::Chip;
use crate::fault::SimError;

/// Loads segments `(address, bytes)` on logical tile 0, starts its supervisor at `entry` and runs
/// until `trap 0` or a host sync; the chip holds the results.
///
/// # Errors
/// A segment outside tile memory, a fault, a deadlock, or the limit.
pub fn run_single<'a>(
    target: &Target,
    segments: impl IntoIterator<Item = (u32, &'a [u8])>,
    entry: u32,
    max_cycles: u64,
) -> Result<Chip, SimError> {
    let mut chip = Chip::new(target);
    for (address, bytes) in segments {
        chip.load(0, address, bytes)?;
    }
    chip.start(0, entry)?;
    chip.run(max_cycles)?;
    Ok(chip)
}
