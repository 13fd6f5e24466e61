//! Builds of plugins in Rust.
//!
//! Crates are fetched outside of the sandbox, which needs the network but runs no code of the plugin: cargo starts in a
//! folder of its own, so that no settings of the plugin's folder apply. Everything else runs in the sandbox.

use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};
use serde_json::Value;
use tokio::process::Command;

use super::{BuildContext, BuildStep, CompiledPlugin, PluginFolder};
use crate::commands::toolchains::{ProgramSearch, missing_rust};
use crate::exit::CommandResult;
use crate::output::note;
use crate::sdk::{self, TARGET};
use mimir::file_error::file_error;

mod cargo_command;
mod cargo_packages;
mod package_sources;

use cargo_command::CargoCommand;
use cargo_packages::CargoWorkspace;

/// Name of cargo's target folder in the folder of the plugin. Not that of its workspace, where packages of the same name
/// would overwrite each other.
pub const TARGET_FOLDER: &str = "target";

/// Files that select a toolchain, for rustup.
const TOOLCHAIN_FILES: [&str; 2] = ["rust-toolchain", "rust-toolchain.toml"];

/// Maximum size of Cargo.toml in bytes.
const MAX_MANIFEST_SIZE: u64 = 1 << 20;

/// Maximum length of a file name in characters.
const MAX_NAME_LENGTH: usize = 64;

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let root = &folder.root;
    let file_name = component_name(folder)?;
    let search = folder.program_search();
    let (_, rustc) = programs(&search)?;
    add_target(cx, folder, &search, &rustc).await?;
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
    if !is_below(&component, &root.join(TARGET_FOLDER)) {
        let message = "the build named a component outside of its target folder";
        return Err(ToolError::execution(message).into());
    }
    let built = cx.read_output(folder, &component)?;
    let finished = mimir_wasm::finish_plugin(&cx.setup.host(), &built).await;
    let bytes = finished.map_err(ToolError::from)?;
    Ok(CompiledPlugin::new(file_name, bytes))
}

/// Prepares a step that runs cargo: the crates are fetched, and the SDK is found. The arguments name the target folder
/// [`TARGET_FOLDER`].
pub async fn cargo_step(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    args: &[&str],
) -> CommandResult<BuildStep> {
    let root = &folder.root;
    let search = folder.program_search();
    let (cargo, _) = programs(&search)?;
    let target_folder = root.join(TARGET_FOLDER);
    folder.create_folder(&target_folder)?;
    let is_config_written = sdk::point_to(root, &cx.sdk)?;
    let command = CargoCommand::new(cx, folder, &search, &cargo);
    let workspace = CargoWorkspace::find(&command, root).await?;
    if let Some(workspace) = &workspace {
        if is_config_written {
            workspace.fetch_packages(cx, folder, &command).await?;
        } else {
            check_own_config(cx, workspace)?;
        }
    }
    Ok(BuildStep {
        compiler: "cargo",
        args: command_line(&cargo, args),
        visible_folder: workspace.and_then(|workspace| workspace.root_above(root)),
        writable: vec![target_folder],
        ..BuildStep::default()
    })
}

/// Tells the user what a plugin with settings of its own for cargo needs. Fails if `Cargo.lock` is missing, which the
/// build cannot write.
fn check_own_config(cx: &BuildContext<'_>, workspace: &CargoWorkspace) -> Result<(), ToolError> {
    if !workspace.lock_file().exists() {
        return Err(ToolError::invalid_input(
            "Cargo.lock is missing, and mimir does not write it for a plugin with a .cargo/config.toml of its own: run \
             `cargo generate-lockfile` in the plugin's folder first",
        ));
    }
    // A JSON string is also a valid TOML string.
    let sdk = Value::from(cx.sdk.package.to_string_lossy().into_owned());
    note(format_args!(
        "its crates are not fetched, because .cargo/config.toml was not written by mimir: run `cargo fetch` in the \
         plugin's folder. The SDK needs this line in [patch.crates-io] of that file: mimir-sdk = {{ path = {sdk} }}"
    ));
    Ok(())
}

/// Returns cargo and rustc.
fn programs(search: &ProgramSearch) -> Result<(PathBuf, PathBuf), ToolError> {
    let programs = search.program("cargo").zip(search.program("rustc"));
    programs.ok_or_else(|| missing_rust().into())
}

/// Returns the name of the component's file: that of the library in Cargo.toml, as cargo writes it. The messages of the
/// build do not decide it, because macros of the plugin can print some too.
fn component_name(folder: &PluginFolder) -> Result<PathBuf, ToolError> {
    let path = folder.root.join("Cargo.toml");
    let text = read_text(&path, LinkPolicy::Refuse, MAX_MANIFEST_SIZE)
        .map_err(|error| file_error("read", &path, &error))?;
    // The build reports a manifest that is not valid.
    let manifest: toml::Table = text.parse().unwrap_or_default();
    let name = |table: &str| manifest.get(table)?.get("name")?.as_str();
    let name = name("lib").or_else(|| name("package"));
    let name = name
        .filter(|name| !name.is_empty())
        .unwrap_or(&folder.package.name);
    let is_valid = |c: &char| c.is_ascii_alphanumeric();
    let name = name.chars().take(MAX_NAME_LENGTH);
    let name: String = name.map(|c| if is_valid(&c) { c } else { '_' }).collect();
    Ok(PathBuf::from(format!("{name}.wasm")))
}

/// Returns true if a path is below a folder, without `..`.
fn is_below(path: &Path, folder: &Path) -> bool {
    let mut parts = path.components();
    path.starts_with(folder) && !parts.any(|part| part == Component::ParentDir)
}

fn command_line(program: &Path, args: &[&str]) -> Vec<String> {
    let mut line = vec![program.to_string_lossy().into_owned()];
    line.extend(args.iter().map(|arg| (*arg).to_owned()));
    line
}

/// Installs the compilation target with rustup if it is missing. A file of the plugin that selects a toolchain has no
/// effect on rustup, so the target is not installed for such a plugin.
async fn add_target(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    search: &ProgramSearch,
    rustc: &Path,
) -> Result<(), ToolError> {
    if has_target(cx, folder, rustc).await? {
        return Ok(());
    }
    let rustup = search.program("rustup");
    if let Some(rustup) = rustup.filter(|_| !selects_toolchain(&folder.root)) {
        note(format_args!("adding the target {TARGET} …"));
        let added = Command::from(search.command(&rustup))
            .args(["target", "add", TARGET])
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await;
        if added.is_ok_and(|status| status.success()) && has_target(cx, folder, rustc).await? {
            return Ok(());
        }
    }
    Err(ToolError::unavailable(format!(
        "the compilation target {TARGET} is not installed; in the plugin's folder, add it with: rustup target add {TARGET}"
    )))
}

/// Returns true if a file in the folder of the plugin or above selects a toolchain.
fn selects_toolchain(root: &Path) -> bool {
    let mut folders = root.ancestors();
    folders.any(|folder| {
        TOOLCHAIN_FILES
            .iter()
            .any(|name| folder.join(name).symlink_metadata().is_ok())
    })
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

    #[test]
    fn component_is_named_by_the_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let name = |manifest: &str| {
            std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
            let folder = PluginFolder::find(dir.path(), None).unwrap();
            component_name(&folder).unwrap().display().to_string()
        };
        assert_eq!(
            name("[package]\nname = \"word-count\"\n"),
            "word_count.wasm"
        );
        let library = "[package]\nname = \"a\"\n[lib]\nname = \"B_c\"\n";
        assert_eq!(name(library), "B_c.wasm");
        assert_eq!(name("[package]\nname = \"../\\u001b]x\"\n"), "_____x.wasm");
    }

    #[test]
    fn component_must_be_below_the_target_folder() {
        let target = Path::new("/p/target");
        assert!(is_below(Path::new("/p/target/release/x.wasm"), target));
        for path in ["/p/x.wasm", "/p/target/../../x.wasm", "/p/targets/x.wasm"] {
            assert!(!is_below(Path::new(path), target), "{path}");
        }
    }
}
