//! Resolution of file paths in settings.
//!
//! Paths in the file of a user or a team are relative to the folder of that file: if they were relative to the
//! workspace, a checkout could choose the certificates that the user trusts. Paths in the workspace's file are relative
//! to the workspace.

use std::path::Path;

use mimir_core::config::{KeySource, is_catalog_file};
use serde_yaml::Value;

/// Resolves the relative paths in these settings against `folder`. Returns true if there were paths.
pub fn anchor_file_paths(settings: &mut Value, folder: &Path) -> bool {
    let mut found = anchor_extra_roots(settings.get_mut("network"), folder);
    found |= anchor_catalogs(settings.get_mut("registries"), folder);
    found |= anchor_trusted_keys(settings.get_mut("trust"), folder);
    found |= settings
        .get_mut("trustRoot")
        .is_some_and(|root| anchor_path(root, folder));
    if let Some(Value::Mapping(tools)) = settings.get_mut("tools") {
        for (_, tool) in tools.iter_mut() {
            found |= anchor_extra_roots(tool.get_mut("network"), folder);
        }
    }
    found
}

fn anchor_extra_roots(block: Option<&mut Value>, folder: &Path) -> bool {
    let roots = block.and_then(|block| block.get_mut("extraRoots"));
    anchor_paths(roots, folder, |_| true)
}

fn anchor_catalogs(block: Option<&mut Value>, folder: &Path) -> bool {
    let catalogs = block.and_then(|block| block.get_mut("catalogs"));
    anchor_paths(catalogs, folder, is_catalog_file)
}

/// Resolves those entries of a list that are paths.
fn anchor_paths(list: Option<&mut Value>, folder: &Path, is_path: fn(&str) -> bool) -> bool {
    let Some(Value::Sequence(paths)) = list else {
        return false;
    };
    let mut found = false;
    let is_path = |path: &&mut Value| path.as_str().is_some_and(is_path);
    for path in paths.iter_mut().filter(is_path) {
        found |= anchor_path(path, folder);
    }
    found
}

fn anchor_path(path: &mut Value, folder: &Path) -> bool {
    // A path that is not valid Unicode could not be written back.
    let anchored = path.as_str().map(|path| folder.join(path));
    let Some(anchored) = anchored.as_deref().and_then(Path::to_str) else {
        return false;
    };
    *path = anchored.into();
    true
}

fn anchor_trusted_keys(rules: Option<&mut Value>, folder: &Path) -> bool {
    let Some(Value::Sequence(rules)) = rules else {
        return false;
    };
    let is_file = |key: &str| KeySource::classify(key) == KeySource::File;
    let mut found = false;
    for rule in rules {
        found |= anchor_paths(rule.get_mut("keys"), folder, is_file);
    }
    found
}
