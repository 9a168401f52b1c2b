use crate::host::{HostArray, Parameters};
use crate::tile::{Fill, Interpreter, TileError};
use ipu_program::kernels::{Kernels, Meaning};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::tile::{Binding, Buffer, BufferId, Compute, Source, Step, TileProgram};
use ipu_program::types::{ElementType, TensorType};
use proptest::prelude::*;

/// Elements of each buffer.
const HALVES: u32 = 256;

fn ty() -> TensorType {
    TensorType::new([1, HALVES], ElementType::F16)
}

/// Runs a kernel on one tile. Buffers hold 0, 1, 2, ... before; gives the last one after.
fn run(kernel: &str, words: &[u32]) -> Result<Vec<f32>, TileError> {
    let known = Kernels::builtin().get(kernel).unwrap();
    let mut program = TileProgram {
        name: "main".into(),
        tiles: 1,
        ..TileProgram::default()
    };
    for argument in &known.buffers {
        let buffer = program.add_buffer(Buffer {
            name: argument.name.clone(),
            ty: ty(),
            layout: Layout {
                rows: Split::whole(1),
                columns: Split::whole(HALVES),
                copies: 1,
                copy_stride: 0,
                first_tile: 0,
                order: ElementOrder::Rows,
                memory: MemoryClass::Any,
            },
            align: 32,
            tail: 0,
            live: None,
            address: None,
            location: String::new(),
        });
        let source = Source::Input(0);
        program.bindings.push(Binding { source, buffer });
    }
    let last = BufferId(known.buffers.len() as u32 - 1);
    program.bindings.push(Binding {
        source: Source::Output(0),
        buffer: last,
    });
    program.steps.push(Step::Compute(Compute {
        name: "move".into(),
        kernel: kernel.into(),
        buffers: (0..=last.0).map(BufferId).collect(),
        tiles: vec![0],
        words: words.to_vec(),
        location: String::new(),
    }));
    let ramp = HostArray::new(ty(), (0..HALVES).map(|i| i as f32).collect()).unwrap();
    let mut interpreter = Interpreter::new(&program, Kernels::builtin(), Fill::Poison);
    interpreter.initialize(&Parameters::new())?;
    let mut outputs = interpreter.run(&[ramp])?;
    Ok(outputs.remove(0).values().to_vec())
}

/// What changed: positions with their values.
fn changes(kernel: &str, words: &[u32]) -> Vec<(usize, f32)> {
    let out = run(kernel, words).unwrap();
    let changed = |&(i, v): &(usize, f32)| v != i as f32;
    out.into_iter().enumerate().filter(changed).collect()
}

#[test]
fn zeros() {
    let zero = |places: std::ops::Range<usize>| places.map(|i| (i, 0.0)).collect::<Vec<_>>();
    assert_eq!(changes("fill_zero", &[1, 3]), zero(1..36));
    let mut expected = zero(29..32);
    expected.extend(zero(61..64));
    // Columns 13 to 15 of the second panel of two rows of two panels.
    assert_eq!(changes("zero_columns_f16", &[0, 2, 13, 32, 64]), expected);
}

#[test]
fn runs() {
    // The third run is beyond the number of runs.
    let words = [2, 0, 8, 0, 1, 60, 4, 2, 0, 0, 30];
    let expected = [
        (0, 4.0),
        (1, 5.0),
        (2, 30.0),
        (3, 31.0),
        (4, 32.0),
        (5, 33.0),
    ];
    assert_eq!(changes("copy_runs", &words), expected);
}

#[test]
fn pairs() {
    let words = [2, 4, 9 | 8 << 16, 7 << 16, 1 | 1 << 16];
    let expected = [(2, 9.0), (3, 8.0), (4, 0.0), (5, 7.0)];
    assert_eq!(changes("gather_f16", &words), expected[..]);
}

#[test]
fn transposed_rows_are_filled_up_with_zeros() {
    // Three rows of 16 columns become 16 rows of one panel.
    let out = run("transpose_f16", &[1, 3, 1, 0, 0, 32, 96, 0, 32, 512, 0]).unwrap();
    for (i, v) in out.into_iter().enumerate() {
        let (column, row) = (i / 16, i % 16);
        let expected = if row < 3 { 16 * row + column } else { 0 };
        assert_eq!(v, expected as f32, "column {column}, row {row}");
    }
    let error = run("transpose_f16", &[2, 3, 1, 0, 0, 32, 96, 96, 32, 512, 512]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 'move', tile 0: access to buffer 'dst' at offset 0, 1024 bytes, but it has 512 bytes"
    );
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let error = |kernel, words: &[u32]| run(kernel, words).unwrap_err().to_string();
    assert_eq!(
        error("copy_runs", &[2, 0, 0, 0, 1, 0, 0]),
        "step 'move', kernel 'copy_runs': needs a table of 6 words, found 5"
    );
    assert_eq!(
        error("gather_f16", &[4294967295, 0, 0]),
        "step 'move', kernel 'gather_f16': needs a table of 4294967295 words, found 1"
    );
    assert_eq!(
        error("gather_f16", &[0]),
        "step 'move', kernel 'gather_f16': 1 words for 1 tiles are not equally many, 2 and then \
         two element numbers for each word"
    );
    assert_eq!(
        error("gather_f16", &[1, 0, 255 | 256 << 16]),
        "step 'move', tile 0: access to buffer 'src' at offset 512, 2 bytes, but it has 512 bytes"
    );
}

proptest! {
    #[test]
    fn any_words_give_an_error_or_a_result(
        words in prop::collection::vec(prop_oneof![0u32..40, any::<u32>()], 20),
        table in 0usize..9,
    ) {
        for (name, kernel) in &Kernels::builtin().kernels {
            if matches!(kernel.meaning, Meaning::Move(_)) {
                let table = kernel.table.as_ref().map_or(0, |_| table);
                let _ = run(name, &words[..kernel.words.len() + table]);
            }
        }
    }
}
