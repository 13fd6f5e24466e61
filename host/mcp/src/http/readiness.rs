//! The answer to the question whether this server can take calls, for load balancers. It names conditions and reveals
//! nothing else, since it needs no token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderValue, StatusCode};
use serde_json::json;

use super::{BoxedResponse, text_response};

/// A condition under which a server can take calls.
#[derive(Clone)]
pub struct ReadinessCheck {
    name: &'static str,
    check: Arc<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
}

impl ReadinessCheck {
    /// Creates a condition. `check` returns the reason why it is not met. It is called for each request to `/readyz`, so
    /// it must not block.
    ///
    /// ```
    /// # use mimir_mcp::{HttpOptions, ReadinessCheck};
    /// let connected = || true;
    /// let options = HttpOptions {
    ///     readiness: vec![ReadinessCheck::new("state", move || {
    ///         connected().then_some(()).ok_or("the shared state cannot be reached")
    ///     })],
    ///     ..HttpOptions::default()
    /// };
    /// # drop(options);
    /// ```
    pub fn new(
        name: &'static str,
        check: impl Fn() -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            check: Arc::new(check),
        }
    }

    /// Returns the reason why the condition is not met.
    pub fn reason(&self) -> Option<&'static str> {
        (self.check)().err()
    }
}

/// All conditions, and whether the server is about to end.
pub(super) struct Readiness {
    checks: Vec<ReadinessCheck>,
    draining: AtomicBool,
}

impl Readiness {
    pub(super) fn new(checks: Vec<ReadinessCheck>) -> Self {
        Self {
            checks,
            draining: AtomicBool::new(false),
        }
    }

    /// Makes the server count as not ready from now on.
    pub(super) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns the answer.
    pub(super) fn response(&self) -> BoxedResponse {
        let draining = self.draining.load(Ordering::Relaxed);
        let draining = draining.then_some(("draining", "the process is about to end"));
        let failed = self.checks.iter();
        let failed = failed.filter_map(|check| Some((check.name, (check.check)().err()?)));
        let reasons = draining.into_iter().chain(failed);
        let reasons = reasons.map(|(check, reason)| json!({"check": check, "reason": reason}));
        let reasons: Vec<_> = reasons.collect();
        let (status, text) = if reasons.is_empty() {
            (StatusCode::OK, json!({"ready": true}))
        } else {
            let text = json!({"ready": false, "reasons": reasons});
            (StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let mut response = text_response(status, &format!("{text}\n"));
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
