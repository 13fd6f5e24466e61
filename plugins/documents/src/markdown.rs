//! Writes Markdown.

use crate::read::ReadError;

/// Maximum length of the Markdown of a document in bytes.
const MAX_MARKDOWN: usize = 16 << 20;

/// Deepest heading of Markdown.
const MAX_HEADING: usize = 6;

/// Markdown under construction.
#[derive(Default)]
pub struct Markdown {
    text: String,
    in_list: bool,
}

impl Markdown {
    /// Adds a heading.
    pub fn heading(&mut self, level: usize, title: &str) {
        let title = one_line(title);
        if !title.is_empty() {
            self.start_block(false);
            let marks = "#".repeat(level.clamp(1, MAX_HEADING));
            self.text.push_str(&format!("{marks} {title}\n"));
        }
    }

    /// Adds a paragraph. Its line breaks stay.
    pub fn paragraph(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.start_block(false);
            self.text.push_str(text);
            self.text.push('\n');
        }
    }

    /// Adds an item of a list; `depth` counts from 0.
    pub fn list_item(&mut self, depth: usize, numbered: bool, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.start_block(true);
            let indent = "  ".repeat(depth.min(8));
            let mark = if numbered { "1." } else { "-" };
            let text = text.replace('\n', &format!("\n{indent}  "));
            self.text.push_str(&format!("{indent}{mark} {text}\n"));
        }
    }

    /// Adds a table. The first row is its header. Empty rows and columns at the end are left out.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        let is_filled = |cell: &String| !cell.trim().is_empty();
        let width = rows
            .iter()
            .filter_map(|row| row.iter().rposition(is_filled))
            .max()
            .map_or(0, |last| last + 1);
        let height = rows
            .iter()
            .rposition(|row| row.iter().any(is_filled))
            .map_or(0, |last| last + 1);
        if width == 0 {
            return;
        }
        self.start_block(false);
        for (at, row) in rows[..height].iter().enumerate() {
            self.text.push('|');
            for column in 0..width {
                let cell = row.get(column).map_or("", String::as_str);
                self.text
                    .push_str(&format!(" {} |", one_line(cell).replace('|', "\\|")));
            }
            self.text.push('\n');
            if at == 0 {
                self.text
                    .push_str(&format!("|{}\n", " --- |".repeat(width)));
            }
        }
    }

    /// Fails if the text has become too long.
    pub fn check_size(&self) -> Result<(), ReadError> {
        if self.text.len() > MAX_MARKDOWN {
            return Err(ReadError::TooLarge(format!(
                "its text has more than {} MiB",
                MAX_MARKDOWN >> 20
            )));
        }
        Ok(())
    }

    /// Returns the Markdown.
    pub fn finish(self) -> String {
        self.text
    }

    /// Separates a block from the one before it.
    fn start_block(&mut self, is_list: bool) {
        if !self.text.is_empty() && !(is_list && self.in_list) {
            self.text.push('\n');
        }
        self.in_list = is_list;
    }
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
