//! Operations that change the directory tree.
//!
//! Each operation checks that the canonical path may be changed. Moves and links need more checks: they could move a
//! protected file to an unprotected path, or make a protected name lead elsewhere.

use super::empty_check;
use super::link_check;
use super::node::{FsNode, MountState};
use super::quota::{create_counted, remove_counted};
use super::refusal::{FsFault, RefusalCause};
use super::resolve::{GuestPath, Target, descend, join, resolve_path};
use super::sys::{self, FileKind, FileStat, TimeUpdate};
use super::yield_timer::YieldTimer;
use std::io;
use std::sync::Arc;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

pub(super) async fn make_dir(node: &FsNode, path: &str) -> Result<(), FsFault> {
    let target = resolve_name(node, path)?;
    node.shared().check_dir_writable(&target.path)?;
    node.shared().record(&target.path).await?;
    create_counted(node.shared().quota.as_ref(), || {
        Ok(sys::make_dir(&target.at, &target.name)?)
    })
}

/// Removes an empty directory, which cannot contain a protected file. For a non-empty directory, the error tells if it
/// can be emptied: programs that remove a tree first try to remove its root.
pub(super) async fn remove_dir(
    node: &FsNode,
    path: &str,
    yield_timer: &mut YieldTimer,
) -> Result<(), FsFault> {
    let target = resolve_name(node, path)?;
    node.shared().check_dir_writable(&target.path)?;
    node.shared().record(&target.path).await?;
    let quota = node.shared().quota.as_ref();
    let removed = remove_counted(quota, &target, || sys::remove_dir(&target.at, &target.name));
    if let Err(error) = &removed
        && error.kind() == io::ErrorKind::DirectoryNotEmpty
    {
        empty_check::check_can_empty(node.shared(), &target, yield_timer).await?;
    }
    Ok(removed?)
}

pub(super) async fn remove_file(node: &FsNode, path: &str) -> Result<(), FsFault> {
    let target = resolve_name(node, path)?;
    node.shared().check_writable(&target.path)?;
    if target.dir {
        return Err(ErrorCode::NotDirectory.into());
    }
    node.shared().record(&target.path).await?;
    let quota = node.shared().quota.as_ref();
    Ok(remove_counted(quota, &target, || {
        sys::remove_file(&target.at, &target.name)
    })?)
}

pub(super) fn set_times_at(
    node: &FsNode,
    follow: bool,
    path: &str,
    accessed: TimeUpdate,
    modified: TimeUpdate,
) -> Result<(), FsFault> {
    check_written_path(node, &GuestPath::parse(path)?)?;
    let target = resolve_path(node, path, follow)?;
    node.shared().check_writable(&target.path)?;
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
    old: &FsNode,
    old_path: &str,
    new: &FsNode,
    new_path: &str,
    yield_timer: &mut YieldTimer,
) -> Result<(), FsFault> {
    check_same_mount(old, new)?;
    let shared = old.shared();
    let (from, to) = (resolve_name(old, old_path)?, resolve_name(new, new_path)?);
    shared.check_dir_writable(&from.path)?;
    shared.check_dir_writable(&to.path)?;
    let stat = sys::stat_at(&from.at, &from.name)?;
    let kind = stat.kind;
    let check_move = || match shared.rules.against_moving(&from.path, &to.path) {
        Some(rule) => Err(FsFault::refused(
            &from.path,
            RefusalCause::Below(rule.clone()),
        )),
        None => Ok(()),
    };
    let check_link = |link_text: String| {
        check_move()?;
        check_link_location(shared, &to)?;
        check_link_target(shared, &link_text, &to)
    };
    if kind == FileKind::Directory {
        check_move()?;
        link_check::check_links_stay_inside(&from, &to, &from, shared.depth, yield_timer).await?;
    } else {
        shared.check_writable(&from.path)?;
        shared.check_writable(&to.path)?;
        if from.dir || to.dir {
            return Err(ErrorCode::NotDirectory.into());
        }
    }
    if kind == FileKind::Link {
        check_link(sys::read_link(&from.at, &from.name)?)?;
    }
    if let Some(undo) = &shared.undo {
        undo.record_before_move(shared, &from, &to, &stat).await?;
    }
    let previous_bits = match kind {
        FileKind::File => sys::take_permission_bits(&from.at, &from.name, &to.at, &to.name),
        _ => None,
    };
    let quota = shared.quota.as_ref();
    let replaced = quota.and_then(|_| replaced(&from, &to));
    if let Err(error) = sys::rename(&from.at, &from.name, &to.at, &to.name) {
        if let Some(bits) = previous_bits {
            bits.restore();
        }
        return Err(error.into());
    }
    if let (Some(quota), Some(replaced)) = (quota, replaced) {
        quota.release_entry(&replaced);
    }
    // Another call may have put another object at this name since it was checked.
    let result = match sys::stat_at(&to.at, &to.name).map(|stat| stat.kind) {
        Ok(FileKind::Directory) => match check_move() {
            Ok(()) => {
                link_check::check_links_stay_inside(&from, &to, &to, shared.depth, yield_timer)
                    .await
            }
            refused => refused,
        },
        Ok(FileKind::Link) => sys::read_link(&to.at, &to.name)
            .map_err(FsFault::from)
            .and_then(check_link),
        _ => Ok(()),
    };
    if result.is_err() {
        sys::rename(&to.at, &to.name, &from.at, &from.name)?;
    }
    result
}

/// Returns the object that a move replaces. A move between two names of one file replaces nothing.
fn replaced(from: &Target<'_>, to: &Target<'_>) -> Option<FileStat> {
    let old = sys::stat_at(&to.at, &to.name).ok()?;
    let new = sys::stat_at(&from.at, &from.name).ok()?;
    (old.id != new.id).then_some(old)
}

/// Adds a second name for a regular file. Links are refused, because a relative link leads elsewhere from another path.
pub(super) async fn hard_link(
    old: &FsNode,
    old_path: &str,
    new: &FsNode,
    new_path: &str,
) -> Result<(), FsFault> {
    check_same_mount(old, new)?;
    let (from, to) = (resolve_name(old, old_path)?, resolve_name(new, new_path)?);
    old.shared().check_writable(&from.path)?;
    old.shared().check_writable(&to.path)?;
    if sys::stat_at(&from.at, &from.name)?.kind != FileKind::File {
        return Err(FsFault::refused(&from.path, RefusalCause::NotAFile));
    }
    if from.dir || to.dir {
        return Err(ErrorCode::NotDirectory.into());
    }
    // Both names are recorded, because a write through one also changes the other.
    old.shared().record(&from.path).await?;
    new.shared().record(&to.path).await?;
    create_counted(new.shared().quota.as_ref(), || {
        Ok(sys::hard_link(&from.at, &from.name, &to.at, &to.name)?)
    })
}

/// Creates a symbolic link. The link text is checked as if its path contained no links; when a guest follows the link
/// later, the real target is checked.
pub(super) async fn soft_link(node: &FsNode, link_text: &str, path: &str) -> Result<(), FsFault> {
    let target = resolve_name(node, path)?;
    let shared = node.shared();
    shared.check_writable(&target.path)?;
    check_link_location(shared, &target)?;
    if target.dir {
        return Err(ErrorCode::NoEntry.into());
    }
    check_link_target(shared, link_text, &target)?;
    shared.record(&target.path).await?;
    create_counted(shared.quota.as_ref(), || {
        Ok(sys::soft_link(link_text, &target.at, &target.name)?)
    })
}

/// Checks that `link` may have the text `link_text`. Every `..` must come before the first name: after a name that is
/// itself a link, `..` would lead out of the target of that link.
fn check_link_target(
    shared: &MountState,
    link_text: &str,
    link: &Target<'_>,
) -> Result<(), FsFault> {
    let outside = || FsFault::refused(link_text, RefusalCause::Outside);
    let parsed = GuestPath::parse(link_text).map_err(|fault| match fault {
        FsFault::Refused(_) => outside(),
        other => other,
    })?;
    let mut target: Vec<&str> = link.path.split('/').collect();
    target.pop();
    if parsed.climbs && !is_at_its_path(shared, link, &target) {
        return Err(FsFault::refused(&link.path, RefusalCause::Displaced));
    }
    let mut has_descended = false;
    for part in parsed.parts {
        if part != ".." {
            has_descended = true;
            target.push(part);
        } else if has_descended {
            return Err(FsFault::refused(link_text, RefusalCause::ClimbsAfterName));
        } else if target.len() > shared.depth {
            target.pop();
        } else {
            return Err(outside());
        }
    }
    shared.check_writable(&target.join("/"))
}

/// Returns true if the directory of `at` is still at its path. If a guest has moved the directory while it had a handle
/// to it, `..` would lead elsewhere.
fn is_at_its_path(shared: &MountState, at: &Target<'_>, parent: &[&str]) -> bool {
    let parts = parent.iter().skip(shared.depth);
    let id = |dir: &sys::DirHandle| sys::stat_dir(dir).map(|stat| stat.id).ok();
    match descend(&shared.root, parts) {
        Ok(current) => id(&current).is_some_and(|current| id(&at.at) == Some(current)),
        Err(_) => false,
    }
}

/// Checks that a link may be created at `to`. At a parent of a protected path, other programs would follow the link
/// instead of reaching the protected path.
fn check_link_location(shared: &MountState, to: &Target<'_>) -> Result<(), FsFault> {
    match shared.rules.may_cover_below(&to.path) {
        Some(rule) => Err(FsFault::refused(
            &to.path,
            RefusalCause::Below(rule.clone()),
        )),
        None => Ok(()),
    }
}

/// Resolves a path without following a link in its last component, which names the object to change. The path as
/// written is checked first, so that a refusal does not depend on existing files.
fn resolve_name<'n>(node: &'n FsNode, path: &str) -> Result<Target<'n>, FsFault> {
    let written = GuestPath::parse(path)?;
    check_written_path(node, &written)?;
    let plain = path.trim_end_matches('/');
    if !written.dir || written.parts.is_empty() || plain.ends_with("/.") {
        return resolve_path(node, path, false);
    }
    let target = resolve_path(node, plain, false)?;
    Ok(Target {
        dir: true,
        ..target
    })
}

fn check_written_path(node: &FsNode, written: &GuestPath<'_>) -> Result<(), FsFault> {
    if written.climbs {
        return Ok(());
    }
    let path = join(node.path(), written.parts.iter().copied());
    node.shared().check_dir_writable(&path)
}

fn check_same_mount(old: &FsNode, new: &FsNode) -> Result<(), FsFault> {
    // As between two file systems: programs then copy and delete instead, and each copy is checked.
    if Arc::ptr_eq(old.shared(), new.shared()) {
        Ok(())
    } else {
        Err(ErrorCode::CrossDevice.into())
    }
}
