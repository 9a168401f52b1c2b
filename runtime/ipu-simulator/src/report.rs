//! The long form of an error: where it happened, the code around it, the registers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::chip::Chip;
use crate::context::{Registers, WORKERS};
use crate::debug::disassemble;
use crate::fault::{Context, Fault, SimError};

/// Instructions shown on either side of the faulting one.
const AROUND: u32 = 4;

/// Places at which tiles stand that a report lists.
const PLACES: usize = 8;
/// Runs of tiles that a report lists for a place.
const RUNS: usize = 8;

/// Ascending tiles as `0-3,7`.
fn tiles_text(tiles: &[u32]) -> String {
    let runs: Vec<&[u32]> = tiles.chunk_by(|a, b| a + 1 == *b).collect();
    let texts = runs.iter().take(RUNS).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    let text = texts.collect::<Vec<_>>().join(",");
    match runs.iter().skip(RUNS).map(|run| run.len()).sum::<usize>() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Names of addresses of code.
#[derive(Clone, Debug, Default)]
pub struct Symbols(BTreeMap<u32, String>);

impl Symbols {
    /// Names and their addresses.
    pub fn new<S: Into<String>>(symbols: impl IntoIterator<Item = (S, u32)>) -> Symbols {
        Symbols(symbols.into_iter().map(|(n, a)| (a, n.into())).collect())
    }

    /// The last symbol at or before an address, with the distance, as `name+0x10`.
    pub fn name(&self, address: u32) -> Option<String> {
        let (start, name) = self.0.range(..=address).next_back()?;
        Some(match address - start {
            0 => name.clone(),
            offset => format!("{name}+{offset:#x}"),
        })
    }

    /// All names, by address.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// The address of a name.
    pub fn address(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(_, n)| *n == name).map(|(a, _)| *a)
    }
}

impl Chip {
    /// The long form of an error of this chip. `origin` names what a tile executes while its
    /// supervisor is at an address, such as an operation of the source program.
    pub fn report(
        &self,
        error: &SimError,
        symbols: &Symbols,
        origin: impl Fn(u32, u32) -> Option<String>,
    ) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = match error {
            SimError::Fault(fault) => self.write_fault(&mut out, fault, symbols, origin),
            SimError::Deadlock { .. } => {
                let _ = writeln!(out, "{error}");
                self.write_standing(&mut out, symbols, origin, |_| true)
            }
            SimError::MaxCycles { .. } => {
                let _ = writeln!(out, "{error}");
                // Those that wait are not what takes so long, unless all do.
                let all = self.standing().all(|(_, _, waits)| waits);
                self.write_standing(&mut out, symbols, origin, |waits| all || !waits)
            }
            _ => writeln!(out, "{error}"),
        };
        out
    }

    /// Where the tiles stand, those at one place on one line.
    fn write_standing(
        &self,
        out: &mut String,
        symbols: &Symbols,
        origin: impl Fn(u32, u32) -> Option<String>,
        shown: impl Fn(bool) -> bool,
    ) -> std::fmt::Result {
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for (tile, pc, _) in self.standing().filter(|&(_, _, waits)| shown(waits)) {
            let place = origin(tile, pc).unwrap_or_else(|| {
                let name = symbols.name(pc).map(|n| format!(" {n}"));
                format!("{pc:#x}{}", name.unwrap_or_default())
            });
            match groups.iter_mut().find(|(p, _)| *p == place) {
                Some((_, tiles)) => tiles.push(tile),
                None => groups.push((place, vec![tile])),
            }
        }
        for (place, tiles) in groups.iter().take(PLACES) {
            let noun = if tiles.len() == 1 { "tile" } else { "tiles" };
            writeln!(out, "  {noun} {} at {place}", tiles_text(tiles))?;
        }
        match groups.len().saturating_sub(PLACES) {
            0 => Ok(()),
            n => writeln!(out, "  and tiles at {n} more places"),
        }
    }

    fn write_fault(
        &self,
        out: &mut String,
        fault: &Fault,
        symbols: &Symbols,
        origin: impl Fn(u32, u32) -> Option<String>,
    ) -> std::fmt::Result {
        let place = symbols.name(fault.pc);
        writeln!(out, "{}", fault.reason)?;
        if let Some((code, name)) = fault.reason.code() {
            writeln!(out, "  exception  {code} {name}")?;
        }
        writeln!(
            out,
            "  tile       {} (physical {:#x}), {}",
            fault.tile, fault.physical, fault.context
        )?;
        let place = place.map(|p| format!(" {p}")).unwrap_or_default();
        writeln!(out, "  pc         {:#x}{place}", fault.pc)?;
        let syncs = self.syncs().len();
        writeln!(out, "  cycle      {}, after {syncs} syncs", fault.cycle)?;
        let at = self.standing().find(|(tile, ..)| *tile == fault.tile);
        let at = at.map_or(fault.pc, |(_, pc, _)| pc);
        if let Some(origin) = origin(fault.tile, at) {
            writeln!(out, "  from       {origin}")?;
        }
        self.write_code(out, fault, symbols)?;
        let registers = match fault.context {
            Context::Supervisor => self.supervisor_registers(fault.tile),
            Context::Worker(n) => self.worker_registers(fault.tile, n.into()),
        };
        if let Ok(registers) = registers {
            write_registers(out, registers, fault.context != Context::Supervisor)?;
        }
        Ok(())
    }

    fn write_code(&self, out: &mut String, fault: &Fault, symbols: &Symbols) -> std::fmt::Result {
        let word = |address: u32| {
            let bytes = self.read(fault.tile, address, 4).ok()?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        // Instructions have one or two words: start far enough before that decoding is in step.
        let mut starts: Vec<u32> = Vec::new();
        let mut back = fault.pc.saturating_sub(8 * AROUND);
        while back < fault.pc {
            let Some(first) = word(back) else {
                back += 4;
                continue;
            };
            let (_, words) = disassemble([first, word(back + 4).unwrap_or(0)]);
            let end = back + 4 * words;
            if end <= fault.pc {
                starts.push(back);
            }
            back = end;
        }
        let skipped = starts.len().saturating_sub(AROUND as usize);
        let mut at = *starts.get(skipped).unwrap_or(&fault.pc);
        let mut after = 0;
        while after <= AROUND {
            let Some(first) = word(at) else {
                break;
            };
            let (text, words) = disassemble([first, word(at + 4).unwrap_or(0)]);
            if let Some(name) = symbols.name(at).filter(|n| !n.contains('+')) {
                writeln!(out, "  {name}:")?;
            }
            let mark = if at == fault.pc { "->" } else { "  " };
            writeln!(out, "  {mark} {at:#07x}  {text}")?;
            if at >= fault.pc {
                after += 1;
            }
            at += 4 * words;
        }
        Ok(())
    }
}

/// Writes both register files.
fn write_registers(out: &mut String, registers: &Registers, worker: bool) -> std::fmt::Result {
    let mut file = |name: char, values: &[u32]| -> std::fmt::Result {
        for (row, four) in values.chunks(4).enumerate() {
            out.push_str("  ");
            for (i, value) in four.iter().enumerate() {
                write!(out, "{:>4} {value:#010x}", format!("{name}{}", 4 * row + i))?;
            }
            out.push('\n');
        }
        Ok(())
    };
    file('m', &registers.m[..if worker { 14 } else { 12 }])?;
    if worker {
        file('a', &registers.a[..8])?;
    }
    Ok(())
}

/// The registers of a context as text, four a line.
pub fn registers_text(registers: &Registers, worker: bool) -> String {
    let mut out = String::new();
    let _ = write_registers(&mut out, registers, worker);
    out
}

/// Contexts of a tile, for whoever lists them.
pub fn contexts() -> impl Iterator<Item = Context> {
    std::iter::once(Context::Supervisor).chain((0..WORKERS as u8).map(Context::Worker))
}
