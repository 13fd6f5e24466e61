//! Finds the stored approvals that cover a call.

use crate::approval::{
    self, ApprovalLookup, ApprovalStoreError, StoredApproval, find_covering,
    find_covering_commands, timestamp,
};
use crate::call::SessionSharing;
use crate::decision::PolicyEvaluation;
use crate::pipeline::StageContext;
use crate::pipeline::validate::Checked;
use crate::policy;

/// Returns the stored approval that covers the call, for the session or permanently.
pub(in crate::pipeline) fn find_remembered_answer(
    stage: &StageContext<'_>,
    checked: &Checked,
    evaluation: &PolicyEvaluation,
) -> Option<RememberedAnswer> {
    if is_asked_each_time(checked, evaluation) {
        return None;
    }
    let now = timestamp(stage.ports.clock.now());
    let lookup = approval_lookup(checked, evaluation);
    let ignore_unreadable = |error: ApprovalStoreError| {
        tracing::warn!(%error, "stored approvals cannot be read, so they are ignored");
        Vec::new()
    };
    let store = &stage.ports.approval_store;
    let id = &checked.context.session_id;
    let session = stage.sessions.get(id);
    // Stored before the session was shared.
    let session_approvals = match session.sharing() {
        SessionSharing::AnyClient => Vec::new(),
        SessionSharing::OneClient | SessionSharing::OneUser => session
            .approvals(|| store.listed_in_session(id))
            .unwrap_or_else(ignore_unreadable),
    };
    if let Some(approval) = find_covering(&session_approvals, &lookup, now) {
        return Some(RememberedAnswer::Session(Box::new(approval.clone())));
    }
    let permanent_approvals = store.approvals().unwrap_or_else(ignore_unreadable);
    if let Some(approval) = find_covering(&permanent_approvals, &lookup, now) {
        return Some(RememberedAnswer::Permanent(vec![approval.clone()]));
    }
    // Several approvals may together cover a script: one for each of its commands.
    let covering = find_covering_commands(
        session_approvals.iter().chain(&permanent_approvals),
        &lookup,
        now,
    );
    let Some(first) = covering.first() else {
        let is_covered = session.skills().iter().any(|skill| skill.covers(&lookup));
        return is_covered.then_some(RememberedAnswer::Skill);
    };
    let is_permanent = |approval: &&&StoredApproval| {
        permanent_approvals
            .iter()
            .any(|stored| stored.id == approval.id)
    };
    let permanent: Vec<StoredApproval> = covering
        .iter()
        .filter(is_permanent)
        .map(|&approval| approval.clone())
        .collect();
    Some(if permanent.is_empty() {
        RememberedAnswer::Session(Box::new((*first).clone()))
    } else {
        RememberedAnswer::Permanent(permanent)
    })
}

/// A stored approval that covers a call.
pub(in crate::pipeline) enum RememberedAnswer {
    /// An approval for the session.
    Session(Box<StoredApproval>),
    /// A permanent approval. For a script: all permanent approvals that cover one of its commands.
    Permanent(Vec<StoredApproval>),
    /// The permissions of a skill that the session uses.
    Skill,
}

impl RememberedAnswer {
    /// Returns one of the approvals, for an explanation of why the call is not asked about.
    pub(in crate::pipeline) fn into_approval(self) -> Option<StoredApproval> {
        match self {
            RememberedAnswer::Session(approval) => Some(*approval),
            RememberedAnswer::Permanent(approvals) => approvals.into_iter().next(),
            RememberedAnswer::Skill => None,
        }
    }
}

/// Returns the properties of the call that stored approvals depend on.
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

/// Returns true if an approval of this call never covers another call.
pub(super) fn is_asked_each_time(checked: &Checked, evaluation: &PolicyEvaluation) -> bool {
    let forms = std::iter::once(&checked.tool).chain(&checked.equivalent_tool);
    let deletes = || {
        policy::patch_effects(&checked.tool, &checked.arguments)
            .iter()
            .any(|effect| effect.tool == "delete_file")
    };
    forms
        .into_iter()
        .any(|tool| approval::is_asked_each_time(tool))
        || deletes()
        || evaluation
            .asking_reasons_with_basis()
            .any(|(_, basis)| basis.each_time)
}
