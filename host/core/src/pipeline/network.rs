//! What the grant, the settings and the teams say of one request. The effect gate asks at each request that is sent;
//! the call gate asks before, where the arguments of a call name the request that it is about.

use core::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::decision::{Basis, Decision, Evaluation, Layer, Reads, Reason};
use crate::error::{Code, ToolError};
use crate::needs::HostNeed;
use crate::network::{NetworkPolicy, Refusal, Target, Verdict};
use crate::policy::GRANT;
use crate::tool::{Tool, Trust};

use super::World;
use super::effect::{self, Egress};
use super::validate::Checked;

/// What was said beside the reasons.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Whether the request is on no list, so that only a person's yes lets it.
    pub(super) unlisted: bool,
    /// What would let it, where the settings refuse it outright.
    pub(super) remedy: String,
    /// The entry of a list that lets it.
    pub(super) pattern: Option<String>,
}

/// A request as it would be judged. Nothing of it was sent, and no name was looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Foreseen {
    /// The method.
    pub method: String,
    /// The address, in the spelling that is judged.
    pub url: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The entry of `allowedHosts`, or of the grant, that lets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The addresses, where they are known without asking DNS: the host is one, or the settings fix them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
}

/// What was granted, as a policy. Patterns were checked when the tool was listed; were one broken all the same,
/// nothing is granted.
pub(super) fn granted(hosts: &[HostNeed]) -> NetworkPolicy {
    let only = NetworkPolicy::only("grant", hosts).or_else(|_| NetworkPolicy::only("grant", &[]));
    only.unwrap_or_default()
}

/// Says it of a request of a tool that was granted these hosts.
pub(super) fn judge(
    world: &World,
    tool: &Tool,
    hosts: &[HostNeed],
    egress: Egress<'_>,
    all: &mut Evaluation,
) -> Said {
    let mut said = Said::default();
    let Egress { target, method, .. } = egress;
    let mut say = |layer, decision, rule: &str, text: String| {
        let source = match layer {
            Layer::TeamPolicy => "the team's policy",
            _ => "",
        };
        let reason = Reason {
            layer,
            decision,
            rule: rule.to_owned(),
            source: source.to_owned(),
            text,
        };
        // The next part of the same page is no other request.
        let reads = ["url", "method"].map(str::to_owned);
        let way = (decision == Decision::Ask).then(|| world.policy.way_to(tool, target, method));
        let basis = Basis {
            reads: Reads::Only(reads.into()),
            way: way.map(Into::into),
            ..Basis::default()
        };
        all.push_from(reason, basis);
    };
    let (name, host) = (tool.name(), target.host());
    if !granted(hosts).lists(target, method) {
        said.unlisted = true;
        let known = knows(hosts, target);
        if known {
            let text = format!("`{name}` was not granted {method} to `{host}`");
            say(Layer::Network, Decision::Deny, GRANT, text);
        } else if !world.policy.asks_unknown_hosts(tool) {
            let text = format!("`{name}` was not granted `{host}`");
            say(Layer::Network, Decision::Deny, GRANT, text);
        }
    }
    let settings = world.policy.network(tool, hosts);
    match settings.judge(target, method) {
        Verdict::Allowed(pattern) => {
            said.pattern = pattern.map(ToString::to_string);
            let text = format!("`{host}` may be reached");
            say(Layer::Network, Decision::Allow, "network", text);
        }
        Verdict::Unlisted(Refusal { rule, reason, .. }) => {
            said.unlisted = true;
            say(Layer::Network, Decision::Ask, &rule, reason);
        }
        Verdict::Refused(Refusal {
            rule,
            reason,
            remedy,
        }) => {
            said.remedy = remedy;
            say(Layer::Network, Decision::Deny, &rule, reason);
        }
    }
    for team in world.policy.team_networks(Some(tool)) {
        if let Some(refusal) = team.judge(target, method).refusal() {
            let (rule, reason) = (&refusal.rule, refusal.reason.clone());
            say(Layer::TeamPolicy, Decision::Deny, rule, reason);
        }
    }
    said
}

fn knows(hosts: &[HostNeed], target: &Target) -> bool {
    let mut patterns = hosts.iter().filter_map(|need| need.pattern().ok());
    patterns.any(|pattern| pattern.matches(target))
}

/// What of a call that is about a request goes into that: the rest, such as which part of the answer is shown, is seen
/// by nobody outside.
pub(super) fn sent() -> Reads {
    Reads::Only(
        ["url", "method", "headers", "body"]
            .map(str::to_owned)
            .into(),
    )
}

/// The request that a call is about, where its arguments say so: of a tool that goes wherever it is told, the `url`
/// and the `method`. An address that cannot be requested is an error of the caller.
pub(super) fn of_call(checked: &Checked) -> Result<Option<(Target, String)>, ToolError> {
    let (tool, arguments) = (checked.tool(), checked.arguments());
    if !hosts(tool).iter().any(HostNeed::is_any) {
        return Ok(None);
    }
    let Some(url) = arguments.get("url").and_then(Value::as_str) else {
        return Ok(None);
    };
    let target = Target::parse(url).map_err(|error| {
        let message = crate::text::visible(&format!("url: {error}"));
        ToolError::new(Code::InvalidInput, message).with_details(json!({ "kind": error.kind() }))
    })?;
    let method = arguments.get("method").and_then(Value::as_str);
    Ok(Some((target, method.unwrap_or("GET").to_ascii_uppercase())))
}

/// What the call gate says of the request that a call is about.
pub(super) fn foresee(
    world: &World,
    checked: &Checked,
    all: &mut Evaluation,
) -> Result<Option<(Said, Foreseen)>, ToolError> {
    let Some((target, method)) = of_call(checked)? else {
        return Ok(None);
    };
    let (tool, target) = (checked.tool(), &target);
    let method = method.as_str();
    let egress = Egress {
        target,
        method,
        headers: &[],
    };
    // The rules see the request as it would be sent, and not only as the call spells it.
    let mut late = Evaluation::default();
    world
        .policy
        .request(tool, &effect::arguments(egress), &mut late);
    all.append_new(late);
    let said = judge(world, tool, hosts(tool), egress, all);
    let addresses = world.policy.network(tool, hosts(tool)).addresses(target);
    let foreseen = Foreseen {
        method: method.to_owned(),
        url: target.to_string(),
        scheme: target.scheme().as_str(),
        host: target.host().to_string(),
        port: target.port(),
        pattern: said.pattern.clone(),
        addresses,
    };
    Ok(Some((said, foreseen)))
}

/// The hosts that a call of the tool would have. Without a grant a person says yes to its needs first.
fn hosts(tool: &Tool) -> &[HostNeed] {
    match tool.trust {
        Trust::Untrusted => &tool.definition.needs.hosts,
        Trust::Trusted | Trust::Harmless => &tool.granted.hosts,
    }
}
