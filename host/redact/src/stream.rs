//! Secrets in a stream of any length, with bounded memory.

use super::Redactor;
use super::mask::Finding;

/// How many bytes are scanned at a time; the longest secret beside them is scanned twice.
const BLOCK: usize = 1 << 20;

/// How many bytes stay in view behind what has been passed on: rules look at what stands before a secret.
const CONTEXT: usize = 4 << 10;

/// Masks a stream. What may still turn out to be the beginning of a secret is kept back, up to about 1.2 MB in all; the
/// longest secret that is found is [`REACH`](super::REACH) bytes long.
pub struct Stream {
    redactor: Redactor,
    buffer: Vec<u8>,
    /// How much of the buffer has been passed on.
    passed: usize,
    /// Where the buffer begins in the stream.
    offset: usize,
}

impl Redactor {
    /// Masks a stream.
    pub fn stream(&self) -> Stream {
        Stream {
            redactor: self.clone(),
            buffer: Vec::new(),
            passed: 0,
            offset: 0,
        }
    }
}

impl Stream {
    /// Takes the next bytes and appends what can be passed on to `out`; the secrets in it, at their places in the
    /// stream.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Vec<Finding> {
        self.buffer.extend_from_slice(bytes);
        let reach = self.redactor.reach();
        if self.buffer.len() - self.passed < BLOCK + reach {
            return Vec::new();
        }
        self.pass(self.buffer.len() - reach, out)
    }

    /// Appends the whole lines that can be passed on already, for an input that comes slowly; the secrets in them. Those
    /// in which a secret may have begun are kept back.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Vec<Finding> {
        let line_end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(last) = line_end(&self.buffer[self.passed..]) else {
            return Vec::new();
        };
        let mut end = self.passed + last + 1;
        if let Some(open) = self.redactor.open(&self.buffer) {
            end = end.min(line_end(&self.buffer[..open]).map_or(0, |at| at + 1));
        }
        if end <= self.passed {
            return Vec::new();
        }
        self.pass(end, out)
    }

    /// Appends the rest to `out`; the secrets in it.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Vec<Finding> {
        self.pass(self.buffer.len(), out)
    }

    /// Passes on what stands before `end`, and a secret that begins there as a whole.
    fn pass(&mut self, end: usize, out: &mut Vec<u8>) -> Vec<Finding> {
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
        let kept = end.saturating_sub(CONTEXT);
        self.buffer.drain(..kept);
        self.offset += kept;
        self.passed = end - kept;
        findings
    }
}
