//! The check of every request of a browser: by the rules of the call that runs, and of nothing else.
//!
//! The browser pauses each request of a page until [`RequestGate::judge`] has allowed it by method and URL. Behind it,
//! the browser reaches other machines only through a proxy, which accepts just the origins that were allowed before, and
//! resolves and checks their addresses. Of plain HTTP, the proxy accepts only the requests that were allowed. In a TLS
//! tunnel, it sees no requests: one that was not paused, such as that of a web socket, reaches no other origin. The
//! features of the browser that would send others are switched off (see `chromium`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::{HostPattern, NetworkPolicy, RequestTarget, UrlScheme};
use mimir_core::pipeline::{EffectGate, EgressPermission, OutgoingRequest};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{
    Error, HttpClient, OutboundRequest, PolicyGuard, Proxy, ProxyRefusalHandler, RequestAuthorizer,
    RequestLimits, RequestPermit, SessionServerDialer, TlsRoots,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};

/// Limits of a connection of a browser. Pages keep connections open for as long as they are shown.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_secs(120),
    between_bytes: Duration::from_secs(3600),
    whole: Duration::from_secs(6 * 3600),
    header_bytes: 256 << 10,
    body_bytes: 2 << 30,
    upload_bytes: 256 << 20,
    redirects: 0,
    ratio: 1000,
};

/// Maximum number of requests that wait for a decision. A page that sends more at once is broken or hostile.
const WAITING_MAX: usize = 256;

/// Maximum number of origins that a browser may reach, over its lifetime.
const ORIGINS_MAX: usize = 4096;

/// Maximum number of allowed requests that are remembered until the proxy has sent them. A cached one is never sent.
const ALLOWED_REQUESTS_MAX: usize = 8192;

/// Size of the chunks in which a body is scanned for secrets, in bytes.
const SCANNED_CHUNK: usize = 256 << 10;

/// Maximum length of a stored text of a page, such as a title or a URL, in characters.
const TEXT_MAX: usize = 2000;

/// A paused request.
#[derive(Debug, Clone)]
pub(crate) struct PausedRequest {
    /// The method.
    pub(crate) method: String,
    /// The URL as the browser writes it.
    pub(crate) url: String,
    /// Names and values of the headers that the page can choose.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, as far as the browser reports it.
    pub(crate) body: Option<String>,
    /// True if a person may be asked.
    pub(crate) may_ask: bool,
    /// True if the target has the origin of the page that sends the request.
    pub(crate) is_own_origin: bool,
}

/// Checks the requests of one browser.
pub(crate) struct RequestGate {
    /// The gate of the running call, and the number of calls so far.
    call: watch::Sender<GateCall>,
    /// The origins that were allowed, each with the best permission that it got.
    permitted: Mutex<HashMap<String, EgressPermission>>,
    allowed: Mutex<JudgedRequests>,
    guard: Arc<PolicyGuard>,
    waiting: Semaphore,
    /// The secrets that were entered into pages.
    entered: Mutex<Vec<EnteredSecret>>,
}

/// The requests that were allowed last, by the digests of their methods and URLs.
#[derive(Default)]
struct JudgedRequests(VecDeque<[u8; 32]>);

impl JudgedRequests {
    fn digest(method: &str, target: &RequestTarget) -> [u8; 32] {
        Sha256::digest(format!("{method} {target}")).into()
    }

    fn add(&mut self, method: &str, target: &RequestTarget) {
        // The browser asks the server of another origin first, by itself (CORS).
        for method in [method, "OPTIONS"] {
            let request = Self::digest(method, target);
            if self.0.contains(&request) {
                continue;
            }
            if self.0.len() >= ALLOWED_REQUESTS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(request);
        }
    }

    fn contains(&self, method: &str, target: &RequestTarget) -> bool {
        self.0.contains(&Self::digest(method, target))
    }
}

/// A secret that was entered into a page.
struct EnteredSecret {
    /// The value as it may be written in a body.
    forms: Vec<String>,
    /// The hosts for which a person allows it.
    hosts: Vec<HostPattern>,
}

#[derive(Clone, Default)]
struct GateCall {
    number: u64,
    effects: Option<EffectGate>,
}

/// The time of one call. Dropping it ends the call: requests then wait for the next one.
pub(crate) struct CallScope(Arc<RequestGate>);

impl Drop for CallScope {
    fn drop(&mut self) {
        self.0.call.send_modify(|call| call.effects = None);
    }
}

impl RequestGate {
    /// Creates a gate that allows nothing.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            call: watch::Sender::new(GateCall::default()),
            permitted: Mutex::default(),
            allowed: Mutex::default(),
            guard: Arc::new(PolicyGuard::new(NetworkPolicy::default())),
            waiting: Semaphore::new(WAITING_MAX),
            entered: Mutex::default(),
        })
    }

    /// Creates the proxy of the browser. Paths of certificates are relative to `root`.
    pub(crate) fn proxy(self: &Arc<Self>, root: &std::path::Path, effects: &EffectGate) -> Proxy {
        let roots = TlsRoots::from_folder(root, &effects.reach().roots);
        let client = HttpClient::in_session(
            Arc::clone(&self.guard),
            Arc::clone(self) as _,
            roots.unwrap_or_else(TlsRoots::unavailable),
            LIMITS,
            None,
            Some(Arc::clone(self) as _),
        );
        Proxy::new(client, Arc::clone(self) as _)
    }

    /// Begins a call. Its rules decide about the requests of the browser until the scope is dropped.
    pub(crate) fn begin_call(self: &Arc<Self>, effects: EffectGate) -> CallScope {
        self.set_policy(&effects);
        self.call.send_modify(|call| {
            call.number += 1;
            call.effects = Some(effects);
        });
        CallScope(Arc::clone(self))
    }

    fn set_policy(&self, effects: &EffectGate) {
        let now = effects.reach();
        if *self.guard.policy() != now.policy {
            // Origins that were removed from the settings are no longer listed.
            self.permitted.lock().clear();
            self.allowed.lock().0.clear();
            self.guard.set(now.policy.clone());
        }
    }

    /// Lets bodies of requests to these hosts contain a secret, which was entered into one of their pages.
    pub(crate) fn add_entered_secret(&self, value: &str, hosts: &[HostPattern]) {
        let json = serde_json::Value::from(value).to_string();
        let forms = [
            value.to_owned(),
            form_encoded(value),
            json.trim_matches('"').to_owned(),
        ];
        self.entered.lock().push(EnteredSecret {
            forms: forms.into(),
            hosts: hosts.to_vec(),
        });
    }

    /// Returns true if a secret was entered into a page.
    pub(crate) fn has_entered_secret(&self) -> bool {
        !self.entered.lock().is_empty()
    }

    /// Replaces the secrets that were entered into pages. For texts of pages that are shortened or searched before all
    /// secrets are masked in the result of the call.
    pub(crate) fn hide_entered_secrets(&self, text: &mut String) {
        for form in self.entered.lock().iter().flat_map(|secret| &secret.forms) {
            if !form.is_empty() && text.contains(form.as_str()) {
                *text = text.replace(form.as_str(), HIDDEN_SECRET);
            }
        }
    }

    /// Returns a text of a page for the result, shortened. Secrets are hidden first: a part of one would not be masked.
    pub(crate) fn shorten(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.hide_entered_secrets(&mut text);
        let short = mimir_core::text::prefix(&text, TEXT_MAX);
        if short.len() < text.len() {
            format!("{short}…")
        } else {
            text
        }
    }

    /// Returns a body without the secrets that may be sent to this target.
    fn without_entered_secrets(&self, body: &str, target: &RequestTarget) -> String {
        let mut body = body.to_owned();
        for secret in self.entered.lock().iter() {
            if secret.hosts.iter().any(|host| host.matches(target)) {
                for form in &secret.forms {
                    body = body.replace(form, " ");
                }
            }
        }
        body
    }

    /// Returns the permission that requests to this origin got, if any.
    pub(crate) fn permission(&self, target: &RequestTarget) -> Option<EgressPermission> {
        let permitted = self.permitted.lock();
        permitted.get(&target.origin().to_string()).copied()
    }

    /// Checks a request by the rules of the running call, and waits for the next call if there is none.
    pub(crate) async fn judge(&self, request: &PausedRequest) -> Result<(), ToolError> {
        let target = RequestTarget::parse(&request.url)
            .map_err(|error| ToolError::invalid_input(error.to_string()))?;
        let Ok(_slot) = self.waiting.try_acquire() else {
            return Err(ToolError::limit_exceeded(format!(
                "the page sends more than {WAITING_MAX} requests at once"
            )));
        };
        let body = request.body.as_deref().unwrap_or_default();
        let body = self.without_entered_secrets(body, &target);
        let mut calls = self.call.subscribe();
        loop {
            let active = calls
                .wait_for(|call| call.effects.is_some())
                .await
                .map(|call| (call.number, call.effects.clone()));
            let Ok((number, Some(effects))) = active else {
                return Err(ToolError::unavailable("the browser has ended"));
            };
            let known = self.permission(&target);
            let result = tokio::select! {
                result = judge_by(self, &effects, (&target, known), (request, &body)) => result,
                _ = calls.wait_for(|call| call.number != number || call.effects.is_none()) => continue,
            };
            let permission = result?;
            self.record_permission(&target, permission)?;
            self.allowed.lock().add(&request.method, &target);
            return Ok(());
        }
    }

    fn record_permission(
        &self,
        target: &RequestTarget,
        permission: EgressPermission,
    ) -> Result<(), ToolError> {
        let mut permitted = self.permitted.lock();
        if permitted.len() >= ORIGINS_MAX {
            return Err(ToolError::limit_exceeded(format!(
                "the browser has reached {ORIGINS_MAX} origins; close it and start again"
            )));
        }
        let known = permitted
            .entry(target.origin().to_string())
            .or_insert(permission);
        if permission == EgressPermission::Listed {
            *known = permission;
        }
        Ok(())
    }

    /// Fails for a request of plain HTTP that was not judged, and records it: the browser has sent it without pausing it.
    fn check_was_allowed(&self, request: &OutboundRequest<'_>) -> Result<(), ToolError> {
        let (target, method) = (request.target, request.method.as_str());
        if target.scheme() != UrlScheme::Http || self.allowed.lock().contains(method, target) {
            return Ok(());
        }
        if let Some(effects) = self.call.borrow().effects.clone() {
            let unpaused = OutgoingRequest {
                target,
                method,
                headers: &[],
                body: request.body,
            };
            effects.refused(unpaused, ToolErrorCode::PolicyDenied);
        }
        Err(ToolError::policy_denied(format!(
            "{method} to `{}` was not sent: the browser did not submit it to the check of its method and URL",
            target.origin()
        )))
    }

    fn permit_of(&self, target: &RequestTarget) -> Result<RequestPermit, ToolError> {
        match self.permission(target) {
            Some(EgressPermission::Listed) => Ok(RequestPermit::Listed),
            Some(EgressPermission::Unlisted) => Ok(RequestPermit::Unlisted),
            None => Err(ToolError::policy_denied(format!(
                "no page was allowed to reach `{}`",
                target.origin()
            ))),
        }
    }
}

/// The replacement of an entered secret.
const HIDDEN_SECRET: &str = "[entered secret]";

/// Methods that change nothing on the server (RFC 9110 section 9.2.1).
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Checks a request and its body by the rules of one call. A person who has allowed a page of an origin has allowed what
/// the page reads from there, until the browser is closed.
async fn judge_by(
    gate: &RequestGate,
    effects: &EffectGate,
    (target, known): (&RequestTarget, Option<EgressPermission>),
    (request, body): (&PausedRequest, &str),
) -> Result<EgressPermission, ToolError> {
    let headers: Vec<&[u8]> = request
        .headers
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])
        .collect();
    let outgoing = OutgoingRequest {
        target,
        method: &request.method,
        headers: &headers,
        body: request.body.is_some(),
    };
    let is_approved_host = request.is_own_origin
        && SAFE_METHODS.contains(&&*request.method)
        && known == Some(EgressPermission::Unlisted);
    let permission = if is_approved_host {
        let may_ask = request.may_ask;
        effects.request_to_approved_host(outgoing, may_ask).await?
    } else if request.may_ask {
        let shown = request.body.as_deref();
        let mut shown = shown.map(str::to_owned);
        if let Some(shown) = &mut shown {
            gate.hide_entered_secrets(shown);
        }
        match &shown {
            Some(shown) => effects.request_with_body(outgoing, shown).await?,
            None => effects.request(outgoing).await?,
        }
    } else {
        effects.request_without_asking(outgoing).await?
    };
    let mut scanner = effects.upload_scanner();
    for chunk in body.as_bytes().chunks(SCANNED_CHUNK) {
        let mut found = scanner.scan_chunk(chunk)?;
        while let Some(rule) = found {
            if !request.may_ask {
                return Err(ToolError::policy_denied(format!(
                    "the body of the request looks like a secret ({rule})"
                )));
            }
            effects.approve_body(outgoing, &rule).await?;
            found = scanner.allow_rule(&rule);
        }
    }
    Ok(permission)
}

/// Returns the text as forms of web pages send it.
fn form_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        b' ' => "+".to_owned(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

impl RequestAuthorizer for RequestGate {
    fn reload_policy(&self) {
        let effects = self.call.borrow().effects.clone();
        if let Some(effects) = effects {
            self.set_policy(&effects);
        }
    }

    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let permit = self
            .permit_of(request.target)
            .and_then(|permit| self.check_was_allowed(&request).map(|()| permit));
        Box::pin(std::future::ready(permit))
    }
}

impl ProxyRefusalHandler for RequestGate {
    fn handle_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a http::Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        // Requests of pages were recorded when they were judged. Here is what the address check refused later, and what
        // the browser tried on its own, which is no matter of the call.
        if let Some(effects) = self.call.borrow().effects.clone()
            && self.permission(target).is_some()
        {
            let request = OutgoingRequest {
                target,
                method: method.as_str(),
                headers: &[],
                body: false,
            };
            effects.refused(request, ToolErrorCode::PolicyDenied);
        }
        Box::pin(std::future::ready(error))
    }
}

impl SessionServerDialer for RequestGate {
    fn connect(&self, port: u16) -> BoxFuture<'_, std::io::Result<std::net::TcpStream>> {
        let effects = self.call.borrow().effects.clone();
        Box::pin(async move {
            let effects = effects.ok_or(std::io::ErrorKind::ConnectionRefused)?;
            let connection = effects.connect(port).await?;
            let stream = connection.into_stream::<std::net::TcpStream>();
            stream.ok_or_else(|| std::io::ErrorKind::Unsupported.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::network::NetworkVerdict;

    use super::*;

    #[tokio::test]
    async fn requests_of_plain_http_pass_only_as_they_were_judged() {
        let gate = RequestGate::new();
        let target = |url: &str| RequestTarget::parse(url).unwrap();
        let judged = target("http://a.example/order?n=1");
        gate.record_permission(&judged, EgressPermission::Listed)
            .unwrap();
        gate.allowed.lock().add("POST", &judged);
        gate.record_permission(&target("https://a.example/"), EgressPermission::Listed)
            .unwrap();
        for (method, url, passes) in [
            (http::Method::POST, "http://a.example/order?n=1", true),
            (http::Method::OPTIONS, "http://a.example/order?n=1", true),
            (http::Method::GET, "http://a.example/order?n=1", false),
            (http::Method::POST, "http://a.example/order?n=2", false),
            (http::Method::POST, "http://b.example/order?n=1", false),
            (http::Method::CONNECT, "https://a.example/", true),
            (http::Method::CONNECT, "https://b.example/", false),
        ] {
            let request = OutboundRequest {
                target: &target(url),
                method: &method,
                headers: &http::HeaderMap::new(),
                body: false,
                hop: 0,
                verdict: &NetworkVerdict::Allowed(None),
            };
            let result = gate.authorize(request).await;
            assert_eq!(result.is_ok(), passes, "{method} {url}: {result:?}");
        }
        for number in 0..ALLOWED_REQUESTS_MAX {
            let other = target(&format!("http://a.example/{number}"));
            gate.allowed.lock().add("GET", &other);
        }
        assert!(!gate.allowed.lock().contains("POST", &judged));
        assert_eq!(gate.allowed.lock().0.len(), ALLOWED_REQUESTS_MAX);
    }

    #[test]
    fn shortened_text_shows_no_part_of_an_entered_secret() {
        let gate = RequestGate::new();
        gate.add_entered_secret("correct-horse", &[]);
        let start = "A".repeat(TEXT_MAX - 4);
        let shown = gate.shorten(&format!("{start}correct-horse"));
        assert!(!shown.contains("corr"), "{shown}");
        assert!(shown.starts_with(&start) && shown.ends_with('…'));
    }

    #[test]
    fn entered_secrets_pass_to_their_hosts_only() {
        let gate = RequestGate::new();
        gate.add_entered_secret("s3cret \"&x", &["https://shop.example".parse().unwrap()]);
        let body = r#"p=s3cret+%22%26x&q=1 {"p": "s3cret \"&x"}"#;
        let target = |url: &str| RequestTarget::parse(url).unwrap();
        let shop = gate.without_entered_secrets(body, &target("https://shop.example/login"));
        assert_eq!(shop, r#"p= &q=1 {"p": " "}"#);
        let mut shown = format!("x{}", form_encoded("s3cret \"&x"));
        gate.hide_entered_secrets(&mut shown);
        assert_eq!(shown, format!("x{HIDDEN_SECRET}"));
        let other = gate.without_entered_secrets(body, &target("https://evil.example/"));
        assert_eq!(other, body);
    }
}
