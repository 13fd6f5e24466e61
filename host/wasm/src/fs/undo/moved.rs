//! Recording of moves with all paths below a moved directory, and the remaining undo capacity of a call.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::link_check::open_below;
use super::super::resolve::Target;
use super::super::sys::{self, FileKind, FileStat};
use super::*;

/// Maximum number of bytes copied for one move. A larger move is not copied: nothing is lost, and moving back undoes
/// it.
const MAX_MOVED_BYTES: u64 = 64 << 20;

/// Maximum number of paths recorded for one move.
const MAX_MOVED_PATHS: usize = 2_000;

/// The remaining capacity of a call for recorded paths and copies.
pub(in crate::fs) struct UndoCapacity {
    bytes: u64,
    paths: usize,
    remedy: &'static str,
}

impl UndoCapacity {
    /// Reserves capacity for an object in a directory. Fails if not enough is left, or if the object cannot be
    /// recorded.
    pub(in crate::fs) fn reserve(
        &mut self,
        dir: &sys::DirHandle,
        name: &OsString,
        kind: FileKind,
        path: &str,
    ) -> Result<(), FsFault> {
        let refused = |why| Err(not_recorded(path, why, self.remedy));
        let Some(paths) = self.paths.checked_sub(1) else {
            return refused(too_many());
        };
        self.paths = paths;
        let size = match kind {
            FileKind::Directory | FileKind::Link => 0,
            FileKind::File => sys::stat_at(dir, name).map_or(0, |stat| stat.size),
            _ => return refused(unsuitable("it is not a regular file")),
        };
        match self.bytes.checked_sub(size) {
            Some(left) => self.bytes = left,
            None => return refused(too_large()),
        }
        Ok(())
    }
}

impl UndoRecorder {
    /// Returns the remaining capacity; `None` if the call does not require copies.
    pub(in crate::fs) fn remaining_capacity(&self) -> Option<UndoCapacity> {
        let recording = self.lock();
        let recording = recording.as_ref()?;
        let UndoCopies::Required(remedy) = recording.target.copies else {
            return None;
        };
        Some(UndoCapacity {
            bytes: MAX_BYTES - recording.bytes,
            paths: MAX_PATHS.saturating_sub(recording.changes.len()),
            remedy,
        })
    }

    /// Records a move before it happens: each moved object disappears at its old path and appears at its new path. A
    /// move that is too large, or that contains an object that cannot be recorded, is recorded as irreversible.
    pub(in crate::fs) async fn record_before_move(
        &self,
        shared: &Arc<MountState>,
        from: &Target<'_>,
        to: &Target<'_>,
        stat: &FileStat,
    ) -> Result<(), FsFault> {
        let paths = match stat.kind {
            FileKind::Directory => paths_below(shared, from).ok().flatten(),
            FileKind::File if stat.size > MAX_MOVED_BYTES => None,
            FileKind::File | FileKind::Link => Some(vec![from.path.clone()]),
            _ => None,
        };
        // A replaced object would be lost, so it has to be copied.
        let replaces = sys::stat_at(&to.at, &to.name).is_ok();
        let Some(paths) = paths else {
            if replaces && stat.kind != FileKind::Directory {
                self.record_before_change(shared, &from.path).await?;
                return self.record_before_change(shared, &to.path).await;
            }
            let mut recording = self.lock();
            let Some(recording) = &mut *recording else {
                return Err(no_running_call(&from.path));
            };
            let source_state = match stat.kind {
                FileKind::Directory => RecordedState::Directory { mode: stat.mode },
                _ => RecordedState::of_file(None, None),
            };
            for (path, state) in [
                (&from.path, source_state),
                (&to.path, RecordedState::Absent),
            ] {
                if !recording.recorded_paths.contains(path) {
                    recording.push(shared, path, state, Some(MOVED_TOO_MUCH.to_owned()))?;
                }
            }
            return Ok(());
        };
        // Undo works backwards through the record: it restores directories before their contents, and removes
        // directories after their contents.
        for path in paths.iter().rev() {
            self.record_before_change(shared, path).await?;
        }
        for path in &paths {
            let below = path.strip_prefix(&from.path).unwrap_or_default();
            let target_path = format!("{}{below}", to.path);
            self.record_before_change(shared, &target_path).await?;
        }
        Ok(())
    }
}

/// Returns the path of a directory and all visible paths below it, directories before their contents. `None` if there
/// are too many paths or bytes, or if a path cannot be recorded.
fn paths_below(shared: &MountState, top: &Target<'_>) -> io::Result<Option<Vec<String>>> {
    let mut paths = Vec::new();
    let mut bytes = 0;
    let mut pending = vec![(top.path.clone(), PathBuf::new(), FileKind::Directory)];
    while let Some((path, below, kind)) = pending.pop() {
        if kind == FileKind::Directory {
            let mut inside = Vec::new();
            let dir = open_below(top, &below)?;
            let mut entries = sys::list(&dir)?;
            while let Some(entry) = entries.next() {
                let (Ok(name), _) = entry? else {
                    return Ok(None);
                };
                let path = format!("{path}/{name}");
                if shared.check_visible(&path).is_err() {
                    continue;
                }
                let stat = sys::stat_at(&dir, &name)?;
                match stat.kind {
                    FileKind::Directory => {}
                    FileKind::Link if sys::read_link(&dir, &name).is_ok() => {}
                    FileKind::File => bytes += stat.size,
                    _ => return Ok(None),
                }
                inside.push((path, below.join(name), stat.kind));
                if bytes > MAX_MOVED_BYTES || inside.len() > MAX_MOVED_PATHS {
                    return Ok(None);
                }
            }
            // The list is a stack, so its last entry is processed first.
            inside.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            pending.append(&mut inside);
        }
        paths.push(path);
        if paths.len() > MAX_MOVED_PATHS {
            return Ok(None);
        }
    }
    Ok(Some(paths))
}
