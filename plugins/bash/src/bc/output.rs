//! Output with long lines broken, as bc writes it.

/// Characters of a line with its newline, if the environment does not say otherwise.
const LINE_LENGTH: usize = 70;

/// Maximum number of bytes of output.
const MAX_OUTPUT: usize = 64 << 20;

/// Collects output. A line that is too long is broken with a backslash.
#[derive(Debug)]
pub struct LineWriter {
    pub text: String,
    column: usize,
    /// Characters of a line with its newline. 0: lines are not broken.
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

    /// Writes text.
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

    /// Returns true if no more output fits.
    pub fn is_full(&self) -> bool {
        self.text.len() > MAX_OUTPUT
    }
}
