//! Published measurements against simulation.

use std::path::Path;

use anyhow::Result;

use crate::Format;

/// Runs all comparisons and prints them.
pub fn run(_format: Format, _kernels: Option<&Path>) -> Result<()> {
    Ok(())
}
