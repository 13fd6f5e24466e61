//! Keys of secrets, and of other values.

use super::*;

fn holds(key: &str, value: &str) -> bool {
    secret_kind(key.as_bytes()).is_some_and(|kind| kind.is_secret(value.as_bytes()))
}

#[test]
fn keys_of_secrets_are_recognized() {
    for (key, value) in [
        ("password", "hunter2"),
        ("DB_PASSWORD", "a b"),
        ("adminPasswd", "x1"),
        ("apiKey", "k-12345"),
        ("x-api-key", "abcdef"),
        ("aws_secret_access_key", "wJalrXUtnFEMI"),
        ("client_secret", "shhhhh"),
        ("privateKey", "-----BEGIN"),
        ("access_token", "abcdefgh"),
        ("Authorization", "Bearer abcdef"),
        ("token", "8f3k2j9d0s1l"),
        ("secret", "Zm9vYmFyMTIz"),
        ("credentials", "AbCd12345"),
    ] {
        assert!(holds(key, value), "{key}: {value}");
    }
}

#[test]
fn keys_of_ordinary_values_are_ignored() {
    for (key, value) in [
        ("tokenCount", "abc123def456"),
        ("token", "word"),
        ("token", "identifier"),
        ("nextPageToken", "CAUQAA12xYzAbC"),
        ("secret", "true"),
        ("primaryKey", "abc123def456"),
        ("accessKey", "s"),
        ("monkey", "abc123def456"),
        ("password", ""),
        ("password", "string"),
        ("password", "${DB_PASSWORD}"),
        ("password", "$DB_PASSWORD"),
        ("password", "%DB_PASSWORD%"),
        ("password", "********"),
        ("password", "<your password>"),
        ("password", "[REDACTED:key:password]"),
        ("private_key", "/etc/ssl/key.pem"),
        ("PWD", "/home/someone/work"),
        ("pwd", "C:\\work"),
        ("token", "https://h1.example/oauth2/token"),
        ("credentials", "arn:aws:iam::123:policy/Credentials4"),
        ("Authorization", "Bearer <token>"),
        ("apiKey", "Enter your key"),
    ] {
        assert!(!holds(key, value), "{key}: {value}");
    }
}

#[test]
fn keys_in_nested_json_text_are_found() {
    let value = |text: &str, word: &str| {
        let at = text.find(word).unwrap();
        let mut hits = find_in_text(text.as_bytes(), at..at + word.len()).into_iter();
        hits.next().map(|hit| text[hit.at].to_owned())
    };
    let expected = Some("hun\"ter2\\".to_owned());
    let plain = serde_json::json!({"dbPassword": "hun\"ter2\\", "x": 1}).to_string();
    assert_eq!(value(&plain, "Password"), Some(r#"hun\"ter2\\"#.to_owned()));
    let nested = serde_json::json!({"body": plain}).to_string();
    let inner = value(&nested, "Password").unwrap();
    let once: String = serde_json::from_str(&format!("\"{inner}\"")).unwrap();
    assert_eq!(serde_json::from_str(&format!("\"{once}\"")).ok(), expected);
    assert_eq!(
        value("{'password' : 'hunter2'}", "password"),
        Some("hunter2".to_owned())
    );
    assert_eq!(
        value("{\"password\": \"hunter2", "password"),
        Some("hunter2".to_owned())
    );
    let values = |text: &str| -> Vec<String> {
        let at = text.find("password").unwrap();
        let hits = find_in_text(text.as_bytes(), at..at + "password".len());
        hits.into_iter()
            .map(|hit| text[hit.at].to_owned())
            .collect()
    };
    let list =
        serde_json::json!({"password": ["one", {"user": "me"}, ["t]wo"], 3], "next": ["free"]});
    assert_eq!(values(&list.to_string()), ["one", "t]wo"]);
    let nested = serde_json::json!({"body": list.to_string()}).to_string();
    assert_eq!(values(&nested), ["one", "t]wo"]);
    assert_eq!(values("{\"password\": [\"open"), ["open"]);
    assert_eq!(value("{\"password\": 12}", "password"), None);
    assert_eq!(value("the password: x", "password"), None);
    assert_eq!(value("\"password_hint\": \"x\"", "password"), None);
}
