//! Logs of the servers of a workspace: their stderr and their starts and failures, in bounded files in the user's cache
//! folder.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use sha2::{Digest, Sha256};

use crate::approval_store;
use crate::private_files;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Size in bytes at which a log is renamed, and a new one begun. The renamed log is kept until the next time.
const MAX_LOG_SIZE: u64 = 1 << 20;

/// Maximum number of bytes that are read at once.
const MAX_READ: u64 = 2 * MAX_LOG_SIZE;

/// Maximum length in bytes of an encoded name of a server; the hash of a longer one is used instead.
const MAX_NAME_LENGTH: usize = 128;

/// The logs of the servers of a workspace.
#[derive(Debug, Clone)]
pub struct ServerLogs {
    folder: PathBuf,
}

/// A part of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogExcerpt {
    /// Complete lines, with control characters escaped.
    pub lines: Vec<String>,
    /// Position at which to read on.
    pub next: LogPosition,
}

/// Position in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPosition {
    offset: u64,
    /// The beginning of the file, which identifies it after it was renamed.
    beginning: FileBeginning,
}

/// The first bytes of a log: the time and the process of the first line. Zeros stand for a shorter file.
type FileBeginning = [u8; BEGINNING_LENGTH];

/// Number of bytes that identify a log.
const BEGINNING_LENGTH: usize = 32;

impl ServerLogs {
    /// Returns the logs of a workspace. `None` on platforms without a cache folder.
    pub fn new(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<Self> {
        let folder = user_dirs.cache.as_ref()?.join("mcp").join("logs");
        Some(Self {
            folder: folder.join(approval_store::workspace_key(workspace)),
        })
    }

    /// Returns the path of the log of a server.
    pub fn path(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{}.log", file_name(server)))
    }

    fn previous(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{}.log.1", file_name(server)))
    }

    /// Appends a line. A failure does not affect the server.
    pub fn append(&self, server: &str, line: &str) {
        if let Err(error) = self.try_append(server, line) {
            tracing::debug!(server, %error, "cannot write the log of the server");
        }
    }

    fn try_append(&self, server: &str, line: &str) -> io::Result<()> {
        let path = self.path(server);
        private_files::private_folder(&self.folder)?;
        let is_full = |path: &Path| {
            std::fs::symlink_metadata(path).is_ok_and(|meta| meta.len() > MAX_LOG_SIZE)
        };
        if is_full(&path) {
            let _lock = private_files::lock_for_change(&path)?;
            // Another process may have renamed it meanwhile.
            if is_full(&path) {
                std::fs::rename(&path, self.previous(server))?;
            }
        }
        let mut file = files::open_private(&path, OpenOptions::new().append(true))?;
        let time = format!("{:.3}", Timestamp::now());
        let process = std::process::id();
        // One write, so that lines of several processes do not mix.
        file.write_all(format!("{time} [{process}] {}\n", visible(line)).as_bytes())
    }

    /// Returns the last `count` lines of a server's log.
    pub fn last_lines(&self, server: &str, count: usize) -> io::Result<LogExcerpt> {
        let current = read_from(&self.path(server), 0)?;
        let mut lines = current.lines;
        if lines.len() < count {
            let mut earlier = read_from(&self.previous(server), 0)?.lines;
            earlier.append(&mut lines);
            lines = earlier;
        }
        Ok(LogExcerpt {
            lines: lines.split_off(lines.len().saturating_sub(count)),
            next: current.next,
        })
    }

    /// Returns the lines after a position. After a new log was begun, returns the rest of the renamed log, and the lines
    /// of the new one.
    pub fn lines_after(&self, server: &str, position: LogPosition) -> io::Result<LogExcerpt> {
        let path = self.path(server);
        let current = read_from(&path, position.offset)?;
        let is_same = current.next.beginning == position.beginning;
        if position.offset == 0 || is_same {
            return Ok(current);
        }
        let rest = read_from(&self.previous(server), position.offset)?;
        let is_renamed = rest.next.beginning == position.beginning;
        let mut lines = if is_renamed { rest.lines } else { Vec::new() };
        let current = read_from(&path, 0)?;
        lines.extend(current.lines);
        Ok(LogExcerpt {
            lines,
            next: current.next,
        })
    }
}

/// Encodes the name of a server as one component of a path: a name in hand-written settings may contain `/` or `..`.
/// Valid names that do not begin with `.` stay the same.
pub(crate) fn file_name(server: &str) -> String {
    if server.is_empty() {
        return "%".to_owned();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut encoded = String::new();
    for byte in server.bytes() {
        if is_plain(byte) || (byte == b'.' && !encoded.is_empty()) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    if encoded.len() > MAX_NAME_LENGTH {
        return format!("{:x}", Sha256::digest(server.as_bytes()));
    }
    encoded
}

/// Reads the complete lines from `offset` on. A missing file is empty.
fn read_from(path: &Path, offset: u64) -> io::Result<LogExcerpt> {
    let mut file = match files::open(path, LinkPolicy::Refuse) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LogExcerpt::default()),
        Err(error) => return Err(error),
    };
    let mut beginning = [0; BEGINNING_LENGTH];
    if file.read_exact(&mut beginning).is_err() {
        beginning = [0; BEGINNING_LENGTH];
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(end.map_or(0, |end| end + 1));
    let offset = offset + bytes.len() as u64;
    let text = String::from_utf8_lossy(&bytes);
    Ok(LogExcerpt {
        lines: text.lines().map(visible).collect(),
        next: LogPosition { offset, beginning },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_log_stays_in_its_folder_for_every_name() {
        let folder = PathBuf::from("logs");
        let logs = ServerLogs {
            folder: folder.clone(),
        };
        assert_eq!(logs.path("a-b_C1"), folder.join("a-b_C1.log"));
        assert_eq!(logs.path("a.b"), folder.join("a.b.log"));
        assert_eq!(file_name(".."), "%2E.");
        assert_eq!(file_name("../a"), "%2E.%2Fa");
        let long = "x/".repeat(1_000);
        for name in [
            "",
            "..",
            "../../evil",
            "/etc/evil",
            "C:\\evil",
            "a\0b",
            long.as_str(),
        ] {
            for path in [logs.path(name), logs.previous(name)] {
                assert_eq!(path.parent(), Some(folder.as_path()), "{name}");
                assert!(path.as_os_str().len() < 200, "{name}");
            }
        }
    }

    #[test]
    fn server_log_is_bounded_and_read_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ServerLogs {
            folder: folder.path().join("logs"),
        };
        assert!(logs.last_lines("s", 10).unwrap().lines.is_empty());
        logs.append("s", "first\u{1b}[2J");
        let first = logs.last_lines("s", 10).unwrap();
        assert_eq!(first.lines.len(), 1);
        assert!(first.lines[0].contains("first") && !first.lines[0].contains('\u{1b}'));
        let long = "x".repeat(100 << 10);
        for _ in 0..40 {
            logs.append("s", &long);
        }
        logs.append("s", "last");
        let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        let limit = MAX_LOG_SIZE + (101 << 10);
        assert!(size(logs.path("s")) <= limit && size(logs.previous("s")) <= limit);
        assert!(size(logs.previous("s")) > 0);
        let last = logs.last_lines("s", 15).unwrap();
        assert_eq!(last.lines.len(), 15);
        assert!(last.lines[14].ends_with(" last"));
        assert!(logs.lines_after("s", last.next).unwrap().lines.is_empty());
        logs.append("s", "later");
        assert_eq!(logs.lines_after("s", last.next).unwrap().lines.len(), 1);
    }

    #[test]
    fn server_log_is_followed_into_the_next_file() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ServerLogs {
            folder: folder.path().join("logs"),
        };
        logs.append("s", "first");
        let position = logs.last_lines("s", 10).unwrap().next;
        logs.append("s", "second");
        logs.append("s", &"x".repeat(1 + MAX_LOG_SIZE as usize));
        logs.append("s", "third");
        assert!(logs.previous("s").exists());
        // The new log is longer than the position in the old one.
        logs.append("s", &"y".repeat(1_000));
        let later = logs.lines_after("s", position).unwrap();
        let ends = |text: &str| later.lines.iter().any(|line| line.ends_with(text));
        assert!(ends(" second") && ends(" third") && !ends(" first"));
        assert_eq!(later.lines.len(), 4);
        assert!(logs.lines_after("s", later.next).unwrap().lines.is_empty());
    }
}
