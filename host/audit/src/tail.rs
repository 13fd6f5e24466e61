//! The end of a log file: its last whole line, and the bytes after it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde::Deserialize;

use super::line::ChainLink;
use super::{LineHash, LogHead};

/// The end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogTail {
    /// Length of the file in bytes.
    pub(super) length: u64,
    /// The last line of the chain, if one was found near the end.
    pub(super) last: Option<LastLine>,
    /// The bytes after the last line, if there are any.
    pub(super) trailing_bytes: Option<TrailingBytes>,
}

/// The last line of the chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LastLine {
    /// The number and hash of the line.
    pub(super) tip: LogHead,
    /// True if the line is a `rotated` event: the log continues in the next file.
    pub(super) rotated: bool,
}

/// Bytes that do not form a line of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrailingBytes {
    /// Number of bytes.
    pub(super) bytes: u64,
    /// Hash of the bytes.
    pub(super) sha256: LineHash,
    /// True if the bytes end with a line end.
    pub(super) ended: bool,
    /// Link and hash of the line, if only its line end is missing.
    pub(super) unended_line: Option<(ChainLink, LineHash)>,
}

/// Number of bytes searched backwards for a whole line, at first and at most. Crashes leave far fewer.
const MIN_WINDOW: u64 = 16 << 10;
const MAX_WINDOW: u64 = 16 << 20;

impl LogTail {
    /// Reads the end of a file.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let length = (&*file).seek(SeekFrom::End(0))?;
        let mut window = MIN_WINDOW;
        loop {
            let from = length.saturating_sub(window);
            let bytes = read_range(file, from, length)?;
            if let Some((last, end)) = find_last_line(&bytes, from == 0) {
                let trailing_bytes = trailing_bytes(&bytes[end..]);
                let last = Some(last);
                return Ok(Self {
                    length,
                    last,
                    trailing_bytes,
                });
            }
            if from == 0 || window >= MAX_WINDOW {
                return Ok(Self {
                    length,
                    last: None,
                    trailing_bytes: trailing_bytes(&bytes),
                });
            }
            window = (window * 8).min(MAX_WINDOW);
        }
    }
}

/// Reads the bytes from `from` to `to`, or to the end of the file.
pub(super) fn read_range(mut file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn trailing_bytes(bytes: &[u8]) -> Option<TrailingBytes> {
    let sha256 = LineHash::digest_line(bytes);
    (!bytes.is_empty()).then(|| TrailingBytes {
        bytes: bytes.len() as u64,
        sha256,
        ended: bytes.ends_with(b"\n"),
        unended_line: ChainLink::read(bytes).map(|link| (link, sha256)),
    })
}

/// Finds the last whole line of the chain, and the position after it. `starts_at_line` is true if the bytes start at
/// the beginning of a line; otherwise their first line is skipped.
fn find_last_line(bytes: &[u8], starts_at_line: bool) -> Option<(LastLine, usize)> {
    let mut end = bytes.iter().rposition(|byte| *byte == b'\n')?;
    loop {
        let start = bytes[..end].iter().rposition(|byte| *byte == b'\n');
        let from = match start {
            Some(at) => at + 1,
            None if starts_at_line => 0,
            None => return None,
        };
        let line = &bytes[from..end];
        if let Some(link) = ChainLink::read(line) {
            let tip = LogHead {
                seq: link.seq,
                hash: LineHash::digest_line(line),
            };
            let rotated = is_rotated(line);
            return Some((LastLine { tip, rotated }, end + 1));
        }
        end = start?;
    }
}

/// Returns true if a line is a `rotated` event.
pub(super) fn is_rotated(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct NamedEvent<'a> {
        #[serde(borrow)]
        event: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<NamedEvent<'_>>(line)
        .is_ok_and(|named| named.event == super::EventKind::Rotated.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::line::LineDraft;
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn tail(parts: &[&[u8]]) -> LogTail {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&parts.concat()).unwrap();
        LogTail::read(&file).unwrap()
    }

    #[test]
    fn tail_finds_the_last_valid_line_before_garbage() {
        let draft = LineDraft::new(&json!({"event": "call", "long": "x".repeat(40_000)})).unwrap();
        let mut line = vec![];
        let tip = draft.unsealed().seal(&LogHead::START, &mut line).unwrap();
        let has_tip = |tail: &LogTail| tail.last.as_ref().map(|last| last.tip) == Some(tip);
        let clean = tail(&[&line]);
        assert!(has_tip(&clean) && clean.trailing_bytes.is_none());
        for garbage in [&b"{\"time\":"[..], b"a\nb\n", b"\n", &[b'z'; 100_000]] {
            let tail = tail(&[b"first\n", &line, garbage]);
            assert!(has_tip(&tail), "{garbage:?}");
            let trailing_bytes = tail.trailing_bytes.unwrap();
            assert_eq!(trailing_bytes.sha256, LineHash::digest_line(garbage));
            assert_eq!(trailing_bytes.ended, garbage.ends_with(b"\n"));
        }
        let none = tail(&[b"a\nb"]);
        assert!(none.last.is_none() && none.trailing_bytes.unwrap().bytes == 3);
        let empty = tail(&[]);
        assert!(empty.last.is_none() && empty.trailing_bytes.is_none());
    }

    #[test]
    fn tail_is_searched_up_to_the_maximum_window() {
        let draft = LineDraft::new(&json!({"event": "call"})).unwrap();
        let mut line = vec![];
        draft.unsealed().seal(&LogHead::START, &mut line).unwrap();
        let garbage = vec![b'z'; usize::try_from(MAX_WINDOW).unwrap()];
        assert!(tail(&[&line, &garbage[line.len()..]]).last.is_some());
        let tail = tail(&[&line, &garbage]);
        assert!(tail.last.is_none());
        assert_eq!(tail.trailing_bytes.unwrap().bytes, MAX_WINDOW);
    }

    #[test]
    fn tail_rotated_is_read_from_the_event_only() {
        assert!(is_rotated(br#"{"event":"rotated","x":1}"#));
        assert!(!is_rotated(
            br#"{"event":"call","tool":"\"event\":\"rotated\""}"#
        ));
        assert!(!is_rotated(b"rotated"));
    }
}
