//! Whole programs: mimir, which cargo builds before the bench, and the programs that it is compared with.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `mimir` in a workspace, with its own cache and without user settings.
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

/// Another program, or `None` if it is not installed.
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

/// Runs a command to its end a number of times; its output is read and discarded.
pub fn run(command: &mut Command, times: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
    }
    start.elapsed()
}

/// The output of a command.
pub fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
