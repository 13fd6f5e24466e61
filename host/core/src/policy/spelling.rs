//! The spellings of a text argument that mean the same file, so that `./a//b/../c` is judged as `a/c`.

use std::borrow::Cow;

use crate::backend::RealPath;

use super::links::Links;

/// A path from the workspace root without `.`, `..` and doubled slashes; `None` for one that leads out of it
/// or is absolute. Links are not followed here.
pub(super) fn lexical(path: &str) -> Option<Cow<'_, str>> {
    if path.starts_with('/') {
        return None;
    }
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if path.split('/').all(plain) {
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

/// Calls `each` with the text as it is and, where it differs, as a plain path: `None` for one that climbs out
/// of the workspace.
pub(super) fn spellings(text: &str, each: &mut impl FnMut(Option<&str>)) {
    each(Some(text));
    match lexical(text) {
        Some(Cow::Borrowed(_)) => {}
        Some(Cow::Owned(path)) => each(Some(&path)),
        None if text.split('/').any(|part| part == "..") => each(None),
        None => {}
    }
}

/// The same and, where a link is on the way, the path to which it leads. A tool may take `..` before it follows a
/// link or after that: where the two differ, both count.
pub(super) fn spellings_and_links(
    text: &str,
    links: &Links<'_>,
    each: &mut impl FnMut(Option<&str>),
) {
    spellings(text, each);
    let mut follow = |path: &str| match links.real(path) {
        RealPath::AsWritten => {}
        RealPath::Other(path) => each(Some(&path)),
        RealPath::Outside => each(None),
    };
    follow(text);
    if let Some(Cow::Owned(path)) = lexical(text) {
        follow(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_plain_path() {
        for (path, plain) in [
            ("a/b", Some("a/b")),
            ("./a//b/", Some("a/b")),
            ("a/../b/./c", Some("b/c")),
            (".", Some("")),
            ("a/..", Some("")),
            ("../a", None),
            ("a/../../b", None),
            ("/etc", None),
        ] {
            assert_eq!(lexical(path).as_deref(), plain, "{path}");
        }
        let mut seen = Vec::new();
        spellings("x/./y", &mut |text| seen.push(text.map(str::to_owned)));
        spellings("x/../..", &mut |text| seen.push(text.map(str::to_owned)));
        let expected = [Some("x/./y"), Some("x/y"), Some("x/../.."), None];
        assert_eq!(seen, expected.map(|text| text.map(str::to_owned)));
    }
}
