//! Digests and texts of workspace files.

use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use mimir_core::backend::RealPath;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::paths::PathRules;
use mimir_core::{ToolError, ToolErrorCode};
use sha2::{Digest, Sha256};

use super::real_path::real_path;
use super::resolve::GuestPath;

/// Maximum size of a hashed file in bytes.
const MAX_HASHED: u64 = 256 << 20;

/// Placeholder digest of a missing file, and of a directory.
const MISSING: &str = "missing";

/// Returns the sha256 in hex of the file at a path below `root`, following links; `missing` for a missing file or a
/// directory. `None` if the file is outside of `root`, too large, or cannot be read.
pub fn content_digest(root: &Path, path: &str) -> Option<String> {
    let leads_outside =
        |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || Path::new(path).components().any(leads_outside) {
        return None;
    }
    let root = root.canonicalize().ok()?;
    let real = match root.join(path).canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(MISSING.to_owned()),
        real => real.ok().filter(|real| real.starts_with(&root))?,
    };
    if real.is_dir() {
        return Some(MISSING.to_owned());
    }
    let mut file = files::open(&real, LinkPolicy::Refuse).ok()?;
    if file.metadata().ok()?.len() > MAX_HASHED {
        return None;
    }
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).ok()?;
    Some(format!("{:x}", hash.finalize()))
}

/// Maximum size of a text file in bytes, the same as for editing.
const MAX_TEXT: u64 = 16 << 20;

/// Reads the text file at a path below `root`, following links that stay inside. `None` if it is missing, not text, too
/// large, outside of `root` or hidden by a rule.
pub fn read_text(root: &Path, path: &str, rules: &PathRules) -> Option<String> {
    let real = match real_path(root, path) {
        RealPath::AsWritten => normalize_path(path)?,
        RealPath::Other(path) => path,
        RealPath::Outside => return None,
    };
    if rules.check(&real).against_reading().is_some() {
        return None;
    }
    files::read_text(&root.join(real), LinkPolicy::Refuse, MAX_TEXT).ok()
}

/// Reads the file at a path below `root`, following links that stay inside.
///
/// # Errors
///
/// Returns `INVALID_PATH` for a path outside of `root`, `PERMISSION_DENIED` for one that is hidden by a rule,
/// `FILE_NOT_FOUND` for a missing file, and `LIMIT_EXCEEDED` for one with more than `max` bytes.
pub fn read_bytes(
    root: &Path,
    path: &str,
    rules: &PathRules,
    max: u64,
) -> Result<Vec<u8>, ToolError> {
    let shown = mimir_core::text::visible(path);
    let outside = || {
        let message = format!("`{shown}` is outside of the workspace");
        ToolError::new(ToolErrorCode::InvalidPath, message)
    };
    let real = match real_path(root, path) {
        RealPath::AsWritten => normalize_path(path).ok_or_else(outside)?,
        RealPath::Other(path) => path,
        RealPath::Outside => return Err(outside()),
    };
    if rules.check(&real).against_reading().is_some() {
        let message = format!("no tool may read `{shown}`");
        return Err(ToolError::permission_denied(message));
    }
    files::read(&root.join(real), LinkPolicy::Refuse, max).map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound => ToolErrorCode::FileNotFound,
            ErrorKind::FileTooLarge => ToolErrorCode::LimitExceeded,
            _ => ToolErrorCode::ExecutionError,
        };
        ToolError::new(code, format!("cannot read `{shown}`: {error}"))
    })
}

/// Removes `.` and `..` from a path. `None` if the path is not valid or leads out of the root.
fn normalize_path(path: &str) -> Option<String> {
    let written = GuestPath::parse(path).ok()?;
    let mut parts: Vec<&str> = Vec::new();
    for part in &written.parts {
        match *part {
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_within_the_workspace_and_its_rules() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a.txt"), "plain").unwrap();
        std::fs::write(folder.path().join("b.bin"), [0xff, 0xfe]).unwrap();
        std::fs::write(folder.path().join(".env"), "X=1").unwrap();
        let at = |path: &str| read_text(folder.path(), path, &PathRules::protected());
        assert_eq!(at("sub/a.txt").as_deref(), Some("plain"));
        assert_eq!(at("./sub/../sub//a.txt").as_deref(), Some("plain"));
        for path in ["b.bin", ".env", "sub", "none", "../x", "/etc/hosts", ""] {
            assert_eq!(at(path), None, "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("sub/a.txt", folder.path().join("link")).unwrap();
            std::os::unix::fs::symlink("/etc/hosts", folder.path().join("out")).unwrap();
            std::os::unix::fs::symlink(".env", folder.path().join("hidden")).unwrap();
            assert_eq!(at("link").as_deref(), Some("plain"));
            assert_eq!(at("out"), None);
            assert_eq!(at("hidden"), None);
        }
    }

    #[test]
    fn content_digest_depends_on_content_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| content_digest(folder.path(), path);
        assert_eq!(at("a").as_deref(), Some(MISSING));
        std::fs::write(folder.path().join("a"), "x").unwrap();
        std::fs::write(folder.path().join("b"), "x").unwrap();
        let first = at("a");
        assert!(first.as_deref().is_some_and(|name| name.len() == 64));
        assert_eq!(first, at("b"));
        std::fs::write(folder.path().join("a"), "y").unwrap();
        assert_ne!(first, at("a"));
        assert_eq!(at(""), None);
        assert_eq!(at("../a"), None);
        assert_eq!(at("."), Some(MISSING.to_owned()));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("b", folder.path().join("link")).unwrap();
            std::os::unix::fs::symlink("/etc/hosts", folder.path().join("out")).unwrap();
            assert_eq!(at("link"), first);
            assert_eq!(at("out"), None);
        }
    }
}
