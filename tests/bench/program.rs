//! Programs as a whole: mimir as cargo builds it now, and the ones that it is measured against.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where the program `mimir` is, built from what is here now.
///
/// The bench is named beside it because features are those of all targets that are asked for: without it,
/// the tests' own dependencies would be left out, and the whole engine compiled a second time. Cargo's
/// progress is shown, so that nobody takes a compiler for a bench that hangs.
fn mimir() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--release", "--locked", "--workspace"])
            .args(["--bin", "mimir", "--bench", "speed"])
            .status();
        assert!(
            built.is_ok_and(|status| status.success()),
            "mimir does not build"
        );
        let here = std::env::current_exe().unwrap();
        let deps = here.ancestors().find(|folder| folder.ends_with("deps"));
        deps.and_then(Path::parent)
            .unwrap()
            .join("mimir")
            .with_extension(std::env::consts::EXE_EXTENSION)
    })
}

/// `mimir` in a workspace, with a cache of its own and nobody's settings.
pub fn call(workspace: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(mimir());
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
