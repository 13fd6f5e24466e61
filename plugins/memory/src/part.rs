//! The passages of a memory that are ranked: the text under a heading, or a section of it.

use crate::shown::{Line, lines};

/// Approximate bytes of a part: a thought or two, and within the limit of any embeddings model.
const BYTES: usize = 1_200;

/// A passage of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its first line, from 1.
    pub(crate) start: usize,
    /// Its last line.
    pub(crate) end: usize,
    /// The heading above it, unless that is part of it.
    pub(crate) heading: String,
    pub(crate) text: String,
}

/// Splits a text at headings, and long parts at empty lines or else at any line.
pub(crate) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut open: Option<Part> = None;
    let mut heading = String::new();
    let mut fenced = false;
    for line in lines(text) {
        let is_heading = !fenced && is_heading(line);
        fenced ^= line.text.trim_start().starts_with("```");
        let full = open.as_ref().is_some_and(|part| {
            let length = part.text.len();
            length + line.text.len() > BYTES || (length > BYTES / 2 && line.text.trim().is_empty())
        });
        if (is_heading || full)
            && let Some(part) = open.take()
        {
            parts.push(part);
        }
        if is_heading {
            heading = line.text.trim_start_matches('#').trim().to_owned();
        }
        let part = open.get_or_insert_with(|| Part {
            start: line.number,
            end: line.number,
            heading: if is_heading {
                String::new()
            } else {
                heading.clone()
            },
            text: String::new(),
        });
        part.end = line.number;
        part.text.push_str(line.text);
        part.text.push('\n');
    }
    parts.extend(open);
    parts.retain(|part| !part.text.trim().is_empty());
    parts
}

fn is_heading(line: Line<'_>) -> bool {
    let rest = line.text.trim_start_matches('#');
    let depth = line.text.len() - rest.len();
    (1..=6).contains(&depth) && rest.starts_with(' ')
}

impl Part {
    /// The text that is ranked, with the name and the heading, because a part alone lacks the topic.
    pub(crate) fn told(&self, name: &str) -> String {
        format!("{name}\n{}\n{}", self.heading, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_parts_split_at_headings() {
        let text = "intro\n\n# One\na\n```\n# no heading\n```\n## Two\nb\n#no heading\n";
        let parts = parts(text);
        let seen: Vec<_> = parts.iter().map(|part| (part.start, part.end)).collect();
        assert_eq!(seen, [(1, 2), (3, 7), (8, 10)]);
        assert_eq!(parts[1].text, "# One\na\n```\n# no heading\n```\n");
        let joined: String = parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(joined, text);
    }

    #[test]
    fn memory_parts_of_long_text_share_the_heading() {
        let paragraph = "some words of a line\n".repeat(30);
        let text = format!("# Long\n{paragraph}\n{paragraph}\n{}", "x".repeat(5_000));
        let parts = parts(&text);
        assert!(parts.len() >= 3, "{}", parts.len());
        assert!(parts[1..].iter().all(|part| part.heading == "Long"));
        assert!(parts[0].end + 1 == parts[1].start);
        assert_eq!(super::parts(""), []);
        assert_eq!(super::parts("\n \n"), []);
    }
}
