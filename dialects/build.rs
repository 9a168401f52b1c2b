//! Builds the C++ half of the dialects: mlir-tblgen on `td/`, one object a
//! dialect and one for the shim, linked statically with mlir-sys.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, error::Error, fs};

/// ODS file, stem of the generated files, and what to generate.
const DIALECTS: [(&str, &str, &[&str]); 3] = [
    ("nn", "Nn", &["Dialect", "Ops", "Attrs", "Enums"]),
    ("ipu", "Ipu", &["Dialect", "Ops", "Attrs", "Enums"]),
    ("tile", "Tile", &["Dialect", "Ops"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["td", "cpp", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".into());
    let (tblgen, config) = (
        format!("{prefix}/bin/mlir-tblgen"),
        format!("{prefix}/bin/llvm-config"),
    );
    for tool in [&tblgen, &config] {
        if !Path::new(tool).exists() {
            return Err(
                format!("{tool} is missing: run `make setup` to install LLVM and MLIR 22").into(),
            );
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for (directory, stem, parts) in DIALECTS {
        let source = format!("td/{directory}/{stem}.td");
        for part in parts {
            let generators: &[[String; 2]] = &match *part {
                "Attrs" => ["attrdef-decls", "attrdef-defs"].map(str::to_owned),
                part => {
                    let part = part.trim_end_matches('s').to_lowercase();
                    [format!("{part}-decls"), format!("{part}-defs")]
                }
            }
            .into_iter()
            .zip(["h", "cpp"])
            .map(|(generator, suffix)| {
                [
                    format!("--gen-{generator}"),
                    format!("{stem}{part}.{suffix}.inc"),
                ]
            })
            .collect::<Vec<_>>();
            for [generator, file] in generators {
                let result = Command::new(&tblgen)
                    .args([generator.as_str(), &source, "-I", "td", "-I"])
                    .arg(format!("{prefix}/include"))
                    .arg(format!("--dialect={directory}"))
                    .output()?;
                if !result.status.success() {
                    let message = String::from_utf8_lossy(&result.stderr);
                    return Err(
                        format!("mlir-tblgen {generator} {source} failed:\n{message}").into(),
                    );
                }
                write_if_changed(&out.join(file), &result.stdout)?;
            }
        }
    }
    let rtti = Command::new(&config).arg("--has-rtti").output()?.stdout;
    let mut cpp = cc::Build::new();
    cpp.cpp(true)
        .std("c++17")
        .flag("-fno-exceptions")
        .define("NDEBUG", None)
        .warnings(false);
    if !rtti.starts_with(b"YES") {
        cpp.flag("-fno-rtti");
    }
    cpp.opt_level(1)
        .debug(false)
        .include(&out)
        .include(format!("{prefix}/include"));
    cpp.files(["nn", "ipu", "tile", "shim"].map(|name| format!("cpp/{name}.cpp")));
    cpp.try_compile("ipu_dialects_cpp")?;
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        Ok(())
    } else {
        fs::write(path, bytes)
    }
}
