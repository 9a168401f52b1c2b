use super::memory::Covered;
use super::*;
use crate::machine::{Halt, SyncRecord};
use ipu_program::graph::{BinaryKind, OpKind};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Buffer, Compute, Copy, Source, Transfer};
use ipu_program::types::TensorType;
use pretty_assertions::assert_eq;

const X: BufferId = BufferId(0);
const B: BufferId = BufferId(1);
const SUM: BufferId = BufferId(2);
const Y: BufferId = BufferId(3);
const Z: BufferId = BufferId(4);

fn ty() -> TensorType {
    TensorType::new([2, 16], ElementType::F16)
}

/// `z = relu(x + b)`; x + b is computed on tile 0 and moved to tile 1.
fn graph() -> Graph {
    let mut g = Graph {
        name: "main".into(),
        ..Graph::default()
    };
    let x = g.add_value(ty());
    g.inputs.push(x);
    let parameter = OpKind::Parameter { name: "b".into() };
    let b = g.add_op(parameter, vec![], ty(), "m.mlir:2:3".into());
    let add = OpKind::Binary(BinaryKind::Add);
    let sum = g.add_op(add, vec![x, b], ty(), "m.mlir:3:3".into());
    let relu = g.add_op(OpKind::RELU, vec![sum], ty(), "m.mlir:4:3".into());
    g.outputs.push(relu);
    g
}

fn program() -> TileProgram {
    let mut p = TileProgram {
        name: "main".into(),
        tiles: 2,
        ..TileProgram::default()
    };
    // The sum goes when it has been moved: z takes its place, on the other tile and on this.
    let places = [
        ("x", 0, 0x60000),
        ("b", 0, 0x60100),
        ("sum", 0, 0x60200),
        ("sum.moved", 1, 0x60300),
        ("z", 1, 0x60400),
    ];
    for (name, tile, address) in places {
        p.add_buffer(Buffer {
            name: name.into(),
            ty: ty(),
            layout: Layout {
                rows: Split::whole(2),
                columns: Split::whole(16),
                copies: 1,
                copy_stride: 0,
                first_tile: tile,
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
            },
            align: 32,
            tail: 0,
            live: None,
            address: Some(address),
            location: "m.mlir:3:3".into(),
        });
    }
    let bind = |source, buffer| Binding { source, buffer };
    let parameter = Source::Parameter {
        name: "b".into(),
        ty: ty(),
    };
    p.bindings = vec![
        bind(Source::Input(0), X),
        bind(parameter, B),
        bind(Source::Output(0), Z),
    ];
    let compute = |name: &str, kernel: &str, buffers: &[BufferId], tile, location: &str| {
        let known = Kernels::builtin().get(kernel).unwrap();
        assert_eq!(known.buffers.len(), buffers.len());
        // 32 elements: eight groups of four, two of the six workers have one more.
        assert_eq!(known.words, ["atoms_each", "atoms_extra"]);
        Step::Compute(Compute {
            name: name.into(),
            kernel: kernel.into(),
            buffers: buffers.to_vec(),
            tiles: vec![tile],
            words: vec![1, 2],
            location: location.into(),
        })
    };
    p.steps = vec![
        compute("sum.step", "add_f16", &[X, B, SUM], 0, "m.mlir:3:3"),
        Step::Exchange {
            name: "move".into(),
            copies: vec![Copy {
                source: SUM,
                destination: Y,
                transfers: vec![Transfer {
                    source: 0,
                    source_offset: 0,
                    words: 16,
                    destinations: vec![(1, 0)],
                }],
            }],
            schedule: None,
            location: "m.mlir:4:3".into(),
        },
        compute("z.step", "relu_f16", &[Y, Z], 1, "m.mlir:4:3"),
    ];
    p
}

fn inputs() -> (Parameters, Vec<HostArray>) {
    let values = |f: fn(f32) -> f32| {
        HostArray::new(ty(), (0..32u8).map(|i| f(f32::from(i))).collect()).unwrap()
    };
    let b = values(|i| i - 15.5);
    (
        Parameters::from([("b".into(), b)]),
        vec![values(|i| i / 4.0)],
    )
}

/// A machine with the memory of another execution of the program, with one halfword changed.
struct Fake<'a> {
    program: &'a TileProgram,
    run: &'a Interpreter<'a>,
    changed: Option<(u32, u32)>,
}

impl Machine for Fake<'_> {
    fn load(&mut self, _: &[u32], _: u32, _: &[u8]) -> Result<(), MachineError> {
        Err("not here".into())
    }

    fn start(&mut self, _: u32, _: u32) -> Result<(), MachineError> {
        Err("not here".into())
    }

    fn run(&mut self, _: u64) -> Result<Halt, MachineError> {
        Err("not here".into())
    }

    fn write(&mut self, _: u32, _: u32, _: &[u8]) -> Result<(), MachineError> {
        Err("not here".into())
    }

    fn read(&self, tile: u32, address: u32, bytes: usize) -> Result<Vec<u8>, MachineError> {
        let holds = |b: &Buffer| b.address.is_some_and(|a| a <= address && address < a + 64);
        let i = self.program.buffers.iter().position(holds);
        let id = BufferId(i.ok_or("nothing there")? as u32);
        let from = (address - self.program.buffer(id).address.unwrap()) as usize;
        let mut data = self.run.bytes(id, tile)?[from..from + bytes].to_vec();
        if let Some((_, at)) = self
            .changed
            .filter(|&(t, at)| t == tile && at >= address && at < address + bytes as u32)
        {
            data[(at - address) as usize] ^= 1;
        }
        Ok(data)
    }

    fn syncs(&self) -> Vec<SyncRecord> {
        Vec::new()
    }
}

/// The report of a run whose chip has one bit changed, and whose interpreters have `program`.
fn report(program: &TileProgram, changed: Option<(u32, u32)>) -> Result<Report, LevelsError> {
    let (graph, right) = (graph(), self::program());
    let (parameters, inputs) = inputs();
    let values: Vec<_> = [(X, 0), (SUM, 2), (Y, 2), (Z, 3)]
        .map(|(b, v)| (b, ValueId(v)))
        .to_vec();
    let levels = Levels {
        model: &graph,
        selected: &graph,
        tiles: program,
        values: &values,
        kernels: Kernels::builtin(),
    };
    let mut comparer = Comparer::new(levels, &parameters, &inputs, Limits::for_element)?;
    let mut chip = Interpreter::new(&right, Kernels::builtin(), Fill::Zeros);
    chip.initialize(&parameters)?;
    chip.write_inputs(&inputs)?;
    let mut look = |chip: &Interpreter<'_>, at| {
        let fake = Fake {
            program: &right,
            run: chip,
            changed,
        };
        comparer.paused(&fake, at);
    };
    look(&chip, Pause::Inputs);
    chip.step(&right.steps[0])?;
    look(&chip, Pause::Sync(0));
    chip.step(&right.steps[1])?;
    chip.step(&right.steps[2])?;
    look(&chip, Pause::Outputs);
    comparer.finish()
}

#[test]
fn equal_levels() {
    let report = report(&program(), None).unwrap();
    assert_eq!(report.difference, None);
    assert!(report.selection.is_empty() && report.partial == 0);
    // Five buffers of 64 bytes, each looked at once.
    assert_eq!((report.steps, report.looks), (3, 3));
    assert_eq!((report.compared, report.undefined), (320, 0));
    let operators: Vec<_> = report
        .operators
        .iter()
        .map(|o| {
            let place = o.place.as_ref().unwrap();
            (o.operation.as_str(), place.step, place.buffer.as_str())
        })
        .collect();
    assert_eq!(
        operators,
        [
            ("nn.add", 1, "sum"),
            ("nn.add", 2, "sum.moved"),
            ("nn.relu", 3, "z"),
        ]
    );
    assert!(report.operators.iter().all(Operator::passed));
}

#[test]
fn the_first_changed_step_is_named() {
    for (changed, expected) in [
        (
            (0, 0x60102),
            "what the host wrote before the run for nn.add at m.mlir:3:3: tile 0, buffer 'b', \
             element [0, 1] at 0x60102 is -14.5078125 (0xcb41) on the chip, -14.5 (0xcb40) at tile \
             level; 1 elements on 1 tiles differ",
        ),
        (
            (0, 0x6023e),
            "step 1 of 3 'sum.step', kernel add_f16 for nn.add at m.mlir:3:3: tile 0, buffer 'sum', \
             element [1, 15] at 0x6023e is ",
        ),
        (
            (1, 0x60300),
            "step 2 of 3 'move', exchange for nn.relu at m.mlir:4:3: tile 1, buffer 'sum.moved', \
             element [0, 0] at 0x60300 is ",
        ),
        (
            (1, 0x60422),
            "step 3 of 3 'z.step', kernel relu_f16 for nn.relu at m.mlir:4:3: tile 1, buffer 'z', \
             element [1, 1] at 0x60422 is ",
        ),
    ] {
        let report = report(&program(), Some(changed)).unwrap();
        let found = report.difference.as_ref().unwrap().to_string();
        assert!(found.starts_with(expected), "{found}");
        // The values are those of the tile level, which is right.
        assert!(report.operator_failure().is_none());
    }
}

/// Nothing is said about memory that the same superstep overwrites.
#[test]
fn overwritten_memory_is_not_compared() {
    let mut p = program();
    p.buffers[4].address = p.buffers[3].address;
    let report = report(&p, None).unwrap();
    // Four pieces of 64 bytes: what was moved to tile 1 is gone.
    assert_eq!(report.compared, 256);
    // The fake chip has z elsewhere, so that z is what differs, and not the step before.
    assert_eq!(report.difference.unwrap().name, "z.step");
}

#[test]
fn a_wrong_step_of_the_tile_program_is_named() {
    let mut p = program();
    let Step::Exchange { copies, .. } = &mut p.steps[1] else {
        panic!("no exchange");
    };
    // The second row twice.
    copies[0].transfers[0].source_offset = 32;
    copies[0].transfers[0].words = 8;
    let again = Transfer {
        destinations: vec![(1, 32)],
        ..copies[0].transfers[0].clone()
    };
    copies[0].transfers.push(again);
    let report = report(&p, None).unwrap();
    let failure = report.operator_failure().unwrap().to_string();
    let expected =
        "nn.add at m.mlir:3:3, buffer 'sum.moved' after step 2 'move': 16 of 32 elements";
    assert!(failure.starts_with(expected), "{failure}");
    assert!(failure.contains("max ulp"), "{failure}");
    assert_eq!(report.difference.unwrap().name, "move");
}

#[test]
fn elements_that_nothing_wrote_are_counted() {
    let mut p = program();
    let Step::Exchange { copies, .. } = &mut p.steps[1] else {
        panic!("no exchange");
    };
    copies[0].transfers[0].words = 8;
    let report = report(&p, None).unwrap();
    let failure = report.operator_failure().unwrap();
    assert_eq!(failure.place.as_ref().unwrap().undefined, 16);
    assert!(
        failure
            .to_string()
            .ends_with("; 16 elements depend on memory that no step wrote"),
        "{failure}"
    );
    // Where the chip has something else there, it is not to blame.
    assert_eq!(report.difference, None);
    assert_eq!(report.undefined, 32);
}

#[test]
fn other_programs_are_refused() {
    let mut p = program();
    p.buffers[2].address = None;
    let error = report(&p, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "buffer 'sum' has no address: the tile program is not the one of the package"
    );
    let mut p = program();
    p.steps.remove(1);
    let error = report(&p, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "the chip made 1 internal syncs in a run, the tile program has 0 exchanges: it is not the \
         one of the package"
    );
}

#[test]
fn ranges_are_counted_once() {
    let mut covered = Covered::default();
    assert_eq!(covered.add(10, 20), [(10, 20)]);
    assert_eq!(covered.add(30, 40), [(30, 40)]);
    assert_eq!(covered.add(12, 15), []);
    assert_eq!(covered.add(5, 35), [(5, 10), (20, 30)]);
    assert_eq!(covered.add(40, 41), [(40, 41)]);
    assert_eq!(covered.add(0, 50), [(0, 5), (41, 50)]);
    assert_eq!(covered.add(7, 7), []);
    assert_eq!(covered.add(60, 60), []);
    assert_eq!(covered.add(55, 65), [(55, 65)]);
}
