//! Streams: chunked input is masked like a single text.

use super::super::{Redactor, SecretFinding};
use super::{TOKEN, private_key};

/// A text with all kinds of secrets, far apart and close together.
fn text() -> String {
    let mut text = String::new();
    for n in 0..40_000 {
        text.push_str(&format!(
            "line {n}: nothing but the key of a house, and a long tail of words\n"
        ));
        match n % 997 {
            0 => text.push_str(&private_key()),
            300 => text.push_str(&format!("export T={TOKEN}\n")),
            600 => text.push_str("{\"password\": \"hunter2\"}\n"),
            _ => {}
        }
    }
    text
}

fn streamed(
    redactor: &Redactor,
    bytes: &[u8],
    chunk: usize,
) -> (Vec<u8>, Vec<SecretFinding>, usize) {
    let mut stream = redactor.stream_masker();
    let (mut out, mut findings, mut most) = (Vec::new(), Vec::new(), 0);
    let mut taken = 0;
    for chunk in bytes.chunks(chunk) {
        let before = out.len();
        findings.extend(stream.push(chunk, &mut out));
        taken += chunk.len();
        most = most.max(taken.saturating_sub(before));
    }
    findings.extend(stream.finish(&mut out));
    (out, findings, most)
}

#[test]
fn stream_findings_do_not_depend_on_chunk_size() {
    let text = text();
    let redactor = Redactor::new();
    let findings = redactor.find(text.as_bytes());
    let mut masked = text.clone();
    redactor.mask_text(&mut masked);
    assert!(findings.len() > 100);
    for chunk in [1 << 16, 99_991, 700_001, text.len()] {
        let (out, streamed_findings, _) = streamed(&redactor, text.as_bytes(), chunk);
        assert_eq!(streamed_findings, findings, "in chunks of {chunk}");
        assert!(out == masked.as_bytes(), "in chunks of {chunk}");
    }
}

#[test]
fn stream_secret_across_block_boundary_is_masked() {
    let redactor = Redactor::new().with_values([("V", "a known value of some length")]);
    // Around every position at which a block may end.
    for before in [(1 << 20) - 20, (1 << 20) + (1 << 16) - 20, 1 << 20] {
        for secret in [TOKEN, &private_key(), "a known value of some length"] {
            let text = format!("{}\n{secret}\n{}", "x".repeat(before), "y ".repeat(1 << 20));
            let (out, findings, _) = streamed(&redactor, text.as_bytes(), 4096);
            assert_eq!(findings.len(), 1, "{before} {secret}");
            assert_eq!(
                (findings[0].start, findings[0].end),
                (before + 1, before + 1 + secret.len())
            );
            assert!(!String::from_utf8(out).unwrap().contains(secret));
        }
    }
}

#[test]
fn stream_memory_is_limited_and_binary_data_unchanged() {
    let bytes: Vec<u8> = (0..3u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let (out, findings, held) = streamed(&Redactor::new(), &bytes, 64 << 10);
    assert!(findings.is_empty());
    assert!(out == bytes);
    assert!(held < 5 << 19, "{held} bytes were held back");
}

#[test]
fn stream_may_be_empty() {
    assert_eq!(streamed(&Redactor::new(), b"", 1), (vec![], vec![], 0));
}
