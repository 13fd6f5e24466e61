//! Small values that plugins store between calls.
//!
//! Each plugin has a folder below `.mimir/state/storage`, named after the plugin's location, so that values survive a
//! new build. Each value is a file, written atomically: one line of JSON, the header, and the bytes of the value.
//! Invalid files are ignored.
//!
//! Out of scope: the permission to store values, and the effect of a label on a session.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{ToolError, ToolErrorCode};
use crate::files::{self, LinkPolicy};
use crate::outcome::ContentLabel;
use crate::platform;
use crate::text;

/// The folder of all values, below the workspace.
pub const FOLDER: &str = ".mimir/state/storage";

/// Maximum length of a key in bytes.
pub const KEY_MAX: usize = 256;

/// Maximum size of a value in bytes. The plugin and the host hold a whole value in memory.
pub const VALUE_MAX: usize = 1 << 20;

/// Maximum number of values per plugin. Listing keys reads the header of every file.
const VALUES_MAX: usize = 1_000;

/// Maximum total size of a plugin's values in bytes. Every copy of the workspace contains them.
const TOTAL_MAX: u64 = 16 << 20;

/// Maximum size of the header line in bytes: enough for a fully escaped key and a label.
const HEAD_MAX: u64 = 8 << 10;

/// Maximum number of attempts to open a value that other calls replace at the same time.
const OPEN_ATTEMPTS: usize = 100;

/// Maximum number of characters of the plugin's file name in the name of its folder, for readability.
const NAME_MAX: usize = 40;

/// Prefix of keys for data that a built-in tool derives from files, such as vectors of memories. The data is identical
/// in every session and has no foreign text, so it does not get the label of the session that stores it. Otherwise, a
/// search by a tainted session would taint all later searches.
pub const DERIVED: &str = "derived/";

/// Prefix of keys for marks, with which a built-in tool records the possible authors of a text. A mark has no value,
/// only the worst label of the sessions that set it.
pub const MARK: &str = "mark/";

/// The values of one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginValues {
    workspace: PathBuf,
    folder: PathBuf,
}

/// A value with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The label of the session that stored it.
    pub label: ContentLabel,
}

/// The total size of a plugin's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StorageSize {
    /// The number of values.
    pub values: usize,
    /// The total size in bytes, with headers.
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueHeader {
    key: String,
    /// Size of the value in bytes. A file truncated by a crash has fewer.
    length: u64,
    label: ContentLabel,
}

impl PluginValues {
    /// Creates a handle to the values of the plugin at this location in a workspace, without I/O.
    pub fn new(workspace: &Path, location: &str) -> Self {
        let stem = Path::new(location).file_stem().unwrap_or_default();
        let is_name_char = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name = stem.to_string_lossy();
        let name: String = name.chars().filter(is_name_char).take(NAME_MAX).collect();
        let hash = Sha256::digest(location);
        let number = u64::from_be_bytes(std::array::from_fn(|at| hash[at]));
        Self {
            workspace: workspace.to_owned(),
            folder: workspace.join(FOLDER).join(format!("{name}-{number:016x}")),
        }
    }

    /// Returns the folder of the values.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the value of a key. Returns `None` if it is not set or its file is not valid.
    pub fn get(&self, key: &str) -> Result<Option<StoredValue>, ToolError> {
        check_key(key)?;
        let read = self.read(&self.file(key), VALUE_MAX as u64);
        let Some((head, bytes)) = read.map_err(|error| self.failed("read", &error))? else {
            return Ok(None);
        };
        Ok((head.length == bytes.len() as u64).then_some(StoredValue {
            bytes,
            label: head.label,
        }))
    }

    /// Reads a mark: the worst label of the sessions that set it, or the worst possible label if the file is not valid.
    pub fn mark(&self, key: &str) -> Result<Option<ContentLabel>, ToolError> {
        check_key(key)?;
        let file = self.file(key);
        let read = self.read(&file, 0);
        let label = read.map_err(|error| self.failed("read", &error))?;
        Ok(match label {
            Some((head, _)) => Some(head.label),
            None => std::fs::symlink_metadata(&file)
                .ok()
                .map(|_| unreadable_label()),
        })
    }

    /// Sets a mark. A mark only ever gets worse, and takes precedence over derived data.
    pub fn set_mark(&self, key: &str, label: ContentLabel) -> Result<(), ToolError> {
        let value = StoredValue {
            bytes: Vec::new(),
            label,
        };
        self.put(key, value, true)
    }

    /// Returns true if the file of a value cannot be read.
    pub fn has_unreadable(&self) -> Result<bool, ToolError> {
        let failed = |error: io::Error| self.failed("listed", &error);
        for path in self.files().map_err(failed)? {
            if self.read(&path, 0).map_err(failed)?.is_none() && path.symlink_metadata().is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores a value, replacing the previous one of the key.
    pub fn set(&self, key: &str, value: &StoredValue) -> Result<(), ToolError> {
        self.put(key, value.clone(), false)
    }

    /// Replaces the value of a key by the result of `change`, which gets the previous bytes. No other call changes the
    /// value in between, in this process or another. An error of `change` leaves the value as it is. Returns the stored
    /// value; its label is the worst of `label` and that of the previous value.
    pub fn update(
        &self,
        key: &str,
        label: ContentLabel,
        change: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ToolError>,
    ) -> Result<StoredValue, ToolError> {
        check_key(key)?;
        let _lock = self.lock_prepared()?;
        let before = self.get(key)?;
        let bytes = change(before.as_ref().map(|value| value.bytes.as_slice()))?;
        let label = match before {
            Some(before) => before.label.worse(label),
            None => label,
        };
        let value = StoredValue { bytes, label };
        self.put_locked(key, value.clone(), false)?;
        Ok(value)
    }

    fn put(&self, key: &str, value: StoredValue, is_mark: bool) -> Result<(), ToolError> {
        check_key(key)?;
        check_length(&value)?;
        let _lock = self.lock_prepared()?;
        self.put_locked(key, value, is_mark)
    }

    /// Creates the folder if it is missing, and locks it.
    fn lock_prepared(&self) -> Result<File, ToolError> {
        let failed = |error: io::Error| self.failed("written", &error);
        self.prepare().map_err(failed)?;
        self.lock_folder().map_err(failed)
    }

    /// Stores a value. Call only while holding the lock.
    fn put_locked(
        &self,
        key: &str,
        mut value: StoredValue,
        is_mark: bool,
    ) -> Result<(), ToolError> {
        check_length(&value)?;
        let failed = |error: io::Error| self.failed("written", &error);
        if is_mark && let Some(before) = self.mark(key)? {
            value.label = before.worse(value.label);
        }
        let head = ValueHeader {
            key: key.to_owned(),
            length: value.bytes.len() as u64,
            label: value.label,
        };
        let mut content = serde_json::to_vec(&head)
            .map_err(|error| ToolError::new(ToolErrorCode::Internal, error.to_string()))?;
        content.push(b'\n');
        content.extend_from_slice(&value.bytes);
        let file = self.file(key);
        let old = std::fs::symlink_metadata(&file).ok().map(|meta| meta.len());
        let mut size = self.size().map_err(failed)?;
        if is_mark {
            let added = content.len() as u64;
            let is_full =
                |size: StorageSize| size.values >= VALUES_MAX || size.bytes + added > TOTAL_MAX;
            if is_full(size) {
                // A mark makes room for itself: derived data can be computed again.
                for (derived, bytes) in self.derived_files().map_err(failed)? {
                    if !is_full(size) {
                        break;
                    }
                    std::fs::remove_file(derived).map_err(failed)?;
                    size.values -= 1;
                    size.bytes -= bytes.min(size.bytes);
                }
            }
        }
        if old.is_none() && size.values >= VALUES_MAX {
            return Err(limit(format!(
                "the maximum of {VALUES_MAX} values is reached: delete some"
            )));
        }
        if size.bytes - old.unwrap_or(0).min(size.bytes) + content.len() as u64 > TOTAL_MAX {
            return Err(limit(format!(
                "{} more do not fit: all values together have at most {}; delete some",
                text::bytes(content.len() as u64),
                text::bytes(TOTAL_MAX),
            )));
        }
        self.write(&file, &content).map_err(failed)
    }

    /// Deletes the value of a key. A missing key is not an error.
    pub fn delete(&self, key: &str) -> Result<(), ToolError> {
        check_key(key)?;
        let failed = |error: io::Error| self.failed("removed", &error);
        match std::fs::symlink_metadata(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            _ => self.reject_links().map_err(failed)?,
        }
        let _lock = self.lock_folder().map_err(failed)?;
        match std::fs::remove_file(self.file(key)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Returns the keys with this prefix in order, each with the label of its value.
    pub fn keys(&self, prefix: &str) -> Result<Vec<(String, ContentLabel)>, ToolError> {
        let failed = |error: io::Error| self.failed("listed", &error);
        let mut keys = Vec::new();
        for path in self.files().map_err(failed)? {
            if let Some((head, _)) = self.read(&path, 0).map_err(failed)?
                && head.key.starts_with(prefix)
            {
                keys.push((head.key, head.label));
            }
        }
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(keys)
    }

    /// Returns the number and the total size of the values.
    pub fn size(&self) -> io::Result<StorageSize> {
        let mut size = StorageSize::default();
        for path in self.files()? {
            if let Ok(meta) = std::fs::symlink_metadata(path) {
                size.values += 1;
                size.bytes += meta.len();
            }
        }
        Ok(size)
    }

    /// Returns the files with derived data, each with its size in bytes.
    fn derived_files(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for path in self.files()? {
            if let Some((head, _)) = self.read(&path, 0)?
                && head.key.starts_with(DERIVED)
            {
                let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
                files.push((path, bytes));
            }
        }
        Ok(files)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:x}", Sha256::digest(key)))
    }

    /// Returns the files of values. Other files in the folder are ignored.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        self.reject_links()?;
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let is_value_name =
                |name: &str| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit());
            if name.is_some_and(is_value_name) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Reads the header of a file and up to `max_value` bytes of the value. Returns `None` if the file does not exist
    /// or is not valid.
    fn read(&self, path: &Path, max_value: u64) -> io::Result<Option<(ValueHeader, Vec<u8>)>> {
        self.reject_links()?;
        let mut attempts = (0..OPEN_ATTEMPTS).map(|_| files::open(path, LinkPolicy::Refuse));
        // Another call may replace the value at the same time.
        let is_replaced = |error: &io::Error| error.kind() == ErrorKind::Interrupted;
        let file = match attempts.find(|file| !file.as_ref().is_err_and(is_replaced)) {
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Some(file) => file?,
            None => return Err(ErrorKind::Interrupted.into()),
        };
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, HEAD_MAX + max_value), &mut bytes)?;
        let head = bytes.iter().position(|byte| *byte == b'\n');
        let head = head.and_then(|end| {
            let head: ValueHeader = serde_json::from_slice(&bytes[..end]).ok()?;
            Some((end, head))
        });
        let Some((end, head)) = head.filter(|(_, head)| self.file(&head.key) == path) else {
            tracing::warn!(file = %path.display(), "the stored value cannot be read, and is ignored");
            return Ok(None);
        };
        bytes.drain(..=end);
        Ok(Some((head, bytes)))
    }

    /// Writes a file atomically. Call only while holding the lock.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let new = self.folder.join("new");
        let mut options = OpenOptions::new();
        options.write(true).truncate(true);
        let written = files::open_private(&new, &mut options).and_then(|mut file| {
            file.write_all(content)?;
            // Synced before the rename: otherwise, a crash could leave the new name without its content.
            file.sync_data()
        });
        let written = written.and_then(|()| std::fs::rename(&new, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    /// Locks the folder against changes by other calls. Waits for the lock.
    fn lock_folder(&self) -> io::Result<File> {
        let file = files::open_private(&self.folder.join("turn"), OpenOptions::new().write(true))?;
        file.lock()?;
        Ok(file)
    }

    /// Rejects links: a checkout may contain a link in place of the folder, which could lead anywhere.
    fn reject_links(&self) -> io::Result<()> {
        files::reject_links(&self.workspace, &self.folder)
    }

    fn prepare(&self) -> io::Result<()> {
        self.reject_links()?;
        files::make_state(&self.workspace)?;
        platform::create_private_folder(&self.folder, true)
    }

    fn failed(&self, what: &str, error: &io::Error) -> ToolError {
        let (code, remedy) = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                (ToolErrorCode::LimitExceeded, "free some space")
            }
            _ => (
                ToolErrorCode::Unavailable,
                "`mimir doctor` checks the folder",
            ),
        };
        let message =
            format!("the stored values of the tool cannot be {what} in {FOLDER}: {error}");
        ToolError::new(code, text::visible(&message)).with_remedies([remedy.to_owned()])
    }
}

fn check_key(key: &str) -> Result<(), ToolError> {
    if key.is_empty() || key.len() > KEY_MAX {
        let message = format!(
            "a key must have 1 to {KEY_MAX} bytes, this one has {}",
            key.len()
        );
        return Err(ToolError::new(ToolErrorCode::InvalidInput, message));
    }
    Ok(())
}

fn check_length(value: &StoredValue) -> Result<(), ToolError> {
    if value.bytes.len() <= VALUE_MAX {
        return Ok(());
    }
    Err(limit(format!(
        "a value of {} is too long to be stored: use at most {} per value, and split longer data",
        text::bytes(value.bytes.len() as u64),
        text::bytes(VALUE_MAX as u64),
    )))
}

/// Returns the label assumed for an unreadable mark.
fn unreadable_label() -> ContentLabel {
    ContentLabel::worst("a mark that cannot be read")
}

fn limit(message: String) -> ToolError {
    ToolError::new(ToolErrorCode::LimitExceeded, message)
}

#[cfg(test)]
mod tests;
