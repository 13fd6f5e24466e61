//! Request headers with placeholders, and their replacement by secrets.

use parking_lot::Mutex;

use http::{HeaderMap, HeaderName, HeaderValue};
use mimir_core::network::{RequestTarget, UrlOrigin};
use mimir_core::pipeline::EffectGate;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::SecretSwap;

/// The headers of a request with placeholders, and the values to send once the request is authorized.
pub(super) struct SecretHeaders {
    with_placeholder: Vec<(HeaderName, HeaderValue)>,
    revealed: Mutex<Vec<RevealedHeader>>,
}

struct RevealedHeader {
    origin: UrlOrigin,
    name: HeaderName,
    with_placeholder: HeaderValue,
    value: HeaderValue,
}

impl SecretHeaders {
    /// Finds the headers that contain placeholders of the call; `None` without such headers.
    pub(super) fn find(effects: &EffectGate, headers: &HeaderMap) -> Option<Self> {
        let has_placeholder = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default();
            let mut placeholders = effects.placeholders();
            placeholders.any(|(_, placeholder)| text.contains(placeholder))
        };
        let with_placeholder = headers.iter().filter(|(_, value)| has_placeholder(value));
        let with_placeholder: Vec<_> = with_placeholder
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        (!with_placeholder.is_empty()).then(|| Self {
            with_placeholder,
            revealed: Mutex::default(),
        })
    }

    /// Stores the values to send, which the effect gate provides for an authorized request.
    pub(super) fn reveal(
        &self,
        effects: &EffectGate,
        target: &RequestTarget,
    ) -> Result<(), ToolError> {
        let mut headers = Vec::new();
        for (name, original) in &self.with_placeholder {
            let text = original.to_str().unwrap_or_default();
            let Some(secret) = effects.insert_secrets(target, name.as_str(), text)? else {
                continue;
            };
            let value = HeaderValue::from_str(&secret).map_err(|_| {
                let message = format!(
                    "the secret for the header `{name}` has bytes that are not allowed in headers"
                );
                ToolError::new(ToolErrorCode::InvalidInput, message)
            })?;
            headers.push(RevealedHeader {
                origin: target.origin().clone(),
                name: name.clone(),
                with_placeholder: original.clone(),
                value,
            });
        }
        *self.revealed.lock() = headers;
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
        let mut headers = revealed.iter();
        let header = headers.find(|header| {
            header.origin == *origin && header.name == *name && header.with_placeholder == *value
        });
        header.map(|header| header.value.clone())
    }
}
