//! Conventions of the source tree, checked: dependencies between crates, files and their sizes, names, prose and CI.

mod ci;
mod core;
mod matrix;
mod names;
mod prose;
mod tree;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
