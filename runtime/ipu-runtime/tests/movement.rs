//! The kernels that move values, executed by the simulator and by the tile interpreter: the same
//! bytes in the whole destination, in the cycles that their laws say, and no access beyond the
//! source.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

use half::f16;
use ipu_interp::host::{HostArray, Parameters, pack};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_isa::asm::Assembler;
use ipu_isa::link::{Image, LinkOptions, Linker};
use ipu_program::kernels::{Kernel, Kernels, Meaning, Move, share};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::runs::{Run, balanced, step_words};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use proptest::prelude::*;
use std::path::Path;

const RECORD: u32 = 0x54000;
const DESTINATION: u32 = 0x60000;
/// One past the last byte of a tile: the source ends here, so that reading on is a fault.
const MEMORY_END: u32 = 0xe8000;

/// A call: word arguments and table, and the bytes of its buffers, all multiples of 32.
#[derive(Debug)]
struct Case {
    words: Vec<u32>,
    buffers: Vec<u32>,
}

/// Numbers for one case.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        ((self.0 >> 33) % u64::from(n.max(1))) as u32
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }
}

/// Strides of `rows` times `panels` blocks of 32 bytes, in either order: of a row, of a panel.
fn strides(random: &mut Random, rows: u32, panels: u32) -> [u32; 2] {
    match random.below(2) {
        0 => [32 * panels, 32],
        _ => [32, 32 * rows],
    }
}

/// A call that clears columns of blocks of so many bytes a row.
fn cleared(random: &mut Random, block: u32) -> Case {
    let (rows, panels) = (random.below(40), random.between(1, 3));
    let [row, panel] = strides(random, rows, panels).map(|s| s / 32 * block);
    let offset = panel * random.below(panels);
    let [each, extra] = share(rows);
    Case {
        words: vec![each, extra, random.between(1, 15), offset, row],
        buffers: vec![block * rows * panels + 32],
    }
}

fn case(kind: Move, random: &mut Random) -> Case {
    match kind {
        Move::FillZero => {
            let atoms = random.below(200);
            Case {
                words: share(atoms).to_vec(),
                buffers: vec![(8 * atoms).next_multiple_of(32) + 32],
            }
        }
        Move::ZeroColumns => cleared(random, 32),
        Move::ZeroColumnsF32 => cleared(random, 64),
        Move::PackWeights { turned } => {
            let (batches, rows) = (random.between(1, 5), random.between(1, 40));
            let (panels, blocks) = (random.between(1, 3), rows.div_ceil(16));
            let (panel, batch) = (64 * rows * batches, 64 * rows);
            let groups = if turned { panels } else { blocks };
            let blocks = if turned { blocks } else { panels };
            Case {
                words: vec![batches, groups, blocks, rows, panel, batch],
                buffers: vec![panel * panels, 1024 * batches * groups * blocks + 32],
            }
        }
        Move::CopyRuns => {
            let size = 4096;
            let mut runs = Vec::new();
            let mut at = 4 * random.below(4);
            while runs.len() < 40 && random.below(9) > 0 {
                let words = match random.below(3) {
                    0 => random.below(4),
                    1 => random.below(40),
                    _ => random.below(300),
                };
                if at + 4 * words > size {
                    break;
                }
                let source = 4 * random.below((size - 4 * words) / 4 + 1);
                runs.push(Run {
                    source,
                    destination: at,
                    words,
                });
                at += 4 * words + 4 * random.below(3);
            }
            if random.below(2) == 0 {
                runs = balanced(&runs);
            }
            // A longer record of another tile of the step makes this one longer.
            let longer = vec![Run::default(); runs.len() + random.below(3) as usize];
            let both = step_words(&[runs, longer]);
            Case {
                words: both[..both.len() / 2].to_vec(),
                buffers: vec![size, size],
            }
        }
        Move::Gather => {
            let count = random.below(120);
            let (offset, size) = (4 * random.below(9), 1024);
            let table = (0..count + random.below(3))
                .map(|_| random.below(size / 2) | random.below(size / 2) << 16);
            Case {
                words: [count, offset].into_iter().chain(table).collect(),
                buffers: vec![size, (offset + 4 * count).next_multiple_of(32) + 32],
            }
        }
        Move::Transpose => {
            // One batch of few rows goes a way of its own.
            let (batches, panels, rows) = match random.below(2) {
                0 => (1, random.between(1, 12), random.between(1, 9)),
                _ => (
                    random.between(1, 6),
                    random.between(1, 3),
                    random.between(1, 70),
                ),
            };
            let (columns, groups) = (16 * panels, rows.div_ceil(16));
            let [src_row, src_panel] = strides(random, rows, panels);
            let [dst_row, dst_panel] = strides(random, columns, groups);
            let (src_batch, dst_batch) = (32 * rows * panels, 32 * columns * groups);
            let (src_offset, dst_offset) = (8 * random.below(5), 32 * random.below(2));
            Case {
                words: vec![
                    batches, rows, panels, src_offset, dst_offset, src_row, src_panel, src_batch,
                    dst_row, dst_panel, dst_batch,
                ],
                buffers: vec![
                    (src_offset + batches * src_batch).next_multiple_of(32),
                    dst_offset + batches * dst_batch + 32,
                ],
            }
        }
    }
}

fn buffer(name: &str, bytes: u32, address: u32) -> Buffer {
    let halves = bytes / 2;
    Buffer {
        name: name.into(),
        layout: Layout {
            rows: Split::whole(1),
            columns: Split::whole(halves),
            copies: 1,
            copy_stride: 0,
            first_tile: 0,
            order: ElementOrder::Rows,
            memory: MemoryClass::Any,
        },
        ty: TensorType::new([1, halves], ElementType::F16),
        align: 32,
        tail: 0,
        live: None,
        address: Some(address),
        location: String::new(),
    }
}

/// The call as a program: the last buffer is the destination, and all have values before.
fn program(name: &str, kernel: &Kernel, case: &Case) -> TileProgram {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    for (argument, &bytes) in kernel.buffers.iter().zip(&case.buffers) {
        let address = match argument.name.as_str() {
            "src" => MEMORY_END - bytes,
            _ => DESTINATION,
        };
        let buffer = buffer(&argument.name, bytes, address);
        let source = Source::Parameter {
            name: argument.name.clone(),
            ty: buffer.ty.clone(),
        };
        let id = p.add_buffer(buffer);
        p.bindings.push(Binding { source, buffer: id });
    }
    let last = BufferId(p.buffers.len() as u32 - 1);
    p.bindings.push(Binding {
        source: Source::Output(0),
        buffer: last,
    });
    p.steps.push(Step::Compute(Compute {
        name: "call".into(),
        kernel: name.into(),
        buffers: (0..=last.0).map(BufferId).collect(),
        tiles: vec![0],
        words: case.words.clone(),
        location: String::new(),
    }));
    p
}

/// Any finite f16.
fn values(ty: &TensorType, random: &mut Random) -> HostArray {
    let value = |_| {
        let bits = random.below(0x10000) as u16;
        let finite = if bits & 0x7c00 == 0x7c00 {
            bits ^ 0x4000
        } else {
            bits
        };
        f16::from_bits(finite).to_f32()
    };
    let values = (0..ty.elements()).map(value).collect();
    HostArray::new(ty.clone(), values).unwrap()
}

fn image(kernel: &Kernel) -> Image {
    let target = Target::ipu21();
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../device");
    let source = std::fs::read_to_string(device.join(&kernel.source)).unwrap();
    let mut assembler = Assembler::new();
    for (name, value) in &kernel.defines {
        assembler.define(name, *value);
    }
    let kernel_object = assembler.assemble(&kernel.source, &source).unwrap();
    let start = format!(
        ".section .text.main,\"ax\"\n.globl main\nmain:\nsetzi $m0, {RECORD}\n\
         call $m10, kernel_entry\ntrap 0\n"
    );
    let start = Assembler::new().assemble("start.S", &start).unwrap();
    let options = LinkOptions {
        base: target.load_base,
        limit: RECORD,
        relative_base: target.memory_base,
    };
    let mut linker = Linker::new();
    linker.add(start).add(kernel_object);
    linker.link(&["main"], options).unwrap()
}

/// The bytes of the destination, and the cycles from the call to the instruction after it.
fn simulate(
    image: &Image,
    program: &TileProgram,
    case: &Case,
    parameters: &Parameters,
) -> (Vec<u8>, u64) {
    let mut chip = Chip::new(Target::ipu21());
    chip.poison_launch(true);
    chip.load(0, image.base, &image.bytes).unwrap();
    let pointers = program.buffers.iter().map(|b| b.address.unwrap());
    let record: Vec<u8> = pointers
        .chain(case.words.iter().copied())
        .flat_map(u32::to_le_bytes)
        .collect();
    chip.load(0, RECORD, &record).unwrap();
    for b in &program.buffers {
        for shard in pack(&parameters[&b.name], &b.ty, &b.layout).unwrap() {
            chip.write(0, b.address.unwrap(), &shard.bytes).unwrap();
        }
    }
    chip.start(0, image.symbols["main"]).unwrap();
    let stop = chip.run(10_000_000).unwrap_or_else(|e| panic!("{e}"));
    let Stop::Halted { cycle } = stop else {
        panic!("{stop:?}")
    };
    let last = program.buffers.last().unwrap();
    let bytes = last.bytes() as usize;
    // The call follows one instruction.
    (
        chip.read(0, last.address.unwrap(), bytes).unwrap(),
        cycle - 1,
    )
}

fn check(name: &str, kernel: &Kernel, kind: Move, seed: u64) {
    let mut random = Random(seed);
    let image = image(kernel);
    let case = case(kind, &mut random);
    let program = program(name, kernel, &case);
    let parameters: Parameters = program
        .buffers
        .iter()
        .map(|b| (b.name.clone(), values(&b.ty, &mut random)))
        .collect();
    let (simulated, cycles) = simulate(&image, &program, &case, &parameters);
    let law = Kernels::builtin().cycles(kernel, &case.words);
    assert!(
        law.abs_diff(cycles) <= 12,
        "{name} {case:?}: law {law} cycles, simulated {cycles}"
    );
    let mut interpreter = Interpreter::new(&program, Kernels::builtin(), Fill::Poison);
    interpreter.initialize(&parameters).unwrap();
    let interpreted = interpreter.run(&[]).unwrap().remove(0);
    let expected: Vec<u8> = interpreted
        .values()
        .iter()
        .flat_map(|&v| f16::from_f32(v).to_le_bytes())
        .collect();
    if let Some(at) = simulated.iter().zip(&expected).position(|(s, e)| s != e) {
        panic!("{name} {case:?}: byte {at} of the destination differs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn simulator_interpreter_and_law_agree(seed: u64) {
        for (name, kernel) in &Kernels::builtin().kernels {
            if let Meaning::Move(kind) = kernel.meaning {
                check(name, kernel, kind, seed);
            }
        }
    }
}
