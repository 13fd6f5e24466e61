//! What a session has read and what a person has said in it. It begins with its first call.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::approval::{Fingerprint, Lease};
use crate::decision::{Decision, Evaluation, Layer, Reads, Reason};
use crate::outcome::{DataClass, Label, TrustLevel};
use crate::tool::{Group, Source, Tool};

/// The sessions of one pipeline, and the builds that a person has granted while it runs.
#[derive(Default)]
pub(super) struct Sessions {
    all: Mutex<HashMap<String, Arc<Session>>>,
    granted: Mutex<HashSet<(String, String)>>,
}

/// One session.
#[derive(Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    /// Where the first content of strangers came from.
    untrusted: Option<String>,
    /// Where the first sensitive content came from.
    sensitive: Option<String>,
    answers: Vec<Given>,
}

/// An answer for the session.
struct Given {
    lease: Lease,
    /// Whether it is in the list that a person can take it back from.
    listed: bool,
}

impl Sessions {
    /// The session of this name.
    pub(super) fn get(&self, id: &str) -> Arc<Session> {
        let mut all = lock(&self.all);
        match all.get(id) {
            Some(session) => Arc::clone(session),
            None => Arc::clone(all.entry(id.to_owned()).or_default()),
        }
    }

    /// Forgets a session that has ended. Says whether an answer of it is listed.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = lock(&self.all).remove(id);
        ended.is_some_and(|session| session.has_listed())
    }

    /// From now on this build has what it needs, without a new listing of the tools.
    pub(super) fn grant(&self, tool: &Tool) {
        lock(&self.granted).insert(build(tool));
    }

    /// The tools were listed anew: what is granted is known from where grants are kept, and what was taken back there is
    /// no grant any more.
    pub(super) fn listed(&self) {
        lock(&self.granted).clear();
    }

    /// Whether a person has granted this build since the tools were listed.
    pub(super) fn has_granted(&self, tool: &Tool) -> bool {
        lock(&self.granted).contains(&build(tool))
    }
}

fn build(tool: &Tool) -> (String, String) {
    (tool.origin.location.clone(), tool.origin.digest.clone())
}

impl Session {
    /// Remembers where a result came from, as far as that matters for later calls.
    pub(super) fn read(&self, label: &Label) {
        if label.trust != TrustLevel::Untrusted && label.data_class < DataClass::Sensitive {
            return;
        }
        let mut state = lock(&self.0);
        if label.trust == TrustLevel::Untrusted {
            state.untrusted.get_or_insert_with(|| label.origin.clone());
        }
        if label.data_class >= DataClass::Sensitive {
            state.sensitive.get_or_insert_with(|| label.origin.clone());
        }
    }

    /// The worst that it has read.
    pub(super) fn label(&self) -> Label {
        let state = lock(&self.0);
        let mut origins = [&state.untrusted, &state.sensitive]
            .map(Option::as_deref)
            .to_vec();
        origins.dedup();
        Label {
            trust: match state.untrusted {
                Some(_) => TrustLevel::Untrusted,
                None => TrustLevel::System,
            },
            data_class: match state.sensitive {
                Some(_) => DataClass::Sensitive,
                None => DataClass::Public,
            },
            origin: origins
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" and "),
        }
    }

    /// Asks about a call that could do harm with what the session has read. `accepts` is what a person has set, `reads`
    /// the arguments that harm could lie in.
    pub(super) fn taint(
        &self,
        tool: &Tool,
        accepts: Option<bool>,
        reads: Reads,
        evaluation: &mut Evaluation,
    ) {
        let state = lock(&self.0);
        let mut ask = |rule: &str, text: String| {
            let reason = Reason {
                layer: Layer::Taint,
                decision: Decision::Ask,
                rule: rule.to_owned(),
                source: "session".to_owned(),
                text,
            };
            evaluation.push_from(reason, reads.clone().into());
        };
        let sends = can_send(tool);
        if let Some(origin) = &state.untrusted
            && (accepts == Some(false) || (sends && accepts != Some(true)))
        {
            let text = format!(
                "this session has read content of strangers (from {origin}), which could be behind this call"
            );
            ask("taint: untrusted content", text);
        }
        if let Some(origin) = &state.sensitive
            && sends
        {
            let text = format!(
                "this session has read sensitive data (from {origin}), and this tool can send data out"
            );
            ask("taint: sensitive data", text);
        }
    }

    /// A person's answers for the rest of the session, but for those that were taken back: `listed` gives those of the
    /// listed ones that stand.
    pub(super) fn leases<E>(
        &self,
        listed: impl FnOnce() -> Result<Vec<Fingerprint>, E>,
    ) -> Result<Vec<Lease>, E> {
        if self.has_listed() {
            let standing = listed()?;
            let stands = |given: &Given| !given.listed || standing.contains(&given.lease.id);
            lock(&self.0).answers.retain(stands);
        }
        let state = lock(&self.0);
        Ok(state
            .answers
            .iter()
            .map(|given| given.lease.clone())
            .collect())
    }

    /// Remembers an answer until the session ends, or until it is taken back if it is listed.
    pub(super) fn keep(&self, lease: Lease, listed: bool) {
        let mut state = lock(&self.0);
        state.answers.retain(|given| given.lease.id != lease.id);
        state.answers.push(Given { lease, listed });
    }

    fn has_listed(&self) -> bool {
        lock(&self.0).answers.iter().any(|given| given.listed)
    }
}

/// Whether something can leave the machine, or the sandbox, through this tool.
pub(super) fn can_send(tool: &Tool) -> bool {
    let needs = &tool.definition.needs;
    // Whoever answers for a server or a model, or for what a team brings, is somewhere else.
    !needs.hosts.is_empty()
        || needs.model
        || matches!(tool.source, Source::Mcp | Source::Teams)
        || !needs.commands.is_empty()
        || matches!(tool.definition.group, Group::Net | Group::Browser)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
