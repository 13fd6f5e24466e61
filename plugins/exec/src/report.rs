//! Formatting of command output for a model: terminal codes are removed and the length is limited.

/// Maximum number of characters of one stream in structured content.
pub const MAX_STREAM: usize = 30_000;

/// Maximum number of characters of both streams as text: about 10,000 tokens.
pub const MAX_TEXT: usize = 40_000;

/// A text after truncation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncated {
    /// The text, with a note at each gap.
    pub text: String,
    /// True if something was left out.
    pub is_truncated: bool,
}

/// Renders output as a terminal would show it: removes control codes, such as those for colours, and replaces a line
/// that was overwritten, such as a progress bar, with its last state. Invalid UTF-8 becomes `U+FFFD`.
pub fn render_as_terminal(bytes: &[u8]) -> String {
    let rendered = apply_carriage_returns(bytes);
    // Invalid bytes are replaced first, because they could look like part of an escape code.
    anstream::adapter::strip_str(&String::from_utf8_lossy(&rendered)).to_string()
}

/// Removes the parts of lines that were overwritten after a carriage return.
fn apply_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let mut rendered = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = line.len() - usize::from(line.ends_with(b"\n"));
        let (text, end) = line.split_at(end);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let last = text.rsplit(|byte| *byte == b'\r').next();
        rendered.extend_from_slice(last.unwrap_or(text));
        rendered.extend_from_slice(end);
    }
    rendered
}

/// Truncates a text to its beginning and end, at line boundaries if possible. Both together have at most `max_chars`
/// characters.
pub fn truncate(text: &str, max_chars: usize) -> Truncated {
    let count = text.chars().count();
    if count <= max_chars {
        return Truncated {
            text: text.to_owned(),
            is_truncated: false,
        };
    }
    // A failure is at the end more often than at the beginning.
    let (head, tail) = (max_chars / 3, max_chars - max_chars / 3);
    let at = |nth: usize| {
        text.char_indices()
            .nth(nth)
            .map_or(text.len(), |(at, _)| at)
    };
    let (head, tail) = (at(head), at(count - tail));
    let head = text[..head].rfind('\n').map_or(head, |end| end + 1);
    let tail = text[tail..].find('\n').map_or(tail, |end| tail + end + 1);
    let (before, missing, after) = (&text[..head], &text[head..tail], &text[tail..]);
    let lines = missing.matches('\n').count();
    let end = if before.ends_with('\n') { "" } else { "\n" };
    Truncated {
        text: format!(
            "{before}{end}[… {} characters in {lines} lines left out …]\n{after}",
            missing.chars().count()
        ),
        is_truncated: true,
    }
}

/// Appends a line, on a line of its own.
pub fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_output_drops_terminal_control_sequences() {
        for (written, read) in [
            (&b"plain\n"[..], "plain\n"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07text", "text"),
            (b" 1%\r 50%\r100%\ndone\r\n", "100%\ndone\n"),
            (b"a\tb\n", "a\tb\n"),
            (b"caf\xe9\n", "caf\u{fffd}\n"),
            (b"\xff\xfeabc\n", "\u{fffd}\u{fffd}abc\n"),
            (b"\x9b31mred", "\u{fffd}31mred"),
            ("käse".as_bytes(), "käse"),
        ] {
            assert_eq!(render_as_terminal(written), read);
        }
    }

    #[test]
    fn exec_output_cut_keeps_both_ends() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let cut = truncate(&text, 300);
        assert!(
            cut.is_truncated
                && cut.text.starts_with("line 0\n")
                && cut.text.ends_with("line 999\n")
        );
        let note = cut.text.lines().find(|line| line.starts_with('[')).unwrap();
        let lines = cut.text.lines().count() - 1;
        assert!(
            note.contains(&format!("in {} lines", 1000 - lines)),
            "{}",
            cut.text
        );
        assert!(cut.text.chars().count() < 400);
    }

    #[test]
    fn exec_output_line_is_cut_between_characters() {
        let cut = truncate(&"ä".repeat(1000), 100);
        assert!(cut.is_truncated);
        assert_eq!(cut.text.matches('ä').count(), 100);
        assert!(!super::truncate("short", 5).is_truncated);
    }
}
