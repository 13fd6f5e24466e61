//! Reuse of the component of an unchanged plugin.
//!
//! componentize-py produces different bytes in each build: the memory of Python after the import has its random hash seed,
//! and times and inode numbers of files. Environment variables of the build, such as `PYTHONHASHSEED`, do not reach that
//! Python. So an unchanged plugin keeps its component, with which its grant stays valid.

use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use sha2::{Digest, Sha256};

use super::super::BUILD_FOLDER;

/// Maximum number of files and folders of a plugin whose component is reused.
const MAX_ENTRIES: usize = 10_000;

/// Maximum size of such a plugin in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Entries of the folder of a plugin that are not sources: builds empty the first one, git tracks no file in the second,
/// and the third has only calls of the finished tools.
const IGNORED: [&str; 3] = [BUILD_FOLDER, ".git", "cases.yml"];

/// Returns a hash of what a component is made from: the files in the folder of the plugin, and `inputs`, such as
/// the arguments of the compiler. Returns `None` for a plugin that is too large, that has links, or that cannot be read.
pub fn build_key<'a>(root: &Path, inputs: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    inputs.into_iter().for_each(|input| add(input.as_bytes()));
    let mut rest = MAX_BYTES;
    for file in source_files(root)? {
        let content = files::read(&file, LinkPolicy::Refuse, rest).ok()?;
        rest -= content.len() as u64;
        add(file.strip_prefix(root).ok()?.as_os_str().as_encoded_bytes());
        add(&content);
    }
    Some(format!("{:x}", hash.finalize()))
}

/// Returns the sha256 of a component in hex.
pub fn sha256_hex(component: &[u8]) -> String {
    format!("{:x}", Sha256::digest(component))
}

/// Returns the files of the plugin in a fixed order.
fn source_files(root: &Path) -> Option<Vec<PathBuf>> {
    let (mut found, mut folders, mut count) = (Vec::new(), vec![root.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()? {
            let entry = entry.ok()?;
            count += 1;
            if count > MAX_ENTRIES {
                return None;
            }
            let is_ignored = || IGNORED.iter().any(|ignored| entry.file_name() == *ignored);
            if folder == root && is_ignored() {
                continue;
            }
            let kind = entry.file_type().ok()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            } else {
                return None;
            }
        }
    }
    found.sort();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_build_key_changes_with_any_source_and_input() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let key = |input: &str| build_key(dir.path(), [input]);
        write("tool.py", "a");
        write("vendor/words.py", "b");
        let first = key("x").unwrap();
        assert_ne!(key("y").unwrap(), first);
        for ignored in [".mimir-build/tool.wasm", ".git/index", "cases.yml"] {
            write(ignored, "new");
            assert_eq!(key("x").unwrap(), first, "{ignored}");
        }
        for source in ["__pycache__/a.pyc", "data/cases.yml", "vendor/.git/x"] {
            let before = key("x").unwrap();
            write(source, "new");
            assert_ne!(key("x").unwrap(), before, "{source}");
        }
        let first = key("x").unwrap();
        write("vendor/words.py", "c");
        let second = key("x").unwrap();
        assert_ne!(second, first);
        write("data.txt", "");
        assert_ne!(key("x").unwrap(), second);
    }

    #[cfg(unix)]
    #[test]
    fn python_plugin_with_links_has_no_build_key() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("data")).unwrap();
        assert_eq!(build_key(dir.path(), []), None);
    }
}
