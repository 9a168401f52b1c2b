//! `ipu-opt`: runs passes on IR text, with every flag of `mlir-opt`, and `--egraph-dump=DIR`: the
//! saturated e-graphs of operator selection as files in a folder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The folder of a flag `--egraph-dump=DIR`.
fn dump_folder(argument: &OsString) -> Option<PathBuf> {
    let text = argument.to_str()?;
    let folder = text
        .strip_prefix("--egraph-dump=")
        .or_else(|| text.strip_prefix("-egraph-dump="))?;
    Some(folder.into())
}

fn main() -> ExitCode {
    ipu_passes::register_all();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(folder) = arguments.iter().find_map(dump_folder) {
        ipu_passes::dump_egraphs(folder);
        arguments.retain(|a| dump_folder(a).is_none());
    }
    match ipu_dialects::driver::opt_main(arguments) {
        0 => ExitCode::SUCCESS,
        status => ExitCode::from(u8::try_from(status).unwrap_or(1)),
    }
}
