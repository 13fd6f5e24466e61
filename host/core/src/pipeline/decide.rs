//! Second stage: every rule speaks, the strictest wins.

use crate::backend::Assessment;
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::policy::{self, Policy};

use super::run::Slots;
use super::trail::Trail;
use super::validate::Checked;

/// A call that no rule denies, with what every rule said.
pub struct Ruled {
    pub(super) checked: Checked,
    pub(super) evaluation: Evaluation,
    pub(super) assessment: Option<Assessment>,
}

pub(super) async fn decide(
    policy: &Policy,
    slots: &Slots,
    checked: Checked,
    trail: &mut Trail,
) -> Result<Ruled, ToolError> {
    let (evaluation, assessment) = evaluate(policy, slots, &checked).await?;
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

/// What every rule says about the call. The tool is asked only if no rule denies and no person has
/// set its approval: a denied tool does not run, not even to judge itself.
pub(super) async fn evaluate(
    policy: &Policy,
    slots: &Slots,
    checked: &Checked,
) -> Result<(Evaluation, Option<Assessment>), ToolError> {
    let tool = &checked.tool;
    let mut evaluation = Evaluation::default();
    let set = policy.evaluate(tool, checked.arguments(), &mut evaluation);
    let denied = !evaluation.reasons().is_empty() && evaluation.decision() == Decision::Deny;
    if denied {
        return Ok((evaluation, None));
    }
    let mut assessment = None;
    if tool.assessed {
        let _slot = slots.assess().await;
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
    policy::trust(tool, &mut evaluation);
    Ok((evaluation, assessment))
}
