//! Files of the folders `workers`, `prompts` and `skills`.

use std::io;
use std::path::Path;

use mimir_agent::{Worker, WorkerSettings};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::file_error::file_error;
use crate::settings::{check_yaml_text, config_key_lines, explain};

/// Folder of the workers.
pub const WORKERS: &str = "workers";

/// Folder of the prompts.
pub const PROMPTS: &str = "prompts";

/// Folder of the skills.
pub const SKILLS: &str = "skills";

/// Maximum size of one of these files in bytes.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Maximum number of files in one folder.
const MAX_FILES: usize = 2_000;

/// Maximum depth of folders.
const MAX_DEPTH: usize = 12;

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFile {
    /// Path below the folder, with `/` between components.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Reads all files below `folder`, sorted by path. Files and folders whose name begins with a dot are left out. A missing
/// folder has no files.
///
/// # Errors
///
/// Fails if there is a link, which could publish a private file of the administrator, or a name that not every platform
/// can write.
pub fn read_content(folder: &Path) -> Result<Vec<ContentFile>, ToolError> {
    let mut found = Vec::new();
    if folder.symlink_metadata().is_ok() {
        walk(folder, "", 0, &mut found)?;
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn walk(
    folder: &Path,
    below: &str,
    depth: usize,
    found: &mut Vec<ContentFile>,
) -> Result<(), ToolError> {
    let fault = |path: &Path, text: &str| {
        let shown = visible(&path.display().to_string());
        ToolError::new(ToolErrorCode::InvalidPath, format!("{shown} {text}"))
    };
    if folder.is_symlink() {
        return Err(fault(folder, "is a link; replace it by a folder"));
    }
    if depth > MAX_DEPTH {
        return Err(fault(
            folder,
            "is nested too deeply: at most 12 folders are supported",
        ));
    }
    let read = |error: io::Error| file_error("read", folder, &error);
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_portable(name)) else {
            return Err(fault(
                &path,
                "cannot be published: file names may contain the letters a-z, digits, `-`, `_` and `.`",
            ));
        };
        if name.starts_with('.') {
            continue;
        }
        let below = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry
            .file_type()
            .map_err(|error| file_error("read", &path, &error))?;
        if kind.is_symlink() {
            return Err(fault(
                &path,
                "is a link; replace it by a file, so that nothing outside of the folder is published",
            ));
        }
        if kind.is_dir() {
            walk(&path, &below, depth + 1, found)?;
            continue;
        }
        let bytes = files::read(&path, LinkPolicy::Refuse, MAX_FILE_SIZE)
            .map_err(|error| file_error("read", &path, &error))?;
        if bytes.is_empty() {
            return Err(fault(
                &path,
                "is empty, which a bundle cannot contain; remove it, or write a comment into it",
            ));
        }
        if found.len() == MAX_FILES {
            return Err(fault(
                folder,
                "has too many files: at most 2000 are supported",
            ));
        }
        found.push(ContentFile { path: below, bytes });
    }
    Ok(())
}

/// Checks that members can use a file of `workers` or `prompts`: that it is text, and that a worker is valid.
pub fn check_text_file(kind: &str, file: &ContentFile) -> Result<(), ToolError> {
    if kind == SKILLS {
        return Ok(());
    }
    let shown = format!("{kind}/{}", file.path);
    let text = std::str::from_utf8(&file.bytes)
        .map_err(|_| ToolError::invalid_input(format!("{shown} is not UTF-8")))?;
    let Some(name) = file.path.strip_suffix(".yml").filter(|_| kind == WORKERS) else {
        return Ok(());
    };
    let settings: WorkerSettings = serde_yaml::from_str(check_yaml_text(&shown, text)?)
        .map_err(|error| explain(&shown, &error))?;
    let worker = Worker::new(name, &shown, config_key_lines(text), settings);
    let fault = |(key, why)| ToolError::invalid_input(format!("{shown}: {key}: {why}"));
    worker.map(drop).map_err(fault)
}

/// Returns true if every platform can write a file of this name.
fn is_portable(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    name.bytes().all(good) && !name.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn team_content_is_sorted_without_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("skills");
        assert_eq!(read_content(&root).unwrap(), []);
        std::fs::create_dir_all(root.join("review/scripts")).unwrap();
        for (path, text) in [
            ("review/SKILL.md", "b"),
            ("review/scripts/a.py", "c"),
            (".gitkeep", ""),
            ("a.md", "a"),
        ] {
            std::fs::write(root.join(path), text).unwrap();
        }
        let bad = root.join("empty.md");
        std::fs::write(&bad, "").unwrap();
        assert!(read_content(&root).is_err());
        std::fs::remove_file(bad).unwrap();
        let read = read_content(&root).unwrap();
        let paths: Vec<&str> = read.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.md", "review/SKILL.md", "review/scripts/a.py"]);
        assert_eq!(read[2].bytes, b"c");
    }

    #[test]
    fn team_workers_and_prompts_are_checked() {
        let check = |kind: &str, path: &str, bytes: &[u8]| {
            let file = ContentFile {
                path: path.to_owned(),
                bytes: bytes.to_vec(),
            };
            check_text_file(kind, &file)
        };
        let worker = b"model: local/small\ninstructions: Review the change.\n";
        check(WORKERS, "reviewer.yml", worker).unwrap();
        let error = check(WORKERS, "reviewer.yml", b"instructins: x\n").unwrap_err();
        assert!(error.message.contains("workers/reviewer.yml"), "{error}");
        assert!(check(PROMPTS, "hello.md", b"\xff").is_err());
        check(PROMPTS, "hello.md", "Grüße".as_bytes()).unwrap();
        check(SKILLS, "a/picture.png", b"\xff").unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn team_content_publishes_no_linked_file() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("id_ed25519");
        std::fs::write(&secret, "secret").unwrap();
        let root = dir.path().join("prompts");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&secret, root.join("hello.md")).unwrap();
        let error = read_content(&root).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidPath);
        assert!(error.message.contains("is a link"), "{}", error.message);
        std::fs::remove_file(root.join("hello.md")).unwrap();
        let linked = dir.path().join("workers");
        std::os::unix::fs::symlink(dir.path(), &linked).unwrap();
        assert_eq!(
            read_content(&linked).unwrap_err().code,
            ToolErrorCode::InvalidPath
        );
    }
}
