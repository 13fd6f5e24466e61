//! Files of the folders `workers`, `prompts` and `skills`.

use std::io;
use std::path::Path;

use mimir_agent::{Worker, WorkerSettings};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::file_error::file_error;
use crate::settings::{check_yaml_text, config_key_lines, explain};
use crate::skills::{SKILL_FILE, SkillDocument};

use super::content_guides::GUIDE;

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

/// Files of one of the folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderContent {
    /// The files to publish, sorted by path.
    pub files: Vec<ContentFile>,
    /// Paths of hidden files and of backups, which are not published, sorted.
    pub left_out: Vec<String>,
}

/// Reads all files below `folder`. Hidden files, backups of editors and the guide of the folder are left out. A missing folder
/// has no files.
///
/// # Errors
///
/// Fails if there is a link, which could publish a private file of the administrator, or a name that not every platform
/// can write.
pub fn read_content(folder: &Path) -> Result<FolderContent, ToolError> {
    let mut found = FolderContent::default();
    if folder.symlink_metadata().is_ok() {
        walk(folder, "", 0, &mut found)?;
    }
    found.files.sort_by(|one, other| one.path.cmp(&other.path));
    found.left_out.sort();
    Ok(found)
}

/// Returns true for hidden files, backups of editors, and files that file managers write.
fn is_stray(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let endings = ["~", ".bak", ".orig", ".rej", ".swp", ".swo", ".tmp"];
    name.starts_with(['.', '#'])
        || endings.iter().any(|ending| lower.ends_with(ending))
        || ["thumbs.db", "desktop.ini"].contains(&&*lower)
}

fn walk(
    folder: &Path,
    below: &str,
    depth: usize,
    found: &mut FolderContent,
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
        let lossy = name.to_string_lossy();
        // Written by `mimir team init`, for the administrator.
        if depth == 0 && [GUIDE, ".gitkeep"].contains(&&*lossy) {
            continue;
        }
        if is_stray(&lossy) {
            found.left_out.push(join(below, &visible(&lossy)));
            continue;
        }
        let Some(name) = name.to_str().filter(|name| is_portable(name)) else {
            return Err(fault(
                &path,
                "cannot be published: file names may contain the letters a-z, digits, `-`, `_` and `.`",
            ));
        };
        let below = join(below, name);
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
        if found.files.len() == MAX_FILES {
            return Err(fault(
                folder,
                "has too many files: at most 2000 are supported",
            ));
        }
        found.files.push(ContentFile { path: below, bytes });
    }
    Ok(())
}

fn join(below: &str, name: &str) -> String {
    if below.is_empty() {
        name.to_owned()
    } else {
        format!("{below}/{name}")
    }
}

/// Checks that members can use a file: that workers and prompts are text, and that workers and skills are valid.
pub fn check_file(kind: &str, file: &ContentFile) -> Result<(), ToolError> {
    if kind == SKILLS {
        return check_skill_file(file);
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

/// Checks a file of a skill. Members refuse a skill whose `SKILL.md` is not valid, or has another name than its folder.
fn check_skill_file(file: &ContentFile) -> Result<(), ToolError> {
    let shown = format!("{SKILLS}/{}", file.path);
    let Some((folder, below)) = file.path.split_once('/') else {
        let message =
            format!("{shown} does not belong to a skill: expected {SKILLS}/NAME/{SKILL_FILE}");
        let remedy = format!("move it to the folder of its skill, or out of `{SKILLS}`");
        return Err(ToolError::invalid_input(message).with_remedies([remedy]));
    };
    if below != SKILL_FILE {
        return Ok(());
    }
    let document = SkillDocument::parse(&file.bytes).map_err(|error| {
        ToolError::new(error.code, format!("{shown}: {}", error.message))
            .with_remedies(error.remedies)
    })?;
    if document.name == folder {
        return Ok(());
    }
    Err(ToolError::invalid_input(format!(
        "{shown}: the name `{}` is not that of its folder, `{folder}`",
        visible(&document.name)
    )))
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
        assert_eq!(read_content(&root).unwrap(), FolderContent::default());
        std::fs::create_dir_all(root.join("review/scripts")).unwrap();
        for (path, text) in [
            ("review/SKILL.md", "b"),
            ("review/scripts/a.py", "c"),
            (".gitkeep", ""),
            ("README.md", "guide"),
            ("a.md", "a"),
            (".DS_Store", "x"),
            ("review/SKILL.md~", "x"),
            ("review/#SKILL.md#", "x"),
            ("review/.SKILL.md.swp", "x"),
            ("review/scripts/a.py.BAK", "x"),
            ("review/scripts/Thumbs.db", "x"),
            ("review/README.md", "d"),
        ] {
            std::fs::write(root.join(path), text).unwrap();
        }
        let bad = root.join("empty.md");
        std::fs::write(&bad, "").unwrap();
        assert!(read_content(&root).is_err());
        std::fs::remove_file(bad).unwrap();
        let read = read_content(&root).unwrap();
        let paths = read.files.iter().map(|file| file.path.as_str());
        let expected = [
            "a.md",
            "review/README.md",
            "review/SKILL.md",
            "review/scripts/a.py",
        ];
        assert_eq!(paths.collect::<Vec<_>>(), expected);
        assert_eq!(read.files[3].bytes, b"c");
        let left_out = [
            ".DS_Store",
            "review/#SKILL.md#",
            "review/.SKILL.md.swp",
            "review/SKILL.md~",
            "review/scripts/Thumbs.db",
            "review/scripts/a.py.BAK",
        ];
        assert_eq!(read.left_out, left_out);
    }

    #[test]
    fn team_workers_and_prompts_are_checked() {
        let check = |kind: &str, path: &str, bytes: &[u8]| {
            let file = ContentFile {
                path: path.to_owned(),
                bytes: bytes.to_vec(),
            };
            check_file(kind, &file)
        };
        let worker = b"model: local/small\ninstructions: Review the change.\n";
        check(WORKERS, "reviewer.yml", worker).unwrap();
        let error = check(WORKERS, "reviewer.yml", b"instructins: x\n").unwrap_err();
        assert!(error.message.contains("workers/reviewer.yml"), "{error}");
        assert!(check(PROMPTS, "hello.md", b"\xff").is_err());
        check(PROMPTS, "hello.md", "Grüße".as_bytes()).unwrap();
        check(SKILLS, "a/picture.png", b"\xff").unwrap();
        let skill = b"---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n";
        check(SKILLS, "notes/SKILL.md", skill).unwrap();
        for (path, text, wanted) in [
            ("other/SKILL.md", &skill[..], "not that of its folder"),
            ("notes/SKILL.md", b"Write.\n", "skills/notes/SKILL.md: "),
            ("notes.md", b"Write.\n", "does not belong to a skill"),
        ] {
            let error = check(SKILLS, path, text).unwrap_err();
            assert!(error.message.contains(wanted), "{error}");
        }
    }

    #[test]
    fn team_guides_have_valid_examples() {
        for (kind, path, language) in [
            (WORKERS, "review.yml", "yaml"),
            (PROMPTS, "standup.md", "markdown"),
            (SKILLS, "release-notes/SKILL.md", "markdown"),
        ] {
            let guide = super::super::content_guides::guide(kind).unwrap();
            assert!(guide.contains(&format!("Example, `{path}`")), "{guide}");
            let start = format!("```{language}\n");
            let (_, example) = guide.split_once(&start).unwrap();
            let (example, _) = example.split_once("```").unwrap();
            let file = ContentFile {
                path: path.to_owned(),
                bytes: example.as_bytes().to_vec(),
            };
            check_file(kind, &file).unwrap();
        }
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
