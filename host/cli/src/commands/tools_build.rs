//! `mimir tools build`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mimir_core::{Registry, Tool, ToolError, ToolErrorCode};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt as _;

use super::call::wait_for_interrupt;
use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::tools::quarantined;
use crate::output::{FAINT, GOOD, STRONG, first_line, note, styled};
use crate::sdk::{self, TARGET};
use mimir::file_error::file_error;
use mimir::setup::HostSetup;

mod typescript;

#[derive(Serialize)]
struct BuildReport {
    file: String,
    bytes: u64,
    tools: Vec<String>,
}

/// Compiles the plugin in `dir` and installs it into `.mimir/tools`.
pub async fn run(globals: &GlobalOptions, dir: &Path) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let built = tokio::select! {
        built = build_component(&setup, dir, printer.is_json()) => built?,
        // Dropping the future stops the compiler.
        exit = wait_for_interrupt() => {
            let error = ToolError::new(ToolErrorCode::Cancelled, "the build was stopped");
            return Err(CommandFailure::with_exit(error, exit));
        }
    };
    let (name, content) = built;
    let target = setup.workspace.tools().join(name);
    setup.workspace.check_no_links(&target)?;
    let file = setup.workspace.display_path(&target).replace('\\', "/");
    let is_in_file = |location: &str| {
        location == file
            || location
                .strip_prefix(&file)
                .is_some_and(|rest| rest.starts_with(" ("))
    };
    let previous_names = if target.exists() {
        let registry = setup.registry().await.into_registry();
        names(&tools_of_file(&registry, &is_in_file))
    } else {
        Vec::new()
    };
    mimir::file_error::write_atomically(&target, &content)
        .map_err(|e| file_error("write", &target, &e))?;

    let snapshot = setup.load_snapshot().await?;
    let tools = tools_of_file(&snapshot.registry, &is_in_file);
    let current_names = names(&tools);
    let still_exists = |name: &String| current_names.contains(name);
    if !previous_names.is_empty() && !previous_names.iter().any(still_exists) {
        let lost = previous_names.join(", ");
        note(format_args!(
            "the previous content of {file} is gone, with its tools: {lost}"
        ));
    }
    let report = BuildReport {
        bytes: content.len() as u64,
        tools: current_names,
        file: file.clone(),
    };
    printer.print_result(&report, |out| {
        let size = mimir_core::text::bytes(report.bytes);
        writeln!(out, "{} {file} ({size})", styled(GOOD, "built"))?;
        for tool in &tools {
            writeln!(
                out,
                "  {:<25} {}",
                tool.name().as_str(),
                first_line(&tool.definition.description, None)
            )?;
        }
        match tools.first() {
            Some(tool) => writeln!(out, "\nTry:  {}", styled(STRONG, example(tool))),
            None => writeln!(out, "{}", styled(FAINT, "  no tool in it can be called")),
        }
    })?;
    let left_out: Vec<_> = snapshot
        .registry
        .quarantined()
        .iter()
        .filter(|left_out| is_in_file(&left_out.location))
        .collect();
    for left_out in &left_out {
        quarantined(left_out);
    }
    if !setup.settings.config.tools.auto_load_custom_tools {
        note(".mimir/tools is not read, because the config has `tools.autoLoadCustomTools: false`");
    }
    Ok(ExitReason::done_if(!tools.is_empty()))
}

/// Returns the tools in a file.
fn tools_of_file<'a>(registry: &'a Registry, is_in_file: &dyn Fn(&str) -> bool) -> Vec<&'a Tool> {
    let tools = registry.tools().iter().map(AsRef::as_ref);
    tools
        .filter(|tool: &&Tool| is_in_file(&tool.origin.location))
        .collect()
}

fn names(tools: &[&Tool]) -> Vec<String> {
    let names = tools.iter().map(|tool| tool.name().to_string());
    names.collect()
}

/// Builds the plugin in a folder. Returns the file name and the bytes of its component.
async fn build_component(
    setup: &HostSetup,
    dir: &Path,
    is_json: bool,
) -> CommandResult<(PathBuf, Vec<u8>)> {
    if dir.join("Cargo.toml").is_file() {
        let sdk = sdk::lay_out(setup.user_dirs.cache.as_deref())?;
        sdk::point_to(dir, &sdk)?;
        add_target(dir)?;
        let component = compile(dir, is_json).await?;
        let content = std::fs::read(&component).map_err(|e| file_error("read", &component, &e))?;
        let name = component.file_name().map(PathBuf::from).unwrap_or_default();
        return Ok((name, content));
    }
    if let Some(file) = typescript::file(dir) {
        return typescript::component(setup, &file).await;
    }
    let shown = mimir_core::text::visible(&dir.display().to_string());
    let message = format!(
        "{shown} is not a plugin: expected Cargo.toml or tool.ts; `mimir tools new NAME` creates one"
    );
    let error = ToolError::new(ToolErrorCode::FileNotFound, message);
    Err(CommandFailure::with_exit(error, ExitReason::Usage))
}

/// Returns an example command that calls the tool with its required arguments.
fn example(tool: &Tool) -> String {
    let schema = tool.definition.input_schema.to_value();
    let mut line = format!("mimir call {}", tool.name());
    for key in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let value = match schema["properties"][key]["type"].as_str() {
            Some("integer" | "number") => "1",
            Some("boolean") => "true",
            _ => "…",
        };
        line.push_str(&format!(" {key}={value}"));
    }
    line
}

/// Installs the compilation target with rustup if it is missing.
fn add_target(dir: &Path) -> Result<(), ToolError> {
    match has_target(dir) {
        Some(true) => return Ok(()),
        Some(false) => {}
        None => {
            return Err(ToolError::unavailable(
                "Rust is not installed: see https://rustup.rs",
            ));
        }
    }
    note(format_args!("adding the target {TARGET} …"));
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(dir)
        .stdout(Stdio::null())
        .status();
    if added.is_ok_and(|status| status.success()) && has_target(dir) == Some(true) {
        return Ok(());
    }
    Err(ToolError::unavailable(format!(
        "the compilation target {TARGET} is not installed; add it with: rustup target add {TARGET}"
    )))
}

/// Returns true if the user's default Rust compiler has the target; `None` if there is no compiler. It runs where no
/// workspace decides: in a folder with a `rust-toolchain.toml`, rustup starts the program that this file names.
pub fn default_has_target() -> Option<bool> {
    let program = std::env::current_exe().ok();
    let folder = if cfg!(windows) {
        program.as_deref().and_then(Path::parent)?
    } else {
        Path::new("/")
    };
    has_target(folder)
}

/// Returns true if the Rust compiler used in `dir` has the target; `None` if there is no compiler. Code in `dir` may
/// run, so this is only for the folder of a plugin that is being built.
fn has_target(dir: &Path) -> Option<bool> {
    let rustc_output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(dir)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let folder = String::from_utf8(rustc_output.stdout).unwrap_or_default();
    Some(rustc_output.status.success() && Path::new(folder.trim()).is_dir())
}

/// Runs cargo and returns the path of the component. Cargo's messages and progress go to stderr as they arrive; in JSON
/// mode, the details of a failure contain the last lines.
async fn compile(dir: &Path, is_json: bool) -> Result<PathBuf, ToolError> {
    let fault = |message: &str| ToolError::execution(message);
    let mut cargo = tokio::process::Command::new("cargo");
    cargo
        .args([
            "build",
            "--release",
            "--target",
            TARGET,
            // In a target folder that plugins share, packages of the same name would overwrite each other.
            "--target-dir",
            "target",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(dir)
        // Compiler flags for native code are not valid for a component.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Cargo shows progress only if its stderr is the terminal.
        .stderr(if is_json {
            Stdio::piped()
        } else {
            Stdio::inherit()
        })
        .kill_on_drop(true);
    // Not `output`, which always captures stderr.
    let mut child = cargo.spawn().map_err(|e| {
        ToolError::unavailable(format!(
            "cannot start cargo: {e}; see https://rustup.rs to install it"
        ))
    })?;
    let stderr = child.stderr.take();
    let messages = async {
        match stderr {
            Some(stderr) => forward_lines(stderr).await,
            None => Vec::new(),
        }
    };
    let (output, messages) = tokio::join!(child.wait_with_output(), messages);
    let output = output.map_err(|e| fault(&format!("cannot read cargo's output: {e}")))?;
    if !output.status.success() {
        let error = fault("cargo could not build the plugin; its messages are above");
        return Err(if is_json {
            error.with_details(json!({ "messages": messages }))
        } else {
            error
        });
    }
    let manifest = dir
        .join("Cargo.toml")
        .canonicalize()
        .map_err(|e| file_error("find", dir, &e))?;
    find_component(&output.stdout, &manifest).ok_or_else(|| {
        fault("the build produced no component: Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`")
    })
}

/// Number of compiler lines in the details of a failure: an error message with some context.
const COMPILER_LINES: usize = 100;

/// Copies the compiler's lines to stderr as they arrive. Returns the last [`COMPILER_LINES`] lines.
async fn forward_lines(stderr: impl tokio::io::AsyncRead + Unpin) -> Vec<String> {
    let mut last = VecDeque::new();
    let mut lines = tokio::io::BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        note(&line);
        if last.len() == COMPILER_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    last.into()
}

/// Finds the `.wasm` file of the package with this manifest in cargo's JSON messages.
fn find_component(messages: &[u8], manifest: &Path) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let artifacts = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
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
            find_component(messages.join("\n").as_bytes(), &manifest),
            Some("/x/hello.wasm".into())
        );
        assert_eq!(find_component(b"", &manifest), None);
    }
}
