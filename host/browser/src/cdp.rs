//! Client of the Chrome DevTools Protocol over a pair of pipes: JSON messages, each followed by a NUL byte.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};

/// Maximum size of one message in bytes. Screenshots and snapshots of large pages are some megabytes.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Maximum number of events that wait for the event loop. Then the browser has to wait.
const EVENT_QUEUE: usize = 1024;

/// Default time limit of a command. The browser answers in milliseconds unless a page blocks its own thread.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Failure of a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CdpError {
    /// The browser has ended.
    #[error("the browser has ended")]
    Closed,
    /// No reply within the time limit.
    #[error("no reply to {0}")]
    Timeout(&'static str),
    /// The browser reports an error.
    #[error("{method}: {message}")]
    Refused {
        /// The command.
        method: &'static str,
        /// The message of the browser.
        message: String,
    },
}

/// An event of the browser.
#[derive(Debug, Clone)]
pub(crate) struct CdpEvent {
    /// The name, such as `Page.frameNavigated`.
    pub(crate) method: String,
    /// The parameters.
    pub(crate) params: Value,
    /// The id of the attached target that it belongs to; empty for the browser itself.
    pub(crate) session: String,
}

type Reply = Result<Value, String>;

/// A connection to a browser. Clones share it.
#[derive(Clone)]
pub(crate) struct CdpClient(Arc<CdpConnection>);

struct CdpConnection {
    next_id: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    open: watch::Receiver<bool>,
}

impl CdpClient {
    /// Connects to a browser that reads from `to` and writes to `from`. Events arrive at the returned receiver, which
    /// ends with the browser.
    pub(crate) fn connect(
        to: impl AsyncWrite + Send + Unpin + 'static,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> (Self, mpsc::Receiver<CdpEvent>) {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (events, receiver) = mpsc::channel(EVENT_QUEUE);
        let (opened, open) = watch::channel(true);
        let shared = Arc::new(CdpConnection {
            next_id: AtomicU64::new(1),
            pending: Mutex::default(),
            outgoing,
            open,
        });
        tokio::spawn(write_messages(to, queue));
        // A weak reference, so that the writer ends, and with it the browser, when the last client is dropped.
        let reading = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let mut from = BufReader::new(from);
            while let Some(message) = read_message(&mut from).await {
                let Some(shared) = reading.upgrade() else {
                    break;
                };
                if let Some(event) = shared.deliver(message)
                    && events.send(event).await.is_err()
                {
                    break;
                }
            }
            if let Some(shared) = reading.upgrade() {
                // Dropping the senders tells the waiting commands that the browser has ended.
                shared.pending.lock().clear();
            }
            opened.send_replace(false);
        });
        (Self(shared), receiver)
    }

    /// Returns true until the browser has closed its end.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.open.borrow()
    }

    /// Sends a command to an attached target, or with an empty `session` to the browser, and waits for its result.
    pub(crate) async fn send(
        &self,
        session: &str,
        method: &'static str,
        params: Value,
    ) -> Result<Value, CdpError> {
        self.send_within(COMMAND_TIMEOUT, session, method, params)
            .await
    }

    /// Sends a command like [`Self::send`], with its own time limit.
    pub(crate) async fn send_within(
        &self,
        limit: Duration,
        session: &str,
        method: &'static str,
        params: Value,
    ) -> Result<Value, CdpError> {
        self.begin(session, method, params).finish(limit).await
    }

    /// Sends a command now. Its result is waited for later, so that several commands can be on their way.
    pub(crate) fn begin(
        &self,
        session: &str,
        method: &'static str,
        params: Value,
    ) -> PendingCommand<'_> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.0.pending.lock().insert(id, sender);
        let outgoing = message(id, session, method, params);
        if !self.is_open() || self.0.outgoing.send(outgoing).is_err() {
            // Dropping the sender ends the wait.
            self.0.pending.lock().remove(&id);
        }
        PendingCommand {
            shared: &self.0,
            id,
            method,
            reply,
        }
    }

    /// Sends a command without waiting for its result.
    pub(crate) fn post(&self, session: &str, method: &'static str, params: Value) {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        // An error means that the browser has ended, which the event loop notices.
        let _ = self.0.outgoing.send(message(id, session, method, params));
    }
}

fn message(id: u64, session: &str, method: &str, params: Value) -> Vec<u8> {
    let mut message = json!({ "id": id, "method": method, "params": params });
    if !session.is_empty() {
        message["sessionId"] = session.into();
    }
    let mut bytes = message.to_string().into_bytes();
    bytes.push(0);
    bytes
}

/// A command that was sent. Dropping it forgets the reply.
pub(crate) struct PendingCommand<'a> {
    shared: &'a CdpConnection,
    id: u64,
    method: &'static str,
    reply: oneshot::Receiver<Reply>,
}

impl PendingCommand<'_> {
    /// Waits for the result.
    pub(crate) async fn finish(mut self, limit: Duration) -> Result<Value, CdpError> {
        let method = self.method;
        match tokio::time::timeout(limit, &mut self.reply).await {
            Err(_) => Err(CdpError::Timeout(method)),
            Ok(Err(_)) => Err(CdpError::Closed),
            Ok(Ok(Err(message))) => Err(CdpError::Refused { method, message }),
            Ok(Ok(Ok(result))) => Ok(result),
        }
    }
}

impl Drop for PendingCommand<'_> {
    fn drop(&mut self) {
        self.shared.pending.lock().remove(&self.id);
    }
}

impl CdpConnection {
    /// Delivers a reply to the waiting command, or returns the event.
    fn deliver(&self, mut message: Value) -> Option<CdpEvent> {
        if let Some(id) = message["id"].as_u64() {
            if let Some(waiting) = self.pending.lock().remove(&id) {
                let reply = match message["error"]["message"].as_str() {
                    Some(error) => Err(error.to_owned()),
                    None => Ok(message["result"].take()),
                };
                // The caller may have stopped waiting.
                let _ = waiting.send(reply);
            }
            return None;
        }
        Some(CdpEvent {
            method: message["method"].as_str()?.to_owned(),
            session: message["sessionId"].as_str().unwrap_or_default().to_owned(),
            params: message["params"].take(),
        })
    }
}

async fn write_messages(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Some(message) = queue.recv().await {
        if to.write_all(&message).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
}

/// Reads the next message. `None` at the end. Skips messages that are too large or not JSON: the text of a page must not
/// end the browser.
async fn read_message(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Value> {
    let mut message = Vec::new();
    let mut is_too_large = false;
    loop {
        let chunk = from.fill_buf().await.ok()?;
        if chunk.is_empty() {
            return None;
        }
        let (part, is_end) = match chunk.iter().position(|byte| *byte == 0) {
            Some(end) => (chunk.get(..end)?, true),
            None => (chunk, false),
        };
        is_too_large |= message.len() + part.len() > MAX_MESSAGE_BYTES;
        if is_too_large {
            message = Vec::new();
        } else {
            message.extend_from_slice(part);
        }
        let used = part.len() + usize::from(is_end);
        from.consume(used);
        if !is_end {
            continue;
        }
        if !is_too_large && let Some(value) = parse_message(&message) {
            return Some(value);
        }
        tracing::debug!(is_too_large, "skipped a message of the browser");
        message.clear();
        is_too_large = false;
    }
}

/// Parses a message. Texts of pages may contain half of a surrogate pair, which JSON for Rust does not allow.
fn parse_message(message: &[u8]) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice(message) {
        return Some(value);
    }
    let text = std::str::from_utf8(message).ok()?;
    serde_json::from_str(&without_surrogates(text)).ok()
}

/// Replaces the escapes of unpaired surrogates.
fn without_surrogates(text: &str) -> String {
    let unit = |at: usize| -> Option<u16> {
        let escape = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut fixed = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let escape = at + next;
        fixed.push_str(text.get(at..escape).unwrap_or_default());
        let (kept, length) = match (unit(escape), unit(escape + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (true, 12),
            (Some(0xD800..=0xDFFF), _) => (false, 6),
            (Some(_), _) => (true, 6),
            // Another escape, such as that of a backslash.
            (None, _) => (true, 2),
        };
        let end = (escape + length).min(text.len());
        match text.get(escape..end) {
            Some(part) if kept => fixed.push_str(part),
            Some(_) => fixed.push('\u{FFFD}'),
            // A character of several bytes follows the backslash, which is not JSON anyway.
            None => return text.to_owned(),
        }
        at = end;
    }
    fixed.push_str(text.get(at..).unwrap_or_default());
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next_command(from: &mut (impl AsyncBufReadExt + Unpin)) -> Value {
        read_message(from).await.unwrap()
    }

    #[tokio::test]
    async fn cdp_replies_reach_their_commands_in_any_order() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(ours);
        let (client, mut events) = CdpClient::connect(write, read);
        let (read, mut write) = tokio::io::split(theirs);
        let mut read = BufReader::new(read);
        let browser = async {
            let one = next_command(&mut read).await;
            let two = next_command(&mut read).await;
            assert_eq!(
                (&one["sessionId"], &two["sessionId"]),
                (&json!("s"), &Value::Null)
            );
            for text in [
                json!({"id": two["id"], "result": {"n": 2}}),
                json!({"method": "Page.x", "params": {"a": 1}, "sessionId": "s"}),
                json!({"id": one["id"], "error": {"message": "no"}}),
            ] {
                write
                    .write_all(format!("{text}\0").as_bytes())
                    .await
                    .unwrap();
            }
        };
        let (one, two, ()) = tokio::join!(
            client.send("s", "A.one", json!({})),
            client.send("", "A.two", json!({})),
            browser
        );
        assert_eq!(
            one,
            Err(CdpError::Refused {
                method: "A.one",
                message: "no".to_owned()
            })
        );
        assert_eq!(two.unwrap()["n"], 2);
        let event = events.recv().await.unwrap();
        assert_eq!((&*event.method, &*event.session), ("Page.x", "s"));
        drop((read, write));
        assert_eq!(
            client.send("", "A.three", json!({})).await,
            Err(CdpError::Closed)
        );
        assert!(events.recv().await.is_none() && !client.is_open());
    }

    #[tokio::test]
    async fn cdp_skips_messages_that_are_not_json() {
        let text = "nonsense\0{\"a\": \"\\\\ud800 \\ud83d\\ude00 \\udc00\"}\0";
        let mut from = BufReader::new(text.as_bytes());
        let message = read_message(&mut from).await.unwrap();
        assert_eq!(message["a"], "\\ud800 \u{1F600} \u{FFFD}");
        assert!(read_message(&mut from).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn cdp_command_without_reply_times_out() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(ours);
        let (client, _events) = CdpClient::connect(write, read);
        assert_eq!(
            client.send("", "A.one", json!({})).await,
            Err(CdpError::Timeout("A.one"))
        );
        assert!(client.0.pending.lock().is_empty());
    }
}
