//! Inserts secrets into requests: a tool only has a placeholder, and the value is inserted only into the granted header
//! of requests to the granted host.

use std::hash::{BuildHasher, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::audit::{AuditEvent, EventKind};
use crate::call::CallContext;
use crate::call_monitor::LiveEffect;
use crate::decision::Decision;
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::{Needs, SecretNeed};
use crate::network::{HostPattern, RequestTarget, UrlScheme};
use crate::redact::Redactor;

use super::{EffectGate, Inner, unrecorded_effect};

/// The placeholder of a secret in one call. It is not valid in other calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretPlaceholder {
    name: String,
    text: String,
}

impl SecretPlaceholder {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Number of hex digits in a placeholder: too many to guess.
const PLACEHOLDER_DIGITS: usize = 32;

/// Creates new placeholders for the secrets of a call.
pub(super) fn placeholders(rights: &Needs, context: &CallContext) -> Box<[SecretPlaceholder]> {
    let mut placeholders: Vec<SecretPlaceholder> = Vec::new();
    for need in &rights.secrets {
        if placeholders.iter().all(|known| known.name != need.name) {
            placeholders.push(SecretPlaceholder {
                text: placeholder_text(&need.name, context),
                name: need.name.clone(),
            });
        }
    }
    placeholders.into()
}

fn placeholder_text(name: &str, context: &CallContext) -> String {
    let mut hash = Sha256::new();
    for _ in 0..2 {
        // Each `RandomState` has keys from the system's random source.
        let keys = std::hash::RandomState::new();
        hash.update(keys.build_hasher().finish().to_le_bytes());
    }
    hash.update(context.request_id.as_str());
    hash.update(name);
    let hex = format!("{:x}", hash.finalize());
    format!(
        "mimir-secret-{}",
        crate::text::prefix(&hex, PLACEHOLDER_DIGITS)
    )
}

impl EffectGate {
    /// Returns the names of the secrets that the call may use, each with its placeholder.
    pub fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let placeholders = self.0.placeholders.iter();
        placeholders.map(|placeholder| (placeholder.name.as_str(), placeholder.text.as_str()))
    }

    /// Returns the headers in which secrets are sent to `target`, each with its placeholder, for tools whose host adds
    /// them.
    pub fn declared_headers(&self, target: &RequestTarget) -> Vec<(String, String)> {
        let inner = &*self.0;
        let Ok((_, rights)) = inner.current_rights(&inner.pipeline.snapshot()) else {
            return Vec::new();
        };
        let placeholder = |need: &SecretNeed| {
            let mut known = inner.placeholders.iter();
            known.find(|placeholder| placeholder.name == need.name)
        };
        let needs = rights.secrets.iter();
        needs
            .filter(|need| is_declared_for(need, &need.header, target))
            .filter_map(|need| Some((need.header.clone(), placeholder(need)?.text.clone())))
            .collect()
    }

    /// Returns the redactor that masks the call's secrets in responses before the tool reads them: a server that echoes
    /// a header must not reveal the secret. `None` if the call has no secrets.
    pub fn response_redactor(&self) -> Option<&Redactor> {
        self.0
            .response_redactor
            .get_or_init(|| self.0.secret_redactor())
            .as_ref()
    }

    /// Returns the value of a header of an allowed request, with placeholders replaced by secrets. `None` if the value
    /// has no placeholder that was granted for this header and host. Records each use of a secret before it is sent.
    pub fn insert_secrets(
        &self,
        target: &RequestTarget,
        header: &str,
        value: &str,
    ) -> Result<Option<String>, ToolError> {
        let inner = &*self.0;
        let mut used = inner
            .placeholders
            .iter()
            .filter(|placeholder| value.contains(&placeholder.text))
            .peekable();
        if used.peek().is_none() {
            return Ok(None);
        }
        let (_, rights) = inner.current_rights(&inner.pipeline.snapshot())?;
        let mut inserted = None;
        for placeholder in used {
            let mut needs = rights.secrets.iter();
            if let Some(need) = needs
                .find(|need| need.name == placeholder.name && is_declared_for(need, header, target))
            {
                let secret = inner.secret_value(&need.name, target)?;
                let text = inserted.as_deref().unwrap_or(value);
                let secret = header_form(text, &placeholder.text, secret);
                inserted = Some(text.replace(&placeholder.text, &secret));
            }
        }
        Ok(inserted)
    }
}

impl EffectGate {
    /// Returns the value of a secret that the host enters into a page of `target` on behalf of the tool, which does not
    /// see the value. `hosts` are the hosts for which the settings allow that. Records the use.
    ///
    /// # Errors
    ///
    /// Returns `POLICY_DENIED` for another host, or without encryption, and `UNAVAILABLE` if the secret is not set.
    pub fn secret_for_page(
        &self,
        name: &str,
        hosts: &[HostPattern],
        target: &RequestTarget,
    ) -> Result<String, ToolError> {
        let inner = &*self.0;
        inner.current_rights(&inner.pipeline.snapshot())?;
        if !hosts.iter().any(|host| host.matches(target)) {
            let message = format!(
                "the secret `{name}` may not be entered at `{}`",
                target.origin()
            );
            return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
        }
        inner.secret_value(name, target)
    }
}

/// Returns the text that replaces a placeholder in a header. After `Basic`, the secret `user:password` is encoded in
/// base64, as the scheme requires. A secret without a colon is encoded already.
fn header_form(header: &str, placeholder: &str, secret: String) -> String {
    let scheme = header.strip_suffix(placeholder).unwrap_or_default();
    if scheme.trim().eq_ignore_ascii_case("basic") && secret.contains(':') {
        return STANDARD.encode(secret);
    }
    secret
}

/// Returns the texts to mask besides the secret itself if the secret has the form `user:password`, in base64 or not: a
/// server that reads the header may return its parts.
fn credential_parts(secret: &str) -> Vec<String> {
    let decoded = || String::from_utf8(STANDARD.decode(secret).ok()?).ok();
    let credentials = if secret.contains(':') {
        secret.to_owned()
    } else {
        decoded().unwrap_or_default()
    };
    let Some((user, password)) = credentials.split_once(':') else {
        return Vec::new();
    };
    let mut parts = vec![STANDARD.encode(&credentials), password.to_owned()];
    // Some APIs take the key as the user name, with any password.
    if user.len() > password.len() {
        parts.push(user.to_owned());
    }
    parts.push(credentials);
    parts
}

/// Returns true if the secret was declared for this header of requests to this target.
fn is_declared_for(need: &SecretNeed, header: &str, target: &RequestTarget) -> bool {
    let pattern = need.host.parse::<HostPattern>();
    need.header.eq_ignore_ascii_case(header) && pattern.is_ok_and(|host| host.matches(target))
}

/// Returns true if the request cannot be read in transit: it uses https, or does not leave the machine.
fn is_private(target: &RequestTarget) -> bool {
    target.scheme() == UrlScheme::Https || target.host().is_this_machine()
}

impl Inner {
    /// Returns a redactor for the values of the secrets that the call may use. `None` if none of them is set.
    fn secret_redactor(&self) -> Option<Redactor> {
        if self.placeholders.is_empty() {
            return None;
        }
        let vault = &self.pipeline.0.ports.vault;
        let mut values = Vec::new();
        for placeholder in &self.placeholders {
            match vault.secret(&placeholder.name) {
                Ok(Some(value)) => {
                    if self.is_credential(&placeholder.name) {
                        let parts = credential_parts(&value).into_iter();
                        values.extend(parts.map(|part| (placeholder.name.clone(), part)));
                    }
                    values.push((placeholder.name.clone(), value));
                }
                Ok(None) => {}
                // Fall back to the redactor of all stored secrets.
                Err(_) => return Some(self.redactor.clone()),
            }
        }
        (!values.is_empty()).then(|| Redactor::new().with_values(values))
    }

    /// Returns true for a secret of the header `Authorization`.
    fn is_credential(&self, name: &str) -> bool {
        let needs = self.rights.secrets.iter();
        needs
            .filter(|need| need.name == name)
            .any(|need| need.header.eq_ignore_ascii_case("authorization"))
    }

    /// Returns the value of a secret that is about to be sent to `target`, and records the use.
    fn secret_value(&self, name: &str, target: &RequestTarget) -> Result<String, ToolError> {
        let ports = &self.pipeline.0.ports;
        let origin = target.origin();
        let unavailable = |why: String| ToolError::new(ToolErrorCode::Unavailable, why);
        if !is_private(target) {
            let message = format!(
                "the secret `{name}` is not sent to `{origin}` without encryption; use https"
            );
            return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
        }
        let value = ports.vault.secret(name);
        let value = value
            .map_err(|error| unavailable(error.to_string()))?
            .ok_or_else(|| {
                let remedy = format!("`mimir secrets set {name}` stores it");
                unavailable(format!("the secret `{name}` is not set")).with_remedies([remedy])
            })?;
        // A value that the redactor does not know would not be masked if a server returned it.
        let exempt = self.redactor.is_exempt(&format!("secret:{name}"));
        if !exempt && self.redactor.find(value.as_bytes()).is_empty() {
            let message = format!(
                "the secret `{name}` could not be masked: it is too short, or was set after the call began"
            );
            return Err(unavailable(message));
        }
        let event = AuditEvent::new(EventKind::Effect, ports.clock.now())
            .with_context(&self.context)
            .with_tool_origin(&self.tool)
            .with_subject(&format!("secret {name} for {origin}"));
        ports
            .audit
            .record(&event)
            .map_err(|error| unrecorded_effect(&error))?;
        let subject = format!("{name} for {origin}");
        self.report_effect(LiveEffect::Secret, &subject, Decision::Allow);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_after_basic_is_encoded() {
        let form =
            |header: &str, secret: &str| header_form(header, "placeholder", secret.to_owned());
        for (header, secret, expected) in [
            (
                "Basic placeholder",
                "user:pass phrase",
                "dXNlcjpwYXNzIHBocmFzZQ==",
            ),
            ("basic  placeholder", "u:", "dTo="),
            ("Basic placeholder", "dXNlcjpwYXNz", "dXNlcjpwYXNz"),
            ("Bearer placeholder", "user:pass", "user:pass"),
            ("placeholder", "user:pass", "user:pass"),
            ("Basic placeholder, x", "user:pass", "user:pass"),
        ] {
            assert_eq!(form(header, secret), expected, "{header}");
        }
    }

    #[test]
    fn secret_of_basic_is_masked_in_parts() {
        let redactor = |secret: &str| {
            let values = credential_parts(secret).into_iter();
            Redactor::new().with_values(values.map(|part| ("A", part)))
        };
        for secret in ["user:correct-horse", "dXNlcjpjb3JyZWN0LWhvcnNl"] {
            for text in [
                "password correct-horse",
                "user:correct-horse",
                "dXNlcjpjb3JyZWN0LWhvcnNl",
            ] {
                let mut masked = text.to_owned();
                redactor(secret).mask_text(&mut masked);
                assert!(!masked.contains(text), "{secret}: {masked}");
                assert!(!masked.contains("horse"), "{secret}: {masked}");
            }
        }
        let mut masked = "the user key-5f3a9c21e5".to_owned();
        redactor("key-5f3a9c21e5:x").mask_text(&mut masked);
        assert!(!masked.contains("key-5f3a9c21e5"), "{masked}");
        assert_eq!(credential_parts("a-token-without-parts"), [""; 0]);
    }
}
