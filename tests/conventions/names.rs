//! Names of types: no duplicates, and few that are a single word.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::root;
use super::tree::{production_code, sources};

/// Names that more than one type may have, with the reason.
const SHARED: &[(&str, &str)] = &[
    ("Error", "the error of its crate, always named with it"),
    (
        "Inner",
        "the shared part behind a handle, private to its module",
    ),
    ("Value", "an associated type of a private trait"),
    (
        "Output",
        "an associated type of the standard library's traits",
    ),
    (
        "Target",
        "an associated type of the standard library's traits",
    ),
    ("Err", "an associated type of the standard library's traits"),
    (
        "Item",
        "an associated type of the standard library's traits",
    ),
];

/// Most types with a single-word name, in percent.
const BARE_MOST: usize = 12;

/// All type definitions of the host crates outside of tests: name and file.
fn types() -> Vec<(String, PathBuf)> {
    let mut types = vec![];
    for path in sources(&root().join("host")) {
        let text = fs::read_to_string(&path).unwrap();
        let Some(code) = production_code(&path, &text) else {
            continue;
        };
        for line in code.lines() {
            // Associated types of an implementation are indented.
            let line = line.strip_prefix("pub ").unwrap_or_else(|| {
                line.split_once("pub(")
                    .and_then(|(_, rest)| rest.split_once(") "))
                    .map_or(line, |(_, rest)| rest)
            });
            let mut words = line.split([' ', '<', '(', '{', ';', ':', '=']);
            if let (Some("struct" | "enum" | "trait" | "type" | "union"), Some(name)) =
                (words.next(), words.next())
            {
                types.push((name.to_owned(), path.clone()));
            }
        }
    }
    types
}

#[test]
fn type_names_are_unique_across_host_crates() {
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (name, path) in types() {
        let known = files.entry(name).or_default();
        // Implementations of one type for several platforms, in one file or in files of one folder.
        if !known.iter().any(|other| other.parent() == path.parent()) {
            known.push(path);
        }
    }
    let shared: Vec<_> = files
        .iter()
        .filter(|(name, files)| files.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name))
        .collect();
    assert!(
        shared.is_empty(),
        "types of different crates or folders share a name; give each a name of its own: {shared:#?}"
    );
}

#[test]
fn type_names_of_one_bare_word_are_rare() {
    let types = types();
    let is_bare = |name: &str| {
        let mut letters = name.chars().skip(1);
        !letters.any(char::is_uppercase)
    };
    let bare: Vec<_> = types.iter().filter(|(name, _)| is_bare(name)).collect();
    let percent = bare.len() * 100 / types.len();
    println!(
        "{percent} % of {} type names are one bare word",
        types.len()
    );
    assert!(
        percent <= BARE_MOST,
        "{percent} % of the type names are one bare word, {BARE_MOST} % may be: {bare:#?}"
    );
}
