//! Settings of retries: `tools.NAME.retries`.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::error::ToolErrorCode;

use super::OutOfRangeError;
use super::limits::check;

/// `retries: 3`, or a block with the number and the delays.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum ToolRetries {
    /// Not set.
    #[default]
    Unset,
    /// The maximum number of retries of one call.
    Count(#[schemars(range(max = 10))] u32),
    /// The block.
    Block(RetryBlock),
}

/// `retries:` as a block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RetryBlock {
    /// The maximum number of retries of one call.
    #[schemars(range(max = 10))]
    pub max: u32,
    /// The delay before the first retry in milliseconds. It doubles with each retry.
    pub delay_ms: u64,
    /// The maximum delay in milliseconds.
    pub max_delay_ms: u64,
    /// The errors after which a call is retried.
    pub on: Vec<RetriedError>,
}

/// An error that can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RetriedError {
    /// A connection could not be established or was lost.
    Network,
    /// A resource of the call is temporarily unavailable.
    Unavailable,
    /// An operation of the tool took too long.
    Timeout,
}

impl RetriedError {
    /// Returns the code of the error.
    pub const fn code(self) -> ToolErrorCode {
        match self {
            Self::Network => ToolErrorCode::Network,
            Self::Unavailable => ToolErrorCode::Unavailable,
            Self::Timeout => ToolErrorCode::Timeout,
        }
    }
}

impl Default for RetryBlock {
    fn default() -> Self {
        Self {
            max: 0,
            delay_ms: 500,
            max_delay_ms: 10_000,
            // A call that took too long once usually does so again.
            on: vec![RetriedError::Network, RetriedError::Unavailable],
        }
    }
}

/// More retries would keep a model waiting for a service that is down.
const MAX_RETRIES: (u64, u64) = (0, 10);

/// Up to ten minutes.
const DELAY_MS: (u64, u64) = (0, 600_000);

impl ToolRetries {
    /// Returns the settings as a block, or `None` if they are not set.
    pub fn block(&self) -> Option<RetryBlock> {
        match self {
            Self::Unset => None,
            Self::Count(max) => Some(RetryBlock {
                max: *max,
                ..RetryBlock::default()
            }),
            Self::Block(block) => Some(block.clone()),
        }
    }

    /// Returns the maximum number of retries.
    pub fn max(&self) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Count(max) => *max,
            Self::Block(block) => block.max,
        }
    }

    /// Returns true if calls are retried in another way than with `below`. Fewer retries alone weaken nothing.
    pub(super) fn weakens(&self, below: Option<&Self>) -> bool {
        self.max() > 0 && below != Some(self)
    }

    /// Checks that all values are in range. `key` is the key of the setting.
    pub(super) fn check(&self, key: &str) -> Result<(), OutOfRangeError> {
        let Self::Block(block) = self else {
            return check(|| key.to_owned(), Some(self.max().into()), MAX_RETRIES);
        };
        for (name, value, range) in [
            ("max", block.max.into(), MAX_RETRIES),
            ("delayMs", block.delay_ms, DELAY_MS),
            ("maxDelayMs", block.max_delay_ms, DELAY_MS),
        ] {
            check(|| format!("{key}.{name}"), Some(value), range)?;
        }
        Ok(())
    }
}

impl RetryBlock {
    /// Returns true if a call that failed with this error is retried.
    pub fn covers(&self, code: ToolErrorCode) -> bool {
        self.on.iter().any(|error| error.code() == code)
    }

    /// Returns the delay before a retry; the first one has the number 0.
    pub fn delay(&self, number: u32) -> Duration {
        let doubled = self.delay_ms.saturating_mul(1 << number.min(31));
        Duration::from_millis(doubled.min(self.max_delay_ms))
    }
}

impl<'de> Deserialize<'de> for ToolRetries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ToolRetriesVisitor;
        impl<'de> Visitor<'de> for ToolRetriesVisitor {
            type Value = ToolRetries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of retries, or a block with max, delayMs, maxDelayMs and on")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(ToolRetries::Unset)
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Self::Value, E> {
                // A number beyond this type is out of range, too.
                Ok(ToolRetries::Count(u32::try_from(count).unwrap_or(u32::MAX)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                RetryBlock::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(ToolRetries::Block)
            }
        }
        from.deserialize_any(ToolRetriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<ToolRetries, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn retries_are_a_number_or_a_block() {
        assert_eq!(read(json!(3)).unwrap().block().unwrap().max, 3);
        assert_eq!(read(json!(null)).unwrap().block(), None);
        let block = json!({"max": 2, "delayMs": 100, "maxDelayMs": 350, "on": ["TIMEOUT"]});
        let block = read(block).unwrap().block().unwrap();
        let delays = [0, 1, 2, 40].map(|number| block.delay(number).as_millis());
        assert_eq!(delays, [100, 200, 350, 350]);
        assert!(block.covers(ToolErrorCode::Timeout) && !block.covers(ToolErrorCode::Network));
        for bad in [
            json!("3"),
            json!(-1),
            json!({"tries": 3}),
            json!({"on": ["INTERNAL"]}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn retries_out_of_range_name_their_key() {
        for (value, key) in [
            (json!(11), "r"),
            (json!(1_u64 << 40), "r"),
            (json!({"max": 11}), "r.max"),
            (json!({"delayMs": 600_001}), "r.delayMs"),
            (json!({"maxDelayMs": 600_001}), "r.maxDelayMs"),
        ] {
            assert_eq!(read(value).unwrap().check("r").unwrap_err().key, key);
        }
        assert_eq!(read(json!(10)).unwrap().check("r"), Ok(()));
    }
}
