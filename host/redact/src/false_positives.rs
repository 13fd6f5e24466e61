//! Filters for false positives of broad rules: digests in lock files, public certificates, identifiers, versions,
//! placeholders and page tokens. gitleaks' own allow lists are applied first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::keys;
use super::own_rules::PASSWORD;
use super::pattern::SecretMatch;

/// A test that returns true if a match of a rule is not a secret.
pub(super) type FalsePositiveTest = fn(&[u8], &SecretMatch) -> bool;

/// Returns the test for a rule, if it has one.
pub(super) fn for_rule(rule: &str) -> Option<FalsePositiveTest> {
    Some(match rule {
        "generic-api-key" => is_false_generic_key,
        "vault-service-token" => is_field_access,
        "kubernetes-secret-yaml" => is_public_certificate,
        "curl-auth-user" => is_placeholder_user,
        "sql-password" => is_false_sql_password,
        PASSWORD => is_false_password,
        _ => return None,
    })
}

/// Returns true if the value of a generic key is not a secret.
fn is_false_generic_key(text: &[u8], candidate: &SecretMatch) -> bool {
    let secret = &text[candidate.secret.clone()];
    let name = &text[candidate.whole.start..candidate.secret.start];
    let letters: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect();
    let name_contains = |word: &str| contains_bytes(&letters, word.as_bytes());
    is_digest(text, candidate)
        || (is_hex_digest(secret) && is_named_digest(text, candidate))
        || secret.starts_with(b"pk_live_")
        || secret.starts_with(b"pk_test_")
        || name_contains("publishable")
        || keys::is_cursor(&letters)
        || is_version(secret)
        || is_placeholder(secret)
        || (!name_contains("passw") && !name_contains("secret") && is_identifier(secret))
}

/// Labels before digests, each with its separator.
const DIGEST_LABELS: [&str; 9] = [
    "h1:", "sha1-", "sha256-", "sha384-", "sha512-", "sha1:", "sha256:", "sha384:", "sha512:",
];

/// Lengths of digests in bytes: MD5, SHA-1, SHA-224, SHA-256, SHA-384, SHA-512.
const DIGEST_BYTES: [usize; 6] = [16, 20, 28, 32, 48, 64];

/// Returns true if the word around a secret is a digest after its label, as in `go.sum`, lock files and `integrity`.
fn is_digest(text: &[u8], candidate: &SecretMatch) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let before = &text[candidate.whole.start..candidate.secret.end];
    let label = DIGEST_LABELS.iter().find_map(|label| {
        let mut windows = before.windows(label.len()).enumerate();
        let (at, _) = windows.rfind(|(_, window)| window.eq_ignore_ascii_case(label.as_bytes()))?;
        Some(candidate.whole.start + at + label.len())
    });
    let Some(start) = label else {
        return false;
    };
    let start = start
        + text[start..]
            .iter()
            .take_while(|byte| **byte == b' ')
            .take(2)
            .count();
    if start > candidate.secret.end {
        return false;
    }
    // Only the digest may be between the label and the end of the secret.
    let length = text[start..]
        .iter()
        .take(2 * 64 + 8)
        .take_while(|byte| is_part(byte))
        .count();
    let digest = &text[start..start + length];
    start + length >= candidate.secret.end && (is_hex_digest(digest) || is_base64_digest(digest))
}

/// Maximum distance between a digest and the name before it, in bytes.
const NAME_MAX: usize = 64;

/// Returns true if the line of a secret calls it a digest: `checksum/session-key: …`.
fn is_named_digest(text: &[u8], candidate: &SecretMatch) -> bool {
    let end = candidate.secret.start;
    let near = &text[end.saturating_sub(NAME_MAX)..end];
    let line = near.rsplit(|byte| *byte == b'\n').next().unwrap_or(near);
    let line = line.to_ascii_lowercase();
    [&b"checksum"[..], b"digest", b"fingerprint"]
        .into_iter()
        .any(|word| contains_bytes(&line, word))
}

/// Returns true if a value is a digest with its label: `sha512-…`.
pub(super) fn is_labelled_digest(value: &[u8]) -> bool {
    DIGEST_LABELS.iter().any(|label| {
        value
            .strip_prefix(label.as_bytes())
            .is_some_and(|digest| is_hex_digest(digest) || is_base64_digest(digest))
    })
}

fn is_hex_digest(word: &[u8]) -> bool {
    DIGEST_BYTES.iter().any(|bytes| word.len() == 2 * bytes)
        && word.iter().all(u8::is_ascii_hexdigit)
}

fn is_base64_digest(word: &[u8]) -> bool {
    let bytes = word.trim_ascii_end();
    STANDARD
        .decode(bytes)
        .is_ok_and(|decoded| DIGEST_BYTES.contains(&decoded.len()))
}

/// Returns true if a word is a version or a range of versions: `^5.0.1`, `1.2.3-beta.4`, `v2.0`.
pub(super) fn is_version(word: &[u8]) -> bool {
    let start = word
        .iter()
        .take_while(|byte| b"^~<>=v ".contains(byte))
        .count();
    let number = &word[start..];
    let core = number
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'x' | b'*'))
        .count();
    let (core, rest) = number.split_at(core);
    let parts = core.split(|byte| *byte == b'.');
    let is_part = |part: &[u8]| !part.is_empty() && part.len() <= 8;
    core.first().is_some_and(u8::is_ascii_digit)
        && core.contains(&b'.')
        && parts.into_iter().all(is_part)
        && match rest.split_first() {
            None => true,
            Some((b'-' | b'+' | b'_', tag)) => tag.len() <= 16,
            Some(_) => false,
        }
}

/// Returns true if a value is a placeholder that a reader has to replace.
pub(super) fn is_placeholder(word: &[u8]) -> bool {
    const WORDS: [&str; 12] = [
        "your",
        "example",
        "placeholder",
        "changeme",
        "dummy",
        "sample",
        "redacted",
        "insert",
        "replace",
        "fake",
        "todo",
        "xxx",
    ];
    let is_marker = |part: &[u8]| {
        WORDS
            .iter()
            .any(|word| part.eq_ignore_ascii_case(word.as_bytes()))
            || (part.len() >= 3 && part.iter().all(|byte| matches!(byte, b'x' | b'X' | b'*')))
    };
    let mut parts = words(word).peekable();
    let mut has_marker = false;
    parts.peek().is_some()
        && parts.all(|part| {
            has_marker |= is_marker(part);
            part.iter().all(|byte| !byte.is_ascii_digit()) || part.len() <= 2
        })
        && has_marker
}

/// Returns true if a value is made of words that name something, such as `access-token` or `test-key`.
pub(super) fn names_itself(word: &[u8]) -> bool {
    const WORDS: [&str; 5] = ["token", "key", "secret", "apikey", "test"];
    let mut names_kind = false;
    words(word).count() > 1
        && words(word).all(|part| {
            names_kind |= WORDS
                .iter()
                .any(|word| part.eq_ignore_ascii_case(word.as_bytes()));
            part.iter().all(u8::is_ascii_alphabetic)
                || part.iter().all(u8::is_ascii_digit) && part.len() <= 2
        })
        && names_kind
}

/// Returns true if a value looks like an identifier in code, a platform or an algorithm: `x86_64-darwin`,
/// `X25519_MLKEM768`, `win32api.RegEnumKey`.
fn is_identifier(word: &[u8]) -> bool {
    let is_word = |part: &[u8]| {
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        let letters = part.len() - digits;
        let runs = part
            .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
            .count();
        match letters {
            0 => digits <= 4,
            _ => digits <= 5 && runs <= 3 && has_case_of_words(part),
        }
    };
    let longest = words(word)
        .map(|part| {
            part.iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .count()
        })
        .max();
    words(word).count() > 1
        && words(word).all(is_word)
        && longest.is_some_and(|longest| longest >= 4)
}

/// Returns true if the case changes as rarely as in identifiers of several words.
fn has_case_of_words(part: &[u8]) -> bool {
    let letters: Vec<u8> = part
        .iter()
        .copied()
        .filter(u8::is_ascii_alphabetic)
        .collect();
    let changes = letters
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        .count();
    letters.len() >= 4 * changes
}

/// Splits a value into words at separators of names and paths.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| matches!(byte, b'-' | b'_' | b'.' | b'/' | b':' | b'=' | b' '))
        .filter(|part| !part.is_empty())
}

/// Returns true if a token of Vault's older form is the field of a variable `s`: `s.AutoAllocatedIPv4Address`.
fn is_field_access(text: &[u8], candidate: &SecretMatch) -> bool {
    let Some(field) = text[candidate.secret.clone()].strip_prefix(b"s.") else {
        return false;
    };
    if field.iter().filter(|byte| byte.is_ascii_digit()).count() > 2 {
        return false;
    }
    // Words that begin with up to four capitals and continue with at least two lower-case letters.
    let mut rest = field;
    let mut words = 0;
    while !rest.is_empty() {
        let capitals = rest
            .iter()
            .take_while(|byte| byte.is_ascii_uppercase())
            .count();
        let lower = rest[capitals..]
            .iter()
            .take_while(|byte| !byte.is_ascii_uppercase())
            .count();
        if capitals > 4 || (capitals == 0 && words > 0) || lower < 2 {
            return false;
        }
        words += 1;
        rest = &rest[capitals + lower..];
    }
    (2..=6).contains(&words)
}

/// Returns true if a value of a Kubernetes secret is a certificate or a public key, without a private key next to it.
fn is_public_certificate(text: &[u8], candidate: &SecretMatch) -> bool {
    /// `-----BEGIN` in base64.
    const BEGIN: &[u8] = b"LS0tLS1CRUdJTi";
    let value = &text[candidate.secret.clone()];
    if !value.starts_with(BEGIN) {
        return false;
    }
    STANDARD.decode(value).is_ok_and(|pem| {
        (pem.starts_with(b"-----BEGIN CERTIFICATE-----")
            || pem.starts_with(b"-----BEGIN PUBLIC KEY-----"))
            && !contains_bytes(&pem, b"PRIVATE")
    })
}

/// Returns true if the user of a `curl -u` is an example from documentation: `user:pass`.
fn is_placeholder_user(text: &[u8], candidate: &SecretMatch) -> bool {
    let secret = &text[candidate.secret.clone()];
    let secret = secret.trim_ascii();
    let mut parts = secret.splitn(2, |byte| *byte == b':');
    let (Some(_), Some(password)) = (parts.next(), parts.next()) else {
        return false;
    };
    [&b"pass"[..], b"pw", b"pwd"]
        .into_iter()
        .any(|word| password.eq_ignore_ascii_case(word))
        || keys::is_placeholder(password)
}

fn is_placeholder_secret(text: &[u8], candidate: &SecretMatch) -> bool {
    let secret = &text[candidate.secret.clone()];
    keys::is_placeholder(secret) || is_reference(secret)
}

/// Minimum length of a password in an SQL statement, in bytes.
const SQL_MIN: usize = 4;

/// Returns true if the text after `identified by` is a word of prose. In an SQL statement, the keywords are in
/// capitals, or the password contains a digit or a symbol.
fn is_false_sql_password(text: &[u8], candidate: &SecretMatch) -> bool {
    let is_word = text[candidate.secret.clone()]
        .iter()
        .all(u8::is_ascii_alphabetic);
    candidate.secret.len() < SQL_MIN
        || is_placeholder_secret(text, candidate)
        || (is_word && text[candidate.whole.start].is_ascii_lowercase())
}

/// Returns true if a value is assembled by a template or a shell: `${NAME}`, `{name}`, `$1`, `%s`.
fn is_reference(value: &[u8]) -> bool {
    value.starts_with(b"$")
        || value.starts_with(b"%")
        || value.contains(&b'{')
        || contains_bytes(value, b"$(")
}

/// Minimum length of a password in plain text, in bytes.
const PASSWORD_MIN: usize = 6;

/// Returns true if the value of a name such as `password` in plain text is not a password but a placeholder, a type, an
/// expression or a word of prose. A password in quotes or alone in its line has letters, and digits or symbols; any
/// other password has all three.
fn is_false_password(text: &[u8], candidate: &SecretMatch) -> bool {
    let secret = &text[candidate.secret.clone()];
    if secret.len() < PASSWORD_MIN
        || keys::is_path(secret)
        || is_placeholder_secret(text, candidate)
    {
        return true;
    }
    let has = |test: fn(&u8) -> bool| secret.iter().any(test);
    let letters = has(u8::is_ascii_alphabetic);
    let digits = has(u8::is_ascii_digit);
    let signs = has(|byte| !byte.is_ascii_alphanumeric() && !b"_.-:/".contains(byte));
    if letters && digits && signs {
        return false;
    }
    if !letters || !(digits || signs) {
        return true;
    }
    let is_quoted = matches!(text[candidate.secret.start - 1], b'"' | b'\'');
    if is_quoted {
        return secret.contains(&b'(');
    }
    // An unquoted password is alone in its line, after a colon or an equals sign without a space before it. Anything
    // else is code.
    let assignment = &text[candidate.whole.start..candidate.secret.start];
    let is_code = contains_bytes(assignment, b" =") || is_identifier(secret);
    let before = text[..candidate.whole.start]
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .take(16)
        .filter(|byte| byte.is_ascii_alphanumeric())
        .count();
    let next = text[candidate.secret.end..]
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
    is_code || before > 0 || !matches!(next, None | Some(b'\n' | b'#'))
}

fn contains_bytes(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
