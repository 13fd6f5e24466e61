//! What a person sees of a call. The tool's own words are bounded and made safe to print.

use crate::approval::{Card, Fingerprint, Pattern};
use crate::decision::{Evaluation, Layer};
use crate::text;
use crate::tool::Trust;

use super::Ruled;

/// The longest line of a tool's own words on a card, in characters, and how many risks it may name: a
/// person has to see the arguments beside them.
const LINE_MAX: usize = 500;
const RISKS_MAX: usize = 20;

/// A tool's own words as one short line that is safe to print.
fn line(words: &str) -> String {
    text::visible(text::prefix(words, LINE_MAX))
}

/// What the person sees. The tool's own words are bounded and made safe to print.
pub(super) fn card(ruled: &Ruled) -> Card {
    let checked = &ruled.checked;
    let tool = &checked.tool;
    let assessment = ruled.assessment.as_ref();
    let summary = match assessment {
        Some(assessment) if !assessment.summary.is_empty() => line(&assessment.summary),
        _ => format!("call `{}`", tool.name()),
    };
    let grants = match tool.trust {
        Trust::Untrusted => tool.definition.needs.lines(),
        Trust::Trusted | Trust::Harmless => Vec::new(),
    };
    let arguments = serde_json::to_string_pretty(&checked.arguments).unwrap_or_default();
    Card {
        fingerprint: Fingerprint::new(
            tool.name().as_str(),
            &tool.origin.digest,
            &checked.arguments,
        ),
        tool: tool.name().to_string(),
        caller: checked
            .parent
            .as_ref()
            .map(|parent| parent.tool.to_string()),
        source: tool.source,
        location: text::visible(&tool.origin.location),
        digest: tool.origin.digest.clone(),
        arguments: text::sanitize(arguments),
        summary,
        risk: assessment.map_or(tool.definition.risk, |a| a.risk.max(tool.definition.risk)),
        risks: assessment.map_or_else(Vec::new, |a| {
            a.risks
                .iter()
                .take(RISKS_MAX)
                .map(|risk| line(risk))
                .collect()
        }),
        grants: grants.iter().map(|line| text::visible(line)).collect(),
        reasons: ruled.evaluation.reasons().to_vec(),
        always: always(ruled),
    }
}

/// Whether nothing but the missing grant is asked about.
pub(super) fn is_about_trust(evaluation: &Evaluation) -> bool {
    evaluation
        .asking()
        .all(|reason| reason.layer == Layer::Trust)
}

/// What the answer "always" stores, in words.
fn always(ruled: &Ruled) -> String {
    let tool = &ruled.checked.tool;
    if is_about_trust(&ruled.evaluation) {
        let plugin = text::visible(&tool.origin.plugin);
        return format!("grant this build of `{plugin}` what all its tools need, for every call");
    }
    let pattern = Pattern::of(tool, &ruled.checked.arguments);
    format!("allow `{}` with {}", tool.name(), pattern.describe())
}
