//! Orders to stop calls: the port to the switch that stops all of them, on one machine or in a whole deployment, and the
//! orders for single sessions.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::backend::BoxFuture;
use crate::text;

mod session_stops;

pub use session_stops::{SessionStops, UnsharedStop};
pub(crate) use session_stops::{SessionSwitch, shown_session};

/// Maximum length of a name or reason from another process, in bytes.
const MAX_TEXT: usize = 600;

/// The order to refuse all calls, or those of one session.
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
    /// The session whose calls are refused, as consoles show it. `None` if all calls are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Why other servers of a cluster may not know the order, or its withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unshared: Option<String>,
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
            session: None,
            unshared: None,
        }
    }

    /// Returns an order of another process with its texts cut and cleaned.
    #[must_use]
    pub fn cleaned(self) -> Self {
        let clean = |text: &str| {
            let visible = text::visible(text::prefix_bytes(text, MAX_TEXT));
            text::prefix_bytes(&visible, MAX_TEXT).to_owned()
        };
        Self {
            by: clean(&self.by),
            reason: self.reason.as_deref().map(clean),
            session: self.session.as_deref().map(shown_session),
            unshared: self.unshared.as_deref().map(clean),
            ..self
        }
    }

    /// Limits the order to the calls of one session.
    #[must_use]
    pub fn for_session(self, session: &str) -> Self {
        Self {
            session: Some(shown_session(session)),
            ..self
        }
    }

    /// Returns true if both are the same order: of one person, at one time, for one reason.
    #[must_use]
    pub fn is_same_order(&self, other: &Self) -> bool {
        (self.at_ms, &self.by, &self.reason) == (other.at_ms, &other.by, &other.reason)
    }

    /// Returns who has given the order, and `: REASON` or an empty text, with control characters visible.
    pub(crate) fn shown_origin(&self) -> (String, String) {
        let reason = self.reason.as_deref().map(text::visible);
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        (text::visible(&self.by), reason)
    }

    /// Returns the calls that are refused, for messages.
    pub(crate) fn refused_calls(&self) -> &'static str {
        match self.session {
            Some(_) => "all calls of this agent",
            None => "all calls",
        }
    }
}

/// The switch that stops calls.
pub trait CallSwitch: Send + Sync {
    /// Returns the order to refuse calls, if there is one. Called for each call, so it must be fast and not block.
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
