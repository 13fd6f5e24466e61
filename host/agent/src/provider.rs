//! Language models reached through a provider's HTTP API.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::config::ChosenModel;
use mimir_core::redact::{REACH, Vault};
use mimir_core::text::{prefix, visible};
use mimir_core::{BoxFuture, ToolError};
use mimir_net::{HostClient, ResponseBody};
use serde_json::Value;
use sse_stream::SseStream;

use crate::error::ModelError;
use crate::model::{Model, ModelReply, ModelRequest};
use crate::protocol::{self, ProviderProtocol, ReplyError, TextCallback};
use crate::retry;
use crate::vision::is_known_to_read_images;

/// The content type of a streamed reply.
const EVENT_STREAM_TYPE: &str = "text/event-stream";

/// Limits of an error message: bytes read of the body, and characters shown.
const MAX_ERROR_SIZE: usize = 64 << 10;
const MAX_ERROR_CHARS: usize = 500;

/// A language model reached through a provider's HTTP API.
pub struct ModelProvider {
    name: String,
    chosen: ChosenModel,
    protocol: ProviderProtocol,
    client: HostClient,
    vault: Arc<dyn Vault>,
    audit: Arc<dyn AuditSink>,
}

impl ModelProvider {
    /// Creates a client for the chosen model. `client` should only be able to reach the model's provider. `vault` holds
    /// the API key. Each request is recorded in the audit log before it is sent.
    pub fn new(
        chosen: ChosenModel,
        client: HostClient,
        vault: Arc<dyn Vault>,
        audit: Arc<dyn AuditSink>,
    ) -> Self {
        Self {
            name: format!("{}/{}", chosen.provider, chosen.model),
            protocol: ProviderProtocol::new(chosen.api, &chosen.url),
            chosen,
            client,
            vault,
            audit,
        }
    }

    /// Checks that the API key is available, without a request.
    pub fn check(&self) -> Result<(), ModelError> {
        self.key().map(drop)
    }

    /// Returns the API key; `None` for a provider that needs no key.
    fn key(&self) -> Result<Option<String>, ModelError> {
        let Some(name) = &self.chosen.key else {
            return Ok(None);
        };
        let value = self.vault.secret(name);
        let value = value.map_err(|error| ModelError::Key(ToolError::unavailable(error)))?;
        match value {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!(
                    "no key for {}: the secret `{name}` is not set",
                    self.chosen.provider
                );
                let remedies = [
                    format!("store it with `mimir secrets set {name}`"),
                    format!(
                        "`secrets: {{{name}: {{env: {name}}}}}` in your settings reads it from that environment variable"
                    ),
                ];
                Err(ModelError::Key(
                    ToolError::unavailable(message).with_remedies(remedies),
                ))
            }
        }
    }

    /// Returns the URL to which requests are sent.
    fn endpoint(&self) -> String {
        format!("{}{}", self.chosen.url, self.protocol.path())
    }

    fn build_http_request(
        &self,
        request: &ModelRequest<'_>,
    ) -> Result<Request<Full<Bytes>>, ModelError> {
        let body = self.protocol.build_request(&self.chosen.model, request);
        let mut http_request = Request::new(Full::new(Bytes::from(body.to_string())));
        *http_request.method_mut() = Method::POST;
        *http_request.uri_mut() = mimir_net::uri(&self.endpoint()).map_err(ModelError::Net)?;
        let headers = http_request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM_TYPE));
        let key = self.key()?;
        for (name, value) in self.protocol.headers(key.as_deref()) {
            let mut value = HeaderValue::from_str(&value).map_err(|_| self.invalid_key_error())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(http_request)
    }

    /// Returns the error about an API key that cannot be sent in a header. It does not include the key.
    fn invalid_key_error(&self) -> ModelError {
        let provider = &self.chosen.provider;
        let message = format!(
            "the API key of {provider} contains characters that an HTTP header does not allow"
        );
        let name = self.chosen.key.as_deref().unwrap_or("NAME");
        let remedy = format!("store it again with `mimir secrets set {name}`");
        ModelError::Key(ToolError::unavailable(message).with_remedies([remedy]))
    }

    fn protocol_error(&self, why: String) -> ModelError {
        ModelError::Protocol {
            provider: self.chosen.provider.clone(),
            why,
        }
    }

    /// Returns a provider's message on one line with secrets masked, cut to [`MAX_ERROR_CHARS`]. Secrets are masked
    /// before the text is cut, because the first half of a secret would not be recognized.
    fn mask_text(&self, text: &str) -> String {
        let mut text = prefix(text, MAX_ERROR_CHARS + REACH).to_owned();
        match self.vault.redactor() {
            Ok(redactor) => {
                redactor.mask_text(&mut text);
                prefix(&visible(&text), MAX_ERROR_CHARS).to_owned()
            }
            Err(_) => "(message hidden, because the secrets to mask could not be read)".to_owned(),
        }
    }

    /// Records the request in the audit log. The request is not sent if this fails.
    fn record_request(&self, session: &str) -> Result<(), ModelError> {
        let mut event = AuditEvent::new(EventKind::Effect, SystemTime::now()).with_subject(
            &format!("POST {} for the model {}", self.endpoint(), self.name),
        );
        event.session = session.to_owned();
        let recorded = self.audit.record(&event);
        recorded.map_err(|error| ModelError::Unrecorded(error.to_string()))
    }

    async fn send(
        &self,
        request: ModelRequest<'_>,
        on_text: TextCallback<'_>,
    ) -> Result<ModelReply, ModelError> {
        let http_request = self.build_http_request(&request)?;
        self.record_request(request.session)?;
        let response = self
            .client
            .send(http_request)
            .await
            .map_err(ModelError::Net)?;
        if !response.status().is_success() {
            return Err(self.status_error(response).await);
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !content_type
            .trim_start()
            .to_ascii_lowercase()
            .starts_with(EVENT_STREAM_TYPE)
        {
            let content_type = visible(prefix(content_type, 80));
            return Err(self.protocol_error(format!(
                "the content type is `{content_type}` instead of `{EVENT_STREAM_TYPE}`"
            )));
        }
        let mut events = SseStream::new(response.into_body());
        let mut reader = self.protocol.new_reader();
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| self.stream_error(&error))?;
            let data = event.data.unwrap_or_default();
            reader
                .read_event(&data, on_text)
                .map_err(|fault| self.reply_error(fault))?;
            if reader.is_done() {
                break;
            }
        }
        reader.finish().map_err(|fault| self.reply_error(fault))
    }

    /// Reads a response with an error status into a [`ModelError::Status`].
    async fn status_error(&self, response: Response<ResponseBody>) -> ModelError {
        let status = response.status().as_u16();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let after = retry::retry_after(response.headers(), now);
        let body = Limited::new(response.into_body(), MAX_ERROR_SIZE)
            .collect()
            .await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let body_text = serde_json::from_slice::<Value>(&body).ok();
        let body_text = body_text.as_ref().and_then(protocol::error_text);
        let body_text = body_text.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
        let message = match self.mask_text(body_text.trim()) {
            text if text.is_empty() => "(no message)".to_owned(),
            text => text,
        };
        ModelError::Status {
            provider: self.chosen.provider.clone(),
            status,
            message,
            after,
        }
    }

    /// Converts a failure of the event stream: a local limit was reached, or the connection failed.
    fn stream_error(&self, error: &sse_stream::Error) -> ModelError {
        let provider = self.chosen.provider.clone();
        let sse_stream::Error::Body(inner) = error else {
            return self.protocol_error("the event stream is not valid".to_owned());
        };
        match inner.downcast_ref::<mimir_net::Error>() {
            Some(error @ (mimir_net::Error::Blocked(_) | mimir_net::Error::TooLarge { .. })) => {
                ModelError::Net(error.clone())
            }
            Some(error) => ModelError::Cut {
                provider,
                why: self.mask_text(&error.to_string()),
            },
            None => ModelError::Cut {
                provider,
                why: String::new(),
            },
        }
    }

    fn reply_error(&self, fault: ReplyError) -> ModelError {
        let provider = self.chosen.provider.clone();
        match fault {
            ReplyError::Reported { message, transient } => ModelError::Failed {
                provider,
                message: self.mask_text(&message),
                transient,
            },
            ReplyError::Truncated => ModelError::Cut {
                provider,
                why: String::new(),
            },
            ReplyError::Unexpected(why) => self.protocol_error(why),
        }
    }
}

impl Model for ModelProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn reads_images(&self) -> bool {
        let known = || is_known_to_read_images(&self.chosen.model);
        self.chosen.vision.unwrap_or_else(known)
    }

    fn writes_cache(&self) -> bool {
        self.protocol.writes_cache()
    }

    fn answer<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_text: TextCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.send(request, on_text))
    }
}
