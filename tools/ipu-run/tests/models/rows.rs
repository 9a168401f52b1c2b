//! Schedules, checked by a program that shares no code with the project: the encoded rows in a
//! package against the transfers of its tile program.

use ipu_image::package::Package;
use ipu_program::tile::{BufferId, Event, Step, TileProgram, WIDE};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `br $m10`, which ends a row.
const RETURN: u32 = 0x43a0_0000;

/// The program, beside the repository unless `IPU_CHECK_ROWS` says where.
pub fn checker() -> Option<PathBuf> {
    let beside = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/oracle/check_rows.py"
    );
    let path = std::env::var_os("IPU_CHECK_ROWS").map_or(PathBuf::from(beside), PathBuf::from);
    path.exists().then_some(path)
}

/// The phases of a package in the form that the program reads. Rows of a tile follow each other
/// in its rows area, each on 8 bytes.
pub fn phases(name: &str, program: &TileProgram, package: &Package) -> Result<Vec<Value>, String> {
    let area = program.rows_area.ok_or("no rows area")?;
    let words = |tile: u32| -> Vec<u32> {
        let images = package.images.tiles();
        let image = images.iter().find(|i| i.tile == tile);
        image
            .into_iter()
            .flat_map(|i| package.images.segments(i))
            .filter(|s| s.0 == area.address)
            .flat_map(|s| s.1.as_chunks::<4>().0)
            .map(|w| u32::from_le_bytes(*w))
            .collect()
    };
    let mut next = vec![0usize; program.tiles as usize];
    let address = |b: BufferId, offset: u32| {
        let base = program.buffer(b).address.unwrap_or(0);
        format!("{:#x}", base + offset)
    };
    let mut out = Vec::new();
    for step in &program.steps {
        let Step::Exchange {
            name: symbol,
            copies,
            schedule: Some(schedule),
            ..
        } = step
        else {
            continue;
        };
        let mut rows = Vec::new();
        for row in &schedule.rows {
            let all = words(row.tile);
            let cursor = &mut next[row.tile as usize];
            let rest = all.get(*cursor..).unwrap_or_default();
            let end = rest.iter().position(|&w| w == RETURN);
            let length =
                1 + end.ok_or_else(|| format!("{symbol}: tile {} has no row", row.tile))?;
            *cursor += length.next_multiple_of(2);
            let hex: Vec<String> = rest[..length]
                .iter()
                .map(|w| format!("{w:#010x}"))
                .collect();
            rows.push(json!({"tile_logical": row.tile, "row_words": hex, "horizon": row.horizon}));
        }
        // The checker does not model 64-bit items.
        let mut events = schedule.rows.iter().flat_map(|row| &row.events);
        if events.any(|e| matches!(e, Event::Send { direction, .. } if direction & WIDE != 0)) {
            continue;
        }
        let mut transfers = Vec::new();
        for copy in copies {
            for t in &copy.transfers {
                let to: Vec<Value> = t
                    .destinations
                    .iter()
                    .map(
                        |&(tile, o)| json!({"tile": tile, "address": address(copy.destination, o)}),
                    )
                    .collect();
                transfers.push(json!({
                    "source": t.source,
                    "source_address": address(copy.source, t.source_offset),
                    "words": t.words,
                    "destinations": to,
                }));
            }
        }
        let name = format!("{name}:{symbol}");
        out.push(json!({"name": name, "transfers": transfers, "rows": rows}));
    }
    Ok(out)
}

/// Runs the program on phases; its output, or why it refuses.
pub fn check(checker: &Path, phases: &[Value]) -> Result<String, String> {
    let failed = |e: std::io::Error| e.to_string();
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join("phases.json");
    std::fs::write(&file, json!({"phases": phases}).to_string()).map_err(failed)?;
    let run = Command::new("python3")
        .arg(checker)
        .arg(&file)
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    match run.status.success() {
        true => Ok(text),
        false => Err(text + &String::from_utf8_lossy(&run.stderr)),
    }
}
