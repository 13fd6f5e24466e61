//! Stored approvals, and the port to the approval store.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::CallingTool;
use crate::decision::PolicyEvaluation;
use crate::needs::NeedKind;
use crate::tool::Tool;

use super::fingerprint::Fingerprint;
use super::pattern::ApprovalPattern;
use super::workspace_binding::WorkspaceBinding;

/// A person's approval of all calls of one tool that a pattern covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StoredApproval {
    /// The fingerprint of the call that was shown, as the id of the approval.
    pub id: Fingerprint,
    /// The tool's canonical name.
    pub tool: String,
    /// sha256 of the tool's build.
    pub digest: String,
    /// The calling tools, the outermost first; empty for a top-level call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CallingTool>,
    /// The calls that the approval covers.
    pub pattern: ApprovalPattern,
    /// The object that it is limited to, such as the site that a browser shows. The reasons contain it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The state of the workspace that the approval is bound to.
    #[serde(default, skip_serializing_if = "WorkspaceBinding::is_empty")]
    pub scene: WorkspaceBinding,
    /// The `ask` reasons that were approved. A call with any other reason is not covered.
    pub reasons: Vec<String>,
    /// The origin of the approval, at present always `user`.
    pub added_by: String,
    /// The time of the approval.
    pub added_at: Timestamp,
    /// The expiry time. `None` if the approval does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
}

/// Returns the `ask` reasons in a comparable form. Rules are identified by their content, because another rule may get
/// the same name and location later. Reasons about commands that a pattern can cover are left out.
fn question_reasons(evaluation: &PolicyEvaluation) -> Vec<String> {
    evaluation
        .asking_reasons_with_basis()
        .filter(|(_, basis)| basis.offer.is_none())
        .map(|(reason, basis)| match &basis.content {
            Some(content) => format!("{}: {} (sha256 {content})", reason.rule, reason.text),
            None => format!("{}: {}", reason.rule, reason.text),
        })
        .collect()
}

/// The properties of a call that a stored approval depends on.
#[derive(Clone, Copy)]
pub(crate) struct ApprovalLookup<'a> {
    /// The tool.
    pub(crate) tool: &'a Tool,
    /// The arguments.
    pub(crate) arguments: &'a Value,
    /// The calling tools, the outermost first.
    pub(crate) callers: &'a [CallingTool],
    /// The evaluation of the policy.
    pub(crate) evaluation: &'a PolicyEvaluation,
}

impl StoredApproval {
    /// Creates the stored approval of this call.
    pub(crate) fn new(
        lookup: &ApprovalLookup<'_>,
        now: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Self {
        let &ApprovalLookup {
            tool,
            arguments,
            callers,
            evaluation,
        } = lookup;
        let digest = &tool.origin.digest;
        Self {
            id: Fingerprint::for_nested_call(tool.name().as_str(), digest, arguments, callers),
            tool: tool.name().to_string(),
            digest: digest.clone(),
            callers: callers.to_vec(),
            pattern: ApprovalPattern::for_call(tool, arguments, evaluation),
            scope: None,
            scene: WorkspaceBinding::capture(lookup),
            reasons: question_reasons(evaluation),
            added_by: "user".to_owned(),
            added_at: now,
            expires_at,
            last_used: None,
        }
    }

    /// Returns true if the approval is in force: not expired, and not dated in the future (then the clock was set
    /// back).
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.added_at <= now && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    fn covers(&self, lookup: &ApprovalLookup<'_>, reasons: &[String]) -> bool {
        self.matches_question(lookup, reasons)
            && self.pattern.covers(lookup.arguments)
            && self.scene.links_match(lookup)
            && self
                .scene
                .files_match(lookup, lookup.evaluation.executed_files())
    }

    /// Returns true if the approval was given for the same build of the tool, the same callers, and all of `reasons`.
    fn matches_question(&self, lookup: &ApprovalLookup<'_>, reasons: &[String]) -> bool {
        self.tool == lookup.tool.name().as_str()
            && self.digest == lookup.tool.origin.digest
            && self.callers == lookup.callers
            && reasons.iter().all(|reason| self.reasons.contains(reason))
    }
}

/// Finds the stored approval that covers the call, if any.
pub(crate) fn find_covering<'a>(
    approvals: impl IntoIterator<Item = &'a StoredApproval>,
    lookup: &ApprovalLookup<'_>,
    now: Timestamp,
) -> Option<&'a StoredApproval> {
    let reasons = question_reasons(lookup.evaluation);
    let mut approvals = approvals.into_iter();
    approvals.find(|approval| approval.is_live(now) && approval.covers(lookup, &reasons))
}

/// Finds stored approvals that together cover every command that rules ask about. Empty if a command is not covered, or
/// if no rule asks about a command.
pub(crate) fn find_covering_commands<'a>(
    approvals: impl IntoIterator<Item = &'a StoredApproval>,
    lookup: &ApprovalLookup<'_>,
    now: Timestamp,
) -> Vec<&'a StoredApproval> {
    let reasons = question_reasons(lookup.evaluation);
    let applicable = |approval: &&StoredApproval| {
        approval.is_live(now) && approval.matches_question(lookup, &reasons)
    };
    let applicable: Vec<&StoredApproval> = approvals.into_iter().filter(applicable).collect();
    let mut covering: Vec<&StoredApproval> = Vec::new();
    let offers = lookup.evaluation.asking_reasons_with_basis();
    for offer in offers.filter_map(|(_, basis)| basis.offer.as_deref()) {
        let mut matching = applicable
            .iter()
            .filter(|approval| approval.pattern.covers_command(offer))
            .filter(|approval| approval.scene.files_match(lookup, &offer.code));
        match matching.next() {
            Some(approval) if covering.iter().all(|known| known.id != approval.id) => {
                covering.push(approval)
            }
            Some(_) => {}
            None => return Vec::new(),
        }
    }
    covering
}

/// Converts a time to a timestamp. A time out of range becomes the minimum, at which no approval is in force.
pub(crate) fn timestamp(now: SystemTime) -> Timestamp {
    Timestamp::try_from(now).unwrap_or(Timestamp::MIN)
}

/// A failed access to the approval store.
#[derive(Debug, thiserror::Error)]
#[error("{location}: {text}")]
pub struct ApprovalStoreError {
    /// The location of the store.
    pub location: String,
    /// The cause.
    pub text: String,
}

/// The store of permanent approvals. No tool can reach it.
pub trait ApprovalStore: Send + Sync {
    /// Returns all stored approvals, expired ones included.
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError>;

    /// Stores an approval, replacing one with the same id.
    fn store(&self, approval: StoredApproval) -> Result<(), ApprovalStoreError>;

    /// Records that an approval was used.
    fn record_use(&self, id: &Fingerprint, at: Timestamp);

    /// Lists an approval for one session of this process, so that a person can find and revoke it.
    fn list_for_session(
        &self,
        session: &str,
        approval: &StoredApproval,
    ) -> Result<(), ApprovalStoreError>;

    /// Returns the listed approvals of this session that have not been revoked.
    fn listed_in_session(&self, session: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError>;

    /// Ends a session of this process with all of its approvals.
    fn end_session(&self, session: &str);

    /// Grants a plugin, in its current build, the needs of all its tools except the `withheld` kinds. `plugin` contains
    /// all tools of the plugin.
    fn grant(&self, plugin: &[Arc<Tool>], withheld: &[NeedKind]) -> Result<(), ApprovalStoreError>;
}

/// An approval store without storage: it has no approvals, and storing one fails.
pub struct NoApprovalStore;

impl ApprovalStore for NoApprovalStore {
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError> {
        Ok(Vec::new())
    }

    fn store(&self, _: StoredApproval) -> Result<(), ApprovalStoreError> {
        Err(not_configured())
    }

    fn record_use(&self, _: &Fingerprint, _: Timestamp) {}

    fn list_for_session(&self, _: &str, _: &StoredApproval) -> Result<(), ApprovalStoreError> {
        Err(not_configured())
    }

    fn listed_in_session(&self, _: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError> {
        Ok(Vec::new())
    }

    fn end_session(&self, _: &str) {}

    fn grant(&self, _: &[Arc<Tool>], _: &[NeedKind]) -> Result<(), ApprovalStoreError> {
        Err(not_configured())
    }
}

fn not_configured() -> ApprovalStoreError {
    ApprovalStoreError {
        location: "approvals".to_owned(),
        text: "no approval store is configured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Decision, DecisionReason, PolicyLayer};
    use crate::pipeline::tests::tool;
    use serde_json::json;

    fn evaluation(rules: &[&str]) -> PolicyEvaluation {
        let mut evaluation = PolicyEvaluation::default();
        for rule in rules {
            evaluation.push(DecisionReason {
                layer: PolicyLayer::ToolDefault,
                decision: Decision::Ask,
                rule: (*rule).to_owned(),
                source: String::new(),
                text: String::new(),
            });
        }
        evaluation
    }

    #[test]
    fn stored_approval_covers_same_tool_and_question_until_expiry() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let sample = tool("sample");
        let arguments = json!({"n": 1});
        let asked = evaluation(&["default", "rule"]);
        let first = ApprovalLookup {
            tool: &sample,
            arguments: &arguments,
            callers: &[],
            evaluation: &asked,
        };
        let approval = StoredApproval::new(&first, at(100), Some(at(200)));
        let covered = |lookup: ApprovalLookup<'_>, now| {
            find_covering([&approval], &lookup, at(now)).is_some()
        };
        assert!(covered(first, 100));
        let evaluation = |rules: &[&str]| evaluation(rules);
        assert!(
            covered(
                ApprovalLookup {
                    evaluation: &evaluation(&["rule"]),
                    ..first
                },
                150
            ),
            "fewer questions"
        );
        let mut rebuilt = tool("sample");
        let mut origin = (*rebuilt.origin).clone();
        origin.digest = "01".to_owned();
        rebuilt.origin = origin.into();
        for (what, other) in [
            (
                "another question",
                ApprovalLookup {
                    evaluation: &evaluation(&["taint"]),
                    ..first
                },
            ),
            (
                "other arguments",
                ApprovalLookup {
                    arguments: &json!({"n": 2}),
                    ..first
                },
            ),
            (
                "another tool",
                ApprovalLookup {
                    tool: &tool("other"),
                    ..first
                },
            ),
            (
                "another build",
                ApprovalLookup {
                    tool: &rebuilt,
                    ..first
                },
            ),
            (
                "another caller",
                ApprovalLookup {
                    callers: &[CallingTool::from_tool(&sample)],
                    ..first
                },
            ),
        ] {
            assert!(!covered(other, 150), "{what}");
        }
        assert!(!covered(first, 200), "expired");
        assert!(!covered(first, 99), "the clock was set back");
        let text = serde_json::to_string(&approval).unwrap();
        assert_eq!(
            serde_json::from_str::<StoredApproval>(&text).unwrap(),
            approval
        );
    }

    #[test]
    fn stored_approval_does_not_cover_other_rule_content() {
        let sample = tool("sample");
        let asked = |content: Option<&str>| {
            let mut all = PolicyEvaluation::default();
            let one = evaluation(&["policy.rules[0]"]);
            let reason = one.reasons().next().unwrap().clone();
            let basis = crate::decision::RuleBasis {
                content: content.map(Into::into),
                ..Default::default()
            };
            all.push_with_basis(reason, basis);
            all
        };
        let seen = asked(Some("aa"));
        let arguments = json!({});
        fn lookup<'a>(
            tool: &'a Tool,
            arguments: &'a Value,
            evaluation: &'a PolicyEvaluation,
        ) -> ApprovalLookup<'a> {
            ApprovalLookup {
                tool,
                arguments,
                callers: &[],
                evaluation,
            }
        }
        let now = Timestamp::UNIX_EPOCH;
        let approval = StoredApproval::new(&lookup(&sample, &arguments, &seen), now, None);
        let covered = |evaluation: &PolicyEvaluation| {
            find_covering([&approval], &lookup(&sample, &arguments, evaluation), now).is_some()
        };
        assert!(covered(&seen));
        assert!(!covered(&asked(Some("ab"))));
        assert!(!covered(&asked(None)));
    }
}
