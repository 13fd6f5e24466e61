//! Paths in the options of a command: after `=`, or after a letter.

use super::operands::{PathOperand, leaves_directory};

/// Letters followed by a file, also within a cluster: `grep -of FILE`, `file -bm FILE`.
const FILE_LETTERS: &str = "CLSXfmr";

/// Maximum number of letters to examine. Longer words are not clusters of options.
const MAX_LETTERS: usize = 32;

/// Long options that exclude files.
const EXCLUDING_OPTIONS: &[&str] = &["--exclude", "--exclude-dir", "--ignore", "--ignore-dir"];

/// Returns the paths that an option may open. `is_protected` returns true if a path rule matches.
pub(super) fn option_paths(option: &str, is_protected: impl Fn(&str) -> bool) -> Vec<PathOperand> {
    if option.starts_with("--") {
        let Some((name, value)) = option.split_once('=') else {
            return Vec::new();
        };
        return match name {
            name if EXCLUDING_OPTIONS.contains(&name) && !leaves_directory(value) => Vec::new(),
            _ => vec![PathOperand::possible(value.to_owned())],
        };
    }
    let mut paths = Vec::new();
    let letters = option.char_indices().skip(1).take(MAX_LETTERS);
    for (index, letter) in letters {
        let value = &option[index + letter.len_utf8()..];
        if value.is_empty() {
            break;
        }
        // A lone slash is usually a separator, as in `cut -d/`.
        let takes_file = index == 1 || FILE_LETTERS.contains(letter);
        if takes_file && value != "/" && (leaves_directory(value) || is_protected(value)) {
            paths.push(PathOperand::possible(value.to_owned()));
        }
        if let Some(value) = value.strip_prefix('=') {
            paths.push(PathOperand::possible(value.to_owned()));
        }
        if !letter.is_ascii_alphanumeric() {
            break;
        }
    }
    paths
}
