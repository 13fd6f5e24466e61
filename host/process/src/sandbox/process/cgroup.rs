//! Control groups, where the machine allows creating them. They limit memory, processes and processor time of a command
//! and all its descendants.
//!
//! Both versions are supported: v2 has a single tree, and groups can be created if a group above this process is
//! delegated; v1 has one tree for each controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Access, access};

use crate::sandbox::procfs::oom_kills;
use crate::sandbox::{ResourceBounds, SandboxError};

/// Parent folders in which groups can be created.
#[derive(Debug, Clone, Default)]
pub(super) struct CgroupTree {
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    unified: bool,
}

/// Groups of one command. Dropping this removes them.
#[derive(Debug, Default)]
pub(super) struct CommandCgroups {
    folders: Vec<PathBuf>,
    /// True for a single group of cgroup v2.
    unified: bool,
    /// File that counts out-of-memory kills.
    events: Option<PathBuf>,
    /// Number of out-of-memory kills before the current command.
    killed_before: u64,
}

impl CgroupTree {
    /// Finds the groups of this process.
    pub(super) fn find() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let tree = Self::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        tree.sweep();
        tree
    }

    fn parse(self_cgroup: &str, mounts: &str) -> Self {
        let mut tree = Self::default();
        let v1 = |controller: &str| {
            let path = self_cgroup.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let named = parts.next()?.split(',').any(|name| name == controller);
                parts.next().filter(|_| named)
            })?;
            let folder = find_mounted_cgroup(mounts, "cgroup", Some(controller), path)?;
            can_create(&folder).then_some(folder)
        };
        tree.memory = v1("memory");
        tree.pids = v1("pids");
        tree.cpu = v1("cpu");
        if tree.memory.is_none() && tree.pids.is_none() {
            let path = self_cgroup
                .lines()
                .find_map(|line| line.strip_prefix("0::"));
            if let Some(folder) =
                path.and_then(|path| find_mounted_cgroup(mounts, "cgroup2", None, path))
            {
                tree.use_unified_tree(&folder);
            }
        }
        tree
    }

    /// Finds the nearest group at or above this process that delegates controllers and is writable.
    fn use_unified_tree(&mut self, self_cgroup: &Path) {
        for folder in self_cgroup
            .ancestors()
            .take_while(|folder| folder.join("cgroup.procs").exists())
        {
            let controllers =
                fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
            let has = |name: &str| {
                controllers
                    .split_whitespace()
                    .any(|controller| controller == name)
            };
            if !has("memory") || !has("pids") || !can_create(folder) {
                continue;
            }
            if access(folder.join("cgroup.procs"), Access::WRITE_OK).is_err() {
                continue;
            }
            *self = Self {
                memory: Some(folder.to_owned()),
                pids: Some(folder.to_owned()),
                cpu: has("cpu").then(|| folder.to_owned()),
                unified: true,
            };
            return;
        }
    }

    /// Removes the groups of mimir processes that were killed before they could clean up.
    fn sweep(&self) {
        for folder in [&self.memory, &self.pids, &self.cpu].into_iter().flatten() {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
                if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                    // A group that is still in use cannot be removed.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// Returns true for cgroup v1.
    pub(super) fn is_version_one(&self) -> bool {
        !self.unified && (self.memory.is_some() || self.pids.is_some())
    }

    pub(super) fn can_limit_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(super) fn can_limit_processes(&self) -> bool {
        self.pids.is_some()
    }

    pub(super) fn can_limit_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Creates the groups of one command. `sandbox_tasks` is the number of the sandbox's own processes and threads that
    /// stay in the groups while the command runs. Limits that cannot be enforced are omitted: callers must check that
    /// before.
    pub(super) fn make(
        &self,
        bounds: &ResourceBounds,
        sandbox_tasks: u64,
    ) -> Result<CommandCgroups, SandboxError> {
        let mut groups = CommandCgroups::default();
        groups.unified = self.unified;
        self.fill(&mut groups, bounds, sandbox_tasks)
            .map_err(SandboxError::io_error(
                "cannot create the control groups of a command",
            ))?;
        Ok(groups)
    }

    fn fill(
        &self,
        groups: &mut CommandCgroups,
        bounds: &ResourceBounds,
        sandbox_tasks: u64,
    ) -> io::Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "{PREFIX}{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let mut make = |parent: &Path| {
            let folder = parent.join(&name);
            if !groups.folders.contains(&folder) {
                fs::create_dir(&folder)?;
                groups.folders.push(folder.clone());
            }
            io::Result::Ok(folder)
        };
        if let Some(parent) = &self.memory {
            let folder = make(parent)?;
            let limit = bounds.memory.value().to_string();
            if self.unified {
                fs::write(folder.join("memory.max"), limit)?;
                // Swap accounting may be missing, and `memory.oom.group` is newer than cgroup v2 itself.
                let _ = fs::write(folder.join("memory.swap.max"), "0");
                let _ = fs::write(folder.join("memory.oom.group"), "1");
                groups.events = Some(folder.join("memory.events"));
            } else {
                fs::write(folder.join("memory.limit_in_bytes"), &limit)?;
                let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), limit);
                groups.events = Some(folder.join("memory.oom_control"));
            }
        }
        if let Some(parent) = &self.pids {
            let folder = make(parent)?;
            let limit = bounds.processes.value().saturating_add(sandbox_tasks);
            fs::write(folder.join("pids.max"), limit.to_string())?;
        }
        if let (Some(parent), Some(percent)) = (&self.cpu, bounds.cpu) {
            let folder = make(parent)?;
            let quota = u64::from(percent) * CPU_PERIOD / 100;
            if self.unified {
                fs::write(folder.join("cpu.max"), format!("{quota} {CPU_PERIOD}"))?;
            } else {
                fs::write(folder.join("cpu.cfs_period_us"), CPU_PERIOD.to_string())?;
                fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        Ok(())
    }
}

/// Number of sandbox processes in the groups of a command: the first process of its namespace.
pub(super) const FIRST_PROCESS: u64 = 1;

/// Name prefix of mimir's groups, followed by the process id and a counter.
const PREFIX: &str = "mimir-";

/// Period for the limit of processor time, in microseconds: the kernel's default.
const CPU_PERIOD: u64 = 100_000;

impl CommandCgroups {
    /// Opens the group in which a process can be created directly (v2 only).
    pub(super) fn start_cgroup(&self) -> io::Result<Option<OwnedFd>> {
        let folder = self.folders.first().filter(|_| self.unified);
        let file = folder.map(fs::File::open).transpose()?;
        Ok(file.map(OwnedFd::from))
    }

    /// Returns the files to which a thread writes `0` to join the groups (v1).
    pub(super) fn thread_files(&self) -> Vec<PathBuf> {
        let tasks = |folder: &PathBuf| folder.join("tasks");
        self.folders.iter().map(tasks).collect()
    }

    /// Moves an existing process into the groups. Its future children start there.
    pub(super) fn admit(&self, process: i32) -> io::Result<()> {
        let files = self
            .folders
            .iter()
            .map(|folder| folder.join("cgroup.procs"));
        files
            .into_iter()
            .try_for_each(|file| fs::write(file, process.to_string()))
    }

    /// Resets the out-of-memory state for the next command in these groups.
    pub(super) fn begin_command(&mut self) {
        self.killed_before = self.killed();
    }

    /// Returns true if a process of the current command was killed for running out of memory.
    pub(super) fn out_of_memory(&self) -> bool {
        self.killed() > self.killed_before
    }

    fn killed(&self) -> u64 {
        self.events.as_ref().and_then(oom_kills).unwrap_or(0)
    }

    /// Returns the current memory use of the groups in bytes.
    pub(super) fn memory_in_use(&self) -> u64 {
        let file = self.events.as_ref().and_then(|file| file.parent());
        let file = file.map(|folder| folder.join("memory.usage_in_bytes"));
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

impl Drop for CommandCgroups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The last process has ended, but the group may be busy for a moment longer.
            for _ in 0..20 {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Returns the host folder of the group `path` in a cgroup tree.
fn find_mounted_cgroup(
    mounts: &str,
    kind: &str,
    controller: Option<&str>,
    path: &str,
) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let is_kind = file_system.next()? == kind;
        let options = file_system.nth(1)?;
        let has_controller =
            controller.is_none_or(|name| options.split(',').any(|option| option == name));
        if !is_kind || !has_controller {
            return None;
        }
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

/// Returns true if a group can be created below this one. The only way to find out is to try.
fn can_create(folder: &Path) -> bool {
    let probe = folder.join(format!("{PREFIX}{}-probe", std::process::id()));
    let created = fs::create_dir(&probe).is_ok();
    if created {
        let _ = fs::remove_dir(&probe);
    }
    created
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        30 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 /init.scope /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn cgroup_folder_is_found_below_its_mount() {
        let find = |kind, controller, path| find_mounted_cgroup(MOUNTS, kind, controller, path);
        assert_eq!(
            find("cgroup", Some("memory"), "/a/b"),
            Some("/sys/fs/cgroup/memory/a/b".into())
        );
        assert_eq!(
            find("cgroup", Some("cpuacct"), "/"),
            Some("/sys/fs/cgroup/cpu/".into())
        );
        assert_eq!(find("cgroup", Some("pids"), "/"), None);
        assert_eq!(
            find("cgroup2", None, "/init.scope/x"),
            Some("/sys/fs/cgroup/unified/x".into())
        );
        // Above the mounted part of the tree.
        assert_eq!(find("cgroup2", None, "/other"), None);
    }

    #[test]
    fn cgroup_tree_of_a_machine_without_cgroups_is_empty() {
        let tree = CgroupTree::parse("", "");
        assert!(!tree.can_limit_memory() && !tree.can_limit_processes() && !tree.can_limit_cpu());
        assert!(
            tree.make(&ResourceBounds::default(), FIRST_PROCESS)
                .unwrap()
                .folders
                .is_empty()
        );
    }
}
