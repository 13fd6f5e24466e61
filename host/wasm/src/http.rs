//! `wasi:http` for guests: each outgoing request goes through [`mimir_net`] after the call's effect gate has allowed
//! it.
//!
//! This module forwards requests and converts their results for the guest. [`EffectGate`] alone decides which requests
//! are allowed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use mimir_core::pipeline::{Approved, EffectGate, EgressPermission, OutgoingRequest};
use mimir_net::headers::trace_headers;
use mimir_net::{
    Error, FetchedResponse, OutboundRequest, OversizedPart, RequestAuthorizer, RequestPermit,
};
use parking_lot::Mutex;
use wasmtime_wasi_http::{Error as Code, RequestOptions, WasiBody, WasiHttpHooks};

mod clients;
mod error_codes;
mod response;
mod secret_headers;
mod upload;

pub(crate) use clients::HttpClients;
pub(crate) use error_codes::{TYPES, error_code};

use crate::host::WasmHost;
use clients::{ClientLink, request_limits};
use secret_headers::SecretHeaders;
use upload::GuestUploadBody;

/// Maximum number of redirects followed for guests that do not follow redirects themselves.
const MAX_REDIRECTS: usize = 5;

/// Maximum compression ratio of a body. Text usually compresses to a tenth at best, a decompression bomb to a
/// thousandth.
const MAX_COMPRESSION_RATIO: u64 = 100;

/// The network access of one call.
pub(crate) struct GuestNetwork(Option<NetworkTransport>);

#[derive(Clone)]
struct NetworkTransport {
    effects: EffectGate,
    clients: Arc<HttpClients>,
    host: Arc<WasmHost>,
    tool: Arc<str>,
    limits: mimir_net::RequestLimits,
    failure: RequestFailure,
}

/// The result of the last request. It holds the host's message, because the guest gets only a code.
#[derive(Clone, Default)]
struct RequestFailure(Arc<Mutex<LastRequest>>);

#[derive(Default)]
enum LastRequest {
    /// No request was sent.
    #[default]
    None,
    /// The request got a response.
    Answered,
    Failed(ToolError),
}

impl RequestFailure {
    /// Clears the failure after a successful request, so that it is not taken for the cause of a later error.
    fn clear(&self) {
        *self.0.lock() = LastRequest::Answered;
    }

    /// Stores the error and returns the code for the guest. `time` is the configured time limit.
    fn record(&self, error: Error, time: Duration) -> Code {
        let code = error_codes::wasi_code(&error);
        let cause = request_error(error, time);
        *self.0.lock() = LastRequest::Failed(cause);
        code
    }
}

/// Converts a request error for the user, and names the config key if a configured limit was exceeded. `time` is the
/// configured time limit.
fn request_error(error: Error, time: Duration) -> ToolError {
    let setting = setting(&error, time);
    let mut cause = ToolError::from(error);
    if let Some(setting) = setting {
        cause.message = format!("{} ({setting})", cause.message);
    }
    cause
}

/// Returns the config key of the exceeded limit, if the error is due to a configured limit.
fn setting(error: &Error, time: Duration) -> Option<&'static str> {
    match error {
        // With any other time, the tool itself or its caller has set the limit.
        Error::Timeout { after, .. } if *after == time => Some("limits.httpTimeMs"),
        Error::TooLarge {
            part: OversizedPart::RequestBody | OversizedPart::ResponseBody,
            ..
        } => Some("limits.httpBodyBytes"),
        _ => None,
    }
}

impl GuestNetwork {
    /// Returns a network that refuses every request.
    pub(crate) fn disabled() -> Self {
        Self(None)
    }

    /// Returns the network access of this call.
    pub(crate) fn for_call(
        clients: Arc<HttpClients>,
        host: Arc<WasmHost>,
        call: &Approved,
    ) -> Self {
        Self(Some(NetworkTransport {
            effects: call.effects(),
            clients,
            host,
            tool: call.tool().name().as_str().into(),
            limits: request_limits(call.limits()),
            failure: RequestFailure::default(),
        }))
    }

    /// Returns the placeholders that the guest gets for its secrets, by name.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let effects = self.0.iter().map(|transport| &transport.effects);
        effects.flat_map(EffectGate::placeholders)
    }

    /// Returns the headers in which secrets are sent to a URL, each with its placeholder.
    pub(crate) fn declared_headers(&self, url: &str) -> Vec<(String, String)> {
        match (&self.0, RequestTarget::parse(url)) {
            (Some(transport), Ok(target)) => transport.effects.declared_headers(&target),
            _ => Vec::new(),
        }
    }

    /// Performs a request including its redirects, for a guest that does not use `wasi:http`.
    pub(crate) async fn fetch(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<FetchedResponse, ToolError> {
        let Some(transport) = &self.0 else {
            let message = "the tool was not granted the network";
            return Err(ToolError::new(
                mimir_core::ToolErrorCode::PermissionDenied,
                message,
            ));
        };
        let fetched = transport.fetch(request).await;
        fetched.map_err(|error| request_error(error, transport.limits.whole))
    }

    /// Returns the failure of the call's last request, if it failed.
    pub(crate) fn failure(&self) -> Option<ToolError> {
        let failure = &self.0.as_ref()?.failure;
        match &*failure.0.lock() {
            LastRequest::Failed(cause) => Some(cause.clone()),
            LastRequest::None | LastRequest::Answered => None,
        }
    }

    /// Returns true if the last request got a response. Only then is a timeout reported by the tool credible: it may
    /// have waited for the rest of the response.
    pub(crate) fn was_answered(&self) -> bool {
        self.0.as_ref().is_some_and(|transport| {
            let last = transport.failure.0.lock();
            matches!(*last, LastRequest::Answered)
        })
    }
}

type ConnectionDriver = Box<dyn Future<Output = Result<(), Code>> + Send>;
type SentRequest = (http::Response<WasiBody>, ConnectionDriver);

impl WasiHttpHooks for GuestNetwork {
    /// Returns false: the client sets the header from the real target of the request.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: ConnectionDriver,
    ) -> Box<dyn Future<Output = Result<SentRequest, Code>> + Send> {
        let Some(transport) = self.0.clone() else {
            return Box::new(std::future::ready(Err(Code::HttpRequestDenied)));
        };
        Box::new(async move {
            let (failure, time) = (transport.failure.clone(), transport.limits.whole);
            let response = transport.send(request, options).await;
            let response = response.map_err(|error| failure.record(error, time))?;
            failure.clear();
            let done: ConnectionDriver = Box::new(std::future::ready(Ok(())));
            Ok((response, done))
        })
    }
}

impl NetworkTransport {
    async fn send(
        self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<http::Response<WasiBody>, Error> {
        let (client, link) = self.client(request.uri(), request.headers());
        let client = client.with_limits(clients::tighten_limits(self.limits, options));
        let method = request.method().clone();
        let target = (method.clone(), request.uri().to_string());
        let request = request.map(|body| GuestUploadBody::new(body, &self.effects, &link, target));
        let response = client.send(request).await?;
        let limits = mimir_net::RequestLimits {
            ratio: MAX_COMPRESSION_RATIO,
            ..client.limits()
        };
        response::guest_response(&self, limits, link, &method, response).await
    }

    /// Returns a client that passes each request to the effect gate of the call.
    fn client(
        &self,
        uri: &http::Uri,
        headers: &http::HeaderMap,
    ) -> (mimir_net::HttpClient, ClientLink) {
        let reach = self.effects.reach();
        let target = RequestTarget::parse(&uri.to_string());
        let link = if target.is_ok_and(|target| reach.policy.serves(&target)) {
            clients::session_client(&self.effects, &reach, &self.host)
        } else {
            self.clients.client_for(&self.tool, &reach, &self.host)
        };
        let secrets = SecretHeaders::find(&self.effects, headers).map(Arc::new);
        let gate = GuestEffectGate {
            effects: self.effects.clone(),
            link: link.clone(),
            secrets: secrets.clone(),
        };
        let mut client = link.client.clone().with_authorizer(Arc::new(gate));
        if let Some(secrets) = secrets {
            client = client.with_secrets(secrets);
        }
        (client, link)
    }

    /// Performs a request and its redirects, each of which is checked like the first request.
    async fn fetch(&self, request: http::Request<Bytes>) -> Result<FetchedResponse, Error> {
        let (method, url) = (request.method().clone(), request.uri().to_string());
        let mut secrets = self.effects.upload_scanner();
        let mut matched = secrets.scan_chunk(request.body()).map_err(Error::Denied)?;
        while let Some(rule) = matched {
            let approved = upload::approve_upload(&self.effects, &method, &url, &rule).await;
            approved.map_err(Error::Denied)?;
            matched = secrets.allow_rule(&rule);
        }
        let (client, _) = self.client(request.uri(), request.headers());
        let client = client.with_limits(mimir_net::RequestLimits {
            redirects: MAX_REDIRECTS,
            ratio: MAX_COMPRESSION_RATIO,
            ..self.limits
        });
        let mut fetched = client.fetch(request).await?;
        if let Some(redactor) = self.effects.response_redactor() {
            response::mask_fetched(redactor, &mut fetched);
        }
        Ok(fetched)
    }
}

/// Passes each request to the effect gate of the call.
struct GuestEffectGate {
    effects: EffectGate,
    link: ClientLink,
    secrets: Option<Arc<SecretHeaders>>,
}

impl RequestAuthorizer for GuestEffectGate {
    fn reload_policy(&self) {
        self.link.update_access(&self.effects);
    }

    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        Box::pin(async move {
            let pairs = request.headers.iter();
            let headers: Vec<_> = pairs
                .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
                .collect();
            let egress = OutgoingRequest {
                target: request.target,
                method: request.method.as_str(),
                headers: &headers,
                body: request.body,
            };
            let permission = self.effects.request(egress).await?;
            if let Some(secrets) = &self.secrets {
                secrets.reveal(&self.effects, request.target)?;
            }
            // Permissions may have changed while the request waited for approval.
            self.link.update_access(&self.effects);
            Ok(match permission {
                EgressPermission::Listed => RequestPermit::Listed,
                EgressPermission::Unlisted => RequestPermit::Unlisted,
            })
        })
    }

    /// Returns the trace context of the call, for hosts that the settings name.
    fn hop_headers(&self, target: &RequestTarget) -> Vec<(HeaderName, HeaderValue)> {
        let context = self.effects.trace_context_for(target);
        context.map_or_else(Vec::new, |context| trace_headers(&context))
    }

    /// Replaces the error of a blocked request with the effect gate's explanation, and records other refusals.
    fn explain_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        let egress = OutgoingRequest {
            target,
            method: method.as_str(),
            headers: &[],
            body: false,
        };
        Box::pin(async move {
            match error {
                Error::Blocked(_) => match self.effects.request(egress).await {
                    Err(why) => Error::Denied(why),
                    Ok(_) => error,
                },
                error => {
                    self.effects.refused(egress, error.code());
                    error
                }
            }
        })
    }
}
