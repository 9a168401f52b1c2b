use super::*;
use ipu_image::memory::PeakMemory;
use ipu_image::package::{HostFunction, HostOp, ImagesBuilder, StepKind, StepSummary};
use ipu_program::graph::{BinaryKind, OpKind};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::types::{ElementType, TensorType};
use pretty_assertions::assert_eq;

const X: u32 = 0x60000;
const B: u32 = 0x61000;
const Y: u32 = 0x62000;

/// y = x + b on two tiles, executed by the fake machine below.
fn package() -> Package {
    let target = Target::ipu21();
    let ty = TensorType::new([4, 3], ElementType::F16);
    let layout = Layout {
        rows: Split {
            parts: 2,
            block: 2,
            stride: 1,
            unit: 1,
            period: 0,
            group: 0,
            group_stride: 0,
        },
        columns: Split::whole(3),
        copies: 1,
        copy_stride: 0,
        first_tile: 0,
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
    };
    let binding = |source, model: &TensorType, name: &str, address| Binding {
        source,
        model: model.clone(),
        name: name.into(),
        buffer: ty.clone(),
        layout: layout.clone(),
        address,
    };
    let bias = TensorType::new([3], ElementType::F16);
    let mut images = ImagesBuilder::new();
    for tile in 0..2 {
        images.segment(tile, target.load_base, &[0; 8]);
    }
    let metadata = Metadata {
        function: "main".into(),
        inputs: vec![ty.clone()],
        outputs: vec![ty.clone()],
        entry: target.load_base,
        calls: HostCall::PROTOCOL.to_vec(),
        host: Vec::new(),
        bindings: vec![
            binding(Source::Input(0), &ty, "x", X),
            binding(Source::Parameter("bias".into()), &bias, "b", B),
            binding(Source::Output(0), &ty, "y", Y),
        ],
        steps: vec![StepSummary {
            name: "add".into(),
            kind: StepKind::Compute,
            location: String::new(),
            scheduled_cycles: 900,
        }],
        places: Vec::new(),
        estimated_cycles: 800,
        scheduled_cycles: 900,
        peak_memory: PeakMemory {
            bytes: 500,
            tile: 1,
        },
    };
    let package = Package::new(target, metadata, images.finish(), vec![]);
    package.check(target).unwrap();
    package
}

/// A machine that knows the program by heart: at every third host sync y = x + b is in place.
struct Fake {
    memory: BTreeMap<(u32, u32), Vec<u8>>,
    started: Vec<u32>,
    syncs: Vec<SyncRecord>,
    clock: u64,
}

impl Fake {
    fn new(_: &Target) -> Self {
        Fake {
            memory: BTreeMap::new(),
            started: Vec::new(),
            syncs: Vec::new(),
            clock: 0,
        }
    }

    fn sync(&mut self, host: bool, after: u64, row_cycles: u64) {
        let arrival = self.clock + after;
        self.clock = arrival + 150;
        self.syncs.push(SyncRecord {
            host,
            arrival,
            release: self.clock,
            row_cycles,
        });
    }
}

impl Machine for Fake {
    fn load(&mut self, tiles: &[u32], address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        tiles
            .iter()
            .try_for_each(|&t| self.write(t, address, bytes))
    }

    fn start(&mut self, tile: u32, entry: u32) -> Result<(), MachineError> {
        assert_eq!(entry, Target::ipu21().load_base);
        self.started.push(tile);
        Ok(())
    }

    fn run(&mut self, max_cycles: u64) -> Result<Halt, MachineError> {
        if max_cycles < 1000 {
            return Err("no end within the limit".into());
        }
        match self.syncs.iter().filter(|s| s.host).count() {
            n if n < 2 || n % 2 == 1 => self.sync(true, 10, 0),
            _ => {
                self.sync(false, 200, 0);
                self.sync(false, 300, 120);
                self.sync(true, 100, 0);
                for tile in 0..2 {
                    let halves = |address| {
                        let bytes = &self.memory[&(tile, address)];
                        let values = bytes.as_chunks::<2>().0.iter();
                        values
                            .map(|b| half::f16::from_le_bytes(*b).to_f32())
                            .collect::<Vec<_>>()
                    };
                    let y = halves(X)
                        .into_iter()
                        .zip(halves(B))
                        .map(|(x, b)| half::f16::from_f32(x + b));
                    let y = y.flat_map(|v| v.to_le_bytes()).collect();
                    self.memory.insert((tile, Y), y);
                }
            }
        }
        Ok(Halt::HostSync)
    }

    fn write(&mut self, tile: u32, address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        self.memory.insert((tile, address), bytes.to_vec());
        Ok(())
    }

    fn read(&self, tile: u32, address: u32, bytes: usize) -> Result<Vec<u8>, MachineError> {
        Ok(self.memory[&(tile, address)][..bytes].to_vec())
    }

    fn syncs(&self) -> Vec<SyncRecord> {
        self.syncs.clone()
    }
}

fn device(max_cycles: u64) -> SimulatorDevice<Fake> {
    SimulatorDevice::with_machine(Target::ipu21(), max_cycles, Fake::new)
}

fn host(extents: &[u32], values: &[f32]) -> HostArray {
    HostArray::constant(TensorType::new(extents, ElementType::F32), values).unwrap()
}

fn parameters() -> Parameters {
    Parameters::from([("bias".to_owned(), host(&[3], &[10.0, 20.0, 30.0]))])
}

#[test]
fn a_program_runs_repeatedly() {
    let package = package();
    let mut device = device(10_000);
    device
        .load(Program {
            package: Some(&package),
            ..Program::default()
        })
        .unwrap();
    assert_eq!(
        device.machine().map(|m| m.started.clone()),
        Some(vec![0, 1])
    );
    device.initialize(&parameters()).unwrap();
    for x in [1.0, 2.0, 3.0] {
        let (outputs, report) = device.run(&[host(&[4, 3], &[x])]).unwrap();
        assert_eq!(
            outputs[0].values()[..4],
            [x + 10.0, x + 20.0, x + 30.0, x + 10.0]
        );
        let expected = RunReport {
            device: "sim".into(),
            simulated: Some(RunCycles {
                total_cycles: 900,
                compute_cycles: 480,
                exchange_cycles: 120,
                sync_cycles: 300,
                phases: 2,
                total_cycles_at_600: 1800,
            }),
            simulated_initialize_cycles: Some(10),
            scheduled_cycles: Some(900),
            estimated_cycles: Some(800),
            peak_memory: Some(PeakMemory {
                bytes: 500,
                tile: 1,
            }),
        };
        assert_eq!(report, expected);
    }
}

#[test]
fn errors_name_the_subject() {
    let package = package();
    let program = Program {
        package: Some(&package),
        ..Program::default()
    };
    let x = host(&[4, 3], &[0.0]);
    let mut d = device(10_000);
    let message = |e: DeviceError| e.to_string();
    assert_eq!(
        message(d.load(Program::default()).unwrap_err()),
        "device 'sim' needs a package: compile the model first"
    );
    assert_eq!(
        message(d.initialize(&parameters()).unwrap_err()),
        "device 'sim' was asked to initialize before load"
    );
    d.load(program).unwrap();
    assert_eq!(
        message(d.run(std::slice::from_ref(&x)).unwrap_err()),
        "device 'sim' was asked to run before load and initialize"
    );
    assert_eq!(
        message(d.initialize(&Parameters::new()).unwrap_err()),
        "parameter 'bias' is missing; expected tensor<3xf16> in the weights"
    );
    let wrong = Parameters::from([("bias".to_owned(), host(&[4], &[0.0]))]);
    assert_eq!(
        message(d.initialize(&wrong).unwrap_err()),
        "parameter 'bias': expected shape 3, found 4"
    );
    d.initialize(&parameters()).unwrap();
    assert_eq!(
        message(d.run(&[]).unwrap_err()),
        "function 'main' takes 1 inputs, found 0"
    );
    assert_eq!(
        message(d.run(&[host(&[3], &[0.0])]).unwrap_err()),
        "input 0: expected shape 4x3, found 3"
    );
    d.run(&[x]).unwrap();
    assert_eq!(
        message(device(1).load(program).unwrap_err()),
        "running to the external sync for Initialize within 1 cycles: no end within the limit"
    );
}

/// The bias as twice a parameter, computed by the host.
#[test]
fn host_functions_are_computed_at_initialize() {
    let mut package = package();
    let ty = package.metadata.bindings[1].model.clone();
    let op = |kind, operands: &[u32]| HostOp {
        kind,
        operands: operands.to_vec(),
        ty: ty.clone(),
        location: "m.mlir:2:3".into(),
    };
    let name = "bias".to_owned();
    package.metadata.host = vec![HostFunction {
        name: "host0".into(),
        inputs: vec![],
        ops: vec![
            op(OpKind::Parameter { name }, &[]),
            op(OpKind::Binary(BinaryKind::Add), &[0, 0]),
        ],
        results: vec![1],
    }];
    package.metadata.bindings[1].source = Source::Host {
        function: 0,
        result: 0,
    };
    package.check(Target::ipu21()).unwrap();
    let mut device = device(10_000);
    let program = Program {
        package: Some(&package),
        ..Program::default()
    };
    device.load(program).unwrap();
    let missing = device.initialize(&Parameters::new()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "parameter 'bias' is missing; expected tensor<3xf16> in the weights"
    );
    device.initialize(&parameters()).unwrap();
    let (outputs, _) = device.run(&[host(&[4, 3], &[1.0])]).unwrap();
    assert_eq!(outputs[0].values()[..4], [21.0, 41.0, 61.0, 21.0]);
}

/// The bias as the rounded sum of a parameter and the first row of the input, at each run.
#[test]
fn host_steps_are_computed_at_each_run() {
    let mut package = package();
    let ty = package.metadata.bindings[1].model.clone();
    let index = TensorType::new(Vec::<u32>::new(), ElementType::I32);
    let op = |kind, operands: &[u32], ty: &TensorType| HostOp {
        kind,
        operands: operands.to_vec(),
        ty: ty.clone(),
        location: "m.mlir:2:3".into(),
    };
    let name = "bias".to_owned();
    package.metadata.host = vec![HostFunction {
        name: "host0".into(),
        inputs: package.metadata.inputs.clone(),
        ops: vec![
            op(OpKind::Constant { values: vec![2.0] }, &[], &index),
            op(OpKind::Gather { axis: 0 }, &[0, 1], &ty),
            op(OpKind::Parameter { name }, &[], &ty),
            op(OpKind::Binary(BinaryKind::Add), &[2, 3], &ty),
        ],
        results: vec![4],
    }];
    package.metadata.bindings[1].source = Source::HostStep {
        function: 0,
        result: 0,
    };
    let package = Package::from_bytes(&package.to_bytes().unwrap()).unwrap();
    let mut device = device(10_000);
    let program = Program {
        package: Some(&package),
        ..Program::default()
    };
    device.load(program).unwrap();
    let missing = device.initialize(&Parameters::new()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "parameter 'bias' is missing; expected tensor<3xf16> in the weights"
    );
    device.initialize(&parameters()).unwrap();
    // The bias is 10, 20, 30; of the input the third row counts.
    for third in [1.0, 3.0] {
        let mut values = vec![0.0; 12];
        values[6..9].fill(third);
        let (outputs, _) = device.run(&[host(&[4, 3], &values)]).unwrap();
        let expected = [10.0 + third, 20.0 + third, 30.0 + third];
        assert_eq!(outputs[0].values()[..3], expected);
    }
}

/// The protocol on the simulator itself: tiles that only meet the host.
#[test]
fn the_simulator_meets_the_host() {
    let target = Target::ipu21();
    let mut package = package();
    // `sync 4`, again and again: y has the address of x, so it is what the host wrote.
    let sync = 0x4180_0004u32.to_le_bytes().repeat(8);
    let mut images = ImagesBuilder::new();
    for tile in 0..target.tiles {
        images.segment(tile, target.load_base, &sync);
    }
    package.images = images.finish();
    for binding in &mut package.metadata.bindings {
        binding.address = X;
    }
    let package = Package::from_bytes(&package.to_bytes().unwrap()).unwrap();
    let mut device = SimulatorDevice::new(target, 100_000);
    device
        .load(Program {
            package: Some(&package),
            ..Program::default()
        })
        .unwrap();
    device.initialize(&parameters()).unwrap();
    for value in [1.0, 2.0] {
        let x = host(&[4, 3], &[value]);
        let (outputs, report) = device.run(std::slice::from_ref(&x)).unwrap();
        assert_eq!(outputs[0].values(), x.values());
        let simulated = report.simulated.unwrap();
        assert_eq!(
            (
                simulated.phases,
                simulated.exchange_cycles,
                simulated.sync_cycles
            ),
            (0, 0, 0)
        );
        assert!(simulated.total_cycles < 100, "{simulated:?}");
    }
}
