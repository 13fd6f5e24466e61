//! The way of a command to the network, where the settings give commands one: each of its requests is judged like one
//! of the tool that runs it, but the tool names no hosts for the commands of others. What they reach is what the
//! settings let, and a person is asked about the rest.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::decision::Evaluation;
use crate::error::{Code, ToolError};
use crate::needs::{ANY_HOST, HostNeed, Needs};
use crate::network::Target;
use crate::outcome::{DataClass, Label, TrustLevel};
use crate::pipeline::session::{CommandId, ContentSource, Session};

use super::{Consent, Effects, Egress, Inner, Kept, Reach, asked_as};

/// Judges the requests of one command. It outlives the call if the command does.
#[derive(Clone)]
pub struct Outside {
    effects: Effects,
    /// What could be reached when that was last looked up.
    kept: Arc<Kept>,
    command: Arc<CommandRequests>,
}

/// A command, as the effect gate knows it.
pub(super) struct CommandRequests {
    id: CommandId,
    /// The questions about tunnels that a person has answered with yes.
    tunnels: Mutex<HashSet<String>>,
}

/// The commands so far.
static COMMANDS: AtomicU64 = AtomicU64::new(0);

impl CommandRequests {
    fn new() -> Self {
        Self {
            id: COMMANDS.fetch_add(1, Ordering::Relaxed),
            tunnels: Mutex::default(),
        }
    }

    /// Remembers that a person was asked about this and said yes. What a tunnel carries is not seen, so the next one to
    /// the same host is the same question; requests in the clear are asked about one by one.
    pub(super) fn consented(&self, egress: Egress<'_>, evaluation: &Evaluation) {
        if egress.method == "CONNECT" {
            let mut tunnels = self.tunnels.lock().unwrap_or_else(PoisonError::into_inner);
            tunnels.extend(
                evaluation
                    .asking()
                    .map(|reason| question(egress, &asked_as(reason))),
            );
        }
    }

    /// Returns true if a person has said yes to this question about this request.
    pub(super) fn has_answer(&self, egress: Egress<'_>, asked: &str) -> bool {
        let tunnels = self.tunnels.lock().unwrap_or_else(PoisonError::into_inner);
        egress.method == "CONNECT" && tunnels.contains(&question(egress, asked))
    }
}

fn question(egress: Egress<'_>, asked: &str) -> String {
    format!("{} {asked}", egress.target.origin())
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

impl Outside {
    pub(super) fn of(effects: &Effects) -> Self {
        Self {
            effects: effects.clone(),
            kept: Arc::default(),
            command: Arc::new(CommandRequests::new()),
        }
    }

    /// What may be reached now. The same allocation as before, as long as nothing has changed.
    pub fn reach(&self) -> Arc<Reach> {
        self.kept
            .now(&self.effects.0, Whose::Command(&self.command))
    }

    /// Judges a request, asks a person if need be, and puts on record what came of it.
    pub async fn request(&self, egress: Egress<'_>) -> Result<Consent, ToolError> {
        let whose = Whose::Command(&self.command);
        let consent = Box::pin(self.effects.0.request(egress, whose)).await?;
        self.effects.0.hears_strangers(egress, self.command.id);
        Ok(consent)
    }

    /// Returns what would let this request: the line to write in the settings, or the command to run.
    pub fn way_to(&self, target: &Target, method: &str) -> String {
        let inner = &*self.effects.0;
        let world = inner.pipeline.world();
        world.policy.way_to(&inner.tool, target, method)
    }

    /// Puts on record that a request was not sent although it was let, or was cut off, and why.
    pub fn refused(&self, egress: Egress<'_>, code: Code, why: &str) {
        self.effects.record_refused(egress, code, Some(why));
    }
}

impl Inner {
    /// What answers a command is anyone's word: so is what the command says from now on, and what the session has read.
    fn hears_strangers(&self, egress: Egress<'_>, command: CommandId) {
        let label = Label {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Public,
            origin: format!("{}: {}", self.tool.name(), egress.target.host()),
        };
        self.parent
            .floor
            .note_from(&label, ContentSource::Command(command));
        self.session().read(&label, ContentSource::Command(command));
    }

    /// The same of what a command says that may have gone on for longer than its call.
    pub(super) fn hears_what_the_session_has(&self) {
        self.parent.floor.note(&self.session().label());
    }

    fn session(&self) -> Arc<Session> {
        self.pipeline.0.sessions.get(&self.context.session_id)
    }
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// The tool itself, within the hosts that it was granted.
    Call,
    /// A command that it runs.
    Command(&'a CommandRequests),
}

/// What is sent through a proxy: any method of HTTP, and the one that opens a tunnel.
const METHODS: [&str; 8] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT",
];

impl Whose<'_> {
    /// The command, if it is one.
    pub(super) fn command(self) -> ContentSource {
        match self {
            Self::Call => ContentSource::Other,
            Self::Command(command) => ContentSource::Command(command.id),
        }
    }

    /// The hosts of these rights for it.
    pub(super) fn hosts(self, rights: Needs) -> Vec<HostNeed> {
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

    /// The request, as a sentence begins with it.
    pub(super) fn request(self) -> &'static str {
        match self {
            Self::Call => "a request",
            Self::Command(_) => "a request of a command",
        }
    }
}
