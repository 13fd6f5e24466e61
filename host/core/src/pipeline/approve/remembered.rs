//! Answers that were given before: which of them lets a call through.

use crate::approval::{self, Lease, LedgerError, Question, covering, covering_commands, timestamp};
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
    let unknown = |error: LedgerError| {
        tracing::warn!(%error, "remembered approvals do not count");
        Vec::new()
    };
    let ledger = &road.ports.ledger;
    let id = &checked.context.session_id;
    let session = road.sessions.get(id).leases(|| ledger.listed(id));
    let session = session.unwrap_or_else(unknown);
    if let Some(lease) = covering(&session, &question, now) {
        return Some(Remembered::Session(Box::new(lease.clone())));
    }
    let lasting = ledger.leases().unwrap_or_else(unknown);
    if let Some(lease) = covering(&lasting, &question, now) {
        return Some(Remembered::Good(vec![lease.clone()]));
    }
    // A script may be covered by several answers: one for each of its commands.
    let used = covering_commands(session.iter().chain(&lasting), &question, now);
    let first = used.first()?;
    let is_lasting = |lease: &&&Lease| lasting.iter().any(|kept| kept.id == lease.id);
    let good: Vec<Lease> = used
        .iter()
        .filter(is_lasting)
        .map(|&lease| lease.clone())
        .collect();
    Some(match good.is_empty() {
        true => Remembered::Session(Box::new((*first).clone())),
        false => Remembered::Good(good),
    })
}

/// An answer that was given before.
pub(in crate::pipeline) enum Remembered {
    /// For the session.
    Session(Box<Lease>),
    /// For good; for a script, all that cover some of its commands.
    Good(Vec<Lease>),
}

impl Remembered {
    /// One of the answers, for a person who wants to know why nobody is asked.
    pub(in crate::pipeline) fn lease(self) -> Option<Lease> {
        match self {
            Remembered::Session(lease) => Some(*lease),
            Remembered::Good(leases) => leases.into_iter().next(),
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
