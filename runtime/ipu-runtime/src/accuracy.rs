//! Top-1 accuracy of a classifier.

use crate::error::{DataError, mismatch};
use ipu_interp::host::{HostArray, shape};
use serde::Serialize;

/// How many of a batch were classified as their labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Accuracy {
    /// Rows whose largest score is that of the label.
    pub correct: usize,
    /// Rows.
    pub total: usize,
}

impl Accuracy {
    /// Share of correct rows, 0 to 1; 0 for no rows.
    pub fn fraction(&self) -> f64 {
        self.correct as f64 / self.total.max(1) as f64
    }
}

/// Compares the largest score of each row (the first of equals; NaN is never the largest) with
/// the labels.
///
/// # Errors
/// The output is not a matrix with a row for each label, or a label is not one of its columns.
pub fn top1(labels: &[i64], output: &HostArray) -> Result<Accuracy, DataError> {
    const SUBJECT: &str = "accuracy";
    let &[rows, columns] = output.shape() else {
        return Err(mismatch(
            SUBJECT,
            "shape of the output",
            "rows x classes",
            shape(output.shape()),
        ));
    };
    if labels.len() != rows as usize {
        return Err(mismatch(SUBJECT, "number of labels", rows, labels.len()));
    }
    let mut correct = 0;
    for (row, &label) in labels.iter().enumerate() {
        if !(0..i64::from(columns)).contains(&label) {
            let what = format!("label {row}");
            return Err(mismatch(
                SUBJECT,
                &what,
                format!("0 to {}", i64::from(columns) - 1),
                label,
            ));
        }
        let scores = &output.values()[row * columns as usize..][..columns as usize];
        let largest = scores
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.is_nan())
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        correct += usize::from(largest.is_some_and(|(i, _)| i as i64 == label));
    }
    Ok(Accuracy {
        correct,
        total: labels.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy;
    use ipu_program::types::{ElementType, TensorType};
    use std::path::Path;

    #[test]
    fn the_digits_logits() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp-digits");
        let labels = npy::read_labels(&dir.join("labels.npy")).unwrap();
        let accuracy = top1(&labels, &npy::read(&dir.join("logits.npy")).unwrap()).unwrap();
        assert_eq!(
            accuracy,
            Accuracy {
                correct: 196,
                total: 200
            }
        );
    }

    #[test]
    fn errors_and_ties() {
        let output = |extents: &[u32], values: &[f32]| {
            HostArray::new(TensorType::new(extents, ElementType::F32), values.to_vec()).unwrap()
        };
        let scores = output(&[3, 2], &[1.0, 1.0, f32::NAN, 0.0, f32::NAN, f32::NAN]);
        assert_eq!(top1(&[0, 1, 0], &scores).unwrap().correct, 2);
        assert_eq!(
            top1(&[0, 2, 0], &scores).unwrap_err().to_string(),
            "accuracy: label 1: expected 0 to 1, found 2"
        );
        assert_eq!(
            top1(&[0], &scores).unwrap_err().to_string(),
            "accuracy: number of labels: expected 3, found 1"
        );
        assert!(top1(&[0], &output(&[1], &[0.0])).is_err());
    }
}
