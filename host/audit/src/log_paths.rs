//! The files of the log: their paths and their creation.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform::PlatformFileId;

/// The paths of the files of a log.
#[derive(Debug, Clone)]
pub(super) struct LogPaths {
    log: PathBuf,
    head: PathBuf,
    reserve: PathBuf,
}

/// A full file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogSegment {
    /// Number of the last line in the file.
    pub(super) last: u64,
    /// Path of the file.
    pub(super) path: PathBuf,
}

/// Number of path components below the workspace root: `.mimir`, `state`, and the log itself.
const LEVELS_BELOW_ROOT: usize = 3;

/// Number of digits in a segment's name, so that names sort like numbers. Longer numbers are valid as well.
const DIGITS: usize = 12;

impl LogPaths {
    /// Returns the paths of the files that belong to `log`.
    pub(super) fn from_log(log: PathBuf) -> Self {
        Self {
            head: log.with_extension("head"),
            reserve: log.with_extension("reserve"),
            log,
        }
    }

    /// Returns the path of the current file.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the path of the head file.
    pub(super) fn head(&self) -> &Path {
        &self.head
    }

    /// Returns the path of the reserve.
    pub(super) fn reserve(&self) -> &Path {
        &self.reserve
    }

    /// Returns the path of the full file whose last line has the number `last`.
    pub(super) fn segment(&self, last: u64) -> PathBuf {
        let extension = self.log.extension().unwrap_or_default().to_string_lossy();
        self.log
            .with_extension(format!("{last:0width$}.{extension}", width = DIGITS))
    }

    /// Lists the full files, the oldest first.
    pub(super) fn segments(&self) -> io::Result<Vec<LogSegment>> {
        let folder = self.log.parent().unwrap_or(Path::new(""));
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut segments = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if let Some(last) = self.parse_segment_name(&path) {
                segments.push(LogSegment { last, path });
            }
        }
        segments.sort_by_key(|segment| segment.last);
        Ok(segments)
    }

    /// Returns the number in the name of a full file, or `None` for another file.
    fn parse_segment_name(&self, path: &Path) -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        let stem = self.log.file_stem()?.to_str()?;
        let extension = self.log.extension()?.to_str()?;
        let digits = name.strip_prefix(stem)?.strip_suffix(extension)?;
        let digits = digits.strip_prefix('.')?.strip_suffix('.')?;
        let last = digits.parse().ok()?;
        (self.segment(last) == path).then_some(last)
    }

    /// Opens one of the files for reading.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        self.check_for_links()?;
        files::open(path, LinkPolicy::Refuse)
    }

    /// Rejects symbolic links: the folders may come from a checkout, where a link could point anywhere.
    fn check_for_links(&self) -> io::Result<()> {
        let root = self.log.ancestors().nth(LEVELS_BELOW_ROOT);
        files::reject_links(root.unwrap_or(Path::new("")), &self.log)
    }

    /// Creates the folder if it is missing.
    pub(super) fn create_folder(&self) -> io::Result<()> {
        self.check_for_links()?;
        if let Some(folder) = self.log.parent() {
            std::fs::create_dir_all(folder)?;
            files::ignore(folder)?;
        }
        Ok(())
    }

    /// Waits until the folder's entries are on the disk.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        match self.log.parent() {
            // Other systems cannot open folders like files.
            Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }
}

/// Returns true if the open file is still the file at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let current = match PlatformFileId::at_path(path) {
        Ok(current) => current,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(PlatformFileId::of_file(file)? == current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_name_and_sorted() {
        let folder = tempfile::tempdir().unwrap();
        let paths = LogPaths::from_log(folder.path().join("audit.jsonl"));
        let mut expected = vec![];
        for last in [9, 10, 123_456_789_012_345] {
            File::create(paths.segment(last)).unwrap();
            expected.push(last);
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
        let found = paths.segments().unwrap();
        let found: Vec<_> = found.iter().map(|segment| segment.last).collect();
        assert_eq!(found, expected);
    }
}
