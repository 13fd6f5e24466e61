//! Helpers for the tests of all sandboxes.

use std::time::Duration;

use mimir_core::command::CommandOutput;
use mimir_process::run::run;
use mimir_process::sandbox::{CommandSpec, Sandbox, SandboxError};

pub async fn run_in(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
) -> Result<CommandOutput, SandboxError> {
    run(sandbox, spec, &mut |_, _| {}).await
}

/// Returns true if another process of this machine, including containers, has this word in its arguments.
pub fn runs(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        !own && arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == word.as_bytes())
    })
}

/// Returns a number for `sleep` that occurs in no other command line.
pub fn marker(seed: u32) -> String {
    format!("{}{seed}", 10_000_000 + u64::from(std::process::id()))
}

/// Runs a command that prints `begin` and then far more output than is stored. Checks the memory use.
pub async fn outpours(sandbox: &dyn Sandbox, mut spec: CommandSpec) {
    spec.timeout = Some(Duration::from_secs(5));
    let before = memory();
    let (code, captured) = match run_in(sandbox, &spec).await {
        Ok(finished) => (finished.exit_code, finished.stdout),
        Err(SandboxError::Timeout(stopped)) => (0, stopped.finished.stdout),
        Err(fault) => panic!("{fault}"),
    };
    assert_eq!(code, 0);
    assert!(captured.bytes.starts_with(b"begin\n"));
    assert!(
        captured.bytes.len() < (1 << 20) + 100 && captured.omitted_bytes > 1 << 24,
        "{}",
        captured.omitted_bytes
    );
    // Other tests of this program use memory in parallel.
    assert!(memory() < before + (256 << 20));
}

/// Returns the memory in use by this program, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
