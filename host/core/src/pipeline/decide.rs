//! Second stage: evaluates every rule; the strictest decision wins.

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

pub(super) async fn decide(
    stage: &StageContext<'_>,
    checked: Box<Checked>,
    recorder: &mut CallRecorder,
) -> Result<Ruled, ToolError> {
    let CallJudgement {
        evaluation,
        assessment,
        remedies: way_out,
        ..
    } = evaluate(stage, &checked).await?;
    recorder.record_decision(&evaluation);
    if evaluation.decision() == Decision::Deny {
        return Err(denied(&checked, &evaluation.without_untrusted_text()).with_remedies(way_out));
    }
    Ok(Ruled {
        checked,
        evaluation,
        assessment,
    })
}

/// The refusal of a call that a rule denies.
fn denied(checked: &Checked, visible_evaluation: &PolicyEvaluation) -> ToolError {
    let name = checked.tool.name();
    let message = match visible_evaluation.decisive() {
        Some(reason) => format!("`{name}` may not run: {} ({})", reason.text, reason.place()),
        None => format!("`{name}` may not run"),
    };
    let details = visible_evaluation.error_details();
    // The error code that the sandbox uses for a protected path.
    let code = match visible_evaluation.decisive().map(|reason| reason.layer) {
        Some(PolicyLayer::Paths) => ToolErrorCode::PermissionDenied,
        _ => ToolErrorCode::PolicyDenied,
    };
    ToolError::new(code, message).with_details(details)
}

/// Returns a person's setting for calls after untrusted content was read. `false` for the tool's other form goes first.
pub(super) fn accepts_untrusted(policy: &Policy, checked: &Checked) -> Option<bool> {
    let same = checked.equivalent_tool.as_deref();
    match same.map(|same| policy.labels(same).accepts_untrusted) {
        Some(Some(false)) => Some(false),
        _ => policy.labels(&checked.tool).accepts_untrusted,
    }
}

/// Evaluates the rules. Returns true if a person has set the approval.
fn evaluate_rules(
    stage: &StageContext<'_>,
    checked: &Checked,
    evaluation: &mut PolicyEvaluation,
) -> bool {
    let policy = &stage.snapshot.policy;
    let links = policy::LinkResolver::for_tool(&checked.tool);
    let mut set = policy.evaluate(&checked.tool, checked.arguments(), &links, evaluation);
    set |= commands(stage, checked, &links, evaluation);
    let same = checked.equivalent_tool.as_deref();
    let (arguments, paths) = (checked.arguments(), checked.paths());
    policy::evaluate_path_arguments(&checked.tool, same, arguments, paths, &links, evaluation);
    // A denial of one form of a tool holds for the other; a permission lowers only its own form.
    if let Some(same) = &checked.equivalent_tool {
        policy.evaluate(same, checked.arguments(), &links, evaluation);
    }
    set
}

/// Evaluates the rules about commands for the command in the arguments, if there is one. Returns true if they allow
/// it.
fn commands(
    stage: &StageContext<'_>,
    checked: &Checked,
    links: &policy::LinkResolver<'_>,
    evaluation: &mut PolicyEvaluation,
) -> bool {
    let (policy, tool) = (&stage.snapshot.policy, &checked.tool);
    if !policy.judges_commands_of(tool) {
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
    let question = policy::CommandCheck {
        tool,
        script,
        directory: command.directory.as_deref(),
        environment: &command.environment,
        granted: &[],
        paths: checked.paths(),
        links,
        runner: &**runner,
    };
    policy.command(&question, evaluation)
}

/// The results of all rules for a call.
pub(super) struct CallJudgement {
    pub(super) evaluation: PolicyEvaluation,
    pub(super) assessment: Option<ToolAssessment>,
    /// The request that the call is about.
    pub(super) foreseen: Option<RequestPreview>,
    /// The remedies that would let the call through.
    pub(super) remedies: Vec<String>,
}

/// Evaluates all rules for the call, and collects the remedies.
pub(super) async fn evaluate(
    stage: &StageContext<'_>,
    checked: &Checked,
) -> Result<CallJudgement, ToolError> {
    let mut evaluation = PolicyEvaluation::default();
    let set = evaluate_rules(stage, checked, &mut evaluation);
    let served = stage
        .ports
        .runner
        .served_ports(&checked.context().session_id);
    let foreseen = network::preview_request(stage.snapshot, checked, &served, &mut evaluation)?;
    let (request, foreseen) = match foreseen {
        Some((said, request, foreseen)) => (Some((said, request)), Some(foreseen)),
        None => (None, None),
    };
    let assessment =
        evaluate_after_rules(stage, checked, set, request.as_ref(), &mut evaluation).await;
    let mut way_out = policy::remedies(&evaluation, &checked.tool);
    let remedy = request.map(|(said, _)| crate::text::visible(&said.remedy));
    way_out.extend(remedy.filter(|remedy| !remedy.is_empty()));
    Ok(CallJudgement {
        evaluation,
        assessment,
        foreseen,
        remedies: way_out,
    })
}

/// Evaluates the data that the call passes to another party.
fn evaluate_outgoing_data(
    stage: &StageContext<'_>,
    checked: &Checked,
    request: Option<&(NetworkFindings, DeclaredRequest)>,
    spoken: &PolicyEvaluation,
    late: &mut PolicyEvaluation,
) {
    let (policy, tool) = (&stage.snapshot.policy, &checked.tool);
    let session = stage.sessions.get(&checked.context.session_id);
    let accepts = accepts_untrusted(policy, checked);
    if let Some((said, request)) = request {
        let (target, method) = request.target_and_method();
        let way = || policy.request_remedy(tool, target, method);
        let mut headers = Vec::new();
        let agreed = network::is_agreed(stage, checked, &[], spoken);
        let out = EgressPath::Request {
            egress: request.egress(&mut headers),
            listed: said.listed || agreed,
            command: ContentSource::Other,
            way: &way,
        };
        session.evaluate_taint(accepts, &out, late);
    } else {
        session.evaluate_taint(
            accepts,
            &EgressPath::for_tool(tool, stage.ports.runner.confines_network()),
            late,
        );
    }
    if request.is_some() || matches!(tool.source, ToolSource::Mcp | ToolSource::Teams) {
        leak::ask_about_argument_secrets(&checked.redactor, checked.arguments(), late);
    }
}

/// Evaluates what comes after the rules. The tool's assessor runs only if no rule denies and its result makes a
/// difference: a denied tool does not run, not even to assess itself. `set` is true if a person has set the approval;
/// `request` is the request that the call is about, if any.
async fn evaluate_after_rules(
    stage: &StageContext<'_>,
    checked: &Checked,
    set: bool,
    request: Option<&(NetworkFindings, DeclaredRequest)>,
    evaluation: &mut PolicyEvaluation,
) -> Option<ToolAssessment> {
    let tool = &checked.tool;
    let spoken = !evaluation.is_empty();
    if spoken && evaluation.decision() == Decision::Deny {
        return None;
    }
    let mut late = PolicyEvaluation::default();
    if tool.trust == ToolTrust::Untrusted && !stage.sessions.has_granted(tool) {
        policy::evaluate_trust(tool, &mut late);
    }
    evaluate_outgoing_data(stage, checked, request, evaluation, &mut late);
    let settled = set && evaluation.decision() == Decision::Allow && late.is_empty();
    let mut assessment = None;
    if tool.assessed && !settled {
        let _slot = stage.slots.assess().await;
        match tool.backend.assess(checked).await {
            Ok(judged) => assessment = judged,
            // If the assessor fails, a person decides.
            Err(error) => evaluation.push_untrusted(DecisionReason {
                layer: PolicyLayer::Assessor,
                decision: Decision::Ask,
                rule: format!("{}: no assessment", tool.name()),
                source: tool.origin.location.clone(),
                text: format!("the tool could not judge this call: {}", error.message),
            }),
        }
    }
    if !set {
        let assessed = assessment.as_ref().map(|assessment| assessment.approval);
        policy::evaluate_tool_default(tool, assessed, evaluation);
    }
    evaluation.append(late);
    assessment
}
