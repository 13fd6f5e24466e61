//! What a session has read and what a person has said in it. It begins with its first call.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::approval::{Fingerprint, Lease};
use crate::decision::{Basis, Decision, Evaluation, Layer, Reads, Reason};
use crate::outcome::{DataClass, Label, TrustLevel};
use crate::tool::{Group, Source, Tool};

use super::carried::{self, Seen};
use super::effect::Egress;
use super::network;

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
    /// The sources of untrusted content: the first, and the first of another source.
    untrusted: Vec<(ContentSource, String)>,
    /// Where the first sensitive content came from.
    sensitive: Option<String>,
    answers: Vec<Given>,
    /// The rules whose masks its results held.
    masked: BTreeSet<String>,
    /// The parts of fetched pages that may be sent again.
    seen: Seen,
}

/// Names a command among those that this process has run.
pub(crate) type CommandId = u64;

/// The source of untrusted content, or of what is judged. A source is not asked about because of its own content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentSource {
    /// A source that is not told apart from others.
    Other,
    /// The requests of one command.
    Command(CommandId),
    /// The server at this location.
    Server(String),
}

impl ContentSource {
    /// The source of the results of a tool, and the receiver of its arguments.
    pub(super) fn of(tool: &Tool) -> Self {
        match tool.source {
            Source::Mcp => Self::Server(tool.origin.location.clone()),
            Source::BuiltIn | Source::Custom | Source::Teams => Self::Other,
        }
    }
}

/// The way by which data could leave the machine with what is judged.
pub(super) enum WayOut<'a> {
    /// None, or requests and commands that are judged by themselves when they are made.
    None,
    /// A call whose requests are not judged before they are made. A server knows already what it said itself: that
    /// alone does not make the next call to it a question.
    Call(ContentSource),
    /// By this request.
    Request {
        /// The request.
        egress: Egress<'a>,
        /// True if the person has listed the host for this method, or has agreed to both for the session.
        listed: bool,
        /// The command that sends it. Content that it received by its own requests does not make its next request a
        /// question.
        command: ContentSource,
        /// The line that would list the host.
        way: &'a dyn Fn() -> String,
    },
}

impl WayOut<'_> {
    /// The way out by a call of this tool whose arguments name no request. `confined` is true if requests of its
    /// commands are judged by themselves.
    pub(super) fn of(tool: &Tool, confined: bool) -> Self {
        let needs = &tool.definition.needs;
        // Servers, models and tools of a team are operated elsewhere.
        let unseen = needs.model
            || matches!(tool.source, Source::Mcp | Source::Teams)
            || (!needs.commands.is_empty() && !confined);
        let networked = matches!(tool.definition.group, Group::Net | Group::Browser);
        if unseen || (networked && needs.hosts.is_empty()) {
            Self::Call(ContentSource::of(tool))
        } else {
            Self::None
        }
    }

    fn source(&self) -> &ContentSource {
        match self {
            Self::Request { command, .. } => command,
            Self::Call(receiver) => receiver,
            Self::None => &ContentSource::Other,
        }
    }
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
    /// Remembers where a result came from, as far as that matters for later calls, and by what way.
    pub(super) fn read(&self, label: &Label, source: ContentSource) {
        if label.trust != TrustLevel::Untrusted && label.data_class < DataClass::Sensitive {
            return;
        }
        let mut state = lock(&self.0);
        if label.trust == TrustLevel::Untrusted
            && state.untrusted.len() < 2
            && state.untrusted.iter().all(|(known, _)| *known != source)
        {
            state.untrusted.push((source, label.origin.clone()));
        }
        if label.data_class >= DataClass::Sensitive {
            state.sensitive.get_or_insert_with(|| label.origin.clone());
        }
    }

    /// Remembers which masks a result held.
    pub(super) fn masked<'a>(&self, rules: impl Iterator<Item = &'a str>) {
        let mut rules = rules.peekable();
        if rules.peek().is_none() {
            return;
        }
        let mut state = lock(&self.0);
        for rule in rules {
            if !state.masked.contains(rule) {
                state.masked.insert(rule.to_owned());
            }
        }
    }

    /// Returns true if a mask of this rule was in a result.
    pub(super) fn has_masked(&self, rule: &str) -> bool {
        lock(&self.0).masked.contains(rule)
    }

    /// Remembers what a fetched text has in it that a later request may repeat.
    pub(super) fn fetched<'a>(&self, texts: impl Iterator<Item = &'a str>) {
        let mut state = lock(&self.0);
        texts.for_each(|text| state.seen.note(text));
    }

    /// The worst that it has read.
    pub(super) fn label(&self) -> Label {
        let state = lock(&self.0);
        let untrusted = state.untrusted.first().map(|(_, origin)| origin.as_str());
        let mut origins = vec![untrusted, state.sensitive.as_deref()];
        origins.dedup();
        Label {
            trust: match untrusted {
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

    /// Asks about what could do harm with what the session has read. `accepts` is what a person has set.
    pub(super) fn taint(
        &self,
        accepts: Option<bool>,
        out: &WayOut<'_>,
        evaluation: &mut Evaluation,
    ) {
        let state = lock(&self.0);
        let own = out.source();
        // A person who refuses untrusted content for a server refuses its own as well.
        let strict = accepts == Some(false) && matches!(own, ContentSource::Server(_));
        let mut untrusted = state.untrusted.iter();
        let untrusted = untrusted
            .find(|(source, _)| strict || *source == ContentSource::Other || source != own);
        if untrusted.is_none() && state.sensitive.is_none() {
            return;
        }
        let (sends, harmless, carried, per_origin) = match out {
            WayOut::None => (false, true, None, false),
            WayOut::Call(_) => (true, false, None, false),
            WayOut::Request { egress, listed, .. } => {
                let (reads, tunnel) = (carried::only_reads(*egress), egress.method == "CONNECT");
                let carried = carried::carried(*egress, &state.seen);
                // What goes through a tunnel is not seen. The network judges it again, with a body, when much was sent.
                let harmless = *listed && (reads || tunnel) && carried.is_none();
                let plain = tunnel || (reads && carried.is_none());
                (true, harmless, carried, plain)
            }
        };
        let mut ask = |rule: &str, text: String, way: Option<String>| {
            let text = match &carried {
                Some(carried) => format!("{text}; {carried}"),
                None => text,
            };
            let reason = Reason {
                layer: Layer::Taint,
                decision: Decision::Ask,
                rule: rule.to_owned(),
                source: "session".to_owned(),
                text,
            };
            let basis = Basis {
                reads: match out {
                    WayOut::Request { .. } => network::sent(),
                    WayOut::None | WayOut::Call(_) => Reads::Everything,
                },
                per_origin,
                way: way.map(Into::into),
                ..Basis::default()
            };
            evaluation.push_from(reason, basis);
        };
        if let Some((_, origin)) = untrusted
            && (accepts == Some(false) || (sends && !harmless && accepts != Some(true)))
        {
            let way = match out {
                WayOut::Request {
                    listed: false, way, ..
                } if per_origin => Some(way()),
                _ => None,
            };
            let text = format!(
                "this session has read content of strangers (from {origin}), which could be behind this call"
            );
            ask("taint: untrusted content", text, way);
        }
        if let Some(origin) = &state.sensitive
            && sends
        {
            let text = format!(
                "this session has read sensitive data (from {origin}), and this tool can send data out"
            );
            ask("taint: sensitive data", text, None);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
