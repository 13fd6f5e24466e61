//! Servers that never stop, and the limits that end their responses.

use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use mimir_core::ToolErrorCode;
use mimir_net::{Error, FetchedResponse, RequestLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Client;
use crate::kit::{Names, Site, allow_all, answer, client, client_with, fetch, get};

const SHORT: Duration = Duration::from_millis(200);

/// Longer than any of these tests should wait, and far shorter than a wait without the limit.
const SOON: Duration = Duration::from_secs(20);

fn within(limits: RequestLimits) -> Client {
    client_with(allow_all(), &Names::none(), limits)
}

fn failed(fetched: Result<FetchedResponse, Error>) -> (&'static str, ToolErrorCode) {
    let error = fetched.unwrap_err();
    assert!(
        error.to_string().contains("limit") || error.to_string().contains("ask for"),
        "{error}"
    );
    (error.kind(), error.code())
}

/// Starts a server that sends `begin`, and then `again` endlessly with a pause in between.
async fn endless(begin: &'static [u8], again: &'static [u8], rest: Duration) -> Site {
    Site::of(move |mut stream: TcpStream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        if stream.write_all(begin).await.is_err() {
            return;
        }
        while stream.write_all(again).await.is_ok() {
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn body_that_drips_ends_with_the_total_time() {
    let begin = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
    let site = endless(begin, b"x", Duration::from_millis(20)).await;
    let started = Instant::now();
    let limits = RequestLimits {
        whole: SHORT,
        ..RequestLimits::default()
    };
    assert_eq!(
        failed(fetch(&within(limits), &site.url("/")).await),
        ("timeout-whole", ToolErrorCode::Timeout)
    );
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn body_that_stalls_ends_sooner() {
    let begin = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx";
    let site = endless(begin, b"", Duration::from_secs(60)).await;
    let limits = RequestLimits {
        between_bytes: SHORT,
        ..RequestLimits::default()
    };
    let started = Instant::now();
    assert_eq!(
        failed(fetch(&within(limits), &site.url("/")).await),
        ("timeout-body", ToolErrorCode::Timeout)
    );
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn headers_that_never_end_time_out() {
    let silent = endless(b"", b"", Duration::from_secs(60)).await;
    let drip = endless(b"HTTP/1.1 200 OK\r\nx: ", b"y", Duration::from_millis(20)).await;
    let interim = endless(
        b"",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        Duration::from_millis(20),
    )
    .await;
    for site in [silent, drip, interim] {
        let limits = RequestLimits {
            connect: Duration::from_secs(2),
            first_byte: SHORT,
            ..RequestLimits::default()
        };
        let started = Instant::now();
        assert_eq!(
            failed(fetch(&within(limits), &site.url("/")).await),
            ("timeout-headers", ToolErrorCode::Timeout)
        );
        assert!(started.elapsed() < SOON);
    }
}

#[tokio::test]
async fn headers_are_limited() {
    let large = endless(
        b"HTTP/1.1 200 OK\r\n",
        b"x-more: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
        Duration::ZERO,
    )
    .await;
    let one = endless(b"HTTP/1.1 200 OK\r\nx: ", &[b'y'; 4096], Duration::ZERO).await;
    for site in [large, one] {
        let error = fetch(&within(RequestLimits::default()), &site.url("/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("too-large", ToolErrorCode::LimitExceeded),
            "{error}"
        );
    }
    // Few bytes, but too many headers.
    let site = Site::respond_with(|_| answer("200 OK", &"a: b\r\n".repeat(200), "")).await;
    let error = fetch(&within(RequestLimits::default()), &site.url("/"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "too-large", "{error}");
}

#[tokio::test]
async fn bodies_are_limited() {
    let limits = RequestLimits {
        body_bytes: 100_000,
        ..RequestLimits::default()
    };
    // With the correct length, with another length, and without a length.
    let honest = Site::respond_with(|_| answer("200 OK", "", &"x".repeat(100_001))).await;
    let chunked = endless(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"10\r\n0123456789abcdef\r\n",
        Duration::ZERO,
    )
    .await;
    let to_the_end = endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'y'; 4096], Duration::ZERO).await;
    for site in [&honest, &chunked, &to_the_end] {
        assert_eq!(
            failed(fetch(&within(limits), &site.url("/")).await),
            ("too-large", ToolErrorCode::LimitExceeded)
        );
        // A streamed body has the same limit.
        let mut body = within(limits)
            .send(get(&site.url("/")).map(Full::new))
            .await
            .unwrap()
            .into_body();
        let mut received = 0;
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(frame) => received += frame.into_data().unwrap().len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), "too-large");
        assert!(received <= 100_000, "{received}");
        assert!(
            body.frame().await.is_none(),
            "the body continued after the error"
        );
    }
    let exact = Site::respond_with(|_| answer("200 OK", "", &"x".repeat(100_000))).await;
    assert_eq!(
        fetch(&within(limits), &exact.url("/"))
            .await
            .unwrap()
            .body
            .len(),
        100_000
    );
}

/// A small head may have too many lines. The message names both limits.
#[tokio::test]
async fn headers_are_counted() {
    for (count, kind) in [(99, ""), (150, "too-large")] {
        let site =
            Site::respond_with(move |_| answer("200 OK", &"x-a: b\r\n".repeat(count), "")).await;
        let fetched = fetch(&client(allow_all()), &site.url("/")).await;
        match fetched {
            Ok(fetched) => assert_eq!(
                (fetched.headers.get_all("x-a").iter().count(), kind),
                (count, "")
            ),
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.code()),
                    (kind, ToolErrorCode::LimitExceeded)
                );
                let message = error.to_string();
                assert!(message.contains("65536 bytes or 100 headers"), "{message}");
            }
        }
    }
}

/// Triggers hyper's errors for data that is neither head nor body, whose texts the code matches.
#[tokio::test]
async fn trailers_and_chunk_extensions_are_limited() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let trailers = [HEAD, "1\r\nx\r\n0\r\n"].concat().leak().as_bytes();
    let extension = [HEAD, "1;a="].concat().leak().as_bytes();
    for site in [
        endless(
            trailers,
            b"x-more: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
            Duration::ZERO,
        )
        .await,
        endless(extension, &[b'y'; 4096], Duration::ZERO).await,
    ] {
        let fetched = fetch(&within(RequestLimits::default()), &site.url("/")).await;
        assert_eq!(failed(fetched), ("too-large", ToolErrorCode::LimitExceeded));
    }
}

#[tokio::test]
async fn gzip_bomb_is_refused() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![0; 64 << 20]).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 100_000);
    let site = Site::of(move |mut stream: TcpStream| {
        let packed = packed.clone();
        async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let length = packed.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&packed).await;
        }
    })
    .await;
    let error = fetch(&client(allow_all()), &site.url("/"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("decompression-bomb", ToolErrorCode::LimitExceeded)
    );
}

#[tokio::test]
async fn uploads_are_limited() {
    let site = Site::http(|request| async move {
        let _ = request.into_body().collect().await;
        crate::kit::text("read")
    })
    .await;
    let client = within(RequestLimits {
        upload_bytes: 1000,
        ..RequestLimits::default()
    });
    let whole = Request::post(site.url("/"))
        .body(Bytes::from(vec![0; 1001]))
        .unwrap();
    assert_eq!(
        failed(client.fetch(whole).await),
        ("too-large", ToolErrorCode::LimitExceeded)
    );
    // As a stream of unknown length.
    let parts = futures::stream::repeat_with(|| {
        Ok::<_, Error>(http_body::Frame::data(Bytes::from_static(&[0; 100])))
    });
    let endless = Request::post(site.url("/"))
        .body(http_body_util::StreamBody::new(parts))
        .unwrap();
    assert_eq!(client.send(endless).await.unwrap_err().kind(), "too-large");
    let fits = Request::post(site.url("/"))
        .body(Bytes::from(vec![0; 1000]))
        .unwrap();
    assert_eq!(client.fetch(fits).await.unwrap().body, "read");
}

/// A guest opens requests and never reads their responses.
#[tokio::test]
async fn requests_open_at_a_time_are_limited() {
    let site = Site::respond_with(|_| answer("200 OK", "", &"x".repeat(100_000))).await;
    let client = within(RequestLimits {
        connect: SHORT,
        ..RequestLimits::default()
    });
    let mut open = Vec::new();
    for _ in 0..RequestLimits::CONCURRENT {
        open.push(
            client
                .send(get(&site.url("/")).map(Full::new))
                .await
                .unwrap(),
        );
    }
    let error = client
        .send(get(&site.url("/")).map(Full::new))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("too-many-requests", ToolErrorCode::LimitExceeded)
    );
    open.pop().unwrap().into_body().collect().await.unwrap();
    assert!(
        client
            .send(get(&site.url("/")).map(Full::new))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn too_many_request_headers_are_not_sent() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let many: Vec<String> = (0..101).map(|n| format!("x-{n}")).collect();
    let large = "y".repeat(70_000);
    for (headers, kind) in [
        (
            many.iter().map(|name| (name.as_str(), "y")).collect(),
            "invalid-request",
        ),
        (vec![("x", large.as_str())], "too-large"),
    ] {
        let mut request = get(&site.url("/"));
        *request.headers_mut() = mimir_net::headers::parse(headers).unwrap();
        assert_eq!(
            client(allow_all()).fetch(request).await.unwrap_err().kind(),
            kind
        );
    }
    assert_eq!(site.connections(), 0);
}
