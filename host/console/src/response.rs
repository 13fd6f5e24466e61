//! Responses: security headers, JSON and errors.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::plain_text::make_visible;
use crate::request::ConsoleRequest;

/// Headers of every response. The page loads its own files only, runs no inline code, and cannot be framed.
const SECURITY_HEADERS: [(HeaderName, &str); 9] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        "require-corp",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()",
    ),
];

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleRequestError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// URL, relative to the base, at which the person logs in.
    pub(crate) login: Option<&'static str>,
}

impl ConsoleRequestError {
    pub(crate) fn new(status: StatusCode, code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.as_str(),
            message: message.into(),
            login: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            ToolErrorCode::InvalidInput,
            message,
        )
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            ToolErrorCode::PermissionDenied,
            message,
        )
    }

    pub(crate) fn not_found() -> Self {
        let message = "the console does not have this address";
        Self::new(StatusCode::NOT_FOUND, ToolErrorCode::NotFound, message)
    }

    pub(crate) fn too_many(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            ToolErrorCode::LimitExceeded,
            message,
        )
    }

    pub(crate) fn login_required(message: impl Into<String>, login: Option<&'static str>) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: "LOGIN_REQUIRED",
            message: message.into(),
            login,
        }
    }

    /// Returns the refusal of a request that has waited for too long.
    pub(crate) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ToolErrorCode::Unavailable,
            "the console is busy with other requests; nothing was done: try again later",
        )
    }

    /// Returns the response to an error of the backend.
    pub(crate) fn of_backend(error: &ToolError, is_answer: bool) -> Self {
        let status = match error.code {
            // A question that is gone is the usual outcome of an answer that comes too late.
            ToolErrorCode::NotFound if is_answer => StatusCode::CONFLICT,
            ToolErrorCode::NotFound | ToolErrorCode::FileNotFound => StatusCode::NOT_FOUND,
            ToolErrorCode::Unavailable | ToolErrorCode::AlreadyExists => StatusCode::CONFLICT,
            ToolErrorCode::PermissionDenied
            | ToolErrorCode::PolicyDenied
            | ToolErrorCode::ApprovalDenied => StatusCode::FORBIDDEN,
            ToolErrorCode::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            ToolErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
            ToolErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ToolErrorCode::InvalidInput
            | ToolErrorCode::InvalidPath
            | ToolErrorCode::Cancelled
            | ToolErrorCode::Network
            | ToolErrorCode::ExecutionError => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.code, error.message.clone())
    }

    pub(crate) fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(login) = self.login {
            error["login"] = login.into();
        }
        let mut response = json_response(json!({"error": error}));
        *response.status_mut() = self.status;
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let seconds = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

impl ConsoleRequest {
    /// Returns true for answers to questions.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, ConsoleRequest::AnswerQuestion { .. })
    }
}

/// Returns a JSON response, or one without content if the value is null.
pub(crate) fn json_response(mut value: Value) -> Response {
    if value.is_null() {
        return empty_response(StatusCode::NO_CONTENT);
    }
    make_visible(&mut value);
    content_response("application/json", Bytes::from(value.to_string()))
}

/// Returns a response with this content type.
pub(crate) fn content_response(kind: &'static str, content: impl Into<Body>) -> Response {
    let mut response = Response::new(content.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a response without content.
pub(crate) fn empty_response(status: StatusCode) -> Response {
    let mut response = content_response("text/plain; charset=utf-8", Body::empty());
    *response.status_mut() = status;
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Returns a response that consists of one sentence.
pub(crate) fn text_response(status: StatusCode, text: &str) -> Response {
    let text = format!("{text}\n");
    let mut response = content_response("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// Returns a redirect. `None` if the URL is not valid in a header.
pub(crate) fn redirect_response(url: &str) -> Option<Response> {
    let location = HeaderValue::from_str(url).ok()?;
    let mut response = empty_response(StatusCode::SEE_OTHER);
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

/// Adds a cookie, made of characters that are valid in headers.
pub(crate) fn add_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
