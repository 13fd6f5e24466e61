//! zig's cache, which all plugins share: it contains the C library that zig compiles for the target.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use mimir_core::ToolError;

use super::super::{BuildContext, BuildStep};
use crate::output::note;
use mimir::file_error::file_error;

/// Time between two attempts to lock the cache.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// zig's cache, locked for one build: two processes of zig that compile the same library can fail.
pub struct ZigCache {
    folder: PathBuf,
    /// Unlocked when it is dropped.
    _lock: File,
}

impl ZigCache {
    /// Waits until no other build uses the cache, and locks it.
    pub async fn lock(cx: &BuildContext<'_>) -> Result<Self, ToolError> {
        let folder = cx.cache("zig")?;
        // Not in the cache, which programs in the sandbox can change.
        let path = folder.with_extension("lock");
        let failure = |error: &std::io::Error| file_error("lock", &path, error);
        let lock = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| failure(&error))?;
        let mut is_waiting = false;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if !is_waiting => {
                    note("waiting for another build that uses zig …");
                    is_waiting = true;
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(failure(&error)),
            }
        }
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Lets a step use the cache. By default, zig writes into the folder of the plugin.
    pub fn add_to(&self, step: &mut BuildStep) {
        let path = self.folder.to_string_lossy();
        for name in ["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"] {
            step.environment.push((name.to_owned(), path.to_string()));
        }
        step.caches.push(self.folder.clone());
    }

    /// Announces that zig compiles a library for the target, which takes long, unless it did before.
    pub fn announce_library(&self, library: &str) {
        if !self.marker(library).exists() {
            note(format_args!(
                "zig compiles its {library} library for WebAssembly once, which takes about a minute …"
            ));
        }
    }

    /// Remembers that a library was compiled.
    pub fn remember_library(&self, library: &str) {
        // Without the marker, the next build only prints the note again.
        let _ = File::create_new(self.marker(library));
    }

    fn marker(&self, library: &str) -> PathBuf {
        self.folder.join(format!("{library} library.compiled"))
    }
}
