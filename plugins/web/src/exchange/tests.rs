use mimir_sdk::Code;

use super::*;

/// Responds to each request by its path.
struct Paths(fn(&str) -> Response);

impl Transport for Paths {
    fn send(&self, request: &Request) -> Result<Response> {
        Ok((self.0)(request.url.path()))
    }
}

fn to(status: u16, redirect_target: &str) -> Response {
    Response {
        status,
        headers: vec![("location".to_owned(), redirect_target.to_owned())],
        ..Response::default()
    }
}

fn compressed(coding: &str, body: &[u8]) -> Response {
    Response {
        status: 200,
        headers: vec![("content-encoding".to_owned(), coding.to_owned())],
        body: body.to_vec(),
        ..Response::default()
    }
}

/// Compresses this many zeros.
fn gzip(count: usize) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let mut zeros = flate2::read::GzEncoder::new(std::io::repeat(0).take(count as u64), level);
    let mut all = Vec::new();
    zeros.read_to_end(&mut all).unwrap();
    all
}

fn get(url: &str) -> Request {
    Request {
        method: "GET",
        url: parse(url).unwrap(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: None,
    }
}

#[test]
fn redirect_changes_the_method_as_browsers_do() {
    for (method, status, then) in [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("PUT", 301, "PUT"),
        ("POST", 307, "POST"),
        ("DELETE", 308, "DELETE"),
    ] {
        let mut request = get("https://a.example/");
        request.method = method;
        request.body = b"data".to_vec();
        redirect_request(&mut request, parse("https://a.example/b").unwrap(), status);
        assert_eq!(request.method, then, "{method} {status}");
        assert_eq!(request.body.is_empty(), method != then, "{method} {status}");
    }
}

#[test]
fn redirect_to_another_origin_drops_sensitive_headers() {
    for (url, kept) in [
        ("https://a.example/other", 3),
        ("https://b.example/", 1),
        ("http://a.example/", 1),
        ("https://a.example:8443/", 1),
    ] {
        let mut request = get("https://a.example/");
        let headers = ["Accept", "Authorization", "X-Mine"];
        request.headers = headers
            .map(|name| (name.to_owned(), "x".to_owned()))
            .to_vec();
        redirect_request(&mut request, parse(url).unwrap(), 302);
        assert_eq!(request.headers.len(), kept, "{url}");
        assert_eq!(request.headers[0].0, "Accept");
    }
}

#[test]
fn redirect_to_plain_http_or_bad_url_is_refused() {
    let paths = Paths(|path| match path {
        "/down" => to(302, "http://a.example/"),
        "/user" => to(302, "https://u:p@a.example/"),
        "/scheme" => to(302, "javascript:alert(1)"),
        "/slash" => to(302, "/\\a.example"),
        "/bomb" => compressed("gzip", &gzip(17 << 20)),
        "/broken" => compressed("gzip", b"no gzip"),
        "/odd" => compressed("br", b"x"),
        "/later" => to(302, "/odd"),
        "/none" => Response {
            status: 302,
            ..Response::default()
        },
        _ => to(302, "/next"),
    });
    let run = |path: &str| run(&paths, get(&format!("https://a.example{path}")));
    for (path, kind, code, words) in [
        (
            "/down",
            "downgrade",
            Code::PermissionDenied,
            "would expose the request",
        ),
        ("/user", "invalid-redirect", Code::Network, "user name"),
        (
            "/scheme",
            "invalid-redirect",
            Code::Network,
            "`javascript` cannot be fetched",
        ),
        ("/slash", "invalid-redirect", Code::Network, "backslash"),
        ("/bomb", "decompression-bomb", Code::LimitExceeded, "16 MiB"),
        (
            "/broken",
            "invalid-encoding",
            Code::Network,
            "cannot be decompressed",
        ),
        (
            "/odd",
            "invalid-encoding",
            Code::Network,
            "compressed with br",
        ),
        (
            "/later",
            "invalid-encoding",
            Code::Network,
            "after a redirect",
        ),
    ] {
        let error = run(path).unwrap_err();
        assert_eq!(error.details().unwrap()["kind"], kind, "{path}: {error}");
        assert_eq!(*error.code(), code, "{path}: {error}");
        assert!(error.message().contains(words), "{path}: {error}");
    }
    let error = run("/loop").unwrap_err();
    let details = error.details().unwrap();
    assert_eq!(details["kind"], "too-many-redirects");
    assert_eq!(
        details["redirects"].as_array().unwrap().len(),
        MAX_REDIRECTS
    );
    assert_eq!(
        run("/none").unwrap().response.status,
        302,
        "it has no location"
    );
}

#[test]
fn redirect_hops_share_one_timeout() {
    let slow = Paths(|_| Response {
        elapsed: std::time::Duration::from_millis(900),
        ..to(302, "/next")
    });
    let mut request = get("https://a.example/");
    request.timeout = Some(crate::http::Timeout::from_secs(2));
    let error = run(&slow, request).unwrap_err();
    let details = error.details().unwrap();
    assert_eq!(
        (error.code(), &details["kind"]),
        (&Code::Timeout, &"timeout-whole".into())
    );
    assert_eq!(details["redirects"].as_array().unwrap().len(), 2);
    assert!(error.message().contains("`timeout` of 2 s"), "{error}");
}
