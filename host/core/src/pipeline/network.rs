//! Evaluates one request against the grant, the settings and the team policy. The effect gate evaluates each request
//! before it is sent; the decide stage evaluates a request that the arguments of a call name, before the call runs.

use core::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::HostNeed;
use crate::network::{NetworkPolicy, NetworkRefusal, NetworkVerdict, RequestTarget};
use crate::policy::NOT_GRANTED;
use crate::tool::Tool;

use super::effect::{self, OutgoingRequest};
use super::validate::Checked;
use super::{PipelineSnapshot, StageContext, approve};

/// The result of evaluating a request, in addition to the reasons.
#[derive(Debug, Default)]
pub(super) struct NetworkFindings {
    /// True if the host is not on a list of the settings or the grant, so that only a person can allow the request.
    pub(super) unlisted: bool,
    /// The remedy if the settings refuse the request, else empty.
    pub(super) remedy: String,
    /// The list entry that allows the request.
    pub(super) pattern: Option<String>,
    /// True if a person has listed the host for this method in accepted settings or in the grant, or if the target is a
    /// server of the session.
    pub(super) listed: bool,
}

/// A request as the rules see it. It was not sent, and its host was not resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestPreview {
    /// The method.
    pub method: String,
    /// The normalized URL, which the rules match.
    pub url: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The entry of `allowedHosts`, or of the grant, that allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The addresses, if they are known without DNS: the host is an address, or the settings set the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
}

/// Maximum length of a method that is recorded as it is.
const METHOD_MAX: usize = 16;

impl RequestPreview {
    /// Returns method and origin, as an effect names them. Without path and query, which may contain content.
    pub(super) fn subject(&self) -> String {
        let Self {
            method,
            scheme,
            host,
            port,
            ..
        } = self;
        let is_known =
            method.len() <= METHOD_MAX && method.bytes().all(|byte| byte.is_ascii_alphabetic());
        let method = if is_known { method.as_str() } else { "?" };
        match (*scheme, *port) {
            ("http", 80) | ("https", 443) => format!("{method} {scheme}://{host}"),
            _ => format!("{method} {scheme}://{host}:{port}"),
        }
    }
}

/// Converts granted hosts to a network policy. The patterns were checked when the tool was listed; if one is invalid
/// nevertheless, no host is granted.
pub(super) fn granted_policy(hosts: &[HostNeed]) -> NetworkPolicy {
    let granted = NetworkPolicy::for_needs("grant", hosts)
        .or_else(|_| NetworkPolicy::for_needs("grant", &[]));
    granted.unwrap_or_default()
}

/// Evaluates a request of a call whose tool was granted `hosts`, in a session with servers at the ports `served`.
pub(super) fn judge(
    snapshot: &PipelineSnapshot,
    checked: &Checked,
    (hosts, served): (&[HostNeed], &[u16]),
    egress: OutgoingRequest<'_>,
    evaluation: &mut PolicyEvaluation,
) -> NetworkFindings {
    let mut findings = NetworkFindings::default();
    let (tool, equivalent) = (checked.tool(), checked.equivalent_tool.as_deref());
    let OutgoingRequest { target, method, .. } = egress;
    let mut push = |layer, decision, rule: &str, text: String| {
        let source = match layer {
            PolicyLayer::TeamPolicy => "the team's policy",
            _ => "",
        };
        let reason = DecisionReason {
            layer,
            decision,
            rule: rule.to_owned(),
            source: source.to_owned(),
            text,
        };
        // The other arguments, such as an offset, do not change the request.
        let reads = ["url", "method"].map(str::to_owned);
        let remedy = (decision == Decision::Ask)
            .then(|| snapshot.policy.request_remedy(tool, target, method));
        let basis = RuleBasis {
            reads: RuleArguments::Only(reads.into()),
            remedy: remedy.map(Into::into),
            per_origin: true,
            ..RuleBasis::default()
        };
        evaluation.push_with_basis(reason, basis);
    };
    let (name, host) = (tool.name(), target.host());
    if !granted_policy(hosts).allows_by_lists(target, method) {
        findings.unlisted = true;
        if is_granted_host(hosts, target) {
            let text = format!("`{name}` was not granted {method} to `{host}`");
            push(PolicyLayer::Network, Decision::Deny, NOT_GRANTED, text);
        } else if !snapshot.policy.asks_unknown_hosts(tool) {
            let text = format!("`{name}` was not granted `{host}`");
            push(PolicyLayer::Network, Decision::Deny, NOT_GRANTED, text);
        }
    }
    let settings = snapshot
        .policy
        .network(tool, equivalent, hosts)
        .with_served_ports(served);
    match settings.judge(target, method) {
        NetworkVerdict::Allowed(pattern) => {
            findings.pattern = pattern.map(ToString::to_string);
            let text = format!("`{host}` may be reached");
            push(PolicyLayer::Network, Decision::Allow, "network", text);
        }
        NetworkVerdict::Unlisted(NetworkRefusal { rule, reason, .. }) => {
            findings.unlisted = true;
            push(PolicyLayer::Network, Decision::Ask, &rule, reason);
        }
        NetworkVerdict::Refused(NetworkRefusal {
            rule,
            reason,
            remedy,
        }) => {
            findings.remedy = remedy;
            let hint = server_hint(tool, target).filter(|_| rule.ends_with(PRIVATE_RULE));
            let reason = match hint {
                Some(hint) => format!("{reason}; {hint}"),
                None => reason,
            };
            push(PolicyLayer::Network, Decision::Deny, &rule, reason);
        }
    }
    let forms = std::iter::once(&**tool).chain(equivalent);
    for team in forms.flat_map(|form| snapshot.policy.team_networks(Some(form))) {
        let team = team.with_served_ports(served);
        if let Some(refusal) = team.judge(target, method).refusal() {
            let (rule, reason) = (&refusal.rule, refusal.reason.clone());
            push(PolicyLayer::TeamPolicy, Decision::Deny, rule, reason);
        }
    }
    let specific = hosts.iter().filter(|need| !need.is_any()).cloned();
    let specific: Vec<HostNeed> = specific.collect();
    // A person has seen the ports of the session's servers on a card, and requests to them stay in the session.
    findings.listed = !findings.unlisted
        && (settings.serves(target)
            || snapshot.policy.names_host(tool, target, method)
            || granted_policy(&specific).allows_by_lists(target, method));
    findings
}

/// The setting that refuses addresses of this machine, as the last part of a rule's name.
const PRIVATE_RULE: &str = ".blockPrivateIPs";

/// Returns the way to reach a server of the session, for a built-in tool that was called for this machine. The model
/// can follow it, and a setting would not help.
fn server_hint(tool: &Tool, target: &RequestTarget) -> Option<String> {
    let is_ours = tool.source == crate::tool::ToolSource::BuiltIn;
    (is_ours && target.host().is_this_machine()).then(|| {
        format!(
            "a server in a background command of this session is reachable if the call of `exec` that starts it has `ports: [{}]`",
            target.port()
        )
    })
}

/// Returns true if a person has approved the unlisted host of a request: before the call ran (`answered` has the key),
/// or by a stored approval.
pub(super) fn has_consent(
    stage: &StageContext<'_>,
    checked: &Checked,
    answered: &[String],
    evaluation: &PolicyEvaluation,
) -> bool {
    let questions = evaluation.unlisted_host_questions();
    let mut asking = questions.asking().peekable();
    asking.peek().is_some()
        && (asking.all(|reason| answered.contains(&effect::question_key(reason)))
            || approve::find_remembered_answer(stage, checked, &questions).is_some())
}

fn is_granted_host(hosts: &[HostNeed], target: &RequestTarget) -> bool {
    let mut patterns = hosts.iter().filter_map(|need| need.pattern().ok());
    patterns.any(|pattern| pattern.matches(target))
}

/// Returns the arguments that are sent with the request of a call. Others, such as an offset in the response, are not
/// sent to the server.
pub(super) fn request_arguments() -> RuleArguments {
    RuleArguments::Only(
        ["url", "method", "headers", "body"]
            .map(str::to_owned)
            .into(),
    )
}

/// The request that the arguments of a call name.
pub(super) struct DeclaredRequest {
    target: RequestTarget,
    method: String,
    /// Header names and values.
    headers: Vec<String>,
    body: bool,
}

impl DeclaredRequest {
    /// Converts the request to the form of the effect gate. The result borrows from the buffer `headers`.
    pub(super) fn to_outgoing<'a>(&'a self, headers: &'a mut Vec<&'a [u8]>) -> OutgoingRequest<'a> {
        headers.extend(self.headers.iter().map(String::as_bytes));
        OutgoingRequest {
            target: &self.target,
            method: &self.method,
            headers,
            body: self.body,
        }
    }

    /// Returns the target and the method.
    pub(super) fn target_and_method(&self) -> (&RequestTarget, &str) {
        (&self.target, &self.method)
    }
}

/// Returns the request that `url` and `method` in the arguments name. `None` without a URL, and for tools whose needs
/// do not include any host (`*`). Fails for an invalid URL.
fn declared_request(checked: &Checked) -> Result<Option<DeclaredRequest>, ToolError> {
    let (tool, arguments) = (checked.tool(), checked.arguments());
    if !tool
        .rights()
        .hosts_before_approval()
        .iter()
        .any(HostNeed::is_any)
    {
        return Ok(None);
    }
    let Some(url) = arguments.get("url").and_then(Value::as_str) else {
        return Ok(None);
    };
    let target = RequestTarget::parse(url).map_err(|error| {
        let message = crate::text::visible(&format!("url: {error}"));
        ToolError::new(ToolErrorCode::InvalidInput, message)
            .with_details(json!({ "kind": error.kind() }))
    })?;
    let method = arguments.get("method").and_then(Value::as_str);
    let headers = arguments.get("headers").and_then(Value::as_object);
    let headers = headers.into_iter().flatten().flat_map(|(name, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        [name.clone(), value]
    });
    let body = arguments.get("body");
    Ok(Some(DeclaredRequest {
        target,
        method: method.unwrap_or("GET").to_ascii_uppercase(),
        headers: headers.collect(),
        body: body.is_some_and(|body| !body.is_null() && body.as_str() != Some("")),
    }))
}

/// Evaluates the request that the arguments of a call name, before the call runs.
pub(super) fn preview_request(
    snapshot: &PipelineSnapshot,
    checked: &Checked,
    served: &[u16],
    evaluation: &mut PolicyEvaluation,
) -> Result<Option<(NetworkFindings, DeclaredRequest, RequestPreview)>, ToolError> {
    let Some(request) = declared_request(checked)? else {
        return Ok(None);
    };
    let (tool, target, method) = (checked.tool(), &request.target, request.method.as_str());
    let mut headers = Vec::new();
    let egress = request.to_outgoing(&mut headers);
    // The rules must match the normalized request, not only the arguments as written.
    let mut request_evaluation = PolicyEvaluation::default();
    snapshot.policy.evaluate_request(
        tool,
        &effect::request_as_arguments(egress),
        &mut request_evaluation,
    );
    evaluation.append_new(request_evaluation);
    let hosts = tool.rights().hosts_before_approval();
    let findings = judge(snapshot, checked, (hosts, served), egress, evaluation);
    let network = snapshot
        .policy
        .network(tool, checked.equivalent_tool.as_deref(), hosts);
    let addresses = network.addresses(target);
    let preview = RequestPreview {
        method: method.to_owned(),
        url: target.to_string(),
        scheme: target.scheme().as_str(),
        host: target.host().to_string(),
        port: target.port(),
        pattern: findings.pattern.clone(),
        addresses,
    };
    Ok(Some((findings, request, preview)))
}
