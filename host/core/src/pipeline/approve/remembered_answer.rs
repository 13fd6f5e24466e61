//! Finds the stored answers that cover a call.

use crate::approval::{
    self, ApprovalLookup, ApprovalStoreError, StoredApproval, find_covering,
    find_covering_commands, timestamp,
};
use crate::decision::PolicyEvaluation;
use crate::pipeline::StageContext;
use crate::pipeline::validate::Checked;

/// Returns the stored answer that covers this call, for the session or permanently.
pub(in crate::pipeline) fn find_remembered_answer(
    stage: &StageContext<'_>,
    checked: &Checked,
    evaluation: &PolicyEvaluation,
) -> Option<RememberedAnswer> {
    if is_asked_each_time(checked) {
        return None;
    }
    let now = timestamp(stage.ports.clock.now());
    let question = approval_lookup(checked, evaluation);
    let unknown = |error: ApprovalStoreError| {
        tracing::warn!(%error, "stored approvals cannot be read, so they are ignored");
        Vec::new()
    };
    let ledger = &stage.ports.approval_store;
    let id = &checked.context.session_id;
    let session = stage
        .sessions
        .get(id)
        .approvals(|| ledger.listed_in_session(id));
    let session = session.unwrap_or_else(unknown);
    if let Some(lease) = find_covering(&session, &question, now) {
        return Some(RememberedAnswer::Session(Box::new(lease.clone())));
    }
    let lasting = ledger.leases().unwrap_or_else(unknown);
    if let Some(lease) = find_covering(&lasting, &question, now) {
        return Some(RememberedAnswer::Permanent(vec![lease.clone()]));
    }
    // A script may be covered by several answers: one for each of its commands.
    let used = find_covering_commands(session.iter().chain(&lasting), &question, now);
    let first = used.first()?;
    let is_lasting = |lease: &&&StoredApproval| lasting.iter().any(|kept| kept.id == lease.id);
    let permanent: Vec<StoredApproval> = used
        .iter()
        .filter(is_lasting)
        .map(|&lease| lease.clone())
        .collect();
    Some(match permanent.is_empty() {
        true => RememberedAnswer::Session(Box::new((*first).clone())),
        false => RememberedAnswer::Permanent(permanent),
    })
}

/// A stored answer.
pub(in crate::pipeline) enum RememberedAnswer {
    /// Valid for the session.
    Session(Box<StoredApproval>),
    /// Valid permanently. For a script: all answers that cover one of its commands.
    Permanent(Vec<StoredApproval>),
}

impl RememberedAnswer {
    /// Returns one of the answers, to explain why no question is asked.
    pub(in crate::pipeline) fn lease(self) -> Option<StoredApproval> {
        match self {
            RememberedAnswer::Session(lease) => Some(*lease),
            RememberedAnswer::Permanent(leases) => leases.into_iter().next(),
        }
    }
}

pub(super) fn approval_lookup<'a>(
    checked: &'a Checked,
    evaluation: &'a PolicyEvaluation,
) -> ApprovalLookup<'a> {
    ApprovalLookup {
        tool: &checked.tool,
        arguments: &checked.arguments,
        callers: checked.callers(),
        evaluation,
    }
}

/// Returns true if an answer to this call covers no other call.
pub(super) fn is_asked_each_time(checked: &Checked) -> bool {
    let forms = std::iter::once(&checked.tool).chain(&checked.equivalent_tool);
    forms
        .into_iter()
        .any(|tool| approval::is_asked_each_time(tool))
}
