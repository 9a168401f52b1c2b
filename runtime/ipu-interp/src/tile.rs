//! Execution of a tile program at storage precision.
//!
//! Works before and after scheduling and placement: buffers are byte vectors of each tile, so
//! addresses, lifetimes and schedules play no part. Kernels run by their meaning in the registry,
//! with the rounding of the chip; exchanges by their transfers, all of which read before any
//! writes; rearrangements element by element between the two layouts.

use crate::graph::{GraphError, HostResults, step_parameters};
use crate::host::{HostArray, HostError, Parameters, pack, pack_elements, unpack, unpack_elements};
use crate::kernels::Call;
use half::f16;
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Buffer, BufferId, Compute, Copy, Source, Step, TileProgram, View};
use ipu_program::view::{ViewError, Walk};
use std::collections::BTreeMap;

/// A program that cannot be executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TileError {
    /// An access beyond the end of a buffer.
    #[error(
        "step '{step}', tile {tile}: access to buffer '{buffer}' at offset {offset}, {bytes} bytes, but it has {size} bytes"
    )]
    OutOfRange {
        /// Step.
        step: String,
        /// Logical tile.
        tile: u32,
        /// Buffer.
        buffer: String,
        /// First byte of the access.
        offset: u64,
        /// Bytes of the access.
        bytes: u64,
        /// Bytes of the buffer.
        size: u64,
    },
    /// An access to a buffer on a tile without a part of it.
    #[error("step '{step}', tile {tile}: buffer '{buffer}' has no part on this tile")]
    NotOnTile {
        /// Step.
        step: String,
        /// Logical tile.
        tile: u32,
        /// Buffer.
        buffer: String,
    },
    /// A buffer number that the program lacks.
    #[error("step '{step}' names buffer number {id}, but the program has {count}")]
    UnknownBuffer {
        /// Step.
        step: String,
        /// Number found.
        id: u32,
        /// Number of buffers.
        count: usize,
    },
    /// A kernel that the registry lacks.
    #[error("step '{step}': kernel '{kernel}' is not in the registry")]
    UnknownKernel {
        /// Step.
        step: String,
        /// Kernel.
        kernel: String,
    },
    /// A step whose argument lists do not fit its kernel.
    #[error("step '{step}', kernel '{kernel}': expected {expected} {what}, found {found}")]
    Arguments {
        /// Step.
        step: String,
        /// Kernel.
        kernel: String,
        /// `buffers` or `words`.
        what: &'static str,
        /// Number expected.
        expected: usize,
        /// Number found.
        found: usize,
    },
    /// Words that are not equal records of a kernel with a table.
    #[error(
        "step '{step}', kernel '{kernel}': {found} words for {tiles} tiles are not equally many, {words} and then {table}"
    )]
    Records {
        /// Step.
        step: String,
        /// Kernel.
        kernel: String,
        /// Its table.
        table: String,
        /// Words before the table.
        words: usize,
        /// Tiles of the step.
        tiles: usize,
        /// Words of the step.
        found: usize,
    },
    /// A table that is shorter than the words before it say.
    #[error("step '{step}', kernel '{kernel}': needs a table of {needed} words, found {found}")]
    ShortTable {
        /// Step.
        step: String,
        /// Kernel.
        kernel: String,
        /// Words needed.
        needed: u64,
        /// Words of the table.
        found: usize,
    },
    /// An argument that the meaning of the kernel needs and the registry lacks.
    #[error("step '{step}': kernel '{kernel}' has no {what} argument '{name}'")]
    Argument {
        /// Step.
        step: String,
        /// Kernel.
        kernel: String,
        /// `buffer` or `word`.
        what: &'static str,
        /// Argument.
        name: String,
    },
    /// A parameter that the weights lack.
    #[error("parameter '{name}' of buffer '{buffer}' is missing in the weights")]
    MissingParameter {
        /// Key.
        name: String,
        /// Buffer.
        buffer: String,
    },
    /// A result that no host function has.
    #[error(
        "buffer '{buffer}' is bound to result {result} of host function {function}, which does not exist"
    )]
    MissingResult {
        /// Buffer.
        buffer: String,
        /// Number of the function.
        function: u32,
        /// Number of the result.
        result: u32,
    },
    /// A host function that cannot be executed with the parameters.
    #[error("host function of buffer '{buffer}': {error}")]
    Function {
        /// Buffer.
        buffer: String,
        /// Why.
        error: GraphError,
    },
    /// An input that was not given.
    #[error("input {index} of buffer '{buffer}' is missing, found {found} inputs")]
    MissingInput {
        /// Number of the input.
        index: u32,
        /// Buffer.
        buffer: String,
        /// Arrays given.
        found: usize,
    },
    /// Outputs that no binding gives.
    #[error("output {index} has no binding")]
    MissingOutput {
        /// Number of the output.
        index: usize,
    },
    /// A run before the parameters were written.
    #[error("the program was run before its parameters were written")]
    NotInitialized,
    /// A rearrangement between elements of different sizes.
    #[error(
        "step '{step}' moves elements of {source_bytes} bytes to elements of {destination_bytes}"
    )]
    Elements {
        /// Step.
        step: String,
        /// Bytes of an element of the source.
        source_bytes: u32,
        /// Bytes of an element of the destination.
        destination_bytes: u32,
    },
    /// A rearrangement that its view does not allow.
    #[error("step '{step}': {error}")]
    View {
        /// Step.
        step: String,
        /// Why.
        error: ViewError,
    },
    /// Host data that does not fit its buffer.
    #[error("{subject}: {error}")]
    Host {
        /// Parameter, input or buffer.
        subject: String,
        /// Why.
        error: HostError,
    },
}

/// Contents of buffers before anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros: padding that no step writes is zero.
    Zeros,
    /// NaN in every element: a result that depends on it shows.
    Poison,
    /// This byte, also behind the end of buffers where kernels may read: results that differ from
    /// those of another byte depend on memory that nothing wrote.
    Byte(u8),
}

/// Bytes that were written on one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// Logical tile.
    pub tile: u32,
    /// Buffer.
    pub buffer: BufferId,
    /// First byte in the buffer.
    pub offset: u32,
    /// One past the last byte.
    pub end: u32,
}

/// The buffers of all tiles.
pub(crate) struct Memory<'a> {
    buffers: &'a [Buffer],
    parts: Vec<BTreeMap<u32, Vec<u8>>>,
    /// The f16 that kernels find behind the end of a buffer; unless the fill says otherwise, NaN.
    pub beyond: f32,
    /// What was written since somebody asked, if anybody does.
    written: Option<Vec<Written>>,
}

impl<'a> Memory<'a> {
    fn new(buffers: &'a [Buffer], fill: Fill) -> Self {
        let byte = match fill {
            Fill::Zeros => 0,
            Fill::Poison => 0xff,
            Fill::Byte(byte) => byte,
        };
        let parts = buffers
            .iter()
            .map(|b| {
                let empty = vec![byte; b.bytes() as usize];
                let shards = b.layout.shards(b.ty.matrix());
                shards
                    .into_iter()
                    .map(|s| (s.tile, empty.clone()))
                    .collect()
            })
            .collect();
        Memory {
            buffers,
            parts,
            beyond: match fill {
                Fill::Zeros | Fill::Poison => f32::NAN,
                Fill::Byte(byte) => f16::from_le_bytes([byte; 2]).to_f32(),
            },
            written: None,
        }
    }

    fn describe(&self, step: &str, id: BufferId) -> Result<&'a Buffer, TileError> {
        self.buffers
            .get(id.0 as usize)
            .ok_or_else(|| TileError::UnknownBuffer {
                step: step.to_owned(),
                id: id.0,
                count: self.buffers.len(),
            })
    }

    pub fn read(
        &self,
        step: &str,
        id: BufferId,
        tile: u32,
        offset: u64,
        bytes: u64,
    ) -> Result<&[u8], TileError> {
        let buffer = self.describe(step, id)?;
        let part = self.parts[id.0 as usize]
            .get(&tile)
            .ok_or_else(|| not_on_tile(step, buffer, tile))?;
        offset
            .checked_add(bytes)
            .and_then(|end| part.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?))
            .ok_or_else(|| out_of_range(step, buffer, tile, offset, bytes, part.len()))
    }

    pub fn write(
        &mut self,
        step: &str,
        id: BufferId,
        tile: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TileError> {
        let buffer = self.describe(step, id)?;
        let part = self.parts[id.0 as usize]
            .get_mut(&tile)
            .ok_or_else(|| not_on_tile(step, buffer, tile))?;
        let size = part.len();
        let place = usize::try_from(offset)
            .ok()
            .and_then(|at| part.get_mut(at..at.checked_add(data.len())?))
            .ok_or_else(|| out_of_range(step, buffer, tile, offset, data.len() as u64, size))?;
        place.copy_from_slice(data);
        if let Some(written) = &mut self.written {
            let (offset, end) = (offset as u32, offset as u32 + data.len() as u32);
            match written.last_mut() {
                Some(last) if (last.tile, last.buffer, last.end) == (tile, id, offset) => {
                    last.end = end;
                }
                _ => written.push(Written {
                    tile,
                    buffer: id,
                    offset,
                    end,
                }),
            }
        }
        Ok(())
    }

    /// The tensor in a buffer.
    fn tensor(&self, step: &str, id: BufferId) -> Result<HostArray, TileError> {
        let buffer = self.describe(step, id)?;
        let read = |tile, storage: ipu_program::layout::ShardStorage| {
            self.read(step, id, tile, 0, u64::from(storage.bytes()))
                .map_err(Access::Tile)
        };
        unpack(&buffer.ty, &buffer.layout, read).map_err(|e| match e {
            Access::Tile(e) => e,
            Access::Host(error) => TileError::Host {
                subject: format!("buffer '{}'", buffer.name),
                error,
            },
        })
    }

    /// The bits of a buffer's elements: whoever moves them does not change a NaN.
    fn words(&self, step: &str, id: BufferId) -> Result<Vec<u32>, TileError> {
        let buffer = self.describe(step, id)?;
        let size = buffer.ty.element.bytes() as usize;
        let read = |tile, storage: ipu_program::layout::ShardStorage| {
            self.read(step, id, tile, 0, u64::from(storage.bytes()))
                .map_err(Access::Tile)
        };
        let load = |bytes: &[u8]| {
            let mut word = [0; 4];
            word[..size].copy_from_slice(&bytes[..size]);
            u32::from_le_bytes(word)
        };
        unpack_elements(&buffer.ty, &buffer.layout, read, load).map_err(|e| match e {
            Access::Tile(e) => e,
            Access::Host(error) => TileError::Host {
                subject: format!("buffer '{}'", buffer.name),
                error,
            },
        })
    }

    /// Writes the bits of elements to every copy of a buffer, zeros into the padding.
    fn fill_words(&mut self, step: &str, id: BufferId, words: &[u32]) -> Result<(), TileError> {
        let buffer = self.describe(step, id)?;
        let store = |word: u32, bytes: &mut [u8]| {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        };
        let shards = pack_elements(words, &buffer.ty, &buffer.layout, store);
        let shards = shards.map_err(|error| TileError::Host {
            subject: format!("step '{step}'"),
            error,
        })?;
        for shard in shards {
            self.write(step, id, shard.tile, 0, &shard.bytes)?;
        }
        Ok(())
    }

    /// Writes a tensor to every copy of a buffer, zeros into the padding.
    fn fill(
        &mut self,
        step: &str,
        id: BufferId,
        subject: impl FnOnce() -> String,
        array: &HostArray,
    ) -> Result<(), TileError> {
        let buffer = self.describe(step, id)?;
        let shards = pack(array, &buffer.ty, &buffer.layout).map_err(|error| TileError::Host {
            subject: subject(),
            error,
        })?;
        for shard in shards {
            self.write(step, id, shard.tile, 0, &shard.bytes)?;
        }
        Ok(())
    }
}

enum Access {
    Tile(TileError),
    Host(HostError),
}

impl From<HostError> for Access {
    fn from(error: HostError) -> Self {
        Access::Host(error)
    }
}

#[cold]
fn not_on_tile(step: &str, buffer: &Buffer, tile: u32) -> TileError {
    TileError::NotOnTile {
        step: step.to_owned(),
        tile,
        buffer: buffer.name.clone(),
    }
}

#[cold]
fn out_of_range(
    step: &str,
    buffer: &Buffer,
    tile: u32,
    offset: u64,
    bytes: u64,
    size: usize,
) -> TileError {
    TileError::OutOfRange {
        step: step.to_owned(),
        tile,
        buffer: buffer.name.clone(),
        offset,
        bytes,
        size: size as u64,
    }
}

/// A program with the contents of its buffers.
pub struct Interpreter<'a> {
    program: &'a TileProgram,
    kernels: &'a Kernels,
    memory: Memory<'a>,
    initialized: bool,
    /// What host steps read at each run.
    parameters: Parameters,
}

impl<'a> Interpreter<'a> {
    /// An interpreter whose buffers hold `fill`.
    pub fn new(program: &'a TileProgram, kernels: &'a Kernels, fill: Fill) -> Self {
        Interpreter {
            program,
            kernels,
            memory: Memory::new(&program.buffers, fill),
            initialized: false,
            parameters: Parameters::new(),
        }
    }

    /// Notes from now on what is written, for [`Interpreter::take_written`].
    pub fn note_writes(&mut self) {
        self.memory.written.get_or_insert_default();
    }

    /// What was written since the last call, sorted, without empty, touching or overlapping pieces.
    pub fn take_written(&mut self) -> Vec<Written> {
        let Some(written) = &mut self.memory.written else {
            return Vec::new();
        };
        let mut written = std::mem::take(written);
        written.retain(|w| w.offset < w.end);
        written.sort_unstable();
        written.dedup_by(|next, last| {
            let joins =
                (next.tile, next.buffer) == (last.tile, last.buffer) && next.offset <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        written
    }

    /// Writes parameters, constants and the results of host functions.
    ///
    /// # Errors
    /// A parameter is missing or does not fit its type.
    pub fn initialize(&mut self, parameters: &Parameters) -> Result<(), TileError> {
        const STEP: &str = "initialize";
        let uses = self.program.bindings.iter().filter_map(|b| match b.source {
            Source::Host { function, .. } => Some(function),
            _ => None,
        });
        let mut results = HostResults::new(&self.program.host, parameters, &[], uses);
        for binding in &self.program.bindings {
            let buffer = self.memory.describe(STEP, binding.buffer)?;
            let (array, subject) = match &binding.source {
                Source::Parameter { name, ty } => {
                    let array =
                        parameters
                            .get(name)
                            .ok_or_else(|| TileError::MissingParameter {
                                name: name.clone(),
                                buffer: buffer.name.clone(),
                            })?;
                    let subject = format!("parameter '{name}'");
                    check_shape(&subject, &ty.shape, array)?;
                    let array = array
                        .to_element(ty.element)
                        .map_err(|error| TileError::Host {
                            subject: subject.clone(),
                            error,
                        })?;
                    (array, subject)
                }
                Source::Constant { ty, values } => {
                    let subject = format!("constant of buffer '{}'", buffer.name);
                    let array = HostArray::constant(ty.clone(), values).map_err(|error| {
                        TileError::Host {
                            subject: subject.clone(),
                            error,
                        }
                    })?;
                    (array, subject)
                }
                &Source::Host { function, result } => {
                    let array = host_result(&mut results, function, result, &buffer.name)?;
                    (array, host_subject(&buffer.name))
                }
                Source::Input(_) | Source::HostStep { .. } | Source::Output(_) => continue,
            };
            self.memory.fill(STEP, binding.buffer, || subject, &array)?;
        }
        self.parameters = step_parameters(&self.program.host, parameters).map_err(|error| {
            TileError::Function {
                buffer: "host step".to_owned(),
                error,
            }
        })?;
        self.initialized = true;
        Ok(())
    }

    /// Writes the inputs, executes all steps and reads the outputs.
    ///
    /// # Errors
    /// An input is missing or does not fit, or a step fails.
    pub fn run(&mut self, inputs: &[HostArray]) -> Result<Vec<HostArray>, TileError> {
        self.write_inputs(inputs)?;
        for step in &self.program.steps {
            self.step(step)?;
        }
        self.outputs()
    }

    /// Writes the inputs.
    ///
    /// # Errors
    /// An input is missing or does not fit, or the parameters were not written.
    pub fn write_inputs(&mut self, inputs: &[HostArray]) -> Result<(), TileError> {
        if !self.initialized {
            return Err(TileError::NotInitialized);
        }
        let uses = self.program.bindings.iter().filter_map(|b| match b.source {
            Source::HostStep { function, .. } => Some(function),
            _ => None,
        });
        let mut results = HostResults::new(&self.program.host, &self.parameters, inputs, uses);
        for binding in &self.program.bindings {
            let index = match binding.source {
                Source::Input(index) => index,
                Source::HostStep { function, result } => {
                    let buffer = self.memory.describe("inputs", binding.buffer)?;
                    let array = host_result(&mut results, function, result, &buffer.name)?;
                    let subject = host_subject(&buffer.name);
                    self.memory
                        .fill("inputs", binding.buffer, || subject, &array)?;
                    continue;
                }
                _ => continue,
            };
            let buffer = self.memory.describe("inputs", binding.buffer)?;
            let array = inputs
                .get(index as usize)
                .ok_or_else(|| TileError::MissingInput {
                    index,
                    buffer: buffer.name.clone(),
                    found: inputs.len(),
                })?;
            let subject = format!("input {index}");
            check_shape(&subject, &buffer.ty.shape, array)?;
            self.memory
                .fill("inputs", binding.buffer, || subject, array)?;
        }
        Ok(())
    }

    /// Executes one step.
    ///
    /// # Errors
    /// An access fails or the step does not fit its kernel.
    pub fn step(&mut self, step: &Step) -> Result<(), TileError> {
        match step {
            Step::Compute(compute) => self.compute(compute),
            Step::Rearrange {
                name,
                source,
                destination,
                view,
                ..
            } => self.rearrange(name, *source, *destination, view.as_ref()),
            Step::Exchange { name, copies, .. } => self.exchange(name, copies),
        }
    }

    /// The outputs of the function.
    ///
    /// # Errors
    /// An output has no binding or its buffer cannot be read.
    pub fn outputs(&self) -> Result<Vec<HostArray>, TileError> {
        let mut outputs = BTreeMap::new();
        for binding in &self.program.bindings {
            if let Source::Output(index) = binding.source {
                outputs.insert(
                    index as usize,
                    self.memory.tensor("outputs", binding.buffer)?,
                );
            }
        }
        outputs
            .into_iter()
            .enumerate()
            .map(|(expected, (index, array))| match index == expected {
                true => Ok(array),
                false => Err(TileError::MissingOutput { index: expected }),
            })
            .collect()
    }

    /// The tensor that a buffer holds now.
    ///
    /// # Errors
    /// The buffer does not exist or its layout does not hold the whole tensor.
    pub fn tensor(&self, buffer: BufferId) -> Result<HostArray, TileError> {
        self.memory.tensor("inspection", buffer)
    }

    /// The bytes of a buffer on a tile, padding included.
    ///
    /// # Errors
    /// The buffer does not exist or has no part on the tile.
    pub fn bytes(&self, id: BufferId, tile: u32) -> Result<&[u8], TileError> {
        const STEP: &str = "inspection";
        let bytes = self.memory.describe(STEP, id)?.bytes();
        self.memory.read(STEP, id, tile, 0, bytes.into())
    }

    /// Every copy of the destination gets the elements of the view, its other elements from the
    /// first copy, and zeros as padding.
    fn rearrange(
        &mut self,
        step: &str,
        source: BufferId,
        destination: BufferId,
        view: Option<&View>,
    ) -> Result<(), TileError> {
        let size = |id| -> Result<u32, TileError> {
            Ok(self.memory.describe(step, id)?.ty.element.bytes())
        };
        let (bytes, found) = (size(source)?, size(destination)?);
        if bytes != found {
            return Err(TileError::Elements {
                step: step.to_owned(),
                source_bytes: bytes,
                destination_bytes: found,
            });
        }
        let read = self.memory.words(step, source)?;
        let write = self.memory.words(step, destination)?;
        let walk = Walk::new(view, read.len() as u64, write.len() as u64).map_err(|error| {
            TileError::View {
                step: step.to_owned(),
                error,
            }
        })?;
        let mut values = write;
        walk.lines(|s, d, axis| {
            for i in 0..axis.extent {
                let (s, d) = (s + i * axis.source, d + i * axis.destination);
                values[d as usize] = read[s as usize];
            }
        });
        self.memory.fill_words(step, destination, &values)
    }

    fn compute(&mut self, compute: &Compute) -> Result<(), TileError> {
        let kernel = self
            .kernels
            .get(&compute.kernel)
            .ok_or_else(|| TileError::UnknownKernel {
                step: compute.name.clone(),
                kernel: compute.kernel.clone(),
            })?;
        let arguments = |what, expected: usize, found: usize| match expected == found {
            true => Ok(()),
            false => Err(TileError::Arguments {
                step: compute.name.clone(),
                kernel: compute.kernel.clone(),
                what,
                expected,
                found,
            }),
        };
        let (tiles, found) = (compute.tiles.len(), compute.words.len());
        arguments("buffers", kernel.buffers.len(), compute.buffers.len())?;
        let Some(words) = kernel.record_words(found, tiles) else {
            return Err(match &kernel.table {
                None => TileError::Arguments {
                    step: compute.name.clone(),
                    kernel: compute.kernel.clone(),
                    what: "words",
                    expected: tiles * kernel.words.len(),
                    found,
                },
                Some(table) => TileError::Records {
                    step: compute.name.clone(),
                    kernel: compute.kernel.clone(),
                    table: table.clone(),
                    words: kernel.words.len(),
                    tiles,
                    found,
                },
            });
        };
        for (i, &tile) in compute.tiles.iter().enumerate() {
            Call {
                step: &compute.name,
                tile,
                name: &compute.kernel,
                kernel,
                buffers: &compute.buffers,
                words: &compute.words[i * words..][..words],
            }
            .execute(&mut self.memory)?;
        }
        Ok(())
    }

    fn exchange(&mut self, step: &str, copies: &[Copy]) -> Result<(), TileError> {
        let mut arrivals = Vec::new();
        for copy in copies {
            for transfer in &copy.transfers {
                let bytes = u64::from(transfer.words) * 4;
                let offset = u64::from(transfer.source_offset);
                let data = self
                    .memory
                    .read(step, copy.source, transfer.source, offset, bytes)?;
                arrivals.push((copy.destination, &transfer.destinations, data.to_vec()));
            }
        }
        for (buffer, destinations, data) in arrivals {
            for &(tile, offset) in destinations {
                self.memory
                    .write(step, buffer, tile, u64::from(offset), &data)?;
            }
        }
        Ok(())
    }
}

fn host_subject(buffer: &str) -> String {
    format!("host function of buffer '{buffer}'")
}

/// A result of a host function for a buffer.
fn host_result(
    results: &mut HostResults<'_>,
    function: u32,
    result: u32,
    buffer: &str,
) -> Result<HostArray, TileError> {
    let buffer = || buffer.to_owned();
    let array = results.get(function, result).map_err(|error| match error {
        GraphError::MissingParameter { name, .. } => TileError::MissingParameter {
            name,
            buffer: buffer(),
        },
        error => TileError::Function {
            buffer: buffer(),
            error,
        },
    })?;
    array.ok_or_else(|| TileError::MissingResult {
        buffer: buffer(),
        function,
        result,
    })
}

fn check_shape(subject: &str, expected: &[u32], array: &HostArray) -> Result<(), TileError> {
    if array.shape() == expected {
        return Ok(());
    }
    Err(TileError::Host {
        subject: subject.to_owned(),
        error: HostError::Shape {
            expected: expected.to_vec(),
            found: array.shape().to_vec(),
        },
    })
}

#[cfg(test)]
mod tests;
