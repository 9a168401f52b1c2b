//! What arrives on a tile, and where its pointer puts it.

use super::decode::Decoded;
use super::{CheckError, Write};
use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};

/// The bit in which the physical numbers of a pair differ.
const PAIR: u16 = 2;

/// Events by which a format is seen before the write that it is for.
const FORMAT_LEAD: u32 = 2;

/// A run of items on their way into memory.
#[derive(Clone, Copy)]
struct Arrival {
    /// Event of the first write.
    at: u32,
    items: u32,
    /// Bytes of an item.
    bytes: u32,
    /// Format that takes them.
    format: u32,
    source: u32,
    source_address: u32,
    sent: u32,
}

/// Follows the muxes and the pointer of one tile and lists what is written, by time.
pub(super) fn writes(
    target: &Target,
    d: &Decoded,
    rows: &[Decoded],
    of_physical: &[u32],
) -> Result<Vec<Write>, CheckError> {
    let fail = |what: String| CheckError { tile: d.tile, what };
    let row = |physical: u32| {
        let row = of_physical.get(physical as usize).copied();
        row.and_then(|r| rows.get(r as usize))
    };
    let mut arrivals = Vec::new();
    windows(target, d, &row, false, &d.mux, &mut arrivals).map_err(fail)?;
    // The settings of both tiles of the pair, each with what the setter's side makes of it.
    let partner = row(u32::from(d.physical.0 ^ PAIR));
    let mut settings: Vec<(u32, u32)> = Vec::new();
    for setter in [Some(d), partner].into_iter().flatten() {
        for &(at, value) in &setter.pair_mux {
            let mut source = value;
            if value != target.mux_neutral {
                source ^= u32::from(setter.physical.0 & PAIR);
                steered_by_the_earlier(at, source, setter).map_err(fail)?;
            }
            settings.push((at, source));
        }
    }
    settings.sort_unstable();
    if let Some(two) = settings.windows(2).find(|s| s[0].0 == s[1].0) {
        return Err(fail(format!(
            "and its partner both set the mux of the pair at event {}",
            two[0].0
        )));
    }
    windows(target, d, &row, true, &settings, &mut arrivals).map_err(fail)?;
    arrivals.sort_unstable_by_key(|a| a.at);
    if let Some(two) = arrivals.windows(2).find(|a| a[0].at + a[0].items > a[1].at) {
        return Err(fail(format!(
            "is to write two items at event {}",
            two[1].at
        )));
    }
    formats(d, &arrivals).map_err(fail)?;
    land(d, &arrivals).map_err(fail)
}

/// The mux of a pair is set by the tile that items reach first.
fn steered_by_the_earlier(at: u32, source: u32, setter: &Decoded) -> Result<(), String> {
    let partner = Physical(setter.physical.0 ^ PAIR);
    let from = u16::try_from(source).map(Physical);
    let Some(from) = from.ok().filter(|f| f.to_logical().is_some()) else {
        return Err(format!("selects {source} at event {at}, which is no tile"));
    };
    if from == setter.physical || from == partner {
        return Err(format!("selects its own pair at event {at}"));
    }
    if time_to_mux(from, setter.physical) > time_to_mux(from, partner) {
        return Err(format!(
            "gets the mux of its pair set at event {at} by tile {}, which items reach last",
            setter.tile
        ));
    }
    Ok(())
}

/// Adds what arrives while a mux selects tiles: every event must bring an item.
fn windows<'r>(
    target: &Target,
    d: &Decoded,
    row: &dyn Fn(u32) -> Option<&'r Decoded>,
    wide: bool,
    settings: &[(u32, u32)],
    out: &mut Vec<Arrival>,
) -> Result<(), String> {
    let delay = target.first_write_after_mux + 2 * d.physical.row() as u32;
    let bytes = if wide { 8 } else { 4 };
    for (i, &(from, selected)) in settings.iter().enumerate() {
        if selected == target.mux_neutral {
            continue;
        }
        // The last setting is neutral, so another one follows.
        let to = settings.get(i + 1).map_or(from, |m| m.0);
        let Some(s) = row(selected) else {
            return Err(format!(
                "selects physical tile {selected} at event {from}, which has no row"
            ));
        };
        let mut time = time_to_mux(s.physical, d.physical);
        if wide {
            // Counted where items arrive first; both tiles write one event later than that one.
            time = time.min(time_to_mux(s.physical, Physical(d.physical.0 ^ PAIR)));
        }
        let lag = i64::from(time) + 1;
        let towards = direction(s.physical, d.physical);
        // Arrivals are in the order of the sends.
        let first = s
            .sends
            .partition_point(|x| i64::from(x.end()) + lag <= i64::from(from));
        let mut covered = from;
        for stream in &s.sends[first..] {
            let start = i64::from(stream.start) + lag;
            if start >= i64::from(to) {
                break;
            }
            if stream.direction & towards == 0 {
                continue;
            }
            if stream.bytes != bytes {
                return Err(format!(
                    "selects tile {} at event {covered} for items of {bytes} bytes, and {} arrive",
                    s.tile, stream.bytes
                ));
            }
            let begin = start.max(i64::from(from)) as u32;
            let end = (start + i64::from(stream.items)).min(i64::from(to)) as u32;
            if begin != covered {
                break;
            }
            covered = end;
            let skipped = (i64::from(begin) - start) as u32;
            out.push(Arrival {
                at: begin + delay + u32::from(wide),
                items: end - begin,
                bytes,
                format: if wide { towards.into() } else { 0 },
                source: s.tile,
                source_address: stream.address + bytes * skipped,
                sent: stream.start + skipped,
            });
        }
        if covered != to {
            return Err(format!(
                "selects tile {} at event {covered}, when nothing arrives from it",
                s.tile
            ));
        }
    }
    Ok(())
}

/// Compares the format at each event with what arrives.
fn formats(d: &Decoded, arrivals: &[Arrival]) -> Result<(), String> {
    // Runs of events with one format other than 0, as settings say and as items need.
    let join = |runs: &mut Vec<(u32, u32, u32)>, run: (u32, u32, u32)| match runs.last_mut() {
        _ if run.2 == 0 || run.0 == run.1 => {}
        Some(last) if (last.1, last.2) == (run.0, run.2) => last.1 = run.1,
        _ => runs.push(run),
    };
    let (mut set, mut needed) = (Vec::new(), Vec::new());
    for pair in d.format.windows(2) {
        join(&mut set, (pair[0].0, pair[1].0, pair[0].1));
    }
    for a in arrivals.iter().filter(|a| a.format != 0) {
        let from = a.at - FORMAT_LEAD;
        join(&mut needed, (from, from + a.items, a.format));
    }
    if set == needed {
        return Ok(());
    }
    let differs = set.iter().zip(&needed).position(|(a, b)| a != b);
    let i = differs.unwrap_or(set.len().min(needed.len()));
    let show = |run: Option<&(u32, u32, u32)>| match run {
        Some((from, to, format)) => format!("{format} from event {from} to {to}"),
        None => "none".to_owned(),
    };
    Err(format!(
        "has format {}, the items that arrive need {}",
        show(set.get(i)),
        show(needed.get(i))
    ))
}

/// Puts what arrives where the pointer says.
fn land(d: &Decoded, arrivals: &[Arrival]) -> Result<Vec<Write>, String> {
    let mut out = Vec::with_capacity(arrivals.len());
    let mut pointers = d.pointer.iter().peekable();
    let mut pointer: Option<u32> = None;
    for a in arrivals {
        let (mut event, mut items) = (a.at, a.items);
        while items > 0 {
            while let Some(&(_, address)) = pointers.next_if(|p| p.0 <= event) {
                pointer = Some(address);
            }
            let run = pointers.peek().map_or(items, |p| items.min(p.0 - event));
            let Some(address) = pointer else {
                return Err(format!(
                    "a word is written at event {event} before any pointer is set"
                ));
            };
            if !address.is_multiple_of(a.bytes) {
                return Err(format!(
                    "writes items of {} bytes at {address:#x}, event {event}",
                    a.bytes
                ));
            }
            let done = event - a.at;
            out.push(Write {
                start: event,
                words: run * (a.bytes / 4),
                width: a.bytes / 4,
                address,
                source: a.source,
                source_address: a.source_address + a.bytes * done,
                sent: a.sent + done,
            });
            let next = u64::from(address) + u64::from(a.bytes) * u64::from(run);
            pointer = Some(u32::try_from(next).unwrap_or(u32::MAX));
            event += run;
            items -= run;
        }
    }
    Ok(out)
}
