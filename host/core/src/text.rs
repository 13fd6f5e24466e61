//! Text from outside, made safe to show and cut without breaking a character.

/// Characters that change how other text is shown: terminal escapes and controls, bidirectional
/// overrides and isolates, invisible tag characters. Tabs and line ends stay.
fn is_disguise(c: char) -> bool {
    match c {
        '\n' | '\t' | '\r' => false,
        c if c.is_control() => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// Whether `sanitize` would leave the text as it is. ASCII text is judged a byte at a time.
fn is_plain(text: &str) -> bool {
    let mut ascii = true;
    for byte in text.bytes() {
        match byte {
            b'\n' | b'\t' | b' '..=b'~' => {}
            0x80.. => ascii = false,
            // A carriage return is plain only in front of a line feed.
            _ => return false,
        }
    }
    ascii || !text.chars().any(|c| is_disguise(c) && !is_joiner(c))
}

/// Joiners are part of ordinary emoji and of several scripts.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Removes terminal escape sequences and writes other controls and disguises as `\u{…}`, so that
/// text from a tool can neither drive a terminal nor hide from a reader. CRLF stays CRLF.
pub fn sanitize(text: String) -> String {
    if is_plain(&text) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => out.push(c),
            // A lone carriage return lets a later text cover an earlier one.
            '\r' => out.push('\n'),
            c if is_disguise(c) && !is_joiner(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The longest string of an escape sequence, such as a title or a link. What is longer, or goes on in
/// another line, is no sequence but text, and is not swallowed.
const STRING_MAX: usize = 1024;

/// Skips what follows ESC: a control sequence, a string such as a title, or a single character.
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
            // Not a sequence after all: what follows is text.
            _ => break,
        }
    }
}

/// One line for a person: no line ends, no controls, nothing hidden.
pub fn visible(text: &str) -> String {
    sanitize(text.to_owned())
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The longest prefix of at most `max` characters.
pub fn prefix(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    match text.char_indices().nth(max) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// The longest prefix of at most `max` bytes that ends between characters.
pub fn prefix_bytes(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Bytes as a person reads them: `1.2 MB`.
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
    fn escapes_cannot_drive_a_terminal() {
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
    fn cuts_fall_between_characters() {
        assert_eq!(prefix("aäb", 2), "aä");
        assert_eq!(prefix("aäb", 9), "aäb");
        assert_eq!(prefix_bytes("aäb", 2), "a");
        assert_eq!(bytes(1536), "1.5 KB");
    }
}
