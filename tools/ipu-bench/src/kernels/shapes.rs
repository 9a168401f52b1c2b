//! The shapes that kernels are measured with.
//!
//! Kernels form families by the words that they take. A family has a list of shapes; a shape gives
//! every word its value, by name, whatever the kernel. A kernel of a new kind needs a line in
//! [`FAMILIES`], a word with a new name one in [`value`], a table one in [`table`].

use anyhow::{Context, Result, bail};
use ipu_program::kernels::{Kernel, Meaning, Move, share};
use ipu_program::layout::PANEL;
use ipu_program::runs::{Run, balanced, step_words};

/// The words of one call and the shape that they stand for.
pub struct Case {
    pub shape: String,
    pub words: Vec<u32>,
}

/// What a call works on; what a family does not name is not used.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: u32,
    columns: u32,
    /// Columns of the left and rows of the right operand of a product.
    depth: u32,
    /// Matrices, or groups of rows.
    batches: u32,
    /// Partial sums of an element.
    parts: u32,
    /// First column of those that are cleared.
    first: u32,
}

const ONE: Shape = Shape {
    rows: 1,
    columns: 1,
    depth: 1,
    batches: 1,
    parts: 1,
    first: 1,
};

/// Names of the numbers that a family's shapes consist of.
#[derive(Clone, Copy, Debug)]
enum Extent {
    Rows,
    Columns,
    Depth,
    Batches,
    Parts,
    First,
}
use Extent::{Batches, Columns, Depth, First, Parts, Rows};

impl Extent {
    fn name(self) -> &'static str {
        match self {
            Rows => "rows",
            Columns => "columns",
            Depth => "depth",
            Batches => "batches",
            Parts => "parts",
            First => "first",
        }
    }

    fn set(self, shape: &mut Shape, value: u32) {
        *match self {
            Rows => &mut shape.rows,
            Columns => &mut shape.columns,
            Depth => &mut shape.depth,
            Batches => &mut shape.batches,
            Parts => &mut shape.parts,
            First => &mut shape.first,
        } = value;
    }
}

/// Kernels that take all of some words.
struct Family {
    words: &'static [&'static str],
    extents: &'static [Extent],
    /// Odd ones first: a test measures the first four of each family. Every buffer fits 64 KiB.
    shapes: &'static [&'static [u32]],
}

/// A kernel belongs to the first family whose words it has.
const FAMILIES: &[Family] = &[
    Family {
        words: &["blocks"],
        extents: &[Batches, Depth, Columns],
        shapes: &[
            &[1, 1, 1],
            &[3, 7, 18],
            &[2, 92, 40],
            &[1, 64, 64],
            &[5, 17, 16],
            &[12, 16, 33],
            &[1, 128, 100],
            &[7, 40, 48],
        ],
    },
    Family {
        words: &["src_batch"],
        extents: &[Batches, Rows, Columns],
        shapes: &[
            &[1, 1, 16],
            &[3, 7, 32],
            &[2, 92, 48],
            &[1, 64, 64],
            &[1, 4, 80],
            &[1, 5, 16],
            &[5, 16, 16],
            &[12, 18, 32],
            &[7, 50, 64],
            &[1, 128, 128],
            &[12, 64, 32],
        ],
    },
    Family {
        words: &["runs"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[5, 7],
            &[92, 18],
            &[7, 64],
            &[1, 400],
            &[12, 250],
            &[150, 4],
            &[64, 64],
        ],
    },
    Family {
        words: &["count"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[5, 18],
            &[7, 33],
            &[92, 40],
            &[1, 16],
            &[16, 16],
            &[48, 64],
        ],
    },
    Family {
        words: &["first", "rows_each"],
        extents: &[Rows, First],
        shapes: &[
            &[1, 15],
            &[5, 1],
            &[7, 4],
            &[92, 10],
            &[6, 8],
            &[150, 3],
            &[150, 13],
        ],
    },
    Family {
        words: &["k_blocks", "batches"],
        extents: &[Batches, Rows, Depth, Columns],
        shapes: &[
            &[1, 1, 16, 1],
            &[3, 7, 64, 92],
            &[2, 92, 64, 92],
            &[5, 5, 16, 16],
            &[1, 64, 64, 64],
            &[3, 16, 64, 128],
            &[2, 128, 96, 64],
            &[12, 12, 32, 32],
        ],
    },
    Family {
        words: &["k_blocks"],
        extents: &[Rows, Depth, Columns],
        shapes: &[
            &[1, 16, 1],
            &[5, 64, 18],
            &[7, 33, 10],
            &[92, 128, 64],
            &[6, 128, 128],
            &[12, 256, 64],
            &[40, 64, 128],
            &[150, 128, 64],
            &[92, 160, 16],
        ],
    },
    Family {
        words: &["parts", "panels"],
        extents: &[Rows, Columns, Parts],
        shapes: &[
            &[1, 1, 1],
            &[9, 72, 10],
            &[7, 16, 2],
            &[13, 64, 5],
            &[6, 40, 12],
            &[41, 128, 3],
        ],
    },
    Family {
        words: &["parts"],
        extents: &[Rows, Columns, Parts],
        shapes: &[
            &[1, 1, 1],
            &[5, 10, 3],
            &[7, 16, 2],
            &[92, 16, 8],
            &[4, 16, 12],
            &[32, 64, 4],
            &[64, 64, 2],
        ],
    },
    Family {
        words: &["groups", "rows"],
        extents: &[Batches, Rows, Columns],
        shapes: &[
            &[1, 1, 1],
            &[1, 5, 18],
            &[3, 7, 64],
            &[2, 92, 40],
            &[1, 150, 128],
            &[6, 16, 64],
            &[12, 12, 96],
        ],
    },
    Family {
        words: &["rows", "columns"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[3, 17],
            &[1, 144],
            &[5, 92],
            &[1, 768],
            &[1, 1152],
            &[2, 144],
            &[6, 256],
        ],
    },
    Family {
        words: &["rows_each", "columns"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[5, 18],
            &[7, 92],
            &[92, 92],
            &[1, 768],
            &[6, 64],
            &[12, 256],
            &[30, 768],
            &[16, 256],
        ],
    },
    Family {
        words: &["rows_each", "panels"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[4, 592],
            &[5, 18],
            &[7, 92],
            &[92, 92],
            &[1, 768],
            &[6, 64],
            &[12, 256],
            &[30, 768],
            &[16, 256],
        ],
    },
    Family {
        words: &["atoms_each"],
        extents: &[Rows, Columns],
        shapes: &[
            &[1, 1],
            &[5, 18],
            &[7, 92],
            &[92, 92],
            &[3, 16],
            &[6, 64],
            &[30, 768],
            &[16, 256],
        ],
    },
];

/// The calls that a kernel is measured with.
pub fn cases(name: &str, kernel: &Kernel) -> Result<Vec<Case>> {
    const HERE: &str = "tools/ipu-bench/src/kernels/shapes.rs needs";
    let family = FAMILIES
        .iter()
        .find(|f| f.words.iter().all(|w| kernel.word(w).is_some()))
        .with_context(|| {
            let words = kernel.words.join(", ");
            format!("kernel '{name}' belongs to no family of shapes (words: {words}); {HERE} one")
        })?;
    let case = |numbers: &&[u32]| -> Result<Case> {
        let mut shape = ONE;
        let mut text = Vec::new();
        for (&extent, &n) in family.extents.iter().zip(*numbers) {
            extent.set(&mut shape, n);
            text.push(format!("{} {n}", extent.name()));
        }
        let words = match (table(kernel, shape), &kernel.table) {
            (Some(whole), Some(_)) => whole,
            (None, None) => words(name, kernel, shape, HERE)?,
            (None, Some(_)) => {
                bail!("kernel '{name}': its table has no words for a shape; {HERE} them")
            }
            (Some(_), None) => bail!("kernel '{name}' has no table for its words"),
        };
        Ok(Case {
            shape: text.join(", "),
            words,
        })
    };
    family.shapes.iter().map(case).collect()
}

fn words(name: &str, kernel: &Kernel, shape: Shape, here: &str) -> Result<Vec<u32>> {
    let word = |word: &String| {
        value(word, kernel, shape).with_context(|| {
            format!("kernel '{name}': word '{word}' has no value for a shape; {here} one")
        })
    };
    kernel.words.iter().map(word).collect()
}

/// Word arguments and table of a kernel with a table.
fn table(kernel: &Kernel, shape: Shape) -> Option<Vec<u32>> {
    let Shape { rows, columns, .. } = shape;
    if kernel.word("runs").is_some() {
        // Rows of 4-byte words with a gap in the destination.
        let runs: Vec<Run> = (0..rows)
            .map(|r| Run {
                source: 4 * columns * r,
                destination: 4 * (columns + 1) * r,
                words: columns,
            })
            .collect();
        return Some(step_words(&[balanced(&runs)]));
    }
    if kernel.word("count").is_some() {
        // Two rows of halves, one after the other, become pairs.
        let count = rows * columns;
        let words = kernel.words.iter().map(|w| match w.as_str() {
            "count" => Some(count),
            "dst_offset" => Some(0),
            _ => None,
        });
        let table = (0..count).map(|i| Some(i | (count + i) << 16));
        return words.chain(table).collect();
    }
    None
}

/// The value of a word, in order `Panels` with 32 bytes a row, of what is packed 64.
fn value(word: &str, kernel: &Kernel, shape: Shape) -> Option<u32> {
    let Shape {
        rows,
        columns,
        depth,
        batches,
        parts,
        first,
    } = shape;
    let panels = columns.div_ceil(PANEL);
    let k_blocks = depth.div_ceil(PANEL);
    let atoms = 4 * rows * panels;
    let packed = match kernel.meaning {
        Meaning::Move(Move::PackWeights { turned }) => Some(turned),
        _ => None,
    };
    let row = match packed {
        Some(_) => 4 * PANEL,
        None => 2 * PANEL,
    };
    // Rows of what is packed: of the result's columns, or of K.
    let rows = match packed {
        Some(true) => depth,
        Some(false) => columns,
        None => rows,
    };
    let block = row * PANEL;
    // Rows of the result of a transposition.
    let transposed = kernel.word("src_batch").is_some();
    Some(match word {
        "rows_each" => share(rows)[0],
        "rows_extra" => share(rows)[1],
        "atoms_each" => share(atoms)[0],
        "atoms_extra" => share(atoms)[1],
        "pairs_each" => share(atoms / 2)[0],
        "pairs_extra" => share(atoms / 2)[1],
        "rows" => rows,
        "columns" => columns,
        "panels" => panels,
        "groups" if kernel.word("k_blocks").is_some() || packed.is_some() => panels,
        "blocks" => k_blocks,
        "src_batch" if packed == Some(false) => row * rows * k_blocks,
        "groups" | "batches" => batches,
        "k_blocks" => k_blocks,
        "parts" => parts,
        "first" => first,
        "part_stride" if kernel.word("pairs_each").is_some() => 8 * atoms,
        "part_stride" if kernel.word("partial_panel").is_some() => row * rows * (panels + 1),
        "part_stride" => 16 * atoms,
        "partial_panel" => row * rows,
        "stats_offset" => 0,
        "a_row" | "x_row" | "out_row" | "src_row" | "dst_row" => row,
        "dst_panel" if transposed => row * PANEL * panels,
        "dst_batch" => row * PANEL * panels * rows.div_ceil(PANEL),
        "a_panel" | "x_panel" | "out_panel" | "src_panel" | "dst_panel" => row * rows,
        "a_stride" | "out_stride" => row * rows,
        "a_batch" => row * rows * k_blocks,
        "x_group" | "src_batch" | "out_batch" => row * rows * panels,
        "w_block" => block,
        "w_group" => block * k_blocks,
        "w_batch" => block * k_blocks * panels,
        "src_offset" | "dst_offset" | "offset" | "first_row" => 0,
        "period" => rows,
        "visible" => 1,
        "scale" | "factor" => 0.125f32.to_bits(),
        "epsilon" => 1e-5f32.to_bits(),
        "inverse" => (1.0 / columns as f32).to_bits(),
        _ => return None,
    })
}
