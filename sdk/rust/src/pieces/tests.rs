use super::*;

const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEAn4mVZ0rJ8a1\nq0rZ7bYwqK3Vb5xYw8mX2pQ9sT1\nAB==\n-----END RSA PRIVATE KEY-----\n";

/// All chunks in order.
fn all_pieces(text: &str, max_bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let part = piece(text, at, max_bytes);
        assert_eq!(part.start, at, "a piece begins where the last ended");
        assert!(part.end > at);
        at = part.end;
        pieces.push(&text[part]);
    }
    pieces
}

/// Every chunk that a caller may get by choosing its beginning and length.
fn every_piece(text: &str) -> impl Iterator<Item = &str> {
    let offsets = (0..text.len()).filter(|at| text.is_char_boundary(*at));
    let pairs = offsets.flat_map(|from| [0, 1, 7, 40, 1000].map(|max_bytes| (from, max_bytes)));
    pairs.map(|(from, max_bytes)| &text[piece(text, from, max_bytes)])
}

#[test]
fn pieces_are_whole_lines_and_add_up() {
    let text = "one\ntwo\n\nthree\r\nlast";
    assert_eq!(all_pieces(text, 8), ["one\ntwo\n", "\nthree\r\n", "last"]);
    assert_eq!(
        all_pieces(text, 1),
        ["one\n", "two\n", "\n", "three\r\n", "last"]
    );
    assert_eq!(piece(text, 100, 5), text.len()..text.len());
    assert_eq!(piece("", 0, 5), 0..0);
}

#[test]
fn pieces_do_not_split_a_token() {
    let token = "tok_0123456789abcdefghijklmnopqrstuvwxyz";
    let short = format!("first\napi_key = {token}\nlast\n");
    let long = format!(
        "{}\"api_key\":\"{token}\",{}",
        "\"a\":1,".repeat(300),
        "\"b\":2,".repeat(300)
    );
    let words = format!("{} {token} {}", "é word".repeat(300), "word ".repeat(300));
    let run = format!("{}{token}", "x".repeat(1500));
    for text in [&short, &long, &words, &run] {
        for part in every_piece(text) {
            let whole = part.contains(token);
            assert!(
                whole || !part.contains(&token[..8]) && !part.contains(&token[30..]),
                "{part}"
            );
        }
        assert_eq!(all_pieces(text, 100).concat(), *text);
    }
    // The name next to a value stays with it, as far as the line length allows.
    assert!(every_piece(&long).all(|part| part.contains("\"api_key\":") == part.contains(token)));
}

#[test]
fn pieces_without_a_gap_are_still_cut() {
    let text = "ä".repeat(10_000);
    let parts = all_pieces(&text, 10);
    assert!(parts.len() >= 4 && parts.iter().all(|part| part.len() <= MAX_TOKEN + 1));
}

#[test]
fn pieces_do_not_split_a_private_key() {
    let escaped = format!("{{\"key\": \"{}\", \"x\": 1}}\n", PEM.replace('\n', "\\n"));
    for text in [format!("before\n{PEM}after\n"), escaped] {
        for part in every_piece(&text) {
            assert!(
                part.contains("-----BEGIN") == part.contains("q0rZ7bYw"),
                "{part}"
            );
            assert!(
                part.contains("-----END") == part.contains("q0rZ7bYw"),
                "{part}"
            );
        }
    }
    // A text that only mentions a key is split like any other.
    let talk = format!(
        "-----BEGIN PRIVATE KEY----- is how a key begins\n{}",
        "a line\n".repeat(9000)
    );
    assert!(all_pieces(&talk, 100).len() > 500);
    let certificate = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE");
    assert_eq!(all_pieces(&certificate, 1).len(), 7);
}

#[test]
fn private_key_lines_are_detected() {
    let lines: Vec<&str> = PEM.split_inclusive('\n').collect();
    let is_key_line: Vec<bool> = lines.iter().map(|line| in_key(line.as_bytes())).collect();
    assert_eq!(is_key_line, [false, false, false, true, true, false, true]);
    for at in 1..lines.len() {
        assert!(opens_key(lines[..at].concat().as_bytes()), "{at}");
    }
    assert!(!opens_key(PEM.as_bytes()));
    assert!(!opens_key(b"-----BEGIN CERTIFICATE-----\nMIIB\n"));
    assert!(in_key(b"    \"MIIEpAIBAAKCAQEAn4mVZ0rJ8a1\\n\" +\n"));
    assert!(!in_key(b"let x = 0123456789012345;"));
}

#[test]
fn excerpt_contains_the_match() {
    let line = format!(
        "{}needle{}",
        "some, words ".repeat(100),
        " and, more".repeat(100)
    );
    let at = line.find("needle").unwrap();
    let part = excerpt(&line, at, 400);
    assert!(
        part.len() <= 400 && part.start <= at && part.end >= at + 6,
        "{part:?}"
    );
    assert_eq!(excerpt("short", 3, 400), 0..5);
    let run = "ä".repeat(10_000);
    assert!((399..=400).contains(&excerpt(&run, 5000, 400).len()));
    assert_eq!(
        excerpt(&run, 4098, 400),
        3998..4398,
        "whatever chunk it is in"
    );
    let token = "x".repeat(900);
    let line = format!("a, b, {token}, c");
    for at in 0..line.len() {
        let shown = &line[excerpt(&line, at, 400)];
        assert!(shown.contains(&token) || !shown.contains("xx"), "{shown}");
    }
}

#[test]
fn masked_keys_keep_their_lines() {
    let text = format!("a\n{PEM}b\n");
    let masked = mask_keys(&text);
    assert_eq!(masked.lines().count(), text.lines().count());
    assert!(masked.starts_with(&format!("a\n{KEY_MARK}\n")), "{masked}");
    assert!(masked.ends_with(&format!("{KEY_MARK}\nb\n")), "{masked}");
    assert!(
        !masked.contains("MIIE") && !masked.contains("AB=="),
        "{masked}"
    );

    let open = "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEAn4mVZ0rJ8a1\nsome words\n";
    let expected = format!("-----BEGIN PRIVATE KEY-----\n{KEY_MARK}\nsome words\n");
    assert_eq!(mask_keys(open), expected);
    let certificate = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE");
    assert_eq!(mask_keys(&certificate), certificate);
}
