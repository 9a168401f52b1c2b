//! The matrix products of the registry beyond those of `kernels.rs`, and the sums of their
//! partial results: the simulator's bits against the meaning, and the law, over random shapes.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of a test

mod call;

use call::{Call, Outcome, random, run};
use ipu_program::kernels::share;
use ipu_program::layout::{ElementOrder, ShardStorage};
use ipu_program::types::ElementType::{self, F16, F32};
use proptest::prelude::*;

/// A panel holds 16 columns; strides in `gap` exceed what they must be by that many rows.
fn partial(rows: u32, k_blocks: u32, groups: u32, gap: u32, seed: u32) -> Outcome {
    let a_stride = (rows + gap) * 32;
    let out_stride = (rows + gap) * 64;
    let a = k_blocks * a_stride / 2;
    let weights = k_blocks * groups * 256;
    let mut words = share(rows).to_vec();
    words.extend([k_blocks, groups, a_stride, out_stride]);
    run(&Call {
        kernel: "gemm_f32_partial",
        buffers: vec![
            (F16, a, Some(random(F16, a, seed))),
            (F16, weights, Some(random(F16, weights, seed ^ 77))),
            (F32, groups * out_stride / 4, None),
        ],
        words,
    })
}

/// Products that are added to what out holds.
fn accumulate(
    kernel: &str,
    out: ElementType,
    [rows, k_blocks, groups, gap]: [u32; 4],
    seed: u32,
) -> Outcome {
    let (a_stride, out_stride) = ((rows + gap) * 32, (rows + gap) * 16 * out.bytes());
    let a = k_blocks * a_stride / 2;
    let weights = k_blocks * groups * 256;
    let results = groups * out_stride / out.bytes();
    let mut words = share(rows).to_vec();
    words.extend([k_blocks, groups, a_stride, out_stride]);
    run(&Call {
        kernel,
        buffers: vec![
            (F16, a, Some(random(F16, a, seed))),
            (F16, weights, Some(random(F16, weights, seed ^ 77))),
            (out, results, Some(random(out, results, seed ^ 154))),
        ],
        words,
    })
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    batches: u32,
    rows: u32,
    k_blocks: u32,
    /// Rows of the transposed weights, the columns of the result.
    columns: u32,
    gap: u32,
}

/// Products with the rows of a second matrix in panels, such as queries with keys.
fn batched(partials: ElementType, size: Batch, seed: u32) -> Outcome {
    let Batch {
        batches,
        rows,
        k_blocks,
        columns,
        gap,
    } = size;
    let groups = columns.div_ceil(16);
    let (a_stride, out_stride, w_block) = ((rows + gap) * 32, (rows + gap) * 32, columns * 32);
    let (a_batch, w_batch) = (k_blocks * a_stride, k_blocks * w_block);
    let out_batch = groups * out_stride;
    let mut buffers = vec![
        (F16, batches * a_batch / 2, None),
        (F16, batches * w_batch / 2, None),
        (F16, batches * out_batch / 2, None),
    ];
    for (i, (element, elements, values)) in buffers.iter_mut().take(2).enumerate() {
        *values = Some(random(*element, *elements, seed ^ (i as u32 * 77)));
    }
    let kernel = match partials {
        F16 => "bgemm_f16",
        _ => {
            buffers.insert(2, (F32, rows * 8, None));
            "bgemm_f32"
        }
    };
    let mut words = share(rows).to_vec();
    words.extend([k_blocks, groups, a_stride, out_stride, w_block, 512]);
    words.extend([batches, a_batch, w_batch, out_batch]);
    run(&Call {
        kernel,
        buffers,
        words,
    })
}

/// Checks all that is computed from the second matrix itself, not from what follows it.
fn check_batched(partials: ElementType, size: Batch, seed: u32) {
    let groups = size.columns.div_ceil(16) as usize;
    let rows = (size.rows + size.gap) as usize;
    batched(partials, size, seed).check(&format!("{partials:?} {size:?}"), |i| {
        let (column, group) = (i % 16, i / 16 / rows % groups);
        group * 16 + column < size.columns as usize
    });
}

fn reduce(addends: u32, relu: bool, atoms: u32, parts: u32, gap: u32, seed: u32) -> Outcome {
    reduce_to(F16, addends, relu, atoms, [parts, gap], seed)
}

fn reduce_to(
    out: ElementType,
    addends: u32,
    relu: bool,
    atoms: u32,
    [parts, gap]: [u32; 2],
    seed: u32,
) -> Outcome {
    let part_stride = (atoms + gap) * 16;
    let partials = parts * part_stride / 4;
    let mut buffers = vec![(F32, partials, Some(random(F32, partials, seed)))];
    for i in 0..addends {
        buffers.push((out, atoms * 4, Some(random(out, atoms * 4, seed ^ (i + 5)))));
    }
    buffers.push((out, atoms * 4, None));
    let name = ["", "_add", "_add2"][addends as usize];
    let relu = if relu { "_relu" } else { "" };
    let mut words = share(atoms).to_vec();
    words.extend([parts, part_stride]);
    run(&Call {
        kernel: &format!("reduce_partials_{out}{name}{relu}"),
        buffers,
        words,
    })
}

/// All f32: strides of `rows + gap` rows of 64 bytes.
fn gemm32(
    bias: bool,
    relu: bool,
    rows: u32,
    k_blocks: u32,
    groups: u32,
    gap: u32,
    seed: u32,
) -> Outcome {
    let stride = (rows + gap) * 64;
    let mut buffers = vec![k_blocks * stride / 4, k_blocks * groups * 256];
    if bias {
        buffers.push(groups * 16);
    }
    let mut buffers: Vec<_> = (seed..)
        .zip(buffers)
        .map(|(seed, n)| (F32, n, Some(random(F32, n, seed))))
        .collect();
    buffers.push((F32, groups * stride / 4, None));
    let bias = if bias { "_bias" } else { "" };
    let relu = if relu { "_relu" } else { "" };
    let mut words = share(rows).to_vec();
    words.extend([k_blocks, groups, stride, stride]);
    run(&Call {
        kernel: &format!("gemm32{bias}{relu}"),
        buffers,
        words,
    })
}

/// All f32, the weights of the elements of the batch one after the other.
fn batched32(
    batches: u32,
    rows: u32,
    [k_blocks, groups]: [u32; 2],
    gap: u32,
    seed: u32,
) -> Outcome {
    let stride = (rows + gap) * 64;
    let (a_batch, out_batch) = (k_blocks * stride, groups * stride);
    let a = batches * a_batch / 4;
    let weights = batches * k_blocks * groups * 256;
    let mut words = share(rows).to_vec();
    words.extend([
        k_blocks, groups, stride, stride, batches, a_batch, out_batch,
    ]);
    run(&Call {
        kernel: "bgemm32",
        buffers: vec![
            (F32, a, Some(random(F32, a, seed))),
            (F32, weights, Some(random(F32, weights, seed ^ 77))),
            (F32, batches * out_batch / 4, None),
        ],
        words,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn batched_f32_products(
        batches in 1u32..5,
        rows in 1u32..26,
        sizes in [1u32..4, 1u32..4],
        gap in 0u32..3,
        seed: u32,
    ) {
        let rows_of = |i: usize| i / 16 % (rows + gap) as usize;
        batched32(batches, rows, sizes, gap, seed)
            .check(&format!("{batches} {rows} {sizes:?} {gap}"), |i| rows_of(i) < rows as usize);
    }

    #[test]
    fn accumulating_products(rows in 1u32..40, k_blocks in 1u32..7, groups in 1u32..4, gap in 0u32..3, seed: u32) {
        for (kernel, out) in [
            ("gemm_f16_accumulate", F16),
            ("gemm_f16_accumulate_relu", F16),
            ("gemm_f32_partial_accumulate", F32),
        ] {
            accumulate(kernel, out, [rows, k_blocks, groups, gap], seed)
                .check(&format!("{kernel} {rows} {k_blocks} {groups} {gap}"), |_| true);
        }
    }

    #[test]
    fn partial_products(rows in 1u32..40, k_blocks in 1u32..7, groups in 1u32..4, gap in 0u32..3, seed: u32) {
        partial(rows, k_blocks, groups, gap, seed)
            .check(&format!("{rows} {k_blocks} {groups} {gap}"), |_| true);
    }

    #[test]
    fn batched_products(
        f32_partials: bool,
        batches in 1u32..5,
        rows in 1u32..26,
        k_blocks in 1u32..5,
        columns in 1u32..50,
        gap in 0u32..3,
        seed: u32,
    ) {
        let partials = if f32_partials { F32 } else { F16 };
        check_batched(partials, Batch { batches, rows, k_blocks, columns, gap }, seed);
    }

    #[test]
    fn f32_products(
        bias: bool,
        relu: bool,
        rows in 1u32..40,
        k_blocks in 1u32..5,
        groups in 1u32..4,
        gap in 0u32..3,
        seed: u32,
    ) {
        gemm32(bias, relu, rows, k_blocks, groups, gap, seed)
            .check(&format!("{bias} {relu} {rows} {k_blocks} {groups} {gap}"), |_| true);
    }

    #[test]
    fn sums_of_partial_products(addends in 0u32..3, relu: bool, atoms in 1u32..80, parts in 1u32..9, gap in 0u32..3, seed: u32) {
        reduce(addends, relu, atoms, parts, gap, seed)
            .check(&format!("{addends} {relu} {atoms} {parts}"), |_| true);
        let addends = addends.min(1);
        reduce_to(F32, addends, relu, atoms, [parts, gap], seed)
            .check(&format!("f32 {addends} {relu} {atoms} {parts}"), |_| true);
    }
}

/// The weights of a product are a matrix in the order of a layout.
#[test]
fn weights_of_f32_products_are_in_their_layout() {
    let (k, n) = (20, 24);
    let storage = ShardStorage {
        order: ElementOrder::Weights16,
        rows: k,
        columns: n,
        element: F32,
    };
    let mut weights = vec![0.0; (storage.bytes() / 4) as usize];
    for row in 0..k {
        for column in 0..n {
            weights[(storage.offset(row, column) / 4) as usize] = (row * n + column) as f32;
        }
    }
    // A row of the unit matrix selects a row of the weights.
    let row = 13;
    let mut a = vec![0.0; 32];
    a[row] = 1.0;
    let outcome = run(&Call {
        kernel: "gemm32",
        buffers: vec![
            (F32, 32, Some(a)),
            (F32, weights.len() as u32, Some(weights)),
            (F32, 32, None),
        ],
        words: vec![0, 1, 2, 2, 64, 64],
    });
    outcome.check("selection", |_| true);
    for column in 0..n {
        let expected = (row as u32 * n + column) as f32;
        assert_eq!(outcome.simulated[column as usize], expected);
    }
}

/// What f16 cannot hold: the chip clips infinities like overflow; a NaN stays, but not after relu.
#[test]
fn sums_clip_to_the_range_of_f16() {
    let values = [
        1e5,
        -1e5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -1e-9,
        3e38,
        -0.0,
    ];
    for (relu, expected) in [
        (
            "",
            [
                65504.0,
                -65504.0,
                65504.0,
                -65504.0,
                f32::NAN,
                -0.0,
                65504.0,
                0.0,
            ],
        ),
        (
            "_relu",
            [65504.0, 0.0, 65504.0, 0.0, 0.0, 0.0, 65504.0, 0.0],
        ),
    ] {
        let outcome = run(&Call {
            kernel: &format!("reduce_partials_f16{relu}"),
            buffers: vec![(F32, 16, Some([values, values].concat())), (F16, 16, None)],
            words: vec![0, 2, 2, 32],
        });
        outcome.check(relu, |i| i < 8 && !expected[i].is_nan());
        for (found, expected) in outcome.simulated.iter().zip(expected) {
            assert_eq!(found.is_nan(), expected.is_nan());
            assert!(
                found.is_nan() || found.to_bits() == expected.to_bits(),
                "{found} {expected}"
            );
        }
    }
}

#[test]
fn few_rows_of_many_batches() {
    for partials in [F16, F32] {
        for rows in 1..=6 {
            let size = Batch {
                batches: 9,
                rows,
                k_blocks: 4,
                columns: 17,
                gap: 0,
            };
            check_batched(partials, size, rows);
        }
    }
}

#[test]
fn long_products_follow_the_laws() {
    partial(92, 9, 1, 0, 1).check("partial", |_| true);
    gemm32(false, false, 49, 9, 2, 0, 1).check("f32", |_| true);
    reduce(2, true, 600, 12, 0, 1).check("reduce", |_| true);
    let size = Batch {
        batches: 1,
        rows: 49,
        k_blocks: 17,
        columns: 64,
        gap: 0,
    };
    check_batched(F16, size, 2);
    check_batched(F32, size, 3);
}

/// The figure that plans rest on: 16 x 16 of weights take 126 + 24 * 16 cycles for 92 rows.
#[test]
fn f16_product_reaches_70_percent_of_the_amp() {
    let size = Batch {
        batches: 1,
        rows: 92,
        k_blocks: 10,
        columns: 16,
        gap: 0,
    };
    let short = batched(
        F16,
        Batch {
            k_blocks: 2,
            ..size
        },
        1,
    )
    .cycles;
    let block = (batched(F16, size, 1).cycles - short) as f64 / 8.0;
    assert!(
        92.0 * 256.0 / block / 64.0 >= 0.70,
        "{block} cycles a block"
    );
}
