//! Permissions of removed files. Records of earlier versions do not contain them, but those versions moved removed
//! files to the backups, where the files keep their permissions.

use super::undo_path::{PathKind, UndoPath};
use super::{PathState, UndoRecord, UndoStore};

/// Permission bits of the owner.
const OWNER_BITS: u32 = 0o700;

impl UndoStore {
    /// Returns the permissions before the call for each change, where they are known.
    pub(super) fn recorded_modes(&self, record: &UndoRecord) -> Vec<Option<u32>> {
        let changes = record.changes.iter().enumerate();
        let mode_before = |(number, change): (usize, &super::UndoChange)| {
            if let Some(mode) = change.before.mode() {
                return Some(mode);
            }
            let copy = format!("{}/was-{number}", record.id);
            let copy = UndoPath::resolve(&self.folder, &copy, false).ok()?;
            mode_of(&copy, &change.before)
        };
        let mut modes: Vec<Option<u32>> = changes.map(mode_before).collect();
        for (from, to) in move_pairs(record) {
            let target = &record.changes[to];
            let now = UndoPath::resolve(&self.root, &target.path, false).ok();
            let mode = now.and_then(|path| mode_of(&path, &record.changes[from].before));
            // A file that replaced another file received the permissions of the replaced file.
            let bits = match target.before {
                PathState::Absent => 0o777,
                _ => OWNER_BITS,
            };
            modes[from] = modes[from].or(mode.map(|mode| mode & bits));
        }
        modes
    }
}

/// Returns the permissions of an item, if its kind matches the recorded state.
fn mode_of(path: &UndoPath, recorded: &PathState) -> Option<u32> {
    match (path.kind().ok()?, recorded) {
        (PathKind::File, PathState::File { .. })
        | (PathKind::Directory, PathState::Directory { .. }) => path.mode(),
        _ => None,
    }
}

/// Returns the indices of changes that are the source and the target of a move. A record lists the sources in order,
/// and the targets in reverse order.
fn move_pairs(record: &UndoRecord) -> Vec<(usize, usize)> {
    let is_removal = |change: &&super::UndoChange| change.after == PathState::Absent;
    let first_removal = record
        .changes
        .iter()
        .take_while(|change| !is_removal(change))
        .count();
    let removals = record
        .changes
        .iter()
        .skip(first_removal)
        .take_while(is_removal)
        .count();
    let last = record.changes.len();
    let pairs =
        (first_removal..first_removal + removals).zip((first_removal + removals..last).rev());
    if last - first_removal == 2 * removals {
        pairs.collect()
    } else {
        Vec::new()
    }
}
