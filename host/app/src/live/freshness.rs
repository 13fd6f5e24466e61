//! Settings, grants and switches that count from the moment they are written: before each call the files are compared
//! with what was read last, and a call waits for the reader if they differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::Refresh;
use tokio::sync::{Notify, watch};

use crate::settings::WatchedFiles;

/// Longest wait of a call for changed files to be read. A file that is being written all this time counts afterwards.
const PATIENCE: Duration = Duration::from_secs(2);

/// Compares the watched files with what was read last, and wakes the reader.
pub struct Freshness {
    files: Arc<WatchedFiles>,
    wanted: Notify,
    /// Counts the times that the files were read.
    looked: watch::Sender<u64>,
    /// Loops that read the files: without one nothing is waited for.
    followers: AtomicUsize,
}

/// A loop that reads the files whenever it is asked to.
pub struct Following<'a>(&'a Freshness);

impl Freshness {
    /// Compares these files.
    pub fn new(files: Arc<WatchedFiles>) -> Self {
        Self {
            files,
            wanted: Notify::new(),
            looked: watch::Sender::default(),
            followers: AtomicUsize::new(0),
        }
    }

    /// Registers a loop that reads the files, until the guard is dropped.
    pub fn following(&self) -> Following<'_> {
        self.followers.fetch_add(1, Ordering::Relaxed);
        Following(self)
    }

    /// Completes when a call waits for the files to be read.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    async fn wait(&self) {
        let mut looked = self.looked.subscribe();
        while self.files.changed() && self.followers.load(Ordering::Relaxed) > 0 {
            self.wanted.notify_one();
            if looked.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Following<'_> {
    /// Lets the calls go on that waited for this.
    pub fn looked(&self) {
        self.0.looked.send_modify(|times| *times += 1);
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
        self.looked();
    }
}

impl Refresh for Freshness {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.files.changed() {
                let _ = tokio::time::timeout(PATIENCE, self.wait()).await;
            }
        })
    }
}
