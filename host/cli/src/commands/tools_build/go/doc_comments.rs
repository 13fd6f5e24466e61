//! Doc comments of the types in a Go plugin. A Go program does not contain its comments, so the build adds them to it.
//!
//! Types are found by their tokens: running `go/parser` would compile it first, which takes 10 s of CPU time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use serde::Serialize;

use mimir::file_error::file_error;

mod build_constraint;
mod comment_text;
mod go_scanner;
mod type_parser;

/// Maximum size of a source file in bytes. Types of larger files have no descriptions.
const MAX_SOURCE: u64 = 4 << 20;

/// Maximum number of source files, and of folders.
const MAX_FILES: usize = 5_000;

/// Maximum number of types that a type takes descriptions of fields from.
const MAX_INHERITED: usize = 100;

/// Maximum size of all descriptions in bytes. Real plugins have some kilobytes.
const MAX_DOCS: usize = 4 << 20;

/// Folders that Go does not build, besides those whose names begin with `.` or `_`.
const OTHER_FOLDERS: &[&str] = &["node_modules", "target", "testdata", "vendor"];

/// Documentation of one type, in the form that `mimir.Describe` of the SDK reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GoTypeDocs {
    /// The doc comment of the type.
    pub doc: String,
    /// The comments of its fields, by their Go names.
    pub fields: BTreeMap<String, String>,
    /// Names of embedded types, and of the type that this one is defined as. Their fields are also fields of this type.
    #[serde(skip)]
    inherits: Vec<String>,
}

/// Documentation of the types of a plugin, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GoPluginDocs {
    /// The types.
    pub types: BTreeMap<String, GoTypeDocs>,
    /// Files that were not read, because they are too large or not UTF-8.
    pub skipped_files: Vec<PathBuf>,
}

/// Bytes that may still be stored. Some comments count many times: those of groups, and of fields that types inherit.
struct DocBudget {
    left: usize,
}

impl DocBudget {
    fn new() -> Self {
        Self { left: MAX_DOCS }
    }

    /// Returns true if a description may be stored.
    fn take(&mut self, name: &str, text: &str) -> bool {
        let left = self.left.checked_sub(name.len() + text.len());
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// Reads the sources in the folder of a plugin, with those of its other packages.
///
/// # Errors
///
/// Fails if the folder or a file cannot be read, or if there are more than 5,000 files.
pub fn read_folder(root: &Path) -> Result<GoPluginDocs, ToolError> {
    let mut docs = GoPluginDocs::default();
    let mut budget = DocBudget::new();
    let mut packages: BTreeMap<PathBuf, BTreeMap<String, GoTypeDocs>> = BTreeMap::new();
    for file in source_files(root)? {
        let source = match files::read_text(&file, LinkPolicy::Refuse, MAX_SOURCE) {
            Ok(source) => source,
            Err(error) if is_unusable(&error) => {
                docs.skipped_files.push(file);
                continue;
            }
            Err(error) => return Err(file_error("read", &file, &error)),
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if build_constraint::is_built(&name, &source) {
            let folder = file.parent().unwrap_or(root).to_owned();
            let types = packages.entry(folder).or_default();
            for (name, type_docs) in type_parser::parse_types(&source, &mut budget) {
                types.entry(name).or_insert(type_docs);
            }
        }
    }
    let plugin_package = packages.remove(root).unwrap_or_default();
    docs.types = inherit_fields(&merge_packages(plugin_package, packages.into_values()));
    Ok(docs)
}

/// Returns the text of the Go file that a build adds to the plugin's package. `project` has the plugin's name, version
/// and other facts.
pub fn overlay_source(docs: &GoPluginDocs, project: &BTreeMap<String, String>) -> String {
    // Raw strings contain neither backquotes nor byte order marks; in JSON, both can be written in other ways.
    let literal = |value: serde_json::Value| {
        let json = value.to_string();
        let json = json.replace('`', "\\u0060").replace('\u{feff}', "\\ufeff");
        format!("`{json}`")
    };
    let types = literal(serde_json::json!(docs.types));
    let project = literal(serde_json::json!(project));
    format!(
        "// Written by mimir.\n\npackage main\n\nimport mimir \"mimir.local/sdk\"\n\nfunc init() {{ mimir.Describe({types}, {project}) }}\n"
    )
}

/// Returns the sources of all packages, in the order of their paths.
fn source_files(root: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut folder_count = 0;
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| file_error("read", &folder, &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| file_error("read", &folder, &e))?;
            let kind = entry
                .file_type()
                .map_err(|e| file_error("read", &entry.path(), &e))?;
            let path = entry.path();
            let is_source = path.extension().is_some_and(|extension| extension == "go");
            // Comments become a part of the component, so they must not come from files outside of the plugin. Go does not
            // follow links to folders.
            if kind.is_dir() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let is_ignored = name.starts_with(['.', '_']) || OTHER_FOLDERS.contains(&&*name);
                let is_other_module = path.join("go.mod").is_file();
                if !is_ignored && !is_other_module {
                    folders.push(path);
                    folder_count += 1;
                }
            } else if is_source && kind.is_file() {
                sources.push(path);
            }
        }
        if sources.len().max(folder_count) > MAX_FILES {
            let shown = mimir_core::text::visible(&root.display().to_string());
            return Err(ToolError::limit_exceeded(format!(
                "{shown} has more than {MAX_FILES} Go files or folders: expected the sources of one plugin"
            )));
        }
    }
    sources.sort_unstable();
    Ok(sources)
}

/// Returns true for a file that is too large or not UTF-8.
fn is_unusable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, InvalidData};
    matches!(error.kind(), FileTooLarge | InvalidData)
}

/// Merges the types of all packages. The SDK knows types by name only: names in the plugin's own package come first, and a
/// name that several other packages document differently is left out.
fn merge_packages(
    mut types: BTreeMap<String, GoTypeDocs>,
    others: impl Iterator<Item = BTreeMap<String, GoTypeDocs>>,
) -> BTreeMap<String, GoTypeDocs> {
    let mut merged: BTreeMap<String, GoTypeDocs> = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for (name, docs) in others.flatten() {
        if merged.get(&name).is_some_and(|other| *other != docs) {
            ambiguous.insert(name);
        } else {
            merged.insert(name, docs);
        }
    }
    for (name, docs) in merged {
        if !ambiguous.contains(&name) {
            types.entry(name).or_insert(docs);
        }
    }
    types
}

/// Adds the fields of embedded types to each type, and leaves out types without documentation.
fn inherit_fields(types: &BTreeMap<String, GoTypeDocs>) -> BTreeMap<String, GoTypeDocs> {
    let mut complete = BTreeMap::new();
    let mut budget = DocBudget::new();
    for (name, docs) in types {
        let mut fields = docs.fields.clone();
        let mut inherited: Vec<&str> = docs.inherits.iter().map(String::as_str).collect();
        let mut seen: BTreeSet<&str> = inherited.iter().copied().collect();
        seen.insert(name);
        let mut at = 0;
        // From the nearest to the farthest, as Go selects promoted fields.
        while let Some(other) = inherited.get(at).copied().filter(|_| at < MAX_INHERITED) {
            at += 1;
            let Some(other) = types.get(other) else {
                continue;
            };
            for (field, text) in &other.fields {
                if !fields.contains_key(field) && budget.take(field, text) {
                    fields.insert(field.clone(), text.clone());
                }
            }
            for further in other.inherits.iter().take(MAX_INHERITED) {
                if seen.insert(further) {
                    inherited.push(further);
                }
            }
        }
        if !docs.doc.is_empty() || !fields.is_empty() {
            let docs = GoTypeDocs {
                doc: docs.doc.clone(),
                fields,
                inherits: Vec::new(),
            };
            complete.insert(name.clone(), docs);
        }
    }
    complete
}

#[cfg(test)]
mod tests;
