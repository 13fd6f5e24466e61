//! Names of memories.

use std::fmt;

use mimir_sdk::{Error, Result, text};

/// Maximum number of bytes of a name, because lists show it.
const MAX_NAME: usize = 80;

/// Extension of a memory's file.
const EXTENSION: &str = ".md";

/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The validated name of a memory: a file name without extension, never a path. Created by [`Name::parse`] only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(String);

impl Name {
    /// Parses a name as written by a caller, with or without `.md`.
    pub(crate) fn parse(written: &str) -> Result<Self> {
        let name = written.strip_suffix(EXTENSION).unwrap_or(written);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(plain)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !name.ends_with('.')
            && !name.contains("..");
        if !fits || is_device(name) {
            return Err(Error::invalid_input(format_args!(
                "`{}` is not a valid memory name: use 1 to {MAX_NAME} letters, digits, `-`, `_` and single dots, such as `build-notes`",
                text::brief(written)
            )));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the memory name for a file in the folder. `None` if the file name is not that of a memory.
    pub(crate) fn from_file_name(file: &str) -> Option<Self> {
        Self::parse(file.strip_suffix(EXTENSION)?)
            .ok()
            .filter(|name| name.file_name() == file)
    }

    /// Returns the file name, with extension.
    pub(crate) fn file_name(&self) -> String {
        format!("{}{EXTENSION}", self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.to_ascii_lowercase();
    let numbered = |port: &str| {
        let number = stem.strip_prefix(port);
        number.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_names_are_file_names_and_never_paths() {
        for (written, name) in [
            ("notes", "notes"),
            ("notes.md", "notes"),
            ("v1.2-plan_b", "v1.2-plan_b"),
            ("README", "README"),
            ("_x", "_x"),
            ("com10", "com10"),
        ] {
            let parsed = Name::parse(written).unwrap();
            assert_eq!(parsed.as_str(), name);
            assert_eq!(Name::from_file_name(&parsed.file_name()), Some(parsed));
        }
        for written in [
            "",
            ".md",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "C:x",
            "a..b",
            "a.",
            ".hidden",
            "-x",
            "a b",
            "a\nb",
            "a\0b",
            "ü",
            "con",
            "NUL.txt",
            "lpt1",
            "x:y",
            "~x",
            "a*",
            &"x".repeat(MAX_NAME + 1),
        ] {
            let error = Name::parse(written).unwrap_err();
            assert!(
                error.message().contains("is not a valid memory name"),
                "{error}"
            );
        }
        assert_eq!(Name::from_file_name("notes.txt"), None);
        assert_eq!(Name::from_file_name("notes.md.md"), None);
    }
}
