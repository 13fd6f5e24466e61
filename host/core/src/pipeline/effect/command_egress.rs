//! Network access of commands, if the settings enable it: each request of a command is checked like a request of the
//! tool that runs the command. A tool cannot declare the hosts of arbitrary commands, so commands may reach the hosts
//! that the settings allow, and a person is asked about all others.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::decision::PolicyEvaluation;
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::{ANY_HOST, HostNeed, Needs};
use crate::network::RequestTarget;
use crate::outcome::{ContentLabel, DataClass, TrustLevel};
use crate::pipeline::session::{CommandId, ContentSource, PipelineSession};
use crate::trace_context::TraceContext;

use super::{
    CachedNetworkAccess, Consent, EffectGate, EgressPermission, Inner, NetworkAccess,
    OutgoingRequest, question_key,
};

/// Gate for the network requests of one command. It outlives the call if the command does.
#[derive(Clone)]
pub struct CommandEgress {
    effects: EffectGate,
    /// The last lookup of the command's network access.
    cached_access: Arc<CachedNetworkAccess>,
    command: Arc<CommandRequestState>,
}

/// The id of one command, and the tunnels that a person has approved for it.
pub(super) struct CommandRequestState {
    id: CommandId,
    /// Keys of the approved `ask` reasons about tunnels, each with the origin of the tunnel.
    tunnels: Mutex<HashSet<String>>,
    /// The only hosts that the command may reach. `None` for all hosts that the settings allow.
    hosts: Option<Vec<HostNeed>>,
}

/// The id of the next command. The first one is random, so that ids of different processes differ.
static NEXT_COMMAND: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));

impl CommandRequestState {
    fn new(hosts: Option<Vec<HostNeed>>) -> Self {
        Self {
            id: NEXT_COMMAND.fetch_add(1, Ordering::Relaxed),
            tunnels: Mutex::default(),
            hosts,
        }
    }

    /// Remembers that a person has approved a tunnel. Further tunnels to the same origin are not asked about again,
    /// because the content of a tunnel is not visible. Plain requests are asked about each time.
    pub(super) fn record_consent(
        &self,
        egress: OutgoingRequest<'_>,
        evaluation: &PolicyEvaluation,
    ) {
        if egress.method == "CONNECT" {
            let mut tunnels = self.tunnels.lock();
            tunnels.extend(
                evaluation
                    .asking()
                    .map(|reason| consent_key(egress, &question_key(reason))),
            );
        }
    }

    /// Returns true if the request is a tunnel, and a person has approved the reason with this key for its origin.
    pub(super) fn has_consent(&self, egress: OutgoingRequest<'_>, question_key: &str) -> bool {
        let tunnels = self.tunnels.lock();
        egress.method == "CONNECT" && tunnels.contains(&consent_key(egress, question_key))
    }
}

fn consent_key(egress: OutgoingRequest<'_>, question_key: &str) -> String {
    format!("{} {question_key}", egress.target.origin())
}

impl fmt::Debug for CommandEgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandEgress")
    }
}

impl CommandEgress {
    pub(super) fn new(effects: &EffectGate) -> Self {
        Self::with_hosts(effects, None)
    }

    /// Creates a gate that allows these hosts only, within the settings.
    pub(super) fn limited_to(effects: &EffectGate, hosts: Vec<HostNeed>) -> Self {
        Self::with_hosts(effects, Some(hosts))
    }

    fn with_hosts(effects: &EffectGate, hosts: Option<Vec<HostNeed>>) -> Self {
        Self {
            effects: effects.clone(),
            cached_access: Arc::default(),
            command: Arc::new(CommandRequestState::new(hosts)),
        }
    }

    /// Returns true if the command has network access of its own, whatever the settings say about other commands.
    pub fn is_limited(&self) -> bool {
        self.command.hosts.is_some()
    }

    /// Returns the trace context that a request of the command to this target carries, if the settings name the host.
    pub fn trace_context_for(&self, target: &RequestTarget) -> Option<TraceContext> {
        self.effects.trace_context_for(target)
    }

    /// Returns the current network access of the command. The `Arc` is the same as in the last lookup if nothing has
    /// changed since.
    pub fn reach(&self) -> Arc<NetworkAccess> {
        self.cached_access
            .current(&self.effects.0, RequestSender::Command(&self.command))
    }

    /// Checks a request, asks a person if needed, and records the result. Fails if the request is denied or cannot be
    /// recorded: it must not be sent then.
    pub async fn request(
        &self,
        egress: OutgoingRequest<'_>,
    ) -> Result<EgressPermission, ToolError> {
        let sender = RequestSender::Command(&self.command);
        // The user has configured the hosts of a limited command, or the question about it has shown them.
        let consent = if sender.is_limited() {
            Consent::Host { may_ask: true }
        } else {
            Consent::Ask
        };
        let permission = Box::pin(self.effects.0.request(egress, sender, consent, None)).await?;
        self.effects.0.taint_from_response(egress, self.command.id);
        Ok(permission)
    }

    /// Returns the remedy for a request to an unlisted host: the line to write in the settings, or the command to run.
    pub fn request_remedy(&self, target: &RequestTarget, method: &str) -> String {
        let inner = &*self.effects.0;
        let snapshot = inner.pipeline.snapshot();
        snapshot.policy.request_remedy(&inner.tool, target, method)
    }

    /// Records that an allowed request was not sent or was aborted. `why` is the reason, in one sentence.
    pub fn refused(&self, egress: OutgoingRequest<'_>, code: ToolErrorCode, why: &str) {
        self.effects.record_refused(egress, code, Some(why));
    }
}

impl Inner {
    /// Marks the session and the call as untrusted, because the response, and with it all later output of the command,
    /// may come from anyone.
    fn taint_from_response(&self, egress: OutgoingRequest<'_>, command: CommandId) {
        let label = ContentLabel {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Public,
            origin: format!("{}: {}", self.tool.name(), egress.target.host()),
        };
        self.parent
            .taint_floor
            .add_label_from(&label, ContentSource::Command(command));
        self.session()
            .record_read(&label, ContentSource::Command(command));
    }

    /// Adds the label of the session to the call: the output that the call reads may come from a command that an
    /// earlier call started.
    pub(super) fn taint_from_session(&self) {
        self.parent.taint_floor.add_label(&self.session().label());
    }

    fn session(&self) -> Arc<PipelineSession> {
        self.pipeline.0.sessions.get(&self.context.session_id)
    }
}

/// The sender of a request.
#[derive(Clone, Copy)]
pub(super) enum RequestSender<'a> {
    /// The tool itself, which is limited to its granted hosts.
    Call,
    /// A command of the tool.
    Command(&'a CommandRequestState),
}

/// The methods that the proxy for commands forwards: HTTP methods, and `CONNECT`, which opens a tunnel.
const METHODS: [&str; 8] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT",
];

impl RequestSender<'_> {
    /// Returns the source of the content that the sender receives.
    pub(super) fn content_source(self) -> ContentSource {
        match self {
            Self::Call => ContentSource::Other,
            Self::Command(command) => ContentSource::Command(command.id),
        }
    }

    /// Returns the hosts that the sender may request, within the settings: the granted hosts, and for a command, any
    /// host, unless it is limited to certain hosts.
    pub(super) fn hosts(self, rights: Needs) -> Vec<HostNeed> {
        if let Self::Command(CommandRequestState {
            hosts: Some(hosts), ..
        }) = self
        {
            return hosts.clone();
        }
        let mut hosts = rights.hosts;
        if let Self::Command(_) = self {
            hosts.push(HostNeed {
                host: ANY_HOST.to_owned(),
                methods: METHODS.map(str::to_owned).into(),
                reason: String::new(),
            });
        }
        hosts
    }

    /// Returns true if the sender is limited to certain hosts, which need no approval.
    pub(super) fn is_limited(self) -> bool {
        matches!(self, Self::Command(command) if command.hosts.is_some())
    }

    /// Returns the name of the sender's requests, for the beginning of a message.
    pub(super) fn request_noun(self) -> &'static str {
        match self {
            Self::Call => "a request",
            Self::Command(_) => "a request of a command",
        }
    }
}
