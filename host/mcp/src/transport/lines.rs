//! A client on a pair of streams, one message per line. Invalid messages get an error response, because the client may
//! be waiting for one.

use std::io;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::lines::{LINE_MOST, Piece, Reader, Writer};
use crate::server::wrong_params;

use super::traces::Traces;

/// Exchanges messages with a client line by line.
pub(super) struct Lines<R, W> {
    reader: Reader<R>,
    writer: Writer<W>,
    /// State of the id scanner for a line that is too long, while the rest of it is skipped.
    too_long: Option<Traces>,
    /// Response that is being written. No further line is read before it is complete.
    answering: Option<JoinHandle<()>>,
}

/// Result of a read.
enum Read {
    Whole(Vec<u8>),
    TooLong(Traces),
    End,
}

/// Meaning of a line.
enum Heard {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Fault(Option<RequestId>, ErrorData),
    Nothing,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self {
            reader: Reader::new(reader),
            writer: Writer::new(writer),
            too_long: None,
            answering: None,
        }
    }

    /// Returns the next line. Cancel-safe.
    async fn next(&mut self) -> Read {
        loop {
            match (self.reader.next().await, self.too_long.take()) {
                (Piece::End, _) => return Read::End,
                (Piece::Line(line), None) => return Read::Whole(line),
                (Piece::Line(rest), Some(mut traces)) => {
                    traces.read(&rest);
                    return Read::TooLong(traces);
                }
                (Piece::Part(part), traces) => {
                    let traces = self.too_long.insert(traces.unwrap_or_default());
                    traces.read(&part);
                }
            }
        }
    }

    /// Sends an error response in a task of its own, because the read that triggers it may be cancelled.
    pub(super) fn say(&mut self, id: Option<RequestId>, error: ErrorData) {
        // JSON-RPC requires the id null if the request's id is unknown.
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        let writer = self.writer.clone();
        self.answering = Some(tokio::spawn(async move {
            // An error means that the client has disconnected.
            let _ = writer.send(&answer).await;
        }));
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move { writer.send(&item).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answering) = &mut self.answering {
                let _ = answering.await;
                self.answering = None;
            }
            let heard = match self.next().await {
                Read::End => return None,
                Read::TooLong(traces) => {
                    let most = LINE_MOST >> 20;
                    let words = format!("the message is too long: the limit is {most} MiB");
                    unread(&traces, ErrorData::invalid_request(words, None))
                }
                Read::Whole(line) => hear(&line),
            };
            match heard {
                Heard::Message(message) => return Some(*message),
                Heard::Fault(id, error) => self.say(id, error),
                Heard::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(answering) = self.answering.take() {
            answering.abort();
        }
        self.writer.close().await;
        Ok(())
    }
}

fn hear(line: &[u8]) -> Heard {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return Heard::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Heard::Message(Box::new(message));
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(message)) => no_message(&message),
        Ok(Value::Array(_)) => {
            let words = "batches are not supported: send each message on a line of its own";
            Heard::Fault(None, ErrorData::invalid_request(words, None))
        }
        Ok(_) => Heard::Fault(None, ErrorData::invalid_request(NO_MESSAGE, None)),
        Err(error) => {
            let words = format!(
                "the line is not valid JSON: {error}. Nothing was executed: send the message again as one line of valid JSON"
            );
            unread(&Traces::of(line), ErrorData::parse_error(words, None))
        }
    }
}

const NO_MESSAGE: &str = "not a JSON-RPC request: expected an object with `\"jsonrpc\": \"2.0\"`, an `id` that is a string or an integer, and a `method`";

/// Handles a line that is JSON, but not a valid message.
fn no_message(message: &Map<String, Value>) -> Heard {
    let id = message.get("id");
    let id = id.and_then(|id| RequestId::deserialize(id).ok());
    let answers = message.contains_key("result") || message.contains_key("error");
    let invalid = || ErrorData::invalid_request(NO_MESSAGE, None);
    match message.get("method").and_then(Value::as_str) {
        Some(_) if !message.contains_key("id") => {
            tracing::debug!("an invalid notification was ignored");
            Heard::Nothing
        }
        Some(method)
            if id.is_some() && !answers && message.get("jsonrpc") == Some(&"2.0".into()) =>
        {
            let wrong = wrong_params(method, message.get("params"));
            Heard::Fault(id, wrong.unwrap_or_else(invalid))
        }
        None if answers => no_answer(id, invalid()),
        _ => Heard::Fault(id, invalid()),
    }
}

/// Handles a line that is not valid JSON, or too long.
fn unread(traces: &Traces, error: ErrorData) -> Heard {
    match traces.answered() {
        Some(id) => no_answer(Some(id), error),
        None => Heard::Fault(traces.asked(), error),
    }
}

/// Handles an invalid response to one of our requests: the waiting caller gets an error.
fn no_answer(id: Option<RequestId>, error: ErrorData) -> Heard {
    match id {
        Some(id) => Heard::Message(Box::new(ClientJsonRpcMessage::error(error, Some(id)))),
        None => Heard::Nothing,
    }
}
