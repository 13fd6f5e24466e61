//! The dependencies that are installed with a pinned package, each with its version and digest.
//!
//! The settings contain one digest of the whole list. The list itself is stored in the user's own folder, so that
//! messages can name changed packages.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::text::visible;
use sha2::{Digest as _, Sha256};

use crate::private_files;
use crate::user_dirs::UserDirs;

/// Maximum number of packages that a message names.
const MAX_NAMED_PACKAGES: usize = 12;

/// Prefix of a digest.
const DIGEST_PREFIX: &str = "sha256-";

/// The packages of one installation, each as a line `name@version digest`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageTree(BTreeSet<String>);

impl PackageTree {
    /// Creates a tree of packages, given as name, version and digest.
    pub fn new<'a>(packages: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        let lines = packages.map(|(name, version, digest)| {
            let line = format!("{name}@{version} {digest}");
            line.replace(['\n', '\r'], " ")
        });
        Self(lines.collect())
    }

    /// Returns the digest of the whole list, as stored in the settings.
    pub fn digest(&self) -> String {
        format!("{DIGEST_PREFIX}{:x}", Sha256::digest(self.text()))
    }

    fn text(&self) -> String {
        let lines: Vec<&str> = self.0.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    /// Stores the list under its digest. Does nothing if there is no folder for the user's settings.
    pub fn save(&self, user_dirs: &UserDirs) -> Result<(), ToolError> {
        let Some(file) = list_path(user_dirs, &self.digest()) else {
            return Ok(());
        };
        let written = match file.parent() {
            Some(folder) => private_files::private_folder(folder),
            None => Ok(()),
        };
        written
            .and_then(|()| {
                private_files::replace(
                    &file,
                    self.text().as_bytes(),
                    private_files::FileReaders::Owner,
                )
            })
            .map_err(|error| crate::file_error::file_error("write", &file, &error))
    }

    /// Reads the list with this digest; `None` if it is not stored on this machine, or is damaged.
    pub fn load(user_dirs: &UserDirs, digest: &str) -> Option<Self> {
        let file = list_path(user_dirs, digest)?;
        let text = private_files::read(&file, private_files::OwnerOnly::Writing).ok()??;
        let tree = Self(text.lines().map(str::to_owned).collect());
        (tree.digest() == digest).then_some(tree)
    }

    /// Describes the changes since `previous`.
    pub fn difference(&self, previous: Option<&Self>) -> String {
        let Some(previous) = previous else {
            return format!(
                "{} packages in all; the previous list is not on this machine",
                self.0.len()
            );
        };
        let name = |line: &String| visible(line.split(' ').next().unwrap_or_default());
        let added = self.0.difference(&previous.0).map(name);
        let removed = previous.0.difference(&self.0).map(name);
        let added = added.map(|name| format!("now {name}"));
        let removed = removed.map(|name| format!("no longer {name}"));
        let changes: Vec<String> = added.chain(removed).collect();
        let named = changes.iter().take(MAX_NAMED_PACKAGES).cloned();
        let rest = changes.len().saturating_sub(MAX_NAMED_PACKAGES);
        let rest = (rest > 0).then(|| format!("and {rest} more"));
        named.chain(rest).collect::<Vec<String>>().join(", ")
    }
}

/// Returns the path of the list with this digest; `None` if the digest is not valid or there is no folder for the
/// user's settings.
fn list_path(user_dirs: &UserDirs, digest: &str) -> Option<PathBuf> {
    let hex = digest.strip_prefix(DIGEST_PREFIX)?;
    let is_valid = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = user_dirs.config.as_ref().filter(|_| is_valid)?;
    Some(folder.join("package-trees").join(format!("{hex}.txt")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_tree_is_stored_and_its_difference_described() {
        let folder = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().to_owned()),
            ..UserDirs::default()
        };
        let tree = |version| PackageTree::new([("a", "1", "x"), ("b", version, "y")].into_iter());
        let (old, new) = (tree("1"), tree("2"));
        assert_ne!(old.digest(), new.digest());
        old.save(&user_dirs).unwrap();
        let read = PackageTree::load(&user_dirs, &old.digest());
        assert_eq!(read.as_ref(), Some(&old));
        assert_eq!(PackageTree::load(&user_dirs, &new.digest()), None);
        assert_eq!(PackageTree::load(&user_dirs, "sha256-../x"), None);
        assert_eq!(new.difference(read.as_ref()), "now b@2, no longer b@1");
    }
}
