//! Requests to the embeddings endpoint.

use std::time::Instant;

use mimir_core::backend::BoxFuture;
use mimir_core::{Approved, ToolError, ToolErrorCode, text};
use serde::Deserialize;

/// The variable with the settings of the endpoint.
const VARIABLE: &str = mimir_core::config::EMBEDDINGS_VARIABLE;

/// A request to the embeddings endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingRequest {
    /// The URL to post to.
    pub url: String,
    /// The name of the secret with the API key, which the transport sends as a bearer token.
    pub key: Option<String>,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

/// A response of any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingResponse {
    /// The status code.
    pub status: u16,
    /// The decompressed body.
    pub body: Vec<u8>,
}

/// Sends requests within the hosts and secrets that a call was granted.
pub trait EmbeddingTransport: Send + Sync {
    /// Posts a request on behalf of a call. Fails if it is refused, or if no response is received.
    fn post<'a>(
        &'a self,
        call: &'a Approved,
        request: EmbeddingRequest,
    ) -> BoxFuture<'a, Result<EmbeddingResponse, ToolError>>;
}

/// The settings of the endpoint, as the policy passes them to a call.
#[derive(Debug, Deserialize)]
pub(crate) struct EmbeddingsClient {
    url: String,
    model: String,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    dimensions: Option<u32>,
}

impl EmbeddingsClient {
    /// Returns the endpoint of a call.
    ///
    /// # Errors
    ///
    /// Returns an error if none is configured.
    pub(crate) fn of_call(call: &Approved) -> Result<Self, ToolError> {
        let mut variables = call.variables().iter();
        let settings = variables.find(|(name, _)| name == VARIABLE);
        let endpoint = settings.and_then(|(_, settings)| serde_json::from_str(settings).ok());
        endpoint.ok_or_else(|| {
            ToolError::invalid_input("the mode `meaning` needs an embeddings endpoint")
                .with_remedies(["set `embeddings`, as `mimir help memory` shows".to_owned()])
        })
    }

    /// Returns a text that changes with everything but the passage that a vector depends on.
    pub(crate) fn identity(&self) -> String {
        serde_json::json!([self.url, self.model, self.dimensions]).to_string()
    }

    /// Returns a vector for each text. Fails without a response by `until`.
    pub(super) async fn embed(
        &self,
        transport: &dyn EmbeddingTransport,
        call: &Approved,
        texts: &[&str],
        until: Instant,
    ) -> Result<Vec<Vec<f32>>, ToolError> {
        let body = mimir_embeddings::request_body(&self.model, self.dimensions, texts);
        let request = EmbeddingRequest {
            url: mimir_embeddings::endpoint_url(&self.url),
            key: self.key.clone(),
            body: body.to_string().into_bytes(),
        };
        let response = tokio::time::timeout_at(until.into(), transport.post(call, request));
        let response = response.await.unwrap_or_else(|_| {
            let message = "it did not respond in time";
            Err(ToolError::new(ToolErrorCode::Timeout, message))
        })?;
        if !(200..300).contains(&response.status) {
            let message = String::from_utf8_lossy(&response.body);
            return Err(network_error(&format!(
                "it answered {}: {}",
                response.status,
                text::visible(text::prefix(message.trim(), 300))
            )));
        }
        mimir_embeddings::parse_response(&response.body, texts.len())
            .map_err(|error| network_error(&error.to_string()))
    }
}

fn network_error(message: &str) -> ToolError {
    ToolError::new(ToolErrorCode::Network, message)
}
