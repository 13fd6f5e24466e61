//! Programs as a whole: mimir, which cargo builds before the bench, and the ones that it is measured against.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `mimir` in a workspace, with a cache of its own and nobody's settings.
pub fn call(workspace: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mimir"));
    command
        .current_dir(workspace)
        .args(arguments)
        .env("MIMIR_CACHE_DIR", home.join("cache"))
        .env("MIMIR_CONFIG_DIR", home.join("config"))
        .env_remove("MIMIR_LOG");
    command
}

/// A program that may be missing.
pub fn other(program: impl AsRef<OsStr>) -> Option<Command> {
    let there = Command::new(&program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    there
        .is_ok_and(|status| status.success())
        .then(|| Command::new(&program))
}

/// Runs it to its end so often; what it prints is read and thrown away.
pub fn run(command: &mut Command, times: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }
    start.elapsed()
}

/// What it prints.
pub fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
