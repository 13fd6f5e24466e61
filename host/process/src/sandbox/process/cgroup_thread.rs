//! Threads that stay in control groups, for cgroup v1.
//!
//! Moving a process into a v1 group waits for all processors to notice, which takes longer than the rest of a start.
//! Instead, a thread is moved once, and the processes that it forks start in its groups. After a command, its groups
//! and thread are reused for the next command with the same limits.

use std::fs;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::cgroup::{CgroupTree, CommandCgroups, FIRST_PROCESS};
use crate::sandbox::{ResourceBounds, SandboxError};

/// Maximum number of idle threads: as many as commands often run at once.
const MAX_IDLE_THREADS: usize = 4;

/// The thread itself, which the groups count like a process.
const THREAD_COUNT: u64 = 1;

/// Maximum memory in bytes that may remain charged to reused groups.
const MAX_CHARGED_BYTES: u64 = 64 << 20;

type CgroupTask = Box<dyn FnOnce() + Send>;

/// A thread in its own control groups.
struct CgroupThread {
    bounds: ResourceBounds,
    tasks: Option<Sender<CgroupTask>>,
    thread: Option<JoinHandle<()>>,
    /// Declared after the thread, which must end before the groups can be removed.
    groups: CommandCgroups,
}

/// Pool of idle threads.
#[derive(Default)]
pub(super) struct CgroupThreadPool {
    idle: Arc<Mutex<Vec<CgroupThread>>>,
}

/// Thread for one command. Dropping this after the command has ended makes the thread available to the next one.
pub(super) struct CgroupThreadGuard {
    thread: Option<CgroupThread>,
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
        let index = idle.iter().position(|thread| thread.bounds == *bounds);
        let existing = index.map(|at| idle.swap_remove(at));
        drop(idle);
        let mut thread = match existing {
            Some(thread) => thread,
            None => CgroupThread::new(tree, bounds)?,
        };
        thread.groups.begin_command();
        Ok(CgroupThreadGuard {
            thread: Some(thread),
            pool: Arc::downgrade(&self.idle),
        })
    }
}

impl CgroupThread {
    fn new(tree: &CgroupTree, bounds: &ResourceBounds) -> Result<Self, SandboxError> {
        let groups = tree.make(bounds, FIRST_PROCESS + THREAD_COUNT)?;
        let task_files = groups.thread_files();
        let (tasks, todo) = channel::<CgroupTask>();
        let (ready, moved) = channel();
        let run_tasks = move || {
            let joined = task_files.iter().try_for_each(|file| fs::write(file, "0"));
            if ready.send(joined).is_ok() {
                todo.into_iter().for_each(|task| task());
            }
        };
        let failed = "cannot start a thread in the control groups of a command";
        let thread = std::thread::Builder::new()
            .name("mimir-commands".to_owned())
            .spawn(run_tasks)
            .map_err(SandboxError::io_error(failed))?;
        // Built before the reply is read, so that an error drops the fields in order.
        let thread = Self {
            bounds: *bounds,
            tasks: Some(tasks),
            thread: Some(thread),
            groups,
        };
        let thread_ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let entered = moved.recv().map_err(thread_ended).flatten();
        entered.map_err(SandboxError::io_error(failed))?;
        Ok(thread)
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
        let tasks = self
            .thread
            .as_ref()
            .and_then(|thread| thread.tasks.as_ref());
        let task: CgroupTask = Box::new(move || {
            // Fails if the receiver has stopped waiting.
            let _ = done.send(task());
        });
        let sent = tasks.is_some_and(|tasks| tasks.send(task).is_ok());
        let result = sent.then(|| result.recv().ok()).flatten();
        result.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    pub(super) fn out_of_memory(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_some_and(|thread| thread.groups.out_of_memory())
    }
}

impl Drop for CgroupThreadGuard {
    fn drop(&mut self) {
        let (Some(pool), Some(thread)) = (self.pool.upgrade(), self.thread.take()) else {
            return;
        };
        // Files left in the temporary folder of a session would count against the next command.
        if thread.groups.memory_in_use() > MAX_CHARGED_BYTES {
            return;
        }
        let mut idle = pool.lock();
        // Drops the thread that has been idle longest.
        let oldest = (idle.len() >= MAX_IDLE_THREADS).then(|| idle.remove(0));
        idle.push(thread);
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
        let pool = CgroupThreadPool::default();
        let (one, other) = (
            ResourceBounds::default(),
            ResourceBounds {
                cpu: Some(50),
                ..ResourceBounds::default()
            },
        );
        let thread_id = || std::thread::current().id();
        let first = pool.acquire(&tree, &one).unwrap().run(thread_id).unwrap();
        let guard = pool.acquire(&tree, &one).unwrap();
        assert_eq!(guard.run(thread_id).unwrap(), first);
        assert_ne!(
            pool.acquire(&tree, &one).unwrap().run(thread_id).unwrap(),
            first
        );
        assert_ne!(
            pool.acquire(&tree, &other).unwrap().run(thread_id).unwrap(),
            first
        );
        let all: Vec<_> = (0..10)
            .map(|_| pool.acquire(&tree, &one).unwrap())
            .collect();
        drop(all);
        assert_eq!(pool.idle.lock().len(), MAX_IDLE_THREADS);
    }

    #[test]
    fn cgroup_folders_are_removed_on_drop() {
        let tree = CgroupTree::find();
        if !tree.is_version_one() {
            return;
        }
        let pool = CgroupThreadPool::default();
        let guard = pool.acquire(&tree, &ResourceBounds::default()).unwrap();
        let folders = guard.thread.as_ref().unwrap().groups.folders().to_vec();
        assert!(folders.iter().all(|folder| folder.exists()));
        drop(guard);
        drop(pool);
        assert!(!folders.iter().any(|folder| folder.exists()), "{folders:?}");
    }
}
