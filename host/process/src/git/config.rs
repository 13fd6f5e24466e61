//! Parser for the settings of a repository, read as git does, including the files that they include.
//!
//! Conditions of `includeIf` are assumed to be true: the result is only used to disable programs and to look up
//! settings by name.

use std::path::{Path, PathBuf};

use super::index::ObjectHash;
use crate::run::workspace_guard::read_regular_file;

/// Maximum size of a settings file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of files to read for one repository. Git itself limits the depth of includes to ten levels.
const MAX_FILES: usize = 32;

/// A git setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitSetting {
    /// The name of the section, in lower case.
    pub(super) section: String,
    /// The name of the subsection, as written.
    pub(super) subsection: Option<String>,
    /// The name of the key, in lower case.
    pub(super) key: String,
    pub(super) value: String,
}

/// Settings of a repository, in file order.
#[derive(Debug, Default)]
pub(crate) struct GitConfig(Vec<GitSetting>);

impl GitConfig {
    /// Parses the text of a single file.
    pub(crate) fn parse(text: &str) -> Self {
        Self(parse(text))
    }

    /// Reads the settings of the repository with this `.git` folder, which may belong to a linked worktree. Included
    /// files count only if they are below `root`, the working tree, or in the repository's own folder.
    pub(super) fn read_repository(git: &Path, root: &Path) -> Self {
        let common = read_regular_file(&git.join("commondir"), 4096)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| git.join(text.trim_end()).canonicalize().ok());
        let common = common.as_deref().unwrap_or(git);
        let mut pending = vec![common.join("config"), git.join("config.worktree")];
        let mut settings = Vec::new();
        let mut files = 0;
        while let Some(file) = pending.pop() {
            files += 1;
            if files > MAX_FILES {
                break;
            }
            let Some(text) = read_regular_file(&file, MAX_FILE_BYTES) else {
                continue;
            };
            let entries = parse(&String::from_utf8_lossy(&text));
            let includes = entries.iter().filter(|entry| {
                matches!(entry.section.as_str(), "include" | "includeif") && entry.key == "path"
            });
            let folder = file.parent().unwrap_or(common);
            let included = includes.map(|entry| folder.join(&entry.value));
            let included = included.filter_map(|path| path.canonicalize().ok());
            let is_trusted = |path: &PathBuf| path.starts_with(root) || path.starts_with(common);
            pending.extend(included.filter(is_trusted));
            settings.extend(entries);
        }
        Self(settings)
    }

    /// Returns all settings.
    pub(super) fn entries(&self) -> &[GitSetting] {
        &self.0
    }

    /// Returns the last value of a setting without a subsection.
    pub(crate) fn value(&self, section: &str, key: &str) -> Option<&str> {
        let is_match = |entry: &&GitSetting| {
            entry.section == section && entry.subsection.is_none() && entry.key == key
        };
        let setting = self.0.iter().rev().find(is_match)?;
        Some(&setting.value)
    }

    /// Returns the hash function of the repository's objects and index.
    pub(super) fn object_hash(&self) -> ObjectHash {
        match self.value("extensions", "objectformat") {
            Some(format) if format.eq_ignore_ascii_case("sha256") => ObjectHash::Sha256,
            _ => ObjectHash::Sha1,
        }
    }
}

/// Parses the text of a settings file. Invalid lines are ignored.
fn parse(text: &str) -> Vec<GitSetting> {
    let mut settings = Vec::new();
    let (mut section, mut subsection) = (String::new(), None);
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((head, after)) = parse_section_header(rest) else {
                continue;
            };
            (section, subsection) = head;
            line = after.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        settings.push(GitSetting {
            section: section.clone(),
            subsection: subsection.clone(),
            key: key.trim().to_ascii_lowercase(),
            value: unquote(value),
        });
    }
    settings
}

/// Parses a section header after its opening bracket. Returns the section, the subsection, and the rest of the line.
fn parse_section_header(rest: &str) -> Option<((String, Option<String>), &str)> {
    let end = rest.find([']', '"'])?;
    let name = rest.get(..end)?.trim();
    if rest[end..].starts_with(']') {
        // In the old form `[section.sub]`, the subsection is in lower case.
        let (section, sub) = match name.split_once('.') {
            Some((section, sub)) => (section, Some(sub.to_ascii_lowercase())),
            None => (name, None),
        };
        return Some(((section.to_ascii_lowercase(), sub), &rest[end + 1..]));
    }
    let mut subsection = String::new();
    let mut letters = rest[end + 1..].char_indices();
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '"' => {
                let after = rest[end + 1 + offset + 1..]
                    .trim_start()
                    .strip_prefix(']')?;
                return Some(((name.to_ascii_lowercase(), Some(subsection)), after));
            }
            '\\' => subsection.extend(letters.next().map(|(_, letter)| letter)),
            letter => subsection.push(letter),
        }
    }
    None
}

/// Removes the quotes of a value, and a comment after it.
fn unquote(value: &str) -> String {
    let mut text = String::new();
    let (mut quoted, mut letters) = (false, value.trim().chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            '#' | ';' if !quoted => break,
            letter => text.push(letter),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_is_read_as_git_reads_it() {
        let text = "[core]\n\tbare = false # no\n[man \"a]b\\\"c\"] cmd = \"./evil # x\" ; y\n[MAN.Old]\nPath=x\n[extensions]\n\
            objectFormat = SHA256\n[a]\nb = one\\\ntwo\nflag\nbroken [x\n";
        let entries = parse(text);
        let shown: Vec<_> = entries
            .iter()
            .map(|one| {
                let sub = one.subsection.as_deref().unwrap_or("-");
                format!("{}/{sub}/{}={}", one.section, one.key, one.value)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "core/-/bare=false",
                "man/a]b\"c/cmd=./evil # x",
                "man/old/path=x",
                "extensions/-/objectformat=SHA256",
                "a/-/b=onetwo",
                "a/-/flag=true",
                "a/-/broken [x=true",
            ]
        );
        assert!(matches!(
            GitConfig(entries).object_hash(),
            ObjectHash::Sha256
        ));
    }

    #[test]
    fn config_follows_includes_within_the_checkout_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        let git = root.join(".git");
        std::fs::create_dir_all(&git).unwrap();
        std::fs::write(
            git.join("config"),
            "[include]\npath = ../inc\npath = ../../outside\n",
        )
        .unwrap();
        std::fs::write(
            root.join("inc"),
            "[includeIf \"onbranch:x\"]\npath = inc\n[man \"x\"]\ncmd = y\n",
        )
        .unwrap();
        std::fs::write(folder.path().join("outside"), "[man \"o\"]\ncmd = y\n").unwrap();
        let config = GitConfig::read_repository(&git, &root);
        let has_subsection = |name: &str| {
            let mut entries = config.entries().iter();
            entries.any(|entry| entry.subsection.as_deref() == Some(name))
        };
        assert!(has_subsection("x") && !has_subsection("o"));
    }
}
