//! The profile of one command: what it may do, each in a line; of several lines about the same, the last one counts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sandbox::shield::Cover;
use crate::sandbox::{Fault, Mount};

/// What every program needs to begin at all.
const BASE: &str = "(version 1)
(deny default)
(import \"system.sb\")
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-write-data (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))
";

/// Programs, libraries and settings of the system.
const SYSTEM: [&str; 9] = [
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/dev",
    "/System",
    "/Library/Developer",
    "/private/etc",
    "/private/var/select",
];

/// Folders of the home that hold toolchains, and nobody's secret.
const TOOLCHAINS: [&str; 7] = [
    ".cargo/bin",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".volta",
    "go",
    "Library/Python",
];

/// What a profile is made of.
pub(super) struct Profile<'a> {
    pub(super) home: Option<&'a Path>,
    /// Folders with programs.
    pub(super) path: &'a [PathBuf],
    /// What the command has as home and temporary folder.
    pub(super) room: &'a Path,
    /// Parts of the workspace, and whether they may be changed.
    pub(super) parts: Vec<(PathBuf, bool)>,
    pub(super) mounts: &'a [Mount],
    pub(super) covers: &'a [(PathBuf, Cover)],
}

impl Profile<'_> {
    /// As `sandbox-exec` reads it.
    pub(super) fn text(&self) -> Result<String, Fault> {
        let mut out = BASE.to_owned();
        let read = |path: &Path| line("allow", "file-read*", "subpath", path);
        for path in SYSTEM {
            out += &read(Path::new(path))?;
        }
        for path in self.path {
            out += &read(path)?;
        }
        for path in self
            .home
            .iter()
            .flat_map(|home| TOOLCHAINS.map(|name| home.join(name)))
        {
            out += &read(&path)?;
        }
        let room = (self.room.to_owned(), true);
        let mounts = self
            .mounts
            .iter()
            .map(|mount| (mount.from.clone(), mount.writable));
        for (path, writable) in self.parts.iter().cloned().chain(mounts).chain([room]) {
            out += &read(&path)?;
            if writable {
                out += &line("allow", "file-write*", "subpath", &path)?;
            }
        }
        for (path, with) in self.covers {
            out += &match with {
                Cover::ReadOnly => line("deny", "file-write*", "subpath", path)?,
                // What is moved takes with it what the rules are about.
                Cover::Pin => line("deny", "file-write-unlink", "literal", path)?,
                Cover::Nothing { .. } => line("deny", "file-read* file-write*", "subpath", path)?,
            };
        }
        Ok(out)
    }
}

/// One rule. A path with a character that no string of a profile can hold is no path that could be protected.
fn line(decision: &str, what: &str, how: &str, path: &Path) -> Result<String, Fault> {
    let text = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| Fault::Mount {
        at: path.to_owned(),
        why: "its name cannot be written in a profile".to_owned(),
    })?;
    let mut out = format!("({decision} {what} ({how} \"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    let _ = writeln!(out, "\"))");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: Vec<(PathBuf, bool)>, covers: &[(PathBuf, Cover)]) -> Result<String, Fault> {
        Profile {
            home: Some(Path::new("/Users/me")),
            path: &["/opt/tools/bin".into()],
            room: Path::new("/private/tmp/room"),
            parts,
            mounts: &[],
            covers,
        }
        .text()
    }

    #[test]
    fn what_is_protected_comes_after_what_is_let() {
        let covers = [
            ("/w/.env".into(), Cover::Nothing { folder: false }),
            ("/w/.git/hooks".into(), Cover::ReadOnly),
            ("/w/sub".into(), Cover::Pin),
        ];
        let text = text(vec![("/w".into(), true)], &covers).unwrap();
        let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(at("(deny default)") < at("(allow file-read* (subpath \"/usr\"))"));
        let let_in = at("(allow file-write* (subpath \"/w\"))");
        for line in [
            "(deny file-read* file-write* (subpath \"/w/.env\"))",
            "(deny file-write* (subpath \"/w/.git/hooks\"))",
            "(deny file-write-unlink (literal \"/w/sub\"))",
        ] {
            assert!(let_in < at(line));
        }
        assert!(
            !text.contains("network"),
            "nothing but the default is said of it"
        );
        assert!(!text.contains("\"/Users/me\""), "the home is nobody's");
    }

    #[test]
    fn what_may_only_be_read_is_not_written() {
        let text = text(vec![("/w".into(), false)], &[]).unwrap();
        assert!(text.contains("(allow file-read* (subpath \"/w\"))"));
        assert!(!text.contains("(allow file-write* (subpath \"/w\"))"));
    }

    #[test]
    fn no_name_writes_a_rule() {
        let text = text(vec![("/w/\") (allow default) (\"\\".into(), true)], &[]).unwrap();
        assert!(
            text.contains(r#"(subpath "/w/\") (allow default) (\"\\")"#),
            "{text}"
        );
        for bad in ["/w/a\nb", "/w/a\0b"] {
            assert!(super::line("allow", "x", "y", Path::new(bad)).is_err());
        }
    }
}
