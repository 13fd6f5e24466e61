//! The code of a Markdown page: spans in backticks, blocks, and the command lines in them.

/// A block of code.
pub struct Fence {
    /// The word after the opening backticks, such as `sh`.
    pub info: String,
    /// The code.
    pub text: String,
}

/// The code of a page.
#[derive(Default)]
pub struct Page {
    /// Spans in backticks outside of blocks.
    pub spans: Vec<String>,
    /// Blocks.
    pub fences: Vec<Fence>,
}

impl Page {
    /// Reads a page. Panics if its backticks are not paired.
    pub fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut open: Option<Fence> = None;
        let mut prose = String::new();
        for line in text.lines() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    open = Some(Fence {
                        info: info.trim().to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => page.fences.extend(open.take()),
                (None, Some(fence)) => {
                    fence.text.push_str(line);
                    fence.text.push('\n');
                }
                (None, None) => {
                    // A span may continue on the next line.
                    prose.push_str(line);
                    prose.push(' ');
                }
            }
        }
        assert!(open.is_none(), "a block is not closed");
        let parts: Vec<&str> = prose.split('`').collect();
        assert_eq!(parts.len() % 2, 1, "a backtick is not closed");
        page.spans = parts
            .iter()
            .skip(1)
            .step_by(2)
            .map(|span| (*span).to_owned())
            .collect();
        page
    }
}

/// The command lines of `mimir` in a line of a shell, as words: those behind `|`, `&&` and `--` too, without comments.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for word in words(line) {
        match word.as_str() {
            "|" | "&&" | "||" | "<" | ">" => all.push(Vec::new()),
            // Other programs start `mimir` with the words behind their own.
            "--" if all
                .last()
                .and_then(|words| words.first())
                .is_none_or(|first| first != "mimir") =>
            {
                all.push(Vec::new());
            }
            _ => {
                let command = all.last_mut().unwrap();
                let is_variable = command.is_empty() && word.starts_with("MIMIR_");
                if !is_variable {
                    command.push(word);
                }
            }
        }
    }
    all.retain(|words| words.first().is_some_and(|first| first == "mimir"));
    all
}

/// The words of a line up to its comment. Quotes are removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
