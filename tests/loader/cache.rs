//! The cache of compiled code: used if it is complete and written by mimir, and never trusted otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_kit::{Guest, builtins};
use mimir_testkit::{BundledComponent, Testkit, json};
use mimir_wasm::CompileEvent;
use parking_lot::Mutex;

use crate::guests;

/// A cache folder, and the names of compiled components.
struct CacheFixture {
    folder: tempfile::TempDir,
    compiled: Arc<Mutex<Vec<String>>>,
}

impl CacheFixture {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            compiled: Arc::default(),
        }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// A new host with this cache, as in another process.
    fn kit(&self, guests: &[Guest]) -> Testkit {
        let kit = self.shipping(vec![]);
        for guest in guests {
            kit.add(guest.path).unwrap();
        }
        kit
    }

    /// A new host with this cache, and with components as if they were part of the binary.
    fn shipping(&self, bundled: Vec<BundledComponent>) -> Testkit {
        let compiled = Arc::clone(&self.compiled);
        let workspace = tempfile::tempdir().unwrap();
        let kit = Testkit::at(workspace, bundled, |mut options| {
            options.cache_dir = Some(self.cache());
            options.on_compile = Some(Arc::new(move |event| {
                if let CompileEvent::Finished { name, .. } = event {
                    compiled.lock().push(name);
                }
            }));
            options
        });
        kit.unwrap()
    }

    /// Number of compilations since the last call.
    fn compiled(&self) -> usize {
        self.names().len()
    }

    /// Names of components compiled since the last call.
    fn names(&self) -> Vec<String> {
        std::mem::take(&mut self.compiled.lock())
    }

    /// The cached files.
    fn entries(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(self.cache().join("compiled"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        found
    }

    fn adds_up(&self, why: &str) {
        let sum = self
            .kit(&[guests::ADDER])
            .call("add", json!({"a": 40, "b": 2}));
        let sum = sum
            .result()
            .unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_eq!(sum.structured, Some(json!({"result": 42})), "{why}");
    }
}

#[test]
fn compile_cache_serves_the_second_host() {
    let fixture = CacheFixture::new();
    fixture.adds_up("first");
    assert_eq!(fixture.compiled(), 1);
    fixture.adds_up("second");
    assert_eq!(fixture.compiled(), 0);
}

#[test]
fn compile_happens_for_called_tools_and_not_for_listing() {
    let fixture = CacheFixture::new();
    let kit = fixture.kit(&[guests::ADDER, guests::GROWN_TABLE, guests::ECHO]);
    // A toolset must be queried once for its tools.
    assert_eq!(fixture.compiled(), 1);
    assert_eq!(kit.tools().len(), 3);
    assert!(kit.call("add", json!({"a": 1, "b": 1})).is_ok());
    assert_eq!(fixture.compiled(), 1);
    let kit = fixture.kit(&[guests::ADDER, guests::GROWN_TABLE, guests::ECHO]);
    assert_eq!(
        (kit.tools().len(), fixture.compiled()),
        (3, 0),
        "what was described is known"
    );
}

#[test]
fn compile_is_limited_to_the_called_builtin() {
    let fixture = CacheFixture::new();
    let kit = fixture.shipping(builtins());
    assert!(kit.quarantined().is_empty(), "{:?}", kit.quarantined());
    assert_eq!(
        fixture.names(),
        [""; 0],
        "what they are is shipped with them"
    );
    let outcome = kit.call("file_info", json!({"path": "nothing.txt"}));
    assert!(outcome.is_ok(), "{}", outcome.text());
    assert_eq!(fixture.names(), ["built-in/files"]);
}

#[test]
fn compile_cache_replaces_a_corrupt_entry() {
    let fixture = CacheFixture::new();
    fixture.adds_up("first");
    let entries = fixture.entries();
    assert_eq!(entries.len(), 1);
    let good = fs::read(&entries[0]).unwrap();
    fixture.compiled();
    for at in (0..good.len()).step_by(good.len() / 60) {
        let mut bad = good.clone();
        bad[at] ^= 0x01;
        fs::write(&entries[0], &bad).unwrap();
        fixture.adds_up("flipped");
        assert_eq!(fixture.compiled(), 1, "byte {at}");
        assert_eq!(
            fs::read(&entries[0]).unwrap().len(),
            good.len(),
            "it is whole again"
        );
    }
    for length in [0, 1, 39, 40, 41, good.len() / 2, good.len() - 1] {
        fs::write(&entries[0], &good[..length]).unwrap();
        fixture.adds_up("cut");
        assert_eq!(fixture.compiled(), 1, "cut at {length}");
    }
}

#[test]
fn compile_cache_rejects_an_entry_of_another_component() {
    let fixture = CacheFixture::new();
    fixture.adds_up("first");
    let own = fixture.entries().remove(0);
    let kit = fixture.kit(&[guests::GROWN_TABLE]);
    assert!(kit.call("grown_table", json!({})).is_ok());
    let other = fixture
        .entries()
        .into_iter()
        .find(|path| *path != own)
        .unwrap();
    fixture.compiled();
    fs::copy(&other, &own).unwrap();
    fixture.adds_up("foreign");
    assert_eq!(fixture.compiled(), 1);
}

#[test]
#[cfg(unix)]
fn compile_cache_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = CacheFixture::new();
    fixture.adds_up("first");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.cache()), 0o700);
    assert_eq!(mode(&fixture.cache().join("compiled")), 0o700);
    assert_eq!(mode(&fixture.entries()[0]) & 0o077, 0);

    fixture.compiled();
    fs::set_permissions(fixture.cache(), fs::Permissions::from_mode(0o777)).unwrap();
    fixture.adds_up("open to all");
    assert_eq!(
        fixture.compiled(),
        1,
        "what others could have written is not used"
    );
}

#[test]
fn compile_cache_that_is_not_writable_is_skipped() {
    let fixture = CacheFixture::new();
    fs::write(fixture.cache(), "a file where the folder should be").unwrap();
    fixture.adds_up("no folder");
    assert_eq!(fixture.compiled(), 1);
}
