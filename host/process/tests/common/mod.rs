//! What the tests of every sandbox have in common.

use std::time::Duration;

use mimir_core::command::Finished;
use mimir_process::run::run;
use mimir_process::sandbox::{Fault, Sandbox, Spec};

pub async fn run_in(sandbox: &dyn Sandbox, spec: &Spec) -> Result<Finished, Fault> {
    run(sandbox, spec, &mut |_, _| {}).await
}

/// Whether a process of this machine, other than this one, has this word in its arguments: those of containers are among
/// them.
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

/// A number that is in no other command line, for `sleep`.
pub fn marker(seed: u32) -> String {
    format!("{}{seed}", 10_000_000 + u64::from(std::process::id()))
}

/// Runs what says `begin` and then far more than anybody keeps, and looks at what that cost.
pub async fn outpours(sandbox: &dyn Sandbox, mut spec: Spec) {
    spec.timeout = Some(Duration::from_secs(5));
    let before = memory();
    let (code, captured) = match run_in(sandbox, &spec).await {
        Ok(finished) => (finished.exit_code, finished.stdout),
        Err(Fault::Timeout(stopped)) => (0, stopped.finished.stdout),
        Err(fault) => panic!("{fault}"),
    };
    assert_eq!(code, 0);
    assert!(captured.bytes.starts_with(b"begin\n"));
    assert!(
        captured.bytes.len() < (1 << 20) + 100 && captured.missing > 1 << 24,
        "{}",
        captured.missing
    );
    // Other tests of this program use some meanwhile.
    assert!(memory() < before + (256 << 20));
}

/// Bytes of memory that this program has in use.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
