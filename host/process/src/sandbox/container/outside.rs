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

/// Podman's watcher, by what its own group is called.
#[cfg(target_os = "linux")]
const WATCHER: &str = "conmon";

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

/// How many processes of this machine were ended for memory since it began.
#[cfg(target_os = "linux")]
fn ended_for_memory() -> u64 {
    ended_by("/proc/vmstat").unwrap_or(0)
}

/// What counts those of a container, found before its command begins.
#[cfg(target_os = "linux")]
pub(super) struct Counter {
    /// The container's own.
    file: Option<String>,
    /// The machine's, when it was found.
    before: u64,
}

#[cfg(target_os = "linux")]
impl Counter {
    /// That of the container that this process is the first of.
    pub(super) fn of(process: i32, id: &str) -> Self {
        let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup"));
        Self {
            file: groups.ok().and_then(|groups| counter(&groups, id)),
            before: ended_for_memory(),
        }
    }

    /// Whether something in it was ended for its memory. Its own count goes with its last process. `alone` says whether
    /// nobody else tells then: what the machine has counted since may have been another's.
    pub(super) fn has_counted(&self, alone: bool) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match ended_by(file) {
            Some(count) => count > 0,
            None => alone && ended_for_memory() > self.before,
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) struct Counter;

#[cfg(not(target_os = "linux"))]
impl Counter {
    pub(super) fn of(_: i32, _: &str) -> Self {
        Self
    }

    pub(super) fn has_counted(&self, _: bool) -> bool {
        false
    }
}

/// The count in a file that has one.
#[cfg(target_os = "linux")]
fn ended_by(file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file that counts them, from the groups of a process: of the first version, or else of the second. Groups that
/// are not the container's own count nothing of it.
#[cfg(target_os = "linux")]
fn counter(groups: &str, id: &str) -> Option<String> {
    let mut lines = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let first = lines
        .clone()
        .find(|(kinds, _)| kinds.split(',').any(|kind| kind == "memory"));
    let own = |path: &str| path.contains(id);
    if let Some((_, path)) = first {
        return own(path).then(|| format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
    }
    let (_, path) = lines.find(|(kinds, _)| kinds.is_empty())?;
    own(path).then(|| format!("/sys/fs/cgroup{path}/memory.events"))
}

/// The processes of a container that are not gone. What watches it for its engine may have its name as well, and is none.
#[cfg(target_os = "linux")]
fn processes(id: &str) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).ok()?;
        let mut lines = groups.lines();
        let within = lines.any(|line| line.contains(id) && !line.contains(WATCHER));
        within.then_some(process)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_found_in_both_versions() {
        let first = "9:name=systemd:/docker/x\n4:cpu,memory:/docker/x\n0::/\n";
        let file = "/sys/fs/cgroup/memory/docker/x/memory.oom_control";
        assert_eq!(counter(first, "x").as_deref(), Some(file));
        let second = "0::/system.slice/docker-x.scope\n";
        let file = "/sys/fs/cgroup/system.slice/docker-x.scope/memory.events";
        assert_eq!(counter(second, "x").as_deref(), Some(file));
        assert_eq!(counter(second, "another"), None, "another's");
        assert_eq!(counter("", "x"), None);
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
