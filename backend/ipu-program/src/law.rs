//! Cycle laws: closed formulas over the word arguments of a call.

use crate::kernels::{KernelError, WORKERS};
use crate::layout::PANEL;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The word that [`Law::Slowest`] sets.
const WORKER: &str = "worker";

/// A closed formula over the word arguments of a call, in tile cycles.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum Law {
    /// A constant.
    Cycles(u64),
    /// A word argument.
    Word(String),
    /// Another law of the registry; reading the registry puts that law in its place.
    Law(String),
    /// Sum.
    Sum(Vec<Law>),
    /// Product.
    Product(Vec<Law>),
    /// The smallest.
    Min(Vec<Law>),
    /// The largest.
    Max(Vec<Law>),
    /// Difference, 0 where negative.
    Minus(Box<Law>, Box<Law>),
    /// Quotient, rounded up.
    CeilDiv(Box<Law>, u64),
    /// Quotient, rounded down; 0 where the divisor is 0.
    Floor(Box<Law>, Box<Law>),
    /// The largest over the workers of a tile; in the term, word `worker` is the worker's number.
    Slowest(Box<Law>),
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
    /// Evaluates the law; unknown words and laws count as 0 (the registry check refuses them).
    pub fn cycles(&self, word: &dyn Fn(&str) -> u64) -> u64 {
        let each = |terms: &[Law]| -> Vec<u64> { terms.iter().map(|t| t.cycles(word)).collect() };
        match self {
            Law::Cycles(n) => *n,
            Law::Word(name) => word(name),
            Law::Law(_) => 0,
            Law::Sum(terms) => each(terms).into_iter().fold(0, u64::saturating_add),
            Law::Product(terms) => each(terms).into_iter().fold(1, u64::saturating_mul),
            Law::Min(terms) => each(terms).into_iter().min().unwrap_or(0),
            Law::Max(terms) => each(terms).into_iter().max().unwrap_or(0),
            Law::Minus(a, b) => a.cycles(word).saturating_sub(b.cycles(word)),
            Law::CeilDiv(a, n) => a.cycles(word).div_ceil((*n).max(1)),
            Law::Floor(a, b) => a.cycles(word).checked_div(b.cycles(word)).unwrap_or(0),
            Law::Slowest(term) => (0..WORKERS)
                .map(|worker| {
                    term.cycles(&|name| match name {
                        WORKER => worker.into(),
                        name => word(name),
                    })
                })
                .max()
                .unwrap_or(0),
            Law::CausalRows {
                row,
                panel,
                hidden,
                skip,
            } => causal_rows(CAUSAL_WORDS.map(word), [*row, *panel, *hidden, *skip]),
        }
    }

    /// The word arguments that it reads.
    pub(crate) fn words<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Law::Cycles(_) | Law::Law(_) => {}
            Law::Word(name) => out.push(name),
            Law::CausalRows { .. } => out.extend(CAUSAL_WORDS),
            Law::Slowest(term) => {
                let from = out.len();
                term.words(out);
                let inner = out.split_off(from);
                out.extend(inner.into_iter().filter(|w| *w != WORKER));
            }
            other => other.terms().into_iter().for_each(|t| t.words(out)),
        }
    }

    fn terms(&self) -> Vec<&Law> {
        match self {
            Law::Cycles(_) | Law::Word(_) | Law::Law(_) | Law::CausalRows { .. } => Vec::new(),
            Law::Sum(t) | Law::Product(t) | Law::Min(t) | Law::Max(t) => t.iter().collect(),
            Law::Minus(a, b) | Law::Floor(a, b) => vec![a, b],
            Law::CeilDiv(a, _) | Law::Slowest(a) => vec![a],
        }
    }

    /// The law with each of its direct terms replaced.
    fn map(&self, f: &mut dyn FnMut(&Law) -> Result<Law, KernelError>) -> Result<Law, KernelError> {
        let mut list = |terms: &[Law]| terms.iter().map(&mut *f).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Law::Cycles(_) | Law::Word(_) | Law::Law(_) | Law::CausalRows { .. } => self.clone(),
            Law::Sum(t) => Law::Sum(list(t)?),
            Law::Product(t) => Law::Product(list(t)?),
            Law::Min(t) => Law::Min(list(t)?),
            Law::Max(t) => Law::Max(list(t)?),
            Law::Minus(a, b) => Law::Minus(Box::new(f(a)?), Box::new(f(b)?)),
            Law::Floor(a, b) => Law::Floor(Box::new(f(a)?), Box::new(f(b)?)),
            Law::CeilDiv(a, n) => Law::CeilDiv(Box::new(f(a)?), *n),
            Law::Slowest(a) => Law::Slowest(Box::new(f(a)?)),
        })
    }
}

/// Replaces every reference to another law by that law.
///
/// # Errors
/// A law refers to a law that does not exist, or to itself by way of others.
pub(crate) fn resolve(laws: &BTreeMap<String, Law>) -> Result<BTreeMap<String, Law>, KernelError> {
    let mut resolver = Resolver {
        laws,
        done: BTreeMap::new(),
        open: Vec::new(),
    };
    for name in laws.keys() {
        resolver.law(name)?;
    }
    Ok(resolver.done)
}

struct Resolver<'l> {
    laws: &'l BTreeMap<String, Law>,
    done: BTreeMap<String, Law>,
    /// Laws that are being resolved, each of which refers to the next.
    open: Vec<String>,
}

impl Resolver<'_> {
    fn law(&mut self, name: &str) -> Result<Law, KernelError> {
        if let Some(law) = self.done.get(name) {
            return Ok(law.clone());
        }
        if let Some(from) = self.open.iter().position(|n| n == name) {
            let mut path = self.open.split_off(from);
            path.push(name.to_owned());
            return Err(KernelError::LawCycle(path.join("' to '")));
        }
        let law = self.laws.get(name).ok_or_else(|| KernelError::NoLaw {
            law: self.open.last().cloned().unwrap_or_default(),
            name: name.to_owned(),
        })?;
        self.open.push(name.to_owned());
        let law = self.term(law)?;
        self.open.pop();
        self.done.insert(name.to_owned(), law.clone());
        Ok(law)
    }

    fn term(&mut self, term: &Law) -> Result<Law, KernelError> {
        match term {
            Law::Law(name) => self.law(name),
            other => other.map(&mut |t| self.term(t)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Law {
        ron::from_str(text).unwrap()
    }

    #[test]
    fn laws_evaluate() {
        for (text, expected) in [
            ("Sum([Cycles(10), Product([Word(\"r\"), Cycles(24)])])", 178),
            ("CeilDiv(Word(\"r\"), 6)", 2),
            ("Floor(Word(\"r\"), Cycles(6))", 1),
            ("Floor(Word(\"r\"), Cycles(0))", 0),
            ("Minus(Cycles(3), Word(\"r\"))", 0),
            ("Minus(Word(\"r\"), Cycles(3))", 4),
            ("Min([Word(\"r\"), Cycles(6)])", 6),
            ("Max([Word(\"r\"), Cycles(6)])", 7),
            ("Max([])", 0),
            ("Slowest(Product([Word(\"worker\"), Word(\"r\")]))", 35),
            ("Slowest(Minus(Word(\"r\"), Word(\"worker\")))", 7),
            (
                "Product([Cycles(18446744073709551615), Word(\"r\")])",
                u64::MAX,
            ),
        ] {
            assert_eq!(parse(text).cycles(&|_| 7), expected, "{text}");
        }
    }

    #[test]
    fn only_the_term_of_the_slowest_knows_its_worker() {
        let words = |text: &str| {
            let law = parse(text);
            let mut words = Vec::new();
            law.words(&mut words);
            words.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let inside = r#"Slowest(Sum([Word("worker"), Word("a")]))"#;
        assert_eq!(words(inside), ["a"]);
        assert_eq!(
            words(r#"Floor(Word("worker"), Word("b"))"#),
            ["worker", "b"]
        );
    }

    fn resolved(text: &str) -> Result<BTreeMap<String, Law>, String> {
        resolve(&ron::from_str(text).unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn references_are_replaced() {
        let laws = resolved(
            r#"{"a": Sum([Law("b"), Slowest(Law("c"))]), "b": Product([Law("c"), Cycles(2)]),
            "c": Word("n")}"#,
        );
        let whole = r#"Sum([Product([Word("n"), Cycles(2)]), Slowest(Word("n"))])"#;
        assert_eq!(laws.unwrap()["a"], parse(whole));
    }

    #[test]
    fn references_to_nothing_and_in_circles_are_refused() {
        assert_eq!(
            resolved(r#"{"a": Min([Cycles(1), Law("b")])}"#).unwrap_err(),
            "kernel registry: law 'a' refers to unknown law 'b'"
        );
        assert_eq!(
            resolved(r#"{"a": Law("b"), "b": CeilDiv(Law("c"), 2), "c": Law("b")}"#).unwrap_err(),
            "kernel registry: laws refer to each other in a circle: 'b' to 'c' to 'b'"
        );
    }
}
