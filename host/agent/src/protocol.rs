//! Provider protocols: building requests and parsing streamed replies, without I/O.
//!
//! To add a provider that speaks one of the [`ProviderApi`] protocols, only its base URL has to be configured.
//!
//! Out of scope: connections, secrets, retries.

use http::Uri;
use mimir_core::config::ProviderApi;
use serde_json::Value;

use crate::model::{ModelReply, ModelRequest};

mod anthropic;
mod chat;
mod responses;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderProtocol {
    api: ProviderApi,
    /// True for api.openai.com and its regional hosts, which require newer field names than compatible servers.
    is_openai: bool,
}

/// Reason why a reply could not be read. The caller adds the provider's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyError {
    /// The provider reported an error.
    Reported {
        /// The provider's message.
        message: String,
        /// True if a retry may succeed.
        transient: bool,
    },
    /// The stream ended before the reply was complete.
    Truncated,
    /// The reply does not follow the protocol; the text is the reason.
    Unexpected(String),
}

/// Limits of one reply, which bound its memory use: number of calls, and bytes of event data.
const MAX_CALLS: usize = 10_000;
const MAX_EVENT_BYTES: usize = 16 << 20;

impl ProviderProtocol {
    /// Selects the protocol of an API at the given base URL.
    pub fn new(api: ProviderApi, url: &str) -> Self {
        Self {
            api,
            is_openai: is_openai_url(url),
        }
    }

    /// Returns the path of the endpoint, relative to the provider's base URL.
    pub const fn path(self) -> &'static str {
        match self.api {
            ProviderApi::Openai | ProviderApi::Gemini | ProviderApi::Ollama => "chat/completions",
            ProviderApi::Responses => "responses",
            ProviderApi::Anthropic => "messages",
        }
    }

    /// Returns the headers of a request other than the content headers: the API key, if any, and the API version.
    pub fn headers(self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        match (self.api, key) {
            (ProviderApi::Anthropic, Some(key)) => headers.push(("x-api-key", key.to_owned())),
            (_, Some(key)) => headers.push(("authorization", format!("Bearer {key}"))),
            (_, None) => {}
        }
        if self.api == ProviderApi::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        headers
    }

    /// Returns true if requests have marks for the provider's cache.
    pub const fn writes_cache(self) -> bool {
        matches!(self.api, ProviderApi::Anthropic)
    }

    /// Builds the JSON body of a request.
    pub fn build_request(self, model: &str, request: &ModelRequest<'_>) -> Value {
        match self.api {
            ProviderApi::Openai | ProviderApi::Gemini | ProviderApi::Ollama => {
                chat::build_request(model, request, self.is_openai)
            }
            ProviderApi::Responses => responses::build_request(model, request, self.is_openai),
            ProviderApi::Anthropic => anthropic::build_request(model, request),
        }
    }

    /// Creates a reader for one reply.
    pub fn new_reader(self) -> ReplyReader {
        ReplyReader {
            kind: match self.api {
                ProviderApi::Openai | ProviderApi::Gemini | ProviderApi::Ollama => {
                    ReplyReaderKind::Chat(chat::ChatReader::default())
                }
                ProviderApi::Responses => {
                    ReplyReaderKind::Responses(responses::ResponsesReader::default())
                }
                ProviderApi::Anthropic => {
                    ReplyReaderKind::Anthropic(anthropic::AnthropicReader::default())
                }
            },
            bytes: 0,
        }
    }
}

/// Returns true for a URL of api.openai.com or of a subdomain, such as the regional eu.api.openai.com.
fn is_openai_url(url: &str) -> bool {
    let host = url
        .parse::<Uri>()
        .ok()
        .and_then(|uri| Some(uri.host()?.to_ascii_lowercase()));
    host.is_some_and(|host| host == "api.openai.com" || host.ends_with(".api.openai.com"))
}

/// Parses the events of one reply.
pub struct ReplyReader {
    kind: ReplyReaderKind,
    bytes: usize,
}

enum ReplyReaderKind {
    Chat(chat::ChatReader),
    Responses(responses::ResponsesReader),
    Anthropic(anthropic::AnthropicReader),
}

/// Receives the text of a reply in chunks.
pub(crate) type TextCallback<'a> = &'a (dyn Fn(&str) + Send + Sync);

impl ReplyReader {
    /// Parses the data of one event and passes new text to `on_text`. Fails if the event is not valid JSON, reports an
    /// error, or exceeds a limit.
    pub fn read_event(&mut self, data: &str, on_text: TextCallback<'_>) -> Result<(), ReplyError> {
        let data = data.trim();
        if data == "[DONE]" {
            if let ReplyReaderKind::Chat(reader) = &mut self.kind {
                reader.set_done();
            }
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        self.bytes += data.len();
        if self.bytes > MAX_EVENT_BYTES {
            return Err(ReplyError::Unexpected("the answer is too long".to_owned()));
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|_| ReplyError::Unexpected("an event is not valid JSON".to_owned()))?;
        match &mut self.kind {
            ReplyReaderKind::Chat(reader) => reader.read_event(&event, on_text),
            ReplyReaderKind::Responses(reader) => reader.read_event(&event, on_text),
            ReplyReaderKind::Anthropic(reader) => reader.read_event(&event, on_text),
        }
    }

    /// Returns true if the reply is complete and further events can be ignored.
    pub fn is_done(&self) -> bool {
        match &self.kind {
            ReplyReaderKind::Chat(reader) => reader.is_done(),
            ReplyReaderKind::Responses(reader) => reader.is_done(),
            ReplyReaderKind::Anthropic(reader) => reader.is_done(),
        }
    }

    /// Returns the complete reply after the last event. Fails if the stream ended before the reply was complete.
    pub fn finish(self) -> Result<ModelReply, ReplyError> {
        let mut reply = match self.kind {
            ReplyReaderKind::Chat(reader) => reader.finish(),
            ReplyReaderKind::Responses(reader) => reader.finish(),
            ReplyReaderKind::Anthropic(reader) => reader.finish(),
        }?;
        for (at, call) in reply.calls.iter_mut().enumerate() {
            // Some providers send no id, but each result must name the call it belongs to.
            if call.id.is_empty() {
                call.id = format!("call_{at}");
            }
        }
        Ok(reply)
    }
}

/// Extracts the error message from a provider's JSON, in the formats that providers use.
pub fn error_text(body: &Value) -> Option<String> {
    let error = match body {
        // Gemini wraps the error in a list.
        Value::Array(list) => list.first()?.get("error")?,
        body => body.get("error").unwrap_or(body),
    };
    let message = match error {
        Value::String(text) => Some(text.as_str()),
        error => error.get("message").and_then(Value::as_str),
    };
    message.map(str::to_owned)
}

/// Returns the string at a JSON pointer; empty if there is no string.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the number at a JSON pointer.
fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

/// Checks that another call does not exceed [`MAX_CALLS`].
fn check_call_limit(reply: &ModelReply) -> Result<(), ReplyError> {
    if reply.calls.len() < MAX_CALLS {
        Ok(())
    } else {
        Err(ReplyError::Unexpected(
            "the answer has too many tool calls".to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests;
