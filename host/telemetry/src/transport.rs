//! The port that sends requests.

use std::time::Duration;

use mimir_core::{BoxFuture, ToolError};

/// A POST request with a JSON body.
#[derive(Debug, Clone)]
pub struct TelemetryRequest {
    /// Path below the endpoint, such as `/v1/traces`. Empty for the endpoint itself.
    pub path: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// The response to a request.
#[derive(Debug, Clone)]
pub struct TelemetryResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The delay in the header `Retry-After`, if the response has one in seconds.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends requests to one endpoint. Implementations add the URL and the headers, and limit the time of a request.
pub trait TelemetryTransport: Send + Sync {
    /// Sends a request. Called on the thread of the exporter.
    fn post(
        &self,
        request: TelemetryRequest,
    ) -> BoxFuture<'_, Result<TelemetryResponse, ToolError>>;
}
