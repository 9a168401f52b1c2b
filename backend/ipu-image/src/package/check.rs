//! The rules that hold for every package.
//!
//! Tiles are below the target's count and ascend; segments lie between `load_base` and
//! `loader_end`, ascend and do not overlap; every blob is used; the entry is loaded, executable
//! code on every tile; the host protocol is that of the format; every operator of a host function
//! reads results before its own, of types that it takes, and the tensors of a function are of
//! bounded size together; every binding names an existing input, output or result of a host
//! function, fits its type, and its layout holds the tensor on distinct tiles within tile
//! memory; every output is bound once; places name existing tiles and every step; the peak memory
//! is at least the image of its tile and at most the memory of a tile; symbols lie in tile memory
//! and are sorted; the description has buffers within tile memory, tiles that exist, and either no
//! steps or those of the program.

use super::error::value;
use super::{Binding, HostCall, HostFunction, Metadata, Package, PackageError, Source};
use ipu_program::graph::OpKind;
use ipu_program::infer;
use ipu_program::layout::{ElementOrder, Layout, PANEL, Split};
use ipu_program::types::TensorType;
use ipu_target::Target;
use std::collections::BTreeSet;

const METADATA: &str = "metadata";
const IMAGES: &str = "images";
const SYMBOLS: &str = "symbols";
const DESCRIPTION: &str = "description";
/// Most elements of a tensor: keeps all index arithmetic within 32 bits.
const MAX_ELEMENTS: u64 = 1 << 31;

type Result<T = ()> = std::result::Result<T, PackageError>;

pub(super) fn check(package: &Package, target: &Target) -> Result {
    images(package, target)?;
    metadata(&package.metadata, target)?;
    peak_memory(package, target)?;
    symbols(package, target)?;
    description(package, target)
}

fn description(package: &Package, target: &Target) -> Result {
    let d = &package.description;
    let steps = package.metadata.steps.len();
    if !d.steps.is_empty() && d.steps.len() != steps {
        let expected = format!("0 or {steps}");
        return Err(value(
            DESCRIPTION,
            "number of steps",
            d.steps.len(),
            expected,
        ));
    }
    for (i, step) in d.steps.iter().enumerate() {
        let outside = |&&(first, count): &&(u32, u32)| {
            count == 0 || u64::from(first) + u64::from(count) > u64::from(target.tiles)
        };
        if let Some((first, count)) = step.tiles.iter().find(outside) {
            return Err(value(
                DESCRIPTION,
                format!("tiles of step {i}"),
                format!("{count} from {first}"),
                format!("one or more below {}", target.tiles),
            ));
        }
    }
    let memory = u64::from(target.memory_base)..u64::from(target.memory_end);
    let areas = d.rows_area.iter().map(|a| ("exchange rows", a));
    for (name, &(first, bytes)) in areas.chain([("runtime state", &d.runtime_state)]) {
        let end = u64::from(first) + u64::from(bytes);
        if bytes > 0 && (u64::from(first) < memory.start || end > memory.end) {
            let found = format!("{}..{}", hex(first), hex(end));
            let expected = range(target.memory_base..target.memory_end);
            return Err(value(
                DESCRIPTION,
                format!("area of {name}"),
                found,
                expected,
            ));
        }
    }
    for b in &d.buffers {
        let subject = |what: &str| format!("buffer '{}': {what}", b.name);
        shape(&subject("shape"), &b.ty)?;
        layout(&subject, &b.ty, &b.layout, target)?;
        let end = u64::from(b.address) + u64::from(b.reserved);
        if u64::from(b.address) < memory.start || end > memory.end {
            let found = format!("{}..{}", hex(b.address), hex(end));
            let expected = range(target.memory_base..target.memory_end);
            return Err(value(DESCRIPTION, subject("memory"), found, expected));
        }
    }
    Ok(())
}

fn hex(address: impl Into<u64>) -> String {
    format!("{:#x}", address.into())
}

fn range(bytes: std::ops::Range<u32>) -> String {
    format!("within {:#x}..{:#x}", bytes.start, bytes.end)
}

fn images(package: &Package, target: &Target) -> Result {
    let blobs = package.images.blobs();
    let entry = package.metadata.entry;
    let code = target.load_base..target.region1_base;
    if !entry.is_multiple_of(4) || !code.contains(&entry) {
        return Err(value(
            METADATA,
            "entry",
            hex(entry),
            format!("a multiple of 4 {}", range(code)),
        ));
    }
    let mut used = vec![false; blobs.len()];
    let mut next_tile = 0;
    for image in package.images.tiles() {
        let tile = image.tile;
        if tile < next_tile || tile >= target.tiles {
            let expected = format!("ascending, {next_tile} to {}", target.tiles - 1);
            return Err(value(IMAGES, "tile", tile, expected));
        }
        next_tile = tile + 1;
        let mut free = target.load_base;
        let mut has_entry = false;
        for (i, segment) in image.segments.iter().enumerate() {
            let subject = |what: &str| format!("tile {tile}: {what} of segment {i}");
            let blob = blobs.get(segment.blob as usize).ok_or_else(|| {
                value(
                    IMAGES,
                    subject("blob"),
                    segment.blob,
                    format!("below {}", blobs.len()),
                )
            })?;
            used[segment.blob as usize] = true;
            if segment.address < free || segment.address > target.loader_end {
                return Err(value(
                    IMAGES,
                    subject("address"),
                    hex(segment.address),
                    format!(
                        "behind the previous segment, {}",
                        range(free..target.loader_end)
                    ),
                ));
            }
            let room = target.loader_end - segment.address;
            if blob.is_empty() || blob.len() > room as usize {
                return Err(value(
                    IMAGES,
                    subject("length"),
                    blob.len(),
                    format!("1 to {room}"),
                ));
            }
            free = segment.address + blob.len() as u32;
            has_entry |= (segment.address..free).contains(&entry);
        }
        if !has_entry {
            return Err(value(
                IMAGES,
                format!("tile {tile}: segment with the entry {entry:#x}"),
                "absent",
                "present",
            ));
        }
    }
    match used.iter().position(|u| !u) {
        Some(i) => Err(value(
            "blobs",
            format!("blob {i}"),
            "unused",
            "used by a segment",
        )),
        None => Ok(()),
    }
}

fn metadata(m: &Metadata, target: &Target) -> Result {
    if m.calls != HostCall::PROTOCOL {
        return Err(value(
            METADATA,
            "host calls",
            format!("{:?}", m.calls),
            format!("{:?}", HostCall::PROTOCOL),
        ));
    }
    places(m, target)?;
    let mut bound = vec![0u32; m.outputs.len()];
    for (i, ty) in m.inputs.iter().chain(&m.outputs).enumerate() {
        shape(&format!("argument or result {i}"), ty)?;
    }
    for function in &m.host {
        host_function(function)?;
        if !function.inputs.is_empty() && function.inputs != m.inputs {
            let subject = format!("host function '{}': arguments", function.name);
            let list = |types: &[TensorType]| {
                let types: Vec<_> = types.iter().map(ToString::to_string).collect();
                types.join(", ")
            };
            return Err(value(
                METADATA,
                subject,
                list(&function.inputs),
                format!("none, or the inputs: {}", list(&m.inputs)),
            ));
        }
    }
    for b in &m.bindings {
        binding(b, m, target)?;
        if let Source::Output(i) = b.source {
            bound[i as usize] += 1;
        }
    }
    match bound.iter().position(|&n| n != 1) {
        Some(i) => Err(value(
            METADATA,
            format!("bindings of output {i}"),
            bound[i],
            1,
        )),
        None => Ok(()),
    }
}

fn peak_memory(package: &Package, target: &Target) -> Result {
    let peak = package.metadata.peak_memory;
    let mut tiles = package.images.tiles().iter();
    let Some(image) = tiles.find(|image| image.tile == peak.tile) else {
        return Err(value(
            METADATA,
            "tile of the peak memory",
            peak.tile,
            "one with an image",
        ));
    };
    let loaded: usize = package.images.segments(image).map(|s| s.1.len()).sum();
    let memory = target.memory_end - target.memory_base;
    if (peak.bytes as usize) < loaded || peak.bytes > memory {
        return Err(value(
            METADATA,
            "bytes of the peak memory",
            peak.bytes,
            format!("{loaded} to {memory}"),
        ));
    }
    Ok(())
}

fn places(m: &Metadata, target: &Target) -> Result {
    for place in &m.places {
        let expected = m.steps.len() + 1;
        if place.starts.len() != expected || !place.starts.is_sorted() {
            return Err(value(
                METADATA,
                "starts of steps",
                format!("{:x?}", place.starts),
                format!("{expected} ascending addresses"),
            ));
        }
        let outside = |&&(first, count): &&(u32, u32)| {
            u64::from(first) + u64::from(count) > u64::from(target.tiles)
        };
        if let Some((first, count)) = place.tiles.iter().find(outside) {
            return Err(value(
                METADATA,
                "tiles of steps",
                format!("{count} from {first}"),
                format!("below {}", target.tiles),
            ));
        }
    }
    Ok(())
}

fn binding(b: &Binding, m: &Metadata, target: &Target) -> Result {
    let subject = |what: &str| format!("binding '{}': {what}", b.name);
    shape(&subject("shape"), &b.model)?;
    shape(&subject("shape"), &b.buffer)?;
    let interface = |kind: &str, types: &[TensorType], i: u32| {
        let ty = types
            .get(i as usize)
            .ok_or_else(|| value(METADATA, subject(kind), i, format!("below {}", types.len())))?;
        match *ty == b.model && ty.shape == b.buffer.shape {
            true => Ok(()),
            false => Err(value(
                METADATA,
                subject("type"),
                format!("{} in {}", b.model, b.buffer),
                ty,
            )),
        }
    };
    match &b.source {
        Source::Input(i) => interface("input", &m.inputs, *i)?,
        Source::Output(i) => interface("output", &m.outputs, *i)?,
        Source::Parameter(name) if name.is_empty() => {
            return Err(value(
                METADATA,
                subject("parameter name"),
                "''",
                "a key of the weights file",
            ));
        }
        Source::Parameter(_) => {}
        Source::Host { function, result } | Source::HostStep { function, result } => {
            let of = |what: &str| subject(&format!("{what} of the host"));
            let count = m.host.len();
            let found = m.host.get(*function as usize).ok_or_else(|| {
                value(METADATA, of("function"), function, format!("below {count}"))
            })?;
            let count = found.results.len();
            let ty = found
                .ty(*result)
                .ok_or_else(|| value(METADATA, of("result"), result, format!("below {count}")))?;
            if *ty != b.model {
                return Err(value(METADATA, subject("type"), &b.model, ty));
            }
            let each_run = matches!(b.source, Source::HostStep { .. });
            if found.inputs.is_empty() == each_run {
                return Err(value(
                    METADATA,
                    of("function"),
                    function,
                    match each_run {
                        true => "one with arguments, for a step of each run",
                        false => "one without arguments, for the initialization",
                    },
                ));
            }
        }
        Source::Constant(values) => {
            let (found, all) = (values.len() as u64, b.model.elements());
            if found != 1 && found != all {
                return Err(value(
                    METADATA,
                    subject("number of values"),
                    found,
                    format!("1 or {all}"),
                ));
            }
        }
    }
    let (from, to) = (&b.model.shape, &b.buffer.shape);
    let fits = from.len() <= to.len()
        && from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(&f, &t)| f == 1 || f == t);
    if !fits {
        return Err(value(
            METADATA,
            subject("type"),
            &b.model,
            format!("broadcastable to {}", b.buffer),
        ));
    }
    let bytes = layout(&subject, &b.buffer, &b.layout, target)?;
    let memory = target.memory_base..target.memory_end;
    let last = u64::from(target.memory_end) - bytes;
    if !b.address.is_multiple_of(4) || b.address < memory.start || u64::from(b.address) > last {
        return Err(value(
            METADATA,
            subject("address"),
            hex(b.address),
            format!(
                "a multiple of 4 within {:#x}..={last:#x} for {bytes} bytes",
                memory.start
            ),
        ));
    }
    Ok(())
}

fn host_function(f: &HostFunction) -> Result {
    let mut elements = 0u64;
    for (i, ty) in f.inputs.iter().enumerate() {
        shape(
            &format!("host function '{}': shape of argument {i}", f.name),
            ty,
        )?;
        elements = elements.saturating_add(ty.elements());
    }
    let first = f.inputs.len();
    for (i, op) in f.ops.iter().enumerate() {
        let subject = |what: &str| format!("host function '{}': {what} of operator {i}", f.name);
        shape(&subject("shape"), &op.ty)?;
        elements = elements.saturating_add(op.ty.elements());
        if elements > MAX_ELEMENTS {
            let subject = format!("host function '{}': elements of all tensors", f.name);
            let expected = format!("at most {MAX_ELEMENTS}");
            return Err(value(METADATA, subject, elements, expected));
        }
        let mut types = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            let end = first + i;
            let before = f.value(operand).filter(|_| (operand as usize) < end);
            let before = before.ok_or_else(|| {
                value(
                    METADATA,
                    subject("operand"),
                    operand,
                    format!("below {end}"),
                )
            })?;
            types.push(before.clone());
        }
        let name = format!("nn.{}", op.kind.name());
        match &op.kind {
            OpKind::Repeat { .. } => {
                return Err(value(METADATA, subject("kind"), name, "no repeat"));
            }
            OpKind::Parameter { name } if name.is_empty() => {
                let expected = "a key of the weights file";
                return Err(value(METADATA, subject("parameter name"), "''", expected));
            }
            kind => infer::check(kind, &types, std::slice::from_ref(&op.ty)).map_err(|e| {
                let expected = format!("one that fits its types: {e}");
                value(METADATA, subject("kind"), name, expected)
            })?,
        }
    }
    for (i, &result) in f.results.iter().enumerate() {
        if f.value(result).is_none() {
            let subject = format!("host function '{}': operator of result {i}", f.name);
            let expected = format!("below {}", f.inputs.len() + f.ops.len());
            return Err(value(METADATA, subject, result, expected));
        }
    }
    Ok(())
}

fn shape(subject: &str, ty: &TensorType) -> Result {
    let elements = ty.shape.iter().try_fold(1u64, |n, &d| {
        n.checked_mul(u64::from(d))
            .filter(|n| (1..=MAX_ELEMENTS).contains(n))
    });
    match elements {
        Some(_) => Ok(()),
        None => Err(value(
            METADATA,
            subject,
            ty,
            format!("1 to {MAX_ELEMENTS} elements"),
        )),
    }
}

/// Checks a layout and gives the bytes that it needs on a tile.
fn layout(
    subject: &dyn Fn(&str) -> String,
    ty: &TensorType,
    l: &Layout,
    target: &Target,
) -> Result<u64> {
    let tiles = u64::from(target.tiles);
    let matrix = ty.matrix();
    let mut shards = 1u64;
    for (what, n) in [
        ("row parts", l.rows.parts),
        ("column parts", l.columns.parts),
        ("copies", l.copies),
    ] {
        shards = shards.saturating_mul(u64::from(n));
        if n == 0 || shards > tiles {
            return Err(value(
                METADATA,
                subject(what),
                n,
                format!("1 or more, {tiles} shards at most"),
            ));
        }
    }
    for (what, split, extent) in [
        ("rows", l.rows, matrix.rows),
        ("columns", l.columns, matrix.columns),
    ] {
        let held = u64::from(split.parts) * u64::from(split.block);
        if held < u64::from(extent) {
            return Err(value(
                METADATA,
                subject(what),
                format!("{held} in the layout"),
                format!("at least {extent}"),
            ));
        }
    }
    let panel = u64::from(PANEL);
    let rows = match l.order {
        ElementOrder::Rows | ElementOrder::Panels => u64::from(l.rows.block),
        ElementOrder::Weights8 | ElementOrder::Weights16 => {
            u64::from(l.rows.block).next_multiple_of(panel)
        }
    };
    let bytes = rows
        .saturating_mul(u64::from(l.columns.block).next_multiple_of(panel))
        .saturating_mul(u64::from(ty.element.bytes()));
    let memory = u64::from(target.memory_end - target.memory_base);
    if bytes > memory {
        return Err(value(
            METADATA,
            subject("bytes on a tile"),
            bytes,
            format!("at most {memory}"),
        ));
    }
    let copies = u64::from(l.copies - 1) * u64::from(l.copy_stride);
    let end = u64::from(l.first_tile)
        .saturating_add(copies)
        .saturating_add(reach(&l.rows))
        .saturating_add(reach(&l.columns));
    if end >= tiles {
        return Err(value(
            METADATA,
            subject("last tile"),
            end,
            format!("below {tiles}"),
        ));
    }
    let mut seen = BTreeSet::new();
    for shard in l.shards(matrix) {
        if !seen.insert(shard.tile) {
            return Err(value(
                METADATA,
                subject("shards"),
                format!("two on tile {}", shard.tile),
                "one a tile",
            ));
        }
    }
    Ok(bytes)
}

fn symbols(package: &Package, target: &Target) -> Result {
    let memory = target.memory_base..target.memory_end;
    for (i, symbol) in package.symbols.iter().enumerate() {
        let end = u64::from(symbol.address) + u64::from(symbol.bytes);
        if symbol.address < memory.start || end > u64::from(memory.end) {
            return Err(value(
                SYMBOLS,
                format!("'{}'", symbol.name),
                format!("{}..{}", hex(symbol.address), hex(end)),
                range(memory),
            ));
        }
        if let Some(tile) = symbol.tile.filter(|t| *t >= target.tiles) {
            return Err(value(
                SYMBOLS,
                format!("tile of '{}'", symbol.name),
                tile,
                format!("below {}", target.tiles),
            ));
        }
        if i > 0 && package.symbols[i - 1] >= *symbol {
            return Err(value(
                SYMBOLS,
                format!("'{}'", symbol.name),
                "out of order",
                "sorted by address and name",
            ));
        }
    }
    Ok(())
}

/// Tiles from the first part of an axis to the farthest, whatever the fields hold.
fn reach(split: &Split) -> u64 {
    let [last, stride] = [split.parts.saturating_sub(1), split.stride].map(u64::from);
    let [group, group_stride] = [split.group, split.group_stride].map(u64::from);
    if group == 0 {
        return last * stride;
    }
    let whole = match (last / group).checked_sub(1) {
        // The last group may be shorter than the others.
        Some(before) => (before * group_stride).saturating_add((group - 1) * stride),
        None => 0,
    };
    whole.max((last / group * group_stride).saturating_add(last % group * stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reach_is_the_farthest_part() {
        for parts in 1..16 {
            for (stride, group, group_stride) in
                (0..4).flat_map(|s| (0..6).flat_map(move |g| (0..9).map(move |t| (s, g, t))))
            {
                let split = Split {
                    parts,
                    stride,
                    ..Split::whole(64)
                }
                .grouped(group, group_stride);
                let farthest = (0..parts).map(|p| split.tile(p)).max();
                assert_eq!(Some(reach(&split)), farthest.map(u64::from), "{split:?}");
            }
        }
    }
}
