//! Merging of stdout and stderr into one text, line by line.

use crate::command::CommandStream;

/// Maximum length of an unfinished line to hold back, in bytes. A longer line is merged in parts.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// Merges the streams of a program in the order in which their lines end. A line is never interrupted by output of the
/// other stream: otherwise a secret whose halves are written around it would not be found.
///
/// ```
/// use mimir_core::command::CommandStream::{Stderr, Stdout};
/// use mimir_core::merged_lines::MergedLines;
///
/// let (mut lines, mut merged) = (MergedLines::default(), Vec::new());
/// for (stream, text) in [(Stdout, "to"), (Stderr, "slow\n"), (Stdout, "ken\n")] {
///     lines.add(stream, text.as_bytes(), |bytes| merged.extend_from_slice(bytes));
/// }
/// assert_eq!(merged, b"slow\ntoken\n");
/// ```
#[derive(Debug, Default)]
pub struct MergedLines {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The stream of the newest output.
    newest: Option<CommandStream>,
}

impl MergedLines {
    /// Adds output of a stream, and passes the lines that it completes to `emit`.
    pub fn add(&mut self, stream: CommandStream, bytes: &[u8], mut emit: impl FnMut(&[u8])) {
        if bytes.is_empty() {
            return;
        }
        self.newest = Some(stream);
        let held = match stream {
            CommandStream::Stdout => &mut self.stdout,
            CommandStream::Stderr => &mut self.stderr,
        };
        let complete = bytes.iter().rposition(|byte| *byte == b'\n');
        let (lines, rest) = bytes.split_at(complete.map_or(0, |last| last + 1));
        if !lines.is_empty() {
            emit(held);
            held.clear();
            emit(lines);
        }
        held.extend_from_slice(rest);
        if held.len() > MAX_HELD_BYTES {
            emit(held);
            held.clear();
        }
    }

    /// Passes the unfinished lines to `emit`, that of the stream with the newest output last. If both streams have
    /// one, a line break is between them.
    pub fn finish(&mut self, mut emit: impl FnMut(&[u8])) {
        let (first, last) = match self.newest {
            Some(CommandStream::Stdout) => (&mut self.stderr, &mut self.stdout),
            Some(CommandStream::Stderr) | None => (&mut self.stdout, &mut self.stderr),
        };
        emit(first);
        if !first.is_empty() && !last.is_empty() {
            emit(b"\n");
        }
        emit(last);
        first.clear();
        last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommandStream::{Stderr, Stdout};

    fn merged(output: &[(CommandStream, &str)]) -> String {
        let (mut lines, mut merged) = (MergedLines::default(), Vec::new());
        for (stream, text) in output {
            lines.add(*stream, text.as_bytes(), |bytes| {
                merged.extend_from_slice(bytes)
            });
        }
        lines.finish(|bytes| merged.extend_from_slice(bytes));
        String::from_utf8(merged).unwrap()
    }

    #[test]
    fn merged_lines_are_not_interrupted() {
        let output = [
            (Stdout, "a\nse"),
            (Stderr, "warning\nmo"),
            (Stdout, "cret\nb"),
            (Stderr, "re\n"),
        ];
        assert_eq!(merged(&output), "a\nwarning\nsecret\nmore\nb");
    }

    #[test]
    fn merged_lines_end_with_the_newest_unfinished_one() {
        assert_eq!(merged(&[(Stdout, "one"), (Stderr, "two")]), "one\ntwo");
        assert_eq!(merged(&[(Stderr, "two"), (Stdout, "one")]), "two\none");
        assert_eq!(merged(&[(Stdout, "one")]), "one");
        assert_eq!(merged(&[]), "");
    }

    #[test]
    fn merged_lines_hold_back_a_bounded_part() {
        let long = "x".repeat(MAX_HELD_BYTES + 1);
        let (mut lines, mut merged) = (MergedLines::default(), 0);
        lines.add(Stdout, long.as_bytes(), |bytes| merged += bytes.len());
        assert_eq!(merged, long.len());
    }
}
