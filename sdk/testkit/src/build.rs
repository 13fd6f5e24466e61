//! Builds a plugin with cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::TestkitError;

/// The fields of a cargo message that are needed to find the component.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds the package in `folder` for `wasm32-wasip2` and returns the path of its component.
///
/// Works inside `cargo test`, because cargo holds no lock while tests run.
pub(crate) fn build(folder: &Path) -> Result<PathBuf, TestkitError> {
    let failed = |reason: String| TestkitError::Build {
        folder: folder.to_owned(),
        reason,
    };
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .map_err(TestkitError::file(manifest))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--target",
            "wasm32-wasip2",
            "--message-format",
            "json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(&manifest)
        // Flags of the test build may not suit the wasm target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| failed(format!("cargo cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let component = |line: &str| {
        let message: Message = serde_json::from_str(line).ok()?;
        if message.reason != "compiler-artifact" || message.manifest_path != manifest {
            return None;
        }
        message
            .filenames
            .into_iter()
            .find(|file| file.extension().is_some_and(|end| end == "wasm"))
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let component = text.lines().find_map(component);
    component.ok_or_else(|| {
        failed(
            "the package builds no component: add [lib] crate-type = [\"cdylib\"] to its Cargo.toml"
                .to_owned(),
        )
    })
}
