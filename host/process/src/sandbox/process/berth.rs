//! Threads that live in control groups, for the first version of these.
//!
//! To be moved into such a group, a process waits until all processors have noticed, which takes longer than all the
//! rest of a start. Here a thread is moved once, and what it forks begins where it is. When a command has ended, its
//! groups and their thread wait for the next one that is to have the same bounds.

use std::fs;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use super::cgroup::{FIRST, Groups, Tree};
use crate::sandbox::{Bounds, Fault};

/// Threads that wait: as many as commands often run at a time.
const IDLE_MOST: usize = 4;

/// The thread itself, which is counted in the groups as a process is.
const THREAD: u64 = 1;

/// Bytes of memory that may be left in groups that are used again.
const LEFT_MOST: u64 = 64 << 20;

type Task = Box<dyn FnOnce() + Send>;

/// A thread in groups of its own.
struct Berth {
    bounds: Bounds,
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// After the thread, which must be gone before they can be removed.
    groups: Groups,
}

/// All that wait.
#[derive(Default)]
pub(super) struct Berths {
    idle: Arc<Mutex<Vec<Berth>>>,
}

/// A thread for one command. Dropping it, when the command is gone, lets the next one have it.
pub(super) struct Lent {
    berth: Option<Berth>,
    home: Weak<Mutex<Vec<Berth>>>,
}

impl Berths {
    /// A thread in groups with these bounds.
    pub(super) fn take(&self, tree: &Tree, bounds: &Bounds) -> Result<Lent, Fault> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let same = idle.iter().position(|berth| berth.bounds == *bounds);
        let waiting = same.map(|at| idle.swap_remove(at));
        drop(idle);
        let mut berth = match waiting {
            Some(berth) => berth,
            None => Berth::new(tree, bounds)?,
        };
        berth.groups.begin();
        Ok(Lent {
            berth: Some(berth),
            home: Arc::downgrade(&self.idle),
        })
    }
}

impl Berth {
    fn new(tree: &Tree, bounds: &Bounds) -> Result<Self, Fault> {
        let groups = tree.make(bounds, FIRST + THREAD)?;
        let doors = groups.thread_doors();
        let (tasks, todo) = channel::<Task>();
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
            .map_err(Fault::io(failed))?;
        // Made before the answer is looked at, so that it is taken down in order.
        let berth = Self {
            bounds: *bounds,
            tasks: Some(tasks),
            thread: Some(thread),
            groups,
        };
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let entered = moved.recv().map_err(gone).flatten();
        entered.map_err(Fault::io(failed))?;
        Ok(berth)
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        // Nothing more comes, so it ends.
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Lent {
    /// Does something in the groups, and waits for it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = channel();
        let tasks = self.berth.as_ref().and_then(|berth| berth.tasks.as_ref());
        let task: Task = Box::new(move || {
            // Who does not wait any more needs no answer.
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

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(home), Some(berth)) = (self.home.upgrade(), self.berth.take()) else {
            return;
        };
        // What is left in the temporary folder of a session would count against the next command.
        if berth.groups.in_use() > LEFT_MOST {
            return;
        }
        let mut idle = home.lock().unwrap_or_else(PoisonError::into_inner);
        // The one that has waited longest goes.
        let oldest = (idle.len() >= IDLE_MOST).then(|| idle.remove(0));
        idle.push(berth);
        drop(idle);
        drop(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_the_next_command_with_the_same_bounds() {
        let tree = Tree::find();
        if !tree.is_first() {
            return;
        }
        let berths = Berths::default();
        let (one, other) = (
            Bounds::default(),
            Bounds {
                cpu: Some(50),
                ..Bounds::default()
            },
        );
        let who = || std::thread::current().id();
        let first = berths.take(&tree, &one).unwrap().run(who).unwrap();
        let lent = berths.take(&tree, &one).unwrap();
        assert_eq!(lent.run(who).unwrap(), first);
        assert_ne!(berths.take(&tree, &one).unwrap().run(who).unwrap(), first);
        assert_ne!(berths.take(&tree, &other).unwrap().run(who).unwrap(), first);
        let all: Vec<_> = (0..10).map(|_| berths.take(&tree, &one).unwrap()).collect();
        drop(all);
        assert_eq!(berths.idle.lock().unwrap().len(), IDLE_MOST);
    }

    #[test]
    fn no_group_is_left() {
        let tree = Tree::find();
        if !tree.is_first() {
            return;
        }
        let berths = Berths::default();
        let lent = berths.take(&tree, &Bounds::default()).unwrap();
        let folders = lent.berth.as_ref().unwrap().groups.folders().to_vec();
        assert!(folders.iter().all(|folder| folder.exists()));
        drop(lent);
        drop(berths);
        assert!(!folders.iter().any(|folder| folder.exists()), "{folders:?}");
    }
}
