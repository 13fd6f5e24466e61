//! Successful exchanges, and exchanges that fail because of the network.

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::header::HeaderValue;
use http::{HeaderMap, Request, Response, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use mimir_core::ToolErrorCode;
use mimir_core::network::NetworkPolicy;
use mimir_net::{Error, PolicyGuard, RequestLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{
    Authority, Names, Site, allow_all, answer, client, client_with, fetch, get, guarded,
    pin_to_loopback,
};

fn trailer(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )])
}

/// Echoes the chunks of the request one by one as they arrive, with a trailer of its own.
async fn echo(request: Request<hyper::body::Incoming>) -> crate::kit::Answer {
    let version = match request.version() {
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    let frames = request
        .into_body()
        .into_data_stream()
        .map(|part| Ok(Frame::data(part.unwrap())));
    let end = stream::once(async { Ok(Frame::trailers(trailer("x-sum", "42"))) });
    let mut answer = Response::new(StreamBody::new(frames.chain(end)).boxed_unsync());
    answer
        .headers_mut()
        .insert("x-version", HeaderValue::from_static(version));
    answer
        .headers_mut()
        .insert("trailer", HeaderValue::from_static("x-sum"));
    answer
}

/// Both directions stream at once: the first chunk is back before the second is sent.
#[tokio::test]
async fn bodies_stream_both_ways_with_trailers_over_both_protocols() {
    let authority = Authority::new();
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], "2"),
        (&["http/1.1"], "1.1"),
        (&[], "1.1"),
    ] {
        let site = Site::https(authority.server(&["safe.example"], protocols), echo).await;
        let guard = PolicyGuard::new(NetworkPolicy::new(pin_to_loopback(
            allow_all(),
            "safe.example",
        )));
        let client = guarded(
            guard.into(),
            &Names::none(),
            RequestLimits::default(),
            authority.roots(),
        );
        let (send, parts) = futures::channel::mpsc::unbounded::<Result<Frame<Bytes>, Error>>();
        send.unbounded_send(Ok(Frame::data(Bytes::from("one"))))
            .unwrap();
        let mut request = Request::post(site.named("https://safe.example", "/"))
            .body(StreamBody::new(parts))
            .unwrap();
        request
            .headers_mut()
            .insert("te", HeaderValue::from_static("trailers"));
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.headers()["x-version"], version);
        let mut body = answer.into_body();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            "one"
        );
        send.unbounded_send(Ok(Frame::data(Bytes::from("two"))))
            .unwrap();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            "two"
        );
        drop(send);
        let end = body.frame().await.unwrap().unwrap();
        assert_eq!(end.into_trailers().unwrap()["x-sum"], "42");
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn request_trailers_arrive() {
    let site = Site::http(|request| async move {
        let collected = request.into_body().collect().await.unwrap();
        let arrived = collected
            .trailers()
            .is_some_and(|trailers| trailers["x-sum"] == "7");
        crate::kit::text(if arrived { "arrived" } else { "lost" })
    })
    .await;
    let frames = [
        Frame::data(Bytes::from("data")),
        Frame::trailers(trailer("x-sum", "7")),
    ];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Error>)));
    let mut request = Request::post(site.url("/")).body(body).unwrap();
    request
        .headers_mut()
        .insert("trailer", HeaderValue::from_static("x-sum"));
    let answer = client(allow_all()).send(request).await.unwrap();
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes(),
        "arrived"
    );
}

/// Requests of one client share a connection over HTTP/2, and reuse one in turn over HTTP/1.1.
#[tokio::test]
async fn connections_are_reused() {
    let authority = Authority::new();
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let site = Site::https(authority.server(&["safe.example"], protocols), echo).await;
        let guard = PolicyGuard::new(NetworkPolicy::new(pin_to_loopback(
            allow_all(),
            "safe.example",
        )));
        let client = guarded(
            guard.into(),
            &Names::none(),
            RequestLimits::default(),
            authority.roots(),
        );
        for _ in 0..5 {
            let request = Request::post(site.named("https://safe.example", "/"))
                .body(Bytes::from("x"))
                .unwrap();
            assert_eq!(client.fetch(request).await.unwrap().body, "x");
        }
        assert_eq!(site.connections(), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn fetch_decompresses_the_body_and_keeps_headers() {
    let site = Site::respond_with(|head| {
        assert!(
            head.contains("accept-encoding: gzip, deflate, br, zstd"),
            "{head}"
        );
        answer(
            "200 OK",
            "content-encoding: identity\r\nx-one: 1\r\nx-one: 2\r\n",
            "hello",
        )
    })
    .await;
    let fetched = fetch(&client(allow_all()), &site.url("/")).await.unwrap();
    assert_eq!(fetched.body, "hello");
    assert_eq!(fetched.headers.get_all("x-one").iter().count(), 2);
}

#[tokio::test]
async fn connection_to_an_unused_port_is_refused() {
    let site = Site::respond_with(|_| String::new()).await;
    let (url, address) = (site.url("/path?token=hidden"), site.address);
    drop(site);
    // The accepting task ends only when the runtime gets to it.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = fetch(&client(allow_all()), &url).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("connection-refused", ToolErrorCode::Network)
    );
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

/// A machine without a network, simulated by its resolver and its routes.
#[tokio::test]
async fn missing_network_is_reported() {
    let names = Names::none();
    let error = fetch(
        &client_with(allow_all(), &names, RequestLimits::default()),
        "http://a.example/",
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("dns-failed", ToolErrorCode::Network)
    );
    assert!(
        error
            .to_string()
            .contains("check its spelling and the network"),
        "{error}"
    );
}

#[tokio::test]
async fn response_that_is_not_http_is_reported() {
    for output in [
        "",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        "HTTP/1.1 abc\r\n\r\n",
        "\0\0\0\0",
    ] {
        let site = Site::of(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(output.as_bytes()).await;
        })
        .await;
        let error = fetch(&client(allow_all()), &site.url("/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("protocol-error", ToolErrorCode::Network),
            "{output:?}: {error}"
        );
    }
}

/// With two lengths, or a length and chunks, two readers would read different responses.
#[tokio::test]
async fn response_with_two_lengths_is_refused() {
    let output = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!";
    let site = Site::respond_with(move |_| output.to_owned()).await;
    assert_eq!(
        fetch(&client(allow_all()), &site.url("/"))
            .await
            .unwrap_err()
            .kind(),
        "protocol-error"
    );
}

/// A proxy in environment variables is ignored. Runs in a separate process, since the environment is global.
#[test]
fn proxies_of_the_environment_are_ignored() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    for variable in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        again.env(variable, &url);
    }
    let output = again
        .args([
            "--exact",
            "exchange::direct_request_ignores_proxy_variables",
            "--ignored",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert!(proxy.accept().is_err(), "the proxy was used");
}

#[tokio::test]
#[ignore = "run by `proxies_of_the_environment_are_ignored`"]
async fn direct_request_ignores_proxy_variables() {
    assert!(std::env::var("HTTP_PROXY").is_ok());
    let site = Site::respond_with(|_| answer("200 OK", "", "direct")).await;
    let answer = client(allow_all())
        .send(get(&site.url("/")).map(Full::new))
        .await
        .unwrap();
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes(),
        "direct"
    );
}
