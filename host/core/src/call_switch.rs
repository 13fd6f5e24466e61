//! The port to the switch that stops all calls, on one machine or in a whole deployment.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::backend::BoxFuture;

/// The order to refuse all calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopNotice {
    /// The user who gave the order.
    pub by: String,
    /// The time of the order, in milliseconds since 1970.
    pub at_ms: u64,
    /// The reason, one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl StopNotice {
    /// Creates an order.
    pub fn new(by: String, at: SystemTime, reason: Option<String>) -> Self {
        let since = at.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            by,
            at_ms: since.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
            reason,
        }
    }
}

/// The switch that stops all calls.
pub trait CallSwitch: Send + Sync {
    /// Returns the order to refuse all calls, if there is one. Called for each call, so it must be fast and not block.
    fn stopped(&self) -> Option<StopNotice>;

    /// Completes when the switch may have changed. Running calls wait for it.
    fn changed(&self) -> BoxFuture<'_, ()>;
}

/// A switch that never stops calls.
pub struct NoCallSwitch;

impl CallSwitch for NoCallSwitch {
    fn stopped(&self) -> Option<StopNotice> {
        None
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
