//! Requests of `search_code` to the embeddings endpoint. They take the same checks as requests of components.

use std::sync::Arc;

use mimir_code_search::{EmbeddingRequest, EmbeddingResponse, EmbeddingTransport};
use mimir_core::backend::BoxFuture;
use mimir_core::{Approved, ToolError};
use mimir_wasm::script::ScriptState;
use mimir_wasm::{ApiRequest, WasmHost};

/// Sends requests by the network of components.
pub(crate) struct GuardedEmbeddings {
    host: Arc<WasmHost>,
    state: ScriptState,
}

impl GuardedEmbeddings {
    /// Creates the transport, without I/O.
    pub(crate) fn new(host: Arc<WasmHost>) -> Arc<Self> {
        let state = ScriptState::default();
        Arc::new(Self { host, state })
    }
}

impl EmbeddingTransport for GuardedEmbeddings {
    fn post<'a>(
        &'a self,
        call: &'a Approved,
        request: EmbeddingRequest,
    ) -> BoxFuture<'a, Result<EmbeddingResponse, ToolError>> {
        Box::pin(async move {
            let EmbeddingRequest { url, key, body } = request;
            let response = self
                .state
                .send_api_request(&self.host, call, |placeholders| {
                    let mut headers = vec![
                        ("accept".to_owned(), "application/json".to_owned()),
                        ("content-type".to_owned(), "application/json".to_owned()),
                    ];
                    // Without a stored value, the endpoint's answer tells that the key is missing.
                    if let Some(placeholder) = key.and_then(|name| placeholders.get(&name)) {
                        headers.push(("authorization".to_owned(), format!("Bearer {placeholder}")));
                    }
                    Ok(ApiRequest {
                        method: "POST".to_owned(),
                        url,
                        headers,
                        body: body.into(),
                    })
                });
            let response = response.await?;
            Ok(EmbeddingResponse {
                status: response.status,
                body: response.body.to_vec(),
            })
        })
    }
}
