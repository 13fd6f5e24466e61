//! Text of Go comments for a model: without markers, directives and line breaks within paragraphs.

/// Returns the text of a comment group.
pub(super) fn comment_text(comments: &[&str]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for comment in comments {
        if let Some(line) = comment.strip_prefix("//") {
            if !is_directive(line) {
                lines.push(line.strip_prefix(' ').unwrap_or(line).to_owned());
            }
        } else {
            lines.extend(block_lines(comment));
        }
    }
    join_paragraphs(&lines)
}

/// Returns true for the text after `//` of a comment for tools, such as `//go:embed` and `//nolint`.
fn is_directive(line: &str) -> bool {
    if ["line ", "extern ", "export ", "nolint"]
        .iter()
        .any(|start| line.starts_with(start))
    {
        return true;
    }
    let is_tool_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    line.split_once(':').is_some_and(|(tool, rest)| {
        !tool.is_empty() && tool.chars().all(is_tool_word) && rest.starts_with(is_tool_word)
    })
}

/// Returns the lines of a `/* */` comment, without a column of stars.
fn block_lines(comment: &str) -> Vec<String> {
    let body = comment.strip_prefix("/*").unwrap_or(comment);
    let body = body.strip_suffix("*/").unwrap_or(body);
    let mut lines = body.lines().map(str::trim_end);
    let first = lines.next().unwrap_or_default();
    // `/**` begins a comment in other languages.
    let first = first.strip_prefix('*').unwrap_or(first).trim_start();
    let others: Vec<&str> = lines.collect();
    let has_star = |line: &&str| line.is_empty() || line.trim_start().starts_with('*');
    let has_column = others.iter().any(|line| !line.is_empty()) && others.iter().all(has_star);
    let others = others.iter().map(|line| {
        if has_column {
            let line = line.trim_start().trim_start_matches('*');
            line.strip_prefix(' ').unwrap_or(line).to_owned()
        } else {
            line.trim_start().to_owned()
        }
    });
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// Joins the lines of each paragraph. Lists, headings and indented code keep their lines, and paragraphs are separated
/// by an empty line.
fn join_paragraphs(lines: &[String]) -> String {
    let mut text = String::new();
    let mut can_continue = false;
    let mut is_after_blank = false;
    for line in lines.iter().map(|line| line.trim_end()) {
        if line.is_empty() {
            is_after_blank = true;
            continue;
        }
        let has_own_line = has_own_line(line);
        if !text.is_empty() {
            text.push_str(match (is_after_blank, can_continue && !has_own_line) {
                (true, _) => "\n\n",
                (false, true) => " ",
                (false, false) => "\n",
            });
        }
        text.push_str(line);
        can_continue = !line.starts_with([' ', '\t']);
        is_after_blank = false;
    }
    text.trim().to_owned()
}

/// Returns true for list items, headings and indented lines.
fn has_own_line(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_number.len() < line.len() && after_number.starts_with(['.', ')']);
    is_numbered
        || line.starts_with([' ', '\t'])
        || ["- ", "* ", "+ ", "# "]
            .iter()
            .any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_text_joins_lines_and_keeps_lists_and_code() {
        let lines = [
            "// Counts words",
            "// and lines:\r",
            "//",
            "//",
            "// - one",
            "//   more",
            "// 2. two",
            "//",
            "//\tcode()",
            "// end",
        ];
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(
            comment_text(&lines),
            "Counts words and lines:\n\n- one\n  more\n2. two\n\n\tcode()\nend"
        );
    }

    #[test]
    fn comment_text_leaves_out_directives_only() {
        let directives = [
            "//go:generate x",
            "//nolint",
            "//nolint:all",
            "//lint:ignore x",
            "//export f",
            "//line a.go:1",
        ];
        assert_eq!(comment_text(&directives), "");
        assert_eq!(
            comment_text(&["//Note: text", "//see: there"]),
            "Note: text see: there"
        );
    }

    #[test]
    fn comment_text_removes_block_markers() {
        assert_eq!(comment_text(&["/* One line. */"]), "One line.");
        assert_eq!(
            comment_text(&["/**\n * First\n * second.\n */"]),
            "First second."
        );
        assert_eq!(
            comment_text(&["/*\n\tFirst\n\tsecond.\n*/"]),
            "First second."
        );
        assert_eq!(comment_text(&["/**/"]), "");
        assert_eq!(comment_text(&["/* open"]), "open");
    }
}
