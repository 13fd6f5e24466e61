//! Sandbox profile of one command: one rule per line, and the last matching rule wins.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sandbox::mount_mask::MountMask;
use crate::sandbox::{HostMount, SandboxError};

/// Rules that every program needs to start.
const BASE: &str = "(version 1)
(deny default)
(import \"system.sb\")
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-write-data (literal \"/dev/null\") (literal \"/dev/zero\"))
";

/// The system's programs, libraries and settings.
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

/// Toolchain folders in the home without secrets.
const TOOLCHAINS: [&str; 9] = [
    ".cargo/bin",
    ".cargo/git",
    ".cargo/registry",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".volta",
    "go",
    "Library/Python",
];

/// Inputs of a profile.
pub(super) struct SeatbeltProfile<'a> {
    pub(super) home: Option<&'a Path>,
    /// Folders with programs.
    pub(super) path: &'a [PathBuf],
    /// Settings files of toolchains without credentials.
    pub(super) settings: &'a [PathBuf],
    /// The private home and temporary folder of the command.
    pub(super) scratch: &'a Path,
    /// The workspace. Like the mounts, it contains the covered paths.
    pub(super) workspace: &'a Path,
    /// Parts of the workspace, and whether each is writable.
    pub(super) parts: Vec<(PathBuf, bool)>,
    pub(super) mounts: &'a [HostMount],
    pub(super) covers: &'a [(PathBuf, MountMask)],
}

impl SeatbeltProfile<'_> {
    /// Returns the profile as text for `sandbox-exec`.
    pub(super) fn text(&self) -> Result<String, SandboxError> {
        let mut out = BASE.to_owned();
        let read = |path: &Path| rule("allow", "file-read*", "subpath", path);
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
        let scratch = (self.scratch.to_owned(), true);
        let mounts = self
            .mounts
            .iter()
            .map(|mount| (mount.from.clone(), mount.writable));
        for (path, writable) in self.parts.iter().cloned().chain(mounts).chain([scratch]) {
            out += &read(&path)?;
            if writable {
                out += &rule("allow", "file-write*", "subpath", &path)?;
            }
        }
        for path in self.settings {
            out += &rule("allow", "file-read*", "literal", path)?;
        }
        // Moving a folder would move the covered files in it, and another folder could take its place.
        let mounts = self.mounts.iter().map(|mount| mount.from.as_path());
        let roots: Vec<&Path> = mounts.chain([self.workspace]).collect();
        let above: BTreeSet<&Path> = self
            .covers
            .iter()
            .flat_map(|(path, _)| path.ancestors().skip(1))
            .filter(|above| {
                let is_in = |root: &&Path| above != root && above.starts_with(root);
                roots.iter().any(is_in)
            })
            .collect();
        for path in above {
            out += &rule("deny", "file-write-unlink", "literal", path)?;
        }
        for (path, with) in self.covers {
            out += &match with {
                MountMask::ReadOnly => rule("deny", "file-write*", "subpath", path)?,
                // Moving the folder would move the protected files in it.
                MountMask::Pin => rule("deny", "file-write-unlink", "literal", path)?,
                MountMask::Nothing { .. } => {
                    rule("deny", "file-read* file-write*", "subpath", path)?
                }
            };
        }
        Ok(out)
    }
}

/// Formats one rule. Fails for a path with a character that a profile string cannot hold, since that path could not be
/// protected.
fn rule(decision: &str, what: &str, how: &str, path: &Path) -> Result<String, SandboxError> {
    let text = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| SandboxError::Mount {
        at: path.to_owned(),
        why: "it contains a character that a sandbox profile cannot hold".to_owned(),
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
    use crate::sandbox::toolchain_homes::toolchains;

    fn text(
        parts: Vec<(PathBuf, bool)>,
        covers: &[(PathBuf, MountMask)],
    ) -> Result<String, SandboxError> {
        SeatbeltProfile {
            home: Some(Path::new("/Users/me")),
            path: &["/opt/tools/bin".into()],
            settings: &["/Users/me/.cargo/config.toml".into()],
            workspace: Path::new("/w"),
            scratch: Path::new("/private/tmp/room"),
            parts,
            mounts: &[],
            covers,
        }
        .text()
    }

    #[test]
    fn profile_denies_follow_the_allows() {
        let covers = [
            ("/w/.env".into(), MountMask::Nothing { folder: false }),
            ("/w/.git/hooks".into(), MountMask::ReadOnly),
            ("/w/sub".into(), MountMask::Pin),
            ("/w/a/b/.env".into(), MountMask::Nothing { folder: false }),
        ];
        let text = text(vec![("/w".into(), true)], &covers).unwrap();
        let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(at("(deny default)") < at("(allow file-read* (subpath \"/usr\"))"));
        let allowed = at("(allow file-write* (subpath \"/w\"))");
        for line in [
            "(deny file-read* file-write* (subpath \"/w/.env\"))",
            "(deny file-write* (subpath \"/w/.git/hooks\"))",
            "(deny file-write-unlink (literal \"/w/sub\"))",
            "(deny file-write-unlink (literal \"/w/.git\"))",
            "(deny file-write-unlink (literal \"/w/a\"))",
            "(deny file-write-unlink (literal \"/w/a/b\"))",
        ] {
            assert!(allowed < at(line));
        }
        assert!(!text.contains("(deny file-write-unlink (literal \"/w\"))"));
        at("(allow file-read* (subpath \"/Users/me/.cargo/registry\"))");
        at("(allow file-read* (literal \"/Users/me/.cargo/config.toml\"))");
        assert!(
            !text.contains("/dev/tty"),
            "the profile allows access to the user's terminal"
        );
        assert!(
            !text.contains("network"),
            "the profile mentions the network"
        );
        assert!(
            !text.contains("\"/Users/me\""),
            "the profile allows access to the whole home"
        );
    }

    #[test]
    fn profile_toolchains_are_found_in_the_real_home() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for folder in [".cargo", ".rustup"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        std::fs::write(at(".cargo/config.toml"), "[build]").unwrap();
        let (homes, settings) = toolchains(home.path());
        let expected = [("CARGO_HOME", at(".cargo")), ("RUSTUP_HOME", at(".rustup"))];
        assert_eq!(homes, expected);
        assert_eq!(settings, [at(".cargo/config.toml")]);
        std::fs::write(at(".cargo/config.toml"), "token = 'x'").unwrap();
        let (homes, settings) = toolchains(home.path());
        assert_eq!((homes.len(), settings.len()), (1, 0));
    }

    #[test]
    fn profile_of_a_read_only_workspace_allows_no_writes() {
        let text = text(vec![("/w".into(), false)], &[]).unwrap();
        assert!(text.contains("(allow file-read* (subpath \"/w\"))"));
        assert!(!text.contains("(allow file-write* (subpath \"/w\"))"));
    }

    #[test]
    fn profile_escapes_paths() {
        let text = text(vec![("/w/\") (allow default) (\"\\".into(), true)], &[]).unwrap();
        assert!(
            text.contains(r#"(subpath "/w/\") (allow default) (\"\\")"#),
            "{text}"
        );
        for bad in ["/w/a\nb", "/w/a\0b"] {
            assert!(super::rule("allow", "x", "y", Path::new(bad)).is_err());
        }
    }
}
