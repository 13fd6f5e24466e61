//! Second stage: evaluates every rule; the strictest decision wins.

use std::sync::Arc;

use crate::backend::ToolAssessment;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::{ToolError, ToolErrorCode};
use crate::policy::{self, Policy};
use crate::tool::{ToolSource, ToolTrust};

use super::StageContext;
use super::call_recorder::CallRecorder;
use super::effect::leak;
use super::network::{self, DeclaredRequest, NetworkFindings, RequestPreview};
use super::session::{ContentSource, EgressPath};
use super::validate::Checked;

/// A call that no rule denies, with the results of all rules.
pub struct Ruled {
    pub(super) checked: Box<Checked>,
    pub(super) evaluation: PolicyEvaluation,
    pub(super) assessment: Option<ToolAssessment>,
}

/// Evaluates all rules for the call. Fails if one of them denies it.
pub(super) async fn decide(
    stage: &StageContext<'_>,
    checked: Box<Checked>,
    recorder: &mut CallRecorder,
) -> Result<Ruled, ToolError> {
    let CallJudgement {
        evaluation,
        assessment,
        remedies,
        preview,
    } = evaluate(stage, &checked).await?;
    recorder.record_decision(&evaluation, stage.sessions);
    if evaluation.decision() != Decision::Allow
        && let Some(subject) = subject_of_call(stage, &checked, preview.as_ref())
    {
        recorder.record_subject(subject);
    }
    recorder.report_decision(&evaluation);
    if evaluation.decision() == Decision::Deny {
        return Err(
            denied_error(&checked, &evaluation.without_untrusted_text()).with_remedies(remedies)
        );
    }
    Ok(Ruled {
        checked,
        evaluation,
        assessment,
    })
}

/// Returns the request or the files that the arguments of a call name, for the record. The settings may exclude files.
fn subject_of_call(
    stage: &StageContext<'_>,
    checked: &Checked,
    preview: Option<&RequestPreview>,
) -> Option<String> {
    if let Some(preview) = preview {
        return Some(preview.subject());
    }
    let (policy, tool) = (&stage.snapshot.policy, &checked.tool);
    if policy.logs_arguments(tool, checked.equivalent_tool.as_deref()) == Some(false) {
        return None;
    }
    policy::named_paths(tool, checked.arguments())
}

/// Creates the error for a call that a rule denies.
fn denied_error(checked: &Checked, visible_evaluation: &PolicyEvaluation) -> ToolError {
    let name = checked.tool.name();
    let message = match visible_evaluation.decisive() {
        Some(reason) => format!(
            "`{name}` may not run: {} ({})",
            reason.text,
            reason.location()
        ),
        None => format!("`{name}` may not run"),
    };
    let details = visible_evaluation.error_details();
    // For a protected path, the sandbox uses this error code, too.
    let code = match visible_evaluation.decisive().map(|reason| reason.layer) {
        Some(PolicyLayer::Paths) => ToolErrorCode::PermissionDenied,
        _ => ToolErrorCode::PolicyDenied,
    };
    ToolError::new(code, message).with_details(details)
}

/// Returns the person's `acceptsUntrusted` setting for the tool. A `false` for the equivalent tool wins.
pub(super) fn accepts_untrusted(policy: &Policy, checked: &Checked) -> Option<bool> {
    let equivalent = checked.equivalent_tool.as_deref();
    match equivalent.map(|tool| policy.labels(tool).accepts_untrusted) {
        Some(Some(false)) => Some(false),
        _ => policy.labels(&checked.tool).accepts_untrusted,
    }
}

/// Evaluates the rules that precede the tool's own default. Returns true if a person has set the approval.
fn evaluate_rules(
    stage: &StageContext<'_>,
    checked: &Checked,
    evaluation: &mut PolicyEvaluation,
) -> bool {
    let policy = &stage.snapshot.policy;
    let links = policy::LinkResolver::for_tool(&checked.tool);
    let judged = checked.judged_tool();
    let mut is_set_by_person = policy.evaluate(judged, checked.arguments(), &links, evaluation);
    is_set_by_person |= evaluate_command(stage, checked, &links, evaluation);
    let equivalent = checked.equivalent_tool.as_deref();
    let (arguments, paths) = (checked.arguments(), checked.paths());
    policy::evaluate_path_arguments(
        &checked.tool,
        equivalent,
        arguments,
        paths,
        &links,
        evaluation,
    );
    for effect in policy::patch_effects(&checked.tool, arguments) {
        let Some(other) = stage.snapshot.registry.get(effect.tool) else {
            continue;
        };
        let arguments = &effect.arguments;
        let fine_grained = policy::equivalent_tool_name(other, arguments);
        let fine_grained = fine_grained.and_then(|name| stage.snapshot.registry.get(name));
        let mut reasons = PolicyEvaluation::default();
        policy.evaluate(other, arguments, &links, &mut reasons);
        policy::evaluate_path_arguments(
            &checked.tool,
            Some(fine_grained.unwrap_or(other)),
            arguments,
            paths,
            &links,
            &mut reasons,
        );
        evaluation.append_new(reasons);
    }
    // A denial of one form of a tool also applies to the other form; a permission applies only to its own form.
    if let Some(equivalent) = &checked.equivalent_tool
        && !Arc::ptr_eq(equivalent, judged)
    {
        let mut reasons = PolicyEvaluation::default();
        policy.evaluate(equivalent, checked.arguments(), &links, &mut reasons);
        evaluation.append_new(reasons);
    }
    is_set_by_person
}

/// Evaluates the command rules for the command in the arguments, if there is one. Returns true if they allow the
/// command.
fn evaluate_command(
    stage: &StageContext<'_>,
    checked: &Checked,
    links: &policy::LinkResolver<'_>,
    evaluation: &mut PolicyEvaluation,
) -> bool {
    let (policy, tool) = (&stage.snapshot.policy, &checked.tool);
    if !policy.evaluates_commands_of(tool) {
        return false;
    }
    let Some(command) = checked.command() else {
        return false;
    };
    let runner = &stage.ports.runner;
    let script = match command.parsed(&**runner) {
        Ok(script) => script,
        Err(error) => return policy.evaluate_unparsed_command(error, evaluation),
    };
    let command = &command.request;
    let check = policy::CommandCheck {
        tool,
        script,
        directory: command.directory.as_deref(),
        environment: &command.environment,
        has_input: !command.stdin.is_empty(),
        granted: &[],
        paths: checked.paths(),
        links,
        runner: &**runner,
    };
    policy.evaluate_command(&check, evaluation)
}

/// The results of all rules for a call.
pub(super) struct CallJudgement {
    pub(super) evaluation: PolicyEvaluation,
    pub(super) assessment: Option<ToolAssessment>,
    /// The request that the arguments name, if any.
    pub(super) preview: Option<RequestPreview>,
    /// Remedies that would allow the call.
    pub(super) remedies: Vec<String>,
}

/// Evaluates all rules for the call, and collects the remedies.
pub(super) async fn evaluate(
    stage: &StageContext<'_>,
    checked: &Checked,
) -> Result<CallJudgement, ToolError> {
    let mut evaluation = PolicyEvaluation::default();
    let is_set_by_person = evaluate_rules(stage, checked, &mut evaluation);
    let served = stage
        .ports
        .runner
        .served_ports(&checked.context().session_id);
    let preview = network::preview_request(stage.snapshot, checked, &served, &mut evaluation)?;
    let (request, preview) = match preview {
        Some((findings, request, preview)) => (Some((findings, request)), Some(preview)),
        None => (None, None),
    };
    let assessment = evaluate_after_rules(
        stage,
        checked,
        is_set_by_person,
        request.as_ref(),
        &mut evaluation,
    )
    .await;
    let mut remedies = policy::remedies(&evaluation, &checked.tool);
    let remedy = request.map(|(findings, _)| crate::text::visible(&findings.remedy));
    remedies.extend(remedy.filter(|remedy| !remedy.is_empty()));
    Ok(CallJudgement {
        evaluation,
        assessment,
        preview,
        remedies,
    })
}

/// Evaluates the data that the call sends to other parties, and adds the reasons to `late`. `earlier` contains the
/// reasons so far.
fn evaluate_outgoing_data(
    stage: &StageContext<'_>,
    checked: &Checked,
    request: Option<&(NetworkFindings, DeclaredRequest)>,
    earlier: &PolicyEvaluation,
    late: &mut PolicyEvaluation,
) {
    let (policy, tool) = (&stage.snapshot.policy, &checked.tool);
    let session = stage.sessions.get(&checked.context.session_id);
    let accepts_untrusted_content = accepts_untrusted(policy, checked);
    if let Some((findings, request)) = request {
        let (target, method) = request.target_and_method();
        let remedy = || policy.request_remedy(tool, target, method);
        let mut headers = Vec::new();
        let has_consent = network::has_consent(stage, checked, &[], earlier);
        let egress_path = EgressPath::Request {
            egress: request.to_outgoing(&mut headers),
            listed: findings.listed || has_consent,
            command: ContentSource::Other,
            remedy: &remedy,
        };
        session.evaluate_taint(accepts_untrusted_content, &egress_path, late);
    } else {
        session.evaluate_taint(
            accepts_untrusted_content,
            &EgressPath::for_tool(tool, stage.ports.runner.confines_network()),
            late,
        );
    }
    if request.is_some() || tool.source == ToolSource::Mcp {
        leak::ask_about_argument_secrets(&checked.redactor, checked.arguments(), late);
    }
}

/// Evaluates the layers after the rules: the assessor, the tool's default, trust, taint and secrets. The assessor runs
/// only if no rule denies the call and the assessment can change the decision. `is_set_by_person` is true if a person
/// has set the approval. `request` is the request that the arguments name, if any.
async fn evaluate_after_rules(
    stage: &StageContext<'_>,
    checked: &Checked,
    is_set_by_person: bool,
    request: Option<&(NetworkFindings, DeclaredRequest)>,
    evaluation: &mut PolicyEvaluation,
) -> Option<ToolAssessment> {
    let tool = &checked.tool;
    if !evaluation.is_empty() && evaluation.decision() == Decision::Deny {
        return None;
    }
    let mut late = PolicyEvaluation::default();
    if tool.trust == ToolTrust::Untrusted && !stage.sessions.has_granted(tool) {
        policy::evaluate_trust(tool, &mut late);
    }
    evaluate_outgoing_data(stage, checked, request, evaluation, &mut late);
    let settled = is_set_by_person && evaluation.decision() == Decision::Allow && late.is_empty();
    let mut assessment = None;
    if tool.assessed && !settled {
        let _slot = stage.slots.take_assessment_slot().await;
        match tool.backend.assess(checked).await {
            Ok(result) => assessment = result,
            // A failed assessor must not allow the call, so a person decides.
            Err(error) => evaluation.push_untrusted(DecisionReason {
                layer: PolicyLayer::Assessor,
                decision: Decision::Ask,
                rule: format!("{}: no assessment", tool.name()),
                source: tool.origin.location.clone(),
                text: format!("the tool could not judge this call: {}", error.message),
            }),
        }
    }
    if !is_set_by_person {
        policy::evaluate_tool_default(tool, assessment.as_ref(), evaluation);
    }
    evaluation.append(late);
    assessment
}
