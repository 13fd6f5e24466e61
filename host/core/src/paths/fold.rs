//! Folding of names that are equal on some file system, for paths and patterns.
//!
//! It errs on the side of equality: names that open the same file on ext4 with casefold, APFS, HFS+ or NTFS must fold
//! to one string. NFKC rather than NFC because full case folding (`ſ`, `ﬁ`) is then covered too, at the price of also
//! refusing look-alikes such as a full-width `．env`.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use crate::text::is_ignorable;

/// Folds one path component for comparison. Lower-case ASCII names are not copied.
pub(super) fn fold(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        let trimmed = trim(name);
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(trimmed.to_ascii_lowercase());
        }
        return Cow::Borrowed(trimmed);
    }
    // Upper-casing in between folds names that only full case folding makes equal (ẞ ß ss, σ ς).
    let folded: String = name
        .chars()
        .filter(|&c| !is_ignorable(c))
        .nfkc()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfkc()
        .filter(|&c| !is_ignorable(c))
        .collect();
    Cow::Owned(trim(&folded).to_owned())
}

/// Removes trailing dots and spaces, as Windows does. A name that has nothing else stays unchanged.
fn trim(name: &str) -> &str {
    let trimmed = name.trim_end_matches(['.', ' ']);
    if trimmed.is_empty() { name } else { trimmed }
}
