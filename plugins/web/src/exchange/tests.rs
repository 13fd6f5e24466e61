use super::*;

/// Answers each request by its path.
struct Paths(fn(&str) -> Response);

impl Transport for Paths {
    fn send(&self, request: &Request) -> Result<Response> {
        Ok((self.0)(request.url.path()))
    }
}

fn to(status: u16, location: &str) -> Response {
    Response {
        status,
        headers: vec![("location".to_owned(), location.to_owned())],
        body: Vec::new(),
    }
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
fn a_request_turns_as_browsers_turn_it() {
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
        turn(&mut request, parse("https://a.example/b").unwrap(), status);
        assert_eq!(request.method, then, "{method} {status}");
        assert_eq!(request.body.is_empty(), method != then, "{method} {status}");
    }
}

#[test]
fn only_what_is_harmless_goes_to_another_origin() {
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
        turn(&mut request, parse(url).unwrap(), 302);
        assert_eq!(request.headers.len(), kept, "{url}");
        assert_eq!(request.headers[0].0, "Accept");
    }
}

#[test]
fn a_redirect_to_the_clear_or_to_nowhere_is_not_followed() {
    let paths = Paths(|path| match path {
        "/down" => to(302, "http://a.example/"),
        "/user" => to(302, "https://u:p@a.example/"),
        "/scheme" => to(302, "javascript:alert(1)"),
        "/none" => Response {
            status: 302,
            ..Response::default()
        },
        _ => to(302, "/next"),
    });
    let run = |path: &str| run(&paths, get(&format!("https://a.example{path}")));
    for path in ["/down", "/user", "/scheme"] {
        assert!(run(path).is_err(), "{path}");
    }
    let error = run("/loop").unwrap_err();
    let details = error.details().unwrap();
    assert_eq!(details["redirects"].as_array().unwrap().len(), REDIRECTS);
    assert_eq!(
        run("/none").unwrap().response.status,
        302,
        "it says nowhere"
    );
}
