//! `wasi:http` for guests: each outgoing request goes through [`mimir_net`], after the call's effect gate has said yes.
//!
//! Here a request is carried and its end is told in the guest's terms. What may be sent is said by
//! [`Effects`](mimir_core::pipeline::Effects), and nothing here adds to it.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Redirects that are followed for who does not follow them itself, as the built-in `web_fetch` does.
const REDIRECTS: usize = 5;

/// How many times its size a packed body may unpack to. Text packs to a tenth at best, what is made to harm to a
/// thousandth.
const RATIO: u64 = 100;

/// The way of one call to the network.
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

/// How the last request went, in the host's words: the guest gets a code.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Last>>);

#[derive(Default)]
enum Last {
    /// There was none.
    #[default]
    None,
    /// It has an answer.
    Answered,
    Failed(ToolError),
}

impl Failure {
    /// A request went well: what failed before is no cause of what fails later.
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Last::Answered;
    }

    /// Notes the cause and says it in the guest's terms.
    fn note(&self, error: Error, time: Duration) -> Code {
        let code = codes::of(&error);
        let cause = told(error, time);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Last::Failed(cause);
        code
    }
}

/// The failure as people read it, of a request that the settings give so much time.
fn told(error: Error, time: Duration) -> ToolError {
    let setting = setting(&error, time);
    let mut cause = ToolError::from(error);
    if let Some(setting) = setting {
        cause.message = format!("{} ({setting})", cause.message);
    }
    cause
}

/// The setting behind a bound, as messages name it.
fn setting(error: &Error, time: Duration) -> Option<&'static str> {
    match error {
        // What is shorter is the tool's own, or that of its caller.
        Error::Timeout { after, .. } if *after == time => Some("limits.httpTimeMs"),
        Error::TooLarge { what, .. } if what.ends_with("body") => Some("limits.httpBodyBytes"),
        _ => None,
    }
}

impl Network {
    /// None: every request is refused.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The way that this call has.
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

    /// What the guest gets in place of its secrets, by their names.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let effects = self.0.iter().map(|way| &way.effects);
        effects.flat_map(Effects::placeholders)
    }

    /// A whole exchange, for a guest that does not speak `wasi:http`.
    pub(crate) async fn fetch(&self, request: http::Request<Bytes>) -> Result<Fetched, ToolError> {
        let Some(way) = &self.0 else {
            let message = "the tool was not granted the network";
            return Err(ToolError::new(mimir_core::Code::PermissionDenied, message));
        };
        let fetched = way.fetch(request).await;
        fetched.map_err(|error| told(error, way.limits.whole))
    }

    /// Why the last request of the call failed, if one did.
    pub(crate) fn failure(&self) -> Option<ToolError> {
        let failure = &self.0.as_ref()?.failure;
        match &*failure.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Last::Failed(cause) => Some(cause.clone()),
            Last::None | Last::Answered => None,
        }
    }

    /// Whether the call has an answer of which it may take more time than it wants to give: then that its time has run
    /// out is its own to say.
    pub(crate) fn answered(&self) -> bool {
        self.0.as_ref().is_some_and(|way| {
            let last = way.failure.0.lock().unwrap_or_else(PoisonError::into_inner);
            matches!(*last, Last::Answered)
        })
    }
}

type Io = Box<dyn Future<Output = Result<(), Code>> + Send>;
type Sent = (http::Response<WasiBody>, Io);

impl WasiHttpHooks for Network {
    /// The client sets it, from where the request really goes.
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

    /// A client that asks the gate of the call about each request.
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

    /// A whole exchange, with its redirects, each judged like the first.
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

/// Hands each request to the effect gate of the call.
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
            // A person may have thought for an hour.
            self.link.renew(&self.effects);
            Ok(match consent {
                Consent::Listed => Permit::Listed,
                Consent::Unlisted => Permit::Unlisted,
            })
        })
    }

    /// Has the gate of the call say why, and puts it on record.
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
