//! Keys that mark their value as a secret, in structured data and in JSON text.
//!
//! A key such as `password` is sufficient. A key such as `token` or `secret` has many other uses, so its value must
//! also look like a credential. Placeholders such as `${PASSWORD}`, `<token>`, `string` and `****` are never masked.

use std::ops::Range;

use super::false_positives;
use super::pattern::is_identifier;
use super::scan::SecretHit;

/// Last words of keys that may mark a secret. They are anchors in the scan of a text.
pub(super) const LAST_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "key",
    "authorization",
    "credential",
    "credentials",
];

/// The condition on the value under which a key marks it as a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyWeight {
    /// Every value is a secret.
    Any,
    /// Every value of a single word is a secret.
    OneWord,
    /// Every value is a secret, except for the path of a key file.
    NoPath,
    /// A value that consists of an authentication scheme and a credential is a secret.
    Scheme,
    /// Only values that look like credentials are secrets.
    Likely,
}

/// Endings of keys, in lower case and without separators, with their rules. The first match counts.
const ENDINGS: &[(&str, &str, KeyWeight)] = &[
    ("password", "key:password", KeyWeight::Any),
    ("passwd", "key:password", KeyWeight::Any),
    ("passphrase", "key:password", KeyWeight::Any),
    ("pwd", "key:password", KeyWeight::NoPath),
    ("secretaccesskey", "key:access-key", KeyWeight::OneWord),
    ("accesskey", "key:access-key", KeyWeight::OneWord),
    ("privatekey", "key:private-key", KeyWeight::NoPath),
    ("secretkey", "key:secret", KeyWeight::OneWord),
    ("clientsecret", "key:secret", KeyWeight::OneWord),
    ("appsecret", "key:secret", KeyWeight::OneWord),
    ("apisecret", "key:secret", KeyWeight::OneWord),
    ("consumersecret", "key:secret", KeyWeight::OneWord),
    ("sharedsecret", "key:secret", KeyWeight::OneWord),
    ("signingsecret", "key:secret", KeyWeight::OneWord),
    ("webhooksecret", "key:secret", KeyWeight::OneWord),
    ("apikey", "key:api-key", KeyWeight::OneWord),
    ("authkey", "key:api-key", KeyWeight::OneWord),
    ("signingkey", "key:api-key", KeyWeight::OneWord),
    ("encryptionkey", "key:api-key", KeyWeight::OneWord),
    ("masterkey", "key:api-key", KeyWeight::OneWord),
    ("accesstoken", "key:token", KeyWeight::OneWord),
    ("refreshtoken", "key:token", KeyWeight::OneWord),
    ("bearertoken", "key:token", KeyWeight::OneWord),
    ("authtoken", "key:token", KeyWeight::OneWord),
    ("apitoken", "key:token", KeyWeight::OneWord),
    ("sessiontoken", "key:token", KeyWeight::OneWord),
    ("authorization", "key:authorization", KeyWeight::Scheme),
    ("secret", "key:secret", KeyWeight::Likely),
    ("token", "key:token", KeyWeight::Likely),
    ("credential", "key:credential", KeyWeight::Likely),
    ("credentials", "key:credential", KeyWeight::Likely),
];

/// Names of pagination tokens, which are not credentials: if they were masked, the next page could not be read.
const CURSORS: &[&str] = &[
    "nexttoken",
    "pagetoken",
    "continuationtoken",
    "synctoken",
    "cursortoken",
    "resumetoken",
    "skiptoken",
    "starttoken",
    "changetoken",
    "publictoken",
    "clienttoken",
];

/// Placeholders for a secret.
const PLACEHOLDERS: &[&str] = &[
    "string",
    "str",
    "text",
    "number",
    "boolean",
    "bool",
    "object",
    "null",
    "none",
    "nil",
    "undefined",
    "true",
    "false",
    "yes",
    "no",
    "required",
    "optional",
    "hidden",
    "redacted",
    "masked",
    "secret",
    "token",
    "password",
    "passwd",
    "changeme",
    "example",
    "unset",
    "empty",
    "default",
    "n/a",
];

/// Maximum length of a key in bytes.
const KEY_MAX: usize = 64;

/// Maximum length of a value in JSON text, in bytes: a private key in one string fits.
const VALUE_MAX: usize = 16 << 10;

/// Maximum number of spaces around the colon.
const SPACE_MAX: usize = 16;

/// Maximum length of a number in bytes.
const NUMBER_MAX: usize = 512;

/// Minimum length of a one-word credential in bytes: shorter values are words such as `basic`, or keyboard keys.
const ONE_WORD_MIN: usize = 6;

/// The rule of a key for its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SecretKeyKind {
    /// The name of the rule.
    pub rule: &'static str,
    weight: KeyWeight,
}

/// Returns the names of the rules for keys.
pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = ENDINGS.iter().map(|(_, rule, _)| *rule).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

/// Returns the rule for a key, if it names a secret.
pub(super) fn secret_kind(key: &[u8]) -> Option<SecretKeyKind> {
    if key.len() > KEY_MAX {
        return None;
    }
    let letters = key.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let name: Vec<u8> = letters.map(u8::to_ascii_lowercase).collect();
    if is_cursor(&name) || name.ends_with(b"publishablekey") {
        return None;
    }
    let matches_name =
        |(ending, _, _): &&(&str, &str, KeyWeight)| name.ends_with(ending.as_bytes());
    ENDINGS
        .iter()
        .find(matches_name)
        .map(|(_, rule, weight)| SecretKeyKind {
            rule,
            weight: *weight,
        })
}

/// Returns true if a name in lower case, without separators, is that of a pagination token.
pub(super) fn is_cursor(name: &[u8]) -> bool {
    CURSORS
        .iter()
        .any(|cursor| name.ends_with(cursor.as_bytes()))
}

impl SecretKeyKind {
    /// Returns true if this value of the key is a secret.
    pub(super) fn is_secret(self, value: &[u8]) -> bool {
        let value = value.trim_ascii();
        if is_placeholder(value) {
            return false;
        }
        if self.weight != KeyWeight::Any && is_ordinary_value(value) {
            return false;
        }
        let one_word = !value.iter().any(u8::is_ascii_whitespace);
        match self.weight {
            KeyWeight::Any => true,
            KeyWeight::OneWord => one_word && value.len() >= ONE_WORD_MIN,
            KeyWeight::NoPath => value.len() >= ONE_WORD_MIN && !is_path(value),
            KeyWeight::Scheme => match value.iter().position(|byte| *byte == b' ') {
                Some(at) => {
                    let credential = value[at..].trim_ascii();
                    at <= 16 && credential.len() >= ONE_WORD_MIN && !is_placeholder(credential)
                }
                None => is_likely(value),
            },
            KeyWeight::Likely => one_word && !is_path(value) && is_likely(value),
        }
    }
}

/// Returns true if a word looks like a credential: long enough, with a mix of letters and digits that words do not
/// have.
fn is_likely(value: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| usize::from(value.iter().any(class));
    let digits = has(u8::is_ascii_digit);
    let kinds = digits + has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase);
    match value.len() {
        0..8 => false,
        8..12 => kinds == 3,
        12..32 => digits == 1 && kinds >= 2,
        _ => kinds >= 2,
    }
}

/// Returns true if the value of an ambiguous key is a version, a labelled digest, a publishable key, or made of words
/// that name a token.
fn is_ordinary_value(value: &[u8]) -> bool {
    false_positives::is_version(value)
        || false_positives::is_labelled_digest(value)
        || false_positives::names_itself(value)
        || value.starts_with(b"pk_live_")
        || value.starts_with(b"pk_test_")
}

/// Returns true if a value is a path or an address.
pub(super) fn is_path(value: &[u8]) -> bool {
    let starts_with = |start: &str| value.starts_with(start.as_bytes());
    let has = |word: &str| {
        let mut windows = value.windows(word.len());
        windows.any(|window| window == word.as_bytes())
    };
    ["/", "./", "../", "~/", "arn:"]
        .into_iter()
        .any(starts_with)
        || has("://")
        || has(":\\")
}

/// Returns true if a value is a placeholder for a secret.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let Some((first, last)) = value.first().zip(value.last()) else {
        return true;
    };
    let is_wrapped = |begin: &[u8], end: &[u8]| value.starts_with(begin) && value.ends_with(end);
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
    };
    (value.len() > 2 && value.iter().all(|byte| byte == first))
        || value
            .iter()
            .all(|byte| matches!(byte, b'*' | b'.' | b'-' | b'_'))
        || is_wrapped(b"${", b"}")
        || is_wrapped(b"{", b"}")
        || is_format(value)
        || false_positives::is_placeholder(value)
        || (*first == b'<' && *last == b'>')
        || is_wrapped(super::MARK.as_bytes(), b"]")
        || value.strip_prefix(b"$").is_some_and(is_name)
        || (value.len() > 2 && is_wrapped(b"%", b"%") && is_name(&value[1..value.len() - 1]))
        || PLACEHOLDERS
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns true for a format specifier: `%s`, `%(name)s`.
fn is_format(value: &[u8]) -> bool {
    let is_directive = |rest: &[u8]| matches!(rest, [b's' | b'd' | b'v' | b'q' | b'@']);
    match value {
        [b'%', b'(', rest @ ..] => rest
            .split(|byte| *byte == b')')
            .nth(1)
            .is_some_and(is_directive),
        [b'%', rest @ ..] => is_directive(rest),
        _ => false,
    }
}

/// A key in JSON text: its range, the start of its value, and the form of its quotes.
struct JsonKey {
    name: Range<usize>,
    value: usize,
    quote: u8,
    depth: usize,
}

/// Finds the key whose last word is at `word`, in JSON text, in a Python or JavaScript object, or in JSON inside a JSON
/// string.
fn find_key(text: &[u8], word: Range<usize>) -> Option<JsonKey> {
    let depth = count_leading(&text[word.end..], |byte| byte == b'\\');
    let closing = word.end + depth;
    let quote = *text
        .get(closing)
        .filter(|byte| matches!(byte, b'"' | b'\''))?;
    let before = text[..word.start].iter().rev().take(KEY_MAX);
    let start = word.start - before.take_while(|byte| is_identifier(**byte)).count();
    if start == 0 || text[start - 1] != quote {
        return None;
    }
    let mut at = closing + 1;
    at += count_spaces(text, at);
    if text.get(at) != Some(&b':') {
        return None;
    }
    at += 1;
    at += count_spaces(text, at);
    Some(JsonKey {
        name: start..word.end,
        value: at,
        quote,
        depth,
    })
}

/// Finds the secrets in the value of the key whose last word is at `word`: a string, a number, or a list of them.
pub(super) fn find_in_text(text: &[u8], word: Range<usize>) -> Vec<SecretHit> {
    let Some(key) = find_key(text, word) else {
        return Vec::new();
    };
    let is_list = text.get(key.value) == Some(&b'[');
    let scalar = || string_at(text, key.value, &key).or_else(|| number_at(text, key.value));
    if !is_list && scalar().is_none() {
        return Vec::new();
    }
    let Some(kind) = secret_kind(&text[key.name.clone()]) else {
        return Vec::new();
    };
    let mut values = Vec::new();
    if is_list {
        collect_list_values(text, &key, &mut values);
    } else {
        values.extend(scalar());
    }
    let is_secret = |value: &Range<usize>| kind.is_secret(&text[value.clone()]);
    let hit = |at| SecretHit {
        rule: kind.rule,
        at,
    };
    values.into_iter().filter(is_secret).map(hit).collect()
}

/// Returns the content of the string whose quote is at `at`.
fn string_at(text: &[u8], at: usize, key: &JsonKey) -> Option<Range<usize>> {
    if count_leading(text.get(at..)?, |byte| byte == b'\\') != key.depth {
        return None;
    }
    let open = at + key.depth;
    if text.get(open) != Some(&key.quote) {
        return None;
    }
    Some(open + 1..value_end(text, open + 1, key.quote, key.depth))
}

/// Returns the number that begins at `at`, if it has enough digits for a secret.
fn number_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let length = rest
        .iter()
        .take(NUMBER_MAX)
        .take_while(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
        })
        .count();
    let number = at..at + length;
    let is_alone = rest
        .get(length)
        .is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_');
    (is_alone && is_number(&text[number.clone()])).then_some(number)
}

/// Returns true if the value is a JSON number with at least as many digits as the shortest secret.
pub(super) fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    digits.first().is_some_and(u8::is_ascii_digit) && value.len() >= super::SHORT_MIN
}

/// Collects the strings and numbers of a list and of nested lists, but not of objects, which have keys of their own.
fn collect_list_values(text: &[u8], key: &JsonKey, values: &mut Vec<Range<usize>>) {
    let limit = text.len().min(key.value + VALUE_MAX);
    let (mut at, mut lists, mut objects) = (key.value, 0_u32, 0_u32);
    while at < limit {
        if let Some(value) = string_at(text, at, key) {
            at = value.end + key.depth + 1;
            if objects == 0 {
                values.push(value);
            }
            continue;
        }
        let is_start = !text[at - 1].is_ascii_alphanumeric();
        if let Some(value) = number_at(text, at).filter(|_| is_start) {
            at = value.end;
            if objects == 0 {
                values.push(value);
            }
            continue;
        }
        match text[at] {
            b'[' => lists += 1,
            b']' => lists = lists.saturating_sub(1),
            b'{' => objects += 1,
            b'}' => objects = objects.saturating_sub(1),
            _ => {}
        }
        if lists == 0 {
            return;
        }
        at += 1;
    }
}

fn count_spaces(text: &[u8], at: usize) -> usize {
    count_leading(&text[at..], |byte| byte.is_ascii_whitespace())
}

/// Returns the number of leading bytes that match, up to [`SPACE_MAX`].
fn count_leading(text: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    text.iter()
        .take(SPACE_MAX)
        .take_while(|byte| matches(**byte))
        .count()
}

/// Returns the end of a string whose quotes have `depth` backslashes before them, or the end of the line if the string
/// is not closed.
fn value_end(text: &[u8], start: usize, quote: u8, depth: usize) -> usize {
    let limit = text.len().min(start + VALUE_MAX);
    let mut slashes = 0;
    for (at, byte) in text[..limit].iter().enumerate().skip(start) {
        match *byte {
            b'\\' => slashes += 1,
            // Escaping doubles backslashes and adds one before the quote, which distinguishes inner quotes.
            byte if byte == quote && slashes % (2 * (depth + 1)) == depth => return at - depth,
            b'\n' => return at,
            _ => slashes = 0,
        }
    }
    limit
}

#[cfg(test)]
mod tests;
