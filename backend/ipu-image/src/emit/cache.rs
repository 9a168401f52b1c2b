//! Assembled sources, kept by content.
//!
//! The key is a hash of everything that the object depends on: the source with its name, the
//! defines, and the version and fingerprint of the assembler. Objects stay in memory and, where
//! there is a folder for them, on disk: `KEY.o`, an ELF object, beside `KEY.json`, which says what
//! it was made from. A second build assembles nothing.
//!
//! Invariants: what is found is what assembling would give: an object whose bytes are not those
//! that its metadata names counts as absent. Several processes may use one folder: files appear
//! whole, the metadata last. No failure of the folder fails a compile.

use ipu_isa::asm::{AsmErrors, Assembler};
use ipu_isa::elf;
use ipu_isa::object::Object;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Changes with the layout of the folder.
const FORMAT: u32 = 1;

/// What stands beside an object.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Metadata {
    format: u32,
    source: String,
    source_sha256: String,
    defines: BTreeMap<String, i64>,
    tool_version: String,
    assembler: String,
    object_sha256: String,
}

/// How often the cache was asked, by where the object came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Assembled anew.
    pub assembled: u64,
    /// Found on disk.
    pub disk: u64,
    /// Found in memory.
    pub memory: u64,
}

/// Keeps assembled sources.
#[derive(Debug, Default)]
pub struct ObjectCache {
    folder: Option<PathBuf>,
    known: Mutex<HashMap<String, Object>>,
    assembled: AtomicU64,
    disk: AtomicU64,
    memory: AtomicU64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// The user's folder: `IPU_CACHE_DIR` (empty for none), or `ipu` in the usual place for caches.
fn user_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    if std::env::var_os("IPU_CACHE_DIR").is_some() {
        return set("IPU_CACHE_DIR").map(PathBuf::from);
    }
    let base = set("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| set("HOME").map(|h| Path::new(&h).join(".cache")));
    base.map(|b| b.join("ipu").join("objects"))
}

impl ObjectCache {
    /// A cache that also uses a folder, which is made when it is first needed.
    pub fn new(folder: Option<PathBuf>) -> Self {
        ObjectCache {
            folder,
            ..ObjectCache::default()
        }
    }

    /// The cache of this process.
    pub fn shared() -> &'static ObjectCache {
        static SHARED: OnceLock<ObjectCache> = OnceLock::new();
        SHARED.get_or_init(|| ObjectCache::new(user_folder()))
    }

    /// Where objects came from so far.
    pub fn counts(&self) -> Counts {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Counts {
            assembled: read(&self.assembled),
            disk: read(&self.disk),
            memory: read(&self.memory),
        }
    }

    /// The object of a source.
    ///
    /// # Errors
    /// The source does not assemble; errors are not kept.
    pub fn assemble(
        &self,
        name: &str,
        text: &str,
        defines: &[(&str, i64)],
    ) -> Result<Object, AsmErrors> {
        let mut metadata = Metadata {
            format: FORMAT,
            source: name.to_owned(),
            source_sha256: sha256(text.as_bytes()),
            defines: defines.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            assembler: ipu_isa::FINGERPRINT.to_owned(),
            object_sha256: String::new(),
        };
        let key = sha256(format!("{metadata:?}").as_bytes());
        let known = |object: Option<Object>| {
            let mut map = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match object {
                Some(object) => map.insert(key.clone(), object),
                None => map.get(&key).cloned(),
            }
        };
        if let Some(object) = known(None) {
            self.memory.fetch_add(1, Ordering::Relaxed);
            return Ok(object);
        }
        if let Some(object) = self.load(&key, &mut metadata) {
            self.disk.fetch_add(1, Ordering::Relaxed);
            known(Some(object.clone()));
            return Ok(object);
        }
        let mut assembler = Assembler::new();
        for (define, value) in defines {
            assembler.define(define, *value);
        }
        let mut object = assembler.assemble(name, text)?;
        self.assembled.fetch_add(1, Ordering::Relaxed);
        // The same object whether it comes from here or from disk.
        if let Ok(bytes) = elf::write_object(&object)
            && let Ok(read) = elf::read_object(name, &bytes)
        {
            object = read;
            metadata.object_sha256 = sha256(&bytes);
            if let Some(folder) = &self.folder
                && let Err(error) = store(folder, &key, &bytes, &metadata)
            {
                tracing::debug!(folder = %folder.display(), %error, "object not kept");
            }
        }
        known(Some(object.clone()));
        Ok(object)
    }

    /// The object on disk, if it is there and whole.
    fn load(&self, key: &str, wanted: &mut Metadata) -> Option<Object> {
        let folder = self.folder.as_ref()?;
        let text = std::fs::read(folder.join(format!("{key}.json"))).ok()?;
        let found: Metadata = serde_json::from_slice(&text).ok()?;
        let bytes = std::fs::read(folder.join(format!("{key}.o"))).ok()?;
        wanted.object_sha256 = sha256(&bytes);
        if found != *wanted {
            wanted.object_sha256.clear();
            return None;
        }
        elf::read_object(&wanted.source, &bytes).ok()
    }
}

/// Writes object and metadata, each as a whole.
fn store(folder: &Path, key: &str, object: &[u8], metadata: &Metadata) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let write = |name: String, bytes: &[u8]| {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(folder.join(name))?;
        Ok::<(), std::io::Error>(())
    };
    write(format!("{key}.o"), object)?;
    let mut text = serde_json::to_vec_pretty(metadata)?;
    text.push(b'\n');
    write(format!("{key}.json"), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = ".globl kernel_entry\n.section .text.kernel,\"ax\"\nkernel_entry:\n\
                          setzi $m0, N\nbr $m10\n";

    fn counts(assembled: u64, disk: u64, memory: u64) -> Counts {
        Counts {
            assembled,
            disk,
            memory,
        }
    }

    #[test]
    fn a_second_build_assembles_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let first = ObjectCache::new(Some(path.clone()));
        let a = first.assemble("k.S", SOURCE, &[("N", 5)]).unwrap();
        let again = first.assemble("k.S", SOURCE, &[("N", 5)]).unwrap();
        let other = first.assemble("k.S", SOURCE, &[("N", 6)]).unwrap();
        assert_eq!(first.counts(), counts(2, 0, 1));
        assert_eq!(a, again);
        assert_ne!(a, other);
        let second = ObjectCache::new(Some(path.clone()));
        assert_eq!(second.assemble("k.S", SOURCE, &[("N", 5)]).unwrap(), a);
        assert_eq!(second.counts(), counts(0, 1, 0));
        // Object and metadata stand side by side.
        let mut kinds: Vec<String> = std::fs::read_dir(&path)
            .unwrap()
            .map(|e| {
                let path = e.unwrap().path();
                path.extension().unwrap().to_string_lossy().into_owned()
            })
            .collect();
        kinds.sort();
        assert_eq!(kinds, ["json", "json", "o", "o"]);
    }

    #[test]
    fn damaged_files_count_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let build = || {
            let cache = ObjectCache::new(Some(path.clone()));
            let object = cache.assemble("k.S", SOURCE, &[("N", 5)]).unwrap();
            (object, cache.counts())
        };
        let (good, _) = build();
        for entry in std::fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            let whole = std::fs::read(&file).unwrap();
            for broken in [&whole[..whole.len() / 2], b"", b"{}"] {
                std::fs::write(&file, broken).unwrap();
                assert_eq!(
                    build(),
                    (good.clone(), counts(1, 0, 0)),
                    "{}",
                    file.display()
                );
                // The damage is repaired.
                assert_eq!(build().1, counts(0, 1, 0));
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_fails_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for place in [None, Some(file.join("below"))] {
            let cache = ObjectCache::new(place);
            cache.assemble("k.S", SOURCE, &[("N", 5)]).unwrap();
            cache.assemble("k.S", SOURCE, &[("N", 5)]).unwrap();
            assert_eq!(cache.counts(), counts(1, 0, 1));
        }
    }

    #[test]
    fn many_users_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let alone = ObjectCache::new(None)
            .assemble("k.S", SOURCE, &[("N", 0)])
            .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = ObjectCache::new(Some(path.clone()));
                    for n in 0..20 {
                        let object = cache.assemble("k.S", SOURCE, &[("N", n % 4)]).unwrap();
                        assert_eq!(object == alone, n % 4 == 0);
                    }
                });
            }
        });
    }

    #[test]
    fn errors_are_given_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ObjectCache::new(Some(folder.path().to_path_buf()));
        assert!(cache.assemble("k.S", SOURCE, &[]).is_ok());
        assert!(cache.assemble("k.S", "frob\n", &[]).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
