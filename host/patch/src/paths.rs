//! Paths in the headers of diffs.

/// Name of a missing file in a diff.
const NULL: &str = "/dev/null";

/// The prefixes that git writes before the old and the new path.
const PREFIXES: [(&str, &str); 5] = [
    ("a/", "b/"),
    ("i/", "w/"),
    ("c/", "i/"),
    ("c/", "w/"),
    ("o/", "w/"),
];

/// The two paths of a diff. `None` stands for a missing file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathPair {
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

impl PathPair {
    /// Reads the texts after `--- ` and `+++ `, and removes the prefixes of git.
    pub(crate) fn read(old: &str, new: &str) -> Self {
        let (old, new) = (read_path(old), read_path(new));
        let strip = |path: &str, prefix: &str| path.strip_prefix(prefix).map(str::to_owned);
        for (before, after) in PREFIXES {
            let pair = match (&old, &new) {
                (Some(old), Some(new)) => strip(old, before)
                    .zip(strip(new, after))
                    .map(|(old, new)| (Some(old), Some(new))),
                (Some(old), None) => strip(old, before).map(|old| (Some(old), None)),
                (None, Some(new)) => strip(new, after).map(|new| (None, Some(new))),
                (None, None) => None,
            };
            if let Some((old, new)) = pair {
                return Self { old, new };
            }
        }
        Self { old, new }
    }

    /// Reads the paths of a line `diff --git a/OLD b/NEW`, which is ambiguous if the paths contain spaces and differ.
    pub(crate) fn read_git(line: &str) -> Option<Self> {
        if line.starts_with('"') {
            let (old, rest) = unquote(line)?;
            return Some(Self::read_plain(old, read_name(rest.trim_start())));
        }
        let middle = line.len() / 2;
        let halves = line.get(..middle).zip(line.get(middle + 1..));
        let same = halves
            .filter(|(old, new)| {
                line.as_bytes().get(middle) == Some(&b' ') && old.get(1..) == new.get(1..)
            })
            .map(|(old, new)| Self::read(old, new));
        same.or_else(|| {
            let (old, new) = line.split_once(' ')?;
            Some(Self::read_plain(old.to_owned(), read_name(new)))
        })
    }

    fn read_plain(old: String, new: String) -> Self {
        let stripped = old.strip_prefix("a/").zip(new.strip_prefix("b/"));
        let (old, new) = match stripped {
            Some((old, new)) => (old.to_owned(), new.to_owned()),
            None => (old, new),
        };
        Self {
            old: Some(old),
            new: Some(new),
        }
    }
}

/// Reads the path of a header. A time after a tab is ignored.
fn read_path(text: &str) -> Option<String> {
    let name = read_name(text);
    (name != NULL).then_some(name)
}

/// Reads a name, which git quotes if it has unusual characters.
pub(crate) fn read_name(text: &str) -> String {
    match unquote(text) {
        Some((name, _)) => name,
        None => text
            .split_once('\t')
            .map_or(text, |(name, _)| name)
            .trim_end()
            .to_owned(),
    }
}

/// Reads a name in quotes with C escapes, and returns the rest of the text. `None` if the text is not quoted.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let source = text.strip_prefix('"')?.as_bytes();
    let mut at = 0;
    loop {
        match source.get(at)? {
            b'"' => {
                let name = String::from_utf8(bytes).ok()?;
                return Some((name, text.get(at + 2..)?));
            }
            b'\\' => {
                let escape = source.get(at + 1)?;
                let octal = source
                    .get(at + 1..at + 4)
                    .and_then(|digits| std::str::from_utf8(digits).ok())
                    .and_then(|digits| u8::from_str_radix(digits, 8).ok());
                match (escape, octal) {
                    (_, Some(byte)) => {
                        bytes.push(byte);
                        at += 4;
                        continue;
                    }
                    (b'n', _) => bytes.push(b'\n'),
                    (b't', _) => bytes.push(b'\t'),
                    (b'r', _) => bytes.push(b'\r'),
                    (b'"' | b'\\', _) => bytes.push(*escape),
                    _ => return None,
                }
                at += 2;
            }
            byte => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}
