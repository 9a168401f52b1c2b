//! `ipu-opt`: runs passes on IR text, with every flag of `mlir-opt`, and
//! `--explain-selection[=json]`: why operators have their plans, on standard error.

use ipu_passes::registry::{Explain, set_explain_selection};
use std::process::ExitCode;

fn main() -> ExitCode {
    ipu_passes::register_all();
    // MLIR's parser of flags knows nothing of it.
    let arguments = std::env::args_os().filter(|a| {
        let how = match a.to_str() {
            Some("--explain-selection" | "--explain-selection=text") => Explain::Text,
            Some("--explain-selection=json") => Explain::Json,
            _ => return true,
        };
        set_explain_selection(Some(how));
        false
    });
    match ipu_dialects::driver::opt_main(arguments.collect::<Vec<_>>()) {
        0 => ExitCode::SUCCESS,
        status => ExitCode::from(u8::try_from(status).unwrap_or(1)),
    }
}
