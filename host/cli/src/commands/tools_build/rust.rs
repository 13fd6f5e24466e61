//! Builds of plugins in Rust.
//!
//! Crates are fetched outside of the sandbox, which needs the network but runs no code of the plugin: cargo starts in a
//! folder of its own, so that no settings of the plugin's folder apply. Everything else runs in the sandbox.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use mimir_core::ToolError;
use mimir_core::files::reject_links;
use serde_json::Value;
use tokio::process::Command;

use super::{BuildContext, BuildStep, BuiltComponent, PluginFolder};
use crate::commands::toolchains::{ProgramSearch, missing_rust};
use crate::exit::CommandResult;
use crate::output::note;
use crate::sdk::{self, TARGET};
use mimir::file_error::file_error;

mod cargo_packages;

use cargo_packages::CargoPackages;

/// Name of cargo's target folder in the folder of the plugin. Not that of its workspace, where packages of the same name
/// would overwrite each other.
const TARGET_FOLDER: &str = "target";

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<BuiltComponent> {
    let root = &folder.root;
    let (_, rustc) = programs(folder)?;
    add_target(cx, folder, &rustc).await?;
    let args = [
        "build",
        "--release",
        "--offline",
        "--target",
        TARGET,
        "--target-dir",
        TARGET_FOLDER,
        "--message-format=json-render-diagnostics",
    ];
    let step = cargo_step(cx, folder, &args).await?;
    let messages = cx.run(folder, &step).await?;
    let component = find_component(&messages, &root.join("Cargo.toml"));
    let component = component.ok_or_else(|| {
        ToolError::execution(
            "the build produced no component: Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`",
        )
    })?;
    if !component.starts_with(root.join(TARGET_FOLDER)) {
        let message = "the build named a component outside of its target folder";
        return Err(ToolError::execution(message).into());
    }
    let built = cx.read_output(folder, &component)?;
    let finished = mimir_wasm::finish_plugin(&cx.setup.host(), &built).await;
    Ok(BuiltComponent {
        bytes: finished.map_err(ToolError::from)?,
        file_name: component.file_name().map(PathBuf::from).unwrap_or_default(),
        notes: Vec::new(),
    })
}

/// Prepares a step that runs cargo: the crates are fetched, and the SDK is found. The arguments name the target folder
/// [`TARGET_FOLDER`].
pub async fn cargo_step(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    args: &[&str],
) -> CommandResult<BuildStep> {
    let (cargo, _) = programs(folder)?;
    let root = &folder.root;
    // Cargo follows a link when it writes this file.
    let lock = root.join("Cargo.lock");
    reject_links(root, &lock).map_err(|error| file_error("write", &lock, &error))?;
    let target_folder = root.join(TARGET_FOLDER);
    folder.create_folder(&target_folder)?;
    let has_own_config = sdk::point_to(root, &cx.sdk)?;
    let packages = if has_own_config {
        CargoPackages::fetch(cx, folder, &cargo).await?
    } else {
        note("its crates are not fetched, because .cargo/config.toml was not written by mimir");
        CargoPackages::default()
    };
    Ok(BuildStep {
        compiler: "cargo",
        args: command_line(&cargo, args),
        visible_folder: packages.workspace(root),
        writable: vec![target_folder],
        read_only: packages.folders_outside(root),
        ..BuildStep::default()
    })
}

/// Returns cargo and rustc.
fn programs(folder: &PluginFolder) -> Result<(PathBuf, PathBuf), ToolError> {
    let search = ProgramSearch::outside(Some(&folder.root));
    let programs = search.program("cargo").zip(search.program("rustc"));
    programs.ok_or_else(|| missing_rust().into())
}

fn command_line(program: &Path, args: &[&str]) -> Vec<String> {
    let mut line = vec![program.to_string_lossy().into_owned()];
    line.extend(args.iter().map(|arg| (*arg).to_owned()));
    line
}

/// Installs the compilation target with rustup if it is missing.
async fn add_target(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    rustc: &Path,
) -> Result<(), ToolError> {
    if has_target(cx, folder, rustc).await? {
        return Ok(());
    }
    note(format_args!("adding the target {TARGET} …"));
    // It reads the toolchain file of the folder, but runs no toolchain that a path in this file names.
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(&folder.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await;
    if added.is_ok_and(|status| status.success()) && has_target(cx, folder, rustc).await? {
        return Ok(());
    }
    Err(ToolError::unavailable(format!(
        "the compilation target {TARGET} is not installed; add it with: rustup target add {TARGET}"
    )))
}

/// Returns true if the Rust compiler of the folder has the target. A file in the folder may name a compiler, which runs
/// in the sandbox.
async fn has_target(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    rustc: &Path,
) -> Result<bool, ToolError> {
    let step = BuildStep {
        compiler: "rustc",
        args: command_line(rustc, &["--print", "target-libdir", "--target", TARGET]),
        ..BuildStep::default()
    };
    let libraries = cx.query(folder, &step).await?.unwrap_or_default();
    let libraries = libraries.trim();
    Ok(!libraries.is_empty() && Path::new(libraries).is_dir())
}

/// Finds the `.wasm` file of the package with this manifest in cargo's JSON messages.
fn find_component(messages: &[String], manifest: &Path) -> Option<PathBuf> {
    let lines = messages.iter();
    let artifacts = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    artifacts
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| {
            let manifest_of_artifact = message["manifest_path"]
                .as_str()
                .and_then(|path| Path::new(path).canonicalize().ok());
            manifest_of_artifact.as_deref() == Some(manifest)
        })
        .filter_map(|message| {
            let files = message["filenames"]
                .as_array()?
                .iter()
                .filter_map(Value::as_str);
            files.map(PathBuf::from).find(|file| {
                file.extension()
                    .is_some_and(|extension| extension == "wasm")
            })
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_finds_the_component_in_cargo_messages() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().canonicalize().unwrap().join("Cargo.toml");
        std::fs::write(&manifest, "").unwrap();
        let line = |path: &Path, files: &[&str]| {
            serde_json::json!({"reason": "compiler-artifact", "manifest_path": path, "filenames": files}).to_string()
        };
        let messages = [
            line(Path::new("/other/Cargo.toml"), &["/x/other.wasm"]),
            line(&manifest, &["/x/hello.rlib", "/x/hello.wasm"]),
            "{\"reason\":\"build-finished\"}".to_owned(),
            "not json".to_owned(),
        ];
        assert_eq!(
            find_component(&messages, &manifest),
            Some("/x/hello.wasm".into())
        );
        assert_eq!(find_component(&[], &manifest), None);
    }
}
