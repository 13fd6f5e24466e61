//! The authorizer: called for every hop, with the request as sent, before a name is looked up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{Error, OutboundRequest, RequestAuthorizer, RequestLimits, RequestPermit};
use parking_lot::Mutex;

use crate::kit::{
    Names, Site, allow_all, allow_hosts, answer, client, client_with, fetch, get, kind,
    pin_to_loopback,
};

/// Authorizer that records requests, and answers as defined by the test.
struct RecordingAuthorizer {
    requests: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    answer: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>,
    delay: Duration,
}

impl RecordingAuthorizer {
    fn of(answer: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>) -> Arc<Self> {
        Self::slow(answer, Duration::ZERO)
    }

    fn slow(
        answer: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>,
        delay: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            requests: Mutex::default(),
            refused: Mutex::default(),
            answer,
            delay,
        })
    }
}

impl RequestAuthorizer for RecordingAuthorizer {
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let line = format!(
            "{} {} {} {}",
            request.hop,
            request.method,
            request.target,
            request.verdict.is_allowed()
        );
        self.requests.lock().push(line);
        let answer = (self.answer)(&request);
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            answer
        })
    }

    fn hop_headers(&self, target: &RequestTarget) -> Vec<(HeaderName, HeaderValue)> {
        let is_named = target.host().to_string() == "app.example";
        let header = (
            HeaderName::from_static("x-hop"),
            HeaderValue::from_static("added"),
        );
        is_named.then_some(header).into_iter().collect()
    }

    fn explain_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        let line = format!("{method} {target} {}", error.kind());
        self.refused.lock().push(line);
        Box::pin(std::future::ready(error))
    }
}

/// A refusal names the hop that was refused, not the request that led to it.
#[tokio::test]
async fn refused_hop_is_reported_as_itself() {
    for (location, kind) in [
        ("http://else.test/x", "blocked"),
        ("http://in.private.example/x", "blocked-address"),
    ] {
        let head = format!("location: {location}\r\n");
        let site = Site::respond_with(move |_| answer("303 See Other", &head, "")).await;
        let names = Names::of(&[("in.private.example", "10.0.0.1")]);
        let rules = pin_to_loopback(
            allow_hosts(&["app.example", "*.private.example"]),
            "app.example",
        );
        let gate = RecordingAuthorizer::of(|_| Ok(RequestPermit::Listed));
        let client =
            client_with(rules, &names, RequestLimits::default()).with_authorizer(gate.clone());
        let request = Request::post(site.named("http://app.example", "/form"))
            .body(Bytes::from("x"))
            .unwrap();
        assert_eq!(client.fetch(request).await.unwrap_err().kind(), kind);
        let refused = gate.refused.lock().clone();
        assert_eq!(refused, [format!("GET {location} {kind}")]);
    }
}

#[tokio::test]
async fn authorizer_headers_are_sent_to_the_hop_only() {
    let other = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let elsewhere = other.named("http://else.example", "/");
    let site =
        Site::respond_with(move |_| answer("307 x", &format!("location: {elsewhere}\r\n"), ""))
            .await;
    let url = site.named("http://app.example", "/");
    for own in [None, Some("own")] {
        let gate = RecordingAuthorizer::of(|_| Ok(RequestPermit::Listed));
        let rules = pin_to_loopback(allow_all(), "app.example");
        let client = client(pin_to_loopback(rules, "else.example")).with_authorizer(gate);
        let mut request = Request::get(&url).body(Bytes::new()).unwrap();
        if let Some(own) = own {
            let headers = request.headers_mut();
            headers.insert("x-hop", HeaderValue::from_static(own));
        }
        client.fetch(request).await.unwrap();
        let head = site.request_heads().pop().unwrap();
        let expected = format!("x-hop: {}", own.unwrap_or("added"));
        assert_eq!(head.matches("x-hop").count(), 1, "{head}");
        assert!(head.contains(&expected), "{head}");
        let head = other.request_heads().pop().unwrap();
        assert!(!head.contains("added"), "{head}");
    }
}

#[tokio::test]
async fn authorizer_checks_each_hop_as_sent() {
    let site = Site::respond_with(|head| {
        if head.starts_with("POST /form ") {
            answer("303 See Other", "location: /done?id=1\r\n", "")
        } else {
            answer("200 OK", "", "done")
        }
    })
    .await;
    let gate = RecordingAuthorizer::of(|_| Ok(RequestPermit::Listed));
    let client = client(allow_all()).with_authorizer(gate.clone());
    let request = Request::post(site.url("/form"))
        .body(Bytes::from("x"))
        .unwrap();
    client.fetch(request).await.unwrap();
    let (first, second) = (site.url("/form"), site.url("/done?id=1"));
    let requests = gate.requests.lock().clone();
    assert_eq!(
        requests,
        [
            format!("0 POST {first} true"),
            format!("1 GET {second} true")
        ]
    );
}

#[tokio::test]
async fn refusal_reaches_the_caller_without_a_lookup() {
    let names = Names::of(&[("app.example", "127.0.0.1")]);
    let refuse = |request: &OutboundRequest<'_>| {
        Err(ToolError::new(
            ToolErrorCode::ApprovalDenied,
            format!("no {}", request.method),
        ))
    };
    let client = client_with(allow_all(), &names, RequestLimits::default())
        .with_authorizer(RecordingAuthorizer::of(refuse));
    let error = fetch(&client, "http://app.example/").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("denied", ToolErrorCode::ApprovalDenied)
    );
    assert_eq!(
        ToolError::from(error),
        ToolError::new(ToolErrorCode::ApprovalDenied, "no GET")
    );
    assert_eq!(names.lookups(), [""; 0]);
}

/// An approval may allow an unlisted target, but never an address that the policy refuses. The authorizer is not called
/// for a request that the policy blocks.
#[tokio::test]
async fn approval_is_limited_by_the_policy() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let names = Names::of(&[
        ("app.example", "127.0.0.1"),
        ("public.example", "127.0.0.1"),
    ]);
    let mut rules = allow_hosts(&["listed.example"]);
    rules.block_private = false;
    let url = site.named("http://app.example", "/");
    for (permit, answer, kind_then) in [
        (
            RequestPermit::Listed,
            (|_| Ok(RequestPermit::Listed)) as fn(&OutboundRequest<'_>) -> _,
            "blocked",
        ),
        (RequestPermit::Unlisted, |_| Ok(RequestPermit::Unlisted), ""),
    ] {
        let gate = RecordingAuthorizer::of(answer);
        let client = client_with(rules.clone(), &names, RequestLimits::default())
            .with_authorizer(gate.clone());
        assert_eq!(kind(&client, &url).await, kind_then, "{permit:?}");
        assert_eq!(*gate.requests.lock(), [format!("0 GET {url} false")]);
        assert_eq!(kind(&client, "http://app.example:25/").await, "blocked");
        assert_eq!(kind(&client, "http://169.254.169.254/").await, "blocked");
        assert_eq!(
            gate.requests.lock().len(),
            1,
            "the authorizer was called for a blocked request"
        );
    }
    rules.block_private = true;
    let client = client_with(rules, &names, RequestLimits::default())
        .with_authorizer(RecordingAuthorizer::of(|_| Ok(RequestPermit::Unlisted)));
    assert_eq!(kind(&client, &url).await, "blocked-address");
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn clock_is_paused_during_an_approval() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let limits = RequestLimits {
        whole: Duration::from_secs(1),
        ..RequestLimits::default()
    };
    let gate =
        RecordingAuthorizer::slow(|_| Ok(RequestPermit::Listed), Duration::from_millis(1_500));
    let client = client_with(allow_all(), &Names::none(), limits).with_authorizer(gate);
    assert!(client.fetch(get(&site.url("/"))).await.is_ok());
}
