//! Dialect `ipu`: the containers of a compilation.

use crate::diag::{Failed, emit_error};
use crate::ir::{self, New, Tensor};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, IntegerAttribute, StringAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Location, Operation, OperationRef};

/// Verifies `ipu.<name>`.
pub(crate) fn verify(op: OperationRef<'_, '_>, name: &str) -> Result<(), String> {
    match name {
        "candidate" => {
            for what in ["estimated_cycles", "scheduled_cycles"] {
                if let Some(n) = ir::int(op, what).filter(|n| *n < 0) {
                    return Err(format!("has {n} as {what}, cycles are not negative"));
                }
            }
            Ok(())
        }
        "package" => {
            let Ok(blob) = op.attribute("blob") else {
                return Ok(());
            };
            let Some(ty) = ir::attribute_type(blob) else {
                return Ok(());
            };
            match Tensor::of(ty) {
                Some(t) if t.extents().len() == 1 && t.element().to_string() == "i8" => Ok(()),
                _ => Err(format!("has a blob of type {ty}, expected tensor<Nxi8>")),
            }
        }
        _ => Ok(()),
    }
}

/// Verifies what stands in an `ipu.candidate`.
pub(crate) fn verify_candidate(op: OperationRef<'_, '_>) -> Result<(), String> {
    match ir::body_ops(op)
        .map(ir::name)
        .find(|n| n == "ipu.candidate" || n == "builtin.module")
    {
        Some(inner) => Err(format!(
            "holds '{inner}': a candidate is one program, not a container"
        )),
        None => Ok(()),
    }
}

/// A package: what an `ipu.package` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Symbol.
    pub name: String,
    /// Name of the format.
    pub format: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Reads an `ipu.package`. What the bytes hold is not looked at.
///
/// # Errors
/// A diagnostic was emitted: the blob was elided when the text was printed.
pub fn read_package(op: OperationRef<'_, '_>) -> Result<Package, Failed> {
    let text = |name| ir::string(op, name).unwrap_or_default().to_owned();
    let blob = op.attribute("blob").ok();
    let Some(mut bytes) = blob.and_then(ir::elements_bytes) else {
        return Err(emit_error(
            op,
            "has a blob that was elided when this text was printed",
        ));
    };
    let count = blob
        .and_then(ir::attribute_type)
        .and_then(Tensor::of)
        .map_or(1, |t| t.shape().iter().product());
    if bytes.len() == 1 {
        bytes = vec![bytes[0]; count as usize];
    }
    Ok(Package {
        name: text("sym_name"),
        format: text("format"),
        bytes,
    })
}

/// Builds an `ipu.package`; the bytes go into a resource.
/// `None` when MLIR refuses; a diagnostic says so.
pub fn build_package<'c>(
    context: &'c Context,
    package: &Package,
    at: Location<'c>,
) -> Option<Operation<'c>> {
    let text = |s: &str| Some(StringAttribute::new(context, s).into());
    let i8 = IntegerType::new(context, 8).into();
    let ty = Tensor::new(&[package.bytes.len() as u64], i8, None).ty();
    let blob = ir::resource(ty, &package.name, &package.bytes);
    let attributes = [
        ("sym_name", text(&package.name)),
        ("format", text(&package.format)),
        ("blob", Some(blob)),
    ];
    New {
        attributes: &attributes,
        ..New::default()
    }
    .build("ipu.package", at, context)
    .ok()
}

/// What an `ipu.candidate` says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Symbol.
    pub name: String,
    /// Cycles that the search estimated.
    pub estimated_cycles: Option<u64>,
    /// Cycles of the schedule.
    pub scheduled_cycles: Option<u64>,
    /// Why it was chosen, a line each.
    pub reasons: Vec<String>,
}

/// Reads an `ipu.candidate` without its body.
pub fn read_candidate(op: OperationRef<'_, '_>) -> Candidate {
    let cycles = |name| ir::int(op, name).and_then(|n| u64::try_from(n).ok());
    let reasons = ir::array(op, "reasons");
    Candidate {
        name: ir::string(op, "sym_name").unwrap_or_default().to_owned(),
        estimated_cycles: cycles("estimated_cycles"),
        scheduled_cycles: cycles("scheduled_cycles"),
        reasons: reasons
            .into_iter()
            .filter_map(ir::attribute_str)
            .map(str::to_owned)
            .collect(),
    }
}

/// Builds an `ipu.candidate` around operations.
/// `None` when MLIR refuses; a diagnostic says so.
pub fn build_candidate<'c>(
    context: &'c Context,
    candidate: &Candidate,
    body: impl IntoIterator<Item = Operation<'c>>,
    at: Location<'c>,
) -> Option<Operation<'c>> {
    let text = |s: &str| StringAttribute::new(context, s).into();
    let reasons: Vec<Attribute<'c>> = candidate.reasons.iter().map(|r| text(r)).collect();
    let reasons = (!reasons.is_empty()).then(|| ArrayAttribute::new(context, &reasons).into());
    let attributes = [
        ("sym_name", Some(text(&candidate.name))),
        (
            "estimated_cycles",
            candidate.estimated_cycles.map(|n| cycles(context, n)),
        ),
        (
            "scheduled_cycles",
            candidate.scheduled_cycles.map(|n| cycles(context, n)),
        ),
        ("reasons", reasons),
    ];
    let op = New {
        attributes: &attributes,
        body: true,
        ..New::default()
    }
    .build("ipu.candidate", at, context)
    .ok()?;
    let block = ir::new_body(&op).ok()?;
    for inner in body {
        block.append_operation(inner);
    }
    Some(op)
}

/// The candidates directly in a module, in order.
pub fn candidates<'c: 'a, 'a>(module: OperationRef<'c, 'a>) -> Vec<OperationRef<'c, 'a>> {
    ir::body_ops(module)
        .filter(|op| ir::name(*op) == "ipu.candidate")
        .collect()
}

/// Notes the cycles of the schedule on an `ipu.candidate`.
pub fn set_scheduled_cycles(op: OperationRef<'_, '_>, n: u64) {
    ir::set_attribute(op, "scheduled_cycles", cycles(ir::context(op), n));
}

/// Adds a line to what an `ipu.candidate` says about itself.
pub fn add_reason(op: OperationRef<'_, '_>, reason: &str) {
    let context = ir::context(op);
    let mut reasons = read_candidate(op).reasons;
    reasons.push(reason.to_owned());
    let reasons: Vec<Attribute<'_>> = reasons
        .iter()
        .map(|r| StringAttribute::new(context, r).into())
        .collect();
    ir::set_attribute(op, "reasons", ArrayAttribute::new(context, &reasons).into());
}

/// Notes on an `ipu.candidate` that memory is too short for it.
pub fn set_infeasible(op: OperationRef<'_, '_>, why: &str) {
    let why = StringAttribute::new(ir::context(op), why).into();
    ir::set_attribute(op, "infeasible", why);
}

/// Why memory is too short for an `ipu.candidate`, `None` when nothing says so.
pub fn infeasible(op: OperationRef<'_, '_>) -> Option<String> {
    ir::string(op, "infeasible").map(str::to_owned)
}

/// Attribute of a module with the reasons for each plan, as JSON.
const EXPLANATION: &str = "ipu.explanation";

/// Leaves the reasons for each plan on a module.
pub fn set_explanation(module: OperationRef<'_, '_>, text: &str) {
    let text = StringAttribute::new(ir::context(module), text).into();
    ir::set_attribute(module, EXPLANATION, text);
}

/// What [`set_explanation`] left on a module.
pub fn explanation(module: OperationRef<'_, '_>) -> Option<String> {
    ir::string(module, EXPLANATION).map(str::to_owned)
}

/// Takes what [`set_explanation`] left away: dumps are for people.
pub fn take_explanation(module: OperationRef<'_, '_>) -> Option<String> {
    let text = explanation(module);
    ir::remove_attribute(module, EXPLANATION);
    text
}

fn cycles(context: &Context, n: u64) -> Attribute<'_> {
    IntegerAttribute::new(IntegerType::new(context, 64).into(), n as i64).into()
}
