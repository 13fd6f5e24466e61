//! The state of a session: the taint label of the content that it has read, and the approvals for the session. A
//! session begins with its first call.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::approval::{Fingerprint, StoredApproval, UntrustedRead};
use crate::call::SessionSharing;
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};
use crate::outcome::{ContentLabel, DataClass, Outcome, TrustLevel};
use crate::redact::{MaskSummary, SecretDigest};
use crate::skill_grant::SkillGrant;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::effect::OutgoingRequest;
use super::exfiltration::{self, FetchedFragments};
use super::network;

mod shared;

pub(super) use shared::{remove_record_later, unavailable};

use shared::SharedCopy;

/// The sessions of one pipeline, and the plugin builds that were granted since the tools were last listed.
#[derive(Default)]
pub(super) struct PipelineSessions {
    sessions: Mutex<HashMap<String, Arc<PipelineSession>>>,
    granted: Mutex<HashSet<(String, String)>>,
    /// The time of the last order to stop all calls that was carried out, in milliseconds since 1970.
    stopped_at: AtomicU64,
}

/// Maximum number of masked values of one rule that a session remembers: more than any edited file contains.
const MASKED_VALUES_MAX: usize = 10_000;

/// Maximum number of untrusted results that a session remembers. The first ones matter most.
const UNTRUSTED_READS_MAX: usize = 8;

/// Number of the first untrusted results that the lines of later calls name, in addition to the newest.
const RECORDED_READS_MAX: usize = 3;

/// The state of one session.
#[derive(Default)]
pub(super) struct PipelineSession(Mutex<SessionState>);

#[derive(Default)]
struct SessionState {
    /// The first two different sources of untrusted content, each with the origin of its first content.
    untrusted: Vec<(ContentSource, String)>,
    /// The origin of the first sensitive content.
    sensitive: Option<String>,
    /// The first untrusted results that the session has read in this process, for questions about later calls.
    untrusted_reads: Vec<UntrustedRead>,
    /// The id of the newest call with untrusted content in this process.
    newest_read: String,
    approvals: Vec<SessionAnswer>,
    /// The permissions of the skills that the session uses.
    skills: Vec<SkillGrant>,
    /// The clients that share the session. If there are several, the skill of one says nothing about the calls of
    /// another.
    sharing: SessionSharing,
    /// The rules whose masks were in results of the session, with digests of the masked values.
    masked: BTreeMap<String, BTreeSet<SecretDigest>>,
    /// Runs of characters in fetched pages, which requests may contain.
    fetched: FetchedFragments,
    /// The relation to the record of a session that several processes share. Without connections, it is not used.
    shared: SharedCopy,
}

/// Identifies a command. Ids of different processes differ.
pub(crate) type CommandId = u64;

/// The source of untrusted content, or the receiver of a call or request. Content from a source is no reason to ask
/// about sending data back to that source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ContentSource {
    /// Any other source. These sources are not distinguished.
    Other,
    /// The responses to requests of one command.
    Command(CommandId),
    /// The server at this location.
    Server(String),
}

impl ContentSource {
    /// Returns the source of a tool's results, which is also the receiver of its arguments.
    pub(super) fn from_tool(tool: &Tool) -> Self {
        match tool.source {
            ToolSource::Mcp => Self::Server(tool.origin.location.clone()),
            ToolSource::BuiltIn | ToolSource::Custom | ToolSource::Teams => Self::Other,
        }
    }
}

/// The path by which data could leave the machine with a call or request.
pub(super) enum EgressPath<'a> {
    /// No path, or only requests and commands that are evaluated separately.
    None,
    /// A call whose requests are not evaluated separately. If the session has read only the responses of the receiving
    /// server, which the server already knows, the next call to it is not asked about.
    Call(ContentSource),
    /// A request.
    Request {
        /// The request.
        egress: OutgoingRequest<'a>,
        /// True if a person has listed the host for this method, or has approved the request to the unlisted host.
        listed: bool,
        /// The command that sends the request. Responses to the command's own requests are no reason to ask about its
        /// next request.
        command: ContentSource,
        /// Returns the remedy that would list the host.
        remedy: &'a dyn Fn() -> String,
    },
}

impl EgressPath<'_> {
    /// Returns the path of a call of this tool whose arguments name no request. `confined` is true if requests of
    /// commands are evaluated separately.
    pub(super) fn for_tool(tool: &Tool, confined: bool) -> Self {
        let needs = &tool.definition.needs;
        // Servers and models run outside mimir's control.
        let is_unmonitored = needs.model
            || tool.source == ToolSource::Mcp
            || (!needs.commands.is_empty() && !confined);
        let is_networked = matches!(tool.definition.group, ToolGroup::Net | ToolGroup::Browser);
        if is_unmonitored || (is_networked && needs.hosts.is_empty()) {
            Self::Call(ContentSource::from_tool(tool))
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

/// An approval for the session.
struct SessionAnswer {
    approval: StoredApproval,
    /// True if the approval is in the list from which a person can revoke it.
    listed: bool,
    /// True if the approval is not in the shared record of the session yet.
    is_pending: bool,
}

impl SessionState {
    /// Adds a source of untrusted content, unless it is known or two others are. Returns true if it was added.
    fn add_untrusted(&mut self, source: &ContentSource, origin: &str) -> bool {
        let is_new =
            self.untrusted.len() < 2 && self.untrusted.iter().all(|(known, _)| known != source);
        if is_new {
            self.untrusted.push((source.clone(), origin.to_owned()));
        }
        is_new
    }
}

impl PipelineSessions {
    /// Returns the session with this id, and creates it if needed.
    pub(super) fn get(&self, id: &str) -> Arc<PipelineSession> {
        let mut sessions = lock(&self.sessions);
        match sessions.get(id) {
            Some(session) => Arc::clone(session),
            None => Arc::clone(sessions.entry(id.to_owned()).or_default()),
        }
    }

    /// Returns true if the session with this id is `session`, which has not ended.
    pub(super) fn is_current(&self, id: &str, session: &Arc<PipelineSession>) -> bool {
        let sessions = lock(&self.sessions);
        let current = sessions.get(id);
        current.is_some_and(|current| Arc::ptr_eq(current, session))
    }

    /// Removes an ended session. Returns true if one of its approvals is listed.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = lock(&self.sessions).remove(id);
        ended.is_some_and(|session| session.has_listed())
    }

    /// Returns the ids of all sessions if the order to stop all calls, given at this time, was not carried out yet.
    pub(super) fn begin_stop(&self, at_ms: u64) -> Vec<String> {
        if self.stopped_at.swap(at_ms, Ordering::Relaxed) == at_ms {
            return Vec::new();
        }
        self.ids()
    }

    /// Returns the ids of all sessions.
    pub(super) fn ids(&self) -> Vec<String> {
        lock(&self.sessions).keys().cloned().collect()
    }

    /// Marks the build of this tool's plugin as granted until the tools are listed again.
    pub(super) fn grant(&self, tool: &Tool) {
        lock(&self.granted).insert(build_key(tool));
    }

    /// Clears the builds granted since the last listing. The new listing has applied the stored grants, without revoked
    /// ones.
    pub(super) fn clear_granted(&self) {
        lock(&self.granted).clear();
    }

    /// Returns true if the build of this tool's plugin was granted since the tools were last listed.
    pub(super) fn has_granted(&self, tool: &Tool) -> bool {
        lock(&self.granted).contains(&build_key(tool))
    }
}

fn build_key(tool: &Tool) -> (String, String) {
    (tool.origin.location.clone(), tool.origin.digest.clone())
}

impl PipelineSession {
    /// Remembers the origin and the source of an untrusted or sensitive result.
    pub(super) fn record_read(&self, label: &ContentLabel, source: ContentSource) {
        if label.trust != TrustLevel::Untrusted && label.data_class < DataClass::Sensitive {
            return;
        }
        let changed = self.add_label(label, &source);
        if changed {
            lock(&self.0).shared.changes += 1;
        }
    }

    /// Remembers the call whose result has untrusted content.
    pub(super) fn record_untrusted_call(&self, label: &ContentLabel, call: &str) {
        if label.trust != TrustLevel::Untrusted {
            return;
        }
        let mut state = lock(&self.0);
        call.clone_into(&mut state.newest_read);
        if state.untrusted_reads.len() < UNTRUSTED_READS_MAX {
            state.untrusted_reads.push(UntrustedRead {
                origin: label.origin.clone(),
                call_id: call.to_owned(),
            });
        }
    }

    /// Returns the ids of the calls whose untrusted content the session has read: the first ones and the newest.
    pub(super) fn untrusted_calls(&self) -> Vec<String> {
        let state = lock(&self.0);
        let first = state.untrusted_reads.iter().take(RECORDED_READS_MAX);
        let mut calls: Vec<String> = first.map(|read| read.call_id.clone()).collect();
        if !state.newest_read.is_empty() && !calls.contains(&state.newest_read) {
            calls.push(state.newest_read.clone());
        }
        calls
    }

    /// Returns the first untrusted results that the session has read, and the origin of the first sensitive content.
    pub(super) fn reads(&self) -> (Vec<UntrustedRead>, Option<String>) {
        let state = lock(&self.0);
        let mut reads = state.untrusted_reads.clone();
        let elsewhere = state.untrusted.iter().filter(|(_, origin)| {
            state
                .untrusted_reads
                .iter()
                .all(|read| read.origin != *origin)
        });
        reads.extend(elsewhere.map(|(_, origin)| UntrustedRead {
            origin: origin.clone(),
            call_id: String::new(),
        }));
        (reads, state.sensitive.clone())
    }

    /// Remembers the label of an outcome of another process, which has stored it.
    pub(super) fn record_outcome_elsewhere(&self, outcome: &Outcome) {
        self.add_label(&outcome.label, &outcome.source);
    }

    /// Adds a label. Returns true if the session changes.
    fn add_label(&self, label: &ContentLabel, source: &ContentSource) -> bool {
        let mut state = lock(&self.0);
        let mut changed = false;
        if label.trust == TrustLevel::Untrusted {
            changed |= state.add_untrusted(source, &label.origin);
        }
        if label.data_class >= DataClass::Sensitive && state.sensitive.is_none() {
            state.sensitive = Some(label.origin.clone());
            changed = true;
        }
        changed
    }

    /// Remembers the masks in a result.
    pub(super) fn record_masks(&self, masks: &MaskSummary) {
        if masks.count() == 0 {
            return;
        }
        let mut state = lock(&self.0);
        for (rule, values) in masks.values() {
            if !state.masked.contains_key(rule) {
                state.shared.changes += 1;
            }
            let known = state.masked.entry(rule.to_owned()).or_default();
            known.extend(values.iter().take(MASKED_VALUES_MAX - known.len()));
        }
    }

    /// Returns true if a mask of this rule was in a result.
    pub(super) fn has_masked(&self, rule: &str) -> bool {
        let state = lock(&self.0);
        state.masked.contains_key(rule) || state.shared.masked_elsewhere.contains(rule)
    }

    /// Returns true if a mask of this rule in a result replaced a value that is not among `values`.
    pub(super) fn has_masked_others(
        &self,
        rule: &str,
        values: Option<&BTreeSet<SecretDigest>>,
    ) -> bool {
        let state = lock(&self.0);
        if state.shared.masked_elsewhere.contains(rule) {
            return true;
        }
        let known = state.masked.get(rule);
        known.is_some_and(|known| values.is_none_or(|values| !known.is_subset(values)))
    }

    /// Remembers the runs of characters in fetched texts that later requests may contain.
    pub(super) fn record_fetched<'a>(&self, texts: impl Iterator<Item = &'a str>) {
        let mut state = lock(&self.0);
        let known = state.fetched.len();
        texts.for_each(|text| state.fetched.remember(text));
        if state.fetched.len() > known {
            state.shared.changes += 1;
        }
    }

    /// Returns the worst label of the content that the session has read.
    pub(super) fn label(&self) -> ContentLabel {
        let state = lock(&self.0);
        let untrusted = state.untrusted.first().map(|(_, origin)| origin.as_str());
        let mut origins = vec![untrusted, state.sensitive.as_deref()];
        origins.dedup();
        ContentLabel {
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

    /// Adds reasons to ask about a call that untrusted content may have caused, or that could send sensitive data out.
    /// `accepts_untrusted` is the person's setting for calls after untrusted content.
    pub(super) fn evaluate_taint(
        &self,
        accepts_untrusted: Option<bool>,
        egress_path: &EgressPath<'_>,
        evaluation: &mut PolicyEvaluation,
    ) {
        let state = lock(&self.0);
        let receiver = egress_path.source();
        // `acceptsUntrusted: false` for a server also covers the server's own content.
        let strict =
            accepts_untrusted == Some(false) && matches!(receiver, ContentSource::Server(_));
        let mut untrusted = state.untrusted.iter();
        let untrusted = untrusted
            .find(|(source, _)| strict || *source == ContentSource::Other || source != receiver);
        if untrusted.is_none() && state.sensitive.is_none() {
            return;
        }
        let (sends, harmless, carried, per_origin) = match egress_path {
            EgressPath::None => (false, true, None, false),
            EgressPath::Call(_) => (true, false, None, false),
            EgressPath::Request { egress, listed, .. } => {
                let (only_reads, is_tunnel) = (
                    exfiltration::only_reads(*egress),
                    egress.method == "CONNECT",
                );
                let carried = exfiltration::describe_carried_data(*egress, &state.fetched);
                // Untrusted content may have chosen the target and the data. So only requests to listed hosts that
                // carry no data are harmless. The content of a tunnel is not visible. Once more than 16 KiB were sent,
                // the tunnel is evaluated again as a request with a body.
                let harmless = *listed && (only_reads || is_tunnel) && carried.is_none();
                let per_origin = is_tunnel || (only_reads && carried.is_none());
                (true, harmless, carried, per_origin)
            }
        };
        let mut ask = |rule: &str, text: String, remedy: Option<String>| {
            let text = match &carried {
                Some(carried) => format!("{text}; {carried}"),
                None => text,
            };
            let reason = DecisionReason {
                layer: PolicyLayer::Taint,
                decision: Decision::Ask,
                rule: rule.to_owned(),
                source: "session".to_owned(),
                text,
            };
            let basis = RuleBasis {
                reads: match egress_path {
                    EgressPath::Request { .. } => network::request_arguments(),
                    EgressPath::None | EgressPath::Call(_) => RuleArguments::Everything,
                },
                per_origin,
                remedy: remedy.map(Into::into),
                ..RuleBasis::default()
            };
            evaluation.push_with_basis(reason, basis);
        };
        if let Some((_, origin)) = untrusted
            && (accepts_untrusted == Some(false)
                || (sends && !harmless && accepts_untrusted != Some(true)))
        {
            let remedy = match egress_path {
                EgressPath::Request {
                    listed: false,
                    remedy,
                    ..
                } if per_origin => Some(remedy()),
                _ => None,
            };
            let text = format!(
                "this session has read untrusted content (from {origin}), which may have caused this call"
            );
            ask(PolicyEvaluation::UNTRUSTED_CONTENT_RULE, text, remedy);
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

    /// Returns the approvals for the session, without revoked ones. `listed` returns the ids of the listed approvals
    /// that are still valid.
    pub(super) fn approvals<E>(
        &self,
        listed: impl FnOnce() -> Result<Vec<Fingerprint>, E>,
    ) -> Result<Vec<StoredApproval>, E> {
        if self.has_listed() {
            let valid = listed()?;
            let is_valid =
                |answer: &SessionAnswer| !answer.listed || valid.contains(&answer.approval.id);
            lock(&self.0).approvals.retain(is_valid);
        }
        let state = lock(&self.0);
        Ok(state
            .approvals
            .iter()
            .map(|answer| answer.approval.clone())
            .collect())
    }

    /// Remembers an approval until the session ends. A listed approval can be revoked before.
    pub(super) fn remember_approval(&self, approval: StoredApproval, listed: bool) {
        let mut state = lock(&self.0);
        state
            .approvals
            .retain(|answer| answer.approval.id != approval.id);
        state.approvals.push(SessionAnswer {
            approval,
            listed,
            is_pending: true,
        });
        state.shared.changes += 1;
    }

    /// Applies the permissions of a skill until the session ends, instead of those that the skill had before.
    pub(super) fn activate_skill(&self, grant: SkillGrant) {
        let mut state = lock(&self.0);
        state.skills.retain(|known| known.skill != grant.skill);
        if !grant.permissions.is_empty() && state.sharing.is_one_client() {
            state.skills.push(grant);
        }
    }

    /// Marks the session as shared by these clients, and by those who shared it before.
    pub(super) fn mark_shared(&self, sharing: SessionSharing) {
        let mut state = lock(&self.0);
        state.sharing = state.sharing.max(sharing);
        if !state.sharing.is_one_client() {
            state.skills.clear();
        }
    }

    /// Returns the clients that share the session.
    pub(super) fn sharing(&self) -> SessionSharing {
        lock(&self.0).sharing
    }

    /// Returns the permissions of the skills that the session uses.
    pub(super) fn skills(&self) -> Vec<SkillGrant> {
        lock(&self.0).skills.clone()
    }

    fn has_listed(&self) -> bool {
        lock(&self.0).approvals.iter().any(|answer| answer.listed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
