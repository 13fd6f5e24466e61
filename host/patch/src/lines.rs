//! The lines of a patch.

use std::ops::Deref;

/// The lines of a patch without their line breaks. A patch with CRLF at every line is read as if it had LF.
pub(crate) struct PatchLines<'a>(Vec<&'a str>);

impl<'a> PatchLines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let mut lines: Vec<&str> = text.split('\n').collect();
        let last = lines.len().saturating_sub(1);
        let all_crlf = last > 0 && lines[..last].iter().all(|line| line.ends_with('\r'));
        if all_crlf {
            for line in &mut lines {
                *line = line.strip_suffix('\r').unwrap_or(line);
            }
        }
        Self(lines)
    }

    /// Returns the line with this index, without a carriage return; empty after the end. For headers: a hunk's lines
    /// keep their carriage returns.
    pub(crate) fn header(&self, index: usize) -> &'a str {
        self.0
            .get(index)
            .map_or("", |line| line.strip_suffix('\r').unwrap_or(line))
    }
}

impl<'a> Deref for PatchLines<'a> {
    type Target = [&'a str];

    fn deref(&self) -> &[&'a str] {
        &self.0
    }
}
