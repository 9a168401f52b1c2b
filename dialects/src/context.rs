//! Contexts, guarded parsing and running pipelines.

use crate::diag::{Diagnostic, Span, capture};
use crate::{ffi, guard, pass};
use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::pass::PassManager;
use mlir_sys::{MlirStringRef, mlirParsePassPipeline};
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Stack of the thread that parses, verifies and prints; MLIR recurses on nesting.
pub const STACK_BYTES: usize = 256 << 20;

/// A context with our dialects, `func` and `builtin`, and upstream's general passes registered.
/// Unregistered dialects are refused; diagnostics do not repeat the operation.
pub fn context() -> Context {
    pass::register_upstream();
    let registry = DialectRegistry::new();
    // SAFETY: both are valid.
    unsafe { ffi::ipuAddDialects(registry.to_raw()) };
    let context = Context::new_with_registry(&registry, true);
    // SAFETY: as above.
    unsafe { ffi::ipuHidePrintedOps(context.to_raw()) };
    context.load_all_available_dialects();
    context
}

/// Runs `work` on a thread with a stack of [`STACK_BYTES`], and on this one if it is such a
/// thread already. MLIR objects cannot leave their thread: wrap the whole compilation.
pub fn with_big_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread_local!(static BIG: Cell<bool> = const { Cell::new(false) });
    if BIG.get() {
        return work();
    }
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = thread::scope(|scope| {
        let run = || {
            BIG.set(true);
            take().map(|work| work())
        };
        match thread::Builder::new()
            .name("mlir".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, run)
        {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Memory is short: the guard still bounds the depth.
            Err(_) => take().map(|work| work()),
        }
    });
    result.unwrap_or_else(|| unreachable!("the work is taken once"))
}

/// Checks, parses and verifies IR text. Call it inside [`with_big_stack`]. `file` is the name in
/// locations.
///
/// # Errors
/// Located diagnostics: what [`guard::check_text`] refuses, syntax, or all that the verifiers of
/// the first operation in error say.
pub fn parse_guarded<'c>(
    context: &'c Context,
    text: impl AsRef<[u8]>,
    file: &str,
) -> Result<Module<'c>, Vec<Diagnostic>> {
    let text = text.as_ref();
    guard::check_text(text, file, false).map_err(|d| vec![d])?;
    let (module, mut diagnostics) = capture(context, || {
        // SAFETY: the texts live during the call; a null module becomes `None`.
        unsafe {
            let raw = ffi::ipuParseModule(context.to_raw(), ffi::bytes(text), ffi::text(file));
            Module::from_option_raw(raw)
        }
    });
    module.ok_or_else(|| {
        if diagnostics.is_empty() {
            let span = Some(Span {
                file: file.to_owned(),
                line: 1,
                column: 1,
            });
            diagnostics.push(Diagnostic::error(span, "MLIR could not parse the text"));
        }
        diagnostics
    })
}

/// Runs a pipeline, `builtin.module(canonicalize,..)`, verifying after each pass. Warnings and
/// remarks of a run that succeeds are returned.
///
/// # Errors
/// An unknown name in the pipeline text, or the located diagnostics of a pass or the verifier; the
/// module is then as that pass left it.
pub fn run_pipeline(
    module: &mut Module<'_>,
    pipeline: &str,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    unsafe extern "C" fn append(text: MlirStringRef, data: *mut c_void) {
        // SAFETY: `data` is the string below; the text lives during the call.
        unsafe { (*data.cast::<String>()).push_str(&ffi::to_string(text)) }
    }
    crate::pipeline::check(pipeline).map_err(|e| vec![Diagnostic::error(None, e)])?;
    let context = module.context();
    // SAFETY: `context` outlives the reference.
    let context = unsafe { context.to_ref() };
    let manager = PassManager::new(context);
    manager.enable_verifier(true);
    let mut message = String::new();
    // SAFETY: manager, text and message live during the call.
    let parsed = unsafe {
        mlirParsePassPipeline(
            manager.as_operation_pass_manager().to_raw(),
            ffi::text(pipeline),
            Some(append),
            std::ptr::from_mut(&mut message).cast(),
        )
    };
    if parsed.value == 0 {
        return Err(vec![Diagnostic::error(None, message.trim_end())]);
    }
    let (result, diagnostics) = capture(context, || manager.run(module));
    match result {
        Ok(()) => Ok(diagnostics),
        Err(_) => Err(diagnostics),
    }
}
