//! Reads source files, and finds their terms and definitions.

use std::io::{self, Read as _};
use std::time::{Duration, SystemTime};

use cap_fs_ext::{
    DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _,
    OpenOptionsSyncExt as _,
};
use cap_std::fs::{Dir, Metadata, OpenOptions};

use crate::definitions::{FoundDefinition, find_definitions};
use crate::language::SourceLanguage;
use crate::words::{TermHash, visit_terms};

/// Maximum size of an indexed file in bytes. Larger text files are data or generated.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Maximum length of a line in bytes. In a file with longer ones, which is minified or data, only the words of the
/// shorter lines are found.
const MAX_LINE: usize = 4_000;

/// Age from which on a file's times tell whether it has changed since. The second one is for file systems that store
/// whole seconds only.
const SETTLED_AGE: Duration = Duration::from_millis(100);
const SETTLED_AGE_COARSE: Duration = Duration::from_secs(3);

/// The state of a file or directory, by which a change is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SourceStamp {
    /// Nanoseconds since 1970.
    pub(crate) modified: i64,
    /// Nanoseconds since 1970; 0 on platforms without this time.
    pub(crate) changed: i64,
    pub(crate) size: u64,
    pub(crate) inode: u64,
}

impl SourceStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .map(cap_std::time::SystemTime::into_std);
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self {
            modified: since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(0)),
            changed: change_time(metadata),
            size: metadata.len(),
            inode: metadata.ino(),
        }
    }

    /// Returns true if the times are so old that a later change has others.
    pub(crate) fn is_settled(self, now: SystemTime) -> bool {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let latest = self.modified.max(self.changed);
        let age = match latest % 1_000_000_000 {
            0 => SETTLED_AGE_COARSE,
            _ => SETTLED_AGE,
        };
        let age = i128::try_from(age.as_nanos()).unwrap_or(0);
        i128::from(latest) + age < i128::try_from(now.as_nanos()).unwrap_or(i128::MAX)
    }
}

#[cfg(unix)]
fn change_time(metadata: &Metadata) -> i64 {
    use cap_std::fs::MetadataExt as _;
    metadata
        .ctime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn change_time(_: &Metadata) -> i64 {
    0
}

/// Opens a directory below `root` without following links.
pub(crate) fn open_folder(root: &Dir, path: &str) -> io::Result<Dir> {
    let mut folder = root.try_clone()?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        folder = folder.open_dir_nofollow(name)?;
    }
    Ok(folder)
}

/// Returns true if a file could not be opened because too many are open. It may be possible later.
pub(crate) fn is_out_of_handles(error: &io::Error) -> bool {
    // `ENFILE` and `EMFILE`, or `ERROR_TOO_MANY_OPEN_FILES`.
    let codes: &[i32] = if cfg!(windows) { &[4] } else { &[23, 24] };
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

/// The text of a file, with the state in which it was read.
pub(crate) struct SourceText {
    pub(crate) stamp: SourceStamp,
    /// `None` for a file that is too large or not text.
    pub(crate) text: Option<String>,
}

/// Reads the file `name` of a directory. Fails for anything but a regular file; links are not followed, and a pipe is
/// not waited for.
pub(crate) fn read_source(folder: &Dir, name: &str) -> io::Result<SourceText> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = folder.open_with(name, &options)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let stamp = SourceStamp::of(&metadata);
    if stamp.size > MAX_FILE {
        return Ok(SourceText { stamp, text: None });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0) + 1);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    let is_text = bytes.len() as u64 <= MAX_FILE && memchr::memchr(0, &bytes).is_none();
    let text = is_text.then(|| {
        blank_private_keys(&mut bytes);
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    });
    Ok(SourceText { stamp, text })
}

/// Replaces private keys by spaces: mimir detects a key only by its first line, and a result may show others.
fn blank_private_keys(bytes: &mut [u8]) {
    const MARK: &[u8] = b"PRIVATE KEY";
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(&bytes[from..], MARK) {
        let mark = from + found;
        let start = memchr::memrchr(b'\n', &bytes[..mark]).map_or(0, |start| start + 1);
        let is_begin = memchr::memmem::find(&bytes[start..mark], b"-----BEGIN").is_some();
        from = mark + MARK.len();
        if !is_begin {
            continue;
        }
        let end = memchr::memmem::find(&bytes[from..], b"-----END").map_or(bytes.len(), |end| {
            let end = from + end;
            memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |length| end + length)
        });
        for byte in &mut bytes[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        from = end;
    }
}

/// The terms and definitions of a file.
pub(crate) struct ScannedFile<'t> {
    /// The terms with their numbers of occurrences, sorted.
    pub(crate) terms: Vec<(TermHash, u8)>,
    /// The number of occurrences of all terms.
    pub(crate) length: u32,
    pub(crate) definitions: Vec<FoundDefinition<'t>>,
}

/// Additional occurrences that a term has by its place.
const PATH_WEIGHT: usize = 4;
const DEFINITION_WEIGHT: usize = 2;

/// Finds the terms and definitions of a file.
pub(crate) fn scan_source<'t>(
    path: &str,
    text: &'t str,
    language: Option<SourceLanguage>,
) -> ScannedFile<'t> {
    let mut terms = Vec::with_capacity(text.len() / 5);
    let mut has_long_lines = false;
    for line in text.as_bytes().split_inclusive(|byte| *byte == b'\n') {
        if line.len() > MAX_LINE {
            has_long_lines = true;
        } else {
            visit_terms(line, |term| terms.push(term));
        }
    }
    let length = u32::try_from(terms.len()).unwrap_or(u32::MAX);
    let definitions = match language {
        Some(language) if !has_long_lines => find_definitions(text, language),
        _ => Vec::new(),
    };
    for _ in 0..PATH_WEIGHT {
        visit_terms(path.as_bytes(), |term| terms.push(term));
    }
    for definition in &definitions {
        for _ in 0..DEFINITION_WEIGHT {
            visit_terms(definition.name.as_bytes(), |term| terms.push(term));
        }
    }
    terms.sort_unstable();
    let counted = terms
        .chunk_by(|a, b| a == b)
        .map(|equal| (equal[0], u8::try_from(equal.len()).unwrap_or(u8::MAX)));
    ScannedFile {
        length,
        terms: counted.collect(),
        definitions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_private_keys_are_blanked() {
        let mut bytes = b"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nb\nthe PRIVATE KEY".to_vec();
        blank_private_keys(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("MII"), "{text}");
        assert_eq!(text.lines().count(), 6);
        assert!(text.contains("b\nthe PRIVATE KEY"));
    }

    #[test]
    fn source_minified_lines_have_no_terms() {
        let text = format!("short one\n{}\n", "long ".repeat(2_000));
        let scanned = scan_source("a.js", &text, Some(SourceLanguage::JavaScript));
        assert_eq!(scanned.length, 2);
    }
}
