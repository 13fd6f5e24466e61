//! Text of paths: normalization, and devices that every program may use.

use std::borrow::Cow;

/// Normalizes a path relative to the workspace root: removes `.`, `..` and repeated slashes. Returns `None` if the path
/// is absolute or leads outside. Does not follow links.
pub fn lexical(path: &str) -> Option<Cow<'_, str>> {
    if path.starts_with('/') {
        return None;
    }
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if path.split('/').all(is_plain) {
        return Some(Cow::Borrowed(path));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(Cow::Owned(parts.join("/")))
}

/// Devices that every program may read and write.
const SAFE_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Returns true if a path is a device that every program may use.
pub fn is_safe_device(path: &str) -> bool {
    SAFE_DEVICES.contains(&path)
}

/// Returns the last part of a path: `rm` for `/bin/rm`.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the name of a program, without its folder if that is a system folder.
pub(crate) fn program_name(program: &str) -> &str {
    let folders = ["/usr/bin/", "/bin/"];
    let mut names = folders
        .iter()
        .filter_map(|folder| program.strip_prefix(folder));
    names.next().unwrap_or(program)
}
