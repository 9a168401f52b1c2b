//! Passes written in Rust, in MLIR's own registry: `--pass-pipeline`, `--help`, IR printing,
//! timing and crash reproducers know them like upstream's.

use crate::diag::{self, Failed, Severity};
use crate::{ffi, ir};
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_sys::MlirOperation;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

/// An option of a pass: name, one line of help, default.
#[derive(Clone, Copy, Debug)]
pub enum Opt {
    /// An integer.
    Int(&'static str, &'static str, i64),
    /// A switch.
    Bool(&'static str, &'static str, bool),
    /// A text.
    Str(&'static str, &'static str, &'static str),
    /// A list of integers, empty by default.
    Ints(&'static str, &'static str),
}

impl Opt {
    /// Its name in pipeline text and in the help of `ipu-opt`.
    pub fn name(&self) -> &'static str {
        match self {
            Opt::Int(n, ..) | Opt::Bool(n, ..) | Opt::Str(n, ..) | Opt::Ints(n, ..) => n,
        }
    }
}

/// The function of a pass. It runs on several anchor operations at once and must leave
/// everything outside its own alone.
pub type Run = for<'c, 'a> fn(OperationRef<'c, 'a>, &PassCx<'_>) -> Result<(), Failed>;

/// A pass.
#[derive(Debug)]
pub struct PassDef {
    /// Name in pipeline text, `ipu-tile`.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The operation it runs on, `ipu.candidate`; any when `None`.
    pub anchor: Option<&'static str>,
    /// Its options.
    pub options: &'static [Opt],
    /// What it does.
    pub run: Run,
}

/// What a running pass can ask.
pub struct PassCx<'p> {
    def: &'p PassDef,
    pass: *const c_void,
}

impl PassCx<'_> {
    fn index(&self, name: &str, fits: fn(&Opt) -> bool) -> isize {
        let found = self
            .def
            .options
            .iter()
            .position(|o| o.name() == name && fits(o));
        found.unwrap_or_else(|| unreachable!("{} has no such option {name}", self.def.name))
            as isize
    }

    /// The value of an [`Opt::Int`], a 64-bit integer. The pass must have declared it: any other name is a bug
    /// and panics.
    pub fn int(&self, name: &str) -> i64 {
        let i = self.index(name, |o| matches!(o, Opt::Int(..)));
        // SAFETY: the pass is alive while it runs, and option `i` has this kind; same below.
        unsafe { ffi::ipuPassInt(self.pass, i) }
    }

    /// The value of an [`Opt::Bool`], a switch. The pass must have declared it: any other name is a bug
    /// and panics.
    pub fn bool(&self, name: &str) -> bool {
        let i = self.index(name, |o| matches!(o, Opt::Bool(..)));
        // SAFETY: see `int`.
        unsafe { ffi::ipuPassBool(self.pass, i) }
    }

    /// The value of an [`Opt::Str`], a text. The pass must have declared it: any other name is a bug
    /// and panics.
    pub fn str(&self, name: &str) -> String {
        let i = self.index(name, |o| matches!(o, Opt::Str(..)));
        // SAFETY: see `int`.
        unsafe { ffi::to_string(ffi::ipuPassStr(self.pass, i)) }
    }

    /// The value of an [`Opt::Ints`], a list of 64-bit integers. The pass must have declared it: any other name is a bug
    /// and panics.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        let i = self.index(name, |o| matches!(o, Opt::Ints(..)));
        let (mut data, mut length) = (std::ptr::null(), 0);
        // SAFETY: see `int`; the list lives in the pass, and is copied.
        unsafe {
            ffi::ipuPassInts(self.pass, i, &mut data, &mut length);
            if length == 0 {
                vec![]
            } else {
                std::slice::from_raw_parts(data, length as usize).to_vec()
            }
        }
    }

    /// Emits an error at an operation: `Err(cx.error(op, ..))`.
    pub fn error(&self, op: OperationRef<'_, '_>, message: impl AsRef<str>) -> Failed {
        diag::emit_error(op, message)
    }

    /// Emits a remark at an operation.
    pub fn remark(&self, op: OperationRef<'_, '_>, message: impl AsRef<str>) {
        diag::emit(op.location(), Severity::Remark, message.as_ref(), &[]);
    }
}

static REGISTERED: Mutex<Vec<&'static PassDef>> = Mutex::new(Vec::new());

/// Puts a pass into MLIR's registry; the second time it does nothing.
pub fn register(def: &'static PassDef) {
    let mut list = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if list.iter().any(|d| d.name == def.name) {
        return;
    }
    list.push(def);
    let text = ffi::text;
    let options: Vec<_> = def
        .options
        .iter()
        .map(|o| {
            let (name, help, kind, number, default) = match *o {
                Opt::Int(n, h, d) => (n, h, 0, d, ""),
                Opt::Bool(n, h, d) => (n, h, 1, i64::from(d), ""),
                Opt::Str(n, h, d) => (n, h, 2, 0, d),
                Opt::Ints(n, h) => (n, h, 3, 0, ""),
            };
            ffi::IpuOption {
                name: text(name),
                help: text(help),
                text: text(default),
                kind,
                number,
            }
        })
        .collect();
    let options = options.leak();
    let pass = Box::leak(Box::new(ffi::IpuPass {
        name: text(def.name),
        help: text(def.help),
        anchor: text(def.anchor.unwrap_or_default()),
        options: options.as_ptr(),
        option_count: options.len() as isize,
        definition: std::ptr::from_ref(def).cast(),
    }));
    // SAFETY: `pass` and all it points to live for ever.
    unsafe { ffi::ipuRegisterPass(pass) }
}

/// Puts upstream's general passes (canonicalize, cse, inline, ..) into the registry, once.
pub fn register_upstream() {
    static ONCE: Once = Once::new();
    // SAFETY: registers in MLIR's global registry, once.
    ONCE.call_once(|| unsafe { ffi::ipuRegisterUpstreamPasses() });
}

/// The pass of ours of that name.
pub fn find(name: &str) -> Option<&'static PassDef> {
    let list = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    list.iter().copied().find(|d| d.name == name)
}

/// Name and help of every registered pass and pipeline, ours and upstream's, by name.
pub fn list() -> Vec<(String, String)> {
    unsafe extern "C" fn each(
        name: mlir_sys::MlirStringRef,
        help: mlir_sys::MlirStringRef,
        data: *mut c_void,
    ) {
        // SAFETY: `data` is the vector below; the strings live during the call.
        unsafe {
            let list: &mut Vec<(String, String)> = &mut *data.cast();
            list.push((ffi::to_string(name), ffi::to_string(help)));
        }
    }
    // The command line registry that the shim reads is global.
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut list: Vec<(String, String)> = Vec::new();
    // SAFETY: `each` and `list` fit together and outlive the call.
    unsafe { ffi::ipuForEachPass(each, std::ptr::from_mut(&mut list).cast()) };
    list.sort();
    list
}

/// Called by the shim's pass.
#[unsafe(no_mangle)]
unsafe extern "C" fn ipuRustRunPass(
    definition: *const c_void,
    op: MlirOperation,
    pass: *const c_void,
) -> bool {
    // SAFETY: `definition` is what `register` gave, the others live while the pass runs.
    let (def, op) = unsafe { (&*definition.cast::<PassDef>(), OperationRef::from_raw(op)) };
    let cx = PassCx { def, pass };
    match catch_unwind(AssertUnwindSafe(|| (def.run)(op, &cx))) {
        Ok(result) => result.is_ok(),
        Err(panic) => {
            let what = panic_text(&*panic);
            let name = ir::name(op);
            diag::error_at(
                op.location(),
                format!("internal error in pass '{}' on '{name}': {what}", def.name),
            );
            false
        }
    }
}

/// The message of a caught panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(s), _) => s,
        (_, Some(s)) => s,
        _ => "panic without a message",
    }
}
