//! Messages that are larger than the server accepts, in parts.
//!
//! The first byte of a message says whether it is complete (`=`), a part that others follow (`+`), or the last part
//! (`.`). The server delivers the messages of one sender to one subject in order, so that parts need no numbers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};

const COMPLETE: u8 = b'=';
const MORE: u8 = b'+';
const LAST: u8 = b'.';

/// Space for the headers and subjects of a message.
const HEADROOM: usize = 4096;

/// Maximum size of a message in bytes, in all its parts. Results of tools and their arguments are smaller.
pub(crate) const MESSAGE_MAX: usize = 64 << 20;

/// Time within which all parts of a message must arrive.
const PARTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of incomplete messages.
const INCOMPLETE_MAX: usize = 256;

/// Maximum size of all incomplete messages in bytes.
const INCOMPLETE_BYTES_MAX: usize = 256 << 20;

/// Error of a message that cannot be joined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartError {
    /// The message does not begin with a known byte.
    #[error("the message has no valid first byte")]
    Marker,
    /// The message is too large.
    #[error("the message is larger than {MESSAGE_MAX} bytes")]
    TooLarge,
    /// Too many messages are incomplete.
    #[error("too many messages are incomplete")]
    TooMany,
}

/// Splits a message into parts that a server with this limit accepts.
pub(crate) fn split(message: &[u8], max_payload: usize) -> Vec<Bytes> {
    let max = max_payload.saturating_sub(HEADROOM).max(1024);
    let mark = |marker, part: &[u8]| {
        let mut marked = BytesMut::with_capacity(part.len() + 1);
        marked.put_u8(marker);
        marked.put_slice(part);
        marked.freeze()
    };
    if message.len() < max {
        return vec![mark(COMPLETE, message)];
    }
    let mut parts = message.chunks(max).peekable();
    let mut marked = Vec::new();
    while let Some(part) = parts.next() {
        let marker = if parts.peek().is_some() { MORE } else { LAST };
        marked.push(mark(marker, part));
    }
    marked
}

/// Joins the parts of the messages of one sender.
#[derive(Debug, Default)]
pub(crate) struct PartJoiner(Vec<u8>);

impl PartJoiner {
    /// Adds a part. Returns the message if it is complete.
    pub(crate) fn add(&mut self, part: &Bytes) -> Result<Option<Bytes>, PartError> {
        match part.first() {
            // An answer to a probe may arrive between the parts of another message.
            Some(&COMPLETE) => Ok(Some(part.slice(1..))),
            Some(&marker @ (MORE | LAST)) => {
                if self.0.len() + part.len() > MESSAGE_MAX {
                    self.0 = Vec::new();
                    return Err(PartError::TooLarge);
                }
                self.0.extend_from_slice(part.get(1..).unwrap_or_default());
                let joined = (marker == LAST).then(|| std::mem::take(&mut self.0).into());
                Ok(joined)
            }
            _ => Err(PartError::Marker),
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Joins the parts of the messages of several senders, which are told apart by a key.
#[derive(Debug, Default)]
pub(crate) struct PartTable(HashMap<String, (PartJoiner, Instant)>);

impl PartTable {
    /// Adds a part of the message with this key. Returns the message if it is complete.
    pub(crate) fn add(&mut self, key: &str, part: &Bytes) -> Result<Option<Bytes>, PartError> {
        if part.first() == Some(&COMPLETE) {
            return Ok(Some(part.slice(1..)));
        }
        self.0
            .retain(|_, (_, begun)| begun.elapsed() < PARTS_TIMEOUT);
        let is_new = !self.0.contains_key(key);
        let total: usize = self.0.values().map(|(joiner, _)| joiner.len()).sum();
        if total + part.len() > INCOMPLETE_BYTES_MAX || (is_new && self.0.len() >= INCOMPLETE_MAX) {
            self.0.remove(key);
            return Err(PartError::TooMany);
        }
        let entry = self.0.entry(key.to_owned());
        let (joiner, _) = entry.or_insert_with(|| (PartJoiner::default(), Instant::now()));
        let joined = joiner.add(part);
        if !matches!(joined, Ok(None)) {
            self.0.remove(key);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_are_joined_from_their_parts() {
        for size in [0, 1, 1023, 1024, 1025, 5000, 100_000] {
            let message: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let parts = split(&message, HEADROOM + 1024);
            assert!(parts.iter().all(|part| part.len() <= 1025));
            let mut joiner = PartJoiner::default();
            let joined = parts.iter().map(|part| joiner.add(part).unwrap());
            let joined: Vec<Option<Bytes>> = joined.collect();
            let (last, others) = joined.split_last().unwrap();
            assert!(others.iter().all(Option::is_none));
            assert!(last.as_deref() == Some(message.as_slice()), "{size}");
        }
    }

    #[test]
    fn parts_of_several_senders_are_told_apart() {
        let (one, two) = (vec![1; 3000], vec![2; 3000]);
        let mut table = PartTable::default();
        let parts = [split(&one, 0), split(&two, 0)];
        assert_eq!(parts[0].len(), 3);
        let mut joined = Vec::new();
        for (first, second) in parts[0].iter().zip(&parts[1]) {
            joined.extend(table.add("one", first).unwrap());
            joined.extend(table.add("two", second).unwrap());
        }
        assert_eq!(joined, [Bytes::from(one), Bytes::from(two)]);
        assert!(table.0.is_empty());
    }

    #[test]
    fn whole_message_between_parts_does_not_replace_them() {
        let message = vec![7; 2500];
        let mut joiner = PartJoiner::default();
        let mut joined = Vec::new();
        for part in split(&message, 0) {
            joined.extend(joiner.add(&part).unwrap());
            let answer = joiner.add(&Bytes::from("=running")).unwrap();
            assert_eq!(answer, Some(Bytes::from("running")));
        }
        assert_eq!(joined, [Bytes::from(message)]);
    }

    #[test]
    fn invalid_and_too_large_messages_are_errors() {
        let mut joiner = PartJoiner::default();
        assert_eq!(joiner.add(&Bytes::new()), Err(PartError::Marker));
        assert_eq!(joiner.add(&Bytes::from("x")), Err(PartError::Marker));
        let mut part = vec![0; MESSAGE_MAX / 2];
        part[0] = MORE;
        let part = Bytes::from(part);
        let added: Vec<_> = (0..3).map(|_| joiner.add(&part)).collect();
        assert_eq!(added[2], Err(PartError::TooLarge));
        assert_eq!(joiner.len(), 0, "nothing of it is kept");
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let mut table = PartTable::default();
        for sender in 0..INCOMPLETE_MAX {
            assert_eq!(table.add(&sender.to_string(), &Bytes::from("+a")), Ok(None));
        }
        let one_more = table.add("more", &Bytes::from("+a"));
        assert_eq!(one_more, Err(PartError::TooMany));
        let complete = table.add("more", &Bytes::from("=a"));
        assert_eq!(complete, Ok(Some(Bytes::from("a"))));
    }
}
