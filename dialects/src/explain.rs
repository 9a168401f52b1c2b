//! Reports of passes for people, asked for by flags of the driver: `--explain-selection`,
//! `--explain-exchange`, `--explain-memory`, `--verify-exchange`, each alone or with `=text` or
//! `=json`, and `--memory-map=TILE`. `--verify-exchange` also adds the pass that does it to the end
//! of the pipeline.
//!
//! A pass asks [`wanted`] and, if so, [`add`]s its report; passes on several candidates run side by
//! side, so reports are kept until the pipeline is done and come out ordered by flag and subject,
//! on standard error: standard output is for IR.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

/// A report that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// Why these operators and plans.
    Selection,
    /// The certificate of each exchange phase.
    Exchange,
    /// How full the tiles are and of what.
    Memory,
    /// Every address range of one tile.
    MemoryMap,
    /// What the checker of exchange rows read.
    VerifyExchange,
}

impl Report {
    /// All, with their flags.
    pub const FLAGS: [(&'static str, Report); 5] = [
        ("explain-selection", Report::Selection),
        ("explain-exchange", Report::Exchange),
        ("explain-memory", Report::Memory),
        ("memory-map", Report::MemoryMap),
        ("verify-exchange", Report::VerifyExchange),
    ];

    fn flag(self) -> &'static str {
        let found = Self::FLAGS.iter().find(|f| f.1 == self);
        found.map_or("", |f| f.0)
    }
}

/// How a report is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As a JSON array, an element for each subject; as text otherwise.
    pub json: bool,
    /// Tile that the report is about, where it is about one.
    pub tile: u32,
}

/// What was asked for and what was found.
struct State {
    wanted: BTreeMap<Report, Wanted>,
    found: BTreeMap<(Report, String), String>,
}

static STATE: Mutex<State> = Mutex::new(State {
    wanted: BTreeMap::new(),
    found: BTreeMap::new(),
});

/// The state, whatever happened to a thread that held it: it is never left half changed.
fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Whether and how a report is wanted.
pub fn wanted(report: Report) -> Option<Wanted> {
    state().wanted.get(&report).copied()
}

/// Asks for a report.
pub fn want(report: Report, how: Wanted) {
    state().wanted.insert(report, how);
}

/// Leaves a report about a subject (a candidate), in the form that is wanted; the last about a
/// subject stays.
pub fn add(report: Report, subject: &str, value: &impl Serialize, text: impl Into<String>) {
    let Some(how) = wanted(report) else { return };
    let text = if how.json {
        serde_json::to_string_pretty(value).unwrap_or_else(|e| format!("\"{e}\""))
    } else {
        text.into()
    };
    state().found.insert((report, subject.to_owned()), text);
}

/// All reports left since the last call, as they are printed.
pub fn take() -> String {
    let mut state = state();
    let found = std::mem::take(&mut state.found);
    let mut out = String::new();
    for (&report, how) in &state.wanted {
        let of = |(key, text)| (key == report).then_some(text);
        let list: Vec<&String> = found.iter().filter_map(|(k, t)| of((k.0, t))).collect();
        if how.json {
            let inner: Vec<&str> = list.iter().map(|t| t.as_str()).collect();
            let _ = writeln!(out, "[{}]", inner.join(",\n"));
        } else {
            for text in list {
                let _ = writeln!(out, "{}", text.trim_end());
            }
        }
    }
    out
}

/// Asks for the report whose flag an argument is; whether it is one.
///
/// # Errors
/// The flag has a value that it does not take.
pub fn ask(argument: &str) -> Result<bool, String> {
    let Some(asked) = parse(argument) else {
        return Ok(false);
    };
    let (report, how) = asked?;
    want(report, how);
    Ok(true)
}

fn parse(arg: &str) -> Option<Result<(Report, Wanted), String>> {
    let rest = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let (name, value) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (rest, None),
    };
    let report = Report::FLAGS.iter().find(|f| f.0 == name)?.1;
    let json = |json| Ok((report, Wanted { json, tile: 0 }));
    Some(match (report, value) {
        (Report::MemoryMap, value) => match value.map(str::parse) {
            Some(Ok(tile)) => Ok((report, Wanted { json: false, tile })),
            _ => Err(format!(
                "--{} takes the number of a tile: --{0}=0",
                report.flag()
            )),
        },
        (_, None | Some("text")) => json(false),
        (_, Some("json")) => json(true),
        (_, Some(other)) => Err(format!(
            "--{} is text or json, not '{other}'",
            report.flag()
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let of = |text: &str| parse(text).map(|r| r.map(|(r, w)| (r, w.json, w.tile)));
        assert_eq!(of("--explain-memory"), Some(Ok((Report::Memory, false, 0))));
        assert_eq!(
            of("-explain-exchange=json"),
            Some(Ok((Report::Exchange, true, 0)))
        );
        assert_eq!(
            of("--memory-map=7"),
            Some(Ok((Report::MemoryMap, false, 7)))
        );
        assert!(matches!(of("--memory-map"), Some(Err(_))));
        assert!(matches!(of("--explain-memory=xml"), Some(Err(_))));
        assert_eq!(of("--explain"), None);
        assert_eq!(of("explain-memory"), None);
    }
}
