//! What it costs to bring an operand from where it is to where a plan wants it.
//!
//! [`exact`] prices a move by its real transfers: the words and messages of the fullest receiver and
//! of the fullest sender, what is sent to several tiles counted once, and the kernels that pack,
//! copy and unpack by their laws. Between blocks of whole panels the transfers are intersections of
//! shards, which are found here; every other move is lowered as `ipu-convert-layouts` lowers it and
//! its steps are counted. [`exchange`] and [`viewed`] are quick estimates by sizes and samples, which
//! say whether the exact price is worth finding out.

use super::gemm::Reduction;
use super::{COPY_BYTES, COPY_KERNEL, Machine, Words, same_places};
use crate::convert_layouts::convert_layouts;
use ipu_program::layout::{ElementOrder, Layout, PANEL, Shard, Split};
use ipu_program::tile::{Buffer, Step, TileProgram, View};
use ipu_program::types::{Matrix, TensorType};
use std::collections::BTreeMap;
use std::ops::Range;

/// Events that a message takes of its sender and receiver besides its words: its controls and the
/// gaps that they force on its neighbours.
pub(super) const MESSAGE: u64 = 3;

/// Bytes of the row of a tile for a message that it sends or receives: two instructions. Some have
/// more, but the tile of the longest row is another one in every phase, and the sum over phases takes
/// the longest of each; `passes/tests/selected_memory.rs` compares it with the rows of examples.
const ROW_MESSAGE: u64 = 8;
/// Bytes of a record of the kernel that copies blocks.
const COPY_RECORD: u64 = 4 * 12;

/// What a move costs, in the parts that moves of one operator share or do not share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Cycles of kernels before the exchange: packing, copies on a tile.
    pub before: u64,
    /// Events of the fullest sender or receiver; 0 where nothing crosses tiles.
    pub events: u64,
    /// Cycles of kernels after the exchange.
    pub after: u64,
    /// Bytes on a tile of the records of its kernels and of the row of its exchange.
    pub bytes: u64,
}

impl Move {
    /// Cycles of the move alone.
    pub fn cycles(&self, machine: &Machine<'_>) -> u64 {
        self.before + self.after + self.crossing(machine)
    }

    /// Cycles of its exchange.
    fn crossing(&self, machine: &Machine<'_>) -> u64 {
        if self.events == 0 {
            0
        } else {
            machine.phase(self.events)
        }
    }

    /// Both moves, their exchanges in one phase.
    #[must_use]
    pub fn with(self, other: Move) -> Move {
        Move {
            before: self.before + other.before,
            events: self.events + other.events,
            after: self.after + other.after,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Events that tiles send and receive in one exchange.
struct Ports {
    sent: Vec<u64>,
    received: Vec<u64>,
    /// Messages of both directions.
    messages: Vec<u64>,
}

impl Ports {
    fn new(tiles: u32) -> Self {
        Ports {
            sent: vec![0; tiles as usize],
            received: vec![0; tiles as usize],
            messages: vec![0; tiles as usize],
        }
    }

    /// `words` words in `messages` messages leave a tile.
    fn send(&mut self, from: u32, words: u64, messages: u64) {
        if let Some(n) = self.sent.get_mut(from as usize) {
            *n += words + MESSAGE * messages;
            self.messages[from as usize] += messages;
        }
    }

    /// The same at the tiles that receive them.
    fn receive(&mut self, to: impl IntoIterator<Item = u32>, words: u64, messages: u64) {
        for tile in to {
            if let Some(n) = self.received.get_mut(tile as usize) {
                *n += words + MESSAGE * messages;
                self.messages[tile as usize] += messages;
            }
        }
    }

    /// Bytes of the longest row.
    fn row_bytes(&self) -> u64 {
        ROW_MESSAGE * self.messages.iter().copied().max().unwrap_or(0)
    }

    fn fullest(&self) -> u64 {
        let all = self.sent.iter().chain(&self.received);
        all.copied().max().unwrap_or(0)
    }
}

/// The price of bringing a tensor of type `from_ty` in `from` to one of type `to_ty` in `to`;
/// `view` says how its elements are renamed, `None` keeps their numbers. Equal layouts cost a copy on
/// each tile: who can use the tensor as it is needs no move. `None` for what has no lowering.
pub fn exact(
    machine: &Machine<'_>,
    (from, from_ty): (&Layout, &TensorType),
    view: Option<&View>,
    (to, to_ty): (&Layout, &TensorType),
) -> Option<Move> {
    let same = from_ty.matrix() == to_ty.matrix() && from_ty.element == to_ty.element;
    if view.is_none() && same && in_blocks(from, to, from_ty) {
        return Some(blocks(machine, from, to, from_ty));
    }
    lowered(machine, (from, from_ty), view, (to, to_ty))
}

/// Whether `ipu-convert-layouts` moves the tensor in blocks of whole panels.
fn in_blocks(from: &Layout, to: &Layout, ty: &TensorType) -> bool {
    let columns = ty.matrix().columns;
    let whole = |l: &Layout| {
        let mut starts = (0..l.columns.parts).map(|p| l.columns.range(p, columns).start);
        matches!(l.order, ElementOrder::Rows | ElementOrder::Panels)
            && starts.all(|s| s % PANEL == 0 || s == columns)
    };
    let rows = from.order == ElementOrder::Rows && to.order == ElementOrder::Rows;
    let here = same_places(&in_panels(from), &in_panels(to));
    ty.element.is_float() && (here || (whole(from) && whole(to) && !rows))
}

/// The same layout in panels.
fn in_panels(layout: &Layout) -> Layout {
    Layout {
        order: ElementOrder::Panels,
        ..layout.clone()
    }
}

/// The move of a matrix in blocks of whole panels, shard by shard.
fn blocks(machine: &Machine<'_>, from: &Layout, to: &Layout, ty: &TensorType) -> Move {
    let (matrix, size) = (ty.matrix(), ty.element.bytes());
    // Once for each 32 bytes of a row of a panel.
    let calls = u64::from(PANEL * size / COPY_BYTES);
    let copy = |rows: u32, columns: u32| calls * (1 + local_copy(machine, rows, columns));
    let mut out = Move::default();
    if same_places(&in_panels(from), &in_panels(to)) {
        out.before = copy(from.rows.block, from.columns.block);
        out.bytes = calls * COPY_RECORD;
        return out;
    }
    // One row is the same in both orders.
    if from.order == ElementOrder::Rows && from.rows.block > 1 {
        out.before += copy(from.rows.block, from.columns.block);
        out.bytes += calls * COPY_RECORD;
    }
    if to.order == ElementOrder::Rows && to.rows.block > 1 {
        out.after += copy(to.rows.block, to.columns.block);
        out.bytes += calls * COPY_RECORD;
    }
    let parts = |split: &Split, extent: u32| -> Vec<(u32, u32, u32)> {
        let ranges = (0..split.parts).map(|p| (p, split.range(p, extent)));
        let held = ranges.filter(|(_, r)| !r.is_empty());
        held.map(|(p, r)| (r.start, r.end, split.tile(p))).collect()
    };
    let (from_rows, to_rows) = (parts(&from.rows, matrix.rows), parts(&to.rows, matrix.rows));
    let columns = |l: &Layout| parts(&l.columns, matrix.columns);
    let (from_columns, to_columns) = (columns(from), columns(to));
    // Pieces of both axes: (start, end, tile of the source, of the destination, start in the shard).
    let cut = |a: &[(u32, u32, u32)], b: &[(u32, u32, u32)]| {
        let mut out = Vec::new();
        for &(start, end, to) in b {
            let first = a.partition_point(|p| p.1 <= start);
            for &(s, e, from) in a[first..].iter().take_while(|p| p.0 < end) {
                out.push((s.max(start), e.min(end), from, to, s));
            }
        }
        out
    };
    let rows = cut(&from_rows, &to_rows);
    let columns = cut(&from_columns, &to_columns);
    let tiles = machine.tiles.max(from.tile_end()).max(to.tile_end());
    let mut ports = Ports::new(tiles);
    let mut local = vec![0u64; tiles as usize];
    let mut away: Vec<u32> = Vec::new();
    let shard_bytes = u64::from(from.storage(ty.element).bytes()).max(1);
    let copies = u64::from(from.copies.max(1));
    for &(r0, r1, from_row, to_row, held_row) in &rows {
        let tall = r1 - r0;
        // Panels of whole blocks follow each other on both sides.
        let joined = tall == from.rows.block && tall == to.rows.block;
        for &(c0, c1, from_column, to_column, held_column) in &columns {
            let source = from.first_tile + from_row + from_column;
            let target = to.first_tile + to_row + to_column;
            let wide = (c1 - c0).div_ceil(PANEL);
            let is_here = |tile: u32| match tile.checked_sub(source) {
                Some(0) => true,
                Some(n) if from.copy_stride > 0 => {
                    n.is_multiple_of(from.copy_stride) && n / from.copy_stride < from.copies
                }
                _ => false,
            };
            let mut piece = None;
            away.clear();
            for c in 0..to.copies {
                let tile = target + c * to.copy_stride;
                if is_here(tile) {
                    let law = || copy(tall, c1 - c0);
                    local[tile as usize] += *piece.get_or_insert_with(law);
                } else {
                    away.push(tile);
                }
            }
            if away.is_empty() {
                continue;
            }
            let words = u64::from(tall) * u64::from(PANEL * size / 4);
            let messages = if joined && copies == 1 {
                1
            } else {
                u64::from(wide)
            };
            ports.receive(away.iter().copied(), words * u64::from(wide), messages);
            if copies == 1 {
                ports.send(source, words * u64::from(wide), messages);
                continue;
            }
            // Pieces of different places come from different copies.
            let storage = from.storage(ty.element);
            for p in 0..wide {
                let column = c0 - held_column + p * PANEL;
                let offset = match from.order {
                    ElementOrder::Rows if from.rows.block > 1 => {
                        (column / PANEL * from.rows.block + (r0 - held_row)) * PANEL * size
                    }
                    _ => storage.offset(r0 - held_row, column),
                };
                let copy = (u64::from(offset) * copies / shard_bytes) as u32;
                let sender = source + copy * from.copy_stride;
                ports.send(sender, words, 1);
            }
        }
    }
    let local = local.into_iter().max().unwrap_or(0);
    out.before += local;
    out.bytes += ports.row_bytes() + u64::from(local > 0) * calls * COPY_RECORD;
    out.events = ports.fullest();
    out
}

/// The elements of partial sums that part `column` of the columns of the result adds, `None` for an
/// empty part.
pub fn partial_view(
    reduction: &Reduction,
    parts: u32,
    rows: u32,
    column: u32,
    result: &Layout,
) -> Option<View> {
    let padded = reduction.partial_type.matrix().columns;
    let width = reduction.staging_type.matrix().columns;
    let block = reduction.block(parts);
    let range = result.columns.range(column, padded);
    let [all, padded, width] = [rows, padded, width].map(u64::from);
    (!range.is_empty()).then(|| View {
        shape: vec![parts, rows, range.len() as u32],
        source_offset: range.start.into(),
        source_strides: vec![all * padded, padded, 1],
        destination_offset: u64::from(column) * u64::from(parts * block),
        destination_strides: vec![block.into(), width, 1],
    })
}

/// The price of bringing `parts` partial sums of `rows` rows to where they are added.
pub fn partial_sums(
    machine: &Machine<'_>,
    reduction: &Reduction,
    parts: u32,
    rows: u32,
    result: &Layout,
) -> Option<Move> {
    let views = (0..result.columns.parts)
        .filter_map(|column| partial_view(reduction, parts, rows, column, result));
    let views: Vec<Option<View>> = views.map(Some).collect();
    let from = (&reduction.partial, &reduction.partial_type);
    let to = (&reduction.staging, &reduction.staging_type);
    steps(machine, from, &views, to)
}

/// The move as `ipu-convert-layouts` lowers it, step by step.
fn lowered(
    machine: &Machine<'_>,
    from: (&Layout, &TensorType),
    view: Option<&View>,
    to: (&Layout, &TensorType),
) -> Option<Move> {
    steps(machine, from, &[view.cloned()], to)
}

/// Several moves between the same tensors, all exchanges in one phase.
fn steps(
    machine: &Machine<'_>,
    (from, from_ty): (&Layout, &TensorType),
    views: &[Option<View>],
    (to, to_ty): (&Layout, &TensorType),
) -> Option<Move> {
    let mut program = TileProgram {
        tiles: machine.tiles,
        ..TileProgram::default()
    };
    let buffer = |name: &str, ty: &TensorType, l: &Layout| {
        Buffer::new(name.to_owned(), ty.clone(), l.clone(), "")
    };
    let source = program.add_buffer(buffer("source", from_ty, from));
    let destination = program.add_buffer(buffer("destination", to_ty, to));
    for (i, view) in views.iter().enumerate() {
        program.steps.push(Step::Rearrange {
            name: format!("move{i}"),
            source,
            destination,
            view: view.clone(),
            location: String::new(),
        });
    }
    convert_layouts(&mut program, machine.kernels).ok()?;
    let mut ports = Ports::new(machine.tiles.max(from.tile_end()).max(to.tile_end()));
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    let mut records: BTreeMap<u32, u64> = BTreeMap::new();
    let mut crossed = false;
    for step in &program.steps {
        match step {
            Step::Compute(c) => {
                let kernel = machine.kernels.get(&c.kernel)?;
                let width = kernel.record_words(c.words.len(), c.tiles.len())?;
                let cycles: &mut BTreeMap<u32, u64> =
                    if crossed { &mut after } else { &mut before };
                for (i, &tile) in c.tiles.iter().enumerate() {
                    let words = c.words.get(i * width..(i + 1) * width)?;
                    *cycles.entry(tile).or_default() += 1 + machine.kernels.cycles(kernel, words);
                    *records.entry(tile).or_default() += 4 * width as u64;
                }
            }
            Step::Exchange { copies, .. } => {
                // Of several moves the copies of the later ones come before the common exchange.
                crossed = views.len() == 1;
                for t in copies.iter().flat_map(|c| &c.transfers) {
                    let tiles = t.destinations.iter().map(|d| d.0);
                    ports.send(t.source, t.words.into(), 1);
                    ports.receive(tiles, t.words.into(), 1);
                }
            }
            Step::Rearrange { .. } => return None,
        }
    }
    let most = |m: BTreeMap<u32, u64>| m.into_values().max().unwrap_or(0);
    Some(Move {
        before: most(before),
        events: ports.fullest(),
        after: most(after),
        bytes: most(records) + ports.row_bytes(),
    })
}

/// Estimated cycles of copying blocks of 16 columns on a tile.
pub(super) fn local_copy(machine: &Machine<'_>, rows: u32, columns: u32) -> u64 {
    let words = Words::rows(rows).with([
        ("panels", columns.div_ceil(PANEL)),
        ("src_offset", 0),
        ("dst_offset", 0),
        ("src_row", 0),
        ("src_panel", 0),
        ("dst_row", 0),
        ("dst_panel", 0),
    ]);
    machine.cycles(COPY_KERNEL, &words).unwrap_or(0)
}

/// Estimated cycles to bring a tensor from one layout to another: packing into panels where it
/// is in rows, one phase in which the fullest tile receives its shard, the copy of what a tile
/// has itself, unpacking where rows are wanted.
pub fn exchange(machine: &Machine<'_>, from: &Layout, to: &Layout, ty: &TensorType) -> u64 {
    if same_places(from, to) {
        return 0;
    }
    // Once for each 32 bytes of a row of a panel.
    let calls = u64::from(PANEL * ty.element.bytes() / COPY_BYTES);
    let copy = |rows: u32, columns: u32| calls * local_copy(machine, rows, columns);
    let panels = |l: &Layout| Layout {
        order: ElementOrder::Panels,
        ..l.clone()
    };
    if same_places(&panels(from), &panels(to)) {
        return copy(from.rows.block, from.columns.block);
    }
    let mut cycles = 0;
    if from.order == ElementOrder::Rows {
        cycles += copy(from.rows.block, from.columns.block);
    }
    if to.order == ElementOrder::Rows {
        cycles += copy(to.rows.block, to.columns.block);
    }
    if from.first_tile < to.tile_end() && to.first_tile < from.tile_end() {
        let rows = from.rows.block.min(to.rows.block);
        cycles += copy(rows, from.columns.block.min(to.columns.block));
    }
    cycles + machine.phase(u64::from(to.storage(ty.element).bytes() / 4))
}

/// Rows of a shard that an estimate looks at.
const SAMPLED_ROWS: u64 = 24;

/// Most pieces of these rows that an estimate looks at; beyond, the sizes alone decide.
const MAX_PIECES: u64 = 50_000;

/// Estimated cycles to bring a view of a tensor of type `from_ty` in `from` to a tensor of type
/// `to_ty` in `to`. Looks at rows of the first, the middle and the last shard of the destination:
/// what their tiles hold already, they copy; what they lack, they receive in one phase.
pub fn viewed(
    machine: &Machine<'_>,
    (from, from_ty): (&Layout, &TensorType),
    view: &View,
    (to, to_ty): (&Layout, &TensorType),
) -> u64 {
    let (source, destination) = (from_ty.matrix(), to_ty.matrix());
    let (held, wanted) = (Parts::new(from, source), Parts::new(to, destination));
    let lookup = Inverse::new(view);
    let mut worst = 0;
    let count = wanted.count();
    for i in [0, count / 2, count.saturating_sub(1)] {
        let Some(shard) = wanted.shard(i) else {
            continue;
        };
        let (mut here, mut away, mut runs) = (0u64, 0u64, 0u64);
        let rows = shard.rows.len() as u64;
        let sampled = rows.min(SAMPLED_ROWS);
        let pieces = sampled * (shard.columns.len() as u64).div_ceil(u64::from(PANEL));
        if pieces > MAX_PIECES {
            return machine.phase(u64::from(to.storage(to_ty.element).bytes() / 4));
        }
        let on_tile = held.on(shard.tile);
        for sample in 0..sampled {
            let row = shard.rows.start + ((2 * sample + 1) * rows / (2 * sampled)) as u32;
            let mut column = shard.columns.start;
            while column < shard.columns.end {
                let number = u64::from(row) * u64::from(destination.columns) + u64::from(column);
                let left = (shard.columns.end - column).min(PANEL);
                let (length, element) = lookup.run(number, left);
                if let Some(element) = element {
                    let at = (element / u64::from(source.columns)) as u32;
                    let place = (element % u64::from(source.columns)) as u32;
                    let is_here = |s: &Shard| s.rows.contains(&at) && s.columns.contains(&place);
                    if on_tile.iter().any(is_here) {
                        here += u64::from(length);
                    } else {
                        away += u64::from(length);
                    }
                    runs += 1;
                }
                column += length;
            }
        }
        let size = u64::from(to_ty.element.bytes());
        let all = |n: u64| n * rows / sampled;
        // Short runs are copied word by word, long ones in blocks of 32 bytes.
        let mut cycles = if here > 0 {
            150 + all(here) * size / 4
        } else {
            0
        };
        if away > 0 {
            cycles += machine.phase((all(away) * size).div_ceil(4) + all(runs));
        }
        worst = worst.max(cycles);
    }
    worst
}

/// The parts of a layout that are not empty, with their tiles from the first.
struct Parts<'a> {
    layout: &'a Layout,
    rows: Vec<(Range<u32>, u32)>,
    columns: Vec<(Range<u32>, u32)>,
}

impl<'a> Parts<'a> {
    fn new(layout: &'a Layout, matrix: Matrix) -> Self {
        let parts = |split: &Split, extent: u32| {
            let ranges = (0..split.parts).map(|p| (split.range(p, extent), split.tile(p)));
            ranges.filter(|(range, _)| !range.is_empty()).collect()
        };
        Parts {
            rows: parts(&layout.rows, matrix.rows),
            columns: parts(&layout.columns, matrix.columns),
            layout,
        }
    }

    /// How many shards there are.
    fn count(&self) -> usize {
        self.layout.copies as usize * self.rows.len() * self.columns.len()
    }

    /// One of them, numbered as by [`Layout::shards`].
    fn shard(&self, i: usize) -> Option<Shard> {
        let copy = i / (self.rows.len() * self.columns.len()).max(1);
        let (rows, row_tile) = self
            .rows
            .get(i / self.columns.len().max(1) % self.rows.len().max(1))?;
        let (columns, column_tile) = self.columns.get(i % self.columns.len().max(1))?;
        Some(Shard {
            tile: self.layout.first_tile
                + copy as u32 * self.layout.copy_stride
                + row_tile
                + column_tile,
            rows: rows.clone(),
            columns: columns.clone(),
        })
    }

    /// Those on a tile.
    fn on(&self, tile: u32) -> Vec<Shard> {
        let mut out = Vec::new();
        for copy in 0..self.layout.copies {
            let first = self.layout.first_tile + copy * self.layout.copy_stride;
            for (rows, row_tile) in &self.rows {
                let Some(column) = tile.checked_sub(first + row_tile) else {
                    continue;
                };
                let there = self.columns.iter().filter(|c| c.1 == column);
                out.extend(there.map(|(columns, _)| Shard {
                    tile,
                    rows: rows.clone(),
                    columns: columns.clone(),
                }));
            }
        }
        out
    }
}

/// From elements of the destination of a view to those of its source.
struct Inverse<'a> {
    view: &'a View,
    /// Axes by descending destination stride.
    order: Vec<usize>,
}

impl<'a> Inverse<'a> {
    fn new(view: &'a View) -> Self {
        let mut order: Vec<usize> = (0..view.shape.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(view.destination_strides[i]));
        Inverse { view, order }
    }

    /// The source element of destination element `number`, and how many of the next `limit` follow
    /// it in the source. Elements that the view does not write have none.
    fn run(&self, number: u64, limit: u32) -> (u32, Option<u64>) {
        let Some(mut rest) = number.checked_sub(self.view.destination_offset) else {
            return (1, None);
        };
        let mut element = self.view.source_offset;
        let mut length = 1;
        for &i in &self.order {
            let stride = self.view.destination_strides[i].max(1);
            let index = rest / stride;
            if index >= u64::from(self.view.shape[i]) {
                return (1, None);
            }
            rest %= stride;
            element += index * self.view.source_strides[i];
            if stride == 1 && self.view.source_strides[i] == 1 {
                length = (u64::from(self.view.shape[i]) - index).min(u64::from(limit)) as u32;
            }
        }
        if rest == 0 {
            (length.max(1), Some(element))
        } else {
            (1, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select_operators::plans::Partials;
    use ipu_program::kernels::Kernels;
    use ipu_program::layout::MemoryClass;
    use ipu_program::types::ElementType;
    use ipu_target::Target;
    use proptest::prelude::*;

    fn layouts(rows: u32, columns: u32) -> impl Strategy<Value = Layout> {
        let order = prop_oneof![Just(ElementOrder::Rows), Just(ElementOrder::Panels)];
        (1u32..5, 1u32..4, 1u32..3, 0u32..6, 1u32..4, order).prop_map(
            move |(r, c, copies, first_tile, unit, order)| {
                let c = c.min(columns.div_ceil(PANEL));
                let columns = Split::even(columns, c, PANEL, 1);
                Layout {
                    rows: Split::even(rows, r, unit, c),
                    columns,
                    copies,
                    copy_stride: if copies > 1 { r * c } else { 0 },
                    first_tile,
                    order,
                    memory: MemoryClass::Any,
                }
            },
        )
    }

    proptest! {
        /// What intersecting shards says is what lowering does.
        #[test]
        fn blocks_are_priced_as_they_are_lowered(
            rows in 1u32..14, columns in 1u32..61, (from, to) in (layouts(13, 60), layouts(13, 60)), single: bool,
        ) {
            let fit = |l: &Layout| Layout {
                rows: Split::even(rows, l.rows.parts, l.rows.unit, l.rows.stride),
                columns: Split::even(
                    columns, l.columns.parts.min(columns.div_ceil(PANEL)), PANEL, 1,
                ),
                ..l.clone()
            };
            let (from, to) = (fit(&from), fit(&to));
            let machine = Machine {
                target: Target::ipu21(),
                kernels: Kernels::builtin(),
                tiles: 64,
                partials: Partials::F32,
                streams: crate::select_operators::plans::stream::Streams::None,
            };
            let element = if single { ElementType::F32 } else { ElementType::F16 };
            let ty = TensorType::new([rows, columns], element);
            prop_assume!(in_blocks(&from, &to, &ty) && !same_places(&from, &to));
            let quick = blocks(&machine, &from, &to, &ty);
            let real = lowered(&machine, (&from, &ty), None, (&to, &ty)).unwrap();
            // Messages that continue each other may be joined in the lowering only.
            let words = |m: &Move| m.events;
            prop_assert!(words(&real) <= words(&quick));
            prop_assert!(words(&quick) <= words(&real) + words(&real) / 2 + 64);
            prop_assert_eq!(real.events == 0, quick.events == 0);
            // Kernels of one tile may follow each other that are each the longest on different ones.
            prop_assert!(real.before + real.after <= quick.before + quick.after);
        }
    }
}
