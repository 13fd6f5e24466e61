//! A workspace in a temporary folder, and commands that run in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mimir_core::command::{CommandOutput, CommandProgram};
use mimir_process::sandbox::{CommandSpec, ProcessSandbox, Sandbox};

pub use crate::common::{marker, outpours, run_in, runs};

/// Returns the sandbox shared by all tests: the detected facts do not change.
pub fn sandbox() -> Arc<dyn Sandbox> {
    static SANDBOX: OnceLock<Arc<ProcessSandbox>> = OnceLock::new();
    let sandbox = SANDBOX.get_or_init(|| {
        Arc::new(if wrapped() {
            ProcessSandbox::by_bubblewrap()
        } else {
            ProcessSandbox::new()
        })
    });
    sandbox.available().expect("these tests need namespaces");
    sandbox.clone()
}

/// Returns true if bubblewrap builds the sandbox. The results must be the same, except for Landlock and performance.
pub fn wrapped() -> bool {
    std::env::var_os("MIMIR_TEST_BUBBLEWRAP").is_some()
}

/// Returns true if the tests run in a place without namespaces (see `confined.rs`).
pub fn confined() -> bool {
    std::env::var_os("MIMIR_TEST_CONFINED").is_some()
}

pub struct World {
    folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a world in the folder `above`.
    pub fn below(above: &str) -> Self {
        Self {
            folder: tempfile::tempdir_in(above).unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    pub fn outside(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Writes a file in the workspace.
    pub fn with(self, file: &str, content: &str) -> Self {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub fn spec(&self, program: CommandProgram) -> CommandSpec {
        std::fs::create_dir_all(self.path()).unwrap();
        let mut spec = CommandSpec::new(program, self.path());
        spec.timeout = Some(Duration::from_secs(60));
        spec
    }

    pub fn script(&self, text: &str) -> CommandSpec {
        self.spec(CommandProgram::Script(text.to_owned()))
    }

    /// Runs a script, which must end.
    pub async fn sh(&self, text: &str) -> Said {
        let finished = run_in(&*sandbox(), &self.script(text)).await;
        Said::of(finished.unwrap_or_else(|fault| panic!("{fault}\n{text}")))
    }

    pub fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path().join(file)).ok()
    }
}

/// The output of a command, as text.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(finished: CommandOutput) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: finished.exit_code,
            out: text(&finished.stdout.bytes),
            err: text(&finished.stderr.bytes),
        }
    }
}

pub async fn gone(word: &str) {
    for _ in 0..1500 {
        if !runs(word) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a process with `{word}` is still running");
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
