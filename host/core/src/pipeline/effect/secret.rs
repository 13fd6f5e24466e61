//! Secrets at the boundary: a tool holds a placeholder, and the value goes only into the header, and to the host, that a
//! person has granted it for.

use std::hash::{BuildHasher, Hasher};

use sha2::{Digest, Sha256};

use crate::audit::{Event, Kind};
use crate::call::CallContext;
use crate::error::{Code, ToolError};
use crate::needs::{Needs, SecretNeed};
use crate::network::{HostPattern, Scheme, Target};
use crate::redact::Redactor;

use super::{Effects, Inner, unsent};

/// What stands for a secret in one call. It is worth nothing anywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placeholder {
    name: String,
    text: String,
}

impl Placeholder {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Hex digits of a placeholder: as many as nobody guesses.
const DIGITS: usize = 32;

/// New placeholders for the secrets of a call.
pub(super) fn placeholders(rights: &Needs, context: &CallContext) -> Box<[Placeholder]> {
    let mut all: Vec<Placeholder> = Vec::new();
    for need in &rights.secrets {
        if all.iter().all(|known| known.name != need.name) {
            all.push(Placeholder {
                text: random(&need.name, context),
                name: need.name.clone(),
            });
        }
    }
    all.into()
}

fn random(name: &str, context: &CallContext) -> String {
    let mut hash = Sha256::new();
    for _ in 0..2 {
        // Each of these has keys of the system's own chance.
        let keys = std::hash::RandomState::new();
        hash.update(keys.build_hasher().finish().to_le_bytes());
    }
    hash.update(context.request_id.as_str());
    hash.update(name);
    let hex = format!("{:x}", hash.finalize());
    format!("mimir-secret-{}", crate::text::prefix(&hex, DIGITS))
}

impl Effects {
    /// The names of the secrets that the call may use, each with what the tool gets in its place.
    pub fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.placeholders.iter();
        all.map(|one| (one.name.as_str(), one.text.as_str()))
    }

    /// Knows the values of the secrets that the call may use, to mask them in what servers answer before the tool reads
    /// it: one that sends a header back must not hand out its value. Nothing if the call may use none.
    pub fn answers(&self) -> Option<&Redactor> {
        self.0.answers.get_or_init(|| self.0.values()).as_ref()
    }

    /// The value of a header of a request that was let, with the secrets in place of their placeholders; nothing if
    /// none of them belongs into this header for this host. What is handed out is on record before.
    pub fn reveal(
        &self,
        target: &Target,
        header: &str,
        value: &str,
    ) -> Result<Option<String>, ToolError> {
        let inner = &*self.0;
        let mut held = inner
            .placeholders
            .iter()
            .filter(|one| value.contains(&one.text))
            .peekable();
        if held.peek().is_none() {
            return Ok(None);
        }
        let (_, rights) = inner.standing(&inner.pipeline.world())?;
        let mut swapped = None;
        for placeholder in held {
            let mut needs = rights.secrets.iter();
            if let Some(need) =
                needs.find(|need| need.name == placeholder.name && belongs(need, header, target))
            {
                let secret = inner.secret(need, target)?;
                let text = swapped.as_deref().unwrap_or(value);
                swapped = Some(text.replace(&placeholder.text, &secret));
            }
        }
        Ok(swapped)
    }
}

/// Whether a secret was declared for this header of a request to this host.
fn belongs(need: &SecretNeed, header: &str, target: &Target) -> bool {
    let pattern = need.host.parse::<HostPattern>();
    need.header.eq_ignore_ascii_case(header) && pattern.is_ok_and(|host| host.matches(target))
}

/// Whether nobody on the way can read along: by https, or without leaving the machine.
fn is_private(target: &Target) -> bool {
    target.scheme() == Scheme::Https || target.host().is_this_machine()
}

impl Inner {
    /// Knows the values of the secrets that the call may use.
    fn values(&self) -> Option<Redactor> {
        if self.placeholders.is_empty() {
            return None;
        }
        let vault = &self.pipeline.0.ports.vault;
        let mut values = Vec::new();
        for placeholder in &self.placeholders {
            match vault.secret(&placeholder.name) {
                Ok(Some(value)) => values.push((placeholder.name.clone(), value)),
                Ok(None) => {}
                // Then all that is kept here is masked.
                Err(_) => return Some(self.redactor.clone()),
            }
        }
        (!values.is_empty()).then(|| Redactor::new().with_values(values))
    }

    fn secret(&self, need: &SecretNeed, target: &Target) -> Result<String, ToolError> {
        let ports = &self.pipeline.0.ports;
        let (name, origin) = (&need.name, target.origin());
        let unavailable = |why: String| ToolError::new(Code::Unavailable, why);
        if !is_private(target) {
            let message =
                format!("the secret `{name}` is not sent to `{origin}` in the clear; use https");
            return Err(ToolError::new(Code::PolicyDenied, message));
        }
        let value = ports.vault.secret(name);
        let value = value
            .map_err(|error| unavailable(error.to_string()))?
            .ok_or_else(|| {
                let way = format!("`mimir secrets set {name}` keeps it");
                unavailable(format!("the secret `{name}` is not set")).with_way_out([way])
            })?;
        // What the call does not know as a secret would not be masked where a server sends it back.
        let exempt = self.redactor.is_exempt(&format!("secret:{name}"));
        if !exempt && self.redactor.find(value.as_bytes()).is_empty() {
            let message = format!(
                "the secret `{name}` could not be masked: it is too short, or was set after the call began"
            );
            return Err(unavailable(message));
        }
        let event = Event::of(Kind::Effect, ports.clock.now())
            .in_call(&self.context)
            .of_tool(&self.tool)
            .with_subject(&format!("secret {name} for {origin}"));
        ports.audit.record(&event).map_err(|error| unsent(&error))?;
        Ok(value)
    }
}
