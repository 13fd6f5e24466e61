//! Alarms for a webhook.

use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, CanaryDirection, EventKind};
use serde_json::{Value, json};

/// A canary secret that was seen leaving. Never contains the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The time.
    pub time: SystemTime,
    /// The name of the canary.
    pub secret: String,
    /// The way on which it was seen.
    pub direction: CanaryDirection,
    /// The tool, if it is known.
    pub tool: String,
    /// The id of the call.
    pub call: String,
    /// The session of the call.
    pub session: String,
    /// The user, if the front end has users.
    pub user: Option<String>,
}

impl Alarm {
    /// Returns true if another alarm differs in the time and the call only.
    pub(crate) fn is_repeated_by(&self, other: &Self) -> bool {
        let facts = |alarm: &Self| (alarm.direction, alarm.secret.clone(), alarm.tool.clone());
        facts(self) == facts(other) && (&self.session, &self.user) == (&other.session, &other.user)
    }

    /// Returns the alarm of an audit event, if it is one.
    pub fn from_event(event: &AuditEvent) -> Option<Self> {
        if event.event != EventKind::Canary {
            return None;
        }
        Some(Self {
            time: event.time,
            secret: event.subject.clone().unwrap_or_default(),
            direction: event.direction?,
            tool: event.tool.clone(),
            call: event.id.clone(),
            session: event.session.clone(),
            user: event.user.clone(),
        })
    }

    /// Returns the body of the webhook's request. `text` is for services that show messages.
    pub(crate) fn to_json(&self, host: &str) -> Value {
        let time = rfc3339(self.time);
        let tool = match self.tool.as_str() {
            "" => "an unknown tool".to_owned(),
            tool => format!("`{tool}`"),
        };
        let text = format!(
            "mimir on {host}: the canary secret `{}` was seen in a call of {tool}: {}",
            self.secret,
            self.direction.describe()
        );
        json!({
            "event": EventKind::Canary.as_str(),
            "time": time,
            "secret": self.secret,
            "direction": self.direction.as_str(),
            "tool": self.tool,
            "call": self.call,
            "session": self.session,
            "user": self.user,
            "host": host,
            "text": text,
        })
    }
}

/// Returns a time as RFC 3339 with milliseconds.
fn rfc3339(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    format!("{time:.3}")
}
