//! The tests in `lit-tests/`, one trial a file. One run of LLVM's lit serves all trials that are
//! selected, so that the usual filters work and one summary counts everything.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::{env, fs, io};

type Outcomes = BTreeMap<String, (String, String)>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lit-tests");
    let mut files = Vec::new();
    if let Err(e) = discover(&root, "", &mut files) {
        eprintln!("error: cannot read {}: {e}", root.display());
        return ExitCode::FAILURE;
    }
    files.sort();
    let matches = |name: &str, pattern: &str| {
        if arguments.exact {
            name == pattern
        } else {
            name.contains(pattern)
        }
    };
    let selected: Vec<String> = files
        .iter()
        .filter(|f| arguments.filter.as_ref().is_none_or(|p| matches(f, p)))
        .filter(|f| !arguments.skip.iter().any(|p| matches(f, p)))
        .cloned()
        .collect();
    let outcomes: Arc<OnceLock<Result<Outcomes, String>>> = Arc::default();
    let selected = Arc::new((root, selected));
    let trials = files.into_iter().map(|file| {
        let (outcomes, selected) = (Arc::clone(&outcomes), Arc::clone(&selected));
        Trial::test(file.clone(), move || {
            let outcomes = outcomes.get_or_init(|| lit(&selected.0, &selected.1));
            let outcomes = outcomes.as_ref().map_err(Failed::from)?;
            match outcomes
                .get(&file)
                .map(|(code, output)| (code.as_str(), output))
            {
                Some(("PASS" | "XFAIL", _)) => Ok(()),
                Some(("UNSUPPORTED", _)) => {
                    eprintln!("{file}: a tool that it requires was not built");
                    Ok(())
                }
                Some((code, output)) => Err(format!("{code}\n{output}").into()),
                None => Err("lit did not report this test".into()),
            }
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The tests below a folder, relative to the first.
fn discover(folder: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "Inputs" {
                discover(&entry.path(), &format!("{name}/"), files)?;
            }
        } else if name.ends_with(".mlir") || name.ends_with(".test") {
            files.push(name);
        }
    }
    Ok(())
}

/// Runs lit on the files; code and output of each.
fn lit(root: &Path, files: &[String]) -> Result<Outcomes, String> {
    let output = tempfile::Builder::new()
        .prefix("lit")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .map_err(|e| format!("cannot make a folder for lit: {e}"))?;
    let report = output.path().join("report.json");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".into());
    let lit = format!("{prefix}/bin/lit");
    let tools = env::var_os("IPU_TOOLS_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            Path::new(env!("CARGO_BIN_EXE_ipu-opt"))
                .parent()
                .unwrap_or(Path::new("."))
                .into()
        });
    let run = Command::new(&lit)
        .args(["-q", "--no-progress-bar", "--output"])
        .arg(&report)
        .args(files.iter().map(|f| root.join(f)))
        .env("IPU_TOOLS_DIR", tools)
        .env("IPU_LIT_OUTPUT", output.path())
        .output()
        .map_err(|e| format!("cannot run {lit}: {e}; `make setup` installs it"))?;
    let json = fs::read(&report).map_err(|e| {
        format!(
            "lit left no report ({e}):\n{}",
            String::from_utf8_lossy(&run.stderr)
        )
    })?;
    let json: serde_json::Value =
        serde_json::from_slice(&json).map_err(|e| format!("lit's report is not JSON: {e}"))?;
    let text = |v: &serde_json::Value, key| v[key].as_str().unwrap_or_default().to_owned();
    Ok(json["tests"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|t| {
            (
                text(t, "name").replacen("ipu :: ", "", 1),
                (text(t, "code"), text(t, "output")),
            )
        })
        .collect())
}
