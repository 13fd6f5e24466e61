//! Queries about processes, from the kernel's `/proc` and control group files.

use std::fs;

use rustix::process::Pid;

/// Lists all descendants of a process, parents before their children.
pub(super) fn descendants(process: Pid) -> Vec<Pid> {
    let mut all = Vec::new();
    let mut pending = vec![process];
    while let Some(process) = pending.pop() {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children
                .split_whitespace()
                .filter_map(|id| Pid::from_raw(id.parse().ok()?));
            for child in children {
                all.push(child);
                pending.push(child);
            }
        }
    }
    all
}

/// Reads the number of out-of-memory kills from a control group file or `/proc/vmstat`.
pub(super) fn oom_kills(file: impl AsRef<std::path::Path>) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
