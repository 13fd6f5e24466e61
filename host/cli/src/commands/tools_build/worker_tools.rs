//! Builds of the modules and npm packages that worker files name. Only the workers get their tools, so the components
//! are stored in the user's cache instead of `.mimir/tools`.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use mimir_core::Tool;
use mimir_core::files;
use mimir_core::tool::ToolTrust;
use mimir_script::PluginSource;
use serde_json::json;

use super::{BuildContext, PluginFolder, typescript, within_time_limit};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::worker_modules::WorkerToolSource;

/// Files in which bundlers look for settings that replace imports, in the nearest folder that has one.
const SETTINGS_FILES: [&str; 2] = ["package.json", "tsconfig.json"];

/// Returns the sources at a path: those of a worker's file, or a module that worker files name. `None` if the path is
/// neither.
pub fn find_sources(
    setup: &HostSetup,
    path: &Path,
) -> CommandResult<Option<Vec<WorkerToolSource>>> {
    let Ok(real) = path.canonicalize() else {
        return Ok(None);
    };
    let modules = setup.worker_modules();
    let workers = setup.workers();
    let is_path = |other: &Path| other.canonicalize().is_ok_and(|other| other == real);
    if let Some((file, _)) = workers
        .files()
        .into_iter()
        .find(|(file, _)| is_path(&file.path))
    {
        let usage = |error| CommandFailure::with_exit(error, ExitReason::Usage);
        let worker = workers.read_worker(&file.name).map_err(usage)?;
        let sources = modules.sources(&worker).map_err(usage)?;
        if sources.is_empty() {
            let message = format!(
                "{} names no tools to build: expected `toolsets.custom` with a module beside the file, or `toolsets.external`",
                file.shown
            );
            return Err(CommandFailure::usage(message));
        }
        return Ok(Some(sources));
    }
    let mut sources = modules.all_sources();
    sources.retain(|source| is_path(&source.plugin.path));
    Ok(Some(sources).filter(|sources| !sources.is_empty()))
}

/// Builds the sources, stores the components and prints their tools.
pub async fn build(cx: &BuildContext<'_>, sources: &[WorkerToolSource]) -> CommandResult {
    let modules = cx.setup.worker_modules();
    let mut report = Vec::new();
    for source in sources {
        if let Some(package) = &source.package_folder {
            let root = cx.setup.workspace.root();
            let path = &source.plugin.path;
            write_generated(root, &source.plugin, package)
                .map_err(|error| file_error("write", path, &error))?;
        }
        let folder = PluginFolder::find(&source.plugin.path, None)?;
        let built = within_time_limit("the build", async {
            typescript::build_source(cx, &folder, &source.plugin).await
        });
        modules.store(source, &built.await?)?;
        let tools = modules.load(source).await?;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
        if !cx.printer().is_json() {
            note(format_args!("{}: {}", source.location, names.join(", ")));
            note_missing_grant(source, &tools);
        }
        report.push(json!({ "location": source.location, "tools": names }));
    }
    if cx.printer().is_json() {
        cx.printer().print_json(&json!({ "built": report }))?;
    }
    Ok(ExitReason::Done)
}

fn note_missing_grant(source: &WorkerToolSource, tools: &[Arc<Tool>]) {
    let lacks_grant =
        |tool: &Arc<Tool>| tool.trust == ToolTrust::Untrusted && !tool.definition.needs.is_empty();
    if tools.iter().any(lacks_grant) {
        note(format_args!(
            "This build has no grant of the rights that it needs: `mimir tools trust {}` shows and grants them.",
            quote_for_shell(&source.location)
        ));
    }
}

/// Writes the module that imports the package in the folder `package` to the build folder beside the worker files.
///
/// The folder is made anew, because bundlers first look there: a checkout may have added a package or settings that
/// replace the import. The link leads to the package whose version was checked.
fn write_generated(root: &Path, plugin: &PluginSource, package: &Path) -> io::Result<()> {
    let path = &plugin.path;
    let folder = path.parent().unwrap_or(path);
    files::reject_links(root, folder)?;
    match folder.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(folder)?,
        Ok(_) => fs::remove_file(folder)?,
        Err(_) => {}
    }
    let link = folder.join("node_modules").join(&plugin.name);
    fs::create_dir_all(link.parent().unwrap_or(folder))?;
    files::ignore(folder)?;
    link_folder(package, &link)?;
    for name in SETTINGS_FILES {
        fs::write(folder.join(name), "{}\n")?;
    }
    fs::write(path, &plugin.text)
}

#[cfg(unix)]
fn link_folder(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(folder, link)
}

#[cfg(windows)]
fn link_folder(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(folder, link)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn generated_module_is_in_a_folder_without_files_of_the_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let build = root.join(".mimir/workers/.mimir-build");
        let package = root.join("node_modules/@kit/tools");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("index.js"), "installed").unwrap();
        let plugin = PluginSource {
            path: build.join("ext.external.js"),
            place: String::new(),
            text: "import \"@kit/tools\";".to_owned(),
            typed: false,
            name: "@kit/tools".to_owned(),
            version: "1.2.3".to_owned(),
            description: None,
        };
        let planted = build.join("node_modules/@kit/tools");
        for file in [
            "tsconfig.json",
            "node_modules/other/index.js",
            "node_modules/@kit/tools/index.js",
        ] {
            let file = build.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "planted").unwrap();
        }
        // The second time, the folder has what the first one wrote.
        for _ in 0..2 {
            write_generated(root, &plugin, &package).unwrap();
            let read = |file: &Path| fs::read_to_string(file).unwrap();
            assert_eq!(read(&planted.join("index.js")), "installed");
            assert_eq!(read(&build.join("tsconfig.json")), "{}\n");
            assert_eq!(read(&build.join("package.json")), "{}\n");
            assert_eq!(read(&plugin.path), plugin.text);
            assert!(!build.join("node_modules/other").exists());
        }
        assert_eq!(
            fs::read_to_string(package.join("index.js")).unwrap(),
            "installed"
        );
        fs::remove_dir_all(&build).unwrap();
        std::os::unix::fs::symlink(root.join("node_modules"), &build).unwrap();
        assert!(write_generated(root, &plugin, &package).is_err());
        assert!(package.exists(), "a link is not followed");
    }
}
