//! `ipu-verify-exchange`: the independent checker on the encoded rows of every phase.
//!
//! Rows are encoded with the final addresses, as emission does, and the checker reads the words and
//! the list of transfers, nothing else.

use ipu_exchange::check::{AbsoluteTransfer, EncodedRow, check};
use ipu_image::emit::RowEncoder;
use ipu_program::tile::{BufferId, Event, Row, Step, TileProgram};
use ipu_target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A phase that was not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("exchange '{step}': {why}")]
pub struct VerifyError {
    /// Source location.
    pub location: String,
    /// Step symbol.
    pub step: String,
    /// What the checker found, or what is missing.
    pub why: String,
}

/// A phase that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// Symbol of the exchange.
    pub exchange: String,
    /// Rows read.
    pub rows: usize,
    /// Words delivered.
    pub words: u64,
    /// Events of the longest row, as decoded.
    pub events: u32,
}

/// What was checked of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The candidate.
    pub candidate: String,
    /// Its phases.
    pub phases: Vec<Accepted>,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.phases.len();
        writeln!(
            f,
            "exchanges of @{}: {count} phase(s) checked",
            self.candidate
        )?;
        for p in &self.phases {
            writeln!(
                f,
                "@{}: {} row(s), {} words, {} events: accepted",
                p.exchange, p.rows, p.words, p.events
            )?;
        }
        Ok(())
    }
}

/// Checks every phase of a placed program.
///
/// # Errors
/// The first phase that is refused, or that has no schedule or no addresses.
pub fn verify(
    program: &TileProgram,
    target: &Target,
    candidate: &str,
) -> Result<Verified, VerifyError> {
    let mut phases = Vec::new();
    // Bytes of rows so far, as emission lays them out.
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    let address = |id: BufferId| {
        let buffer = program.buffer(id);
        buffer.address.ok_or_else(|| {
            format!(
                "buffer '{}' has no address; run ipu-place-storage first",
                buffer.name
            )
        })
    };
    for step in &program.steps {
        let Step::Exchange {
            name,
            copies,
            schedule,
            location,
        } = step
        else {
            continue;
        };
        let error = |why: String| VerifyError {
            location: location.clone(),
            step: name.clone(),
            why,
        };
        let missing = "has no schedule; run ipu-phase-exchanges first";
        let schedule = schedule.as_ref().ok_or_else(|| error(missing.to_owned()))?;
        let encoder = RowEncoder::new().map_err(|e| error(e.to_string()))?;
        let mut rows = Vec::new();
        for row in &schedule.rows {
            let row = addressed(row, address).map_err(error)?;
            let words = encoder.encode(target, &row, name).map_err(|e| {
                // It names the step itself.
                VerifyError {
                    why: e.to_string(),
                    ..error(String::new())
                }
            })?;
            let start = used.entry(row.tile).or_default();
            let at = program.rows_area.map(|area| area.address + *start);
            *start += (4 * words.len() as u32).next_multiple_of(8);
            rows.push(EncodedRow {
                tile: row.tile,
                address: at,
                words,
            });
        }
        let mut transfers = Vec::new();
        for c in copies {
            let (from, to) = (
                address(c.source).map_err(error)?,
                address(c.destination).map_err(error)?,
            );
            for t in &c.transfers {
                let place = |base: u32, offset: u32| {
                    let beyond = || error(format!("byte {offset} of a buffer is beyond memory"));
                    base.checked_add(offset).ok_or_else(beyond)
                };
                let to = t
                    .destinations
                    .iter()
                    .map(|&(tile, o)| Ok((tile, place(to, o)?)));
                transfers.push(AbsoluteTransfer {
                    source: t.source,
                    source_address: place(from, t.source_offset)?,
                    words: t.words,
                    destinations: to.collect::<Result<_, _>>()?,
                });
            }
        }
        let found = check(target, &rows, &transfers)
            .map_err(|e| error(format!("the checker refuses the encoded rows: {e}")))?;
        phases.push(Accepted {
            exchange: name.clone(),
            rows: rows.len(),
            words: found.words,
            events: found.horizon,
        });
    }
    Ok(Verified {
        candidate: candidate.to_owned(),
        phases,
    })
}

/// A row with byte addresses for offsets.
fn addressed(row: &Row, address: impl Fn(BufferId) -> Result<u32, String>) -> Result<Row, String> {
    let mut row = row.clone();
    for event in &mut row.events {
        if let Event::Send { buffer, offset, .. } | Event::Pointer { buffer, offset, .. } = event {
            let byte = address(*buffer)?.checked_add(*offset);
            *offset = byte.ok_or_else(|| format!("byte {offset} of a buffer is beyond memory"))?;
        }
    }
    Ok(row)
}
