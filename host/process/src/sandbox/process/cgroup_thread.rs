//! Threads that stay in control groups, for cgroup v1.
//!
//! Moving a process into a v1 group waits for all processors to notice, which takes longer than the rest of a start.
//! Here a thread is moved once, and the processes that it forks start in its groups. When a command has ended, its
//! groups and their thread are reused by the next command with the same limits.

use std::fs;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::cgroup::{CgroupTree, CommandCgroups, FIRST};
use crate::sandbox::{ResourceBounds, SandboxError};

/// The maximum number of idle threads: as many as commands often run at once.
const MAX_IDLE_THREADS: usize = 4;

/// The thread itself, which the groups count like a process.
const THREAD_COUNT: u64 = 1;

/// The maximum memory in bytes that may remain charged to groups that are reused.
const MAX_CHARGED_BYTES: u64 = 64 << 20;

type CgroupTask = Box<dyn FnOnce() + Send>;

/// A thread in its own control groups.
struct CgroupThread {
    bounds: ResourceBounds,
    tasks: Option<Sender<CgroupTask>>,
    thread: Option<JoinHandle<()>>,
    /// Declared after the thread, which must be gone before the groups can be removed.
    groups: CommandCgroups,
}

/// The idle threads.
#[derive(Default)]
pub(super) struct CgroupThreadPool {
    idle: Arc<Mutex<Vec<CgroupThread>>>,
}

/// A thread for one command. Dropping it after the command has ended makes it available to the next one.
pub(super) struct CgroupThreadGuard {
    berth: Option<CgroupThread>,
    pool: Weak<Mutex<Vec<CgroupThread>>>,
}

impl CgroupThreadPool {
    /// Returns a thread in groups with these limits.
    pub(super) fn acquire(
        &self,
        tree: &CgroupTree,
        bounds: &ResourceBounds,
    ) -> Result<CgroupThreadGuard, SandboxError> {
        let mut idle = self.idle.lock();
        let same = idle.iter().position(|berth| berth.bounds == *bounds);
        let waiting = same.map(|at| idle.swap_remove(at));
        drop(idle);
        let mut berth = match waiting {
            Some(berth) => berth,
            None => CgroupThread::new(tree, bounds)?,
        };
        berth.groups.begin_command();
        Ok(CgroupThreadGuard {
            berth: Some(berth),
            pool: Arc::downgrade(&self.idle),
        })
    }
}

impl CgroupThread {
    fn new(tree: &CgroupTree, bounds: &ResourceBounds) -> Result<Self, SandboxError> {
        let groups = tree.make(bounds, FIRST + THREAD_COUNT)?;
        let doors = groups.thread_files();
        let (tasks, todo) = channel::<CgroupTask>();
        let (ready, moved) = channel();
        let live = move || {
            let enter = doors.iter().try_for_each(|door| fs::write(door, "0"));
            if ready.send(enter).is_ok() {
                todo.into_iter().for_each(|task| task());
            }
        };
        let failed = "a thread cannot live in the control groups of a command";
        let thread = std::thread::Builder::new()
            .name("mimir-commands".to_owned())
            .spawn(live)
            .map_err(SandboxError::io_error(failed))?;
        // Built before the reply is read, so that an error drops it in order.
        let berth = Self {
            bounds: *bounds,
            tasks: Some(tasks),
            thread: Some(thread),
            groups,
        };
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let entered = moved.recv().map_err(gone).flatten();
        entered.map_err(SandboxError::io_error(failed))?;
        Ok(berth)
    }
}

impl Drop for CgroupThread {
    fn drop(&mut self) {
        // Closing the channel ends the thread.
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CgroupThreadGuard {
    /// Runs a task on the thread and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = channel();
        let tasks = self.berth.as_ref().and_then(|berth| berth.tasks.as_ref());
        let task: CgroupTask = Box::new(move || {
            // The receiver may have stopped waiting.
            let _ = done.send(task());
        });
        let sent = tasks.is_some_and(|tasks| tasks.send(task).is_ok());
        let result = sent.then(|| result.recv().ok()).flatten();
        result.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    pub(super) fn out_of_memory(&self) -> bool {
        let berth = self.berth.as_ref();
        berth.is_some_and(|berth| berth.groups.out_of_memory())
    }
}

impl Drop for CgroupThreadGuard {
    fn drop(&mut self) {
        let (Some(home), Some(berth)) = (self.pool.upgrade(), self.berth.take()) else {
            return;
        };
        // Files left in the temporary folder of a session would count against the next command.
        if berth.groups.memory_in_use() > MAX_CHARGED_BYTES {
            return;
        }
        let mut idle = home.lock();
        // The thread that has been idle longest is dropped.
        let oldest = (idle.len() >= MAX_IDLE_THREADS).then(|| idle.remove(0));
        idle.push(berth);
        drop(idle);
        drop(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_thread_is_reused_for_the_same_bounds_only() {
        let tree = CgroupTree::find();
        if !tree.is_version_one() {
            return;
        }
        let berths = CgroupThreadPool::default();
        let (one, other) = (
            ResourceBounds::default(),
            ResourceBounds {
                cpu: Some(50),
                ..ResourceBounds::default()
            },
        );
        let who = || std::thread::current().id();
        let first = berths.acquire(&tree, &one).unwrap().run(who).unwrap();
        let lent = berths.acquire(&tree, &one).unwrap();
        assert_eq!(lent.run(who).unwrap(), first);
        assert_ne!(
            berths.acquire(&tree, &one).unwrap().run(who).unwrap(),
            first
        );
        assert_ne!(
            berths.acquire(&tree, &other).unwrap().run(who).unwrap(),
            first
        );
        let all: Vec<_> = (0..10)
            .map(|_| berths.acquire(&tree, &one).unwrap())
            .collect();
        drop(all);
        assert_eq!(berths.idle.lock().len(), MAX_IDLE_THREADS);
    }

    #[test]
    fn cgroup_folders_are_removed_on_drop() {
        let tree = CgroupTree::find();
        if !tree.is_version_one() {
            return;
        }
        let berths = CgroupThreadPool::default();
        let lent = berths.acquire(&tree, &ResourceBounds::default()).unwrap();
        let folders = lent.berth.as_ref().unwrap().groups.folders().to_vec();
        assert!(folders.iter().all(|folder| folder.exists()));
        drop(lent);
        drop(berths);
        assert!(!folders.iter().any(|folder| folder.exists()), "{folders:?}");
    }
}
