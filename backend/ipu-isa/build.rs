//! A fingerprint of the assembler, so that caches of its output notice every change of it.

use std::path::Path;
use std::{env, fs, io};

/// FNV-1a.
fn mix(hash: &mut u64, bytes: &[u8]) {
    for &b in bytes {
        *hash = (*hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    }
}

fn walk(path: &Path, hash: &mut u64) -> io::Result<()> {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(|e| e.file_name());
        for entry in entries {
            mix(hash, entry.file_name().as_encoded_bytes());
            walk(&entry.path(), hash)?;
        }
        return Ok(());
    }
    mix(hash, &fs::read(path)?);
    Ok(())
}

fn main() -> io::Result<()> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for name in ["src", "isa.ron"] {
        println!("cargo::rerun-if-changed={name}");
        walk(&Path::new(&root).join(name), &mut hash)?;
    }
    println!("cargo::rustc-env=IPU_ISA_FINGERPRINT={hash:016x}");
    Ok(())
}
