//! Row-wise and elementwise kernels: the simulator and the interpreter give the same bits, in the
//! cycles of the law, and the results are those of f64 arithmetic within the errors stated here.
//!
//! Operands are raw memory with strides of the test's choice; what is no data holds NaN.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

use half::f16;
use ipu_interp::host::{HostArray, Parameters};
use ipu_interp::tile::{Fill, Interpreter};
use ipu_isa::asm::Assembler;
use ipu_isa::link::{LinkOptions, Linker};
use ipu_program::kernels::{Kernel, Kernels, share};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use ipu_simulator::{Chip, Stop};
use ipu_target::Target;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const RECORD: u32 = 0x5c000;
/// Buffers in order, also in two kinds of memory.
const PLACES: [u32; 5] = [0x60000, 0x70000, 0x90000, 0xc0000, 0xd0000];

fn device() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../device")
}

fn registry() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let text = std::fs::read_to_string(device().join("kernels.ron")).unwrap();
        Kernels::from_ron(&text).unwrap()
    })
}

/// Contents of a buffer; a multiple of 16 elements.
struct Data {
    element: ElementType,
    values: Vec<f32>,
}

fn half_data(values: Vec<f32>) -> Data {
    Data {
        element: ElementType::F16,
        values,
    }
}

fn single_data(values: Vec<f32>) -> Data {
    Data {
        element: ElementType::F32,
        values,
    }
}

/// A call: buffers as the kernel has them, and its words by name.
struct Call<'a> {
    kernel: &'a str,
    buffers: Vec<Data>,
    words: &'a [(&'a str, u32)],
}

fn bytes_of(data: &Data) -> Vec<u8> {
    match data.element {
        ElementType::F16 => data
            .values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect(),
        _ => data.values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

/// Executes the call on the simulator: the last buffer afterwards, and the cycles.
fn simulate(kernel: &Kernel, buffers: &[Data], words: &[u32]) -> (Vec<u8>, u64) {
    let target = Target::ipu21();
    let source = std::fs::read_to_string(device().join(&kernel.source)).unwrap();
    let mut assembler = Assembler::new();
    for (name, value) in &kernel.defines {
        assembler.define(name, *value);
    }
    let object = assembler
        .assemble(&kernel.source, &source)
        .unwrap_or_else(|e| panic!("{e}"));
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
    let record: Vec<u8> = PLACES[..buffers.len()]
        .iter()
        .chain(words)
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let mut chip = Chip::new(target);
    chip.poison_launch(true);
    chip.load(0, image.base, &image.bytes).unwrap();
    chip.load(0, RECORD, &record).unwrap();
    for (data, place) in buffers.iter().zip(PLACES) {
        chip.write(0, place, &bytes_of(data)).unwrap();
    }
    chip.start(0, image.symbols["main"]).unwrap();
    let stop = chip.run(20_000_000).unwrap_or_else(|e| panic!("{e}"));
    let Stop::Halted { cycle } = stop else {
        panic!("{stop:?}")
    };
    let last = buffers.len() - 1;
    let size = bytes_of(&buffers[last]).len();
    // The call follows one instruction.
    (chip.read(0, PLACES[last], size).unwrap(), cycle - 1)
}

/// Executes the call by its meaning.
fn interpret(name: &str, kernel: &Kernel, buffers: &[Data], words: &[u32]) -> Vec<u8> {
    let mut program = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    let mut parameters = Parameters::new();
    let last = buffers.len() - 1;
    for (i, (data, argument)) in buffers.iter().zip(&kernel.buffers).enumerate() {
        let ty = TensorType::new([data.values.len() as u32], data.element);
        let matrix = ty.matrix();
        let id = program.add_buffer(Buffer {
            name: argument.name.clone(),
            layout: Layout {
                rows: Split::whole(matrix.rows),
                columns: Split::whole(matrix.columns),
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
            address: None,
            location: String::new(),
        });
        let name = argument.name.clone();
        let array = HostArray::new(ty.clone(), data.values.clone()).unwrap();
        parameters.insert(name.clone(), array);
        let source = Source::Parameter { name, ty };
        program.bindings.push(Binding { source, buffer: id });
        if i == last {
            let source = Source::Output(0);
            program.bindings.push(Binding { source, buffer: id });
        }
    }
    program.steps.push(Step::Compute(Compute {
        name: "call".into(),
        kernel: name.into(),
        buffers: (0..buffers.len() as u32).map(BufferId).collect(),
        tiles: vec![0],
        words: words.to_vec(),
        location: String::new(),
    }));
    let mut interpreter = Interpreter::new(&program, registry(), Fill::Zeros);
    interpreter.initialize(&parameters).unwrap();
    let out = interpreter.run(&[]).unwrap().remove(0);
    bytes_of(&Data {
        element: buffers[last].element,
        values: out.values().to_vec(),
    })
}

/// Executes a call both ways, compares, checks the law, and returns the last buffer and the cycles.
fn run(call: &Call<'_>) -> (Vec<f32>, u64) {
    let name = call.kernel;
    let kernel = registry()
        .get(name)
        .unwrap_or_else(|| panic!("no kernel {name}"));
    assert_eq!(kernel.words.len(), call.words.len(), "{name}");
    let words: Vec<u32> = kernel
        .words
        .iter()
        .map(|w| {
            let word = call.words.iter().find(|(name, _)| name == w);
            word.unwrap_or_else(|| panic!("{name}: no word {w}")).1
        })
        .collect();
    let (simulated, cycles) = simulate(kernel, &call.buffers, &words);
    let interpreted = interpret(name, kernel, &call.buffers, &words);
    let element = call.buffers.last().unwrap().element;
    let values = |bytes: &[u8]| -> Vec<f32> {
        match element {
            ElementType::F16 => bytes
                .chunks_exact(2)
                .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            _ => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        }
    };
    let (out, expected) = (values(&simulated), values(&interpreted));
    if let Some(i) = (0..out.len()).find(|&i| out[i].to_bits() != expected[i].to_bits()) {
        panic!(
            "{name} {:?} element {i}: simulated {:?}, meaning {:?}",
            call.words, out[i], expected[i]
        );
    }
    let law = registry().cycles(kernel, &words);
    // The launch costs a few cycles more or less; all else is counted.
    assert!(
        law.abs_diff(cycles) <= 12,
        "{name} {:?}: law {law}, simulated {cycles}",
        call.words
    );
    (out, cycles)
}

/// Repeatable numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x14057b7ef767814f);
        let x = self.0 ^ (self.0 >> 29);
        x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() as f64 / (1u64 << 52) as f64 - 1.0) as f32
    }

    /// An f16 value with a spread of magnitudes around `size`.
    fn value(&mut self, size: f32) -> f32 {
        let scale = (self.unit() * 2.0).exp2();
        f16::from_f32(self.unit() * scale * size).to_f32()
    }

    fn values(&mut self, n: u32, size: f32) -> Vec<f32> {
        (0..n).map(|_| self.value(size)).collect()
    }
}

/// A matrix of f16 in one of the two storage orders, with room between rows for `Rows`.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    rows: u32,
    columns: u32,
    panels: bool,
}

impl Matrix {
    fn padded(self) -> u32 {
        self.columns.next_multiple_of(16)
    }

    fn row(self) -> u32 {
        if self.panels {
            32
        } else {
            self.padded() * 2 + 32
        }
    }

    fn panel(self) -> u32 {
        if self.panels { self.rows * 32 } else { 32 }
    }

    /// Elements of the buffer.
    fn elements(self) -> u32 {
        if self.panels {
            self.rows * self.padded()
        } else {
            self.rows * self.row() / 2
        }
    }

    fn at(self, row: u32, column: u32) -> usize {
        (row * self.row() / 2 + column / 16 * self.panel() / 2 + column % 16) as usize
    }

    /// The buffer for elements given by row and column, `rest` elsewhere.
    fn store(self, rest: f32, mut f: impl FnMut(u32, u32) -> f32) -> Vec<f32> {
        let mut all = vec![rest; self.elements() as usize];
        for row in 0..self.rows {
            for column in 0..self.columns {
                all[self.at(row, column)] = f(row, column);
            }
        }
        all
    }
}

/// Spacing of f16 at a magnitude.
fn ulp16(x: f64) -> f64 {
    (x.abs().log2().floor().max(-14.0) - 10.0).exp2()
}

/// Whether all workers share each row.
fn is_split(kernel: &str) -> bool {
    registry().get(kernel).unwrap().word("rows").is_some()
}

/// Scratch of kernels that need some: NaN.
fn scratch(kernel: &str) -> Option<Data> {
    is_split(kernel).then(|| half_data(vec![f32::NAN; 32]))
}

/// Row-wise kernels with their words.
fn rows_call(kernel: &str, m: Matrix, buffers: Vec<Data>, more: &[(&str, u32)]) -> (Vec<f32>, u64) {
    let [rows_each, rows_extra] = share(m.rows);
    let mut words = match is_split(kernel) {
        true => vec![("rows", m.rows)],
        false => vec![("rows_each", rows_each), ("rows_extra", rows_extra)],
    };
    words.extend_from_slice(&[
        ("columns", m.columns),
        ("x_row", m.row()),
        ("x_panel", m.panel()),
        ("out_row", m.row()),
        ("out_panel", m.panel()),
    ]);
    words.extend_from_slice(more);
    run(&Call {
        kernel,
        buffers,
        words: &words,
    })
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (1u32..30, 1u32..150, any::<bool>()).prop_map(|(rows, columns, panels)| Matrix {
        rows,
        columns,
        panels,
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// Compares a softmax with f64; `seen` is the number of columns of a row. An argument of exp2 is
/// off by 2^-12 of itself at most, three roundings to f16 follow.
fn check_softmax(m: Matrix, x: &[f32], out: &[f32], scale: f32, seen: impl Fn(u32) -> u32) -> f64 {
    let mut worst: f64 = 0.0;
    for row in 0..m.rows {
        let seen = seen(row);
        let argument = |c: u32| f64::from(scale) * f64::from(x[m.at(row, c)]);
        let largest = (0..seen).map(argument).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..seen).map(|c| (argument(c) - largest).exp()).sum();
        for c in 0..m.padded() {
            let result = f64::from(out[m.at(row, c)]);
            if c >= seen {
                assert_eq!(result, 0.0, "{m:?} row {row} column {c}");
                continue;
            }
            let distance = largest - argument(c);
            let exact = (-distance).exp() / sum;
            let error = (result - exact).abs();
            let bound = exact * (distance.max(2.0) + 3.0) * 2f64.powi(-11) + 2f64.powi(-24);
            assert!(
                error <= bound,
                "{m:?} row {row} column {c}: {result} {exact}"
            );
            worst = worst.max(error);
        }
    }
    worst
}

fn softmax(m: Matrix, scale: f32, size: f32, seed: u64) -> (f64, u64) {
    let mut random = Random(seed);
    let x = m.store(f32::NAN, |_, _| random.value(size));
    let out = vec![0.0; m.elements() as usize];
    let buffers = vec![half_data(x.clone()), half_data(out)];
    let (out, cycles) = rows_call("softmax_f16", m, buffers, &[("scale", scale.to_bits())]);
    (check_softmax(m, &x, &out, scale, |_| m.columns), cycles)
}

fn causal(m: Matrix, first_row: u32, period: u32, visible: u32, seed: u64) -> u64 {
    let mut random = Random(seed);
    let x = m.store(f32::NAN, |_, _| random.value(8.0));
    let out = vec![f32::NAN; m.elements() as usize];
    let words = [
        ("scale", 0.25f32.to_bits()),
        ("first_row", first_row),
        ("period", period),
        ("visible", visible),
    ];
    let buffers = vec![half_data(x.clone()), half_data(out)];
    let (out, cycles) = rows_call("softmax_causal_f16", m, buffers, &words);
    let seen = |row| m.columns.min(visible + (first_row + row) % period);
    check_softmax(m, &x, &out, 0.25, seen);
    cycles
}

#[test]
fn layer_norm_of_constant_rows() {
    let kernels = ["layer_norm_f16", "layer_norm_split_f16"];
    for (kernel, columns) in kernels.into_iter().flat_map(|k| [1, 8, 64].map(|c| (k, c))) {
        let m = Matrix {
            rows: 2,
            columns,
            panels: true,
        };
        let x = m.store(0.0, |row, _| [0.5, -3e-5][row as usize]);
        let bias: Vec<f32> = (0..m.padded()).map(|c| c as f32).collect();
        let mut buffers = vec![
            half_data(x),
            half_data(vec![3.0; m.padded() as usize]),
            half_data(bias),
        ];
        buffers.extend(scratch(kernel));
        buffers.push(half_data(vec![0.0; m.elements() as usize]));
        let words = [
            ("epsilon", 1e-5f32.to_bits()),
            ("inverse", (1.0 / columns as f32).to_bits()),
        ];
        let (y, _) = rows_call(kernel, m, buffers, &words);
        for (row, c) in (0..m.rows).flat_map(|row| (0..columns).map(move |c| (row, c))) {
            // The deviation is sqrt(epsilon), 316 times the f32 error of 0.5 remains.
            let error = (y[m.at(row, c)] - c as f32).abs();
            assert!(error <= 1e-4, "{columns} columns, row {row}: {error}");
        }
    }
}

#[test]
fn softmax_of_infinities_and_nan() {
    let m = Matrix {
        rows: 5,
        columns: 20,
        panels: false,
    };
    let x = m.store(f32::NAN, |row, c| match (row, c) {
        // Hidden columns, a row of nothing else, one largest column, a NaN.
        (0, 3..7) | (1, _) | (2, 1..) => f32::NEG_INFINITY,
        (3, 2) => f32::INFINITY,
        (4, 19) => f32::NAN,
        _ => -1.0,
    });
    let out = half_data(vec![0.0; m.elements() as usize]);
    let buffers = [half_data(x), out];
    for scale in [1.0f32, 0.125, 0.03] {
        let buffers = buffers
            .iter()
            .map(|b| half_data(b.values.clone()))
            .collect();
        let (y, _) = rows_call("softmax_f16", m, buffers, &[("scale", scale.to_bits())]);
        let row = |r: u32| (0..m.columns).map(move |c| (c, m.at(r, c)));
        assert!(row(0).all(|(c, at)| y[at] == if (3..7).contains(&c) { 0.0 } else { 0.0625 }));
        // Nothing is seen: the sum is 0, its reciprocal the largest f16.
        assert!(row(1).all(|(_, at)| y[at] == 0.0));
        assert!(row(2).all(|(c, at)| y[at] == f32::from(c == 0)));
        // The factor is a subnormal f16.
        assert!(row(3).all(|(c, at)| (y[at] - f32::from(c == 2)).abs() < 1e-3));
        assert!(row(4).all(|(_, at)| y[at].is_nan()));
    }
}

proptest! {
    #![proptest_config(config(24))]
    #[test]
    fn causal_softmax_of_any_shape(
        m in matrix(), first in 0u32..100, period in 1u32..100, visible in 1u32..40, seed: u64
    ) {
        causal(m, first % period, period, visible, seed);
    }

    #[test]
    fn softmax_of_any_shape(m in matrix(), scale in 0.01f32..3.0, size in 0.1f32..20.0, seed: u64) {
        let (worst, _) = softmax(m, scale, size, seed);
        prop_assert!(worst < 8e-4, "{worst}");
    }
}

/// Layer norm, or RMS norm where there is no bias, compared with f64 on the same values. The worst
/// error in units of 2^-11 of the largest term of a result: one for each rounding, two for that of
/// the sum, which may be twice the term, and half a unit for the deviation.
fn norm(kernel: &str, m: Matrix, offset: f32, size: f32, seed: u64) -> (f64, u64) {
    let layer = registry().get(kernel).unwrap().buffer("bias").is_some();
    let epsilon = 1e-5f32;
    let mut random = Random(seed);
    let x = m.store(f32::NAN, |_, _| {
        f16::from_f32(offset + random.value(size)).to_f32()
    });
    let mut row = |size: f32| -> Vec<f32> {
        let columns = m.columns;
        (0..m.padded())
            .map(|c| if c < columns { random.value(size) } else { 0.0 })
            .collect()
    };
    let (scale, bias) = (row(1.0), row(0.5));
    let mut buffers = vec![half_data(x.clone()), half_data(scale.clone())];
    if layer {
        buffers.push(half_data(bias.clone()));
    }
    buffers.extend(scratch(kernel));
    buffers.push(half_data(vec![0.0; m.elements() as usize]));
    let words = [
        ("epsilon", epsilon.to_bits()),
        ("inverse", (1.0 / m.columns as f32).to_bits()),
    ];
    let (out, cycles) = rows_call(kernel, m, buffers, &words);
    let mut worst: f64 = 0.0;
    let n = f64::from(m.columns);
    for row in 0..m.rows {
        let value = |c: u32| f64::from(x[m.at(row, c)]);
        let mean = if layer {
            (0..m.columns).map(value).sum::<f64>() / n
        } else {
            0.0
        };
        let variance = (0..m.columns)
            .map(|c| (value(c) - mean).powi(2))
            .sum::<f64>()
            / n;
        let deviation = (variance + f64::from(epsilon)).sqrt();
        for c in 0..m.columns {
            let normal = (value(c) - mean) / deviation * f64::from(scale[c as usize]);
            let bias = if layer {
                f64::from(bias[c as usize])
            } else {
                0.0
            };
            let result = f64::from(out[m.at(row, c)]);
            // Subnormal normalised values are rounded more coarsely; scales are below 4.
            let size = normal.abs().max(bias.abs()).max(2f64.powi(-12));
            // The mean is rounded to f32, and so are multiples of it.
            let rounding = (mean / deviation * f64::from(scale[c as usize])).abs() * 2f64.powi(-22);
            let error = (result - normal - bias).abs() - rounding;
            worst = worst.max(error / size * 2048.0);
        }
    }
    (worst, cycles)
}

/// One worker takes 2,050 cycles for a layer norm of 144 columns.
#[test]
fn cycles_of_shared_rows() {
    let mut worst = [0f64; 2];
    for (rows, columns, limits) in [
        (1, 1, [720, 540]),
        (1, 15, [720, 540]),
        (1, 16, [720, 540]),
        (1, 17, [720, 540]),
        (1, 144, [900, 650]),
        (1, 1152, [2520, 1650]),
        (2, 144, [1600, 1120]),
    ] {
        let m = Matrix {
            rows,
            columns,
            panels: true,
        };
        let kernels = ["layer_norm_split_f16", "rms_norm_split_f16"];
        for ((kernel, limit), worst) in kernels.into_iter().zip(limits).zip(&mut worst) {
            let (error, cycles) = norm(kernel, m, 0.5, 2.0, u64::from(columns));
            println!("{kernel} {rows} x {columns}: {cycles} cycles, error {error:.2}");
            assert!(cycles <= limit, "{kernel} {rows} x {columns}: {cycles}");
            *worst = worst.max(error);
        }
    }
    assert!(worst[0] < 4.5 && worst[1] < 2.1, "{worst:?}");
}

/// Row reductions; the error of a sum is that of f32 sums and one rounding to f16.
fn reduce_row(m: Matrix, kernel: &str, factor: f32, seed: u64) -> u64 {
    let mut random = Random(seed);
    let x = m.store(f32::NAN, |_, _| random.value(4.0));
    let [rows_each, rows_extra] = share(m.rows);
    let words = [
        ("rows_each", rows_each),
        ("rows_extra", rows_extra),
        ("columns", m.columns),
        ("x_row", m.row()),
        ("x_panel", m.panel()),
        ("out_row", 32),
        ("factor", factor.to_bits()),
    ];
    let out = half_data(vec![f32::NAN; m.rows as usize * 16]);
    let buffers = vec![half_data(x.clone()), out];
    let (out, cycles) = run(&Call {
        kernel,
        buffers,
        words: &words,
    });
    for row in 0..m.rows {
        let values = (0..m.columns).map(|c| f64::from(x[m.at(row, c)]));
        let results = &out[row as usize * 16..][..16];
        let (exact, bound) = if kernel == "reduce_row_max_f16" {
            (values.fold(f64::NEG_INFINITY, f64::max), 0.0)
        } else {
            let exact = values.clone().sum::<f64>() * f64::from(factor);
            let all = values.map(f64::abs).sum::<f64>() * f64::from(factor);
            (exact, ulp16(exact) / 2.0 + all * 1e-5)
        };
        let error = (f64::from(results[0]) - exact).abs();
        assert!(error <= bound, "{kernel} {m:?} row {row}: {error}");
        assert!(results[1..].iter().all(|&pad| pad == 0.0));
    }
    cycles
}

proptest! {
    #![proptest_config(config(24))]
    #[test]
    fn norms_of_any_shape(m in matrix(), offset in -50f32..50.0, size in 0.1f32..20.0, seed: u64) {
        let (layer, _) = norm("layer_norm_f16", m, offset, size, seed);
        prop_assert!(layer < 4.5, "{layer}");
        let (rms, _) = norm("rms_norm_f16", m, 0.0, size, seed);
        prop_assert!(rms < 2.1, "{rms}");
    }

    #[test]
    fn norms_of_shared_rows(
        rows in 1u32..7, columns in 1u32..1200, panels: bool, offset in -50f32..50.0,
        size in 0.1f32..20.0, seed: u64
    ) {
        // The few columns of a panel or two are as likely as all others.
        for columns in [columns, columns % 40 + 1] {
            let m = Matrix { rows, columns, panels };
            let (layer, _) = norm("layer_norm_split_f16", m, offset, size, seed);
            prop_assert!(layer < 4.5, "{layer}");
            let (rms, _) = norm("rms_norm_split_f16", m, 0.0, size, seed);
            prop_assert!(rms < 2.1, "{rms}");
        }
    }

    #[test]
    fn row_reductions_of_any_shape(m in matrix(), factor in 0.01f32..1.0, seed: u64) {
        for kernel in ["reduce_row_sum_f16", "reduce_row_mean_f16", "reduce_row_max_f16"] {
            reduce_row(m, kernel, factor, seed);
        }
    }
}

/// A flat elementwise kernel on operands of `element`.
fn flat(kernel: &str, inputs: Vec<Data>, out: ElementType, atoms: u32) -> (Vec<f32>, u64) {
    let [atoms_each, atoms_extra] = share(atoms);
    let elements = inputs[0].values.len();
    let mut buffers = inputs;
    buffers.push(Data {
        element: out,
        values: vec![0.0; elements],
    });
    run(&Call {
        kernel,
        buffers,
        words: &[("atoms_each", atoms_each), ("atoms_extra", atoms_extra)],
    })
}

fn phi(x: f64) -> f64 {
    // Series near 0, continued fraction for the tail: good to 1e-14.
    let t = x.abs();
    let density = (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let tail = if t < 3.0 {
        let (mut term, mut sum) = (t, t);
        for k in 1..200 {
            term *= t * t / f64::from(2 * k + 1);
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..200).rev().fold(t, |f, k| t + f64::from(k) / f);
        density / fraction
    };
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// The functions in f64, by the name of the kernel without its type.
fn exact(name: &str, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match name {
        "gelu_erf" => x * phi(x),
        "gelu_tanh" => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            // 1 + tanh(u) without cancellation
            x * sigmoid(2.0 * u)
        }
        "sigmoid" => sigmoid(x),
        "tanh" => x.tanh(),
        "exp" => x.exp(),
        "rsqrt" => 1.0 / x.sqrt(),
        other => panic!("{other}"),
    }
}

/// All f16 values but infinities and NaN, in order of bits; multiples of 16.
fn all_halves() -> Vec<f32> {
    (0..=u16::MAX)
        .map(|b| f16::from_bits(b).to_f32())
        .map(|x| if x.is_finite() { x } else { 1.0 })
        .collect()
}

/// On all f16 values: the worst error in ulp of the result, and of the result or a floor.
#[test]
fn unary_f16_on_every_value() {
    for (kernel, ulps, ulps_of_floor, floor) in [
        ("tanh_f16", 0.501, 0.501, 0.0),
        ("sigmoid_f16", 0.501, 0.501, 0.0),
        ("exp_f16", 0.501, 0.501, 0.0),
        ("rsqrt_f16", 0.501, 0.501, 0.0),
        ("gelu_erf_f16", 0.81, 0.81, 0.0),
        // The argument of the logistic function is f16: the error is relative to the argument.
        ("gelu_tanh_f16", 10.0, 2.0, 0.125),
    ] {
        let name = kernel.trim_end_matches("_f16");
        let (mut worst, mut at, mut worst_of_floor): (f64, f32, f64) = (0.0, 0.0, 0.0);
        // A buffer holds a quarter of the values.
        for x in all_halves().chunks(1 << 14) {
            let inputs = vec![half_data(x.to_vec())];
            let (out, _) = flat(kernel, inputs, ElementType::F16, 1 << 12);
            for (&x, &y) in x.iter().zip(&out) {
                if name == "rsqrt" && x < 0.0 {
                    assert!(y.is_nan(), "{x} {y}");
                    continue;
                }
                let exact = exact(name, f64::from(x)).clamp(-65504.0, 65504.0);
                let error = (f64::from(y) - exact).abs();
                let relative = error / ulp16(exact).max(2f64.powi(-24));
                worst_of_floor =
                    worst_of_floor.max(error / ulp16(exact.abs().max(floor)).max(2f64.powi(-24)));
                if relative > worst {
                    (worst, at) = (relative, x);
                }
            }
        }
        println!("{kernel}: {worst:.3} ulp at {at}; {worst_of_floor:.3} ulp of at least {floor}");
        let good = worst <= ulps && worst_of_floor <= ulps_of_floor;
        assert!(good, "{kernel}: {worst} at {at}, {worst_of_floor}");
    }
}

proptest! {
    #![proptest_config(config(12))]
    #[test]
    fn elementwise_of_any_size(panels in 1u32..60, size in 0.1f32..20.0, seed: u64) {
        let mut random = Random(seed);
        let n = panels * 16;
        for (element, atoms) in [(ElementType::F16, n / 4), (ElementType::F32, n / 2)] {
            let suffix = if element == ElementType::F16 { "f16" } else { "f32" };
            let data = |values: Vec<f32>| Data { element, values };
            let unit = if element == ElementType::F16 { 2f64.powi(-11) } else { 2f64.powi(-24) };
            for name in ["tanh", "sigmoid", "exp", "rsqrt", "gelu_erf", "gelu_tanh"] {
                // No zeros: exp of two of them is faster.
                let mut x: Vec<f32> = random.values(n, size).iter().map(|x| x + 0.01).collect();
                if name == "rsqrt" {
                    x.iter_mut().for_each(|x| *x = x.abs() + 0.01);
                }
                x.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
                let kernel = format!("{name}_{suffix}");
                let (out, _) = flat(&kernel, vec![data(x.clone())], element, atoms);
                if element == ElementType::F32 {
                    for (&x, &y) in x.iter().zip(&out) {
                        let exact = exact(name, f64::from(x));
                        let error = (f64::from(y) - exact).abs();
                        // Arguments of exp2 up to 30 have errors of 2^-20 themselves.
                        let bound = if name.starts_with("gelu") { 1e-5 * exact.abs() + 2e-8 } else { unit * exact * 1.01 };
                        prop_assert!(error <= bound.abs(), "{kernel} {x}: {y} {exact}");
                    }
                }
            }
            for name in ["add", "sub", "mul", "max", "min", "div"] {
                let (a, b) = (random.values(n, size), random.values(n, size));
                let kernel = format!("{name}_{suffix}");
                let inputs = vec![data(a.clone()), data(b.clone())];
                let (out, _) = flat(&kernel, inputs, element, atoms);
                for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
                    let (a, b) = (f64::from(a), f64::from(b));
                    let exact = match name {
                        "add" => a + b,
                        "sub" => a - b,
                        "mul" => a * b,
                        "max" => a.max(b),
                        "min" => a.min(b),
                        _ => a / b,
                    };
                    let clipped = if element == ElementType::F16 { exact.clamp(-65504.0, 65504.0) } else { exact };
                    let error = (f64::from(y) - clipped).abs();
                    prop_assert!(error <= clipped.abs() * unit + 2f64.powi(-25) || exact.is_nan(), "{kernel} {a} {b}: {y}");
                }
            }
            let a = random.values(n, size);
            let (out, _) = flat(&format!("relu_{suffix}"), vec![data(a.clone())], element, atoms);
            prop_assert!(a.iter().zip(&out).all(|(a, y)| a.max(0.0) == *y));
        }
        let x = random.values(n, size);
        let (out, _) = flat("cast_f16_f32", vec![half_data(x.clone())], ElementType::F32, n / 4);
        prop_assert_eq!(&out, &x);
        let x: Vec<f32> = (0..n).map(|_| random.unit() * size).collect();
        let (out, _) = flat("cast_f32_f16", vec![single_data(x.clone())], ElementType::F16, n / 4);
        prop_assert!(x.iter().zip(&out).all(|(x, y)| f16::from_f32(*x).to_f32() == *y));
    }
}

fn row_binary(name: &str, m: Matrix, seed: u64) -> u64 {
    let mut random = Random(seed);
    let a = m.store(0.0, |_, _| random.value(4.0));
    let b = random.values(m.padded(), 4.0);
    let [rows_each, rows_extra] = share(m.rows);
    let words = [
        ("rows_each", rows_each),
        ("rows_extra", rows_extra),
        ("panels", m.padded() / 16),
        ("a_row", m.row()),
        ("a_panel", m.panel()),
        ("out_row", m.row()),
        ("out_panel", m.panel()),
    ];
    let out = half_data(vec![0.0; m.elements() as usize]);
    let kernel = format!("{name}_row_f16");
    let (out, cycles) = run(&Call {
        kernel: &kernel,
        buffers: vec![half_data(a.clone()), half_data(b.clone()), out],
        words: &words,
    });
    for row in 0..m.rows {
        for c in 0..m.columns {
            let (a, b) = (f64::from(a[m.at(row, c)]), f64::from(b[c as usize]));
            let exact: f64 = match name {
                "add" => a + b,
                "sub" => a - b,
                "mul" => a * b,
                "max" => a.max(b),
                "min" => a.min(b),
                _ => a / b,
            };
            let exact = exact.clamp(-65504.0, 65504.0);
            let y = f64::from(out[m.at(row, c)]);
            let close = (y - exact).abs() <= ulp16(exact).max(2f64.powi(-24)) * 0.501;
            assert!(close || exact.is_nan(), "{name} {a} {b}: {y}");
        }
    }
    cycles
}

fn reduce_column(kernel: &str, groups: u32, m: Matrix, factor: f32, seed: u64) -> u64 {
    let mut random = Random(seed);
    let x = random.values(groups * m.elements(), 4.0);
    let out = match kernel {
        "reduce_column_sum_f16_f32" => ElementType::F32,
        _ => ElementType::F16,
    };
    // Panels of a group's result follow each other, groups have room between.
    let panel = 16 * out.bytes();
    let out_row = (m.padded() / 16 + 1) * panel;
    let words = [
        ("groups", groups),
        ("rows", m.rows),
        ("panels", m.padded() / 16),
        ("x_row", m.row()),
        ("x_panel", m.panel()),
        ("x_group", m.elements() * 2),
        ("out_row", out_row),
        ("out_panel", panel),
        ("factor", factor.to_bits()),
    ];
    let result = Data {
        element: out,
        values: vec![0.0; (groups * out_row / out.bytes()) as usize],
    };
    let (y, cycles) = run(&Call {
        kernel,
        buffers: vec![half_data(x.clone()), result],
        words: &words,
    });
    for group in 0..groups {
        for c in 0..m.padded() {
            let start = (group * m.elements()) as usize;
            let values = (0..m.rows).map(|r| f64::from(x[start + m.at(r, c)]));
            let result = f64::from(y[(group * out_row / out.bytes() + c) as usize]);
            let (exact, bound) = if kernel == "reduce_column_max_f16" {
                (values.fold(f64::NEG_INFINITY, f64::max), 0.0)
            } else {
                let exact = values.clone().sum::<f64>() * f64::from(factor);
                let all = values.map(f64::abs).sum::<f64>() * f64::from(factor);
                let rounding = if out == ElementType::F16 {
                    ulp16(exact) / 2.0
                } else {
                    0.0
                };
                (exact, rounding + all * 1e-5)
            };
            let error = (result - exact).abs();
            assert!(
                error <= bound,
                "{kernel} {m:?} group {group} column {c}: {error}"
            );
        }
    }
    cycles
}

proptest! {
    #![proptest_config(config(16))]
    #[test]
    fn rows_meet_one_row(m in matrix(), seed: u64) {
        for name in ["add", "sub", "mul", "max", "min", "div"] {
            row_binary(name, m, seed);
        }
    }

    #[test]
    fn columns_of_any_shape(groups in 1u32..7, m in matrix(), factor in 0.01f32..1.0, seed: u64) {
        for kernel in ["reduce_column_sum_f16", "reduce_column_max_f16", "reduce_column_sum_f16_f32"] {
            reduce_column(kernel, groups, m, factor, seed);
        }
    }
}

/// Cycles an element of 4,096 on one tile, 64 rows of 64 where there are rows.
#[test]
fn cycles_an_element() {
    let m = Matrix {
        rows: 64,
        columns: 64,
        panels: true,
    };
    let report = |name: &str, limit: f64, cycles: u64| {
        let each = cycles as f64 / 4096.0;
        println!("{name}: {each:.2} cycles an element");
        assert!(each <= limit, "{name}: {each}");
    };
    report("softmax_f16", 3.3, softmax(m, 0.125, 8.0, 1).1);
    report("softmax_causal_f16", 3.3, causal(m, 0, 64, 1, 1));
    for (kernel, limit) in [("layer_norm_f16", 2.8), ("rms_norm_f16", 1.75)] {
        report(kernel, limit, norm(kernel, m, 0.5, 2.0, 1).1);
    }
    for kernel in ["reduce_row_sum_f16", "reduce_row_max_f16"] {
        report(kernel, 0.7, reduce_row(m, kernel, 0.1, 1));
    }
    for (name, half, single) in [
        ("tanh", 0.6, 5.1),
        ("sigmoid", 1.1, 5.1),
        ("exp", 1.1, 3.1),
        ("rsqrt", 4.9, 4.1),
        ("gelu_erf", 10.1, 13.1),
        ("gelu_tanh", 2.1, 7.6),
        ("div", 4.4, 3.6),
        ("add", 0.8, 1.6),
    ] {
        for (suffix, element, lanes, limit) in [
            ("f16", ElementType::F16, 4, half),
            ("f32", ElementType::F32, 2, single),
        ] {
            let kernel = format!("{name}_{suffix}");
            let values = |n: u32| {
                let all = Random(1).values(n, 2.0);
                all.iter().map(|x| x.abs() + 0.1).collect()
            };
            let arguments = registry().get(&kernel).map_or(0, |k| k.buffers.len() - 1);
            let inputs = (0..arguments)
                .map(|_| Data {
                    element,
                    values: values(4096),
                })
                .collect();
            report(
                &kernel,
                limit,
                flat(&kernel, inputs, element, 4096 / lanes).1,
            );
        }
    }
    for (name, limit) in [("add", 1.0), ("div", 5.1)] {
        report(&format!("{name}_row_f16"), limit, row_binary(name, m, 1));
    }
    for kernel in [
        "reduce_column_sum_f16",
        "reduce_column_max_f16",
        "reduce_column_sum_f16_f32",
    ] {
        report(kernel, 0.45, reduce_column(kernel, 1, m, 1.0, 1));
    }
    let x = || Random(1).values(4096, 2.0);
    let (to, from) = (ElementType::F32, ElementType::F16);
    let cycles = flat("cast_f16_f32", vec![half_data(x())], to, 1024).1;
    report("cast_f16_f32", 0.8, cycles);
    let cycles = flat("cast_f32_f16", vec![single_data(x())], from, 1024).1;
    report("cast_f32_f16", 0.8, cycles);
}
