//! Messages as the JetStream API returns them: data and headers in base64.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::ClusterConnection;
use crate::request::{RequestError, code};

/// A message of a stream.
#[derive(Deserialize)]
pub(crate) struct StreamMessage {
    #[serde(default)]
    pub(crate) subject: String,
    /// Sequence in the stream.
    pub(crate) seq: u64,
    /// Time at which the leader of the stream stored it, in RFC 3339 and UTC.
    #[serde(default)]
    pub(crate) time: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    hdrs: String,
}

#[derive(Deserialize)]
struct MessageAnswer {
    message: StreamMessage,
}

impl StreamMessage {
    /// Returns the content.
    pub(crate) fn payload(&self) -> Result<Vec<u8>, base64::DecodeError> {
        STANDARD.decode(&self.data)
    }

    /// Returns the headers.
    pub(crate) fn headers(&self) -> Result<HeaderMap, base64::DecodeError> {
        Ok(parse_headers(&STANDARD.decode(&self.hdrs)?))
    }
}

impl ClusterConnection {
    /// Returns the message of a stream that the query selects, from the leader of the stream. `None` if it or the stream
    /// does not exist.
    pub(crate) async fn read_message(
        &self,
        stream: &str,
        query: &Value,
        deadline: Instant,
    ) -> Result<Option<StreamMessage>, RequestError> {
        let name = format!("STREAM.MSG.GET.{stream}");
        match self.api::<MessageAnswer>(&name, query, deadline).await {
            Ok(answer) => Ok(Some(answer.message)),
            Err(error)
                if matches!(
                    error.code(),
                    Some(code::NO_MESSAGE | code::STREAM_NOT_FOUND)
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Parses headers: a version line, then `NAME: VALUE` lines. Lines that are not valid are left out.
fn parse_headers(bytes: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().skip(1) {
        if let Some((name, value)) = line.split_once(':')
            && let Ok(name) = name.parse::<async_nats::HeaderName>()
            && let Ok(value) = value.trim().parse::<async_nats::HeaderValue>()
        {
            headers.append(name, value);
        }
    }
    headers
}
