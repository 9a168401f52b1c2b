//! The kernel registry: ABI, meaning and cycle law of each tile kernel.
//!
//! A kernel is a supervisor function called with `$m0` pointing to its argument record: one
//! 32-bit word for each buffer (its byte address), then one for each word argument, then the words
//! of its table if it has one. It starts the workers itself, joins them and returns with `br $m10`.

use crate::graph::BinaryKind;
pub use crate::law::Law;
use crate::law::resolve;
use crate::layout::MemoryClass;
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
    /// Reads it and writes all of it.
    Update,
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
        /// Whether partial sums start from what `out` holds.
        #[serde(default)]
        accumulate: bool,
    },
    /// `out = a * weights` in f32, with f32 partial sums and the weights in their order: the sums
    /// over a part of K. A row of a panel of out is 64 bytes.
    GemmPartial {
        /// Whether the sums start from what `out` holds.
        accumulate: bool,
    },
    /// `out[b] = a[b] * weights[b]` for each element b of a batch, partial sums as for `Gemm`. The
    /// weights are blocks of 16 columns of 16 of K, K fastest: `w_block` bytes from block to block
    /// of K, `w_group` from a group of 16 columns to the next.
    BatchedGemm {
        /// Element type of partial sums.
        partials: ElementType,
    },
    /// `out = act(a * weights + bias)`, all f32, each product added with one rounding.
    Gemm32 {
        /// Whether a bias buffer is read.
        bias: bool,
        /// Whether relu is applied.
        relu: bool,
    },
    /// `out[b] = a[b] * weights[b]` for each element b of a batch, otherwise as `Gemm32`.
    BatchedGemm32,
    /// `out = act(f16(sum of the parts of partials [+ b [+ c]]))`, flat, the sum from +0 on in
    /// that order, in f32.
    ReducePartials {
        /// How many of b and c there are.
        addends: u32,
        /// Whether relu is applied.
        relu: bool,
    },
    /// As `ReducePartials` with f32 addends and results.
    ReducePartialsF32 {
        /// Whether there is b.
        addends: u32,
        /// Whether relu is applied.
        relu: bool,
    },
    /// `out = act(f16(sum of the parts of partials [+ b]))`, flat, the partial sums f16, their sum
    /// from +0 on in that order in f32.
    ReduceHalves {
        /// Whether b is read.
        addend: bool,
        /// Whether relu is applied.
        relu: bool,
    },
    /// Copies blocks of 32 bytes: for each panel and row, from
    /// `src + src_offset + panel * src_panel + row * src_row` to the same in `dst`.
    CopyBlocks,
    /// Values move, or zeros take their place.
    Move(Move),
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
    /// `out = exp2(factor * x + shift)` of the columns of each row that a tile has, factor =
    /// `scale * log2(e)`, shift = `-factor * max(x)`; row by row the f32 sum of out and the shift in
    /// `stats`.
    SoftmaxPartial,
    /// `out = sum(o[p] * w[p]) / sum(l[p] * w[p])`, `w[p] = exp2(min(s) - s[p])`, over parts p of the
    /// keys: o products of a [`Meaning::SoftmaxPartial`] with values, l and s its sums and shifts.
    CombineSoftmax,
    /// `out = (x - mean) / sqrt(variance + epsilon) * scale + bias` of each row.
    LayerNorm {
        /// Whether all workers share each row, which is another order of additions.
        split: bool,
    },
    /// `out = x / sqrt(mean of squares + epsilon) * scale` of each row.
    RmsNorm {
        /// Whether all workers share each row, which is another order of additions.
        split: bool,
    },
    /// One column: the sum (times `factor`) or the largest of each row.
    ReduceRow(Reduction),
    /// As `Softmax`, of f32: exponentials of `scale * (x - largest)`.
    SoftmaxF32 {
        /// Whether row i of the matrix sees the first `visible + i` columns only.
        causal: bool,
    },
    /// As `LayerNorm`, of f32.
    LayerNormF32,
    /// As `RmsNorm`, of f32.
    RmsNormF32,
    /// As `ReduceRow`, of f32.
    ReduceRowF32(Reduction),
    /// As `ReduceColumn`, of f32.
    ReduceColumnF32(Reduction),
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

/// Movement of values that are not changed. The buffers and words are described in `device/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Move {
    /// Clears atoms of 8 bytes.
    FillZero,
    /// Clears the columns from `first` on of a panel of f16.
    ZeroColumns,
    /// As `ZeroColumns`, of f32.
    ZeroColumnsF32,
    /// Brings f32 matrices in panels to the order of AMP weights.
    PackWeights {
        /// Whether the rows of the source are K, not the columns of the product.
        turned: bool,
    },
    /// Copies the runs of a table, see [`crate::runs`].
    CopyRuns,
    /// Puts words together from pairs of f16 elements that a table names.
    Gather,
    /// Transposes matrices of f16, rows rounded up to 16 with zeros.
    Transpose,
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
    /// Name of the table that its record ends with. Its length may differ from step to step; the
    /// records of a step are equally long.
    #[serde(default)]
    pub table: Option<String>,
    /// Pairs of buffers that must not share a memory element.
    #[serde(default)]
    pub apart: Vec<(String, String)>,
    /// What it computes.
    pub meaning: Meaning,
    /// Name of its law in [`Kernels::laws`]: cycles from the call to the return.
    pub law: String,
}

impl Kernel {
    /// Position of a buffer argument in the record; `None` when the kernel has none of this name.
    pub fn buffer(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|b| b.name == name)
    }

    /// Position of a word argument among the words; `None` when the kernel has none of this name.
    pub fn word(&self, name: &str) -> Option<usize> {
        self.words.iter().position(|w| w == name)
    }

    /// Words of a tile's record behind the buffers, its table included, in a step of `tiles` tiles
    /// with `words` words in all. `None` if they do not divide into equal records of this kernel.
    pub fn record_words(&self, words: usize, tiles: usize) -> Option<usize> {
        let fixed = self.words.len();
        match words.checked_div(tiles) {
            None => (words == 0).then_some(fixed),
            Some(width) => {
                let fits = match self.table {
                    Some(_) => width >= fixed,
                    None => width == fixed,
                };
                (fits && width * tiles == words).then_some(width)
            }
        }
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
    /// A law refers to a law that does not exist.
    #[error("kernel registry: law '{law}' refers to unknown law '{name}'")]
    NoLaw {
        /// Law that refers.
        law: String,
        /// Law that is missing.
        name: String,
    },
    /// Laws without an end.
    #[error("kernel registry: laws refer to each other in a circle: '{0}'")]
    LawCycle(String),
}

/// All kernels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Kernels {
    /// Cycle laws by name, without references to each other.
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
        let mut registry: Kernels = ron::from_str(text)?;
        registry.laws = resolve(&registry.laws)?;
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

    /// A kernel by its name in the registry.
    pub fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// Tile cycles of a call by its law, from the issue of the call to that of the instruction
    /// after it. `words` are in record order; of a table nothing is read, and a missing word counts
    /// as 0. A kernel of another registry whose law is unknown costs 0.
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
    fn only_a_table_makes_records_longer() {
        let text = |table: &str| {
            format!(
                r#"(laws: {{"l": Word("n")}}, kernels: {{"k": (summary: "", source: "k.S",
                buffers: [], words: ["n", "m"], {table} meaning: Relu, law: "l")}})"#
            )
        };
        let plain = Kernels::from_ron(&text("")).unwrap().kernels["k"].clone();
        let tabled = Kernels::from_ron(&text(r#"table: Some("t"),"#)).unwrap();
        let tabled = tabled.kernels["k"].clone();
        let both = |words, tiles| [&plain, &tabled].map(|k| k.record_words(words, tiles));
        assert_eq!(both(0, 0), [Some(2); 2]);
        assert_eq!(both(1, 0), [None; 2]);
        assert_eq!(both(6, 3), [Some(2); 2]);
        assert_eq!(both(15, 3), [None, Some(5)]);
        assert_eq!(both(7, 3), [None; 2]);
        assert_eq!(both(3, 3), [None; 2]);
    }
}
