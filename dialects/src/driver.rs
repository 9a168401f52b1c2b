//! The driver of `ipu-opt`: upstream's `mlir-opt` with our dialects and passes, guarded input,
//! and names suggested for mistyped passes.

use crate::{context, explain, ffi, guard, pass, pipeline};
use mlir_sys::MlirStringRef;
use std::ffi::{CString, c_char};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;

/// Runs `ipu-opt` with these arguments, the program's name first; returns the exit status:
/// 0 done, 1 a diagnostic was an error, 2 the command line is wrong.
pub fn opt_main(args: impl IntoIterator<Item = std::ffi::OsString>) -> i32 {
    pass::register_upstream();
    let mut args: Vec<Vec<u8>> = args.into_iter().map(OsStringExt::into_vec).collect();
    let text = |a: &Vec<u8>| String::from_utf8_lossy(a).into_owned();
    for i in (1..args.len()).rev() {
        match explain::ask(&text(&args[i])) {
            Ok(false) => {}
            Ok(true) => drop(args.remove(i)),
            Err(message) => {
                eprintln!("error: {message}");
                return 2;
            }
        }
    }
    let mut texts: Vec<String> = args.iter().map(text).collect();
    if explain::wanted(explain::Report::VerifyExchange).is_some() {
        let pipeline = pipeline::with_candidate_pass(
            &flag(&texts, "pass-pipeline").unwrap_or_default(),
            VERIFY_EXCHANGE,
        );
        let Some(pipeline) = pipeline else {
            eprintln!(
                "error: --verify-exchange needs a --pass-pipeline of builtin.module, or none"
            );
            return 2;
        };
        // MLIR takes the flag once.
        remove_flag(&mut args, "pass-pipeline");
        args.push(format!("--pass-pipeline={pipeline}").into_bytes());
        texts = args.iter().map(text).collect();
    }
    if flag(&texts, "list-passes").is_some() {
        return list_passes();
    }
    if let Some(Err(message)) = flag(&texts, "pass-pipeline").map(|text| pipeline::check(&text)) {
        eprintln!("error: {message}");
        return 1;
    }
    if let Some(message) = texts
        .iter()
        .skip(1)
        .find_map(|a| pipeline::check_flag(a).err())
    {
        eprintln!("error: {message}");
        return 1;
    }
    for (name, value) in defaults(&texts) {
        if flag(&texts, name).is_none() {
            args.push(format!("--{name}={value}").into_bytes());
        }
    }
    let Ok(args) = args
        .into_iter()
        .map(CString::new)
        .collect::<Result<Vec<_>, _>>()
    else {
        eprintln!("error: an argument contains a zero byte");
        return 2;
    };
    SPLIT.set(flag(&texts, "split-input-file").is_some()).ok();
    let status = context::with_big_stack(move || {
        let mut argv: Vec<*mut c_char> = args.iter().map(|a| a.as_ptr().cast_mut()).collect();
        let argc = argv.len() as i32;
        argv.push(std::ptr::null_mut());
        // SAFETY: `argv` is a C argument vector that lives during the call.
        unsafe { ffi::ipuOptMain(argc, argv.as_mut_ptr(), accept) }
    });
    eprint!("{}", explain::take());
    status
}

/// The pass that `--verify-exchange` asks for.
const VERIFY_EXCHANGE: &str = "ipu-verify-exchange";

/// Removes `--name=value` and `--name value`.
fn remove_flag(args: &mut Vec<Vec<u8>>, name: &str) {
    let mut i = 1;
    while i < args.len() {
        let text = String::from_utf8_lossy(&args[i]).into_owned();
        let rest = text.strip_prefix("--").or_else(|| text.strip_prefix('-'));
        match rest.and_then(|r| r.strip_prefix(name)) {
            Some("") => drop(args.drain(i..args.len().min(i + 2))),
            Some(value) if value.starts_with('=') => drop(args.remove(i)),
            _ => i += 1,
        }
    }
}

/// Whether `--split-input-file` was given; the callback of the shim has no argument for it.
static SPLIT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();

unsafe extern "C" fn accept(file: MlirStringRef, text: MlirStringRef) -> bool {
    // SAFETY: both live during the call.
    let (file, text) = unsafe { (ffi::to_string(file), ffi::as_bytes(text)) };
    let verdict = guard::check_text(text, &file, SPLIT.get().copied().unwrap_or_default());
    if let Err(diagnostic) = &verdict {
        eprintln!("{diagnostic}");
    }
    verdict.is_ok()
}

/// The value of `--name=value`, `--name value` (not for switches) or `--name`; the last wins.
fn flag(args: &[String], name: &str) -> Option<String> {
    let is_switch = [
        "list-passes",
        "split-input-file",
        "verify-roundtrip",
        "emit-bytecode",
    ]
    .contains(&name);
    let value = |(i, arg): (usize, &String)| {
        let rest = arg.strip_prefix('-')?;
        let rest = rest.strip_prefix('-').unwrap_or(rest).strip_prefix(name)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value.to_owned()),
            None if !rest.is_empty() => None,
            None if is_switch => Some(String::new()),
            None => Some(args.get(i + 1).cloned().unwrap_or_default()),
        }
    };
    args.iter()
        .enumerate()
        .skip(1)
        .filter_map(value)
        .next_back()
}

/// Flags that are added unless given. Large constants are elided in what people read, not in
/// files, bytecode or round trips, which must stay whole.
fn defaults(args: &[String]) -> Vec<(&'static str, &'static str)> {
    let whole = flag(args, "o").is_some_and(|o| o != "-")
        || ["verify-roundtrip", "emit-bytecode"]
            .iter()
            .any(|f| flag(args, f).is_some());
    let elide = [
        ("mlir-elide-elementsattrs-if-larger", "16"),
        ("mlir-elide-resource-strings-if-larger", "64"),
    ];
    let mut list = vec![("mlir-print-op-on-diagnostic", "false")];
    list.extend(elide.iter().filter(|_| !whole));
    list
}

fn list_passes() -> i32 {
    let passes = pass::list();
    let width = passes
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    let (ours, upstream): (Vec<_>, Vec<_>) = passes
        .iter()
        .partition(|(name, _)| pass::find(name).is_some());
    let mut out = std::io::stdout().lock();
    for (name, help) in ours.into_iter().chain(upstream) {
        if writeln!(out, "{name:width$}  {help}").is_err() {
            return 1;
        }
    }
    0
}
