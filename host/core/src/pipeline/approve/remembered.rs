//! Finds the stored answers that cover a call.

use crate::approval::{self, Lease, LedgerError, Question, covering, covering_commands, timestamp};
use crate::decision::Evaluation;
use crate::pipeline::Road;
use crate::pipeline::validate::Checked;

/// Returns the stored answer that covers this call, for the session or for good.
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

/// A stored answer.
pub(in crate::pipeline) enum Remembered {
    /// Valid for the session.
    Session(Box<Lease>),
    /// Valid for good; for a script, all answers that cover some of its commands.
    Good(Vec<Lease>),
}

impl Remembered {
    /// Returns one of the answers, to explain why no question is asked.
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

/// Returns true if an answer to this call covers no other call.
pub(super) fn is_asked_each_time(checked: &Checked) -> bool {
    let forms = std::iter::once(&checked.tool).chain(&checked.same);
    forms
        .into_iter()
        .any(|tool| approval::is_asked_each_time(tool))
}
