//! Programs of dialect `tile` as [`TileProgram`], and back without loss.

mod build;
mod certificate;
mod conflict;
mod table;

pub use build::{build, replace};

use crate::diag::{Failed, emit_error};
use crate::graph::{self, read_type, read_values};
use crate::ir;
use crate::pipeline::did_you_mean;
use ipu_program::graph::Graph;
use ipu_program::host::HostValues;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{
    Binding, Buffer, BufferId, Compute, Copy, Event, Row, RowsArea, Schedule, Source, Step,
    TileProgram, Transfer, WIDE,
};
use ipu_program::view::Walk;
use melior::ir::OperationRef;
use melior::ir::attribute::TypeAttribute;
use melior::ir::operation::OperationLike;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;

type Read<T> = Result<T, String>;

/// Verifies one operation on its own.
pub(crate) fn verify(op: OperationRef<'_, '_>, name: &str) -> Read<()> {
    match name {
        "program" => match word(op, "tiles")? {
            0 => Err("has no tiles".into()),
            _ => Ok(()),
        },
        // The rest is checked with its program.
        _ => Ok(()),
    }
}

/// Verifies a whole program: everything that is wrong, each at its own operation.
pub(crate) fn verify_program(op: OperationRef<'_, '_>) -> bool {
    read(op).is_ok()
}

/// A `u32` in an integer attribute.
fn word(op: OperationRef<'_, '_>, name: &str) -> Read<u32> {
    optional_word(op, name)?.ok_or_else(|| format!("has no {name}"))
}

fn optional_word(op: OperationRef<'_, '_>, name: &str) -> Read<Option<u32>> {
    let fit =
        |n: i64| u32::try_from(n).map_err(|_| format!("has {n} as {name}, not a 32-bit number"));
    ir::int(op, name).map(fit).transpose()
}

/// Two numbers of which both or none must be there.
fn pair(op: OperationRef<'_, '_>, [a, b]: [&str; 2]) -> Read<Option<(u32, u32)>> {
    match (optional_word(op, a)?, optional_word(op, b)?) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        _ => Err(format!("needs both {a} and {b}, or none")),
    }
}

fn rows_area(op: OperationRef<'_, '_>) -> Read<Option<RowsArea>> {
    let area = pair(op, ["rows_address", "rows_bytes"])?;
    Ok(area.map(|(address, bytes)| RowsArea { address, bytes }))
}

fn symbol(op: OperationRef<'_, '_>) -> String {
    ir::string(op, "sym_name").unwrap_or_default().to_owned()
}

/// Reads a `tile.program`. Everything that is wrong is reported, each thing at its own operation.
///
/// # Errors
/// Diagnostics were emitted: numbers out of range, unknown buffers or kinds of steps, tables of
/// another length than their step says.
pub fn read(op: OperationRef<'_, '_>) -> Result<TileProgram, Failed> {
    let tiles = word(op, "tiles").map_err(|e| emit_error(op, e))?;
    let rows_area = rows_area(op).map_err(|e| emit_error(op, e))?;
    let program = TileProgram {
        name: symbol(op),
        tiles,
        rows_area,
        ..TileProgram::default()
    };
    let mut reader = Reader {
        program,
        ids: BTreeMap::new(),
        steps: BTreeSet::new(),
        broken: false,
    };
    let mut failed = None;
    let (host, ops): (Vec<_>, Vec<_>) =
        ir::body_ops(op).partition(|op| ir::name(*op) == "tile.host");
    let (buffers, rest): (Vec<_>, Vec<_>) = ops
        .into_iter()
        .partition(|op| ir::name(*op) == "tile.buffer");
    let functions = host.into_iter().flat_map(ir::body_ops);
    for op in functions.chain(buffers).chain(rest) {
        let result = match ir::name(op).as_str() {
            "func.func" => match graph::read(op) {
                Ok(function) => reader.function(function),
                // Everything was reported.
                Err(e) => {
                    failed = Some(e);
                    continue;
                }
            },
            "tile.buffer" => reader.buffer(op),
            "tile.bind" => reader.bind(op),
            "tile.compute" => reader.compute(op),
            "tile.rearrange" => reader.rearrange(op),
            "tile.exchange" => reader.exchange(op),
            _ => Err("does not belong into a tile.program".into()),
        };
        if let Err(e) = result {
            failed = Some(emit_error(op, e));
            reader.broken |= ir::name(op) == "tile.buffer";
        }
    }
    failed.map_or(Ok(reader.program), Err)
}

struct Reader {
    program: TileProgram,
    ids: BTreeMap<String, BufferId>,
    steps: BTreeSet<String>,
    /// A buffer could not be read: ids may be wrong, so that uses are not checked further.
    broken: bool,
}

impl Reader {
    /// A function that the host executes, before the first run or, with arguments, at each.
    fn function(&mut self, function: Graph) -> Read<()> {
        let name = function.name.clone();
        let host = HostValues::of(&function);
        let other = function.ops.iter().find(|op| !host.is_done(op.result));
        let problem = if function.outputs.is_empty() {
            Some(format!("@{name} has no results"))
        } else {
            other.map(|op| {
                let kind = op.kind.name();
                format!("@{name} has an 'nn.{kind}', which the host does not compute")
            })
        };
        // Known nevertheless: its uses are no second error.
        self.program.host.push(function);
        problem.map_or(Ok(()), Err)
    }

    fn buffer(&mut self, op: OperationRef<'_, '_>) -> Read<()> {
        let name = symbol(op);
        let ty = op
            .attribute("type")
            .and_then(TypeAttribute::try_from)
            .map_err(|e| e.to_string())?;
        // Known from here on, so that its uses are not reported as well.
        let id = BufferId(self.program.buffers.len() as u32);
        let twice = self.ids.insert(name.clone(), id).is_some();
        let (ty, layout) = read_type(ty.value()).map_err(|e| format!("@{name}: {e}"))?;
        let layout = layout.ok_or_else(|| format!("@{name} is {ty} without an #ipu.layout"))?;
        let buffer = Buffer {
            ty,
            layout,
            align: word(op, "align")?,
            tail: optional_word(op, "tail")?.unwrap_or_default(),
            live: pair(op, ["first_step", "last_step"])?,
            address: optional_word(op, "address")?,
            location: ir::location(op),
            name,
        };
        let Buffer {
            name,
            align,
            address,
            live,
            layout,
            ..
        } = &buffer;
        if twice {
            return Err(format!("@{name} is defined twice"));
        }
        if !align.is_power_of_two() {
            return Err(format!("@{name} has alignment {align}, not a power of two"));
        }
        if let Some(address) = address.filter(|a| a % align != 0) {
            return Err(format!(
                "@{name} is at {address:#x}, not a multiple of its alignment {align}"
            ));
        }
        if let Some((first, last)) = live.filter(|(first, last)| first > last) {
            return Err(format!(
                "@{name} is live from step {first} to {last}, which is before"
            ));
        }
        let (end, tiles) = (layout.tile_end(), self.program.tiles);
        if end > tiles {
            return Err(format!(
                "@{name} needs tile {}, the program has {tiles} tiles",
                end - 1
            ));
        }
        let mut seen = BTreeSet::new();
        let shards = layout.shards(buffer.ty.matrix());
        if let Some(twice) = shards.iter().find(|s| !seen.insert(s.tile)) {
            return Err(format!(
                "@{name} has two parts on tile {}, a tile holds one",
                twice.tile
            ));
        }
        self.program.buffers.push(buffer);
        Ok(())
    }

    fn named(&self, name: &str) -> Read<BufferId> {
        let known = self.ids.keys().map(String::as_str);
        let unknown = || {
            format!(
                "refers to unknown buffer @{name}{}",
                did_you_mean(name, known)
            )
        };
        self.ids.get(name).copied().ok_or_else(unknown)
    }

    fn reference(&self, op: OperationRef<'_, '_>, attribute: &str) -> Read<BufferId> {
        self.named(ir::string(op, attribute).unwrap_or_default())
    }

    fn references(&self, op: OperationRef<'_, '_>) -> Read<Vec<BufferId>> {
        let names = ir::array(op, "buffers");
        names
            .into_iter()
            .map(|a| self.named(ir::attribute_str(a).unwrap_or_default()))
            .collect()
    }

    /// The buffer; `None` when it is not worth looking.
    fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.program
            .buffers
            .get(id.0 as usize)
            .filter(|_| !self.broken)
    }

    fn bind(&mut self, op: OperationRef<'_, '_>) -> Read<()> {
        let buffer = self.reference(op, "buffer")?;
        let parameter = ir::string(op, "parameter");
        let (input, output) = (optional_word(op, "input")?, optional_word(op, "output")?);
        let value = op.attribute("value").ok();
        let host = ir::string(op, "host");
        let source = match (input, output, parameter, value, host) {
            (Some(i), None, None, None, None) => Source::Input(i),
            (None, Some(i), None, None, None) => Source::Output(i),
            (None, None, Some(name), None, None) => {
                let ty = op.attribute("type").and_then(TypeAttribute::try_from);
                let ty = ty.map_err(|_| "needs the type of the parameter")?;
                Source::Parameter {
                    name: name.into(),
                    ty: read_type(ty.value())?.0,
                }
            }
            (None, None, None, Some(value), None) => {
                let ty = ir::attribute_type(value).ok_or("needs a constant with a type")?;
                let ty = read_type(ty)?.0;
                Source::Constant {
                    values: read_values(value, ty.element)?,
                    ty,
                }
            }
            (None, None, None, None, Some(name)) => self.host(name, word(op, "result")?)?,
            _ => {
                return Err(
                    "needs exactly one of: input, output, parameter, constant, host".into(),
                );
            }
        };
        self.program.bindings.push(Binding { source, buffer });
        Ok(())
    }

    /// A result of a host function.
    fn host(&self, name: &str, result: u32) -> Read<Source> {
        let functions = &self.program.host;
        let Some(function) = functions.iter().position(|f| f.name == name) else {
            let known = functions.iter().map(|f| f.name.as_str());
            let hint = did_you_mean(name, known);
            return Err(format!("refers to unknown host function @{name}{hint}"));
        };
        let count = functions[function].outputs.len();
        if result as usize >= count {
            return Err(format!(
                "names result {result} of @{name}, which has {count}"
            ));
        }
        let arguments = !functions[function].inputs.is_empty();
        let function = function as u32;
        Ok(match arguments {
            true => Source::HostStep { function, result },
            false => Source::Host { function, result },
        })
    }

    fn step(&mut self, op: OperationRef<'_, '_>) -> Read<(String, String)> {
        let name = symbol(op);
        if !self.steps.insert(name.clone()) {
            return Err(format!("@{name} is defined twice"));
        }
        Ok((name, ir::location(op)))
    }

    fn in_range(&self, tile: u32) -> Read<()> {
        let tiles = self.program.tiles;
        if tile < tiles {
            Ok(())
        } else {
            Err(format!("names tile {tile}, the program has {tiles} tiles"))
        }
    }

    fn compute(&mut self, op: OperationRef<'_, '_>) -> Read<()> {
        let (name, location) = self.step(op)?;
        let kernel = ir::string(op, "kernel").unwrap_or_default().to_owned();
        let buffers = self.references(op)?;
        let tiles = ir::words(op, "tiles").unwrap_or_default();
        let words = ir::words(op, "words").unwrap_or_default();
        let registry = Kernels::builtin();
        let Some(known) = registry.get(&kernel) else {
            let hint = did_you_mean(&kernel, registry.kernels.keys().map(String::as_str));
            return Err(format!("calls unknown kernel \"{kernel}\"{hint}"));
        };
        let listed = |names: Vec<&str>| {
            if names.is_empty() {
                "none".into()
            } else {
                names.join(", ")
            }
        };
        if buffers.len() != known.buffers.len() {
            let names = listed(known.buffers.iter().map(|b| b.name.as_str()).collect());
            return Err(format!(
                "gives \"{kernel}\" {} buffers, it takes {}: {names}",
                buffers.len(),
                known.buffers.len()
            ));
        }
        let table = optional_word(op, "table")?.unwrap_or_default() as usize;
        let then = known.table.as_deref();
        if table > 0 && then.is_none() {
            return Err(format!(
                "gives \"{kernel}\" a table of {table} words, it takes none"
            ));
        }
        let width = known.record_words(words.len(), tiles.len());
        if width != Some(known.words.len() + table) && !(tiles.is_empty() && words.is_empty()) {
            return Err(format!(
                "gives \"{kernel}\" {} words for {} tiles, each takes {}: {}{}",
                words.len(),
                tiles.len(),
                known.words.len(),
                listed(known.words.iter().map(String::as_str).collect()),
                match then {
                    Some(name) => format!("; then the table '{name}', here of {table}"),
                    None => String::new(),
                }
            ));
        }
        tiles.iter().try_for_each(|t| self.in_range(*t))?;
        if let Some(w) = tiles.array_windows().find(|[a, b]| a >= b) {
            return Err(format!(
                "lists tile {} after tile {}, tiles ascend",
                w[1], w[0]
            ));
        }
        self.program.steps.push(Step::Compute(Compute {
            name,
            kernel,
            buffers,
            tiles,
            words,
            location,
        }));
        Ok(())
    }

    fn rearrange(&mut self, op: OperationRef<'_, '_>) -> Read<()> {
        let (name, location) = self.step(op)?;
        let (source, destination) = (
            self.reference(op, "source")?,
            self.reference(op, "destination")?,
        );
        let view = ir::longs(op, "view").map(|words| table::read_view(&words));
        let view = view.transpose()?;
        if let (Some(s), Some(d)) = (self.get(source), self.get(destination)) {
            Walk::new(view.as_ref(), s.ty.elements(), d.ty.elements()).map_err(|e| {
                format!("from @{}, {}, to @{}, {}: {e}", s.name, s.ty, d.name, d.ty)
            })?;
        }
        self.program.steps.push(Step::Rearrange {
            view,
            name,
            source,
            destination,
            location,
        });
        Ok(())
    }

    fn exchange(&mut self, op: OperationRef<'_, '_>) -> Read<()> {
        let (name, location) = self.step(op)?;
        let buffers = self.references(op)?;
        let table = ir::words(op, "copies").unwrap_or_default();
        let copies = Table {
            words: &table,
            buffers: &buffers,
        }
        .whole("copies", Table::copies)?;
        let schedule = ir::words(op, "schedule");
        let schedule = schedule
            .map(|words| {
                Table {
                    words: &words,
                    buffers: &buffers,
                }
                .whole("schedule", Table::schedule)
            })
            .transpose()?;
        copies.iter().try_for_each(|copy| self.check_copy(copy))?;
        conflict::writers(&copies, |id| self.get(id).map_or("", |b| &b.name))?;
        let mut schedule = schedule;
        if let Some(schedule) = &mut schedule {
            self.check_schedule(schedule)?;
            schedule.certificate = certificate::read(op)?;
        }
        self.program.steps.push(Step::Exchange {
            name,
            copies,
            schedule,
            location,
        });
        Ok(())
    }

    /// Checks that words lie in a buffer.
    fn check_span(&self, id: BufferId, offset: u32, words: u32) -> Read<()> {
        let Some(buffer) = self.get(id) else {
            return Ok(());
        };
        let end = u64::from(offset) + 4 * u64::from(words);
        if end <= buffer.bytes().into() {
            return Ok(());
        }
        Err(format!(
            "reaches byte {end} of @{}, which has {}",
            buffer.name,
            buffer.bytes()
        ))
    }

    fn check_copy(&self, copy: &Copy) -> Read<()> {
        copy.transfers.iter().try_for_each(|t| {
            self.check_transfer(copy, t).map_err(|e| {
                let shown = t.destinations.iter().take(4);
                let to: Vec<String> = shown.map(|(tile, o)| format!("{tile}+{o}")).collect();
                let rest = match t.destinations.len() - to.len() {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                format!(
                    "{e}, in transfer [{}+{} x {} -> {}{rest}]",
                    t.source,
                    t.source_offset,
                    t.words,
                    to.join(" and ")
                )
            })
        })
    }

    fn check_transfer(&self, copy: &Copy, transfer: &Transfer) -> Read<()> {
        let Transfer {
            source,
            source_offset,
            words,
            destinations,
        } = transfer;
        self.in_range(*source)?;
        self.check_span(copy.source, *source_offset, *words)?;
        if *words == 0 || destinations.is_empty() {
            return Err(format!("transfers nothing from tile {source}"));
        }
        for (tile, offset) in destinations {
            self.in_range(*tile)?;
            self.check_span(copy.destination, *offset, *words)?;
            if tile == source {
                return Err(format!("sends from tile {tile} to itself"));
            }
        }
        Ok(())
    }

    fn check_schedule(&self, schedule: &Schedule) -> Read<()> {
        let mut before = None;
        for Row {
            tile,
            events,
            horizon,
        } in &schedule.rows
        {
            self.in_range(*tile)?;
            if before.replace(*tile).is_some_and(|b| b >= *tile) {
                return Err(format!("has the row of tile {tile} out of order"));
            }
            if *horizon > schedule.horizon {
                return Err(format!(
                    "has a row of tile {tile} until {horizon}, beyond the horizon {}",
                    schedule.horizon
                ));
            }
            for event in events {
                match *event {
                    Event::Send {
                        buffer,
                        offset,
                        words,
                        direction,
                        ..
                    } => {
                        self.check_span(buffer, offset, words)?;
                        if !(1..=3).contains(&(direction & !WIDE)) {
                            return Err(format!(
                                "sends on tile {tile} in direction {direction}, not 1, 2 or 3 (or \
                                 4 more for 64-bit items)"
                            ));
                        }
                        if direction & WIDE != 0 && (!words.is_multiple_of(2) || offset % 8 != 0) {
                            return Err(format!(
                                "sends {words} words at offset {offset} on tile {tile}, which are \
                                 no 64-bit items"
                            ));
                        }
                    }
                    Event::Mux { source, .. } | Event::PairMux { source, .. } => {
                        source.map_or(Ok(()), |s| self.in_range(s))?;
                    }
                    Event::Format { value, .. } => {
                        if value > 2 {
                            return Err(format!(
                                "sets format {value} on tile {tile}, not 0, 1 or 2"
                            ));
                        }
                    }
                    Event::Pointer { buffer, offset, .. } => self.check_span(buffer, offset, 0)?,
                }
            }
        }
        Ok(())
    }
}
