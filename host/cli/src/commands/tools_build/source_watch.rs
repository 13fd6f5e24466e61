//! Polling for changes of a plugin's sources, for `mimir tools build --watch` and `mimir tools dev`.
//!
//! Polling works on every file system, also on network drives and in containers, and needs no library.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use mimir_core::{ToolError, text};

/// Time between two scans.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Time without further changes after which a change is reported. Editors write a file in several steps, and several files
/// after each other.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Time after which a change is reported even if files go on changing.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(5);

/// Maximum number of files and folders.
const MAX_ENTRIES: usize = 5_000;

/// Maximum number of folders within folders.
const MAX_DEPTH: usize = 32;

/// Folders with results of builds and with other people's code, besides those whose names begin with a dot.
const IGNORED_FOLDERS: &[&str] = &["__pycache__", "node_modules", "target", "vendor", "zig-out"];

/// Files that builds write.
const WRITTEN_FILES: &[&str] = &["compile_flags.txt", "go.work", "go.work.sum"];

/// Ends of names of temporary files that editors write beside a file.
const TEMPORARY_ENDS: &[&str] = &["~", ".swp", ".swx", ".tmp", ".bak"];

/// Facts about a file that differ after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileStamp {
    File {
        size: u64,
        modified: Option<SystemTime>,
        /// Number of the file, which differs after another file was moved to its path, even at the same time.
        inode: u64,
    },
    /// A file or folder whose facts cannot be read. It is not an error here: the build reports it if it needs it.
    Unreadable,
}

type SourceStamps = BTreeMap<PathBuf, FileStamp>;

/// Result of one scan.
#[derive(Debug, PartialEq, Eq)]
enum WatchStep {
    /// Scan again after this time.
    Wait(Duration),
    /// These files have changed, and the changes have settled.
    Changed(Vec<PathBuf>),
}

/// Changes that have not settled.
struct OpenChange {
    began: Instant,
    latest: Instant,
    stamps: SourceStamps,
}

/// A watch of one folder, or of one file.
pub struct SourceWatch {
    root: PathBuf,
    /// Stamps when the last change was reported.
    reported: SourceStamps,
    open: Option<OpenChange>,
}

impl SourceWatch {
    /// Starts a watch: changes from now on are reported.
    ///
    /// # Errors
    ///
    /// Fails with `LIMIT_EXCEEDED` if the folder has more than 5,000 files.
    pub fn start(root: &Path) -> Result<Self, ToolError> {
        Ok(Self {
            root: root.to_owned(),
            reported: scan(root)?,
            open: None,
        })
    }

    /// Waits for the next change. Returns the paths of changed, new and deleted files, relative to the folder. A change
    /// while the caller was busy is reported at once. Dropping the future loses no change.
    ///
    /// # Errors
    ///
    /// Fails with `LIMIT_EXCEEDED` if the folder has come to have more than 5,000 files.
    pub async fn next_change(&mut self) -> Result<Vec<PathBuf>, ToolError> {
        loop {
            match self.step(Instant::now())? {
                WatchStep::Changed(files) => return Ok(files),
                WatchStep::Wait(time) => tokio::time::sleep(time).await,
            }
        }
    }

    /// Scans the folder once. `now` is the current time, which never goes back.
    fn step(&mut self, now: Instant) -> Result<WatchStep, ToolError> {
        let stamps = scan(&self.root)?;
        if stamps == self.reported {
            // Also after a change was taken back before it settled.
            self.open = None;
            return Ok(WatchStep::Wait(POLL_INTERVAL));
        }
        let (began, latest) = match &self.open {
            Some(open) if open.stamps == stamps => (open.began, open.latest),
            Some(open) => (open.began, now),
            None => (now, now),
        };
        let is_settled = now.duration_since(latest) >= SETTLE_TIME;
        if is_settled || now.duration_since(began) >= MAX_SETTLE_TIME {
            let files = changed_files(&self.root, &self.reported, &stamps);
            self.reported = stamps;
            self.open = None;
            return Ok(WatchStep::Changed(files));
        }
        self.open = Some(OpenChange {
            began,
            latest,
            stamps,
        });
        Ok(WatchStep::Wait(SETTLE_TIME))
    }
}

/// Returns the files whose stamps differ, sorted.
fn changed_files(root: &Path, before: &SourceStamps, after: &SourceStamps) -> Vec<PathBuf> {
    let is_changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let deleted = before.keys().filter(|path| !after.contains_key(*path));
    let mut files: Vec<PathBuf> = after
        .keys()
        .filter(is_changed)
        .chain(deleted)
        .map(|path| match path.strip_prefix(root) {
            // The watched file itself.
            Ok(relative) if relative.as_os_str().is_empty() => {
                path.file_name().map(PathBuf::from).unwrap_or_default()
            }
            Ok(relative) => relative.to_owned(),
            Err(_) => path.clone(),
        })
        .collect();
    files.sort_unstable();
    files
}

/// Returns the sources in a folder, or the only source, with the times of their last changes.
///
/// # Errors
///
/// Fails with `LIMIT_EXCEEDED` if the folder has more than 5,000 files.
pub fn source_files(root: &Path) -> Result<Vec<(PathBuf, Option<SystemTime>)>, ToolError> {
    let files = scan(root)?.into_iter();
    let files = files.map(|(path, stamp)| match stamp {
        FileStamp::File { modified, .. } => (path, modified),
        FileStamp::Unreadable => (path, None),
    });
    Ok(files.collect())
}

/// Returns the stamps of all sources. A root that does not exist has none.
fn scan(root: &Path) -> Result<SourceStamps, ToolError> {
    let mut stamps = SourceStamps::new();
    let mut folder_count = 0;
    let mut folders = Vec::new();
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => folders.push((root.to_owned(), 0)),
        Ok(metadata) => {
            stamps.insert(root.to_owned(), file_stamp(&metadata));
        }
        Err(_) => {}
    }
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            stamps.insert(folder, FileStamp::Unreadable);
            continue;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                stamps.insert(folder.clone(), FileStamp::Unreadable);
                break;
            };
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !is_ignored_folder(&name) && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
                folder_count += 1;
            } else if !is_folder && !is_ignored_file(&name) {
                // Follows links to files. Links to folders could lead in circles.
                let stamp = match std::fs::metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => continue,
                    Ok(metadata) => file_stamp(&metadata),
                    // Deleted since it was listed: a state between two changes.
                    Err(_) if std::fs::symlink_metadata(&path).is_err() => continue,
                    Err(_) => FileStamp::Unreadable,
                };
                stamps.insert(path, stamp);
            }
            if stamps.len() + folder_count > MAX_ENTRIES {
                return Err(too_many_files(root));
            }
        }
    }
    Ok(stamps)
}

fn is_ignored_folder(name: &str) -> bool {
    name.starts_with('.') || IGNORED_FOLDERS.contains(&name)
}

fn is_ignored_file(name: &str) -> bool {
    name.starts_with(['.', '#'])
        || TEMPORARY_ENDS.iter().any(|end| name.ends_with(end))
        || WRITTEN_FILES.contains(&name)
        // Vim writes a file of this name to learn whether it can.
        || name == "4913"
}

fn file_stamp(metadata: &Metadata) -> FileStamp {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    FileStamp::File {
        size: metadata.len(),
        modified: metadata.modified().ok(),
        inode,
    }
}

fn too_many_files(root: &Path) -> ToolError {
    let shown = text::visible(&root.display().to_string());
    ToolError::limit_exceeded(format!(
        "cannot watch {shown}: it has more than {MAX_ENTRIES} files and folders; expected the sources of one plugin. Move other files out of it, or build without --watch"
    ))
}

#[cfg(test)]
mod tests;
