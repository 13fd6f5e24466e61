//! Builds of plugins in Go, with its own compiler and without network.
//!
//! Comments of Go types are in no compiled program. The build adds them with an overlay: a source file that the compiler
//! sees in the folder of the plugin, without being there.

use std::collections::BTreeMap;
use std::path::Path;

use mimir_core::ToolError;
use serde_json::json;

use super::core_module::{add_remedies, export_remedy, finish_module, is_mentioned};
use super::{BUILD_FOLDER, BuildContext, BuildStep, CompiledPlugin, PluginFolder};
use crate::exit::CommandResult;
use crate::output::note;
use mimir::file_error::{file_error, write_atomically};

mod doc_comments;
mod go_environment;
mod go_module;
mod go_workspace;

pub use go_environment::{GoEnvironment, GoTarget};

use doc_comments::{GoPluginDocs, overlay_source};
use go_module::GoModule;

/// Name of the source file that the build adds.
const OVERLAY_FILE: &str = "mimir_docs.go";

/// The line that exports the tools.
const EXPORT_LINE: &str = "func init() { mimir.Export(tool) }";

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let go = GoEnvironment::find(cx, folder)?;
    let build_folder = folder.build_folder()?;
    let module = GoModule::read(&folder.entry)?;
    let sdk = cx.sdk.folder("go");
    let mut notes = Vec::new();
    go_workspace::write_sdk_module(folder)?;
    if !go_workspace::write(&folder.root, &module, &sdk)? {
        notes.push(format!(
            "go.work was not written by mimir, and stays as it is: it needs the lines `use {}` and `{}`",
            sdk.display(),
            go_workspace::REPLACE_LINE
        ));
    }
    let docs = doc_comments::read_folder(&folder.root)?;
    notes.extend(docs.skipped_files.iter().map(|file| {
        let file = file.strip_prefix(&folder.root).unwrap_or(file).display();
        format!("{file} is too large or not UTF-8: its types have no descriptions")
    }));
    let overlay = write_overlay(folder, &build_folder, &docs)?;
    if go.has_new_cache() {
        note(
            "Go compiles its standard library for WebAssembly once, which takes about half a minute …",
        );
    }
    let output = format!("{BUILD_FOLDER}/core.wasm");
    let args = [
        "build",
        "-overlay",
        &overlay,
        "-trimpath",
        "-buildmode=c-shared",
        // The SDK takes memory from Go's runtime.
        "-ldflags=-checklinkname=0 -s -w",
        "-o",
        &output,
        ".",
    ];
    let step = BuildStep {
        writable: vec![build_folder.clone()],
        ..go.step(GoTarget::Component, &args)
    };
    let compiled = cx.run(folder, &step).await;
    compiled.map_err(|error| add_remedies(error, remedies(folder, &module, go.modules())))?;
    let sources = source_names(folder);
    let is_exported = is_mentioned(folder, &sources, "mimir.Export");
    let missing_export = (!is_exported).then(|| export_remedy(EXPORT_LINE));
    let file = build_folder.join("core.wasm");
    let built = finish_module(cx, folder, &file, missing_export).await?;
    Ok(CompiledPlugin { notes, ..built })
}

/// Writes the source file with the doc comments, and the file that makes the compiler see it. Returns the path of the
/// latter, relative to the folder of the plugin.
fn write_overlay(
    folder: &PluginFolder,
    build_folder: &Path,
    docs: &GoPluginDocs,
) -> Result<String, ToolError> {
    let seen = folder.root.join(OVERLAY_FILE);
    if seen.exists() {
        let message = format!(
            "{OVERLAY_FILE} is the name of a file that the build adds: expected no file of that name; rename it"
        );
        return Err(ToolError::invalid_input(message));
    }
    let source = build_folder.join(OVERLAY_FILE);
    let overlay = build_folder.join("overlay.json");
    let replaced = json!({ "Replace": { seen.to_string_lossy(): source.to_string_lossy() } });
    for (path, text) in [
        (&source, overlay_source(docs, &project(folder))),
        (&overlay, replaced.to_string()),
    ] {
        write_atomically(path, text.as_bytes()).map_err(|e| file_error("write", path, &e))?;
    }
    Ok(format!("{BUILD_FOLDER}/overlay.json"))
}

/// Returns the facts about the package that the SDK puts into the description of the plugin.
fn project(folder: &PluginFolder) -> BTreeMap<String, String> {
    let package = &folder.package;
    let facts = [
        ("name", Some(&package.name)),
        ("version", Some(&package.version)),
        ("description", package.description.as_ref()),
        ("license", package.license.as_ref()),
        ("homepage", package.homepage.as_ref()),
    ];
    let facts = facts.into_iter();
    facts
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())))
        .collect()
}

/// Returns hints for the usual reasons why a plugin does not compile here although it does elsewhere.
fn remedies(folder: &PluginFolder, module: &GoModule, modules: &Path) -> Vec<String> {
    let mut remedies = Vec::new();
    let has_vendor = folder.root.join("vendor").is_dir();
    if let Some(missing) = module.missing_requirement(modules).filter(|_| !has_vendor) {
        remedies.push(format!(
            "{missing} is not in the module cache, and builds have no network: run `go mod download` in the plugin's folder first"
        ));
    }
    let sources = source_names(folder);
    if is_mentioned(folder, &sources, "import \"C\"") {
        remedies.push(
            "cgo does not exist for WebAssembly: remove `import \"C\"`, or write the tool in C"
                .to_owned(),
        );
    }
    remedies
}

/// Returns the names of the sources in the folder of the plugin.
fn source_names(folder: &PluginFolder) -> Vec<String> {
    let entries = std::fs::read_dir(&folder.root).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".go")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PluginLanguage;

    fn plugin(files: &[(&str, &str)]) -> (tempfile::TempDir, PluginFolder) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let found = PluginFolder::find(folder.path(), Some(PluginLanguage::Go)).unwrap();
        (folder, found)
    }

    #[test]
    fn go_overlay_adds_comments_and_the_facts_of_the_package() {
        let (_folder, found) = plugin(&[
            ("go.mod", "module example.com/words\n\ngo 1.25\n"),
            (
                "main.go",
                "package main\n\n// Words counts words.\ntype Words struct{}\n",
            ),
        ]);
        let docs = doc_comments::read_folder(&found.root).unwrap();
        let build_folder = found.build_folder().unwrap();
        write_overlay(&found, &build_folder, &docs).unwrap();
        let source = std::fs::read_to_string(build_folder.join(OVERLAY_FILE)).unwrap();
        assert!(source.contains("counts words"), "{source}");
        assert!(source.contains(r#""name":"words""#), "{source}");
        let overlay = std::fs::read(build_folder.join("overlay.json")).unwrap();
        let overlay: serde_json::Value = serde_json::from_slice(&overlay).unwrap();
        let seen = found.root.join(OVERLAY_FILE);
        let replacement = overlay["Replace"][seen.to_str().unwrap()].as_str();
        assert_eq!(replacement, build_folder.join(OVERLAY_FILE).to_str());
    }

    #[test]
    fn go_plugin_cannot_have_the_file_of_the_overlay() {
        let (_folder, found) = plugin(&[("go.mod", "module words\n"), (OVERLAY_FILE, "")]);
        let build_folder = found.build_folder().unwrap();
        let refused = write_overlay(&found, &build_folder, &GoPluginDocs::default());
        assert!(refused.unwrap_err().to_string().contains("rename it"));
    }

    #[test]
    fn go_remedies_name_a_missing_module_and_cgo() {
        let (_folder, found) = plugin(&[
            (
                "go.mod",
                "module words\nrequire example.com/Missing v1.2.3\n",
            ),
            ("main.go", "package main\n\nimport \"C\"\n"),
        ]);
        let module = GoModule::read(&found.entry).unwrap();
        let remedies = remedies(&found, &module, &found.root);
        assert!(remedies[0].contains("example.com/Missing v1.2.3"));
        assert!(remedies[1].contains("cgo"));
    }
}
