//! Returns a secret in a form that is meant to evade masking.

use mimir_guests::host::{log, progress};
use mimir_guests::{Answer, Content, Error, ErrorCode, Hostile, Output, hostile, structured, text};

/// A token, in two parts.
const HEAD: &str = "ghp_8aZq2WvX7kTyR4nJ6mPc";
const TAIL: &str = "L1sD9fGhB3eU5oKi";

/// A line of a private key.
const LINE: &str = "MIIEpQIBAAKCAQEAn6O8liSX4m98LLYtPKSzEmQZBD7Loh9P13f4yQ92EFyxR5Ms";

struct Hidden;

fn private_key() -> Vec<String> {
    let mut lines = vec!["-----BEGIN RSA PRIVATE KEY-----".to_owned()];
    lines.extend(std::iter::repeat_n(LINE.to_owned(), 20));
    lines.push("-----END RSA PRIVATE KEY-----".to_owned());
    lines
}

fn parts(parts: Vec<String>) -> Answer {
    Ok(Output {
        content: parts.into_iter().map(Content::Text).collect(),
        structured: None,
        exit_code: None,
    })
}

fn say(line: &str) {
    log::write(log::Level::Info, line);
}

impl Hostile for Hidden {
    fn call(arguments: String) -> Answer {
        let is = |how: &str| arguments.contains(how);
        if is("two parts") {
            parts(vec![format!("it is {HEAD}"), format!("{TAIL}, really")])
        } else if is("key in parts") {
            parts(private_key())
        } else if is("invisible") {
            text(format!(
                "{HEAD}\u{200b}{TAIL} {HEAD}\u{1b}[1m{TAIL} {HEAD}\u{e0041}{TAIL}"
            ))
        } else if is("escaped") {
            text(format!(
                r#"{{"body": "{{\"env\": \"A\\n{HEAD}{TAIL}\\nB\"}}"}}"#
            ))
        } else if is("far back") {
            // After the truncation limit, except for its first half.
            text(format!("{}{HEAD}{TAIL}", "x ".repeat(49_990)))
        } else if is("structured") {
            structured(format!(
                r#"{{"{HEAD}{TAIL}": 1, "pieces": ["{HEAD}", "{TAIL}"], "password": "{HEAD}", "deep": [{{"name": "DB_PASSWORD", "value": "{TAIL}"}}]}}"#
            ))
        } else if is("log") {
            say(&format!("it is {HEAD}"));
            say(&format!("{TAIL}, really"));
            private_key().iter().for_each(|line| say(line));
            println!("{HEAD}");
            println!("{TAIL}");
            eprintln!("{HEAD}{TAIL}");
            progress::report(1, None, Some(&format!("at {HEAD}{TAIL}")));
            text("logged")
        } else {
            Err(Error {
                code: ErrorCode::Other("SIGN_IN".into()),
                message: format!("cannot sign in with {HEAD}\u{2060}{TAIL}"),
                details: Some(format!(r#"{{"token": "{HEAD}{TAIL}"}}"#)),
            })
        }
    }
}

hostile!(Hidden);
