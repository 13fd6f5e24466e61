//! The login of a connection: the token of its requests, the renewal of the token, and the errors if the login is
//! missing or not sufficient.
//!
//! Out of scope: requests to the server itself, and starting a login.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::challenge::BearerChallenge;
use super::endpoint::{OauthEndpoint, check_url};
use super::stored_login::StoredLogin;
use super::token_endpoint::{TokenError, TokenRequest};
use super::{login, login_error, login_hint};
use crate::client::description::{DescriptionStore, mask_known_secrets};
use crate::client::server::ServerDeps;

/// The current login at a server.
pub(crate) struct BearerAuth {
    server: String,
    url: RequestTarget,
    oauth: McpOauthSettings,
    /// Key of the stored challenge.
    challenge_key: String,
    deps: ServerDeps,
    loaded: Mutex<LoadedLogin>,
    /// Held during a renewal: other requests wait for it.
    renewal: tokio::sync::Mutex<()>,
    /// Time of the last forced renewal, after the server rejected a token. Held during a forced renewal: other requests
    /// wait for it.
    last_forced: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct LoadedLogin {
    version: Option<u64>,
    login: Option<Arc<StoredLogin>>,
    /// All secret values of this connection, including tokens that were replaced.
    values: Vec<String>,
    redactor: Redactor,
}

/// A token for requests.
#[derive(Clone)]
pub(crate) struct BearerToken(Arc<StoredLogin>);

/// Minimum interval between forced renewals, for a server that rejects every token.
const MIN_FORCED_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of scopes shown, and maximum length of each in characters.
const MAX_SCOPES_SHOWN: usize = 10;
const MAX_SCOPE_CHARS: usize = 80;

/// Maximum number of values remembered as secret.
const MAX_SECRET_VALUES: usize = 64;

/// Kind of an error that requires a login.
const KIND: &str = "login";

/// Headers that carry credentials.
const AUTHORIZATION: &str = "authorization";

/// Returns true if the headers in the settings include `Authorization`.
pub(crate) fn has_authorization(headers: &[(String, String)]) -> bool {
    let mut names = headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION))
}

/// Returns true for an error whose only remedy is a login.
pub(crate) fn is_login_required(error: &ToolError) -> bool {
    let kind = error.details.as_ref().map(|details| &details["kind"]);
    kind.is_some_and(|kind| kind == KIND)
}

/// Returns the stored challenge of the last request that the server rejected, in any process.
pub(super) fn stored_challenge(store: &dyn DescriptionStore, key: &str) -> Option<BearerChallenge> {
    serde_json::from_str(&store.read(&stored_challenge_key(key))?).ok()
}

/// Removes the stored challenge.
pub(super) fn forget_challenge(store: &dyn DescriptionStore, key: &str) {
    store.write(&stored_challenge_key(key), "");
    // Clears the recorded failure, too, so that listings may retry.
    store.write(&format!("{key}-failed"), "");
}

fn stored_challenge_key(key: &str) -> String {
    format!("{key}{CHALLENGE_SUFFIX}")
}

/// Returns true if the key is that of a stored challenge.
pub(crate) fn is_challenge_key(key: &str) -> bool {
    key.ends_with(CHALLENGE_SUFFIX)
}

/// End of the keys of stored challenges.
const CHALLENGE_SUFFIX: &str = "-login";

/// Lists scopes for display. The list is limited, because scopes are untrusted text.
fn list_scopes(scopes: &[String]) -> String {
    let listed: Vec<String> = scopes
        .iter()
        .take(MAX_SCOPES_SHOWN)
        .map(|scope| format!("`{}`", visible(prefix(scope, MAX_SCOPE_CHARS))))
        .collect();
    let more = scopes.len().saturating_sub(MAX_SCOPES_SHOWN);
    match more {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

impl BearerToken {
    /// Returns the header with the token.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0.access)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl BearerAuth {
    /// Creates the login state for a server, or returns `None` if the headers in the settings carry the credentials.
    pub(crate) fn new(
        server: &str,
        url: &str,
        headers: &[(String, String)],
        oauth: &McpOauthSettings,
        challenge_key: String,
        deps: &ServerDeps,
    ) -> Option<Arc<Self>> {
        if has_authorization(headers) {
            return None;
        }
        Some(Arc::new(Self {
            server: server.to_owned(),
            url: RequestTarget::parse(url).ok()?,
            oauth: oauth.clone(),
            challenge_key,
            deps: deps.clone(),
            loaded: Mutex::default(),
            renewal: tokio::sync::Mutex::default(),
            last_forced: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the token for a request, renewed if needed, or `None` without a login.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<BearerToken>, ToolError> {
        let Some(login) = self.load()? else {
            return Ok(None);
        };
        if !login.needs_renewal() {
            return Ok(Some(BearerToken(login)));
        }
        let renewed = match login.refresh {
            Some(_) => self.renew(&login).await,
            None => Err(TokenError::Expired(login_error("it cannot be renewed"))),
        };
        match renewed {
            Ok(login) => Ok(Some(BearerToken(login))),
            Err(_) if !login.has_expired() => Ok(Some(BearerToken(login))),
            Err(TokenError::Expired(why)) => Err(self.expired_error(&why.message)),
            Err(TokenError::Failed(why)) => {
                let server = visible(&self.server);
                let message = format!(
                    "the login at the server `{server}` cannot be renewed now: {}",
                    why.message
                );
                let remedy = format!(
                    "try again; if it keeps failing, log in again with {}",
                    self.login_hint()
                );
                Err(ToolError::new(why.code, message).with_remedies([remedy]))
            }
        }
    }

    /// Returns a new token after the server rejected `token`, or `None` if the login cannot be renewed now.
    pub(crate) async fn replace_rejected(
        self: &Arc<Self>,
        token: &BearerToken,
    ) -> Option<BearerToken> {
        let mut last_forced = self.last_forced.lock().await;
        let login = self.load().ok()??;
        if login.access != token.0.access {
            return Some(BearerToken(login));
        }
        login.refresh.as_ref()?;
        if last_forced.is_some_and(|then| then.elapsed() < MIN_FORCED_INTERVAL) {
            return None;
        }
        *last_forced = Some(Instant::now());
        self.renew(&login).await.ok().map(BearerToken)
    }

    /// Returns the error for a server that requires a login or a new one. Stores the challenge for that login.
    pub(crate) fn login_required(
        &self,
        challenge: &BearerChallenge,
        token: Option<&BearerToken>,
    ) -> ToolError {
        let challenge = &self.without_secrets(challenge);
        self.store_challenge(challenge);
        match token {
            Some(_) => self.expired_error("the server no longer accepts it"),
            None => {
                let server = visible(&self.server);
                let message = match self.deps.logins.user() {
                    Some(_) => format!("the server `{server}` requires a login of your own"),
                    None => format!("the server `{server}` requires a login"),
                };
                self.login_error(message)
            }
        }
    }

    /// Returns the error for a login that lacks scopes.
    pub(crate) fn insufficient_scope(
        &self,
        challenge: &BearerChallenge,
        token: Option<&BearerToken>,
    ) -> ToolError {
        let challenge = &self.without_secrets(challenge);
        let server = visible(&self.server);
        let scopes = list_scopes(&challenge.scopes);
        if challenge.scopes.is_empty() {
            return ToolError::permission_denied(format!(
                "the login at the server `{server}` is not sufficient for this call, and the server does not name the missing scopes"
            ));
        }
        let is_covered =
            token.is_some_and(|BearerToken(login)| login.covers_scopes(&challenge.scopes));
        if is_covered {
            // Requesting the same scopes again would be an endless loop.
            return ToolError::permission_denied(format!(
                "the login at the server `{server}` is not sufficient for this call: the server requires {scopes}, which were already requested"
            ));
        }
        self.store_challenge(challenge);
        self.login_error(format!(
            "the login at the server `{server}` lacks scopes: this requires {scopes}"
        ))
    }

    /// Returns true if this login has values to mask.
    pub(crate) fn has_values(&self) -> bool {
        let loaded = self.loaded.lock();
        !loaded.values.is_empty()
    }

    /// Masks all values of this login in a message from the server: the secrets known to a call do not include a token
    /// that was renewed during the call.
    pub(crate) fn mask(&self, message: &mut Value) {
        let redactor = self.redactor();
        mask_known_secrets(&redactor, message);
    }

    /// Masks all values of this login in a text.
    pub(crate) fn mask_text(&self, text: &mut String) {
        self.redactor().mask_text(text);
    }

    /// Returns a challenge without the parts that contain secrets of this login, safe to show and store.
    fn without_secrets(&self, challenge: &BearerChallenge) -> BearerChallenge {
        let redactor = self.redactor();
        let is_clean = |text: &String| {
            let mut masked = text.clone();
            redactor.mask_text(&mut masked);
            masked == *text
        };
        let mut clean = challenge.clone();
        clean.scopes.retain(is_clean);
        clean.resource_metadata = clean.resource_metadata.filter(is_clean);
        clean
    }

    fn redactor(&self) -> Redactor {
        let loaded = self.loaded.lock();
        loaded.redactor.clone()
    }

    fn store_challenge(&self, challenge: &BearerChallenge) {
        if let Ok(text) = serde_json::to_string(challenge) {
            self.deps
                .store
                .write(&stored_challenge_key(&self.challenge_key), &text);
        }
    }

    fn expired_error(&self, why: &str) -> ToolError {
        let server = visible(&self.server);
        self.login_error(format!(
            "the login at the server `{server}` has expired: {why}"
        ))
    }

    fn login_error(&self, message: String) -> ToolError {
        let remedy = format!("log in with {}", self.login_hint());
        ToolError::unavailable(message)
            .with_details(json!({ "kind": KIND }))
            .with_remedies([remedy])
    }

    fn login_hint(&self) -> String {
        login_hint(&self.server, self.deps.logins.user())
    }

    /// Returns the stored login.
    fn load(&self) -> Result<Option<Arc<StoredLogin>>, ToolError> {
        let version = self.deps.logins.version();
        let mut loaded = self.loaded.lock();
        if loaded.version != Some(version) {
            let login = StoredLogin::read(&*self.deps.logins, &self.server, &self.url)?;
            // A login at another authorization server, or with another client, does not belong to these settings.
            let login = login.filter(|login| self.matches_settings(login));
            loaded.set(version, login.map(Arc::new));
        }
        Ok(loaded.login.clone())
    }

    fn matches_settings(&self, login: &StoredLogin) -> bool {
        let issuer = self.oauth.issuer.as_deref();
        let client = self.oauth.client_id.as_deref();
        let is_issuer =
            |name: &str| name.trim_end_matches('/') == login.issuer.trim_end_matches('/');
        issuer.is_none_or(is_issuer) && client.is_none_or(|id| id == login.client.id)
    }

    /// Renews a login in a task that survives the caller: without the response, the login would be lost.
    async fn renew(
        self: &Arc<Self>,
        stale: &Arc<StoredLogin>,
    ) -> Result<Arc<StoredLogin>, TokenError> {
        let (this, stale) = (Arc::clone(self), Arc::clone(stale));
        let renewed = tokio::spawn(async move { this.renew_now(&stale).await }).await;
        renewed.unwrap_or_else(|error| {
            let error = ToolError::internal(error);
            Err(TokenError::Failed(error))
        })
    }

    async fn renew_now(&self, stale: &StoredLogin) -> Result<Arc<StoredLogin>, TokenError> {
        let failed = TokenError::Failed;
        let _task_lock = self.renewal.lock().await;
        // A refresh token is valid once: if two processes sent it, both would lose the login.
        let lock = login::lock_renewal(&self.deps, &self.server, &self.url).await;
        let _process_lock = lock.map_err(failed)?;
        let login =
            StoredLogin::read(&*self.deps.logins, &self.server, &self.url).map_err(failed)?;
        let login = login.filter(|login| self.matches_settings(login));
        let Some(mut login) = login else {
            return Err(TokenError::Expired(login_error("the login was removed")));
        };
        if login.access != stale.access && !login.needs_renewal() {
            return self.set_login(login);
        }
        let Some(refresh) = login.refresh.clone() else {
            return Err(TokenError::Expired(login_error("it cannot be renewed")));
        };
        let endpoint = check_url(&login.token_endpoint, "token endpoint", &self.url);
        let clients = self.deps.clients_of(&self.server);
        let endpoint = endpoint.and_then(|endpoint| OauthEndpoint::new(endpoint, &*clients));
        let endpoint = endpoint.map_err(failed)?;
        let secret = login.client.secret(&self.oauth, &*self.deps.vault);
        let secret = secret.map_err(failed)?;
        let request = TokenRequest {
            endpoint: &endpoint,
            client: &login.client,
            secret: secret.as_deref(),
            resource: &login.resource,
        };
        match request.refresh(&refresh).await {
            Ok(granted) => {
                login.access = granted.access;
                login.refresh = granted.refresh.or(Some(refresh));
                login.expires_at = granted.expires_at;
                if let Some(scopes) = granted.scopes {
                    login.granted_scopes = scopes;
                }
                // The old refresh token is no longer valid, so this process uses the new login even if it cannot be
                // stored.
                if let Err(error) = login.write(&*self.deps.logins, &self.url) {
                    let server = visible(&self.server);
                    tracing::warn!(%error, "the renewed login at the server `{server}` cannot be stored");
                }
                self.set_login(login)
            }
            Err(TokenError::Expired(why)) => {
                // Prevents a second renewal.
                login.refresh = None;
                login.write(&*self.deps.logins, &self.url).map_err(failed)?;
                Err(TokenError::Expired(why))
            }
            Err(error) => Err(error),
        }
    }

    fn set_login(&self, login: StoredLogin) -> Result<Arc<StoredLogin>, TokenError> {
        let login = Arc::new(login);
        let version = self.deps.logins.version();
        let mut loaded = self.loaded.lock();
        loaded.set(version, Some(Arc::clone(&login)));
        Ok(login)
    }
}

impl LoadedLogin {
    fn set(&mut self, version: u64, login: Option<Arc<StoredLogin>>) {
        self.version = Some(version);
        let new_values = login.iter().flat_map(|login| login.values());
        let new_values: Vec<String> = new_values
            .filter(|value| !self.values.contains(value))
            .collect();
        if !new_values.is_empty() {
            self.values.extend(new_values);
            let over = self.values.len().saturating_sub(MAX_SECRET_VALUES);
            self.values.drain(..over);
            let values = self.values.iter();
            self.redactor = Redactor::new().with_values(values.map(|value| ("LOGIN", value)));
        }
        self.login = login;
    }
}
