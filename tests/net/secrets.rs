//! Secrets at the sandbox boundary: a placeholder is replaced by the value in one header for one host, and nowhere
//! else.

use std::io::Write as _;

use mimir_core::audit::EventKind;
use mimir_testkit::{Testkit, ToolErrorCode, Value, json};

use super::site::{Site, reply};
use super::{change, fetch, granted};

const VALUE: &str = "Xq7-tR2mVb9-LpW4";

fn kit(settings: Value) -> Testkit {
    let kit = granted(settings).secret("SITE_KEY", VALUE);
    kit.secret("OTHER_KEY", "Zk3-uJ8nYc5-HdE1")
}

/// All output of the calls of a kit.
fn seen(kit: &Testkit) -> String {
    let log: Vec<_> = kit.log().into_iter().map(|line| line.text).collect();
    format!("{:?} {:?} {:?}", kit.events(), kit.cards(), log)
}

#[test]
fn secret_is_sent_in_its_declared_header_and_host() {
    let site = Site::says("ok");
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/"), "headers": {"Authorization": "Bearer $SITE_KEY"}});
    assert_eq!(fetch(&kit, json!([step]))[0]["status"], 200);
    let sent = format!("Bearer {VALUE}");
    assert_eq!(
        site.received()[0].header("authorization"),
        Some(sent.as_str())
    );
    let events = kit.events();
    let mut effects = events
        .iter()
        .filter(|event| event.event == EventKind::Effect);
    let named = format!("secret SITE_KEY for http://{}", site.address);
    assert!(effects.any(|event| event.subject.as_ref() == Some(&named) && event.ok));
    assert!(!seen(&kit).contains(VALUE));
}

#[test]
fn secret_placeholder_is_not_replaced_elsewhere() {
    let site = Site::says("ok");
    let other = format!("http://inside.example:{}/", site.address.port());
    let kit = kit(json!({"network": {"hosts": {"inside.example": "127.0.0.1"}}}));
    let steps = json!([
        {"url": site.url("/?key=$SITE_KEY")},
        {"url": site.url("/"), "headers": {"x-key": "$SITE_KEY"}},
        {"url": site.url("/"), "headers": {"authorization": "$OTHER_KEY"}},
        {"url": other, "headers": {"authorization": "$SITE_KEY"}},
    ]);
    let results = fetch(&kit, steps);
    assert!(
        results.iter().all(|result| result["status"] == 200),
        "{results:?}"
    );
    let received = site.received();
    let all = format!("{received:?}");
    assert!(
        !all.contains(VALUE) && !all.contains("Zk3-uJ8nYc5-HdE1"),
        "{all}"
    );
    assert_eq!(all.matches("mimir-secret-").count(), 4, "{all}");
}

#[test]
fn secret_placeholders_are_unique_per_call() {
    let site = Site::says("ok");
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/$SITE_KEY")});
    fetch(&kit, json!([step]));
    fetch(&kit, json!([step]));
    let received = site.received();
    assert_ne!(received[0].path(), received[1].path());
    assert_eq!(received[0].path().len(), "/mimir-secret-".len() + 32);
}

#[test]
fn secret_in_a_response_is_masked() {
    let site = Site::new(|received, stream| {
        let key = received
            .header("authorization")
            .unwrap_or_default()
            .to_owned();
        reply(stream, "200 OK", &format!("x-echo: {key}\r\n"), &key);
    });
    let kit = kit(json!({}));
    let step = json!({"url": site.url("/"), "headers": {"authorization": "$SITE_KEY"}});
    let outcome = kit.call("fetch", json!({"steps": [step]}));
    let shown = serde_json::to_string(&outcome).unwrap();
    assert!(!shown.contains(VALUE), "{shown}");
    assert!(shown.contains("[REDACTED:secret:SITE_KEY]"), "{shown}");
    assert_eq!(site.received()[0].header("authorization"), Some(VALUE));
}

/// Decodes hexadecimal bytes with dots between them.
fn undotted(text: &Value) -> String {
    let digits = text.as_str().unwrap().split_terminator('.');
    let bytes = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[test]
fn secret_reflected_by_a_server_is_masked_for_guests() {
    // The second half of the path selects the form of the response and its chunk size in bytes.
    let site = Site::new(|received, stream| {
        let key = received
            .header("authorization")
            .unwrap_or_default()
            .to_owned();
        let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = VALUE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut parts = received.path().split('/').skip(1);
        let form = match parts.next().unwrap() {
            "raw" => key.clone(),
            "hex" => hex,
            "HEX" => hex.to_uppercase(),
            "percent" => percent,
            "base64" => "QmVhcmVyIFhxNy10UjJtVmI5LUxwVzQ=".to_owned(),
            "last" => VALUE.to_owned(),
            other => panic!("{other}"),
        };
        let echo = format!("{{\"you\": \"sent {form} to us\"}}");
        let size: usize = parts.next().unwrap().parse().unwrap();
        if size == 0 {
            // A single stored block (RFC 1951, 3.2.4).
            let size = u16::try_from(echo.len()).unwrap();
            let sizes = [size.to_le_bytes(), (!size).to_le_bytes()].concat();
            let packed = [&[1][..], &sizes, echo.as_bytes()].concat();
            let length = packed.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: {length}\r\nx-echo: {form}\r\n\r\n"
            );
            let _ = stream.write_all(&[head.as_bytes(), &packed].concat());
            return;
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\nx-echo: {form}\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        for piece in echo.as_bytes().chunks(size) {
            let _ = stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes());
            let _ = stream.write_all(piece);
            let _ = stream.write_all(b"\r\n");
            let _ = stream.flush();
        }
        let _ = stream.write_all(format!("0\r\nx-end: {form}\r\n\r\n").as_bytes());
    });
    let kit = kit(json!({}));
    for form in ["raw", "hex", "HEX", "percent", "base64"] {
        for size in [0, 1, 7, 1000] {
            let url = site.url(&format!("/{form}/{size}"));
            let headers = json!({"authorization": "Bearer $SITE_KEY"});
            let step = json!({"url": url, "headers": headers, "dots": true});
            // The response to a later request may contain the secret of an earlier one.
            let last = json!({"url": site.url(&format!("/last/{size}")), "dots": true});
            let results = fetch(&kit, json!([step, last]));
            for (result, form) in results.iter().zip([form, "last"]) {
                let body = undotted(&result["body"]);
                assert!(
                    body.starts_with("{\"you\": \"sent ")
                        && body.contains("[REDACTED:secret:SITE_KEY]")
                        && body.ends_with(" to us\"}"),
                    "{form}/{size}: {body}"
                );
                let mut shown = body + &undotted(&result["headers"]["x-echo"]);
                if size > 0 {
                    shown += &undotted(&result["trailers"]["x-end"]);
                }
                for part in [
                    "tR2mVb9",
                    "7452326d5662",
                    "7452326D5662",
                    "%74%52%32",
                    "QzLXRSMm1WYjk",
                    "xNy10UjJtVmI5",
                ] {
                    assert!(!shown.contains(part), "{form}/{size}: {shown}");
                }
                assert_eq!(result["headers"].get("content-length"), None);
            }
        }
    }
    let received = site.received();
    let sent = format!("Bearer {VALUE}");
    assert_eq!(received[0].header("authorization"), Some(sent.as_str()));
}

#[test]
fn secret_unset_or_not_granted_is_not_sent() {
    let site = Site::says("ok");
    let step = json!({"url": site.url("/"), "headers": {"authorization": "$SITE_KEY"}});
    let unset = granted(json!({}));
    let outcome = unset.call("fetch", json!({"strict": true, "steps": [step]}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.remedies[0].contains("mimir secrets set SITE_KEY"));
    assert!(site.received().is_empty());

    let withheld = kit(json!({}));
    change(&withheld, |tool| tool.granted.secrets.clear());
    fetch(&withheld, json!([step]));
    assert_eq!(
        site.received()[0].header("authorization"),
        Some("$SITE_KEY"),
        "it has not even a placeholder"
    );
}

#[test]
fn secret_is_not_sent_over_plain_http() {
    let site = Site::says("ok");
    let url = format!("http://site.example:{}/", site.address.port());
    let kit = kit(json!({"network": {"hosts": {"site.example": "127.0.0.1"}}}));
    let step = json!({"url": url, "headers": {"x-key": "$OTHER_KEY"}});
    let outcome = kit.call("fetch", json!({"strict": true, "steps": [step]}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
    assert!(error.message.contains("without encryption"), "{error}");
    assert!(site.received().is_empty());
}
