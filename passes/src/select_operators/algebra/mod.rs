//! The algebra: equalities between operators, in an e-graph.
//!
//! Owns: the language of terms and what is known of them ([`term`]), the rules and the loader of
//! their table ([`rules`], `rules.ron`, [`conditions`]), saturation phase by phase ([`saturate`],
//! [`merge`]), and the way back: the saturated graph as plain tables ([`frozen`]), its programs in
//! the order of a lower bound ([`components`], [`variants`], [`signature`]) and their graphs with
//! locations and provenance ([`export`]); dumps of it ([`dump`]).
//!
//! Invariants: terms carry no layouts and no plans; a class has one type, or the compilation stops
//! with the name of the rule; counts bound everything, never a clock; the same graph and options
//! give the same e-graph, variants and dumps. Nothing is evaluated: what the host knows stays a
//! recipe, an operator of host values.
//!
//! Must not know: MLIR, machines, how plans are found.

mod components;
mod conditions;
mod dump;
mod export;
mod frozen;
mod merge;
pub mod rules;
mod saturate;
mod signature;
mod term;
mod variants;

#[cfg(test)]
mod tests;

pub use dump::DumpError;
pub use rules::{Numerics, RuleError, Rules};
pub use signature::signature;
pub use variants::{NO_PLAN, Variants};

use frozen::Frozen;
use ipu_program::graph::{Graph, OpKind};
use ipu_program::types::TensorType;

/// What bounds the algebra, and what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much freedom rules have with floating point.
    pub numerics: Numerics,
    /// Most nodes of the e-graph.
    pub max_nodes: usize,
    /// Most iterations of a phase A.
    pub iterations_a: usize,
    /// Most iterations of phase B.
    pub iterations_b: usize,
    /// Most matches of a rule in an iteration; a rule with more is not used for this graph.
    pub max_matches: usize,
    /// Most states that the search for variants looks at, of all components together.
    pub max_pops: usize,
    /// Most variants.
    pub max_variants: usize,
    /// Most combinations of components that are looked at, those of equal signature too.
    pub max_sums: usize,
    /// Whether linear operators of one operand are merged.
    pub groups: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            numerics: Numerics::default(),
            max_nodes: 20_000,
            iterations_a: 12,
            iterations_b: 6,
            max_matches: 2_000,
            max_pops: 100_000,
            max_variants: 64,
            max_sums: 4_096,
            groups: true,
        }
    }
}

/// An operand, as far as its plan depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operand {
    /// Its type.
    pub ty: TensorType,
    /// Whether the host knows it before the program runs.
    pub host: bool,
}

/// A lower bound of the cycles of any plan of an operator with these operands and a (first) result
/// of this type; `None` when there is no plan.
pub type LowerBound<'a> = dyn Fn(&OpKind, &[Operand], &TensorType) -> Option<u64> + Sync + 'a;

/// Why there is no algebra of a graph: errors of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlgebraError {
    /// A rule made something equal that is not.
    #[error("operator algebra: rule '{rule}' is unsound: {left} is not {right}")]
    Unsound {
        /// The rule.
        rule: String,
        /// One side.
        left: String,
        /// The other, or what is wrong with the first.
        right: String,
    },
    /// The table of rules cannot be read.
    #[error("operator algebra: {0}")]
    Rules(#[from] RuleError),
    /// The graph is not in order.
    #[error("operator algebra: {0}")]
    Graph(String),
}

/// What saturation did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// Nodes of the e-graph at the end, attributes included.
    pub nodes: usize,
    /// Classes of the e-graph at the end, attributes included.
    pub classes: usize,
    /// Iterations of all phases.
    pub iterations: usize,
    /// Why it stopped: `saturated` or a limit.
    pub stop: String,
    /// Rules that changed something, with how often, in the order of the table.
    pub rules: Vec<(String, u64)>,
    /// Rules that had too many matches and were not used.
    pub caps: Vec<String>,
}

/// The saturated e-graph of a graph: a whole function or a segment of one.
pub struct Algebra {
    frozen: Frozen,
    report: Report,
    options: Options,
}

/// One of the equal programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The program; its operators know from where they come and by which rules.
    pub graph: Graph,
    /// Cycles that none of its plans goes below; more than [`NO_PLAN`] with an operator without a
    /// plan.
    pub lower_bound: u64,
    /// What it is up to the writing of views.
    pub signature: u64,
}

impl Algebra {
    /// Builds the e-graph and applies all rules.
    ///
    /// # Errors
    /// The graph is malformed, or the compiler has a wrong rule.
    pub fn saturate(graph: &Graph, options: &Options) -> Result<Algebra, AlgebraError> {
        Algebra::with_rules(graph, options, Rules::builtin()?)
    }

    /// As [`Algebra::saturate`], with another table.
    ///
    /// # Errors
    /// The graph is malformed, or a rule is wrong.
    pub fn with_rules(
        graph: &Graph,
        options: &Options,
        rules: &Rules,
    ) -> Result<Algebra, AlgebraError> {
        let saturated = saturate::saturate(graph, options, rules)?;
        let frozen = frozen::freeze(&saturated).ok_or_else(|| {
            AlgebraError::Graph("a term of the e-graph has no meaning".to_owned())
        })?;
        Ok(Algebra {
            frozen,
            report: saturated.report,
            options: *options,
        })
    }

    /// The programs, in the order of their lower bounds, each signature once; as many as are asked
    /// for, up to the limits of the options.
    pub fn variants<'a>(&'a self, bound: &LowerBound<'_>) -> Variants<'a> {
        Variants::new(&self.frozen, bound, &self.options)
    }

    /// What saturation did.
    pub fn report(&self) -> &Report {
        &self.report
    }
}
