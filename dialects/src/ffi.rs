//! The C++ shim, function by function (`cpp/{shim,ipu}.cpp`).

use mlir_sys::*;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// Words of a layout, see `layoutWords` in `cpp/ipu.cpp`.
pub(crate) const LAYOUT_WORDS: usize = 19;
/// Numbers of a plan that its verifier looks at, as in cpp/hooks.h.
pub(crate) const PLAN_NUMBERS: usize = 6;

#[repr(C)]
pub(crate) struct IpuOption {
    pub name: MlirStringRef,
    pub help: MlirStringRef,
    pub text: MlirStringRef,
    pub kind: i32,
    pub number: i64,
}

#[repr(C)]
pub(crate) struct IpuPass {
    pub name: MlirStringRef,
    pub help: MlirStringRef,
    pub anchor: MlirStringRef,
    pub options: *const IpuOption,
    pub option_count: isize,
    pub definition: *const c_void,
}

unsafe extern "C" {
    pub(crate) fn ipuPassInt(pass: *const c_void, index: isize) -> i64;
    pub(crate) fn ipuPassBool(pass: *const c_void, index: isize) -> bool;
    pub(crate) fn ipuPassStr(pass: *const c_void, index: isize) -> MlirStringRef;
    pub(crate) fn ipuPassInts(
        pass: *const c_void,
        index: isize,
        data: *mut *const i64,
        length: *mut isize,
    );
    pub(crate) fn ipuRegisterPass(pass: *const IpuPass);
    pub(crate) fn ipuRegisterUpstreamPasses();
    pub(crate) fn ipuForEachPass(
        each: unsafe extern "C" fn(MlirStringRef, MlirStringRef, *mut c_void),
        data: *mut c_void,
    );
    pub(crate) fn ipuAddDialects(registry: MlirDialectRegistry);
    pub(crate) fn ipuParseModule(
        context: MlirContext,
        text: MlirStringRef,
        file: MlirStringRef,
    ) -> MlirModule;
    pub(crate) fn ipuHidePrintedOps(context: MlirContext);
    pub(crate) fn ipuEmit(
        location: MlirLocation,
        severity: c_int,
        message: MlirStringRef,
        note_count: isize,
        notes: *const MlirLocation,
        texts: *const MlirStringRef,
    );
    pub(crate) fn ipuElementsBytes(
        attribute: MlirAttribute,
        data: *mut *const c_char,
        length: *mut isize,
    ) -> bool;
    pub(crate) fn ipuResource(
        r#type: MlirType,
        name: MlirStringRef,
        data: *const c_char,
        length: isize,
    ) -> MlirAttribute;
    pub(crate) fn ipuOptMain(
        argc: c_int,
        argv: *mut *mut c_char,
        accept: unsafe extern "C" fn(MlirStringRef, MlirStringRef) -> bool,
    ) -> c_int;
    pub(crate) fn ipuLayoutGet(context: MlirContext, words: *const u32) -> MlirAttribute;
    pub(crate) fn ipuLayoutRead(attribute: MlirAttribute, words: *mut u32) -> bool;
    pub(crate) fn ipuPlanGet(
        partials: MlirType,
        numbers: *const u64,
        operand_count: isize,
        operands: *const MlirAttribute,
    ) -> MlirAttribute;
    pub(crate) fn ipuPlanRead(
        attribute: MlirAttribute,
        partials: *mut MlirType,
        numbers: *mut u64,
        operand_count: *mut isize,
    ) -> bool;
    pub(crate) fn ipuPlanOperand(plan: MlirAttribute, index: isize) -> MlirAttribute;
}

/// A borrowed string for MLIR.
pub(crate) fn text(s: &str) -> MlirStringRef {
    bytes(s.as_bytes())
}

/// Borrowed bytes for MLIR.
pub(crate) fn bytes(s: &[u8]) -> MlirStringRef {
    MlirStringRef {
        data: s.as_ptr().cast(),
        length: s.len(),
    }
}

/// The bytes behind a string of MLIR.
///
/// # Safety
/// They must live for `'a`.
pub(crate) unsafe fn as_bytes<'a>(s: MlirStringRef) -> &'a [u8] {
    if s.length == 0 {
        return &[];
    }
    // SAFETY: MLIR gives a valid pointer and length; the caller vouches for the lifetime.
    unsafe { slice::from_raw_parts(s.data.cast(), s.length) }
}

/// A copy of a string of MLIR.
///
/// # Safety
/// It must be alive now.
pub(crate) unsafe fn to_string(s: MlirStringRef) -> String {
    // SAFETY: as the caller promises.
    String::from_utf8_lossy(unsafe { as_bytes(s) }).into_owned()
}
