//! The state of a process that serves no clients, over HTTP: `/healthz`, `/readyz` and `/metrics`, for load balancers,
//! supervisors and Prometheus. It needs no token, since it reveals conditions and numbers only.

use std::net::IpAddr;

use ::http::{HeaderMap, Method, Request, StatusCode, header};

use super::readiness::{Readiness, ReadinessCheck};
use super::{BoxedResponse, text_response};
use crate::metrics::{MetricSource, render_families};

/// Answers requests about the state of a process.
pub struct StatusEndpoint {
    readiness: Readiness,
    metrics: MetricSource,
}

impl StatusEndpoint {
    /// Creates the endpoint. `/readyz` reports the conditions, and `/metrics` the metrics.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use mimir_mcp::{ReadinessCheck, StatusEndpoint};
    /// let checks = vec![ReadinessCheck::new("queue", || Err("the queue is full"))];
    /// let endpoint = StatusEndpoint::new(checks, Arc::new(Vec::new));
    /// let request = http::Request::get("/readyz").body(()).unwrap();
    /// assert_eq!(endpoint.respond(&request).status(), 503);
    /// ```
    pub fn new(checks: Vec<ReadinessCheck>, metrics: MetricSource) -> Self {
        Self {
            readiness: Readiness::new(checks),
            metrics,
        }
    }

    /// Makes `/readyz` report that the process is about to end.
    pub fn begin_drain(&self) {
        self.readiness.begin_drain();
    }

    /// Returns the response to a request.
    pub fn respond<B>(&self, request: &Request<B>) -> BoxedResponse {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text_response(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
        }
        match request.uri().path() {
            "/healthz" => text_response(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness.response(),
            "/metrics" if !is_local_host(request.headers()) => text_response(
                StatusCode::FORBIDDEN,
                "the host name is not accepted: use the IP address, or a name without dots\n",
            ),
            "/metrics" => text_response(StatusCode::OK, &render_families(&(self.metrics)())),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "not found: expected /healthz, /readyz or /metrics\n",
            ),
        }
    }
}

/// Returns true if the request names an IP address or a name without dots. A web page of a foreign site whose name was made
/// to point here names that site.
fn is_local_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        return true;
    };
    let Some(host) = host.to_str().ok() else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<IpAddr>().is_ok() || !name.contains('.')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::{MetricFamily, MetricKind};

    fn endpoint(is_ready: bool) -> StatusEndpoint {
        let check = ReadinessCheck::new("state", move || is_ready.then_some(()).ok_or("lost"));
        let metrics = || {
            vec![MetricFamily::one(
                "mimir_x",
                MetricKind::Gauge,
                1.0,
                "An x.",
            )]
        };
        StatusEndpoint::new(vec![check], Arc::new(metrics))
    }

    fn status(endpoint: &StatusEndpoint, method: &str, path: &str, host: &str) -> u16 {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::HOST, host).body(()).unwrap();
        endpoint.respond(&request).status().as_u16()
    }

    #[test]
    fn status_endpoint_reports_health_and_readiness_apart() {
        let endpoint = endpoint(true);
        assert_eq!(status(&endpoint, "GET", "/readyz", "10.0.0.1:80"), 200);
        endpoint.begin_drain();
        assert_eq!(status(&endpoint, "GET", "/readyz", "10.0.0.1:80"), 503);
        assert_eq!(status(&endpoint, "GET", "/healthz", "10.0.0.1:80"), 200);
        assert_eq!(status(&self::endpoint(false), "GET", "/readyz", "x"), 503);
        assert_eq!(status(&endpoint, "GET", "/mcp", "x"), 404);
        assert_eq!(status(&endpoint, "POST", "/readyz", "x"), 405);
    }

    #[test]
    fn status_endpoint_refuses_metrics_under_names_of_sites() {
        let endpoint = endpoint(true);
        for host in ["127.0.0.1:8810", "[::1]:8810", "localhost", "worker:8810"] {
            assert_eq!(status(&endpoint, "GET", "/metrics", host), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8810",
            "127.0.0.1.evil.example",
        ] {
            assert_eq!(status(&endpoint, "GET", "/metrics", host), 403, "{host}");
        }
    }
}
