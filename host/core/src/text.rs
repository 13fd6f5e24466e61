//! Sanitizes untrusted text for display, and shortens text at character boundaries.

use serde_json::{Map, Value};

mod wrap;

pub use wrap::wrapped;

/// Treatment of a character in displayed text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharTreatment {
    Plain,
    /// Control characters, invisible characters, and characters that change the display of other text.
    Escape,
    /// Shown at most once after a visible character, as in emoji and several scripts. A run of them can hide text.
    Once,
}

/// Returns the treatment of a character. Controls, bidirectional overrides and isolates, and invisible characters are
/// escaped; tabs and line ends are plain.
fn char_treatment(c: char) -> CharTreatment {
    match c {
        '\n' | '\t' | '\r' => CharTreatment::Plain,
        c if c.is_control() => CharTreatment::Escape,
        c if c < '\u{ad}' => CharTreatment::Plain,
        // Joiners and variation selectors.
        '\u{200c}'..='\u{200d}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => CharTreatment::Once,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => CharTreatment::Once,
        '\u{2028}'..='\u{2029}' | '\u{fff9}'..='\u{fffb}' => CharTreatment::Escape,
        c if is_ignorable(c) => CharTreatment::Escape,
        _ => CharTreatment::Plain,
    }
}

/// Unicode's Default_Ignorable_Code_Point: invisible characters, which HFS+ and casefolding ext4 ignore when they
/// compare names.
pub(crate) fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The context before a character.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum PrecedingChar {
    /// The start of the text. A byte order mark may follow.
    #[default]
    Start,
    /// A character that no joiner or selector may follow.
    Nothing,
    /// A visible character. A joiner or selector may follow.
    Base,
    /// The selector of an emoji. A joiner may follow.
    Selector,
}

impl PrecedingChar {
    /// Returns true if `c` is shown unchanged. Updates the context for the next character.
    fn keeps(&mut self, c: char) -> bool {
        let is_joiner = c == '\u{200d}';
        let treatment = char_treatment(c);
        let keeps = match treatment {
            CharTreatment::Plain => true,
            CharTreatment::Escape => *self == PrecedingChar::Start && c == '\u{feff}',
            CharTreatment::Once => {
                *self == PrecedingChar::Base || (*self == PrecedingChar::Selector && is_joiner)
            }
        };
        // The only ASCII characters with selectors are those of keycap emoji.
        let can_be_base = !c.is_ascii() || matches!(c, '#' | '*' | '0'..='9');
        *self = match treatment {
            CharTreatment::Plain if can_be_base => PrecedingChar::Base,
            CharTreatment::Once if keeps && c == '\u{fe0f}' => PrecedingChar::Selector,
            _ => PrecedingChar::Nothing,
        };
        keeps
    }
}

/// Returns true if the text needs no change. Fast for ASCII text.
pub(crate) fn is_plain(text: &str) -> bool {
    // Without an early exit, so that the compiler vectorizes the loop.
    const AT_ONCE: usize = 64;
    let mut ascii = true;
    for bytes in text.as_bytes().chunks(AT_ONCE) {
        let mut has_control = false;
        for byte in bytes {
            // A carriage return is plain only before a line feed.
            has_control |= (*byte < b' ' && *byte != b'\n' && *byte != b'\t') || *byte == 0x7f;
            ascii &= *byte < 0x80;
        }
        if has_control {
            return false;
        }
    }
    let mut before = PrecedingChar::default();
    ascii || text.chars().all(|c| before.keeps(c))
}

/// Removes terminal escape sequences and writes other control and invisible characters as `\u{…}`, so that untrusted
/// text can neither control a terminal nor hide from a reader. CRLF stays CRLF.
pub fn sanitize(text: String) -> String {
    if is_plain(&text) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut before = PrecedingChar::default();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let keeps = before.keeps(c);
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => out.push(c),
            // After a lone carriage return, a terminal would overwrite the line.
            '\r' => out.push('\n'),
            c if keeps => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Escapes a string for JSON: keeps control characters that JSON escapes, and writes other invisible characters as
/// `\u{…}`. Unlike [`sanitize`], removes nothing.
pub fn escape(text: String) -> String {
    if is_plain(&text) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut before = PrecedingChar::default();
    for c in text.chars() {
        if before.keeps(c) || c < ' ' {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// Writes invisible characters of a JSON text as JSON escapes, such as `\u200b`. The text is then safe to print, and its
/// value stays the same. The control characters that JSON does not allow in a string must be escaped already.
pub fn escape_json(json: String) -> String {
    if is_plain(&json) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut before = PrecedingChar::default();
    for c in json.chars() {
        if before.keeps(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Applies [`escape`] to the strings and keys of a JSON value, at any depth. Returns true if anything changed.
pub fn escape_value(item: &mut Value) -> bool {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            let changes = !is_plain(text);
            if changes {
                *text = escape(std::mem::take(text));
            }
            changes
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| escape_value(item) | changed),
        Value::Object(map) => {
            let keys_change = !map.keys().all(|key| is_plain(key));
            if keys_change {
                let old: Map<String, Value> = std::mem::take(map);
                map.extend(old.into_iter().map(|(key, item)| (escape(key), item)));
            }
            map.values_mut()
                .fold(keys_change, |changed, item| escape_value(item) | changed)
        }
    }
}

/// Maximum length of the string in an escape sequence, such as a title or a link, in characters. Longer strings, and
/// strings with a line end, are treated as text and not removed.
const STRING_MAX: usize = 1024;

/// Skips the rest of an escape sequence after ESC: a control sequence, a string such as a title, or a single
/// character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => skip_csi(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let mut ahead = rest.clone();
            for _ in 0..STRING_MAX {
                match ahead.next() {
                    Some('\u{7}' | '\u{9c}') => {}
                    Some('\u{1b}') => {
                        ahead.next_if_eq(&'\\');
                    }
                    None | Some('\n') => return,
                    Some(_) => continue,
                }
                *rest = ahead;
                return;
            }
        }
        Some(c) if (' '..='/').contains(&c) => {
            rest.next();
        }
        _ => {}
    }
}

/// Skips a control sequence up to its final character.
fn skip_csi(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = rest.peek() {
        match c {
            '@'..='~' => {
                rest.next();
                break;
            }
            ' '..='?' => {
                rest.next();
            }
            // Not a valid sequence: the rest is text.
            _ => break,
        }
    }
}

/// Quotes a word for a POSIX shell if necessary.
pub fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/.-_=@:,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Converts text to one line for display, without control characters or hidden text.
pub fn visible(text: &str) -> String {
    sanitize(text.to_owned())
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Returns the longest prefix of at most `max` characters.
pub fn prefix(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    match text.char_indices().nth(max) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Returns the longest prefix of at most `max` bytes that ends at a character boundary.
pub fn prefix_bytes(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Formats a byte count for display, such as `1.2 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_removes_terminal_escapes() {
        let clean = |text: &str| sanitize(text.to_owned());
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m b"), "ared b");
        assert_eq!(
            clean("\u{1b}]0;title\u{7}x\u{1b}]8;;http://e\u{1b}\\y"),
            "xy"
        );
        assert_eq!(clean("safe\rEVIL"), "safe\nEVIL");
        assert_eq!(clean("a\r\nb"), "a\r\nb");
        assert_eq!(clean("a\u{202e}b\u{8}"), "a\\u{202e}b\\u{8}");
        assert_eq!(clean("tab\tä👩‍💻"), "tab\tä👩‍💻");
        assert_eq!(clean("\u{1b}"), "");
        assert_eq!(clean("a\u{1b}_ all of\nthis stays"), "a all of\nthis stays");
        assert_eq!(clean("\u{1b}[38;5;1"), "");
        assert_eq!(clean("\u{9b}31mx"), "x");
    }

    #[test]
    fn sanitize_writes_out_invisible_characters() {
        for plain in ["\u{feff}x", "👩‍💻 ❤️‍🔥 1️⃣ 葛󠄀 می‌خواهم ä", "a\tb\nc\r\nd"]
        {
            assert_eq!(sanitize(plain.to_owned()), plain);
            assert_eq!(escape(plain.to_owned()), plain);
        }
        assert_eq!(sanitize("a\u{feff}".to_owned()), r"a\u{feff}");
        let hidden = "x\u{e0101}\u{fe00}\u{ad}\u{3164}\u{115f}\u{61c}\u{e0041}";
        assert_eq!(
            sanitize(hidden.to_owned()),
            r"x\u{e0101}\u{fe00}\u{ad}\u{3164}\u{115f}\u{61c}\u{e0041}"
        );
        // A run of selectors after an emoji can carry a hidden text.
        assert_eq!(
            sanitize("😀\u{fe0f}\u{fe0f}\u{e0141}\u{200d}\u{200d}".to_owned()),
            "😀\u{fe0f}\\u{fe0f}\\u{e0141}\\u{200d}\\u{200d}"
        );
    }

    #[test]
    fn escape_text_removes_nothing() {
        assert_eq!(
            escape("a\u{1b}[31mb\rc\u{202e}d\u{9b}".to_owned()),
            "a\u{1b}[31mb\rc\\u{202e}d\\u{9b}"
        );
    }

    #[test]
    fn escape_json_keeps_the_value() {
        let value = serde_json::json!({
            "a\u{202e}": "x\u{200b}\u{1b}[2K\u{7f}\u{9b}\n\u{e0041}",
            "plain": "👩‍💻 ä",
        });
        let json = escape_json(serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(
            json,
            r#"{
  "a\u202e": "x\u200b\u001b[2K\u007f\u009b\n\udb40\udc41",
  "plain": "👩‍💻 ä"
}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn text_prefix_cuts_between_characters() {
        assert_eq!(prefix("aäb", 2), "aä");
        assert_eq!(prefix("aäb", 9), "aäb");
        assert_eq!(prefix_bytes("aäb", 2), "a");
        assert_eq!(bytes(1536), "1.5 KB");
    }
}
