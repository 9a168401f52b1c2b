//! The tile level: buffers and supersteps, what each tile does in each of them.
//!
//! A [`TileProgram`] is filled by passes in order: tiling writes buffers, bindings, compute and
//! rearrange steps; layout conversion replaces each rearrange by compute and exchange steps;
//! phasing gives every exchange a [`Schedule`]; placement gives every buffer an address.

use crate::graph::Graph;
use crate::layout::{Layout, MemoryClass};
use crate::types::TensorType;

/// Index of a buffer in [`TileProgram::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// Storage for one tensor (or scratch) on the tiles of its layout. It has the same address on
/// each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Symbol, unique in the program.
    pub name: String,
    /// The tensor stored, in storage precision.
    pub ty: TensorType,
    /// Where its parts live.
    pub layout: Layout,
    /// Alignment in bytes.
    pub align: u32,
    /// Bytes beyond the end that kernels may read (never write): inside the same element.
    pub tail: u32,
    /// First and last step in which it is live, inclusive; parameters live always. Set by
    /// placement.
    pub live: Option<(u32, u32)>,
    /// Byte address, set by placement.
    pub address: Option<u32>,
    /// Source location of the operation that it belongs to.
    pub location: String,
}

/// Alignment of buffers in bytes: what the widest accesses of kernels need.
pub const BUFFER_ALIGN: u32 = 32;

impl Buffer {
    /// A buffer without a tail that is not placed yet; `location` is that of the operation that it
    /// belongs to.
    pub fn new(name: String, ty: TensorType, layout: Layout, location: &str) -> Self {
        Buffer {
            name,
            ty,
            layout,
            align: BUFFER_ALIGN,
            tail: 0,
            live: None,
            address: None,
            location: location.to_owned(),
        }
    }

    /// Bytes on each tile, padding included, without the tail.
    pub fn bytes(&self) -> u32 {
        self.layout.storage(self.ty.element).bytes()
    }

    /// Bytes that placement keeps on each tile: with the tail, in whole pairs of words.
    pub fn reserved(&self) -> u32 {
        self.bytes()
            .saturating_add(self.tail)
            .checked_next_multiple_of(8)
            .unwrap_or(u32::MAX)
    }

    /// Memory class that the layout demands.
    pub fn class(&self) -> MemoryClass {
        self.layout.memory
    }
}

/// What fills or reads a buffer from the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Argument of the function; arrives at each run.
    Input(u32),
    /// Result of the function; leaves at each run.
    Output(u32),
    /// A named tensor of the weights file, written at `initialize`.
    Parameter {
        /// Key in the weights file.
        name: String,
        /// Type in the model.
        ty: TensorType,
    },
    /// A constant of the module, written at `initialize`.
    Constant {
        /// Type in the model.
        ty: TensorType,
        /// One value (splat) or all, row-major.
        values: Vec<f32>,
    },
    /// A result of a host function, computed and written at `initialize`. Its type in the model is
    /// that of the result.
    Host {
        /// Number of the function in [`TileProgram::host`].
        function: u32,
        /// Number of the result.
        result: u32,
    },
    /// A result of a host function with arguments, those of the model: computed and written at each
    /// run.
    HostStep {
        /// Number of the function in [`TileProgram::host`].
        function: u32,
        /// Number of the result.
        result: u32,
    },
}

/// A buffer that the host writes or reads. What it writes at `initialize` and whose type differs from the
/// buffer's is broadcast (NumPy rules) and rounded to the buffer's element type.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Where the data comes from or goes.
    pub source: Source,
    /// The buffer.
    pub buffer: BufferId,
}

/// One transfer of an exchange: words from one tile to one or more others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// Sending tile (logical).
    pub source: u32,
    /// Byte offset in the source buffer.
    pub source_offset: u32,
    /// Words of 4 bytes.
    pub words: u32,
    /// Receiving tiles with the byte offset in the destination buffer; never the source.
    pub destinations: Vec<(u32, u32)>,
}

/// Transfers from one buffer to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Source buffer.
    pub source: BufferId,
    /// Destination buffer.
    pub destination: BufferId,
    /// The transfers.
    pub transfers: Vec<Transfer>,
}

/// One event of a tile's row. Events count tile clocks from the start of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Emit `words` words from the buffer, one an event, driving `direction` (1, 2 or 3). With
    /// [`WIDE`] added, two words an event, on the bus of the tile and that of its partner.
    Send {
        /// First event.
        at: u32,
        /// Buffer read.
        buffer: BufferId,
        /// Byte offset in it.
        offset: u32,
        /// Number of words.
        words: u32,
        /// Fabric direction mask, and [`WIDE`] for 64-bit items.
        direction: u8,
    },
    /// Select a source tile (logical), or nobody.
    Mux {
        /// Event at which it takes effect.
        at: u32,
        /// The tile, `None` for neutral.
        source: Option<u32>,
    },
    /// Set the incoming pointer.
    Pointer {
        /// Event at which it takes effect.
        at: u32,
        /// Buffer written.
        buffer: BufferId,
        /// Byte offset in it.
        offset: u32,
    },
    /// Select a source of 64-bit items (logical) for both tiles of the pair, or nobody.
    PairMux {
        /// Event at which it takes effect.
        at: u32,
        /// The tile, `None` for neutral.
        source: Option<u32>,
    },
    /// Set the format of what arrives.
    Format {
        /// Event at which it takes effect.
        at: u32,
        /// 0 for words; for 64-bit items the fabric direction from which they come, 1 or 2.
        value: u8,
    },
}

/// Stream control of 64-bit items, beside the direction mask.
pub const WIDE: u8 = 4;

impl Event {
    /// Event number at which it takes effect.
    pub fn at(&self) -> u32 {
        match *self {
            Event::Send { at, .. }
            | Event::Mux { at, .. }
            | Event::Pointer { at, .. }
            | Event::PairMux { at, .. }
            | Event::Format { at, .. } => at,
        }
    }
}

/// The row of one tile in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Logical tile.
    pub tile: u32,
    /// Events, by time.
    pub events: Vec<Event>,
    /// Events until the row returns.
    pub horizon: u32,
}

/// The schedule of an exchange with its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Rows of the tiles that take part, by tile.
    pub rows: Vec<Row>,
    /// Largest horizon, in events.
    pub horizon: u32,
    /// Lower bound on the horizon of any schedule of these transfers.
    pub bound: u32,
    /// Tile that the bound comes from.
    pub binding_tile: u32,
    /// How it was found and why it is not shorter; none on schedules from elsewhere.
    pub certificate: Option<Certificate>,
}

/// How good a schedule is, and why it is not better. Times are in events.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Certificate {
    /// Transfers scheduled.
    pub transfers: u32,
    /// Messages that they became: joined where they continue each other, cut where too long.
    pub messages: u32,
    /// Words delivered, at all receivers together.
    pub words: u64,
    /// Every lower bound on the horizon that was derived, the strongest among them.
    pub bounds: Vec<Bound>,
    /// Resource of the strongest bound.
    pub binding: String,
    /// Mux and pointer settings of all rows.
    pub controls: u32,
    /// Words of all rows, returns included.
    pub row_words: u64,
    /// Words of the longest row.
    pub row_words_max: u32,
    /// Logical tile of the longest row.
    pub row_words_tile: u32,
    /// The construction that won, with the improvements that it went through.
    pub construction: String,
    /// What ended the search for a shorter schedule.
    pub limit: String,
    /// An earlier exchange of the program with the same schedule but for addresses and buffers.
    pub same_as: Option<String>,
}

/// A lower bound on the horizon of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bound {
    /// What it comes from: `port`, `receiver`, `route`, `pair_lanes` or `element`.
    pub resource: String,
    /// Events.
    pub events: u32,
    /// Logical tile; of a pair, the even one.
    pub tile: u32,
    /// First byte of the memory element.
    pub element: Option<u32>,
}

/// A compute step: one kernel on some tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// Symbol, unique among steps.
    pub name: String,
    /// Kernel of the registry.
    pub kernel: String,
    /// Buffers for the kernel's pointer arguments, in its order.
    pub buffers: Vec<BufferId>,
    /// Tiles that run it, ascending.
    pub tiles: Vec<u32>,
    /// Word arguments of each tile in the kernel's order, then its table if the kernel has one.
    /// Every tile has as many: [`Kernel::record_words`](crate::kernels::Kernel::record_words).
    pub words: Vec<u32>,
    /// Source location.
    pub location: String,
}

/// Which element of one tensor becomes which of another. Both are numbered in row-major order of
/// their shapes. For every index `i` of `shape`, element `destination_offset + sum(i * strides)`
/// of the destination is element `source_offset + sum(i * strides)` of the source, each with its
/// own strides. No two indices name the same destination, by the rule of
/// [`crate::view::Walk::new`]; destination elements without an index keep what they hold. Padding
/// columns of a shard's row are zero once the last element of that row has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Extents of the index space.
    pub shape: Vec<u32>,
    /// First element of the source.
    pub source_offset: u64,
    /// Elements of the source from one index to the next, for each axis of `shape`; 0 repeats.
    pub source_strides: Vec<u64>,
    /// First element of the destination.
    pub destination_offset: u64,
    /// Elements of the destination from one index to the next, for each axis of `shape`.
    pub destination_strides: Vec<u64>,
}

/// A superstep.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Tiles compute.
    Compute(Compute),
    /// Elements move from one buffer to another: an unlowered conversion.
    Rearrange {
        /// Symbol, unique among steps.
        name: String,
        /// Source buffer.
        source: BufferId,
        /// Destination buffer.
        destination: BufferId,
        /// Which element becomes which; `None`: elements keep their row-major number, so that
        /// both tensors have the same number of elements.
        view: Option<View>,
        /// Source location.
        location: String,
    },
    /// Tiles exchange.
    Exchange {
        /// Symbol, unique among steps.
        name: String,
        /// What moves.
        copies: Vec<Copy>,
        /// When; set by phasing.
        schedule: Option<Schedule>,
        /// Source location.
        location: String,
    },
}

impl Step {
    /// The step's symbol.
    pub fn name(&self) -> &str {
        match self {
            Step::Compute(c) => &c.name,
            Step::Rearrange { name, .. } | Step::Exchange { name, .. } => name,
        }
    }
}

/// A whole program at tile level: inputs arrive before step 0, outputs leave after the last.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TileProgram {
    /// Name of the function.
    pub name: String,
    /// Tiles of the machine part that is used; buffers and steps name tiles below it.
    pub tiles: u32,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Functions that the host executes, those without arguments at `initialize`, the others at each
    /// run; see [`crate::host`]; their names are unique.
    pub host: Vec<Graph>,
    /// Host bindings.
    pub bindings: Vec<Binding>,
    /// Supersteps.
    pub steps: Vec<Step>,
    /// Memory kept for exchange rows on every tile, set by placement.
    pub rows_area: Option<RowsArea>,
}

/// The memory elements that hold exchange rows and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsArea {
    /// First byte.
    pub address: u32,
    /// Bytes, a multiple of the element size.
    pub bytes: u32,
}

impl TileProgram {
    /// The buffer behind an id of this program; another program's id panics or names another buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The type in the model of a result of a host function; `None` when the program has no such
    /// function or result.
    pub fn host_type(&self, function: u32, result: u32) -> Option<&TensorType> {
        let function = self.host.get(function as usize)?;
        let id = function.outputs.get(result as usize)?;
        Some(&function.values.get(id.0 as usize)?.ty)
    }

    /// Adds a buffer, whose name must not be in use.
    pub fn add_buffer(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() as u32 - 1)
    }
}
