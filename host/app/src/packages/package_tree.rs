//! The dependencies that are installed with a pinned package, each with its version and digest.
//!
//! The settings store one digest of the whole list. The list itself is stored in the user's own folder, so that
//! changes can be named.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::text::visible;
use sha2::{Digest as _, Sha256};

use crate::private_files;
use crate::user_dirs::UserDirs;

/// Maximum number of packages that a message names.
const MAX_NAMED_PACKAGES: usize = 12;

/// The prefix of a digest.
const SHA256: &str = "sha256-";

/// The packages of one installation, a line for each: `name@version digest`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageTree(BTreeSet<String>);

impl PackageTree {
    /// The tree of these packages, given as name, version and digest.
    pub fn new<'a>(packages: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        let lines = packages.map(|(name, version, digest)| {
            let line = format!("{name}@{version} {digest}");
            line.replace(['\n', '\r'], " ")
        });
        Self(lines.collect())
    }

    /// The digest of the whole list, as stored in the settings.
    pub fn digest(&self) -> String {
        format!("{SHA256}{:x}", Sha256::digest(self.text()))
    }

    fn text(&self) -> String {
        let lines: Vec<&str> = self.0.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    /// Stores the list under its digest.
    pub fn save(&self, places: &UserDirs) -> Result<(), ToolError> {
        let Some(file) = file(places, &self.digest()) else {
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

    /// Reads the list with this digest. `None` if it is not stored on this machine or is damaged.
    pub fn load(places: &UserDirs, digest: &str) -> Option<Self> {
        let file = file(places, digest)?;
        let text = private_files::read(&file, private_files::OwnerOnly::Writing).ok()??;
        let tree = Self(text.lines().map(str::to_owned).collect());
        (tree.digest() == digest).then_some(tree)
    }

    /// A description of the changes since `before`.
    pub fn difference(&self, before: Option<&Self>) -> String {
        let Some(before) = before else {
            return format!(
                "{} packages in all; the list of those before is not on this machine",
                self.0.len()
            );
        };
        let name = |line: &String| visible(line.split(' ').next().unwrap_or_default());
        let new = self.0.difference(&before.0).map(name);
        let gone = before.0.difference(&self.0).map(name);
        let new = new.map(|name| format!("now {name}"));
        let gone = gone.map(|name| format!("no longer {name}"));
        let all: Vec<String> = new.chain(gone).collect();
        let named = all.iter().take(MAX_NAMED_PACKAGES).cloned();
        let rest = all.len().saturating_sub(MAX_NAMED_PACKAGES);
        let rest = (rest > 0).then(|| format!("and {rest} more"));
        named.chain(rest).collect::<Vec<String>>().join(", ")
    }
}

/// Path of a list's file; `None` if the digest has another form.
fn file(places: &UserDirs, digest: &str) -> Option<PathBuf> {
    let hex = digest.strip_prefix(SHA256)?;
    let good = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = places.config.as_ref().filter(|_| good)?;
    Some(folder.join("package-trees").join(format!("{hex}.txt")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_tree_is_stored_and_its_difference_described() {
        let folder = tempfile::tempdir().unwrap();
        let places = UserDirs {
            config: Some(folder.path().to_owned()),
            ..UserDirs::default()
        };
        let tree = |version| PackageTree::new([("a", "1", "x"), ("b", version, "y")].into_iter());
        let (old, new) = (tree("1"), tree("2"));
        assert_ne!(old.digest(), new.digest());
        old.save(&places).unwrap();
        let read = PackageTree::load(&places, &old.digest());
        assert_eq!(read.as_ref(), Some(&old));
        assert_eq!(PackageTree::load(&places, &new.digest()), None);
        assert_eq!(PackageTree::load(&places, "sha256-../x"), None);
        assert_eq!(new.difference(read.as_ref()), "now b@2, no longer b@1");
    }
}
