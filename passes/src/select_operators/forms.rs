//! Why one form of a model was chosen and others were not, for people: in which operators they
//! differ, which rules make the difference, and what the others take.

use super::algebra::NO_PLAN;
use super::views::is_view;
use ipu_program::graph::Graph;
use ipu_program::host::HostValues;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Forms that are told.
const MOST: usize = 3;

/// How the search of a form ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The fewest estimated cycles.
    Searched(u64),
    /// Its lower bound is beyond the last finalist.
    Beaten,
    /// A bound of the search came first.
    NotSearched,
    /// It has no plans, or does not fit.
    Refused(String),
}

/// What tells a form from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// How often it has which operator with a plan.
    operators: BTreeMap<String, usize>,
    /// Rules that made it.
    rules: BTreeMap<String, usize>,
    lower_bound: u64,
    outcome: Outcome,
}

impl Form {
    /// The form of a graph.
    pub fn new(graph: &Graph, lower_bound: u64, outcome: Outcome) -> Self {
        let host = HostValues::of(graph);
        let (mut operators, mut rules) = (BTreeMap::new(), BTreeMap::new());
        for op in &graph.ops {
            for rule in &op.rules {
                *rules.entry(rule.clone()).or_default() += 1;
            }
            if !host.contains(op.result) && !is_view(&op.kind) {
                let name = format!("nn.{} to {}", op.kind.name(), graph.ty(op.result));
                *operators.entry(name).or_default() += 1;
            }
        }
        Form {
            operators,
            rules,
            lower_bound,
            outcome,
        }
    }
}

/// A form that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Operators that it has and the chosen one has not, with how many.
    pub operators: Vec<String>,
    /// Operators of the chosen one that it has not.
    pub instead_of: Vec<String>,
    /// Rules that made more of the chosen form than of this one.
    pub without_rules: Vec<String>,
    /// Rules that made more of this form.
    pub with_rules: Vec<String>,
    /// Estimated cycles; of a form that was not searched none of its plans takes less.
    pub cycles: u64,
    /// The same, less those of the chosen form.
    pub difference: i64,
    /// Why it lost.
    pub reason: String,
}

/// The forms that lost against the first of the fewest cycles, the nearest first. Those with an
/// operator that no plan carries out are none.
pub fn lost(mut forms: Vec<Form>) -> Vec<Lost> {
    forms.retain(|f| f.lower_bound < NO_PLAN);
    let searched = |f: &Form| match f.outcome {
        Outcome::Searched(cycles) => Some(cycles),
        _ => None,
    };
    let best = (0..forms.len())
        .filter_map(|i| Some((searched(&forms[i])?, i)))
        .min();
    let Some((best_cycles, best)) = best else {
        return Vec::new();
    };
    let chosen = &forms[best];
    let mut out: Vec<Lost> = forms
        .iter()
        .enumerate()
        .filter(|&(i, _)| i != best)
        .map(|(_, f)| {
            let names = |list: Vec<(String, usize)>| list.into_iter().map(|l| l.0).collect();
            let cycles = searched(f).unwrap_or(f.lower_bound);
            Lost {
                operators: counted(more(&f.operators, &chosen.operators)),
                instead_of: counted(more(&chosen.operators, &f.operators)),
                without_rules: names(more(&chosen.rules, &f.rules)),
                with_rules: names(more(&f.rules, &chosen.rules)),
                cycles,
                difference: cycles as i64 - best_cycles as i64,
                reason: match &f.outcome {
                    Outcome::Searched(c) if *c == best_cycles => {
                        "algebra: no better, and found later".to_owned()
                    }
                    Outcome::Searched(_) => "algebra: its best plans take longer".to_owned(),
                    Outcome::Beaten => {
                        "algebra: none of its plans is better than the last finalist".to_owned()
                    }
                    Outcome::NotSearched => {
                        "not searched: a bound of the search was met".to_owned()
                    }
                    Outcome::Refused(why) => format!("no plans: {why}"),
                },
            }
        })
        .collect();
    out.sort_by_key(|l| l.difference);
    out.truncate(MOST);
    out
}

/// What the first has more of than the second.
fn more(a: &BTreeMap<String, usize>, b: &BTreeMap<String, usize>) -> Vec<(String, usize)> {
    a.iter()
        .map(|(name, &n)| (name, n.saturating_sub(b.get(name).copied().unwrap_or(0))))
        .filter(|&(_, n)| n > 0)
        .map(|(name, n)| (name.clone(), n))
        .collect()
}

fn counted(list: Vec<(String, usize)>) -> Vec<String> {
    let text = |(name, n): (String, usize)| match n {
        1 => name,
        n => format!("{n} {name}"),
    };
    list.into_iter().map(text).collect()
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |l: &[String]| match l {
            [] => "nothing".to_owned(),
            l => l.join(", "),
        };
        match (self.operators.as_slice(), self.instead_of.as_slice()) {
            ([], []) => write!(f, "other form: the same operators in another place")?,
            (has, instead) => write!(f, "other form: {} instead of {}", list(has), list(instead))?,
        }
        if !self.without_rules.is_empty() {
            write!(f, ", without {}", self.without_rules.join(", "))?;
        }
        if !self.with_rules.is_empty() {
            write!(f, ", by {}", self.with_rules.join(", "))?;
        }
        write!(
            f,
            ": {} cycles, {:+}; {}",
            self.cycles, self.difference, self.reason
        )
    }
}
