//! Answers that were given before: which of them lets a call through.

use crate::approval::{self, Lease, Question, covering, timestamp};
use crate::decision::Evaluation;
use crate::pipeline::Road;
use crate::pipeline::validate::Checked;

/// The answer that a person has given before and that covers this call: one for the session, or one for good.
pub(in crate::pipeline) fn remembered(
    road: &Road<'_>,
    checked: &Checked,
    evaluation: &Evaluation,
) -> Option<Remembered> {
    if is_asked_each_time(checked) {
        return None;
    }
    let now = timestamp(road.ports.clock.now());
    let question = question(checked, evaluation);
    let session = road.sessions.get(&checked.context.session_id);
    if let Some(lease) = covering(&session.leases(), &question, now) {
        return Some(Remembered::Session(lease.clone()));
    }
    match road.ports.ledger.leases() {
        Ok(leases) => {
            covering(&leases, &question, now).map(|lease| Remembered::Good(lease.clone()))
        }
        Err(error) => {
            tracing::warn!(%error, "remembered approvals do not count");
            None
        }
    }
}

/// An answer that was given before.
pub(in crate::pipeline) enum Remembered {
    /// For the session.
    Session(Lease),
    /// For good.
    Good(Lease),
}

impl From<Remembered> for Lease {
    fn from(remembered: Remembered) -> Self {
        match remembered {
            Remembered::Session(lease) | Remembered::Good(lease) => lease,
        }
    }
}

pub(super) fn question<'a>(checked: &'a Checked, evaluation: &'a Evaluation) -> Question<'a> {
    Question {
        tool: &checked.tool,
        arguments: &checked.arguments,
        callers: checked.callers(),
        evaluation,
    }
}

/// Whether no answer to this call is worth anything for another one.
pub(super) fn is_asked_each_time(checked: &Checked) -> bool {
    let forms = std::iter::once(&checked.tool).chain(&checked.same);
    forms
        .into_iter()
        .any(|tool| approval::is_asked_each_time(tool))
}
