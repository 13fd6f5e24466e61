//! Known values.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

use super::super::Redactor;

const VALUE: &str = "p@ss/w\"ord ü%7";

fn redactor() -> Redactor {
    Redactor::new().with_values([("DB", VALUE)])
}

fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    redactor().mask_text(&mut text);
    text
}

#[test]
fn known_value_is_masked_in_common_encodings() {
    let json = serde_json::Value::from(VALUE).to_string();
    let twice = serde_json::Value::from(json.trim_matches('"')).to_string();
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [
        VALUE,
        json.trim_matches('"'),
        twice.trim_matches('"'),
        "p@ss\\/w\\\"ord \\u00fc%7",
        &hex,
        &hex.to_uppercase(),
        "p@ss/w&quot;ord ü%7",
        "p%40ss%2Fw%22ord%20%C3%BC%257",
        "p%40ss%2fw%22ord%20%c3%bc%257",
        "p@ss/w%22ord%20%C3%BC%257",
        "p%40ss%2Fw%22ord+%C3%BC%257",
        "%70%40%73%73%2f%77%22%6f%72%64%20%c3%bc%25%37",
    ] {
        assert_eq!(
            masked(&format!("<{form}>")),
            "<[REDACTED:secret:DB]>",
            "{form}"
        );
    }
}

#[test]
fn known_value_in_base64_is_masked_at_any_offset() {
    for before in 0..4 {
        for after in 0..4 {
            let text = format!("{}{VALUE}{}", &"user:"[..before], &":xyz"[..after]);
            for encoded in [
                STANDARD.encode(&text),
                URL_SAFE.encode(&text),
                URL_SAFE_NO_PAD.encode(&text),
            ] {
                let out = masked(&format!("Basic {encoded}"));
                assert!(
                    out.contains("[REDACTED:secret:DB]"),
                    "{before} {after} {out}"
                );
                // No digit remains that encodes a bit of the value.
                let left = out.len() - "Basic [REDACTED:secret:DB]".len();
                let free = (before * 8 / 6) + (after * 8 / 6) + 3;
                assert!(left <= free, "{before} {after} {out}");
            }
        }
    }
}

#[test]
fn known_value_in_wrapped_base64_is_masked() {
    let long = "a-very-long-deployment-secret-that-no-line-of-base64-can-hold-at-once-1234567890";
    let redactor = Redactor::new().with_values([("LONG", long)]);
    let encoded = STANDARD.encode(format!("x={long}\n"));
    let wrapped: Vec<&str> = (0..encoded.len())
        .step_by(76)
        .map(|at| &encoded[at..encoded.len().min(at + 76)])
        .collect();
    let mut text = format!("head\r\n{}\r\ntail", wrapped.join("\r\n"));
    assert_eq!(redactor.mask_text(&mut text), 1);
    assert!(
        text.starts_with("head\r\n") && text.ends_with("\r\ntail"),
        "{text}"
    );
    assert!(
        !text.contains(&encoded[4..40]) && !text.contains(&encoded[80..100]),
        "{text}"
    );
}

#[test]
fn known_value_that_is_short_needs_word_boundaries() {
    let redactor = Redactor::new().with_values([("PIN", "4711"), ("TINY", "abc")]);
    let mut text = "pin 4711, order 147110, abc, NDcxMQ==".to_owned();
    assert_eq!(redactor.mask_text(&mut text), 1);
    assert_eq!(
        text,
        "pin [REDACTED:secret:PIN], order 147110, abc, NDcxMQ=="
    );
}

/// Masks a text with two known values, added in both orders.
fn masked_with_both(first: (&str, &str), second: (&str, &str), text: &str) -> [String; 2] {
    [[first, second], [second, first]].map(|values| {
        let mut text = text.to_owned();
        Redactor::new().with_values(values).mask_text(&mut text);
        text
    })
}

#[test]
fn known_value_that_begins_with_another_is_masked_whole() {
    let (short, long) = (("SHORT", "hunter2-base"), ("LONG", "hunter2-base-and-more"));
    for text in masked_with_both(short, long, "<hunter2-base-and-more>") {
        assert_eq!(text, "<[REDACTED:secret:LONG]>");
    }
    let encoded = STANDARD.encode(long.1);
    for text in masked_with_both(short, long, &format!("<{encoded}>")) {
        assert_eq!(text, "<[REDACTED:secret:LONG]>");
    }
}

#[test]
fn known_values_with_a_common_form_are_masked_for_each() {
    // Without its line ends, the second value is as short as the first, which alone is masked only as a word.
    for text in masked_with_both(("WORD", "secret"), ("LINES", "se\ncr\net"), "a_secret_1") {
        assert!(!text.contains("secret_1"), "{text}");
    }
}

#[test]
fn known_value_name_precedes_a_rule_name() {
    let redactor = Redactor::new().with_values([("GH", super::TOKEN)]);
    let mut text = super::TOKEN.to_owned();
    redactor.mask_text(&mut text);
    assert_eq!(text, "[REDACTED:secret:GH]");
}

#[test]
fn known_value_is_hidden_in_debug_output() {
    let shown = format!("{:?}", redactor());
    assert!(!shown.contains("p@ss"), "{shown}");
}

#[test]
fn known_value_with_unnecessary_escapes_is_masked() {
    let value = "my-own_secret.value";
    let redactor = Redactor::new().with_values([("OWN", value)]);
    for form in [
        r"my\u002down_secret.value",
        r"my\u002Down\u005fsecret\u002evalue",
        r"\u006d\u0079-own_secret.value",
        r"my\\u002down_secret.value",
        "my%2Down%5Fsecret%2Evalue",
        "my%2down_secret%2evalue",
    ] {
        let mut text = format!("<{form}>");
        assert_eq!(redactor.mask_text(&mut text), 1, "{form}");
        assert_eq!(text, "<[REDACTED:secret:OWN]>", "{form}");
    }
}

#[test]
fn known_value_lines_are_masked_one_by_one() {
    let value = "-----BEGIN OWN KEY-----\nfirst-line-of-it\n  second-line-of-it\nshort\n-----END OWN KEY-----";
    let redactor = Redactor::new().with_values([("KEY", value)]);
    let mut text = "it has second-line-of-it and short in it".to_owned();
    assert_eq!(redactor.mask_text(&mut text), 1);
    assert_eq!(text, "it has [REDACTED:secret:KEY] and short in it");
    let mut whole = format!("<{value}>");
    redactor.mask_text(&mut whole);
    assert_eq!(whole, "<[REDACTED:secret:KEY]>");
    let mut frame = "-----BEGIN OWN KEY-----".to_owned();
    assert_eq!(redactor.mask_text(&mut frame), 0);
}

#[test]
fn known_value_in_binary_data_is_masked() {
    let redactor = Redactor::new().with_values([("OWN", "my-own-secret-value")]);
    let mut bytes = b"\xff\x00 my-own-secret-value \x00".to_vec();
    assert_eq!(redactor.mask_bytes(&mut bytes).count(), 1);
    assert_eq!(bytes, b"\xff\x00 [REDACTED:secret:OWN] \x00");
    let mut token = super::TOKEN.as_bytes().to_vec();
    assert_eq!(redactor.mask_bytes(&mut token).count(), 0);
}

#[test]
fn known_value_with_mixed_escapes_is_masked() {
    let value = "wJalr/K7MD+ENGbPx&R<fiCY\"z=";
    let redactor = Redactor::new().with_values([("AWS", value)]);
    for written in [
        // Python's `quote`, also without safe characters, `quote_plus`, JavaScript's `escape`.
        "wJalr/K7MD%2BENGbPx%26R%3CfiCY%22z%3D",
        "wJalr%2FK7MD%2BENGbPx%26R%3CfiCY%22z%3D",
        "wJalr/K7MD+ENGbPx%26R%3CfiCY%22z%3D",
        // By hand, in both cases, a letter too.
        "w%4aalr%2fK7MD+ENGbPx&R%3cfiCY%22z=",
        // Go's JSON, and that in a string again.
        r#"wJalr/K7MD+ENGbPx\u0026R\u003cfiCY\"z="#,
        r#"wJalr/K7MD+ENGbPx\\u0026R\\u003cfiCY\\\"z="#,
        // HTML, in numbers, in an attribute of an address.
        "wJalr/K7MD+ENGbPx&amp;R&lt;fiCY&#34;z=",
        "wJalr/K7MD&#x2B;ENGbPx&#38;R&#60;fiCY&quot;z&#61;",
        "wJalr%2FK7MD%2BENGbPx%26amp%3BR%26lt%3BfiCY%22z%3D",
        "wJalr%252FK7MD%252BENGbPx%2526R%253CfiCY%2522z%253D",
        r"wJalr/K7MD\x2bENGbPx\x26R\x3cfiCY\x22z=",
    ] {
        let text = format!("a {written} b");
        let findings = redactor.find(text.as_bytes());
        assert_eq!(findings.len(), 1, "{written}: {findings:?}");
        assert_eq!(&text[findings[0].start..findings[0].end], written);
        // A cut does not hide the value either.
        for at in 1..text.len() {
            let mut stream = redactor.stream_masker();
            let mut out = Vec::new();
            stream.push(&text.as_bytes()[..at], &mut out);
            stream.flush(&mut out);
            stream.push(&text.as_bytes()[at..], &mut out);
            stream.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), "a [REDACTED:secret:AWS] b");
        }
        let mut lines = redactor.line_masker();
        let half = text.len() / 2;
        let mut shown = lines.push((), text[..half].to_owned()).0;
        shown.extend(lines.push((), text[half..].to_owned()).0);
        shown.extend(lines.finish().0);
        let shown: String = shown.into_iter().map(|((), line)| line).collect();
        let mark = "[REDACTED:secret:AWS]";
        assert_eq!(shown, format!("a {mark}{mark} b"), "{written}");
    }
}

#[test]
fn known_value_in_hex_dumps_is_masked() {
    let value = "my-own-secret-value-1234";
    let redactor = Redactor::new().with_values([("OWN", value)]);
    let bytes = format!("before {value} and behind").into_bytes();
    let pair = |byte: &u8| format!("{byte:02x}");
    let pairs: Vec<String> = bytes.iter().map(pair).collect();
    let dump = |form: &dyn Fn(usize, &[u8]) -> String, size: usize| -> String {
        bytes
            .chunks(size)
            .enumerate()
            .map(|(line, bytes)| form(line * size, bytes))
            .collect()
    };
    let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let xxd = |offset: usize, bytes: &[u8]| {
        let words: Vec<String> = bytes
            .chunks(2)
            .map(|word| word.iter().map(pair).collect())
            .collect();
        format!(
            "{offset:08x}: {:<39}  {}\n",
            words.join(" "),
            printed(bytes)
        )
    };
    let hexdump = |offset: usize, bytes: &[u8]| {
        let halves: Vec<String> = bytes
            .chunks(8)
            .map(|half| half.iter().map(pair).collect::<Vec<_>>().join(" "))
            .collect();
        format!(
            "{offset:08x}  {:<48}  |{}|\n",
            halves.join("  "),
            printed(bytes)
        )
    };
    let openssl = |_: usize, bytes: &[u8]| {
        let pairs: Vec<String> = bytes.iter().map(pair).collect();
        format!("    {}:\n", pairs.join(":"))
    };
    let od = |_: usize, bytes: &[u8]| {
        let pairs: Vec<String> = bytes.iter().map(pair).collect();
        format!(" {}\n", pairs.join(" "))
    };
    let quoted: Vec<String> = pairs.iter().map(|pair| format!("0x{pair}")).collect();
    for text in [
        dump(&xxd, 16),
        dump(&hexdump, 16),
        dump(&openssl, 15),
        dump(&od, 16),
        pairs.join(" "),
        pairs.join(":").to_uppercase(),
        format!("Key: {} (hex)", pairs.join(":")),
        format!("let key = [{}];", quoted.join(", ")),
    ] {
        let mut out = text.clone();
        assert!(redactor.mask_text(&mut out) > 0, "{text}");
        // Neither digits nor letters of the value remain.
        for fragment in [
            "65 74",
            "65:74",
            "6574",
            "0x74, 0x2d",
            "secret",
            "value",
            "65:74".to_uppercase().as_str(),
        ] {
            let inside = text.contains(fragment) && pairs.join(" ").contains("65 74");
            assert!(!inside || !out.contains(fragment), "{fragment} in {out}");
        }
    }
    for text in [
        "12:34:56:78:9a:bc",
        "00000000: 6d79 2d6f 776e  my-own",
        "the 3a bc of 1d ef",
    ] {
        let mut out = text.to_owned();
        assert_eq!(redactor.mask_text(&mut out), 0, "{out}");
    }
}
