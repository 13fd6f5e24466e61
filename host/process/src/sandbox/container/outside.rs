//! What runs in a container, seen from outside: where the engine that should end it is gone, or does not tell.
//!
//! A container's processes are in control groups that have its name, which is 64 random digits, and in no others. They
//! are ours to kill, since a command is whoever runs us. Where the engine has a machine of its own, none are found.

/// How often they are looked for: each time one may have started another while we looked.
#[cfg(target_os = "linux")]
const ROUNDS: usize = 50;

/// Digits of a name. A shorter one could be part of another's.
#[cfg(target_os = "linux")]
const NAME: usize = 64;

/// Kills all processes of a container.
#[cfg(target_os = "linux")]
pub(super) fn kill(id: &str) {
    use rustix::process::{Pid, Signal, kill_process};
    if id.len() < NAME {
        return;
    }
    for _ in 0..ROUNDS {
        let found: Vec<_> = processes(id).filter_map(Pid::from_raw).collect();
        for process in &found {
            let _ = kill_process(*process, Signal::KILL);
        }
        if found.is_empty() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &str) {}

/// Whether something in a container that still runs was ended for its memory.
#[cfg(target_os = "linux")]
pub(super) fn out_of_memory(id: &str) -> bool {
    if id.len() < NAME {
        return false;
    }
    let groups = processes(id)
        .find_map(|process| std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok());
    groups.as_deref().and_then(counter).is_some_and(|counter| {
        let text = std::fs::read_to_string(counter).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.any(|(name, count)| name == "oom_kill" && count != "0")
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn out_of_memory(_: &str) -> bool {
    false
}

/// The file that counts them, from the groups of a process: of the first version, or else of the second.
#[cfg(target_os = "linux")]
fn counter(groups: &str) -> Option<String> {
    let mut lines = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let first = lines
        .clone()
        .find(|(kinds, _)| kinds.split(',').any(|kind| kind == "memory"));
    if let Some((_, path)) = first {
        return Some(format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
    }
    let (_, path) = lines.find(|(kinds, _)| kinds.is_empty())?;
    Some(format!("/sys/fs/cgroup{path}/memory.events"))
}

/// The processes of a container that are not gone.
#[cfg(target_os = "linux")]
fn processes(id: &str) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).ok()?;
        groups.contains(id).then_some(process)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_found_in_both_versions() {
        let first = "9:name=systemd:/docker/x\n4:cpu,memory:/docker/x\n0::/\n";
        let file = "/sys/fs/cgroup/memory/docker/x/memory.oom_control";
        assert_eq!(counter(first).as_deref(), Some(file));
        let second = "0::/system.slice/docker-x.scope\n";
        let file = "/sys/fs/cgroup/system.slice/docker-x.scope/memory.events";
        assert_eq!(counter(second).as_deref(), Some(file));
        assert_eq!(counter(""), None);
    }

    #[test]
    fn what_is_in_no_such_container_is_left_alone() {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        assert!(!own.is_empty());
        assert_eq!(processes(&"0".repeat(NAME)).count(), 0);
        // A part of a name that fits many is no name: this test would end here.
        kill("/");
        kill("");
    }
}
