//! Secrets split over the parts of a result.

use serde_json::json;

use super::super::Redactor;
use super::{TOKEN, private_key};

fn masked(parts: &[&str]) -> Vec<String> {
    let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    Redactor::new().mask_texts(&mut parts);
    parts
}

#[test]
fn split_token_is_masked_at_any_position() {
    for at in 0..=TOKEN.len() {
        let (head, tail) = TOKEN.split_at(at);
        let out = masked(&[&format!("first {head}"), &format!("{tail} last")]);
        assert!(
            out[0].starts_with("first ") && out[1].ends_with(" last"),
            "{out:?}"
        );
        assert!(
            !out[0].contains("ghp") && !out[1].contains("5oKi"),
            "{out:?}"
        );
    }
}

#[test]
fn split_token_of_single_letters_is_masked() {
    let letters: Vec<String> = TOKEN.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let out = masked(&letters).concat();
    assert_eq!(out, "[REDACTED:github-pat]".repeat(TOKEN.len()));
}

#[test]
fn split_private_key_is_masked() {
    let key = private_key();
    let lines: Vec<&str> = key.lines().collect();
    assert!(!masked(&lines).concat().contains("MIIE"));
    let (head, tail) = key.split_at(500);
    assert_eq!(masked(&[head, tail]), ["[REDACTED:private-key]"; 2]);
    let (head, tail) = key.split_at(10);
    assert_eq!(masked(&[head, tail]), ["[REDACTED:private-key]"; 2]);
}

#[test]
fn split_parts_do_not_hide_a_whole_secret() {
    // Joined with its neighbours, it would not be a token any more.
    let out = masked(&["word", "AKIALALEMEL33243OLIB", "word"]);
    assert_eq!(out, ["word", "[REDACTED:aws-access-token]", "word"]);
}

#[test]
fn split_parts_without_secrets_are_unchanged() {
    assert_eq!(
        masked(&["a key: ", "", "and more"]),
        ["a key: ", "", "and more"]
    );
    assert_eq!(masked(&[]), Vec::<String>::new());
}

#[test]
fn split_token_in_list_items_is_masked() {
    let (head, tail) = TOKEN.split_at(12);
    let mut value = serde_json::json!({"chunks": [head, tail], "other": [tail]});
    Redactor::new().mask_value(&mut value);
    assert_eq!(
        value,
        serde_json::json!({"chunks": ["[REDACTED:github-pat]", "[REDACTED:github-pat]"], "other": [tail]})
    );
}

#[test]
fn split_known_value_in_json_strings_is_masked() {
    let redactor = Redactor::new().with_values([("OWN", "my-own-secret-value-1234")]);
    for value in [
        serde_json::json!({"list": ["my-own-secr", "et-value-1234"]}),
        serde_json::json!({"exitCode": 0, "stdout": "my-own-secr", "stderr": "et-value-1234"}),
        serde_json::json!({"stdout": "my-own-secr\n", "ok": true, "n": 1.5, "stderr": "et-value-1234\n"}),
        serde_json::json!({"a": "it is my-own-secr", "b": {"c": ["et-value-1234 it is"]}}),
    ] {
        // Plain text, pretty-printed text, a JSON string, and text together with the value.
        let text = value.to_string();
        for text in [
            text.clone(),
            format!("{value:#}"),
            serde_json::json!({ "out": text }).to_string(),
        ] {
            let mut alone = text;
            assert!(redactor.mask_text(&mut alone) > 0, "{alone}");
            assert!(
                !alone.contains("my-own") && !alone.contains("value-1234"),
                "{alone}"
            );
        }
    }
    let mut value = serde_json::json!({"stdout": "my-own-secr\n", "stderr": "et-value-1234\n"});
    let mut text = "my-own-secr\net-value-1234\n".to_owned();
    redactor.mask_all([&mut text], Some(&mut value));
    let whole = format!("{text}{value}");
    assert!(
        !whole.contains("my-own") && !whole.contains("value-1234"),
        "{whole}"
    );
    assert!(value["stdout"].is_string() && value["stderr"].is_string());
}

#[test]
fn split_token_in_fields_and_text_is_masked() {
    let (head, tail) = TOKEN.split_at(20);
    for mut value in [
        serde_json::json!({"stdout": format!("{head}\n"), "stderr": format!("{tail}\n"), "exitCode": 0}),
        serde_json::json!([head, tail]),
    ] {
        let mut text = value.to_string();
        Redactor::new().mask_all([&mut text], Some(&mut value));
        let whole = format!("{text}{value}");
        assert!(!whole.contains(head) && !whole.contains(tail), "{whole}");
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).is_ok(),
            "{text}"
        );
    }
    // A match of a generic rule across two fields is not a secret.
    let mut apart = serde_json::json!({"name": "api_key =", "id": "8fk2J9sL0pQ7xZ3vB6nM"});
    let before = apart.clone();
    Redactor::new().mask_all([], Some(&mut apart));
    assert_eq!(apart, before);
}

/// The known value of the tests below.
const OWN: &str = "my-own-secret-value-1234";

fn own() -> Redactor {
    Redactor::new().with_values([("OWN", OWN)])
}

#[test]
fn split_known_value_in_neighbouring_keys_and_strings_is_masked() {
    let base64 = "bXktb3duLXNlY3JldC12YWx1ZS0xMjM0";
    for (head, tail) in [
        ("my-own-secr", "et-value-1234"),
        ("m", "y-own-secret-value-1234"),
        ("my-own-secret-value-123", "4"),
        base64.split_at(15),
    ] {
        for value in [
            json!({head: tail}),
            json!({"a": {head: tail}}),
            json!({head: {tail: 1}}),
            json!({"a": format!("it is {head}"), tail: true}),
            json!({"a": format!("it is {head}"), "b": [format!("{tail} it is")]}),
            json!([[head], 5, {"x": [tail]}]),
            json!([{"line": format!("{head}\n")}, {"line": format!("{tail}\n")}]),
        ] {
            let mut masked = value.clone();
            own().mask_value(&mut masked);
            let marks = masked.to_string().matches("[REDACTED:secret:OWN]").count();
            assert_eq!(marks, 2, "{value} {masked}");
        }
    }
}

#[test]
fn split_token_in_key_and_value_is_masked() {
    let (head, tail) = TOKEN.split_at(20);
    let mut value = json!({"count": 1, head: tail, "more": "x"});
    Redactor::new().mask_value(&mut value);
    let mark = "[REDACTED:github-pat]";
    assert_eq!(value, json!({"count": 1, mark: mark, "more": "x"}));
}

#[test]
fn split_secret_of_a_text_is_masked_in_reordered_strings() {
    for (before, secret) in [("it is ", OWN), ("", TOKEN), ("DB_PASSWORD=", "hunter22")] {
        for at in 1..secret.len() {
            let (head, tail) = secret.split_at(at);
            let stderr = format!("{before}{head}");
            let mut text = format!("{stderr}{tail}\nexit code 0");
            let mut value = json!({"exitCode": 0, "stdout": format!("{tail}\n"), "stderr": stderr});
            own().mask_all([&mut text], Some(&mut value));
            assert!(!text.contains(secret), "{text}");
            let (out, err) = (&value["stdout"], &value["stderr"]);
            assert!(
                out.as_str().unwrap().starts_with("[REDACTED:"),
                "{at} {value}"
            );
            assert!(err.as_str().unwrap().ends_with(']'), "{at} {value}");
        }
    }
}

#[test]
fn split_pieces_without_their_counterpart_are_unchanged() {
    let value = json!({
        "head": "the name is my-own", "tail": "-1234 is a number", "inner": "secret-value",
        "my-own": "value-1234", "list": ["12", "34", "m", "y"],
    });
    let mut masked = value.clone();
    let mut text = format!("it is {OWN}");
    own().mask_all([&mut text], Some(&mut masked));
    assert_eq!(text, "it is [REDACTED:secret:OWN]");
    assert_eq!(masked, value);
    // A short value may be parts of two words.
    let mut date = json!({"year": "20", "days": ["24"]});
    let short = Redactor::new().with_values([("PIN", "2024")]);
    assert_eq!(short.mask_value(&mut date), 0);
}

#[test]
fn split_search_in_repetitive_strings_is_bounded() {
    let value = "ab".repeat(500);
    let redactor = Redactor::new().with_values([("OWN", value.as_str())]);
    let strings = vec![value[..700].to_owned(); 100];
    let mut structured = json!({"first": "-", "strings": strings});
    let mut text = format!("it is {value}");
    redactor.mask_all([&mut text], Some(&mut structured));
    assert_eq!(text, "it is [REDACTED:secret:OWN]");
    assert!(!structured.to_string().contains("abab"));
}
