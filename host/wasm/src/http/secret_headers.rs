//! Headers of a request with placeholders, and their replacement by secrets.

use parking_lot::Mutex;

use http::{HeaderMap, HeaderName, HeaderValue};
use mimir_core::network::{RequestTarget, UrlOrigin};
use mimir_core::pipeline::EffectGate;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::SecretSwap;

/// The headers with placeholders, and after authorization, the values to send.
pub(super) struct SecretHeaders {
    held: Vec<(HeaderName, HeaderValue)>,
    revealed: Mutex<Vec<RevealedHeader>>,
}

struct RevealedHeader {
    origin: UrlOrigin,
    name: HeaderName,
    held: HeaderValue,
    value: HeaderValue,
}

impl SecretHeaders {
    /// Returns the headers that contain placeholders of the call, if there are any.
    pub(super) fn find(effects: &EffectGate, headers: &HeaderMap) -> Option<Self> {
        let holds = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            let mut all = effects.placeholders();
            all.any(|(_, placeholder)| text.contains(placeholder))
        };
        let held = headers.iter().filter(|(_, value)| holds(value));
        let held: Vec<_> = held
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        (!held.is_empty()).then(|| Self {
            held,
            revealed: Mutex::default(),
        })
    }

    /// Gets the values for an authorized request from the effect gate.
    pub(super) fn reveal(
        &self,
        effects: &EffectGate,
        target: &RequestTarget,
    ) -> Result<(), ToolError> {
        let mut all = Vec::new();
        for (name, held) in &self.held {
            let text = held.to_str().unwrap_or_default();
            let Some(secret) = effects.insert_secrets(target, name.as_str(), text)? else {
                continue;
            };
            let value = HeaderValue::from_str(&secret).map_err(|_| {
                let message = format!(
                    "the secret for the header `{name}` has bytes that are not allowed in headers"
                );
                ToolError::new(ToolErrorCode::InvalidInput, message)
            })?;
            all.push(RevealedHeader {
                origin: target.origin().clone(),
                name: name.clone(),
                held: held.clone(),
                value,
            });
        }
        *self.revealed.lock() = all;
        Ok(())
    }
}

impl SecretSwap for SecretHeaders {
    fn swap(
        &self,
        origin: &UrlOrigin,
        name: &HeaderName,
        value: &HeaderValue,
    ) -> Option<HeaderValue> {
        let revealed = self.revealed.lock();
        let mut all = revealed.iter();
        let found =
            all.find(|one| one.origin == *origin && one.name == *name && one.held == *value);
        found.map(|one| one.value.clone())
    }
}
