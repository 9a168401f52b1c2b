//! The kernel registry: ABI, meaning and cycle law of each tile kernel.
//!
//! A kernel is a supervisor function called with `$m0` pointing to its argument record: one
//! 32-bit word for each buffer (its byte address), then one for each word argument. It starts
//! the workers itself, joins them and returns with `br $m10`.

use crate::graph::BinaryKind;
use crate::layout::{MemoryClass, PANEL};
use crate::types::ElementType;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Workers that the kernels of `device/` divide their rows or atoms among: all of a tile.
pub const WORKERS: u32 = 6;

/// The two words by which a kernel divides `n` rows or atoms: what each worker takes, and how
/// many workers take one more.
pub fn share(n: u32) -> [u32; 2] {
    [n / WORKERS, n % WORKERS]
}

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes all of it before reading.
    Write,
    /// Needs it as scratch during the call only.
    Scratch,
}

/// A buffer argument.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BufferArgument {
    /// Name.
    pub name: String,
    /// Use.
    pub access: Access,
    /// Memory that it needs.
    #[serde(default = "any")]
    pub memory: MemoryClass,
    /// Bytes that the kernel may read beyond the end.
    #[serde(default)]
    pub tail: u32,
}

fn any() -> MemoryClass {
    MemoryClass::Any
}

/// What a kernel computes, in terms that an interpreter executes at storage precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Meaning {
    /// `out = act(a * weights + bias)`; buffers in the order of the registry, found by name.
    /// Partial sums are rounded to `partials` after every step of 4 of K (f32) or, for f16,
    /// additionally after every 16 of K.
    Gemm {
        /// Element type of partial sums in memory.
        partials: ElementType,
        /// Whether a bias buffer is read.
        bias: bool,
        /// Whether relu is applied.
        relu: bool,
    },
    /// Copies blocks of 32 bytes: for each panel and row, from
    /// `src + src_offset + panel * src_panel + row * src_row` to the same in `dst`.
    CopyBlocks,
    /// `out = a op b` on f16 atoms (8 bytes).
    Binary(Binary),
    /// `out = max(a, 0)` on f16 atoms (8 bytes).
    Relu,
    /// `out = a op b` on f32 atoms (8 bytes).
    BinaryF32(Binary),
    /// `out = max(a, 0)` on f32 atoms (8 bytes).
    ReluF32,
    /// `out = f(x)` on f16 atoms (8 bytes).
    Unary(Unary),
    /// `out = f(x)` on f32 atoms (8 bytes).
    UnaryF32(Unary),
    /// `out = x` in another element type; atoms of 4 elements.
    Cast {
        /// Element type of the result; that of `x` is the other one.
        to: ElementType,
    },
    /// `out = a op b` for each row of `a`, where `b` is one row.
    RowBinary(Binary),
    /// `out = softmax(scale * x)` of each row.
    Softmax {
        /// Whether row i of the matrix sees the first `visible + i` columns only.
        causal: bool,
    },
    /// `out = (x - mean) / sqrt(variance + epsilon) * scale + bias` of each row.
    LayerNorm,
    /// `out = x / sqrt(mean of squares + epsilon) * scale` of each row.
    RmsNorm,
    /// One column: the sum (times `factor`) or the largest of each row.
    ReduceRow(Reduction),
    /// One row: the sum (times `factor`) or the largest of each column.
    ReduceColumn {
        /// How a column is combined.
        reduction: Reduction,
        /// Element type of the result.
        out: ElementType,
    },
}

/// Functions of one element that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unary {
    /// `x * (1 + erf(x / sqrt 2)) / 2`.
    GeluErf,
    /// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`.
    GeluTanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `exp(x)`.
    Exp,
    /// `1 / sqrt(x)`.
    Rsqrt,
}

/// Ways to combine the elements of a row or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The largest.
    Max,
}

/// Elementwise kinds that kernels exist for, in the registry's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)] // as BinaryKind
pub enum Binary {
    Add,
    Sub,
    Mul,
    Max,
    Min,
    Div,
}

impl Binary {
    /// The operation in the model graph.
    pub fn kind(self) -> BinaryKind {
        match self {
            Binary::Add => BinaryKind::Add,
            Binary::Sub => BinaryKind::Sub,
            Binary::Mul => BinaryKind::Mul,
            Binary::Max => BinaryKind::Max,
            Binary::Min => BinaryKind::Min,
            Binary::Div => BinaryKind::Div,
        }
    }
}

/// A closed formula over the word arguments of a call, in tile cycles.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum Law {
    /// A constant.
    Cycles(u64),
    /// A word argument.
    Word(String),
    /// Sum.
    Sum(Vec<Law>),
    /// Product.
    Product(Vec<Law>),
    /// The smallest.
    Min(Vec<Law>),
    /// Difference, 0 where negative.
    Minus(Box<Law>, Box<Law>),
    /// Quotient, rounded up.
    CeilDiv(Box<Law>, u64),
    /// The slowest worker's rows of a causal softmax: `row` each, `panel` for each panel of 16
    /// columns that a row sees, `hidden` for each other one.
    CausalRows {
        /// Cycles of a row.
        row: u64,
        /// Cycles of a panel with visible columns.
        panel: u64,
        /// Cycles of a panel without.
        hidden: u64,
        /// Cycles for each whole matrix before a worker's first row.
        skip: u64,
    },
}

/// Words that [`Law::CausalRows`] depends on.
const CAUSAL_WORDS: [&str; 6] = [
    "rows_each",
    "rows_extra",
    "columns",
    "first_row",
    "period",
    "visible",
];

/// Evaluates [`Law::CausalRows`] for words in the order of [`CAUSAL_WORDS`].
fn causal_rows(words: [u64; 6], [row, panel, hidden, skip]: [u64; 4]) -> u64 {
    /// Rows of a worker that are looked at one by one; more do not fit a tile.
    const MOST_ROWS: u64 = 1 << 16;
    let [rows_each, rows_extra, columns, first_row, period, visible] = words;
    let panels = columns.div_ceil(PANEL.into());
    let mut next = first_row;
    let mut slowest = 0;
    for worker in 0..u64::from(WORKERS) {
        let rows = rows_each + u64::from(worker < rows_extra);
        let mut cycles = rows.saturating_mul(row);
        cycles = cycles.saturating_add((next / period.max(1)).saturating_mul(skip));
        for r in 0..rows.min(MOST_ROWS) {
            let i = (next + r) % period.max(1);
            let seen = columns.min(visible + i).div_ceil(PANEL.into());
            let work =
                (seen.saturating_mul(panel)).saturating_add((panels - seen).saturating_mul(hidden));
            cycles = cycles.saturating_add(work);
        }
        slowest = slowest.max(cycles);
        next += rows;
    }
    slowest
}

impl Law {
    /// Evaluates the law; unknown words count as 0 (the registry check refuses them).
    pub fn cycles(&self, word: &dyn Fn(&str) -> u64) -> u64 {
        match self {
            Law::Cycles(n) => *n,
            Law::Word(name) => word(name),
            Law::Sum(terms) => terms
                .iter()
                .fold(0, |sum: u64, t| sum.saturating_add(t.cycles(word))),
            Law::Product(terms) => terms
                .iter()
                .fold(1, |product: u64, t| product.saturating_mul(t.cycles(word))),
            Law::Min(terms) => terms.iter().map(|t| t.cycles(word)).min().unwrap_or(0),
            Law::Minus(a, b) => a.cycles(word).saturating_sub(b.cycles(word)),
            Law::CeilDiv(a, n) => a.cycles(word).div_ceil((*n).max(1)),
            Law::CausalRows {
                row,
                panel,
                hidden,
                skip,
            } => causal_rows(CAUSAL_WORDS.map(word), [*row, *panel, *hidden, *skip]),
        }
    }

    fn words<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Law::Cycles(_) => {}
            Law::Word(name) => out.push(name),
            Law::Sum(t) | Law::Product(t) | Law::Min(t) => {
                t.iter().for_each(|t| t.words(out));
            }
            Law::Minus(a, b) => {
                a.words(out);
                b.words(out);
            }
            Law::CeilDiv(a, _) => a.words(out),
            Law::CausalRows { .. } => out.extend(CAUSAL_WORDS),
        }
    }
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Kernel {
    /// One line about it.
    pub summary: String,
    /// Source file in `device/`.
    pub source: String,
    /// Assembler defines that specialise the source. Its entry symbol is `kernel_entry`.
    #[serde(default)]
    pub defines: BTreeMap<String, i64>,
    /// Buffer arguments, in record order.
    pub buffers: Vec<BufferArgument>,
    /// Word arguments, in record order after the buffers.
    pub words: Vec<String>,
    /// Pairs of buffers that must not share a memory element.
    #[serde(default)]
    pub apart: Vec<(String, String)>,
    /// What it computes.
    pub meaning: Meaning,
    /// Name of its law in [`Kernels::laws`]: cycles from the call to the return.
    pub law: String,
}

impl Kernel {
    /// Position of a buffer argument.
    pub fn buffer(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|b| b.name == name)
    }

    /// Position of a word argument.
    pub fn word(&self, name: &str) -> Option<usize> {
        self.words.iter().position(|w| w == name)
    }
}

/// A registry that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Not RON of the expected shape.
    #[error("kernel registry: {0}")]
    Syntax(#[from] ron::error::SpannedError),
    /// A kernel names a law that does not exist, or a law a word that its kernel lacks, or an
    /// `apart` pair a buffer that does not exist.
    #[error("kernel registry: kernel '{kernel}' refers to unknown {what} '{name}'")]
    Unknown {
        /// Kernel.
        kernel: String,
        /// Kind of the missing thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

/// All kernels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Kernels {
    /// Cycle laws by name.
    pub laws: BTreeMap<String, Law>,
    /// Kernels by name.
    pub kernels: BTreeMap<String, Kernel>,
}

impl Kernels {
    /// Reads and checks a registry in RON.
    ///
    /// # Errors
    /// The text does not parse or names something that does not exist.
    pub fn from_ron(text: &str) -> Result<Self, KernelError> {
        let registry: Kernels = ron::from_str(text)?;
        for (name, kernel) in &registry.kernels {
            let unknown = |what, thing: &str| KernelError::Unknown {
                kernel: name.clone(),
                what,
                name: thing.to_owned(),
            };
            let law = registry
                .laws
                .get(&kernel.law)
                .ok_or_else(|| unknown("law", &kernel.law))?;
            let mut words = Vec::new();
            law.words(&mut words);
            if let Some(word) = words.into_iter().find(|w| kernel.word(w).is_none()) {
                return Err(unknown("word", word));
            }
            for (a, b) in &kernel.apart {
                if let Some(b) = [a, b].into_iter().find(|b| kernel.buffer(b).is_none()) {
                    return Err(unknown("buffer", b));
                }
            }
        }
        Ok(registry)
    }

    /// The registry shipped with the project (`device/kernels.ron`).
    #[allow(clippy::expect_used)] // the embedded file is checked by a unit test
    pub fn builtin() -> &'static Kernels {
        static KERNELS: OnceLock<Kernels> = OnceLock::new();
        KERNELS.get_or_init(|| {
            Kernels::from_ron(include_str!("../../../device/kernels.ron"))
                .expect("embedded kernels.ron is valid")
        })
    }

    /// A kernel by name.
    pub fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// Cycles of a call by its law, from the call to the return; `words` in record order.
    pub fn cycles(&self, kernel: &Kernel, words: &[u32]) -> u64 {
        self.laws.get(&kernel.law).map_or(0, |law| {
            law.cycles(&|name| {
                kernel
                    .word(name)
                    .and_then(|i| words.get(i))
                    .map_or(0, |&w| u64::from(w))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_registry_is_valid() {
        assert!(!Kernels::builtin().kernels.is_empty());
    }

    #[test]
    fn unknown_law_is_named() {
        let text = r#"(laws: {}, kernels: {"k": (summary: "", source: "k.S", buffers: [],
            words: [], meaning: Relu, law: "l")})"#;
        let e = Kernels::from_ron(text).unwrap_err();
        assert_eq!(
            e.to_string(),
            "kernel registry: kernel 'k' refers to unknown law 'l'"
        );
    }

    #[test]
    fn laws_evaluate() {
        let law = Law::Sum(vec![
            Law::Cycles(10),
            Law::Product(vec![Law::Word("r".into()), Law::Cycles(24)]),
            Law::CeilDiv(Box::new(Law::Word("r".into())), 6),
            Law::Minus(Box::new(Law::Cycles(3)), Box::new(Law::Word("r".into()))),
        ]);
        assert_eq!(law.cycles(&|_| 7), 10 + 168 + 2);
        // 13 rows of matrices of 8 rows; row i sees columns 0 to 11 + i. The slowest worker has rows
        // 7 and 0 of the next matrix: 22 columns, 11 columns.
        let law = Law::CausalRows {
            row: 100,
            panel: 10,
            hidden: 1,
            skip: 1000,
        };
        let words = |first: u64| {
            move |name: &str| match name {
                "rows_each" => 2,
                "rows_extra" => 0,
                "columns" => 32,
                "first_row" => first,
                "period" => 8,
                _ => 11,
            }
        };
        // Rows 0 to 11: the last two start a matrix later, at row 2: both see one panel.
        assert_eq!(law.cycles(&words(0)), 1000 + 2 * 111);
        // Rows 4 to 15: the last are rows 6 and 7 of the second matrix, with two panels.
        assert_eq!(law.cycles(&words(4)), 1000 + 2 * 120);
    }
}
