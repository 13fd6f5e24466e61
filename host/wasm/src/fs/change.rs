//! Operations that change the directory tree.
//!
//! Each checks that the canonical path may be changed. Moving and linking check more: they could move a protected file
//! to an unprotected path, or make a protected name lead elsewhere.

use super::emptying;
use super::moving;
use super::node::{Node, Shared};
use super::pace::Pace;
use super::quota::{entering, leaving};
use super::refusal::{Cause, Fault};
use super::resolve::{Target, Written, descend, join, resolve};
use super::sys::{self, Kind, Stamp, Stat};
use std::io;
use std::sync::Arc;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

pub(super) async fn make_dir(node: &Node, path: &str) -> Result<(), Fault> {
    let target = name_at(node, path)?;
    node.shared().may_change_dir(&target.path)?;
    node.shared().record(&target.path).await?;
    entering(node.shared().quota.as_ref(), || {
        Ok(sys::make_dir(&target.at, &target.name, node.is_private())?)
    })
}

/// Removes an empty directory, which cannot contain a protected file. For a non-empty one, reports if it could be
/// emptied: programs that remove a tree try that first.
pub(super) async fn remove_dir(node: &Node, path: &str, pace: &mut Pace) -> Result<(), Fault> {
    let target = name_at(node, path)?;
    node.shared().may_change_dir(&target.path)?;
    node.shared().record(&target.path).await?;
    let quota = node.shared().quota.as_ref();
    let removed = leaving(quota, &target, || sys::remove_dir(&target.at, &target.name));
    if let Err(error) = &removed
        && error.kind() == io::ErrorKind::DirectoryNotEmpty
    {
        emptying::everything_may_go(node.shared(), &target, pace).await?;
    }
    Ok(removed?)
}

pub(super) async fn remove_file(node: &Node, path: &str) -> Result<(), Fault> {
    let target = name_at(node, path)?;
    node.shared().may_change(&target.path)?;
    if target.dir {
        return Err(ErrorCode::NotDirectory.into());
    }
    node.shared().record(&target.path).await?;
    let quota = node.shared().quota.as_ref();
    Ok(leaving(quota, &target, || {
        sys::remove_file(&target.at, &target.name)
    })?)
}

pub(super) fn set_times_at(
    node: &Node,
    follow: bool,
    path: &str,
    accessed: Stamp,
    modified: Stamp,
) -> Result<(), Fault> {
    judge_written(node, &Written::parse(path)?)?;
    let target = resolve(node, path, follow)?;
    node.shared().may_change(&target.path)?;
    Ok(sys::set_times_at(
        &target.at,
        &target.name,
        accessed,
        modified,
    )?)
}

/// Moves a file, a link or a directory within one mount. A file takes over the permission bits of the one that it
/// replaces; a link is checked like a new one.
pub(super) async fn rename(
    old: &Node,
    old_path: &str,
    new: &Node,
    new_path: &str,
    pace: &mut Pace,
) -> Result<(), Fault> {
    if new.is_private() && !old.is_private() {
        return set_aside(old, old_path, new, new_path);
    }
    same_mount(old, new)?;
    let shared = old.shared();
    let (from, to) = (name_at(old, old_path)?, name_at(new, new_path)?);
    shared.may_change_dir(&from.path)?;
    shared.may_change_dir(&to.path)?;
    let kind = sys::stat_at(&from.at, &from.name)?.kind;
    let moved = || match shared.rules.against_moving(&from.path, &to.path) {
        Some(rule) => Err(Fault::refused(&from.path, Cause::Below(rule.clone()))),
        None => Ok(()),
    };
    let linked = |says: String| {
        moved()?;
        may_lead(shared, &to)?;
        may_say(shared, &says, &to)
    };
    if kind == Kind::Directory {
        moved()?;
        moving::links_stay_inside(&from, &to, &from, shared.depth, pace).await?;
    } else {
        shared.may_change(&from.path)?;
        shared.may_change(&to.path)?;
        if from.dir || to.dir {
            return Err(ErrorCode::NotDirectory.into());
        }
    }
    if kind == Kind::Link {
        linked(sys::read_link(&from.at, &from.name)?)?;
    }
    // A moved directory loses nothing: its contents move along.
    if kind != Kind::Directory {
        shared.record(&from.path).await?;
        shared.record(&to.path).await?;
    }
    let taken = match kind {
        Kind::File => sys::take_bits(&from.at, &from.name, &to.at, &to.name),
        _ => None,
    };
    let quota = shared.quota.as_ref();
    let replaced = quota.and_then(|_| replaced(&from, &to));
    if let Err(error) = sys::rename(&from.at, &from.name, &to.at, &to.name) {
        if let Some(bits) = taken {
            bits.give_back();
        }
        return Err(error.into());
    }
    if let (Some(quota), Some(replaced)) = (quota, replaced) {
        quota.removed(&replaced);
    }
    // Another call may have put another object at this name since it was checked.
    let arrived = match sys::stat_at(&to.at, &to.name).map(|stat| stat.kind) {
        Ok(Kind::Directory) => match moved() {
            Ok(()) => moving::links_stay_inside(&from, &to, &to, shared.depth, pace).await,
            refused => refused,
        },
        Ok(Kind::Link) => sys::read_link(&to.at, &to.name)
            .map_err(Fault::from)
            .and_then(linked),
        _ => Ok(()),
    };
    if arrived.is_err() {
        sys::rename(&to.at, &to.name, &from.at, &from.name)?;
    }
    arrived
}

/// Returns the object that a move replaces: two names of one file stay two.
fn replaced(from: &Target<'_>, to: &Target<'_>) -> Option<Stat> {
    let old = sys::stat_at(&to.at, &to.name).ok()?;
    let new = sys::stat_at(&from.at, &from.name).ok()?;
    (old.id != new.id).then_some(old)
}

/// Moves a file or an empty directory into mimir's own state, where it keeps its permissions. Guests copy anything
/// else to there, as between two file systems.
fn set_aside(old: &Node, old_path: &str, new: &Node, new_path: &str) -> Result<(), Fault> {
    let elsewhere = || Err(ErrorCode::CrossDevice.into());
    let (from, to) = (name_at(old, old_path)?, name_at(new, new_path)?);
    let kind = sys::stat_at(&from.at, &from.name)?.kind;
    let is_whole = |at: &Target<'_>| match sys::stat_at(&at.at, &at.name)?.kind {
        Kind::File => Ok(kind == Kind::File),
        Kind::Directory => Ok(kind == Kind::Directory
            && sys::list(&sys::open_dir(&at.at, &at.name)?)?
                .next()
                .is_none()),
        _ => Ok::<_, io::Error>(false),
    };
    match kind {
        Kind::Directory => old.shared().may_change_dir(&from.path)?,
        _ => old.shared().may_change(&from.path)?,
    }
    new.shared().may_change_dir(&to.path)?;
    if !is_whole(&from)? {
        return elsewhere();
    }
    if from.dir && kind == Kind::File {
        return Err(ErrorCode::NotDirectory.into());
    }
    if sys::stat_at(&to.at, &to.name).is_ok() {
        return Err(ErrorCode::Exist.into());
    }
    sys::rename(&from.at, &from.name, &to.at, &to.name)?;
    // Another call may have put another object at this name since it was checked.
    if is_whole(&to)? {
        return Ok(());
    }
    sys::rename(&to.at, &to.name, &from.at, &from.name)?;
    elsewhere()
}

/// Adds a second name for a regular file. Not for a link: its second name would lead elsewhere.
pub(super) async fn hard_link(
    old: &Node,
    old_path: &str,
    new: &Node,
    new_path: &str,
) -> Result<(), Fault> {
    same_mount(old, new)?;
    let (from, to) = (name_at(old, old_path)?, name_at(new, new_path)?);
    old.shared().may_change(&from.path)?;
    old.shared().may_change(&to.path)?;
    if sys::stat_at(&from.at, &from.name)?.kind != Kind::File {
        return Err(Fault::refused(&from.path, Cause::NotAFile));
    }
    if from.dir || to.dir {
        return Err(ErrorCode::NotDirectory.into());
    }
    // A write through one name also changes the other.
    old.shared().record(&from.path).await?;
    new.shared().record(&to.path).await?;
    entering(new.shared().quota.as_ref(), || {
        Ok(sys::hard_link(&from.at, &from.name, &to.at, &to.name)?)
    })
}

/// Creates a link. Its text is checked as if no part of its path were a link; a guest that follows it later is checked
/// against its real target.
pub(super) async fn soft_link(node: &Node, says: &str, path: &str) -> Result<(), Fault> {
    let target = name_at(node, path)?;
    let shared = node.shared();
    shared.may_change(&target.path)?;
    may_lead(shared, &target)?;
    if target.dir {
        return Err(ErrorCode::NoEntry.into());
    }
    may_say(shared, says, &target)?;
    shared.record(&target.path).await?;
    entering(shared.quota.as_ref(), || {
        Ok(sys::soft_link(says, &target.at, &target.name)?)
    })
}

/// Checks that a link at `at` may have the text `says`. It must climb first and then descend: `..` after a name leads
/// out of wherever that name, if it is a link, leads to.
fn may_say(shared: &Shared, says: &str, at: &Target<'_>) -> Result<(), Fault> {
    let outside = || Fault::refused(says, Cause::Outside);
    let written = Written::parse(says).map_err(|fault| match fault {
        Fault::Refused(_) => outside(),
        other => other,
    })?;
    let mut leads: Vec<&str> = at.path.split('/').collect();
    leads.pop();
    if written.climbs && !is_in_place(shared, at, &leads) {
        return Err(Fault::refused(&at.path, Cause::Displaced));
    }
    let mut down = false;
    for part in written.parts {
        if part != ".." {
            down = true;
            leads.push(part);
        } else if down {
            return Err(Fault::refused(says, Cause::Winding));
        } else if leads.len() > shared.depth {
            leads.pop();
        } else {
            return Err(outside());
        }
    }
    shared.may_change(&leads.join("/"))
}

/// Returns true if the directory of `at` still is at its path: a guest may have moved it while it held a handle to it,
/// and `..` from there would lead elsewhere.
fn is_in_place(shared: &Shared, at: &Target<'_>, parent: &[&str]) -> bool {
    let parts = parent.iter().skip(shared.depth);
    let id = |dir: &sys::Dir| sys::stat_dir(dir).map(|stat| stat.id).ok();
    match descend(&shared.root, parts) {
        Ok(there) => id(&there).is_some_and(|there| id(&at.at) == Some(there)),
        Err(_) => false,
    }
}

/// Checks that a link may be created at `to`: not at a path where another program, looking for a protected path, would
/// follow it.
fn may_lead(shared: &Shared, to: &Target<'_>) -> Result<(), Fault> {
    match shared.rules.may_cover_below(&to.path) {
        Some(rule) => Err(Fault::refused(&to.path, Cause::Below(rule.clone()))),
        None => Ok(()),
    }
}

/// Resolves a path whose last component is the object to change: a link there is not followed. The path as written is
/// checked first, so that a refusal does not depend on existing files.
fn name_at<'n>(node: &'n Node, path: &str) -> Result<Target<'n>, Fault> {
    let written = Written::parse(path)?;
    judge_written(node, &written)?;
    let plain = path.trim_end_matches('/');
    if !written.dir || written.parts.is_empty() || plain.ends_with("/.") {
        return resolve(node, path, false);
    }
    let target = resolve(node, plain, false)?;
    Ok(Target {
        dir: true,
        ..target
    })
}

fn judge_written(node: &Node, written: &Written<'_>) -> Result<(), Fault> {
    if written.climbs {
        return Ok(());
    }
    let path = join(node.path(), written.parts.iter().copied());
    node.shared().may_change_dir(&path)
}

fn same_mount(old: &Node, new: &Node) -> Result<(), Fault> {
    // As between two file systems: programs then copy and delete, and each copy is checked.
    if Arc::ptr_eq(old.shared(), new.shared()) {
        Ok(())
    } else {
        Err(ErrorCode::CrossDevice.into())
    }
}
