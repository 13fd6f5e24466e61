//! Single texts.

use super::super::Redactor;
use super::{TOKEN, private_key};

fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    Redactor::new().mask_text(&mut text);
    text
}

#[test]
fn text_around_a_secret_is_unchanged() {
    assert_eq!(
        masked(&format!("export GITHUB_TOKEN={TOKEN} # mine")),
        "export GITHUB_TOKEN=[REDACTED:github-pat] # mine"
    );
    assert_eq!(masked("nothing to see here"), "nothing to see here");
    assert_eq!(masked(""), "");
}

#[test]
fn text_masked_twice_does_not_change() {
    for text in [
        format!("api_key = \"{TOKEN}\""),
        r#"{"password": "hunter2"}"#.to_owned(),
        private_key(),
    ] {
        let once = masked(&text);
        assert_ne!(once, text);
        assert_eq!(masked(&once), once);
    }
}

#[test]
fn invisible_characters_in_a_token_do_not_hide_it() {
    let (head, tail) = TOKEN.split_at(20);
    for veil in [
        "\u{200b}",
        "\u{200d}",
        "\u{ad}",
        "\u{1b}[1m",
        "\\u{2060}\\u{202e}",
    ] {
        let text = format!("x {head}{veil}{tail} y");
        assert_eq!(masked(&text), "x [REDACTED:github-pat] y", "{veil:?}");
    }
    // Colour codes next to a token are not part of its word.
    let text = "\u{1b}[31mAKIALALEMEL33243OLIB\u{1b}[0m";
    assert_eq!(
        masked(text),
        "\u{1b}[31m[REDACTED:aws-access-token]\u{1b}[0m"
    );
}

#[test]
fn gitleaks_allow_comment_is_ignored() {
    assert!(!masked(&format!("{TOKEN} # gitleaks:allow")).contains("ghp_"));
}

#[test]
fn private_key_is_masked_whole_cut_or_escaped() {
    let key = private_key();
    assert_eq!(
        masked(&format!("a\n{key}\nb")),
        "a\n[REDACTED:private-key]\nb"
    );
    let cut = &key[..700];
    assert_eq!(
        masked(&format!("a\n{cut}\n")),
        "a\n[REDACTED:private-key]\n"
    );
    let escaped = serde_json::to_string(cut).unwrap();
    assert_eq!(
        masked(&format!("{{\"pem\": {escaped}}}")),
        "{\"pem\": \"[REDACTED:private-key]\"}"
    );
    let encrypted =
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n";
    let cut = format!("{encrypted}{}", &key[key.find("MII").unwrap()..300]);
    assert_eq!(masked(&cut), "[REDACTED:private-key]");
    let numbered: Vec<String> = cut
        .lines()
        .zip(8..)
        .map(|(line, n)| format!("{n}: {line}"))
        .collect();
    let masked_lines = masked(&numbered.join("\n"));
    assert!(
        masked_lines.starts_with("8: [REDACTED:private-key]") && !masked_lines.contains("MIIE")
    );
    // Two keys, the first one cut: both are masked, and the text between them stays.
    let both = format!("{}\nand\n{key}", &key[..300]);
    assert_eq!(
        masked(&both),
        "[REDACTED:private-key]\nand\n[REDACTED:private-key]"
    );
    let code = "const BEGIN: &str = \"-----BEGIN PRIVATE KEY-----\";\nfn parse() { /* some code that is long enough to be no mistake */ }\nconst END: &str = \"-----END PRIVATE KEY-----\";";
    assert_eq!(masked(code), code);
    let talk = "A file that begins with -----BEGIN RSA PRIVATE KEY----- is a private key.";
    assert_eq!(masked(talk), talk);
    // A public key is public.
    let public = key.replace("RSA PRIVATE", "PUBLIC");
    assert_eq!(masked(&public), public);
}

#[test]
fn kubernetes_secret_entries_are_masked() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  user: YWRtaW5pc3RyYXRvcg==\n  password: UyFCXCpkJHpEc2I9\n  url: cG9zdGdyZXM6Ly9kYg==\ntype: Opaque\n";
    let out = masked(text);
    assert_eq!(
        out.matches("[REDACTED:kubernetes-secret-yaml]").count(),
        3,
        "{out}"
    );
    assert!(
        out.contains("  name: db\n") && out.ends_with("type: Opaque\n"),
        "{out}"
    );
}

#[test]
fn curl_headers_and_users_are_masked() {
    let out = masked(
        "curl -H \"Authorization: Bearer 8f3k2j9d0s1l7x6z\" -H 'X-Api-Key: k4j5h6g7f8d9s0a1' http://h\ncurl -u ann:hunter2pw a.b; curl -u bob:tr0ub4dor c.d",
    );
    for secret in ["8f3k2j9d", "k4j5h6g7", "hunter2pw", "tr0ub4dor"] {
        assert!(!out.contains(secret), "{out}");
    }
}

#[test]
fn url_password_is_masked() {
    assert_eq!(
        masked("postgres://app:s3cr3tpw@db:5432/x"),
        "postgres://app:[REDACTED:url-password]@db:5432/x"
    );
    assert_eq!(
        masked("redis://:s3cr3tpw@cache"),
        "redis://:[REDACTED:url-password]@cache"
    );
    for plain in [
        "https://host:8080/a@b",
        "http://user:password@host",
        "https://user:${TOKEN}@host",
        "https://medium.com/@someone",
    ] {
        assert_eq!(masked(plain), plain);
    }
}

#[test]
fn json_text_values_of_secret_keys_are_masked() {
    assert_eq!(
        masked(r#"{"user":"ann","password":"p w"}"#),
        r#"{"user":"ann","password":"[REDACTED:key:password]"}"#
    );
    let nested = serde_json::json!({"body": r#"{"password": "hunter2", "n": 1}"#}).to_string();
    let out = masked(&nested);
    assert!(!out.contains("hunter2"), "{out}");
    let outer: serde_json::Value = serde_json::from_str(&out).unwrap();
    let inner: serde_json::Value = serde_json::from_str(outer["body"].as_str().unwrap()).unwrap();
    assert_eq!(inner["n"], 1);
}

#[test]
fn json_text_numbers_of_secret_keys_are_masked() {
    for (text, expected) in [
        (
            r#"{"password": 12345678, "port": 5432}"#,
            r#"{"password": "[REDACTED:key:password]", "port": 5432}"#,
        ),
        (
            r#"{"db": {"pin_password": [9876, 1, "a b"]}}"#,
            r#"{"db": {"pin_password": ["[REDACTED:key:password]", 1, "[REDACTED:key:password]"]}}"#,
        ),
        (r#"{"password": 123}"#, r#"{"password": 123}"#),
        (r#"{"password": 1234abc}"#, r#"{"password": 1234abc}"#),
        (r#"{"token": 123456}"#, r#"{"token": 123456}"#),
        (
            r#"{"password": "12345678"}"#,
            r#"{"password": "[REDACTED:key:password]"}"#,
        ),
    ] {
        assert_eq!(masked(text), expected);
        assert_eq!(masked(expected), expected);
    }
    let inner = serde_json::json!({"body": r#"{"password": 12345678}"#}).to_string();
    let outer: serde_json::Value = serde_json::from_str(&masked(&inner)).unwrap();
    assert!(!outer["body"].as_str().unwrap().contains("12345678"));
}

#[test]
fn json_text_nested_in_json_is_masked() {
    let mut text =
        "a\nAKIALALEMEL33243OLIB\nadobe_id = \"d1f4a3b2c5e6f7089a0b1c2d3e4f5a6b\"\nend".to_owned();
    for depth in 0..4 {
        let out = masked(&text);
        let marks = ["[REDACTED:aws-access-token]", "[REDACTED:adobe-client-id]"];
        assert!(marks.iter().all(|mark| out.contains(mark)), "{depth} {out}");
        if depth > 0 {
            assert!(
                serde_json::from_str::<serde_json::Value>(&out).is_ok(),
                "{out}"
            );
        }
        text = serde_json::json!({"body": text}).to_string();
    }
}

#[test]
fn binary_data_around_a_token_is_searched() {
    let mut bytes = vec![0xff, 0xfe, b' '];
    bytes.extend_from_slice(TOKEN.as_bytes());
    bytes.push(0x80);
    let findings = Redactor::new().find(&bytes);
    assert_eq!(
        (findings.len(), findings[0].start, findings[0].end),
        (1, 3, 3 + TOKEN.len())
    );
}

/// Maximum step of the clock of [`busy`], in seconds.
const TICK: f64 = 0.01;

/// CPU time of this thread in seconds, so that other load on the machine does not matter.
fn busy() -> f64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let scheduled = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = scheduled.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |all| all / 1e9)
}

/// A text of nothing but anchors takes time linear in its length, not quadratic.
#[test]
fn hostile_text_takes_linear_time() {
    let units = [
        "key=",
        "api_key=a,",
        "curl ",
        "curl -H \"X-Api-Key: abcd1234efgh\" ",
        "kind: secret data: ",
        "-----BEGIN PRIVATE KEY-----",
        "<add key=\"Password\" value=\"",
        "\"password\":\"",
        "://a:",
        "-eyAAAAAAAAAAAAAAAAAAAA",
        "facebook 1234567890123456",
        "key\\=",
        "api_key\\\":\\\"abc ",
        "curl\\n ",
        "password=correct-horse-7 ",
        "\"password\":12345678,",
        "[12345678",
    ];
    for unit in units {
        let time = |bytes: usize| {
            let mut text = unit.repeat(bytes / unit.len());
            let start = busy();
            Redactor::new().mask_text(&mut text);
            busy() - start
        };
        let (small, large) = (time(1 << 13), time(1 << 17));
        // Sixteen times the length takes sixteen times as long; quadratic would be 256 times.
        assert!(
            large < 80.0 * small.max(TICK),
            "{unit}: {small} s, then {large} s"
        );
    }
}
