//! `#ipu.layout` and `#ipu.plan`.

use crate::ffi::LAYOUT_WORDS;

/// Checks the words of a layout, and that it covers a shape.
pub(crate) fn check(words: &[u32; LAYOUT_WORDS], shape: Option<&[i64]>) -> Result<(), String> {
    let [
        row_parts,
        row_block,
        row_stride,
        column_parts,
        column_block,
        column_stride,
        copies,
        copy_stride,
        first,
        ..,
    ] = words.map(u64::from);
    for (what, n) in [
        ("row parts", row_parts),
        ("row block", row_block),
        ("column parts", column_parts),
        ("column block", column_block),
        ("copies", copies),
    ] {
        if n == 0 {
            return Err(format!("layout has 0 as {what}, at least 1 is needed"));
        }
    }
    let end = [
        (row_parts, row_stride),
        (column_parts, column_stride),
        (copies, copy_stride),
    ]
    .iter()
    .try_fold(first + 1, |end, (n, stride)| {
        (n - 1).checked_mul(*stride)?.checked_add(end)
    });
    if end.is_none_or(|end| end > u64::from(u32::MAX)) {
        return Err("layout has tile numbers beyond 32 bits".into());
    }
    let Some(shape) = shape else { return Ok(()) };
    let (columns, rows) = match shape {
        [] => (1, Some(1)),
        [rest @ .., columns] => (
            *columns,
            rest.iter().try_fold(1i64, |n, d| n.checked_mul(*d)),
        ),
    };
    let Some(rows) = rows else {
        return Err("layout of a tensor with too many rows".into());
    };
    for (what, parts, block, extent) in [
        ("rows", row_parts, row_block, rows),
        ("columns", column_parts, column_block, columns),
    ] {
        // Extents that are dynamic or zero are refused by the operations.
        if extent > 0 && parts * block < extent as u64 {
            return Err(format!(
                "layout covers {parts} x {block} {what}, the tensor has {extent}"
            ));
        }
    }
    Ok(())
}
