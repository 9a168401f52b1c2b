//! States, what it took to get to them, and what of that is worth keeping.

use super::Limits;
use super::price::LayoutId;
use std::collections::BTreeSet;

/// What the operators to come can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// Stored values that are still read, with their layouts and ages.
    pub stored: Vec<(u32, LayoutId, Age)>,
    /// Layouts to which values have been brought that are still read.
    pub copies: Vec<(u32, LayoutId, Age)>,
    /// Bytes of both on a tile.
    pub bytes: u64,
    /// Phases so far, up to [`OLD`].
    pub phases: Age,
}

/// How many phases have been opened since a value was there. What is older than 0 can cross in the
/// last phase, for `ipu-phase-exchanges` merges exchanges that do not depend on each other.
pub type Age = u8;

/// Ages from which on values are not told apart.
pub const OLD: Age = 3;

/// What it took to come to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// Estimated cycles.
    pub cycles: u64,
    /// Bytes on a tile of what is there from the beginning to the end: weights, records and rows.
    pub persistent: u64,
    /// Most bytes on a tile of everything else that lives at one time.
    pub peak: u64,
    /// Of the plans of heavy operators.
    pub form: u64,
    /// Of the persistent bytes those of records and rows.
    pub code: u64,
    /// Its last step in the nodes of the search.
    pub node: u32,
}

/// A state with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// The state.
    pub state: State,
    /// Its labels, fewest cycles first.
    pub labels: Vec<Label>,
}

impl State {
    /// Opens a phase: everything is older by one.
    pub fn open(&mut self) {
        let older = |age: &mut Age| *age = OLD.min(*age + 1);
        self.stored.iter_mut().for_each(|v| older(&mut v.2));
        self.copies.iter_mut().for_each(|v| older(&mut v.2));
        older(&mut self.phases);
    }
}

/// Leaves the labels of a state that can be of use: one goes when another of the same form beats it
/// in everything, or as many of different forms as there shall be finalists. Says whether a bound
/// cut any.
pub fn reduce(labels: &mut Vec<Label>, limits: &Limits) -> bool {
    labels.sort_unstable();
    let mut kept: Vec<Label> = Vec::new();
    for &label in labels.iter() {
        let better = kept
            .iter()
            .filter(|k| k.persistent <= label.persistent && k.peak <= label.peak);
        let forms: BTreeSet<u64> = better.map(|k| k.form).collect();
        if !forms.contains(&label.form) && forms.len() < limits.finalists {
            kept.push(label);
        }
    }
    let cut = kept.len() > limits.labels;
    if cut {
        // The fastest half, and of the rest those that need the least memory.
        let mut rest = kept.split_off(limits.labels / 2);
        rest.sort_by_key(|l| (l.persistent + l.peak, *l));
        rest.truncate(limits.labels - limits.labels / 2);
        kept.extend(rest);
        kept.sort_unstable();
    }
    *labels = kept;
    cut
}
