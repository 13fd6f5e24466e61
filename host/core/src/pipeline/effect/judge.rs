//! What every rule says of a request.

use serde_json::{Value, json};

use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::needs::{HostNeed, Needs};
use crate::network::{HostPattern, NetworkPolicy, Refusal, Target, Verdict};
use crate::pipeline::Road;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::validate::Checked;
use crate::policy::{self, GRANT};

use super::{Egress, Inner};

/// A request with what was said of it.
pub(super) struct Judged {
    pub(super) evaluation: Evaluation,
    /// Whether it is on no list, so that only a person's yes lets it.
    pub(super) unlisted: bool,
    /// What would let it, where the settings refuse it outright.
    remedy: String,
}

/// What was granted, as a policy. Patterns were checked when the tool was listed; were one broken all the same,
/// nothing is granted.
pub(super) fn granted(hosts: &[HostNeed]) -> NetworkPolicy {
    let only = NetworkPolicy::only("grant", hosts).or_else(|_| NetworkPolicy::only("grant", &[]));
    only.unwrap_or_default()
}

pub(super) fn judge(
    road: &Road<'_>,
    effects: &Inner,
    checked: &Checked,
    rights: &Needs,
    egress: Egress<'_>,
) -> Judged {
    let (world, tool) = (road.world, checked.tool());
    let mut all = Evaluation::default();
    let mut say = |decision, rule: &str, text: String| {
        all.push(Reason {
            layer: Layer::Network,
            decision,
            rule: rule.to_owned(),
            source: String::new(),
            text,
        });
    };
    let (mut unlisted, mut remedy) = (false, String::new());
    let known = knows(&rights.hosts, egress.target);
    let asked = known || world.policy.asks_unknown_hosts(tool);
    if !granted(&rights.hosts)
        .judge(egress.target, egress.method)
        .is_allowed()
    {
        unlisted = true;
        let (name, host) = (tool.name(), egress.target.host());
        if known {
            let text = format!("`{name}` was not granted {} to `{host}`", egress.method);
            say(Decision::Deny, GRANT, text);
        } else if !asked {
            let text = format!("`{name}` was not granted `{host}`");
            say(Decision::Deny, GRANT, text);
        }
    }
    let settings = world.policy.network(tool, &rights.hosts);
    match settings.judge(egress.target, egress.method) {
        Verdict::Allowed(_) => say(Decision::Allow, "network", reached(egress.target)),
        Verdict::Unlisted(Refusal { rule, reason, .. }) => {
            unlisted = true;
            say(Decision::Ask, &rule, reason);
        }
        Verdict::Refused(Refusal {
            rule,
            reason,
            remedy: way,
        }) => {
            remedy = way;
            say(Decision::Deny, &rule, reason);
        }
    }
    for team in world.policy.team_networks(Some(tool)) {
        let verdict = team.judge(egress.target, egress.method);
        if let Some(Refusal { rule, reason, .. }) = verdict.refusal() {
            all.push(Reason {
                layer: Layer::TeamPolicy,
                decision: Decision::Deny,
                rule: rule.clone(),
                source: String::new(),
                text: reason.clone(),
            });
        }
    }
    world.policy.request(tool, checked.arguments(), &mut all);
    let session = road.sessions.get(&checked.context().session_id);
    session.taint(tool, accepts_untrusted(&world.policy, checked), &mut all);
    let same = is_own(&effects.arguments, egress);
    all.settle(|reason| {
        let here = same || reason.layer == Layer::Taint;
        here && effects.answered.iter().any(|one| *one == asked_as(reason))
    });
    Judged {
        evaluation: all,
        unlisted,
        remedy,
    }
}

fn reached(target: &Target) -> String {
    format!("`{}` may be reached", target.host())
}

/// How a reason that a person was asked about is remembered for the length of a call.
pub(in crate::pipeline) fn asked_as(reason: &Reason) -> String {
    format!("{}: {}", reason.rule, reason.text)
}

fn knows(hosts: &[HostNeed], target: &Target) -> bool {
    let mut patterns = hosts
        .iter()
        .filter_map(|need| need.host.parse::<HostPattern>().ok());
    patterns.any(|pattern| pattern.matches(target))
}

/// Whether the request is the one that the call's own arguments name: then it was judged before the call ran.
fn is_own(arguments: &Value, egress: Egress<'_>) -> bool {
    let url = arguments["url"].as_str().map(Target::parse);
    let method = arguments["method"].as_str().unwrap_or("GET");
    matches!(url, Some(Ok(target)) if target == *egress.target)
        && method.eq_ignore_ascii_case(egress.method)
}

impl Judged {
    /// The refusal of a request that a rule denies.
    pub(super) fn denied(&self, checked: &Checked, egress: Egress<'_>) -> ToolError {
        let told = self.evaluation.told();
        let origin = egress.target.origin();
        let message = match told.decisive() {
            Some(reason) => format!(
                "{} to `{origin}` was not sent: {} ({})",
                egress.method, reason.text, reason.rule
            ),
            None => format!("{} to `{origin}` was not sent", egress.method),
        };
        ToolError::new(Code::PolicyDenied, crate::text::visible(&message))
            .with_details(json!({ "reasons": told.reasons() }))
            .with_way_out(self.ways(checked))
    }

    fn ways(&self, checked: &Checked) -> Vec<String> {
        let remedy = Some(crate::text::visible(&self.remedy)).filter(|way| !way.is_empty());
        let rules = policy::ways(&self.evaluation, checked.tool());
        rules.into_iter().chain(remedy).collect()
    }
}
