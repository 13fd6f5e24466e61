//! Bounds of the shell that end a script instead of cutting its data.
//!
//! It is compiled as a module of bashkit (`../build/bash.rs`). As published, a command that reaches a bound returns what
//! it has so far, and the next command of the pipeline counts that as if it were all. Here a bound that is reached
//! fails the execution budget, which every command asks before it starts, so that the script ends with the sentence.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::limits::LimitExceeded;

/// Bytes that one command may take from a device or write at once: what the memory of a script holds several times.
pub(crate) const BYTES: usize = 64 << 20;

/// Bytes that a device which has no end gives to a command that reads it whole.
pub(crate) const DEVICE: usize = 1 << 20;

/// The bound that was reached first.
static REACHED: Mutex<Option<String>> = Mutex::new(None);

/// Set once [`REACHED`] has a bound, so that it is not locked before.
static IS_REACHED: AtomicBool = AtomicBool::new(false);

/// Set while the data of the pipeline comes from a device that was cut at [`DEVICE`].
static DEVICE_CUT: AtomicBool = AtomicBool::new(false);

/// Records that a bound was reached. Returns true, so that it can end a condition.
pub(crate) fn hit(sentence: &str) -> bool {
    if let Ok(mut reached) = REACHED.lock() {
        reached.get_or_insert_with(|| sentence.to_owned());
    }
    IS_REACHED.store(true, Ordering::Release);
    true
}

/// Fails once a bound was reached.
pub(crate) fn check() -> std::result::Result<(), LimitExceeded> {
    if !IS_REACHED.load(Ordering::Acquire) {
        return Ok(());
    }
    let reached = REACHED.lock().ok().and_then(|reached| reached.clone());
    Err(LimitExceeded::Bound(reached.unwrap_or_default()))
}

/// The result of a whole script: a failure if a bound was reached by its last command.
pub(crate) fn checked<T>(result: Result<T>) -> Result<T> {
    let value = result?;
    check()?;
    Ok(value)
}

/// Forgets the device that an earlier command read.
pub(crate) fn forget_device() {
    DEVICE_CUT.store(false, Ordering::Release);
}

/// Notes whether what is opened is a device without an end, of which only the first bytes are given.
pub(crate) fn note_device(path: &Path) {
    DEVICE_CUT.store(is_endless(path), Ordering::Release);
}

/// Notes a file that `cat` reads among others.
pub(crate) fn read(path: &Path) -> &Path {
    if is_endless(path) {
        DEVICE_CUT.store(true, Ordering::Release);
    }
    path
}

/// Fails where a command got less than it asked for because a device was cut.
pub(crate) fn satisfied(command: &str, is_satisfied: bool) -> Result<()> {
    if !DEVICE_CUT.swap(false, Ordering::AcqRel) || is_satisfied {
        return Ok(());
    }
    hit(&format!(
        "{command}: only the first {DEVICE} bytes of a device without an end are read here; \
         name the device as the file of `head -c`"
    ));
    Ok(check()?)
}

/// The first bytes of a device without an end, or nothing for any other file.
pub(crate) fn device(command: &str, path: &Path, bytes: usize) -> Result<Option<Vec<u8>>> {
    if !is_endless(path) {
        return Ok(None);
    }
    if bytes > BYTES {
        hit(&format!(
            "{command}: {bytes} bytes of a device are more than the {BYTES} that are read at once here; read fewer"
        ));
        check()?;
    }
    let mut data = vec![0; bytes];
    if path != Path::new("/dev/zero") {
        let random = getrandom::fill(&mut data);
        random.map_err(|_| Error::Execution("the random device is unavailable".to_owned()))?;
    }
    Ok(Some(data))
}

fn is_endless(path: &Path) -> bool {
    matches!(
        path.to_str(),
        Some("/dev/zero" | "/dev/random" | "/dev/urandom")
    )
}
