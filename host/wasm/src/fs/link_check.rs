//! Check of a directory to be moved for relative links that its position affects.
//!
//! A link contains the number of levels to climb. Nearer to the root of the mount the same climb ends outside of it,
//! and though no guest gets there, other programs follow the link. The contents move along unseen, so they are checked
//! first.

use super::refusal::{FsFault, RefusalCause};
use super::resolve::Target;
use super::sys::{self, FileKind};
use super::yield_timer::YieldTimer;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of entries to check: more than a large `node_modules`, and about a second of work.
const MAX_ENTRIES: usize = 500_000;

/// Refuses to move the directory at `from` to `to` if a link in it would lead out of the mount from there. The
/// directory is inspected at its current path `now`, one of the two.
pub(super) async fn check_links_stay_inside(
    from: &Target<'_>,
    to: &Target<'_>,
    now: &Target<'_>,
    mount_depth: usize,
    yield_timer: &mut YieldTimer,
) -> Result<(), FsFault> {
    let depth = |path: &str| path.split('/').count().saturating_sub(mount_depth);
    let arrives = depth(&to.path);
    if arrives >= depth(&from.path) {
        return Ok(());
    }
    let mut pending = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(below) = pending.pop() {
        let dir = match ignore_missing(open_below(now, &below)) {
            Ok(Some(dir)) => dir,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let path = Path::new(&from.path).join(below);
                return Err(unknown(&path.to_string_lossy()));
            }
            Err(error) => return Err(error.into()),
        };
        let mut entries = sys::list(&dir)?;
        while let Some(entry) = entries.next() {
            yield_timer.yield_if_due().await;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(unknown(&from.path));
            }
            let (name, mut kind) = entry?;
            let name = name.map_or_else(|odd| odd, OsString::from);
            if kind == FileKind::Other {
                match ignore_missing(sys::stat_at(&dir, &name))? {
                    Some(stat) => kind = stat.kind,
                    None => continue,
                }
            }
            if kind == FileKind::Directory {
                pending.push(below.join(&name));
            } else if kind == FileKind::Link
                && let Some(says) = ignore_missing(sys::link_text(&dir, &name))?
                && !stays_inside(&says, arrives + below.iter().count())
            {
                let link = Path::new(&from.path).join(below).join(name);
                return Err(FsFault::refused(
                    &link.to_string_lossy(),
                    RefusalCause::LinkWouldEscape,
                ));
            }
        }
    }
    Ok(())
}

fn unknown(path: &str) -> FsFault {
    FsFault::refused(path, RefusalCause::NotScanned)
}

/// Treats an object that is gone in the meantime as absent.
pub(super) fn ignore_missing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // It is not a directory any more.
        Err(error) if sys::is_link_error(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Opens the directory `below` the one at `top`; no component may be a link.
pub(super) fn open_below(top: &Target<'_>, below: &Path) -> io::Result<sys::DirHandle> {
    let mut at: Option<sys::DirHandle> = None;
    let mut name = OsStr::new(&top.name);
    for next in below {
        at = Some(sys::open_dir_to_traverse(
            at.as_ref().unwrap_or(&top.at),
            name,
        )?);
        name = next;
    }
    sys::open_dir(at.as_ref().unwrap_or(&top.at), name)
}

/// Returns true if a link in a directory at this depth of the mount certainly leads to a target inside. A link that
/// climbs after it has descended is uncertain, since the descent may pass through a link. An absolute link leads to
/// the same target as before.
fn stays_inside(says: &OsStr, depth: usize) -> bool {
    let says = says.to_string_lossy();
    if Path::new(&*says).has_root() {
        return true;
    }
    let (mut climbed, mut down) = (0, false);
    for part in says.split('/') {
        match part {
            "" | "." => {}
            ".." if down => return false,
            ".." => climbed += 1,
            _ => down = true,
        }
    }
    climbed <= depth
}
