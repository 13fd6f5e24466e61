//! Comparison of an installed build with its sources, for commands that publish it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use sha2::{Digest as _, Sha256};

use super::PluginFolder;
use super::installed_sources::{InstalledSources, SourceComparison};
use super::source_snapshot::SourceSnapshot;
use super::source_watch::source_files;
use crate::arguments::quote_for_shell;
use crate::output::note;
use mimir::setup::HostSetup;

/// Maximum number of newer files in an error.
const SHOWN_FILES: usize = 3;

/// Fails if the component of a plugin in `.mimir/tools` is known not to be the build of the current sources. `path` is
/// what the user calls the plugin, and `built` the file of the component.
///
/// # Errors
///
/// Fails with `UNAVAILABLE` if a source has changed since the build, or the file is that of another plugin or program.
pub fn check_build_of(
    setup: &HostSetup,
    plugin: &PluginFolder,
    path: &Path,
    built: &Path,
    component: &[u8],
) -> Result<(), ToolError> {
    let file_name = file_name(built);
    let sha256 = format!("{:x}", Sha256::digest(component));
    let sources = InstalledSources::read(setup);
    let shown = setup.workspace.display_path(built);
    let outdated = |why: String| outdated(why, path);
    match sources.compare(&file_name, &sha256, &plugin.entry) {
        SourceComparison::Same => {}
        SourceComparison::Other(entry) => {
            let entry = setup.workspace.display_path(&entry);
            let why = format!("{shown} was built from {entry}");
            return Err(outdated(why));
        }
        SourceComparison::Unknown if sources.has(&file_name) => {
            let why = format!("{shown} was replaced after it was built");
            return Err(outdated(why));
        }
        SourceComparison::Unknown => {}
    }
    let recorded = sources.sources_of(&file_name);
    let is_current = recorded.and_then(|recorded| {
        // The folder may have been moved.
        let root = if recorded.root.exists() {
            &recorded.root
        } else {
            &plugin.watched
        };
        Some(SourceSnapshot::read(root)?.digest().sha256 == recorded.sha256)
    });
    let newer = newer_files(&plugin.watched, built);
    match is_current {
        Some(true) => Ok(()),
        Some(false) => Err(outdated(changed(&shown, &newer))),
        // The file of a colleague, or of an earlier version of mimir. A checkout sets the times in any order.
        None => {
            note_unknown(&shown, &newer);
            Ok(())
        }
    }
}

/// Warns that a component may be older than its sources, of which nothing is recorded.
fn note_unknown(shown: &str, newer: &[PathBuf]) {
    if !newer.is_empty() {
        note(format_args!(
            "Whether {shown} is the build of the current sources is not known: it was not built here, and its sources \
             have later times. `mimir tools build` makes sure."
        ));
    }
}

/// Fails if a component file in `.mimir/tools` was built from sources that have changed since. A file whose sources are
/// not known passes.
pub fn check_build_file(
    setup: &HostSetup,
    built: &Path,
    component: &[u8],
) -> Result<(), ToolError> {
    let tools = setup.workspace.tools();
    let absolute = std::path::absolute(built).unwrap_or_default();
    let is_installed = absolute
        .parent()
        .and_then(|parent| parent.canonicalize().ok())
        .is_some_and(|parent| tools.canonicalize().is_ok_and(|tools| tools == parent));
    let sources = InstalledSources::read(setup);
    let sha256 = format!("{:x}", Sha256::digest(component));
    let file_name = file_name(built);
    let entry = sources.entry_of(&file_name, &sha256);
    let (Some(entry), true) = (entry.filter(|entry| entry.is_file()), is_installed) else {
        return Ok(());
    };
    let recorded = sources.sources_of(&file_name);
    let watched = recorded.map_or(entry, |recorded| &recorded.root);
    let newer = newer_files(watched, built);
    let is_current =
        recorded.and_then(|recorded| Some(SourceSnapshot::read(watched)?.digest() == *recorded));
    let shown = setup.workspace.display_path(built);
    match is_current {
        Some(true) => return Ok(()),
        Some(false) => {}
        None => {
            note_unknown(&shown, &newer);
            return Ok(());
        }
    }
    let path = if watched.is_dir() { watched } else { entry };
    let path = setup.workspace.display_path(path);
    Err(outdated(changed(&shown, &newer), Path::new(&path)))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the sources that are newer than the component, relative to the folder.
fn newer_files(watched: &Path, built: &Path) -> Vec<PathBuf> {
    let modified = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|meta| meta.modified())
            .ok()
    };
    let Some(time) = modified(built) else {
        return Vec::new();
    };
    let is_newer = |changed: Option<SystemTime>| changed.is_some_and(|changed| changed > time);
    let files = source_files(watched).unwrap_or_default().into_iter();
    let newer = files.filter(|(_, changed)| is_newer(*changed));
    let shown = newer.map(|(path, _)| match path.strip_prefix(watched) {
        Ok(relative) if !relative.as_os_str().is_empty() => relative.to_owned(),
        _ => path.file_name().map(PathBuf::from).unwrap_or_default(),
    });
    shown.collect()
}

fn changed(shown: &str, newer: &[PathBuf]) -> String {
    let names = newer.iter().take(SHOWN_FILES);
    let names: Vec<String> = names
        .map(|name| visible(&name.display().to_string()))
        .collect();
    let more = newer.len() - names.len();
    let names = names.join(", ");
    match (newer.len(), more) {
        (0, _) => format!("{shown} is outdated: its sources have changed since it was built"),
        (_, 0) => format!("{shown} is outdated: {names} changed after it was built"),
        _ => format!("{shown} is outdated: {names} and {more} more changed after it was built"),
    }
}

fn outdated(why: String, path: &Path) -> ToolError {
    let path = quote_for_shell(&path.display().to_string());
    let remedies = [
        format!("build it again: `mimir tools build {path}`"),
        "`--allow-stale` pushes the file as it is".to_owned(),
    ];
    let message = format!("{why}; nothing was pushed");
    ToolError::new(ToolErrorCode::Unavailable, message).with_remedies(remedies)
}
