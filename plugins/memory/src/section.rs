//! Sections of a memory, which are ranked one by one: the text under a heading, or a part of it if it is long.

use crate::lines::{Line, lines};

/// Approximate size of a section in bytes: a paragraph or two, and within the limit of any embeddings model.
const SECTION_BYTES: usize = 1_200;

/// A section of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Number of the first line, from 1.
    pub(crate) start: usize,
    /// Number of the last line.
    pub(crate) end: usize,
    /// The heading above the section; empty if the section begins with its heading.
    pub(crate) heading: String,
    pub(crate) text: String,
}

/// Splits a text at headings, and long sections at empty lines or else at any line.
pub(crate) fn split_sections(text: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut open: Option<Section> = None;
    let mut heading = String::new();
    let mut fenced = false;
    for line in lines(text) {
        let is_heading = !fenced && is_heading(line);
        fenced ^= line.text.trim_start().starts_with("```");
        let full = open.as_ref().is_some_and(|section| {
            let length = section.text.len();
            length + line.text.len() > SECTION_BYTES
                || (length > SECTION_BYTES / 2 && line.text.trim().is_empty())
        });
        if (is_heading || full)
            && let Some(section) = open.take()
        {
            sections.push(section);
        }
        if is_heading {
            heading = line.text.trim_start_matches('#').trim().to_owned();
        }
        let section = open.get_or_insert_with(|| Section {
            start: line.number,
            end: line.number,
            heading: if is_heading {
                String::new()
            } else {
                heading.clone()
            },
            text: String::new(),
        });
        section.end = line.number;
        section.text.push_str(line.text);
        section.text.push('\n');
    }
    sections.extend(open);
    sections.retain(|section| !section.text.trim().is_empty());
    sections
}

fn is_heading(line: Line<'_>) -> bool {
    let rest = line.text.trim_start_matches('#');
    let depth = line.text.len() - rest.len();
    (1..=6).contains(&depth) && rest.starts_with(' ')
}

impl Section {
    /// Returns the text to rank: the section with the name of the memory and the heading, because a section alone may
    /// not state its topic.
    pub(crate) fn ranked_text(&self, name: &str) -> String {
        format!("{name}\n{}\n{}", self.heading, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_parts_split_at_headings() {
        let text = "intro\n\n# One\na\n```\n# no heading\n```\n## Two\nb\n#no heading\n";
        let sections = split_sections(text);
        let seen: Vec<_> = sections
            .iter()
            .map(|section| (section.start, section.end))
            .collect();
        assert_eq!(seen, [(1, 2), (3, 7), (8, 10)]);
        assert_eq!(sections[1].text, "# One\na\n```\n# no heading\n```\n");
        let joined: String = sections
            .iter()
            .map(|section| section.text.as_str())
            .collect();
        assert_eq!(joined, text);
    }

    #[test]
    fn memory_parts_of_long_text_share_the_heading() {
        let paragraph = "some words of a line\n".repeat(30);
        let text = format!("# Long\n{paragraph}\n{paragraph}\n{}", "x".repeat(5_000));
        let sections = split_sections(&text);
        assert!(sections.len() >= 3, "{}", sections.len());
        assert!(
            sections[1..]
                .iter()
                .all(|section| section.heading == "Long")
        );
        assert!(sections[0].end + 1 == sections[1].start);
        assert_eq!(super::split_sections(""), []);
        assert_eq!(super::split_sections("\n \n"), []);
    }
}
