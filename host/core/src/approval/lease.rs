//! A stored approval with its coverage, and the port to the approval store.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Caller;
use crate::decision::Evaluation;
use crate::needs::NeedKind;
use crate::tool::Tool;

use super::fingerprint::Fingerprint;
use super::pattern::Pattern;
use super::scene::Scene;

/// A person's yes to calls of one tool that are like the one shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Lease {
    /// The id: the fingerprint of the call that was shown.
    pub id: Fingerprint,
    /// The tool's canonical name.
    pub tool: String,
    /// sha256 of the tool's build.
    pub digest: String,
    /// The calling tools, the outermost first; empty for a top-level call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
    /// The calls that it covers.
    pub pattern: Pattern,
    /// The state of the workspace that it is bound to.
    #[serde(default, skip_serializing_if = "Scene::is_empty")]
    pub scene: Scene,
    /// The reasons of the question. A different reason is a different question.
    pub reasons: Vec<String>,
    /// The person who approved.
    pub added_by: String,
    /// The time of the answer.
    pub added_at: Timestamp,
    /// The expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
}

/// The reasons of a question in a comparable form. A rule is identified by its content: another one may take its name
/// and place later. A command that is covered by a pattern is identified by that.
fn asked(evaluation: &Evaluation) -> Vec<String> {
    evaluation
        .asking_from()
        .filter(|(_, basis)| basis.offer.is_none())
        .map(|(reason, basis)| match &basis.content {
            Some(content) => format!("{}: {} (sha256 {content})", reason.rule, reason.text),
            None => format!("{}: {}", reason.rule, reason.text),
        })
        .collect()
}

/// The properties of a call that a stored approval depends on.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The tool.
    pub(crate) tool: &'a Tool,
    /// The arguments.
    pub(crate) arguments: &'a Value,
    /// The calling tools, the outermost first.
    pub(crate) callers: &'a [Caller],
    /// The evaluation of the policy.
    pub(crate) evaluation: &'a Evaluation,
}

impl Lease {
    /// The stored approval that a yes to this call creates.
    pub(crate) fn new(
        question: &Question<'_>,
        now: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Self {
        let &Question {
            tool,
            arguments,
            callers,
            evaluation,
        } = question;
        let digest = &tool.origin.digest;
        Self {
            id: Fingerprint::in_calls(tool.name().as_str(), digest, arguments, callers),
            tool: tool.name().to_string(),
            digest: digest.clone(),
            callers: callers.to_vec(),
            pattern: Pattern::of(tool, arguments, evaluation),
            scene: Scene::of(question),
            reasons: asked(evaluation),
            added_by: "user".to_owned(),
            added_at: now,
            expires_at,
            last_used: None,
        }
    }

    /// Returns true if it is in force. One from the future was given under another clock and does not count.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.added_at <= now && self.expires_at.is_none_or(|end| now < end)
    }

    fn covers(&self, question: &Question<'_>, reasons: &[String]) -> bool {
        self.is_about(question, reasons)
            && self.pattern.covers(question.arguments)
            && self.scene.leads_as_before(question)
            && self.scene.has(question, question.evaluation.code())
    }

    /// Returns true if it was given for the same tool, the same callers, and all of these reasons.
    fn is_about(&self, question: &Question<'_>, reasons: &[String]) -> bool {
        self.tool == question.tool.name().as_str()
            && self.digest == question.tool.origin.digest
            && self.callers == question.callers
            && reasons.iter().all(|reason| self.reasons.contains(reason))
    }
}

/// The stored approval that covers the call, if any.
pub(crate) fn covering<'a>(
    leases: impl IntoIterator<Item = &'a Lease>,
    question: &Question<'_>,
    now: Timestamp,
) -> Option<&'a Lease> {
    let reasons = asked(question.evaluation);
    let mut leases = leases.into_iter();
    leases.find(|lease| lease.is_live(now) && lease.covers(question, &reasons))
}

/// The stored approvals that together cover every command in question; `None` if a command is left over, or if no
/// command is in question.
pub(crate) fn covering_commands<'a>(
    leases: impl IntoIterator<Item = &'a Lease>,
    question: &Question<'_>,
    now: Timestamp,
) -> Vec<&'a Lease> {
    let reasons = asked(question.evaluation);
    let live = |lease: &&Lease| lease.is_live(now) && lease.is_about(question, &reasons);
    let live: Vec<&Lease> = leases.into_iter().filter(live).collect();
    let mut used: Vec<&Lease> = Vec::new();
    let offers = question.evaluation.asking_from();
    for offer in offers.filter_map(|(_, basis)| basis.offer.as_deref()) {
        let mut covering = live
            .iter()
            .filter(|lease| lease.pattern.covers_command(offer))
            .filter(|lease| lease.scene.has(question, &offer.code));
        match covering.next() {
            Some(lease) if used.iter().all(|known| known.id != lease.id) => used.push(lease),
            Some(_) => {}
            None => return Vec::new(),
        }
    }
    used
}

/// The time as stored. A time out of range becomes the minimum, at which no approval is in force.
pub(crate) fn timestamp(now: SystemTime) -> Timestamp {
    Timestamp::try_from(now).unwrap_or(Timestamp::MIN)
}

/// A permanent answer that could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {text}")]
pub struct LedgerError {
    /// The location of the store.
    pub place: String,
    /// The cause.
    pub text: String,
}

/// The store of a person's permanent answers. No tool can reach it.
pub trait Ledger: Send + Sync {
    /// The stored approvals, in force or not.
    fn leases(&self) -> Result<Vec<Lease>, LedgerError>;

    /// Stores an approval, replacing one with the same id.
    fn keep(&self, lease: Lease) -> Result<(), LedgerError>;

    /// Records that an approval was used.
    fn used(&self, id: &Fingerprint, at: Timestamp);

    /// Lists an approval of one session of this process, so that a person can find and revoke it.
    fn list(&self, session: &str, lease: &Lease) -> Result<(), LedgerError>;

    /// The listed approvals of this session that have not been revoked.
    fn listed(&self, session: &str) -> Result<Vec<Fingerprint>, LedgerError>;

    /// Ends a session of this process with all of its approvals.
    fn end_session(&self, session: &str);

    /// Grants a plugin in its current build the needs of all its tools, except for these kinds. `plugin` has its
    /// tools.
    fn grant(&self, plugin: &[Arc<Tool>], withheld: &[NeedKind]) -> Result<(), LedgerError>;
}

/// A store that stores nothing.
pub struct NoLedger;

impl Ledger for NoLedger {
    fn leases(&self) -> Result<Vec<Lease>, LedgerError> {
        Ok(Vec::new())
    }

    fn keep(&self, _: Lease) -> Result<(), LedgerError> {
        Err(nowhere())
    }

    fn used(&self, _: &Fingerprint, _: Timestamp) {}

    fn list(&self, _: &str, _: &Lease) -> Result<(), LedgerError> {
        Err(nowhere())
    }

    fn listed(&self, _: &str) -> Result<Vec<Fingerprint>, LedgerError> {
        Ok(Vec::new())
    }

    fn end_session(&self, _: &str) {}

    fn grant(&self, _: &[Arc<Tool>], _: &[NeedKind]) -> Result<(), LedgerError> {
        Err(nowhere())
    }
}

fn nowhere() -> LedgerError {
    LedgerError {
        place: "approvals".to_owned(),
        text: "no approval store is configured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Decision, Layer, Reason};
    use crate::pipeline::tests::tool;
    use serde_json::json;

    fn evaluation(rules: &[&str]) -> Evaluation {
        let mut evaluation = Evaluation::default();
        for rule in rules {
            evaluation.push(Reason {
                layer: Layer::ToolDefault,
                decision: Decision::Ask,
                rule: (*rule).to_owned(),
                source: String::new(),
                text: String::new(),
            });
        }
        evaluation
    }

    #[test]
    fn a_lease_is_for_the_same_tool_and_the_same_question() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let sample = tool("sample");
        let arguments = json!({"n": 1});
        let asked = evaluation(&["default", "rule"]);
        let first = Question {
            tool: &sample,
            arguments: &arguments,
            callers: &[],
            evaluation: &asked,
        };
        let lease = Lease::new(&first, at(100), Some(at(200)));
        let covered =
            |question: Question<'_>, now| covering([&lease], &question, at(now)).is_some();
        assert!(covered(first, 100));
        let evaluation = |rules: &[&str]| evaluation(rules);
        assert!(
            covered(
                Question {
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
                Question {
                    evaluation: &evaluation(&["taint"]),
                    ..first
                },
            ),
            (
                "other arguments",
                Question {
                    arguments: &json!({"n": 2}),
                    ..first
                },
            ),
            (
                "another tool",
                Question {
                    tool: &tool("other"),
                    ..first
                },
            ),
            (
                "another build",
                Question {
                    tool: &rebuilt,
                    ..first
                },
            ),
            (
                "another caller",
                Question {
                    callers: &[Caller::of(&sample)],
                    ..first
                },
            ),
        ] {
            assert!(!covered(other, 150), "{what}");
        }
        assert!(!covered(first, 200), "expired");
        assert!(!covered(first, 99), "the clock was set back");
        let text = serde_json::to_string(&lease).unwrap();
        assert_eq!(serde_json::from_str::<Lease>(&text).unwrap(), lease);
    }

    #[test]
    fn another_rule_of_the_same_name_is_another_question() {
        let sample = tool("sample");
        let asked = |content: Option<&str>| {
            let mut all = Evaluation::default();
            let mut reasons = evaluation(&["policy.rules[0]"]).reasons().to_vec();
            let basis = crate::decision::Basis {
                content: content.map(Into::into),
                ..Default::default()
            };
            all.push_from(reasons.remove(0), basis);
            all
        };
        let seen = asked(Some("aa"));
        let arguments = json!({});
        fn question<'a>(
            tool: &'a Tool,
            arguments: &'a Value,
            evaluation: &'a Evaluation,
        ) -> Question<'a> {
            Question {
                tool,
                arguments,
                callers: &[],
                evaluation,
            }
        }
        let now = Timestamp::UNIX_EPOCH;
        let lease = Lease::new(&question(&sample, &arguments, &seen), now, None);
        let covered = |evaluation: &Evaluation| {
            covering([&lease], &question(&sample, &arguments, evaluation), now).is_some()
        };
        assert!(covered(&seen));
        assert!(!covered(&asked(Some("ab"))));
        assert!(!covered(&asked(None)));
    }
}
