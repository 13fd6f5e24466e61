//! Lines of a log.

use super::super::{LineMasker, Redactor};
use super::{TOKEN, private_key};

fn texts(lines: Vec<(u8, String)>) -> Vec<String> {
    lines.into_iter().map(|(_, text)| text).collect()
}

/// The lines shown after each push, and those shown at the end.
fn logged(redactor: &Redactor, lines: &[&str]) -> (Vec<Vec<String>>, Vec<String>) {
    let mut log: LineMasker<u8> = redactor.line_masker();
    let shown = lines
        .iter()
        .map(|line| texts(log.push(0, (*line).to_owned()).0))
        .collect();
    (shown, texts(log.finish().0))
}

fn mask_lines(redactor: &Redactor, lines: &[&str]) -> Vec<String> {
    let (shown, rest) = logged(redactor, lines);
    shown.into_iter().flatten().chain(rest).collect()
}

#[test]
fn lines_without_secrets_are_shown_immediately() {
    let lines = [
        "starting",
        "read 3 files in 20 ms",
        "the key was found in the second file of the list, done",
        "[####  ] 50 %",
        "done.",
    ];
    let (shown, rest) = logged(&Redactor::new(), &lines);
    assert_eq!(shown, lines.map(|line| vec![line.to_owned()]));
    assert!(rest.is_empty());
}

#[test]
fn lines_with_a_split_token_are_masked() {
    for at in 3..TOKEN.len() {
        let (head, tail) = TOKEN.split_at(at);
        let out = mask_lines(
            &Redactor::new(),
            &["before", &format!("got {head}"), tail, "after"],
        );
        assert_eq!(out.len(), 4);
        assert!(
            out[1].starts_with("got [REDACTED") && out[2].starts_with("[REDACTED"),
            "{at} {out:?}"
        );
    }
}

#[test]
fn lines_of_a_private_key_are_masked() {
    let key = private_key();
    let lines: Vec<&str> = key.lines().chain(["all done"]).collect();
    let out = mask_lines(&Redactor::new(), &lines);
    assert_eq!(out.len(), lines.len());
    assert_eq!(out.last().unwrap(), "all done");
    assert!(!out.concat().contains("MIIE"), "{out:?}");
    // Without its end, too.
    let out = mask_lines(&Redactor::new(), &lines[..6]);
    assert!(!out.concat().contains("MIIE"), "{out:?}");
}

#[test]
fn end_of_a_private_key_is_masked() {
    let key = private_key();
    let lines: Vec<&str> = key.lines().collect();
    let tail = &lines[lines.len() - 3..];
    let redactor = Redactor::new();
    for before in ["", " ", "+", "12: "] {
        let mut text = String::from("@@ -26,4 +26,4 @@\n");
        for line in tail {
            text += &format!("{before}{line}\n");
        }
        text += "export const port = 2;\n";
        redactor.mask_text(&mut text);
        assert!(!text.contains(tail[0]) && !text.contains(tail[1]), "{text}");
        assert!(
            text.contains("port = 2") && text.contains("@@ -26"),
            "{text}"
        );
    }
    for ordinary in [
        "const pem = body + \"-----END PRIVATE KEY-----\";",
        "see the line -----END RSA PRIVATE KEY-----",
    ] {
        let mut text = ordinary.to_owned();
        redactor.mask_text(&mut text);
        assert_eq!(text, ordinary);
    }
}

#[test]
fn lines_with_a_split_known_value_are_masked() {
    let redactor = Redactor::new().with_values([("V", "correct horse battery")]);
    let out = mask_lines(&redactor, &["it is correct ho", "rse battery, yes", "x"]);
    assert_eq!(
        out,
        ["it is [REDACTED:secret:V]", "[REDACTED:secret:V], yes", "x"]
    );
}

#[test]
fn lines_are_masked_with_context_of_earlier_lines() {
    let out = mask_lines(
        &Redactor::new(),
        &[
            "$ curl https://api.example.com/v1/things \\",
            "   -H \"Authorization: Bearer 8f3k2j9d0s1l7x6z\"",
        ],
    );
    assert!(!out.concat().contains("8f3k2j9d"), "{out:?}");
}

#[test]
fn lines_carry_their_tags() {
    let mut log = Redactor::new().line_masker();
    let mut out = log.push('a', "one".to_owned()).0;
    out.extend(log.push('b', "token ghp_8aZq2WvX7kTy".to_owned()).0);
    out.extend(log.push('c', "R4nJ6mPcL1sD9fGhB3eU5oKi".to_owned()).0);
    let (rest, marks) = log.finish();
    out.extend(rest);
    let tags: Vec<char> = out.iter().map(|(tag, _)| *tag).collect();
    assert_eq!((tags, marks.count()), (vec!['a', 'b', 'c'], 2));
}

#[test]
fn lines_are_flushed_with_masks_and_as_context() {
    let redactor = Redactor::new().with_values([("V", "correct-horse-battery")]);
    let mut log = redactor.line_masker();
    // The value may continue in the next line.
    let held = log.push(0, "password=correct-horse-battery".to_owned()).0;
    assert!(held.is_empty() && log.holds_lines());
    let shown = texts(log.flush().0).concat();
    assert!(
        shown.starts_with("password=[REDACTED") && !shown.contains("horse"),
        "{shown}"
    );
    assert!(!log.holds_lines() && log.flush().0.is_empty());
    // Only what was shown already is not masked.
    log.push(0, "again correct-ho".to_owned());
    assert_eq!(texts(log.flush().0), ["again correct-ho"]);
    let (mut rest, _) = log.push(0, "rse-battery, yes".to_owned());
    rest.extend(log.finish().0);
    assert_eq!(texts(rest), ["[REDACTED:secret:V], yes"]);
}

#[test]
fn lines_held_back_are_limited() {
    let mut log = Redactor::new().line_masker();
    log.push(0, "-----BEGIN RSA PRIVATE KEY-----".to_owned());
    let line = "words that are no key at all, ".repeat(30);
    let shown: usize = (0..120).map(|_| log.push(0, line.clone()).0.len()).sum();
    assert!(shown > 40, "{shown}");
}
