//! Secrets split over the parts of a result.

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
    let all = format!("{text}{value}");
    assert!(
        !all.contains("my-own") && !all.contains("value-1234"),
        "{all}"
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
        let all = format!("{text}{value}");
        assert!(!all.contains(head) && !all.contains(tail), "{all}");
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
