//! Kernels of the registry that share shapes, executed by the simulator and by the tile interpreter: the same
//! bits, in the cycles that its law says.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

use half::f16;
use ipu_interp::host::{HostArray, Parameters, pack, unpack};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_isa::asm::Assembler;
use ipu_isa::link::{LinkOptions, Linker};
use ipu_program::kernels::{Access, Kernel, Kernels, Meaning};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::HostError;
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use proptest::prelude::*;
use std::path::Path;

const RECORD: u32 = 0x5c000;
/// Buffers in order: standard memory for `a`, interleaved for the rest, an element pair each.
const PLACES: [u32; 5] = [0x60000, 0x80000, 0x90000, 0xa0000, 0xb0000];

/// Shape of one call: `m` rows, `k` deep, `n` wide.
#[derive(Clone, Copy, Debug)]
struct Size {
    m: u32,
    k: u32,
    n: u32,
}

/// Whether this test knows the operands; the other kernels have tests of their own.
fn covers(meaning: Meaning) -> bool {
    matches!(
        meaning,
        Meaning::Gemm {
            accumulate: false,
            ..
        } | Meaning::CopyBlocks
            | Meaning::Binary(_)
            | Meaning::Relu
    )
}

fn buffer_type(kernel: &Kernel, name: &str, size: Size) -> (TensorType, ElementOrder) {
    let Size { m, k, n } = size;
    let half = |extents: [u32; 2]| TensorType::new(extents, ElementType::F16);
    match (kernel.meaning, name) {
        (Meaning::Gemm { .. }, "a") => (half([m, k]), ElementOrder::Panels),
        (Meaning::Gemm { partials, .. }, "weights") => match partials {
            ElementType::F16 => (half([k, n]), ElementOrder::Weights16),
            _ => (half([k, n]), ElementOrder::Weights8),
        },
        (Meaning::Gemm { partials, .. }, "bias") => {
            (TensorType::new([n], partials), ElementOrder::Rows)
        }
        (Meaning::Gemm { .. }, "acc") => (half([m, 16]), ElementOrder::Rows),
        (Meaning::Gemm { .. }, _) => (half([m, n]), ElementOrder::Panels),
        (Meaning::CopyBlocks, "dst") => (half([m, n]), ElementOrder::Panels),
        _ => (half([m, n]), ElementOrder::Rows),
    }
}

fn word(name: &str, size: Size) -> u32 {
    let Size { m, k, n } = size;
    let panels = n.div_ceil(16);
    let atoms = m * panels * 4;
    match name {
        "rows_each" => m / 6,
        "rows_extra" => m % 6,
        "atoms_each" => atoms / 6,
        "atoms_extra" => atoms % 6,
        "k_blocks" => k.div_ceil(16),
        "groups" | "panels" => panels,
        "a_stride" | "out_stride" | "dst_panel" => m * 32,
        "src_offset" | "dst_offset" => 0,
        "src_row" => panels * 32,
        "src_panel" | "dst_row" => 32,
        other => panic!("unknown word '{other}'"),
    }
}

fn program(name: &str, kernel: &Kernel, size: Size) -> TileProgram {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    for (argument, address) in kernel.buffers.iter().zip(PLACES) {
        let (ty, order) = buffer_type(kernel, &argument.name, size);
        let matrix = ty.matrix();
        let id = p.add_buffer(Buffer {
            name: argument.name.clone(),
            layout: Layout {
                rows: Split::whole(matrix.rows),
                columns: Split::whole(matrix.columns),
                copies: 1,
                copy_stride: 0,
                first_tile: 0,
                order,
                memory: MemoryClass::Any,
            },
            ty: ty.clone(),
            align: 32,
            tail: argument.tail,
            live: None,
            address: Some(address),
            location: String::new(),
        });
        let source = match argument.access {
            Access::Read => Source::Parameter {
                name: argument.name.clone(),
                ty,
            },
            Access::Write => Source::Output(0),
            Access::Update | Access::Scratch => continue,
        };
        p.bindings.push(Binding { source, buffer: id });
    }
    p.steps.push(Step::Compute(Compute {
        name: "call".into(),
        kernel: name.into(),
        buffers: (0..kernel.buffers.len() as u32).map(BufferId).collect(),
        tiles: vec![0],
        words: kernel.words.iter().map(|w| word(w, size)).collect(),
        location: String::new(),
    }));
    p
}

/// Values of many magnitudes, so that partial sums round.
fn random(ty: &TensorType, seed: u32) -> HostArray {
    let values = (0..ty.elements() as u32)
        .map(|i| {
            let h = (i.wrapping_add(seed)).wrapping_mul(0x9e37_79b1);
            let h = (h ^ (h >> 15)).wrapping_mul(0x85eb_ca77);
            let h = h ^ (h >> 13);
            // Exponents 2^-8 to 2^7.
            f16::from_bits(((h & 0x83ff) | ((7 + ((h >> 16) & 15)) << 10)) as u16).to_f32()
        })
        .collect();
    HostArray::new(ty.clone(), values).unwrap()
}

/// The result, and the cycles from the call to the instruction after it.
fn simulate(program: &TileProgram, kernel: &Kernel, parameters: &Parameters) -> (HostArray, u64) {
    let target = Target::ipu21();
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../device");
    let source = std::fs::read_to_string(device.join(&kernel.source)).unwrap();
    let mut assembler = Assembler::new();
    for (name, value) in &kernel.defines {
        assembler.define(name, *value);
    }
    let kernel_object = assembler.assemble(&kernel.source, &source).unwrap();
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
        .add(kernel_object)
        .link(&["main"], options)
        .unwrap();
    let Some(Step::Compute(call)) = program.steps.first() else {
        unreachable!()
    };
    let addresses = program.buffers.iter().filter_map(|b| b.address);
    let record: Vec<u8> = addresses
        .chain(call.words.iter().copied())
        .flat_map(u32::to_le_bytes)
        .collect();
    let mut chip = Chip::new(target);
    chip.load(0, image.base, &image.bytes).unwrap();
    chip.load(0, RECORD, &record).unwrap();
    let mut out = None;
    for binding in &program.bindings {
        let buffer = program.buffer(binding.buffer);
        let address = buffer.address.unwrap();
        match &binding.source {
            Source::Parameter { name, .. } => {
                for shard in pack(&parameters[name], &buffer.ty, &buffer.layout).unwrap() {
                    chip.write(shard.tile, address, &shard.bytes).unwrap();
                }
            }
            _ => out = Some(buffer),
        }
    }
    chip.start(0, image.symbols["main"]).unwrap();
    let stop = chip.run(10_000_000).unwrap_or_else(|e| panic!("{e}"));
    let Stop::Halted { cycle } = stop else {
        panic!("{stop:?}")
    };
    let out = out.unwrap();
    let result = unpack(&out.ty, &out.layout, |tile, storage| {
        Ok::<_, HostError>(
            chip.read(tile, out.address.unwrap(), storage.bytes() as usize)
                .unwrap(),
        )
    })
    .unwrap();
    // The call follows one instruction.
    (result, cycle - 1)
}

fn check(name: &str, kernel: &Kernel, size: Size, seed: u32) -> Result<(), TestCaseError> {
    let program = program(name, kernel, size);
    let parameters: Parameters = program
        .bindings
        .iter()
        .enumerate()
        .filter_map(|(i, b)| match &b.source {
            Source::Parameter { name, ty } => {
                Some((name.clone(), random(ty, seed ^ (i as u32 * 7919))))
            }
            _ => None,
        })
        .collect();
    let (simulated, cycles) = simulate(&program, kernel, &parameters);
    let words: Vec<u32> = kernel.words.iter().map(|w| word(w, size)).collect();
    let law = Kernels::builtin().cycles(kernel, &words);
    prop_assert!(
        law.abs_diff(cycles) <= 12.max(cycles * 3 / 100),
        "{name} {size:?}: law {law} cycles, simulated {cycles}"
    );
    let mut interpreter = Interpreter::new(&program, Kernels::builtin(), Fill::Zeros);
    interpreter.initialize(&parameters).unwrap();
    let interpreted = interpreter.run(&[]).unwrap().remove(0);
    let both = simulated.values().iter().zip(interpreted.values());
    for (i, (s, t)) in both.enumerate() {
        prop_assert_eq!(
            s.to_bits(),
            t.to_bits(),
            "{} {:?} element {}: {} {}",
            name,
            size,
            i,
            s,
            t
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]
    #[test]
    fn simulator_interpreter_and_law_agree(m in 1u32..40, k in 1u32..70, n in 1u32..50, seed: u32) {
        for (name, kernel) in &Kernels::builtin().kernels {
            if covers(kernel.meaning) {
                check(name, kernel, Size { m, k, n }, seed)?;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    /// Fewer rows than workers, which may divide the panels instead.
    #[test]
    fn copies_of_few_rows(m in 1u32..7, n in 1u32..640, seed: u32) {
        let kernel = Kernels::builtin().get("copy_blocks").unwrap();
        check("copy_blocks", kernel, Size { m, k: 1, n }, seed)?;
    }
}
