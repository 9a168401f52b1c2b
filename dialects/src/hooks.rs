//! What C++ asks Rust: verification and canonicalisation, by operation name.

use crate::diag::{emit_error, error_at};
use crate::ffi::{self, LAYOUT_WORDS, PLAN_NUMBERS};
use crate::pass::panic_text;
use crate::{ipu, ir, layout, nn, tile};
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_sys::{MlirOperation, MlirRewriterBase, MlirStringCallback};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a check of an operation; its message or its panic becomes a diagnostic.
fn checked(
    op: MlirOperation,
    check: impl FnOnce(OperationRef<'_, '_>) -> Result<(), String>,
) -> bool {
    // SAFETY: MLIR passes a valid operation.
    let op = unsafe { OperationRef::from_raw(op) };
    match catch_unwind(AssertUnwindSafe(|| check(op))) {
        Ok(Ok(())) => true,
        Ok(Err(message)) => {
            emit_error(op, message);
            false
        }
        Err(panic) => {
            error_at(
                op.location(),
                format!("internal error in a verifier: {}", panic_text(&*panic)),
            );
            false
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ipuRustVerify(op: MlirOperation) -> bool {
    checked(op, |op| match ir::name(op).split_once('.') {
        Some(("nn", name)) => nn::verify(op, name),
        Some(("ipu", name)) => ipu::verify(op, name),
        Some(("tile", name)) => tile::verify(op, name),
        _ => Ok(()),
    })
}

#[unsafe(no_mangle)]
extern "C" fn ipuRustVerifyRegions(op: MlirOperation) -> bool {
    let mut reported = false;
    let fine = checked(op, |op| match ir::name(op).as_str() {
        "nn.repeat" => nn::verify_repeat(op),
        "ipu.candidate" => ipu::verify_candidate(op),
        "tile.program" => {
            // Reports everything itself.
            reported = !tile::verify_program(op);
            Ok(())
        }
        _ => Ok(()),
    });
    fine && !reported
}

#[unsafe(no_mangle)]
extern "C" fn ipuRustCanonicalize(op: MlirOperation, rewriter: MlirRewriterBase) -> bool {
    // SAFETY: MLIR passes a valid operation.
    let op = unsafe { OperationRef::from_raw(op) };
    catch_unwind(AssertUnwindSafe(|| nn::canonicalize(op, rewriter))).unwrap_or(false)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ipuRustVerifyLayout(
    words: *const u32,
    shape: *const i64,
    rank: isize,
    complain: MlirStringCallback,
    data: *mut c_void,
) -> bool {
    // SAFETY: the shim passes this many words and extents.
    let (words, shape) = unsafe {
        let words = *words.cast::<[u32; LAYOUT_WORDS]>();
        (
            words,
            (rank > 0).then(|| std::slice::from_raw_parts(shape, rank as usize)),
        )
    };
    let shape = if rank == 0 { Some(&[][..]) } else { shape };
    let verdict = catch_unwind(|| layout::check(&words, shape))
        .unwrap_or_else(|panic| Err(format!("internal error: {}", panic_text(&*panic))));
    // SAFETY: the shim passes its own callback with its data.
    unsafe { tell(verdict, complain, data) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ipuRustVerifyPlan(
    numbers: *const u32,
    complain: MlirStringCallback,
    data: *mut c_void,
) -> bool {
    // SAFETY: the shim passes this many numbers.
    let numbers = unsafe { *numbers.cast::<[u32; PLAN_NUMBERS]>() };
    let verdict = catch_unwind(|| layout::check_plan(&numbers))
        .unwrap_or_else(|panic| Err(format!("internal error: {}", panic_text(&*panic))));
    // SAFETY: the shim passes its own callback with its data.
    unsafe { tell(verdict, complain, data) }
}

/// Whether a verdict is good; a bad one goes to the callback.
///
/// # Safety
/// `data` is what the callback expects.
unsafe fn tell(
    verdict: Result<(), String>,
    complain: MlirStringCallback,
    data: *mut c_void,
) -> bool {
    match (verdict, complain) {
        (Ok(()), _) => return true,
        // SAFETY: the text lives during the call, and `data` is the callback's own.
        (Err(message), Some(complain)) => unsafe { complain(ffi::text(&message), data) },
        _ => {}
    }
    false
}
