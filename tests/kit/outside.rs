//! A folder next to the workspace that no guest may read or change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::picture;

/// A folder outside the workspace with a secret in it. Call [`intact`](Self::intact) to check it; dropping it checks
/// nothing.
pub struct Outside {
    folder: TempDir,
    before: BTreeMap<String, String>,
}

impl Outside {
    /// Content of the secret file. A guest that can show it has escaped.
    pub const SECRET: &str = "the crown jewels";

    /// Creates the folder with the files `secret` and `inner/secret`.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mimir-outside-")
            .tempdir()
            .unwrap();
        fs::write(folder.path().join("secret"), Self::SECRET).unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/secret"), Self::SECRET).unwrap();
        let before = picture(folder.path());
        Self { folder, before }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The relative path from a workspace with the same parent: `../NAME`.
    pub fn relative(&self) -> PathBuf {
        Path::new("..").join(self.folder.path().file_name().unwrap())
    }

    /// Asserts that nothing in it has changed.
    pub fn intact(&self) {
        assert_eq!(
            picture(self.folder.path()),
            self.before,
            "something outside the workspace has changed"
        );
    }
}

impl Default for Outside {
    fn default() -> Self {
        Self::new()
    }
}
