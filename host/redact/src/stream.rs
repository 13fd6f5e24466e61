//! Masking of streams of any length with bounded memory.

use super::Redactor;
use super::mask::SecretFinding;

/// Number of new bytes scanned at a time. Each scan also repeats as many bytes as the longest secret has.
const BLOCK: usize = 1 << 20;

/// Number of passed-on bytes that are scanned again, because rules examine the text before a secret.
const CONTEXT: usize = 4 << 10;

/// Masks a stream. A possible beginning of a secret is held back, up to about 1.2 MB in total. Secrets of up to
/// [`REACH`](super::REACH) bytes are found.
pub struct StreamMasker {
    redactor: Redactor,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that have been passed on.
    passed: usize,
    /// Offset of the buffer in the stream.
    offset: usize,
}

impl Redactor {
    /// Creates a stream filter.
    pub fn stream_masker(&self) -> StreamMasker {
        StreamMasker {
            redactor: self.clone(),
            buffer: Vec::new(),
            passed: 0,
            offset: 0,
        }
    }
}

impl StreamMasker {
    /// Adds the next bytes, and appends the masked bytes that can be passed on to `out`. Returns the secrets in them,
    /// with offsets in the stream.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Vec<SecretFinding> {
        self.buffer.extend_from_slice(bytes);
        let reach = self.redactor.reach();
        if self.buffer.len() - self.passed < BLOCK + reach {
            return Vec::new();
        }
        self.release(self.buffer.len() - reach, out)
    }

    /// Appends the whole lines that can be passed on now, for a slow input. Returns the secrets in them. Lines in which
    /// a secret may have begun are held back.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Vec<SecretFinding> {
        let line_end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(last) = line_end(&self.buffer[self.passed..]) else {
            return Vec::new();
        };
        let mut end = self.passed + last + 1;
        if let Some(open) = self.redactor.open_secret_start(&self.buffer) {
            end = end.min(line_end(&self.buffer[..open]).map_or(0, |at| at + 1));
        }
        if end <= self.passed {
            return Vec::new();
        }
        self.release(end, out)
    }

    /// Appends the masked rest to `out`. Returns the secrets in it.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Vec<SecretFinding> {
        self.release(self.buffer.len(), out)
    }

    /// Releases the text before `end`, including all of a secret that begins there.
    fn release(&mut self, end: usize, out: &mut Vec<u8>) -> Vec<SecretFinding> {
        let mut findings = self.redactor.find(&self.buffer);
        findings.retain(|finding| finding.end > self.passed && finding.start < end);
        let mut at = self.passed;
        for finding in &mut findings {
            finding.start = finding.start.max(at);
            out.extend_from_slice(&self.buffer[at..finding.start]);
            out.extend_from_slice(finding.mark().as_bytes());
            at = finding.end;
            finding.start += self.offset;
            finding.end += self.offset;
        }
        let end = end.max(at);
        out.extend_from_slice(&self.buffer[at..end]);
        let removed = end.saturating_sub(CONTEXT);
        self.buffer.drain(..removed);
        self.offset += removed;
        self.passed = end - removed;
        findings
    }
}
