//! The check that makes changes of settings and grants take effect at once: before each call, the files are compared
//! with the state that is in force. If they differ, the call waits until they have been read and applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::SnapshotRefresh;
use tokio::sync::{Notify, watch};

use crate::settings::WatchedFiles;

/// Maximum time that a call waits for changed files to be read. A file that is still being written takes effect at a
/// later call.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Compares the watched files with the state in force, and wakes the loop that reads them.
pub struct FreshnessCheck {
    files: Arc<WatchedFiles>,
    requested: Notify,
    /// Number of times that the files have been read.
    read_count: watch::Sender<u64>,
    /// Number of loops that read the files. Calls do not wait while it is 0.
    followers: AtomicUsize,
}

/// Guard of a registered loop that reads the files on request.
pub struct ReloadFollower<'a>(&'a FreshnessCheck);

impl FreshnessCheck {
    /// Creates a check of these files.
    pub fn new(files: Arc<WatchedFiles>) -> Self {
        Self {
            files,
            requested: Notify::new(),
            read_count: watch::Sender::default(),
            followers: AtomicUsize::new(0),
        }
    }

    /// Registers a loop that reads the files, until the guard is dropped.
    pub fn register_follower(&self) -> ReloadFollower<'_> {
        self.followers.fetch_add(1, Ordering::Relaxed);
        ReloadFollower(self)
    }

    /// Completes when a call waits for the files to be read.
    pub async fn wait_for_request(&self) {
        self.requested.notified().await;
    }

    async fn wait(&self) {
        let mut read_count = self.read_count.subscribe();
        while self.files.changed() && self.followers.load(Ordering::Relaxed) > 0 {
            self.requested.notify_one();
            if read_count.changed().await.is_err() {
                return;
            }
        }
    }
}

impl ReloadFollower<'_> {
    /// Resumes the calls that waited for the files to be read and applied.
    pub fn resume_calls(&self) {
        self.0.read_count.send_modify(|count| *count += 1);
    }
}

impl Drop for ReloadFollower<'_> {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
        self.resume_calls();
    }
}

impl SnapshotRefresh for FreshnessCheck {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.files.changed() {
                let _ = tokio::time::timeout(CHECK_TIMEOUT, self.wait()).await;
            }
        })
    }
}
