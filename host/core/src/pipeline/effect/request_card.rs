//! The description of a request on its card.

use crate::backend::ToolAssessment;
use crate::decision::Decision;
use crate::redact::Redactor;
use crate::text;
use crate::tool::RiskLevel;

use super::OutgoingRequest;

/// Maximum number of lines of a body on a card, and their maximum length in characters.
const BODY_LINES_MAX: usize = 14;
const BODY_LINE_MAX: usize = 200;

/// Describes a request. `body` is its body, if the sender has reported it.
pub(super) fn summarize_request(
    egress: OutgoingRequest<'_>,
    body: Option<&str>,
    redactor: &Redactor,
) -> ToolAssessment {
    ToolAssessment {
        approval: Decision::Ask,
        risk: RiskLevel::Low,
        summary: format!("send {} {}", egress.method, egress.target),
        risks: body.map_or_else(Vec::new, |body| body_lines(body, redactor)),
        scope: None,
        each_time: false,
    }
}

/// Returns the lines of a body, without secrets and cut off after a number of lines; or its size, if it is binary.
fn body_lines(body: &str, redactor: &Redactor) -> Vec<String> {
    let size = text::bytes(body.len() as u64);
    if body.is_empty() {
        return vec!["it sends a body that the browser does not show, such as a file".to_owned()];
    }
    let is_binary = body
        .chars()
        .any(|c| c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace()));
    if is_binary {
        return vec![format!("it sends {size} of binary data")];
    }
    // Masked as a whole: a secret may continue on the next line.
    let mut masked = body.to_owned();
    redactor.mask_text(&mut masked);
    let mut lines = vec![format!("it sends {size}:")];
    for line in masked.lines().filter(|line| !line.trim().is_empty()) {
        let mut rest = line;
        while !rest.is_empty() {
            if lines.len() > BODY_LINES_MAX {
                lines.push("… and more".to_owned());
                return lines;
            }
            let part = text::prefix(rest, BODY_LINE_MAX);
            lines.push(format!("  {part}"));
            rest = rest.get(part.len()..).unwrap_or_default();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_of_a_request_shows_its_body() {
        let redactor = Redactor::new().with_values([("KEY", "hunter2-value")]);
        assert_eq!(
            body_lines("a=1&p=hunter2-value", &redactor)[0],
            "it sends 19 B:"
        );
        let lines = body_lines("a=1&p=hunter2-value\n\nb", &redactor).join("|");
        assert!(
            lines.contains("  a=1&p=") && lines.contains("|  b"),
            "{lines}"
        );
        assert!(!lines.contains("hunter2"), "{lines}");
        let long = body_lines(&"x".repeat(100_000), &redactor);
        assert_eq!(long.len(), BODY_LINES_MAX + 2);
        assert_eq!(long.last().map(String::as_str), Some("… and more"));
        assert_eq!(
            body_lines("\0\u{1}x", &redactor),
            ["it sends 3 B of binary data"]
        );
        assert!(body_lines("", &redactor)[0].contains("such as a file"));
    }
}
