//! The line number of each key in a config file, so that a reason can name the line of its rule.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

use super::edit::strip_bom;

/// Maps keys such as `policy.deny[0]` to their line numbers, from 1. Stops at the first syntax error.
pub fn key_lines(text: &str) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    let mut open: Vec<YamlParserLevel> = Vec::new();
    for event in Parser::new_from_str(strip_bom(text)) {
        let Ok((event, span)) = event else { break };
        let line = span.start.line() as u64;
        match event {
            Event::Scalar(text, ..) => match open.last_mut() {
                Some(YamlParserLevel::Mapping {
                    prefix,
                    key: key @ None,
                }) => {
                    let path = join(prefix, &text);
                    lines.insert(path.clone(), line);
                    *key = Some(path);
                }
                Some(level) => {
                    let path = level.value();
                    lines.entry(path).or_insert(line);
                }
                None => {}
            },
            Event::MappingStart(..) => {
                let prefix = record_value(&mut open, &mut lines, line);
                open.push(YamlParserLevel::Mapping { prefix, key: None });
            }
            Event::SequenceStart(..) => {
                let prefix = record_value(&mut open, &mut lines, line);
                open.push(YamlParserLevel::Sequence { prefix, next: 0 });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
            }
            Event::Alias(_) => {
                record_value(&mut open, &mut lines, line);
            }
            _ => {}
        }
    }
    lines
}

/// A nesting level of the parser.
enum YamlParserLevel {
    /// A mapping, and the key whose value comes next.
    Mapping { prefix: String, key: Option<String> },
    /// A list, and the index of its next item.
    Sequence { prefix: String, next: usize },
}

impl YamlParserLevel {
    /// Returns the path of the next value.
    fn value(&mut self) -> String {
        match self {
            // A mapping used as a key has no path.
            YamlParserLevel::Mapping { prefix, key } => {
                key.take().unwrap_or_else(|| prefix.clone())
            }
            YamlParserLevel::Sequence { prefix, next } => {
                *next += 1;
                format!("{prefix}[{}]", *next - 1)
            }
        }
    }
}

fn record_value(
    open: &mut [YamlParserLevel],
    lines: &mut BTreeMap<String, u64>,
    line: u64,
) -> String {
    let path = open
        .last_mut()
        .map_or_else(String::new, YamlParserLevel::value);
    lines.entry(path.clone()).or_insert(line);
    path
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_key_lines_cover_keys_and_list_items() {
        let text = "# first\npolicy:\n  deny: [a, b]\n  rules:\n    - name: x\n      when: {path: {glob: 'a'}}\n    - decision: ask\ntools:\n  git: &g {enabled: false}\n  other: *g\n";
        let lines = key_lines(text);
        for (key, line) in [
            ("policy", 2),
            ("policy.deny", 3),
            ("policy.deny[1]", 3),
            ("policy.rules[0]", 5),
            ("policy.rules[0].when.path.glob", 6),
            ("policy.rules[1].decision", 7),
            ("tools.git.enabled", 9),
            ("tools.other", 10),
        ] {
            assert_eq!(lines.get(key), Some(&line), "{key}");
        }
        assert!(key_lines("a: [").contains_key("a"));
    }
}
