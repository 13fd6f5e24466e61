//! Second stage: evaluates every rule; the strictest decision wins.

use crate::backend::Assessment;
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::policy::{self, Policy};
use crate::tool::{Source, Trust};

use super::Road;
use super::effect::leak;
use super::network::{self, Foreseen, OwnRequest, Said};
use super::session::{ContentSource, WayOut};
use super::trail::Trail;
use super::validate::Checked;

/// A call that no rule denies, with the results of all rules.
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
    let Judged {
        evaluation,
        assessment,
        way_out,
        ..
    } = evaluate(road, &checked).await?;
    trail.decided(&evaluation);
    if evaluation.decision() == Decision::Deny {
        return Err(denied(&checked, &evaluation.told()).with_way_out(way_out));
    }
    Ok(Ruled {
        checked,
        evaluation,
        assessment,
    })
}

/// The refusal of a call that a rule denies.
fn denied(checked: &Checked, told: &Evaluation) -> ToolError {
    let name = checked.tool.name();
    let message = match told.decisive() {
        Some(reason) => format!("`{name}` may not run: {} ({})", reason.text, reason.place()),
        None => format!("`{name}` may not run"),
    };
    let details = serde_json::json!({ "reasons": told.reasons() });
    // The error code that the sandbox uses for a protected path.
    let code = match told.decisive().map(|reason| reason.layer) {
        Some(Layer::Paths) => Code::PermissionDenied,
        _ => Code::PolicyDenied,
    };
    ToolError::new(code, message).with_details(details)
}

/// Returns a person's setting for calls after untrusted content was read. `false` for the tool's other form goes first.
pub(super) fn accepts_untrusted(policy: &Policy, checked: &Checked) -> Option<bool> {
    let same = checked.same.as_deref();
    match same.map(|same| policy.labels(same).accepts_untrusted) {
        Some(Some(false)) => Some(false),
        _ => policy.labels(&checked.tool).accepts_untrusted,
    }
}

/// Evaluates the rules. Returns true if a person has set the approval.
fn spoken(road: &Road<'_>, checked: &Checked, evaluation: &mut Evaluation) -> bool {
    let policy = &road.world.policy;
    let links = policy::Links::of(&checked.tool);
    let mut set = policy.evaluate(&checked.tool, checked.arguments(), &links, evaluation);
    set |= commands(road, checked, &links, evaluation);
    let same = checked.same.as_deref();
    let (arguments, paths) = (checked.arguments(), checked.paths());
    policy::places(&checked.tool, same, arguments, paths, &links, evaluation);
    // A denial of one form of a tool holds for the other; a permission lowers only its own form.
    if let Some(same) = &checked.same {
        policy.evaluate(same, checked.arguments(), &links, evaluation);
    }
    set
}

/// Evaluates the rules about commands for the command in the arguments, if there is one. Returns true if they allow
/// it.
fn commands(
    road: &Road<'_>,
    checked: &Checked,
    links: &policy::Links<'_>,
    evaluation: &mut Evaluation,
) -> bool {
    let (policy, tool) = (&road.world.policy, &checked.tool);
    if !policy.judges_commands_of(tool) {
        return false;
    }
    let Some(command) = policy::command_of(checked.arguments()) else {
        return false;
    };
    let runner = &road.ports.runner;
    let script = match runner.read(&command.program) {
        Ok(script) => script,
        Err(error) => return policy.unread_command(&error, evaluation),
    };
    let question = policy::CommandQuestion {
        tool,
        script: &script,
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
pub(super) struct Judged {
    pub(super) evaluation: Evaluation,
    pub(super) assessment: Option<Assessment>,
    /// The request that the call is about.
    pub(super) foreseen: Option<Foreseen>,
    /// The remedies that would let the call through.
    pub(super) way_out: Vec<String>,
}

/// Evaluates all rules for the call, and collects the remedies.
pub(super) async fn evaluate(road: &Road<'_>, checked: &Checked) -> Result<Judged, ToolError> {
    let mut evaluation = Evaluation::default();
    let set = spoken(road, checked, &mut evaluation);
    let served = road.ports.runner.served(&checked.context().session_id);
    let foreseen = network::foresee(road.world, checked, &served, &mut evaluation)?;
    let (request, foreseen) = match foreseen {
        Some((said, request, foreseen)) => (Some((said, request)), Some(foreseen)),
        None => (None, None),
    };
    let assessment = late(road, checked, set, request.as_ref(), &mut evaluation).await;
    let mut way_out = policy::ways(&evaluation, &checked.tool);
    let remedy = request.map(|(said, _)| crate::text::visible(&said.remedy));
    way_out.extend(remedy.filter(|remedy| !remedy.is_empty()));
    Ok(Judged {
        evaluation,
        assessment,
        foreseen,
        way_out,
    })
}

/// Evaluates the data that the call passes to another party.
fn leaves(
    road: &Road<'_>,
    checked: &Checked,
    request: Option<&(Said, OwnRequest)>,
    spoken: &Evaluation,
    late: &mut Evaluation,
) {
    let (policy, tool) = (&road.world.policy, &checked.tool);
    let session = road.sessions.get(&checked.context.session_id);
    let accepts = accepts_untrusted(policy, checked);
    if let Some((said, request)) = request {
        let (target, method) = request.place();
        let way = || policy.way_to(tool, target, method);
        let mut headers = Vec::new();
        let agreed = network::is_agreed(road, checked, &[], spoken);
        let out = WayOut::Request {
            egress: request.egress(&mut headers),
            listed: said.listed || agreed,
            command: ContentSource::Other,
            way: &way,
        };
        session.taint(accepts, &out, late);
    } else {
        session.taint(
            accepts,
            &WayOut::of(tool, road.ports.runner.confines()),
            late,
        );
    }
    if request.is_some() || matches!(tool.source, Source::Mcp | Source::Teams) {
        leak::arguments_look_secret(&checked.redactor, checked.arguments(), late);
    }
}

/// Evaluates what comes after the rules. The tool's assessor runs only if no rule denies and its result makes a
/// difference: a denied tool does not run, not even to assess itself. `set` is true if a person has set the approval;
/// `request` is the request that the call is about, if any.
async fn late(
    road: &Road<'_>,
    checked: &Checked,
    set: bool,
    request: Option<&(Said, OwnRequest)>,
    evaluation: &mut Evaluation,
) -> Option<Assessment> {
    let tool = &checked.tool;
    let spoken = !evaluation.reasons().is_empty();
    if spoken && evaluation.decision() == Decision::Deny {
        return None;
    }
    let mut late = Evaluation::default();
    if tool.trust == Trust::Untrusted && !road.sessions.has_granted(tool) {
        policy::trust(tool, &mut late);
    }
    leaves(road, checked, request, evaluation, &mut late);
    let settled = set && evaluation.decision() == Decision::Allow && late.reasons().is_empty();
    let mut assessment = None;
    if tool.assessed && !settled {
        let _slot = road.slots.assess().await;
        match tool.backend.assess(checked).await {
            Ok(judged) => assessment = judged,
            // If the assessor fails, a person decides.
            Err(error) => evaluation.push_strange(Reason {
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
        policy::own_word(tool, assessed, evaluation);
    }
    evaluation.append(late);
    assessment
}
