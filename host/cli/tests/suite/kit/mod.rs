//! Helpers that run the binary in a temporary folder.

pub mod agent;
#[cfg(target_os = "linux")]
pub mod command_workspace;
#[cfg(target_os = "linux")]
pub mod dependencies;
#[cfg(target_os = "linux")]
pub mod functions;
pub mod greeter;
pub mod json_site;
pub mod listener;
pub mod login;
pub mod modules;
pub mod oci_registry;
#[cfg(target_os = "linux")]
pub mod person;
pub mod plugin;
pub use mimir_kit::scripted_model as script;
pub mod scripts;
pub mod shop;
pub mod team;
#[cfg(target_os = "linux")]
pub mod terminal;
#[cfg(unix)]
pub mod tmux;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program that is tested.
pub fn program() -> String {
    absolute(env!("CARGO_BIN_EXE_mimir")).display().to_string()
}

/// A folder of these tests in the target folder, which stays.
pub fn target_folder(name: &str) -> PathBuf {
    absolute(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Adds the drive to a path from a build on another system, as under wine.
fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap()
}

/// A command in this folder, with no settings and without the cache of the person who runs the tests.
pub fn mimir(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(args)
        .current_dir(home)
        // Outside of the workspace: a folder that contains mimir's own files cannot be a workspace.
        .env("MIMIR_CONFIG_DIR", config(home))
        // The cache is shared, so that the built-in tools are compiled once.
        .env("MIMIR_CACHE_DIR", target_folder("cache"))
        .env_remove("MIMIR_LOG")
        .env_remove("MIMIR_TEAM_POLICY")
        .stdin(Stdio::null());
    command
}

/// Time limit of [`eventually`].
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition that holds within seconds, also on a busy machine.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The user's configuration folder for `home`; only the tested code creates it.
pub fn config(home: &Path) -> PathBuf {
    target_folder("config").join(home.file_name().unwrap())
}

/// Its exit code, stdout and stderr.
pub fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = mimir(home, args).output().unwrap();
    let text = |bytes| with_slashes(&String::from_utf8(bytes).unwrap());
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Replaces the separators of Windows in the paths of mimir's own files, also in JSON. Elsewhere, a backslash escapes.
fn with_slashes(mut text: &str) -> String {
    if !cfg!(windows) {
        return text.to_owned();
    }
    let is_in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '\\' | '.' | '_' | '-');
    let mut plain = String::with_capacity(text.len());
    while let Some(at) = text.find(".mimir\\") {
        let (before, path) = text.split_at(at);
        let end = path.find(|c| !is_in_path(c)).unwrap_or(path.len());
        plain += before;
        plain += &path[..end].replace("\\\\", "/").replace('\\', "/");
        text = &path[end..];
    }
    plain + text
}
