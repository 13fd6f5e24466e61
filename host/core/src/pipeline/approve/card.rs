//! Builds the card that a person sees for a call. Texts from the tool are shortened and made safe to print.

use std::sync::Arc;

use crate::approval::{
    AlwaysCoverage, ApprovalPattern, Card, CardFacts, Fingerprint, WorkspaceBinding,
};
use crate::command::CommandVerdict;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::pipeline::StageContext;
use crate::policy;
use crate::text;
use crate::tool::{RiskLevel, Tool};

use super::Ruled;

/// Maximum length of a line from the tool, in characters. The arguments have to stay visible on the card.
const LINE_MAX: usize = 500;
/// Maximum number of risks on a card.
const RISKS_MAX: usize = 20;
/// Maximum size of the pattern of arguments among the facts of a card, as JSON, in bytes.
const PATTERN_MAX: usize = 8 << 10;
/// Maximum number of commands whose verdicts are among the facts of a card.
const COMMANDS_MAX: usize = 100;

/// Converts a text from the tool to one short line that is safe to print.
fn short_line(text: &str) -> String {
    text::visible(text::prefix(text, LINE_MAX))
}

/// Builds the card. `plugin` contains all tools of the called plugin.
pub(super) fn build_card(stage: &StageContext<'_>, ruled: &Ruled, plugin: &[Arc<Tool>]) -> Card {
    let checked = &ruled.checked;
    let tool = &checked.tool;
    let assessment = ruled.assessment.as_ref();
    let commands = ruled.evaluation.commands();
    let effects = commands
        .iter()
        .filter(|verdict| verdict.decision != Decision::Allow)
        .map(|verdict| format!("{}: {}", verdict.decision.as_str(), verdict.why));
    let commands: Vec<String> = commands
        .iter()
        .map(|verdict| format!("`{}`", verdict.command))
        .collect();
    let summary = match assessment {
        Some(assessment) if !assessment.summary.is_empty() => short_line(&assessment.summary),
        _ => match commands.as_slice() {
            [] => match checked.arguments.get("command") {
                // A script that could not be read.
                Some(command) => short_line(&format!("call `{}` with {command}", tool.name())),
                None => format!("call `{}`", tool.name()),
            },
            [only] => short_line(&format!("run {only}")),
            [first, rest @ ..] => short_line(&format!("run {first} and {} more", rest.len())),
        },
    };
    let is_trust_reason = |reason: &DecisionReason| reason.layer == PolicyLayer::Trust;
    let ungranted = ruled.evaluation.asking().any(is_trust_reason);
    let rights = tool.rights().given_by_approval();
    let rights = rights.filter(|_| ungranted);
    let grants = rights.map_or_else(Vec::new, |needs| needs.lines());
    let changes = tool.changes.iter().filter(|_| ungranted);
    let callers = checked.callers().iter().map(|caller| caller.tool.as_str());
    let callers: Vec<&str> = callers.collect();
    let arguments = serde_json::to_string_pretty(&*checked.arguments).unwrap_or_default();
    Card {
        fingerprint: Fingerprint::new(
            tool.name().as_str(),
            &tool.origin.digest,
            &checked.arguments,
        ),
        tool: tool.name().to_string(),
        caller: (!callers.is_empty()).then(|| callers.join(" → ")),
        source: tool.source,
        location: text::visible(&tool.origin.location),
        digest: tool.origin.digest.clone(),
        arguments: text::escape_json(arguments),
        summary,
        risk: assessment
            .map(|assessment| assessment.risk)
            .into_iter()
            .chain(ruled.evaluation.is_dangerous().then_some(RiskLevel::High))
            .fold(tool.definition.risk, RiskLevel::max),
        risks: assessment
            .iter()
            .flat_map(|assessment| assessment.risks.iter().cloned())
            .chain(tool.flags.iter().cloned())
            .chain(effects)
            .take(RISKS_MAX)
            .map(|risk| short_line(&risk))
            .collect(),
        grants: visible_lines(&grants),
        changes: changes
            .flat_map(|changes| visible_lines(&changes.lines))
            .collect(),
        proofs: if ungranted {
            visible_lines(&tool.origin.proofs)
        } else {
            Vec::new()
        },
        reasons: reasons_for_people(&ruled.evaluation),
        always: (!super::remembered_answer::is_asked_each_time(checked, &ruled.evaluation))
            .then(|| always_coverage(ruled, plugin)),
        remedies: policy::widening_remedies(&ruled.evaluation, tool),
        editable: !checked.is_effect,
        facts: card_facts(stage, ruled),
    }
}

/// Returns all reasons, the one that says most first.
fn reasons_for_people(evaluation: &PolicyEvaluation) -> Vec<DecisionReason> {
    let mut reasons: Vec<_> = evaluation.reasons().cloned().collect();
    DecisionReason::sort_for_people(&mut reasons);
    reasons
}

/// Returns the facts that link the card to the record.
fn card_facts(stage: &StageContext<'_>, ruled: &Ruled) -> CardFacts {
    let context = &ruled.checked.context;
    let session = stage.sessions.get(&context.session_id);
    let (untrusted, sensitive) = session.reads();
    let commands = ruled.evaluation.commands().iter().take(COMMANDS_MAX);
    CardFacts {
        call_id: context.request_id.to_string(),
        session: context.session_id.clone(),
        sharing: session.sharing(),
        client: ruled
            .checked
            .observer
            .client_name()
            .map(ToString::to_string),
        commands: commands
            .map(|verdict| CommandVerdict {
                command: short_line(&verdict.command),
                why: short_line(&verdict.why),
                ..verdict.clone()
            })
            .collect(),
        covers: covered_calls(ruled).map(Box::new),
        untrusted,
        sensitive,
    }
}

/// Returns the pattern of arguments that the answer "always" covers, if it is small.
fn covered_calls(ruled: &Ruled) -> Option<ApprovalPattern> {
    let (checked, evaluation) = (&ruled.checked, &ruled.evaluation);
    if super::remembered_answer::is_asked_each_time(checked, evaluation)
        || is_about_trust(evaluation)
    {
        return None;
    }
    let pattern = ApprovalPattern::for_call(&checked.tool, &checked.arguments, evaluation);
    let size = serde_json::to_string(&pattern).map_or(usize::MAX, |text| text.len());
    (pattern.commands().is_empty() && size <= PATTERN_MAX).then_some(pattern)
}

fn visible_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| text::visible(line)).collect()
}

/// Returns true if every `ask` reason is about a missing grant.
pub(super) fn is_about_trust(evaluation: &PolicyEvaluation) -> bool {
    evaluation
        .asking()
        .all(|reason| reason.layer == PolicyLayer::Trust)
}

/// Describes what the answer "always" stores.
fn always_coverage(ruled: &Ruled, plugin: &[Arc<Tool>]) -> AlwaysCoverage {
    let tool = &ruled.checked.tool;
    if is_about_trust(&ruled.evaluation) {
        return grant_coverage(tool, plugin);
    }
    let pattern = ApprovalPattern::for_call(tool, &ruled.checked.arguments, &ruled.evaluation);
    let mut text = format!(
        "allow `{}` with {}",
        tool.name(),
        pattern.describe_in_full()
    );
    if let Some(files) = WorkspaceBinding::describe_files(ruled.evaluation.executed_files()) {
        text.push_str(&format!(", as long as {files}"));
    }
    let mut asking = ruled.evaluation.asking_reasons_with_basis();
    if asking.any(|(_, basis)| basis.offer.as_ref().is_some_and(|offer| offer.builds)) {
        text.push_str("; it runs the code that the workspace has at that time");
    }
    let scope = ruled
        .assessment
        .as_ref()
        .and_then(|one| one.scope.as_deref());
    if let Some(scope) = scope {
        text.push_str(&format!(", on {}", short_line(scope)));
    }
    if let Some(parent) = &ruled.checked.parent {
        text.push_str(&format!(", called by `{}` as here", parent.tool));
    }
    AlwaysCoverage {
        text,
        grants: Vec::new(),
        withheld: Vec::new(),
        commands: pattern.commands().to_vec(),
    }
}

/// Describes a grant for the whole plugin: the rights of each tool, and the needs that are withheld from all tools.
fn grant_coverage(tool: &Tool, plugin: &[Arc<Tool>]) -> AlwaysCoverage {
    let name = text::visible(&tool.origin.plugin);
    let withheld = tool.changes.iter().flat_map(|changes| &changes.withheld);
    let withheld: Vec<String> = withheld.map(|kind| kind.as_str().to_owned()).collect();
    let grants = plugin.iter().flat_map(|tool| {
        let lines = tool.requested_needs().lines().into_iter();
        lines.map(|line| text::visible(&format!("`{}` may {line}", tool.name())))
    });
    let exceptions = if withheld.is_empty() {
        String::new()
    } else {
        format!(", except {}", withheld.join(", "))
    };
    AlwaysCoverage {
        text: format!(
            "grant this build of `{name}` what all its tools need{exceptions}, for every call"
        ),
        grants: grants.collect(),
        withheld,
        commands: Vec::new(),
    }
}
