//! Detects data in a read-only request that goes beyond naming the resource.
//!
//! A GET to a listed host is allowed without a question, whatever the session has read. A tool could still send data
//! in the URL and the headers, so these are limited to what naming a page needs: a query of at most [`QUERY_MAX`]
//! bytes, a path of at most [`PATH_MAX`] bytes, headers of at most [`HEADERS_MAX`] bytes, and none of them with a run
//! of [`OPAQUE_MIN`] or more characters that are not words, such as base64 and hexadecimal. A run that was in a
//! fetched page, such as the hash in a link, is allowed.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use percent_encoding::percent_decode_str;

use super::effect::OutgoingRequest;

/// Maximum size of a decoded query, in bytes.
const QUERY_MAX: usize = 256;
/// Maximum size of a decoded path, in bytes.
const PATH_MAX: usize = 512;
/// Maximum size of all header names and values, in bytes.
const HEADERS_MAX: usize = 1024;
/// Minimum length of a run of characters that could be encoded data.
const OPAQUE_MIN: usize = 32;

/// Maximum length of a word of letters.
const LETTERS_MAX: usize = 24;
/// Maximum length of a word of digits.
const DIGITS_MAX: usize = 20;
/// Maximum length of a word of letters and digits.
const MIXED_MAX: usize = 8;

/// Maximum number of runs from fetched pages that a session remembers.
const RUNS_MAX: usize = 4096;

/// Returns true for a request that only reads (safe methods, RFC 9110 section 9.2.1) and has no body.
pub(super) fn only_reads(egress: OutgoingRequest<'_>) -> bool {
    matches!(egress.method, "GET" | "HEAD") && !egress.body
}

/// Describes the data in a request as a clause. `None` if the request only names a resource. `seen` has the runs of the
/// pages that the session has fetched.
pub(super) fn describe_carried_data(
    egress: OutgoingRequest<'_>,
    seen: &FetchedFragments,
) -> Option<String> {
    if egress.body && egress.method == "CONNECT" {
        return Some("more than 16 KiB are sent through its tunnel".to_owned());
    }
    if egress.body {
        return Some("a body is sent".to_owned());
    }
    let url = egress.target.url();
    let path = decoded(url.path());
    let query = decoded(url.query().unwrap_or_default());
    let headers: usize = egress.headers.iter().map(|text| text.len()).sum();
    for (part, size, limit) in [
        ("query", query.len(), QUERY_MAX),
        ("path", path.len(), PATH_MAX),
        ("headers", headers, HEADERS_MAX),
    ] {
        // The actual size is left out, so that the message is the same before and after the tool's headers are added.
        if size > limit {
            return Some(format!("more than {limit} bytes of {part} are sent"));
        }
    }
    let host = egress.target.host().to_string();
    let texts = [
        ("host", host.split('.').collect::<Vec<_>>()),
        ("path", path.split('/').collect()),
        ("query", query.split(['&', '=', ';']).collect()),
    ];
    let headers: Vec<Cow<'_, str>> = egress
        .headers
        .iter()
        .map(|text| String::from_utf8_lossy(text))
        .collect();
    let headers = headers.iter().map(|text| ("headers", &**text));
    let texts = texts
        .iter()
        .flat_map(|(part, texts)| texts.iter().map(|text| (*part, *text)));
    texts.chain(headers).find_map(|(part, text)| {
        runs(text).find(|run| is_opaque(run) && !seen.contains(run))?;
        Some(format!(
            "{OPAQUE_MIN} or more characters in a row of its {part} are not words"
        ))
    })
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Returns the runs of base64 characters of at least the minimum length.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || is_separator(c);
    let runs = text.split(move |c| !is_base64(c));
    runs.filter(|run| run.len() >= OPAQUE_MIN)
}

/// Returns true for a character that separates words and is also a base64 digit.
fn is_separator(c: char) -> bool {
    matches!(c, '+' | '/' | '-' | '_')
}

/// Returns true if a run is not made of words.
fn is_opaque(run: &str) -> bool {
    !run.split(is_separator).all(is_word)
}

fn is_word(part: &str) -> bool {
    let all_are = |test: fn(&u8) -> bool| part.bytes().all(|byte| test(&byte));
    if all_are(u8::is_ascii_alphabetic) {
        // Camel case, such as `getElementsByClassName`, consists of words, too.
        let mut cases = part
            .as_bytes()
            .chunk_by(|a, b| a.is_ascii_lowercase() == b.is_ascii_lowercase());
        return cases.all(|part| part.len() <= LETTERS_MAX);
    }
    let max = if all_are(u8::is_ascii_digit) {
        DIGITS_MAX
    } else {
        MIXED_MAX
    };
    part.len() <= max
}

/// Hashes of the runs in fetched pages that do not consist of words.
#[derive(Debug, Default)]
pub(super) struct FetchedFragments(HashSet<u64>);

impl FetchedFragments {
    /// Remembers the runs of a text.
    pub(super) fn remember(&mut self, text: &str) {
        for run in runs(text) {
            let parts = run.split('/').filter(|part| part.len() >= OPAQUE_MIN);
            for part in parts.chain([run]) {
                if self.0.len() < RUNS_MAX && is_opaque(part) {
                    self.0.insert(hash(part));
                }
            }
        }
    }

    /// Adds hashes of [`Self::hashes`].
    pub(super) fn extend(&mut self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            if self.0.len() < RUNS_MAX {
                self.0.insert(hash);
            }
        }
    }

    /// Returns the hashes of the runs.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, run: &str) -> bool {
        self.0.contains(&hash(run))
    }
}

fn hash(run: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::RequestTarget;

    const BASE64: &str = "TXkgYmFuayBhY2NvdW50IGlzIDEyMzQ1Njc4OTA";
    const SHA: &str = "6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f";

    fn carried_data(url: &str, headers: &[&[u8]], seen: &FetchedFragments) -> Option<String> {
        let target = RequestTarget::parse(url).unwrap();
        describe_carried_data(
            OutgoingRequest {
                target: &target,
                method: "GET",
                headers,
                body: false,
            },
            seen,
        )
    }

    #[test]
    fn exfiltration_check_ignores_ordinary_page_urls() {
        for url in [
            "https://docs.rs/",
            "https://doc.rust-lang.org/book/ch01-01-installation.html",
            "https://blog.example/2026/01/15/how-to-configure-the-network-of-your-project-in-10-steps",
            "https://en.example/wiki/List_of_Presidents_of_the_United_States_1789",
            "https://developer.example/docs/Web/API/Document/getElementsByClassNameAndTheRest",
            "https://ja.example/wiki/%E3%83%97%E3%83%AD%E3%82%B0%E3%83%A9%E3%83%9F%E3%83%B3%E3%82%B0%E8%A8%80%E8%AA%9E",
            "https://search.example/?q=how+do+I+write+a+network+policy+for+a+sandbox&page=2",
            "https://video.example/watch?v=dQw4w9WgXcQ&t=42s",
            "https://go.example/?to=https://docs.example/guides/getting-started/with-the-network",
            "https://social.example/people/status/1789012345678901234",
        ] {
            assert_eq!(
                carried_data(url, &[], &FetchedFragments::default()),
                None,
                "{url}"
            );
        }
        let accept = b"text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, */*;q=0.5";
        let headers: &[&[u8]] = &[b"accept", accept, b"user-agent", b"mimir/0.1.0"];
        assert_eq!(
            carried_data("https://docs.rs/", headers, &FetchedFragments::default()),
            None
        );
    }

    #[test]
    fn exfiltration_check_flags_long_or_encoded_data() {
        let long = format!("https://a.example/?q={}", "word+".repeat(60));
        let deep = format!("https://a.example/{}", "word/".repeat(120));
        for (url, expected) in [
            (long, "256 bytes of query"),
            (deep, "512 bytes of path"),
            (
                format!("https://a.example/{BASE64}"),
                "its path are not words",
            ),
            (
                format!("https://a.example/?d={BASE64}"),
                "its query are not",
            ),
            (format!("https://a.example/x/{SHA}.png"), "its path are not"),
            (format!("https://{SHA}.a.example/"), "its host are not"),
            (
                "https://a.example/?d=SGVsbG8%2BIHdvcmxkLCBob3c%2FIGFyZSB5b3UgdG9kYXk".into(),
                "its query are not",
            ),
        ] {
            let carried = carried_data(&url, &[], &FetchedFragments::default()).unwrap_or_default();
            assert!(carried.contains(expected), "{url}: {carried}");
        }
        let cookie = format!("id={BASE64}");
        let carried = carried_data(
            "https://a.example/",
            &[b"cookie", cookie.as_bytes()],
            &FetchedFragments::default(),
        );
        assert!(carried.unwrap().contains("its headers are not words"));
        let long = "word ".repeat(220);
        let carried = carried_data(
            "https://a.example/",
            &[b"x-note", long.as_bytes()],
            &FetchedFragments::default(),
        );
        assert!(carried.unwrap().contains("1024 bytes of headers"));
    }

    #[test]
    fn exfiltration_check_ignores_fragments_of_fetched_pages() {
        let mut seen = FetchedFragments::default();
        seen.remember(&format!(
            "see [the commit](https://a.example/x/commit/{SHA})"
        ));
        assert_eq!(
            carried_data(&format!("https://a.example/x/commit/{SHA}"), &[], &seen),
            None
        );
        assert_eq!(
            carried_data(&format!("https://a.example/raw?at={SHA}"), &[], &seen),
            None
        );
        assert!(carried_data(&format!("https://a.example/{BASE64}"), &[], &seen).is_some());
        for number in 0..10_000 {
            seen.remember(&format!("{number:064x}"));
        }
        assert!(seen.0.len() <= RUNS_MAX);
    }
}
