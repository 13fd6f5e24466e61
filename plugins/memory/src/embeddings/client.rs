//! Requests to the embeddings endpoint, which turns texts into vectors. The API is OpenAI's, which other providers
//! support as well.

use mimir_sdk::serde_json::{self, Value, json};
use mimir_sdk::{Error, Result, text};
use url::Url;

use super::settings::Settings;
use super::vectors::check_vectors;

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
    let mut body = json!({ "model": settings.model, "input": texts, "encoding_format": "float" });
    if let Some(dimensions) = settings.dimensions {
        body["dimensions"] = dimensions.into();
    }
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
    let json: Value = serde_json::from_slice(&response.body)
        .map_err(|_| Error::network("it did not return JSON; check `embeddings.url`"))?;
    check_vectors(parse_vectors(&json).unwrap_or_default(), texts.len())
}

/// Parses the vectors of a response, in the order of the texts.
fn parse_vectors(json: &Value) -> Option<Vec<Vec<f32>>> {
    let data = json.get("data")?.as_array()?;
    let mut indexed: Vec<(u64, Vec<f32>)> = Vec::with_capacity(data.len());
    for (at, item) in (0..).zip(data) {
        let numbers = item.get("embedding")?.as_array()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "embeddings have single precision"
        )]
        let vector: Option<Vec<f32>> = numbers
            .iter()
            .map(|number| Some(number.as_f64()? as f32))
            .collect();
        indexed.push((
            item.get("index").and_then(Value::as_u64).unwrap_or(at),
            vector?,
        ));
    }
    indexed.sort_by_key(|(index, _)| *index);
    Some(indexed.into_iter().map(|(_, vector)| vector).collect())
}
