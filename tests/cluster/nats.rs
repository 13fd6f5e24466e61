//! A small client of NATS with which the test reads the stores of the cluster, and plants violations in them.
//!
//! Written by hand, so that the checker does not read the record through the code that wrote it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The stream of the audit record.
pub const AUDIT_STREAM: &str = "MIMIR_AUDIT";

/// Time in which a server that can be reached greets.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A message of a subject or a stream.
#[derive(Debug, Clone)]
pub struct NatsMessage {
    /// The subject.
    pub subject: String,
    /// The headers, as text.
    pub headers: String,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A message of a stream.
#[derive(Debug, Clone)]
pub struct StreamMessage {
    /// Sequence in the stream.
    pub sequence: u64,
    /// The subject.
    pub subject: String,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A connection with all rights of its account.
pub struct NatsConnection {
    stream: BufReader<TcpStream>,
    next_inbox: u64,
}

impl NatsConnection {
    /// Connects to a server without authentication. Requests may take `timeout`.
    pub fn connect(address: &str, timeout: Duration) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let parsed = address
            .parse()
            .map_err(|error| format!("{address}: {error}"))?;
        let stream = TcpStream::connect_timeout(&parsed, CONNECT_TIMEOUT).map_err(failed)?;
        stream
            .set_read_timeout(Some(CONNECT_TIMEOUT))
            .map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            next_inbox: 0,
        };
        let info = connection.read_line()?;
        if !info.starts_with("INFO ") {
            return Err(format!("{address} is not a NATS server: {info}"));
        }
        let options = json!({"verbose": false, "pedantic": false, "headers": true,
            "no_responders": true, "lang": "test", "version": "1", "protocol": 1});
        connection.write(format!("CONNECT {options}\r\nPING\r\n").as_bytes())?;
        loop {
            match connection.read_line()?.as_str() {
                "PONG" => break,
                line if line.starts_with("-ERR") => return Err(format!("{address}: {line}")),
                _ => {}
            }
        }
        let stream = connection.stream.get_ref();
        stream.set_read_timeout(Some(timeout)).map_err(failed)?;
        Ok(connection)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = self.stream.get_mut().write_all(bytes);
        written.map_err(|error| error.to_string())
    }

    fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self
            .stream
            .read_line(&mut line)
            .map_err(|error| error.to_string())?
        {
            0 => Err("the connection was closed".to_owned()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Subscribes to a subject.
    pub fn subscribe(&mut self, subject: &str) -> Result<(), String> {
        self.next_inbox += 1;
        self.write(format!("SUB {subject} {}\r\n", self.next_inbox).as_bytes())
    }

    /// Publishes a message.
    pub fn publish(&mut self, subject: &str, reply: &str, payload: &[u8]) -> Result<(), String> {
        let mut bytes = format!("PUB {subject} {reply} {}\r\n", payload.len()).into_bytes();
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.write(&bytes)
    }

    /// Publishes a message with headers: `Name: value` lines.
    pub fn publish_with_headers(
        &mut self,
        subject: &str,
        reply: &str,
        headers: &str,
        payload: &[u8],
    ) -> Result<(), String> {
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let total = headers.len() + payload.len();
        let mut bytes =
            format!("HPUB {subject} {reply} {} {total}\r\n", headers.len()).into_bytes();
        bytes.extend_from_slice(headers.as_bytes());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.write(&bytes)
    }

    /// Returns the next message of all subscriptions.
    pub fn next_message(&mut self) -> Result<NatsMessage, String> {
        loop {
            let line = self.read_line()?;
            let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
            match words.as_slice() {
                ["PING"] => self.write(b"PONG\r\n")?,
                ["MSG", subject, _, rest @ ..] => {
                    return self.read_message(subject, rest, false);
                }
                ["HMSG", subject, _, rest @ ..] => {
                    return self.read_message(subject, rest, true);
                }
                ["-ERR", ..] => return Err(line),
                _ => {}
            }
        }
    }

    /// Reads the payload of a message. `rest` is the reply, if any, the size of the headers, if any, and the size.
    fn read_message(
        &mut self,
        subject: &str,
        rest: &[&str],
        has_headers: bool,
    ) -> Result<NatsMessage, String> {
        let sizes = if has_headers { 2 } else { 1 };
        let (_, sizes) = rest.split_at(rest.len().saturating_sub(sizes));
        let sizes: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
        let sizes = sizes.map_err(|error| error.to_string())?;
        let total = sizes.last().copied().unwrap_or(0);
        let header = if has_headers { sizes[0] } else { 0 };
        let mut bytes = vec![0; total + 2];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|error| error.to_string())?;
        bytes.truncate(total);
        let payload = bytes.split_off(header.min(total));
        Ok(NatsMessage {
            subject: subject.to_owned(),
            headers: String::from_utf8_lossy(&bytes).into_owned(),
            payload,
        })
    }

    /// Sends a request, and returns the reply.
    pub fn request(&mut self, subject: &str, payload: &[u8]) -> Result<NatsMessage, String> {
        self.next_inbox += 1;
        let id = self.next_inbox;
        let inbox = format!("_INBOX.test.{}.{id}", std::process::id());
        self.write(format!("SUB {inbox} {id}\r\nUNSUB {id} 1\r\n").as_bytes())?;
        self.publish(subject, &inbox, payload)?;
        loop {
            let message = self.next_message()?;
            if message.subject == inbox {
                return match message.headers.contains(" 503") {
                    true => Err(format!("{subject} has no responders")),
                    false => Ok(message),
                };
            }
        }
    }

    /// Calls the API of JetStream.
    pub fn api(&mut self, method: &str, request: &Value) -> Result<Value, String> {
        let payload = match request.is_null() {
            true => Vec::new(),
            false => request.to_string().into_bytes(),
        };
        let reply = self.request(&format!("$JS.API.{method}"), &payload)?;
        let value: Value =
            serde_json::from_slice(&reply.payload).map_err(|error| error.to_string())?;
        match &value["error"] {
            Value::Null => Ok(value),
            error => Err(format!("{method}: {error}")),
        }
    }

    /// Returns the names of all streams.
    pub fn streams(&mut self) -> Result<Vec<String>, String> {
        let names = self.api("STREAM.NAMES", &Value::Null)?;
        let names = names["streams"].as_array().cloned().unwrap_or_default();
        let names = names.iter().filter_map(Value::as_str);
        Ok(names.map(str::to_owned).collect())
    }

    /// Returns all messages of a stream.
    pub fn stream_messages(&mut self, stream: &str) -> Result<Vec<StreamMessage>, String> {
        let last = self.api(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
        let last = last["state"]["last_seq"].as_u64().unwrap_or(0);
        let mut messages = Vec::new();
        let mut from = 1;
        while from <= last {
            let request = json!({"seq": from, "next_by_subj": ">"});
            let message = match self.api(&format!("STREAM.MSG.GET.{stream}"), &request) {
                Ok(found) => found["message"].clone(),
                Err(error) if error.contains("10037") => break,
                Err(error) => return Err(error),
            };
            let sequence = message["seq"].as_u64().ok_or("a message has no sequence")?;
            messages.push(StreamMessage {
                sequence,
                subject: message["subject"].as_str().unwrap_or_default().to_owned(),
                payload: decode_base64(message["data"].as_str().unwrap_or_default())?,
            });
            from = sequence + 1;
        }
        Ok(messages)
    }

    /// Returns true once all streams of the cluster have a leader, and `replicas` current copies.
    pub fn await_streams(&mut self, timeout: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let lagging = self.lagging_streams();
            match lagging {
                Ok(lagging) if lagging.is_empty() => return Ok(()),
                other if start.elapsed() > timeout => {
                    return Err(format!("streams without all copies: {other:?}"));
                }
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn lagging_streams(&mut self) -> Result<Vec<String>, String> {
        let mut lagging = Vec::new();
        for stream in self.streams()? {
            let info = self.api(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
            let cluster = &info["cluster"];
            let copies = cluster["replicas"].as_array().cloned().unwrap_or_default();
            let is_current = copies
                .iter()
                .all(|copy| copy["current"] == true && copy["offline"] != true);
            if cluster["leader"].as_str().unwrap_or_default().is_empty() || !is_current {
                lagging.push(stream);
            }
        }
        Ok(lagging)
    }
}

/// Decodes standard base64 with padding.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let value_of = |byte: u8| -> Result<u32, String> {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("byte {byte} is not base64")),
        };
        Ok(u32::from(value))
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | value_of(byte)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_messages_is_decoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("aGVsbG8=", b"hello"),
            ("AP8Q", &[0, 255, 16]),
        ] {
            assert_eq!(decode_base64(text).unwrap(), bytes);
        }
        assert!(decode_base64("a-b").is_err());
    }
}
