//! The files of the log: their paths and their creation.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};

/// The file names of a log.
#[derive(Debug, Clone)]
pub(super) struct LogPaths {
    log: PathBuf,
    head: PathBuf,
    reserve: PathBuf,
}

/// A full file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogSegment {
    /// The number of its last line.
    pub(super) last: u64,
    /// The path of the file.
    pub(super) path: PathBuf,
}

/// Number of path components below the workspace root: `.mimir`, `state`, and the log itself.
const OWN_LEVELS: usize = 3;

/// Number of digits in a segment's name, so that names sort like numbers. Longer numbers are valid as well.
const DIGITS: usize = 12;

impl LogPaths {
    /// The files that belong to `log`.
    pub(super) fn from_log(log: PathBuf) -> Self {
        Self {
            head: log.with_extension("head"),
            reserve: log.with_extension("reserve"),
            log,
        }
    }

    /// The current file, which is written to.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The head.
    pub(super) fn head(&self) -> &Path {
        &self.head
    }

    /// The reserve.
    pub(super) fn reserve(&self) -> &Path {
        &self.reserve
    }

    /// The path of the full file whose last line is `last`.
    pub(super) fn segment(&self, last: u64) -> PathBuf {
        let end = self.log.extension().unwrap_or_default().to_string_lossy();
        self.log
            .with_extension(format!("{last:0width$}.{end}", width = DIGITS))
    }

    /// The full files, the oldest first.
    pub(super) fn segments(&self) -> io::Result<Vec<LogSegment>> {
        let folder = self.log.parent().unwrap_or(Path::new(""));
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if let Some(last) = self.number(&path) {
                found.push(LogSegment { last, path });
            }
        }
        found.sort_by_key(|segment| segment.last);
        Ok(found)
    }

    /// The number in a segment's file name.
    fn number(&self, path: &Path) -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        let stem = self.log.file_stem()?.to_str()?;
        let end = self.log.extension()?.to_str()?;
        let digits = name.strip_prefix(stem)?.strip_suffix(end)?;
        let digits = digits.strip_prefix('.')?.strip_suffix('.')?;
        let last = digits.parse().ok()?;
        (self.segment(last) == path).then_some(last)
    }

    /// Opens one of the files for reading.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        self.no_links()?;
        files::open(path, LinkPolicy::Refuse)
    }

    /// Rejects symbolic links: the folders may come from a checkout, where a link could point anywhere.
    fn no_links(&self) -> io::Result<()> {
        let root = self.log.ancestors().nth(OWN_LEVELS);
        files::reject_links(root.unwrap_or(Path::new("")), &self.log)
    }

    /// Creates the folder if it is missing.
    pub(super) fn prepare(&self) -> io::Result<()> {
        self.no_links()?;
        if let Some(folder) = self.log.parent() {
            std::fs::create_dir_all(folder)?;
            files::ignore(folder)?;
        }
        Ok(())
    }

    /// Waits until the folder's entries are on the disk.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        match self.log.parent() {
            // Other systems do not open folders like files, and do not need this.
            Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }
}

/// Returns true if the open file is still the one at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let here = file.metadata()?;
        Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
    }
    #[cfg(not(unix))]
    {
        // An open file cannot be replaced on this platform, so the length is sufficient.
        Ok(file.metadata()?.len() == there.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_name_and_sorted() {
        let folder = tempfile::tempdir().unwrap();
        let place = LogPaths::from_log(folder.path().join("audit.jsonl"));
        let mut wanted = vec![];
        for last in [9, 10, 123_456_789_012_345] {
            File::create(place.segment(last)).unwrap();
            wanted.push(last);
        }
        for other in [
            "audit.jsonl",
            "audit.head",
            "audit.9.jsonl",
            "audit.00000000000x.jsonl",
            "audit.jsonl.000000000011",
            "b.000000000011.jsonl",
        ] {
            File::create(folder.path().join(other)).unwrap();
        }
        let found = place.segments().unwrap();
        let found: Vec<_> = found.iter().map(|segment| segment.last).collect();
        assert_eq!(found, wanted);
    }
}
