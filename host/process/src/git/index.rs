//! Parser for the index of a repository: the size and time stored for each file.
//!
//! Git treats a file as unchanged, without reading it, if its size and time match the index, unless the index is no
//! newer than the file ("racy"). Racy entries of hidden files get another time: in the sandbox, their stand-ins have
//! this time; outside, git compares the content once more, as after any `touch`. This changes nothing that git obeys or
//! a person sees, so it need not be undone.
//!
//! The index is replaced as git does it: only while holding its lock, which no other process may hold.

#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        reason = "hidden files are covered by mounts on Linux alone"
    )
)]

use std::path::Path;

// The two crates use different versions of the `digest` traits.
use sha1::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256};

use crate::run::workspace_guard::read_regular_file;

/// Maximum size in bytes of an index: enough for more than a million files.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// Modification time for racy entries, in seconds: no index is that old.
const SETTLED_TIME: u32 = 1;

/// Hash function of objects and of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectHash {
    Sha1,
    Sha256,
}

impl ObjectHash {
    fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// Returns true for the object id of an empty file.
    fn is_empty_blob(self, id: &[u8]) -> bool {
        self.digest(b"blob 0\0") == id
    }
}

/// File state in an index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct IndexStat {
    pub(super) size: u32,
    /// Seconds since 1970.
    pub(super) modified: u32,
    pub(super) executable: bool,
}

/// An index entry, with the required fields.
#[derive(Debug)]
struct GitIndexEntry {
    /// The offset of the entry.
    offset: usize,
    path: String,
    stat: IndexStat,
    /// True if the blob is empty. Otherwise, a size of 0 means that git has to compare the content.
    empty: bool,
}

impl GitIndexEntry {
    /// Returns true if git would read the file even if its size and time match.
    fn is_racy(&self, index_modified: u64) -> bool {
        let smudged = self.stat.size == 0 && !self.empty;
        smudged || u64::from(self.stat.modified) >= index_modified
    }

    fn settle(&mut self) {
        self.stat.modified = SETTLED_TIME;
        if !self.empty {
            self.stat.size = self.stat.size.max(1);
        }
    }
}

/// The requested entries of an index.
pub(super) struct GitIndex {
    entries: Vec<GitIndexEntry>,
}

impl GitIndex {
    /// Reads the entries of regular files for which `wanted` returns true, from the index in `git`. Racy entries are
    /// written back with another time; if that fails, they are returned unchanged.
    pub(super) fn read(
        git: &Path,
        hash: ObjectHash,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Self> {
        let path = git.join("index");
        let bytes = read_regular_file(&path, MAX_INDEX_BYTES)?;
        let entries = parse_entries(&bytes, hash, wanted)?;
        let modified = modified_seconds(&path)?;
        if entries.iter().any(|entry| entry.is_racy(modified))
            && let Some(settled) = settle(git, hash, wanted)
        {
            return Some(Self { entries: settled });
        }
        Some(Self { entries })
    }

    pub(super) fn into_stats(self) -> impl Iterator<Item = (String, IndexStat)> {
        self.entries
            .into_iter()
            .map(|entry| (entry.path, entry.stat))
    }
}

fn modified_seconds(path: &Path) -> Option<u64> {
    let modified = path.symlink_metadata().ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// Sizes in bytes of the header, and of the fields before the object id of an entry.
const HEADER_BYTES: usize = 12;
const FIELDS_BYTES: usize = 40;

/// Offsets of fields in an entry.
const MODIFIED_OFFSET: usize = 8;
const MODIFIED_NANOS_OFFSET: usize = 12;
const MODE_OFFSET: usize = 24;
const SIZE_OFFSET: usize = 36;

/// Flags of an entry: its stage, and the presence of more flags.
const STAGE: u16 = 0x3000;
const EXTENDED: u16 = 0x4000;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(field.try_into().ok()?))
}

/// Returns the entries of regular files with the wanted paths. Supports versions 2 to 4.
fn parse_entries(
    bytes: &[u8],
    hash: ObjectHash,
    wanted: &dyn Fn(&str) -> bool,
) -> Option<Vec<GitIndexEntry>> {
    if !bytes.starts_with(b"DIRC") {
        return None;
    }
    let version = u32_at(bytes, 4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = u32_at(bytes, 8)?;
    let mut offset = HEADER_BYTES;
    let mut path: Vec<u8> = Vec::new();
    let mut entries = Vec::new();
    for _ in 0..count {
        let id = bytes.get(offset + FIELDS_BYTES..offset + FIELDS_BYTES + hash.len())?;
        let flags_at = offset + FIELDS_BYTES + hash.len();
        let flags = u16_at(bytes, flags_at)?;
        let mut name_at = flags_at + 2;
        if version >= 3 && flags & EXTENDED != 0 {
            name_at += 2;
        }
        if version == 4 {
            let (stripped, after) = varint(bytes, name_at)?;
            path.truncate(path.len().checked_sub(stripped)?);
            name_at = after;
        } else {
            path.clear();
        }
        let rest = bytes.get(name_at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        path.extend(rest.get(..length)?);
        let end = name_at + length;
        let next = match version {
            4 => end + 1,
            // At least one zero follows, up to a multiple of eight.
            _ => offset + (end - offset) / 8 * 8 + 8,
        };
        let mode = u32_at(bytes, offset + MODE_OFFSET)?;
        let regular = matches!(mode, 0o100_644 | 0o100_755);
        if regular
            && flags & STAGE == 0
            && let Ok(name) = std::str::from_utf8(&path)
            && wanted(name)
        {
            entries.push(GitIndexEntry {
                offset,
                path: name.to_owned(),
                stat: IndexStat {
                    size: u32_at(bytes, offset + SIZE_OFFSET)?,
                    modified: u32_at(bytes, offset + MODIFIED_OFFSET)?,
                    executable: mode == 0o100_755,
                },
                empty: hash.is_empty_blob(id),
            });
        }
        offset = next;
    }
    Some(entries)
}

/// Decodes a variable-length number of version 4. Returns the number and the offset after it.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

/// Returns the index with these entries and a new checksum.
fn patch_index(mut bytes: Vec<u8>, hash: ObjectHash, entries: &[GitIndexEntry]) -> Option<Vec<u8>> {
    for entry in entries {
        for (field_offset, value) in [
            (MODIFIED_OFFSET, entry.stat.modified),
            (MODIFIED_NANOS_OFFSET, 0),
            (SIZE_OFFSET, entry.stat.size),
        ] {
            let field =
                bytes.get_mut(entry.offset + field_offset..entry.offset + field_offset + 4)?;
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
    let body = bytes.len().checked_sub(hash.len())?;
    // With `index.skipHash` the checksum is all zeros.
    if bytes.get(body..)?.iter().any(|byte| *byte != 0) {
        let sum = hash.digest(bytes.get(..body)?);
        bytes.truncate(body);
        bytes.extend(sum);
    }
    Some(bytes)
}

/// Gives racy entries another time, and writes the index. The index file keeps its own time, since git compares it with
/// all other entries.
#[cfg(target_os = "linux")]
fn settle(
    git: &Path,
    hash: ObjectHash,
    wanted: &dyn Fn(&str) -> bool,
) -> Option<Vec<GitIndexEntry>> {
    use std::fs::{File, FileTimes};
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

    let folder = crate::sandbox::open_by_no_link(git).ok()?;
    let path = git.join("index");
    let meta = path.symlink_metadata().ok()?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(meta.mode() & 0o666);
    let lock = openat(&folder, c"index.lock", flags, mode).ok()?;
    // While the lock is held, no other process changes the index.
    let write = || {
        let meta = path.symlink_metadata().ok()?;
        let modified = modified_seconds(&path)?;
        let bytes = read_regular_file(&path, MAX_INDEX_BYTES)?;
        let mut entries = parse_entries(&bytes, hash, wanted)?;
        for entry in entries.iter_mut().filter(|entry| entry.is_racy(modified)) {
            entry.settle();
        }
        let bytes = patch_index(bytes, hash, &entries)?;
        let mut file = File::from(lock);
        file.write_all(&bytes).ok()?;
        file.set_permissions(meta.permissions()).ok()?;
        file.set_times(FileTimes::new().set_modified(meta.modified().ok()?))
            .ok()?;
        renameat(&folder, c"index.lock", &folder, c"index").ok()?;
        Some(entries)
    };
    let written = write();
    if written.is_none() {
        // Git would wait for this process's lock.
        let _ = unlinkat(&folder, c"index.lock", AtFlags::empty());
    }
    written
}

/// Returns `None`: only Linux covers hidden files with mounts.
#[cfg(not(target_os = "linux"))]
fn settle(_: &Path, _: ObjectHash, _: &dyn Fn(&str) -> bool) -> Option<Vec<GitIndexEntry>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]
mod tests {
    use super::*;
    use crate::git::run_git as git;

    /// Creates a repository with files, in one of the formats.
    fn repository(format: &str, version: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        git(at, &["init", "-q", "--object-format", format]);
        for (name, text) in [
            (".env", "SECRET"),
            ("a", "x"),
            ("aa/empty.key", ""),
            ("aa/b/run.key", "#!"),
        ] {
            let file = at.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        std::os::unix::fs::symlink("a", at.join("link.key")).unwrap();
        git(at, &["add", "-A"]);
        git(at, &["update-index", "--chmod=+x", "aa/b/run.key"]);
        git(at, &["update-index", "--index-version", version]);
        git(at, &["commit", "-qm", "one"]);
        folder
    }

    fn is_hidden(path: &str) -> bool {
        path == ".env" || path.ends_with(".key")
    }

    #[test]
    fn index_is_read_in_every_format_without_racy_entries() {
        for (format, hash) in [("sha1", ObjectHash::Sha1), ("sha256", ObjectHash::Sha256)] {
            for version in ["2", "4"] {
                let folder = repository(format, version);
                let dir = folder.path().canonicalize().unwrap().join(".git");
                let before = modified_seconds(&dir.join("index")).unwrap();
                let index = GitIndex::read(&dir, hash, &is_hidden).unwrap();
                let stats: Vec<_> = index.into_stats().collect();
                let names: Vec<_> = stats.iter().map(|(path, _)| path.as_str()).collect();
                assert_eq!(names, [".env", "aa/b/run.key", "aa/empty.key"]);
                let stat_of = |path: &str| stats.iter().find(|(name, _)| name == path).unwrap().1;
                assert_eq!((stat_of(".env").size, stat_of("aa/empty.key").size), (6, 0));
                assert!(stat_of("aa/b/run.key").executable && !stat_of(".env").executable);
                // Racy entries, written in the same second as the index, have an old time now.
                for (path, stat) in &stats {
                    assert!(u64::from(stat.modified) < before.max(2), "{path}: {stat:?}");
                }
                assert_eq!(modified_seconds(&dir.join("index")), Some(before));
                assert!(!dir.join("index.lock").exists());
                // The index is valid for git, without changes.
                git(folder.path(), &["fsck", "--strict"]);
                assert_eq!(git(folder.path(), &["diff", "--cached", "--name-only"]), "");
                std::fs::write(folder.path().join(".env"), "SECRE2").unwrap();
                let status = git(folder.path(), &["status", "--short", ".env"]);
                assert_eq!(status, " M .env\n", "{format} {version}");
            }
        }
    }

    #[test]
    fn index_is_not_written_while_git_holds_its_lock() {
        let folder = repository("sha1", "2");
        let dir = folder.path().canonicalize().unwrap().join(".git");
        let before = std::fs::read(dir.join("index")).unwrap();
        std::fs::write(dir.join("index.lock"), "").unwrap();
        assert!(GitIndex::read(&dir, ObjectHash::Sha1, &is_hidden).is_some());
        assert_eq!(std::fs::read(dir.join("index")).unwrap(), before);
        assert!(
            dir.join("index.lock").exists(),
            "the lock of another process was removed"
        );
    }

    #[test]
    fn index_with_damaged_bytes_does_not_panic() {
        let folder = repository("sha1", "4");
        let bytes = std::fs::read(folder.path().join(".git/index")).unwrap();
        for end in 0..bytes.len() {
            let _ = parse_entries(&bytes[..end], ObjectHash::Sha1, &|_| true);
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0xff;
            let _ = parse_entries(&bytes, ObjectHash::Sha1, &|_| true);
        }
        let many = [b"DIRC\0\0\0\x02\xff\xff\xff\xff".as_slice(), &[0; 100]].concat();
        assert!(parse_entries(&many, ObjectHash::Sha1, &|_| true).is_none());
    }
}
