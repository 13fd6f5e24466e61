//! Second stage: every rule speaks, the strictest wins.

use crate::backend::Assessment;
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::policy;
use crate::tool::Trust;

use super::Road;
use super::trail::Trail;
use super::validate::Checked;

/// A call that no rule denies, with what every rule said.
pub struct Ruled {
    pub(super) checked: Box<Checked>,
    pub(super) evaluation: Evaluation,
    pub(super) assessment: Option<Assessment>,
}

pub(super) async fn decide(
    road: &Road<'_>,
    checked: Box<Checked>,
    trail: &mut Trail,
) -> Result<Ruled, ToolError> {
    let (evaluation, assessment) = evaluate(road, &checked).await?;
    trail.decided(&evaluation);
    if let (Decision::Deny, Some(reason)) = (evaluation.decision(), evaluation.decisive()) {
        let name = checked.tool.name();
        let message = format!("`{name}` may not run: {} ({})", reason.text, reason.source);
        let details = serde_json::json!({ "reasons": evaluation.reasons() });
        return Err(ToolError::new(Code::PolicyDenied, message).with_details(details));
    }
    Ok(Ruled {
        checked,
        evaluation,
        assessment,
    })
}

/// What every rule says about the call. The tool is asked only if no rule denies and it makes a difference:
/// a denied tool does not run, not even to judge itself.
pub(super) async fn evaluate(
    road: &Road<'_>,
    checked: &Checked,
) -> Result<(Evaluation, Option<Assessment>), ToolError> {
    let (policy, tool) = (&road.world.policy, &checked.tool);
    let mut evaluation = Evaluation::default();
    let set = policy.evaluate(tool, checked.arguments(), &mut evaluation);
    // What is denied to one form of a tool is denied to the other; what is allowed lowers only its own.
    if let Some(same) = &checked.same {
        policy.evaluate(same, checked.arguments(), &mut evaluation);
    }
    let spoken = !evaluation.reasons().is_empty();
    if spoken && evaluation.decision() == Decision::Deny {
        return Ok((evaluation, None));
    }
    let mut late = Evaluation::default();
    if tool.trust == Trust::Untrusted && !road.sessions.has_granted(tool) {
        policy::trust(tool, &mut late);
    }
    let session = road.sessions.get(&checked.context.session_id);
    session.taint(tool, policy.labels(tool).accepts_untrusted, &mut late);
    let settled = set && evaluation.decision() == Decision::Allow && late.reasons().is_empty();
    let mut assessment = None;
    if tool.assessed && !settled {
        let _slot = road.slots.assess().await;
        match tool.backend.assess(checked).await {
            Ok(judged) => assessment = judged,
            // A tool that cannot judge is not to be trusted with the answer.
            Err(error) => evaluation.push(Reason {
                layer: Layer::Assessor,
                decision: Decision::Ask,
                rule: format!("{}: no assessment", tool.name()),
                source: tool.origin.location.clone(),
                text: format!("the tool could not judge this call: {}", error.message),
            }),
        }
    }
    if !set {
        let assessed = assessment.as_ref().map(|assessment| assessment.approval);
        policy::own_word(tool, assessed, &mut evaluation);
    }
    evaluation.append(late);
    Ok((evaluation, assessment))
}
