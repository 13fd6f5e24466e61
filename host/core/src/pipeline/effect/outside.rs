//! The way of a command to the network, where the settings give commands one: each of its requests is judged like one
//! of the tool that runs it, but the tool names no hosts for the commands of others. What they reach is what the
//! settings let, and a person is asked about the rest.

use std::fmt;
use std::sync::Arc;

use crate::error::{Code, ToolError};
use crate::needs::{ANY_HOST, HostNeed, Needs};
use crate::outcome::{DataClass, Label, TrustLevel};
use crate::pipeline::session::Session;

use super::{Consent, Effects, Egress, Inner, Kept, Reach};

/// Judges the requests of one command. It outlives the call if the command does.
#[derive(Clone)]
pub struct Outside {
    effects: Effects,
    /// What could be reached when that was last looked up.
    kept: Arc<Kept>,
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
        }
    }

    /// What may be reached now. The same allocation as before, as long as nothing has changed.
    pub fn reach(&self) -> Arc<Reach> {
        self.kept.now(&self.effects.0, Whose::Command)
    }

    /// Judges a request, asks a person if need be, and puts on record what came of it.
    pub async fn request(&self, egress: Egress<'_>) -> Result<Consent, ToolError> {
        let consent = Box::pin(self.effects.0.request(egress, Whose::Command)).await?;
        self.effects.0.hears_strangers(egress);
        Ok(consent)
    }

    /// Puts on record that a request was not sent although it was let.
    pub fn refused(&self, egress: Egress<'_>, code: Code) {
        self.effects.refused(egress, code);
    }
}

impl Inner {
    /// What answers a command is anyone's word: so is what the command says from now on, and what the session has read.
    fn hears_strangers(&self, egress: Egress<'_>) {
        let label = Label {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Public,
            origin: format!("{}: {}", self.tool.name(), egress.target.host()),
        };
        self.parent.floor.note(&label);
        self.session().read(&label);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The tool itself, within the hosts that it was granted.
    Call,
    /// A command that it runs.
    Command,
}

/// What is sent through a proxy: any method of HTTP, and the one that opens a tunnel.
const METHODS: [&str; 8] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT",
];

impl Whose {
    /// The hosts of these rights for it.
    pub(super) fn hosts(self, rights: Needs) -> Vec<HostNeed> {
        let mut hosts = rights.hosts;
        if self == Self::Command {
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
            Self::Command => "a request of a command",
        }
    }
}
