//! The beginning and the end of a command's output, in bounded memory.

use mimir_core::command::CapturedOutput;

use super::output_tail::OutputTail;

/// Buffer for the beginning and the end of an output.
pub(crate) struct OutputBuffer {
    head: Vec<u8>,
    /// Maximum size of the head, and of the tail, in bytes.
    half: usize,
    tail: OutputTail,
}

impl OutputBuffer {
    /// Creates a buffer of at most `limit` bytes. Beginning and end get one half each: the beginning shows what was
    /// run, the end how it ended.
    pub(crate) fn new(limit: usize) -> Self {
        let half = limit.div_ceil(2);
        Self {
            head: Vec::new(),
            half,
            tail: OutputTail::new(half),
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let capacity = self.half.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(capacity.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.add(rest);
    }

    /// Returns the stored output, with a note at the gap if bytes are missing. Cuts at line ends where possible.
    pub(crate) fn into_captured(mut self) -> CapturedOutput {
        let mut bytes = self.head;
        let mut missing = self.tail.dropped_bytes();
        let tail = self.tail.bytes();
        if missing == 0 {
            bytes.extend_from_slice(tail);
            return CapturedOutput {
                bytes,
                omitted_bytes: 0,
            };
        }
        let end = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(bytes.len(), |at| at + 1);
        missing += (bytes.len() - end) as u64;
        bytes.truncate(end);
        let start = tail
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        // A tail of a single line with its line end would be left empty.
        let start = if start == tail.len() { 0 } else { start };
        missing += start as u64;
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(format!("[{missing} bytes are missing here]\n").as_bytes());
        bytes.extend_from_slice(tail.get(start..).unwrap_or_default());
        CapturedOutput {
            bytes,
            omitted_bytes: missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(limit: usize, chunks: &[&[u8]]) -> (String, u64) {
        let mut buffer = OutputBuffer::new(limit);
        chunks.iter().for_each(|chunk| buffer.add(chunk));
        let captured = buffer.into_captured();
        (
            String::from_utf8_lossy(&captured.bytes).into_owned(),
            captured.omitted_bytes,
        )
    }

    #[test]
    fn output_that_fits_is_complete() {
        assert_eq!(capture(10, &[b"01234", b"56789"]), ("0123456789".into(), 0));
        assert_eq!(capture(10, &[b"0123456789"]), ("0123456789".into(), 0));
        assert_eq!(capture(10, &[]), (String::new(), 0));
    }

    #[test]
    fn output_drops_the_middle_and_counts_missing_bytes() {
        assert_eq!(
            capture(10, &[b"01234", b"5678", b"9ab"]),
            ("01234\n[2 bytes are missing here]\n789ab".into(), 2)
        );
        let long = "x".repeat(1_000_000);
        let (text, missing) = capture(10, &[b"ab\ncd", long.as_bytes(), b"\ny\n"]);
        assert_eq!(text, "ab\n[1000003 bytes are missing here]\ny\n");
        assert_eq!(missing, 1_000_003);
    }

    #[test]
    fn output_with_invalid_utf8_is_unchanged() {
        let mut buffer = OutputBuffer::new(10);
        buffer.add(&[0xff, 0, 0xfe]);
        assert_eq!(buffer.into_captured().bytes, [0xff, 0, 0xfe]);
    }
}
