//! Logs as notifications. Since 2026-07-28, the protocol has them only for requests that ask for them.
#![expect(
    deprecated,
    reason = "clients from before 2026-07-28 have no other way to receive logs"
)]

use mimir_core::call::LogLevel;
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, RequestMetaObject};
use rmcp::service::Peer;
use serde_json::Value;

/// The minimum log level of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinLogLevel(u8);

impl MinLogLevel {
    /// Default until the client sets a level.
    pub(crate) const DEFAULT: Self = Self(rank(LoggingLevel::Warning));

    /// Converts a level that a client has set.
    pub(crate) fn from_level(level: LoggingLevel) -> Self {
        Self(rank(level))
    }

    /// Returns the level that a request sets, or `None` if the request gets no logs.
    pub(crate) fn from_request(meta: &RequestMetaObject) -> Option<Self> {
        meta.log_level().map(Self::from_level)
    }

    /// Returns true if the client receives lines of this level.
    pub(crate) fn accepts(self, level: LogLevel) -> bool {
        rank(to_mcp_level(level)) >= self.0
    }
}

/// Sends a log line. Errors are ignored, because they mean that the client is unreachable.
pub(crate) async fn send(peer: &Peer<RoleServer>, logger: &str, level: LogLevel, data: Value) {
    let line = LoggingMessageNotificationParam::new(to_mcp_level(level), data).with_logger(logger);
    let _ = peer.notify_logging_message(line).await;
}

const fn to_mcp_level(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Warn => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
    }
}

/// Returns the rank of a level.
const fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
