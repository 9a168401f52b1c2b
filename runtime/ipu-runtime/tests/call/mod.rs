//! One call of a kernel with flat buffers, on the simulator and by its meaning.
//!
//! Memory beyond and before what the call writes holds NaN, on the simulator also the registers and
//! accumulators of the workers at each launch: a result that depends on them shows.

use half::f16;
use ipu_interp::host::{HostArray, Parameters, pack, unpack};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_isa::asm::Assembler;
use ipu_isa::link::{LinkOptions, Linker};
use ipu_program::kernels::{Access, Kernels};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::HostError;
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use std::path::Path;

const RECORD: u32 = 0x5c000;
/// Buffers that may lie anywhere, in region 0, and those in interleaved memory; each has elements
/// of its own.
const STANDARD: [u32; 4] = [0x60000, 0x68000, 0x70000, 0x78000];
const INTERLEAVED: [u32; 3] = [0x80000, 0xa0000, 0xc0000];
const STANDARD_BYTES: u32 = 0x8000;
const INTERLEAVED_BYTES: u32 = 0x20000;

/// A call. Buffers are flat, in record order; those without values are not read.
pub struct Call<'a> {
    pub kernel: &'a str,
    pub buffers: Vec<(ElementType, u32, Option<Vec<f32>>)>,
    pub words: Vec<u32>,
}

/// What a call leaves in its outputs, one after the other, by the meaning and on the simulator, with the cycles there
/// from the call to the instruction after it and those that the law says.
pub struct Outcome {
    pub meaning: Vec<f32>,
    pub simulated: Vec<f32>,
    pub cycles: u64,
    pub law: u64,
}

impl Outcome {
    /// Checks every bit of the elements that `counts` says matter, and the law: 3 % or 30 cycles.
    pub fn check(&self, what: &str, counts: impl Fn(usize) -> bool) {
        assert_eq!(self.meaning.len(), self.simulated.len());
        let mut checked = 0;
        for (i, (m, s)) in self.meaning.iter().zip(&self.simulated).enumerate() {
            if counts(i) {
                assert_eq!(m.to_bits(), s.to_bits(), "{what}: element {i}: {m} {s}");
                checked += usize::from(!m.is_nan());
            }
        }
        assert!(checked > 0, "{what}: no result");
        assert!(
            self.law.abs_diff(self.cycles) <= 30.max(self.cycles * 3 / 100),
            "{what}: law {} cycles, simulated {}",
            self.law,
            self.cycles
        );
    }
}

/// Values of many magnitudes, so that sums round: exponents 2^-8 to 2^7, f16 or f32.
pub fn random(element: ElementType, count: u32, seed: u32) -> Vec<f32> {
    (0..count)
        .map(|i| {
            let h = i.wrapping_add(seed).wrapping_mul(0x9e37_79b1);
            let h = (h ^ (h >> 15)).wrapping_mul(0x85eb_ca77);
            let h = h ^ (h >> 13);
            match element {
                ElementType::F16 => {
                    f16::from_bits(((h & 0x83ff) | ((7 + ((h >> 16) & 15)) << 10)) as u16).to_f32()
                }
                _ => f32::from_bits((h & 0x807f_ffff) | ((119 + ((h >> 23) & 15)) << 23)),
            }
        })
        .collect()
}

fn program(call: &Call) -> TileProgram {
    let kernel = Kernels::builtin().get(call.kernel).unwrap();
    assert_eq!(kernel.buffers.len(), call.buffers.len());
    assert_eq!(kernel.words.len(), call.words.len());
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    let (mut standard, mut interleaved) = (STANDARD.iter(), INTERLEAVED.iter());
    for (argument, (element, elements, values)) in kernel.buffers.iter().zip(&call.buffers) {
        let (address, room) = match argument.memory {
            MemoryClass::Interleaved => (*interleaved.next().unwrap(), INTERLEAVED_BYTES),
            _ => (*standard.next().unwrap(), STANDARD_BYTES),
        };
        assert!(elements * element.bytes() + argument.tail <= room);
        let ty = TensorType::new([*elements], *element);
        let id = p.add_buffer(Buffer {
            name: argument.name.clone(),
            layout: Layout {
                rows: Split::whole(1),
                columns: Split::whole(*elements),
                copies: 1,
                copy_stride: 0,
                first_tile: 0,
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
            },
            ty: ty.clone(),
            align: 32,
            tail: argument.tail,
            live: None,
            address: Some(address),
            location: String::new(),
        });
        if argument.access == Access::Update {
            let source = Source::Parameter {
                name: argument.name.clone(),
                ty: ty.clone(),
            };
            p.bindings.push(Binding { source, buffer: id });
        }
        let source = match argument.access {
            Access::Read => Source::Parameter {
                name: argument.name.clone(),
                ty,
            },
            Access::Write | Access::Update => {
                let outputs = p.bindings.iter();
                let outputs = outputs.filter(|b| matches!(b.source, Source::Output(_)));
                Source::Output(outputs.count() as u32)
            }
            Access::Scratch => continue,
        };
        let written = matches!(argument.access, Access::Write | Access::Scratch);
        assert_eq!(!written, values.is_some());
        p.bindings.push(Binding { source, buffer: id });
    }
    p.steps.push(Step::Compute(Compute {
        name: "call".into(),
        kernel: call.kernel.into(),
        buffers: (0..kernel.buffers.len() as u32).map(BufferId).collect(),
        tiles: vec![0],
        words: call.words.clone(),
        location: String::new(),
    }));
    p
}

fn simulate(call: &Call, program: &TileProgram, parameters: &Parameters) -> (Vec<f32>, u64) {
    let target = Target::ipu21();
    let kernel = Kernels::builtin().get(call.kernel).unwrap();
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../device");
    let source = std::fs::read_to_string(device.join(&kernel.source)).unwrap();
    let mut assembler = Assembler::new();
    for (name, value) in &kernel.defines {
        assembler.define(name, *value);
    }
    let object = assembler.assemble(&kernel.source, &source).unwrap();
    let start = format!(
        ".section .text.main,\"ax\"\n.globl main\nmain:\nsetzi $m0, {RECORD}\ncall $m10, kernel_entry\ntrap 0\n"
    );
    let start = Assembler::new().assemble("start.S", &start).unwrap();
    let options = LinkOptions {
        base: target.load_base,
        limit: 0x58000,
        relative_base: target.memory_base,
    };
    let image = Linker::new()
        .add(start)
        .add(object)
        .link(&["main"], options)
        .unwrap();
    let addresses = program.buffers.iter().filter_map(|b| b.address);
    let record: Vec<u8> = addresses
        .chain(call.words.iter().copied())
        .flat_map(u32::to_le_bytes)
        .collect();
    let mut chip = Chip::new(target);
    chip.poison_launch(true);
    chip.load(0, image.base, &image.bytes).unwrap();
    chip.load(0, RECORD, &record).unwrap();
    let last = INTERLEAVED[INTERLEAVED.len() - 1] + INTERLEAVED_BYTES;
    chip.write(0, STANDARD[0], &vec![0xff; (last - STANDARD[0]) as usize])
        .unwrap();
    let mut outputs = Vec::new();
    for binding in &program.bindings {
        let buffer = program.buffer(binding.buffer);
        match &binding.source {
            Source::Parameter { name, .. } => {
                for shard in pack(&parameters[name], &buffer.ty, &buffer.layout).unwrap() {
                    chip.write(0, buffer.address.unwrap(), &shard.bytes)
                        .unwrap();
                }
            }
            _ => outputs.push(buffer),
        }
    }
    chip.start(0, image.symbols["main"]).unwrap();
    let stop = chip.run(100_000_000).unwrap_or_else(|e| panic!("{e}"));
    let Stop::Halted { cycle } = stop else {
        panic!("{stop:?}")
    };
    let values = outputs.into_iter().flat_map(|out| {
        let result = unpack(&out.ty, &out.layout, |tile, storage| {
            Ok::<_, HostError>(
                chip.read(tile, out.address.unwrap(), storage.bytes() as usize)
                    .unwrap(),
            )
        });
        result.unwrap().values().to_vec()
    });
    // The call follows one instruction.
    (values.collect(), cycle - 1)
}

/// Executes a call both ways.
pub fn run(call: &Call) -> Outcome {
    let kernels = Kernels::builtin();
    let program = program(call);
    let mut parameters = Parameters::new();
    for (buffer, (.., values)) in program.buffers.iter().zip(&call.buffers) {
        if let Some(values) = values {
            let array = HostArray::new(buffer.ty.clone(), values.clone()).unwrap();
            parameters.insert(buffer.name.clone(), array);
        }
    }
    let mut interpreter = Interpreter::new(&program, kernels, Fill::Poison);
    interpreter.initialize(&parameters).unwrap();
    let outputs = interpreter.run(&[]).unwrap();
    let meaning = outputs.iter().flat_map(|o| o.values().to_vec()).collect();
    let (simulated, cycles) = simulate(call, &program, &parameters);
    Outcome {
        meaning,
        simulated,
        cycles,
        law: kernels.cycles(kernels.get(call.kernel).unwrap(), &call.words),
    }
}
