use super::*;

fn pattern(text: &str) -> HostPattern {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn host_pattern_forms_match_only_their_targets() {
    for (text, matching, other) in [
        (
            "example.com",
            "http://example.com https://EXAMPLE.com.:8443/x http://ｅxample。com http://ex%61mple.com",
            "http://www.example.com http://example.com.evil.example http://example.org http://badexample.com http://example.co",
        ),
        (
            "*.Example.com.",
            "http://a.example.com http://a.b.example.com https://A.EXAMPLE.COM.",
            "http://example.com http://badexample.com http://a.example.com.evil.example http://evil.example/a.example.com",
        ),
        (
            "example.com:8443",
            "https://example.com:8443 http://example.com:8443",
            "https://example.com",
        ),
        (
            "https://example.com",
            "https://example.com https://example.com:443",
            "http://example.com https://example.com:8443 http://example.com:443",
        ),
        (
            "http://example.com:8080",
            "http://example.com:8080",
            "https://example.com:8080 http://example.com",
        ),
        (
            "HTTPS://*.example.com",
            "https://a.example.com",
            "http://a.example.com https://a.example.com:444",
        ),
        (
            "127.0.0.1",
            "http://127.0.0.1:99 http://0x7f.1 http://2130706433 http://[::ffff:127.0.0.1]",
            "http://127.0.0.2 http://localhost",
        ),
        ("0x7f.1:80", "http://127.0.0.1", "http://127.0.0.1:81"),
        (
            "[::1]",
            "http://[::1]:8080 http://[0:0:0:0:0:0:0:1]",
            "http://[::2] http://127.0.0.1 http://localhost",
        ),
        ("[::1]:80", "http://[::1]", "http://[::1]:81"),
        ("[::ffff:10.0.0.1]", "http://10.0.0.1", "http://10.0.0.2"),
        (
            "10.0.0.0/8",
            "http://10.1.2.3 http://012.1 http://[::ffff:10.0.0.1]",
            "http://11.0.0.0 http://ten.example",
        ),
        ("10.0.0.0/8:8080", "http://10.1.2.3:8080", "http://10.1.2.3"),
        (
            "[fd00::]/8",
            "http://[fd12::1]",
            "http://[fc00::1] http://[fe80::1]",
        ),
        ("fd00::/8:443", "https://[fd12::1]", "http://[fd12::1]"),
        (
            "localhost",
            "http://localhost:1234 http://LOCALHOST.",
            "http://a.localhost http://127.0.0.1 http://localhost.evil.example",
        ),
        (
            "bücher.example",
            "http://xn--bcher-kva.example http://BÜCHER.example",
            "http://bucher.example",
        ),
        ("*.com", "http://a.com", "http://com http://a.com.example"),
    ] {
        let pattern = pattern(text);
        for (urls, expected) in [(matching, true), (other, false)] {
            for url in urls.split_whitespace() {
                let target = RequestTarget::parse(url).unwrap_or_else(|e| panic!("{url}: {e}"));
                assert_eq!(pattern.matches(&target), expected, "{text} and {url}");
            }
        }
    }
}

#[test]
fn host_pattern_invalid_text_is_rejected_with_a_hint() {
    for (text, hint) in [
        ("", "neither a name nor"),
        ("*", "mode: any"),
        ("*:80", "mode: any"),
        ("**.example.com", "at the beginning"),
        ("*.*.example.com", "at the beginning"),
        ("a*.example.com", "at the beginning"),
        ("example.*", "at the beginning"),
        ("*.10.0.0.1", "at the beginning"),
        ("*.", "neither a name nor"),
        ("::1", "brackets"),
        ("fe80::1:8080", "brackets"),
        ("[::1", "brackets"),
        ("[::1]8080", "brackets"),
        ("[example.com]", "neither a name nor"),
        ("example.com:", "port"),
        ("example.com:0", "port"),
        ("example.com:65536", "port"),
        ("example.com:+80", "port"),
        ("example.com:８０", "port"),
        ("ftp://example.com", "http or https"),
        ("https://example.com/", "without path"),
        ("example.com/path", "without path"),
        ("user@example.com", "without path"),
        ("example.com?x", "without path"),
        ("example.com\\x", "without path"),
        ("10.0.0.0/33", "10.0.0.0/8"),
        ("10.0.0.0/+8", "10.0.0.0/8"),
        ("10.0.0.0/", "10.0.0.0/8"),
        ("example.com/8", "10.0.0.0/8"),
        ("10.1.2.3/8", "is written 10.0.0.0/8"),
        ("npmjs[.]com", "neither a name nor"),
        ("a..b", "labels"),
        (" example.com", "neither a name nor"),
        ("exam\nple.com", "neither a name nor"),
        ("1.2.3.256", "neither a name nor"),
    ] {
        let error = text.parse::<HostPattern>().unwrap_err().to_string();
        assert!(error.contains(hint), "{text:?}: {error}");
    }
}

#[test]
fn host_pattern_display_parses_back() {
    for text in [
        "example.com",
        "*.example.com",
        "example.com:8443",
        "https://example.com",
        "https://example.com:8443",
        "127.0.0.1",
        "[::1]:80",
        "10.0.0.0/8",
        "10.0.0.0/8:8080",
        "[fd00::]/8",
        "[fd00::]/8:443",
    ] {
        assert_eq!(pattern(text).to_string(), text);
    }
    assert_eq!(
        pattern("https://EXAMPLE.com:443").to_string(),
        "https://example.com"
    );
    assert_eq!(
        pattern(&pattern("0x7f.1").to_string()),
        pattern("127.0.0.1")
    );
}

#[test]
fn host_pattern_any_is_unparsable_and_names_no_host() {
    let any = HostPattern::any();
    assert_eq!(any.to_string(), "*");
    for text in ["*", "https://*", "*:443", "*."] {
        assert!(text.parse::<HostPattern>().is_err(), "{text}");
    }
    for url in [
        "https://a.example/",
        "http://127.0.0.1:8080/",
        "http://[::1]/",
    ] {
        let target = RequestTarget::parse(url).unwrap();
        assert!(any.matches(&target), "{url}");
        assert!(!any.names(&target), "{url}");
    }
    let named: HostPattern = "127.0.0.1".parse().unwrap();
    assert!(named.names(&RequestTarget::parse("http://127.1/").unwrap()));
}

#[test]
fn host_pattern_of_this_machine_is_recognized_in_every_form() {
    for text in [
        "localhost",
        "LOCALHOST.",
        "*.localhost",
        "http://*.a.localhost:80",
        "0x7f.1",
        "[::1]",
    ] {
        assert!(pattern(text).is_this_machine(), "{text}");
    }
    for text in [
        "example.com",
        "*.example.com",
        "*.notlocalhost",
        "192.0.2.1",
    ] {
        assert!(!pattern(text).is_this_machine(), "{text}");
    }
}
