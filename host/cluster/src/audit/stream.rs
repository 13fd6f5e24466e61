//! Access to the stream of the audit log. All reads are answered by the leader of the stream, since a follower may lag
//! behind.

use async_nats::HeaderMap;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::log_message::AuditMessage;
use super::{ClusterAuditError, WriterName};
use crate::connection::{ACCESS_TIMEOUT, ClusterConnection};
use crate::request::{RequestError, code};
use crate::stream_message::StreamMessage;
use crate::{names, streams};

/// Number of messages that are requested at the same time.
const READ_AHEAD: usize = 64;

/// Header with the sequence that the last message of the subject must have.
const EXPECTED_SEQUENCE_HEADER: &str = "Nats-Expected-Last-Subject-Sequence";

/// Header with the name of the stream that must store the message.
const EXPECTED_STREAM_HEADER: &str = "Nats-Expected-Stream";

/// The stream of the audit log.
#[derive(Clone)]
pub(crate) struct AuditStream {
    connection: ClusterConnection,
}

/// The extent of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct StreamExtent {
    /// Sequence of the first message, or of the next one if there are none.
    #[serde(rename = "first_seq")]
    pub first: u64,
    /// Sequence of the last message.
    #[serde(rename = "last_seq")]
    pub last: u64,
    /// Number of messages.
    pub messages: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl AuditStream {
    pub(crate) fn new(connection: ClusterConnection) -> Self {
        Self { connection }
    }

    /// Returns the connection.
    pub(crate) fn connection(&self) -> &ClusterConnection {
        &self.connection
    }

    /// Creates the stream if it does not exist. Returns true if it did not.
    async fn create_if_missing(&self, deadline: Instant) -> Result<bool, RequestError> {
        let exists = self.connection.stream_exists(names::AUDIT_STREAM, deadline);
        if exists.await? {
            return Ok(false);
        }
        self.connection
            .ensure_stream(streams::audit_stream())
            .await?;
        Ok(true)
    }

    /// Converts the error of a request.
    pub(crate) fn error(&self, error: &RequestError) -> ClusterAuditError {
        ClusterAuditError::from_request(&self.connection, error)
    }

    /// Appends a message to a writer's subject if the last message there has the sequence `expected` (0: none).
    pub(crate) async fn append(
        &self,
        writer: &str,
        mut headers: HeaderMap,
        payload: Bytes,
        expected: u64,
    ) -> Result<u64, RequestError> {
        headers.insert(EXPECTED_SEQUENCE_HEADER, expected.to_string());
        headers.insert(EXPECTED_STREAM_HEADER, names::AUDIT_STREAM);
        let subject = names::audit_subject(writer);
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let publish = || {
            let (subject, headers, payload) = (subject.clone(), headers.clone(), payload.clone());
            self.connection
                .publish_stored(subject, headers, payload, deadline)
        };
        match publish().await {
            // The stream does not exist, or has no leader now.
            Err(RequestError::NotDelivered) if self.create_if_missing(deadline).await? => {
                Ok(publish().await?.seq)
            }
            stored => Ok(stored?.seq),
        }
    }

    /// Returns the last message of a writer.
    pub(crate) async fn last_message(
        &self,
        writer: &str,
    ) -> Result<Option<AuditMessage>, ClusterAuditError> {
        let subject = names::audit_subject(writer);
        self.get(&json!({"last_by_subj": subject})).await
    }

    /// Returns the first message of a writer with at least this sequence.
    pub(crate) async fn next_message(
        &self,
        writer: &str,
        sequence: u64,
    ) -> Result<Option<AuditMessage>, ClusterAuditError> {
        let subject = names::audit_subject(writer);
        self.get(&json!({"seq": sequence.max(1), "next_by_subj": subject}))
            .await
    }

    /// Returns the message with this sequence, whoever has written it.
    pub(crate) async fn message(
        &self,
        sequence: u64,
    ) -> Result<Option<AuditMessage>, ClusterAuditError> {
        self.get(&json!({"seq": sequence})).await
    }

    /// Returns the first message of any writer with at least this sequence.
    pub(crate) async fn next_of_all(
        &self,
        sequence: u64,
    ) -> Result<Option<AuditMessage>, ClusterAuditError> {
        self.get(&json!({"seq": sequence.max(1), "next_by_subj": ">"}))
            .await
    }

    /// Removes the messages of a writer before a sequence. Returns their number.
    pub(crate) async fn remove_before(
        &self,
        writer: &str,
        sequence: u64,
    ) -> Result<u64, ClusterAuditError> {
        #[derive(Deserialize)]
        struct PurgeAnswer {
            purged: u64,
        }
        let name = format!("STREAM.PURGE.{}", names::AUDIT_STREAM);
        let body = json!({"filter": names::audit_subject(writer), "seq": sequence});
        let deadline = Instant::now() + ACCESS_TIMEOUT * 3;
        let purged = self.connection.api::<PurgeAnswer>(&name, &body, deadline);
        let purged = purged.await.map_err(|error| self.error(&error))?;
        Ok(purged.purged)
    }

    /// Iterates over the messages of all writers from `first` to `last`, with `None` for missing ones.
    pub(crate) fn messages(
        &self,
        first: u64,
        last: u64,
    ) -> impl futures::Stream<Item = (u64, Result<Option<AuditMessage>, ClusterAuditError>)> {
        let reader = self.clone();
        stream::iter(first.max(1)..=last)
            .map(move |sequence| {
                let reader = reader.clone();
                async move { (sequence, reader.message(sequence).await) }
            })
            .buffered(READ_AHEAD)
    }

    /// Returns the extent of the stream, or `None` if it does not exist.
    pub(crate) async fn extent(&self) -> Result<Option<StreamExtent>, ClusterAuditError> {
        #[derive(Deserialize)]
        struct StreamInfo {
            state: StreamExtent,
        }
        let name = format!("STREAM.INFO.{}", names::AUDIT_STREAM);
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let info = self
            .connection
            .api::<StreamInfo>(&name, &Value::Null, deadline);
        match info.await {
            Ok(info) => Ok(Some(info.state)),
            Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    async fn get(&self, query: &Value) -> Result<Option<AuditMessage>, ClusterAuditError> {
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let message = self
            .connection
            .read_message(names::AUDIT_STREAM, query, deadline);
        let message = message.await.map_err(|error| self.error(&error))?;
        message.map(decode).transpose()
    }
}

fn decode(message: StreamMessage) -> Result<AuditMessage, ClusterAuditError> {
    let damaged = |text: &str| ClusterAuditError::Damaged {
        sequence: message.seq,
        text: text.to_owned(),
    };
    let payload = message
        .payload()
        .map_err(|_| damaged("its content is not base64"))?;
    let headers = message
        .headers()
        .map_err(|_| damaged("its headers are not base64"))?;
    let writer = names::audit_writer(&message.subject)
        .ok_or_else(|| damaged("its subject is not the subject of a writer"))?;
    Ok(AuditMessage {
        writer: writer.to_owned(),
        sequence: message.seq,
        time: message.time.clone(),
        headers,
        payload: payload.into(),
    })
}

/// Checks the name of a writer that came from outside.
pub(crate) fn check_writer(writer: &str) -> Result<WriterName, ClusterAuditError> {
    WriterName::parse(writer)
}
