//! Check that a directory can be emptied, before any entry is removed.
//!
//! A guest does not see hidden files, and does not know beforehand which ones are read-only. A program that removes a
//! tree one entry after the other would find out half-way, when the first half is gone.

use super::moving::{open, there};
use super::node::Shared;
use super::pace::Pace;
use super::refusal::{Cause, Fault};
use super::resolve::Target;
use super::sys::{self, Kind};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Maximum number of entries to check: more than a large `node_modules`, and a few seconds of work.
const MAX_ENTRIES: usize = 500_000;

/// Refuses if an object below the directory `top` may not or cannot be removed.
pub(super) async fn everything_may_go(
    shared: &Shared,
    top: &Target<'_>,
    pace: &mut Pace,
) -> Result<(), Fault> {
    let mut folders = vec![PathBuf::new()];
    let mut looked_at = 0;
    while let Some(below) = folders.pop() {
        let mut path = top.path.clone();
        for part in &below {
            path.push('/');
            path.push_str(&part.to_string_lossy());
        }
        let stays = || Fault::refused(&path, Cause::NotEmptied);
        let dir = match there(open(top, &below)) {
            Ok(Some(dir)) => dir,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(stays()),
            Err(error) => return Err(error.into()),
        };
        let mut is_empty = true;
        let mut entries = sys::list(&dir)?;
        while let Some(entry) = entries.next() {
            pace.give_way().await;
            is_empty = false;
            looked_at += 1;
            if looked_at > MAX_ENTRIES {
                return Err(Fault::refused(&top.path, Cause::TooMuchToEmpty));
            }
            let (name, listed) = entry?;
            let name = name.map_or_else(|odd| odd, OsString::from);
            let kind = match listed {
                Kind::Other => there(sys::stat_at(&dir, &name))?.map_or(listed, |stat| stat.kind),
                told => told,
            };
            let entry = format!("{path}/{}", name.to_string_lossy());
            may_go(shared, &top.path, &entry, kind)?;
            if kind == Kind::Directory {
                folders.push(below.join(&name));
            }
        }
        if !is_empty && !sys::may_change_entries(&dir) {
            return Err(stays());
        }
    }
    Ok(())
}

fn may_go(shared: &Shared, top: &str, path: &str, kind: Kind) -> Result<(), Fault> {
    let verdict = match kind {
        Kind::Directory => shared.rules.check(path),
        _ => shared.rules.check_file(path),
    };
    match (verdict.against_writing(), verdict.against_reading()) {
        (None, _) => Ok(()),
        // The name of a hidden file is not shown to the guest.
        (_, Some(rule)) => Err(Fault::refused(top, Cause::Below(rule.clone()))),
        (Some(rule), None) => Err(Fault::refused(path, Cause::Rule(rule.clone()))),
    }
}
