//! Demands on the plan of an operator: attribute `ipu.plan_hint`, or option `hints` of the pass.

use crate::select_operators::plans::stream::Streams;
use ipu_program::plan::{Plan, Residency};
use ipu_program::types::ElementType;
use std::fmt;

/// What a plan must be; what is absent may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// Parts of the result's rows, of its columns, and of the contraction.
    pub grid: Option<[u32; 3]>,
    /// Element type of partial sums.
    pub partials: Option<ElementType>,
    /// Parts of the contraction that follow each other.
    pub steps: Option<u32>,
    /// Where weights are.
    pub weights: Option<Residency>,
}

/// A hint that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{part}' is no demand on a plan; expected 'grid=ROWSxCOLUMNS', 'grid=ROWSxCOLUMNSxK', 'partials=f16', 'partials=f32', 'steps=N', 'weights=distributed' or 'weights=resident', separated by commas"
)]
pub struct PinError {
    /// What was found.
    pub part: String,
}

impl Pin {
    /// Reads `grid=8x1x4,partials=f16`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Pin, PinError> {
        let mut pin = Pin::default();
        for part in text.split([',', ' ']).filter(|p| !p.is_empty()) {
            let error = || PinError {
                part: part.to_owned(),
            };
            match part.split_once('=') {
                Some(("grid", grid)) => {
                    let numbers: Result<Vec<u32>, _> = grid.split('x').map(str::parse).collect();
                    pin.grid = Some(match numbers.as_deref() {
                        Ok(&[r, c]) if r > 0 && c > 0 => [r, c, 1],
                        Ok(&[r, c, k]) if r > 0 && c > 0 && k > 0 => [r, c, k],
                        _ => return Err(error()),
                    });
                }
                Some(("partials", "f16")) => pin.partials = Some(ElementType::F16),
                Some(("partials", "f32")) => pin.partials = Some(ElementType::F32),
                Some(("steps", n)) => match n.parse() {
                    Ok(n) if n > 0 => pin.steps = Some(n),
                    _ => return Err(error()),
                },
                Some(("weights", name)) => {
                    pin.weights = Some(Residency::from_name(name).ok_or_else(error)?);
                }
                _ => return Err(error()),
            }
        }
        Ok(pin)
    }

    /// Whether a plan is what is demanded.
    pub fn allows(&self, plan: &Plan) -> bool {
        let grid = [plan.grid_rows, plan.grid_columns, plan.grid_k];
        self.grid.is_none_or(|g| g == grid)
            && self.partials.is_none_or(|p| p == plan.partials)
            && self.steps.is_none_or(|s| s == plan.steps)
            && self.weights.is_none_or(|w| w == plan.weights)
    }

    /// The plans with distributed operands that must be enumerated for this demand, where `usual`
    /// are for none.
    pub fn streams(&self, usual: Streams) -> Streams {
        match (self.steps, self.weights) {
            (_, Some(Residency::Resident)) => Streams::None,
            (Some(n), Some(Residency::Distributed)) => Streams::Steps(n),
            (Some(n), None) if n > 1 => Streams::Steps(n),
            (None, Some(Residency::Distributed)) => Streams::Fitting,
            _ => usual,
        }
    }

    /// What both demand, `None` when they contradict each other.
    pub fn and(self, other: Pin) -> Option<Pin> {
        let differ = |a: bool, b: bool| a && b;
        if differ(self.grid.is_some(), other.grid.is_some()) && self.grid != other.grid
            || differ(self.partials.is_some(), other.partials.is_some())
                && self.partials != other.partials
            || differ(self.steps.is_some(), other.steps.is_some()) && self.steps != other.steps
            || differ(self.weights.is_some(), other.weights.is_some())
                && self.weights != other.weights
        {
            return None;
        }
        Some(Pin {
            grid: self.grid.or(other.grid),
            partials: self.partials.or(other.partials),
            steps: self.steps.or(other.steps),
            weights: self.weights.or(other.weights),
        })
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some([r, c, k]) = self.grid {
            parts.push(format!("grid={r}x{c}x{k}"));
        }
        if let Some(p) = self.partials {
            parts.push(format!("partials={p}"));
        }
        if let Some(n) = self.steps {
            parts.push(format!("steps={n}"));
        }
        if let Some(w) = self.weights {
            parts.push(format!("weights={}", w.name()));
        }
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read() {
        let pin = Pin::parse("grid=8x1x4,partials=f16").unwrap();
        assert_eq!(pin.grid, Some([8, 1, 4]));
        assert_eq!(pin.partials, Some(ElementType::F16));
        assert_eq!(pin.to_string(), "grid=8x1x4,partials=f16");
        assert_eq!(Pin::parse("grid=8x1").unwrap().grid, Some([8, 1, 1]));
        let pin = Pin::parse("steps=4,weights=distributed").unwrap();
        assert_eq!(pin.to_string(), "steps=4,weights=distributed");
        for text in [
            "steps=0",
            "weights=shifted",
            "grid=8",
            "grid=0x1",
            "grid=axb",
            "partials=bf16",
            "tiles=3",
        ] {
            assert!(Pin::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn contradictions_are_found() {
        let pin = |t| Pin::parse(t).unwrap();
        assert_eq!(pin("grid=2x2").and(pin("grid=2x1")), None);
        let both = pin("grid=2x2").and(pin("partials=f32")).unwrap();
        assert_eq!(both, pin("grid=2x2x1,partials=f32"));
    }
}
