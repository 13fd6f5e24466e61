//! Policy changes: connections and transfers opened under the old policy are ended.

use std::sync::Arc;

use http_body_util::BodyExt;
use mimir_core::ToolErrorCode;
use mimir_core::network::{NetworkPolicy, NetworkRules};
use mimir_net::{PolicyGuard, RequestLimits, TlsRoots};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Client;
use crate::kit::{
    Names, Site, allow_all, allow_hosts, answer, get, guarded, kind, pin_to_loopback,
};

fn under(rules: NetworkRules) -> (Arc<PolicyGuard>, Client) {
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    let client = guarded(
        Arc::clone(&guard),
        &Names::none(),
        RequestLimits::default(),
        TlsRoots::default(),
    );
    (guard, client)
}

#[tokio::test]
async fn revoked_grant_refuses_the_next_request() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let (guard, client) = under(pin_to_loopback(
        allow_hosts(&["app.example"]),
        "app.example",
    ));
    let url = site.named("http://app.example", "/");
    assert_eq!(kind(&client, &url).await, "");
    guard.set(NetworkPolicy::new(allow_hosts(&[])));
    let error = client.fetch(get(&url)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("blocked", ToolErrorCode::PolicyDenied)
    );
    assert_eq!(site.request_heads().len(), 1);
}

/// The host is still allowed, but its address no longer is, so the open connection is not used.
#[tokio::test]
async fn revoked_address_closes_a_pooled_connection() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let allowed = pin_to_loopback(allow_hosts(&["app.example"]), "app.example");
    let (guard, client) = under(allowed.clone());
    let url = site.named("http://app.example", "/");
    assert_eq!(kind(&client, &url).await, "");
    assert_eq!(kind(&client, &url).await, "");
    assert_eq!(
        site.connections(),
        1,
        "the second request did not reuse the connection"
    );
    let mut changed = allowed.clone();
    changed.hosts.clear();
    guard.set(NetworkPolicy::new(changed));
    assert_eq!(kind(&client, &url).await, "dns-failed");
    guard.set(NetworkPolicy::new(allowed));
    assert_eq!(kind(&client, &url).await, "");
    assert_eq!(
        site.connections(),
        2,
        "the request did not open a new connection"
    );
}

#[tokio::test]
async fn revoked_host_ends_a_response_in_transfer() {
    let (release, released) = tokio::sync::mpsc::channel::<()>(1);
    let released = Arc::new(tokio::sync::Mutex::new(released));
    let site = Site::of(move |mut stream| {
        let released = Arc::clone(&released);
        async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst";
            stream.write_all(head.as_bytes()).await.unwrap();
            released.lock().await.recv().await;
            stream.write_all(b"after").await.unwrap();
        }
    })
    .await;
    for (then, ends) in [(allow_all(), false), (allow_hosts(&[]), true)] {
        let (guard, client) = under(pin_to_loopback(
            allow_hosts(&["app.example"]),
            "app.example",
        ));
        let url = site.named("http://app.example", "/");
        let mut body = client
            .send(get(&url).map(http_body_util::Full::new))
            .await
            .unwrap()
            .into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        guard.set(NetworkPolicy::new(then));
        release.send(()).await.unwrap();
        let after = body.frame().await.unwrap();
        assert_eq!(after.is_err(), ends);
        assert_eq!(
            after.err().map(|error| error.kind()),
            ends.then_some("blocked")
        );
    }
}

/// Even two tools with the same permissions share no connection.
#[tokio::test]
async fn clients_do_not_share_connections() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let (_, one) = under(allow_all());
    let (_, other) = under(allow_all());
    for _ in 0..3 {
        assert_eq!(kind(&one, &site.url("/")).await, "");
        assert_eq!(kind(&one.clone(), &site.url("/")).await, "");
    }
    assert_eq!(
        site.connections(),
        1,
        "calls of one tool did not share a connection"
    );
    assert_eq!(kind(&other, &site.url("/")).await, "");
    assert_eq!(site.connections(), 2);
}

/// The request was authorized, and then waited for its turn.
#[tokio::test]
async fn revoked_host_refuses_a_waiting_request() {
    let site = Site::of(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst";
        let _ = stream.write_all(head.as_bytes()).await;
        std::future::pending::<()>().await;
    })
    .await;
    let (guard, client) = under(pin_to_loopback(
        allow_hosts(&["app.example"]),
        "app.example",
    ));
    let url = site.named("http://app.example", "/");
    let send = || client.send(get(&url).map(http_body_util::Full::new));
    let mut open = Vec::new();
    for _ in 0..RequestLimits::CONCURRENT {
        open.push(send().await.unwrap());
    }
    let waiting = send();
    tokio::pin!(waiting);
    assert!(futures::poll!(&mut waiting).is_pending());
    guard.set(NetworkPolicy::new(allow_hosts(&[])));
    open.clear();
    assert_eq!(waiting.await.unwrap_err().kind(), "blocked");
    assert_eq!(site.connections(), RequestLimits::CONCURRENT);
}

/// The head of the response may arrive before the body of the request is sent.
#[tokio::test]
async fn revoked_host_or_deadline_ends_an_upload() {
    let (read_sizes_sender, mut read_sizes) = tokio::sync::mpsc::unbounded_channel::<usize>();
    let site = Site::of(move |mut stream| {
        let read_sizes_sender = read_sizes_sender.clone();
        async move {
            let mut chunk = [0; 4096];
            let _ = stream.read(&mut chunk).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst";
            stream.write_all(head.as_bytes()).await.unwrap();
            while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                let _ = read_sizes_sender.send(read);
            }
        }
    })
    .await;
    for late in [false, true] {
        let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(pin_to_loopback(
            allow_hosts(&["app.example"]),
            "app.example",
        ))));
        let limits = RequestLimits {
            whole: std::time::Duration::from_millis(if late { 1_500 } else { 30_000 }),
            ..RequestLimits::default()
        };
        let client = guarded(
            Arc::clone(&guard),
            &Names::none(),
            limits,
            TlsRoots::default(),
        );
        let (mut more, pieces) = futures::channel::mpsc::unbounded::<Result<_, std::io::Error>>();
        let frames = futures::StreamExt::map(pieces, |chunk| chunk.map(http_body::Frame::data));
        let mut request = http::Request::new(http_body_util::StreamBody::new(frames));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = site.named("http://app.example", "/").parse().unwrap();
        let chunk = || Ok(bytes::Bytes::from_static(b"piece"));
        futures::SinkExt::send(&mut more, chunk()).await.unwrap();
        let answer = client.send(request).await.unwrap();
        // The first chunk may have arrived with the head of the request.
        futures::SinkExt::send(&mut more, chunk()).await.unwrap();
        assert!(read_sizes.recv().await.is_some());
        if late {
            tokio::time::sleep(limits.whole).await
        } else {
            guard.set(NetworkPolicy::new(allow_hosts(&[])))
        }
        while read_sizes.try_recv().is_ok() {}
        let _ = futures::SinkExt::send(&mut more, chunk()).await;
        // The connection ends, and nothing more has arrived.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(read_sizes.try_recv().is_err(), "late: {late}");
        drop(answer);
    }
}
