//! Where things stand in a YAML file: each key, and each line of the code.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// The places of one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The lines of keys, by their last part.
    keys: HashMap<String, usize>,
    code: Code,
}

/// Where the code begins.
#[derive(Debug, Clone, Copy, Default)]
struct Code {
    /// The line in the file of the first line of the code.
    line: usize,
    /// Characters before each line of it; none where lines do not correspond.
    indent: Option<usize>,
}

/// A place in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) line: usize,
    pub(crate) column: Option<usize>,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{}:{column}", self.line),
            None => write!(f, "{}", self.line),
        }
    }
}

impl Places {
    /// The places in a file that was read as YAML before: what cannot be found is at its beginning.
    pub(crate) fn of(content: &str) -> Self {
        let mut places = Self::default();
        let lines: Vec<&str> = content.lines().collect();
        // Whether the next scalar of each open mapping is a key.
        let mut open: Vec<Option<bool>> = Vec::new();
        let mut key = String::new();
        for event in Parser::new_from_str(content) {
            let Ok((event, span)) = event else { break };
            let turn = |open: &mut Vec<Option<bool>>| {
                if let Some(Some(is_key)) = open.last_mut() {
                    *is_key = !*is_key;
                }
            };
            match event {
                Event::MappingStart(..) => {
                    turn(&mut open);
                    open.push(Some(true));
                }
                Event::SequenceStart(..) => {
                    turn(&mut open);
                    open.push(None);
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    open.pop();
                }
                Event::Scalar(value, style, ..) => {
                    let line = span.start.line();
                    if open.last() == Some(&Some(true)) {
                        key = value.to_string();
                        places.keys.entry(key.clone()).or_insert(line);
                    } else if open.len() == 1 && key == "code" {
                        let header = places.keys.get("code").copied().unwrap_or(line);
                        places.code = Code::of(&lines, header, style);
                    }
                    turn(&mut open);
                }
                _ => {}
            }
        }
        places
    }

    /// The line of a key, from 1.
    pub(crate) fn line(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(1)
    }

    /// Where a place in the code is in the file; both count from 1.
    pub(crate) fn in_code(&self, line: usize, column: usize) -> At {
        match self.code.indent {
            Some(indent) => At {
                line: self.code.line + line - 1,
                column: Some(indent + column),
            },
            None => At {
                line: self.line("code"),
                column: None,
            },
        }
    }
}

impl Code {
    /// `code: |` stands in the line `header`. Only in this style are the lines of the code lines of the file.
    fn of(lines: &[&str], header: usize, style: ScalarStyle) -> Self {
        let below = lines.get(header..).unwrap_or_default();
        let first = below.iter().find(|line| !line.trim().is_empty());
        let indent = first.map(|line| line.len() - line.trim_start_matches(' ').len());
        Self {
            line: header + 1,
            indent: indent.filter(|_| style == ScalarStyle::Literal),
        }
    }
}
