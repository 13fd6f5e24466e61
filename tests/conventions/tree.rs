//! Files of the tree: the top level, binaries, sizes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;

/// Most lines of a file. A longer one is likely to have two purposes.
const LINES_MOST: usize = 800;

/// The allowed entries at the top level.
const TOP: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "host",
    "wit",
    "plugins",
    "sdk",
    "tests",
    "README.md",
];

/// Files that tools require at the root.
const TOP_TOOLS: [&str; 5] = [
    "rust-toolchain.toml",
    "clippy.toml",
    "rustfmt.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

/// All Rust files below a folder.
pub(super) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The code of a file without its unit tests; `None` for files of tests, benches and examples.
pub(super) fn production_code<'a>(path: &Path, text: &'a str) -> Option<&'a str> {
    let below = path.strip_prefix(root()).unwrap_or(path);
    let in_tests = below.components().any(|part| {
        let part = part.as_os_str();
        part == "tests" || part == "benches" || part == "examples"
    });
    if in_tests || path.ends_with("tests.rs") {
        return None;
    }
    let end = text.find("\n#[cfg(test)]\nmod tests {");
    Some(end.map_or(text, |end| &text[..end]))
}

/// Files under version control; `None` outside a checkout.
fn tracked() -> Option<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "-z"])
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(
        text.split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn version_control_has_no_wasm_components() {
    let Some(files) = tracked() else {
        return;
    };
    assert!(files.iter().any(|file| file == "Cargo.toml"), "{files:?}");
    let binary: Vec<_> = files
        .iter()
        .filter(|file| file.ends_with(".wasm") || file.ends_with(".cwasm"))
        .collect();
    assert!(binary.is_empty(), "{binary:?}");
}

#[test]
fn top_level_entries_are_fixed() {
    let Some(files) = tracked() else {
        return;
    };
    for file in files {
        let top = file.split('/').next().unwrap();
        let known = TOP.contains(&top)
            || top.starts_with('.')
            || TOP_TOOLS.iter().any(|tool| top.starts_with(tool));
        assert!(known, "{top} does not belong at the top level");
    }
}

#[test]
fn source_files_respect_the_line_limit() {
    let mut long = vec![];
    for folder in ["host", "sdk", "plugins", "tests"] {
        for path in sources(&root().join(folder)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > LINES_MOST {
                long.push(format!("{}: {lines}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn modules_have_a_doc_comment() {
    let mut undocumented = vec![];
    for folder in ["host", "sdk", "plugins", "tests"] {
        for path in sources(&root().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            // Unit tests in a separate file belong to the module of the same folder.
            if !path.ends_with("tests.rs")
                && !path.parent().unwrap().ends_with("tests")
                && !text.starts_with("//!")
            {
                undocumented.push(path);
            }
        }
    }
    assert!(undocumented.is_empty(), "{undocumented:#?}");
}
