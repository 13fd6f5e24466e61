//! Direct access to the processes of a container, for engines that fail to end or report them.
//!
//! Only the processes of a container are in control groups whose path contains the container ID, 64 random hexadecimal
//! digits. This process may kill them, since commands run as the same user. If the engine runs in a virtual machine, no
//! processes are found.

#[cfg(target_os = "linux")]
use crate::sandbox::procfs::oom_kills;

/// Number of search rounds: each process may start another one meanwhile.
#[cfg(target_os = "linux")]
const SCAN_ROUNDS: usize = 50;

/// Length of a container ID. A shorter text could be part of another ID.
#[cfg(target_os = "linux")]
const CONTAINER_ID_LENGTH: usize = 64;

/// Name part of the control group of Podman's monitor process.
#[cfg(target_os = "linux")]
const MONITOR: &str = "conmon";

/// Kills all processes of a container.
#[cfg(target_os = "linux")]
pub(super) fn kill(id: &str) {
    use rustix::process::{Pid, Signal, kill_process};
    if id.len() < CONTAINER_ID_LENGTH {
        return;
    }
    for _ in 0..SCAN_ROUNDS {
        let pids: Vec<_> = processes(id).filter_map(Pid::from_raw).collect();
        for process in &pids {
            let _ = kill_process(*process, Signal::KILL);
        }
        if pids.is_empty() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &str) {}

/// Returns the number of out-of-memory kills on this machine since it was started.
#[cfg(target_os = "linux")]
fn machine_oom_kills() -> u64 {
    oom_kills("/proc/vmstat").unwrap_or(0)
}

/// Counter of out-of-memory kills in a container, opened before its command starts.
#[cfg(target_os = "linux")]
pub(super) struct OomCounter {
    /// The file with the container's count.
    file: Option<String>,
    /// The machine's count when the counter was opened.
    before: u64,
}

#[cfg(target_os = "linux")]
impl OomCounter {
    /// Opens the counter of the container with this first process.
    pub(super) fn for_container(process: i32, id: &str) -> Self {
        let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup"));
        Self {
            file: groups.ok().and_then(|groups| counter_file(&groups, id)),
            before: machine_oom_kills(),
        }
    }

    /// Returns true if a process in the container was killed for running out of memory. The container's count
    /// disappears with its last process; then, if `use_machine_count` is true, the machine's count decides, which may
    /// include kills elsewhere.
    pub(super) fn has_oom_kill(&self, use_machine_count: bool) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match oom_kills(file) {
            Some(count) => count > 0,
            None => use_machine_count && machine_oom_kills() > self.before,
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) struct OomCounter;

#[cfg(not(target_os = "linux"))]
impl OomCounter {
    pub(super) fn for_container(_: i32, _: &str) -> Self {
        Self
    }

    pub(super) fn has_oom_kill(&self, _: bool) -> bool {
        false
    }
}

/// Finds the file with the container's count from the control groups of a process, of version 1 or else 2. Ignores
/// groups that do not belong to the container.
#[cfg(target_os = "linux")]
fn counter_file(groups: &str, id: &str) -> Option<String> {
    let mut lines = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let first = lines
        .clone()
        .find(|(kinds, _)| kinds.split(',').any(|kind| kind == "memory"));
    let belongs_to_container = |path: &str| path.contains(id);
    if let Some((_, path)) = first {
        return belongs_to_container(path)
            .then(|| format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
    }
    let (_, path) = lines.find(|(kinds, _)| kinds.is_empty())?;
    belongs_to_container(path).then(|| format!("/sys/fs/cgroup{path}/memory.events"))
}

/// Returns the IDs of the running processes of a container. Excludes the engine's monitor, whose group may contain the
/// container ID.
#[cfg(target_os = "linux")]
fn processes(id: &str) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).ok()?;
        let mut lines = groups.lines();
        let is_in_container = lines.any(|line| line.contains(id) && !line.contains(MONITOR));
        is_in_container.then_some(process)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn oom_counter_is_found_in_cgroup_v1_and_v2() {
        let first = "9:name=systemd:/docker/x\n4:cpu,memory:/docker/x\n0::/\n";
        let file = "/sys/fs/cgroup/memory/docker/x/memory.oom_control";
        assert_eq!(counter_file(first, "x").as_deref(), Some(file));
        let second = "0::/system.slice/docker-x.scope\n";
        let file = "/sys/fs/cgroup/system.slice/docker-x.scope/memory.events";
        assert_eq!(counter_file(second, "x").as_deref(), Some(file));
        assert_eq!(
            counter_file(second, "another"),
            None,
            "the group belongs to another container"
        );
        assert_eq!(counter_file("", "x"), None);
    }

    #[test]
    fn kill_ignores_partial_container_ids() {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        assert!(!own.is_empty());
        assert_eq!(processes(&"0".repeat(CONTAINER_ID_LENGTH)).count(), 0);
        // A partial ID that matches many groups is ignored: otherwise this test would kill itself.
        kill("/");
        kill("");
    }
}
