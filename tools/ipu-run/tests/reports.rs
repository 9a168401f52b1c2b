//! What a failing run says: a package is damaged at a known step, and the report names the step,
//! its place in the model, the tile and the instruction.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside of test functions

use ipu_image::package::{Images, ImagesBuilder, Package, StepKind, StepSummary};
use ipu_passes::registry::{Options, stages};
use ipu_passes::session::Session;
use ipu_program::types::{ElementType, TensorType};
use ipu_runtime::{Device, HostArray, Parameters, Program, SimulatorDevice};
use ipu_target::Target;

/// Two layers: the same kernels run for operators of two lines.
const MODEL: &str = "func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %v = nn.parameter \"fc1.weight\" : tensor<32x64xf16>
  %w = nn.parameter \"fc2.weight\" : tensor<64x32xf16>
  %0 = nn.matmul %x, %v : (tensor<8x32xf16>, tensor<32x64xf16>) -> tensor<8x64xf16>
  %1 = nn.relu %0 : tensor<8x64xf16>
  %2 = nn.matmul %1, %w : (tensor<8x64xf16>, tensor<64x32xf16>) -> tensor<8x32xf16>
  return %2 : tensor<8x32xf16>
}
";

const TRAP_5: u32 = 0x4180_1005;
const TRAP_0: u32 = 0x4180_1000;

fn package() -> Package {
    let session = Session::new();
    let mut module = session.parse(MODEL.as_bytes(), "dir/model.mlir").unwrap();
    let options = Options {
        tiles: 4,
        finalists: 1,
        ..Options::default()
    };
    for (_, pipeline) in stages(&options) {
        module.run(&pipeline).unwrap();
    }
    Package::from_bytes(&module.package().unwrap()).unwrap()
}

fn word(images: &Images, tile: u32, address: u32) -> u32 {
    let image = images.tiles().iter().find(|t| t.tile == tile).unwrap();
    for (start, bytes) in images.segments(image) {
        if address >= start && ((address - start) as usize) < bytes.len() {
            let at = (address - start) as usize;
            return u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        }
    }
    panic!("nothing at {address:#x} of tile {tile}");
}

/// Overwrites a word of the image of one tile.
fn patch(package: &mut Package, tile: u32, address: u32, value: u32) {
    let mut images = ImagesBuilder::new();
    for image in package.images.tiles() {
        for (start, bytes) in package.images.segments(image) {
            let mut bytes = bytes.to_vec();
            let inside = address >= start && ((address - start) as usize) < bytes.len();
            if image.tile == tile && inside {
                let at = (address - start) as usize;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            images.segment(image.tile, start, &bytes);
        }
    }
    package.images = images.finish();
}

fn run(package: &Package, max_cycles: u64) -> String {
    let package = Package::from_bytes(&package.to_bytes().unwrap()).unwrap();
    let values = |extents: [u32; 2], value| {
        HostArray::constant(TensorType::new(extents, ElementType::F16), &[value]).unwrap()
    };
    let mut device = SimulatorDevice::new(Target::ipu21(), max_cycles);
    let program = Program {
        package: Some(&package),
        ..Program::default()
    };
    device.load(program).unwrap();
    let weights = Parameters::from([
        ("fc1.weight".to_owned(), values([32, 64], 0.5)),
        ("fc2.weight".to_owned(), values([64, 32], 0.5)),
    ]);
    device.initialize(&weights).unwrap();
    match device.run(&[values([8, 32], 1.0)]) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// First address of a step on a tile, and the end of its words there.
fn step(package: &Package, tile: u32, name: &str) -> (u32, u32) {
    let m = &package.metadata;
    let number = m.steps.iter().position(|s| s.name == name).unwrap();
    let has = |&&(first, count): &&(u32, u32)| (first..first + count).contains(&tile);
    let places = m.places.iter().find(|p| p.tiles.iter().any(|r| has(&r)));
    let starts = &places.unwrap().starts;
    (starts[number], starts[number + 1])
}

/// Target of the `call` that ends a step's words.
fn callee(package: &Package, tile: u32, name: &str) -> u32 {
    let (_, end) = step(package, tile, name);
    4 * (word(&package.images, tile, end - 4) & 0x7_ffff)
}

/// The last exchange of the model, which belongs to its second product.
fn exchange(package: &Package) -> String {
    let is_exchange = |s: &&StepSummary| s.kind == StepKind::Exchange;
    let last = package.metadata.steps.iter().rfind(is_exchange);
    last.unwrap_or_else(|| panic!("plans on four tiles exchange something"))
        .name
        .clone()
}

/// How a report names a step: its number, kind, symbol and line.
fn place(package: &Package, name: &str, line: u32) -> String {
    let steps = &package.metadata.steps;
    let number = steps.iter().position(|s| s.name == name).unwrap();
    let kind = match steps[number].kind {
        StepKind::Compute => "compute",
        StepKind::Exchange => "exchange",
    };
    format!(
        "superstep {} of {}, {kind} '{name}' at model.mlir:{line}:8",
        number + 1,
        steps.len()
    )
}

fn from(report: &str) -> &str {
    let line = report.lines().find_map(|l| l.strip_prefix("  from       "));
    line.unwrap_or_else(|| panic!("no origin in\n{report}"))
}

#[test]
fn an_undamaged_package_runs() {
    assert_eq!(run(&package(), 1_000_000), "no error");
}

/// Two copies run the same kernel and fault at the same place; the report tells them apart.
#[test]
fn a_fault_of_a_supervisor_names_the_compute_step() {
    let mut p = package();
    let name = format!("{}.local", exchange(&p));
    let (start, _) = step(&p, 1, &name);
    patch(&mut p, 1, start, TRAP_5);
    let report = run(&p, 1_000_000);
    assert!(
        report.contains("trap 5\n  exception  3 PBRK1\n"),
        "{report}"
    );
    assert!(report.contains("  tile       1 (physical "), "{report}");
    assert_eq!(from(&report), place(&p, &name, 6));
}

#[test]
fn a_fault_of_a_worker_names_the_compute_step() {
    let mut p = package();
    let kernel = callee(&p, 2, "fc1.gemm");
    // The first exit of the kernel: `exitz $mzero` or one of its kin.
    let mut at = kernel;
    while word(&p.images, 2, at) & 0xfff8_0fff != 0x43f0_0000 {
        at += 4;
    }
    patch(&mut p, 2, at, TRAP_5);
    let report = run(&p, 1_000_000);
    assert!(report.contains("  tile       2 (physical "), "{report}");
    assert!(report.contains("), worker "), "{report}");
    let name = p.symbols.iter().rfind(|s| s.address <= kernel).unwrap();
    let expected = format!(
        "  pc         {at:#x} {}+{:#x}\n",
        name.name,
        at - name.address
    );
    assert!(report.contains(&expected), "{expected}{report}");
    assert!(
        report.contains(&format!("-> {at:#07x}  trap 5\n")),
        "{report}"
    );
    assert_eq!(from(&report), place(&p, "fc1.gemm", 5));
}

#[test]
fn a_fault_in_a_row_names_the_exchange() {
    let mut p = package();
    let name = exchange(&p);
    let row = callee(&p, 3, &name);
    patch(&mut p, 3, row + 4, 0);
    let report = run(&p, 1_000_000);
    assert!(
        report.contains("\n  exception  12 INVALID_INSTR\n  tile       3 "),
        "{report}"
    );
    assert_eq!(from(&report), place(&p, &name, 6));
}

/// The tile ends instead of syncing: all others wait for it.
#[test]
fn a_deadlock_names_the_steps_at_which_tiles_wait() {
    let mut p = package();
    let name = exchange(&p);
    let (_, end) = step(&p, 2, &name);
    patch(&mut p, 2, end - 8, TRAP_0);
    let report = run(&p, 1_000_000);
    assert!(report.contains("deadlock at cycle "), "{report}");
    assert!(
        report.contains("; tiles 0 1 3 4 5 6 7 8 and 1463 more wait for sync 3"),
        "{report}"
    );
    let line = format!("  tiles 0-1,3-1471 at {}", place(&p, &name, 6));
    assert_eq!(report.lines().last(), Some(line.as_str()), "{report}");
}

/// One tile runs in circles: it alone is named.
#[test]
fn a_limit_names_the_step_that_does_not_end() {
    let mut p = package();
    // The last step, which belongs to the second product.
    let name = p.metadata.steps.last().unwrap().name.clone();
    let (start, _) = step(&p, 0, &name);
    patch(&mut p, 0, start, 0x4080_0000 | (start / 4));
    let report = run(&p, 100_000);
    let starts = "running to the external sync for Outputs within 100000 cycles: the program did \
                  not end within the limit of simulated cycles, which stopped it at cycle ";
    let ends = format!(
        "; raise the limit (--max-cycles) if it needs more\n  tile 0 at {}",
        place(&p, &name, 6)
    );
    assert!(report.starts_with(starts), "{report}");
    assert!(report.ends_with(&ends), "{report}");
}
