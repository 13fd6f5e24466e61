//! The authorizer: called for every hop, with the request as sent, before a name is looked up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{Error, OutboundRequest, RequestAuthorizer, RequestLimits, RequestPermit};
use parking_lot::Mutex;

use crate::kit::{
    Names, Site, answer, client, client_with_names, fetch, fixed, get, kind, lax, listed,
};

/// Records the requests that it is called with, and decides as the test defines.
struct RecordingAuthorizer {
    authorized: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    decide: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>,
    delay: Duration,
}

impl RecordingAuthorizer {
    fn new(decide: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>) -> Arc<Self> {
        Self::with_delay(decide, Duration::ZERO)
    }

    fn with_delay(
        decide: fn(&OutboundRequest<'_>) -> Result<RequestPermit, ToolError>,
        delay: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            authorized: Mutex::default(),
            refused: Mutex::default(),
            decide,
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
        self.authorized.lock().push(line);
        let decision = (self.decide)(&request);
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            decision
        })
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

/// A refusal names the hop where it happened, and not the request that led there.
#[tokio::test]
async fn refused_hop_is_reported_as_itself() {
    for (location, kind) in [
        ("http://else.test/x", "blocked"),
        ("http://in.private.example/x", "blocked-address"),
    ] {
        let head = format!("location: {location}\r\n");
        let site = Site::responding(move |_| answer("303 See Other", &head, "")).await;
        let names = Names::resolving(&[("in.private.example", "10.0.0.1")]);
        let rules = fixed(listed(&["app.example", "*.private.example"]), "app.example");
        let authorizer = RecordingAuthorizer::new(|_| Ok(RequestPermit::Listed));
        let client = client_with_names(rules, &names, RequestLimits::default())
            .with_authorizer(authorizer.clone());
        let request = Request::post(site.named("http://app.example", "/form"))
            .body(Bytes::from("x"))
            .unwrap();
        assert_eq!(client.fetch(request).await.unwrap_err().kind(), kind);
        let refused = authorizer.refused.lock().clone();
        assert_eq!(refused, [format!("GET {location} {kind}")]);
    }
}

#[tokio::test]
async fn authorizer_checks_each_hop_as_sent() {
    let site = Site::responding(|head| match head.starts_with("POST /form ") {
        true => answer("303 See Other", "location: /done?id=1\r\n", ""),
        false => answer("200 OK", "", "done"),
    })
    .await;
    let authorizer = RecordingAuthorizer::new(|_| Ok(RequestPermit::Listed));
    let client = client(lax()).with_authorizer(authorizer.clone());
    let request = Request::post(site.url("/form"))
        .body(Bytes::from("x"))
        .unwrap();
    client.fetch(request).await.unwrap();
    let (first, second) = (site.url("/form"), site.url("/done?id=1"));
    let authorized = authorizer.authorized.lock().clone();
    assert_eq!(
        authorized,
        [
            format!("0 POST {first} true"),
            format!("1 GET {second} true")
        ]
    );
}

#[tokio::test]
async fn refusal_reaches_the_caller_without_a_lookup() {
    let names = Names::resolving(&[("app.example", "127.0.0.1")]);
    let refuse = |request: &OutboundRequest<'_>| {
        Err(ToolError::new(
            ToolErrorCode::ApprovalDenied,
            format!("no {}", request.method),
        ))
    };
    let client = client_with_names(lax(), &names, RequestLimits::default())
        .with_authorizer(RecordingAuthorizer::new(refuse));
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

/// An approval may allow a target that is not on a list. The authorizer is not called for a request that the policy
/// blocks, and no approval opens addresses.
#[tokio::test]
async fn approval_is_limited_by_the_policy() {
    let site = Site::responding(|_| answer("200 OK", "", "hello")).await;
    let names = Names::resolving(&[
        ("app.example", "127.0.0.1"),
        ("public.example", "127.0.0.1"),
    ]);
    let mut rules = listed(&["listed.example"]);
    rules.block_private = false;
    let url = site.named("http://app.example", "/");
    for (permit, decide, expected) in [
        (
            RequestPermit::Listed,
            (|_| Ok(RequestPermit::Listed)) as fn(&OutboundRequest<'_>) -> _,
            "blocked",
        ),
        (RequestPermit::Unlisted, |_| Ok(RequestPermit::Unlisted), ""),
    ] {
        let authorizer = RecordingAuthorizer::new(decide);
        let client = client_with_names(rules.clone(), &names, RequestLimits::default())
            .with_authorizer(authorizer.clone());
        assert_eq!(kind(&client, &url).await, expected, "{permit:?}");
        assert_eq!(
            *authorizer.authorized.lock(),
            [format!("0 GET {url} false")]
        );
        assert_eq!(kind(&client, "http://app.example:25/").await, "blocked");
        assert_eq!(kind(&client, "http://169.254.169.254/").await, "blocked");
        assert_eq!(
            authorizer.authorized.lock().len(),
            1,
            "a blocked request is not passed to the authorizer"
        );
    }
    rules.block_private = true;
    let client = client_with_names(rules, &names, RequestLimits::default())
        .with_authorizer(RecordingAuthorizer::new(|_| Ok(RequestPermit::Unlisted)));
    assert_eq!(kind(&client, &url).await, "blocked-address");
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn clock_is_paused_during_an_approval() {
    let site = Site::responding(|_| answer("200 OK", "", "hello")).await;
    let limits = RequestLimits {
        whole: Duration::from_millis(250),
        ..RequestLimits::default()
    };
    let authorizer =
        RecordingAuthorizer::with_delay(|_| Ok(RequestPermit::Listed), Duration::from_millis(400));
    let client = client_with_names(lax(), &Names::none(), limits).with_authorizer(authorizer);
    assert!(client.fetch(get(&site.url("/"))).await.is_ok());
}
