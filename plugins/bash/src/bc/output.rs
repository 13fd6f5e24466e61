//! Output with long lines broken, as bc writes it.

/// Default line length, newline included, if `BC_LINE_LENGTH` is unset or invalid.
const LINE_LENGTH: usize = 70;

/// Output size in bytes above which [`LineWriter::is_full`] returns true.
const MAX_OUTPUT: usize = 64 << 20;

/// Collects output. A line that is too long is broken with a backslash.
#[derive(Debug)]
pub struct LineWriter {
    pub text: String,
    column: usize,
    /// Line length, newline included; 0 disables wrapping.
    length: usize,
}

impl LineWriter {
    /// Creates a writer for the value of `BC_LINE_LENGTH`.
    pub fn new(line_length: Option<&str>) -> Self {
        let length = line_length.and_then(|length| length.trim().parse().ok());
        let length = match length {
            Some(length) if length == 0 || length > 2 => length,
            _ => LINE_LENGTH,
        };
        Self {
            text: String::new(),
            column: 0,
            length,
        }
    }

    /// Appends text and wraps long lines.
    pub fn write_text(&mut self, text: &str) {
        for c in text.chars() {
            self.write_character(c);
        }
    }

    fn write_character(&mut self, c: char) {
        if c == '\n' {
            self.column = 0;
        } else {
            self.column += 1;
            if self.length > 0 && self.column == self.length - 1 {
                self.text.push_str("\\\n");
                self.column = 1;
            }
        }
        self.text.push(c);
    }

    /// Returns true if the output is larger than the limit. The writer itself does not enforce the limit.
    pub fn is_full(&self) -> bool {
        self.text.len() > MAX_OUTPUT
    }
}
