//! Settings of call limits, and their ranges.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{Limits, WallClockSetting};

/// Limits of a call. Unset keys keep their defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LimitSettings {
    /// Wall clock in milliseconds.
    pub time_ms: Option<u64>,
    /// Units of fuel. Default: 20,000,000,000 per second of `timeMs`.
    pub fuel: Option<u64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Table elements, over all tables.
    pub table_elements: Option<u64>,
    /// Core instances.
    pub instances: Option<u32>,
    /// Bytes of raw output.
    pub output_bytes: Option<u64>,
    /// Characters of text for the model.
    pub output_chars: Option<usize>,
    /// Number of stored log lines.
    pub log_lines: Option<usize>,
    /// Stored bytes per log line.
    pub log_line_bytes: Option<usize>,
    /// Files and directories open at once.
    pub open_files: Option<usize>,
    /// Bytes by which the files of the workspace may grow in one call.
    pub new_file_bytes: Option<u64>,
    /// Files, directories and links that one call may add to the workspace.
    pub new_files: Option<u64>,
    /// Wall clock of one network request in milliseconds.
    pub http_time_ms: Option<u64>,
    /// Bytes of a request body, and of a response body.
    pub http_body_bytes: Option<u64>,
    /// Wall clock of compiling a component in milliseconds. A component is compiled once, before its first call, in a
    /// separate process. A component that describes itself is compiled before its tools are known, so only the
    /// top-level `limits` apply.
    pub compile_time_ms: Option<u64>,
    /// Memory for compiling a component in MiB. Enforced on Linux. Other systems only limit the time, the number of
    /// functions and the size of the code.
    pub compile_memory_mb: Option<u64>,
    /// Concurrent calls of one plugin.
    pub concurrent: Option<usize>,
    /// Calls of one tool per minute.
    pub calls_per_minute: Option<u32>,
}

impl LimitSettings {
    /// Returns these limits, with unset ones taken from `base`.
    pub fn over(self, base: Limits) -> Limits {
        Limits {
            wall: self.time_ms.map_or(base.wall, Duration::from_millis),
            wall_setting: match self.time_ms {
                Some(_) => WallClockSetting::TimeMs,
                None => base.wall_setting,
            },
            fuel: self.fuel.unwrap_or(base.fuel),
            memory: self
                .memory_mb
                .map_or(base.memory, |mb| mb.saturating_mul(1 << 20)),
            table_elements: self.table_elements.unwrap_or(base.table_elements),
            instances: self.instances.unwrap_or(base.instances),
            output_bytes: self.output_bytes.unwrap_or(base.output_bytes),
            output_chars: self.output_chars.unwrap_or(base.output_chars),
            log_lines: self.log_lines.unwrap_or(base.log_lines),
            log_line_bytes: self.log_line_bytes.unwrap_or(base.log_line_bytes),
            open_files: self.open_files.unwrap_or(base.open_files),
            new_file_bytes: self.new_file_bytes.unwrap_or(base.new_file_bytes),
            new_files: self.new_files.unwrap_or(base.new_files),
            http_time: self
                .http_time_ms
                .map_or(base.http_time, Duration::from_millis),
            http_body: self.http_body_bytes.unwrap_or(base.http_body),
            compile_time: self
                .compile_time_ms
                .map_or(base.compile_time, Duration::from_millis),
            compile_memory: self
                .compile_memory_mb
                .map_or(base.compile_memory, |mb| mb.saturating_mul(1 << 20)),
            concurrent_per_plugin: self.concurrent.unwrap_or(base.concurrent_per_plugin),
            concurrent_setting: self.concurrent.or(base.concurrent_setting),
            calls_per_minute: self.calls_per_minute.or(base.calls_per_minute),
        }
    }

    /// Returns true if any of these limits is higher than in `base`.
    pub(super) fn raises(self, base: Limits) -> bool {
        let limits = self.over(base);
        limits != limits.tightest(base)
    }

    /// Checks that every limit is in range. `block_key` is the key of the block.
    pub fn check(&self, block_key: &str) -> Result<(), OutOfRangeError> {
        let count = |number: Option<usize>| number.map(|number| number as u64);
        check_time(&format!("{block_key}.timeMs"), self.time_ms)?;
        let ranges = [
            ("fuel", self.fuel, FUEL),
            ("memoryMb", self.memory_mb, (1, Limits::MEMORY_MAX >> 20)),
            (
                "tableElements",
                self.table_elements,
                (1, Limits::TABLE_ELEMENTS_MAX),
            ),
            (
                "instances",
                self.instances.map(u64::from),
                (1, u64::from(Limits::INSTANCES_MAX)),
            ),
            ("outputBytes", self.output_bytes, OUTPUT_BYTES),
            ("outputChars", count(self.output_chars), OUTPUT_CHARS),
            ("logLines", count(self.log_lines), LOG_LINES),
            ("logLineBytes", count(self.log_line_bytes), LOG_LINE_BYTES),
            ("openFiles", count(self.open_files), OPEN_FILES),
            ("newFileBytes", self.new_file_bytes, NEW_FILE_BYTES),
            ("newFiles", self.new_files, NEW_FILES),
            ("httpTimeMs", self.http_time_ms, TIME_MS),
            ("httpBodyBytes", self.http_body_bytes, OUTPUT_BYTES),
            ("compileTimeMs", self.compile_time_ms, TIME_MS),
            ("compileMemoryMb", self.compile_memory_mb, COMPILE_MEMORY_MB),
            (
                "concurrent",
                count(self.concurrent),
                (1, Limits::CONCURRENT_TOTAL as u64),
            ),
            (
                "callsPerMinute",
                self.calls_per_minute.map(u64::from),
                CALLS_PER_MINUTE,
            ),
        ];
        for (key, value, range) in ranges {
            check(|| format!("{block_key}.{key}"), value, range)?;
        }
        Ok(())
    }
}

impl From<Limits> for LimitSettings {
    fn from(limits: Limits) -> Self {
        Self {
            time_ms: Some(u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX)),
            fuel: Some(limits.fuel),
            memory_mb: Some(limits.memory >> 20),
            table_elements: Some(limits.table_elements),
            instances: Some(limits.instances),
            output_bytes: Some(limits.output_bytes),
            output_chars: Some(limits.output_chars),
            log_lines: Some(limits.log_lines),
            log_line_bytes: Some(limits.log_line_bytes),
            open_files: Some(limits.open_files),
            new_file_bytes: Some(limits.new_file_bytes),
            new_files: Some(limits.new_files),
            http_time_ms: Some(u64::try_from(limits.http_time.as_millis()).unwrap_or(u64::MAX)),
            http_body_bytes: Some(limits.http_body),
            compile_time_ms: Some(
                u64::try_from(limits.compile_time.as_millis()).unwrap_or(u64::MAX),
            ),
            compile_memory_mb: Some(limits.compile_memory >> 20),
            concurrent: Some(limits.concurrent_per_plugin),
            calls_per_minute: limits.calls_per_minute,
        }
    }
}

/// Error of a limit that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value} is out of range: expected {min} to {max}")]
pub struct OutOfRangeError {
    /// The key of the limit.
    pub key: String,
    /// The invalid value.
    pub value: u64,
    /// The minimum.
    pub min: u64,
    /// The maximum. Higher values could not be enforced, or would have no effect.
    pub max: u64,
}

/// The minimum and the maximum of a limit.
pub(super) type AllowedRange = (u64, u64);

/// Up to a day, as for `mimir call --timeout`.
const TIME_MS: AllowedRange = (1, 24 * 60 * 60 * 1_000);

/// The minimum is enough to start a component. The maximum is that of the engine's counter, with which only the wall
/// clock limits a call.
const FUEL: AllowedRange = (1_000, i64::MAX as u64);

/// A result is in memory several times while it is processed.
const OUTPUT_BYTES: AllowedRange = (1, 1 << 30);
const OUTPUT_CHARS: AllowedRange = (1, 1 << 30);

/// From no log lines to more than anyone reads, each from one byte to a page of JSON.
const LOG_LINES: AllowedRange = (0, 1_000_000);
const LOG_LINE_BYTES: AllowedRange = (1, 1 << 20);

/// From one file to the usual limit of processes.
const OPEN_FILES: AllowedRange = (1, 1 << 16);

/// The minimum is enough to compile a small component. The maximum is the memory of the largest machines.
const COMPILE_MEMORY_MB: AllowedRange = (64, 1 << 20);

/// From nothing to a terabyte, and to a billion files.
const NEW_FILE_BYTES: AllowedRange = (0, 1 << 40);
const NEW_FILES: AllowedRange = (0, 1_000_000_000);

/// The maximum bounds memory: each call of the last minute is stored. Use `enabled: false` to forbid all calls.
pub(super) const CALLS_PER_MINUTE: AllowedRange = (1, 1_000_000);

/// Checks that a wall clock limit, if set, is in range.
pub(super) fn check_time(key: &str, millis: Option<u64>) -> Result<(), OutOfRangeError> {
    check(|| key.to_owned(), millis, TIME_MS)
}

/// Checks that a value, if set, is in range. `key` returns its key for the error.
pub(super) fn check(
    key: impl FnOnce() -> String,
    value: Option<u64>,
    (min, max): AllowedRange,
) -> Result<(), OutOfRangeError> {
    match value {
        Some(value) if value < min || value > max => Err(OutOfRangeError {
            key: key(),
            value,
            min,
            max,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn limit_settings_are_checked_against_bounds() {
        let unset = serde_json::to_value(LimitSettings::default()).unwrap();
        for key in unset.as_object().unwrap().keys() {
            let check = |value: Value| {
                let settings: LimitSettings =
                    serde_json::from_value(json!({ key: value })).unwrap();
                settings.check("limits")
            };
            let error = check(json!(u32::MAX)).err();
            // Fuel and the bytes of files go further than that.
            let error = error.or_else(|| check(json!(u64::MAX)).err()).unwrap();
            assert_eq!(error.key, format!("limits.{key}"));
            assert_eq!(check(json!(error.max)), Ok(()), "{key}");
            assert!(check(json!(error.max + 1)).is_err(), "{key}");
            assert_eq!(check(json!(error.min)), Ok(()), "{key}");
            assert_eq!(check(json!(0)).is_ok(), error.min == 0, "{key}");
        }
    }

    #[test]
    fn limit_settings_accept_the_defaults() {
        let default = Limits::default();
        let same = LimitSettings {
            calls_per_minute: Some(60),
            ..LimitSettings::from(default)
        };
        assert_eq!(same.check("limits"), Ok(()));
        let over = same.over(Limits::default());
        assert_eq!(over.calls_per_minute, Some(60));
        assert_eq!(
            Limits {
                concurrent_setting: None,
                calls_per_minute: None,
                ..over
            },
            default
        );
    }
}
