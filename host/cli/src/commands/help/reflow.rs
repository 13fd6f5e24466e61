//! Fitting a page of the manual into the width of a terminal.

use crate::output::indented_to;

/// Maximum width in columns; longer lines are hard to read.
const MAX_COLUMNS: usize = 100;

/// Columns by which continuation lines of a table row are indented.
const ROW_INDENT: usize = 4;

/// Fills the paragraphs and list items of a page, and wraps rows of tables between words. Code stays as it is.
pub fn reflow(page: &str, columns: usize) -> String {
    let mut filled = FilledPage {
        text: String::new(),
        paragraph: String::new(),
        columns: columns.min(MAX_COLUMNS),
    };
    let mut is_code = false;
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if is_code || is_fence {
            filled.end_paragraph();
            filled.push_line(line);
            is_code ^= is_fence;
        } else if line.is_empty() || line.starts_with('#') {
            filled.end_paragraph();
            filled.push_line(line);
        } else if line.starts_with('|') {
            filled.end_paragraph();
            let row = indented_to(line, ROW_INDENT, filled.columns);
            filled.push_line(&row);
        } else {
            filled.push_text(line);
        }
    }
    filled.end_paragraph();
    filled.text
}

/// A page under construction.
struct FilledPage {
    text: String,
    /// The text of the current paragraph or list item, with its indentation.
    paragraph: String,
    columns: usize,
}

impl FilledPage {
    fn push_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line of a paragraph or list item.
    fn push_text(&mut self, line: &str) {
        if marker_width(line.trim_start()) > 0 {
            self.end_paragraph();
        }
        if self.paragraph.is_empty() {
            self.paragraph = line.trim_end().to_owned();
        } else {
            self.paragraph.push(' ');
            self.paragraph.push_str(line.trim());
        }
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        let text = paragraph.trim_start();
        if text.is_empty() {
            return;
        }
        let margin = paragraph.len() - text.len();
        let (marker, text) = text.split_at(marker_width(text));
        let filled = indented_to(text, margin + marker.len(), self.columns);
        self.push_line(&format!("{:margin$}{marker}{filled}", ""));
    }
}

/// Columns of the marker of a list item, such as `- ` or `2. `; 0 for other text.
fn marker_width(text: &str) -> usize {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    if text.starts_with("- ") {
        2
    } else if digits > 0
        && text
            .get(digits..)
            .is_some_and(|rest| rest.starts_with(". "))
    {
        digits + 2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::reflow;

    #[test]
    fn help_page_is_filled_to_the_width_of_the_terminal() {
        let page = "# Title\n\nSome words in a paragraph that is\nwrapped elsewhere.\n\n- an item with more words than one line has\n- next\n  - inner item with more than one line of words\n\n```sh\nmimir call x    # a line of code that stays as long as it is\n```\n| a | table row that is longer than the line |\n";
        let expected = "# Title\n\nSome words in a paragraph that\nis wrapped elsewhere.\n\n- an item with more words than\n  one line has\n- next\n  - inner item with more than\n    one line of words\n\n```sh\nmimir call x    # a line of code that stays as long as it is\n```\n| a | table row that is\n    longer than the line |\n";
        assert_eq!(reflow(page, 31), expected);
    }
}
