//! `mimir tools build FILE.ts`, or a folder with a TypeScript plugin.

use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, text};
use mimir_script::PluginSource;
use serde_json::Value;

use crate::commands::tools_check::faults_failure;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;

/// Names of entry files in a folder. The first one that exists is used.
const NAMES: [&str; 6] = [
    "tool.ts", "tools.ts", "tool.js", "tools.js", "index.ts", "index.js",
];

/// Maximum size of a source file or `package.json` in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Version of a plugin without a version in `package.json`.
const VERSION: &str = "0.1.0";

/// Returns the entry file: `path` itself, or one in the folder `path`; `None` if there is none.
pub fn file(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let mut files = NAMES.iter().map(|name| path.join(name));
        return files.find(|file| file.is_file());
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("ts" | "mts" | "js" | "mjs")).then(|| path.to_owned())
}

/// Builds a plugin. Returns the file name and the bytes of its component.
pub async fn component(setup: &HostSetup, file: &Path) -> CommandResult<(PathBuf, Vec<u8>)> {
    let source = source(file)?;
    let scripts = setup.scripts(setup.host());
    let built = mimir_script::build(scripts.engine(), mimir_builtins::PLUGIN, &source).await;
    let built = built.map_err(faults_failure)?;
    if let Some(bundler) = &built.bundler {
        let bundler = text::visible(&bundler.display().to_string());
        note(format_args!("its imports were bundled by {bundler}"));
    }
    for (tool, export) in &built.tools {
        if tool != export {
            note(format_args!("`{export}` is the tool `{tool}`"));
        }
    }
    let name = format!("{}.wasm", source.name);
    Ok((PathBuf::from(name), built.component))
}

fn source(file: &Path) -> CommandResult<PluginSource> {
    let place = text::visible(&file.display().to_string());
    let content = files::read(file, LinkPolicy::Follow, MAX_FILE_SIZE);
    let content = content.map_err(|error| {
        CommandFailure::with_exit(file_error("read", file, &error), ExitReason::Usage)
    })?;
    let text = String::from_utf8(content)
        .map_err(|_| ToolError::invalid_input(format!("{place} is not UTF-8")))?;
    let package = package(file);
    let field = |key: &str| {
        let text = package[key].as_str().map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let extension = file.extension().and_then(|extension| extension.to_str());
    Ok(PluginSource {
        typed: matches!(extension, Some("ts" | "mts")),
        name: name(file, field("name")),
        version: field("version").unwrap_or_else(|| VERSION.to_owned()),
        description: field("description"),
        path: file.to_owned(),
        place,
        text,
    })
}

/// Reads the `package.json` next to the file. Returns null if it does not exist or is not valid.
fn package(file: &Path) -> Value {
    let path = file.with_file_name("package.json");
    let content = files::read(&path, LinkPolicy::Follow, MAX_FILE_SIZE).unwrap_or_default();
    serde_json::from_slice(&content).unwrap_or_default()
}

/// Returns the name of the plugin: its file name, or the name of its package or folder if the file name is one of
/// [`NAMES`].
fn name(file: &Path, package: Option<String>) -> String {
    let stem = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    };
    let stem_of_file = stem(file);
    let is_generic = NAMES.iter().any(|name| file.ends_with(name));
    let folder = file.canonicalize().ok();
    let folder = folder.as_deref().and_then(Path::parent);
    let name = match is_generic {
        false => stem_of_file,
        true => package
            .or_else(|| folder.map(stem).filter(|name| !name.is_empty()))
            .unwrap_or(stem_of_file),
    };
    let name = name.rsplit('/').next().unwrap_or_default();
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name
        .chars()
        .map(|c| {
            if is_valid(c) {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    match name.trim_matches('_') {
        "" => "tools".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typescript_entry_file_is_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(file(dir.path()), None);
        std::fs::write(dir.path().join("tools.ts"), "").unwrap();
        assert_eq!(file(dir.path()), Some(dir.path().join("tools.ts")));
        let other = dir.path().join("Cargo.toml");
        assert_eq!(file(&other), None);
        assert_eq!(file(Path::new("a.mts")), Some("a.mts".into()));
    }

    #[test]
    fn typescript_plugin_name_comes_from_package_file_or_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("Word Count");
        std::fs::create_dir(&folder).unwrap();
        let plain = folder.join("tools.ts");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(name(&plain, None), "word_count");
        assert_eq!(name(&plain, Some("@me/words".to_owned())), "words");
        assert_eq!(name(&folder.join("fib.ts"), Some("x".to_owned())), "fib");
        assert_eq!(name(&folder.join("ä.ts"), None), "tools");
    }
}
