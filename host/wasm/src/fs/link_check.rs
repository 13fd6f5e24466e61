//! Check of the relative links in a directory that is moved.
//!
//! A relative link may climb several levels. After a move closer to the root of the mount, it could lead outside.
//! Guests cannot follow such a link, but other programs would, so the contents of a directory are checked before it is
//! moved.

use super::refusal::{FsFault, RefusalCause};
use super::resolve::Target;
use super::sys::{self, FileKind};
use super::yield_timer::YieldTimer;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of entries to check: more than in a large `node_modules`, and about a second of work.
const MAX_ENTRIES: usize = 500_000;

/// Fails if the directory at `from` contains a link that would lead out of the mount when moved to `to`. `now` is the
/// current path of the directory: `from` or `to`.
pub(super) async fn check_links_stay_inside(
    from: &Target<'_>,
    to: &Target<'_>,
    now: &Target<'_>,
    mount_depth: usize,
    yield_timer: &mut YieldTimer,
) -> Result<(), FsFault> {
    let depth = |path: &str| path.split('/').count().saturating_sub(mount_depth);
    let new_depth = depth(&to.path);
    if new_depth >= depth(&from.path) {
        return Ok(());
    }
    let mut pending = vec![PathBuf::new()];
    let mut checked = 0;
    while let Some(below) = pending.pop() {
        let dir = match ignore_missing(open_below(now, &below)) {
            Ok(Some(dir)) => dir,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let path = Path::new(&from.path).join(below);
                return Err(not_scanned(&path.to_string_lossy()));
            }
            Err(error) => return Err(error.into()),
        };
        let mut entries = sys::list(&dir)?;
        while let Some(entry) = entries.next() {
            yield_timer.yield_if_due().await;
            checked += 1;
            if checked > MAX_ENTRIES {
                return Err(not_scanned(&from.path));
            }
            let (name, mut kind) = entry?;
            let name = name.map_or_else(|raw| raw, OsString::from);
            if kind == FileKind::Other {
                match ignore_missing(sys::stat_at(&dir, &name))? {
                    Some(stat) => kind = stat.kind,
                    None => continue,
                }
            }
            if kind == FileKind::Directory {
                pending.push(below.join(&name));
            } else if kind == FileKind::Link
                && let Some(text) = ignore_missing(sys::link_text(&dir, &name))?
                && !stays_inside(&text, new_depth + below.iter().count())
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

fn not_scanned(path: &str) -> FsFault {
    FsFault::refused(path, RefusalCause::NotScanned)
}

/// Returns `None` for an object that was removed or replaced in the meantime.
pub(super) fn ignore_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The object is not a directory any more.
        Err(error) if sys::is_link_error(&error) => Ok(None),
        result => result.map(Some),
    }
}

/// Opens the directory at the path `below` in the directory `top`. No component may be a link.
pub(super) fn open_below(top: &Target<'_>, below: &Path) -> io::Result<sys::DirHandle> {
    let mut parent: Option<sys::DirHandle> = None;
    let mut name = OsStr::new(&top.name);
    for next in below {
        parent = Some(sys::open_dir_to_traverse(
            parent.as_ref().unwrap_or(&top.at),
            name,
        )?);
        name = next;
    }
    sys::open_dir(parent.as_ref().unwrap_or(&top.at), name)
}

/// Returns true if a link in a directory at this depth of the mount certainly leads to a target inside. A link with
/// `..` after a name is uncertain, since the name may be a link. An absolute link is accepted: its target does not
/// depend on its position.
fn stays_inside(text: &OsStr, depth: usize) -> bool {
    let text = text.to_string_lossy();
    if Path::new(&*text).has_root() {
        return true;
    }
    let (mut climbed, mut has_descended) = (0, false);
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if has_descended => return false,
            ".." => climbed += 1,
            _ => has_descended = true,
        }
    }
    climbed <= depth
}
