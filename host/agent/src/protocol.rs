//! What is spoken with a provider: a question as a request, and an answer out of the events that it streams.
//!
//! Pure: bytes in, bytes out. An API of a kind that is here already, at another address, needs no code.
//!
//! Never here: connections, secrets, retries.

use mimir_core::config::Api;
use serde_json::Value;

use crate::model::{Ask, Reply};

mod anthropic;
mod chat;
mod responses;

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    api: Api,
    /// Whether it is at its maker's own address, where the newest names of keys are known.
    own: bool,
}

/// Why an answer is none, before anybody knows whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The provider says so.
    Said {
        /// Its words.
        message: String,
        /// Whether it may go well another time.
        passing: bool,
    },
    /// It ended too early.
    Cut,
    /// It is no answer of this protocol.
    Odd(String),
}

/// The most calls of one answer, and bytes of all that it says: nobody reads more, and memory has an end.
const CALLS_MOST: usize = 10_000;
const TEXT_MOST: usize = 16 << 20;

impl Protocol {
    /// What is spoken with a model of this API at this address.
    pub fn new(api: Api, url: &str) -> Self {
        Self {
            api,
            own: url.starts_with("https://api.openai.com/"),
        }
    }

    /// What follows the address of the provider.
    pub const fn path(self) -> &'static str {
        match self.api {
            Api::Openai | Api::Gemini | Api::Ollama => "chat/completions",
            Api::Responses => "responses",
            Api::Anthropic => "messages",
        }
    }

    /// The headers of a request beside those that say what is in it, the one with the key first.
    pub fn headers(self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        match (self.api, key) {
            (Api::Anthropic, Some(key)) => headers.push(("x-api-key", key.to_owned())),
            (_, Some(key)) => headers.push(("authorization", format!("Bearer {key}"))),
            (_, None) => {}
        }
        if self.api == Api::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        headers
    }

    /// The body of a request.
    pub fn request(self, model: &str, ask: &Ask<'_>) -> Value {
        match self.api {
            Api::Openai | Api::Gemini | Api::Ollama => chat::request(model, ask, self.own),
            Api::Responses => responses::request(model, ask),
            Api::Anthropic => anthropic::request(model, ask),
        }
    }

    /// What reads the answer.
    pub fn reader(self) -> Reader {
        Reader {
            kind: match self.api {
                Api::Openai | Api::Gemini | Api::Ollama => Kind::Chat(chat::Reader::default()),
                Api::Responses => Kind::Responses(responses::Reader::default()),
                Api::Anthropic => Kind::Anthropic(anthropic::Reader::default()),
            },
            bytes: 0,
        }
    }
}

/// Reads the events of one answer.
pub struct Reader {
    kind: Kind,
    bytes: usize,
}

enum Kind {
    Chat(chat::Reader),
    Responses(responses::Reader),
    Anthropic(anthropic::Reader),
}

/// Hears the words of an answer.
type On<'a> = &'a (dyn Fn(&str) + Send + Sync);

impl Reader {
    /// Takes the data of one event.
    pub fn event(&mut self, data: &str, on: On<'_>) -> Result<(), Fault> {
        let data = data.trim();
        if data == "[DONE]" {
            if let Kind::Chat(reader) = &mut self.kind {
                reader.done();
            }
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        self.bytes += data.len();
        if self.bytes > TEXT_MOST {
            return Err(Fault::Odd("it does not come to an end".to_owned()));
        }
        let event: Value =
            serde_json::from_str(data).map_err(|_| Fault::Odd("an event is no JSON".to_owned()))?;
        match &mut self.kind {
            Kind::Chat(reader) => reader.event(&event, on),
            Kind::Responses(reader) => reader.event(&event, on),
            Kind::Anthropic(reader) => reader.event(&event, on),
        }
    }

    /// Whether the answer is complete, and what follows does not matter.
    pub fn is_done(&self) -> bool {
        match &self.kind {
            Kind::Chat(reader) => reader.is_done(),
            Kind::Responses(reader) => reader.is_done(),
            Kind::Anthropic(reader) => reader.is_done(),
        }
    }

    /// The whole answer, once there are no more events.
    pub fn finish(self) -> Result<Reply, Fault> {
        let mut reply = match self.kind {
            Kind::Chat(reader) => reader.finish(),
            Kind::Responses(reader) => reader.finish(),
            Kind::Anthropic(reader) => reader.finish(),
        }?;
        for (at, call) in reply.calls.iter_mut().enumerate() {
            // Its result could not be told from others.
            if call.id.is_empty() {
                call.id = format!("call_{at}");
            }
        }
        Ok(reply)
    }
}

/// What a provider says went wrong, in the forms that they have for it.
pub fn fault(body: &Value) -> Option<String> {
    let error = match body {
        // Gemini's is in a list.
        Value::Array(list) => list.first()?.get("error")?,
        body => body.get("error").unwrap_or(body),
    };
    let message = match error {
        Value::String(text) => Some(text.as_str()),
        error => error.get("message").and_then(Value::as_str),
    };
    message.map(str::to_owned)
}

/// A text at a place of an event; nothing where there is none.
fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value
        .pointer(place)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A number at a place of an event.
fn number(value: &Value, place: &str) -> Option<u64> {
    value.pointer(place).and_then(Value::as_u64)
}

/// Whether an answer may have one more call.
fn another(reply: &Reply) -> Result<(), Fault> {
    match reply.calls.len() < CALLS_MOST {
        true => Ok(()),
        false => Err(Fault::Odd(
            "it wants more calls than anybody makes".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
