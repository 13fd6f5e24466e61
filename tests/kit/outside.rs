//! A folder outside the workspace, for detecting escapes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::picture;

/// A folder outside the workspace with secret files. Dropping it checks nothing: call [`intact`](Self::intact).
pub struct Outside {
    folder: TempDir,
    before: BTreeMap<String, String>,
}

impl Outside {
    /// Content of the secret files. A guest that outputs it has escaped.
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

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path relative to a workspace with the same parent folder: `../NAME`.
    pub fn relative(&self) -> PathBuf {
        Path::new("..").join(self.folder.path().file_name().unwrap())
    }

    /// Asserts that nothing in the folder has changed.
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
