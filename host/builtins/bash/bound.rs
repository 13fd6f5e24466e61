//! Limits of the shell that end a script instead of truncating its data.
//!
//! It is compiled as a module of bashkit (`../build/bash.rs`). As published, a command that reaches a limit returns
//! the data so far, and the next command of the pipeline processes that as if it were complete. Here a reached limit
//! fails the execution budget, which every command checks before it starts, so that the script ends with the message.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::limits::LimitExceeded;

/// Maximum number of bytes that one command may read from a device or write at once: a script's memory holds several
/// times as much.
pub(crate) const BYTES: usize = 64 << 20;

/// Number of bytes that an endless device returns to a command that reads it completely.
pub(crate) const DEVICE: usize = 1 << 20;

/// The limit that was reached first.
static REACHED: Mutex<Option<String>> = Mutex::new(None);

/// Set once [`REACHED`] has a value, so that it need not be locked before.
static IS_REACHED: AtomicBool = AtomicBool::new(false);

/// Set while the data of the pipeline comes from a device that was truncated at [`DEVICE`].
static DEVICE_CUT: AtomicBool = AtomicBool::new(false);

/// Records that a limit was reached. Returns true, so that it can end a condition.
pub(crate) fn hit(sentence: &str) -> bool {
    if let Ok(mut reached) = REACHED.lock() {
        reached.get_or_insert_with(|| sentence.to_owned());
    }
    IS_REACHED.store(true, Ordering::Release);
    true
}

/// Fails once a limit was reached.
pub(crate) fn check() -> std::result::Result<(), LimitExceeded> {
    if !IS_REACHED.load(Ordering::Acquire) {
        return Ok(());
    }
    let reached = REACHED.lock().ok().and_then(|reached| reached.clone());
    Err(LimitExceeded::Bound(reached.unwrap_or_default()))
}

/// Returns the result of a whole script: a failure if its last command reached a limit.
pub(crate) fn checked<T>(result: Result<T>) -> Result<T> {
    let value = result?;
    check()?;
    Ok(value)
}

/// Clears the device flag of an earlier command.
pub(crate) fn forget_device() {
    DEVICE_CUT.store(false, Ordering::Release);
}

/// Records if the opened file is an endless device, of which only the first bytes are returned.
pub(crate) fn note_device(path: &Path) {
    DEVICE_CUT.store(is_endless(path), Ordering::Release);
}

/// Records that an endless device was read as a file.
pub(crate) fn device_read() {
    DEVICE_CUT.store(true, Ordering::Release);
}

/// Programs that write nothing, or not the right thing, before they have read all of their input.
const WHOLE_INPUT: [&str; 20] = [
    "b2sum", "base32", "bzip2", "cksum", "cp", "gzip", "mapfile", "md5sum", "readarray", "sha1sum", "sha224sum",
    "sha256sum", "sha384sum", "sha512sum", "sort", "sum", "tac", "tail", "wc", "xz",
];

/// Programs that write while they read, and end only with their input.
const FILTERS: [&str; 25] = [
    "awk", "base64", "cat", "cut", "dd", "egrep", "expand", "fgrep", "fold", "grep", "hd", "hexdump", "nl", "od", "paste",
    "rev", "sed", "split", "strings", "tee", "tr", "unexpand", "uniq", "xargs", "xxd",
];

/// Returns true if these arguments let a program end before its input does, or name a device for another purpose.
fn may_stop_early(command: &str, args: &[String]) -> bool {
    args.iter().any(|arg| {
        let short = arg.starts_with('-') && !arg.starts_with("--");
        arg.starts_with("--random-source")
            || match command {
                "od" => short && arg.contains('N') || arg.starts_with("--read-bytes"),
                "hd" | "hexdump" | "mapfile" | "readarray" => short && arg.contains('n'),
                "xxd" => short && arg.contains('l') || arg.starts_with("--len"),
                "grep" | "egrep" | "fgrep" => {
                    short && arg.contains(['m', 'q', 'l', 'L'])
                        || ["--max-count", "--quiet", "--silent", "--files-with"].iter().any(|long| arg.starts_with(long))
                }
                "sed" => arg.contains(['q', 'Q']),
                "awk" => arg.contains("exit"),
                "dd" => arg.starts_with("count="),
                _ => false,
            }
    })
}

/// Fails if a builtin needed all data of an endless device. Any other builtin than a filter has read as much as it
/// wanted.
pub(crate) fn finished(command: &str, args: &[String]) -> Result<()> {
    if !DEVICE_CUT.load(Ordering::Acquire) {
        return Ok(());
    }
    let stops = may_stop_early(command, args);
    if !stops && WHOLE_INPUT.contains(&command) {
        endless(command);
        return Ok(check()?);
    }
    if stops || !FILTERS.contains(&command) {
        DEVICE_CUT.store(false, Ordering::Release);
    }
    Ok(())
}

/// Number of pipelines that run at this moment.
static PIPELINES: AtomicUsize = AtomicUsize::new(0);

/// Records that a pipeline of several commands starts or ends.
pub(crate) fn count_pipeline(starts: bool) {
    if starts {
        PIPELINES.fetch_add(1, Ordering::AcqRel);
    } else {
        PIPELINES.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Fails if the output of a command ends with truncated data of a device: outside of a pipeline, or as the last command
/// of one.
pub(crate) fn ended(command: &str) -> Result<()> {
    if PIPELINES.load(Ordering::Acquire) > 0 || !DEVICE_CUT.swap(false, Ordering::AcqRel) || !FILTERS.contains(&command) {
        return Ok(());
    }
    endless(command);
    Ok(check()?)
}

fn endless(command: &str) {
    hit(&format!(
        "{command}: the device has no end, and only its first {DEVICE} bytes are read here; \
         limit the amount, for example by `head -c BYTES FILE`"
    ));
}

/// Fails if a command got less data than requested because a device was truncated.
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

/// Returns the first bytes of an endless device, or `None` for any other file.
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
