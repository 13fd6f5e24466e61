//! Evaluates all rules for a request.

use serde_json::Value;

use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::ToolError;
use crate::needs::HostNeed;
use crate::network::RequestTarget;
use crate::pipeline::StageContext;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::network::{self, NetworkFindings};
use crate::pipeline::session::EgressPath;
use crate::pipeline::validate::Checked;
use crate::policy;

use super::{Inner, OutgoingRequest, RequestSender, denied, leak};

/// A request with the results of all rules.
pub(super) struct RequestJudgement {
    pub(super) evaluation: PolicyEvaluation,
    /// The result for the network, in addition to the reasons.
    pub(super) network: NetworkFindings,
}

pub(super) fn judge(
    stage: &StageContext<'_>,
    effects: &Inner,
    checked: &Checked,
    (hosts, served): (&[HostNeed], &[u16]),
    (egress, whose): (OutgoingRequest<'_>, RequestSender<'_>),
) -> RequestJudgement {
    let (snapshot, tool) = (stage.snapshot, checked.tool());
    let mut all = PolicyEvaluation::default();
    let said = network::judge(snapshot, tool, (hosts, served), egress, &mut all);
    snapshot.policy.request(tool, checked.arguments(), &mut all);
    // A placeholder reveals nothing: its value is sent only to the host for which a person has granted it.
    let headers = effects.without_placeholders(egress.headers);
    let headers: Vec<&[u8]> = headers.iter().map(|text| &**text).collect();
    let egress_without = OutgoingRequest {
        headers: &headers,
        ..egress
    };
    let way = || {
        snapshot
            .policy
            .request_remedy(tool, egress.target, egress.method)
    };
    let alike = is_own_method(&effects.arguments, egress);
    let answered = if alike { &*effects.answered } else { &[] };
    let agreed = network::is_agreed(stage, checked, answered, &all);
    let out = EgressPath::Request {
        egress: egress_without,
        listed: said.listed || agreed,
        command: whose.command(),
        way: &way,
    };
    let session = stage.sessions.get(&checked.context().session_id);
    let accepts = accepts_untrusted(&snapshot.policy, checked);
    session.evaluate_taint(accepts, &out, &mut all);
    leak::ask_about_request_secrets(&effects.redactor, egress_without, &mut all);
    let same = is_own(&effects.arguments, egress);
    if let Some(reason) = another(&effects.arguments, same, tool.name().as_str(), egress) {
        all.push(reason);
    }
    all.remove_answered(|reason| {
        let here = match reason.layer {
            PolicyLayer::Taint => true,
            // This reason is about the origin, whatever page of it a redirect leads to.
            PolicyLayer::Network => alike,
            _ => same,
        };
        let asked = question_key(reason);
        let of_command = match whose {
            RequestSender::Call => false,
            RequestSender::Command(command) => command.has_consent(egress, &asked),
        };
        of_command || (here && effects.answered.contains(&asked))
    });
    if all.is_empty() {
        // Without an explicit reason, the person would be asked again.
        all.push(DecisionReason {
            layer: PolicyLayer::Network,
            decision: Decision::Allow,
            rule: "network".to_owned(),
            source: String::new(),
            text: "a person was asked about this request before the call".to_owned(),
        });
    }
    RequestJudgement {
        evaluation: all,
        network: said,
    }
}

/// Methods that change nothing on the server (RFC 9110 section 9.2.1).
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Asks about a request that changes something and is not the one that the call names. A server that redirects chooses
/// the target, which no person has seen.
fn another(
    arguments: &Value,
    same: bool,
    name: &str,
    egress: OutgoingRequest<'_>,
) -> Option<DecisionReason> {
    let named = arguments["url"].as_str()?;
    if same || SAFE.contains(&egress.method) {
        return None;
    }
    let (method, target) = (egress.method, egress.target);
    let named = crate::text::visible(crate::text::prefix(named, NAMED));
    Some(DecisionReason {
        layer: PolicyLayer::Network,
        decision: Decision::Ask,
        rule: "another request".to_owned(),
        source: String::new(),
        text: format!("`{name}` was called for {named}, and this is {method} to {target}"),
    })
}

/// Maximum length of a URL in a reason.
const NAMED: usize = 200;

/// Returns the key under which an answered reason is remembered during a call.
pub(in crate::pipeline) fn question_key(reason: &DecisionReason) -> String {
    format!("{}: {}", reason.rule, reason.text)
}

/// Returns true if the call's own arguments name this request: then it was judged before the call ran.
fn is_own(arguments: &Value, egress: OutgoingRequest<'_>) -> bool {
    let url = arguments["url"].as_str().map(RequestTarget::parse);
    matches!(url, Some(Ok(target)) if target == *egress.target) && is_own_method(arguments, egress)
}

fn is_own_method(arguments: &Value, egress: OutgoingRequest<'_>) -> bool {
    let method = arguments["method"].as_str().unwrap_or("GET");
    method.eq_ignore_ascii_case(egress.method)
}

impl RequestJudgement {
    /// Creates the refusal of a request that a rule denies.
    pub(super) fn denied(&self, checked: &Checked, egress: OutgoingRequest<'_>) -> ToolError {
        let origin = egress.target.origin();
        let what = format!("{} to `{origin}` was not sent", egress.method);
        denied(&what, &self.evaluation, self.ways(checked))
    }

    fn ways(&self, checked: &Checked) -> Vec<String> {
        let remedy = Some(crate::text::visible(&self.network.remedy)).filter(|way| !way.is_empty());
        let rules = policy::remedies(&self.evaluation, checked.tool());
        rules.into_iter().chain(remedy).collect()
    }
}
