//! Detects credentials in command arguments, URLs, variables and headers, so that output masks them and imports refuse
//! them.
//!
//! Out of scope: storing or replacing the credentials.

use std::ops::Range;

use mimir_core::redact::Redactor;
use mimir_core::text::visible;

/// Replacement for a credential.
const MASK: &str = "[REDACTED]";

/// Minimum length of a run of letters and digits that counts as a credential.
const MIN_OPAQUE_LENGTH: usize = 16;

/// Words that mark a name as the name of a secret.
const SECRET_WORDS: [&str; 24] = [
    "key",
    "keys",
    "apikey",
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "bearer",
    "pat",
    "dsn",
    "jwt",
    "sig",
    "signature",
    "accesstoken",
    "accesskey",
];

/// Suffixes of words that mark a name as the name of a secret.
const SECRET_SUFFIXES: [&str; 5] = ["apikey", "token", "password", "passwd", "secret"];

/// Values that are not secrets, in any case.
const NO_SECRET_VALUES: [&str; 8] = ["", "true", "false", "none", "null", "yes", "no", "auto"];

/// Returns true if one of the words in a name marks a secret: `API_KEY` does; `KEYBOARD` and `MAX_TOKENS` do not.
pub fn is_secret_name(name: &str) -> bool {
    // The shell sets `PWD` to the current folder.
    if name == "PWD" {
        return false;
    }
    let mut word = String::new();
    let mut after_lowercase = false;
    let mut words = Vec::new();
    for c in name.chars() {
        let starts_word = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && after_lowercase);
        if starts_word {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        after_lowercase = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    // `--no-auth` has no value.
    if matches!(
        words.first().map(String::as_str),
        Some("no" | "disable" | "without")
    ) {
        return false;
    }
    let is_word = |word: &String| {
        SECRET_WORDS.contains(&word.as_str())
            || SECRET_SUFFIXES.iter().any(|end| word.ends_with(end))
    };
    words.iter().any(is_word)
}

/// Returns true if the value of a variable or header is or contains a secret.
pub fn value_has_secret(name: &str, value: &str) -> bool {
    let findings = Redactor::new().find(format!("{name}={value}").as_bytes());
    let in_value = |end: usize| end > name.len() + 1;
    (is_secret_name(name) && is_secret_value(value))
        || findings
            .iter()
            .any(|finding| in_value(finding.end) && !is_path(value))
        || !credential_ranges(value).is_empty()
}

/// Returns command arguments with secrets masked.
pub fn mask_words<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut previous = None;
    let each = words.into_iter().map(|word| {
        let shown = if is_option_value(previous, word) {
            MASK.to_owned()
        } else {
            mask_text(word)
        };
        previous = Some(word.as_str());
        shown
    });
    each.collect()
}

/// Returns true if one of the command arguments is or contains a secret.
pub fn words_have_secret<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let mut previous = None;
    words.into_iter().any(|word| {
        let previous = previous.replace(word);
        is_option_value(previous, word) || text_has_secret(word)
    })
}

/// Returns true if an argument or a URL contains a secret.
pub fn text_has_secret(text: &str) -> bool {
    !credential_ranges(text).is_empty()
}

/// Returns an argument or a URL with secrets masked.
pub fn mask_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for range in credential_ranges(text) {
        shown.push_str(&text[at..range.start]);
        shown.push_str(MASK);
        at = range.end;
    }
    shown.push_str(&text[at..]);
    mask_secrets(&shown)
}

/// Makes a text printable, and masks the secrets that are recognizable in any context.
pub fn mask_secrets(text: &str) -> String {
    let mut text = visible(text);
    Redactor::new().mask_text(&mut text);
    text
}

/// Returns true if an argument is the value of the secret option before it.
fn is_option_value(previous: Option<&str>, word: &str) -> bool {
    let named = previous.is_some_and(|option| {
        option.starts_with('-') && !option.contains(['=', ':', ' ']) && is_secret_name(option)
    });
    named && !word.starts_with('-') && is_secret_value(word)
}

/// Returns true if the value of a secret name is a secret, not a reference, a path or a value such as `true`.
fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    let bare = match value.split_once(' ') {
        Some((scheme, rest)) if is_scheme(scheme) => rest.trim(),
        _ => value,
    };
    let reference = bare.starts_with("${") && bare.find('}') == Some(bare.len() - 1);
    let is_absent = NO_SECRET_VALUES
        .iter()
        .any(|word| bare.eq_ignore_ascii_case(word));
    !(reference || is_absent || is_path(bare))
}

/// Returns true if a value is an absolute path, not a key that begins with `/`.
fn is_path(value: &str) -> bool {
    let absolute = value.starts_with('/') || value.get(1..3).is_some_and(|rest| rest == ":\\");
    absolute
        && !value.contains(['+', '=', '\n'])
        && !value.split(['/', '\\']).any(is_opaque)
        && Redactor::new().find(value.as_bytes()).is_empty()
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns true if a path segment looks generated, like a credential.
fn is_opaque(part: &str) -> bool {
    const KEY_PREFIXES: [&str; 6] = ["sk-", "sk_", "pk_", "rk_", "ghp_", "whsec_"];
    if part.len() >= 8 && KEY_PREFIXES.iter().any(|begins| part.starts_with(begins)) {
        return true;
    }
    let mut runs = part.split(|c: char| !c.is_ascii_alphanumeric());
    runs.any(|run| {
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        run.len() >= MIN_OPAQUE_LENGTH && digits >= 2 && digits < run.len()
    })
}

/// Returns the byte ranges of credentials in a text, in order and without overlaps.
fn credential_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Redactor::new()
        .find(text.as_bytes())
        .into_iter()
        .map(|finding| finding.start..finding.end)
        .collect();
    add_url_credentials(text, &mut ranges);
    add_named_values(text, &mut ranges);
    ranges.retain(|range| text.get(range.clone()).is_some_and(|part| !part.is_empty()));
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns true for a character that ends a word: whitespace, a quote or an angle bracket.
fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Adds the ranges of the user info of URLs, and of path and query parts that look like credentials.
fn add_url_credentials(text: &str, ranges: &mut Vec<Range<usize>>) {
    for (scheme, _) in text.match_indices("://") {
        let from = scheme + 3;
        let rest = &text[from..];
        let rest = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        let authority = &rest[..rest.find(['/', '?', '#', ';']).unwrap_or(rest.len())];
        if let Some((login, _)) = authority.rsplit_once('@') {
            ranges.push(from..from + login.len());
        }
        let mut at = from + authority.len();
        for part in rest[authority.len()..].split(['/', '?', '#', ';', '&', '=']) {
            if is_opaque(part) {
                ranges.push(at..at + part.len());
            }
            at += part.len() + 1;
        }
    }
}

/// Adds the ranges of values that follow a secret name: `name=value`, `Name: value`, `Bearer value`.
fn add_named_values(text: &str, ranges: &mut Vec<Range<usize>>) {
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut start = None;
    for (at, c) in text.char_indices() {
        if in_name(c) {
            start.get_or_insert(at);
            continue;
        }
        let Some(name_start) = start.take() else {
            continue;
        };
        let name = &text[name_start..at];
        let rest = &text[at + c.len_utf8()..];
        let from = at + c.len_utf8();
        let value = match c {
            '=' => {
                &rest[..rest
                    .find(|c| is_end(c) || matches!(c, '&' | '#' | ';' | ','))
                    .unwrap_or(rest.len())]
            }
            // Covers a complete header value, but not the `://` of a URL.
            ':' if !rest.starts_with("//") => {
                &rest[..rest.find(['"', '\'', '\n', '\r']).unwrap_or(rest.len())]
            }
            ' ' if name.eq_ignore_ascii_case("bearer") => {
                let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                if word.len() >= 8 && is_secret_value(word) {
                    ranges.push(from..from + word.len());
                }
                continue;
            }
            _ => continue,
        };
        if is_secret_name(name) && is_secret_value(value) {
            let space = value.len() - value.trim_start().len();
            ranges.push(from + space..from + value.trim_end().len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &[&str]) -> String {
        let list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
        let hides = words_have_secret(list.iter().map(String::as_str));
        let shown = mask_words(&list).join(" ");
        assert_eq!(hides, shown.contains("[REDACTED"), "{shown}");
        shown
    }

    #[test]
    fn secret_detection_masks_credentials_in_urls() {
        for (theirs, expected) in [
            ("https://h.example/mcp?a=b#c", "https://h.example/mcp?a=b#c"),
            (
                "https://me:pw@h.example/x",
                "https://[REDACTED]@h.example/x",
            ),
            ("https://tok3n@h.example", "https://[REDACTED]@h.example"),
            (
                "https://h.example/mcp?api_key=abc&x=1&accessToken=d",
                "https://h.example/mcp?api_key=[REDACTED]&x=1&accessToken=[REDACTED]",
            ),
            (
                "https://h.example/@me?to=a@b",
                "https://h.example/@me?to=a@b",
            ),
            (
                "https://h.example/mcp?sig=Zx8K%2B",
                "https://h.example/mcp?sig=[REDACTED]",
            ),
            (
                "https://h.example/mcp#token=Zx8K",
                "https://h.example/mcp#token=[REDACTED]",
            ),
            (
                "https://h.example/mcp;token=Zx8K",
                "https://h.example/mcp;token=[REDACTED]",
            ),
            (
                "https://h.example/s/sk-live-abcdef/mcp",
                "https://h.example/s/[REDACTED]/mcp",
            ),
            (
                "https://h.example/s/Zx8Kq2Lm9Rt4Vw7Yp3Bn6Hc1/mcp",
                "https://h.example/s/[REDACTED]/mcp",
            ),
            (
                "https://h.example/2025-11-25-release-notes/v1",
                "https://h.example/2025-11-25-release-notes/v1",
            ),
        ] {
            assert_eq!(mask_text(theirs), expected);
        }
    }

    #[test]
    fn secret_detection_masks_credentials_in_arguments() {
        assert_eq!(
            shown(&[
                "npx",
                "-y",
                "@scope/server",
                "me@host",
                "--api-key",
                "abc",
                "--token=x",
                "-v",
                "b"
            ]),
            "npx -y @scope/server me@host --api-key [REDACTED] --token=[REDACTED] -v b"
        );
        for (words, expected) in [
            (&["--key", "--other", "x"][..], "--key --other x"),
            (
                &["--header", "Authorization: Bearer Zx8Kq2"],
                "--header Authorization: [REDACTED]",
            ),
            (
                &["--header=X-Api-Key:Zx8Kq2"],
                "--header=X-Api-Key:[REDACTED]",
            ),
            (&["-e", "API_KEY=abc"], "-e API_KEY=[REDACTED]"),
            (
                &["sh", "-c", "curl -H 'Authorization: Bearer abc' x"],
                "sh -c curl -H 'Authorization: [REDACTED]' x",
            ),
            (
                &["postgresql://bob:hunter2@db.example/x"],
                "postgresql://[REDACTED]@db.example/x",
            ),
            (&["Bearer Zx8Kq2Lm9"], "Bearer [REDACTED]"),
            (&["-e", "API_KEY", "image"], "-e API_KEY image"),
            (&["--key-file", "/etc/key.pem"], "--key-file /etc/key.pem"),
            (&["--no-auth", "server"], "--no-auth server"),
            (
                &["--auth=none", "--max-tokens", "5"],
                "--auth=none --max-tokens 5",
            ),
        ] {
            assert_eq!(shown(words), expected);
        }
    }

    #[test]
    fn secret_detection_ignores_paths_and_placeholders() {
        for (name, value, secret) in [
            ("SSH_AUTH_SOCK", "/run/x", false),
            ("PUBLIC_KEY_PATH", "/x/y.pem", false),
            ("KEY", "/Zx8Kq2Lm9Rt4Vw7Yp3Bn6Hc1", true),
            ("AWS_SECRET", "/abc+d", true),
            ("MAX_TOKENS", "4000", false),
            ("GITHUBTOKEN", "x", true),
            ("X", "Server=a;Password=b", true),
            ("AUTHORIZATION", "Bearer ${NAME}", false),
            ("MODE", "fast", false),
        ] {
            assert_eq!(value_has_secret(name, value), secret, "{name}={value}");
        }
    }
}
