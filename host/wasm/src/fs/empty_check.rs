//! Check that a directory can be emptied, before any entry is removed.
//!
//! A guest does not see hidden files, and does not know which files are read-only. A program that removes a tree entry
//! by entry would fail half-way, when the first half is already gone.

use super::link_check::{ignore_missing, open_below};
use super::node::MountState;
use super::refusal::{FsFault, RefusalCause};
use super::resolve::Target;
use super::sys::{self, FileKind};
use super::undo::UndoRecorder;
use super::yield_timer::YieldTimer;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Maximum number of entries to check: more than in a large `node_modules`, and a few seconds of work.
const MAX_ENTRIES: usize = 500_000;

/// Fails if an object below the directory `top` may not or cannot be removed, or if its removal could not be undone.
pub(super) async fn check_can_empty(
    shared: &MountState,
    top: &Target<'_>,
    yield_timer: &mut YieldTimer,
) -> Result<(), FsFault> {
    let mut folders = vec![PathBuf::new()];
    let mut checked = 0;
    let mut capacity = shared
        .undo
        .as_ref()
        .and_then(UndoRecorder::remaining_capacity);
    while let Some(below) = folders.pop() {
        let mut path = top.path.clone();
        for part in &below {
            path.push('/');
            path.push_str(&part.to_string_lossy());
        }
        let cannot_be_emptied = || FsFault::refused(&path, RefusalCause::NotEmptied);
        let dir = match ignore_missing(open_below(top, &below)) {
            Ok(Some(dir)) => dir,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(cannot_be_emptied());
            }
            Err(error) => return Err(error.into()),
        };
        let mut is_empty = true;
        let mut entries = sys::list(&dir)?;
        while let Some(entry) = entries.next() {
            yield_timer.yield_if_due().await;
            is_empty = false;
            checked += 1;
            if checked > MAX_ENTRIES {
                return Err(FsFault::refused(&top.path, RefusalCause::TooMuchToEmpty));
            }
            let (name, listed) = entry?;
            let name = name.map_or_else(|raw| raw, OsString::from);
            let kind = match listed {
                FileKind::Other => {
                    ignore_missing(sys::stat_at(&dir, &name))?.map_or(listed, |stat| stat.kind)
                }
                kind => kind,
            };
            let entry = format!("{path}/{}", name.to_string_lossy());
            check_can_remove(shared, &top.path, &entry, kind)?;
            if let Some(capacity) = &mut capacity {
                capacity.reserve(&dir, &name, kind, &entry)?;
            }
            if kind == FileKind::Directory {
                folders.push(below.join(&name));
            }
        }
        if !is_empty && !sys::may_change_entries(&dir) {
            return Err(cannot_be_emptied());
        }
    }
    Ok(())
}

fn check_can_remove(
    shared: &MountState,
    top: &str,
    path: &str,
    kind: FileKind,
) -> Result<(), FsFault> {
    let verdict = match kind {
        FileKind::Directory => shared.rules.check(path),
        _ => shared.rules.check_file(path),
    };
    match (verdict.against_writing(), verdict.against_reading()) {
        (None, _) => Ok(()),
        // The name of a hidden file is not shown to the guest.
        (_, Some(rule)) => Err(FsFault::refused(top, RefusalCause::Below(rule.clone()))),
        (Some(rule), None) => Err(FsFault::refused(path, RefusalCause::Rule(rule.clone()))),
    }
}
