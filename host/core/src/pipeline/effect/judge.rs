//! Evaluates all rules for a request.

use serde_json::Value;

use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleBasis};
use crate::error::ToolError;
use crate::needs::HostNeed;
use crate::network::RequestTarget;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::network::{self, NetworkFindings};
use crate::pipeline::session::EgressPath;
use crate::pipeline::validate::Checked;
use crate::pipeline::{PipelineSnapshot, StageContext};
use crate::policy;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::{Inner, OutgoingRequest, RequestSender, denied_error, leak};

/// A request with the results of all rules.
pub(super) struct RequestJudgement {
    pub(super) evaluation: PolicyEvaluation,
    /// The network findings, in addition to the reasons.
    pub(super) network: NetworkFindings,
}

/// Evaluates all rules for a request. `hosts` are the hosts that the sender may request, and `served` the ports of the
/// session's servers.
pub(super) fn judge_request(
    stage: &StageContext<'_>,
    effects: &Inner,
    checked: &Checked,
    (hosts, served): (&[HostNeed], &[u16]),
    (egress, sender): (OutgoingRequest<'_>, RequestSender<'_>),
) -> RequestJudgement {
    let (snapshot, tool) = (stage.snapshot, checked.tool());
    let mut evaluation = PolicyEvaluation::default();
    let findings = network::judge(snapshot, checked, (hosts, served), egress, &mut evaluation);
    let is_listed_for_sender = sender.is_limited()
        && network::granted_policy(hosts).allows_by_lists(egress.target, egress.method);
    if sender.is_limited() && !is_listed_for_sender {
        evaluation.push_with_basis(
            other_host(hosts, tool, egress),
            RuleBasis {
                remedy: Some("run a command that needs other hosts yourself".into()),
                ..RuleBasis::default()
            },
        );
    }
    snapshot
        .policy
        .evaluate_request(tool, checked.arguments(), &mut evaluation);
    if let Some(equivalent) = &checked.equivalent_tool {
        let mut reasons = PolicyEvaluation::default();
        snapshot
            .policy
            .evaluate_request(equivalent, checked.arguments(), &mut reasons);
        evaluation.append_new(reasons);
    }
    // A placeholder is not outgoing data: its value is sent only to the host for which a person has granted it.
    let headers = effects.without_placeholders(egress.headers);
    let headers: Vec<&[u8]> = headers.iter().map(|text| &**text).collect();
    let without_placeholders = OutgoingRequest {
        headers: &headers,
        ..egress
    };
    let remedy = || {
        snapshot
            .policy
            .request_remedy(tool, egress.target, egress.method)
    };
    let is_same_method = is_own_method(&effects.arguments, egress);
    let answered = if is_same_method {
        &*effects.answered
    } else {
        &[]
    };
    let has_consent = network::has_consent(stage, checked, answered, &evaluation);
    let egress_path = EgressPath::Request {
        egress: without_placeholders,
        listed: findings.listed || has_consent || is_listed_for_sender,
        command: sender.content_source(),
        remedy: &remedy,
    };
    let session = stage.sessions.get(&checked.context().session_id);
    let accepts_untrusted_content = accepts_untrusted(&snapshot.policy, checked);
    session.evaluate_taint(accepts_untrusted_content, &egress_path, &mut evaluation);
    leak::ask_about_request_secrets(&effects.redactor, without_placeholders, &mut evaluation);
    let is_own_request = is_own(&effects.arguments, egress);
    if let Some(reason) = ask_about_redirect(&effects.arguments, is_own_request, tool, egress) {
        evaluation.push(reason);
    }
    // A reason that a person approved before the call ran is not asked about again, if it concerned this request.
    evaluation.remove_answered(|reason| {
        let was_judged_before = match reason.layer {
            PolicyLayer::Taint => true,
            // The reason is about the origin, so it also covers a redirect to another page there.
            PolicyLayer::Network => is_same_method,
            _ => is_own_request,
        };
        let key = question_key(reason);
        let was_allowed_for_command = match sender {
            RequestSender::Call => false,
            RequestSender::Command(command) => command.has_consent(egress, &key),
        };
        was_allowed_for_command || (was_judged_before && effects.answered.contains(&key))
    });
    if evaluation.is_empty() {
        // An evaluation without reasons would ask again.
        evaluation.push(DecisionReason {
            layer: PolicyLayer::Network,
            decision: Decision::Allow,
            rule: "network".to_owned(),
            source: String::new(),
            text: "a person was asked about this request before the call".to_owned(),
        });
    }
    RequestJudgement {
        evaluation,
        network: findings,
    }
}

/// Returns the reason to refuse a request of a command that is limited to certain hosts.
fn other_host(hosts: &[HostNeed], tool: &Tool, egress: OutgoingRequest<'_>) -> DecisionReason {
    let hosts: Vec<&str> = hosts.iter().map(|need| need.host.as_str()).collect();
    let (name, method, target) = (tool.name(), egress.method, egress.target.origin());
    DecisionReason {
        layer: PolicyLayer::Network,
        decision: Decision::Deny,
        rule: policy::NOT_GRANTED.to_owned(),
        source: String::new(),
        text: format!(
            "this command of `{name}` may only read from {}, not send {method} to {target}",
            hosts.join(", ")
        ),
    }
}

/// Methods that change nothing on the server (RFC 9110 section 9.2.1).
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Returns a reason to ask about an unsafe request that differs from the one that the call names: a redirecting server
/// may have chosen the target, which the card did not show.
fn ask_about_redirect(
    arguments: &Value,
    is_own_request: bool,
    tool: &Tool,
    egress: OutgoingRequest<'_>,
) -> Option<DecisionReason> {
    let named = arguments["url"].as_str()?;
    if is_own_request || SAFE.contains(&egress.method) || is_page_request(tool) {
        return None;
    }
    let (name, method, target) = (tool.name(), egress.method, egress.target);
    let named = crate::text::visible(crate::text::prefix(named, URL_MAX));
    Some(DecisionReason {
        layer: PolicyLayer::Network,
        decision: Decision::Ask,
        rule: "another request".to_owned(),
        source: String::new(),
        text: format!("`{name}` was called for {named}, but this request is {method} {target}"),
    })
}

/// Returns true if the requests of the tool are those of web pages, which send requests of any method on their own: the
/// URL in the arguments is the page, not the request. Other rules still apply to them.
fn is_page_request(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && tool.definition.group == ToolGroup::Browser
}

/// Maximum length of a URL in a reason, in characters.
const URL_MAX: usize = 200;

/// Returns the key under which an approved reason is remembered during a call.
pub(in crate::pipeline) fn question_key(reason: &DecisionReason) -> String {
    format!("{}: {}", reason.rule, reason.text)
}

/// Returns true if the arguments of the call name this request, so that it was evaluated before the call ran.
fn is_own(arguments: &Value, egress: OutgoingRequest<'_>) -> bool {
    let url = arguments["url"].as_str().map(RequestTarget::parse);
    matches!(url, Some(Ok(target)) if target == *egress.target) && is_own_method(arguments, egress)
}

fn is_own_method(arguments: &Value, egress: OutgoingRequest<'_>) -> bool {
    let method = arguments["method"].as_str().unwrap_or("GET");
    method.eq_ignore_ascii_case(egress.method)
}

impl RequestJudgement {
    /// Creates the error for a request that a rule denies.
    pub(super) fn denied_error(&self, checked: &Checked, egress: OutgoingRequest<'_>) -> ToolError {
        let origin = egress.target.origin();
        let what = format!("{} to `{origin}` was not sent", egress.method);
        denied_error(&what, &self.evaluation, self.remedies(checked))
    }

    /// Returns true if the only reason to ask is that the host is not listed.
    pub(super) fn asks_only_about_host(&self) -> bool {
        let about_host = self.evaluation.unlisted_host_questions();
        self.evaluation.asking().count() == about_host.asking().count()
    }

    /// Creates the error for a request that needs approval, where no person is asked.
    pub(super) fn unasked_error(
        &self,
        snapshot: &PipelineSnapshot,
        checked: &Checked,
        egress: OutgoingRequest<'_>,
    ) -> ToolError {
        let origin = egress.target.origin();
        let what = format!("{} to `{origin}` was not sent", egress.method);
        let remedy = snapshot
            .policy
            .request_remedy(checked.tool(), egress.target, egress.method);
        denied_error(&what, &self.evaluation, vec![remedy])
    }

    fn remedies(&self, checked: &Checked) -> Vec<String> {
        let remedy =
            Some(crate::text::visible(&self.network.remedy)).filter(|remedy| !remedy.is_empty());
        let rules = policy::remedies(&self.evaluation, checked.tool());
        rules.into_iter().chain(remedy).collect()
    }
}
