//! The transport to a client on a pair of streams, one message per line. Invalid messages get an error response,
//! because the client may be waiting for a response.

use std::io;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::json_lines::{JsonLineChunk, JsonLineReader, JsonLineWriter, MAX_LINE_BYTES};
use crate::server::describe_invalid_params;

use super::id_scanner::MessageIdScanner;

/// Exchanges messages with a client line by line.
pub(super) struct StdioServerTransport<R, W> {
    reader: JsonLineReader<R>,
    writer: JsonLineWriter<W>,
    /// The id scanner for a line that is too long, while the rest of the line is skipped.
    too_long: Option<MessageIdScanner>,
    /// Task that writes an error response. No further line is read before the task has ended.
    pending_reply: Option<JoinHandle<()>>,
}

/// Result of a read.
enum LineInput {
    Whole(Vec<u8>),
    TooLong(MessageIdScanner),
    End,
}

/// Meaning of a line.
enum ParsedLine {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Fault(Option<RequestId>, ErrorData),
    Nothing,
}

impl<R, W> StdioServerTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self {
            reader: JsonLineReader::new(reader),
            writer: JsonLineWriter::new(writer),
            too_long: None,
            pending_reply: None,
        }
    }

    /// Returns the next line. Cancel-safe.
    async fn next_line(&mut self) -> LineInput {
        loop {
            match (self.reader.next().await, self.too_long.take()) {
                (JsonLineChunk::End, _) => return LineInput::End,
                (JsonLineChunk::Line(line), None) => return LineInput::Whole(line),
                (JsonLineChunk::Line(rest), Some(mut scanner)) => {
                    scanner.scan(&rest);
                    return LineInput::TooLong(scanner);
                }
                (JsonLineChunk::Part(part), scanner) => {
                    let scanner = self.too_long.insert(scanner.unwrap_or_default());
                    scanner.scan(&part);
                }
            }
        }
    }

    /// Sends an error response in a task of its own, because the read that triggers it may be cancelled.
    pub(super) fn send_error(&mut self, id: Option<RequestId>, error: ErrorData) {
        // JSON-RPC requires the id null if the request's id is unknown.
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        let writer = self.writer.clone();
        self.pending_reply = Some(tokio::spawn(async move {
            // An error means that the client has disconnected.
            let _ = writer.send(&answer).await;
        }));
    }
}

impl<R, W> Transport<RoleServer> for StdioServerTransport<R, W>
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
            if let Some(pending_reply) = &mut self.pending_reply {
                let _ = pending_reply.await;
                self.pending_reply = None;
            }
            let parsed = match self.next_line().await {
                LineInput::End => return None,
                LineInput::TooLong(scanner) => {
                    let limit = MAX_LINE_BYTES >> 20;
                    let message = format!("the message is too long: the limit is {limit} MiB");
                    handle_unparsed_line(&scanner, ErrorData::invalid_request(message, None))
                }
                LineInput::Whole(line) => parse_line(&line),
            };
            match parsed {
                ParsedLine::Message(message) => return Some(*message),
                ParsedLine::Fault(id, error) => self.send_error(id, error),
                ParsedLine::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(pending_reply) = self.pending_reply.take() {
            pending_reply.abort();
        }
        self.writer.close().await;
        Ok(())
    }
}

fn parse_line(line: &[u8]) -> ParsedLine {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return ParsedLine::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return ParsedLine::Message(Box::new(message));
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(message)) => handle_invalid_message(&message),
        Ok(Value::Array(_)) => {
            let message = "batches are not supported: send each message on a line of its own";
            ParsedLine::Fault(None, ErrorData::invalid_request(message, None))
        }
        Ok(_) => ParsedLine::Fault(None, ErrorData::invalid_request(NOT_A_MESSAGE, None)),
        Err(error) => {
            let message = format!(
                "the line is not valid JSON: {error}. Nothing was executed: send the message again as one line of valid JSON"
            );
            handle_unparsed_line(
                &MessageIdScanner::from_text(line),
                ErrorData::parse_error(message, None),
            )
        }
    }
}

const NOT_A_MESSAGE: &str = "not a JSON-RPC request: expected an object with `\"jsonrpc\": \"2.0\"`, an `id` that is a string or an integer, and a `method`";

/// Handles a line that is JSON, but not a valid message.
fn handle_invalid_message(message: &Map<String, Value>) -> ParsedLine {
    let id = message.get("id");
    let id = id.and_then(|id| RequestId::deserialize(id).ok());
    let is_response = message.contains_key("result") || message.contains_key("error");
    let invalid = || ErrorData::invalid_request(NOT_A_MESSAGE, None);
    match message.get("method").and_then(Value::as_str) {
        Some(_) if !message.contains_key("id") => {
            tracing::debug!("an invalid notification was ignored");
            ParsedLine::Nothing
        }
        Some(method)
            if id.is_some() && !is_response && message.get("jsonrpc") == Some(&"2.0".into()) =>
        {
            let error = describe_invalid_params(method, message.get("params"));
            ParsedLine::Fault(id, error.unwrap_or_else(invalid))
        }
        None if is_response => handle_invalid_response(id, invalid()),
        _ => ParsedLine::Fault(id, invalid()),
    }
}

/// Handles a line that is not valid JSON, or too long.
fn handle_unparsed_line(scanner: &MessageIdScanner, error: ErrorData) -> ParsedLine {
    match scanner.response_id() {
        Some(id) => handle_invalid_response(Some(id), error),
        None => ParsedLine::Fault(scanner.request_id(), error),
    }
}

/// Handles an invalid response to one of our requests: the waiting caller gets an error.
fn handle_invalid_response(id: Option<RequestId>, error: ErrorData) -> ParsedLine {
    match id {
        Some(id) => ParsedLine::Message(Box::new(ClientJsonRpcMessage::error(error, Some(id)))),
        None => ParsedLine::Nothing,
    }
}
