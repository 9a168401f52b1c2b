//! Published measurements against simulation.

mod exchange;
mod kernels;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::Format;

/// Whether a constant was chosen to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Fitted,
    Checked,
}

/// One comparison, in clocks unless the name says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub measured: i64,
    pub simulated: i64,
    pub difference: i64,
    pub status: Status,
}

impl Row {
    fn new(name: impl Into<String>, measured: i64, simulated: i64, status: Status) -> Row {
        Row {
            name: name.into(),
            measured,
            simulated,
            difference: simulated - measured,
            status,
        }
    }
}

/// Runs all comparisons and prints them. `kernels` is the folder of the reference kernels.
pub fn run(format: Format, kernels: Option<&Path>) -> Result<()> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/kernels");
    let (mut rows, remark) = exchange::rows()?;
    rows.push(kernels::weight_loads()?);
    rows.extend(kernels::reference(kernels.unwrap_or(&beside))?);
    if format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    println!(
        "{:<58} {:>9} {:>9} {:>10}  status",
        "name", "measured", "simulated", "difference"
    );
    for r in &rows {
        println!(
            "{:<58} {:>9} {:>9} {:>10}  {}",
            r.name,
            r.measured,
            r.simulated,
            r.difference,
            match r.status {
                Status::Fitted => "fitted",
                Status::Checked => "checked",
            }
        );
    }
    println!("{remark}");
    Ok(())
}
