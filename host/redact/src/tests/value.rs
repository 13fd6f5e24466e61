//! Structured values.

use serde_json::{Value, json};

use super::super::Redactor;
use super::{TOKEN, private_key};

fn masked(mut value: Value) -> Value {
    Redactor::new().mask_value(&mut value);
    value
}

#[test]
fn value_strings_and_keys_are_masked_at_any_depth() {
    let out = masked(
        json!({"a": [{"b": format!("x {TOKEN}")}], TOKEN: 1, "n": 1.50, "t": true, "z": null}),
    );
    assert_eq!(
        out,
        json!({"a": [{"b": "x [REDACTED:github-pat]"}], "[REDACTED:github-pat]": 1, "n": 1.50, "t": true, "z": null})
    );
    let order: Vec<&String> = out.as_object().unwrap().keys().collect();
    assert_eq!(order, ["a", "[REDACTED:github-pat]", "n", "t", "z"]);
}

#[test]
fn value_secret_keys_remain_separate_entries() {
    let other = TOKEN.replace("8aZq", "9bYr");
    let out = masked(json!({TOKEN: 1, &other: 2}));
    assert_eq!(
        out,
        json!({"[REDACTED:github-pat]": 1, "[REDACTED:github-pat] 2": 2})
    );
}

#[test]
fn value_of_a_secret_key_is_masked() {
    let out = masked(json!({
        "password": "7", "db": {"adminPassword": "hunter2", "port": 5432}, "passwords": ["a"],
        "password_list": ["a"], "pin": {"password": 123, "secret": true, "token": ""},
    }));
    assert_eq!(out["password"], "[REDACTED:key:password]");
    assert_eq!(
        out["db"],
        json!({"adminPassword": "[REDACTED:key:password]", "port": 5432})
    );
    // Schemas may require short numbers and booleans; plurals and lists of names are not passwords.
    assert_eq!(
        out["pin"],
        json!({"password": 123, "secret": true, "token": ""})
    );
    assert_eq!(out["password_list"], json!(["a"]));
    assert_eq!(
        masked(json!({"apiKey": ["k3y-0ne-1", "k3y-tw0-2"]})),
        json!({"apiKey": ["[REDACTED:key:api-key]", "[REDACTED:key:api-key]"]})
    );
}

#[test]
fn value_with_a_secret_name_field_is_masked() {
    let out = masked(
        json!({"env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "PATH", "value": "/bin"}]}),
    );
    assert_eq!(
        out,
        json!({"env": [{"name": "DB_PASSWORD", "value": "[REDACTED:key:password]"}, {"name": "PATH", "value": "/bin"}]})
    );
}

#[test]
fn value_similar_to_secrets_is_unchanged() {
    for value in [
        json!({"tokens": 123, "tokenCount": 4, "token": "word", "secret": true}),
        json!({"type": "object", "required": ["password"], "properties": {"password": {"type": "string", "description": "The password of the user"}}}),
        json!({"name": "password", "in": "query", "required": true}),
        json!({"token": "identifier", "kind": "key", "nextPageToken": "CAUQAA12xYzAbC"}),
        json!({"path": "src/auth/token.rs", "line": 12, "text": "let token = next_token();"}),
        json!({"commit": "b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b", "author": "A <a@b.c>"}),
        json!({"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}),
        json!({"id": "550e8400-e29b-41d4-a716-446655440000", "next": "https://h/x?page=2"}),
    ] {
        assert_eq!(masked(value.clone()), value);
    }
}

#[test]
fn value_is_matched_together_with_its_key() {
    let out = masked(json!({"adobe_client": "d1f4a3b2c5e6f7089a0b1c2d3e4f5a6b"}));
    assert_eq!(out, json!({"adobe_client": "[REDACTED:adobe-client-id]"}));
}

#[test]
fn value_list_of_private_key_lines_is_masked() {
    let lines: Vec<String> = private_key().lines().map(str::to_owned).collect();
    let out = masked(json!({"lines": lines, "count": 22}));
    let text = out.to_string();
    assert!(
        !text.contains("MIIE") && text.contains("private-key"),
        "{text}"
    );
    assert_eq!(out["lines"].as_array().unwrap().len(), 22);
}

#[test]
fn value_cut_private_key_does_not_mask_the_next() {
    let key = private_key();
    let out = masked(json!({"pem": &key[..400], "size": 5, "next": "x"}));
    assert_eq!(
        out,
        json!({"pem": "[REDACTED:private-key]", "size": 5, "next": "x"})
    );
}

#[test]
fn value_masking_keeps_strings_and_is_idempotent() {
    let once = masked(json!({"password": "x", "text": TOKEN, "authorization": "Bearer 12345678"}));
    assert!(once.as_object().unwrap().values().all(Value::is_string));
    assert_eq!(masked(once.clone()), once);
}

#[test]
fn value_numbers_of_secret_keys_are_masked() {
    let mut value = json!({"password": 12_345_678, "port": 5432, "db": {"pin_password": [9876, 1]}, "token": 5});
    assert_eq!(Redactor::new().mask_value(&mut value), 2);
    assert_eq!(
        value,
        json!({
            "password": "[REDACTED:key:password]", "port": 5432,
            "db": {"pin_password": ["[REDACTED:key:password]", 1]}, "token": 5,
        })
    );
}

#[test]
fn value_secret_split_from_a_text_is_masked() {
    for at in [6, 20, 34] {
        let (head, tail) = TOKEN.split_at(at);
        let mut text = format!("it is {head}");
        let mut value = json!({"rest": tail, "more": "x"});
        let marks = Redactor::new()
            .mask_all([&mut text], Some(&mut value))
            .count();
        assert!(marks > 0, "{at}");
        let whole = format!("{text}{value}");
        assert!(!whole.contains(tail) && !text.contains(head), "{whole}");
    }
    let known = Redactor::new().with_values([("OWN", "my-own-secret-value")]);
    let (mut text, mut value) = ("my-own-se".to_owned(), json!(["cret-value"]));
    assert_eq!(known.mask_all([&mut text], Some(&mut value)).count(), 2);
    assert_eq!(
        (text.as_str(), &value),
        ("[REDACTED:secret:OWN]", &json!(["[REDACTED:secret:OWN]"]))
    );
}
