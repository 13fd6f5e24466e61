//! The files of a skill in memory, within limits, with the digest that the lock file pins.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use mimir_core::files;
use mimir_core::paths::{PathRule, PathRuleLayer, PathRules, windows_name_rule};
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use sha2::{Digest, Sha256};

use super::skill_document::{SKILL_FILE, SkillDocument};
use crate::file_error::file_error;

/// Maximum number of files of a skill, as the skills extension of MCP sets it.
pub const MAX_FILES: usize = 512;

/// Maximum total size of the files of a skill in bytes, as the skills extension of MCP sets it.
pub const MAX_TOTAL_SIZE: u64 = 16 << 20;

/// Maximum number of files and folders that are looked at.
const MAX_ENTRIES: usize = 2_000;

/// Maximum number of folders between the skill's folder and a file.
const MAX_DEPTH: usize = 8;

/// Maximum length of a path below the skill's folder in bytes.
const MAX_PATH: usize = 200;

/// Entries that are no part of a skill when a folder is added.
const LEFT_OUT: [&str; 3] = [".git", ".DS_Store", "node_modules"];

/// The files of a skill, by their path below its folder with `/` between components.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillFiles {
    files: BTreeMap<String, SkillFile>,
    /// The paths and folders in the form in which file systems compare them.
    folded: BTreeSet<String>,
    size: u64,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SkillFile {
    bytes: Vec<u8>,
    is_executable: bool,
}

/// The state that a copy of a skill on this machine must have: its paths and contents, and its modes where files have some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SkillFilesState {
    digest: String,
    executables: Vec<String>,
}

impl SkillFilesState {
    /// Returns true if these files are such a copy. Further executable files do not matter: on some file systems every
    /// file is executable.
    pub(super) fn is_met_by(&self, found: &SkillFiles) -> bool {
        let mut executables = self.executables.iter();
        self.digest == found.digest() && executables.all(|path| found.is_executable(path))
    }
}

impl SkillFiles {
    /// Reads the folder `path` below `root`. Fails for links and special files, and beyond the limits.
    pub fn read(root: &Path, folder: &str) -> Result<Self, ToolError> {
        let path = root.join(folder);
        files::reject_links(root, &path)
            .map_err(|error| refused(format!("{}: {error}", visible(folder))))?;
        let mut skill = Self::default();
        skill.read_folder(&path, "", &[], &mut 0)?;
        Ok(skill)
    }

    /// Reads a folder that a person has named, without the files of git and the like.
    pub fn read_source(folder: &Path) -> Result<Self, ToolError> {
        let mut skill = Self::default();
        skill.read_folder(folder, "", &LEFT_OUT, &mut 0)?;
        Ok(skill)
    }

    fn read_folder(
        &mut self,
        folder: &Path,
        below: &str,
        skip: &[&str],
        entries: &mut usize,
    ) -> Result<(), ToolError> {
        let failed = |error| file_error("read", folder, &error);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            *entries += 1;
            if *entries > MAX_ENTRIES {
                return Err(ToolError::limit_exceeded(format!(
                    "the skill has more than {MAX_ENTRIES} files and folders"
                )));
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(refused(format!(
                    "the file name {} is not valid UTF-8",
                    visible(&name.to_string_lossy())
                )));
            };
            if skip.contains(&name) {
                continue;
            }
            let path = match below {
                "" => name.to_owned(),
                _ => format!("{below}/{name}"),
            };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                check_path(&path)?;
                self.read_folder(&entry.path(), &path, skip, entries)?;
            } else if kind.is_file() {
                let metadata = entry.metadata().map_err(failed)?;
                // Before the file is read, so that no huge file is.
                self.check_room(&path, metadata.len())?;
                let parts: Vec<&str> = name.split('/').collect();
                let bytes = files::read_below(folder, &parts, MAX_TOTAL_SIZE);
                let bytes = bytes.map_err(|error| file_error("read", &entry.path(), &error))?;
                self.insert_file(&path, bytes, is_executable(&metadata))?;
            } else {
                return Err(refused(format!(
                    "`{}` is a link or a special file: a skill consists of regular files only",
                    visible(&path)
                )));
            }
        }
        Ok(())
    }

    /// Adds a file from a source without file modes. It is executable if it begins with `#!`. Fails like
    /// [`Self::insert_file`].
    pub fn insert(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), ToolError> {
        let is_script = bytes.starts_with(b"#!");
        self.insert_file(path, bytes, is_script)
    }

    /// Adds a file. Fails if the path leaves the folder or names a file twice, and beyond the limits.
    pub fn insert_file(
        &mut self,
        path: &str,
        bytes: Vec<u8>,
        is_executable: bool,
    ) -> Result<(), ToolError> {
        check_path(path)?;
        self.check_room(path, bytes.len() as u64)?;
        let folded = path.to_lowercase();
        let is_folder = |known: &String| known.starts_with(&format!("{folded}/"));
        let below_file = folded
            .match_indices('/')
            .any(|(at, _)| self.folded.contains(&folded[..at]));
        if self.folded.contains(&folded) || below_file || self.folded.iter().any(is_folder) {
            return Err(refused(format!(
                "`{}` is there twice, at least on file systems that ignore case",
                visible(path)
            )));
        }
        self.folded.insert(folded);
        self.size += bytes.len() as u64;
        let file = SkillFile {
            bytes,
            is_executable,
        };
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// Fails if another file of this size exceeds the limits.
    pub fn check_room(&self, path: &str, size: u64) -> Result<(), ToolError> {
        if self.files.len() >= MAX_FILES {
            return Err(ToolError::limit_exceeded(format!(
                "the skill has more than {MAX_FILES} files"
            )));
        }
        if self.size.saturating_add(size) > MAX_TOTAL_SIZE {
            return Err(ToolError::limit_exceeded(format!(
                "with `{}`, the skill is larger than {}",
                visible(prefix(path, MAX_PATH)),
                mimir_core::text::bytes(MAX_TOTAL_SIZE)
            )));
        }
        Ok(())
    }

    /// Returns the files, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.files.iter();
        files.map(|(path, file)| (path.as_str(), file.bytes.as_slice()))
    }

    /// Returns the content of a file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(|file| file.bytes.as_slice())
    }

    /// Returns true if the file may be started by its path. Always false for files that were read on Windows.
    pub fn is_executable(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.is_executable)
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns true without files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the total size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns sha256 over the paths and contents of all files, in lower-case hex. File modes are not part of it: a
    /// checkout on Windows has none, and the same skill must match the same lock file everywhere.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, bytes) in self.iter() {
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        format!("{:x}", hash.finalize())
    }

    /// Returns what a copy of these files on this machine must be equal in.
    pub(super) fn state(&self) -> SkillFilesState {
        let executable = self.files.iter().filter(|(_, file)| file.is_executable);
        let executables = match cfg!(unix) {
            true => executable.map(|(path, _)| path.clone()).collect(),
            // Files that are read there have no modes.
            false => Vec::new(),
        };
        SkillFilesState {
            digest: self.digest(),
            executables,
        }
    }

    /// Splits off the files that a published skill must not contain, and returns their paths: hidden files, and files
    /// that the rules for secrets hide.
    #[must_use]
    pub fn without_private_files(mut self) -> (Self, Vec<String>) {
        let rules = PathRules::protected();
        let is_private = |path: &str| {
            let is_secret = |rule: &&PathRule| rule.layer() == PathRuleLayer::Secrets;
            path.split('/').any(|part| part.starts_with('.'))
                || rules
                    .check_file(path)
                    .against_reading()
                    .filter(is_secret)
                    .is_some()
        };
        let private: Vec<String> = (self.files.keys())
            .filter(|path| is_private(path))
            .cloned()
            .collect();
        for path in &private {
            if let Some(file) = self.files.remove(path) {
                self.size -= file.bytes.len() as u64;
            }
            self.folded.remove(&path.to_lowercase());
        }
        (self, private)
    }

    /// Reads and checks `SKILL.md`.
    pub fn document(&self) -> Result<SkillDocument, ToolError> {
        match self.get(SKILL_FILE) {
            Some(bytes) => SkillDocument::parse(bytes),
            None => Err(ToolError::new(
                ToolErrorCode::InvalidInput,
                format!("the folder has no {SKILL_FILE}, so it is not a skill"),
            )),
        }
    }

    /// Moves the files of a single top folder up, for archives that contain the folder of the skill.
    #[must_use]
    pub fn without_top_folder(self) -> Self {
        if self.files.contains_key(SKILL_FILE) {
            return self;
        }
        let mut tops = self.files.keys().filter_map(|path| path.split_once('/'));
        let Some((top, _)) = tops.next() else {
            return self;
        };
        let start = format!("{top}/");
        if !self.files.keys().all(|path| path.starts_with(&start)) {
            return self;
        }
        let cut = |path: &String| path[start.len()..].to_owned();
        Self {
            size: self.size,
            // Folded paths can be longer or shorter than the paths.
            folded: (self.files.keys())
                .map(|path| cut(path).to_lowercase())
                .collect(),
            files: (self.files.iter())
                .map(|(path, file)| (cut(path), file.clone()))
                .collect(),
        }
    }

    /// Writes the files into the new folder `target`: all or nothing. `target` must not exist.
    pub fn write(&self, target: &Path) -> Result<(), ToolError> {
        let failed = |error| file_error("write", target, &error);
        let parent = target.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(parent).map_err(failed)?;
        let staging = tempfile::Builder::new()
            .prefix(".new-skill-")
            .tempdir_in(parent)
            .map_err(failed)?;
        for (path, file) in &self.files {
            let parts: Vec<&str> = path.split('/').collect();
            files::write_below(staging.path(), &parts, &file.bytes).map_err(failed)?;
            if file.is_executable {
                set_mode(&staging.path().join(path), 0o755).map_err(failed)?;
            }
        }
        match std::fs::symlink_metadata(target) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(_) => {
                return Err(ToolError::new(
                    ToolErrorCode::AlreadyExists,
                    format!("{} already exists", visible(&target.display().to_string())),
                ));
            }
        }
        // Temporary folders are readable by their owner only.
        set_mode(staging.path(), 0o755).map_err(failed)?;
        std::fs::rename(staging.path(), target).map_err(failed)?;
        // It was renamed, so nothing is left to remove.
        let _ = staging.keep();
        Ok(())
    }
}

/// Sets the mode of a file or folder, on platforms with modes.
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    let _ = (path, mode);
    Ok(())
}

/// Returns true if the owner may execute the file. Always false on platforms without modes.
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        metadata.permissions().mode() & 0o100 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// Fails if a path of an archive or a folder is not a plain path below the skill's folder on every platform.
fn check_path(path: &str) -> Result<(), ToolError> {
    let is_plain = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.chars().any(|c| c.is_control() || c == '\\')
    };
    let is_valid = path.len() <= MAX_PATH
        && path.split('/').all(is_plain)
        && path.matches('/').count() <= MAX_DEPTH
        && windows_name_rule(path).is_none();
    if is_valid {
        return Ok(());
    }
    Err(refused(format!(
        "`{}` is not a valid path in a skill: expected at most {MAX_DEPTH} folders with plain names and {MAX_PATH} bytes",
        visible(prefix(path, MAX_PATH))
    )))
}

fn refused(message: String) -> ToolError {
    ToolError::new(ToolErrorCode::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_files_reject_paths_that_leave_the_folder() {
        for path in [
            "../a",
            "a/../../b",
            "/etc/passwd",
            "a//b",
            "",
            ".",
            "a/./b",
            "a\\b",
            "C:/x",
            "a:b",
            "con",
            "a/nul.txt",
            "a\u{0}b",
            "a\nb",
            "a/b/c/d/e/f/g/h/i/j",
            &"x".repeat(201),
        ] {
            let error = SkillFiles::default().insert(path, Vec::new()).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{path:?}");
        }
    }

    #[test]
    fn skill_files_reject_duplicates_and_bound_sizes() {
        let mut skill = SkillFiles::default();
        skill.insert("a/b.md", b"1".to_vec()).unwrap();
        for path in ["a/b.md", "A/B.md", "a", "a/b.md/c", "A/b.md/c"] {
            assert!(skill.insert(path, Vec::new()).is_err(), "{path}");
        }
        let error = skill.check_room("c", MAX_TOTAL_SIZE).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        for n in 1..MAX_FILES {
            skill.insert(&format!("f{n}"), Vec::new()).unwrap();
        }
        let error = skill.insert("last", Vec::new()).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
    }

    #[test]
    fn skill_files_digest_separates_names_and_contents() {
        let with = |files: &[(&str, &str)]| {
            let mut skill = SkillFiles::default();
            for (path, text) in files {
                skill.insert(path, text.as_bytes().to_vec()).unwrap();
            }
            skill.digest()
        };
        let digest = with(&[("a", "bc"), ("d", "")]);
        assert_eq!(digest, with(&[("d", ""), ("a", "bc")]));
        for other in [
            with(&[("ab", "c"), ("d", "")]),
            with(&[("a", "bcd")]),
            with(&[("a", "bc")]),
            with(&[("a", "bC"), ("d", "")]),
        ] {
            assert_ne!(digest, other);
        }
    }

    #[test]
    fn published_skill_has_no_hidden_files_and_no_secrets() {
        let mut skill = SkillFiles::default();
        let private = [
            ".env",
            ".git/config",
            "certs/server.pem",
            "prod.env",
            "scripts/.cache/x",
            "scripts/id_rsa",
        ];
        let kept = [SKILL_FILE, "scripts/a.py", "example.env"];
        for path in private.iter().chain(&kept) {
            skill.insert(path, b"x".to_vec()).unwrap();
        }
        let installed = skill.clone();
        let (published, left_out) = skill.without_private_files();
        assert_eq!(left_out, private);
        let mut expected = SkillFiles::default();
        for path in kept {
            expected.insert(path, b"x".to_vec()).unwrap();
        }
        assert_eq!(published.digest(), expected.digest());
        assert_eq!(published.size(), expected.size());
        // Skills that are installed already keep their digest.
        assert_ne!(installed.digest(), published.digest());
    }

    #[test]
    fn skill_files_below_a_folder_whose_folded_name_is_longer_move_up() {
        let mut skill = SkillFiles::default();
        skill.insert("ȺȺ/SKILL.md", b"x".to_vec()).unwrap();
        skill.insert("ȺȺ/Ⱥ/İ.md", b"y".to_vec()).unwrap();
        let mut skill = skill.without_top_folder();
        assert_eq!(skill.get(SKILL_FILE), Some(&b"x"[..]));
        for path in ["skill.md", "ⱥ/İ.MD", "Ⱥ"] {
            assert!(skill.insert(path, Vec::new()).is_err(), "{path}");
        }
    }

    #[test]
    fn skill_files_survive_writing_and_reading() {
        let root = tempfile::tempdir().unwrap();
        let mut skill = SkillFiles::default();
        skill.insert("s/SKILL.md", b"x".to_vec()).unwrap();
        skill.insert("s/scripts/a.py", b"y".to_vec()).unwrap();
        let skill = skill.without_top_folder();
        let target = root.path().join("skills/s");
        skill.write(&target).unwrap();
        assert_eq!(SkillFiles::read(root.path(), "skills/s").unwrap(), skill);
        let error = skill.write(&target).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::AlreadyExists);
        assert_eq!(
            std::fs::read_dir(root.path().join("skills"))
                .unwrap()
                .count(),
            1
        );
    }

    #[cfg(unix)]
    #[test]
    fn skill_files_keep_the_executable_bit_of_scripts() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let mut skill = SkillFiles::default();
        let document = b"---\nname: s\ndescription: d\n---\n".to_vec();
        skill.insert_file(SKILL_FILE, document, false).unwrap();
        skill.insert_file("bin/run", b"x".to_vec(), true).unwrap();
        // As in a registry with one layer per file, which has no modes.
        skill.insert("run.sh", b"#!/bin/sh\n".to_vec()).unwrap();
        skill.insert("notes.md", b"x".to_vec()).unwrap();
        skill.write(&root.path().join("s")).unwrap();
        let mode = |path: &str| {
            let metadata = std::fs::metadata(root.path().join("s").join(path)).unwrap();
            metadata.permissions().mode() & 0o111
        };
        assert!(mode("bin/run") != 0 && mode("run.sh") != 0);
        assert!(mode("notes.md") == 0 && mode(SKILL_FILE) == 0);
        let read = SkillFiles::read(root.path(), "s").unwrap();
        assert_eq!(read, skill);
        // The digest is that of a checkout without modes.
        let run = root.path().join("s/bin/run");
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o644)).unwrap();
        let plain = SkillFiles::read(root.path(), "s").unwrap();
        assert!(!plain.is_executable("bin/run"));
        assert_eq!(plain.digest(), skill.digest());
    }

    #[cfg(unix)]
    #[test]
    fn skill_files_follow_no_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("secret"), "s").unwrap();
        let folder = root.path().join("s");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), folder.join("SKILL.md")).unwrap();
        assert!(SkillFiles::read(root.path(), "s").is_err());
        assert!(SkillFiles::read_source(&folder).is_err());
        std::os::unix::fs::symlink(&folder, root.path().join("t")).unwrap();
        assert!(SkillFiles::read(root.path(), "t").is_err());
    }
}
