//! Positions in a YAML file: of each key, and of each line of the code.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, ScalarStyle};

use crate::yaml;

/// Positions in one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilePositions {
    /// Lines of the keys, such as `schema` and `permissions.allowlist`.
    keys: HashMap<String, usize>,
    code: CodeStart,
}

/// Position of the code.
#[derive(Debug, Clone, Copy, Default)]
struct CodeStart {
    /// Line in the file of the first line of the code.
    line: usize,
    /// Number of characters before each line of the code, or `None` if its lines do not correspond to lines of the
    /// file.
    indent: Option<usize>,
}

/// A position in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    pub(crate) line: usize,
    pub(crate) column: Option<usize>,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{}:{column}", self.line),
            None => write!(f, "{}", self.line),
        }
    }
}

/// An open collection.
enum YamlLevel {
    /// A mapping, with the prefix of its keys, if they are tracked, and the key whose value comes next.
    Mapping {
        prefix: Option<String>,
        key: Option<Option<String>>,
    },
    Sequence,
}

/// Maximum depth of tracked keys. Inside a schema, any property can be called `code`.
const MAX_KEY_DEPTH: usize = 2;

/// Returns the name of the next value, or `None` for list items and values that are not tracked.
fn next_value_name(open: &mut [YamlLevel]) -> Option<String> {
    let is_too_deep = open.len() >= MAX_KEY_DEPTH;
    match open.last_mut() {
        None => Some(String::new()),
        Some(YamlLevel::Mapping { key, .. }) => {
            let name = key.take().flatten();
            name.filter(|_| !is_too_deep)
        }
        Some(YamlLevel::Sequence) => None,
    }
}

impl FilePositions {
    /// Collects the positions in a file that is valid YAML. A position that cannot be determined is the beginning of
    /// the file.
    pub(crate) fn from_yaml(content: &str) -> Self {
        let mut positions = Self::default();
        let lines: Vec<&str> = content.lines().collect();
        let mut open: Vec<YamlLevel> = Vec::new();
        for event in yaml::events(content) {
            let Ok((event, span)) = event else { break };
            match event {
                Event::MappingStart(..) => {
                    let prefix = next_value_name(&mut open);
                    open.push(YamlLevel::Mapping { prefix, key: None });
                }
                Event::SequenceStart(..) => {
                    next_value_name(&mut open);
                    open.push(YamlLevel::Sequence);
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    open.pop();
                }
                Event::Alias(_) => {
                    next_value_name(&mut open);
                }
                Event::Scalar(text, style, ..) => {
                    let line = span.start.line();
                    if let Some(YamlLevel::Mapping {
                        prefix,
                        key: key @ None,
                    }) = open.last_mut()
                    {
                        // Deeper keys are not tracked, but still have to be consumed as keys.
                        let key_name = prefix.as_deref().map(|prefix| match prefix {
                            "" => text.to_string(),
                            prefix => format!("{prefix}.{text}"),
                        });
                        if let Some(key_name) = &key_name {
                            positions.keys.entry(key_name.clone()).or_insert(line);
                        }
                        *key = Some(key_name);
                    } else if next_value_name(&mut open).as_deref() == Some("code") {
                        let header = positions.keys.get("code").copied().unwrap_or(line);
                        positions.code = CodeStart::locate(&lines, header, style);
                    }
                }
                _ => {}
            }
        }
        positions
    }

    /// Returns the line of a key, counted from 1.
    pub(crate) fn line(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(1)
    }

    /// Converts a position in the code to a position in the file. Both count from 1.
    pub(crate) fn code_position(&self, line: usize, column: usize) -> FilePosition {
        match self.code.indent {
            Some(indent) => FilePosition {
                line: self.code.line + line - 1,
                column: Some(indent + column),
            },
            None => FilePosition {
                line: self.line("code"),
                column: None,
            },
        }
    }
}

impl CodeStart {
    /// Locates the code whose key is on line `header`. Lines of the code correspond to lines of the file only in the
    /// style `code: |`.
    fn locate(lines: &[&str], header: usize, style: ScalarStyle) -> Self {
        let below = lines.get(header..).unwrap_or_default();
        let first = below.iter().find(|line| !line.trim().is_empty());
        let indent = first.map(|line| line.len() - line.trim_start_matches(' ').len());
        Self {
            line: header + 1,
            indent: indent.filter(|_| style == ScalarStyle::Literal),
        }
    }
}
