//! Group commit: one sync covers all requests that arrived while the previous sync was running.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Syncs files for all concurrent callers at once.
pub(super) struct GroupCommit {
    state: Mutex<CommitState>,
    ended: Condvar,
    sync: fn(&File) -> io::Result<()>,
}

#[derive(Default)]
struct CommitState {
    /// Number of requests, and number of completed ones.
    requested: u64,
    done: u64,
    /// True while a thread syncs.
    busy: bool,
    /// The files of incomplete requests: one file, or two after a rotation.
    files: Vec<Arc<File>>,
    failed: Option<FailedSync>,
}

/// The range of requests whose sync has failed.
struct FailedSync {
    first: u64,
    last: u64,
    kind: io::ErrorKind,
    text: String,
}

impl GroupCommit {
    /// Creates a group commit that syncs a file with `sync`.
    pub(super) fn new(sync: fn(&File) -> io::Result<()>) -> Self {
        Self {
            state: Mutex::default(),
            ended: Condvar::new(),
            sync,
        }
    }

    /// Waits until all earlier writes to `file` are on the disk.
    pub(super) fn wait(&self, file: Arc<File>) -> io::Result<()> {
        let mut state = self.state.lock();
        state.requested += 1;
        let request = state.requested;
        if !state.files.iter().any(|known| Arc::ptr_eq(known, &file)) {
            state.files.push(file);
        }
        loop {
            if state.done >= request {
                return state.result(request);
            }
            if state.busy {
                self.ended.wait(&mut state);
            } else {
                self.sync_pending(&mut state);
            }
        }
    }

    /// Syncs the files of all requests made so far.
    fn sync_pending(&self, state: &mut MutexGuard<'_, CommitState>) {
        state.busy = true;
        let (first, last) = (state.done + 1, state.requested);
        let files = std::mem::take(&mut state.files);
        let synced = MutexGuard::unlocked(state, || {
            files.iter().try_for_each(|file| (self.sync)(file))
        });
        state.busy = false;
        state.done = last;
        if let Err(error) = synced {
            state.record_failure(first, last, &error);
        }
        self.ended.notify_all();
    }
}

impl CommitState {
    /// Records a failed sync. Requests that failed earlier may not have read their result yet, so the range of failed
    /// requests is only extended.
    fn record_failure(&mut self, first: u64, last: u64, error: &io::Error) {
        let first = self.failed.as_ref().map_or(first, |failed| failed.first);
        self.failed = Some(FailedSync {
            first,
            last,
            kind: error.kind(),
            text: error.to_string(),
        });
    }

    fn result(&self, request: u64) -> io::Result<()> {
        match &self.failed {
            Some(failed) if (failed.first..=failed.last).contains(&request) => {
                Err(io::Error::new(failed.kind, failed.text.clone()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    const THREADS: u32 = 8;
    const WAITS_PER_THREAD: u32 = 5;

    #[test]
    fn group_commit_syncs_once_for_many_waiters() {
        static SYNCS: AtomicU32 = AtomicU32::new(0);
        let commit = GroupCommit::new(|file| {
            SYNCS.fetch_add(1, Ordering::SeqCst);
            // Longer than a busy machine needs to wake the waiting threads.
            std::thread::sleep(Duration::from_millis(50));
            file.sync_data()
        });
        let file = Arc::new(tempfile::tempfile().unwrap());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..WAITS_PER_THREAD {
                        let before = SYNCS.load(Ordering::SeqCst);
                        commit.wait(Arc::clone(&file)).unwrap();
                        // A sync that began earlier would not cover a write made just now.
                        assert!(SYNCS.load(Ordering::SeqCst) > before);
                    }
                });
            }
        });
        let syncs = SYNCS.load(Ordering::SeqCst);
        assert!(syncs < THREADS * WAITS_PER_THREAD / 2, "{syncs}");
        assert_eq!(
            commit.state.lock().done,
            u64::from(THREADS * WAITS_PER_THREAD)
        );
    }

    #[test]
    fn group_commit_failure_reaches_its_waiters_only() {
        static BROKEN: AtomicBool = AtomicBool::new(true);
        let commit = GroupCommit::new(|_| {
            std::thread::sleep(Duration::from_millis(5));
            if BROKEN.load(Ordering::SeqCst) {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        });
        let file = Arc::new(tempfile::tempfile().unwrap());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let failed = commit.wait(Arc::clone(&file)).unwrap_err();
                    assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
                });
            }
        });
        BROKEN.store(false, Ordering::SeqCst);
        commit.wait(file).unwrap();
    }
}
