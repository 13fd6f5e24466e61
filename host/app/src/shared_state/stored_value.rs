//! The format of a value's file: a line of JSON with the key, the revision and the end of the lifetime, then the value.

use std::time::{Duration, SystemTime};

use mimir_core::shared_state::{StateEntry, StateKey, StateRevision};
use serde::{Deserialize, Serialize};

/// A stored value with its lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileValue {
    pub(super) entry: StateEntry,
    /// The end of the lifetime in milliseconds since 1970.
    pub(super) expires_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct FileValueHeader {
    key: String,
    revision: StateRevision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
}

impl FileValue {
    /// Returns true if the lifetime has not ended.
    pub(super) fn is_live(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|end| now_ms < end)
    }

    /// Returns the content of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let header = FileValueHeader {
            key: self.entry.key.to_string(),
            revision: self.entry.revision,
            expires_ms: self.expires_ms,
        };
        let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.entry.value);
        bytes
    }

    /// Reads the content of a file. The error is the fault in it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or("it has no header line")?;
        let (header, value) = (&bytes[..end], &bytes[end + 1..]);
        let header: FileValueHeader = serde_json::from_slice(header)
            .map_err(|error| format!("its header line is not valid: {error}"))?;
        let key = StateKey::parse(&header.key).ok_or("its key is not valid")?;
        Ok(Self {
            entry: StateEntry {
                key,
                value: value.to_vec(),
                revision: header.revision,
            },
            expires_ms: header.expires_ms,
        })
    }
}

/// Returns the current time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, millis)
}

/// Returns a duration in milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_value_keeps_any_bytes() {
        let value = FileValue {
            entry: StateEntry {
                key: StateKey::new(["a", "b"]),
                value: vec![0, b'\n', 255, b'{'],
                revision: 7,
            },
            expires_ms: Some(9),
        };
        assert_eq!(FileValue::decode(&value.encode()), Ok(value.clone()));
        assert!(value.is_live(8) && !value.is_live(9));
        for bad in [&b""[..], b"{}", b"{}\n", b"{\"key\":\"\",\"revision\":1}\n"] {
            assert!(FileValue::decode(bad).is_err());
        }
    }
}
