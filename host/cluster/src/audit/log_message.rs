//! A message of the audit stream: lines of one writer, and headers that spare readers the lines before.

use async_nats::HeaderMap;
use bytes::Bytes;
use mimir_audit::{ChainLink, LineHash, LogHead};

use super::recorded_line::RecordedLine;

/// Header with the numbers and the hash of the message's lines: `FIRST-LAST HASH`.
const LINES_HEADER: &str = "Mimir-Lines";

/// Header with the process that has written the message: the node of the writer, or the one that closes it.
const NODE_HEADER: &str = "Mimir-Node";

/// Header with the announced calls that have no outcome after this message.
const OPEN_HEADER: &str = "Mimir-Open";

/// Maximum number of announcements that a header lists.
const OPEN_LISTED_MAX: usize = 128;

/// The position of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AnnouncedAt {
    /// Sequence of its message in the stream. `None` for the message that has the header.
    pub(crate) message: Option<u64>,
    /// Number of its line in the chain.
    pub(crate) line: u64,
}

/// The announced calls without outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenCalls {
    /// All of them.
    Listed(Vec<AnnouncedAt>),
    /// Too many to list: all are in this message or later ones.
    Since(Option<u64>),
}

impl OpenCalls {
    /// Creates a list, or the first message if there are too many.
    pub(crate) fn new(mut calls: Vec<AnnouncedAt>) -> Self {
        if calls.len() <= OPEN_LISTED_MAX {
            calls.sort_unstable_by_key(|at| at.line);
            return Self::Listed(calls);
        }
        // Only announcements of the message itself have no sequence, and they are newer than all others.
        let oldest = calls.iter().min_by_key(|at| at.line);
        Self::Since(oldest.and_then(|at| at.message))
    }

    fn encode(&self) -> String {
        let message = |message: Option<u64>| message.unwrap_or_default();
        match self {
            Self::Listed(calls) => {
                let calls = calls
                    .iter()
                    .map(|at| format!("{}/{}", message(at.message), at.line));
                calls.collect::<Vec<_>>().join(",")
            }
            Self::Since(first) => format!("since {}", message(*first)),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let message = |text: &str| Some(text.parse::<u64>().ok()?).map(|at| (at > 0).then_some(at));
        if let Some(first) = text.strip_prefix("since ") {
            return message(first).map(Self::Since);
        }
        if text.is_empty() {
            return Some(Self::Listed(Vec::new()));
        }
        let calls = text.split(',').map(|call| {
            let (at, line) = call.split_once('/')?;
            Some(AnnouncedAt {
                message: message(at)?,
                line: line.parse().ok()?,
            })
        });
        calls.collect::<Option<Vec<_>>>().map(Self::Listed)
    }
}

/// A stored message of the audit stream.
#[derive(Debug, Clone)]
pub struct AuditMessage {
    /// The writer: the last part of the subject.
    pub writer: String,
    /// Sequence in the stream.
    pub sequence: u64,
    /// Time at which the server stored it, in RFC 3339 and UTC.
    pub time: String,
    /// The headers, in the format of NATS.
    pub headers: HeaderMap,
    /// The lines, each with its line end.
    pub payload: Bytes,
}

impl AuditMessage {
    /// Iterates over the lines, without their line ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let payload = self.payload.strip_suffix(b"\n").unwrap_or(&self.payload);
        payload.split(|byte| *byte == b'\n')
    }

    /// Returns the last line.
    pub(crate) fn last_line(&self) -> &[u8] {
        self.lines().last().unwrap_or_default()
    }

    /// Returns the end of the chain after this message, or `None` if the last line is not a line of the log.
    pub(crate) fn head(&self) -> Option<LogHead> {
        let line = self.last_line();
        Some(LogHead {
            seq: ChainLink::read(line)?.seq,
            hash: LineHash::digest_line(line),
        })
    }

    /// Returns true if the last line closes the writer.
    pub(crate) fn closes_writer(&self) -> bool {
        RecordedLine::read(self.last_line()).is_some_and(|line| line.is_closed())
    }

    /// Returns the announced calls without outcome after this message, or `None` if the header is missing or damaged.
    pub(crate) fn open_calls(&self) -> Option<OpenCalls> {
        OpenCalls::decode(self.headers.get(OPEN_HEADER)?.as_str())
    }

    /// Returns the text of the header about lines, for verification.
    pub(crate) fn lines_header(&self) -> Option<&str> {
        Some(self.headers.get(LINES_HEADER)?.as_str())
    }
}

/// Returns the text of the header about lines.
pub(crate) fn describe_lines(first: u64, last: &LogHead) -> String {
    format!("{first}-{} {}", last.seq, last.hash)
}

/// Returns the headers of a message with the lines `first` to `last`.
pub(crate) fn message_headers(
    first: u64,
    last: &LogHead,
    node: &str,
    open: &OpenCalls,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(LINES_HEADER, describe_lines(first, last));
    headers.insert(NODE_HEADER, node);
    headers.insert(OPEN_HEADER, open.encode());
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(message: u64, line: u64) -> AnnouncedAt {
        AnnouncedAt {
            message: (message > 0).then_some(message),
            line,
        }
    }

    #[test]
    fn open_calls_are_read_as_they_were_written() {
        let listed = OpenCalls::new(vec![at(0, 9), at(4, 2), at(7, 3)]);
        assert_eq!(listed.encode(), "4/2,7/3,0/9");
        let many = OpenCalls::new((1..=200).map(|n| at(n + 10, n)).collect());
        assert_eq!(many, OpenCalls::Since(Some(11)));
        let new = OpenCalls::new((1..=200).map(|n| at(0, n)).collect());
        assert_eq!(new, OpenCalls::Since(None));
        for calls in [listed, many, new, OpenCalls::new(vec![])] {
            assert_eq!(OpenCalls::decode(&calls.encode()), Some(calls));
        }
        for bad in ["x", "1", "1/", "/1", "1/2,", "since", "since x", "-1/2"] {
            assert_eq!(OpenCalls::decode(bad), None, "{bad}");
        }
    }
}
