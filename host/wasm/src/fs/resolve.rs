//! Resolution of a guest's path to one name in one directory handle, with the canonical path that is checked.
//!
//! There are two methods. A path without `..` is first opened as a whole, with the kernel guaranteeing that no
//! component is a link: then the path as written is canonical. If that fails, or the kernel does not support it, the
//! path is walked: each component is inspected and opened without following links, and the text of a link is walked in
//! turn. A path never leaves the directory that it starts from.

use super::node::FsNode;
use super::refusal::{FsFault, RefusalCause};
use super::sys::{self, FileKind};
use mimir_core::paths::windows_name_rule;
use std::ffi::OsStr;
use std::ops::Deref;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Maximum number of links followed in one path, as on Linux.
pub(super) const MAX_LINKS: usize = 40;

/// Maximum number of components in one resolution, including `..` and links: far more than real paths have, and a few
/// milliseconds of work at most.
const MAX_STEPS: usize = 10_000;

/// Maximum length of a path in bytes, as on Linux.
pub(super) const MAX_PATH: usize = 4096;

/// A path as written by a guest, split into components.
#[derive(Debug)]
pub(super) struct GuestPath<'p> {
    /// The components, without empty ones and `.`.
    pub parts: Vec<&'p str>,
    /// True if the path must be a directory: it ends in `/` or `.`.
    pub dir: bool,
    /// True if a component is `..`.
    pub climbs: bool,
}

impl<'p> GuestPath<'p> {
    pub(super) fn parse(path: &'p str) -> Result<Self, FsFault> {
        if path.is_empty() {
            return Err(ErrorCode::NoEntry.into());
        }
        if path.len() > MAX_PATH {
            return Err(ErrorCode::NameTooLong.into());
        }
        if path.contains('\0') {
            return Err(ErrorCode::Invalid.into());
        }
        if path.starts_with('/') {
            return Err(FsFault::refused(path, RefusalCause::Outside));
        }
        if cfg!(windows)
            && let Some(rule) = windows_name_rule(path)
        {
            return Err(FsFault::refused(path, RefusalCause::Rule(rule.clone())));
        }
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        Ok(Self {
            dir: path.ends_with('/') || path.ends_with("/.") || path == ".",
            climbs: parts.contains(&".."),
            parts,
        })
    }
}

/// A directory handle: the node's own, or one opened during resolution.
pub(super) enum DirRef<'n> {
    Base(&'n sys::DirHandle),
    Own(sys::DirHandle),
}

impl Deref for DirRef<'_> {
    type Target = sys::DirHandle;

    fn deref(&self) -> &sys::DirHandle {
        match self {
            Self::Base(dir) => dir,
            Self::Own(dir) => dir,
        }
    }
}

/// The target of a path.
pub(super) struct Target<'n> {
    pub at: DirRef<'n>,
    /// One component, or `.` for the directory itself.
    pub name: String,
    /// Canonical, from the workspace root.
    pub path: String,
    /// True if only a directory is acceptable.
    pub dir: bool,
    /// The metadata seen during resolution; set only if links are followed.
    pub seen: Option<sys::FileStat>,
}

/// Joins canonical components.
pub(super) fn join<'a>(base: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut path = base.to_owned();
    for part in parts {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(part);
    }
    path
}

/// Resolves `path` from `node`. With `follow` (or a trailing `/`) a link at the end is followed, too. The result may
/// be seen; the caller checks for permission to change it. It need not exist.
pub(super) fn resolve_path<'n>(
    node: &'n FsNode,
    path: &str,
    follow: bool,
) -> Result<Target<'n>, FsFault> {
    let written = GuestPath::parse(path)?;
    let base = node.dir()?;
    if written.climbs {
        return walk(node, base, &written, follow);
    }
    let Some((name, parents)) = written.parts.split_last() else {
        let path = node.path().to_owned();
        return Ok(Target {
            at: DirRef::Base(base),
            name: ".".to_owned(),
            path,
            dir: true,
            seen: None,
        });
    };
    let canonical = join(node.path(), written.parts.iter().copied());
    node.shared().check_visible(&canonical)?;
    let at = if parents.is_empty() {
        DirRef::Base(base)
    } else {
        match sys::traverse_beneath(base, &parents.join("/")) {
            Some(Ok(dir)) => DirRef::Own(dir),
            Some(Err(error)) if !sys::is_link_error(&error) => return Err(error.into()),
            _ => return walk(node, base, &written, follow),
        }
    };
    let mut target = Target {
        at,
        name: (*name).to_owned(),
        path: canonical,
        dir: written.dir,
        seen: None,
    };
    if follow || written.dir {
        match sys::stat_at(&target.at, &target.name) {
            Ok(stat) if stat.kind == FileKind::Link => return walk(node, base, &written, follow),
            Ok(stat) => target.seen = Some(stat),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(target)
}

fn walk<'n>(
    node: &'n FsNode,
    base: &'n sys::DirHandle,
    written: &GuestPath<'_>,
    follow: bool,
) -> Result<Target<'n>, FsFault> {
    let outside = || FsFault::refused(&written.parts.join("/"), RefusalCause::Outside);
    let mut pending: Vec<String> = written
        .parts
        .iter()
        .rev()
        .map(|part| (*part).to_owned())
        .collect();
    let mut canonical: Vec<String> = Vec::new();
    let mut at = DirRef::Base(base);
    // After `..` the handle points to a directory too deep; it is reopened when needed.
    let mut is_stale = false;
    let mut dir = written.dir;
    let (mut links, mut steps) = (0, 0);
    while let Some(name) = pending.pop() {
        steps += if is_stale && name != ".." {
            canonical.len() + 1
        } else {
            1
        };
        if steps > MAX_STEPS {
            return Err(ErrorCode::Loop.into());
        }
        if name == ".." {
            canonical.pop().ok_or_else(outside)?;
            is_stale = true;
            continue;
        }
        if std::mem::take(&mut is_stale) {
            at = descend(base, &canonical)?;
        }
        let last = pending.is_empty();
        let path = join(
            node.path(),
            canonical.iter().map(String::as_str).chain([name.as_str()]),
        );
        node.shared().check_visible(&path)?;
        if last && !follow && !dir {
            return Ok(Target {
                at,
                name,
                path,
                dir,
                seen: None,
            });
        }
        let seen = match sys::stat_at(&at, &name) {
            Ok(seen) => seen,
            Err(error) if last && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Target {
                    at,
                    name,
                    path,
                    dir,
                    seen: None,
                });
            }
            Err(error) => return Err(error.into()),
        };
        match seen.kind {
            FileKind::Link => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(ErrorCode::Loop.into());
                }
                let target = sys::read_link(&at, &name)?;
                let target_path = GuestPath::parse(&target).map_err(|fault| match fault {
                    FsFault::Refused(_) => outside(),
                    other => other,
                })?;
                dir |= last && target_path.dir;
                pending.extend(
                    target_path
                        .parts
                        .iter()
                        .rev()
                        .map(|part| (*part).to_owned()),
                );
            }
            _ if last => {
                return Ok(Target {
                    at,
                    name,
                    path,
                    dir,
                    seen: Some(seen),
                });
            }
            FileKind::Directory => match sys::open_dir_to_traverse(&at, &name) {
                Ok(next) => {
                    at = DirRef::Own(next);
                    canonical.push(name);
                }
                // The directory was swapped since it was inspected: retry a limited number of times.
                Err(error) if sys::is_link_error(&error) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(ErrorCode::Loop.into());
                    }
                    pending.push(name);
                }
                Err(error) => return Err(error.into()),
            },
            _ => return Err(ErrorCode::NotDirectory.into()),
        }
    }
    if is_stale {
        at = descend(base, &canonical)?;
    }
    let path = join(node.path(), canonical.iter().map(String::as_str));
    node.shared().check_visible(&path)?;
    Ok(Target {
        at,
        name: ".".to_owned(),
        path,
        dir: true,
        seen: None,
    })
}

/// Opens the directory at canonical components below `base`. No component may be a link.
pub(super) fn descend<'n>(
    base: &'n sys::DirHandle,
    canonical: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<DirRef<'n>, FsFault> {
    let mut at = DirRef::Base(base);
    for name in canonical {
        at = DirRef::Own(sys::open_dir_to_traverse(&at, name)?);
    }
    Ok(at)
}
