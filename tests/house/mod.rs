//! The rules of the house, checked: who may name whom, and how the rooms are kept.

mod core;
mod matrix;
mod tree;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
