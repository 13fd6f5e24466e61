//! Requests to NATS with a deadline, that end at once when the key lacks a permission.

use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Message, Request};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::connection::{ClusterConnection, ClusterError, PermissionViolation};

/// Error codes of the JetStream API.
pub(crate) mod code {
    pub(crate) const ACCOUNT_RESOURCES: u64 = 10002;
    pub(crate) const INSUFFICIENT_PEERS: u64 = 10005;
    pub(crate) const SYSTEM_UNAVAILABLE: u64 = 10008;
    pub(crate) const NOT_LEADER: u64 = 10009;
    pub(crate) const INSUFFICIENT_RESOURCES: u64 = 10023;
    pub(crate) const MEMORY_EXCEEDED: u64 = 10028;
    pub(crate) const NO_MESSAGE: u64 = 10037;
    pub(crate) const STORAGE_EXCEEDED: u64 = 10047;
    pub(crate) const MESSAGE_TOO_LARGE: u64 = 10054;
    pub(crate) const STREAM_EXISTS: u64 = 10058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10059;
    pub(crate) const STREAM_OFFLINE: u64 = 10118;
    pub(crate) const NOT_SUPPORTED_ALONE: u64 = 10074;
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
    pub(crate) const STORE_FAILED: u64 = 10077;
    pub(crate) const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10164;
}

/// Error of a request.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum RequestError {
    /// The key lacks the permission.
    #[error("the key of this process may not {} {:?}", .0.action, .0.subject)]
    Forbidden(PermissionViolation),
    /// No process receives messages of the subject. The request was not delivered.
    #[error(
        "no server answers: the streams of the cluster do not exist, or none of their replicas is available"
    )]
    NotDelivered,
    /// A stream does not exist, and this process may not create it.
    #[error(
        "stream {0} does not exist: create the streams of a new cluster with `mimir cluster setup`; if it existed before, \
         the NATS servers do not use their previous data folder"
    )]
    NoStream(String),
    /// The deadline has passed. The request may have been delivered.
    #[error("no answer in time")]
    Timeout,
    /// The request is larger than the servers accept.
    #[error("the message is larger than the servers accept")]
    TooLarge,
    /// The connection was closed, or the answer is not valid.
    #[error("{0}")]
    Connection(String),
    /// An error answer.
    #[error("{text} (JetStream error {code}){}", remedy(*code))]
    Api {
        /// The code.
        code: u64,
        /// The text.
        text: String,
    },
}

impl RequestError {
    /// Returns true if the request has had no effect and may have success if it is sent again.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::NotDelivered => true,
            Self::Api { code, .. } => matches!(
                *code,
                code::SYSTEM_UNAVAILABLE | code::NOT_LEADER | code::STREAM_OFFLINE
            ),
            _ => false,
        }
    }

    /// Returns the code of an error answer.
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Api { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns true if storage has no space left.
    pub(crate) fn is_full(&self) -> bool {
        let code = self.code();
        code.is_some_and(|code| is_server_full(code) || code == code::STORE_FAILED)
    }

    /// Returns the cause without what to do.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Api { code, text } => format!("{text} (JetStream error {code})"),
            error => error.to_string(),
        }
    }

    /// Returns true if a message was published with an outdated sequence.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(
            self.code(),
            Some(code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_CONSTANT)
        )
    }
}

/// Returns true for the codes of servers whose store for all streams has no space left.
fn is_server_full(code: u64) -> bool {
    matches!(
        code,
        code::ACCOUNT_RESOURCES
            | code::INSUFFICIENT_RESOURCES
            | code::MEMORY_EXCEEDED
            | code::STORAGE_EXCEEDED
    )
}

/// Returns what to do about an error, to be added to its text.
fn remedy(code: u64) -> &'static str {
    if is_server_full(code) {
        "; the store of a NATS server is full: free space on its disk, or set max_file_store in its configuration to more \
         than the streams use"
    } else {
        ""
    }
}

/// An answer of the JetStream API: the result, or an error.
#[derive(Deserialize)]
struct ErrorAnswer {
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// The acknowledgement of a stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct StoredMessage {
    /// Sequence in the stream.
    pub(crate) seq: u64,
}

impl ClusterConnection {
    /// Sends a request and returns the answer.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        deadline: Instant,
    ) -> Result<Message, RequestError> {
        let mut violations = self.violations();
        let timeout = deadline.saturating_duration_since(Instant::now());
        let request = Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(timeout));
        tokio::select! {
            biased;
            answer = self.client().send_request(subject.clone(), request) => answer.map_err(|error| match error.kind() {
                RequestErrorKind::TimedOut => RequestError::Timeout,
                RequestErrorKind::NoResponders => RequestError::NotDelivered,
                RequestErrorKind::MaxPayloadExceeded => RequestError::TooLarge,
                _ => RequestError::Connection(error.to_string()),
            }),
            violation = find_violation(&mut violations, &subject) => Err(RequestError::Forbidden(violation)),
        }
    }

    /// Publishes a message into a stream and returns its sequence.
    pub(crate) async fn publish_stored(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        deadline: Instant,
    ) -> Result<StoredMessage, RequestError> {
        let answer = self.request(subject, headers, payload, deadline).await?;
        parse_answer(&answer.payload)
    }

    /// Sends a request to the JetStream API, again while no server is responsible for it, and returns the result.
    pub(crate) async fn api<T: DeserializeOwned>(
        &self,
        name: &str,
        body: &serde_json::Value,
        deadline: Instant,
    ) -> Result<T, RequestError> {
        let payload = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        loop {
            let subject = format!("$JS.API.{name}");
            let answer = self.request(subject, HeaderMap::new(), payload.clone(), deadline);
            let result = answer
                .await
                .and_then(|answer| parse_answer(&answer.payload));
            match result {
                Err(error) if error.is_transient() && pause_before_retry(deadline).await => {}
                result => return result,
            }
        }
    }

    /// Returns an error of this connection.
    pub(crate) fn error(&self, error: RequestError) -> ClusterError {
        match error {
            RequestError::Forbidden(violation) => ClusterError::Forbidden {
                action: violation.action,
                subject: violation.subject,
            },
            error => ClusterError::Failed {
                servers: self.servers().to_owned(),
                text: error.to_string(),
            },
        }
    }
}

/// Waits before a request is sent again. Returns false if the deadline leaves no time for it.
pub(crate) async fn pause_before_retry(deadline: Instant) -> bool {
    let next = Instant::now() + std::time::Duration::from_millis(50);
    if next >= deadline {
        return false;
    }
    tokio::time::sleep_until(next).await;
    true
}

/// Completes when the server refuses this subject.
pub(crate) async fn find_violation(
    violations: &mut broadcast::Receiver<PermissionViolation>,
    subject: &str,
) -> PermissionViolation {
    loop {
        match violations.recv().await {
            Ok(violation) if violation.subject == subject => return violation,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn parse_answer<T: DeserializeOwned>(payload: &[u8]) -> Result<T, RequestError> {
    let invalid = |error: serde_json::Error| {
        RequestError::Connection(format!("the answer of JetStream is not valid: {error}"))
    };
    let failed: ErrorAnswer = serde_json::from_slice(payload).map_err(invalid)?;
    match failed.error {
        Some(error) => Err(RequestError::Api {
            code: error.err_code,
            text: error.description,
        }),
        None => serde_json::from_slice(payload).map_err(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_store_of_a_server_is_explained() {
        let answer = br#"{"error":{"code":503,"err_code":10047,"description":"insufficient storage resources available"}}"#;
        let error = parse_answer::<StoredMessage>(answer).unwrap_err();
        assert!(error.is_full() && !error.is_transient());
        let text = error.to_string();
        assert!(
            text.contains("JetStream error 10047") && text.contains("max_file_store"),
            "{text}"
        );
        assert!(!error.cause().contains("max_file_store"));
        let other = RequestError::Api {
            code: code::STREAM_NOT_FOUND,
            text: "stream not found".to_owned(),
        };
        assert_eq!(
            other.to_string(),
            "stream not found (JetStream error 10059)"
        );
    }
}
