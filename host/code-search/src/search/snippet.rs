//! The lines of a file that a result shows.

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 240;

/// Returns a line for a result. A long line is cut between words and not inside a quoted text, because a part of a
/// secret would not be recognized as one.
pub(crate) fn shorten_line(line: &str) -> String {
    let line = line.trim_end();
    if line.len() <= MAX_LINE {
        return line.to_owned();
    }
    let limit = line.floor_char_boundary(MAX_LINE);
    let mut end = line[..limit].rfind(char::is_whitespace).unwrap_or(0);
    for quote in ['"', '\'', '`'] {
        if line[..end].matches(quote).count() % 2 == 1 {
            end = line[..end].rfind(quote).unwrap_or(0);
        }
    }
    format!("{}…", line[..end].trim_end())
}

/// Removes the indentation that all lines have.
pub(crate) fn outdent(lines: &[&str]) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let filled = lines.iter().copied().filter(|line| !line.trim().is_empty());
    let least = filled.map(indent).min().unwrap_or(0);
    lines
        .iter()
        .map(|line| shorten_line(line.get(least..).unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippet_long_lines_are_not_cut_inside_quotes() {
        let secret = "s3cr3t ".repeat(60);
        let line = format!("let password = \"{secret}\";");
        assert_eq!(shorten_line(&line), "let password =…");
        assert_eq!(shorten_line(&"x".repeat(1_000)), "…");
        assert_eq!(shorten_line("  short  "), "  short");
    }

    #[test]
    fn snippet_lines_lose_common_indentation() {
        assert_eq!(outdent(&["    a", "", "      b"]), ["a", "", "  b"]);
    }
}
