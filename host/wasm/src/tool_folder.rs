//! Contents of a tools folder, and the cached index of the folder.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs::{DirEntry, Metadata};
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use mimir_core::ToolErrorCode;
use serde::{Deserialize, Serialize};

use crate::cache::{CacheEntryKind, ComponentCache};
use crate::componentize::ADAPT_VERSION;
use crate::describe::{DescriptionResult, FORMAT_VERSION};
use crate::digest::Sha256Digest;

/// Metadata that identifies a version of a file. Listing treats equal stamps as equal content; before a component runs,
/// its content is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolFileStamp {
    size: u64,
    modified: u128,
    changed: i128,
    inode: u64,
}

impl ToolFileStamp {
    fn from_metadata(meta: &Metadata) -> Self {
        let modified = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        #[cfg(unix)]
        let (changed, inode) = {
            use std::os::unix::fs::MetadataExt;
            (
                i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec()),
                meta.ino(),
            )
        };
        #[cfg(not(unix))]
        let (changed, inode) = (0, 0);
        Self {
            size: meta.len(),
            modified: modified.map_or(0, |time| time.as_nanos()),
            changed,
            inode,
        }
    }
}

/// The contents of a tools folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderScan {
    /// The components by name.
    pub(crate) files: BTreeMap<String, ToolFileStamp>,
    /// The scripts by name, which are watched like the components but read elsewhere.
    pub(crate) scripts: BTreeMap<String, ToolFileStamp>,
    /// The names that are not Unicode, in display form, sorted.
    pub(crate) non_unicode: Vec<String>,
    /// The links that cannot be followed, by name, each with the error code and the reason.
    pub(crate) bad_links: BTreeMap<String, (ToolErrorCode, String)>,
}

/// Scans a folder for components. A missing folder is empty.
pub(crate) fn scan_folder(folder: &Path) -> io::Result<FolderScan> {
    Ok(list_names(folder)?.scan())
}

/// Scans a folder and reads its index. A large folder is scanned in parallel, since both steps take about as long.
pub(crate) fn scan_known(
    cache: &ComponentCache,
    folder: &Path,
) -> io::Result<(FolderScan, FolderIndex)> {
    let names = list_names(folder)?;
    let index = || FolderIndex::read(cache, folder);
    if names.entries.len() < MIN_FILES_PER_THREAD {
        return Ok((names.scan(), index()));
    }
    std::thread::scope(|scope| {
        let index = scope.spawn(index);
        Ok((names.scan(), join_thread(index)))
    })
}

/// The names in a folder that may be components or scripts.
#[derive(Default)]
struct FolderNames {
    entries: Vec<(String, DirEntry)>,
    non_unicode: Vec<String>,
}

fn list_names(folder: &Path) -> io::Result<FolderNames> {
    let mut names = FolderNames::default();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let is_unicode = name.is_ok();
        let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
        if !(stem(&name).is_some() || is_script(&name)) || name.starts_with('.') {
            continue;
        }
        if is_unicode {
            names.entries.push((name, entry));
        } else {
            names.non_unicode.push(name);
        }
    }
    let components: HashSet<String> = names
        .entries
        .iter()
        .filter_map(|(name, _)| stem(name).map(str::to_owned))
        .collect();
    // A policy file is no script: `mimir tools trust NAME --policy FILE` reads it.
    names.entries.retain(|(name, _)| {
        policy_of(name).is_none_or(|component| !components.contains(component))
    });
    Ok(names)
}

/// Returns the name of a component file without the extension `.wasm` or `.wat` in any case, or `None` for another
/// extension.
pub(crate) fn stem(name: &str) -> Option<&str> {
    let (stem, _) = name.rsplit_once('.')?;
    has_extension(name, &["wasm", "wat"]).then_some(stem)
}

/// Returns true if the name has one of these extensions, in any case.
fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    extensions
        .iter()
        .any(|extension| ending.eq_ignore_ascii_case(extension))
}

/// Returns true if a file of this name is a script.
fn is_script(name: &str) -> bool {
    has_extension(name, &["yml", "yaml"])
}

/// Returns the name of the component whose policy file for wassette this would be: `fetch` for `fetch.policy.yaml`.
fn policy_of(name: &str) -> Option<&str> {
    name.strip_suffix(".policy.yaml")
}

/// Result of looking up a file by name.
enum FileLookup {
    File(ToolFileStamp),
    BadLink(ToolErrorCode, String),
    Gone,
}

impl FileLookup {
    /// Returns the result for a link that could not be followed.
    fn bad_link(error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => {
                let reason = "the link is broken: point it to a component, or remove it";
                return Self::BadLink(ToolErrorCode::FileNotFound, reason.to_owned());
            }
            io::ErrorKind::PermissionDenied => ToolErrorCode::PermissionDenied,
            _ => ToolErrorCode::Unavailable,
        };
        Self::BadLink(code, format!("the link cannot be followed: {error}"))
    }
}

impl FolderNames {
    /// Reads the metadata of each file.
    fn scan(self) -> FolderScan {
        let Self {
            entries,
            mut non_unicode,
        } = self;
        non_unicode.sort();
        let stamps = map_in_parallel(&entries, |(_, entry)| {
            // Links are followed, because users link to their build output. The entry's own metadata is tried first:
            // it costs half as much as a lookup by path.
            match entry.metadata() {
                Ok(meta) if meta.is_symlink() => match std::fs::metadata(entry.path()) {
                    Ok(meta) => FileLookup::File(ToolFileStamp::from_metadata(&meta)),
                    Err(error) => FileLookup::bad_link(&error),
                },
                Ok(meta) => FileLookup::File(ToolFileStamp::from_metadata(&meta)),
                // The file was removed in the meantime.
                Err(_) => FileLookup::Gone,
            }
        });
        let mut scan = FolderScan {
            non_unicode,
            ..FolderScan::default()
        };
        for ((name, _), lookup) in entries.into_iter().zip(stamps) {
            match lookup {
                FileLookup::File(stamp) if is_script(&name) => {
                    scan.scripts.insert(name, stamp);
                }
                FileLookup::File(stamp) => {
                    scan.files.insert(name, stamp);
                }
                FileLookup::BadLink(code, reason) => {
                    scan.bad_links.insert(name, (code, reason));
                }
                FileLookup::Gone => {}
            }
        }
        scan
    }
}

/// Minimum number of files per thread: with fewer, another thread costs more time than it saves.
const MIN_FILES_PER_THREAD: usize = 200;

/// Maximum number of threads: more would contend for the file system.
const MAX_THREADS: usize = 4;

/// Applies a function to each item, on several threads if there are many, and returns the results in order.
pub(crate) fn map_in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let map_chunk = |chunk: &[T]| chunk.iter().map(&work).collect::<Vec<R>>();
    if items.len() < 2 * MIN_FILES_PER_THREAD {
        return map_chunk(items);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let count = cores
        .min(MAX_THREADS)
        .min(items.len() / MIN_FILES_PER_THREAD);
    let (own, others) = items.split_at(items.len().div_ceil(count));
    let map_chunk = &map_chunk;
    std::thread::scope(|scope| {
        let chunks = others.chunks(own.len());
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(|| map_chunk(chunk)))
            .collect();
        let mut results = map_chunk(own);
        for thread in threads {
            results.extend(join_thread(thread));
        }
        results
    })
}

/// Returns the result of a thread; resumes its panic if it panicked.
fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Cached index of a folder's files. Each entry is stored as a line of JSON that identifies the file, followed by the
/// description, which is parsed on demand and copied unchanged when the index is written again.
#[derive(Debug, Default)]
pub(crate) struct FolderIndex {
    entries: BTreeMap<String, FolderIndexEntry>,
    changed: bool,
}

#[derive(Debug)]
struct FolderIndexEntry {
    stamp: ToolFileStamp,
    digest: Sha256Digest,
    described: Bytes,
}

/// The index line of a file.
#[derive(Serialize, Deserialize)]
struct FolderIndexLine<'a> {
    name: Cow<'a, str>,
    stamp: ToolFileStamp,
    digest: Sha256Digest,
    /// Length of the description in bytes.
    length: usize,
}

impl FolderIndex {
    /// Reads the cached index of `folder`.
    pub(crate) fn read(cache: &ComponentCache, folder: &Path) -> Self {
        let cached = cache.get(CacheEntryKind::Folder, &key(folder));
        let entries = cached.and_then(parse_entries);
        Self {
            entries: entries.unwrap_or_default(),
            changed: false,
        }
    }

    /// Stores the index if it has changed since it was read.
    pub(crate) fn write(&self, cache: &ComponentCache, folder: &Path) {
        if !self.changed {
            return;
        }
        match self.encode() {
            Ok(content) => cache.put(CacheEntryKind::Folder, &key(folder), &content),
            Err(error) => tracing::warn!(%error, "cannot store the index of a folder"),
        }
    }

    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let mut content = Vec::new();
        for (name, entry) in &self.entries {
            let line = FolderIndexLine {
                name: Cow::Borrowed(name),
                stamp: entry.stamp.clone(),
                digest: entry.digest,
                length: entry.described.len(),
            };
            serde_json::to_writer(&mut content, &line)?;
            content.push(b'\n');
            content.extend_from_slice(&entry.described);
        }
        Ok(content)
    }

    /// Removes files that are gone or have changed.
    pub(crate) fn retain(&mut self, files: &BTreeMap<String, ToolFileStamp>) {
        let before = self.entries.len();
        self.entries
            .retain(|name, entry| files.get(name) == Some(&entry.stamp));
        self.changed |= self.entries.len() != before;
    }

    /// Returns the entry of a file.
    pub(crate) fn get(&self, name: &str) -> Option<(Sha256Digest, DescriptionResult)> {
        let entry = self.entries.get(name)?;
        let described = serde_json::from_slice(&entry.described).ok()?;
        Some((entry.digest, described))
    }

    /// Adds the entry of a file.
    pub(crate) fn put(
        &mut self,
        name: &str,
        stamp: ToolFileStamp,
        digest: Sha256Digest,
        described: &DescriptionResult,
    ) {
        if let Ok(described) = serde_json::to_vec(described) {
            let entry = FolderIndexEntry {
                stamp,
                digest,
                described: described.into(),
            };
            self.entries.insert(name.to_owned(), entry);
            self.changed = true;
        }
    }
}

/// Parses a stored index; `None` if it is not valid.
fn parse_entries(mut rest: Bytes) -> Option<BTreeMap<String, FolderIndexEntry>> {
    let mut entries = BTreeMap::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line: FolderIndexLine<'_> = serde_json::from_slice(&rest[..end]).ok()?;
        let (name, length) = (line.name.into_owned(), line.length);
        let (stamp, digest) = (line.stamp, line.digest);
        rest = rest.slice(end + 1..);
        if rest.len() < length {
            return None;
        }
        let described = rest.split_to(length);
        let entry = FolderIndexEntry {
            stamp,
            digest,
            described,
        };
        entries.insert(name, entry);
    }
    Some(entries)
}

/// Returns the cache key of a folder's index: the folder, and the versions of the format and of the conversion.
fn key(folder: &Path) -> String {
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let hash = Sha256Digest::of_bytes(full.as_os_str().as_encoded_bytes()).to_string();
    format!("{}-{FORMAT_VERSION}-{ADAPT_VERSION}", &hash[..32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    use parking_lot::Mutex;

    fn index() -> FolderIndex {
        let mut index = FolderIndex::default();
        for (name, size) in [("a.wasm", 1), ("ä\nb.wasm", 2)] {
            let stamp = ToolFileStamp {
                size,
                modified: 3,
                changed: -4,
                inode: 5,
            };
            let reason = format!("it is bad:\n{name}");
            let described = Err((ToolErrorCode::InvalidInput, reason));
            index.put(
                name,
                stamp,
                Sha256Digest::of_bytes(name.as_bytes()),
                &described,
            );
        }
        index
    }

    #[test]
    fn index_returns_stored_entries() {
        let index = index();
        let encoded = Bytes::from(index.encode().unwrap());
        let again = FolderIndex {
            entries: parse_entries(encoded.clone()).unwrap(),
            changed: false,
        };
        assert_eq!(again.encode().unwrap(), encoded);
        let (digest, described) = again.get("ä\nb.wasm").unwrap();
        assert_eq!(digest, Sha256Digest::of_bytes("ä\nb.wasm".as_bytes()));
        assert_eq!(described.unwrap_err().1, "it is bad:\nä\nb.wasm");
        assert!(again.get("b.wasm").is_none());
    }

    #[test]
    fn scan_accepts_an_extension_in_capitals() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a.wasm",
            "Tool.WASM",
            "text.wat",
            "b.Wasm.txt",
            "wasm",
            "a.yml",
            "B.YML",
            "c.Yaml",
            "yml",
            "a.policy.yaml",
            "other.policy.yaml",
        ] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let scan = scan_folder(folder.path()).unwrap();
        let names = |files: &BTreeMap<String, ToolFileStamp>| -> Vec<String> {
            files.keys().cloned().collect()
        };
        assert_eq!(names(&scan.files), ["Tool.WASM", "a.wasm", "text.wat"]);
        assert_eq!(
            names(&scan.scripts),
            ["B.YML", "a.yml", "c.Yaml", "other.policy.yaml"]
        );
        assert_eq!(stem("Tool.WASM"), Some("Tool"));
        assert_eq!(stem("a.b.wat"), Some("a.b"));
    }

    #[test]
    #[cfg(unix)]
    fn scan_tells_broken_links_from_links_that_cannot_be_followed() {
        let folder = tempfile::tempdir().unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        };
        std::fs::write(folder.path().join("file"), "x").unwrap();
        link("nowhere", "broken.wasm");
        link("file/below", "blocked.wasm");
        link("looped.yml", "looped.yml");
        let links = scan_folder(folder.path()).unwrap().bad_links;
        let (code, reason) = &links["broken.wasm"];
        assert_eq!(*code, ToolErrorCode::FileNotFound);
        assert!(reason.contains("the link is broken"), "{reason}");
        for name in ["blocked.wasm", "looped.yml"] {
            let (code, reason) = &links[name];
            assert_eq!(*code, ToolErrorCode::Unavailable, "{name}");
            assert!(reason.contains("cannot be followed: "), "{name}: {reason}");
        }
    }

    #[test]
    fn map_in_parallel_limits_its_threads() {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        for count in [2, 3, 4, 10, 21] {
            let threads = Mutex::new(HashSet::new());
            let items = vec![(); count * MIN_FILES_PER_THREAD + 3];
            map_in_parallel(&items, |()| {
                threads.lock().insert(std::thread::current().id());
            });
            let threads = threads.lock().len();
            assert!(threads <= cores.min(MAX_THREADS), "{count}: {threads}");
        }
    }

    #[test]
    fn map_in_parallel_keeps_the_order() {
        for count in [
            0,
            1,
            2 * MIN_FILES_PER_THREAD - 1,
            2 * MIN_FILES_PER_THREAD,
            10 * MIN_FILES_PER_THREAD + 7,
        ] {
            let all: Vec<usize> = (0..count).collect();
            let doubled = map_in_parallel(&all, |number| number * 2);
            assert_eq!(
                doubled,
                all.iter().map(|number| number * 2).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn index_ignores_truncated_data() {
        let encoded = Bytes::from(index().encode().unwrap());
        let readable_lengths =
            (0..=encoded.len()).filter(|length| parse_entries(encoded.slice(..*length)).is_some());
        // Only prefixes that end after an entry are valid: those of zero, one and two entries.
        assert_eq!(readable_lengths.count(), 3);
    }
}
