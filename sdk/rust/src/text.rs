//! Escaping of names and other external text for use in a sentence.
//!
//! A file name can contain a line end, and `a\nread_file: ok` would forge a line of the result. Escape names in the
//! text of a result with [`name`]; structured content keeps the exact name.

use std::borrow::Cow;
use std::fmt::Write;

/// Maximum length in characters of a text that a message repeats: enough to recognize the text.
const MAX_BRIEF_CHARS: usize = 100;

/// Formats a name or a path for use in a line. A name that could be mistaken for something else becomes a JSON string:
/// an empty name, or one with line ends or other control characters, characters that hide or reorder text, spaces at
/// either end or two in a row, or a quote at the beginning. Any other name is returned unchanged.
///
/// ```
/// use mimir_sdk::text;
///
/// assert_eq!(text::name("notes ä.txt"), "notes ä.txt");
/// assert_eq!(text::name("a\nread_file: ok"), r#""a\nread_file: ok""#);
/// ```
pub fn name(name: &str) -> Cow<'_, str> {
    let plain = !name.is_empty()
        && !name.starts_with(['"', ' '])
        && !name.ends_with(' ')
        && !name.contains("  ")
        && !name.chars().any(misleads);
    if plain {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::with_capacity(name.len() + 8);
    quoted.push('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if misleads(c) => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(quoted, "\\u{unit:04x}");
            }),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Escapes a text as [`name`] does and shortens it to about 100 characters, for messages that repeat a caller's input.
/// The middle is cut out, because the end of a path is the most specific part.
///
/// ```
/// assert_eq!(mimir_sdk::text::brief(&"x".repeat(1_000_000)).chars().count(), 101);
/// ```
pub fn brief(text: &str) -> Cow<'_, str> {
    let half = MAX_BRIEF_CHARS / 2;
    // A text never has fewer bytes than characters.
    if text.len() <= MAX_BRIEF_CHARS || text.chars().nth(MAX_BRIEF_CHARS).is_none() {
        return name(text);
    }
    let head = text.char_indices().nth(half).map_or(0, |(at, _)| at);
    let tail = text.char_indices().nth_back(half - 1);
    let tail = tail.map_or(text.len(), |(at, _)| at);
    name(&format!("{}…{}", &text[..head], &text[tail..]))
        .into_owned()
        .into()
}

/// Returns true for characters that end a line, control a terminal, or hide or reorder text. Joiners are excluded,
/// because ordinary emoji and several scripts contain them.
fn misleads(c: char) -> bool {
    match c {
        // Joiners.
        '\u{200c}' | '\u{200d}' => false,
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator, byte order mark.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        // Hangul fillers.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        // Zero-width spaces, line and paragraph separators, bidirectional controls, invisible operators.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Interlinear annotations, tags.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_name_is_json_and_round_trips() {
        for odd in [
            "a\nb",
            "a\rb",
            "tab\t",
            "\u{1b}[31mred",
            "\"a\"",
            "a\\\n",
            " a",
            "a ",
            "a  5 bytes",
            "",
            "\u{202e}txt.exe",
            "a\u{e0041}b",
            "a\u{85}b",
        ] {
            let quoted = name(odd);
            assert!(!quoted.chars().any(misleads), "{quoted}");
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), odd);
        }
    }

    #[test]
    fn ordinary_names_are_not_quoted() {
        for plain in [
            "src/main.rs",
            "a b.txt",
            "空.md",
            "👩‍💻.txt",
            "it's \"x\".txt",
            "C:\\x",
        ] {
            assert!(matches!(name(plain), Cow::Borrowed(_)), "{plain}");
        }
    }

    #[test]
    fn brief_text_keeps_both_ends() {
        let long = format!("start{}end", "ä".repeat(200));
        let brief_of = brief(&long);
        assert!(brief_of.starts_with("start") && brief_of.ends_with("end"));
        assert_eq!(brief_of.chars().count(), MAX_BRIEF_CHARS + 1);
        let short = "ä".repeat(MAX_BRIEF_CHARS);
        assert_eq!(brief(&short), short);
        assert!(brief(&format!("\n{long}")).starts_with("\"\\nstart"));
    }
}
