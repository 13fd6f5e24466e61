//! The stored approvals by which a call runs, to stop the call when one of them is revoked.

use std::sync::Arc;

use crate::approval::{ApprovalStore, Fingerprint};
use crate::pipeline::StageContext;
use crate::pipeline::session::{PipelineSession, PipelineSessions};

/// A stored approval by which a call runs.
pub(in crate::pipeline) struct UsedApproval {
    id: Fingerprint,
    /// The session, for an approval that lasts as long as the session.
    session: Option<(String, Arc<PipelineSession>)>,
}

impl UsedApproval {
    /// Describes a permanent approval.
    pub(super) fn permanent(id: &Fingerprint) -> Self {
        Self {
            id: id.clone(),
            session: None,
        }
    }

    /// Describes an approval for a session. `None` if it is not in the list from which a person can revoke it.
    pub(super) fn for_session(
        stage: &StageContext<'_>,
        session: &str,
        id: &Fingerprint,
    ) -> Option<Self> {
        let listed = stage.ports.approval_store.listed_in_session(session);
        listed.is_ok_and(|ids| ids.contains(id)).then(|| Self {
            id: id.clone(),
            session: Some((session.to_owned(), stage.sessions.get(session))),
        })
    }

    /// Returns true if the approval was revoked. An approval that has expired, or whose store cannot be read at present,
    /// was not; neither was one whose session has ended.
    pub(in crate::pipeline) fn is_revoked(
        &self,
        store: &dyn ApprovalStore,
        sessions: &PipelineSessions,
    ) -> bool {
        match &self.session {
            None => store.approvals().is_ok_and(|stored| {
                let mut ids = stored.iter().map(|approval| &approval.id);
                ids.all(|id| *id != self.id)
            }),
            Some((name, session)) => {
                sessions.is_current(name, session)
                    && store
                        .listed_in_session(name)
                        .is_ok_and(|ids| !ids.contains(&self.id))
            }
        }
    }
}
