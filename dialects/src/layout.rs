//! `#ipu.layout` and `#ipu.plan` as [`Layout`] and [`Plan`].

use crate::ffi::{self, LAYOUT_WORDS, PLAN_NUMBERS};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, PANEL, Split};
use ipu_program::plan::{Family, Plan, Residency};
use ipu_program::types::ElementType;
use melior::Context;
use melior::ir::attribute::AttributeLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Type, TypeLike};
use std::ptr::null_mut;

// Positions are the numbers of td/ipu/Ipu.td.
const ORDERS: [ElementOrder; 4] = [
    ElementOrder::Rows,
    ElementOrder::Panels,
    ElementOrder::Weights8,
    ElementOrder::Weights16,
];
const MEMORIES: [MemoryClass; 3] = [
    MemoryClass::Any,
    MemoryClass::Standard,
    MemoryClass::Interleaved,
];
const FAMILIES: [Family; 6] = Family::ALL;
const RESIDENCIES: [Residency; 2] = Residency::ALL;

fn position<T: PartialEq>(all: &[T], value: &T) -> u32 {
    all.iter().position(|v| v == value).unwrap_or_default() as u32
}

/// The unit of a division of rows where the text says nothing.
fn row_unit(order: ElementOrder) -> u32 {
    match order {
        ElementOrder::Rows | ElementOrder::Panels => 1,
        ElementOrder::Weights8 | ElementOrder::Weights16 => PANEL,
    }
}

/// The unit as the attribute holds it: 0 for what the text leaves out.
fn written_unit(split: &Split, default: u32) -> u32 {
    let implied = if split.parts == 1 { 1 } else { default };
    if split.unit == implied { 0 } else { split.unit }
}

/// A layout as attribute `#ipu.layout`. It must satisfy the attribute's verifier.
pub fn attribute<'c>(context: &'c Context, layout: &Layout) -> Attribute<'c> {
    let Layout {
        rows,
        columns,
        copies,
        copy_stride,
        first_tile,
        order,
        memory,
    } = *layout;
    let (order, memory) = (position(&ORDERS, &order), position(&MEMORIES, &memory));
    let words: [u32; LAYOUT_WORDS] = [
        rows.parts,
        rows.block,
        rows.stride,
        written_unit(&rows, row_unit(layout.order)),
        rows.period,
        rows.group,
        rows.group_stride,
        columns.parts,
        columns.block,
        columns.stride,
        written_unit(&columns, PANEL),
        columns.period,
        columns.group,
        columns.group_stride,
        copies,
        copy_stride,
        first_tile,
        order,
        memory,
    ];
    // SAFETY: the shim reads this many words.
    unsafe { Attribute::from_raw(ffi::ipuLayoutGet(context.to_raw(), words.as_ptr())) }
}

/// The layout in an attribute; `None` when it is another attribute.
pub fn read(attribute: Attribute<'_>) -> Option<Layout> {
    let mut words = [0; LAYOUT_WORDS];
    // SAFETY: the shim writes this many words, for a layout.
    if !unsafe { ffi::ipuLayoutRead(attribute.to_raw(), words.as_mut_ptr()) } {
        return None;
    }
    let order = *ORDERS.get(words[17] as usize)?;
    let split = |i: usize, unit| Split {
        parts: words[i],
        block: words[i + 1],
        stride: words[i + 2],
        unit: match (words[i + 3], words[i]) {
            (0, 1) => 1,
            (0, _) => unit,
            (given, _) => given,
        },
        period: words[i + 4],
        group: words[i + 5],
        group_stride: words[i + 6],
    };
    Some(Layout {
        rows: split(0, row_unit(order)),
        columns: split(7, PANEL),
        copies: words[14],
        copy_stride: words[15],
        first_tile: words[16],
        order,
        memory: *MEMORIES.get(words[18] as usize)?,
    })
}

/// An element type of ours as one of MLIR.
pub fn element_type(context: &Context, element: ElementType) -> Type<'_> {
    match element {
        ElementType::F16 => Type::float16(context),
        ElementType::F32 => Type::float32(context),
        ElementType::I32 => IntegerType::new(context, 32).into(),
    }
}

/// An element type of MLIR as one of ours; `None` when it is not supported.
pub fn read_element_type(ty: Type<'_>) -> Option<ElementType> {
    // SAFETY: tests of a valid type.
    unsafe {
        if mlir_sys::mlirTypeIsAF16(ty.to_raw()) {
            Some(ElementType::F16)
        } else if mlir_sys::mlirTypeIsAF32(ty.to_raw()) {
            Some(ElementType::F32)
        } else if mlir_sys::mlirTypeIsAInteger(ty.to_raw())
            && mlir_sys::mlirIntegerTypeIsSignless(ty.to_raw())
            && mlir_sys::mlirIntegerTypeGetWidth(ty.to_raw()) == 32
        {
            Some(ElementType::I32)
        } else {
            None
        }
    }
}

/// A plan as attribute `#ipu.plan`.
pub fn plan_attribute<'c>(context: &'c Context, plan: &Plan) -> Attribute<'c> {
    let numbers: [u64; 9] = [
        position(&FAMILIES, &plan.family).into(),
        plan.grid_rows.into(),
        plan.grid_columns.into(),
        plan.grid_k.into(),
        plan.steps.into(),
        position(&RESIDENCIES, &plan.weights).into(),
        plan.compute_cycles,
        plan.exchange_cycles,
        plan.candidates.into(),
    ];
    let operands: Vec<_> = plan
        .operands
        .iter()
        .map(|l| attribute(context, l).to_raw())
        .collect();
    let partials = element_type(context, plan.partials);
    // SAFETY: the shim reads nine numbers and the layouts, which are `#ipu.layout`.
    unsafe {
        Attribute::from_raw(ffi::ipuPlanGet(
            partials.to_raw(),
            numbers.as_ptr(),
            operands.len() as isize,
            operands.as_ptr(),
        ))
    }
}

/// The plan in an attribute; `None` when it is another attribute.
pub fn read_plan(attribute: Attribute<'_>) -> Option<Plan> {
    let mut partials = mlir_sys::MlirType { ptr: null_mut() };
    let (mut numbers, mut count) = ([0u64; 9], 0);
    // SAFETY: the shim fills these for a plan, and has that many operands.
    let (partials, operands) = unsafe {
        let raw = attribute.to_raw();
        if !ffi::ipuPlanRead(raw, &mut partials, numbers.as_mut_ptr(), &mut count) {
            return None;
        }
        let operand = |i| read(Attribute::from_raw(ffi::ipuPlanOperand(raw, i)));
        (
            Type::from_raw(partials),
            (0..count).map(operand).collect::<Option<Vec<_>>>()?,
        )
    };
    let [
        family,
        grid_rows,
        grid_columns,
        grid_k,
        steps,
        weights,
        compute_cycles,
        exchange_cycles,
        candidates,
    ] = numbers;
    Some(Plan {
        family: *FAMILIES.get(family as usize)?,
        grid_rows: grid_rows as u32,
        grid_columns: grid_columns as u32,
        grid_k: grid_k as u32,
        steps: steps as u32,
        weights: *RESIDENCIES.get(weights as usize)?,
        partials: read_element_type(partials).filter(|e| e.is_float())?,
        operands,
        compute_cycles,
        exchange_cycles,
        candidates: candidates as u32,
    })
}

/// Checks the numbers of a plan: family, parts of rows, columns and contraction, steps, residency of
/// weights.
pub(crate) fn check_plan(numbers: &[u32; PLAN_NUMBERS]) -> Result<(), String> {
    let [family, rows, columns, k, steps, weights] = *numbers;
    for (what, n) in [
        ("parts of rows", rows),
        ("parts of columns", columns),
        ("parts of the contraction", k),
        ("steps", steps),
    ] {
        if n == 0 {
            return Err(format!("plan has 0 as {what}, at least 1 is needed"));
        }
    }
    let distributed = RESIDENCIES.get(weights as usize) == Some(&Residency::Distributed);
    if steps > 1 && !distributed {
        return Err(format!(
            "plan has {steps} steps with resident weights; steps bring 'weights distributed'"
        ));
    }
    match FAMILIES.get(family as usize) {
        Some(Family::Gemm) => Ok(()),
        Some(other) if distributed => Err(format!(
            "plan of family '{}' has distributed weights; only 'gemm' has any",
            other.name()
        )),
        _ => Ok(()),
    }
}

/// Parts of all copies of one tensor: a bound on what a short text may make.
const MAX_PARTS: u64 = 1 << 20;

/// Checks the words of a layout, and that it covers a shape.
pub(crate) fn check(words: &[u32; LAYOUT_WORDS], shape: Option<&[i64]>) -> Result<(), String> {
    let [
        row_parts,
        row_block,
        row_stride,
        _,
        row_period,
        row_group,
        row_group_stride,
        column_parts,
        column_block,
        column_stride,
        _,
        column_period,
        column_group,
        column_group_stride,
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
    let reach = |parts: u64, stride, group, apart| match group {
        0 => [(parts, stride), (1, 0)],
        group => [(group.min(parts), stride), (parts.div_ceil(group), apart)],
    };
    let rows_reach = reach(row_parts, row_stride, row_group, row_group_stride);
    let columns_reach = reach(
        column_parts,
        column_stride,
        column_group,
        column_group_stride,
    );
    let end = rows_reach
        .iter()
        .chain(&columns_reach)
        .chain(&[(copies, copy_stride)])
        .try_fold(first + 1, |end, (n, stride)| {
            (n - 1).checked_mul(*stride)?.checked_add(end)
        });
    if end.is_none_or(|end| end > u64::from(u32::MAX)) {
        return Err("layout has tile numbers beyond 32 bits".into());
    }
    let parts = [row_parts, column_parts, copies]
        .iter()
        .try_fold(1u64, |n, p| n.checked_mul(*p));
    if parts.is_none_or(|n| n > MAX_PARTS) {
        return Err(format!(
            "layout has {row_parts} x {column_parts} parts in {copies} copies, the limit is {MAX_PARTS}"
        ));
    }
    let padded = |n: u64| u128::from(n.next_multiple_of(16));
    if padded(row_block) * padded(column_block) * 4 > u32::MAX.into() {
        return Err(format!(
            "layout has shards of {row_block} x {column_block}, beyond 32 bits"
        ));
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
    for (what, parts, block, period, extent) in [
        ("rows", row_parts, row_block, row_period, rows),
        (
            "columns",
            column_parts,
            column_block,
            column_period,
            columns,
        ),
    ] {
        if period > 0
            && extent > 0
            && !((extent as u64).is_multiple_of(period)
                && parts.is_multiple_of(extent as u64 / period))
        {
            return Err(format!(
                "layout has {parts} parts in periods of {period} {what}, which must divide the {extent} of the tensor equally"
            ));
        }
        // Extents that are dynamic or zero are refused by the operations.
        if extent > 0 && parts * block < extent as u64 {
            return Err(format!(
                "layout covers {parts} x {block} {what}, the tensor has {extent}"
            ));
        }
    }
    Ok(())
}
