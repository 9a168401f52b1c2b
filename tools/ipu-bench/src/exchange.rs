//! Exchange phases from files: scheduled, encoded, checked, and compared with lower bounds.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use ipu_exchange::check::{AbsoluteTransfer, EncodedRow, check};
use ipu_exchange::schedule::{Certificate, Memory, Options, ScheduleError, schedule_with};
use ipu_image::emit::RowEncoder;
use ipu_program::tile::{BufferId, Copy, Transfer};
use ipu_target::Target;
use ipu_target::geometry::Physical;
use serde::{Deserialize, Serialize};

use crate::Format;

/// A file of the neutral format; what it says about other schedulers is not read.
#[derive(Deserialize)]
struct Phase {
    tile_count: Option<u32>,
    transfers: Vec<Vec<serde_json::Value>>,
}

/// One line of the result. Times are in events but for `cpu_ms`.
#[derive(Clone, Debug, Serialize)]
struct Row {
    file: String,
    transfers: u32,
    bound: u32,
    bound_kind: &'static str,
    bound_tile: u32,
    horizon: u32,
    ratio: f64,
    row_words_max: u32,
    cpu_ms: f64,
    construction: String,
    limit: &'static str,
}

/// Rows of a phase as files of published phases have them; addresses and words are hexadecimal.
#[derive(Serialize)]
struct PhaseRows {
    name: String,
    transfers: Vec<TransferOut>,
    rows: Vec<RowOut>,
}

#[derive(Serialize)]
struct TransferOut {
    source: u32,
    source_address: String,
    words: u32,
    destinations: Vec<DestinationOut>,
}

#[derive(Serialize)]
struct DestinationOut {
    tile: u32,
    address: String,
}

#[derive(Serialize)]
struct RowOut {
    tile_logical: u32,
    tile_physical: u16,
    row_words: Vec<String>,
    horizon: u32,
    incoming_base: &'static str,
}

/// Schedules every file in the order given and prints the results; `paired` allows 64-bit items.
pub fn run(
    files: &[std::path::PathBuf],
    format: Format,
    rows_out: Option<&Path>,
    paired: bool,
) -> Result<()> {
    let target = Target::ipu21();
    let encoder = RowEncoder::new()?;
    let mut rows = Vec::with_capacity(files.len());
    let mut encoded = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let transfers = read(path).with_context(|| name.clone())?;
        let before = cpu_ms();
        let copy = Copy {
            source: BufferId(0),
            destination: BufferId(0),
            transfers,
        };
        let options = Options {
            memory: Memory::Absolute,
            row_words: None,
            wide: paired,
        };
        let found = schedule_with(target, std::slice::from_ref(&copy), options);
        let cpu_ms = cpu_ms() - before;
        let found = found
            .map_err(|e| explain(&e, &copy.transfers))
            .with_context(|| name.clone())?;
        let list: Vec<EncodedRow> = found
            .schedule
            .rows
            .iter()
            .map(|row| {
                Ok(EncodedRow {
                    tile: row.tile,
                    address: None,
                    words: encoder.encode(target, row, &name)?,
                })
            })
            .collect::<Result<_>>()?;
        let absolute: Vec<AbsoluteTransfer> = copy.transfers.iter().map(absolute).collect();
        check(target, &list, &absolute).with_context(|| name.clone())?;
        rows.push(row(name.clone(), &found.certificate, cpu_ms));
        if rows_out.is_some() {
            encoded.push(PhaseRows {
                name,
                transfers: copy.transfers.iter().map(transfer_out).collect(),
                rows: list
                    .iter()
                    .zip(&found.schedule.rows)
                    .map(|(e, r)| row_out(e, r.horizon))
                    .collect(),
            });
        }
    }
    if let Some(path) = rows_out {
        write(path, &encoded).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print(&rows, format)
}

fn print(rows: &[Row], format: Format) -> Result<()> {
    if format == Format::Json {
        println!("{}", serde_json::to_string_pretty(rows)?);
        return Ok(());
    }
    let width = rows.iter().map(|r| r.file.len()).max().unwrap_or(0).max(5);
    println!(
        "{:<width$} {:>9} {:>8} {:<10} {:>8} {:>6} {:>11} {:>9}",
        "phase", "transfers", "bound", "kind", "horizon", "ratio", "longest row", "CPU ms"
    );
    for r in rows {
        println!(
            "{:<width$} {:>9} {:>8} {:<10} {:>8} {:>6.3} {:>11} {:>9.1}",
            r.file,
            r.transfers,
            r.bound,
            r.bound_kind,
            r.horizon,
            r.ratio,
            r.row_words_max,
            r.cpu_ms
        );
    }
    let logarithms: f64 = rows.iter().map(|r| r.ratio.ln()).sum();
    let total: f64 = rows.iter().map(|r| r.cpu_ms).sum();
    println!(
        "geometric mean of horizon / bound: {:.3}; CPU {total:.1} ms",
        (logarithms / rows.len() as f64).exp()
    );
    Ok(())
}

fn row(file: String, c: &Certificate, cpu_ms: f64) -> Row {
    Row {
        file,
        transfers: c.transfers,
        bound: c.binding.events,
        bound_kind: c.binding.resource.name(),
        bound_tile: c.binding.tile,
        horizon: c.horizon,
        // A phase without transfers takes no time and is as short as can be.
        ratio: if c.binding.events == 0 {
            1.0
        } else {
            f64::from(c.horizon) / f64::from(c.binding.events)
        },
        row_words_max: c.row_words_max,
        cpu_ms,
        construction: c.construction.clone(),
        limit: c.limit.name(),
    }
}

/// Reads the transfers of a file.
fn read(path: &Path) -> Result<Vec<Transfer>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .read_to_end(&mut plain)
            .context("cannot be decompressed")?;
        bytes = plain;
    }
    let phase: Phase = serde_json::from_slice(&bytes)
        .context("is no exchange phase: an object with 'transfers' is wanted")?;
    let tiles = phase.tile_count.unwrap_or(Target::ipu21().tiles);
    let mut out = Vec::with_capacity(phase.transfers.len());
    for (i, fields) in phase.transfers.iter().enumerate() {
        let t = transfer(fields).with_context(|| format!("transfer {i}"))?;
        let named = t.destinations.iter().map(|d| d.0).chain([t.source]);
        if let Some(tile) = named.into_iter().find(|&n| n >= tiles) {
            bail!(
                "transfer {i} ({}) names tile {tile}, the file has {tiles}",
                describe(&t)
            );
        }
        out.push(t);
    }
    Ok(out)
}

/// One transfer: four fields, or five where a wider stream is suggested, which is a hint.
fn transfer(fields: &[serde_json::Value]) -> Result<Transfer> {
    let number = |v: &serde_json::Value, what: &str| {
        let n = v.as_u64().and_then(|n| u32::try_from(n).ok());
        n.ok_or_else(|| anyhow!("{what} is {v}, not an integer from 0 to 2^32 - 1"))
    };
    let (4 | 5) = fields.len() else {
        bail!("has {} fields, not 4 or 5", fields.len());
    };
    let address = match fields[2].as_array().map(Vec::as_slice) {
        None => &fields[2],
        Some([one]) => one,
        Some(list) => bail!("has {} source addresses, not 1", list.len()),
    };
    let to = fields[3]
        .as_array()
        .ok_or_else(|| anyhow!("its destinations are {}, not a list", fields[3]))?;
    let destinations = to
        .iter()
        .map(|pair| match pair.as_array().map(Vec::as_slice) {
            Some([tile, address]) => Ok((
                number(tile, "a destination tile")?,
                number(address, "a destination address")?,
            )),
            _ => Err(anyhow!("a destination is {pair}, not [tile, address]")),
        });
    Ok(Transfer {
        source: number(&fields[0], "the source tile")?,
        words: number(&fields[1], "the number of words")?,
        source_offset: number(address, "the source address")?,
        destinations: destinations.collect::<Result<_>>()?,
    })
}

fn describe(t: &Transfer) -> String {
    /// Destinations named in a message.
    const NAMED: usize = 3;
    let mut to: Vec<String> = t
        .destinations
        .iter()
        .take(NAMED)
        .map(|(tile, at)| format!("tile {tile} at {at:#x}"))
        .collect();
    if t.destinations.len() > NAMED {
        to.push(format!("{} more", t.destinations.len() - NAMED));
    }
    format!(
        "{} words from tile {} at {:#x} to {}",
        t.words,
        t.source,
        t.source_offset,
        to.join(", ")
    )
}

/// The error with the transfers that it is about.
fn explain(error: &ScheduleError, transfers: &[Transfer]) -> anyhow::Error {
    let mut text = error.to_string();
    for i in error.transfers() {
        if let Some(t) = transfers.get(i as usize) {
            text += &format!("\n  transfer {i}: {}", describe(t));
        }
    }
    anyhow!(text)
}

fn absolute(t: &Transfer) -> AbsoluteTransfer {
    AbsoluteTransfer {
        source: t.source,
        source_address: t.source_offset,
        words: t.words,
        destinations: t.destinations.clone(),
    }
}

fn transfer_out(t: &Transfer) -> TransferOut {
    let destination = |&(tile, address): &(u32, u32)| DestinationOut {
        tile,
        address: format!("{address:#x}"),
    };
    TransferOut {
        source: t.source,
        source_address: format!("{:#x}", t.source_offset),
        words: t.words,
        destinations: t.destinations.iter().map(destination).collect(),
    }
}

fn row_out(row: &EncodedRow, horizon: u32) -> RowOut {
    RowOut {
        tile_logical: row.tile,
        tile_physical: Physical::of_logical(row.tile).0,
        row_words: row.words.iter().map(|w| format!("{w:#010x}")).collect(),
        horizon,
        incoming_base: "0x0",
    }
}

fn write(path: &Path, phases: &[PhaseRows]) -> Result<()> {
    #[derive(Serialize)]
    struct Out<'a> {
        phases: &'a [PhaseRows],
    }
    let mut file = BufWriter::new(File::create(path)?);
    serde_json::to_writer(&mut file, &Out { phases })?;
    file.flush()?;
    Ok(())
}

/// Processor time of this thread in milliseconds.
fn cpu_ms() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
