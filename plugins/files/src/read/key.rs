//! Masking of lines from the inside of a private key. The host detects a private key by its first line, which is
//! missing if a caller requests later lines only.

use std::io::{self, Read, Seek, SeekFrom};

use mimir_sdk::pieces::{self, KEY, KEY_MARK};

/// Number of lines that are checked for key data. An encrypted key has headers before its first line of data.
const MAX_CHECKED_LINES: usize = 6;

/// Masks the lines of a private key that begins before `text`. `at` is the byte offset of `text` in `file`.
pub(super) fn mask_key_lines(
    text: String,
    file: &mut (impl Read + Seek),
    at: u64,
) -> io::Result<String> {
    let is_key_line = |line: &str| pieces::in_key(line.as_bytes());
    if at == 0 || !text.lines().take(MAX_CHECKED_LINES).any(is_key_line) {
        return Ok(text);
    }
    let from = at.saturating_sub(KEY as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut before = Vec::new();
    file.take(at - from).read_to_end(&mut before)?;
    if !pieces::opens_key(&before) {
        return Ok(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut inside = true;
    for line in text.split_inclusive('\n') {
        if !(inside && is_key_line(line)) {
            out.push_str(line);
            continue;
        }
        inside = !pieces::ends_key(line.as_bytes());
        out.push_str(KEY_MARK);
        out.push_str(&line[line.trim_end_matches(['\n', '\r']).len()..]);
    }
    Ok(out)
}
