//! Requests to the embeddings endpoint, which turns texts into vectors.

use mimir_sdk::{Error, Result, text};
use url::Url;

use super::settings::Settings;

#[cfg(not(target_os = "wasi"))]
mod stub;
#[cfg(target_os = "wasi")]
mod wasi;

#[cfg(not(target_os = "wasi"))]
pub(crate) use stub::Network;
#[cfg(target_os = "wasi")]
pub(crate) use wasi::Network;

/// A response of any status.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends requests.
pub(crate) trait Transport {
    /// Posts JSON and reads the whole response. Redirects are not followed.
    fn post(&self, url: &Url, headers: &[(&str, String)], body: &[u8]) -> Result<Response>;
}

/// Queries the endpoint and returns a vector for each text.
pub(super) fn embed(
    settings: &Settings,
    transport: &impl Transport,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>> {
    let body = mimir_embeddings::request_body(&settings.model, settings.dimensions, texts);
    let mut headers = vec![
        ("accept", "application/json".to_owned()),
        ("content-type", "application/json".to_owned()),
        (
            "user-agent",
            concat!("mimir/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
    ];
    if let Some(key) = settings.placeholder() {
        headers.push(("authorization", format!("Bearer {key}")));
    }
    let url = settings.endpoint()?;
    let response = transport.post(&url, &headers, body.to_string().as_bytes())?;
    if !(200..300).contains(&response.status) {
        let message = String::from_utf8_lossy(&response.body);
        return Err(Error::network(format_args!(
            "it answered {}: {}",
            response.status,
            text::brief(message.trim())
        )));
    }
    mimir_embeddings::parse_response(&response.body, texts.len()).map_err(Error::network)
}
