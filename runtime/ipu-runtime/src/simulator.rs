//! The simulator as a device: the host side of a program's external syncs.
//!
//! All tiles of the package start at its entry. At the first external sync the host writes
//! parameters, constants and what it computes from them, at the second the inputs, at the third it reads the outputs; then the
//! program waits for inputs again. The host copies binding slices while all tiles wait; that takes
//! no cycles of the chip.

use crate::device::{Device, DeviceError, Program, check_shape};
use crate::machine::{Halt, Machine, MachineError, SyncRecord, names};
use crate::report::{RunCycles, RunReport};
use ipu_image::package::{Binding, HostCall, Metadata, Package, Source, Symbol};
use ipu_interp::graph::{GraphError, HostResults, step_parameters};
use ipu_interp::host::{HostArray, HostError, Parameters, pack, unpack};
use ipu_simulator::Chip;
use ipu_target::Target;
use std::collections::BTreeMap;

/// Runs packages on a [`Machine`], by default the simulator.
pub struct SimulatorDevice<M = Chip> {
    target: Target,
    make: fn(&Target) -> M,
    max_cycles: u64,
    traced: Vec<u32>,
    breaks: Vec<Break>,
    watches: Vec<Watch>,
    loaded: Option<Loaded<M>>,
}

/// Where a run stands while all tiles wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The inputs are written, nothing ran yet.
    Inputs,
    /// At an internal sync, with so many before it in this run.
    Sync(usize),
    /// On one tile before a step of the program ([`RunObserver::stops`]); others are anywhere.
    Step {
        /// Logical tile.
        tile: u32,
        /// Step, from 0.
        step: usize,
    },
    /// The outputs are there to be read.
    Outputs,
}

/// Looks at memory while a run goes on, which it cannot change.
pub trait RunObserver {
    /// Called wherever all tiles wait, in the order of [`Pause`], and where [`RunObserver::stops`]
    /// says; a machine that does not stop at internal syncs or on a tile leaves those out.
    fn paused(&mut self, machine: &dyn Machine, at: Pause);

    /// Tiles with the steps, from 0, before which the run is to pause there as well.
    fn stops(&self) -> Vec<(u32, usize)> {
        Vec::new()
    }
}

/// Where a run is interrupted for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Logical tile.
    pub tile: u32,
    /// A code symbol of the package, or an address.
    pub place: Place,
}

/// A place in the code of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A code symbol.
    Symbol(String),
    /// A byte address.
    Address(u32),
}

/// Memory whose changes are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Logical tile.
    pub tile: u32,
    /// First byte.
    pub address: u32,
    /// Length.
    pub bytes: u32,
}

struct Loaded<M> {
    machine: M,
    metadata: Metadata,
    symbols: Vec<Symbol>,
    /// The host call that the program waits for.
    waits_for: HostCall,
    initialize_cycles: Option<u64>,
    /// What host steps read at each run.
    parameters: Parameters,
}

impl SimulatorDevice<Chip> {
    /// A simulated chip. A call fails after `max_cycles` without an external sync.
    pub fn new(target: &Target, max_cycles: u64) -> Self {
        SimulatorDevice::with_machine(target, max_cycles, Chip::new)
    }
}

impl<M: Machine> SimulatorDevice<M> {
    const NAME: &'static str = "sim";

    /// A device over another machine; `make` gives one in reset for each load.
    pub fn with_machine(target: &Target, max_cycles: u64, make: fn(&Target) -> M) -> Self {
        SimulatorDevice {
            target: target.clone(),
            make,
            max_cycles,
            traced: Vec::new(),
            breaks: Vec::new(),
            watches: Vec::new(),
            loaded: None,
        }
    }

    /// Prints every instruction that these tiles issue to standard error, from the next load on.
    pub fn trace(&mut self, tiles: Vec<u32>) {
        self.traced = tiles;
    }

    /// Reports each instruction that is about to be issued at these places, and each change of
    /// this memory by an instruction, to standard error, from the next load on.
    pub fn interrupt(&mut self, breaks: Vec<Break>, watches: Vec<Watch>) {
        self.breaks = breaks;
        self.watches = watches;
    }

    fn set_interrupts(&self, machine: &mut M, symbols: &[Symbol]) -> Result<(), DeviceError> {
        let names = names(symbols);
        for Break { tile, place } in &self.breaks {
            let address = match place {
                Place::Address(address) => *address,
                Place::Symbol(name) => {
                    names
                        .address(name)
                        .ok_or_else(|| DeviceError::MissingSymbol {
                            name: name.clone(),
                            known: names.names().map(str::to_owned).collect(),
                        })?
                }
            };
            machine
                .break_at(*tile, address)
                .map_err(failed("setting a breakpoint"))?;
        }
        for watch in &self.watches {
            machine
                .watch(watch.tile, watch.address, watch.bytes as usize)
                .map_err(failed("watching memory"))?;
        }
        Ok(())
    }

    /// The machine with the loaded program, for traces and counters.
    pub fn machine(&self) -> Option<&M> {
        self.loaded.as_ref().map(|l| &l.machine)
    }

    /// The loaded program, which must have been initialized or not.
    fn loaded(
        &mut self,
        initialized: bool,
        call: &'static str,
    ) -> Result<&mut Loaded<M>, DeviceError> {
        let missing = if initialized {
            "load and initialize"
        } else {
            "load"
        };
        self.loaded
            .as_mut()
            .filter(|l| (l.waits_for != HostCall::Initialize) == initialized)
            .ok_or(DeviceError::Order {
                device: Self::NAME,
                call,
                missing,
            })
    }
}

fn failed(action: impl Into<String>) -> impl FnOnce(MachineError) -> DeviceError {
    let action = action.into();
    move |error| DeviceError::Machine { action, error }
}

fn host_failed(error: GraphError) -> DeviceError {
    match error {
        GraphError::MissingParameter { name, ty, .. } => DeviceError::MissingParameter { name, ty },
        error => error.into(),
    }
}

impl<M: Machine> Loaded<M> {
    /// Lets the program go on to the external sync for `call`.
    fn advance(&mut self, call: HostCall, max_cycles: u64) -> Result<(), DeviceError> {
        self.advance_with(call, max_cycles, &BTreeMap::new(), &mut |_, _| ())
    }

    /// The same, with a look at each internal sync at which the machine pauses, and at each of the
    /// breakpoints: tile and address, with the step that starts there.
    fn advance_with(
        &mut self,
        call: HostCall,
        max_cycles: u64,
        stops: &BTreeMap<(u32, u32), usize>,
        look: &mut dyn FnMut(&M, Pause),
    ) -> Result<(), DeviceError> {
        let mut passed = 0;
        // Clocks from one pause to the next; all of them have one limit.
        let mut left = max_cycles;
        let mut since = self.machine.syncs().last().map_or(0, |s| s.release);
        let halt = loop {
            match self.machine.run(left) {
                Err(error) if self.machine.is_stop(&error) => {
                    let at = self.machine.stopped_at(&error);
                    if let Some((&(tile, _), &step)) = at.and_then(|at| stops.get_key_value(&at)) {
                        look(&self.machine, Pause::Step { tile, step });
                        continue;
                    }
                    let text = self.machine.explain(&error, &self.symbols, &self.metadata);
                    eprintln!("{text}");
                }
                Ok(Halt::InternalSync) => {
                    look(&self.machine, Pause::Sync(passed));
                    passed += 1;
                    let now = self.machine.syncs().last().map_or(since, |s| s.release);
                    left = left.saturating_sub(now.saturating_sub(since));
                    since = now;
                }
                halt => break halt,
            }
        };
        let halt = halt.map_err(|error| DeviceError::Machine {
            action: format!("running to the external sync for {call:?} within {max_cycles} cycles"),
            error: self
                .machine
                .explain(&error, &self.symbols, &self.metadata)
                .into(),
        })?;
        match halt {
            Halt::HostSync | Halt::InternalSync => {
                self.waits_for = call;
                Ok(())
            }
            Halt::Ended(cycle) => Err(DeviceError::Ended {
                cycle,
                expected: call,
            }),
        }
    }

    fn bindings(&self, call: HostCall) -> impl Iterator<Item = &Binding> {
        self.metadata
            .bindings
            .iter()
            .filter(move |b| b.source.call() == call)
    }
}

/// Writes an array to the tiles of a binding.
fn write<M: Machine>(
    machine: &mut M,
    binding: &Binding,
    array: &HostArray,
) -> Result<(), DeviceError> {
    let shards =
        pack(array, &binding.buffer, &binding.layout).map_err(|error| DeviceError::Host {
            binding: binding.name.clone(),
            error,
        })?;
    for shard in shards {
        machine
            .write(shard.tile, binding.address, &shard.bytes)
            .map_err(failed(format!("writing '{}'", binding.name)))?;
    }
    Ok(())
}

/// Reads the array of a binding from its tiles.
fn read<M: Machine>(machine: &M, binding: &Binding) -> Result<HostArray, DeviceError> {
    enum Problem {
        Host(HostError),
        Machine(MachineError),
    }
    impl From<HostError> for Problem {
        fn from(error: HostError) -> Self {
            Problem::Host(error)
        }
    }
    let array = unpack(&binding.buffer, &binding.layout, |tile, storage| {
        machine
            .read(tile, binding.address, storage.bytes() as usize)
            .map_err(Problem::Machine)
    });
    array.map_err(|problem| match problem {
        Problem::Machine(error) => failed(format!("reading '{}'", binding.name))(error),
        Problem::Host(error) => DeviceError::Host {
            binding: binding.name.clone(),
            error,
        },
    })
}

/// Cycles between two host syncs, the first and last of `syncs`.
fn cycles(target: &Target, syncs: &[SyncRecord]) -> RunCycles {
    let [first, between @ .., last] = syncs else {
        return RunCycles::default();
    };
    let total_cycles = last.arrival.saturating_sub(first.release);
    let exchange_cycles = syncs[1..].iter().map(|s| s.row_cycles).sum();
    let internal = || between.iter().filter(|s| !s.host);
    let sync_cycles = internal()
        .map(|s| s.release.saturating_sub(s.arrival))
        .sum();
    let phases = internal().count() as u64;
    let others = phases * u64::from(target.assumed_phase_cycles);
    RunCycles {
        total_cycles,
        compute_cycles: total_cycles.saturating_sub(exchange_cycles + sync_cycles),
        exchange_cycles,
        sync_cycles,
        phases,
        total_cycles_at_600: (total_cycles + others)
            .saturating_sub(phases * u64::from(target.internal_sync_cycles)),
    }
}

impl<M: Machine> Device for SimulatorDevice<M> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn load(&mut self, program: Program<'_>) -> Result<(), DeviceError> {
        let package: &Package = program.package.ok_or(DeviceError::Unsuitable {
            device: Self::NAME,
            needs: "a package: compile the model first",
        })?;
        self.loaded = None;
        let mut machine = (self.make)(&self.target);
        let mut places: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for image in package.images.tiles() {
            for segment in &image.segments {
                places
                    .entry((segment.address, segment.blob))
                    .or_default()
                    .push(image.tile);
            }
        }
        for ((address, blob), tiles) in places {
            let bytes = package
                .images
                .blobs()
                .get(blob as usize)
                .map_or(&[][..], Vec::as_slice);
            machine
                .load(&tiles, address, bytes)
                .map_err(failed(format!("loading segment {address:#x}")))?;
        }
        for image in package.images.tiles() {
            machine
                .start(image.tile, package.metadata.entry)
                .map_err(failed(format!("starting tile {}", image.tile)))?;
        }
        machine
            .trace(&self.traced, &package.symbols)
            .map_err(failed("tracing"))?;
        self.set_interrupts(&mut machine, &package.symbols)?;
        let mut loaded = Loaded {
            machine,
            metadata: package.metadata.clone(),
            symbols: package.symbols.clone(),
            waits_for: HostCall::Initialize,
            initialize_cycles: None,
            parameters: Parameters::new(),
        };
        loaded.advance(HostCall::Initialize, self.max_cycles)?;
        self.loaded = Some(loaded);
        Ok(())
    }

    fn initialize(&mut self, parameters: &Parameters) -> Result<(), DeviceError> {
        let max_cycles = self.max_cycles;
        let target = self.target.clone();
        let loaded = self.loaded(false, "initialize")?;
        let functions = loaded.metadata.host_graphs();
        let uses = loaded
            .metadata
            .bindings
            .iter()
            .filter_map(|b| match b.source {
                Source::Host { function, .. } => Some(function),
                _ => None,
            });
        let mut results = HostResults::new(&functions, parameters, &[], uses);
        for binding in &loaded.metadata.bindings {
            let array = match &binding.source {
                Source::Parameter(name) => {
                    let array =
                        parameters
                            .get(name)
                            .ok_or_else(|| DeviceError::MissingParameter {
                                name: name.clone(),
                                ty: binding.model.clone(),
                            })?;
                    check_shape(|| format!("parameter '{name}'"), &binding.model, array)?;
                    array
                        .to_element(binding.model.element)
                        .map_err(|error| DeviceError::Host {
                            binding: binding.name.clone(),
                            error,
                        })?
                }
                Source::Constant(values) => HostArray::constant(binding.model.clone(), values)
                    .map_err(|error| DeviceError::Host {
                        binding: binding.name.clone(),
                        error,
                    })?,
                &Source::Host { function, result } => {
                    let array = results.get(function, result).map_err(host_failed)?;
                    // The package was checked: it is there.
                    let Some(array) = array else { continue };
                    array
                }
                Source::Input(_) | Source::HostStep { .. } | Source::Output(_) => continue,
            };
            write(&mut loaded.machine, binding, &array)?;
        }
        loaded.parameters = step_parameters(&functions, parameters).map_err(host_failed)?;
        let before = loaded.machine.syncs().len();
        loaded.advance(HostCall::Inputs, max_cycles)?;
        let syncs = loaded.machine.syncs();
        let run = cycles(
            &target,
            syncs.get(before.saturating_sub(1)..).unwrap_or(&[]),
        );
        loaded.initialize_cycles = Some(run.total_cycles);
        Ok(())
    }

    fn run(&mut self, inputs: &[HostArray]) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        self.run_with(inputs, None)
    }

    fn run_observed(
        &mut self,
        inputs: &[HostArray],
        observer: &mut dyn RunObserver,
    ) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        self.run_with(inputs, Some(observer))
    }
}

impl<M: Machine> SimulatorDevice<M> {
    fn run_with(
        &mut self,
        inputs: &[HostArray],
        mut observer: Option<&mut dyn RunObserver>,
    ) -> Result<(Vec<HostArray>, RunReport), DeviceError> {
        let max_cycles = self.max_cycles;
        let target = self.target.clone();
        let loaded = self.loaded(true, "run")?;
        let metadata = &loaded.metadata;
        if inputs.len() != metadata.inputs.len() {
            return Err(DeviceError::InputCount {
                function: metadata.function.clone(),
                expected: metadata.inputs.len(),
                found: inputs.len(),
            });
        }
        for (i, (ty, array)) in metadata.inputs.iter().zip(inputs).enumerate() {
            check_shape(|| format!("input {i}"), ty, array)?;
        }
        if loaded.waits_for == HostCall::Outputs {
            loaded.advance(HostCall::Inputs, max_cycles)?;
        }
        let functions = loaded.metadata.host_graphs();
        let uses = loaded.metadata.bindings.iter();
        let uses = uses.filter_map(|b| match b.source {
            Source::HostStep { function, .. } => Some(function),
            _ => None,
        });
        let mut results = HostResults::new(&functions, &loaded.parameters, inputs, uses);
        for binding in &loaded.metadata.bindings {
            match binding.source {
                Source::Input(i) => {
                    if let Some(array) = inputs.get(i as usize) {
                        write(&mut loaded.machine, binding, array)?;
                    }
                }
                Source::HostStep { function, result } => {
                    let array = results.get(function, result).map_err(host_failed)?;
                    // The package was checked: it is there.
                    if let Some(array) = array {
                        write(&mut loaded.machine, binding, &array)?;
                    }
                }
                _ => {}
            }
        }
        let before = loaded.machine.syncs().len();
        match &mut observer {
            None => loaded.advance(HostCall::Outputs, max_cycles)?,
            Some(observer) => {
                observer.paused(&loaded.machine, Pause::Inputs);
                let mut stops = BTreeMap::new();
                for (tile, step) in observer.stops() {
                    if let Some(address) = loaded.metadata.start_of(tile, step) {
                        // Of the steps that start there the last one is the one that runs.
                        let last = stops.entry((tile, address)).or_insert(step);
                        *last = step.max(*last);
                    }
                }
                let stopping = "stopping before a step";
                for &(tile, address) in stops.keys() {
                    let set = loaded.machine.break_at(tile, address);
                    set.map_err(failed(stopping))?;
                }
                loaded.machine.pause_at_syncs(true);
                let call = HostCall::Outputs;
                let done = loaded.advance_with(call, max_cycles, &stops, &mut |machine, at| {
                    observer.paused(machine, at);
                });
                loaded.machine.pause_at_syncs(false);
                for &(tile, address) in stops.keys() {
                    let forgotten = loaded.machine.forget_break(tile, address);
                    forgotten.map_err(failed(stopping))?;
                }
                done?;
                observer.paused(&loaded.machine, Pause::Outputs);
            }
        }
        let syncs = loaded.machine.syncs();
        let mut outputs = BTreeMap::new();
        for binding in loaded.bindings(HostCall::Outputs) {
            if let Source::Output(i) = binding.source {
                outputs.insert(i, read(&loaded.machine, binding)?);
            }
        }
        let report = RunReport {
            device: Self::NAME.to_owned(),
            simulated: Some(cycles(
                &target,
                syncs.get(before.saturating_sub(1)..).unwrap_or(&[]),
            )),
            simulated_initialize_cycles: loaded.initialize_cycles,
            scheduled_cycles: Some(loaded.metadata.scheduled_cycles),
            estimated_cycles: Some(loaded.metadata.estimated_cycles),
            peak_memory: Some(loaded.metadata.peak_memory),
        };
        Ok((outputs.into_values().collect(), report))
    }
}

#[cfg(test)]
mod tests;
