//! Secrets split over the parts of a result.

use super::super::Redactor;
use super::{TOKEN, private_key};

fn masked(parts: &[&str]) -> Vec<String> {
    let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    Redactor::new().parts(&mut parts);
    parts
}

#[test]
fn a_token_split_anywhere() {
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
fn a_token_split_into_letters() {
    let letters: Vec<String> = TOKEN.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let out = masked(&letters).concat();
    assert_eq!(out, "[REDACTED:github-pat]".repeat(TOKEN.len()));
}

#[test]
fn a_private_key_split_between_and_inside_of_lines() {
    let key = private_key();
    let lines: Vec<&str> = key.lines().collect();
    assert!(!masked(&lines).concat().contains("MIIE"));
    let (head, tail) = key.split_at(500);
    assert_eq!(masked(&[head, tail]), ["[REDACTED:private-key]"; 2]);
    let (head, tail) = key.split_at(10);
    assert_eq!(masked(&[head, tail]), ["[REDACTED:private-key]"; 2]);
}

#[test]
fn whole_secrets_beside_words() {
    // Run together with its neighbours it would be no token any more.
    let out = masked(&["word", "AKIALALEMEL33243OLIB", "word"]);
    assert_eq!(out, ["word", "[REDACTED:aws-access-token]", "word"]);
}

#[test]
fn parts_that_have_nothing_stay() {
    assert_eq!(
        masked(&["a key: ", "", "and more"]),
        ["a key: ", "", "and more"]
    );
    assert_eq!(masked(&[]), Vec::<String>::new());
}

#[test]
fn strings_of_one_list() {
    let (head, tail) = TOKEN.split_at(12);
    let mut value = serde_json::json!({"chunks": [head, tail], "other": [tail]});
    Redactor::new().value(&mut value);
    assert_eq!(
        value,
        serde_json::json!({"chunks": ["[REDACTED:github-pat]", "[REDACTED:github-pat]"], "other": [tail]})
    );
}
