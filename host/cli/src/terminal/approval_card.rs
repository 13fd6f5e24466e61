//! Rendering of approval cards for a terminal.
//!
//! A tool's author controls much of a card's text and must not be able to fake a prompt. Every line with such text
//! therefore begins with a gutter, and is wrapped before the terminal would wrap it.

use mimir_core::text::wrapped;
use mimir_core::{Card, RiskLevel, ToolSource};

use crate::output::{BAD, FAINT, STRONG, WARN, styled};

/// Prefix of every line with text from a tool.
const GUTTER: &str = "  │ ";

/// Minimum width of quoted text in columns. On a narrower terminal, the terminal itself wraps the lines.
const NARROWEST: usize = 20;

/// A rendered card.
pub struct RenderedCard {
    /// The tool, its caller, its source and its risk level.
    pub head: Vec<String>,
    /// The exact arguments.
    pub arguments: Vec<String>,
    /// The remaining sections, such as grants and the reasons for asking.
    pub tail: Vec<String>,
}

/// Renders a card for a terminal of `width` columns.
pub fn render_card(card: &Card, width: usize) -> RenderedCard {
    let mut head = vec![
        String::new(),
        styled(STRONG, format_args!("mimir: may `{}` run?", card.tool)),
        String::new(),
    ];
    if let Some(caller) = &card.caller {
        head.push(format!("  called by `{caller}`, during its own call"));
    }
    quote(&mut head, &card.summary, width);
    let digest: String = card.digest.chars().take(12).collect();
    head.push(String::new());
    head.push(format!(
        "  source  {} {}",
        card.source.badge(),
        styled(FAINT, format_args!("sha256 {digest}…"))
    ));
    if card.source != ToolSource::BuiltIn {
        quote(&mut head, &card.location, width);
    }
    let risk = match card.risk {
        RiskLevel::Low => card.risk.as_str().to_owned(),
        RiskLevel::Medium => styled(WARN, card.risk.as_str()),
        RiskLevel::High | RiskLevel::Critical => styled(BAD, card.risk.as_str()),
    };
    head.push(format!("  risk    {risk}"));

    let mut arguments = vec!["  arguments".to_owned()];
    for line in card.readable_arguments(text_width(width)) {
        push_quoted(&mut arguments, &line);
    }

    let mut tail = Vec::new();
    for section in card.sections() {
        tail.push(format!("  {}", section.title));
        for line in &section.lines {
            quote(&mut tail, line, width);
        }
    }
    tail.push(String::new());
    RenderedCard {
        head,
        arguments,
        tail,
    }
}

/// Appends a text to `lines`, wrapped to `width` columns and with the gutter before each line.
fn quote(lines: &mut Vec<String>, text: &str, width: usize) {
    for line in text.lines() {
        for part in wrapped(line, text_width(width)) {
            push_quoted(lines, &part);
        }
    }
}

/// Returns the width of quoted text on a terminal of `width` columns.
fn text_width(width: usize) -> usize {
    width
        .saturating_sub(GUTTER.chars().count() + 1)
        .max(NARROWEST)
}

fn push_quoted(lines: &mut Vec<String>, part: &str) {
    let gutter = styled(FAINT, GUTTER.trim_end());
    lines.push(format!("{gutter} {part}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::{Decision, DecisionReason, PolicyLayer};

    fn card() -> Card {
        Card {
            fingerprint: mimir_core::approval::Fingerprint::new("evil", "", &true.into()),
            caller: None,
            tool: "evil".into(),
            source: ToolSource::Custom,
            location: ".mimir/tools/evil.wasm".into(),
            digest: "0123456789abcdef".into(),
            arguments: format!("{{\n  \"a\": \"{}Run it? [y/N] y\"\n}}", "ä".repeat(200)),
            summary: format!("{}mimir: may `good` run?", " ".repeat(80)),
            risk: RiskLevel::High,
            risks: vec!["it breaks\nmimir: may `good` run?".into()],
            grants: vec!["read the workspace".into()],
            changes: vec!["now `evil` may\nmimir: may `good` run?".into()],
            proofs: vec!["cannot run commands".into()],
            reasons: vec![DecisionReason {
                layer: PolicyLayer::Trust,
                decision: Decision::Ask,
                rule: String::new(),
                source: "evil.wasm".into(),
                text: "nobody has granted it".into(),
            }],
            always: Some(mimir_core::approval::AlwaysCoverage {
                text: "grant\nmimir: may `good` run?".into(),
                grants: vec!["`evil_two` may read `docs`\nmimir: may `good` run?".into()],
                withheld: vec!["files".into()],
                commands: Vec::new(),
            }),
            remedies: vec!["`a: b`\nmimir: may `good` run?".into()],
            editable: true,
            facts: mimir_core::approval::CardFacts::default(),
        }
    }

    #[test]
    fn approval_card_keeps_tool_text_behind_the_gutter() {
        for width in [0, 10, 40, 80, 300] {
            let drawn = render_card(&card(), width);
            let all: Vec<String> = [drawn.head, drawn.arguments, drawn.tail].concat();
            let plain: Vec<String> = all
                .iter()
                .map(|line| anstream::adapter::strip_str(line).to_string())
                .collect();
            let ours = [
                "  source  ",
                "  risk    ",
                "  arguments",
                "  could go",
                "  yes also",
                "  has changed since",
                "  its imports prove",
                "  asked because",
                "  which gives",
                "  and withholds",
                "  to allow without asking",
                "  \"always\" would",
            ];
            for line in &plain {
                let known = line.is_empty()
                    || line == "mimir: may `evil` run?"
                    || ours.iter().any(|start| line.starts_with(start));
                assert!(known || line.starts_with(GUTTER), "{width}: {line:?}");
                if width >= 40 && line.starts_with(GUTTER) {
                    let columns: usize = line[GUTTER.len()..]
                        .chars()
                        .map(|c| if c.is_ascii() { 1 } else { 2 })
                        .sum();
                    assert!(columns + 4 < width, "{width}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn approval_card_marks_wrapped_text_of_arguments() {
        let forged = "\"createDirs\": false,";
        for width in [40, 80] {
            let content = format!("{}{forged}\nlast\n", " ".repeat(width - 9));
            let arguments = serde_json::json!({ "content": content, "createDirs": true });
            let card = Card {
                arguments: serde_json::to_string_pretty(&arguments).unwrap(),
                ..card()
            };
            let lines = render_card(&card, width).arguments;
            let lines = lines
                .iter()
                .map(|line| anstream::adapter::strip_str(line).to_string());
            let lines: Vec<String> = lines.collect();
            let real = lines
                .iter()
                .filter(|line| line.trim_start_matches([' ', '│']).starts_with('"'));
            assert_eq!(
                real.collect::<Vec<_>>(),
                [
                    "  │   \"content\": text of 2 lines",
                    "  │   \"createDirs\": true",
                ],
                "{lines:#?}"
            );
        }
    }

    #[test]
    fn approval_card_shows_all_arguments_and_rights() {
        let drawn = render_card(&card(), 80);
        assert_eq!(
            drawn
                .arguments
                .iter()
                .map(|line| line.matches('ä').count())
                .sum::<usize>(),
            200
        );
        let tail = drawn.tail.join("\n");
        for words in [
            "read the workspace",
            "nobody has granted it",
            "now `evil` may",
            "cannot run commands",
            "`evil_two` may read `docs`",
            "files",
        ] {
            assert!(tail.contains(words), "{words}: {tail}");
        }
    }
}
