//! A place beside the workspace that no guest may see or change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::picture;

/// A folder outside the workspace with a secret in it. Dropping it without [`intact`](Self::intact) checks nothing.
pub struct Outside {
    folder: TempDir,
    before: BTreeMap<String, String>,
}

impl Outside {
    /// What the secret file holds. A guest that can show it has got out.
    pub const SECRET: &str = "the crown jewels";

    /// Makes the folder with the files `secret` and `inner/secret`.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The way there from a workspace that is beside it: `../NAME`.
    pub fn relative(&self) -> PathBuf {
        Path::new("..").join(self.folder.path().file_name().unwrap())
    }

    /// Checks that nothing in it has changed.
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
