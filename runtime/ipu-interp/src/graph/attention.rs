//! Scaled dot-product attention.

use super::axes::softmax_in_place;
use super::{array, count};
use crate::host::HostArray;

/// See `OpKind::Attention`; only the result is rounded.
pub(super) fn attention(
    [q, k, v]: [&HostArray; 3],
    heads: u32,
    scale: f32,
    causal: bool,
) -> Result<HostArray, String> {
    let ([batch @ .., queries, q_columns], [.., keys, _], [.., v_columns]) =
        (q.shape(), k.shape(), v.shape())
    else {
        return Err("needs matrices".into());
    };
    let mut extents = batch.to_vec();
    extents.extend([*queries, *v_columns]);
    let [queries, keys, q_columns, v_columns, heads] =
        [*queries, *keys, *q_columns, *v_columns, heads].map(|n| n as usize);
    let (depth, width) = (q_columns / heads, v_columns / heads);
    let mut out = vec![0f32; count(&extents)];
    for (b, head) in (0..count(batch)).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        for i in 0..queries {
            // Query i sees the keys up to i + keys - queries.
            let seen = if causal {
                (i + 1 + keys).saturating_sub(queries)
            } else {
                keys
            };
            let query = &q.values()[(b * queries + i) * q_columns + head * depth..][..depth];
            let mut scores: Vec<f64> = (0..seen)
                .map(|j| {
                    let key = &k.values()[(b * keys + j) * q_columns + head * depth..][..depth];
                    let product = query.iter().zip(key);
                    f64::from(scale)
                        * product
                            .map(|(&x, &y)| f64::from(x) * f64::from(y))
                            .sum::<f64>()
                })
                .collect();
            softmax_in_place(&mut scores);
            let mut sums = vec![0f64; width];
            for (j, score) in scores.into_iter().enumerate() {
                let value = &v.values()[(b * keys + j) * v_columns + head * width..][..width];
                for (sum, &x) in sums.iter_mut().zip(value) {
                    *sum += score * f64::from(x);
                }
            }
            let at = (b * queries + i) * v_columns + head * width;
            for (to, sum) in out[at..at + width].iter_mut().zip(sums) {
                *to = sum as f32;
            }
        }
    }
    array(&extents, out)
}
