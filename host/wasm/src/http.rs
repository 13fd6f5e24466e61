//! `wasi:http` for guests: each outgoing request goes through [`mimir_net`] after the call's effect gate has allowed
//! it.
//!
//! This module forwards requests and converts their results for the guest. [`Effects`](mimir_core::pipeline::Effects)
//! decides which requests are allowed; nothing here extends that.

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::Target;
use mimir_core::pipeline::{Approved, Consent, Effects, Egress};
use mimir_net::{Ask, Authorize, Error, Fetched, Permit};
use wasmtime_wasi_http::{Error as Code, RequestOptions, WasiBody, WasiHttpHooks};

mod answer;
mod clients;
mod codes;
mod secrets;
mod upload;

pub(crate) use clients::Clients;
pub(crate) use codes::{TYPES, error_code};

use crate::host::WasmHost;
use clients::{Link, limits};
use secrets::Secrets;
use upload::Upload;

/// Redirects followed for guests that do not follow them themselves, as the built-in `web_fetch` does.
const REDIRECTS: usize = 5;

/// Maximum compression ratio of a body. Text compresses to a tenth at best, hostile data to a thousandth.
const RATIO: u64 = 100;

/// The network access of one call.
pub(crate) struct Network(Option<Way>);

#[derive(Clone)]
struct Way {
    effects: Effects,
    clients: Arc<Clients>,
    host: Arc<WasmHost>,
    tool: Arc<str>,
    limits: mimir_net::Limits,
    failure: Failure,
}

/// The result of the last request, with the host's message: the guest gets a code.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Last>>);

#[derive(Default)]
enum Last {
    /// No request was sent.
    #[default]
    None,
    /// It has a response.
    Answered,
    Failed(ToolError),
}

impl Failure {
    /// Clears the failure after a successful request: an earlier failure is not the cause of a later error.
    fn forget(&self) {
        *self.0.lock() = Last::Answered;
    }

    /// Stores the cause and converts it for the guest.
    fn note(&self, error: Error, time: Duration) -> Code {
        let code = codes::of(&error);
        let cause = told(error, time);
        *self.0.lock() = Last::Failed(cause);
        code
    }
}

/// Returns the failure for the user, for a request with this time limit from the settings.
fn told(error: Error, time: Duration) -> ToolError {
    let setting = setting(&error, time);
    let mut cause = ToolError::from(error);
    if let Some(setting) = setting {
        cause.message = format!("{} ({setting})", cause.message);
    }
    cause
}

/// Returns the setting that defines a limit, as named in messages.
fn setting(error: &Error, time: Duration) -> Option<&'static str> {
    match error {
        // A shorter time was set by the tool itself, or by its caller.
        Error::Timeout { after, .. } if *after == time => Some("limits.httpTimeMs"),
        Error::TooLarge { what, .. } if what.ends_with("body") => Some("limits.httpBodyBytes"),
        _ => None,
    }
}

impl Network {
    /// Returns a network that refuses every request.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns the network access of this call.
    pub(crate) fn of(clients: Arc<Clients>, host: Arc<WasmHost>, call: &Approved) -> Self {
        Self(Some(Way {
            effects: call.effects(),
            clients,
            host,
            tool: call.tool().name().as_str().into(),
            limits: limits(call.limits()),
            failure: Failure::default(),
        }))
    }

    /// Returns the placeholders that the guest gets for its secrets, by name.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let effects = self.0.iter().map(|way| &way.effects);
        effects.flat_map(Effects::placeholders)
    }

    /// Performs a whole exchange, for a guest that does not use `wasi:http`.
    pub(crate) async fn fetch(&self, request: http::Request<Bytes>) -> Result<Fetched, ToolError> {
        let Some(way) = &self.0 else {
            let message = "the tool was not granted the network";
            return Err(ToolError::new(mimir_core::Code::PermissionDenied, message));
        };
        let fetched = way.fetch(request).await;
        fetched.map_err(|error| told(error, way.limits.whole))
    }

    /// Returns the failure of the call's last request, if it failed.
    pub(crate) fn failure(&self) -> Option<ToolError> {
        let failure = &self.0.as_ref()?.failure;
        match &*failure.0.lock() {
            Last::Failed(cause) => Some(cause.clone()),
            Last::None | Last::Answered => None,
        }
    }

    /// Returns true if the call has received a response that may take longer than the tool is willing to wait: then
    /// the tool may report a timeout of its own.
    pub(crate) fn answered(&self) -> bool {
        self.0.as_ref().is_some_and(|way| {
            let last = way.failure.0.lock();
            matches!(*last, Last::Answered)
        })
    }
}

type Io = Box<dyn Future<Output = Result<(), Code>> + Send>;
type Sent = (http::Response<WasiBody>, Io);

impl WasiHttpHooks for Network {
    /// The client sets it from the real target of the request.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Io,
    ) -> Box<dyn Future<Output = Result<Sent, Code>> + Send> {
        let Some(way) = self.0.clone() else {
            return Box::new(std::future::ready(Err(Code::HttpRequestDenied)));
        };
        Box::new(async move {
            let (failure, time) = (way.failure.clone(), way.limits.whole);
            let answer = way.send(request, options).await;
            let answer = answer.map_err(|error| failure.note(error, time))?;
            failure.forget();
            let done: Io = Box::new(std::future::ready(Ok(())));
            Ok((answer, done))
        })
    }
}

impl Way {
    async fn send(
        self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<http::Response<WasiBody>, Error> {
        let (client, link) = self.client(request.uri(), request.headers());
        let client = client.within(clients::within(self.limits, options));
        let method = request.method().clone();
        let to = (method.clone(), request.uri().to_string());
        let request = request.map(|body| Upload::new(body, &self.effects, &link, to));
        let answer = client.send(request).await?;
        let limits = mimir_net::Limits {
            ratio: RATIO,
            ..client.limits()
        };
        answer::of(&self, limits, link, &method, answer).await
    }

    /// Returns a client that calls the effect gate of the call for each request.
    fn client(&self, uri: &http::Uri, headers: &http::HeaderMap) -> (mimir_net::Client, Link) {
        let reach = self.effects.reach();
        let target = Target::parse(&uri.to_string());
        let link = match target.is_ok_and(|target| reach.policy.serves(&target)) {
            true => clients::to_session(&self.effects, &reach, &self.host),
            false => self.clients.link(&self.tool, &reach, &self.host),
        };
        let secrets = Secrets::held(&self.effects, headers).map(Arc::new);
        let gate = Gate {
            effects: self.effects.clone(),
            link: link.clone(),
            secrets: secrets.clone(),
        };
        let mut client = link.client.clone().authorized_by(Arc::new(gate));
        if let Some(secrets) = secrets {
            client = client.with_secrets(secrets);
        }
        (client, link)
    }

    /// Performs a whole exchange, with its redirects, each checked like the first request.
    async fn fetch(&self, request: http::Request<Bytes>) -> Result<Fetched, Error> {
        let (method, url) = (request.method().clone(), request.uri().to_string());
        let mut secrets = self.effects.upload();
        while let Some(rule) = secrets.look(request.body()).map_err(Error::Denied)? {
            let consent = upload::consent(&self.effects, &method, &url, &rule).await;
            consent.map_err(Error::Denied)?;
            secrets.let_through(&rule);
        }
        let (client, _) = self.client(request.uri(), request.headers());
        let client = client.within(mimir_net::Limits {
            redirects: REDIRECTS,
            ratio: RATIO,
            ..self.limits
        });
        let mut fetched = client.fetch(request).await?;
        if let Some(known) = self.effects.answers() {
            answer::mask_fetched(known, &mut fetched);
        }
        Ok(fetched)
    }
}

/// Passes each request to the effect gate of the call.
struct Gate {
    effects: Effects,
    link: Link,
    secrets: Option<Arc<Secrets>>,
}

impl Authorize for Gate {
    fn renew(&self) {
        self.link.renew(&self.effects);
    }

    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        Box::pin(async move {
            let pairs = ask.headers.iter();
            let headers: Vec<_> = pairs
                .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
                .collect();
            let egress = Egress {
                target: ask.target,
                method: ask.method.as_str(),
                headers: &headers,
                body: ask.body,
            };
            let consent = self.effects.request(egress).await?;
            if let Some(secrets) = &self.secrets {
                secrets.reveal(&self.effects, ask.target)?;
            }
            // An approval may have taken an hour.
            self.link.renew(&self.effects);
            Ok(match consent {
                Consent::Listed => Permit::Listed,
                Consent::Unlisted => Permit::Unlisted,
            })
        })
    }

    /// Has the effect gate of the call explain the refusal, and records it.
    fn refused<'a>(
        &'a self,
        target: &'a Target,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        let egress = Egress {
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
