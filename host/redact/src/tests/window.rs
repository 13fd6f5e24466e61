//! Sections of a text, for every possible cut.

use super::super::{MaskedWindow, Redactor};
use super::{TOKEN, private_key};

fn text(window: &MaskedWindow) -> String {
    String::from_utf8(window.bytes.clone()).unwrap()
}

#[test]
fn window_shows_no_part_of_a_secret() {
    let redactor =
        Redactor::new().with_values([("OWN".to_owned(), "my own hidden value 77".to_owned())]);
    let whole = format!(
        "tok {TOKEN} and my own hidden value 77 end\n{}\nlast",
        private_key()
    );
    let masked = redactor.window(whole.as_bytes(), 0, false);
    assert_eq!(masked.end, whole.len());
    for from in 0..=whole.len() {
        let shown = text(&redactor.window(whole.as_bytes(), from, false));
        let plain = shown.replace("[REDACTED:", "");
        for secret in [TOKEN, "my own hidden value 77", "MIIEpQIBAAKCAQEAn6"] {
            for part in secret
                .as_bytes()
                .windows(6)
                .map(|part| std::str::from_utf8(part).unwrap())
            {
                assert!(!plain.contains(part), "{from}: {shown}");
            }
        }
        assert!(shown.ends_with("last") || from > whole.len() - 4);
    }
}

#[test]
fn window_of_growing_text_is_shown_once_and_masked() {
    let redactor = Redactor::new();
    let whole = format!("begin\ntok {TOKEN} end\nmore\n");
    for step in 1..50 {
        let (mut shown, mut from, mut available) = (String::new(), 0, 0);
        while available < whole.len() {
            available = (available + step).min(whole.len());
            let window = redactor.window(
                &whole.as_bytes()[..available],
                from,
                available < whole.len(),
            );
            shown.push_str(&text(&window));
            from = window.end;
        }
        // Two letters begin too many words to be held back.
        let shown = shown.replace("gh[", "[").replace("g[", "[");
        assert_eq!(shown, masked_whole(&redactor, &whole), "{step}");
    }
}

fn masked_whole(redactor: &Redactor, whole: &str) -> String {
    let mut text = whole.to_owned();
    redactor.mask_text(&mut text);
    text
}

#[test]
fn window_keeps_binary_data_and_clamps_positions() {
    let redactor = Redactor::new();
    let window = redactor.window(b"a\xff\xfeb", 1, false);
    assert_eq!(
        (window.bytes.as_slice(), window.end),
        (&b"\xff\xfeb"[..], 4)
    );
    let beyond = redactor.window(b"abc", 9, true);
    assert_eq!((beyond.bytes.len(), beyond.end), (0, 3));
}
